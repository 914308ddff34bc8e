/* SPDX-License-Identifier: MIT */
/* Metadata of a model, changed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd.h"

enum action { SET, ADD, RENAME, DELETE };
static enum action actions[] = { SET, ADD, RENAME, DELETE };

/* What is to be done, in the order of the options. */
struct change {
	enum action action;
	char *key;
	const char *value;	/* or the new name; NULL to delete */
};

static struct change *changes;
static size_t n_changes;
static bool force, verbose;

static pico_opt_fn add_change;

static const struct cmd about = {
	"pico-edit",
	"[-qv] [--force] [--set KEY=VALUE] [--add KEY=VALUE] [--delete KEY]\n"
	"       [--rename KEY=NEW] FILE [OUT]",
	"Changes metadata of a GGUF file, in place if the lengths allow it.\n"
	"VALUE is TYPE:TEXT or TYPE@FILE; TYPE[] is an array, as JSON.",
};

static const struct pico_opt options[] = {
	{ 0, "set", PICO_OPT_CALL, &actions[SET], "KEY=VALUE",
	    "another value for a key that is there", 0, 0, add_change },
	{ 0, "add", PICO_OPT_CALL, &actions[ADD], "KEY=VALUE",
	    "a key that is not there", 0, 0, add_change },
	{ 0, "rename", PICO_OPT_CALL, &actions[RENAME], "KEY=NEW",
	    "another name for a key", 0, 0, add_change },
	{ 0, "delete", PICO_OPT_CALL, &actions[DELETE], "KEY",
	    "no such key any more", 0, 0, add_change },
	{ 0, "force", PICO_OPT_FLAG, &force, NULL,
	    "even if the model cannot be run afterwards", 0, 0, NULL },
	{ 'v', "verbose", PICO_OPT_FLAG, &verbose, NULL,
	    "say on stderr how it was done", 0, 0, NULL },
	CMD_OPTIONS
};

static int
add_change(const struct pico_opt *o, const char *arg, struct pico_err *err)
{
	struct change c = { .action = *(enum action *)o->to,
	    .key = strdup(arg) };
	struct change *more = realloc(changes, (n_changes + 1) * sizeof c);
	char *eq;

	if (more != NULL)
		changes = more;
	if (more == NULL || c.key == NULL) {
		free(c.key);
		return pico_fail(err, PICO_ERROR, "no memory for options");
	}
	if (c.action != DELETE) {
		eq = strchr(c.key, '=');
		if (eq == NULL || eq == c.key || eq[1] == '\0') {
			free(c.key);
			return pico_fail(err, PICO_USAGE, "'%s' is not "
			    "KEY=%s", arg, c.action == RENAME ? "NEW" : "VALUE");
		}
		*eq = '\0';
		c.value = eq + 1;
	}
	changes[n_changes++] = c;
	return 0;
}

/* What one file alone cannot be tried with. */
static bool
of_set(const char *key)
{
	return strncmp(key, "split.", 6) == 0;
}

static void
apply(struct pico_writer *w, const struct change *c, const char *path)
{
	struct pico_err err = {0};
	bool there = pico_writer_has(w, c->key);
	int rc = 0;

	if (!force && (of_set(c->key) || (c->action == RENAME &&
	    of_set(c->value))))
		cmd_fail("keys 'split.*' tell what files are one model (--force "
		    "changes them)");
	if (c->action == ADD && there)
		cmd_fail("'%s' has a key '%s' already: --set changes it", path,
		    c->key);
	if (c->action != ADD && !there)
		cmd_fail("'%s' has no key '%s'%s", path, c->key,
		    c->action == SET ? ": --add makes one" : "");
	switch (c->action) {
	case SET:
	case ADD:
		rc = pico_writer_set(w, c->key, c->value, &err);
		break;
	case RENAME:
		rc = pico_writer_rename(w, c->key, c->value, &err);
		break;
	case DELETE:
		(void)pico_writer_delete(w, c->key);
		break;
	}
	if (rc < 0)
		cmd_die(&err);
}

/* ---- whether it runs --------------------------------------------------- */

/* What can be opened: its weights, its vocabulary. */
struct parts {
	bool model, vocab;
	struct pico_err why;
};

