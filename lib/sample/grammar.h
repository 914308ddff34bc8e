/* SPDX-License-Identifier: MIT */
/*
 * Grammars in their checked form, and the automaton that reads text by them.
 * Everything is in bytes: a set of characters is a small graph of sets of bytes,
 * so that a token may end inside a character. Private to lib/.
 */
#ifndef PICO_GRAMMAR_H
#define PICO_GRAMMAR_H

#include "../base/base.h"

enum node_kind {
	N_EMPTY,	/* only while parsing */
	N_BYTE,		/* a byte of the set `to`, then `next` */
	N_SPLIT,	/* `next` or `to` */
	N_CALL,		/* the rule that begins at `to`, then `next` */
	N_REPEAT,	/* min..max times what begins at `to`, then `next` */
	N_RETURN	/* the end of a rule or of what is repeated */
};

struct node {
	uint8_t kind;
	int32_t next, to;
	uint32_t min, max;	/* N_REPEAT; N_CALL: min is the rule */
	uint32_t pos;		/* N_CALL: in the text, for messages */
};
#define NO_MAX UINT32_MAX

struct byte_set {
	uint64_t bits[4];
};

static inline bool
set_has(const struct byte_set *s, unsigned char byte)
{
	return s->bits[byte >> 6] >> (byte & 63) & 1;
}

/* Bytes to the nearest end; NEVER: there is none, so it is no way to go. */
#define NEVER UINT32_MAX

static inline uint32_t
cost_add(uint32_t a, uint32_t b)
{
	return a == NEVER || b == NEVER ? NEVER :
	    MIN(a + (uint64_t)b, NEVER - 1);
}

struct pico_grammar {
	struct node *node;
	size_t n_nodes, cap_nodes;
	struct byte_set *set;
	size_t n_sets, cap_sets;
	uint32_t *cost;		/* of each node, to the end of its rule */
	int32_t root;		/* the node where it begins */
	uint8_t class_of[256];	/* bytes that no set tells apart */
	uint32_t n_classes;
};

/* Appends the graph of a set of characters: `n` ranges lo, hi, lo, hi, ... which
   are sorted and apart, leading to the node `exit`. Returns where it begins. */
int32_t grammar_set(struct pico_grammar *g, const uint32_t *range, size_t n,
    int32_t exit, struct pico_err *err);
/* Appends a node; -1 if there are too many. */
int32_t grammar_node(struct pico_grammar *g, enum node_kind kind,
    struct pico_err *err);
/* A node for one of the bytes of a set, which leads to `next`. */
int32_t grammar_byte(struct pico_grammar *g, const struct byte_set *set,
    int32_t next, struct pico_err *err);
/* Removes the empty nodes and works out costs and classes. */
int grammar_finish(struct pico_grammar *g, struct pico_err *err);
/* A call through which a rule comes back to itself before it has read anything;
   -1: there is none, -2: no memory. */
int32_t grammar_left_recursion(const struct pico_grammar *g,
    struct pico_err *err);

/* ---- the automaton (automaton.c) ---- */

/*
 * A state is the set of stacks with which a text may go on. Stacks share their
 * frames; states are made when they are first reached, and kept.
 */
struct automaton;
#define STATE_DEAD 1	/* nothing fits any more */

struct automaton *automaton_new(const struct pico_grammar *g,
    struct pico_err *err);
void automaton_free(struct automaton *a);
/* 0 without memory, or if the grammar has too many ways to go on. */
uint32_t automaton_start(struct automaton *a, struct pico_err *err);
/* The state after a byte; 0 as above. */
uint32_t automaton_step(struct automaton *a, uint32_t state,
    unsigned char byte, struct pico_err *err);
/* Whether the text may end here. */
bool automaton_can_end(const struct automaton *a, uint32_t state);
/* The bytes that may come next. */
struct byte_set automaton_next(const struct automaton *a, uint32_t state);
/* Bytes of the shortest way to an end. */
uint32_t automaton_cost(const struct automaton *a, uint32_t state);
/* A mark that the caller may leave on a state; NULL at first. */
void **automaton_mark(struct automaton *a, uint32_t state);
/* Numbers in use: states are 2..n - 1. */
uint32_t automaton_n_states(const struct automaton *a);
size_t automaton_bytes(const struct automaton *a);
/*
 * Forgets all states and stacks but the n given ones, which get new numbers.
 * The marks are lost: free them before.
 */
int automaton_forget(struct automaton *a, uint32_t **keep, size_t n,
    struct pico_err *err);

#endif
