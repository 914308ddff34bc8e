/* SPDX-License-Identifier: MIT */
/* Token stream in, logits stream (or a table of it) out. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lines.h"
#include "model.h"

static struct model_opts model;
static int64_t top, jobs = 1;
static bool all, text, binary, nll, session;
static const char *imatrix;

static const struct cmd about = {
	"pico-forward",
	"[-abTqv] [-j N] [--top N | --nll | --imatrix FILE] [-m FILE]\n"
	"       [option ...] [file ...]",
	"Computes logits: token stream in, logits stream out.",
};

static const struct pico_opt options[] = {
	{ 'a', "all", PICO_OPT_FLAG, &all, NULL,
	    "logits after every token, not only the last", 0, 0, NULL },
	{ 'b', "binary", PICO_OPT_FLAG, &binary, NULL,
	    "binary output, as without it", 0, 0, NULL },
	{ 'T', "text", PICO_OPT_FLAG, &text, NULL,
	    "text output", 0, 0, NULL },
	{ 'j', "jobs", PICO_OPT_INT, &jobs, "N",
	    "lines of input in one pass (1)", 1, 1 << 16, NULL },
	{ 0, "top", PICO_OPT_INT, &top, "N",
	    "a table of the N best tokens instead", 1, INT32_MAX, NULL },
	{ 0, "nll", PICO_OPT_FLAG, &nll, NULL,
	    "a table of each token's log-probability instead", 0, 0, NULL },
	{ 0, "imatrix", PICO_OPT_TEXT, &imatrix, "FILE",
	    "no output, but add to an importance matrix", 0, 0, NULL },
	{ 0, "session", PICO_OPT_FLAG, &session, NULL,
	    "every line continues the same sequence", 0, 0, NULL },
	MODEL_OPTIONS(model),
	CMD_OPTIONS
};

/* A line of input; each has a sequence of the context. */
struct prompt {
	int32_t *ids;
	size_t n, cap;
	size_t start;		/* its first position: not 0 in a session */
	size_t cached;		/* tokens that need not be computed again */
	enum pico_reason reason;
};

/* A column of a pass: token i of prompt p. */
struct place {
	size_t p, i;
};

/* What is under way. */
struct forward {
	struct running r;
	struct pico_logits_out out;
	struct pico_cand *cand;		/* top */
	char *piece, *shown;		/* text of a token, and escaped */
	size_t shown_size;
	struct prompt *prompt;		/* jobs of them, n_prompts in use */
	size_t n_prompts, written;	/* and so many are written to the end */
	struct pico_col *cols;		/* of a pass, and what they are */
	struct place *place;
	float *last;			/* --nll in a session: logits after the
					   line before */
	bool have_last;
	bool begun, full, over;		/* the session has tokens; has filled
					   the context; its end is written */
	uint64_t tokens, passes, lines;
	double seconds;
};

/* `pos`: of the token that these logits are for. */
static int
senseless(const float *logits, uint32_t n_vocab, uint64_t pos,
    struct pico_err *err)
{
	uint32_t id;

	for (id = 0; id < n_vocab && !isnan(logits[id]); id++)
		;
	if (id < n_vocab)
		return pico_fail(err, PICO_ERROR, "position %" PRIu64
		    ": logit of token %" PRIu32 " is NaN", pos, id);
	return pico_fail(err, PICO_ERROR, "position %" PRIu64
	    ": no token is possible", pos);
}

/* position, token, rank, id, logit, log-probability, piece */
static int
print_top(struct forward *f, uint64_t pos, int32_t token, const float *logits,
    struct pico_err *err)
{
	uint32_t n_vocab = (uint32_t)pico_vocab_n(f->r.vocab);
	size_t i, n = pico_top(logits, n_vocab, f->cand, (size_t)top);
	double best;

