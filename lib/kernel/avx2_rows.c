/* SPDX-License-Identifier: MIT */
/*
 * AVX2: products of quantized weights with few columns, as when decoding. Time
 * goes where the weights come from memory, and memory wants one stream from
 * front to back: so rows are taken one after the other, and each is read once
 * for all columns.
 */
#if defined(__x86_64__) && !defined(PICO_SMALL)
#include "avx2.h"

AVX2_BEGIN

/*
 * A column laid out as the rows want it, once for all of them. Zeros follow up
 * to a multiple of eight blocks.
 */
struct column {
	/* Codes; of folding formats first the 16 low elements of two groups of
	   32, in the halves of a vector, then the 16 high ones. */
	__m256i q[ROW_LENGTH / 32];
	/* The 32-bit sums of eight blocks of 32; of a super-block the 16-bit
	   sums, in the order of its minima. */
	__m256i sum[ROW_LENGTH / 256];
	float d[ROW_LENGTH / 32];
};

/*
 * ---- folding formats ----
 * Where 32 codes share a scale, and two products fit in 16 bits, a vector takes
 * 16 codes each of two such groups; the products of the 16 others are added to
 * its own, and each half is one group's. That halves the work that follows. (It
 * was no faster for codes of five bits.)
 */

TEMPLATE bool
folds(const struct format *f)
{
	return f->run == 8 || f->type == TYPE_MXFP4;
}

/* 16 bytes each from two places. */
TEMPLATE __m256i
two(const uint8_t *p, const uint8_t *q)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(
	    _mm_loadu_si128((const __m128i *)(const void *)p)),
	    _mm_loadu_si128((const __m128i *)(const void *)q), 1);
}

/* Products of codes x, y with activations a[0], a[1]. */
TEMPLATE __m256i
fold(const struct format *f, __m256i x, __m256i y, const __m256i a[2])
{
	return _mm256_add_epi16(products(f, x, a[0]), products(f, y, a[1]));
}

/* Partial sums of blocks of 32 at p and q. */
TEMPLATE __m256i
fold32(const struct format *f, const uint8_t *p, const uint8_t *q,
    const __m256i a[2])
{
	int at = f->bytes - 16;
	__m256i v = two(p + at, q + at);
	__m256i x = bits(v, 0, 15), y = bits(v, -4, 15);

	if (f->type == TYPE_MXFP4) {
		x = fp4_values(x);
		y = fp4_values(y);
	}
	return _mm256_madd_epi16(fold(f, x, y, a), _mm256_set1_epi16(1));
}

/* Q4_K: sub-blocks 0 and 2, 1 and 3, 4 and 6, 5 and 7 are pairs. */
TEMPLATE void
fold256(const struct format *f, const uint8_t *w, const __m256i *a,
    __m256i asum, __m256i *isum, __m256i *msum)
{
	__m256i v = six_bits(w), sc, s[4];

	*msum = _mm256_madd_epi16(v, asum);
	/* each scale twice, in the order of the pairs */
	sc = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(v, 0x44),
	    _mm256_setr_epi8(0, 1, 0, 1, 2, 3, 2, 3, 8, 9, 8, 9, 10, 11, 10, 11,
	    4, 5, 4, 5, 6, 7, 6, 7, 12, 13, 12, 13, 14, 15, 14, 15));
	UNROLL
	for (int i = 0; i < 4; i += 2) {
		const uint8_t *p = w + 16 + 32 * i;
		__m256i x = two(p, p + 32), y = two(p + 16, p + 48);

		s[i] = fold(f, bits(x, 0, 15), bits(y, 0, 15), a + 2 * i);
		s[i + 1] = fold(f, bits(x, -4, 15), bits(y, -4, 15),
		    a + 2 * i + 2);
	}
	*isum = _mm256_add_epi32(_mm256_add_epi32(
	    _mm256_madd_epi16(s[0], _mm256_shuffle_epi32(sc, 0x00)),
	    _mm256_madd_epi16(s[1], _mm256_shuffle_epi32(sc, 0x55))),
	    _mm256_add_epi32(
	    _mm256_madd_epi16(s[2], _mm256_shuffle_epi32(sc, 0xaa)),
	    _mm256_madd_epi16(s[3], _mm256_shuffle_epi32(sc, 0xff))));
}

