/* SPDX-License-Identifier: MIT */
/* Candidates in order, and their selection. Private to lib/sample/. */
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

/* A heap of m candidates, the last one in order on top, so that better ones
   can replace it. */
void heap_make(struct pico_cand *heap, size_t m, double centre);
/* Restores the heap after its top was replaced. */
void heap_sink(struct pico_cand *heap, size_t m, double centre);
/* Turns the heap into a list in order. */
void heap_sort(struct pico_cand *heap, size_t m, double centre);

/* Brings the first m of n candidates to the front, in order; m <= n. */
void select_first(struct pico_cand *cand, size_t n, size_t m, double centre);

#endif
