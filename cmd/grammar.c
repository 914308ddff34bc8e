/* SPDX-License-Identifier: MIT */
#include "grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The bytes of a file, and its name for messages. */
static char *
read_file(const char *operand, const char **name, size_t *n)
{
	int fd = cmd_open(operand, name);
	char *text = cmd_read_all(fd, *name, n);

	if (fd != STDIN_FILENO)
		(void)close(fd);
	return text;
}

static struct pico_grammar *
from_schema(const char *operand)
{
	struct pico_err err = {0};
	struct pico_grammar *g;
	const char *name;
	size_t n, n_text;
	char *schema = read_file(operand, &name, &n);
	char *text = pico_schema_grammar(schema, n, &n_text, &err);

	if (text == NULL)
		cmd_die_in(name, &err);
	g = pico_grammar_parse(text, n_text, &err);
	if (g == NULL) {	/* line and column are not those of the file */
		struct pico_err made = { .status = err.status };

		(void)snprintf(made.msg, sizeof made.msg, "as a grammar: %.*s",
		    (int)sizeof made.msg - 20, err.msg);
		cmd_die_in(name, &made);
	}
	free(schema);
	free(text);
	return g;
}

struct pico_grammar *
grammar_open(const struct grammar_opts *o)
{
	struct pico_err err = {0};
	struct pico_grammar *g = NULL;
	const char *name = "option --grammar-text";
	char *text;
	size_t n;
	int given = (o->file != NULL) + (o->text != NULL) + o->json +
	    (o->schema != NULL);

	if (given > 1)
		cmd_usage("options --grammar, --grammar-text, --json and "
		    "--json-schema exclude each other");
	if (given == 0 && (o->finish || o->no_jump))
		cmd_usage("option --%s needs a grammar",
		    o->finish ? "finish" : "no-jump");
	if (o->schema != NULL)
		return from_schema(o->schema);
	if (o->json) {
		g = pico_grammar_json(&err);
		if (g == NULL)
			cmd_die(&err);
	} else if (o->text != NULL) {
		g = pico_grammar_parse(o->text, strlen(o->text), &err);
		if (g == NULL)
			cmd_die_in(name, &err);
	} else if (o->file != NULL) {
		text = read_file(o->file, &name, &n);
		g = pico_grammar_parse(text, n, &err);
		if (g == NULL)
			cmd_die_in(name, &err);
		free(text);
	}
	return g;
}
