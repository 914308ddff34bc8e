/* SPDX-License-Identifier: MIT */
/*
 * Products of the AVX-512 set for few columns, as in decoding. The time is that
 * of reading the weights, so rows are read once, front to back, and fetched a
 * little ahead. Eight (super-)blocks give eight integer sums in one vector,
 * which is just what the eight accumulators of the definition take.
 */
#if defined(__x86_64__)

#include <string.h>

#include "avx512_unpack.h"

/* Bytes between what is fetched and what is used: a core reads 40 bytes a nanosecond
   where memory is fast, and waits 160 ns for the first one. Lines go past the outer
   caches, which weights do not need: 3 to 4 % faster on Zen 5 than the usual way. */
#define AHEAD 8192
/* Of each page a line is asked for earlier, so that where the page is in memory
   has been found out when its lines are fetched: that was a twentieth of the
   time where files are not in huge pages, as those copied in small pieces. */
#define AHEAD_PAGE (9 * PAGE)
/* Columns that meet a row of weights while it is in the nearest cache. */
#define COLS 4
/* Groups of 256 in the longest row that is handled here. */
#define GROUPS 160
/* Elements of a float row widened at once; every type's block divides it. */
#define PIECE 256

AVX512_BEGIN

/* Lines from..to of what is AHEAD of p; beyond the end of the weights this does
   nothing. */
KERNEL void
fetch(const uint8_t *p, size_t from, size_t to)
{
	UNROLL
	for (size_t i = from; i < to; i++)
		_mm_prefetch((const void *)(p + AHEAD + 64 * i), _MM_HINT_NTA);
}

/* Where the next `step` bytes are the first of a page: what is AHEAD_PAGE. */
KERNEL void
fetch_page(const uint8_t *p, size_t step)
{
	if ((uintptr_t)p % PAGE < step)
		_mm_prefetch((const void *)(p + AHEAD_PAGE), _MM_HINT_T1);
}

/* ---- sums across lanes, of integers: any order ---- */

/* In each 128-bit lane: the sums of that lane of a, b, c and d. */
KERNEL __m512i
add_lanes(__m512i a, __m512i b, __m512i c, __m512i d)
{
	a = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b),
	    _mm512_unpackhi_epi32(a, b));
	c = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d),
	    _mm512_unpackhi_epi32(c, d));
	return _mm512_add_epi32(_mm512_unpacklo_epi64(a, c),
	    _mm512_unpackhi_epi64(a, c));
}

/* Adds the 128-bit lanes 0 and 1, and 2 and 3; each sum is there twice. */
KERNEL __m512i
add_lane_pairs(__m512i v)
{
	return _mm512_add_epi32(v, _mm512_shuffle_i64x2(v, v, 0xb1));
}

/* Eight sums, of which 0, 2, 4, 6 are in lane 0 and 1, 3, 5, 7 in lane 2. */
KERNEL __m256i
in_order(__m512i v)
{
	const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11,
	    0, 8, 1, 9, 2, 10, 3, 11);

	return _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, v));
}

/* The sums of the lanes of a, and then of b. */
KERNEL __m256i
sum_lanes(__m512i a, __m512i b)
{
	const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13,
	    0, 0, 0, 0, 0, 0, 0, 0);

	a = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b),
	    _mm512_unpackhi_epi32(a, b));
	a = _mm512_add_epi32(a, _mm512_shuffle_epi32(a, 0x4e));
	return _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, a));
}

/* ---- super-blocks as rows take them ---- */

/* A scale is for 32 codes, low nibbles or high ones. */
KERNEL bool
nibbles(uint32_t type)
{
	return type == TYPE_Q4_K || type == TYPE_Q5_K;
}

/* The offset of codes is made good by what the sums begin with. A half of it
   times a sum of 16 codes is 16 bits for these types. */
KERNEL bool
small_offset(uint32_t type)
{
	return type == TYPE_Q3_K || type == TYPE_Q6_K;
}

/*
 * Codes are taken as 64 bytes have them: those of Q4_K and Q5_K blocks of 32 in
 * low and in high nibbles, those of IQ4_XS blocks of 16; those of Q2_K and Q3_K
 * blocks of 32 in four pairs of bits. Sixteenth j of a super-block is then this
 * one of the type's own order.
 */
