/* SPDX-License-Identifier: MIT */
/*
 * Partial selection. The few best of a whole vocabulary are kept in a heap, which
 * costs one comparison for nearly every other candidate. Many are brought to the
 * front by quicksort, which leaves alone what is behind them; the heap takes over
 * where it would go deep. The order is one defined order, without equals, so
 * that neither way changes it, nor the machine.
 */
#include "sample.h"

static void
swap(struct pico_cand *a, struct pico_cand *b)
{
	struct pico_cand c = *a;

	*a = *b;
	*b = c;
}

static void
sink(struct pico_cand *heap, size_t m, size_t i, double centre)
{
	struct pico_cand c = heap[i];
	size_t k;

	while ((k = 2 * i + 1) < m) {
		if (k + 1 < m && before(&heap[k], &heap[k + 1], centre))
			k++;
		if (!before(&c, &heap[k], centre))
			break;
		heap[i] = heap[k];
		i = k;
	}
	heap[i] = c;
}

/* A heap of m candidates, the last one in order on top, so that better ones can
   replace it. */
static void
heap_make(struct pico_cand *heap, size_t m, double centre)
{
	size_t i;

	for (i = m / 2; i > 0; i--)
		sink(heap, m, i - 1, centre);
}

/* Turns the heap into a list in order. */
static void
heap_sort(struct pico_cand *heap, size_t m, double centre)
{
	for (; m > 1; m--) {
		swap(&heap[0], &heap[m - 1]);
		sink(heap, m - 1, 0, centre);
	}
}

static void
by_heap(struct pico_cand *cand, size_t n, size_t m, double centre)
{
	size_t i;

	if (m == 0)
		return;
	heap_make(cand, m, centre);
	for (i = m; i < n; i++) {
		if (!before(&cand[i], &cand[0], centre))
			continue;
		swap(&cand[i], &cand[0]);
		sink(cand, m, 0, centre);
	}
	heap_sort(cand, m, centre);
}

/* Splits the list: returns k, where cand[k] has its place and all before it
   come before it in order. n >= 3. */
static size_t
split(struct pico_cand *cand, size_t n, double centre)
{
	size_t i, k = n - 1;
	struct pico_cand c;

	/* the median of three is the pivot; the others stop the walks below */
	swap(&cand[n / 2], &cand[1]);
	if (before(&cand[n - 1], &cand[1], centre))
		swap(&cand[n - 1], &cand[1]);
	if (before(&cand[n - 1], &cand[0], centre))
		swap(&cand[n - 1], &cand[0]);
	if (before(&cand[0], &cand[1], centre))
		swap(&cand[0], &cand[1]);
	c = cand[0];
	for (i = 1; ; swap(&cand[i], &cand[k])) {
		do
			i++;
		while (before(&cand[i], &c, centre));
		do
			k--;
		while (before(&c, &cand[k], centre));
		if (i >= k)
			break;
	}
	swap(&cand[0], &cand[k]);
	return k;
}

bool
goal_take(struct goal *g, const struct pico_cand *cand, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		g->sum += cand[i].p;
		if (++g->n >= g->least &&
		    (g->beyond ? g->sum > g->p : g->sum >= g->p))
			return true;
	}
	return false;
}

#define FEW 16	/* of them the heap is as fast */

/* Adds to *sorted how many are in order. Recursion is as deep as `depth`. */
static bool
by_splits(struct pico_cand *cand, size_t n, double centre, int depth,
    struct goal *g, size_t *sorted)
{
	size_t k;

	for (;; cand += k + 1, n -= k + 1) {
		if (n <= FEW || depth-- == 0) {
			by_heap(cand, n, n, centre);
			*sorted += n;
			return goal_take(g, cand, n);
		}
		k = split(cand, n, centre);
		if (by_splits(cand, k, centre, depth, g, sorted))
			return true;
		++*sorted;
		if (goal_take(g, &cand[k], 1))
			return true;
	}
}

size_t
select_until(struct pico_cand *cand, size_t n, double centre, struct goal *g)
{
	size_t sorted = MIN(n, (size_t)64), i;
	int depth = 0;

	/* mostly, a few will do */
	by_heap(cand, n, sorted, centre);
	if (goal_take(g, cand, sorted))
		return sorted;
	for (i = n; i > 1; i /= 2)
		depth += 2;
	(void)by_splits(cand + sorted, n - sorted, centre, depth, g, &sorted);
	return sorted;
}

void
select_first(struct pico_cand *cand, size_t n, size_t m, double centre)
{
	struct goal g = { .least = m, .p = -INFINITY };

	if (select_few(n, m))
		by_heap(cand, n, m, centre);
	else if (m > 0)
		(void)select_until(cand, n, centre, &g);
}

#define BLOCK 16	/* logits that are looked at together */

/* Whether something is above `least`, or NaN. */
static bool
any_above(const float *x, float least)
{
	int i, any = 0;

	for (i = 0; i < BLOCK; i++)
		any |= !(x[i] <= least);
	return any;
}

uint32_t
select_best(const float *logits, uint32_t n, size_t k, struct pico_cand *out)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct pico_cand c = { (int32_t)i, logits[i], 0 };

		/* mostly there is nothing in a block */
		if (i >= k && n - i >= BLOCK &&
		    !any_above(logits + i, (float)out[0].logit)) {
			i += BLOCK - 1;
			continue;
		}
		if (isnan(logits[i]))
			return i;
		if (i < k)
			out[i] = c;
		if (i + 1 == k)
			heap_make(out, k, INFINITY);
		if (i >= k && before(&c, &out[0], INFINITY)) {
			out[0] = c;
			sink(out, k, 0, INFINITY);
		}
	}
	heap_sort(out, k, INFINITY);
	return n;
}
