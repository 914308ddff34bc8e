/* SPDX-License-Identifier: MIT */
/* Temperature. */
#include "sample.h"

/* Temperature 0, or one so small that logits would overflow, leaves the best
   and makes the others impossible. */
void
sampler_temp(struct pico_sampler *s, const struct pico_step *step)
{
	size_t b = cands_best(s), i;
	bool greedy = step->a <= 0 || !isfinite(s->cand[b].logit / step->a);

	for (i = 0; i < s->n; i++) {
		if (!greedy)
			s->cand[i].logit /= step->a;
		else if (i != b)
			s->cand[i].logit = -INFINITY;
	}
	s->sorted = 0;		/* rounding may have made equal ones */
}
