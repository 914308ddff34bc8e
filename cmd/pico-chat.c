/* SPDX-License-Identifier: MIT */
/* pico-chat: messages to tokens, framed as the model was trained to see them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

static const struct cmd cmd = {
	"pico-chat",
	"[-bv] [--text] [--continue] [-m FILE] [option ...] [role:text ...]",
	"Frames messages, from operands or JSON lines, for a model to answer."
};

static const char *model, *name, *file, *bos_text, *eos_text, *tools, *date;
static struct pico_list variables;
static bool binary, text_only, no_prompt, goes_on, cut, verbose;

static const struct pico_opt options[] = {
	{ 'm', "model", PICO_OPT_TEXT, &model, "FILE",
	    "the model (default: $PICO_MODEL)", 0, 0, NULL },
	{ 0, "text", PICO_OPT_FLAG, &text_only, NULL,
	    "write the text, not its tokens", 0, 0, NULL },
	{ 0, "template", PICO_OPT_TEXT, &name, "NAME",
	    "a template of the model or a built-in one (help: list)", 0, 0,
	    NULL },
	{ 0, "template-file", PICO_OPT_TEXT, &file, "FILE",
	    "the template", 0, 0, NULL },
	{ 0, "bos-text", PICO_OPT_TEXT, &bos_text, "TEXT",
	    "bos_token of the template, not the model's", 0, 0, NULL },
	{ 0, "eos-text", PICO_OPT_TEXT, &eos_text, "TEXT",
	    "eos_token of the template, not the model's", 0, 0, NULL },
	{ 0, "no-generation-prompt", PICO_OPT_FLAG, &no_prompt, NULL,
	    "without the beginning of the answer", 0, 0, NULL },
	{ 0, "continue", PICO_OPT_FLAG, &goes_on, NULL,
	    "only what follows the last answer, for a session", 0, 0, NULL },
	{ 0, "cut", PICO_OPT_FLAG, &cut, NULL,
	    "that answer was cut off: with the token that ends it", 0, 0,
	    NULL },
	{ 0, "tools", PICO_OPT_TEXT, &tools, "FILE",
	    "JSON list of the tools that the model may call", 0, 0, NULL },
	{ 0, "set", PICO_OPT_LIST, &variables, "NAME=VALUE",
	    "a variable of the template: JSON, or else text", 0, 0, NULL },
	{ 0, "date", PICO_OPT_TEXT, &date, "DATE",
	    "the time for the template, 2026-01-31T23:59:59 (now)", 0, 0,
	    NULL },
	{ 'b', "binary", PICO_OPT_FLAG, &binary, NULL,
	    "write a binary token stream", 0, 0, NULL },
	{ 'v', "verbose", PICO_OPT_FLAG, &verbose, NULL,
	    "statistics on standard error", 0, 0, NULL },
	CMD_OPTIONS
};

static struct pico_gguf *gguf;
static struct pico_vocab *vocab;
static struct pico_chat *chat;

static struct pico_str
str(const char *text)
{
	return (struct pico_str){ text, strlen(text) };
}

static void
list_layouts(void)
{
	const char *layout;
	size_t i;

	for (i = 0; pico_chat_layout(i, &layout) != NULL; i++)
		(void)printf("%s\n", layout);
	exit(cmd_finish(0));
}

static void
check_options(void)
{
	if (name != NULL && file != NULL)
		cmd_usage("options --template and --template-file exclude "
		    "each other");
	if (text_only && binary)
		cmd_usage("options -b and --text exclude each other");
	if (cut && !goes_on)
		cmd_usage("option --cut needs --continue");
	if (goes_on && no_prompt)
		cmd_usage("options --continue and --no-generation-prompt "
		    "exclude each other");
	if (binary)
		cmd_no_terminal("option -b: binary output");
}

/* A text needs no model, unless its template is the model's. */
static void
open_model(void)
{
	struct pico_err err = {0};
	const char *path;

	if (text_only && model == NULL && (name != NULL || file != NULL))
		return;
	path = cmd_model(model);
	if (pico_gguf_open(&gguf, path, PICO_GGUF_HEADER, &err) < 0)
		cmd_die(&err);
	vocab = pico_vocab_open(gguf, NULL, &err);
	if (vocab == NULL)
		cmd_die_in(path, &err);
	if (pico_vocab_note(vocab) != NULL)
		cmd_warn("%s", pico_vocab_note(vocab));
}

