/* SPDX-License-Identifier: MIT */
/*
 * Chat templates: filters, tests, methods and functions, each a row of a table.
 * In all of them arg[0] is what they are applied to.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "jinja.h"
#include "unicode.h"

/* ---- arguments ---- */

static bool
given(const struct value *v)
{
	return v->kind != V_UNDEFINED;
}

static struct str
want_string(struct jinja *j, const struct value *v)
{
	if (v->kind != V_STR)
		jinja_fail(j, "%s where a string should be", value_kind(v));
	return v->s;
}

/* A whole number, or what is there if none is given. */
static int64_t
want_int(struct jinja *j, const struct value *v, int64_t missing)
{
	if (!given(v) || v->kind == V_NONE)
		return missing;
	if (v->kind != V_INT)
		jinja_fail(j, "%s where a whole number should be",
		    value_kind(v));
	return v->i;
}

/* Of a macro's, a tool's, ... list what one path "a.b.0" leads to. */
static struct value
follow(struct jinja *j, struct value v, const struct value *path)
{
	struct str s, part;
	struct value key;
	size_t i = 0, end;
	int64_t index;
	char buf[24];

	if (path->kind == V_INT)
		return value_item(j, &v, path);
	s = want_string(j, path);
	do {
		end = str_find(j, s, STR("."), i);
		part = str_part(s, i, end == SIZE_MAX ? s.n : end);
		key = value_str(part);
		(void)snprintf(buf, sizeof buf, "%.*s",
		    (int)MIN(part.n, sizeof buf), part.p);
		if (pico_parse_int(buf, 0, INT64_MAX, &index, NULL) == 0)
			key = value_int(index);
		v = value_item(j, &v, &key);
		i = end + 1;
	} while (end != SIZE_MAX);
	return v;
}

/* ---- strings: filters and methods ---- */

static char
upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static char
lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* A copy with the case of ASCII letters changed: upper where `first` says
   that a word begins, else lower. */
enum letter_case { CASE_LOWER, CASE_UPPER, CASE_FIRST, CASE_TITLE, CASE_WORDS };

static struct str
with_case(struct jinja *j, struct str s, enum letter_case c)
{
	char *p = jinja_alloc(j, s.n, 1);
	bool begins = true;
	size_t i, len;
	uint32_t cp;

	jinja_charge(j, s.n / 16);
	for (i = 0; i < s.n; i++) {
		bool up = c == CASE_UPPER || (c != CASE_LOWER && begins);

		p[i] = up ? upper(s.p[i]) : lower(s.p[i]);
		if (c == CASE_FIRST)
			begins = false;
		else if (c == CASE_WORDS)	/* the filter's idea of words */
			begins = str_is_space(s, i, &len) ||
			    memchr("-({[<", s.p[i], 5) != NULL;
		else if (((unsigned char)s.p[i] & 0xc0) != 0x80) {
			(void)utf8_decode(s.p + i, s.n - i, &cp);
			begins = (char_set(cp) & U_L) == 0;
		}
	}
	return (struct str){ p, s.mark, s.n };
}

static struct value
do_lower(struct jinja *j, struct value *arg)
{
	return value_str(with_case(j, value_string(j, arg), CASE_LOWER));
}

static struct value
do_upper(struct jinja *j, struct value *arg)
{
	return value_str(with_case(j, value_string(j, arg), CASE_UPPER));
}

static struct value
do_capitalize(struct jinja *j, struct value *arg)
{
	return value_str(with_case(j, value_string(j, arg), CASE_FIRST));
}

static struct value
do_title_method(struct jinja *j, struct value *arg)
{
	return value_str(with_case(j, arg->s, CASE_TITLE));
}

static struct value
do_title(struct jinja *j, struct value *arg)
{
	return value_str(with_case(j, value_string(j, arg), CASE_WORDS));
}

/* Whether the character at i is one of `set`; NULL: white space. */
static bool
strippable(struct jinja *j, struct str s, size_t i, const struct str *set,
    size_t *len)
{
	size_t k, n;

	if (set == NULL)
		return str_is_space(s, i, len);
	*len = str_char(s, i);
	jinja_charge(j, set->n / 8);
	for (k = 0; k < set->n; k += n) {
		n = str_char(*set, k);
		if (str_equal(str_part(*set, k, k + n),
		    str_part(s, i, i + *len)))
			return true;
	}
	return false;
}

/* Where the character before byte `to` begins. */
static size_t
before(struct str s, size_t from, size_t to)
{
	size_t i = to - 1, k;

	for (k = i; k > from && to - k < 4 && ((unsigned char)s.p[k] & 0xc0) ==
	    0x80; )
		k--;
	return k + str_char(s, k) == to ? k : i;
}

static struct str
strip(struct jinja *j, struct str s, const struct value *chars, bool left,
    bool right)
{
	const struct str *set = NULL;
	size_t from = 0, to = s.n, i, len;

	if (given(chars) && chars->kind != V_NONE) {
		(void)want_string(j, chars);
		set = &chars->s;
	}
	while (left && from < to && strippable(j, s, from, set, &len))
		from += len;
	while (right && to > from && strippable(j, s,
	    (i = before(s, from, to)), set, &len))
		to = i;
	jinja_charge(j, (from + s.n - to) / 16);
	return str_part(s, from, to);
}

static struct value
do_trim(struct jinja *j, struct value *arg)
{
	return value_str(strip(j, value_string(j, arg), &arg[1], true, true));
}

