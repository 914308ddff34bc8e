/* SPDX-License-Identifier: MIT */
/*
 * The data: some rows at a time become float32, wherever in the folder they are,
 * then what the file wants. Threads share the rows of a batch; what a row becomes
 * depends on nothing else.
 */
#include <inttypes.h>
#include <stdatomic.h>

#include "convert.h"

#define BATCH (1u << 20)	/* elements at once */
#define DROP (16u << 20)	/* bytes read before their pages are let go */

struct batch {
	const struct pico_convert *c;
	const struct out_tensor *t;
	uint64_t first;		/* row of the tensor */
	float *f;		/* rows in float32 */
	uint8_t *out;		/* and in the type of the file; blocks of
				   several values are made afterwards */
	atomic_uint_least64_t bad;	/* the first row that cannot be written */
};

static const struct st_tensor *
source(const struct batch *b, uint64_t row, uint64_t *src_row)
{
	const struct out_tensor *t = b->t;
	uint64_t r = plan_row(&b->c->sizes, t->map, row);

	*src_row = r % t->rows_each;
	return b->c->plan.src[t->src + r / t->rows_each];
}

/* Rows lo..hi of the batch out of columns: {in, out} is {width, rows} here. */
static void
gather(const struct batch *b, size_t lo, size_t hi)
{
	const struct st_tensor *s = b->c->plan.src[b->t->src];
	size_t size = pico_type(s->type)->bytes, i, r;
	uint64_t width = b->t->width;
	const uint8_t *p;

	for (i = 0; i < width; i++) {
		p = s->data + (i * b->t->rows + b->first + lo) * size;
		for (r = lo; r < hi; r++, p += size)
			(void)pico_dequantize(s->type, p, &b->f[r * width + i],
			    1);
	}
}

static void
change(const struct out_tensor *t, float *f, size_t n)
{
	size_t i;

	if (t->plus_one)
		for (i = 0; i < n; i++)
			f[i] += 1;
	if (t->flags & MINUS_EXP)
		for (i = 0; i < n; i++)
			f[i] = (float)-m_exp(f[i]);
}

/* The least absolute value, as bits, that the type cannot hold. */
static uint32_t
limit_of(uint32_t type)
{
	switch (type) {
	case TYPE_F16:
		return 0x477ff000;	/* 65520, which would round to 65536 */
	case TYPE_BF16:
		return 0x7f7f8000;
	default:
		return 0x7f800000;
	}
}

static bool
all_fit(const float *f, size_t n, uint32_t type)
{
	uint32_t limit = limit_of(type), u, bad = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&u, &f[i], sizeof u);
		bad |= (u & 0x7fffffff) >= limit;
	}
	return !bad;
}

/* All values finite; must not be of another type than these. */
static bool
all_finite(const uint8_t *p, size_t n, uint32_t type)
{
	uint32_t bad = 0;
	size_t i;

	if (type == TYPE_F32)
		for (i = 0; i < n; i++)
			bad |= (get_u32(p + 4 * i) & 0x7f800000) == 0x7f800000;
	else if (type == TYPE_BF16)
		for (i = 0; i < n; i++)
			bad |= (get_u16(p + 2 * i) & 0x7f80) == 0x7f80;
	else
		for (i = 0; i < n; i++)
			bad |= (get_u16(p + 2 * i) & 0x7c00) == 0x7c00;
	return !bad;
}

/* To the nearest, ties to even, as f32_to_f16() does; of values that fit. No
   branches, so that compilers make vectors of it. */
static inline uint16_t
narrow(float f)
{
	uint32_t u, abs, small;
	float low;

	memcpy(&u, &f, sizeof u);
	abs = u & 0x7fffffff;
	/* below 2^-14 the unit is 2^-24, which is also that of 0.5f */
	memcpy(&low, &abs, sizeof low);
	low += 0.5f;
	memcpy(&small, &low, sizeof small);
	small -= 0x3f000000;
	abs = (abs + 0xfff + (abs >> 13 & 1) - 0x38000000) >> 13;
	abs = (u & 0x7fffffff) < 0x38800000 ? small : abs;
	return (uint16_t)((u >> 16 & 0x8000) | abs);
}

