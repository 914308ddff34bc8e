/* SPDX-License-Identifier: MIT */
/* Token stream in, what the model thinks of it out. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lines.h"
#include "model.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))

static struct model_opts model;
static const char *save, *against;
static int64_t stride, jobs = 1;
static bool each, total, choices;

static const struct cmd about = {
	"pico-score",
	"[-qv] [-j N] [--each | --total] [--choices | --stride N] [-m FILE] "
	    "[option ...] [file ...]",
	"Scores token sequences: token stream in, a table out.",
};

static const struct pico_opt options[] = {
	{ 'j', "jobs", PICO_OPT_INT, &jobs, "N",
	    "sequences or windows computed at once (1)", 1, 1024, NULL },
	{ 0, "each", PICO_OPT_FLAG, &each, NULL,
	    "a line for each token, or each choice", 0, 0, NULL },
	{ 0, "total", PICO_OPT_FLAG, &total, NULL,
	    "one line for all sequences together", 0, 0, NULL },
	{ 0, "stride", PICO_OPT_INT, &stride, "N",
	    "longer than the context: windows so far apart", 1, INT32_MAX,
	    NULL },
	{ 0, "choices", PICO_OPT_FLAG, &choices, NULL,
	    "which line of a group goes on best after its first", 0, 0, NULL },
	{ 0, "save", PICO_OPT_TEXT, &save, "FILE",
	    "save the distributions of the scored tokens", 0, 0, NULL },
	{ 0, "against", PICO_OPT_TEXT, &against, "FILE",
	    "compare with those that were saved", 0, 0, NULL },
	RUN_OPTIONS(model),
	CMD_OPTIONS
};

/* What is under way. */
struct run {
	struct running r;
	struct pico_score *score;
	struct pico_saved_out *out;	/* --save */
	struct pico_saved_in *in;	/* --against */
	struct pico_tally line, all;
	uint64_t group, choice;		/* being scored, from 1 */
	uint64_t best[2];		/* choice by sum, and by mean */
	double top[2];
};

/* A group of --choices as it is read: lines one behind the other. */
struct group {
	int32_t *ids;
	size_t n, cap;
	struct group_line { size_t end; uint64_t number; } *line;
	size_t n_lines, cap_lines;
};

/* The sign of a NaN is noise. */
static void
print_number(char before, double x)
{
	if (isnan(x))
		(void)printf("%cnan", before);
	else
		(void)printf("%c%.9g", before, x);
}

/* tokens, sum of log-probabilities, perplexity, its standard error */
static void
print_tally(const struct pico_tally *t)
{
	double error, p = pico_perplexity(t, &error);

	cmd_progress_output();
	(void)printf("%" PRIu64, t->n);
	print_number('\t', t->sum);
	print_number('\t', p);
	print_number('\t', error);
	(void)putchar('\n');
}

/* sequence, position, token, log-probability and, if there is one, divergence */
static void
print_token(const struct pico_scored *t, double kl)
{
	cmd_progress_output();
	(void)printf("%" PRIu64 "\t%" PRIu64 "\t%" PRId32 "\t%.9g",
	    t->sequence, t->pos, t->id, t->logprob);
	if (against != NULL)
		print_number('\t', kl);
	/* many pages may be to come */
	if (putchar('\n') == EOF)
		cmd_flush();
}

static int
take_token(void *data, const struct pico_scored *t, struct pico_err *err)
{
	struct run *x = data;
	double kl = 0;

	pico_tally_add(&x->line, t->logprob);
	pico_tally_add(&x->all, t->logprob);
	if (x->out != NULL && pico_saved_put(x->out, t, err) < 0)
		return -1;
	if (x->in != NULL && pico_saved_compare(x->in, t, &kl, err) < 0)
		return -1;
	if (each && !choices)
		print_token(t, kl);
	cmd_progress("token", x->all.n, 0);
	return 0;
}

/* The end of a choice; of several that are best, the first one is. */
static void
end_choice(struct run *x, bool last)
{
	double by[2] = { x->line.sum, x->line.sum / (double)x->line.n };
	int i;

	x->choice++;
	for (i = 0; i < 2; i++)
		if (x->choice == 1 || by[i] > x->top[i]) {
			x->top[i] = by[i];
			x->best[i] = x->choice;
		}
	cmd_progress_output();
	if (each) {
		(void)printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, x->group + 1,
		    x->choice, x->line.n);
		print_number('\t', by[0]);
		print_number('\t', by[1]);
		(void)putchar('\n');
	} else if (last) {
		(void)printf("%" PRIu64 "\t%" PRIu64 "\n", x->best[0],
		    x->best[1]);
	}
	if (last) {
		x->choice = 0;
		x->group++;
	}
}

