/* SPDX-License-Identifier: MIT */
/* Rows of numbers to tensor types, on all threads. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

#include "../kernel/kernel.h"
#include "quant.h"

#define CHUNK 256	/* values at once: whole blocks of every type */
#define PIECE (1 << 20)	/* bytes of a tensor at once, about */

static block_quantizer *const block_fn[TYPE_Q2_0 + 1] = {
	[TYPE_Q4_1] = quantize_q4_1,
	[TYPE_Q5_1] = quantize_q5_1,
	[TYPE_Q8_0] = quantize_q8_0,
	[TYPE_Q2_K] = quantize_q2_k,
	[TYPE_Q3_K] = quantize_q3_k,
	[TYPE_Q4_K] = quantize_q4_k,
	[TYPE_Q5_K] = quantize_q5_k,
	[TYPE_Q6_K] = quantize_q6_k,
	[TYPE_IQ4_NL] = quantize_iq4_nl,
	[TYPE_IQ4_XS] = quantize_iq4_xs,
	[TYPE_TQ1_0] = quantize_tq1_0,
	[TYPE_TQ2_0] = quantize_tq2_0,
	[TYPE_MXFP4] = quantize_mxfp4,
	[TYPE_NVFP4] = quantize_nvfp4,
	[TYPE_Q1_0] = quantize_q1_0,
	[TYPE_Q2_0] = quantize_q2_0,
};

/* Those that are made of their steps alone. */
static const struct {
	step_packer *pack;
	int lo, hi;		/* codes */
} step_fn[TYPE_Q5_0 + 1] = {
	[TYPE_Q4_0] = { pack_q4_0, -8, 7 },
	[TYPE_Q5_0] = { pack_q5_0, -16, 15 },
};

static bool
has_steps(uint32_t type)
{
	return type < COUNT(step_fn) && step_fn[type].pack != NULL;
}

struct pico_quantizer {
	struct pool *pool;
	const struct search *search;	/* two of them */
	uint8_t *out[2];	/* one is filled, the other one written */
	size_t cap_out[2];
	double *square, *error;		/* of each row */
	size_t cap_rows, cap_errors;
};

/* Beyond it sums of squares might not be finite, and no scale can hold it; the
   largest number of NVFP4, whose scales are never infinite. */
#define LIMIT 1e9f
#define LIMIT_NVFP4 2688.0f

bool
pico_can_quantize(uint32_t type)
{
	return type == TYPE_F32 || type == TYPE_F16 || type == TYPE_BF16 ||
	    has_steps(type) || (type < COUNT(block_fn) &&
	    block_fn[type] != NULL);
}

struct pico_quantizer *
pico_quantizer_new(uint32_t n_threads, struct pico_err *err)
{
	enum cpu set;
	struct pico_quantizer *q = cpu_choose(&set, err) < 0 ? NULL :
	    mem_new(1, sizeof *q, "quantizer", err);

	if (q == NULL)
		return NULL;
	q->search = search_plain;
#if defined(__x86_64__)
	if (set <= CPU_AVX2)
		q->search = search_avx2;
#endif
	q->pool = pool_new(n_threads > 0 ? n_threads : pico_default_threads(),
	    err);
	if (q->pool == NULL) {
		pico_quantizer_free(q);
		return NULL;
	}
	return q;
}

void
pico_quantizer_free(struct pico_quantizer *q)
{
	if (q == NULL)
		return;
	pool_free(q->pool);
	free(q->out[0]);
	free(q->out[1]);
	free(q->square);
	free(q->error);
	free(q);
}

/* ---- one row ----------------------------------------------------------- */

