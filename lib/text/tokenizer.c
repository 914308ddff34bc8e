/* SPDX-License-Identifier: MIT */
/*
 * Text to tokens: special tokens are cut out first, and what lies between them
 * goes, piece by piece, through the merges of the vocabulary.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Positions are 32 bits wide, and a space may become three bytes. */
#define TEXT_MAX (INT32_MAX / 3)

struct pico_tokenizer {
	const struct pico_vocab *v;
	struct index index;
	struct bpe bpe;
	struct special_set user, all;	/* without and with control tokens */
	struct special_scan scan;
	int32_t byte_id[256];		/* -1: none */
	bool joins_mark[256];		/* VOCAB_SPM: some token has this byte
					   in front of a space mark */
	/* VOCAB_BPE: characters of the text between special tokens */
	uint32_t *cp;
	size_t cap_cp;
	uint16_t *set;
	size_t cap_set;
	bool *start;
	size_t cap_start;
};

/* What pico_tokenize() works on. */
struct job {
	struct pico_tokenizer *t;
	const char *text;
	size_t used;		/* bytes of text up to the last token */
	bool framed;		/* some of it is content */
	struct pico_ids *out;
	struct pico_err *err;
};

static int
emit(struct job *j, int32_t id)
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
				out->cap = cap;
				return fail(j->err, "token offsets: no memory "
				    "for %zu bytes",
				    out->cap * sizeof *out->end);
			}
			out->end = end;
		}
		out->end[out->n] = j->used;
	}
	out->v[out->n++] = id;
	return 0;
}

/* Whether merging may give a token. Where frame and content are told apart,
   special tokens of the frame are found before; what merges into another one
   holds content. */
static bool
allowed(const struct job *j, int32_t id)
{
	const struct pico_vocab *v = j->t->v;

	return !j->framed || (v->type[id] != PICO_TOK_CONTROL &&
	    v->type[id] != PICO_TOK_UNKNOWN && !pico_vocab_is_eog(v, id));
}

/* ---- VOCAB_SPM ---- */

/* The symbol's token, else those of its bytes; moves `used` on over `len`
   bytes of normalized text. */
static int
emit_spm(struct job *j, const struct symbol *s, size_t *norm)
{
	struct pico_tokenizer *t = j->t;
	const char *p = t->bpe.text + s->at;
	int32_t id = s->id >= 0 ? s->id : index_find(&t->index, p, s->len);
	size_t i, step;

	if (id >= 0 && !allowed(j, id))
		id = -1;
	step = id >= 0 ? s->len : 1;
	for (i = 0; i < s->len; i += step) {
		int32_t one = id >= 0 ? id : t->byte_id[(unsigned char)p[i]];

		while (*norm < s->at + i + step) {
			*norm += j->text[j->used] == ' ' ? SPACE_MARK_LEN : 1;
			j->used++;
		}
		if (one < 0)
			one = t->v->special.unk;
		if (one < 0)
			return fail(j->err, "the vocabulary has no token for "
			    "byte 0x%02x, nor an unknown token",
			    (unsigned)(unsigned char)p[i]);
		if (emit(j, one) < 0)
			return -1;
	}
	return 0;
}

