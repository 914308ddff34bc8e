/* SPDX-License-Identifier: MIT */
/* The searches for x86-64 with AVX2. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>

#include "../base/base.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), \
    apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define LARGER(a, b) ((v8)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SMALLER(a, b) ((v8)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define ROOT(a) ((v8)_mm256_sqrt_ps((__m256)(a)))
#include "search.h"

const struct search search_avx2 = SEARCH("avx2");

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
