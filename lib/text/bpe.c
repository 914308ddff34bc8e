/* SPDX-License-Identifier: MIT */
/*
 * Byte pair encoding of one piece of text: a list of symbols, and a heap of the
 * neighbours that may be joined, so that n symbols take n log n steps. Which
 * come first is decided by the scores of the results (SentencePiece) or by a
 * list of merges (byte-level BPE).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* ---- tables ---- */

/* Numbers in the opposite order of the scores. */
static uint32_t
score_key(float score)
{
	uint32_t u;

	score += 0.0f;		/* no negative zero */
	memcpy(&u, &score, sizeof u);
	return u >> 31 ? u : ~(u | 0x80000000u);
}

static int
init_keys(struct bpe *b, struct pico_err *err)
{
	const struct pico_vocab *v = b->index->v;
	int32_t id;

	b->key = mem_new((uint64_t)v->n, sizeof *b->key, "token scores", err);
	if (b->key == NULL)
		return -1;
	for (id = 0; id < v->n; id++) {
		float score = pico_vocab_score(v, id);

		if (isnan(score))
			return fail(err, "key 'tokenizer.ggml.scores': the "
			    "score of token %" PRId32 " is not a number", id);
		b->key[id] = score_key(score);
	}
	return 0;
}

static size_t
pair_start(const struct bpe *b, uint32_t left, uint32_t right)
{
	uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;

	return (size_t)(h >> 32) & b->pair_mask;
}

static struct pair *
pair_slot(const struct bpe *b, uint32_t left, uint32_t right)
{
	size_t i = pair_start(b, left, right);

	while (b->pair[i].rank != NO_RANK && (b->pair[i].left != left ||
	    b->pair[i].right != right))
		i = (i + 1) & b->pair_mask;
	return &b->pair[i];
}

/* Makes room for n merges. */
static int
new_pairs(struct bpe *b, uint64_t n, struct pico_err *err)
{
	uint64_t i, size = 1024;

	while (size * 2 / 3 < n)
		size *= 2;
	b->pair = mem_new(size, sizeof *b->pair, "merges", err);
	if (b->pair == NULL)
		return -1;
	b->pair_mask = (size_t)size - 1;
	for (i = 0; i < size; i++)
		b->pair[i].rank = NO_RANK;
	return 0;
}

static void
add_pair(struct bpe *b, const struct pair *new)
{
	struct pair *p = pair_slot(b, new->left, new->right);

	if (p->rank == NO_RANK)		/* of equal pairs the first counts */
		*p = *new;
}

/* "LEFT RIGHT"; a text may begin with a space. Texts of no bytes: it is not. */
static void
split_merge(struct pico_str s, struct pico_str part[2])
{
	const char *space = s.n > 1 ? memchr(s.p + 1, ' ', s.n - 1) : NULL;
	size_t n = space != NULL ? (size_t)(space - s.p) : 0;

	part[0] = (struct pico_str){ s.p, n };
	part[1] = n > 0 ? (struct pico_str){ space + 1, s.n - n - 1 } : part[0];
}

/* Whether a token is two texts in a row. */
static bool
is_joined(const struct pico_vocab *v, int32_t id, const struct pico_str part[2])
{
	struct pico_str s;

	if (id >= v->n)
		return false;
	s = vocab_text(v, id);
	return s.n == part[0].n + part[1].n &&
	    memcmp(s.p, part[0].p, part[0].n) == 0 &&
	    memcmp(s.p + part[0].n, part[1].p, part[1].n) == 0;
}

/* The id of both texts in a row. `last` is what the merge before gave: most
   lists have the order of the tokens. */
static int32_t
intern_joined(struct bpe *b, struct index *x, const struct pico_str part[2],
    int32_t last, struct pico_err *err)
{
	/* no two tokens have the same text: otherwise the lowest counts */
	bool unique = x->used - x->n_extra == (size_t)x->v->n;
	size_t n = part[0].n + part[1].n;

	if (unique && is_joined(x->v, last, part))
		return last;
	if (unique && is_joined(x->v, last + 1, part))
		return last + 1;
	if (mem_grow(&b->text, &b->cap_text, n, 1, "merges", err) < 0)
		return -1;
	memcpy(b->text, part[0].p, part[0].n);
	memcpy(b->text + part[0].n, part[1].p, part[1].n);
	return index_intern(x, b->text, n, err);
}

