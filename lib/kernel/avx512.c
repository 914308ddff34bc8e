/* SPDX-License-Identifier: MIT */
/*
 * The AVX-512 set: everything but the products. Rows are taken 16 floats at a
 * time, the last ones under a mask; a lane without an element keeps what it
 * had, as the definition wants.
 */
#if defined(__x86_64__)

#include <float.h>
#include <math.h>
#include <string.h>

#include "avx512.h"

/* Keys in a block of attention. */
#define KEYS 64
/* Queries that walk along the keys together. */
#define QUERIES 32
/* Queries for which an element of a key or value in a register is used. */
#define SHARED 4
/* Vectors of an output that are in registers while values are added. */
#define WIDE 4
/* Columns from which on unpacking a tile of rows pays. */
#define MANY 4

static bool
runs_here(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512vnni") &&
	    __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

static void
matmul(const struct matmul *m, size_t r0, size_t r1)
{
	size_t end = r0;

	if (m->n_cols >= MANY) {
		end = r1 - (r1 - r0) % TILE;
		avx512_tiles(m, r0, end);
	}
	avx512_rows(m, end, r1);
}

AVX512_BEGIN

/* ---- elementary functions, the operations of func.c ---- */

static inline __m512
set(float x)
{
	return _mm512_set1_ps(x);
}

/* 2^n from the low bits of n */
static inline __m512
pow2(__m512i n)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(
	    _mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}

/* VMINPS and VMAXPS give their second operand if one is NaN, as ?: does when
   the constant comes first. */
KERNEL __m512
exp16(__m512 x)
{
	const __m512 round = set(0x1.8p23f);
	__m512 t, n, r, p;
	__m512i k, half;

	x = _mm512_min_ps(set(89), x);
	x = _mm512_max_ps(set(-104), x);
	t = _mm512_fmadd_ps(x, set(0x1.715476p+0f), round);
	n = _mm512_sub_ps(t, round);
	k = _mm512_sub_epi32(_mm512_castps_si512(t),
	    _mm512_castps_si512(round));
	r = _mm512_fmadd_ps(n, set(-0x1.62e43p-1f), x);
	r = _mm512_fmadd_ps(n, set(0x1.05c61p-29f), r);
	p = set(0x1.6d1254p-10f);
	p = _mm512_fmadd_ps(p, r, set(0x1.120cbap-7f));
	p = _mm512_fmadd_ps(p, r, set(0x1.555518p-5f));
	p = _mm512_fmadd_ps(p, r, set(0x1.5554dcp-3f));
	p = _mm512_fmadd_ps(p, r, set(0x1p-1f));
	p = _mm512_add_ps(set(1),
	    _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r));
	half = _mm512_srai_epi32(k, 1);
	return _mm512_mul_ps(_mm512_mul_ps(p, pow2(half)),
	    pow2(_mm512_sub_epi32(k, half)));
}

static inline __m512
tanh16(__m512 x)
{
	const __m512 sign = set(-0.0f);
	__m512 a = _mm512_andnot_ps(sign, x), z = _mm512_mul_ps(x, x), p, big;

	p = set(-0x1.b92196p-12f);
	p = _mm512_fmadd_ps(p, z, set(0x1.490d0ap-9f));
	p = _mm512_fmadd_ps(p, z, set(-0x1.0d515p-7f));
	p = _mm512_fmadd_ps(p, z, set(0x1.62e11cp-6f));
	p = _mm512_fmadd_ps(p, z, set(-0x1.b9d574p-5f));
	p = _mm512_fmadd_ps(p, z, set(0x1.110ffep-3f));
	p = _mm512_fmadd_ps(p, z, set(-0x1.555554p-2f));
	p = _mm512_fmadd_ps(_mm512_mul_ps(a, z), p, a);
	big = exp16(_mm512_mul_ps(set(2), a));
	big = _mm512_div_ps(set(2), _mm512_add_ps(big, set(1)));
	p = _mm512_mask_sub_ps(p, _mm512_cmp_ps_mask(a, set(1), _CMP_NLT_UQ),
	    set(1), big);
	return _mm512_or_ps(_mm512_andnot_ps(sign, p),
	    _mm512_and_ps(sign, x));
}

