/* SPDX-License-Identifier: MIT */
/* Chat templates: text to tree. */
#include <math.h>
#include <string.h>

#include "jinja.h"
#include "unicode.h"

/* ---- tokens ---- */

enum token_kind {
	T_END, T_DATA, T_BLOCK, T_BLOCK_END, T_PRINT, T_PRINT_END, T_NAME,
	T_STRING, T_INT, T_FLOAT, T_OP
};

struct token {
	enum token_kind kind;
	size_t at;
	struct str text;	/* T_DATA, T_NAME, T_STRING */
	int op;			/* T_OP */
	struct value value;	/* T_INT, T_FLOAT */
};

struct parser {
	struct jinja *j;
	struct str s;
	size_t pos;
	enum token_kind inside;	/* T_BLOCK, T_PRINT; T_DATA: outside of tags */
	bool line_starts;	/* outside: the tag before ended its line */
	unsigned open;		/* brackets */
	unsigned loops;		/* that `break` would leave */
	struct token t;		/* the current token */
};

static bool
looking_at(const struct parser *p, size_t i, const char *text)
{
	size_t n = strlen(text);

	return n <= p->s.n - i && memcmp(p->s.p + i, text, n) == 0;
}

static size_t
skip_space(const struct parser *p, size_t i)
{
	size_t len;

	while (i < p->s.n && str_is_space(p->s, i, &len))
		i += len;
	return i;
}

/* Where the white space before byte `to` begins, if that is after `from`. */
static size_t
before_space(const struct parser *p, size_t from, size_t to)
{
	size_t last = from, i, len;

	for (i = from; i < to; i += len)
		if (!str_is_space(p->s, i, &len))
			last = i + len;
	return last;
}

/* Behind the end of a tag: "-" takes all white space, nothing takes a newline
   if `trim`, "+" keeps it. */
static void
leave_tag(struct parser *p, size_t end, char sign, bool trim)
{
	p->pos = end;
	if (sign == '-')
		p->pos = skip_space(p, end);
	else if (sign != '+' && trim && looking_at(p, end, "\n"))
		p->pos++;
	p->line_starts = p->pos > end && p->s.p[p->pos - 1] == '\n';
}

static void
skip_comment(struct parser *p, size_t from, size_t at)
{
	size_t i = from;
	char sign;

	while (i < p->s.n && !looking_at(p, i, "#}"))
		i++;
	if (i == p->s.n)
		jinja_fail_at(p->j, at, "comment without its end '#}'");
	sign = i > from ? p->s.p[i - 1] : '\0';
	leave_tag(p, i + 2, sign, true);
}

/* The next text or the beginning of a tag; comments vanish. */
static struct token
lex_outside(struct parser *p)
{
	size_t from = p->pos, at = from, end, line;
	char kind, sign;

	while (at < p->s.n && !(p->s.p[at] == '{' && at + 1 < p->s.n &&
	    memchr("{%#", p->s.p[at + 1], 3) != NULL))
		at++;
	if (at == p->s.n) {
		p->pos = at;
		return (struct token){ .at = from,
		    .kind = at > from ? T_DATA : T_END,
		    .text = str_part(p->s, from, at) };
	}
	kind = p->s.p[at + 1];
	sign = at + 2 < p->s.n ? p->s.p[at + 2] : '\0';
	end = at;
	if (sign == '-') {
		end = before_space(p, from, at);
	} else if (sign != '+' && kind != '{') {
		/* lstrip_blocks: from the start of a line on */
		for (line = at; line > from && p->s.p[line - 1] != '\n'; )
			line--;
		if ((line > from || p->line_starts) &&
		    before_space(p, line, at) == line)
			end = line;
	}
	if (end > from) {
		p->pos = at;	/* comes here again, with nothing before */
		p->line_starts = false;
		return (struct token){ .kind = T_DATA, .at = from,
		    .text = str_part(p->s, from, end) };
	}
	p->pos = at + 2 + (sign == '-' || sign == '+');
	if (kind == '#') {
		skip_comment(p, p->pos, at);
		return (struct token){ .kind = T_DATA, .at = at };
	}
	p->inside = kind == '{' ? T_PRINT : T_BLOCK;
	p->open = 0;
	return (struct token){ .kind = p->inside, .at = at };
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	    is_digit(c);
}

