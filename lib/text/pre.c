/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers: what byte-level vocabularies cut a text into before merging.
 * The models define them as regular expressions, each applied to the pieces
 * that the one before left. Here each expression is a function that finds the
 * end of its match at a position; `\s` is White_Space, `\p{..}` the general
 * category.
 */
#include <string.h>

#include "text.h"

/* The piece that is cut up: characters start..end. */
struct piece {
	const uint32_t *cp;
	const uint16_t *set;
	size_t start, end;
	bool touched;		/* a scan asked what is behind the end */
	size_t run_end;		/* of the run that was looked at last */
};

/* The end of the match at i, or i if there is none. Looks at O(match) + O(1)
   characters, so that a pass is linear, and at none before i. */
typedef size_t scan_fn(struct piece *p, size_t i);

/* ---- building blocks ---- */

/* Whether there is a character at i. */
static inline bool
there(struct piece *p, size_t i)
{
	if (i < p->end)
		return true;
	p->touched = true;
	return false;
}

static inline bool
in(struct piece *p, size_t i, unsigned set)
{
	return there(p, i) && (p->set[i] & set) != 0;
}

static inline bool
is(struct piece *p, size_t i, uint32_t cp)
{
	return there(p, i) && p->cp[i] == cp;
}

static inline bool
within(struct piece *p, size_t i, uint32_t lo, uint32_t hi)
{
	return there(p, i) && p->cp[i] >= lo && p->cp[i] <= hi;
}

static inline bool
newline(struct piece *p, size_t i)
{
	return is(p, i, '\n') || is(p, i, '\r');
}

static inline size_t
run(struct piece *p, size_t i, unsigned set)
{
	while (in(p, i, set))
		i++;
	return i;
}

static inline size_t
run_of(struct piece *p, size_t i, bool (*member)(struct piece *,
    size_t))
{
	while (member(p, i))
		i++;
	return i;
}

/* 's|'t|'re|'ve|'m|'ll|'d; `any_case`: letters of either case. */
static size_t
contraction(struct piece *p, size_t i, bool any_case)
{
	uint32_t fold = any_case ? 0x20 : 0, a, b;

	if (!is(p, i, '\'') || !there(p, i + 1))
		return i;
	a = p->cp[i + 1] | fold;
	if (p->cp[i + 1] > 'z')
		return i;
	if (a == 's' || a == 't' || a == 'm' || a == 'd')
		return i + 2;
	if (!there(p, i + 2) || p->cp[i + 2] > 'z')
		return i;
	b = p->cp[i + 2] | fold;
	if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') ||
	    (a == 'l' && b == 'l'))
		return i + 3;
	return i;
}

/* \s+(?!\S)|\s+, and before them, if `lines`, \s*[\r\n]+. */
static size_t
white(struct piece *p, size_t i, bool lines)
{
	size_t e, after_line = i;

	for (e = i; in(p, e, U_SPACE); e++)
		if (newline(p, e))
			after_line = e + 1;
	if (lines && after_line > i)
		return after_line;
	return e == p->end || e - i <= 1 ? e : e - 1;
}

/* ---- gpt2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|
   \s+(?!\S) ---- */

static size_t
scan_gpt2(struct piece *p, size_t i)
{
	size_t e = contraction(p, i, false), j = i + is(p, i, ' ');

	if (e > i)
		return e;
	if (in(p, j, U_L))
		return run(p, j, U_L);
	if (in(p, j, U_N))
		return run(p, j, U_N);
	if (in(p, j, U_ALL & ~(U_SPACE | U_L | U_N)))
		return run(p, j, U_ALL & ~(U_SPACE | U_L | U_N));
	return white(p, i, false);
}

/* ---- the llama3 family: CONTRACTION|[^\r\n\p{L}\p{N}]?WORD+|\p{N}{1,digits}|
   ?[^\s WORD \p{N}]+TAIL|\s*[\r\n]+|\s+(?!\S)|\s+ ---- */

struct family {
	unsigned word;		/* classes of WORD; \p{L} or more */
	unsigned digits;
	enum { TAIL_NONE, TAIL_LINES, TAIL_LINES_SLASH, TAIL_ONE } tail;
	bool steps;		/* white space in powers of two */
};

