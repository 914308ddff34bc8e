/* SPDX-License-Identifier: MIT */
/*
 * JSON schemas (draft 2020-12, in part) to GBNF: a rule for each schema in the
 * file, which refers to the rules of those inside it. Schemas wait in a queue, so
 * that their depth does not matter. What the grammar lets pass fits the schema;
 * a keyword that cannot be kept to is refused.
 */
#include <inttypes.h>
#include <stdio.h>

#include "grammar.h"
#include "schema.h"

/* JSON values without blanks; numbers that a double holds. */
static const char values[] =
"value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
"object ::= \"{\" (pair (\",\" pair)*)? \"}\"\n"
"pair ::= string \":\" value\n"
"array ::= \"[\" (value (\",\" value)*)? \"]\"\n"
"string ::= \"\\\"\" char* \"\\\"\"\n"
"char ::= [^\"\\\\\\x00-\\x1f\\x7f] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" code)\n"
"code ::= [0-9a-cA-CefEF] hex{3} | [dD] [0-7] hex{2} |\n"
"  [dD] [89abAB] hex{2} \"\\\\u\" [dD] [c-fC-F] hex{2}\n"
"hex ::= [0-9a-fA-F]\n"
"number ::= \"-\"? whole (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n"
"whole ::= \"0\" | [1-9] [0-9]{0,15}\n";

struct pico_grammar *
pico_grammar_json(struct pico_err *err)
{
	char text[sizeof values + 20];
	int n = snprintf(text, sizeof text, "root ::= value\n%s", values);

	return pico_grammar_parse(text, (size_t)n, err);
}


/* ---- output ---- */

void
put(struct schema *s, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	s->failed = s->failed || mem_grow(&s->out, &s->cap_out,
	    s->n_out + (size_t)n + 1, 1, "grammar of a schema", s->err) < 0;
	if (s->failed)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(s->out + s->n_out, (size_t)n + 1, fmt, ap);
	va_end(ap);
	s->n_out += (size_t)n;
}

void
put_bar(struct schema *s)
{
	size_t i = s->n_out;

	while (i > 0 && s->out[i - 1] == ' ')
		i--;
	if (i > 0 && s->out[i - 1] != '(' && s->out[i - 1] != '=')
		put(s, " |");
}

void
put_literal(struct schema *s, const char *p, size_t n)
{
	size_t i;

	put(s, " \"");
	for (i = 0; i < n; i++)
		if (p[i] == '"' || p[i] == '\\')
			put(s, "\\%c", p[i]);
		else if ((unsigned char)p[i] < 0x20)
			put(s, "\\x%02x", (unsigned char)p[i]);
		else
			put(s, "%c", p[i]);
	put(s, "\"");
}

/* "#/properties/x": where a schema is. */
static const char *
place(struct schema *s, uint32_t node)
{
	static _Thread_local char text[200];
	const struct json_node *v = s->j.node;
	char step[80];
	size_t at = sizeof text - 1, n;
	uint32_t i, k, index;

	text[at] = '\0';
	for (i = node; v[i].parent != JSON_NONE; i = v[i].parent) {
		if (v[v[i].parent].kind == JSON_OBJECT) {
			n = (size_t)snprintf(step, sizeof step, "/%s",
			    show_str(v[i].key));
		} else {
			for (index = 0, k = v[v[i].parent].first; k != i;
			    k = v[k].next)
				index++;
			n = (size_t)snprintf(step, sizeof step, "/%" PRIu32,
			    index);
		}
		if (n >= sizeof step || n + 2 > at)
			break;
		at -= n;
		memcpy(text + at, step, n);
	}
	text[--at] = '#';
	return text + at;
}

int
schema_bad(struct schema *s, uint32_t node, const char *fmt, ...)
{
	char msg[250];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	return fail(s->err, "schema %s: %s", place(s, node), msg);
}

/* ---- keywords ---- */

enum {			/* kinds of values */
	K_NULL = 1, K_BOOLEAN = 2, K_INTEGER = 4, K_NUMBER = 8, K_STRING = 16,
	K_ARRAY = 32, K_OBJECT = 64, K_ALL = 127,
	NOTE = 128,	/* says nothing about what fits */
	WHOLE = 256	/* says all by itself */
};

static const struct keyword {
	const char *name;
	unsigned what;
} keywords[] = {
	{ "title", NOTE }, { "description", NOTE }, { "default", NOTE },
	{ "examples", NOTE }, { "$schema", NOTE }, { "$id", NOTE },
	{ "$comment", NOTE }, { "$defs", NOTE }, { "definitions", NOTE },
	{ "deprecated", NOTE }, { "readOnly", NOTE }, { "writeOnly", NOTE },
	{ "type", K_ALL }, { "enum", WHOLE }, { "const", WHOLE },
	{ "$ref", WHOLE }, { "anyOf", WHOLE }, { "oneOf", WHOLE },
	{ "allOf", WHOLE },
	{ "minimum", K_NUMBER | K_INTEGER },
	{ "maximum", K_NUMBER | K_INTEGER },
	{ "exclusiveMinimum", K_NUMBER | K_INTEGER },
	{ "exclusiveMaximum", K_NUMBER | K_INTEGER },
	{ "minLength", K_STRING }, { "maxLength", K_STRING },
	{ "pattern", K_STRING }, { "format", K_STRING },
	{ "items", K_ARRAY }, { "prefixItems", K_ARRAY },
	{ "minItems", K_ARRAY }, { "maxItems", K_ARRAY },
	{ "properties", K_OBJECT }, { "required", K_OBJECT },
	{ "additionalProperties", K_OBJECT },
};

