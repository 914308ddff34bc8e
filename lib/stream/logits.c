/* SPDX-License-Identifier: MIT */
/* Logits streams, pico-stream(5): rows of logits, one after each token. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"

static const uint8_t magic[8] = { 0x89, 'P', 'L', 'G', 1, 0, 0, 0 };

/* More tokens than any vocabulary has; a row is then at most 64 MB. */
#define VOCAB_MAX (1u << 24)
/* Longer than any number in a text stream. */
#define WORD_MAX 64

/* ---- reading ---- */

struct pico_logits_in {
	struct input b;
	bool text;
	bool open;		/* a sequence has begun and not ended */
	bool line_end;		/* binary: to be told next; text: a `+` may
				   stand here */
	bool again;		/* the first header was read */
	uint32_t n_vocab;
	int32_t *eog;
	size_t n_eog, eog_cap;
	float *row;		/* n_vocab, grown as the first row comes in */
	size_t row_cap;
	uint64_t line;		/* text: of b.buf[b.pos], from 1 */
	uint64_t offset;	/* binary: of b.buf[b.pos] in the stream */
};

void
pico_logits_close(struct pico_logits_in *in)
{
	if (in == NULL)
		return;
	free(in->eog);
	free(in->row);
	free(in);
}

uint32_t
pico_logits_n_vocab(const struct pico_logits_in *in)
{
	return in->n_vocab;
}

const int32_t *
pico_logits_eog(const struct pico_logits_in *in, size_t *n)
{
	*n = in->n_eog;
	return in->eog;
}

static int
end_sequence(struct pico_logits_in *in, int32_t reason, int32_t *id)
{
	in->open = false;
	in->line_end = false;
	*id = reason;
	return PICO_SEQ_END;
}

/* Both forms of the header come as n_vocab and the ids. A header that comes
   again, where streams were joined, must say the same. */

static int
header_n_vocab(struct pico_logits_in *in, int64_t n, struct pico_err *err)
{
	if (n < 1 || n > VOCAB_MAX)
		return fail(err, "%s: logits stream for a vocabulary of %"
		    PRId64 " tokens, 1 to %u are supported", in->b.name, n,
		    VOCAB_MAX);
	if (in->again && (uint32_t)n != in->n_vocab)
		return fail(err, "%s: joined logits streams of different "
		    "models: vocabularies of %" PRIu32 " and %" PRId64
		    " tokens", in->b.name, in->n_vocab, n);
	in->n_vocab = (uint32_t)n;
	return 0;
}

static int
header_eog(struct pico_logits_in *in, size_t i, int64_t id,
    struct pico_err *err)
{
	if (id < 0 || id >= in->n_vocab)
		return fail(err, "%s: end-of-generation token %" PRId64
		    " is not in the vocabulary of %" PRIu32, in->b.name, id,
		    in->n_vocab);
	if (in->again) {
		if (i < in->n_eog && in->eog[i] == id)
			return 0;
		return fail(err, "%s: joined logits streams of different "
		    "models: end-of-generation tokens differ at %" PRId64,
		    in->b.name, id);
	}
	if (mem_grow(&in->eog, &in->eog_cap, i + 1, sizeof *in->eog,
	    "end-of-generation tokens", err) < 0)
		return -1;
	in->eog[i] = (int32_t)id;
	return 0;
}

static int
header_end(struct pico_logits_in *in, size_t n_eog, struct pico_err *err)
{
	if (in->again && n_eog != in->n_eog)
		return fail(err, "%s: joined logits streams of different "
		    "models: %zu and %zu end-of-generation tokens", in->b.name,
		    in->n_eog, n_eog);
	in->n_eog = n_eog;
	in->again = true;
	return 0;
}

/* ---- text ---- */

/* The next byte without taking it; -1 at the end, -2 on a fault. */
static int
peek(struct pico_logits_in *in, struct pico_err *err)
{
	int got = in->b.pos < in->b.len ? 1 : input_fill(&in->b, 1, err);

	return got > 0 ? in->b.buf[in->b.pos] : got - 1;
}

/* The bytes up to the next blank or newline, which is left, into w[WORD_MAX].
   A stream that ends before its line does was cut off. */
