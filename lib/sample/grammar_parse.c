/* SPDX-License-Identifier: MIT */
/*
 * GBNF text to nodes, pico-grammar(5). Groups are on a stack of their own, so
 * that their depth is bounded by memory alone.
 */
#include <inttypes.h>
#include <stdio.h>

#include "grammar.h"

#define TEXT_MAX (16u << 20)
#define REPEAT_MAX 1000000

struct rule {
	struct pico_str name;
	int32_t start;		/* -1: not defined yet */
	size_t used;		/* where it was first referred to */
};

/* A rule or a group while it is read: `cur` is the end of what there is. */
struct group {
	int32_t start, end, cur;
	int32_t prev, elem;	/* the last element begins at elem, which
				   prev leads to; elem -1: none */
	size_t pos;		/* of its parenthesis */
};

struct parser {
	struct pico_grammar *g;
	const char *text;
	size_t n, pos;
	struct rule *rule;
	size_t n_rules, cap_rules;
	int32_t *slot;		/* hash table of the rules; -1: free */
	size_t mask;
	struct group *group;
	size_t n_groups, cap_groups;
	uint32_t *range;	/* of the set that is being read */
	size_t n_range, cap_range;
	struct pico_err *err;
};

/* An error with its place. */
static int bad(struct parser *p, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int
bad(struct parser *p, size_t at, const char *fmt, ...)
{
	size_t i, line = 1, column = 1;
	char msg[200];
	va_list ap;

	for (i = 0; i < at; i++) {
		if (p->text[i] == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)p->text[i] & 0xc0) != 0x80) {
			column++;
		}
	}
	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	return fail(p->err, "line %zu, column %zu: %s", line, column, msg);
}

static int
peek(const struct parser *p, size_t ahead)
{
	return p->n - p->pos > ahead ?
	    (unsigned char)p->text[p->pos + ahead] : -1;
}

