/* SPDX-License-Identifier: MIT */
/* Chat templates: values, which behave as those of Python do. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "jinja.h"
#include "unicode.h"

/* ---- strings ---- */

bool
str_equal(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool
str_is(struct str a, const char *text)
{
	return str_equal(a, str_of(text, strlen(text)));
}

struct str
str_part(struct str s, size_t from, size_t to)
{
	return (struct str){ s.p + from,
	    s.mark != NULL ? s.mark + from : NULL, to - from };
}

size_t
str_char(struct str s, size_t i)
{
	size_t len = pico_utf8_len(s.p + i, s.n - i);

	return len > 0 ? len : 1;
}

size_t
str_length(struct jinja *j, struct str s)
{
	size_t i, n = 0;

	jinja_charge(j, s.n / 16);
	for (i = 0; i < s.n; i += str_char(s, i))
		n++;
	return n;
}

bool
str_is_space(struct str s, size_t i, size_t *len)
{
	uint32_t cp;

	*len = utf8_decode(s.p + i, s.n - i, &cp);
	return (char_set(cp) & U_SPACE) != 0 || (cp >= 0x1c && cp <= 0x1f);
}

size_t
str_find(struct jinja *j, struct str s, struct str what, size_t from)
{
	const char *p = s.p + from, *end = s.p + s.n;

	if (what.n == 0)
		return from;
	for (; (size_t)(end - p) >= what.n; p++) {
		const char *next = memchr(p, what.p[0],
		    (size_t)(end - p) - what.n + 1);

		jinja_charge(j, (uint64_t)((next != NULL ? next : end) - p +
		    (ptrdiff_t)what.n) / 64 + 1);
		if (next == NULL)
			break;
		p = next;
		if (memcmp(p, what.p, what.n) == 0)
			return (size_t)(p - s.p);
	}
	return SIZE_MAX;
}

struct str
str_marked(struct jinja *j, const char *p, size_t n, enum mark mark)
{
	char *copy = jinja_alloc(j, n, 1);
	uint8_t *marks = NULL;

	if (n > 0)
		memcpy(copy, p, n);
	if (mark != MARK_FRAME) {
		marks = jinja_alloc(j, n, 1);
		memset(marks, mark, n);
	}
	return (struct str){ copy, marks, n };
}

/* ---- writing ---- */

void
out_put(struct jinja *j, struct str s)
{
	size_t cap = j->out.cap;

	if (s.n == 0)
		return;
	if (s.n > JINJA_OUTPUT - j->out.n)
		jinja_fail(j, "more than %u bytes of text", JINJA_OUTPUT);
	jinja_charge(j, s.n / 64);
	if (mem_grow(&j->out.p, &j->out.cap, j->out.n + s.n, 1,
	    "text of the template", j->err) < 0 ||
	    mem_grow(&j->out.mark, &cap, j->out.n + s.n, 1,
	    "text of the template", j->err) < 0) {
		j->out.cap = cap;
		longjmp(j->leave, 1);
	}
	memcpy(j->out.p + j->out.n, s.p, s.n);
	if (s.mark != NULL)
		memcpy(j->out.mark + j->out.n, s.mark, s.n);
	else
		memset(j->out.mark + j->out.n, MARK_FRAME, s.n);
	j->out.n += s.n;
}

void
out_text(struct jinja *j, const char *text)
{
	out_put(j, str_of(text, strlen(text)));
}

struct str
out_take(struct jinja *j, size_t from)
{
	size_t n = j->out.n - from, i;
	char *p = jinja_alloc(j, n, 1);
	uint8_t *mark = NULL;

	jinja_charge(j, n / 32);
	for (i = 0; i < n && j->out.mark[from + i] == MARK_FRAME; )
		i++;
	if (n > 0)
		memcpy(p, j->out.p + from, n);
	if (i < n) {
		mark = jinja_alloc(j, n, 1);
		memcpy(mark, j->out.mark + from, n);
	}
	j->out.n = from;
	return (struct str){ p, mark, n };
}

/* ---- making values ---- */

const struct value none = { .kind = V_NONE };

struct value
value_bool(bool b)
{
	return (struct value){ .kind = V_BOOL, .b = b };
}

struct value
value_int(int64_t i)
{
	return (struct value){ .kind = V_INT, .i = i };
}

struct value
value_float(double f)
{
	return (struct value){ .kind = V_FLOAT, .f = f };
}

struct value
value_str(struct str s)
{
	return (struct value){ .kind = V_STR, .s = s };
}

struct value
value_text(const char *text)
{
	return value_str(str_of(text, strlen(text)));
}

struct value
value_undefined(struct str name)
{
	return (struct value){ .kind = V_UNDEFINED, .name = name };
}

struct value
value_list(struct jinja *j, struct list **list)
{
	*list = jinja_alloc(j, 1, sizeof **list);
	return (struct value){ .kind = V_LIST, .list = *list };
}

struct value
value_map(struct jinja *j, struct dict **map)
{
	*map = jinja_alloc(j, 1, sizeof **map);
	return (struct value){ .kind = V_MAP, .map = *map };
}

/* Twice the room for an array of n. */
static void *
more(struct jinja *j, const void *old, size_t n, size_t *cap, size_t size)
{
	void *p;

	*cap = *cap > 0 ? *cap * 2 : 4;
	p = jinja_alloc(j, *cap, size);
	if (n > 0)
		memcpy(p, old, n * size);
	return p;
}

void
list_add(struct jinja *j, struct list *l, struct value v)
{
	if (l->n == l->cap)
		l->v = more(j, l->v, l->n, &l->cap, sizeof *l->v);
	l->v[l->n++] = v;
}

struct value *
map_find(struct jinja *j, const struct dict *m, struct value key)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (value_equal(j, &m->v[i].key, &key))
			return &m->v[i].value;
	return NULL;
}

