/* SPDX-License-Identifier: MIT */
/*
 * A disk with faults: pread() as a preloaded library. After $PRELOAD_FAIL bytes
 * reads fail with EIO; each takes $PRELOAD_DELAY microseconds longer. With
 * $PRELOAD_PLAIN the file system cannot read past the page cache.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

typedef ssize_t read_fn(int fd, void *buf, size_t n, off64_t at);

static ssize_t
faulty(const char *name, int fd, void *buf, size_t n, off64_t at)
{
	static atomic_llong total;
	const char *fail = getenv("PRELOAD_FAIL");
	const char *delay = getenv("PRELOAD_DELAY");
	long us = delay != NULL ? strtol(delay, NULL, 10) : 0;
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	if (getenv("PRELOAD_PLAIN") != NULL &&
	    (fcntl(fd, F_GETFL) & O_DIRECT)) {
		errno = EINVAL;
		return -1;
	}
	if (us > 0)
		(void)nanosleep(&t, NULL);
	if (fail != NULL && atomic_fetch_add(&total, (long long)n) +
	    (long long)n > strtoll(fail, NULL, 10)) {
		errno = EIO;
		return -1;
	}
	return ((read_fn *)dlsym(RTLD_NEXT, name))(fd, buf, n, at);
}

ssize_t
pread(int fd, void *buf, size_t n, off_t at)
{
	return faulty("pread", fd, buf, n, at);
}

ssize_t
pread64(int fd, void *buf, size_t n, off64_t at)
{
	return faulty("pread64", fd, buf, n, at);
}
