/* SPDX-License-Identifier: MIT */
/*
 * Partial selection with a heap: the few best of a whole vocabulary cost one
 * comparison for nearly every other candidate. For all of them it is heapsort,
 * with no bad case. The result is one defined order, whatever the machine.
 */
#include "sample.h"

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

void
heap_make(struct pico_cand *heap, size_t m, double centre)
{
	size_t i;

	for (i = m / 2; i > 0; i--)
		sink(heap, m, i - 1, centre);
}

void
heap_sink(struct pico_cand *heap, size_t m, double centre)
{
	sink(heap, m, 0, centre);
}

void
heap_sort(struct pico_cand *heap, size_t m, double centre)
{
	struct pico_cand last;

	for (; m > 1; m--) {
		last = heap[0];
		heap[0] = heap[m - 1];
		heap[m - 1] = last;
		sink(heap, m - 1, 0, centre);
	}
}

void
select_first(struct pico_cand *cand, size_t n, size_t m, double centre)
{
	struct pico_cand c;
	size_t i;

	if (m == 0)
		return;
	heap_make(cand, m, centre);
	for (i = m; i < n; i++) {
		if (!before(&cand[i], &cand[0], centre))
			continue;
		c = cand[i];
		cand[i] = cand[0];
		cand[0] = c;
		heap_sink(cand, m, centre);
	}
	heap_sort(cand, m, centre);
}
