/* SPDX-License-Identifier: MIT */
/*
 * Products of the AVX-512 set for many columns, as in prompts and batches: some
 * rows are unpacked once and meet all columns from the nearest caches. The time
 * is that of the multiply-adds.
 */
#if defined(__x86_64__)

#include <string.h>

#include "avx512_unpack.h"

/* Columns with accumulators at a time. */
#define COLS 256
/* Groups of a row that are unpacked at a time; so many that the accumulators
   need not go to the second cache and back for each. */
#define GROUPS 4
/* Columns that meet a weight in a register. */
#define WIDE 8
/* Elements of float rows widened at a time; every type's block divides it. */
#define PIECE 512
/* Columns of a block of float accumulators in registers. */
#define WIDE_FLOAT 3

/*
 * TILE rows of a group. A vector of weights has four consecutive codes of each
 * row, one of scales or minima has one or two numbers of each.
 */
struct tile {
	__m512i w[64];
	__m512i scale[16];	/* super-block: of the sixteenths */
	__m512i min[8];		/* super-block: pairs of int16, likewise */
	__m512 d[8], m[8];	/* of the blocks; super-block: one */
};

struct work {
	/* the eight accumulators of each row, by column; or for float weights
	   the 32 partial sums of TILE_FLOAT rows */
	union {
		__m512 v[8];
		float f[TILE_FLOAT][32];
	} acc[COLS];
	union {
		struct tile tile[GROUPS];
		float row[TILE_FLOAT][PIECE];
	};
};

AVX512_BEGIN

/* ---- unpacking ---- */

/* 16 bytes of each of 16 rows: vector i gets the i-th four of each. */
KERNEL void
turn(const uint8_t *src, size_t stride, __m512i *dst)
{
	__m512i r[4], a, b, c, d;

	/* lane l of r[j] is row 4l + j */
	UNROLL
	for (int j = 0; j < 4; j++) {
		const uint8_t *p = src + (size_t)j * stride;

		r[j] = _mm512_castsi128_si512(
		    _mm_loadu_si128((const void *)p));
		r[j] = _mm512_inserti32x4(r[j],
		    _mm_loadu_si128((const void *)(p + 4 * stride)), 1);
		r[j] = _mm512_inserti32x4(r[j],
		    _mm_loadu_si128((const void *)(p + 8 * stride)), 2);
		r[j] = _mm512_inserti32x4(r[j],
		    _mm_loadu_si128((const void *)(p + 12 * stride)), 3);
	}
	a = _mm512_unpacklo_epi32(r[0], r[1]);
	b = _mm512_unpackhi_epi32(r[0], r[1]);
	c = _mm512_unpacklo_epi32(r[2], r[3]);
	d = _mm512_unpackhi_epi32(r[2], r[3]);
	dst[0] = _mm512_unpacklo_epi64(a, c);
	dst[1] = _mm512_unpackhi_epi64(a, c);
	dst[2] = _mm512_unpacklo_epi64(b, d);
	dst[3] = _mm512_unpackhi_epi64(b, d);
}

/* A group of each of TILE rows; `bytes` of each are there, the rest of a group
   of small blocks counts as zeros. */
KERNEL void
unpack_tile(uint32_t type, const uint8_t *w, size_t stride, size_t bytes,
    struct tile *t)
{
	const bool super = kernel_act_kind(type) == ACT_Q8K;
	const size_t whole = block_bytes(type) * (super ? 1 : 8);
	_Alignas(64) uint8_t q[TILE][256];
	_Alignas(64) float d[TILE][8], m[TILE][8];
	_Alignas(64) int16_t scale[TILE][16], min[TILE][16];
	_Alignas(32) uint16_t dh[TILE], mh[TILE];

