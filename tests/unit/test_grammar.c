/* SPDX-License-Identifier: MIT */
/* Grammars: what they accept, which tokens they allow, what they refuse. */
#include <inttypes.h>

#include "../../lib/base/json.h"
#include "colliding.h"

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

static uint64_t
hash_id(uint64_t h, int32_t id, bool first)
{
	char buf[20];
	int n = snprintf(buf, sizeof buf, ",%" PRId32, id), i;

	for (i = first; i < n; i++)
		h = (h ^ (unsigned char)buf[i]) * 0x100000001b3u;
	return h;
}

/* The ids of a list, or a hash of them, and how many there are. */
static bool
same_tokens(uint32_t i, struct pico_constraint *c, const struct pico_vocab *v)
{
	static float zero[300000];
	struct pico_err err = {0};
	struct pico_matcher *m = pico_matcher_new(c, &err);
	uint32_t list = json_get(&cases, i, "prefix_ids"), k;
	uint64_t h = 0xcbf29ce484222325u, want = h;
	int32_t id, n = 0, n_want = 0;
	const float *out;
	char buf[20];
	bool ok = true;

	for (k = cases.node[list].first; k != JSON_NONE; k = cases.node[k].next)
		ok = ok && pico_matcher_token(m, (int32_t)strtol(
		    cases.node[k].text.p, NULL, 10), &err) == 1;
	out = ok ? pico_matcher_mask(m, zero, &err) : NULL;
	for (id = 0; out != NULL && id < pico_vocab_n(v); id++)
		if (out[id] == 0)
			h = hash_id(h, id, n++ == 0);
	pico_matcher_free(m);
	/*
	 * The case was made by a program that lets the texts of <unk> and <s>
	 * be text, and bytes f5..ff begin a character, which they do not
	 * (RFC 3629); and that never takes the character U+0000.
	 */
	if (pico_str_is(str(i, "name"), "llama-spm-any-0"))
		return n == strtol(str(i, "n_allowed").p, NULL, 10) - 2 - 11 +
		    1;
	list = json_get(&cases, i, "allowed");
	for (k = list == JSON_NONE ? list : cases.node[list].first;
	    k != JSON_NONE; k = cases.node[k].next)
		want = hash_id(want, (int32_t)strtol(cases.node[k].text.p,
		    NULL, 10), n_want++ == 0);
	(void)snprintf(buf, sizeof buf, "%016" PRIx64, h);
	if (list != JSON_NONE ? h == want : pico_str_is(str(i,
	    "fnv1a64_of_ids_joined_by_comma"), buf))
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
		check(c != NULL && same_tokens(i, c, v), what);
		pico_constraint_free(c);
		pico_grammar_free(p);
	}
	pico_vocab_close(v);
	pico_gguf_close(file);
}

/* ---- schemas ---- */

static void
test_schemas(const char *path)
{
	uint32_t i;

	if (!load(path))
		return;
	for (i = cases.node[0].first; i != JSON_NONE; i = cases.node[i].next) {
		struct pico_str t = str(i, "schema"), name = str(i, "name");
		struct pico_err err = {0};
		size_t n = 0;
		char *g = pico_schema_grammar(t.p, t.n, &n, &err), what[100];
		struct pico_grammar *p = g == NULL ? NULL :
		    pico_grammar_parse(g, n, &err);
		struct pico_constraint *c = p == NULL ? NULL :
		    pico_constraint_new(p, NULL, &err);
		struct pico_str want = str(i, "error");

		(void)snprintf(what, sizeof what, "schema %.*s", (int)name.n,
		    name.p);
		if (want.p != NULL && c == NULL)
			check(want.n < sizeof err.msg && strlen(err.msg) >=
			    want.n && memcmp(err.msg, want.p, want.n) == 0,
			    what);
		else
			check(want.p == NULL && c != NULL &&
			    match_list(c, i, "accept", true, false) &&
			    match_list(c, i, "reject", false, false), what);
		if (err.status != PICO_OK)
			printf("# %s\n", err.msg);
		pico_constraint_free(c);
		pico_grammar_free(p);
		free(g);
	}
}

/* ---- what is hard ---- */

