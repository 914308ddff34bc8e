/* SPDX-License-Identifier: MIT */
/*
 * Chats: templates and layouts against the cases of tests/data/chat and, where
 * they are, of ../shared/conformance/chat; what is frame and what is content;
 * that no words become a control token; what continues a chat.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/text/chat.h"
#include "../../lib/text/jinja.h"

static int n_run, n_failed;

static void
check(bool ok, const char *what, const char *got)
{
	n_run++;
	n_failed += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", n_run, what);
	if (!ok)
		printf("# got: %.900s\n", got);
}

static struct pico_str
str(const char *text)
{
	return (struct pico_str){ text, strlen(text) };
}

static char *
read_file(const char *path, size_t *n)
{
	static char buf[1 << 20];
	FILE *f = fopen(path, "rb");

	*n = 0;
	if (f == NULL)
		return NULL;
	*n = fread(buf, 1, sizeof buf - 1, f);
	(void)fclose(f);
	buf[*n] = '\0';
	return buf;
}

/* ---- cases ---- */

struct cases {
	const char *dir, *file;
	struct str text;
	int n, wrong;
	char message[900];
};

static struct value
get(struct jinja *j, struct value map, const char *key)
{
	struct value *v = map_find(j, map.map, value_text(key));

	return v != NULL ? *v : value_undefined(STR(""));
}

static struct pico_str
as_json(struct jinja *j, struct value v)
{
	struct json_style style = { STR(","), STR(":"), -1, false, false };
	size_t from = j->out.n;
	struct str s;

	value_json(j, &v, &style);
	s = out_take(j, from);
	return (struct pico_str){ s.p, s.n };
}

static struct pico_str
plain(struct value v)
{
	return (struct pico_str){ v.s.p, v.s.n };
}

/* Renders a case: its text, or false. */
static bool
render_case(struct jinja *j, const struct cases *c, struct value file,
    struct value one, struct pico_chat **chat, struct pico_chat_text *text,
    struct pico_err *err)
{
	struct value source = get(j, file, "template_source");
	struct value now = get(j, file, "now"), tools = get(j, one, "tools");
	char path[600], date[40];
	struct pico_str template;
	size_t n;

	(void)snprintf(path, sizeof path, "%s/%.*s", c->dir, (int)source.s.n,
	    source.s.p);
	template.p = read_file(path, &template.n);
	if (template.p == NULL) {	/* the name of a layout */
		(void)snprintf(path, sizeof path, "%.*s", (int)source.s.n,
		    source.s.p);
		if (pico_chat_find(NULL, path, &template, err) <= 0)
			return false;
	}
	*chat = pico_chat_new(template, err);
	if (*chat == NULL)
		return false;
	if (now.kind == V_STR) {
		n = MIN(now.s.n, sizeof date - 1);
		memcpy(date, now.s.p, n);
		date[n] = '\0';
		if (pico_chat_date(*chat, date, err) < 0 ||
		    pico_chat_set(*chat, str("bos_token"), plain(get(j, file,
		    "bos_token")), PICO_CHAT_FRAME, err) < 0 ||
		    pico_chat_set(*chat, str("eos_token"), plain(get(j, file,
		    "eos_token")), PICO_CHAT_FRAME, err) < 0)
			return false;
	}
	if (tools.kind == V_LIST && pico_chat_set(*chat, str("tools"),
	    as_json(j, tools), PICO_CHAT_JSON, err) < 0)
		return false;
	return pico_chat_message_json(*chat, as_json(j, get(j, one,
	    "messages")), err) == 0 && pico_chat_render(*chat,
	    get(j, one, "add_generation_prompt").b ? PICO_CHAT_PROMPT : 0,
	    text, err) == 0;
}

static void
run_case(struct jinja *j, struct cases *c, struct value file, struct value one)
{
	struct value want = get(j, one, "expected");
	struct pico_chat_text text = {0};
	struct pico_chat *chat = NULL;
	struct pico_err err = {0};
	bool got = render_case(j, c, file, one, &chat, &text, &err);

	c->n++;
	if (got != (want.kind == V_STR) || (got && !str_equal(want.s,
	    str_of(text.text, text.n)))) {
		c->wrong++;
		(void)snprintf(c->message, sizeof c->message,
		    "case %d: %s '%.*s'", c->n, err.msg,
		    (int)MIN(text.n, 400), text.text);
	}
	pico_chat_free(chat);
}

