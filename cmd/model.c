/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "model.h"

int
model_kv_type(const struct pico_opt *o, const char *arg, struct pico_err *err)
{
	enum pico_kv_kind *kv = o->to;

	for (*kv = PICO_CACHE_F16; *kv <= PICO_CACHE_Q8_0; (*kv)++)
		if (strcmp(arg, pico_kv_kind_name(*kv)) == 0)
			return 0;
	return pico_fail(err, PICO_USAGE, "'%.60s' is not a cache type: f16, "
	    "f32 or q8_0", arg);
}

int
model_memory(const struct pico_opt *o, const char *arg, struct pico_err *err)
{
	uint64_t *memory = o->to;

	if (strcmp(arg, "max") == 0) {
		*memory = UINT64_MAX;
		return 0;
	}
	if (pico_parse_size(arg, memory, err) < 0)
		return -1;
	if (*memory == 0)
		return pico_fail(err, PICO_USAGE, "'%.60s' is no memory at "
		    "all", arg);
	return 0;
}

/* What will be asked for, before it is. */
static void
report_plan(const struct running *r, const struct pico_ctx_params *p)
{
	struct pico_model_info info = pico_model_info(r->model);
	struct pico_err err = {0};
	struct pico_plan plan;

	if (pico_plan(r->model, p, &plan, &err) < 0)
		cmd_die(&err);
	(void)fprintf(stderr, "weights:\t%" PRIu64 " bytes mapped, %" PRIu64
	    " read for a token\n", plan.weights, plan.step);
	(void)fprintf(stderr, "kv:\t%" PRIu64 " bytes when full: %" PRIu32
	    " positions, %" PRIu32 " at once\n", plan.kv, plan.n_ctx,
	    plan.n_seq);
	(void)fprintf(stderr, "buffers:\t%" PRIu64 " bytes, %" PRIu32
	    " tokens in a pass\n", plan.buffers, plan.chunk);
	if (plan.memory < UINT64_MAX)
		(void)fprintf(stderr, "limit:\t%" PRIu64 " bytes, %" PRIu64
		    " would hold all\n", plan.memory, plan.whole);
	if (plan.streamed > 0)
		(void)fprintf(stderr, "kept:\t%" PRIu64 " bytes of weights\n"
		    "streamed:\t%" PRIu64 " bytes a pass, through buffers of %"
		    PRIu64 "; all else %" PRIu64 "\n", plan.kept,
		    plan.streamed, plan.stream, plan.other);
	if (info.note != NULL)
		(void)fprintf(stderr, "note:\t%s\n", info.note);
	if (plan.n_ctx > info.n_ctx_train)
		(void)fprintf(stderr, "note:\tcontext %" PRIu32
		    ", the model was trained for %" PRIu32 "\n", plan.n_ctx,
		    info.n_ctx_train);
}

/* A pass takes at least as long as reading what is not kept. */
#define SLOW 2.0	/* seconds */

static void
warn_slow(const struct running *r, const struct pico_ctx_params *p)
{
	struct pico_err err = {0};
	struct pico_plan plan;
	double speed, seconds;
	uint64_t rest;

	if (cmd_quiet)
		return;
	if (pico_plan(r->model, p, &plan, &err) < 0)
		cmd_die(&err);
	if (plan.streamed == 0)
		return;
	speed = pico_ctx_read_speed(r->ctx);
	seconds = speed > 0 ? (double)plan.streamed / speed : 0;
	if (seconds <= SLOW)
		return;
	rest = plan.whole - plan.weights;
	cmd_warn("a step will take %.1f s: reads %" PRIu64 " bytes of weights "
	    "at %.1f MB/s; memory of %" PRIu64 " bytes would hold all, this "
	    "one holds weights of %" PRIu64, seconds, plan.streamed,
	    speed / 1e6, plan.whole, plan.memory > rest ? plan.memory - rest : 0);
}

