/* SPDX-License-Identifier: MIT */
/* Samplers against cases computed from their definitions; draws; choices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/pico.h"

static int n_run, n_failed;

static void
check(bool ok, const char *what)
{
	n_failed += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", ++n_run, what);
}

/* ---- a small JSON reader: values in one array, linked by index ---- */

enum json_kind { NUL, NUMBER, STRING, LIST, MAP };

struct json {
	enum json_kind kind;
	double num;
	const char *key, *str;		/* terminated in place */
	struct json *first, *next;
};

static struct json pool[30000];
static size_t n_pool;

static char *
blanks(char *p)
{
	return p + strspn(p, " \t\r\n,:");
}

static char *
parse_string(char *p, const char **s)
{
	*s = ++p;
	p = strchr(p, '"');
	*p = '\0';
	return p + 1;
}

static char *
parse(char *p, struct json **out)
{
	struct json *j = *out = &pool[n_pool++], **last = &j->first;
	const char *key = NULL;
	char close = *p == '[' ? ']' : '}';

	if (*p == '"') {
		j->kind = STRING;
		return parse_string(p, &j->str);
	}
	if (*p == 'n') {
		j->num = -INFINITY;
		return p + 4;
	}
	if (*p != '[' && *p != '{') {
		j->kind = NUMBER;
		j->num = strtod(p, &p);
		return p;
	}
	j->kind = *p == '[' ? LIST : MAP;
	for (p = blanks(p + 1); *p != close; p = blanks(p)) {
		if (j->kind == MAP)
			p = blanks(parse_string(p, &key));
		p = parse(p, last);
		(*last)->key = key;
		last = &(*last)->next;
	}
	return p + 1;
}

static const struct json *
get(const struct json *map, const char *key)
{
	const struct json *j;

	for (j = map->first; j != NULL; j = j->next)
		if (strcmp(j->key, key) == 0)
			return j;
	return NULL;
}

static double
number(const struct json *map, const char *key, double missing)
{
	const struct json *j = get(map, key);

	return j == NULL ? missing : j->num;
}

static struct json *
load(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct json *j;
	static char *text;		/* the tree points into it */
	long n;

	if (f == NULL)
		return NULL;
	(void)fseek(f, 0, SEEK_END);
	n = ftell(f);
	rewind(f);
	free(text);
	text = malloc((size_t)n + 1);
	if (text == NULL || fread(text, 1, (size_t)n, f) != (size_t)n)
		exit(1);
	text[n] = '\0';
	(void)fclose(f);
	n_pool = 0;
	memset(pool, 0, sizeof pool);
	(void)parse(blanks(text), &j);
	return j;
}

/* ---- cases ---- */

struct setup {
	float logits[512];
	uint32_t n;
	int32_t prev[512];
	size_t n_prev;
	struct pico_step steps[8];
	struct pico_bias bias[16];
	struct pico_chain chain;
	struct pico_breakers *breakers;
};

static void
read_breakers(struct setup *u, const struct json *b)
{
	const struct json *id;
	int32_t ids[8];
	size_t n;

	u->chain.breakers = u->breakers = pico_breakers_new(512, NULL);
	for (; b != NULL; b = b->next) {
		for (n = 0, id = b->first; id != NULL; id = id->next)
			ids[n++] = (int32_t)id->num;
		if (pico_breakers_add(u->breakers, ids, n, NULL) < 0)
			exit(1);
	}
}