static struct parts
try(const struct pico_gguf *g)
{
	struct parts p = {0};
	struct pico_vocab *v = pico_vocab_open(g, NULL, &p.why);
	struct pico_model *m = pico_model_open(g, &p.why);

	p.vocab = v != NULL;
	p.model = m != NULL;
	pico_model_close(m);
	pico_vocab_close(v);
	return p;
}

/* Exits if what runs now would not any more. */
static void
check(const char *path, const struct pico_writer *w)
{
	struct pico_err err = {0};
	struct parts before, after;
	struct pico_gguf *g;

	if (force || pico_gguf_open(&g, path, 0, NULL) < 0)
		return;
	before = try(g);
	if (pico_gguf_set_keys(g, w, &err) < 0)
		cmd_die(&err);
	after = try(g);
	if ((before.model && !after.model) || (before.vocab && !after.vocab)) {
		(void)snprintf(err.msg, sizeof err.msg, "the model could not "
		    "be run any more (--force does it): %.400s", after.why.msg);
		cmd_die(&err);
	}
	pico_gguf_close(g);
}

/* ---- doing it ---------------------------------------------------------- */

/* What a value is read from is an input, too. */
static void
keep_values(const char *out)
{
	const char *value;
	size_t i;

	for (i = 0; i < n_changes; i++) {
		value = changes[i].value;
		if (changes[i].action != SET && changes[i].action != ADD)
			continue;
		value += strcspn(value, ":@");
		if (*value == '@' && cmd_same_file(value + 1, out))
			cmd_usage("'%s' is the value of '%s' and the output",
			    out, changes[i].key);
	}
}

static void
copy(struct pico_writer *w, const struct pico_gguf *g, const char *out)
{
	size_t n = pico_gguf_n_tensors(g), i;
	struct pico_err err = {0};
	const struct pico_tensor *t;

	for (i = 0; i < n; i++) {
		t = pico_gguf_tensor(g, i);
		if (pico_writer_tensor(w, t->name, t->type, t->n_dims, t->dims,
		    &err) < 0)
			cmd_die(&err);
	}
	if (pico_writer_begin(w, out, &err) < 0)
		cmd_die(&err);
	for (i = 0; i < n; i++) {
		cmd_progress("tensor", i + 1, n);
		if (pico_writer_copy_data(w, pico_gguf_tensor(g, i), &err) < 0)
			cmd_die(&err);
	}
	cmd_progress_end();
	if (pico_gguf_check(g, &err) < 0 || pico_writer_end(w, &err) < 0)
		cmd_die(&err);
}

int
main(int argc, char **argv)
{
	int first = cmd_start(&about, options, argc, argv), patched = 0;
	const char *path = argv[first], *out;
	struct pico_err err = {0};
	struct pico_writer *w;
	struct pico_gguf *g;
	size_t i;

	if (argc - first < 1 || argc - first > 2)
		cmd_usage("wanted: the file, and perhaps the one to make");
	if (n_changes == 0)
		cmd_usage("nothing to do: no --set, --add, --rename or "
		    "--delete");
	out = argc - first == 2 ? argv[first + 1] : path;
	keep_values(out);
	g = cmd_source(path, PICO_GGUF_ALONE, true);
	w = pico_writer_new(&err);
	if (w == NULL)
		cmd_die(&err);
	for (i = 0; i < pico_gguf_n_kv(g); i++)
		if (pico_writer_copy(w, pico_gguf_kv(g, i), &err) < 0)
			cmd_die(&err);
	for (i = 0; i < n_changes; i++)
		apply(w, &changes[i], path);
	check(path, w);
	if (out == path || cmd_same_file(out, path))
		patched = pico_writer_patch(w, g, &err);
	if (patched < 0)
		cmd_die(&err);
	if (patched == 0)
		copy(w, g, out);
	if (verbose)
		(void)fprintf(stderr, "done:\t%s\n", patched > 0 ?
		    "in place" : "as a copy");
	for (i = 0; i < n_changes; i++)
		free(changes[i].key);
	free(changes);
	pico_writer_free(w);
	pico_gguf_close(g);
	return cmd_finish(0);
}
