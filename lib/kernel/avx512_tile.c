/* SPDX-License-Identifier: MIT */
/*
 * Products of the AVX-512 set for many columns, as in prompts and batches: some
 * rows are unpacked once and meet all columns from the nearest caches. The time
 * is that of the multiply-adds.
 */
#if defined(__x86_64__)

#include <string.h>

#include "avx512_unpack.h"

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
/* With fewer columns time goes where weights come from: then few groups are
   unpacked at a time, for the first cache, and nothing waits for what is far. */
#define MANY 64
#define FEW_GROUPS 4	/* of small blocks; one of super-blocks */
/* Elements of float rows widened at a time; every type's block divides it. */
#define PIECE 512
/* Rows and columns of a block of float sums in registers. */
#define ROWS_FLOAT 8
#define WIDE_FLOAT 3

/*
 * TILE rows of a group. A vector of weights has four consecutive codes of each
 * row, one of scales or minima has one or two numbers of each.
 */
struct tile {
	__m512i w[64];
	__m512i scale[16];	/* super-block: of the runs of codes */
	__m512i min[8];		/* super-block: pairs of int16, likewise */
	__m512 d[8], m[8];	/* of the blocks; super-block: one */
};

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
		float row[TILE][PIECE];
	};
};

AVX512_BEGIN

/* ---- unpacking ---- */

/* Lane l of r[j] is of row 4l + j: dst[i] gets the i-th four bytes of each. */
KERNEL void
by_fours(const __m512i *r, __m512i *dst)
{
	__m512i a = _mm512_unpacklo_epi32(r[0], r[1]);
	__m512i b = _mm512_unpackhi_epi32(r[0], r[1]);
	__m512i c = _mm512_unpacklo_epi32(r[2], r[3]);
	__m512i d = _mm512_unpackhi_epi32(r[2], r[3]);

	dst[0] = _mm512_unpacklo_epi64(a, c);
	dst[1] = _mm512_unpackhi_epi64(a, c);
	dst[2] = _mm512_unpacklo_epi64(b, d);
	dst[3] = _mm512_unpackhi_epi64(b, d);
}

/* 16 bytes of each of 16 rows, as by_fours() wants them. */
KERNEL void
load_rows(const uint8_t *src, size_t stride, __m512i *r)
{
	UNROLL
	for (size_t j = 0; j < 4; j++)
		r[j] = four_lanes(src + j * stride, src + (j + 4) * stride,
		    src + (j + 8) * stride, src + (j + 12) * stride);
}

KERNEL void
turn(const uint8_t *src, size_t stride, __m512i *dst)
{
	__m512i r[4];

	load_rows(src, stride, r);
	by_fours(r, dst);
}

/* Nibbles, the low ones to dst, the high ones to dst + high. */
KERNEL void
turn_nibbles(const uint8_t *src, size_t stride, __m512i *dst, size_t high)
{
	const __m512i low = _mm512_set1_epi8(15);
	__m512i v[4];

	turn(src, stride, v);
	UNROLL
	for (size_t i = 0; i < 4; i++) {
		dst[i] = _mm512_and_si512(v[i], low);
		dst[i + high] = _mm512_and_si512(_mm512_srli_epi64(v[i], 4),
		    low);
	}
}

/* Codes that need little but turning, as the file has them. */
KERNEL bool
turns(uint32_t type)
{
	return type == TYPE_Q4_0 || type == TYPE_Q8_0 || type == TYPE_Q4_K;
}

KERNEL void
turn_codes(uint32_t type, const uint8_t *w, size_t stride, __m512i *dst)
{
	const size_t bytes = block_bytes(type);

	for (size_t i = 0; i < 8; i++)
		if (type == TYPE_Q4_K) {
			turn_nibbles(w + 16 + 16 * i, stride,
			    dst + i / 2 * 16 + i % 2 * 4, 8);
		} else if (type == TYPE_Q4_0) {
			turn_nibbles(w + i * bytes + 2, stride, dst + 8 * i, 4);
		} else {
			turn(w + i * bytes + 2, stride, dst + 8 * i);
			turn(w + i * bytes + 18, stride, dst + 8 * i + 4);
			UNROLL
			for (size_t j = 0; j < 8; j++)
				dst[8 * i + j] = _mm512_xor_si512(
				    dst[8 * i + j],
				    _mm512_set1_epi8((char)0x80));
		}
}

/* A scale is for 32 codes, not 16. */
KERNEL bool
long_runs(uint32_t type)
{
	return type == TYPE_Q4_K || type == TYPE_Q5_K || type == TYPE_IQ4_XS;
}

/* Pairs of int16 as int32. */
KERNEL void
split(__m512i pairs, __m512i *dst)
{
	dst[0] = _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16);
	dst[1] = _mm512_srai_epi32(pairs, 16);
}

