/* SPDX-License-Identifier: MIT */
/*
 * Importance matrices: for each weight matrix the mean square of what each of its
 * columns was multiplied with. Two forms of files: GGUF, and one of its own that
 * is older.
 */
#include <inttypes.h>
#include <math.h>

#include "quant.h"

struct entry {
	struct pico_str name;	/* of the weight */
	const uint8_t *sums;	/* of squares: n_mat times n float32 */
	const uint8_t *counts;	/* NULL: `count` for all matrices */
	float count;
	uint64_t n, n_mat;	/* n_mat 0: n is that of all of them */
};

struct pico_imatrix {
	struct pico_gguf *gguf;	/* one of the two */
	struct map map;
	struct entry *entry;
	size_t n, cap;
	int64_t chunks;
	struct pico_str dataset;
	float *values;		/* of the entry asked for last */
	size_t cap_values;
};

static int
add(struct pico_imatrix *m, const struct entry *e, struct pico_err *err)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (pico_str_compare(m->entry[i].name, e->name) == 0)
			return fail(err, "tensor '%s' occurs twice",
			    show_str(e->name));
	if (mem_grow(&m->entry, &m->cap, m->n + 1, sizeof *m->entry,
	    "importance matrix", err) < 0)
		return -1;
	m->entry[m->n++] = *e;
	return 0;
}

/* ---- the form in GGUF -------------------------------------------------- */