/* ---- others ---- */

/* Partial sums of a block of 32. */
TEMPLATE __m256i
plain32(const struct format *f, const uint8_t *w, __m256i a)
{
	return _mm256_madd_epi16(products(f, codes32(f, w), a),
	    _mm256_set1_epi16(1));
}

/* Partial sums of a super-block, and of its minima. */
TEMPLATE void
plain256(const struct format *f, const uint8_t *w, const __m256i *a,
    __m256i asum, __m256i *isum, __m256i *msum)
{
	__m256i sc, mn, s = _mm256_setzero_si256(), twice[2];

	sub_scales(f, w, &sc, &mn);
	/* each scale twice, so that those of vector j of codes can be spread
	   over 128 bits with no table of bytes */
	twice[0] = _mm256_unpacklo_epi16(sc, sc);
	twice[1] = _mm256_unpackhi_epi16(sc, sc);
	UNROLL
	for (int j = 0; j < 8; j++)
		s = _mm256_add_epi32(s, _mm256_madd_epi16(
		    products(f, codes256(f, w, j), a[j]),
		    j % 4 == 0 ? _mm256_shuffle_epi32(twice[j / 4], 0x00) :
		    j % 4 == 1 ? _mm256_shuffle_epi32(twice[j / 4], 0x55) :
		    j % 4 == 2 ? _mm256_shuffle_epi32(twice[j / 4], 0xaa) :
		    _mm256_shuffle_epi32(twice[j / 4], 0xff)));
	if (f->offset != 0 || f->minima)
		*msum = _mm256_madd_epi16(mn, asum);
	*isum = f->offset != 0 ? _mm256_sub_epi32(s, *msum) : s;
}

/* ---- eight blocks ---- */

/* isum of n <= 8 blocks of 32. Of an odd number the last is taken twice; the
   second time its half meets activations that are zero. */