static bool
read_step(struct setup *u, const struct json *j)
{
	struct pico_step *s = &u->steps[u->chain.n_steps++];
	const char *name = get(j, "name")->str;
	const struct json *b;

	*s = (struct pico_step){ .min_keep = (uint32_t)number(j, "min_keep",
	    0) };
	if (strcmp(name, "temp") == 0 || strcmp(name, "temp_ext") == 0) {
		s->kind = PICO_S_TEMP;
		s->a = number(j, "t", 1);
		s->b = number(j, "range", 0);
		s->c = number(j, "exponent", 1);
	} else if (strcmp(name, "top_n_sigma") == 0) {
		s->kind = PICO_S_TOP_N_SIGMA;
		s->a = number(j, "n", -1);
	} else if (strcmp(name, "xtc") == 0) {
		s->kind = PICO_S_XTC;
		s->a = 1;
		s->b = number(j, "threshold", 0.1);
	} else if (strcmp(name, "dry") == 0) {
		s->kind = PICO_S_DRY;
		s->n = (int64_t)number(j, "last_n", -1);
		s->a = number(j, "multiplier", 0);
		s->b = number(j, "base", 1.75);
		s->c = number(j, "allowed_length", 2);
		read_breakers(u, get(j, "breakers")->first);
	} else if (strcmp(name, "top_k") == 0) {
		s->kind = PICO_S_TOP_K;
		s->n = (int64_t)number(j, "k", 0);
	} else if (strcmp(name, "top_p") == 0) {
		s->kind = PICO_S_TOP_P;
		s->a = number(j, "p", 1);
	} else if (strcmp(name, "min_p") == 0) {
		s->kind = PICO_S_MIN_P;
		s->a = number(j, "p", 0);
	} else if (strcmp(name, "typical") == 0) {
		s->kind = PICO_S_TYPICAL;
		s->a = number(j, "p", 1);
	} else if (strcmp(name, "penalties") == 0) {
		s->kind = PICO_S_PENALTIES;
		s->n = (int64_t)number(j, "last_n", 0);
		s->a = number(j, "repeat", 1);
		s->b = number(j, "frequency", 0);
		s->c = number(j, "presence", 0);
	} else if (strcmp(name, "logit_bias") == 0) {
		s->kind = PICO_S_LOGIT_BIAS;
		for (b = get(j, "bias")->first; b != NULL; b = b->next)
			u->bias[u->chain.n_bias++] = (struct pico_bias){
			    (int32_t)b->first->num, b->first->next->num };
	} else {
		return false;
	}
	return true;
}

/* False if the chain has a sampler that is not ours. */
static bool
read_case(struct setup *u, const struct json *c)
{
	const struct json *j, *l = get(c, "logits");

	memset(u, 0, sizeof *u);
	u->chain.steps = u->steps;
	u->chain.bias = u->bias;
	for (j = (l != NULL ? l : get(c, "logits_are_log_of"))->first;
	    j != NULL; j = j->next)
		u->logits[u->n++] = (float)(l != NULL ? j->num : log(j->num));
	for (j = get(c, "prev")->first; j != NULL; j = j->next)
		u->prev[u->n_prev++] = (int32_t)j->num;
	for (j = get(c, "chain")->first; j != NULL; j = j->next)
		if (!read_step(u, j))
			return false;
	return true;
}

static double worst_logit, worst_p;

static bool
near(double got, double want, double tolerance, double *worst)
{
	double d = got == want ? 0 : fabs(got - want);

	*worst = fmax(*worst, d);
	return d <= tolerance;
}

/* Of a logit: rows are float32, the cases are not, and a small temperature
   makes large logits of that. */
static double
tolerance(double want)
{
	return isfinite(want) ? fmax(2e-4, 1e-6 * fabs(want)) : 0;
}

/* The candidates after each step, in order; or, in the cases of others, only
   the probabilities at the end. */
