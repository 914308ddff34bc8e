/* SPDX-License-Identifier: MIT */
/*
 * Elementary functions in single precision. No tables, and every ?: chooses
 * between two values that are both computed, so that a vector does the same
 * operations in every lane. The polynomials are near-minimax fits (Chebyshev
 * interpolation in 60 digits, then rounded to float32).
 *
 * Largest error measured, in ulp of the result: exp 1.03, tanh 1.04, erf 1.08
 * (tests/unit/test_kernel.c).
 */
#include <float.h>
#include <math.h>

#include "kernel.h"

#if FLT_EVAL_METHOD != 0
#error "arithmetic with excess precision; on 32-bit x86 use -msse2 -mfpmath=sse"
#endif

static float
from_bits(uint32_t u)
{
	return get_f32(&u);
}

/* 2^n from the low bits of n; anything if n is not in -126..127 */
static float
pow2(uint32_t n)
{
	return from_bits((n + 127) << 23);
}

/*
 * x = n ln 2 + r; exp(r) = 1 + r + r^2 P(r), P off by 7e-8 on |r| < 0.3475.
 * Beyond the clamps the last product gives 0 and infinity by itself. NaN goes
 * through the clamps and makes n senseless, but the product with it stays NaN.
 */
float
k_exp(float x)
{
	const float round = 0x1.8p23f;	/* x + round has round(x) in its bits */
	float t, n, r, p;
	uint32_t k, half;

	x = x > 89 ? 89 : x;
	x = x < -104 ? -104 : x;
	t = fmaf(x, 0x1.715476p+0f, round);
	n = t - round;
	k = get_u32(&t) - get_u32(&round);
	r = fmaf(n, -0x1.62e43p-1f, x);		/* exact */
	r = fmaf(n, 0x1.05c61p-29f, r);
	p = 0x1.6d1254p-10f;
	p = fmaf(p, r, 0x1.120cbap-7f);
	p = fmaf(p, r, 0x1.555518p-5f);
	p = fmaf(p, r, 0x1.5554dcp-3f);
	p = fmaf(p, r, 0x1p-1f);
	p = 1 + fmaf(r * r, p, r);
	/* in two steps, of which only the second can round */
	half = (uint32_t)((int32_t)k >> 1);
	return p * pow2(half) * pow2(k - half);
}

/*
 * |x| < 1: |x| + |x|^3 P(x^2), P off by 2e-8; else 1 - 2 / (exp(2 |x|) + 1).
 */
float
k_tanh(float x)
{
	float a = fabsf(x), z = x * x, p, big;

	p = -0x1.b92196p-12f;
	p = fmaf(p, z, 0x1.490d0ap-9f);
	p = fmaf(p, z, -0x1.0d515p-7f);
	p = fmaf(p, z, 0x1.62e11cp-6f);
	p = fmaf(p, z, -0x1.b9d574p-5f);
	p = fmaf(p, z, 0x1.110ffep-3f);
	p = fmaf(p, z, -0x1.555554p-2f);
	p = fmaf(a * z, p, a);
	big = 1 - 2 / (k_exp(2 * a) + 1);
	return copysignf(a < 1 ? p : big, x);
}

/*
 * |x| < 1: |x| + |x| P(x^2), P off by 5e-9; else 1 - exp(-Q(|x|)), where Q is
 * -log(erfc) on 1..4, near enough that erfc is off by 6e-9. erf(4) rounds to 1.
 */
float
k_erf(float x)
{
	float a = fabsf(x), z = x * x, p, q;

	p = 0x1.4a5690p-14f;
	p = fmaf(p, z, -0x1.a45088p-11f);
	p = fmaf(p, z, 0x1.541270p-8f);
	p = fmaf(p, z, -0x1.b7fabap-6f);
	p = fmaf(p, z, 0x1.ce2d10p-4f);
	p = fmaf(p, z, -0x1.81273ep-2f);
	p = fmaf(p, z, 0x1.06eba8p-3f);
	p = fmaf(a, p, a);
	a = a > 4 ? 4 : a;
	q = -0x1.b77830p-20f;
	q = fmaf(q, a, 0x1.825ce4p-15f);
	q = fmaf(q, a, -0x1.38e5e6p-11f);
	q = fmaf(q, a, 0x1.37ecc6p-8f);
	q = fmaf(q, a, -0x1.b0e246p-6f);
	q = fmaf(q, a, 0x1.c2e356p-4f);
	q = fmaf(q, a, 0x1.437eb4p-1f);
	q = fmaf(q, a, 0x1.2156fap+0f);
	q = fmaf(q, a, -0x1.4fb068p-12f);
	q = 1 - k_exp(-q);
	return copysignf(a < 1 ? p : q, x);
}

float
k_apply(enum k_fn fn, float x)
{
	float u;

	switch (fn) {
	case K_SILU:
		return x / (1 + k_exp(-x));
	case K_GELU:
		u = 0.79788456f * x * (1 + 0.044715f * x * x);
		return x / (1 + k_exp(-2 * u));
	case K_GELU_ERF:
		return 0.5f * x * (1 + k_erf(0.70710678f * x));
	case K_RELU:
		return x < 0 ? 0 : x;
	case K_RELU2:
		x = x < 0 ? 0 : x;
		return x * x;
	case K_EXP:
		return k_exp(x);
	case K_TANH:
		return k_tanh(x);
	default:	/* K_SIGMOID */
		return 1 / (1 + k_exp(-x));
	}
}
