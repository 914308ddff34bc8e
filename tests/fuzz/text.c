/* SPDX-License-Identifier: MIT */
/*
 * Text through the tokenizers of all kinds and back: any bytes give ids, in two
 * parts the same ids as in one, and where a vocabulary has a token for every
 * byte, the same bytes again.
 */
#include "fuzz.h"

#define DIR "tests/data/tokenizer/"

/* When the text must come back. */
enum exact { NEVER, UTF8, ALWAYS, WITHOUT_MARKS };

static struct model {
	const char *path, *pre;
	enum exact exact;
	struct pico_gguf *g;
	struct pico_vocab *v;
	struct pico_tokenizer *t;
} models[] = {
	{ "examples/model/pico-tales.gguf", NULL, WITHOUT_MARKS, 0, 0, 0 },
	{ DIR "bpe.gguf", "llama-bpe", UTF8, 0, 0, 0 },
	{ DIR "unigram.gguf", NULL, NEVER, 0, 0, 0 },
	{ DIR "wordpiece.gguf", NULL, NEVER, 0, 0, 0 },
	{ DIR "rwkv.gguf", NULL, ALWAYS, 0, 0, 0 },
	{ DIR "lines.gguf", NULL, WITHOUT_MARKS, 0, 0, 0 },
	{ "tests/data/arch/mixtral.gguf", NULL, NEVER, 0, 0, 0 },
	{ DIR "bpe.gguf", "gpt-4o", UTF8, 0, 0, 0 },
	{ DIR "bpe.gguf", "kimi-k2", UTF8, 0, 0, 0 },
	{ DIR "bpe.gguf", "deepseek-llm", UTF8, 0, 0, 0 },
	{ DIR "bpe.gguf", "afmoe", UTF8, 0, 0, 0 },
	{ DIR "bpe.gguf", "superbpe", UTF8, 0, 0, 0 },
	{ DIR "bpe.gguf", "tiny_aya", UTF8, 0, 0, 0 },
	{ DIR "bpe.gguf", "jais-2", UTF8, 0, 0, 0 },
	{ DIR "bpe.gguf", "chameleon", UTF8, 0, 0, 0 },
	{ DIR "bpe.gguf", "default", UTF8, 0, 0, 0 },
};
#define N_MODELS (sizeof models / sizeof *models)

static void
open_all(void)
{
	struct pico_err err = {0};
	size_t i;

	for (i = 0; i < N_MODELS && models[i].t == NULL; i++) {
		MUST(pico_gguf_open(&models[i].g, models[i].path, 0,
		    &err) == 0);
		models[i].v = pico_vocab_open(models[i].g, models[i].pre, &err);
		MUST(models[i].v != NULL);
		models[i].t = pico_tokenizer_new(models[i].v, &err);
		MUST(models[i].t != NULL);
	}
}

static bool
is_utf8(const char *p, size_t n)
{
	size_t i, len;

	for (i = 0; i < n; i += len) {
		len = pico_utf8_len(p + i, n - i);
		if (len == 0)
			return false;
	}
	return true;
}

/* U+2581 is a space to some kinds, there is no other way. */
static bool
has_mark(const char *p, size_t n)
{
	size_t i;

	for (i = 2; i < n; i++)
		if (memcmp(p + i - 2, "\xe2\x96\x81", 3) == 0)
			return true;
	return false;
}

/* The tokens that `whole` has, from two parts. */
static void
check_parts(const struct model *m, const char *p, size_t n, size_t first,
    unsigned flags, const struct pico_ids *whole)
{
	struct pico_err err = {0};
	struct pico_ids ids = {0};
	size_t used, rest;

	pico_tokenize_begin(m->t, flags);
	MUST(pico_tokenize_part(m->t, p, first, false, &used, &ids, &err) == 0);
	MUST(used <= first);
	MUST(pico_tokenize_part(m->t, p + used, n - used, true, &rest, &ids,
	    &err) == 0);
	MUST(used + rest == n);
	MUST(ids.n == whole->n && (ids.n == 0 ||
	    memcmp(ids.v, whole->v, ids.n * sizeof *ids.v) == 0));
	free(ids.v);
}

static void
check_text(const struct model *m, const char *p, size_t n,
    const struct pico_ids *ids)
{
	char *piece = malloc(pico_vocab_piece_max(m->v));
	struct pico_detok d;
	size_t i, k = 0, len;

	MUST(piece != NULL);
	pico_detok_init(&d, m->v, m->exact == ALWAYS, false);
	for (i = 0; i < ids->n; i++) {
		len = pico_detok_token(&d, ids->v[i], piece);
		MUST(len <= n - k && memcmp(p + k, piece, len) == 0);
		k += len;
	}
	MUST(k == n);
	free(piece);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pico_err err = {0};
	struct pico_ids ids = {0};
	const struct model *m;
	unsigned flags;
	const char *p;
	size_t i, first;
	bool exact;

	open_all();
	if (n < 2)
		return 0;
	/* two bytes choose model, flags and where the text is parted */
	m = &models[data[0] % N_MODELS];
	flags = data[0] / N_MODELS % 16;
	if (pico_vocab_special(m->v)->bos < 0)
		flags &= ~(unsigned)PICO_ADD_BOS;
	if (pico_vocab_special(m->v)->eos < 0)
		flags &= ~(unsigned)PICO_ADD_EOS;
	p = (const char *)data + 2;
	n -= 2;
	first = n * data[1] / 255;
	MUST(pico_tokenize(m->t, p, n, flags, &ids, &err) == 0);
	for (i = 0; i < ids.n; i++)
		MUST(ids.v[i] >= 0 && ids.v[i] < pico_vocab_n(m->v));
	check_parts(m, p, n, first, flags, &ids);
	exact = m->exact == ALWAYS || (m->exact == UTF8 && is_utf8(p, n)) ||
	    (m->exact == WITHOUT_MARKS && !has_mark(p, n));
	/* A space in front is taken away where BOS tells that it was added;
	   control tokens are not written but for RWKV, which takes them from
	   the text. */
	flags &= PICO_ADD_BOS | PICO_PARSE_SPECIAL | PICO_CONTINUED |
	    PICO_ADD_EOS;
	if (exact && flags == (m->exact == ALWAYS ? 0 : PICO_ADD_BOS))
		check_text(m, p, n, &ids);
	free(ids.v);
	return 0;
}