KERNEL size_t
row_order(uint32_t type, size_t j)
{
	const size_t z = j / 4, lane = j % 4;

	switch (type) {
	case TYPE_Q4_K: case TYPE_Q5_K:
		return z / 2 * 8 + lane / 2 * 4 + z % 2 * 2 + lane % 2;
	case TYPE_IQ4_XS:
		return z / 2 * 8 + lane * 2 + z % 2;
	case TYPE_Q2_K: case TYPE_Q3_K:
		return lane / 2 * 8 + z * 2 + lane % 2;
	default:
		return j;
	}
}

/* 64 bytes, read once: compilers would do it again, for each use */
KERNEL __m512i
load512(const uint8_t *p)
{
	__m512i v = _mm512_loadu_si512(p);

	IN_REGISTER(v);
	return v;
}

/* The codes of sixteenths 4z .. 4z + 3 in that order. */
KERNEL __m512i
row_codes(uint32_t type, const uint8_t *p, int z)
{
	const int bits = type == TYPE_Q2_K || type == TYPE_Q3_K ? 2 : 4;
	const int turns = 8 / bits;	/* in as many parts, one by one */
	__m512i v;

	switch (type) {
	case TYPE_Q2_K: p += 16; break;
	case TYPE_Q3_K: p += 32; break;
	case TYPE_Q4_K: p += 16; break;
	case TYPE_Q5_K: p += 48; break;
	case TYPE_IQ4_XS: p += 8; break;
	default:
		return codes(type, p, z);
	}
	v = load512(p + z / turns * 64);
	if (z % turns > 0)
		v = _mm512_srli_epi64(v, (unsigned)(z % turns * bits));
	v = _mm512_and_si512(v, _mm512_set1_epi8((char)((1 << bits) - 1)));
	if (type == TYPE_IQ4_XS)
		return look_up(type, v);
	if (type == TYPE_Q3_K)
		return and_or(move_bits(both_halves(p - 32), 2 - z, -4), 4, v);
	if (type == TYPE_Q5_K)
		return and_or(move_bits(both_halves(p - 32),
		    4 - (z / 2 * 4 + z % 2), -2), 16, v);
	return v;
}

/* Which of the scales each pair of those codes has. */
KERNEL __m512i
row_scales(uint32_t type, int z)
{
#define WHICH(lane) (int)(row_order(type, 4 * (size_t)z + (lane)) / \
	    (nibbles(type) ? 2 : 1) * 0x10001)
	return _mm512_setr_epi32(WHICH(0), WHICH(0), WHICH(0), WHICH(0),
	    WHICH(1), WHICH(1), WHICH(1), WHICH(1), WHICH(2), WHICH(2),
	    WHICH(2), WHICH(2), WHICH(3), WHICH(3), WHICH(3), WHICH(3));
#undef WHICH
}

/*
 * Numbers for the eight super-blocks of a group, as words: of nibbles eight each
 * in two vectors, else 16 each in four. For super-blocks that are missing at the
 * end of a row they are those of the last one; the activations are zeros.
 */
struct factors {
	__m512i scale[4], min[4];	/* without minima: the scales again */
	__m256i d;			/* pairs of halves d, dmin */
};

