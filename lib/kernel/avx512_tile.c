/* SPDX-License-Identifier: MIT */
/*
 * Products of the AVX-512 set for many columns, as in prompts and batches: some
 * rows are unpacked once and meet all columns from the nearest caches. The time
 * is that of the multiply-adds.
 */
#if defined(__x86_64__)

#include <string.h>

#include "avx512_turn.h"

/* Groups of a row that are unpacked at a time. Rows that are not longer meet all
   columns at once. Of others the accumulators of so many columns wait for the next
   groups. */
#define GROUPS 24
#define COLS 128
#define ROOM (COLS + WIDE)	/* for those that are there twice */
#define COLS_FLOAT 126
/* Tiles, one below the other, that meet an activation in a register. */
#define TILES 2
/* Columns that meet a weight in a register: what they need fits in registers. With
   8 sums were put aside and fetched again, and that was 10 % slower. */
#define WIDE 6
#define NARROW 4
/* Last turns of WIDE columns that fetch the next tiles. */
#define LATE 8
/* With fewer columns time goes where weights come from, and groups are unpacked
   one at a time, for the first cache. */
#define MANY 64
#define PAGES 16	/* that are asked for at a time */
/* Bytes of the longest kernel. They are asked for once in so many steps: of rows, if
   there are few columns, else of columns. */
#define CODE 5632
#define CODE_ROWS 8
#define CODE_TIMES 32
/* Elements of float rows widened at a time; every type's block divides it. */
#define PIECE 512
/* Rows and columns of a block of float sums in registers. */
#define ROWS_FLOAT 8
#define WIDE_FLOAT 3

/* One of the eight accumulators of each row and a column. */
struct sums {
	__m512 v[TILES];
};

struct work {
	union {
		struct sums acc[8][ROOM];
		/* partial sums */
		float sum[COLS_FLOAT][TILE][32];
	};
	union {
		struct tile tile[TILES][GROUPS];
		struct tile few[2][TILES];	/* this group, the next one */
		float row[TILE][PIECE];
	};
};

AVX512_BEGIN

/* ---- multiplying ---- */

/* A group of TILE rows that is to be unpacked. */
struct next {
	const uint8_t *w;
	size_t stride;		/* from row to row */
	struct tile *tile;
};

/* Some unpacked groups, one after the other in their rows, and some columns. */
struct meet {
	const struct tile *tile[TILES];	/* one below the other */
	size_t n_groups, n_blocks;	/* small blocks */
	size_t group;		/* number of the first one in the row */
	int offset;		/* of the codes */
	const uint8_t *x;	/* from the first block on */
	size_t x_stride, last;	/* columns beyond this one are not there */
	/* what is fetched meanwhile, some bytes now and then */
	const uint8_t *ahead;
	size_t ahead_now;
	struct next next;	/* what is unpacked meanwhile */
};

KERNEL void
fetch(struct meet *m)
{
	for (size_t i = 0; i < m->ahead_now; i += 64)
		_mm_prefetch((const void *)(m->ahead + i), _MM_HINT_T0);
	m->ahead += m->ahead_now;
}

/* A column, or the last one again in place of what is not there. */
KERNEL const void *
column(const struct meet *m, size_t c)
{
	return m->x + MIN(c, m->last) * m->x_stride;
}

/* What is done with an unpacked group, of all that types differ in. */
struct shape {
	bool super, min;	/* a super-block; there are minima */
	int fours;		/* codes with one scale, by four: a run */
};

KERNEL struct shape
shape_of(uint32_t type)
{
	struct shape s = { kernel_act_kind(type) == ACT_Q8K, has_min(type), 8 };

	if (type == TYPE_Q2_K || type == TYPE_Q3_K || type == TYPE_Q6_K)
		s.fours = 4;
	return s;
}

/* The type of what is to be unpacked meanwhile, if it is nothing. */
#define NOTHING UINT32_MAX

/* Four activation codes, or two sums, for all rows. */
KERNEL __m512i
bytes4(const void *p)
{
	return _mm512_set1_epi32((int32_t)get_u32(p));
}