/* Bytes of the character that a byte begins; what follows is not looked at. */
static size_t
lead_len(unsigned char c)
{
	return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Text that no merge can cross the ends of, with a space in front if
   `prefix`. */
static int
tokenize_word(struct job *j, const char *p, size_t n, bool prefix)
{
	struct bpe *b = &j->t->bpe;
	size_t i, len, norm = prefix ? SPACE_MARK_LEN : 0;
	int32_t k;

	if (bpe_begin(b, norm + n * SPACE_MARK_LEN, j->err) < 0)
		return -1;
	if (prefix) {
		memcpy(b->text, SPACE_MARK, SPACE_MARK_LEN);
		bpe_push(b, SPACE_MARK_LEN, -1);
	}
	for (i = 0; i < n; i += len) {
		len = 1;
		if (p[i] == ' ') {
			memcpy(b->text + b->n_text, SPACE_MARK,
			    SPACE_MARK_LEN);
			bpe_push(b, SPACE_MARK_LEN, -1);
			continue;
		}
		len = MIN(lead_len((unsigned char)p[i]), n - i);
		memcpy(b->text + b->n_text, p + i, len);
		bpe_push(b, len, -1);
	}
	if (bpe_merge(b, j->err) < 0)
		return -1;
	for (k = b->n_sym > 0 ? 0 : -1; k >= 0; k = b->sym[k].next)
		if (emit_spm(j, &b->sym[k], &norm) < 0)
			return -1;
	return 0;
}

static bool
mark_at(const char *p, size_t n)
{
	return p[0] == ' ' || (n >= SPACE_MARK_LEN &&
	    memcmp(p, SPACE_MARK, SPACE_MARK_LEN) == 0);
}

/* Cuts the text in front of spaces, where no token could go on. */
static int
tokenize_spm(struct job *j, const char *p, size_t n, bool prefix)
{
	size_t from = 0, i;

	for (i = 1; i <= n; i++) {
		unsigned char before = p[i - 1] == ' ' ?
		    (unsigned char)SPACE_MARK[SPACE_MARK_LEN - 1] :
		    (unsigned char)p[i - 1];

		if (i < n && (!mark_at(p + i, n - i) ||
		    j->t->joins_mark[before]))
			continue;
		if (tokenize_word(j, p + from, i - from,
		    prefix && from == 0) < 0)
			return -1;
		from = i;
	}
	return 0;
}

/* ---- VOCAB_BPE ---- */

/* The whole piece as one token, or -1. */
static int32_t
whole_piece(const struct pico_tokenizer *t, const struct bpe *b)
{
	char text[1024];	/* of the alphabet: two bytes each at most */
	size_t i, n = 0;

	if (b->n_text > sizeof text / 2)
		return -1;
	for (i = 0; i < b->n_text; i++)
		n += utf8_encode(byte_to_char((uint8_t)b->text[i]), text + n);
	return index_find(&t->index, text, n);
}

/* Moves `used` on to where the first `norm` bytes of the piece came from; *at
   is how many of them it stands for now. */
static void
advance(struct job *j, size_t n_text, size_t *at, size_t norm)
{
	char buf[4];
	uint32_t cp;

	while (*at < norm) {
		j->used += utf8_decode(j->text + j->used, n_text - j->used,
		    &cp);
		*at += utf8_encode(cp, buf);
	}
}

/* The symbol's token. Where it has none (a result of merges that is not in the
   vocabulary) those of its bytes; some vocabularies lack control characters,
   which are left out, as everywhere. */
static int
emit_bpe(struct job *j, const struct symbol *s, size_t n_text, size_t *at)
{
	struct pico_tokenizer *t = j->t;
	const char *p = t->bpe.text + s->at;
	size_t i;

	if (s->id >= 0 && s->id < t->v->n && allowed(j, s->id)) {
		advance(j, n_text, at, s->at + s->len);
		return emit(j, s->id);
	}
	for (i = 0; i < s->len; i++) {
		int32_t id = t->byte_id[(unsigned char)p[i]];

		advance(j, n_text, at, s->at + i + 1);
		if (id < 0 || id >= t->v->n)
			j->out->dropped++;
		else if (emit(j, id) < 0)
			return -1;
	}
	return 0;
}

static int
tokenize_piece(struct job *j, const uint32_t *cp, size_t n, size_t n_text)
{
	struct pico_tokenizer *t = j->t;
	struct bpe *b = &t->bpe;
	size_t i, at = 0;
	int32_t k, id;

	if (bpe_begin(b, n * 4, j->err) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		size_t len = utf8_encode(cp[i], b->text + b->n_text);

		while (len-- > 0)
			bpe_push(b, 1, t->byte_id[
			    (unsigned char)b->text[b->n_text]]);
	}
	if ((t->v->pre->flags & PRE_IGNORE_MERGES) != 0) {
		id = whole_piece(t, b);
		if (id >= 0 && id < t->v->n && allowed(j, id)) {
			advance(j, n_text, &at, b->n_text);
			return emit(j, id);
		}
	}
	if (bpe_merge(b, j->err) < 0)
		return -1;
	for (k = 0; k >= 0; k = b->sym[k].next)
		if (emit_bpe(j, &b->sym[k], n_text, &at) < 0)
			return -1;
	return 0;
}

static int
tokenize_bpe(struct job *j, const char *p, size_t n)
{
	struct pico_tokenizer *t = j->t;
	size_t i, from, n_cp = 0, n_text = (size_t)(p - j->text) + n;

	for (i = 0; i < n; n_cp++) {
		if (n_cp == t->cap_cp && (mem_grow(&t->cp, &t->cap_cp,
		    n_cp + 1, sizeof *t->cp, "characters", j->err) < 0 ||
		    mem_grow(&t->set, &t->cap_set, t->cap_cp, sizeof *t->set,
		    "characters", j->err) < 0 ||
		    mem_grow(&t->start, &t->cap_start, t->cap_cp,
		    sizeof *t->start, "characters", j->err) < 0))
			return -1;
		i += utf8_decode(p + i, n - i, &t->cp[n_cp]);
		t->set[n_cp] = char_set(t->cp[n_cp]);
	}
	pre_split(t->v->pre, t->cp, t->set, n_cp, t->start);
	for (from = 0, i = 1; i <= n_cp; i++) {
		if (i < n_cp && !t->start[i])
			continue;
		if (tokenize_piece(j, t->cp + from, i - from, n_text) < 0)
			return -1;
		from = i;
	}
	return 0;
}

/* ---- the whole text ---- */

/* Text without special tokens, p being part of j->text. */
static int
tokenize_raw(struct job *j, const char *p, size_t n, bool prefix)
{
	if (n == 0)
		return 0;
	j->used = (size_t)(p - j->text);
	return j->t->v->kind == VOCAB_SPM ? tokenize_spm(j, p, n, prefix) :
	    tokenize_bpe(j, p, n);
}

int
pico_tokenize_framed(struct pico_tokenizer *t, const char *text, size_t n,
    const uint8_t *content, unsigned flags, struct pico_ids *out,
    struct pico_err *err)
{
	const struct pico_special *s = &t->v->special;
	struct job j = { .t = t, .text = text, .framed = content != NULL,
	    .out = out, .err = err };
	bool prefix = s->add_space_prefix && !(flags & PICO_CONTINUED);
	int32_t last = s->add_sep && !s->add_eos ? s->sep : s->eos;
	struct special_hit hit;
	size_t pos = 0;
	int got;

	if (n > TEXT_MAX)
		return fail(err, "text has %zu bytes, at most %d are "
		    "supported", n, TEXT_MAX);
	if ((flags & PICO_ADD_BOS) && s->bos < 0)
		return fail(err, "the model has no BOS token");
	if ((flags & PICO_ADD_EOS) && last < 0)
		return fail(err, "the model has no EOS token");
	if ((flags & PICO_ADD_BOS) && emit(&j, s->bos) < 0)
		return -1;
	special_begin(&t->scan, flags & PICO_PARSE_SPECIAL ? &t->all :
	    &t->user, text, n);
	t->scan.content = content;
	while ((got = special_next(&t->scan, &hit, err)) > 0) {
		if (tokenize_raw(&j, text + pos, hit.start - pos, prefix) < 0)
			return -1;
		j.used = pos = hit.end;
		if (emit(&j, hit.what->id) < 0)
			return -1;
		prefix = s->add_space_prefix;
	}
	if (got < 0 || tokenize_raw(&j, text + pos, n - pos, prefix) < 0)
		return -1;
	j.used = n;
	return flags & PICO_ADD_EOS ? emit(&j, last) : 0;
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

static void
find_bytes(struct pico_tokenizer *t)
{
	char text[8];
	int i;

	for (i = 0; i < 256; i++) {
		int32_t id;
		char byte = (char)i;

		if (t->v->kind == VOCAB_BPE) {
			t->byte_id[i] = index_find(&t->index, text,
			    utf8_encode(byte_to_char((uint8_t)i), text));
			continue;
		}
		(void)snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
		id = index_find(&t->index, text, 6);
		t->byte_id[i] = id >= 0 ? id :
		    index_find(&t->index, &byte, 1);
	}
}

static void
find_marks(struct pico_tokenizer *t)
{
	int32_t id;
	size_t i;

	for (id = 0; id < t->v->n; id++) {
		struct pico_str s = pico_vocab_text(t->v, id);

		for (i = 1; i + SPACE_MARK_LEN <= s.n; i++)
			if (memcmp(s.p + i, SPACE_MARK, SPACE_MARK_LEN) == 0)
				t->joins_mark[(unsigned char)s.p[i - 1]] = true;
	}
}

struct pico_tokenizer *
pico_tokenizer_new(const struct pico_vocab *v, struct pico_err *err)
{
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
	if (index_init(&t->index, v, err) < 0 ||
	    bpe_init(&t->bpe, &t->index, err) < 0 ||
	    special_set_init(&t->user, v, false, err) < 0 ||
	    special_set_init(&t->all, v, true, err) < 0) {
		pico_tokenizer_free(t);
		return NULL;
	}
	find_bytes(t);
	if (v->kind == VOCAB_SPM)
		find_marks(t);
	return t;
}

void
pico_tokenizer_free(struct pico_tokenizer *t)
{
	if (t == NULL)
		return;
	index_free(&t->index);
	bpe_free(&t->bpe);
	special_set_free(&t->user);
	special_set_free(&t->all);
	special_scan_free(&t->scan);
	free(t->cp);
	free(t->set);
	free(t->start);
	free(t);
}