/* Many merges at a time, as texts are looked up: pairs have to be waited for,
   too. A text that is not found may be one that a merge just before adds. */
static int
init_pairs(struct bpe *b, struct index *x, struct pico_err *err)
{
	const struct pico_kv *merges = x->v->merges;
	struct pico_str s[INDEX_BATCH / 2], part[INDEX_BATCH];
	int32_t id[INDEX_BATCH], joined = 0;
	struct pair p[INDEX_BATCH / 2];
	uint64_t pos = 0, i;
	size_t k, n;

	if (merges->n >= INT32_MAX / 8)
		return fail(err, "key 'tokenizer.ggml.merges' has %" PRIu64
		    " entries, at most %d are supported", merges->n,
		    INT32_MAX / 8);
	if (new_pairs(b, merges->n, err) < 0)
		return -1;
	for (i = 0; i < merges->n; i += n) {
		n = (size_t)MIN(merges->n - i, INDEX_BATCH / 2);
		for (k = 0; k < n; k++) {
			s[k] = pico_kv_str_next(merges, &pos);
			split_merge(s[k], &part[2 * k]);
		}
		index_find_all(x, part, 2 * n, id);
		for (k = 0; k < n; k++) {
			int32_t *left = &id[2 * k], *right = left + 1;
			const struct pico_str *t = &part[2 * k];

			if (t->n == 0)
				return fail(err, "key 'tokenizer.ggml.merges': "
				    "entry %" PRIu64 " '%s' is not two texts "
				    "with a space between them", i + k,
				    show_str(s[k]));
			if (*left < 0)
				*left = index_intern(x, t[0].p, t[0].n, err);
			if (*right < 0)
				*right = index_intern(x, t[1].p, t[1].n, err);
			joined = intern_joined(b, x, t, joined, err);
			if (*left < 0 || *right < 0 || joined < 0)
				return -1;
			p[k] = (struct pair){ (uint32_t)*left,
			    (uint32_t)*right, (uint32_t)(i + k), joined };
			__builtin_prefetch(&b->pair[pair_start(b, p[k].left,
			    p[k].right)], 1);
		}
		for (k = 0; k < n; k++)
			add_pair(b, &p[k]);
	}
	return 0;
}

/* Without a list, tokens were made in the order of their ids: the merge that
   makes one is of what the merges before leave of its text, if that is two. */
static int
derive_pairs(struct bpe *b, const struct index *x, struct pico_err *err)
{
	int32_t id, right;
	size_t i, len;

	if (new_pairs(b, (uint64_t)x->v->n, err) < 0)
		return -1;
	for (id = 0; id < x->v->n; id++) {
		struct pico_str s = vocab_text(x->v, id);

		if (x->v->type[id] != PICO_TOK_NORMAL || s.n == 0)
			continue;
		if (bpe_begin(b, s.n, s.n, err) < 0)
			return -1;
		for (i = 0; i < s.n; i += len) {
			len = MIN(lead_len((unsigned char)s.p[i]), s.n - i);
			memcpy(b->text + i, s.p + i, len);
			bpe_push(b, len, index_find(x, s.p + i, len));
		}
		if (bpe_merge(b, err) < 0)
			return -1;
		right = b->sym[0].next;
		if (right >= 0 && b->sym[right].next < 0 &&
		    b->sym[0].id >= 0 && b->sym[right].id >= 0)
			add_pair(b, &(struct pair){ (uint32_t)b->sym[0].id,
			    (uint32_t)b->sym[right].id, (uint32_t)id, id });
	}
	return 0;
}

int
bpe_init(struct bpe *b, struct index *x, struct pico_err *err)
{
	*b = (struct bpe){ .index = x, .text_max = x->v->text_max };
	if (x->v->kind == VOCAB_SPM)
		return init_keys(b, err);
	return x->v->merges != NULL ? init_pairs(b, x, err) :
	    derive_pairs(b, x, err);
}

void
bpe_free(struct bpe *b)
{
	free(b->key);
	free(b->pair);
	free(b->text);
	free(b->sym);
	free(b->heap);
}

/* ---- the piece ---- */

