/* SPDX-License-Identifier: MIT */
/* The ground floor: errors, memory, numbers, files, threads. Private to lib/. */
#ifndef PICO_BASE_H
#define PICO_BASE_H

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>	/* before the poison below */
#include <string.h>

#include "../pico.h"

/* Functions whose misuse has cost other programs dearly. Fortified headers may
   have two of them as macros. */
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strcat sprintf vsprintf gets atoi atol atof strtok

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "pico reads little-endian files in place and needs such a machine"
#endif

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- errors (err.c) ---- */

/* Fills in *err (status PICO_ERROR) and returns -1. Control bytes in the
   message are escaped. Keeps the first of several errors. err may be NULL. */
int fail(struct pico_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with status PICO_USAGE. */
int fail_usage(struct pico_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with ": " and the text of errno. */
int fail_errno(struct pico_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* For %s: an escaped copy of at most 60 bytes of a string, in one of eight
   rotating buffers of this thread. */
const char *show(const char *p, size_t n);
static inline const char *show_str(struct pico_str s) { return show(s.p, s.n); }

/* ---- memory (mem.c) ---- */

/* False if the result does not fit. */
static inline bool mul_u64(uint64_t a, uint64_t b, uint64_t *r)
{
	return !__builtin_mul_overflow(a, b, r);
}
static inline bool add_u64(uint64_t a, uint64_t b, uint64_t *r)
{
	return !__builtin_add_overflow(a, b, r);
}

/* n * size zeroed bytes, or NULL and an error that names `what` and the bytes
   wanted. n * size = 0 gives a valid pointer. free() it. */
void *mem_new(uint64_t n, uint64_t size, const char *what,
    struct pico_err *err);
/* n zeroed bytes in pages of 2 MB, which take a tenth of the time that as many
   bytes in small ones do when they are touched first, but are then in memory as a
   whole. NULL where the system has none, or n is less than one. */
void *mem_huge(uint64_t n);
void mem_huge_free(void *p, uint64_t n);
/* Makes room for at least `need` elements in a growing array; keeps contents.
   Doubles, so that appending is linear. */
int mem_grow(void *arrayp, size_t *cap, size_t need, size_t size,
    const char *what, struct pico_err *err);

/* Asks for n bytes from p on to come to the caches; they need not be there. */
static inline void fetch_bytes(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i += 64)
		__builtin_prefetch((const char *)p + i);
}

/* ---- bytes in little-endian files, any alignment ---- */

static inline uint16_t get_u16(const void *p)
{
	uint16_t v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}
static inline uint32_t get_u32(const void *p)
{
	uint32_t v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}
static inline uint64_t get_u64(const void *p)
{
	uint64_t v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}
static inline float get_f32(const void *p)
{
	float v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}
static inline double get_f64(const void *p)
{
	double v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}

/* ---- floats (float.c) ---- */

/* IEEE binary16 to binary32, exact, subnormals too. */
float f16_to_f32(uint16_t h);
/* Nearest, ties to even; overflow gives infinity; NaN stays NaN. */
uint16_t f32_to_f16(float f);
static inline float bf16_to_f32(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;
	__builtin_memcpy(&f, &u, sizeof f);
	return f;
}

/* ---- elementary functions (math.c) ----
   Our own, so that every machine and C library gives the same bits. */

double m_exp(double x);		/* < 1 ulp */
/* Sum of m_exp(x[i] - max), in order. */
double m_exp_sum(const float *x, size_t n, double max);
/* exp() of each, in place. */
void m_exp_each(double *x, size_t n);
double m_log(double x);		/* < 1 ulp; x > 0 and finite, or 0: -inf */
double m_pow(double x, double y);	/* x > 0, both finite; 2 ulp while
					   |y log x| < 32, 32 ulp beyond */
void m_sincos(double x, double *s, double *c);	/* |x| < 2^30 */

/* ---- files (file.c) ---- */

/* Writes all n bytes, whatever write(2) says in between. */
int write_all(int fd, const char *name, const void *p, size_t n,
    struct pico_err *err);
/* Reads once, retrying EINTR: bytes read, 0 at the end, -1. */
int64_t read_some(int fd, const char *name, void *p, size_t n,
    struct pico_err *err);

/* A file's bytes, mapped read-only (or read, where it cannot be mapped). */
struct map {
	const uint8_t *p;
	uint64_t n;
	bool mapped;
	uint64_t identity;	/* of the file as it is now: device, number,
				   size and times */
	uint64_t version;	/* of what is in it: size and time */
	int fd;			/* stays open while mapped, for map_check() */
};
int map_open(struct map *m, const char *path, struct pico_err *err);
void map_close(struct map *m);
/* Fails if the file was written to since it was opened. */
int map_check(const struct map *m, const char *path, struct pico_err *err);
/* Whether that is the path of this file, too. */
bool map_is(const struct map *m, const char *path);

/* How mapped bytes will be read. */
enum map_advice {
	READ_NORMAL,
	READ_SINGLY,	/* here and there: a fault reads its page alone */
	READ_SOON,	/* begin to read them now */
	READ_DONE	/* they need not be resident any more */
};
void map_advise(const void *p, uint64_t n, enum map_advice advice);

/* A file to be read at places, past the page cache if the system can. */
#define FILE_ALIGN 4096
struct file {
	int fd;
	bool direct;		/* nothing is left in the page cache */
	const char *name;
};
/* `identity` as in struct map: the path must still name that file. */
int file_open(struct file *f, const char *path, uint64_t identity,
    struct pico_err *err);
void file_close(struct file *f);
/* Drops these bytes from the page cache, where no program has them mapped. */
void file_forget(const struct file *f, uint64_t at, uint64_t n);
/* Bytes at..at + n into buf, which is aligned to FILE_ALIGN and has room for
   2 * FILE_ALIGN more; returns where in it the first one is, or NULL. Threads
   may read at once. */
const uint8_t *file_read(const struct file *f, uint64_t at, size_t n,
    uint8_t *buf, struct pico_err *err);

/* Holds back the signals of this thread (newfile.c). */
void signals_hold(sigset_t *old);
void signals_release(const sigset_t *old);

/* A file that appears under its name when it is complete (newfile.c). Calls of
   one thread at a time; must not move while it is open. */
struct new_file {
	int fd;
	char *temp, *target;	/* target NULL: not open */
	struct new_file *next;
	char name[240];		/* for messages: "'m.gguf'" */
};
/* `what`: put before the name in messages, "" or "KV file ". */
int new_file_open(struct new_file *f, const char *path, const char *what,
    struct pico_err *err);
/* Puts it on the disk and closes it; it has no name yet. */
int new_file_sync(struct new_file *f, struct pico_err *err);
/* The same, unless it was done, and gives it its name. Close it then, too. */
int new_file_end(struct new_file *f, struct pico_err *err);
/* Removes it if it has no name yet. */
void new_file_close(struct new_file *f);

/* ---- machine (machine.c) ---- */

/* Memory that the limits of this process's cgroups and the machine leave. */
struct room {
	uint64_t left;		/* bytes; UINT64_MAX: not known */
	uint64_t held;		/* in use in the cgroup that leaves so few... */
	bool group;		/* ...if it is one, and not the machine */
};
/* root: "" but in tests, where it is put before /proc and /sys. */
struct room machine_memory(const char *root);
/* CPU quota in whole cores, rounded down, at least 1; 0 if there is none. */
unsigned machine_quota(const char *root);
/* Threads that make sense: processors this process may run on, siblings counted
   once, and no more than the quota. */
uint32_t machine_threads(const char *root);
/* If a cgroup leaves pico_memory() less than `need`: the limit with which that
   would be enough. Otherwise 0. */
uint64_t machine_limit(const char *root, uint64_t need);
/* Whether x86-64 has fused multiply-add and a system that saves the registers
   of vectors; false on other machines. */
bool machine_fma(void);
/* Whether the process may not have the stack that kernels need, by its limit. */
bool stack_is_small(void);

/* ---- checksums (hash.c) ---- */

/* Running 64-bit hash: FNV-1a over eight-byte words, then the rest. */
#define HASH_START 0xcbf29ce484222325u
uint64_t hash_bytes(uint64_t h, const void *p, size_t n);
/* Where in a table the search for a text begins, under a mask. */
uint32_t hash_text(uint64_t seed, const char *p, size_t n);
/*
 * And how many slots it takes at most, in a table that is half full at most and
 * searched slot by slot. Texts of real files need less than a hundred; those
 * made to fall together are refused before they take quadratic time.
 */
#define HASH_PROBES 256

/* ---- threads (pool.c) ---- */

struct pool;
/* n >= 1 threads in all, the caller's own among them. */
struct pool *pool_new(unsigned n, struct pico_err *err);
void pool_free(struct pool *p);
unsigned pool_n(const struct pool *p);
/* The parts into which a job is cut at first, one for each thread that has a core
   of its own. */
unsigned pool_parts(const struct pool *p);
/*
 * Calls fn(data, lo, hi) with ranges that cut 0..n into shares, all but the
 * last of them a multiple of `grain` long, on whatever threads are free. Which
 * thread computes what must not matter to the result.
 */
typedef void pool_fn(void *data, size_t lo, size_t hi);
void pool_run(struct pool *p, size_t n, size_t grain, pool_fn *fn, void *data);

#endif