static struct value
do_lstrip(struct jinja *j, struct value *arg)
{
	return value_str(strip(j, arg->s, &arg[1], true, false));
}

static struct value
do_rstrip(struct jinja *j, struct value *arg)
{
	return value_str(strip(j, arg->s, &arg[1], false, true));
}

static struct value
do_replace(struct jinja *j, struct value *arg)
{
	struct str s = value_string(j, arg), old = want_string(j, &arg[1]);
	struct str new = want_string(j, &arg[2]);
	int64_t count = want_int(j, &arg[3], -1);
	size_t from = j->out.n, i = 0, at;

	if (old.n == 0)
		jinja_fail(j, "nothing to replace: the text is empty");
	while (count-- != 0 && (at = str_find(j, s, old, i)) != SIZE_MAX) {
		jinja_charge(j, 1);
		out_put(j, str_part(s, i, at));
		out_put(j, new);
		i = at + old.n;
	}
	out_put(j, str_part(s, i, s.n));
	return value_str(out_take(j, from));
}

/* At white space: no empty parts. */
static struct value
split_words(struct jinja *j, struct str s, int64_t count)
{
	struct list *l;
	struct value v = value_list(j, &l);
	size_t i = 0, from, len;

	for (;;) {
		while (i < s.n && str_is_space(s, i, &len))
			i += len;
		if (i == s.n)
			return v;
		from = i;
		if (count-- == 0)
			i = s.n;
		while (i < s.n && !str_is_space(s, i, &len))
			i += len;
		jinja_charge(j, 1);
		list_add(j, l, value_str(str_part(s, from, i)));
	}
}

static struct value
do_split(struct jinja *j, struct value *arg)
{
	int64_t count = want_int(j, &arg[2], -1);
	size_t i = 0, at;
	struct str by;
	struct list *l;
	struct value v;

	jinja_charge(j, arg->s.n / 16);
	if (!given(&arg[1]) || arg[1].kind == V_NONE)
		return split_words(j, arg->s, count);
	by = want_string(j, &arg[1]);
	if (by.n == 0)
		jinja_fail(j, "the separator is empty");
	v = value_list(j, &l);
	while (count-- != 0 &&
	    (at = str_find(j, arg->s, by, i)) != SIZE_MAX) {
		jinja_charge(j, 1);
		list_add(j, l, value_str(str_part(arg->s, i, at)));
		i = at + by.n;
	}
	list_add(j, l, value_str(str_part(arg->s, i, arg->s.n)));
	return v;
}

/* Whether one of a string or a tuple of them stands at one end. */
static bool
has_end(struct jinja *j, const struct value *arg, bool start)
{
	struct str s = arg[0].s, part;
	const struct list *l = arg[1].kind == V_LIST ? arg[1].list : NULL;
	size_t i, n = l != NULL ? l->n : 1;

	for (i = 0; i < n; i++) {
		part = want_string(j, l != NULL ? &l->v[i] : &arg[1]);
		jinja_charge(j, part.n / 64 + 1);
		if (part.n <= s.n && str_equal(part, start ?
		    str_part(s, 0, part.n) : str_part(s, s.n - part.n, s.n)))
			return true;
	}
	return false;
}

static struct value
do_startswith(struct jinja *j, struct value *arg)
{
	return value_bool(has_end(j, arg, true));
}

static struct value
do_endswith(struct jinja *j, struct value *arg)
{
	return value_bool(has_end(j, arg, false));
}

static struct value
do_find(struct jinja *j, struct value *arg)
{
	size_t at = str_find(j, arg->s, want_string(j, &arg[1]), 0);

	return value_int(at == SIZE_MAX ? -1 :
	    (int64_t)str_length(j, str_part(arg->s, 0, at)));
}

static struct value
do_count(struct jinja *j, struct value *arg)
{
	struct str what = want_string(j, &arg[1]);
	int64_t n = 0;
	size_t at, i = 0;

	if (what.n == 0)
		return value_int((int64_t)str_length(j, arg->s) + 1);
	for (; (at = str_find(j, arg->s, what, i)) != SIZE_MAX; n++) {
		jinja_charge(j, 1);
		i = at + what.n;
	}
	return value_int(n);
}

static struct value
do_indent(struct jinja *j, struct value *arg)
{
	struct str s = value_string(j, arg), by;
	struct value n = arg[1], space = value_text(" ");
	size_t from = j->out.n, i, line = 0;
	bool blank = value_true(&arg[3]);

	if (n.kind == V_STR) {
		by = n.s;
	} else {
		for (i = (size_t)MAX(MIN(want_int(j, &n, 4), 1000), 0); i > 0;
		    i--)
			out_put(j, space.s);
		by = out_take(j, from);
	}
	if (value_true(&arg[2]))
		out_put(j, by);
	for (i = 0; i < s.n; i++) {
		if (s.p[i] != '\n')
			continue;
		out_put(j, str_part(s, line, i + 1));
		line = i + 1;
		jinja_charge(j, 1);
		if (blank || (line < s.n && s.p[line] != '\n'))
			out_put(j, by);
	}
	out_put(j, str_part(s, line, s.n));
	return value_str(out_take(j, from));
}

static struct value
do_string(struct jinja *j, struct value *arg)
{
	return value_str(value_string(j, arg));
}

/* ---- numbers ---- */