int
bpe_begin(struct bpe *b, size_t n, size_t n_sym, struct pico_err *err)
{
	b->n_text = b->n_sym = b->n_heap = 0;
	if (mem_grow(&b->text, &b->cap_text, n, 1, "a piece of text", err) < 0
	    || mem_grow(&b->sym, &b->cap_sym, n_sym, sizeof *b->sym,
	    "a piece of text", err) < 0)
		return -1;
	return 0;
}

void
bpe_push(struct bpe *b, size_t len, int32_t id)
{
	int32_t i = (int32_t)b->n_sym;

	if (i > 0)
		b->sym[i - 1].next = i;
	b->sym[b->n_sym++] = (struct symbol){ (uint32_t)b->n_text,
	    (uint32_t)len, i - 1, -1, id };
	b->n_text += len;
}

/* ---- the heap ---- */

static inline uint64_t
order(const struct candidate *c)
{
	return (uint64_t)c->key << 32 | c->left;
}

static void
sift_up(struct candidate *heap, size_t i)
{
	struct candidate c = heap[i];

	while (i > 0 && order(&c) < order(&heap[(i - 1) / 2])) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = c;
}

static void
sift_down(struct candidate *heap, size_t n, size_t i)
{
	struct candidate c = heap[i];
	size_t child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n &&
		    order(&heap[child + 1]) < order(&heap[child]))
			child++;
		if (order(&c) <= order(&heap[child]))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = c;
}

/* ---- merging ---- */

/* Whether two neighbours may be joined, and what comes of it. */
static bool
look_up(const struct bpe *b, const struct symbol *l, const struct symbol *r,
    struct candidate *c)
{
	c->len = l->len + r->len;
	if (b->pair != NULL) {
		const struct pair *p;

		if (l->id < 0 || r->id < 0)
			return false;
		p = pair_slot(b, (uint32_t)l->id, (uint32_t)r->id);
		c->key = p->rank;
		c->id = p->joined;
		return p->rank != NO_RANK;
	}
	if (c->len > b->text_max)
		return false;
	c->id = index_find(b->index, b->text + l->at, c->len);
	if (c->id < 0)
		return false;
	c->key = b->key[c->id];
	return true;
}

/* Appends to the heap's array what may become of symbol i and its next:
   1, or 0, or -1. */
static int
consider(struct bpe *b, int32_t i, struct pico_err *err)
{
	struct candidate c = { .left = (uint32_t)i };

	if (i < 0 || b->sym[i].next < 0 ||
	    !look_up(b, &b->sym[i], &b->sym[b->sym[i].next], &c))
		return 0;
	if (mem_grow(&b->heap, &b->cap_heap, b->n_heap + 1, sizeof *b->heap,
	    "merges of a piece of text", err) < 0)
		return -1;
	b->heap[b->n_heap++] = c;
	return 1;
}

static int
consider_and_sift(struct bpe *b, int32_t i, struct pico_err *err)
{
	int got = consider(b, i, err);

	if (got > 0)
		sift_up(b->heap, b->n_heap - 1);
	return got;
}

static void
join(struct bpe *b, struct symbol *l, const struct candidate *c)
{
	struct symbol *r = &b->sym[l->next];

	l->len = c->len;
	l->id = c->id;
	l->next = r->next;
	if (r->next >= 0)
		b->sym[r->next].prev = (int32_t)c->left;
	r->len = 0;
}

int
bpe_merge(struct bpe *b, struct pico_err *err)
{
	size_t i;

	for (i = 0; i + 1 < b->n_sym; i++)
		if (consider(b, (int32_t)i, err) < 0)
			return -1;
	for (i = b->n_heap / 2; i-- > 0; )
		sift_down(b->heap, b->n_heap, i);
	while (b->n_heap > 0) {
		struct candidate c = b->heap[0];
		struct symbol *l = &b->sym[c.left];

		b->heap[0] = b->heap[--b->n_heap];
		if (b->n_heap > 0)
			sift_down(b->heap, b->n_heap, 0);
		/* Symbols only grow, so that the length tells whether both
		   are still what they were. */
		if (l->len == 0 || l->next < 0 ||
		    l->len + b->sym[l->next].len != c.len)
			continue;
		join(b, l, &c);
		if (consider_and_sift(b, l->prev, err) < 0 ||
		    consider_and_sift(b, (int32_t)c.left, err) < 0)
			return -1;
	}
	return 0;
}
