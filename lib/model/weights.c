/* SPDX-License-Identifier: MIT */
/*
 * The weights of each part of a model, as the table of architectures says. A
 * tensor that nobody asked for is refused: it would mean something.
 */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* A norm over n values, with `rows` sets of weights. */
static int
find_norm(struct finder *f, const char *what, uint32_t n, uint32_t rows,
    enum need need, enum need bias, struct norm *norm)
{
	int got;

	norm->on = need != NEVER;
	if (f->m->h.norm == NORM_BARE || need == NEVER)
		return 0;
	got = find_vector(f, what, "weight", DIMS(n, rows), need, &norm->w);
	norm->on = got > 0;
	if (got <= 0)
		return got;
	return find_vector(f, what, "bias", DIMS(n), bias, &norm->b) < 0 ?
	    -1 : 1;
}

/* One of the stream. */
static int
find_stream_norm(struct finder *f, const char *what, enum need need,
    struct norm *norm)
{
	const struct hparams *h = &f->m->h;

	return find_norm(f, what, h->n_embd, 1, need, h->arch->norm_bias,
	    norm);
}

/* ---- attention ---- */

/*
 * Query, key and value: three matrices, or one with the rows of all three
 * (some converters fuse them); biases likewise, or three beside a fused weight.
 */
static int
find_qkv(struct finder *f, struct attention_weights *l)
{
	const struct hparams *h = &f->m->h;
	static const char *const part[3] = { "attn_q", "attn_k", "attn_v" };
	struct weight *w[3] = { &l->q, &l->k, &l->v };
	const uint32_t n_out[3] = {
		h->n_head[f->layer] * h->head_k,
		h->n_head_kv[f->layer] * h->head_k,
		h->n_head_kv[f->layer] * h->head_v
	};
	enum need need = h->arch->qkv_bias;
	const float *bias = NULL;
	int i, got;

	got = find_fused(f, "attn_qkv", h->n_embd, n_out, w, 3);
	if (got < 0)
		return -1;
	if (got > 0 && find_vector(f, "attn_qkv", "bias", DIMS(n_out[0] +
	    n_out[1] + n_out[2]), MIN(need, MAY), &bias) < 0)
		return -1;
	for (i = 0; i < 3; i++) {
		if (got == 0 && find_matrix(f, part[i], h->n_embd, n_out[i],
		    MUST, w[i]) < 0)
			return -1;
		if (bias != NULL) {
			w[i]->bias = bias;
			bias += n_out[i];
		} else if (find_vector(f, part[i], "bias", DIMS(n_out[i]),
		    need, &w[i]->bias) < 0) {
			return -1;
		}
	}
	return 0;
}

/* Norms of queries and keys. */
static int
find_qk_norms(struct finder *f, struct attention_weights *l)
{
	const struct hparams *h = &f->m->h;
	uint32_t n = h->head_k, rows_q = 1, rows_k = 1, q, k;
	enum need need = MUST, bias = NEVER;

	q = h->n_head[f->layer];
	k = h->n_head_kv[f->layer];
	switch (h->arch->qk_norm) {
	case QK_PLAIN:
		return 0;
	case QK_HEAD:
		q = k = n;
		break;
	case QK_OWN:
		rows_q = q;
		rows_k = k;
		q = k = n;
		need = MAY;
		break;
	case QK_ROW_MAY:
		need = MAY;
		bias = MAY;
		/* fallthrough */
	case QK_ROW:
		q *= n;
		k *= n;
		break;
	}
	if (find_norm(f, "attn_q_norm", q, rows_q, need, bias,
	    &l->q_norm) < 0)
		return -1;
	need = l->q_norm.on ? MUST : NEVER;
	return find_norm(f, "attn_k_norm", k, rows_k, need, bias,
	    &l->k_norm) < 0 ? -1 : 0;
}

