/* SPDX-License-Identifier: MIT */
/*
 * A group of 256 weights as vectors: what avx512_row.c and avx512_turn.h share. A
 * group is a super-block, or eight blocks of 32 one after the other. Layouts: the
 * GGUF type table. Every function here gets a constant type.
 */
#ifndef PICO_KERNEL_AVX512_UNPACK_H
#define PICO_KERNEL_AVX512_UNPACK_H

#include "avx512.h"

/* What there are kernels for. */
#define SMALL_TYPES(X) \
	X(TYPE_Q4_0) X(TYPE_Q4_1) X(TYPE_Q5_0) X(TYPE_Q5_1) X(TYPE_Q8_0) \
	X(TYPE_IQ4_NL) X(TYPE_MXFP4)
#define SUPER_TYPES(X) \
	X(TYPE_Q2_K) X(TYPE_Q3_K) X(TYPE_Q4_K) X(TYPE_Q5_K) X(TYPE_Q6_K) \
	X(TYPE_IQ4_XS)

AVX512_BEGIN

/* Bytes of a block. */
KERNEL size_t
block_bytes(uint32_t type)
{
	switch (type) {
	case TYPE_Q4_0: return 18;
	case TYPE_Q4_1: return 20;
	case TYPE_Q5_0: return 22;
	case TYPE_Q5_1: return 24;
	case TYPE_Q8_0: return 34;
	case TYPE_IQ4_NL: return 18;
	case TYPE_MXFP4: return 17;
	case TYPE_Q2_K: return 84;
	case TYPE_Q3_K: return 110;
	case TYPE_Q4_K: return 144;
	case TYPE_Q5_K: return 176;
	case TYPE_Q6_K: return 210;
	default: return 136;	/* IQ4_XS */
	}
}

/* The type has minima, which meet the sums of the activations. */
KERNEL bool
has_min(uint32_t type)
{
	return type == TYPE_Q4_1 || type == TYPE_Q5_1 || type == TYPE_Q2_K ||
	    type == TYPE_Q4_K || type == TYPE_Q5_K;
}

/*
 * VPDPBUSD multiplies unsigned by signed bytes. So codes are unpacked with an
 * offset that makes them unsigned; what that adds to a sum of products is
 * offset times the sum of the activations, and taken off again in integers.
 */
KERNEL int
code_offset(uint32_t type)
{
	switch (type) {
	case TYPE_Q4_0: return 8;
	case TYPE_Q5_0: return 16;
	case TYPE_Q8_0: case TYPE_IQ4_NL: case TYPE_IQ4_XS: return 128;
	case TYPE_MXFP4: return 12;
	case TYPE_Q3_K: return 4;
	case TYPE_Q6_K: return 32;
	default: return 0;
	}
}

/* ---- codes ---- */

/* Low nibbles of the lower half, high ones of the upper half, likewise: shift
   counts of the 64-bit lanes. */
KERNEL __m512i
shift_halves(int low, int high)
{
	return _mm512_set_epi64(high, high, high, high, low, low, low, low);
}

/* 32 bytes in both halves of a vector */
KERNEL __m512i
both_halves(const uint8_t *p)
{
	return _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)p));
}

/* The nibbles of two blocks of 32: byte j has elements j and j + 16. */
KERNEL __m512i
two_blocks(const uint8_t *a, const uint8_t *b)
{
	const __m512i shift = _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0);
	__m512i v = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)a));

	v = _mm512_mask_broadcast_i32x4(v, 0xff00,
	    _mm_loadu_si128((const void *)b));
	return _mm512_and_si512(_mm512_srlv_epi64(v, shift),
	    _mm512_set1_epi8(15));
}

/* Code books, with their offset. */
KERNEL __m512i
look_up(uint32_t type, __m512i codes)
{
	const __m128i iq4 = _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118,
	    (char)129, (char)141, (char)153, (char)166, (char)181, (char)197,
	    (char)217, (char)241);
	const __m128i fp4 = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24,
	    12, 11, 10, 9, 8, 6, 4, 0);

	return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(
	    type == TYPE_MXFP4 ? fp4 : iq4), codes);
}

/* Blocks 2z and 2z + 1 of a group, of types that have 32 bytes or a fifth bit. */
KERNEL __m512i
codes_small(uint32_t type, const uint8_t *p, int z)
{
	const uint8_t *a = p + (size_t)(2 * z) * block_bytes(type);
	const uint8_t *b = a + block_bytes(type);
	const size_t m = has_min(type) ? 2 : 0;
	__m512i v;

	if (type == TYPE_Q8_0) {
		v = _mm512_inserti64x4(_mm512_castsi256_si512(
		    _mm256_loadu_si256((const void *)(a + 2))),
		    _mm256_loadu_si256((const void *)(b + 2)), 1);
		return _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80));
	}
	v = two_blocks(a + m + 6, b + m + 6);
	return _mm512_mask_add_epi8(v, get_u32(a + m + 2) |
	    (uint64_t)get_u32(b + m + 2) << 32, v, _mm512_set1_epi8(16));
}