static const struct {
	const char *name;
	unsigned kind;
} types[] = {
	{ "null", K_NULL }, { "boolean", K_BOOLEAN }, { "integer", K_INTEGER },
	{ "number", K_NUMBER }, { "string", K_STRING }, { "array", K_ARRAY },
	{ "object", K_OBJECT }
};

static uint32_t
get(const struct schema *s, uint32_t node, const char *key)
{
	return json_get(&s->j, node, key);
}

/* All kinds that the keywords of a schema speak of; 0 if that fails. */
static int
keywords_of(struct schema *s, uint32_t node, unsigned *what)
{
	const struct json_node *v = s->j.node;
	uint32_t i;
	size_t k;

	*what = 0;
	for (i = v[node].first; i != JSON_NONE; i = v[i].next) {
		for (k = 0; k < COUNT(keywords); k++)
			if (pico_str_is(v[i].key, keywords[k].name))
				break;
		if (k == COUNT(keywords) && !(v[i].kind == JSON_FALSE &&
		    pico_str_is(v[i].key, "uniqueItems")))
			return schema_bad(s, node, "keyword '%s' is not "
			    "supported", show_str(v[i].key));
		if (k < COUNT(keywords) && keywords[k].what != K_ALL)
			*what |= keywords[k].what;
	}
	return 0;
}

/* A keyword that says all stands alone, but for notes and `also`. */
static int
alone(struct schema *s, uint32_t node, const char *key, const char *also)
{
	const struct json_node *v = s->j.node;
	uint32_t i;
	size_t k;

	for (i = v[node].first; i != JSON_NONE; i = v[i].next) {
		for (k = 0; k < COUNT(keywords) &&
		    !pico_str_is(v[i].key, keywords[k].name); k++)
			;
		if (k < COUNT(keywords) && keywords[k].what != NOTE &&
		    strcmp(keywords[k].name, key) != 0 &&
		    strcmp(keywords[k].name, also) != 0)
			return schema_bad(s, node, "'%s' beside '%s' is not "
			    "supported", keywords[k].name, key);
	}
	return 0;
}

/* The kinds of `type`; all, if there is none. */
static int
types_of(struct schema *s, uint32_t node, unsigned *kinds)
{
	const struct json_node *v = s->j.node;
	uint32_t at = get(s, node, "type"), i, list;
	size_t k;

	*kinds = K_ALL;
	if (at == JSON_NONE)
		return 0;
	*kinds = 0;
	list = v[at].kind == JSON_ARRAY;
	for (i = list ? v[at].first : at; i != JSON_NONE;
	    i = list ? v[i].next : JSON_NONE) {
		for (k = 0; k < COUNT(types); k++)
			if (v[i].kind == JSON_STRING &&
			    pico_str_is(v[i].text, types[k].name))
				break;
		if (k == COUNT(types))
			return schema_bad(s, at, "'%s' is no type",
			    show_str(v[i].text));
		*kinds |= types[k].kind;
	}
	return *kinds == 0 ? schema_bad(s, at, "no type") : 0;
}

static unsigned
kind_of(const struct json_node *v)
{
	switch (v->kind) {
	case JSON_NULL: return K_NULL;
	case JSON_TRUE: case JSON_FALSE: return K_BOOLEAN;
	case JSON_NUMBER: return v->text.n > 0 &&
	    memchr(v->text.p, '.', v->text.n) == NULL &&
	    memchr(v->text.p, 'e', v->text.n) == NULL &&
	    memchr(v->text.p, 'E', v->text.n) == NULL ?
	    K_INTEGER | K_NUMBER : K_NUMBER;
	case JSON_STRING: return K_STRING;
	case JSON_ARRAY: return K_ARRAY;
	case JSON_OBJECT: break;
	}
	return K_OBJECT;
}

/* A whole number from 0 on; `otherwise` if there is no such key. */
static int
count_of(struct schema *s, uint32_t node, const char *key, int64_t otherwise,
    int64_t *out)
{
	uint32_t i = get(s, node, key);
	struct pico_str t;
	char text[16];

	*out = otherwise;
	if (i == JSON_NONE)
		return 0;
	t = s->j.node[i].text;
	if (s->j.node[i].kind == JSON_NUMBER && t.n < sizeof text) {
		memcpy(text, t.p, t.n);
		text[t.n] = '\0';
		if (pico_parse_int(text, 0, 1000000, out, NULL) == 0)
			return 0;
	}
	return schema_bad(s, i, "'%s' is no number from 0 to 1000000",
	    show_str(t));
}

