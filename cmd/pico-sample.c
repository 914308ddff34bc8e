/* SPDX-License-Identifier: MIT */
/* pico-sample: logits in, tokens out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampling.h"

static const struct cmd self = {
	"pico-sample",
	"[-b | --show] [-n count] [-s seed] [option ...] [file ...]",
	"Draws a token from each row of a logits stream."
};

static struct sampling_opts sampling = SAMPLING_DEFAULTS;
static int64_t limit = -1;
static bool binary, emit_eog, ignore_eog, show_table, verbose;

static const struct pico_opt options[] = {
	{ 'b', "binary", PICO_OPT_FLAG, &binary, NULL,
	    "write a binary token stream", 0, 0, NULL },
	{ 'n', "tokens", PICO_OPT_INT, &limit, "N",
	    "stop after N tokens in all", 0, 0, NULL },
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
static struct pico_sampler *sampler;
static struct pico_chain chain;
static struct pico_tokens_out out;
static int32_t *prev;		/* the tokens of this sequence */
static size_t n_prev, cap_prev;
static uint64_t n_seq, n_tokens, n_rows;
static bool over;		/* its end-of-generation token was drawn */
static bool line_ended;		/* nothing since the output line ended */

static void
remember(int32_t id)
{
	int32_t *v;

	if (n_prev == cap_prev) {
		cap_prev = cap_prev > 0 ? cap_prev * 2 : 1024;
		v = realloc(prev, cap_prev * sizeof *v);
		if (v == NULL)
			cmd_fail("no memory for %zu tokens", cap_prev);
		prev = v;
	}
	prev[n_prev++] = id;
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

	n = pico_sampler_run(sampler, &chain, logits, prev, n_prev, n_prev, &c,
	    &err);
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
draw(const float *logits)
{
	struct pico_err err = {0};
	int32_t id;

	if (pico_sampler_draw(sampler, &chain, logits, prev, n_prev, n_prev,
	    pico_draw(sampling.seed, n_seq, n_prev), &id, &err) < 0)
		cmd_die(&err);
	over = is_eog(id);
	if (!over || emit_eog) {
		if (pico_tokens_put(&out, id, &err) < 0)
			cmd_die(&err);
		n_tokens++;
	}
	if (over)
		end_line(PICO_END_EOG);
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
			remember(value);
			line_ended = false;
			if (logits == NULL)
				break;
			n_rows++;
			if (show_table)
				show_row(logits);
			else
				draw(logits);
			if (limit < 0 || (int64_t)(show_table ? n_rows :
			    n_tokens) < limit)
				break;
			if (!line_ended)
				end_line(PICO_END_LIMIT);
			return true;
		case PICO_LINE_END:
			/* A session has one sequence only. */
			if (over)
				return true;
			end_line(PICO_END_LIMIT);
			break;
		case PICO_SEQ_END:
			if (!line_ended)
				end_line((enum pico_reason)value);
			n_seq++;
			n_prev = 0;
			over = line_ended = false;
			break;
		case PICO_EOF:
			return false;
		default:
			cmd_die(&err);
		}
	}
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
	sampler = pico_sampler_new(n_vocab, &err);
	if (sampler == NULL ||
	    sampling_chain(&sampling, n_vocab, &chain, &err) < 0)
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
		    sampling.seed, n_seq, n_rows, n_tokens);
	free(prev);
	free(sampling.bias);
	return cmd_finish(0);
}
