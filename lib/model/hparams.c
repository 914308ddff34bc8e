/* SPDX-License-Identifier: MIT */
/*
 * Hyperparameters: numbers from the metadata, with their defaults, and the keys
 * that would change the result if only we knew what to do with them.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/*
 * Keys that change the mathematics, with the values that change nothing. What
 * nobody has asked for must have one of those: nothing meaningful is ignored.
 */
static const struct {
	const char *suffix;
	double neutral[2];
} meaningful[] = {
	{ "attn_logit_softcapping", { 0, 0 } },
	{ "final_logit_softcapping", { 0, 0 } },
	{ "attention.clamp_kqv", { 0, 0 } },
	{ "attention.causal", { 1, 1 } },
	{ "attention.temperature_scale", { 0, 0 } },
	{ "attention.sliding_window", { 0, 0 } },
	{ "attention.q_lora_rank", { 0, 0 } },
	{ "attention.kv_lora_rank", { 0, 0 } },
	{ "attention.key_length_mla", { 0, 0 } },
	{ "attention.value_length_mla", { 0, 0 } },
	{ "logit_scale", { 0, 1 } },
	{ "residual_scale", { 0, 1 } },
	{ "embedding_scale", { 0, 1 } },
	{ "use_parallel_residual", { 0, 0 } },
	{ "expert_shared_count", { 0, 0 } },
	{ "expert_shared_feed_forward_length", { 0, 0 } },
	{ "expert_group_count", { 0, 1 } },
	{ "leading_dense_block_count", { 0, 0 } },
	{ "interleave_moe_layer_step", { 0, 1 } },
	{ "nextn_predict_layers", { 0, 0 } },
	{ "rope.scaling.yarn_log_multiplier", { 0, 0 } },
	{ "rope.scaling.yarn_ext_factor", { 1, -1 } },
	{ "rope.scaling.yarn_attn_factor", { 1, 1 } },
	{ "rope.scaling.yarn_beta_fast", { 32, 32 } },
	{ "rope.scaling.yarn_beta_slow", { 1, 1 } },
	{ "ssm.conv_kernel", { 0, 0 } },
	{ "ssm.state_size", { 0, 0 } },
	{ "wkv.head_size", { 0, 0 } },
	{ "token_shift_count", { 2, 2 } },
};

/* Reading under the architecture's prefix; the first error stays. */
struct reader {
	const struct pico_gguf *g;
	const char *prefix;
	struct pico_err *err;
	char key[128];
	bool asked[COUNT(meaningful)];
};

static const char *
full(struct reader *r, const char *suffix)
{
	size_t i;

	for (i = 0; i < COUNT(meaningful); i++)
		if (strcmp(suffix, meaningful[i].suffix) == 0)
			r->asked[i] = true;
	(void)snprintf(r->key, sizeof r->key, "%s.%s", r->prefix, suffix);
	return r->key;
}

/* 1 found, 0 missing (out untouched), -1. */
static int
read_u32(struct reader *r, const char *suffix, uint32_t min, uint32_t max,
    uint32_t *out)
{
	int64_t v;
	int got = pico_gguf_int(r->g, full(r, suffix), min, max, &v, r->err);

	if (got > 0)
		*out = (uint32_t)v;
	return got;
}

static int
need_u32(struct reader *r, const char *suffix, uint32_t max, uint32_t *out)
{
	int got = read_u32(r, suffix, 1, max, out);

	if (got == 0)
		return fail(r->err, "key '%s' is missing", r->key);
	return got;
}

/* A scalar for all layers, or an array with one value a layer. */
static int
read_per_layer(struct reader *r, const char *suffix, uint32_t n_layer,
    uint32_t min, uint32_t max, uint32_t *out)
{
	const struct pico_kv *kv = pico_gguf_find(r->g, full(r, suffix));
	uint32_t i, v = 0;
	int64_t e;

	if (kv == NULL)
		return 0;
	if (kv->type != PICO_KV_ARR) {
		if (read_u32(r, suffix, min, max, &v) < 0)
			return -1;
		for (i = 0; i < n_layer; i++)
			out[i] = v;
		return 1;
	}
	if (kv->elem == PICO_KV_STR || kv->elem == PICO_KV_ARR ||
	    kv->elem == PICO_KV_F32 || kv->elem == PICO_KV_F64 ||
	    kv->elem == PICO_KV_BOOL)
		return fail(r->err, "key '%s' is an array of %s, not of "
		    "integers", r->key, pico_kv_type_name(kv->elem));
	if (kv->n != n_layer)
		return fail(r->err, "key '%s' has %" PRIu64 " values for %"
		    PRIu32 " layers", r->key, kv->n, n_layer);
	for (i = 0; i < n_layer; i++) {
		e = pico_kv_int_at(kv, i);
		if (e < min || e > max)
			return fail(r->err, "key '%s' holds %" PRId64
			    " for layer %" PRIu32 ", not %" PRIu32 " to %"
			    PRIu32, r->key, e, i, min, max);
		out[i] = (uint32_t)e;
	}
	return 1;
}

