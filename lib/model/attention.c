/* SPDX-License-Identifier: MIT */
/*
 * Attention (Vaswani et al. 2017) with grouped heads (arXiv 2305.13245), and
 * what architectures add to it: norms of queries and keys, clamps, rotation,
 * ALiBi (arXiv 2108.12409), windows, soft caps, sinks.
 */
#include "model.h"

/* Positions that are fetched before they are met. */
#define FETCHED 64

struct attention_rows {
	float *q, *k, *v, *out;
};

static struct attention_rows
lay_out(struct space *r, const struct hparams *h, uint32_t il, uint64_t n)
{
	uint64_t n_head = h->n_head[il], n_kv = h->n_head_kv[il];

	return (struct attention_rows){
		.q = space_take(r, n, n_head * h->head_k),
		.k = space_take(r, n, n_kv * h->head_k),
		.v = space_take(r, n, n_kv * h->head_v),
		.out = space_take(r, n, n_head * h->head_v),
	};
}

void
attention_space(struct space *r, const struct hparams *h, uint32_t il,
    uint64_t n)
{
	(void)lay_out(r, h, il, n);
}

/* ---- the cache ---- */

/* The key and value of one head. */
static void
keep_head(struct pico_ctx *c, uint32_t il, size_t col, uint32_t head,
    const float *k, const float *v)
{
	const struct hparams *h = &c->m->h;
	const struct kv *kv = &c->kv;
	uint32_t seq = c->seq[col];
	size_t at = c->pos[col];

	kv_store_key(c->k, kv->type, k, h->head_k, kv_k(kv, il, seq, head), at);
	c->k->kv_store(kv->type, v, h->head_v,
	    kv_v(kv, il, seq, head) + at * kv->row_v);
}

void
keep_row(struct pico_ctx *c, uint32_t il, size_t col, const float *k,
    const float *v)
{
	const struct hparams *h = &c->m->h;
	uint32_t head;

	for (head = 0; head < h->n_head_kv[il]; head++)
		keep_head(c, il, col, head, k + head * h->head_k,
		    v + head * h->head_v);
}

/* ---- queries, keys and values ---- */

/* Some query heads that share a KV head, and columns: group * n_cols + column.
   Columns that follow each other in a sequence go together. */
struct heads {
	struct pico_ctx *c;
	uint32_t il;
	size_t size;		/* of a group */
	float *q, *k, *v;
	float *out;
	const float *sinks;
	bool places;		/* keys and values are not in the cache yet */
};

