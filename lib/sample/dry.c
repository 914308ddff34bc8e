/* SPDX-License-Identifier: MIT */
/*
 * DRY, "don't repeat yourself": a token that would make a repetition longer is
 * weakened, exponentially in the length of what it repeats. Breakers, such as
 * the end of a line, end a repetition.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

/* A breaker without its first token. */
struct tail {
	uint32_t next;		/* of the same first token; 0: none */
	size_t at, n;		/* in ids */
};

struct pico_breakers {
	uint32_t n_vocab;
	uint32_t *first;	/* n_vocab: 1 + place in tail; 0: none */
	struct tail *tail;
	size_t n_tail, cap_tail;
	int32_t *ids;
	size_t n_ids, cap_ids;
};

struct pico_breakers *
pico_breakers_new(uint32_t n_vocab, struct pico_err *err)
{
	struct pico_breakers *b = mem_new(1, sizeof *b, "breakers", err);

	if (b == NULL)
		return NULL;
	b->n_vocab = n_vocab;
	b->first = mem_new(n_vocab, sizeof *b->first, "breakers", err);
	if (b->first == NULL) {
		free(b);
		return NULL;
	}
	return b;
}

void
pico_breakers_free(struct pico_breakers *b)
{
	if (b == NULL)
		return;
	free(b->first);
	free(b->tail);
	free(b->ids);
	free(b);
}

int
pico_breakers_add(struct pico_breakers *b, const int32_t *ids, size_t n,
    struct pico_err *err)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (ids[i] < 0 || (uint32_t)ids[i] >= b->n_vocab)
			return fail_usage(err, "breaker with token %" PRId32
			    ", vocabulary has %" PRIu32, ids[i], b->n_vocab);
	if (n == 0 || b->n_tail == UINT32_MAX - 1)
		return fail_usage(err, "breaker of %zu tokens", n);
	if (mem_grow(&b->tail, &b->cap_tail, b->n_tail + 1, sizeof *b->tail,
	    "breakers", err) < 0 || mem_grow(&b->ids, &b->cap_ids,
	    b->n_ids + n, sizeof *b->ids, "breakers", err) < 0)
		return -1;
	memcpy(b->ids + b->n_ids, ids + 1, (n - 1) * sizeof *ids);
	b->tail[b->n_tail++] = (struct tail){ b->first[ids[0]], b->n_ids,
	    n - 1 };
	b->n_ids += n - 1;
	b->first[ids[0]] = (uint32_t)b->n_tail;
	return 0;
}

/* The longest breaker that starts with h[0] and fits in n tokens: its length,
   or 0. */
static size_t
breaker_at(const struct pico_breakers *b, const int32_t *h, size_t n)
{
	const struct tail *t;
	size_t longest = 0;
	uint32_t i;

	if (b == NULL || h[0] < 0 || (uint32_t)h[0] >= b->n_vocab)
		return 0;
	for (i = b->first[h[0]]; i != 0; i = t->next) {
		t = &b->tail[i - 1];
		if (t->n < n && t->n >= longest && (t->n == 0 ||
		    memcmp(b->ids + t->at, h + 1, t->n * sizeof *h) == 0))
			longest = t->n + 1;
	}
	return longest;
}

static bool
is_breaker(const struct pico_breakers *b, int32_t id)
{
	return breaker_at(b, &id, 1) > 0;
}

/*
 * z[j], for 0 < j < n: how many tokens before the last j are like those before
 * the end, that is, the length of the common suffix of h[0..n-j) and h[0..n).
 * The Z algorithm (Gusfield 1997) on the reversed history: linear in n.
 */
static void
suffixes(const int32_t *h, size_t n, uint32_t *z)
{
	size_t j, k, from = 0, to = 0;	/* the match that reaches farthest */

	for (j = 1; j < n; j++) {
		k = j < to ? MIN((size_t)z[j - from], to - j) : 0;
		while (j + k < n && h[n - 1 - k] == h[n - 1 - j - k])
			k++;
		if (j + k > to) {
			from = j;
			to = j + k;
		}
		z[j] = (uint32_t)k;
	}
}

int
sampler_dry(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err)
{
	const struct pico_breakers *b = s->chain->breakers;
	size_t n = s->seq->n, limit, len, i, j;
	double allowed = step->c, most, k;
	const int32_t *h = s->seq->ids;
	struct pico_cand *c;

	if (step->n >= 0 && (uint64_t)step->n < n) {
		h += n - (size_t)step->n;
		n = (size_t)step->n;
	}
	n = MIN(n, (size_t)UINT32_MAX - 1);
	if ((double)n <= allowed)
		return 0;
	/* only what came after the last breaker can be repeated */
	for (limit = n, i = 0; i < n; i++) {
		len = breaker_at(b, h + n - 1 - i, i + 1);
		if (len > 0) {
			limit = i - (len - 1);
			break;
		}
	}
	if ((double)limit < allowed)
		return 0;
	if (mem_grow(&s->z, &s->cap_z, n, sizeof *s->z, "sampler: repetitions",
	    err) < 0)
		return -1;
	suffixes(h, n, s->z);
	/* count: 1 + the longest repetition that the token would go on with */
	for (j = 1; j < n; j++) {
		len = MIN((size_t)s->z[j], limit);
		i = (size_t)h[n - j];
		if ((double)len >= allowed && i < s->n_vocab)
			s->count[i] = MAX(s->count[i], (uint32_t)len + 1);
	}
	/* e^88.72: a float would go no farther */
	most = step->b > 1 ? floor(88.72 / m_log(step->b)) : INFINITY;
	for (c = s->cand; c < s->cand + s->n; c++) {
		if (s->count[c->id] == 0 || is_breaker(b, c->id))
			continue;
		k = MIN(s->count[c->id] - 1 - allowed, most);
		c->logit -= step->a * m_pow(step->b, k);
	}
	for (j = 1; j < n; j++)
		if ((size_t)h[n - j] < s->n_vocab)
			s->count[h[n - j]] = 0;
	s->sorted = 0;
	return 0;
}