	if (n == 0)
		return senseless(logits, n_vocab, pos + 1, err);
	best = pico_logprob(logits, n_vocab, f->cand[0].id);
	for (i = 0; i < n; i++) {
		struct pico_str s = pico_vocab_text(f->r.vocab, f->cand[i].id);

		(void)pico_escape(f->shown, f->shown_size, s.p, s.n);
		(void)printf("%" PRIu64 "\t%" PRId32 "\t%zu\t%" PRId32
		    "\t%.9g\t%.9g\t%s\n", pos, token, i + 1, f->cand[i].id,
		    f->cand[i].logit,
		    isinf(f->cand[0].logit) ? (i == 0 ? 0 : -INFINITY) :
		    best + (f->cand[i].logit - f->cand[0].logit), f->shown);
	}
	return 0;
}

/* position, token, log-probability of it after the ones before */
static int
print_nll(struct forward *f, uint64_t pos, int32_t token, const float *logits,
    struct pico_err *err)
{
	uint32_t n_vocab = (uint32_t)pico_vocab_n(f->r.vocab);
	double p = pico_logprob(logits, n_vocab, token);

	if (isnan(p))
		return senseless(logits, n_vocab, pos, err);
	(void)printf("%" PRIu64 "\t%" PRId32 "\t%.9g\n", pos, token, p);
	return 0;
}

/* What is printed for token i of a line. */
static int
put_token(struct forward *f, const struct prompt *p, size_t i,
    const float *logits, struct pico_err *err)
{
	bool last = i + 1 == p->n;

	if (imatrix != NULL)
		return 0;
	cmd_progress_output();
	if (nll) {
		if (i == 0 && f->have_last && print_nll(f, p->start, p->ids[0],
		    f->last, err) < 0)
			return -1;
		if (!last)
			return print_nll(f, p->start + i + 1, p->ids[i + 1],
			    logits, err);
		f->have_last = session;
		if (session)
			/* NOLINTNEXTLINE(*.NonNullParamChecker): all have some */
			memcpy(f->last, logits, (size_t)pico_vocab_n(
			    f->r.vocab) * sizeof *logits);
		return 0;
	}
	if (top > 0)
		return logits == NULL ? 0 : print_top(f, p->start + i, p->ids[i],
		    logits, err);
	/* nothing can follow in a full session, so nothing is to be drawn */
	if (last && f->full)
		return pico_logits_put(&f->out, p->ids[i], 0, NULL, err);
	return pico_logits_put(&f->out, p->ids[i],
	    last && session ? PICO_ROW_LINE_END : 0, logits, err);
}

/* Whether a line can follow `start` positions. */
static int
check_line(const struct forward *f, const struct lines *l, size_t start,
    struct pico_err *err)
{
	int32_t n_vocab = pico_vocab_n(f->r.vocab);
	uint32_t n_ctx = pico_ctx_n_ctx(f->r.ctx);
	size_t i;

	for (i = 0; i < l->n && l->ids[i] < n_vocab; i++)
		;
	if (i < l->n)
		(void)pico_fail(err, PICO_ERROR, "token %" PRId32 " is not in "
		    "the vocabulary of %" PRId32, l->ids[i], n_vocab);
	else if (l->n > n_ctx - start)
		(void)pico_fail(err, PICO_ERROR, "prompt has %zu tokens%s, "
		    "context is %" PRIu32, start + l->n,
		    start > 0 ? " with those before it" : "", n_ctx);
	else
		return 0;
	lines_blame(l, err);
	return -1;
}

/* Takes the line that was read for the next pass. */
static int
take_line(struct forward *f, const struct lines *l, struct pico_err *err)
{
	struct prompt *p = &f->prompt[f->n_prompts];
	size_t start = 0;

	if (f->begun)
		(void)pico_ctx_tokens(f->r.ctx, 0, &start);
	if (check_line(f, l, start, err) < 0)
		return -1;
	if (l->n > p->cap) {
		free(p->ids);
		p->cap = 2 * l->n;
		p->ids = cmd_alloc(p->cap, sizeof *p->ids);
	}
	if (l->n > 0)
		memcpy(p->ids, l->ids, l->n * sizeof *p->ids);
	p->n = l->n;
	p->start = start;
	p->reason = l->reason;
	p->cached = 0;
	f->n_prompts++;
	return 0;
}

/*
 * The end of a line. A session ends with its input, or when the context is full.
 * Then stdout is closed at once, so that a loop through pico-sample ends; input
 * is read on, since ids for which there is no room are a fault.
 */