/* Reads a string as a number; false if it is none. */
static bool
number_of(struct jinja *j, const struct value *v, struct value *out)
{
	struct value blank = { .kind = V_UNDEFINED };
	char buf[64];
	struct str s;
	int64_t i;
	double f;

	if (v->kind == V_INT || v->kind == V_FLOAT || v->kind == V_BOOL) {
		*out = v->kind == V_BOOL ? value_int(v->b) : *v;
		return true;
	}
	if (v->kind != V_STR)
		return false;
	s = strip(j, v->s, &blank, true, true);
	if (s.n >= sizeof buf)
		return false;
	memcpy(buf, s.p, s.n);
	buf[s.n] = '\0';
	if (pico_parse_int(buf, INT64_MIN, INT64_MAX, &i, NULL) == 0) {
		*out = value_int(i);
		return true;
	}
	if (pico_parse_real(buf, -HUGE_VAL, HUGE_VAL, &f, NULL) < 0)
		return false;
	*out = value_float(f);
	return true;
}

static struct value
do_int(struct jinja *j, struct value *arg)
{
	struct value v;

	if (!number_of(j, arg, &v) || (v.kind == V_FLOAT &&
	    !(fabs(v.f) < 9e18)))
		return given(&arg[1]) ? arg[1] : value_int(0);
	return v.kind == V_FLOAT ? value_int((int64_t)v.f) : v;
}

static struct value
do_float(struct jinja *j, struct value *arg)
{
	struct value v;

	if (!number_of(j, arg, &v))
		return given(&arg[1]) ? arg[1] : value_float(0);
	return v.kind == V_INT ? value_float((double)v.i) : v;
}

/* ---- any value ---- */

static struct value
do_length(struct jinja *j, struct value *arg)
{
	return value_int((int64_t)value_length(j, arg));
}

static struct value
do_default(struct jinja *j, struct value *arg)
{
	(void)j;
	if (arg->kind == V_UNDEFINED ||
	    (value_true(&arg[2]) && !value_true(arg)))
		return given(&arg[1]) ? arg[1] : value_text("");
	return *arg;
}

static struct value
do_safe(struct jinja *j, struct value *arg)
{
	(void)j;
	return *arg;
}

static struct value
do_tojson(struct jinja *j, struct value *arg)
{
	/* as transformers has it: ensure_ascii, indent, separators,
	   sort_keys */
	struct json_style style = {
		.indent = want_int(j, &arg[2], -1),
		.ascii = value_true(&arg[1]), .sort = value_true(&arg[4]),
		.comma = STR(", "), .colon = STR(": "),
	};
	size_t from = j->out.n;

	if (style.indent > 1000)
		jinja_fail(j, "indent %" PRId64 " is too much", style.indent);
	if (style.indent >= 0)
		style.comma = STR(",");
	if (arg[3].kind == V_LIST) {
		if (arg[3].list->n != 2)
			jinja_fail(j, "%zu separators, not 2",
			    arg[3].list->n);
		style.comma = want_string(j, &arg[3].list->v[0]);
		style.colon = want_string(j, &arg[3].list->v[1]);
	}
	value_json(j, arg, &style);
	return value_str(out_take(j, from));
}

static struct value
do_from_json(struct jinja *j, struct value *arg)
{
	struct str s = want_string(j, arg);
	enum mark mark = MARK_FRAME;
	size_t i;

	jinja_charge(j, s.n / 16);
	for (i = 0; s.mark != NULL && i < s.n; i++)
		mark = MAX(mark, s.mark[i]);
	return json_parse(j, s, mark, "the string");
}

/* ---- lists ---- */

static struct value
do_list(struct jinja *j, struct value *arg)
{
	const struct list *items = value_items(j, arg);
	struct list *l;
	struct value v = value_list(j, &l);
	size_t i;

	jinja_charge(j, items->n / 16);
	for (i = 0; i < items->n; i++)
		list_add(j, l, items->v[i]);
	return v;
}

static struct value
do_first(struct jinja *j, struct value *arg)
{
	const struct list *items = value_items(j, arg);

	return items->n > 0 ? items->v[0] : value_undefined(STR("first"));
}

static struct value
do_last(struct jinja *j, struct value *arg)
{
	const struct list *items = value_items(j, arg);

	return items->n > 0 ? items->v[items->n - 1] :
	    value_undefined(STR("last"));
}

static struct value
do_reverse(struct jinja *j, struct value *arg)
{
	struct value back = value_int(-1);

	return value_slice(j, arg, &none, &none, &back);
}

static struct value
do_join(struct jinja *j, struct value *arg)
{
	const struct list *items = value_items(j, arg);
	struct str by = given(&arg[1]) ? value_string(j, &arg[1]) : STR("");
	size_t from = j->out.n, i;
	struct value v;

	for (i = 0; i < items->n; i++) {
		jinja_charge(j, 1);
		if (i > 0)
			out_put(j, by);
		v = given(&arg[2]) ? follow(j, items->v[i], &arg[2]) :
		    items->v[i];
		value_print(j, &v);
	}
	return value_str(out_take(j, from));
}

static struct value
do_join_method(struct jinja *j, struct value *arg)
{
	struct value swapped[FUNCTION_ARGS + 1] = { arg[1], arg[0] };

	return do_join(j, swapped);
}

/* What strings are compared by, unless their case counts. */
static struct value
sort_key(struct jinja *j, struct value v, bool with_letters)
{
	return v.kind == V_STR && !with_letters ? do_lower(j, &v) : v;
}

