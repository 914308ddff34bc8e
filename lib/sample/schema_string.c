/* SPDX-License-Identifier: MIT */
/* Patterns and formats: what is between the quotes of a JSON string. */
#include "schema.h"

/* ---- formats ---- */

#define HEX "[0-9a-f]"
#define LABEL "[a-z0-9]{1,12} (\"-\" [a-z0-9]{1,12})?"
#define HOST "(" LABEL " \".\"){1,3} [a-z]{2,8}"
#define OCTET "(\"25\" [0-5] | \"2\" [0-4] [0-9] | \"1\" [0-9]{2} | " \
	"[1-9] [0-9] | [0-9])"
#define DATE "[0-9]{4} \"-\" ((\"0\" [13578] | \"1\" [02]) \"-\" " \
	"(\"0\" [1-9] | [12] [0-9] | \"3\" [01]) | " \
	"(\"0\" [469] | \"11\") \"-\" (\"0\" [1-9] | [12] [0-9] | \"30\") | " \
	"\"02-\" (\"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8]))"
#define HOURS "(\"0\" [0-9] | \"1\" [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9]"
#define TIME HOURS " \":\" [0-5] [0-9] (\".\" [0-9]{1,9})? " \
	"(\"Z\" | [+-] " HOURS ")"

int
put_format(struct schema *s, uint32_t node, struct pico_str format)
{
	static const struct {
		const char *name, *text;
	} formats[] = {
		{ "date", DATE },
		{ "time", TIME },
		{ "date-time", DATE " \"T\" " TIME },
		{ "uuid", HEX "{8} (\"-\" " HEX "{4}){3} \"-\" " HEX "{12}" },
		{ "ipv4", OCTET " (\".\" " OCTET "){3}" },
		{ "ipv6", HEX "{1,4} (\":\" " HEX "{1,4}){7}" },
		{ "hostname", HOST },
		{ "email", "[a-z0-9]{1,16} ([._-] [a-z0-9]{1,16}){0,2} \"@\" "
		    HOST },
		{ "uri", "\"http\" \"s\"? \"://\" " HOST
		    " (\"/\" [a-zA-Z0-9._~-]{1,32}){0,8}" },
	};
	size_t i;

	for (i = 0; i < COUNT(formats); i++)
		if (pico_str_is(format, formats[i].name)) {
			put(s, " %s", formats[i].text);
			return 0;
		}
	return schema_bad(s, node, "format '%s' is not supported",
	    show_str(format));
}

/* ---- patterns ---- */

#define TIMES_MAX 1000000

struct pattern {
	struct schema *s;
	uint32_t node;
	struct pico_str t;
	size_t pos;
};

static int
bad(struct pattern *p, const char *what)
{
	return schema_bad(p->s, p->node, "pattern '%s', byte %zu: %s",
	    show_str(p->t), p->pos, what);
}

static int
peek(const struct pattern *p, size_t ahead)
{
	return p->t.n - p->pos > ahead ?
	    (unsigned char)p->t.p[p->pos + ahead] : -1;
}

/* One character, at `pos`; or an escape. A class of characters (\d, \w, \s) is
   told by its letter in *class, which else is 0. */
static int
character(struct pattern *p, uint32_t *cp, int *class)
{
	static const char plain[] = "^$\\.*+?()[]{}|/-\"'";
	size_t len = pico_utf8_len(p->t.p + p->pos, p->t.n - p->pos), i;
	int c = peek(p, 0);

	*class = 0;
	if (len == 0)
		return bad(p, "not UTF-8");
	*cp = len == 1 ? (uint32_t)c : (uint32_t)c & (0x7fu >> len);
	for (i = 1; i < len; i++)
		*cp = *cp << 6 | (uint32_t)(peek(p, i) & 0x3f);
	p->pos += len;
	if (c != '\\')
		return 0;
	c = peek(p, 0);
	if (c == 'd' || c == 'w' || c == 's')
		*class = c;
	else if (c == 't' || c == 'n' || c == 'r')
		*cp = c == 't' ? '\t' : c == 'n' ? '\n' : '\r';
	else if (c > 0 && strchr(plain, c) != NULL)
		*cp = (uint32_t)c;
	else
		return bad(p, "unsupported escape");
	p->pos++;
	return 0;
}

/* The ranges of a set, as GBNF wants them. */
static void
put_range(struct schema *s, uint32_t lo, uint32_t hi)
{
	if (lo <= hi)
		put(s, "\\U%08x-\\U%08x", (unsigned)lo, (unsigned)hi);
}

/* A range without what must be escaped in JSON. */
static void
put_plain(struct schema *s, uint32_t lo, uint32_t hi)
{
	static const uint32_t out[] = { 0x1f, '"', '\\', 0x7f };
	size_t i;

	lo = MAX(lo, 0x20);
	for (i = 1; i < COUNT(out); i++)
		if (lo <= out[i] && out[i] <= hi) {
			put_range(s, lo, out[i] - 1);
			lo = out[i] + 1;
		}
	/* no characters either */
	if (lo < 0xd800 && hi > 0xdfff) {
		put_range(s, lo, 0xd7ff);
		lo = 0xe000;
	}
	put_range(s, lo, hi);
}

/* Of blanks, only the space is written; none of them is "not a blank". */
static void
put_class(struct schema *s, int class, bool negate)
{
	put(s, "%s", class == 'd' ? "0-9" : class == 'w' ? "0-9A-Za-z_" :
	    negate ? " \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f"
	    "\\u205f\\u3000\\ufeff" : " ");
}