/*
 * s += the products of `fours` * 4 codes, from w[at] and q + 4 * at on, of n
 * columns and `tiles` tiles. In between go steps of unpacking piece j of what is
 * next, if it has a type: instructions that wait for memory and those that
 * multiply are then done at the same time.
 */
KERNEL void
dot_codes(int fours, int tiles, int n, const struct tile *const *t,
    const int8_t *const *q, size_t w_at, size_t q_at, __m512i (*s)[WIDE],
    uint32_t type, const struct next *next, size_t j, size_t step,
    struct piece *p)
{
	UNROLL
	for (int i = 0; i < fours; i++) {
		__m512i w[TILES];

		UNROLL
		for (int k = 0; k < tiles; k++)
			w[k] = t[k]->w[w_at + (size_t)i];
		UNROLL
		for (int c = 0; c < n; c++) {
			__m512i v = bytes4(q[c] + q_at + 4 * (size_t)i);

			UNROLL
			for (int k = 0; k < tiles; k++)
				s[k][c] = _mm512_dpbusd_epi32(s[k][c], w[k],
				    v);
		}
		if (type != NOTHING)
			unpack_step(type, step + (size_t)i, next->w,
			    next->stride, j, p, next->tile);
	}
}

/* A super-block of a column, for its runs of codes: what their sums begin with,
   which makes good the offset of codes; or with minima, the sums of activations. */
struct column {
	_Alignas(64) int32_t start[16];
	_Alignas(32) int16_t sum[16];
};

KERNEL void
prepare(struct shape shape, int offset, const struct act_q8k *a,
    struct column *col)
{
	__m256i sum = _mm256_loadu_si256((const void *)a->sum);

	if (shape.fours == 4) {
		if (shape.min)
			_mm256_store_si256((void *)col->sum, sum);
		else
			_mm512_store_si512(col->start, _mm512_mullo_epi32(
			    _mm512_cvtepi16_epi32(sum),
			    _mm512_set1_epi32(-offset)));
		return;
	}
	sum = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
	if (shape.min)
		_mm_store_si128((void *)col->sum, _mm256_cvtepi32_epi16(sum));
	else
		_mm256_store_si256((void *)col->start, _mm256_mullo_epi32(sum,
		    _mm256_set1_epi32(-offset)));
}

/* A run of a super-block: codes that share a scale. */
KERNEL void
multiply_run(struct shape shape, int tiles, int n, const struct tile *const *t,
    const int8_t *const *q, const struct column *col, size_t run,
    __m512i (*isum)[WIDE], uint32_t type, const struct next *next, size_t j,
    size_t step, struct piece *piece)
{
	const size_t at = run * (size_t)shape.fours;
	__m512i s[TILES][WIDE];

	UNROLL
	for (int c = 0; c < n; c++) {
		__m512i v = shape.min ? _mm512_setzero_si512() :
		    bytes4(&col[c].start[run]);

		UNROLL
		for (int k = 0; k < tiles; k++)
			s[k][c] = v;
	}
	dot_codes(shape.fours, tiles, n, t, q, at, 4 * at, s, type, next, j,
	    step, piece);
	UNROLL
	for (int k = 0; k < tiles; k++) {
		UNROLL
		for (int c = 0; c < n; c++)
			isum[k][c] = _mm512_add_epi32(isum[k][c],
			    _mm512_mullo_epi32(s[k][c], t[k]->scale[run]));
	}
}

/*
 * Super-blocks of some tiles with n columns. Sums stay below 2^31: a scale times
 * its codes and activations is at most 32 * 16 * 241 * 127.
 */
