/* SPDX-License-Identifier: MIT */
/*
 * The standard mixes: which tensor gets which type. They are conventions, by
 * names of tensors and numbers of layers; what they have in common is that more
 * bits go where errors were found to cost most: to the output, to the values of
 * attention, and to what leaves the feed-forward layer.
 */
#include <inttypes.h>
#include <strings.h>

#include "quant.h"

enum {
	MIX_Q2_K, MIX_Q3_K_S, MIX_Q3_K_M, MIX_Q3_K_L, MIX_Q4_K_S, MIX_Q4_K_M,
	MIX_Q5_K_S, MIX_Q5_K_M, MIX_Q6_K, MIX_IQ4_NL, MIX_IQ4_XS, MIX_LEGACY,
	MIX_TERNARY, MIX_EXPERTS, MIX_PLAIN
};

/* `kind`: whose rules it has. */
static const struct pico_mix mixes[] = {
	{ "F32", 0, TYPE_F32, MIX_PLAIN },
	{ "F16", 1, TYPE_F16, MIX_PLAIN },
	{ "BF16", 32, TYPE_BF16, MIX_PLAIN },
	{ "Q8_0", 7, TYPE_Q8_0, MIX_PLAIN },
	{ "Q6_K", 18, TYPE_Q6_K, MIX_Q6_K },
	{ "Q5_K_M", 17, TYPE_Q5_K, MIX_Q5_K_M },
	{ "Q5_K_S", 16, TYPE_Q5_K, MIX_Q5_K_S },
	{ "Q5_K", 17, TYPE_Q5_K, MIX_Q5_K_M },
	{ "Q5_1", 9, TYPE_Q5_1, MIX_LEGACY },
	{ "Q5_0", 8, TYPE_Q5_0, MIX_LEGACY },
	{ "Q4_K_M", 15, TYPE_Q4_K, MIX_Q4_K_M },
	{ "Q4_K_S", 14, TYPE_Q4_K, MIX_Q4_K_S },
	{ "Q4_K", 15, TYPE_Q4_K, MIX_Q4_K_M },
	{ "Q4_1", 3, TYPE_Q4_1, MIX_LEGACY },
	{ "Q4_0", 2, TYPE_Q4_0, MIX_LEGACY },
	{ "IQ4_NL", 25, TYPE_IQ4_NL, MIX_IQ4_NL },
	{ "IQ4_XS", 30, TYPE_IQ4_XS, MIX_IQ4_XS },
	{ "MXFP4_MOE", 38, TYPE_MXFP4, MIX_EXPERTS },
	{ "MXFP4", 38, TYPE_MXFP4, MIX_LEGACY },
	{ "Q3_K_L", 13, TYPE_Q3_K, MIX_Q3_K_L },
	{ "Q3_K_M", 12, TYPE_Q3_K, MIX_Q3_K_M },
	{ "Q3_K_S", 11, TYPE_Q3_K, MIX_Q3_K_S },
	{ "Q3_K", 12, TYPE_Q3_K, MIX_Q3_K_M },
	{ "Q2_K", 10, TYPE_Q2_K, MIX_Q2_K },
	{ "TQ2_0", 37, TYPE_TQ2_0, MIX_TERNARY },
	{ "TQ1_0", 36, TYPE_TQ1_0, MIX_TERNARY },
};

const struct pico_mix *
pico_mix(size_t i)
{
	return i < COUNT(mixes) ? &mixes[i] : NULL;
}

const struct pico_mix *
pico_mix_named(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT(mixes); i++)
		if (strcasecmp(mixes[i].name, name) == 0)
			return &mixes[i];
	return NULL;
}

/* ---- which tensors ----------------------------------------------------- */

static bool
holds(struct pico_str name, const char *part)
{
	size_t n = strlen(part), i;

	for (i = 0; i + n <= name.n; i++)
		if (memcmp(name.p + i, part, n) == 0)
			return true;
	return false;
}

bool
pico_mix_takes(const struct pico_tensor *t)
{
	/* small, or known to suffer */
	static const char *const kept[] = { "_norm.weight",
	    "ffn_gate_inp.weight", "ssm_conv1d.weight", "attn_rel_b.weight",
	    "time_mix_first.weight", "time_mix_w1.weight",
	    "time_mix_w2.weight", "time_mix_decay_w1.weight",
	    "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight" };
	size_t i;

	if (t->dims[1] * t->dims[2] * t->dims[3] <= 1 || t->name.n < 6 ||
	    memcmp(t->name.p + t->name.n - 6, "weight", 6) != 0 ||
	    pico_str_is(t->name, "position_embd.weight") ||
	    pico_str_is(t->name, "token_types.weight"))
		return false;
	for (i = 0; i < COUNT(kept); i++)
		if (holds(t->name, kept[i]))
			return false;
	return true;
}

