/* SPDX-License-Identifier: MIT */
/*
 * The AVX2 set: choice of products, attention and row operations. Products are
 * in avx2_rows.c, avx2_tile.c (small builds: avx2_small.c) and avx2_float.c.
 */
#if defined(__x86_64__)
#include <float.h>

#include "avx2.h"

static void
matmul(const struct matmul *m, size_t r0, size_t r1)
{
	if (kernel_act_kind(m->type) == ACT_F32)
		avx2_floats(m, r0, r1);
#ifdef PICO_SMALL
	else
		avx2_small(m, r0, r1);
#else
	else if (m->n_cols <= ROW_COLS && m->n_in <= ROW_LENGTH)
		avx2_rows(m, r0, r1);
	else
		avx2_tiles(m, r0, r1);
#endif
}

AVX2_BEGIN

/* ---- functions: the operations of func.c ---- */

TEMPLATE __m256
constant(float f)
{
	return _mm256_set1_ps(f);
}

/* 2^n, as there */
TEMPLATE __m256
pow2(__m256i n)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(
	    _mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

LARGE __m256
exp8(__m256 x)
{
	const __m256 round = constant(0x1.8p23f);
	__m256 t, n, r, p;
	__m256i k, half;

	/* vminps and vmaxps give their second argument if one is NaN */
	x = _mm256_min_ps(constant(89), x);
	x = _mm256_max_ps(constant(-104), x);
	t = _mm256_fmadd_ps(x, constant(0x1.715476p+0f), round);
	n = _mm256_sub_ps(t, round);
	k = _mm256_sub_epi32(_mm256_castps_si256(t),
	    _mm256_castps_si256(round));
	r = _mm256_fmadd_ps(n, constant(-0x1.62e43p-1f), x);
	r = _mm256_fmadd_ps(n, constant(0x1.05c61p-29f), r);
	p = constant(0x1.6d1254p-10f);
	p = _mm256_fmadd_ps(p, r, constant(0x1.120cbap-7f));
	p = _mm256_fmadd_ps(p, r, constant(0x1.555518p-5f));
	p = _mm256_fmadd_ps(p, r, constant(0x1.5554dcp-3f));
	p = _mm256_fmadd_ps(p, r, constant(0x1p-1f));
	p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r);
	p = _mm256_add_ps(constant(1), p);
	half = _mm256_srai_epi32(k, 1);
	return _mm256_mul_ps(_mm256_mul_ps(p, pow2(half)),
	    pow2(_mm256_sub_epi32(k, half)));
}

LARGE __m256
tanh8(__m256 x)
{
	const __m256 sign = constant(-0.0f);
	__m256 a = _mm256_andnot_ps(sign, x), z = _mm256_mul_ps(x, x), p, big;

	p = constant(-0x1.b92196p-12f);
	p = _mm256_fmadd_ps(p, z, constant(0x1.490d0ap-9f));
	p = _mm256_fmadd_ps(p, z, constant(-0x1.0d515p-7f));
	p = _mm256_fmadd_ps(p, z, constant(0x1.62e11cp-6f));
	p = _mm256_fmadd_ps(p, z, constant(-0x1.b9d574p-5f));
	p = _mm256_fmadd_ps(p, z, constant(0x1.110ffep-3f));
	p = _mm256_fmadd_ps(p, z, constant(-0x1.555554p-2f));
	p = _mm256_fmadd_ps(_mm256_mul_ps(a, z), p, a);
	big = exp8(_mm256_mul_ps(constant(2), a));
	big = _mm256_div_ps(constant(2), _mm256_add_ps(big, constant(1)));
	p = _mm256_blendv_ps(_mm256_sub_ps(constant(1), big), p,
	    _mm256_cmp_ps(a, constant(1), _CMP_LT_OQ));
	return _mm256_or_ps(_mm256_andnot_ps(sign, p), _mm256_and_ps(sign, x));
}

