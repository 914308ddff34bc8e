/* SPDX-License-Identifier: MIT */
/*
 * Contexts: the sizes of all that a pass needs, computed before anything is
 * asked for, and made to fit into the memory there is.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define CHUNK 512		/* columns of a pass, if nobody says */
#define CHUNK_STEP 16		/* fewer by so many, where memory is scarce */
#define LOGITS_BLOCK 32		/* rows of logits made at once... */
#define LOGITS_FEW 8		/* ...and where memory is scarce */
#define LITTLE 8		/* so small a part of the weights is little */
/* Of a scarce memory what columns may take: more of them save passes over the
   weights, fewer save weights that must be read. From so many bytes on the part
   is a smaller one: a model in 128 to 512 MB is to leave that memory to weights
   and the KV cache. */
#define COLUMNS_PART 32
#define COLUMNS_SOME ((uint64_t)11 << 19)
#define COLUMNS_PART_MORE 128

#define OTHER_BASE (5u << 20)
#define OTHER_THREAD (1u << 19)
#define OTHER_TOKEN 64

/* ---- work space ---- */

struct buffer {
	void *p;		/* address of the pointer */
	uint64_t n, size;	/* elements, bytes an element */
	const char *what;
};
#define MAX_BUFFERS 40
#define LINE 64		/* bytes of a cache line */

float *
space_take(struct space *r, uint64_t n, uint64_t width)
{
	float *p = r->base == NULL ? NULL : r->base + r->used;
	uint64_t floats = n * width, line = LINE / sizeof *p;

	r->used += floats + (line - 1 - (floats + line - 1) % line);
	return p;
}

/* Floats of work space for n columns of any layer. */
static uint64_t
work_floats(const struct hparams *h, uint64_t n)
{
	uint64_t most = 0;
	uint32_t il;

	for (il = 0; il < h->n_layer; il++) {
		struct space branch = {0}, ffn = {0};

		switch (h->arch->mixer) {
		case ATTENTION:
			attention_space(&branch, h, il, n);
			break;
		case MLA:
			mla_space(&branch, h, il, n);
			break;
		case MAMBA:
			mamba_space(&branch, h, n);
			break;
		case RWKV6:
		case RWKV7:
			rwkv_space(&branch, h, il, n);
			break;
		}
		if (!arch_recurrent(h->arch))
			feed_space(&ffn, h, il, n);
		most = MAX(most, MAX(branch.used, ffn.used));
	}
	return most;
}

/* Bytes of the longest row that a weight wants prepared in this kind. */
static uint64_t
act_bytes(const struct pico_model *m, enum act_kind kind)
{
	uint64_t most = 0;
	size_t i;

	for (i = 0; i < m->n_weights; i++) {
		const struct weight *w = m->weights[i];

		if (kernel_act_kind(w->type) == kind)
			most = MAX(most, w->n_group *
			    (uint64_t)kernel_act_bytes(kind, w->n_in));
	}
	return most;
}

/* Whether branches of some layer see the same x. */
static bool
any_parallel(const struct pico_model *m)
{
	return m->h.parallel || m->h.arch->ffn_norm == MAY;
}

/* All buffers of a context with their sizes, from the shapes. */
static size_t
list_buffers(struct pico_ctx *c, const struct pico_model *m, struct buffer *b)
{
	const struct hparams *h = &m->h;
	uint64_t n = c->chunk, half = h->n_rot / 2, used = h->n_expert_used;
	enum act_kind kind;
	size_t i = 0;
	int rope;

#define BUFFER(field, count, what_) \
	b[i++] = (struct buffer){ &c->field, count, sizeof *c->field, what_ }
	BUFFER(seq, n, "columns");
	BUFFER(pos, n, "columns");
	BUFFER(x, n * h->n_embd, "residual stream");
	BUFFER(y, n * h->n_embd, "normed rows");
	if (any_parallel(m))
		BUFFER(z, n * h->n_embd, "rows of a branch");
	BUFFER(work, work_floats(h, n), "work space");
	for (rope = 0; rope < 2 && half > 0; rope++) {
		if (rope == 1 && !h->arch->local_plain)
			break;
		BUFFER(freq[rope], half, "rotary frequencies");
		BUFFER(cos[rope], n * half, "rotary angles");
		BUFFER(sin[rope], n * half, "rotary angles");
	}
	if (h->alibi > 0)
		BUFFER(slopes, h->n_head[0], "slopes");
	if (h->arch->mixer == RWKV7)
		BUFFER(first_v, n * h->n_embd, "values of layer 0");
	for (kind = ACT_Q8; kind < ACT_KINDS; kind++)
		if (act_bytes(m, kind) > 0)
			BUFFER(act[kind], MAX(n, used) * act_bytes(m, kind),
			    "quantized rows");
	if (h->n_expert > 0) {
		BUFFER(router, n * h->n_expert, "router output");
		BUFFER(pick, n * h->n_expert, "router output");
		BUFFER(groups, n * h->n_group, "router output");
		BUFFER(shared, n, "router output");
		BUFFER(choice, n * used, "chosen experts");
		BUFFER(picked, n, "columns of an expert");
		BUFFER(picked_weight, n, "columns of an expert");
		BUFFER(xe, n * h->n_embd, "rows of an expert");
		BUFFER(ye, MAX(n, used) * h->n_embd, "rows of an expert");
		BUFFER(mix, n * h->n_embd, "sum of experts");
	}
	BUFFER(want, n, "columns");
	BUFFER(want_at, n, "columns");
	BUFFER(logits, (uint64_t)c->block * h->n_vocab, "logits");
#undef BUFFER
	return i;
}

