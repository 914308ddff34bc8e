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
static int64_t top;
static bool all, text, binary, nll, session;

static const struct cmd about = {
	"pico-forward",
	"[-abTqv] [--top N | --nll] [-m FILE] [option ...] [file ...]",
	"Computes logits: token stream in, logits stream out.",
};

static const struct pico_opt options[] = {
	{ 'a', "all", PICO_OPT_FLAG, &all, NULL,
	    "logits after every token, not only the last", 0, 0, NULL },
	{ 'b', "binary", PICO_OPT_FLAG, &binary, NULL,
	    "binary output, as without it", 0, 0, NULL },
	{ 'T', "text", PICO_OPT_FLAG, &text, NULL,
	    "text output", 0, 0, NULL },
	{ 0, "top", PICO_OPT_INT, &top, "N",
	    "a table of the N best tokens instead", 1, INT32_MAX, NULL },
	{ 0, "nll", PICO_OPT_FLAG, &nll, NULL,
	    "a table of each token's log-probability instead", 0, 0, NULL },
	{ 0, "session", PICO_OPT_FLAG, &session, NULL,
	    "every line continues the same sequence", 0, 0, NULL },
	MODEL_OPTIONS(model),
	CMD_OPTIONS
};

/* What is under way. */
struct forward {
	struct running r;
	struct pico_logits_out out;
	struct pico_cand *cand;		/* top */
	char *piece, *shown;		/* text of a token, and escaped */
	size_t shown_size;
	struct pico_col *cols;
	float *last;			/* --nll in a session: logits after the
					   line before */
	bool have_last;
	bool begun, full, over;		/* the session has tokens; has filled
					   the context; its end is written */
	uint64_t tokens, passes;
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

/* What is printed for token i of a line that starts at position `start`. */
static int
put_token(struct forward *f, const struct lines *l, size_t start, size_t i,
    const float *logits, struct pico_err *err)
{
	bool last = i + 1 == l->n;

	cmd_progress_output();
	if (nll) {
		if (i == 0 && f->have_last && print_nll(f, start, l->ids[0],
		    f->last, err) < 0)
			return -1;
		if (!last)
			return print_nll(f, start + i + 1, l->ids[i + 1],
			    logits, err);
		f->have_last = session;
		if (session)
			memcpy(f->last, logits, (size_t)pico_vocab_n(
			    f->r.vocab) * sizeof *logits);
		return 0;
	}
	if (top > 0)
		return logits == NULL ? 0 : print_top(f, start + i, l->ids[i],
		    logits, err);
	/* nothing can follow in a full session, so nothing is to be drawn */
	if (last && f->full)
		return pico_logits_put(&f->out, l->ids[i], 0, NULL, err);
	return pico_logits_put(&f->out, l->ids[i],
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

/* One line through the model, chunk by chunk. */
static int
run_line(struct forward *f, const struct lines *l, struct pico_err *err)
{
	struct pico_ctx *ctx = f->r.ctx;
	size_t start = 0, chunk = pico_ctx_chunk(ctx), done, i, k, n;
	bool every = all || nll;
	const float *logits;

	if (f->begun)
		(void)pico_ctx_tokens(ctx, 0, &start);
	if (check_line(f, l, start, err) < 0)
		return -1;
	f->full = session && start + l->n == pico_ctx_n_ctx(ctx);
	/* what the cache has need not be computed again, but the logits that
	   are wanted do */
	done = 0;
	if (!f->begun) {
		if (!every && l->n > 0)
			done = pico_ctx_match(ctx, 0, l->ids, l->n - 1);
		pico_ctx_cut(ctx, 0, done);
	}
	f->begun = session && (f->begun || l->n > 0);
	for (i = 0; i < done; i++)
		if (put_token(f, l, start, i, NULL, err) < 0)
			return -1;
	for (; done < l->n; done += n) {
		n = l->n - done < chunk ? l->n - done : chunk;
		for (k = 0; k < n; k++)
			f->cols[k] = (struct pico_col){
				.token = l->ids[done + k],
				.logits = every || done + k + 1 == l->n,
			};
		if (pico_ctx_eval(ctx, f->cols, n, err) < 0)
			return -1;
		f->passes++;
		for (k = 0; k < n; k++) {
			logits = pico_ctx_logits(ctx, k);
			if (logits == NULL && f->cols[k].logits)
				return pico_ctx_fault(ctx, err);
			if (put_token(f, l, start, done + k, logits, err) < 0)
				return -1;
		}
		f->tokens += n;
		cmd_progress("token", f->tokens, 0);
	}
	return 0;
}

/*
 * A session ends with its input, or when the context is full. Then stdout is
 * closed at once, so that a loop through pico-sample ends; input is read on,
 * since ids for which there is no room are a fault.
 */
static int
end_line(struct forward *f, const struct lines *l, struct pico_err *err)
{
	if (!session)
		return pico_logits_end(&f->out, l->reason, err);
	if (!f->full || f->over)
		return 0;
	f->over = true;
	if (pico_logits_end(&f->out, PICO_END_CONTEXT, err) < 0 ||
	    pico_logits_flush(&f->out, err) < 0)
		return -1;
	(void)close(STDOUT_FILENO);
	return 0;
}

static void
allocate(struct forward *f)
{
	size_t n = (size_t)pico_vocab_n(f->r.vocab);

	f->cols = cmd_alloc(pico_ctx_chunk(f->r.ctx), sizeof *f->cols);
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
	bool stream = top == 0 && !nll;
	struct pico_err err = {0};
	struct forward f = {0};
	const int32_t *eog;
	struct lines lines;
	size_t n_eog;
	double start;

	if (top > 0 && nll)
		cmd_usage("options --top and --nll exclude each other");
	if (text && binary)
		cmd_usage("options -T and -b exclude each other");
	if (stream && !text && isatty(STDOUT_FILENO))
		cmd_usage("binary output does not go to a terminal: use -T "
		    "for text, or --top N for a table");
	running_open(&f.r, &model, 1);
	running_load(&f.r);
	allocate(&f);
	eog = pico_vocab_eog(f.r.vocab, &n_eog);
	if (stream && pico_logits_out_open(&f.out, STDOUT_FILENO, text,
	    (uint32_t)pico_vocab_n(f.r.vocab), eog, n_eog, &err) < 0)
		cmd_die(&err);

	lines_open(&lines, argv + first);
	while ((r = lines_next(&lines, &err)) > 0) {
		start = pico_seconds();
		if (run_line(&f, &lines, &err) < 0)
			break;
		f.seconds += pico_seconds() - start;
		if (stream && (end_line(&f, &lines, &err) < 0 ||
		    pico_logits_flush(&f.out, &err) < 0))
			break;
		cmd_flush();
	}
	if (r == 0 && f.begun && stream && !f.full &&
	    pico_logits_end(&f.out, lines.reason, &err) < 0)
		r = -1;
	/* a fault before the first row leaves not even a header behind */
	if (r == 0 && stream && pico_logits_flush(&f.out, &err) < 0)
		r = -1;
	if (r != 0)
		cmd_die(&err);
	pico_logits_out_close(&f.out);
	running_save(&f.r);
	cmd_progress_end();
	if (model.verbose) {
		report_rate("prompt", f.tokens, f.tokens, f.seconds);
		running_report(&f.r, f.passes);
	}
	lines_close(&lines);
	running_close(&f.r);
	free(f.cols);
	free(f.cand);
	free(f.shown);
	free(f.last);
	return cmd_finish(0);
}
