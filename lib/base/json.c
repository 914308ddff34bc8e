/* SPDX-License-Identifier: MIT */
/* JSON text (RFC 8259) to a tree, strictly, and without recursion. */
#include <inttypes.h>

#include "json.h"

struct reader {
	struct json *j;
	const char *p;
	size_t n, pos;
	struct json_limits limits;
	struct pico_err *err;
};

static int
bad(struct reader *r, const char *wanted)
{
	size_t i, line = 1, column = 1;

	for (i = 0; i < r->pos; i++) {
		column += ((unsigned char)r->p[i] & 0xc0) != 0x80;
		if (r->p[i] == '\n') {
			line++;
			column = 1;
		}
	}
	return fail(r->err, "line %zu, column %zu: not JSON: %s expected",
	    line, column, wanted);
}

static int
peek(const struct reader *r)
{
	return r->pos < r->n ? (unsigned char)r->p[r->pos] : -1;
}

static void
skip_blanks(struct reader *r)
{
	int c;

	while ((c = peek(r)) == ' ' || c == '\t' || c == '\n' || c == '\r')
		r->pos++;
}

static bool
take(struct reader *r, char c)
{
	skip_blanks(r);
	if (peek(r) != c)
		return false;
	r->pos++;
	return true;
}

static int
hex4(struct reader *r, uint32_t *v)
{
	int i, c;

	for (*v = 0, i = 0; i < 4; i++, r->pos++) {
		c = peek(r);
		if (c >= '0' && c <= '9')
			c -= '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			c = (c | 0x20) - 'a' + 10;
		else
			return bad(r, "a hexadecimal digit");
		*v = *v << 4 | (uint32_t)c;
	}
	return 0;
}

static void
put_utf8(char **to, uint32_t cp)
{
	int len = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4, i;
	static const unsigned lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (i = len - 1; i > 0; i--, cp >>= 6)
		(*to)[i] = (char)(0x80 | (cp & 0x3f));
	(*to)[0] = (char)(lead[len] | cp);
	*to += len;
}

/* Behind a backslash. */
static int
escape(struct reader *r, char **to)
{
	static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
	int c = peek(r);
	const char *known = c > 0 ? strchr(from, c) : NULL;
	uint32_t cp, low;

	r->pos++;
	if (known != NULL) {
		*(*to)++ = is[known - from];
		return 0;
	}
	if (c != 'u') {
		r->pos--;
		return bad(r, "an escape");
	}
	if (hex4(r, &cp) < 0)
		return -1;
	if (cp >= 0xd800 && cp < 0xdc00) {
		if (r->n - r->pos < 2 ||
		    memcmp(r->p + r->pos, "\\u", 2) != 0)
			return bad(r, "the other half of a surrogate pair");
		r->pos += 2;
		if (hex4(r, &low) < 0)
			return -1;
		if (low < 0xdc00 || low > 0xdfff)
			return bad(r, "the other half of a surrogate pair");
		cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
	} else if (cp >= 0xdc00 && cp < 0xe000) {
		return bad(r, "the first half of a surrogate pair");
	}
	put_utf8(to, cp);
	return 0;
}

/* Behind the opening quote; no longer than it is in the text. */
static int
string(struct reader *r, char **to, struct pico_str *out)
{
	size_t len;
	int c;

	out->p = *to;
	while ((c = peek(r)) != '"') {
		if (c < 0x20)
			return bad(r, "the end of a string");
		len = pico_utf8_len(r->p + r->pos, r->n - r->pos);
		if (len == 0)
			return bad(r, "UTF-8");
		if (c == '\\') {
			r->pos++;
			if (escape(r, to) < 0)
				return -1;
			continue;
		}
		memcpy(*to, r->p + r->pos, len);
		*to += len;
		r->pos += len;
	}
	r->pos++;
	out->n = (size_t)(*to - out->p);
	return 0;
}

static int
digits(struct reader *r)
{
	size_t from = r->pos;

	while (peek(r) >= '0' && peek(r) <= '9')
		r->pos++;
	return r->pos == from ? bad(r, "a digit") : 0;
}

static int
number(struct reader *r, struct pico_str *out)
{
	size_t from = r->pos;

	r->pos += peek(r) == '-';
	if (peek(r) == '0')
		r->pos++;
	else if (digits(r) < 0)
		return -1;
	if (peek(r) == '.') {
		r->pos++;
		if (digits(r) < 0)
			return -1;
	}
	if ((peek(r) | 0x20) == 'e') {
		r->pos++;
		r->pos += peek(r) == '+' || peek(r) == '-';
		if (digits(r) < 0)
			return -1;
	}
	*out = (struct pico_str){ r->p + from, r->pos - from };
	return 0;
}

/* A value without its elements. */
static int
value(struct reader *r, char **to, struct json_node *v)
{
	static const struct {
		const char *text;
		size_t n;
		enum json_kind kind;
	} words[] = {
		{ "true", 4, JSON_TRUE }, { "false", 5, JSON_FALSE },
		{ "null", 4, JSON_NULL }
	};
	size_t i;

	if (take(r, '{') || take(r, '[')) {
		v->text.p = r->p + r->pos - 1;
		v->kind = *v->text.p == '{' ? JSON_OBJECT : JSON_ARRAY;
		return 0;
	}
	if (take(r, '"')) {
		v->kind = JSON_STRING;
		return string(r, to, &v->text);
	}
	if (peek(r) == '-' || (peek(r) >= '0' && peek(r) <= '9')) {
		v->kind = JSON_NUMBER;
		return number(r, &v->text);
	}
	for (i = 0; i < COUNT(words); i++)
		if (r->n - r->pos >= words[i].n && memcmp(r->p + r->pos,
		    words[i].text, words[i].n) == 0) {
			v->kind = words[i].kind;
			v->text = (struct pico_str){ words[i].text,
			    words[i].n };
			r->pos += words[i].n;
			return 0;
		}
	return bad(r, "a value");
}