KERNEL void
row_factors(uint32_t type, const uint8_t *const p[8], struct factors *f)
{
	const __m512i pick = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28,
	    0, 0, 0, 0, 0, 0, 0, 0), zero = _mm512_setzero_si512();
	__m512i v[2], s;
	__m256i even, odd, even_min, odd_min;

	if (nibbles(type)) {
		UNROLL
		for (size_t i = 0; i < 2; i++) {
			v[i] = four_lanes(p[4 * i], p[4 * i + 1], p[4 * i + 2],
			    p[4 * i + 3]);
			s = four_factors_q4_k(v[i]);
			f->scale[i] = _mm512_unpacklo_epi8(s, zero);
			f->min[i] = _mm512_unpackhi_epi8(s, zero);
		}
		f->d = _mm512_castsi512_si256(_mm512_permutex2var_epi32(v[0],
		    pick, v[1]));
		return;
	}
	UNROLL
	for (size_t i = 0; i < 2 && type == TYPE_Q3_K; i++) {
		s = four_factors_q3_k(four_lanes(p[4 * i] + FACTORS_Q3_K,
		    p[4 * i + 1] + FACTORS_Q3_K, p[4 * i + 2] + FACTORS_Q3_K,
		    p[4 * i + 3] + FACTORS_Q3_K));
		f->scale[2 * i] = _mm512_cvtepi8_epi16(
		    _mm512_castsi512_si256(s));
		f->scale[2 * i + 1] = _mm512_cvtepi8_epi16(
		    _mm512_extracti64x4_epi64(s, 1));
	}
	UNROLL
	for (size_t i = 0; i < 4 && type != TYPE_Q3_K; i++) {
		even = factors(type, p[2 * i], &even_min);
		odd = factors(type, p[2 * i + 1], &odd_min);
		f->scale[i] = two_halves(even, odd);
		f->min[i] = has_min(type) ? two_halves(even_min, odd_min) :
		    f->scale[i];
	}
	/* a last half is taken with what is before it, not after it */
	if (type == TYPE_Q3_K || type == TYPE_Q6_K)
		f->d = _mm256_srli_epi32(eight_pairs(p, scale_at(type) - 2),
		    16);
	else
		f->d = eight_pairs(p, scale_at(type));
}

/* The scales of super-block i, four or two times. */
KERNEL __m512i
scales_of(uint32_t type, const struct factors *f, size_t i)
{
	__m512i v = f->scale[nibbles(type) ? i / 4 : i / 2];

	if (!nibbles(type))
		return i % 2 == 0 ? _mm512_shuffle_i64x2(v, v, 0x44) :
		    _mm512_shuffle_i64x2(v, v, 0xee);
	return i % 4 == 0 ? _mm512_shuffle_i64x2(v, v, 0x00) :
	    i % 4 == 1 ? _mm512_shuffle_i64x2(v, v, 0x55) :
	    i % 4 == 2 ? _mm512_shuffle_i64x2(v, v, 0xaa) :
	    _mm512_shuffle_i64x2(v, v, 0xff);
}

/* ---- small blocks as rows take them ---- */

/* Blocks of 16 bytes of nibbles, low ones first: four at once. */
KERNEL bool
fours(uint32_t type)
{
	return type == TYPE_Q4_0 || type == TYPE_Q4_1 ||
	    type == TYPE_IQ4_NL || type == TYPE_MXFP4;
}

/* ---- activations ---- */

/* Eight activation blocks, laid out for vectors: once for all rows. What is
   missing at the end of a row is zeros. For fours(), the first halves of four
   blocks come before the second ones. */
struct acts {
	int8_t q[256];
	float d[8];
	int32_t sum[8];		/* for the minima, or for the offset of codes */
};
/* Super-blocks: codes in the order of row_codes(), and for each super-block n
   sums of codes that share a factor: 8 of nibbles, or 16; or what the products
   of two times 16 scales are made good by. After the last one come the first
   ones again, so that eight can be had from any. */
struct supers {
	_Alignas(64) int8_t q[GROUPS + 7][256];
	int16_t sum[(GROUPS + 7) * 32];
	float d[GROUPS + 7];
};

/* What the sum of activations is multiplied with, besides minima. */
static int32_t
sum_factor(uint32_t type)
{
	return has_min(type) ? 1 : -code_offset(type);
}

KERNEL void
lay_out_small(uint32_t type, struct acts *dst, const struct act_q8 *a, size_t n)
{
	const int factor = sum_factor(type);

	for (size_t b = 0; b < n; b++) {
		struct acts *g = &dst[b / 8];

		if (b % 8 == 0 && n - b < 8)
			memset(g, 0, sizeof *g);
		if (fours(type)) {
			int8_t *q = g->q + b / 4 % 2 * 128 + b % 4 * 16;

			memcpy(q, a[b].q, 16);
			memcpy(q + 64, a[b].q + 16, 16);
		} else {
			memcpy(g->q + b % 8 * 32, a[b].q, 32);
		}
		g->d[b % 8] = a[b].d;
		g->sum[b % 8] = factor * a[b].sum;
	}
}

