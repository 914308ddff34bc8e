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
/* Elements that are prepared together: whole blocks of all kinds. */
#define UNIT 256
#define ENOUGH 4	/* of them for a thread, to even out the ends */
/* Columns at most that are fetched before they are met. */
#define FETCHED 64

/* Rows to be multiplied, and the kinds in which they must be prepared. */
struct rows {
	struct pico_ctx *c;
	const float *x;		/* n_cols x n_parts x n_in */
	size_t n_in, n_parts, n_cols;
	bool kind[ACT_KINDS];
	pool_fn *make;		/* or NULL */
	void *data;
};

/* n elements of all, from number `at` on: whole blocks. */
static void
prepare(const struct rows *r, size_t at, size_t n)
{
	int kind;

	for (kind = 0; kind < ACT_KINDS; kind++)
		if (kind != ACT_F32 && r->kind[kind])
			r->c->k->quantize((enum act_kind)kind, r->x + at, n,
			    r->c->act[kind] +
			    kernel_act_bytes((enum act_kind)kind, at));
}

static void
prepare_rows(void *data, size_t lo, size_t hi)
{
	const struct rows *r = data;

	if (r->make != NULL)
		r->make(r->data, lo * r->n_in, hi * r->n_in);
	prepare(r, lo * r->n_in, (hi - lo) * r->n_in);
}

/* Units lo..hi of all columns. */
static void
prepare_units(void *data, size_t lo, size_t hi)
{
	const struct rows *r = data;
	size_t width = r->n_parts * r->n_in, col;

	lo *= UNIT;
	hi = MIN(hi * UNIT, width);
	for (col = 0; col < r->n_cols; col++, lo += width, hi += width) {
		if (r->make != NULL)
			r->make(r->data, lo, hi);
		else if (col + 1 < r->n_cols)
			fetch_bytes(r->x + lo + width, (hi - lo) *
			    sizeof *r->x);
		prepare(r, lo, hi - lo);
	}
}

/*
 * A thread prepares what is in its own cache, as far as can be told: columns after
 * a norm of theirs; some elements of all columns if they are made here, or meet one
 * matrix only, as what heads have seen does. That is, if there is enough for all
 * threads.
 */
static void
prepare_all(struct rows *r, bool any, size_t n)
{
	struct pool *pool = r->c->pool;
	size_t units = (r->n_parts * r->n_in + UNIT - 1) / UNIT;
	size_t rows = r->n_cols * r->n_parts, threads = pool_parts(pool);
	bool own = r->make != NULL || (n == 1 && r->n_cols >= FEW);

	if (!any && r->make == NULL)
		return;
	if (own && (units >= ENOUGH * threads || rows < threads))
		pool_run(pool, units, 1, prepare_units, r);
	else
		pool_run(pool, rows, 1, prepare_rows, r);
}

/*
 * Rows of several matrices, done as one job. Its rows are in the order of the
 * threads' shares, each with its share of every matrix: so a thread has heads or
 * elements of different matrices that belong together.
 */
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
	size_t shares;
	const struct weight *next;	/* of the job after this one, or NULL */
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

/* Rows r0..r1 of a part. */
static void
multiply_part(const struct job *job, const struct part *p, size_t r0, size_t r1)
{
	const struct matmul *m = &p->m;
	size_t r, col;

	multiply_groups(job, p, r0, r1);
	for (col = 0; p->bias != NULL && col < m->n_cols; col++)
		for (r = r0; r < r1; r++)
			m->y[col * m->y_stride + r] += p->bias[r];
}

/* Where a share of n_rows begins, or where the last one ends. */
static size_t
share_start(const struct job *job, size_t n_rows, size_t share)
{
	return share == job->shares ? n_rows :
	    n_rows / TILE * share / job->shares * TILE;
}

/* What comes after the share of part i. */
static const uint8_t *
after_share(const struct job *job, size_t i, size_t share)
{
	const struct weight *w = job->next;
	const struct part *p = &job->part[i + 1];

	if (i + 1 < job->n)
		return (const uint8_t *)p->m.w +
		    share_start(job, p->n_rows, share) * p->m.row_bytes;
	return w == NULL || w->data == NULL ? NULL :
	    w->data + share_start(job, w->n_out, share) * w->row_bytes;
}

/* A thread begins: columns may be in the cache of another one. */
static void
fetch_cols(const struct matmul *m)
{
	size_t col;

	for (col = 0; m->n_cols > 1 && col < MIN(m->n_cols, FETCHED); col++)
		fetch_bytes((const uint8_t *)m->x + col * m->x_stride,
		    m->x_stride);
}

static void
multiply_rows(void *data, size_t lo, size_t hi)
{
	struct job *job = data;
	size_t share, i, first, n, base = 0;

	for (share = 0; share < job->shares; share++) {
		for (i = 0; i < job->n; i++, base += n) {
			struct part p = job->part[i];

			first = share_start(job, p.n_rows, share);
			n = share_start(job, p.n_rows, share + 1) - first;
			if (hi <= base || lo >= base + n)
				continue;
			if (i == 0 && lo <= base)
				fetch_cols(&p.m);
			if (hi >= base + n)
				p.m.next = after_share(job, i, share);
			multiply_part(job, &p, first + (lo > base ? lo - base :
			    0), first + MIN(hi - base, n));
		}
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
		struct job job = { .k = c->k, .shares = 1 };

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
    size_t n_parts, const struct product *p, size_t n, pool_fn *make,
    void *data)
{
	struct job job = {
		.k = c->k, .shares = pool_parts(c->pool),
		.next = p[n - 1].w->next,
	};
	struct rows rows = {
		.c = c, .x = x, .n_in = p[0].w->n_in,
		.n_parts = n_parts, .n_cols = n_cols,
		.make = make, .data = data,
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
	prepare_all(&rows, any, n);
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
	multiply_parts(c, x, n_cols, p[0].w->n_group, p, n, NULL, NULL);
}

void
multiply_one(struct pico_ctx *c, const struct weight *w, const float *x,
    size_t n_cols, float *y)
{
	multiply(c, x, n_cols, &(struct product){ w, y, 0 }, 1);
}