void
map_set(struct jinja *j, struct dict *m, struct value key, struct value v)
{
	struct value *old = map_find(j, m, key);

	if (old != NULL) {
		*old = v;
		return;
	}
	if (m->n == m->cap)
		m->v = more(j, m->v, m->n, &m->cap, sizeof *m->v);
	m->v[m->n++] = (struct dict_item){ key, v };
}

/* ---- asking values ---- */

const char *
value_kind(const struct value *v)
{
	static const char *const names[] = { "an undefined value", "none",
	    "a boolean", "a whole number", "a number", "a string", "a list",
	    "a mapping", "a namespace", "a loop", "a macro", "a method",
	    "a function" };

	return names[v->kind];
}

bool
value_true(const struct value *v)
{
	switch (v->kind) {
	case V_UNDEFINED: case V_NONE: return false;
	case V_BOOL: return v->b;
	case V_INT: return v->i != 0;
	case V_FLOAT: return v->f != 0;
	case V_STR: return v->s.n > 0;
	case V_LIST: return v->list->n > 0;
	case V_MAP: return v->map->n > 0;
	default: return true;
	}
}

/* A boolean counts as a number. */
static bool
is_number(const struct value *v)
{
	return v->kind == V_BOOL || v->kind == V_INT || v->kind == V_FLOAT;
}

static double
number(const struct value *v)
{
	return v->kind == V_FLOAT ? v->f : v->kind == V_INT ? (double)v->i :
	    v->b;
}

/* Of two numbers; exact for two whole ones. */
static int
compare_numbers(const struct value *a, const struct value *b)
{
	if (a->kind != V_FLOAT && b->kind != V_FLOAT) {
		int64_t x = a->kind == V_INT ? a->i : a->b;
		int64_t y = b->kind == V_INT ? b->i : b->b;

		return x < y ? -1 : x > y;
	}
	return number(a) < number(b) ? -1 : number(a) > number(b);
}

