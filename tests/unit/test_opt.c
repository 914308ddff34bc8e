/* SPDX-License-Identifier: MIT */
/* Numbers and options as users write them. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/base/base.h"

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

/* ---- numbers ---- */

static void
int_is(const char *text, int64_t min, int64_t max, int64_t want)
{
	struct pico_err err = {0};
	int64_t v = -77;
	int r = pico_parse_int(text, min, max, &v, &err);
	char what[100];

	(void)snprintf(what, sizeof what, "whole number '%s'", text);
	check(r == 0 && v == want && err.status == PICO_OK, what, err.msg);
}

static void
int_is_not(const char *text, int64_t min, int64_t max)
{
	struct pico_err err = {0};
	int64_t v = -77;
	int r = pico_parse_int(text, min, max, &v, &err);
	char what[400], part[400];

	(void)snprintf(what, sizeof what, "no whole number '%s'",
	    show(text, strlen(text)));
	(void)snprintf(part, sizeof part, "'%s' is not",
	    show(text, strlen(text)));
	check(r == -1 && v == -77 && err.status == PICO_USAGE &&
	    strncmp(err.msg, part, strlen(part)) == 0, what, err.msg);
}

static void
ints(void)
{
	static const char *const bad[] = {
		"", " ", "-", "+", "+5", " 5", "5 ", "5\n", "12x", "x12",
		"0x10", "1e3", "1.0", "1,000", "--5", "5-", "nan", "inf",
		"9223372036854775808", "18446744073709551616",
		"99999999999999999999999999", "\xd9\xa1",
	};
	size_t i;

	int_is("0", 0, 10, 0);
	int_is("007", 0, 10, 7);
	int_is("10", 0, 10, 10);
	int_is("-0", 0, 10, 0);
	int_is("-1", -1, 10, -1);
	int_is("2147483647", 0, INT32_MAX, INT32_MAX);
	int_is("9223372036854775807", 0, INT64_MAX, INT64_MAX);
	int_is("-9223372036854775808", INT64_MIN, 0, INT64_MIN);
	for (i = 0; i < COUNT(bad); i++)
		int_is_not(bad[i], INT64_MIN, INT64_MAX);
	int_is_not("-9223372036854775809", INT64_MIN, INT64_MAX);
	int_is_not("11", 0, 10);
	int_is_not("-1", 0, 10);
	int_is_not("2147483648", 0, INT32_MAX);
}

static void
real_is(const char *text, double min, double max, double want)
{
	struct pico_err err = {0};
	double v = -77;
	int r = pico_parse_real(text, min, max, &v, &err);
	char what[100];

	(void)snprintf(what, sizeof what, "number '%s'", text);
	check(r == 0 && v == want && err.status == PICO_OK, what, err.msg);
}

static void
real_is_not(const char *text, double min, double max)
{
	struct pico_err err = {0};
	double v = -77;
	int r = pico_parse_real(text, min, max, &v, &err);
	char what[400];

	(void)snprintf(what, sizeof what, "no number '%s'",
	    show(text, strlen(text)));
	check(r == -1 && v == -77 && err.status == PICO_USAGE, what, err.msg);
}

static void
reals(void)
{
	static const char *const bad[] = {
		"", " ", "nan", "NAN", "inf", "-inf", "infinity", "1e999",
		"-1e999", "0x1p3", "0,5", "1.2.3", "e5", "1e", ".", "-", "+",
		"5x", " 5", "5 ", "5\t", "--5", "1e5.0", "1-2", "1e+",
	};
	size_t i;

	real_is("0", 0, 1, 0);
	real_is("0.8", 0, HUGE_VAL, 0.8);
	real_is(".5", 0, 1, 0.5);
	real_is("1.", 0, 1, 1);
	real_is("1e-3", 0, 1, 1e-3);
	real_is("-2.5E+1", -HUGE_VAL, HUGE_VAL, -25);
	real_is("+1", 0, 1, 1);
	for (i = 0; i < COUNT(bad); i++)
		real_is_not(bad[i], -HUGE_VAL, HUGE_VAL);
	real_is_not("-0.1", 0, 1);
	real_is_not("1.0001", 0, 1);
	real_is_not("-1", 0, HUGE_VAL);
	/* a program that embeds the library may have set a locale */
	if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL) {
		real_is("0.5", 0, 1, 0.5);
		real_is_not("0,5", 0, 1);
		(void)setlocale(LC_ALL, "C");
	} else {
		n_run++;
		printf("ok %d - a locale with a comma # SKIP not installed\n",
		    n_run);
	}
}

