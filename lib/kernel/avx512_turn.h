/* SPDX-License-Identifier: MIT */
/*
 * Unpacking for avx512_tile.c: a group of TILE rows, turned so that lanes of a
 * vector are rows. Bytes are turned as the file has them, and then made codes, for
 * many rows at once.
 */
#ifndef PICO_KERNEL_AVX512_TURN_H
#define PICO_KERNEL_AVX512_TURN_H

#include <string.h>

#include "avx512_unpack.h"

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

AVX512_BEGIN

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

/* 16 bytes of four rows, those of r[j] in by_fours() */
KERNEL __m512i
load_rows(const uint8_t *src, size_t stride, size_t j)
{
	src += j * stride;
	return four_lanes(src, src + 4 * stride, src + 8 * stride,
	    src + 12 * stride);
}

/* 16 bytes of each of 16 rows: dst[i] gets the i-th four of each. */
KERNEL void
turn(const uint8_t *src, size_t stride, __m512i *dst)
{
	__m512i r[4];

	UNROLL
	for (size_t j = 0; j < 4; j++)
		r[j] = load_rows(src, stride, j);
	by_fours(r, dst);
}

/* 32 bytes from each of two places */
KERNEL __m512i
two_places(const uint8_t *a, const uint8_t *b)
{
	return two_halves(_mm256_loadu_si256((const void *)a),
	    _mm256_loadu_si256((const void *)b));
}

/* 32 bytes of each of 16 rows, likewise. */
KERNEL void
turn_32(const uint8_t *src, size_t stride, __m512i *lower, __m512i *upper)
{
	UNROLL
	for (size_t j = 0; j < 4; j++, src += stride) {
		__m512i a = two_places(src, src + 4 * stride);
		__m512i b = two_places(src + 8 * stride, src + 12 * stride);

		lower[j] = _mm512_shuffle_i32x4(a, b, 0x88);
		upper[j] = _mm512_shuffle_i32x4(a, b, 0xdd);
	}
	by_fours(lower, lower);
	by_fours(upper, upper);
}

/* ---- codes ---- */

/*
 * They come in eight pieces: 16 bytes of each row, of which four vectors of codes
 * are made, and four more. A piece of small blocks is a block.
 */
struct piece {
	__m512i r[4], more[4];	/* turned; of some types further bytes */
};

/* Where the bytes of piece j are in a group. */
KERNEL size_t
bytes_at(uint32_t type, size_t j)
{
	switch (type) {
	case TYPE_Q2_K: return 16 + j / 2 * 16;
	case TYPE_Q3_K: return 32 + j / 2 * 16;
	case TYPE_Q4_K: return 16 + j * 16;
	case TYPE_Q5_K: return 48 + j * 16;
	case TYPE_Q6_K: return j * 16;
	case TYPE_IQ4_XS: return 8 + j * 16;
	case TYPE_Q4_1: return j * 20 + 4;
	case TYPE_Q5_0: return j * 22 + 6;
	case TYPE_Q5_1: return j * 24 + 8;
	case TYPE_MXFP4: return j * 17 + 1;
	default: return j * block_bytes(type) + 2;
	}
}

KERNEL bool
has_more(uint32_t type)
{
	return type == TYPE_Q3_K || type == TYPE_Q5_K || type == TYPE_Q6_K ||
	    type == TYPE_Q5_0 || type == TYPE_Q5_1 || type == TYPE_Q8_0;
}

/* Where those with the upper bits are; of Q8_0, the second half. */
KERNEL size_t
more_at(uint32_t type, size_t j)
{
	switch (type) {
	case TYPE_Q3_K: return j / 2 % 2 * 16;
	case TYPE_Q5_K: return 16 + j % 2 * 16;
	case TYPE_Q6_K: return 128 + j / 4 * 32 + j % 2 * 16;
	case TYPE_Q5_0: return j * 22 + 2;
	case TYPE_Q5_1: return j * 24 + 4;
	default: return j * 34 + 18;
	}
}