static char *
read_file(const char *path, size_t *n)
{
	const char *for_messages;
	int fd = cmd_open(path, &for_messages);
	char *text = cmd_read_all(fd, for_messages, n);

	if (fd != STDIN_FILENO)
		(void)close(fd);
	return text;
}

/* Whether the vocabulary has both marks of the layout chatml. */
static bool
knows_chatml(void)
{
	int32_t id, found = 0;

	for (id = 0; id < pico_vocab_n(vocab); id++)
		found += pico_vocab_type(vocab, id) == PICO_TOK_CONTROL &&
		    (pico_str_is(pico_vocab_text(vocab, id), "<|im_start|>") ||
		    pico_str_is(pico_vocab_text(vocab, id), "<|im_end|>"));
	return found >= 2;
}

static struct pico_str
model_template(void)
{
	struct pico_err err = {0};
	struct pico_str text;
	int got = 0;

	if (tools != NULL)	/* some have one for this */
		got = pico_chat_find(gguf, "tool_use", &text, &err);
	if (got == 0)
		got = pico_chat_find(gguf, NULL, &text, &err);
	if (got < 0)
		cmd_die(&err);
	if (got > 0)
		return text;
	if (!knows_chatml())
		cmd_fail("the model has no chat template: choose one with "
		    "--template NAME (--template help lists them)");
	cmd_warn("the model has no chat template: using 'chatml', whose "
	    "tokens it has");
	(void)pico_chat_find(NULL, "chatml", &text, &err);
	return text;
}

static void
open_chat(void)
{
	struct pico_err err = {0};
	struct pico_str text;
	char *buf = NULL;
	int got;

	if (file != NULL) {
		buf = read_file(file, &text.n);
		text.p = buf;
	} else if (name != NULL) {
		got = pico_chat_find(gguf, name, &text, &err);
		if (got < 0)
			cmd_die(&err);
		if (got == 0)
			cmd_usage("option --template: '%s' is not known; "
			    "--template help lists what is", name);
	} else {
		text = model_template();
	}
	chat = pico_chat_new(text, &err);
	if (chat == NULL)
		cmd_die(&err);
	free(buf);
}

static void
set(const char *variable, struct pico_str value, enum pico_chat_kind kind)
{
	struct pico_err err = {0};

	if (pico_chat_set(chat, str(variable), value, kind, &err) < 0)
		cmd_die(&err);
}

static void
set_token(const char *variable, const char *text, int32_t id)
{
	if (text != NULL)
		set(variable, str(text), PICO_CHAT_FRAME);
	else if (id >= 0)
		set(variable, pico_vocab_text(vocab, id), PICO_CHAT_FRAME);
}

static void
set_variables(void)
{
	static const struct pico_special no_ids = { .bos = -1, .eos = -1,
	    .unk = -1, .pad = -1 };
	const struct pico_special *ids = vocab != NULL ?
	    pico_vocab_special(vocab) : &no_ids;
	struct pico_err err = {0};
	struct pico_str json;
	const char *equals;
	char *buf;
	size_t i;

	set_token("bos_token", bos_text, ids->bos);
	set_token("eos_token", eos_text, ids->eos);
	set_token("unk_token", NULL, ids->unk);
	set_token("pad_token", NULL, ids->pad);
	if (tools != NULL) {
		buf = read_file(tools, &json.n);
		json.p = buf;
		if (pico_chat_set(chat, str("tools"), json, PICO_CHAT_JSON,
		    &err) < 0)
			cmd_die_in(tools, &err);
		free(buf);
	}
	for (i = 0; i < variables.n; i++) {
		equals = strchr(variables.v[i], '=');
		if (equals == NULL || equals == variables.v[i])
			cmd_usage("option --set: '%s' is not NAME=VALUE",
			    variables.v[i]);
		if (pico_chat_set(chat, (struct pico_str){ variables.v[i],
		    (size_t)(equals - variables.v[i]) }, str(equals + 1),
		    PICO_CHAT_GUESS, &err) < 0)
			cmd_die(&err);
	}
	if (date != NULL && pico_chat_date(chat, date, &err) < 0)
		cmd_usage("option --date: %s", err.msg);
}

