/* SPDX-License-Identifier: MIT */
/* Probabilities of a whole row of logits. */
#include "sample.h"

/* Index of the highest logit, the first of several. False if one is NaN or all
   are -infinity. */
static bool
highest(const float *logits, uint32_t n, uint32_t *best)
{
	uint32_t i;

	*best = 0;
	for (i = 0; i < n; i++) {
		if (isnan(logits[i]))
			return false;
		if (logits[i] > logits[*best])
			*best = i;
	}
	return n > 0 && logits[*best] > -INFINITY;
}

/* Log-probability of the highest logit: -ln of the sum of exp(l - max). */
static double
highest_logprob(const float *logits, uint32_t n, double max)
{
	return max == INFINITY ? 0 : -m_log(m_exp_sum(logits, n, max));
}

double
pico_logprob(const float *logits, uint32_t n, int32_t id)
{
	uint32_t best;
	double max;

	if (!highest(logits, n, &best))
		return (double)NAN;
	max = logits[best];
	if (max == INFINITY)
		return (uint32_t)id == best ? 0 : -INFINITY;
	return (logits[id] - max) + highest_logprob(logits, n, max);
}

size_t
pico_top(const float *logits, uint32_t n, struct pico_cand *out, size_t k)
{
	double max, lp;
	size_t i;

	k = MIN(k, n);
	if (k == 0 || select_best(logits, n, k, out) < n ||
	    out[0].logit == -INFINITY)
		return 0;
	max = out[0].logit;
	lp = highest_logprob(logits, n, max);
	for (i = 0; i < k; i++)
		out[i].p = max == INFINITY ? i == 0 :
		    m_exp((out[i].logit - max) + lp);
	return k;
}