/* Merge sort: items by keys, equal ones in the order they have. */
static void
sort(struct jinja *j, struct list *items, struct list *keys, bool reverse)
{
	size_t n = items->n, width, i, a, b, mid, end;
	size_t *order, *to, *out, *swap;
	struct value *sorted = jinja_alloc(j, n, sizeof *sorted);
	int c;

	order = jinja_alloc(j, n, sizeof *order);
	to = jinja_alloc(j, n, sizeof *to);
	for (i = 0; i < n; i++)
		order[i] = i;
	for (width = 1; width < n; width *= 2) {
		jinja_charge(j, n);
		for (i = 0; i < n; i = end) {
			mid = MIN(i + width, n);
			end = MIN(mid + width, n);
			out = to + i;
			for (a = i, b = mid; a < mid || b < end; ) {
				c = a == mid ? 1 : b == end ? -1 :
				    value_compare(j, &keys->v[order[a]],
				    &keys->v[order[b]]) * (reverse ? -1 : 1);
				*out++ = order[c <= 0 ? a++ : b++];
			}
		}
		swap = order;
		order = to;
		to = swap;
	}
	for (i = 0; i < n; i++)
		sorted[i] = items->v[order[i]];
	items->v = sorted;
}

static struct value
do_sort(struct jinja *j, struct value *arg)
{
	struct value copy = do_list(j, arg), key;
	struct list *keys;
	size_t i;

	(void)value_list(j, &keys);
	for (i = 0; i < copy.list->n; i++) {
		key = copy.list->v[i];
		if (given(&arg[3]))
			key = follow(j, key, &arg[3]);
		list_add(j, keys, sort_key(j, key, value_true(&arg[2])));
	}
	sort(j, copy.list, keys, value_true(&arg[1]));
	return copy;
}

static struct value
do_unique(struct jinja *j, struct value *arg)
{
	const struct list *items = value_items(j, arg);
	struct list *l, *seen;
	struct value v = value_list(j, &l), all = value_list(j, &seen), key;
	size_t i;

	for (i = 0; i < items->n; i++) {
		key = items->v[i];
		if (given(&arg[2]))
			key = follow(j, key, &arg[2]);
		key = sort_key(j, key, value_true(&arg[1]));
		if (value_in(j, &key, &all))
			continue;
		list_add(j, seen, key);
		list_add(j, l, items->v[i]);
	}
	return v;
}

/* ---- lists, item by item through a filter or a test ---- */

/* What is left of the arguments behind the first n. */
static struct list *
rest(struct jinja *j, const struct list *args, size_t n)
{
	struct list *l;

	(void)value_list(j, &l);
	for (; n < args->n; n++)
		list_add(j, l, args->v[n]);
	return l;
}

static struct value
do_map(struct jinja *j, struct value *arg, const struct list *args,
    const struct dict *named)
{
	struct value *path = map_find(j, named, value_text("attribute"));
	struct value *missing = map_find(j, named, value_text("default"));
	const struct list *items = value_items(j, arg), *others = NULL;
	const struct function *f = NULL;
	struct list *l;
	struct value v = value_list(j, &l), item;
	size_t i;

	if (path == NULL) {
		if (args->n == 0)
			jinja_fail(j, "map needs a filter or an attribute");
		f = filter_find(want_string(j, &args->v[0]));
		if (f == NULL)
			jinja_fail(j, "unknown filter '%s'",
			    show(args->v[0].s.p, args->v[0].s.n));
		others = rest(j, args, 1);
	}
	for (i = 0; i < items->n; i++) {
		jinja_charge(j, 1);
		if (f != NULL) {
			item = function_call(j, f, &items->v[i], others,
			    named);
		} else {
			item = follow(j, items->v[i], path);
			if (!given(&item) && missing != NULL)
				item = *missing;
		}
		list_add(j, l, item);
	}
	return v;
}

/* Items for which a test is true (or false), or is of an attribute. */
static struct value
choose(struct jinja *j, struct value *arg, const struct list *args,
    const struct dict *named, bool attribute, bool want)
{
	const struct list *items = value_items(j, arg), *others;
	const struct function *f = NULL;
	struct list *l;
	struct value v = value_list(j, &l), item, ok;
	size_t i, n = attribute;

	if (args->n < n)
		jinja_fail(j, "the attribute is missing");
	if (args->n > n) {
		f = test_find(want_string(j, &args->v[n]));
		if (f == NULL)
			jinja_fail(j, "unknown test '%s'",
			    show(args->v[n].s.p, args->v[n].s.n));
	}
	others = rest(j, args, n + 1);
	for (i = 0; i < items->n; i++) {
		jinja_charge(j, 1);
		item = items->v[i];
		if (attribute)
			item = follow(j, item, &args->v[0]);
		ok = f != NULL ? function_call(j, f, &item, others, named) :
		    item;
		if (value_true(&ok) == want)
			list_add(j, l, items->v[i]);
	}
	return v;
}

static struct value
do_select(struct jinja *j, struct value *arg, const struct list *args,
    const struct dict *named)
{
	return choose(j, arg, args, named, false, true);
}

static struct value
do_reject(struct jinja *j, struct value *arg, const struct list *args,
    const struct dict *named)
{
	return choose(j, arg, args, named, false, false);
}

static struct value
do_selectattr(struct jinja *j, struct value *arg, const struct list *args,
    const struct dict *named)
{
	return choose(j, arg, args, named, true, true);
}

static struct value
do_rejectattr(struct jinja *j, struct value *arg, const struct list *args,
    const struct dict *named)
{
	return choose(j, arg, args, named, true, false);
}

static struct value
do_append(struct jinja *j, struct value *arg)
{
	list_add(j, arg->list, arg[1]);
	return none;
}

