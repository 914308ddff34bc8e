/* SPDX-License-Identifier: MIT */
/* What the reader takes, the writer writes, and it is the same when read again;
   a second copy has the same bytes. As an importance matrix, too. */
#include "fuzz.h"

static bool
same_value(const struct pico_kv *a, const struct pico_kv *b)
{
	return pico_str_compare(a->key, b->key) == 0 && a->type == b->type &&
	    a->elem == b->elem && a->n == b->n && (a->wide != b->wide ||
	    (a->bytes == b->bytes && (a->bytes == 0 ||
	    memcmp(a->data, b->data, (size_t)a->bytes) == 0)));
}

static void
compare(const struct pico_gguf *a, const struct pico_gguf *b)
{
	size_t i;

	MUST(pico_gguf_n_kv(a) == pico_gguf_n_kv(b));
	MUST(pico_gguf_n_tensors(a) == pico_gguf_n_tensors(b));
	for (i = 0; i < pico_gguf_n_kv(a); i++)
		MUST(same_value(pico_gguf_kv(a, i), pico_gguf_kv(b, i)));
	for (i = 0; i < pico_gguf_n_tensors(a); i++) {
		const struct pico_tensor *x = pico_gguf_tensor(a, i);
		const struct pico_tensor *y = pico_gguf_tensor(b, i);

		MUST(pico_str_compare(x->name, y->name) == 0);
		MUST(x->type == y->type && x->n_dims == y->n_dims &&
		    memcmp(x->dims, y->dims, sizeof x->dims) == 0);
		MUST(x->bytes == y->bytes &&
		    memcmp(x->data, y->data, (size_t)x->bytes) == 0);
	}
}

static void
copy(const struct pico_gguf *g, const char *path)
{
	struct pico_err err = {0};
	struct pico_writer *w = pico_writer_new(&err);
	uint64_t size = 0;
	size_t i;

	MUST(w != NULL);
	for (i = 0; i < pico_gguf_n_kv(g); i++)
		MUST(pico_writer_copy(w, pico_gguf_kv(g, i), &err) == 0);
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		const struct pico_tensor *t = pico_gguf_tensor(g, i);

		MUST(pico_writer_tensor(w, t->name, t->type, t->n_dims,
		    t->dims, &err) == 0);
	}
	MUST(pico_writer_size(w, &size, &err) == 0);
	MUST(pico_writer_begin(w, path, &err) == 0);
	for (i = 0; i < pico_gguf_n_tensors(g); i++)
		MUST(pico_writer_copy_data(w, pico_gguf_tensor(g, i),
		    &err) == 0);
	MUST(pico_writer_end(w, &err) == 0);
	pico_writer_free(w);
}

static void
importance(const char *path)
{
	static const struct pico_tensor t = {
		.name = { "blk.0.attn_q.weight", 19 }, .n_dims = 2,
		.dims = { 4, 4, 1, 1 }
	};
	struct pico_err err = {0};
	struct pico_imatrix *m = pico_imatrix_open(path, &err);
	const float *v;

	fuzz_check(m == NULL, &err);
	if (m != NULL)
		fuzz_check(pico_imatrix_find(m, &t, &v, &err) < 0, &err);
	pico_imatrix_close(m);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static char again[120], third[120];
	struct pico_err err = {0};
	struct pico_gguf *g = NULL, *h = NULL;
	const char *path = fuzz_file(data, n);

	(void)snprintf(again, sizeof again, "%s.copy", path);
	(void)snprintf(third, sizeof third, "%s.third", path);
	importance(path);
	if (pico_gguf_open(&g, path, PICO_GGUF_ALONE, &err) < 0)
		return 0;
	copy(g, again);
	MUST(pico_gguf_open(&h, again, PICO_GGUF_ALONE, &err) == 0);
	compare(g, h);
	copy(h, third);
	MUST(pico_gguf_info(h, 0).version == 3);
	pico_gguf_close(h);
	pico_gguf_close(g);
	return 0;
}
