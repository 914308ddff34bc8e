/* SPDX-License-Identifier: MIT */
/*
 * RWKV-6 (arXiv 2404.05892) and RWKV-7 (arXiv 2503.14456): each head has a
 * matrix as its state, which a column decays, adds to and reads. What a column
 * computes from is its row mixed with the row before it ("token shift"), so the
 * state also has the last row of each branch. Threads share heads, or elements;
 * columns follow each other.
 */
#include <math.h>
#include <string.h>

#include "model.h"

/* Elements that stay on one thread. */
#define SOME 64
#define LN_EPS 64e-5f	/* of the norm of heads, in every model */

struct rwkv_rows {
	float *delta;		/* the row before, minus this one */
	float *mixed;		/* a row for each of what it goes into */
	float *narrow, *wide;	/* RWKV-6: the mix on its way, 5 of each */
	float *rank;		/* of a low-rank pair */
	float *r, *k, *v, *w, *g, *a, *kk, *out;
	float *ff;		/* n_ff, of the channel mix */
};

static struct rwkv_rows
lay_out(struct space *space, const struct hparams *h, uint32_t il, uint64_t n)
{
	uint64_t d = h->n_embd, rank = h->decay_rank;
	bool six = h->arch->mixer == RWKV6;
	struct rwkv_rows r = {
		.delta = space_take(space, n, d),
		.mixed = space_take(space, n, 6 * d),
		.r = space_take(space, n, d), .k = space_take(space, n, d),
		.v = space_take(space, n, d), .w = space_take(space, n, d),
		.g = space_take(space, n, d), .out = space_take(space, n, d),
		.ff = space_take(space, n, h->n_ff[il]),
	};

	rank = MAX(MAX(rank, h->iclr_rank), MAX(h->value_rank, h->gate_rank));
	r.rank = space_take(space, n, rank);
	if (six) {
		r.narrow = space_take(space, n, 5 * (uint64_t)h->mix_rank);
		r.wide = space_take(space, n, 5 * d);
	} else {
		r.a = space_take(space, n, d);
		r.kk = space_take(space, n, d);
	}
	return r;
}

void
rwkv_space(struct space *r, const struct hparams *h, uint32_t il, uint64_t n)
{
	(void)lay_out(r, h, il, n);
}

struct mix {
	struct pico_ctx *c;
	uint32_t il;
	struct rwkv_rows rows;
	const float *in;
	bool channel;		/* the second branch */
};

/* ---- token shift ---- */

/* A state is the last row of each branch, and then a matrix a head. */
static float *
last_row(const struct mix *s, size_t col)
{
	return kv_state_of(&s->c->kv, s->il, s->c->seq[col]) +
	    (s->channel ? s->c->m->h.n_embd : 0);
}

static float *
matrix_of(const struct mix *s, size_t col, size_t head)
{
	const struct hparams *h = &s->c->m->h;

	return kv_state_of(&s->c->kv, s->il, s->c->seq[col]) +
	    2 * (size_t)h->n_embd + head * h->wkv_head * h->wkv_head;
}

/* delta = last - in; last = in, for elements lo..hi */
static void
shift(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;
	size_t d = s->c->m->h.n_embd, col, i;

	for (col = 0; col < s->c->n_cols; col++) {
		const float *in = s->in + col * d;
		float *last = last_row(s, col);

		for (i = lo; i < hi; i++) {
			s->rows.delta[col * d + i] = last[i] - in[i];
			last[i] = in[i];
		}
	}
}

/* out = in + delta * by, element by element */
static void
lerp(const float *in, const float *delta, const float *by, size_t n,
    float *out)
{
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = in[i] + delta[i] * by[i];
}

/* Rows of number `part` of what the columns are mixed for. */
static float *
mixed(const struct mix *s, size_t part)
{
	return s->rows.mixed + part * s->c->n_cols * s->c->m->h.n_embd;
}

/* Mixes for parts 0..n by constant factors. */
struct lerps {
	const struct mix *s;
	const float *by[6];
	size_t n;
};

static void
lerp_cols(void *data, size_t lo, size_t hi)
{
	struct lerps *l = data;
	const struct mix *s = l->s;
	size_t d = s->c->m->h.n_embd, i, part;

	for (i = lo; i < hi; i++)
		for (part = 0; part < l->n; part++)
			lerp(s->in + i * d, s->rows.delta + i * d,
			    l->by[part], d, mixed(s, part) + i * d);
}

/* ---- heads ---- */

/*
 * RWKV-6, state M (key x value):
 *	o = r (M + (u k) v);  M = w M + k v
 */