static inline __m512
erf16(__m512 x)
{
	const __m512 sign = set(-0.0f);
	__m512 a = _mm512_andnot_ps(sign, x), z = _mm512_mul_ps(x, x), p, q;
	__mmask16 small = _mm512_cmp_ps_mask(a, set(1), _CMP_LT_OQ);

	p = set(0x1.4a5690p-14f);
	p = _mm512_fmadd_ps(p, z, set(-0x1.a45088p-11f));
	p = _mm512_fmadd_ps(p, z, set(0x1.541270p-8f));
	p = _mm512_fmadd_ps(p, z, set(-0x1.b7fabap-6f));
	p = _mm512_fmadd_ps(p, z, set(0x1.ce2d10p-4f));
	p = _mm512_fmadd_ps(p, z, set(-0x1.81273ep-2f));
	p = _mm512_fmadd_ps(p, z, set(0x1.06eba8p-3f));
	p = _mm512_fmadd_ps(a, p, a);
	a = _mm512_min_ps(set(4), a);
	q = set(-0x1.b77830p-20f);
	q = _mm512_fmadd_ps(q, a, set(0x1.825ce4p-15f));
	q = _mm512_fmadd_ps(q, a, set(-0x1.38e5e6p-11f));
	q = _mm512_fmadd_ps(q, a, set(0x1.37ecc6p-8f));
	q = _mm512_fmadd_ps(q, a, set(-0x1.b0e246p-6f));
	q = _mm512_fmadd_ps(q, a, set(0x1.c2e356p-4f));
	q = _mm512_fmadd_ps(q, a, set(0x1.437eb4p-1f));
	q = _mm512_fmadd_ps(q, a, set(0x1.2156fap+0f));
	q = _mm512_fmadd_ps(q, a, set(-0x1.4fb068p-12f));
	q = _mm512_sub_ps(set(1), exp16(_mm512_xor_ps(q, sign)));
	p = _mm512_mask_mov_ps(q, small, p);
	return _mm512_or_ps(_mm512_andnot_ps(sign, p),
	    _mm512_and_ps(sign, x));
}

/* k_apply() */
static inline __m512
apply16(enum k_fn fn, __m512 x)
{
	__m512 u, v;

	switch (fn) {
	case K_SILU:
		v = exp16(_mm512_xor_ps(x, set(-0.0f)));
		return _mm512_div_ps(x, _mm512_add_ps(set(1), v));
	case K_GELU:
		v = _mm512_mul_ps(_mm512_mul_ps(set(0.044715f), x), x);
		u = _mm512_mul_ps(_mm512_mul_ps(set(0.79788456f), x),
		    _mm512_add_ps(set(1), v));
		v = exp16(_mm512_mul_ps(set(-2), u));
		return _mm512_div_ps(x, _mm512_add_ps(set(1), v));
	case K_GELU_ERF:
		v = erf16(_mm512_mul_ps(set(0.70710678f), x));
		return _mm512_mul_ps(_mm512_mul_ps(set(0.5f), x),
		    _mm512_add_ps(set(1), v));
	case K_RELU:
		return _mm512_max_ps(set(0), x);
	case K_RELU2:
		x = _mm512_max_ps(set(0), x);
		return _mm512_mul_ps(x, x);
	case K_EXP:
		return exp16(x);
	case K_TANH:
		return tanh16(x);
	default:	/* K_SIGMOID */
		v = exp16(_mm512_xor_ps(x, set(-0.0f)));
		return _mm512_div_ps(set(1), _mm512_add_ps(set(1), v));
	}
}

/* ---- quantizing ---- */

/* The largest of n <= 256 magnitudes; these are ordered like their bits, NaN on
   top. */
static inline float
largest(const float *x, size_t n)
{
	__m512i top = _mm512_setzero_si512();
	uint32_t u;

	for (size_t i = 0; i < n; i += 16)
		top = _mm512_max_epu32(top, _mm512_and_si512(
		    _mm512_loadu_si512(x + i), _mm512_set1_epi32(0x7fffffff)));
	u = _mm512_reduce_max_epu32(top);
	return get_f32(&u);
}

