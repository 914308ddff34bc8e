/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads, made once. pool_run() hands out a job and waits for its
 * end. Waiting spins briefly, since the next job of a forward pass comes within
 * microseconds, and then sleeps, so that a busy neighbour gets the core.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

/* musl's default of 128 KiB is little; kernels keep small tiles on the stack */
#define STACK_SIZE (1 << 20)
#define SPINS 2000

struct pool {
	unsigned n;		/* threads, the caller's included */
	unsigned started;	/* really running, besides the caller's */
	atomic_uint job;	/* counts jobs up */
	atomic_uint left;	/* workers still busy with this job */
	atomic_uint sleepers;
	atomic_bool quit, caller_waits;
	pool_fn *fn;
	void *data;
	size_t items, grain;
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	struct worker {
		struct pool *pool;
		unsigned index;
		pthread_t thread;
	} *worker;
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

/* The part of thread t: ranges of whole grains, as even as they can be. */
static void
work(struct pool *p, unsigned t)
{
	size_t grains = p->items / p->grain + (p->items % p->grain != 0);
	size_t lo = grains / p->n * t + MIN(t, grains % p->n);
	size_t hi = lo + grains / p->n + (t < grains % p->n);

	lo = MIN(lo * p->grain, p->items);
	hi = MIN(hi * p->grain, p->items);
	if (lo < hi)
		p->fn(p->data, lo, hi, t);
}

static void *
worker_main(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->pool;
	unsigned seen = 0, i;

	for (;;) {
		for (i = 0; i < SPINS &&
		    atomic_load_explicit(&p->job, memory_order_acquire) == seen;
		    i++)
			relax();
		if (atomic_load(&p->job) == seen) {
			(void)pthread_mutex_lock(&p->lock);
			atomic_fetch_add(&p->sleepers, 1);
			while (atomic_load(&p->job) == seen)
				(void)pthread_cond_wait(&p->wake, &p->lock);
			atomic_fetch_sub(&p->sleepers, 1);
			(void)pthread_mutex_unlock(&p->lock);
		}
		seen++;
		if (atomic_load(&p->quit))
			return NULL;
		work(p, w->index);
		if (atomic_fetch_sub(&p->left, 1) == 1 &&
		    atomic_load(&p->caller_waits)) {
			(void)pthread_mutex_lock(&p->lock);
			(void)pthread_cond_signal(&p->done);
			(void)pthread_mutex_unlock(&p->lock);
		}
	}
}

/* Starts job number p->job + 1 on all workers. */
static void
post(struct pool *p)
{
	atomic_store(&p->left, p->started);
	atomic_fetch_add(&p->job, 1);
	if (atomic_load(&p->sleepers) > 0) {
		(void)pthread_mutex_lock(&p->lock);
		(void)pthread_cond_broadcast(&p->wake);
		(void)pthread_mutex_unlock(&p->lock);
	}
}

void
pool_run(struct pool *p, size_t n, size_t grain, pool_fn *fn, void *data)
{
	unsigned i;

	if (p->started == 0 || n <= grain) {
		if (n > 0)
			fn(data, 0, n, 0);
		return;
	}
	p->fn = fn;
	p->data = data;
	p->items = n;
	p->grain = grain;
	post(p);
	work(p, 0);
	for (i = 0; i < SPINS &&
	    atomic_load_explicit(&p->left, memory_order_acquire) > 0; i++)
		relax();
	if (atomic_load(&p->left) > 0) {
		(void)pthread_mutex_lock(&p->lock);
		atomic_store(&p->caller_waits, true);
		while (atomic_load(&p->left) > 0)
			(void)pthread_cond_wait(&p->done, &p->lock);
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
	(void)pthread_cond_init(&p->done, NULL);
	p->worker = mem_new(n, sizeof *p->worker, "thread pool", err);
	if (p->worker == NULL) {
		pool_free(p);
		return NULL;
	}
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_SIZE);
	for (i = 0; i + 1 < n; i++) {
		p->worker[i] = (struct worker){ .pool = p, .index = i + 1 };
		e = pthread_create(&p->worker[i].thread, &attr, worker_main,
		    &p->worker[i]);
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
		post(p);
		for (i = 0; i < p->started; i++)
			(void)pthread_join(p->worker[i].thread, NULL);
	}
	(void)pthread_cond_destroy(&p->wake);
	(void)pthread_cond_destroy(&p->done);
	(void)pthread_mutex_destroy(&p->lock);
	free(p->worker);
	free(p);
}

unsigned
pool_n(const struct pool *p)
{
	return p->n;
}
