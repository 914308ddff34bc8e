/* SPDX-License-Identifier: MIT */
/*
 * The forward pass. A pass takes columns (token, sequence, position) through
 * all layers; matrices meet all columns at once, attention goes column by
 * column. Every number depends on its own column's past only, and is computed
 * in an order that the kernels define: cutting a prompt differently, batching
 * or threading changes nothing.
 *
 * A layer adds two branches to the stream x, as `enum shape` tells: one in
 * which columns see those before them (attention.c, mla.c, mamba.c, rwkv.c) and
 * one in which each is alone (feed.c).
 */
#include <inttypes.h>

#include "model.h"

/* ---- weights on their way ---- */

/* The weights of a layer that all passes need will be wanted next. */
static void
want_layer(struct pico_ctx *c, uint32_t il)
{
	const struct layer *l = &c->m->layers[il];
	size_t i;

	for (i = l->first; i < l->first_expert; i++)
		resident_want(c->res, c->m->weights[i]);
}

void
want_after(struct pico_ctx *c, uint32_t il)
{
	if (il + 1 < c->m->h.n_layer)
		want_layer(c, il + 1);
	else if (c->n_want > 0)
		resident_want(c->res, c->m->weights[c->m->output.number]);
	else
		want_layer(c, 0);
}

void
forward_ahead(struct pico_ctx *c)
{
	if (resident_idle(c->res))
		want_layer(c, 0);
}

/* ---- the embedding ---- */

/* Puts the row of a column's token, and of its position, into x. */
static void
embed(struct pico_ctx *c, size_t i)
{
	const struct pico_model *m = c->m;
	size_t d = m->h.n_embd;
	float *x = c->x + i * d;
	int32_t id = c->kv.tokens[(size_t)c->seq[i] * c->kv.n_ctx + c->pos[i]];
	const uint8_t *row;

	row = resident_row(c->res, &m->embd, (uint32_t)id, &c->fault);
	if (row == NULL)
		return;
	(void)pico_dequantize(m->embd.type, row, x, d);
	if (m->h.embd_scale != 1)
		c->k->scale(x, m->h.embd_scale, d);
	if (weight_is(&m->positions)) {
		row = resident_row(c->res, &m->positions, c->pos[i],
		    &c->fault);
		if (row == NULL)
			return;
		/* y is free yet */
		(void)pico_dequantize(m->positions.type, row, c->y + i * d, d);
		c->k->add(x, c->y + i * d, d);
	}
	if (m->embd_norm.on)
		norm_row(c, &m->embd_norm, x, d, x);
}

/* Whether rows can be had by all threads at once. */
static bool
embeds_anywhere(const struct pico_ctx *c)
{
	return resident_has(c->res, &c->m->embd) &&
	    (!weight_is(&c->m->positions) ||
	    resident_has(c->res, &c->m->positions));
}

static void
embed_cols(void *data, size_t lo, size_t hi)
{
	struct pico_ctx *c = data;
	const struct hparams *h = &c->m->h;
	size_t i, half = h->n_rot / 2;
	int rope;

	for (i = lo; i < hi; i++) {
		if (embeds_anywhere(c))
			embed(c, i);
		for (rope = 0; rope < 2 && c->freq[rope] != NULL; rope++)
			rope_angles(c->freq[rope], c->magnitude[rope],
			    h->n_rot, c->pos[i], c->cos[rope] + i * half,
			    c->sin[rope] + i * half);
	}
}

/* ---- norms and sums ---- */

void
norm_row(const struct pico_ctx *c, const struct norm *norm, const float *x,
    size_t n, float *y)
{
	const struct hparams *h = &c->m->h;

	if (h->norm == NORM_RMS)
		c->k->rms_norm(x, norm->w, n, h->eps, y);
	else
		c->k->layer_norm(x, norm->w, norm->b, n, h->eps, y);
}

/* Rows of the stream's width. */
struct step {
	struct pico_ctx *c;
	const struct norm *norm;
	const float *in;
	float *out;
};

static void
norm_cols(void *data, size_t lo, size_t hi)
{
	struct step *s = data;
	size_t i, d = s->c->m->h.n_embd;

	for (i = lo; i < hi; i++)
		norm_row(s->c, s->norm, s->in + i * d, d, s->out + i * d);
}

/* Returns the normed rows, which are `in` itself if there is no norm. */
static const float *
normed(struct pico_ctx *c, const struct norm *norm, const float *in,
    float *out)
{
	struct step s = { c, norm, in, out };

	if (!norm->on)
		return in;
	pool_run(c->pool, c->n_cols, 1, norm_cols, &s);
	return out;
}

static void
add_cols(void *data, size_t lo, size_t hi)
{
	struct step *s = data;
	size_t d = s->c->m->h.n_embd, n = (hi - lo) * d;
	float scale = s->c->m->h.residual_scale, *x = s->out + lo * d;

	if (scale == 1)
		s->c->k->add(x, s->in + lo * d, n);
	else
		s->c->k->axpy(x, scale, s->in + lo * d, n);
}

/* x += branch */
static void
add(struct pico_ctx *c, const float *branch)
{
	struct step s = { .c = c, .in = branch, .out = c->x };

	pool_run(c->pool, c->n_cols, 1, add_cols, &s);
}

/* ---- layers ---- */

/* The branch in which columns see each other. */
static void
mix(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	switch (c->m->h.arch->mixer) {
	case ATTENTION:
		attention(c, il, in, out);
		break;
	case MLA:
		mla(c, il, in, out);
		break;
	case MAMBA:
		mamba(c, il, in, out);
		break;
	case RWKV6:
		rwkv6(c, il, in, out);
		break;
	case RWKV7:
		rwkv7(c, il, in, out);
		break;
	}
}