/* 16 codes; returns their sum. t * x is within 127.5, so that adding 1.5 * 2^23
   leaves the rounded number in the low bits. */
static inline int32_t
quantize16(const float *x, float t, int8_t *q)
{
	const __m512 round = set(0x1.8p23f);
	__m512i v = _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(
	    _mm512_mul_ps(set(t), _mm512_loadu_ps(x)), round)),
	    _mm512_castps_si512(round));

	_mm_storeu_si128((void *)q, _mm512_cvtepi32_epi8(v));
	return _mm512_reduce_add_epi32(v);
}

static void
quantize_q8(const float *x, size_t n, struct act_q8 *b)
{
	for (; n > 0; n -= 32, x += 32, b++) {
		float a = largest(x, 32);

		if (!(a >= 0x1p-100f && a <= FLT_MAX)) {
			memset(b, 0, sizeof *b);
			b->d = a < 0x1p-100f ? 0 : NAN;
			continue;
		}
		b->d = a / 127;
		b->sum = quantize16(x, 127 / a, b->q) +
		    quantize16(x + 16, 127 / a, b->q + 16);
	}
}

static void
quantize_q8k(const float *x, size_t n, struct act_q8k *b)
{
	for (; n > 0; n -= 256, x += 256, b++) {
		float a = largest(x, 256), t;

		if (!(a >= 0x1p-100f && a <= FLT_MAX)) {
			memset(b, 0, sizeof *b);
			b->d = a < 0x1p-100f ? 0 : NAN;
			continue;
		}
		t = 127 / a;
		b->d = 1 / t;
		for (int s = 0; s < 16; s++)
			b->sum[s] = (int16_t)quantize16(x + 16 * s, t,
			    b->q + 16 * s);
	}
}

static void
quantize(enum act_kind kind, const float *x, size_t n, void *dst)
{
	if (kind == ACT_Q8)
		quantize_q8(x, n, dst);
	else
		quantize_q8k(x, n, dst);
}

static void
kv_store(enum kv_type type, const float *x, size_t n, void *dst)
{
	uint16_t *h = dst;

	if (type == KV_F32) {
		memcpy(dst, x, n * sizeof *x);
		return;
	}
	if (type == KV_Q8_0) {
		kv_store_q8_0(quantize, x, n, dst);
		return;
	}
	for (size_t i = 0; i < n; i += 16) {
		__mmask16 k = lanes(n - i);

		_mm256_mask_storeu_epi16(h + i, k, _mm512_cvtps_ph(
		    _mm512_maskz_loadu_ps(k, x + i),
		    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	}
}

/* ---- attention ---- */

/* 16 elements of a cached row from number i, a multiple of 16, on, or as many
   as k says */
KERNEL __m512
cached(enum kv_type type, const void *p, size_t i, __mmask16 k)
{
	const uint8_t *block;

	if (type == KV_F32 && k == 0xffff)
		return _mm512_loadu_ps((const float *)p + i);
	if (type == KV_F32)
		return _mm512_maskz_loadu_ps(k, (const float *)p + i);
	if (type == KV_Q8_0) {
		block = (const uint8_t *)p + i / 32 * KV_BLOCK_BYTES;
		return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_set1_epi16(
		    (short)get_u16(block))), _mm512_cvtepi32_ps(
		    _mm512_cvtepi8_epi32(_mm_loadu_si128(
		    (const void *)(block + 2 + i % 32)))));
	}
	return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(k,
	    (const uint16_t *)p + i));
}

/* The partial sums 0..15 of q . key, with 16..31 added on: TREE(32) begun; for
   nq queries, which are `dim` apart. */
