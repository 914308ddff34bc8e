/* SPDX-License-Identifier: MIT */
/* The list of candidates that the samplers work on. */
#include <inttypes.h>

#include "sample.h"

int
cands_load(struct pico_sampler *s, const float *logits, size_t k,
    struct pico_err *err)
{
	bool few = k < s->n_vocab;
	uint32_t i = 0;

	if (few)
		i = select_best(logits, s->n_vocab, k, s->cand);
	for (; i < s->n_vocab && !isnan(logits[i]); i++)
		s->cand[i] = (struct pico_cand){ (int32_t)i, logits[i], 0 };
	if (i < s->n_vocab)
		return fail(err, "position %zu: logit of token %" PRIu32
		    " is NaN", s->seq->n, i);
	s->n = few ? k : s->n_vocab;
	s->sorted = few ? k : 0;
	s->by_id = !few;
	return 0;
}

void
cands_sort(struct pico_sampler *s, size_t m)
{
	if (m <= s->sorted)
		return;
	select_first(s->cand + s->sorted, s->n - s->sorted, m - s->sorted,
	    INFINITY);
	s->sorted = m;
	s->by_id = false;
}

void
cands_cut(struct pico_sampler *s, size_t n)
{
	s->by_id = s->by_id && n == s->n;
	s->n = n;
	s->sorted = MIN(s->sorted, n);
}

void
cands_keep(struct pico_sampler *s, double least, size_t min_keep)
{
	size_t i, n = 0, sorted = 0;

	min_keep = MIN(min_keep, s->n);
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

size_t
cands_best(const struct pico_sampler *s)
{
	size_t i, b = 0;

	for (i = s->sorted > 0 ? s->n : 1; i < s->n; i++)
		if (s->cand[i].logit > s->cand[b].logit ||
		    (s->cand[i].logit == s->cand[b].logit &&
		    s->cand[i].id < s->cand[b].id))
			b = i;
	return b;
}

#define BLOCK 64	/* of exponentials */

int
cands_softmax(struct pico_sampler *s, struct pico_err *err)
{
	size_t b = cands_best(s), i, k, n;
	double max = s->cand[b].logit, sum = 0, e[BLOCK];

	if (max == -INFINITY)
		return fail(err, "position %zu: no token is possible",
		    s->seq->n);
	for (i = 0; i < s->n; i += n) {
		n = MIN(s->n - i, (size_t)BLOCK);
		for (k = 0; k < n; k++)
			e[k] = max < INFINITY ? s->cand[i + k].logit - max :
			    i + k == b ? 0 : -INFINITY;
		m_exp_each(e, n);
		for (k = 0; k < n; k++) {
			s->cand[i + k].p = e[k];
			sum += e[k];
		}
	}
	for (i = 0; i < s->n; i++)
		s->cand[i].p /= sum;
	return 0;
}

size_t
cands_gather(struct pico_sampler *s, double centre, double p, bool beyond,
    size_t min_keep)
{
	struct goal g = { .p = p, .beyond = beyond, .least = min_keep };
	size_t n = centre == INFINITY ? s->sorted : 0;

	s->sorted = n;
	if (!goal_take(&g, s->cand, n)) {
		s->by_id = false;
		n += select_until(s->cand + n, s->n - n, centre, &g);
		s->sorted = centre == INFINITY ? n : 0;
	}
	return g.n;
}
