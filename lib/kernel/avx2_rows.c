/* SPDX-License-Identifier: MIT */
/*
 * AVX2: products of quantized weights with few columns, as when decoding. Time
 * goes where the weights come from memory, and memory wants one stream from
 * front to back: so rows are taken one after the other, and each is read once
 * for all columns.
 */
#if defined(__x86_64__)
#include "avx2.h"

/* Bytes that weights are asked for ahead. */
#define AHEAD 4096

AVX2_BEGIN

/* What is needed of a column's blocks besides the codes, gathered once for all
   rows. Zeros follow up to a multiple of eight blocks. */
struct sides {
	float d[ROW_LENGTH / 32];
	/* the 32-bit sums of eight blocks of 32, or the 16-bit sums of a
	   super-block, those of even sixteenths first */
	__m256i sum[ROW_LENGTH / 256];
};

/* ---- eight blocks ---- */

/* The sums of eight vectors. */
TEMPLATE __m256i
sums(const __m256i s[8])
{
	__m256i t[4], u[2];

	UNROLL
	for (int i = 0; i < 4; i++)
		t[i] = _mm256_add_epi32(
		    _mm256_unpacklo_epi32(s[2 * i], s[2 * i + 1]),
		    _mm256_unpackhi_epi32(s[2 * i], s[2 * i + 1]));
	UNROLL
	for (int i = 0; i < 2; i++)
		u[i] = _mm256_add_epi32(
		    _mm256_unpacklo_epi64(t[2 * i], t[2 * i + 1]),
		    _mm256_unpackhi_epi64(t[2 * i], t[2 * i + 1]));
	return _mm256_add_epi32(_mm256_permute2x128_si256(u[0], u[1], 0x20),
	    _mm256_permute2x128_si256(u[0], u[1], 0x31));
}

TEMPLATE void
prefetch(const uint8_t *p, size_t n)
{
	UNROLL
	for (size_t i = 0; i < n; i += 64)
		_mm_prefetch((const char *)p + AHEAD + i, _MM_HINT_T0);
}

/* Partial sums of a block of 32. */
TEMPLATE __m256i
dot32(const struct format *f, const uint8_t *w, const struct act_q8 *a)
{
	return _mm256_madd_epi16(products(f, codes32(f, w), load_bytes(a->q)),
	    _mm256_set1_epi16(1));
}

/* Adds n <= 8 blocks of 32, the first a multiple of eight, to the
   accumulators. */
TEMPLATE __m256
add32(const struct format *f, const uint8_t *w, const struct act_q8 *a,
    const float *d, __m256i asum, size_t n, __m256 acc)
{
	__m256i s[8], isum;
	__m256 da = _mm256_loadu_ps(d);

	prefetch(w, 8u * f->bytes);
	if (n == 8) {
		UNROLL
		for (int i = 0; i < 8; i++)
			s[i] = dot32(f, w + i * f->bytes, &a[i]);
		isum = sums(s);
	} else {
		__m256i few[8] = { _mm256_setzero_si256() };

		for (size_t i = 0; i < n; i++)
			few[i] = dot32(f, w + i * f->bytes, &a[i]);
		isum = sums(few);
	}
	if (f->offset != 0)
		isum = _mm256_sub_epi32(isum, _mm256_mullo_epi32(asum,
		    _mm256_set1_epi32(f->offset)));
	acc = _mm256_fmadd_ps(_mm256_mul_ps(scales(f, w, f->bytes, n), da),
	    _mm256_cvtepi32_ps(isum), acc);
	if (f->minima)
		acc = _mm256_fmadd_ps(
		    _mm256_mul_ps(minima(f, w, f->bytes, n), da),
		    _mm256_cvtepi32_ps(asum), acc);
	return acc;
}

/* Partial sums of a super-block, and of its minima. */
TEMPLATE void
dot256(const struct format *f, const uint8_t *w, const int8_t *q, __m256i asum,
    __m256i *isum, __m256i *msum)
{
	__m256i sc, mn, s = _mm256_setzero_si256(), two[2];

	sub_scales(f, w, &sc, &mn);
	/* each scale twice, so that those of vector j of codes can be spread
	   over 128 bits with no table of bytes */
	two[0] = _mm256_unpacklo_epi16(sc, sc);
	two[1] = _mm256_unpackhi_epi16(sc, sc);
	UNROLL
	for (int j = 0; j < 8; j++)
		s = _mm256_add_epi32(s, _mm256_madd_epi16(products(f,
		    codes256(f, w, j), load_bytes(q + 32 * j)),
		    j % 4 == 0 ? _mm256_shuffle_epi32(two[j / 4], 0x00) :
		    j % 4 == 1 ? _mm256_shuffle_epi32(two[j / 4], 0x55) :
		    j % 4 == 2 ? _mm256_shuffle_epi32(two[j / 4], 0xaa) :
		    _mm256_shuffle_epi32(two[j / 4], 0xff)));
	if (f->offset != 0 || f->minima)
		*msum = _mm256_madd_epi16(mn, asum);
	*isum = f->offset != 0 ? _mm256_sub_epi32(s, *msum) : s;
}