static bool
case_ok(struct setup *u, const struct json *c)
{
	struct pico_sampler *s = pico_sampler_new(u->n, NULL);
	const struct json *stage = get(c, "stages"), *want, *v;
	struct pico_seq seq = { .ids = u->prev, .n = u->n_prev };
	size_t n_steps = u->chain.n_steps, steps = 1;
	const struct pico_cand *got;
	struct pico_err err = {0};
	int64_t n, i;
	bool ok = true;

	if (stage == NULL)
		steps = n_steps;
	else
		stage = stage->first;
	for (; ok && steps <= n_steps; steps++) {
		u->chain.n_steps = steps;
		n = pico_sampler_run(s, &u->chain, u->logits, &seq, &got,
		    &err);
		want = stage != NULL ? get(stage, "candidates")->first :
		    get(c, "expected_probabilities_desc")->first;
		for (i = 0; ok && i < n; i++, want = want->next) {
			if (want == NULL) {
				ok = false;
				break;
			}
			v = want->first;
			if (stage == NULL)
				ok = near(got[i].p, want->num,
				    number(c, "tolerance", 0), &worst_p);
			else
				ok = got[i].id == (int32_t)v->num &&
				    near(got[i].logit, v->next->num,
				    tolerance(v->next->num), &worst_logit) && near(got[i].p,
				    v->next->next->num, 2e-5, &worst_p);
		}
		ok = ok && n > 0 && want == NULL;
		if (!ok)
			printf("# %s fails in step %zu: %s\n",
			    get(c, "name")->str, steps, err.msg);
		if (stage != NULL)
			stage = stage->next;
	}
	pico_sampler_free(s);
	return ok;
}

static void
file_ok(const char *path, const char *name, bool may_miss)
{
	struct json *all = load(path);
	const struct json *c;
	struct setup u;
	int n = 0, good = 0, other = 0;

	if (all == NULL && may_miss) {
		printf("ok %d - %s # SKIP no such file\n", ++n_run, name);
		return;
	}
	worst_logit = worst_p = 0;
	for (c = all == NULL ? NULL : all->first; c != NULL; c = c->next) {
		if (!read_case(&u, c)) {
			other++;
			continue;
		}
		n++;
		good += case_ok(&u, c);
		pico_breakers_free(u.breakers);
	}
	printf("# %s: %d of %d cases, %d of other samplers; largest "
	    "differences %.1e (logit), %.1e (p)\n", name, good, n, other,
	    worst_logit, worst_p);
	check(n > 0 && good == n && other == 0, name);
}

/* What mirostat keeps at some mu, and how each draw moves it. */
static bool
mirostat_ok(const struct json *c)
{
	const struct json *want, *moved;
	const struct pico_cand *got;
	struct pico_sampler *s;
	struct pico_seq seq = {0};
	struct pico_step step = { .kind = PICO_S_MIROSTAT,
	    .n = (int64_t)number(c, "version", 0), .a = number(c, "tau", 0),
	    .b = number(c, "eta", 0) };
	double start = number(c, "mu", 0) - 2 * step.a;
	static struct setup u;
	int64_t n, i;
	int32_t id;
	bool ok;

	u.n = 0;
	for (want = get(c, "logits")->first; want != NULL; want = want->next)
		u.logits[u.n++] = (float)want->num;
	u.chain = (struct pico_chain){ .steps = &step, .n_steps = 1 };
	s = pico_sampler_new(u.n, NULL);
	seq.drift = start;
	n = pico_sampler_run(s, &u.chain, u.logits, &seq, &got, NULL);
	want = get(c, "kept")->first;
	for (i = 0; i < n && want != NULL; i++, want = want->next)
		if (got[i].id != (int32_t)want->first->num ||
		    !near(got[i].p, want->first->next->num, 1e-6, &worst_p))
			break;
	ok = i == n && want == NULL;
	moved = get(c, "mu_after_if_selected")->first;
	for (; ok && moved != NULL; moved = moved->next) {
		id = -1;
		for (i = 0; id != atoi(moved->key) && i < 100000; i++) {
			seq = (struct pico_seq){ .seed = (uint64_t)i,
			    .drift = start };
			if (pico_sampler_draw(s, &u.chain, u.logits, &seq, &id,
			    NULL) < 0)
				break;
		}
		ok = id == atoi(moved->key) && near(2 * step.a + seq.drift,
		    moved->num, 1e-6, &worst_logit);
	}
	if (!ok)
		printf("# %s fails\n", get(c, "name")->str);
	pico_sampler_free(s);
	return ok;
}

