/* SPDX-License-Identifier: MIT */
/*
 * The forward pass. A pass takes columns (token, sequence, position) through
 * all layers; matrices meet all columns at once, attention goes column by
 * column. Every number depends on its own column's past only, and is computed
 * in an order that the kernels define: cutting a prompt differently, batching
 * or threading changes nothing.
 *
 * A layer ("pre-norm", Vaswani et al. 2017 as in LLaMA, arXiv 2302.13971):
 *	x += Wo attend(rope(Wq n), rope(Wk n), Wv n)	n = norm(x)
 *	x += Wdown (silu(Wgate n) * Wup n)		n = norm(x)
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Rows of a matrix that stay on one thread: kernels unpack so many at once; or,
   for fewer columns than this, where they do not, enough to even out the ends. */
#define TILE 32
#define FEW 4
#define SOME_ROWS 8

/* ---- matrices ---- */

/* Rows to be multiplied, and the kinds in which they must be prepared. */
struct rows {
	struct pico_ctx *c;
	const float *x;		/* n_cols x n_in */
	size_t n_in, n_cols;
	bool kind[ACT_KINDS];
};

static void
prepare_cols(void *data, size_t lo, size_t hi)
{
	struct rows *r = data;
	size_t i;
	int kind;

	for (kind = 0; kind < ACT_KINDS; kind++) {
		size_t bytes = kernel_act_bytes((enum act_kind)kind, r->n_in);

		if (kind == ACT_F32 || !r->kind[kind])
			continue;
		for (i = lo; i < hi; i++)
			r->c->k->quantize((enum act_kind)kind,
			    r->x + i * r->n_in, r->n_in,
			    r->c->act[kind] + i * bytes);
	}
}

/* A matrix, and where its products with the rows go: n_cols x n_out. */
struct product {
	const struct weight *w;
	float *y;
};

/* Rows of several matrices, done as one job. */
struct part {
	struct matmul m;
	size_t n_rows;
	const float *bias;	/* of these rows, or NULL */
};
struct job {
	const struct kernels *k;
	struct part part[3];
	size_t n, n_rows;	/* parts; rows of all */
};

static void
multiply_rows(void *data, size_t lo, size_t hi)
{
	struct job *job = data;
	size_t i, base = 0, r, r0, r1, col;

	for (i = 0; i < job->n; i++, base += job->part[i - 1].n_rows) {
		const struct part *p = &job->part[i];
		const struct matmul *m = &p->m;

		if (hi <= base || lo >= base + p->n_rows)
			continue;
		r0 = lo > base ? lo - base : 0;
		r1 = MIN(hi - base, p->n_rows);
		job->k->matmul(m, r0, r1);
		if (p->bias == NULL)
			continue;
		for (col = 0; col < m->n_cols; col++)
			for (r = r0; r < r1; r++)
				m->y[col * m->y_stride + r] += p->bias[r];
	}
}

/* Rows row.. of a matrix, which are at `data`. */
static void
add_part(struct pico_ctx *c, struct job *job, const struct rows *rows,
    const struct product *p, const uint8_t *data, uint32_t row, uint32_t n)
{
	const struct weight *w = p->w;
	enum act_kind kind = kernel_act_kind(w->type);

	job->part[job->n++] = (struct part){
		.m = {
			.type = w->type, .w = data,
			.row_bytes = w->row_bytes, .n_in = w->n_in,
			.x = kind == ACT_F32 ? (const void *)rows->x :
			    c->act[kind],
			.x_stride = kernel_act_bytes(kind, w->n_in),
			.n_cols = rows->n_cols, .y = p->y + row,
			.y_stride = w->n_out,
		},
		.n_rows = n, .bias = w->bias != NULL ? w->bias + row : NULL,
	};
	job->n_rows += n;
}

/* A matrix that is not in memory, as its rows come. */
static void
multiply_pieces(struct pico_ctx *c, const struct rows *rows,
    const struct product *p)
{
	const uint8_t *data;
	uint32_t row, n;

	for (row = 0; row < p->w->n_out; row += n) {
		struct job job = { .k = c->k };

		n = resident_rows(c->res, p->w, row, &data, &c->fault);
		if (n == 0)
			return;
		add_part(c, &job, rows, p, data, row, n);
		pool_run(c->pool, n, TILE, multiply_rows, &job);
		resident_done(c->res);
	}
}

