/* SPDX-License-Identifier: MIT */
/* The options of sampling, the same in every program that draws tokens. */
#ifndef PICO_SAMPLING_H
#define PICO_SAMPLING_H

#include <math.h>

#include "cmd.h"

struct sampling_opts {
	double temp, top_p, min_p, typical;
	double temp_range, temp_exponent, n_sigma, xtc, xtc_threshold;
	double repeat, frequency, presence;
	double dry, dry_base, tau, eta;
	int64_t top_k, repeat_last, min_keep, dry_length, dry_last, mirostat;
	struct pico_list dry_breakers;	/* none given: the usual ones */
	uint64_t seed;
	struct pico_bias *bias;		/* n_bias */
	size_t n_bias;
	enum pico_sampler_kind order[PICO_S_COUNT];
	size_t n_order;			/* 0: the usual order */
	/* made by the functions below */
	bool warned;
	struct pico_step steps[PICO_S_COUNT];
	struct pico_breakers *breakers;
};

#define SAMPLING_DEFAULTS { .temp = 0.8, .top_k = 40, .top_p = 0.95, \
	.min_p = 0.05, .typical = 1, .repeat = 1, .repeat_last = 64, \
	.temp_exponent = 1, .n_sigma = -1, .xtc_threshold = 0.1, \
	.dry_base = 1.75, .dry_length = 2, .dry_last = -1, .tau = 5, \
	.eta = 0.1 }

/* Rows of an option table; o is a static struct sampling_opts. */
#define SAMPLING_OPTIONS(o) \
	{ 's', "seed", PICO_OPT_CALL, &(o).seed, "SEED", \
	    "of the random draws, a number or random (0)", 0, 0, cmd_seed }, \
	{ 0, "temp", PICO_OPT_CALL, &(o).temp, "T", \
	    "temperature; 0: always the best token (0.8)", \
	    0, HUGE_VAL, pico_opt_real }, \
	{ 0, "temp-range", PICO_OPT_CALL, &(o).temp_range, "R", \
	    "the temperature is T-R to T+R, by the entropy (0: off)", \
	    0, HUGE_VAL, pico_opt_real }, \
	{ 0, "temp-exponent", PICO_OPT_CALL, &(o).temp_exponent, "E", \
	    "how steeply it follows the entropy (1)", 0, 1000, pico_opt_real }, \
	{ 0, "top-k", PICO_OPT_INT, &(o).top_k, "K", \
	    "only the K best tokens; 0: all (40)", 0, 0, NULL }, \
	{ 0, "top-p", PICO_OPT_CALL, &(o).top_p, "P", \
	    "only the best with P of the probability; 1: all (0.95)", \
	    0, 1, pico_opt_real }, \
	{ 0, "min-p", PICO_OPT_CALL, &(o).min_p, "P", \
	    "only those with P times the best's probability (0.05)", \
	    0, 1, pico_opt_real }, \
	{ 0, "typical", PICO_OPT_CALL, &(o).typical, "P", \
	    "only the most typical with P of the probability (1: all)", \
	    0, 1, pico_opt_real }, \
	{ 0, "top-n-sigma", PICO_OPT_CALL, &(o).n_sigma, "N", \
	    "only N standard deviations below the best; -1: all (-1)", \
	    -1, 1e6, pico_opt_real }, \
	{ 0, "xtc", PICO_OPT_CALL, &(o).xtc, "P", \
	    "with probability P, excludes the top choices (0: off)", \
	    0, 1, pico_opt_real }, \
	{ 0, "xtc-threshold", PICO_OPT_CALL, &(o).xtc_threshold, "P", \
	    "those of this probability but the last; to 0.5 (0.1)", \
	    0, 1, pico_opt_real }, \
	{ 0, "mirostat", PICO_OPT_INT, &(o).mirostat, "V", \
	    "version 1 or 2, in place of the filters (0: off)", 0, 2, NULL }, \
	{ 0, "mirostat-tau", PICO_OPT_CALL, &(o).tau, "TAU", \
	    "the surprise it aims at, in bits (5)", 0, 1000, pico_opt_real }, \
	{ 0, "mirostat-eta", PICO_OPT_CALL, &(o).eta, "ETA", \
	    "how fast it corrects itself (0.1)", 0, 1000, pico_opt_real }, \
	{ 0, "repeat-penalty", PICO_OPT_CALL, &(o).repeat, "R", \
	    "weakens tokens seen before by this factor (1: off)", \
	    1e-6, 1e6, pico_opt_real }, \
	{ 0, "frequency-penalty", PICO_OPT_CALL, &(o).frequency, "F", \
	    "from the logit for each time it was seen (0: off)", \
	    0, 0, pico_opt_real }, \
	{ 0, "presence-penalty", PICO_OPT_CALL, &(o).presence, "F", \
	    "from the logit once, if it was seen (0: off)", 0, 0, pico_opt_real }, \
	{ 0, "repeat-last", PICO_OPT_INT, &(o).repeat_last, "N", \
	    "the penalties look at N tokens; -1: all (64)", \
	    -1, INT32_MAX, NULL }, \
	{ 0, "dry", PICO_OPT_CALL, &(o).dry, "F", \
	    "weakens what would repeat tokens before, by F (0: off)", \
	    0, 1e6, pico_opt_real }, \
	{ 0, "dry-base", PICO_OPT_CALL, &(o).dry_base, "B", \
	    "times B for each token longer than the allowed (1.75)", \
	    1, 1e6, pico_opt_real }, \
	{ 0, "dry-length", PICO_OPT_INT, &(o).dry_length, "N", \
	    "tokens that may be repeated (2)", 0, INT32_MAX, NULL }, \
	{ 0, "dry-last", PICO_OPT_INT, &(o).dry_last, "N", \
	    "it looks at N tokens; -1: all (-1)", -1, INT32_MAX, NULL }, \
	{ 0, "dry-breaker", PICO_OPT_LIST, &(o).dry_breakers, "TEXT", \
	    "ends a repetition (newline : \" *); repeatable; empty: none", \
	    0, 0, NULL }, \
	{ 0, "samplers", PICO_OPT_CALL, &(o), "LIST", \
	    "those that run, in this order, with commas between", \
	    0, 0, sampling_order }, \
	{ 0, "logit-bias", PICO_OPT_CALL, &(o), "ID=X", \
	    "adds X to the token's logit; -inf: never; repeatable", \
	    0, 0, sampling_bias }, \
	{ 0, "min-keep", PICO_OPT_INT, &(o).min_keep, "N", \
	    "the filters leave at least N tokens (0)", 0, 0, NULL }

/* For the table: ID=VALUE; names with commas between. */
pico_opt_fn sampling_bias, sampling_order;

/* Whether sampling_chain() needs a vocabulary: for the breakers of DRY. */
bool sampling_wants_vocab(const struct sampling_opts *o);
/*
 * The chain as the options want it, for a vocabulary of n_vocab tokens; the
 * breakers are those of the first v given. It borrows from *o and holds until
 * *o changes. Warns of an option whose sampler does not run. Fails if a bias
 * is for an id outside the vocabulary.
 */
int sampling_chain(struct sampling_opts *o, uint32_t n_vocab,
    const struct pico_vocab *v, struct pico_chain *chain,
    struct pico_err *err);
void sampling_free(struct sampling_opts *o);

#endif
