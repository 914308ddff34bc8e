/* SPDX-License-Identifier: MIT */
/*
 * A grammar over a vocabulary: which tokens may come next, which must, and which
 * end the text soonest. Sets of tokens are kept with the states of the
 * automaton, which all sequences share.
 */
#include <math.h>

#include "../sample/allow.h"

/* What the automaton and the sets may take before they are made anew from the
   states in use. */
#define BYTES_KEPT ((size_t)64 << 20)
#define FORCED_MAX 4096
#define CLOSING_MAX (1u << 20)

struct allowed {
	uint32_t n;
	uint64_t bits[];
};

struct pico_constraint {
	struct automaton *a;
	const struct pico_vocab *vocab;
	struct tree *tree;
	struct pico_tokenizer *tokenizer;	/* made when it is needed */
	uint32_t n_vocab, n_words, n_marks;
	size_t limit;
	uint32_t start;
	struct pico_matcher *first;
	float *logits;
	char *piece;
	char *text;		/* forced or closing */
	size_t n_text, cap_text;
};

struct pico_matcher {
	struct pico_constraint *c;
	uint32_t state;
	struct pico_matcher *next;
};

/* The bytes of a token in the output; none for what is no text. */
static size_t
piece(const struct pico_constraint *c, int32_t id)
{
	enum pico_token_type type = pico_vocab_type(c->vocab, id);

	if (type == PICO_TOK_CONTROL || type == PICO_TOK_UNKNOWN ||
	    pico_vocab_is_eog(c->vocab, id))
		return 0;
	return pico_vocab_piece(c->vocab, id, false, c->piece);
}

static int
make_tree(struct pico_constraint *c, struct pico_err *err)
{
	struct token_text *v = mem_new(c->n_vocab, sizeof *v,
	    "tree of tokens", err);
	size_t i, n, used = 0, cap = 0;
	char *texts = NULL;

	for (i = 0; v != NULL && i < c->n_vocab; i++) {
		n = piece(c, (int32_t)i);
		if (mem_grow(&texts, &cap, used + n + 1, 1, "tree of tokens",
		    err) < 0)
			break;
		memcpy(texts + used, c->piece, n);
		v[i] = (struct token_text){ { NULL, n }, (int32_t)i };
		used += n;
	}
	if (v != NULL && i == c->n_vocab) {
		for (i = 0, used = 0; i < c->n_vocab; i++) {
			v[i].text.p = texts + used;
			used += v[i].text.n;
		}
		c->tree = tree_new(v, c->n_vocab, err);
	}
	free(texts);
	free(v);
	return c->tree == NULL ? -1 : 0;
}

struct pico_constraint *
pico_constraint_new(const struct pico_grammar *g, const struct pico_vocab *v,
    struct pico_err *err)
{
	struct pico_constraint *c = mem_new(1, sizeof *c, "grammar", err);

	if (c == NULL)
		return NULL;
	c->vocab = v;
	c->limit = BYTES_KEPT;
	c->a = automaton_new(g, err);
	if (c->a != NULL)
		c->start = automaton_start(c->a, err);
	if (c->start != 0 && v != NULL) {
		c->n_vocab = (uint32_t)pico_vocab_n(v);
		c->n_words = (c->n_vocab + 63) / 64;
		c->logits = mem_new(c->n_vocab, sizeof *c->logits, "logits",
		    err);
		c->piece = mem_new(pico_vocab_piece_max(v) + 1, 1,
		    "text of a token", err);
	}
	if (c->start == 0 || (v != NULL && (c->logits == NULL ||
	    c->piece == NULL || make_tree(c, err) < 0))) {
		pico_constraint_free(c);
		return NULL;
	}
	return c;
}

static void
free_marks(struct pico_constraint *c)
{
	uint32_t s;

	for (s = 2; c->n_marks > 0 && s < automaton_n_states(c->a); s++)
		free(*automaton_mark(c->a, s));
	c->n_marks = 0;
}

void
pico_constraint_free(struct pico_constraint *c)
{
	if (c == NULL)
		return;
	if (c->a != NULL)
		free_marks(c);
	automaton_free(c->a);
	tree_free(c->tree);
	pico_tokenizer_free(c->tokenizer);
	free(c->logits);
	free(c->piece);
	free(c->text);
	free(c);
}