LARGE __m256
erf8(__m256 x)
{
	const __m256 sign = constant(-0.0f);
	__m256 a = _mm256_andnot_ps(sign, x), z = _mm256_mul_ps(x, x), p, q;
	__m256 small = _mm256_cmp_ps(a, constant(1), _CMP_LT_OQ);

	p = constant(0x1.4a5690p-14f);
	p = _mm256_fmadd_ps(p, z, constant(-0x1.a45088p-11f));
	p = _mm256_fmadd_ps(p, z, constant(0x1.541270p-8f));
	p = _mm256_fmadd_ps(p, z, constant(-0x1.b7fabap-6f));
	p = _mm256_fmadd_ps(p, z, constant(0x1.ce2d10p-4f));
	p = _mm256_fmadd_ps(p, z, constant(-0x1.81273ep-2f));
	p = _mm256_fmadd_ps(p, z, constant(0x1.06eba8p-3f));
	p = _mm256_fmadd_ps(a, p, a);
	a = _mm256_min_ps(constant(4), a);
	q = constant(-0x1.b77830p-20f);
	q = _mm256_fmadd_ps(q, a, constant(0x1.825ce4p-15f));
	q = _mm256_fmadd_ps(q, a, constant(-0x1.38e5e6p-11f));
	q = _mm256_fmadd_ps(q, a, constant(0x1.37ecc6p-8f));
	q = _mm256_fmadd_ps(q, a, constant(-0x1.b0e246p-6f));
	q = _mm256_fmadd_ps(q, a, constant(0x1.c2e356p-4f));
	q = _mm256_fmadd_ps(q, a, constant(0x1.437eb4p-1f));
	q = _mm256_fmadd_ps(q, a, constant(0x1.2156fap+0f));
	q = _mm256_fmadd_ps(q, a, constant(-0x1.4fb068p-12f));
	q = _mm256_sub_ps(constant(1), exp8(_mm256_xor_ps(q, sign)));
	p = _mm256_blendv_ps(q, p, small);
	return _mm256_or_ps(_mm256_andnot_ps(sign, p), _mm256_and_ps(sign, x));
}

/* x / (1 + exp(y)) */
TEMPLATE __m256
sigmoid_part(__m256 x, __m256 y)
{
	return _mm256_div_ps(x, _mm256_add_ps(constant(1), exp8(y)));
}

static inline __m256
apply8(enum k_fn fn, __m256 x)
{
	__m256 u;

	switch (fn) {
	case K_SILU:
		return sigmoid_part(x, _mm256_xor_ps(x, constant(-0.0f)));
	case K_GELU:
		u = _mm256_mul_ps(_mm256_mul_ps(constant(0.044715f), x), x);
		u = _mm256_mul_ps(_mm256_mul_ps(constant(0.79788456f), x),
		    _mm256_add_ps(constant(1), u));
		return sigmoid_part(x, _mm256_mul_ps(constant(-2), u));
	case K_GELU_ERF:
		u = _mm256_add_ps(constant(1),
		    erf8(_mm256_mul_ps(constant(0.70710678f), x)));
		return _mm256_mul_ps(_mm256_mul_ps(constant(0.5f), x), u);
	case K_RELU:
		return _mm256_max_ps(constant(0), x);
	case K_RELU2:
		x = _mm256_max_ps(constant(0), x);
		return _mm256_mul_ps(x, x);
	case K_EXP:
		return exp8(x);
	case K_TANH:
		return tanh8(x);
	default:	/* K_SIGMOID */
		return sigmoid_part(constant(1),
		    _mm256_xor_ps(x, constant(-0.0f)));
	}
}

static void
apply(enum k_fn fn, float *x, size_t n)
{
	for (size_t i = 0; i < n; i += 8)
		store(x + i, apply8(fn, load(x + i, n - i)), n - i);
}

static void
gate(enum k_fn fn, float *g, const float *u, size_t n)
{
	for (size_t i = 0; i < n; i += 8)
		store(g + i, _mm256_mul_ps(apply8(fn, load(g + i, n - i)),
		    load(u + i, n - i)), n - i);
}

/* ---- quantizing activations ---- */

/* 2^23 + 2^22 + code for eight codes, so that their low bytes are the codes. */
TEMPLATE __m256i
codes(__m256 x, __m256 t)
{
	const __m256 round = constant(0x1.8p23f);

	return _mm256_sub_epi32(_mm256_castps_si256(
	    _mm256_add_ps(_mm256_mul_ps(t, x), round)),
	    _mm256_castps_si256(round));
}

/* Four times eight codes, which fit in a byte, in order. */
TEMPLATE __m256i
pack(__m256i a, __m256i b, __m256i c, __m256i d)
{
	return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(
	    _mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)),
	    _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The largest magnitude of n floats, a multiple of 32, as bits: they are
   ordered like the magnitudes, with NaN on top. */
