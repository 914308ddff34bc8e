/* SPDX-License-Identifier: MIT */
/*
 * Unigram, "t5" (Kudo 2018): of all ways to spell the text with tokens, the one
 * whose scores have the largest sum, found by the algorithm of Viterbi.
 *
 * Where no token lies across a place, each way has a border there, and what is
 * on its two sides can be decided apart: the sums start again at 0. So memory
 * is that of a stretch between such places (most often a word), and a text can
 * be cut there. Such a place must also be a border of the normalization, which
 * works from left to right and knows of what was before only the flags below.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* What the normalization is at, in front of a byte of its output. */
enum {
	IN_WORD = 1,		/* the character before was no space */
	PREFIXED = 2,		/* the space in front has been written */
	BORDER = 4		/* another replacement begins here */
};

/* The best way to a position of the normalized text. */
struct step {
	double sum;		/* -INFINITY: none yet */
	uint32_t from;		/* where its last token begins */
	int32_t id;		/* of it; UNKNOWN: of no token */
};
#define UNKNOWN (-1)

struct unigram {
	const struct pico_vocab *v;
	struct trie trie;
	struct charsmap map;
	double unknown_score;
	/* state at job->used */
	unsigned flags;
	bool after_unknown;	/* the token before is the unknown one */
	/* the window: normalized bytes, and of each where the text that it
	   stands for begins and ends, and the flags in front of it */
	char *norm;
	size_t n_norm, cap_norm;
	uint32_t *begin;
	size_t cap_begin;
	uint32_t *end;
	size_t cap_end;
	uint8_t *flag;
	size_t cap_flag;
	struct step *step;
	size_t cap_step;
	uint32_t *path;		/* the ends of its tokens, from the last on */
	size_t cap_path;
};

/* ---- normalization ---- */

/* Appends bytes that stand for the text at..end. */
static int
put(struct unigram *s, const char *p, size_t n, size_t at, size_t end,
    struct pico_err *err)
{
	size_t need = s->n_norm + n;

	if (need > UINT32_MAX)	/* positions have 32 bits */
		return fail(err, "normalized text has more than %" PRIu32
		    " bytes", UINT32_MAX);
	if (mem_grow(&s->norm, &s->cap_norm, need, 1, "normalized text", err)
	    < 0 || mem_grow(&s->begin, &s->cap_begin, need, sizeof *s->begin,
	    "normalized text", err) < 0 || mem_grow(&s->end, &s->cap_end,
	    need, sizeof *s->end, "normalized text", err) < 0 ||
	    mem_grow(&s->flag, &s->cap_flag, need, 1, "normalized text", err)
	    < 0)
		return -1;
	memcpy(s->norm + s->n_norm, p, n);
	for (; s->n_norm < need; s->n_norm++) {
		s->begin[s->n_norm] = (uint32_t)at;
		s->end[s->n_norm] = (uint32_t)end;
		s->flag[s->n_norm] = 0;
	}
	return 0;
}

/* One byte of a replacement of the text at..end. */
static int
put_byte(struct unigram *s, unsigned *flags, char c, size_t at, size_t end,
    struct pico_err *err)
{
	bool merge = s->v->merge_spaces;

	if (c == ' ') {
		*flags &= ~(unsigned)IN_WORD;
		return merge ? 0 : put(s, SPACE_MARK, SPACE_MARK_LEN, at, end,
		    err);
	}
	if (!(*flags & IN_WORD)) {
		*flags |= IN_WORD;
		if (merge || (s->v->special.add_space_prefix &&
		    !(*flags & PREFIXED))) {
			*flags |= PREFIXED;
			if (put(s, SPACE_MARK, SPACE_MARK_LEN, at, at, err)
			    < 0)
				return -1;
		}
	}
	return put(s, &c, 1, at, end, err);
}

/* Normalizes n bytes of text, offsets from p. Stops before what may depend on
   what follows, if `part`. */
