/* SPDX-License-Identifier: MIT */
/*
 * Files that are there as a whole or not at all: written under a temporary name
 * in the same directory and renamed when they are complete and on the disk.
 */
#define _XOPEN_SOURCE 700	/* realpath */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

/* Those that are not complete yet. Changed only while signals are held back. */
static struct new_file *volatile unfinished;

void
pico_remove_unfinished(void)
{
	struct new_file *f;

	for (f = unfinished; f != NULL; f = f->next)
		(void)unlink(f->temp);
}

void
signals_hold(sigset_t *old)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, old);
}

void
signals_release(const sigset_t *old)
{
	(void)pthread_sigmask(SIG_SETMASK, old, NULL);
}

static void
forget(const struct new_file *f)
{
	struct new_file *volatile *p;

	for (p = &unfinished; *p != NULL; p = &(*p)->next)
		if (*p == f) {
			*p = f->next;
			return;
		}
}

/* What is to be replaced: of a link what it points to; *mode is changed to its
   rights, if it is there. The caller frees. */
static char *
target_of(const char *path, const char *name, mode_t *mode,
    struct pico_err *err)
{
	char *real = realpath(path, NULL);
	struct stat st;

	if (real == NULL && errno == ENOENT)
		real = strdup(path);
	if (real == NULL) {
		(void)fail_errno(err, "cannot write %s", name);
	} else if (stat(real, &st) < 0) {
		;	/* there is none yet */
	} else if (S_ISREG(st.st_mode)) {
		*mode = st.st_mode & 0777;
	} else {
		(void)fail(err, "%s is not a regular file", name);
		free(real);
		real = NULL;
	}
	return real;
}

int
new_file_open(struct new_file *f, const char *path, const char *what,
    struct pico_err *err)
{
	size_t n = strlen(path);
	sigset_t old;
	mode_t mask = umask(0), mode = 0666 & ~mask;

	(void)umask(mask);
	*f = (struct new_file){ .fd = -1 };
	(void)snprintf(f->name, sizeof f->name, "%s'%s%s'", what,
	    n > 200 ? "..." : "", n > 200 ? path + n - 200 : path);
	if (strcmp(path, "-") == 0)
		return fail(err, "cannot write %s: it is no stream; './-' is "
		    "a file", f->name);
	f->target = target_of(path, f->name, &mode, err);
	if (f->target == NULL)
		return -1;
	n = strlen(f->target) + sizeof ".XXXXXX";
	f->temp = mem_new(n, 1, "file name", err);
	if (f->temp == NULL)
		goto bad;
	(void)snprintf(f->temp, n, "%s.XXXXXX", f->target);
	signals_hold(&old);
	f->fd = mkstemp(f->temp);
	if (f->fd >= 0) {
		f->next = unfinished;
		unfinished = f;
	}
	signals_release(&old);
	if (f->fd < 0) {
		(void)fail_errno(err, "cannot write %s", f->name);
		goto bad;
	}
	(void)fchmod(f->fd, mode);	/* mkstemp gives 0600 */
	(void)fcntl(f->fd, F_SETFD, FD_CLOEXEC);
	return 0;
bad:
	free(f->target);
	free(f->temp);
	f->target = f->temp = NULL;
	return -1;
}

int
new_file_sync(struct new_file *f, struct pico_err *err)
{
	int fd = f->fd, r;

	if (fd < 0)
		return 0;
	while ((r = fsync(fd)) < 0 && errno == EINTR)
		;
	if (r < 0)
		return fail_errno(err, "write error on %s", f->name);
	f->fd = -1;
	/* interrupted, it is closed nevertheless, and all is on the disk */
	if (close(fd) < 0 && errno != EINTR)
		return fail_errno(err, "write error on %s", f->name);
	return 0;
}

/* Makes the new name last through a crash of the machine, where possible. */
static void
sync_dir(char *path)
{
	char *slash = strrchr(path, '/');
	int fd;

	if (slash != NULL)
		slash[slash == path] = '\0';
	fd = open(slash != NULL ? path : ".", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)fsync(fd);
		(void)close(fd);
	}
}

int
new_file_end(struct new_file *f, struct pico_err *err)
{
	sigset_t old;
	int r;

	if (new_file_sync(f, err) < 0)
		return -1;
	signals_hold(&old);
	r = rename(f->temp, f->target);
	if (r == 0) {
		forget(f);
		free(f->temp);
		f->temp = NULL;
	}
	signals_release(&old);
	if (r < 0)
		return fail_errno(err, "cannot write %s", f->name);
	sync_dir(f->target);
	return 0;
}

void
new_file_close(struct new_file *f)
{
	sigset_t old;

	if (f->target == NULL)
		return;
	if (f->fd >= 0)
		(void)close(f->fd);
	if (f->temp != NULL) {
		signals_hold(&old);
		(void)unlink(f->temp);
		forget(f);
		signals_release(&old);
	}
	free(f->temp);
	free(f->target);
	*f = (struct new_file){ .fd = -1 };
}