KERNEL void
lay_out_super(uint32_t type, struct supers *dst, const struct act_q8k *a,
    size_t n)
{
	for (size_t b = 0; b < n + 7; b++) {
		const struct act_q8k *from = &a[b % n];
		const uint8_t *q = (const uint8_t *)from->q;
		__m256i sum = _mm256_loadu_si256((const void *)from->sum);

		dst->d[b] = from->d;
		UNROLL
		for (size_t z = 0; z < 4; z++)
			_mm512_store_si512(dst->q[b] + 64 * z, four_lanes(
			    q + 16 * row_order(type, 4 * z),
			    q + 16 * row_order(type, 4 * z + 1),
			    q + 16 * row_order(type, 4 * z + 2),
			    q + 16 * row_order(type, 4 * z + 3)));
		if (nibbles(type)) {
			sum = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
			_mm_store_si128((void *)(dst->sum + 8 * b),
			    _mm256_cvtepi32_epi16(sum));
		} else if (small_offset(type)) {
			sum = _mm256_mullo_epi16(sum, _mm256_set1_epi16(
			    (short)(-code_offset(type) / 2)));
			_mm512_store_si512(dst->sum + 32 * b,
			    two_halves(sum, sum));
		} else {
			_mm256_store_si256((void *)(dst->sum + 16 * b), sum);
		}
	}
}

/* ---- blocks of 32 ---- */

/* The eight sums of products in a group, four blocks to a vector, or two. */
KERNEL __m256i
sums_by_four(uint32_t type, const uint8_t *w, const struct acts *a)
{
	const __m512i low = _mm512_set1_epi8(15);
	const size_t bytes = block_bytes(type);
	__m512i s[2];

	w += type == TYPE_MXFP4 ? 1 : has_min(type) ? 4 : 2;
	UNROLL
	for (int h = 0; h < 2; h++, w += 4 * bytes) {
		__m512i v = four_lanes(w, w + bytes, w + 2 * bytes,
		    w + 3 * bytes);
		__m512i c[2] = { _mm512_and_si512(v, low),
		    _mm512_and_si512(_mm512_srli_epi64(v, 4), low) };

		s[h] = _mm512_setzero_si512();
		UNROLL
		for (int i = 0; i < 2; i++)
			s[h] = _mm512_dpbusd_epi32(s[h],
			    type == TYPE_IQ4_NL || type == TYPE_MXFP4 ?
			    look_up(type, c[i]) : c[i],
			    _mm512_loadu_si512(a->q + 128 * h + 64 * i));
	}
	return sum_lanes(s[0], s[1]);
}

KERNEL __m256i
sums_by_two(uint32_t type, const uint8_t *w, const struct acts *a)
{
	__m512i s[4];

	UNROLL
	for (int z = 0; z < 4; z++)
		s[z] = _mm512_dpbusd_epi32(_mm512_setzero_si512(),
		    codes(type, w, z), _mm512_loadu_si512(a->q + 64 * z));
	return in_order(add_lane_pairs(add_lanes(s[0], s[1], s[2], s[3])));
}

/* Adds a group to the accumulators. */
KERNEL __m256
add_group(uint32_t type, const uint8_t *w, const struct acts *a, __m256 acc)
{
	/* codes first: clang would take them from the wide reads of scales */
	__m256i sums = fours(type) ? sums_by_four(type, w, a) :
	    sums_by_two(type, w, a);
	__m256i more = _mm256_loadu_si256((const void *)a->sum);
	__m256 da = _mm256_loadu_ps(a->d), m = da;
	__m256 d = scales_small(type, w, &m);

	if (!has_min(type))
		sums = _mm256_add_epi32(sums, more);
	acc = _mm256_fmadd_ps(_mm256_mul_ps(d, da), _mm256_cvtepi32_ps(sums),
	    acc);
	if (has_min(type))
		acc = _mm256_fmadd_ps(_mm256_mul_ps(m, da),
		    _mm256_cvtepi32_ps(more), acc);
	return acc;
}