static struct value
do_extend(struct jinja *j, struct value *arg)
{
	const struct list *items = value_items(j, &arg[1]);
	size_t i, n = items->n;

	jinja_charge(j, n / 16);
	for (i = 0; i < n; i++)
		list_add(j, arg->list, items->v[i]);
	return none;
}

static struct value
do_pop(struct jinja *j, struct value *arg)
{
	int64_t i = want_int(j, &arg[1], -1), n = (int64_t)arg->list->n;
	struct value v;

	i = i < 0 && i >= -n ? i + n : i;
	if (i < 0 || i >= n)
		jinja_fail(j, "no item %" PRId64 " to pop", i);
	v = arg->list->v[i];
	jinja_charge(j, (uint64_t)(n - i) / 16);
	memmove(arg->list->v + i, arg->list->v + i + 1,
	    (size_t)(n - i - 1) * sizeof v);
	arg->list->n--;
	return v;
}

/* ---- mappings ---- */

static const struct dict *
want_map(struct jinja *j, const struct value *v)
{
	static const struct dict empty;

	if (v->kind == V_UNDEFINED)
		return &empty;
	if (v->kind != V_MAP)
		jinja_fail(j, "%s where a mapping should be", value_kind(v));
	return v->map;
}

/* Its keys, its values, or tuples of both. */
static struct value
parts(struct jinja *j, const struct dict *m, bool keys, bool values)
{
	struct list *l, *tuple;
	struct value v = value_list(j, &l), both;
	size_t i;

	jinja_charge(j, m->n);
	for (i = 0; i < m->n; i++) {
		if (keys && values) {
			both = value_list(j, &tuple);
			tuple->tuple = true;
			list_add(j, tuple, m->v[i].key);
			list_add(j, tuple, m->v[i].value);
			list_add(j, l, both);
		} else {
			list_add(j, l, keys ? m->v[i].key : m->v[i].value);
		}
	}
	return v;
}

static struct value
do_items(struct jinja *j, struct value *arg)
{
	return parts(j, want_map(j, arg), true, true);
}

static struct value
do_keys(struct jinja *j, struct value *arg)
{
	return parts(j, arg->map, true, false);
}

static struct value
do_values(struct jinja *j, struct value *arg)
{
	return parts(j, arg->map, false, true);
}

static struct value
do_dictsort(struct jinja *j, struct value *arg)
{
	/* case_sensitive, by, reverse */
	const struct dict *m = want_map(j, arg);
	struct value v = parts(j, m, true, true);
	bool by_value = given(&arg[2]) &&
	    str_is(want_string(j, &arg[2]), "value");
	struct list *keys;
	size_t i;

	(void)value_list(j, &keys);
	for (i = 0; i < m->n; i++)
		list_add(j, keys, sort_key(j, by_value ? m->v[i].value :
		    m->v[i].key, value_true(&arg[1])));
	sort(j, v.list, keys, value_true(&arg[3]));
	return v;
}

static struct value
do_get(struct jinja *j, struct value *arg)
{
	const struct value *v = map_find(j, arg->map, arg[1]);

	return v != NULL ? *v : given(&arg[2]) ? arg[2] : none;
}

static struct value
do_pop_key(struct jinja *j, struct value *arg)
{
	struct value *found = map_find(j, arg->map, arg[1]), v;
	struct dict *m = arg->map;
	size_t i;

	if (found == NULL) {
		if (!given(&arg[2]))
			jinja_fail(j, "no such key to pop");
		return arg[2];
	}
	v = *found;
	for (i = 0; &m->v[i].value != found; )
		i++;
	memmove(m->v + i, m->v + i + 1, (m->n - i - 1) * sizeof *m->v);
	m->n--;
	return v;
}

static struct value
do_update(struct jinja *j, struct value *arg)
{
	const struct dict *from = want_map(j, &arg[1]);
	size_t i;

	for (i = 0; i < from->n; i++)
		map_set(j, arg->map, from->v[i].key, from->v[i].value);
	return none;
}

/* ---- tests ---- */

#define KIND_TEST(name, condition) \
	static struct value \
	name(struct jinja *j, struct value *arg) \
	{ \
		(void)j; \
		return value_bool(condition); \
	}

KIND_TEST(is_defined, arg->kind != V_UNDEFINED)
KIND_TEST(is_undefined, arg->kind == V_UNDEFINED)
KIND_TEST(is_none, arg->kind == V_NONE)
KIND_TEST(is_string, arg->kind == V_STR)
KIND_TEST(is_mapping, arg->kind == V_MAP)
/* Python finds something to walk in all of these, and in nothing, too. */
KIND_TEST(is_iterable, arg->kind == V_STR || arg->kind == V_LIST ||
    arg->kind == V_MAP || arg->kind == V_UNDEFINED)
KIND_TEST(is_boolean, arg->kind == V_BOOL)
KIND_TEST(is_true, arg->kind == V_BOOL && arg->b)
KIND_TEST(is_false, arg->kind == V_BOOL && !arg->b)
KIND_TEST(is_number, arg->kind == V_INT || arg->kind == V_FLOAT ||
    arg->kind == V_BOOL)
KIND_TEST(is_integer, arg->kind == V_INT)
KIND_TEST(is_float, arg->kind == V_FLOAT)
KIND_TEST(is_callable, arg->kind == V_MACRO || arg->kind == V_METHOD ||
    arg->kind == V_FUNCTION)