static int
read_word(struct pico_logits_in *in, char *w, struct pico_err *err)
{
	size_t n = 0;
	int c;

	for (;;) {
		c = peek(in, err);
		if (c < -1)
			return -1;
		if (c == -1)
			return fail(err, "%s: line %" PRIu64 " of the logits "
			    "stream is cut off", in->b.name, in->line);
		if (c == ' ' || c == '\t' || c == '\n')
			break;
		if (n == WORD_MAX - 1)
			return fail(err, "%s: line %" PRIu64 ": '%s' is not a "
			    "number", in->b.name, in->line, show(w, n));
		w[n++] = (char)c;
		in->b.pos++;
	}
	w[n] = '\0';
	return 0;
}

static int
read_int(struct pico_logits_in *in, int64_t min, int64_t max, int64_t *v,
    struct pico_err *err)
{
	struct pico_err why = {0};
	char w[WORD_MAX];

	if (read_word(in, w, err) < 0)
		return -1;
	if (pico_parse_int(w, min, max, v, &why) < 0)
		return fail(err, "%s: line %" PRIu64 ": %s", in->b.name, in->line,
		    why.msg);
	return 0;
}

/* As printf writes a float with %.9g. */
static int
read_float(struct pico_logits_in *in, float *v, struct pico_err *err)
{
	char w[WORD_MAX], *end;
	const char *magnitude = w;
	bool special;

	if (read_word(in, w, err) < 0)
		return -1;
	magnitude += w[0] == '-';
	special = strcmp(magnitude, "nan") == 0 ||
	    strcmp(magnitude, "inf") == 0;
	*v = strtof(w, &end);
	/* strtof alone would take blanks, hexadecimal and other words */
	if (!special && (w[strspn(w, "+-.0123456789eE")] != '\0' ||
	    end == w || *end != '\0' || isinf(*v)))
		return fail(err, "%s: line %" PRIu64 ": '%s' is not a logit",
		    in->b.name, in->line, show(w, strlen(w)));
	return 0;
}

/* "# n_vocab id id ..." */
static int
text_header(struct pico_logits_in *in, struct pico_err *err)
{
	size_t n = 0;
	int64_t v;
	int c;

	in->b.pos++;
	for (;;) {
		while ((c = peek(in, err)) == ' ')
			in->b.pos++;
		if (c < -1)
			return -1;
		if (c == '\n' && n > 0)
			break;
		if (read_int(in, INT32_MIN, UINT32_MAX, &v, err) < 0)
			return -1;
		if ((n == 0 ? header_n_vocab(in, v, err) :
		    header_eog(in, n - 1, v, err)) < 0)
			return -1;
		if (n++ > in->n_vocab)
			return fail(err, "%s: line %" PRIu64 ": more "
			    "end-of-generation tokens than the vocabulary has "
			    "(%" PRIu32 ")", in->b.name, in->line, in->n_vocab);
	}
	in->b.pos++;
	in->line++;
	return header_end(in, n - 1, err);
}

/* The numbers after the tab, single spaces between them. */
static int
text_row(struct pico_logits_in *in, struct pico_err *err)
{
	size_t i;
	int c = '\t';

	for (i = 0; i < in->n_vocab && c != '\n'; i++) {
		in->b.pos++;
		if (mem_grow(&in->row, &in->row_cap, i + 1, sizeof *in->row,
		    "a row of logits", err) < 0 ||
		    read_float(in, &in->row[i], err) < 0)
			return -1;
		c = in->b.buf[in->b.pos];
	}
	if (i < in->n_vocab || c != '\n')
		return fail(err, "%s: line %" PRIu64 ": %s%zu logits, "
		    "vocabulary has %" PRIu32, in->b.name, in->line,
		    c == '\n' ? "" : "more than ", i, in->n_vocab);
	return 0;
}

static int
next_text(struct pico_logits_in *in, int32_t *id, const float **logits,
    struct pico_err *err)
{
	int64_t v;
	int c;