TEMPLATE __m256i
isums32(const struct format *f, const uint8_t *w, const __m256i *a, size_t n)
{
	__m256i s[8];

	UNROLL
	for (size_t i = 0; i < 8; i++)
		s[i] = _mm256_setzero_si256();
	if (folds(f)) {
		UNROLL
		for (size_t i = 0; i < 8; i += 2)
			if (i < n)
				s[i / 2] = fold32(f, w + i * f->bytes,
				    w + (i + (i + 1 < n)) * f->bytes, a + i);
		return _mm256_permutevar8x32_epi32(sums4(s),
		    _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	}
	UNROLL
	for (size_t i = 0; i < 8; i++)
		if (i < n)
			s[i] = plain32(f, w + i * f->bytes, a[i]);
	return sums8(s);
}

/* Adds n <= 8 blocks of 32 to the accumulators. */
TEMPLATE __m256
add32(const struct format *f, const uint8_t *w, const struct column *x,
    size_t at, size_t n, __m256 acc)
{
	__m256i isum, asum = x->sum[at / 8];
	__m256 da = _mm256_loadu_ps(x->d + at);

	prefetch(w, 8u * f->bytes);
	isum = n == 8 ? isums32(f, w, x->q + at, 8) :
	    isums32(f, w, x->q + at, n);
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

/* Adds n <= 8 super-blocks to the accumulators. */
TEMPLATE __m256
add256(const struct format *f, const uint8_t *w, const struct column *x,
    size_t at, size_t n, __m256 acc)
{
	__m256i isum[8], msum[8];
	__m256 da = _mm256_loadu_ps(x->d + at);

	for (size_t i = n; i < 8; i++)
		isum[i] = msum[i] = _mm256_setzero_si256();
	for (size_t i = 0; i < n; i++) {
		const uint8_t *p = w + i * f->bytes;
		const __m256i *a = x->q + 8 * (at + i);

		prefetch(p, f->bytes);
		if (folds(f))
			fold256(f, p, a, x->sum[at + i], &isum[i], &msum[i]);
		else
			plain256(f, p, a, x->sum[at + i], &isum[i], &msum[i]);
	}
	acc = _mm256_fmadd_ps(_mm256_mul_ps(scales(f, w, f->bytes, n), da),
	    _mm256_cvtepi32_ps(sums8(isum)), acc);
	if (f->minima)
		acc = _mm256_fmadd_ps(
		    _mm256_mul_ps(minima(f, w, f->bytes, n), da),
		    _mm256_cvtepi32_ps(sums8(msum)), acc);
	return acc;
}

/* ---- columns and rows ---- */

/* Puts the codes of groups of 32 at p and q into the halves of a[0], a[1]. */
TEMPLATE void
fold_codes(const int8_t *p, const int8_t *q, __m256i a[2])
{
	a[0] = two((const uint8_t *)p, (const uint8_t *)q);
	a[1] = two((const uint8_t *)p + 16, (const uint8_t *)q + 16);
}

TEMPLATE void
lay_out32(const struct format *f, const struct act_q8 *a, size_t n,
    struct column *x)
{
	static const struct act_q8 none;
	struct act_q8 b[8];

	for (size_t at = 0; at < n; at += 8) {
		for (size_t i = 0; i < 8; i++) {
			b[i] = at + i < n ? a[at + i] : none;
			x->d[at + i] = b[i].d;
		}
		x->sum[at / 8] = _mm256_setr_epi32(b[0].sum, b[1].sum,
		    b[2].sum, b[3].sum, b[4].sum, b[5].sum, b[6].sum, b[7].sum);
		for (size_t i = 0; i < 8; i += 2) {
			__m256i *q = x->q + at + i;

			if (folds(f)) {
				fold_codes(b[i].q, b[i + 1].q, q);
				continue;
			}
			q[0] = load_bytes(b[i].q);
			q[1] = load_bytes(b[i + 1].q);
		}
	}
}

TEMPLATE void
lay_out256(const struct format *f, const struct act_q8k *a, size_t n,
    struct column *x)
{
	const __m256i zero = _mm256_setzero_si256();

	for (size_t at = 0; at < n; at++, a++) {
		__m256i *q = x->q + 8 * at, s = load_bytes(a->sum);

		x->d[at] = a->d;
		if (!folds(f)) {
			x->sum[at] = even_odd(s);
			memcpy(q, a->q, 256);
			continue;
		}
		/* sums of 32, in the high half as the minima are */
		s = _mm256_permute4x64_epi64(_mm256_hadd_epi16(s, s), 0x80);
		x->sum[at] = _mm256_blend_epi32(zero, s, 0xf0);
		for (int i = 0; i < 4; i++) {
			const int8_t *p = a->q + i / 2 * 128 + i % 2 * 32;

			fold_codes(p, p + 64, q + 2 * i);
		}
	}
	for (size_t at = n; at % 8 != 0; at++)
		x->d[at] = 0;
}

TEMPLATE void
rows(const struct format *f, const struct matmul *m, size_t r0, size_t r1)
{
	const uint8_t *w = (const uint8_t *)m->w + r0 * m->row_bytes;
	size_t n = m->n_in / f->size;
	struct column x[ROW_COLS];

	for (size_t c = 0; c < m->n_cols; c++) {
		const void *a = (const uint8_t *)m->x + c * m->x_stride;

		if (f->size == 32)
			lay_out32(f, a, n, &x[c]);
		else
			lay_out256(f, a, n, &x[c]);
	}
	for (size_t r = r0; r < r1; r++, w += m->row_bytes) {
		for (size_t c = 0; c < m->n_cols; c++) {
			__m256 acc = _mm256_setzero_ps();

			for (size_t i = 0; i < n; i += 8)
				acc = f->size == 32 ?
				    add32(f, w + i * f->bytes, &x[c], i,
				    MIN(8, n - i), acc) :
				    add256(f, w + i * f->bytes, &x[c], i,
				    MIN(8, n - i), acc);
			m->y[c * m->y_stride + r] = tree8(acc);
		}
	}
}

#define ROWS(format) \
	static void rows_##format(const struct matmul *m, size_t r0, \
	    size_t r1) { rows(&format, m, r0, r1); }
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