TEMPLATE uint32_t
top_bits(const float *x, size_t n)
{
	const __m256i mask = _mm256_set1_epi32(0x7fffffff);
	__m256i top = _mm256_setzero_si256();
	__m128i t;

	for (size_t i = 0; i < n; i += 8)
		top = _mm256_max_epi32(top,
		    _mm256_and_si256(mask, load_bytes(x + i)));
	t = _mm_max_epi32(_mm256_castsi256_si128(top),
	    _mm256_extracti128_si256(top, 1));
	t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0x4e));
	t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(t);
}

/* Codes of a block; returns t, and in *a the largest magnitude. */
LARGE float
quantize_block(const float *x, size_t n, int8_t *q, float *a)
{
	uint32_t top = top_bits(x, n);
	__m256 t;

	*a = get_f32(&top);
	if (!(*a >= 0x1p-100f) || *a > FLT_MAX) {
		memset(q, 0, n);
		return 0;
	}
	t = _mm256_set1_ps(127 / *a);
	for (size_t i = 0; i < n; i += 32)
		_mm256_storeu_si256((__m256i *)(void *)(q + i), pack(
		    codes(_mm256_loadu_ps(x + i), t),
		    codes(_mm256_loadu_ps(x + i + 8), t),
		    codes(_mm256_loadu_ps(x + i + 16), t),
		    codes(_mm256_loadu_ps(x + i + 24), t)));
	return _mm256_cvtss_f32(t);
}

/* The scale of a block without codes. */
static float
no_scale(float a)
{
	return a < 0x1p-100f ? 0 : NAN;
}

/* Sums of the bytes 4i..4i+3 */
TEMPLATE __m256i
sums_of_4(const int8_t *q)
{
	__m256i s = _mm256_maddubs_epi16(_mm256_set1_epi8(1), load_bytes(q));

	return _mm256_madd_epi16(s, _mm256_set1_epi16(1));
}

static void
quantize(enum act_kind kind, const float *x, size_t n, void *dst)
{
	struct act_q8 *b8 = dst;
	struct act_q8k *bk = dst;
	float t, a;
	__m256i s;
	__m128i u;

	if (kind == ACT_Q8) {
		for (size_t b = 0; b < n / 32; b++) {
			t = quantize_block(x + 32 * b, 32, b8[b].q, &a);
			b8[b].d = t != 0 ? a / 127 : no_scale(a);
			s = sums_of_4(b8[b].q);
			u = _mm_add_epi32(_mm256_castsi256_si128(s),
			    _mm256_extracti128_si256(s, 1));
			u = _mm_hadd_epi32(u, u);
			u = _mm_hadd_epi32(u, u);
			b8[b].sum = _mm_cvtsi128_si32(u);
		}
		return;
	}
	for (size_t b = 0; b < n / 256; b++) {
		t = quantize_block(x + 256 * b, 256, bk[b].q, &a);
		bk[b].d = t != 0 ? 1 / t : no_scale(a);
		for (int i = 0; i < 256; i += 64) {
			/* sums of 16: two of the first 32 codes in the first
			   two lanes of each half, then of the others */
			s = _mm256_hadd_epi32(sums_of_4(bk[b].q + i),
			    sums_of_4(bk[b].q + i + 32));
			s = _mm256_hadd_epi32(s, s);
			u = _mm_unpacklo_epi32(_mm256_castsi256_si128(s),
			    _mm256_extracti128_si256(s, 1));
			u = _mm_packs_epi32(u, u);
			_mm_storel_epi64((__m128i *)(void *)
			    (bk[b].sum + i / 16), u);
		}
	}
}

/* ---- sums ---- */

/* TREE(32) of four vectors of partial sums. */
TEMPLATE float
tree32(const __m256 s[4])
{
	return tree8(_mm256_add_ps(_mm256_add_ps(s[0], s[2]),
	    _mm256_add_ps(s[1], s[3])));
}

/*
 * SUM32 of x, or of its squares. What is behind the last element must not be
 * added as a 0, since that could turn a sum of -0 into +0; blending keeps the
 * partial sums as they are.
 */
