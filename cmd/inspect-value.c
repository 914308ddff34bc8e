/* SPDX-License-Identifier: MIT */
/* How values of the metadata are written, as text or as JSON. */
#include "inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Escaped; at most `most` bytes of it, and then how many there are. */
void
put_text(struct pico_str s, size_t most)
{
	size_t n = MIN(s.n, most), size;
	char *buf;

	while (n < s.n && n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
		n--;	/* no half characters */
	size = pico_escape(NULL, 0, s.p, n) + 1;
	buf = cmd_alloc(size, 1);
	(void)pico_escape(buf, size, s.p, n);
	(void)fputs(buf, stdout);
	free(buf);
	if (n < s.n)
		printf("... (%zu bytes)", s.n);
}

/* A JSON string, or {"hex":"..."} for what is no text. */
void
json_str(struct pico_str s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t i, len;

	for (i = 0; i < s.n; i += len) {
		len = pico_utf8_len(s.p + i, s.n - i);
		if (len == 0 || p[i] == 0)
			break;
	}
	if (i < s.n) {
		(void)fputs("{\"hex\":\"", stdout);
		for (i = 0; i < s.n; i++)
			printf("%02x", p[i]);
		(void)fputs("\"}", stdout);
		return;
	}
	(void)putchar('"');
	for (i = 0; i < s.n; i++) {
		if (p[i] == '"' || p[i] == '\\')
			printf("\\%c", p[i]);
		else if (p[i] < 0x20 || p[i] == 0x7f)
			printf("\\u%04x", p[i]);
		else
			(void)putchar(p[i]);
	}
	(void)putchar('"');
}

struct pico_str
str_of(const char *text)
{
	return (struct pico_str){ text, strlen(text) };
}

void
put_real(double v, int digits)
{
	if (v - v != 0)		/* NaN and infinities are no JSON numbers */
		printf(view.json ? "\"%s\"" : "%s", v != v ? "nan" :
		    v > 0 ? "inf" : "-inf");
	else
		printf("%.*g", digits, v);
}

/* A scalar that is no string, or element i of an array of such. */
void
put_number(const struct pico_kv *kv, uint64_t i)
{
	uint64_t u;

	switch (kv->type == PICO_KV_ARR ? kv->elem : kv->type) {
	case PICO_KV_F32:
		put_real(pico_kv_real_at(kv, i), 9);
		break;
	case PICO_KV_F64:
		put_real(pico_kv_real_at(kv, i), 17);
		break;
	case PICO_KV_BOOL:
		(void)fputs(pico_kv_int_at(kv, i) ? "true" : "false", stdout);
		break;
	case PICO_KV_U64:
		memcpy(&u, kv->data + 8 * i, sizeof u);
		printf("%" PRIu64, u);
		break;
	default:
		printf("%" PRId64, pico_kv_int_at(kv, i));
	}
}

/* A string inside an array. */
static void
put_element_text(struct pico_str s)
{
	if (view.json) {
		json_str(s);
		return;
	}
	(void)putchar('"');
	put_text(s, view.all ? SIZE_MAX : SHORT_TEXT);
	(void)putchar('"');
}

/* [a, b, [c]]: arrays in arrays without recursion. At most `most` elements;
   JSON states how many there are of the outermost one only, so it gets all of
   the inner ones. */
void
put_array(const struct pico_kv *top, uint64_t most)
{
	struct level {
		struct pico_kv kv;
		uint64_t i, n, pos;	/* done, to do, where in the data */
	} level[PICO_KV_DEPTH], *l = level;

	*l = (struct level){ .kv = *top, .n = MIN(top->n, most) };
	(void)putchar('[');
	for (;;) {
		if (l->i == l->n) {
			if (l->n < l->kv.n && !view.json)
				(void)fputs(", ...", stdout);
			(void)putchar(']');
			if (l == level)
				return;
			l--;
			continue;
		}
		if (l->i++ > 0)
			(void)fputs(", ", stdout);
		if (l->kv.elem == PICO_KV_ARR) {
			struct pico_kv sub = pico_kv_arr_next(&l->kv, &l->pos);

			*++l = (struct level){ .kv = sub,
			    .n = view.json ? sub.n : MIN(sub.n, most) };
			(void)putchar('[');
		} else if (l->kv.elem == PICO_KV_STR) {
			put_element_text(pico_kv_str_next(&l->kv, &l->pos));
		} else {
			put_number(&l->kv, l->i - 1);
		}
	}
}

struct pico_str
kv_str(const struct pico_kv *kv)
{
	return (struct pico_str){ (const char *)kv->data, (size_t)kv->n };
}

/* "u32", "str[291]" */
void
put_type(const struct pico_kv *kv)
{
	if (kv->type == PICO_KV_ARR)
		printf("%s[%" PRIu64 "]", pico_kv_type_name(kv->elem), kv->n);
	else
		(void)fputs(pico_kv_type_name(kv->type), stdout);
}

void
put_value(const struct pico_kv *kv, bool whole)
{
	if (kv->type == PICO_KV_ARR)
		put_array(kv, whole ? UINT64_MAX : SHORT_ARRAY);
	else if (kv->type != PICO_KV_STR)
		put_number(kv, 0);
	else if (view.json)
		json_str(kv_str(kv));
	else
		put_text(kv_str(kv), whole ? SIZE_MAX : SHORT_TEXT);
}

uint64_t
elements(const struct pico_tensor *t)
{
	return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

/* "32x291" */
void
put_shape(const struct pico_tensor *t)
{
	uint32_t d;

	for (d = 0; d < t->n_dims; d++)
		printf("%s%" PRIu64, d > 0 ? "x" : "", t->dims[d]);
}

/* The other files of a set repeat the split keys only. */
bool
is_shown(const struct pico_kv *kv)
{
	return kv->shard == 0;
}
