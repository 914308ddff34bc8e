/* SPDX-License-Identifier: MIT */
/* The set "neon": what every 64-bit ARM can do. */
#ifdef __aarch64__

#include "neon.h"

/* Two products fit into 16 bits: 2 * 128 * 127 < 32768. */
INLINE int16x8_t
two_products(int8x16_t w, int8x16_t a)
{
	return vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(a)), w, a);
}

INLINE int32x4_t
dot(int8x16_t w, int8x16_t a)
{
	return vpaddlq_s16(two_products(w, a));
}

INLINE int32x4_t
dot_add(int32x4_t s, int8x16_t w, int8x16_t a)
{
	return vpadalq_s16(s, two_products(w, a));
}

#include "neon_matmul.h"

const struct kernels kernels_neon = {
	.name = "neon", .matmul = matmul, NEON_ROWS
};

#endif
