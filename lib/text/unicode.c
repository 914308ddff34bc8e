/* SPDX-License-Identifier: MIT */
/* Look-ups in the tables of characters. */
#include "unicode.h"

bool
char_within(uint32_t cp, const struct unicode_pair *range, size_t n)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (range[mid].to < cp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && range[lo].from <= cp;
}

uint32_t
char_lower(uint32_t cp)
{
	const struct unicode_run *r = unicode_lower;
	size_t lo = 0, hi = unicode_lower_n;

	if (cp < 0x80)
		return cp >= 'A' && cp <= 'Z' ? cp | 0x20 : cp;
	/* the last run that does not begin behind it */
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (r[mid].from <= cp)
			lo = mid;
		else
			hi = mid;
	}
	r += lo;
	cp -= r->from;
	return r->from + cp + (cp % r->step == 0 && cp / r->step < r->n ?
	    (uint32_t)r->shift : 0);
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

/* The first row of unicode_base, or of unicode_far, whose `from` is at least
   cp. */
static size_t
lower_bound(uint32_t cp, bool far)
{
	size_t lo = 0, hi = far ? unicode_far_n : unicode_base_n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if ((far ? unicode_far[mid].from : unicode_base[mid].from) < cp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

size_t
char_base(uint32_t cp, uint32_t out[CHAR_BASE_MAX])
{
	size_t i, n = 0;

	if (cp >= 0xac00 && cp < 0xac00 + 11172)
		return hangul(cp - 0xac00, out);
	for (i = lower_bound(cp, false); n < CHAR_BASE_MAX &&
	    i < unicode_base_n && unicode_base[i].from == cp; i++)
		out[n++] = unicode_base[i].to;
	for (i = lower_bound(cp, true); n < CHAR_BASE_MAX &&
	    i < unicode_far_n && unicode_far[i].from == cp; i++)
		out[n++] = unicode_far[i].to;
	if (n == 0)
		out[n++] = cp;
	return n;
}
