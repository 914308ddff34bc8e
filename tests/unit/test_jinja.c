/* SPDX-License-Identifier: MIT */
/*
 * The template interpreter: what small templates write, against Jinja2; where
 * bytes came from; what is refused, and where; limits.
 */
#include <stdlib.h>
#include <string.h>

#include "../../lib/text/jinja.h"

static int n_run, n_failed;

static void
check(bool ok, const char *what, const char *got)
{
	char line[300];

	n_run++;
	n_failed += !ok;
	(void)pico_escape(line, sizeof line, what, strlen(what));
	printf("%sok %d - %s\n", ok ? "" : "not ", n_run, line);
	if (!ok)
		printf("# got: %s\n", got);
}

/* ---- running a template ---- */

static char text[1 << 20], marks[1 << 20];	/* what came out */
static size_t n_text;
static struct pico_err err;

struct task {
	const char *text;
	size_t n;
};

/* messages: one of the user, "x"; c: "<Content> 1,2"; tree: deeper ones. */
static void
run(struct jinja *j, void *data)
{
	static const int64_t date[6] = { 2026, 1, 2, 3, 4, 5 };
	struct task *t = data;

	jinja_parse(j, t->text, t->n);
	memcpy(j->date, date, sizeof date);
	j->has_date = true;
	jinja_set(j, STR("messages"), json_parse(j,
	    STR("[{\"role\":\"user\",\"content\":\"x\"}]"), MARK_CONTENT,
	    "messages"));
	jinja_set(j, STR("add_generation_prompt"), value_bool(true));
	jinja_set(j, STR("bos_token"), value_text(""));
	jinja_set(j, STR("eos_token"), value_text(""));
	jinja_set(j, STR("tools"), none);
	jinja_set(j, STR("documents"), none);
	jinja_set(j, STR("c"), value_str(str_marked(j, "<Content> 1,2", 13,
	    MARK_CONTENT)));
	jinja_set(j, STR("tree"), json_parse(j,
	    STR("{\"k\":[\"Ab\",{\"z\":\"q\"}]}"), MARK_CONTENT, "tree"));
	jinja_run(j);
}

/* 0 and text, marks; or -1 and err. */
static int
render(const char *template, size_t n)
{
	struct jinja *j = calloc(1, sizeof *j);
	struct task task = { template, n };
	size_t i;
	int r;

	if (j == NULL)
		exit(2);
	err = (struct pico_err){0};
	r = jinja_try(j, run, &task, &err);
	n_text = r == 0 && j->out.n < sizeof text ? j->out.n : 0;
	for (i = 0; i < n_text; i++) {
		text[i] = j->out.p[i];
		marks[i] = j->out.mark[i] == MARK_FRAME ? '.' : 'c';
	}
	text[n_text] = marks[n_text] = '\0';
	jinja_free(j);
	free(j);
	return r;
}

/* ---- against Jinja2 ---- */

struct line {
	struct str text;
	char template[2000], want[4000];
	size_t n, n_want;
	bool fails;
};

static void
parse_line(struct jinja *j, void *data)
{
	struct line *l = data;
	struct value v = json_parse(j, l->text, MARK_FRAME, "line");
	struct value *t = map_find(j, v.map, value_text("template"));
	struct value *w = map_find(j, v.map, value_text("expected"));

	l->n = t->s.n;
	memcpy(l->template, t->s.p, t->s.n);
	l->fails = w == NULL;
	l->n_want = w != NULL ? w->s.n : 0;
	if (w != NULL)
		memcpy(l->want, w->s.p, w->s.n);
}

