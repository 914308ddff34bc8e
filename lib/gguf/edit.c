/* SPDX-License-Identifier: MIT */
/* Changing keys: values from text, and files changed in place. */
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/json.h"
#include "gguf.h"

/* ---- values ------------------------------------------------------------ */

struct text {
	const char *p;
	size_t n;
	struct map map;		/* if it is in a file */
};

static int
open_text(struct text *t, const char *spec, char how, struct pico_err *err)
{
	*t = (struct text){ .p = spec, .n = strlen(spec) };
	if (how == '@') {
		if (map_open(&t->map, spec, err) < 0)
			return -1;
		t->n = (size_t)t->map.n;
		t->p = t->n > 0 ? (const char *)t->map.p : "";
		if (t->n > 0 && t->p[t->n - 1] == '\n')
			t->n--;
	}
	return 0;
}

static void
close_text(struct text *t)
{
	map_close(&t->map);
}

static bool
is_real(uint32_t type)
{
	return type == PICO_KV_F32 || type == PICO_KV_F64;
}

/* The one type that pico_parse_int() has not. */
static int
parse_u64(const char *text, uint64_t *v, struct pico_err *err)
{
	const char *p = text;
	unsigned d;

	*v = 0;
	do {
		d = (unsigned)(*p - '0');
		if (d > 9 || *v > (UINT64_MAX - d) / 10)
			return fail_usage(err, "'%s' is not a whole number "
			    "between 0 and %" PRIu64, show(text, strlen(text)),
			    UINT64_MAX);
		*v = *v * 10 + d;
	} while (*++p != '\0');
	return 0;
}

/* A number or bool of a type, 8 bytes at most, into `to`. */
static int
parse(uint32_t type, struct pico_str s, uint8_t *to, struct pico_err *err)
{
	static const struct { int64_t min, max; } range[PICO_KV_N] = {
		[PICO_KV_U8] = { 0, UINT8_MAX },
		[PICO_KV_I8] = { INT8_MIN, INT8_MAX },
		[PICO_KV_U16] = { 0, UINT16_MAX },
		[PICO_KV_I16] = { INT16_MIN, INT16_MAX },
		[PICO_KV_U32] = { 0, UINT32_MAX },
		[PICO_KV_I32] = { INT32_MIN, INT32_MAX },
		[PICO_KV_I64] = { INT64_MIN, INT64_MAX },
	};
	char text[64];
	int64_t v;
	double d;
	float f;

	if (s.n >= sizeof text || memchr(s.p, 0, s.n) != NULL)
		return fail(err, "'%s' is no number", show_str(s));
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	if (type == PICO_KV_BOOL) {
		v = strcmp(text, "true") == 0;
		if (!v && strcmp(text, "false") != 0)
			return fail(err, "'%s' is not true or false",
			    show_str(s));
	} else if (is_real(type)) {
		if (pico_parse_real(text, type == PICO_KV_F32 ? -(double)FLT_MAX :
		    -DBL_MAX, type == PICO_KV_F32 ? (double)FLT_MAX : DBL_MAX,
		    &d, err) < 0)
			return -1;
		f = (float)d;
		memcpy(to, type == PICO_KV_F32 ? (void *)&f : &d,
		    kv_type_size(type));
		return 0;
	} else if (type == PICO_KV_U64) {
		uint64_t u;

		if (parse_u64(text, &u, err) < 0)
			return -1;
		memcpy(to, &u, sizeof u);
		return 0;
	} else if (pico_parse_int(text, range[type].min, range[type].max, &v,
	    err) < 0) {
		return -1;
	}
	memcpy(to, &v, kv_type_size(type));
	return 0;
}

static int
set_scalar(struct pico_writer *w, const char *key, uint32_t type,
    const struct text *t, struct pico_err *err)
{
	struct pico_kv kv = { .key = { key, strlen(key) }, .type = type,
	    .n = 1, .bytes = kv_type_size(type), .wide = 8 };
	uint8_t value[8];

	if (type == PICO_KV_STR)
		return pico_writer_str(w, key, (struct pico_str){ t->p, t->n },
		    err);
	if (parse(type, (struct pico_str){ t->p, t->n }, value, err) < 0)
		return -1;
	kv.data = value;
	return pico_writer_copy(w, &kv, err);
}

