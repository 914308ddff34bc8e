/* SPDX-License-Identifier: MIT */
/*
 * Latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all
 * heads come from one short vector, beside a turned part of the key that all
 * heads share. Older files have the matrix that expands it: then the cache holds
 * what every head sees. Newer ones have it in two halves, of which one meets
 * the queries and one what was attended to: then the cache holds the short
 * vector, and all heads share it.
 */
#include <string.h>

#include "model.h"

struct mla_rows {
	float *q_a;		/* the query at its narrowest */
	float *q;		/* a head: mla_k, then n_rot */
	float *kv_a;		/* kv_rank, then n_rot */
	float *latent;		/* kv_rank, normed */
	float *kv;		/* expanded, a head: mla_k, then mla_v */
	float *k, *v;		/* as the cache wants them */
	float *q_plain, *q_met;	/* latent: before and after its matrix... */
	float *q_all;		/* ...with the turned part: head_k */
	float *seen;		/* latent: head_v a head */
	float *out;		/* mla_v a head */
};

static struct mla_rows
lay_out(struct space *r, const struct hparams *h, uint32_t il, uint64_t n)
{
	uint64_t heads = h->n_head[il];
	struct mla_rows rows = {
		.q_a = space_take(r, n, h->q_rank),
		.q = space_take(r, n, heads * (h->mla_k + h->n_rot)),
		.kv_a = space_take(r, n, h->kv_rank + h->n_rot),
		.latent = space_take(r, n, h->kv_rank),
		.out = space_take(r, n, heads * h->mla_v),
	};

	if (h->mla_latent) {
		rows.k = space_take(r, n, h->head_k);
		rows.q_plain = space_take(r, n, heads * h->mla_k);
		rows.q_met = space_take(r, n, heads * h->kv_rank);
		rows.q_all = space_take(r, n, heads * h->head_k);
		rows.seen = space_take(r, n, heads * h->head_v);
	} else {
		rows.kv = space_take(r, n, heads * (h->mla_k + h->mla_v));
		rows.k = space_take(r, n, heads * h->head_k);
		rows.v = space_take(r, n, heads * h->head_v);
	}
	return rows;
}

void
mla_space(struct space *r, const struct hparams *h, uint32_t il, uint64_t n)
{
	(void)lay_out(r, h, il, n);
}

struct place {
	struct pico_ctx *c;
	uint32_t il;
	struct mla_rows rows;
};

static void
norm_query(void *data, size_t lo, size_t hi)
{
	struct place *s = data;
	size_t i, n = s->c->m->h.q_rank;
	float *q = s->rows.q_a;

	for (i = lo; i < hi; i++)
		norm_row(s->c, &s->c->m->layers[s->il].mla.q_norm, q + i * n,
		    n, q + i * n);
}

/* The short vector is normed; what turns is turned. */
static void
place_cols(void *data, size_t lo, size_t hi)
{
	struct place *s = data;
	struct pico_ctx *c = s->c;
	const struct hparams *h = &c->m->h;
	size_t heads = h->n_head[s->il], size = h->mla_k + h->n_rot;
	size_t half = h->n_rot / 2, head, i;
	bool halves = h->rope == ROPE_HALVES;

	for (i = lo; i < hi; i++) {
		const float *cs = c->cos[0] + i * half;
		const float *sn = c->sin[0] + i * half;
		float *q = s->rows.q + i * heads * size;
		float *kv = s->rows.kv_a + i * (h->kv_rank + h->n_rot);

		norm_row(c, &c->m->layers[s->il].mla.kv_norm, kv, h->kv_rank,
		    s->rows.latent + i * h->kv_rank);
		c->k->rope(kv + h->kv_rank, 1, h->n_rot, h->n_rot, cs, sn,
		    halves);
		c->k->rope(q + h->mla_k, heads, size, h->n_rot, cs, sn,
		    halves);
		for (head = 0; h->mla_latent && head < heads; head++)
			memcpy(s->rows.q_plain + (i * heads + head) * h->mla_k,
			    q + head * size, h->mla_k * sizeof *q);
	}
}

