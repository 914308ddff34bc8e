/* SPDX-License-Identifier: MIT */
/*
 * A system with faults, as a preloaded library.
 *
 * $PRELOAD_CALL=KIND, $PRELOAD_NTH=N: the N-th call of a kind fails, with the
 * number $PRELOAD_ERRNO (or ENOMEM); the kinds are those of `kinds` below. A byte
 * is written to the file $PRELOAD_TOLD when it does, so that a test can count up
 * until there is no N-th call.
 * $PRELOAD_SHORT=K: read(), pread() and write() move K bytes at most, and every
 * second call is interrupted instead.
 * $PRELOAD_NO=PREFIX: no file can be opened whose name begins so.
 * $PRELOAD_FAIL=N: after N bytes pread() fails with EIO; $PRELOAD_DELAY=US: each
 * takes so many microseconds longer; $PRELOAD_PLAIN: the file system cannot
 * read past the page cache.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum kind { ALLOC, MMAP, THREAD, READ, WRITE, OPEN, TEMP, SYNC, CLOSE, RENAME,
    STAT };
static const char *const kinds[] = { "alloc", "mmap", "thread", "read", "write",
    "open", "temp", "sync", "close", "rename", "stat" };

static long
number(const char *name)
{
	const char *s = getenv(name);

	return s != NULL ? strtol(s, NULL, 10) : 0;
}

static int told = -1;

/* Early: later the program may have given up the right to make files. High: a
   test may care which descriptors are closed. */
__attribute__((constructor)) static void
open_told(void)
{
	const char *path = getenv("PRELOAD_TOLD");
	int fd;

	if (path == NULL)
		return;
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT |
	    O_TRUNC | O_CLOEXEC, 0600);
	told = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	(void)syscall(SYS_close, fd);
}

/* Whether this call is the one that fails; errno is set then. */
static bool
fails(enum kind kind)
{
	static atomic_long calls;
	const char *call = getenv("PRELOAD_CALL");
	long e;

	if (call == NULL || strcmp(call, kinds[kind]) != 0 ||
	    atomic_fetch_add(&calls, 1) + 1 != number("PRELOAD_NTH"))
		return false;
	if (told >= 0)
		(void)syscall(SYS_write, told, "!", 1);
	e = number("PRELOAD_ERRNO");
	errno = e > 0 ? (int)e : ENOMEM;
	return true;
}

/* How many of n bytes a call moves; 0: it is interrupted. */
static size_t
some(size_t n)
{
	static atomic_long calls;
	size_t most = (size_t)number("PRELOAD_SHORT");

	if (most == 0 || n == 0)
		return n;
	if (atomic_fetch_add(&calls, 1) % 2 == 0) {
		errno = EINTR;
		return 0;
	}
	return n < most ? n : most;
}

/* ---- memory ---- */

#ifdef __GLIBC__	/* dlsym() may itself want memory */
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t),
    *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

void *
malloc(size_t n)
{
	return fails(ALLOC) ? NULL : __libc_malloc(n);
}

void *
calloc(size_t n, size_t size)
{
	return fails(ALLOC) ? NULL : __libc_calloc(n, size);
}

void *
realloc(void *p, size_t n)
{
	return fails(ALLOC) ? NULL : __libc_realloc(p, n);
}

int
posix_memalign(void **p, size_t align, size_t n)
{
	if (fails(ALLOC))
		return ENOMEM;
	*p = __libc_memalign(align, n);
	return *p == NULL ? ENOMEM : 0;
}
#endif

void *
mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	return fails(MMAP) ? MAP_FAILED : REAL(mmap)(at, n, prot, flags, fd,
	    off);
}

int
pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
    void *arg)
{
	return fails(THREAD) ? errno : REAL(pthread_create)(t, attr, fn, arg);
}

/* ---- files ---- */

ssize_t
read(int fd, void *buf, size_t n)
{
	size_t k = some(n);

	return fails(READ) || (k == 0 && n > 0) ? -1 :
	    REAL(read)(fd, buf, k);
}

ssize_t
write(int fd, const void *buf, size_t n)
{
	size_t k = some(n);

	return fails(WRITE) || (k == 0 && n > 0) ? -1 :
	    REAL(write)(fd, buf, k);
}

/* How many of n bytes a pread() moves; -1: it fails. */
static ssize_t
faulty(int fd, size_t n)
{
	static atomic_llong total;
	const char *fail = getenv("PRELOAD_FAIL");
	long us = number("PRELOAD_DELAY");
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };
	bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
	/* past the page cache only whole blocks can be read */
	size_t k = direct ? n : some(n);

	if (getenv("PRELOAD_PLAIN") != NULL && direct) {
		errno = EINVAL;
		return -1;
	}
	if (us > 0)
		(void)nanosleep(&t, NULL);
	if (fails(READ) || (k == 0 && n > 0))
		return -1;
	if (fail != NULL && atomic_fetch_add(&total, (long long)n) +
	    (long long)n > strtoll(fail, NULL, 10)) {
		errno = EIO;
		return -1;
	}
	return (ssize_t)k;
}

ssize_t
pread(int fd, void *buf, size_t n, off_t at)
{
	ssize_t k = faulty(fd, n);

	return k < 0 ? -1 : REAL(pread)(fd, buf, (size_t)k, at);
}

/* Whether a file is hidden; errno is set then. */
static bool
hidden(const char *path)
{
	const char *prefix = getenv("PRELOAD_NO");

	if (prefix == NULL || strncmp(path, prefix, strlen(prefix)) != 0)
		return false;
	errno = ENOENT;
	return true;
}

static mode_t
mode_of(int flags, va_list ap)
{
	return flags & O_CREAT ? (mode_t)va_arg(ap, int) : 0;
}

int
open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return hidden(path) || fails(OPEN) ? -1 : REAL(open)(path, flags, mode);
}

FILE *
fopen(const char *path, const char *mode)
{
	return hidden(path) || fails(OPEN) ? NULL : REAL(fopen)(path, mode);
}

int
mkstemp(char *name)
{
	return fails(TEMP) ? -1 : REAL(mkstemp)(name);
}

int
fsync(int fd)
{
	return fails(SYNC) ? -1 : REAL(fsync)(fd);
}

int
close(int fd)
{
	int r = REAL(close)(fd);

	return fails(CLOSE) ? -1 : r;
}

int
rename(const char *from, const char *to)
{
	return fails(RENAME) ? -1 : REAL(rename)(from, to);
}

int
fstat(int fd, struct stat *st)
{
	return fails(STAT) ? -1 : REAL(fstat)(fd, st);
}

/* ---- other names of the same ---- */

#ifdef __GLIBC__
void *
mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t off)
{
	return fails(MMAP) ? MAP_FAILED : REAL(mmap64)(at, n, prot, flags, fd,
	    off);
}

ssize_t
pread64(int fd, void *buf, size_t n, off64_t at)
{
	ssize_t k = faulty(fd, n);

	return k < 0 ? -1 : REAL(pread64)(fd, buf, (size_t)k, at);
}

int
open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return hidden(path) || fails(OPEN) ? -1 :
	    REAL(open64)(path, flags, mode);
}

FILE *
fopen64(const char *path, const char *mode)
{
	return hidden(path) || fails(OPEN) ? NULL : REAL(fopen64)(path, mode);
}

int
mkstemp64(char *name)
{
	return fails(TEMP) ? -1 : REAL(mkstemp64)(name);
}

int
fstat64(int fd, struct stat64 *st)
{
	return fails(STAT) ? -1 : REAL(fstat64)(fd, st);
}
#endif