static int
find_attention(struct finder *f, struct attention_weights *l)
{
	const struct hparams *h = &f->m->h;
	uint32_t n_head = h->n_head[f->layer];

	if (find_qkv(f, l) < 0 || find_qk_norms(f, l) < 0 ||
	    find_linear(f, "attn_output", n_head * h->head_v, h->n_embd,
	    h->arch->out_bias, &l->out) < 0)
		return -1;
	return find_vector(f, "attn_sinks", "weight", DIMS(n_head),
	    h->arch->sinks ? MUST : NEVER, &l->sinks);
}

static int
find_mla(struct finder *f, struct mla_weights *l)
{
	const struct hparams *h = &f->m->h;
	uint32_t n_head = h->n_head[f->layer], d = h->n_embd;
	uint32_t q = n_head * (h->mla_k + h->n_rot), kv = h->kv_rank;

	if (h->q_rank == 0) {
		if (find_matrix(f, "attn_q", d, q, MUST, &l->q) < 0)
			return -1;
	} else if (find_matrix(f, "attn_q_a", d, h->q_rank, MUST,
	    &l->q_a) < 0 || find_norm(f, "attn_q_a_norm", h->q_rank, 1, MUST,
	    NEVER, &l->q_norm) < 0) {
		return -1;
	}
	if (find_matrix(f, "attn_kv_a_mqa", d, kv + h->n_rot, MUST,
	    &l->kv_a) < 0 || find_norm(f, "attn_kv_a_norm", kv, 1, MUST, NEVER,
	    &l->kv_norm) < 0 || (h->q_rank > 0 && find_matrix(f, "attn_q_b",
	    h->q_rank, q, MUST, &l->q_b) < 0))
		return -1;
	if (h->mla_latent) {
		if (find_grouped(f, "attn_k_b", h->mla_k, kv, n_head, MUST,
		    &l->k_b) < 0 || find_grouped(f, "attn_v_b", kv, h->mla_v,
		    n_head, MUST, &l->v_b) < 0)
			return -1;
	} else if (find_matrix(f, "attn_kv_b", kv,
	    n_head * (h->mla_k + h->mla_v), MUST, &l->kv_b) < 0) {
		return -1;
	}
	return find_matrix(f, "attn_output", n_head * h->mla_v, d, MUST,
	    &l->out);
}

/* ---- recurrent ones ---- */

static int
find_mamba(struct finder *f, struct mamba_weights *l)
{
	const struct hparams *h = &f->m->h;
	uint32_t di = h->ssm_inner, n = h->ssm_state, dr = h->ssm_rank;

	return find_matrix(f, "ssm_in", h->n_embd, 2 * di, MUST,
	    &l->in) < 0 ||
	    find_vector(f, "ssm_conv1d", "weight", DIMS(h->ssm_conv, di),
	    MUST, &l->conv) < 0 ||
	    find_vector(f, "ssm_conv1d", "bias", DIMS(di), MUST,
	    &l->conv_bias) < 0 ||
	    find_matrix(f, "ssm_x", di, dr + 2 * n, MUST, &l->x) < 0 ||
	    find_linear(f, "ssm_dt", dr, di, MUST, &l->dt) < 0 ||
	    find_vector(f, "ssm_a", NULL, DIMS(n, di), MUST, &l->a) < 0 ||
	    find_vector(f, "ssm_d", NULL, DIMS(di), MUST, &l->d) < 0 ||
	    find_matrix(f, "ssm_out", di, h->n_embd, MUST, &l->out) < 0 ?
	    -1 : 0;
}

/* n vectors in one tensor, or each in its own: "time_mix_lerp_w", ... */
static int
find_lerps(struct finder *f, const char *names, struct rwkv_weights *l)
{
	uint32_t d = f->m->h.n_embd, n = (uint32_t)strlen(names), i;
	char name[40];
	int got;

	got = find_vector(f, "time_mix_lerp_fused", "weight",
	    DIMS(d, 1, 1, n), MAY, &l->lerp[0]);
	for (i = 0; got >= 0 && i < n; i++) {
		if (got > 0) {
			l->lerp[i] = l->lerp[0] + i * d;
			continue;
		}
		(void)snprintf(name, sizeof name, "time_mix_lerp_%c",
		    names[i]);
		if (find_vector(f, name, "weight", DIMS(d), MUST,
		    &l->lerp[i]) < 0)
			return -1;
	}
	return got;
}

