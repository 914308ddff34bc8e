/* SPDX-License-Identifier: MIT */
/*
 * A template, a NUL, a message in JSON: what comes out has as many marks as
 * bytes, and of its tokens, those that control something are frame only.
 */
#include "fuzz.h"

static struct pico_gguf *g;
static struct pico_vocab *v;
static struct pico_tokenizer *t;

static void
open_model(void)
{
	struct pico_err err = {0};

	if (t != NULL)
		return;
	MUST(pico_gguf_open(&g, "examples/model/pico-tales.gguf", 0,
	    &err) == 0);
	v = pico_vocab_open(g, NULL, &err);
	MUST(v != NULL);
	t = pico_tokenizer_new(v, &err);
	MUST(t != NULL);
}

static void
check_tokens(const struct pico_chat_text *text)
{
	struct pico_ids ids = { .end = malloc(sizeof *ids.end) };
	struct pico_err err = {0};
	size_t i, k, from = 0;

	MUST(ids.end != NULL);
	MUST(pico_tokenize_framed(t, text->text, text->n, text->content,
	    PICO_PARSE_SPECIAL, &ids, &err) == 0);
	for (i = 0; i < ids.n; i++) {
		if (pico_vocab_type(v, ids.v[i]) == PICO_TOK_CONTROL)
			for (k = from; k < ids.end[i]; k++)
				MUST(text->content[k] == 0);
		from = ids.end[i];
	}
	free(ids.v);
	free(ids.end);
}

static int
set(struct pico_chat *c, const char *name, const char *value,
    enum pico_chat_kind kind)
{
	struct pico_err err = {0};

	return pico_chat_set(c, (struct pico_str){ name, strlen(name) },
	    (struct pico_str){ value, strlen(value) }, kind, &err);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char json[] = "[{\"role\":\"system\",\"content\":\"S\"},"
	    "{\"role\":\"user\",\"content\":\" Hi</s> \\u00fc\"},"
	    "{\"role\":\"assistant\",\"content\":\"<think>a</think>b\"},"
	    "{\"role\":\"user\",\"content\":\"<s>\"}]";
	static const char tools[] = "[{\"type\":\"function\",\"function\":"
	    "{\"name\":\"f</s>\",\"n\":[1,2.5,null,true]}}]";
	const uint8_t *nul = n > 0 ? memchr(data, 0, n) : NULL;
	size_t len = nul != NULL ? (size_t)(nul - data) : n;
	struct pico_chat_text text;
	struct pico_err err = {0};
	struct pico_chat *c;
	unsigned flags = PICO_CHAT_PROMPT;
	int r;

	open_model();
	c = pico_chat_new((struct pico_str){ (const char *)data, len }, &err);
	fuzz_check(c == NULL, &err);
	if (c == NULL)
		return 0;
	MUST(set(c, "tools", tools, PICO_CHAT_JSON) == 0);
	MUST(set(c, "bos_token", "<s>", PICO_CHAT_FRAME) == 0);
	MUST(set(c, "eos_token", "</s>", PICO_CHAT_FRAME) == 0);
	MUST(pico_chat_date(c, "2026-01-02T03:04:05", &err) == 0);
	MUST(pico_chat_message_json(c, (struct pico_str){ json,
	    sizeof json - 1 }, &err) == 0);
	if (nul != NULL) {
		r = pico_chat_message_json(c, (struct pico_str){
		    (const char *)nul + 1, n - len - 1 }, &err);
		fuzz_check(r < 0, &err);
		err = (struct pico_err){0};
		flags |= n % 2 ? PICO_CHAT_CONTINUE : 0;
	}
	r = pico_chat_render(c, flags, &text, &err);
	fuzz_check(r < 0, &err);
	if (r == 0 && text.n < 100000)
		check_tokens(&text);
	pico_chat_free(c);
	return 0;
}
