/* SPDX-License-Identifier: MIT */
/*
 * Attention (Vaswani et al. 2017) with grouped heads (arXiv 2305.13245), and
 * what architectures add to it: norms of queries and keys, clamps, rotation,
 * ALiBi (arXiv 2108.12409), windows, soft caps, sinks.
 */
#include "model.h"

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

void
keep_row(struct pico_ctx *c, uint32_t il, size_t col, const float *k,
    const float *v)
{
	const struct hparams *h = &c->m->h;
	const struct kv *kv = &c->kv;
	uint32_t head, seq = c->seq[col];
	size_t at = c->pos[col];

	for (head = 0; head < h->n_head_kv[il]; head++) {
		kv_store_key(c->k, kv->type, k + head * h->head_k, h->head_k,
		    kv_k(kv, il, seq, head), at);
		c->k->kv_store(kv->type, v + head * h->head_v, h->head_v,
		    kv_v(kv, il, seq, head) + at * kv->row_v);
	}
}

/* ---- queries meet keys ---- */

/* Some query heads that share a KV head, and columns: group * n_cols + column.
   Columns that follow each other in a sequence go together. */
struct heads {
	struct pico_ctx *c;
	uint32_t il;
	size_t size;		/* of a group */
	const float *q;
	float *out;
	const float *sinks;
};

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
void
attend_all(struct pico_ctx *c, uint32_t il, const float *q, float *out,
    const float *sinks)
{
	size_t n_head = c->m->h.n_head[il], n_kv = c->m->h.n_head_kv[il];
	struct heads g = {
		.c = c, .il = il, .size = n_head / n_kv, .q = q, .out = out,
		.sinks = sinks,
	};

	if (c->n_cols * n_kv < 2 * pool_n(c->pool))
		g.size = 1;
	pool_run(c->pool, c->n_cols * (n_head / g.size), 1, attend_heads, &g);
}

/* ---- queries, keys and values ---- */

static void
clamp(float *x, float most, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

/* Norms of the heads of one row, or of the row. */
static void
norm_heads(const struct pico_ctx *c, const struct norm *norm, float *x,
    size_t n_head, size_t size)
{
	enum qk_norm kind = c->m->h.arch->qk_norm;
	struct norm one = *norm;
	size_t i;

	if (!norm->on)
		return;
	if (kind >= QK_ROW) {
		norm_row(c, norm, x, n_head * size, x);
		return;
	}
	for (i = 0; i < n_head; i++) {
		norm_row(c, &one, x + i * size, size, x + i * size);
		if (kind == QK_OWN)
			one.w += size;
	}
}

struct place {
	struct pico_ctx *c;
	uint32_t il;
	struct attention_rows rows;
};

/* Queries and keys become what they are compared by; keys and values go into
   the cache. */
static void
place_cols(void *data, size_t lo, size_t hi)
{
	struct place *s = data;
	struct pico_ctx *c = s->c;
	const struct hparams *h = &c->m->h;
	const struct attention_weights *l = &c->m->layers[s->il].attn;
	uint32_t n_head = h->n_head[s->il], n_kv = h->n_head_kv[s->il];
	size_t i, n_q = (size_t)n_head * h->head_k;
	size_t n_k = (size_t)n_kv * h->head_k, n_v = (size_t)n_kv * h->head_v;
	size_t half = h->n_rot / 2;
	int rope = hparams_rope(h, s->il);
	bool turns = hparams_turns(h, s->il);

	for (i = lo; i < hi; i++) {
		float *q = s->rows.q + i * n_q, *k = s->rows.k + i * n_k;
		float *v = s->rows.v + i * n_v;

		if (h->clamp > 0) {
			clamp(q, h->clamp, n_q);
			clamp(k, h->clamp, n_k);
			clamp(v, h->clamp, n_v);
		}
		norm_heads(c, &l->q_norm, q, n_head, h->head_k);
		norm_heads(c, &l->k_norm, k, n_kv, h->head_k);
		if (turns) {
			const float *cs = c->cos[rope] + i * half;
			const float *sn = c->sin[rope] + i * half;
			bool halves = h->rope == ROPE_HALVES;

			c->k->rope(q, n_head, h->head_k, h->n_rot, cs, sn,
			    halves);
			c->k->rope(k, n_kv, h->head_k, h->n_rot, cs, sn,
			    halves);
		}
		/* Ministral 3: far queries are sharpened */
		if (h->temperature > 0)
			c->k->scale(q, (float)(1 + h->temperature *
			    m_log(c->pos[i] / h->rope_ctx_orig + 1)), n_q);
		keep_row(c, s->il, i, k, v);
	}
}

void
attention(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	const struct attention_weights *l = &c->m->layers[il].attn;
	struct space space = { .base = c->work };
	struct place s = { .c = c, .il = il };
	struct product qkv[3];

	s.rows = lay_out(&space, &c->m->h, il, c->n_cols);
	qkv[0] = (struct product){ &l->q, s.rows.q, 0 };
	qkv[1] = (struct product){ &l->k, s.rows.k, 0 };
	qkv[2] = (struct product){ &l->v, s.rows.v, 0 };
	multiply(c, in, c->n_cols, qkv, 3);
	pool_run(c->pool, c->n_cols, 1, place_cols, &s);
	attend_all(c, il, s.rows.q, s.rows.out, l->sinks);
	multiply_one(c, &l->out, s.rows.out, c->n_cols, out);
}