KERNEL void
multiply_super(struct shape shape, int tiles, int n, uint32_t type,
    struct meet *m, size_t b, const struct tile *const *t,
    const struct act_q8k *const *a, struct sums *acc)
{
	const size_t runs = 64 / (size_t)shape.fours, in_piece = runs / 8;
	const __mmask16 begun = b < 8 ? 0 : 0xffff;
	const int8_t *q[WIDE];
	struct column col[WIDE];
	__m512i isum[TILES][WIDE], msum[TILES][WIDE];

	UNROLL
	for (int c = 0; c < n; c++) {
		q[c] = a[c]->q;
		prepare(shape, m->offset, a[c], &col[c]);
		UNROLL
		for (int k = 0; k < tiles; k++)
			isum[k][c] = msum[k][c] = _mm512_setzero_si512();
	}
	for (size_t i = 0; i < runs && type == NOTHING; i++) {
		if (i % in_piece == 0)
			fetch(m);
		multiply_run(shape, tiles, n, t, q, col, i, isum, type,
		    NULL, 0, 0, NULL);
	}
	for (size_t j = 0; j < 8 && type != NOTHING; j++) {
		struct piece piece;

		fetch(m);
		UNROLL
		for (size_t i = 0; i < in_piece; i++)
			multiply_run(shape, tiles, n, t, q, col,
			    j * in_piece + i, isum, type, &m->next, j,
			    i * (size_t)shape.fours, &piece);
	}
	if (type != NOTHING)
		unpack_scales(type, m->next.w, m->next.stride, m->next.tile);
	for (size_t i = 0; i < runs / 2 && shape.min; i++) {
		UNROLL
		for (int c = 0; c < n; c++) {
			__m512i v = bytes4(col[c].sum + 2 * i);

			UNROLL
			for (int k = 0; k < tiles; k++)
				msum[k][c] = _mm512_dpwssd_epi32(msum[k][c],
				    t[k]->min[i], v);
		}
	}
	UNROLL
	for (int c = 0; c < n; c++) {
		__m512 da = _mm512_set1_ps(a[c]->d);

		UNROLL
		for (int k = 0; k < tiles; k++) {
			__m512 v = _mm512_maskz_load_ps(begun, &acc[c].v[k]);

			v = _mm512_fmadd_ps(_mm512_mul_ps(t[k]->d[0], da),
			    _mm512_cvtepi32_ps(isum[k][c]), v);
			if (shape.min)
				v = _mm512_fmadd_ps(
				    _mm512_mul_ps(t[k]->m[0], da),
				    _mm512_cvtepi32_ps(msum[k][c]), v);
			acc[c].v[k] = v;
		}
	}
}

/* Small blocks, up to 8: a group. */
KERNEL void
multiply_small(struct shape shape, int tiles, int n, struct meet *m,
    size_t blocks, __mmask16 begun, const struct tile *const *t,
    const struct act_q8 **a, struct sums *acc)
{
	const int sign = shape.min ? 1 : -m->offset;

	for (size_t i = 0; i < blocks; i++, acc += ROOM) {
		const int8_t *q[WIDE];
		__m512i s[TILES][WIDE];
		__m512 d[TILES], min[TILES];

		UNROLL
		for (int c = 0; c < n; c++) {
			q[c] = a[c]->q;
			UNROLL
			for (int k = 0; k < tiles; k++)
				s[k][c] = _mm512_setzero_si512();
		}
		fetch(m);
		dot_codes(8, tiles, n, t, q, 8 * i, 0, s, NOTHING, NULL, 0, 0,
		    NULL);
		UNROLL
		for (int k = 0; k < tiles; k++) {
			d[k] = t[k]->d[i];
			IN_REGISTER(d[k]);
			if (shape.min) {
				min[k] = t[k]->m[i];
				IN_REGISTER(min[k]);
			}
		}
		UNROLL
		for (int c = 0; c < n; c++) {
			__m512 da = _mm512_set1_ps(a[c]->d);
			/* not by a vector: those multiply all the time */
			__m512i sum = _mm512_set1_epi32(a[c]->sum * sign);

			UNROLL
			for (int k = 0; k < tiles; k++) {
				__m512 v = _mm512_maskz_load_ps(begun,
				    &acc[c].v[k]);

				v = _mm512_fmadd_ps(_mm512_mul_ps(d[k], da),
				    _mm512_cvtepi32_ps(shape.min ? s[k][c] :
				    _mm512_add_epi32(s[k][c], sum)), v);
				if (shape.min)
					v = _mm512_fmadd_ps(
					    _mm512_mul_ps(min[k], da),
					    _mm512_cvtepi32_ps(sum), v);
				acc[c].v[k] = v;
			}
			a[c]++;
		}
	}
}