/* One piece of memory for all, in which each begins a cache line. */
static int
buffer_bytes(const struct pico_model *m, uint32_t chunk, uint32_t block,
    uint64_t *sum, struct pico_err *err)
{
	struct pico_ctx c = { .chunk = chunk, .block = block };
	struct buffer b[MAX_BUFFERS];
	size_t i, n = list_buffers(&c, m, b);
	uint64_t bytes;

	*sum = LINE;
	for (i = 0; i < n; i++)
		if (!mul_u64(b[i].n, b[i].size, &bytes) ||
		    !add_u64(*sum, bytes, sum) || !add_u64(*sum, LINE, sum))
			return fail(err, "%s: more than can be counted",
			    b[i].what);
	return 0;
}

/* ---- the plan ---- */

/* What was decided about a context. */
struct layout {
	struct pico_ctx_params p;	/* all of them filled in */
	uint32_t block;
	bool fixed;			/* the user wants this chunk */
	bool scarce;			/* not all weights can stay */
	struct pico_plan plan;
};

/* Fills in the defaults and checks what was asked for. */
static int
settle(const struct pico_model *m, struct pico_ctx_params *p,
    struct pico_err *err)
{
	if (p->n_ctx == 0)
		p->n_ctx = MIN(m->h.n_ctx_train, PICO_CTX_CAP);
	if (p->n_seq == 0)
		p->n_seq = 1;
	if (p->n_threads == 0)
		p->n_threads = pico_default_threads();
	if (p->chunk == 0)
		p->chunk = CHUNK;
	if (p->memory == 0)
		p->memory = pico_memory();
	if (p->n_ctx > INT32_MAX || p->n_seq > 1 << 16 ||
	    p->n_threads > 1 << 12)
		return fail_usage(err, "context of %" PRIu32 " for %" PRIu32
		    " sequences with %" PRIu32 " threads is too much",
		    p->n_ctx, p->n_seq, p->n_threads);
	if (weight_is(&m->positions) && p->n_ctx > m->h.n_ctx_train)
		return fail(err, "context of %" PRIu32 ": the model has "
		    "learned %" PRIu32 " positions", p->n_ctx,
		    m->h.n_ctx_train);
	/* more columns than there are positions are never needed */
	if (p->chunk > (uint64_t)p->n_ctx * p->n_seq)
		p->chunk = p->n_ctx * p->n_seq;
	if (p->chunk < p->n_seq)
		p->chunk = p->n_seq;
	return 0;
}

/*
 * Everything else that is resident: the programs and the C library, stacks, the
 * metadata, and what depends on the vocabulary (names in use, sampling).
 */
static uint64_t
other_bytes(const struct pico_model *m, uint32_t n_threads)
{
	uint64_t sum = OTHER_BASE + (uint64_t)n_threads * OTHER_THREAD +
	    (uint64_t)m->h.n_vocab * OTHER_TOKEN;
	int i;

	for (i = 0; i < pico_gguf_n_shards(m->gguf); i++)
		sum += pico_gguf_info(m->gguf, i).data_offset;
	return sum;
}

/* Sums up what there is besides matrices; false if it cannot be counted. */
static bool
sum_up(const struct pico_model *m, const struct pico_plan *p, uint64_t *sum)
{
	return add_u64(p->kv, p->buffers, sum) &&
	    add_u64(*sum, p->other, sum) && add_u64(*sum, p->stream, sum) &&
	    add_u64(*sum, m->vector_bytes, sum);
}

/* Fewer columns in a pass, unless the user has said how many. */
static bool
take_fewer(struct layout *l)
{
	uint32_t n = (l->p.chunk - 1) / CHUNK_STEP * CHUNK_STEP;

	if (l->fixed || n < MAX(CHUNK_STEP, l->p.n_seq))
		return false;
	l->p.chunk = n;
	return true;
}