static void
heads6(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;
	const struct kernels *k = s->c->k;
	const float *u = s->c->m->layers[s->il].rwkv.first;
	size_t n = s->c->m->h.wkv_head, d = s->c->m->h.n_embd, col, head, i;

	for (col = 0; col < s->c->n_cols; col++) {
		for (head = lo; head < hi; head++) {
			size_t at = col * d + head * n;
			const float *r = s->rows.r + at, *kk = s->rows.k + at;
			const float *v = s->rows.v + at, *w = s->rows.w + at;
			float *out = s->rows.out + at, now = 0;
			float *m = matrix_of(s, col, head);

			memset(out, 0, n * sizeof *out);
			for (i = 0; i < n; i++, m += n) {
				now += r[i] * u[head * n + i] * kk[i];
				k->axpy(out, r[i], m, n);
				k->scale(m, w[i], n);
				k->axpy(m, kk[i], v, n);
			}
			k->axpy(out, now, v, n);
		}
	}
}

/*
 * RWKV-7, state M (value x key), kept turned over:
 *	M = M diag(w) - (M kk) (kk a) + v k;  o = M r
 */
static void
heads7(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;
	const struct kernels *k = s->c->k;
	size_t n = s->c->m->h.wkv_head, d = s->c->m->h.n_embd, col, head, i;
	float removed[1 << 12];

	for (col = 0; col < s->c->n_cols; col++) {
		for (head = lo; head < hi; head++) {
			size_t at = col * d + head * n;
			const float *r = s->rows.r + at, *key = s->rows.k + at;
			const float *v = s->rows.v + at, *w = s->rows.w + at;
			const float *kk = s->rows.kk + at, *a = s->rows.a + at;
			float *out = s->rows.out + at;
			float *m = matrix_of(s, col, head);

			memset(removed, 0, n * sizeof *removed);
			memset(out, 0, n * sizeof *out);
			for (i = 0; i < n; i++)
				k->axpy(removed, -kk[i], m + i * n, n);
			for (i = 0; i < n; i++, m += n) {
				k->scale(m, w[i], n);
				k->axpy(m, kk[i] * a[i], removed, n);
				k->axpy(m, key[i], v, n);
				k->axpy(out, r[i], m, n);
			}
		}
	}
}

/* The norm of the heads of a row of `out`. */
static void
norm_heads(const struct mix *s, float *out)
{
	const struct norm *ln = &s->c->m->layers[s->il].rwkv.ln;
	size_t n = s->c->m->h.wkv_head, d = s->c->m->h.n_embd, i;

	for (i = 0; i < d; i += n)
		s->c->k->layer_norm(out + i, NULL, NULL, n, LN_EPS, out + i);
	s->c->k->mul(out, ln->w, d);
	s->c->k->add(out, ln->b, d);
}

/* ---- low-rank pairs ---- */

static const enum k_fn tanh_fn = K_TANH, sigmoid_fn = K_SIGMOID;

struct low_rank {
	struct mix *s;
	enum k_fn fn;
};

static void
apply_rank(void *data, size_t lo, size_t hi)
{
	struct low_rank *l = data;

	l->s->c->k->apply(l->fn, l->s->rows.rank + lo, hi - lo);
}

/* y = b f(a x), where f is none, tanh or a sigmoid. */
static void
low_rank(struct mix *s, const struct weight *a, const struct weight *b,
    const enum k_fn *fn, const float *x, float *y)
{
	size_t n = s->c->n_cols;

	multiply_one(s->c, a, x, n, s->rows.rank);
	if (fn != NULL)
		pool_run(s->c->pool, n * a->n_out, SOME, apply_rank,
		    &(struct low_rank){ s, *fn });
	multiply_one(s->c, b, s->rows.rank, n, y);
}

/* ---- RWKV-6 ---- */

static void
mix_narrow(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;
	size_t d = s->c->m->h.n_embd, i;
	const float *by = s->c->m->layers[s->il].rwkv.lerp_x;

	for (i = lo; i < hi; i++)
		lerp(s->in + i * d, s->rows.delta + i * d, by, d,
		    mixed(s, 0) + i * d);
}

static void
tanh_values(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;

	s->c->k->apply(K_TANH, s->rows.narrow + lo, hi - lo);
}