static void
put_times(struct schema *s, int64_t min, int64_t max)
{
	if (max < 0)
		put(s, "{%" PRId64 ",}", min);
	else
		put(s, "{%" PRId64 ",%" PRId64 "}", min, max);
}

/* ---- rules for schemas inside ---- */

static void
use(struct schema *s, uint32_t node)
{
	if (!s->queued[node]) {
		s->queued[node] = true;
		s->queue[s->n_queue++] = node;
	}
	put(s, " s%" PRIu32, node);
}

/* The schema that a $ref means; JSON_NONE if there is none. */
static uint32_t
find_ref(struct schema *s, uint32_t ref)
{
	const struct json_node *v = s->j.node;
	struct pico_str t = v[ref].text;
	char key[200];
	size_t i = 1, n;
	uint32_t at = 0, k, index;

	if (v[ref].kind != JSON_STRING || t.n == 0 || t.p[0] != '#') {
		(void)schema_bad(s, ref, "only references to '#...' are "
		    "supported");
		return JSON_NONE;
	}
	while (i < t.n && t.p[i] == '/' && at != JSON_NONE) {
		for (i++, n = 0; i < t.n && t.p[i] != '/' &&
		    n + 1 < sizeof key; i++) {
			key[n++] = t.p[i];
			if (t.p[i] == '~' && i + 1 < t.n)
				key[n - 1] = t.p[++i] == '1' ? '/' : '~';
		}
		key[n] = '\0';
		if (v[at].kind == JSON_ARRAY) {
			index = (uint32_t)strtoul(key, NULL, 10);
			for (k = v[at].first; k != JSON_NONE && index > 0;
			    index--)
				k = v[k].next;
			at = k;
		} else {
			at = get(s, at, key);
		}
	}
	if (at == JSON_NONE || i < t.n) {
		(void)schema_bad(s, ref, "'%s' is not there", show_str(t));
		return JSON_NONE;
	}
	return at;
}

#define REFS_MAX 64	/* they are followed again for each that leads to them */

/* Follows references, as long as they lead on. */
static int
behind(struct schema *s, uint32_t *node)
{
	uint32_t from = *node, ref;
	int steps;

	for (steps = 0; (ref = get(s, *node, "$ref")) != JSON_NONE; steps++) {
		if (alone(s, *node, "$ref", "$ref") < 0 ||
		    (*node = find_ref(s, ref)) == JSON_NONE)
			return -1;
		if (*node == from)
			return schema_bad(s, from, "reference that leads to "
			    "itself");
		if (steps == REFS_MAX)
			return schema_bad(s, from, "references in a circle, or "
			    "more than %d in a row", REFS_MAX);
	}
	return 0;
}

/* ---- values as they are ---- */

static void
put_json_string(struct schema *s, struct pico_str t)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	const char *k;
	char code[8];
	size_t i;

	put_literal(s, "\"", 1);
	for (i = 0; i < t.n; i++) {
		k = t.p[i] != '\0' ? strchr(from, t.p[i]) : NULL;
		if (k != NULL) {
			code[0] = '\\';
			code[1] = to[k - from];
			put_literal(s, code, 2);
		} else if ((unsigned char)t.p[i] < 0x20) {
			(void)snprintf(code, sizeof code, "\\u%04x",
			    (unsigned char)t.p[i]);
			put_literal(s, code, 6);
		} else {
			size_t n = pico_utf8_len(t.p + i, t.n - i);

			put_literal(s, t.p + i, n);
			i += n - 1;
		}
	}
	put_literal(s, "\"", 1);
}

/* The text of a value, without blanks. */
static void
put_value(struct schema *s, uint32_t node)
{
	const struct json_node *v = s->j.node;
	uint32_t i = node;

	for (;;) {
		bool list = v[i].kind == JSON_ARRAY ||
		    v[i].kind == JSON_OBJECT;

		if (i != node && v[v[i].parent].kind == JSON_OBJECT) {
			put_json_string(s, v[i].key);
			put(s, " \":\"");
		}
		if (v[i].kind == JSON_STRING)
			put_json_string(s, v[i].text);
		else if (list)
			put(s, v[i].kind == JSON_ARRAY ? " \"[\"" :
			    " \"{\"");
		else
			put_literal(s, v[i].text.p, v[i].text.n);
		if (list && v[i].first != JSON_NONE) {
			i = v[i].first;
			continue;
		}
		if (list)
			put(s, v[i].kind == JSON_ARRAY ? " \"]\"" :
			    " \"}\"");
		for (; i != node && v[i].next == JSON_NONE; i = v[i].parent)
			put(s, v[v[i].parent].kind == JSON_ARRAY ?
			    " \"]\"" : " \"}\"");
		if (i == node)
			return;
		put(s, " \",\"");
		i = v[i].next;
	}
}

