/* SPDX-License-Identifier: MIT */
/* Whether a model runs here, and what it needs. */
#include "inspect.h"

#include <errno.h>
#include <inttypes.h>

/* NULL and *err: it does not run. */
static struct pico_model *
open_model(const struct pico_gguf *g, struct pico_err *err)
{
	struct pico_vocab *v = pico_vocab_open(g, NULL, err);

	if (v == NULL)
		return NULL;
	pico_vocab_close(v);
	return pico_model_open(g, err);
}

void
put_needs(const struct pico_gguf *g)
{
	struct pico_ctx_params params = {0};
	struct pico_err err = {0};
	struct pico_model *m;
	struct pico_plan p;

	errno = 0;
	m = open_model(g, &err);
	if (m == NULL && errno == ENOMEM)	/* says nothing of the model */
		cmd_die(&err);
	if (m == NULL || pico_plan(m, &params, &p, &err) < 0) {
		printf("runs here:\tno: %s\n", err.msg);
		pico_model_close(m);
		return;
	}
	printf("runs here:\tyes\nneeds:\t%.1f MB of weights, %.1f MB of KV "
	    "cache for %" PRIu32 " tokens, %.1f MB of buffers\n",
	    (double)p.weights / 1e6, (double)p.kv / 1e6, p.n_ctx,
	    (double)p.buffers / 1e6);
	if (pico_model_info(m).note != NULL)
		printf("note:\t%s\n", pico_model_info(m).note);
	pico_model_close(m);
}

/* The sum that the memory must hold. */
static void
put_limit(const struct pico_plan *p)
{
	printf("other\t%" PRIu64 "\tprograms, stacks, metadata: an estimate\n",
	    p->other);
	printf("kept\t%" PRIu64 "\tof the weights stay in memory\n", p->kept);
	printf("streamed\t%" PRIu64 "\tread from the file per step, through "
	    "%" PRIu64 " of buffers\n", p->streamed, p->stream);
	printf("total\t%" PRIu64 "\tof ", p->kept + p->kv + p->buffers +
	    p->other + p->stream);
	if (p->memory < UINT64_MAX)
		printf("%" PRIu64 ", ", p->memory);
	else
		printf("any memory, ");
	printf("%" PRIu64 " would hold all\n", p->whole);
}

/* Or the states that a recurrent model has instead. */
static void
put_cache(const struct pico_plan *p, enum pico_kv_kind kind)
{
	printf("kv\t%" PRIu64 "\t%" PRIu32 " layers x ", p->kv, p->n_layer);
	if (p->n_state > 0)
		printf("states of %" PRIu64 " x %" PRIu32 " at once x f32\n",
		    p->n_state, p->n_seq);
	else
		printf("(%" PRIu32 " + %" PRIu32 ") x %" PRIu32 " positions x %"
		    PRIu32 " at once x %s\n", p->n_kv_embd_k, p->n_kv_embd_v,
		    p->n_ctx, p->n_seq, pico_kv_kind_name(kind));
}

int
put_plan(const struct pico_gguf *g, const char *path,
    const struct pico_ctx_params *params)
{
	struct pico_err err = {0};
	struct pico_model *m = open_model(g, &err);
	struct pico_plan p;

	if (m == NULL || pico_plan(m, params, &p, &err) < 0) {
		pico_model_close(m);
		return fault(path, "%s", err.msg);
	}
	printf("weights\t%" PRIu64 "\tmapped, %" PRIu64 " read per step\n",
	    p.weights, p.step);
	put_cache(&p, params->kv);
	printf("buffers\t%" PRIu64 "\n", p.buffers);
	if (params->memory > 0 || p.streamed > 0)
		put_limit(&p);
	else
		printf("total\t%" PRIu64 "\n", p.weights + p.kv + p.buffers);
	pico_model_close(m);
	return 0;
}
