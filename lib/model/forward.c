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

#define CHUNK 512
/* Rows of a matrix that stay on one thread; kernels unpack so many at once. */
#define TILE 32

/* ---- work space ---- */

struct buffer {
	void *p;		/* address of the pointer */
	uint64_t n, size;	/* elements, bytes an element */
	const char *what;
};
#define MAX_BUFFERS 32

/* All buffers of a context with their sizes, from the shapes. */
static size_t
list_buffers(struct pico_ctx *c, const struct hparams *h, struct buffer *b)
{
	uint64_t n = c->chunk, q = 0, key = 0, value = 0, att = 0, ff = 0, in;
	size_t i = 0;
	uint32_t il;

	for (il = 0; il < h->n_layer; il++) {
		q = MAX(q, (uint64_t)h->n_head[il] * h->head_k);
		att = MAX(att, (uint64_t)h->n_head[il] * h->head_v);
		key = MAX(key, (uint64_t)h->n_head_kv[il] * h->head_k);
		value = MAX(value, (uint64_t)h->n_head_kv[il] * h->head_v);
		ff = MAX(ff, h->n_ff[il]);
	}
	in = MAX(MAX(ff, att), h->n_embd);
	in += 255 - (in + 255) % 256;	/* whole blocks for every kind */
#define BUFFER(field, count, what_) \
	b[i++] = (struct buffer){ &c->field, count, sizeof *c->field, what_ }
	BUFFER(freq, h->n_rot / 2, "rotary frequencies");
	BUFFER(seq, n, "columns");
	BUFFER(pos, n, "columns");
	BUFFER(x, n * h->n_embd, "residual stream");
	BUFFER(y, n * h->n_embd, "normed rows");
	BUFFER(q, n * q, "queries");
	BUFFER(key, n * key, "keys");
	BUFFER(value, n * value, "values");
	BUFFER(att, n * att, "attention output");
	BUFFER(gate, n * ff, "feed-forward rows");
	BUFFER(up, n * ff, "feed-forward rows");
	BUFFER(cos, n * (h->n_rot / 2), "rotary angles");
	BUFFER(sin, n * (h->n_rot / 2), "rotary angles");
	BUFFER(act[ACT_Q8], n * kernel_act_bytes(ACT_Q8, in),
	    "quantized rows");
	BUFFER(act[ACT_Q8K], n * kernel_act_bytes(ACT_Q8K, in),
	    "quantized rows");
	if (h->n_expert > 0) {
		BUFFER(router, n * h->n_expert, "router output");
		BUFFER(choice, n * h->n_expert_used, "chosen experts");
		BUFFER(picked, n, "columns of an expert");
		BUFFER(picked_weight, n, "columns of an expert");
		BUFFER(xe, n * h->n_embd, "rows of an expert");
		BUFFER(ye, n * h->n_embd, "rows of an expert");
		BUFFER(mix, n * h->n_embd, "sum of experts");
	}
	BUFFER(want, n, "columns");
	BUFFER(want_at, n, "columns");
	BUFFER(logits, MIN(n, LOGITS_BLOCK) * h->n_vocab, "logits");
#undef BUFFER
	return i;
}

/* Fills in the defaults and checks what was asked for. */
static int
settle(const struct pico_model *m, struct pico_ctx_params *p,
    struct pico_err *err)
{
	if (p->n_ctx == 0)
		p->n_ctx = MIN(m->h.n_ctx_train, PICO_CTX_CAP);
	if (p->n_seq == 0)
		p->n_seq = 1;
	if (p->n_threads == 0)
		p->n_threads = pico_default_threads();
	if (p->chunk == 0)
		p->chunk = CHUNK;
	if (p->n_ctx > INT32_MAX || p->n_seq > 1 << 16 ||
	    p->n_threads > 1 << 12)
		return fail_usage(err, "context of %" PRIu32 " for %" PRIu32
		    " sequences with %" PRIu32 " threads is too much",
		    p->n_ctx, p->n_seq, p->n_threads);
	/* more columns than there are positions are never needed */
	if (p->chunk > (uint64_t)p->n_ctx * p->n_seq)
		p->chunk = p->n_ctx * p->n_seq;
	if (p->chunk < p->n_seq)
		p->chunk = p->n_seq;
	return 0;
}

int
pico_plan(const struct pico_model *m, const struct pico_ctx_params *params,
    struct pico_plan *plan, struct pico_err *err)
{
	struct pico_ctx_params p = *params;
	const struct hparams *h = &m->h;
	struct buffer b[MAX_BUFFERS];
	struct pico_ctx c = {0};
	uint64_t bytes;
	size_t i, n;

