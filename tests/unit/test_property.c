/* SPDX-License-Identifier: MIT */
/*
 * What holds for every text: read in parts it gives the tokens, and the
 * ranges, that it gives in one piece; a text of frame only gives the tokens of
 * any text, and no words of one become a control token; and where a vocabulary
 * has a token for every byte, its text comes back. Random bytes, random characters and random
 * tokens, from fixed seeds; the small vocabularies of all kinds, and the large
 * ones of ../shared/conformance/tokenizer where those are.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/text/text.h"

#define ROUNDS 10000
#define LONG_ROUNDS 20
#define LONG 60000		/* several times TEXT_WINDOW */

static int n_run, n_failed;

static void
check(bool ok, const char *vocab, const char *what, unsigned n)
{
	n_run++;
	n_failed += !ok;
	printf("%s %d - %s: %s, %u texts\n", ok ? "ok" : "not ok", n_run,
	    vocab, what, n);
}

static void
die(const char *what)
{
	printf("Bail out! %s\n", what);
	exit(1);
}

static uint64_t random_state;
static int32_t special_id[20000];	/* tokens that are not ordinary */
static unsigned n_special;

static unsigned
draw(unsigned n)
{
	random_state = random_state * 6364136223846793005u +
	    1442695040888963407u;
	return (unsigned)(random_state >> 33) % n;
}

/* ---- texts ---- */

struct text {
	char p[LONG + 2000];
	size_t n;
};

static void
add(struct text *x, const char *p, size_t n)
{
	memcpy(x->p + x->n, p, n);
	x->n += n;
}

/* A character of some length and class, never a surrogate. */
static uint32_t
draw_char(void)
{
	static const char common[] = "aeiost  \n.,'1 \t\rThE";

	switch (draw(8)) {
	case 0: return draw(0x80);
	case 1: return 0x80 + draw(0x780);
	case 2: return 0x800 + draw(0xd000);
	case 3: return 0x10000 + draw(0x100000);
	case 4: return 0x4e00 + draw(40);
	default: return (unsigned char)common[draw(sizeof common - 1)];
	}
}

static void
add_random(struct text *x, const struct pico_vocab *v, unsigned how,
    bool special)
{
	char buf[4];
	struct pico_str s;
	int32_t id;

	switch (how) {
	case 0:			/* bytes */
		buf[0] = (char)draw(256);
		add(x, buf, 1);
		return;
	case 1:			/* characters */
		add(x, buf, utf8_encode(draw_char(), buf));
		return;
	default:		/* tokens */
		id = (int32_t)draw((unsigned)v->n);
		if (special && n_special > 0 && draw(4) == 0)
			id = special_id[draw(n_special)];
		s = pico_vocab_text(v, id);
		if (s.n > 1000)
			return;
		x->n += pico_vocab_piece(v, id, true, x->p + x->n);
	}
}

static void
make_text(struct text *x, const struct pico_vocab *v, size_t n, bool special)
{
	unsigned how = draw(4);

	x->n = 0;
	while (x->n < n)
		add_random(x, v, how == 3 ? draw(3) : how, special);
}

/* ---- in parts ---- */

static void
in_parts(struct pico_tokenizer *t, const struct text *x, unsigned flags,
    struct pico_ids *out)
{
	unsigned step = 1 + draw(x->n < 1000 ? 8 : 30000);
	size_t done = 0, have = 0, used, i = 0;
	bool last;

	pico_tokenize_begin(t, flags);
	do {
		/* Memory of its own, so that a read behind it is noticed. */
		char *part;

		have += draw(step + 1);
		last = have >= x->n;
		have = last ? x->n : have;
		part = malloc(have - done + (have == done));
		if (part == NULL)
			die("no memory");
		memcpy(part, x->p + done, have - done);
		if (pico_tokenize_part(t, part, have - done, last, &used, out,
		    NULL) < 0)
			die("a part of a text is refused");
		free(part);
		for (; i < out->n; i++)
			out->end[i] += done;
		done += used;
	} while (!last);
	if (done != x->n)
		die("not all of a text was used");
}

