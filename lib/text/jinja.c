/* SPDX-License-Identifier: MIT */
/* Chat templates: memory, limits and messages, and the walk over the tree. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "jinja.h"

/* ---- the arena ---- */

#define BLOCK 65536

struct block {
	struct block *next;
	size_t used, size;
	_Alignas(16) char bytes[];
};

void *
jinja_alloc(struct jinja *j, size_t n, size_t size)
{
	struct block *b = j->blocks;
	uint64_t bytes;
	size_t room;

	if (!mul_u64(n, size, &bytes) || bytes > JINJA_MEMORY - j->bytes)
		jinja_fail(j, "more than %u bytes of memory", JINJA_MEMORY);
	bytes = (bytes + 15) / 16 * 16;
	if (b == NULL || bytes > b->size - b->used) {
		room = MAX((size_t)bytes, BLOCK - sizeof *b);
		b = mem_new(1, sizeof *b + room, "chat template", j->err);
		if (b == NULL)
			longjmp(j->leave, 1);
		b->size = room;
		b->next = j->blocks;
		j->blocks = b;
	}
	b->used += bytes;
	j->bytes += bytes;
	return b->bytes + b->used - bytes;
}

void
jinja_free(struct jinja *j)
{
	struct block *b;

	while ((b = j->blocks) != NULL) {
		j->blocks = b->next;
		free(b);
	}
	free(j->out.p);
	free(j->out.mark);
}

/* ---- failures and limits ---- */

int
jinja_try(struct jinja *j, jinja_fn *fn, void *data, struct pico_err *err)
{
	j->err = err;
	j->depth = 0;
	j->running = false;
	if (setjmp(j->leave) != 0)
		return -1;
	fn(j, data);
	return 0;
}

/* With the place in the template, if it is about that. */
static _Noreturn void
leave(struct jinja *j, size_t at, bool place, const char *msg)
{
	size_t i, line = 1, column = 1;

	for (i = 0; i < at && i < j->n_text; i++) {
		column += ((unsigned char)j->text[i] & 0xc0) != 0x80;
		if (j->text[i] == '\n') {
			line++;
			column = 1;
		}
	}
	(void)(place ? fail(j->err, "template: line %zu, column %zu: %s", line,
	    column, msg) : fail(j->err, "%s", msg));
	longjmp(j->leave, 1);
}

void
jinja_fail_at(struct jinja *j, size_t at, const char *fmt, ...)
{
	char msg[400];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	leave(j, at, true, msg);
}

void
jinja_fail(struct jinja *j, const char *fmt, ...)
{
	char msg[400];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	leave(j, j->at, j->running, msg);
}

void
jinja_charge(struct jinja *j, uint64_t steps)
{
	j->steps += steps;
	if (j->steps > JINJA_STEPS)
		jinja_fail(j, "more than %u steps", JINJA_STEPS);
}

void
jinja_enter(struct jinja *j)
{
	if (++j->depth > JINJA_DEPTH)
		jinja_fail(j, "nested too deeply");
}

/* ---- names ---- */

static struct var *
find_here(struct jinja *j, const struct scope *s, struct str name)
{
	struct var *v = s->vars;
	uint64_t n = 0;

	for (; v != NULL && !str_equal(v->name, name); n++)
		v = v->next;
	jinja_charge(j, n / 8);
	return v;
}

static void
set_here(struct jinja *j, struct scope *s, struct str name, struct value value)
{
	struct var *v = find_here(j, s, name);

	if (v == NULL) {
		v = jinja_alloc(j, 1, sizeof *v);
		v->name = name;
		v->next = s->vars;
		s->vars = v;
	}
	v->value = value;
}

void
jinja_set(struct jinja *j, struct str name, struct value v)
{
	set_here(j, &j->globals, name, v);
}

static struct scope *
inner(struct jinja *j, struct scope *outer)
{
	struct scope *s = jinja_alloc(j, 1, sizeof *s);

	s->parent = outer;
	return s;
}

static struct value
look_up(struct jinja *j, const struct scope *s, struct str name)
{
	const struct function *f;
	const struct var *v;

	for (; s != NULL; s = s->parent)
		if ((v = find_here(j, s, name)) != NULL)
			return v->value;
	f = global_find(name);
	return f == NULL ? value_undefined(name) :
	    (struct value){ .kind = V_FUNCTION, .function = f };
}

