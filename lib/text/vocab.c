/* SPDX-License-Identifier: MIT */
/* The vocabulary of a model: keys tokenizer.* of the GGUF specification. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* ---- bytes in texts ---- */

static bool
is_printable(uint32_t byte)
{
	return (byte >= 0x21 && byte <= 0x7e) ||
	    (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

uint32_t
byte_to_char(uint8_t byte)
{
	if (is_printable(byte))
		return byte;
	if (byte <= 0x20)
		return 0x100u + byte;
	return byte == 0xad ? 0x143 : 0x121u + (byte - 0x7fu);
}

int
char_to_byte(uint32_t cp)
{
	if (cp < 0x100)
		return is_printable(cp) ? (int)cp : -1;
	if (cp <= 0x120)
		return (int)(cp - 0x100);
	if (cp <= 0x142)
		return (int)(cp - 0x121 + 0x7f);
	return cp == 0x143 ? 0xad : -1;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int
hex_byte(const char *p)
{
	int hi = hex_digit(p[0]), lo = hex_digit(p[1]);

	return hi < 0 || lo < 0 ? -1 : hi << 4 | lo;
}

int
byte_token_value(struct pico_str s)
{
	return s.n == 6 && memcmp(s.p, "<0x", 3) == 0 && s.p[5] == '>' ?
	    hex_byte(s.p + 3) : -1;
}

/* ---- arrays ---- */

static bool
is_int_type(uint32_t type)
{
	return type == PICO_KV_U8 || type == PICO_KV_I8 ||
	    type == PICO_KV_U16 || type == PICO_KV_I16 ||
	    type == PICO_KV_U32 || type == PICO_KV_I32 ||
	    type == PICO_KV_U64 || type == PICO_KV_I64;
}

static bool
is_real_type(uint32_t type)
{
	return type == PICO_KV_F32 || type == PICO_KV_F64;
}

static bool
is_byte_type(uint32_t type)
{
	return type == PICO_KV_U8 || type == PICO_KV_I8;
}

static bool
is_str_type(uint32_t type)
{
	return type == PICO_KV_STR;
}

/* Finds an array of a kind; *out stays NULL if the key is missing. */
static int
find_array(const struct pico_gguf *g, const char *key,
    bool (*is_kind)(uint32_t), const char *kind, const struct pico_kv **out,
    struct pico_err *err)
{
	const struct pico_kv *kv = pico_gguf_find(g, key);
	const char *type;

	*out = NULL;
	if (kv == NULL)
		return 0;
	type = pico_kv_type_name(kv->type == PICO_KV_ARR ? kv->elem :
	    kv->type);
	if (kv->type != PICO_KV_ARR)
		return fail(err, "key '%s' is a single %s, should be an array "
		    "of %s", key, type, kind);
	if (!is_kind(kv->elem))
		return fail(err, "key '%s' is an array of %s, should be one of "
		    "%s", key, type, kind);
	*out = kv;
	return 0;
}

static int
check_count(const struct pico_vocab *v, const char *key,
    const struct pico_kv *kv, struct pico_err *err)
{
	if (kv == NULL || kv->n == (uint64_t)v->n)
		return 0;
	return fail(err, "key '%s' has %" PRIu64 " entries, there are %" PRId32
	    " tokens", key, kv->n, v->n);
}

static int
open_tokens(struct pico_vocab *v, const struct pico_gguf *g,
    struct pico_err *err)
{
	static const char key[] = "tokenizer.ggml.tokens";
	const struct pico_kv *types;
	uint64_t pos = 0;
	int32_t id;

	if (find_array(g, key, is_str_type, "strings", &v->tokens, err) < 0)
		return -1;
	if (v->tokens == NULL)
		return fail(err, "key '%s' is missing", key);
	if (v->tokens->n == 0)
		return fail(err, "key '%s' has no entries", key);
	if (v->tokens->bytes > UINT32_MAX)
		return fail(err, "key '%s' has %" PRIu64 " bytes, at most %"
		    PRIu32 " are supported", key, v->tokens->bytes,
		    UINT32_MAX);
	v->n = (int32_t)v->tokens->n;	/* each has a length of >= 4 bytes */
	if (find_array(g, "tokenizer.ggml.token_type", is_int_type,
	    "whole numbers", &types, err) < 0 ||
	    check_count(v, "tokenizer.ggml.token_type", types, err) < 0)
		return -1;
	v->at = mem_new((uint64_t)v->n + 1, sizeof *v->at, "tokens", err);
	v->type = mem_new((uint64_t)v->n, sizeof *v->type, "tokens", err);
	if (v->at == NULL || v->type == NULL)
		return -1;
	for (id = 0; id < v->n; id++) {
		struct pico_str text;
		int64_t type = types == NULL ? PICO_TOK_NORMAL :
		    pico_kv_int_at(types, (uint64_t)id);

		v->type[id] = type < 0 || type > PICO_TOK_BYTE ?
		    PICO_TOK_UNDEFINED : (uint8_t)type;
		text = pico_kv_str_next(v->tokens, &pos);
		v->at[id + 1] = (uint32_t)pos;
		if (text.n > TOKEN_MAX)
			return fail(err, "key '%s': token %" PRId32 " has %zu "
			    "bytes, at most %d are supported", key, id, text.n,
			    TOKEN_MAX);
		v->text_max = MAX(v->text_max, text.n);
	}
	return 0;
}

/* ---- what each kind of tokenizer needs ---- */

/* Whether s contains a text in lower case, upper case being equal. */
static bool
names(struct pico_str s, const char *text)
{
	size_t n = strlen(text), i, k;

	for (i = 0; n <= s.n && i <= s.n - n; i++) {
		for (k = 0; k < n; k++)
			if ((s.p[i + k] | (text[k] >= 'a' ? 0x20 : 0)) !=
			    text[k])
				break;
		if (k == n)
			return true;
	}
	return false;
}

/* An id that a kind has if the keys do not say otherwise. */
static int32_t
default_id(const struct pico_vocab *v, int32_t id)
{
	return id < v->n ? id : -1;
}

static int
open_scores(struct pico_vocab *v, const struct pico_gguf *g,
    struct pico_err *err)
{
	static const char key[] = "tokenizer.ggml.scores";

	return find_array(g, key, is_real_type, "real numbers", &v->scores, err)
	    < 0 || check_count(v, key, v->scores, err) < 0 ? -1 : 0;
}

static int
open_merges(struct pico_vocab *v, const struct pico_gguf *g, bool needed,
    struct pico_err *err)
{
	static const char key[] = "tokenizer.ggml.merges";

	if (find_array(g, key, is_str_type, "strings", &v->merges, err) < 0)
		return -1;
	if (v->merges == NULL && needed)
		return fail(err, "key '%s' is missing", key);
	return 0;
}

static int
open_spm(struct pico_vocab *v, const struct pico_gguf *g, const char *pre,
    struct pico_err *err)
{
	struct pico_special *s = &v->special;
	struct pico_str name = { "", 0 };

	(void)pre;
	if (open_scores(v, g, err) < 0 ||
	    pico_gguf_str(g, "general.name", &name, err) < 0)
		return -1;
	s->bos = default_id(v, 1);
	s->eos = default_id(v, 2);
	s->unk = 0;
	s->add_bos = s->add_space_prefix = true;
	v->rstrip = names(name, "phi-3") || names(name, "phi3");
	return 0;
}

static int
open_bpe(struct pico_vocab *v, const struct pico_gguf *g, const char *pre,
    struct pico_err *err)
{
	struct pico_str name = { "default", 7 };
	int found;

	found = pico_gguf_str(g, "tokenizer.ggml.pre", &name, err);
	if (found < 0)
		return -1;
	if (found == 0 && pre == NULL)
		v->note = "the model does not name its pre-tokenizer "
		    "(key 'tokenizer.ggml.pre'): 'default' may cut text in "
		    "other places than the model was trained with";
	if (pre != NULL)
		name = (struct pico_str){ pre, strlen(pre) };
	v->pre = pre_find(name);
	if (v->pre == NULL && pre != NULL)
		return fail_usage(err, "pre-tokenizer '%s' is not known; "
		    "pico-tokenize(1) lists those that are", show_str(name));
	if (v->pre == NULL)
		return fail(err, "key 'tokenizer.ggml.pre': pre-tokenizer '%s' "
		    "is not known", show_str(name));
	if (open_merges(v, g, !(v->pre->flags & PRE_BY_ID), err) < 0)
		return -1;
	/* BOS and EOS have no defaults here: no id is made up. */
	v->special.add_bos = (v->pre->flags & PRE_ADD_BOS) != 0;
	v->special.add_sep = (v->pre->flags & PRE_ADD_SEP) != 0;
	v->special.clean_spaces = (v->pre->flags & PRE_CLEAN) != 0;
	if (v->pre->flags & PRE_LSTRIP)
		v->lstrip = "<mask>";
	return 0;
}

static int
open_lines(struct pico_vocab *v, const struct pico_gguf *g, const char *pre,
    struct pico_err *err)
{
	(void)pre;
	return open_merges(v, g, true, err);
}

/* Whether some ordinary token has a capital. */
static bool
has_capitals(const struct pico_vocab *v)
{
	int32_t id;
	uint32_t cp;
	size_t i;

	for (id = 0; id < v->n; id++) {
		struct pico_str s = pico_vocab_text(v, id);

		if (v->type[id] != PICO_TOK_NORMAL || s.n == 0 ||
		    s.p[0] == '[')	/* "[UNK]", in files without types */
			continue;
		for (i = 0; i < s.n; ) {
			i += utf8_decode(s.p + i, s.n - i, &cp);
			if (char_lower(cp) != cp)
				return true;
		}
	}
	return false;
}

static int
open_wordpiece(struct pico_vocab *v, const struct pico_gguf *g,
    const char *pre, struct pico_err *err)
{
	struct pico_special *s = &v->special;

	(void)pre;
	s->bos = default_id(v, 101);
	s->unk = default_id(v, 100);
	s->sep = default_id(v, 102);
	s->pad = 0;
	s->mask = default_id(v, 103);
	s->clean_spaces = true;
	/* Older files do not say whether case counts. */
	v->lowercase = !has_capitals(v);
	if (pico_gguf_bool(g, "tokenizer.ggml.normalizer.lowercase",
	    &v->lowercase, err) < 0)
		return -1;
	v->strip_accents = v->lowercase;
	return pico_gguf_bool(g, "tokenizer.ggml.normalizer.strip_accents",
	    &v->strip_accents, err) < 0 ? -1 : 0;
}

static int
open_unigram(struct pico_vocab *v, const struct pico_gguf *g,
    const char *pre, struct pico_err *err)
{
	struct pico_special *s = &v->special;

	(void)pre;
	s->eos = default_id(v, 1);
	s->unk = default_id(v, 2);
	s->pad = 0;
	s->add_eos = true;
	if (open_scores(v, g, err) < 0 ||
	    find_array(g, "tokenizer.ggml.precompiled_charsmap", is_byte_type,
	    "bytes", &v->charsmap, err) < 0)
		return -1;
	return pico_gguf_bool(g, "tokenizer.ggml.remove_extra_whitespaces",
	    &v->merge_spaces, err) < 0 ? -1 : 0;
}

/* RWKV's files say all there is in the tokens. */
static int
open_rwkv(struct pico_vocab *v, const struct pico_gguf *g, const char *pre,
    struct pico_err *err)
{
	(void)v;
	(void)g;
	(void)pre;
	(void)err;
	return 0;
}

/* Some models want the white space before the mask gone; their files do not
   say so. */
static int
open_lstrip(struct pico_vocab *v, const struct pico_gguf *g,
    struct pico_err *err)
{
	struct pico_str arch = { "", 0 }, name = { "", 0 };

	if (pico_gguf_str(g, "general.architecture", &arch, err) < 0 ||
	    pico_gguf_str(g, "general.name", &name, err) < 0)
		return -1;
	if (pico_str_is(arch, "nomic-bert-moe") ||
	    pico_str_is(arch, "jina-bert-v3"))
		v->lstrip = "<mask>";
	if (names(name, "modern-bert"))
		v->lstrip = "[MASK]";
	return 0;
}

/* Only a number of ids. */
static int
open_none(struct pico_vocab *v, const struct pico_gguf *g,
    struct pico_err *err)
{
	struct pico_str arch = { "", 0 };
	char key[100];
	int64_t n = 0;
	int found;

	if (pico_gguf_str(g, "general.architecture", &arch, err) < 0)
		return -1;
	(void)snprintf(key, sizeof key, "%.*s.vocab_size",
	    (int)MIN(arch.n, (size_t)60), arch.p);
	found = pico_gguf_int(g, key, 1, INT32_MAX, &n, err);
	if (found < 0)
		return -1;
	if (found == 0)
		return fail(err, "key '%s' is missing", show(key, strlen(key)));
	v->n = (int32_t)n;
	return 0;
}

/* ---- special ids ---- */

/* An id by key. `needed`: one that is out of range is refused; else it is as
   if there were none. Some writers store "none" as -1 in 32 bits. */
static int
id_key(const struct pico_vocab *v, const struct pico_gguf *g, const char *name,
    bool needed, int32_t *id, struct pico_err *err)
{
	char key[100];
	int64_t value;
	int found;

	(void)snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
	found = pico_gguf_int(g, key, -1, UINT32_MAX, &value, err);
	if (found <= 0)
		return found;
	if (value < v->n)
		*id = (int32_t)value;
	else if (value == UINT32_MAX || !needed)
		*id = -1;
	else
		return fail(err, "key '%s' is %" PRId64 ", there are %" PRId32
		    " tokens", key, value, v->n);
	return 0;
}

/*
 * Texts that mark the end of a generation, for files whose keys do not say it.
 * The end of turn is the first of its texts that the vocabulary has; the others
 * count only where the file types them as control tokens, because they occur
 * in ordinary vocabularies too ("</s>" is a tag of HTML).
 */
enum {
	END = 1, TURN = 2, MESSAGE = 4, PAD = 8, REPO = 16, FILE_SEP = 32,
	FRAME = 64	/* frames a part of an answer: is text to the reader */
};

static const struct {
	const char *text;
	unsigned role;
} end_text[] = {
	{ "<|eot_id|>", END | TURN },
	{ "<|im_end|>", END | TURN },
	{ "<|end|>", END | TURN },
	{ "<end_of_turn>", END | TURN },
	{ "<|endoftext|>", END | TURN },
	{ "<EOT>", END | TURN },
	{ "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
	    END | TURN },
	{ "<|end_of_text|>", END | TURN },
	{ "_<EOT>", END | TURN },
	{ "[EOT]", END | TURN },
	{ "<end_of_utterance>", END | TURN },
	{ "<|eom_id|>", END | MESSAGE },
	{ "<|return|>", END },
	{ "<|call|>", END },
	{ "<|flush|>", END },
	{ "<|calls|>", END },
	{ "</s>", END },
	{ "[EOS]", END },
	{ "<eos>", END },
	{ "<turn|>", END },
	{ "<|tool_response>", END },
	{ "[e~[", END },
	{ "<|fim_pad|>", PAD },
	{ "<fim-pad>", PAD },
	{ "<PAD>", PAD },
	{ "<fim_pad>", PAD },
	{ "[PAD]", PAD },
	{ "<|fim_repo|>", REPO },
	{ "<|repo_name|>", REPO },
	{ "<fim-repo>", REPO },
	{ "<REPO>", REPO },
	{ "<reponame>", REPO },
	{ "<|file_sep|>", FILE_SEP },
	{ "<|channel|>", FRAME },
	{ "<|message|>", FRAME },
	{ "<|start|>", FRAME },
	{ "<|constrain|>", FRAME }
};

/* The lowest id of each of these texts, or -1. */
static void
find_end_texts(const struct pico_vocab *v, int32_t found[COUNT(end_text)])
{
	size_t i;
	int32_t id;

	for (i = 0; i < COUNT(end_text); i++)
		found[i] = -1;
	for (id = 0; id < v->n; id++) {
		struct pico_str s = pico_vocab_text(v, id);

		if (s.n < 4 || s.n > 40 || strchr("<[_", s.p[0]) == NULL)
			continue;
		for (i = 0; i < COUNT(end_text); i++)
			if (found[i] < 0 && pico_str_is(s, end_text[i].text))
				found[i] = id;
	}
}

/* The first found of a role; control: only if typed so. */
static int32_t
first_of(const struct pico_vocab *v, const int32_t *found, unsigned role,
    bool control)
{
	size_t i;

	for (i = 0; i < COUNT(end_text); i++)
		if ((end_text[i].role & role) != 0 && found[i] >= 0 &&
		    (!control || v->type[found[i]] == PICO_TOK_CONTROL))
			return found[i];
	return -1;
}

static void
add_eog(struct pico_vocab *v, int32_t id)
{
	size_t i = v->n_eog;

	if (id < 0 || pico_vocab_is_eog(v, id))
		return;
	while (i > 0 && v->eog[i - 1] > id) {
		v->eog[i] = v->eog[i - 1];
		i--;
	}
	v->eog[i] = id;
	v->n_eog++;
}

/* Takes out the id of one text if both others are in; returns it, else -1. */
static int32_t
drop_eog(struct pico_vocab *v, const int32_t *found, const char *drop,
    const char *if_1, const char *if_2)
{
	int32_t id = -1;
	size_t i, n = 0;

	for (i = 0; i < COUNT(end_text); i++) {
		if (found[i] < 0 || !pico_vocab_is_eog(v, found[i]))
			continue;
		if (strcmp(end_text[i].text, drop) == 0)
			id = found[i];
		n += strcmp(end_text[i].text, if_1) == 0;
		n += strcmp(end_text[i].text, if_2) == 0;
	}
	if (id < 0 || n < 2)
		return -1;
	for (i = 0; v->eog[i] != id; i++)
		;
	v->n_eog--;
	memmove(v->eog + i, v->eog + i + 1, (v->n_eog - i) * sizeof *v->eog);
	return id;
}

static int
open_ends(struct pico_vocab *v, const struct pico_gguf *g,
    struct pico_err *err)
{
	static const struct { const char *key; unsigned role; } fim[] = {
		{ "fim_pad", PAD }, { "fim_rep", REPO },
		{ "fim_sep", FILE_SEP }
	};
	struct pico_special *s = &v->special;
	int32_t found[COUNT(end_text)], id;
	size_t i;

	find_end_texts(v, found);
	s->eot = first_of(v, found, TURN, false);
	s->eom = first_of(v, found, MESSAGE, true);
	if (id_key(v, g, "eot", true, &s->eot, err) < 0 ||
	    id_key(v, g, "eom", true, &s->eom, err) < 0)
		return -1;
	add_eog(v, s->eos);
	add_eog(v, s->eot);
	add_eog(v, s->eom);
	for (i = 0; i < COUNT(fim); i++) {
		id = first_of(v, found, fim[i].role, true);
		if (id_key(v, g, fim[i].key, false, &id, err) < 0)
			return -1;
		add_eog(v, id);
	}
	for (i = 0; i < COUNT(end_text); i++)
		if ((end_text[i].role & END) != 0 && found[i] >= 0 &&
		    v->type[found[i]] == PICO_TOK_CONTROL)
			add_eog(v, found[i]);
	for (i = 0; i < COUNT(end_text); i++)
		if ((end_text[i].role & FRAME) != 0 && found[i] >= 0)
			v->frame[v->n_frame++] = found[i];
	/* Chat formats in which these end a part of an answer only. */
	id = drop_eog(v, found, "<|end|>", "<|return|>", "<|call|>");
	if (id < 0)
		id = drop_eog(v, found, "<|end|>", "<|calls|>", "<|flush|>");
	if (id >= 0)
		v->frame[v->n_frame++] = id;
	(void)drop_eog(v, found, "</s>", "<|tool_response>",
	    "<|tool_response>");
	return 0;
}

static int
open_special(struct pico_vocab *v, const struct pico_gguf *g,
    struct pico_err *err)
{
	static const char add_bos[] = "tokenizer.ggml.add_bos_token";
	struct pico_special *s = &v->special;
	int told;

	if (id_key(v, g, "bos", true, &s->bos, err) < 0 ||
	    id_key(v, g, "eos", true, &s->eos, err) < 0 ||
	    id_key(v, g, "unknown", true, &s->unk, err) < 0 ||
	    id_key(v, g, "seperator", false, &s->sep, err) < 0 ||
	    id_key(v, g, "padding", false, &s->pad, err) < 0 ||
	    id_key(v, g, "cls", false, &s->cls, err) < 0 ||
	    id_key(v, g, "mask", false, &s->mask, err) < 0)
		return -1;
	told = pico_gguf_bool(g, add_bos, &s->add_bos, err);
	if (told < 0 || pico_gguf_bool(g, "tokenizer.ggml.add_eos_token",
	    &s->add_eos, err) < 0 || pico_gguf_bool(g,
	    "tokenizer.ggml.add_sep_token", &s->add_sep, err) < 0 ||
	    pico_gguf_bool(g, "tokenizer.ggml.add_space_prefix",
	    &s->add_space_prefix, err) < 0)
		return -1;
	if (s->add_bos && s->bos < 0 && told > 0)
		return fail(err, "key '%s' is true, but the model has no BOS "
		    "token (key 'tokenizer.ggml.bos_token_id')", add_bos);
	if (v->kind == VOCAB_LINES)
		s->add_bos = true;
	if (v->kind == VOCAB_WORDPIECE) {
		/* CLS and SEP, whatever the keys say. */
		if (s->cls >= 0)
			s->bos = s->cls;
		s->add_bos = s->add_sep = true;
		s->add_eos = false;
	}
	s->add_bos = s->add_bos && s->bos >= 0;
	s->add_sep = s->add_sep && s->sep >= 0;
	v->space_first = v->kind == VOCAB_WORDPIECE ||
	    (v->kind == VOCAB_UNIGRAM && v->merge_spaces) ||
	    ((v->kind == VOCAB_SPM || v->kind == VOCAB_LINES ||
	    v->kind == VOCAB_UNIGRAM) && s->add_space_prefix);
	return open_ends(v, g, err);
}

/* ---- opening ---- */

static const struct {
	const char *name;	/* value of tokenizer.ggml.model */
	enum vocab_kind kind;
	int (*open)(struct pico_vocab *v, const struct pico_gguf *g,
	    const char *pre, struct pico_err *err);
} kinds[] = {
	{ "llama", VOCAB_SPM, open_spm },
	{ "gpt2", VOCAB_BPE, open_bpe },
	{ "bert", VOCAB_WORDPIECE, open_wordpiece },
	{ "t5", VOCAB_UNIGRAM, open_unigram },
	{ "rwkv", VOCAB_RWKV, open_rwkv },
	{ "gemma4", VOCAB_LINES, open_lines }
};

static int
open_kind(struct pico_vocab *v, const struct pico_gguf *g, const char *pre,
    struct pico_err *err)
{
	static const char key[] = "tokenizer.ggml.model";
	int found = pico_gguf_str(g, key, &v->kind_name, err);
	size_t i;

	if (found < 0)
		return -1;
	if (found == 0)
		return fail(err, "key '%s' is missing", key);
	if (pico_str_is(v->kind_name, "none") ||
	    pico_str_is(v->kind_name, "no_vocab"))
		return open_none(v, g, err);
	for (i = 0; i < COUNT(kinds); i++)
		if (pico_str_is(v->kind_name, kinds[i].name))
			break;
	if (i == COUNT(kinds))
		return fail(err, "%s '%s' is not supported", key,
		    show_str(v->kind_name));
	v->kind = kinds[i].kind;
	if (pre != NULL && v->kind != VOCAB_BPE)
		return fail_usage(err, "pre-tokenizer '%s': a tokenizer of kind "
		    "'%s' has none", show(pre, strlen(pre)), kinds[i].name);
	if (open_tokens(v, g, err) < 0 || kinds[i].open(v, g, pre, err) < 0 ||
	    open_lstrip(v, g, err) < 0)
		return -1;
	return open_special(v, g, err);
}

struct pico_vocab *
pico_vocab_open(const struct pico_gguf *g, const char *pre,
    struct pico_err *err)
{
	struct pico_vocab *v = mem_new(1, sizeof *v, "vocabulary", err);

	if (v == NULL)
		return NULL;
	v->special = (struct pico_special){ .bos = -1, .eos = -1, .eot = -1,
	    .eom = -1, .unk = -1, .sep = -1, .pad = -1, .cls = -1,
	    .mask = -1 };
	if (open_kind(v, g, pre, err) < 0) {
		pico_vocab_close(v);
		return NULL;
	}
	return v;
}

void
pico_vocab_close(struct pico_vocab *v)
{
	if (v == NULL)
		return;
	free(v->at);
	free(v->type);
	free(v);
}

/* ---- asking ---- */

int32_t
pico_vocab_n(const struct pico_vocab *v)
{
	return v->n;
}

struct pico_str
pico_vocab_text(const struct pico_vocab *v, int32_t id)
{
	return v->kind == VOCAB_NONE ? (struct pico_str){ "", 0 } :
	    vocab_text(v, id);
}

enum pico_token_type
pico_vocab_type(const struct pico_vocab *v, int32_t id)
{
	return v->kind == VOCAB_NONE ? PICO_TOK_UNDEFINED : v->type[id];
}

float
pico_vocab_score(const struct pico_vocab *v, int32_t id)
{
	return v->scores == NULL ? 0 :
	    (float)pico_kv_real_at(v->scores, (uint64_t)id);
}

const char *
pico_token_type_name(enum pico_token_type type)
{
	static const char *const name[] = { "undefined", "normal", "unknown",
	    "control", "user", "unused", "byte" };

	return name[(unsigned)type < COUNT(name) ? type : 0];
}

const struct pico_special *
pico_vocab_special(const struct pico_vocab *v)
{
	return &v->special;
}

const char *
pico_vocab_note(const struct pico_vocab *v)
{
	return v->note;
}

const int32_t *
pico_vocab_eog(const struct pico_vocab *v, size_t *n)
{
	*n = v->n_eog;
	return v->eog;
}

bool
pico_vocab_is_eog(const struct pico_vocab *v, int32_t id)
{
	size_t i;

	for (i = 0; i < v->n_eog; i++)
		if (v->eog[i] == id)
			return true;
	return false;
}

bool
vocab_is_control(const struct pico_vocab *v, int32_t id)
{
	return v->type[id] == PICO_TOK_CONTROL ||
	    v->type[id] == PICO_TOK_UNKNOWN || pico_vocab_is_eog(v, id);
}
