/* SPDX-License-Identifier: MIT */
/*
 * Special tokens in text. The definition goes through the tokens from the
 * longest to the shortest and cuts each out of what is left, so that a longer
 * one wins wherever two overlap. Here the text is read once: occurrences that
 * overlap, directly or through others, form a cluster, and only inside a
 * cluster is the order of lengths followed.
 */
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* An occurrence that may count: at most one a position, the longest first. */
struct special_entry {
	size_t start;
	int32_t what;		/* index in the set; its next shorter one when
				   it does not fit; -1: none fits */
	bool accepted;
};

/* ---- the set ---- */

static int
compare(const void *a, const void *b)
{
	const struct special *x = a, *y = b;
	int c = memcmp(x->text.p, y->text.p, MIN(x->text.n, y->text.n));

	if (c != 0)
		return c;
	if (x->text.n != y->text.n)
		return x->text.n < y->text.n ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static bool
begins_with(struct pico_str s, struct pico_str with)
{
	return with.n <= s.n && memcmp(s.p, with.p, with.n) == 0;
}

/* Drops all but the first of equal texts, and links each to the longest one it
   begins with, which stands before it. */
static void
link_prefixes(struct special_set *s)
{
	size_t i, n = 0;
	int32_t k;

	for (i = 0; i < s->n; i++) {
		if (n > 0 && s->v[n - 1].text.n == s->v[i].text.n &&
		    begins_with(s->v[i].text, s->v[n - 1].text))
			continue;
		k = (int32_t)n - 1;
		while (k >= 0 && !begins_with(s->v[i].text, s->v[k].text))
			k = s->v[k].shorter;
		s->v[n] = s->v[i];
		s->v[n++].shorter = k;
	}
	s->n = n;
}

/* Phi-3 models were trained with the white space after special tokens gone,
   but for these. */
static bool
rstrips(const struct pico_vocab *v, struct pico_str text)
{
	return v->rstrip && !pico_str_is(text, "<unk>") &&
	    !pico_str_is(text, "<s>") && !pico_str_is(text, "<|endoftext|>");
}

int
special_set_init(struct special_set *s, const struct pico_vocab *v,
    bool control, struct pico_err *err)
{
	size_t i, n = 0, b = 0;
	int32_t id;

	*s = (struct special_set){0};
	for (id = 0; id < v->n; id++)
		n += v->type[id] == PICO_TOK_USER || (control &&
		    (v->type[id] == PICO_TOK_CONTROL ||
		    v->type[id] == PICO_TOK_UNKNOWN));
	s->v = mem_new(n, sizeof *s->v, "special tokens", err);
	if (s->v == NULL)
		return -1;
	for (id = 0; id < v->n; id++) {
		struct pico_str text = pico_vocab_text(v, id);

		if (v->type[id] != PICO_TOK_USER && !(control &&
		    (v->type[id] == PICO_TOK_CONTROL ||
		    v->type[id] == PICO_TOK_UNKNOWN)))
			continue;
		if (text.n == 0)
			continue;
		s->v[s->n++] = (struct special){ .text = text, .id = id,
		    .rstrip = rstrips(v, text),
		    .control = vocab_is_control(v, id),
		    .lstrip = v->lstrip != NULL &&
		    pico_str_is(text, v->lstrip) };
		s->text_max = MAX(s->text_max, text.n);
		s->lstrip |= s->v[s->n - 1].lstrip;
	}
	qsort(s->v, s->n, sizeof *s->v, compare);
	link_prefixes(s);
	for (i = 0; i < s->n; i++)
		while (b <= (unsigned char)s->v[i].text.p[0])
			s->first[b++] = (uint32_t)i;
	while (b <= 256)
		s->first[b++] = (uint32_t)s->n;
	return 0;
}

void
special_set_free(struct special_set *s)
{
	free(s->v);
}

/* First of lo..hi, which agree in their first `depth` bytes and are longer,
   whose next byte is at least c. */
static size_t
bound(const struct special_set *s, size_t lo, size_t hi, size_t depth,
    unsigned c)
{
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if ((unsigned char)s->v[mid].text.p[depth] < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The longest one with which p, n >= 1 bytes, begins; -1: none. */
static int32_t
longest(const struct special_set *s, const char *p, size_t n)
{
	size_t lo = s->first[(unsigned char)p[0]];
	size_t hi = s->first[(unsigned char)p[0] + 1], depth = 1;
	int32_t found = -1;

	while (lo < hi) {
		if (s->v[lo].text.n == depth)	/* sorts before all longer */
			found = (int32_t)lo++;
		if (depth == n)
			break;
		lo = bound(s, lo, hi, depth, (unsigned char)p[depth]);
		hi = bound(s, lo, hi, depth, (unsigned char)p[depth] + 1u);
		depth++;
	}
	return found;
}

/* ---- the scan ---- */

void
special_begin(struct special_scan *c, const struct special_set *s,
    const char *text, size_t n, bool open)
{
	c->set = s;
	c->text = text;
	c->content = c->framed = NULL;
	c->n = n;
	c->open = open;
	c->pos = 0;
	c->n_hit = c->next_hit = 0;
}

void
special_scan_free(struct special_scan *c)
{
	free(c->hit);
	free(c->entry);
	free(c->live);
	free(c->taken);
}

/* Up to where the text shows which occurrences begin: the longest one must fit
   behind. */
static size_t
known(const struct special_scan *c)
{
	size_t len = c->set->text_max;

	if (!c->open || len == 0)
		return c->n;
	return c->n >= len ? c->n - len + 1 : 0;
}

/* The longest of those that `what` begins with which may stand at a byte. */
static int32_t
allowed(const struct special_scan *c, size_t at, int32_t what)
{
	const struct special *s = c->set->v;

	while (what >= 0 && (s[what].control || (c->framed != NULL &&
	    c->framed[s[what].id] != 0)) &&
	    has_content(c->content, at, at + s[what].text.n))
		what = s[what].shorter;
	return what;
}

/* Gathers the next cluster: the number of its entries, or -1. */
static int64_t
gather(struct special_scan *c, struct pico_err *err)
{
	const struct special_set *s = c->set;
	size_t n = 0, end = known(c), limit = end;
	int32_t what;

	for (; c->pos < end; c->pos++) {
		what = s->first[(unsigned char)c->text[c->pos]] ==
		    s->first[(unsigned char)c->text[c->pos] + 1] ? -1 :
		    allowed(c, c->pos, longest(s, c->text + c->pos,
		    c->n - c->pos));
		if (what < 0)
			continue;
		if (mem_grow(&c->entry, &c->cap_entry, n + 1,
		    sizeof *c->entry, "special tokens in the text", err) < 0)
			return -1;
		c->entry[n] = (struct special_entry){ c->pos, what, false };
		/* The cluster ends where none of its entries goes on. */
		end = n == 0 ? c->pos + s->v[what].text.n :
		    MAX(end, c->pos + s->v[what].text.n);
		n++;
		if (end > limit && c->open) {	/* it may go on */
			c->pos = c->entry[0].start;
			return 0;
		}
	}
	return (int64_t)n;
}

/* Decides which of n > 1 entries count. One that overlaps an accepted one,
   which is at least as long, does so with one of its ends. */
static int
resolve(struct special_scan *c, size_t n, struct pico_err *err)
{
	struct special_entry *e = c->entry;
	size_t base = e[0].start, n_live = n, len = 0, i, k;

	if (mem_grow(&c->live, &c->cap_live, n, sizeof *c->live,
	    "special tokens in the text", err) < 0 ||
	    mem_grow(&c->taken, &c->cap_taken, c->pos - base,
	    sizeof *c->taken, "special tokens in the text", err) < 0)
		return -1;
	memset(c->taken, 0, (c->pos - base) * sizeof *c->taken);
	for (i = 0; i < n; i++) {
		c->live[i] = (uint32_t)i;
		len = MAX(len, c->set->v[e[i].what].text.n);
	}
	while (n_live > 0) {
		size_t next_len = 0;

		for (i = k = 0; i < n_live; i++) {
			struct special_entry *x = &e[c->live[i]];
			size_t at = x->start - base;

			if (c->taken[at])
				continue;
			if (c->set->v[x->what].text.n == len) {
				if (!c->taken[at + len - 1]) {
					x->accepted = true;
					memset(c->taken + at, 1, len);
					continue;
				}
				x->what = allowed(c, x->start,
				    c->set->v[x->what].shorter);
				if (x->what < 0)
					continue;
			}
			next_len = MAX(next_len, c->set->v[x->what].text.n);
			c->live[k++] = c->live[i];
		}
		n_live = k;
		len = next_len;
	}
	return 0;
}

static bool
is_white(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Moves back over white space that an occurrence at `pos` may take. */
static void
leave_white(struct special_scan *c, size_t from)
{
	while (c->open && c->set->lstrip && c->pos > from &&
	    is_white(c->text[c->pos - 1]))
		c->pos--;
}

/* The next cluster's hits: 1, or 0 if there is none, or -1. */
static int
next_cluster(struct special_scan *c, struct pico_err *err)
{
	size_t from = c->pos, i;
	int64_t n = gather(c, err);

	c->n_hit = c->next_hit = 0;
	if (n == 0)
		leave_white(c, from);
	if (n <= 0)
		return (int)n;
	if (n == 1)
		c->entry[0].accepted = true;
	else if (resolve(c, (size_t)n, err) < 0)
		return -1;
	if (mem_grow(&c->hit, &c->cap_hit, (size_t)n, sizeof *c->hit,
	    "special tokens in the text", err) < 0)
		return -1;
	for (i = 0; i < (size_t)n; i++) {
		const struct special_entry *e = &c->entry[i];
		const struct special *what;

		if (!e->accepted)
			continue;
		what = &c->set->v[e->what];
		c->hit[c->n_hit++] = (struct special_hit){ e->start,
		    e->start + what->text.n, what };
	}
	for (i = 0; i < c->n_hit; i++) {
		struct special_hit *h = &c->hit[i];
		size_t lo = i > 0 ? h[-1].end : from;
		size_t hi = i + 1 < c->n_hit ? h[1].start : c->n;

		while (h->what->lstrip && h->start > lo &&
		    is_white(c->text[h->start - 1]))
			h->start--;
		while (h->what->rstrip && h->end < hi &&
		    is_white(c->text[h->end]))
			h->end++;
		c->pos = MAX(c->pos, h->end);
	}
	if (c->open && c->pos == c->n) {	/* or takes more white space */
		c->pos = c->entry[0].start;
		c->n_hit = 0;
		leave_white(c, from);
		return 0;
	}
	return 1;
}

int
special_next(struct special_scan *c, struct special_hit *hit,
    struct pico_err *err)
{
	int got;

	if (c->next_hit == c->n_hit) {
		got = next_cluster(c, err);
		if (got <= 0)
			return got;
	}
	*hit = c->hit[c->next_hit++];
	return 1;
}
