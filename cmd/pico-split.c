/* SPDX-License-Identifier: MIT */
/* One model file in several, and back. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

#define MAX_FILES UINT16_MAX	/* split.count is a u16 */

static uint64_t max_size;
static int64_t max_tensors;
static bool merge, empty_first, dry_run;

static const struct cmd about = {
	"pico-split",
	"[-q] [--dry-run] [--no-tensors-first] --size SIZE | --tensors N\n"
	"       FILE PREFIX\n"
	"   or: pico-split --merge FILE OUT",
	"Splits a model into files PREFIX-00001-of-0000N.gguf, or merges them.",
};

static const struct pico_opt options[] = {
	{ 0, "size", PICO_OPT_SIZE, &max_size, "SIZE",
	    "bytes of a file, at most", 0, 0, NULL },
	{ 0, "tensors", PICO_OPT_INT, &max_tensors, "N",
	    "tensors in a file, at most", 1, INT32_MAX, NULL },
	{ 0, "no-tensors-first", PICO_OPT_FLAG, &empty_first, NULL,
	    "the first file has the metadata only", 0, 0, NULL },
	{ 0, "merge", PICO_OPT_FLAG, &merge, NULL,
	    "make one file of those of a set", 0, 0, NULL },
	{ 0, "dry-run", PICO_OPT_FLAG, &dry_run, NULL,
	    "print the files, their tensors and bytes, make nothing", 0, 0,
	    NULL },
	CMD_OPTIONS
};

/* A file to be: tensors `first` to `end` - 1. */
struct part {
	size_t first, end;
	struct pico_writer *w;
	char *path;
};

static struct part *parts;
static size_t n_parts;

static void
die_unless(bool good, const struct pico_err *err)
{
	if (!good)
		cmd_die(err);
}

/* A writer with the keys of file `no`. */
static struct pico_writer *
start(const struct pico_gguf *g, size_t no, size_t count)
{
	struct pico_err err = {0};
	struct pico_writer *w = pico_writer_new(&err);
	const struct pico_kv *alignment = pico_gguf_find(g,
	    "general.alignment");

	die_unless(w != NULL && (no > 0 || pico_writer_copy_all(w, g,
	    &err) == 0) && (no == 0 || alignment == NULL ||
	    pico_writer_copy(w, alignment, &err) == 0) &&
	    pico_writer_int(w, "split.no", PICO_KV_U16, (int64_t)no,
	    &err) == 0 && pico_writer_int(w, "split.count", PICO_KV_U16,
	    (int64_t)count, &err) == 0 && pico_writer_int(w,
	    "split.tensors.count", PICO_KV_I32,
	    (int64_t)pico_gguf_n_tensors(g), &err) == 0, &err);
	return w;
}

/* ---- who gets what ----------------------------------------------------- */

static uint64_t
round_up(uint64_t n, uint64_t alignment)
{
	return (n + alignment - 1) & ~(alignment - 1);
}

/* Bytes of a file without tensors. */
static uint64_t
bare_size(const struct pico_gguf *g, size_t no)
{
	struct pico_writer *w = start(g, no, 1);
	struct pico_err err = {0};
	uint64_t size = 0;

	die_unless(pico_writer_size(w, &size, &err) == 0, &err);
	pico_writer_free(w);
	return size;
}

static void
add_part(size_t first)
{
	if (n_parts == MAX_FILES)
		cmd_fail("this makes more than %d files", MAX_FILES);
	parts = realloc(parts, (n_parts + 1) * sizeof *parts);
	if (parts == NULL)
		cmd_fail("no memory for %zu files", n_parts + 1);
	parts[n_parts++] = (struct part){ .first = first, .end = first };
}

/* As many tensors in each file as fit; their order stays. */
static void
plan(const struct pico_gguf *g)
{
	uint64_t alignment = pico_gguf_info(g, 0).alignment;
	uint64_t bare[2] = { bare_size(g, 0), bare_size(g, 1) };
	uint64_t head = bare[0], data = 0, its_head, its_data;
	size_t n = pico_gguf_n_tensors(g), i;
	char name[300];

	add_part(0);
	for (i = 0; i < n; i++) {
		const struct pico_tensor *t = pico_gguf_tensor(g, i);
		struct part *p = &parts[n_parts - 1];

		its_head = 8 + t->name.n + 4 + 8 * t->n_dims + 4 + 8;
		its_data = round_up(t->bytes, alignment);
		if ((empty_first && n_parts == 1) || (max_tensors > 0 &&
		    p->end - p->first == (size_t)max_tensors) ||
		    (max_size > 0 && p->end > p->first &&
		    round_up(head + its_head, alignment) + data + its_data >
		    max_size)) {
			add_part(i);
			head = bare[1];
			data = 0;
		}
		head += its_head;
		data += its_data;
		if (max_size > 0 && round_up(head, alignment) + data >
		    max_size) {
			(void)pico_escape(name, sizeof name, t->name.p,
			    t->name.n);
			cmd_fail("tensor '%s' alone makes a file of %" PRIu64
			    " bytes, option --size allows %" PRIu64, name,
			    round_up(head, alignment) + data, max_size);
		}
		parts[n_parts - 1].end = i + 1;
	}
}