	for (size_t r = 0; r < TILE; r++) {
		const uint8_t *p = w + r * stride;
		uint8_t part[8 * 34] = { 0 };
		__m256i mn;

		for (size_t i = 0; i < whole; i += 64)
			_mm_prefetch((const void *)(p + 2 * whole + i),
			    _MM_HINT_T0);
		if (bytes < whole) {
			memcpy(part, p, bytes);
			p = part;
		}
		UNROLL
		for (int z = 0; z < 4; z++)
			_mm512_store_si512(&q[r][64 * z], codes(type, p, z));
		if (super) {
			_mm256_store_si256((void *)scale[r],
			    factors(type, p, &mn));
			_mm256_store_si256((void *)min[r], mn);
			dh[r] = scale_bits(type, p);
			mh[r] = min_bits(type, p);
		} else {
			_mm256_store_ps(d[r], scales_small(type, p));
			if (has_min(type))
				_mm256_store_ps(m[r], minima_small(type, p));
		}
	}
	for (int i = 0; i < 16; i++)
		turn(&q[0][16 * i], sizeof q[0], t->w + 4 * i);
	if (super) {
		for (int i = 0; i < 2; i++) {
			turn((uint8_t *)&scale[0][8 * i], sizeof scale[0],
			    t->scale + 8 * i);
			turn((uint8_t *)&min[0][8 * i], sizeof min[0],
			    t->min + 4 * i);
			/* pairs to single ones, from the last on */
			for (int j = 3; j >= 0; j--) {
				__m512i v = t->scale[8 * i + j];

				t->scale[8 * i + 2 * j + 1] =
				    _mm512_srai_epi32(v, 16);
				t->scale[8 * i + 2 * j] = _mm512_srai_epi32(
				    _mm512_slli_epi32(v, 16), 16);
			}
		}
		t->d[0] = halves(dh);
		t->m[0] = _mm512_xor_ps(_mm512_set1_ps(-0.0f), halves(mh));
		return;
	}
	for (int i = 0; i < 2; i++) {
		turn((uint8_t *)&d[0][4 * i], sizeof d[0],
		    (__m512i *)t->d + 4 * i);
		if (has_min(type))
			turn((uint8_t *)&m[0][4 * i], sizeof m[0],
			    (__m512i *)t->m + 4 * i);
	}
}

/* ---- multiplying ---- */

/* Four activation codes, or two sums, for all rows. */
KERNEL __m512i
bytes4(const void *p)
{
	return _mm512_set1_epi32((int32_t)get_u32(p));
}

/* s[c] += the products of `fours` * 4 codes of n columns */
KERNEL void
dot_codes(int n, const __m512i *w, const int8_t *const *q, size_t at,
    int fours, __m512i *s)
{
	UNROLL
	for (int i = 0; i < fours; i++) {
		__m512i v = w[i];

		UNROLL
		for (int c = 0; c < n; c++)
			s[c] = _mm512_dpbusd_epi32(s[c], v,
			    bytes4(q[c] + at + 4 * (size_t)i));
	}
}

/* A super-block of TILE rows with n columns, x the first of them; acc is the
   accumulator of this super-block in the first column. */
KERNEL void
multiply_super(uint32_t type, int n, const struct tile *t, const uint8_t *x,
    size_t x_stride, __m512 *acc)
{
	/* types with equal scales for pairs of sixteenths */
	const int fours = type == TYPE_Q4_K || type == TYPE_Q5_K ||
	    type == TYPE_IQ4_XS ? 8 : 4;
	const struct act_q8k *a[WIDE];
	const int8_t *q[WIDE];
	__m512i isum[WIDE], msum[WIDE];

	UNROLL
	for (int c = 0; c < n; c++) {
		a[c] = (const void *)(x + (size_t)c * x_stride);
		q[c] = a[c]->q;
		isum[c] = _mm512_setzero_si512();
	}
	for (int j = 0; j < 64; j += fours) {
		__m512i s[WIDE];

		UNROLL
		for (int c = 0; c < n; c++)
			s[c] = _mm512_setzero_si512();
		dot_codes(n, t->w + j, q, 4 * (size_t)j, fours, s);
		UNROLL
		for (int c = 0; c < n; c++)
			isum[c] = _mm512_add_epi32(isum[c],
			    _mm512_mullo_epi32(s[c], t->scale[j / 4]));
	}
	UNROLL
	for (int c = 0; c < n; c++)
		msum[c] = has_min(type) ? _mm512_setzero_si512() : isum[c];
	if (has_min(type) || code_offset(type) != 0)
		for (int i = 0; i < 8; i++) {
			UNROLL
			for (int c = 0; c < n; c++)
				msum[c] = _mm512_dpwssd_epi32(msum[c],
				    t->min[i], bytes4(a[c]->sum + 2 * i));
		}
	UNROLL
	for (int c = 0; c < n; c++) {
		__m512 da = _mm512_set1_ps(a[c]->d), v = acc[8 * c];

		v = _mm512_fmadd_ps(_mm512_mul_ps(t->d[0], da),
		    _mm512_cvtepi32_ps(has_min(type) ? isum[c] : msum[c]), v);
		if (has_min(type))
			v = _mm512_fmadd_ps(_mm512_mul_ps(t->m[0], da),
			    _mm512_cvtepi32_ps(msum[c]), v);
		acc[8 * c] = v;
	}
}

