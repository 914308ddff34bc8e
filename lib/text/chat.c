/* SPDX-License-Identifier: MIT */
/*
 * Chats: messages, the template that frames them, and the tokens of the result,
 * in which frame and words stay apart.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "jinja.h"

struct pico_chat {
	struct jinja jinja;
	struct list *messages;
	struct pico_str source;		/* the template, a copy */
	bool rendered;
};

/* What the functions here hand on through jinja_try(). */
struct job {
	struct pico_chat *c;
	struct str a, b;
	enum mark mark;
	unsigned flags;
	const int64_t *date;
};

static struct str
str_from(struct pico_str s)
{
	return str_of(s.p, s.n);
}

static int
try(struct pico_chat *c, jinja_fn *fn, struct job *job, struct pico_err *err)
{
	job->c = c;
	return jinja_try(&c->jinja, fn, job, err);
}

/* ---- the template ---- */

static void
start(struct jinja *j, void *data)
{
	static const char *const empty[] = { "bos_token", "eos_token" };
	static const char *const absent[] = { "tools", "documents" };
	struct job *job = data;
	struct value v;
	size_t i;

	jinja_parse(j, job->a.p, job->a.n);
	j->running = false;
	v = value_list(j, &job->c->messages);
	jinja_set(j, STR("messages"), v);
	for (i = 0; i < COUNT(empty); i++)
		jinja_set(j, str_of(empty[i], strlen(empty[i])),
		    value_text(""));
	for (i = 0; i < COUNT(absent); i++)
		jinja_set(j, str_of(absent[i], strlen(absent[i])), none);
}

struct pico_chat *
pico_chat_new(struct pico_str text, struct pico_err *err)
{
	struct pico_chat *c = mem_new(1, sizeof *c, "chat", err);
	struct job job = { .a = str_from(text) };
	char *copy = mem_new(text.n + 1, 1, "chat: template", err);

	if (c == NULL || copy == NULL) {
		free(c);
		free(copy);
		return NULL;
	}
	memcpy(copy, text.p, text.n);
	c->source = (struct pico_str){ copy, text.n };
	if (try(c, start, &job, err) < 0) {
		pico_chat_free(c);
		return NULL;
	}
	return c;
}

void
pico_chat_free(struct pico_chat *c)
{
	if (c == NULL)
		return;
	jinja_free(&c->jinja);
	free((char *)c->source.p);
	free(c);
}

const char *
pico_chat_layout(size_t i, const char **name)
{
	if (i >= chat_n_layouts)
		return NULL;
	*name = chat_layouts[i].name;
	return chat_layouts[i].text;
}

/* ---- messages ---- */

/* A role becomes part of the frame, so it must be a mere word. */
static bool
is_role(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		    (c >= '0' && c <= '9') || c == '_' || c == '-'))
			return false;
	}
	return s.n > 0 && s.n <= 64;
}

static void
add(struct jinja *j, struct pico_chat *c, struct dict *m)
{
	struct value *role = map_find(j, m, value_text("role"));

	if (role == NULL || role->kind != V_STR)
		jinja_fail(j, "the message has no role");
	if (!is_role(role->s))
		jinja_fail(j, "'%s' is not a role: letters, digits, '_' and "
		    "'-'", show(role->s.p, role->s.n));
	role->s.mark = NULL;
	list_add(j, c->messages, (struct value){ .kind = V_MAP, .map = m });
}

static void
add_text(struct jinja *j, void *data)
{
	struct job *job = data;
	struct dict *m;

	(void)value_map(j, &m);
	map_set(j, m, value_text("role"),
	    value_str(str_marked(j, job->a.p, job->a.n, MARK_FRAME)));
	map_set(j, m, value_text("content"),
	    value_str(str_marked(j, job->b.p, job->b.n, MARK_CONTENT)));
	add(j, job->c, m);
}

int
pico_chat_message(struct pico_chat *c, struct pico_str role,
    struct pico_str content, struct pico_err *err)
{
	struct job job = { .a = str_from(role), .b = str_from(content) };

	return try(c, add_text, &job, err);
}

static void
add_json(struct jinja *j, void *data)
{
	struct job *job = data;
	struct value v = json_parse(j, job->a, MARK_CONTENT, "the message");
	size_t i;

	if (v.kind == V_MAP) {
		add(j, job->c, v.map);
		return;
	}
	for (i = 0; v.kind == V_LIST && i < v.list->n; i++) {
		if (v.list->v[i].kind != V_MAP)
			jinja_fail(j, "the message is not an object but %s",
			    value_kind(&v.list->v[i]));
		add(j, job->c, v.list->v[i].map);
	}
	if (v.kind != V_LIST)
		jinja_fail(j, "the message is not an object but %s",
		    value_kind(&v));
}

int
pico_chat_message_json(struct pico_chat *c, struct pico_str json,
    struct pico_err *err)
{
	struct job job = { .a = str_from(json) };

	return try(c, add_json, &job, err);
}

