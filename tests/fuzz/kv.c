/* SPDX-License-Identifier: MIT */
/*
 * A KV file. The checksum is put right first, or nothing but its check would
 * be reached; with the first byte odd it stays as it is.
 */
#include "../../lib/base/base.h"
#include "fuzz.h"

static struct pico_ctx *ctx;

static void
open_model(void)
{
	struct pico_ctx_params p = { .n_ctx = 16, .n_threads = 1,
	    .memory = UINT64_MAX };
	struct pico_err err = {0};
	struct pico_gguf *g;
	struct pico_model *m;

	MUST(pico_gguf_open(&g, "tests/data/arch/llama-q8_0.gguf", 0,
	    &err) == 0);
	m = pico_model_open(g, &err);
	MUST(m != NULL);
	ctx = pico_ctx_new(m, &p, &err);
	MUST(ctx != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct pico_col col = { 1, 0, true };
	struct pico_err err = {0};
	uint64_t hash;
	uint8_t *copy;
	size_t have;
	int r;

	if (ctx == NULL)
		open_model();
	if (n == 0)
		return 0;
	copy = malloc(n);
	MUST(copy != NULL);
	memcpy(copy, data, n);
	if (data[0] % 2 == 0) {
		copy[0] |= 1;	/* the magic's first byte is odd */
		if (n >= 64 + 8) {
			hash = hash_bytes(HASH_START, copy, n - 8);
			memcpy(copy + n - 8, &hash, 8);
		}
	}
	r = pico_kv_load(ctx, 0, fuzz_file(copy, n), &err);
	free(copy);
	fuzz_check(r < 0, &err);
	MUST(r != 0);
	(void)pico_ctx_tokens(ctx, 0, &have);
	MUST(have <= 16 && (r > 0 || have == 0));
	if (have < 16)
		MUST(pico_ctx_eval(ctx, &col, 1, &err) == 0);
	return 0;
}
