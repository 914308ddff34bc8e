/* SPDX-License-Identifier: MIT */
/*
 * Hyperparameters: numbers from the metadata, with their defaults, and the keys
 * that would change the result if only we knew what to do with them.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Reading under the architecture's prefix; the first error stays. */
struct reader {
	const struct pico_gguf *g;
	const char *prefix;
	struct pico_err *err;
	char key[128];
};

static const char *
full(struct reader *r, const char *suffix)
{
	(void)snprintf(r->key, sizeof r->key, "%s.%s", r->prefix, suffix);
	return r->key;
}

/* 1 found, 0 missing (out untouched), -1. */
static int
read_u32(struct reader *r, const char *suffix, uint32_t min, uint32_t max,
    uint32_t *out)
{
	int64_t v;
	int got = pico_gguf_int(r->g, full(r, suffix), min, max, &v, r->err);

	if (got > 0)
		*out = (uint32_t)v;
	return got;
}

static int
need_u32(struct reader *r, const char *suffix, uint32_t max, uint32_t *out)
{
	int got = read_u32(r, suffix, 1, max, out);

	if (got == 0)
		return fail(r->err, "key '%s' is missing", r->key);
	return got;
}

/* A scalar for all layers, or an array with one value a layer. */
static int
read_per_layer(struct reader *r, const char *suffix, uint32_t n_layer,
    uint32_t max, uint32_t *out)
{
	const struct pico_kv *kv = pico_gguf_find(r->g, full(r, suffix));
	uint32_t i, v = 0;
	int64_t e;

	if (kv == NULL)
		return 0;
	if (kv->type != PICO_KV_ARR) {
		if (read_u32(r, suffix, 1, max, &v) < 0)
			return -1;
		for (i = 0; i < n_layer; i++)
			out[i] = v;
		return 1;
	}
	if (kv->elem == PICO_KV_STR || kv->elem == PICO_KV_ARR ||
	    kv->elem == PICO_KV_F32 || kv->elem == PICO_KV_F64 ||
	    kv->elem == PICO_KV_BOOL)
		return fail(r->err, "key '%s' is an array of %s, not of "
		    "integers", r->key, pico_kv_type_name(kv->elem));
	if (kv->n != n_layer)
		return fail(r->err, "key '%s' has %" PRIu64 " values for %"
		    PRIu32 " layers", r->key, kv->n, n_layer);
	for (i = 0; i < n_layer; i++) {
		e = pico_kv_int_at(kv, i);
		if (e < 1 || e > max)
			return fail(r->err, "key '%s' holds %" PRId64
			    " for layer %" PRIu32 ", not 1 to %" PRIu32,
			    r->key, e, i, max);
		out[i] = (uint32_t)e;
	}
	return 1;
}

/* A finite number, if the key is there. */
static int
read_real(struct reader *r, const char *suffix, double *out)
{
	double v;
	int got = pico_gguf_real(r->g, full(r, suffix), &v, r->err);

	if (got > 0 && !isfinite(v))
		return fail(r->err, "key '%s' holds %g", r->key, v);
	if (got > 0)
		*out = v;
	return got;
}

/*
 * Keys that change the mathematics elsewhere, with the values that change
 * nothing. Any other value is refused: nothing meaningful is ignored.
 */