/* "role: text"; one blank behind the colon is not part of the text. */
static void
add_operand(const char *operand)
{
	const char *colon = strchr(operand, ':'), *text;
	struct pico_err err = {0};

	if (colon == NULL)
		cmd_usage("'%s' is not a message such as 'user: hello'",
		    operand);
	text = colon + 1 + (colon[1] == ' ');
	if (pico_chat_message(chat, (struct pico_str){ operand,
	    (size_t)(colon - operand) }, str(text), &err) < 0)
		cmd_usage("'%s' is not a message such as 'user: hello': %s",
		    operand, err.msg);
}

static void
add_lines(void)
{
	struct pico_err err = {0};
	size_t n, i, line = 1;
	char *text = cmd_read_all(STDIN_FILENO, "standard input", &n), *end;

	for (i = 0; i < n; line++) {
		size_t len, blank = 0;

		end = memchr(text + i, '\n', n - i);
		len = end != NULL ? (size_t)(end - text) - i : n - i;
		while (blank < len && memchr(" \t\r", text[i + blank], 3))
			blank++;
		if (blank < len && pico_chat_message_json(chat,
		    (struct pico_str){ text + i, len }, &err) < 0)
			cmd_fail("line %zu: %.400s", line, err.msg);
		i += len + 1;
	}
	free(text);
}

static size_t
put_tokens(const struct pico_chat_text *text)
{
	struct pico_tokenizer *t;
	struct pico_tokens_out out;
	struct pico_err err = {0};
	struct pico_ids ids = {0};
	size_t i, n;

	t = pico_tokenizer_new(vocab, &err);
	if (t == NULL || pico_chat_tokenize(t, vocab, text, &ids, &err) < 0)
		cmd_die(&err);
	if (ids.dropped > 0)
		cmd_warn("%zu bytes left out: the vocabulary has no tokens "
		    "for them", ids.dropped);
	pico_tokens_out_init(&out, STDOUT_FILENO, binary);
	out.prompt = false;
	for (i = 0; i < ids.n; i++)
		if (pico_tokens_put(&out, ids.v[i], &err) < 0)
			cmd_die(&err);
	if (pico_tokens_end(&out, PICO_END_LIMIT, &err) < 0 ||
	    pico_tokens_flush(&out, &err) < 0)
		cmd_die(&err);
	n = ids.n;
	free(ids.v);
	pico_tokenizer_free(t);
	return n;
}

int
main(int argc, char **argv)
{
	int i = cmd_start(&cmd, options, argc, argv);
	struct pico_chat_text text;
	struct pico_err err = {0};
	size_t n = 0;

	if (name != NULL && strcmp(name, "help") == 0)
		list_layouts();
	check_options();
	cmd_confine(false);
	open_model();
	open_chat();
	set_variables();
	if (i == argc)
		add_lines();
	for (; i < argc; i++)
		add_operand(argv[i]);
	if (pico_chat_n_messages(chat) == 0)
		cmd_fail("no messages");
	if (pico_chat_render(chat, (no_prompt ? 0u : PICO_CHAT_PROMPT) |
	    (goes_on ? PICO_CHAT_CONTINUE : 0u) |
	    (cut ? PICO_CHAT_CUT : 0u), &text, &err) < 0)
		cmd_die(&err);
	if (text_only)
		(void)fwrite(text.text, 1, text.n, stdout);
	else
		n = put_tokens(&text);
	if (verbose) {
		(void)fprintf(stderr, "messages:\t%zu\nbytes:\t%zu\n",
		    pico_chat_n_messages(chat), text.n);
		if (!text_only)
			(void)fprintf(stderr, "tokens:\t%zu\n", n);
	}
	free(variables.v);
	pico_chat_free(chat);
	pico_vocab_close(vocab);
	pico_gguf_close(gguf);
	return cmd_finish(0);
}
