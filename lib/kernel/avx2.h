/* SPDX-License-Identifier: MIT */
/*
 * What the files of the AVX2 set share: how blocks of weights become vectors
 * of codes and scales, the same for a row at a time (avx2_rows.c), for a tile
 * of rows (avx2_tile.c) and in small builds (avx2_small.c). The set needs AVX2,
 * FMA and F16C.
 */
#ifndef PICO_AVX2_H
#define PICO_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "../gguf/gguf.h"
#include "kernel.h"

/* What is between these two is compiled for AVX2, whatever the flags. */
#ifdef __clang__
#define AVX2_BEGIN _Pragma("clang attribute push(__attribute__((target( \
	\"avx2,fma,f16c\"))), apply_to = function)")
#define AVX2_END _Pragma("clang attribute pop")
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define AVX2_BEGIN _Pragma("GCC push_options") \
	_Pragma("GCC target(\"avx2,fma,f16c\")")
#define AVX2_END _Pragma("GCC pop_options")
#define UNROLL _Pragma("GCC unroll 16")
#endif
#ifdef PICO_SMALL	/* loops stay loops */
#undef UNROLL
#define UNROLL
#endif
/* For functions that are templates: their constant arguments, a format first
   of all, are meant to disappear. */
#define TEMPLATE static inline __attribute__((always_inline))
/* For what is large and often used: in small builds it is called. */
#ifdef PICO_SMALL
#define LARGE static inline
#else
#define LARGE TEMPLATE
#endif

/*
 * Products of the weights in rows r0..r1 with all columns. Quantized weights go
 * row by row, if rows have at most ROW_LENGTH elements and there are at most
 * ROW_COLS columns, or in tiles of rows.
 */
#define ROW_COLS 3
#define ROW_LENGTH 32768
void avx2_rows(const struct matmul *m, size_t r0, size_t r1);
void avx2_tiles(const struct matmul *m, size_t r0, size_t r1);
/* In a small build this one is there in place of both. */
void avx2_small(const struct matmul *m, size_t r0, size_t r1);
/* Weights of any other type. */
void avx2_floats(const struct matmul *m, size_t r0, size_t r1);

AVX2_BEGIN

/* ---- float vectors ---- */

/* TREE(8) of kernel.h */
TEMPLATE float
tree8(__m256 v)
{
	__m128 s = _mm_add_ps(_mm256_castps256_ps128(v),
	    _mm256_extractf128_ps(v, 1));

	s = _mm_add_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Lanes below n are all ones. */
TEMPLATE __m256i
first(size_t n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)MIN(n, 8)),
	    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first n of eight floats; the others are 0 and not touched in memory. */
LARGE __m256
load(const float *p, size_t n)
{
	return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first(n));
}

LARGE void
store(float *p, __m256 v, size_t n)
{
	if (n >= 8)
		_mm256_storeu_ps(p, v);
	else
		_mm256_maskstore_ps(p, first(n), v);
}