/*
 * A row of blocks of 32. The last ones are copied to a group filled up with
 * zeros, which change no sum: 0 is added, and no accumulator is ever -0.
 */
KERNEL float
row_small(uint32_t type, const uint8_t *w, const struct acts *a,
    size_t n_blocks)
{
	const size_t bytes = block_bytes(type);
	__m256 acc = _mm256_setzero_ps();
	size_t b;

	for (b = 0; b + 8 <= n_blocks; b += 8, w += 8 * bytes, a++) {
		fetch(w, 0, (8 * bytes + 63) / 64);
		fetch_page(w, 8 * bytes);
		acc = add_group(type, w, a, acc);
	}
	if (b < n_blocks) {
		uint8_t last[8 * 34] = { 0 };

		memcpy(last, w, (n_blocks - b) * bytes);
		acc = add_group(type, last, a, acc);
	}
	return tree8(acc);
}

/* ---- super-blocks ---- */

/* The sums of a super-block's scaled products, to be added up. */
KERNEL __m512i
super_sums(uint32_t type, const uint8_t *w, const int8_t *q,
    __m512i scales, const int16_t *sum)
{
	__m512i s = _mm512_setzero_si512();

	if (small_offset(type))
		s = _mm512_madd_epi16(scales, _mm512_load_si512(sum));

	UNROLL
	for (int z = 0; z < 4; z++) {
		__m512i a = _mm512_load_si512(q + 64 * z);
		__m512i c = row_codes(type, w, z);
		__m512i k = _mm512_permutexvar_epi16(row_scales(type, z),
		    scales);

		/* two products are at most 2 * 63 * 127, which is 16 bits;
		   but 2 * 241 * 127 for IQ4_XS */
		if (type == TYPE_IQ4_XS)
			s = _mm512_add_epi32(s, _mm512_mullo_epi32(
			    _mm512_dpbusd_epi32(_mm512_setzero_si512(), c, a),
			    _mm512_srai_epi32(k, 16)));
		else if (z == 0 && !small_offset(type))
			s = _mm512_madd_epi16(_mm512_maddubs_epi16(c, a), k);
		else
			s = _mm512_dpwssd_epi32(s, _mm512_maddubs_epi16(c, a),
			    k);
	}
	return s;
}

/* The sums of eight vectors. */
KERNEL __m256i
eight_sums(const __m512i *s)
{
	__m512i lo = add_lanes(s[0], s[1], s[2], s[3]);
	__m512i hi = add_lanes(s[4], s[5], s[6], s[7]);
	__m512i v = add_lane_pairs(_mm512_add_epi32(
	    _mm512_shuffle_i64x2(lo, hi, 0x44),
	    _mm512_shuffle_i64x2(lo, hi, 0xee)));

	return _mm512_castsi512_si256(_mm512_shuffle_i64x2(v, v, 0x08));
}

/* The sums of the minima of eight super-blocks; of IQ4_XS those of the scales, as
   if the offset were 1. */
KERNEL __m256i
min_sums(uint32_t type, const __m512i *min, const int16_t *sum)
{
	__m512i v[4];

	UNROLL
	for (int i = 0; i < 4; i++)
		if (i < 2 || !nibbles(type))
			v[i] = _mm512_madd_epi16(min[i],
			    _mm512_loadu_si512(sum + 32 * i));
	if (!nibbles(type))
		return in_order(add_lane_pairs(
		    add_lanes(v[0], v[1], v[2], v[3])));
	return sum_lanes(v[0], v[1]);
}

/* What n <= 8 super-blocks add to the accumulators. */
struct terms {
	__m256 d, sums, m, mins;
};

