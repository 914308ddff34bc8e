/* SPDX-License-Identifier: MIT */
/* The searches for x86-64 with AVX2. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>

#include "../base/base.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), \
    apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define LARGER(a, b) ((v8)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SMALLER(a, b) ((v8)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define ROOT(a) ((v8)_mm256_sqrt_ps((__m256)(a)))
#define WHOLE(a) ((i8)_mm256_cvtps_epi32((__m256)(a)))
#define HIGHEST(a) avx2_highest((__m256)(a))
#define WHICH_HIGHEST(a) avx2_which_highest((__m256)(a))
#define SUM(a) avx2_sum((__m256)(a))
#define BYTES(a, b, c, d, q) \
	avx2_bytes((__m256)(a), (__m256)(b), (__m256)(c), (__m256)(d), q)
#define TRY avx2_try
#define AVX2 static inline __attribute__((always_inline))

AVX2 float
avx2_highest(__m256 a)
{
	__m128 m = _mm_max_ps(_mm256_castps256_ps128(a),
	    _mm256_extractf128_ps(a, 1));

	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

AVX2 int
avx2_which_highest(__m256 a)
{
	__m256 most = _mm256_set1_ps(avx2_highest(a));

	return __builtin_ctz((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, most,
	    _CMP_EQ_OQ)));
}

AVX2 float
avx2_sum(__m256 a)
{
	__m128 s = _mm_add_ps(_mm256_castps256_ps128(a),
	    _mm256_extractf128_ps(a, 1));

	s = _mm_add_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* The sums of the lanes of each of eight. */
AVX2 __m256i
sum_each(const __m256i *v)
{
	__m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]),
	    _mm256_hadd_epi32(v[2], v[3]));
	__m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]),
	    _mm256_hadd_epi32(v[6], v[7]));

	return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
	    _mm256_permute2x128_si256(a, b, 0x31));
}

/* 32 codes, of which the lowest bytes are wanted. */
AVX2 void
avx2_bytes(__m256 a, __m256 b, __m256 c, __m256 d, int8_t *q)
{
	__m256i v = _mm256_packs_epi16(_mm256_packs_epi32(
	    _mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b)),
	    _mm256_packs_epi32(_mm256_cvtps_epi32(c), _mm256_cvtps_epi32(d)));

	v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6,
	    3, 7));
	_mm256_storeu_si256((__m256i *)q, v);
}

/* Eight integers, and eight more if there are, in 16 bits each; the order is no
   matter. */
AVX2 __m256i
narrow(const __m256i *v, bool two)
{
	return _mm256_packs_epi32(v[0], two ? v[1] : _mm256_setzero_si256());
}

AVX2 void
avx2_try(const void *x, const void *w, const void *wx, size_t n, int t,
    int less, int lo, int hi, void *a, void *b)
{
	__m256i least = _mm256_set1_epi16((int16_t)lo);
	__m256i most = _mm256_set1_epi16((int16_t)hi);
	__m256i xs[2], ws[2], wxs[2], sa[8], sb[8], q;
	size_t i, parts = (n + 15) / 16;
	int k;

	for (i = 0; i < parts; i++) {
		xs[i] = narrow((const __m256i *)x + 2 * i, n > 8);
		ws[i] = narrow((const __m256i *)w + 2 * i, n > 8);
		wxs[i] = narrow((const __m256i *)wx + 2 * i, n > 8);
	}
#ifdef __clang__
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 8
#endif
	for (k = 0; k < 8; k++) {
		sa[k] = sb[k] = _mm256_setzero_si256();
		for (i = 0; i < parts; i++) {
			q = _mm256_mulhrs_epi16(xs[i],
			    _mm256_set1_epi16((int16_t)(t - less * k)));
			q = _mm256_min_epi16(_mm256_max_epi16(q, least), most);
			sa[k] = _mm256_add_epi32(sa[k], _mm256_madd_epi16(q,
			    wxs[i]));
			sb[k] = _mm256_add_epi32(sb[k], _mm256_madd_epi16(q,
			    _mm256_mullo_epi16(q, ws[i])));
		}
	}
	*(__m256i *)a = sum_each(sa);
	*(__m256i *)b = sum_each(sb);
}

#include "search.h"

const struct search search_avx2[] = SEARCHES("avx2");

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