static bool
equal_lists(struct jinja *j, const struct list *a, const struct list *b)
{
	size_t i;

	if (a == b)
		return true;
	if (a->n != b->n || a->tuple != b->tuple)
		return false;
	for (i = 0; i < a->n; i++)
		if (!value_equal(j, &a->v[i], &b->v[i]))
			return false;
	return true;
}

static bool
equal_maps(struct jinja *j, const struct dict *a, const struct dict *b)
{
	const struct value *other;
	size_t i;

	if (a == b)
		return true;
	if (a->n != b->n)
		return false;
	for (i = 0; i < a->n; i++) {
		other = map_find(j, b, a->v[i].key);
		if (other == NULL || !value_equal(j, &a->v[i].value, other))
			return false;
	}
	return true;
}

bool
value_equal(struct jinja *j, const struct value *a, const struct value *b)
{
	bool equal = false;

	jinja_charge(j, 1);
	if (is_number(a) && is_number(b))
		return compare_numbers(a, b) == 0;
	if (a->kind != b->kind)
		return false;
	jinja_enter(j);
	switch (a->kind) {
	case V_UNDEFINED: case V_NONE:
		equal = true;
		break;
	case V_STR:
		jinja_charge(j, a->s.n == b->s.n ? a->s.n / 64 : 0);
		equal = str_equal(a->s, b->s);
		break;
	case V_LIST:
		equal = equal_lists(j, a->list, b->list);
		break;
	case V_MAP:
		equal = equal_maps(j, a->map, b->map);
		break;
	default:
		equal = a->map == b->map;	/* the same thing */
	}
	j->depth--;
	return equal;
}

int
value_compare(struct jinja *j, const struct value *a, const struct value *b)
{
	if (is_number(a) && is_number(b))
		return compare_numbers(a, b);
	if (a->kind != V_STR || b->kind != V_STR)
		jinja_fail(j, "no order between %s and %s", value_kind(a),
		    value_kind(b));
	jinja_charge(j, MIN(a->s.n, b->s.n) / 64);
	return pico_str_compare((struct pico_str){ a->s.p, a->s.n },
	    (struct pico_str){ b->s.p, b->s.n });
}

bool
value_in(struct jinja *j, const struct value *a, const struct value *b)
{
	const struct list *items;
	size_t i;

	if (b->kind == V_MAP)
		return map_find(j, b->map, *a) != NULL;
	if (b->kind == V_STR) {
		if (a->kind != V_STR)
			jinja_fail(j, "'in' a string must be a string, not %s",
			    value_kind(a));
		return str_find(j, b->s, a->s, 0) != SIZE_MAX;
	}
	items = value_items(j, b);
	for (i = 0; i < items->n; i++)
		if (value_equal(j, a, &items->v[i]))
			return true;
	return false;
}

static void
need_defined(struct jinja *j, const struct value *v)
{
	if (v->kind == V_UNDEFINED)
		jinja_fail(j, "'%s' is undefined", show(v->name.p, v->name.n));
}

struct list *
value_items(struct jinja *j, const struct value *v)
{
	struct list *l;
	size_t i, len;

	if (v->kind == V_LIST)
		return v->list;
	(void)value_list(j, &l);
	switch (v->kind) {
	case V_UNDEFINED:
		break;
	case V_MAP:
		for (i = 0; i < v->map->n; i++)
			list_add(j, l, v->map->v[i].key);
		break;
	case V_STR:
		for (i = 0; i < v->s.n; i += len) {
			len = str_char(v->s, i);
			list_add(j, l, value_str(str_part(v->s, i, i + len)));
		}
		break;
	default:
		jinja_fail(j, "%s has no items", value_kind(v));
	}
	jinja_charge(j, l->n);
	return l;
}

size_t
value_length(struct jinja *j, const struct value *v)
{
	switch (v->kind) {
	case V_UNDEFINED: return 0;
	case V_STR: return str_length(j, v->s);
	case V_LIST: return v->list->n;
	case V_MAP: return v->map->n;
	default: jinja_fail(j, "%s has no length", value_kind(v));
	}
}