/* To a type without blocks. */
static void
encode(uint32_t type, const float *f, uint8_t *to, size_t n)
{
	uint16_t *h = (uint16_t *)(void *)to;	/* rows have whole elements */
	uint32_t u;
	size_t i;

	switch (type) {
	case TYPE_F32:
		memcpy(to, f, n * sizeof *f);
		break;
	case TYPE_F16:
		for (i = 0; i < n; i++)
			h[i] = narrow(f[i]);
		break;
	case TYPE_BF16:
		for (i = 0; i < n; i++) {
			memcpy(&u, &f[i], 4);
			h[i] = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
		}
		break;
	}
}

static void
decode(uint32_t type, const uint8_t *p, float *f, size_t n)
{
	size_t i;

	if (type == TYPE_BF16)
		for (i = 0; i < n; i++)
			f[i] = bf16_to_f32(get_u16(p + 2 * i));
	else
		(void)pico_dequantize(type, p, f, n);
}

static void
note_bad(struct batch *b, uint64_t row)
{
	uint64_t old = atomic_load(&b->bad);

	while (row < old && !atomic_compare_exchange_weak(&b->bad, &old, row))
		;
}

static void
do_rows(void *data, size_t lo, size_t hi)
{
	struct batch *b = data;
	const struct out_tensor *t = b->t;
	size_t width = (size_t)t->width, r, size, bytes;
	bool plain = !t->plus_one && !(t->flags & (TRANSPOSED | MINUS_EXP));
	const struct st_tensor *s;
	const uint8_t *p;
	uint64_t row;
	uint8_t *to;
	float *f;

	bytes = width / pico_type(t->type)->block * pico_type(t->type)->bytes;
	if (t->flags & TRANSPOSED)
		gather(b, lo, hi);
	for (r = lo; r < hi; r++) {
		f = b->f + r * width;
		to = b->out + r * bytes;
		if (!(t->flags & TRANSPOSED)) {
			s = source(b, b->first + r, &row);
			size = pico_type(s->type)->bytes;
			p = s->data + row * width * size;
			if (plain && s->type == t->type) {
				memcpy(to, p, bytes);
				if (!all_finite(to, width, t->type))
					note_bad(b, b->first + r);
				continue;
			}
			decode(s->type, p, f, width);
		}
		change(t, f, width);
		if (!all_fit(f, width, t->type))
			note_bad(b, b->first + r);
		else if (pico_type(t->type)->block == 1)
			encode(t->type, f, to, width);
	}
}

/* Why a row cannot be written. */
static int
blame(const struct batch *b, uint64_t row, struct pico_err *err)
{
	const struct out_tensor *t = b->t;
	const struct st_tensor *s = b->c->plan.src[t->src];
	const char *path;
	uint64_t i, at = row, r = 0, n = t->width;
	float v = 0;

	if (!(t->flags & TRANSPOSED))
		s = source(b, row, &r);
	for (i = 0; i < n; i++) {
		at = t->flags & TRANSPOSED ? i * t->rows + row : r * n + i;
		(void)pico_dequantize(s->type, s->data + at *
		    pico_type(s->type)->bytes, &v, 1);
		change(t, &v, 1);
		if (!all_fit(&v, 1, t->type))
			break;
	}
	path = b->c->weights.shard[s->shard].path;
	if (v - v != 0)
		return fail(err, "'%s': tensor '%s' has a value that is %s, "
		    "number %" PRIu64, show(path, strlen(path)),
		    show_str(s->name), v != v ? "not a number (NaN)" :
		    "infinite", at);
	return fail(err, "'%s': tensor '%s' has the value %g, number %" PRIu64
	    ", which does not fit %s", show(path, strlen(path)),
	    show_str(s->name), v, at, pico_type(t->type)->name);
}

