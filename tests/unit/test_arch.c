/* SPDX-License-Identifier: MIT */
/*
 * The forward pass against the right logits of tiny models (a column of
 * MANIFEST.tsv tells how near), and against itself to the last bit: in one
 * piece, token by token, with other tokens in the batch, on other threads.
 * Reads tests/data/arch and, if it is there, ../shared/conformance/arch.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/base/base.h"

static int n_run, n_failed;

static void
check(bool ok, const char *what, const char *remark)
{
	n_run++;
	n_failed += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", n_run, what);
	if (remark[0] != '\0')
		printf("# %s\n", remark);
}

/* ---- a model and its files ---- */

struct loaded {
	struct pico_gguf *gguf;
	struct pico_model *model;
	int32_t ids[256];
	size_t n;
	size_t n_vocab;
};

static bool
load(struct loaded *l, const char *path, struct pico_err *err)
{
	*l = (struct loaded){0};
	if (pico_gguf_open(&l->gguf, path, 0, err) < 0)
		return false;
	l->model = pico_model_open(l->gguf, err);
	if (l->model == NULL)
		return false;
	l->n_vocab = pico_model_info(l->model).n_vocab;
	return true;
}

static void
unload(struct loaded *l)
{
	pico_model_close(l->model);
	pico_gguf_close(l->gguf);
}

static size_t
read_ids(const char *path, int32_t *ids, size_t max)
{
	FILE *f = fopen(path, "r");
	size_t n = 0;
	int id;

	if (f == NULL)
		return 0;
	while (n < max && fscanf(f, "%d", &id) == 1)
		ids[n++] = id;
	(void)fclose(f);
	return n;
}

static struct pico_ctx *
context(const struct loaded *l, struct pico_ctx_params p)
{
	struct pico_err err = {0};
	struct pico_ctx *c = pico_ctx_new(l->model, &p, &err);

	if (c == NULL) {
		printf("# %s\n", err.msg);
		exit(2);
	}
	return c;
}

/*
 * Logits after each id, computed in passes of at most `step` ids; if `beside`,
 * each pass also holds a column of another sequence.
 */
static float *
forward(const struct loaded *l, struct pico_ctx_params p, size_t step,
    bool beside)
{
	float *out = calloc(l->n * l->n_vocab, sizeof *out);
	struct pico_col cols[260];
	struct pico_err err = {0};
	const float *row;
	struct pico_ctx *c;
	size_t i, k, n;

	if (out == NULL)
		exit(2);
	p.n_seq = beside ? 2 : 1;
	c = context(l, p);
	for (i = 0; i < l->n; i += n) {
		n = MIN(step, l->n - i);
		for (k = 0; k < n; k++)
			cols[k] = (struct pico_col){ l->ids[i + k], 0, true };
		if (beside)
			cols[n] = (struct pico_col){ l->ids[l->n - 1 - i], 1,
			    i % 2 == 0 };
		if (pico_ctx_eval(c, cols, n + beside, &err) < 0) {
			printf("# %s\n", err.msg);
			exit(2);
		}
		for (k = 0; k < n; k++) {
			row = pico_ctx_logits(c, k);
			memcpy(out + (i + k) * l->n_vocab, row,
			    l->n_vocab * sizeof *row);
		}
	}
	pico_ctx_free(c);
	return out;
}

static bool
same_bits(const struct loaded *l, const float *want, struct pico_ctx_params p,
    size_t step, bool beside)
{
	float *got = forward(l, p, step, beside);
	bool same = memcmp(got, want, l->n * l->n_vocab * sizeof *got) == 0;

	free(got);
	return same;
}

/* ---- one case ---- */

struct expect {
	char name[64];
	uint32_t n_ctx;
	double tolerance;
	bool greedy;
};