/* y = W x (+ bias) for up to three matrices and n_cols rows x. */
static void
multiply(struct pico_ctx *c, const float *x, size_t n_cols,
    const struct product *p, size_t n)
{
	struct job job = { .k = c->k };
	struct rows rows = {
		.c = c, .x = x, .n_in = p[0].w->n_in, .n_cols = n_cols,
	};
	bool any = false;
	size_t i;

	for (i = 0; i < n; i++) {
		enum act_kind kind = kernel_act_kind(p[i].w->type);

		rows.kind[kind] = true;
		any = any || kind != ACT_F32;
		if (resident_has(c->res, p[i].w))
			add_part(c, &job, &rows, &p[i], p[i].w->data, 0,
			    p[i].w->n_out);
	}
	if (any)
		pool_run(c->pool, n_cols, 1, prepare_cols, &rows);
	pool_run(c->pool, job.n_rows, n_cols < FEW ? SOME_ROWS : TILE,
	    multiply_rows, &job);
	for (i = 0; i < n; i++)
		if (!resident_has(c->res, p[i].w))
			multiply_pieces(c, &rows, &p[i]);
}

/* ---- weights on their way ---- */

static void
want_attention(struct pico_ctx *c, uint32_t il)
{
	const struct layer *l = &c->m->layers[il];

	resident_want(c->res, &l->wq);
	resident_want(c->res, &l->wk);
	resident_want(c->res, &l->wv);
	resident_want(c->res, &l->wo);
	if (l->router.n_out > 0)
		resident_want(c->res, &l->router);
}

/* What comes after the feed-forward network of a layer. */
static void
want_after(struct pico_ctx *c, uint32_t il)
{
	if (il + 1 < c->m->h.n_layer)
		want_attention(c, il + 1);
	else if (c->n_want > 0)
		resident_want(c->res, c->m->weights[c->m->output.number]);
	else
		want_attention(c, 0);
}

/* The feed-forward network of a layer, and what comes after it. With experts
   nothing is known before they are chosen. */
static void
want_layer(struct pico_ctx *c, uint32_t il)
{
	const struct layer *l = &c->m->layers[il];

	if (l->router.n_out > 0)
		return;
	resident_want(c->res, &l->gate);
	resident_want(c->res, &l->up);
	resident_want(c->res, &l->down);
	want_after(c, il);
}

void
forward_ahead(struct pico_ctx *c)
{
	if (resident_idle(c->res))
		want_attention(c, 0);
}

/* ---- steps that go column by column ---- */

struct step {
	struct pico_ctx *c;
	uint32_t il;
	const float *norm;	/* weights of a norm */
	const float *in;	/* rows to be added */
};

/* Puts the row of a column's token into x. */
static void
embed(struct pico_ctx *c, size_t i)
{
	const struct weight *w = &c->m->embd;
	int32_t id = c->kv.tokens[(size_t)c->seq[i] * c->kv.n_ctx + c->pos[i]];
	const uint8_t *row = resident_row(c->res, w, (uint32_t)id, &c->fault);

	if (row != NULL)
		(void)pico_dequantize(w->type, row, c->x + i * w->n_in,
		    w->n_in);
}

static void
embed_cols(void *data, size_t lo, size_t hi)
{
	struct step *s = data;
	struct pico_ctx *c = s->c;
	const struct hparams *h = &c->m->h;
	size_t i, half = h->n_rot / 2;

	for (i = lo; i < hi; i++) {
		if (resident_has(c->res, &c->m->embd))
			embed(c, i);
		rope_angles(c->freq, c->magnitude, h->n_rot, c->pos[i],
		    c->cos + i * half, c->sin + i * half);
	}
}

static void
norm_cols(void *data, size_t lo, size_t hi)
{
	struct step *s = data;
	struct pico_ctx *c = s->c;
	size_t i, d = c->m->h.n_embd;

	for (i = lo; i < hi; i++)
		c->k->rms_norm(c->x + i * d, s->norm, d, c->m->h.eps,
		    c->y + i * d);
}

static void
add_cols(void *data, size_t lo, size_t hi)
{
	struct step *s = data;
	size_t d = s->c->m->h.n_embd;

	s->c->k->add(s->c->x + lo * d, s->in + lo * d, (hi - lo) * d);
}

