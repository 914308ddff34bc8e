/* SPDX-License-Identifier: MIT */
/* Text to token id: open addressing with linear probes. */
#include <stdlib.h>
#include <string.h>

#include "text.h"

static struct pico_str
text_of(const struct index *x, int32_t id)
{
	return id < x->v->n ? pico_vocab_text(x->v, id) :
	    x->extra[id - x->v->n];
}

static uint32_t
hash(const char *p, size_t n)
{
	uint64_t h = hash_bytes(HASH_START ^ n, p, n);

	return (uint32_t)((h ^ h >> 32) * 0x9e3779b97f4a7c15u >> 32);
}

/* The slot where a text is, or where it would go. */
static size_t
probe(const struct index *x, uint32_t h, const char *p, size_t n)
{
	size_t i = h & x->mask;

	for (; x->slot[i].id >= 0; i = (i + 1) & x->mask) {
		struct pico_str s;

		if (x->slot[i].hash != h)
			continue;
		s = text_of(x, x->slot[i].id);
		if (s.n == n && memcmp(s.p, p, n) == 0)
			break;
	}
	return i;
}

int32_t
index_find(const struct index *x, const char *p, size_t n)
{
	return x->slot[probe(x, hash(p, n), p, n)].id;
}

static int
resize(struct index *x, size_t size, struct pico_err *err)
{
	struct index_slot *old = x->slot;
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
		k = old[i].hash & x->mask;
		while (x->slot[k].id >= 0)
			k = (k + 1) & x->mask;
		x->slot[k] = old[i];
	}
	free(old);
	return 0;
}

int
index_init(struct index *x, const struct pico_vocab *v, struct pico_err *err)
{
	size_t size = 1024;
	int32_t id;

	*x = (struct index){ .v = v };
	while (size / 2 < (size_t)v->n)
		size *= 2;
	if (resize(x, size, err) < 0)
		return -1;
	for (id = 0; id < v->n; id++) {
		struct pico_str s = pico_vocab_text(v, id);
		uint32_t h = hash(s.p, s.n);
		size_t i = probe(x, h, s.p, s.n);

		if (x->slot[i].id < 0) {	/* of equal texts the lowest */
			x->slot[i] = (struct index_slot){ h, id };
			x->used++;
		}
	}
	return 0;
}

int32_t
index_intern(struct index *x, const char *p, size_t n, struct pico_err *err)
{
	uint32_t h = hash(p, n);
	size_t i = probe(x, h, p, n);
	char *copy;

	if (x->slot[i].id >= 0)
		return x->slot[i].id;
	if ((x->used + 1) * 2 > x->mask + 1) {
		if (resize(x, (x->mask + 1) * 2, err) < 0)
			return -1;
		i = probe(x, h, p, n);
	}
	if (mem_grow(&x->extra, &x->cap_extra, x->n_extra + 1,
	    sizeof *x->extra, "texts of merges", err) < 0)
		return -1;
	copy = mem_new(n, 1, "text of a merge", err);
	if (copy == NULL)
		return -1;
	memcpy(copy, p, n);
	x->extra[x->n_extra] = (struct pico_str){ copy, n };
	x->slot[i] = (struct index_slot){ h, x->v->n + (int32_t)x->n_extra };
	x->n_extra++;
	x->used++;
	return x->slot[i].id;
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
