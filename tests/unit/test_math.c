/* SPDX-License-Identifier: MIT */
/* m_exp, m_log, m_pow, m_sincos against the long double functions of libm. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <stdio.h>

#include "../../lib/base/base.h"

static int n_tests, n_failed;

static void
ok(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++n_tests, what);
	n_failed += !good;
}

/* A fixed sequence of well mixed numbers (splitmix64), as 53 bits in [0,1). */
static uint64_t state;

static double
uniform(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double
between(double lo, double hi)
{
	return lo + (hi - lo) * uniform();
}

/* Error in units of the last place that a double of the size of `want` has. */
static double
ulps(double got, long double want)
{
	int e;

	if (got == (double)want)
		return (double)(fabsl(got - want) > 0 ? 0.5 : 0);
	frexpl(want, &e);
	return (double)(fabsl(got - want) /
	    ldexpl(1, e < DBL_MIN_EXP ? DBL_MIN_EXP - 53 : e - 53));
}

/* How many times. In an emulator the exact functions take their time, and what
   they are compared with has the same bits as everywhere. */
static int
many(int n)
{
	return getenv("QUICK") != NULL ? n / 100 : n;
}

static void
test_exp(void)
{
	double worst = 0, tiny = 0;

	for (int i = many(2000000); i > 0; i--) {
		double x = between(i & 1 ? -708 : -1, i & 1 ? 709.7 : 1);

		worst = fmax(worst, ulps(m_exp(x), expl(x)));
		x = between(-745.2, -708);
		tiny = fmax(tiny, ulps(m_exp(x), expl(x)));
	}
	printf("# exp: at most %.3f ulp, subnormal %.3f\n", worst, tiny);
	ok(worst < 1 && tiny < 1, "exp is within 1 ulp");
	ok(m_exp(0) == 1 && m_exp(-INFINITY) == 0 && m_exp(-1e300) == 0 &&
	    m_exp(INFINITY) == INFINITY && m_exp(709.8) == INFINITY &&
	    isnan(m_exp(NAN)), "exp at its ends");
}

/* The sum may be computed by other instructions. */
static void
test_exp_sum(void)
{
	static float x[1000];
	static double e[1000];
	double sum = 0;
	bool same = true;

	for (int i = 0; i < 1000; i++) {
		x[i] = i == 7 ? -INFINITY : (float)between(-800, 3);
		sum += m_exp(x[i] - 3.0);
		e[i] = x[i];
	}
	m_exp_each(e, 1000);
	for (int i = 0; i < 1000; i++)
		same = same && e[i] == m_exp(x[i]);
	ok(m_exp_sum(x, 1000, 3) == sum && m_exp_sum(x, 0, 3) == 0 && same,
	    "a sum and a list of exp have the bits of single ones");
}

static void
test_log(void)
{
	double worst = 0;

	for (int i = many(2000000); i > 0; i--) {
		int e = (int)between(-1073, 1024);
		double x = ldexp(between(0.5, 1), e);

		worst = fmax(worst, ulps(m_log(x), logl(x)));
		x = between(0.5, 2);
		worst = fmax(worst, ulps(m_log(x), logl(x)));
		x = 1 + between(-1e-6, 1e-6);
		worst = fmax(worst, ulps(m_log(x), logl(x)));
	}
	printf("# log: at most %.3f ulp\n", worst);
	ok(worst < 1, "log is within 1 ulp");
	ok(m_log(1) == 0 && m_log(0) == -INFINITY && isnan(m_log(-1)) &&
	    isnan(m_log(NAN)) && m_log(INFINITY) == INFINITY,
	    "log at its ends");
}

static void
test_pow(void)
{
	double worst = 0, far = 0, rope = 0;

	for (int i = many(2000000); i > 0; i--) {
		int e = (int)between(-1000, 1000);
		double x = ldexp(between(0.5, 1), e);
		double y = between(-32, 32) / log(x);

		worst = fmax(worst, ulps(m_pow(x, y), powl(x, y)));
		y = between(-700, 700) / log(x);
		far = fmax(far, ulps(m_pow(x, y), powl(x, y)));
		x = between(100, 10e6);
		y = between(-1, 0);
		rope = fmax(rope, ulps(m_pow(x, y), powl(x, y)));
	}
	printf("# pow: at most %.3f ulp while |y log x| < 32, else %.3f; "
	    "%.3f for rotary angles\n", worst, far, rope);
	ok(worst < 2 && far < 32 && rope < 1, "pow is as good as promised");
	ok(m_pow(10000, 0) == 1 && m_pow(10000, 1) == 10000 &&
	    m_pow(2, -3) == 0.125 && m_pow(10, 400) == INFINITY &&
	    m_pow(10, -400) == 0, "pow of whole numbers, and at its ends");
}

static void
test_sincos(void)
{
	double worst = 0, s, c;

	for (int i = many(3000000); i > 0; i--) {
		double x = between(-1, 1) * (i % 3 == 0 ? 0x1p30 :
		    i % 3 == 1 ? 10000 : 4);

		if (i % 3 == 2 && (i & 8))	/* near a zero of one of them */
			x = 0x1.921fb54442d18p+0 * (int)between(-1e8, 1e8);
		m_sincos(x, &s, &c);
		worst = fmax(worst, (double)fabsl(s - sinl(x)));
		worst = fmax(worst, (double)fabsl(c - cosl(x)));
	}
	printf("# sin, cos: absolute error at most %.3g\n", worst);
	ok(worst < 1e-16, "sin and cos are within 1e-16");
	m_sincos(0, &s, &c);
	ok(s == 0 && c == 1, "sin and cos of 0");
	m_sincos(INFINITY, &s, &c);
	ok(isnan(s) && isnan(c), "sin and cos of infinity are NaN");
}

/*
 * Results that no compiler and no machine may change. The checksum was made
 * with gcc on x86-64; when a function is changed on purpose, take the new one
 * from the output.
 */
static void
test_same_bits(void)
{
	uint64_t h = HASH_START;
	double v[5];

	state = 1;
	for (int i = 0; i < 100000; i++) {
		double x = between(0, 700), y = between(-1, 1);

		v[0] = m_exp(x * y);
		v[1] = m_log(x);
		v[2] = m_pow(x, y);
		m_sincos(x, &v[3], &v[4]);
		h = hash_bytes(h, v, sizeof v);
	}
	printf("# checksum: 0x%016" PRIx64 "\n", h);
	ok(h == 0xa246c8af01af6c4b, "the bits they always had");
}

int
main(void)
{
	static const char *none = "long double is no wider than double";

	printf("1..11\n");
	test_same_bits();
	test_exp_sum();
	if (LDBL_MANT_DIG < 64) {
		while (n_tests < 11)
			printf("ok %d - math # SKIP %s\n", ++n_tests, none);
		return n_failed != 0;
	}
	test_exp();
	test_log();
	test_pow();
	test_sincos();
	return n_failed != 0;
}