struct pico_ctx_params
model_params(const struct model_opts *o, uint32_t n_seq)
{
	const char *env = getenv("PICO_MEMORY");
	uint64_t memory = o->memory;
	struct pico_err err = {0};

	if (memory == 0 && env != NULL && *env != '\0' &&
	    model_memory(&(struct pico_opt){ .to = &memory }, env, &err) < 0)
		cmd_usage("PICO_MEMORY: %s", err.msg);
	return (struct pico_ctx_params){
		.memory = memory, .n_ctx = (uint32_t)o->n_ctx, .n_seq = n_seq,
		.n_threads = (uint32_t)o->n_threads,
		.chunk = (uint32_t)o->chunk, .kv = o->kv,
	};
}

/* Kernels keep tiles of some 300 kB on the stack. */
#define STACK (640u << 10)

static void
touch_stack(void)
{
	volatile char room[STACK];
	size_t i;

	for (i = 0; i < sizeof room; i += 1024)
		room[i] = 0;
}

/* A stack that cannot grow is death by a signal: lets it grow at once, if so
   many bytes are to be had, or exits with a message. Where its limit is lower,
   only other threads compute. */
static void
reserve_stack(void)
{
	struct rlimit limit;
	volatile char *p;

	if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < 2 * STACK)
		return;
	p = cmd_alloc(STACK, 1);
	*p = 0;
	free((void *)(uintptr_t)p);
	touch_stack();
}

void
running_open(struct running *r, const struct model_opts *o, uint32_t n_seq)
{
	struct pico_ctx_params p = model_params(o, n_seq);
	const char *path = cmd_model(o->model);
	struct pico_err err = {0};
	uint64_t there = pico_memory();

	/* more than there is, but for "max", is asking for trouble */
	if (p.memory == 0 || (p.memory < UINT64_MAX && p.memory > there))
		p.memory = there;
	*r = (struct running){ .o = o };
	if (o->kv_file != NULL && *o->kv_file == '\0')
		cmd_usage("option --kv: the file name is empty");
	if (o->kv_file != NULL && pico_kv_can_save(o->kv_file, &err) < 0)
		cmd_die(&err);
	cmd_confine(o->kv_file != NULL || o->writes);
	cmd_will_map(path);
	if (pico_gguf_open(&r->gguf, path, 0, &err) < 0)
		cmd_die(&err);
	r->vocab = pico_vocab_open(r->gguf, NULL, &err);
	if (r->vocab != NULL)
		r->model = pico_model_open(r->gguf, &err);
	if (r->model == NULL)
		cmd_die_in(path, &err);
	if (o->verbose)
		report_plan(r, &p);
	r->ctx = pico_ctx_new(r->model, &p, &err);
	if (r->ctx == NULL)
		cmd_die(&err);
	warn_slow(r, &p);
	reserve_stack();
	r->disk = pico_disk_read();
}

void
running_close(struct running *r)
{
	pico_ctx_free(r->ctx);
	pico_model_close(r->model);
	pico_vocab_close(r->vocab);
	pico_gguf_close(r->gguf);
}

void
running_load(struct running *r)
{
	struct pico_err err = {0};

	if (r->o->kv_file != NULL &&
	    pico_kv_load(r->ctx, 0, r->o->kv_file, &err) < 0)
		cmd_die(&err);
}

void
running_save(struct running *r)
{
	struct pico_err err = {0};

	if (r->o->kv_file != NULL &&
	    pico_kv_save(r->ctx, 0, r->o->kv_file, &err) < 0)
		cmd_die(&err);
}

void
report_rate(const char *name, uint64_t tokens, uint64_t timed,
    double seconds)
{
	(void)fprintf(stderr, "%s:\t%" PRIu64 " tokens, %.3f s, %.1f tok/s\n",
	    name, tokens, seconds, seconds > 0 ? (double)timed / seconds : 0);
}

void
running_report(const struct running *r, uint64_t passes)
{
	uint64_t disk = pico_disk_read() - r->disk;

	(void)fprintf(stderr, "memory:\t%.1f MB peak, %" PRIu64
	    " bytes read, %" PRIu64 " a pass\n",
	    (double)pico_peak_memory() / 1e6, disk,
	    passes > 0 ? disk / passes : 0);
	(void)fprintf(stderr, "kernels:\t%s, %" PRIu32 " threads\n",
	    pico_ctx_kernels(r->ctx), pico_ctx_n_threads(r->ctx));
}