/* A number that a float can hold, if the key is there. */
static int
read_real(struct reader *r, const char *suffix, double *out)
{
	double v;
	int got = pico_gguf_real(r->g, full(r, suffix), &v, r->err);

	if (got > 0 && !(fabs(v) <= FLT_MAX))
		return fail(r->err, "key '%s' holds %g", r->key, v);
	if (got > 0)
		*out = v;
	return got;
}

/* The same; one that must be there. */
static int
need_real(struct reader *r, const char *suffix, double *out)
{
	int got = read_real(r, suffix, out);

	if (got == 0)
		return fail(r->err, "key '%s' is missing", r->key);
	return got;
}

/* The same for a float that must not be below 0. */
static int
read_float(struct reader *r, const char *suffix, float *out)
{
	double v = *out;

	if (read_real(r, suffix, &v) < 0)
		return -1;
	if (v < 0)
		return fail(r->err, "key '%s' is %g, below 0", r->key, v);
	*out = (float)v;
	return 0;
}

/* A width; 0 leaves what it would be without the key. */
static int
read_width(struct reader *r, const char *suffix, uint32_t *out)
{
	uint32_t v = 0;
	int got = read_u32(r, suffix, 0, 1 << 24, &v);

	if (v > 0)
		*out = v;
	return got;
}

/* A factor, of which 0 means 1. */
static int
read_factor(struct reader *r, const char *suffix, float *out)
{
	if (read_float(r, suffix, out) < 0)
		return -1;
	if (*out == 0)
		*out = 1;
	return 0;
}

/* Whether the architecture gives a meaning to a key. */
static bool
has(const struct hparams *h, uint32_t key)
{
	return (h->arch->keys & key) != 0;
}

/* A key that nobody asked for: it must say a, or b. */
static int
must_be(struct reader *r, const struct hparams *h, const char *suffix,
    double a, double b)
{
	const struct pico_kv *kv = pico_gguf_find(r->g, full(r, suffix));
	double v;

	if (kv == NULL)
		return 0;
	if (kv->type == PICO_KV_STR || kv->type == PICO_KV_ARR)
		return fail(r->err, "key '%s' is not understood for "
		    "architecture '%s'", r->key, h->arch->name);
	v = pico_kv_real_at(kv, 0);
	if (!(fabs(v - a) <= 1e-4 * fabs(a)) && v != b)
		return fail(r->err, "key '%s' is %g: not implemented for "
		    "architecture '%s'", r->key, v, h->arch->name);
	return 0;
}

static int
refuse_unknown(struct reader *r, struct hparams *h)
{
	size_t i;

	for (i = 0; i < COUNT(meaningful); i++)
		if (!r->asked[i] && must_be(r, h, meaningful[i].suffix,
		    meaningful[i].neutral[0], meaningful[i].neutral[1]) < 0)
			return -1;
	if (pico_gguf_find(r->g, full(r, "rope.dimension_sections")) != NULL ||
	    (h->arch->window_key == NEVER && pico_gguf_find(r->g, full(r,
	    "attention.sliding_window_pattern")) != NULL))
		return fail(r->err, "key '%s' is not implemented for "
		    "architecture '%s'", r->key, h->arch->name);
	/* what is done without asking */
	return (!has(h, KEY_ATTN_SCALE) &&
	    must_be(r, h, "attention.scale", h->attn_scale, 0) < 0) ||
	    (!has(h, KEY_ALIBI) &&
	    must_be(r, h, "attention.max_alibi_bias", h->alibi, 0) < 0) ||
	    (!h->arch->local_plain && must_be(r, h, "rope.freq_base_swa",
	    h->rope_of[0].base, 0) < 0) ||
	    must_be(r, h, "rope.dimension_count_swa", h->n_rot, 0) < 0 ||
	    must_be(r, h, "attention.key_length_swa", h->head_k, 0) < 0 ||
	    must_be(r, h, "attention.value_length_swa", h->head_v, 0) < 0 ?
	    -1 : 0;
}

