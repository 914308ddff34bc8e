/* SPDX-License-Identifier: MIT */
/* A model file: reader, hyperparameters, weights, vocabulary, one pass. */
#include "fuzz.h"

static void
compute(const struct pico_model *m)
{
	struct pico_ctx_params p = { .n_ctx = 8, .n_threads = 1, .chunk = 2,
	    .memory = UINT64_MAX };
	const struct pico_col cols[2] = { { 0, 0, true }, { 0, 0, true } };
	struct pico_err err = {0};
	struct pico_plan plan;
	struct pico_ctx *c;

	if (pico_plan(m, &p, &plan, &err) < 0 ||
	    plan.kv + plan.buffers > 64 << 20)
		return;
	c = pico_ctx_new(m, &p, &err);
	fuzz_check(c == NULL, &err);
	if (c != NULL) {
		MUST(pico_ctx_eval(c, cols, 2, &err) == 0);
		MUST(pico_ctx_logits(c, 0) != NULL);
		MUST(pico_ctx_logits(c, 1) != NULL);
	}
	pico_ctx_free(c);
}

static void
words(const struct pico_vocab *v)
{
	static const char text[] = "Hello, \xc3\xa9\xff 123\n\n  <s>x</s>"
	    "\xef\xac\x81\xe3\x80\x80 ";
	struct pico_err err = {0};
	struct pico_ids ids = {0};
	struct pico_tokenizer *t = pico_tokenizer_new(v, &err);
	char *buf = malloc(pico_vocab_piece_max(v));
	size_t i, used;

	fuzz_check(t == NULL, &err);
	MUST(buf != NULL);
	if (t != NULL) {
		(void)pico_tokenize(t, text, sizeof text - 1,
		    PICO_PARSE_SPECIAL | pico_tokenizer_default_flags(v), &ids,
		    &err);
		pico_tokenize_begin(t, 0);
		(void)pico_tokenize_part(t, text, sizeof text - 1, false,
		    &used, &ids, &err);
	}
	for (i = 0; i < ids.n; i++) {
		MUST(ids.v[i] >= 0 && ids.v[i] < pico_vocab_n(v));
		(void)pico_vocab_piece(v, ids.v[i], true, buf);
	}
	free(ids.v);
	free(buf);
	pico_tokenizer_free(t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pico_err err = {0};
	struct pico_gguf *g = NULL;
	struct pico_vocab *v;
	struct pico_model *m;
	int r = pico_gguf_open(&g, fuzz_file(data, n), 0, &err);

	fuzz_check(r < 0, &err);
	if (r < 0)
		return 0;
	v = pico_vocab_open(g, NULL, &err);
	fuzz_check(v == NULL, &err);
	if (v != NULL)
		words(v);
	pico_vocab_close(v);
	err = (struct pico_err){0};
	m = pico_model_open(g, &err);
	fuzz_check(m == NULL, &err);
	if (m != NULL)
		compute(m);
	pico_model_close(m);
	pico_gguf_close(g);
	return 0;
}
