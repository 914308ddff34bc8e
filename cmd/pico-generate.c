/* SPDX-License-Identifier: MIT */
/* Token stream in, its continuation out. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grammar.h"
#include "lines.h"
#include "model.h"
#include "sampling.h"

static struct model_opts model;
static struct sampling_opts sampling = SAMPLING_DEFAULTS;
static struct grammar_opts bound;
static struct pico_list stop_texts, stop_ids;
static int64_t n_max = -1, jobs = 1, keep = -1;
static bool binary, echo, session, ignore_eog, emit_eog, keep_going;
static bool interrupt;
static volatile sig_atomic_t interrupted;

static const struct cmd about = {
	"pico-generate",
	"[-bekqv] [-n N] [-j N] [-m FILE] [option ...] [file ...]",
	"Continues token sequences: token stream in, token stream out.",
};

static const struct pico_opt options[] = {
	{ 'n', "tokens", PICO_OPT_INT, &n_max, "N",
	    "new tokens a sequence, at most (no limit)", 0, INT32_MAX, NULL },
	{ 'j', "jobs", PICO_OPT_INT, &jobs, "N",
	    "sequences computed at once (1)", 1, 1024, NULL },
	{ 'b', "binary", PICO_OPT_FLAG, &binary, NULL,
	    "binary output", 0, 0, NULL },
	{ 'e', "echo", PICO_OPT_FLAG, &echo, NULL,
	    "write the prompt, too", 0, 0, NULL },
	{ 0, "session", PICO_OPT_FLAG, &session, NULL,
	    "every line continues the same sequence", 0, 0, NULL },
	{ 0, "shift", PICO_OPT_INT, &keep, "N",
	    "in a full context keep N tokens, slide the others (end)",
	    0, INT32_MAX, NULL },
	{ 0, "interrupt", PICO_OPT_FLAG, &interrupt, NULL,
	    "SIGINT ends an answer of the session, nothing else", 0, 0, NULL },
	{ 0, "stop", PICO_OPT_LIST, &stop_texts, "TEXT",
	    "end before this text; repeatable", 0, 0, NULL },
	{ 0, "stop-id", PICO_OPT_LIST, &stop_ids, "ID",
	    "end before this token; repeatable", 0, 0, NULL },
	{ 0, "ignore-eog", PICO_OPT_FLAG, &ignore_eog, NULL,
	    "end-of-generation tokens are like others", 0, 0, NULL },
	{ 0, "emit-eog", PICO_OPT_FLAG, &emit_eog, NULL,
	    "write the end-of-generation token", 0, 0, NULL },
	{ 'k', "keep-going", PICO_OPT_FLAG, &keep_going, NULL,
	    "a bad line gives an empty one, and exit 1 at the end",
	    0, 0, NULL },
	GRAMMAR_OPTIONS(bound),
	SAMPLING_OPTIONS(sampling),
	MODEL_OPTIONS(model),
	CMD_OPTIONS
};

static void
note_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

/* System calls go on behind it. */
static void
catch_interrupts(void)
{
	struct sigaction act = { .sa_handler = note_interrupt,
	    .sa_flags = SA_RESTART };

	(void)sigemptyset(&act.sa_mask);
	(void)sigaction(SIGINT, &act, NULL);
}

static int
put(void *data, int32_t id, struct pico_err *err)
{
	cmd_progress_output();
	return pico_tokens_put(data, id, err);
}

static int
end(void *data, enum pico_reason reason, struct pico_err *err)
{
	return pico_tokens_end(data, reason, err);
}

/* The values of --stop and --stop-id. */
static void
read_stops(struct pico_gen_params *p, int32_t n_vocab)
{
	struct pico_err err = {0};
	struct pico_str *text = cmd_alloc(stop_texts.n, sizeof *text);
	int32_t *id = cmd_alloc(stop_ids.n, sizeof *id);
	int64_t v;
	size_t i;

	for (i = 0; i < stop_texts.n; i++) {
		text[i].p = stop_texts.v[i];
		text[i].n = strlen(stop_texts.v[i]);
		if (text[i].n == 0)
			cmd_usage("option --stop: the text is empty");
	}
	for (i = 0; i < stop_ids.n; i++) {
		if (pico_parse_int(stop_ids.v[i], 0, n_vocab - 1, &v, &err) < 0)
			cmd_usage("option --stop-id: %s", err.msg);
		id[i] = (int32_t)v;
	}
	p->stop = text;
	p->n_stop = stop_texts.n;
	p->stop_id = id;
	p->n_stop_id = stop_ids.n;
}

/* Takes prompts while there is room and one is at hand: waits for input only
   if there is nothing else to do. Returns false after the last line, and after
   a fault; what runs already is to be finished before *fatal is told. */
static bool
take_prompts(struct pico_gen *g, struct lines *l, int *status,
    struct pico_err *fatal)
{
	static bool begun;	/* the session has tokens */
	struct pico_err err = {0};
	int r;

