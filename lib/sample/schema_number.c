/* SPDX-License-Identifier: MIT */
/* Ranges of numbers, digit by digit. */
#include <inttypes.h>

#include "schema.h"

#define WHOLE_MAX 9999999999999999	/* 16 digits */
#define DECIMALS_MAX 9
#define EXCLUDED_MAX 9
#define MORE "[0-9]{0,6}"		/* decimals that make no difference */

/* A bound: whole.frac, where frac has n decimals and no zeros at its end. */
struct bound {
	bool given, excluded, negative;
	int64_t whole, frac;
	int n;
};

static const int64_t power[] = { 1, 10, 100, 1000, 10000, 100000, 1000000,
    10000000, 100000000, 1000000000 };

/* All numbers lo..hi of n digits, zeros in front, each with the tail behind:
   as many alternatives as the digits make necessary. */
static void
between(struct schema *s, int64_t lo, int64_t hi, int n, const char *tail)
{
	int64_t step, last;
	int k;

	while (lo <= hi) {
		/* the largest block of a power of ten that begins at lo, and
		   those of its size up to hi or to the next larger one */
		for (k = 0, step = 1; k < n - 1 && lo % (step * 10) == 0 &&
		    lo + step * 10 - 1 <= hi; k++)
			step *= 10;
		last = lo;
		while (last / step % 10 < 9 && last + 2 * step - 1 <= hi)
			last += step;
		put_bar(s);
		if (k < n - 1)
			put(s, " \"%0*" PRId64 "\"", n - 1 - k,
			    lo / step / 10);
		put(s, " [%d-%d]", (int)(lo / step % 10),
		    (int)(last / step % 10));
		if (k > 0)
			put(s, " [0-9]{%d}", k);
		put(s, "%s", tail);
		lo = last + step;
	}
}

/* The same for whole numbers from 0 on, without zeros in front. */
static void
whole_range(struct schema *s, int64_t lo, int64_t hi)
{
	int64_t first = 0, end = 9;
	int n;

	for (n = 1; n <= 16; n++) {
		between(s, MAX(lo, first), MIN(hi, end), n, "");
		first = end + 1;
		end = end * 10 + 9;
	}
}

static int
read_bound(struct schema *s, uint32_t node, const char *key, bool lower,
    bool excluded, struct bound *b)
{
	uint32_t i = json_get(&s->j, node, key);
	struct bound v = { .given = true, .excluded = excluded };
	struct pico_str t;
	size_t k = 0;

	if (i == JSON_NONE)
		return 0;
	if (s->j.node[i].kind != JSON_NUMBER)
		return schema_bad(s, node, "'%s' is no number", key);
	if (b->given)
		return schema_bad(s, node, "'%s' twice, exclusive and not, is "
		    "not supported", key);
	t = s->j.node[i].text;
	v.negative = t.p[0] == '-';
	for (k = v.negative; k < t.n && t.p[k] >= '0' && t.p[k] <= '9'; k++)
		v.whole = MIN(v.whole * 10 + (t.p[k] - '0'),
		    WHOLE_MAX + 1);
	if (v.whole > WHOLE_MAX) {
		if (lower != v.negative)
			return schema_bad(s, node, "'%s' leaves only numbers "
			    "of more than 16 digits", key);
		v.whole = WHOLE_MAX;
	}
	if (k < t.n && t.p[k] == '.')
		for (k++; k < t.n && t.p[k] >= '0' && t.p[k] <= '9'; k++) {
			if (v.n == DECIMALS_MAX)
				return schema_bad(s, node, "'%s' has more than "
				    "%d decimals", key, DECIMALS_MAX);
			v.frac = v.frac * 10 + (t.p[k] - '0');
			v.n++;
		}
	if (k < t.n)
		return schema_bad(s, node, "'%s' with an exponent is not "
		    "supported", key);
	for (; v.n > 0 && v.frac % 10 == 0; v.n--)
		v.frac /= 10;
	if (v.whole == 0 && v.frac == 0)
		v.negative = false;
	*b = v;
	return 0;
}

static int
read_bounds(struct schema *s, uint32_t node, struct bound *lo,
    struct bound *hi)
{
	*lo = *hi = (struct bound){0};
	return read_bound(s, node, "minimum", true, false, lo) < 0 ||
	    read_bound(s, node, "exclusiveMinimum", true, true, lo) < 0 ||
	    read_bound(s, node, "maximum", false, false, hi) < 0 ||
	    read_bound(s, node, "exclusiveMaximum", false, true, hi) < 0 ?
	    -1 : 0;
}

/* ---- integers ---- */

/* The nearest integer that the bound lets pass, above or below it. */
static int64_t
inside(const struct bound *b, bool above)
{
	int64_t v = b->negative ? -b->whole : b->whole;

	/* v is nearer to 0 than the bound, if that has decimals */
	if (b->n > 0)
		return above != b->negative ? v + (above ? 1 : -1) : v;
	return b->excluded ? v + (above ? 1 : -1) : v;
}

int
put_integer(struct schema *s, uint32_t node)
{
	struct bound lo, hi;
	int64_t min, max;

	if (read_bounds(s, node, &lo, &hi) < 0)
		return -1;
	if (!lo.given && !hi.given) {
		put(s, " \"-\"? whole");
		return 0;
	}
	min = lo.given ? inside(&lo, true) : -WHOLE_MAX;
	max = hi.given ? inside(&hi, false) : WHOLE_MAX;
	if (min > max)
		return schema_bad(s, node, "no integer is between the bounds");
	put(s, " (");
	if (min < 0) {
		put(s, " \"-\" (");
		whole_range(s, MAX(-max, 1), -min);
		put(s, " )");
	}
	if (max >= 0)
		whole_range(s, MAX(min, 0), max);
	put(s, " )");
	return 0;
}