static uint64_t
most_for_columns(uint64_t memory)
{
	return MAX(MIN(memory / COLUMNS_PART, COLUMNS_SOME),
	    memory / COLUMNS_PART_MORE);
}

/* Whether all weights can stay, if need be with fewer columns: 1, 0, or -1. */
static int
fit_whole(const struct pico_model *m, struct layout *l, struct pico_err *err)
{
	uint64_t matrices = m->weight_bytes - m->vector_bytes, sum;
	struct pico_plan *plan = &l->plan;
	bool countable;

	do {
		l->block = MIN(l->p.chunk, LOGITS_BLOCK);
		if (buffer_bytes(m, l->p.chunk, l->block, &plan->buffers,
		    err) < 0)
			return -1;
		countable = sum_up(m, plan, &sum) &&
		    add_u64(sum, matrices, &sum);
		if (plan->whole == 0)
			plan->whole = countable ? sum : UINT64_MAX;
		if (l->p.memory == UINT64_MAX ||
		    (countable && sum <= l->p.memory))
			return 1;
	} while (take_fewer(l));
	return 0;
}

static int
fail_too_little(const struct layout *l, uint64_t vectors, uint64_t least,
    struct pico_err *err)
{
	const struct pico_plan *plan = &l->plan;
	uint64_t limit = machine_limit("", least);
	char group[80] = "";

	if (limit > 0)
		(void)snprintf(group, sizeof group, " (as the limit of the "
		    "memory cgroup: %" PRIu64 ")", limit);
	return fail(err, "memory of %" PRIu64 " bytes is too little, at least %"
	    PRIu64 " are needed%s: KV cache %" PRIu64 ", buffers %" PRIu64
	    ", weights on their way %" PRIu64 ", all else %" PRIu64,
	    l->p.memory, least, group, plan->kv, plan->buffers, plan->stream,
	    plan->other + vectors);
}

/* Not all weights can stay: few columns at once, and as many as then fit. */
static int
fit_some(const struct pico_model *m, struct layout *l, struct pico_err *err)
{
	struct pico_plan *plan = &l->plan;
	uint64_t least;
	bool *kept;

	plan->stream = resident_buffers(m);
	do {
		l->block = MIN(l->p.chunk, LOGITS_FEW);
		if (buffer_bytes(m, l->p.chunk, l->block, &plan->buffers,
		    err) < 0)
			return -1;
		if (!sum_up(m, plan, &least))
			return fail(err, "more memory than can be counted");
	} while ((plan->buffers > most_for_columns(l->p.memory) ||
	    least > l->p.memory) && take_fewer(l));
	if (least > l->p.memory)
		return fail_too_little(l, m->vector_bytes, least, err);
	kept = mem_new(m->n_weights, sizeof *kept, "kept weights", err);
	if (kept == NULL)
		return -1;
	plan->kept = m->vector_bytes + resident_choose(m, l->p.memory - least,
	    kept, &plan->streamed);
	free(kept);
	return 0;
}

static int
lay_out(const struct pico_model *m, const struct pico_ctx_params *params,
    struct layout *l, struct pico_err *err)
{
	const struct hparams *h = &m->h;
	struct pico_plan *plan = &l->plan;

	uint32_t chunk;
	int all;

	*l = (struct layout){ .p = *params, .fixed = params->chunk != 0 };
	if (settle(m, &l->p, err) < 0)
		return -1;
	*plan = (struct pico_plan){
		.weights = m->weight_bytes, .step = m->step_bytes,
		.kept = m->weight_bytes, .memory = l->p.memory,
		.other = other_bytes(m, l->p.n_threads),
		.n_ctx = l->p.n_ctx, .n_seq = l->p.n_seq,
		.n_layer = h->n_layer,
		.n_kv_embd_k = h->n_head_kv[0] * h->head_k,
		.n_kv_embd_v = h->n_head_kv[0] * h->head_v,
		.n_state = kv_state(h),
	};
	if (!kv_bytes(h, (enum kv_type)l->p.kv,
	    (uint32_t)kv_room(l->p.n_ctx), l->p.n_seq, &plan->kv))
		return fail(err, "a KV cache of %" PRIu32 " positions for %"
		    PRIu32 " sequences is more than can be counted",
		    l->p.n_ctx, l->p.n_seq);
	chunk = l->p.chunk;
	all = fit_whole(m, l, err);
	l->scarce = all == 0;
	if (l->scarce)
		l->p.chunk = chunk;
	if (all < 0 || (l->scarce && fit_some(m, l, err) < 0))
		return -1;
	plan->chunk = l->p.chunk;
	return 0;
}

int
pico_plan(const struct pico_model *m, const struct pico_ctx_params *params,
    struct pico_plan *plan, struct pico_err *err)
{
	struct layout l;

