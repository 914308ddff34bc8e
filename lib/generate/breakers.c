/* SPDX-License-Identifier: MIT */
/* The texts that end a repetition (DRY), as tokens of a vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "../base/base.h"

enum { TEXT_MAX = 40, TAIL_MAX = 20 };

static bool
contains(const char *p, size_t n, struct pico_str text)
{
	for (; n >= text.n; p++, n--)
		if (memcmp(p, text.p, text.n) == 0)
			return true;
	return false;
}

/* The breaker that begins in the token `head`, which has the first `done`
   bytes of the text. */
static int
add_split(struct pico_breakers *b, struct pico_tokenizer *t, int32_t head,
    struct pico_str text, size_t done, struct pico_ids *ids,
    struct pico_err *err)
{
	ids->n = 0;
	if (mem_grow(&ids->v, &ids->cap, 1, sizeof *ids->v, "token ids",
	    err) < 0)
		return -1;
	ids->v[ids->n++] = head;
	if (pico_tokenize(t, text.p + done, text.n - done, PICO_CONTINUED, ids,
	    err) < 0)
		return -1;
	if (ids->n == 1)	/* the vocabulary has no tokens for the rest */
		return 0;
	return pico_breakers_add(b, ids->v, MIN(ids->n, (size_t)1 + TAIL_MAX),
	    err);
}

static int
add_text(struct pico_breakers *b, const struct pico_vocab *v,
    struct pico_tokenizer *t, struct pico_str text, char *piece,
    struct pico_ids *ids, struct pico_err *err)
{
	size_t n, k;
	int32_t id;

	for (id = 0; id < pico_vocab_n(v); id++) {
		n = pico_vocab_piece(v, id, true, piece);
		if (contains(piece, n, text) &&
		    pico_breakers_add(b, &id, 1, err) < 0)
			return -1;
		for (k = 1; k < text.n && k <= n; k++)
			if (memcmp(piece + n - k, text.p, k) == 0 &&
			    add_split(b, t, id, text, k, ids, err) < 0)
				return -1;
	}
	return 0;
}

int
pico_breakers_texts(struct pico_breakers *b, const struct pico_vocab *v,
    const struct pico_str *texts, size_t n, struct pico_err *err)
{
	char *piece = mem_new(pico_vocab_piece_max(v), 1, "text of a token",
	    err);
	struct pico_tokenizer *t = NULL;
	struct pico_ids ids = {0};
	struct pico_str text;
	int r = piece == NULL ? -1 : 0;
	size_t i;

	for (i = 0; r == 0 && i < n; i++) {
		text = texts[i];
		text.n = MIN(text.n, (size_t)TEXT_MAX);
		if (text.n == 0)
			r = fail_usage(err, "breaker without text");
		/* its indexes are not small, and one byte needs none */
		if (r == 0 && text.n > 1 && t == NULL) {
			t = pico_tokenizer_new(v, err);
			r = t == NULL ? -1 : 0;
		}
		if (r == 0)
			r = add_text(b, v, t, text, piece, &ids, err);
	}
	pico_tokenizer_free(t);
	free(ids.v);
	free(piece);
	return r;
}