/* (a & mask) | b, bytewise */
KERNEL __m512i
and_or(__m512i a, int mask, __m512i b)
{
	return _mm512_ternarylogic_epi64(a, _mm512_set1_epi8((char)mask), b,
	    0xea);
}

/* All bits of the lower half moved up by n, of the upper half by n + m; down, if
   that is negative. Bits come over from other bytes. */
KERNEL __m512i
move_bits(__m512i v, int n, int m)
{
	return _mm512_rolv_epi64(v, shift_halves(n & 63, (n + m) & 63));
}

/* Q6_K: four bits here, two there */
KERNEL __m512i
six_bits(const uint8_t *p, int z)
{
	__m512i low = _mm512_loadu_si512(p + z / 2 * 64);
	__m512i high = both_halves(p + 128 + z / 2 * 32);

	high = move_bits(high, z % 2 == 0 ? 4 : 0, -2);
	if (z % 2 == 1)
		low = _mm512_srli_epi64(low, 4);
	return and_or(high, 48, _mm512_and_si512(low, _mm512_set1_epi8(15)));
}

/* Elements 64z .. 64z + 63 of a group, unsigned, in order: of Q6_K, or small
   blocks as above. */
KERNEL __m512i
codes(uint32_t type, const uint8_t *p, int z)
{
	return type == TYPE_Q6_K ? six_bits(p, z) : codes_small(type, p, z);
}

/* ---- scales ---- */

/* 16 bytes, anywhere */
KERNEL __m128i
load128(const uint8_t *p)
{
	return _mm_loadu_si128((const void *)p);
}

