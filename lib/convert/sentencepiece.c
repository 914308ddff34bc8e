/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.model of SentencePiece: a message of Protocol Buffers, of which only
 * the fields that are needed are read. A field is a number that tells which it is
 * and of what kind, then its value.
 */
#include <inttypes.h>

#include "convert.h"

#define FILE_NAME "tokenizer.model"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct wire {
	const uint8_t *p;
	size_t n, pos;
	uint64_t at;		/* of p in the file */
	struct pico_err *err;
};

struct field {
	uint64_t number;
	unsigned kind;
	uint64_t value;		/* of a number */
	struct wire bytes;	/* of a message or string */
};

static int
cut(const struct wire *w)
{
	return fail(w->err, "'" FILE_NAME "' is no SentencePiece model, or cut "
	    "short, at byte %" PRIu64, w->at + w->pos);
}

static int
read_varint(struct wire *w, uint64_t *v)
{
	unsigned shift;
	uint8_t b;

	for (*v = 0, shift = 0; shift < 70 && w->pos < w->n; shift += 7) {
		b = w->p[w->pos++];
		*v |= shift < 64 ? (uint64_t)(b & 127) << shift : 0;
		if (b < 128)
			return 0;
	}
	return cut(w);
}

/* The next field: 1, 0 at the end, -1. */
static int
next_field(struct wire *w, struct field *f)
{
	uint64_t key;
	size_t n = 0;

	if (w->pos == w->n)
		return 0;
	if (read_varint(w, &key) < 0)
		return -1;
	f->number = key >> 3;
	f->kind = key & 7;
	f->value = 0;
	switch (f->kind) {
	case WIRE_VARINT:
		return read_varint(w, &f->value) < 0 ? -1 : 1;
	case WIRE_64:
		n = 8;
		break;
	case WIRE_BYTES:
		if (read_varint(w, &f->value) < 0)
			return -1;
		n = f->value <= w->n ? (size_t)f->value : SIZE_MAX;
		break;
	case WIRE_32:
		n = 4;
		break;
	default:
		return cut(w);
	}
	if (n > w->n - w->pos)
		return cut(w);
	f->bytes = (struct wire){ w->p + w->pos, n, 0, w->at + w->pos,
	    w->err };
	if (f->kind == WIRE_32)
		f->value = get_u32(w->p + w->pos);
	w->pos += n;
	return 1;
}

/* Field 1: text, 2: score, 3: type, whose numbers are those of GGUF. */
static int
read_piece(struct pico_convert *c, struct wire w, uint32_t id)
{
	struct pico_str text = { "", 0 };
	uint64_t type = PICO_TOK_NORMAL;
	struct field f;
	float score = 0;
	int r;

	while ((r = next_field(&w, &f)) > 0) {
		if (f.number == 1 && f.kind == WIRE_BYTES)
			text = (struct pico_str){ (const char *)f.bytes.p,
			    f.bytes.n };
		else if (f.number == 2 && f.kind == WIRE_32)
			score = get_f32(f.bytes.p);
		else if (f.number == 3 && f.kind == WIRE_VARINT)
			type = f.value;
	}
	if (r < 0)
		return -1;
	if (type < PICO_TOK_NORMAL || type > PICO_TOK_BYTE)
		return fail(w.err, "'" FILE_NAME "': piece %" PRIu32 " has the "
		    "unknown type %" PRIu64, id, type);
	if (!(score - score == 0))
		return fail(w.err, "'" FILE_NAME "': piece %" PRIu32 " has a "
		    "score that is no number", id);
	if (type == PICO_TOK_USER && unmark(&c->words, &text, w.err) < 0)
		return -1;
	return words_put(c, FILE_NAME, id, text, (int)type, score, w.err);
}

static int
read_number(struct wire w, uint64_t number, uint64_t *out)
{
	struct field f;
	int r;

	while ((r = next_field(&w, &f)) > 0)
		if (f.number == number && f.kind == WIRE_VARINT)
			*out = f.value;
	return r;
}

int
sentencepiece_read(struct pico_convert *c, const uint8_t *p, size_t n,
    bool *dummy, struct pico_err *err)
{
	struct wire w = { p, n, 0, 0, err };
	uint64_t kind = 1, prefix = 1;	/* the defaults of the format */
	bool trainer = false, normalizer = false;
	struct field f;
	uint32_t id = 0;
	int r;

	while ((r = next_field(&w, &f)) > 0) {
		if (f.kind != WIRE_BYTES)
			continue;
		trainer = trainer || f.number == 2;
		normalizer = normalizer || f.number == 3;
		if (f.number == 1)
			r = read_piece(c, f.bytes, id++);
		else if (f.number == 2)		/* model type */
			r = read_number(f.bytes, 3, &kind);
		else if (f.number == 3)		/* dummy prefix */
			r = read_number(f.bytes, 3, &prefix);
		if (r < 0)
			return -1;
	}
	if (r < 0)
		return -1;
	if (id == 0)
		return fail(err, "'" FILE_NAME "' has no pieces");
	/* behind the pieces: a file cut between two of those has neither */
	if (!trainer || !normalizer)
		return fail(err, "'" FILE_NAME "' has no %s after %" PRIu32
		    " pieces: it is cut short", trainer ? "normalizer" :
		    "trainer", id);
	if (kind != 1 && kind != 2)
		return fail(err, "'" FILE_NAME "' is of model type %" PRIu64
		    ", only unigram (1) and BPE (2) can be converted", kind);
	*dummy = prefix != 0;
	return 0;
}