/* All but the codes of Q4_K and Q5_K. Bytes of scales and minima go to each of
   16 rows. */
KERNEL void
factors_nibbles(const uint8_t *w, size_t stride, struct tile *t)
{
	__m512i r[4], v[4], to;

	load_rows(w, stride, r);
	by_fours(r, v);
	t->d[0] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v[0]));
	t->m[0] = _mm512_xor_ps(_mm512_set1_ps(-0.0f), _mm512_cvtph_ps(
	    _mm512_cvtepi32_epi16(_mm512_srli_epi32(v[0], 16))));
	UNROLL
	for (int j = 0; j < 4; j++)
		r[j] = four_factors_q4_k(r[j]);
	by_fours(r, v);
	UNROLL
	for (int i = 0; i < 4; i++) {
		/* two bytes of each row, as words */
		to = _mm512_broadcast_i32x4(_mm_add_epi8(
		    _mm_set1_epi8((char)(i % 2 * 2)), _mm_setr_epi8(0, -128, 1,
		    -128, 4, -128, 5, -128, 8, -128, 9, -128, 12, -128, 13,
		    -128)));
		t->min[i] = _mm512_shuffle_epi8(v[2 + i / 2], to);
		r[i] = _mm512_shuffle_epi8(v[i / 2], to);
	}
	UNROLL
	for (int i = 0; i < 4; i++)
		split(r[i], t->scale + 2 * i);
}

/* A group of each of TILE rows; `bytes` of each are there, the rest of a group
   of small blocks counts as zeros. */
KERNEL void
unpack(uint32_t type, const uint8_t *w, size_t stride, size_t bytes,
    struct tile *t)
{
	const bool super = kernel_act_kind(type) == ACT_Q8K;
	const size_t whole = block_bytes(type) * (super ? 1 : 8);
	const bool as_is = turns(type) && bytes >= whole;
	const bool nibbles = type == TYPE_Q4_K || type == TYPE_Q5_K;
	_Alignas(64) uint8_t q[TILE][256];
	_Alignas(64) float d[TILE][8], m[TILE][8];
	_Alignas(64) __m256i scale[TILE], min[TILE];	/* of the sixteenths */
	_Alignas(64) uint16_t dh[TILE], mh[TILE];

	for (size_t r = 0; r < TILE && type != TYPE_Q4_K; r++) {
		const uint8_t *p = w + r * stride;
		uint8_t part[8 * 34];
		__m256 min8;

		if (bytes < whole) {
			memcpy(part, p, bytes);
			memset(part + bytes, 0, sizeof part - bytes);
			p = part;
		}
		UNROLL
		for (int z = 0; z < 4 && !as_is; z++)
			_mm512_store_si512(&q[r][64 * z], codes(type, p, z));
		if (nibbles)
			continue;
		if (super) {
			scale[r] = factors(type, p, &min[r]);
			dh[r] = get_u16(p + scale_at(type));
			mh[r] = has_min(type) ?
			    get_u16(p + scale_at(type) + 2) : 0;
		} else {
			_mm256_store_ps(d[r], scales_small(type, p, &min8));
			if (has_min(type))
				_mm256_store_ps(m[r], min8);
		}
	}
	if (as_is)
		turn_codes(type, w, stride, t->w);
	for (int i = 0; i < 16 && !as_is; i++)
		turn(&q[0][16 * i], sizeof q[0], t->w + 4 * i);
	if (nibbles) {
		factors_nibbles(w, stride, t);
		return;
	}
	for (int i = 0; super && i < 2; i++) {
		__m512i pair[4];

		if (has_min(type))
			turn((uint8_t *)min + 16 * i, sizeof *min,
			    t->min + 4 * i);
		turn((uint8_t *)scale + 16 * i, sizeof *scale,
		    pair);
		for (int j = 0; j < 4; j++)
			if (long_runs(type))
				t->scale[4 * i + j] =
				    _mm512_srai_epi32(pair[j], 16);
			else
				split(pair[j], t->scale + 8 * i + 2 * j);
	}
	if (super) {
		t->d[0] = halves(dh);
		t->m[0] = _mm512_xor_ps(_mm512_set1_ps(-0.0f), halves(mh));
	}
	for (int i = 0; !super && i < 2; i++) {
		turn((uint8_t *)&d[0][4 * i], sizeof d[0],
		    (__m512i *)t->d + 4 * i);
		if (has_min(type))
			turn((uint8_t *)&m[0][4 * i], sizeof m[0],
			    (__m512i *)t->m + 4 * i);
	}
}

