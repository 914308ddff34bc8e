/* SPDX-License-Identifier: MIT */
/* Samplers that shorten the list. */
#include <string.h>

#include "sample.h"

/* Top-n-sigma (Tang et al. 2024): no farther below the best than n standard
   deviations of all. The others stay in the list, impossible. */
void
sampler_top_n_sigma(struct pico_sampler *s, const struct pico_step *step)
{
	double sum = 0, max, mean, least;
	size_t i, n = 0;

	max = s->cand[cands_best(s)].logit;
	for (i = 0; i < s->n; i++)
		if (isfinite(s->cand[i].logit)) {
			sum += s->cand[i].logit;
			n++;
		}
	mean = sum / (double)n;
	for (sum = 0, i = 0; i < s->n; i++)
		if (isfinite(s->cand[i].logit))
			sum += (s->cand[i].logit - mean) *
			    (s->cand[i].logit - mean);
	least = n == 0 ? max : max - step->a * sqrt(sum / (double)n);
	for (i = 0; i < s->n; i++)
		if (s->cand[i].logit < least)
			s->cand[i].logit = -INFINITY;
	s->sorted = 0;
}

size_t
top_k_of(const struct pico_step *step, size_t n)
{
	uint64_t k = MAX((uint64_t)step->n, step->min_keep);

	return step->n <= 0 ? n : (size_t)MIN(k, n);
}

void
sampler_top_k(struct pico_sampler *s, const struct pico_step *step)
{
	size_t k = top_k_of(step, s->n);

	if (k == s->n)
		return;
	cands_sort(s, k);
	cands_cut(s, k);
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
	if (step->a > 0)
		cands_keep(s, s->cand[cands_best(s)].logit + m_log(step->a),
		    MAX(step->min_keep, (uint32_t)1));
}

/*
 * XTC, "exclude top choices": now and then, of the tokens with at least the
 * threshold of the probability all go but the least probable one.
 */
int
sampler_xtc(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err)
{
	const struct pico_seq *q = s->seq;
	size_t i, n = 0;

	/* no two can have more than half */
	if (s->n < 2 || !(step->a > 0) || step->b > 0.5 ||
	    pico_draw_other(q->seed, q->number, q->n) > step->a)
		return 0;
	if (cands_softmax(s, err) < 0)
		return -1;
	for (i = 0; i < s->n; i++)
		n += s->cand[i].p >= step->b && s->cand[i].p > 0;
	if (n < 2 || s->n - (n - 1) < step->min_keep)
		return 0;
	cands_sort(s, n);
	n--;
	memmove(s->cand, s->cand + n, (s->n - n) * sizeof *s->cand);
	s->n -= n;
	s->sorted -= n;
	return 0;
}
