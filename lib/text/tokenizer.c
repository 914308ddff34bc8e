/* SPDX-License-Identifier: MIT */
/*
 * Text to tokens: special tokens are cut out first, and what lies between them
 * goes to the kind of tokenizer that the vocabulary is for.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "text.h"

struct pico_tokenizer {
	const struct pico_vocab *v;
	const struct kind *kind;
	void *state;			/* of the kind */
	struct special_set user, all;	/* without and with control tokens */
	struct special_scan scan;
	uint8_t *framed;		/* by id, for a text with a frame */
	/* the text at hand */
	unsigned flags;
	bool begun;			/* BOS was dealt with */
	bool fresh, prefix;		/* as in struct job */
};

int
job_emit(struct job *j, int32_t id)
{
	struct pico_ids *out = j->out;
	size_t cap = out->cap;

	if (mem_grow(&out->v, &out->cap, out->n + 1, sizeof *out->v, "tokens",
	    j->err) < 0)
		return -1;
	if (out->end != NULL) {
		/* `end` has the room of the ids. */
		if (cap != out->cap) {
			size_t *end = realloc(out->end,
			    out->cap * sizeof *out->end);

			if (end == NULL) {
				(void)fail(j->err, "token offsets: no memory "
				    "for %zu bytes",
				    out->cap * sizeof *out->end);
				out->cap = cap;
				return -1;
			}
			out->end = end;
		}
		out->end[out->n] = j->used;
	}
	out->v[out->n++] = id;
	return 0;
}

bool
job_may_emit(const struct job *j, int32_t id, size_t from, size_t to)
{
	return j->content == NULL || (!vocab_is_control(j->v, id) &&
	    (j->framed == NULL || j->framed[id] == 0)) ||
	    !has_content(j->content, from, to);
}

int
job_emit_unknown(struct job *j, size_t from, unsigned char byte)
{
	int32_t id = j->v->special.unk;

	if (id < 0)
		return fail(j->err, "the vocabulary has no token for byte "
		    "0x%02x, nor an unknown token", (unsigned)byte);
	/* It may be of any type, but must not mean something else, too. */
	if ((id == j->v->special.bos || pico_vocab_is_eog(j->v, id)) &&
	    has_content(j->content, from, j->used))
		return fail(j->err, "the vocabulary has no token for byte "
		    "0x%02x of a message, and its unknown token, '%s', begins "
		    "or ends a text", (unsigned)byte,
		    show_str(pico_vocab_text(j->v, id)));
	return job_emit(j, id);
}

/* ---- a text ---- */

/* EOS, or the separator that stands in its place. */
static int32_t
last_id(const struct pico_special *s)
{
	return s->add_sep && !s->add_eos ? s->sep : s->eos;
}

void
pico_tokenize_begin(struct pico_tokenizer *t, unsigned flags)
{
	t->flags = flags;
	t->begun = false;
	t->fresh = true;
	t->prefix = t->v->space_first && !(flags & PICO_CONTINUED);
}

/* BOS. */
static int
begin(struct pico_tokenizer *t, struct job *j)
{
	const struct pico_special *s = &t->v->special;

	if ((t->flags & PICO_ADD_BOS) && s->bos < 0)
		return fail(j->err, "the model has no BOS token");
	if ((t->flags & PICO_ADD_EOS) && last_id(s) < 0)
		return fail(j->err, "the model has no EOS token");
	t->begun = true;
	return t->flags & PICO_ADD_BOS ? job_emit(j, s->bos) : 0;
}

/* Text without special tokens. */
static int
run(struct pico_tokenizer *t, struct job *j, size_t end, bool open)
{
	return j->used < end ? t->kind->run(t->state, j, end, open) : 0;
}

/* pico_tokenize_part() of a text in which some bytes may be content. */
static int
tokenize(struct pico_tokenizer *t, const char *text, size_t n,
    const uint8_t *content, bool last, size_t *used, struct pico_ids *out,
    struct pico_err *err)
{
	struct job j = { .v = t->v, .text = text, .content = content,
	    .framed = content != NULL ? t->framed : NULL, .fresh = t->fresh, .prefix = t->prefix, .out = out, .err = err };
	struct special_hit hit;
	int got;

	if (n > TEXT_MAX)
		return fail(err, "text has %zu bytes, at most %d are "
		    "supported", n, TEXT_MAX);
	if (!t->begun && begin(t, &j) < 0)
		return -1;
	special_begin(&t->scan, t->flags & PICO_PARSE_SPECIAL ? &t->all :
	    &t->user, text, n, !last);
	t->scan.content = content;
	t->scan.framed = j.framed;
	while ((got = special_next(&t->scan, &hit, err)) > 0) {
		if (run(t, &j, hit.start, false) < 0)
			return -1;
		j.used = hit.end;
		j.fresh = true;
		j.prefix = t->v->space_first;
		if (job_emit(&j, hit.what->id) < 0)
			return -1;
	}
	if (got < 0 || run(t, &j, last ? n : t->scan.pos, !last) < 0)
		return -1;
	t->fresh = j.fresh;
	t->prefix = j.prefix;
	if (last)
		j.used = n;
	*used = j.used;
	return last && (t->flags & PICO_ADD_EOS) ?
	    job_emit(&j, last_id(&t->v->special)) : 0;
}