static int
normalize(struct unigram *s, const char *p, size_t n, bool part,
    struct pico_err *err)
{
	unsigned flags = s->flags, before;
	size_t i, len, first, k;
	struct pico_str to;
	uint32_t cp;
	bool open;

	s->n_norm = 0;
	for (i = 0; i < n; i += len) {
		len = charsmap_find(&s->map, p + i, n - i, &to, &open);
		if (part && (open || lead_len((unsigned char)p[i]) > n - i))
			break;
		if (len == 0) {
			len = utf8_decode(p + i, n - i, &cp);
			to = (struct pico_str){ p + i, len };
			if (len == 1 && cp == REPLACEMENT)
				to = (struct pico_str){ "\xef\xbf\xbd", 3 };
		}
		first = s->n_norm;
		before = flags;
		for (k = 0; k < to.n; k++)
			if (put_byte(s, &flags, to.p[k], i, i + len, err) < 0)
				return -1;
		if (s->n_norm > first)
			s->flag[first] = (uint8_t)(before | BORDER);
	}
	return 0;
}

/* ---- the search ---- */

static void
relax(struct unigram *s, size_t from, size_t to, double score, int32_t id)
{
	double sum = s->step[from].sum + score;

	if (sum > s->step[to].sum)
		s->step[to] = (struct step){ sum, (uint32_t)from, id };
}

/* All tokens that begin at a position; returns the end of the longest. *open:
   more text could have made it longer. base: as in emit_path(). */
static size_t
search(struct unigram *s, const struct job *j, size_t base, size_t at,
    bool *open)
{
	size_t len = MIN(lead_len((unsigned char)s->norm[at]), s->n_norm - at);
	size_t i = at, far = at + len;
	uint32_t node = 0;
	bool covered = false;
	int32_t id;

	while (i < s->n_norm && (node = trie_step(&s->trie, node,
	    (unsigned char)s->norm[i])) != 0) {
		i++;
		id = s->trie.node[node].id;
		if (id < 0 || !job_may_emit(j, id, base + s->begin[at],
		    base + s->end[i - 1]))
			continue;
		relax(s, at, i, s->v->type[id] == PICO_TOK_USER ? 0 :
		    (double)pico_vocab_score(s->v, id), id);
		covered |= i == at + len;
		far = MAX(far, i);
	}
	*open = i == s->n_norm;
	if (!covered)
		relax(s, at, at + len, s->unknown_score, UNKNOWN);
	return far;
}

/* Writes the best way from..to; base: where the window begins in the text. */
static int
emit_path(struct unigram *s, struct job *j, size_t base, size_t from,
    size_t to)
{
	size_t n = 0, at = to, first;

	for (; at > from; at = s->step[at].from) {
		if (mem_grow(&s->path, &s->cap_path, n + 1, sizeof *s->path,
		    "tokens of a word", j->err) < 0)
			return -1;
		s->path[n++] = (uint32_t)at;
	}
	while (n-- > 0) {
		int32_t id = s->step[s->path[n]].id;

		first = at;
		at = s->path[n];
		j->used = base + s->end[at - 1];
		/* Unknown ones that touch are one. */
		if (id == UNKNOWN && s->after_unknown) {
			if (j->out->end != NULL)
				j->out->end[j->out->n - 1] = j->used;
			continue;
		}
		s->after_unknown = id == UNKNOWN;
		if ((id != UNKNOWN ? job_emit(j, id) : job_emit_unknown(j,
		    base + s->begin[first], (unsigned char)s->norm[first]))
		    < 0)
			return -1;
	}
	return 0;
}

/*
 * One window, the text from `used` to `to`. part: the text does not end there,
 * and if it is `open` the end of an unknown token must not be told before it is
 * known.
 */
