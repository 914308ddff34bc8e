/* SPDX-License-Identifier: MIT */
/*
 * Chat templates: an interpreter for the part of Jinja that they use, as
 * Jinja2 3.1 understands it with trim_blocks, lstrip_blocks, loop controls and
 * no autoescape. A text is parsed once to a tree, which is then walked.
 *
 * Every byte of a string carries a mark that tells where it came from, through
 * all that a template does with it: so the output is known to be frame here and
 * words of a message there.
 *
 * All memory comes from an arena and goes with it. What fails leaves by a jump
 * to jinja_try(), the only way in.
 */
#ifndef PICO_JINJA_H
#define PICO_JINJA_H

#include <setjmp.h>

#include "../base/base.h"

/* Limits of one template and its run. */
#define JINJA_MEMORY (128u << 20)	/* bytes in the arena */
#define JINJA_OUTPUT (64u << 20)	/* bytes of text */
#define JINJA_STEPS 10000000u		/* parts of the tree evaluated */
#define JINJA_DEPTH 100			/* calls inside calls, here; some 600 bytes of
					   stack each */
#define JINJA_RANGE 100000		/* items of a range() */

/* Where a byte came from. */
enum mark {
	MARK_FRAME,		/* the template, or who wrote the program */
	MARK_CONTENT,		/* a message, a tool, a variable */
	MARK_ANSWER		/* the last message of the assistant */
};

struct str {
	const char *p;
	const uint8_t *mark;	/* of each byte; NULL: all MARK_FRAME */
	size_t n;
};

/* ---- values ---- */

enum kind {
	V_UNDEFINED, V_NONE, V_BOOL, V_INT, V_FLOAT, V_STR, V_LIST, V_MAP,
	V_NAMESPACE,		/* a map whose items `set` may change */
	V_LOOP, V_MACRO, V_METHOD, V_FUNCTION
};

struct value {
	enum kind kind;
	union {
		bool b;
		int64_t i;
		double f;
		struct str s;
		struct str name;	/* V_UNDEFINED: what was looked for */
		struct list *list;
		struct dict *map;	/* V_MAP, V_NAMESPACE */
		struct loop *loop;
		struct macro *macro;
		struct method *method;
		const struct function *function;
	};
};

struct list {
	struct value *v;
	size_t n, cap;
	bool tuple;		/* prints with parentheses */
};

struct dict_item {
	struct value key, value;
};

/* In the order of insertion. */
struct dict {
	struct dict_item *v;
	size_t n, cap;
};

struct loop {
	const struct list *list;
	size_t i;
};

/* A method of a value, not called yet. */
struct method {
	struct value self;
	const struct function *function;
};

/* ---- the tree ---- */

enum node_kind {
	/* statements */
	N_DATA,			/* value: text */
	N_PRINT,		/* a: expression */
	N_IF,			/* a: condition, b: body, c: else */
	N_FOR,			/* a: targets, b: list, c: filter, d: body,
				   e: else */
	N_SET,			/* a: targets, b: value */
	N_SET_BLOCK,		/* a: target, b: body, c: filters */
	N_FILTER_BLOCK,		/* b: body, c: filters */
	N_MACRO,		/* name, a: parameters (N_KEYWORD), b: body */
	N_BREAK, N_CONTINUE,
	/* expressions */
	N_CONST,		/* value */
	N_NAME,			/* name */
	N_LIST, N_TUPLE,	/* a: items */
	N_MAP,			/* a: key, value, key, value, ... */
	N_COND,			/* a: condition, b: then, c: else or NULL */
	N_OR, N_AND,		/* a: operands */
	N_NOT, N_NEGATE,	/* a: operand */
	N_COMPARE, N_MATH,	/* a: first operand, b: N_OPERAND list */
	N_OPERAND,		/* op, a: operand */
	N_CHAIN,		/* a: what it begins with, b: list of these: */
	N_ATTRIBUTE,		/* .name */
	N_ITEM,			/* [a] */
	N_SLICE,		/* [a:b:c], each may be N_CONST none */
	N_CALL,			/* (a: arguments, then N_KEYWORDs) */
	N_FILTER,		/* |name(a) */
	N_TEST, N_TEST_NOT,	/* is name(a) */
	N_KEYWORD		/* name, a: value or NULL */
};

struct node {
	enum node_kind kind;
	uint32_t at;		/* byte of the template text */
	int op;			/* OP('=', '=') and so on */
	struct node *next;	/* in a list */
	struct node *a, *b, *c, *d, *e;
	struct str name;
	struct value value;
	const struct function *function;	/* N_FILTER, N_TEST */
};

#define OP(a, b) ((a) << 8 | (b))
enum { OP_IN = OP('i', 'n'), OP_NOT_IN = OP('n', 'i') };

struct scope {
	struct scope *parent;
	struct var {
		struct var *next;
		struct str name;
		struct value value;
	} *vars;
};

struct macro {
	const struct node *node;
	struct scope *scope;	/* where it was made */
};

/* ---- the machine ---- */

struct jinja {
	struct pico_err *err;
	jmp_buf leave;
	/* the arena */
	struct block *blocks;
	size_t bytes;		/* in all blocks */
	/* the template */
	const char *text;
	size_t n_text;
	uint32_t at;		/* where in it we are, for messages */
	bool running;		/* parsing, too: at counts */
	struct node *tree;
	/* the run */
	struct scope globals;
	uint64_t steps;
	unsigned depth;
	struct {		/* text being written; what is put together
				   meanwhile stands at its end */
		char *p;
		uint8_t *mark;
		size_t n, cap;
	} out;
	int64_t date[6];	/* year, month, day, hour, minute, second */
	bool has_date;		/* else now */
};