/* \s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} */
static size_t
white_steps(struct piece *p, size_t i)
{
	size_t e, after_line = i, step = 512, left;

	if (i >= p->run_end) {
		for (e = i; in(p, e, U_SPACE); e++)
			if (newline(p, e))
				after_line = e + 1;
		p->run_end = e;
		if (after_line > i)
			return after_line;
	}
	left = p->run_end - i;
	/* The last character of a run goes with what follows, if it can. */
	if (there(p, p->run_end) && left > 1)
		left--;
	while (step > left)
		step /= 2;
	return i + step;
}

static size_t
number(struct piece *p, size_t i, unsigned digits)
{
	while (digits > 0 && in(p, i, U_N)) {
		i++;
		digits--;
	}
	return i;
}

/* The alternatives after numbers. */
static size_t
signs_or_white(struct piece *p, size_t i, const struct family *f)
{
	size_t e = i + is(p, i, ' ');
	unsigned signs = U_ALL & ~(U_SPACE | U_L | U_N | f->word);

	if (!in(p, e, signs))
		return f->steps ? white_steps(p, i) : white(p, i, true);
	e = run(p, e, signs);
	switch (f->tail) {
	case TAIL_NONE:		/* nothing */
		break;
	case TAIL_LINES:	/* [\r\n]* */
		while (newline(p, e))
			e++;
		break;
	case TAIL_LINES_SLASH:	/* [\r\n/]* */
		while (newline(p, e) || is(p, e, '/'))
			e++;
		break;
	case TAIL_ONE:		/* [\r\n/]? */
		if (newline(p, e) || is(p, e, '/'))
			e++;
		break;
	}
	return e;
}

/* [^\r\n\p{L}\p{N}] */
static bool
may_lead(struct piece *p, size_t i)
{
	return in(p, i, U_ALL & ~(U_L | U_N)) && !newline(p, i);
}

static size_t
scan_family(struct piece *p, size_t i, const struct family *f)
{
	size_t e = contraction(p, i, true);

	if (e > i)
		return e;
	if (in(p, i, f->word))
		return run(p, i, f->word);
	if (may_lead(p, i) && in(p, i + 1, f->word))
		return run(p, i + 1, f->word);
	if (in(p, i, U_N))
		return number(p, i, f->digits);
	return signs_or_white(p, i, f);
}

static size_t
scan_llama3(struct piece *p, size_t i)
{
	static const struct family f = { U_L, 3, TAIL_LINES, false };

	return scan_family(p, i, &f);
}

static size_t
scan_qwen2(struct piece *p, size_t i)
{
	static const struct family f = { U_L, 1, TAIL_LINES, false };

	return scan_family(p, i, &f);
}

static size_t
scan_qwen35(struct piece *p, size_t i)
{
	static const struct family f = { U_L | U_M, 1, TAIL_LINES, false };

	return scan_family(p, i, &f);
}

static size_t
scan_seed(struct piece *p, size_t i)
{
	static const struct family f = { U_L, 1, TAIL_NONE, false };

	return scan_family(p, i, &f);
}

static size_t
scan_jais2(struct piece *p, size_t i)
{
	static const struct family f = { U_L, 3, TAIL_LINES, true };

	return scan_family(p, i, &f);
}

/* Words are joined by single spaces: (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ */
static size_t
scan_exaonemoe(struct piece *p, size_t i)
{
	static const struct family f = { U_L, 1, TAIL_ONE, false };
	size_t e = contraction(p, i, true);

	if (e > i)
		return e;
	e = i;
	if (may_lead(p, i) && in(p, i + 1, U_L))
		e++;
	if (!in(p, e, U_L))
		return scan_family(p, i, &f);
	while (in(p, e, U_L)) {
		e = run(p, e + 1, U_M);
		if (is(p, e, ' ') && in(p, e + 1, U_L))
			e++;
	}
	return e;
}

/* ---- o200k and tekken: words end where capitals begin ---- */

enum {
	U_UPPER = U_LU | U_LT | U_LM | U_LO | U_M,
	U_LOWER = U_LL | U_LM | U_LO | U_M
};

struct mixed {
	struct family f;	/* for what is no word */
	bool suffix;		/* words take a contraction */
	bool no_han;		/* letters of the script Han make no words */
};

static bool
han(struct piece *p, size_t i)
{
	return there(p, i) && p->cp[i] >= 0x2e80 &&
	    char_within(p->cp[i], unicode_han, unicode_han_n);
}