/* The mixes for w, k, v, r, g, each column by its own factors. */
static void
mix_wide(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;
	const struct rwkv_weights *l = &s->c->m->layers[s->il].rwkv;
	size_t d = s->c->m->h.n_embd, i, part;

	for (i = lo; i < hi; i++)
		for (part = 0; part < 5; part++) {
			float *by = s->rows.wide + (i * 5 + part) * d;

			s->c->k->add(by, l->lerp[part], d);
			lerp(s->in + i * d, s->rows.delta + i * d, by, d,
			    mixed(s, part) + i * d);
		}
}

/* w = exp(-exp(w0 + w)) */
static void
decay6(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;
	const struct kernels *k = s->c->k;
	size_t d = s->c->m->h.n_embd, i;

	for (i = lo; i < hi; i++) {
		float *w = s->rows.w + i * d;

		k->add(w, s->c->m->layers[s->il].rwkv.decay, d);
		k->apply(K_EXP, w, d);
		k->scale(w, -1, d);
		k->apply(K_EXP, w, d);
	}
}

/* out = norm(out) * silu(g), left in g */
static void
finish6(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;
	size_t d = s->c->m->h.n_embd, i;

	for (i = lo; i < hi; i++) {
		norm_heads(s, s->rows.out + i * d);
		s->c->k->gate(K_SILU, s->rows.g + i * d, s->rows.out + i * d,
		    d);
	}
}

void
rwkv6(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	const struct rwkv_weights *l = &c->m->layers[il].rwkv;
	const struct hparams *h = &c->m->h;
	struct space space = { .base = c->work };
	struct mix s = { .c = c, .il = il, .in = in };
	struct rwkv_rows *r = &s.rows;
	size_t n = c->n_cols, d = h->n_embd;

	*r = lay_out(&space, h, il, n);
	pool_run(c->pool, d, SOME, shift, &s);
	pool_run(c->pool, n, 1, mix_narrow, &s);
	multiply_one(c, &l->w1, mixed(&s, 0), n, r->narrow);
	pool_run(c->pool, n * 5 * h->mix_rank, SOME, tanh_values, &s);
	multiply_one(c, &l->w2, r->narrow, n, r->wide);
	pool_run(c->pool, n, 1, mix_wide, &s);
	low_rank(&s, &l->decay_w1, &l->decay_w2, &tanh_fn, mixed(&s, 0), r->w);
	multiply_one(c, &l->r, mixed(&s, 3), n, r->r);
	multiply_one(c, &l->k, mixed(&s, 1), n, r->k);
	multiply_one(c, &l->v, mixed(&s, 2), n, r->v);
	multiply_one(c, &l->gate, mixed(&s, 4), n, r->g);
	pool_run(c->pool, n, 1, decay6, &s);
	pool_run(c->pool, d / h->wkv_head, 1, heads6, &s);
	pool_run(c->pool, n, 1, finish6, &s);
	multiply_one(c, &l->out, r->g, n, out);
}

/* ---- RWKV-7 ---- */

/* x = sigmoid(x + bias) */
static void
sigmoid_of(const struct kernels *k, float *x, const float *bias, size_t n)
{
	k->add(x, bias, n);
	k->apply(K_SIGMOID, x, n);
}

/* What the heads work with, of each column. */
static void
prepare7(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;
	const struct pico_ctx *c = s->c;
	const struct kernels *k = c->k;
	const struct rwkv_weights *l = &c->m->layers[s->il].rwkv;
	size_t d = c->m->h.n_embd, n = c->m->h.wkv_head, col, i, j;

	for (col = lo; col < hi; col++) {
		float *w = s->rows.w + col * d, *a = s->rows.a + col * d;
		float *key = s->rows.k + col * d, *v = s->rows.v + col * d;
		float *kk = s->rows.kk + col * d, *v1 = c->first_v + col * d;
		float *mix_v = s->rows.out + col * d;

		/* w = exp(-0.606531 sigmoid(w0 + w)) */
		sigmoid_of(k, w, l->decay, d);
		k->scale(w, -0.606531f, d);
		k->apply(K_EXP, w, d);
		sigmoid_of(k, a, l->a0, d);
		if (s->il == 0) {
			memcpy(v1, v, d * sizeof *v);
		} else {
			sigmoid_of(k, mix_v, l->v0, d);
			for (i = 0; i < d; i++)
				v[i] += (v1[i] - v[i]) * mix_v[i];
		}
		for (i = 0; i < d; i += n) {
			float sum = 0;

			for (j = i; j < i + n; j++) {
				kk[j] = key[j] * l->k_k[j];
				sum += kk[j] * kk[j];
			}
			k->scale(kk + i, 1 / MAX(sqrtf(sum), 1e-12f), n);
		}
		for (i = 0; i < d; i++)
			key[i] += key[i] * l->k_a[i] * (a[i] - 1);
	}
}