KIND_TEST(is_equal, value_equal(j, arg, &arg[1]))
KIND_TEST(is_unequal, !value_equal(j, arg, &arg[1]))
KIND_TEST(is_less, value_compare(j, arg, &arg[1]) < 0)
KIND_TEST(is_at_most, value_compare(j, arg, &arg[1]) <= 0)
KIND_TEST(is_greater, value_compare(j, arg, &arg[1]) > 0)
KIND_TEST(is_at_least, value_compare(j, arg, &arg[1]) >= 0)
KIND_TEST(is_in, value_in(j, arg, &arg[1]))

static bool
divides(struct jinja *j, const struct value *v, int64_t by)
{
	int64_t i = want_int(j, v, 0);

	if (by == 0)
		jinja_fail(j, "division by zero");
	return by == -1 || i % by == 0;
}

KIND_TEST(is_even, divides(j, arg, 2))
KIND_TEST(is_odd, !divides(j, arg, 2))
KIND_TEST(is_divisible, divides(j, arg, want_int(j, &arg[1], 0)))

/* ---- functions ---- */

static struct value
do_raise(struct jinja *j, struct value *arg)
{
	struct str s = value_string(j, &arg[1]);
	char msg[300];

	(void)pico_escape(msg, sizeof msg, s.p, s.n);
	jinja_fail(j, "the template refuses: %s", msg);
}

static struct value
do_range(struct jinja *j, struct value *arg)
{
	int64_t from = want_int(j, &arg[1], 0), to = from, i;
	int64_t step = want_int(j, &arg[3], 1);
	struct list *l;
	struct value v = value_list(j, &l);

	if (given(&arg[2]))
		to = want_int(j, &arg[2], 0);
	else
		from = 0;
	if (step == 0)
		jinja_fail(j, "the step of a range is 0");
	for (i = from; step > 0 ? i < to : i > to; ) {
		if (l->n == JINJA_RANGE)
			jinja_fail(j, "a range of more than %d items",
			    JINJA_RANGE);
		list_add(j, l, value_int(i));
		if (__builtin_add_overflow(i, step, &i))
			break;
	}
	jinja_charge(j, l->n);
	return v;
}

/* Of named values, and of those of a mapping. */
static struct value
make_map(struct jinja *j, enum kind kind, const struct list *args,
    const struct dict *named)
{
	struct value v, from[2];
	struct dict *m;
	size_t i;

	v = value_map(j, &m);
	from[0] = v;
	for (i = 0; i < args->n; i++) {
		from[1] = args->v[i];
		(void)do_update(j, from);
	}
	for (i = 0; i < named->n; i++)
		map_set(j, m, named->v[i].key, named->v[i].value);
	v.kind = kind;
	return v;
}

static struct value
do_namespace(struct jinja *j, struct value *arg, const struct list *args,
    const struct dict *named)
{
	(void)arg;
	return make_map(j, V_NAMESPACE, args, named);
}

static struct value
do_dict(struct jinja *j, struct value *arg, const struct list *args,
    const struct dict *named)
{
	(void)arg;
	return make_map(j, V_MAP, args, named);
}

/* ---- dates ---- */

static const char *const months[] = { "January", "February", "March", "April",
    "May", "June", "July", "August", "September", "October", "November",
    "December" };
static const char *const weekdays[] = { "Sunday", "Monday", "Tuesday",
    "Wednesday", "Thursday", "Friday", "Saturday" };

enum { YEAR, MONTH, DAY, HOUR, MINUTE, SECOND };

static void
use_now(struct jinja *j)
{
	time_t t = time(NULL);
	struct tm tm;

	if (j->has_date)
		return;
	if (localtime_r(&t, &tm) == NULL)
		jinja_fail(j, "the time of day is not to be had");
	j->date[YEAR] = tm.tm_year + 1900;
	j->date[MONTH] = tm.tm_mon + 1;
	j->date[DAY] = tm.tm_mday;
	j->date[HOUR] = tm.tm_hour;
	j->date[MINUTE] = tm.tm_min;
	j->date[SECOND] = MIN(tm.tm_sec, 59);
	j->has_date = true;
}

static int64_t
day_of_year(const int64_t *date)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243,
	    273, 304, 334 };
	int64_t y = date[YEAR];
	bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

	return before[date[MONTH] - 1] + date[DAY] +
	    (leap && date[MONTH] > 2);
}

/* 0: Sunday. */
static int64_t
weekday(const int64_t *date)
{
	int64_t y = date[YEAR] - 1;

	return (y * 365 + y / 4 - y / 100 + y / 400 + day_of_year(date)) % 7;
}

static void
put_number(struct jinja *j, int64_t v, int width, bool plain)
{
	char buf[32];

	(void)snprintf(buf, sizeof buf, "%0*" PRId64, plain ? 1 : width, v);
	out_text(j, buf);
}

static void
put_name(struct jinja *j, const char *name, bool whole)
{
	out_put(j, str_of(name, whole ? strlen(name) : 3));
}