static int
find_rwkv_output(struct finder *f, struct rwkv_weights *l)
{
	uint32_t d = f->m->h.n_embd;

	return find_norm(f, "time_mix_ln", d, 1, MUST, MUST, &l->ln) < 0 ||
	    find_matrix(f, "time_mix_output", d, d, MUST, &l->out) < 0 ?
	    -1 : 0;
}

static int
find_rwkv6(struct finder *f, struct rwkv_weights *l)
{
	const struct hparams *h = &f->m->h;
	uint32_t d = h->n_embd, s = h->wkv_head, ff = h->n_ff[f->layer];

	if (find_vector(f, "time_mix_lerp_x", "weight", DIMS(d), MUST,
	    &l->lerp_x) < 0 || find_lerps(f, "wkvrg", l) < 0 ||
	    find_matrix(f, "time_mix_w1", d, 5 * h->mix_rank, MUST,
	    &l->w1) < 0 ||
	    find_grouped(f, "time_mix_w2", h->mix_rank, d, 5, MUST,
	    &l->w2) < 0 ||
	    find_matrix(f, "time_mix_decay_w1", d, h->decay_rank, MUST,
	    &l->decay_w1) < 0 ||
	    find_matrix(f, "time_mix_decay_w2", h->decay_rank, d, MUST,
	    &l->decay_w2) < 0 ||
	    find_vector(f, "time_mix_decay", "weight", DIMS(d), MUST,
	    &l->decay) < 0 ||
	    find_vector(f, "time_mix_first", "weight", DIMS(s, d / s), MUST,
	    &l->first) < 0 ||
	    find_matrix(f, "time_mix_receptance", d, d, MUST, &l->r) < 0 ||
	    find_matrix(f, "time_mix_key", d, d, MUST, &l->k) < 0 ||
	    find_matrix(f, "time_mix_value", d, d, MUST, &l->v) < 0 ||
	    find_matrix(f, "time_mix_gate", d, d, MUST, &l->gate) < 0 ||
	    find_rwkv_output(f, l) < 0)
		return -1;
	return find_vector(f, "channel_mix_lerp_k", "weight", DIMS(d), MUST,
	    &l->lerp_k) < 0 ||
	    find_vector(f, "channel_mix_lerp_r", "weight", DIMS(d), MUST,
	    &l->lerp_r) < 0 ||
	    find_matrix(f, "channel_mix_key", d, ff, MUST, &l->cm_k) < 0 ||
	    find_matrix(f, "channel_mix_receptance", d, d, MUST,
	    &l->cm_r) < 0 ||
	    find_matrix(f, "channel_mix_value", ff, d, MUST, &l->cm_v) < 0 ?
	    -1 : 0;
}

/* Two matrices through a narrow place. */
static int
find_low_rank(struct finder *f, const char *first, const char *second,
    uint32_t rank, struct weight *a, struct weight *b)
{
	uint32_t d = f->m->h.n_embd;

	return find_matrix(f, first, d, rank, MUST, a) < 0 ||
	    find_matrix(f, second, rank, d, MUST, b) < 0 ? -1 : 0;
}

