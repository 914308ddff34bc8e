/* SPDX-License-Identifier: MIT */
/*
 * Instruction sets: which ones there are here, and $PICO_CPU. Apart from the
 * kernels, so that who only asks need not have them.
 */
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#if defined(__x86_64__)
#ifndef PICO_SMALL
static bool
has_avx512(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512vnni") &&
	    __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif

static bool
has_avx2(void)
{
	unsigned a, b, c, d;

	return machine_fma() && __get_cpuid(1, &a, &b, &c, &d) &&
	    (c & bit_F16C) != 0 && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
	    (b & bit_AVX2) != 0;
}
#elif defined(__aarch64__)
static bool
has_dot(void)
{
#if defined(__ARM_FEATURE_DOTPROD)
	return true;
#elif defined(HWCAP_ASIMDDP)
	return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
	return false;
#endif
}
#endif

static const struct {
	const char *name;
	bool (*has)(void);	/* NULL: everywhere */
} sets[CPU_SETS] = {
#if defined(__x86_64__)
#ifndef PICO_SMALL
	[CPU_AVX512] = { "avx512", has_avx512 },
#endif
	[CPU_AVX2] = { "avx2", has_avx2 },
#elif defined(__aarch64__)
	[CPU_NEON_DOT] = { "neon-dot", has_dot },
	[CPU_NEON] = { "neon", NULL },
#endif
	[CPU_SCALAR] = { "scalar", NULL }
};

bool
cpu_has(enum cpu set)
{
	return sets[set].has == NULL || sets[set].has();
}

int
cpu_choose(enum cpu *set, struct pico_err *err)
{
	const char *want = getenv("PICO_CPU");
	char list[100] = "";
	size_t n = 0;

	if (want == NULL)
		want = "";
	for (size_t i = 0; i < CPU_SETS; i++) {
		if (!cpu_has((enum cpu)i))
			continue;
		if (*want == '\0' || strcmp(want, sets[i].name) == 0) {
			*set = (enum cpu)i;
			return 0;
		}
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%s",
		    n > 0 ? ", " : "", sets[i].name);
	}
	return fail_usage(err, "PICO_CPU: kernel set '%s' is unknown or cannot "
	    "run here; available: %s", show(want, strlen(want)), list);
}