/* Nothing of a tensor's sources is needed again soon. */
static void
let_go(const struct pico_convert *c, const struct out_tensor *t)
{
	uint64_t n = t->rows_each == UINT64_MAX ? 1 :
	    t->rows / MAX(t->rows_each, 1), i;
	const struct st_tensor *s;

	for (i = 0; i < n; i++) {
		s = c->plan.src[t->src + i];
		map_advise(s->data, s->end - s->begin, READ_DONE);
	}
}

struct flow {
	struct pico_writer *w;
	struct pool *pool;
	struct pico_quantizer *quantizer;
	pico_convert_progress *progress;
	void *data;
	uint64_t done, total;
};

static int
quantize(struct flow *x, const struct batch *b, uint64_t n,
    struct pico_err *err)
{
	const struct out_tensor *t = b->t;
	struct pico_rows rows = { .from = TYPE_F32, .to = t->type,
	    .src = b->f, .n = (size_t)t->width, .n_rows = (size_t)n };
	struct pico_err e = {0};

	if (pico_type(t->type)->block == 1)
		return 0;
	if (pico_quantize(x->quantizer, &rows, b->out, NULL, &e) < 0)
		return fail(err, "tensor '%s': %s", t->name, e.msg);
	return 0;
}

static int
write_tensor(struct flow *x, struct batch *b, struct pico_err *err)
{
	const struct out_tensor *t = b->t;
	const struct pico_type *type = pico_type(t->type);
	uint64_t bytes = t->width / type->block * type->bytes, seen = 0;
	uint64_t n, most = MAX(1, BATCH / t->width);

	if (t->made != NULL)
		return pico_writer_data(x->w, t->made, t->width *
		    sizeof(float), err);
	for (b->first = 0; b->first < t->rows; b->first += n) {
		n = MIN(most, t->rows - b->first);
		pool_run(x->pool, (size_t)n, 1, do_rows, b);
		if (atomic_load(&b->bad) != UINT64_MAX)
			return blame(b, atomic_load(&b->bad), err);
		if (quantize(x, b, n, err) < 0 ||
		    pico_writer_data(x->w, b->out, n * bytes, err) < 0)
			return -1;
		x->done += n * bytes;
		seen += n * t->width * sizeof(float);
		if (seen >= DROP) {
			let_go(b->c, t);
			seen = 0;
		}
		if (x->progress != NULL)
			x->progress(x->data, x->done, x->total);
	}
	let_go(b->c, t);
	return 0;
}

int
rows_write(const struct pico_convert *c, struct pico_writer *w,
    pico_convert_progress *progress, void *data, struct pico_err *err)
{
	struct flow x = { .w = w, .progress = progress, .data = data };
	struct batch b = { .c = c };
	uint64_t width = 1;
	size_t i;
	int r = -1;

	for (i = 0; i < c->plan.n; i++) {
		width = MAX(width, c->plan.tensor[i].width);
		x.total += plan_bytes(&c->plan.tensor[i]);
	}
	atomic_init(&b.bad, UINT64_MAX);
	x.pool = pool_new(c->params.n_threads > 0 ? c->params.n_threads :
	    pico_default_threads(), err);
	x.quantizer = pico_quantizer_new(c->params.n_threads, err);
	b.f = mem_new(MAX(width, BATCH), sizeof *b.f, "rows", err);
	b.out = mem_new(MAX(width, BATCH), sizeof *b.f, "rows", err);
	if (x.pool != NULL && x.quantizer != NULL && b.f != NULL &&
	    b.out != NULL)
		r = 0;
	for (i = 0; i < c->plan.n && r == 0; i++) {
		b.t = &c->plan.tensor[i];
		r = write_tensor(&x, &b, err);
	}
	pool_free(x.pool);
	pico_quantizer_free(x.quantizer);
	free(b.f);
	free(b.out);
	return r;
}
