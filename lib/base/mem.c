/* SPDX-License-Identifier: MIT */
/* Memory whose size was computed with care. */
#ifdef __linux__
#define _GNU_SOURCE	/* MADV_HUGEPAGE */
#endif
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base.h"

/* Of the larger pages that most machines have. */
#define HUGE_PAGE ((size_t)2 << 20)

void *
mem_new(uint64_t n, uint64_t size, const char *what, struct pico_err *err)
{
	uint64_t bytes;
	void *p;

	if (!mul_u64(n, size, &bytes) || bytes > PTRDIFF_MAX) {
		(void)fail(err, "%s: %" PRIu64 " times %" PRIu64
		    " bytes are more than this machine can address",
		    what, n, size);
		return NULL;
	}
	bytes = MAX(bytes, 1);
	p = calloc(1, (size_t)bytes);
	if (p == NULL)
		(void)fail(err, "%s: no memory for %" PRIu64 " bytes", what,
		    bytes);
	return p;
}

int
mem_grow(void *arrayp, size_t *cap, size_t need, size_t size,
    const char *what, struct pico_err *err)
{
	void **array = arrayp;
	size_t n = *cap > 0 ? *cap : 16;
	uint64_t bytes;
	void *p;

	if (need <= *cap)
		return 0;
	while (n < need && n <= PTRDIFF_MAX / 2)
		n *= 2;
	if (n < need || !mul_u64(n, size, &bytes) || bytes > PTRDIFF_MAX)
		return fail(err, "%s: %zu times %zu bytes are more than this "
		    "machine can address", what, need, size);
	p = realloc(*array, (size_t)bytes);
	if (p == NULL)
		return fail(err, "%s: no memory for %" PRIu64 " bytes", what,
		    bytes);
	*array = p;
	*cap = n;
	return 0;
}

/* Bytes in whole pages. */
static size_t
whole(uint64_t n)
{
	return ((size_t)n + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

void *
mem_huge(uint64_t n)
{
#ifdef MADV_HUGEPAGE
	size_t before;
	uint8_t *p;

	if (n < HUGE_PAGE || n > PTRDIFF_MAX - 2 * HUGE_PAGE)
		return NULL;
	p = mmap(NULL, whole(n) + HUGE_PAGE, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	/* it must begin where such a page may */
	before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
	if (before > 0)
		(void)munmap(p, before);
	p += before;
	(void)munmap(p + whole(n), HUGE_PAGE - before);
	if (madvise(p, whole(n), MADV_HUGEPAGE) == 0)
		return p;
	mem_huge_free(p, n);
#else
	(void)n;
#endif
	return NULL;
}

void
mem_huge_free(void *p, uint64_t n)
{
	if (p != NULL)
		(void)munmap(p, whole(n));
}