static int
end_line(struct forward *f, const struct prompt *p, struct pico_err *err)
{
	f->lines++;
	if (top > 0 || nll || imatrix != NULL)
		return 0;
	if (!session)
		return pico_logits_end(&f->out, p->reason, err);
	if (!f->full || f->over)
		return 0;
	f->over = true;
	if (pico_logits_end(&f->out, PICO_END_CONTEXT, err) < 0 ||
	    pico_logits_flush(&f->out, err) < 0)
		return -1;
	(void)close(STDOUT_FILENO);
	return 0;
}

/* Ends the lines before number p. */
static int
end_lines(struct forward *f, size_t p, struct pico_err *err)
{
	for (; f->written < p; f->written++)
		if (end_line(f, &f->prompt[f->written], err) < 0)
			return -1;
	return 0;
}

/* A pass of n columns, and what is printed for them. */
static int
run_pass(struct forward *f, size_t n, struct pico_err *err)
{
	struct pico_ctx *ctx = f->r.ctx;
	const float *logits;
	size_t i, k;

	if (pico_ctx_eval(ctx, f->cols, n, err) < 0)
		return -1;
	f->passes++;
	for (k = 0; k < n; k++) {
		const struct place *at = &f->place[k];
		const struct prompt *p = &f->prompt[at->p];

		if (end_lines(f, at->p, err) < 0)
			return -1;
		for (i = 0; at->i == p->cached && i < p->cached; i++)
			if (put_token(f, p, i, NULL, err) < 0)
				return -1;
		logits = pico_ctx_logits(ctx, k);
		if (logits == NULL && f->cols[k].logits)
			return pico_ctx_fault(ctx, err);
		if (put_token(f, p, at->i, logits, err) < 0)
			return -1;
		/* a fault before the first row leaves no header behind */
		cmd_rows = imatrix == NULL ? &f->out : NULL;
	}
	if (top > 0 || nll)
		cmd_flush();
	f->tokens += n;
	cmd_progress("token", f->tokens, 0);
	return 0;
}

/* The lines through the model, in passes as full as they can be: columns follow
   each other as what is printed for them does. */
static int
run_lines(struct forward *f, struct pico_err *err)
{
	struct pico_ctx *ctx = f->r.ctx;
	size_t i, k, n = 0, chunk = pico_ctx_chunk(ctx);
	bool every = all || nll || imatrix != NULL;
	struct prompt *p;

	f->written = 0;
	for (k = 0; k < f->n_prompts; k++) {
		p = &f->prompt[k];
		f->full = session && p->start + p->n == pico_ctx_n_ctx(ctx);
		/* what the cache has need not be computed again, but the
		   logits that are wanted do */
		if (!f->begun) {
			if (!every && p->n > 0)
				p->cached = pico_ctx_match(ctx, (uint32_t)k,
				    p->ids, p->n - 1);
			pico_ctx_cut(ctx, (uint32_t)k, p->cached);
		}
		f->begun = session && (f->begun || p->n > 0);
		for (i = p->cached; i < p->n; i++) {
			f->place[n] = (struct place){ k, i };
			f->cols[n++] = (struct pico_col){
				.token = p->ids[i], .seq = (uint32_t)k,
				.logits = every || i + 1 == p->n,
			};
			if (n == chunk) {
				if (run_pass(f, n, err) < 0)
					return -1;
				n = 0;
			}
		}
	}
	if ((n > 0 && run_pass(f, n, err) < 0) ||
	    end_lines(f, f->n_prompts, err) < 0)
		return -1;
	f->n_prompts = 0;
	return 0;
}

/* Reads lines, as many as there are without waiting, and runs them: 1, or 0 after
   the last, or -1. Those before a bad one are run. */