static int
set(struct pattern *p)
{
	bool negate = peek(p, 1) == '^', quote = false, slash = false;
	uint32_t lo, hi;
	int class, other;

	p->pos += 1u + negate;
	put(p->s, negate ? " [^\"\\\\\\x00-\\x1f\\x7f" : " ([");
	while (peek(p, 0) != ']') {
		if (peek(p, 0) < 0)
			return bad(p, "set without end");
		if (character(p, &lo, &class) < 0)
			return -1;
		if (class != 0) {
			put_class(p->s, class, negate);
			continue;
		}
		hi = lo;
		if (peek(p, 0) == '-' && peek(p, 1) >= 0 && peek(p, 1) != ']') {
			p->pos++;
			if (character(p, &hi, &other) < 0)
				return -1;
			if (other != 0 || hi < lo)
				return bad(p, "bad range");
		}
		if (negate) {
			put_range(p->s, lo, hi);
			continue;
		}
		quote = quote || (lo <= '"' && '"' <= hi);
		slash = slash || (lo <= '\\' && '\\' <= hi);
		put_plain(p->s, lo, hi);
	}
	p->pos++;
	if (!negate && p->s->out[p->s->n_out - 1] == '[') {
		if (!quote && !slash)
			return bad(p, "set without plain characters");
		p->s->n_out--;
	} else {
		put(p->s, "]");
	}
	if (quote) {
		put_bar(p->s);
		put(p->s, " \"\\\\\\\"\"");
	}
	if (slash) {
		put_bar(p->s);
		put(p->s, " \"\\\\\\\\\"");
	}
	if (!negate)
		put(p->s, ")");
	return 0;
}

static int
literal(struct pattern *p)
{
	uint32_t cp;
	size_t from = p->pos;
	int class;

	if (character(p, &cp, &class) < 0)
		return -1;
	if (class != 0) {
		put(p->s, " [");
		put_class(p->s, class, false);
		put(p->s, "]");
	} else if (cp == '"' || cp == '\\') {
		put(p->s, " \"\\\\\\%c\"", (char)cp);
	} else if (cp == '\t' || cp == '\n' || cp == '\r') {
		put(p->s, " \"\\\\%c\"", cp == '\t' ? 't' : cp == '\n' ? 'n' :
		    'r');
	} else if (cp < 0x20 || cp == 0x7f) {
		p->pos = from;
		return bad(p, "control characters are not supported");
	} else {
		put(p->s, " \"\\U%08x\"", (unsigned)cp);
	}
	return 0;
}

/* A number of times; false if there is none, or a very large one. */
static bool
times(struct pattern *p, int64_t *n)
{
	size_t from = p->pos;
	int c;

	for (*n = 0; (c = peek(p, 0)) >= '0' && c <= '9' && *n <= TIMES_MAX;
	    p->pos++)
		*n = *n * 10 + (c - '0');
	return p->pos > from && *n <= TIMES_MAX;
}

/* x{m,n} and the like, which GBNF has too. */
static int
quantifier(struct pattern *p)
{
	size_t from = p->pos++;
	int64_t min, max;

	if (p->t.p[from] == '{') {
		if (!times(p, &min))
			return bad(p, "number of times expected");
		max = min;
		if (peek(p, 0) == ',') {
			p->pos++;
			if (peek(p, 0) != '}' && !times(p, &max))
				return bad(p, "number of times expected");
		}
		if (peek(p, 0) != '}' || max < min)
			return bad(p, "{m}, {m,} or {m,n} expected");
		p->pos++;
	}
	put(p->s, "%.*s", (int)(p->pos - from), p->t.p + from);
	if (peek(p, 0) == '?' || peek(p, 0) == '+')
		return bad(p, "only plain repetition is supported");
	return 0;
}

/* ECMA 262 without what has no counterpart: looking around, references, word
   boundaries. */
int
put_pattern(struct schema *s, uint32_t node, struct pico_str t)
{
	struct pattern p = { s, node, t, 1 };
	size_t depth = 0;
	bool empty = true;	/* nothing before that could be repeated */
	int c, r;

	if (t.n < 2 || t.p[0] != '^' || t.p[t.n - 1] != '$' ||
	    (t.p[t.n - 2] == '\\' && (t.n < 3 || t.p[t.n - 3] != '\\')))
		return schema_bad(s, node, "pattern '%s' does not begin with ^ "
		    "and end with $", show_str(t));
	p.t.n--;
	while ((c = peek(&p, 0)) >= 0) {
		r = 0;
		if (c == '(') {
			p.pos++;
			if (peek(&p, 0) == '?' && peek(&p, 1) == ':')
				p.pos += 2;
			else if (peek(&p, 0) == '?')
				return bad(&p, "only groups (...) and (?:...) "
				    "are supported");
			depth++;
			put(s, " (");
		} else if (c == ')') {
			if (depth-- == 0)
				return bad(&p, "')' without '('");
			p.pos++;
			put(s, ")");
		} else if (c == '|') {
			if (depth == 0)
				return bad(&p, "'|' must be in a group between "
				    "^ and $");
			p.pos++;
			put(s, " |");
		} else if (c == '[') {
			r = set(&p);
		} else if (c == '.') {
			p.pos++;
			put(s, " [^\"\\\\\\x00-\\x1f\\x7f\\u2028\\u2029]");
		} else if (c == '*' || c == '+' || c == '?' || c == '{') {
			if (empty)
				return bad(&p, "nothing to repeat");
			r = quantifier(&p);
		} else if (c == '^' || c == '$') {
			return bad(&p, "'^' and '$' are only supported at the "
			    "ends");
		} else {
			r = literal(&p);
		}
		if (r < 0)
			return -1;
		empty = c == '(' || c == '|';
	}
	return depth > 0 ? bad(&p, "'(' without ')'") : 0;
}