/* ---- doing it ---------------------------------------------------------- */

static void
add_tensors(struct pico_writer *w, const struct pico_gguf *g, size_t first,
    size_t end)
{
	struct pico_err err = {0};

	for (; first < end; first++) {
		const struct pico_tensor *t = pico_gguf_tensor(g, first);

		die_unless(pico_writer_tensor(w, t->name, t->type, t->n_dims,
		    t->dims, &err) == 0, &err);
	}
}

static void
write_data(struct pico_writer *w, const struct pico_gguf *g, size_t first,
    size_t end, const char *path)
{
	struct pico_err err = {0};

	die_unless(pico_writer_begin(w, path, &err) == 0, &err);
	for (; first < end; first++) {
		cmd_progress("tensor", first + 1, pico_gguf_n_tensors(g));
		die_unless(pico_writer_copy_data(w, pico_gguf_tensor(g, first),
		    &err) == 0, &err);
	}
	die_unless(pico_writer_sync(w, &err) == 0, &err);
}

static void
split(const struct pico_gguf *g, const char *prefix)
{
	size_t size = strlen(prefix) + 40, i;
	struct pico_err err = {0};
	sigset_t all, old;
	uint64_t bytes;

	plan(g);
	for (i = 0; i < n_parts; i++) {
		parts[i].path = cmd_alloc(size, 1);
		(void)snprintf(parts[i].path, size, "%s-%05zu-of-%05zu.gguf",
		    prefix, i + 1, n_parts);
		if (!dry_run)
			cmd_keep_apart(g, parts[i].path);
	}
	for (i = 0; i < n_parts; i++) {
		struct part *p = &parts[i];

		p->w = start(g, i, n_parts);
		add_tensors(p->w, g, p->first, p->end);
		die_unless(pico_writer_size(p->w, &bytes, &err) == 0, &err);
		if (dry_run)
			(void)printf("%s\t%zu\t%" PRIu64 "\n", p->path,
			    p->end - p->first, bytes);
		else
			write_data(p->w, g, p->first, p->end, p->path);
	}
	die_unless(pico_gguf_check(g, &err) == 0, &err);
	/* the first is the one that is opened: it comes when all others are
	   there; and no signal comes between */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	for (i = n_parts; i-- > 0; ) {
		if (!dry_run)
			die_unless(pico_writer_end(parts[i].w, &err) == 0,
			    &err);
		pico_writer_free(parts[i].w);
		free(parts[i].path);
	}
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	free(parts);
}

static void
make_one(const struct pico_gguf *g, const char *out)
{
	struct pico_err err = {0};
	struct pico_writer *w = pico_writer_new(&err);

	die_unless(w != NULL && pico_writer_copy_all(w, g, &err) == 0, &err);
	add_tensors(w, g, 0, pico_gguf_n_tensors(g));
	cmd_keep_apart(g, out);
	write_data(w, g, 0, pico_gguf_n_tensors(g), out);
	die_unless(pico_gguf_check(g, &err) == 0 &&
	    pico_writer_end(w, &err) == 0, &err);
	pico_writer_free(w);
}

int
main(int argc, char **argv)
{
	int first = cmd_start(&about, options, argc, argv);
	struct pico_gguf *g;

	if (merge && (max_size > 0 || max_tensors > 0 || empty_first || dry_run))
		cmd_usage("option --merge is for itself");
	if (!merge && (max_size > 0) + (max_tensors > 0) != 1)
		cmd_usage("one of --size, --tensors and --merge is wanted");
	if (argc - first != 2)
		cmd_usage("wanted: the file and %s", merge ? "the one to make" :
		    "what the names of the others begin with");
	g = cmd_source(argv[first], 0, !dry_run);
	if (merge && pico_gguf_find(g, "split.count") == NULL)
		cmd_fail("'%s' is not split", argv[first]);
	if (merge)
		make_one(g, argv[first + 1]);
	else
		split(g, argv[first + 1]);
	cmd_progress_end();
	pico_gguf_close(g);
	return cmd_finish(0);
}