static int
find_rwkv7(struct finder *f, struct rwkv_weights *l)
{
	const struct hparams *h = &f->m->h;
	uint32_t d = h->n_embd, ff = h->n_ff[f->layer];

	if (find_lerps(f, h->gate_rank > 0 ? "rwkvag" : "rwkva", l) < 0 ||
	    find_vector(f, "time_mix_w0", "weight", DIMS(d), MUST,
	    &l->decay) < 0 ||
	    find_low_rank(f, "time_mix_w1", "time_mix_w2", h->decay_rank,
	    &l->w1, &l->w2) < 0 ||
	    find_vector(f, "time_mix_a0", "weight", DIMS(d), MUST,
	    &l->a0) < 0 ||
	    find_low_rank(f, "time_mix_a1", "time_mix_a2", h->iclr_rank,
	    &l->a1, &l->a2) < 0)
		return -1;
	if (f->layer == 0) {	/* which has nothing to mix its values with */
		find_ignored(f, "time_mix_v0", "weight");
		find_ignored(f, "time_mix_v1", "weight");
		find_ignored(f, "time_mix_v2", "weight");
	} else if (find_vector(f, "time_mix_v0", "weight", DIMS(d), MUST,
	    &l->v0) < 0 || find_low_rank(f, "time_mix_v1", "time_mix_v2",
	    h->value_rank, &l->v1, &l->v2) < 0) {
		return -1;
	}
	if (h->gate_rank > 0 && find_low_rank(f, "time_mix_g1", "time_mix_g2",
	    h->gate_rank, &l->g1, &l->g2) < 0)
		return -1;
	if (find_vector(f, "time_mix_k_k", "weight", DIMS(d), MUST,
	    &l->k_k) < 0 ||
	    find_vector(f, "time_mix_k_a", "weight", DIMS(d), MUST,
	    &l->k_a) < 0 ||
	    find_vector(f, "time_mix_r_k", "weight", DIMS(d), MUST,
	    &l->r_k) < 0 ||
	    find_matrix(f, "time_mix_receptance", d, d, MUST, &l->r) < 0 ||
	    find_matrix(f, "time_mix_key", d, d, MUST, &l->k) < 0 ||
	    find_matrix(f, "time_mix_value", d, d, MUST, &l->v) < 0 ||
	    find_rwkv_output(f, l) < 0)
		return -1;
	return find_vector(f, "channel_mix_lerp_k", "weight", DIMS(d), MUST,
	    &l->lerp_k) < 0 ||
	    find_matrix(f, "channel_mix_key", d, ff, MUST, &l->cm_k) < 0 ||
	    find_matrix(f, "channel_mix_value", ff, d, MUST, &l->cm_v) < 0 ?
	    -1 : 0;
}

/* ---- feed-forward networks ---- */

static int
find_dense(struct finder *f, struct layer *l)
{
	const struct hparams *h = &f->m->h;
	const struct arch *a = h->arch;
	uint32_t d = h->n_embd, ff = h->n_ff[f->layer];
	const uint32_t both[2] = { ff, ff };
	struct weight *const w[2] = { &l->ffn.gate, &l->ffn.up };
	const float *bias;
	int got;

	if (ff == 0)
		return fail(f->err, "key '%s.feed_forward_length' is missing "
		    "or 0", a->name);
	if (a->ffn == FFN_FUSED) {
		got = find_fused(f, "ffn_up", d, both, w, 2);
		if (got == 0)
			return find_missing(f, "ffn_up", "weight");
		if (got < 0 || find_vector(f, "ffn_up", "bias", DIMS(2 * ff),
		    a->ffn_bias, &bias) < 0)
			return -1;
		if (bias != NULL) {
			l->ffn.gate.bias = bias;
			l->ffn.up.bias = bias + ff;
		}
	} else if ((a->ffn == FFN_GATED && find_linear(f, "ffn_gate", d, ff,
	    a->ffn_bias, &l->ffn.gate) < 0) || find_linear(f, "ffn_up", d, ff,
	    a->ffn_bias, &l->ffn.up) < 0) {
		return -1;
	}
	if (find_vector(f, "ffn_act", "scales", DIMS(ff),
	    a->act_scales ? MAY : NEVER, &l->act_scales) < 0)
		return -1;
	return find_linear(f, "ffn_down", ff, d, a->ffn_bias, &l->ffn.down);
}

/* Biases of the experts, {n, n_expert}. */
static int
find_stack_bias(struct finder *f, const char *what, uint32_t n,
    struct ffn *experts, size_t member)
{
	const struct hparams *h = &f->m->h;
	const float *bias;
	uint32_t e;

	if (find_vector(f, what, "bias", DIMS(n, h->n_expert),
	    h->arch->expert_bias ? MUST : NEVER, &bias) < 0)
		return -1;
	for (e = 0; bias != NULL && e < h->n_expert; e++, bias += n)
		expert_weight(experts, e, member)->bias = bias;
	return 0;
}