size_t
pico_chat_n_messages(const struct pico_chat *c)
{
	return c->messages->n;
}

/* ---- variables ---- */

static void
set(struct jinja *j, struct str name, struct value v)
{
	jinja_set(j, str_marked(j, name.p, name.n, MARK_FRAME), v);
}

static void
set_text(struct jinja *j, void *data)
{
	struct job *job = data;

	set(j, job->a, value_str(str_marked(j, job->b.p, job->b.n,
	    job->mark)));
}

static void
set_json(struct jinja *j, void *data)
{
	struct job *job = data;

	set(j, job->a, json_parse(j, job->b, MARK_CONTENT, "the value"));
}

int
pico_chat_set(struct pico_chat *c, struct pico_str name, struct pico_str value,
    enum pico_chat_kind kind, struct pico_err *err)
{
	struct job job = { .a = str_from(name), .b = str_from(value),
	    .mark = kind == PICO_CHAT_FRAME ? MARK_FRAME : MARK_CONTENT };
	struct pico_err why = {0};

	if (kind == PICO_CHAT_JSON)
		return try(c, set_json, &job, err);
	if (kind == PICO_CHAT_GUESS && try(c, set_json, &job, &why) == 0)
		return 0;
	return try(c, set_text, &job, err);
}

int
pico_chat_date(struct pico_chat *c, const char *iso, struct pico_err *err)
{
	/* YYYY-MM-DD, then THH:MM and :SS if wanted */
	static const struct {
		char before;
		size_t width;
		int64_t min, max;
	} part[] = { { 0, 4, 1, 9999 }, { '-', 2, 1, 12 }, { '-', 2, 1, 31 },
	    { 'T', 2, 0, 23 }, { ':', 2, 0, 59 }, { ':', 2, 0, 59 } };
	static const int days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31,
	    30, 31 };
	int64_t date[COUNT(part)] = {0};
	const char *p = iso;
	size_t i, k;

	for (i = 0; i < COUNT(part) && (*p != '\0' || i == 0); i++) {
		if (i > 0 && *p++ != part[i].before && !(i == 3 &&
		    p[-1] == ' '))
			goto bad;
		for (k = 0; k < part[i].width; k++, p++) {
			if (*p < '0' || *p > '9')
				goto bad;
			date[i] = date[i] * 10 + (*p - '0');
		}
		if (date[i] < part[i].min || date[i] > part[i].max)
			goto bad;
	}
	if (*p != '\0' || i < 3 || i == 4 || date[2] > days[date[1] - 1] ||
	    (date[1] == 2 && date[2] == 29 && (date[0] % 4 != 0 ||
	    (date[0] % 100 == 0 && date[0] % 400 != 0))))
		goto bad;
	memcpy(c->jinja.date, date, sizeof date);
	c->jinja.has_date = true;
	return 0;
bad:
	return fail_usage(err, "'%s' is not a date such as 2026-01-31 or "
	    "2026-01-31T23:59:59", show(iso, strlen(iso)));
}

/* ---- rendering ---- */

static bool
has_role(struct jinja *j, const struct value *message, const char *role)
{
	const struct value *v = map_find(j, message->map, value_text("role"));

	return str_is(v->s, role);
}

static struct value
message(struct jinja *j, const char *role, struct str content)
{
	struct dict *m;
	struct value v = value_map(j, &m);

	map_set(j, m, value_text("role"), value_text(role));
	map_set(j, m, value_text("content"), value_str(content));
	return v;
}

static bool
is_blank(struct str s)
{
	size_t i, len;

	for (i = 0; i < s.n; i += len)
		if (!str_is_space(s, i, &len))
			return false;
	return true;
}

/*
 * Marks the words of the last answer, so that their place in the text can be
 * found. Which words they are does not matter to what follows them: where there
 * are none, a dot stands for them; where there is no answer, a question and an
 * answer are put before all messages but those of the system.
 */
static void
mark_answer(struct jinja *j, struct list *messages)
{
	struct str dot = str_marked(j, ".", 1, MARK_ANSWER);
	struct value *content;
	size_t i = messages->n, k;

	while (i > 0 && !has_role(j, &messages->v[i - 1], "assistant"))
		i--;
	if (i > 0) {
		content = map_find(j, messages->v[i - 1].map,
		    value_text("content"));
		if (map_find(j, messages->v[i - 1].map,
		    value_text("tool_calls")) != NULL ||
		    content == NULL || content->kind != V_STR)
			jinja_fail(j, "message %zu: only what follows a text "
			    "can be told apart", i);
		content->s = is_blank(content->s) ? dot : str_marked(j,
		    content->s.p, content->s.n, MARK_ANSWER);
		return;
	}
	while (i < messages->n && (has_role(j, &messages->v[i], "system") ||
	    has_role(j, &messages->v[i], "developer")))
		i++;
	list_add(j, messages, none);
	list_add(j, messages, none);
	for (k = messages->n - 1; k >= i + 2; k--)
		messages->v[k] = messages->v[k - 2];
	messages->v[i] = message(j, "user", str_marked(j, ".", 1,
	    MARK_CONTENT));
	messages->v[i + 1] = message(j, "assistant", dot);
}

