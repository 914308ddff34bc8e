/* SPDX-License-Identifier: MIT */
/*
 * Matrices times rows. All columns meet a weight together, so that it is read
 * once; threads share rows of the output. A matrix that is not in memory is
 * multiplied as its rows come.
 */
#include "model.h"

/* Rows of a matrix that stay on one thread: kernels unpack so many at once; or,
   for fewer columns than this, where they do not, enough to even out the ends. */
#define TILE 32
#define FEW 4
#define SOME_ROWS 8

/* Rows to be multiplied, and the kinds in which they must be prepared. */
struct rows {
	struct pico_ctx *c;
	const float *x;		/* n_cols x n_parts x n_in */
	size_t n_in, n_parts, n_cols;
	bool kind[ACT_KINDS];
};

static void
prepare_rows(void *data, size_t lo, size_t hi)
{
	struct rows *r = data;
	size_t i;
	int kind;

	for (kind = 0; kind < ACT_KINDS; kind++) {
		size_t bytes = kernel_act_bytes((enum act_kind)kind, r->n_in);

		if (kind == ACT_F32 || !r->kind[kind])
			continue;
		for (i = lo; i < hi; i++)
			r->c->k->quantize((enum act_kind)kind,
			    r->x + i * r->n_in, r->n_in,
			    r->c->act[kind] + i * bytes);
	}
}

/* Rows of several matrices, done as one job. */
struct part {
	struct matmul m;
	size_t n_rows;
	size_t first;		/* of these rows in the matrix */
	size_t group;		/* rows for each part of x */
	size_t group_bytes;	/* from part to part */
	const float *bias;	/* of these rows, or NULL */
};
struct job {
	const struct kernels *k;
	struct part part[PRODUCTS];
	size_t n, n_rows;	/* parts; rows of all */
};

/* Rows r0..r1 of a part, group by group. */
static void
multiply_groups(const struct job *job, const struct part *p, size_t r0,
    size_t r1)
{
	struct matmul m = p->m;
	size_t group, end;

	for (; r0 < r1; r0 = end) {
		group = (p->first + r0) / p->group;
		end = MIN(r1, (group + 1) * p->group - p->first);
		m.x = (const uint8_t *)p->m.x + group * p->group_bytes;
		job->k->matmul(&m, r0, end);
	}
}

static void
multiply_rows(void *data, size_t lo, size_t hi)
{
	struct job *job = data;
	size_t i, base = 0, r, r0, r1, col;

	for (i = 0; i < job->n; i++, base += job->part[i - 1].n_rows) {
		const struct part *p = &job->part[i];
		const struct matmul *m = &p->m;

		if (hi <= base || lo >= base + p->n_rows)
			continue;
		r0 = lo > base ? lo - base : 0;
		r1 = MIN(hi - base, p->n_rows);
		multiply_groups(job, p, r0, r1);
		if (p->bias == NULL)
			continue;
		for (col = 0; col < m->n_cols; col++)
			for (r = r0; r < r1; r++)
				m->y[col * m->y_stride + r] += p->bias[r];
	}
}

/* Rows row.. of a matrix, which are at `data`. */
static void
add_part(struct pico_ctx *c, struct job *job, const struct rows *rows,
    const struct product *p, const uint8_t *data, uint32_t row, uint32_t n)
{
	const struct weight *w = p->w;
	enum act_kind kind = kernel_act_kind(w->type);
	size_t bytes = kernel_act_bytes(kind, w->n_in);
	const uint8_t *x = kind == ACT_F32 ? (const void *)rows->x :
	    c->act[kind];

	job->part[job->n++] = (struct part){
		.m = {
			.type = w->type, .w = data,
			.row_bytes = w->row_bytes, .n_in = w->n_in,
			.x = x + p->part * bytes,
			.x_stride = rows->n_parts * bytes,
			.n_cols = rows->n_cols, .y = p->y + row,
			.y_stride = w->n_out,
		},
		.n_rows = n, .first = row, .group = w->n_out / w->n_group,
		.group_bytes = bytes,
		.bias = w->bias != NULL ? w->bias + row : NULL,
	};
	job->n_rows += n;
}

/* A matrix that is not in memory, as its rows come. */
static void
multiply_pieces(struct pico_ctx *c, const struct rows *rows,
    const struct product *p)
{
	const uint8_t *data;
	uint32_t row, n;

	for (row = 0; row < p->w->n_out; row += n) {
		struct job job = { .k = c->k };

		n = resident_rows(c->res, p->w, row, &data, &c->fault);
		if (n == 0)
			return;
		add_part(c, &job, rows, p, data, row, n);
		pool_run(c->pool, n, TILE, multiply_rows, &job);
		resident_done(c->res);
	}
}

void
multiply_parts(struct pico_ctx *c, const float *x, size_t n_cols,
    size_t n_parts, const struct product *p, size_t n)
{
	struct job job = { .k = c->k };
	struct rows rows = {
		.c = c, .x = x, .n_in = p[0].w->n_in,
		.n_parts = n_parts, .n_cols = n_cols,
	};
	bool any = false;
	size_t i;

	for (i = 0; i < n; i++) {
		enum act_kind kind = kernel_act_kind(p[i].w->type);

		rows.kind[kind] = true;
		any = any || kind != ACT_F32;
		if (resident_has(c->res, p[i].w))
			add_part(c, &job, &rows, &p[i], p[i].w->data, 0,
			    p[i].w->n_out);
	}
	if (any)
		pool_run(c->pool, n_cols * n_parts, 1, prepare_rows, &rows);
	pool_run(c->pool, job.n_rows, n_cols < FEW ? SOME_ROWS : TILE,
	    multiply_rows, &job);
	for (i = 0; i < n; i++)
		if (!resident_has(c->res, p[i].w))
			multiply_pieces(c, &rows, &p[i]);
	for (i = 0; c->collect != NULL && i < n; i++)
		collect_add(c, x, n_cols, n_parts, &p[i]);
}

void
multiply(struct pico_ctx *c, const float *x, size_t n_cols,
    const struct product *p, size_t n)
{
	multiply_parts(c, x, n_cols, p[0].w->n_group, p, n);
}

void
multiply_one(struct pico_ctx *c, const struct weight *w, const float *x,
    size_t n_cols, float *y)
{
	multiply(c, x, n_cols, &(struct product){ w, y, 0 }, 1);
}