	if (lay_out(m, params, &l, err) < 0)
		return -1;
	*plan = l.plan;
	return 0;
}

/* ---- contexts ---- */

static int
take_buffers(struct pico_ctx *c, const struct pico_model *m,
    struct pico_err *err)
{
	struct buffer b[MAX_BUFFERS];
	size_t i, n = list_buffers(c, m, b);
	uint64_t bytes;
	uintptr_t at;
	void *p;

	if (buffer_bytes(m, c->chunk, c->block, &bytes, err) < 0)
		return -1;
	c->buffers = mem_new(1, bytes, "buffers", err);
	if (c->buffers == NULL)
		return -1;
	at = (uintptr_t)c->buffers;
	for (i = 0; i < n; i++) {
		at += LINE - 1 - (at + LINE - 1) % LINE;
		p = (uint8_t *)c->buffers + (at - (uintptr_t)c->buffers);
		memcpy(b[i].p, &p, sizeof p);
		at += b[i].n * b[i].size;
	}
	return 0;
}

/* What tells positions apart. */
static void
set_positions(struct pico_ctx *c)
{
	const struct hparams *h = &c->m->h;
	uint32_t pow2 = 1, i, n = h->alibi > 0 ? h->n_head[0] : 0;
	/* LongRoPE, arXiv 2402.13753: by the context there is room for, so that
	   all positions are told apart alike */
	int is_long = c->kv.n_ctx > h->rope_ctx_orig, rope;
	double e;

	for (rope = 0; rope < 2 && c->freq[rope] != NULL; rope++)
		rope_frequencies(h, rope, c->m->rope_factors[is_long],
		    c->freq[rope], &c->magnitude[rope]);
	/* ALiBi: a geometric sequence; what is beyond a power of two lies
	   between its steps */
	while (pow2 <= n / 2)
		pow2 *= 2;
	for (i = 0; i < n; i++) {
		e = i < pow2 ? i + 1 : (2.0 * (i - pow2) + 1) / 2;
		c->slopes[i] = (float)m_pow(2, -(double)h->alibi * e / pow2);
	}
}

struct pico_ctx *
pico_ctx_new(const struct pico_model *m, const struct pico_ctx_params *params,
    struct pico_err *err)
{
	const struct pico_ctx_params *p;
	struct pico_ctx *c;
	struct layout l;

	if (lay_out(m, params, &l, err) < 0)
		return NULL;
	if (m->no_data) {
		(void)fail(err, "only the header of the model was read, not "
		    "its tensors");
		return NULL;
	}
	c = mem_new(1, sizeof *c, "context", err);
	if (c == NULL)
		return NULL;
	p = &l.p;
	c->m = m;
	c->chunk = p->chunk;
	c->block = l.block;
	c->k = kernels_get(err);
	/* a cache that is little beside the weights does not grow */
	if (c->k == NULL || kv_init(&c->kv, &m->h, (enum kv_type)p->kv,
	    p->n_ctx, p->n_seq, !l.scarce && l.plan.kv <= m->weight_bytes /
	    LITTLE, err) < 0 || take_buffers(c, m, err) < 0)
		goto bad;
	c->pool = pool_new(p->n_threads, err);
	if (c->pool == NULL)
		goto bad;
	set_positions(c);
	if (!l.scarce) {
		resident_advise(m, READ_NORMAL);
		return c;
	}
	c->res = resident_new(m, l.plan.kept - m->vector_bytes, err);
	if (c->res != NULL) {
		forward_ahead(c);
		return c;
	}
bad:
	pico_ctx_free(c);
	return NULL;
}

void
pico_ctx_free(struct pico_ctx *c)
{
	if (c == NULL)
		return;
	resident_free(c->res);
	pool_free(c->pool);
	collect_free(c->collect);
	free(c->buffers);
	if (c->kv.h != NULL)
		kv_free(&c->kv);
	free(c);
}

uint32_t
pico_ctx_n_ctx(const struct pico_ctx *c)
{
	return c->kv.n_ctx;
}

uint32_t
pico_ctx_n_seq(const struct pico_ctx *c)
{
	return c->kv.n_seq;
}

uint32_t
pico_ctx_n_threads(const struct pico_ctx *c)
{
	return pool_n(c->pool);
}

uint32_t
pico_ctx_chunk(const struct pico_ctx *c)
{
	return c->chunk;
}

const char *
pico_ctx_kernels(const struct pico_ctx *c)
{
	return c->k->name;
}

double
pico_ctx_read_speed(struct pico_ctx *c)
{
	return resident_speed(c->res);
}

int
pico_ctx_fault(const struct pico_ctx *c, struct pico_err *err)
{
	if (c->fault.status == PICO_OK)
		return 0;
	return pico_fail(err, (enum pico_status)c->fault.status, "%s",
	    c->fault.msg);
}