static void
size_is(const char *text, bool good, uint64_t want)
{
	struct pico_err err = {0};
	uint64_t v = 77;
	int r = pico_parse_size(text, &v, &err);
	char what[100];

	(void)snprintf(what, sizeof what, "%s '%s'", good ? "size" : "no size",
	    text);
	check(good ? r == 0 && v == want && err.status == PICO_OK :
	    r == -1 && v == 77 && err.status == PICO_USAGE, what, err.msg);
}

static void
sizes(void)
{
	static const char *const bad[] = {
		"", "K", "-1", "-1K", "1KK", "1T", "1.5G", "1 M", " 1", "x",
		"9223372036854775807K", "9223372036854775808",
		"00000000000000000000000000000000000000001",
	};
	size_t i;

	size_is("0", true, 0);
	size_is("4096", true, 4096);
	size_is("64K", true, 65536);
	size_is("64k", true, 65536);
	size_is("200M", true, 200u << 20);
	size_is("2G", true, 2ull << 30);
	size_is("8589934591G", true, 8589934591ull << 30);
	for (i = 0; i < COUNT(bad); i++)
		size_is(bad[i], false, 0);
}

/* ---- options ---- */

static bool flag_a, flag_b;
static int64_t number;
static double real;
static const char *text, *called_with;
static struct pico_list list;

static int
call(const struct pico_opt *o, const char *arg, struct pico_err *err)
{
	if (strcmp(arg, "bad") == 0)
		return fail_usage(err, "'%s' is bad", arg);
	*(const char **)o->to = arg;
	return 0;
}

static const struct pico_opt table[] = {
	{ 'a', "all", PICO_OPT_FLAG, &flag_a, NULL, "a flag", 0, 0, NULL },
	{ 'b', NULL, PICO_OPT_FLAG, &flag_b, NULL, "short only", 0, 0, NULL },
	{ 0, "no-all", PICO_OPT_OFF, &flag_a, NULL, "off", 0, 0, NULL },
	{ 'n', "number", PICO_OPT_INT, &number, "N", "a number", 0, 0, NULL },
	{ 0, "real", PICO_OPT_CALL, &real, "X", "a real", 0, 1, pico_opt_real },
	{ 'o', "out", PICO_OPT_TEXT, &text, "FILE", "a text", 0, 0, NULL },
	{ 'l', "list", PICO_OPT_LIST, &list, "TEXT", "texts", 0, 0, NULL },
	{ 'c', "call", PICO_OPT_CALL, &called_with, "X", "calls", 0, 0, call },
	{ 0, "hidden", PICO_OPT_FLAG, &flag_b, NULL, NULL, 0, 0, NULL },
	{ 0, NULL, PICO_OPT_END, NULL, NULL, NULL, 0, 0, NULL },
};

/* Parses words separated by '|'; the first is the program's name. Everything
   found, and the operands, as text. */
static const char *
parse(const char *words)
{
	static char out[1000], copy[300];
	char *argv[30], *p = copy;
	struct pico_err err = {0};
	int argc = 0, first, i;
	size_t n, k;

	flag_a = flag_b = false;
	number = -1;
	real = -1;
	text = called_with = "-";
	free(list.v);
	list = (struct pico_list){0};
	(void)snprintf(copy, sizeof copy, "%s", words);
	while (p != NULL) {
		argv[argc++] = p;
		p = strchr(p, '|');
		if (p != NULL)
			*p++ = '\0';
	}
	argv[argc] = NULL;
	first = pico_options(table, argc, argv, &err);
	if (first < 0) {
		(void)snprintf(out, sizeof out, "%d! %s", err.status, err.msg);
		return out;
	}
	n = (size_t)snprintf(out, sizeof out, "a%d b%d n%d r%g o%s c%s", flag_a,
	    flag_b, (int)number, real, text, called_with);
	for (k = 0; k < list.n; k++)
		n += (size_t)snprintf(out + n, sizeof out - n, " l%s",
		    list.v[k]);
	for (i = first; i < argc; i++)
		n += (size_t)snprintf(out + n, sizeof out - n, " (%s)",
		    argv[i]);
	return out;
}

