/* SPDX-License-Identifier: MIT */
/* Numbers from users: parsed whole, in range, without the locale. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

int
pico_parse_int(const char *text, int64_t min, int64_t max, int64_t *out,
    struct pico_err *err)
{
	const char *p = text;
	bool neg = *p == '-';
	uint64_t v = 0, limit;
	int64_t value;

	p += neg;
	limit = neg ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
	if (*p == '\0')
		goto bad;
	for (; *p != '\0'; p++) {
		unsigned d = (unsigned)(*p - '0');

		if (d > 9 || v > (limit - d) / 10)
			goto bad;
		v = v * 10 + d;
	}
	value = neg ? (int64_t)(0 - v) : (int64_t)v;
	if (value < min || value > max)
		goto bad;
	*out = value;
	return 0;
bad:
	return fail_usage(err, "'%s' is not a whole number between %" PRId64
	    " and %" PRId64, show(text, strlen(text)), min, max);
}

int
pico_parse_real(const char *text, double min, double max, double *out,
    struct pico_err *err)
{
	size_t n = strspn(text, "+-.0123456789eE");
	char *end;
	double v;

	/* strtod alone would take "nan", "inf", hexadecimal and blanks */
	if (n == 0 || text[n] != '\0')
		goto bad;
	errno = 0;
	v = strtod(text, &end);
	if (*end != '\0' || end == text || !isfinite(v) ||
	    v < min || v > max)
		goto bad;
	*out = v;
	return 0;
bad:
	if (min <= -1e300 || max >= 1e300)
		return fail_usage(err, "'%s' is not a number%s%s",
		    show(text, strlen(text)),
		    min >= 0 ? " of 0 or more" : "", "");
	return fail_usage(err, "'%s' is not a number between %g and %g",
	    show(text, strlen(text)), min, max);
}

int
pico_opt_real(const struct pico_opt *o, const char *arg, struct pico_err *err)
{
	bool any = o->min == 0 && o->max == 0;

	return pico_parse_real(arg, any ? -HUGE_VAL : o->min,
	    any ? HUGE_VAL : o->max, o->to, err);
}

int
pico_parse_size(const char *text, uint64_t *out, struct pico_err *err)
{
	char digits[32];
	size_t n = strlen(text);
	int shift = 0;
	int64_t v = 0;

	if (n > 0) {
		switch (text[n - 1]) {
		case 'K': case 'k': shift = 10; break;
		case 'M': case 'm': shift = 20; break;
		case 'G': case 'g': shift = 30; break;
		}
	}
	if (shift != 0)
		n--;
	if (n == 0 || n >= sizeof digits)
		goto bad;
	memcpy(digits, text, n);
	digits[n] = '\0';
	if (pico_parse_int(digits, 0, INT64_MAX >> shift, &v, NULL) < 0)
		goto bad;
	*out = (uint64_t)v << shift;
	return 0;
bad:
	return fail_usage(err, "'%s' is not a size such as 4096, 64K, 200M or "
	    "2G", show(text, strlen(text)));
}
