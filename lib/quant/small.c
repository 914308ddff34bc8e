/* SPDX-License-Identifier: MIT */
/* Few values a weight: ternary, binary and four-bit floats. */
#include <math.h>

#include "quant.h"

static float
largest(const float *x, int n)
{
	float max = 0;
	int e;

	for (e = 0; e < n; e++)
		max = MAX(max, fabsf(x[e]));
	return max;
}

/* Codes of x / d, to the nearest, halves away from zero, within lo..hi. */
static void
round_all(const float *x, int n, float d, int lo, int hi, int8_t *q)
{
	float t = d > 0 ? 1 / d : 0, y;
	int e;

	if (t > 3e38f)
		t = 0;
	for (e = 0; e < n; e++) {
		y = x[e] * t;
		y = MIN(MAX(y, (float)lo), (float)hi);
		q[e] = (int8_t)(y < 0 ? y - 0.5f : y + 0.5f);
	}
}

/* Five digits in base 3, scaled to fill a byte. */
static uint8_t
pack_base3(const int8_t *q, int n, int stride)
{
	int v = 0, k;

	for (k = 0; k < 5; k++)
		v = 3 * v + (k < n ? q[k * stride] + 1 : 0);
	return (uint8_t)((256 * v + 242) / 243);
}

void
quantize_tq1_0(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float d = largest(x, 256);
	int8_t q[256];
	int j;

	(void)s;
	(void)w;
	round_all(x, 256, d, -1, 1, q);
	for (j = 0; j < 32; j++)
		b[j] = pack_base3(q + j, 5, 32);
	for (j = 0; j < 16; j++)
		b[32 + j] = pack_base3(q + 160 + j, 5, 16);
	for (j = 0; j < 4; j++)
		b[48 + j] = pack_base3(q + 240 + j, 4, 4);
	(void)put_f16(b + 52, d);
}

void
quantize_tq2_0(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float d = largest(x, 256);
	int8_t q[256];
	int e;

	(void)s;
	(void)w;
	round_all(x, 256, d, -1, 1, q);
	memset(b, 0, 64);
	for (e = 0; e < 256; e++)
		b[e / 128 * 32 + e % 32] |= (uint8_t)((q[e] + 1) <<
		    e % 128 / 32 * 2);
	(void)put_f16(b + 64, d);
}

void
quantize_q1_0(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float mean = 0;
	int e;

	(void)s;
	(void)w;
	memset(b + 2, 0, 16);
	for (e = 0; e < 128; e++) {
		mean += fabsf(x[e]);
		b[2 + e / 8] |= (uint8_t)((x[e] >= 0) << e % 8);
	}
	(void)put_f16(b, mean / 128);
}

void
quantize_q2_0(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float d = largest(x, 64);
	int8_t q[64];
	int e;

	(void)s;
	(void)w;
	round_all(x, 64, d, -1, 2, q);
	memset(b + 2, 0, 16);
	for (e = 0; e < 64; e++)
		b[2 + e / 4] |= (uint8_t)((q[e] + 1) << e % 4 * 2);
	(void)put_f16(b, d);
}

/* ---- E2M1 -------------------------------------------------------------- */

/* The code nearest to y, that is doubled; of two the lower one. */
static unsigned
e2m1(float y)
{
	static const float half[7] = { 0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10 };
	float a = fabsf(y);
	unsigned k;

	for (k = 0; k < 7 && a > half[k]; k++)
		;
	return k > 0 && y < 0 ? k + 8 : k;
}

/* Codes of n values for a factor, and the error with them. */
static float
e2m1_codes(const float *x, const float *w, int n, float factor, uint8_t *q)
{
	static const float value[8] = { 0, 1, 2, 3, 4, 6, 8, 12 };
	float t = 1 / factor, e, sum = 0;
	int i;

	for (i = 0; i < n; i++) {
		q[i] = (uint8_t)e2m1(x[i] * t);
		e = factor * value[q[i] & 7] - fabsf(x[i]);
		sum += w[i] * e * e;
	}
	return sum;
}

void
quantize_mxfp4(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float max = largest(x, 32), e, least = INFINITY;
	uint8_t q[32];
	int first, k, j;

	(void)s;
	memset(b, 0, 17);
	if (max == 0)
		return;
	/* so that the largest value is in the highest binade of E2M1, or the
	   one below it; 0 would have a reciprocal beyond float */
	first = MAX(ilogbf(max) - 2 + 127, 1);
	for (k = first; k <= MIN(first + 1, 252); k++) {
		e = e2m1_codes(x, w, 32, ldexpf(1, k - 128), q);
		if (!(e < least))
			continue;
		least = e;
		b[0] = (uint8_t)k;
		for (j = 0; j < 16; j++)
			b[1 + j] = (uint8_t)(q[j] | q[j + 16] << 4);
	}
}

/* The value of an unsigned E4M3 number, and the greatest that is not above x. */
static float
e4m3(int code)
{
	int e = code >> 3, m = code & 7;

	return e == 0 ? ldexpf((float)m, -9) : ldexpf((float)(8 + m), e - 10);
}

static int
to_e4m3(float x)
{
	int lo = 0, hi = 0x7e, mid;

	while (lo < hi) {
		mid = (lo + hi + 1) / 2;
		if (e4m3(mid) <= x)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

void
quantize_nvfp4(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float e, least;
	uint8_t q[16];
	int i, k, first, j;

	(void)s;
	memset(b, 0, 36);
	for (i = 0; i < 4; i++) {
		least = INFINITY;
		first = to_e4m3(largest(x + 16 * i, 16) / 6);
		for (k = MAX(first - 2, 1); k <= MIN(first + 5, 0x7e); k++) {
			e = e2m1_codes(x + 16 * i, w + 16 * i, 16,
			    e4m3(k) * 0.5f, q);
			if (!(e < least))
				continue;
			least = e;
			b[i] = (uint8_t)k;
			for (j = 0; j < 8; j++)
				b[4 + 8 * i + j] = (uint8_t)(q[j] |
				    q[j + 8] << 4);
		}
	}
}