/* All groups. */
KERNEL void
multiply_groups(struct shape shape, int tiles, int n, uint32_t type,
    struct meet *m, struct sums *acc)
{
	const struct act_q8 *small[WIDE];
	const struct act_q8k *super[WIDE];
	const struct tile *t[TILES];

	UNROLL
	for (int c = 0; c < n; c++) {
		small[c] = column(m, (size_t)c);
		super[c] = column(m, (size_t)c);
	}
	UNROLL
	for (int k = 0; k < tiles; k++)
		t[k] = m->tile[k];
	for (size_t g = 0; g < m->n_groups; g++) {
		const size_t b = m->group + g;

		if (shape.super)
			multiply_super(shape, tiles, n, type, m, b, t, super,
			    acc + b % 8 * ROOM);
		else
			multiply_small(shape, tiles, n, m,
			    MIN(8, m->n_blocks - 8 * g),
			    b == 0 ? 0 : 0xffff, t, small, acc);
		UNROLL
		for (int c = 0; c < n; c++)
			super[c]++;
		UNROLL
		for (int k = 0; k < tiles; k++)
			t[k]++;
	}
}

/*
 * The kernels: a function each, so that the compiler finds registers for all.
 * Of each shape for one tile and two, and NARROW and WIDE columns.
 */