KERNEL void
score_sums(enum kv_type type, const float *q, const void *key, size_t dim,
    size_t nq, __m512 *sum, size_t step)
{
	const __mmask16 all = 0xffff;
	__m512 lo[SHARED], hi[SHARED], key0, key1;
	size_t i, c;

	UNROLL
	for (c = 0; c < nq; c++)
		lo[c] = hi[c] = _mm512_setzero_ps();
	for (i = 0; i + 32 <= dim; i += 32) {
		key0 = cached(type, key, i, all);
		key1 = cached(type, key, i + 16, all);
		UNROLL
		for (c = 0; c < nq; c++) {
			lo[c] = _mm512_fmadd_ps(_mm512_loadu_ps(q + c * dim +
			    i), key0, lo[c]);
			hi[c] = _mm512_fmadd_ps(_mm512_loadu_ps(q + c * dim +
			    i + 16), key1, hi[c]);
		}
	}
	if (i < dim) {
		__mmask16 k0 = lanes(dim - i);
		__mmask16 k1 = lanes(dim - i > 16 ? dim - i - 16 : 0);

		key0 = cached(type, key, i, k0);
		if (k1 != 0)
			key1 = cached(type, key, i + 16, k1);
		UNROLL
		for (c = 0; c < nq; c++) {
			lo[c] = _mm512_mask3_fmadd_ps(_mm512_maskz_loadu_ps(k0,
			    q + c * dim + i), key0, lo[c], k0);
			if (k1 != 0)
				hi[c] = _mm512_mask3_fmadd_ps(
				    _mm512_maskz_loadu_ps(k1, q + c * dim + i +
				    16), key1, hi[c], k1);
		}
	}
	UNROLL
	for (c = 0; c < nq; c++)
		sum[c * step] = _mm512_add_ps(lo[c], hi[c]);
}

/* The scores of 16 keys, of which n exist, for nq queries. */
KERNEL void
scores16(enum kv_type type, const struct attend *a, const float *q, size_t nq,
    const uint8_t *key, size_t n, __m512 *score)
{
	const size_t bytes = kv_row_bytes(type, a->dim_k);
	__m512 s[SHARED][16];
	size_t i, c;

	for (i = 0; i < MIN(n, 16); i++)
		score_sums(type, q, key + i * bytes, a->dim_k, nq, &s[0][i],
		    16);
	for (; i < 16; i++)
		for (c = 0; c < nq; c++)
			s[c][i] = _mm512_setzero_ps();
	for (c = 0; c < nq; c++)
		score[c] = _mm512_mul_ps(set(a->scale), tree16(s[c]));
}

/* Soft cap and ALiBi of the scores of a block, its first key being so far from
   the query; and the maximum as in attend_block(). A function by itself, so
   that it does not disturb what is compiled around it. */
static __attribute__((noinline)) __m512
bend(const struct attend *a, float slope, size_t distance, uint64_t bits,
    float *p, __m512 top)
{
	const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
	    11, 12, 13, 14, 15);
	__m512 s, far;

	for (size_t i = 0; i < KEYS; i += 16) {
		__mmask16 k = (__mmask16)(bits >> i);

		s = _mm512_maskz_loadu_ps(k, p + i);
		if (a->cap != 0)
			s = _mm512_mul_ps(set(a->cap),
			    tanh16(_mm512_div_ps(s, set(a->cap))));
		far = _mm512_cvtepi32_ps(_mm512_sub_epi32(
		    _mm512_set1_epi32((int)(distance - i)), lane));
		if (a->slope != NULL)
			s = _mm512_sub_ps(s, _mm512_mul_ps(set(slope), far));
		_mm512_storeu_ps(p + i, s);
		top = _mm512_mask_max_ps(top, k, s, top);
	}
	return top;
}

/* For nq queries out = out * shrink + sum of p[j] * value j, for `wide` vectors
   of elements from number d on, the last of them k; v is value 0. */
