/* SPDX-License-Identifier: MIT */
/*
 * A grammar, a NUL, a text: read at once or by bytes it is the same; the tokens
 * that are allowed are those that fit; what is forced fits; what closes it
 * does.
 */
#include <math.h>

#include "fuzz.h"

static struct pico_gguf *file;
static struct pico_vocab *v;
static float *zero;

static void
open_vocab(void)
{
	struct pico_err err = {0};

	if (v != NULL)
		return;
	MUST(pico_gguf_open(&file, "examples/model/pico-tales.gguf",
	    PICO_GGUF_HEADER, &err) == 0);
	v = pico_vocab_open(file, NULL, &err);
	MUST(v != NULL);
	zero = calloc((size_t)pico_vocab_n(v), sizeof *zero);
	MUST(zero != NULL);
}

/* Tokens that the matcher takes, one after the other: false if it gives up. */
static bool
take(struct pico_matcher *m, const struct pico_ids *ids)
{
	struct pico_err err = {0};
	size_t i;
	int r;

	for (i = 0; i < ids->n; i++) {
		r = pico_matcher_token(m, ids->v[i], &err);
		MUST(r != 0);
		if (r < 0)
			return false;
	}
	return true;
}

static void
check_tokens(struct pico_constraint *c, struct pico_matcher *m)
{
	struct pico_err err = {0};
	struct pico_matcher *other = pico_matcher_new(c, &err);
	struct pico_ids ids = {0};
	const float *out = pico_matcher_mask(m, zero, &err);
	int32_t id;
	int r;

	MUST(other != NULL);
	for (id = 0; out != NULL && id < pico_vocab_n(v); id += 3) {
		pico_matcher_copy(other, m);
		r = pico_vocab_is_eog(v, id) ? pico_matcher_can_end(m) :
		    pico_matcher_token(other, id, &err);
		MUST(r < 0 || (out[id] == 0) == (r == 1));
	}
	err = (struct pico_err){0};
	pico_matcher_copy(other, m);
	if (pico_matcher_forced(other, &ids, &err) == 0)
		(void)take(other, &ids);
	err = (struct pico_err){0};
	ids.n = 0;
	if (pico_matcher_closing(m, &ids, &err) == 0 && take(m, &ids))
		MUST(pico_matcher_can_end(m));
	free(ids.v);
	pico_matcher_free(other);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const uint8_t *nul = n > 0 ? memchr(data, '\0', n) : NULL;
	const char *text = nul == NULL ? "" : (const char *)nul + 1;
	size_t n_text = nul == NULL ? 0 : n - (size_t)(nul + 1 - data), i;
	struct pico_err err = {0};
	struct pico_grammar *g = pico_grammar_parse((const char *)data,
	    n - n_text - (nul != NULL), &err);
	struct pico_constraint *c;
	struct pico_matcher *a, *b;
	int r = 1, whole;

	open_vocab();
	c = g == NULL ? NULL : pico_constraint_new(g, v, &err);
	if (c != NULL) {
		n_text = n_text > 200 ? 200 : n_text;
		a = pico_matcher_new(c, &err);
		b = pico_matcher_new(c, &err);
		whole = pico_matcher_text(a, text, n_text, &err);
		for (i = 0; i < n_text && r == 1; i++)
			r = pico_matcher_text(b, text + i, 1, &err);
		MUST(whole < 0 || r < 0 || whole == r);
		if (whole == 1)
			MUST(pico_matcher_can_end(a) ==
			    pico_matcher_can_end(b));
		check_tokens(c, b);
		pico_matcher_free(a);
		pico_matcher_free(b);
	}
	pico_constraint_free(c);
	pico_grammar_free(g);
	return 0;
}
