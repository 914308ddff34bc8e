/* SPDX-License-Identifier: MIT */
/* The vocabulary: from whichever file has it, with added tokens, special ids and
   chat templates from their several places. */
#include <inttypes.h>

#include "convert.h"

#define CONFIG_NAME "tokenizer_config.json"

void
words_free(struct words *w)
{
	free(w->text);
	free(w->type);
	free(w->score);
	free(w->merge);
	free(w->template_name);
	arena_free(&w->arena);
}

/* ---- tokens ---- */

int
words_put(struct pico_convert *c, const char *file, uint64_t id,
    struct pico_str text, int type, float score, struct pico_err *err)
{
	struct words *w = &c->words;

	if (id >= w->n)
		return fail(err, "'%s' has token %" PRIu64 ", vocab_size of "
		    "config.json is %" PRIu32, file, id, w->n);
	if (text.n > TOKEN_MAX)
		return fail(err, "'%s': token %" PRIu64 " has %zu bytes, at "
		    "most %d are allowed", file, id, text.n, TOKEN_MAX);
	w->text[id] = text;
	w->type[id] = type;
	w->score[id] = score;
	return 0;
}

static bool
looks_special(struct pico_str s)
{
	static const char *const texts[] = {
		"<pad>", "<mask>", "<2mass>", "[@BOS@]"
	};
	size_t i;

	for (i = 0; i < COUNT(texts); i++)
		if (pico_str_is(s, texts[i]))
			return true;
	return (str_begins(s, "<|") && str_ends(s, "|>")) ||
	    (str_begins(s, "<\xef\xbd\x9c") && str_ends(s, "\xef\xbd\x9c>")) ||
	    (str_begins(s, "<unused") && str_ends(s, ">"));
}

int
unmark(struct words *w, struct pico_str *text, struct pico_err *err)
{
	struct pico_str new;
	size_t i, n = 0;
	char *to;

	for (i = 0; i + SPACE_MARK_LEN <= text->n; i++)
		n += memcmp(text->p + i, SPACE_MARK, SPACE_MARK_LEN) == 0;
	if (n == 0)
		return 0;
	new = arena_join(&w->arena, *text, (struct pico_str){ "", 0 }, err);
	if (new.p == NULL)
		return -1;
	to = (char *)(uintptr_t)new.p;
	for (i = n = 0; i < text->n;)
		if (text->n - i >= SPACE_MARK_LEN && memcmp(text->p + i,
		    SPACE_MARK, SPACE_MARK_LEN) == 0) {
			to[n++] = ' ';
			i += SPACE_MARK_LEN;
		} else {
			to[n++] = text->p[i++];
		}
	*text = (struct pico_str){ new.p, n };
	return 0;
}

int
words_add(struct pico_convert *c, const char *file, uint64_t id,
    struct pico_str text, bool special, bool by_look, struct pico_err *err)
{
	bool control = special || (by_look && looks_special(text));

	if (!control && unmark(&c->words, &text, err) < 0)
		return -1;
	return words_put(c, file, id, text, control ? PICO_TOK_CONTROL :
	    PICO_TOK_USER, -1000, err);
}

int
added_tokens(struct pico_convert *c, bool by_look, struct pico_err *err)
{
	const struct doc *d = &c->tokenizer;
	uint32_t list = doc_get(d, 0, "added_tokens"), i;
	struct pico_str text;
	bool special;
	uint64_t id;

	if (list == JSON_NONE)
		return 0;
	if (d->json.node[list].kind != JSON_ARRAY)
		return fail(err, "'%s': added_tokens is %s, should be a list",
		    d->name, doc_kind(d, list));
	for (i = d->json.node[list].first; i != JSON_NONE;
	    i = d->json.node[i].next) {
		special = false;
		if (doc_whole(d, doc_get(d, i, "id"), &id) <= 0 ||
		    doc_str(d, doc_get(d, i, "content"), &text) <= 0 ||
		    doc_bool(d, doc_get(d, i, "special"), &special) < 0)
			return fail(err, "'%s': an added token without id and "
			    "content", d->name);
		/* in place of one of the vocabulary, but not of another */
		if (c->words.model == NULL && id < c->words.n &&
		    (c->words.type[id] == PICO_TOK_CONTROL ||
		    c->words.type[id] == PICO_TOK_USER))
			return fail(err, "'%s': two added tokens have the id %"
			    PRIu64, d->name, id);
		if (words_add(c, d->name, id, text, special, by_look, err) < 0)
			return -1;
	}
	return 0;
}