/* The matrices of one kind of all experts; gate and up may share a stack. */
static int
find_expert_part(struct finder *f, const char *what, bool up, uint32_t n_in,
    uint32_t n_out, struct ffn *e, size_t member)
{
	char name[40];
	int got;

	got = find_stack(f, what, n_in, n_out, n_out, 0, e, member);
	if (got == 0 && member != offsetof(struct ffn, down))
		got = find_stack(f, "ffn_gate_up", n_in, n_out,
		    2 * n_out, up ? n_out : 0, e, member);
	(void)snprintf(name, sizeof name, "%s_exps", what);
	if (got == 0)
		return find_missing(f, name, "weight");
	return got < 0 ? -1 : find_stack_bias(f, name, n_out, e, member);
}

static int
find_shared(struct finder *f, struct layer *l)
{
	const struct hparams *h = &f->m->h;
	uint32_t d = h->n_embd, ff = h->n_ff_shared;

	if (ff == 0)
		return 0;
	if (h->arch->shared == SHARED_GATED && find_matrix(f,
	    "ffn_gate_inp_shexp", d, 1, MUST, &l->shared_gate) < 0)
		return -1;
	return find_matrix(f, "ffn_gate_shexp", d, ff, MUST,
	    &l->ffn.gate) < 0 ||
	    find_matrix(f, "ffn_up_shexp", d, ff, MUST, &l->ffn.up) < 0 ||
	    find_matrix(f, "ffn_down_shexp", ff, d, MUST, &l->ffn.down) < 0 ?
	    -1 : 0;
}

static int
find_experts(struct finder *f, struct layer *l)
{
	const struct hparams *h = &f->m->h;
	uint32_t d = h->n_embd, ff = h->n_ff_expert, n = h->n_expert;
	struct ffn *e;

	if (find_linear(f, "ffn_gate_inp", d, n,
	    h->arch->expert_bias ? MUST : NEVER, &l->router) < 0 ||
	    find_vector(f, "exp_probs_b", "bias", DIMS(n),
	    h->gating == GATE_SIGMOID ? MAY : NEVER, &l->router_choice) < 0 ||
	    find_shared(f, l) < 0)
		return -1;
	l->first_expert = f->m->n_weights;
	e = mem_new(n, sizeof *e, "experts", f->err);
	l->experts = e;
	if (e == NULL)
		return -1;
	return find_expert_part(f, "ffn_gate", false, d, ff, e,
	    offsetof(struct ffn, gate)) < 0 ||
	    find_expert_part(f, "ffn_up", true, d, ff, e,
	    offsetof(struct ffn, up)) < 0 ||
	    find_expert_part(f, "ffn_down", false, ff, d, e,
	    offsetof(struct ffn, down)) < 0 ? -1 : 0;
}

/* ---- layers ---- */

/* Which norms stand around the two branches. */
static int
find_norms(struct finder *f, struct layer *l)
{
	const struct arch *a = f->m->h.arch;
	bool before = a->shape != SHAPE_POST;
	bool after = a->shape == SHAPE_POST || a->shape == SHAPE_SANDWICH;
	enum need second = before && a->shape != SHAPE_ONE_NORM ? MUST : NEVER;
	const char *name = a->ffn_norm_name != NULL ? a->ffn_norm_name :
	    "ffn_norm";
	struct norm swap;

	if (a->mixer == MAMBA)
		return find_stream_norm(f, "attn_norm", MUST, &l->attn_norm);
	if (a->mixer >= RWKV6)
		name = "attn_norm_2";
	if (a->ffn_norm != NEVER)
		second = a->ffn_norm;
	if (find_stream_norm(f, "attn_norm", before ? MUST : NEVER,
	    &l->attn_norm) < 0 ||
	    find_stream_norm(f, name, second, &l->ffn_norm) < 0 ||
	    find_stream_norm(f, "post_attention_norm", after ? MUST : NEVER,
	    &l->attn_post) < 0 || find_stream_norm(f, "post_ffw_norm",
	    after ? MUST : NEVER, &l->ffn_post) < 0)
		return -1;
	if (!a->second_norm)
		return 0;
	if (find_stream_norm(f, "attn_norm_2", MAY, &l->ffn_norm) < 0)
		return -1;
	if (l->ffn_norm.on) {
		swap = l->attn_norm;
		l->attn_norm = l->ffn_norm;
		l->ffn_norm = swap;
	}
	return 0;
}

