/* SPDX-License-Identifier: MIT */
/*
 * The map "tokenizer.ggml.precompiled_charsmap": 32 bits that tell the bytes of
 * a double array (Aoe 1989, in the layout of Darts-clone), the array, and the
 * replacements. A unit of the array holds the offset to its children, the byte
 * that leads to it and whether a text ends there; then the child for byte 0 is
 * a leaf, which holds a position among the replacements.
 */
#include <inttypes.h>
#include <string.h>

#include "text.h"

/* Bytes of a replacement; the longest of NFKC has 33. Else a small file could
   make much of each character. */
#define REPLACEMENT_MAX 128

/* Whether all replacements, which end with NUL, are short enough. */
static bool
are_short(const struct charsmap *m)
{
	size_t i, len = 0;

	for (i = 0; i < m->n_text && len <= REPLACEMENT_MAX; i++)
		len = m->text[i] == '\0' ? 0 : len + 1;
	return len <= REPLACEMENT_MAX;
}

int
charsmap_init(struct charsmap *m, const struct pico_vocab *v,
    struct pico_err *err)
{
	const struct pico_kv *kv = v->charsmap;
	uint32_t bytes;

	*m = (struct charsmap){0};
	if (kv == NULL || kv->n == 0)
		return 0;
	bytes = kv->n >= 4 ? get_u32(kv->data) : 0;
	if (kv->n < 4 || bytes > kv->n - 4 || bytes < 4 || bytes % 4 != 0)
		return fail(err, "key 'tokenizer.ggml.precompiled_charsmap' "
		    "has %" PRIu64 " bytes, its array should have %" PRIu32,
		    kv->n, bytes);
	m->unit = kv->data + 4;
	m->n = bytes / 4;
	m->text = (const char *)m->unit + bytes;
	m->n_text = (size_t)kv->n - 4 - bytes;
	if (m->n_text == 0 || m->text[m->n_text - 1] != '\0')
		return fail(err, "key 'tokenizer.ggml.precompiled_charsmap': "
		    "its last text has no end");
	if (!are_short(m))
		return fail(err, "key 'tokenizer.ggml.precompiled_charsmap': a "
		    "text has more than %d bytes", REPLACEMENT_MAX);
	return 0;
}

static uint32_t
unit(const struct charsmap *m, size_t i)
{
	return i < m->n ? get_u32(m->unit + i * 4) : 0;
}

static size_t
offset(uint32_t u)
{
	return u >> 10 << ((u & 0x200) >> 6);
}

/* The text at a position among the replacements; false if there is none. */
static bool
replacement(const struct charsmap *m, uint32_t leaf, struct pico_str *to)
{
	uint32_t at = leaf & 0x7fffffff;
	const char *end;

	if (at >= m->n_text)
		return false;
	end = memchr(m->text + at, '\0', m->n_text - at);
	*to = (struct pico_str){ m->text + at, (size_t)(end - m->text) - at };
	return true;
}

size_t
charsmap_find(const struct charsmap *m, const char *p, size_t n,
    struct pico_str *to, bool *open)
{
	size_t node = offset(unit(m, 0)), i, len = 0;

	*open = false;
	if (m->unit == NULL)
		return 0;
	for (i = 0; i < n && p[i] != '\0'; i++) {
		unsigned char c = (unsigned char)p[i];
		uint32_t u;

		node ^= c;
		u = unit(m, node);
		if ((u & 0x800000ff) != c)
			return len;
		node ^= offset(u);
		if ((u & 0x100) != 0 && replacement(m, unit(m, node), to))
			len = i + 1;
	}
	*open = i == n;
	return len;
}