/* ---- rules ------------------------------------------------------------- */

/* The number in "blk.N."; -1 if there is none. */
static int64_t
layer_of(struct pico_str name)
{
	int64_t v = 0;
	size_t i;

	if (name.n < 6 || memcmp(name.p, "blk.", 4) != 0)
		return -1;
	for (i = 4; i < name.n && i < 12 && name.p[i] >= '0' &&
	    name.p[i] <= '9'; i++)
		v = v * 10 + (name.p[i] - '0');
	return i > 4 && i < name.n && name.p[i] == '.' ? v : -1;
}

/* The first and the last eighth, and every third layer between. */
static bool
more(int64_t i, int64_t n)
{
	return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

struct counts {
	bool tied;		/* the embeddings are the output, too */
	int64_t n_v;		/* tensors like attn_v */
	bool gqa4;		/* at least four heads share a key head */
	bool eight;		/* eight experts: what all share is small */
	bool falcon;
};

static uint32_t
output_type(const struct pico_mix *m, const struct counts *c,
    const struct pico_tensor *t)
{
	if (c->falcon || t->dims[0] % pico_type(m->type)->block != 0)
		return TYPE_Q8_0;
	return TYPE_Q6_K;
}

static uint32_t
value_type(const struct pico_mix *m, const struct pico_mix_model *model,
    const struct counts *c, int64_t i)
{
	uint32_t type = m->type;

	switch (m->kind) {
	case MIX_Q2_K:
		type = c->gqa4 ? TYPE_Q4_K : TYPE_Q3_K;
		break;
	case MIX_Q3_K_M:
		type = i < 2 ? TYPE_Q5_K : TYPE_Q4_K;
		break;
	case MIX_Q3_K_L:
		type = TYPE_Q5_K;
		break;
	case MIX_Q4_K_S:
		type = i < 4 ? TYPE_Q5_K : type;
		break;
	case MIX_Q4_K_M:
	case MIX_Q5_K_M:
		type = more(i, c->n_v) ? TYPE_Q6_K : type;
		break;
	case MIX_IQ4_NL:
	case MIX_IQ4_XS:
		type = c->gqa4 ? TYPE_Q5_K : type;
		break;
	}
	/* the 70B of LLaMA 2: eight heads share a key head, so this is little */
	if (model->n_layer == 80 && model->n_head != model->n_head_kv &&
	    pico_str_is(model->arch, "llama") &&
	    (type == TYPE_Q3_K || type == TYPE_Q4_K))
		type = TYPE_Q5_K;
	return c->eight ? TYPE_Q8_0 : type;
}

static uint32_t
down_type(const struct pico_mix *m, const struct pico_mix_model *model,
    const struct counts *c, int64_t i)
{
	int64_t n = model->n_layer;

	switch (m->kind) {
	case MIX_Q2_K:
		return TYPE_Q3_K;
	case MIX_Q3_K_M:
		if (i < n / 16)
			return TYPE_Q5_K;
		return c->falcon && !more(i, n) ? TYPE_Q3_K : TYPE_Q4_K;
	case MIX_Q3_K_L:
		return c->falcon ? TYPE_Q4_K : TYPE_Q5_K;
	case MIX_Q4_K_S:
		return !c->falcon && i < n / 8 ? TYPE_Q5_K : m->type;
	case MIX_Q4_K_M:
		if (c->falcon)
			return i < n / 16 ? TYPE_Q6_K :
			    more(i, n) ? TYPE_Q5_K : TYPE_Q4_K;
		return more(i, n) ? TYPE_Q6_K : m->type;
	case MIX_Q5_K_M:
		return more(i, n) ? TYPE_Q6_K : m->type;
	case MIX_IQ4_NL:
	case MIX_IQ4_XS:
		return i < n / 8 && !model->importance ? TYPE_Q5_K : m->type;
	case MIX_LEGACY:
		if (i >= n / 8 || !model->importance)
			return m->type;
		return m->type == TYPE_Q4_0 ? TYPE_Q4_1 :
		    m->type == TYPE_Q5_0 ? TYPE_Q5_1 : m->type;
	}
	return m->type;
}

static uint32_t
attn_output_type(const struct pico_mix *m, const struct counts *c)
{
	if (c->falcon)
		return m->kind == MIX_Q3_K_L ? TYPE_Q4_K : m->type;
	if (c->eight)
		return m->kind == MIX_Q2_K || m->kind == MIX_Q3_K_S ||
		    m->kind == MIX_Q3_K_M || m->kind == MIX_Q4_K_S ||
		    m->kind == MIX_Q4_K_M || m->kind == MIX_IQ4_NL ||
		    m->kind == MIX_IQ4_XS ? TYPE_Q5_K : m->type;
	return m->kind == MIX_Q2_K ? TYPE_Q3_K : m->kind == MIX_Q3_K_M ?
	    TYPE_Q4_K : m->kind == MIX_Q3_K_L ? TYPE_Q5_K : m->type;
}

static uint32_t
fused_type(const struct pico_mix *m)
{
	return m->kind == MIX_Q3_K_M || m->kind == MIX_Q3_K_L ? TYPE_Q4_K :
	    m->kind == MIX_Q4_K_M ? TYPE_Q5_K :
	    m->kind == MIX_Q5_K_M ? TYPE_Q6_K : m->type;
}

uint32_t
pico_fit_type(uint32_t type, uint64_t row)
{
	if (row % pico_type(type)->block == 0)
		return type;
	switch (type) {
	case TYPE_Q2_K: case TYPE_Q3_K: case TYPE_IQ4_XS:
		type = TYPE_IQ4_NL;
		break;
	case TYPE_TQ1_0: case TYPE_TQ2_0:
		type = TYPE_Q4_0;
		break;
	case TYPE_Q4_K:
		type = TYPE_Q5_0;
		break;
	case TYPE_Q5_K:
		type = TYPE_Q5_1;
		break;
	case TYPE_Q6_K:
		type = TYPE_Q8_0;
		break;
	}
	return row % pico_type(type)->block == 0 ? type : TYPE_F16;
}

/* v, down: how many of them came before. */
static uint32_t
type_of(const struct pico_mix *m, const struct pico_mix_model *model,
    const struct counts *c, const struct pico_tensor *t, int64_t v,
    int64_t down)
{
	int64_t layer = layer_of(t->name);

	if (m->kind == MIX_PLAIN)
		return m->type;
	if (m->kind == MIX_EXPERTS)
		return t->dims[2] > 1 ? TYPE_MXFP4 : TYPE_Q8_0;
	if (pico_str_is(t->name, "output.weight") ||
	    (c->tied && pico_str_is(t->name, "token_embd.weight")))
		return output_type(m, c, t);
	if (pico_str_is(t->name, "token_embd.weight"))
		return m->kind == MIX_TERNARY ? TYPE_Q4_K : m->type;
	if (model->n_expert > 1 && layer >= 0)
		v = down = layer;
	if (holds(t->name, "attn_v.weight"))
		return value_type(m, model, c, v);
	if (c->eight && holds(t->name, "attn_k.weight"))
		return TYPE_Q8_0;
	if (holds(t->name, "ffn_down"))
		return down_type(m, model, c, down);
	if (holds(t->name, "attn_output.weight"))
		return attn_output_type(m, c);
	if (holds(t->name, "attn_qkv.weight"))
		return fused_type(m);
	return m->type;
}

/* Layers count in their order, whatever that of the file. */
struct place {
	const struct pico_tensor *t;
	size_t i;
	int64_t layer;
};

static int
compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	return pico_str_compare(x->t->name, y->t->name);
}