/* added_tokens.json: ids by texts. */
static int
added_file(struct pico_convert *c, struct pico_err *err)
{
	const struct doc *d = &c->added;
	uint32_t i;
	uint64_t id;

	if (!d->there)
		return 0;
	for (i = d->json.node[0].first; i != JSON_NONE;
	    i = d->json.node[i].next)
		if (doc_whole(d, i, &id) < 0)
			return fail(err, "'%s': the id of '%s' is no whole "
			    "number", d->name, show_str(d->json.node[i].key));
		else if (words_put(c, d->name, id, d->json.node[i].key,
		    PICO_TOK_USER, -1000, err) < 0)
			return -1;
	return 0;
}

/* added_tokens_decoder of tokenizer_config.json: tokens by ids as strings. */
static int
added_decoder(struct pico_convert *c, struct pico_err *err)
{
	const struct doc *d = &c->tokenizer_config;
	uint32_t list = doc_get(d, 0, "added_tokens_decoder"), i;
	struct pico_str text;
	char number[24];
	bool special;
	int64_t id;

	if (list == JSON_NONE)
		return 0;
	if (d->json.node[list].kind != JSON_OBJECT)
		return fail(err, "'%s': added_tokens_decoder is %s, should be "
		    "an object", d->name, doc_kind(d, list));
	for (i = d->json.node[list].first; i != JSON_NONE;
	    i = d->json.node[i].next) {
		special = false;
		(void)snprintf(number, sizeof number, "%.*s",
		    (int)MIN(d->json.node[i].key.n, sizeof number),
		    d->json.node[i].key.p);
		if (pico_parse_int(number, 0, INT64_MAX, &id, NULL) < 0 ||
		    doc_str(d, doc_get(d, i, "content"), &text) <= 0 ||
		    doc_bool(d, doc_get(d, i, "special"), &special) < 0)
			return fail(err, "'%s': added token '%s' has no id or "
			    "no content", d->name,
			    show_str(d->json.node[i].key));
		if (words_add(c, d->name, (uint64_t)id, text, special, true,
		    err) < 0)
			return -1;
	}
	return 0;
}

static int
read_model_file(struct pico_convert *c, struct pico_err *err)
{
	struct words *w = &c->words;
	bool dummy, given;
	char path[4096];
	uint32_t id;

	if (folder_path(path, sizeof path, c->dir, str_of("tokenizer.model"),
	    err) < 0 || map_open(&c->spm, path, err) < 0)
		return -1;
	w->model = "llama";
	w->pre = "default";
	if (sentencepiece_read(c, c->spm.p, (size_t)c->spm.n, &dummy, err) < 0)
		return -1;
	w->add_space = dummy;
	if (doc_bool(&c->tokenizer_config, doc_get(&c->tokenizer_config, 0,
	    "add_prefix_space"), &given) > 0 &&
	    (c->class->traits & SPACE_GIVEN))
		w->add_space = given;
	if (strcmp(c->class->arch, "internlm2") == 0)
		for (id = 0; id < w->n; id++)
			if (w->text[id].p != NULL &&
			    str_begins(w->text[id], "[UNUSED"))
				w->type[id] = PICO_TOK_UNUSED;
	if (added_file(c, err) < 0 || added_decoder(c, err) < 0)
		return -1;
	if (strcmp(c->class->arch, "internlm2") == 0)
		return added_tokens(c, true, err);
	return strcmp(c->class->arch, "phi3") == 0 ?
	    added_tokens(c, false, err) : 0;
}

/* Whether tokenizer.model is what counts. */
static bool
wants_model_file(struct pico_convert *c)
{
	struct pico_str name;

	if (c->class->spm == SPM_NEVER ||
	    !folder_has(c->dir, "tokenizer.model") ||
	    (c->class->spm == SPM_LAST && c->tokenizer.there))
		return false;
	/* of the same class with two kinds of tokenizers */
	return !(strcmp(c->class->arch, "phi3") == 0 &&
	    doc_str(&c->tokenizer_config, doc_get(&c->tokenizer_config, 0,
	    "tokenizer_class"), &name) > 0 &&
	    pico_str_is(name, "GPT2Tokenizer"));
}