static struct token
lex_number(struct parser *p)
{
	struct token t = { .kind = T_INT, .at = p->pos };
	size_t i = p->pos, n, exponent;
	char buf[64];
	int64_t v;
	double f;

	while (i < p->s.n && is_digit(p->s.p[i]))
		i++;
	if (i + 1 < p->s.n && p->s.p[i] == '.' && is_digit(p->s.p[i + 1])) {
		t.kind = T_FLOAT;
		for (i++; i < p->s.n && is_digit(p->s.p[i]); )
			i++;
	}
	exponent = i;
	if (exponent < p->s.n && (p->s.p[i] | 0x20) == 'e') {
		exponent++;
		if (exponent < p->s.n && memchr("+-", p->s.p[exponent], 2))
			exponent++;
		if (exponent < p->s.n && is_digit(p->s.p[exponent])) {
			t.kind = T_FLOAT;
			for (i = exponent; i < p->s.n &&
			    is_digit(p->s.p[i]); )
				i++;
		}
	}
	n = i - p->pos;
	if (n >= sizeof buf)
		jinja_fail_at(p->j, t.at, "number too long");
	memcpy(buf, p->s.p + p->pos, n);
	buf[n] = '\0';
	if (t.kind == T_INT && pico_parse_int(buf, 0, INT64_MAX, &v, NULL) == 0)
		t.value = value_int(v);
	else if (t.kind == T_FLOAT && pico_parse_real(buf, -HUGE_VAL, HUGE_VAL,
	    &f, NULL) == 0)
		t.value = value_float(f);
	else
		jinja_fail_at(p->j, t.at, "number too large");
	p->pos = i;
	return t;
}