/* The vector of a tile that a piece begins with, or its second half. */
KERNEL size_t
vector_of(uint32_t type, size_t j, size_t half)
{
	switch (type) {
	case TYPE_Q2_K: case TYPE_Q3_K:
		return j / 4 * 32 + j % 2 * 16 + j / 2 % 2 * 4 + half * 8;
	case TYPE_Q4_K: case TYPE_Q5_K:
		return j / 2 * 16 + j % 2 * 4 + half * 8;
	case TYPE_Q6_K:
		return j / 4 * 32 + j % 4 * 4 + half * 16;
	default:
		return j * 8 + half * 4;
	}
}

/* The bits of v from number `from` on, of those that are to be `to` and on; what
   comes over from other bytes is for others to mask. */
KERNEL __m512i
bits_to(__m512i v, size_t from, size_t to)
{
	return _mm512_rolv_epi64(v, _mm512_set1_epi64(
	    (int64_t)((to - from) & 63)));
}

/* Vector k of a half of piece j. */
KERNEL __m512i
make_codes(uint32_t type, const struct piece *p, size_t j, size_t half,
    size_t k)
{
	const __m512i low = _mm512_set1_epi8(15);
	const size_t run = 2 * (j / 2) + half;	/* of Q5_K */
	const size_t pair = j % 2 * 2 + half;	/* of Q2_K, Q3_K */
	const size_t part = j % 4 / 2 + half * 2;	/* of Q6_K */
	__m512i v = p->r[k];

	switch (type) {
	case TYPE_Q8_0:
		return _mm512_xor_si512(half == 0 ? v : p->more[k],
		    _mm512_set1_epi8((char)0x80));
	case TYPE_Q2_K:
		return _mm512_and_si512(bits_to(v, 2 * pair, 0),
		    _mm512_set1_epi8(3));
	case TYPE_Q3_K:
		return and_or(bits_to(p->more[k], j / 4 * 4 + pair, 2), 4,
		    _mm512_and_si512(bits_to(v, 2 * pair, 0),
		    _mm512_set1_epi8(3)));
	}
	if (half == 1)
		v = _mm512_srli_epi64(v, 4);
	v = _mm512_and_si512(v, low);
	switch (type) {
	case TYPE_Q5_K:
		return and_or(bits_to(p->more[k], run, 4), 16, v);
	case TYPE_Q6_K:
		return and_or(bits_to(p->more[k], 2 * part, 4), 48, v);
	case TYPE_Q5_0: case TYPE_Q5_1:
		/* four bits go to four bytes: bit i to bit 8i + 4 */
		return and_or(_mm512_mullo_epi32(_mm512_and_si512(
		    _mm512_srli_epi32(p->more[0], (unsigned)(16 * half + 4 * k)),
		    _mm512_set1_epi32(15)), _mm512_set1_epi32(1 << 4 | 1 << 11 |
		    1 << 18 | 1 << 25)), 16, v);
	case TYPE_IQ4_NL: case TYPE_MXFP4: case TYPE_IQ4_XS:
		return look_up(type, v);
	default:
		return v;
	}
}

KERNEL void
put_codes(uint32_t type, const struct piece *p, size_t j, size_t half,
    struct tile *t)
{
	__m512i *to = t->w + vector_of(type, j, half);

	UNROLL
	for (size_t k = 0; k < 4; k++)
		to[k] = make_codes(type, p, j, half, k);
}

/* The bytes of a small block. */
KERNEL void
take_piece(uint32_t type, const uint8_t *w, size_t stride, size_t j,
    struct piece *p)
{
	if (type == TYPE_Q8_0) {
		turn_32(w + bytes_at(type, j), stride, p->r, p->more);
		return;
	}
	turn(w + bytes_at(type, j), stride, p->r);
	if (has_more(type))
		turn(w + more_at(type, j), stride, p->more);
}

/* Of small blocks, of which `bytes` are there of each row. */
KERNEL void
unpack_small(uint32_t type, const uint8_t *w, size_t stride, size_t bytes,
    struct tile *t)
{
	for (size_t j = 0; j < MIN(8, bytes / block_bytes(type)); j++) {
		struct piece p;

		take_piece(type, w, stride, j, &p);
		put_codes(type, &p, j, 0, t);
		put_codes(type, &p, j, 1, t);
	}
}