static void
mirostat_file_ok(const char *path, const char *name, bool may_miss)
{
	struct json *all = load(path);
	const struct json *c;
	int n = 0, good = 0;

	if (all == NULL && may_miss) {
		printf("ok %d - %s # SKIP no such file\n", ++n_run, name);
		return;
	}
	worst_logit = worst_p = 0;
	for (c = all == NULL ? NULL : all->first; c != NULL; c = c->next) {
		n++;
		good += mirostat_ok(c);
	}
	printf("# %s: %d of %d cases; largest differences %.1e (mu), %.1e "
	    "(p)\n", name, good, n, worst_logit, worst_p);
	check(n > 0 && good == n, name);
}

/* ---- draws ---- */

static void
draws(void)
{
	enum { N = 100000, BINS = 100 };
	int hist[3][BINS] = {{0}}, i, k;
	uint64_t seed;
	double chi[3] = {0}, d, u;
	bool in_range = true;

	/* Known answers published with the generator: words 0 and 1, 2 and 3. */
	check(pico_draw(0, 0, 0) ==
	    (double)(0x6627e8d5e169c58dull >> 11) * 0x1p-53,
	    "draw: known answer, all zero");
	check(pico_draw_other(0, 0, 0) ==
	    (double)(0xbc57ac4c9b00dbd8ull >> 11) * 0x1p-53,
	    "draw: known answer, the other one");
	check(pico_draw(UINT64_MAX, UINT64_MAX, UINT64_MAX) ==
	    (double)(0x408f276d41c83b0eull >> 11) * 0x1p-53,
	    "draw: known answer, all ones");
	seed = 0x299f31d0a4093822ull;
	check(pico_draw(seed, 0x0370734413198a2eull, 0x85a308d3243f6a88ull) ==
	    (double)(0xd16cfe0994fdccebull >> 11) * 0x1p-53,
	    "draw: known answer, digits of pi");

	for (i = 0; i < N; i++) {
		for (k = 0; k < 3; k++) {
			u = pico_draw(k == 0 ? (uint64_t)i : 7,
			    k == 1 ? (uint64_t)i : 3,
			    k == 2 ? (uint64_t)i : 11);
			in_range = in_range && u >= 0 && u < 1;
			hist[k][(int)(u * BINS)]++;
		}
	}
	for (k = 0; k < 3; k++)
		for (i = 0; i < BINS; i++) {
			d = hist[k][i] - N / BINS;
			chi[k] += d * d / (N / BINS);
		}
	check(in_range, "draw: in [0,1)");
	/* 99 degrees of freedom: 160 is 4.3 standard deviations off */
	check(chi[0] < 160 && chi[1] < 160 && chi[2] < 160,
	    "draw: uniform over seeds, sequences and positions");
}

static void
choices(void)
{
	const struct pico_cand c[] = {
		{ 10, 0, 0 }, { 11, 0, 0.25 }, { 12, 0, 0 }, { 13, 0, 0.5 },
		{ 14, 0, 0.2499999 }, { 15, 0, 0 }
	};

	check(pico_choose(c, 6, 0) == 11, "choose: 0 skips the impossible");
	check(pico_choose(c, 6, 0.25) == 13, "choose: a border is the next's");
	check(pico_choose(c, 6, 0.7499) == 13, "choose: inside");
	check(pico_choose(c, 6, 0x1.fffffffffffffp-1) == 14,
	    "choose: past the sum takes the last possible");
}

/* ---- odd logits ---- */