static bool
is_name(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Blanks and comments, up to the end of the line. */
static void
skip_blanks(struct parser *p)
{
	int c;

	while ((c = peek(p, 0)) == ' ' || c == '\t' || c == '\r' || c == '#') {
		if (c == '#')
			while (peek(p, 0) >= 0 && peek(p, 0) != '\n')
				p->pos++;
		else
			p->pos++;
	}
}

static struct pico_str
name(struct parser *p)
{
	size_t from = p->pos;

	while (is_name(peek(p, 0)))
		p->pos++;
	return (struct pico_str){ p->text + from, p->pos - from };
}

/* Whether a rule begins here: a name and ::= */
static bool
at_rule(struct parser *p)
{
	size_t from = p->pos;
	bool yes = name(p).n > 0;

	skip_blanks(p);
	yes = yes && peek(p, 0) == ':' && peek(p, 1) == ':' &&
	    peek(p, 2) == '=';
	p->pos = from;
	return yes;
}

/* The slot of a rule's name, or one that is free for it; NULL: too far. */
static int32_t *
slot_of(const struct parser *p, struct pico_str s)
{
	size_t h = hash_text(0, s.p, s.n), i;
	int32_t *slot;

	for (i = 0; i < HASH_PROBES; i++) {
		slot = &p->slot[(h + i) & p->mask];
		if (*slot < 0 ||
		    pico_str_compare(p->rule[*slot].name, s) == 0)
			return slot;
	}
	return NULL;
}

static int
too_far(struct parser *p, size_t at)
{
	return bad(p, at, "names of rules have the same hash, more than %d of "
	    "them", HASH_PROBES);
}

static int
more_slots(struct parser *p)
{
	size_t n = 4 * (p->mask + 1), i;
	int32_t *slot = mem_new(n, sizeof *slot, "rules", p->err);

	if (slot == NULL)
		return -1;
	free(p->slot);
	p->slot = slot;
	p->mask = n - 1;
	for (i = 0; i < n; i++)
		slot[i] = -1;
	for (i = 0; i < p->n_rules; i++) {
		slot = slot_of(p, p->rule[i].name);
		if (slot == NULL)
			return too_far(p, p->rule[i].used);
		*slot = (int32_t)i;
	}
	return 0;
}

/* The number of a rule, which is new if the name is. */
static int32_t
find_rule(struct parser *p, struct pico_str s, size_t at)
{
	int32_t *slot;

	if (2 * p->n_rules >= p->mask && more_slots(p) < 0)
		return -1;
	slot = slot_of(p, s);
	if (slot == NULL)
		return too_far(p, at);
	if (*slot >= 0)
		return *slot;
	if (mem_grow(&p->rule, &p->cap_rules, p->n_rules + 1, sizeof *p->rule,
	    "rules", p->err) < 0)
		return -1;
	p->rule[p->n_rules] = (struct rule){ s, -1, at };
	return *slot = (int32_t)p->n_rules++;
}

/* ---- building ---- */

static struct group *
top(struct parser *p)
{
	return &p->group[p->n_groups - 1];
}

static int32_t
node(struct parser *p, enum node_kind kind)
{
	return grammar_node(p->g, kind, p->err);
}

static int
open_group(struct parser *p, size_t pos)
{
	int32_t start = node(p, N_EMPTY), end = node(p, N_EMPTY);

	if (start < 0 || end < 0 || mem_grow(&p->group, &p->cap_groups,
	    p->n_groups + 1, sizeof *p->group, "groups", p->err) < 0)
		return -1;
	p->group[p->n_groups++] = (struct group){ start, end, start, -1, -1,
	    pos };
	return 0;
}

/* What begins at `start` and ends at the empty node `end` comes next. */
static int
append(struct parser *p, int32_t start, int32_t end)
{
	struct group *g = top(p);

	p->g->node[g->cur].next = start;
	g->prev = g->cur;
	g->elem = start;
	g->cur = end;
	return 0;
}

static int
alternative(struct parser *p)
{
	struct group *g = top(p);
	int32_t split = node(p, N_SPLIT), empty = node(p, N_EMPTY);
	struct node *n = p->g->node;

	if (split < 0 || empty < 0)
		return -1;
	n[g->cur].next = g->end;
	n[split].next = n[g->start].next;
	n[split].to = empty;
	n[g->start].next = split;
	g->cur = empty;
	g->elem = -1;
	return 0;
}

/* The last element min..max times instead of once. */
static int
repeat(struct parser *p, uint32_t min, uint32_t max)
{
	struct group *g = top(p);
	int32_t end = node(p, N_EMPTY), r;
	struct node *n;

	if (max == 0) {
		n = p->g->node;
		if (end < 0)
			return -1;
		n[g->cur].next = end;	/* nothing leads there any more */
		n[g->prev].next = g->cur = g->elem = end;
		return 0;
	}
	r = node(p, min <= 1 && (max == 1 || max == NO_MAX) ? N_SPLIT :
	    N_REPEAT);
	n = p->g->node;
	if (end < 0 || r < 0)
		return -1;
	if (n[r].kind == N_SPLIT) {
		n[r].next = g->elem;
		n[r].to = end;
		n[g->cur].next = max == NO_MAX ? r : end;
		if (min == 0)
			n[g->prev].next = g->elem = r;
		/* x{1,1}: not to be left before it */
		else if (max == 1)
			n[r].to = g->elem;
	} else {
		n[g->cur].kind = N_RETURN;
		n[r].to = g->elem;
		n[r].next = end;
		n[r].min = min;
		n[r].max = max;
		n[g->prev].next = g->elem = r;
	}
	g->cur = end;
	return 0;
}

/* ---- elements ---- */

static int
hex(struct parser *p, size_t at, int digits, uint32_t *cp)
{
	int c, i;

	for (*cp = 0, i = 0; i < digits; i++, p->pos++) {
		c = peek(p, 0);
		if (c >= '0' && c <= '9')
			c -= '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			c = (c | 0x20) - 'a' + 10;
		else
			return bad(p, at, "escape needs %d hexadecimal digits",
			    digits);
		*cp = *cp << 4 | (uint32_t)c;
	}
	if (*cp > 0x10ffff || (*cp >= 0xd800 && *cp < 0xe000))
		return bad(p, at, "escape is no character: U+%04" PRIX32, *cp);
	return 0;
}

/* One character of a literal or set, perhaps as an escape. */
static int
character(struct parser *p, uint32_t *cp)
{
	static const char from[] = "nrt\\\"[]", to[] = "\n\r\t\\\"[]";
	size_t at = p->pos, len, i;
	const char *known;
	int c = peek(p, 0);

	if (c != '\\') {
		len = pico_utf8_len(p->text + p->pos, p->n - p->pos);
		if (len == 0)
			return bad(p, at, "not UTF-8");
		*cp = len == 1 ? (uint32_t)c : (uint32_t)c & (0x7fu >> len);
		for (i = 1; i < len; i++)
			*cp = *cp << 6 | (uint32_t)(peek(p, i) & 0x3f);
		p->pos += len;
		return 0;
	}
	c = peek(p, 1);
	p->pos += 2;
	if (c == 'x' || c == 'u' || c == 'U')
		return hex(p, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, cp);
	known = c > 0 ? memchr(from, c, sizeof from - 1) : NULL;
	if (known == NULL) {
		p->pos = at;
		return c < 0 ? bad(p, at, "escape is cut off") :
		    bad(p, at, "unknown escape '\\%s'", show(p->text + at + 1,
		    MAX(pico_utf8_len(p->text + at + 1, p->n - at - 1),
		    (size_t)1)));
	}
	*cp = (uint32_t)to[known - from];
	return 0;
}

static int
literal(struct parser *p)
{
	int32_t start = node(p, N_EMPTY), end = start, next, b;
	size_t at = p->pos++;
	uint32_t cp, range[2];

	if (start < 0)
		return -1;
	while (peek(p, 0) != '"') {
		if (peek(p, 0) < 0)
			return bad(p, at, "literal has no end");
		if (character(p, &cp) < 0)
			return -1;
		next = node(p, N_EMPTY);
		range[0] = range[1] = cp;
		if (next < 0 || (b = grammar_set(p->g, range, 1, next,
		    p->err)) < 0)
			return -1;
		p->g->node[end].next = b;
		end = next;
	}
	p->pos++;
	if (start == end) {		/* "" */
		end = node(p, N_EMPTY);
		if (end < 0)
			return -1;
		p->g->node[start].next = end;
	}
	return append(p, start, end);
}

static int
add_range(struct parser *p, uint32_t lo, uint32_t hi)
{
	if (mem_grow(&p->range, &p->cap_range, p->n_range + 2,
	    sizeof *p->range, "set of characters", p->err) < 0)
		return -1;
	p->range[p->n_range++] = lo;
	p->range[p->n_range++] = hi;
	return 0;
}

static int
compare_ranges(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Sorts the ranges and joins those that touch; or turns them into what is
   between them. */
static void
tidy(struct parser *p, bool negate)
{
	uint32_t *r = p->range, next = 0;
	size_t i, n = 0;

	qsort(r, p->n_range / 2, 2 * sizeof *r, compare_ranges);
	for (i = 0; i < p->n_range; i += 2) {
		if (n > 0 && r[i] <= r[n - 1] + 1) {
			r[n - 1] = MAX(r[n - 1], r[i + 1]);
			continue;
		}
		r[n] = r[i];
		r[n + 1] = r[i + 1];
		n += 2;
	}
	p->n_range = n;
	if (!negate)
		return;
	/* lo, hi, ... becomes 0, lo - 1, hi + 1, ...: one more, in place */
	for (i = 0, n = 0; i < p->n_range; i += 2) {
		uint32_t lo = r[i], hi = r[i + 1];

		if (lo > next) {
			r[n++] = next;
			r[n++] = lo - 1;
		}
		next = hi + 1;
	}
	if (next <= 0x10ffff) {
		r[n++] = next;
		r[n++] = 0x10ffff;
	}
	p->n_range = n;
}

static int
append_set(struct parser *p, size_t at)
{
	int32_t end = node(p, N_EMPTY), start;

	if (p->n_range == 0)
		return bad(p, at, "set without characters");
	if (end < 0)
		return -1;
	start = grammar_set(p->g, p->range, p->n_range / 2, end, p->err);
	return start < 0 ? -1 : append(p, start, end);
}

static int
set(struct parser *p)
{
	size_t at = p->pos++, from;
	bool negate = peek(p, 0) == '^';
	uint32_t lo, hi;

	p->pos += negate;
	p->n_range = 0;
	while (peek(p, 0) != ']') {
		if (peek(p, 0) < 0)
			return bad(p, at, "set has no end");
		from = p->pos;
		if (character(p, &lo) < 0)
			return -1;
		hi = lo;
		if (peek(p, 0) == '-' && peek(p, 1) != ']' &&
		    peek(p, 1) >= 0) {
			p->pos++;
			if (character(p, &hi) < 0)
				return -1;
			if (hi < lo)
				return bad(p, from, "range runs backwards");
		}
		if (add_range(p, lo, hi) < 0)
			return -1;
	}
	p->pos++;
	if (p->n_range == 0)
		return bad(p, at, "set without characters");
	if (add_range(p, 0x110000, 0x110000) < 0)	/* room for one more */
		return -1;
	p->n_range -= 2;
	tidy(p, negate);
	return append_set(p, at);
}

static int
reference(struct parser *p)
{
	size_t at = p->pos;
	int32_t r = find_rule(p, name(p), at);
	int32_t call = r < 0 ? -1 : node(p, N_CALL), end;

	end = call < 0 ? -1 : node(p, N_EMPTY);
	if (end < 0)
		return -1;
	p->g->node[call].min = (uint32_t)r;
	p->g->node[call].pos = (uint32_t)at;
	p->g->node[call].next = end;
	return append(p, call, end);
}

static int
number(struct parser *p, uint32_t *out)
{
	size_t at = p->pos;
	int c;

	for (*out = 0; (c = peek(p, 0)) >= '0' && c <= '9'; p->pos++) {
		*out = *out * 10 + (uint32_t)(c - '0');
		if (*out > REPEAT_MAX)
			return bad(p, at, "more than %d times", REPEAT_MAX);
	}
	return p->pos == at ? bad(p, at, "number expected") : 0;
}

static int
quantifier(struct parser *p)
{
	size_t at = p->pos;
	uint32_t min = 0, max = NO_MAX;
	int c = peek(p, 0);

	if (top(p)->elem < 0)
		return bad(p, at, "'%c' has nothing to repeat", c);
	p->pos++;
	if (c == '+')
		min = 1;
	if (c == '?')
		max = 1;
	if (c == '{') {
		skip_blanks(p);
		if (number(p, &min) < 0)
			return -1;
		max = min;
		skip_blanks(p);
		if (peek(p, 0) == ',') {
			p->pos++;
			skip_blanks(p);
			max = NO_MAX;
			if (peek(p, 0) != '}' && number(p, &max) < 0)
				return -1;
			skip_blanks(p);
		}
		if (peek(p, 0) != '}')
			return bad(p, p->pos, "'}' expected");
		if (max < min)
			return bad(p, at, "at least %" PRIu32 " and at most %"
			    PRIu32 " times", min, max);
		p->pos++;
	}
	return repeat(p, min, max);
}

static int
close_group(struct parser *p)
{
	struct group g = *top(p);

	p->g->node[g.cur].next = g.end;
	p->n_groups--;
	p->pos++;
	return append(p, g.start, g.end);
}

static int
element(struct parser *p, int c)
{
	size_t at = p->pos;

	switch (c) {
	case '"':
		return literal(p);
	case '[':
		return set(p);
	case '.':
		p->pos++;
		p->n_range = 0;
		return add_range(p, 0, 0x10ffff) < 0 ? -1 : append_set(p, at);
	case '(':
		p->pos++;
		return open_group(p, at);
	case ')':
		if (p->n_groups == 1)
			return bad(p, at, "')' without '('");
		return close_group(p);
	case '|':
		p->pos++;
		return alternative(p);
	case '*': case '+': case '?': case '{':
		return quantifier(p);
	case '<': case '!':
		return bad(p, at, "elements that are tokens are not "
		    "supported");
	default:
		if (is_name(c))
			return reference(p);
		return bad(p, at, "unexpected '%s'", show(p->text + at,
		    MAX(pico_utf8_len(p->text + at, p->n - at), (size_t)1)));
	}
}

/* A rule ends at the end of its line; but lines may break behind ::= and |, and
   in parentheses. */
static int
rule(struct parser *p)
{
	size_t at = p->pos;
	struct pico_str s = name(p);
	bool may_break = true, broken = false;
	int32_t r;
	int c;

	if (s.n == 0)
		return bad(p, at, "name of a rule expected");
	r = find_rule(p, s, at);
	skip_blanks(p);
	if (r < 0)
		return -1;
	if (peek(p, 0) != ':' || peek(p, 1) != ':' || peek(p, 2) != '=')
		return bad(p, p->pos, "'::=' expected");
	p->pos += 3;
	if (open_group(p, at) < 0)
		return -1;
	for (;;) {
		skip_blanks(p);
		c = peek(p, 0);
		if (c < 0 || (c == '\n' && p->n_groups == 1 && !may_break))
			break;
		if (c == '\n') {
			p->pos++;
			broken = true;
			continue;
		}
		if (broken && p->n_groups == 1 && at_rule(p))
			break;
		broken = false;
		may_break = c == '|';
		if (element(p, c) < 0)
			return -1;
	}
	if (p->n_groups > 1)
		return bad(p, top(p)->pos, "'(' without ')'");
	p->g->node[top(p)->cur].next = top(p)->end;
	p->g->node[top(p)->end].kind = N_RETURN;
	p->rule[r].start = top(p)->start;
	p->n_groups = 0;
	return 0;
}

static int
parse(struct parser *p)
{
	struct pico_grammar *g = p->g;
	int32_t root, call;
	size_t i;

	if (p->n > TEXT_MAX)
		return fail(p->err, "grammar has %zu bytes, at most %u can be "
		    "read", p->n, TEXT_MAX);
	for (;;) {
		skip_blanks(p);
		if (peek(p, 0) < 0)
			break;
		if (peek(p, 0) == '\n')
			p->pos++;
		else if (rule(p) < 0)
			return -1;
	}
	for (i = 0; i < p->n_rules; i++)
		if (p->rule[i].start < 0)
			return bad(p, p->rule[i].used, "there is no rule '%s'",
			    show_str(p->rule[i].name));
	i = p->n_rules;
	root = find_rule(p, (struct pico_str){ "root", 4 }, 0);
	if (root < 0)
		return -1;
	if ((size_t)root == i)
		return bad(p, p->n, "there is no rule 'root'");
	g->root = p->rule[root].start;
	for (i = 0; i < g->n_nodes; i++)
		if (g->node[i].kind == N_CALL)
			g->node[i].to = p->rule[g->node[i].min].start;
	if (grammar_finish(g, p->err) < 0)
		return -1;
	call = grammar_left_recursion(g, p->err);
	if (call == -2)
		return -1;
	if (call >= 0)
		return bad(p, g->node[call].pos, "rule '%s' comes back here "
		    "before it has read anything (left recursion)",
		    show_str(p->rule[g->node[call].min].name));
	if (g->cost[g->root] == NEVER)
		return fail(p->err, "rule 'root' has no end: no finite text "
		    "fits");
	return 0;
}

struct pico_grammar *
pico_grammar_parse(const char *text, size_t n, struct pico_err *err)
{
	struct parser p = { .text = text, .n = n, .err = err };
	int r = -1;

	p.g = mem_new(1, sizeof *p.g, "grammar", err);
	if (p.g != NULL)
		r = parse(&p);
	free(p.rule);
	free(p.slot);
	free(p.group);
	free(p.range);
	if (r < 0) {
		pico_grammar_free(p.g);
		return NULL;
	}
	return p.g;
}
