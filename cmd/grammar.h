/* SPDX-License-Identifier: MIT */
/* The options that bind the output to a grammar. */
#ifndef PICO_CMD_GRAMMAR_H
#define PICO_CMD_GRAMMAR_H

#include "cmd.h"

struct grammar_opts {
	const char *file, *text, *schema;
	bool json, finish, no_jump;
};

#define GRAMMAR_OPTIONS(o) \
	{ 0, "grammar", PICO_OPT_TEXT, &(o).file, "FILE", \
	    "the output follows this grammar, pico-grammar(5)", 0, 0, NULL }, \
	{ 0, "grammar-text", PICO_OPT_TEXT, &(o).text, "TEXT", \
	    "the same, the grammar itself", 0, 0, NULL }, \
	{ 0, "json", PICO_OPT_FLAG, &(o).json, NULL, \
	    "the output is a JSON value", 0, 0, NULL }, \
	{ 0, "json-schema", PICO_OPT_TEXT, &(o).schema, "FILE", \
	    "the output is JSON that fits this schema", 0, 0, NULL }, \
	{ 0, "finish", PICO_OPT_FLAG, &(o).finish, NULL, \
	    "complete by the shortest way what a limit cuts off", \
	    0, 0, NULL }, \
	{ 0, "no-jump", PICO_OPT_FLAG, &(o).no_jump, NULL, \
	    "draw tokens even where the grammar leaves no choice", \
	    0, 0, NULL }

/* The grammar that the options ask for; NULL: none. Exits if it is no good. */
struct pico_grammar *grammar_open(const struct grammar_opts *o);

#endif