/* enum and const, as far as `type` lets them. */
static int
put_values(struct schema *s, uint32_t node, const char *key)
{
	const struct json_node *v = s->j.node;
	uint32_t at = get(s, node, key), i;
	bool list = strcmp(key, "enum") == 0, any = false;
	unsigned kinds;

	if (alone(s, node, key, "type") < 0 || types_of(s, node, &kinds) < 0)
		return -1;
	if (list && v[at].kind != JSON_ARRAY)
		return schema_bad(s, at, "no list");
	for (i = list ? v[at].first : at; i != JSON_NONE;
	    i = list ? v[i].next : JSON_NONE) {
		if ((kind_of(&v[i]) & kinds) == 0)
			continue;
		put_bar(s);
		put_value(s, i);
		any = true;
	}
	return any ? 0 : schema_bad(s, at, "no value is of the type");
}

/* ---- alternatives ---- */

#define ONE_OF_MAX 500	/* they are compared with each other */

/* The one value that a schema lets pass, if it is a const or an enum of one. */
static uint32_t
one_value(struct schema *s, uint32_t node)
{
	uint32_t i = get(s, node, "const"), list = get(s, node, "enum");

	if (i == JSON_NONE && list != JSON_NONE) {
		i = s->j.node[list].first;
		if (i != JSON_NONE && s->j.node[i].next != JSON_NONE)
			i = JSON_NONE;
	}
	return i;
}

static bool
is_required(const struct schema *s, uint32_t node, struct pico_str key)
{
	uint32_t list = get(s, node, "required"), i;

	for (i = list == JSON_NONE ? list : s->j.node[list].first;
	    i != JSON_NONE; i = s->j.node[i].next)
		if (pico_str_compare(s->j.node[i].text, key) == 0)
			return true;
	return false;
}

/* Whether two scalar values are known to differ. */
static bool
differ(const struct schema *s, uint32_t a, uint32_t b)
{
	const struct json_node *x = &s->j.node[a], *y = &s->j.node[b];

	return x->kind <= JSON_STRING && y->kind <= JSON_STRING &&
	    x->kind != JSON_NUMBER && (x->kind != y->kind ||
	    pico_str_compare(x->text, y->text) != 0);
}

/* The kinds of values that are made for a schema, and of those that fit it: the
   keywords for one kind say nothing about the others. */
static int
kinds_of(struct schema *s, uint32_t node, unsigned *kinds, unsigned *fits)
{
	uint32_t i = one_value(s, node), list = get(s, node, "enum");
	unsigned what;

	*kinds = *fits = K_ALL;
	if (s->j.node[node].kind != JSON_OBJECT)
		return 0;
	if (types_of(s, node, fits) < 0 || keywords_of(s, node, &what) < 0)
		return -1;
	*kinds = *fits == K_ALL && (what & K_ALL) != 0 ? what & K_ALL : *fits;
	if (i != JSON_NONE)
		*kinds &= kind_of(&s->j.node[i]);
	else if (list != JSON_NONE)
		for (what = *kinds, *kinds = 0, i = s->j.node[list].first;
		    i != JSON_NONE; i = s->j.node[i].next)
			*kinds |= kind_of(&s->j.node[i]) & what;
	if ((*kinds & K_NUMBER) != 0)
		*kinds |= K_INTEGER;
	if (list != JSON_NONE || get(s, node, "const") != JSON_NONE)
		*fits = *kinds;
	if ((*fits & K_NUMBER) != 0)
		*fits |= K_INTEGER;
	return 0;
}

/* 1 if no value that is made for one can fit the other. */
static int
disjoint(struct schema *s, uint32_t a, uint32_t b)
{
	const struct json_node *v = s->j.node;
	uint32_t pa, pb, i, k, x, y;
	unsigned ka, kb, fits_a, fits_b;

	if (behind(s, &a) < 0 || behind(s, &b) < 0 ||
	    kinds_of(s, a, &ka, &fits_a) < 0 ||
	    kinds_of(s, b, &kb, &fits_b) < 0)
		return -1;
	if ((ka & fits_b) == 0 && (kb & fits_a) == 0)
		return 1;
	x = one_value(s, a);
	y = one_value(s, b);
	if (x != JSON_NONE && y != JSON_NONE)
		return differ(s, x, y);
	/* objects that name their kind: a property that both must have */
	pa = get(s, a, "properties");
	pb = get(s, b, "properties");
	if (pa == JSON_NONE || pb == JSON_NONE || ka != K_OBJECT ||
	    kb != K_OBJECT || v[pa].kind != JSON_OBJECT ||
	    v[pb].kind != JSON_OBJECT)
		return 0;
	for (i = v[pa].first; i != JSON_NONE; i = v[i].next)
		for (k = v[pb].first; k != JSON_NONE; k = v[k].next) {
			if (pico_str_compare(v[i].key, v[k].key) != 0 ||
			    !is_required(s, a, v[i].key) ||
			    !is_required(s, b, v[i].key))
				continue;
			x = one_value(s, i);
			y = one_value(s, k);
			if (x != JSON_NONE && y != JSON_NONE &&
			    differ(s, x, y))
				return 1;
		}
	return 0;
}