/* One conversion of strftime(3); `plain` drops leading zeros. */
static void
put_date(struct jinja *j, char c, bool plain)
{
	const int64_t *d = j->date;

	switch (c) {
	case 'Y': put_number(j, d[YEAR], 4, plain); break;
	case 'y': put_number(j, d[YEAR] % 100, 2, plain); break;
	case 'm': put_number(j, d[MONTH], 2, plain); break;
	case 'd': put_number(j, d[DAY], 2, plain); break;
	case 'H': put_number(j, d[HOUR], 2, plain); break;
	case 'I': put_number(j, (d[HOUR] + 11) % 12 + 1, 2, plain); break;
	case 'M': put_number(j, d[MINUTE], 2, plain); break;
	case 'S': put_number(j, d[SECOND], 2, plain); break;
	case 'j': put_number(j, day_of_year(d), 3, plain); break;
	case 'w': put_number(j, weekday(d), 1, plain); break;
	case 'p': out_text(j, d[HOUR] < 12 ? "AM" : "PM"); break;
	case 'B': put_name(j, months[d[MONTH] - 1], true); break;
	case 'b': put_name(j, months[d[MONTH] - 1], false); break;
	case 'A': put_name(j, weekdays[weekday(d)], true); break;
	case 'a': put_name(j, weekdays[weekday(d)], false); break;
	case 'Z': case 'z': break;	/* this time has no zone */
	case '%': out_text(j, "%"); break;
	default:
		jinja_fail(j, "unknown conversion '%%%s' in a date",
		    show(&c, 1));
	}
}

static struct value
do_strftime_now(struct jinja *j, struct value *arg)
{
	/* conversions that are several */
	static const struct {
		char c;
		const char *is;
	} several[] = { { 'F', "Y-m-d" }, { 'T', "H:M:S" }, { 'R', "H:M" },
	    { 'D', "m/d/y" } };
	struct str f = want_string(j, &arg[1]);
	size_t from = j->out.n, i, k;
	const char *p;
	bool plain;

	use_now(j);
	for (i = 0; i < f.n; i++) {
		if (f.p[i] != '%' || i + 1 == f.n) {
			out_put(j, str_part(f, i, i + 1));
			continue;
		}
		plain = f.p[++i] == '-' && i + 1 < f.n;
		i += plain;
		for (k = 0; k < COUNT(several) && several[k].c != f.p[i]; )
			k++;
		if (k == COUNT(several)) {
			put_date(j, f.p[i], plain);
			continue;
		}
		for (p = several[k].is; *p != '\0'; p++) {
			if ((*p >= 'a' && *p <= 'z') ||
			    (*p >= 'A' && *p <= 'Z'))
				put_date(j, *p, plain);
			else
				out_put(j, str_of(p, 1));
		}
	}
	return value_str(out_take(j, from));
}

/* ---- the tables ---- */

static const struct function filters[] = {
	{ "capitalize", 0, 0, { NULL }, do_capitalize, NULL },
	{ "count", 0, 0, { NULL }, do_length, NULL },
	{ "d", 0, 2, { "default_value", "boolean" }, do_default, NULL },
	{ "default", 0, 2, { "default_value", "boolean" }, do_default, NULL },
	{ "dictsort", 0, 3, { "case_sensitive", "by", "reverse" },
	    do_dictsort, NULL },
	{ "first", 0, 0, { NULL }, do_first, NULL },
	{ "float", 0, 1, { "default" }, do_float, NULL },
	{ "from_json", 0, 0, { NULL }, do_from_json, NULL },
	{ "indent", 0, 3, { "width", "first", "blank" }, do_indent, NULL },
	{ "int", 0, 1, { "default" }, do_int, NULL },
	{ "items", 0, 0, { NULL }, do_items, NULL },
	{ "join", 0, 2, { "d", "attribute" }, do_join, NULL },
	{ "last", 0, 0, { NULL }, do_last, NULL },
	{ "length", 0, 0, { NULL }, do_length, NULL },
	{ "list", 0, 0, { NULL }, do_list, NULL },
	{ "lower", 0, 0, { NULL }, do_lower, NULL },
	{ "map", 0, 0, { NULL }, NULL, do_map },
	{ "reject", 0, 0, { NULL }, NULL, do_reject },
	{ "rejectattr", 0, 0, { NULL }, NULL, do_rejectattr },
	{ "replace", 2, 3, { "old", "new", "count" }, do_replace, NULL },
	{ "reverse", 0, 0, { NULL }, do_reverse, NULL },
	{ "safe", 0, 0, { NULL }, do_safe, NULL },
	{ "select", 0, 0, { NULL }, NULL, do_select },
	{ "selectattr", 0, 0, { NULL }, NULL, do_selectattr },
	{ "sort", 0, 3, { "reverse", "case_sensitive", "attribute" },
	    do_sort, NULL },
	{ "string", 0, 0, { NULL }, do_string, NULL },
	{ "title", 0, 0, { NULL }, do_title, NULL },
	{ "tojson", 0, 4, { "ensure_ascii", "indent", "separators",
	    "sort_keys" }, do_tojson, NULL },
	{ "trim", 0, 1, { "chars" }, do_trim, NULL },
	{ "unique", 0, 2, { "case_sensitive", "attribute" },
	    do_unique, NULL },
	{ "upper", 0, 0, { NULL }, do_upper, NULL },
};

