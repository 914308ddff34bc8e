/* SPDX-License-Identifier: MIT */
/*
 * What this machine can do at most with a number of threads: bytes read from
 * memory, int8 multiply-adds, float multiply-adds. Everything that pico does is
 * measured against these.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

#include "../../cmd/cmd.h"
#include "../../lib/base/base.h"

static int64_t n_threads;
static uint64_t size = 512 << 20;
static double seconds = 0.2;

static const struct cmd about = {
	"limits", "[-t N] [--size SIZE] [--time S]",
	"Measures what memory and processor can do at most.",
};

static const struct pico_opt options[] = {
	{ 't', "threads", PICO_OPT_INT, &n_threads, "N",
	    "threads (as many as there are cores to use)", 1, 4096, NULL },
	{ 0, "size", PICO_OPT_SIZE, &size, "SIZE",
	    "memory to read, much larger than the caches (512M)", 0, 0, NULL },
	{ 0, "time", PICO_OPT_CALL, &seconds, "S",
	    "seconds a measurement (0.2)", 0, 3600, pico_opt_real },
	CMD_OPTIONS
};

/* Results go here, so that they have to be computed. */
static volatile uint64_t sink;

/* ---- reading ---- */

/* Reads n bytes, a multiple of 1024, as `streams` parts side by side, and asks
   for each `ahead` bytes early, if that is not 0. Inlined with constants. One
   word of every 32 bytes is looked at, which brings in all lines. */
static inline __attribute__((always_inline)) void
read_streams(const uint8_t *p, size_t n, size_t streams, size_t ahead)
{
	size_t part = n / streams, i, s;
	uint64_t a = 0, b = 0, c = 0, d = 0;

	for (i = 0; i < part; i += 128)
		for (s = 0; s < streams; s++) {
			const uint8_t *q = p + s * part + i;

			if (ahead > 0) {
				__builtin_prefetch(q + ahead);
				__builtin_prefetch(q + ahead + 64);
			}
			a ^= get_u64(q);
			b ^= get_u64(q + 32);
			c ^= get_u64(q + 64);
			d ^= get_u64(q + 96);
		}
	sink = a ^ b ^ c ^ d;
}

typedef void read_fn(const uint8_t *p, size_t n);

static void
read_one(const uint8_t *p, size_t n)
{
	read_streams(p, n, 1, 0);
}

static void
read_one_ahead(const uint8_t *p, size_t n)
{
	read_streams(p, n, 1, 2048);
}

static void
read_two(const uint8_t *p, size_t n)
{
	read_streams(p, n, 2, 0);
}

static void
read_two_ahead(const uint8_t *p, size_t n)
{
	read_streams(p, n, 2, 1024);
}

/* ---- computing ---- */

/*
 * n times the instruction under test on each of twelve accumulators: enough to
 * hide its latency. (Eight are just so many as two a cycle that take four need,
 * and each that came late was lost: 1900 Gop/s instead of 2100.) KEEP makes the
 * compiler believe that a register has changed, so that nothing is computed
 * only once.
 */
typedef void compute_fn(size_t n);
#define EACH(OP) OP(a0) OP(a1) OP(a2) OP(a3) OP(a4) OP(a5) OP(a6) OP(a7) \
	OP(a8) OP(a9) OP(a10) OP(a11)
#define ACCUMULATORS 12

#if defined(__x86_64__)
#define KEEP(v) __asm__ volatile("" : "+v"(v))
#define TARGET(t) __attribute__((target(t)))

static bool
has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512vnni");
}

TARGET("avx512f,avx512vnni") static void
int8_avx512(size_t n)
{
	__m512i x = _mm512_set1_epi8(1), y = x;
	__m512i a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x,
	    a8 = x, a9 = x, a10 = x, a11 = x;

	for (; n > 0; n--) {
#define OP(a) a = _mm512_dpbusd_epi32(a, x, y); KEEP(a);
		EACH(OP)
#undef OP
	}
}

TARGET("avx512f") static void
fma_avx512(size_t n)
{
	__m512 x = _mm512_set1_ps(0.5f), y = x;
	__m512 a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x,
	    a8 = x, a9 = x, a10 = x, a11 = x;

	for (; n > 0; n--) {
#define OP(a) a = _mm512_fmadd_ps(x, y, a); KEEP(a);
		EACH(OP)
#undef OP
	}
}

static bool
has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