/* The other one; returns where its rows are. */
static float *
alone(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	if (c->m->h.arch->mixer < RWKV6)
		return feed(c, il, in, out);
	rwkv_channel_mix(c, il, in, out);
	return out;
}

static void
layer(struct pico_ctx *c, uint32_t il)
{
	const struct layer *l = &c->m->layers[il];
	const struct hparams *h = &c->m->h;
	const float *in;
	float *out;

	if (!weight_is(&l->router))
		want_after(c, il);
	in = normed(c, &l->attn_norm, c->x, c->y);
	if (h->parallel || (h->arch->ffn_norm == MAY && !l->ffn_norm.on)) {
		mix(c, il, in, c->z);
		if (l->ffn_norm.on)
			in = normed(c, &l->ffn_norm, c->x, c->y);
		out = alone(c, il, in, c->y);
		add(c, c->z);
		add(c, out);
		return;
	}
	mix(c, il, in, c->y);
	add(c, normed(c, &l->attn_post, c->y, c->y));
	if (h->arch->mixer == MAMBA)
		return;
	in = normed(c, &l->ffn_norm, c->x, c->y);
	out = alone(c, il, in, c->y);
	add(c, normed(c, &l->ffn_post, out, out));
	/* RWKV-6: keeps half floats from overflowing elsewhere */
	if (h->rescale > 0 && (il + 1) % h->rescale == 0)
		c->k->scale(c->x, 0.5f, (size_t)c->n_cols * h->n_embd);
}

/* ---- the pass ---- */

/* Gives every column its position; nothing changes if one does not fit. */
static int
take_columns(struct pico_ctx *c, const struct pico_col *cols, size_t n,
    struct pico_err *err)
{
	struct kv *kv = &c->kv;
	uint32_t seq;
	size_t i;

	for (i = 0; i < n; i++) {
		seq = cols[i].seq;
		if (cols[i].token < 0 ||
		    (uint32_t)cols[i].token >= c->m->h.n_vocab) {
			(void)fail(err, "token %" PRId32 " is not in the "
			    "vocabulary of %" PRIu32, cols[i].token,
			    c->m->h.n_vocab);
			goto bad;
		}
		if (seq >= kv->n_seq || kv->n[seq] >= kv->n_ctx) {
			(void)fail(err, "sequence %" PRIu32 " is full: context "
			    "is %" PRIu32, seq, kv->n_ctx);
			goto bad;
		}
		c->seq[i] = seq;
		c->pos[i] = kv->n[seq]++;
		kv->tokens[(size_t)seq * kv->n_ctx + c->pos[i]] =
		    cols[i].token;
	}
	return 0;
bad:
	while (i-- > 0)
		kv->n[cols[i].seq]--;
	return -1;
}

int
pico_ctx_eval(struct pico_ctx *c, const struct pico_col *cols, size_t n,
    struct pico_err *err)
{
	uint32_t il;
	size_t i;

	c->n_want = 0;
	c->block_n = 0;
	c->n_cols = 0;
	if (n > c->chunk)
		return fail(err, "%zu columns in a pass of at most %" PRIu32,
		    n, c->chunk);
	if (take_columns(c, cols, n, err) < 0)
		return -1;
	c->n_cols = (uint32_t)n;
	for (i = 0; i < n; i++) {
		c->want_at[i] = 0;
		if (cols[i].logits) {
			c->want[c->n_want++] = (uint32_t)i;
			c->want_at[i] = c->n_want;
		}
	}
	forward_ahead(c);
	pool_run(c->pool, n, 1, embed_cols, c);
	/* rows that must be read come one after the other */
	for (i = 0; i < n && !embeds_anywhere(c); i++)
		embed(c, i);
	for (il = 0; il < c->m->h.n_layer && c->fault.status == PICO_OK; il++)
		layer(c, il);
	if (pico_ctx_fault(c, err) < 0)
		return -1;
	return pico_gguf_check(c->m->gguf, err);
}

/* What becomes of the output matrix's products. */
static void
finish_logits(void *data, size_t lo, size_t hi)
{
	struct pico_ctx *c = data;
	const struct hparams *h = &c->m->h;
	float *z = c->logits + lo;
	size_t n = hi - lo;

	if (h->logit_scale != 1)
		c->k->scale(z, h->logit_scale, n);
	if (h->final_cap > 0) {
		c->k->scale(z, 1 / h->final_cap, n);
		c->k->apply(K_TANH, z, n);
		c->k->scale(z, h->final_cap, n);
	}
}

const float *
pico_ctx_logits(struct pico_ctx *c, size_t i)
{
	const struct hparams *h = &c->m->h;
	size_t d = h->n_embd, k, at;

	if (i >= c->n_cols || c->want_at[i] == 0)
		return NULL;
	at = c->want_at[i] - 1;
	if (at < c->block_first || at - c->block_first >= c->block_n) {
		c->block_first = (uint32_t)at;
		c->block_n = MIN(c->n_want - (uint32_t)at, c->block);
		for (k = 0; k < c->block_n; k++)
			norm_row(c, &c->m->output_norm,
			    c->x + c->want[at + k] * d, d, c->y + k * d);
		multiply_one(c, &c->m->output, c->y, c->block_n, c->logits);
		if (h->logit_scale != 1 || h->final_cap > 0)
			pool_run(c->pool, (size_t)c->block_n * h->n_vocab,
			    1024, finish_logits, c);
		(void)pico_gguf_check(c->m->gguf, &c->fault);
		if (at + c->block_n == c->n_want)
			forward_ahead(c);
	}
	if (c->fault.status != PICO_OK)
		return NULL;
	return c->logits + (at - c->block_first) * h->n_vocab;
}