static const struct {
	const char *suffix;
	double neutral[2];
} meaningful[] = {
	{ "attn_logit_softcapping", { 0, 0 } },
	{ "final_logit_softcapping", { 0, 0 } },
	{ "attention.clamp_kqv", { 0, 0 } },
	{ "attention.max_alibi_bias", { 0, 0 } },
	{ "attention.causal", { 1, 1 } },
	{ "attention.temperature_scale", { 0, 0 } },
	{ "attention.q_lora_rank", { 0, 0 } },
	{ "attention.kv_lora_rank", { 0, 0 } },
	{ "attention.key_length_mla", { 0, 0 } },
	{ "attention.value_length_mla", { 0, 0 } },
	{ "attention.layer_norm_epsilon", { 0, 0 } },
	{ "logit_scale", { 0, 1 } },
	{ "residual_scale", { 0, 1 } },
	{ "embedding_scale", { 0, 1 } },
	{ "use_parallel_residual", { 0, 0 } },
	{ "expert_shared_count", { 0, 0 } },
	{ "expert_shared_feed_forward_length", { 0, 0 } },
	{ "expert_group_count", { 0, 1 } },
	{ "expert_weights_scale", { 0, 1 } },
	{ "expert_weights_norm", { 1, 1 } },
	{ "expert_gating_func", { 0, 1 } },
	{ "leading_dense_block_count", { 0, 0 } },
	{ "interleave_moe_layer_step", { 0, 1 } },
	{ "nextn_predict_layers", { 0, 0 } },
	{ "rope.scaling.yarn_log_multiplier", { 0, 0 } },
	{ "rope.scaling.yarn_ext_factor", { 1, -1 } },
	{ "rope.scaling.yarn_attn_factor", { 1, 1 } },
	{ "rope.scaling.yarn_beta_fast", { 32, 32 } },
	{ "rope.scaling.yarn_beta_slow", { 1, 1 } },
	{ "ssm.conv_kernel", { 0, 0 } },
	{ "ssm.state_size", { 0, 0 } },
	{ "wkv.head_size", { 0, 0 } },
};

static int
refuse_unknown(struct reader *r, struct hparams *h)
{
	const struct pico_kv *kv;
	size_t i;
	double v;

	for (i = 0; i < COUNT(meaningful); i++) {
		kv = pico_gguf_find(r->g, full(r, meaningful[i].suffix));
		if (kv == NULL)
			continue;
		if (kv->type == PICO_KV_STR || kv->type == PICO_KV_ARR)
			return fail(r->err, "key '%s' is not understood for "
			    "this architecture", r->key);
		v = pico_kv_real_at(kv, 0);
		if (v != meaningful[i].neutral[0] &&
		    v != meaningful[i].neutral[1])
			return fail(r->err, "key '%s' is %g: not implemented "
			    "for architecture '%s'", r->key, v, h->arch->name);
	}
	if (pico_gguf_find(r->g, full(r, "rope.dimension_sections")) != NULL ||
	    pico_gguf_find(r->g, full(r, "attention.sliding_window_pattern"))
	    != NULL)
		return fail(r->err, "key '%s' is not implemented for "
		    "architecture '%s'", r->key, h->arch->name);
	kv = pico_gguf_find(r->g, full(r, "attention.sliding_window"));
	if (kv != NULL) {
		int64_t w = 0;

		if (pico_gguf_int(r->g, r->key, 0, INT64_MAX, &w, r->err) < 0)
			return -1;
		if (w > 0 && !h->arch->ignore_window)
			return fail(r->err, "key '%s' is %" PRId64
			    ": not implemented for architecture '%s'", r->key,
			    w, h->arch->name);
		h->window_ignored = w > 0;
	}
	/* the score's factor is 1/sqrt(head size), whatever the key says */
	v = 0;
	if (read_real(r, "attention.scale", &v) < 0)
		return -1;
	if (v != 0 && fabs(v * sqrt(h->head_k) - 1) > 1e-4)
		return fail(r->err, "key '%s' is %g: not implemented for "
		    "architecture '%s'", r->key, v, h->arch->name);
	return 0;
}