/* out = norm(out) + (k . (r r_k)) v by heads, times the gate */
static void
finish7(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;
	const struct hparams *h = &s->c->m->h;
	const struct rwkv_weights *l = &s->c->m->layers[s->il].rwkv;
	size_t d = h->n_embd, n = h->wkv_head, col, i, j;

	for (col = lo; col < hi; col++) {
		const float *r = s->rows.r + col * d, *k = s->rows.k + col * d;
		const float *v = s->rows.v + col * d;
		float *out = s->rows.out + col * d, sum;

		norm_heads(s, out);
		for (i = 0; i < d; i += n) {
			for (sum = 0, j = i; j < i + n; j++)
				sum += k[j] * r[j] * l->r_k[j];
			s->c->k->axpy(out + i, sum, v + i, n);
		}
		if (h->gate_rank > 0)
			s->c->k->mul(out, s->rows.g + col * d, d);
	}
}

void
rwkv7(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	const struct rwkv_weights *l = &c->m->layers[il].rwkv;
	const struct hparams *h = &c->m->h;
	struct space space = { .base = c->work };
	struct mix s = { .c = c, .il = il, .in = in };
	struct lerps by = { .s = &s, .n = h->gate_rank > 0 ? 6 : 5 };
	struct rwkv_rows *r = &s.rows;
	size_t n = c->n_cols, d = h->n_embd;

	*r = lay_out(&space, h, il, n);
	memcpy(by.by, l->lerp, sizeof by.by);
	pool_run(c->pool, d, SOME, shift, &s);
	pool_run(c->pool, n, 1, lerp_cols, &by);
	low_rank(&s, &l->w1, &l->w2, &tanh_fn, mixed(&s, 1), r->w);
	low_rank(&s, &l->a1, &l->a2, NULL, mixed(&s, 4), r->a);
	if (il > 0)	/* of the mix of values; its room is free yet */
		low_rank(&s, &l->v1, &l->v2, NULL, mixed(&s, 3), r->out);
	if (h->gate_rank > 0)
		low_rank(&s, &l->g1, &l->g2, &sigmoid_fn, mixed(&s, 5), r->g);
	multiply_one(c, &l->r, mixed(&s, 0), n, r->r);
	multiply_one(c, &l->k, mixed(&s, 2), n, r->k);
	multiply_one(c, &l->v, mixed(&s, 3), n, r->v);
	pool_run(c->pool, n, 1, prepare7, &s);
	pool_run(c->pool, d / h->wkv_head, 1, heads7, &s);
	pool_run(c->pool, n, 1, finish7, &s);
	multiply_one(c, &l->out, r->out, n, out);
}

/* ---- channel mix ---- */

static void
relu2_values(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;

	s->c->k->apply(K_RELU2, s->rows.ff + lo, hi - lo);
}

/* RWKV-6: out = sigmoid(r) * out */
static void
gate_values(void *data, size_t lo, size_t hi)
{
	struct mix *s = data;

	s->c->k->apply(K_SIGMOID, s->rows.r + lo, hi - lo);
	s->c->k->mul(s->rows.out + lo, s->rows.r + lo, hi - lo);
}

void
rwkv_channel_mix(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	const struct rwkv_weights *l = &c->m->layers[il].rwkv;
	const struct hparams *h = &c->m->h;
	bool six = h->arch->mixer == RWKV6;
	struct space space = { .base = c->work };
	struct mix s = { .c = c, .il = il, .in = in, .channel = true };
	struct lerps by = { .s = &s, .n = six ? 2 : 1 };
	size_t n = c->n_cols, d = h->n_embd;

	s.rows = lay_out(&space, h, il, n);
	by.by[0] = l->lerp_k;
	by.by[1] = l->lerp_r;
	pool_run(c->pool, d, SOME, shift, &s);
	pool_run(c->pool, n, 1, lerp_cols, &by);
	multiply_one(c, &l->cm_k, mixed(&s, 0), n, s.rows.ff);
	pool_run(c->pool, n * h->n_ff[il], SOME, relu2_values, &s);
	if (!six) {
		multiply_one(c, &l->cm_v, s.rows.ff, n, out);
		return;
	}
	multiply_one(c, &l->cm_r, mixed(&s, 1), n, s.rows.r);
	multiply_one(c, &l->cm_v, s.rows.ff, n, out);
	s.rows.out = out;
	pool_run(c->pool, n * d, SOME, gate_values, &s);
}
