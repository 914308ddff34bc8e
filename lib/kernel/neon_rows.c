/* SPDX-License-Identifier: MIT */
/*
 * NEON: attention, activations and all that goes element by element. What does
 * not fill a vector at the end of a row is left to scalar code.
 */
#ifdef __aarch64__

#include <float.h>

#include "neon.h"

/* ---- elementary functions, as in func.c ---- */

static inline float32x4_t
splat(float x)
{
	return vdupq_n_f32(x);
}

/* 2^n from the low bits of n */
static inline float32x4_t
pow2_v(uint32x4_t n)
{
	return vreinterpretq_f32_u32(vshlq_n_u32(
	    vaddq_u32(n, vdupq_n_u32(127)), 23));
}

static inline float32x4_t
exp_v(float32x4_t x)
{
	const float32x4_t round = splat(0x1.8p23f);
	float32x4_t t, n, r, p;
	uint32x4_t k, half;

	/* both keep NaN, as the comparisons of k_exp() do */
	x = vminq_f32(x, splat(89));
	x = vmaxq_f32(x, splat(-104));
	t = vfmaq_f32(round, x, splat(0x1.715476p+0f));
	n = vsubq_f32(t, round);
	k = vsubq_u32(vreinterpretq_u32_f32(t), vreinterpretq_u32_f32(round));
	r = vfmaq_f32(x, n, splat(-0x1.62e43p-1f));
	r = vfmaq_f32(r, n, splat(0x1.05c61p-29f));
	p = splat(0x1.6d1254p-10f);
	p = vfmaq_f32(splat(0x1.120cbap-7f), p, r);
	p = vfmaq_f32(splat(0x1.555518p-5f), p, r);
	p = vfmaq_f32(splat(0x1.5554dcp-3f), p, r);
	p = vfmaq_f32(splat(0x1p-1f), p, r);
	p = vaddq_f32(splat(1), vfmaq_f32(r, vmulq_f32(r, r), p));
	half = vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(k), 1));
	return vmulq_f32(vmulq_f32(p, pow2_v(half)),
	    pow2_v(vsubq_u32(k, half)));
}

/* c[0] x^(n-1) + ... + c[n-1] by fma, highest power first */
static inline float32x4_t
horner(const float *c, size_t n, float32x4_t x)
{
	float32x4_t p = splat(c[0]);

	for (size_t i = 1; i < n; i++)
		p = vfmaq_f32(splat(c[i]), p, x);
	return p;
}

static inline float32x4_t
tanh_v(float32x4_t x)
{
	static const float near[] = {
		-0x1.b92196p-12f, 0x1.490d0ap-9f, -0x1.0d515p-7f,
		0x1.62e11cp-6f, -0x1.b9d574p-5f, 0x1.110ffep-3f,
		-0x1.555554p-2f
	};
	float32x4_t a = vabsq_f32(x), z = vmulq_f32(x, x), p, big;

	p = vfmaq_f32(a, vmulq_f32(a, z), horner(near, COUNT(near), z));
	big = vaddq_f32(exp_v(vmulq_f32(splat(2), a)), splat(1));
	big = vsubq_f32(splat(1), vdivq_f32(splat(2), big));
	p = vbslq_f32(vcltq_f32(a, splat(1)), p, big);
	return vbslq_f32(vdupq_n_u32(0x80000000), x, p);
}

static inline float32x4_t
erf_v(float32x4_t x)
{
	static const float near[] = {
		0x1.4a5690p-14f, -0x1.a45088p-11f, 0x1.541270p-8f,
		-0x1.b7fabap-6f, 0x1.ce2d10p-4f, -0x1.81273ep-2f,
		0x1.06eba8p-3f
	};
	static const float far[] = {
		-0x1.b77830p-20f, 0x1.825ce4p-15f, -0x1.38e5e6p-11f,
		0x1.37ecc6p-8f, -0x1.b0e246p-6f, 0x1.c2e356p-4f,
		0x1.437eb4p-1f, 0x1.2156fap+0f, -0x1.4fb068p-12f
	};
	float32x4_t a = vabsq_f32(x), p, q;

	p = horner(near, COUNT(near), vmulq_f32(x, x));
	p = vfmaq_f32(a, a, p);
	a = vminq_f32(a, splat(4));
	q = horner(far, COUNT(far), a);
	q = vsubq_f32(splat(1), exp_v(vnegq_f32(q)));
	p = vbslq_f32(vcltq_f32(a, splat(1)), p, q);
	return vbslq_f32(vdupq_n_u32(0x80000000), x, p);
}

/* x < 0 ? 0 : x; vmaxq_f32() would turn -0 into +0 */
static inline float32x4_t
relu_v(float32x4_t x)
{
	return vbslq_f32(vcltzq_f32(x), splat(0), x);
}

