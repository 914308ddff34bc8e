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
yarn_pair(const struct hparams *h, double turns)
{
	return h->n_rot * m_log(h->rope_ctx_orig / (turns * 2 * PI)) /
	    (2 * m_log(h->rope_base));
}

void
rope_frequencies(const struct hparams *h, const float *factors,
    double *freq, double *magnitude)
{
	double lo = 0, hi = 0, ramp, f;
	uint32_t p, half = h->n_rot / 2;

	*magnitude = h->rope_attn_factor;
	if (h->yarn) {
		lo = fmax(0, floor(yarn_pair(h, 32)));
		hi = fmin(h->n_rot - 1, ceil(yarn_pair(h, 1)));
		*magnitude *= 1 - 0.1 * m_log(h->rope_scale);
	}
	for (p = 0; p < half; p++) {
		f = m_pow(h->rope_base, -2.0 * p / h->n_rot);
		if (factors != NULL)
			f /= factors[p];
		if (h->yarn) {
			ramp = (p - lo) / fmax(0.001, hi - lo);
			ramp = 1 - fmin(1, fmax(0, ramp));
			f = h->rope_scale * f * (1 - ramp) + f * ramp;
		} else {
			f *= h->rope_scale;
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
