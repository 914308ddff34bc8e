/* SPDX-License-Identifier: MIT */
/* The options of sampling, the same in every program that draws tokens. */
#ifndef PICO_SAMPLING_H
#define PICO_SAMPLING_H

#include <math.h>

#include "cmd.h"

struct sampling_opts {
	double temp, top_p, min_p, typical;
	double repeat, frequency, presence;
	int64_t top_k, repeat_last, min_keep;
	uint64_t seed;
	struct pico_bias *bias;		/* n_bias; free() */
	size_t n_bias;
	struct pico_step steps[7];	/* filled in by sampling_chain() */
};

#define SAMPLING_DEFAULTS { .temp = 0.8, .top_k = 40, .top_p = 0.95, \
	.min_p = 0.05, .typical = 1, .repeat = 1, .repeat_last = 64 }

/* Rows of an option table; o is a static struct sampling_opts. */
#define SAMPLING_OPTIONS(o) \
	{ 's', "seed", PICO_OPT_CALL, &(o).seed, "SEED", \
	    "of the random draws, a number or random (0)", 0, 0, cmd_seed }, \
	{ 0, "temp", PICO_OPT_REAL, &(o).temp, "T", \
	    "temperature; 0: always the best token (0.8)", 0, HUGE_VAL, NULL }, \
	{ 0, "top-k", PICO_OPT_INT, &(o).top_k, "K", \
	    "only the K best tokens; 0: all (40)", 0, 0, NULL }, \
	{ 0, "top-p", PICO_OPT_REAL, &(o).top_p, "P", \
	    "only the best with P of the probability; 1: all (0.95)", \
	    0, 1, NULL }, \
	{ 0, "min-p", PICO_OPT_REAL, &(o).min_p, "P", \
	    "only those with P times the best's probability (0.05)", \
	    0, 1, NULL }, \
	{ 0, "typical", PICO_OPT_REAL, &(o).typical, "P", \
	    "only the most typical with P of the probability (1: all)", \
	    0, 1, NULL }, \
	{ 0, "repeat-penalty", PICO_OPT_REAL, &(o).repeat, "R", \
	    "weakens tokens seen before by this factor (1: off)", \
	    1e-6, 1e6, NULL }, \
	{ 0, "frequency-penalty", PICO_OPT_REAL, &(o).frequency, "F", \
	    "from the logit for each time it was seen (0: off)", 0, 0, NULL }, \
	{ 0, "presence-penalty", PICO_OPT_REAL, &(o).presence, "F", \
	    "from the logit once, if it was seen (0: off)", 0, 0, NULL }, \
	{ 0, "repeat-last", PICO_OPT_INT, &(o).repeat_last, "N", \
	    "the penalties look at N tokens; -1: all (64)", \
	    -1, INT32_MAX, NULL }, \
	{ 0, "logit-bias", PICO_OPT_CALL, &(o), "ID=X", \
	    "adds X to the token's logit; -inf: never; repeatable", \
	    0, 0, sampling_bias }, \
	{ 0, "min-keep", PICO_OPT_INT, &(o).min_keep, "N", \
	    "the filters leave at least N tokens (0)", 0, 0, NULL }

/* For the table: ID=VALUE. */
int sampling_bias(const char *arg, void *data, struct pico_err *err);

/*
 * The chain in its usual order. It borrows from *o and holds until *o changes.
 * Fails if a bias is for an id outside the vocabulary.
 */
int sampling_chain(struct sampling_opts *o, uint32_t n_vocab,
    struct pico_chain *chain, struct pico_err *err);

#endif
