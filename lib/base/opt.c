/* SPDX-License-Identifier: MIT */
/* Options: help, usage and parser from one table. */
#include <stdlib.h>
#include <string.h>

#include "base.h"

static bool
takes_arg(const struct pico_opt *o)
{
	return o->kind != PICO_OPT_FLAG && o->kind != PICO_OPT_OFF;
}

/* "-n", "--top-k" or both, for messages: the one that was used. */
static int
store(const struct pico_opt *o, const char *used, const char *arg,
    struct pico_err *err)
{
	struct pico_err why = {0};
	double lo = o->min, hi = o->max;
	struct pico_list *list;
	const char **v;
	int r = 0;

	if (lo == 0 && hi == 0)
		hi = INT32_MAX;
	switch (o->kind) {
	case PICO_OPT_FLAG:
		*(bool *)o->to = true;
		break;
	case PICO_OPT_OFF:
		*(bool *)o->to = false;
		break;
	case PICO_OPT_INT:
		r = pico_parse_int(arg, (int64_t)lo, (int64_t)hi, o->to, &why);
		break;
	case PICO_OPT_SIZE:
		r = pico_parse_size(arg, o->to, &why);
		break;
	case PICO_OPT_TEXT:
		*(const char **)o->to = arg;
		break;
	case PICO_OPT_LIST:
		list = o->to;
		v = realloc(list->v, (list->n + 1) * sizeof *v);
		if (v == NULL)
			return fail(err, "option %s: no memory for %zu bytes",
			    used, (list->n + 1) * sizeof *v);
		list->v = v;
		list->v[list->n++] = arg;
		break;
	case PICO_OPT_CALL:
		r = o->fn(o, arg, &why);
		break;
	case PICO_OPT_END:
		break;
	}
	/* not every failure is the user's: memory and files fail, too */
	return r < 0 ? pico_fail(err, (enum pico_status)why.status,
	    "option %s: %s", used, why.msg) : 0;
}

static const struct pico_opt *
find_long(const struct pico_opt *t, const char *name, size_t n)
{
	for (; t->kind != PICO_OPT_END; t++)
		if (t->name != NULL && strlen(t->name) == n &&
		    memcmp(t->name, name, n) == 0)
			return t;
	return NULL;
}

static const struct pico_opt *
find_short(const struct pico_opt *t, char ch)
{
	for (; t->kind != PICO_OPT_END; t++)
		if (t->ch != 0 && t->ch == ch)
			return t;
	return NULL;
}

/* --name, --name=value or --name value; *i moves past what was used. */
static int
parse_long(const struct pico_opt *t, int argc, char **argv, int *i,
    struct pico_err *err)
{
	const char *name = argv[*i] + 2, *eq = strchr(name, '=');
	size_t n = eq != NULL ? (size_t)(eq - name) : strlen(name);
	const struct pico_opt *o = find_long(t, name, n);
	char used[64];

	(void)snprintf(used, sizeof used, "--%.*s", (int)MIN(n, 50), name);
	if (o == NULL)
		return fail_usage(err, "unknown option '%s'",
		    show(used, strlen(used)));
	++*i;
	if (!takes_arg(o)) {
		if (eq != NULL)
			return fail_usage(err, "option %s takes no value",
			    used);
		return store(o, used, NULL, err);
	}
	if (eq != NULL)
		return store(o, used, eq + 1, err);
	if (*i == argc)
		return fail_usage(err, "option %s needs a value", used);
	return store(o, used, argv[(*i)++], err);
}

/* -abn5 or -n 5 */
static int
parse_short(const struct pico_opt *t, int argc, char **argv, int *i,
    struct pico_err *err)
{
	const char *p = argv[(*i)++] + 1;
	const struct pico_opt *o;
	char used[8];

	for (; *p != '\0'; p++) {
		o = find_short(t, *p);
		(void)snprintf(used, sizeof used, "-%s", show(p, 1));
		if (o == NULL)
			return fail_usage(err, "unknown option '%s'", used);
		if (!takes_arg(o)) {
			if (store(o, used, NULL, err) < 0)
				return -1;
			continue;
		}
		if (p[1] != '\0')
			return store(o, used, p + 1, err);
		if (*i == argc)
			return fail_usage(err, "option %s needs a value",
			    used);
		return store(o, used, argv[(*i)++], err);
	}
	return 0;
}

int
pico_options(const struct pico_opt *t, int argc, char **argv,
    struct pico_err *err)
{
	int i = 1, k, n_operands = 0, first;
	char **operands;

	operands = mem_new((uint64_t)argc + 1, sizeof *operands, "operands",
	    err);
	if (operands == NULL)
		return -1;
	while (i < argc) {
		const char *a = argv[i];

		if (strcmp(a, "--") == 0) {
			for (i++; i < argc; i++)
				operands[n_operands++] = argv[i];
		} else if (a[0] == '-' && a[1] == '-') {
			if (parse_long(t, argc, argv, &i, err) < 0)
				goto bad;
		} else if (a[0] == '-' && a[1] != '\0') {
			if (parse_short(t, argc, argv, &i, err) < 0)
				goto bad;
		} else {
			operands[n_operands++] = argv[i++];
		}
	}
	first = argc - n_operands;
	for (k = 0; k < n_operands; k++)
		argv[first + k] = operands[k];
	free(operands);
	return first;
bad:
	free(operands);
	return -1;
}

void
pico_options_help(const struct pico_opt *t, FILE *out)
{
	char left[64], ch[5];

	for (; t->kind != PICO_OPT_END; t++) {
		if (t->help == NULL)
			continue;
		ch[0] = '\0';
		if (t->ch != 0)
			(void)snprintf(ch, sizeof ch, "-%c%s", t->ch,
			    t->name != NULL ? ", " : "");
		(void)snprintf(left, sizeof left, "%4s%s%s%s%s", ch,
		    t->name != NULL ? "--" : "",
		    t->name != NULL ? t->name : "",
		    t->arg != NULL ? " " : "", t->arg != NULL ? t->arg : "");
		(void)fprintf(out, "  %-28s %s\n", left, t->help);
	}
}