KERNEL void
super_terms(uint32_t type, const uint8_t *w, const struct supers *a, size_t at,
    size_t n, struct terms *t)
{
	const size_t bytes = block_bytes(type);
	const int16_t *sum = a->sum + (nibbles(type) ? 8 :
	    small_offset(type) ? 32 : 16) * at;
	const uint8_t *p[8];
	struct factors f;
	__m512i s[8];
	__m256i sums, mins = _mm256_setzero_si256();
	__m256 da = _mm256_loadu_ps(a->d + at), d;

	UNROLL
	for (size_t i = 0; i < 8; i++)
		p[i] = w + (n == 8 ? i : MIN(i, n - 1)) * bytes;
	row_factors(type, p, &f);
	fetch_page(w, 8 * bytes);
	UNROLL
	for (size_t i = 0; i < 8; i++) {
		fetch(w, (i * bytes + 63) / 64, ((i + 1) * bytes + 63) / 64);
		s[i] = super_sums(type, p[i], a->q[at + i],
		    scales_of(type, &f, i), sum + 32 * i);
		IN_REGISTER(s[i]);
	}
	sums = eight_sums(s);
	if (!small_offset(type))
		mins = min_sums(type, f.min, sum);
	if (type == TYPE_IQ4_XS)
		sums = _mm256_sub_epi32(sums, _mm256_mullo_epi32(mins,
		    _mm256_set1_epi32(code_offset(type))));
	t->sums = _mm256_cvtepi32_ps(sums);
	t->d = _mm256_mul_ps(halves8(_mm256_cvtepi32_epi16(f.d)), da);
	if (has_min(type)) {
		d = _mm256_xor_ps(_mm256_set1_ps(-0.0f), halves8(
		    _mm256_cvtepi32_epi16(_mm256_srli_epi32(f.d, 16))));
		t->m = _mm256_mul_ps(d, da);
		t->mins = _mm256_cvtepi32_ps(mins);
	}
}

KERNEL __m256
add_terms(uint32_t type, const struct terms *t, __mmask8 k, __m256 acc)
{
	acc = _mm256_mask3_fmadd_ps(t->d, t->sums, acc, k);
	if (has_min(type))
		acc = _mm256_mask3_fmadd_ps(t->m, t->mins, acc, k);
	return acc;
}

/*
 * Rows one after the other, as one run of super-blocks: a group of eight may go
 * from the end of a row to the beginning of the next, whose accumulators are
 * then not the first ones, but TREE(8) is the same wherever it begins in a
 * circle. So memory is read in one way whatever the length of rows: where the
 * last ones of a row, 6 of 22, were a group, that was 0.80 of the bandwidth, not
 * 0.95.
 */
struct run {
	const uint8_t *w;
	size_t left;		/* super-blocks */
	size_t at;		/* place of the next one in its row */
	float *y;		/* of that row */
	__m256 acc[COLS];
};

/* The next eight super-blocks, or those that are left; n are a row. */
KERNEL void
run_on(uint32_t type, struct run *s, const struct supers *a, size_t n,
    size_t cols, size_t y_stride)
{
	size_t now = MIN(8, s->left), begin = s->at, row = 0;

	for (size_t c = 0; c < cols; c++) {
		struct terms t;
		size_t at = begin, from = 0, to;

		row = 0;
		if (now == 8)
			super_terms(type, s->w, &a[c], at, 8, &t);
		else
			super_terms(type, s->w, &a[c], at, now, &t);
		for (; from < now; from = to) {
			to = MIN(now, from + n - at);
			s->acc[c] = add_terms(type, &t,
			    (__mmask8)((1u << to) - (1u << from)), s->acc[c]);
			at += to - from;
			if (at < n)
				break;
			s->y[c * y_stride + row++] = tree8(s->acc[c]);
			s->acc[c] = _mm256_setzero_ps();
			at = 0;
		}
		s->at = at;
	}
	s->y += row;
	s->left -= now;
	s->w += 8 * block_bytes(type);
}

KERNEL void
run_super(uint32_t type, const uint8_t *w, size_t n_rows,
    const struct supers *a, size_t n, size_t cols, float *y, size_t y_stride)
{
	struct run s = { .w = w, .left = n_rows * n, .y = y };

	for (size_t c = 0; c < cols; c++)
		s.acc[c] = _mm256_setzero_ps();
	while (s.left > 0)
		run_on(type, &s, a, n, cols, y_stride);
}

/* ---- rows with some columns ---- */