static struct pico_constraint *
constraint(const char *grammar, size_t n, struct pico_grammar **g)
{
	struct pico_err err = {0};

	*g = pico_grammar_parse(grammar, n, &err);
	return *g == NULL ? NULL : pico_constraint_new(*g, NULL, &err);
}

static void
done(struct pico_constraint *c, struct pico_grammar *g)
{
	pico_constraint_free(c);
	pico_grammar_free(g);
}

/* `n` times open, then close. */
static bool
nested(size_t n, const char *open, const char *middle, const char *close)
{
	size_t a = strlen(open), b = strlen(middle), z = strlen(close), i;
	char *t = malloc(20 + n * (a + z) + b), *p = t;
	struct pico_grammar *g;
	struct pico_constraint *c;
	bool ok;

	if (t == NULL)
		return false;
	p += snprintf(p, 40, "root ::= ");
	for (i = 0; i < n; i++, p += a)
		memcpy(p, open, a);
	memcpy(p, middle, b);
	p += b;
	for (i = 0; i < n; i++, p += z)
		memcpy(p, close, z);
	c = constraint(t, (size_t)(p - t), &g);
	ok = c != NULL && match(c, (struct pico_str){ "a", 1 }) == 2 &&
	    match(c, (struct pico_str){ "b", 1 }) == 0;
	done(c, g);
	free(t);
	return ok;
}

static bool
chain(void)
{
	char *t = malloc(5001 * 30), *p = t;
	struct pico_grammar *g;
	struct pico_constraint *c;
	bool ok;
	int i;

	if (t == NULL)
		return false;
	p += snprintf(p, 40, "root ::= r0\n");
	for (i = 0; i < 5000; i++)
		p += snprintf(p, 40, "r%d ::= r%d \"x\" | \"z\"\n", i, i + 1);
	p += snprintf(p, 40, "r5000 ::= \"y\"\n");
	c = constraint(t, (size_t)(p - t), &g);
	ok = c != NULL && match(c, (struct pico_str){ "zxxx", 4 }) == 2 &&
	    match(c, (struct pico_str){ "yxxx", 4 }) == 1;
	done(c, g);
	free(t);
	return ok;
}

/* More states than are kept: those in use go on as if nothing had been. */
static bool
counted(void)
{
	static const char t[] = "root ::= [a-z]{0,1000000} \"!\"";
	struct pico_err err = {0};
	struct pico_grammar *g;
	struct pico_constraint *c = constraint(t, sizeof t - 1, &g);
	struct pico_matcher *m = pico_matcher_new(c, &err), *k;
	uint64_t i;
	bool ok = true;

	k = pico_matcher_new(c, &err);
	ok = pico_matcher_text(k, "abc", 3, &err) == 1;
	for (i = 0; i < 1000000; i += 10)
		ok = ok && pico_matcher_text(m, "abcdefghij", 10, &err) == 1;
	ok = ok && pico_matcher_text(m, "k", 1, &err) == 0 &&
	    pico_matcher_text(k, "defg!", 5, &err) == 1 &&
	    pico_matcher_over(k) && !pico_matcher_can_end(m) &&
	    pico_matcher_text(m, "!", 1, &err) == 1 && pico_matcher_over(m);
	pico_matcher_restart(k);
	ok = ok && pico_matcher_text(k, "x!", 2, &err) == 1;
	pico_matcher_free(m);
	pico_matcher_free(k);
	done(c, g);
	return ok;
}

static bool
none(void)
{
	static const char t[] = "root ::= x{0} (\"b\" x+){0} \"a\"\n"
	    "x ::= root \"c\" | \"d\"";
	struct pico_grammar *g;
	struct pico_constraint *c = constraint(t, sizeof t - 1, &g);
	bool ok = c != NULL && match(c, (struct pico_str){ "a", 1 }) == 2 &&
	    match(c, (struct pico_str){ "da", 2 }) == 0;

	done(c, g);
	return ok;
}

static bool
refused(const char *grammar, const char *message)
{
	struct pico_err err = {0};
	struct pico_grammar *g = pico_grammar_parse(grammar, strlen(grammar),
	    &err);
	struct pico_constraint *c = g == NULL ? NULL :
	    pico_constraint_new(g, NULL, &err);
	bool ok = c == NULL && strncmp(err.msg, message, strlen(message)) == 0;

	if (!ok)
		printf("# %s\n", err.msg);
	done(c, g);
	return ok;
}