struct pico_matcher *
pico_matcher_new(struct pico_constraint *c, struct pico_err *err)
{
	struct pico_matcher *m = mem_new(1, sizeof *m, "matcher", err);

	if (m != NULL)
		*m = (struct pico_matcher){ c, c->start, c->first };
	if (m != NULL)
		c->first = m;
	return m;
}

void
pico_matcher_free(struct pico_matcher *m)
{
	struct pico_matcher **p;

	if (m == NULL)
		return;
	for (p = &m->c->first; *p != m; p = &(*p)->next)
		;
	*p = m->next;
	free(m);
}

void
pico_matcher_restart(struct pico_matcher *m)
{
	m->state = m->c->start;
}

void
pico_matcher_copy(struct pico_matcher *to, const struct pico_matcher *from)
{
	to->state = from->state;
}

/* Forgets what no sequence needs, if it has become much. */
static int
tidy(struct pico_constraint *c, struct pico_err *err)
{
	struct pico_matcher *m;
	uint32_t **keep;
	size_t n = 1;
	int r;

	if (automaton_bytes(c->a) + (size_t)c->n_marks * c->n_words * 8 <=
	    c->limit)
		return 0;
	for (m = c->first; m != NULL; m = m->next)
		n++;
	keep = mem_new(n, sizeof *keep, "states of a grammar", err);
	if (keep == NULL)
		return -1;
	keep[0] = &c->start;
	for (m = c->first, n = 1; m != NULL; m = m->next)
		keep[n++] = &m->state;
	free_marks(c);
	r = automaton_forget(c->a, keep, n, err);
	free(keep);
	c->limit = MAX(BYTES_KEPT, 2 * automaton_bytes(c->a));
	return r;
}

/* The state after a text, or STATE_DEAD; 0 if that fails. */
static uint32_t
run(struct pico_constraint *c, uint32_t s, const char *p, size_t n,
    struct pico_err *err)
{
	size_t i;

	for (i = 0; i < n && s > STATE_DEAD; i++)
		s = automaton_step(c->a, s, (unsigned char)p[i], err);
	return s;
}

int
pico_matcher_text(struct pico_matcher *m, const char *p, size_t n,
    struct pico_err *err)
{
	uint32_t s;

	if (tidy(m->c, err) < 0)
		return -1;
	s = run(m->c, m->state, p, n, err);
	if (s <= STATE_DEAD)
		return s == 0 ? -1 : 0;
	m->state = s;
	return 1;
}

int
pico_matcher_token(struct pico_matcher *m, int32_t id, struct pico_err *err)
{
	size_t n = piece(m->c, id);

	return n == 0 ? 0 : pico_matcher_text(m, m->c->piece, n, err);
}

bool
pico_matcher_can_end(const struct pico_matcher *m)
{
	return automaton_can_end(m->c->a, m->state);
}

static unsigned
count(struct byte_set s)
{
	unsigned i, n = 0;

	for (i = 0; i < 256; i++)
		n += set_has(&s, (unsigned char)i);
	return n;
}

bool
pico_matcher_over(const struct pico_matcher *m)
{
	return pico_matcher_can_end(m) &&
	    count(automaton_next(m->c->a, m->state)) == 0;
}

/* The set of a state, made when it is first wanted. */
static const struct allowed *
allowed(struct pico_matcher *m, struct pico_err *err)
{
	struct pico_constraint *c = m->c;
	struct allowed *v;
	const int32_t *eog;
	size_t i, n_eog;
	uint64_t w;

	if (tidy(c, err) < 0)
		return NULL;
	v = *automaton_mark(c->a, m->state);
	if (v != NULL)
		return v;
	v = mem_new(1, sizeof *v + c->n_words * sizeof *v->bits,
	    "set of tokens", err);
	if (v == NULL)
		return NULL;
	if (tree_allow(c->tree, c->a, m->state, v->bits, err) < 0) {
		free(v);
		return NULL;
	}
	eog = pico_vocab_eog(c->vocab, &n_eog);
	for (i = 0; pico_matcher_can_end(m) && i < n_eog; i++)
		v->bits[eog[i] >> 6] |= (uint64_t)1 << (eog[i] & 63);
	for (i = 0; i < c->n_words; i++)
		for (w = v->bits[i]; w != 0; w &= w - 1)
			v->n++;
	*automaton_mark(c->a, m->state) = v;
	c->n_marks++;
	return v;
}

