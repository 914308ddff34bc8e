/* SPDX-License-Identifier: MIT */
/* Reading, writing and mapping. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

/* A descriptor may have been set to non-blocking by a stranger. */
static bool
wait_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

int
write_all(int fd, const char *name, const void *p, size_t n,
    struct pico_err *err)
{
	const char *b = p;
	ssize_t k;

	while (n > 0) {
		k = write(fd, b, n);
		if (k > 0) {
			b += k;
			n -= (size_t)k;
		} else if (k == 0 || errno == EINTR ||
		    (errno == EAGAIN && wait_ready(fd, POLLOUT))) {
			continue;
		} else {
			return fail_errno(err, "write error on %s", name);
		}
	}
	return 0;
}

int64_t
read_some(int fd, const char *name, void *p, size_t n, struct pico_err *err)
{
	ssize_t k;

	do
		k = read(fd, p, n);
	while (k < 0 && (errno == EINTR ||
	    (errno == EAGAIN && wait_ready(fd, POLLIN))));
	if (k < 0)
		return fail_errno(err, "read error on %s", name);
	return k;
}

int
map_open(struct map *m, const char *path, struct pico_err *err)
{
	struct stat st;
	void *p = NULL;
	int fd;

	*m = (struct map){0};
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(err, "cannot open '%s'", path);
	if (fstat(fd, &st) < 0) {
		(void)fail_errno(err, "cannot examine '%s'", path);
		goto bad;
	}
	if (S_ISDIR(st.st_mode)) {
		(void)fail(err, "'%s' is a directory", path);
		goto bad;
	}
	if (!S_ISREG(st.st_mode)) {
		(void)fail(err, "'%s' is not a regular file and cannot be "
		    "mapped", path);
		goto bad;
	}
	if ((uint64_t)st.st_size > PTRDIFF_MAX) {
		(void)fail(err, "'%s' has %" PRId64 " bytes: larger than this "
		    "build can map", path, (int64_t)st.st_size);
		goto bad;
	}
	m->n = (uint64_t)st.st_size;
	m->identity = hash_bytes(HASH_START, (uint64_t[]){
	    (uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size,
	    (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec,
	    (uint64_t)st.st_ctim.tv_sec, (uint64_t)st.st_ctim.tv_nsec,
	    }, 7 * sizeof(uint64_t));
	if (m->n > 0) {
		p = mmap(NULL, (size_t)m->n, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED) {
			(void)fail_errno(err, "cannot map '%s' (%" PRIu64
			    " bytes)", path, m->n);
			goto bad;
		}
		m->mapped = true;
	}
	m->p = p;
	(void)close(fd);
	return 0;
bad:
	(void)close(fd);
	return -1;
}

void
map_close(struct map *m)
{
	if (m->mapped)
		(void)munmap((void *)(uintptr_t)m->p, (size_t)m->n);
	*m = (struct map){0};
}
