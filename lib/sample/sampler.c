/* SPDX-License-Identifier: MIT */
/*
 * The samplers. Each changes logits or shortens the list of candidates;
 * probabilities are those of the list as it stands. All sums are in double and
 * in the order of the list, which depends on nothing but the input.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "sample.h"

struct pico_sampler {
	uint32_t n_vocab;
	struct pico_cand *cand;	/* n_vocab, n of them left */
	size_t n;
	size_t sorted;		/* so many at the front are the best, in order */
	bool by_id;		/* cand[i].id == i, none is gone */
	uint32_t *count;	/* n_vocab, zero between uses */
};

struct pico_sampler *
pico_sampler_new(uint32_t n_vocab, struct pico_err *err)
{
	struct pico_sampler *s;

	if (n_vocab == 0) {
		(void)fail_usage(err, "sampler for a vocabulary of 0 tokens");
		return NULL;
	}
	s = mem_new(1, sizeof *s, "sampler", err);
	if (s == NULL)
		return NULL;
	s->n_vocab = n_vocab;
	s->cand = mem_new(n_vocab, sizeof *s->cand, "sampler: candidates",
	    err);
	s->count = mem_new(n_vocab, sizeof *s->count, "sampler: counts", err);
	if (s->cand == NULL || s->count == NULL) {
		pico_sampler_free(s);
		return NULL;
	}
	return s;
}

void
pico_sampler_free(struct pico_sampler *s)
{
	if (s == NULL)
		return;
	free(s->cand);
	free(s->count);
	free(s);
}

static int
load(struct pico_sampler *s, const float *logits, uint64_t pos,
    struct pico_err *err)
{
	uint32_t i;

	for (i = 0; i < s->n_vocab; i++) {
		if (isnan(logits[i]))
			return fail(err, "position %" PRIu64 ": logit of token "
			    "%" PRIu32 " is NaN", pos, i);
		s->cand[i] = (struct pico_cand){ (int32_t)i, logits[i], 0 };
	}
	s->n = s->n_vocab;
	s->sorted = 0;
	s->by_id = true;
	return 0;
}

/* Puts the best m candidates in order at the front. */
static void
sort_to(struct pico_sampler *s, size_t m)
{
	if (m <= s->sorted)
		return;
	select_first(s->cand + s->sorted, s->n - s->sorted, m - s->sorted,
	    INFINITY);
	s->sorted = m;
	s->by_id = false;
}

static void
cut(struct pico_sampler *s, size_t n)
{
	s->by_id = s->by_id && n == s->n;
	s->n = n;
	s->sorted = MIN(s->sorted, n);
}

/* Index of the highest logit; of several, the one of the lowest id. */
static size_t
best(const struct pico_sampler *s)
{
	size_t i, b = 0;

	for (i = s->sorted > 0 ? s->n : 1; i < s->n; i++)
		if (before(&s->cand[i], &s->cand[b], INFINITY))
			b = i;
	return b;
}

/* Fills in the probabilities. An infinite logit takes all. */
static int
softmax(struct pico_sampler *s, uint64_t pos, struct pico_err *err)
{
	size_t b = best(s), i;
	double max = s->cand[b].logit, sum = 0;

	if (max == -INFINITY)
		return fail(err, "position %" PRIu64 ": no token is possible",
		    pos);
	for (i = 0; i < s->n; i++) {
		s->cand[i].p = max == INFINITY ? i == b :
		    m_exp(s->cand[i].logit - max);
		sum += s->cand[i].p;
	}
	for (i = 0; i < s->n; i++)
		s->cand[i].p /= sum;
	return 0;
}

/*
 * Orders the list by distance from centre, only as far as needed: until the
 * probabilities add up to p (`beyond`: to more than p) and there are min_keep.
 * Returns how many that are.
 */
