/* SPDX-License-Identifier: MIT */
/* The pool of threads: every item once, by ranges of whole grains. */
#include <stdlib.h>
#include <string.h>

#include "../../lib/base/base.h"

static int n_run, n_failed;

static void
check(bool ok, const char *what, unsigned n)
{
	n_run++;
	n_failed += !ok;
	printf("%sok %d - %s, %u threads\n", ok ? "" : "not ", n_run, what, n);
}

enum { ITEMS = 1000 };

struct job {
	size_t n, grain;
	atomic_uint seen[ITEMS];
	atomic_bool bad_range;
};

static void
count(void *data, size_t lo, size_t hi)
{
	struct job *j = data;
	size_t i;

	if (lo >= hi || hi > j->n ||
	    lo % j->grain != 0 || (hi % j->grain != 0 && hi != j->n)) {
		atomic_store(&j->bad_range, true);
		return;
	}
	for (i = lo; i < hi; i++)
		atomic_fetch_add(&j->seen[i], 1);
}

/* True if each of n items was seen exactly once and no other. */
static bool
cover(struct pool *p, size_t n, size_t grain)
{
	static struct job j;
	size_t i;

	memset(&j, 0, sizeof j);
	j.n = n;
	j.grain = grain;
	pool_run(p, n, grain, count, &j);
	if (atomic_load(&j.bad_range))
		return false;
	for (i = 0; i < ITEMS; i++)
		if (atomic_load(&j.seen[i]) != (i < n))
			return false;
	return true;
}

static void
covers(struct pool *p)
{
	static const size_t ns[] = { 0, 1, 2, 3, 15, 16, 17, 64, 999, 1000 };
	static const size_t grains[] = { 1, 2, 16, 64, 5000 };
	bool ok = true;
	size_t i, k;

	for (i = 0; i < COUNT(ns); i++)
		for (k = 0; k < COUNT(grains); k++)
			ok = ok && cover(p, ns[i], grains[k]);
	check(ok, "each item once", pool_n(p));
}

/* Jobs that build on the one before: a worker that starts early, or is not
   waited for, breaks the sum. */
struct chain {
	unsigned *from, *to;
	size_t n;
};

static void
step(void *data, size_t lo, size_t hi)
{
	struct chain *c = data;
	size_t i;

	for (i = lo; i < hi; i++)
		c->to[i] = c->from[(i + 7) % c->n] + 1;
}

static void
in_order(struct pool *p, unsigned rounds)
{
	static unsigned a[64], b[64];
	struct chain c = { a, b, COUNT(a) };
	unsigned *t, r;
	bool ok = true;
	size_t i;

	memset(a, 0, sizeof a);
	for (r = 0; r < rounds; r++) {
		pool_run(p, COUNT(a), 1, step, &c);
		t = c.from;
		c.from = c.to;
		c.to = t;
	}
	for (i = 0; i < COUNT(a); i++)
		ok = ok && c.from[i] == rounds;
	check(ok, "a job waits for the one before", pool_n(p));
}

int
main(void)
{
	static const unsigned sizes[] = { 1, 2, 3, 4, 8, 33 };
	struct pico_err err = {0};
	struct pool *p;
	size_t i;
	int k;

	for (i = 0; i < COUNT(sizes); i++) {
		p = pool_new(sizes[i], &err);
		check(p != NULL && pool_n(p) == sizes[i], "starts", sizes[i]);
		if (p == NULL)
			continue;
		covers(p);
		in_order(p, sizes[i] > 4 ? 50 : 2000);
		pool_free(p);
	}
	/* made and gone again, used or not: nothing hangs, nothing is left */
	for (k = 0; k < 50; k++) {
		p = pool_new(4, &err);
		if (p != NULL && k % 2 == 0)
			(void)cover(p, 100, 1);
		pool_free(p);
	}
	check(err.status == PICO_OK, "made fifty times", 4);
	pool_free(NULL);
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