static int
put_any_of(struct schema *s, uint32_t node, const char *key)
{
	const struct json_node *v = s->j.node;
	uint32_t at = get(s, node, key), i, k;
	bool one = strcmp(key, "oneOf") == 0;
	int r, n = 0;

	if (alone(s, node, key, key) < 0)
		return -1;
	if (v[at].kind != JSON_ARRAY || v[at].first == JSON_NONE)
		return schema_bad(s, at, "no list of schemas");
	for (i = v[at].first; i != JSON_NONE; i = v[i].next) {
		if (one && ++n > ONE_OF_MAX)
			return schema_bad(s, at, "more than %d schemas",
			    ONE_OF_MAX);
		for (k = v[at].first; one && k != i; k = v[k].next) {
			r = disjoint(s, k, i);
			if (r < 0)
				return -1;
			if (r == 0)
				return schema_bad(s, i, "a value may fit more "
				    "than one schema of 'oneOf', which is not "
				    "supported: use anyOf");
		}
		put_bar(s);
		use(s, i);
	}
	return 0;
}

/* ---- objects ---- */

/* They are compared with each other. */
#define PROPERTIES_MAX 2000

struct property {
	struct pico_str key;
	uint32_t schema;	/* JSON_NONE: any value */
	bool required;
};

struct object {
	struct property *v;
	size_t n, cap;
	uint32_t extra;		/* schema of other properties; 0: any value */
	bool open;		/* there may be others */
	bool closed;		/* there must not be */
};

static int
add_property(struct schema *s, struct object *o, uint32_t node,
    struct property p)
{
	if (o->n == PROPERTIES_MAX)
		return schema_bad(s, node, "more than %d properties",
		    PROPERTIES_MAX);
	if (mem_grow(&o->v, &o->cap, o->n + 1, sizeof *o->v, "properties",
	    s->err) < 0)
		return -1;
	o->v[o->n++] = p;
	return 0;
}

/* Adds the properties of a schema. */
static int
add_properties(struct schema *s, struct object *o, uint32_t node, bool all)
{
	const struct json_node *v = s->j.node;
	uint32_t at = get(s, node, "properties"), i, more;
	uint32_t required = get(s, node, "required");
	size_t k;

	more = get(s, node, "additionalProperties");
	if ((at != JSON_NONE && v[at].kind != JSON_OBJECT) ||
	    (required != JSON_NONE && v[required].kind != JSON_ARRAY))
		return schema_bad(s, node, "'properties' is no object, or "
		    "'required' no list");
	for (i = at == JSON_NONE ? at : v[at].first; i != JSON_NONE;
	    i = v[i].next) {
		for (k = 0; k < o->n && pico_str_compare(o->v[k].key,
		    v[i].key) != 0; k++)
			;
		if (k == o->n) {
			if (add_property(s, o, node, (struct property){
			    v[i].key, i, all ||
			    is_required(s, node, v[i].key) }) < 0)
				return -1;
		} else if (o->v[k].schema == JSON_NONE) {
			o->v[k].schema = i;	/* so far only required */
		} else {
			return schema_bad(s, i, "property twice");
		}
	}
	for (i = required == JSON_NONE ? required : v[required].first;
	    i != JSON_NONE; i = v[i].next) {
		if (v[i].kind != JSON_STRING)
			return schema_bad(s, i, "no string");
		for (k = 0; k < o->n && pico_str_compare(o->v[k].key,
		    v[i].text) != 0; k++)
			;
		if (k < o->n) {
			o->v[k].required = true;
			continue;
		}
		/* one that is not named is an additional one */
		if (more != JSON_NONE && v[more].kind == JSON_FALSE)
			return schema_bad(s, i, "required property '%s' is "
			    "excluded by additionalProperties",
			    show_str(v[i].text));
		if (add_property(s, o, node, (struct property){ v[i].text,
		    more, true }) < 0)
			return -1;
	}
	if (more != JSON_NONE && v[more].kind == JSON_FALSE) {
		o->closed = true;
	} else if (more != JSON_NONE) {
		o->open = true;
		o->extra = v[more].kind == JSON_TRUE ? 0 : more;
	}
	return 0;
}

/* The character at byte i of well-formed text. */
static uint32_t
utf8_at(struct pico_str t, size_t i)
{
	size_t len = pico_utf8_len(t.p + i, t.n - i), k;
	uint32_t cp = (unsigned char)t.p[i];

	cp = len == 1 ? cp : cp & (0x7fu >> len);
	for (k = 1; k < len; k++)
		cp = cp << 6 | (t.p[i + k] & 0x3fu);
	return cp;
}