/* The same ids and ranges, however the text comes. */
static bool
parts_are_whole(struct pico_tokenizer *t, const struct pico_vocab *v,
    const struct text *x)
{
	static struct pico_ids whole, parts;
	unsigned flags = draw(16);
	bool same;

	if (v->special.bos < 0)
		flags &= ~(unsigned)PICO_ADD_BOS;
	if (v->special.eos < 0 && !v->special.add_sep)
		flags &= ~(unsigned)PICO_ADD_EOS;
	if (whole.end == NULL) {
		whole.end = malloc(sizeof *whole.end);
		parts.end = malloc(sizeof *parts.end);
	}
	whole.n = parts.n = whole.dropped = parts.dropped = 0;
	if (pico_tokenize(t, x->p, x->n, flags, &whole, NULL) < 0)
		die("a text is refused");
	in_parts(t, x, flags, &parts);
	same = whole.n == parts.n && whole.dropped == parts.dropped &&
	    (whole.n == 0 || (memcmp(whole.v, parts.v,
	    whole.n * sizeof *whole.v) == 0 && memcmp(whole.end, parts.end,
	    whole.n * sizeof *whole.end) == 0));
	if (!same) {
		char shown[400];

		(void)pico_escape(shown, sizeof shown, x->p, x->n);
		printf("# flags %u: %s\n", flags, shown);
	}
	return same;
}

/* ---- frame and words ---- */

/* Some ordinary tokens end a generation, too, whatever they are. */
static void
add_ends(struct pico_vocab *v)
{
	int32_t id;
	unsigned i;

	for (i = 0; i < 12; i++) {
		id = (int32_t)draw((unsigned)v->n);
		if (!vocab_is_control(v, id))
			v->eog[v->n_eog++] = id;
	}
}

/* Words in some places: what controls something is made of the frame alone.
   *known: whether every byte of it has a token, so that ranges are without
   gaps. WordPiece drops many characters. */
static bool
words_are_words(struct pico_tokenizer *t, const struct pico_vocab *v,
    struct text *x, bool *known)
{
	static uint8_t content[sizeof x->p];
	static struct pico_ids ids, plain;
	unsigned flags = draw(2) ? PICO_PARSE_SPECIAL : 0;
	bool none = draw(4) == 0, word = false, ok = true;
	size_t i, k = 0;

	for (i = 0; i < x->n; i++) {
		if (v->kind == VOCAB_WORDPIECE && (x->p[i] < ' ' ||
		    x->p[i] > '~'))
			x->p[i] = '.';
		word ^= !none && draw(6) == 0;
		content[i] = word;
	}
	if (ids.end == NULL)
		ids.end = malloc(sizeof *ids.end);
	ids.n = ids.dropped = plain.n = 0;
	*known = pico_tokenize_framed(t, x->p, x->n, content, flags, &ids,
	    NULL) == 0 && ids.dropped == 0;
	if (none)
		return pico_tokenize(t, x->p, x->n, flags, &plain,
		    NULL) == 0 && ids.n == plain.n && (ids.n == 0 ||
		    memcmp(ids.v, plain.v, ids.n * sizeof *ids.v) == 0);
	for (i = 0; *known && i < ids.n; k = ids.end[i++]) {
		if (!vocab_is_control(v, ids.v[i]) || (ids.v[i] ==
		    v->special.unk && !pico_vocab_is_eog(v, ids.v[i])))
			continue;
		for (; k < ids.end[i]; k++)
			/* white space next to a token may be taken */
			ok &= content[k] == 0 || memchr(" \t\n\v\f\r",
			    x->p[k], 6) != NULL;
	}
	if (!ok) {
		char shown[400];

		(void)pico_escape(shown, sizeof shown, x->p, x->n);
		printf("# flags %u: %s\n", flags, shown);
	}
	return ok;
}

/* Whether a text, of which the bytes from..n are words, gives an end of
   generation. No, too, if it is refused: they have no other token. */
static bool
gives_end(struct pico_tokenizer *t, const struct pico_vocab *v,
    const char *text, size_t n, size_t from)
{
	static struct pico_ids ids;
	uint8_t content[200] = {0};
	size_t i;

	memset(content + from, 1, n - from);
	ids.n = 0;
	if (pico_tokenize_framed(t, text, n, content, PICO_CONTINUED, &ids,
	    NULL) < 0)
		return false;
	for (i = 0; i < ids.n && !pico_vocab_is_eog(v, ids.v[i]); i++)
		;
	return i < ids.n;
}