static void
test_expressions(void)
{
	static char buf[8000];
	FILE *f = fopen("tests/data/chat/expressions.jsonl", "r");
	struct line *l = calloc(1, sizeof *l);
	int n = 0, r;

	if (f == NULL || l == NULL)
		exit(2);
	while (fgets(buf, sizeof buf, f) != NULL) {
		struct jinja j = {0};

		l->text = str_of(buf, strlen(buf));
		if (jinja_try(&j, parse_line, l, NULL) < 0)
			exit(2);
		jinja_free(&j);
		r = render(l->template, l->n);
		l->template[l->n] = '\0';
		check(l->fails ? r < 0 : r == 0 && n_text == l->n_want &&
		    memcmp(text, l->want, n_text) == 0, l->template,
		    r < 0 ? err.msg : text);
		n++;
	}
	check(n > 90, "there are many expressions", "few");
	(void)fclose(f);
	free(l);
}

/* ---- marks ---- */

static void
test_marks(void)
{
	/* template, text, marks */
	static const char *const cases[][3] = {
		{ "{{ c }}", "<Content> 1,2", "ccccccccccccc" },
		{ "a{{ c[1:4] }}b", "aConb", ".ccc." },
		{ "{{ 'a' + c[-1] + 'b' ~ c[0] }}", "a2b<", ".c.c" },
		{ "{{ c[2::-1] }}|", "oC<|", "ccc." },
		{ "{{ c|upper }}{{ c|lower|length }}", "<CONTENT> 1,213",
		    "ccccccccccccc.." },
		{ "{{ c.title() }}{{ 'x'|title }}", "<Content> 1,2X",
		    "ccccccccccccc." },
		{ "{{ (' ' + c + ' ')|trim }}", "<Content> 1,2",
		    "ccccccccccccc" },
		{ "{{ c.split(',')[1] }}{{ c.split()|join('+') }}",
		    "2<Content>+1,2", "cccccccccc.ccc" },
		{ "{{ c|replace('Content', 'F') }}", "<F> 1,2", "c.ccccc" },
		{ "{{ 'a-b'|replace('-', c[0:2]) }}", "a<Cb", ".cc." },
		{ "{{ c[0:3]|tojson }}", "\"<Co\"", ".ccc." },
		{ "{{ tree|tojson }}", "{\"k\": [\"Ab\", {\"z\": \"q\"}]}",
		    "..c.....cc.....c....c...." },
		{ "{{ tree }}", "{'k': ['Ab', {'z': 'q'}]}",
		    "..c.....cc.....c....c...." },
		{ "{{ tree.k[0] }}{{ tree['k'][1]['z'] }}", "Abq", "ccc" },
		{ "{% for k, v in tree.items() %}{{ k }}={{ v[0] }}"
		    "{% endfor %}", "k=Ab", "c.cc" },
		{ "{% for x in c %}{{ x }}{{ loop.index }}{% break %}"
		    "{% endfor %}", "<1", "c." },
		{ "{% set x %}a{{ c[0] }}{% endset %}{{ x }}", "a<", ".c" },
		{ "{% filter upper %}a{{ c[1] }}{% endfilter %}", "AC", ".c" },
		{ "{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(c[0]) }}",
		    "[<]", ".c." },
		{ "{{ c[:2] * 2 }}", "<C<C", "cccc" },
		{ "{{ ('\"' ~ c[1:3] ~ '\"')|from_json }}", "Co", "cc" },
		{ "{{ c|default('x') }}{{ u|default('x') }}",
		    "<Content> 1,2x", "ccccccccccccc." },
		{ "{{ tree.k|map('string')|first }}", "Ab", "cc" },
		{ "{{ (c[:2] ~ '\\n' ~ c[:2])|indent(1) }}", "<C\n <C",
		    "cc..cc" },
		{ "{{ messages[0].role }}{{ messages[0].content }}", "userx",
		    "ccccc" },
	};
	char both[400];
	size_t i;
	int r;

	for (i = 0; i < COUNT(cases); i++) {
		r = render(cases[i][0], strlen(cases[i][0]));
		(void)snprintf(both, sizeof both, "%.150s %.150s", r < 0 ?
		    err.msg : text, marks);
		check(r == 0 && strcmp(text, cases[i][1]) == 0 &&
		    strcmp(marks, cases[i][2]) == 0, cases[i][0], both);
	}
}