static bool
in_word(struct piece *p, size_t i, unsigned set, bool no_han)
{
	return in(p, i, set) && !(no_han && han(p, i));
}

static size_t
run_word(struct piece *p, size_t i, unsigned set, bool no_han)
{
	while (in_word(p, i, set, no_han))
		i++;
	return i;
}

/* UPPER*LOWER+ */
static size_t
mixed_word(struct piece *p, size_t i, bool no_han)
{
	size_t e = run_word(p, i, U_UPPER, no_han);

	if (in_word(p, e, U_LOWER, no_han))
		return run_word(p, e, U_LOWER, no_han);
	/* Give back capitals, to end on a character that is in both sets. */
	while (e > i && !in(p, e - 1, U_LOWER))
		e--;
	return e;
}

static size_t
scan_mixed(struct piece *p, size_t i, const struct mixed *m)
{
	bool lead = may_lead(p, i);
	size_t e = i;

	if (lead) {
		e = mixed_word(p, i + 1, m->no_han);
		if (e == i + 1)
			e = i;
	}
	if (e == i)
		e = mixed_word(p, i, m->no_han);
	/* UPPER+LOWER*: where no lower one follows. */
	if (e == i && lead && in_word(p, i + 1, U_UPPER, m->no_han))
		e = run_word(p, i + 1, U_UPPER, m->no_han);
	if (e == i)
		e = run_word(p, i, U_UPPER, m->no_han);
	if (e > i)
		return m->suffix ? contraction(p, e, true) : e;
	if (in(p, i, U_N))
		return number(p, i, m->f.digits);
	return signs_or_white(p, i, &m->f);
}

static size_t
scan_o200k(struct piece *p, size_t i)
{
	static const struct mixed m = {
		{ U_L, 3, TAIL_LINES_SLASH, false }, true, false
	};

	return scan_mixed(p, i, &m);
}

static size_t
scan_tekken(struct piece *p, size_t i)
{
	static const struct mixed m = {
		{ U_L, 1, TAIL_LINES_SLASH, false }, false, false
	};

	return scan_mixed(p, i, &m);
}

/* The second one of youtu: o200k with single digits. */
static size_t
scan_o200k_digit1(struct piece *p, size_t i)
{
	static const struct mixed m = {
		{ U_L, 1, TAIL_LINES_SLASH, false }, true, false
	};

	return scan_mixed(p, i, &m);
}

/* \p{Han}+| and o200k without Han in its words */
static size_t
scan_kimi(struct piece *p, size_t i)
{
	static const struct mixed m = {
		{ U_L, 3, TAIL_LINES, false }, true, true
	};
	size_t e = run_of(p, i, han);

	return e > i ? e : scan_mixed(p, i, &m);
}

/* ---- digits in groups of three, counted from the right ---- */

/* The end of the run at i, which is looked for once. */
static size_t
run_end(struct piece *p, size_t i, unsigned set)
{
	if (i >= p->run_end)
		p->run_end = run(p, i, set);
	return p->run_end;
}

/* Of n > 0 digits. */
static size_t
first_group(size_t n)
{
	return n % 3 != 0 ? n % 3 : 3;
}

/* Runs of \p{N}. */
static size_t
scan_number3_right(struct piece *p, size_t i)
{
	return in(p, i, U_N) ? i + first_group(run_end(p, i, U_N) - i) : i;
}

/* \w, as \b sees it: properties Alphabetic and Join_Control, M, Nd, Pc */
static bool
word_char(struct piece *p, size_t i)
{
	static const struct unicode_pair other[] = {
		{ 0x200c, 0x200d }, { 0x24b6, 0x24e9 }, { 0x1f130, 0x1f149 },
		{ 0x1f150, 0x1f169 }, { 0x1f170, 0x1f189 }
	};

	return in(p, i, U_L | U_M | U_ND | U_NL | U_PC) ||
	    (there(p, i) && char_within(p->cp[i], other, COUNT(other)));
}

/* \d{1,3}(?=(?:\d{3})*\b) */
static size_t
scan_digit3_right(struct piece *p, size_t i)
{
	size_t e;

	if (!in(p, i, U_ND))
		return i;
	e = run_end(p, i, U_ND);
	return word_char(p, e) ? i : i + first_group(e - i);
}

static bool
thousands(struct piece *p, size_t i)
{
	return in(p, i, U_ND) && (run_end(p, i, U_ND) - i) % 3 == 0;
}