LARGE float
sum32(const float *x, size_t n, bool squares)
{
	__m256 s[4] = { constant(0), constant(0), constant(0), constant(0) };
	size_t i = 0;

	for (; n - i >= 32; i += 32) {
		UNROLL
		for (int j = 0; j < 4; j++) {
			__m256 v = _mm256_loadu_ps(x + i + 8 * j);

			s[j] = squares ? _mm256_fmadd_ps(v, v, s[j]) :
			    _mm256_add_ps(s[j], v);
		}
	}
	for (int j = 0; i < n; i += 8, j++) {
		__m256 v = load(x + i, n - i), t;

		t = squares ? _mm256_fmadd_ps(v, v, s[j]) :
		    _mm256_add_ps(s[j], v);
		s[j] = _mm256_blendv_ps(s[j], t,
		    _mm256_castsi256_ps(first(n - i)));
	}
	return tree32(s);
}

TEMPLATE float
top_lane(__m256 v)
{
	__m128 t = _mm_max_ps(_mm256_castps256_ps128(v),
	    _mm256_extractf128_ps(v, 1));

	t = _mm_max_ps(t, _mm_movehl_ps(t, t));
	return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}

/* The largest element, but perhaps a zero with the wrong sign. */
LARGE float
largest(const float *x, size_t n)
{
	__m256 m = constant(-INFINITY);

	/* vmaxps gives its second argument if one is NaN; the elements behind
	   the last are replaced by m */
	for (size_t i = 0; i < n; i += 8)
		m = _mm256_max_ps(_mm256_blendv_ps(m, load(x + i, n - i),
		    _mm256_castsi256_ps(first(n - i))), m);
	return top_lane(m);
}

/* Of zeros with different signs the first is the maximum. */
static float
max(const float *x, size_t n)
{
	float m = largest(x, n);

	for (size_t i = 0; m == 0 && i < n; i++)
		if (x[i] == 0)
			return x[i];
	return m;
}

/* ---- attention ---- */

LARGE __m256
few_halves(const void *p, size_t n)
{
	uint16_t few[8] = { 0 };

	memcpy(few, p, n * sizeof *few);
	return load_f16(few);
}

/* n, n - 1, ... */
TEMPLATE __m256
down(int n)
{
	return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_set1_epi32(n),
	    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

TEMPLATE __m256
only(__m256 v, int from, int end)
{
	__m256i keep = _mm256_andnot_si256(first((size_t)MAX(from, 0)),
	    first((size_t)MAX(end, 0)));

	return _mm256_blendv_ps(constant(-INFINITY), v,
	    _mm256_castsi256_ps(keep));
}

typedef __m256 vector;
#define LANES 8
#define v_load(p) _mm256_loadu_ps((const float *)(p))
#define v_store(p, v) _mm256_storeu_ps(p, v)
#define v_load_some(p, n) load(p, n)
#define v_store_some(p, v, n) store(p, v, n)
#define v_half(p) load_f16(p)
#define v_half_some(p, n) few_halves(p, n)
#define v_half_all(p) _mm256_cvtph_ps(_mm_set1_epi16((short)get_u16(p)))
#define v_codes(p) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32( \
	_mm_loadl_epi64((const void *)(p))))
#define v_set(x) constant(x)
#define v_add(a, b) _mm256_add_ps(a, b)
#define v_sub(a, b) _mm256_sub_ps(a, b)
#define v_mul(a, b) _mm256_mul_ps(a, b)
#define v_div(a, b) _mm256_div_ps(a, b)
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_exp(v) exp8(v)
#define v_tanh(v) tanh8(v)
#define v_max(a, b) _mm256_max_ps(a, b)
#define v_above(a, b) \
	(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0)
#define v_top(v) top_lane(v)
#define v_down(n) down(n)
#define v_only(v, from, end) only(v, from, end)
#ifdef PICO_SMALL
#define KINDS(X) X(4, 2) X(1, 8)
#else
#define KINDS(X) X(4, 2) X(2, 4) X(1, 8)
#endif
#include "attend.h"

static void
kv_store(enum kv_type type, const float *x, size_t n, void *dst)
{
	uint16_t *h = dst, few[8];

	if (type == KV_F32) {
		memcpy(dst, x, n * sizeof *x);
		return;
	}
	if (type == KV_Q8_0) {
		kv_store_q8_0(quantize, x, n, dst);
		return;
	}
	for (size_t i = 0; i < n; i += 8) {
		__m128i v = _mm256_cvtps_ph(load(x + i, n - i),
		    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);

		_mm_storeu_si128((__m128i *)(void *)few, v);
		memcpy(h + i, few, MIN(8, n - i) * sizeof *h);
	}
}

/* ---- row operations ---- */

