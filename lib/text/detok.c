/* SPDX-License-Identifier: MIT */
/* Tokens to text. */
#include <string.h>

#include "text.h"

size_t
pico_vocab_piece_max(const struct pico_vocab *v)
{
	return v->text_max;	/* no piece is longer than its token's text */
}

static size_t
copy(char *buf, struct pico_str s)
{
	memcpy(buf, s.p, s.n);
	return s.n;
}

/* Space marks back to spaces. */
static size_t
spm_piece(struct pico_str s, char *buf)
{
	size_t i, n = 0;

	for (i = 0; i < s.n; )
		if (s.n - i >= SPACE_MARK_LEN &&
		    memcmp(s.p + i, SPACE_MARK, SPACE_MARK_LEN) == 0) {
			buf[n++] = ' ';
			i += SPACE_MARK_LEN;
		} else {
			buf[n++] = s.p[i++];
		}
	return n;
}

/* Characters back to the bytes they stand for; others as they are. */
static size_t
bpe_piece(struct pico_str s, char *buf)
{
	size_t i, len, n = 0;
	uint32_t cp;
	int byte;

	for (i = 0; i < s.n; i += len) {
		len = utf8_decode(s.p + i, s.n - i, &cp);
		byte = char_to_byte(cp);
		if (byte >= 0) {
			buf[n++] = (char)byte;
		} else {
			memcpy(buf + n, s.p + i, len);
			n += len;
		}
	}
	return n;
}

/* The marks of channels inside one answer, without which its parts could not
   be told apart. */
static bool
is_frame(const struct pico_vocab *v, int32_t id)
{
	size_t i;

	for (i = 0; i < v->n_frame; i++)
		if (v->frame[i] == id)
			return true;
	return false;
}

size_t
pico_vocab_piece(const struct pico_vocab *v, int32_t id, bool special,
    char *buf)
{
	struct pico_str s = pico_vocab_text(v, id);
	int byte;

	switch (pico_vocab_type(v, id)) {
	case PICO_TOK_UNKNOWN:
	case PICO_TOK_CONTROL:
		return special || is_frame(v, id) ? copy(buf, s) : 0;
	case PICO_TOK_USER:
		return copy(buf, s);
	case PICO_TOK_BYTE:
		byte = byte_token_value(s);
		if (byte >= 0) {
			buf[0] = (char)byte;
			return 1;
		}
		break;	/* a malformed name is an ordinary piece */
	case PICO_TOK_NORMAL:
		break;
	default:
		return 0;
	}
	switch (v->kind) {
	case VOCAB_BPE:
		return bpe_piece(s, buf);
	case VOCAB_RWKV:
		return rwkv_unescape(s, buf);
	default:
		return spm_piece(s, buf);
	}
}

void
pico_detok_init(struct pico_detok *d, const struct pico_vocab *v,
    bool special, bool keep_space)
{
	d->vocab = v;
	d->special = special;
	d->keep_space = keep_space;
	pico_detok_start(d);
}

void
pico_detok_start(struct pico_detok *d)
{
	d->at_start = true;
	d->after_bos = false;
}

size_t
pico_detok_token(struct pico_detok *d, int32_t id, char *buf)
{
	const struct pico_special *s = &d->vocab->special;
	size_t n = pico_vocab_piece(d->vocab, id, d->special, buf);
	bool first = d->after_bos || (d->at_start && !s->add_bos);

	/* A sequence without the BOS that the model wants continues another,
	   whose beginning had the space. */
	d->after_bos = d->at_start && id == s->bos;
	d->at_start = false;
	if (first && d->vocab->space_first && !d->special && !d->keep_space &&
	    pico_vocab_type(d->vocab, id) == PICO_TOK_NORMAL && n > 0 &&
	    buf[0] == ' ')
		memmove(buf, buf + 1, --n);
	return n;
}

/* ---- cleaning ---- */

static bool
follows(const char *p, size_t n, const char *text)
{
	size_t k = strlen(text);

	return n >= k && memcmp(p, text, k) == 0;
}

/* Three passes, as other programs do it, each over what the one before left. */
size_t
pico_clean_spaces(char *p, size_t n)
{
	static const char *const suffix[] = { " 's", " 'm", " 're", " 've" };
	size_t i, k, w;

	for (i = w = 0; i < n; i++)
		if (!(p[i] == ' ' && i + 1 < n &&
		    memchr("?!.,", p[i + 1], 4) != NULL))
			p[w++] = p[i];
	n = w;
	for (i = w = 0; i < n; i++) {
		if (follows(p + i, n - i, " ' ")) {
			p[w++] = '\'';
			i += 2;
		} else {
			p[w++] = p[i];
		}
	}
	n = w;
	for (i = w = 0; i < n; i++) {
		bool drop = false;

		for (k = 0; k < COUNT(suffix); k++)
			drop |= follows(p + i, n - i, suffix[k]);
		if (!drop)
			p[w++] = p[i];
	}
	return w;
}
