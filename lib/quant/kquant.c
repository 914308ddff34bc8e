/* SPDX-License-Identifier: MIT */
/*
 * K: super-blocks of 256, in sub-blocks with scales (and minimums) that are
 * quantized themselves. First each sub-block has what suits it best, then the
 * scales of the super-block are fitted to those, and at last the codes of the
 * scales are moved by one where that makes the error of the elements smaller.
 */
#include <math.h>

#include "quant.h"

#define MAX_SUB 16

/* The scales of a super-block. */
struct scales {
	float d, dmin;			/* as stored */
	int code[MAX_SUB], min[MAX_SUB];
};

static float
total(const float *w, size_t n)
{
	float s = 0;
	size_t i;

	for (i = 0; i < n; i++)
		s += w[i];
	return s;
}

static float
energy(const float *x, const float *w, size_t n)
{
	float s = 0;
	size_t i;

	for (i = 0; i < n; i++)
		s += w[i] * x[i] * x[i];
	return s;
}

/* Q2_K, Q4_K, Q5_K: codes 0..hi of elements, 0..top of scales. */
static void
fit_affine(const struct search *s, const float *x, const float *w, size_t size,
    int hi, int top, struct scales *out, uint8_t *d, uint8_t *dmin)
{
	size_t n = 256 / size, j;
	/* set for compilers that do not see that n is 8 or 16, never 0 */
	float step[MAX_SUB] = {0}, min[MAX_SUB], weight[MAX_SUB] = {0};
	float e, least;
	int8_t code[MAX_SUB], mcode[MAX_SUB];
	int a, b;

	for (j = 0; j < n; j++) {
		step[j] = s->affine(x + j * size, w + j * size, size, hi,
		    &min[j]);
		weight[j] = total(w + j * size, size);
	}
	s->symmetric(step, weight, n, 1, 0, top, &e);
	out->d = put_f16(d, e);
	/* constants, or steps too small to be stored: then the minimums alone
	   have to do */
	for (j = 0; j < n && out->d == 0; j++)
		min[j] = MAX(-total(x + j * size, size) / (float)size, 0);
	s->symmetric(min, weight, n, 1, 0, top, &e);
	out->dmin = put_f16(dmin, e);
	s->codes(step, n, out->d, 0, 0, top, code);
	s->codes(min, n, out->dmin, 0, 0, top, mcode);
	for (j = 0; j < n; j++) {
		least = INFINITY;
		for (a = MAX(code[j] - 1, 0); a <= MIN(code[j] + 1, top); a++)
			for (b = MAX(mcode[j] - 1, 0);
			    b <= MIN(mcode[j] + 1, top); b++) {
				e = s->error(x + j * size, w + j * size, size,
				    out->d * (float)a, out->dmin * (float)b,
				    0, hi);
				if (e < least) {
					least = e;
					out->code[j] = a;
					out->min[j] = b;
				}
			}
	}
}

/* Q3_K, Q6_K: codes lo..-lo - 1 of elements and bottom..-bottom - 1 of scales. */
static void
fit_symmetric(const struct search *s, const float *x, const float *w, int lo,
    int bottom, struct scales *out, uint8_t *d)
{
	float step[16], weight[16], e, least;
	int8_t code[16];
	int j, a;

	s->symmetric(x, w, 16, 16, lo, -lo - 1, step);
	for (j = 0; j < 16; j++) {
		/* of an error of the step: about the sum of w code^2 */
		e = step[j] * step[j];
		weight[j] = e > 0 ? energy(x + 16 * j, w + 16 * j, 16) / e : 0;
	}
	s->symmetric(step, weight, 16, 1, bottom, -bottom - 1, &e);
	out->d = put_f16(d, e);
	s->codes(step, 16, out->d, 0, bottom, -bottom - 1, code);
	for (j = 0; j < 16; j++) {
		least = INFINITY;
		for (a = MAX(code[j] - 1, bottom);
		    a <= MIN(code[j] + 1, -bottom - 1); a++) {
			e = s->error(x + 16 * j, w + 16 * j, 16,
			    out->d * (float)a, 0, lo, -lo - 1);
			if (e < least) {
				least = e;
				out->code[j] = a;
			}
		}
	}
}

