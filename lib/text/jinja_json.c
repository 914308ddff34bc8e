/* SPDX-License-Identifier: MIT */
/* JSON text (RFC 8259) to values. */
#include <math.h>
#include <string.h>

#include "jinja.h"
#include "unicode.h"

struct reader {
	struct jinja *j;
	struct str s;
	size_t pos;
	enum mark mark;
	const char *what;
};

static _Noreturn void
bad(struct reader *r, const char *wanted)
{
	if (r->pos >= r->s.n)
		jinja_fail(r->j, "%s is not JSON: it ends where %s should be",
		    r->what, wanted);
	jinja_fail(r->j, "%s is not JSON: byte %zu: '%s' where %s should be",
	    r->what, r->pos, show(r->s.p + r->pos, str_char(r->s, r->pos)),
	    wanted);
}

static void
skip_space(struct reader *r)
{
	while (r->pos < r->s.n &&
	    memchr(" \t\n\r", r->s.p[r->pos], 4) != NULL)
		r->pos++;
}

static bool
take(struct reader *r, char c)
{
	skip_space(r);
	if (r->pos == r->s.n || r->s.p[r->pos] != c)
		return false;
	r->pos++;
	return true;
}

static uint32_t
hex4(struct reader *r)
{
	uint32_t v = 0;
	int i;

	for (i = 0; i < 4; i++, r->pos++) {
		char c = r->pos < r->s.n ? r->s.p[r->pos] : '\0';

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			bad(r, "a hexadecimal digit");
	}
	return v;
}

/* Behind a backslash; the bytes it stands for go to buf. */
static size_t
escape(struct reader *r, char *buf)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *known;
	uint32_t cp, low;

	known = r->pos < r->s.n && r->s.p[r->pos] != '\0' ?
	    memchr(from, r->s.p[r->pos], sizeof from - 1) : NULL;
	if (known != NULL) {
		r->pos++;
		buf[0] = to[known - from];
		return 1;
	}
	if (r->pos == r->s.n || r->s.p[r->pos] != 'u')
		bad(r, "an escape");
	r->pos++;
	cp = hex4(r);
	if (cp >= 0xd800 && cp < 0xdc00) {
		if (r->s.n - r->pos < 2 ||
		    memcmp(r->s.p + r->pos, "\\u", 2) != 0)
			bad(r, "the other half of a surrogate pair");
		r->pos += 2;
		low = hex4(r);
		if (low < 0xdc00 || low > 0xdfff)
			bad(r, "the other half of a surrogate pair");
		cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
	} else if (cp >= 0xdc00 && cp < 0xe000) {
		bad(r, "the first half of a surrogate pair");
	}
	return utf8_encode(cp, buf);
}

/* Behind the opening quote. */
static struct str
string(struct reader *r)
{
	size_t from = r->j->out.n, i;
	struct str s;
	char buf[4];

	for (;;) {
		for (i = r->pos; i < r->s.n && (unsigned char)r->s.p[i] >=
		    0x20 && r->s.p[i] != '"' && r->s.p[i] != '\\'; )
			i++;
		out_put(r->j, str_part(r->s, r->pos, i));
		r->pos = i;
		if (i == r->s.n || (unsigned char)r->s.p[i] < 0x20)
			bad(r, "the end of a string");
		r->pos++;
		if (r->s.p[i] == '"')
			break;
		out_put(r->j, str_of(buf, escape(r, buf)));
	}
	s = out_take(r->j, from);
	return r->mark == MARK_FRAME ? s :
	    str_marked(r->j, s.p, s.n, r->mark);
}

static size_t
digits(struct reader *r)
{
	size_t from = r->pos;

	while (r->pos < r->s.n && r->s.p[r->pos] >= '0' &&
	    r->s.p[r->pos] <= '9')
		r->pos++;
	if (r->pos == from)
		bad(r, "a digit");
	return r->pos - from;
}

static struct value
number(struct reader *r)
{
	size_t from = r->pos, n;
	bool whole = true;
	char buf[64];
	int64_t i;
	double f;

	r->pos += r->s.p[r->pos] == '-';
	if (r->pos < r->s.n && r->s.p[r->pos] == '0')
		r->pos++;
	else
		(void)digits(r);
	if (r->pos < r->s.n && r->s.p[r->pos] == '.') {
		r->pos++;
		(void)digits(r);
		whole = false;
	}
	if (r->pos < r->s.n && (r->s.p[r->pos] | 0x20) == 'e') {
		r->pos++;
		r->pos += r->pos < r->s.n && memchr("+-", r->s.p[r->pos],
		    2) != NULL;
		(void)digits(r);
		whole = false;
	}
	n = r->pos - from;
	if (n < sizeof buf) {
		memcpy(buf, r->s.p + from, n);
		buf[n] = '\0';
		if (whole && pico_parse_int(buf, INT64_MIN, INT64_MAX, &i,
		    NULL) == 0)
			return value_int(i);
		if (!whole && pico_parse_real(buf, -HUGE_VAL, HUGE_VAL, &f,
		    NULL) == 0)
			return value_float(f);
	}
	jinja_fail(r->j, "%s: byte %zu: number too large", r->what, from);
}

static struct value parse(struct reader *r);

static struct value
list(struct reader *r)
{
	struct list *l;
	struct value v = value_list(r->j, &l);

	if (take(r, ']'))
		return v;
	do
		list_add(r->j, l, parse(r));
	while (take(r, ','));
	if (!take(r, ']'))
		bad(r, "',' or ']'");
	return v;
}

static struct value
map(struct reader *r)
{
	struct dict *m;
	struct value v = value_map(r->j, &m);
	struct str key;

	if (take(r, '}'))
		return v;
	do {
		if (!take(r, '"'))
			bad(r, "a key");
		key = string(r);
		if (!take(r, ':'))
			bad(r, "':'");
		map_set(r->j, m, value_str(key), parse(r));
	} while (take(r, ','));
	if (!take(r, '}'))
		bad(r, "',' or '}'");
	return v;
}

static struct value
word(struct reader *r)
{
	static const struct {
		const char *text;
		struct value value;
	} words[] = {
		{ "true", { .kind = V_BOOL, .b = true } },
		{ "false", { .kind = V_BOOL, .b = false } },
		{ "null", { .kind = V_NONE } },
	};
	size_t i, n;

	for (i = 0; i < COUNT(words); i++) {
		n = strlen(words[i].text);
		if (n <= r->s.n - r->pos &&
		    memcmp(r->s.p + r->pos, words[i].text, n) == 0) {
			r->pos += n;
			return words[i].value;
		}
	}
	bad(r, "a value");
}

static struct value
parse(struct reader *r)
{
	struct value v;
	char c;

	jinja_enter(r->j);
	jinja_charge(r->j, 1);
	skip_space(r);
	c = r->pos < r->s.n ? r->s.p[r->pos] : '\0';
	if (c == '-' || (c >= '0' && c <= '9'))
		v = number(r);
	else if (take(r, '"'))
		v = value_str(string(r));
	else if (take(r, '['))
		v = list(r);
	else if (take(r, '{'))
		v = map(r);
	else
		v = word(r);
	r->j->depth--;
	return v;
}

struct value
json_parse(struct jinja *j, struct str text, enum mark mark, const char *what)
{
	struct reader r = { j, text, 0, mark, what };
	struct value v = parse(&r);

	skip_space(&r);
	if (r.pos < text.n)
		bad(&r, "the end");
	return v;
}