/* ---- numbers ---- */

/* The first k decimals of a bound as a number. */
static int64_t
decimals(const struct bound *b, int k)
{
	return k >= b->n ? b->frac * power[k - b->n] :
	    b->frac / power[b->n - k];
}

/* `whole` with decimals between those of lo and those of hi, as alternatives. */
static void
put_decimals(struct schema *s, const char *sign, int64_t whole,
    const struct bound *lo, const struct bound *hi)
{
	int k, n = MAX(lo->n, hi->n);
	int64_t a, b;

	if ((!lo->given || (lo->frac == 0 && !lo->excluded)) &&
	    (!hi->given || hi->frac > 0 || !hi->excluded)) {
		put_bar(s);
		put(s, " \"%s%" PRId64 "\"", sign, whole);
	}
	if (hi->given && hi->frac == 0)
		return;
	if (n == 0) {
		put_bar(s);
		put(s, " \"%s%" PRId64 ".\" %s", sign, whole, lo->excluded ?
		    "\"0\"{0,5} [1-9] " MORE : "[0-9] " MORE);
	}
	for (k = 1; k <= n; k++) {
		a = lo->given ? decimals(lo, k) : 0;
		a += lo->given && (k < lo->n || (lo->excluded && k < n));
		b = hi->given ? decimals(hi, k) : power[k] - 1;
		b -= hi->given && k >= hi->n && (hi->excluded || k == n);
		if (k == n && lo->given && lo->excluded && a <= b) {
			put_bar(s);
			put(s, " \"%s%" PRId64 ".%0*" PRId64 "\" \"0\"{0,5} "
			    "[1-9] " MORE, sign, whole, n, a);
			a++;
		}
		if (a <= b) {
			put_bar(s);
			put(s, " \"%s%" PRId64 ".\" (", sign, whole);
			between(s, a, b, k, k == n ? " " MORE : "");
			put(s, " )");
		}
		b = hi->given ? decimals(hi, n) : 0;
		if (k == n && hi->given && !hi->excluded && (!lo->given ||
		    decimals(lo, n) < b || !lo->excluded)) {
			put_bar(s);
			put(s, " \"%s%" PRId64 ".%0*" PRId64 "\"", sign,
			    whole, n, b);
		}
	}
}

/* Numbers from 0 on, lo..hi, as alternatives. */
static void
put_range(struct schema *s, const char *sign, const struct bound *lo,
    const struct bound *hi)
{
	static const struct bound none;
	int64_t last = hi->given ? hi->whole - 1 : WHOLE_MAX;

	if (hi->given && lo->whole == hi->whole) {
		put_decimals(s, sign, lo->whole, lo, hi);
		return;
	}
	put_decimals(s, sign, lo->whole, lo, &none);
	if (lo->whole < last) {
		put_bar(s);
		put(s, " \"%s\" (", sign);
		whole_range(s, lo->whole + 1, last);
		put(s, " ) (\".\" [0-9] " MORE ")?");
	}
	if (hi->given)
		put_decimals(s, sign, hi->whole, &none, hi);
}

/* a < b, or they are equal. */
static bool
ordered(const struct bound *a, const struct bound *b)
{
	int64_t x = a->negative ? -a->whole : a->whole;
	int64_t y = b->negative ? -b->whole : b->whole;

	if (x != y)
		return x < y;
	x = decimals(a, DECIMALS_MAX);
	y = decimals(b, DECIMALS_MAX);
	if (a->negative != b->negative)
		return a->negative;
	return a->negative ? x >= y : x <= y;
}

/* Readers make doubles of numbers, which hold 15 digits: no number that is made
   may become the bound itself. MORE adds 6 digits to those of the bound. */
static bool
can_exclude(const struct bound *b, const struct bound *other)
{
	int64_t whole = b->whole;
	int n = MAX(b->n, 1);

	if (other->given && other->whole == whole)	/* put_decimals */
		n = MAX(n, other->n);
	for (; whole > 0; whole /= 10)
		n++;
	return !b->excluded || n <= EXCLUDED_MAX;
}

int
put_number(struct schema *s, uint32_t node)
{
	static const struct bound zero = { .given = true, .excluded = true };
	struct bound lo, hi, a;
	size_t at;

	if (read_bounds(s, node, &lo, &hi) < 0)
		return -1;
	if (!lo.given && !hi.given) {
		put(s, " number");
		return 0;
	}
	if (!can_exclude(&lo, &hi) || !can_exclude(&hi, &lo))
		return schema_bad(s, node, "an exclusive bound of numbers has "
		    "more than %d digits", EXCLUDED_MAX);
	if (lo.given && hi.given && !ordered(&lo, &hi))
		return schema_bad(s, node, "no number is between the bounds");
	put(s, " (");
	at = s->n_out;
	if (!lo.given || lo.negative) {		/* below 0 */
		a = hi.given && hi.negative ? hi : zero;
		put_range(s, "-", &a, &lo);
	}
	if (!hi.given || !hi.negative) {	/* 0 and above */
		a = lo.given && !lo.negative ? lo : zero;
		a.excluded = lo.given && !lo.negative && lo.excluded;
		put_range(s, "", &a, &hi);
	}
	if (s->n_out == at)
		return schema_bad(s, node, "no number is between the bounds");
	put(s, " )");
	return 0;
}