/* k_apply() */
static inline float32x4_t
apply_v(enum k_fn fn, float32x4_t x)
{
	const float32x4_t one = splat(1);
	float32x4_t u;

	switch (fn) {
	case K_SILU:
		return vdivq_f32(x, vaddq_f32(one, exp_v(vnegq_f32(x))));
	case K_GELU:
		u = vmulq_f32(vmulq_f32(splat(0.044715f), x), x);
		u = vmulq_f32(vmulq_f32(splat(0.79788456f), x),
		    vaddq_f32(one, u));
		return vdivq_f32(x, vaddq_f32(one,
		    exp_v(vmulq_f32(splat(-2), u))));
	case K_GELU_ERF:
		u = erf_v(vmulq_f32(splat(0.70710678f), x));
		return vmulq_f32(vmulq_f32(splat(0.5f), x), vaddq_f32(one, u));
	case K_RELU:
		return relu_v(x);
	case K_RELU2:
		x = relu_v(x);
		return vmulq_f32(x, x);
	case K_EXP:
		return exp_v(x);
	case K_TANH:
		return tanh_v(x);
	default:	/* K_SIGMOID */
		return vdivq_f32(one, vaddq_f32(one, exp_v(vnegq_f32(x))));
	}
}

/* ---- sums ---- */

static float
sum_squares(const float *x, size_t n)
{
	float32x4_t s[8];

	sum32_clear(s);
	sum32_dot(s, TYPE_F32, (const uint8_t *)x, x, n);
	return tree32(s);
}

static float
sum(const float *x, size_t n)
{
	float32x4_t s[8];
	float part[32];
	size_t j;

	sum32_clear(s);
	for (j = 0; j + 32 <= n; j += 32) {
		UNROLL
		for (int i = 0; i < 8; i++)
			s[i] = vaddq_f32(s[i], vld1q_f32(x + j + 4 * i));
	}
	UNROLL
	for (int i = 0; i < 8; i++)
		vst1q_f32(part + 4 * i, s[i]);
	for (size_t i = 0; i < n - j; i++)
		part[i] += x[j + i];
	UNROLL
	for (int i = 0; i < 8; i++)
		s[i] = vld1q_f32(part + 4 * i);
	return tree32(s);
}

float
neon_max(const float *x, size_t n)
{
	float32x4_t v = splat(-INFINITY);
	float lane[4], m = -INFINITY;
	size_t i;

	for (i = 0; i + 4 <= n; i += 4) {
		float32x4_t a = vld1q_f32(x + i);

		v = vbslq_f32(vcgtq_f32(a, v), a, v);	/* NaN is passed over */
	}
	vst1q_f32(lane, v);
	for (int j = 0; j < 4; j++)
		m = lane[j] > m ? lane[j] : m;
	for (; i < n; i++)
		m = x[i] > m ? x[i] : m;
	/* the first of several zeros, whatever their signs */
	for (i = 0; m == 0 && i < n; i++)
		if (x[i] == 0)
			return x[i];
	return m;
}

/* ---- quantizing activations ---- */

/* Sixteen codes: t * x rounded, ties to even. |t * x| < 127.5. */
static inline int8x16_t
codes(const float *x, float t)
{
	int16x8_t h[2];

	UNROLL
	for (int i = 0; i < 2; i++) {
		int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(
		    vld1q_f32(x + 8 * i), t));
		int32x4_t b = vcvtnq_s32_f32(vmulq_n_f32(
		    vld1q_f32(x + 8 * i + 4), t));

		h[i] = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
	}
	return vcombine_s8(vmovn_s16(h[0]), vmovn_s16(h[1]));
}

/* Codes of a block and their sums by sixteen; returns t, and in *a the largest
   magnitude; t = 0 and no codes if there is no scale for them. */
static inline float
quantize_block(const float *x, size_t n, int8_t *q, int16_t *sum16, float *a)
{
	/* magnitudes of floats are ordered like their bits; NaN is on top */
	uint32x4_t top = vdupq_n_u32(0);
	uint32_t u;
	float t;

	for (size_t i = 0; i < n; i += 4)
		top = vmaxq_u32(top, vreinterpretq_u32_f32(
		    vabsq_f32(vld1q_f32(x + i))));
	u = vmaxvq_u32(top);
	*a = get_f32(&u);
	if (!(*a >= 0x1p-100f) || *a > FLT_MAX) {
		memset(q, 0, n);
		memset(sum16, 0, n / 16 * sizeof *sum16);
		return 0;
	}
	t = 127 / *a;
	for (size_t i = 0; i < n; i += 16) {
		int8x16_t c = codes(x + i, t);

		vst1q_s8(q + i, c);
		sum16[i / 16] = vaddlvq_s8(c);
	}
	return t;
}

