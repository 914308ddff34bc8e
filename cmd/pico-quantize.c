/* SPDX-License-Identifier: MIT */
/* Model in, the same model in fewer bytes out. */
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

#define GLOB_MAX 200	/* bytes of a pattern, and its end */

/* A name, or several by a pattern, that gets a type; type NULL: keeps its own. */
struct rule {
	const char *glob;
	size_t n;		/* bytes of it */
	const struct pico_type *type;
	bool used;
};

static struct rule *rules;
static size_t n_rules;
static bool requantize, pure, dry_run, verbose;
static const char *imatrix_path;
static int64_t n_threads;

static pico_opt_fn add_rule;
static int keeps = 1, sets = 0;

static const struct cmd about = {
	"pico-quantize",
	"[-qv] [-t N] [--imatrix FILE] [--tensor GLOB=TYPE] [--keep GLOB]\n"
	"       [--pure] [--requantize] IN OUT TYPE\n"
	"   or: pico-quantize --dry-run [option ...] IN TYPE",
	"Makes a model smaller: its matrices in another type.",
};

static const struct pico_opt options[] = {
	{ 't', "threads", PICO_OPT_INT, &n_threads, "N",
	    "threads (as many as there are cores to use)", 1, 4096, NULL },
	{ 0, "imatrix", PICO_OPT_TEXT, &imatrix_path, "FILE",
	    "what matters how much, from pico-forward --imatrix", 0, 0, NULL },
	{ 0, "tensor", PICO_OPT_CALL, &sets, "GLOB=TYPE",
	    "the type of tensors by name; the last that fits counts", 0, 0,
	    add_rule },
	{ 0, "keep", PICO_OPT_CALL, &keeps, "GLOB",
	    "tensors that stay as they are", 0, 0, add_rule },
	{ 0, "pure", PICO_OPT_FLAG, &pure, NULL,
	    "all matrices in the one type, no mix", 0, 0, NULL },
	{ 0, "requantize", PICO_OPT_FLAG, &requantize, NULL,
	    "from types that have lost something already", 0, 0, NULL },
	{ 0, "dry-run", PICO_OPT_FLAG, &dry_run, NULL,
	    "print the table and the size, make nothing", 0, 0, NULL },
	{ 'v', "verbose", PICO_OPT_FLAG, &verbose, NULL,
	    "the error of each tensor on stderr, speed and memory", 0, 0,
	    NULL },
	CMD_OPTIONS
};

static int
add_rule(const struct pico_opt *o, const char *arg, struct pico_err *err)
{
	const char *eq = strrchr(arg, '=');
	struct rule r = { .glob = arg, .n = strlen(arg) }, *more;

	if (!*(int *)o->to) {
		if (eq == NULL || eq == arg)
			return pico_fail(err, PICO_USAGE, "'%s' is not "
			    "GLOB=TYPE", arg);
		r.n = (size_t)(eq - arg);
		r.type = pico_type_named(eq + 1);
		if (r.type == NULL || !pico_can_quantize(r.type->id))
			return pico_fail(err, PICO_USAGE, "'%s' is no type "
			    "that can be made", eq + 1);
	}
	if (r.n >= GLOB_MAX)
		return pico_fail(err, PICO_USAGE, "a pattern of %zu bytes is "
		    "too long", r.n);
	more = realloc(rules, (n_rules + 1) * sizeof r);
	if (more == NULL)
		return pico_fail(err, PICO_ERROR, "no memory for options");
	rules = more;
	rules[n_rules++] = r;
	return 0;
}

/* The last rule for a name, or NULL. */
static const struct rule *
find_rule(struct pico_str name)
{
	char text[80], glob[GLOB_MAX];
	struct rule *found = NULL;
	size_t i;

	(void)snprintf(text, sizeof text, "%.*s", (int)name.n, name.p);
	for (i = 0; i < n_rules; i++) {
		(void)snprintf(glob, sizeof glob, "%.*s", (int)rules[i].n,
		    rules[i].glob);
		if (fnmatch(glob, text, 0) != 0)
			continue;
		rules[i].used = true;
		found = &rules[i];
	}
	return found;
}

