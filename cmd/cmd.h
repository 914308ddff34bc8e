/* SPDX-License-Identifier: MIT */
/* What every program does alike: options, messages, exit status. */
#ifndef PICO_CMD_H
#define PICO_CMD_H

#include "../lib/pico.h"

struct cmd {
	const char *name;	/* "pico-tokenize" */
	const char *synopsis;	/* "[-l | -0] [-m model] [file ...]" */
	const char *about;	/* one line */
};

extern bool cmd_quiet;
extern bool cmd_help, cmd_version, cmd_no_sandbox;

/* The last rows of every option table. */
#define CMD_OPTIONS \
	{ 'q', "quiet", PICO_OPT_FLAG, &cmd_quiet, NULL, \
	    "no warnings, no progress", 0, 0, NULL }, \
	{ 0, "no-sandbox", PICO_OPT_FLAG, &cmd_no_sandbox, NULL, \
	    "give up no rights, pico(7)", 0, 0, NULL }, \
	{ 'h', "help", PICO_OPT_FLAG, &cmd_help, NULL, \
	    "this text", 0, 0, NULL }, \
	{ 'V', "version", PICO_OPT_FLAG, &cmd_version, NULL, \
	    "print the version", 0, 0, NULL }, \
	{ 0, NULL, PICO_OPT_END, NULL, NULL, NULL, 0, 0, NULL }

/* If set: what waits there is written before any message, so that a fault
   takes nothing with it, not even the loss of the model's file. */
extern struct pico_tokens_out *cmd_out;
extern struct pico_logits_out *cmd_rows;

/* To be called first: parses, answers -h and -V, exits 2 on a usage error.
   Returns the index of the first operand. */
int cmd_start(const struct cmd *c, const struct pico_opt *table, int argc,
    char **argv);
/* Gives up the rights that are not needed, before any model is read: pico_confine,
   unless --no-sandbox. `writes`: files are still to be made. */
void cmd_confine(bool writes);
/* Prints "name: message" and exits with err->status. */
_Noreturn void cmd_die(const struct pico_err *err);
/* The same for a fault in a file: "name: 'path': message". */
_Noreturn void cmd_die_in(const char *path, const struct pico_err *err);
/* Prints "name: message" and exits 1; cmd_usage exits 2. */
_Noreturn void cmd_fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
_Noreturn void cmd_usage(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
/* Prints "name: message" and goes on; silent with -q. */
void cmd_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* As cmd_die, but goes on; not silenced: for --keep-going. */
void cmd_report(const struct pico_err *err);
/* Flushes stdout, in the midst of things; exits 1 if it cannot. */
void cmd_flush(void);
/* Exits 2 if stdout is a terminal: `what` is not for people. */
void cmd_no_terminal(const char *what);

/* Flushes stdout; a failed write turns status 0 into 1. Returns the status. */
int cmd_finish(int status);

/* n * size zeroed bytes; exits 1, naming the bytes, if there are none. */
void *cmd_alloc(size_t n, size_t size);

/* -m, $PICO_MODEL, the installed default; exits 2 with advice if none. */
const char *cmd_model(const char *opt);

/* To be called before a model is mapped: if it is cut short later, or its disk
   fails, that is told, with exit status 1, instead of death by a signal. */
void cmd_will_map(const char *path);

/* To be called before files are made: those that are not complete are removed
   when a signal or an error ends the program. */
void cmd_will_write(void);

/* Opens a model of which others are made, after all that is to be done before:
   the calls above. `writes`: they are made, not only shown; then it exits 2 for
   standard input, of which only the header is read. */
struct pico_gguf *cmd_source(const char *path, unsigned flags, bool writes);
/* Bytes of all files of g; of a header alone, what the whole file must have. */
uint64_t cmd_model_size(const struct pico_gguf *g);
/* Two names of one file, which is there. */
bool cmd_same_file(const char *a, const char *b);
/* Exits 2 if the file `out` that is to be made is one of those of g. */
void cmd_keep_apart(const struct pico_gguf *g, const char *out);

/* Opens an input operand ("-" is stdin); exits 1 if it cannot. *name is for
   messages. */
int cmd_open(const char *operand, const char **name);
/* As read(), but waits for what a non-blocking one does not have yet. Exits 1 on
   a fault. */
size_t cmd_read(int fd, const char *name, void *p, size_t n);
/* Reads a descriptor to its end; the caller frees. Exits 1 on a fault. */
char *cmd_read_all(int fd, const char *name, size_t *n);
/* For `-s`: a whole number or "random", to a uint64_t. */
pico_opt_fn cmd_seed;

/* A one-line progress on stderr, if that is a terminal and the work has taken
   more than a second. `done` of `total`; total 0: not known. */
void cmd_progress(const char *what, uint64_t done, uint64_t total);
/* Output begins: from now on there is progress only if stdout is a file, since
   what goes elsewhere may appear on the same screen. */
void cmd_progress_output(void);
/* Erases it. */
void cmd_progress_end(void);

#endif