/* ---- attention ---- */

static int
read_heads(struct reader *r, struct hparams *h)
{
	bool sized_k, sized_v;
	uint32_t i;
	int got;

	got = read_per_layer(r, "attention.head_count", h->n_layer, 1, 1 << 16,
	    h->n_head);
	if (got == 0)
		return fail(r->err, "key '%s' is missing", r->key);
	if (got < 0)
		return -1;
	got = read_per_layer(r, "attention.head_count_kv", h->n_layer, 1,
	    1 << 16, h->n_head_kv);
	if (got < 0)
		return -1;
	for (i = 0; i < h->n_layer; i++) {
		if (got == 0)
			h->n_head_kv[i] = h->n_head[i];
		if (h->n_head_kv[i] > h->n_head[i] ||
		    h->n_head[i] % h->n_head_kv[i] != 0) /* NOLINT: from 1 on */
			return fail(r->err, "key '%s' is %" PRIu32
			    ", which does not divide %" PRIu32 " heads",
			    full(r, "attention.head_count_kv"),
			    h->n_head_kv[i], h->n_head[i]);
	}
	h->head_k = h->n_embd / h->n_head[0];
	h->head_v = h->head_k;
	got = read_u32(r, "attention.key_length", 1, 1 << 16, &h->head_k);
	if (got < 0)
		return -1;
	sized_k = got > 0;
	got = read_u32(r, "attention.value_length", 1, 1 << 16, &h->head_v);
	if (got < 0)
		return -1;
	sized_v = got > 0;
	if ((!sized_k || !sized_v) && h->n_embd % h->n_head[0] != 0)
		return fail(r->err, "key '%s' is %" PRIu32
		    ", which does not divide the embedding length %" PRIu32,
		    full(r, "attention.head_count"), h->n_head[0], h->n_embd);
	for (i = 0; i < h->n_layer; i++)
		if ((uint64_t)h->n_head[i] * MAX(h->head_k, h->head_v) >
		    1 << 24)
			return fail(r->err, "key '%s' is %" PRIu32 ": too many "
			    "for heads of %" PRIu32,
			    full(r, "attention.head_count"), h->n_head[i],
			    MAX(h->head_k, h->head_v));
	h->attn_scale = 1 / sqrtf((float)h->head_k);
	return 0;
}

/* Which layers are local: every n-th is not, or the key has a list. */
static int
read_pattern(struct reader *r, struct hparams *h)
{
	const char *key = full(r, "attention.sliding_window_pattern");
	const struct pico_kv *kv = h->arch->window_key == NEVER ? NULL :
	    pico_gguf_find(r->g, key);
	uint32_t i;

	if (kv != NULL && kv->type == PICO_KV_ARR) {
		if (kv->elem != PICO_KV_BOOL || kv->n != h->n_layer)
			return fail(r->err, "key '%s' is not an array of %"
			    PRIu32 " bools, one a layer", key, h->n_layer);
		for (i = 0; i < h->n_layer; i++)
			h->local[i] = h->every > 0 &&
			    pico_kv_int_at(kv, i) != 0;
		return 0;
	}
	if (kv != NULL) {
		i = h->every;
		if (read_u32(r, "attention.sliding_window_pattern", 1, 1 << 16,
		    &i) < 0)
			return -1;
		if (h->every > 0)
			h->every = i;
	}
	for (i = 0; i < h->n_layer && h->every > 0; i++)
		h->local[i] = i % h->every < h->every - 1;
	return 0;
}

static int
read_window(struct reader *r, struct hparams *h)
{
	const struct arch *a = h->arch;
	bool must = a->window_key == MUST;
	int64_t w = a->window;
	int got = 0;

	if (a->window_key != NEVER || a->ignore_window)
		got = pico_gguf_int(r->g, full(r, "attention.sliding_window"),
		    must ? 1 : 0, INT64_MAX, &w, r->err);
	if (got < 0)
		return -1;
	if (got == 0 && must)
		return fail(r->err, "key '%s' is missing", r->key);
	if (a->ignore_window) {
		h->window_ignored = w > 0;
		return 0;
	}
	h->window = (uint32_t)MIN(w, UINT32_MAX);
	/* without a window no layer is local */
	if (a->window_key != NEVER && h->window == 0)
		h->every = 0;
	return read_pattern(r, h);
}

uint32_t
hparams_window(const struct hparams *h, uint32_t il)
{
	return h->local[il] ? h->window : 0;
}

