/* SPDX-License-Identifier: MIT */
/* The built-in layouts, and tokens of what a template makes. */
#ifndef PICO_CHAT_H
#define PICO_CHAT_H

#include "../pico.h"

/* A template as one would write it for a model. */
struct layout {
	const char *name, *text;
};
extern const struct layout chat_layouts[];
extern const size_t chat_n_layouts;

/*
 * pico_tokenize_framed() of a chat. User-defined tokens are found in all text, but
 * some vocabularies have their marks of turns among them: those that the template
 * or what it wrote has are not made of words. White space is no such mark.
 */
int tokenize_chat(struct pico_tokenizer *t, const struct pico_chat_text *s,
    unsigned flags, struct pico_ids *out, struct pico_err *err);

#endif