int
pico_mix_types(const struct pico_mix *m, const struct pico_mix_model *model,
    const struct pico_tensor *t, size_t n, uint32_t *types,
    struct pico_err *err)
{
	struct place *order = mem_new(n, sizeof *order, "tensor table", err);
	struct counts c = { .tied = true, .eight = model->n_expert == 8,
	    .gqa4 = model->n_head_kv > 0 &&
	    model->n_head / model->n_head_kv >= 4,
	    .falcon = pico_str_is(model->arch, "falcon") };
	int64_t v = 0, down = 0;
	size_t i;

	if (order == NULL)
		return -1;
	for (i = 0; i < n; i++) {
		order[i] = (struct place){ &t[i], i, layer_of(t[i].name) };
		if (pico_str_is(t[i].name, "output.weight"))
			c.tied = false;
		c.n_v += holds(t[i].name, "attn_v.weight") ||
		    holds(t[i].name, "attn_qkv.weight") ||
		    holds(t[i].name, "attn_kv_b.weight");
	}
	qsort(order, n, sizeof *order, compare_places);
	for (i = 0; i < n; i++) {
		const struct pico_tensor *x = order[i].t;

		types[order[i].i] = !pico_mix_takes(x) ? x->type :
		    pico_fit_type(type_of(m, model, &c, x, v, down),
		    x->dims[0]);
		if (pico_mix_takes(x)) {
			v += holds(x->name, "attn_v.weight");
			down += holds(x->name, "ffn_down");
		}
	}
	free(order);
	return 0;
}
