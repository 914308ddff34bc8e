/* SPDX-License-Identifier: MIT */
/* Numbers and options of the command line. */
#include <math.h>

#include "fuzz.h"

static void
numbers(const char *text)
{
	struct pico_err err = {0};
	int64_t i, again;
	char buf[40];
	double x;
	uint64_t size;
	int r;

	r = pico_parse_int(text, INT64_MIN, INT64_MAX, &i, &err);
	fuzz_check(r < 0, &err);
	if (r == 0) {
		(void)snprintf(buf, sizeof buf, "%lld", (long long)i);
		MUST(pico_parse_int(buf, i, i, &again, &err) == 0);
		MUST(again == i);
	}
	err = (struct pico_err){0};
	r = pico_parse_real(text, -HUGE_VAL, HUGE_VAL, &x, &err);
	fuzz_check(r < 0, &err);
	MUST(r < 0 || isfinite(x));
	err = (struct pico_err){0};
	r = pico_parse_size(text, &size, &err);
	fuzz_check(r < 0, &err);
}

/* Words, each up to a NUL. */
static void
options(char *text, size_t n)
{
	static bool flag;
	static int64_t i;
	static double x;
	static const char *s;
	static struct pico_list list;
	static const struct pico_opt table[] = {
		{ 'a', "all", PICO_OPT_FLAG, &flag, NULL, "", 0, 0, NULL },
		{ 'n', "number", PICO_OPT_INT, &i, "N", "", 1, 9, NULL },
		{ 'x', "real", PICO_OPT_CALL, &x, "X", "", 0, 1, pico_opt_real },
		{ 's', NULL, PICO_OPT_TEXT, &s, "S", "", 0, 0, NULL },
		{ 0, "list", PICO_OPT_LIST, &list, "S", "", 0, 0, NULL },
		{ 0, NULL, PICO_OPT_END, NULL, NULL, NULL, 0, 0, NULL },
	};
	struct pico_err err = {0};
	char *argv[34], name[] = "fuzz";
	int argc = 1, first;
	size_t k = 0;

	i = 1;
	x = 0;
	argv[0] = name;
	while (k < n && argc < 33) {
		argv[argc++] = text + k;
		k += strlen(text + k) + 1;
	}
	argv[argc] = NULL;
	first = pico_options(table, argc, argv, &err);
	fuzz_check(first < 0, &err);
	MUST(first < 0 || (first >= 1 && first <= argc));
	MUST(i >= 1 && i <= 9 && x >= 0 && x <= 1);
	free(list.v);
	list = (struct pico_list){0};
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1);

	MUST(text != NULL);
	memcpy(text, data, n);
	text[n] = '\0';
	numbers(text);
	options(text, n);
	free(text);
	return 0;
}
