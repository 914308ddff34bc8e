/* SPDX-License-Identifier: MIT */
/* pico-sample: logits in, tokens out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grammar.h"
#include "sampling.h"

static const struct cmd self = {
	"pico-sample",
	"[-b | --show] [-m model] [-n count] [-s seed] [option ...] [file ...]",
	"Draws a token from each row of a logits stream."
};

static struct sampling_opts sampling = SAMPLING_DEFAULTS;
static struct grammar_opts bound;
static const char *model;
static int64_t limit = -1;
static bool binary, emit_eog, ignore_eog, show_table, verbose;

static const struct pico_opt options[] = {
	{ 'b', "binary", PICO_OPT_FLAG, &binary, NULL,
	    "write a binary token stream", 0, 0, NULL },
	{ 'n', "tokens", PICO_OPT_INT, &limit, "N",
	    "stop after N tokens in all", 0, 0, NULL },
	GRAMMAR_OPTIONS(bound),
	{ 'm', "model", PICO_OPT_TEXT, &model, "FILE",
	    "whose vocabulary a grammar or DRY needs ($PICO_MODEL, or the "
	    "installed one)", 0, 0, NULL },
	SAMPLING_OPTIONS(sampling),
	{ 0, "emit-eog", PICO_OPT_FLAG, &emit_eog, NULL,
	    "write the end-of-generation token too", 0, 0, NULL },
	{ 0, "ignore-eog", PICO_OPT_FLAG, &ignore_eog, NULL,
	    "end-of-generation tokens are like others", 0, 0, NULL },
	{ 0, "show", PICO_OPT_FLAG, &show_table, NULL,
	    "print row, rank, id, logit, probability instead", 0, 0, NULL },
	{ 'v', "verbose", PICO_OPT_FLAG, &verbose, NULL,
	    "seed and counts on standard error", 0, 0, NULL },
	CMD_OPTIONS
};

/* One logits stream, and what goes on from one to the next. */
static struct pico_logits_in *in;
static struct pico_gguf *gguf;
static struct pico_vocab *vocab;	/* NULL, unless it is needed */
static struct pico_sampler *sampler;
static struct pico_chain chain;
static struct pico_tokens_out out;
static struct pico_seq seq;	/* the sequence so far */
static int32_t *prev;		/* its tokens */
static size_t cap_prev;
static uint64_t n_tokens, n_rows;
static bool over;		/* nothing more is to be drawn in it */
static bool line_ended;		/* nothing since the output line ended */

/* With a grammar: the output is what the stream has behind the first row with
   logits. */
static struct pico_grammar *grammar;
static struct pico_constraint *constraint;
static struct pico_matcher *seen;	/* what came in */
static struct pico_matcher *drawn;	/* and what was drawn from here */
static struct pico_ids forced;
static bool begun;		/* there was such a row */
static bool cut;		/* some output was cut off */

static void
open_grammar(void)
{
	struct pico_err err = {0};

	if (grammar == NULL)
		return;
	if (ignore_eog)
		cmd_usage("option --ignore-eog: not with a grammar, which ends "
		    "the output");
	constraint = pico_constraint_new(grammar, vocab, &err);
	if (constraint != NULL)
		seen = pico_matcher_new(constraint, &err);
	if (seen != NULL)
		drawn = pico_matcher_new(constraint, &err);
	if (drawn == NULL)
		cmd_die(&err);
}

static void
close_grammar(void)
{
	pico_matcher_free(seen);
	pico_matcher_free(drawn);
	pico_constraint_free(constraint);
	pico_grammar_free(grammar);
	free(forced.v);
}

/* A token of the stream; behind the beginning of the output, it is output. */
static void
match(int32_t id)
{
	struct pico_err err = {0};
	int r = begun ? pico_matcher_token(seen, id, &err) : 1;

	if (r < 0)
		cmd_die(&err);
	if (r == 0)
		cmd_fail("position %zu: token %" PRId32 " does not fit the "
		    "grammar", seq.n, id);
}

