/* SPDX-License-Identifier: MIT */
/* IQ4_NL and IQ4_XS: four bits through a code book. */
#include <math.h>

#include "quant.h"

static void
pack(uint8_t *qs, const int8_t *q)
{
	int j;

	for (j = 0; j < 16; j++)
		qs[j] = (uint8_t)(q[j] | q[j + 16] << 4);
}

void
quantize_iq4_nl(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float d = put_f16(b, s->book(x, w, 32));
	int8_t q[32];

	s->book_codes(x, 32, d, q);
	pack(b + 2, q);
}

void
quantize_iq4_xs(const struct search *s, const float *x, const float *w,
    uint8_t *b)
{
	float step[8], weight[8] = {0}, d, e, least;
	int8_t code[8], q[32];
	int j, a, best, high = 0;

	for (j = 0; j < 8; j++) {
		step[j] = s->book(x + 32 * j, w + 32 * j, 32);
		for (a = 0; a < 32; a++)
			weight[j] += w[32 * j + a];
	}
	s->symmetric(step, weight, 8, 1, -32, 31, &d);
	d = put_f16(b, d);
	s->codes(step, 8, d, 0, -32, 31, code);
	memset(b + 4, 0, 4);
	for (j = 0; j < 8; j++) {
		least = INFINITY;
		best = 0;
		for (a = MAX(code[j] - 1, -32); a <= MIN(code[j] + 1, 31);
		    a++) {
			e = s->book_error(x + 32 * j, w + 32 * j, 32,
			    d * (float)a);
			if (e < least) {
				least = e;
				best = a;
			}
		}
		s->book_codes(x + 32 * j, 32, d * (float)best, q);
		pack(b + 8 + 16 * j, q);
		best += 32;
		b[4 + j / 2] |= (uint8_t)((best & 15) << j % 2 * 4);
		high |= best >> 4 << 2 * j;
	}
	put_u16(b + 2, (uint16_t)high);
}
