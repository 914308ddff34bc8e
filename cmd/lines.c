/* SPDX-License-Identifier: MIT */
#include "lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
lines_open(struct lines *l, char **operands)
{
	*l = (struct lines){ .operands = operands, .fd = -1 };
}

static void
close_input(struct lines *l)
{
	pico_tokens_close(l->in);
	l->in = NULL;
	if (l->fd > STDIN_FILENO)
		(void)close(l->fd);
	l->fd = -1;
}

void
lines_close(struct lines *l)
{
	close_input(l);
	free(l->ids);
	l->ids = NULL;
}

/* 1, or 0 if there are no more operands. */
static int
open_next(struct lines *l, struct pico_err *err)
{
	static char *const only_stdin[] = { (char *)"-", NULL };

	if (l->operands[0] == NULL)
		l->operands = (char **)only_stdin;
	if (l->operands[l->next] == NULL)
		return 0;
	l->fd = cmd_open(l->operands[l->next++], &l->name);
	l->in = pico_tokens_open(l->fd, l->name, err);
	return l->in != NULL ? 1 : -1;
}

static int
append(struct lines *l, int32_t id, struct pico_err *err)
{
	size_t cap = l->cap > 0 ? l->cap * 2 : 1024;
	int32_t *v;

	if (l->n == l->cap) {
		v = realloc(l->ids, cap * sizeof *v);
		if (v == NULL) {
			return pico_fail(err, PICO_ERROR, "no memory for %zu token ids", cap);
		}
		l->ids = v;
		l->cap = cap;
	}
	l->ids[l->n++] = id;
	return 0;
}

int
lines_next(struct lines *l, struct pico_err *err)
{
	int32_t value;
	int r;

	l->n = 0;
	for (;;) {
		if (l->in == NULL && (r = open_next(l, err)) <= 0)
			return r;
		l->number = pico_tokens_line(l->in);
		while ((r = pico_tokens_next(l->in, &value, err)) ==
		    PICO_TOKEN)
			if (append(l, value, err) < 0)
				return -1;
		if (r < 0)
			return -1;
		if (r == PICO_SEQ_END) {
			l->reason = (enum pico_reason)value;
			return 1;
		}
		close_input(l);
	}
}

bool
lines_ready(const struct lines *l)
{
	return l->in == NULL || pico_tokens_ready(l->in);
}

bool
lines_recover(struct lines *l)
{
	return l->in != NULL && pico_tokens_recover(l->in);
}

void
lines_blame(const struct lines *l, struct pico_err *err)
{
	bool several = l->operands[0] != NULL && l->operands[1] != NULL;
	struct pico_err new = { .status = err->status };

	(void)snprintf(new.msg, sizeof new.msg, "%s%sline %llu: %.400s",
	    several ? l->name : "", several ? ": " : "",
	    (unsigned long long)l->number, err->msg);
	*err = new;
}
