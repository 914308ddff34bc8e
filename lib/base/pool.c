/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads, made once. A job is cut into shares, which the threads
 * take one after the other until none is left, the caller with them: a worker
 * that the system does not let run holds nobody up. Waiting spins briefly,
 * since the next job of a forward pass comes within microseconds, and then
 * sleeps, so that a busy neighbour gets the core.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

/* musl's default of 128 KiB is little: kernels keep tiles of 300 kB on the stack,
   and a sanitizer's own data come out of it, too */
#define STACK_SIZE (2 << 20)
#define SPINS 2000
/* Shares of a job for each thread: enough to even out, few enough for each to
   be a long stream through memory. */
#define SHARES 4

struct pool {
	unsigned n;		/* threads, the caller's included */
	unsigned started;	/* really running, besides the caller's */
	/* Number of the job, and how many of its shares are still to be taken:
	   in one word, so that nobody takes a share of another job. */
	_Atomic uint64_t ticket;
	atomic_uint done;	/* shares that are computed */
	atomic_uint sleepers;
	atomic_bool quit, caller_waits;
	/* the job; read only by those who hold a share of it */
	pool_fn *fn;
	void *data;
	size_t items, length;	/* items in all, and in a share */
	unsigned shares;
	pthread_mutex_t lock;
	pthread_cond_t wake, finished;
	pthread_t *worker;
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

static uint32_t
job_of(uint64_t ticket)
{
	return (uint32_t)(ticket >> 32);
}

/* Takes one share of a job and computes it; false if none is left. */
static bool
work(struct pool *p, uint32_t job)
{
	uint64_t ticket = atomic_load(&p->ticket);
	unsigned shares;
	size_t lo;

	do {
		if (job_of(ticket) != job || (uint32_t)ticket == 0)
			return false;
	} while (!atomic_compare_exchange_weak(&p->ticket, &ticket,
	    ticket - 1));
	shares = p->shares;
	lo = (shares - (uint32_t)ticket) * p->length;
	p->fn(p->data, lo, MIN(lo + p->length, p->items));
	if (atomic_fetch_add(&p->done, 1) + 1 == shares &&
	    atomic_load(&p->caller_waits)) {
		(void)pthread_mutex_lock(&p->lock);
		(void)pthread_cond_signal(&p->finished);
		(void)pthread_mutex_unlock(&p->lock);
	}
	return true;
}

static void *
worker_main(void *arg)
{
	struct pool *p = arg;
	uint32_t seen = 0;
	unsigned i;

	while (!atomic_load(&p->quit)) {
		for (i = 0; i < SPINS &&
		    job_of(atomic_load(&p->ticket)) == seen; i++)
			relax();
		if (job_of(atomic_load(&p->ticket)) == seen) {
			(void)pthread_mutex_lock(&p->lock);
			atomic_fetch_add(&p->sleepers, 1);
			while (job_of(atomic_load(&p->ticket)) == seen)
				(void)pthread_cond_wait(&p->wake, &p->lock);
			atomic_fetch_sub(&p->sleepers, 1);
			(void)pthread_mutex_unlock(&p->lock);
		}
		seen = job_of(atomic_load(&p->ticket));
		while (work(p, seen))
			;
	}
	return NULL;
}

/* Begins the next job, of p->shares shares; returns its number. */
static uint32_t
post(struct pool *p)
{
	uint32_t job = job_of(atomic_load(&p->ticket)) + 1;

	atomic_store(&p->done, 0);
	atomic_store(&p->ticket, (uint64_t)job << 32 | p->shares);
	if (atomic_load(&p->sleepers) > 0) {
		(void)pthread_mutex_lock(&p->lock);
		(void)pthread_cond_broadcast(&p->wake);
		(void)pthread_mutex_unlock(&p->lock);
	}
	return job;
}

void
pool_run(struct pool *p, size_t n, size_t grain, pool_fn *fn, void *data)
{
	size_t grains = n / grain + (n % grain != 0), each;
	uint32_t job;
	unsigned i;

	if (p->started == 0 || grains <= 1) {
		if (n > 0)
			fn(data, 0, n);
		return;
	}
	each = (grains - 1) / MIN(grains, (size_t)p->n * SHARES) + 1;
	p->fn = fn;
	p->data = data;
	p->items = n;
	p->length = each * grain;
	p->shares = (unsigned)((n - 1) / p->length + 1);
	job = post(p);
	while (work(p, job))
		;
	for (i = 0; i < SPINS && atomic_load(&p->done) < p->shares; i++)
		relax();
	if (atomic_load(&p->done) < p->shares) {
		(void)pthread_mutex_lock(&p->lock);
		atomic_store(&p->caller_waits, true);
		while (atomic_load(&p->done) < p->shares)
			(void)pthread_cond_wait(&p->finished, &p->lock);
		atomic_store(&p->caller_waits, false);
		(void)pthread_mutex_unlock(&p->lock);
	}
}

struct pool *
pool_new(unsigned n, struct pico_err *err)
{
	pthread_attr_t attr;
	struct pool *p = mem_new(1, sizeof *p, "thread pool", err);
	unsigned i;
	int e = 0;

	if (p == NULL)
		return NULL;
	p->n = n;
	(void)pthread_mutex_init(&p->lock, NULL);
	(void)pthread_cond_init(&p->wake, NULL);
	(void)pthread_cond_init(&p->finished, NULL);
	p->worker = mem_new(n, sizeof *p->worker, "thread pool", err);
	if (p->worker == NULL) {
		pool_free(p);
		return NULL;
	}
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_SIZE);
	for (i = 0; i + 1 < n; i++) {
		e = pthread_create(&p->worker[i], &attr, worker_main, p);
		if (e != 0)
			break;
		p->started++;
	}
	(void)pthread_attr_destroy(&attr);
	if (e != 0) {
		(void)fail(err, "cannot start thread %u of %u: %s", i + 2, n,
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
		p->shares = 0;
		(void)post(p);
		for (i = 0; i < p->started; i++)
			(void)pthread_join(p->worker[i], NULL);
	}
	(void)pthread_cond_destroy(&p->wake);
	(void)pthread_cond_destroy(&p->finished);
	(void)pthread_mutex_destroy(&p->lock);
	free(p->worker);
	free(p);
}

unsigned
pool_n(const struct pool *p)
{
	return p->n;
}