static void
logits_case(const struct loaded *l, const struct expect *e, const char *path)
{
	struct pico_ctx_params p = {
		.n_ctx = e->n_ctx, .n_threads = 1, .kv = PICO_CACHE_F32,
	};
	size_t i, n = l->n * l->n_vocab, got;
	float *want = calloc(n + 1, sizeof *want), *logits;
	double diff = 0, d;
	FILE *f = fopen(path, "rb");
	char what[128], remark[128];

	if (want == NULL || f == NULL)
		exit(2);
	got = fread(want, sizeof *want, n + 1, f);
	(void)fclose(f);
	logits = forward(l, p, l->n, false);
	for (i = 0; i < n; i++) {
		d = fabs((double)logits[i] - want[i]);
		if (!(d <= diff))	/* a NaN sticks */
			diff = d;
	}
	(void)snprintf(what, sizeof what, "%s: logits", e->name);
	(void)snprintf(remark, sizeof remark, "largest error %.3g of %.3g",
	    diff, e->tolerance);
	check(l->n > 0 && got == n && diff <= e->tolerance, what, remark);

	(void)snprintf(what, sizeof what, "%s: the same bits however computed",
	    e->name);
	check(same_bits(l, logits, p, 1, false) &&
	    same_bits(l, logits, p, 5, false) &&
	    same_bits(l, logits, p, 7, true) &&
	    (p.n_threads = 3, same_bits(l, logits, p, l->n, false)) &&
	    same_bits(l, logits, p, 3, true), what, "");
	free(logits);

	p.kv = PICO_CACHE_F16;
	p.n_threads = 1;
	logits = forward(l, p, l->n, false);
	(void)snprintf(what, sizeof what, "%s: the same bits, cache of halves",
	    e->name);
	check(same_bits(l, logits, p, 1, false) &&
	    (p.n_threads = 4, same_bits(l, logits, p, 6, true)), what, "");
	free(logits);
	free(want);
}