/* Ids without a text are those that only make the vocabulary rounder. */
static int
fill_holes(struct words *w, struct pico_err *err)
{
	char text[32];
	uint32_t id;

	for (id = 0; id < w->n; id++) {
		if (w->text[id].p != NULL)
			continue;
		(void)snprintf(text, sizeof text, "[PAD%" PRIu32 "]", id);
		w->text[id] = arena_join(&w->arena, str_of(text),
		    (struct pico_str){ "", 0 }, err);
		if (w->text[id].p == NULL)
			return -1;
		w->type[id] = PICO_TOK_UNUSED;
		w->score[id] = -10000;
	}
	return 0;
}

/* ---- special ids ---- */

static const struct {
	const char *token, *id, *key;
} special[N_IDS] = {
	{ "bos_token", "bos_token_id", "tokenizer.ggml.bos_token_id" },
	{ "eos_token", "eos_token_id", "tokenizer.ggml.eos_token_id" },
	{ "unk_token", "unk_token_id", "tokenizer.ggml.unknown_token_id" },
	/* spelt so in the format */
	{ "sep_token", "sep_token_id", "tokenizer.ggml.seperator_token_id" },
	{ "pad_token", "pad_token_id", "tokenizer.ggml.padding_token_id" },
	{ "cls_token", "cls_token_id", "tokenizer.ggml.cls_token_id" },
	{ "mask_token", "mask_token_id", "tokenizer.ggml.mask_token_id" },
};

/* The id of an added token of tokenizer.json. */
static bool
find_added(const struct pico_convert *c, struct pico_str text, uint64_t *id)
{
	const struct doc *d = &c->tokenizer;
	uint32_t list = doc_get(d, 0, "added_tokens"), i;
	struct pico_str content;

	if (list == JSON_NONE || d->json.node[list].kind != JSON_ARRAY)
		return false;
	for (i = d->json.node[list].first; i != JSON_NONE;
	    i = d->json.node[i].next)
		if (doc_str(d, doc_get(d, i, "content"), &content) > 0 &&
		    pico_str_compare(content, text) == 0)
			return doc_whole(d, doc_get(d, i, "id"), id) > 0;
	return false;
}

static bool
find_text(const struct words *w, struct pico_str text, uint64_t *id)
{
	for (*id = 0; *id < w->n; ++*id)
		if (pico_str_compare(w->text[*id], text) == 0)
			return true;
	return false;
}

static int
find_special(struct pico_convert *c, int which, struct pico_err *err)
{
	const struct doc *t = &c->tokenizer_config;
	uint32_t node = doc_get(t, 0, special[which].token), config;
	struct pico_str text = { NULL, 0 };
	uint64_t id;
	int r;

	if (node != JSON_NONE && t->json.node[node].kind == JSON_OBJECT)
		node = doc_get(t, node, "content");
	(void)doc_str(t, node, &text);
	config = doc_get(&c->config, 0, special[which].id);
	if (config == JSON_NONE)
		config = config_get(c, special[which].id);
	if (text.p != NULL && find_added(c, text, &id)) {
		c->words.id[which] = (int64_t)id;
		return 0;
	}
	/* a list is of those that end a generation: found by their texts */
	r = config != JSON_NONE && c->config.json.node[config].kind ==
	    JSON_NUMBER ? doc_whole(&c->config, config, &id) : 0;
	if (r < 0)
		return fail(err, "'config.json': %s is %s, should be a whole "
		    "number", special[which].id,
		    show_str(c->config.json.node[config].text));
	if (r == 0 && (text.p == NULL || !find_text(&c->words, text, &id)))
		return 0;
	if (id < c->words.n)
		c->words.id[which] = (int64_t)id;
	return 0;
}

/* What the post-processor of tokenizer.json puts around a text. */
static void
read_template(struct pico_convert *c)
{
	const struct doc *d = &c->tokenizer;
	uint32_t node = doc_get(d, 0, "post_processor"), list, i, end[2];
	struct pico_str type, text;
	bool put[2] = { false, false };
	int64_t bos = c->words.id[ID_BOS], eos = c->words.id[ID_EOS];
	int64_t cls = c->words.id[ID_CLS], sep = c->words.id[ID_SEP], id;
	int k;

	list = doc_get(d, node, "processors");
	if (list != JSON_NONE && d->json.node[list].kind == JSON_ARRAY)
		for (i = d->json.node[list].first; i != JSON_NONE;
		    i = d->json.node[i].next)
			if (doc_str(d, doc_get(d, i, "type"), &type) > 0 &&
			    pico_str_is(type, "TemplateProcessing"))
				node = i;
	list = doc_get(d, node, "single");
	if (list != JSON_NONE && d->json.node[list].kind == JSON_ARRAY) {
		end[0] = end[1] = d->json.node[list].first;
		for (i = end[0]; i != JSON_NONE; i = d->json.node[i].next)
			end[1] = i;
		for (k = 0; k < 2; k++) {
			if (doc_str(d, doc_get(d, doc_get(d, end[k],
			    "SpecialToken"), "id"), &text) <= 0)
				continue;
			for (id = 0; id < c->words.n && !put[k]; id++)
				put[k] = (id == (k ? eos : bos) ||
				    id == (k ? sep : cls)) &&
				    pico_str_compare(c->words.text[id],
				    text) == 0;
		}
	}
	c->words.add_bos = put[0];
	c->words.add_eos = put[1];
}

