/* SPDX-License-Identifier: MIT */
/* Samplers that change single logits. */
#include "sample.h"

/* A ban is final, whatever the logit was. */
void
sampler_bias(struct pico_sampler *s)
{
	const struct pico_bias *b = s->chain->bias;
	size_t i, k;

	for (k = 0; k < s->chain->n_bias; k++, b++) {
		i = 0;
		if (s->by_id)
			i = (size_t)b->id;
		while (i < s->n && s->cand[i].id != b->id)
			i++;
		if (i == s->n)
			continue;
		if (b->bias == -INFINITY)
			s->cand[i].logit = -INFINITY;
		else
			s->cand[i].logit += b->bias;
		s->sorted = 0;
	}
}

/* Repetition penalty (Keskar et al. 2019), frequency and presence penalties:
   once for each id in the window. Infinite logits stay what they are. */
void
sampler_penalties(struct pico_sampler *s, const struct pico_step *step)
{
	const int32_t *prev = s->seq->ids;
	size_t n_prev = s->seq->n, i, from = 0;

	if (step->n > 0 && (uint64_t)step->n < n_prev)
		from = n_prev - (size_t)step->n;
	for (i = from; i < n_prev; i++)
		if (prev[i] >= 0 && (uint32_t)prev[i] < s->n_vocab)
			s->count[prev[i]]++;
	for (i = 0; i < s->n; i++) {
		struct pico_cand *c = &s->cand[i];
		uint32_t n = s->count[c->id];

		if (n == 0 || isinf(c->logit))
			continue;
		c->logit = c->logit <= 0 ? c->logit * step->a :
		    c->logit / step->a;
		if (isfinite(c->logit))
			c->logit = c->logit - n * step->b - step->c;
	}
	for (i = from; i < n_prev; i++)
		if (prev[i] >= 0 && (uint32_t)prev[i] < s->n_vocab)
			s->count[prev[i]] = 0;
	s->sorted = 0;
}