	while ((c = peek(in, err)) == '#') {
		if (in->open)	/* the stream before had no proper end */
			return end_sequence(in, PICO_END_NONE, id);
		if (text_header(in, err) < 0)
			return -1;
	}
	if (c < -1)
		return -1;
	if (c == -1 && !in->open)
		return PICO_EOF;
	if (c == -1)
		return end_sequence(in, PICO_END_NONE, id);
	if (c == '\n') {
		in->b.pos++;
		in->line++;
		return end_sequence(in, PICO_END_NONE, id);
	}
	if (c == '+') {
		in->b.pos++;
		c = peek(in, err);
		if (c < -1)
			return -1;
		if (c != '\n' || !in->line_end)
			return fail(err, "%s: line %" PRIu64 ": '+' %s",
			    in->b.name, in->line, in->line_end ? "must stand "
			    "alone in its line" : "without a token before it");
		in->b.pos++;
		in->line++;
		in->line_end = false;
		return PICO_LINE_END;
	}
	if (read_int(in, 0, (int64_t)in->n_vocab - 1, &v, err) < 0)
		return -1;
	*id = (int32_t)v;
	c = in->b.buf[in->b.pos];
	if (c == ' ')
		return fail(err, "%s: line %" PRIu64 ": a tab must stand "
		    "between token and logits", in->b.name, in->line);
	if (c == '\t' && text_row(in, err) < 0)
		return -1;
	*logits = c == '\t' ? in->row : NULL;
	in->b.pos++;
	in->line++;
	in->open = true;
	in->line_end = true;
	return PICO_TOKEN;
}

/* ---- binary ---- */

/* n <= 8 bytes: 1; 0 if the stream ends before the first of them. */
static int
read_bytes(struct pico_logits_in *in, uint8_t *p, size_t n,
    struct pico_err *err)
{
	int got = input_fill(&in->b, n, err);

	if (got < 0)
		return -1;
	if (got == 0 && in->b.len > in->b.pos)
		return fail(err, "%s: byte %" PRIu64 ": logits stream is cut "
		    "off (%zu of %zu bytes)", in->b.name, in->offset,
		    in->b.len - in->b.pos, n);
	if (got == 0)
		return 0;
	memcpy(p, in->b.buf + in->b.pos, n);
	in->b.pos += n;
	in->offset += n;
	return 1;
}

/* What follows the magic number. */
static int
binary_header(struct pico_logits_in *in, struct pico_err *err)
{
	uint8_t b[8];
	uint32_t n_eog, i;
	int got;

	got = read_bytes(in, b, 8, err);
	if (got > 0) {
		if (header_n_vocab(in, get_u32(b), err) < 0)
			return -1;
		n_eog = get_u32(b + 4);
		if (n_eog > in->n_vocab)
			return fail(err, "%s: logits stream with %" PRIu32
			    " end-of-generation tokens, vocabulary has %"
			    PRIu32, in->b.name, n_eog, in->n_vocab);
		for (i = 0; i < n_eog && got > 0; i++) {
			got = read_bytes(in, b, 4, err);
			if (got > 0 && header_eog(in, i, (int32_t)get_u32(b),
			    err) < 0)
				return -1;
		}
	}
	if (got == 0)
		(void)fail(err, "%s: byte %" PRIu64 ": logits stream is cut "
		    "off inside its header", in->b.name, in->offset);
	return got > 0 ? header_end(in, n_eog, err) : -1;
}

static int
binary_row(struct pico_logits_in *in, int32_t id, struct pico_err *err)
{
	size_t want = (size_t)in->n_vocab * sizeof *in->row, have = 0, k;
	int got;

	while (have < want) {
		got = input_fill(&in->b, 1, err);
		if (got < 0)
			return -1;
		if (got == 0)
			return fail(err, "%s: byte %" PRIu64 ": logits of "
			    "token %" PRId32 " are cut off (%zu of %zu bytes)",
			    in->b.name, in->offset, id, have, want);
		k = MIN(in->b.len - in->b.pos, want - have);
		if (mem_grow(&in->row, &in->row_cap,
		    (have + k + sizeof *in->row - 1) / sizeof *in->row,
		    sizeof *in->row, "a row of logits", err) < 0)
			return -1;
		memcpy((char *)in->row + have, in->b.buf + in->b.pos, k);
		in->b.pos += k;
		in->offset += k;
		have += k;
	}
	return 0;
}

