/* SPDX-License-Identifier: MIT */
/*
 * Feed-forward networks (Shazeer 2020, arXiv 2002.05202, for the gated ones)
 * and mixtures of experts (arXiv 1701.06538). Columns are gathered by expert,
 * so that the weights of an expert are read once for all of them.
 */
#include <math.h>
#include <string.h>

#include "model.h"

struct feed_rows {
	float *gate, *up;
};

static struct feed_rows
lay_out(struct space *r, uint64_t n, uint64_t width)
{
	return (struct feed_rows){
		.gate = space_take(r, n, width), .up = space_take(r, n, width),
	};
}

void
feed_space(struct space *r, const struct hparams *h, uint32_t il, uint64_t n)
{
	/* layers with experts may have a number here that nothing is wide */
	uint64_t width = il < h->n_dense || h->n_expert == 0 ? h->n_ff[il] :
	    MAX(h->n_ff_expert, h->n_ff_shared);

	(void)lay_out(r, MAX(n, h->n_expert_used), width);
}

/* ---- one network ---- */

struct network {
	struct pico_ctx *c;
	const struct layer *l;
	struct feed_rows rows;
	size_t width, n;	/* elements of a row, and of all */
};

/*
 * The clamped SwiGLU of gpt-oss is g * sigmoid(a * g) * (u + 1) with a = 1.702:
 * what silu(a * g) * ((u + 1) / a) is.
 */
static void
clamp_gate(float *g, float *u, size_t n)
{
	const float a = 1.702f, most = 7;
	size_t i;

	for (i = 0; i < n; i++) {
		g[i] = a * (g[i] > most ? most : g[i]);
		u[i] = ((u[i] > most ? most : u[i] < -most ? -most : u[i]) + 1)
		    / a;
	}
}

/* gate = f(gate) * up, or up = f(up): elements lo..hi of all rows. Those of the next
   row are likely to be next. */
static void
activate(void *data, size_t lo, size_t hi)
{
	const struct network *f = data;
	const struct arch *a = f->c->m->h.arch;
	const struct kernels *k = f->c->k;
	float *g = f->rows.gate, *u = f->rows.up;
	size_t i;

	if (a->ffn == FFN_PLAIN) {
		k->apply(a->act, u + lo, hi - lo);
		for (i = lo; f->l->act_scales != NULL && i < hi; i++)
			u[i] /= f->l->act_scales[i % f->width];
		return;
	}
	if (hi + f->width <= f->n) {
		fetch_bytes(g + lo + f->width, (hi - lo) * sizeof *g);
		fetch_bytes(u + lo + f->width, (hi - lo) * sizeof *u);
	}
	if (a->clamp_gate)
		clamp_gate(g + lo, u + lo, hi - lo);
	k->gate(a->act, g + lo, u + lo, hi - lo);
}

/* n rows through a network. */
static void
pass(struct pico_ctx *c, const struct layer *l, const struct ffn *w,
    const float *in, size_t n, float *out)
{
	struct space space = { .base = c->work };
	struct network f = {
		.c = c, .l = l, .width = w->up.n_out, .n = n * w->up.n_out,
	};
	bool gated = weight_is(&w->gate);
	struct product both[2], down = { &w->down, out, 0 };

	f.rows = lay_out(&space, n, f.width);
	both[0] = (struct product){ &w->up, f.rows.up, 0 };
	if (gated) {
		both[0] = (struct product){ &w->gate, f.rows.gate, 0 };
		both[1] = (struct product){ &w->up, f.rows.up, 0 };
	}
	multiply(c, in, n, both, gated ? 2 : 1);
	multiply_parts(c, gated ? f.rows.gate : f.rows.up, n, w->down.n_group,
	    &down, 1, activate, &f);
}

/* ---- which experts ---- */

/* The best value whose index was not taken; the lower one among equals. NaN is
   no better than anything. */
static uint32_t
best(const float *p, uint32_t n, const struct choice *taken, uint32_t n_taken)
{
	uint32_t e, i, b = n;

	for (e = 0; e < n; e++) {
		for (i = 0; i < n_taken && taken[i].expert != e; i++)
			;
		if (i == n_taken && (b == n || p[e] > p[b]))
			b = e;
	}
	return b;
}