/* Eight halves from any address. */
TEMPLATE __m256
load_f16(const void *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

TEMPLATE __m256i
load_bytes(const void *p)
{
	return _mm256_loadu_si256(p);
}

/* Asks memory for what comes 8 KB after n bytes of weights. The hardware does
   so, too, but not far enough, and stops at every page. Past the outer caches,
   which weights do not need, that was 2 to 4 % faster than 4 KB in all. */
TEMPLATE void
prefetch(const uint8_t *p, size_t n)
{
	UNROLL
	for (size_t i = 0; i < n; i += 64)
		_mm_prefetch((const char *)p + 8192 + i, _MM_HINT_NTA);
}

/* ---- formats ---- */

/*
 * A type as its kernels see it. Codes are unsigned (code - offset is what the
 * definition calls cw), so that they can be the first factor of vpmaddubsw,
 * which multiplies unsigned with signed bytes and adds pairs into 16 bits. Some
 * formats use so much of a byte that pairs would not fit; their codes are
 * signed, and products are taken as |w| * (a with the sign of w): a is within
 * -127..127 and 2 * 128 * 127 < 2^15.
 */
struct format {
	uint32_t type;
	uint16_t size;		/* of a block, in elements: 32 or 256 */
	uint16_t bytes;		/* of a block */
	uint8_t d, m;		/* where the scales are in it */
	bool minima;		/* has a second scale, m or dmin */
	bool is_signed;
	uint8_t offset;
	/* How many results of vpmaddubsw can be added in 16 bits:
	   2 * 127 * the largest code * run < 2^15 */
	uint8_t run;
};

static const struct format
    q4_0 = { TYPE_Q4_0, 32, 18, 0, 0, false, false, 8, 8 },
    q4_1 = { TYPE_Q4_1, 32, 20, 0, 2, true, false, 0, 8 },
    q5_0 = { TYPE_Q5_0, 32, 22, 0, 0, false, false, 16, 4 },
    q5_1 = { TYPE_Q5_1, 32, 24, 0, 2, true, false, 0, 4 },
    q8_0 = { TYPE_Q8_0, 32, 34, 0, 0, false, true, 0, 1 },
    iq4_nl = { TYPE_IQ4_NL, 32, 18, 0, 0, false, true, 0, 1 },
    mxfp4 = { TYPE_MXFP4, 32, 17, 0, 0, false, false, 12, 4 },
    q2_k = { TYPE_Q2_K, 256, 84, 80, 82, true, false, 0, 4 },
    q3_k = { TYPE_Q3_K, 256, 110, 108, 0, false, false, 4, 4 },
    q4_k = { TYPE_Q4_K, 256, 144, 0, 2, true, false, 0, 8 },
    q5_k = { TYPE_Q5_K, 256, 176, 0, 2, true, false, 0, 4 },
    q6_k = { TYPE_Q6_K, 256, 210, 208, 0, false, false, 32, 2 },
    iq4_xs = { TYPE_IQ4_XS, 256, 136, 0, 0, false, true, 0, 1 };

/* ---- scales ---- */

/* Four halves; put together by integer units, which have less to do. */
TEMPLATE uint64_t
four_halves(const uint8_t *p, size_t step)
{
	return (uint64_t)get_u16(p) | (uint64_t)get_u16(p + step) << 16 |
	    (uint64_t)get_u16(p + 2 * step) << 32 |
	    (uint64_t)get_u16(p + 3 * step) << 48;
}

/* n <= 8 halves that are `step` bytes apart, widened; zeros follow. */
TEMPLATE __m256
halves(const uint8_t *p, size_t step, size_t n)
{
	uint16_t h[8] = { 0 };

	if (n == 8)
		return _mm256_cvtph_ps(_mm_set_epi64x(
		    (int64_t)four_halves(p + 4 * step, step),
		    (int64_t)four_halves(p, step)));
	for (size_t i = 0; i < n; i++)
		h[i] = get_u16(p + i * step);
	return load_f16(h);
}

/* 2^(e - 128) for n exponents likewise. */
TEMPLATE __m256
powers(const uint8_t *p, size_t step, size_t n)
{
	const __m256i one = _mm256_set1_epi32(1);
	int32_t e[8] = { 0 };
	__m256i v, normal, tiny;

	for (size_t i = 0; i < n; i++)
		e[i] = p[i * step];
	v = n < 8 ? load_bytes(e) : _mm256_setr_epi32(p[0], p[step],
	    p[2 * step], p[3 * step], p[4 * step], p[5 * step], p[6 * step],
	    p[7 * step]);
	/* the exponent field is e - 1, or the power is subnormal */
	normal = _mm256_slli_epi32(_mm256_sub_epi32(v, one), 23);
	tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), v);
	return _mm256_castsi256_ps(_mm256_blendv_epi8(tiny, normal,
	    _mm256_cmpgt_epi32(v, one)));
}