static int
read_heads(struct reader *r, struct hparams *h)
{
	bool sized_k, sized_v;
	uint32_t i;
	int got;

	got = read_per_layer(r, "attention.head_count", h->n_layer, 1 << 16,
	    h->n_head);
	if (got == 0)
		return fail(r->err, "key '%s' is missing", r->key);
	if (got < 0)
		return -1;
	got = read_per_layer(r, "attention.head_count_kv", h->n_layer, 1 << 16,
	    h->n_head_kv);
	if (got < 0)
		return -1;
	for (i = 0; i < h->n_layer; i++) {
		if (got == 0)
			h->n_head_kv[i] = h->n_head[i];
		if (h->n_head_kv[i] > h->n_head[i] ||
		    h->n_head[i] % h->n_head_kv[i] != 0)
			return fail(r->err, "key '%s' is %" PRIu32
			    ", which does not divide %" PRIu32 " heads",
			    full(r, "attention.head_count_kv"),
			    h->n_head_kv[i], h->n_head[i]);
	}
	h->head_k = h->n_embd / h->n_head[0];
	h->head_v = h->head_k;
	got = read_u32(r, "attention.key_length", 1, 1 << 16, &h->head_k);
	if (got < 0)
		return -1;
	sized_k = got > 0;
	got = read_u32(r, "attention.value_length", 1, 1 << 16, &h->head_v);
	if (got < 0)
		return -1;
	sized_v = got > 0;
	if ((!sized_k || !sized_v) && h->n_embd % h->n_head[0] != 0)
		return fail(r->err, "key '%s' is %" PRIu32
		    ", which does not divide the embedding length %" PRIu32,
		    full(r, "attention.head_count"), h->n_head[0], h->n_embd);
	for (i = 0; i < h->n_layer; i++)
		if ((uint64_t)h->n_head[i] * MAX(h->head_k, h->head_v) >
		    1 << 24)
			return fail(r->err, "key '%s' is %" PRIu32 ": too many "
			    "for heads of %" PRIu32,
			    full(r, "attention.head_count"), h->n_head[i],
			    MAX(h->head_k, h->head_v));
	return 0;
}

static int
read_rope(struct reader *r, struct hparams *h)
{
	struct pico_str type = { "linear", 6 };
	double factor = 0;

	h->n_rot = h->head_k;
	if (read_u32(r, "rope.dimension_count", 0, h->head_k, &h->n_rot) < 0)
		return -1;
	if (h->n_rot % 2 != 0 || h->n_rot == 0)
		return fail(r->err, "key '%s' is %" PRIu32
		    ", not an even number above 0",
		    full(r, "rope.dimension_count"), h->n_rot);
	if (h->n_rot != h->head_k && !h->arch->partial_rope)
		return fail(r->err, "key '%s' is %" PRIu32 ", but architecture "
		    "'%s' turns whole heads of %" PRIu32,
		    full(r, "rope.dimension_count"), h->n_rot, h->arch->name,
		    h->head_k);
	h->rope_base = 10000;
	if (read_real(r, "rope.freq_base", &h->rope_base) < 0)
		return -1;
	if (!(h->rope_base > 1))
		return fail(r->err, "key '%s' is %g, not above 1",
		    full(r, "rope.freq_base"), h->rope_base);
	h->rope_scale = 1;
	h->rope_attn_factor = 1;
	h->rope_ctx_orig = h->n_ctx_train;
	if (read_real(r, "rope.scaling.attn_factor", &h->rope_attn_factor) < 0 ||
	    read_u32(r, "rope.scaling.original_context_length", 1, INT32_MAX,
	    &h->rope_ctx_orig) < 0 ||
	    pico_gguf_str(r->g, full(r, "rope.scaling.type"), &type,
	    r->err) < 0)
		return -1;
	if (pico_str_is(type, "yarn"))
		h->yarn = true;
	else if (!pico_str_is(type, "linear") && !pico_str_is(type, "none"))
		return fail(r->err, "key '%s' is '%s': not implemented for "
		    "architecture '%s'", r->key, show_str(type),
		    h->arch->name);
	if (pico_gguf_find(r->g, full(r, "rope.scaling.factor")) != NULL) {
		if (read_real(r, "rope.scaling.factor", &factor) < 0)
			return -1;
	} else if (read_real(r, "rope.scale_linear", &factor) < 0) {
		return -1;
	}
	if (factor < 0)
		return fail(r->err, "key '%s' is %g, below 0", r->key, factor);
	if (factor > 0 && !pico_str_is(type, "none"))
		h->rope_scale = 1 / factor;
	return 0;
}

/* Refused here, by its own name, before other keys seem to be at fault. */
static int
check_embd(struct reader *r, const struct hparams *h)
{
	const struct pico_tensor *t =
	    pico_gguf_find_tensor(r->g, "token_embd.weight");

	if (t == NULL || t->dims[0] == h->n_embd)
		return 0;
	return fail(r->err, "key '%s' is %" PRIu32 ", but tensor "
	    "'token_embd.weight' has rows of %" PRIu64,
	    full(r, "embedding_length"), h->n_embd, t->dims[0]);
}