typedef void jinja_fn(struct jinja *j, void *data);
/* Calls fn(j, data); -1 and *err if it failed somewhere inside. */
int jinja_try(struct jinja *j, jinja_fn *fn, void *data, struct pico_err *err);
void jinja_free(struct jinja *j);
/* Fails with a message, and the place in the template if one is at hand. */
_Noreturn void jinja_fail(struct jinja *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same at a byte of the template. */
_Noreturn void jinja_fail_at(struct jinja *j, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Zeroed bytes of the arena. */
void *jinja_alloc(struct jinja *j, size_t n, size_t size);
/* Accounts for work, in steps. */
void jinja_charge(struct jinja *j, uint64_t steps);
/* Accounts for a level of calls; to be given back by depth--. */
void jinja_enter(struct jinja *j);

/* A variable of all templates. */
void jinja_set(struct jinja *j, struct str name, struct value v);
/* Inside jinja_try(): the text, which is copied, to j->tree. */
void jinja_parse(struct jinja *j, const char *text, size_t n);
/* Appends what the tree writes to j->out. */
void jinja_run(struct jinja *j);

/* ---- strings (jinja_value.c) ---- */

static inline struct str
str_of(const char *p, size_t n)
{
	return (struct str){ p, NULL, n };
}
#define STR(literal) str_of(literal, sizeof literal - 1)

bool str_equal(struct str a, struct str b);
bool str_is(struct str a, const char *text);
/* Bytes from..to of it. */
struct str str_part(struct str s, size_t from, size_t to);
/* Bytes of the character at s.p[i]; of no character, 1. */
size_t str_char(struct str s, size_t i);
/* Characters. */
size_t str_length(struct jinja *j, struct str s);
/* Whether a character is white space to Python; *len: its bytes. */
bool str_is_space(struct str s, size_t i, size_t *len);
/* First occurrence at or after byte `from`; SIZE_MAX: none. */
size_t str_find(struct jinja *j, struct str s, struct str what, size_t from);
/* A copy with one mark for all of it. */
struct str str_marked(struct jinja *j, const char *p, size_t n, enum mark mark);

/* Writing, and taking back what was written since out.n was `from`. */
void out_put(struct jinja *j, struct str s);
void out_text(struct jinja *j, const char *text);
struct str out_take(struct jinja *j, size_t from);

/* ---- values (jinja_value.c) ---- */

extern const struct value none;
struct value value_bool(bool b);
struct value value_int(int64_t i);
struct value value_float(double f);
struct value value_str(struct str s);
struct value value_text(const char *text);	/* not copied */
struct value value_undefined(struct str name);
struct value value_list(struct jinja *j, struct list **list);
struct value value_map(struct jinja *j, struct dict **map);
void list_add(struct jinja *j, struct list *l, struct value v);
/* NULL: no such key. */
struct value *map_find(struct jinja *j, const struct dict *m, struct value key);
void map_set(struct jinja *j, struct dict *m, struct value key, struct value v);

const char *value_kind(const struct value *v);	/* "a list", ... */
bool value_true(const struct value *v);
bool value_equal(struct jinja *j, const struct value *a, const struct value *b);
/* Below 0, 0, above 0; fails where there is no order. */
int value_compare(struct jinja *j, const struct value *a,
    const struct value *b);
bool value_in(struct jinja *j, const struct value *a, const struct value *b);
/* Items of whatever a `for` can walk; fails for others. Borrowed or new. */
struct list *value_items(struct jinja *j, const struct value *v);
/* Its length; fails for what has none. */
size_t value_length(struct jinja *j, const struct value *v);
/* obj.name and obj[key], which look into the same places in another order. */
struct value value_attribute(struct jinja *j, const struct value *obj,
    struct str name);
struct value value_item(struct jinja *j, const struct value *obj,
    const struct value *key);
/* obj[from:to:step], where none stands for what was left out. */
struct value value_slice(struct jinja *j, const struct value *obj,
    const struct value *from, const struct value *to, const struct value *step);

/* Writes v as print does. */
void value_print(struct jinja *j, const struct value *v);
struct str value_string(struct jinja *j, const struct value *v);
/* Writes v as Python's repr() does. */
void value_repr(struct jinja *j, const struct value *v);

struct json_style {
	struct str comma, colon;	/* separators */
	int64_t indent;			/* < 0: all in one line */
	bool ascii, sort;
};
void value_json(struct jinja *j, const struct value *v,
    const struct json_style *style);
/* JSON text to a value whose strings have the mark given; `what` is its name in
   messages. */
struct value json_parse(struct jinja *j, struct str text, enum mark mark,
    const char *what);

/* ---- functions, filters, tests, methods (jinja_func.c) ---- */

#define FUNCTION_ARGS 4

/* A row of a table. arg[0] is what it is applied to, if anything; the others
   stand in the order of `names`, V_UNDEFINED where they are not given. */
struct function {
	const char *name;
	int min, max;		/* arguments, without arg[0] */
	const char *names[FUNCTION_ARGS];
	struct value (*call)(struct jinja *j, struct value *arg);
	struct value (*many)(struct jinja *j, struct value *arg,
	    const struct list *more, const struct dict *named);
};

/* NULL if there is none. */
const struct function *filter_find(struct str name);
const struct function *test_find(struct str name);
const struct function *method_find(enum kind kind, struct str name);
const struct function *global_find(struct str name);
/* self: NULL for functions. */
struct value function_call(struct jinja *j, const struct function *f,
    const struct value *self, const struct list *args,
    const struct dict *named);

#endif
