/* SPDX-License-Identifier: MIT */
/* The parts of pico-inspect. */
#ifndef PICO_INSPECT_H
#define PICO_INSPECT_H

#include "cmd.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* How to show things; set once from the options. */
extern struct view {
	bool all;		/* whole strings and arrays */
	bool json;
} view;

/* Reports a fault of a file and returns the exit status. */
int fault(const char *path, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- inspect-value.c ---- */

#define SHORT_ARRAY 8	/* elements shown without -a */
#define SHORT_TEXT 100	/* bytes shown without -a */

struct pico_str str_of(const char *text);
struct pico_str kv_str(const struct pico_kv *kv);
/* Escaped; at most `most` bytes of it, and then how many there are. */
void put_text(struct pico_str s, size_t most);
void json_str(struct pico_str s);
void put_real(double v, int digits);
/* A scalar that is no string, or element i of an array of such. */
void put_number(const struct pico_kv *kv, uint64_t i);
void put_array(const struct pico_kv *top, uint64_t most);
/* "u32", "str[291]" */
void put_type(const struct pico_kv *kv);
void put_value(const struct pico_kv *kv, bool whole);
/* "32x291" */
void put_shape(const struct pico_tensor *t);
uint64_t elements(const struct pico_tensor *t);
/* The other files of a set repeat the split keys only. */
bool is_shown(const struct pico_kv *kv);

/* ---- inspect-list.c ---- */

void list(const struct pico_gguf *g);
void list_diffable(const struct pico_gguf *g);
void list_offsets(const struct pico_gguf *g);
int list_vocab(const struct pico_gguf *g, const char *path);
/* The value of one key, raw. */
int put_key(const struct pico_gguf *g, const char *path, const char *key);

/* ---- inspect-plan.c ---- */

/* Lines of the summary: whether it runs here and what it needs then. */
void put_needs(const struct pico_gguf *g);
/* What a run with these parameters needs, in bytes. */
int put_plan(const struct pico_gguf *g, const char *path,
    const struct pico_ctx_params *params);

/* ---- inspect-json.c ---- */

/* One object; `error` is why it is not all, or NULL. */
void list_json(const struct pico_gguf *g, const char *error);

/* ---- inspect-data.c ---- */

/* A tensor's values as float32, or its bytes as they are. */
int put_data(const struct pico_gguf *g, const char *path, const char *tensor,
    bool raw);
/* Statistics, or with `check` the faults, of the tensors named, or of all. */
int examine(const struct pico_gguf *g, const char *path, bool check,
    char **names, int n_names);

#endif
