/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PICO_DATADIR
#define PICO_DATADIR "/usr/local/share/pico"
#endif

bool cmd_quiet, cmd_help, cmd_version, cmd_no_sandbox;
struct pico_tokens_out *cmd_out;
struct pico_logits_out *cmd_rows;

static const char *name = "pico";

/* A closed standard descriptor must not become somebody's file: occupy it with
   something whose use fails. */
static void
guard_descriptors(void)
{
	int fd, got;

	for (fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) != -1 || errno != EBADF)
			continue;
		got = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
		if (got < 0)
			got = open("/", O_RDONLY);	/* is there always */
		if (got >= 0 && got != fd)
			(void)close(got);
	}
}

/* What was set to non-blocking, by whoever has it, too, would be an error of
   stdio as soon as the reader is slow. */
static void
block_on_output(void)
{
	for (int fd = 1; fd <= 2; fd++) {
		int flags = fcntl(fd, F_GETFL);

		if (flags != -1 && (flags & O_NONBLOCK) != 0)
			(void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	}
}

int
cmd_start(const struct cmd *c, const struct pico_opt *table, int argc,
    char **argv)
{
	struct pico_err err = {0};
	int first;

	name = c->name;
	guard_descriptors();
	block_on_output();
	/* a limit on the size of files is an error of write(2), and told */
	(void)signal(SIGXFSZ, SIG_IGN);
	first = pico_options(table, argc, argv, &err);
	if (first < 0)
		cmd_die(&err);
	if (cmd_help) {
		(void)printf("usage: %s %s\n%s\n\n", c->name, c->synopsis,
		    c->about);
		pico_options_help(table, stdout);
		exit(cmd_finish(0));
	}
	if (cmd_version) {
		(void)printf("%s (pico) %s\n", c->name, PICO_VERSION);
		exit(cmd_finish(0));
	}
	return first;
}

void
cmd_confine(bool writes)
{
	if (!cmd_no_sandbox)
		(void)pico_confine(writes);
}

/* Writes what is made and waits for its turn. */
static void
write_waiting(void)
{
	if (cmd_out != NULL && cmd_out->n > 0)
		(void)pico_tokens_flush(cmd_out, NULL);
	if (cmd_rows != NULL && cmd_rows->n > 0)
		(void)pico_logits_flush(cmd_rows, NULL);
}

/* Messages hold names of files, and those may hold anything: what is no
   character for a terminal is shown as '?', as in messages of the library. */
static void
say(const char *msg)
{
	char line[500];
	size_t i;

	(void)snprintf(line, sizeof line, "%s", msg);
	for (i = 0; line[i] != '\0'; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	cmd_progress_end();
	write_waiting();
	(void)fflush(stdout);	/* keep the order where both are one file */
	(void)fprintf(stderr, "%s: %s\n", name, line);
}

void
cmd_report(const struct pico_err *err)
{
	say(err->msg);
}

void
cmd_die(const struct pico_err *err)
{
	say(err->msg);
	exit(err->status != PICO_OK ? err->status : PICO_ERROR);
}

void
cmd_die_in(const char *path, const struct pico_err *err)
{
	struct pico_err whole = { .status = err->status };
	size_t n = strlen(path);

	/* of a very long path the end, which tells more */
	(void)snprintf(whole.msg, sizeof whole.msg, "'%s%s': %.350s",
	    n > 120 ? "..." : "", n > 120 ? path + n - 120 : path, err->msg);
	cmd_die(&whole);
}

void
cmd_fail(const char *fmt, ...)
{
	char msg[500];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	say(msg);
	exit(PICO_ERROR);
}

void
cmd_usage(const char *fmt, ...)
{
	char msg[500];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	say(msg);
	exit(PICO_USAGE);
}

void
cmd_warn(const char *fmt, ...)
{
	char msg[500];
	va_list ap;

	if (cmd_quiet)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	say(msg);
}

void
cmd_flush(void)
{
	bool failed = ferror(stdout);	/* just now: errno still tells why */

	if (!failed)
		errno = 0;
	if (failed || fflush(stdout) != 0)
		cmd_fail("write error on standard output: %s",
		    strerror(errno != 0 ? errno : EIO));
}

void
cmd_no_terminal(const char *what)
{
	if (isatty(STDOUT_FILENO))
		cmd_usage("%s does not go to a terminal", what);
}

int
cmd_finish(int status)
{
	cmd_progress_end();
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		(void)fprintf(stderr, "%s: write error on standard output: "
		    "%s\n", name, strerror(errno != 0 ? errno : EIO));
		return status == 0 ? PICO_ERROR : status;
	}
	return status;
}

void *
cmd_alloc(size_t n, size_t size)
{
	void *p = calloc(n > 0 ? n : 1, size > 0 ? size : 1);

	if (p == NULL)
		cmd_fail("no memory for %zu times %zu bytes", n, size);
	return p;
}

/* What is said when a page of a mapped file cannot be had. */
static char lost[400];

/* Nothing can be repaired here, and little be called. What waits to be written
   was put there whole, and not while somebody reads the file. */
static void
on_bus_error(int sig, siginfo_t *info, void *context)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	(void)context;
	if (info->si_code != BUS_ADRERR) {
		/* a fault of our own: happens again, and is fatal then */
		(void)signal(sig, SIG_DFL);
		return;
	}
	/* several threads may come to the same end */
	while (atomic_flag_test_and_set(&told))
		(void)pause();
	pico_remove_unfinished();
	write_waiting();
	(void)!write(STDERR_FILENO, lost, strlen(lost));
	_exit(PICO_ERROR);
}