/* One kind of blocks each: lays out `cols` columns from x on, and multiplies. */
KERNEL void
rows_small(uint32_t type, const struct matmul *m, size_t r0, size_t r1,
    const uint8_t *x, size_t cols, float *y)
{
	_Alignas(64) struct acts a[COLS][GROUPS];

	for (size_t c = 0; c < cols; c++)
		lay_out_small(type, a[c], (const void *)(x + c * m->x_stride),
		    m->n_in / 32);
	for (size_t r = r0; r < r1; r++)
		for (size_t c = 0; c < cols; c++)
			y[c * m->y_stride + r] = row_small(type,
			    (const uint8_t *)m->w + r * m->row_bytes, a[c],
			    m->n_in / 32);
}

KERNEL void
rows_super(uint32_t type, const struct matmul *m, size_t r0, size_t r1,
    const uint8_t *x, size_t cols, float *y)
{
	const uint8_t *w = (const uint8_t *)m->w + r0 * m->row_bytes;
	struct supers a[COLS];

	for (size_t c = 0; c < cols; c++)
		lay_out_super(type, &a[c], (const void *)(x + c * m->x_stride),
		    m->n_in / 256);
	/* one column has a kernel of its own, whose accumulators are registers:
	   decoding is a quarter faster in cache by that */
	if (cols == 1)
		run_super(type, w, r1 - r0, a, m->n_in / 256, 1, y + r0,
		    m->y_stride);
	else
		run_super(type, w, r1 - r0, a, m->n_in / 256, cols, y + r0,
		    m->y_stride);
}

static void
rows_quantized(const struct matmul *m, size_t r0, size_t r1)
{
	for (size_t c0 = 0; c0 < m->n_cols; c0 += COLS) {
		size_t cols = MIN(COLS, m->n_cols - c0);
		const uint8_t *x = (const uint8_t *)m->x + c0 * m->x_stride;
		float *y = m->y + c0 * m->y_stride;

		switch (m->type) {
#define SMALL(type) \
		case type: \
			rows_small(type, m, r0, r1, x, cols, y); \
			break;
#define SUPER(type) \
		case type: \
			rows_super(type, m, r0, r1, x, cols, y); \
			break;
		SMALL_TYPES(SMALL)
		SUPER_TYPES(SUPER)
#undef SMALL
#undef SUPER
		}
	}
}

/* ---- float weights ---- */

void
avx512_widen(uint32_t type, const uint8_t *w, size_t at, size_t n, float *dst)
{
	const struct pico_type *t;

	switch (type) {
	case TYPE_F32:
		memcpy(dst, w + 4 * at, 4 * n);
		break;
	case TYPE_F16:
		for (size_t i = 0; i < n; i += 16)
			_mm512_mask_storeu_ps(dst + i, lanes(n - i),
			    _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(
			    lanes(n - i), w + 2 * (at + i))));
		break;
	case TYPE_BF16:
		for (size_t i = 0; i < n; i += 16)
			_mm512_mask_storeu_ps(dst + i, lanes(n - i),
			    bfloats(_mm256_maskz_loadu_epi16(
			    lanes(n - i), w + 2 * (at + i))));
		break;
	default:
		t = pico_type(type);
		(void)pico_dequantize(type, w + at / t->block * t->bytes, dst,
		    n);
	}
}

/* 16 weights from element i of a row on */
KERNEL __m512
load16(uint32_t type, const uint8_t *w, size_t i)
{
	switch (type) {
	case TYPE_F16:
		return halves(w + 2 * i);
	case TYPE_BF16:
		return bfloats(_mm256_loadu_si256((const void *)(w + 2 * i)));
	default:
		return _mm512_loadu_ps(w + 4 * i);
	}
}

/* The first n of 16 weights; the others are not touched. */
KERNEL __m512
load_few(uint32_t type, const uint8_t *w, size_t i, __mmask16 n)
{
	switch (type) {
	case TYPE_F16:
		return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(n, w + 2 * i));
	case TYPE_BF16:
		return bfloats(_mm256_maskz_loadu_epi16(n, w + 2 * i));
	default:
		return _mm512_maskz_loadu_ps(n, w + 4 * i);
	}
}

