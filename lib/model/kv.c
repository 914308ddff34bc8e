/* SPDX-License-Identifier: MIT */
/* The KV cache. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

const char *
pico_kv_kind_name(enum pico_kv_kind kind)
{
	static const char *const names[] = { "f16", "f32", "q8_0" };

	return names[kind];
}

bool
kv_bytes(const struct hparams *h, enum kv_type type, uint32_t n_ctx,
    uint32_t n_seq, uint64_t *bytes)
{
	uint64_t heads = 0, row, cells;
	uint32_t il;

	for (il = 0; il < h->n_layer; il++)
		heads += h->n_head_kv[il];
	return mul_u64(n_ctx, n_seq, &cells) &&
	    mul_u64(heads, kv_row_bytes(type, h->head_k) +
	    (uint64_t)kv_row_bytes(type, h->head_v), &row) &&
	    mul_u64(row, cells, bytes);
}

int
kv_init(struct kv *kv, const struct hparams *h, enum kv_type type,
    uint32_t n_ctx, uint32_t n_seq, struct pico_err *err)
{
	uint64_t cells = (uint64_t)n_ctx * n_seq;
	uint32_t il;

	*kv = (struct kv){
		.h = h, .type = type, .n_ctx = n_ctx, .n_seq = n_seq,
		.row_k = kv_row_bytes(type, h->head_k),
		.row_v = kv_row_bytes(type, h->head_v),
	};
	kv->k = mem_new(h->n_layer, sizeof *kv->k, "KV cache", err);
	kv->v = mem_new(h->n_layer, sizeof *kv->v, "KV cache", err);
	kv->tokens = mem_new(cells, sizeof *kv->tokens, "token ids", err);
	kv->n = mem_new(n_seq, sizeof *kv->n, "sequences", err);
	kv->pure = mem_new(n_seq, sizeof *kv->pure, "sequences", err);
	if (kv->k == NULL || kv->v == NULL || kv->tokens == NULL ||
	    kv->n == NULL || kv->pure == NULL)
		return -1;
	for (il = 0; il < n_seq; il++)
		kv->pure[il] = n_ctx;
	/* large zeroed blocks are pages that cost nothing until touched */
	for (il = 0; il < h->n_layer; il++) {
		uint64_t heads = h->n_head_kv[il];

		kv->k[il] = mem_new(cells, heads * kv->row_k, "KV cache, keys",
		    err);
		kv->v[il] = mem_new(cells, heads * kv->row_v,
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

	for (il = 0; kv->k != NULL && kv->v != NULL && il < kv->h->n_layer;
	    il++) {
		free(kv->k[il]);
		free(kv->v[il]);
	}
	free(kv->k);
	free(kv->v);
	free(kv->tokens);
	free(kv->n);
	free(kv->pure);
}

static size_t
head_at(const struct kv *kv, uint32_t layer, uint32_t seq, uint32_t head,
    size_t row)
{
	return ((size_t)seq * kv->h->n_head_kv[layer] + head) * kv->n_ctx *
	    row;
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
	return i;
}

void
kv_cut(struct kv *kv, uint32_t seq, size_t n)
{
	if (n < kv->n[seq])
		kv->n[seq] = (uint32_t)n;
	if (kv->n[seq] <= kv->pure[seq])
		kv->pure[seq] = kv->n_ctx;
}

void
pico_ctx_cut(struct pico_ctx *c, uint32_t seq, size_t n)
{
	kv_cut(&c->kv, seq, n);
}

/* A cached row of n values as floats. */
static void
load_row(enum kv_type type, const uint8_t *row, size_t n, float *x)
{
	size_t i;

	switch (type) {
	case KV_F32:
		memcpy(x, row, n * sizeof *x);
		break;
	case KV_F16:
		for (i = 0; i < n; i++)
			x[i] = f16_to_f32(get_u16(row + 2 * i));
		break;
	case KV_Q8_0:
		for (i = 0; i < n; i++) {
			const uint8_t *b = row + i / 32 * KV_BLOCK_BYTES;

			x[i] = f16_to_f32(get_u16(b)) *
			    (int8_t)b[2 + i % 32];
		}
		break;
	}
}

/* Keys keep.. of a head come from `drop` positions later, and turn back by as
   many: rotations add up (Su et al. 2021, section 3.2). */
static void
shift_keys(struct pico_ctx *c, uint8_t *keys, size_t keep, size_t drop,
    size_t n)
{
	const struct hparams *h = &c->m->h;
	bool halves = h->arch->rope == ROPE_HALVES;
	uint8_t *row;
	size_t i;

	for (i = keep; i + drop < n; i++) {
		row = keys + i * c->kv.row_k;
		load_row(c->kv.type, row + drop * c->kv.row_k, h->head_k,
		    c->key);
		c->k->rope(c->key, 1, h->head_k, h->n_rot, c->cos, c->sin,
		    halves);
		c->k->kv_store(c->kv.type, c->key, h->head_k, row);
	}
}

int
pico_ctx_shift(struct pico_ctx *c, uint32_t seq, size_t keep, size_t drop,
    struct pico_err *err)
{
	const struct hparams *h = &c->m->h;
	struct kv *kv = &c->kv;
	size_t n = kv->n[seq], rest, i;
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
	rope_angles(c->freq, 1, h->n_rot, (uint32_t)drop, c->cos, c->sin);
	for (i = 0; i < h->n_rot / 2; i++)
		c->sin[i] = -c->sin[i];
	for (il = 0; il < h->n_layer; il++) {
		for (head = 0; head < h->n_head_kv[il]; head++) {
			shift_keys(c, kv_k(kv, il, seq, head), keep, drop, n);
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
	for (il = 0; il < kv->h->n_layer; il++) {
		for (head = 0; head < kv->h->n_head_kv[il]; head++) {
			memcpy(kv_k(kv, il, to, head),
			    kv_k(kv, il, from, head),
			    n * kv->row_k);
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
