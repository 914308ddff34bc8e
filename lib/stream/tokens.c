/* SPDX-License-Identifier: MIT */
/* Token streams, pico-stream(5): decimal ids in lines, or int32 in binary. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"

static const uint8_t header[8] = { 0x89, 'P', 'T', 'K', 1, 0, 0, 0 };

/* ---- reading ---- */

struct pico_tokens_in {
	struct input b;
	enum { FORM_UNKNOWN, FORM_TEXT, FORM_BINARY } form;
	bool ended;		/* a terminal is not asked again */
	bool open;		/* a sequence has begun and not ended */
	uint64_t line;		/* sequence being read, from 1 */
	uint64_t column;	/* text: of b.buf[b.pos], from 1 */
	uint64_t offset;	/* binary: of b.buf[b.pos] in the stream */
	uint64_t token_at;	/* column or offset of the last token */
};

struct pico_tokens_in *
pico_tokens_open(int fd, const char *name, struct pico_err *err)
{
	struct pico_tokens_in *in = mem_new(1, sizeof *in, "token stream", err);

	if (in == NULL)
		return NULL;
	in->b.fd = fd;
	in->b.name = name;
	in->line = 1;
	in->column = 1;
	return in;
}

void
pico_tokens_close(struct pico_tokens_in *in)
{
	free(in);
}

uint64_t
pico_tokens_line(const struct pico_tokens_in *in)
{
	return in->line;
}

int
pico_tokens_place(const struct pico_tokens_in *in, char *out, size_t size)
{
	return in->form == FORM_BINARY ?
	    snprintf(out, size, "%s: byte %" PRIu64, in->b.name, in->token_at) :
	    snprintf(out, size, "%s: line %" PRIu64 ", column %" PRIu64,
	    in->b.name, in->line, in->token_at);
}

static int
end_sequence(struct pico_tokens_in *in)
{
	in->open = false;
	in->line++;
	in->column = 1;
	return PICO_SEQ_END;
}

/* Blanks; a carriage return too, so that lines may end in CR LF. */
static bool
is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* What stands at the fault up to a blank, as far as it has been read; `head`
   are the digits before it. */
static int
not_an_id(struct pico_tokens_in *in, const char *head, size_t n_head,
    struct pico_err *err)
{
	char word[64];
	size_t n = n_head;

	memcpy(word, head, n);
	while (n < sizeof word && in->b.pos < in->b.len &&
	    !is_blank(in->b.buf[in->b.pos]) && in->b.buf[in->b.pos] != '\n')
		word[n++] = (char)in->b.buf[in->b.pos++];
	return fail(err, "%s: line %" PRIu64 ", column %" PRIu64
	    ": '%s' is not a token id (a whole number up to 2147483647)",
	    in->b.name, in->line, in->column, show(word, n));
}

static int
next_text(struct pico_tokens_in *in, int32_t *value, struct pico_err *err)
{
	char word[48];
	size_t n = 0;		/* bytes of the id so far */
	uint32_t id = 0;
	int got;

	for (;;) {
		uint8_t c;

		got = input_fill(&in->b, 1, err);
		if (got < 0)
			return -1;
		c = got > 0 ? in->b.buf[in->b.pos] : '\n';
		if (c == '\n' || is_blank(c)) {
			if (n > 0) {
				in->token_at = in->column;
				in->column += n;
				*value = (int32_t)id;
				return PICO_TOKEN;
			}
			if (got == 0 && !in->open)
				return PICO_EOF;
			in->b.pos += (size_t)got;
			if (c == '\n') {
				*value = PICO_END_NONE;
				return end_sequence(in);
			}
			in->open = true;
			in->column++;
			continue;
		}
		if (c < '0' || c > '9' ||
		    id > (INT32_MAX - (uint32_t)(c - '0')) / 10)
			return not_an_id(in, word, MIN(n, sizeof word), err);
		id = id * 10 + (uint32_t)(c - '0');
		if (n < sizeof word)
			word[n] = (char)c;
		n++;
		in->b.pos++;
		in->open = true;
	}
}

/* One int32; 0 at the end of the stream. */
static int
read_i32(struct pico_tokens_in *in, int32_t *v, struct pico_err *err)
{
	int got = input_fill(&in->b, 4, err);

	if (got < 0)
		return -1;
	if (got == 0 && in->b.len > in->b.pos)
		return fail(err, "%s: byte %" PRIu64 ": token stream is cut off "
		    "inside an id (%zu of 4 bytes)", in->b.name, in->offset,
		    in->b.len - in->b.pos);
	if (got == 0)
		return 0;
	*v = (int32_t)get_u32(in->b.buf + in->b.pos);
	in->b.pos += 4;
	in->offset += 4;
	return 1;
}

static int
next_binary(struct pico_tokens_in *in, int32_t *value, struct pico_err *err)
{
	uint64_t at;
	int32_t v;
	int got;

	for (;;) {
		at = in->offset;
		got = read_i32(in, &v, err);
		if (got < 0)
			return -1;
		if (got == 0) {
			if (!in->open)
				return PICO_EOF;
			*value = PICO_END_NONE;
			return end_sequence(in);
		}
		if ((uint32_t)v != get_u32(header))
			break;
		/* A header again, where streams were joined. */
		got = read_i32(in, &v, err);
		if (got < 0)
			return -1;
		if (got == 0)
			return fail(err, "%s: byte %" PRIu64 ": token stream "
			    "is cut off inside its header", in->b.name, at);
		if (v != 1)
			return fail(err, "%s: byte %" PRIu64 ": token stream "
			    "of version %" PRId32 ", version 1 is supported",
			    in->b.name, at + 4, v);
	}
	*value = v;
	in->token_at = at;
	if (v >= 0) {
		in->open = true;
		return PICO_TOKEN;
	}
	if (v < PICO_END_STOP)
		return fail(err, "%s: byte %" PRIu64 ": %" PRId32 " is not a "
		    "token id nor the end of a sequence (-1 to -4)", in->b.name,
		    at, v);
	return end_sequence(in);
}

