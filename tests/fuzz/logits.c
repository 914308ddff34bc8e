/* SPDX-License-Identifier: MIT */
/* A logits stream, and the samplers over what it holds. */
#include "fuzz.h"

static void
sample(const float *row, uint32_t n)
{
	const struct pico_step steps[] = {
		{ .kind = PICO_S_PENALTIES, .n = -1, .a = 1.3, .b = 0.1,
		    .c = 0.2 },
		{ .kind = PICO_S_DRY, .n = -1, .a = 0.8, .b = 1.75, .c = 1 },
		{ .kind = PICO_S_TOP_N_SIGMA, .a = 2 },
		{ .kind = PICO_S_TOP_K, .n = 40 },
		{ .kind = PICO_S_TYPICAL, .a = 0.9 },
		{ .kind = PICO_S_TOP_P, .a = 0.95 },
		{ .kind = PICO_S_MIN_P, .a = 0.05 },
		{ .kind = PICO_S_XTC, .a = 0.5, .b = 0.1 },
		{ .kind = PICO_S_TEMP, .a = 0.8, .b = 0.5, .c = 1 },
		{ .kind = PICO_S_MIROSTAT, .n = 1 + n % 2, .a = 5, .b = 0.1 },
	};
	const struct pico_chain chain = { .steps = steps,
	    .n_steps = sizeof steps / sizeof *steps };
	const int32_t prev[] = { 0, 0, (int32_t)(n - 1) };
	struct pico_seq seq = { .ids = prev, .n = 3, .seed = n };
	struct pico_err err = {0};
	struct pico_sampler *s = pico_sampler_new(n, &err);
	const struct pico_cand *c;
	int64_t got, i;
	int32_t id, drawn;
	double sum = 0;

	MUST(s != NULL);
	got = pico_sampler_run(s, &chain, row, &seq, &c, &err);
	fuzz_check(got < 0, &err);
	MUST(got != 0 && got <= n);
	for (i = 0; i < got; i++) {
		MUST(c[i].id >= 0 && (uint32_t)c[i].id < n && c[i].p >= 0);
		sum += c[i].p;
	}
	if (got > 0) {
		MUST(sum > 0.999 && sum < 1.001);
		id = pico_choose(c, (size_t)got, pico_draw(n, 0, 3));
		MUST(pico_sampler_draw(s, &chain, row, &seq, &drawn, &err) ==
		    0);
		MUST(id == drawn);
	}
	pico_sampler_free(s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pico_err err = {0};
	int fd = fuzz_fd(data, n), r;
	struct pico_logits_in *in = pico_logits_open(fd, "in", &err);
	const float *row;
	int32_t id;

	fuzz_check(in == NULL, &err);
	while (in != NULL && (r = pico_logits_next(in, &id, &row, &err)) > 0) {
		if (r != PICO_TOKEN)
			continue;
		MUST(id >= 0 && (uint32_t)id < pico_logits_n_vocab(in));
		if (row != NULL)
			sample(row, pico_logits_n_vocab(in));
	}
	if (in != NULL)
		fuzz_check(r < 0, &err);
	pico_logits_close(in);
	(void)close(fd);
	return 0;
}
