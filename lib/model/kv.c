/* SPDX-License-Identifier: MIT */
/* What is remembered of sequences: the KV cache, or states. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

const char *
pico_kv_kind_name(enum pico_kv_kind kind)
{
	static const char *const names[] = { "f16", "f32", "q8_0" };

	return names[kind];
}

uint64_t
kv_state(const struct hparams *h)
{
	uint64_t d = h->n_embd;

	switch (h->arch->mixer) {
	case MAMBA:
		return (uint64_t)h->ssm_inner *
		    (h->ssm_conv - 1 + (uint64_t)h->ssm_state);
	case RWKV6:
	case RWKV7:
		return 2 * d + d * h->wkv_head;
	default:
		return 0;
	}
}

/* Bytes that grow with the positions, by position, and those that do not. */
static bool
row_and_state(const struct hparams *h, enum kv_type type, uint64_t *row,
    uint64_t *state)
{
	uint64_t heads = 0;
	uint32_t il;

	for (il = 0; il < h->n_layer; il++)
		heads += h->n_head_kv[il];
	return mul_u64(heads, kv_row_bytes(type, h->head_k) +
	    (uint64_t)kv_row_bytes(type, h->head_v), row) &&
	    mul_u64(kv_state(h), h->n_layer * (uint64_t)sizeof(float), state);
}

bool
kv_bytes(const struct hparams *h, enum kv_type type, uint32_t n_ctx,
    uint32_t n_seq, uint64_t *bytes)
{
	uint64_t row, state, one;

	return row_and_state(h, type, &row, &state) &&
	    mul_u64(row, n_ctx, &one) && add_u64(one, state, &one) &&
	    mul_u64(one, n_seq, bytes);
}

/* Memory for keys or values of a layer, or NULL. */
static uint8_t *
take(struct kv *kv, uint8_t **huge, uint64_t cells, uint64_t bytes,
    const char *what, struct pico_err *err)
{
	uint8_t *p = *huge;

	if (kv->huge == NULL)
		return mem_new(cells, bytes, what, err);
	*huge += cells * bytes;
	return p;
}

int
kv_init(struct kv *kv, const struct hparams *h, enum kv_type type,
    uint32_t n_ctx, uint32_t n_seq, bool at_once, struct pico_err *err)
{
	uint8_t *huge;
	uint64_t cells;
	uint32_t il;

	*kv = (struct kv){
		.h = h, .type = type, .n_ctx = n_ctx, .n_seq = n_seq,
		.row_k = kv_row_bytes(type, h->head_k),
		.row_v = kv_row_bytes(type, h->head_v),
	};
	cells = kv_room(n_ctx) * n_seq;
	kv->k = mem_new(h->n_layer, sizeof *kv->k, "KV cache", err);
	kv->v = mem_new(h->n_layer, sizeof *kv->v, "KV cache", err);
	kv->state = mem_new(h->n_layer, sizeof *kv->state, "states", err);
	kv->tokens = mem_new((uint64_t)n_ctx * n_seq, sizeof *kv->tokens,
	    "token ids", err);
	kv->n = mem_new(n_seq, sizeof *kv->n, "sequences", err);
	kv->pure = mem_new(n_seq, sizeof *kv->pure, "sequences", err);
	if (kv->k == NULL || kv->v == NULL || kv->state == NULL ||
	    kv->tokens == NULL || kv->n == NULL || kv->pure == NULL)
		return -1;
	for (il = 0; il < n_seq; il++)
		kv->pure[il] = n_ctx;
	if (at_once && !arch_recurrent(h->arch) && kv_bytes(h, type,
	    (uint32_t)kv_room(n_ctx), n_seq, &kv->huge_bytes))
		kv->huge = mem_huge(kv->huge_bytes);
	huge = kv->huge;
	/* large zeroed blocks are pages that cost nothing until touched */
	for (il = 0; il < h->n_layer; il++) {
		uint64_t heads = h->n_head_kv[il];

		if (arch_recurrent(h->arch)) {
			kv->state[il] = mem_new(n_seq, kv_state(h) *
			    sizeof(float), "states", err);
			if (kv->state[il] == NULL)
				return -1;
			continue;
		}
		kv->k[il] = take(kv, &huge, cells, heads * kv->row_k,
		    "KV cache, keys", err);
		kv->v[il] = take(kv, &huge, cells, heads * kv->row_v,
		    "KV cache, values", err);
		if (kv->k[il] == NULL || kv->v[il] == NULL)
			return -1;
	}
	return 0;
}