	if (settle(m, &p, err) < 0)
		return -1;
	*plan = (struct pico_plan){
		.weights = m->weight_bytes, .step = m->step_bytes,
		.n_ctx = p.n_ctx, .n_seq = p.n_seq, .n_layer = h->n_layer,
		.n_kv_embd_k = h->n_head_kv[0] * h->head_k,
		.n_kv_embd_v = h->n_head_kv[0] * h->head_v,
	};
	if (!kv_bytes(h, (enum kv_type)p.kv, p.n_ctx, p.n_seq, &plan->kv))
		return fail(err, "a KV cache of %" PRIu32 " positions for %"
		    PRIu32 " sequences is more than can be counted", p.n_ctx,
		    p.n_seq);
	c.chunk = p.chunk;
	n = list_buffers(&c, h, b);
	for (i = 0; i < n; i++)
		if (!mul_u64(b[i].n, b[i].size, &bytes) ||
		    !add_u64(plan->buffers, bytes, &plan->buffers))
			return fail(err, "%s: more than can be counted",
			    b[i].what);
	return 0;
}

struct pico_ctx *
pico_ctx_new(const struct pico_model *m, const struct pico_ctx_params *params,
    struct pico_err *err)
{
	struct pico_ctx_params p = *params;
	struct buffer b[MAX_BUFFERS];
	struct pico_ctx *c;
	size_t i, n;

	if (settle(m, &p, err) < 0)
		return NULL;
	if (m->no_data) {
		(void)fail(err, "only the header of the model was read, not "
		    "its tensors");
		return NULL;
	}
	c = mem_new(1, sizeof *c, "context", err);
	if (c == NULL)
		return NULL;
	c->m = m;
	c->chunk = p.chunk;
	c->k = kernels_get(err);
	if (c->k == NULL ||
	    kv_init(&c->kv, &m->h, (enum kv_type)p.kv, p.n_ctx, p.n_seq,
	    err) < 0)
		goto bad;
	n = list_buffers(c, &m->h, b);
	for (i = 0; i < n; i++) {
		void *mem = mem_new(b[i].n, b[i].size, b[i].what, err);

		if (mem == NULL)
			goto bad;
		memcpy(b[i].p, &mem, sizeof mem);
	}
	c->pool = pool_new(p.n_threads, err);
	if (c->pool == NULL)
		goto bad;
	rope_frequencies(&m->h, m->rope_factors, c->freq, &c->magnitude);
	return c;
bad:
	pico_ctx_free(c);
	return NULL;
}

void
pico_ctx_free(struct pico_ctx *c)
{
	struct buffer b[MAX_BUFFERS];
	size_t i, n;
	void *mem;

	if (c == NULL)
		return;
	pool_free(c->pool);
	n = list_buffers(c, &c->m->h, b);
	for (i = 0; i < n; i++) {
		memcpy(&mem, b[i].p, sizeof mem);
		free(mem);
	}
	if (c->kv.h != NULL)
		kv_free(&c->kv);
	free(c);
}

uint32_t
pico_ctx_n_ctx(const struct pico_ctx *c)
{
	return c->kv.n_ctx;
}

uint32_t
pico_ctx_n_seq(const struct pico_ctx *c)
{
	return c->kv.n_seq;
}

uint32_t
pico_ctx_n_threads(const struct pico_ctx *c)
{
	return pool_n(c->pool);
}

uint32_t
pico_ctx_chunk(const struct pico_ctx *c)
{
	return c->chunk;
}

const char *
pico_ctx_kernels(const struct pico_ctx *c)
{
	return c->k->name;
}

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

/* Several products of the same rows, done as one job. */
struct product {
	const struct weight *w;
	float *y;		/* n_cols x n_out */
};
struct products {
	const struct kernels *k;
	struct matmul m[3];
	const struct product *p;
	size_t n;
};

static void
multiply_rows(void *data, size_t lo, size_t hi)
{
	struct products *ps = data;
	size_t i, base = 0, r, r0, r1, col;

	for (i = 0; i < ps->n; i++, base += ps->p[i - 1].w->n_out) {
		const struct weight *w = ps->p[i].w;
		const struct matmul *m = &ps->m[i];

		if (hi <= base || lo >= base + w->n_out)
			continue;
		r0 = lo > base ? lo - base : 0;
		r1 = MIN(hi - base, w->n_out);
		ps->k->matmul(m, r0, r1);
		if (w->bias == NULL)
			continue;
		for (col = 0; col < m->n_cols; col++)
			for (r = r0; r < r1; r++)
				m->y[col * m->y_stride + r] += w->bias[r];
	}
}