/* Of a super-block. 32 bytes of a row are in two pieces; if codes are pairs of bits,
   in four. */
KERNEL void
unpack_super(uint32_t type, const uint8_t *w, size_t stride, struct tile *t)
{
	const size_t uses = type == TYPE_Q2_K || type == TYPE_Q3_K ? 2 : 1;

	for (size_t half = 0; half < 8; half += 4) {
		struct piece p[2];

		if (has_more(type))
			turn_32(w + more_at(type, half), stride, p[0].more,
			    p[1].more);
		UNROLL
		for (size_t j = half; j < half + 4; j += 2 * uses) {
			turn_32(w + bytes_at(type, j), stride, p[0].r, p[1].r);
			UNROLL
			for (size_t i = 0; i < 2 * uses; i++) {
				put_codes(type, &p[i / uses], j + i, 0, t);
				put_codes(type, &p[i / uses], j + i, 1, t);
			}
		}
	}
}

/* One of eight steps of unpacking piece j of a super-block. */
KERNEL void
unpack_step(uint32_t type, size_t step, const uint8_t *w, size_t stride,
    size_t j, struct piece *p, struct tile *t)
{
	if (step < 4) {
		p->r[step] = load_rows(w + bytes_at(type, j), stride, step);
		IN_REGISTER(p->r[step]);
		if (has_more(type)) {
			p->more[step] = load_rows(w + more_at(type, j), stride,
			    step);
			IN_REGISTER(p->more[step]);
		}
	} else if (step == 4) {
		by_fours(p->r, p->r);
	} else if (step == 5) {
		if (has_more(type))
			by_fours(p->more, p->more);
	} else {
		put_codes(type, p, j, step - 6, t);
	}
}

/* ---- scales ---- */

/* Pairs of int16 as int32. */
KERNEL void
split(__m512i pairs, __m512i *dst)
{
	dst[0] = _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16);
	dst[1] = _mm512_srai_epi32(pairs, 16);
}

/* Two of the four bytes of each row, as words. */
KERNEL __m512i
words(__m512i v, int from)
{
	return _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(_mm_add_epi8(
	    _mm_set1_epi8((char)from), _mm_setr_epi8(0, -128, 1, -128, 4, -128,
	    5, -128, 8, -128, 9, -128, 12, -128, 13, -128))));
}