static int
step(struct forward *f, struct lines *l, bool stream, struct pico_err *err)
{
	struct pico_err fault = {0};
	double start;
	int r = 1;

	while (f->n_prompts < (size_t)jobs && r > 0 &&
	    (f->n_prompts == 0 || lines_ready(l))) {
		r = lines_next(l, &fault);
		if (r > 0 && take_line(f, l, &fault) < 0)
			r = -1;
	}
	start = pico_seconds();
	if (f->n_prompts > 0) {
		if (run_lines(f, err) < 0)
			return -1;
		f->seconds += pico_seconds() - start;
		if (stream && pico_logits_flush(&f->out, err) < 0)
			return -1;
		cmd_flush();
	}
	if (r < 0)
		*err = fault;
	return r;
}

static void
allocate(struct forward *f)
{
	size_t n = (size_t)pico_vocab_n(f->r.vocab);

	f->prompt = cmd_alloc((size_t)jobs, sizeof *f->prompt);
	f->cols = cmd_alloc(pico_ctx_chunk(f->r.ctx), sizeof *f->cols);
	f->place = cmd_alloc(pico_ctx_chunk(f->r.ctx), sizeof *f->place);
	f->cand = cmd_alloc(top < (int64_t)n ? (size_t)top : n,
	    sizeof *f->cand);
	f->shown_size = 4 * pico_vocab_piece_max(f->r.vocab) + 1;
	f->shown = cmd_alloc(f->shown_size, 1);
	f->last = cmd_alloc(n, sizeof *f->last);
	if (top > (int64_t)n)
		top = (int64_t)n;
}

int
main(int argc, char **argv)
{
	int r, first = cmd_start(&about, options, argc, argv);
	bool stream = top == 0 && !nll && imatrix == NULL;
	struct pico_err err = {0};
	struct forward f = {0};
	const int32_t *eog;
	struct lines lines;
	size_t n_eog, i;

	if (top > 0 && nll)
		cmd_usage("options --top and --nll exclude each other");
	if (imatrix != NULL && (top > 0 || nll || all || text || binary ||
	    model.kv_file != NULL))
		cmd_usage("option --imatrix: not with -a, -b, -T, --kv, --nll "
		    "or --top");
	if (text && binary)
		cmd_usage("options -T and -b exclude each other");
	if (stream && !text && isatty(STDOUT_FILENO))
		cmd_usage("binary output does not go to a terminal: use -T "
		    "for text, or --top N for a table");
	if (jobs > 1 && (session || model.kv_file != NULL))
		cmd_usage("option -j: one sequence only with %s",
		    session ? "--session" : "--kv");
	model.writes = imatrix != NULL;
	if (imatrix != NULL)
		cmd_will_write();
	running_open(&f.r, &model, (uint32_t)jobs);
	running_load(&f.r);
	if (imatrix != NULL && pico_ctx_collect(f.r.ctx, imatrix, &err) < 0)
		cmd_die(&err);
	allocate(&f);
	eog = pico_vocab_eog(f.r.vocab, &n_eog);
	if (stream && pico_logits_out_open(&f.out, STDOUT_FILENO, text,
	    (uint32_t)pico_vocab_n(f.r.vocab), eog, n_eog, &err) < 0)
		cmd_die(&err);

	lines_open(&lines, argv + first);
	while ((r = step(&f, &lines, stream, &err)) > 0)
		;
	if (r == 0 && f.begun && stream && !f.full &&
	    pico_logits_end(&f.out, lines.reason, &err) < 0)
		r = -1;
	/* a fault before the first row leaves not even a header behind */
	if (r == 0 && stream && pico_logits_flush(&f.out, &err) < 0)
		r = -1;
	if (r == 0 && imatrix != NULL && pico_ctx_collected(f.r.ctx,
	    first < argc ? argv[first] : "-", f.lines, &err) < 0)
		r = -1;
	if (r != 0)
		cmd_die(&err);
	cmd_rows = NULL;
	pico_logits_out_close(&f.out);
	running_save(&f.r);
	cmd_progress_end();
	if (model.verbose) {
		report_rate("prompt", f.tokens, f.tokens, f.seconds);
		running_report(&f.r, f.passes);
	}
	lines_close(&lines);
	running_close(&f.r);
	for (i = 0; i < (size_t)jobs; i++)
		free(f.prompt[i].ids);
	free(f.prompt);
	free(f.cols);
	free(f.place);
	free(f.cand);
	free(f.shown);
	free(f.last);
	return cmd_finish(0);
}