static int64_t
run(const float *logits, uint32_t n, const struct pico_step *steps,
    size_t n_steps, struct pico_cand *best, struct pico_err *err)
{
	struct pico_sampler *s = pico_sampler_new(n, err);
	struct pico_chain chain = { .steps = steps, .n_steps = n_steps };
	static const int32_t ids[12];
	const struct pico_seq seq = { .ids = ids, .n = 12 };
	const struct pico_cand *out;
	int64_t r = pico_sampler_run(s, &chain, logits, &seq, &out, err);

	if (r >= 0 && err != NULL)
		*err = (struct pico_err){0};
	if (r > 0)
		*best = out[0];
	pico_sampler_free(s);
	return r;
}

static void
odd(void)
{
	enum { N_ALL = 8 };
	static const struct pico_step all[N_ALL] = {
		{ .kind = PICO_S_TYPICAL, .a = 0.9 },
		{ .kind = PICO_S_TOP_P, .a = 0.9 },
		{ .kind = PICO_S_MIN_P, .a = 0.1 },
		{ .kind = PICO_S_DRY, .n = -1, .a = 1, .b = 1.5 },
		{ .kind = PICO_S_TOP_N_SIGMA, .a = 1 },
		{ .kind = PICO_S_XTC, .a = 1, .b = 0.1 },
		{ .kind = PICO_S_TEMP, .a = 0.5, .b = 0.4, .c = 1 },
		{ .kind = PICO_S_MIROSTAT, .n = 2, .a = 5, .b = 0.1 }
	};
	static const struct pico_step mirostat = { .kind = PICO_S_MIROSTAT,
	    .n = 1, .a = 5, .b = 0.1 };
	static const struct pico_step tiny = { .kind = PICO_S_TEMP,
	    .a = 1e-308 };
	static const struct pico_step greedy = { .kind = PICO_S_TEMP };
	const float none[] = { -INFINITY, -INFINITY, -INFINITY };
	const float nan_at_2[] = { 1, -INFINITY, NAN, NAN };
	const float inf[] = { 1, INFINITY, 0, INFINITY };
	const float negative[] = { -7, -5, -5, -9 };
	struct pico_err err = {0};
	struct pico_cand b = {0};
	struct pico_sampler *s;
	struct pico_bias ban[] = { { 0, -INFINITY }, { 1, -INFINITY },
	    { 1, 5 }, { 2, 3 } };
	struct pico_chain chain = { .steps = &(struct pico_step){
	    .kind = PICO_S_LOGIT_BIAS }, .n_steps = 1, .bias = ban,
	    .n_bias = 4 };
	const struct pico_seq start = {0};
	const struct pico_cand *out;
	size_t i;

	check(run(nan_at_2, 4, all, N_ALL, &b, &err) < 0 && strcmp(err.msg,
	    "position 12: logit of token 2 is NaN") == 0, "NaN is refused");
	err = (struct pico_err){0};
	for (i = 0; i <= N_ALL; i++)
		if (run(none, 3, all, i, &b, &err) >= 0 || strcmp(err.msg,
		    "position 12: no token is possible") != 0 ||
		    run(none, 3, &all[i % N_ALL], 1, &b, NULL) >= 0)
			break;
	check(i == N_ALL + 1 && run(none, 3, &mirostat, 1, &b, NULL) < 0,
	    "all -infinity is refused");
	err = (struct pico_err){0};
	for (i = 0; i <= N_ALL; i++)
		if (run(inf, 4, all, i, &b, &err) < 1 || b.id != 1 ||
		    b.p != 1 || run(inf, 4, &all[i % N_ALL], 1, &b, &err) < 1 ||
		    b.id != 1 || b.p != 1)
			break;
	check(i == N_ALL + 1 && run(inf, 4, &mirostat, 1, &b, &err) == 1 &&
	    b.id == 1, "+infinity wins, the lowest id of several");
	check(run(negative, 4, &tiny, 1, &b, &err) > 0 && b.id == 1 &&
	    b.p == 1, "a tiny temperature is argmax");
	check(run(negative, 4, &greedy, 1, &b, &err) == 4 && b.id == 1 &&
	    b.p == 1, "temperature 0: lowest id on ties");

	s = pico_sampler_new(4, &err);
	check(pico_sampler_run(s, &chain, inf, &start, &out, &err) == 4 &&
	    out[0].id == 3 && out[3].id == 1 && out[3].p == 0,
	    "a ban is final, whatever the logit and other biases");
	ban[0].id = 4;
	check(pico_sampler_run(s, &chain, inf, &start, &out, &err) < 0 &&
	    err.status == PICO_USAGE, "a bias outside the vocabulary");
	pico_sampler_free(s);
	check(pico_sampler_new(0, &err) == NULL, "an empty vocabulary");
}

