/* SPDX-License-Identifier: MIT */
/* Text to token id: open addressing with linear probes, see HASH_PROBES. */
#include <stdlib.h>
#include <string.h>

#include "text.h"

static struct pico_str
text_of(const struct index *x, int32_t id)
{
	return id < x->v->n ? vocab_text(x->v, id) :
	    x->extra[id - x->v->n];
}

static uint32_t
hash(const char *p, size_t n)
{
	return hash_text(n, p, n);
}

/* The slot where a text is, or where it would go; NULL: too far away. */
static struct index_slot *
probe(const struct index *x, uint32_t h, const char *p, size_t n)
{
	for (size_t i = 0; i < HASH_PROBES; i++) {
		struct index_slot *slot = &x->slot[(h + i) & x->mask];
		struct pico_str s;

		if (slot->id < 0)
			return slot;
		if (slot->hash != h)
			continue;
		s = text_of(x, slot->id);
		if (s.n == n && memcmp(s.p, p, n) == 0)
			return slot;
	}
	return NULL;
}

static int
fail_crowded(struct pico_err *err)
{
	return fail(err, "texts of tokens or merges have the same hash, more "
	    "than %d of them", HASH_PROBES);
}

int32_t
index_find(const struct index *x, const char *p, size_t n)
{
	const struct index_slot *slot = probe(x, hash(p, n), p, n);

	return slot != NULL ? slot->id : -1;
}

/* Slots, and the texts of their tokens, are seldom in the caches: they are asked
   for before they are needed, many at a time. */
static void
hash_all(const struct index *x, const struct pico_str *s, size_t n, uint32_t *h)
{
	for (size_t i = 0; i < n; i++) {
		h[i] = hash(s[i].p, s[i].n);
		__builtin_prefetch(&x->slot[h[i] & x->mask]);
	}
}

void
index_find_all(const struct index *x, const struct pico_str *s, size_t n,
    int32_t *id)
{
	uint32_t h[INDEX_BATCH];
	size_t i;

	hash_all(x, s, n, h);
	for (i = 0; i < n; i++) {
		int32_t first = x->slot[h[i] & x->mask].id;

		if (first >= 0)
			__builtin_prefetch(text_of(x, first).p);
	}
	for (i = 0; i < n; i++) {
		const struct index_slot *slot = probe(x, h[i], s[i].p, s[i].n);

		id[i] = slot != NULL ? slot->id : -1;
	}
}

static int
resize(struct index *x, size_t size, struct pico_err *err)
{
	struct index_slot *old = x->slot, *to;
	size_t i, k, n = old != NULL ? x->mask + 1 : 0;

	x->slot = mem_new(size, sizeof *x->slot, "token index", err);
	if (x->slot == NULL) {
		x->slot = old;
		return -1;
	}
	x->mask = size - 1;
	for (i = 0; i < size; i++)
		x->slot[i].id = -1;
	for (i = 0; i < n; i++) {
		if (old[i].id < 0)
			continue;
		for (k = 0; k < HASH_PROBES; k++) {
			to = &x->slot[(old[i].hash + k) & x->mask];
			if (to->id < 0)
				break;
		}
		if (k == HASH_PROBES)
			break;
		*to = old[i];
	}
	free(old);
	return i < n ? fail_crowded(err) : 0;
}

int
index_init(struct index *x, const struct pico_vocab *v, struct pico_err *err)
{
	struct pico_str s[INDEX_BATCH];
	uint32_t h[INDEX_BATCH];
	size_t size = 1024, i, n;
	int32_t id;

	*x = (struct index){ .v = v };
	while (size / 2 < (size_t)v->n)
		size *= 2;
	if (resize(x, size, err) < 0)
		return -1;
	for (id = 0; id < v->n; id += (int32_t)n) {
		n = (size_t)MIN(v->n - id, INDEX_BATCH);
		for (i = 0; i < n; i++)
			s[i] = vocab_text(v, id + (int32_t)i);
		hash_all(x, s, n, h);
		for (i = 0; i < n; i++) {
			struct index_slot *slot = probe(x, h[i], s[i].p,
			    s[i].n);

			if (slot == NULL)
				return fail_crowded(err);
			if (slot->id < 0) {	/* of equal texts the lowest */
				*slot = (struct index_slot){ h[i],
				    id + (int32_t)i };
				x->used++;
			}
		}
	}
	return 0;
}

int32_t
index_intern(struct index *x, const char *p, size_t n, struct pico_err *err)
{
	uint32_t h = hash(p, n);
	struct index_slot *slot = probe(x, h, p, n);
	char *copy;

	if (slot != NULL && slot->id >= 0)
		return slot->id;
	if ((x->used + 1) * 2 > x->mask + 1) {
		if (resize(x, (x->mask + 1) * 2, err) < 0)
			return -1;
		slot = probe(x, h, p, n);
	}
	if (slot == NULL)
		return fail_crowded(err);
	if (mem_grow(&x->extra, &x->cap_extra, x->n_extra + 1,
	    sizeof *x->extra, "texts of merges", err) < 0)
		return -1;
	copy = mem_new(n, 1, "text of a merge", err);
	if (copy == NULL)
		return -1;
	memcpy(copy, p, n);
	x->extra[x->n_extra] = (struct pico_str){ copy, n };
	*slot = (struct index_slot){ h, x->v->n + (int32_t)x->n_extra };
	x->n_extra++;
	x->used++;
	return slot->id;
}

void
index_free(struct index *x)
{
	size_t i;

	for (i = 0; i < x->n_extra; i++)
		free((char *)(uintptr_t)x->extra[i].p);
	free(x->extra);
	free(x->slot);
}
