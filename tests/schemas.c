/* SPDX-License-Identifier: MIT */
/*
 * What schemas let pass, for tests/schema-random. Each line is answered by one:
 *   S schema   it counts from now on: "ok", or why not
 *   W seed     a text of random tokens that fit, closed at some time
 *   T text     "yes" or "no": whether it fits
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/pico.h"

#define STEPS 80

static struct pico_vocab *v;
static float *zero;
static struct pico_grammar *g;
static struct pico_constraint *c;
static struct pico_matcher *m;

static bool
set_schema(const char *text, size_t n, struct pico_err *err)
{
	char *grammar;

	pico_matcher_free(m);
	pico_constraint_free(c);
	pico_grammar_free(g);
	g = NULL;
	c = NULL;
	m = NULL;
	grammar = pico_schema_grammar(text, n, &n, err);
	if (grammar != NULL)
		g = pico_grammar_parse(grammar, n, err);
	free(grammar);
	if (g != NULL)
		c = pico_constraint_new(g, v, err);
	if (c != NULL)
		m = pico_matcher_new(c, err);
	return m != NULL;
}

/* Takes a token, and prints it. */
static int
take(int32_t id, struct pico_err *err)
{
	char *p = malloc(pico_vocab_piece_max(v));

	if (p == NULL || pico_matcher_token(m, id, err) != 1) {
		free(p);
		return -1;
	}
	(void)fwrite(p, 1, pico_vocab_piece(v, id, false, p), stdout);
	free(p);
	return 0;
}

/* Any token that fits, until the output ends or the seed says so. */
static int
walk(uint64_t seed, struct pico_err *err)
{
	size_t n = (size_t)(pico_draw(seed, 1, 0) * STEPS), i;
	struct pico_ids ids = {0};
	const float *fits;
	int32_t id, many;
	int r = 0;

	pico_matcher_restart(m);
	for (i = 0; i < n && r == 0 && !pico_matcher_over(m); i++) {
		fits = pico_matcher_mask(m, zero, err);
		if (fits == NULL)
			return -1;
		for (id = 0, many = 0; id < pico_vocab_n(v); id++)
			many += fits[id] == 0;
		many = (int32_t)(pico_draw(seed, 2, i) * many);
		for (id = 0; fits[id] != 0 || many-- > 0; id++)
			;
		if (pico_vocab_is_eog(v, id))
			break;
		r = take(id, err);
	}
	if (r == 0 && !pico_matcher_can_end(m))
		r = pico_matcher_closing(m, &ids, err);
	for (i = 0; r == 0 && i < ids.n; i++)
		r = take(ids.v[i], err);
	free(ids.v);
	return r;
}

int
main(int argc, char **argv)
{
	struct pico_gguf *file;
	struct pico_err err = {0};
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	if (argc != 2 || pico_gguf_open(&file, argv[1], PICO_GGUF_HEADER,
	    &err) < 0 || (v = pico_vocab_open(file, NULL, &err)) == NULL ||
	    (zero = calloc((size_t)pico_vocab_n(v), sizeof *zero)) == NULL) {
		(void)fprintf(stderr, "schemas: %s\n", err.msg);
		return 2;
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	while ((n = getline(&line, &cap, stdin)) > 0) {
		char *p = line + 2;

		n -= 2 + (line[n - 1] == '\n');
		err = (struct pico_err){0};
		if (line[0] == 'S') {
			(void)puts(set_schema(p, (size_t)n, &err) ? "ok" :
			    err.msg);
		} else if (m == NULL) {
			(void)puts("no schema");
		} else if (line[0] == 'W') {
			(void)puts(walk(strtoull(p, NULL, 10), &err) < 0 ?
			    err.msg : "");
		} else {
			pico_matcher_restart(m);
			(void)puts(pico_matcher_text(m, p, (size_t)n, &err) ==
			    1 && pico_matcher_can_end(m) ? "yes" : "no");
		}
	}
	free(line);
	return 0;
}
