/* SPDX-License-Identifier: MIT */
/* Logits streams: what is read from given bytes, and what is written. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/pico.h"

#define MAGIC "\x89PLG\1\0\0\0"
#define BYTES(s) s, sizeof(s) - 1

static int n_run, n_failed;

static void
check(bool ok, const char *what, const char *got)
{
	n_run++;
	n_failed += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", n_run, what);
	if (!ok)
		printf("# got: %s\n", got);
}

/* An open file that holds n bytes. */
static int
file_of(const void *p, size_t n)
{
	FILE *f = tmpfile();
	int fd;

	if (f == NULL || fwrite(p, 1, n, f) != n || fflush(f) != 0)
		exit(1);
	fd = dup(fileno(f));
	(void)fclose(f);
	(void)lseek(fd, 0, SEEK_SET);
	return fd;
}

/* The header and all events as text: "V:ids; " then ids, logits in brackets,
   "+" at the end of a line, "|reason" at the end of a sequence, "!" and the
   message. */
static const char *
read_all(const void *p, size_t n)
{
	static char out[2000];
	struct pico_err err = {0};
	struct pico_logits_in *in;
	const float *row;
	const int32_t *eog;
	int event = 0, fd = file_of(p, n);
	size_t used = 0, n_eog, i;
	int32_t v;

#define ADD(...) \
	(used += (size_t)snprintf(out + used, sizeof out - used, __VA_ARGS__))
	out[0] = '\0';
	in = pico_logits_open(fd, "in", &err);
	if (in != NULL) {
		eog = pico_logits_eog(in, &n_eog);
		ADD("%u:", pico_logits_n_vocab(in));
		for (i = 0; i < n_eog; i++)
			ADD("%d,", (int)eog[i]);
		ADD("; ");
		while ((event = pico_logits_next(in, &v, &row, &err)) > 0) {
			if (event == PICO_TOKEN)
				ADD("%d", (int)v);
			else if (event == PICO_SEQ_END)
				ADD("|%d", (int)v);
			else
				ADD("+");
			for (i = 0; event == PICO_TOKEN && row != NULL &&
			    i < pico_logits_n_vocab(in); i++) {
				ADD("%c", i == 0 ? '[' : ' ');
				/* a double need not keep the sign of a NaN */
				if (isnan(row[i]))
					ADD("nan");
				else
					ADD("%.9g", (double)row[i]);
			}
			ADD(event == PICO_TOKEN && row != NULL ? "] " : " ");
		}
	}
	if (in == NULL || event < 0)
		ADD("!%s", err.msg);
	pico_logits_close(in);
	(void)close(fd);
	return out;
}

static void
reads(const char *what, const void *p, size_t n, const char *want)
{
	const char *got = read_all(p, n);

	/* Of a message only the beginning is compared. */
	check(strchr(want, '!') != NULL ?
	    strncmp(got, want, strlen(want)) == 0 : strcmp(got, want) == 0,
	    what, got);
}