/* ---- properties ---- */

static bool
in_order(const struct pico_cand *c, int64_t n)
{
	double sum = n > 0 ? c[0].p : 1;
	int64_t i;

	for (i = 1; i < n; i++) {
		sum += c[i].p;
		if (c[i].logit > c[i - 1].logit || (c[i].logit ==
		    c[i - 1].logit && c[i].id < c[i - 1].id))
			return false;
	}
	return fabs(sum - 1) < 1e-9;
}

/* Logits from the draws; coarse, so that there are ties. */
static void
fill(float *logits, uint32_t n, uint64_t seed, double scale)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		logits[i] = (float)(floor(pico_draw(seed, 99, i) * 64) *
		    scale / 8);
}

static void
properties(void)
{
	enum { N = 5000 };
	static float logits[N];
	static int32_t prev[300];
	struct pico_sampler *s = pico_sampler_new(N, NULL);
	struct pico_step steps[6], *st;
	struct pico_chain chain = { .steps = steps, .n_steps = 6 };
	struct pico_seq seq = { .ids = prev, .n = 300 };
	const struct pico_cand *c;
	bool same = true, ordered = true, kept = true;
	uint64_t t;
	int64_t n;
	int32_t id, chosen;
	size_t i;
	double u;

	for (t = 0; t < 600; t++) {
		fill(logits, N, t, t % 3 == 0 ? 0.05 : t % 3);
		for (i = 0; i < 300; i++)	/* with repetitions */
			prev[i] = (int32_t)(pico_draw(t, 5, i % 70) * N);
		for (i = 0; i < 6; i++) {	/* any order */
			st = &steps[i];
			u = pico_draw(t, 6, i);
			*st = (struct pico_step){ .kind = (enum
			    pico_sampler_kind)(1 + (t + i * (1 + t % 7)) %
			    (PICO_S_COUNT - 1)), .a = u, .b = u, .c = 1,
			    .min_keep = (uint32_t)(t % 50) };
			switch (st->kind) {
			case PICO_S_TOP_K:
				st->n = (int64_t)(u * 6000) - 100;
				break;
			case PICO_S_PENALTIES:
				st->n = (int64_t)(u * 400) - 1;
				break;
			case PICO_S_DRY:
				st->n = -1;
				st->b = 1 + u;
				break;
			case PICO_S_MIN_P:
				st->a = u * u * u;
				break;
			case PICO_S_MIROSTAT:
				st->n = (int64_t)(u * 3);
				st->a = 5;
				break;
			default:
				break;
			}
		}
		seq.seed = t;
		n = pico_sampler_run(s, &chain, logits, &seq, &c, NULL);
		ordered = ordered && in_order(c, n);
		for (i = 0; i < 6 && steps[i].kind != PICO_S_MIROSTAT; i++)
			;
		kept = kept && (i < 6 || n >= (int64_t)(t % 50));
		chosen = pico_choose(c, (size_t)n, pico_draw(t, 0, 300));
		same = same && pico_sampler_draw(s, &chain, logits, &seq, &id,
		    NULL) == 0 && id == chosen;
	}
	pico_sampler_free(s);
	check(ordered, "candidates are in order, probabilities add up to 1");
	check(kept, "min_keep is kept");
	check(same, "drawing is running and choosing");
}