KERNEL void
add_values(enum kv_type type, int wide, const struct attend *a, size_t nq,
    const uint8_t *v, size_t d, const float (*p)[KEYS], size_t n,
    const float *shrink, float *out, __mmask16 k)
{
	const size_t row = kv_row_bytes(type, a->dim_v);
	__m512 s[SHARED][WIDE], x;

	out += d;
	UNROLL
	for (size_t c = 0; c < nq; c++) {
		UNROLL
		for (int i = 0; i < wide; i++)
			s[c][i] = _mm512_mul_ps(_mm512_maskz_loadu_ps(
			    i == wide - 1 ? k : 0xffff,
			    out + c * a->dim_v + 16 * i), set(shrink[c]));
	}
	for (size_t j = 0; j < n; j++, v += row) {
		UNROLL
		for (int i = 0; i < wide; i++) {
			x = cached(type, v, d + 16 * (size_t)i,
			    i == wide - 1 ? k : 0xffff);
			UNROLL
			for (size_t c = 0; c < nq; c++)
				s[c][i] = _mm512_fmadd_ps(set(p[c][j]), x,
				    s[c][i]);
		}
	}
	UNROLL
	for (size_t c = 0; c < nq; c++) {
		UNROLL
		for (int i = 0; i < wide; i++)
			_mm512_mask_storeu_ps(out + c * a->dim_v + 16 * i,
			    i == wide - 1 ? k : 0xffff, s[c][i]);
	}
}

/* The next block, which comes from memory while this one is used: little by
   little, since a burst of fetches is waited for. */
struct ahead {
	const uint8_t *k, *v;
	size_t k_left, v_left;	/* bytes */
	size_t k_step, v_step;
};

KERNEL void
fetch(const uint8_t **p, size_t *left, size_t step)
{
	size_t i, n = MIN(step, *left);

	for (i = 0; i < n; i += 64)
		_mm_prefetch((const char *)*p + i, _MM_HINT_T1);
	*p += n;
	*left -= n;
}

/* What the walk over the keys has come to, for one query. */
struct walk {
	float m, l, slope;
};

/* A block of keys and values, for nq queries, 1 or SHARED, at the position of
   the key that is number `seen` from here, in this block or a later one. Plain:
   without window, cap and slopes. */
KERNEL void
attend_block(enum kv_type type, bool plain, const struct attend *a,
    const float *q, size_t nq, const uint8_t *key, const uint8_t *v,
    size_t seen, struct walk *w, struct ahead *next, float *out)
{
	const size_t row_k = kv_row_bytes(type, a->dim_k);
	const size_t n = MIN(KEYS, seen);
	const size_t from = plain ? 0 : attend_hidden(a, seen);
	/* a bit for each key that is seen */
	const uint64_t bits = ~(uint64_t)0 >> (KEYS - n) &
	    ~(uint64_t)0 << from;
	_Alignas(64) float p[SHARED][KEYS];
	__m512 top[SHARED], e[KEYS / 16], s[SHARED];
	float shrink[SHARED];
	size_t i, c;

	for (c = 0; c < nq; c++)
		top[c] = set(w[c].m);
	for (i = from / 16 * 16; i < n; i += 16) {
		fetch(&next->k, &next->k_left, next->k_step);
		fetch(&next->v, &next->v_left, next->v_step);
		scores16(type, a, q, nq, key + i * row_k, n - i, s);
		for (c = 0; c < nq; c++) {
			_mm512_store_ps(p[c] + i, s[c]);
			top[c] = _mm512_mask_max_ps(top[c],
			    (__mmask16)(bits >> i), s[c], top[c]);
		}
	}
	for (c = 0; c < nq; c++) {
		if (!plain && (a->cap != 0 || a->slope != NULL))
			top[c] = bend(a, w[c].slope, seen - 1, bits, p[c],
			    set(w[c].m));
		top[c] = set(_mm512_reduce_max_ps(top[c]));
		shrink[c] = _mm512_cvtss_f32(exp16(_mm512_sub_ps(set(w[c].m),
		    top[c])));
		w[c].m = _mm512_cvtss_f32(top[c]);
		UNROLL
		for (i = 0; i < KEYS; i += 16) {
			__mmask16 k = (__mmask16)(bits >> i);

			e[i / 16] = _mm512_maskz_mov_ps(k, exp16(_mm512_sub_ps(
			    _mm512_maskz_loadu_ps(k, p[c] + i), top[c])));
			_mm512_store_ps(p[c] + i, e[i / 16]);
		}
		/* TREE(64) begins with TREE(32)'s lanes */
		w[c].l = w[c].l * shrink[c] + tree32(
		    _mm512_add_ps(e[0], e[2]), _mm512_add_ps(e[1], e[3]));
	}
	v += from * kv_row_bytes(type, a->dim_v);
	for (i = 0; i + 16 * WIDE <= a->dim_v; i += 16 * WIDE)
		add_values(type, WIDE, a, nq, v, i, (void *)(p[0] + from),
		    n - from, shrink, out, 0xffff);
	for (; i < a->dim_v; i += 16)
		add_values(type, 1, a, nq, v, i, (void *)(p[0] + from),
		    n - from, shrink, out, lanes(a->dim_v - i));
}

