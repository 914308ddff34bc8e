/* SPDX-License-Identifier: MIT */
/* A schema: refused with a message, or a grammar that can be read, but for what
   is too large or comes back to itself. */
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pico_err err = {0};
	struct pico_grammar *g;
	size_t n_text = 0;
	char *text = pico_schema_grammar((const char *)data, n, &n_text, &err);

	fuzz_check(text == NULL, &err);
	if (text == NULL)
		return 0;
	g = pico_grammar_parse(text, n_text, &err);
	fuzz_check(g == NULL, &err);
	MUST(g != NULL || strstr(err.msg, "too large") != NULL ||
	    strstr(err.msg, "left recursion") != NULL ||
	    strstr(err.msg, "has no end") != NULL ||
	    strstr(err.msg, "more than 1000000 times") != NULL ||
	    strstr(err.msg, "can be read") != NULL);
	pico_grammar_free(g);
	free(text);
	return 0;
}