typedef void meet_fn(struct meet *m, struct sums *acc);
#define MEET(name, tiles, n, ...) \
static __attribute__((noinline)) void \
name##_##tiles##_##n(struct meet *m, struct sums *acc) \
{ \
	multiply_groups((struct shape){ __VA_ARGS__ }, tiles, n, NOTHING, m, \
	    acc); \
}
#define SHAPE(name, ...) \
MEET(name, 1, NARROW, __VA_ARGS__) \
MEET(name, 1, WIDE, __VA_ARGS__) \
MEET(name, 2, NARROW, __VA_ARGS__) \
MEET(name, 2, WIDE, __VA_ARGS__) \
static meet_fn *const name[2][2] = { \
	{ name##_1_NARROW, name##_1_WIDE }, \
	{ name##_2_NARROW, name##_2_WIDE }, \
};
SHAPE(small, false, false, 8)
SHAPE(small_min, false, true, 8)
SHAPE(super32, true, false, 8)
SHAPE(super32_min, true, true, 8)
SHAPE(super16, true, false, 4)
SHAPE(super16_min, true, true, 4)

/* For quantized weights of a type: those for NARROW and for WIDE columns. */
static meet_fn *const *
meet_of(uint32_t type, int tiles)
{
	const struct shape s = shape_of(type);

	if (!s.super)
		return (s.min ? small_min : small)[tiles - 1];
	if (s.fours == 8)
		return (s.min ? super32_min : super32)[tiles - 1];
	return (s.min ? super16_min : super16)[tiles - 1];
}

/*
 * For TILES tiles and NARROW columns, unpacking a tile meanwhile. Super-blocks with
 * 32 codes to a scale leave room for that between the products: 435 cycles instead
 * of 150 and 360 (Q4_K, Zen 5). Others do not: 630 instead of 210 and 370 (Q6_K).
 */
#define BETWEEN_TYPES(X) \
	X(TYPE_Q4_K) X(TYPE_Q5_K) X(TYPE_IQ4_XS)
#define UNPACKING(type) \
static __attribute__((noinline)) void \
unpacking_##type(struct meet *m, struct sums *acc) \
{ \
	multiply_groups(shape_of(type), TILES, NARROW, type, m, acc); \
}
BETWEEN_TYPES(UNPACKING)

/* NULL for other types. */
static meet_fn *
unpacking(uint32_t type)
{
	switch (type) {
#define CASE(type) case type: return unpacking_##type;
	BETWEEN_TYPES(CASE)
#undef CASE
	}
	return NULL;
}

/* TREE(8) of the accumulators of some rows and a column */
static __m512
tree_rows(const struct sums *acc, int t)
{
	__m512 s[8];

	UNROLL
	for (size_t i = 0; i < 8; i++)
		s[i] = acc[i * ROOM].v[t];
	return _mm512_add_ps(
	    _mm512_add_ps(_mm512_add_ps(s[0], s[4]),
	    _mm512_add_ps(s[2], s[6])),
	    _mm512_add_ps(_mm512_add_ps(s[1], s[5]),
	    _mm512_add_ps(s[3], s[7])));
}

/* Past the caches: lines of y are far from each other, and to wait for what is in
   them took 3 to 5 % of a kernel's time, 1 to 2 % of a prompt's. */
KERNEL void
store_rows(float *y, __m512 v, bool past)
{
	if (past && (uintptr_t)y % 64 == 0)
		_mm512_stream_ps(y, v);
	else
		_mm512_storeu_ps(y, v);
}

/*
 * The second cache holds all that the first ones hold, but does not see what is used
 * there: weights on their way through it push out the code that multiplies them. So
 * this is asked for now and then; 8 columns took 2 to 3 % longer without.
 */
static void
keep_code(meet_fn *fn)
{
	const char *p = (const char *)(uintptr_t)fn;

	for (size_t i = 0; i < CODE; i += 64)
		_mm_prefetch(p + i, _MM_HINT_T0);
}

/*
 * Some tiles, one below the other, with some columns: all of them, or COLS if
 * rows have more than GROUPS groups.
 */
static void
multiply_tiles(int tiles, struct work *k, const struct matmul *m,
    const uint8_t *w, const uint8_t *x, size_t cols, float *y)
{
	const struct pico_type *type = pico_type(m->type);
	const bool super = kernel_act_kind(m->type) == ACT_Q8K;
	const size_t group = type->bytes * (256 / type->block);
	const size_t row = m->n_in / type->block * type->bytes;
	const size_t all = (m->n_in + 255) / 256;
	const bool once = all <= GROUPS;
	struct meet meet = {
		.offset = code_offset(m->type), .x_stride = m->x_stride,
	};
	/* the next tiles are front to back after these; they are fetched with
	   the last columns, so that they are still there when these are done */
	const size_t bytes = (size_t)(tiles * TILE) * m->row_bytes;
	const size_t late = MIN(cols, LATE * WIDE);
	const size_t share = bytes / all * WIDE / late / 8;
	meet_fn *const *fn = meet_of(m->type, tiles);
	size_t g, c, n, i;
	int t;

	meet.ahead = w + bytes;
	for (t = 0; t < tiles; t++)
		meet.tile[t] = k->tile[t];
	/* accumulators that nothing comes to; others begin with their first */
	if (m->n_in < (super ? 8 * 256 : 256))
		memset(k->acc, 0, sizeof k->acc);
	for (g = 0; g < all; g += meet.n_groups) {
		meet.n_groups = MIN(GROUPS, all - g);
		meet.n_blocks = m->n_in / 32 - 8 * g;
		meet.group = g;
		for (i = 0; i < meet.n_groups; i++)
			for (t = 0; t < tiles; t++)
				unpack_tile(m->type, w + (g + i) * group +
				    (size_t)(t * TILE) * m->row_bytes,
				    m->row_bytes, row - (g + i) * group,
				    &k->tile[t][i]);
		for (c = 0; c < cols; c += n) {
			size_t left = cols - c;
			/* 7 and 8 are twice NARROW */
			bool wide = left > NARROW && left != 7 && left != 8;
			struct sums *acc = &k->acc[0][once ? 0 : c];

			if (c % (CODE_TIMES * WIDE) == 0)
				keep_code(fn[1]);
			n = wide ? WIDE : NARROW;
			meet.x = x + c * m->x_stride + g * (super ?
			    sizeof(struct act_q8k) : 8 * sizeof(struct act_q8));
			meet.last = MIN(n, left) - 1;
			meet.ahead_now = left <= late ? share : 0;
			fn[wide](&meet, acc);
			for (i = 0; g + meet.n_groups == all &&
			    i <= meet.last; i++)
				for (t = 0; t < tiles; t++)
					store_rows(y + (c + i) * m->y_stride +
					    t * TILE, tree_rows(acc + i, t), true);
		}
	}
}

/* ---- few columns ---- */

/* How many times NARROW of them are taken, WIDE of all others: what is least work,
   where a tile that could be unpacked meanwhile and is not counts as a column more. */
static size_t
narrow_times(size_t cols, bool between)
{
	size_t best = 0, least = SIZE_MAX;

	for (size_t n = 0; n <= 5; n++) {
		size_t left = cols - MIN(cols, n * NARROW);
		size_t work = n * NARROW + (left + WIDE - 1) / WIDE * WIDE +
		    (between ? TILES - MIN(n, TILES) : 0);

		if (work < least) {
			least = work;
			best = n;
		}
	}
	return best;
}

/*
 * Asks for a line of each of the next pages, some pages at a time. An instruction
 * that fetches cannot be done with before it is known where its page is in memory;
 * for one page after the other that was a tenth of the time with 8 columns.
 */
static void
fetch_pages(const uint8_t *p, size_t step)
{
	if ((uintptr_t)p % (PAGES * PAGE) >= step)
		return;
	for (size_t i = 1; i <= PAGES; i++)
		_mm_prefetch((const void *)(p + i * PAGE), _MM_HINT_T1);
}

/* The rows that this thread has fetched already. Where it begins with others it
   asks for the first of them at once. */
static _Thread_local const uint8_t *fetched;

static void
fetch_first(const uint8_t *w, size_t bytes)
{
	for (size_t i = 0; w != fetched && i < bytes; i += 64)
		_mm_prefetch((const void *)(w + i), _MM_HINT_T1);
}

/* What is the same for all groups of some rows. */
struct few {
	const struct matmul *m;
	size_t x_group;		/* bytes of activations */
	size_t wide, narrow;	/* times that so many columns are taken */
	meet_fn *const *fn;
	meet_fn *between;	/* one that unpacks, or NULL */
};

/*
 * The group in meet->tile with all columns. Meanwhile tiles of the next group, at
 * meet->next.w, are unpacked to `next`, if it is not NULL; gives the number of
 * those that are. With y, the sums are complete.
 */
static size_t
multiply_group(const struct few *f, struct meet *meet, struct work *k,
    struct tile *next, float *y)
{
	const struct matmul *m = f->m;
	const uint8_t *x = (const uint8_t *)m->x + meet->group * f->x_group;
	meet_fn *between = next != NULL ? f->between : NULL;
	size_t c = 0, unpacked = 0;

	fetch_pages(meet->ahead, 8 * meet->ahead_now * (f->wide + f->narrow));
	for (size_t i = 0; i < f->wide + f->narrow; i++) {
		const bool wide = i < f->wide;
		struct sums *acc = &k->acc[0][c];
		size_t n = MIN(wide ? WIDE : NARROW, m->n_cols - c), j;

		meet->x = x + c * m->x_stride;
		meet->last = n - 1;
		for (j = 0; y != NULL && j < n; j++)
			for (int t = 0; t < TILES; t++)
				__builtin_prefetch((const void *)(y + (c + j) *
				    m->y_stride + t * TILE), 1);
		if (!wide && between != NULL && unpacked < TILES) {
			meet->next.tile = &next[unpacked++];
			between(meet, acc);
			meet->next.w += TILE * m->row_bytes;
		} else {
			f->fn[wide](meet, acc);
		}
		for (j = 0; y != NULL && j < n; j++)
			for (int t = 0; t < TILES; t++)
				store_rows(y + (c + j) * m->y_stride + t * TILE,
				    tree_rows(acc + j, t), false);
		c += n;
	}
	return unpacked;
}

/* Rows of a whole number of TILES tiles, at least one. */
static void
multiply_few(struct work *k, const struct matmul *m, size_t r0, size_t r1)
{
	const struct pico_type *type = pico_type(m->type);
	const bool super = kernel_act_kind(m->type) == ACT_Q8K;
	const size_t group = type->bytes * (256 / type->block);
	const size_t row = m->n_in / type->block * type->bytes;
	const size_t all = (m->n_in + 255) / 256;
	const size_t tile = TILE * m->row_bytes;
	struct few f = {
		.m = m,
		.x_group = super ? sizeof(struct act_q8k) :
		    8 * sizeof(struct act_q8),
		.fn = meet_of(m->type, TILES), .between = unpacking(m->type),
	};
	const uint8_t *w = (const uint8_t *)m->w + r0 * m->row_bytes;
	const uint8_t *const end = (const uint8_t *)m->w + r1 * m->row_bytes;
	const uint8_t *const next = m->next != NULL ? m->next : end;
	size_t g, left, unpacked = 0, times, now = 0, early;
	struct meet meet = {
		.offset = code_offset(m->type), .x_stride = m->x_stride,
		.n_groups = 1, .next.stride = m->row_bytes,
	};

	f.narrow = narrow_times(m->n_cols, f.between != NULL);
	left = m->n_cols - MIN(m->n_cols, f.narrow * NARROW);
	f.wide = (left + WIDE - 1) / WIDE;
	times = f.wide + f.narrow;
	/* the next rows are fetched while these are multiplied; a bit earlier, since
	   their first groups are unpacked together with the last ones of these */
	early = tile / times;
	meet.ahead_now = TILES * tile / all / times / 8;
	fetch_first(w, TILES * tile + early);
	fetched = next;
	if (m->n_in < (super ? 8 * 256 : 256))
		memset(k->acc, 0, sizeof k->acc);
	for (size_t r = r0; r < r1; r += TILES * TILE, w += TILES * tile) {
		if (r / (TILES * TILE) % CODE_ROWS == 0) {
			if (f.wide > 0 || f.between == NULL)
				keep_code(f.fn[f.wide > 0]);
			if (f.narrow > 0 && f.between != NULL)
				keep_code(f.between);
		}
		meet.ahead = w + TILES * tile + early;
		if (meet.ahead >= end && next != end) {
			meet.ahead = next;
			meet.ahead_now = (TILES * tile + early) / all / times / 8;
		}
		for (g = 0; g < all; g++, now = !now) {
			bool whole = g + 1 == all;
			bool last = whole && r + TILES * TILE == r1;

			for (; unpacked < TILES; unpacked++)
				unpack_tile(m->type, w + g * group +
				    unpacked * tile, m->row_bytes,
				    row - g * group,
				    &k->few[now][unpacked]);
			for (int t = 0; t < TILES; t++)
				meet.tile[t] = &k->few[now][t];
			meet.group = g;
			meet.n_blocks = m->n_in / 32 - 8 * g;
			meet.next.w = whole ? w + TILES * tile :
			    w + (g + 1) * group;
			unpacked = multiply_group(&f, &meet, k,
			    last ? NULL : k->few[!now],
			    whole ? m->y + r : NULL);
		}
	}
}

/* ---- float weights ---- */

/* s += products of 16 elements, those of k, of ROWS_FLOAT rows and WIDE_FLOAT
   columns from number i on */
KERNEL void
dot_floats(float (*row)[PIECE], const float *const *x, size_t i, bool all,
    __mmask16 k, __m512 (*s)[WIDE_FLOAT])
{
	__m512 v[WIDE_FLOAT];

	UNROLL
	for (int c = 0; c < WIDE_FLOAT; c++)
		v[c] = all ? _mm512_loadu_ps(x[c] + i) :
		    _mm512_maskz_loadu_ps(k, x[c] + i);
	UNROLL
	for (int r = 0; r < ROWS_FLOAT; r++) {
		__m512 w = _mm512_load_ps(row[r] + i);

		IN_REGISTER(w);
		/* 0 is not added: it would turn a -0 into 0 */
		UNROLL
		for (int c = 0; c < WIDE_FLOAT; c++)
			s[r][c] = all ? _mm512_fmadd_ps(w, v[c], s[r][c]) :
			    _mm512_mask3_fmadd_ps(w, v[c], s[r][c], k);
	}
}

/*
 * n elements of ROWS_FLOAT rows with WIDE_FLOAT columns, whose partial sums are
 * TILE rows apart; of every 32 only the 16 from number `half` on. The others
 * and their sums are a case of their own: so more rows and columns fit in the
 * registers.
 */
KERNEL void
multiply_float(float (*row)[PIECE], size_t n, const float *const *x,
    size_t half, float (*sum)[32])
{
	__m512 s[ROWS_FLOAT][WIDE_FLOAT];
	size_t i;

	UNROLL
	for (int r = 0; r < ROWS_FLOAT; r++) {
		UNROLL
		for (int c = 0; c < WIDE_FLOAT; c++)
			s[r][c] = _mm512_load_ps(sum[TILE * c + r] + half);
	}
	for (i = half; i + 16 <= n; i += 32)
		dot_floats(row, x, i, true, 0xffff, s);
	if (i < n)
		dot_floats(row, x, i, false, lanes(n - i), s);
	UNROLL
	for (int r = 0; r < ROWS_FLOAT; r++) {
		UNROLL
		for (int c = 0; c < WIDE_FLOAT; c++)
			_mm512_store_ps(sum[TILE * c + r] + half, s[r][c]);
	}
}

/* TILE rows with up to COLS_FLOAT columns, one piece of the rows after the
   other. */
static void
tile_float(struct work *k, const struct matmul *m, const uint8_t *w,
    const uint8_t *x, size_t cols, float *y)
{
	memset(k->sum, 0, (cols + WIDE_FLOAT - 1) / WIDE_FLOAT * WIDE_FLOAT *
	    sizeof *k->sum);
	for (size_t i = 0; i < m->n_in; i += PIECE) {
		size_t n = MIN(PIECE, m->n_in - i);

		for (size_t r = 0; r < TILE; r++)
			avx512_widen(m->type, w + r * m->row_bytes, i, n,
			    k->row[r]);
		for (size_t c = 0; c < cols; c += WIDE_FLOAT) {
			const float *xc[WIDE_FLOAT];

			/* the last one again in place of what is missing */
			for (size_t j = 0; j < WIDE_FLOAT; j++)
				xc[j] = (const float *)(const void *)(x +
				    MIN(c + j, cols - 1) * m->x_stride) + i;
			for (size_t r = 0; r < TILE; r += ROWS_FLOAT)
				for (size_t half = 0; half < 32; half += 16)
					multiply_float(k->row + r, n, xc, half,
					    k->sum[c] + r);
		}
	}
	for (size_t c = 0; c < cols; c++) {
		__m512 s[TILE];

		UNROLL
		for (size_t r = 0; r < TILE; r++)
			s[r] = _mm512_add_ps(_mm512_load_ps(k->sum[c][r]),
			    _mm512_load_ps(k->sum[c][r] + 16));
		_mm512_storeu_ps(y + c * m->y_stride, tree16(s));
	}
}

/* ---- the choice ---- */

void
avx512_tiles(const struct matmul *m, size_t r0, size_t r1)
{
	bool floats = kernel_act_kind(m->type) == ACT_F32;
	bool many = m->n_cols >= MANY;
	size_t at_once = floats ? COLS_FLOAT :
	    m->n_in <= 256 * GROUPS ? m->n_cols : COLS;
	size_t tiles, bytes;
	/* at the same place of pages in all threads: where it met the activations in
	   the caches, 8 columns took 4 % longer */
	_Alignas(PAGE) struct work k;

	if (!floats && !many) {
		size_t end = r1 - (r1 - r0) % (TILES * TILE);

		if (r0 < end)
			multiply_few(&k, m, r0, end);
		r0 = end;
	}
	for (size_t r = r0; r < r1; r += tiles * TILE) {
		const uint8_t *w = (const uint8_t *)m->w + r * m->row_bytes;

		tiles = !floats && r1 - r >= TILES * TILE ? TILES : 1;
		bytes = tiles * TILE * m->row_bytes;
		/* what is not mapped yet cannot be fetched ahead */
		for (size_t i = 0; !floats && many &&
		    r1 - r >= 2 * tiles * TILE && i < bytes; i += PAGE)
			(void)*(const volatile uint8_t *)(w + bytes + i);
		for (size_t c = 0; c < m->n_cols; c += at_once) {
			size_t cols = MIN(at_once, m->n_cols - c);
			const uint8_t *x = (const uint8_t *)m->x +
			    c * m->x_stride;
			float *y = m->y + c * m->y_stride + r;

			if (floats)
				tile_float(&k, m, w, x, cols, y);
			else
				multiply_tiles((int)tiles, &k, m, w, x, cols,
				    y);
		}
	}
	_mm_sfence();
}

AVX512_END

#endif