/* ---- expressions ---- */

static struct value eval(struct jinja *j, struct scope *s,
    const struct node *n);

static struct value
eval_list(struct jinja *j, struct scope *s, const struct node *n)
{
	const struct node *i;
	struct list *l;
	struct value v = value_list(j, &l);

	l->tuple = n->kind == N_TUPLE;
	for (i = n->a; i != NULL; i = i->next)
		list_add(j, l, eval(j, s, i));
	return v;
}

static struct value
eval_map(struct jinja *j, struct scope *s, const struct node *n)
{
	const struct node *i;
	struct value key, v;
	struct dict *m;

	v = value_map(j, &m);
	for (i = n->a; i != NULL; i = i->next->next) {
		key = eval(j, s, i);
		map_set(j, m, key, eval(j, s, i->next));
	}
	return v;
}

/* The operand that decides. */
static struct value
eval_logic(struct jinja *j, struct scope *s, const struct node *n)
{
	bool stop = n->kind == N_OR;
	const struct node *i;
	struct value v = none;

	for (i = n->a; i != NULL; i = i->next) {
		v = eval(j, s, i);
		if (value_true(&v) == stop)
			break;
	}
	return v;
}

static bool
compares(struct jinja *j, int op, const struct value *a, const struct value *b)
{
	switch (op) {
	case OP('=', '='): return value_equal(j, a, b);
	case OP('!', '='): return !value_equal(j, a, b);
	case OP_IN: return value_in(j, a, b);
	case OP_NOT_IN: return !value_in(j, a, b);
	case '<': return value_compare(j, a, b) < 0;
	case OP('<', '='): return value_compare(j, a, b) <= 0;
	case '>': return value_compare(j, a, b) > 0;
	default: return value_compare(j, a, b) >= 0;
	}
}

/* a < b < c is a < b and b < c. */
static struct value
eval_compare(struct jinja *j, struct scope *s, const struct node *n)
{
	struct value a = eval(j, s, n->a), b;
	const struct node *i;

	for (i = n->b; i != NULL; i = i->next) {
		b = eval(j, s, i->a);
		j->at = i->at;
		if (!compares(j, i->op, &a, &b))
			return value_bool(false);
		a = b;
	}
	return value_bool(true);
}

static _Noreturn void
no_sum(struct jinja *j, int op, const struct value *a, const struct value *b)
{
	const struct value *u = a->kind == V_UNDEFINED ? a : b;

	if (u->kind == V_UNDEFINED)
		jinja_fail(j, "'%s' is undefined", show(u->name.p, u->name.n));
	jinja_fail(j, "no '%s%c' of %s and %s", op > 0xff ? "/" : "",
	    op & 0xff, value_kind(a), value_kind(b));
}

static struct value
whole_math(struct jinja *j, int op, int64_t a, int64_t b)
{
	bool over = false;
	int64_t r = 0, rest;

	switch (op) {
	case '+': over = __builtin_add_overflow(a, b, &r); break;
	case '-': over = __builtin_sub_overflow(a, b, &r); break;
	case '*': over = __builtin_mul_overflow(a, b, &r); break;
	default:
		if (b == 0)
			jinja_fail(j, "division by zero");
		if (op == '/')
			return value_float((double)a / (double)b);
		over = a == INT64_MIN && b == -1;
		if (over)
			break;
		/* towards minus infinity */
		rest = a % b;
		r = a / b;
		if (rest != 0 && (rest < 0) != (b < 0)) {
			rest += b;
			r--;
		}
		r = op == '%' ? rest : r;
	}
	if (over)
		jinja_fail(j, "number too large");
	return value_int(r);
}

static struct value
real_math(struct jinja *j, int op, double a, double b)
{
	switch (op) {
	case '+': return value_float(a + b);
	case '-': return value_float(a - b);
	case '*': return value_float(a * b);
	}
	if (b == 0)
		jinja_fail(j, "division by zero");
	return value_float(op == '/' ? a / b : op == '%' ?
	    a - floor(a / b) * b : floor(a / b));
}

