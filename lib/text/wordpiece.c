/* SPDX-License-Identifier: MIT */
/*
 * WordPiece, "bert": the text is reduced to words without case and accents, and
 * each word is spelled by the longest tokens from left to right. Follows the
 * tokenizer that the models were trained with (BERT's own): NFD, then marks of
 * class Mn dropped, Hangul in single letters, long words unknown.
 */
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define WORD_MAX 100	/* characters; a longer word is unknown */

struct wordpiece {
	const struct pico_vocab *v;
	struct trie trie;
	/* the word: a mark and its characters, and where each byte's character
	   begins and ends in the text */
	char word[SPACE_MARK_LEN + WORD_MAX * 4];
	size_t begin[SPACE_MARK_LEN + WORD_MAX * 4];
	size_t end[SPACE_MARK_LEN + WORD_MAX * 4];
	size_t n_word, n_char;
	bool too_long;
};

/* ---- words ---- */

static void
begin_word(struct wordpiece *s)
{
	memcpy(s->word, SPACE_MARK, SPACE_MARK_LEN);
	s->n_word = SPACE_MARK_LEN;
	s->n_char = 0;
	s->too_long = false;
}

static void
add_char(struct wordpiece *s, uint32_t cp, size_t at, size_t end)
{
	size_t i;

	if (s->n_char == WORD_MAX) {
		s->too_long = true;
		return;
	}
	if (s->n_char++ == 0)
		for (i = 0; i < SPACE_MARK_LEN; i++)
			s->begin[i] = s->end[i] = at;
	for (i = utf8_encode(cp, s->word + s->n_word); i > 0; i--) {
		s->begin[s->n_word] = at;
		s->end[s->n_word++] = end;
	}
}

/* The longest token that the word goes on with at i; moves i behind it. */
static int32_t
longest(const struct wordpiece *s, const struct job *j, size_t *i)
{
	uint32_t node = 0;
	int32_t id = -1;
	size_t k = *i, from = s->begin[k];

	while (k < s->n_word && (node = trie_step(&s->trie, node,
	    (unsigned char)s->word[k])) != 0) {
		k++;
		if (s->trie.node[node].id >= 0 &&
		    job_may_emit(j, s->trie.node[node].id, from,
		    s->end[k - 1])) {
			id = s->trie.node[node].id;
			*i = k;
		}
	}
	return id;
}

/* Writes the word, which ends at `end`, and begins the next one. */
static int
end_word(struct wordpiece *s, struct job *j, size_t end)
{
	size_t n = j->out->n, from = s->begin[0], i = 0;
	int32_t id = -1;

	if (s->n_char == 0)
		return 0;
	while (!s->too_long && i < s->n_word &&
	    (id = longest(s, j, &i)) >= 0) {
		j->used = i < s->n_word ? s->end[i - 1] : end;
		if (job_emit(j, id) < 0)
			return -1;
	}
	if (id < 0) {
		j->out->n = n;	/* all of it is unknown */
		j->used = end;
		if (job_emit_unknown(j, from, (unsigned char)j->text[from])
		    < 0)
			return -1;
	}
	begin_word(s);
	return 0;
}

/* ---- characters ---- */

static bool
is_ideograph(uint32_t cp)
{
	static const struct unicode_pair range[] = {
		{ 0x3400, 0x4dbf }, { 0x4e00, 0x9fff }, { 0xf900, 0xfaff },
		{ 0x20000, 0x2a6df }, { 0x2a700, 0x2b73f },
		{ 0x2b740, 0x2b81f }, { 0x2b920, 0x2ceaf },
		{ 0x2f800, 0x2fa1f }
	};

	return cp >= 0x3400 && char_within(cp, range, COUNT(range));
}

/* Signs and ideographs are words by themselves. */
static bool
stands_alone(uint32_t cp, unsigned set)
{
	return (set & U_P) != 0 || (cp < 0x7f && (set & U_S) != 0) ||
	    is_ideograph(cp);
}

/* One character, at..end in the text. */
static int
take(struct wordpiece *s, struct job *j, uint32_t cp, size_t at, size_t end)
{
	unsigned set = char_set(cp);
	uint32_t base[CHAR_BASE_MAX];
	size_t n = 1, i;

	if (set & U_SPACE)
		return end_word(s, j, at);
	if (cp == 0 || cp == REPLACEMENT || (set & (U_CONTROL | U_OTHER)))
		return 0;
	base[0] = cp;
	if (s->v->strip_accents)
		n = set & U_MN ? 0 : char_base(cp, base);
	for (i = 0; i < n; i++) {
		if (s->v->lowercase)
			base[i] = char_lower(base[i]);
		if (!stands_alone(base[i], char_set(base[i]))) {
			add_char(s, base[i], at, end);
			continue;
		}
		if (end_word(s, j, at) < 0)
			return -1;
		add_char(s, base[i], at, end);
		if (end_word(s, j, end) < 0)
			return -1;
	}
	return 0;
}

static int
wordpiece_run(void *state, struct job *j, size_t end, bool open)
{
	struct wordpiece *s = state;
	size_t i, len;
	uint32_t cp;

	begin_word(s);
	for (i = j->used; i < end; i += len) {
		if (open && lead_len((unsigned char)j->text[i]) > end - i)
			return 0;
		len = utf8_decode(j->text + i, end - i, &cp);
		if (take(s, j, cp, i, i + len) < 0)
			return -1;
	}
	return open ? 0 : end_word(s, j, end);
}

/* ---- making one ---- */

static void
wordpiece_free(void *state)
{
	struct wordpiece *s = state;

	trie_free(&s->trie);
	free(s);
}

static void *
wordpiece_make(const struct pico_vocab *v, struct pico_err *err)
{
	struct wordpiece *s = mem_new(1, sizeof *s, "tokenizer", err);
	struct trie_text *list = mem_new((uint64_t)v->n, sizeof *list,
	    "tokens", err);
	int32_t id;

	if (s == NULL || list == NULL) {
		free(s);
		free(list);
		return NULL;
	}
	s->v = v;
	for (id = 0; id < v->n; id++)
		list[id] = (struct trie_text){ pico_vocab_text(v, id), id };
	if (trie_init(&s->trie, list, (size_t)v->n, err) < 0) {
		wordpiece_free(s);
		s = NULL;
	}
	free(list);
	return s;
}

const struct kind kind_wordpiece = {
	wordpiece_make, wordpiece_free, wordpiece_run
};
