/* SPDX-License-Identifier: MIT */
/*
 * AVX2 in small builds: products of quantized weights, one function for all
 * types and any number of columns. What takes turns and tables elsewhere is
 * looked up when it runs: 6 KB in place of 100.
 */
#if defined(__x86_64__) && defined(PICO_SMALL)
#include <stddef.h>

#include "avx2.h"

/* Columns that meet what is unpacked; their part of it is a near cache's. */
#define COLS 16

AVX2_BEGIN

/* Eight blocks of a row. Each has one vector of codes, or eight. */
struct piece {
	__m256i codes[64], scale[64];	/* all signed */
	__m256i min[8];			/* see sub_scales() */
	__m256 d, m;
};

/* The codes of a super-block. Here turns are worth their bytes. */
static void
codes_of(const struct format *f, const uint8_t *p, __m256i q[8])
{
#define EACH(format) \
	_Pragma("GCC unroll 8") \
	for (int j = 0; j < 8; j++) \
		q[j] = codes256(&format, p, j); \
	break
	switch (f->type) {
	case TYPE_Q2_K:
		EACH(q2_k);
	case TYPE_Q3_K:
		EACH(q3_k);
	case TYPE_Q4_K:
		EACH(q4_k);
	case TYPE_Q5_K:
		EACH(q5_k);
	case TYPE_Q6_K:
		EACH(q6_k);
	default:
		EACH(iq4_xs);
	}
}

/* n <= 8 blocks. */
static void
unpack(const struct format *f, const uint8_t *w, size_t n, struct piece *t)
{
	const __m256i two = _mm256_set1_epi8(2);
	__m256i sc, pick;

	prefetch(w, n * f->bytes);
	t->d = scales(f, w, f->bytes, n);
	t->m = f->minima ? minima(f, w, f->bytes, n) : _mm256_setzero_ps();
	for (size_t i = 0; i < n; i++, w += f->bytes) {
		if (f->size == 32) {
			t->codes[i] = codes32(f, w);
			t->scale[i] = _mm256_set1_epi16(1);
			continue;
		}
		pick = _mm256_set1_epi16(0x0100);	/* bytes 2j, 2j + 1 */
		sub_scales(f, w, &sc, &t->min[i]);
		codes_of(f, w, t->codes + 8 * i);
		for (int j = 0; j < 8; j++, pick = _mm256_add_epi8(pick, two))
			t->scale[8 * i + j] = _mm256_shuffle_epi8(sc, pick);
	}
}

/* Adds the products of n <= 8 blocks with a column to its accumulators. */
static __m256
add(const struct format *f, const struct piece *t, const uint8_t *x, size_t n,
    __m256 acc)
{
	size_t act = f->size == 32 ? sizeof(struct act_q8) :
	    sizeof(struct act_q8k);
	__m256i zero = _mm256_setzero_si256(), there = first(n);
	__m256i at = _mm256_mullo_epi32(_mm256_set1_epi32((int)act),
	    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
	__m256 da = _mm256_mask_i32gather_ps(_mm256_castsi256_ps(zero),
	    (const float *)(const void *)x, at, _mm256_castsi256_ps(there), 1);
	__m256i s[8], ms[8], isum, msum;

	for (size_t i = 0; i < 8; i++)
		s[i] = ms[i] = zero;
	for (size_t i = 0; i < n; i++) {
		const uint8_t *q = x + i * act + offsetof(struct act_q8, q);

		for (size_t k = i * f->size / 32; k < (i + 1) * f->size / 32;
		    k++, q += 32)
			s[i] = _mm256_add_epi32(s[i], _mm256_madd_epi16(
			    signed_products(t->codes[k], load_bytes(q)),
			    t->scale[k]));
		if (f->size == 256)
			ms[i] = _mm256_madd_epi16(t->min[i],
			    even_odd(load_bytes(q)));
	}
	isum = sums8(s);
	if (f->size == 256) {
		msum = sums8(ms);
		if (f->offset != 0)
			isum = _mm256_sub_epi32(isum, msum);
	} else {
		msum = _mm256_mask_i32gather_epi32(zero, (const int *)
		    (const void *)(x + offsetof(struct act_q8, sum)), at,
		    there, 1);
		isum = _mm256_sub_epi32(isum, _mm256_mullo_epi32(msum,
		    _mm256_set1_epi32(f->offset)));
	}
	acc = _mm256_fmadd_ps(_mm256_mul_ps(t->d, da),
	    _mm256_cvtepi32_ps(isum), acc);
	if (f->minima)
		acc = _mm256_fmadd_ps(_mm256_mul_ps(t->m, da),
		    _mm256_cvtepi32_ps(msum), acc);
	return acc;
}

/* A row with n_cols <= COLS columns. */
static void
row(const struct format *f, const struct matmul *m, const uint8_t *w,
    const uint8_t *x, size_t n_cols, float *y)
{
	size_t n_blocks = m->n_in / f->size;
	size_t act = f->size == 32 ? sizeof(struct act_q8) :
	    sizeof(struct act_q8k);
	__m256 acc[COLS];
	struct piece t;

	for (size_t c = 0; c < n_cols; c++)
		acc[c] = _mm256_setzero_ps();
	for (size_t i = 0; i < n_blocks; i += 8) {
		size_t n = MIN(8, n_blocks - i);

		unpack(f, w + i * f->bytes, n, &t);
		for (size_t c = 0; c < n_cols; c++)
			acc[c] = add(f, &t, x + c * m->x_stride + i * act, n,
			    acc[c]);
	}
	for (size_t c = 0; c < n_cols; c++)
		y[c * m->y_stride] = tree8(acc[c]);
}

AVX2_END

void
avx2_small(const struct matmul *m, size_t r0, size_t r1)
{
	static const struct format *const formats[] = {
		&q4_0, &q4_1, &q5_0, &q5_1, &q8_0, &iq4_nl, &mxfp4, &q2_k,
		&q3_k, &q4_k, &q5_k, &q6_k, &iq4_xs
	};
	const struct format *f = formats[0];

	for (size_t i = 0; i < COUNT(formats); i++)
		if (formats[i]->type == m->type)
			f = formats[i];
	for (size_t c = 0; c < m->n_cols; c += COLS)
		for (size_t r = r0; r < r1; r++)
			row(f, m, (const uint8_t *)m->w + r * m->row_bytes,
			    (const uint8_t *)m->x + c * m->x_stride,
			    MIN(COLS, m->n_cols - c),
			    m->y + c * m->y_stride + r);
}

#else
typedef int nothing_here;
#endif
