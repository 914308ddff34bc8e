/* SPDX-License-Identifier: MIT */
/* Reading, writing and mapping. */
#ifdef __linux__
#define _GNU_SOURCE	/* O_DIRECT */
#endif
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

/* Changes when the file does, and when it is copied. */
static uint64_t
identity(const struct stat *st)
{
	return hash_bytes(HASH_START, (uint64_t[]){
	    (uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
	    (uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec,
	    (uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec,
	    }, 7 * sizeof(uint64_t));
}

/* Changes when what is in the file does; not when it is renamed or removed,
   which those who have it open need not care about. */
static uint64_t
version(const struct stat *st)
{
	return hash_bytes(HASH_START, (uint64_t[]){ (uint64_t)st->st_size,
	    (uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec,
	    }, 3 * sizeof(uint64_t));
}

int
map_open(struct map *m, const char *path, struct pico_err *err)
{
	struct stat st = {0};
	void *p = NULL;
	int fd;

	*m = (struct map){0};
	/* a FIFO is refused at once, not when someone writes to it */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
	m->identity = identity(&st);
	m->version = version(&st);
	if (m->n > 0) {
		p = mmap(NULL, (size_t)m->n, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED) {
			(void)fail_errno(err, "cannot map '%s' (%" PRIu64
			    " bytes)", path, m->n);
			goto bad;
		}
		m->mapped = true;
		m->fd = fd;
	} else {
		(void)close(fd);
	}
	m->p = p;
	return 0;
bad:
	(void)close(fd);
	return -1;
}

void
map_close(struct map *m)
{
	if (m->mapped) {
		(void)munmap((void *)(uintptr_t)m->p, (size_t)m->n);
		(void)close(m->fd);
	}
	*m = (struct map){0};
}

bool
map_is(const struct map *m, const char *path)
{
	struct stat a, b;

	return m->mapped && fstat(m->fd, &a) == 0 && stat(path, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int
map_check(const struct map *m, const char *path, struct pico_err *err)
{
	struct stat st = {0};

	if (!m->mapped)
		return 0;
	if (fstat(m->fd, &st) < 0)
		return fail_errno(err, "cannot examine '%s'", path);
	if ((uint64_t)st.st_size != m->n)
		return fail(err, "'%s' was changed while in use: it had %"
		    PRIu64 " bytes, has %" PRId64, path, m->n,
		    (int64_t)st.st_size);
	if (version(&st) != m->version)
		return fail(err, "'%s' was changed while in use: it has the "
		    "same size and another time of modification", path);
	return 0;
}

void
map_advise(const void *p, uint64_t n, enum map_advice advice)
{
	static const int flag[] = {
		[READ_NORMAL] = POSIX_MADV_NORMAL,
		[READ_SINGLY] = POSIX_MADV_RANDOM,
		[READ_SOON] = POSIX_MADV_WILLNEED,
		[READ_DONE] = POSIX_MADV_DONTNEED,
	};
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = (uintptr_t)p & ~(page - 1);

#ifdef MADV_DONTNEED	/* the C library's own does nothing then */
	if (advice == READ_DONE) {
		(void)madvise((void *)at, (size_t)n + ((uintptr_t)p - at),
		    MADV_DONTNEED);
		return;
	}
#endif
	(void)posix_madvise((void *)at, (size_t)n + ((uintptr_t)p - at),
	    flag[advice]);
}

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

/* Not every system that calls itself POSIX has it. */
#ifdef POSIX_FADV_RANDOM
static void
fadvise(int fd, uint64_t at, uint64_t n, int advice)
{
	(void)posix_fadvise(fd, (off_t)at, (off_t)n, advice);
}
#else
#define fadvise(fd, at, n, advice) ((void)(fd), (void)(at), (void)(n))
#endif

int
file_open(struct file *f, const char *path, uint64_t id, struct pico_err *err)
{
	struct stat st = {0};
	void *block;
	int flags;

	*f = (struct file){ .fd = -1, .name = path };
	if (posix_memalign(&block, FILE_ALIGN, FILE_ALIGN) != 0)
		return fail(err, "no memory for %d bytes", FILE_ALIGN);
	/* not every file system can; some tell only when it is tried */
	for (flags = O_DIRECT; ; flags = 0) {
		f->fd = open(path, O_RDONLY | O_CLOEXEC | flags);
		if (flags == 0 || (f->fd >= 0 &&
		    pread(f->fd, block, FILE_ALIGN, 0) >= 0))
			break;
		file_close(f);
	}
	free(block);
	f->direct = flags != 0;
	if (f->fd < 0)
		return fail_errno(err, "cannot open '%s'", path);
	if (!f->direct)
		fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
	if (fstat(f->fd, &st) == 0 && identity(&st) == id)
		return 0;
	file_close(f);
	return fail(err, "'%s' was changed while in use", path);
}

void
file_close(struct file *f)
{
	if (f->fd >= 0)
		(void)close(f->fd);
	f->fd = -1;
}

void
file_forget(const struct file *f, uint64_t at, uint64_t n)
{
	fadvise(f->fd, at, n, POSIX_FADV_DONTNEED);
}

const uint8_t *
file_read(const struct file *f, uint64_t at, size_t n, uint8_t *buf,
    struct pico_err *err)
{
	uint64_t start = at & ~(uint64_t)(FILE_ALIGN - 1);
	size_t before = (size_t)(at - start), want = before + n, got = 0;
	size_t whole = (want + FILE_ALIGN - 1) & ~(size_t)(FILE_ALIGN - 1);
	ssize_t k;

	while (got < want) {
		k = pread(f->fd, buf + got, whole - got,
		    (off_t)(start + got));
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0) {
			(void)fail_errno(err, "read error on '%s' at byte %"
			    PRIu64, f->name, start + got);
			return NULL;
		}
		got += (size_t)k;
		/* a piece in the middle must go on at a whole block */
		if (got < want && k > 0 && got % FILE_ALIGN == 0)
			continue;
		if (got < want) {
			(void)fail(err, "'%s' was cut short while in use: "
			    "bytes up to %" PRIu64 " are needed, it ends at %"
			    PRIu64, f->name, at + n, start + got);
			return NULL;
		}
	}
	if (!f->direct)
		file_forget(f, start, whole);
	return buf + before;
}
