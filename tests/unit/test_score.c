/* SPDX-License-Identifier: MIT */
/*
 * Scores: statistics against their definitions; saved distributions of rows
 * that no model gives, with infinities and ties.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/base/base.h"

static int n_run, n_failed;

static void
check(bool ok, const char *what)
{
	n_failed += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", ++n_run, what);
}

static bool
near(double x, double y)
{
	return fabs(x - y) <= 1e-12 * (1 + fabs(y));
}

static void
test_tally(void)
{
	static const double x[] = { -1, -2, -4, -0.5, -8 };
	struct pico_tally t = {0};
	double error, p;
	size_t i;

	check(isnan(pico_perplexity(&t, &error)) && isnan(error),
	    "nothing has no perplexity");
	for (i = 0; i < COUNT(x); i++)
		pico_tally_add(&t, x[i]);
	/* mean 3.1, squares of what differs 37.2 */
	p = pico_perplexity(&t, &error);
	check(t.n == 5 && t.sum == -15.5 && near(t.mean, -3.1) &&
	    near(t.square, 37.2), "a tally");
	check(near(p, exp(3.1)), "perplexity");
	check(near(error, exp(3.1) * sqrt(37.2 / 4 / 5)), "and its error");
	t = (struct pico_tally){0};
	pico_tally_add(&t, -INFINITY);
	pico_tally_add(&t, -1);
	check(t.sum == -INFINITY && pico_perplexity(&t, NULL) == INFINITY,
	    "a token that is impossible");
}

/* ---- saved distributions ---- */

static struct pico_vocab *vocab;
static uint32_t n_vocab;
static char path[100];

static double
uniform(void)
{
	static uint64_t n;

	return pico_draw(1, 2, n++);
}

static void
fill(float *row)
{
	uint32_t i;

	for (i = 0; i < n_vocab; i++)
		row[i] = (float)(20 * uniform() - 10);
}

/* Saves one row and compares another with it. */
static int
compare(const float *p, const float *q, double *kl, struct pico_comparison *c)
{
	struct pico_scored t = { .sequence = 1, .pos = 1, .id = 3, .before = 1 };
	struct pico_err err = {0};
	struct pico_saved_out *out = pico_saved_create(path, vocab, &err);
	struct pico_saved_in *in;
	int r;

	t.logits = p;
	t.logprob = pico_logprob(p, n_vocab, t.id);
	if (out == NULL || pico_saved_put(out, &t, &err) < 0 ||
	    pico_saved_end(out, &err) < 0)
		printf("# %s\n", err.msg);
	pico_saved_close(out);
	t.logits = q;
	t.logprob = pico_logprob(q, n_vocab, t.id);
	in = pico_saved_open(path, vocab, &err);
	r = in == NULL || pico_saved_compare(in, &t, kl, &err) < 0 ||
	    pico_saved_finish(in, c, &err) < 0 ? -1 : 0;
	pico_saved_free(in);
	if (r < 0)
		printf("# %s\n", err.msg);
	return r;
}

static double
definition(const float *p, const float *q)
{
	double lp, sum = 0;
	uint32_t i;

	for (i = 0; i < n_vocab; i++) {
		lp = pico_logprob(p, n_vocab, (int32_t)i);
		sum += exp(lp) * (lp - pico_logprob(q, n_vocab, (int32_t)i));
	}
	return sum;
}

static void
test_saved(void)
{
	float *p = calloc(n_vocab, sizeof *p), *q = calloc(n_vocab, sizeof *q);
	struct pico_comparison c;
	bool same = true, close = true, counts = true;
	uint32_t i, k;
	double kl;

	for (k = 0; k < 50; k++) {
		fill(p);
		same &= compare(p, p, &kl, &c) == 0 && kl == 0 &&
		    c.difference.value == 0 && c.same.value == 1;
		/* from next to nothing to quite another one */
		for (i = 0; i < n_vocab; i++)
			q[i] = p[i] + (float)((uniform() - 0.5) *
			    pow(10, (double)(k % 5) - 3));
		close &= compare(p, q, &kl, &c) == 0 &&
		    fabs(kl - definition(p, q)) < 4e-7 + kl / 50;
		counts &= c.n == 1 && c.kl.value == kl && c.kl_max == kl &&
		    c.kl_99 <= kl && c.kl_99 > kl * 0.999 &&
		    isnan(c.kl.error);
	}
	check(same, "a distribution does not differ from itself");
	check(close, "divergence is near its definition");
	check(counts, "one comparison is the mean, the most and 99 % of all");

	/* all the same */
	for (i = 0; i < n_vocab; i++)
		p[i] = 7;
	check(compare(p, p, &kl, &c) == 0 && kl == 0 &&
	    near(c.perplexity.value, n_vocab), "equal logits");
	fill(q);
	check(compare(p, q, &kl, &c) == 0 && kl > 0 && isfinite(kl),
	    "and others from them");
	/* of several that are infinite, the first has all */
	p[5] = p[9] = INFINITY;
	check(compare(p, p, &kl, &c) == 0 && kl == 0, "infinite logits");
	check(compare(p, q, &kl, &c) == 0 &&
	    fabs(kl + pico_logprob(q, n_vocab, 5)) < 1e-2 * kl,
	    "all on one token");
	check(compare(q, p, &kl, &c) == 0 && kl == INFINITY,
	    "what is possible there is impossible here");
	/* nothing is possible for some */
	fill(p);
	memcpy(q, p, n_vocab * sizeof *q);
	for (i = 10; i < n_vocab; i++)
		p[i] = -INFINITY;
	check(compare(p, p, &kl, &c) == 0 && kl == 0, "-infinity");
	check(compare(p, q, &kl, &c) == 0 && kl > 0 && isfinite(kl) &&
	    c.kl_99 > 0, "impossible there, possible here");
	/* a probability below the least that is told apart */
	for (i = 0; i < n_vocab; i++)
		p[i] = i == 3 ? 0 : -1e6f;
	check(compare(p, p, &kl, &c) == 0 && kl == 0 &&
	    c.perplexity.value == 1, "very small probabilities");
	free(p);
	free(q);
}

int
main(void)
{
	struct pico_err err = {0};
	struct pico_gguf *g;

	(void)snprintf(path, sizeof path, "%s/pico-score-%ld",
	    getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp",
	    (long)getpid());
	test_tally();
	if (pico_gguf_open(&g, "tests/data/arch/llama-q8_0.gguf", 0,
	    &err) < 0 || (vocab = pico_vocab_open(g, NULL, &err)) == NULL) {
		printf("# %s\n", err.msg);
		return 2;
	}
	n_vocab = (uint32_t)pico_vocab_n(vocab);
	test_saved();
	(void)unlink(path);
	pico_vocab_close(vocab);
	pico_gguf_close(g);
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