/* (?=(\d{3})+(?!\d)), which has no width: here a match goes on to the next. */
static size_t
scan_thousands(struct piece *p, size_t i)
{
	if (!thousands(p, i))
		return i;
	do
		i++;
	while (there(p, i) && !thousands(p, i));
	return i;
}

/* ---- single expressions ---- */

/* \p{N} */
static size_t
scan_number(struct piece *p, size_t i)
{
	return i + in(p, i, U_N);
}

/* \p{N}+ */
static size_t
scan_numbers(struct piece *p, size_t i)
{
	return run(p, i, U_N);
}

/* \p{N}{1,3} */
static size_t
scan_number3(struct piece *p, size_t i)
{
	return number(p, i, 3);
}

/* [0-9][0-9][0-9] */
static size_t
scan_digit3(struct piece *p, size_t i)
{
	return within(p, i, '0', '9') && within(p, i + 1, '0', '9') &&
	    within(p, i + 2, '0', '9') ? i + 3 : i;
}

/* [\r\n] */
static size_t
scan_newline(struct piece *p, size_t i)
{
	return i + newline(p, i);
}

/* \s?\p{L}+ */
static size_t
scan_letters(struct piece *p, size_t i)
{
	size_t j = i + in(p, i, U_SPACE);

	return in(p, j, U_L) ? run(p, j, U_L) : i;
}

/* \s?\p{P}+ */
static size_t
scan_punctuation(struct piece *p, size_t i)
{
	size_t j = i + in(p, i, U_SPACE);

	return in(p, j, U_P) ? run(p, j, U_P) : i;
}

/* \s+$ */
static size_t
scan_last_white(struct piece *p, size_t i)
{
	size_t e;

	if (i > p->start && in(p, i - 1, U_SPACE))
		return i;	/* its run was looked at, and did not end here */
	e = run(p, i, U_SPACE);
	return e == p->end ? e : i;
}

/* [\p{P}$+<=>^~|`]+ (falcon) and the same without the last sign (default) */
static bool
falcon_sign(struct piece *p, size_t i)
{
	return in(p, i, U_P) || (in(p, i, U_S) && p->cp[i] < 0x80);
}

static bool
default_sign(struct piece *p, size_t i)
{
	return falcon_sign(p, i) && p->cp[i] != '`';
}

static size_t
scan_falcon_signs(struct piece *p, size_t i)
{
	return run_of(p, i, falcon_sign);
}

static size_t
scan_default_signs(struct piece *p, size_t i)
{
	return run_of(p, i, default_sign);
}

/* ---- DeepSeek ---- */

/* U+4E00-9FA5, hiragana, katakana */
static bool
cjk_or_kana(struct piece *p, size_t i)
{
	return within(p, i, 0x4e00, 0x9fa5) || within(p, i, 0x3040, 0x30ff);
}

static size_t
scan_cjk_kana(struct piece *p, size_t i)
{
	return run_of(p, i, cjk_or_kana);
}

/* U+4E00-9FA5, U+0800-4E00, U+AC00-D7FF */
static bool
cjk_wide(struct piece *p, size_t i)
{
	return within(p, i, 0x800, 0x9fa5) || within(p, i, 0xac00, 0xd7ff);
}

static size_t
scan_cjk_wide(struct piece *p, size_t i)
{
	return run_of(p, i, cjk_wide);
}

static bool
ascii_letter(struct piece *p, size_t i)
{
	return in(p, i, U_L) && p->cp[i] < 0x80;
}

/* [ASCII sign][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
   ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t
scan_ds3(struct piece *p, size_t i)
{
	size_t e;

	if (in(p, i, U_P | U_S) && p->cp[i] < 0x80 && ascii_letter(p, i + 1))
		return run_of(p, i + 1, ascii_letter);
	if (in(p, i, U_L | U_M))
		return run(p, i, U_L | U_M);
	if (!in(p, i, U_L | U_P | U_S) && !newline(p, i) &&
	    in(p, i + 1, U_L | U_M))
		return run(p, i + 1, U_L | U_M);
	e = i + is(p, i, ' ');
	if (in(p, e, U_P | U_S)) {
		e = run(p, e, U_P | U_S);
		while (newline(p, e))
			e++;
		return e;
	}
	return white(p, i, true);
}

/* Scripts that afmoe cuts off: CJK, kana, Hangul, Thai, Lao, Khmer, Burmese. */
static bool
afmoe_script(struct piece *p, size_t i)
{
	static const struct unicode_pair range[] = {
		{ 0xe40, 0xe7f }, { 0xe80, 0xeff }, { 0x1000, 0x109f },
		{ 0x1100, 0x11ff }, { 0x1780, 0x17ff }, { 0x2f00, 0x2fdf },
		{ 0x3040, 0x30ff }, { 0x3400, 0x4dbf }, { 0x4e00, 0x9fff },
		{ 0xa9e0, 0xa9ff }, { 0xaa60, 0xaa7f }, { 0xac00, 0xd7af },
		{ 0xf900, 0xfaff }, { 0xff65, 0xff9f }
	};

	return there(p, i) && char_within(p->cp[i], range, COUNT(range));
}