/* Keys and values of every head. */
static void
keep_expanded(void *data, size_t lo, size_t hi)
{
	struct place *s = data;
	const struct hparams *h = &s->c->m->h;
	size_t heads = h->n_head[s->il], head, i;

	for (i = lo; i < hi; i++) {
		const float *kv = s->rows.kv + i * heads *
		    (h->mla_k + h->mla_v);
		const float *turned = s->rows.kv_a +
		    i * (h->kv_rank + h->n_rot) + h->kv_rank;
		float *k = s->rows.k + i * heads * h->head_k;
		float *v = s->rows.v + i * heads * h->head_v;

		for (head = 0; head < heads; head++) {
			memcpy(k + head * h->head_k, kv,
			    h->mla_k * sizeof *k);
			memcpy(k + head * h->head_k + h->mla_k, turned,
			    h->n_rot * sizeof *k);
			memcpy(v + head * h->head_v, kv + h->mla_k,
			    h->mla_v * sizeof *v);
			kv += h->mla_k + h->mla_v;
		}
		keep_row(s->c, s->il, i, k, v);
	}
}

/* The short vector and the turned part; queries in the same terms. */
static void
keep_latent(void *data, size_t lo, size_t hi)
{
	struct place *s = data;
	const struct hparams *h = &s->c->m->h;
	size_t heads = h->n_head[s->il], size = h->mla_k + h->n_rot, head, i;

	for (i = lo; i < hi; i++) {
		const float *latent = s->rows.latent + i * h->kv_rank;
		float *k = s->rows.k + i * h->head_k;

		memcpy(k, latent, h->kv_rank * sizeof *k);
		memcpy(k + h->kv_rank, s->rows.kv_a + i * h->head_k +
		    h->kv_rank, h->n_rot * sizeof *k);
		keep_row(s->c, s->il, i, k, latent);
		for (head = i * heads; head < (i + 1) * heads; head++) {
			float *q = s->rows.q_all + head * h->head_k;

			memcpy(q, s->rows.q_met + head * h->kv_rank,
			    h->kv_rank * sizeof *q);
			memcpy(q + h->kv_rank, s->rows.q + head * size +
			    h->mla_k, h->n_rot * sizeof *q);
		}
	}
}

void
mla(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	const struct mla_weights *l = &c->m->layers[il].mla;
	struct space space = { .base = c->work };
	struct place s = { .c = c, .il = il };
	struct mla_rows *r = &s.rows;
	size_t n = c->n_cols;

	*r = lay_out(&space, &c->m->h, il, n);
	if (weight_is(&l->q)) {
		struct product first[2] = {
			{ &l->q, r->q, 0 }, { &l->kv_a, r->kv_a, 0 }
		};

		multiply(c, in, n, first, 2);
	} else {
		struct product first[2] = {
			{ &l->q_a, r->q_a, 0 }, { &l->kv_a, r->kv_a, 0 }
		};

		multiply(c, in, n, first, 2);
		pool_run(c->pool, n, 1, norm_query, &s);
		multiply_one(c, &l->q_b, r->q_a, n, r->q);
	}
	pool_run(c->pool, n, 1, place_cols, &s);
	if (c->m->h.mla_latent) {
		multiply_one(c, &l->k_b, r->q_plain, n, r->q_met);
		pool_run(c->pool, n, 1, keep_latent, &s);
		attend_all(c, il, r->q_all, r->seen, NULL);
		multiply_one(c, &l->v_b, r->seen, n, r->out);
	} else {
		multiply_one(c, &l->kv_b, r->latent, n, r->kv);
		pool_run(c->pool, n, 1, keep_expanded, &s);
		attend_all(c, il, r->q, r->out, NULL);
	}
	multiply_one(c, &l->out, r->out, n, out);
}
