/* SPDX-License-Identifier: MIT */
/* Error messages and printable text. */
#include <errno.h>
#include <string.h>

#include "base.h"

bool
pico_str_is(struct pico_str s, const char *text)
{
	return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

int
pico_str_compare(struct pico_str a, struct pico_str b)
{
	int c = memcmp(a.p, b.p, MIN(a.n, b.n));

	return c != 0 ? c : a.n < b.n ? -1 : a.n > b.n;
}

size_t
pico_utf8_len(const char *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t len, i;
	uint32_t c;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		len = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		len = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (n < len)
		return 0;
	c = p[0] & (0x7f >> len);
	for (i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if ((len == 3 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) ||
	    (len == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	return len;
}

size_t
pico_escape(char *out, size_t size, const char *p, size_t n)
{
	static const char hex[] = "0123456789abcdef";
	size_t i, k, len, total = 0, used = 0;
	bool full = size == 0;
	char e[4];

	for (i = 0; i < n; i += len) {
		const char *src = p + i;

		len = pico_utf8_len(src, n - i);
		k = len;
		if (len == 0 || (len == 1 && ((unsigned char)*src < 0x20 ||
		    *src == 0x7f || *src == '\\')) ||
		    /* C1 control characters, U+0080 to U+009F */
		    (len == 2 && src[0] == '\xc2' && src[1] < '\xa0')) {
			e[0] = '\\';
			k = 2;
			len = 1;
			switch (*src) {
			case '\\': e[1] = '\\'; break;
			case '\t': e[1] = 't'; break;
			case '\n': e[1] = 'n'; break;
			case '\r': e[1] = 'r'; break;
			default:
				e[1] = 'x';
				e[2] = hex[(unsigned char)*src >> 4];
				e[3] = hex[(unsigned char)*src & 15];
				k = 4;
			}
			src = e;
		}
		total += k;
		if (!full && used + k < size) {
			memcpy(out + used, src, k);
			used += k;
		} else {
			full = true;	/* never half a character */
		}
	}
	if (size > 0)
		out[used] = '\0';
	return total;
}

const char *
show(const char *p, size_t n)
{
	static _Thread_local char buf[8][300];
	static _Thread_local unsigned next;
	char *b = buf[next++ % COUNT(buf)];
	size_t len;

	(void)pico_escape(b, sizeof buf[0] - 4, p, MIN(n, 60));
	len = strlen(b);
	if (n > 60)
		memcpy(b + len, "...", 4);
	return b;
}

static int
set(struct pico_err *err, int status, int errnum, const char *fmt, va_list ap)
{
	char raw[sizeof err->msg];
	size_t i, n;

	if (err == NULL || err->status != PICO_OK)
		return -1;
	err->status = status;
	(void)vsnprintf(raw, sizeof raw, fmt, ap);
	n = strlen(raw);
	if (errnum != 0)
		(void)snprintf(raw + n, sizeof raw - n, ": %s",
		    strerror(errnum));
	/* What came from files is escaped by show(); this is the last guard
	   for names of files and the like. */
	for (i = 0; raw[i] != '\0'; i++)
		err->msg[i] = (unsigned char)raw[i] < 0x20 || raw[i] == 0x7f ?
		    '?' : raw[i];
	err->msg[i] = '\0';
	return -1;
}

int
fail(struct pico_err *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)set(err, PICO_ERROR, 0, fmt, ap);
	va_end(ap);
	return -1;
}

int
fail_usage(struct pico_err *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)set(err, PICO_USAGE, 0, fmt, ap);
	va_end(ap);
	return -1;
}

int
fail_errno(struct pico_err *err, const char *fmt, ...)
{
	int errnum = errno;
	va_list ap;

	va_start(ap, fmt);
	(void)set(err, PICO_ERROR, errnum, fmt, ap);
	va_end(ap);
	return -1;
}

int
pico_fail(struct pico_err *err, enum pico_status status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)set(err, status, 0, fmt, ap);
	va_end(ap);
	return -1;
}