/* The first property whose name agrees with n bytes of that of number k. */
static size_t
first_like(const struct object *o, size_t k, size_t n)
{
	size_t i = 0;

	while (o->v[i].key.n < n ||
	    memcmp(o->v[i].key.p, o->v[k].key.p, n) != 0)
		i++;
	return i;
}

/*
 * Keys that are none of the named ones. They have no escapes, so that there is
 * one way to write them; a rule for each beginning of a name says how to leave
 * it.
 */
static void
put_other_keys(struct schema *s, uint32_t node, const struct object *o)
{
	size_t k, n, i, len;

	for (k = 0; k < o->n; k++)
		for (n = 0; n <= o->v[k].key.n; n += len) {
			bool is_name = false;

			len = n < o->v[k].key.n ? pico_utf8_len(o->v[k].key.p +
			    n, o->v[k].key.n - n) : 1;
			if (first_like(o, k, n) != k)
				continue;
			put(s, "k%" PRIu32 "-%zu-%zu ::= [^\"\\\\\\x00-\\x1f"
			    "\\x7f", node, k, n);
			for (i = k; i < o->n; i++) {
				struct pico_str t = o->v[i].key;

				if (t.n < n || memcmp(t.p, o->v[k].key.p, n))
					continue;
				if (t.n == n)
					is_name = true;
				else
					put(s, "\\U%08x",
					    (unsigned)utf8_at(t, n));
			}
			put(s, "] plain* \"\\\"\"");
			if (!is_name)
				put(s, " | \"\\\"\"");
			for (i = k; i < o->n; i++) {
				struct pico_str t = o->v[i].key;
				size_t to;

				if (t.n <= n || memcmp(t.p, o->v[k].key.p, n))
					continue;
				to = n + pico_utf8_len(t.p + n, t.n - n);
				if (first_like(o, i, to) == i &&
				    (unsigned char)t.p[n] >= 0x20 &&
				    t.p[n] != '"' && t.p[n] != '\\')
					put(s, " | \"\\U%08x\" k%" PRIu32
					    "-%zu-%zu", (unsigned)utf8_at(t, n),
					    node, i, to);
			}
			put(s, "\n");
		}
	if (o->n == 0)
		put(s, "k%" PRIu32 "-0-0 ::= char* \"\\\"\"\n", node);
	put(s, "x%" PRIu32 " ::= \"\\\"\" k%" PRIu32 "-0-0 colon", node, node);
	if (o->extra != 0)
		use(s, o->extra);
	else
		put(s, " value");
	put(s, "\n");
}

/* Those that are required come first; else the order stays. */
static int
sort_properties(struct schema *s, struct object *o)
{
	struct property *v = mem_new(o->n, sizeof *v, "properties", s->err);
	size_t i, n = 0;

	if (v == NULL)
		return -1;
	for (i = 0; i < 2 * o->n; i++)
		if (o->v[i % o->n].required == (i < o->n))
			v[n++] = o->v[i % o->n];
	free(o->v);
	o->v = v;
	return 0;
}

/*
 * Properties in their order, of which some may be left out. Rule a<i> has what
 * is left of them if nothing came before, b<i> if something did.
 */
static void
put_properties(struct schema *s, uint32_t node, const struct object *o)
{
	size_t i;

	put(s, " \"{\" a%" PRIu32 "-0 \"}\"\n", node);
	for (i = 0; i < o->n; i++) {
		const struct property *p = &o->v[i];

		put(s, "p%" PRIu32 "-%zu ::=", node, i);
		put_json_string(s, p->key);
		put(s, " colon");
		if (p->schema == JSON_NONE)
			put(s, " value");
		else
			use(s, p->schema);
		put(s, "\na%" PRIu32 "-%zu ::= p%" PRIu32 "-%zu b%" PRIu32
		    "-%zu", node, i, node, i, node, i + 1);
		if (!p->required)
			put(s, " | a%" PRIu32 "-%zu", node, i + 1);
		put(s, "\nb%" PRIu32 "-%zu ::= comma p%" PRIu32 "-%zu b%"
		    PRIu32 "-%zu", node, i, node, i, node, i + 1);
		if (!p->required)
			put(s, " | b%" PRIu32 "-%zu", node, i + 1);
		put(s, "\n");
	}
	if (!o->open) {
		put(s, "a%" PRIu32 "-%zu ::= \"\"\nb%" PRIu32 "-%zu ::= \"\"\n",
		    node, o->n, node, o->n);
		return;
	}
	put_other_keys(s, node, o);
	put(s, "a%" PRIu32 "-%zu ::= (x%" PRIu32 " (comma x%" PRIu32 ")*)?\n"
	    "b%" PRIu32 "-%zu ::= (comma x%" PRIu32 ")*\n", node, o->n, node,
	    node, node, o->n, node);
}

