/* SPDX-License-Identifier: MIT */
/* What the numbers of a tensor are like. */
#include <math.h>

#include "gguf.h"

#define CHUNK 4096	/* a whole number of blocks of every type */

int
pico_stats(uint32_t type, const void *src, uint64_t n, struct pico_stats *out)
{
	const struct pico_type *t = pico_type(type);
	const uint8_t *b = src;
	double sum = 0, squares = 0;
	uint64_t i, finite;
	float y[CHUNK];
	size_t k, j;

	*out = (struct pico_stats){ .n = n };
	if (t == NULL || n % t->block != 0)
		return -1;
	for (i = 0; i < n; i += k) {
		k = (size_t)MIN(n - i, CHUNK);
		(void)pico_dequantize(type, b, y, k);
		b += k / t->block * t->bytes;
		for (j = 0; j < k; j++) {
			double v = (double)y[j];

			if (isnan(v)) {
				out->n_nan++;
				continue;
			}
			if (isinf(v)) {
				out->n_inf++;
				continue;
			}
			if (i + j == out->n_nan + out->n_inf)	/* the first */
				out->min = out->max = v;
			out->min = MIN(out->min, v);
			out->max = MAX(out->max, v);
			sum += v;
			squares += v * v;
		}
	}
	finite = n - out->n_nan - out->n_inf;
	if (finite > 0) {
		out->mean = sum / (double)finite;
		out->rms = sqrt(squares / (double)finite);
	}
	return 0;
}