/* Any token may be what ends a generation: for RWKV it is two newlines, an
   ordinary one. The frame gives it wherever plain text does, words do not. */
static void
every_end(struct pico_vocab *v, const char *name)
{
	static struct pico_ids ids;
	unsigned made = 0, wrong = 0;
	char text[200];
	int32_t id;
	size_t n, i;

	for (id = 0; id < v->n; id++) {
		struct pico_tokenizer *t;

		v->eog[0] = id;
		v->n_eog = 1;
		t = pico_tokenizer_new(v, NULL);
		if (t == NULL || pico_vocab_text(v, id).n > sizeof text / 4)
			die("no tokenizer");
		n = pico_vocab_piece(v, id, true, text);
		ids.n = 0;
		if (pico_tokenize(t, text, n, PICO_CONTINUED, &ids, NULL) < 0)
			die("a text is refused");
		for (i = 0; i < ids.n && ids.v[i] != id; i++)
			;
		if (i < ids.n) {
			made++;
			wrong += !gives_end(t, v, text, n, n) ||
			    gives_end(t, v, text, n, n - 1) ||
			    gives_end(t, v, text, n, 0);
		}
		pico_tokenizer_free(t);
	}
	check(made > 0 && wrong == 0, name,
	    "tokens that end a generation are made of the frame only", made);
}

/* ---- there and back ---- */

static bool
is_utf8(const struct text *x)
{
	size_t i, len;

	for (i = 0; i < x->n; i += len) {
		len = pico_utf8_len(x->p + i, x->n - i);
		if (len == 0)
			return false;
	}
	return true;
}

/* Whether the text must come back: byte-level vocabularies are for characters,
   and the others cannot tell a space from its mark, nor always from the one
   that is put behind a special token. */
static bool
is_exact(const struct pico_vocab *v, const struct text *x)
{
	size_t i;

	if (v->kind == VOCAB_RWKV)
		return true;
	if (v->kind == VOCAB_BPE)
		return is_utf8(x);
	if (v->kind != VOCAB_SPM && v->kind != VOCAB_LINES)
		return false;
	if (v->rstrip)
		return false;
	for (i = 2; i < x->n; i++)
		if (memcmp(x->p + i - 2, SPACE_MARK, SPACE_MARK_LEN) == 0)
			return false;
	return true;
}

static bool
comes_back(struct pico_tokenizer *t, const struct pico_vocab *v,
    const struct text *x, bool *complete)
{
	static struct pico_ids ids;
	static char back[LONG * 2 + 100000];
	struct pico_detok d;
	size_t n = 0, i;

	ids.n = ids.dropped = 0;
	if (pico_tokenize(t, x->p, x->n, pico_tokenizer_default_flags(v),
	    &ids, NULL) < 0)
		die("a text is refused");
	if (ids.dropped > 0) {
		*complete = false;
		return true;
	}
	pico_detok_init(&d, v, v->kind == VOCAB_RWKV, false);
	for (i = 0; i < ids.n; i++) {
		if (n + pico_vocab_piece_max(v) > sizeof back)
			die("a text comes back too long");
		n += pico_detok_token(&d, ids.v[i], back + n);
	}
	if (n == x->n && memcmp(x->p, back, n) == 0)
		return true;
	{
		char shown[400];

		(void)pico_escape(shown, sizeof shown, x->p, x->n);
		printf("# there: %s\n", shown);
		(void)pico_escape(shown, sizeof shown, back, n);
		printf("# back:  %s\n", shown);
	}
	return false;
}

/* ---- vocabularies ---- */

