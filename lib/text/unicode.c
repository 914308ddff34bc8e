/* SPDX-License-Identifier: MIT */
/* Look-ups in the tables of characters. */
#include "unicode.h"

/* The first of n rows whose `to` (by_to) or `from` is at least cp. */
static size_t
lower_bound(const struct unicode_pair *row, size_t n, uint32_t cp, bool by_to)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if ((by_to ? row[mid].to : row[mid].from) < cp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool
char_within(uint32_t cp, const struct unicode_pair *range, size_t n)
{
	size_t i = lower_bound(range, n, cp, true);

	return i < n && range[i].from <= cp;
}

uint32_t
char_lower(uint32_t cp)
{
	size_t i;

	if (cp < 0x80)
		return cp >= 'A' && cp <= 'Z' ? cp | 0x20 : cp;
	i = lower_bound(unicode_lower, unicode_lower_n, cp, false);
	return i < unicode_lower_n && unicode_lower[i].from == cp ?
	    unicode_lower[i].to : cp;
}

/* Hangul syllables are decomposed by arithmetic (Unicode, section 3.12). */
static size_t
hangul(uint32_t syllable, uint32_t *out)
{
	out[0] = 0x1100 + syllable / (21 * 28);
	out[1] = 0x1161 + syllable / 28 % 21;
	out[2] = 0x11a7 + syllable % 28;
	return syllable % 28 == 0 ? 2 : 3;
}

size_t
char_base(uint32_t cp, uint32_t out[CHAR_BASE_MAX])
{
	size_t i, n = 0;

	if (cp >= 0xac00 && cp < 0xac00 + 11172)
		return hangul(cp - 0xac00, out);
	i = cp < 0xc0 ? unicode_base_n :
	    lower_bound(unicode_base, unicode_base_n, cp, false);
	for (; n < CHAR_BASE_MAX && i < unicode_base_n &&
	    unicode_base[i].from == cp; i++)
		out[n++] = unicode_base[i].to;
	if (n == 0)
		out[n++] = cp;
	return n;
}