KERNEL __m512i
two_halves(__m256i low, __m256i high)
{
	return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* 16 bytes from each of four places */
KERNEL __m512i
four_lanes(const uint8_t *a, const uint8_t *b, const uint8_t *c,
    const uint8_t *d)
{
	__m512i v = _mm512_castsi128_si512(load128(a));

	v = _mm512_mask_broadcast_i32x4(v, 0x00f0, load128(b));
	v = _mm512_mask_broadcast_i32x4(v, 0x0f00, load128(c));
	return _mm512_mask_broadcast_i32x4(v, 0xf000, load128(d));
}

/*
 * Q4_K, Q5_K: bytes a[4], b[4], c[4] after d and dmin. Scales 0..3 are the low
 * six bits of a; 4..7 the low nibbles of c and above them the upper two bits of
 * a. Minima likewise, from b and the high nibbles of c. Takes the first 16 bytes
 * of four super-blocks, and gives eight bytes of scales and eight of minima each.
 */
KERNEL __m512i
four_factors_q4_k(__m512i v)
{
	const __m512i low_at = _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 6, 7,
	    12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
	const __m512i high_at = _mm512_broadcast_i32x4(_mm_setr_epi8(-1, -1, -1,
	    -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
	const __m512i shift = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0,
	    4));
	const __m512i mask = _mm512_broadcast_i32x4(_mm_setr_epi32(0x3f3f3f3f,
	    0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
	__m512i high = _mm512_srli_epi32(_mm512_shuffle_epi8(v, high_at), 2);

	v = _mm512_srlv_epi32(_mm512_shuffle_epi8(v, low_at), shift);
	return and_or(high, 48, _mm512_and_si512(v, mask));
}

/*
 * Q3_K: nibbles of eight bytes, first the low ones, and two bits of one of four
 * bytes, from bit 0, 2, 4 and 6 on; from -32. Takes the 16 bytes that end with
 * these twelve and two more, of four super-blocks, and gives 16 scales each.
 */
KERNEL __m512i
four_factors_q3_k(__m512i v)
{
	const __m512i low_at = _mm512_broadcast_i32x4(_mm_setr_epi8(2, 3, 4, 5,
	    6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9));
	const __m512i high_at = _mm512_broadcast_i32x4(_mm_setr_epi8(10, 11,
	    12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13));
	const __m512i shift = _mm512_broadcast_i32x4(_mm_setr_epi32(4, 2, 0,
	    30));
	__m512i high = _mm512_rolv_epi32(_mm512_shuffle_epi8(v, high_at),
	    shift);

	v = _mm512_srlv_epi64(_mm512_shuffle_epi8(v, low_at),
	    _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0));
	v = and_or(high, 48, _mm512_and_si512(v, _mm512_set1_epi8(15)));
	return _mm512_sub_epi8(v, _mm512_set1_epi8(32));
}
/* Two bytes before the scales: not beyond the end of the block. */
#define FACTORS_Q3_K 94

/* IQ4_XS: nibbles, and two bits each of 16; from -32. Each scale twice. */
KERNEL __m256i
words_iq4_xs(const uint8_t *p)
{
	const __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	__m256i low = _mm256_srlv_epi32(_mm256_set1_epi32((int)get_u32(p + 4)),
	    _mm256_slli_epi32(i, 2));
	__m256i high = _mm256_rolv_epi32(_mm256_set1_epi32(get_u16(p + 2)),
	    _mm256_sub_epi32(_mm256_set1_epi32(4), _mm256_slli_epi32(i, 1)));

	low = _mm256_ternarylogic_epi64(high, _mm256_set1_epi32(48),
	    _mm256_and_si256(low, _mm256_set1_epi32(15)), 0xea);
	low = _mm256_sub_epi32(low, _mm256_set1_epi32(32));
	return _mm256_mask_blend_epi16(0xaaaa, low, _mm256_slli_epi32(low, 16));
}

/* The scales of the sixteenths of a super-block of Q2_K, Q6_K or IQ4_XS, as words;
   in *min the minima, if the type has them. */
KERNEL __m256i
factors(uint32_t type, const uint8_t *p, __m256i *min)
{
	__m256i v;

	switch (type) {
	case TYPE_Q2_K:
		v = _mm256_cvtepu8_epi16(load128(p));
		*min = _mm256_srli_epi16(v, 4);
		return _mm256_and_si256(v, _mm256_set1_epi16(15));
	case TYPE_Q6_K:
		return _mm256_cvtepi8_epi16(load128(p + 192));
	default:
		return words_iq4_xs(p);
	}
}

/* Where the halves d and dmin of a super-block are, side by side. */
KERNEL size_t
scale_at(uint32_t type)
{
	return type == TYPE_Q2_K ? 80 : type == TYPE_Q3_K ? 108 :
	    type == TYPE_Q6_K ? 208 : 0;
}

/* 32 bits from each of eight places, `at` bytes after p[i]. */
KERNEL __m256i
eight_pairs(const uint8_t *const p[8], size_t at)
{
	__m256i v = _mm256_set1_epi32((int)get_u32(p[0] + at));

#define TAKE(i) \
	v = _mm256_blend_epi32(v, \
	    _mm256_set1_epi32((int)get_u32(p[i] + at)), 1 << (i))
	TAKE(1); TAKE(2); TAKE(3); TAKE(4); TAKE(5); TAKE(6); TAKE(7);
#undef TAKE
	return v;
}

/* The same where four of them are within 64 bytes. */
KERNEL __m128i
near_halves(const uint8_t *p, size_t step)
{
	const short k = (short)(step / 2);
	const __m512i at = _mm512_castsi128_si512(_mm_setr_epi16(0, k, 2 * k,
	    3 * k, 32, 32 + k, 32 + 2 * k, 32 + 3 * k));

	return _mm512_castsi512_si128(_mm512_permutex2var_epi16(
	    _mm512_loadu_si512(p), at, _mm512_loadu_si512(p + 4 * step)));
}

/* The factors d of a group of small blocks, and if the type has them the m. */
KERNEL __m256
scales8(uint32_t type, const uint8_t *w, __m256 *m)
{
	const size_t step = block_bytes(type);
	const uint8_t *p[8];
	__m256i v;

	if (step == 18 || step == 20) {
		if (has_min(type))
			*m = halves8(near_halves(w + 2, step));
		return halves8(near_halves(w, step));
	}
	UNROLL
	for (size_t i = 0; i < 8; i++)
		p[i] = w + i * step;
	v = eight_pairs(p, 0);
	if (has_min(type))
		*m = halves8(_mm256_cvtepi32_epi16(_mm256_srli_epi32(v, 16)));
	return halves8(_mm256_cvtepi32_epi16(v));
}

/* The factors of the eight blocks of a group of small ones. */
KERNEL __m256
scales_small(uint32_t type, const uint8_t *p, __m256 *m)
{
	const size_t n = block_bytes(type);
	__m256i e, big, small;

	if (type != TYPE_MXFP4)
		return scales8(type, p, m);
	/* 2^(e - 128): the exponent field is e - 1, or the factor subnormal */
	e = _mm256_setr_epi32(p[0], p[n], p[2 * n], p[3 * n], p[4 * n],
	    p[5 * n], p[6 * n], p[7 * n]);
	big = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
	small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
	return _mm256_castsi256_ps(_mm256_mask_mov_epi32(big,
	    _mm256_cmplt_epi32_mask(e, _mm256_set1_epi32(2)), small));
}

AVX512_END

#endif