	while (pico_gen_has_room(g)) {
		if (pico_gen_busy(g) > 0 && !lines_ready(l))
			return true;
		r = lines_next(l, &err);
		if (r == 0)
			return false;
		if (r > 0) {
			if (l->n == 0 && !begun)
				cmd_warn("line %" PRIu64 ": empty prompt, "
				    "nothing to continue", l->number);
			begun = session && (begun || l->n > 0);
			if (pico_gen_add(g, l->ids, l->n, echo, &err) == 0)
				continue;
			lines_blame(l, &err);
		}
		if (!keep_going || (r < 0 && !lines_recover(l))) {
			*fatal = err;
			return false;
		}
		cmd_report(&err);
		*status = err.status;
		err.status = PICO_OK;
		if (pico_gen_skip(g, &err) < 0) {
			*fatal = err;
			return false;
		}
	}
	return true;
}

static const char *
reason_name(enum pico_reason reason)
{
	switch (reason) {
	case PICO_END_EOG: return "eog";
	case PICO_END_LIMIT: return "length";
	case PICO_END_CONTEXT: return "context";
	case PICO_END_STOP: return "stop";
	case PICO_END_NONE: break;
	}
	return "no input";
}

static void
report(const struct running *r, const struct pico_gen_stats *s)
{
	report_rate("prompt", s->prompt_tokens, s->prompt_tokens,
	    s->prompt_seconds);
	if (s->reused_tokens > 0)
		(void)fprintf(stderr, "reused:\t%" PRIu64 " tokens\n",
		    s->reused_tokens);
	report_rate("decode", s->new_tokens, s->decoded_tokens,
	    s->decode_seconds);
	if (s->forced_tokens > 0)
		(void)fprintf(stderr, "forced:\t%" PRIu64 " tokens\n",
		    s->forced_tokens);
	(void)fprintf(stderr, "stop:\t%s\n", reason_name(s->reason));
	running_report(r, s->passes);
	(void)fprintf(stderr, "seed:\t%" PRIu64 "\n", sampling.seed);
}

int
main(int argc, char **argv)
{
	struct pico_gen_params params = {0};
	struct pico_tokens_out out;
	const struct pico_gen_sink sink = { put, end, &out };
	struct pico_err err = {0}, fatal = {0};
	struct pico_grammar *grammar;
	struct pico_gen *g;
	struct running r;
	struct lines lines;
	int status = 0, first = cmd_start(&about, options, argc, argv);
	bool more = true;

	if (jobs > 1 && (session || model.kv_file != NULL))
		cmd_usage("option -j: one sequence only with %s",
		    session ? "--session" : "--kv");
	if (keep >= 0 && model.kv_file != NULL)
		cmd_usage("option --shift: not with --kv, which saves what the "
		    "tokens alone give");
	if (interrupt && !session)
		cmd_usage("option --interrupt needs --session");
	if (binary)
		cmd_no_terminal("option -b: binary output");
	grammar = grammar_open(&bound);
	if (grammar != NULL && ignore_eog)
		cmd_usage("option --ignore-eog: not with a grammar, which ends "
		    "the output");
	if (interrupt)
		catch_interrupts();
	running_open(&r, &model, (uint32_t)jobs);
	running_load(&r);
	params.seed = sampling.seed;
	params.n_max = n_max;
	params.ignore_eog = ignore_eog;
	params.emit_eog = emit_eog;
	params.session = session;
	params.shift = keep >= 0;
	params.keep = keep >= 0 ? (uint32_t)keep : 0;
	params.finish = bound.finish;
	params.no_jump = bound.no_jump;
	if (grammar != NULL) {
		params.constraint = pico_constraint_new(grammar, r.vocab,
		    &err);
		if (params.constraint == NULL)
			cmd_die(&err);
	}
	read_stops(&params, pico_vocab_n(r.vocab));
	if (sampling_chain(&sampling, (uint32_t)pico_vocab_n(r.vocab),
	    r.vocab, &params.chain, &err) < 0)
		cmd_die(&err);
	pico_tokens_out_init(&out, STDOUT_FILENO, binary);
	cmd_out = &out;
	g = pico_gen_new(r.ctx, r.vocab, &params, &sink, &err);
	if (g == NULL)
		cmd_die(&err);

	lines_open(&lines, argv + first);
	while (more || pico_gen_busy(g) > 0) {
		bool idle = pico_gen_busy(g) == 0;

		if (more)
			more = take_prompts(g, &lines, &status, &fatal);
		if (idle)
			interrupted = 0;	/* it was for no answer */
		if (interrupted ? pico_gen_stop(g, &err) < 0 :
		    pico_gen_step(g, &err) < 0)
			cmd_die(&err);
		cmd_progress("token", pico_gen_stats(g)->prompt_tokens +
		    pico_gen_stats(g)->new_tokens, 0);
	}
	if (pico_tokens_flush(&out, &err) < 0)
		cmd_die(&err);
	if (fatal.status != PICO_OK)
		cmd_die(&fatal);
	running_save(&r);
	cmd_progress_end();
	if (model.verbose)
		report(&r, pico_gen_stats(g));
	if (pico_gen_stats(g)->cut > 0 && status == 0)
		status = PICO_CUT;

	lines_close(&lines);
	pico_gen_free(g);
	pico_constraint_free(params.constraint);
	pico_grammar_free(grammar);
	running_close(&r);
	free((void *)(uintptr_t)params.stop);
	free((void *)(uintptr_t)params.stop_id);
	free(stop_texts.v);
	free(stop_ids.v);
	sampling_free(&sampling);
	return cmd_finish(status);
}
