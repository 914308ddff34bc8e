/* SPDX-License-Identifier: MIT */
/*
 * Byte-level byte pair encoding, "gpt2": the text is cut into pieces by the
 * expressions of its pre-tokenizer, and the bytes of each piece, written in an
 * alphabet of 256 characters, are merged by a list.
 */
#include <stdlib.h>
#include <string.h>

#include "text.h"

struct bytelevel {
	const struct pico_vocab *v;
	struct index index;
	struct bpe bpe;
	int32_t byte_id[256];		/* -1: none */
	/* the characters of the window */
	uint32_t *cp;
	size_t cap_cp;
	uint16_t *set;
	size_t cap_set;
	uint8_t *mark;
	size_t cap_mark;
};

/* The whole piece as one token, or -1. */
static int32_t
whole_piece(const struct bytelevel *s)
{
	const struct bpe *b = &s->bpe;
	char text[1024];	/* of the alphabet: two bytes each at most */
	size_t i, n = 0;
	int32_t id;

	if (b->n_text > sizeof text / 2)
		return -1;
	for (i = 0; i < b->n_text; i++)
		n += utf8_encode(byte_to_char((uint8_t)b->text[i]), text + n);
	id = index_find(&s->index, text, n);
	return id < s->v->n ? id : -1;
}

/* A place in a piece: the text up to `used` stands for `norm` of its bytes, and
   its last character begins at `last`. */
struct place {
	size_t used, norm, last;
};

/* Moves on to where the bytes up to `to` of the piece came from. */
static void
advance(const struct job *j, size_t end, struct place *at, size_t to)
{
	char buf[4];
	uint32_t cp;

	while (at->norm < to) {
		at->last = at->used;
		at->used += utf8_decode(j->text + at->used, end - at->used,
		    &cp);
		at->norm += utf8_encode(cp, buf);
	}
}

/* The symbol's token. Where it has none (a result of merges that is not in the
   vocabulary, or is of the frame) those of its bytes; some vocabularies lack
   control characters, which are left out, as everywhere. */
static int
emit_symbol(const struct bytelevel *s, struct job *j, const struct symbol *sym,
    size_t end, struct place *at)
{
	const char *p = s->bpe.text + sym->at;
	size_t from = at->norm > sym->at ? at->last : at->used, i;
	struct place to = *at;

	advance(j, end, &to, sym->at + sym->len);
	if (sym->id >= 0 && sym->id < s->v->n &&
	    job_may_emit(j, sym->id, from, to.used)) {
		*at = to;
		j->used = to.used;
		return job_emit(j, sym->id);
	}
	for (i = 0; i < sym->len; i++) {
		int32_t id = s->byte_id[(unsigned char)p[i]];

		advance(j, end, at, sym->at + i + 1);
		j->used = at->used;
		if (id < 0 || id >= s->v->n ||
		    !job_may_emit(j, id, from, to.used))
			j->out->dropped++;
		else if (job_emit(j, id) < 0)
			return -1;
	}
	return 0;
}

static int
tokenize_piece(struct bytelevel *s, struct job *j, const uint32_t *cp,
    size_t n, size_t end)
{
	struct bpe *b = &s->bpe;
	struct place at = { .used = j->used, .last = j->used }, all = at;
	size_t i, bytes = 0;
	int32_t k, id;

	for (i = 0; i < n; i++)
		bytes += utf8_size(cp[i]);
	if (bpe_begin(b, bytes, bytes, j->err) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		size_t len = utf8_encode(cp[i], b->text + b->n_text);

		while (len-- > 0)
			bpe_push(b, 1, s->byte_id[
			    (unsigned char)b->text[b->n_text]]);
	}
	if ((s->v->pre->flags & PRE_IGNORE_MERGES) != 0) {
		id = whole_piece(s);
		advance(j, end, &all, b->n_text);
		if (id >= 0 && job_may_emit(j, id, j->used, all.used)) {
			j->used = all.used;
			return job_emit(j, id);
		}
	}
	if (bpe_merge(b, j->err) < 0)
		return -1;
	for (k = 0; k >= 0; k = b->sym[k].next)
		if (emit_symbol(s, j, &b->sym[k], end, &at) < 0)
			return -1;
	return 0;
}

/* Reads the characters of p; one that may go on behind the end is left out if
   `open`. Returns their number, or -1. */
static int64_t
decode(struct bytelevel *s, const char *p, size_t n, bool open,
    struct pico_err *err)
{
	size_t i, n_cp = 0;

	if (mem_grow(&s->cp, &s->cap_cp, n, sizeof *s->cp, "characters", err)
	    < 0 || mem_grow(&s->set, &s->cap_set, n, sizeof *s->set,
	    "characters", err) < 0 || mem_grow(&s->mark, &s->cap_mark, n,
	    sizeof *s->mark, "characters", err) < 0)
		return -1;
	for (i = 0; i < n; n_cp++) {
		if (open && lead_len((unsigned char)p[i]) > n - i)
			break;
		i += utf8_decode(p + i, n - i, &s->cp[n_cp]);
		s->set[n_cp] = char_set(s->cp[n_cp]);
	}
	return (int64_t)n_cp;
}

static int
bytelevel_run(void *state, struct job *j, size_t end, bool open)
{
	struct bytelevel *s = state;
	size_t window = TEXT_WINDOW;

	while (j->used < end) {
		size_t to = end - j->used > window ? j->used + window : end;
		bool part = open || to < end;
		int64_t n = decode(s, j->text + j->used, to - j->used, part,
		    j->err);
		size_t cut, from, i;

		if (n < 0)
			return -1;
		cut = pre_split(s->v->pre, s->cp, s->set, (size_t)n, part,
		    s->mark);
		if (cut == 0 && to == end)
			break;
		window = cut == 0 ? window * 2 : TEXT_WINDOW;
		for (from = 0, i = 1; i <= cut; i++) {
			if (i < cut && !(s->mark[i] & PRE_START))
				continue;
			if (tokenize_piece(s, j, s->cp + from, i - from, to)
			    < 0)
				return -1;
			from = i;
		}
	}
	return 0;
}

/* ---- making one ---- */

static void
bytelevel_free(void *state)
{
	struct bytelevel *s = state;

	index_free(&s->index);
	bpe_free(&s->bpe);
	free(s->cp);
	free(s->set);
	free(s->mark);
	free(s);
}

static void *
bytelevel_make(const struct pico_vocab *v, struct pico_err *err)
{
	struct bytelevel *s = mem_new(1, sizeof *s, "tokenizer", err);
	int i;

	if (s == NULL)
		return NULL;
	s->v = v;
	if (index_init(&s->index, v, err) < 0 ||
	    bpe_init(&s->bpe, &s->index, err) < 0) {
		bytelevel_free(s);
		return NULL;
	}
	for (i = 0; i < 256; i++) {
		char text[4];

		s->byte_id[i] = index_find(&s->index, text,
		    utf8_encode(byte_to_char((uint8_t)i), text));
	}
	return s;
}

const struct kind kind_bytelevel = {
	bytelevel_make, bytelevel_free, bytelevel_run
};