static int
take_end(void *data, uint64_t sequence, uint64_t tag, struct pico_err *err)
{
	struct run *x = data;

	(void)sequence;
	(void)err;
	if (choices)
		end_choice(x, tag != 0);
	else if (!each && !total && x->in == NULL)
		print_tally(&x->line);
	x->line = (struct pico_tally){0};
	return 0;
}

/* ---- groups of choices ---- */

/* What an empty text becomes: nothing, or what stands around all texts. */
static bool
is_blank(const struct run *x, const struct lines *l)
{
	const struct pico_special *s = pico_vocab_special(x->r.vocab);
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->ids[i] != s->bos && l->ids[i] != s->eos &&
		    l->ids[i] != s->cls && l->ids[i] != s->sep)
			return false;
	return true;
}

/* Room for n elements. */
static void *
grown(void *p, size_t *cap, size_t n, size_t size)
{
	void *new;

	if (n <= *cap)
		return p;
	new = cmd_alloc(2 * n, size);
	if (p != NULL)
		memcpy(new, p, *cap * size);
	free(p);
	*cap = 2 * n;
	return new;
}

static void
group_add(struct group *g, const struct lines *l)
{
	g->ids = grown(g->ids, &g->cap, g->n + l->n, sizeof *g->ids);
	g->line = grown(g->line, &g->cap_lines, g->n_lines + 1,
	    sizeof *g->line);
	memcpy(g->ids + g->n, l->ids, l->n * sizeof *g->ids);
	g->n += l->n;
	g->line[g->n_lines++] = (struct group_line){ g->n, l->number };
}

static const int32_t *
group_line(const struct group *g, size_t i, size_t *n)
{
	size_t start = i > 0 ? g->line[i - 1].end : 0;

	*n = g->line[i].end - start;
	return g->ids + start;
}

static int
blame(const struct group *g, size_t i, const struct lines *l,
    const char *what, struct pico_err *err)
{
	struct lines at = *l;

	at.number = g->line[i].number;
	(void)pico_fail(err, PICO_ERROR, "%s", what);
	lines_blame(&at, err);
	return -1;
}

/* How many tokens all choices share with the question; the last ones of that
   may be others, where the choice goes on in the same word. */
static int
find_shared(const struct run *x, const struct group *g, const struct lines *l,
    size_t *shared, struct pico_err *err)
{
	size_t n_question, n, i, k;
	const int32_t *question = group_line(g, 0, &n_question), *ids;
	bool bos = question[0] == pico_vocab_special(x->r.vocab)->bos;

	*shared = n_question;
	for (i = 1; i < g->n_lines; i++) {
		ids = group_line(g, i, &n);
		for (k = 0; k < MIN(n, n_question) && ids[k] == question[k];
		    k++)
			;
		if (k <= bos)
			return blame(g, i, l, "choice does not begin as its "
			    "question does", err);
		*shared = MIN(*shared, k);
	}
	for (i = 1; i < g->n_lines; i++) {
		(void)group_line(g, i, &n);
		if (n <= *shared)
			return blame(g, i, l, "choice has nothing that its "
			    "question has not", err);
	}
	return 0;
}

static int
score_group(struct run *x, struct group *g, const struct lines *l,
    struct pico_err *err)
{
	const int32_t *ids;
	size_t shared, n, i;

	if (g->n_lines == 0)
		return 0;
	if (g->n_lines == 1)
		return blame(g, 0, l, "question has no choices", err);
	if (find_shared(x, g, l, &shared, err) < 0)
		return -1;
	/* the last one is computed for each choice: its logits are wanted */
	if (pico_score_share(x->score, g->ids, shared - 1, err) < 0)
		return -1;
	for (i = 1; i < g->n_lines; i++) {
		ids = group_line(g, i, &n);
		if (pico_score_add(x->score, ids, n, shared,
		    i + 1 == g->n_lines, err) < 0)
			return -1;
	}
	g->n = g->n_lines = 0;
	return 0;
}

/* ---- lines ---- */

static int
take_line(struct run *x, struct group *g, const struct lines *l,
    struct pico_err *err)
{
	uint32_t n_ctx = pico_ctx_n_ctx(x->r.ctx);
	int r = 0;

	if (l->n > n_ctx && stride == 0 && !choices)
		r = pico_fail(err, PICO_ERROR, "sequence has %zu tokens, "
		    "context is %" PRIu32 " (--stride N scores it in windows)",
		    l->n, n_ctx);
	if (r < 0 || pico_score_check(x->score, l->ids, l->n, err) < 0) {
		lines_blame(l, err);
		return -1;
	}
	if (!choices)
		return pico_score_add(x->score, l->ids, l->n, 1, 0, err);
	if (is_blank(x, l))
		return score_group(x, g, l, err);
	group_add(g, l);
	return 0;
}

