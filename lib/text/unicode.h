/* SPDX-License-Identifier: MIT */
/* Classes of characters, and UTF-8 as the tokenizers see it. */
#ifndef PICO_UNICODE_H
#define PICO_UNICODE_H

#include "../base/base.h"

/* What the tokenizers ask of a character: the general category, as far as they
   tell categories apart, or the property White_Space (which no letter, mark,
   number, punctuation or symbol has). Order: unicode_data.py. */
enum char_class {
	CLASS_OTHER, CLASS_CONTROL, CLASS_SPACE, CLASS_LU, CLASS_LL, CLASS_LT,
	CLASS_LM, CLASS_LO, CLASS_MN, CLASS_M, CLASS_ND, CLASS_NL, CLASS_N,
	CLASS_PC, CLASS_P, CLASS_S
};

/* Sets of classes. */
enum {
	U_OTHER = 1 << CLASS_OTHER,	/* unassigned */
	U_CONTROL = 1 << CLASS_CONTROL,	/* Cc, Cf, Co, Cs */
	U_SPACE = 1 << CLASS_SPACE,
	U_LU = 1 << CLASS_LU,
	U_LL = 1 << CLASS_LL,
	U_LT = 1 << CLASS_LT,
	U_LM = 1 << CLASS_LM,
	U_LO = 1 << CLASS_LO,
	U_MN = 1 << CLASS_MN,
	U_M = U_MN | 1 << CLASS_M,
	U_ND = 1 << CLASS_ND,
	U_NL = 1 << CLASS_NL,
	U_N = U_ND | U_NL | 1 << CLASS_N,
	U_PC = 1 << CLASS_PC,
	U_P = U_PC | 1 << CLASS_P,
	U_S = 1 << CLASS_S,
	U_L = U_LU | U_LL | U_LT | U_LM | U_LO,
	U_ALL = U_OTHER | U_CONTROL | U_SPACE | U_L | U_M | U_N | U_P | U_S
};

/* Three-stage table: groups of 32 blocks of 32 code points, two classes in a
   byte. */
extern const uint8_t unicode_group[0x110000 / 1024], unicode_classes[];
extern const uint16_t unicode_block[];

/* The set that holds just the class of a code point (up to 0x10ffff). */
static inline uint16_t
char_set(uint32_t cp)
{
	uint32_t block = unicode_block[unicode_group[cp >> 10] * 32u +
	    (cp >> 5 & 31)];

	return (uint16_t)(1u << (unicode_classes[block * 16u + (cp >> 1 & 15)]
	    >> (cp & 1) * 4 & 15));
}

/* Sorted rows: ranges from..to of a set; characters `to` that stand in place of
   `from`; n characters from..from + (n - 1) * step, each of which stands for
   itself + shift. */
struct unicode_pair {
	uint32_t from, to;
};
struct unicode_short {
	uint16_t from, to;
};
struct unicode_run {
	uint32_t from;
	int32_t shift;
	uint8_t n, step;
};
extern const struct unicode_pair unicode_far[], unicode_han[];
extern const struct unicode_short unicode_base[];
extern const struct unicode_run unicode_lower[];
extern const size_t unicode_lower_n, unicode_base_n, unicode_far_n,
    unicode_han_n;

/* Whether one of n ranges holds a code point. */
bool char_within(uint32_t cp, const struct unicode_pair *range, size_t n);
/* Simple lower case. */
uint32_t char_lower(uint32_t cp);
/* The canonical decomposition (NFD) without its marks of class Mn: writes at
   most CHAR_BASE_MAX code points and returns how many. */
#define CHAR_BASE_MAX 3
size_t char_base(uint32_t cp, uint32_t out[CHAR_BASE_MAX]);

#define REPLACEMENT 0xfffdu

/*
 * Decodes the character at p, n >= 1 bytes; returns its length in bytes. A byte
 * that begins no complete character of at most 0x10ffff is REPLACEMENT, length
 * 1. Over-long forms and surrogates are taken as they come.
 */
static inline size_t
utf8_decode(const char *text, size_t n, uint32_t *cp)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t len, i;
	uint32_t c = p[0];

	if (c < 0x80) {
		*cp = c;
		return 1;
	}
	*cp = REPLACEMENT;
	len = c < 0xc0 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf8 ? 4 : 0;
	if (len == 0 || len > n)
		return 1;
	c &= 0x7fu >> len;
	for (i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 1;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c > 0x10ffff)
		return 1;
	*cp = c;
	return len;
}

/* Bytes of the shortest form. */
static inline size_t
utf8_size(uint32_t cp)
{
	return cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
}

/* Writes the shortest form, at most 4 bytes; returns its length. */
static inline size_t
utf8_encode(uint32_t cp, char *out)
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

#endif