static const struct pico_mix *
find_mix(const char *name)
{
	const struct pico_mix *m = pico_mix_named(name);
	char list[400] = "";
	size_t i, n = 0;

	if (m != NULL)
		return m;
	for (i = 0; (m = pico_mix(i)) != NULL; i++)
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%s",
		    i > 0 ? " " : "", m->name);
	cmd_usage("'%.20s' is no type to quantize to; these are: %s", name,
	    list);
}

/* ---- what becomes what ------------------------------------------------- */

/* A number of the architecture; of one a layer, that of the first. */
static int64_t
number(const struct pico_gguf *g, struct pico_str arch, const char *what)
{
	const struct pico_kv *kv;
	char key[200];

	(void)snprintf(key, sizeof key, "%.*s.%s", (int)(arch.n < 100 ? arch.n :
	    100), arch.p, what);
	kv = pico_gguf_find(g, key);
	if (kv == NULL || kv->n < 1 || kv->type == PICO_KV_STR ||
	    (kv->type == PICO_KV_ARR && (kv->elem == PICO_KV_STR ||
	    kv->elem == PICO_KV_ARR)))
		return 0;
	return pico_kv_int_at(kv, 0);
}

static bool
has_lost(uint32_t type)
{
	return pico_type(type)->block > 1;
}

static const char *
type_name(uint32_t type)
{
	return pico_type(type)->name;
}

/* The types of all tensors by the mix and the rules. */
static uint32_t *
choose(const struct pico_gguf *g, const struct pico_mix *mix)
{
	size_t n = pico_gguf_n_tensors(g), i;
	struct pico_tensor *t = cmd_alloc(n, sizeof *t);
	uint32_t *type = cmd_alloc(n, sizeof *type);
	struct pico_mix_model model = { .importance = imatrix_path != NULL };
	struct pico_err err = {0};
	const struct rule *r;

	if (pico_gguf_str(g, "general.architecture", &model.arch, &err) < 0)
		cmd_die_in(pico_gguf_info(g, 0).path, &err);
	model.n_layer = number(g, model.arch, "block_count");
	model.n_head = number(g, model.arch, "attention.head_count");
	model.n_head_kv = number(g, model.arch, "attention.head_count_kv");
	model.n_expert = number(g, model.arch, "expert_count");
	if (model.n_head_kv == 0)
		model.n_head_kv = model.n_head;
	for (i = 0; i < n; i++)
		t[i] = *pico_gguf_tensor(g, i);
	if (pico_mix_types(mix, &model, t, n, type, &err) < 0)
		cmd_die(&err);
	for (i = 0; i < n && !(type[i] == mix->type && pico_mix_takes(&t[i]));
	    i++)
		;
	if (i == n && !pure)
		cmd_warn("no tensor of '%s' becomes %s by the rules of %s",
		    pico_gguf_info(g, 0).path, type_name(mix->type), mix->name);
	for (i = 0; i < n; i++) {
		if (pure && pico_mix_takes(&t[i]))
			type[i] = mix->type;
		r = find_rule(t[i].name);
		if (r != NULL)
			type[i] = r->type != NULL ? r->type->id : t[i].type;
	}
	for (i = 0; i < n_rules; i++)
		if (!rules[i].used)
			cmd_fail("no tensor is called '%.*s'", (int)rules[i].n,
			    rules[i].glob);
	free(t);
	return type;
}

