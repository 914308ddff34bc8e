/* SPDX-License-Identifier: MIT */
/* The searches for x86-64 with AVX2. */
#if defined(__x86_64__)
#include "../base/base.h"
#include <math.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), \
    apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#include "search.h"

const struct search search_avx2 = SEARCH("avx2");

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
