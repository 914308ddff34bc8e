/* SPDX-License-Identifier: MIT */
/* Sets of tokens that a grammar allows. Private to lib/. */
#ifndef PICO_ALLOW_H
#define PICO_ALLOW_H

#include "grammar.h"

struct token_text {
	struct pico_str text;	/* borrowed while the tree is made */
	int32_t id;
};

struct tree;
/* Sorts the texts; empty ones do not count. */
struct tree *tree_new(struct token_text *v, size_t n, struct pico_err *err);
void tree_free(struct tree *t);
/* Sets the bits of all tokens that may come next in a state. */
int tree_allow(struct tree *t, struct automaton *a, uint32_t state,
    uint64_t *out, struct pico_err *err);

#endif