static void
run_file(struct jinja *j, void *data)
{
	struct cases *c = data;
	struct value file = json_parse(j, c->text, MARK_FRAME, "cases");
	struct value list = file.kind == V_LIST ? file : get(j, file, "cases");
	size_t i;

	for (i = 0; i < list.list->n; i++)
		run_case(j, c, file.kind == V_LIST ? list.list->v[i] : file,
		    list.list->v[i]);
}

static void
test_cases(const char *dir, int at_least)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[600], what[700];
	int total = 0;

	if (d == NULL) {
		printf("ok %d - cases of %s # SKIP not there\n", ++n_run, dir);
		return;
	}
	while ((e = readdir(d)) != NULL) {
		struct cases c = { .dir = dir, .file = e->d_name };
		size_t len = strlen(e->d_name), n;
		struct pico_err err = {0};
		struct jinja j = {0};
		char *copy;

		if (len < 6 || strcmp(e->d_name + len - 5, ".json") != 0)
			continue;
		(void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		c.text.p = read_file(path, &n);
		copy = malloc(n + 1);
		if (copy == NULL || c.text.p == NULL)
			exit(2);
		memcpy(copy, c.text.p, n);
		c.text = str_of(copy, n);
		if (jinja_try(&j, run_file, &c, &err) < 0) {
			c.wrong++;
			memcpy(c.message, err.msg, sizeof err.msg);
		}
		jinja_free(&j);
		free(copy);
		(void)snprintf(what, sizeof what, "%s: %d cases", path, c.n);
		check(c.wrong == 0 && c.n > 0, what, c.message);
		total += c.n;
	}
	(void)closedir(d);
	check(total >= at_least, "all cases were found", "fewer");
}

/* ---- a vocabulary with the marks of all layouts ---- */

static const char *const marks[] = { "<|im_end|>", "<end_of_utterance>",
    "</s>", "<s>", "<|end|>", "<|endofturn|>", "<|endoftext|>",
    "<end_of_turn>", "<start_of_turn>", "<|end_of_turn|>", "<|EOT|>",
    "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|eot_id|>",
    "<|start_header_id|>", "<｜end▁of▁sentence｜>", "<｜User｜>",
    "<｜Assistant｜>", "[|endofturn|]", "<|end_of_text|>", "<|message_sep|>",
    "<|turn_end|>", "<|role_end|>", "<|eot|>", "<|extra_0|>", "<|extra_4|>",
    "<|eos|>", "<｜hy_place▁holder▁no▁2｜>", "<｜hy_place▁holder▁no▁3｜>",
    "<｜hy_Assistant｜>", "<｜hy_User｜>", "<|return|>", "<|separator|>",
    "<seed:eos>", "<seed:bos>", "[unused10]", "[unused9]", "[SEP]",
    "[/INST]", "[INST]", "<|im_start|>", "<|im_sep|>", "<|assistant|>",
    "<|user|>", "<|system|>", "<AI>", "<用户>", "<role>", "</role>",
    "<|content|>", "<|begin|>", "<|message|>", "<|start|>", "[|user|]",
    "<|role_start|>", "<|im_middle|>", "<|im_user|>", "[gMASK]",
    "<|header_start|>", "<|start_of_role|>", "<|end_of_role|>",
    "<|role_sep|>", "### Instruction:", "User:", "USER:", "Human:",
    "GPT4 Correct User:", " Пользователь:" };
enum { N_BYTES = 256, N_MARKS = sizeof marks / sizeof *marks,
    N_WORDS = 6, BOS = N_BYTES + N_MARKS + N_WORDS };

static void
put(FILE *f, const void *p, size_t n)
{
	if (fwrite(p, 1, n, f) != n)
		exit(2);
}

static void
put_u32(FILE *f, uint32_t v)
{
	put(f, &v, sizeof v);
}