/* The value of n hexadecimal digits. */
static uint32_t
hex(struct parser *p, size_t at, size_t i, size_t n)
{
	uint32_t v = 0;

	if (n > p->s.n - i)
		jinja_fail_at(p->j, at, "string without its end");
	for (; n > 0; n--, i++) {
		char c = p->s.p[i];
		int d = is_digit(c) ? c - '0' :
		    (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ?
		    (c | 0x20) - 'a' + 10 : -1;

		if (d < 0)
			jinja_fail_at(p->j, i, "'%s' is not a hexadecimal "
			    "digit", show(&c, 1));
		v = v << 4 | (uint32_t)d;
	}
	if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
		jinja_fail_at(p->j, at, "U+%X is not a character", v);
	return v;
}

/* What a backslash at p->pos stands for, in buf; moves on behind it. Escapes
   are those of Python; an unknown one is itself. */
static struct str
lex_escape(struct parser *p, size_t at, char *buf)
{
	static const char from[] = "nrtabfv\\'\"", to[] = "\n\r\t\a\b\f\v\\'\"";
	const char *known;
	size_t digits, i = p->pos + 1;
	uint32_t cp;
	char c;

	if (i >= p->s.n)
		jinja_fail_at(p->j, at, "string without its end");
	c = p->s.p[i++];
	p->pos = i;
	if (c == '\n')
		return STR("");
	known = memchr(from, c, sizeof from - 1);
	if (known != NULL) {
		buf[0] = to[known - from];
		return str_of(buf, 1);
	}
	digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	if (digits > 0) {
		cp = hex(p, at, i, digits);
		p->pos = i + digits;
	} else if (c >= '0' && c <= '7') {
		cp = (uint32_t)(c - '0');
		for (; p->pos < p->s.n && p->pos < i + 2 &&
		    p->s.p[p->pos] >= '0' && p->s.p[p->pos] <= '7'; p->pos++)
			cp = cp * 8 + (uint32_t)(p->s.p[p->pos] - '0');
	} else {
		return str_part(p->s, i - 2, i);
	}
	return str_of(buf, utf8_encode(cp, buf));
}

static struct token
lex_string(struct parser *p)
{
	struct token t = { .kind = T_STRING, .at = p->pos };
	size_t from = p->j->out.n, i;
	char quote = p->s.p[p->pos++], buf[4];

	for (;;) {
		for (i = p->pos; i < p->s.n && p->s.p[i] != quote &&
		    p->s.p[i] != '\\'; )
			i++;
		out_put(p->j, str_part(p->s, p->pos, i));
		p->pos = i;
		if (i == p->s.n)
			jinja_fail_at(p->j, t.at, "string without its end");
		if (p->s.p[i] == quote)
			break;
		out_put(p->j, lex_escape(p, t.at, buf));
	}
	p->pos++;
	t.text = out_take(p->j, from);
	return t;
}

static struct token
lex_operator(struct parser *p)
{
	static const char *const twos[] = { "==", "!=", "<=", ">=", "//", "**" };
	struct token t = { .kind = T_OP, .at = p->pos };
	char c = p->s.p[p->pos];
	size_t i;

	for (i = 0; i < COUNT(twos); i++)
		if (looking_at(p, p->pos, twos[i])) {
			p->pos += 2;
			t.op = OP(twos[i][0], twos[i][1]);
			return t;
		}
	if (memchr("+-*/%~<>=.:,|()[]{}", c, 19) == NULL)
		jinja_fail_at(p->j, p->pos, "unexpected '%s'",
		    show(p->s.p + p->pos, str_char(p->s, p->pos)));
	if (memchr("([{", c, 3) != NULL)
		p->open++;
	else if (memchr(")]}", c, 3) != NULL && p->open > 0)
		p->open--;
	p->pos++;
	t.op = c;
	return t;
}

static struct token
lex_inside(struct parser *p)
{
	bool block = p->inside == T_BLOCK;
	const char *end = block ? "%}" : "}}";
	struct token t;
	char c, sign;

	p->pos = skip_space(p, p->pos);
	if (p->pos == p->s.n)
		jinja_fail_at(p->j, p->pos, "tag without its end '%s'", end);
	c = p->s.p[p->pos];
	sign = c == '-' || (c == '+' && block) ? c : '\0';
	if (p->open == 0 && looking_at(p, p->pos + (sign != '\0'), end)) {
		t = (struct token){ .at = p->pos,
		    .kind = block ? T_BLOCK_END : T_PRINT_END };
		leave_tag(p, p->pos + (sign != '\0') + 2, sign, block);
		p->inside = T_DATA;
		return t;
	}
	if (is_digit(c))
		return lex_number(p);
	if (c == '"' || c == '\'')
		return lex_string(p);
	if (!is_name(c))
		return lex_operator(p);
	t = (struct token){ .kind = T_NAME, .at = p->pos };
	while (p->pos < p->s.n && is_name(p->s.p[p->pos]))
		p->pos++;
	t.text = str_part(p->s, t.at, p->pos);
	return t;
}

static void
advance(struct parser *p)
{
	jinja_charge(p->j, 1);
	do
		p->t = p->inside == T_DATA ? lex_outside(p) : lex_inside(p);
	while (p->t.kind == T_DATA && p->t.text.n == 0);
	p->j->at = (uint32_t)p->t.at;
}

/* ---- what the current token is ---- */

static _Noreturn void
unexpected(struct parser *p, const char *wanted)
{
	struct token *t = &p->t;
	char op[3] = { (char)(t->op >> 8), (char)(t->op & 0xff), '\0' };
	const char *got = op[0] != '\0' ? op : op + 1;

	switch (t->kind) {
	case T_END: got = "the end of the template"; break;
	case T_DATA: got = "text"; break;
	case T_BLOCK: got = "{%"; break;
	case T_BLOCK_END: got = "%}"; break;
	case T_PRINT: got = "{{"; break;
	case T_PRINT_END: got = "}}"; break;
	case T_NAME: got = show(t->text.p, t->text.n); break;
	case T_STRING: got = "a string"; break;
	case T_INT: case T_FLOAT: got = "a number"; break;
	case T_OP: break;
	}
	jinja_fail_at(p->j, t->at, "'%s' where %s should be", got, wanted);
}

static bool
is_op(const struct parser *p, int op)
{
	return p->t.kind == T_OP && p->t.op == op;
}

static bool
is_word(const struct parser *p, const char *word)
{
	return p->t.kind == T_NAME && str_is(p->t.text, word);
}

static bool
take_op(struct parser *p, int op)
{
	if (!is_op(p, op))
		return false;
	advance(p);
	return true;
}

static bool
take_word(struct parser *p, const char *word)
{
	if (!is_word(p, word))
		return false;
	advance(p);
	return true;
}

static void
expect_op(struct parser *p, int op, const char *wanted)
{
	if (!take_op(p, op))
		unexpected(p, wanted);
}

static void
expect(struct parser *p, enum token_kind kind, const char *wanted)
{
	if (p->t.kind != kind)
		unexpected(p, wanted);
	advance(p);
}

static struct str
expect_name(struct parser *p)
{
	struct str name = p->t.text;

	expect(p, T_NAME, "a name");
	return name;
}

static struct node *
node(struct parser *p, enum node_kind kind)
{
	struct node *n = jinja_alloc(p->j, 1, sizeof *n);

	n->kind = kind;
	n->at = (uint32_t)p->t.at;
	return n;
}

/* ---- expressions ---- */

static struct node *parse_condition(struct parser *p);

/* Binary operators, from loose to tight; `not` stands between. */
static const struct operator {
	int op;
	const char *word;
	int level;
	enum node_kind kind;
} operators[] = {
	{ 0, "or", 1, N_OR },
	{ 0, "and", 2, N_AND },
#define LEVEL_NOT 3
	{ OP('=', '='), NULL, 4, N_COMPARE },
	{ OP('!', '='), NULL, 4, N_COMPARE },
	{ '<', NULL, 4, N_COMPARE },
	{ OP('<', '='), NULL, 4, N_COMPARE },
	{ '>', NULL, 4, N_COMPARE },
	{ OP('>', '='), NULL, 4, N_COMPARE },
	{ OP_IN, "in", 4, N_COMPARE },
	{ OP_NOT_IN, "not", 4, N_COMPARE },
	{ '+', NULL, 5, N_MATH },
	{ '-', NULL, 5, N_MATH },
	{ '~', NULL, 6, N_MATH },
	{ '*', NULL, 7, N_MATH },
	{ '/', NULL, 7, N_MATH },
	{ OP('/', '/'), NULL, 7, N_MATH },
	{ '%', NULL, 7, N_MATH },
};

static const struct operator *
current_operator(const struct parser *p)
{
	size_t i;

	for (i = 0; i < COUNT(operators); i++)
		if (operators[i].word != NULL ? is_word(p, operators[i].word) :
		    is_op(p, operators[i].op))
			return &operators[i];
	return NULL;
}

/* Arguments up to the closing parenthesis, of which the opening one is gone. */
static struct node *
parse_arguments(struct parser *p)
{
	struct node *first = NULL, **end = &first;
	bool named = false;

	while (!take_op(p, ')')) {
		struct parser ahead = *p;

		advance(&ahead);
		if (p->t.kind == T_NAME && is_op(&ahead, '=')) {
			*end = node(p, N_KEYWORD);
			(*end)->name = expect_name(p);
			advance(p);
			(*end)->a = parse_condition(p);
			named = true;
		} else if (named) {
			jinja_fail_at(p->j, p->t.at,
			    "argument without a name after one with a name");
		} else {
			*end = parse_condition(p);
		}
		end = &(*end)->next;
		if (!is_op(p, ')'))
			expect_op(p, ',', "',' or ')'");
	}
	return first;
}

/* "a, b": a tuple; "a": just that. `whole`: conditions may occur in it. */
static struct node *parse_binary(struct parser *p, int level);

static struct node *
parse_tuple(struct parser *p, bool whole)
{
	struct node *tuple = node(p, N_TUPLE), **end = &tuple->a;
	bool comma = false;

	while (p->t.kind != T_PRINT_END && p->t.kind != T_BLOCK_END &&
	    !is_op(p, ')')) {
		*end = whole ? parse_condition(p) : parse_binary(p, 1);
		end = &(*end)->next;
		if (!take_op(p, ','))
			break;
		comma = true;
	}
	if (tuple->a == NULL && !is_op(p, ')'))
		unexpected(p, "an expression");
	return tuple->a != NULL && !comma ? tuple->a : tuple;
}

/* Items up to a closing bracket; `map`: with a colon between each two. */
static struct node *
parse_items(struct parser *p, enum node_kind kind, int close)
{
	struct node *n = node(p, kind), **end = &n->a;

	advance(p);
	while (!take_op(p, close)) {
		*end = parse_condition(p);
		end = &(*end)->next;
		if (kind == N_MAP) {
			expect_op(p, ':', "':'");
			*end = parse_condition(p);
			end = &(*end)->next;
		}
		if (!is_op(p, close))
			expect_op(p, ',', kind == N_MAP ? "',' or '}'" :
			    "',' or ']'");
	}
	return n;
}

static struct node *
parse_word(struct parser *p)
{
	static const struct {
		const char *word;
		enum kind kind;
		bool b;
	} words[] = {
		{ "true", V_BOOL, true }, { "True", V_BOOL, true },
		{ "false", V_BOOL, false }, { "False", V_BOOL, false },
		{ "none", V_NONE, false }, { "None", V_NONE, false },
	};
	static const char *const reserved[] = { "and", "or", "not", "in", "is",
	    "if", "else" };
	struct node *n = node(p, N_NAME);
	size_t i;

	for (i = 0; i < COUNT(reserved); i++)
		if (is_word(p, reserved[i]))
			unexpected(p, "an expression");
	for (i = 0; i < COUNT(words); i++)
		if (is_word(p, words[i].word)) {
			n->kind = N_CONST;
			n->value.kind = words[i].kind;
			n->value.b = words[i].b;
		}
	n->name = expect_name(p);
	return n;
}

static struct node *
parse_primary(struct parser *p)
{
	struct node *n;
	size_t from;

	if (p->t.kind == T_NAME)
		return parse_word(p);
	if (is_op(p, '['))
		return parse_items(p, N_LIST, ']');
	if (is_op(p, '{'))
		return parse_items(p, N_MAP, '}');
	if (take_op(p, '(')) {
		n = parse_tuple(p, true);
		expect_op(p, ')', "')'");
		return n;
	}
	n = node(p, N_CONST);
	switch (p->t.kind) {
	case T_INT:
	case T_FLOAT:
		n->value = p->t.value;
		advance(p);
		return n;
	case T_STRING:		/* neighbours are one */
		from = p->j->out.n;
		for (; p->t.kind == T_STRING; advance(p))
			out_put(p->j, p->t.text);
		n->value = value_str(out_take(p->j, from));
		return n;
	default:
		unexpected(p, "an expression");
	}
}

/* Behind '['. */
static struct node *
parse_subscript(struct parser *p)
{
	struct node *n = node(p, N_ITEM), **part[] = { &n->a, &n->b, &n->c };
	size_t i;

	for (i = 0; i < 3; i++) {
		if (!is_op(p, ':') && !is_op(p, ']'))
			*part[i] = parse_condition(p);
		if (i == 2 || !take_op(p, ':'))
			break;
		n->kind = N_SLICE;
	}
	expect_op(p, ']', "']'");
	if (n->kind == N_ITEM && n->a == NULL)
		jinja_fail_at(p->j, n->at, "nothing between '[' and ']'");
	for (i = 0; n->kind == N_SLICE && i < 3; i++)
		if (*part[i] == NULL) {
			*part[i] = node(p, N_CONST);
			(*part[i])->value = none;
		}
	return n;
}

/* Behind '|'. */
static struct node *
parse_filter(struct parser *p)
{
	struct node *n = node(p, N_FILTER);

	n->name = expect_name(p);
	n->function = filter_find(n->name);
	if (n->function == NULL)
		jinja_fail_at(p->j, n->at, "unknown filter '%s'",
		    show(n->name.p, n->name.n));
	if (take_op(p, '('))
		n->a = parse_arguments(p);
	return n;
}

static struct node *parse_unary(struct parser *p, bool filters);

/* Behind `is`. */
static struct node *
parse_test(struct parser *p)
{
	struct node *n = node(p, N_TEST);

	if (take_word(p, "not"))
		n->kind = N_TEST_NOT;
	n->at = (uint32_t)p->t.at;
	n->name = expect_name(p);
	n->function = test_find(n->name);
	if (n->function == NULL)
		jinja_fail_at(p->j, n->at, "unknown test '%s'",
		    show(n->name.p, n->name.n));
	if (take_op(p, '('))
		n->a = parse_arguments(p);
	else if (n->function->max > 0)
		n->a = parse_unary(p, false);
	return n;
}

/* What may follow an expression, appended to a chain. */
static struct node *
parse_suffix(struct parser *p, bool filters)
{
	struct node *n;

	if (is_op(p, '(')) {
		n = node(p, N_CALL);
		advance(p);
		n->a = parse_arguments(p);
		return n;
	}
	if (filters)
		return take_op(p, '|') ? parse_filter(p) :
		    take_word(p, "is") ? parse_test(p) : NULL;
	if (take_op(p, '['))
		return parse_subscript(p);
	if (take_op(p, '.')) {
		n = node(p, N_ATTRIBUTE);
		n->name = expect_name(p);
		return n;
	}
	return NULL;
}

static struct node *
parse_chain(struct parser *p, struct node *first, bool filters)
{
	struct node *chain = NULL, **end = NULL, *n;

	while ((n = parse_suffix(p, filters)) != NULL) {
		if (chain == NULL) {
			chain = node(p, N_CHAIN);
			chain->a = first;
			end = &chain->b;
		}
		*end = n;
		end = &n->next;
	}
	return chain != NULL ? chain : first;
}

static struct node *
parse_unary(struct parser *p, bool filters)
{
	struct node *n;

	jinja_enter(p->j);
	if (is_op(p, '-')) {
		n = node(p, N_NEGATE);
		advance(p);
		n->a = parse_unary(p, false);
	} else {
		n = parse_chain(p, parse_primary(p), false);
	}
	if (filters)
		n = parse_chain(p, n, true);
	p->j->depth--;
	return n;
}

static struct node *
parse_binary(struct parser *p, int level)
{
	const struct operator *o, *last = NULL;
	struct node *left, *n = NULL, **end = NULL;

	jinja_enter(p->j);
	if (level <= LEVEL_NOT && is_word(p, "not")) {
		left = node(p, N_NOT);
		advance(p);
		left->a = parse_binary(p, LEVEL_NOT);
	} else {
		left = parse_unary(p, true);
	}
	while ((o = current_operator(p)) != NULL && o->level >= level) {
		if (last == NULL || o->level != last->level) {
			/* a = b + c is one node for all of a level */
			n = node(p, o->kind);
			n->a = left;
			end = o->kind == N_AND || o->kind == N_OR ?
			    &left->next : &n->b;
			left = n;
		}
		last = o;
		if (o->kind == N_COMPARE || o->kind == N_MATH) {
			*end = node(p, N_OPERAND);
			(*end)->op = o->op;
			advance(p);
			if (o->op == OP_NOT_IN && !take_word(p, "in"))
				unexpected(p, "'in'");
			(*end)->a = parse_binary(p, o->level + 1);
		} else {
			advance(p);
			*end = parse_binary(p, o->level + 1);
		}
		end = &(*end)->next;
	}
	p->j->depth--;
	return left;
}

static struct node *
parse_condition(struct parser *p)
{
	struct node *n, *first;

	jinja_enter(p->j);
	first = parse_binary(p, 1);
	while (is_word(p, "if")) {
		n = node(p, N_COND);
		advance(p);
		n->b = first;
		n->a = parse_binary(p, 1);
		if (take_word(p, "else"))
			n->c = parse_condition(p);
		first = n;
	}
	p->j->depth--;
	return first;
}

/* ---- statements ---- */

static struct node *parse_body(struct parser *p, const char *const *ends);

static void
end_tag(struct parser *p, const char *word)
{
	if (!take_word(p, word))
		unexpected(p, word);
	expect(p, T_BLOCK_END, "'%}'");
}

/* The body of a tag whose end is next, and its end. */
static struct node *
body_and_end(struct parser *p, const char *end)
{
	const char *const ends[] = { end, NULL };
	unsigned loops = p->loops;
	struct node *body;

	expect(p, T_BLOCK_END, "'%}'");
	p->loops = 0;
	body = parse_body(p, ends);
	p->loops = loops;
	end_tag(p, end);
	return body;
}

/* Names, or NAME.NAME, with commas between. */
static struct node *
parse_targets(struct parser *p, bool attributes)
{
	struct node *first = NULL, **end = &first, *n;

	do {
		n = *end = node(p, N_NAME);
		n->name = expect_name(p);
		if (attributes && first == n && take_op(p, '.')) {
			n->a = node(p, N_ATTRIBUTE);
			n->a->name = expect_name(p);
		}
		end = &n->next;
	} while (take_op(p, ','));
	return first;
}

static struct node *
parse_if(struct parser *p)
{
	static const char *const ends[] = { "elif", "else", "endif", NULL };
	struct node *first = NULL, **end = &first, *n;
	bool last = false;

	while (!last) {
		n = *end = node(p, N_IF);	/* if, elif or else */
		last = is_word(p, "else");
		advance(p);
		if (!last)
			n->a = parse_tuple(p, true);
		expect(p, T_BLOCK_END, "'%}'");
		n->b = parse_body(p, last ? ends + 2 : ends);
		end = &n->c;
		last = last || is_word(p, "endif");
	}
	end_tag(p, "endif");
	return first;
}

static struct node *
parse_for(struct parser *p)
{
	static const char *const ends[] = { "else", "endfor", NULL };
	struct node *n = node(p, N_FOR);

	advance(p);
	n->a = parse_targets(p, false);
	if (!take_word(p, "in"))
		unexpected(p, "'in'");
	n->b = parse_tuple(p, false);
	if (take_word(p, "if"))
		n->c = parse_condition(p);
	expect(p, T_BLOCK_END, "'%}'");
	p->loops++;
	n->d = parse_body(p, ends);
	p->loops--;
	if (take_word(p, "else")) {
		expect(p, T_BLOCK_END, "'%}'");
		n->e = parse_body(p, ends + 1);
	}
	end_tag(p, "endfor");
	return n;
}

static struct node *
parse_filters(struct parser *p)
{
	struct node *first = NULL, **end = &first;

	while (take_op(p, '|')) {
		*end = parse_filter(p);
		end = &(*end)->next;
	}
	return first;
}

static struct node *
parse_set(struct parser *p)
{
	struct node *n = node(p, N_SET);

	advance(p);
	n->a = parse_targets(p, true);
	if (take_op(p, '=')) {
		n->b = parse_tuple(p, true);
		expect(p, T_BLOCK_END, "'%}'");
		return n;
	}
	n->kind = N_SET_BLOCK;
	n->c = parse_filters(p);
	n->b = body_and_end(p, "endset");
	return n;
}

static struct node *
parse_filter_block(struct parser *p)
{
	struct node *n = node(p, N_FILTER_BLOCK);

	advance(p);
	n->c = parse_filter(p);
	n->c->next = parse_filters(p);
	n->b = body_and_end(p, "endfilter");
	return n;
}

static struct node *
parse_macro(struct parser *p)
{
	struct node *n = node(p, N_MACRO), **end = &n->a;

	advance(p);
	n->name = expect_name(p);
	expect_op(p, '(', "'('");
	while (!take_op(p, ')')) {
		*end = node(p, N_KEYWORD);
		(*end)->name = expect_name(p);
		if (take_op(p, '='))
			(*end)->a = parse_condition(p);
		end = &(*end)->next;
		if (!is_op(p, ')'))
			expect_op(p, ',', "',' or ')'");
	}
	n->b = body_and_end(p, "endmacro");
	return n;
}

/* Marks the part that a model answers; nothing to whoever asks. */
static struct node *
parse_generation(struct parser *p)
{
	struct node *n = node(p, N_FILTER_BLOCK);

	advance(p);
	n->b = body_and_end(p, "endgeneration");
	return n;
}

static struct node *
parse_jump(struct parser *p)
{
	struct node *n = node(p, is_word(p, "break") ? N_BREAK : N_CONTINUE);

	if (p->loops == 0)
		jinja_fail_at(p->j, n->at, "'%s' outside of a loop",
		    show(p->t.text.p, p->t.text.n));
	advance(p);
	expect(p, T_BLOCK_END, "'%}'");
	return n;
}

static struct node *
parse_print(struct parser *p)
{
	struct node *n = node(p, N_PRINT);

	advance(p);
	n->a = parse_tuple(p, true);
	expect(p, T_PRINT_END, "'}}'");
	return n;
}

static struct node *
parse_data(struct parser *p)
{
	struct node *n = node(p, N_DATA);

	n->value = value_str(p->t.text);
	advance(p);
	return n;
}

/* Statements up to a tag that is one of `ends`, of which '{%' is taken; NULL:
   up to the end of the template. */
static struct node *
parse_body(struct parser *p, const char *const *ends)
{
	static const struct {
		const char *word;
		struct node *(*parse)(struct parser *p);
	} tags[] = {
		{ "if", parse_if }, { "for", parse_for },
		{ "set", parse_set }, { "macro", parse_macro },
		{ "filter", parse_filter_block },
		{ "break", parse_jump }, { "continue", parse_jump },
		{ "generation", parse_generation },
	};
	struct node *first = NULL, **end = &first;
	size_t i, at = p->t.at;

	jinja_enter(p->j);
	for (; p->t.kind != T_END; end = &(*end)->next) {
		if (p->t.kind == T_DATA) {
			*end = parse_data(p);
			continue;
		}
		if (p->t.kind == T_PRINT) {
			*end = parse_print(p);
			continue;
		}
		at = p->t.at;
		expect(p, T_BLOCK, "text or a tag");
		for (i = 0; ends != NULL && ends[i] != NULL; i++)
			if (is_word(p, ends[i])) {
				p->j->depth--;
				return first;
			}
		for (i = 0; i < COUNT(tags); i++)
			if (is_word(p, tags[i].word))
				break;
		if (i == COUNT(tags))
			unexpected(p, ends != NULL ?
			    "a known tag or the end of one that is open" :
			    "a known tag");
		*end = tags[i].parse(p);
	}
	if (ends != NULL)
		jinja_fail_at(p->j, at, "'%s' is missing", ends[0]);
	p->j->depth--;
	return first;
}

/* Newlines of all kinds become one; one at the very end is dropped. */
void
jinja_parse(struct jinja *j, const char *text, size_t n)
{
	struct parser p = { .j = j, .inside = T_DATA, .line_starts = true };
	char *copy;
	size_t i, k = 0;

	if (n > JINJA_OUTPUT)
		jinja_fail(j, "template has %zu bytes, at most %u are "
		    "supported", n, JINJA_OUTPUT);
	copy = jinja_alloc(j, n, 1);
	for (i = 0; i < n; i++) {
		if (text[i] == '\n' && i > 0 && text[i - 1] == '\r')
			continue;
		copy[k++] = text[i] == '\r' ? '\n' : text[i];
	}
	k -= k > 0 && copy[k - 1] == '\n';
	j->text = copy;
	j->n_text = k;
	j->running = true;
	p.s = str_of(copy, k);
	advance(&p);
	j->tree = parse_body(&p, NULL);
}
