/* SPDX-License-Identifier: MIT */
/* What all instruction sets share, and their table. */
#include <string.h>

#include "../gguf/gguf.h"
#include "kernel.h"

static const struct kernels *const sets[CPU_SETS] = {
#if defined(__x86_64__)
#ifndef PICO_SMALL
	[CPU_AVX512] = &kernels_avx512,
#endif
	[CPU_AVX2] = &kernels_avx2,
#elif defined(__aarch64__)
	[CPU_NEON_DOT] = &kernels_neon_dot,
	[CPU_NEON] = &kernels_neon,
#endif
	[CPU_SCALAR] = &kernels_scalar
};

const struct kernels *const *
kernels_all(void)
{
	static const struct kernels *here[CPU_SETS + 1];
	size_t n = 0;

	for (size_t i = 0; i < CPU_SETS; i++)
		if (cpu_has((enum cpu)i))
			here[n++] = sets[i];
	here[n] = NULL;
	return here;
}

const struct kernels *
kernels_get(struct pico_err *err)
{
	enum cpu set;

	return cpu_choose(&set, err) < 0 ? NULL : sets[set];
}

enum act_kind
kernel_act_kind(uint32_t type)
{
	switch (type) {
	case TYPE_Q4_0: case TYPE_Q4_1: case TYPE_Q5_0: case TYPE_Q5_1:
	case TYPE_Q8_0: case TYPE_IQ4_NL: case TYPE_MXFP4:
		return ACT_Q8;
	case TYPE_Q2_K: case TYPE_Q3_K: case TYPE_Q4_K: case TYPE_Q5_K:
	case TYPE_Q6_K: case TYPE_IQ4_XS:
		return ACT_Q8K;
	default:
		return ACT_F32;
	}
}

size_t
kernel_act_bytes(enum act_kind kind, size_t n)
{
	switch (kind) {
	case ACT_Q8:
		return n / 32 * sizeof(struct act_q8);
	case ACT_Q8K:
		return n / 256 * sizeof(struct act_q8k);
	default:
		return n * sizeof(float);
	}
}

void
kv_store_q8_0(void (*quantize)(enum act_kind kind, const float *x, size_t n,
    void *dst), const float *x, size_t n, void *dst)
{
	uint8_t *block = dst;
	struct act_q8 a;
	uint16_t d;

	for (; n > 0; block += KV_BLOCK_BYTES) {
		float few[32] = { 0 };
		size_t m = MIN(n, 32);

		memcpy(few, x, m * sizeof *x);
		quantize(ACT_Q8, few, 32, &a);
		d = f32_to_f16(a.d);
		memcpy(block, &d, sizeof d);
		memcpy(block + sizeof d, a.q, sizeof a.q);
		x += m;
		n -= m;
	}
}

/* Elements d.. of key j, at most 32, from a row or to one; d is a multiple of
   32, and `row` is where they begin there. */
static inline void
piece(enum kv_type type, size_t dim, size_t j, size_t d, uint8_t *keys,
    uint8_t *row, bool put)
{
	size_t size = type == KV_F32 ? 4 : type == KV_F16 ? 2 : 1;
	size_t n = type == KV_Q8_0 ? 32 : MIN(32, dim - d), i;
	uint8_t *at = keys + kv_key_at(type, dim, j, d);

	if (type == KV_Q8_0) {
		uint8_t *scale = keys + kv_key_scale_at(dim, j, d);

		memcpy(put ? scale : row, put ? row : scale, 2);
		row += 2;
	}
	for (i = 0; i < n; i++, at += KV_SIDE * size, row += size)
		memcpy(put ? at : row, put ? row : at, size);
}

static void
move_piece(enum kv_type type, size_t dim, size_t j, size_t d, void *keys,
    void *row, bool put)
{
	/* so that each type has its own loop */
	if (type == KV_F32)
		piece(KV_F32, dim, j, d, keys, row, put);
	else if (type == KV_F16)
		piece(KV_F16, dim, j, d, keys, row, put);
	else
		piece(KV_Q8_0, dim, j, d, keys, row, put);
}

void
kv_store_key(const struct kernels *k, enum kv_type type, const float *x,
    size_t dim, void *keys, size_t j)
{
	_Alignas(float) uint8_t row[32 * sizeof(float)];

	for (size_t d = 0; d < dim; d += 32) {
		k->kv_store(type, x + d, MIN(32, dim - d), row);
		move_piece(type, dim, j, d, keys, row, true);
	}
}

void
kv_put_key(enum kv_type type, const void *row, size_t dim, void *keys, size_t j)
{
	for (size_t d = 0; d < dim; d += 32)
		move_piece(type, dim, j, d, keys,
		    (uint8_t *)row + kv_row_bytes(type, d), true);
}

void
kv_get_key(enum kv_type type, const void *keys, size_t j, size_t dim, void *row)
{
	for (size_t d = 0; d < dim; d += 32)
		move_piece(type, dim, j, d, (uint8_t *)keys,
		    (uint8_t *)row + kv_row_bytes(type, d), false);
}
