/* SPDX-License-Identifier: MIT */
/* From JSON schemas to GBNF text. Private to lib/sample/. */
#ifndef PICO_SCHEMA_H
#define PICO_SCHEMA_H

#include "../base/json.h"

struct schema {
	struct json j;
	char *out;		/* the grammar so far */
	size_t n_out, cap_out;
	uint32_t *queue;	/* schemas that need a rule, node numbers */
	size_t n_queue;
	bool *queued;		/* by node */
	struct pico_err *err;
	bool failed;		/* without memory: looked at in the end */
};

/* Appends text to the grammar. */
void put(struct schema *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends a bar, unless an alternative is the first one of its group. */
void put_bar(struct schema *s);
/* Appends bytes as a GBNF literal. */
void put_literal(struct schema *s, const char *p, size_t n);
/* Fails, naming where in the schema. */
int schema_bad(struct schema *s, uint32_t node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Numbers as alternatives (schema_number.c). */
int put_integer(struct schema *s, uint32_t node);
int put_number(struct schema *s, uint32_t node);

/* What is between the quotes of a string (schema_string.c). */
int put_pattern(struct schema *s, uint32_t node, struct pico_str pattern);
int put_format(struct schema *s, uint32_t node, struct pico_str format);

#endif