/* ---- looking into values ---- */

static struct value
method_or_undefined(struct jinja *j, const struct value *obj, struct str name)
{
	const struct function *f = method_find(obj->kind, name);
	struct value v = { .kind = V_METHOD };

	if (f == NULL)
		return value_undefined(name);
	v.method = jinja_alloc(j, 1, sizeof *v.method);
	*v.method = (struct method){ *obj, f };
	return v;
}

static struct value
loop_value(const struct loop *l, struct str name)
{
	size_t n = l->list->n;
	const struct {
		const char *name;
		struct value value;
	} fields[] = {
		{ "index", value_int((int64_t)l->i + 1) },
		{ "index0", value_int((int64_t)l->i) },
		{ "revindex", value_int((int64_t)(n - l->i)) },
		{ "revindex0", value_int((int64_t)(n - l->i) - 1) },
		{ "first", value_bool(l->i == 0) },
		{ "last", value_bool(l->i + 1 == n) },
		{ "length", value_int((int64_t)n) },
		{ "previtem", l->i > 0 ? l->list->v[l->i - 1] :
		    value_undefined(name) },
		{ "nextitem", l->i + 1 < n ? l->list->v[l->i + 1] :
		    value_undefined(name) },
	};
	size_t i;

	for (i = 0; i < COUNT(fields); i++)
		if (str_is(name, fields[i].name))
			return fields[i].value;
	return value_undefined(name);
}

struct value
value_attribute(struct jinja *j, const struct value *obj, struct str name)
{
	struct value v, *found;

	need_defined(j, obj);
	if (obj->kind == V_LOOP)
		return loop_value(obj->loop, name);
	v = method_or_undefined(j, obj, name);
	if (v.kind == V_UNDEFINED &&
	    (obj->kind == V_MAP || obj->kind == V_NAMESPACE)) {
		found = map_find(j, obj->map, value_str(name));
		return found != NULL ? *found : v;
	}
	return v;
}

/* The place of item i of n, counted from the end if negative; SIZE_MAX: none. */
static size_t
place(int64_t i, size_t n)
{
	if (i < 0 && i >= -(int64_t)n)
		i += (int64_t)n;
	return i >= 0 && i < (int64_t)n ? (size_t)i : SIZE_MAX;
}

/* Bytes before character i of a string that has as many. */
static size_t
byte_of(struct str s, size_t i)
{
	size_t at = 0;

	while (i-- > 0)
		at += str_char(s, at);
	return at;
}

struct value
value_item(struct jinja *j, const struct value *obj, const struct value *key)
{
	struct str name = key->kind == V_STR ? key->s : STR("item");
	struct value *found;
	size_t i;

	need_defined(j, obj);
	if (obj->kind == V_MAP &&
	    (found = map_find(j, obj->map, *key)) != NULL)
		return *found;
	if (key->kind == V_STR)
		return value_attribute(j, obj, name);
	if (key->kind != V_INT)
		return value_undefined(name);
	if (obj->kind == V_LIST) {
		i = place(key->i, obj->list->n);
		if (i != SIZE_MAX)
			return obj->list->v[i];
	} else if (obj->kind == V_STR) {
		i = place(key->i, str_length(j, obj->s));
		if (i != SIZE_MAX) {
			i = byte_of(obj->s, i);
			return value_str(str_part(obj->s, i,
			    i + str_char(obj->s, i)));
		}
	}
	return value_undefined(name);
}

/* A bound of a slice of n items: within low..high. */
static int64_t
bound(struct jinja *j, const struct value *v, int64_t n, int64_t low,
    int64_t high, int64_t missing)
{
	int64_t i = v->i;

	if (v->kind == V_NONE)
		return missing;
	if (v->kind != V_INT)
		jinja_fail(j, "slices are made with whole numbers, not %s",
		    value_kind(v));
	if (i < 0)
		i = i < -n ? low : i + n;
	return i < low ? low : i > high ? high : i;
}

