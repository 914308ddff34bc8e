/* SPDX-License-Identifier: MIT */
/*
 * A chain of samplers. Each changes logits or shortens the list of candidates;
 * probabilities are those of the list as it stands. All sums are in double and
 * in the order of the list, which depends on nothing but the input.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "sample.h"

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
	free(s->z);
	free(s);
}

/* Steps that would change nothing. */
static bool
rests(const struct pico_chain *chain, const struct pico_step *step)
{
	switch (step->kind) {
	case PICO_S_LOGIT_BIAS:
		return chain->n_bias == 0;
	case PICO_S_PENALTIES:
		return step->n == 0 ||
		    (step->a == 1 && step->b == 0 && step->c == 0);
	case PICO_S_DRY:
		return !(step->a > 0) || step->b < 1;
	case PICO_S_TOP_N_SIGMA:
		return !(step->a >= 0);
	case PICO_S_TYPICAL:
		return step->a >= 1;
	case PICO_S_XTC:
		return !(step->a > 0);
	default:
		return false;
	}
}

/* Whether the best candidate is drawn, whatever the others are: the temperature is
   0, and no step might do without the best. */
static bool
greedy(const struct pico_chain *chain)
{
	const struct pico_step *step = chain->steps;
	bool cold = false;
	size_t i;

	for (i = 0; i < chain->n_steps; i++, step++) {
		switch (step->kind) {
		case PICO_S_TOP_K:
		case PICO_S_TOP_P:
		case PICO_S_MIN_P:
			break;
		case PICO_S_TEMP:
			cold = cold || (step->a <= 0 && !(step->b > 0));
			break;
		default:
			if (!rests(chain, step))
				return false;
		}
	}
	return cold;
}

static int
run_step(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err)
{
	switch (step->kind) {
	case PICO_S_LOGIT_BIAS:
		sampler_bias(s);
		break;
	case PICO_S_PENALTIES:
		sampler_penalties(s, step);
		break;
	case PICO_S_DRY:
		return sampler_dry(s, step, err);
	case PICO_S_TOP_N_SIGMA:
		sampler_top_n_sigma(s, step);
		break;
	case PICO_S_TOP_K:
		sampler_top_k(s, step);
		break;
	case PICO_S_TYPICAL:
		return sampler_typical(s, step, err);
	case PICO_S_TOP_P:
		return sampler_top_p(s, step, err);
	case PICO_S_MIN_P:
		sampler_min_p(s, step);
		break;
	case PICO_S_XTC:
		return sampler_xtc(s, step, err);
	case PICO_S_TEMP:
		return sampler_temp(s, step, err);
	case PICO_S_MIROSTAT:
		return sampler_mirostat(s, step, err);
	}
	return 0;
}

/* Leaves the candidates with their probabilities, sorted as far as they happen
   to be. No more than the `most` best ones decide. */
static int
run(struct pico_sampler *s, const struct pico_chain *chain,
    const float *logits, const struct pico_seq *seq, size_t most,
    struct pico_err *err)
{
	size_t i, first = 0, k = s->n_vocab;

	for (i = 0; i < chain->n_bias; i++)
		if (chain->bias[i].id < 0 ||
		    (uint32_t)chain->bias[i].id >= s->n_vocab)
			return fail_usage(err, "logit bias for token %" PRId32
			    ", vocabulary has %" PRIu32, chain->bias[i].id,
			    s->n_vocab);
	s->chain = chain;
	s->seq = seq;
	while (first < chain->n_steps && rests(chain, &chain->steps[first]))
		first++;
	/* the list of all tokens is long: it is not made for a few of them */
	if (first < chain->n_steps &&
	    chain->steps[first].kind == PICO_S_TOP_K)
		k = top_k_of(&chain->steps[first], s->n_vocab);
	k = MIN(k, most);
	if (!select_few(s->n_vocab, k))
		k = s->n_vocab;
	if (cands_load(s, logits, k, err) < 0)
		return -1;
	for (i = first; i < chain->n_steps; i++)
		if (!rests(chain, &chain->steps[i]) &&
		    run_step(s, &chain->steps[i], err) < 0)
			return -1;
	return cands_softmax(s, err);
}

int64_t
pico_sampler_run(struct pico_sampler *s, const struct pico_chain *chain,
    const float *logits, const struct pico_seq *seq,
    const struct pico_cand **out, struct pico_err *err)
{
	if (run(s, chain, logits, seq, s->n_vocab, err) < 0)
		return -1;
	cands_sort(s, s->n);
	*out = s->cand;
	return (int64_t)s->n;
}

int
pico_sampler_draw(struct pico_sampler *s, const struct pico_chain *chain,
    const float *logits, struct pico_seq *seq, int32_t *id,
    struct pico_err *err)
{
	double u = pico_draw(seq->seed, seq->number, seq->n);
	const struct pico_step *step = chain->steps;
	size_t i, k = 0;

	if (run(s, chain, logits, seq, greedy(chain) ? 1 : s->n_vocab, err) < 0)
		return -1;
	*id = pico_choose(s->cand, cands_gather(s, INFINITY, u, true, 1), u);
	for (i = 0; i < chain->n_steps; i++, step++) {
		if (step->kind != PICO_S_MIROSTAT || step->n == 0)
			continue;
		while (s->cand[k].id != *id)
			k++;
		seq->drift += mirostat_drift(step, s->cand[k].p);
	}
	return 0;
}