static void
text(void)
{
	reads("text", BYTES("# 3 2 0\n1\n2\t0.5 -1 1e-3\n\n\n0\n"),
	    "3:2,0,; 1 2[0.5 -1 0.00100000005] |0 |0 0 |0 ");
	reads("text: special values", BYTES("# 4\n1\tnan -nan inf -inf\n\n"),
	    "4:; 1[nan nan inf -inf] |0 ");
	reads("text: line ends", BYTES("# 2\n1\t1 2\n+\n0\n+\n1\n"),
	    "2:; 1[1 2] + 0 + 1 |0 ");
	reads("text: no sequence", BYTES("# 2\n"), "2:; ");
	reads("text: joined", BYTES("# 2 1\n1\n# 2 1\n0\n\n# 2 1\n"),
	    "2:1,; 1 |0 0 |0 ");
	reads("text: joined, vocabularies differ", BYTES("# 2 1\n1\n\n# 3 1\n"),
	    "2:1,; 1 |0 !in: joined logits streams of different models: "
	    "vocabularies of 2 and 3 tokens");
	reads("text: joined, ids differ", BYTES("# 3 1\n# 3 1 2\n"),
	    "3:1,; !in: joined logits streams of different models: "
	    "end-of-generation tokens differ at 2");
	reads("text: joined, ids missing", BYTES("# 3 1\n# 3\n"),
	    "3:1,; !in: joined logits streams of different models: "
	    "1 and 0 end-of-generation tokens");
	reads("text: token too high", BYTES("# 2\n2\n"), "2:; !in: line 2: '2' "
	    "is not a whole number between 0 and 1");
	reads("text: too few", BYTES("# 3\n1\t1 2\n"),
	    "3:; !in: line 2: 2 logits, vocabulary has 3");
	reads("text: too many", BYTES("# 3\n1\t1 2 3 4\n"),
	    "3:; !in: line 2: more than 3 logits, vocabulary has 3");
	reads("text: no number", BYTES("# 3\n1\t1 0x2 3\n"),
	    "3:; !in: line 2: '0x2' is not a logit");
	reads("text: other words", BYTES("# 3\n1\t1 infinity 3\n"),
	    "3:; !in: line 2: 'infinity' is not a logit");
	reads("text: comma", BYTES("# 2\n1\t0,5 1\n"),
	    "2:; !in: line 2: '0,5' is not a logit");
	reads("text: two blanks", BYTES("# 2\n1\t5  1\n"),
	    "2:; !in: line 2: '' is not a logit");
	reads("text: too large", BYTES("# 1\n0\t1e39\n"),
	    "1:; !in: line 2: '1e39' is not a logit");
	reads("text: blank for tab", BYTES("# 2\n1 5 1\n"),
	    "2:; !in: line 2: a tab must stand between token and logits");
	reads("text: stray line end", BYTES("# 2\n1\n\n+\n"),
	    "2:; 1 |0 !in: line 4: '+' without a token before it");
	reads("text: + not alone", BYTES("# 2\n1\n+1\n"),
	    "2:; 1 !in: line 3: '+' must stand alone in its line");
	reads("text: cut off", BYTES("# 2\n1\t1 2"),
	    "2:; !in: line 2 of the logits stream is cut off");
	reads("text: header cut off", BYTES("# 2"),
	    "!in: line 1 of the logits stream is cut off");
	reads("text: no vocabulary", BYTES("# 0\n"),
	    "!in: logits stream for a vocabulary of 0 tokens");
	reads("text: huge vocabulary", BYTES("# 16777217\n"),
	    "!in: logits stream for a vocabulary of 16777217 tokens");
	reads("text: strange end of generation", BYTES("# 2 2\n"),
	    "!in: end-of-generation token 2 is not in the vocabulary of 2");
}