/* A string or list n times. */
static struct value
repeat(struct jinja *j, const struct value *v, int64_t n)
{
	size_t from = j->out.n, i;
	struct value r;
	struct list *l;

	if (v->kind == V_STR) {
		for (; n > 0 && v->s.n > 0; n--) {
			jinja_charge(j, 1);
			out_put(j, v->s);
		}
		return value_str(out_take(j, from));
	}
	r = value_list(j, &l);
	for (; n > 0 && v->list->n > 0; n--) {
		jinja_charge(j, v->list->n);
		for (i = 0; i < v->list->n; i++)
			list_add(j, l, v->list->v[i]);
	}
	return r;
}

static struct value
math(struct jinja *j, int op, const struct value *a, const struct value *b)
{
	bool whole_a = a->kind == V_INT || a->kind == V_BOOL;
	bool whole_b = b->kind == V_INT || b->kind == V_BOOL;
	struct value sum;
	struct list *l;
	size_t i;

	if (whole_a && whole_b)
		return whole_math(j, op, a->kind == V_INT ? a->i : a->b,
		    b->kind == V_INT ? b->i : b->b);
	if ((whole_a || a->kind == V_FLOAT) && (whole_b || b->kind == V_FLOAT))
		return real_math(j, op, a->kind == V_FLOAT ? a->f :
		    a->kind == V_INT ? (double)a->i : a->b,
		    b->kind == V_FLOAT ? b->f :
		    b->kind == V_INT ? (double)b->i : b->b);
	if (op == '*' && b->kind == V_INT &&
	    (a->kind == V_STR || a->kind == V_LIST))
		return repeat(j, a, b->i);
	if (op == '*' && a->kind == V_INT &&
	    (b->kind == V_STR || b->kind == V_LIST))
		return repeat(j, b, a->i);
	if (op != '+' || a->kind != V_LIST || b->kind != V_LIST)
		no_sum(j, op, a, b);
	sum = value_list(j, &l);
	jinja_charge(j, (a->list->n + b->list->n) / 16);
	for (i = 0; i < a->list->n; i++)
		list_add(j, l, a->list->v[i]);
	for (i = 0; i < b->list->n; i++)
		list_add(j, l, b->list->v[i]);
	return sum;
}

/* Text that is put together grows at the end of the output. */
static struct value
eval_math(struct jinja *j, struct scope *s, const struct node *n)
{
	struct value a = eval(j, s, n->a), b;
	size_t from = j->out.n;
	bool growing = false;
	const struct node *i;

	for (i = n->b; i != NULL; i = i->next) {
		b = eval(j, s, i->a);
		j->at = i->at;
		if (i->op == '~' || (i->op == '+' && b.kind == V_STR &&
		    (growing || a.kind == V_STR))) {
			if (!growing)
				value_print(j, &a);
			value_print(j, &b);
			growing = true;
			continue;
		}
		if (growing)
			a = value_str(out_take(j, from));
		growing = false;
		a = math(j, i->op, &a, &b);
	}
	return growing ? value_str(out_take(j, from)) : a;
}

static struct value
eval_negate(struct jinja *j, struct scope *s, const struct node *n)
{
	struct value v = eval(j, s, n->a), zero = value_int(0);

	if (v.kind == V_FLOAT)
		return value_float(-v.f);
	return math(j, '-', &zero, &v);
}

/* ---- calls ---- */

static struct value call_macro(struct jinja *j, const struct macro *m,
    const struct list *args, const struct dict *named);

static void
eval_arguments(struct jinja *j, struct scope *s, const struct node *n,
    struct list **args, struct dict **named)
{
	(void)value_list(j, args);
	(void)value_map(j, named);
	for (; n != NULL; n = n->next) {
		if (n->kind == N_KEYWORD)
			map_set(j, *named, value_str(n->name),
			    eval(j, s, n->a));
		else
			list_add(j, *args, eval(j, s, n));
	}
}

static struct value
call(struct jinja *j, const struct value *f, const struct list *args,
    const struct dict *named)
{
	switch (f->kind) {
	case V_MACRO:
		return call_macro(j, f->macro, args, named);
	case V_METHOD:
		return function_call(j, f->method->function, &f->method->self,
		    args, named);
	case V_FUNCTION:
		return function_call(j, f->function, NULL, args, named);
	case V_UNDEFINED:
		jinja_fail(j, "'%s' is undefined",
		    show(f->name.p, f->name.n));
	default:
		jinja_fail(j, "%s cannot be called", value_kind(f));
	}
}