/* d of n <= 8 blocks that are `step` bytes apart; zeros follow, or what is as
   good for codes that are 0. */
TEMPLATE __m256
scales(const struct format *f, const uint8_t *p, size_t step, size_t n)
{
	return f->type == TYPE_MXFP4 ? powers(p, step, n) :
	    halves(p + f->d, step, n);
}

/* m, or -dmin, likewise. */
TEMPLATE __m256
minima(const struct format *f, const uint8_t *p, size_t step, size_t n)
{
	__m256 m = halves(p + f->m, step, n);

	return f->size == 32 ? m : _mm256_xor_ps(m, _mm256_set1_ps(-0.0f));
}

/* ---- codes of a block of 32 ---- */

/* Byte j has elements j and j + 16. */
TEMPLATE __m256i
nibbles(const uint8_t *p)
{
	__m256i v = _mm256_broadcastsi128_si256(
	    _mm_loadu_si128((const __m128i *)(const void *)p));

	v = _mm256_srlv_epi64(v, _mm256_setr_epi64x(0, 0, 4, 4));
	return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

/* Bit e of four bytes, as 16 in byte e. */
TEMPLATE __m256i
fifth_bits(const uint8_t *p)
{
	const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
	__m256i v = _mm256_set1_epi32((int)get_u32(p));

	v = _mm256_shuffle_epi8(v, _mm256_setr_epi64x(0,
	    0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
	v = _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
	return _mm256_and_si256(v, _mm256_set1_epi8(16));
}

/* The code book of IQ4_NL and IQ4_XS. */
TEMPLATE __m256i
iq4_values(__m256i nibble)
{
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_setr_epi8(
	    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69,
	    89, 113)), nibble);
}

/* E2M1, doubled, plus the offset of 12 */
TEMPLATE __m256i
fp4_values(__m256i nibble)
{
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_setr_epi8(
	    12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0)),
	    nibble);
}

TEMPLATE __m256i
codes32(const struct format *f, const uint8_t *p)
{
	switch (f->type) {
	case TYPE_Q4_0:
		return nibbles(p + 2);
	case TYPE_Q4_1:
		return nibbles(p + 4);
	case TYPE_Q5_0:
		return _mm256_or_si256(nibbles(p + 6), fifth_bits(p + 2));
	case TYPE_Q5_1:
		return _mm256_or_si256(nibbles(p + 8), fifth_bits(p + 4));
	case TYPE_IQ4_NL:
		return iq4_values(nibbles(p + 2));
	case TYPE_MXFP4:
		return fp4_values(nibbles(p + 1));
	default:	/* Q8_0 */
		return load_bytes(p + 2);
	}
}

/* ---- codes of a super-block: vector j has elements 32j..32j+31 ---- */

/* The bits of v under mask in every byte, after a shift left by n, or right by
   -n; a shift of 16 bits will do, since the mask lets pass no other byte's. */
