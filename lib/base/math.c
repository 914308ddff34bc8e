/* SPDX-License-Identifier: MIT */
/*
 * Elementary functions in double precision. Those of the C library differ in
 * the last bit from system to system; these use only + - * /, fma() and
 * comparisons, all of which IEEE 754 defines to the bit. Polynomials are Taylor
 * series on a range reduced far enough that no better fit is needed; what is
 * left out is below 2^-57 of the result.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base.h"

#if FLT_EVAL_METHOD != 0
#error "arithmetic with excess precision; on 32-bit x86 use -msse2 -mfpmath=sse"
#endif

/* So that what is compiled for an instruction set has it all inside. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Adding and subtracting it rounds |x| < 2^51 to an integer, ties to even. */
#define ROUND 0x1.8p52

/* ln 2 in two parts; k * LN2_HI is exact for |k| < 2^20. */
#define LN2_HI 0x1.62e42feep-1
#define LN2_LO 0x1.a39ef35793c76p-33

static ALWAYS_INLINE uint64_t
bits(double x)
{
	return get_u64(&x);
}

static ALWAYS_INLINE double
from_bits(uint64_t u)
{
	return get_f64(&u);
}

/* x * 2^n for |n| < 2046, rounded once. */
static ALWAYS_INLINE double
scale2(double x, int n)
{
	int half = n / 2;

	return x * from_bits((uint64_t)(1023 + half) << 52) *
	    from_bits((uint64_t)(1023 + n - half) << 52);
}

/* a[0] + x (a[1] + x (a[2] ...)) */
static ALWAYS_INLINE double
poly(double x, const double *a, size_t n)
{
	double s = a[n - 1];

	for (size_t i = n - 1; i-- > 0;)
		s = fma(s, x, a[i]);
	return s;
}

/* exp(x + tail), |tail| below an ulp of x */
static ALWAYS_INLINE double
exp_parts(double x, double tail)
{
	/* (exp(r) - 1 - r) / r^2: 1 / (k + 2)! */
	static const double a[] = {
		1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040,
		1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800,
		1.0 / 479001600, 1.0 / 6227020800
	};
	double n, hi, lo, r, c;

	if (!(x <= 710))
		return x + INFINITY;	/* keeps NaN */
	if (x < -746)
		return 0;
	/* n ln 2 + r + c, |r| < 0.35, c what r's rounding lost; hi is exact */
	n = fma(x, 0x1.71547652b82fep+0, ROUND) - ROUND;
	hi = x - n * LN2_HI;
	lo = n * LN2_LO - tail;
	r = hi - lo;
	c = (hi - r) - lo;
	c = fma(c, r, c);	/* exp(r + c) = exp(r) + c exp(r) */
	return scale2(1 + (r + fma(r * r, poly(r, a, COUNT(a)), c)), (int)n);
}

/* log(x) for finite x > 0: returns its rounded value, *lo what is missing. */
static double
log_parts(double x, double *lo)
{
	/* (atanh(s) - s) / s^3: 1 / (2 k + 3), in s^2 */
	static const double a[] = {
		1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13,
		1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21
	};
	static const uint64_t sqrt_half = 0x3fe6a09e667f3bcd;
	double k = 0, f, d, s, s_lo, z, hi, rest;
	uint64_t u;

	if (x < DBL_MIN) {
		x *= 0x1p54;
		k = -54;
	}
	/* x = 2^k m, sqrt(1/2) <= m < sqrt(2), f = m - 1 */
	u = bits(x) - sqrt_half + ((uint64_t)1023 << 52);
	k += (int)(u >> 52) - 1023;
	f = from_bits((u & (((uint64_t)1 << 52) - 1)) + sqrt_half) - 1;
	/* log(m) = 2 atanh(f / (2 + f)); quotient and divisor in two parts */
	d = 2 + f;
	s = f / d;
	s_lo = (fma(-s, d, f) - s * (f - (d - 2))) / d;
	z = s * s;
	rest = 2 * fma(s * z, poly(z, a, COUNT(a)), s_lo) + k * LN2_LO;
	/* |k ln 2| > |2 s| or k = 0, so the error of their sum is exact */
	hi = k * LN2_HI + 2 * s;
	rest += (k * LN2_HI - hi) + 2 * s;
	x = hi + rest;
	*lo = (hi - x) + rest;
	return x;
}

double
m_exp(double x)
{
	return exp_parts(x, 0);
}

static ALWAYS_INLINE double
exp_sum(const float *x, size_t n, double max)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += exp_parts(x[i] - max, 0);
	return sum;
}

static ALWAYS_INLINE void
exp_each(double *x, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = exp_parts(x[i], 0);
}

/* A call of fma() for each step is most of what exp() takes on a machine whose
   compiler must not assume the instruction. */
#ifdef __x86_64__
__attribute__((target("fma"))) static double
exp_sum_fma(const float *x, size_t n, double max)
{
	return exp_sum(x, n, max);
}

__attribute__((target("fma"))) static void
exp_each_fma(double *x, size_t n)
{
	exp_each(x, n);
}
#endif

double
m_exp_sum(const float *x, size_t n, double max)
{
#ifdef __x86_64__
	if (machine_fma())
		return exp_sum_fma(x, n, max);
#endif
	return exp_sum(x, n, max);
}

void
m_exp_each(double *x, size_t n)
{
#ifdef __x86_64__
	if (machine_fma()) {
		exp_each_fma(x, n);
		return;
	}
#endif
	exp_each(x, n);
}

double
m_log(double x)
{
	double lo;

	if (!(x > 0))
		return x == 0 ? -INFINITY : NAN;
	return x > DBL_MAX ? x : log_parts(x, &lo);
}

double
m_pow(double x, double y)
{
	double lo, hi = log_parts(x, &lo), p = y * hi;

	return exp_parts(p, fma(y, hi, -p) + y * lo);
}

void
m_sincos(double x, double *s, double *c)
{
	/* (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4, in r^2 */
	static const double as[] = {
		-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880,
		-1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000,
		1.0 / 355687428096000
	};
	static const double ac[] = {
		1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
		1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000,
		-1.0 / 6402373705728000
	};
	double n, hi, r, tail, z, half, sn, cs;

	if (!(fabs(x) < 0x1p30)) {
		*s = *c = NAN;
		return;
	}
	/*
	 * r + tail = x - n pi/2, |r| < 0.79, with pi/2 in three parts (Cody and
	 * Waite 1980). The first fma is exact: x and n times the first part are
	 * multiples of 2^-53, and their difference is below 1.
	 */
	n = fma(x, 0x1.45f306dc9c883p-1, ROUND) - ROUND;
	hi = fma(-n, 0x1.921fb54442d18p+0, x);
	r = fma(-n, 0x1.1a62633145c07p-54, hi);
	tail = fma(-n, 0x1.1a62633145c07p-54, hi - r);
	tail = fma(n, 0x1.f1976b7ed8fbcp-110, tail);

	z = r * r;
	half = 1 - z / 2;
	sn = r + fma(r * z, poly(z, as, COUNT(as)), tail * half);
	cs = half + (((1 - half) - z / 2) +
	    fma(z * z, poly(z, ac, COUNT(ac)), -tail * r));
	switch ((int64_t)n & 3) {
	case 0: *s = sn; *c = cs; break;
	case 1: *s = cs; *c = -sn; break;
	case 2: *s = -sn; *c = -cs; break;
	default: *s = -cs; *c = sn; break;
	}
}
