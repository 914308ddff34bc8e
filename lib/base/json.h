/* SPDX-License-Identifier: MIT */
/* JSON text as a tree in one array. Private to lib/. */
#ifndef PICO_JSON_H
#define PICO_JSON_H

#include "base.h"

enum json_kind {
	JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY,
	JSON_OBJECT
};

#define JSON_NONE UINT32_MAX

struct json_node {
	enum json_kind kind;
	struct pico_str key;	/* in an object; decoded */
	struct pico_str text;	/* of a string: decoded; else as written */
	uint32_t parent, first, next;	/* JSON_NONE: none */
};

/* node[0] is the whole; parents come before what they hold. */
struct json {
	struct json_node *node;
	size_t n, cap;
	char *strings;
	uint32_t *slot;		/* of json_index() */
	size_t slot_mask;
};

/* Strict (RFC 8259), with line and column in errors; `text` must stay. */
int json_read(struct json *j, const char *text, size_t n,
    struct pico_err *err);
/* The same; too many levels or values are a fault of the text. */
struct json_limits {
	uint32_t depth, nodes;
};
int json_read_limited(struct json *j, const char *text, size_t n,
    struct json_limits limits, struct pico_err *err);
void json_free(struct json *j);
/* Fails if an object has the same key twice. After it json_find() tells the
   value of a key, or JSON_NONE, however many there are. */
int json_index(struct json *j, struct pico_err *err);
uint32_t json_find(const struct json *j, uint32_t object, struct pico_str key);
/* The value of a key, of several equal ones the last; JSON_NONE. */
uint32_t json_get(const struct json *j, uint32_t object, const char *key);

#endif