/* The only one of its rule: what follows it is rules of its own. */
static int
put_object(struct schema *s, uint32_t node)
{
	struct object o = {0};
	int r = add_properties(s, &o, node, false);

	if (r == 0 && o.n == 0 && !o.closed && o.extra == 0)
		put(s, " object\n");
	else if (r == 0 && (r = sort_properties(s, &o)) == 0)
		put_properties(s, node, &o);
	free(o.v);
	return r;
}

/* The properties of all schemas together, those beside `allOf` too; none may be
   left out. */
static int
put_all_of(struct schema *s, uint32_t node)
{
	const struct json_node *v = s->j.node;
	uint32_t at = get(s, node, "allOf"), i, part;
	static const char *const others[] = { "const", "enum", "anyOf",
	    "oneOf" };
	struct object o = {0};
	unsigned kinds, fits, what;
	size_t k;
	int r = 0;

	if (v[at].kind != JSON_ARRAY || v[at].first == JSON_NONE)
		return schema_bad(s, at, "no list of schemas");
	for (k = 0; k < COUNT(others); k++)
		if (get(s, node, others[k]) != JSON_NONE)
			return schema_bad(s, node, "'%s' beside 'allOf' is not "
			    "supported", others[k]);
	if (kinds_of(s, node, &kinds, &fits) < 0)
		return -1;
	if (kinds == K_ALL && v[v[at].first].next == JSON_NONE) {
		use(s, v[at].first);
		put(s, "\n");
		return 0;
	}
	if (kinds != K_ALL && kinds != K_OBJECT)
		return schema_bad(s, node, "only objects can be joined by "
		    "'allOf'");
	r = add_properties(s, &o, node, true);
	for (i = v[at].first; r == 0 && i != JSON_NONE; i = v[i].next) {
		part = i;
		if (behind(s, &part) < 0 || kinds_of(s, part, &kinds, &fits) < 0 ||
		    keywords_of(s, part, &what) < 0)
			r = -1;
		else if (kinds != K_OBJECT || (what & WHOLE) != 0)
			r = schema_bad(s, i, "only objects can be joined by "
			    "'allOf'");
		else
			r = add_properties(s, &o, part, true);
	}
	if (r == 0 && (o.closed || o.open))
		r = schema_bad(s, node, "'additionalProperties' with 'allOf' "
		    "is not supported");
	if (r == 0)
		put_properties(s, node, &o);
	free(o.v);
	return r;
}

/* ---- the other kinds ---- */

static int
put_array(struct schema *s, uint32_t node)
{
	const struct json_node *v = s->j.node;
	uint32_t items = get(s, node, "items"), i;
	uint32_t first = get(s, node, "prefixItems");
	int64_t min, max, n = 0;
	bool closed = false;

	if (count_of(s, node, "minItems", 0, &min) < 0 ||
	    count_of(s, node, "maxItems", -1, &max) < 0)
		return -1;
	if (max >= 0 && min > max)
		return schema_bad(s, node, "minItems is more than maxItems");
	if (items != JSON_NONE && v[items].kind == JSON_ARRAY) {
		if (first != JSON_NONE)
			return schema_bad(s, items, "a list beside "
			    "prefixItems is not supported");
		first = items;	/* as before 2020 */
		items = JSON_NONE;
	}
	if (first != JSON_NONE && v[first].kind != JSON_ARRAY)
		return schema_bad(s, first, "no list of schemas");
	/* nothing but the tuple, unless more is asked for */
	closed = first != JSON_NONE && items == JSON_NONE;
	if (items != JSON_NONE && v[items].kind == JSON_FALSE)
		closed = true;
	put(s, " \"[\"");
	for (i = first == JSON_NONE ? first : v[first].first;
	    i != JSON_NONE && n != max; i = v[i].next, n++) {
		if (n > 0)
			put(s, " comma");
		use(s, i);
	}
	if (closed && min > n) {
		if (items != JSON_NONE)
			return schema_bad(s, node, "minItems is more than there "
			    "are items");
		max = min;
	} else if (closed) {
		max = n;
	}
	if (n > 0 && n != max) {
		put(s, " (comma");
		if (items == JSON_NONE)
			put(s, " value");
		else
			use(s, items);
		put(s, ")");
		put_times(s, MAX(min - n, 0), max < 0 ? max : max - n);
	} else if (max != 0 && n == 0) {
		put(s, min == 0 ? " (" : "");
		for (i = 0; i < 2; i++) {
			put(s, i == 1 ? " (comma" : "");
			if (items == JSON_NONE)
				put(s, " value");
			else
				use(s, items);
		}
		put(s, ")");
		put_times(s, MAX(min - 1, 0), max < 0 ? max : max - 1);
		put(s, min == 0 ? ")?" : "");
	}
	put(s, " \"]\"");
	return 0;
}