/* Turns queries and keys, and puts keys and values into the cache. */
static void
rotate_cols(void *data, size_t lo, size_t hi)
{
	struct step *s = data;
	struct pico_ctx *c = s->c;
	const struct hparams *h = &c->m->h;
	uint32_t n_kv = h->n_head_kv[s->il], head;
	size_t i, half = h->n_rot / 2;
	bool halves = h->arch->rope == ROPE_HALVES;

	for (i = lo; i < hi; i++) {
		float *q = c->q + i * h->n_head[s->il] * h->head_k;
		float *k = c->key + i * n_kv * h->head_k;
		float *v = c->value + i * n_kv * h->head_v;
		const float *cs = c->cos + i * half, *sn = c->sin + i * half;
		size_t at = c->pos[i];

		c->k->rope(q, h->n_head[s->il], h->head_k, h->n_rot, cs, sn,
		    halves);
		c->k->rope(k, n_kv, h->head_k, h->n_rot, cs, sn, halves);
		for (head = 0; head < n_kv; head++) {
			c->k->kv_store(c->kv.type, k + head * h->head_k,
			    h->head_k, kv_k(&c->kv, s->il, c->seq[i], head) +
			    at * c->kv.row_k);
			c->k->kv_store(c->kv.type, v + head * h->head_v,
			    h->head_v, kv_v(&c->kv, s->il, c->seq[i], head) +
			    at * c->kv.row_v);
		}
	}
}

/* Some query heads that share a KV head, and columns: group * n_cols + column.
   Columns that follow each other in a sequence go together. */
struct heads {
	struct pico_ctx *c;
	uint32_t il;
	size_t size;		/* of a group */
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
			.q = c->q + (col * n_head + head) * h->head_k,
			.q_stride = n_head * h->head_k,
			.k = kv_k(&c->kv, g->il, c->seq[col],
			    (uint32_t)(head / share)),
			.v = kv_v(&c->kv, g->il, c->seq[col],
			    (uint32_t)(head / share)),
			.scale = 1 / sqrtf((float)h->head_k),
			.out = c->att + (col * n_head + head) * h->head_v,
			.out_stride = n_head * h->head_v,
		});
	}
}

/* Attention of all columns: all that share a KV head together, unless threads
   would have nothing to do. */
static void
attend(struct pico_ctx *c, uint32_t il)
{
	size_t n_head = c->m->h.n_head[il], n_kv = c->m->h.n_head_kv[il];
	struct heads g = { .c = c, .il = il, .size = n_head / n_kv };

	if (c->n_cols * n_kv < 2 * pool_n(c->pool))
		g.size = 1;
	pool_run(c->pool, c->n_cols * (n_head / g.size), 1, attend_heads, &g);
}

/* gate = silu(gate) * up */
static void
gate_values(void *data, size_t lo, size_t hi)
{
	struct step *s = data;
	struct pico_ctx *c = s->c;

	c->k->gate(K_SILU, c->gate + lo, c->up + lo, hi - lo);
}

/* ---- layers ---- */

static void
attention(struct pico_ctx *c, uint32_t il)
{
	const struct layer *l = &c->m->layers[il];
	struct step s = { .c = c, .il = il, .norm = l->attn_norm };
	struct product qkv[3] = {
		{ &l->wq, c->q }, { &l->wk, c->key }, { &l->wv, c->value },
	};
	struct product out = { &l->wo, c->y };
	size_t n = c->n_cols;

	pool_run(c->pool, n, 1, norm_cols, &s);
	multiply(c, c->y, n, qkv, 3);
	pool_run(c->pool, n, 1, rotate_cols, &s);
	attend(c, il);
	multiply(c, c->att, n, &out, 1);
	s.in = c->y;
	pool_run(c->pool, n, 1, add_cols, &s);
}

/* y = down(silu(gate x) * up x) for n rows x. */
static void
feed_forward(struct pico_ctx *c, const float *x, size_t n,
    const struct weight *gate, const struct weight *up,
    const struct weight *down, float *y)
{
	struct product in[2] = { { gate, c->gate }, { up, c->up } };
	struct product out = { down, y };
	struct step s = { .c = c };

	multiply(c, x, n, in, 2);
	pool_run(c->pool, n * gate->n_out, 64, gate_values, &s);
	multiply(c, c->gate, n, &out, 1);
}

/* The best expert that is not among the n chosen; the lower index first among
   equals. NaN is no better than anything. */
static uint32_t
best_expert(const float *p, uint32_t n_expert, const struct choice *chosen,
    uint32_t n)
{
	uint32_t e, i, best = n_expert;

	for (e = 0; e < n_expert; e++) {
		for (i = 0; i < n && chosen[i].expert != e; i++)
			;
		if (i == n && (best == n_expert || p[e] > p[best]))
			best = e;
	}
	return best;
}

/*
 * The experts of one column, weighted so that they sum to one if the
 * architecture says so. Sorted by index: that is the order in which they are
 * added up, whatever else is in the batch.
 */
