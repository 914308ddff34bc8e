/* SPDX-License-Identifier: MIT */
/*
 * Weights in less memory than they need. A fixed part is kept, the rest is read
 * in the order of use by a thread that runs ahead of the computation, and
 * forgotten after it: a step then reads (weights - kept), the least there is.
 * Left to the page cache, which drops what was used longest ago, a scan that
 * goes round and round finds nothing and reads everything again.
 *
 * The kept part is mapped: pages of the file, which cost nothing twice and stay
 * while the limit is never reached. The rest is read past the page cache, into
 * a ring of a few buffers. Measured with 190 of 668 MB kept under a limit of
 * 256 MB: reading ahead through the map or with plain reads leaves pages behind
 * that nobody drops, until the limit throws out the kept part; direct reads
 * leave none, are as fast, and take a quarter of the processor time. A fault of
 * the disk is then an error of read(2), too, and not a signal.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"

/* Enough for the full speed of disks, which half of the size is not; small
   beside what is kept. A fourth slot gains nothing that can be measured. */
#define PIECE ((uint64_t)1 << 20)
#define SLOTS 3
#define STACK_SIZE (256 << 10)
/* Rows that kernels unpack at once, so pieces have a multiple of it. */
#define ROWS 32

/* Some rows of a weight. */
struct slot {
	const struct weight *w;
	uint32_t row, n;
	uint8_t *mem;
	const uint8_t *data;	/* the first row, somewhere in mem */
};

struct resident {
	const struct pico_model *m;
	bool *kept;		/* by number of the weight */
	struct file *files;	/* one a shard */
	int n_files;
	uint8_t *single;	/* for resident_row() */
	pthread_t thread;
	bool started;

	pthread_mutex_t lock;	/* guards all below */
	pthread_cond_t work, ready;
	/* Weights to be read, a ring; `row` of the first is the next to read. */
	const struct weight **want;
	size_t first_want, n_want;
	uint32_t row;
	struct slot slot[SLOTS];	/* a ring, too */
	unsigned first, n;
	bool reading, quit;
	bool stale;		/* what is being read is not wanted any more */
	struct pico_err fault;
};

/* ---- what is kept ---- */

static const uint8_t *
tensor_end(const struct pico_tensor *t)
{
	return t->data + t->bytes;
}

void
resident_advise(const struct pico_model *m, enum map_advice advice)
{
	size_t i, n = pico_gguf_n_tensors(m->gguf);
	const struct pico_tensor *t;
	const uint8_t *lo, *hi;
	int shard;

	for (shard = 0; shard < pico_gguf_n_shards(m->gguf); shard++) {
		lo = hi = NULL;
		for (i = 0; i < n; i++) {
			t = pico_gguf_tensor(m->gguf, i);
			if (t->shard != shard || t->data == NULL)
				continue;
			if (lo == NULL || t->data < lo)
				lo = t->data;
			if (hi == NULL || tensor_end(t) > hi)
				hi = tensor_end(t);
		}
		if (lo != NULL)
			map_advise(lo, (uint64_t)(hi - lo), advice);
	}
}

/* What choosing has come to. */
struct choosing {
	bool *kept;
	uint64_t left;		/* of the budget */
	uint64_t sum, step;	/* bytes kept; bytes read for a token */
};

static void
keep(struct choosing *c, const struct weight *w)
{
	if (c->kept[w->number] || weight_bytes(w) > c->left)
		return;
	c->kept[w->number] = true;
	c->left -= weight_bytes(w);
	c->sum += weight_bytes(w);
	c->step -= w->step;
}

/*
 * The output first, which a pass may want several times; then whole layers,
 * spread evenly, so that while those are computed with the next ones are on
 * their way; then what single matrices fit; the embedding, of which a token
 * needs a row, last.
 */
uint64_t
resident_choose(const struct pico_model *m, uint64_t budget, bool *kept,
    uint64_t *step)
{
	struct choosing c = { .kept = kept, .left = budget };
	double layers = 0, passed = 0, share;
	size_t i, first = m->layers[0].first;
	uint64_t size, before;
	uint32_t il;

	for (i = 0; i < m->n_weights; i++) {
		kept[i] = false;
		c.step += m->weights[i]->step;
		if (i >= first)
			layers += (double)weight_bytes(m->weights[i]);
	}
	keep(&c, m->weights[m->output.number]);
	share = (double)c.left / layers;
	before = c.sum;
	for (il = 0; il < m->h.n_layer; il++) {
		for (size = 0, i = m->layers[il].first; i < m->layers[il].end;
		    i++)
			size += weight_bytes(m->weights[i]);
		passed += (double)size;
		if (size > c.left ||
		    (double)(c.sum - before + size) > passed * share)
			continue;
		for (i = m->layers[il].first; i < m->layers[il].end; i++)
			keep(&c, m->weights[i]);
	}
	for (i = first; i < m->n_weights; i++)
		keep(&c, m->weights[i]);
	keep(&c, &m->embd);
	if (weight_is(&m->positions))
		keep(&c, &m->positions);
	*step = c.step;
	return c.sum;
}