static int
run_window(struct unigram *s, struct job *j, size_t to, bool part, bool open)
{
	size_t base = j->used, at, from = 0, far = 0, i;
	bool longer;

	if (normalize(s, j->text + base, to - base, part, j->err) < 0 ||
	    mem_grow(&s->step, &s->cap_step, s->n_norm + 1, sizeof *s->step,
	    "ways to spell a word", j->err) < 0)
		return -1;
	for (i = 0; i <= s->n_norm; i++)
		s->step[i].sum = -INFINITY;
	s->step[0].sum = 0;
	for (at = 0; at < s->n_norm; at++) {
		if (at == far && at > 0 && (s->flag[at] & BORDER) &&
		    !(open && s->step[at].id == UNKNOWN)) {
			if (emit_path(s, j, base, from, at) < 0)
				return -1;
			s->flags = s->flag[at] & (IN_WORD | PREFIXED);
			s->step[at].sum = 0;
			from = at;
		}
		if (s->step[at].sum == -INFINITY)
			continue;	/* inside a character */
		far = MAX(far, search(s, j, base, at, &longer));
		if (part && longer)
			return 0;
	}
	return part ? 0 : emit_path(s, j, base, from, s->n_norm);
}

static int
unigram_run(void *state, struct job *j, size_t end, bool open)
{
	struct unigram *s = state;
	size_t window = TEXT_WINDOW;

	if (j->fresh) {
		s->after_unknown = false;
		s->flags = 0;
		if (!j->prefix)		/* as in the middle of a text */
			s->flags = PREFIXED | (s->v->merge_spaces ? IN_WORD :
			    0);
		j->fresh = j->prefix = false;
	}
	while (j->used < end) {
		size_t before = j->used;
		size_t to = end - before > window ? before + window : end;

		if (run_window(s, j, to, open || to < end, open) < 0)
			return -1;
		if (to == end && !open) {
			j->used = end;	/* spaces may be left */
		} else if (j->used == before) {
			if (to == end)
				break;
			window *= 2;
		} else {
			window = TEXT_WINDOW;
		}
	}
	return 0;
}

/* ---- making one ---- */

static void
unigram_free(void *state)
{
	struct unigram *s = state;

	trie_free(&s->trie);
	free(s->norm);
	free(s->begin);
	free(s->end);
	free(s->flag);
	free(s->step);
	free(s->path);
	free(s);
}

/* Tokens that can be found in a text, and what a character costs that none
   covers. */
static int
make_trie(struct unigram *s, struct pico_err *err)
{
	const struct pico_vocab *v = s->v;
	struct trie_text *list = mem_new((uint64_t)v->n, sizeof *list,
	    "tokens", err);
	double lowest = INFINITY;
	size_t n = 0;
	int32_t id;
	int r;

	if (list == NULL)
		return -1;
	for (id = 0; id < v->n; id++) {
		double score = pico_vocab_score(v, id);

		if (!isfinite(score)) {
			free(list);
			return fail(err, "key 'tokenizer.ggml.scores': the "
			    "score of token %" PRId32 " is not finite", id);
		}
		if (v->type[id] == PICO_TOK_NORMAL)
			lowest = MIN(lowest, score);
		if (v->type[id] == PICO_TOK_NORMAL ||
		    v->type[id] == PICO_TOK_USER ||
		    v->type[id] == PICO_TOK_UNUSED)
			list[n++] = (struct trie_text){ pico_vocab_text(v, id),
			    id };
	}
	s->unknown_score = (lowest < INFINITY ? lowest : 0) - 10;
	r = trie_init(&s->trie, list, n, err);
	free(list);
	return r;
}

static void *
unigram_make(const struct pico_vocab *v, struct pico_err *err)
{
	struct unigram *s = mem_new(1, sizeof *s, "tokenizer", err);

	if (s == NULL)
		return NULL;
	s->v = v;
	if (charsmap_init(&s->map, v, err) < 0 || make_trie(s, err) < 0) {
		unigram_free(s);
		return NULL;
	}
	return s;
}

const struct kind kind_unigram = { unigram_make, unigram_free, unigram_run };