static const struct function tests[] = {
	{ "boolean", 0, 0, { NULL }, is_boolean, NULL },
	{ "callable", 0, 0, { NULL }, is_callable, NULL },
	{ "defined", 0, 0, { NULL }, is_defined, NULL },
	{ "divisibleby", 1, 1, { "num" }, is_divisible, NULL },
	{ "eq", 1, 1, { NULL }, is_equal, NULL },
	{ "==", 1, 1, { NULL }, is_equal, NULL },
	{ "equalto", 1, 1, { NULL }, is_equal, NULL },
	{ "even", 0, 0, { NULL }, is_even, NULL },
	{ "false", 0, 0, { NULL }, is_false, NULL },
	{ "float", 0, 0, { NULL }, is_float, NULL },
	{ "ge", 1, 1, { NULL }, is_at_least, NULL },
	{ "greaterthan", 1, 1, { NULL }, is_greater, NULL },
	{ "gt", 1, 1, { NULL }, is_greater, NULL },
	{ "in", 1, 1, { "seq" }, is_in, NULL },
	{ "integer", 0, 0, { NULL }, is_integer, NULL },
	{ "iterable", 0, 0, { NULL }, is_iterable, NULL },
	{ "le", 1, 1, { NULL }, is_at_most, NULL },
	{ "lessthan", 1, 1, { NULL }, is_less, NULL },
	{ "lt", 1, 1, { NULL }, is_less, NULL },
	{ "mapping", 0, 0, { NULL }, is_mapping, NULL },
	{ "ne", 1, 1, { NULL }, is_unequal, NULL },
	{ "!=", 1, 1, { NULL }, is_unequal, NULL },
	{ "none", 0, 0, { NULL }, is_none, NULL },
	{ "number", 0, 0, { NULL }, is_number, NULL },
	{ "odd", 0, 0, { NULL }, is_odd, NULL },
	{ "sequence", 0, 0, { NULL }, is_iterable, NULL },
	{ "string", 0, 0, { NULL }, is_string, NULL },
	{ "true", 0, 0, { NULL }, is_true, NULL },
	{ "undefined", 0, 0, { NULL }, is_undefined, NULL },
};

static const struct function string_methods[] = {
	{ "capitalize", 0, 0, { NULL }, do_capitalize, NULL },
	{ "count", 1, 1, { NULL }, do_count, NULL },
	{ "endswith", 1, 1, { NULL }, do_endswith, NULL },
	{ "find", 1, 1, { NULL }, do_find, NULL },
	{ "join", 1, 1, { NULL }, do_join_method, NULL },
	{ "lower", 0, 0, { NULL }, do_lower, NULL },
	{ "lstrip", 0, 1, { NULL }, do_lstrip, NULL },
	{ "replace", 2, 3, { NULL }, do_replace, NULL },
	{ "rstrip", 0, 1, { NULL }, do_rstrip, NULL },
	{ "split", 0, 2, { "sep", "maxsplit" }, do_split, NULL },
	{ "startswith", 1, 1, { NULL }, do_startswith, NULL },
	{ "strip", 0, 1, { NULL }, do_trim, NULL },
	{ "title", 0, 0, { NULL }, do_title_method, NULL },
	{ "upper", 0, 0, { NULL }, do_upper, NULL },
};

static const struct function list_methods[] = {
	{ "append", 1, 1, { NULL }, do_append, NULL },
	{ "extend", 1, 1, { NULL }, do_extend, NULL },
	{ "pop", 0, 1, { NULL }, do_pop, NULL },
};

static const struct function map_methods[] = {
	{ "get", 1, 2, { NULL }, do_get, NULL },
	{ "items", 0, 0, { NULL }, do_items, NULL },
	{ "keys", 0, 0, { NULL }, do_keys, NULL },
	{ "pop", 1, 2, { NULL }, do_pop_key, NULL },
	{ "update", 1, 1, { NULL }, do_update, NULL },
	{ "values", 0, 0, { NULL }, do_values, NULL },
};

static const struct function globals[] = {
	{ "dict", 0, 0, { NULL }, NULL, do_dict },
	{ "namespace", 0, 0, { NULL }, NULL, do_namespace },
	{ "raise_exception", 1, 1, { "message" }, do_raise, NULL },
	{ "range", 1, 3, { NULL }, do_range, NULL },
	{ "strftime_now", 1, 1, { "format" }, do_strftime_now, NULL },
};

static const struct function *
find(const struct function *table, size_t n, struct str name)
{
	for (; n > 0; n--, table++)
		if (str_is(name, table->name))
			return table;
	return NULL;
}

const struct function *
filter_find(struct str name)
{
	return find(filters, COUNT(filters), name);
}

const struct function *
test_find(struct str name)
{
	return find(tests, COUNT(tests), name);
}

const struct function *
global_find(struct str name)
{
	return find(globals, COUNT(globals), name);
}

const struct function *
method_find(enum kind kind, struct str name)
{
	switch (kind) {
	case V_STR:
		return find(string_methods, COUNT(string_methods), name);
	case V_LIST:
		return find(list_methods, COUNT(list_methods), name);
	case V_MAP:
		return find(map_methods, COUNT(map_methods), name);
	default:
		return NULL;
	}
}

struct value
function_call(struct jinja *j, const struct function *f,
    const struct value *self, const struct list *args,
    const struct dict *named)
{
	struct value arg[FUNCTION_ARGS + 1] = {{ .kind = V_UNDEFINED }}, *v;
	size_t used = 0;
	int i;

	if (self != NULL)
		arg[0] = *self;
	if (f->many != NULL)
		return f->many(j, arg, args, named);
	for (i = 0; i < f->max; i++) {
		v = f->names[i] != NULL ? map_find(j, named,
		    value_text(f->names[i])) : NULL;
		used += v != NULL;
		if ((size_t)i < args->n)
			arg[i + 1] = args->v[i];
		else if (v != NULL)
			arg[i + 1] = *v;
	}
	if (args->n + named->n < (size_t)f->min ||
	    args->n + named->n > (size_t)f->max || used < named->n)
		jinja_fail(j, "'%s' takes %d to %d arguments, %zu are given "
		    "or they have other names", f->name, f->min, f->max,
		    args->n + named->n);
	return f->call(j, arg);
}