int
pico_tokenize_part(struct pico_tokenizer *t, const char *text, size_t n,
    bool last, size_t *used, struct pico_ids *out, struct pico_err *err)
{
	return tokenize(t, text, n, NULL, last, used, out, err);
}

/* Marks the user-defined tokens that the frame has, other than white space. */
static int
find_framed(struct pico_tokenizer *t, const char *text, size_t n,
    const uint8_t *content, struct pico_err *err)
{
	struct special_hit hit;
	int got;

	special_begin(&t->scan, &t->user, text, n, false);
	while ((got = special_next(&t->scan, &hit, err)) > 0) {
		struct pico_str mark = hit.what->text;
		size_t at = hit.what->lstrip ? hit.end - mark.n : hit.start, i;

		for (i = 0; i < mark.n && memchr(" \t\r\n", mark.p[i], 4); i++)
			;
		t->framed[hit.what->id] |= i < mark.n &&
		    !has_content(content, at, at + mark.n);
	}
	return got;
}

int
tokenize_chat(struct pico_tokenizer *t, const struct pico_chat_text *s,
    unsigned flags, struct pico_ids *out, struct pico_err *err)
{
	size_t used;

	if (s->content != NULL) {
		if (t->framed == NULL)
			t->framed = mem_new((size_t)t->v->n, 1,
			    "tokenizer: tokens of the frame", err);
		if (t->framed == NULL)
			return -1;
		memset(t->framed, 0, (size_t)t->v->n);
		if (find_framed(t, s->frame.p, s->frame.n, NULL, err) < 0 ||
		    find_framed(t, s->text, s->n, s->content, err) < 0)
			return -1;
	}
	pico_tokenize_begin(t, flags);
	return tokenize(t, s->text, s->n, s->content, true, &used, out, err);
}

int
pico_tokenize_framed(struct pico_tokenizer *t, const char *text, size_t n,
    const uint8_t *content, unsigned flags, struct pico_ids *out,
    struct pico_err *err)
{
	struct pico_chat_text s = { .text = text, .content = content, .n = n };

	return tokenize_chat(t, &s, flags, out, err);
}

int
pico_tokenize(struct pico_tokenizer *t, const char *text, size_t n,
    unsigned flags, struct pico_ids *out, struct pico_err *err)
{
	return pico_tokenize_framed(t, text, n, NULL, flags, out, err);
}

unsigned
pico_tokenizer_default_flags(const struct pico_vocab *v)
{
	const struct pico_special *s = &v->special;

	return (s->add_bos ? PICO_ADD_BOS : 0u) |
	    ((s->add_eos && s->eos >= 0) || s->add_sep ? PICO_ADD_EOS : 0u);
}

/* ---- making one ---- */

struct pico_tokenizer *
pico_tokenizer_new(const struct pico_vocab *v, struct pico_err *err)
{
	static const struct kind *const kinds[] = {
		[VOCAB_SPM] = &kind_spm,
		[VOCAB_BPE] = &kind_bytelevel,
		[VOCAB_LINES] = &kind_spm,
		[VOCAB_WORDPIECE] = &kind_wordpiece,
		[VOCAB_UNIGRAM] = &kind_unigram,
		[VOCAB_RWKV] = &kind_rwkv
	};
	struct pico_tokenizer *t;

	if (v->kind == VOCAB_NONE) {
		(void)fail(err, "the model has no tokenizer "
		    "(tokenizer.ggml.model is '%s')", show_str(v->kind_name));
		return NULL;
	}
	t = mem_new(1, sizeof *t, "tokenizer", err);
	if (t == NULL)
		return NULL;
	t->v = v;
	t->kind = kinds[v->kind];
	t->state = t->kind->make(v, err);
	if (t->state == NULL ||
	    special_set_init(&t->user, v, false, err) < 0 ||
	    special_set_init(&t->all, v, true, err) < 0) {
		pico_tokenizer_free(t);
		return NULL;
	}
	return t;
}

void
pico_tokenizer_free(struct pico_tokenizer *t)
{
	if (t == NULL)
		return;
	if (t->state != NULL)
		t->kind->free(t->state);
	special_set_free(&t->user);
	special_set_free(&t->all);
	special_scan_free(&t->scan);
	free(t->framed);
	free(t);
}
