/* SPDX-License-Identifier: MIT */
/*
 * Text through the tokenizers and back: any bytes give ids, and what the
 * vocabulary of the model that ships makes of them is the same bytes again.
 */
#include "fuzz.h"

static struct model {
	const char *path;
	bool round_trip;	/* it has a token for every byte */
	struct pico_gguf *g;
	struct pico_vocab *v;
	struct pico_tokenizer *t;
} models[] = {
	{ "examples/model/pico-tales.gguf", true, NULL, NULL, NULL },
	{ "tests/data/arch/mixtral.gguf", false, NULL, NULL, NULL },
	{ "tests/data/arch/llama3-ropefreqs.gguf", false, NULL, NULL, NULL },
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
		models[i].v = pico_vocab_open(models[i].g, NULL, &err);
		MUST(models[i].v != NULL);
		models[i].t = pico_tokenizer_new(models[i].v, &err);
		MUST(models[i].t != NULL);
	}
}

/* U+2581 is a space to this kind of vocabulary, there is no other way. */
static bool
has_mark(const uint8_t *p, size_t n)
{
	size_t i;

	for (i = 2; i < n; i++)
		if (memcmp(p + i - 2, "\xe2\x96\x81", 3) == 0)
			return true;
	return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pico_err err = {0};
	struct pico_ids ids = {0};
	struct pico_detok d;
	const struct model *m;
	unsigned flags;
	bool exact;
	char *piece;
	size_t i, k = 0, len;

	open_all();
	if (n == 0)
		return 0;
	/* the first byte chooses model and flags */
	m = &models[data[0] % N_MODELS];
	flags = data[0] / N_MODELS % 16;
	/* a space in front is taken away where BOS tells that it was added */
	exact = m->round_trip && (flags & PICO_ADD_BOS) != 0 &&
	    (flags & (PICO_PARSE_SPECIAL | PICO_CONTINUED)) == 0 &&
	    !has_mark(data + 1, n - 1);
	data++;
	n--;
	MUST(pico_tokenize(m->t, (const char *)data, n, flags, &ids,
	    &err) == 0);
	piece = malloc(pico_vocab_piece_max(m->v));
	MUST(piece != NULL);
	pico_detok_init(&d, m->v, false, false);
	pico_detok_start(&d);
	for (i = 0; i < ids.n; i++) {
		MUST(ids.v[i] >= 0 && ids.v[i] < pico_vocab_n(m->v));
		len = pico_detok_token(&d, ids.v[i], piece);
		MUST(len <= pico_vocab_piece_max(m->v));
		if (exact) {
			MUST(len <= n - k && memcmp(data + k, piece, len) == 0);
			k += len;
		}
	}
	MUST(!exact || k == n);
	free(piece);
	free(ids.v);
	return 0;
}
