/* SPDX-License-Identifier: MIT */
/*
 * Byte pair encoding of characters, with U+2581 for spaces: "llama", where the
 * token with the best score is made first, and "gemma4", where a list of merges
 * rules and lines are cut off first.
 *
 * Merging is done in stretches between which none can happen: what is merged is
 * always the text of a token (or of a merge), so between two characters that
 * stand side by side in no such text nothing is joined, whatever else the text
 * holds. Most spaces and many signs are such places, so that long texts take
 * little memory, and a text can be cut there.
 */
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define PAIR_BITS 18

struct spm {
	const struct pico_vocab *v;
	struct index index;
	struct bpe bpe;
	int32_t byte_id[256];		/* -1: none */
	/* A bit for a hash of each two characters that stand side by side in
	   some text: two hashes that are equal cost a place to cut, no more. */
	uint64_t pair[1u << (PAIR_BITS - 6)];
};

/* ---- characters ---- */

/* Bytes of the character at p, cut off at n, and in front of a space: what a
   broken character swallows could not be told from a mark afterwards. */
static size_t
unit_len(const char *p, size_t n)
{
	size_t len = MIN(lead_len((unsigned char)*p), n), i;

	for (i = 1; i < len; i++)
		if (p[i] == ' ')
			return i;
	return len;
}

/* A character's bytes as a number; spaces are marks. */
static uint32_t
unit_at(const char *p, size_t len)
{
	uint32_t u = 0;

	if (*p == ' ') {
		p = SPACE_MARK;
		len = SPACE_MARK_LEN;
	}
	while (len-- > 0)
		u = u << 8 | (unsigned char)*p++;
	return u;
}

static uint32_t
pair_hash(uint32_t left, uint32_t right)
{
	return (uint32_t)((((uint64_t)left << 32 | right) *
	    0x9e3779b97f4a7c15u) >> (64 - PAIR_BITS));
}

static bool
may_join(const struct spm *s, uint32_t left, uint32_t right)
{
	uint32_t h = pair_hash(left, right);

	if (s->v->kind == VOCAB_LINES && (left == '\n') != (right == '\n'))
		return false;
	return (s->pair[h / 64] >> h % 64 & 1) != 0;
}

static void
add_pairs(struct spm *s, struct pico_str text)
{
	uint32_t left = 0, right, h;
	size_t i, len;

	for (i = 0; i < text.n; i += len, left = right) {
		len = unit_len(text.p + i, text.n - i);
		right = unit_at(text.p + i, len);
		if (i == 0)
			continue;
		h = pair_hash(left, right);
		s->pair[h / 64] |= (uint64_t)1 << h % 64;
	}
}

/* ---- a stretch ---- */

/* Moves to on over as many bytes of text as give normalized ones up to `end`. */
static size_t
walk(const struct job *j, size_t to, size_t *norm, size_t end)
{
	for (; *norm < end; to++)
		*norm += j->text[to] == ' ' ? SPACE_MARK_LEN : 1;
	return to;
}

/* The symbol's token, else those of its bytes; moves `used` on over as many
   bytes of normalized text. */
static int
emit_symbol(const struct spm *s, struct job *j, const struct symbol *sym,
    size_t *norm)
{
	const char *p = s->bpe.text + sym->at;
	int32_t id = sym->id >= 0 ? sym->id :
	    index_find(&s->index, p, sym->len);
	size_t from = j->used, to, i, step, at = *norm;

	to = walk(j, from, &at, sym->at + sym->len);
	if (id >= s->v->n || (id >= 0 && !job_may_emit(j, id, from, to)))
		id = -1;	/* only part of a merge, or of the frame */
	step = id >= 0 ? sym->len : 1;
	for (i = 0; i < sym->len; i += step) {
		int32_t one = id >= 0 ? id : s->byte_id[(unsigned char)p[i]];

		j->used = walk(j, j->used, norm, sym->at + i + step);
		if ((one >= 0 && job_may_emit(j, one, from, to) ?
		    job_emit(j, one) :
		    job_emit_unknown(j, from, (unsigned char)p[i])) < 0)
			return -1;
	}
	return 0;
}

static void
push(struct spm *s, const char *p, size_t len)
{
	struct bpe *b = &s->bpe;

	memcpy(b->text + b->n_text, p, len);
	/* Scores go by the text alone. */
	bpe_push(b, len, b->pair == NULL ? -1 :
	    index_find(&s->index, p, len));
}

static int
tokenize_stretch(struct spm *s, struct job *j, size_t end)
{
	struct bpe *b = &s->bpe;
	size_t n, i, len, norm = 0;
	int32_t k;

	n = end - j->used + 1;
	if (bpe_begin(b, n * SPACE_MARK_LEN, n, j->err) < 0)
		return -1;
	if (j->prefix) {
		push(s, SPACE_MARK, SPACE_MARK_LEN);
		norm = SPACE_MARK_LEN;
	}
	j->prefix = j->fresh = false;
	for (i = j->used; i < end; i += len) {
		len = unit_len(j->text + i, end - i);
		if (j->text[i] == ' ')
			push(s, SPACE_MARK, SPACE_MARK_LEN);
		else
			push(s, j->text + i, len);
	}
	if (bpe_merge(b, j->err) < 0)
		return -1;
	for (k = b->n_sym > 0 ? 0 : -1; k >= 0; k = b->sym[k].next)
		if (emit_symbol(s, j, &b->sym[k], &norm) < 0)
			return -1;
	return 0;
}

static int
spm_run(void *state, struct job *j, size_t end, bool open)
{
	struct spm *s = state;
	size_t i, len;
	uint32_t left = 0, right;

	for (i = j->used; i < end; i += len, left = right) {
		len = unit_len(j->text + i, end - i);
		if (open && i + len == end &&
		    len < lead_len((unsigned char)j->text[i]))
			break;		/* it may go on */
		right = unit_at(j->text + i, len);
		if (i > j->used && !may_join(s, left, right) &&
		    tokenize_stretch(s, j, i) < 0)
			return -1;
	}
	return open || j->used == end ? 0 : tokenize_stretch(s, j, end);
}

/* ---- making one ---- */

static void
spm_free(void *state)
{
	struct spm *s = state;

	index_free(&s->index);
	bpe_free(&s->bpe);
	free(s);
}

static void *
spm_make(const struct pico_vocab *v, struct pico_err *err)
{
	struct spm *s = mem_new(1, sizeof *s, "tokenizer", err);
	int32_t id;
	size_t i;

	if (s == NULL)
		return NULL;
	s->v = v;
	if (index_init(&s->index, v, err) < 0 ||
	    bpe_init(&s->bpe, &s->index, err) < 0) {
		spm_free(s);
		return NULL;
	}
	for (id = 0; id < v->n; id++)
		add_pairs(s, pico_vocab_text(v, id));
	for (i = 0; i < s->index.n_extra; i++)
		add_pairs(s, s->index.extra[i]);
	for (i = 0; i < 256; i++) {
		char text[8], byte = (char)i;

		(void)snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
		s->byte_id[i] = index_find(&s->index, text, 6);
		if (s->byte_id[i] < 0)
			s->byte_id[i] = index_find(&s->index, &byte, 1);
		if (s->byte_id[i] >= v->n)
			s->byte_id[i] = -1;
	}
	return s;
}

const struct kind kind_spm = { spm_make, spm_free, spm_run };