void
cmd_will_map(const char *path)
{
	struct sigaction sa = { .sa_sigaction = on_bus_error,
	    .sa_flags = SA_SIGINFO };
	char shown[250];

	(void)pico_escape(shown, sizeof shown, path, strlen(path));
	(void)snprintf(lost, sizeof lost, "%s: '%s' was cut short while in "
	    "use, or cannot be read from its disk\n", name, shown);
	(void)sigemptyset(&sa.sa_mask);
	(void)sigaction(SIGBUS, &sa, NULL);
}

bool
cmd_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
	    x.st_ino == y.st_ino;
}

void
cmd_keep_apart(const struct pico_gguf *g, const char *out)
{
	int s;

	for (s = 0; s < pico_gguf_n_shards(g); s++)
		if (cmd_same_file(pico_gguf_info(g, s).path, out))
			cmd_usage("'%s' is the input and the output", out);
}

uint64_t
cmd_model_size(const struct pico_gguf *g)
{
	struct pico_gguf_info info;
	const struct pico_tensor *t;
	uint64_t size = 0, end = 0;
	size_t i;
	int s;

	for (s = 0; s < pico_gguf_n_shards(g); s++) {
		info = pico_gguf_info(g, s);
		size += info.file_size;
	}
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		t = pico_gguf_tensor(g, i);
		if (t->data != NULL)
			return size;
		end = t->offset + t->bytes > end ? t->offset + t->bytes : end;
	}
	info = pico_gguf_info(g, 0);
	return info.data_offset > 0 ? info.data_offset + end : size;
}

/* Dies of the same signal. */
static void
on_end(int sig)
{
	pico_remove_unfinished();
	(void)signal(sig, SIG_DFL);
	(void)raise(sig);
}

void
cmd_will_write(void)
{
	static const int ends[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE,
	    SIGXCPU };
	struct sigaction old, sa = { .sa_handler = on_end };
	size_t i;

	(void)sigemptyset(&sa.sa_mask);
	for (i = 0; i < sizeof ends / sizeof ends[0]; i++)
		/* as nohup(1) wants it */
		if (sigaction(ends[i], NULL, &old) == 0 &&
		    old.sa_handler != SIG_IGN)
			(void)sigaction(ends[i], &sa, NULL);
	(void)atexit(pico_remove_unfinished);
}

struct pico_gguf *
cmd_source(const char *path, unsigned flags, bool writes)
{
	struct pico_err err = {0};
	struct pico_gguf *g;

	if (writes && strcmp(path, "-") == 0)
		cmd_usage("standard input gives only the header of a model: "
		    "name the file");
	cmd_confine(writes);
	cmd_will_map(path);
	if (writes)
		cmd_will_write();
	if (pico_gguf_open(&g, path, flags, &err) < 0)
		cmd_die(&err);
	return g;
}