/* Columns c0..c1 of no more than QUERIES queries, which use a block of keys and
   values while it is in the cache. To widen it to floats first, once for all of
   them, costs more than it saves: they push each other out of the cache. */
KERNEL void
attend_some(enum kv_type type, bool plain, const struct attend *a, size_t c0,
    size_t c1)
{
	const size_t row_k = kv_row_bytes(type, a->dim_k);
	const size_t row_v = kv_row_bytes(type, a->dim_v);
	const size_t hidden = plain ? 0 :
	    attend_hidden(a, a->n_keys + c0);
	/* in as many steps as there are calls that take one */
	const size_t steps = MAX((c1 - c0) * a->n_q / SHARED, 1) * (KEYS / 16);
	const size_t k_step = MAX(KEYS * row_k / steps, 64) / 64 * 64;
	const size_t v_step = MAX(KEYS * row_v / steps, 64) / 64 * 64;
	struct ahead next = {0};
	struct walk w[QUERIES], *at;
	size_t c, i, j, n;

	for (c = c0, at = w; c < c1; c++) {
		memset(a->out + c * a->out_stride, 0,
		    a->n_q * a->dim_v * sizeof *a->out);
		for (i = 0; i < a->n_q; i++)
			*at++ = (struct walk){
				a->sink != NULL ? a->sink[i] : -INFINITY,
				a->sink != NULL,
				a->slope != NULL ? a->slope[i] : 0
			};
	}
	for (j = hidden / KEYS * KEYS; j < a->n_keys + c1 - 1; j += KEYS) {
		const uint8_t *k = (const uint8_t *)a->k + j * row_k;
		const uint8_t *v = (const uint8_t *)a->v + j * row_v;

		if (j + KEYS < a->n_keys + c1 - 1) {
			n = MIN(KEYS, a->n_keys + c1 - 1 - j - KEYS);
			next = (struct ahead){
				k + KEYS * row_k, v + KEYS * row_v,
				n * row_k, n * row_v, k_step, v_step,
			};
		}
		for (c = c0, at = w; c < c1; c++, at += a->n_q) {
			const float *q = a->q + c * a->q_stride;
			float *out = a->out + c * a->out_stride;

			if (a->n_keys + c <= j)
				continue;
			n = a->n_keys + c - j;
			if (attend_hidden(a, n) >= KEYS)
				continue;
			for (i = 0; i + SHARED <= a->n_q; i += SHARED)
				attend_block(type, plain, a, q + i * a->dim_k,
				    SHARED, k, v, n, at + i,
				    &next, out + i * a->dim_v);
			for (; i < a->n_q; i++)
				attend_block(type, plain, a, q + i * a->dim_k,
				    1, k, v, n, at + i, &next,
				    out + i * a->dim_v);
		}
	}
	for (c = c0, at = w; c < c1; c++)
		for (i = 0; i < a->n_q; i++, at++) {
			float *out = a->out + c * a->out_stride + i * a->dim_v;

			for (size_t d = 0; d < a->dim_v; d += 16) {
				__mmask16 k = lanes(a->dim_v - d);

				_mm512_mask_storeu_ps(out + d, k,
				    _mm512_div_ps(_mm512_maskz_loadu_ps(k,
				    out + d), set(at->l)));
			}
		}
}

/* A function each: in one the compiler makes worse code of all. */
#define ATTEND(name, type, plain) \
	static __attribute__((noinline)) void \
	name(const struct attend *a, size_t c0, size_t c1) \
	{ \
		attend_some(type, plain, a, c0, c1); \
	}