/* Rows that a sort may find hard, in whole, and as far as a draw needs them. */
static void
shapes(void)
{
	enum { N = 100000 };
	static float logits[N];
	struct pico_sampler *s = pico_sampler_new(N, NULL);
	struct pico_chain chain = { .n_steps = 0 };
	struct pico_seq seq = { .n = 3 };
	const struct pico_cand *c;
	bool ordered = true, same = true;
	int32_t id, chosen;
	int64_t n;
	int i, shape;

	for (shape = 0; shape < 5; shape++) {
		for (i = 0; i < N; i++)	/* up, down, one peak, level, saw */
			logits[i] = (float)(shape == 0 ? i : shape == 1 ? -i :
			    shape == 2 ? (i < N / 2 ? i : N - i) :
			    shape == 3 ? 0 : i % 317) / N;
		for (seq.seed = 0; seq.seed < 5; seq.seed++) {
			n = pico_sampler_run(s, &chain, logits, &seq, &c, NULL);
			ordered = ordered && n == N && in_order(c, n);
			chosen = pico_choose(c, (size_t)n, pico_draw(seq.seed,
			    0, 3));
			same = same && pico_sampler_draw(s, &chain, logits,
			    &seq, &id, NULL) == 0;
			same = same && id == chosen;
		}
	}
	pico_sampler_free(s);
	check(ordered && same, "rows of any shape are put in order");
}

/* A chain that begins with top-k does not make the list of all tokens; with a
   bias, even of 0, it does. */
static void
few(void)
{
	enum { N = 5003 };
	static float logits[N];
	static struct pico_cand all[100];
	struct pico_sampler *s = pico_sampler_new(N, NULL);
	struct pico_step steps[] = { { .kind = PICO_S_LOGIT_BIAS },
	    { .kind = PICO_S_PENALTIES, .n = 0 },
	    { .kind = PICO_S_TOP_N_SIGMA, .a = -1 },
	    { .kind = PICO_S_TOP_K }, { .kind = PICO_S_TEMP, .a = 0.7 } };
	struct pico_chain chain = { .steps = steps, .n_steps = 5,
	    .bias = &(struct pico_bias){ 3, 0 } };
	const struct pico_seq start = {0};
	const struct pico_cand *c;
	struct pico_err err[2];
	bool same = true, told = true;
	int64_t n, i;
	uint64_t t;

	for (t = 0; t < 300; t++) {
		uint32_t k = (uint32_t)t % 100 + 1, at = (uint32_t)(t * 211) % N;

		fill(logits, N, t, t % 3);
		if (t % 5 == 0)
			logits[N - 1 - at] = t % 2 == 0 ? 1000 : INFINITY;
		for (i = 0; t % 7 == 0 && i < N - 1 - (int64_t)at % 90; i++)
			logits[i] = -INFINITY;
		steps[3].n = t % 2 == 0 ? k : 1;
		steps[3].min_keep = t % 2 == 0 ? 0 : k;
		chain.n_bias = 1;
		n = pico_sampler_run(s, &chain, logits, &start, &c, &err[0]);
		same = same && n == k;
		memcpy(all, c, k * sizeof *c);
		chain.n_bias = 0;
		n = pico_sampler_run(s, &chain, logits, &start, &c, &err[0]);
		same = same && n == k;
		for (i = 0; same && i < n; i++)
			same = c[i].id == all[i].id && c[i].p == all[i].p &&
			    c[i].logit == all[i].logit;
		logits[at] = NAN;
		logits[N - 1] = NAN;
		for (i = 0; i < 2; i++) {
			chain.n_bias = (size_t)i;
			err[i] = (struct pico_err){0};
			told = told && pico_sampler_run(s, &chain, logits,
			    &start, &c, &err[i]) < 0;
		}
		told = told && strcmp(err[0].msg, err[1].msg) == 0 &&
		    strstr(err[0].msg, "is NaN") != NULL;
	}
	pico_sampler_free(s);
	check(same, "top-k takes the same whether all are listed or not");
	check(told, "and tells of the same NaN");
}