static void
parses(const char *words, const char *want)
{
	const char *got = parse(words);

	check(strcmp(got, want) == 0, show(words, strlen(words)), got);
}

static void
options(void)
{
	parses("p", "a0 b0 n-1 r-1 o- c-");
	parses("p|-a|-n|5", "a1 b0 n5 r-1 o- c-");
	parses("p|-abn5", "a1 b1 n5 r-1 o- c-");
	parses("p|-bof|x", "a0 b1 n-1 r-1 of c- (x)");
	parses("p|--all|--number=5|--real|0.5", "a1 b0 n5 r0.5 o- c-");
	parses("p|--all|--no-all", "a0 b0 n-1 r-1 o- c-");
	parses("p|--out=|x", "a0 b0 n-1 r-1 o c- (x)");
	parses("p|--out=a=b", "a0 b0 n-1 r-1 oa=b c-");
	parses("p|-o|--|x", "a0 b0 n-1 r-1 o-- c- (x)");
	parses("p|x|-a|y|-n5|z", "a1 b0 n5 r-1 o- c- (x) (y) (z)");
	parses("p|-a|--|-b|--all|--", "a1 b0 n-1 r-1 o- c- (-b) (--all) (--)");
	parses("p|-|-a", "a1 b0 n-1 r-1 o- c- (-)");
	parses("p|", "a0 b0 n-1 r-1 o- c- ()");
	parses("p|-n1|-n2", "a0 b0 n2 r-1 o- c-");
	parses("p|-l|x|--list=y|-lz", "a0 b0 n-1 r-1 o- c- lx ly lz");
	parses("p|-c|good", "a0 b0 n-1 r-1 o- cgood");
	parses("p|--hidden", "a0 b1 n-1 r-1 o- c-");
	parses("p|-n|0", "a0 b0 n0 r-1 o- c-");

	parses("p|-x", "2! unknown option '-x'");
	parses("p|-ax", "2! unknown option '-x'");
	parses("p|--al", "2! unknown option '--al'");
	parses("p|--alll", "2! unknown option '--alll'");
	parses("p|--all=1", "2! option --all takes no value");
	parses("p|-n", "2! option -n needs a value");
	parses("p|--number", "2! option --number needs a value");
	parses("p|-n|12x", "2! option -n: '12x' is not a whole number between "
	    "0 and 2147483647");
	parses("p|-n|", "2! option -n: '' is not a whole number between 0 and "
	    "2147483647");
	parses("p|-n|2147483648", "2! option -n: '2147483648' is not a whole "
	    "number between 0 and 2147483647");
	parses("p|--number=-1", "2! option --number: '-1' is not a whole "
	    "number between 0 and 2147483647");
	parses("p|--real=1.5", "2! option --real: '1.5' is not a number "
	    "between 0 and 1");
	parses("p|--real=", "2! option --real: '' is not a number between 0 "
	    "and 1");
	parses("p|-c|bad", "2! option -c: 'bad' is bad");
	parses("p|-\n", "2! unknown option '-\\n'");
}

/* Every option that is not hidden is in the help, one line each. */
static void
help(void)
{
	char buf[1000];
	FILE *f = tmpfile();
	size_t n, lines = 0, i;

	if (f == NULL)
		exit(1);
	pico_options_help(table, f);
	rewind(f);
	n = fread(buf, 1, sizeof buf - 1, f);
	buf[n] = '\0';
	(void)fclose(f);
	for (i = 0; i < n; i++)
		lines += buf[i] == '\n';
	check(lines == COUNT(table) - 2 && strstr(buf, "-n, --number N") &&
	    strstr(buf, "-b") && strstr(buf, "--no-all") &&
	    !strstr(buf, "hidden"), "help: a line an option", buf);
}

int
main(void)
{
	ints();
	reals();
	sizes();
	options();
	help();
	free(list.v);
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