static void
put_str(FILE *f, const char *s)
{
	uint64_t n = strlen(s);

	put(f, &n, sizeof n);
	put(f, s, n);
}

static void
put_array(FILE *f, const char *key, uint32_t type, uint64_t n)
{
	put_str(f, key);
	put_u32(f, PICO_KV_ARR);
	put_u32(f, type);
	put(f, &n, sizeof n);
}

/* Kind "llama": byte tokens, the marks, words that merge ("</" "s>" "</s>" is
   a mark; "ab" is a word; the space), and BOS "<bos>", which is wanted. */
static struct pico_gguf *
make_vocab(void)
{
	static const char *const words[N_WORDS] = { "</", "s>", "ab",
	    "\u2581", "<u>", "\n" };	/* the last two are user-defined */
	const char *dir = getenv("TMPDIR");
	uint64_t counts[2] = { 0, 6 };
	uint32_t i, magic = 0x46554747, version = 3, n = BOS + 1;
	struct pico_gguf *g = NULL;
	struct pico_err err = {0};
	char path[300], byte[8];
	FILE *f;

	(void)snprintf(path, sizeof path, "%s/pico-chat-%ld.gguf",
	    dir != NULL ? dir : "/tmp", (long)getpid());
	f = fopen(path, "wb");
	if (f == NULL)
		exit(2);
	put(f, &magic, 4);
	put(f, &version, 4);
	put(f, counts, sizeof counts);
	put_str(f, "general.architecture");
	put_u32(f, PICO_KV_STR);
	put_str(f, "llama");
	put_str(f, "tokenizer.ggml.model");
	put_u32(f, PICO_KV_STR);
	put_str(f, "llama");
	put_str(f, "tokenizer.ggml.bos_token_id");
	put_u32(f, PICO_KV_U32);
	put_u32(f, BOS);
	put_str(f, "tokenizer.ggml.eos_token_id");
	put_u32(f, PICO_KV_U32);
	put_u32(f, N_BYTES);		/* marks[0] */
	put_array(f, "tokenizer.ggml.tokens", PICO_KV_STR, n);
	for (i = 0; i < N_BYTES; i++) {
		(void)snprintf(byte, sizeof byte, "<0x%02X>", i);
		put_str(f, byte);
	}
	for (i = 0; i < N_MARKS; i++)
		put_str(f, marks[i]);
	for (i = 0; i < N_WORDS; i++)
		put_str(f, words[i]);
	put_str(f, "<bos>");
	put_array(f, "tokenizer.ggml.token_type", PICO_KV_I32, n);
	for (i = 0; i < n; i++)
		put_u32(f, i < N_BYTES ? PICO_TOK_BYTE : i < N_BYTES +
		    N_MARKS || i == BOS ? PICO_TOK_CONTROL : i + 2 >= BOS ?
		    PICO_TOK_USER : PICO_TOK_NORMAL);
	if (fclose(f) != 0 ||
	    pico_gguf_open(&g, path, PICO_GGUF_HEADER, &err) < 0)
		exit(2);
	(void)unlink(path);
	return g;
}

static struct pico_vocab *vocab;
static struct pico_tokenizer *tokenizer;

/* Tokens of a chat of three messages; NULL if the template refuses it. */
static struct pico_ids
chat_ids(struct pico_str template, const char *a, const char *b, const char *c,
    unsigned flags, struct pico_chat **chat, struct pico_chat_text *text)
{
	struct pico_ids ids = {0};
	struct pico_err err = {0};

	*chat = pico_chat_new(template, &err);
	if (*chat == NULL ||
	    pico_chat_set(*chat, str("bos_token"), str("<bos>"),
	    PICO_CHAT_FRAME, &err) < 0 ||
	    pico_chat_set(*chat, str("eos_token"), str("<|im_end|>"),
	    PICO_CHAT_FRAME, &err) < 0 ||
	    pico_chat_message(*chat, str("user"), str(a), &err) < 0 ||
	    pico_chat_message(*chat, str("assistant"), str(b), &err) < 0 ||
	    pico_chat_message(*chat, str("user"), str(c), &err) < 0)
		exit(2);
	if (pico_chat_render(*chat, flags, text, &err) < 0)
		return ids;
	if (pico_chat_tokenize(tokenizer, vocab, text, &ids, &err) < 0)
		exit(2);
	return ids;
}