bool
hparams_turns(const struct hparams *h, uint32_t il)
{
	return h->rope != ROPE_NONE &&
	    (!h->arch->local_rope || h->every == 0 || h->local[il]);
}

/* Latent attention: two layouts of tensors, told apart by a key. */
static int
read_mla(struct reader *r, struct hparams *h)
{
	uint32_t k = 0, il;
	int got;

	if (h->arch->mixer != MLA)
		return 0;
	if (need_u32(r, "attention.kv_lora_rank", 1 << 16, &h->kv_rank) < 0 ||
	    read_u32(r, "attention.q_lora_rank", 0, 1 << 16, &h->q_rank) < 0)
		return -1;
	got = read_u32(r, "attention.key_length_mla", 1, 1 << 16, &k);
	if (got < 0)
		return -1;
	h->mla_latent = got > 0;
	if (h->mla_latent) {
		if (need_u32(r, "attention.value_length_mla", 1 << 16,
		    &h->mla_v) < 0)
			return -1;
		if (h->head_k != h->kv_rank + h->n_rot)
			return fail(r->err, "key '%s' is %" PRIu32 ", not %"
			    PRIu32 ": that of what is latent, and of what "
			    "turns", full(r, "attention.key_length"),
			    h->head_k, h->kv_rank + h->n_rot);
		if (h->head_v != h->kv_rank)
			return fail(r->err, "key '%s' is %" PRIu32 ", not %"
			    PRIu32, full(r, "attention.value_length"),
			    h->head_v, h->kv_rank);
	} else {
		k = h->head_k;
		h->mla_v = h->head_v;
	}
	if (k <= h->n_rot)
		return fail(r->err, "key '%s' is %" PRIu32
		    ", so nothing of a head of %" PRIu32 " stays unturned",
		    full(r, "rope.dimension_count"), h->n_rot, k);
	h->mla_k = k - h->n_rot;
	h->rot_first = h->head_k - h->n_rot;
	for (il = 0; il < h->n_layer; il++) {
		if (h->n_head_kv[il] != (h->mla_latent ? 1 : h->n_head[il]))
			return fail(r->err, "key '%s' is %" PRIu32 ", not %"
			    PRIu32, full(r, "attention.head_count_kv"),
			    h->n_head_kv[il], h->mla_latent ? 1 :
			    h->n_head[il]);
		if ((uint64_t)h->n_head[il] * (h->mla_k + h->mla_v + h->n_rot)
		    > 1 << 24)
			return fail(r->err, "key '%s' is %" PRIu32
			    ": too many", full(r, "attention.head_count"),
			    h->n_head[il]);
	}
	h->attn_scale = 1 / sqrtf((float)k);
	return 0;
}

/* ---- positions ---- */

/* How the rotation is scaled; *type is the kind. */
static int
read_scaling(struct reader *r, struct hparams *h, struct pico_str *type)
{
	struct rope *rope = &h->rope_of[0];
	double factor = 0;

	if (read_real(r, "rope.scaling.attn_factor", &rope->attn_factor) < 0 ||
	    read_u32(r, "rope.scaling.original_context_length", 1, INT32_MAX,
	    &h->rope_ctx_orig) < 0 ||
	    pico_gguf_str(r->g, full(r, "rope.scaling.type"), type,
	    r->err) < 0)
		return -1;
	rope->yarn = pico_str_is(*type, "yarn");
	h->longrope = pico_str_is(*type, "longrope");
	/* Phi-3's converters write the tables and no type */
	if (pico_gguf_find(r->g, r->key) == NULL)
		h->longrope = pico_gguf_find_tensor(r->g,
		    "rope_factors_long.weight") != NULL;
	if (!rope->yarn && !h->longrope && !pico_str_is(*type, "linear") &&
	    !pico_str_is(*type, "none"))
		return fail(r->err, "key '%s' is '%s': not implemented for "
		    "architecture '%s'", r->key, show_str(*type),
		    h->arch->name);
	if (pico_gguf_find(r->g, full(r, "rope.scaling.factor")) != NULL) {
		if (read_real(r, "rope.scaling.factor", &factor) < 0)
			return -1;
	} else if (read_real(r, "rope.scale_linear", &factor) < 0) {
		return -1;
	}
	/* smaller ones make angles that mean nothing any more */
	if (factor < 0 || (factor > 0 && factor < 1e-3))
		return fail(r->err, "key '%s' is %g, neither 0 nor at least "
		    "0.001", r->key, factor);
	if (factor > 0 && !pico_str_is(*type, "none"))
		rope->scale = 1 / factor;
	h->yarn_fast = 32;
	h->yarn_slow = 1;
	if (has(h, KEY_YARN_BETA) &&
	    (read_real(r, "rope.scaling.yarn_beta_fast", &h->yarn_fast) < 0 ||
	    read_real(r, "rope.scaling.yarn_beta_slow", &h->yarn_slow) < 0))
		return -1;
	if (rope->yarn && !(h->yarn_fast > 0 && h->yarn_slow > 0))
		return fail(r->err, "keys '%s' and yarn_beta_fast hold %g and "
		    "%g, not above 0", r->key, h->yarn_slow, h->yarn_fast);
	if (has(h, KEY_YARN_LOG))
		return read_real(r, "rope.scaling.yarn_log_multiplier",
		    &h->yarn_log);
	return 0;
}