static int
read_special(struct pico_convert *c, struct pico_err *err)
{
	const struct doc *t = &c->tokenizer_config;
	struct words *w = &c->words;
	uint64_t id;
	bool v;
	int i;

	for (i = 0; i < N_IDS; i++)
		if (find_special(c, i, err) < 0)
			return -1;
	if (strcmp(c->class->arch, "internlm2") == 0 &&
	    find_text(w, str_of("<|im_end|>"), &id) &&
	    w->type[id] == PICO_TOK_CONTROL)
		w->id[ID_EOS] = (int64_t)id;
	if (c->tokenizer.there)
		read_template(c);
	if (doc_bool(t, doc_get(t, 0, "add_bos_token"), &v) > 0)
		w->add_bos = v;
	if (doc_bool(t, doc_get(t, 0, "add_eos_token"), &v) > 0)
		w->add_eos = v;
	if (c->class->traits & NO_BOS)
		w->add_bos = false;
	return 0;
}

/* ---- chat templates ---- */

#define TEMPLATE_KEY "tokenizer.chat_template"
#define TEMPLATES 100	/* in one list */

/* A name in a key has letters and digits only. */
static int
add_named(struct pico_convert *c, struct pico_str name, struct pico_str text,
    struct pico_err *err)
{
	struct words *w = &c->words;
	char key[190];
	size_t i, n = sizeof TEMPLATE_KEY;

	if (pico_str_is(name, "default"))
		return meta_str(&c->meta, TEMPLATE_KEY, text, err);
	if (name.n == 0 || name.n > 128)
		return fail(err, "a chat template has a name of %zu bytes",
		    name.n);
	memcpy(key, TEMPLATE_KEY ".", n);
	for (i = 0; i < name.n; i++) {
		char ch = name.p[i];

		key[n++] = (ch >= 'a' && ch <= 'z') || (ch >= 'A' &&
		    ch <= 'Z') || (ch >= '0' && ch <= '9') ? ch : '_';
	}
	key[n] = '\0';
	w->template_name[w->n_templates++] = name;
	return meta_str(&c->meta, key, text, err);
}

static int
template_list(struct pico_convert *c, const struct doc *d, uint32_t list,
    struct pico_err *err)
{
	struct pico_str name, text;
	size_t n = 0;
	uint32_t i;

	for (i = d->json.node[list].first; i != JSON_NONE;
	    i = d->json.node[i].next)
		n++;
	if (n > TEMPLATES)
		return fail(err, "'%s' has %zu chat templates, at most %d are "
		    "allowed", d->name, n, TEMPLATES);
	c->words.template_name = mem_new(n, sizeof *c->words.template_name,
	    "chat templates", err);
	if (c->words.template_name == NULL)
		return -1;
	for (i = d->json.node[list].first; i != JSON_NONE;
	    i = d->json.node[i].next) {
		if (doc_str(d, doc_get(d, i, "name"), &name) <= 0 ||
		    doc_str(d, doc_get(d, i, "template"), &text) <= 0)
			return fail(err, "'%s': a chat template without name "
			    "and text", d->name);
		if (text.n > 0 && add_named(c, name, text, err) < 0)
			return -1;
	}
	return c->words.n_templates == 0 ? 0 : meta_array(&c->meta,
	    "tokenizer.chat_templates", PICO_KV_STR, c->words.template_name,
	    c->words.n_templates, err);
}

static int
take_template(struct pico_convert *c, const struct doc *d,
    struct pico_err *err)
{
	uint32_t node = doc_get(d, 0, "chat_template");
	struct pico_str text;