/* All input. What was read before a fault is scored before it is told. */
static int
score_lines(struct run *x, char **operands, struct pico_err *err)
{
	const struct pico_score_stats *stats = pico_score_stats(x->score);
	struct pico_err fault = {0};
	struct group g = {0};
	uint64_t passes = 0;
	struct lines l;
	int r;

	lines_open(&l, operands);
	while ((r = lines_next(&l, &fault)) > 0) {
		if (take_line(x, &g, &l, &fault) < 0) {
			r = -1;
			break;
		}
		if (!lines_ready(&l) && pico_score_flush(x->score, err) < 0)
			return -1;
		if (stats->passes != passes)
			cmd_flush();
		passes = stats->passes;
	}
	if (r == 0)
		r = score_group(x, &g, &l, &fault);
	if (pico_score_flush(x->score, err) < 0)
		return -1;
	if (r < 0)
		*err = fault;
	lines_close(&l);
	free(g.ids);
	free(g.line);
	return r;
}

/* ---- --against ---- */

static void
print_value(const char *name, double value)
{
	(void)printf("%s", name);
	print_number('\t', value);
	(void)putchar('\n');
}

static void
print_estimate(const char *name, struct pico_estimate e)
{
	(void)printf("%s", name);
	print_number('\t', e.value);
	print_number('\t', e.error);
	(void)putchar('\n');
}

static void
print_comparison(const struct pico_comparison *c)
{
	(void)printf("tokens\t%" PRIu64 "\n", c->n);
	print_estimate("perplexity", c->perplexity);
	print_estimate("saved", c->saved);
	print_estimate("difference", c->difference);
	print_estimate("kl-mean", c->kl);
	print_value("kl-99%", c->kl_99);
	print_value("kl-max", c->kl_max);
	print_estimate("same-top", c->same);
}

/* ---- the program ---- */

static void
check_options(void)
{
	if (each + total > 1)
		cmd_usage("options --each and --total exclude each other");
	if (total && (choices || against != NULL))
		cmd_usage("options --total and %s exclude each other",
		    choices ? "--choices" : "--against");
	if (choices && (stride > 0 || save != NULL || against != NULL))
		cmd_usage("options --choices and %s exclude each other",
		    stride > 0 ? "--stride" : save != NULL ? "--save" :
		    "--against");
	if (save != NULL && against != NULL)
		cmd_usage("options --save and --against exclude each other");
	if ((save != NULL && *save == '\0') ||
	    (against != NULL && *against == '\0'))
		cmd_usage("option %s: the file name is empty",
		    save != NULL ? "--save" : "--against");
}

static void
open_all(struct run *x)
{
	const struct pico_score_sink sink = { take_token, take_end, x };
	struct pico_err err = {0};

	model.writes = save != NULL;
	running_open(&x->r, &model, (uint32_t)jobs + choices);
	x->score = pico_score_new(x->r.ctx, x->r.vocab, (uint32_t)stride,
	    choices, &sink, &err);
	if (x->score == NULL && err.status == PICO_USAGE)
		cmd_usage("option --stride: %s", err.msg);
	if (x->score == NULL)
		cmd_die(&err);
	if (save != NULL) {
		x->out = pico_saved_create(save, x->r.vocab, &err);
		if (x->out == NULL)
			cmd_die(&err);
	}
	if (against != NULL) {
		x->in = pico_saved_open(against, x->r.vocab, &err);
		if (x->in == NULL)
			cmd_die(&err);
	}
}

int
main(int argc, char **argv)
{
	int first = cmd_start(&about, options, argc, argv);
	struct pico_comparison comparison;
	const struct pico_score_stats *stats;
	struct pico_err err = {0};
	struct run x = {0};

	check_options();
	open_all(&x);
	if (score_lines(&x, argv + first, &err) < 0 ||
	    (x.out != NULL && pico_saved_end(x.out, &err) < 0) ||
	    (x.in != NULL && pico_saved_finish(x.in, &comparison, &err) < 0))
		cmd_die(&err);
	if (total)
		print_tally(&x.all);
	if (x.in != NULL && !each)
		print_comparison(&comparison);
	cmd_flush();
	cmd_progress_end();
	if (model.verbose) {
		stats = pico_score_stats(x.score);
		(void)fprintf(stderr, "scored:\t%" PRIu64 " tokens\n",
		    stats->scored);
		report_rate("prompt", stats->computed, stats->computed,
		    stats->seconds);
		running_report(&x.r, stats->passes);
	}
	pico_saved_close(x.out);
	pico_saved_free(x.in);
	pico_score_free(x.score);
	running_close(&x.r);
	return cmd_finish(0);
}
