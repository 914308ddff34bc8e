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
#define LAST 0x10ffff	/* character */

struct range {
	uint32_t lo, hi;
};

struct pattern {
	struct schema *s;
	uint32_t node;
	struct pico_str t;
	size_t pos;
	struct range *set;	/* the characters that are being read */
	size_t n, cap;
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

/* ---- sets of characters ---- */

static int
add(struct pattern *p, uint32_t lo, uint32_t hi)
{
	if (mem_grow(&p->set, &p->cap, p->n + 1, sizeof *p->set,
	    "pattern: set", p->s->err) < 0)
		return -1;
	p->set[p->n++] = (struct range){ lo, hi };
	return 0;
}

static int
compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Turns the set into all characters that are not in it, in order. */
static int
complement(struct pattern *p)
{
	uint32_t from = 0;	/* not looked at so far */
	size_t i, n = 0;

	if (add(p, LAST + 1, LAST + 1) < 0)
		return -1;
	qsort(p->set, p->n, sizeof *p->set, compare);
	for (i = 0; i < p->n; i++) {
		struct range r = p->set[i];

		if (from < r.lo)
			p->set[n++] = (struct range){ from, r.lo - 1 };
		from = MAX(from, r.hi + 1);
	}
	p->n = n;
	return 0;
}

/* \d, \w, \s and the dot; a capital letter means the others. */
static int
add_class(struct pattern *p, int class)
{
	static const struct range digit[] = { { '0', '9' } },
	    word[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } },
	    space[] = { { '\t', '\r' }, { ' ', ' ' }, { 0xa0, 0xa0 },
	    { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
	    { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 },
	    { 0xfeff, 0xfeff } },
	    line_end[] = { { '\n', '\n' }, { '\r', '\r' },
	    { 0x2028, 0x2029 } };
	static const struct {
		const char *letters;
		const struct range *v;
		size_t n;
	} classes[] = {
		{ "dD", digit, COUNT(digit) }, { "wW", word, COUNT(word) },
		{ "sS", space, COUNT(space) }, { " .", line_end,
		    COUNT(line_end) },
	};
	uint32_t from = 0;
	size_t k = 0, i;

	while (strchr(classes[k].letters, class) == NULL)
		k++;
	for (i = 0; i < classes[k].n; i++) {
		struct range r = classes[k].v[i];

		if (class == classes[k].letters[0] ?
		    add(p, r.lo, r.hi) < 0 : add(p, from, r.lo - 1) < 0)
			return -1;
		from = r.hi + 1;
	}
	return class == classes[k].letters[0] ? 0 : add(p, from, LAST);
}

static void
put_range(struct schema *s, uint32_t lo, uint32_t hi)
{
	if (lo < hi)
		put(s, "\\U%08x-\\U%08x", (unsigned)lo, (unsigned)hi);
	else if (lo == hi)
		put(s, "\\U%08x", (unsigned)lo);
}

/* A range without what must be escaped in JSON. */
static void
put_plain(struct schema *s, uint32_t lo, uint32_t hi)
{
	static const uint32_t barred[] = { '"', '\\', 0x7f };
	size_t i;

	lo = MAX(lo, 0x20);
	for (i = 0; i < COUNT(barred); i++)
		if (lo <= barred[i] && barred[i] <= hi) {
			put_range(s, lo, barred[i] - 1);
			lo = barred[i] + 1;
		}
	/* no characters either */
	if (lo < 0xd800 && hi > 0xdfff) {
		put_range(s, lo, 0xd7ff);
		lo = 0xe000;
	}
	put_range(s, lo, hi);
}

static bool
in_set(const struct pattern *p, uint32_t cp)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		if (p->set[i].lo <= cp && cp <= p->set[i].hi)
			return true;
	return false;
}

/* One character of the set, as it is written in JSON: itself, or a backslash and
   a letter. Of control characters, only those with a letter are written. */