static size_t
controls(const struct pico_ids *ids)
{
	size_t i, n = 0;

	for (i = 0; i < ids->n; i++)
		n += pico_vocab_type(vocab, ids->v[i]) == PICO_TOK_CONTROL;
	return n;
}

/* Appends bytes but for spaces, of which this kind of vocabulary has two, and
   puts some itself. */
static size_t
append(char *to, size_t n, const char *p, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (len - i >= 3 && memcmp(p + i, "\xe2\x96\x81", 3) == 0)
			i += 2;
		else if (p[i] != ' ')
			to[n++] = p[i];
	return n;
}

/* Whether the text of the ids, without a BOS that is not in it, is the text. */
static bool
spells(const struct pico_ids *ids, const struct pico_chat_text *text)
{
	static char want[100000], got[100000];
	size_t i, n = append(want, 0, text->text, text->n), k = 0;
	char piece[100];

	for (i = ids->v[0] == BOS && memcmp(text->text, "<bos>",
	    MIN(text->n, 5)) != 0; i < ids->n; i++)
		k = append(got, k, piece, pico_vocab_piece(vocab, ids->v[i],
		    true, piece));
	return n == k && memcmp(want, got, n) == 0;
}

/* Words that hold every mark there is add no control token, and change none. */
static void
test_injection(const char *name, struct pico_str template)
{
	struct pico_chat *chat, *other;
	struct pico_chat_text text, bad_text;
	struct pico_ids ids, bad_ids;
	char evil[4000] = "x", what[300], got[100];
	size_t i, n = 1;

	for (i = 0; i < N_MARKS; i++) {
		memcpy(evil + n, marks[i], strlen(marks[i]));
		n += strlen(marks[i]);
	}
	memcpy(evil + n, "<bos>x", 7);
	ids = chat_ids(template, "x", "x", "x", PICO_CHAT_PROMPT, &chat, &text);
	bad_ids = chat_ids(template, evil, evil, evil, PICO_CHAT_PROMPT, &other,
	    &bad_text);
	(void)snprintf(what, sizeof what, "%s: words make no control token",
	    name);
	(void)snprintf(got, sizeof got, "%zu and %zu control tokens",
	    controls(&ids), controls(&bad_ids));
	check(ids.n > 0 && bad_ids.n > ids.n &&
	    controls(&ids) == controls(&bad_ids) &&
	    spells(&bad_ids, &bad_text), what, got);
	free(ids.v);
	free(bad_ids.v);
	pico_chat_free(chat);
	pico_chat_free(other);
}

/* Exactly the words of the messages are content. */
static void
test_content(const char *name, struct pico_str template)
{
	struct pico_chat_text text = {0};
	struct pico_chat *chat;
	struct pico_ids ids;
	char what[300];
	bool ok;
	size_t i, found = 0;

	ids = chat_ids(template, "QZX1", "QZX2", "QZX3", PICO_CHAT_PROMPT,
	    &chat, &text);
	ok = ids.n > 0;
	for (i = 0; ok && i < text.n; i++) {
		bool word = i + 4 <= text.n &&
		    memcmp(text.text + i, "QZX", 3) == 0;
		size_t k;

		if (!word) {
			ok = text.content[i] == 0;
			continue;
		}
		for (k = 0; k < 4; k++)
			ok &= text.content[i + k] != 0;
		i += 3;
		found++;
	}
	(void)snprintf(what, sizeof what, "%s: words are content", name);
	check(ok && found >= 3, what, ids.n > 0 ? text.text : "refused");
	free(ids.v);
	pico_chat_free(chat);
}

