/* SPDX-License-Identifier: MIT */
/* Token streams: what is read from given bytes, and what is written. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/pico.h"

#define HEADER "\x89PTK\1\0\0\0"

static int n_run, n_failed;

static void
check(bool ok, const char *what, const char *got)
{
	n_run++;
	if (!ok) {
		n_failed++;
		printf("not ok %d - %s\n# got: %s\n", n_run, what, got);
	} else {
		printf("ok %d - %s\n", n_run, what);
	}
}

/* All events as text: ids, "|" and the reason at ends, "!" and the message. */
static const char *
read_all(const char *p, size_t n)
{
	static char out[1000];
	struct pico_err err = {0};
	struct pico_tokens_in *in;
	int fd[2], event;
	int32_t v;
	size_t used = 0;

	if (pipe(fd) < 0 || write(fd[1], p, n) != (ssize_t)n)
		exit(1);
	(void)close(fd[1]);
	in = pico_tokens_open(fd[0], "in", &err);
	out[0] = '\0';
	while ((event = pico_tokens_next(in, &v, &err)) > 0)
		used += (size_t)snprintf(out + used, sizeof out - used,
		    event == PICO_TOKEN ? "%d " : "|%d ", (int)v);
	if (event < 0)
		(void)snprintf(out + used, sizeof out - used, "!%s", err.msg);
	pico_tokens_close(in);
	(void)close(fd[0]);
	return out;
}

static void
reads(const char *what, const char *p, size_t n, const char *want)
{
	const char *got = read_all(p, n);

	/* Of a message only the beginning is compared. */
	check(strchr(want, '!') != NULL ?
	    strncmp(got, want, strlen(want)) == 0 : strcmp(got, want) == 0,
	    what, got);
}

#define READS(what, bytes, want) reads(what, bytes, sizeof bytes - 1, want)

/* A token must come out as soon as the byte after it is there. */
static void
reads_at_once(void)
{
	struct pico_err err = {0};
	struct pico_tokens_in *in;
	int fd[2], a, b;
	int32_t v = -9;

	if (pipe(fd) < 0 || write(fd[1], "12 ", 3) != 3)
		exit(1);
	in = pico_tokens_open(fd[0], "in", &err);
	a = pico_tokens_next(in, &v, &err);
	check(a == PICO_TOKEN && v == 12, "a token before the line ends", "");
	check(!pico_tokens_ready(in), "a blank left over is nothing to read",
	    "");
	if (write(fd[1], "7\n", 2) != 2)
		exit(1);
	check(pico_tokens_ready(in), "more to read", "");
	a = pico_tokens_next(in, &v, &err);
	check(pico_tokens_ready(in), "the end of the line is at hand", "");
	b = pico_tokens_next(in, &v, &err);
	check(a == PICO_TOKEN && b == PICO_SEQ_END,
	    "the end of a line before the file ends", "");
	check(pico_tokens_line(in) == 2, "number of the line", "");
	check(!pico_tokens_ready(in), "nothing after the line", "");
	(void)close(fd[1]);
	check(pico_tokens_ready(in), "the end of the file is at hand", "");
	pico_tokens_close(in);
	(void)close(fd[0]);
}

/* Ids that straddle the reader's buffer. */
static void
reads_long(bool binary)
{
	enum { N = 50000 };
	struct pico_err err = {0};
	struct pico_tokens_in *in;
	struct pico_tokens_out out;
	FILE *f = tmpfile();
	int32_t v, i;
	bool same = f != NULL;

	if (f == NULL)
		exit(1);
	pico_tokens_out_init(&out, fileno(f), binary);
	for (i = 0; i < N; i++)
		same &= pico_tokens_put(&out, i * 40000 + i, &err) == 0;
	same &= pico_tokens_end(&out, PICO_END_EOG, &err) == 0 &&
	    pico_tokens_flush(&out, &err) == 0;
	rewind(f);
	in = pico_tokens_open(fileno(f), "in", &err);
	for (i = 0; i < N; i++)
		same &= pico_tokens_next(in, &v, &err) == PICO_TOKEN &&
		    v == i * 40000 + i;
	same &= pico_tokens_next(in, &v, &err) == PICO_SEQ_END &&
	    v == (binary ? PICO_END_EOG : PICO_END_NONE) &&
	    pico_tokens_next(in, &v, &err) == PICO_EOF;
	check(same, binary ? "50000 ids, binary" : "50000 ids, text", err.msg);
	pico_tokens_close(in);
	(void)fclose(f);
}