void
kv_free(struct kv *kv)
{
	uint32_t il;

	for (il = 0; il < kv->h->n_layer; il++) {
		if (kv->k != NULL && kv->huge == NULL)
			free(kv->k[il]);
		if (kv->v != NULL && kv->huge == NULL)
			free(kv->v[il]);
		if (kv->state != NULL)
			free(kv->state[il]);
	}
	mem_huge_free(kv->huge, kv->huge_bytes);
	free(kv->k);
	free(kv->v);
	free(kv->state);
	free(kv->tokens);
	free(kv->n);
	free(kv->pure);
}

float *
kv_state_of(const struct kv *kv, uint32_t layer, uint32_t seq)
{
	return kv->state[layer] + (size_t)seq * kv_state(kv->h);
}

static size_t
head_at(const struct kv *kv, uint32_t layer, uint32_t seq, uint32_t head,
    size_t row)
{
	return ((size_t)seq * kv->h->n_head_kv[layer] + head) *
	    (size_t)kv_room(kv->n_ctx) * row;
}

uint8_t *
kv_k(const struct kv *kv, uint32_t layer, uint32_t seq, uint32_t head)
{
	return kv->k[layer] + head_at(kv, layer, seq, head, kv->row_k);
}

uint8_t *
kv_v(const struct kv *kv, uint32_t layer, uint32_t seq, uint32_t head)
{
	return kv->v[layer] + head_at(kv, layer, seq, head, kv->row_v);
}

const int32_t *
pico_ctx_tokens(const struct pico_ctx *c, uint32_t seq, size_t *n)
{
	*n = c->kv.n[seq];
	return c->kv.tokens + (size_t)seq * c->kv.n_ctx;
}

size_t
pico_ctx_match(const struct pico_ctx *c, uint32_t seq, const int32_t *ids,
    size_t n)
{
	size_t have, i;
	const int32_t *mine = pico_ctx_tokens(c, seq, &have);

	have = MIN(have, c->kv.pure[seq]);
	for (i = 0; i < MIN(n, have) && mine[i] == ids[i]; i++)
		;
	/* a state knows all its tokens, or is of no use */
	if (arch_recurrent(c->m->h.arch) && i < have)
		return 0;
	return i;
}

void
kv_cut(struct kv *kv, uint32_t seq, size_t n)
{
	bool back = n < kv->n[seq];
	uint32_t il;

	if (arch_recurrent(kv->h->arch) && (back || n == 0)) {
		n = 0;
		for (il = 0; il < kv->h->n_layer; il++)
			memset(kv_state_of(kv, il, seq), 0, kv_state(kv->h) *
			    sizeof(float));
	}
	if (back)
		kv->n[seq] = (uint32_t)n;
	if (kv->n[seq] <= kv->pure[seq])
		kv->pure[seq] = kv->n_ctx;
}

bool
pico_ctx_recurrent(const struct pico_ctx *c)
{
	return arch_recurrent(c->m->h.arch);
}

void
pico_ctx_cut(struct pico_ctx *c, uint32_t seq, size_t n)
{
	kv_cut(&c->kv, seq, n);
}

/* Key j of a head as floats. */
static void
load_key(enum kv_type type, const uint8_t *keys, size_t j, size_t dim, float *x)
{
	const uint8_t *at;
	size_t d;

	for (d = 0; d < dim; d++) {
		at = keys + kv_key_at(type, dim, j, d);
		switch (type) {
		case KV_F32:
			x[d] = get_f32(at);
			break;
		case KV_F16:
			x[d] = f16_to_f32(get_u16(at));
			break;
		case KV_Q8_0:
			x[d] = f16_to_f32(get_u16(keys +
			    kv_key_scale_at(dim, j, d))) * (int8_t)*at;
			break;
		}
	}
}

/* Keys keep.. of a head come from `drop` positions later, and turn back by as
   many: rotations add up (Su et al. 2021, section 3.2). */
