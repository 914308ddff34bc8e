/* SPDX-License-Identifier: MIT */
/* Tokens to text: any ids of vocabularies of all kinds. */
#include "fuzz.h"

static struct model {
	const char *path;
	struct pico_gguf *g;
	struct pico_vocab *v;
} models[] = {
	{ "examples/model/pico-tales.gguf", 0, 0 },
	{ "tests/data/tokenizer/bpe.gguf", 0, 0 },
	{ "tests/data/tokenizer/unigram.gguf", 0, 0 },
	{ "tests/data/tokenizer/wordpiece.gguf", 0, 0 },
	{ "tests/data/tokenizer/rwkv.gguf", 0, 0 },
	{ "tests/data/tokenizer/lines.gguf", 0, 0 },
};
#define N_MODELS (sizeof models / sizeof *models)

static void
open_all(void)
{
	struct pico_err err = {0};
	size_t i;

	for (i = 0; i < N_MODELS && models[i].v == NULL; i++) {
		MUST(pico_gguf_open(&models[i].g, models[i].path, 0,
		    &err) == 0);
		models[i].v = pico_vocab_open(models[i].g, NULL, &err);
		MUST(models[i].v != NULL);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct model *m;
	struct pico_detok d;
	size_t used = 0, len, max;
	char *text, *piece;
	int32_t id;

	open_all();
	if (n == 0)
		return 0;
	/* the first byte chooses model and options, two each are an id */
	m = &models[data[0] % N_MODELS];
	max = pico_vocab_piece_max(m->v);
	pico_detok_init(&d, m->v, data[0] / N_MODELS % 2, data[0] / N_MODELS / 2
	    % 2);
	text = malloc(n * max + 1);
	piece = malloc(max);	/* its own memory shows what is written past */
	MUST(text != NULL && piece != NULL);
	for (data++, n--; n >= 2; data += 2, n -= 2) {
		id = (data[0] | data[1] << 8) % pico_vocab_n(m->v);
		len = pico_detok_token(&d, id, piece);
		MUST(len <= max);
		memcpy(text + used, piece, len);
		used += len;
		if (data[1] > 0xf0)
			pico_detok_start(&d);
	}
	MUST(pico_clean_spaces(text, used) <= used);
	free(text);
	free(piece);
	return 0;
}
