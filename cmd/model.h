/* SPDX-License-Identifier: MIT */
/* Opening a model by the options, and the report of -v. */
#ifndef PICO_CMD_MODEL_H
#define PICO_CMD_MODEL_H

#include "cmd.h"

struct model_opts {
	const char *model, *kv_file;
	int64_t n_ctx, n_threads, chunk;
	enum pico_kv_kind kv;
	uint64_t memory;	/* 0: not told */
	bool verbose;
	bool writes;		/* files are made by name, besides kv_file */
};

/* What decides about sizes. */
#define SIZE_OPTIONS(o) \
	{ 'c', "context", PICO_OPT_INT, &(o).n_ctx, "N", \
	    "positions of a sequence (the model's, at most 4096)", \
	    1, INT32_MAX, NULL }, \
	{ 0, "chunk", PICO_OPT_INT, &(o).chunk, "N", \
	    "prompt tokens in one pass (512)", 1, 1 << 20, NULL }, \
	{ 0, "kv-type", PICO_OPT_CALL, &(o).kv, "TYPE", \
	    "of the KV cache: f16, f32 or q8_0 (f16)", 0, 0, model_kv_type }, \
	{ 0, "memory", PICO_OPT_CALL, &(o).memory, "SIZE", \
	    "that may be used, or max ($PICO_MEMORY, or what there is)", \
	    0, 0, model_memory }

#define RUN_OPTIONS(o) \
	{ 'm', "model", PICO_OPT_TEXT, &(o).model, "FILE", \
	    "the model ($PICO_MODEL, or the installed one)", 0, 0, NULL }, \
	{ 't', "threads", PICO_OPT_INT, &(o).n_threads, "N", \
	    "threads (as many as there are cores to use)", 1, 4096, NULL }, \
	SIZE_OPTIONS(o), \
	{ 'v', "verbose", PICO_OPT_FLAG, &(o).verbose, NULL, \
	    "sizes, speeds and memory on stderr", 0, 0, NULL }

#define MODEL_OPTIONS(o) \
	{ 0, "kv", PICO_OPT_TEXT, &(o).kv_file, "FILE", \
	    "load the KV cache if there, save it at the end", 0, 0, NULL }, \
	RUN_OPTIONS(o)

/* What the options and $PICO_MEMORY ask for; exits 2 if that has a fault. */
struct pico_ctx_params model_params(const struct model_opts *o,
    uint32_t n_seq);

/* For the table. */
pico_opt_fn model_kv_type, model_memory;

struct running {
	const struct model_opts *o;
	struct pico_gguf *gguf;
	struct pico_vocab *vocab;
	struct pico_model *model;
	struct pico_ctx *ctx;
	uint64_t disk;		/* bytes read before it was opened */
};

/* Opens all; exits on a failure. */
void running_open(struct running *r, const struct model_opts *o,
    uint32_t n_seq);
void running_close(struct running *r);
/* Loads and saves the cache of sequence 0, if --kv was given; exits on a
   failure. */
void running_load(struct running *r);
void running_save(struct running *r);
/* "name:\tN tokens, S s, R tok/s"; the rate is that of the `timed` ones. */
void report_rate(const char *name, uint64_t tokens, uint64_t timed,
    double seconds);
/* Memory, disk and kernels. */
void running_report(const struct running *r, uint64_t passes);

#endif