static void
render(struct jinja *j, void *data)
{
	struct job *job = data;

	jinja_set(j, STR("add_generation_prompt"),
	    value_bool((job->flags & PICO_CHAT_PROMPT) != 0));
	if (job->flags & PICO_CHAT_CONTINUE)
		mark_answer(j, job->c->messages);
	j->steps = 0;
	jinja_run(j);
}

int
pico_chat_render(struct pico_chat *c, unsigned flags,
    struct pico_chat_text *out, struct pico_err *err)
{
	struct job job = { .flags = flags };
	size_t from = 0;

	if (c->rendered)
		return fail_usage(err, "a chat is rendered once only");
	c->rendered = true;
	if (try(c, render, &job, err) < 0)
		return -1;
	if (flags & PICO_CHAT_CONTINUE) {
		from = c->jinja.out.n;
		while (from > 0 && c->jinja.out.mark[from - 1] != MARK_ANSWER)
			from--;
		if (from == 0)
			return fail(err, "the template does not show the last "
			    "answer, so that nothing follows it");
	}
	*out = (struct pico_chat_text){ c->jinja.out.p + from,
	    c->jinja.out.mark + from, c->jinja.out.n - from, flags,
	    c->source };
	if (out->n == 0)	/* no pointer arithmetic on nothing */
		*out = (struct pico_chat_text){ "", NULL, 0, flags,
		    c->source };
	return 0;
}

/* ---- tokens ---- */

/*
 * How many tokens at the start are in the context already: the end-of-generation
 * token that ended the answer, which is the first behind it, with nothing but
 * white space between.
 */
static size_t
known(const struct pico_chat_text *s, const struct pico_vocab *v,
    const struct pico_ids *ids)
{
	size_t i, k, at = 0;

	for (i = 0; i < ids->n; i++) {
		if (pico_vocab_is_eog(v, ids->v[i]))
			return i + 1;
		for (k = at; k < ids->end[i]; k++)
			if (s->content[k] != MARK_FRAME ||
			    memchr(" \t\r\n", s->text[k], 4) == NULL)
				return 0;
		at = ids->end[i];
	}
	return 0;
}

int
pico_chat_tokenize(struct pico_tokenizer *t, const struct pico_vocab *v,
    const struct pico_chat_text *s, struct pico_ids *out, struct pico_err *err)
{
	bool goes_on = (s->flags & PICO_CHAT_CONTINUE) != 0;
	unsigned flags = PICO_PARSE_SPECIAL | (goes_on ? PICO_CONTINUED :
	    (pico_tokenizer_default_flags(v) & PICO_ADD_BOS));
	struct pico_ids ids = { .end = malloc(sizeof *ids.end) };
	int32_t bos = pico_vocab_special(v)->bos;
	size_t from = 0;
	int r = -1;

	if (ids.end == NULL)
		return fail(err, "no memory for %zu bytes", sizeof *ids.end);
	if (tokenize_chat(t, s, flags, &ids, err) < 0)
		goto out;
	if ((flags & PICO_ADD_BOS) && ids.n > 1 && ids.v[1] == bos)
		from = 1;	/* the template writes it, too: never two */
	if (goes_on && !(s->flags & PICO_CHAT_CUT))
		from = known(s, v, &ids);
	if (mem_grow(&out->v, &out->cap, out->n + ids.n, sizeof *out->v,
	    "tokens", err) < 0)
		goto out;
	if (ids.n > from)
		memcpy(out->v + out->n, ids.v + from,
		    (ids.n - from) * sizeof *out->v);
	out->n += ids.n - from;
	out->dropped += ids.dropped;
	r = 0;
out:
	free(ids.v);
	free(ids.end);
	return r;
}

/* ---- the model's template ---- */

static int
find_text(const struct pico_gguf *g, const char *key, struct pico_str *out,
    struct pico_err *err)
{
	int r = pico_gguf_str(g, key, out, err);

	return r > 0 && out->n == 0 ? 0 : r;
}

int
pico_chat_find(const struct pico_gguf *g, const char *name,
    struct pico_str *out, struct pico_err *err)
{
	char key[100];
	size_t i;
	int r;

	if (name == NULL)
		return find_text(g, "tokenizer.chat_template", out, err);
	if (g != NULL && strlen(name) < sizeof key / 2) {
		(void)snprintf(key, sizeof key, "tokenizer.chat_template.%s",
		    name);
		r = find_text(g, key, out, err);
		if (r != 0)
			return r;
	}
	for (i = 0; i < chat_n_layouts; i++)
		if (strcmp(name, chat_layouts[i].name) == 0) {
			*out = (struct pico_str){ chat_layouts[i].text,
			    strlen(chat_layouts[i].text) };
			return 1;
		}
	return 0;
}
