/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads, made once. Each thread has a part of a job's items to itself
 * and takes from its front, half of what is left each time: so it goes through
 * its part in order, as memory likes it, in a few long steps and some short
 * ones. Who has finished helps another, taking from the back of its part (work
 * stealing, Blumofe & Leiserson 1999; the halving is Polychronopoulos & Kuck's
 * guided self-scheduling, 1987): a worker that the system does not let run holds
 * nobody up for long. Waiting spins briefly, since the next job of a forward
 * pass comes within microseconds, and then sleeps, so that a busy neighbour gets
 * the core. Of more threads than there are cores only as many are woken.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

/* Kernels keep tiles on the stack: 600 kB, and without optimisation 1.4 MB. */
#define STACK_SIZE (4 << 20)
#define SPINS 2000
/* A job is counted in pieces of so many grains that the numbers of the pieces
   fit in 16 bits. */
#define MAX_PIECES 0xffff

#define LINE 64		/* bytes of a cache line */
/* What follows is on another one: threads do not slow each other down. */
#define OTHER_LINE(name) char name[LINE]

/*
 * A thread's part of a job: the pieces that nobody has taken yet, from lo to hi,
 * with the number of the job, so that nobody takes those of another: job << 32 |
 * lo << 16 | hi. What else a thread must know is on the same line, which is all
 * that it waits for: between processors that are far from each other a line
 * takes 200 ns.
 */
struct part {
	_Alignas(LINE) _Atomic uint64_t left;
	/* read only by those who hold pieces */
	pool_fn *fn;
	void *data;
	size_t items, piece;	/* items in all, and in a piece */
	size_t pieces;
};

struct pool {
	unsigned n;		/* threads that compute */
	unsigned started;	/* of them; the caller's is not */
	unsigned useful;	/* more at once have no cores to run on */
	unsigned n_parts;	/* of a job: threads that are useful */
	bool small_stack;	/* the caller's: it does not compute, but waits */
	atomic_uint sleepers;
	atomic_bool quit, caller_waits;
	void *parts;		/* memory for them */
	struct part *part;	/* the last one is the caller's, or in its
				   place another worker's; if there are more
				   threads, they have one together */
	pthread_mutex_t lock;
	pthread_cond_t wake, finished;
	struct worker *worker;
	OTHER_LINE(gap);
	atomic_uint job;	/* the number of the last one */
	OTHER_LINE(gap2);
	atomic_size_t done;	/* pieces that are computed */
	OTHER_LINE(gap3);
};

struct worker {
	struct pool *pool;
	unsigned i;
	pthread_t thread;
};

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
	__asm__ volatile("yield");
#endif
}

/* Takes half of what is left of a part, from its front or its back, into *lo and
   *hi; false if nothing is. */
static bool
take(struct part *part, uint32_t job, bool front, size_t *lo, size_t *hi)
{
	uint64_t left = atomic_load(&part->left), after;
	uint64_t first, end, half;

	do {
		first = left >> 16 & 0xffff;
		end = left & 0xffff;
		if (left >> 32 != job || first == end)
			return false;
		half = (end - first + 1) / 2;
		after = front ? left + (half << 16) : left - half;
	} while (!atomic_compare_exchange_weak(&part->left, &left, after));
	*lo = front ? first : end - half;
	*hi = front ? first + half : end;
	return true;
}

/* What thread `self` does for a job: its own part, and then those of others. */
static void
work(struct pool *p, unsigned self, uint32_t job)
{
	size_t lo, hi, end, pieces = 0, mine = 0;
	unsigned k;

	for (k = 0; k < p->n_parts; k++) {
		struct part *part = &p->part[(self + k) % p->n_parts];

		while (take(part, job, k == 0, &lo, &hi)) {
			end = MIN(hi * part->piece, part->items);
			pieces = part->pieces;
			part->fn(part->data, lo * part->piece, end);
			mine += hi - lo;
		}
	}
	/* once, since all write there; from here on the next job may be made */
	if (mine == 0 || atomic_fetch_add(&p->done, mine) + mine < pieces ||
	    !atomic_load(&p->caller_waits))
		return;
	(void)pthread_mutex_lock(&p->lock);
	(void)pthread_cond_signal(&p->finished);
	(void)pthread_mutex_unlock(&p->lock);
}

/* The number of the last job that a thread can know of. */
static uint32_t
last_job(struct pool *p, unsigned i)
{
	return i < p->n_parts ? (uint32_t)(atomic_load(&p->part[i].left) >> 32) :
	    atomic_load(&p->job);
}

static void *
worker_main(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->pool;
	uint32_t seen = 0;
	unsigned i;

	while (!atomic_load(&p->quit)) {
		for (i = 0; i < SPINS && last_job(p, w->i) == seen; i++)
			relax();
		if (i == SPINS) {
			(void)pthread_mutex_lock(&p->lock);
			atomic_fetch_add(&p->sleepers, 1);
			while (atomic_load(&p->job) == seen)
				(void)pthread_cond_wait(&p->wake, &p->lock);
			atomic_fetch_sub(&p->sleepers, 1);
			(void)pthread_mutex_unlock(&p->lock);
		}
		seen = last_job(p, w->i);
		work(p, w->i, seen);
	}
	return NULL;
}