/* The elements of a JSON array, all of one type. */
static int
set_elements(struct pico_writer *w, const char *key, uint32_t elem,
    const struct json *j, struct pico_err *err)
{
	size_t n = 0, size = kv_type_size(elem);
	struct pico_str *strs = NULL;
	uint8_t *numbers = NULL;
	uint32_t i;
	int rc = 0;

	if (elem == PICO_KV_STR)
		strs = mem_new(j->n, sizeof *strs, "array", err);
	else
		numbers = mem_new(j->n, size, "array", err);
	if (strs == NULL && numbers == NULL)
		return -1;
	for (i = j->node[0].first; i != JSON_NONE && rc == 0;
	    i = j->node[i].next, n++) {
		const struct json_node *e = &j->node[i];
		bool fits = elem == PICO_KV_STR ? e->kind == JSON_STRING :
		    elem == PICO_KV_BOOL ? e->kind == JSON_TRUE ||
		    e->kind == JSON_FALSE : e->kind == JSON_NUMBER;

		if (!fits)
			rc = fail(err, "element %zu of the array is no %s", n,
			    pico_kv_type_name(elem));
		else if (strs != NULL)
			strs[n] = e->text;
		else
			rc = parse(elem, e->text, numbers + n * size, err);
	}
	if (rc == 0)
		rc = strs != NULL ? pico_writer_strs(w, key, n, strs, err) :
		    pico_writer_array(w, key, elem, n, numbers, err);
	free(strs);
	free(numbers);
	return rc;
}

static int
set_array(struct pico_writer *w, const char *key, uint32_t elem,
    const struct text *t, struct pico_err *err)
{
	struct json j;
	int rc;

	if (json_read(&j, t->p, t->n, err) < 0)
		return -1;
	rc = j.node[0].kind == JSON_ARRAY ? set_elements(w, key, elem, &j, err) :
	    fail(err, "it is no JSON array");
	json_free(&j);
	return rc;
}

int
pico_writer_set(struct pico_writer *w, const char *key, const char *spec,
    struct pico_err *err)
{
	size_t n = strcspn(spec, ":@"), len = n;
	bool array = n > 2 && memcmp(spec + n - 2, "[]", 2) == 0;
	struct pico_err why = {0};
	const char *name;
	uint32_t type;
	struct text t;
	int rc;

	len -= array ? 2 : 0;
	for (type = 0; type < PICO_KV_N; type++) {
		name = pico_kv_type_name(type);
		if (strlen(name) == len && memcmp(name, spec, len) == 0)
			break;
	}
	if (spec[n] == '\0' || type == PICO_KV_N || type == PICO_KV_ARR)
		return fail_usage(err, "key '%s': '%s' is not TYPE:VALUE or "
		    "TYPE@FILE, with a type like u32, f32, bool, str or str[]",
		    show(key, strlen(key)), show(spec, strlen(spec)));
	if (open_text(&t, spec + n + 1, spec[n], err) < 0)
		return -1;
	rc = array ? set_array(w, key, type, &t, &why) :
	    set_scalar(w, key, type, &t, &why);
	close_text(&t);
	if (rc < 0)
		return pico_fail(err, why.status, "key '%s': %s",
		    show(key, strlen(key)), why.msg);
	return 0;
}

/* ---- in place ---------------------------------------------------------- */

static int
write_at(int fd, const char *name, const uint8_t *p, uint64_t at, uint64_t n,
    struct pico_err *err)
{
	ssize_t k;

	while (n > 0) {
		k = pwrite(fd, p, (size_t)n, (off_t)at);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return fail_errno(err, "write error on %s", name);
		p += k;
		at += (uint64_t)k;
		n -= (uint64_t)k;
	}
	return 0;
}

/* What differs, from the first to the last byte. */
static int
patch(const char *path, const uint8_t *new, const uint8_t *old, uint64_t n,
    struct pico_err *err)
{
	uint64_t from = 0;
	char name[300];
	sigset_t held;
	int fd, rc;

	while (from < n && new[from] == old[from])
		from++;
	while (n > from && new[n - 1] == old[n - 1])
		n--;
	if (from == n)
		return 0;
	(void)snprintf(name, sizeof name, "'%s'", path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(err, "cannot write %s", name);
	signals_hold(&held);	/* all of it or nothing */
	rc = write_at(fd, name, new + from, from, n - from, err);
	signals_release(&held);
	while (rc == 0 && fsync(fd) < 0)
		if (errno != EINTR)
			rc = fail_errno(err, "write error on %s", name);
	if (close(fd) < 0 && errno != EINTR && rc == 0)
		rc = fail_errno(err, "write error on %s", name);
	return rc;
}

int
pico_writer_patch(struct pico_writer *w, const struct pico_gguf *g,
    struct pico_err *err)
{
	const struct pico_gguf_info info = pico_gguf_info(g, 0);
	const uint8_t *old = gguf_bytes(g);
	uint64_t n_old = gguf_keys_end(g), n, count = writer_n_keys(w);
	uint32_t version = 3;
	uint8_t *image;
	int rc = 0;

	if (info.version == 1 || pico_gguf_check(g, err) < 0 ||
	    writer_image(w, &image, &n, err) < 0)
		return info.version == 1 ? 0 : -1;
	if (n == n_old && writer_alignment(w) == info.alignment) {
		memcpy(image, old, 24);
		memcpy(image + 4, &version, 4);
		memcpy(image + 16, &count, 8);
		rc = patch(info.path, image, old, n, err) < 0 ? -1 : 1;
	}
	free(image);
	return rc;
}