static void
check(const struct pico_gguf *g, const uint32_t *type)
{
	const struct pico_tensor *t;
	const struct pico_type *from, *to;
	char name[80];
	size_t i;

	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		t = pico_gguf_tensor(g, i);
		from = pico_type(t->type);
		to = pico_type(type[i]);
		if (from == to)
			continue;
		(void)pico_escape(name, sizeof name, t->name.p, t->name.n);
		if (has_lost(from->id) && !requantize)
			cmd_fail("tensor '%s' is %s already: what that lost is "
			    "lost; --requantize goes on from there", name,
			    from->name);
		if (t->dims[0] % to->block != 0)
			cmd_fail("tensor '%s' has rows of %" PRIu64 ", not a "
			    "multiple of the %" PRIu32 " of type %s", name,
			    t->dims[0], to->block, to->name);
	}
}

static void
set_keys(struct pico_writer *w, const struct pico_gguf *g,
    const struct pico_mix *mix, const struct pico_imatrix *m,
    struct pico_err *err)
{
	const char *base = imatrix_path != NULL ?
	    strrchr(imatrix_path, '/') : NULL;
	struct pico_imatrix_info info;

	if (pico_writer_copy_all(w, g, err) < 0 ||
	    pico_writer_int(w, "general.quantization_version", PICO_KV_U32, 2,
	    err) < 0 || pico_writer_int(w, "general.file_type", PICO_KV_U32,
	    mix->file_type, err) < 0)
		cmd_die(err);
	if (m == NULL)
		return;
	info = pico_imatrix_info(m);
	base = base != NULL ? base + 1 : imatrix_path;
	if (pico_writer_str(w, "quantize.imatrix.file", (struct pico_str){
	    base, strlen(base) }, err) < 0 || (info.dataset.n > 0 &&
	    pico_writer_str(w, "quantize.imatrix.dataset", info.dataset,
	    err) < 0) || pico_writer_int(w, "quantize.imatrix.entries_count",
	    PICO_KV_U32, (int64_t)info.n_entries, err) < 0 ||
	    pico_writer_int(w, "quantize.imatrix.chunks_count", PICO_KV_U32,
	    info.n_chunks, err) < 0)
		cmd_die(err);
}

static uint64_t
bytes_of(const struct pico_tensor *t, uint32_t type)
{
	return t->bytes / pico_type(t->type)->bytes *
	    pico_type(t->type)->block / pico_type(type)->block *
	    pico_type(type)->bytes;
}

/* name, dimensions, type before and after, bytes */
static void
print_table(const struct pico_gguf *g, const uint32_t *type, uint64_t size)
{
	const struct pico_tensor *t;
	char name[300];
	uint32_t d;
	size_t i;

	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		t = pico_gguf_tensor(g, i);
		(void)pico_escape(name, sizeof name, t->name.p, t->name.n);
		(void)printf("%s\t", name);
		for (d = 0; d < t->n_dims; d++)
			(void)printf("%s%" PRIu64, d > 0 ? "x" : "",
			    t->dims[d]);
		(void)printf("\t%s\t%s\t%" PRIu64 "\n", type_name(t->type),
		    type_name(type[i]), bytes_of(t, type[i]));
	}
	(void)printf("total\t\t%" PRIu64 "\t\t%" PRIu64 "\n",
	    cmd_model_size(g), size);
}

/* ---- doing it ---------------------------------------------------------- */

static void
report(const struct pico_tensor *t, uint32_t to,
    const struct pico_quant_error *e)
{
	char name[300];

	cmd_progress_end();
	(void)pico_escape(name, sizeof name, t->name.p, t->name.n);
	(void)fprintf(stderr, "%s:\t%s to %s, %" PRIu64 " bytes", name,
	    type_name(t->type), type_name(to), bytes_of(t, to));
	if (e->n > 0)
		(void)fprintf(stderr, ", error %.4g, %.3f %%",
		    sqrt(e->error / (double)e->n), e->square > 0 ?
		    100 * sqrt(e->error / e->square) : 0);
	(void)fputc('\n', stderr);
}

/* Rows that are looked up: there each error counts as much. Importance is of its
   other use, as the output matrix, if it has that. */
static bool
is_table(const struct pico_tensor *t)
{
	return pico_str_is(t->name, "token_embd.weight");
}