/* The scale of a block without codes. */
static float
no_scale(float a)
{
	return a < 0x1p-100f ? 0 : NAN;
}

void
neon_quantize(enum act_kind kind, const float *x, size_t n, void *dst)
{
	struct act_q8 *b8 = dst;
	struct act_q8k *bk = dst;
	int16_t sums[2];
	float t, a;

	if (kind == ACT_Q8) {
		for (size_t b = 0; b < n / 32; b++) {
			t = quantize_block(x + 32 * b, 32, b8[b].q, sums, &a);
			b8[b].d = t != 0 ? a / 127 : no_scale(a);
			b8[b].sum = sums[0] + sums[1];
		}
		return;
	}
	for (size_t b = 0; b < n / 256; b++) {
		t = quantize_block(x + 256 * b, 256, bk[b].q, bk[b].sum, &a);
		bk[b].d = t != 0 ? 1 / t : no_scale(a);
	}
}

/* ---- attention ---- */

void
neon_kv_store(enum kv_type type, const float *x, size_t n, void *dst)
{
	uint16_t *h = dst;
	size_t i;

	if (type == KV_F32) {
		memcpy(dst, x, n * sizeof *x);
		return;
	}
	if (type == KV_Q8_0) {
		kv_store_q8_0(neon_quantize, x, n, dst);
		return;
	}
	for (i = 0; i + 4 <= n; i += 4)
		vst1_u16(h + i, vreinterpret_u16_f16(
		    vcvt_f16_f32(vld1q_f32(x + i))));
	for (; i < n; i++)
		h[i] = f32_to_f16(x[i]);
}

INLINE float32x4_t
few_floats(const float *p, size_t n)
{
	float few[4] = { 0 };

	memcpy(few, p, n * sizeof *few);
	return vld1q_f32(few);
}

INLINE void
store_few(float *p, float32x4_t v, size_t n)
{
	float few[4];

	vst1q_f32(few, v);
	memcpy(p, few, n * sizeof *few);
}

INLINE float32x4_t
load_halves(const void *p)
{
	return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

INLINE float32x4_t
few_halves(const void *p, size_t n)
{
	uint16_t few[4] = { 0 };

	memcpy(few, p, n * sizeof *few);
	return load_halves(few);
}

INLINE float32x4_t
load_codes(const void *p)
{
	int8_t few[8] = { 0 };

	memcpy(few, p, 4);
	return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(few)))));
}

/* n, n - 1, ... */
INLINE int32x4_t
down(int n)
{
	static const int32_t lane[4] = { 0, 1, 2, 3 };

	return vsubq_s32(vdupq_n_s32(n), vld1q_s32(lane));
}

/* Lanes from..end; the others become -infinity. */
INLINE float32x4_t
only(float32x4_t v, int from, int end)
{
	uint32x4_t keep = vandq_u32(vcgtzq_s32(down(end)),
	    vcgezq_s32(vnegq_s32(down(from))));

	return vbslq_f32(keep, v, splat(-INFINITY));
}

typedef float32x4_t vector;
#define LANES 4
#define v_load(p) vld1q_f32((const float *)(p))
#define v_store(p, v) vst1q_f32(p, v)
#define v_load_some(p, n) few_floats(p, n)
#define v_store_some(p, v, n) store_few(p, v, n)
#define v_half(p) load_halves(p)
#define v_half_some(p, n) few_halves(p, n)
#define v_half_all(p) splat(f16_to_f32(get_u16(p)))
#define v_codes(p) load_codes(p)
#define v_set(x) splat(x)
#define v_add(a, b) vaddq_f32(a, b)
#define v_sub(a, b) vsubq_f32(a, b)
#define v_mul(a, b) vmulq_f32(a, b)
#define v_div(a, b) vdivq_f32(a, b)
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_exp(v) exp_v(v)
#define v_tanh(v) tanh_v(v)
#define v_max(a, b) vbslq_f32(vcgtq_f32(a, b), a, b)
#define v_above(a, b) (vmaxvq_u32(vcgtq_f32(a, b)) != 0)
#define v_top(v) vmaxvq_f32(v)
#define v_down(n) vcvtq_f32_s32(down(n))
#define v_only(v, from, end) only(v, from, end)
#define KINDS(X) X(4, 4) X(2, 4) X(1, 8)
#include "attend.h"

void
neon_attend(const struct attend *a)
{
	attend(a);
}

/* ---- row operations ---- */