static int
put_string(struct schema *s, uint32_t node)
{
	const struct json_node *v = s->j.node;
	uint32_t pattern = get(s, node, "pattern");
	uint32_t format = get(s, node, "format");
	bool counted = get(s, node, "minLength") != JSON_NONE ||
	    get(s, node, "maxLength") != JSON_NONE;
	int64_t min, max;
	int r = 0;

	if ((pattern != JSON_NONE) + (format != JSON_NONE) + counted > 1)
		return schema_bad(s, node, "only one of pattern, format and "
		    "length is supported at once");
	if (count_of(s, node, "minLength", 0, &min) < 0 ||
	    count_of(s, node, "maxLength", -1, &max) < 0)
		return -1;
	if (max >= 0 && min > max)
		return schema_bad(s, node, "minLength is more than maxLength");
	put(s, " \"\\\"\"");
	if (pattern != JSON_NONE && v[pattern].kind != JSON_STRING)
		r = schema_bad(s, pattern, "no string");
	else if (pattern != JSON_NONE)
		r = put_pattern(s, node, v[pattern].text);
	else if (format != JSON_NONE && v[format].kind != JSON_STRING)
		r = schema_bad(s, format, "no string");
	else if (format != JSON_NONE)
		r = put_format(s, node, v[format].text);
	else {
		put(s, " char");
		put_times(s, min, max);
	}
	put(s, " \"\\\"\"");
	return r;
}

/* Each type as an alternative. An object's rules come behind: it is the last. */
static int
put_types(struct schema *s, uint32_t node, unsigned kinds)
{
	size_t i;
	int r = 0;

	for (i = 0; i < COUNT(types) && r == 0; i++) {
		if ((kinds & types[i].kind) == 0)
			continue;
		put_bar(s);
		switch (types[i].kind) {
		case K_NULL:
			put(s, " \"null\"");
			break;
		case K_BOOLEAN:
			put(s, " \"true\" | \"false\"");
			break;
		case K_INTEGER:
			r = put_integer(s, node);
			break;
		case K_NUMBER:
			r = put_number(s, node);
			break;
		case K_STRING:
			r = put_string(s, node);
			break;
		case K_ARRAY:
			r = put_array(s, node);
			break;
		default:
			return put_object(s, node);
		}
	}
	put(s, "\n");
	return r;
}

/* The rule of one schema. */
static int
put_schema(struct schema *s, uint32_t node)
{
	const struct json_node *v = s->j.node;
	static const char *const whole[] = { "const", "enum", "anyOf", "oneOf" };
	unsigned what, kinds;
	uint32_t to = node;
	size_t i;
	int r;

	put(s, "s%" PRIu32 " ::=", node);
	if (v[node].kind == JSON_TRUE) {
		put(s, " value\n");
		return 0;
	}
	if (v[node].kind != JSON_OBJECT)
		return schema_bad(s, node, v[node].kind == JSON_FALSE ?
		    "nothing fits 'false'" : "this is no schema");
	if (keywords_of(s, node, &what) < 0 || behind(s, &to) < 0)
		return -1;
	if (to != node) {
		use(s, to);
		put(s, "\n");
		return 0;
	}
	if (get(s, node, "allOf") != JSON_NONE)
		return put_all_of(s, node);
	for (i = 0; i < COUNT(whole); i++) {
		if (get(s, node, whole[i]) == JSON_NONE)
			continue;
		r = i < 2 ? put_values(s, node, whole[i]) :
		    put_any_of(s, node, whole[i]);
		put(s, "\n");
		return r;
	}
	if (types_of(s, node, &kinds) < 0)
		return -1;
	what &= K_ALL;
	if (kinds == K_ALL && what == 0) {
		put(s, " value\n");
		return 0;
	}
	/* without a type, what keywords speak of is meant */
	if (kinds == K_ALL)
		kinds = (what & K_NUMBER) != 0 ? what & ~(unsigned)K_INTEGER :
		    what;
	return put_types(s, node, kinds);
}

char *
pico_schema_grammar(const char *text, size_t n, size_t *n_out,
    struct pico_err *err)
{
	struct pico_err mine = {0};
	struct schema s = { .err = err != NULL ? err : &mine };
	size_t i;
	int r = -1;

	if (json_read(&s.j, text, n, s.err) < 0)
		return NULL;
	s.queue = mem_new(s.j.n, sizeof *s.queue, "schema", s.err);
	s.queued = mem_new(s.j.n, sizeof *s.queued, "schema", s.err);
	if (s.queue == NULL || s.queued == NULL)
		goto out;
	put(&s, "%scomma ::= \",\" \" \"?\ncolon ::= \":\" \" \"?\n"
	    "plain ::= [^\"\\\\\\x00-\\x1f\\x7f]\nroot ::=", values);
	use(&s, 0);
	put(&s, "\n");
	for (i = 0, r = 0; i < s.n_queue && r == 0 && !s.failed; i++)
		r = put_schema(&s, s.queue[i]);
out:
	json_free(&s.j);
	free(s.queue);
	free(s.queued);
	if (r < 0 || s.failed) {
		free(s.out);
		return NULL;
	}
	*n_out = s.n_out;
	return s.out;
}
