/* SPDX-License-Identifier: MIT */
/*
 * Rotary position embedding: angles. Pair p of a head turns by
 * pos * base^(-2p/r) (Su et al. 2021, arXiv 2104.09864), divided by the
 * model's own factors (Llama 3), scaled linearly or by YaRN (Peng et al. 2023,
 * arXiv 2309.00071, section 3.2). In double precision with our own functions.
 */
#include <math.h>

#include "model.h"

#define PI 3.14159265358979323846

/* The pair whose wavelength fits `turns` times into the original context. */
static double
yarn_pair(const struct hparams *h, double base, double turns)
{
	return h->n_rot * m_log(h->rope_ctx_orig / (turns * 2 * PI)) /
	    (2 * m_log(base));
}

/* What YaRN multiplies queries and keys by; DeepSeek-V2 has it in the scores. */
static double
yarn_magnitude(const struct hparams *h, double scale)
{
	double grown = -0.1 * m_log(scale);

	if (h->arch->mixer == MLA)
		return 1;
	return (1 + grown) / (1 + h->yarn_log * grown);
}

void
rope_frequencies(const struct hparams *h, int which, const float *factors,
    double *freq, double *magnitude)
{
	const struct rope *rope = &h->rope_of[which];
	double lo = 0, hi = 0, ramp, f;
	uint32_t p, half = h->n_rot / 2;

	*magnitude = rope->attn_factor;
	if (rope->yarn) {
		lo = fmax(0, floor(yarn_pair(h, rope->base, h->yarn_fast)));
		hi = fmin(h->n_rot - 1, ceil(yarn_pair(h, rope->base,
		    h->yarn_slow)));
		*magnitude *= yarn_magnitude(h, rope->scale);
	}
	for (p = 0; p < half; p++) {
		f = m_pow(rope->base, -2.0 * p / h->n_rot);
		if (factors != NULL && !rope->plain)
			f /= factors[p];
		if (rope->yarn) {
			ramp = (p - lo) / fmax(0.001, hi - lo);
			ramp = 1 - fmin(1, fmax(0, ramp));
			f = rope->scale * f * (1 - ramp) + f * ramp;
		} else {
			f *= rope->scale;
		}
		freq[p] = f;
	}
}

void
rope_angles(const double *freq, double magnitude, uint32_t n_rot,
    uint32_t pos, float *cos, float *sin)
{
	double s, c;
	uint32_t p;

	for (p = 0; p < n_rot / 2; p++) {
		m_sincos(pos * freq[p], &s, &c);
		cos[p] = (float)(c * magnitude);
		sin[p] = (float)(s * magnitude);
	}
}