static void
binary(void)
{
	reads("binary", BYTES(MAGIC "\2\0\0\0\1\0\0\0\1\0\0\0"
	    "\0\0\0\0\0\0\0\0" "\1\0\0\0\1\0\0\0\0\0\200\77\0\0\0\300"
	    "\377\377\377\377\0\0\0\0" "\1\0\0\0\2\0\0\0"
	    "\0\0\0\0\3\0\0\0\0\0\200\77\0\0\300\177"),
	    "2:1,; 0 1[1 -2] |-1 1 + 0[1 nan] + |0 ");
	reads("binary: no sequence", BYTES(MAGIC "\2\0\0\0\0\0\0\0"), "2:; ");
	reads("binary: joined", BYTES(MAGIC "\2\0\0\0\0\0\0\0"
	    "\1\0\0\0\0\0\0\0" MAGIC "\2\0\0\0\0\0\0\0"
	    "\0\0\0\0\0\0\0\0\376\377\377\377\0\0\0\0"
	    MAGIC "\2\0\0\0\0\0\0\0"), "2:; 1 |0 0 |-2 ");
	reads("binary: joined, vocabularies differ",
	    BYTES(MAGIC "\2\0\0\0\0\0\0\0" MAGIC "\3\0\0\0\0\0\0\0"),
	    "2:; !in: joined logits streams of different models");
	reads("binary: token too high", BYTES(MAGIC "\2\0\0\0\0\0\0\0"
	    "\2\0\0\0\0\0\0\0"), "2:; !in: byte 16: 2 is not a token");
	reads("binary: unknown reason", BYTES(MAGIC "\2\0\0\0\0\0\0\0"
	    "\373\377\377\377\0\0\0\0"), "2:; !in: byte 16: -5 is not a token");
	reads("binary: unknown flags", BYTES(MAGIC "\2\0\0\0\0\0\0\0"
	    "\1\0\0\0\5\0\0\0"), "2:; !in: byte 20: unknown flags 0x5");
	reads("binary: an end with flags", BYTES(MAGIC "\2\0\0\0\0\0\0\0"
	    "\377\377\377\377\1\0\0\0"), "2:; !in: byte 20: unknown flags 0x1");
	reads("binary: no vocabulary", BYTES(MAGIC "\0\0\0\0\0\0\0\0"),
	    "!in: logits stream for a vocabulary of 0 tokens");
	reads("binary: huge vocabulary", BYTES(MAGIC "\377\377\377\377\0\0\0\0"),
	    "!in: logits stream for a vocabulary of 4294967295 tokens");
	reads("binary: huge row that does not come",
	    BYTES(MAGIC "\0\0\0\1\0\0\0\0" "\1\0\0\0\1\0\0\0\0\0\200\77"),
	    "16777216:; !in: byte 28: logits of token 1 are cut off (4 of "
	    "67108864 bytes)");
	reads("binary: more ids than tokens", BYTES(MAGIC "\2\0\0\0\3\0\0\0"),
	    "!in: logits stream with 3 end-of-generation tokens, vocabulary "
	    "has 2");
	reads("binary: negative id", BYTES(MAGIC "\2\0\0\0\1\0\0\0"
	    "\377\377\377\377"), "!in: end-of-generation token -1 is not");
	reads("binary: version", BYTES("\x89PLG\2\0\0\0"),
	    "!in: byte 4: logits stream of version 2, version 1 is supported");
	reads("a token stream", BYTES("12 7 9\n"),
	    "!in: not a logits stream: it begins with '12 7 9\\n'");
	reads("nothing", "", 0, "!in: empty, not a logits stream");
}

/* Cut at every byte, a stream is whole only where a record ends. */
static void
truncated(void)
{
	static const char b[] = MAGIC "\2\0\0\0\1\0\0\0\1\0\0\0"
	    "\0\0\0\0\0\0\0\0" "\1\0\0\0\1\0\0\0\0\0\200\77\0\0\0\300"
	    "\377\377\377\377\0\0\0\0";
	static const char t[] = "# 2 1\n0\n1\t1 -2\n+\n\n";
	bool ok = true;
	size_t n;

	for (n = 0; n < sizeof b; n++)
		ok = ok && (strchr(read_all(b, n), '!') == NULL) ==
		    (n == 20 || n == 28 || n == 44 || n == 52);
	check(ok, "binary: cut anywhere", "");
	for (ok = true, n = 0; n < sizeof t; n++)
		ok = ok && (strchr(read_all(t, n), '!') == NULL) ==
		    (n > 0 && t[n - 1] == '\n');
	check(ok, "text: cut anywhere", "");
}

/* A row is handed out as soon as its last byte is there, the line's end after
   it as soon as that is. */
