/* SPDX-License-Identifier: MIT */
/*
 * Importance matrices: sums of the squares of all that the columns of each matrix
 * are multiplied with. Columns of a pass are added in their order, so the sums do
 * not depend on how a text is cut into passes, nor on threads.
 */
#include <inttypes.h>

#include "../gguf/gguf.h"
#include "model.h"

/* Of a tensor; in tensors of experts, matrix by matrix. */
struct stat {
	double *sum;		/* n_mat x n_in; NULL: nothing came yet */
	uint64_t *count;	/* n_mat */
	uint64_t n_in, n_mat;
};

struct collect {
	const struct pico_gguf *gguf;
	struct stat *stat;	/* for each tensor of the model */
	struct pico_gguf *old;	/* what is to be added to, or NULL */
	char *path;
};

void
collect_free(struct collect *k)
{
	size_t i;

	if (k == NULL)
		return;
	for (i = 0; k->stat != NULL && i < pico_gguf_n_tensors(k->gguf); i++) {
		free(k->stat[i].sum);
		free(k->stat[i].count);
	}
	free(k->stat);
	free(k->path);
	pico_gguf_close(k->old);
	free(k);
}

/* ---- in a pass --------------------------------------------------------- */

/* The tensor of a weight; t->dims[2] matrices of equal size. */
static const struct pico_tensor *
tensor_of(const struct pico_gguf *g, const struct weight *w, uint64_t *mat)
{
	size_t n = pico_gguf_n_tensors(g), i;
	uint64_t at, bytes;

	for (i = 0; i < n; i++) {
		const struct pico_tensor *t = pico_gguf_tensor(g, i);

		at = pico_gguf_info(g, t->shard).data_offset + t->offset;
		if (t->shard != w->shard || w->offset < at ||
		    w->offset - at >= t->bytes)
			continue;
		bytes = t->bytes / (t->dims[2] * t->dims[3]);
		*mat = (w->offset - at) / bytes;
		/* of several parts of one matrix all meet the same */
		return (w->offset - at) % bytes == 0 ? t : NULL;
	}
	return NULL;
}

static struct stat *
stat_of(struct pico_ctx *c, const struct pico_tensor *t)
{
	struct stat *s = &c->collect->stat[t -
	    pico_gguf_tensor(c->collect->gguf, 0)];

	if (s->sum != NULL)
		return s;
	s->n_in = t->dims[0];
	s->n_mat = t->dims[2] * t->dims[3];
	s->sum = mem_new(s->n_in * s->n_mat, sizeof *s->sum,
	    "importance matrix", &c->fault);
	s->count = mem_new(s->n_mat, sizeof *s->count, "importance matrix",
	    &c->fault);
	return s->sum != NULL && s->count != NULL ? s : NULL;
}

void
collect_add(struct pico_ctx *c, const float *x, size_t n_cols, size_t n_parts,
    const struct product *p)
{
	uint64_t mat = 0;
	const struct pico_tensor *t = tensor_of(c->collect->gguf, p->w, &mat);
	struct stat *s = t == NULL ? NULL : stat_of(c, t);
	const float *row;
	size_t col, i;
	uint32_t g;
	double *sum;

	for (g = 0; s != NULL && g < p->w->n_group && mat + g < s->n_mat; g++) {
		sum = s->sum + (mat + g) * s->n_in;
		for (col = 0; col < n_cols; col++) {
			row = x + (col * n_parts + p->part + g) * s->n_in;
			for (i = 0; i < s->n_in; i++)
				sum[i] += (double)row[i] * (double)row[i];
		}
		s->count[mat + g] += n_cols;
	}
}

/* ---- files ------------------------------------------------------------- */

static int
check_old(const struct pico_gguf *old, const char *path, struct pico_err *err)
{
	struct pico_str type = {0};
	struct pico_err why = {0};

	if (pico_gguf_str(old, "general.type", &type, &why) == 1 &&
	    pico_str_is(type, "imatrix"))
		return 0;
	return fail(err, "'%s' is there and is no importance matrix in GGUF",
	    path);
}

int
pico_ctx_collect(struct pico_ctx *c, const char *path, struct pico_err *err)
{
	struct collect *k = mem_new(1, sizeof *k, "importance matrix", err);
	struct new_file f;
	struct map m;

	if (k == NULL)
		return -1;
	c->collect = k;
	k->gguf = c->m->gguf;
	k->stat = mem_new(pico_gguf_n_tensors(k->gguf), sizeof *k->stat,
	    "importance matrix", err);
	k->path = strdup(path);
	if (k->stat == NULL || k->path == NULL)
		return k->stat == NULL ? -1 : fail_errno(err, "'%s'", path);
	if (map_open(&m, path, NULL) == 0) {
		map_close(&m);
		if (pico_gguf_open(&k->old, path, 0, err) < 0 ||
		    check_old(k->old, path, err) < 0)
			return -1;
	}
	/* not to be told after all the work */
	if (new_file_open(&f, path, "", err) < 0)
		return -1;
	new_file_close(&f);
	return 0;
}