static void
shift_keys(struct pico_ctx *c, uint32_t il, uint8_t *keys, size_t keep,
    size_t drop, size_t n)
{
	const struct hparams *h = &c->m->h;
	int rope = hparams_rope(h, il);
	float *key = c->work;
	size_t i;

	for (i = keep; i + drop < n; i++) {
		load_key(c->kv.type, keys, i + drop, h->head_k, key);
		if (hparams_turns(h, il))
			c->k->rope(key + h->rot_first, 1, h->head_k, h->n_rot,
			    c->cos[rope], c->sin[rope],
			    h->rope == ROPE_HALVES);
		kv_store_key(c->k, c->kv.type, key, h->head_k, keys, i);
	}
}

/* cos and sin for turning back by so many positions. */
static void
angles_back(struct pico_ctx *c, size_t drop)
{
	uint32_t i, n_rot = c->m->h.n_rot;
	int rope;

	for (rope = 0; rope < 2 && c->freq[rope] != NULL; rope++) {
		rope_angles(c->freq[rope], 1, n_rot, (uint32_t)drop,
		    c->cos[rope], c->sin[rope]);
		for (i = 0; i < n_rot / 2; i++)
			c->sin[rope][i] = -c->sin[rope][i];
	}
}

int
pico_ctx_shift(struct pico_ctx *c, uint32_t seq, size_t keep, size_t drop,
    struct pico_err *err)
{
	const struct hparams *h = &c->m->h;
	struct kv *kv = &c->kv;
	size_t n = kv->n[seq], rest;
	uint32_t il, head;
	int32_t *tokens = kv->tokens + (size_t)seq * kv->n_ctx;
	uint8_t *v;

	if (h->n_rot == 0)
		return fail(err, "architecture '%s' cannot shift its context: "
		    "keys are not rotated by position", h->arch->name);
	if (drop > n || keep > n - drop)
		return fail(err, "%zu tokens cannot go after the first %zu of "
		    "%zu", drop, keep, n);
	if (drop == 0)
		return 0;
	rest = n - keep - drop;
	angles_back(c, drop);
	for (il = 0; il < h->n_layer; il++) {
		for (head = 0; head < h->n_head_kv[il]; head++) {
			shift_keys(c, il, kv_k(kv, il, seq, head), keep, drop,
			    n);
			v = kv_v(kv, il, seq, head) + keep * kv->row_v;
			memmove(v, v + drop * kv->row_v, rest * kv->row_v);
		}
	}
	memmove(tokens + keep, tokens + keep + drop, rest * sizeof *tokens);
	kv->n[seq] = (uint32_t)(n - drop);
	kv->pure[seq] = (uint32_t)MIN(kv->pure[seq], keep);
	return 0;
}

void
pico_ctx_copy(struct pico_ctx *c, uint32_t to, uint32_t from, size_t n)
{
	struct kv *kv = &c->kv;
	uint32_t il, head;

	if (to == from) {
		pico_ctx_cut(c, to, n);
		return;
	}
	n = MIN(n, kv->n[from]);
	if (n == 0 || (arch_recurrent(kv->h->arch) && n < kv->n[from])) {
		kv_cut(kv, to, 0);
		return;
	}
	for (il = 0; il < kv->h->n_layer; il++) {
		if (arch_recurrent(kv->h->arch))
			memcpy(kv_state_of(kv, il, to),
			    kv_state_of(kv, il, from), kv_state(kv->h) *
			    sizeof(float));
		for (head = 0; head < kv->h->n_head_kv[il]; head++) {
			memcpy(kv_k(kv, il, to, head),
			    kv_k(kv, il, from, head),
			    (size_t)kv_room(n) * kv->row_k);
			memcpy(kv_v(kv, il, to, head),
			    kv_v(kv, il, from, head),
			    n * kv->row_v);
		}
	}
	memcpy(kv->tokens + (size_t)to * kv->n_ctx,
	    kv->tokens + (size_t)from * kv->n_ctx, n * sizeof *kv->tokens);
	kv->n[to] = (uint32_t)n;
	kv->pure[to] = kv->pure[from];
	kv_cut(kv, to, n);
}