static void
rows(void)
{
	enum { N = 3000 };
	static float logits[N];
	static struct pico_cand top[N + 1];
	struct pico_sampler *s = pico_sampler_new(N, NULL);
	struct pico_chain none = {0};
	const struct pico_seq start = {0};
	const struct pico_cand *c;
	bool ok = true;
	double lp;
	size_t k, i;

	fill(logits, N, 1, 2);
	(void)pico_sampler_run(s, &none, logits, &start, &c, NULL);
	for (k = 0; k <= 40; k++) {
		ok = ok && pico_top(logits, N, top, k) == k;
		for (i = 0; i < k; i++)
			ok = ok && top[i].id == c[i].id &&
			    top[i].logit == c[i].logit &&
			    fabs(top[i].p - c[i].p) < 1e-12;
	}
	check(ok, "the k best are the first of all in order");
	check(pico_top(logits, N, top, N + 1) == N && in_order(top, N),
	    "no more than there are");
	for (ok = true, i = 0; i < N; i++) {
		lp = pico_logprob(logits, N, c[i].id);
		ok = ok && fabs(lp - log(c[i].p)) < 1e-9;
	}
	check(ok, "log-probabilities");
	logits[7] = -1e6f;
	check(pico_logprob(logits, N, 7) < -9e5, "no underflow");
	logits[8] = logits[9] = INFINITY;
	check(pico_logprob(logits, N, 8) == 0 &&
	    pico_logprob(logits, N, 9) == -INFINITY &&
	    pico_top(logits, N, top, 2) == 2 && top[0].p == 1 &&
	    top[1].id == 9 && top[1].p == 0, "an infinite logit takes all");
	logits[2999] = NAN;
	check(isnan(pico_logprob(logits, N, 0)) &&
	    pico_top(logits, N, top, 3) == 0, "NaN is told");
	pico_sampler_free(s);
}

int
main(void)
{
	static const char *const files[] = { "temperature", "top-k", "top-p",
	    "min-p", "typical-p", "penalties", "logit-bias", "chains", "edge",
	    "dynamic-temperature", "top-n-sigma", "xtc", "dry",
	    "peer-expectations" };
	const char *root = getenv("ROOT"), *shared = getenv("SHARED");
	char path[4096];
	size_t i;

	printf("1..%d\n", 3 + 15 + 6 + 4 + 8 + 4 + 2 + 6);
	root = root != NULL ? root : ".";
	(void)snprintf(path, sizeof path, "%s/tests/data/sampling/"
	    "essential.json", root);
	file_ok(path, "essential cases", false);
	(void)snprintf(path, sizeof path, "%s/tests/data/sampling/"
	    "peer-expectations.json", root);
	file_ok(path, "what others expect", false);
	(void)snprintf(path, sizeof path, "%s/tests/data/sampling/"
	    "mirostat.json", root);
	mirostat_file_ok(path, "essential cases of mirostat", false);
	for (i = 0; i < sizeof files / sizeof *files; i++) {
		(void)snprintf(path, sizeof path, "%s%s/conformance/sampling/"
		    "%s.json", shared != NULL ? shared : root,
		    shared != NULL ? "" : "/../shared", files[i]);
		file_ok(path, files[i], true);
	}
	(void)snprintf(path, sizeof path, "%s%s/conformance/sampling/"
	    "mirostat.json", shared != NULL ? shared : root,
	    shared != NULL ? "" : "/../shared");
	mirostat_file_ok(path, "mirostat", true);
	draws();
	choices();
	odd();
	properties();
	shapes();
	few();
	rows();
	return n_failed > 0;
}
