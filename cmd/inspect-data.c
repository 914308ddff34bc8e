/* SPDX-License-Identifier: MIT */
/* What needs the data of tensors: values, statistics, faults. */
#include "inspect.h"

#include <inttypes.h>
#include <string.h>

static const struct pico_tensor *
find_tensor(const struct pico_gguf *g, const char *path, const char *name)
{
	const struct pico_tensor *t = pico_gguf_find_tensor(g, name);

	if (t == NULL)
		(void)fault(path, "there is no tensor '%.100s'", name);
	return t;
}

int
put_data(const struct pico_gguf *g, const char *path, const char *tensor,
    bool raw)
{
	const struct pico_tensor *t = find_tensor(g, path, tensor);
	const struct pico_type *type;
	uint64_t i, n, k;
	float y[4096];	/* whole blocks of any type */

	if (t == NULL)
		return PICO_ERROR;
	if (raw) {
		(void)fwrite(t->data, 1, (size_t)t->bytes, stdout);
		return 0;
	}
	type = pico_type(t->type);
	n = elements(t);
	for (i = 0; i < n; i += k) {
		k = MIN(n - i, sizeof y / sizeof *y);
		(void)pico_dequantize(t->type, t->data + i / type->block *
		    type->bytes, y, (size_t)k);
		if (fwrite(y, sizeof *y, (size_t)k, stdout) != k)
			cmd_flush();	/* says why */
	}
	return 0;
}

/* Returns whether all values are finite. */
static bool
put_stats(const struct pico_tensor *t)
{
	struct pico_stats s;

	(void)pico_stats(t->type, t->data, elements(t), &s);
	cmd_progress_output();
	put_text(t->name, SIZE_MAX);
	printf("\t%s\t%" PRIu64 "\t%.9g\t%.9g\t%.9g\t%.9g\t%" PRIu64 "\t%"
	    PRIu64 "\n", pico_type(t->type)->name, s.n, s.min, s.max, s.mean,
	    s.rms, s.n_nan, s.n_inf);
	return s.n_nan + s.n_inf == 0;
}

/* Names what is wrong with a tensor's data; returns whether it is sound. */
static bool
put_faults(const struct pico_tensor *t)
{
	const struct pico_type *type = pico_type(t->type);
	struct pico_stats s;
	uint64_t first = 0, n = elements(t), bad;

	bad = pico_bad_blocks(t->type, t->data, n, &first);
	(void)pico_stats(t->type, t->data, n, &s);
	if (bad + s.n_nan + s.n_inf == 0)
		return true;
	put_text(t->name, SIZE_MAX);
	printf("\t%s\t", type->name);
	if (bad > 0 && type->block > 1)
		printf("%" PRIu64 " of %" PRIu64 " blocks have a scale that is "
		    "NaN or infinite, the first is block %" PRIu64 "\n", bad,
		    n / type->block, first);
	else
		printf("%" PRIu64 " of %" PRIu64 " values are NaN, %" PRIu64
		    " infinite\n", s.n_nan, n, s.n_inf);
	return false;
}

int
examine(const struct pico_gguf *g, const char *path, bool check, char **names,
    int n_names)
{
	size_t n = n_names > 0 ? (size_t)n_names : pico_gguf_n_tensors(g), i;
	const struct pico_tensor *t;
	size_t bad = 0;
	int status = 0;

	for (i = 0; i < n; i++) {
		t = n_names > 0 ? find_tensor(g, path, names[i]) :
		    pico_gguf_tensor(g, i);
		if (t == NULL) {
			status = PICO_ERROR;
			continue;
		}
		cmd_progress("tensor", i + 1, n);
		bad += !(check ? put_faults(t) : put_stats(t));
	}
	if (bad > 0)
		status = fault(path, "%zu of %zu tensors have NaN or infinite "
		    "values", bad, n);
	return status;
}