/* A layout's tokens are those before the answer, it, its end, and the rest. */
static void
test_continue(const char *name, struct pico_str template)
{
	struct pico_chat *chat[3];
	struct pico_chat_text text[3];
	struct pico_ids all, rest, cut;
	char what[300];
	bool ok;

	all = chat_ids(template, "hi", "yes", "and", PICO_CHAT_PROMPT, chat,
	    text);
	rest = chat_ids(template, "hi", "yes", "and", PICO_CHAT_PROMPT |
	    PICO_CHAT_CONTINUE, chat + 1, text + 1);
	cut = chat_ids(template, "hi", "yes", "and", PICO_CHAT_PROMPT |
	    PICO_CHAT_CONTINUE | PICO_CHAT_CUT, chat + 2, text + 2);
	ok = cut.n > 0 && cut.n <= all.n && memcmp(all.v + all.n - cut.n,
	    cut.v, cut.n * sizeof *cut.v) == 0 && rest.n <= cut.n &&
	    memcmp(cut.v + cut.n - rest.n, rest.v,
	    rest.n * sizeof *rest.v) == 0 && text[1].n < text[0].n &&
	    text[0].text[text[0].n - text[1].n - 1] == 's';
	/* what is left out ends with the end of the turn, if there is one */
	if (cut.n > rest.n)
		ok &= pico_vocab_is_eog(vocab, cut.v[cut.n - rest.n - 1]);
	(void)snprintf(what, sizeof what, "%s: what follows an answer", name);
	check(ok, what, text[1].n > 0 ? text[1].text : "nothing");
	free(all.v);
	free(rest.v);
	free(cut.v);
	pico_chat_free(chat[0]);
	pico_chat_free(chat[1]);
	pico_chat_free(chat[2]);
}

static void
test_layouts(void)
{
	static const char *const files[] = { "bielik", "chatml", "chatglm4",
	    "deepseek-r1-distill-llama", "gemma-3", "granite-3.3", "kimi-k2",
	    "llama2-vigogne-strip", "llama3.1", "mistral-v3", "phi4", "qwen3",
	    "rwkv-world", "smollm3" };
	struct pico_str template;
	const char *name;
	char path[200];
	size_t i;

	for (i = 0; (template.p = pico_chat_layout(i, &name)) != NULL; i++) {
		template = str(template.p);
		test_content(name, template);
		test_injection(name, template);
		test_continue(name, template);
	}
	for (i = 0; i < COUNT(files); i++) {
		(void)snprintf(path, sizeof path,
		    "tests/data/chat/templates/%s.jinja", files[i]);
		template.p = read_file(path, &template.n);
		if (template.p == NULL)
			exit(2);
		test_content(files[i], template);
		test_injection(files[i], template);
		test_continue(files[i], template);
	}
}

/* ---- tokens ---- */

/* ids of one text and mask against what is expected, -1 ending that. */
static void
test_framed(const char *text, const char *mask, const int32_t *want,
    const char *what)
{
	uint8_t content[100];
	struct pico_ids ids = {0};
	struct pico_err err = {0};
	char got[300] = "";
	size_t i, n = strlen(text), at = 0;
	bool ok;

	for (i = 0; i < n; i++)
		content[i] = mask[i] == 'c';
	ok = pico_tokenize_framed(tokenizer, text, n, content,
	    PICO_PARSE_SPECIAL | PICO_CONTINUED, &ids, &err) == 0;
	for (i = 0; i < ids.n; i++) {
		ok &= want[i] == ids.v[i];
		if (want[i] < 0)
			break;
		at += (size_t)snprintf(got + at, sizeof got - at, "%d ",
		    (int)ids.v[i]);
	}
	check(ok && want[ids.n] == -1, what, got);
	free(ids.v);
}

static void
test_tokens(void)
{
	enum { EOT = N_BYTES + 2, WORD = N_BYTES + N_MARKS + 2,
	    SPACE = WORD + 1, MARK = SPACE + 1, LINE = MARK + 1 };

	test_framed("</s>", "....", (int32_t[]){ EOT, -1 },
	    "a mark of the frame is its token");
	test_framed("</s>", "cccc", (int32_t[]){ '<', '/', 's', '>', -1 },
	    "one of the words is bytes, although its parts would merge");
	test_framed("</s>", "...c", (int32_t[]){ '<', '/', 's', '>', -1 },
	    "so is one that is only partly frame");
	test_framed("ab", ".c", (int32_t[]){ WORD, -1 },
	    "words and frame merge as any text");
	test_framed("ab</s>ab", "cc....cc", (int32_t[]){ WORD, EOT, SPACE,
	    WORD, -1 }, "a mark between words");
	test_framed("<u>\n", "cccc", (int32_t[]){ MARK, LINE, -1 },
	    "what is user-defined is found in words");
	test_framed("<u>\n<u>\n", "....cccc", (int32_t[]){ MARK, LINE, SPACE,
	    '<', 'u', '>', LINE, -1 }, "but not a mark that the frame has, too");
}