static int
read_base(struct reader *r, const char *suffix, double *base)
{
	if (read_real(r, suffix, base) < 0)
		return -1;
	if (!(*base > 1))
		return fail(r->err, "key '%s' is %g, not above 1", r->key,
		    *base);
	return 0;
}

static int
read_rope(struct reader *r, struct hparams *h)
{
	struct pico_str type = { "linear", 6 };
	struct rope *rope = h->rope_of;
	bool tuned = true;

	rope[0] = (struct rope){
		.base = 10000, .scale = 1, .attn_factor = 1,
	};
	h->rope_ctx_orig = h->n_ctx_train;
	if (has(h, KEY_FINETUNED) && pico_gguf_bool(r->g, full(r,
	    "rope.scaling.finetuned"), &tuned, r->err) < 0)
		return -1;
	if (!tuned)
		h->rope = ROPE_NONE;
	/* learned positions and ALiBi are no rotation */
	if (h->rope == ROPE_NONE)
		return 0;
	h->n_rot = h->head_k;
	if (read_u32(r, "rope.dimension_count", 0, h->head_k, &h->n_rot) < 0)
		return -1;
	if (h->n_rot % 2 != 0 || h->n_rot == 0)
		return fail(r->err, "key '%s' is %" PRIu32
		    ", not an even number above 0",
		    full(r, "rope.dimension_count"), h->n_rot);
	if (h->n_rot != h->head_k && h->arch->whole_rope)
		return fail(r->err, "key '%s' is %" PRIu32 ", but architecture "
		    "'%s' turns whole heads of %" PRIu32,
		    full(r, "rope.dimension_count"), h->n_rot, h->arch->name,
		    h->head_k);
	if (read_base(r, "rope.freq_base", &rope[0].base) < 0)
		return -1;
	rope[1] = (struct rope){
		.base = rope[0].base, .scale = 1, .attn_factor = 1,
		.plain = true,
	};
	if (h->arch->local_base != 0)
		rope[1].base = h->arch->local_base;
	if (h->arch->local_plain &&
	    read_base(r, "rope.freq_base_swa", &rope[1].base) < 0)
		return -1;
	return read_scaling(r, h, &type);
}

/* ---- experts ---- */