static size_t
gather(struct pico_sampler *s, double centre, double p, bool beyond,
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

/* ---- the steps ---- */

/* A ban is final, whatever the logit was. */
static void
logit_bias(struct pico_sampler *s, const struct pico_chain *chain)
{
	const struct pico_bias *b = chain->bias;
	size_t i, k;

	for (k = 0; k < chain->n_bias; k++, b++) {
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
static void
penalties(struct pico_sampler *s, const struct pico_step *step,
    const int32_t *prev, size_t n_prev)
{
	size_t i, from = 0;

	if (step->n == 0 || (step->a == 1 && step->b == 0 && step->c == 0))
		return;
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

static void
top_k(struct pico_sampler *s, const struct pico_step *step)
{
	uint64_t k = MAX((uint64_t)step->n, step->min_keep);

	if (step->n <= 0 || k >= s->n)
		return;
	sort_to(s, (size_t)k);
	cut(s, (size_t)k);
}

/*
 * Locally typical sampling (Meister et al. 2022): the shortest list whose
 * surprise -ln p is nearest to the entropy H. As -ln p_i = ln Z - l_i and H =
 * ln Z - sum p l, that is nearness of the logit to the mean logit.
 */
static int
typical(struct pico_sampler *s, const struct pico_step *step, uint64_t pos,
    struct pico_err *err)
{
	double max, centre;
	size_t i;

	if (step->a >= 1)
		return 0;
	if (softmax(s, pos, err) < 0)
		return -1;
	max = s->cand[best(s)].logit;
	centre = max;
	for (i = 0; i < s->n; i++)
		if (s->cand[i].p > 0 && s->cand[i].logit < max)
			centre += s->cand[i].p * (s->cand[i].logit - max);
	cut(s, gather(s, centre, step->a, true, step->min_keep));
	return 0;
}

/* Nucleus sampling (Holtzman et al. 2019): the shortest list of the most
   probable that has p of the probability. */
static int
top_p(struct pico_sampler *s, const struct pico_step *step, uint64_t pos,
    struct pico_err *err)
{
	if (step->a >= 1)
		return 0;
	if (softmax(s, pos, err) < 0)
		return -1;
	cut(s, gather(s, INFINITY, step->a, false, step->min_keep));
	return 0;
}

/* Min-p (Nguyen et al. 2024): at least p of the probability of the best, so
   no farther below it than ln p in logits. */
static void
min_p(struct pico_sampler *s, const struct pico_step *step)
{
	size_t i, n = 0, sorted = 0, min_keep = MIN(step->min_keep, s->n);
	double least;

	if (step->a <= 0)
		return;
	least = s->cand[best(s)].logit + m_log(step->a);
	for (i = 0; i < s->n; i++)
		n += s->cand[i].logit >= least;
	if (n <= min_keep) {
		sort_to(s, min_keep);
		cut(s, min_keep);
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

/* Temperature 0, or one so small that logits would overflow, leaves the best
   and makes the others impossible. */
static void
temperature(struct pico_sampler *s, const struct pico_step *step)
{
	size_t b = best(s), i;
	bool greedy = step->a <= 0 || !isfinite(s->cand[b].logit / step->a);

	for (i = 0; i < s->n; i++) {
		if (!greedy)
			s->cand[i].logit /= step->a;
		else if (i != b)
			s->cand[i].logit = -INFINITY;
	}
	s->sorted = 0;		/* rounding may have made equal ones */
}

/* Leaves the candidates with their probabilities, sorted as far as they happen
   to be. */
static int
run(struct pico_sampler *s, const struct pico_chain *chain,
    const float *logits, const int32_t *prev, size_t n_prev, uint64_t pos,
    struct pico_err *err)
{
	const struct pico_step *step = chain->steps;
	size_t i;

	for (i = 0; i < chain->n_bias; i++)
		if (chain->bias[i].id < 0 ||
		    (uint32_t)chain->bias[i].id >= s->n_vocab)
			return fail_usage(err, "logit bias for token %" PRId32
			    ", vocabulary has %" PRIu32, chain->bias[i].id,
			    s->n_vocab);
	if (load(s, logits, pos, err) < 0)
		return -1;
	for (i = 0; i < chain->n_steps; i++, step++) {
		switch (step->kind) {
		case PICO_S_LOGIT_BIAS:
			logit_bias(s, chain);
			break;
		case PICO_S_PENALTIES:
			penalties(s, step, prev, n_prev);
			break;
		case PICO_S_TOP_K:
			top_k(s, step);
			break;
		case PICO_S_TYPICAL:
			if (typical(s, step, pos, err) < 0)
				return -1;
			break;
		case PICO_S_TOP_P:
			if (top_p(s, step, pos, err) < 0)
				return -1;
			break;
		case PICO_S_MIN_P:
			min_p(s, step);
			break;
		case PICO_S_TEMP:
			temperature(s, step);
			break;
		}
	}
	return softmax(s, pos, err);
}

int64_t
pico_sampler_run(struct pico_sampler *s, const struct pico_chain *chain,
    const float *logits, const int32_t *prev, size_t n_prev, uint64_t pos,
    const struct pico_cand **out, struct pico_err *err)
{
	if (run(s, chain, logits, prev, n_prev, pos, err) < 0)
		return -1;
	sort_to(s, s->n);
	*out = s->cand;
	return (int64_t)s->n;
}

int
pico_sampler_draw(struct pico_sampler *s, const struct pico_chain *chain,
    const float *logits, const int32_t *prev, size_t n_prev, uint64_t pos,
    double u, int32_t *id, struct pico_err *err)
{
	if (run(s, chain, logits, prev, n_prev, pos, err) < 0)
		return -1;
	*id = pico_choose(s->cand, gather(s, INFINITY, u, true, 1), u);
	return 0;
}
