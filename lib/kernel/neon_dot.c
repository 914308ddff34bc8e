/* SPDX-License-Identifier: MIT */
/* The set "neon-dot": 64-bit ARM with dot products of int8 (ARMv8.2-A). */
#ifdef __aarch64__

#include "neon.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("dotprod"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

/* vdotq_s32() by its instruction: clang before 16 has the function only where
   the whole file is compiled for it. */
INLINE int32x4_t
dot_add(int32x4_t s, int8x16_t w, int8x16_t a)
{
	__asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(w), "w"(a));
	return s;
}

INLINE int32x4_t
dot(int8x16_t w, int8x16_t a)
{
	return dot_add(vdupq_n_s32(0), w, a);
}

#include "neon_matmul.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const struct kernels kernels_neon_dot = {
	.name = "neon-dot", .matmul = matmul, NEON_ROWS
};

#endif