static int
read_experts(struct reader *r, struct hparams *h)
{
	const struct arch *a = h->arch;
	uint32_t gating = 0, count = 0, width = 0;

	h->expert_norm = !a->expert_free;
	h->expert_scale = 1;
	if (a->experts == NEVER) {
		uint32_t n = 0;

		if (read_u32(r, "expert_count", 0, 1 << 16, &n) < 0)
			return -1;
		if (n > 0)
			return fail(r->err, "key '%s' is %" PRIu32
			    ": architecture '%s' has no experts", r->key, n,
			    a->name);
		return 0;
	}
	if (read_u32(r, "expert_count", 0, 1 << 16, &h->n_expert) < 0)
		return -1;
	if (h->n_expert == 0 && a->experts == MUST)
		return fail(r->err, "key '%s' is missing or 0", r->key);
	if (read_u32(r, "expert_used_count", 0, 1 << 16,
	    &h->n_expert_used) < 0)
		return -1;
	if (h->n_expert_used > h->n_expert ||
	    (h->n_expert > 0 && h->n_expert_used == 0))
		return fail(r->err, "key '%s' is %" PRIu32 " of %" PRIu32
		    " experts", r->key, h->n_expert_used, h->n_expert);
	h->n_ff_expert = h->n_ff[0];
	if (a->expert_share && h->n_expert > 0)
		h->n_ff_expert /= h->n_expert_used;
	if (read_width(r, "expert_feed_forward_length",
	    &h->n_ff_expert) < 0 ||
	    read_u32(r, "expert_gating_func", 0, 3, &gating) < 0 ||
	    pico_gguf_bool(r->g, full(r, "expert_weights_norm"),
	    &h->expert_norm, r->err) < 0 ||
	    read_factor(r, "expert_weights_scale", &h->expert_scale) < 0)
		return -1;
	if (h->n_expert > 0 && h->n_ff_expert == 0)
		return fail(r->err, "key '%s' is missing",
		    full(r, "expert_feed_forward_length"));
	if (gating == 0)
		gating = a->gating;
	h->gating = gating != 0 ? (enum gating)gating : GATE_SOFTMAX;
	if (has(h, KEY_DENSE) && read_u32(r, "leading_dense_block_count", 0,
	    INT32_MAX, &h->n_dense) < 0)
		return -1;
	if (h->n_expert == 0)
		h->n_dense = h->n_layer;
	if (a->mixer == MLA &&
	    (read_u32(r, "expert_group_count", 0, 1 << 16, &h->n_group) < 0 ||
	    read_u32(r, "expert_group_used_count", 0, 1 << 16,
	    &h->n_group_used) < 0))
		return -1;
	if (h->n_group > 1 && (h->n_expert % h->n_group != 0 ||
	    h->n_expert / h->n_group < 2 || h->n_group_used == 0 ||
	    h->n_group_used > h->n_group || h->n_expert_used >
	    h->n_expert / h->n_group * h->n_group_used))
		return fail(r->err, "key '%s' is %" PRIu32 " of %" PRIu32
		    " groups of %" PRIu32 " experts, of which %" PRIu32
		    " are used", full(r, "expert_group_used_count"),
		    h->n_group_used, h->n_group, h->n_expert,
		    h->n_expert_used);
	switch (a->shared) {
	case SHARED_NONE:
		return 0;
	case SHARED_COUNT:
		if (read_u32(r, "expert_shared_count", 0, 1 << 10, &count) < 0)
			return -1;
		if ((uint64_t)count * h->n_ff_expert > 1 << 24)
			return fail(r->err, "key '%s' is %" PRIu32
			    ": too many", r->key, count);
		h->n_ff_shared = count * h->n_ff_expert;
		return 0;
	case SHARED_GATED:
		width = h->n_ff[0];
		break;
	case SHARED_WIDTH:
		break;
	}
	if (read_width(r, "expert_shared_feed_forward_length", &width) < 0)
		return -1;
	h->n_ff_shared = width;
	return 0;
}

/* ---- recurrent models ---- */

static int
read_mamba(struct reader *r, struct hparams *h)
{
	if (need_u32(r, "ssm.conv_kernel", 1 << 10, &h->ssm_conv) < 0 ||
	    need_u32(r, "ssm.inner_size", 1 << 23, &h->ssm_inner) < 0 ||
	    need_u32(r, "ssm.state_size", 1 << 10, &h->ssm_state) < 0 ||
	    need_u32(r, "ssm.time_step_rank", 1 << 20, &h->ssm_rank) < 0)
		return -1;
	return pico_gguf_bool(r->g, full(r, "ssm.dt_b_c_rms"), &h->ssm_norm,
	    r->err);
}

static int
read_rwkv(struct reader *r, struct hparams *h)
{
	const uint32_t most = 1 << 20;

	if (need_u32(r, "wkv.head_size", 1 << 12, &h->wkv_head) < 0)
		return -1;
	if (h->n_embd % h->wkv_head != 0)
		return fail(r->err, "key '%s' is %" PRIu32 ", which does not "
		    "divide the embedding length %" PRIu32, r->key,
		    h->wkv_head, h->n_embd);
	if (read_u32(r, "token_shift_count", 2, 2, &(uint32_t){ 2 }) < 0)
		return -1;
	if (h->arch->mixer == RWKV6)
		return need_u32(r, "time_mix_extra_dim", most,
		    &h->mix_rank) < 0 ||
		    need_u32(r, "time_decay_extra_dim", most,
		    &h->decay_rank) < 0 ||
		    read_u32(r, "rescale_every_n_layers", 0, most,
		    &h->rescale) < 0 ? -1 : 0;
	return need_u32(r, "attention.decay_lora_rank", most,
	    &h->decay_rank) < 0 ||
	    need_u32(r, "attention.iclr_lora_rank", most, &h->iclr_rank) < 0 ||
	    need_u32(r, "attention.value_residual_mix_lora_rank", most,
	    &h->value_rank) < 0 ||
	    read_u32(r, "attention.gate_lora_rank", 0, most,
	    &h->gate_rank) < 0 ? -1 : 0;
}

