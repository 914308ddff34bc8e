/* SPDX-License-Identifier: MIT */
/* Memory whose size was computed with care. */
#include <inttypes.h>
#include <stdlib.h>

#include "base.h"

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