static void
unpack_tile(uint32_t type, const uint8_t *w, size_t stride, size_t bytes,
    struct tile *t)
{
	switch (type) {
#define UNPACK(type) \
	case type: \
		unpack(type, w, stride, bytes, t); \
		break
	UNPACK(TYPE_Q4_0);
	UNPACK(TYPE_Q4_1);
	UNPACK(TYPE_Q5_0);
	UNPACK(TYPE_Q5_1);
	UNPACK(TYPE_Q8_0);
	UNPACK(TYPE_IQ4_NL);
	UNPACK(TYPE_MXFP4);
	UNPACK(TYPE_Q2_K);
	UNPACK(TYPE_Q3_K);
	UNPACK(TYPE_Q4_K);
	UNPACK(TYPE_Q5_K);
	UNPACK(TYPE_Q6_K);
	UNPACK(TYPE_IQ4_XS);
#undef UNPACK
	}
}

/* ---- multiplying ---- */

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

/* Four activation codes, or two sums, for all rows. */
KERNEL __m512i
bytes4(const void *p)
{
	return _mm512_set1_epi32((int32_t)get_u32(p));
}

/* s += the products of `fours` * 4 codes, from w[at] and q + 4 * at on, of n
   columns and `tiles` tiles */
KERNEL void
dot_codes(int fours, int tiles, int n, const struct tile *const *t,
    const int8_t *const *q, size_t w_at, size_t q_at, __m512i (*s)[WIDE])
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

/*
 * Super-blocks of some tiles with n columns. Sums stay below 2^31: a scale times
 * its codes and activations is at most 32 * 16 * 241 * 127.
 */
KERNEL void
multiply_super(struct shape shape, int tiles, int n, struct meet *m, size_t b,
    const struct tile *const *t, const struct act_q8k *const *a,
    struct sums *acc)
{
	const int runs = 64 / shape.fours;
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
	for (int j = 0; j < runs; j++) {
		size_t at = (size_t)(j * shape.fours);
		__m512i s[TILES][WIDE];

		UNROLL
		for (int c = 0; c < n; c++) {
			__m512i v = shape.min ? _mm512_setzero_si512() :
			    bytes4(&col[c].start[j]);

			UNROLL
			for (int k = 0; k < tiles; k++)
				s[k][c] = v;
		}
		if (at % 8 == 0)
			fetch(m);
		dot_codes(shape.fours, tiles, n, t, q, at, 4 * at, s);
		UNROLL
		for (int k = 0; k < tiles; k++) {
			UNROLL
			for (int c = 0; c < n; c++)
				isum[k][c] = _mm512_add_epi32(isum[k][c],
				    _mm512_mullo_epi32(s[k][c],
				    t[k]->scale[j]));
		}
	}
	for (int i = 0; i < runs / 2 && shape.min; i++) {
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
		dot_codes(8, tiles, n, t, q, 8 * i, 0, s);
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
multiply_groups(struct shape shape, int tiles, int n, struct meet *m,
    struct sums *acc)
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
			multiply_super(shape, tiles, n, m, b, t, super,
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
	multiply_groups((struct shape){ __VA_ARGS__ }, tiles, n, m, acc); \
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
	switch (type) {
	case TYPE_Q4_0: case TYPE_Q5_0: case TYPE_Q8_0: case TYPE_IQ4_NL:
	case TYPE_MXFP4:
		return small[tiles - 1];
	case TYPE_Q4_1: case TYPE_Q5_1:
		return small_min[tiles - 1];
	case TYPE_IQ4_XS:
		return super32[tiles - 1];
	case TYPE_Q4_K: case TYPE_Q5_K:
		return super32_min[tiles - 1];
	case TYPE_Q3_K: case TYPE_Q6_K:
		return super16[tiles - 1];
	default:
		return super16_min[tiles - 1];
	}
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
	const bool many = m->n_cols >= MANY;
	const size_t step = many ? GROUPS : super ? 1 : FEW_GROUPS;
	const bool once = all <= step;
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
		meet.n_groups = MIN(step, all - g);
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
					    t * TILE, tree_rows(acc + i, t), many);
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
	size_t at_once = floats ? COLS_FLOAT :
	    m->n_cols < MANY || m->n_in <= 256 * GROUPS ? m->n_cols : COLS;
	bool touch = !floats && m->n_cols >= MANY;
	size_t tiles, bytes;
	_Alignas(64) struct work k;

	for (size_t r = r0; r < r1; r += tiles * TILE) {
		const uint8_t *w = (const uint8_t *)m->w + r * m->row_bytes;

		tiles = !floats && r1 - r >= TILES * TILE ? TILES : 1;
		bytes = tiles * TILE * m->row_bytes;
		/* what is not mapped yet cannot be fetched ahead */
		for (size_t i = 0; touch && r1 - r >= 2 * tiles * TILE &&
		    i < bytes; i += 4096)
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