const float *
pico_matcher_mask(struct pico_matcher *m, const float *logits,
    struct pico_err *err)
{
	const struct allowed *v = allowed(m, err);
	struct pico_constraint *c = m->c;
	float *out = c->logits;
	uint32_t i;

	if (v == NULL)
		return NULL;
	if (v->n == 0) {
		(void)fail(err, "no token of the vocabulary fits the grammar");
		return NULL;
	}
	/* what is no number stays for the sampler to find */
	for (i = 0; i < c->n_vocab; i++)
		out[i] = (v->bits[i >> 6] >> (i & 63) & 1) != 0 ||
		    isnan(logits[i]) ? logits[i] : -INFINITY;
	return out;
}

/* ---- what needs no choice ---- */

static int
text_add(struct pico_constraint *c, unsigned char byte, struct pico_err *err)
{
	if (mem_grow(&c->text, &c->cap_text, c->n_text + 1, 1, "text",
	    err) < 0)
		return -1;
	c->text[c->n_text++] = (char)byte;
	return 0;
}

/* The tokens of the text, appended as far as they spell it; returns the bytes
   that they do, or -1. */
static int64_t
tokens_of(struct pico_constraint *c, struct pico_ids *out,
    struct pico_err *err)
{
	size_t i = out->n, n, at = 0;

	if (c->tokenizer == NULL)
		c->tokenizer = pico_tokenizer_new(c->vocab, err);
	if (c->tokenizer == NULL || pico_tokenize(c->tokenizer, c->text,
	    c->n_text, PICO_CONTINUED, out, err) < 0)
		return -1;
	for (; i < out->n; i++) {
		n = piece(c, out->v[i]);
		if (n == 0 || n > c->n_text - at ||
		    memcmp(c->text + at, c->piece, n) != 0)
			break;
		at += n;
	}
	out->n = i;
	return (int64_t)at;
}

int
pico_matcher_forced(const struct pico_matcher *m, struct pico_ids *out,
    struct pico_err *err)
{
	struct pico_constraint *c = m->c;
	uint32_t s = m->state;
	struct byte_set next;
	size_t before = out->n;
	bool whole;
	int64_t n;
	int b;

	for (c->n_text = 0; c->n_text < FORCED_MAX &&
	    !automaton_can_end(c->a, s); ) {
		next = automaton_next(c->a, s);
		if (count(next) != 1)
			break;
		for (b = 0; !set_has(&next, (unsigned char)b); b++)
			;
		s = automaton_step(c->a, s, (unsigned char)b, err);
		if (s == 0 || text_add(c, (unsigned char)b, err) < 0)
			return -1;
	}
	whole = automaton_can_end(c->a, s) &&
	    count(automaton_next(c->a, s)) == 0;
	if (c->n_text < (whole ? 1 : 2))
		return 0;
	n = tokens_of(c, out, err);
	if (n < 0)
		return -1;
	/* the last one may be the beginning of a longer token */
	if (out->n > before && !(whole && (size_t)n == c->n_text))
		out->n--;
	return 0;
}

int
pico_matcher_closing(const struct pico_matcher *m, struct pico_ids *out,
    struct pico_err *err)
{
	struct pico_constraint *c = m->c;
	uint32_t s = m->state, next, cost;
	struct byte_set set;
	int64_t n;
	int i;

	for (c->n_text = 0; (cost = automaton_cost(c->a, s)) > 0; s = next) {
		if (cost > CLOSING_MAX)
			return fail(err, "the grammar wants %u bytes or more "
			    "before the end", cost);
		set = automaton_next(c->a, s);
		for (i = 0, next = 0; i < 256; i++) {
			/* of equals, rather a letter than a control */
			unsigned char b = (unsigned char)(i + ' ');

			if (!set_has(&set, b))
				continue;
			next = automaton_step(c->a, s, b, err);
			if (next == 0 || text_add(c, b, err) < 0)
				return -1;
			if (automaton_cost(c->a, next) == cost - 1)
				break;
			c->n_text--;
		}
		if (i == 256)
			return fail(err, "the grammar has no end from here");
	}
	if (c->n_text == 0)
		return 0;
	n = tokens_of(c, out, err);
	if (n >= 0 && (size_t)n < c->n_text)
		return fail(err, "the vocabulary has no tokens for '%s'",
		    show(c->text, c->n_text));
	return n < 0 ? -1 : 0;
}