TEMPLATE __m256i
bits(__m256i v, int n, int mask)
{
	v = n >= 0 ? _mm256_slli_epi16(v, n) : _mm256_srli_epi16(v, -n);
	return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* 32 bytes hold 64 elements: 32 in the low nibbles, then 32 in the high. */
TEMPLATE __m256i
long_nibbles(const uint8_t *p, int j)
{
	return bits(load_bytes(p + 32 * (j / 2)), -4 * (j % 2), 15);
}

/* The two bits of element 128h + 32k + l are in byte 32h + l, from bit 2k. */
TEMPLATE __m256i
pairs(const uint8_t *p, int j)
{
	return bits(load_bytes(p + 32 * (j / 4)), -2 * (j % 4), 3);
}

/* Q6_K: nibbles as in long_nibbles(), but of 64 bytes and then 64 elements;
   high bits as in pairs() */
TEMPLATE __m256i
six_bit_codes(const uint8_t *p, int j)
{
	int h = j / 4, k = j % 4;

	return _mm256_or_si256(
	    bits(load_bytes(p + 64 * h + 32 * (k % 2)), -4 * (k / 2), 15),
	    bits(load_bytes(p + 128 + 32 * h), 4 - 2 * k, 48));
}

/* Q3_K and Q5_K have one more bit of element 32j + l in bit j of byte l. */
TEMPLATE __m256i
codes256(const struct format *f, const uint8_t *p, int j)
{
	switch (f->type) {
	case TYPE_Q2_K:
		return pairs(p + 16, j);
	case TYPE_Q3_K:
		return _mm256_or_si256(pairs(p + 32, j),
		    bits(load_bytes(p), 2 - j, 4));
	case TYPE_Q4_K:
		return long_nibbles(p + 16, j);
	case TYPE_Q5_K:
		return _mm256_or_si256(long_nibbles(p + 48, j),
		    bits(load_bytes(p + 16), 4 - j, 16));
	case TYPE_Q6_K:
		return six_bit_codes(p, j);
	default:	/* IQ4_XS */
		return iq4_values(nibbles(p + 8 + 16 * j));
	}
}

/*
 * ---- scales of sub-blocks ----
 * Sixteen 16-bit numbers, one for each 16 elements: those of the even
 * sixteenths in the low half of the vector, of the odd ones in the high half,
 * as the sixteenths are in the halves of codes.
 */

TEMPLATE __m256i
even_odd(__m256i v)
{
	v = _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(_mm_setr_epi8(
	    0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)));
	return _mm256_permute4x64_epi64(v, 0xd8);
}

/* Sixteen signed bytes, widened. */
TEMPLATE __m256i
even_odd_bytes(__m128i v)
{
	return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(v, _mm_setr_epi8(
	    0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)));
}

/*
 * Q4_K and Q5_K: 8 scales and 8 minima of six bits in 12 bytes. Bytes are
 * picked into 16 bits each, the scales in the low half, the minima in the high:
 * first those with the low bits, then those with the two high bits of the last
 * four. p is the block: the 12 bytes are bytes 4 to 15.
 */
TEMPLATE __m256i
six_bits(const uint8_t *p)
{
	__m256i v = _mm256_broadcastsi128_si256(
	    _mm_loadu_si128((const __m128i *)(const void *)p));
	__m256i low = _mm256_shuffle_epi8(v, _mm256_setr_epi8(
	    4, -1, 5, -1, 6, -1, 7, -1, 12, -1, 13, -1, 14, -1, 15, -1,
	    8, -1, 9, -1, 10, -1, 11, -1, 12, -1, 13, -1, 14, -1, 15, -1));
	__m256i high = _mm256_shuffle_epi8(v, _mm256_setr_epi8(
	    -1, -1, -1, -1, -1, -1, -1, -1, 4, -1, 5, -1, 6, -1, 7, -1,
	    -1, -1, -1, -1, -1, -1, -1, -1, 8, -1, 9, -1, 10, -1, 11, -1));

	low = _mm256_srlv_epi64(low, _mm256_setr_epi64x(0, 0, 0, 4));
	low = _mm256_and_si256(low, _mm256_setr_epi64x(0x003f003f003f003f,
	    0x000f000f000f000f, 0x003f003f003f003f, 0x000f000f000f000f));
	return _mm256_or_si256(low, bits(high, -2, 0x30));
}

/* Q3_K: 16 scales, low nibbles in 8 bytes, two high bits each in 4 */
TEMPLATE __m256i
q3_scales(const uint8_t *p)
{
	uint64_t low = get_u64(p);
	__m128i v = _mm_set_epi64x((int64_t)(low >> 4), (int64_t)low);
	__m128i u = _mm_set1_epi32((int)get_u32(p + 8));

	v = _mm_and_si128(v, _mm_set1_epi8(15));
	u = _mm_srlv_epi32(u, _mm_setr_epi32(0, 2, 4, 6));
	u = _mm_slli_epi16(_mm_and_si128(u, _mm_set1_epi8(3)), 4);
	return even_odd_bytes(_mm_sub_epi8(_mm_or_si128(v, u),
	    _mm_set1_epi8(32)));
}