static int
read_tree(struct reader *r, char *to)
{
	struct json *j = r->j;
	struct json_node v = {0}, *n;
	uint32_t at = JSON_NONE, last = JSON_NONE, depth = 0;
	bool close = false;

	for (;;) {
		/* `at` is the open list or object, `last` its last element */
		if (!close) {
			v = (struct json_node){ .parent = at,
			    .first = JSON_NONE, .next = JSON_NONE };
			if (at != JSON_NONE && j->node[at].kind ==
			    JSON_OBJECT && (!take(r, '"') ? bad(r, "a key") :
			    string(r, &to, &v.key) < 0 ? -1 :
			    !take(r, ':') ? bad(r, "':'") : 0) < 0)
				return -1;
			if (value(r, &to, &v) < 0)
				return -1;
			if (j->n >= r->limits.nodes)
				return bad(r, "fewer values");
			if (mem_grow(&j->node, &j->cap, j->n + 1,
			    sizeof *j->node, "JSON", r->err) < 0)
				return -1;
			j->node[j->n] = v;
			if (last != JSON_NONE)
				j->node[last].next = (uint32_t)j->n;
			else if (at != JSON_NONE)
				j->node[at].first = (uint32_t)j->n;
			last = (uint32_t)j->n++;
			if (v.kind == JSON_OBJECT || v.kind == JSON_ARRAY) {
				at = last;
				last = JSON_NONE;
				if (++depth > r->limits.depth)
					return bad(r, "less nesting");
				close = take(r, v.kind == JSON_OBJECT ? '}' :
				    ']');
				if (!close)
					continue;
			}
		}
		if (close) {
			n = &j->node[at];
			n->text.n = (size_t)(r->p + r->pos - n->text.p);
			last = at;
			at = n->parent;
			depth--;
		}
		if (at == JSON_NONE)
			break;
		n = &j->node[at];
		close = !take(r, ',');
		if (close && !take(r, n->kind == JSON_OBJECT ? '}' : ']'))
			return bad(r, n->kind == JSON_OBJECT ? "',' or '}'" :
			    "',' or ']'");
	}
	skip_blanks(r);
	return r->pos < r->n ? bad(r, "the end") : 0;
}

int
json_read(struct json *j, const char *text, size_t n, struct pico_err *err)
{
	return json_read_limited(j, text, n, (struct json_limits){
	    UINT32_MAX, UINT32_MAX - 1 }, err);
}

int
json_read_limited(struct json *j, const char *text, size_t n,
    struct json_limits limits, struct pico_err *err)
{
	struct reader r;

	*j = (struct json){0};
	r = (struct reader){ j, text, n, 0, limits, err };
	if (n >= UINT32_MAX)
		return fail(err, "JSON of %zu bytes is too long", n);
	j->strings = mem_new(n + 1, 1, "JSON", err);
	if (j->strings == NULL || read_tree(&r, j->strings) < 0) {
		json_free(j);
		return -1;
	}
	return 0;
}

void
json_free(struct json *j)
{
	free(j->node);
	free(j->strings);
	free(j->slot);
	*j = (struct json){0};
}

uint32_t
json_get(const struct json *j, uint32_t object, const char *key)
{
	uint32_t i, found = JSON_NONE;

	if (j->node[object].kind != JSON_OBJECT)
		return JSON_NONE;
	for (i = j->node[object].first; i != JSON_NONE; i = j->node[i].next)
		if (pico_str_is(j->node[i].key, key))
			found = i;
	return found;
}

/* ---- keys ---- */

/* The slot of a key: of the node that has it, or a free one; NULL: too far. */
static uint32_t *
slot_of(const struct json *j, uint32_t object, struct pico_str key)
{
	size_t h = hash_text(object, key.p, key.n), i;
	const struct json_node *n;
	uint32_t *slot;

	for (i = 0; i < HASH_PROBES; i++) {
		slot = &j->slot[(h + i) & j->slot_mask];
		if (*slot == JSON_NONE)
			return slot;
		n = &j->node[*slot];
		if (n->parent == object && pico_str_compare(n->key, key) == 0)
			return slot;
	}
	return NULL;
}

int
json_index(struct json *j, struct pico_err *err)
{
	size_t size = 16, i;
	struct json_node *n;
	uint32_t *slot;

	while (size < 2 * j->n)
		size *= 2;
	j->slot = mem_new(size, sizeof *j->slot, "JSON", err);
	if (j->slot == NULL)
		return -1;
	memset(j->slot, 0xff, size * sizeof *j->slot);
	j->slot_mask = size - 1;
	for (i = 1; i < j->n; i++) {
		n = &j->node[i];
		if (j->node[n->parent].kind != JSON_OBJECT)
			continue;
		slot = slot_of(j, n->parent, n->key);
		if (slot == NULL)
			return fail(err, "keys have the same hash, more than "
			    "%d of them", HASH_PROBES);
		if (*slot != JSON_NONE)
			return fail(err, "key '%s' is there twice",
			    show_str(n->key));
		*slot = (uint32_t)i;
	}
	return 0;
}

uint32_t
json_find(const struct json *j, uint32_t object, struct pico_str key)
{
	const uint32_t *slot = j->node[object].kind != JSON_OBJECT ? NULL :
	    slot_of(j, object, key);

	return slot != NULL ? *slot : JSON_NONE;
}