/* The same for `blocks` small blocks; acc that of the first block. */
KERNEL void
multiply_small(uint32_t type, int n, const struct tile *t, size_t blocks,
    const uint8_t *x, size_t x_stride, __m512 *acc)
{
	/* the sum of 32 codes fits in 16 bits: one step for -offset * sum */
	const __m512i offset = _mm512_set1_epi32(-code_offset(type) & 0xffff);

	for (size_t b = 0; b < blocks; b++) {
		const struct act_q8 *a[WIDE];
		const int8_t *q[WIDE];
		__m512i s[WIDE];

		UNROLL
		for (int c = 0; c < n; c++) {
			a[c] = (const struct act_q8 *)(const void *)
			    (x + (size_t)c * x_stride) + b;
			q[c] = a[c]->q;
			s[c] = _mm512_setzero_si512();
			if (code_offset(type) != 0)
				s[c] = _mm512_dpwssd_epi32(s[c], offset,
				    bytes4(&a[c]->sum));
		}
		dot_codes(n, t->w + 8 * b, q, 0, 8, s);
		UNROLL
		for (int c = 0; c < n; c++) {
			__m512 da = _mm512_set1_ps(a[c]->d);
			__m512 v = acc[8 * (size_t)c + b];

			v = _mm512_fmadd_ps(_mm512_mul_ps(t->d[b], da),
			    _mm512_cvtepi32_ps(s[c]), v);
			if (has_min(type))
				v = _mm512_fmadd_ps(_mm512_mul_ps(t->m[b], da),
				    _mm512_cvtepi32_ps(bytes4(&a[c]->sum)), v);
			acc[8 * (size_t)c + b] = v;
		}
	}
}

/* n_groups groups from number g on of n columns */
KERNEL void
multiply_groups(uint32_t type, int n, const struct matmul *m,
    const struct tile *t, size_t g, size_t n_groups, const uint8_t *x,
    __m512 *acc)
{
	for (size_t i = 0; i < n_groups; i++) {
		if (kernel_act_kind(type) == ACT_Q8K)
			multiply_super(type, n, &t[i],
			    x + (g + i) * sizeof(struct act_q8k), m->x_stride,
			    acc + (g + i) % 8);
		else
			multiply_small(type, n, &t[i],
			    MIN(8, m->n_in / 32 - 8 * (g + i)),
			    x + (g + i) * 8 * sizeof(struct act_q8),
			    m->x_stride, acc);
	}
}

/* TREE(8) of vectors */
static __m512
tree_rows(const __m512 *s)
{
	return _mm512_add_ps(
	    _mm512_add_ps(_mm512_add_ps(s[0], s[4]),
	    _mm512_add_ps(s[2], s[6])),
	    _mm512_add_ps(_mm512_add_ps(s[1], s[5]),
	    _mm512_add_ps(s[3], s[7])));
}

/* One tile of rows with up to COLS columns. */
KERNEL void
tile_int(uint32_t type, struct work *k, const struct matmul *m,
    const uint8_t *w, const uint8_t *x, size_t cols, float *y)
{
	const size_t group = block_bytes(type) *
	    (kernel_act_kind(type) == ACT_Q8K ? 1 : 8);
	size_t n_groups = (m->n_in + 255) / 256;
	size_t bytes = m->n_in / (kernel_act_kind(type) == ACT_Q8K ? 256 : 32) *
	    block_bytes(type);

	memset(k->acc, 0, cols * sizeof *k->acc);
	for (size_t g = 0; g < n_groups; g += GROUPS) {
		size_t n = MIN(GROUPS, n_groups - g), c = 0;

		for (size_t i = 0; i < n; i++)
			unpack_tile(type, w + (g + i) * group, m->row_bytes,
			    bytes - (g + i) * group, &k->tile[i]);
		for (; c + WIDE <= cols; c += WIDE)
			multiply_groups(type, WIDE, m, k->tile, g, n,
			    x + c * m->x_stride, k->acc[c].v);
		for (; c + 4 <= cols; c += 4)
			multiply_groups(type, 4, m, k->tile, g, n,
			    x + c * m->x_stride, k->acc[c].v);
		for (; c < cols; c++)
			multiply_groups(type, 1, m, k->tile, g, n,
			    x + c * m->x_stride, k->acc[c].v);
	}
	for (size_t c = 0; c < cols; c++)
		_mm512_storeu_ps(y + c * m->y_stride, tree_rows(k->acc[c].v));
}

/* ---- float weights ---- */