ATTEND(attend_f16, KV_F16, false)
ATTEND(attend_f32, KV_F32, false)
ATTEND(attend_q8, KV_Q8_0, false)
ATTEND(attend_f16_plain, KV_F16, true)
ATTEND(attend_f32_plain, KV_F32, true)
ATTEND(attend_q8_plain, KV_Q8_0, true)

static void
attend(const struct attend *a)
{
	static void (*const some[][2])(const struct attend *a, size_t c0,
	    size_t c1) = {
		[KV_F16] = { attend_f16, attend_f16_plain },
		[KV_F32] = { attend_f32, attend_f32_plain },
		[KV_Q8_0] = { attend_q8, attend_q8_plain },
	};
	const bool plain = a->window == 0 && a->cap == 0 && a->slope == NULL;
	const size_t cols = QUERIES / a->n_q;

	if (cols == 0) {	/* more heads than are taken at once */
		struct attend half = *a;

		half.n_q = a->n_q / 2;
		attend(&half);
		half.q += half.n_q * a->dim_k;
		half.out += half.n_q * a->dim_v;
		if (a->slope != NULL)
			half.slope += half.n_q;
		if (a->sink != NULL)
			half.sink += half.n_q;
		half.n_q = a->n_q - half.n_q;
		attend(&half);
		return;
	}
	for (size_t c = 0; c < a->n_cols; c += cols)
		some[a->type][plain](a, c, MIN(c + cols, a->n_cols));
}

/* ---- row operations ---- */

/* SUM32 of the squares of x, or of x. */
KERNEL float
sum32(bool squares, const float *x, size_t n)
{
	__m512 s[2] = { _mm512_setzero_ps(), _mm512_setzero_ps() };

	for (size_t i = 0; i < n; i += 32) {
		UNROLL
		for (size_t h = 0; h < 2; h++) {
			size_t at = i + 16 * h;
			__mmask16 k = lanes(n > at ? n - at : 0);
			__m512 v = _mm512_maskz_loadu_ps(k, x + at);

			s[h] = squares ? _mm512_mask3_fmadd_ps(v, v, s[h], k) :
			    _mm512_mask_add_ps(s[h], k, s[h], v);
		}
	}
	return tree32(s[0], s[1]);
}

/* A loop over a row: v is 16 elements of y or fewer, k which of them exist;
   the statement says what they become. */
#define EACH(y, n, statement) \
	for (size_t i = 0; i < (n); i += 16) { \
		__mmask16 k = lanes((n) - i); \
		__m512 v = _mm512_maskz_loadu_ps(k, (y) + i); \
		statement; \
		_mm512_mask_storeu_ps((y) + i, k, v); \
	}
/* The same elements of another row. */
#define OTHER(x) _mm512_maskz_loadu_ps(k, (x) + i)

static void
add(float *y, const float *x, size_t n)
{
	EACH(y, n, v = _mm512_add_ps(v, OTHER(x)))
}

static void
mul(float *y, const float *x, size_t n)
{
	EACH(y, n, v = _mm512_mul_ps(v, OTHER(x)))
}

static void
scale(float *y, float a, size_t n)
{
	EACH(y, n, v = _mm512_mul_ps(v, set(a)))
}

static void
axpy(float *y, float a, const float *x, size_t n)
{
	EACH(y, n, v = _mm512_fmadd_ps(set(a), OTHER(x), v))
}

static void
rms_norm(const float *x, const float *w, size_t n, float eps, float *y)
{
	float r = 1 / sqrtf(sum32(true, x, n) / (float)n + eps);

	if (w != NULL)
		EACH(y, n, v = _mm512_mul_ps(_mm512_mul_ps(OTHER(x), set(r)),
		    OTHER(w)))
	else
		EACH(y, n, v = _mm512_mul_ps(OTHER(x), set(r)))
}

