/* SPDX-License-Identifier: MIT */
/*
 * What the files of the AVX-512 set share. Its code needs F, BW, VL, DQ and
 * VNNI, and FMA and BMI2, which every such machine has; cpu_has() asks for
 * all of them. PREFETCHW does nothing where it is not known.
 */
#ifndef PICO_KERNEL_AVX512_H
#define PICO_KERNEL_AVX512_H

#include <immintrin.h>

#include "../gguf/gguf.h"
#include "kernel.h"

/* Functions between these two lines may use the instructions. */
#ifdef __clang__
#define AVX512_BEGIN _Pragma("clang attribute push(__attribute__((target(\"avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,bmi2,prfchw\"))), apply_to = function)")
#define AVX512_END _Pragma("clang attribute pop")
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define AVX512_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,bmi2,prfchw\")")
#define AVX512_END _Pragma("GCC pop_options")
/* The loop below has a small constant number of turns: no loop, please, so
   that an array of vectors becomes registers. */
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* The vector is in a register now: keeps the compiler from reading it again and
   again, and from putting off what makes it. */
#define IN_REGISTER(v) __asm__("" : "+v"(v))

/* For functions that get a constant type or count, of which everything else
   depends: each call becomes a kernel of its own. */
#define KERNEL static inline __attribute__((always_inline))

/*
 * Products. Weights are taken in groups of 256: a super-block, or eight blocks
 * of 32. avx512_row.c goes along one row at a time, for few columns: memory
 * wants one stream, front to back. avx512_tile.c unpacks some rows once and
 * multiplies them with many columns.
 */
void avx512_rows(const struct matmul *m, size_t r0, size_t r1);
/* Rows of a whole number of tiles. */
void avx512_tiles(const struct matmul *m, size_t r0, size_t r1);
#define TILE 16	/* rows */
#define PAGE 4096	/* bytes of memory */

/* n <= 512 weights from element `at` of a row on, as float32; whole blocks */
void avx512_widen(uint32_t type, const uint8_t *w, size_t at, size_t n,
    float *dst);

AVX512_BEGIN

/* The first n lanes of 16, or all. */
static inline __mmask16
lanes(size_t n)
{
	return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* 16 halves. VCVTPH2PS is exact, for subnormals too. */
static inline __m512
halves(const void *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

/* 8 halves in the low 16 bytes of a vector */
static inline __m256
halves8(__m128i h)
{
	return _mm512_castps512_ps256(
	    _mm512_cvtph_ps(_mm256_zextsi128_si256(h)));
}

/* 16 bfloat16: the upper halves of floats */
static inline __m512
bfloats(__m256i h)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(
	    _mm512_cvtepu16_epi32(h), 16));
}

/* TREE(8) */
static inline float
tree8(__m256 v)
{
	__m128 s = _mm_add_ps(_mm256_castps256_ps128(v),
	    _mm256_extractf128_ps(v, 1));

	s = _mm_add_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* TREE(32) of partials 0..15 and 16..31 */
static inline float
tree32(__m512 lo, __m512 hi)
{
	__m512 s = _mm512_add_ps(lo, hi);

	return tree8(_mm256_add_ps(_mm512_castps512_ps256(s),
	    _mm512_extractf32x8_ps(s, 1)));
}

/* TREE(16) of 16 vectors at once: lane i gets that of s[i]. Each step adds upper
   halves to lower ones, of two vectors that become one. */
KERNEL __m512
tree16(__m512 *s)
{
	const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11,
	    4, 6, 5, 7, 12, 14, 13, 15);

	UNROLL
	for (int i = 0; i < 8; i++)	/* halves of 8 lanes */
		s[i] = _mm512_add_ps(
		    _mm512_shuffle_f32x4(s[i], s[i + 8], 0x44),
		    _mm512_shuffle_f32x4(s[i], s[i + 8], 0xee));
	UNROLL
	for (int i = 0; i < 4; i++)	/* of 4 */
		s[i] = _mm512_add_ps(
		    _mm512_shuffle_f32x4(s[i], s[i + 4], 0x88),
		    _mm512_shuffle_f32x4(s[i], s[i + 4], 0xdd));
	UNROLL
	for (int i = 0; i < 2; i++)	/* of 2 */
		s[i] = _mm512_add_ps(
		    _mm512_shuffle_ps(s[i], s[i + 2], 0x44),
		    _mm512_shuffle_ps(s[i], s[i + 2], 0xee));
	s[0] = _mm512_add_ps(_mm512_shuffle_ps(s[0], s[1], 0x88),
	    _mm512_shuffle_ps(s[0], s[1], 0xdd));
	return _mm512_permutexvar_ps(order, s[0]);
}

AVX512_END

#endif
