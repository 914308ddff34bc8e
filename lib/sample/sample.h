/* SPDX-License-Identifier: MIT */
/* The list of candidates, and what works on it. Private to lib/sample/. */
#ifndef PICO_SAMPLE_H
#define PICO_SAMPLE_H

#include <math.h>

#include "../base/base.h"

/*
 * The order of candidates: nearest to `centre` first, then by logit, then by
 * id. INFINITY as centre puts the highest logit first.
 */
static inline double
distance(double logit, double centre)
{
	return centre == INFINITY ? -logit : fabs(logit - centre);
}

static inline bool
before(const struct pico_cand *a, const struct pico_cand *b, double centre)
{
	double da = distance(a->logit, centre);
	double db = distance(b->logit, centre);

	if (da != db)
		return da < db;
	if (a->logit != b->logit)
		return a->logit > b->logit;
	return a->id < b->id;
}

/* A heap is as good as any way if m of n candidates are wanted. */
static inline bool
select_few(size_t n, size_t m)
{
	return m > 0 && m < n / 64;
}

/* Puts the highest k of n logits into `out`, in order; 1 <= k <= n. Returns n, or
   which logit is the first NaN. */
uint32_t select_best(const float *logits, uint32_t n, size_t k,
    struct pico_cand *out);
/* Brings the first m of n candidates to the front, in order; m <= n. */
void select_first(struct pico_cand *cand, size_t n, size_t m, double centre);

/* Enough candidates: at least so many, whose probabilities add up to p, or
   (`beyond`) to more. */
struct goal {
	size_t least;
	double p;
	bool beyond;
	size_t n;		/* taken so far */
	double sum;
};

/* Takes candidates in their order until it is enough; false if it is not. */
bool goal_take(struct goal *g, const struct pico_cand *cand, size_t n);
/* Puts the candidates in order, and takes them, until it is enough. Returns how
   many at the front are in order. */
size_t select_until(struct pico_cand *cand, size_t n, double centre,
    struct goal *g);

/* ---- the list (cands.c) ---- */

struct pico_sampler {
	uint32_t n_vocab;
	struct pico_cand *cand;	/* n_vocab, n of them left */
	size_t n;
	size_t sorted;		/* so many at the front are the best, in order */
	bool by_id;		/* cand[i].id == i, none is gone */
	uint32_t *count;	/* n_vocab, zero between uses */
	uint32_t *z;		/* for DRY */
	size_t cap_z;
	/* of this run */
	const struct pico_chain *chain;
	const struct pico_seq *seq;
};

/* The best k tokens, or all; fails on NaN. */
int cands_load(struct pico_sampler *s, const float *logits, size_t k,
    struct pico_err *err);
/* Puts the best m candidates in order at the front. */
void cands_sort(struct pico_sampler *s, size_t m);
/* Leaves the first n. */
void cands_cut(struct pico_sampler *s, size_t n);
/* Leaves those with a logit of at least `least`, but min_keep (>= 1) if there
   are so many. */
void cands_keep(struct pico_sampler *s, double least, size_t min_keep);
/* Index of the highest logit; of several, the one of the lowest id. */
size_t cands_best(const struct pico_sampler *s);
/* Fills in the probabilities. An infinite logit takes all. */
int cands_softmax(struct pico_sampler *s, struct pico_err *err);
/*
 * Orders the list by distance from centre, only as far as needed: until the
 * probabilities add up to p (`beyond`: to more than p) and there are min_keep.
 * Returns how many that are.
 */
size_t cands_gather(struct pico_sampler *s, double centre, double p,
    bool beyond, size_t min_keep);

/* ---- the samplers: penalty.c, dry.c, filter.c, mirostat.c, temp.c ---- */

void sampler_bias(struct pico_sampler *s);
void sampler_penalties(struct pico_sampler *s, const struct pico_step *step);
int sampler_dry(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err);
void sampler_top_n_sigma(struct pico_sampler *s, const struct pico_step *step);
/* How many of n it leaves. */
size_t top_k_of(const struct pico_step *step, size_t n);
void sampler_top_k(struct pico_sampler *s, const struct pico_step *step);
int sampler_typical(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err);
int sampler_top_p(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err);
void sampler_min_p(struct pico_sampler *s, const struct pico_step *step);
int sampler_xtc(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err);
int sampler_temp(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err);
int sampler_mirostat(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err);
/* What a token of probability p adds to the drift. */
double mirostat_drift(const struct pico_step *step, double p);

#endif