/* Begins the next job, of which this is a part with all but its pieces; returns
   its number. */
static uint32_t
post(struct pool *p, const struct part *all)
{
	uint32_t job = atomic_load(&p->job) + 1;
	uint64_t lo = 0, hi;
	unsigned i;

	/* nobody looks at what is written before they see the number */
	atomic_store_explicit(&p->done, 0, memory_order_relaxed);
	for (i = 0; i < p->n_parts; i++, lo = hi) {
		struct part *part = &p->part[i];

		part->fn = all->fn;
		part->data = all->data;
		part->items = all->items;
		part->piece = all->piece;
		part->pieces = all->pieces;
		hi = all->pieces * (i + 1) / p->n_parts;
		atomic_store_explicit(&part->left, (uint64_t)job << 32 |
		    lo << 16 | hi, memory_order_release);
	}
	atomic_store(&p->job, job);
	if (atomic_load(&p->sleepers) > 0) {
		(void)pthread_mutex_lock(&p->lock);
		/* the parts of those who sleep on are taken by others */
		if (p->n <= p->useful || atomic_load(&p->quit))
			(void)pthread_cond_broadcast(&p->wake);
		for (i = p->n - atomic_load(&p->sleepers); i < p->useful; i++)
			(void)pthread_cond_signal(&p->wake);
		(void)pthread_mutex_unlock(&p->lock);
	}
	return job;
}

void
pool_run(struct pool *p, size_t n, size_t grain, pool_fn *fn, void *data)
{
	size_t grains = n / grain + (n % grain != 0);
	struct part all = { .fn = fn, .data = data, .items = n };
	uint32_t job;
	unsigned i;

	if (n == 0)
		return;
	if (!p->small_stack && (p->started == 0 || grains <= 1)) {
		fn(data, 0, n);
		return;
	}
	all.piece = ((grains - 1) / MAX_PIECES + 1) * grain;
	all.pieces = (n - 1) / all.piece + 1;
	job = post(p, &all);
	if (!p->small_stack)
		work(p, p->n - 1, job);
	for (i = 0; i < SPINS && atomic_load(&p->done) < all.pieces; i++)
		relax();
	if (atomic_load(&p->done) < all.pieces) {
		(void)pthread_mutex_lock(&p->lock);
		atomic_store(&p->caller_waits, true);
		while (atomic_load(&p->done) < all.pieces)
			(void)pthread_cond_wait(&p->finished, &p->lock);
		atomic_store(&p->caller_waits, false);
		(void)pthread_mutex_unlock(&p->lock);
	}
}

struct pool *
pool_new(unsigned n, struct pico_err *err)
{
	pthread_attr_t attr;
	sigset_t all, old;
	struct pool *p = mem_new(1, sizeof *p, "thread pool", err);
	unsigned i, workers;
	int e = 0;

	if (p == NULL)
		return NULL;
	p->n = n;
	p->useful = n > 1 ? pico_default_threads() : 1;
	p->n_parts = MIN(n, p->useful);
	p->small_stack = stack_is_small();
	workers = p->small_stack ? n : n - 1;
	(void)pthread_mutex_init(&p->lock, NULL);
	(void)pthread_cond_init(&p->wake, NULL);
	(void)pthread_cond_init(&p->finished, NULL);
	p->worker = mem_new(n, sizeof *p->worker, "thread pool", err);
	p->parts = mem_new(p->n_parts + 1, sizeof *p->part, "thread pool", err);
	if (p->worker == NULL || p->parts == NULL) {
		pool_free(p);
		return NULL;
	}
	p->part = (void *)((uint8_t *)p->parts + (LINE - (uintptr_t)p->parts %
	    LINE) % LINE);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_SIZE);
	/* signals are the caller's, who may hold them back for a while; but not
	   the one that says that a mapped file was cut */
	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGBUS);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	for (i = 0; i < workers; i++) {
		p->worker[i].pool = p;
		p->worker[i].i = i;
		e = pthread_create(&p->worker[i].thread, &attr, worker_main,
		    &p->worker[i]);
		if (e != 0)
			break;
		p->started++;
	}
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	if (e != 0) {
		(void)fail(err, "cannot start thread %u of %u: %s",
		    n - workers + i + 1, n,
		    strerror(e));
		pool_free(p);
		return NULL;
	}
	return p;
}

void
pool_free(struct pool *p)
{
	unsigned i;

	if (p == NULL)
		return;
	if (p->started > 0) {
		atomic_store(&p->quit, true);
		(void)post(p, &(struct part){0});
		for (i = 0; i < p->started; i++)
			(void)pthread_join(p->worker[i].thread, NULL);
	}
	(void)pthread_cond_destroy(&p->wake);
	(void)pthread_cond_destroy(&p->finished);
	(void)pthread_mutex_destroy(&p->lock);
	free(p->parts);
	free(p->worker);
	free(p);
}

unsigned
pool_n(const struct pool *p)
{
	return p->n;
}

unsigned
pool_parts(const struct pool *p)
{
	return p->n_parts;
}