static void
properties(const char *path, const char *name, const char *pre)
{
	static struct text x;
	struct pico_err err = {0};
	struct pico_gguf *g = NULL;
	struct pico_vocab *v = NULL;
	struct pico_tokenizer *t = NULL;
	unsigned i, n_exact = 0, wrong = 0, lost = 0;
	bool complete = true, known;
	int32_t id;

	random_state = 1;
	if (pico_gguf_open(&g, path, PICO_GGUF_HEADER, &err) == 0)
		v = pico_vocab_open(g, pre, &err);
	if (v != NULL)
		t = pico_tokenizer_new(v, &err);
	if (t == NULL)
		die(err.msg);
	n_special = 0;
	for (id = 0; id < v->n && n_special < COUNT(special_id); id++)
		if (v->type[id] != PICO_TOK_NORMAL &&
		    v->type[id] != PICO_TOK_BYTE)
			special_id[n_special++] = id;
	for (i = 0; i < ROUNDS + LONG_ROUNDS && wrong + lost < 3; i++) {
		make_text(&x, v, i < ROUNDS ? draw(80) : LONG, i % 2);
		wrong += !parts_are_whole(t, v, &x);
	}
	check(wrong == 0, name, "parts are the whole", i);
	for (i = 0; n_exact < ROUNDS && i < 20 * ROUNDS && lost < 3; i++) {
		make_text(&x, v, draw(80), i % 2);
		if (!is_exact(v, &x))
			continue;
		n_exact++;
		lost += !comes_back(t, v, &x, &complete);
	}
	if (n_exact > 0)
		check(lost == 0, name, complete ? "texts come back" :
		    "texts come back, if no byte lacks a token", n_exact);
	pico_tokenizer_free(t);
	add_ends(v);
	t = pico_tokenizer_new(v, &err);
	if (t == NULL)
		die(err.msg);
	for (i = wrong = lost = 0; i < ROUNDS && wrong < 3; i++) {
		make_text(&x, v, draw(80), i % 2);
		wrong += !words_are_words(t, v, &x, &known);
		lost += !known;
	}
	check(wrong == 0 && lost < i - 1000, name,
	    "words become no control token", i - lost);
	pico_tokenizer_free(t);
	if (v->n < 1000)
		every_end(v, name);
	pico_vocab_close(v);
	pico_gguf_close(g);
}

static void
large(const char *dir, const char *name)
{
	char path[] = "/tmp/pico-test-XXXXXX", command[800];
	int fd = mkstemp(path);

	(void)snprintf(command, sizeof command, "cat %s/vocab/%s.gguf* | "
	    "gzip -dcf >%s", dir, name, path);
	if (fd < 0 || system(command) != 0)
		die(command);
	(void)close(fd);
	properties(path, name, NULL);
	(void)unlink(path);
}

int
main(void)
{
	static const char *const names[] = { "llama-spm", "phi-3",
	    "gemma3-spm", "gpt-2", "llama3-bpe", "qwen3-bpe", "deepseek-coder",
	    "deepseek-v3-30k", "o200k-30k", "falcon", "starcoder", "mpt",
	    "refact", "bert-bge", "unigram-mini", "unigram-mini-noprefix",
	    "rwkv-mini" };
	static const char *const pres[] = { "llama-bpe", "qwen2", "gpt-4o",
	    "deepseek-v3", "deepseek-llm", "superbpe", "jais-2", "tiny_aya",
	    "default" };
#define SMALL "tests/data/tokenizer/"
	const char *shared = getenv("SHARED");
	char dir[300];
	size_t i;

	properties("examples/model/pico-tales.gguf", "pico-tales", NULL);
	for (i = 0; i < COUNT(pres); i++)
		properties(SMALL "bpe.gguf", pres[i], pres[i]);
	properties(SMALL "unigram.gguf", "unigram", NULL);
	properties(SMALL "wordpiece.gguf", "wordpiece", NULL);
	properties(SMALL "rwkv.gguf", "rwkv", NULL);
	properties(SMALL "lines.gguf", "lines", NULL);
	(void)snprintf(dir, sizeof dir, "%s/conformance/tokenizer",
	    shared != NULL && *shared != '\0' ? shared : "../shared");
	if (access(dir, R_OK) < 0) {
		n_run++;
		printf("ok %d - large ones # SKIP no '%s'\n", n_run, dir);
	} else {
		for (i = 0; i < COUNT(names); i++)
			large(dir, names[i]);
	}
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