static int
put_set(struct pattern *p)
{
	static const char escaped[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
	struct schema *s = p->s;
	char letters[2 * sizeof letter], *end = letters;
	size_t at, i;

	put(s, " ([");
	at = s->n_out;
	for (i = 0; i < p->n; i++)
		put_plain(s, p->set[i].lo, p->set[i].hi);
	for (i = 0; escaped[i] != '\0'; i++)
		if (in_set(p, (unsigned char)escaped[i])) {
			if (escaped[i] == '\\')
				*end++ = '\\';
			*end++ = letter[i];
		}
	*end = '\0';
	p->n = 0;
	if (s->failed)
		return -1;
	if (s->n_out == at && end == letters)
		return bad(p, "no character here that could be written");
	if (s->n_out == at)
		s->n_out--;	/* no plain ones: no set of them */
	else
		put(s, "]");
	if (end > letters) {
		put_bar(s);
		put(s, " \"\\\\\" [%s]", letters);
	}
	put(s, ")");
	return 0;
}

/* ---- characters ---- */

static int
hex_digit(int c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ?
	    c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* n digits, or any number of them in braces. */
static int
by_number(struct pattern *p, int n, uint32_t *cp)
{
	bool braces = n == 4 && peek(p, 0) == '{';
	size_t from = p->pos += braces;
	int d;

	for (*cp = 0; (d = hex_digit(peek(p, 0))) >= 0 && *cp <= LAST &&
	    (braces || p->pos - from < (size_t)n); p->pos++)
		*cp = *cp << 4 | (uint32_t)d;
	if (braces ? p->pos == from || peek(p, 0) != '}' || *cp > LAST :
	    p->pos - from < (size_t)n)
		return bad(p, "\\xHH, \\uHHHH or \\u{H...} expected");
	p->pos += braces;
	return 0;
}

static int
escape(struct pattern *p, bool in_brackets, uint32_t *cp, int *class)
{
	static const char from[] = "tnrvf0", to[] = "\t\n\r\v\f";
	int c = peek(p, 0);
	uint32_t low;

	if (c <= 0)
		return bad(p, "nothing after the backslash");
	if (strchr("dDwWsS", c) != NULL) {
		*class = c;
	} else if (c == 'b' && in_brackets) {
		*cp = '\b';
	} else if (c == 'b' || c == 'B') {
		return bad(p, "word boundaries (\\b, \\B) are not supported");
	} else if ((c >= '1' && c <= '9') || c == 'k') {
		return bad(p, "references to groups are not supported");
	} else if (c == 'p' || c == 'P') {
		return bad(p, "Unicode properties (\\p) are not supported");
	} else if (strchr(from, c) != NULL) {
		*cp = (unsigned char)to[strchr(from, c) - from];
	} else if (c == 'x' || c == 'u') {
		p->pos++;
		if (by_number(p, c == 'x' ? 2 : 4, cp) < 0)
			return -1;
		if (*cp >= 0xd800 && *cp < 0xdc00 && peek(p, 0) == '\\' &&
		    peek(p, 1) == 'u') {
			p->pos += 2;
			if (by_number(p, 4, &low) < 0)
				return -1;
			*cp = low >= 0xdc00 && low < 0xe000 ? 0x10000 +
			    ((*cp - 0xd800) << 10) + (low - 0xdc00) : low;
		}
		if (*cp >= 0xd800 && *cp < 0xe000)
			return bad(p, "half a surrogate pair");
		return 0;
	} else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    c >= 0x80) {
		return bad(p, "unsupported escape");
	} else {
		*cp = (uint32_t)c;
	}
	p->pos++;
	return 0;
}

/* One character, at `pos`; or an escape. A class of characters is told by its
   letter in *class, which else is 0. */
static int
character(struct pattern *p, bool in_brackets, uint32_t *cp, int *class)
{
	size_t len = pico_utf8_len(p->t.p + p->pos, p->t.n - p->pos), i;

	*class = 0;
	if (len == 0)
		return bad(p, "not UTF-8");
	*cp = (uint32_t)peek(p, 0) & (len == 1 ? 0x7f : 0x7f >> len);
	for (i = 1; i < len; i++)
		*cp = *cp << 6 | (uint32_t)(peek(p, i) & 0x3f);
	p->pos += len;
	return *cp == '\\' ? escape(p, in_brackets, cp, class) : 0;
}

static int
brackets(struct pattern *p)
{
	bool negate = peek(p, 1) == '^';
	uint32_t lo, hi;
	int class, other;

	for (p->pos += 1u + negate; peek(p, 0) != ']'; ) {
		if (peek(p, 0) < 0)
			return bad(p, "set without end");
		if (character(p, true, &lo, &class) < 0)
			return -1;
		if (class != 0) {
			if (add_class(p, class) < 0)
				return -1;
			continue;
		}
		hi = lo;
		if (peek(p, 0) == '-' && peek(p, 1) >= 0 && peek(p, 1) != ']') {
			p->pos++;
			if (character(p, true, &hi, &other) < 0)
				return -1;
			if (other != 0 || hi < lo)
				return bad(p, "bad range");
		}
		if (add(p, lo, hi) < 0)
			return -1;
	}
	p->pos++;
	return negate && complement(p) < 0 ? -1 : put_set(p);
}

static int
one(struct pattern *p)
{
	uint32_t cp;
	int class;

	if (character(p, false, &cp, &class) < 0 ||
	    (class != 0 ? add_class(p, class) : add(p, cp, cp)) < 0)
		return -1;
	return put_set(p);
}

/* ---- what is made of them ---- */

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

/* x{m,n} and the like, which GBNF has too. A lazy one (x*?) fits the same. */
static int
quantifier(struct pattern *p)
{
	size_t from = p->pos++;
	int64_t min, max;

	if (p->t.p[from] == '{') {
		if (!times(p, &min))
			return bad(p, "number of times expected, up to 1000000");
		max = min;
		if (peek(p, 0) == ',') {
			p->pos++;
			if (peek(p, 0) != '}' && !times(p, &max))
				return bad(p, "number of times expected, up to "
				    "1000000");
		}
		if (peek(p, 0) != '}' || max < min)
			return bad(p, "{m}, {m,} or {m,n} expected");
		p->pos++;
	}
	put(p->s, "%.*s", (int)(p->pos - from), p->t.p + from);
	if (peek(p, 0) == '?')
		p->pos++;
	return 0;
}

/* What stands behind '(' before the group's own text. */
static int
group(struct pattern *p)
{
	int c = peek(p, 2), next = peek(p, 3);

	p->pos++;
	if (peek(p, 0) != '?')
		return 0;
	if (c == '=' || c == '!')
		return bad(p, "looking ahead, (?= and (?!, is not supported");
	if (c == '<' && (next == '=' || next == '!'))
		return bad(p, "looking behind, (?<= and (?<!, is not "
		    "supported");
	if (c != ':' && c != '<')
		return bad(p, "of groups, (...), (?:...) and (?<name>...) are "
		    "supported");
	p->pos += 2;
	if (c == ':')
		return 0;
	while (peek(p, 0) >= 0 && peek(p, 0) != '>')
		p->pos++;
	if (peek(p, 0) < 0)
		return bad(p, "name without end");
	p->pos++;
	return 0;
}

/*
 * ECMA 262 without what has no counterpart: looking around, references, word
 * boundaries. An alternative that is not held by ^ or by $ may have anything
 * before or behind it.
 */
static int
translate(struct pattern *p)
{
	struct schema *s = p->s;
	size_t depth = 0;
	bool first = true;	/* of an alternative outside of groups */
	bool empty = true;	/* nothing before that could be repeated */
	bool held = false;	/* by a $ before */
	int c, r = 0;

	for (put(s, " ("); ; first = c == '|' && depth == 0) {
		if (first && peek(p, 0) != '^')
			put(s, " char*");
		c = peek(p, 0);
		if (held && c >= 0 && c != '|')
			return bad(p, "'$' is only supported at the end");
		if (depth == 0 && (c < 0 || c == '|') && !held)
			put(s, " char*");
		if (c < 0)
			break;
		held = false;
		if (c == '(') {
			depth++;
			r = group(p);
			put(s, " (");
		} else if (c == ')') {
			if (depth-- == 0)
				return bad(p, "')' without '('");
			p->pos++;
			put(s, ")");
		} else if (c == '|') {
			p->pos++;
			put(s, " |");
		} else if (c == '[') {
			r = brackets(p);
		} else if (c == '.') {
			p->pos++;
			r = add_class(p, c) < 0 ? -1 : put_set(p);
		} else if (c == '*' || c == '+' || c == '?' || c == '{') {
			if (empty)
				return bad(p, "nothing to repeat");
			r = quantifier(p);
		} else if (c == '^') {
			if (!first)
				return bad(p, "'^' is only supported at the "
				    "beginning");
			p->pos++;
		} else if (c == '$') {
			if (depth > 0)
				return bad(p, "'$' in a group is not "
				    "supported");
			p->pos++;
			held = true;
		} else {
			r = one(p);
		}
		if (r < 0)
			return -1;
		empty = strchr("(|^$*+?{", c) != NULL;
	}
	put(s, " )");
	return depth > 0 ? bad(p, "'(' without ')'") : 0;
}

int
put_pattern(struct schema *s, uint32_t node, struct pico_str t)
{
	struct pattern p = { .s = s, .node = node, .t = t };
	int r = translate(&p);

	free(p.set);
	return r;
}