/* Adds n products to the partial sums lo (0..15) and hi (16..31) of SUM32;
   masked at the end, since even adding 0 would turn a -0 into 0. */
KERNEL void
dot_add(uint32_t type, const uint8_t *w, const float *x, size_t n, __m512 *lo,
    __m512 *hi)
{
	const size_t size = type == TYPE_F32 ? 4 : 2;
	size_t i;

	for (i = 0; i + 32 <= n; i += 32) {
		if (i % 64 == 0) {
			const uint8_t *p = w + i * size;

			fetch(p, 0, size);
			fetch_page(p, 64 * size);
		}
		*lo = _mm512_fmadd_ps(load16(type, w, i),
		    _mm512_loadu_ps(x + i), *lo);
		*hi = _mm512_fmadd_ps(load16(type, w, i + 16),
		    _mm512_loadu_ps(x + i + 16), *hi);
	}
	if (i < n) {
		__mmask16 k = lanes(n - i);

		*lo = _mm512_mask3_fmadd_ps(load_few(type, w, i, k),
		    _mm512_maskz_loadu_ps(k, x + i), *lo, k);
	}
	if (i + 16 < n) {
		__mmask16 k = lanes(n - i - 16);

		*hi = _mm512_mask3_fmadd_ps(load_few(type, w, i + 16, k),
		    _mm512_maskz_loadu_ps(k, x + i + 16), *hi, k);
	}
}

KERNEL void
rows_float(uint32_t type, const struct matmul *m, size_t r0, size_t r1)
{
	for (size_t r = r0; r < r1; r++) {
		const uint8_t *w = (const uint8_t *)m->w + r * m->row_bytes;

		for (size_t c = 0; c < m->n_cols; c++) {
			__m512 lo = _mm512_setzero_ps(), hi = lo;

			dot_add(type, w, (const void *)((const uint8_t *)m->x +
			    c * m->x_stride), m->n_in, &lo, &hi);
			m->y[c * m->y_stride + r] = tree32(lo, hi);
		}
	}
}

/* Types without a kernel of their own: made float a piece at a time. */
static void
rows_other(const struct matmul *m, size_t r0, size_t r1)
{
	float buf[PIECE];

	for (size_t c0 = 0; c0 < m->n_cols; c0 += COLS) {
		size_t cols = MIN(COLS, m->n_cols - c0);
		const uint8_t *x = (const uint8_t *)m->x + c0 * m->x_stride;
		float *y = m->y + c0 * m->y_stride;

		for (size_t r = r0; r < r1; r++) {
			const uint8_t *w = (const uint8_t *)m->w +
			    r * m->row_bytes;
			__m512 lo[COLS], hi[COLS];

			for (size_t c = 0; c < COLS; c++)
				lo[c] = hi[c] = _mm512_setzero_ps();
			for (size_t i = 0; i < m->n_in; i += PIECE) {
				size_t n = MIN(PIECE, m->n_in - i);

				avx512_widen(m->type, w, i, n, buf);
				for (size_t c = 0; c < cols; c++)
					dot_add(TYPE_F32, (const void *)buf,
					    (const float *)(const void *)(x +
					    c * m->x_stride) + i, n, &lo[c],
					    &hi[c]);
			}
			for (size_t c = 0; c < cols; c++)
				y[c * m->y_stride + r] = tree32(lo[c], hi[c]);
		}
	}
}

/* ---- the choice ---- */

void
avx512_rows(const struct matmul *m, size_t r0, size_t r1)
{
	switch (m->type) {
	case TYPE_F32:
		rows_float(TYPE_F32, m, r0, r1);
		break;
	case TYPE_F16:
		rows_float(TYPE_F16, m, r0, r1);
		break;
	case TYPE_BF16:
		rows_float(TYPE_BF16, m, r0, r1);
		break;
	default:
		if (kernel_act_kind(m->type) == ACT_F32)
			rows_other(m, r0, r1);
		else if (m->n_in <= (size_t)256 * GROUPS)
			rows_quantized(m, r0, r1);
		else
			kernels_scalar.matmul(m, r0, r1);
	}
}

AVX512_END

#endif