/* The sum of the two largest. */
static float
best_two(const float *p, uint32_t n)
{
	float a = -INFINITY, b = -INFINITY;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (p[i] > a) {
			b = a;
			a = p[i];
		} else if (p[i] > b) {
			b = p[i];
		}
	}
	return a + b;
}

/* Leaves the experts of the best groups in the choice (DeepSeek-V3, arXiv
   2412.19437, section 2.1.2). */
static void
drop_groups(const struct hparams *h, float *p, float *sum)
{
	uint32_t size = h->n_expert / h->n_group, g, i, better;

	for (g = 0; g < h->n_group; g++)
		sum[g] = best_two(p + g * size, size);
	for (g = 0; g < h->n_group; g++) {
		for (i = 0, better = 0; i < h->n_group; i++)
			better += sum[i] > sum[g] ||
			    (sum[i] == sum[g] && i < g);
		for (i = 0; better >= h->n_group_used && i < size; i++)
			p[g * size + i] = -INFINITY;
	}
}

/* The weights of the experts chosen, of which p are the probabilities, or the
   logits if the softmax comes late. */
static void
weigh(const struct pico_ctx *c, const float *p, struct choice *chosen)
{
	const struct hparams *h = &c->m->h;
	uint32_t i, n = h->n_expert_used;
	float sum = 0, most = p[chosen[0].expert];

	for (i = 0; i < n; i++) {
		chosen[i].weight = p[chosen[i].expert];
		if (h->gating == GATE_LATE)
			chosen[i].weight = k_exp(chosen[i].weight - most);
		sum += chosen[i].weight;
	}
	/* 6.1e-5 is the least normal half */
	for (i = 0; i < n; i++) {
		if (h->gating == GATE_LATE)
			chosen[i].weight /= sum;
		else if (h->expert_norm)
			chosen[i].weight /= MAX(sum, 6.1e-5f);
		if (h->expert_scale != 1)
			chosen[i].weight *= h->expert_scale;
	}
}

/* Sorted by index: that is the order in which they are added up, whatever else
   is in the batch. */
static void
sort(struct choice *chosen, uint32_t n)
{
	struct choice t;
	uint32_t i, k;

	for (i = 1; i < n; i++) {
		t = chosen[i];
		for (k = i; k > 0 && chosen[k - 1].expert > t.expert; k--)
			chosen[k] = chosen[k - 1];
		chosen[k] = t;
	}
}

struct routing {
	struct pico_ctx *c;
	const struct layer *l;
};

static void
choose_cols(void *data, size_t lo, size_t hi)
{
	struct routing *s = data;
	struct pico_ctx *c = s->c;
	const struct hparams *h = &c->m->h;
	size_t col, n = h->n_expert;
	uint32_t i;

	for (col = lo; col < hi; col++) {
		float *p = c->router + col * n, *pick = c->pick + col * n;
		struct choice *chosen = c->choice + col * h->n_expert_used;

		if (h->gating == GATE_SOFTMAX)
			c->k->softmax(p, n);
		else if (h->gating == GATE_SIGMOID)
			c->k->apply(K_SIGMOID, p, n);
		memcpy(pick, p, n * sizeof *pick);
		if (s->l->router_choice != NULL)
			c->k->add(pick, s->l->router_choice, n);
		if (h->n_group > 1)
			drop_groups(h, pick, c->groups + col * h->n_group);
		for (i = 0; i < h->n_expert_used; i++)
			chosen[i].expert = best(pick, h->n_expert, chosen, i);
		weigh(c, p, chosen);
		sort(chosen, h->n_expert_used);
	}
}

/* ---- experts ---- */

/* Tells which experts' weights come next. */
static void
want_experts(struct pico_ctx *c, uint32_t il)
{
	const struct layer *l = &c->m->layers[il];
	const struct hparams *h = &c->m->h;
	size_t i, n = (size_t)c->n_cols * h->n_expert_used;
	uint32_t e;

	for (e = 0; c->res != NULL && e < h->n_expert; e++) {
		for (i = 0; i < n && c->choice[i].expert != e; i++)
			;
		if (i == n)
			continue;
		resident_want(c->res, &l->experts[e].gate);
		resident_want(c->res, &l->experts[e].up);
		resident_want(c->res, &l->experts[e].down);
	}
	want_after(c, il);
}