int
pico_tokens_next(struct pico_tokens_in *in, int32_t *value,
    struct pico_err *err)
{
	int got;

	if (in->form == FORM_UNKNOWN) {
		got = input_fill(&in->b, 1, err);
		if (got <= 0)
			return got;	/* nothing: no sequences */
		in->form = in->b.buf[in->b.pos] != header[0] ? FORM_TEXT :
		    FORM_BINARY;
	}
	if (in->form == FORM_TEXT)
		return next_text(in, value, err);
	if (in->offset == 0) {
		got = input_fill(&in->b, sizeof header, err);
		if (got < 0)
			return -1;
		/* The version is judged where headers are read. */
		if (memcmp(in->b.buf + in->b.pos, header,
		    MIN(in->b.len - in->b.pos, (size_t)4)) != 0 || got == 0)
			return fail(err, "%s: byte 0: not a token stream "
			    "(it begins with '%s')", in->b.name,
			    show((char *)in->b.buf + in->b.pos,
			    MIN(in->b.len - in->b.pos, sizeof header)));
	}
	return next_binary(in, value, err);
}

bool
pico_tokens_buffered(const struct pico_tokens_in *in)
{
	const uint8_t *p = in->b.buf + in->b.pos, *end = in->b.buf + in->b.len;

	if (in->form == FORM_BINARY)	/* a header is no event by itself */
		return end - p >= 4 && (get_u32(p) != get_u32(header) ||
		    end - p >= (ptrdiff_t)sizeof header + 4);
	/* the blank that told the end of the last id may still be there */
	while (p < end && is_blank(*p))
		p++;
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p < end;
}

bool
pico_tokens_ready(const struct pico_tokens_in *in)
{
	struct pollfd p = { .fd = in->b.fd, .events = POLLIN };

	return pico_tokens_buffered(in) || in->ended || poll(&p, 1, 0) > 0;
}

bool
pico_tokens_recover(struct pico_tokens_in *in)
{
	uint8_t c;

	if (in->form != FORM_TEXT)
		return false;
	do {
		if (input_fill(&in->b, 1, NULL) <= 0) {
			in->open = false;
			return true;
		}
		c = in->b.buf[in->b.pos++];
	} while (c != '\n');
	(void)end_sequence(in);
	return true;
}

/* ---- writing ---- */

static const char out_name[] = "standard output";

void
pico_tokens_out_init(struct pico_tokens_out *out, int fd, bool binary)
{
	struct stat st = {0};

	out->fd = fd;
	out->binary = binary;
	out->started = false;
	out->n = 0;
	out->prompt = isatty(fd) || (fstat(fd, &st) == 0 &&
	    (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)));
}

static int
put_bytes(struct pico_tokens_out *out, const void *p, size_t n,
    struct pico_err *err)
{
	if (n > sizeof out->buf - out->n) {
		if (write_all(out->fd, out_name, out->buf, out->n, err) < 0)
			return -1;
		out->n = 0;
	}
	memcpy(out->buf + out->n, p, n);
	out->n += n;
	return 0;
}

static int
put_i32(struct pico_tokens_out *out, int32_t v, struct pico_err *err)
{
	if (!out->started && put_bytes(out, header, sizeof header, err) < 0)
		return -1;
	out->started = true;
	return put_bytes(out, &v, sizeof v, err);
}

int
pico_tokens_put(struct pico_tokens_out *out, int32_t id, struct pico_err *err)
{
	char text[16];
	int n;

	if (id < 0)
		return fail(err, "%" PRId32 " is not a token id", id);
	if (out->binary) {
		if (put_i32(out, id, err) < 0)
			return -1;
	} else {
		n = snprintf(text, sizeof text, out->started ? " %" PRId32 :
		    "%" PRId32, id);
		if (put_bytes(out, text, (size_t)n, err) < 0)
			return -1;
		out->started = true;
	}
	return out->prompt ? pico_tokens_flush(out, err) : 0;
}

int
pico_tokens_end(struct pico_tokens_out *out, enum pico_reason reason,
    struct pico_err *err)
{
	if (out->binary) {
		if (put_i32(out, reason == PICO_END_NONE ? PICO_END_LIMIT :
		    (int32_t)reason, err) < 0)
			return -1;
	} else {
		if (put_bytes(out, "\n", 1, err) < 0)
			return -1;
		out->started = false;
	}
	return out->prompt ? pico_tokens_flush(out, err) : 0;
}

int
pico_tokens_flush(struct pico_tokens_out *out, struct pico_err *err)
{
	if (out->binary && !out->started) {
		if (put_bytes(out, header, sizeof header, err) < 0)
			return -1;
		out->started = true;
	}
	if (write_all(out->fd, out_name, out->buf, out->n, err) < 0)
		return -1;
	out->n = 0;
	return 0;
}
