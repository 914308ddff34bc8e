/* SPDX-License-Identifier: MIT */
/* What a confined process can still do, and what it cannot. */
#define _DEFAULT_SOURCE	/* MAP_ANONYMOUS */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lib/base/base.h"

static int n_run, n_failed;

static void
check(bool ok, const char *what)
{
	n_run++;
	n_failed += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", n_run, what);
}

/* A call that was refused, not one that failed for another reason. */
#define REFUSED(call) (errno = 0, (call) == -1 && errno == EPERM)

static bool
can_write(const char *path, int flags)
{
	int fd = open(path, flags, 0600);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

static void
mark(void *data, size_t lo, size_t hi)
{
	for (; lo < hi; lo++)
		((char *)data)[lo] = 1;
}

static void
test_use(void)
{
	static char seen[1000];
	struct map m;
	struct pool *p = pool_new(3, NULL);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	void *room = malloc(8 << 20);

	check(fd >= 0 && close(fd) == 0, "opens a file");
	check(map_open(&m, "tests/unit/test_confine.c", NULL) == 0, "maps it");
	map_close(&m);
	check(p != NULL, "starts threads");
	if (p != NULL)
		pool_run(p, sizeof seen, 1, mark, seen);
	check(memchr(seen, 0, sizeof seen) == NULL, "which compute");
	pool_free(p);
	check(room != NULL, "gets memory");
	free(room);
}

static void
test_refused(const char *dir)
{
	char *const args[] = { (char *)"true", NULL };
	pid_t pid;

	check(REFUSED(execv("/bin/true", args)), "no other program");
	errno = 0;
	pid = fork();
	if (pid == 0)
		_exit(0);
	check(pid == -1 && errno == EPERM, "no other process");
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	check(REFUSED(socket(AF_INET, SOCK_STREAM, 0)), "no network");
	check(REFUSED(socket(AF_UNIX, SOCK_STREAM, 0)), "no local one");
	check(REFUSED(ptrace(PTRACE_TRACEME, 0, NULL, NULL)), "no tracing");
	/* musl tells ENOMEM */
	check(mmap(NULL, 4096, PROT_READ | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED,
	    "no code that was data");
#ifdef TIOCSTI
	check(REFUSED(ioctl(0, TIOCSTI, "x")), "no typing at the terminal");
#endif
	check(chdir(dir) == 0, "goes elsewhere");
}

/* Files there are: old. */
static void
test_files(bool writes)
{
	if (writes) {
		check(can_write("new", O_RDWR | O_CREAT | O_EXCL) &&
		    rename("new", "renamed") == 0 && unlink("renamed") == 0,
		    "makes, renames and removes a file, if wanted");
		return;
	}
	check(REFUSED(open("new", O_RDWR | O_CREAT | O_EXCL, 0600)),
	    "no new file");
	check(REFUSED(open("old", O_WRONLY)), "no old one for writing");
	check(REFUSED(open("old", O_RDONLY | O_TRUNC)), "none cut");
	check(REFUSED(truncate("old", 0)), "nor by name");
	check(REFUSED(rename("old", "new")), "none renamed");
	check(REFUSED(unlink("old")), "none removed");
	check(REFUSED(link("old", "new")), "no link");
	check(REFUSED(symlink("old", "new")), "no symbolic link");
	check(REFUSED(mkdir("new", 0700)), "no directory");
	check(REFUSED(chmod("old", 0777)), "no mode changed");
}

/* In a process of its own, since there is no way back. */
static bool
confined(bool writes, const char *dir)
{
	int status, old = n_run;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (!pico_confine(writes))
			_exit(100);
		test_use();
		test_refused(dir);
		test_files(writes);
		(void)fflush(stdout);
		_exit(n_failed > 0 ? 99 : n_run - old);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid ||
	    !WIFEXITED(status)) {
		check(false, "ends by itself");
		return true;
	}
	if (WEXITSTATUS(status) == 100)
		return false;
	n_run += WEXITSTATUS(status);
	n_failed += WEXITSTATUS(status) == 99;
	return true;
}

int
main(void)
{
	char dir[] = "/tmp/pico-confine.XXXXXX", old[sizeof dir + 4];

	if (mkdtemp(dir) == NULL)
		abort();
	(void)snprintf(old, sizeof old, "%s/old", dir);
	if (!can_write(old, O_WRONLY | O_CREAT))
		abort();
	if (!confined(false, dir)) {
		n_run++;
		printf("ok %d - confined # skip not on this system\n", n_run);
	} else {
		(void)confined(true, dir);
	}
	(void)unlink(old);
	(void)rmdir(dir);
	printf("1..%d\n", n_run);
	return n_failed != 0;
}