static size_t
scan_afmoe_script(struct piece *p, size_t i)
{
	return run_of(p, i, afmoe_script);
}

/* Letters of scripts with case, as the definition lists them. */
static bool
dsllm_letter(struct piece *p, size_t i)
{
	static const struct unicode_pair range[] = {
		{ 0x41, 0x5a }, { 0x61, 0x7a }, { 0xb5, 0xb5 },
		{ 0xc0, 0xd6 }, { 0xd8, 0xf6 }, { 0xf8, 0x1ba },
		{ 0x1bc, 0x1bf }, { 0x1c4, 0x293 }, { 0x295, 0x2af },
		{ 0x370, 0x373 }, { 0x376, 0x377 }, { 0x37b, 0x37d },
		{ 0x37f, 0x37f }, { 0x386, 0x386 }, { 0x388, 0x38a },
		{ 0x38c, 0x38c }, { 0x38e, 0x3a1 }, { 0x3a3, 0x3f5 },
		{ 0x3f7, 0x481 }, { 0x48a, 0x52f }, { 0x531, 0x556 },
		{ 0x10a0, 0x10c5 }, { 0x13a0, 0x13f5 }, { 0x13f8, 0x13fd },
		{ 0x1c90, 0x1cba }, { 0x1cbd, 0x1cbf }, { 0x1d00, 0x1d2b },
		{ 0x1d6b, 0x1d77 }, { 0x1d79, 0x1d9a }, { 0x1e00, 0x1f15 },
		{ 0x1f18, 0x1f1d }, { 0x1f20, 0x1f45 }, { 0x1f48, 0x1f4d },
		{ 0x1f50, 0x1f57 }, { 0x1f59, 0x1f59 }, { 0x1f5b, 0x1f5b },
		{ 0x1f5d, 0x1f5d }, { 0x1f5f, 0x1f7d }, { 0x1f80, 0x1fb4 },
		{ 0x1fb6, 0x1fbc }, { 0x1fbe, 0x1fbe }, { 0x1fc2, 0x1fc4 },
		{ 0x1fc6, 0x1fcc }, { 0x1fd0, 0x1fd3 }, { 0x1fd6, 0x1fdb },
		{ 0x1fe0, 0x1fec }, { 0x1ff2, 0x1ff4 }, { 0x1ff6, 0x1ffc },
		{ 0x2102, 0x2102 }, { 0x2107, 0x2107 }, { 0x210a, 0x2113 },
		{ 0x2115, 0x2115 }, { 0x2119, 0x211d }, { 0x2124, 0x2124 },
		{ 0x2126, 0x2126 }, { 0x2128, 0x2128 }, { 0x212a, 0x212d },
		{ 0x212f, 0x2134 }, { 0x2139, 0x2139 }, { 0x213c, 0x213f },
		{ 0x2145, 0x2149 }, { 0x214e, 0x214e }, { 0x2183, 0x2184 },
		{ 0x2c00, 0x2c7b }, { 0x2c7e, 0x2ce4 }, { 0x2ceb, 0x2cee },
		{ 0x2cf2, 0x2cf3 }, { 0xa640, 0xa66d }, { 0xa680, 0xa69b },
		{ 0xa722, 0xa76f }, { 0xa771, 0xa787 }, { 0xa78b, 0xa78e },
		{ 0xab70, 0xabbf }, { 0xfb00, 0xfb06 }, { 0xfb13, 0xfb17 },
		{ 0xff21, 0xff3a }, { 0xff41, 0xff5a }, { 0x10400, 0x1044f },
		{ 0x104b0, 0x104d3 }, { 0x104d8, 0x104fb },
		{ 0x10c80, 0x10cb2 }, { 0x10cc0, 0x10cf2 },
		{ 0x118a0, 0x118df }, { 0x1e900, 0x1e943 }
	};

	return there(p, i) && char_within(p->cp[i], range, COUNT(range));
}