/* y = W x (+ bias) for up to three matrices and n_cols rows x. */
static void
multiply(struct pico_ctx *c, const float *x, size_t n_cols,
    const struct product *p, size_t n)
{
	struct products ps = { .k = c->k, .p = p, .n = n };
	struct rows rows = {
		.c = c, .x = x, .n_in = p[0].w->n_in, .n_cols = n_cols,
	};
	size_t i, total = 0;
	bool any = false;

	for (i = 0; i < n; i++) {
		const struct weight *w = p[i].w;
		enum act_kind kind = kernel_act_kind(w->type);

		rows.kind[kind] = true;
		any = any || kind != ACT_F32;
		ps.m[i] = (struct matmul){
			.type = w->type, .w = w->data,
			.row_bytes = w->row_bytes, .n_in = w->n_in,
			.x = kind == ACT_F32 ? (const void *)x : c->act[kind],
			.x_stride = kernel_act_bytes(kind, w->n_in),
			.n_cols = n_cols, .y = p[i].y, .y_stride = w->n_out,
		};
		total += w->n_out;
	}
	if (any)
		pool_run(c->pool, n_cols, 1, prepare_cols, &rows);
	pool_run(c->pool, total, TILE, multiply_rows, &ps);
}

/* ---- steps that go column by column ---- */

struct step {
	struct pico_ctx *c;
	uint32_t il;
	const float *norm;	/* weights of a norm */
	const float *in;	/* rows to be added */
};

static void
embed_cols(void *data, size_t lo, size_t hi)
{
	struct step *s = data;
	struct pico_ctx *c = s->c;
	const struct weight *w = &c->m->embd;
	const struct hparams *h = &c->m->h;
	size_t i, d = w->n_in, half = h->n_rot / 2;

	for (i = lo; i < hi; i++) {
		int32_t id = c->kv.tokens[(size_t)c->seq[i] * c->kv.n_ctx +
		    c->pos[i]];

		(void)pico_dequantize(w->type, w->data +
		    (size_t)id * w->row_bytes, c->x + i * d, d);
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

/* Items are query heads of columns: column * n_head + head. */
static void
attend_heads(void *data, size_t lo, size_t hi)
{
	struct step *s = data;
	struct pico_ctx *c = s->c;
	const struct hparams *h = &c->m->h;
	uint32_t n_head = h->n_head[s->il], n_kv = h->n_head_kv[s->il];
	float scale = 1 / sqrtf((float)h->head_k);
	size_t i;

	for (i = lo; i < hi; i++) {
		size_t col = i / n_head;
		uint32_t head = (uint32_t)(i % n_head);
		uint32_t kv_head = head / (n_head / n_kv);
		struct attend a = {
			.type = c->kv.type,
			.q = c->q + i * h->head_k,
			.k = kv_k(&c->kv, s->il, c->seq[col], kv_head),
			.v = kv_v(&c->kv, s->il, c->seq[col], kv_head),
			.dim_k = h->head_k, .dim_v = h->head_v,
			.n_keys = (size_t)c->pos[col] + 1, .scale = scale,
			.out = c->att + i * h->head_v,
		};

		c->k->attend(&a);
	}
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
	const struct hparams *h = &c->m->h;
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
	pool_run(c->pool, n * h->n_head[il], 1, attend_heads, &s);
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

/* Mixture of experts: columns are gathered by expert, so that each expert's
   weights are read once. */
static void
experts(struct pico_ctx *c, const struct layer *l)
{
	const struct hparams *h = &c->m->h;
	struct product route = { &l->router, c->router };
	size_t i, d = h->n_embd, n = c->n_cols, n_picked;
	uint32_t e, u;

	multiply(c, c->y, n, &route, 1);
	for (i = 0; i < n; i++)
		choose_experts(c, c->router + i * h->n_expert,
		    c->choice + i * h->n_expert_used);
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

	attention(c, il);
	pool_run(c->pool, c->n_cols, 1, norm_cols, &s);
	if (l->router.n_out > 0) {
		experts(c, l);
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
	pool_run(c->pool, n, 1, embed_cols, &s);
	for (il = 0; il < c->m->h.n_layer; il++)
		layer(c, il);
	return 0;
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
		c->block_n = MIN(c->n_want - (uint32_t)at, LOGITS_BLOCK);
		for (k = 0; k < c->block_n; k++)
			c->k->rms_norm(c->x + c->want[at + k] * d,
			    c->m->output_norm, d, c->m->h.eps, c->y + k * d);
		multiply(c, c->y, c->block_n, &out, 1);
	}
	return c->logits + (at - c->block_first) * c->m->h.n_vocab;
}