static int
find_layer(struct finder *f, struct layer *l)
{
	const struct hparams *h = &f->m->h;
	int got = -1;

	l->first = f->m->n_weights;
	if (find_norms(f, l) < 0)
		return -1;
	switch (h->arch->mixer) {
	case ATTENTION:
		got = find_attention(f, &l->attn);
		break;
	case MLA:
		got = find_mla(f, &l->mla);
		break;
	case MAMBA:
		got = find_mamba(f, &l->mamba);
		break;
	case RWKV6:
		got = find_rwkv6(f, &l->rwkv);
		break;
	case RWKV7:
		got = find_rwkv7(f, &l->rwkv);
		break;
	}
	if (got >= 0 && !arch_recurrent(h->arch))
		got = h->n_expert > 0 && f->layer >= h->n_dense ?
		    find_experts(f, l) : find_dense(f, l);
	l->end = f->m->n_weights;
	if (l->first_expert == 0)
		l->first_expert = l->end;
	return got;
}

/* ---- beside the layers ---- */

static int
find_rope_factors(struct finder *f)
{
	static const char *const names[2][2] = {
		{ "rope_freqs", NULL },
		{ "rope_factors_short", "rope_factors_long" },
	};
	struct pico_model *m = f->m;
	uint32_t n = m->h.n_rot / 2, i, k;

	for (k = 0; k < 2; k++) {
		const char *name = names[m->h.longrope][k];
		const float *v;

		if (n == 0 || name == NULL)
			continue;
		if (find_vector(f, name, "weight", DIMS(n),
		    m->h.longrope ? MUST : MAY, &v) < 0)
			return -1;
		m->rope_factors[k] = v;
		for (i = 0; v != NULL && !m->no_data && i < n; i++)
			if (!(v[i] > 0) || !isfinite(v[i]))
				return fail(f->err, "tensor '%s.weight' holds "
				    "%g at %" PRIu32, name, (double)v[i], i);
	}
	if (!m->h.longrope)
		m->rope_factors[1] = m->rope_factors[0];
	return 0;
}

static int
find_globals(struct finder *f)
{
	struct pico_model *m = f->m;
	const struct hparams *h = &m->h;
	const struct pico_tensor *t =
	    pico_gguf_find_tensor(m->gguf, "token_embd.weight");
	int got;

	f->global = true;
	if (t != NULL && t->dims[0] == h->n_embd && t->dims[1] != h->n_vocab)
		return fail(f->err, "tensor 'token_embd.weight' has %" PRIu64
		    " rows for %" PRIu32 " tokens", t->dims[1], h->n_vocab);
	if (find_matrix(f, "token_embd", h->n_embd, h->n_vocab, MUST,
	    &m->embd) < 0)
		return -1;
	got = find_matrix(f, "output", h->n_embd, h->n_vocab, MAY, &m->output);
	if (got < 0)
		return -1;
	if (got == 0) {
		m->output = m->embd;
	} else {
		m->embd.step = m->embd.row_bytes;
		m->step_bytes -= weight_bytes(&m->embd) - m->embd.step;
	}
	if (find_vector(f, "output", "bias", DIMS(h->n_vocab),
	    h->arch->output_bias, &m->output.bias) < 0 ||
	    find_stream_norm(f, "output_norm", MUST, &m->output_norm) < 0 ||
	    find_stream_norm(f, "token_embd_norm", h->arch->embd_norm,
	    &m->embd_norm) < 0)
		return -1;
	got = find_matrix(f, "position_embd", h->n_embd, h->n_ctx_train,
	    h->arch->positions, &m->positions);
	if (got < 0)
		return -1;
	if (got > 0) {
		m->positions.step = m->positions.row_bytes;
		m->step_bytes -= weight_bytes(&m->positions) -
		    m->positions.step;
	}
	if (find_rope_factors(f) < 0)
		return -1;
	f->global = false;
	return 0;
}