static void
at_once(const char *what, const char *head, size_t n_head, const char *row,
    size_t n_row, const char *end, size_t n_end)
{
	struct pico_err err = {0};
	struct pico_logits_in *in;
	const float *logits = NULL;
	int fd[2], event;
	int32_t v = -1;

	if (pipe(fd) < 0 || write(fd[1], head, n_head) < 0 ||
	    write(fd[1], row, n_row) < 0)
		exit(1);
	in = pico_logits_open(fd[0], "in", &err);
	event = in == NULL ? -1 : pico_logits_next(in, &v, &logits, &err);
	check(event == PICO_TOKEN && v == 1 && logits != NULL &&
	    logits[1] == 2, what, err.msg);
	if (n_end > 0 && write(fd[1], end, n_end) < 0)
		exit(1);
	event = in == NULL ? -1 : pico_logits_next(in, &v, &logits, &err);
	check(event == PICO_LINE_END, what, err.msg);
	pico_logits_close(in);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

/* What the writer wrote the reader reads, bit for bit. */
static void
round_trip(bool as_text)
{
	enum { N = 20000 };
	static float rows[3][N];
	static const int32_t eog[] = { 5, 19999 };
	struct pico_err err = {0};
	struct pico_logits_out out;
	struct pico_logits_in *in;
	const float *logits;
	const int32_t *got;
	FILE *f = tmpfile();
	size_t n;
	uint32_t i, bits;
	int k, fd;
	int32_t v;
	bool ok;

	if (f == NULL)
		exit(1);
	for (i = 0; i < N; i++) {	/* all exponents, subnormals too */
		bits = (uint32_t)(pico_draw(1, 2, i) * 4294967295.0);
		if ((bits & 0x7f800000) == 0x7f800000)
			bits &= 0xff800000;	/* infinities */
		memcpy(&rows[0][i], &bits, sizeof bits);
		rows[1][i] = (float)i / 7;
		rows[2][i] = i == 3 ? NAN : -0.0f;
	}
	fd = fileno(f);
	ok = pico_logits_out_open(&out, fd, as_text, N, eog, 2, &err) == 0 &&
	    pico_logits_put(&out, 7, 0, NULL, &err) == 0 &&
	    pico_logits_put(&out, 8, 0, rows[0], &err) == 0 &&
	    pico_logits_put(&out, 9, PICO_ROW_LINE_END, rows[1], &err) == 0 &&
	    pico_logits_put(&out, 10, 0, rows[2], &err) == 0 &&
	    pico_logits_end(&out, PICO_END_CONTEXT, &err) == 0 &&
	    pico_logits_flush(&out, &err) == 0;
	pico_logits_out_close(&out);
	(void)lseek(fd, 0, SEEK_SET);
	in = pico_logits_open(fd, "in", &err);
	ok = ok && in != NULL && pico_logits_n_vocab(in) == N;
	got = ok ? pico_logits_eog(in, &n) : eog;
	ok = ok && n == 2 && memcmp(got, eog, sizeof eog) == 0;
	ok = ok && pico_logits_next(in, &v, &logits, &err) == PICO_TOKEN &&
	    v == 7 && logits == NULL;
	for (k = 0; k < 3; k++) {
		ok = ok && pico_logits_next(in, &v, &logits, &err) ==
		    PICO_TOKEN && v == 8 + k && logits != NULL &&
		    memcmp(logits, rows[k], sizeof rows[k]) == 0;
		if (k == 1)
			ok = ok && pico_logits_next(in, &v, &logits, &err) ==
			    PICO_LINE_END;
	}
	ok = ok && pico_logits_next(in, &v, &logits, &err) == PICO_SEQ_END &&
	    v == (as_text ? PICO_END_NONE : PICO_END_CONTEXT) &&
	    pico_logits_next(in, &v, &logits, &err) == PICO_EOF;
	check(ok, as_text ? "text: round trip" : "binary: round trip",
	    err.msg);
	pico_logits_close(in);
	(void)fclose(f);
}

static void
write_fails(void)
{
	struct pico_err err = {0};
	struct pico_logits_out out;
	int fd = open("/dev/full", O_WRONLY);

	if (fd < 0) {
		printf("ok %d - full disk # SKIP no /dev/full\n", ++n_run);
		return;
	}
	check(pico_logits_out_open(&out, fd, false, 1, NULL, 0, &err) == 0 &&
	    pico_logits_flush(&out, &err) < 0 &&
	    strstr(err.msg, "No space left") != NULL, "full disk", err.msg);
	pico_logits_out_close(&out);
	(void)close(fd);
}

int
main(void)
{
	text();
	binary();
	truncated();
	at_once("text: no look-ahead", BYTES("# 2\n"), BYTES("1\t1 2\n"),
	    BYTES("+\n"));
	at_once("binary: no look-ahead", BYTES(MAGIC "\2\0\0\0\0\0\0\0"),
	    BYTES("\1\0\0\0\3\0\0\0\0\0\200\77\0\0\0\100"), "", 0);
	round_trip(false);
	round_trip(true);
	write_fails();
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