static size_t
scan_dsllm_letters(struct piece *p, size_t i)
{
	size_t j = i + in(p, i, U_SPACE);

	return dsllm_letter(p, j) ? run_of(p, j, dsllm_letter) : i;
}

static bool
dsllm_sign(struct piece *p, size_t i)
{
	return within(p, i, '!', '/') || within(p, i, ':', '~') ||
	    within(p, i, 0xff01, 0xff0f) || within(p, i, 0xff1a, 0xff5e) ||
	    within(p, i, 0x2018, 0x201f) || within(p, i, 0x3000, 0x3002);
}

static size_t
scan_dsllm_signs(struct piece *p, size_t i)
{
	size_t j = i + in(p, i, U_SPACE);

	/* U+3000 is both white space and a sign. */
	if (dsllm_sign(p, j))
		return run_of(p, j, dsllm_sign);
	return run_of(p, i, dsllm_sign);
}

/* ---- youtu: Hangul, full-width signs, Bopomofo, or CJK and kana ---- */

static bool
hangul(struct piece *p, size_t i)
{
	return within(p, i, 0xac00, 0xd7a3) || within(p, i, 0x3131, 0x318e);
}

static bool
wide_sign(struct piece *p, size_t i)
{
	if (!there(p, i))
		return false;
	switch (p->cp[i]) {
	case 0x2014: case 0x2018: case 0x2019: case 0x201c: case 0x201d:
	case 0x2026: case 0xff01: case 0xff0c: case 0xff1a: case 0xff1b:
		return true;
	default:
		return within(p, i, 0x3001, 0x303f) ||
		    within(p, i, 0xfe30, 0xfe4f);
	}
}

static bool
bopomofo(struct piece *p, size_t i)
{
	return within(p, i, 0x3105, 0x312f);
}

static size_t
scan_youtu(struct piece *p, size_t i)
{
	size_t e = run_of(p, i, hangul);

	if (e == i)
		e = run_of(p, i, wide_sign);
	if (e == i)
		e = run_of(p, i, bopomofo);
	return e > i ? e : scan_cjk_kana(p, i);
}

/* ---- bloom: ?[^(\s|.,!?...)]+, a class of what is left out ---- */

static bool
bloom_char(struct piece *p, size_t i)
{
	if (!in(p, i, U_ALL & ~U_SPACE))
		return false;
	switch (p->cp[i]) {
	case '(': case ')': case '|': case '.': case ',': case '!': case '?':
	case 0x2026: case 0x3002: case 0xff0c: case 0x3001: case 0x0964:
	case 0x06d4: case 0x060c:
		return false;
	default:
		return true;
	}
}

static size_t
scan_bloom(struct piece *p, size_t i)
{
	size_t j = i + is(p, i, ' ');

	return bloom_char(p, j) ? run_of(p, j, bloom_char) : i;
}

/* ---- chameleon ---- */

/* The end of a literal at i, or i. */
static size_t
literal(struct piece *p, size_t i, const char *text)
{
	size_t k;

	for (k = 0; text[k] != '\0'; k++)
		if (!is(p, i + k, (unsigned char)text[k]))
			return i;
	return i + k;
}

/* <sentinel:[0-9]+> */
static size_t
scan_sentinel(struct piece *p, size_t i)
{
	size_t digits = literal(p, i, "<sentinel:"), e = digits;

	if (digits == i)
		return i;
	while (within(p, e, '0', '9'))
		e++;
	return e > digits && is(p, e, '>') ? e + 1 : i;
}

/* (IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z */
static size_t
scan_image(struct piece *p, size_t i)
{
	size_t letters = literal(p, i, "IMGIMG"), e = letters;

	if (letters == i)
		return i;
	while (e < letters + 4 && within(p, e, 'A', 'I'))
		e++;
	return e > letters && is(p, e, 'Z') ? e + 1 : i;
}

/* [\t\n]|four spaces|two spaces */
static size_t
scan_indent(struct piece *p, size_t i)
{
	size_t e = literal(p, i, "    ");

	if (e > i)
		return e;
	if (is(p, i, '\t') || is(p, i, '\n'))
		return i + 1;
	return literal(p, i, "  ");
}