/* ---- scales ---- */

static int
read_scales(struct reader *r, struct hparams *h)
{
	bool known = h->logit_scale != 1;	/* by the architecture */
	float scale = h->logit_scale;
	uint32_t il;
	double ratio = 0;

	if (h->arch->embd_sqrt)
		h->embd_scale = sqrtf((float)h->n_embd);
	if (has(h, KEY_EMBD_SCALE) &&
	    read_factor(r, "embedding_scale", &h->embd_scale) < 0)
		return -1;
	if (has(h, KEY_RESIDUAL_SCALE) &&
	    read_factor(r, "residual_scale", &h->residual_scale) < 0)
		return -1;
	if (has(h, KEY_LOGIT_DIVIDE | KEY_LOGIT_MULTIPLY) && (!known ||
	    pico_gguf_find(r->g, full(r, "logit_scale")) != NULL)) {
		if (need_real(r, "logit_scale", &ratio) < 0)
			return -1;
		if (!(ratio >= FLT_MIN))
			return fail(r->err, "key '%s' is %g, not above 0",
			    r->key, ratio);
		scale = (float)ratio;
		if (has(h, KEY_LOGIT_DIVIDE))
			scale = 1 / scale;
	}
	h->logit_scale = scale;
	if (has(h, KEY_ATTN_CAP) &&
	    read_float(r, "attn_logit_softcapping", &h->attn_cap) < 0)
		return -1;
	if (has(h, KEY_FINAL_CAP) &&
	    read_float(r, "final_logit_softcapping", &h->final_cap) < 0)
		return -1;
	if (has(h, KEY_CLAMP) &&
	    read_float(r, "attention.clamp_kqv", &h->clamp) < 0)
		return -1;
	if (has(h, KEY_ALIBI) &&
	    read_float(r, "attention.max_alibi_bias", &h->alibi) < 0)
		return -1;
	/* the slopes are those of one number of heads */
	for (il = 0; h->alibi > 0 && il < h->n_layer; il++)
		if (h->n_head[il] != h->n_head[0])
			return fail(r->err, "key '%s' differs between layers: "
			    "not implemented for architecture '%s'",
			    full(r, "attention.head_count"), h->arch->name);
	if (has(h, KEY_TEMPERATURE) &&
	    read_float(r, "attention.temperature_scale", &h->temperature) < 0)
		return -1;
	scale = 0;
	if (has(h, KEY_ATTN_SCALE) &&
	    read_float(r, "attention.scale", &scale) < 0)
		return -1;
	if (scale != 0)
		h->attn_scale = scale;
	/* YaRN of DeepSeek-V2, section 2.1.3: queries and keys get longer */
	if (h->arch->mixer == MLA && h->rope_of[0].scale != 1) {
		ratio = 1 - h->yarn_log * m_log(h->rope_of[0].scale);
		h->attn_scale = (float)(h->attn_scale * ratio * ratio);
	}
	return 0;
}

static int
read_norms(struct reader *r, struct hparams *h)
{
	const char *suffix = h->norm == NORM_RMS ?
	    "attention.layer_norm_rms_epsilon" :
	    "attention.layer_norm_epsilon";
	double eps = 0;

	if (need_real(r, suffix, &eps) < 0)
		return -1;
	if (eps < 0)
		return fail(r->err, "key '%s' is %g, below 0", r->key, eps);
	h->eps = (float)eps;
	h->parallel = h->arch->shape >= SHAPE_ONE_NORM;
	/* where the norms of a layer tell, converters write this unseen */
	if (h->arch->ffn_norm == MAY)
		(void)full(r, "use_parallel_residual");
	if (has(h, KEY_PARALLEL)) {
		int got = pico_gguf_bool(r->g, full(r,
		    "use_parallel_residual"), &h->parallel, r->err);

		if (got == 0)
			return fail(r->err, "key '%s' is missing", r->key);
		return got;
	}
	return 0;
}

/* ---- all ---- */