/* ---- reading ---- */

/* Rows of a weight in a piece. */
static uint32_t
piece_rows(const struct weight *w)
{
	uint64_t n = PIECE / w->row_bytes / ROWS * ROWS;

	return (uint32_t)MIN(MAX(n, ROWS), w->n_out);
}

/* Bytes of a buffer for the largest piece. */
static size_t
slot_bytes(const struct pico_model *m)
{
	uint64_t most = 0;
	size_t i;

	for (i = 0; i < m->n_weights; i++)
		most = MAX(most, piece_rows(m->weights[i]) *
		    (uint64_t)m->weights[i]->row_bytes);
	return (size_t)most + 2 * FILE_ALIGN;
}

/* Bytes of a buffer for one row by itself. */
static size_t
single_bytes(const struct pico_model *m)
{
	return MAX(m->embd.row_bytes, m->positions.row_bytes) +
	    2 * FILE_ALIGN;
}

uint64_t
resident_buffers(const struct pico_model *m)
{
	return (uint64_t)SLOTS * slot_bytes(m) + single_bytes(m);
}

/* As file_read(); if it fails since the file was changed, that is told. */
static const uint8_t *
read_at(const struct resident *r, int shard, uint64_t at, size_t n,
    uint8_t *buf, struct pico_err *err)
{
	struct pico_err why = {0};
	const uint8_t *data = file_read(&r->files[shard], at, n, buf, &why);

	if (data == NULL && pico_gguf_check(r->m->gguf, err) == 0)
		(void)fail(err, "%s", why.msg);
	return data;
}

/* Reads one piece; the lock is held, but not while it waits. */
static void
read_piece(struct resident *r)
{
	const struct weight *w = r->want[r->first_want];
	struct slot *s = &r->slot[(r->first + r->n) % SLOTS];
	uint32_t row = r->row, n = MIN(piece_rows(w), w->n_out - row);
	uint64_t bytes = (uint64_t)n * w->row_bytes;
	struct pico_err err = {0};
	const uint8_t *data;

	r->reading = true;
	r->stale = false;
	(void)pthread_mutex_unlock(&r->lock);
	data = read_at(r, w->shard, w->offset + (uint64_t)row * w->row_bytes,
	    (size_t)bytes, s->mem, &err);
	(void)pthread_mutex_lock(&r->lock);
	r->reading = false;
	if (data == NULL)
		r->fault = err;
	if (data == NULL || r->stale)
		return;
	s->w = w;
	s->row = row;
	s->n = n;
	s->data = data;
	r->n++;
	r->row += n;
	if (r->row == w->n_out) {
		r->row = 0;
		r->first_want = (r->first_want + 1) % r->m->n_weights;
		r->n_want--;
	}
}

