/* SPDX-License-Identifier: MIT */
/*
 * A group of 256 weights as vectors, for avx512_row.c and avx512_tile.c. A group
 * is a super-block, or eight blocks of 32 one after the other. Layouts: the
 * GGUF type table. Every function here gets a constant type.
 */
#ifndef PICO_KERNEL_AVX512_UNPACK_H
#define PICO_KERNEL_AVX512_UNPACK_H

#include "avx512.h"

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

/* Blocks 2z and 2z + 1 of a group. */
KERNEL __m512i
codes_small(uint32_t type, const uint8_t *p, int z)
{
	const uint8_t *a = p + (size_t)(2 * z) * block_bytes(type);
	const uint8_t *b = a + block_bytes(type);
	__m512i v;

	switch (type) {
	case TYPE_Q4_0:
		return two_blocks(a + 2, b + 2);
	case TYPE_Q4_1:
		return two_blocks(a + 4, b + 4);
	case TYPE_Q5_0:
		v = two_blocks(a + 6, b + 6);
		return _mm512_mask_add_epi8(v, get_u32(a + 2) |
		    (uint64_t)get_u32(b + 2) << 32, v, _mm512_set1_epi8(16));
	case TYPE_Q5_1:
		v = two_blocks(a + 8, b + 8);
		return _mm512_mask_add_epi8(v, get_u32(a + 4) |
		    (uint64_t)get_u32(b + 4) << 32, v, _mm512_set1_epi8(16));
	case TYPE_Q8_0:
		v = _mm512_inserti64x4(_mm512_castsi256_si512(
		    _mm256_loadu_si256((const void *)(a + 2))),
		    _mm256_loadu_si256((const void *)(b + 2)), 1);
		return _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80));
	case TYPE_IQ4_NL:
		return look_up(type, two_blocks(a + 2, b + 2));
	default:
		return look_up(type, two_blocks(a + 1, b + 1));
	}
}

/* The bits of Q2_K and Q3_K: element 128h + 32k + l in byte 32h + l, from 2k */
KERNEL __m512i
pairs(const uint8_t *qs, int z)
{
	int k = z % 2 * 4;

	return _mm512_and_si512(_mm512_srlv_epi64(both_halves(qs + z / 2 * 32),
	    shift_halves(k, k + 2)), _mm512_set1_epi8(3));
}

/* The nibbles of Q4_K and Q5_K: 32 in low nibbles, then 32 in the high ones */
KERNEL __m512i
long_nibbles(const uint8_t *qs, int z)
{
	return _mm512_and_si512(_mm512_srlv_epi64(both_halves(qs + 32 * z),
	    shift_halves(0, 4)), _mm512_set1_epi8(15));
}

/* Adds v where element 64z + e of a group has its bit: bit e / 32 (counted
   over the group) of byte e % 32. */
KERNEL __m512i
add_bit(__m512i codes, const uint8_t *bits, int z, int v)
{
	__m512i which = _mm512_inserti64x4(
	    _mm512_set1_epi8((char)(1 << 2 * z)),
	    _mm256_set1_epi8((char)(2 << 2 * z)), 1);

	return _mm512_mask_add_epi8(codes,
	    _mm512_test_epi8_mask(both_halves(bits), which), codes,
	    _mm512_set1_epi8((char)v));
}

/* Q6_K: four bits here, two there */
KERNEL __m512i
six_bits(const uint8_t *p, int z)
{
	__m512i low = _mm512_loadu_si512(p + z / 2 * 64);
	__m512i high = both_halves(p + 128 + z / 2 * 32);

	if (z % 2 == 0)
		high = _mm512_sllv_epi64(high, shift_halves(4, 2));
	else {
		low = _mm512_srli_epi64(low, 4);
		high = _mm512_srlv_epi64(high, shift_halves(0, 2));
	}
	return _mm512_or_si512(
	    _mm512_and_si512(low, _mm512_set1_epi8(15)),
	    _mm512_and_si512(high, _mm512_set1_epi8(48)));
}

/* Elements 64z .. 64z + 63 of a group, unsigned, in order. */
KERNEL __m512i
codes(uint32_t type, const uint8_t *p, int z)
{
	switch (type) {
	case TYPE_Q2_K:
		return pairs(p + 16, z);
	case TYPE_Q3_K:
		return add_bit(pairs(p + 32, z), p, z, 4);
	case TYPE_Q4_K:
		return long_nibbles(p + 16, z);
	case TYPE_Q5_K:
		return add_bit(long_nibbles(p + 48, z), p + 16, z, 16);
	case TYPE_Q6_K:
		return six_bits(p, z);
	case TYPE_IQ4_XS:
		return look_up(type, two_blocks(p + 8 + 32 * z,
		    p + 24 + 32 * z));
	default:
		return codes_small(type, p, z);
	}
}

/* ---- scales ---- */

/* Bytes 0..3 and 8..11 (or 4..7 and 12..15 if `second`) as 16-bit numbers, each
   twice. */