static void
writes(const char *what, bool binary, const char *want, size_t n)
{
	struct pico_err err = {0};
	struct pico_tokens_out out;
	char got[200];
	int fd[2];
	ssize_t k;

	if (pipe(fd) < 0)
		exit(1);
	pico_tokens_out_init(&out, fd[1], binary);
	(void)pico_tokens_put(&out, 1, &err);
	(void)pico_tokens_put(&out, 391, &err);
	(void)pico_tokens_end(&out, PICO_END_NONE, &err);
	(void)pico_tokens_end(&out, PICO_END_STOP, &err);
	k = read(fd[0], got, sizeof got);	/* nothing waits for a flush */
	check(k == (ssize_t)n && memcmp(got, want, n) == 0, what, err.msg);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

int
main(void)
{
	struct pico_err err = {0};
	struct pico_tokens_out out;

	READS("nothing", "", "");
	READS("lines", "1 2\n3\n", "1 2 |0 3 |0 ");
	READS("last line without newline", "1 2", "1 2 |0 ");
	READS("empty lines", "\n\n5\n\n", "|0 |0 5 |0 |0 ");
	READS("tabs, blanks in front and behind, CR LF", " 1\t 2 \r\n3\r\n",
	    "1 2 |0 3 |0 ");
	READS("a last line of blanks", "1\n  ", "1 |0 |0 ");
	READS("largest id", "2147483647", "2147483647 |0 ");
	READS("larger than that", "1 2147483648\n",
	    "1 !in: line 1, column 3: '2147483648' is not a token id");
	READS("far larger", "99999999999999999999999 ",
	    "!in: line 1, column 1: '99999999999999999999999' is not a");
	READS("a letter", "1\n2\n34 5 x 6", "1 |0 2 |0 34 5 "
	    "!in: line 3, column 6: 'x' is not a token id");
	READS("digits, then letters", "7 12ab\n",
	    "7 !in: line 1, column 3: '12ab' is not a token id");
	READS("negative in text", "-1\n",
	    "!in: line 1, column 1: '-1' is not a token id");
	READS("NUL in text", "1 \0 2", "1 !in: line 1, column 3: '\\x00' is");

	READS("binary", HEADER "\5\0\0\0\xff\xff\xff\xff\6\0\0\0\xfe\xff\xff\xff",
	    "5 |-1 6 |-2 ");
	READS("binary, only a header", HEADER, "");
	READS("binary without a mark at the end", HEADER "\5\0\0\0", "5 |0 ");
	READS("binary, empty sequence", HEADER "\xfd\xff\xff\xff", "|-3 ");
	READS("binary, joined", HEADER "\5\0\0\0\xff\xff\xff\xff"
	    HEADER "\6\0\0\0\xfc\xff\xff\xff", "5 |-1 6 |-4 ");
	READS("binary, id cut off", HEADER "\5\0\0\0\6\0",
	    "5 !in: byte 12: token stream is cut off");
	READS("binary, header cut off", "\x89PTK\1", "!in: byte 0: not a token");
	READS("binary, another stream", "\x89PLG\1\0\0\0\0\0\0\0",
	    "!in: byte 0: not a token stream");
	READS("binary, other version", "\x89PTK\2\0\0\0\1\0\0\0",
	    "!in: byte 4: token stream of version 2");
	READS("binary, unknown reason", HEADER "\xfb\xff\xff\xff",
	    "!in: byte 8: -5 is not");
	reads_at_once();
	reads_long(false);
	reads_long(true);

	writes("text written at once", false, "1 391\n\n", 7);
	writes("binary written at once", true, HEADER "\1\0\0\0\x87\1\0\0"
	    "\xfe\xff\xff\xff\xfc\xff\xff\xff", 24);
	pico_tokens_out_init(&out, STDOUT_FILENO, false);
	check(pico_tokens_put(&out, -1, &err) < 0, "no negative ids", "");

	printf("1..%d\n", n_run);
	return n_failed > 0;
}
