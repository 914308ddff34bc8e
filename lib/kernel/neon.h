/* SPDX-License-Identifier: MIT */
/*
 * What the sets for 64-bit ARM share; private to neon*.c. The two sets differ
 * in how they multiply int8 codes: neon has the instructions of every ARMv8-A,
 * neon-dot the dot products of ARMv8.2-A. neon_matmul.h is the product for both
 * of them, all else is in neon_rows.c.
 */
#ifndef PICO_NEON_H
#define PICO_NEON_H

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "../gguf/gguf.h"
#include "kernel.h"

#define INLINE static inline __attribute__((always_inline))
/* For short loops over arrays that are to live in registers. */
#define UNROLL _Pragma("GCC unroll 16")

/* ---- SUM32: partial sum 4 * i + j is lane j of s[i] ---- */

/* 8 elements of a row of F32, F16 or BF16, at any address */
INLINE void
load8(uint32_t type, const uint8_t *p, float32x4_t v[2])
{
	uint16x8_t h;

	if (type == TYPE_F32) {
		v[0] = vreinterpretq_f32_u8(vld1q_u8(p));
		v[1] = vreinterpretq_f32_u8(vld1q_u8(p + 16));
		return;
	}
	h = vreinterpretq_u16_u8(vld1q_u8(p));
	if (type == TYPE_F16) {
		v[0] = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(h)));
		v[1] = vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(h)));
	} else {
		v[0] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16));
		v[1] = vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(h), 16));
	}
}

INLINE float
load1(uint32_t type, const uint8_t *p)
{
	return type == TYPE_F32 ? get_f32(p) : type == TYPE_F16 ?
	    f16_to_f32(get_u16(p)) : bf16_to_f32(get_u16(p));
}

INLINE void
sum32_clear(float32x4_t s[8])
{
	UNROLL
	for (int i = 0; i < 8; i++)
		s[i] = vdupq_n_f32(0);
}

/* Adds n products; the first belongs to partial sum 0. */
INLINE void
sum32_dot(float32x4_t s[8], uint32_t type, const uint8_t *w, const float *x,
    size_t n)
{
	size_t size = type == TYPE_F32 ? 4 : 2, j;
	float32x4_t v[2];
	float part[32];

	for (j = 0; j + 32 <= n; j += 32) {
		UNROLL
		for (int i = 0; i < 8; i += 2) {
			load8(type, w + (j + 4 * i) * size, v);
			s[i] = vfmaq_f32(s[i], v[0], vld1q_f32(x + j + 4 * i));
			s[i + 1] = vfmaq_f32(s[i + 1], v[1],
			    vld1q_f32(x + j + 4 * i + 4));
		}
	}
	if (j == n)
		return;
	/* not padded with zeros: adding +0 would turn a -0 */
	UNROLL
	for (int i = 0; i < 8; i++)
		vst1q_f32(part + 4 * i, s[i]);
	for (size_t i = 0; i < n - j; i++)
		part[i] = fmaf(load1(type, w + (j + i) * size), x[j + i],
		    part[i]);
	UNROLL
	for (int i = 0; i < 8; i++)
		s[i] = vld1q_f32(part + 4 * i);
}

/* TREE(8) of vectors */
INLINE float32x4_t
tree8(const float32x4_t s[8])
{
	float32x4_t a = vaddq_f32(s[0], s[4]), b = vaddq_f32(s[1], s[5]);

	a = vaddq_f32(a, vaddq_f32(s[2], s[6]));
	b = vaddq_f32(b, vaddq_f32(s[3], s[7]));
	return vaddq_f32(a, b);
}

/* TREE(4); vaddvq_f32() would add neighbours first */
INLINE float
tree4(float32x4_t v)
{
	float32x2_t h = vadd_f32(vget_low_f32(v), vget_high_f32(v));

	return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}

INLINE float
tree32(const float32x4_t s[8])
{
	return tree4(tree8(s));
}

/* ---- neon_rows.c ---- */

void neon_quantize(enum act_kind kind, const float *x, size_t n, void *dst);
void neon_attend(const struct attend *a);
void neon_kv_store(enum kv_type type, const float *x, size_t n, void *dst);
void neon_rms_norm(const float *x, const float *w, size_t n, float eps,
    float *y);
void neon_layer_norm(const float *x, const float *w, const float *b, size_t n,
    float eps, float *y);
void neon_softmax(float *x, size_t n);
void neon_rope(float *x, size_t n_heads, size_t head_dim, size_t n_rot,
    const float *cs, const float *sn, bool half_split);
void neon_add(float *y, const float *x, size_t n);
void neon_mul(float *y, const float *x, size_t n);
void neon_scale(float *y, float a, size_t n);
void neon_axpy(float *y, float a, const float *x, size_t n);
void neon_apply(enum k_fn fn, float *x, size_t n);
void neon_gate(enum k_fn fn, float *g, const float *u, size_t n);
float neon_max(const float *x, size_t n);

/* All of a set but its name, its product and where it runs. */
#define NEON_ROWS \
	.quantize = neon_quantize, .attend = neon_attend, \
	.kv_store = neon_kv_store, .rms_norm = neon_rms_norm, \
	.layer_norm = neon_layer_norm, .softmax = neon_softmax, \
	.rope = neon_rope, .add = neon_add, .mul = neon_mul, \
	.scale = neon_scale, .axpy = neon_axpy, .apply = neon_apply, \
	.gate = neon_gate, .max = neon_max

#endif