/* [\p{P}!-/:-@\[-`{-~] */
static size_t
scan_sign(struct piece *p, size_t i)
{
	return i + falcon_sign(p, i);
}

/* ---- tables ---- */

/* Expressions in order, up to NULL. */
static scan_fn *const splitters[][7] = {
	[SPLIT_GPT2] = { scan_gpt2 },
	[SPLIT_DIGIT1] = { scan_number, scan_gpt2 },
	[SPLIT_LLAMA3] = { scan_llama3 },
	[SPLIT_QWEN2] = { scan_qwen2 },
	[SPLIT_QWEN35] = { scan_qwen35 },
	[SPLIT_SEED] = { scan_seed },
	[SPLIT_EXAONEMOE] = { scan_exaonemoe },
	[SPLIT_JAIS2] = { scan_jais2 },
	[SPLIT_O200K] = { scan_o200k },
	[SPLIT_TEKKEN] = { scan_tekken },
	[SPLIT_YOUTU] = { scan_youtu, scan_o200k_digit1 },
	[SPLIT_KIMI] = { scan_kimi },
	[SPLIT_AYA] = { scan_digit3_right, scan_o200k },
	[SPLIT_SUPERBPE] = { scan_numbers, scan_thousands },
	[SPLIT_DS3] = { scan_number3, scan_cjk_kana, scan_ds3 },
	[SPLIT_AFMOE] = { scan_number3_right, scan_afmoe_script, scan_ds3 },
	[SPLIT_DSCODER] = { scan_newline, scan_letters, scan_punctuation,
	    scan_cjk_wide, scan_number },
	[SPLIT_DSLLM] = { scan_newline, scan_dsllm_letters, scan_dsllm_signs,
	    scan_last_white, scan_cjk_wide, scan_numbers },
	[SPLIT_FALCON] = { scan_falcon_signs, scan_gpt2, scan_digit3 },
	[SPLIT_PLAIN] = { scan_default_signs, scan_gpt2, scan_numbers,
	    scan_digit3 },
	[SPLIT_BLOOM] = { scan_bloom },
	[SPLIT_VIKING] = { scan_bloom, scan_number },
	[SPLIT_CHAMELEON] = { scan_sentinel, scan_image, scan_indent,
	    scan_number, scan_sign, scan_gpt2 }
};

/* One expression on one piece: matches and the gaps between them begin pieces.
   Returns the position from which on this is not decided, if more characters
   follow behind the piece (open); else its end. */
static size_t
cut(struct piece *p, scan_fn *scan, bool open, uint8_t *mark)
{
	size_t i = p->start, e;

	p->run_end = 0;
	while (i < p->end) {
		p->touched = false;
		e = scan(p, i);
		if (open && p->touched)
			return i;
		if (e == i) {
			i++;
			continue;
		}
		mark[i] |= PRE_START;
		if (e < p->end)
			mark[e] |= PRE_START;
		while (++i < e)
			mark[i] |= PRE_INNER;
	}
	return p->end;
}

/*
 * Each expression is decided up to a limit: the first position at which it had
 * to ask what comes behind the limit of the one before. A text can be cut below
 * the last limit where a piece begins and no match of any expression lies
 * across: there, each expression was tried and had not begun to match, and what
 * it does from there on does not depend on anything before.
 */
size_t
pre_split(const struct pre *pre, const uint32_t *cp, const uint16_t *set,
    size_t n, bool open, uint8_t *mark)
{
	scan_fn *const *stage = splitters[pre->split];
	struct piece p = { .cp = cp, .set = set };
	size_t limit = n, end;

	memset(mark, 0, n * sizeof *mark);
	for (; *stage != NULL; stage++)
		for (p.start = 0; p.start < limit; p.start = p.end) {
			p.end = p.start + 1;
			while (p.end < limit && !(mark[p.end] & PRE_START))
				p.end++;
			end = cut(&p, *stage, open && p.end == limit, mark);
			if (end < p.end) {
				limit = end;
				break;
			}
		}
	if (n > 0)
		mark[0] |= PRE_START;
	if (!open)
		return n;
	if (limit == n && n > 0)
		limit--;
	while (limit > 0 && mark[limit] != PRE_START)
		limit--;
	return limit;
}