static void
choose_experts(struct pico_ctx *c, float *p, struct choice *chosen)
{
	const struct hparams *h = &c->m->h;
	struct choice t;
	uint32_t i, k;
	float sum = 0;

	c->k->softmax(p, h->n_expert);
	for (i = 0; i < h->n_expert_used; i++) {
		t.expert = best_expert(p, h->n_expert, chosen, i);
		t.weight = p[t.expert];
		sum += t.weight;
		chosen[i] = t;
	}
	sum = MAX(sum, 6.1e-5f);	/* the least normal half */
	for (i = 0; i < h->n_expert_used; i++) {
		t = chosen[i];
		if (h->arch->moe_norm)
			t.weight /= sum;
		for (k = i; k > 0 && chosen[k - 1].expert > t.expert; k--)
			chosen[k] = chosen[k - 1];
		chosen[k] = t;
	}
}

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
		resident_want(c->res, &l->gate_e[e]);
		resident_want(c->res, &l->up_e[e]);
		resident_want(c->res, &l->down_e[e]);
	}
	want_after(c, il);
}

/* Mixture of experts: columns are gathered by expert, so that each expert's
   weights are read once. */
static void
experts(struct pico_ctx *c, uint32_t il)
{
	const struct hparams *h = &c->m->h;
	const struct layer *l = &c->m->layers[il];
	struct product route = { &l->router, c->router };
	size_t i, d = h->n_embd, n = c->n_cols, n_picked;
	uint32_t e, u;

	multiply(c, c->y, n, &route, 1);
	for (i = 0; i < n; i++)
		choose_experts(c, c->router + i * h->n_expert,
		    c->choice + i * h->n_expert_used);
	want_experts(c, il);
	memset(c->mix, 0, n * d * sizeof *c->mix);
	for (e = 0; e < h->n_expert; e++) {
		n_picked = 0;
		for (i = 0; i < n * h->n_expert_used; i++) {
			if (c->choice[i].expert != e)
				continue;
			u = (uint32_t)(i / h->n_expert_used);
			memcpy(c->xe + n_picked * d, c->y + u * d,
			    d * sizeof *c->xe);
			c->picked[n_picked] = u;
			c->picked_weight[n_picked++] = c->choice[i].weight;
		}
		if (n_picked == 0)
			continue;
		feed_forward(c, c->xe, n_picked, &l->gate_e[e], &l->up_e[e],
		    &l->down_e[e], c->ye);
		for (i = 0; i < n_picked; i++)
			c->k->axpy(c->mix + c->picked[i] * d,
			    c->picked_weight[i], c->ye + i * d, d);
	}
}

static void
layer(struct pico_ctx *c, uint32_t il)
{
	const struct layer *l = &c->m->layers[il];
	struct step s = { .c = c, .norm = l->ffn_norm };

	want_layer(c, il);
	attention(c, il);
	pool_run(c->pool, c->n_cols, 1, norm_cols, &s);
	if (l->router.n_out > 0) {
		experts(c, il);
		s.in = c->mix;
	} else {
		/* the rows in y are not needed once gate and up are there */
		feed_forward(c, c->y, c->n_cols, &l->gate, &l->up, &l->down,
		    c->y);
		s.in = c->y;
	}
	pool_run(c->pool, c->n_cols, 1, add_cols, &s);
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
	struct step s = { .c = c };
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
	pool_run(c->pool, n, 1, embed_cols, &s);
	/* rows that must be read come one after the other */
	for (i = 0; i < n && !resident_has(c->res, &c->m->embd); i++)
		embed(c, i);
	for (il = 0; il < c->m->h.n_layer && c->fault.status == PICO_OK; il++)
		layer(c, il);
	if (pico_ctx_fault(c, err) < 0)
		return -1;
	return pico_gguf_check(c->m->gguf, err);
}

const float *
pico_ctx_logits(struct pico_ctx *c, size_t i)
{
	struct product out = { &c->m->output, c->logits };
	size_t d = c->m->h.n_embd, k, at;

	if (i >= c->n_cols || c->want_at[i] == 0)
		return NULL;
	at = c->want_at[i] - 1;
	if (at < c->block_first || at - c->block_first >= c->block_n) {
		c->block_first = (uint32_t)at;
		c->block_n = MIN(c->n_want - (uint32_t)at, c->block);
		for (k = 0; k < c->block_n; k++)
			c->k->rms_norm(c->x + c->want[at + k] * d,
			    c->m->output_norm, d, c->m->h.eps, c->y + k * d);
		multiply(c, c->y, c->block_n, &out, 1);
		(void)pico_gguf_check(c->m->gguf, &c->fault);
		if (at + c->block_n == c->n_want)
			forward_ahead(c);
	}
	if (c->fault.status != PICO_OK)
		return NULL;
	return c->logits + (at - c->block_first) * c->m->h.n_vocab;
}