TARGET("avx2") static void
int8_avx2(size_t n)
{
	__m256i x = _mm256_set1_epi8(1), y = x, one = _mm256_set1_epi16(1);
	__m256i a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x,
	    a8 = x, a9 = x, a10 = x, a11 = x;

	for (; n > 0; n--) {
#define OP(a) KEEP(x); a = _mm256_add_epi32(a, \
    _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), one)); KEEP(a);
		EACH(OP)
#undef OP
	}
}

TARGET("avx2,fma") static void
fma_avx2(size_t n)
{
	__m256 x = _mm256_set1_ps(0.5f), y = x;
	__m256 a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x,
	    a8 = x, a9 = x, a10 = x, a11 = x;

	for (; n > 0; n--) {
#define OP(a) a = _mm256_fmadd_ps(x, y, a); KEEP(a);
		EACH(OP)
#undef OP
	}
}

#elif defined(__aarch64__)
#define KEEP(v) __asm__ volatile("" : "+w"(v))

#if !defined(__clang__) || defined(__ARM_FEATURE_DOTPROD)
#define HAVE_DOTPROD
static bool
has_dotprod(void)
{
	return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

__attribute__((target("arch=armv8.2-a+dotprod"))) static void
int8_dotprod(size_t n)
{
	int8x16_t x = vdupq_n_s8(1), y = x;
	int32x4_t a0 = vdupq_n_s32(0), a1 = a0, a2 = a0, a3 = a0, a4 = a0,
	    a5 = a0, a6 = a0, a7 = a0, a8 = a0, a9 = a0, a10 = a0, a11 = a0;

	for (; n > 0; n--) {
#define OP(a) a = vdotq_s32(a, x, y); KEEP(a);
		EACH(OP)
#undef OP
	}
}
#endif

static void
int8_neon(size_t n)
{
	int8x8_t x = vdup_n_s8(1), y = x;
	int32x4_t a0 = vdupq_n_s32(0), a1 = a0, a2 = a0, a3 = a0, a4 = a0,
	    a5 = a0, a6 = a0, a7 = a0, a8 = a0, a9 = a0, a10 = a0, a11 = a0;

	for (; n > 0; n--) {
#define OP(a) KEEP(x); a = vpadalq_s16(a, vmull_s8(x, y)); KEEP(a);
		EACH(OP)
#undef OP
	}
}

static void
fma_neon(size_t n)
{
	float32x4_t x = vdupq_n_f32(0.5f), y = x;
	float32x4_t a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x,
	    a8 = x, a9 = x, a10 = x, a11 = x;

	for (; n > 0; n--) {
#define OP(a) a = vfmaq_f32(a, x, y); KEEP(a);
		EACH(OP)
#undef OP
	}
}
#endif

static void
int8_scalar(size_t n)
{
	int32_t x = 3, a0 = 0, a1 = 0, a2 = 0, a3 = 0, a4 = 0, a5 = 0, a6 = 0, a7 = 0,
	    a8 = 0, a9 = 0, a10 = 0, a11 = 0;

	for (; n > 0; n--) {
#define OP(a) __asm__ volatile("" : "+r"(x)); a += (int8_t)x * (int8_t)x; \
    __asm__ volatile("" : "+r"(a));
		EACH(OP)
#undef OP
	}
}

static void
fma_scalar(size_t n)
{
	volatile float start = 0.5f;
	float x = start, a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x,
	    a6 = x, a7 = x,
	    a8 = x, a9 = x, a10 = x, a11 = x;

	for (; n > 0; n--) {
#define OP(a) a = a * x + x;
		EACH(OP)
#undef OP
	}
	sink = (uint64_t)(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 +
	    a8 + a9 + a10 + a11);
}

/* Best first, with the names of the kernel sets in $PICO_CPU; multiply-adds that
   one instruction does. */
static const struct set {
	const char *name;
	bool (*has)(void);	/* NULL: everywhere */
	compute_fn *int8, *fma;
	int int8_width, fma_width;
} sets[] = {
#if defined(__x86_64__)
	{ "avx512", has_avx512, int8_avx512, fma_avx512, 64, 16 },
	{ "avx2", has_avx2, int8_avx2, fma_avx2, 32, 8 },
#elif defined(__aarch64__)
#ifdef HAVE_DOTPROD
	{ "neon-dot", has_dotprod, int8_dotprod, fma_neon, 16, 4 },
#endif
	{ "neon", NULL, int8_neon, fma_neon, 8, 4 },
#endif
	{ "scalar", NULL, int8_scalar, fma_scalar, 1, 1 },
};

/* The one that $PICO_CPU names, or the best. */
static const struct set *
choose_set(void)
{
	const char *name = getenv("PICO_CPU");
	const struct set *s;

	for (s = sets; s < sets + COUNT(sets); s++)
		if (name == NULL || *name == '\0' ?
		    s->has == NULL || s->has() : strcmp(s->name, name) == 0)
			break;
	if (s == sets + COUNT(sets) || (s->has != NULL && !s->has()))
		cmd_usage("PICO_CPU: '%s' is unknown or cannot run here",
		    name);
	return s;
}

/* ---- measuring ---- */

static struct pool *pool;

/* One of the two; every thread does the same amount. */
struct job {
	read_fn *read;
	compute_fn *compute;
	const uint8_t *p;
	size_t n;	/* bytes, or times, a thread */
	size_t window, n_windows;	/* part of p read now, of so many */
};

static void
run(void *data, size_t lo, size_t hi)
{
	const struct job *j = data;

	for (; lo < hi; lo++) {
		if (j->read != NULL)
			j->read(j->p + (j->window % j->n_windows *
			    pool_n(pool) + lo) * j->n, j->n);
		else
			j->compute(j->n);
	}
}

/* Does a job once; returns how long it took. */
static double
once(struct job *j)
{
	double start = pico_seconds();

	pool_run(pool, (size_t)n_threads, 1, run, j);
	return pico_seconds() - start;
}

static void
print(const char *key, double value, const char *unit)
{
	printf("%s\t%.4g\t%s\n", key, value, unit);
}

/* The ways of reading take turns, each with the next part of the memory: its speed
   changes, and the best of some that were measured one after the other would be
   that of the best moment. */
static void
measure_reading(void)
{
	static const struct {
		const char *name;
		read_fn *fn;
	} ways[] = {
		{ "read.1-stream", read_one },
		{ "read.1-stream-prefetched", read_one_ahead },
		{ "read.2-streams", read_two },
		{ "read.2-streams-prefetched", read_two_ahead },
	};
	struct job j = { .n_windows = 8 };
	double took[COUNT(ways)] = { 0 }, all = 0, rate, best = 0;
	size_t i, n = 0;
	uint8_t *p;

	p = cmd_alloc(size, 1);
	j.n = size / j.n_windows / (uint64_t)n_threads / 1024 * 1024;
	memset(p, 1, size);	/* a page never written is not read either */
	j.p = p;
	do {
		for (i = 0; i < COUNT(ways); i++) {
			double t;

			j.read = ways[i].fn;
			t = once(&j);
			j.window++;
			took[i] += t;
			all += t;
		}
		n++;
		j.window++;	/* the next round begins elsewhere */
	} while (all < seconds * COUNT(ways));
	for (i = 0; i < COUNT(ways); i++) {
		rate = (double)(n * j.n * (uint64_t)n_threads) / took[i] / 1e9;
		print(ways[i].name, rate, "GB/s");
		best = MAX(best, rate);
	}
	print("read", best, "GB/s");
	free(p);
}

/* A multiplication and an addition are two operations. */
static void
measure_computing(const char *key, compute_fn *fn, int width, const char *unit)
{
	struct job j = { .compute = fn, .n = 1 << 20 };
	double took = 0, n = 0;

	do {
		took += once(&j);
		n++;
	} while (took < seconds);
	print(key, n * (double)j.n * (double)(n_threads * ACCUMULATORS * 2 *
	    width) / took / 1e9, unit);
}

int
main(int argc, char **argv)
{
	struct pico_err err = {0};
	const struct set *set;

	if (cmd_start(&about, options, argc, argv) < argc)
		cmd_usage("no operands are taken");
	if (n_threads == 0)
		n_threads = pico_default_threads();
	if (size / (uint64_t)n_threads < 8 * 1024 || size > SIZE_MAX)
		cmd_usage("option --size: %" PRIu64 " bytes do not do for %"
		    PRId64 " threads", size, n_threads);
	set = choose_set();
	pool = pool_new((unsigned)n_threads, &err);
	if (pool == NULL)
		cmd_die(&err);
	printf("threads\t%" PRId64 "\t-\nset\t%s\t-\n", n_threads, set->name);
	measure_reading();
	measure_computing("int8", set->int8, set->int8_width, "Gop/s");
	measure_computing("fma", set->fma, set->fma_width, "GFLOP/s");
	pool_free(pool);
	return cmd_finish(0);
}