/* Two bits of 256 codes: 32 bytes hold 128 of them. */
static void
pack_two(uint8_t *qs, const int8_t *q, int shift)
{
	int e;

	memset(qs, 0, 64);
	for (e = 0; e < 256; e++)
		qs[e / 128 * 32 + e % 32] |= (uint8_t)((q[e] >> shift & 3) <<
		    e % 128 / 32 * 2);
}

void
quantize_q2_k(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	struct scales k;
	int8_t q[256];
	int j;

	fit_affine(s, x, w, 16, 3, 15, &k, b + 80, b + 82);
	for (j = 0; j < 16; j++) {
		b[j] = (uint8_t)(k.code[j] | k.min[j] << 4);
		s->codes(x + 16 * j, 16, k.d * (float)k.code[j],
		    k.dmin * (float)k.min[j], 0, 3, q + 16 * j);
	}
	pack_two(b + 16, q, 0);
}

void
quantize_q3_k(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	struct scales k;
	int8_t q[256];
	int j, e, code;

	fit_symmetric(s, x, w, -4, -32, &k, b + 108);
	memset(b, 0, 32);
	memset(b + 96, 0, 12);
	for (j = 0; j < 16; j++) {
		s->codes(x + 16 * j, 16, k.d * (float)k.code[j], 0, -4, 3,
		    q + 16 * j);
		code = k.code[j] + 32;
		b[96 + j % 8] |= (uint8_t)((code & 15) << j / 8 * 4);
		b[104 + j % 4] |= (uint8_t)(code >> 4 << j / 4 * 2);
	}
	for (e = 0; e < 256; e++) {
		q[e] = (int8_t)(q[e] + 4);
		b[e % 32] |= (uint8_t)(q[e] >> 2 << e / 32);
	}
	pack_two(b + 32, q, 0);
}

/* Scale and minimum j of 8 in 12 bytes that were zero, six bits each. */
static void
pack_scale(uint8_t *p, int j, int scale, int min)
{
	if (j < 4) {
		p[j] |= (uint8_t)scale;
		p[j + 4] |= (uint8_t)min;
	} else {
		p[j + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
		p[j - 4] |= (uint8_t)(scale >> 4 << 6);
		p[j] |= (uint8_t)(min >> 4 << 6);
	}
}

/* Q4_K and Q5_K up to their codes. */
static void
fit_eight(const struct search *s, const float *x, const float *w, int hi,
    uint8_t *b, int8_t *q)
{
	struct scales k;
	int j;

	fit_affine(s, x, w, 32, hi, 63, &k, b, b + 2);
	memset(b + 4, 0, 12);
	for (j = 0; j < 8; j++) {
		pack_scale(b + 4, j, k.code[j], k.min[j]);
		s->codes(x + 32 * j, 32, k.d * (float)k.code[j],
		    k.dmin * (float)k.min[j], 0, hi, q + 32 * j);
	}
}

/* Low four bits: 32 bytes hold 64 codes. */
static void
pack_four(uint8_t *qs, const int8_t *q)
{
	int e;

	for (e = 0; e < 128; e++)
		qs[e] = (uint8_t)((q[e / 32 * 64 + e % 32] & 15) |
		    (q[e / 32 * 64 + 32 + e % 32] & 15) << 4);
}

void
quantize_q4_k(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	int8_t q[256];

	fit_eight(s, x, w, 15, b, q);
	pack_four(b + 16, q);
}

void
quantize_q5_k(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	int8_t q[256];
	int e;

	fit_eight(s, x, w, 31, b, q);
	memset(b + 16, 0, 32);
	for (e = 0; e < 256; e++)
		b[16 + e % 32] |= (uint8_t)(q[e] >> 4 << e / 32);
	pack_four(b + 48, q);
}

void
quantize_q6_k(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	struct scales k;
	int8_t q[256];
	int j, e, at;

	fit_symmetric(s, x, w, -32, -128, &k, b + 208);
	for (j = 0; j < 16; j++) {
		b[192 + j] = (uint8_t)k.code[j];
		s->codes(x + 16 * j, 16, k.d * (float)k.code[j], 0, -32, 31,
		    q + 16 * j);
	}
	memset(b, 0, 128);
	for (e = 0; e < 256; e++) {
		q[e] = (int8_t)(q[e] + 32);
		at = e / 128 * 64 + e % 64;
		b[at] |= (uint8_t)((q[e] & 15) << e % 128 / 64 * 4);
	}
	pack_two(b + 128, q, 4);
}