/* The logits with which to go on. */
static const float *
mask(const float *logits)
{
	struct pico_err err = {0};

	pico_matcher_copy(drawn, seen);
	logits = pico_matcher_mask(drawn, logits, &err);
	if (logits == NULL)
		cmd_fail("position %zu: %s", seq.n, err.msg);
	return logits;
}

static void
remember(int32_t id)
{
	int32_t *v;

	if (seq.n == cap_prev) {
		cap_prev = cap_prev > 0 ? cap_prev * 2 : 1024;
		v = realloc(prev, cap_prev * sizeof *v);
		if (v == NULL)
			cmd_fail("no memory for %zu tokens", cap_prev);
		seq.ids = prev = v;
	}
	prev[seq.n++] = id;
}

static bool
is_eog(int32_t id)
{
	size_t n, i;
	const int32_t *eog = pico_logits_eog(in, &n);

	for (i = 0; i < n; i++)
		if (eog[i] == id)
			return !ignore_eog;
	return false;
}

static void
end_line(enum pico_reason reason)
{
	struct pico_err err = {0};

	if (!show_table && pico_tokens_end(&out, reason, &err) < 0)
		cmd_die(&err);
	line_ended = true;
}

static void
show_row(const float *logits)
{
	struct pico_err err = {0};
	const struct pico_cand *c;
	int64_t n, i;

	if (seen != NULL)
		logits = mask(logits);
	n = pico_sampler_run(sampler, &chain, logits, &seq, &c, &err);
	if (n < 0)
		cmd_die(&err);
	for (i = 0; i < n; i++)
		(void)printf("%" PRIu64 "\t%" PRId64 "\t%" PRId32
		    "\t%.9g\t%.9g\n", n_rows, i + 1, c[i].id, c[i].logit,
		    c[i].p);
	if (out.prompt || ferror(stdout))
		cmd_flush();
}

static void
put(int32_t id)
{
	struct pico_err err = {0};

	if (pico_tokens_put(&out, id, &err) < 0)
		cmd_die(&err);
	n_tokens++;
}

/* Ends a line because of a limit: closes the output if that is wanted, or
   remembers that it was cut off. */
static void
end_early(const struct pico_matcher *m, enum pico_reason reason)
{
	struct pico_err err = {0};
	size_t i;

	if (m != NULL && !pico_matcher_can_end(m) && !show_table) {
		forced.n = 0;
		cut = cut || !bound.finish;
		if (bound.finish && pico_matcher_closing(m, &forced, &err) < 0)
			cmd_die(&err);
		for (i = 0; i < forced.n; i++)
			put(forced.v[i]);
		reason = bound.finish ? PICO_END_STOP : reason;
	}
	end_line(reason);
}

/* Writes output that fits the grammar, up to the limit. */
static void
put_bound(int32_t id)
{
	struct pico_err err = {0};

	if (over || n_tokens == (uint64_t)limit)
		return;
	put(id);
	if (pico_matcher_token(drawn, id, &err) < 0)
		cmd_die(&err);
	over = pico_matcher_over(drawn);
	if (over)
		end_line(PICO_END_STOP);
}

/* Writes what the grammar forces; returns how much that is. */
static size_t
jump(void)
{
	struct pico_err err = {0};
	size_t i;

	forced.n = 0;
	if (bound.no_jump || over)
		return 0;
	if (pico_matcher_forced(drawn, &forced, &err) < 0)
		cmd_die(&err);
	for (i = 0; i < forced.n; i++)
		put_bound(forced.v[i]);
	return forced.n;
}

static void
draw(const float *logits)
{
	struct pico_err err = {0};
	bool first = !begun;
	int32_t id;

	begun = true;
	if (seen != NULL) {
		pico_matcher_copy(drawn, seen);
		if (first && jump() > 0)
			return;
		logits = mask(logits);
	}
	if (pico_sampler_draw(sampler, &chain, logits, &seq, &id, &err) < 0)
		cmd_die(&err);
	if (is_eog(id)) {
		over = true;
		if (emit_eog)
			put(id);
		end_line(PICO_END_EOG);
	} else if (seen == NULL) {
		put(id);
	} else {
		put_bound(id);
		(void)jump();
	}
}

