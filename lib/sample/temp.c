/* SPDX-License-Identifier: MIT */
/* Temperature, fixed or dynamic. */
#include "sample.h"

/*
 * Dynamic temperature: between a - range and a + range, by the entropy of the
 * list as a part of the largest it could have.
 */
static int
dynamic(struct pico_sampler *s, const struct pico_step *step, double *t,
    struct pico_err *err)
{
	double least = MAX(step->a - step->b, 0.0), most = step->a + step->b;
	double h = 0;
	size_t i;

	if (cands_softmax(s, err) < 0)
		return -1;
	for (i = 0; i < s->n; i++)
		if (s->cand[i].p > 0)
			h -= s->cand[i].p * m_log(s->cand[i].p);
	h = MIN(h / m_log((double)s->n), 1.0);
	if (h > 0)
		h = m_pow(h, step->c);
	else
		h = step->c == 0;
	*t = least + (most - least) * h;
	return 0;
}

/* Temperature 0, or one so small that logits would overflow, leaves the best
   and makes the others impossible. */
int
sampler_temp(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err)
{
	size_t b = cands_best(s), i;
	double t = step->a;
	bool greedy;

	if (step->b > 0 && s->n > 1 && dynamic(s, step, &t, err) < 0)
		return -1;
	greedy = t <= 0 || !isfinite(s->cand[b].logit / t);
	for (i = 0; i < s->n; i++) {
		if (!greedy)
			s->cand[i].logit /= t;
		else if (i != b)
			s->cand[i].logit = -INFINITY;
	}
	s->sorted = 0;		/* rounding may have made equal ones */
	return 0;
}