static int
next_binary(struct pico_logits_in *in, int32_t *id, const float **logits,
    struct pico_err *err)
{
	uint8_t b[8];
	uint64_t at;
	uint32_t flags;
	int got;

	if (in->line_end) {
		in->line_end = false;
		return PICO_LINE_END;
	}
	for (;;) {
		at = in->offset;
		got = input_fill(&in->b, sizeof b, err);
		if (got > 0 && in->open &&
		    memcmp(in->b.buf + in->b.pos, magic, sizeof magic) == 0)
			got = 0;	/* the stream before had no proper end */
		else if (got >= 0)
			got = read_bytes(in, b, sizeof b, err);
		if (got < 0)
			return -1;
		if (got == 0 && !in->open)
			return PICO_EOF;
		if (got == 0)
			return end_sequence(in, PICO_END_NONE, id);
		if (memcmp(b, magic, sizeof magic) != 0)
			break;
		if (binary_header(in, err) < 0)
			return -1;
	}
	*id = (int32_t)get_u32(b);
	flags = get_u32(b + 4);
	if (*id < PICO_END_STOP || *id >= (int64_t)in->n_vocab)
		return fail(err, "%s: byte %" PRIu64 ": %" PRId32 " is not a "
		    "token of the vocabulary of %" PRIu32 " nor the end of a "
		    "sequence (-1 to -4)", in->b.name, at, *id, in->n_vocab);
	if ((flags & ~(uint32_t)(PICO_ROW_LOGITS | PICO_ROW_LINE_END)) != 0 ||
	    (*id < 0 && flags != 0))
		return fail(err, "%s: byte %" PRIu64 ": unknown flags 0x%"
		    PRIx32, in->b.name, at + 4, flags);
	if (*id < 0)
		return end_sequence(in, *id, id);
	*logits = NULL;
	if (flags & PICO_ROW_LOGITS) {
		if (binary_row(in, *id, err) < 0)
			return -1;
		*logits = in->row;
	}
	in->open = true;
	in->line_end = (flags & PICO_ROW_LINE_END) != 0;
	return PICO_TOKEN;
}

int
pico_logits_next(struct pico_logits_in *in, int32_t *id,
    const float **logits, struct pico_err *err)
{
	return (in->text ? next_text : next_binary)(in, id, logits, err);
}

static int
start(struct pico_logits_in *in, struct pico_err *err)
{
	size_t n = sizeof magic;
	int got = input_fill(&in->b, 1, err);

	if (got < 0)
		return -1;
	if (got == 0)
		return fail(err, "%s: empty, not a logits stream", in->b.name);
	if (in->b.buf[0] == '#') {
		in->text = true;
		return text_header(in, err);
	}
	if (in->b.buf[0] == magic[0]) {
		got = input_fill(&in->b, n, err);
		if (got < 0)
			return -1;
	}
	n = MIN(in->b.len, n);
	if (n == sizeof magic && memcmp(in->b.buf, magic, n) == 0) {
		in->b.pos = n;
		in->offset = n;
		return binary_header(in, err);
	}
	if (n == sizeof magic && memcmp(in->b.buf, magic, 4) == 0)
		return fail(err, "%s: byte 4: logits stream of version %"
		    PRIu32 ", version 1 is supported", in->b.name,
		    get_u32(in->b.buf + 4));
	return fail(err, "%s: not a logits stream: it begins with '%s'",
	    in->b.name, show((const char *)in->b.buf, n));
}

struct pico_logits_in *
pico_logits_open(int fd, const char *name, struct pico_err *err)
{
	struct pico_logits_in *in = mem_new(1, sizeof *in, "logits stream",
	    err);

	if (in == NULL)
		return NULL;
	in->b.fd = fd;
	in->b.name = name;
	in->line = 1;
	if (start(in, err) == 0)
		return in;
	pico_logits_close(in);
	return NULL;
}

/* ---- writing ---- */

#define OUT_SIZE 65536

static int
put_bytes(struct pico_logits_out *out, const void *p, size_t n,
    struct pico_err *err)
{
	if (n > OUT_SIZE - out->n && pico_logits_flush(out, err) < 0)
		return -1;
	if (n > OUT_SIZE)
		return write_all(out->fd, "standard output", p, n, err);
	memcpy(out->buf + out->n, p, n);
	out->n += n;
	return 0;
}