static struct value
eval_suffix(struct jinja *j, struct scope *s, const struct value *v,
    const struct node *n)
{
	struct value part[3];
	struct list *args;
	struct dict *named;

	switch (n->kind) {
	case N_ATTRIBUTE:
		j->at = n->at;
		return value_attribute(j, v, n->name);
	case N_ITEM:
		part[0] = eval(j, s, n->a);
		j->at = n->at;
		return value_item(j, v, &part[0]);
	case N_SLICE:
		part[0] = eval(j, s, n->a);
		part[1] = eval(j, s, n->b);
		part[2] = eval(j, s, n->c);
		j->at = n->at;
		return value_slice(j, v, &part[0], &part[1], &part[2]);
	default:
		eval_arguments(j, s, n->a, &args, &named);
		j->at = n->at;
	}
	if (n->kind == N_CALL)
		return call(j, v, args, named);
	part[0] = function_call(j, n->function, v, args, named);
	if (n->kind == N_TEST_NOT)
		part[0].b = !part[0].b;
	return part[0];
}

static struct value
eval_chain(struct jinja *j, struct scope *s, const struct node *n)
{
	struct value v = eval(j, s, n->a);
	const struct node *i;

	for (i = n->b; i != NULL; i = i->next) {
		jinja_charge(j, 1);
		v = eval_suffix(j, s, &v, i);
	}
	return v;
}

static struct value
eval_condition(struct jinja *j, struct scope *s, const struct node *n)
{
	struct value v = eval(j, s, n->a);

	if (value_true(&v))
		return eval(j, s, n->b);
	return n->c != NULL ? eval(j, s, n->c) : value_undefined(STR("else"));
}

static struct value
eval(struct jinja *j, struct scope *s, const struct node *n)
{
	struct value v;

	j->at = n->at;
	jinja_enter(j);
	jinja_charge(j, 1);
	switch (n->kind) {
	case N_CONST: v = n->value; break;
	case N_NAME: v = look_up(j, s, n->name); break;
	case N_LIST: case N_TUPLE: v = eval_list(j, s, n); break;
	case N_MAP: v = eval_map(j, s, n); break;
	case N_COND: v = eval_condition(j, s, n); break;
	case N_OR: case N_AND: v = eval_logic(j, s, n); break;
	case N_COMPARE: v = eval_compare(j, s, n); break;
	case N_MATH: v = eval_math(j, s, n); break;
	case N_NEGATE: v = eval_negate(j, s, n); break;
	case N_CHAIN: v = eval_chain(j, s, n); break;
	default:	/* N_NOT */
		v = eval(j, s, n->a);
		v = value_bool(!value_true(&v));
	}
	j->depth--;
	return v;
}

/* ---- statements ---- */

enum flow { GO_ON, BREAK, CONTINUE };

static enum flow run(struct jinja *j, struct scope *s, const struct node *n);

static void
assign(struct jinja *j, struct scope *s, const struct node *target,
    struct value v)
{
	struct value space;

	if (target->a == NULL) {
		set_here(j, s, target->name, v);
		return;
	}
	space = look_up(j, s, target->name);
	if (space.kind != V_NAMESPACE)
		jinja_fail_at(j, target->at, "'%s' is not a namespace",
		    show(target->name.p, target->name.n));
	map_set(j, space.map, value_str(target->a->name), v);
}

/* To one name the value, to several its items. */
static void
assign_all(struct jinja *j, struct scope *s, const struct node *targets,
    struct value v)
{
	const struct node *t;
	const struct list *l;
	size_t n = 0;

	if (targets->next == NULL) {
		assign(j, s, targets, v);
		return;
	}
	j->at = targets->at;
	l = value_items(j, &v);
	for (t = targets; t != NULL; t = t->next)
		n++;
	if (l->n != n)
		jinja_fail(j, "%zu names for %zu values", n, l->n);
	for (t = targets, n = 0; t != NULL; t = t->next)
		assign(j, s, t, l->v[n++]);
}

static struct list *
filtered(struct jinja *j, struct scope *outer, const struct node *n,
    const struct list *items)
{
	struct scope *s;
	struct value ok;
	struct list *l;
	size_t i;

	(void)value_list(j, &l);
	for (i = 0; i < items->n; i++) {
		s = inner(j, outer);
		assign_all(j, s, n->a, items->v[i]);
		ok = eval(j, s, n->c);
		if (value_true(&ok))
			list_add(j, l, items->v[i]);
	}
	return l;
}