	if (node == JSON_NONE)
		return 0;
	if (d->json.node[node].kind == JSON_ARRAY)
		return template_list(c, d, node, err) < 0 ? -1 : 1;
	if (doc_str(d, node, &text) < 0)
		return fail(err, "'%s': chat_template is %s", d->name,
		    doc_kind(d, node));
	return text.n > 0 && meta_str(&c->meta, TEMPLATE_KEY, text, err) < 0 ?
	    -1 : 1;
}

static int
read_templates(struct pico_convert *c, struct pico_err *err)
{
	static const char file[] = "chat_template.jinja";
	struct pico_str text;
	char path[4096];
	int r = take_template(c, &c->tokenizer_config, err);

	if (r != 0)
		return r < 0 ? -1 : 0;
	if (!folder_has(c->dir, file))
		return take_template(c, &c->template_json, err) < 0 ? -1 : 0;
	if (folder_path(path, sizeof path, c->dir, str_of(file), err) < 0 ||
	    map_open(&c->template, path, err) < 0)
		return -1;
	text = (struct pico_str){ (const char *)c->template.p,
	    (size_t)c->template.n };
	return text.n == 0 ? 0 : meta_str(&c->meta, TEMPLATE_KEY, text, err);
}

/* ---- keys ---- */

static int
write_words(struct pico_convert *c, struct pico_err *err)
{
	struct words *w = &c->words;
	struct meta *m = &c->meta;
	int i;

	if (meta_str(m, "tokenizer.ggml.model", str_of(w->model), err) < 0 ||
	    meta_str(m, "tokenizer.ggml.pre", str_of(w->pre), err) < 0 ||
	    meta_array(m, "tokenizer.ggml.tokens", PICO_KV_STR, w->text, w->n,
	    err) < 0 || meta_array(m, "tokenizer.ggml.token_type", PICO_KV_I32,
	    w->type, w->n, err) < 0)
		return -1;
	if (strcmp(w->model, "llama") == 0 && meta_array(m,
	    "tokenizer.ggml.scores", PICO_KV_F32, w->score, w->n, err) < 0)
		return -1;
	if (w->n_merges > 0 && meta_array(m, "tokenizer.ggml.merges",
	    PICO_KV_STR, w->merge, w->n_merges, err) < 0)
		return -1;
	for (i = 0; i < N_IDS; i++)
		if (w->id[i] >= 0 && meta_whole(m, special[i].key,
		    (uint64_t)w->id[i], err) < 0)
			return -1;
	return (w->add_bos >= 0 && meta_bool(m, "tokenizer.ggml.add_bos_token",
	    w->add_bos, err) < 0) ||
	    (w->add_eos >= 0 && meta_bool(m, "tokenizer.ggml.add_eos_token",
	    w->add_eos, err) < 0) ||
	    (w->add_space >= 0 && meta_bool(m,
	    "tokenizer.ggml.add_space_prefix", w->add_space, err) < 0) ? -1 :
	    0;
}

int
vocab_read(struct pico_convert *c, struct pico_err *err)
{
	struct words *w = &c->words;
	int i, r;

	w->n = SIZE(&c->sizes, 'V');
	w->add_space = w->add_bos = w->add_eos = -1;
	for (i = 0; i < N_IDS; i++)
		w->id[i] = -1;
	w->text = mem_new(w->n, sizeof *w->text, "vocabulary", err);
	w->type = mem_new(w->n, sizeof *w->type, "vocabulary", err);
	w->score = mem_new(w->n, sizeof *w->score, "vocabulary", err);
	if (w->text == NULL || w->type == NULL || w->score == NULL ||
	    doc_open(&c->tokenizer_config, c->dir, CONFIG_NAME, err) < 0 ||
	    doc_open(&c->tokenizer, c->dir, "tokenizer.json", err) < 0 ||
	    doc_open(&c->added, c->dir, "added_tokens.json", err) < 0 ||
	    doc_open(&c->template_json, c->dir, "chat_template.json", err) < 0)
		return -1;
	if (wants_model_file(c))
		r = read_model_file(c, err);
	else if (c->tokenizer.there)
		r = tokenizer_json_read(c, err);
	else
		r = fail(err, "'%s' has no tokenizer that a %s can have: no "
		    "tokenizer.json%s", show(c->dir, strlen(c->dir)),
		    c->class->name, c->class->spm != SPM_NEVER ?
		    ", no tokenizer.model" : "");
	if (r < 0)
		return -1;
	if (c->class->traits & NO_SPACE)
		w->add_space = false;
	return fill_holes(w, err) < 0 || read_special(c, err) < 0 ||
	    write_words(c, err) < 0 ? -1 : read_templates(c, err);
}