/* As many as there are tokens; without tokens, what the key says. */
static int
read_vocab_size(struct reader *r, struct hparams *h)
{
	const struct pico_kv *tokens =
	    pico_gguf_find(r->g, "tokenizer.ggml.tokens");

	if (tokens != NULL && tokens->type == PICO_KV_ARR) {
		if (tokens->n == 0 || tokens->n > 1 << 24)
			return fail(r->err, "key 'tokenizer.ggml.tokens' has %"
			    PRIu64 " tokens", tokens->n);
		h->n_vocab = (uint32_t)tokens->n;
		return 0;
	}
	return need_u32(r, "vocab_size", 1 << 24, &h->n_vocab);
}

int
hparams_read(struct hparams *h, const struct pico_gguf *g,
    struct pico_err *err)
{
	struct reader r = { .g = g, .err = err };
	struct pico_str name = {0}, type = { "model", 5 };
	uint32_t max_layers;
	double eps = 0;
	int got;

	if (pico_gguf_str(g, "general.type", &type, err) < 0)
		return -1;
	if (!pico_str_is(type, "model"))
		return fail(err, "key 'general.type' is '%s': this file is not "
		    "a model that can run by itself", show_str(type));
	got = pico_gguf_str(g, "general.architecture", &name, err);
	if (got == 0)
		return fail(err, "key 'general.architecture' is missing");
	if (got < 0)
		return -1;
	h->arch = arch_find(name);
	if (h->arch == NULL)
		return fail(err, "key 'general.architecture' is '%s'; known: "
		    "%s", show_str(name), arch_names());
	r.prefix = h->arch->name;

	/* each layer has tensors, so the file bounds the count */
	max_layers = (uint32_t)MIN(pico_gguf_n_tensors(g), INT32_MAX);
	if (need_u32(&r, "context_length", INT32_MAX, &h->n_ctx_train) < 0 ||
	    need_u32(&r, "embedding_length", 1 << 24, &h->n_embd) < 0 ||
	    need_u32(&r, "block_count", MAX(max_layers, 1), &h->n_layer) < 0 ||
	    check_embd(&r, h) < 0)
		return -1;
	h->n_head = mem_new(h->n_layer, sizeof *h->n_head, "layers", err);
	h->n_head_kv = mem_new(h->n_layer, sizeof *h->n_head, "layers", err);
	h->n_ff = mem_new(h->n_layer, sizeof *h->n_head, "layers", err);
	if (h->n_head == NULL || h->n_head_kv == NULL || h->n_ff == NULL)
		return -1;
	got = read_per_layer(&r, "feed_forward_length", h->n_layer, 1 << 24,
	    h->n_ff);
	if (got == 0)
		return fail(err, "key '%s' is missing", r.key);
	if (got < 0 || read_heads(&r, h) < 0)
		return -1;
	if (read_u32(&r, "expert_count", 0, 1 << 16, &h->n_expert) < 0 ||
	    read_u32(&r, "expert_used_count", 0, 1 << 16,
	    &h->n_expert_used) < 0)
		return -1;
	if (h->n_expert_used > h->n_expert ||
	    (h->n_expert > 0 && h->n_expert_used == 0))
		return fail(err, "key '%s' is %" PRIu32 " of %" PRIu32
		    " experts", full(&r, "expert_used_count"),
		    h->n_expert_used, h->n_expert);
	got = read_real(&r, "attention.layer_norm_rms_epsilon", &eps);
	if (got == 0)
		return fail(err, "key '%s' is missing", r.key);
	if (got < 0)
		return -1;
	if (eps < 0)
		return fail(err, "key '%s' is %g, below 0", r.key, eps);
	h->eps = (float)eps;
	if (read_rope(&r, h) < 0 || read_vocab_size(&r, h) < 0)
		return -1;
	return refuse_unknown(&r, h);
}

void
hparams_free(struct hparams *h)
{
	free(h->n_head);
	free(h->n_head_kv);
	free(h->n_ff);
}
