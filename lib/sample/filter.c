/* SPDX-License-Identifier: MIT */
/* Samplers that shorten the list. */
#include "sample.h"

void
sampler_top_k(struct pico_sampler *s, const struct pico_step *step)
{
	uint64_t k = MAX((uint64_t)step->n, step->min_keep);

	if (step->n <= 0 || k >= s->n)
		return;
	cands_sort(s, (size_t)k);
	cands_cut(s, (size_t)k);
}

/*
 * Locally typical sampling (Meister et al. 2022): the shortest list whose
 * surprise -ln p is nearest to the entropy H. As -ln p_i = ln Z - l_i and H =
 * ln Z - sum p l, that is nearness of the logit to the mean logit.
 */
int
sampler_typical(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err)
{
	double max, centre;
	size_t i;

	if (step->a >= 1)
		return 0;
	if (cands_softmax(s, err) < 0)
		return -1;
	max = s->cand[cands_best(s)].logit;
	centre = max;
	for (i = 0; i < s->n; i++)
		if (s->cand[i].p > 0 && s->cand[i].logit < max)
			centre += s->cand[i].p * (s->cand[i].logit - max);
	cands_cut(s, cands_gather(s, centre, step->a, true, step->min_keep));
	return 0;
}

/* Nucleus sampling (Holtzman et al. 2019): the shortest list of the most
   probable that has p of the probability. */
int
sampler_top_p(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err)
{
	if (step->a >= 1)
		return 0;
	if (cands_softmax(s, err) < 0)
		return -1;
	cands_cut(s, cands_gather(s, INFINITY, step->a, false, step->min_keep));
	return 0;
}

/* Min-p (Nguyen et al. 2024): at least p of the probability of the best, so
   no farther below it than ln p in logits. */
void
sampler_min_p(struct pico_sampler *s, const struct pico_step *step)
{
	size_t i, n = 0, sorted = 0, min_keep = MIN(step->min_keep, s->n);
	double least;

	if (step->a <= 0)
		return;
	least = s->cand[cands_best(s)].logit + m_log(step->a);
	for (i = 0; i < s->n; i++)
		n += s->cand[i].logit >= least;
	if (n <= min_keep) {
		cands_sort(s, min_keep);
		cands_cut(s, min_keep);
		return;
	}
	if (n == s->n)
		return;
	for (n = 0, i = 0; i < s->n; i++) {
		if (s->cand[i].logit < least)
			continue;
		sorted += i < s->sorted;
		s->cand[n++] = s->cand[i];
	}
	s->sorted = sorted;
	s->by_id = false;
	s->n = n;
}
