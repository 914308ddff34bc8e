/* SPDX-License-Identifier: MIT */
/* A token stream; what was read is written and read again: the same. */
#include "fuzz.h"

/* All events into one list: ids, and ends as negative numbers. */
static size_t
read_all(const uint8_t *data, size_t n, int32_t *out, size_t max, int *last)
{
	struct pico_err err = {0};
	int fd = fuzz_fd(data, n);
	struct pico_tokens_in *in = pico_tokens_open(fd, "in", &err);
	size_t k = 0;
	int32_t v;
	int r;

	MUST(in != NULL);
	while ((r = pico_tokens_next(in, &v, &err)) > 0) {
		MUST(r == PICO_TOKEN ? v >= 0 : v <= 0 && v >= PICO_END_STOP);
		if (k < max)
			out[k++] = r == PICO_TOKEN ? v : -1;
	}
	fuzz_check(r < 0, &err);
	*last = r;
	if (r < 0 && pico_tokens_recover(in)) {
		err = (struct pico_err){0};
		while (pico_tokens_next(in, &v, &err) > 0)
			;
	}
	pico_tokens_close(in);
	(void)close(fd);
	return k;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	enum { MAX = 4096 };
	static int32_t a[MAX], b[MAX];
	static uint8_t copy[MAX * 16];
	struct pico_err err = {0};
	struct pico_tokens_out out;
	size_t na, nb, i;
	ssize_t len;
	FILE *f;
	int last, form;

	na = read_all(data, n, a, MAX, &last);
	if (last < 0 || na == MAX)
		return 0;
	for (form = 0; form < 2; form++) {
		f = tmpfile();
		MUST(f != NULL);
		pico_tokens_out_init(&out, fileno(f), form == 1);
		for (i = 0; i < na; i++)
			MUST((a[i] >= 0 ? pico_tokens_put(&out, a[i], &err) :
			    pico_tokens_end(&out, PICO_END_LIMIT, &err)) == 0);
		MUST(pico_tokens_flush(&out, &err) == 0);
		len = pread(fileno(f), copy, sizeof copy, 0);
		MUST(len >= 0);
		(void)fclose(f);
		nb = read_all(copy, (size_t)len, b, MAX, &last);
		MUST(last == 0 && nb == na);
		MUST(memcmp(a, b, na * sizeof *a) == 0);
	}
	return 0;
}