struct value
value_slice(struct jinja *j, const struct value *obj, const struct value *from,
    const struct value *to, const struct value *step)
{
	int64_t n, i, end, by = step->kind == V_NONE ? 1 : step->i;
	struct value v;
	const struct list *items;
	struct list *l;
	size_t start = j->out.n;

	need_defined(j, obj);
	if (step->kind != V_NONE && step->kind != V_INT)
		jinja_fail(j, "slices are made with whole numbers, not %s",
		    value_kind(step));
	if (by == 0)
		jinja_fail(j, "the step of a slice is 0");
	if (obj->kind != V_LIST && obj->kind != V_STR)
		jinja_fail(j, "no slices of %s", value_kind(obj));
	n = (int64_t)value_length(j, obj);
	by = by > n ? n + 1 : by < -n ? -n - 1 : by;
	i = by > 0 ? bound(j, from, n, 0, n, 0) :
	    bound(j, from, n, -1, n - 1, n - 1);
	end = by > 0 ? bound(j, to, n, 0, n, n) :
	    bound(j, to, n, -1, n - 1, -1);
	if (obj->kind == V_STR && by == 1) {
		size_t a, b;

		if (i >= end)
			return value_str(STR(""));
		a = byte_of(obj->s, (size_t)i);
		b = a + byte_of(str_part(obj->s, a, obj->s.n),
		    (size_t)(end - i));
		return value_str(str_part(obj->s, a, b));
	}
	items = value_items(j, obj);
	v = value_list(j, &l);
	l->tuple = obj->kind == V_LIST && obj->list->tuple;
	for (; by > 0 ? i < end : i > end; i += by) {
		if (obj->kind == V_STR)
			out_put(j, items->v[i].s);
		else
			list_add(j, l, items->v[i]);
	}
	jinja_charge(j, l->n);
	return obj->kind == V_STR ? value_str(out_take(j, start)) : v;
}

/* ---- printing ---- */