/* No kind of tokenizer makes a control token of words, though all of the frame. */
static void
test_kinds(void)
{
	static const char *const kinds[] = { "bpe", "lines", "rwkv", "unigram",
	    "wordpiece" };
	const unsigned flags = PICO_PARSE_SPECIAL | PICO_CONTINUED;
	struct pico_err err = {0};
	char path[100], what[200];
	uint8_t content[200];
	size_t i, k;
	int32_t id;

	memset(content, 1, sizeof content);
	for (i = 0; i < COUNT(kinds); i++) {
		struct pico_gguf *g = NULL;
		struct pico_vocab *v = NULL;
		struct pico_tokenizer *t = NULL;
		size_t tried = 0, frames = 0, words = 0;

		(void)snprintf(path, sizeof path,
		    "tests/data/tokenizer/%s.gguf", kinds[i]);
		if (pico_gguf_open(&g, path, PICO_GGUF_HEADER, &err) == 0)
			v = pico_vocab_open(g, NULL, &err);
		if (v != NULL)
			t = pico_tokenizer_new(v, &err);
		for (id = 0; t != NULL && id < pico_vocab_n(v); id++) {
			struct pico_str text = pico_vocab_text(v, id);
			struct pico_ids ids = {0};

			if (pico_vocab_type(v, id) != PICO_TOK_CONTROL ||
			    text.n > sizeof content)
				continue;
			tried++;
			frames += pico_tokenize(t, text.p, text.n, flags, &ids,
			    &err) == 0 && ids.n == 1 && ids.v[0] == id;
			ids.n = 0;
			if (pico_tokenize_framed(t, text.p, text.n, content,
			    flags, &ids, &err) < 0)
				ids.n = 0;	/* no token for a byte */
			for (k = 0; k < ids.n && (pico_vocab_type(v, ids.v[k]) !=
			    PICO_TOK_CONTROL ||
			    ids.v[k] == pico_vocab_special(v)->unk); k++)
				;
			words += k == ids.n;
			free(ids.v);
		}
		(void)snprintf(what, sizeof what, "%s: words make none of its "
		    "%zu control tokens, the frame makes all", kinds[i], tried);
		check(tried > 0 && frames == tried && words == tried, what,
		    err.msg);
		pico_tokenizer_free(t);
		pico_vocab_close(v);
		pico_gguf_close(g);
	}
}

static void
test_bos(void)
{
	static const char *const templates[] = {
		"{{ bos_token }}{{ messages[0].content }}",
		"{{ messages[0].content }}",
		"{{ bos_token + bos_token + messages[0].content }}",
	};
	static const size_t want[] = { 1, 1, 2 };
	struct pico_chat_text text;
	struct pico_chat *chat;
	struct pico_ids ids;
	size_t i, k, n;
	char got[40];

	for (i = 0; i < COUNT(templates); i++) {
		ids = chat_ids(str(templates[i]), "<bos>", "x", "x", 0, &chat,
		    &text);
		for (k = n = 0; k < ids.n; k++)
			n += ids.v[k] == BOS;
		(void)snprintf(got, sizeof got, "%zu", n);
		check(n == want[i] && ids.v[0] == BOS, templates[i], got);
		free(ids.v);
		pico_chat_free(chat);
	}
}

