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

/* Columns from which on unpacking a tile of rows pays. */
#define MANY 4

static void
matmul(const struct matmul *m, size_t r0, size_t r1)
{
	size_t end = r0;

	if (m->n_cols >= MANY) {
		end = r1 - (r1 - r0) % TILE;
		avx512_tiles(m, r0, end);
	}
	if (end < r1)
		avx512_rows(m, end, r1);
}

AVX512_BEGIN

/* ---- elementary functions, the operations of func.c ---- */

static inline __m512
set(float x)
{
	return _mm512_set1_ps(x);
}

/*
 * VMINPS and VMAXPS give their second operand if one is NaN, as ?: does when
 * the constant comes first. VSCALEFPS multiplies with a power of two, rounding
 * once, as func.c does in two steps.
 */
KERNEL __m512
exp16(__m512 x)
{
	const __m512 round = set(0x1.8p23f);
	__m512 n, r, p;

	x = _mm512_min_ps(set(89), x);
	x = _mm512_max_ps(set(-104), x);
	n = _mm512_sub_ps(_mm512_fmadd_ps(x, set(0x1.715476p+0f), round),
	    round);
	r = _mm512_fmadd_ps(n, set(-0x1.62e43p-1f), x);
	r = _mm512_fmadd_ps(n, set(0x1.05c61p-29f), r);
	p = set(0x1.6d1254p-10f);
	p = _mm512_fmadd_ps(p, r, set(0x1.120cbap-7f));
	p = _mm512_fmadd_ps(p, r, set(0x1.555518p-5f));
	p = _mm512_fmadd_ps(p, r, set(0x1.5554dcp-3f));
	p = _mm512_fmadd_ps(p, r, set(0x1p-1f));
	p = _mm512_add_ps(set(1),
	    _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r));
	return _mm512_scalef_ps(p, n);
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

typedef __m512 vector;
#define LANES 16
#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, v) _mm512_storeu_ps(p, v)
#define v_load_some(p, n) _mm512_maskz_loadu_ps(lanes(n), p)
#define v_store_some(p, v, n) _mm512_mask_storeu_ps(p, lanes(n), v)
#define v_half(p) halves(p)
#define v_half_some(p, n) \
	_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes(n), p))
#define v_half_all(p) \
	_mm512_cvtph_ps(_mm256_set1_epi16((short)get_u16(p)))
#define v_codes(p) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32( \
	_mm_loadu_si128((const void *)(p))))
#define v_set(x) set(x)
#define v_add(a, b) _mm512_add_ps(a, b)
#define v_sub(a, b) _mm512_sub_ps(a, b)
#define v_mul(a, b) _mm512_mul_ps(a, b)
#define v_div(a, b) _mm512_div_ps(a, b)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_exp(v) exp16(v)
#define v_tanh(v) tanh16(v)
#define v_max(a, b) _mm512_max_ps(a, b)
#define v_above(a, b) (_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0)
#define v_top(v) _mm512_reduce_max_ps(v)
#define v_down(n) _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_set1_epi32(n), \
	_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, \
	15)))
#define v_only(v, from, end) _mm512_mask_mov_ps(set(-INFINITY), \
	lanes((size_t)MAX(end, 0)) & ~lanes((size_t)MAX(from, 0)), v)
#define KINDS(X) X(8, 2) X(4, 4) X(2, 4) X(1, 4)
#include "attend.h"

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
