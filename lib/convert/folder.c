/* SPDX-License-Identifier: MIT */
/* Files of a folder: paths, JSON with its members, strings. */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "convert.h"

int
folder_path(char *out, size_t size, const char *dir, struct pico_str name,
    struct pico_err *err)
{
	size_t n = strlen(dir);

	while (n > 1 && dir[n - 1] == '/')
		n--;
	if (n >= size || name.n >= size || n + name.n + 2 > size)
		return fail(err, "'%s/%s': name too long", show(dir, n),
		    show_str(name));
	memcpy(out, dir, n);
	out[n] = '/';
	memcpy(out + n + 1, name.p, name.n);
	out[n + 1 + name.n] = '\0';
	return 0;
}

bool
folder_has(const char *dir, const char *name)
{
	char path[4096];
	struct stat st;

	/* a link to nothing is a download that is not complete */
	return folder_path(path, sizeof path, dir, str_of(name), NULL) == 0 &&
	    (lstat(path, &st) == 0 || errno != ENOENT);
}

int
doc_parse(struct json *j, const char *name, const char *text, size_t n,
    struct pico_err *err)
{
	struct json_limits limits = { FOLDER_DEPTH, FOLDER_NODES };
	struct pico_err e = {0};

	if (n > FOLDER_TEXT_MAX)
		return fail(err, "'%s' has %zu bytes, at most %u are read",
		    name, n, FOLDER_TEXT_MAX);
	if (json_read_limited(j, text, n, limits, &e) < 0 ||
	    (j->node[0].kind != JSON_OBJECT &&
	    fail(&e, "not a JSON object") < 0) || json_index(j, &e) < 0)
		return fail(err, "'%s': %s", name, e.msg);
	return 0;
}

int
doc_open(struct doc *d, const char *dir, const char *name,
    struct pico_err *err)
{
	char path[4096];

	*d = (struct doc){ .name = name };
	if (!folder_has(dir, name))
		return 0;
	d->there = true;
	if (folder_path(path, sizeof path, dir, str_of(name), err) < 0 ||
	    map_open(&d->map, path, err) < 0)
		return -1;
	return doc_parse(&d->json, name, (const char *)d->map.p,
	    (size_t)d->map.n, err);
}

void
doc_close(struct doc *d)
{
	json_free(&d->json);
	map_close(&d->map);
	d->there = false;
}

/* ---- members ---- */

uint32_t
doc_get(const struct doc *d, uint32_t object, const char *names)
{
	struct pico_str name;
	uint32_t node;

	if (!d->there || object == JSON_NONE)
		return JSON_NONE;
	for (;; names += name.n + 1) {
		name = (struct pico_str){ names, strcspn(names, "|") };
		node = json_find(&d->json, object, name);
		if (node != JSON_NONE && d->json.node[node].kind != JSON_NULL)
			return node;
		if (names[name.n] == '\0')
			return JSON_NONE;
	}
}

const char *
doc_kind(const struct doc *d, uint32_t node)
{
	static const char *const names[] = {
		[JSON_NULL] = "null", [JSON_FALSE] = "a truth value",
		[JSON_TRUE] = "a truth value", [JSON_NUMBER] = "a number",
		[JSON_STRING] = "a string", [JSON_ARRAY] = "a list",
		[JSON_OBJECT] = "an object"
	};

	return names[d->json.node[node].kind];
}

int
doc_whole(const struct doc *d, uint32_t node, uint64_t *out)
{
	struct pico_str s;
	uint64_t v = 0;
	size_t i;

	if (node == JSON_NONE)
		return 0;
	s = d->json.node[node].text;
	if (d->json.node[node].kind != JSON_NUMBER)
		return -1;
	for (i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9' || !mul_u64(v, 10, &v) ||
		    !add_u64(v, (uint64_t)(s.p[i] - '0'), &v))
			return -1;
	*out = v;
	return 1;
}

int
doc_real(const struct doc *d, uint32_t node, double *out)
{
	struct pico_str s;
	char text[64];

	if (node == JSON_NONE)
		return 0;
	s = d->json.node[node].text;
	if (d->json.node[node].kind != JSON_NUMBER || s.n >= sizeof text)
		return -1;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return pico_parse_real(text, -1e308,
	    1e308, out, NULL) < 0 ? -1 : 1;
}

int
doc_bool(const struct doc *d, uint32_t node, bool *out)
{
	enum json_kind kind;

	if (node == JSON_NONE)
		return 0;
	kind = d->json.node[node].kind;
	if (kind != JSON_TRUE && kind != JSON_FALSE)
		return -1;
	*out = kind == JSON_TRUE;
	return 1;
}

int
doc_str(const struct doc *d, uint32_t node, struct pico_str *out)
{
	if (node == JSON_NONE)
		return 0;
	if (d->json.node[node].kind != JSON_STRING)
		return -1;
	*out = d->json.node[node].text;
	return 1;
}

/* ---- strings ---- */

struct arena_block {
	struct arena_block *before;
	size_t used, size;
	char text[];
};

struct pico_str
arena_join(struct arena *a, struct pico_str x, struct pico_str y,
    struct pico_err *err)
{
	struct arena_block *b = a->last;
	size_t n = x.n + y.n, size;
	char *p;

	if (b == NULL || n > b->size - b->used) {
		size = MAX(n, 65536);
		b = mem_new(sizeof *b + size, 1, "texts", err);
		if (b == NULL)
			return (struct pico_str){ NULL, 0 };
		b->size = size;
		b->before = a->last;
		a->last = b;
	}
	p = b->text + b->used;
	b->used += n;
	if (x.n > 0)
		memcpy(p, x.p, x.n);
	if (y.n > 0)
		memcpy(p + x.n, y.p, y.n);
	return (struct pico_str){ p, n };
}

void
arena_free(struct arena *a)
{
	struct arena_block *b;

	while ((b = a->last) != NULL) {
		a->last = b->before;
		free(b);
	}
}

bool
str_begins(struct pico_str s, const char *with)
{
	size_t n = strlen(with);

	return s.n >= n && memcmp(s.p, with, n) == 0;
}

bool
str_ends(struct pico_str s, const char *with)
{
	size_t n = strlen(with);

	return s.n >= n && memcmp(s.p + s.n - n, with, n) == 0;
}