/* Refused here, by its own name, before other keys seem to be at fault. */
static int
check_embd(struct reader *r, const struct hparams *h)
{
	const struct pico_tensor *t =
	    pico_gguf_find_tensor(r->g, "token_embd.weight");

	if (t == NULL || t->dims[0] == h->n_embd)
		return 0;
	return fail(r->err, "key '%s' is %" PRIu32 ", but tensor "
	    "'token_embd.weight' has rows of %" PRIu64,
	    full(r, "embedding_length"), h->n_embd, t->dims[0]);
}

/* As many as there are tokens; without tokens, what the key says. */
static int
read_vocab_size(struct reader *r, struct hparams *h)
{
	const struct pico_kv *tokens =
	    pico_gguf_find(r->g, "tokenizer.ggml.tokens");

	if (tokens != NULL && tokens->type == PICO_KV_ARR) {
		if (tokens->n == 0 || tokens->n > 1 << 24)
			return fail(r->err, "key 'tokenizer.ggml.tokens' has %"
			    PRIu64 " tokens", tokens->n);
		h->n_vocab = (uint32_t)tokens->n;
		return 0;
	}
	return need_u32(r, "vocab_size", 1 << 24, &h->n_vocab);
}

int
hparams_read(struct hparams *h, const struct pico_gguf *g,
    struct pico_err *err)
{
	struct reader r = { .g = g, .err = err };
	struct pico_str name = {0}, type = { "model", 5 };
	uint32_t max_layers;
	bool no_ff;
	int got;

	if (pico_gguf_str(g, "general.type", &type, err) < 0)
		return -1;
	if (!pico_str_is(type, "model"))
		return fail(err, "key 'general.type' is '%s': this file is not "
		    "a model that can run by itself", show_str(type));
	got = pico_gguf_str(g, "general.architecture", &name, err);
	if (got == 0)
		return fail(err, "key 'general.architecture' is missing");
	if (got < 0)
		return -1;
	h->arch = arch_find(name);
	if (h->arch == NULL)
		return fail(err, "key 'general.architecture' is '%s'; known: "
		    "%s", show_str(name), arch_names());
	r.prefix = h->arch->name;

	/* each layer has tensors, so the file bounds the count */
	max_layers = (uint32_t)MIN(pico_gguf_n_tensors(g), INT32_MAX);
	if (need_u32(&r, "context_length", INT32_MAX, &h->n_ctx_train) < 0 ||
	    need_u32(&r, "embedding_length", 1 << 24, &h->n_embd) < 0 ||
	    need_u32(&r, "block_count", MAX(max_layers, 1), &h->n_layer) < 0 ||
	    check_embd(&r, h) < 0)
		return -1;
	h->n_head = mem_new(h->n_layer, sizeof *h->n_head, "layers", err);
	h->n_head_kv = mem_new(h->n_layer, sizeof *h->n_head, "layers", err);
	h->n_ff = mem_new(h->n_layer, sizeof *h->n_head, "layers", err);
	h->local = mem_new(h->n_layer, sizeof *h->local, "layers", err);
	if (h->n_head == NULL || h->n_head_kv == NULL || h->n_ff == NULL ||
	    h->local == NULL)
		return -1;
	/* where there may be no dense network, there may be no width */
	no_ff = h->arch->mixer == MAMBA || h->arch->experts != NEVER;
	got = read_per_layer(&r, "feed_forward_length", h->n_layer,
	    no_ff ? 0 : 1, 1 << 24, h->n_ff);
	if (got == 0 && !no_ff)
		return fail(err, "key '%s' is missing", r.key);
	if (got < 0)
		return -1;
	h->norm = h->arch->norm;
	h->rope = h->arch->rope;
	h->every = h->arch->every;
	h->alibi = h->arch->alibi;
	h->embd_scale = h->residual_scale = h->logit_scale = 1;
	if (!arch_recurrent(h->arch) && read_heads(&r, h) < 0)
		return -1;
	if (h->arch->adapt != NULL)
		h->arch->adapt(h);
	if ((h->arch->mixer == MAMBA && read_mamba(&r, h) < 0) ||
	    (h->arch->mixer >= RWKV6 && read_rwkv(&r, h) < 0) ||
	    read_rope(&r, h) < 0 || read_window(&r, h) < 0 ||
	    read_mla(&r, h) < 0 || read_experts(&r, h) < 0 ||
	    read_norms(&r, h) < 0 || read_scales(&r, h) < 0 ||
	    read_vocab_size(&r, h) < 0)
		return -1;
	return refuse_unknown(&r, h);
}

void
hparams_free(struct hparams *h)
{
	free(h->n_head);
	free(h->n_head_kv);
	free(h->n_ff);
	free(h->local);
}