/* The shortest digits that give the number back, laid out as Python does. */
static void
put_float(struct jinja *j, double f)
{
	char buf[40], digits[40];
	int precision, exponent, n = 0, i;

	if (!isfinite(f)) {
		out_text(j, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
		return;
	}
	for (precision = 0; precision < 17; precision++) {
		(void)snprintf(buf, sizeof buf, "%.*e", precision, fabs(f));
		if (strtod(buf, NULL) == fabs(f))
			break;
	}
	for (i = 0; buf[i] != 'e'; i++)		/* but for the point */
		if (buf[i] >= '0' && buf[i] <= '9')
			digits[n++] = buf[i];
	exponent = (int)strtol(buf + i + 1, NULL, 10);
	if (signbit(f))
		out_text(j, "-");
	if (exponent < -4 || exponent >= 16) {
		out_put(j, str_of(digits, 1));
		if (n > 1) {
			out_text(j, ".");
			out_put(j, str_of(digits + 1, (size_t)n - 1));
		}
		(void)snprintf(buf, sizeof buf, "e%+03d", exponent);
		out_text(j, buf);
		return;
	}
	if (exponent < 0) {
		out_put(j, str_of("0.000", (size_t)(1 - exponent)));
		out_put(j, str_of(digits, (size_t)n));
		return;
	}
	for (i = 0; i < MAX(exponent + 2, n); i++) {
		if (i == exponent + 1)
			out_text(j, ".");
		out_put(j, i < n ? str_of(digits + i, 1) : STR("0"));
	}
}

void
value_print(struct jinja *j, const struct value *v)
{
	char buf[32];

	switch (v->kind) {
	case V_UNDEFINED:
		break;
	case V_NONE:
		out_text(j, "None");
		break;
	case V_BOOL:
		out_text(j, v->b ? "True" : "False");
		break;
	case V_INT:
		(void)snprintf(buf, sizeof buf, "%" PRId64, v->i);
		out_text(j, buf);
		break;
	case V_FLOAT:
		put_float(j, v->f);
		break;
	case V_STR:
		out_put(j, v->s);
		break;
	case V_LIST: case V_MAP:
		value_repr(j, v);
		break;
	default:
		jinja_fail(j, "%s cannot be printed", value_kind(v));
	}
}

struct str
value_string(struct jinja *j, const struct value *v)
{
	size_t from = j->out.n;

	if (v->kind == V_STR)
		return v->s;
	value_print(j, v);
	return out_take(j, from);
}

/* Writes `text` with the mark of byte i of s. */
static void
put_like(struct jinja *j, struct str s, size_t i, const char *text)
{
	uint8_t marks[16];
	size_t n = strlen(text);

	memset(marks, s.mark != NULL ? s.mark[i] : MARK_FRAME, sizeof marks);
	out_put(j, (struct str){ text, marks, MIN(n, sizeof marks) });
}

static void
repr_string(struct jinja *j, struct str s)
{
	static const char plain[] = "\\\n\r\t", names[] = "\\nrt";
	bool twofold = s.n > 0 && memchr(s.p, '\'', s.n) != NULL &&
	    memchr(s.p, '"', s.n) == NULL;
	char quote = twofold ? '"' : '\'', buf[16];
	const char *known;
	size_t i, len;
	uint32_t cp;

	jinja_charge(j, s.n / 8);
	out_put(j, str_of(&quote, 1));
	for (i = 0; i < s.n; i += len) {
		len = str_char(s, i);
		(void)utf8_decode(s.p + i, len, &cp);
		known = memchr(plain, s.p[i], sizeof plain - 1);
		if (known != NULL)
			(void)snprintf(buf, sizeof buf, "\\%c",
			    names[known - plain]);
		else if (s.p[i] == quote)
			(void)snprintf(buf, sizeof buf, "\\%c", quote);
		else if (cp == ' ' || cp == REPLACEMENT ||
		    (char_set(cp) & (U_OTHER | U_CONTROL | U_SPACE)) == 0) {
			out_put(j, str_part(s, i, i + len));
			continue;
		} else
			(void)snprintf(buf, sizeof buf, cp < 0x100 ?
			    "\\x%02" PRIx32 : cp < 0x10000 ? "\\u%04" PRIx32 :
			    "\\U%08" PRIx32, cp);
		put_like(j, s, i, buf);
	}
	out_put(j, str_of(&quote, 1));
}

void
value_repr(struct jinja *j, const struct value *v)
{
	size_t i;

	jinja_enter(j);
	jinja_charge(j, 1);
	if (v->kind == V_STR) {
		repr_string(j, v->s);
	} else if (v->kind == V_LIST) {
		out_text(j, v->list->tuple ? "(" : "[");
		for (i = 0; i < v->list->n; i++) {
			out_text(j, i > 0 ? ", " : "");
			value_repr(j, &v->list->v[i]);
		}
		out_text(j, !v->list->tuple ? "]" : i == 1 ? ",)" : ")");
	} else if (v->kind == V_MAP) {
		out_text(j, "{");
		for (i = 0; i < v->map->n; i++) {
			out_text(j, i > 0 ? ", " : "");
			value_repr(j, &v->map->v[i].key);
			out_text(j, ": ");
			value_repr(j, &v->map->v[i].value);
		}
		out_text(j, "}");
	} else if (v->kind == V_UNDEFINED) {
		out_text(j, "Undefined");
	} else {
		value_print(j, v);
	}
	j->depth--;
}

/* ---- JSON ---- */

static void
json_string(struct jinja *j, struct str s, bool ascii)
{
	static const char plain[] = "\"\\\n\r\t\b\f", names[] = "\"\\nrtbf";
	size_t i, len, from;
	const char *known;
	char buf[16];
	uint32_t cp;

	jinja_charge(j, s.n / 8);
	out_text(j, "\"");
	for (i = from = 0; i < s.n; i += len) {
		len = str_char(s, i);
		cp = (unsigned char)s.p[i];
		known = memchr(plain, s.p[i], sizeof plain - 1);
		if (known == NULL && cp >= 0x20 && !(ascii && cp >= 0x80))
			continue;
		out_put(j, str_part(s, from, i));
		from = i + len;
		(void)utf8_decode(s.p + i, len, &cp);
		if (known != NULL)
			(void)snprintf(buf, sizeof buf, "\\%c",
			    names[known - plain]);
		else if (cp < 0x10000)
			(void)snprintf(buf, sizeof buf, "\\u%04" PRIx32, cp);
		else
			(void)snprintf(buf, sizeof buf, "\\u%04" PRIx32
			    "\\u%04" PRIx32, 0xd7c0 + (cp >> 10),
			    0xdc00 + (cp & 0x3ff));
		put_like(j, s, i, buf);
	}
	out_put(j, str_part(s, from, s.n));
	out_text(j, "\"");
}

/* A scalar, also as a key. */
static void
json_scalar(struct jinja *j, const struct value *v, bool ascii)
{
	switch (v->kind) {
	case V_NONE:
		out_text(j, "null");
		break;
	case V_BOOL:
		out_text(j, v->b ? "true" : "false");
		break;
	case V_INT:
	case V_FLOAT:
		value_print(j, v);
		break;
	case V_STR:
		json_string(j, v->s, ascii);
		break;
	default:
		jinja_fail(j, "%s cannot be written as JSON", value_kind(v));
	}
}

static void
json_newline(struct jinja *j, const struct json_style *style, size_t level)
{
	size_t n;

	if (style->indent < 0)
		return;
	out_text(j, "\n");
	for (n = level * (size_t)style->indent; n > 0; n--)
		out_text(j, " ");
}

/* The keys of a map, in order if that is wanted: places in it. */
static size_t *
json_order(struct jinja *j, const struct dict *m, bool sort)
{
	size_t *order = jinja_alloc(j, m->n, sizeof *order), i, k;

	for (i = 0; i < m->n; i++) {
		for (k = i; sort && k > 0 && value_compare(j,
		    &m->v[order[k - 1]].key, &m->v[i].key) > 0; k--)
			order[k] = order[k - 1];
		jinja_charge(j, i - k + 1);
		order[k] = i;
	}
	return order;
}

static void
json_key(struct jinja *j, const struct value *key, bool ascii)
{
	if (key->kind == V_STR) {
		json_string(j, key->s, ascii);
		return;
	}
	out_text(j, "\"");
	json_scalar(j, key, ascii);
	out_text(j, "\"");
}

static void
json_write(struct jinja *j, const struct value *v,
    const struct json_style *style, size_t level)
{
	bool map = v->kind == V_MAP;
	size_t i, n = map ? v->map->n : v->kind == V_LIST ? v->list->n : 0;
	const size_t *order;

	if (!map && v->kind != V_LIST) {
		json_scalar(j, v, style->ascii);
		return;
	}
	jinja_enter(j);
	order = map ? json_order(j, v->map, style->sort) : NULL;
	out_text(j, map ? "{" : "[");
	for (i = 0; i < n; i++) {
		jinja_charge(j, 1);
		if (i > 0)
			out_put(j, style->comma);
		json_newline(j, style, level + 1);
		if (map) {
			json_key(j, &v->map->v[order[i]].key, style->ascii);
			out_put(j, style->colon);
		}
		json_write(j, map ? &v->map->v[order[i]].value :
		    &v->list->v[i], style, level + 1);
	}
	if (n > 0)
		json_newline(j, style, level);
	out_text(j, map ? "}" : "]");
	j->depth--;
}

void
value_json(struct jinja *j, const struct value *v,
    const struct json_style *style)
{
	json_write(j, v, style, 0);
}