static void *
reader_main(void *arg)
{
	struct resident *r = arg;

	(void)pthread_mutex_lock(&r->lock);
	while (!r->quit) {
		if (r->n_want > 0 && r->n < SLOTS &&
		    r->fault.status == PICO_OK) {
			read_piece(r);
			(void)pthread_cond_signal(&r->ready);
		} else {
			(void)pthread_cond_wait(&r->work, &r->lock);
		}
	}
	(void)pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* ---- what the computation asks for ---- */

bool
resident_has(const struct resident *r, const struct weight *w)
{
	return r == NULL || r->kept[w->number];
}

static void
push(struct resident *r, const struct weight *w)
{
	if (r->n_want == r->m->n_weights)
		return;
	r->want[(r->first_want + r->n_want++) % r->m->n_weights] = w;
	(void)pthread_cond_signal(&r->work);
}

void
resident_want(struct resident *r, const struct weight *w)
{
	if (resident_has(r, w))
		return;
	(void)pthread_mutex_lock(&r->lock);
	push(r, w);
	(void)pthread_mutex_unlock(&r->lock);
}

bool
resident_idle(struct resident *r)
{
	bool idle;

	if (r == NULL)
		return false;
	(void)pthread_mutex_lock(&r->lock);
	idle = r->n + r->n_want == 0;
	(void)pthread_mutex_unlock(&r->lock);
	return idle;
}

/* Whether these rows are what is, or will be, in the first slot. */
static bool
is_next(const struct resident *r, const struct weight *w, uint32_t row)
{
	const struct slot *s = &r->slot[r->first];

	/* by number: a tied output is the embedding under another name */
	if (r->n > 0)
		return s->w->number == w->number && s->row == row;
	return r->n_want > 0 && r->row == row &&
	    r->want[r->first_want]->number == w->number;
}

uint32_t
resident_rows(struct resident *r, const struct weight *w, uint32_t row,
    const uint8_t **data, struct pico_err *err)
{
	uint32_t n = 0;

	(void)pthread_mutex_lock(&r->lock);
	if (!is_next(r, w, row)) {
		r->n = 0;
		r->n_want = 0;
		r->row = row;
		r->stale = true;
		push(r, w);
	}
	while (r->n == 0 && r->fault.status == PICO_OK)
		(void)pthread_cond_wait(&r->ready, &r->lock);
	if (r->n > 0) {
		*data = r->slot[r->first].data;
		n = r->slot[r->first].n;
	} else {
		(void)fail(err, "%s", r->fault.msg);
	}
	(void)pthread_mutex_unlock(&r->lock);
	return n;
}

void
resident_done(struct resident *r)
{
	(void)pthread_mutex_lock(&r->lock);
	r->first = (r->first + 1) % SLOTS;
	r->n--;
	(void)pthread_cond_signal(&r->work);
	(void)pthread_mutex_unlock(&r->lock);
}

const uint8_t *
resident_row(struct resident *r, const struct weight *w, uint32_t row,
    struct pico_err *err)
{
	uint64_t at = (uint64_t)row * w->row_bytes;

	if (resident_has(r, w))
		return w->data + at;
	return read_at(r, w->shard, w->offset + at, w->row_bytes, r->single,
	    err);
}

int
resident_hash(struct resident *r, const struct pico_tensor *t, uint64_t *hash,
    struct pico_err *err)
{
	uint64_t at, start, n;
	const uint8_t *data;
	void *buf;

	if (r == NULL) {
		*hash = hash_bytes(*hash, t->data, (size_t)t->bytes);
		return 0;
	}
	if (posix_memalign(&buf, FILE_ALIGN, PIECE + 2 * FILE_ALIGN) != 0)
		return fail(err, "no memory for %" PRIu64 " bytes", PIECE);
	start = pico_gguf_info(r->m->gguf, t->shard).data_offset + t->offset;
	for (at = 0; at < t->bytes; at += n) {
		n = MIN(PIECE, t->bytes - at);
		data = read_at(r, t->shard, start + at, (size_t)n, buf, err);
		if (data == NULL)
			break;
		*hash = hash_bytes(*hash, data, (size_t)n);
	}
	free(buf);
	return at < t->bytes ? -1 : 0;
}

/* ---- the speed of the disk ---- */

double
median_speed(struct timed_read *reads, size_t n)
{
	struct timed_read t;
	uint64_t sum = 0, passed = 0;
	size_t i, k;

	for (i = 0; i < n; i++) {
		t = reads[i];
		sum += t.bytes;
		for (k = i; k > 0 && (double)reads[k - 1].bytes * t.seconds >
		    (double)t.bytes * reads[k - 1].seconds; k--)
			reads[k] = reads[k - 1];
		reads[k] = t;
	}
	for (i = 0; i < n && passed + reads[i].bytes < sum - sum / 2; i++)
		passed += reads[i].bytes;
	/* a clock that did not move is no infinite speed */
	return sum > 0 ? (double)reads[i].bytes / MAX(reads[i].seconds, 1e-9) :
	    0;
}

/* Nothing is gained by more, and a slow disk shall not hold up for long. */
#define READS 16
#define READS_ENOUGH 5
#define READS_SECONDS 1.0

double
resident_speed(struct resident *r)
{
	struct timed_read reads[READS];
	const struct weight *w;
	double start = pico_seconds(), now = start;
	size_t i, n = 0;
	void *buf;

	if (r == NULL)
		return 0;
	/* until the reader has done all it can */
	(void)pthread_mutex_lock(&r->lock);
	while (r->n < SLOTS && r->n_want > 0 && r->fault.status == PICO_OK)
		(void)pthread_cond_wait(&r->ready, &r->lock);
	(void)pthread_mutex_unlock(&r->lock);
	if (posix_memalign(&buf, FILE_ALIGN, slot_bytes(r->m)) != 0)
		return 0;
	/* the beginnings of weights, so no two reads of the same place */
	for (i = 0; i < r->m->n_weights && n < READS && (n < READS_ENOUGH ||
	    now - start < READS_SECONDS); i++) {
		w = r->m->weights[i];
		if (r->kept[i])
			continue;
		reads[n].bytes = (uint64_t)piece_rows(w) * w->row_bytes;
		reads[n].seconds = -now;
		if (read_at(r, w->shard, w->offset, (size_t)reads[n].bytes, buf,
		    NULL) == NULL)
			break;	/* a pass will tell */
		now = pico_seconds();
		reads[n++].seconds += now;
	}
	free(buf);
	return median_speed(reads, n);
}

/* ---- beginning and end ---- */

/* Reads what is kept: all of it is asked for, then waited for. What others may
   have left of the rest makes room first. */
static void
load(const struct resident *r)
{
	long page = sysconf(_SC_PAGESIZE);
	const volatile uint8_t *p;
	const struct weight *w;
	uint64_t at;
	size_t i;

	for (i = 0; i < r->m->n_weights; i++) {
		w = r->m->weights[i];
		if (!r->kept[i])
			file_forget(&r->files[w->shard], w->offset,
			    weight_bytes(w));
	}
	for (i = 0; i < r->m->n_weights; i++) {
		w = r->m->weights[i];
		if (r->kept[i])
			map_advise(w->data, weight_bytes(w), READ_SOON);
	}
	for (i = 0; i < r->m->n_weights; i++) {
		w = r->m->weights[i];
		p = w->data;
		for (at = 0; r->kept[i] && at < weight_bytes(w);
		    at += (uint64_t)page)
			(void)p[at];
	}
}

static int
take_buffer(uint8_t **p, size_t n, struct pico_err *err)
{
	void *mem;

	if (posix_memalign(&mem, FILE_ALIGN, n) != 0)
		return fail(err, "weights on their way: no memory for %zu "
		    "bytes", n);
	*p = mem;
	return 0;
}

static int
start_reader(struct resident *r, struct pico_err *err)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int e;

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_SIZE);
	/* signals are the caller's */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	e = pthread_create(&r->thread, &attr, reader_main, r);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	if (e != 0)
		return fail(err, "cannot start the thread that reads weights: "
		    "%s", strerror(e));
	r->started = true;
	return 0;
}