/* Until the end of the stream, or of all that was asked for: then true. */
static bool
sample(void)
{
	struct pico_err err = {0};
	const float *logits;
	int32_t value;

	for (;;) {
		switch (pico_logits_next(in, &value, &logits, &err)) {
		case PICO_TOKEN:
			if (over)
				break;
			if (seen != NULL)
				match(value);
			remember(value);
			line_ended = false;
			if (logits == NULL)
				break;
			n_rows++;
			if (show_table)
				show_row(logits);
			else
				draw(logits);
			begun = true;
			if (limit < 0 || (int64_t)(show_table ? n_rows :
			    n_tokens) < limit)
				break;
			if (!line_ended)
				end_early(drawn, PICO_END_LIMIT);
			return true;
		case PICO_LINE_END:
			/* A session has one sequence only. */
			if (over)
				return true;
			end_line(PICO_END_LIMIT);
			break;
		case PICO_SEQ_END:
			if (!line_ended && value == PICO_END_CONTEXT && begun)
				end_early(seen, PICO_END_CONTEXT);
			else if (!line_ended)
				end_line((enum pico_reason)value);
			seq.number++;
			seq.n = 0;
			seq.drift = 0;
			over = line_ended = begun = false;
			if (seen != NULL)
				pico_matcher_restart(seen);
			break;
		case PICO_EOF:
			return false;
		default:
			cmd_die(&err);
		}
	}
}

static void
open_vocab(void)
{
	const char *path = cmd_model(model);
	struct pico_err err = {0};

	cmd_will_map(path);
	if (pico_gguf_open(&gguf, path, PICO_GGUF_HEADER, &err) < 0)
		cmd_die(&err);
	vocab = pico_vocab_open(gguf, NULL, &err);
	if (vocab == NULL)
		cmd_die_in(path, &err);
}

/* Returns true if no more input is wanted. */
static bool
sample_file(const char *operand)
{
	struct pico_err err = {0};
	const char *name;
	uint32_t n_vocab;
	bool done;
	int fd = cmd_open(operand, &name);

	in = pico_logits_open(fd, name, &err);
	if (in == NULL)
		cmd_die(&err);
	n_vocab = pico_logits_n_vocab(in);
	if (vocab != NULL && (uint32_t)pico_vocab_n(vocab) != n_vocab)
		cmd_fail("%s: logits for %" PRIu32 " tokens, the model's "
		    "vocabulary has %" PRId32, name, n_vocab,
		    pico_vocab_n(vocab));
	sampler = pico_sampler_new(n_vocab, &err);
	if (sampler == NULL ||
	    sampling_chain(&sampling, n_vocab, vocab, &chain, &err) < 0)
		cmd_die(&err);
	done = limit == 0 || sample();
	pico_sampler_free(sampler);
	pico_logits_close(in);
	if (fd != STDIN_FILENO)
		(void)close(fd);
	return done;
}

int
main(int argc, char **argv)
{
	struct pico_err err = {0};
	int i = cmd_start(&self, options, argc, argv);

	if (show_table && binary)
		cmd_usage("options -b and --show exclude each other");
	if (binary)
		cmd_no_terminal("option -b: binary output");
	cmd_confine(false);
	grammar = grammar_open(&bound);
	if (grammar != NULL || sampling_wants_vocab(&sampling))
		open_vocab();
	open_grammar();
	seq.seed = sampling.seed;
	pico_tokens_out_init(&out, STDOUT_FILENO, binary);
	cmd_out = &out;
	if (i == argc)
		(void)sample_file("-");
	while (i < argc && !sample_file(argv[i]))
		i++;
	if (!show_table && pico_tokens_flush(&out, &err) < 0)
		cmd_die(&err);
	if (verbose)
		(void)fprintf(stderr, "seed:\t%" PRIu64 "\nsequences:\t%" PRIu64
		    "\nrows:\t%" PRIu64 "\ntokens:\t%" PRIu64 "\n",
		    sampling.seed, seq.number, n_rows, n_tokens);
	close_grammar();
	free(prev);
	sampling_free(&sampling);
	pico_vocab_close(vocab);
	pico_gguf_close(gguf);
	return cmd_finish(cut ? PICO_CUT : 0);
}