void
neon_add(float *y, const float *x, size_t n)
{
	size_t i;

	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(y + i, vaddq_f32(vld1q_f32(y + i),
		    vld1q_f32(x + i)));
	for (; i < n; i++)
		y[i] += x[i];
}

void
neon_mul(float *y, const float *x, size_t n)
{
	size_t i;

	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(y + i, vmulq_f32(vld1q_f32(y + i),
		    vld1q_f32(x + i)));
	for (; i < n; i++)
		y[i] *= x[i];
}

/* y = x * a; y may be x */
static void
scaled(float *y, const float *x, float a, size_t n)
{
	size_t i;

	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(y + i, vmulq_n_f32(vld1q_f32(x + i), a));
	for (; i < n; i++)
		y[i] = x[i] * a;
}

void
neon_scale(float *y, float a, size_t n)
{
	scaled(y, y, a, n);
}

void
neon_axpy(float *y, float a, const float *x, size_t n)
{
	size_t i;

	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(y + i, vfmaq_n_f32(vld1q_f32(y + i),
		    vld1q_f32(x + i), a));
	for (; i < n; i++)
		y[i] = fmaf(a, x[i], y[i]);
}

void
neon_apply(enum k_fn fn, float *x, size_t n)
{
	size_t i;

	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(x + i, apply_v(fn, vld1q_f32(x + i)));
	for (; i < n; i++)
		x[i] = k_apply(fn, x[i]);
}

void
neon_gate(enum k_fn fn, float *g, const float *u, size_t n)
{
	size_t i;

	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(g + i, vmulq_f32(apply_v(fn, vld1q_f32(g + i)),
		    vld1q_f32(u + i)));
	for (; i < n; i++)
		g[i] = k_apply(fn, g[i]) * u[i];
}

void
neon_rms_norm(const float *x, const float *w, size_t n, float eps, float *y)
{
	float r = 1 / sqrtf(sum_squares(x, n) / (float)n + eps);

	scaled(y, x, r, n);
	if (w != NULL)
		neon_mul(y, w, n);
}

void
neon_layer_norm(const float *x, const float *w, const float *b, size_t n,
    float eps, float *y)
{
	float mean = sum(x, n) / (float)n, r;
	size_t i;

	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(y + i, vsubq_f32(vld1q_f32(x + i), splat(mean)));
	for (; i < n; i++)
		y[i] = x[i] - mean;
	r = 1 / sqrtf(sum_squares(y, n) / (float)n + eps);
	neon_scale(y, r, n);
	if (w != NULL)
		neon_mul(y, w, n);
	if (b != NULL)
		neon_add(y, b, n);
}

void
neon_softmax(float *x, size_t n)
{
	float m = neon_max(x, n), l;
	size_t i;

	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(x + i, exp_v(vsubq_f32(vld1q_f32(x + i), splat(m))));
	for (; i < n; i++)
		x[i] = k_exp(x[i] - m);
	l = sum(x, n);
	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(x + i, vdivq_f32(vld1q_f32(x + i), splat(l)));
	for (; i < n; i++)
		x[i] /= l;
}

/* (x, y) turned by the angles of cs and sn */
static inline float32x4x2_t
turn(float32x4x2_t v, const float *cs, const float *sn)
{
	float32x4_t c = vld1q_f32(cs), s = vld1q_f32(sn), x = v.val[0];

	v.val[0] = vsubq_f32(vmulq_f32(x, c), vmulq_f32(v.val[1], s));
	v.val[1] = vaddq_f32(vmulq_f32(x, s), vmulq_f32(v.val[1], c));
	return v;
}

void
neon_rope(float *x, size_t n_heads, size_t head_dim, size_t n_rot,
    const float *cs, const float *sn, bool half_split)
{
	size_t step = half_split ? 1 : 2, apart = half_split ? n_rot / 2 : 1;
	float32x4x2_t v;

	for (size_t h = 0; h < n_heads; h++, x += head_dim) {
		size_t p = 0;

		for (; half_split && p + 4 <= n_rot / 2; p += 4) {
			v.val[0] = vld1q_f32(x + p);
			v.val[1] = vld1q_f32(x + p + apart);
			v = turn(v, cs + p, sn + p);
			vst1q_f32(x + p, v.val[0]);
			vst1q_f32(x + p + apart, v.val[1]);
		}
		for (; !half_split && p + 4 <= n_rot / 2; p += 4)
			vst2q_f32(x + 2 * p, turn(vld2q_f32(x + 2 * p), cs + p,
			    sn + p));
		for (; p < n_rot / 2; p++) {
			float *a = x + p * step, *b = a + apart;
			float s = *a, t = *b;

			*a = s * cs[p] - t * sn[p];
			*b = s * sn[p] + t * cs[p];
		}
	}
}

#endif