static void
layer_norm(const float *x, const float *w, const float *b, size_t n, float eps,
    float *y)
{
	float mean = sum32(false, x, n) / (float)n, r;

	EACH(y, n, v = _mm512_sub_ps(OTHER(x), set(mean)))
	r = 1 / sqrtf(sum32(true, y, n) / (float)n + eps);
	scale(y, r, n);
	if (w != NULL)
		mul(y, w, n);
	if (b != NULL)
		add(y, b, n);
}

/* VMAXPS keeps its second operand if the first is NaN or no larger. */
static float
max(const float *x, size_t n)
{
	__m512 top = set(-INFINITY);
	float m;

	for (size_t i = 0; i < n; i += 16) {
		__mmask16 k = lanes(n - i);

		top = _mm512_mask_max_ps(top, k, OTHER(x), top);
	}
	m = _mm512_reduce_max_ps(top);
	/* of zeros with both signs, the first */
	for (size_t i = 0; m == 0 && i < n; i++)
		if (x[i] == 0)
			return x[i];
	return m;
}

static void
softmax(float *x, size_t n)
{
	float m = max(x, n), l;

	EACH(x, n, v = exp16(_mm512_sub_ps(v, set(m))))
	l = sum32(false, x, n);
	EACH(x, n, v = _mm512_div_ps(v, set(l)))
}

static void
apply(enum k_fn fn, float *x, size_t n)
{
	EACH(x, n, v = apply16(fn, v))
}

static void
gate(enum k_fn fn, float *g, const float *u, size_t n)
{
	EACH(g, n, v = _mm512_mul_ps(apply16(fn, v), OTHER(u)))
}

/* Pairs (p, p + half) of one head. */
static void
rope_halves(float *x, size_t half, const float *cs, const float *sn)
{
	for (size_t i = 0; i < half; i += 16) {
		__mmask16 k = lanes(half - i);
		__m512 a = OTHER(x), b = OTHER(x + half);
		__m512 c = OTHER(cs), s = OTHER(sn);

		_mm512_mask_storeu_ps(x + i, k, _mm512_sub_ps(
		    _mm512_mul_ps(a, c), _mm512_mul_ps(b, s)));
		_mm512_mask_storeu_ps(x + half + i, k, _mm512_add_ps(
		    _mm512_mul_ps(a, s), _mm512_mul_ps(b, c)));
	}
}

/* Pairs (2p, 2p + 1): every second element takes the difference. */
static void
rope_neighbours(float *x, size_t n_pairs, const float *cs, const float *sn)
{
	const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3,
	    4, 4, 5, 5, 6, 6, 7, 7);

	for (size_t i = 0; i < n_pairs; i += 8) {
		__mmask16 k = lanes(2 * (n_pairs - i));
		__mmask8 h = (__mmask8)lanes(MIN(8, n_pairs - i));
		__m512 v = _mm512_maskz_loadu_ps(k, x + 2 * i), c, s, t;

		c = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(
		    _mm256_maskz_loadu_ps(h, cs + i)));
		s = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(
		    _mm256_maskz_loadu_ps(h, sn + i)));
		t = _mm512_mul_ps(_mm512_permute_ps(v, 0xb1), s);
		v = _mm512_mul_ps(v, c);
		v = _mm512_mask_sub_ps(_mm512_add_ps(v, t), 0x5555, v, t);
		_mm512_mask_storeu_ps(x + 2 * i, k, v);
	}
}

static void
rope(float *x, size_t n_heads, size_t head_dim, size_t n_rot, const float *cs,
    const float *sn, bool half_split)
{
	for (size_t h = 0; h < n_heads; h++, x += head_dim) {
		if (half_split)
			rope_halves(x, n_rot / 2, cs, sn);
		else
			rope_neighbours(x, n_rot / 2, cs, sn);
	}
}

AVX512_END

const struct kernels kernels_avx512 = {
	.name = "avx512",
	.runs_here = runs_here,
	.quantize = quantize,
	.matmul = matmul,
	.attend = attend,
	.kv_store = kv_store,
	.rms_norm = rms_norm,
	.layer_norm = layer_norm,
	.softmax = softmax,
	.rope = rope,
	.add = add,
	.mul = mul,
	.scale = scale,
	.axpy = axpy,
	.apply = apply,
	.gate = gate,
	.max = max
};

#endif