KERNEL __m256i
twice(__m128i v, bool second)
{
	const __m256i at = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1,
	    2, -1, 2, -1, 3, -1, 3, -1, 8, -1, 8, -1, 9, -1, 9, -1,
	    10, -1, 10, -1, 11, -1, 11, -1);

	if (second)
		v = _mm_srli_epi64(v, 32);
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(v), at);
}

/* Six-bit scales and minima of Q4_K and Q5_K: bytes 0..3 and 8..11 are the
   scales, the others the minima. */
KERNEL __m128i
scales_and_minima(const uint8_t *p)
{
	uint64_t ab = get_u64(p), c = get_u32(p + 8);
	uint64_t low = ab & 0x3f3f3f3f3f3f3f3f;
	uint64_t high = ((c | c << 28) & 0x0f0f0f0f0f0f0f0f) |
	    (ab >> 2 & 0x3030303030303030);

	return _mm_set_epi64x((int64_t)high, (int64_t)low);
}

/* Q3_K: four bits here, two there; from -32 */
KERNEL __m256i
scales_q3_k(const uint8_t *p)
{
	uint64_t a = get_u64(p), c = get_u32(p + 8);
	__m128i low = _mm_set_epi64x((int64_t)(a >> 4), (int64_t)a);
	__m128i high = _mm_set_epi64x((int64_t)(c | c << 30),
	    (int64_t)(c << 4 | c << 34));

	low = _mm_and_si128(low, _mm_set1_epi8(15));
	high = _mm_and_si128(high, _mm_set1_epi8(48));
	return _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm_or_si128(low, high)),
	    _mm256_set1_epi16(32));
}

/*
 * The scales of the sixteenths of a super-block, and what their sums of
 * activations are to be multiplied with: minima, or -offset times the scale,
 * at most 128 * 32 in magnitude.
 */
KERNEL __m256i
factors(uint32_t type, const uint8_t *p, __m256i *min)
{
	__m256i scale;
	__m128i v;

	switch (type) {
	case TYPE_Q2_K:
		scale = _mm256_cvtepu8_epi16(
		    _mm_loadu_si128((const void *)p));
		*min = _mm256_srli_epi16(scale, 4);
		return _mm256_and_si256(scale, _mm256_set1_epi16(15));
	case TYPE_Q4_K:
	case TYPE_Q5_K:
		v = scales_and_minima(p + 4);
		*min = twice(v, true);
		return twice(v, false);
	case TYPE_Q3_K:
		scale = scales_q3_k(p + 96);
		break;
	case TYPE_Q6_K:
		scale = _mm256_cvtepi8_epi16(
		    _mm_loadu_si128((const void *)(p + 192)));
		break;
	default:	/* IQ4_XS: nibbles and bit pairs, from -32 */
		v = _mm_cvtsi64_si128((int64_t)(
		    _pdep_u64(get_u32(p + 4), 0x0f0f0f0f0f0f0f0f) |
		    _pdep_u64(get_u16(p + 2), 0x3030303030303030)));
		scale = _mm256_sub_epi16(twice(_mm_unpacklo_epi32(v,
		    _mm_setzero_si128()), false), _mm256_set1_epi16(32));
	}
	*min = _mm256_mullo_epi16(scale,
	    _mm256_set1_epi16((short)-code_offset(type)));
	return scale;
}

/* The f16 bits of d and of m, dmin of a block. */
KERNEL uint16_t
scale_bits(uint32_t type, const uint8_t *p)
{
	return get_u16(p + (type == TYPE_Q2_K ? 80 : type == TYPE_Q3_K ? 108 :
	    type == TYPE_Q6_K ? 208 : 0));
}

KERNEL uint16_t
min_bits(uint32_t type, const uint8_t *p)
{
	return get_u16(p + (type == TYPE_Q2_K ? 82 : 2));
}

/* The factors d of the eight blocks of a group. */
KERNEL __m256
scales_small(uint32_t type, const uint8_t *p)
{
	size_t n = block_bytes(type);
	__m256i e, big, small;

	if (type != TYPE_MXFP4)
		return halves8(_mm_setr_epi16((short)get_u16(p),
		    (short)get_u16(p + n), (short)get_u16(p + 2 * n),
		    (short)get_u16(p + 3 * n), (short)get_u16(p + 4 * n),
		    (short)get_u16(p + 5 * n), (short)get_u16(p + 6 * n),
		    (short)get_u16(p + 7 * n)));
	/* 2^(e - 128): the exponent field is e - 1, or the factor subnormal */
	e = _mm256_setr_epi32(p[0], p[n], p[2 * n], p[3 * n], p[4 * n],
	    p[5 * n], p[6 * n], p[7 * n]);
	big = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
	small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
	return _mm256_castsi256_ps(_mm256_mask_mov_epi32(big,
	    _mm256_cmplt_epi32_mask(e, _mm256_set1_epi32(2)), small));
}

KERNEL __m256
minima_small(uint32_t type, const uint8_t *p)
{
	return scales_small(type, p + 2);
}

AVX512_END

#endif
