/* SPDX-License-Identifier: MIT */
/* pico-inspect: what is in a GGUF file. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect.h"
#include "model.h"

struct view view;

static bool alone, diffable, vocab, stats, check, offsets, plan;
static const char *key, *dump, *raw;
static struct model_opts model;
static int64_t jobs = 1;

static const struct cmd about = {
	"pico-inspect",
	"[-a] [--json | --diffable | -k key | --vocab | --offsets |\n"
	"       --check | --stats | --dump tensor | --raw tensor | --plan] "
	"[file ...]\n       [tensor ...]",
	"Shows the metadata and the tensors of GGUF files."
};

static const struct pico_opt table[] = {
	{ 'a', "all", PICO_OPT_FLAG, &view.all, NULL,
	    "whole strings and arrays", 0, 0, NULL },
	{ 'k', "key", PICO_OPT_TEXT, &key, "KEY",
	    "the value of one key, nothing else", 0, 0, NULL },
	{ 0, "json", PICO_OPT_FLAG, &view.json, NULL,
	    "everything as JSON", 0, 0, NULL },
	{ 0, "diffable", PICO_OPT_FLAG, &diffable, NULL,
	    "sorted, without paths, offsets and sizes", 0, 0, NULL },
	{ 0, "vocab", PICO_OPT_FLAG, &vocab, NULL,
	    "tokens: id, type, score, text", 0, 0, NULL },
	{ 0, "offsets", PICO_OPT_FLAG, &offsets, NULL,
	    "keys: name, offset of the value in the file, bytes, type",
	    0, 0, NULL },
	{ 0, "stats", PICO_OPT_FLAG, &stats, NULL,
	    "tensors (all, or those named): name, type, values, min, max,\n"
	    "                               mean, rms, NaN and infinite values",
	    0, 0, NULL },
	{ 0, "check", PICO_OPT_FLAG, &check, NULL,
	    "read all tensors and name the faults", 0, 0, NULL },
	{ 0, "dump", PICO_OPT_TEXT, &dump, "TENSOR",
	    "values as raw float32", 0, 0, NULL },
	{ 0, "raw", PICO_OPT_TEXT, &raw, "TENSOR",
	    "bytes as stored", 0, 0, NULL },
	{ 0, "alone", PICO_OPT_FLAG, &alone, NULL,
	    "one file of a split model by itself", 0, 0, NULL },
	{ 0, "plan", PICO_OPT_FLAG, &plan, NULL,
	    "bytes that a run needs, with these options:", 0, 0, NULL },
	{ 'j', "jobs", PICO_OPT_INT, &jobs, "N",
	    "sequences computed at once (1)", 1, 1024, NULL },
	SIZE_OPTIONS(model),
	{ 'm', "model", PICO_OPT_TEXT, &model.model, "FILE",
	    "the file, if there is no operand", 0, 0, NULL },
	CMD_OPTIONS
};

int
fault(const char *path, const char *fmt, ...)
{
	struct pico_err err = { .status = PICO_ERROR };
	char msg[300], line[480];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	(void)snprintf(line, sizeof line, "'%.150s': %s", path, msg);
	(void)pico_escape(err.msg, sizeof err.msg, line, strlen(line));
	cmd_report(&err);
	return err.status;
}

/* ---- one file ---------------------------------------------------------- */

/* Shows what the options want of an open file that may be broken: then *err
   says how. */
static int
show_header(const struct pico_gguf *g, const char *path,
    const struct pico_err *err)
{
	bool broken = err->status != PICO_OK;

	if (broken && pico_gguf_n_kv(g) + pico_gguf_n_tensors(g) == 0)
		return 0;
	if (view.json)
		list_json(g, broken ? err->msg : NULL);
	else if (diffable)
		list_diffable(g);
	else if (offsets)
		list_offsets(g);
	else if (key == NULL)
		list(g);
	else if (!broken || pico_gguf_find(g, key) != NULL)
		return put_key(g, path, key);
	return 0;
}

static int
inspect(const char *path, char **names, int n_names)
{
	bool data = stats || check || dump != NULL || raw != NULL;
	struct pico_ctx_params params = {0};
	struct pico_err err = {0};
	struct pico_gguf *g;
	int status = 0;

	/* elsewhere a fault in $PICO_MEMORY does not matter */
	if (plan)
		params = model_params(&model, (uint32_t)jobs);
	if (data && strcmp(path, "-") == 0)
		return fault("-", "standard input gives the header only, "
		    "this needs the tensor data");
	cmd_will_map(path);
	/* broken files are shown as far as they can be read */
	(void)pico_gguf_open(&g, path, PICO_GGUF_PARTIAL |
	    (alone || offsets ? PICO_GGUF_ALONE : 0), &err);
	if (g != NULL && !data && !vocab && !plan)
		status = show_header(g, path, &err);
	else if (err.status == PICO_OK && vocab)
		status = list_vocab(g, path);
	else if (err.status == PICO_OK && plan)
		status = put_plan(g, path, &params);
	else if (err.status == PICO_OK && (dump != NULL || raw != NULL))
		status = put_data(g, path, dump != NULL ? dump : raw,
		    raw != NULL);
	else if (err.status == PICO_OK)
		status = examine(g, path, check, names, n_names);
	if (err.status != PICO_OK) {
		cmd_report(&err);
		status = PICO_ERROR;
	}
	pico_gguf_close(g);
	return status;
}

static void
put_heading(bool apart, const char *path)
{
	(void)fputs(apart ? "\nfile: " : "file: ", stdout);
	put_text(str_of(path), SIZE_MAX);
	(void)putchar('\n');
}

/* Operands of --stats that are files, among names of tensors. */
static bool
is_file(const char *operand)
{
	size_t n = strlen(operand);

	return strcmp(operand, "-") == 0 || access(operand, F_OK) == 0 ||
	    (n >= 5 && strcmp(operand + n - 5, ".gguf") == 0);
}

int
main(int argc, char **argv)
{
	int first = cmd_start(&about, table, argc, argv), n_files, n_names = 0;
	int i, status = 0;
	const char **files = cmd_alloc((size_t)argc + 1, sizeof *files);
	char **names = cmd_alloc((size_t)argc + 1, sizeof *names);

	cmd_confine(false);
	if (view.json + diffable + vocab + stats + check + offsets + (key != NULL) +
	    (dump != NULL) + (raw != NULL) + plan > 1)
		cmd_usage("only one of --json, --diffable, --key, --vocab, "
		    "--offsets, --check, --stats, --dump, --raw and --plan");
	if ((dump != NULL || raw != NULL) && isatty(STDOUT_FILENO))
		cmd_usage("option --%s: binary data does not go to a terminal",
		    dump != NULL ? "dump" : "raw");
	for (n_files = 0, i = first; i < argc; i++) {
		if (stats && !is_file(argv[i]))
			names[n_names++] = argv[i];
		else
			files[n_files++] = argv[i];
	}
	if (n_files == 0)
		files[n_files++] = cmd_model(model.model);
	for (i = 0; i < n_files; i++) {
		if (n_files > 1 && !view.json)
			put_heading(i > 0, files[i]);
		status = inspect(files[i], names, n_names) != 0 ? PICO_ERROR :
		    status;
	}
	free(files);
	free(names);
	return cmd_finish(status);
}