static int
put_u32(struct pico_logits_out *out, uint32_t v, struct pico_err *err)
{
	return put_bytes(out, &v, sizeof v, err);
}

/* A separator and a whole number. */
static int
put_int(struct pico_logits_out *out, const char *before, int64_t v,
    struct pico_err *err)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%s%" PRId64, before, v);

	return put_bytes(out, text, (size_t)n, err);
}

int
pico_logits_out_open(struct pico_logits_out *out, int fd, bool text,
    uint32_t n_vocab, const int32_t *eog, size_t n_eog, struct pico_err *err)
{
	struct stat st = {0};
	size_t i;
	int r;

	*out = (struct pico_logits_out){ .fd = fd, .text = text,
	    .n_vocab = n_vocab };
	out->prompt = isatty(fd) || (fstat(fd, &st) == 0 &&
	    (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)));
	out->buf = mem_new(OUT_SIZE, 1, "logits stream", err);
	if (out->buf == NULL)
		return -1;
	if (text)
		r = put_int(out, "# ", n_vocab, err);
	else if ((r = put_bytes(out, magic, sizeof magic, err)) == 0 &&
	    (r = put_u32(out, n_vocab, err)) == 0)
		r = put_u32(out, (uint32_t)n_eog, err);
	for (i = 0; i < n_eog && r == 0; i++)
		r = text ? put_int(out, " ", eog[i], err) :
		    put_u32(out, (uint32_t)eog[i], err);
	if (r == 0 && text)
		r = put_bytes(out, "\n", 1, err);
	if (r < 0)
		pico_logits_out_close(out);
	return r;
}

void
pico_logits_out_close(struct pico_logits_out *out)
{
	free(out->buf);
	out->buf = NULL;
}

static int
put_text(struct pico_logits_out *out, int32_t id, uint32_t flags,
    const float *logits, struct pico_err *err)
{
	char text[32];
	uint32_t i;
	int n;

	if (put_int(out, "", id, err) < 0)
		return -1;
	for (i = 0; logits != NULL && i < out->n_vocab; i++) {
		n = snprintf(text, sizeof text, "%c%.9g", i == 0 ? '\t' : ' ',
		    (double)logits[i]);
		if (put_bytes(out, text, (size_t)n, err) < 0)
			return -1;
	}
	return put_bytes(out, "\n+\n", flags & PICO_ROW_LINE_END ? 3 : 1, err);
}

static int
put_binary(struct pico_logits_out *out, int32_t id, uint32_t flags,
    const float *logits, struct pico_err *err)
{
	flags &= PICO_ROW_LINE_END;
	if (logits != NULL)
		flags |= PICO_ROW_LOGITS;
	if (put_u32(out, (uint32_t)id, err) < 0 ||
	    put_u32(out, flags, err) < 0)
		return -1;
	return logits == NULL ? 0 : put_bytes(out, logits,
	    (size_t)out->n_vocab * sizeof *logits, err);
}

int
pico_logits_put(struct pico_logits_out *out, int32_t id, uint32_t flags,
    const float *logits, struct pico_err *err)
{
	if ((out->text ? put_text : put_binary)(out, id, flags, logits,
	    err) < 0)
		return -1;
	/* Nobody waits for history. */
	return out->prompt && (logits != NULL || flags != 0) ?
	    pico_logits_flush(out, err) : 0;
}

int
pico_logits_end(struct pico_logits_out *out, enum pico_reason reason,
    struct pico_err *err)
{
	int r;

	if (out->text)
		r = put_bytes(out, "\n", 1, err);
	else if ((r = put_u32(out, (uint32_t)(reason == PICO_END_NONE ?
	    PICO_END_LIMIT : reason), err)) == 0)
		r = put_u32(out, 0, err);
	return r == 0 && out->prompt ? pico_logits_flush(out, err) : r;
}

int
pico_logits_flush(struct pico_logits_out *out, struct pico_err *err)
{
	if (write_all(out->fd, "standard output", out->buf, out->n, err) < 0)
		return -1;
	out->n = 0;
	return 0;
}