/* IQ4_XS: 8 scales, four bits of scale i from bit 4i, two high ones from 2i */
TEMPLATE __m256i
xs_scales(const uint8_t *p)
{
	const __m256i twice = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
	__m256i low = _mm256_set1_epi32((int)get_u32(p + 4));
	__m256i high = _mm256_set1_epi32(get_u16(p + 2));

	low = _mm256_srlv_epi32(low, _mm256_add_epi32(twice, twice));
	high = _mm256_slli_epi32(_mm256_srlv_epi32(high, twice), 4);
	low = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
	    _mm256_and_si256(high, _mm256_set1_epi32(48)));
	low = _mm256_sub_epi32(low, _mm256_set1_epi32(32));
	return _mm256_permute4x64_epi64(_mm256_packs_epi32(low, low), 0x88);
}

/*
 * Scales, and what the sums of activations are multiplied with: minima, or
 * offset * scale, which makes up for codes that are unsigned.
 */
TEMPLATE void
sub_scales(const struct format *f, const uint8_t *p, __m256i *sc, __m256i *mn)
{
	__m128i b;
	__m256i v;

	switch (f->type) {
	case TYPE_Q2_K:
		b = _mm_loadu_si128((const __m128i *)(const void *)p);
		*sc = even_odd_bytes(_mm_and_si128(b, _mm_set1_epi8(15)));
		*mn = even_odd_bytes(_mm_and_si128(_mm_srli_epi16(b, 4),
		    _mm_set1_epi8(15)));
		break;
	case TYPE_Q3_K:
		*sc = q3_scales(p + 96);
		*mn = _mm256_slli_epi16(*sc, 2);
		break;
	case TYPE_Q4_K: case TYPE_Q5_K:
		v = six_bits(p);
		*sc = _mm256_permute2x128_si256(v, v, 0x00);
		*mn = _mm256_permute2x128_si256(v, v, 0x11);
		break;
	case TYPE_Q6_K:
		*sc = even_odd_bytes(_mm_loadu_si128(
		    (const __m128i *)(const void *)(p + 192)));
		*mn = _mm256_slli_epi16(*sc, 5);
		break;
	default:	/* IQ4_XS */
		*sc = xs_scales(p);
		*mn = _mm256_setzero_si256();
	}
}

/* ---- products ---- */

/* Pairs of products of codes with activations, in 16 bits. The first is right
   for codes without a sign, too: they are less than 128. */
TEMPLATE __m256i
signed_products(__m256i w, __m256i a)
{
	return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
}

TEMPLATE __m256i
products(const struct format *f, __m256i w, __m256i a)
{
	return f->is_signed ? signed_products(w, a) :
	    _mm256_maddubs_epi16(w, a);
}

/* In each half, sums of lanes i and i + 2 of a and of b, by turns. */
TEMPLATE __m256i
add_lanes_32(__m256i a, __m256i b)
{
	return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b),
	    _mm256_unpackhi_epi32(a, b));
}

/* In each half, sums of lanes i and i + 2: two of a, then two of b. */
TEMPLATE __m256i
add_lanes_64(__m256i a, __m256i b)
{
	return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b),
	    _mm256_unpackhi_epi64(a, b));
}

/* The sums of the four lanes in each half of four vectors. */
TEMPLATE __m256i
sums4(const __m256i s[4])
{
	return add_lanes_64(add_lanes_32(s[0], s[1]), add_lanes_32(s[2], s[3]));
}

/* The sums of eight vectors. */
TEMPLATE __m256i
sums8(const __m256i s[8])
{
	__m256i a = sums4(s), b = sums4(s + 4);

	return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
	    _mm256_permute2x128_si256(a, b, 0x31));
}

AVX2_END

#endif