/* To the nearest, ties to even. */
static uint16_t
f32_to_bf16(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* n values, at most CHUNK. */
static void
convert(const struct search *s, const struct pico_type *to, const float *x,
    const float *importance, size_t n, uint8_t *b)
{
	bool weighs = true, steps = has_steps(to->id);
	float w[CHUNK], step[CHUNK / 32];
	size_t i;

	switch (to->id) {
	case TYPE_Q8_0: case TYPE_TQ1_0: case TYPE_TQ2_0: case TYPE_Q1_0:
	case TYPE_Q2_0:
		weighs = false;
		break;
	case TYPE_F32:
		memcpy(b, x, n * sizeof *x);
		return;
	case TYPE_F16:
		for (i = 0; i < n; i++)
			put_u16(b + 2 * i, f32_to_f16(x[i]));
		return;
	case TYPE_BF16:
		for (i = 0; i < n; i++)
			put_u16(b + 2 * i, f32_to_bf16(x[i]));
		return;
	}
	for (i = 0; i < n; i += to->block, b += to->bytes) {
		if (weighs)
			s->weigh(x + i, importance == NULL ? NULL :
			    importance + i, to->block, w + i);
		if (!steps)
			block_fn[to->id](s, x + i, w + i, b);
	}
	if (!steps)
		return;
	s->symmetric(x, w, 32, n / 32, step_fn[to->id].lo,
	    step_fn[to->id].hi, step);
	for (b -= n / 32 * to->bytes, i = 0; i < n / 32; i++, b += to->bytes)
		step_fn[to->id].pack(s, x + 32 * i, step[i], b);
}

/* What was made, and still has to be written. */
struct output {
	struct pico_writer *w;
	const uint8_t *p;
	size_t n;
	int rc;
	struct pico_err err;
};

static void
put(struct output *o)
{
	if (o->rc == 0)
		o->rc = pico_writer_data(o->w, o->p, o->n, &o->err);
	o->n = 0;
}

struct job {
	struct pico_quantizer *q;
	const struct pico_type *from, *to;
	const uint8_t *src;
	uint8_t *dst;
	size_t n;			/* values of a row */
	const float *importance;
	bool errors;			/* are wanted */
	atomic_size_t bad;		/* the first row that is not good */
	struct output *before;		/* NULL: none */
};

static bool
usable(const struct search *s, const float *x, size_t n,
    const struct pico_type *to)
{
	float limit = to->block == 1 ? INFINITY :
	    to->id == TYPE_NVFP4 ? LIMIT_NVFP4 : LIMIT;
	float max = s->largest(x, n);

	return max <= limit && max < INFINITY;
}

static void
sum_errors(const struct job *j, const float *x, const uint8_t *b, size_t n,
    size_t row)
{
	float y[CHUNK];
	size_t i;
	double e;

	(void)pico_dequantize(j->to->id, b, y, n);
	for (i = 0; i < n; i++) {
		e = (double)y[i] - (double)x[i];
		j->q->square[row] += (double)x[i] * (double)x[i];
		j->q->error[row] += e * e;
	}
}

static void
run_rows(struct job *j, size_t lo, size_t hi)
{
	const struct search *s = &j->q->search[j->importance != NULL];
	size_t row, i, k, bad;
	uint64_t at;
	float x[CHUNK];
	uint8_t *b;

	for (row = lo; row < hi; row++) {
		const uint8_t *src = j->src +
		    row * (j->n / j->from->block * j->from->bytes);

		b = j->dst + row * (j->n / j->to->block * j->to->bytes);
		for (i = 0; i < j->n; i += k) {
			k = MIN(j->n - i, CHUNK);
			s->widen(j->from->id, src, x, k);
			src += k / j->from->block * j->from->bytes;
			if (!usable(s, x, k, j->to))
				break;
			convert(s, j->to, x, j->importance == NULL ?
			    NULL : j->importance + i, k, b);
			if (pico_bad_blocks(j->to->id, b, k, &at) > 0)
				break;
			if (j->errors)
				sum_errors(j, x, b, k, row);
			b += k / j->to->block * j->to->bytes;
		}
		bad = atomic_load(&j->bad);
		while (i < j->n && row < bad &&
		    !atomic_compare_exchange_weak(&j->bad, &bad, row))
			;
	}
}

/* Item 0 is to write what was made before, the others are rows. */
static void
run_items(void *data, size_t lo, size_t hi)
{
	struct job *j = data;

	if (lo == 0 && j->before != NULL)
		put(j->before);
	run_rows(j, lo == 0 ? 0 : lo - 1, hi - 1);
}

/* Says what is wrong in a row; `first` is the number of that row. */
static int
tell(const struct job *j, size_t row, uint64_t first, struct pico_err *err)
{
	const uint8_t *src = j->src +
	    row * (j->n / j->from->block * j->from->bytes);
	float x[CHUNK], most = 0;
	size_t i, k, e, at = 0;

	for (i = 0; i < j->n; i += k) {
		k = MIN(j->n - i, CHUNK);
		(void)pico_dequantize(j->from->id, src, x, k);
		src += k / j->from->block * j->from->bytes;
		for (e = 0; e < k; e++) {
			if (!isfinite(x[e]))
				return fail(err, "row %" PRIu64 ", value %zu "
				    "is %s", first + row, i + e,
				    isnan(x[e]) ? "NaN" : "infinite");
			if (fabsf(x[e]) > fabsf(most)) {
				most = x[e];
				at = i + e;
			}
		}
	}
	return fail(err, "row %" PRIu64 ", value %zu is %.9g, too large for "
	    "type %s", first + row, at, (double)most, j->to->name);
}

static int
grow_sums(struct pico_quantizer *q, size_t n, struct pico_err *err)
{
	if (mem_grow(&q->square, &q->cap_rows, n, sizeof *q->square,
	    "errors of rows", err) < 0 || mem_grow(&q->error,
	    &q->cap_errors, n, sizeof *q->error, "errors of rows", err) < 0)
		return -1;
	memset(q->square, 0, n * sizeof *q->square);
	memset(q->error, 0, n * sizeof *q->error);
	return 0;
}

/* `first`: the number of the first row, for messages. */
static int
run(struct pico_quantizer *q, const struct pico_rows *r, uint64_t first,
    void *dst, struct output *before, struct pico_quant_error *sums,
    struct pico_err *err)
{
	struct job j = { .q = q, .from = pico_type(r->from),
	    .to = pico_type(r->to), .src = r->src, .dst = dst, .n = r->n,
	    .importance = r->importance, .errors = sums != NULL,
	    .before = before };
	size_t i;

	if (j.from == NULL || j.to == NULL || !pico_can_quantize(r->to) ||
	    r->n % j.from->block != 0 || r->n % j.to->block != 0)
		return fail(err, "rows of %zu values of type %" PRIu32
		    " cannot be made type %" PRIu32, r->n, r->from, r->to);
	if (sums != NULL && grow_sums(q, r->n_rows, err) < 0)
		return -1;
	atomic_init(&j.bad, SIZE_MAX);
	pool_run(q->pool, r->n_rows + 1, 1, run_items, &j);
	i = atomic_load(&j.bad);
	if (i != SIZE_MAX)
		return tell(&j, i, first, err);
	for (i = 0; sums != NULL && i < r->n_rows; i++) {
		sums->square += q->square[i];
		sums->error += q->error[i];
	}
	if (sums != NULL)
		sums->n += (uint64_t)r->n * r->n_rows;
	return 0;
}

int
pico_quantize(struct pico_quantizer *q, const struct pico_rows *r, void *dst,
    struct pico_quant_error *sums, struct pico_err *err)
{
	return run(q, r, 0, dst, NULL, sums, err);
}

/* ---- a tensor ---------------------------------------------------------- */

int
pico_quantize_tensor(struct pico_quantizer *q, const struct pico_tensor *t,
    uint32_t to, const float *importance, struct pico_writer *w,
    struct pico_quant_error *sums, struct pico_err *err)
{
	const struct pico_type *from = pico_type(t->type);
	const struct pico_type *type = pico_type(to);
	uint64_t height = MAX(t->dims[1], 1), row, block;
	uint64_t n_rows = height * t->dims[2] * t->dims[3];
	int i;
	size_t in = (size_t)(t->dims[0] / from->block * from->bytes), out;
	struct output o = { .w = w };
	struct pico_err why = {0};
	uint8_t *to_fill;
	struct pico_rows r = { .from = t->type, .to = to,
	    .n = (size_t)t->dims[0] };

	if (to == t->type)
		return pico_writer_copy_data(w, t, err);
	if (t->data == NULL)
		return fail(err, "tensor '%s': its data were not read",
		    show_str(t->name));
	if (type == NULL || t->dims[0] % type->block != 0)
		return fail(err, "tensor '%s' has rows of %" PRIu64 ", not a "
		    "multiple of the %" PRIu32 " of type %s", show_str(t->name),
		    t->dims[0], type != NULL ? type->block : 0,
		    type != NULL ? type->name : "?");
	out = (size_t)(t->dims[0] / type->block * type->bytes);
	/* a piece is of one matrix: each has an importance of its own */
	block = MIN(MAX(PIECE * pool_n(q->pool) / MAX(in, out), 1), height);
	for (i = 0; i < 2; i++)
		if (mem_grow(&q->out[i], &q->cap_out[i], (size_t)block * out, 1,
		    "rows of a tensor", err) < 0)
			return -1;
	for (row = 0; row < n_rows && o.rc == 0; row += r.n_rows) {
		r.src = t->data + row * in;
		r.n_rows = (size_t)MIN(block, height - row % height);
		r.importance = importance == NULL ? NULL : importance +
		    row / height * t->dims[0];
		to_fill = q->out[o.p == q->out[0]];
		if (run(q, &r, row, to_fill, &o, sums, &why) < 0)
			return fail(err, "tensor '%s': %s", show_str(t->name),
			    why.msg);
		o.p = to_fill;
		o.n = r.n_rows * out;
		map_advise(r.src, r.n_rows * in, READ_DONE);
	}
	put(&o);
	if (o.rc < 0 && err != NULL)
		*err = o.err;
	return o.rc;
}