static void
rms_norm(const float *x, const float *w, size_t n, float eps, float *y)
{
	__m256 r = constant(1 / sqrtf(sum32(x, n, true) / (float)n + eps)), v;

	for (size_t i = 0; i < n; i += 8) {
		v = _mm256_mul_ps(load(x + i, n - i), r);
		if (w != NULL)
			v = _mm256_mul_ps(v, load(w + i, n - i));
		store(y + i, v, n - i);
	}
}

static void
layer_norm(const float *x, const float *w, const float *b, size_t n, float eps,
    float *y)
{
	__m256 mean = constant(sum32(x, n, false) / (float)n), r, v;

	for (size_t i = 0; i < n; i += 8)
		store(y + i, _mm256_sub_ps(load(x + i, n - i), mean), n - i);
	r = constant(1 / sqrtf(sum32(y, n, true) / (float)n + eps));
	for (size_t i = 0; i < n; i += 8) {
		v = _mm256_mul_ps(load(y + i, n - i), r);
		if (w != NULL)
			v = _mm256_mul_ps(v, load(w + i, n - i));
		if (b != NULL)
			v = _mm256_add_ps(v, load(b + i, n - i));
		store(y + i, v, n - i);
	}
}

static void
softmax(float *x, size_t n)
{
	__m256 m = constant(largest(x, n)), l;

	for (size_t i = 0; i < n; i += 8)
		store(x + i, exp8(_mm256_sub_ps(load(x + i, n - i), m)), n - i);
	l = constant(sum32(x, n, false));
	for (size_t i = 0; i < n; i += 8)
		store(x + i, _mm256_div_ps(load(x + i, n - i), l), n - i);
}

/* Rotates pairs (a[i], b[i]), i < n. */
static void
rotate_halves(float *a, float *b, const float *cs, const float *sn, size_t n)
{
	for (size_t i = 0; i < n; i += 8) {
		size_t left = n - i;
		__m256 c = load(cs + i, left), s = load(sn + i, left);
		__m256 u = load(a + i, left), v = load(b + i, left);

		store(a + i, _mm256_sub_ps(_mm256_mul_ps(u, c),
		    _mm256_mul_ps(v, s)), left);
		store(b + i, _mm256_add_ps(_mm256_mul_ps(u, s),
		    _mm256_mul_ps(v, c)), left);
	}
}

/* Each of four floats twice. */
TEMPLATE __m256
twice(__m128 v)
{
	return _mm256_set_m128(_mm_unpackhi_ps(v, v), _mm_unpacklo_ps(v, v));
}

/* Rotates pairs (a[2i], a[2i + 1]), i < n. */
static void
rotate_neighbours(float *a, const float *cs, const float *sn, size_t n)
{
	for (size_t i = 0; i < n; i += 4) {
		size_t left = n - i;
		__m256 c = twice(_mm256_castps256_ps128(
		    load(cs + i, MIN(4, left))));
		__m256 s = twice(_mm256_castps256_ps128(
		    load(sn + i, MIN(4, left))));
		__m256 v = load(a + 2 * i, 2 * left);

		/* subtracts in the even lanes, adds in the odd ones */
		store(a + 2 * i, _mm256_addsub_ps(_mm256_mul_ps(v, c),
		    _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), s)), 2 * left);
	}
}

static void
rope(float *x, size_t n_heads, size_t head_dim, size_t n_rot, const float *cs,
    const float *sn, bool half_split)
{
	for (size_t h = 0; h < n_heads; h++, x += head_dim) {
		if (half_split)
			rotate_halves(x, x + n_rot / 2, cs, sn, n_rot / 2);
		else
			rotate_neighbours(x, cs, sn, n_rot / 2);
	}
}

static void
add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += 8)
		store(y + i, _mm256_add_ps(load(y + i, n - i),
		    load(x + i, n - i)), n - i);
}

static void
mul(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += 8)
		store(y + i, _mm256_mul_ps(load(y + i, n - i),
		    load(x + i, n - i)), n - i);
}

static void
scale(float *y, float a, size_t n)
{
	for (size_t i = 0; i < n; i += 8)
		store(y + i, _mm256_mul_ps(load(y + i, n - i), constant(a)),
		    n - i);
}

static void
axpy(float *y, float a, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += 8)
		store(y + i, _mm256_fmadd_ps(constant(a), load(x + i, n - i),
		    load(y + i, n - i)), n - i);
}

AVX2_END

const struct kernels kernels_avx2 = {
	.name = "avx2",
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

#else
typedef int nothing_here;
#endif