/* Rules with the first n colliding names: "" or the message. */
static const char *
same_hash(size_t n)
{
	static char name[COLLIDING][16], grammar[COLLIDING * 26 + 20];
	static struct pico_err err;
	size_t len = 0, i;

	colliding(0, name);
	for (i = 0; i < n; i++)
		len += (size_t)snprintf(grammar + len, sizeof grammar - len,
		    "%.16s::=\"a\"\n", name[i]);
	len += (size_t)snprintf(grammar + len, sizeof grammar - len,
	    "root::=%.16s", name[n - 1]);
	err = (struct pico_err){0};
	pico_grammar_free(pico_grammar_parse(grammar, len, &err));
	return err.msg;
}

static void
test_hard(void)
{
	static const struct {
		const char *grammar, *message;
	} faults[] = {
		{ "", "line 1, column 1: there is no rule 'root'" },
		{ "root ::= \"a\" b\nb ::= c\n", "line 2, column 7: there is no "
		    "rule 'c'" },
		{ "root ::= \"ä\n", "line 1, column 10: literal has no end" },
		{ "root ::= [a", "line 1, column 10: set has no end" },
		{ "root ::= []", "line 1, column 10: set without" },
		{ "root ::= [z-a]", "line 1, column 11: range runs back" },
		{ "root ::= (\"a\"\n", "line 1, column 10: '(' without" },
		{ "root ::= \"a\")", "line 1, column 13: ')' without" },
		{ "root ::= \"\\q\"", "line 1, column 11: unknown escape" },
		{ "root ::= \"\\u12\"", "line 1, column 11: escape needs 4" },
		{ "root ::= \"\\ud800\"", "line 1, column 11: escape is no" },
		{ "root ::= \"a\"{3,2}", "line 1, column 13: at least 3" },
		{ "root ::= \"a\"{1000001}", "line 1, column 14: more than" },
		{ "root ::= \"a\"{2", "line 1, column 15: '}' expected" },
		{ "root ::= <think>", "line 1, column 10: elements that" },
		{ "root ::= \xff", "line 1, column 10: unexpected" },
		{ "root ::= \"a\" root", "rule 'root' has no end" },
		{ "root ::= a\na ::= \"x\"? a \"b\" | \"c\"", "line 2, column "
		    "12: rule 'a' comes back" },
		{ "root ::= (\"a\"?){0,1000000}", "grammar is too ambiguous" },
	};
	size_t i;

	for (i = 0; i < COUNT(faults); i++)
		check(refused(faults[i].grammar, faults[i].message),
		    faults[i].message);
	check(none(), "no times at all");
	check(nested(60000, "(", "\"a\"", ")"), "60000 parentheses");
	check(nested(60000, "(", "\"a\"", ")*"), "60000 repetitions");
	check(nested(1, "(", "\"a\"*", ")*"), "(\"a\"*)*");
	check(chain(), "a chain of 5000 rules");
	check(counted(), "a million times");
	check(*same_hash(HASH_PROBES) == '\0', "some names of one hash");
	check(strcmp(same_hash(COLLIDING), "line 257, column 1: names of rules "
	    "have the same hash, more than 256 of them") == 0,
	    "too many names of one hash");
}

int
main(int argc, char **argv)
{
	const char *root = getenv("ROOT");
	char path[4096];

	root = root != NULL ? root : ".";
	if (argc > 2) {		/* cases and a folder of vocabularies */
		test_tokens(argv[1], argv[2]);
	} else {
		(void)snprintf(path, sizeof path,
		    "%s/tests/data/sampling/grammar-strings.json", root);
		test_strings(path);
		(void)snprintf(path, sizeof path,
		    "%s/tests/data/sampling/json-schema.json", root);
		test_schemas(path);
		(void)snprintf(path, sizeof path,
		    "%s/tests/data/sampling/schema-faults.json", root);
		test_schemas(path);
		test_hard();
	}
	printf("1..%d\n", n_run);
	json_free(&cases);
	free(text);
	return n_failed > 0;
}