/* Halves that are the lower 16 bits of lanes. */
KERNEL __m512
halves_of(__m512i v)
{
	return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

/* For dmin, which is taken off. */
KERNEL __m512
minus(__m512 v)
{
	return _mm512_xor_ps(_mm512_set1_ps(-0.0f), v);
}

/* A half of each row. */
KERNEL __m512
halves_at(const uint8_t *w, size_t stride)
{
	_Alignas(32) uint16_t h[TILE];

	UNROLL
	for (size_t r = 0; r < TILE; r++)
		h[r] = get_u16(w + r * stride);
	return halves(h);
}

/* All but the codes of super-blocks. */
KERNEL void
unpack_scales(uint32_t type, const uint8_t *w, size_t stride, struct tile *t)
{
	__m512i v[4], s[4], ends[4];

	UNROLL
	for (size_t j = 0; j < 4; j++) {
		v[j] = load_rows(w + (type == TYPE_Q3_K ? FACTORS_Q3_K :
		    type == TYPE_Q6_K ? 192 : 0), stride, j);
		s[j] = type == TYPE_Q3_K ? four_factors_q3_k(v[j]) :
		    type == TYPE_Q4_K || type == TYPE_Q5_K ?
		    four_factors_q4_k(v[j]) : v[j];
	}
	by_fours(v, ends);
	by_fours(s, s);
	switch (type) {
	case TYPE_Q2_K:
		t->d[0] = halves_at(w + scale_at(type), stride);
		t->m[0] = minus(halves_at(w + scale_at(type) + 2, stride));
		break;
	case TYPE_Q3_K:
		t->d[0] = halves_of(_mm512_srli_epi32(ends[3], 16));
		break;
	case TYPE_Q6_K:
		t->d[0] = halves_at(w + scale_at(type), stride);
		break;
	case TYPE_Q4_K: case TYPE_Q5_K:
		t->d[0] = halves_of(ends[0]);
		t->m[0] = minus(halves_of(_mm512_srli_epi32(ends[0], 16)));
		break;
	default:
		t->d[0] = halves_of(ends[0]);
	}
	UNROLL
	for (size_t i = 0; i < 4; i++)
		switch (type) {
		case TYPE_Q2_K:
			v[0] = _mm512_and_si512(s[i], _mm512_set1_epi8(15));
			split(words(v[0], 0), t->scale + 4 * i);
			split(words(v[0], 2), t->scale + 4 * i + 2);
			v[0] = _mm512_and_si512(_mm512_srli_epi32(s[i], 4),
			    _mm512_set1_epi8(15));
			t->min[2 * i] = words(v[0], 0);
			t->min[2 * i + 1] = words(v[0], 2);
			break;
		case TYPE_Q3_K: case TYPE_Q6_K:
			UNROLL
			for (size_t k = 0; k < 4; k++)
				t->scale[4 * i + k] = _mm512_srai_epi32(
				    _mm512_slli_epi32(s[i],
				    (unsigned)(24 - 8 * k)), 24);
			break;
		case TYPE_Q4_K: case TYPE_Q5_K:
			split(words(s[i / 2], (int)i % 2 * 2),
			    t->scale + 2 * i);
			t->min[i] = words(s[2 + i / 2], (int)i % 2 * 2);
			break;
		default:	/* IQ4_XS: bits of words 1, and 2 and 3 */
			UNROLL
			for (size_t k = 2 * i; k < 2 * i + 2; k++)
				t->scale[k] = _mm512_sub_epi32(
				    _mm512_or_si512(_mm512_and_si512(
				    _mm512_srli_epi32(ends[1], (unsigned)(4 * k)),
				    _mm512_set1_epi32(15)), _mm512_slli_epi32(
				    _mm512_and_si512(_mm512_srli_epi32(ends[0],
				    (unsigned)(16 + 2 * k)),
				    _mm512_set1_epi32(3)), 4)),
				    _mm512_set1_epi32(32));
		}
}

/* The factors of small blocks, of which `bytes` of each row are there. */
KERNEL void
unpack_factors(uint32_t type, const uint8_t *w, size_t stride, size_t bytes,
    struct tile *t)
{
	const size_t whole = block_bytes(type) * 8;
	_Alignas(64) float d[TILE][8], m[TILE][8];

	for (size_t r = 0; r < TILE; r++) {
		const uint8_t *p = w + r * stride;
		uint8_t part[8 * 34];
		__m256 min8;

		if (bytes < whole) {
			memcpy(part, p, bytes);
			memset(part + bytes, 0, sizeof part - bytes);
			p = part;
		}
		_mm256_store_ps(d[r], scales_small(type, p, &min8));
		if (has_min(type))
			_mm256_store_ps(m[r], min8);
	}
	for (size_t i = 0; i < 2; i++) {
		turn((uint8_t *)&d[0][4 * i], sizeof d[0],
		    (__m512i *)t->d + 4 * i);
		if (has_min(type))
			turn((uint8_t *)&m[0][4 * i], sizeof m[0],
			    (__m512i *)t->m + 4 * i);
	}
}

/* A group of each of TILE rows; `bytes` are there of each. */
static void
unpack_tile(uint32_t type, const uint8_t *w, size_t stride, size_t bytes,
    struct tile *t)
{
	switch (type) {
#define SMALL(type) \
	case type: \
		unpack_small(type, w, stride, bytes, t); \
		unpack_factors(type, w, stride, bytes, t); \
		break;
#define SUPER(type) \
	case type: \
		unpack_super(type, w, stride, t); \
		unpack_scales(type, w, stride, t); \
		break;
	SMALL_TYPES(SMALL)
	SUPER_TYPES(SUPER)
#undef SMALL
#undef SUPER
	}
}

AVX512_END

#endif
