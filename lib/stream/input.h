/* SPDX-License-Identifier: MIT */
/* Buffered reading that never waits for more than is needed. */
#ifndef PICO_STREAM_INPUT_H
#define PICO_STREAM_INPUT_H

#include "../base/base.h"

struct input {
	int fd;
	const char *name;	/* for messages */
	size_t pos, len;	/* buf[pos..len) has been read, not used */
	uint8_t buf[65536];
};

/* Makes `want` bytes available at buf + pos, if the stream has so many: 1;
   0 if it ends before, -1 if reading fails. */
static inline int
input_fill(struct input *in, size_t want, struct pico_err *err)
{
	int64_t k;

	if (in->len - in->pos >= want)
		return 1;
	memmove(in->buf, in->buf + in->pos, in->len - in->pos);
	in->len -= in->pos;
	in->pos = 0;
	while (in->len < want) {
		k = read_some(in->fd, in->name, in->buf + in->len,
		    sizeof in->buf - in->len, err);
		if (k <= 0)
			return (int)k;
		in->len += (size_t)k;
	}
	return 1;
}

#endif
