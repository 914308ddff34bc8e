/* SPDX-License-Identifier: MIT */
/* The list of candidates that the samplers work on. */
#include <inttypes.h>

#include "sample.h"

int
cands_load(struct pico_sampler *s, const float *logits, struct pico_err *err)
{
	uint32_t i;

	for (i = 0; i < s->n_vocab; i++) {
		if (isnan(logits[i]))
			return fail(err, "position %zu: logit of token "
			    "%" PRIu32 " is NaN", s->seq->n, i);
		s->cand[i] = (struct pico_cand){ (int32_t)i, logits[i], 0 };
	}
	s->n = s->n_vocab;
	s->sorted = 0;
	s->by_id = true;
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
		if (before(&s->cand[i], &s->cand[b], INFINITY))
			b = i;
	return b;
}

int
cands_softmax(struct pico_sampler *s, struct pico_err *err)
{
	size_t b = cands_best(s), i;
	double max = s->cand[b].logit, sum = 0;

	if (max == -INFINITY)
		return fail(err, "position %zu: no token is possible",
		    s->seq->n);
	for (i = 0; i < s->n; i++) {
		s->cand[i].p = max == INFINITY ? i == b :
		    m_exp(s->cand[i].logit - max);
		sum += s->cand[i].p;
	}
	for (i = 0; i < s->n; i++)
		s->cand[i].p /= sum;
	return 0;
}

size_t
cands_gather(struct pico_sampler *s, double centre, double p, bool beyond,
    size_t min_keep)
{
	size_t i, more, have = centre == INFINITY ? s->sorted : 0;
	double sum = 0;

	for (i = 0; i < s->n; i++) {
		if (i == have) {	/* each time three times as many */
			more = MIN(MAX(have * 2, (size_t)64), s->n - have);
			select_first(s->cand + have, s->n - have, more,
			    centre);
			have += more;
			s->by_id = false;
		}
		sum += s->cand[i].p;
		if (i + 1 >= min_keep && (beyond ? sum > p : sum >= p))
			break;
	}
	s->sorted = centre == INFINITY ? have : 0;
	return MIN(i + 1, s->n);
}