static void
write_tensors(const struct pico_gguf *g, const uint32_t *type,
    struct pico_imatrix *m, struct pico_writer *w)
{
	size_t n = pico_gguf_n_tensors(g), i, without = 0;
	struct pico_err err = {0};
	struct pico_quantizer *q = pico_quantizer_new((uint32_t)n_threads,
	    &err);
	double start = pico_seconds();

	if (q == NULL)
		cmd_die(&err);
	for (i = 0; i < n; i++) {
		const struct pico_tensor *t = pico_gguf_tensor(g, i);
		struct pico_quant_error sums = {0};
		const float *importance = NULL;
		bool weighs;

		cmd_progress("tensor", i + 1, n);
		weighs = m != NULL && t->type != type[i] && !is_table(t);
		if (weighs && pico_imatrix_find(m, t, &importance, &err) < 0)
			cmd_die(&err);
		without += weighs && importance == NULL && has_lost(type[i]);
		if (pico_quantize_tensor(q, t, type[i], importance, w,
		    verbose ? &sums : NULL, &err) < 0)
			cmd_die(&err);
		if (verbose)
			report(t, type[i], &sums);
	}
	cmd_progress_end();
	if (without > 0)
		cmd_warn("'%s' says nothing about %zu of the tensors",
		    imatrix_path, without);
	if (verbose)
		(void)fprintf(stderr, "time:\t%.3f s\n",
		    pico_seconds() - start);
	pico_quantizer_free(q);
}

int
main(int argc, char **argv)
{
	int first = cmd_start(&about, options, argc, argv), n = argc - first;
	const struct pico_mix *mix;
	struct pico_imatrix *m = NULL;
	struct pico_gguf *g;
	struct pico_writer *w;
	struct pico_err err = {0};
	uint64_t size = 0;
	uint32_t *type;
	size_t i;

	if (n != (dry_run ? 2 : 3) && (!dry_run || n != 3))
		cmd_usage(dry_run ? "wanted: the model and the type" :
		    "wanted: the model, the file to make and the type");
	mix = find_mix(argv[argc - 1]);
	g = cmd_source(argv[first], 0, !dry_run);
	if (imatrix_path != NULL) {
		m = pico_imatrix_open(imatrix_path, &err);
		if (m == NULL)
			cmd_die(&err);
	}
	type = choose(g, mix);
	check(g, type);
	w = pico_writer_new(&err);
	if (w == NULL)
		cmd_die(&err);
	set_keys(w, g, mix, m, &err);
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		const struct pico_tensor *t = pico_gguf_tensor(g, i);

		if (pico_writer_tensor(w, t->name, type[i], t->n_dims, t->dims,
		    &err) < 0)
			cmd_die_in(argv[first], &err);
	}
	if (pico_writer_size(w, &size, &err) < 0)
		cmd_die_in(argv[first], &err);
	if (dry_run) {
		print_table(g, type, size);
	} else {
		cmd_keep_apart(g, argv[first + 1]);
		/* an input, too */
		if (imatrix_path != NULL &&
		    cmd_same_file(imatrix_path, argv[first + 1]))
			cmd_usage("'%s' is the importance matrix and the "
			    "output", argv[first + 1]);
		if (pico_writer_begin(w, argv[first + 1], &err) < 0)
			cmd_die(&err);
		write_tensors(g, type, m, w);
		if (pico_gguf_check(g, &err) < 0 ||
		    pico_writer_end(w, &err) < 0)
			cmd_die(&err);
		if (verbose)
			(void)fprintf(stderr, "size:\t%" PRIu64 " bytes\n"
			    "memory:\t%.1f MB peak\n", size,
			    (double)pico_peak_memory() / 1e6);
	}
	pico_writer_free(w);
	pico_imatrix_close(m);
	pico_gguf_close(g);
	free(type);
	free(rules);
	return cmd_finish(0);
}