/* The end of a chat of 1,000 turns is what the new message alone gives. */
static void
test_long(void)
{
	struct pico_chat_text text, short_text;
	struct pico_err err = {0};
	struct pico_chat *chat, *other;
	struct pico_str template;
	int i;

	if (pico_chat_find(NULL, "chatml", &template, &err) <= 0)
		exit(2);
	chat = pico_chat_new(template, &err);
	other = pico_chat_new(template, &err);
	for (i = 0; i < 1000; i++)
		if (pico_chat_message(chat, str("user"), str("q"), &err) < 0 ||
		    pico_chat_message(chat, str("assistant"), str(i % 2 ?
		    "an answer" : "  \n"), &err) < 0)
			exit(2);
	if (pico_chat_message(chat, str("user"), str("new"), &err) < 0 ||
	    pico_chat_message(other, str("user"), str("new"), &err) < 0)
		exit(2);
	check(pico_chat_render(chat, PICO_CHAT_PROMPT | PICO_CHAT_CONTINUE,
	    &text, &err) == 0 && pico_chat_render(other, PICO_CHAT_PROMPT |
	    PICO_CHAT_CONTINUE, &short_text, &err) == 0 &&
	    text.n == short_text.n &&
	    memcmp(text.text, short_text.text, text.n) == 0 &&
	    strncmp(text.text, "<|im_end|>\n<|im_start|>user\nnew", 31) == 0,
	    "the end of a thousand turns is that of one", err.msg);
	pico_chat_free(chat);
	pico_chat_free(other);
}

/* ---- what is refused ---- */

static void
test_refused(void)
{
	static const char *const roles[] = { "", "a b", "us:er", "<|im_end|>",
	    "r\xc3\xb6le", "user\n" };
	static const char *const json[] = { "", "{", "5", "[5]", "{}",
	    "{\"role\":5}", "{\"role\":\"a\"}}", "{\"role\":\"a\",}",
	    "{\"role\":\"a\",\"content\":\"\\ud800\"}",
	    "{\"role\":\"a\",\"content\":\"\n\"}", "{\"role\":'a'}",
	    "{\"role\":\"a\",\"content\":01}", "nul",
	    "{\"role\":\"<s>\",\"content\":\"\"}" };
	static const char *const dates[] = { "", "2026", "2026-1-1",
	    "2026-13-01", "2026-02-29", "2026-01-32", "2026-01-01T",
	    "2026-01-01T24:00", "2026-01-01T10", "2026-01-01T10:00:60",
	    "2026-01-01T10:00:00Z", "x" };
	static const char *const good[] = { "2024-02-29", "2026-01-31T23:59",
	    "2026-01-31 23:59:59" };
	struct pico_chat *chat = pico_chat_new(str("x"), NULL);
	struct pico_chat_text text;
	size_t i;

	for (i = 0; i < COUNT(roles); i++) {
		struct pico_err err = {0};

		check(pico_chat_message(chat, str(roles[i]), str("x"),
		    &err) < 0, "a role that is no word", "taken");
	}
	for (i = 0; i < COUNT(json); i++) {
		struct pico_err err = {0};

		check(pico_chat_message_json(chat, str(json[i]), &err) < 0 &&
		    err.msg[0] != '\0', "a message that is none", json[i]);
	}
	for (i = 0; i < COUNT(dates); i++) {
		struct pico_err err = {0};

		check(pico_chat_date(chat, dates[i], &err) < 0 &&
		    err.status == PICO_USAGE, "a date that is none", dates[i]);
	}
	for (i = 0; i < COUNT(good); i++)
		check(pico_chat_date(chat, good[i], NULL) == 0, good[i],
		    "refused");
	check(pico_chat_render(chat, 0, &text, NULL) == 0 && text.n == 1 &&
	    pico_chat_render(chat, 0, &text, NULL) < 0,
	    "a chat is rendered once", "more");
	pico_chat_free(chat);
}

int
main(void)
{
	struct pico_gguf *g = make_vocab();

	vocab = pico_vocab_open(g, NULL, NULL);
	tokenizer = pico_tokenizer_new(vocab, NULL);
	if (tokenizer == NULL)
		exit(2);
	test_cases("tests/data/chat", 280);
	test_cases("../shared/conformance/chat", 663);
	test_layouts();
	test_tokens();
	test_kinds();
	test_bos();
	test_long();
	test_refused();
	pico_tokenizer_free(tokenizer);
	pico_vocab_close(vocab);
	pico_gguf_close(g);
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