/* ---- what is refused ---- */

static void
test_errors(void)
{
	/* template, what the message holds */
	static const char *const cases[][2] = {
		{ "a\n {{ x|foo }}", "line 2, column 7: unknown filter 'foo'" },
		{ "{{ 1 is odder }}", "column 9: unknown test 'odder'" },
		{ "\n\n{% include 'x' %}", "line 3, column 4: 'include' where" },
		{ "é{{ a.b }}", "column 7: 'a' is undefined" },
		{ "{{ f() }}", "'f' is undefined" },
		{ "{{ 1 + 'a' }}", "no '+' of a whole number and a string" },
		{ "{{ 'a", "string without its end" },
		{ "{{ a", "tag without its end '}}'" },
		{ "{# a", "comment without its end '#}'" },
		{ "{% if 1 %}a", "'elif' is missing" },
		{ "{% endif %}", "'endif' where a known tag should be" },
		{ "{% break %}", "'break' outside of a loop" },
		{ "{{ [1, 2 }}", "'}' where ',' or ']' should be" },
		{ "{{ a $ b }}", "unexpected '$'" },
		{ "{% for x in 5 %}{% endfor %}", "a whole number has no items" },
		{ "{% set a, b = [1] %}", "2 names for 1 values" },
		{ "{% set a.b = 1 %}", "'a' is not a namespace" },
		{ "{{ raise_exception('no\n') }}", "the template refuses: no\\n" },
		{ "{{ 9223372036854775807 + 1 }}", "number too large" },
		{ "{{ 99999999999999999999 }}", "number too large" },
		{ "{{ 'a'|replace('a') }}", "'replace' takes 2 to 3 arguments" },
		{ "{{ strftime_now('%Q') }}", "unknown conversion '%Q'" },
		{ "{{ {'a': 1}['b'] + 1 }}", "'b' is undefined" },
		{ "{{ '{'|from_json }}", "not JSON" },
	};
	size_t i;
	int r;

	for (i = 0; i < COUNT(cases); i++) {
		r = render(cases[i][0], strlen(cases[i][0]));
		check(r < 0 && strstr(err.msg, cases[i][1]) != NULL,
		    cases[i][0], r < 0 ? err.msg : text);
	}
}

/* ---- limits ---- */

static void
refused(const char *what, const char *template, size_t n, const char *message)
{
	int r = render(template, n);

	check(r < 0 && strstr(err.msg, message) != NULL, what,
	    r < 0 ? err.msg : "no error");
}

/* before, n times open, middle, n times close, after. */
static char *
repeated(const char *const part[5], size_t n, size_t *len)
{
	static const bool many[5] = { false, true, false, true, false };
	char *p = malloc(n * (strlen(part[1]) + strlen(part[3])) + 200);
	size_t i, k;

	if (p == NULL)
		exit(2);
	*len = 0;
	for (i = 0; i < 5; i++)
		for (k = 0; k < (many[i] ? n : 1); k++) {
			memcpy(p + *len, part[i], strlen(part[i]));
			*len += strlen(part[i]);
		}
	return p;
}