/* The expert that sees all columns is the beginning of the sum. */
static void
shared_expert(struct pico_ctx *c, const struct layer *l, const float *in)
{
	size_t d = c->m->h.n_embd, i;

	if (!weight_is(&l->ffn.up)) {
		memset(c->mix, 0, c->n_cols * d * sizeof *c->mix);
		return;
	}
	if (weight_is(&l->shared_gate))
		multiply_one(c, &l->shared_gate, in, c->n_cols, c->shared);
	pass(c, l, &l->ffn, in, c->n_cols, c->mix);
	if (!weight_is(&l->shared_gate))
		return;
	c->k->apply(K_SIGMOID, c->shared, c->n_cols);
	for (i = 0; i < c->n_cols; i++)
		c->k->scale(c->mix + i * d, c->shared[i], d);
}

/* One expert and the columns that chose it. */
static void
one_expert(struct pico_ctx *c, const struct layer *l, uint32_t e,
    const float *in)
{
	const struct hparams *h = &c->m->h;
	size_t i, d = h->n_embd, col, n = 0;

	for (i = 0; i < (size_t)c->n_cols * h->n_expert_used; i++) {
		if (c->choice[i].expert != e)
			continue;
		col = i / h->n_expert_used;
		memcpy(c->xe + n * d, in + col * d, d * sizeof *c->xe);
		c->picked[n] = (uint32_t)col;
		c->picked_weight[n++] = c->choice[i].weight;
	}
	if (n == 0)
		return;
	pass(c, l, &l->experts[e], c->xe, n, c->ye);
	for (i = 0; i < n; i++)
		c->k->axpy(c->mix + c->picked[i] * d, c->picked_weight[i],
		    c->ye + i * d, d);
}

/* A single column meets its experts together: as many rows are one job. */
static void
experts_of_one(struct pico_ctx *c, const struct layer *l, const float *in)
{
	const struct hparams *h = &c->m->h;
	struct space space = { .base = c->work };
	struct network f = { .c = c, .l = l, .width = h->n_ff_expert };
	size_t d = h->n_embd, most = PRODUCTS / 2, first, i, n;
	struct product p[PRODUCTS];
	const struct choice *chosen;
	const struct ffn *e;

	for (first = 0; first < h->n_expert_used; first += n) {
		n = MIN(most, h->n_expert_used - first);
		chosen = c->choice + first;
		space.used = 0;
		f.rows = lay_out(&space, n, f.width);
		for (i = 0; i < n; i++) {
			e = &l->experts[chosen[i].expert];
			p[2 * i] = (struct product){ &e->gate,
			    f.rows.gate + i * f.width, 0 };
			p[2 * i + 1] = (struct product){ &e->up,
			    f.rows.up + i * f.width, 0 };
		}
		multiply(c, in, 1, p, 2 * n);
		for (i = 0; i < n; i++)
			p[i] = (struct product){
			    &l->experts[chosen[i].expert].down, c->ye + i * d,
			    i };
		multiply_parts(c, weight_is(&l->experts->gate) ? f.rows.gate :
		    f.rows.up, 1, n, p, n, activate, &f);
		for (i = 0; i < n; i++)
			c->k->axpy(c->mix, chosen[i].weight, c->ye + i * d, d);
	}
}

float *
feed(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	const struct layer *l = &c->m->layers[il];
	struct routing s = { c, l };
	uint32_t e;

	if (!weight_is(&l->router)) {
		pass(c, l, &l->ffn, in, c->n_cols, out);
		return out;
	}
	multiply_one(c, &l->router, in, c->n_cols, c->router);
	pool_run(c->pool, c->n_cols, 1, choose_cols, &s);
	shared_expert(c, l, in);
	want_experts(c, il);
	if (c->n_cols == 1 && c->res == NULL) {
		experts_of_one(c, l, in);
		return c->mix;
	}
	for (e = 0; e < c->m->h.n_expert; e++)
		one_expert(c, l, e, in);
	return c->mix;
}