static int32_t
argmax(const float *x, size_t n)
{
	size_t i, best = 0;

	for (i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return (int32_t)best;
}

static void
greedy_case(const struct loaded *l, const struct expect *e, const char *path)
{
	struct pico_ctx_params p = {
		.n_ctx = e->n_ctx, .n_threads = 2, .kv = PICO_CACHE_F32,
	};
	struct pico_ctx *c = context(l, p);
	int32_t want[32] = {0};
	struct pico_col cols[8];
	struct pico_err err = {0};
	size_t i, n = read_ids(path, want, 32), same = 0;
	char what[128], remark[128];

	for (i = 0; i < 8; i++)
		cols[i] = (struct pico_col){ l->ids[i], 0, i == 7 };
	if (pico_ctx_eval(c, cols, 8, &err) < 0)
		exit(2);
	for (i = 7; same < n; i = 0) {
		int32_t id = argmax(pico_ctx_logits(c, i), l->n_vocab);

		if (id != want[same])
			break;
		same++;
		cols[0] = (struct pico_col){ id, 0, true };
		if (pico_ctx_eval(c, cols, 1, &err) < 0)
			exit(2);
	}
	pico_ctx_free(c);
	(void)snprintf(what, sizeof what, "%s: greedy continuation%s", e->name,
	    e->greedy ? "" : " # SKIP other engines differ with rounding");
	(void)snprintf(remark, sizeof remark, "%zu of %zu ids", same, n);
	check(!e->greedy || (n == 32 && same == n), what, remark);
}

static void
one_case(const char *dir, const struct expect *e)
{
	struct loaded l;
	struct pico_err err = {0};
	char path[300], what[128];

	(void)snprintf(path, sizeof path, "%s/%s.gguf", dir, e->name);
	(void)snprintf(what, sizeof what, "%s: opens", e->name);
	if (!load(&l, path, &err)) {
		check(false, what, err.msg);
		unload(&l);
		return;
	}
	(void)snprintf(path, sizeof path, "%s/%s.tokens", dir, e->name);
	l.n = read_ids(path, l.ids, COUNT(l.ids));
	(void)snprintf(path, sizeof path, "%s/%s.f32", dir, e->name);
	logits_case(&l, e, path);
	(void)snprintf(path, sizeof path, "%s/%s.greedy", dir, e->name);
	greedy_case(&l, e, path);
	unload(&l);
}

/* Column i (from 0) of a line of a table, as a number or as text. */
static const char *
column(const char *line, int i)
{
	for (; i > 0 && line != NULL; i--) {
		line = strchr(line, '\t');
		line = line != NULL ? line + 1 : NULL;
	}
	return line != NULL ? line : "";
}

static bool
column_is(const char *line, int i, const char *text)
{
	const char *p = column(line, i);
	size_t n = strlen(text);

	return strncmp(p, text, n) == 0 && p[n] == '\t';
}

/* All cases of a directory. */
static void
all_cases(const char *dir)
{
	char path[300], line[2000];
	FILE *f;

	(void)snprintf(path, sizeof path, "%s/MANIFEST.tsv", dir);
	f = fopen(path, "r");
	if (f == NULL) {
		n_run++;
		printf("ok %d - cases in %s # SKIP not there\n", n_run, dir);
		return;
	}
	while (fgets(line, sizeof line, f) != NULL) {
		struct expect e;
		bool exact = column_is(line, 5, "F16") ||
		    column_is(line, 5, "F32");

		if (column_is(line, 1, "arch"))
			continue;
		(void)snprintf(e.name, sizeof e.name, "%.*s",
		    (int)strcspn(line, "\t"), line);
		e.n_ctx = (uint32_t)strtoul(column(line, 3), NULL, 10);
		e.tolerance = strtod(column(line, exact ? 10 : 12), NULL);
		e.greedy = exact || column_is(line, 15, "same");
		one_case(dir, &e);
	}
	(void)fclose(f);
}

/* A set of files is the model it was cut from. */
static void
split_sets(void)
{
	static const char *const sets[] = {
		"../shared/conformance/gguf/valid/tiny_llama.gguf",
		"../shared/conformance/gguf/valid/split2-00001-of-00002.gguf",
		"../shared/conformance/gguf/valid/split3-00001-of-00003.gguf",
	};
	struct pico_ctx_params p = { .n_threads = 2 };
	struct pico_err err = {0};
	float *want = NULL;
	FILE *f = fopen(sets[0], "rb");
	size_t i, k;

	if (f == NULL) {
		n_run++;
		printf("ok %d - split sets # SKIP not there\n", n_run);
		return;
	}
	(void)fclose(f);
	for (i = 0; i < COUNT(sets); i++) {
		struct loaded l;

		if (!load(&l, sets[i], &err)) {
			check(false, sets[i], err.msg);
			unload(&l);
			continue;
		}
		l.n = 40;
		for (k = 0; k < l.n; k++)
			l.ids[k] = (int32_t)((1 + 97 * k) % l.n_vocab);
		if (i == 0)
			want = forward(&l, p, l.n, false);
		else
			check(want != NULL && same_bits(&l, want, p, l.n,
			    false), "a split set gives the same logits", "");
		unload(&l);
	}
	free(want);
}

/* What the interface promises of failures. */
static void
refusals(void)
{
	struct pico_ctx_params p = { .n_ctx = 4, .n_seq = 2, .chunk = 8 };
	struct pico_col col = { 0, 0, true }, cols[5] = {{0}};
	struct pico_err err = {0};
	struct loaded l;
	struct pico_ctx *c;
	size_t n, k;

	if (!load(&l, "tests/data/arch/llama-q8_0.gguf", &err)) {
		check(false, "refusals", err.msg);
		return;
	}
	c = context(&l, p);
	col.token = (int32_t)l.n_vocab;
	check(pico_ctx_eval(c, &col, 1, &err) < 0 && err.status == PICO_ERROR &&
	    pico_ctx_logits(c, 0) == NULL, "a token out of range", err.msg);
	err = (struct pico_err){0};
	col.token = -1;
	check(pico_ctx_eval(c, &col, 1, &err) < 0, "a token below 0", err.msg);
	err = (struct pico_err){0};
	col = (struct pico_col){ 0, 2, true };
	check(pico_ctx_eval(c, &col, 1, &err) < 0, "a sequence out of range",
	    err.msg);
	err = (struct pico_err){0};
	check(pico_ctx_eval(c, cols, 5, &err) < 0, "a sequence too long",
	    err.msg);
	(void)pico_ctx_tokens(c, 0, &n);
	check(n == 0, "a failed pass leaves the cache alone", "");
	err = (struct pico_err){0};
	for (k = 0; k < 4; k++)
		cols[k].logits = k == 2;
	check(pico_ctx_eval(c, cols, 4, &err) == 0 &&
	    pico_ctx_logits(c, 1) == NULL && pico_ctx_logits(c, 2) != NULL &&
	    pico_ctx_logits(c, 4) == NULL, "logits where they were asked for",
	    err.msg);
	pico_ctx_free(c);
	unload(&l);
}

int
main(void)
{
	all_cases("tests/data/arch");
	all_cases("../shared/conformance/arch");
	split_sets();
	refusals();
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