/* Tables that old converters wrote and that everybody computes anew. */
static bool
is_leftover(struct pico_str name)
{
	static const char *const end[] = {
		"rotary_emb.inv_freq", "attn_rot_embd", "attn_rot_embd.weight"
	};
	size_t i, n;

	for (i = 0; i < COUNT(end); i++) {
		n = strlen(end[i]);
		if (name.n >= n && memcmp(name.p + name.n - n, end[i], n) == 0)
			return true;
	}
	return false;
}

/* Tells of each weight what is read after it. They were found in that order. */
static void
link_weights(struct pico_model *m)
{
	struct weight unknown, *last = &m->output;
	const struct layer *l;
	size_t i;

	if (arch_recurrent(m->h.arch))
		return;
	for (l = m->layers; l < m->layers + m->h.n_layer; l++) {
		for (i = l->first; i < l->first_expert; i++) {
			last->next = m->weights[i];
			last = m->weights[i];
		}
		/* which experts come between is not known */
		if (l->first_expert < l->end)
			last = &unknown;
	}
	last->next = &m->output;
}

int
weights_find(struct pico_model *m, struct pico_err *err)
{
	size_t i, n = pico_gguf_n_tensors(m->gguf);
	struct finder f = { .m = m, .err = err };
	const struct pico_tensor *t;
	int r = -1;

	f.used = mem_new(n, sizeof *f.used, "tensor marks", err);
	m->layers = mem_new(m->h.n_layer, sizeof *m->layers, "layers", err);
	if (f.used == NULL || m->layers == NULL)
		goto out;
	/* the vectors lie among much that may never be read */
	resident_advise(m, READ_SINGLY);
	if (find_globals(&f) < 0)
		goto out;
	for (f.layer = 0; f.layer < m->h.n_layer; f.layer++)
		if (find_layer(&f, &m->layers[f.layer]) < 0)
			goto out;
	for (i = 0; i < n; i++) {
		t = pico_gguf_tensor(m->gguf, i);
		if (!f.used[i] && !is_leftover(t->name)) {
			(void)fail(err, "tensor '%s' has no place in "
			    "architecture '%s' as it is implemented here",
			    show_str(t->name), m->h.arch->name);
			goto out;
		}
	}
	link_weights(m);
	r = 0;
out:
	free(f.used);
	return r;
}

struct pico_model *
pico_model_open(const struct pico_gguf *g, struct pico_err *err)
{
	struct pico_model *m = mem_new(1, sizeof *m, "model", err);

	if (m == NULL)
		return NULL;
	m->gguf = g;
	if (hparams_read(&m->h, g, err) < 0 || weights_find(m, err) < 0) {
		pico_model_close(m);
		return NULL;
	}
	return m;
}

void
pico_model_close(struct pico_model *m)
{
	size_t i;

	if (m == NULL)
		return;
	for (i = 0; m->layers != NULL && i < m->h.n_layer; i++)
		free(m->layers[i].experts);
	for (i = 0; i < m->n_vectors; i++)
		free(m->vectors[i]);
	free(m->vectors);
	free(m->weights);
	free(m->layers);
	hparams_free(&m->h);
	free(m);
}

static const char *
note(const struct hparams *h)
{
	if (h->longrope)
		return "the context (-c) decides how positions are told apart: "
		    "those up to rope.scaling.original_context_length use "
		    "other factors than longer ones";
	if (h->window_ignored)
		return "attention.sliding_window is ignored, as by all engines "
		    "for this architecture";
	return NULL;
}

struct pico_model_info
pico_model_info(const struct pico_model *m)
{
	const struct hparams *h = &m->h;

	return (struct pico_model_info){
		.arch = h->arch->name, .n_vocab = h->n_vocab,
		.n_embd = h->n_embd, .n_layer = h->n_layer,
		.n_head = h->n_head[0], .n_ctx_train = h->n_ctx_train,
		.n_expert = h->n_expert, .weight_bytes = m->weight_bytes,
		.step_bytes = m->step_bytes,
		.note = note(h),
	};
}