const char *
cmd_model(const char *opt)
{
	static const char installed[] = PICO_DATADIR "/default.gguf";
	const char *env = getenv("PICO_MODEL");

	if (opt != NULL)
		return opt;
	if (env != NULL && *env != '\0')
		return env;
	if (access(installed, R_OK) == 0)
		return installed;
	cmd_usage("no model: give one with -m FILE or in $PICO_MODEL "
	    "(no default is installed at '%s')", installed);
}

int
cmd_open(const char *operand, const char **for_messages)
{
	struct stat st = {0};
	int fd;

	if (strcmp(operand, "-") == 0) {
		*for_messages = "standard input";
		return STDIN_FILENO;
	}
	*for_messages = operand;
	fd = open(operand, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		(void)close(fd);
		fd = -1;
		errno = EISDIR;
	}
	if (fd < 0) {
		cmd_fail("cannot open '%s': %s",
		    operand, strerror(errno));
	}
	return fd;
}

size_t
cmd_read(int fd, const char *for_messages, void *p, size_t n)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	ssize_t k;

	/* a stranger may have set the descriptor to non-blocking */
	while ((k = read(fd, p, n)) < 0 && (errno == EINTR ||
	    (errno == EAGAIN && (poll(&wait, 1, -1) >= 0 || errno == EINTR))))
		;
	if (k < 0)
		cmd_fail("read error on %s: %s", for_messages,
		    strerror(errno));
	return (size_t)k;
}

char *
cmd_read_all(int fd, const char *for_messages, size_t *n)
{
	size_t cap = 0;
	char *buf = NULL, *p;
	size_t k;

	*n = 0;
	for (;;) {
		if (*n == cap) {
			cap = cap > 0 ? cap * 2 : 65536;
			p = realloc(buf, cap);
			if (p == NULL) {
				free(buf);
				cmd_fail("%s: no memory for %zu bytes of text",
				    for_messages, cap);
			}
			buf = p;
		}
		k = cmd_read(fd, for_messages, buf + *n, cap - *n);
		if (k == 0)
			return buf;
		*n += k;
	}
}

int
cmd_seed(const struct pico_opt *o, const char *arg, struct pico_err *err)
{
	uint64_t *seed = o->to;
	int64_t v;
	FILE *f;

	if (strcmp(arg, "random") == 0) {
		f = fopen("/dev/urandom", "rb");
		if (f == NULL || fread(seed, sizeof *seed, 1, f) != 1) {
			(void)pico_fail(err, PICO_ERROR, "cannot read "
			    "/dev/urandom: %s", strerror(errno));
			if (f != NULL)
				(void)fclose(f);
			return -1;
		}
		(void)fclose(f);
		*seed >>= 1;	/* so that -s takes it back */
		return 0;
	}
	if (pico_parse_int(arg, 0, INT64_MAX, &v, err) < 0)
		return -1;
	*seed = (uint64_t)v;
	return 0;
}

static bool progress_shown, progress_over;

void
cmd_progress(const char *what, uint64_t done, uint64_t total)
{
	static double start, last;
	static const char *of;
	static int tty = -1;
	double now;

	if (cmd_quiet || progress_over)
		return;
	if (tty < 0)
		tty = isatty(STDERR_FILENO);
	if (!tty)
		return;
	now = pico_seconds();
	if (of != what) {
		of = what;
		start = now;
		last = now + 0.8;	/* first line after a second */
		return;
	}
	if (now - last < 0.2)
		return;
	last = now;
	if (total > 0)
		(void)fprintf(stderr, "\r%s: %s %llu of %llu, %.0f s\033[K",
		    name, what, (unsigned long long)done,
		    (unsigned long long)total, now - start);
	else
		(void)fprintf(stderr, "\r%s: %s %llu, %.0f s\033[K", name,
		    what, (unsigned long long)done, now - start);
	progress_shown = true;
}

void
cmd_progress_output(void)
{
	struct stat st = {0};

	if (progress_over)
		return;
	progress_over = fstat(STDOUT_FILENO, &st) != 0 ||
	    !S_ISREG(st.st_mode);
	if (progress_over)
		cmd_progress_end();
}

void
cmd_progress_end(void)
{
	if (progress_shown)
		(void)fputs("\r\033[K", stderr);
	progress_shown = false;
}