/* n elements of TILE_FLOAT rows with `cols` columns */
KERNEL void
multiply_float(int cols, const float (*row)[PIECE], size_t n, const uint8_t *x,
    size_t x_stride, float (*acc)[32])
{
	__m512 s[WIDE_FLOAT][TILE_FLOAT][2];
	const float *xc[WIDE_FLOAT];

	UNROLL
	for (int c = 0; c < cols; c++) {
		xc[c] = (const void *)(x + (size_t)c * x_stride);
		UNROLL
		for (int r = 0; r < TILE_FLOAT; r++) {
			s[c][r][0] = _mm512_load_ps(acc[TILE_FLOAT * c + r]);
			s[c][r][1] = _mm512_load_ps(
			    acc[TILE_FLOAT * c + r] + 16);
		}
	}
	for (size_t i = 0; i < n; i += 32) {
		UNROLL
		for (int h = 0; h < 2; h++) {
			__m512 v[WIDE_FLOAT];
			size_t at = i + 16 * (size_t)h;
			__mmask16 k = lanes(n > at ? n - at : 0);

			UNROLL
			for (int c = 0; c < cols; c++)
				v[c] = _mm512_maskz_loadu_ps(k, xc[c] + at);
			UNROLL
			for (int r = 0; r < TILE_FLOAT; r++) {
				__m512 w = _mm512_load_ps(row[r] + at);

				UNROLL
				for (int c = 0; c < cols; c++)
					s[c][r][h] = _mm512_mask3_fmadd_ps(w,
					    v[c], s[c][r][h], k);
			}
		}
	}
	UNROLL
	for (int c = 0; c < cols; c++) {
		UNROLL
		for (int r = 0; r < TILE_FLOAT; r++) {
			_mm512_store_ps(acc[TILE_FLOAT * c + r], s[c][r][0]);
			_mm512_store_ps(acc[TILE_FLOAT * c + r] + 16,
			    s[c][r][1]);
		}
	}
}

static void
tile_float(struct work *k, const struct matmul *m, const uint8_t *w,
    const uint8_t *x, size_t cols, float *y)
{
	memset(k->acc, 0, cols * sizeof *k->acc);
	for (size_t i = 0; i < m->n_in; i += PIECE) {
		size_t n = MIN(PIECE, m->n_in - i), c = 0;

		for (size_t r = 0; r < TILE_FLOAT; r++)
			avx512_widen(m->type, w + r * m->row_bytes, i, n,
			    k->row[r]);
		for (; c + WIDE_FLOAT <= cols; c += WIDE_FLOAT)
			multiply_float(WIDE_FLOAT, k->row, n,
			    x + c * m->x_stride + 4 * i, m->x_stride,
			    k->acc[c].f);
		for (; c < cols; c++)
			multiply_float(1, k->row, n,
			    x + c * m->x_stride + 4 * i, m->x_stride,
			    k->acc[c].f);
	}
	for (size_t c = 0; c < cols; c++)
		for (size_t r = 0; r < TILE_FLOAT; r++)
			y[c * m->y_stride + r] = tree32(
			    _mm512_load_ps(k->acc[c].f[r]),
			    _mm512_load_ps(k->acc[c].f[r] + 16));
}

/* ---- the choice ---- */

void
avx512_tiles(const struct matmul *m, size_t r0, size_t r1)
{
	size_t step = kernel_act_kind(m->type) == ACT_F32 ? TILE_FLOAT : TILE;
	_Alignas(64) struct work k;

	for (size_t r = r0; r < r1; r += step) {
		const uint8_t *w = (const uint8_t *)m->w + r * m->row_bytes;

		for (size_t c = 0; c < m->n_cols; c += COLS) {
			size_t cols = MIN(COLS, m->n_cols - c);
			const uint8_t *x = (const uint8_t *)m->x +
			    c * m->x_stride;
			float *y = m->y + c * m->y_stride + r;

			switch (m->type) {
#define TILES(type) \
			case type: \
				tile_int(type, &k, m, w, x, cols, y); \
				break
			TILES(TYPE_Q4_0);
			TILES(TYPE_Q4_1);
			TILES(TYPE_Q5_0);
			TILES(TYPE_Q5_1);
			TILES(TYPE_Q8_0);
			TILES(TYPE_IQ4_NL);
			TILES(TYPE_MXFP4);
			TILES(TYPE_Q2_K);
			TILES(TYPE_Q3_K);
			TILES(TYPE_Q4_K);
			TILES(TYPE_Q5_K);
			TILES(TYPE_Q6_K);
			TILES(TYPE_IQ4_XS);
#undef TILES
			default:
				tile_float(&k, m, w, x, cols, y);
			}
		}
	}
}

AVX512_END

#endif
