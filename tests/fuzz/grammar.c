/* SPDX-License-Identifier: MIT */
/* A grammar: it is refused with a message, or texts can be read by it. */
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pico_err err = {0};
	struct pico_grammar *g = pico_grammar_parse((const char *)data, n, &err);
	struct pico_constraint *c;

	fuzz_check(g == NULL, &err);
	if (g == NULL)
		return 0;
	c = pico_constraint_new(g, NULL, &err);
	fuzz_check(c == NULL, &err);
	pico_constraint_free(c);
	pico_grammar_free(g);
	return 0;
}
