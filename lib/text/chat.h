/* SPDX-License-Identifier: MIT */
/* The built-in layouts. */
#ifndef PICO_CHAT_H
#define PICO_CHAT_H

#include <stddef.h>

/* A template as one would write it for a model. */
struct layout {
	const char *name, *text;
};
extern const struct layout chat_layouts[];
extern const size_t chat_n_layouts;

#endif
