/* SPDX-License-Identifier: MIT */
/* Sequences of token ids from the operands, one after the other. */
#ifndef PICO_LINES_H
#define PICO_LINES_H

#include "cmd.h"

struct lines {
	char **operands;	/* NULL-terminated; none: standard input */
	int next;		/* the operand to be opened next */
	int fd;
	const char *name;
	struct pico_tokens_in *in;	/* NULL: none is open */
	int32_t *ids;		/* the sequence: n ids, borrowed */
	size_t n, cap;
	enum pico_reason reason;	/* why it ended, as far as told */
	uint64_t number;	/* of it in its file, from 1 */
};

/* operands: the rest of argv. */
void lines_open(struct lines *l, char **operands);
void lines_close(struct lines *l);
/* Reads the next sequence: 1, or 0 after the last. -1 and *err on a fault,
   where the message says in which file and line. */
int lines_next(struct lines *l, struct pico_err *err);
/* Whether lines_next() would not have to wait for somebody. */
bool lines_ready(const struct lines *l);
/* After a fault: goes on behind it. False if that cannot be done. */
bool lines_recover(struct lines *l);
/* Puts "line N: " (with the file, if there are several) before a message. */
void lines_blame(const struct lines *l, struct pico_err *err);

#endif
