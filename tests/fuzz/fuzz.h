/* SPDX-License-Identifier: MIT */
/* What the fuzz harnesses share: bytes as a file or as a descriptor. */
#ifndef PICO_FUZZ_H
#define PICO_FUZZ_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/pico.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A fault of the library, not of the input. */
#define MUST(x) do { if (!(x)) abort(); } while (0)

/* The path of a file of this process. */
static inline const char *
fuzz_path(void)
{
	static char path[100];

	if (path[0] == '\0')
		(void)snprintf(path, sizeof path, "%s/pico-fuzz-%ld",
		    getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp",
		    (long)getpid());
	return path;
}

/* The same, after the bytes were put into the file. */
static inline const char *
fuzz_file(const uint8_t *data, size_t n)
{
	const char *path = fuzz_path();
	FILE *f = fopen(path, "wb");

	MUST(f != NULL && fwrite(data, 1, n, f) == n && fclose(f) == 0);
	return path;
}

/* A descriptor at the start of a file that holds the bytes; its name is gone. */
static inline int
fuzz_fd(const uint8_t *data, size_t n)
{
	FILE *f = fopen(fuzz_file(data, n), "rb");
	int fd;

	MUST(f != NULL);
	fd = dup(fileno(f));
	(void)fclose(f);
	MUST(fd >= 0 && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

/* A failure fills in a message, and only a failure does. */
static inline void
fuzz_check(bool failed, const struct pico_err *err)
{
	MUST(failed == (err->status != PICO_OK));
	MUST(!failed || err->msg[0] != '\0');
	MUST(strpbrk(err->msg, "\n\r\033") == NULL);
}

#endif