static void
test_nesting(void)
{
	static const char *const deep[][5] = {
		{ "{{", "(", "1", ")", "}}" },
		{ "{{", "[", "", "]", "}}" },
		{ "{{", "{1:", "2", "}", "}}" },
		{ "{{", "not ", "1", "", "}}" },
		{ "{{", "- ", "1", "", "}}" },
		{ "{{", "1 if 0 else ", "1", "", "}}" },
		{ "{{", "c[", "0", "]", "}}" },
		{ "{{", "dict(a=", "0", ")", "}}" },
		{ "{{", "1|default(", "0", ")", "}}" },
		{ "{{", "0 or 1 and 1 == 1 + 1 * (", "1", ")", "}}" },
		{ "", "{% if 1 %}", "", "{% endif %}", "" },
		{ "", "{% for x in [1] %}", "", "{% endfor %}", "" },
		{ "", "{% set x %}", "", "{% endset %}", "" },
		{ "", "{% macro m() %}", "", "{% endmacro %}", "" },
		{ "{{ '", "[", "", "]", "'|from_json }}" },
	};
	/* long, but not deep */
	static const char *const flat[][5] = {
		{ "{{", "1 + ", "1", "", "}}" },
		{ "{{", "'a' ~ ", "1", "", "}}" },
		{ "{{", "0 or ", "1", "", "}}" },
		{ "{{", "1 == 1 == ", "1", "", "}}" },
		{ "{{ c", "", "", "|trim", "}}" },
		{ "{{ c", "", "", "[:]", "}}" },
		{ "{% if 0 %}", "{% elif 0 %}", "", "", "{% endif %}" },
		{ "", "{% if 1 %}a{% endif %}", "", "", "" },
		{ "{{ [", "1, ", "", "", "] }}" },
	};
	size_t i, n;
	char *p;
	int r;

	for (i = 0; i < COUNT(deep); i++) {
		p = repeated(deep[i], 100000, &n);
		refused(deep[i][1], p, n, "nested too deeply");
		free(p);
		p = repeated(deep[i], 10, &n);
		r = render(p, n);
		check(r == 0, deep[i][1], err.msg);
		free(p);
	}
	for (i = 0; i < COUNT(flat); i++) {
		p = repeated(flat[i], 10000, &n);
		r = render(p, n);
		check(r == 0, flat[i][i == 4 || i == 5 ? 3 : 1], err.msg);
		free(p);
	}
}

static void
test_limits(void)
{
	/* what never ends, or grows */
	static const char *const endless[][2] = {
		{ "{% for a in range(100000) %}{% for b in range(100000) %}"
		    "{% endfor %}{% endfor %}", "more than" },
		{ "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		    "nested too deeply" },
		{ "{% set l = [1] %}{% for x in l %}{% set _ = l.append(1) %}"
		    "{% endfor %}", "more than" },
		{ "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
		    "nested too deeply" },
		{ "{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}",
		    "nested too deeply" },
		{ "{% set a = [] %}{% set _ = a.append(a) %}{% set b = [] %}"
		    "{% set _ = b.append(b) %}{{ a == b }}",
		    "nested too deeply" },
		{ "{% set n = namespace(s='aaaaaaaaaa') %}"
		    "{% for i in range(99) %}{% set n.s = n.s + n.s %}"
		    "{% endfor %}", "bytes" },
		{ "{% set n = namespace(a=[1], b=[1]) %}"
		    "{% for i in range(50) %}{% set n.a = [n.a, n.a] %}"
		    "{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}",
		    "steps" },
		{ "{% set s = 'ab' * 999999 %}{% for i in range(100000) %}"
		    "{% set _ = s.rstrip(s) %}{% endfor %}", "steps" },
		{ "{{ 'a' * 999999999999 }}", "more than" },
		{ "{{ [1] * 999999999999 }}", "more than" },
		{ "{{ range(1000000) }}", "range of more than" },
		{ "{{ 'aaaaaaaaaaaaaaaa' * 999999 * 9 }}", "bytes of text" },
		{ "{% set s = 'ab' * 9999999 %}{% for i in range(100000) %}"
		    "{{ 'aa' in s }}{% endfor %}", "steps" },
	};
	size_t i;

	for (i = 0; i < COUNT(endless); i++)
		refused(endless[i][0], endless[i][0], strlen(endless[i][0]),
		    endless[i][1]);
}

int
main(void)
{
	test_expressions();
	test_marks();
	test_errors();
	test_limits();
	test_nesting();
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