static void
clamp(float *x, float most, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

/* Norms of heads first.. of a row. */
static void
norm_heads(const struct pico_ctx *c, const struct norm *norm, float *x,
    size_t first, size_t n)
{
	enum qk_norm kind = c->m->h.arch->qk_norm;
	size_t i, size = c->m->h.head_k;
	struct norm one = *norm;

	for (i = first; norm->on && i < first + n; i++) {
		if (kind == QK_OWN)
			one.w = norm->w + i * size;
		norm_row(c, &one, x + i * size, size, x + i * size);
	}
}

/* What concerns all heads of a column. */
static void
finish_cols(void *data, size_t lo, size_t hi)
{
	struct heads *g = data;
	struct pico_ctx *c = g->c;
	const struct hparams *h = &c->m->h;
	const struct attention_weights *l = &c->m->layers[g->il].attn;
	size_t n_q = (size_t)h->n_head[g->il] * h->head_k;
	size_t n_k = (size_t)h->n_head_kv[g->il] * h->head_k;
	size_t n_v = (size_t)h->n_head_kv[g->il] * h->head_v, i;

	for (i = lo; i < hi; i++) {
		float *q = g->q + i * n_q, *k = g->k + i * n_k;

		if (h->clamp > 0) {
			clamp(q, h->clamp, n_q);
			clamp(k, h->clamp, n_k);
			clamp(g->v + i * n_v, h->clamp, n_v);
		}
		if (h->arch->qk_norm >= QK_ROW && l->q_norm.on)
			norm_row(c, &l->q_norm, q, n_q, q);
		if (h->arch->qk_norm >= QK_ROW && l->k_norm.on)
			norm_row(c, &l->k_norm, k, n_k, k);
	}
}

/* A KV head of a column and the queries that share it become what is compared;
   key and value go into the cache. */
static void
place_head(struct heads *g, size_t col, uint32_t head)
{
	struct pico_ctx *c = g->c;
	const struct hparams *h = &c->m->h;
	const struct attention_weights *l = &c->m->layers[g->il].attn;
	size_t n_kv = h->n_head_kv[g->il], share = h->n_head[g->il] / n_kv;
	float *q = g->q + col * n_kv * share * h->head_k;
	float *k = g->k + col * n_kv * h->head_k;
	int rope = hparams_rope(h, g->il);

	if (h->arch->qk_norm < QK_ROW) {
		norm_heads(c, &l->q_norm, q, head * share, share);
		norm_heads(c, &l->k_norm, k, head, 1);
	}
	q += head * share * h->head_k;
	k += head * h->head_k;
	if (hparams_turns(h, g->il)) {
		const float *cs = c->cos[rope] + col * (h->n_rot / 2);
		const float *sn = c->sin[rope] + col * (h->n_rot / 2);
		bool halves = h->rope == ROPE_HALVES;

		c->k->rope(q, share, h->head_k, h->n_rot, cs, sn, halves);
		c->k->rope(k, 1, h->head_k, h->n_rot, cs, sn, halves);
	}
	/* Ministral 3: far queries are sharpened */
	if (h->temperature > 0)
		c->k->scale(q, (float)(1 + h->temperature *
		    m_log(c->pos[col] / h->rope_ctx_orig + 1)),
		    share * h->head_k);
	keep_head(c, g->il, col, head, k, g->v + (col * n_kv + head) *
	    h->head_v);
}

static void
place_heads(void *data, size_t lo, size_t hi)
{
	struct heads *g = data;
	size_t i;

	for (i = lo; i < hi; i++)
		place_head(g, i % g->c->n_cols, (uint32_t)(i / g->c->n_cols));
}

/* ---- queries meet keys ---- */

/* Asks for what item i meets in the cache, as much of it as will be used before the
   rest has come, and where its key and value go. */
static void
fetch_cache(const struct heads *g, size_t i)
{
	const struct pico_ctx *c = g->c;
	const struct hparams *h = &c->m->h;
	const struct kv *kv = &c->kv;
	size_t share = h->n_head[g->il] / h->n_head_kv[g->il];
	size_t col = i % c->n_cols, at = c->pos[col];
	size_t window = hparams_window(h, g->il);
	size_t first = window > 0 && at >= window ? at - window + 1 : 0, n;
	uint32_t head = (uint32_t)(i / c->n_cols * g->size / share);
	const uint8_t *k = kv_k(kv, g->il, c->seq[col], head);
	const uint8_t *v = kv_v(kv, g->il, c->seq[col], head);

	first -= first % KV_SIDE;
	n = MIN(at + 1 - first, FETCHED);
	fetch_bytes(k + first * kv->row_k, (size_t)kv_room(n) * kv->row_k);
	fetch_bytes(v + first * kv->row_v, n * kv->row_v);
	fetch_bytes(k + at / KV_SIDE * KV_SIDE * kv->row_k, KV_SIDE *
	    kv->row_k);
	fetch_bytes(v + at * kv->row_v, kv->row_v);
}

static void
attend_heads(void *data, size_t lo, size_t hi)
{
	struct heads *g = data;
	struct pico_ctx *c = g->c;
	const struct hparams *h = &c->m->h;
	size_t n_head = h->n_head[g->il], share = n_head / h->n_head_kv[g->il];
	size_t i, n, col, head;

	for (i = lo; i < hi; i += n) {
		col = i % c->n_cols;
		head = i / c->n_cols * g->size;
		for (n = 1; i + n < hi && col + n < c->n_cols &&
		    c->seq[col + n] == c->seq[col] &&
		    c->pos[col + n] == c->pos[col] + n; n++)
			;
		if (g->places)
			place_head(g, col, (uint32_t)(head / share));
		if (i + n < hi)
			fetch_cache(g, i + n);
		c->k->attend(&(struct attend){
			.type = c->kv.type,
			.n_cols = n, .n_q = g->size,
			.n_keys = (size_t)c->pos[col] + 1,
			.dim_k = h->head_k, .dim_v = h->head_v,
			.q = g->q + (col * n_head + head) * h->head_k,
			.q_stride = n_head * h->head_k,
			.k = kv_k(&c->kv, g->il, c->seq[col],
			    (uint32_t)(head / share)),
			.v = kv_v(&c->kv, g->il, c->seq[col],
			    (uint32_t)(head / share)),
			.scale = h->attn_scale,
			.cap = h->attn_cap,
			.slope = h->alibi > 0 ? c->slopes + head : NULL,
			.window = hparams_window(h, g->il),
			.sink = g->sinks != NULL ? g->sinks + head : NULL,
			.out = g->out + (col * n_head + head) * h->head_v,
			.out_stride = n_head * h->head_v,
		});
	}
}

/* All heads that share a KV head together, unless threads would have nothing
   to do. */
static void
attend_groups(struct heads *g)
{
	struct pico_ctx *c = g->c;
	size_t n_head = c->m->h.n_head[g->il];

	pool_run(c->pool, c->n_cols * (n_head / g->size), 1, attend_heads, g);
}

static size_t
group_size(const struct pico_ctx *c, uint32_t il)
{
	size_t n_head = c->m->h.n_head[il], n_kv = c->m->h.n_head_kv[il];

	return c->n_cols * n_kv < 2 * pool_n(c->pool) ? 1 : n_head / n_kv;
}

void
attend_all(struct pico_ctx *c, uint32_t il, float *q, float *out,
    const float *sinks)
{
	struct heads g = {
		.c = c, .il = il, .size = group_size(c, il), .q = q, .out = out,
		.sinks = sinks,
	};

	attend_groups(&g);
}

/* Whether no column is seen by another. */
static bool
all_alone(const struct pico_ctx *c)
{
	size_t i;

	for (i = 0; i < c->n_cols; i++)
		if (c->pos[i] + 1 != c->kv.n[c->seq[i]])
			return false;
	return true;
}

void
attention(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	const struct hparams *h = &c->m->h;
	const struct attention_weights *l = &c->m->layers[il].attn;
	struct space space = { .base = c->work };
	struct attention_rows rows = lay_out(&space, h, il, c->n_cols);
	struct product qkv[3] = {
		{ &l->q, rows.q, 0 }, { &l->k, rows.k, 0 },
		{ &l->v, rows.v, 0 }
	};
	struct heads g = {
		.c = c, .il = il, .size = group_size(c, il), .q = rows.q,
		.k = rows.k, .v = rows.v, .out = rows.out, .sinks = l->sinks,
	};

	multiply(c, in, c->n_cols, qkv, 3);
	if (h->clamp > 0 || h->arch->qk_norm >= QK_ROW)
		pool_run(c->pool, c->n_cols, 1, finish_cols, &g);
	g.places = g.size * h->n_head_kv[il] == h->n_head[il] && all_alone(c);
	if (!g.places)
		pool_run(c->pool, c->n_cols * h->n_head_kv[il], 1, place_heads,
		    &g);
	attend_groups(&g);
	multiply_one(c, &l->out, rows.out, c->n_cols, out);
}