static enum flow
run_for(struct jinja *j, struct scope *outer, const struct node *n)
{
	struct value v = eval(j, outer, n->b), loop = { .kind = V_LOOP };
	const struct list *items = value_items(j, &v);
	struct scope *s;

	if (n->c != NULL)
		items = filtered(j, outer, n, items);
	if (items->n == 0)
		return run(j, outer, n->e);
	loop.loop = jinja_alloc(j, 1, sizeof *loop.loop);
	loop.loop->list = items;
	for (; loop.loop->i < items->n; loop.loop->i++) {
		jinja_charge(j, 1);
		s = inner(j, outer);
		set_here(j, s, STR("loop"), loop);
		assign_all(j, s, n->a, items->v[loop.loop->i]);
		if (run(j, s, n->d) == BREAK)
			break;
	}
	return GO_ON;
}

static enum flow
run_if(struct jinja *j, struct scope *s, const struct node *n)
{
	struct value v;

	for (; n != NULL; n = n->c) {
		if (n->a == NULL)		/* else */
			return run(j, s, n->b);
		v = eval(j, s, n->a);
		if (value_true(&v))
			return run(j, s, n->b);
	}
	return GO_ON;
}

/* The text that a body writes, through filters. */
static struct value
written(struct jinja *j, struct scope *s, const struct node *body,
    const struct node *filters)
{
	size_t from = j->out.n;
	struct value v;

	(void)run(j, s, body);
	v = value_str(out_take(j, from));
	for (; filters != NULL; filters = filters->next)
		v = eval_suffix(j, s, &v, filters);
	return v;
}

static struct value
call_macro(struct jinja *j, const struct macro *m, const struct list *args,
    const struct dict *named)
{
	const struct node *n = m->node, *p;
	struct scope *s = inner(j, m->scope);
	size_t i = 0, used = 0;
	struct value *v, text;

	jinja_enter(j);
	for (p = n->a; p != NULL; p = p->next, i++) {
		v = map_find(j, named, value_str(p->name));
		used += v != NULL;
		if (v != NULL && i < args->n)
			jinja_fail(j, "argument '%s' is given twice",
			    show(p->name.p, p->name.n));
		set_here(j, s, p->name, i < args->n ? args->v[i] :
		    v != NULL ? *v : p->a != NULL ? eval(j, s, p->a) :
		    value_undefined(p->name));
	}
	if (args->n > i || named->n > used)
		jinja_fail(j, "macro '%s' takes %zu arguments, %zu are given "
		    "or they have other names", show(n->name.p, n->name.n), i,
		    args->n + named->n);
	text = written(j, s, n->b, NULL);
	j->depth--;
	return text;
}

static void
run_macro(struct jinja *j, struct scope *s, const struct node *n)
{
	struct value v = { .kind = V_MACRO };

	v.macro = jinja_alloc(j, 1, sizeof *v.macro);
	*v.macro = (struct macro){ n, s };
	set_here(j, s, n->name, v);
}

static enum flow
run_one(struct jinja *j, struct scope *s, const struct node *n)
{
	struct value v;

	jinja_charge(j, 1);
	switch (n->kind) {
	case N_DATA:
		out_put(j, n->value.s);
		break;
	case N_PRINT:
		v = eval(j, s, n->a);
		j->at = n->a->at;
		value_print(j, &v);
		break;
	case N_IF:
		return run_if(j, s, n);
	case N_FOR:
		return run_for(j, s, n);
	case N_SET:
		assign_all(j, s, n->a, eval(j, s, n->b));
		break;
	case N_SET_BLOCK:
		assign_all(j, s, n->a, written(j, s, n->b, n->c));
		break;
	case N_FILTER_BLOCK:
		v = written(j, s, n->b, n->c);
		value_print(j, &v);
		break;
	case N_MACRO:
		run_macro(j, s, n);
		break;
	case N_BREAK:
		return BREAK;
	default:
		return CONTINUE;
	}
	return GO_ON;
}

static enum flow
run(struct jinja *j, struct scope *s, const struct node *n)
{
	enum flow flow = GO_ON;

	jinja_enter(j);
	for (; n != NULL && flow == GO_ON; n = n->next)
		flow = run_one(j, s, n);
	j->depth--;
	return flow;
}

void
jinja_run(struct jinja *j)
{
	j->running = true;
	(void)run(j, inner(j, &j->globals), j->tree);
}