/* Adds n <= 8 super-blocks to the accumulators. */
TEMPLATE __m256
add256(const struct format *f, const uint8_t *w, const struct act_q8k *a,
    const float *d, const __m256i *asum, size_t n, __m256 acc)
{
	__m256i isum[8], msum[8];
	__m256 da = _mm256_loadu_ps(d);

	for (size_t i = n; i < 8; i++)
		isum[i] = msum[i] = _mm256_setzero_si256();
	for (size_t i = 0; i < n; i++) {
		prefetch(w + i * f->bytes, f->bytes);
		dot256(f, w + i * f->bytes, a[i].q, asum[i], &isum[i],
		    &msum[i]);
	}
	acc = _mm256_fmadd_ps(_mm256_mul_ps(scales(f, w, f->bytes, n), da),
	    _mm256_cvtepi32_ps(sums(isum)), acc);
	if (f->minima)
		acc = _mm256_fmadd_ps(
		    _mm256_mul_ps(minima(f, w, f->bytes, n), da),
		    _mm256_cvtepi32_ps(sums(msum)), acc);
	return acc;
}

/* ---- rows ---- */

TEMPLATE void
gather(const struct format *f, const void *x, size_t n, struct sides *s)
{
	const struct act_q8 *a = x;
	const struct act_q8k *b = x;

	memset(s->sum, 0, (n + 7) / 8 * sizeof *s->sum);
	for (size_t i = 0; i < n; i++) {
		s->d[i] = f->size == 32 ? a[i].d : b[i].d;
		if (f->size == 32)
			memcpy((int32_t *)s->sum + i, &a[i].sum,
			    sizeof a[i].sum);
		else
			s->sum[i] = even_odd(load_bytes(b[i].sum));
	}
	for (size_t i = n; i % 8 != 0; i++)
		s->d[i] = 0;
}

/* A row with one column. */
TEMPLATE float
dot(const struct format *f, const uint8_t *w, const void *x, size_t n,
    const struct sides *s)
{
	const struct act_q8 *a = x;
	const struct act_q8k *b = x;
	__m256 acc = _mm256_setzero_ps();

	for (size_t i = 0; i < n; i += 8)
		acc = f->size == 32 ?
		    add32(f, w + i * f->bytes, a + i, s->d + i, s->sum[i / 8],
		    MIN(8, n - i), acc) :
		    add256(f, w + i * f->bytes, b + i, s->d + i, s->sum + i,
		    MIN(8, n - i), acc);
	return tree8(acc);
}

TEMPLATE void
rows(const struct format *f, const struct matmul *m, size_t r0, size_t r1)
{
	const uint8_t *w = (const uint8_t *)m->w + r0 * m->row_bytes;
	const uint8_t *x = m->x;
	size_t n = m->n_in / f->size;
	struct sides s[ROW_COLS];

	for (size_t c = 0; c < m->n_cols; c++)
		gather(f, x + c * m->x_stride, n, &s[c]);
	for (size_t r = r0; r < r1; r++, w += m->row_bytes)
		for (size_t c = 0; c < m->n_cols; c++)
			m->y[c * m->y_stride + r] =
			    dot(f, w, x + c * m->x_stride, n, &s[c]);
}

#define ROWS(format) \
	static void rows_##format(const struct matmul *m, size_t r0, size_t r1) \
	{ rows(&format, m, r0, r1); }
ROWS(q4_0)
ROWS(q4_1)
ROWS(q5_0)
ROWS(q5_1)
ROWS(q8_0)
ROWS(iq4_nl)
ROWS(mxfp4)
ROWS(q2_k)
ROWS(q3_k)
ROWS(q4_k)
ROWS(q5_k)
ROWS(q6_k)
ROWS(iq4_xs)

AVX2_END

void
avx2_rows(const struct matmul *m, size_t r0, size_t r1)
{
	static const struct {
		uint32_t type;
		void (*rows)(const struct matmul *m, size_t r0, size_t r1);
	} table[] = {
		{ TYPE_Q4_0, rows_q4_0 }, { TYPE_Q4_1, rows_q4_1 },
		{ TYPE_Q5_0, rows_q5_0 }, { TYPE_Q5_1, rows_q5_1 },
		{ TYPE_Q8_0, rows_q8_0 }, { TYPE_IQ4_NL, rows_iq4_nl },
		{ TYPE_MXFP4, rows_mxfp4 }, { TYPE_Q2_K, rows_q2_k },
		{ TYPE_Q3_K, rows_q3_k }, { TYPE_Q4_K, rows_q4_k },
		{ TYPE_Q5_K, rows_q5_k }, { TYPE_Q6_K, rows_q6_k },
		{ TYPE_IQ4_XS, rows_iq4_xs }
	};

	for (size_t i = 0; i < COUNT(table); i++)
		if (table[i].type == m->type)
			table[i].rows(m, r0, r1);
}

#else
typedef int nothing_here;
#endif