/* "blk.0.attn_q.weight.in_sum2" */
static struct pico_str
part_name(char *buf, size_t size, const struct pico_tensor *t,
    const char *suffix)
{
	(void)snprintf(buf, size, "%.*s%s", (int)t->name.n, t->name.p, suffix);
	return (struct pico_str){ buf, strlen(buf) };
}

/* Adds what an earlier run found to n numbers. */
static int
add_old(const struct collect *k, const char *name, uint64_t rows, uint64_t n,
    float *v, struct pico_err *err)
{
	const struct pico_tensor *t = k->old == NULL ? NULL :
	    pico_gguf_find_tensor(k->old, name);
	uint64_t i;

	if (t == NULL)
		return 0;
	if (t->type != TYPE_F32 || t->dims[0] != n / rows ||
	    t->dims[1] * t->dims[2] * t->dims[3] != rows)
		return fail(err, "'%s' is for another model: tensor '%s' has "
		    "another shape", k->path, name);
	for (i = 0; i < n; i++)
		v[i] = (float)((double)v[i] + (double)get_f32(t->data + 4 * i));
	return 0;
}

/* Sums and counts of one tensor, as numbers of the file. */
static int
put_stat(const struct collect *k, struct pico_writer *w, size_t i,
    struct pico_err *err)
{
	const struct pico_tensor *t = pico_gguf_tensor(k->gguf, i);
	const struct stat *s = &k->stat[i];
	uint64_t n = s->n_in * s->n_mat, j;
	float *v = mem_new(n, sizeof *v, "importance matrix", err);
	char name[GGUF_NAME_MAX + 16];
	int rc = -1;

	if (v == NULL)
		return -1;
	for (j = 0; j < n; j++)
		v[j] = (float)s->sum[j];
	if (add_old(k, part_name(name, sizeof name, t, ".in_sum2").p, s->n_mat,
	    n, v, err) < 0 || pico_writer_data(w, v, 4 * n, err) < 0)
		goto out;
	for (j = 0; j < s->n_mat; j++)
		v[j] = (float)s->count[j];
	if (add_old(k, part_name(name, sizeof name, t, ".counts").p, s->n_mat,
	    s->n_mat, v, err) < 0 ||
	    pico_writer_data(w, v, 4 * s->n_mat, err) < 0)
		goto out;
	rc = 0;
out:
	free(v);
	return rc;
}

static int
set_keys(const struct collect *k, struct pico_writer *w, const char *dataset,
    uint64_t n_chunks, uint32_t chunk, struct pico_err *err)
{
	struct pico_str name = { dataset, strlen(dataset) };
	const struct pico_kv *sets = NULL;
	int64_t before = 0;

	if (k->old != NULL) {
		sets = pico_gguf_find(k->old, "imatrix.datasets");
		if (pico_gguf_int(k->old, "imatrix.chunk_count", 0, UINT32_MAX,
		    &before, err) < 0)
			return -1;
	}
	if (pico_writer_str(w, "general.type", (struct pico_str){ "imatrix",
	    7 }, err) < 0 || pico_writer_int(w, "imatrix.chunk_count",
	    PICO_KV_U32, before + (int64_t)n_chunks, err) < 0 ||
	    pico_writer_int(w, "imatrix.chunk_size", PICO_KV_U32, chunk,
	    err) < 0)
		return -1;
	return sets != NULL ? pico_writer_copy(w, sets, err) :
	    pico_writer_strs(w, "imatrix.datasets", 1, &name, err);
}

static int
write_all_of(const struct collect *k, struct pico_writer *w,
    struct pico_err *err)
{
	size_t n = pico_gguf_n_tensors(k->gguf), i;
	char name[GGUF_NAME_MAX + 16];

	for (i = 0; i < n; i++) {
		const struct pico_tensor *t = pico_gguf_tensor(k->gguf, i);
		const struct stat *s = &k->stat[i];

		if (s->sum == NULL)
			continue;
		if (pico_writer_tensor(w, part_name(name, sizeof name, t,
		    ".in_sum2"), TYPE_F32, 2, (uint64_t[]){ s->n_in,
		    s->n_mat }, err) < 0 || pico_writer_tensor(w,
		    part_name(name, sizeof name, t, ".counts"), TYPE_F32, 2,
		    (uint64_t[]){ 1, s->n_mat }, err) < 0)
			return -1;
	}
	if (pico_writer_begin(w, k->path, err) < 0)
		return -1;
	for (i = 0; i < n; i++)
		if (k->stat[i].sum != NULL && put_stat(k, w, i, err) < 0)
			return -1;
	return pico_writer_end(w, err);
}

int
pico_ctx_collected(struct pico_ctx *c, const char *dataset, uint64_t n_chunks,
    struct pico_err *err)
{
	struct pico_writer *w = pico_writer_new(err);
	int rc = -1;

	if (w != NULL && set_keys(c->collect, w, dataset, n_chunks,
	    c->kv.n_ctx, err) == 0)
		rc = write_all_of(c->collect, w, err);
	pico_writer_free(w);
	return rc;
}
