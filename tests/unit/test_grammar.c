/* SPDX-License-Identifier: MIT */
/* Grammars: what they accept, which tokens they allow, what they refuse. */
#include <inttypes.h>

#include "../../lib/base/json.h"

static int n_run, n_failed;
static struct json cases;
static char *text;

static void
check(bool ok, const char *what)
{
	n_failed += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", ++n_run, what);
}

static bool
load(const char *path)
{
	struct pico_err err = {0};
	FILE *f = fopen(path, "rb");
	long n;

	if (f == NULL)
		return false;
	free(text);
	json_free(&cases);
	(void)fseek(f, 0, SEEK_END);
	n = ftell(f);
	rewind(f);
	text = malloc((size_t)n + 1);
	if (text == NULL || fread(text, 1, (size_t)n, f) != (size_t)n ||
	    json_read(&cases, text, (size_t)n, &err) < 0) {
		printf("Bail out! %s: %s\n", path, err.msg);
		exit(1);
	}
	(void)fclose(f);
	return true;
}

static struct pico_str
str(uint32_t object, const char *key)
{
	uint32_t i = json_get(&cases, object, key);

	return i == JSON_NONE ? (struct pico_str){ NULL, 0 } :
	    cases.node[i].text;
}

/* 2: accepted; 1: may become so; 0: not. */
static int
match(struct pico_constraint *c, struct pico_str s)
{
	struct pico_err err = {0};
	struct pico_matcher *m = pico_matcher_new(c, &err);
	int r = pico_matcher_text(m, s.p, s.n, &err);

	if (r == 1 && pico_matcher_can_end(m))
		r = 2;
	pico_matcher_free(m);
	return r;
}

static bool
match_list(struct pico_constraint *c, uint32_t object, const char *key,
    bool accepted, bool begins)
{
	uint32_t list = json_get(&cases, object, key), i;
	bool ok = true;
	char shown[200];
	int r;

	if (list == JSON_NONE)
		return true;
	for (i = cases.node[list].first; i != JSON_NONE;
	    i = cases.node[i].next) {
		r = match(c, cases.node[i].text);
		if ((r == 2) == accepted && (!begins || r == 1))
			continue;
		(void)pico_escape(shown, sizeof shown, cases.node[i].text.p,
		    cases.node[i].text.n);
		printf("# %s: '%s' gives %d\n", key, shown, r);
		ok = false;
	}
	return ok;
}

static void
test_strings(const char *path)
{
	uint32_t i;

	if (!load(path))
		return;
	for (i = cases.node[0].first; i != JSON_NONE; i = cases.node[i].next) {
		struct pico_str g = str(i, "grammar"), name = str(i, "name");
		struct pico_err err = {0};
		struct pico_grammar *p = pico_grammar_parse(g.p, g.n, &err);
		struct pico_constraint *c = p == NULL ? NULL :
		    pico_constraint_new(p, NULL, &err);
		bool want_error = json_get(&cases, i, "expected_error") !=
		    JSON_NONE, ok;
		char what[100];

		ok = (c == NULL) == want_error;
		if (!ok || want_error)
			printf("# %s\n", err.msg);
		if (c != NULL)
			ok = match_list(c, i, "accept", true, false) && ok &&
			    match_list(c, i, "reject", false, false) &&
			    match_list(c, i, "prefix_ok", false, true);
		(void)snprintf(what, sizeof what, "grammar %.*s", (int)name.n,
		    name.p);
		check(ok, what);
		pico_constraint_free(c);
		pico_grammar_free(p);
	}
}

/* ---- tokens ---- */

static bool
read_vocab(const char *dir, struct pico_str name, struct pico_gguf **g,
    struct pico_vocab **v)
{
	struct pico_err err = {0};
	char path[500];

	(void)snprintf(path, sizeof path, "%s/%.*s.gguf", dir, (int)name.n,
	    name.p);
	*v = NULL;
	if (pico_gguf_open(g, path, PICO_GGUF_HEADER, &err) == 0)
		*v = pico_vocab_open(*g, NULL, &err);
	if (*v == NULL)
		printf("# %s: %s\n", path, err.msg);
	return *v != NULL;
}

static bool
same_tokens(uint32_t i, struct pico_constraint *c, int32_t n_vocab)
{
	static float zero[300000];
	struct pico_err err = {0};
	struct pico_matcher *m = pico_matcher_new(c, &err);
	uint32_t list = json_get(&cases, i, "prefix_ids"), k;
	uint64_t h = 0xcbf29ce484222325u;
	int32_t id, n = 0;
	const float *out;
	char buf[20];
	bool ok = true;

	for (k = cases.node[list].first; k != JSON_NONE; k = cases.node[k].next)
		ok = ok && pico_matcher_token(m, (int32_t)strtol(
		    cases.node[k].text.p, NULL, 10), &err) == 1;
	out = ok ? pico_matcher_mask(m, zero, &err) : NULL;
	for (id = 0; out != NULL && id < n_vocab; id++) {
		int len = snprintf(buf, sizeof buf, ",%" PRId32, id), at;

		if (out[id] != 0)
			continue;
		for (at = n == 0; at < len; at++)
			h = (h ^ (unsigned char)buf[at]) * 0x100000001b3u;
		n++;
	}
	pico_matcher_free(m);
	(void)snprintf(buf, sizeof buf, "%016" PRIx64, h);
	if (pico_str_is(str(i, "fnv1a64_of_ids_joined_by_comma"), buf))
		return true;
	printf("# %d tokens, %.*s wanted\n", n, (int)str(i, "n_allowed").n,
	    str(i, "n_allowed").p);
	return false;
}

static void
test_tokens(const char *path, const char *vocabs)
{
	struct pico_str last = { NULL, 0 };
	struct pico_gguf *file = NULL;
	struct pico_vocab *v = NULL;
	uint32_t i;

	if (!load(path))
		return;
	for (i = cases.node[0].first; i != JSON_NONE; i = cases.node[i].next) {
		struct pico_str g = str(i, "grammar"), name = str(i, "name");
		struct pico_err err = {0};
		struct pico_grammar *p = pico_grammar_parse(g.p, g.n, &err);
		struct pico_constraint *c;
		char what[100];

		if (last.p == NULL || pico_str_compare(last,
		    str(i, "vocab")) != 0) {
			pico_vocab_close(v);
			pico_gguf_close(file);
			last = str(i, "vocab");
			if (!read_vocab(vocabs, last, &file, &v))
				return;
		}
		c = p == NULL ? NULL : pico_constraint_new(p, v, &err);
		(void)snprintf(what, sizeof what, "tokens %.*s", (int)name.n,
		    name.p);
		check(c != NULL && same_tokens(i, c, pico_vocab_n(v)), what);
		pico_constraint_free(c);
		pico_grammar_free(p);
	}
	pico_vocab_close(v);
	pico_gguf_close(file);
}

int
main(int argc, char **argv)
{
	if (argc > 1)
		test_strings(argv[1]);
	if (argc > 3)
		test_tokens(argv[2], argv[3]);
	printf("1..%d\n", n_run);
	json_free(&cases);
	free(text);
	return n_failed > 0;
}