struct resident *
resident_new(const struct pico_model *m, uint64_t budget, struct pico_err *err)
{
	struct resident *r = mem_new(1, sizeof *r, "kept weights", err);
	struct pico_gguf_info info;
	int i, n = pico_gguf_n_shards(m->gguf);
	uint64_t step;

	if (r == NULL)
		return NULL;
	r->m = m;
	(void)pthread_mutex_init(&r->lock, NULL);
	(void)pthread_cond_init(&r->work, NULL);
	(void)pthread_cond_init(&r->ready, NULL);
	r->kept = mem_new(m->n_weights, sizeof *r->kept, "kept weights", err);
	r->want = mem_new(m->n_weights, sizeof *r->want, "wanted weights",
	    err);
	r->files = mem_new((uint64_t)n, sizeof *r->files, "files", err);
	if (r->kept == NULL || r->want == NULL || r->files == NULL)
		goto bad;
	for (i = 0; i < n; i++) {
		info = pico_gguf_info(m->gguf, i);
		if (file_open(&r->files[i], info.path, info.identity, err) < 0)
			goto bad;
		r->n_files++;
	}
	for (i = 0; i < SLOTS; i++)
		if (take_buffer(&r->slot[i].mem, slot_bytes(m), err) < 0)
			goto bad;
	if (take_buffer(&r->single, single_bytes(m), err) < 0)
		goto bad;
	(void)resident_choose(m, budget, r->kept, &step);
	load(r);
	if (start_reader(r, err) < 0)
		goto bad;
	return r;
bad:
	resident_free(r);
	return NULL;
}

void
resident_free(struct resident *r)
{
	int i;

	if (r == NULL)
		return;
	if (r->started) {
		(void)pthread_mutex_lock(&r->lock);
		r->quit = true;
		(void)pthread_cond_signal(&r->work);
		(void)pthread_mutex_unlock(&r->lock);
		(void)pthread_join(r->thread, NULL);
	}
	for (i = 0; i < r->n_files; i++)
		file_close(&r->files[i]);
	for (i = 0; i < SLOTS; i++)
		free(r->slot[i].mem);
	(void)pthread_cond_destroy(&r->ready);
	(void)pthread_cond_destroy(&r->work);
	(void)pthread_mutex_destroy(&r->lock);
	free(r->single);
	free(r->files);
	free(r->want);
	free(r->kept);
	free(r);
}
