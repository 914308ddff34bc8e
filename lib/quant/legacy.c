/* SPDX-License-Identifier: MIT */
/* Blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. */
#include <math.h>

#include "quant.h"

typedef uint8_t bytes16 __attribute__((vector_size(16)));

/* Byte j of 16 holds codes j (low) and j + 16 (high); fifth bits are apart. */
static void
pack(uint8_t *qs, const int8_t *q, int add)
{
	bytes16 low, high;

	memcpy(&low, q, 16);
	memcpy(&high, q + 16, 16);
	low = ((low + (uint8_t)add) & 15) | (high + (uint8_t)add) << 4;
	memcpy(qs, &low, 16);
}

static void
pack_fifth(uint8_t *b, const int8_t *q, int add)
{
	uint32_t bits = 0;
	int e;

	for (e = 0; e < 32; e++)
		bits |= (uint32_t)((q[e] + add) >> 4 & 1) << e;
	memcpy(b, &bits, sizeof bits);
}

void
pack_q4_0(const struct search *s, const float *x, float step, uint8_t *b)
{
	float d = put_f16(b, step);
	int8_t q[32];

	s->codes(x, 32, d, 0, -8, 7, q);
	pack(b + 2, q, 8);
}

void
pack_q5_0(const struct search *s, const float *x, float step, uint8_t *b)
{
	float d = put_f16(b, step);
	int8_t q[32];

	s->codes(x, 32, d, 0, -16, 15, q);
	pack_fifth(b + 2, q, 16);
	pack(b + 6, q, 16);
}

/* Here the minimum is added, and can have either sign; where the step is too small
   to be stored, it is the middle. */
static float
with_min(const struct search *s, const float *x, const float *w, int hi,
    uint8_t *b, float *min)
{
	float y[32], least = x[0], most = x[0], middle, step, m;
	int e;

	for (e = 1; e < 32; e++) {
		least = MIN(least, x[e]);
		most = MAX(most, x[e]);
	}
	middle = (least + most) * 0.5f;
	if (least < 0)
		least = 0;
	for (e = 0; e < 32; e++)
		y[e] = x[e] - least;
	step = put_f16(b, s->affine(y, w, 32, hi, &m));
	*min = -put_f16(b + 2, step > 0 ? least - m : middle);
	return step;
}

void
quantize_q4_1(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float min, d = with_min(s, x, w, 15, b, &min);
	int8_t q[32];

	s->codes(x, 32, d, min, 0, 15, q);
	pack(b + 4, q, 0);
}

void
quantize_q5_1(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float min, d = with_min(s, x, w, 31, b, &min);
	int8_t q[32];

	s->codes(x, 32, d, min, 0, 31, q);
	pack_fifth(b + 4, q, 0);
	pack(b + 8, q, 0);
}

/* As everybody does it: with 255 steps there is little to search for. */
void
quantize_q8_0(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float max = s->largest(x, 32), t, y;
	int e, q;

	(void)w;
	(void)put_f16(b, max / 127);
	t = max > 0 ? 1 / (max / 127) : 0;
	if (t > 3e38f)
		t = 0;
	/* to the nearest, halves away from zero: what others write, too */
	for (e = 0; e < 32; e++) {
		y = x[e] * t;
		q = (int)y;
		q += (y - (float)q >= 0.5f) - (y - (float)q <= -0.5f);
		b[2 + e] = (uint8_t)q;
	}
}