static int
read_gguf(struct pico_imatrix *m, struct pico_err *err)
{
	static const char sums[] = ".in_sum2", counts[] = ".counts";
	const size_t end = sizeof sums - 1;
	const struct pico_tensor *t, *c;
	const struct pico_kv *kv;
	struct pico_str type = {0};
	char name[GGUF_NAME_MAX + 16];
	uint64_t pos = 0;
	size_t i;

	if (pico_gguf_str(m->gguf, "general.type", &type, err) < 0 ||
	    pico_gguf_int(m->gguf, "imatrix.chunk_count", 0, INT64_MAX,
	    &m->chunks, err) < 0)
		return -1;
	if (!pico_str_is(type, "imatrix"))
		return fail(err, "is not an importance matrix: general.type is "
		    "'%s'", show_str(type));
	kv = pico_gguf_find(m->gguf, "imatrix.datasets");
	if (kv != NULL && kv->type == PICO_KV_ARR && kv->elem == PICO_KV_STR &&
	    kv->n > 0)
		m->dataset = pico_kv_str_next(kv, &pos);
	for (i = 0; i < pico_gguf_n_tensors(m->gguf); i++) {
		struct entry e = {0};

		t = pico_gguf_tensor(m->gguf, i);
		if (t->name.n <= end ||
		    memcmp(t->name.p + t->name.n - end, sums, end) != 0)
			continue;
		e.name = (struct pico_str){ t->name.p, t->name.n - end };
		(void)snprintf(name, sizeof name, "%.*s%s", (int)e.name.n,
		    e.name.p, counts);
		c = pico_gguf_find_tensor(m->gguf, name);
		e.n = t->dims[0];
		e.n_mat = t->dims[1];
		if (t->type != TYPE_F32 || t->dims[2] * t->dims[3] != 1 ||
		    c == NULL || c->type != TYPE_F32 ||
		    c->bytes != 4 * e.n_mat)
			return fail(err, "tensor '%s' is not F32 with '%s' of "
			    "one number for each of its rows beside it",
			    show_str(t->name), show(name, strlen(name)));
		e.sums = t->data;
		e.counts = c->data;
		if (add(m, &e, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the older form ---------------------------------------------------- */

/* A number of 32 bits; false at the end. */
static bool
take(const struct map *m, uint64_t *pos, uint32_t *v)
{
	if (m->n - *pos < 4)
		return false;
	*v = get_u32(m->p + *pos);
	*pos += 4;
	return true;
}

static int
read_old(struct pico_imatrix *m, struct pico_err *err)
{
	const struct map *f = &m->map;
	uint64_t pos = 0;
	uint32_t n, i, len, calls, values;

	if (!take(f, &pos, &n) || n == 0 || n > INT32_MAX)
		return fail(err, "is not an importance matrix: it has no "
		    "entries");
	for (i = 0; i < n; i++) {
		struct entry e = {0};

		if (!take(f, &pos, &len) || len == 0 || len > f->n - pos)
			return fail(err, "entry %" PRIu32 " of %" PRIu32
			    " is cut short, or has no name", i + 1, n);
		e.name = (struct pico_str){ (const char *)f->p + pos, len };
		pos += len;
		if (!take(f, &pos, &calls) || !take(f, &pos, &values) ||
		    values == 0 || values > (f->n - pos) / 4)
			return fail(err, "entry %" PRIu32 " of %" PRIu32
			    ", '%s', is cut short, or has no values", i + 1, n,
			    show_str(e.name));
		e.sums = f->p + pos;
		e.n = values;
		e.count = (float)(int32_t)calls;
		pos += 4 * (uint64_t)values;
		if (add(m, &e, err) < 0)
			return -1;
	}
	if (take(f, &pos, &n))
		m->chunks = n;
	if (take(f, &pos, &len) && len <= f->n - pos)
		m->dataset = (struct pico_str){ (const char *)f->p + pos, len };
	return 0;
}

struct pico_imatrix *
pico_imatrix_open(const char *path, struct pico_err *err)
{
	struct pico_imatrix *m = mem_new(1, sizeof *m, "importance matrix",
	    err);
	struct pico_err why = {0};

	if (m == NULL)
		return NULL;
	if (map_open(&m->map, path, err) < 0)
		goto bad;
	if (m->map.n >= 4 && memcmp(m->map.p, "GGUF", 4) == 0) {
		map_close(&m->map);
		if (pico_gguf_open(&m->gguf, path, 0, err) < 0)
			goto bad;
		(void)read_gguf(m, &why);
	} else {
		(void)read_old(m, &why);
	}
	if (why.status == PICO_OK)
		return m;
	(void)fail(err, "'%s'%s%s", path, strncmp(why.msg, "is ", 3) == 0 ?
	    " " : ": ", why.msg);
bad:
	pico_imatrix_close(m);
	return NULL;
}

void
pico_imatrix_close(struct pico_imatrix *m)
{
	if (m == NULL)
		return;
	map_close(&m->map);
	pico_gguf_close(m->gguf);
	free(m->entry);
	free(m->values);
	free(m);
}

struct pico_imatrix_info
pico_imatrix_info(const struct pico_imatrix *m)
{
	return (struct pico_imatrix_info){ .n_entries = m->n,
	    .n_chunks = m->chunks, .dataset = m->dataset };
}

/* Means of one matrix, so that they are 1 in the mean; a column that nothing came
   to is not free of errors. */
static int
normalize(const struct entry *e, uint64_t mat, uint64_t n, float *v,
    struct pico_err *err)
{
	float count = e->counts != NULL ? get_f32(e->counts + 4 * mat) :
	    e->count;
	double sum = 0;
	uint64_t i;

	if (!(count >= 0))
		return fail(err, "importance of tensor '%s': its count is %.9g",
		    show_str(e->name), (double)count);
	for (i = 0; i < n; i++) {
		v[i] = get_f32(e->sums + 4 * (mat * n + i));
		if (!(v[i] >= 0) || !isfinite(v[i]))
			return fail(err, "importance of tensor '%s': value %"
			    PRIu64 " is %.9g", show_str(e->name), mat * n + i,
			    (double)v[i]);
		sum += (double)v[i];
	}
	sum /= (double)n;
	for (i = 0; i < n; i++)
		v[i] = sum > 0 && count > 0 ? (float)((double)v[i] / sum) +
		    0x1p-20f : 1;
	return 0;
}

int
pico_imatrix_find(struct pico_imatrix *m, const struct pico_tensor *t,
    const float **out, struct pico_err *err)
{
	uint64_t n_mat = t->dims[2] * t->dims[3], n = t->dims[0], mat;
	const struct entry *e = NULL;
	size_t i;

	*out = NULL;
	for (i = 0; i < m->n && e == NULL; i++)
		if (pico_str_compare(m->entry[i].name, t->name) == 0)
			e = &m->entry[i];
	if (e == NULL)
		return 0;
	if (e->counts != NULL ? e->n != n || e->n_mat != n_mat :
	    e->n != n * n_mat)
		return fail(err, "importance of tensor '%s' is for %" PRIu64
		    " columns, it has %" PRIu64, show_str(t->name),
		    e->counts != NULL ? e->n * e->n_mat : e->n, n * n_mat);
	if (mem_grow(&m->values, &m->cap_values, (size_t)(n * n_mat),
	    sizeof *m->values, "importance", err) < 0)
		return -1;
	for (mat = 0; mat < n_mat; mat++)
		if (normalize(e, mat, n, m->values + mat * n, err) < 0)
			return -1;
	*out = m->values;
	return 1;
}
