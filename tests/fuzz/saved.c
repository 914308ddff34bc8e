/* SPDX-License-Identifier: MIT */
/*
 * Saved scores: a header is put before, and the hash of the records right, or
 * nothing but their check would be reached; with the first byte odd neither is.
 */
#include "../../lib/base/base.h"
#include "fuzz.h"

static struct pico_gguf *g;
static struct pico_vocab *vocab;
static uint8_t head[24];
static float *row;

static void
open_vocab(void)
{
	struct pico_err err = {0};
	struct pico_saved_out *out;
	FILE *f;
	int32_t i;

	MUST(pico_gguf_open(&g, "tests/data/arch/llama-q8_0.gguf", 0,
	    &err) == 0);
	vocab = pico_vocab_open(g, NULL, &err);
	MUST(vocab != NULL);
	row = calloc((size_t)pico_vocab_n(vocab), sizeof *row);
	MUST(row != NULL);
	for (i = 0; i < pico_vocab_n(vocab); i++)
		row[i] = (float)(i % 17);
	out = pico_saved_create(fuzz_file((const uint8_t *)"", 0), vocab, &err);
	MUST(out != NULL && pico_saved_end(out, &err) == 0);
	pico_saved_close(out);
	f = fopen(fuzz_path(), "rb");
	MUST(f != NULL && fread(head, sizeof head, 1, f) == 1);
	(void)fclose(f);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pico_scored t = { .sequence = 1 };
	struct pico_comparison c;
	struct pico_saved_in *in;
	struct pico_err err = {0};
	uint64_t hash;
	uint8_t *copy;
	double kl;
	int r = 0;

	if (vocab == NULL)
		open_vocab();
	if (n == 0)
		return 0;
	copy = malloc(n + sizeof head);
	MUST(copy != NULL);
	memcpy(copy, data, n);
	if (data[0] % 2 == 0) {
		memcpy(copy, head, sizeof head);
		memcpy(copy + sizeof head, data, n);
		n += sizeof head;
		if (n >= 2 * sizeof head) {
			hash = hash_bytes(HASH_START, copy + sizeof head,
			    n - 2 * sizeof head);
			memcpy(copy + n - 8, &hash, 8);
		}
	}
	in = pico_saved_open(fuzz_file(copy, n), vocab, &err);
	free(copy);
	fuzz_check(in == NULL, &err);
	if (in == NULL)
		return 0;
	t.logits = row;
	for (t.pos = 1; r == 0 && t.pos < 4; t.pos++) {
		t.id = (int32_t)t.pos;
		t.before = t.id - 1;
		t.logprob = pico_logprob(row, (uint32_t)pico_vocab_n(vocab),
		    t.id);
		r = pico_saved_compare(in, &t, &kl, &err);
		MUST(r < 0 || kl >= 0);
	}
	if (r < 0)
		fuzz_check(true, &err);
	err = (struct pico_err){0};
	r = pico_saved_finish(in, &c, &err);
	fuzz_check(r < 0, &err);
	pico_saved_free(in);
	return 0;
}
