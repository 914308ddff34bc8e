/* SPDX-License-Identifier: MIT */
/* What pico-convert is made of: JSON with limits, headers of weights, the order of
   rows. Whole folders: convert.bats. */
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/convert/convert.h"
#include "colliding.h"

static int n_run, n_failed;

static void
check(bool ok, const char *what, const char *got)
{
	n_run++;
	n_failed += !ok;
	if (ok)
		printf("ok %d - %s\n", n_run, what);
	else
		printf("not ok %d - %s\n# got: %s\n", n_run, what, got);
}

/* ---- JSON ---- */

/* "" or the message. */
static const char *
json_fault(const char *text, size_t n, uint32_t depth, uint32_t nodes)
{
	static struct pico_err err;
	struct json j;

	err = (struct pico_err){0};
	if (json_read_limited(&j, text, n, (struct json_limits){ depth, nodes },
	    &err) == 0) {
		(void)json_index(&j, &err);
		json_free(&j);
	}
	return err.msg;
}

/* An object with the first n colliding keys. */
static const char *
same_hash(size_t n)
{
	static char name[COLLIDING][16], text[COLLIDING * 22 + 2];
	size_t len = 0, i;

	colliding(0, name);
	for (i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof text - len,
		    "%c\"%.16s\":1", i == 0 ? '{' : ',', name[i]);
	text[len++] = '}';
	return json_fault(text, len, 9, UINT32_MAX - 1);
}

static void
check_json(void)
{
	static const struct {
		const char *text;
		uint32_t depth, nodes;
		const char *fault;
	} cases[] = {
		{ "[[[1]]]", 3, 4, "" },
		{ "[[[1]]]", 2, 4, "less nesting" },
		{ "[[[1]]]", 3, 3, "fewer values" },
		{ "[[1],[1],[1]]", 2, 99, "" },
		{ "{\"a\":1,\"b\":{\"a\":1}}", 9, 9, "" },
		{ "{\"a\":1,\"b\":2,\"a\":3}", 9, 9, "'a' is there twice" },
		{ "{\"a\":1,\"\\u0061\":3}", 9, 9, "'a' is there twice" },
		{ "[{\"a\":1},{\"a\":1}]", 9, 9, "" },
		{ "\"\\ud83d\\ude42\" \n", 9, 9, "" },
		{ "\"\\ud83d\"", 9, 9, "surrogate" },
		{ "\"\\ude42\"", 9, 9, "surrogate" },
		{ "{} x", 9, 9, "the end" },
		{ "01", 9, 9, "the end" },
		{ "NaN", 9, 9, "a value" },
		{ "[1,]", 9, 9, "a value" },
		{ "", 9, 9, "a value" },
	};
	const char *got;
	struct json j;
	uint32_t node;
	size_t i;

	for (i = 0; i < COUNT(cases); i++) {
		got = json_fault(cases[i].text, strlen(cases[i].text),
		    cases[i].depth, cases[i].nodes);
		check(*cases[i].fault == '\0' ? *got == '\0' :
		    strstr(got, cases[i].fault) != NULL, cases[i].text, got);
	}
	got = json_fault("{}\0", 3, 9, 9);
	check(strstr(got, "the end") != NULL, "a NUL is no blank", got);
	(void)json_read(&j, "{\"a\":{\"b\":1},\"b\":2}", 19, NULL);
	(void)json_index(&j, NULL);
	node = json_find(&j, 0, str_of("b"));
	check(node != JSON_NONE && *j.node[node].text.p == '2', "a key of the "
	    "object that was asked", "another");
	check(json_find(&j, 0, str_of("c")) == JSON_NONE &&
	    json_find(&j, node, str_of("b")) == JSON_NONE, "no key", "one");
	json_free(&j);
	got = same_hash(HASH_PROBES);
	check(*got == '\0', "some keys of one hash", got);
	got = same_hash(COLLIDING);
	check(strcmp(got, "keys have the same hash, more than 256 of them") ==
	    0, "too many keys of one hash", got);
}

/* ---- headers ---- */

static const char *
header_fault(const char *dir, const char *header, size_t n_data)
{
	static struct pico_err err;
	struct st_set s = {0};
	uint64_t n = strlen(header);
	char path[200];
	FILE *f;

	(void)snprintf(path, sizeof path, "%s/model.safetensors", dir);
	f = fopen(path, "wb");
	if (f == NULL)
		return "cannot write";
	(void)fwrite(&n, 8, 1, f);
	(void)fwrite(header, 1, (size_t)n, f);
	while (n_data-- > 0)
		(void)putc(0, f);
	(void)fclose(f);
	err = (struct pico_err){0};
	(void)st_open(&s, dir, &err);
	st_close(&s);
	(void)unlink(path);
	return err.msg;
}

#define T(name, type, shape, at) "\"" name "\":{\"dtype\":\"" type \
	"\",\"shape\":" shape ",\"data_offsets\":" at "}"

static void
check_headers(void)
{
	static const struct {
		const char *header;
		size_t data;
		const char *fault;
	} cases[] = {
		{ "{}", 0, "" },
		{ "{}   ", 0, "" },
		{ " {}", 0, "begin with" },
		{ "[]", 0, "begin with" },
		{ "{}", 1, "1 bytes of data" },
		{ "{" T("a", "F32", "[2,3]", "[0,24]") "}", 24, "" },
		{ "{" T("a", "F32", "[]", "[0,4]") "}", 4, "" },
		{ "{" T("a", "F32", "[0]", "[0,0]") "}", 0, "" },
		{ "{" T("b", "U8", "[3]", "[2,5]") ","
		  T("a", "F16", "[1]", "[0,2]") "}", 5, "" },
		{ "{" T("b", "U8", "[3]", "[3,6]") ","
		  T("a", "F16", "[1]", "[0,2]") "}", 6, "begins at byte 3" },
		{ "{" T("b", "U8", "[3]", "[1,4]") ","
		  T("a", "F16", "[1]", "[0,2]") "}", 4, "begins at byte 1" },
		{ "{" T("a", "F32", "[2.0]", "[0,8]") "}", 8, "no shape" },
		{ "{" T("a", "F32", "[-2]", "[0,8]") "}", 8, "no shape" },
		{ "{" T("a", "F32", "2", "[0,8]") "}", 8, "no shape" },
		{ "{" T("a", "F32", "[18446744073709551616]", "[0,8]") "}", 8,
		  "no shape" },
		{ "{" T("a", "F32", "[4611686018427387904]", "[0,0]") "}", 0,
		  "larger than any file" },
		{ "{" T("a", "F32", "[2]", "[0]") "}", 8, "data_offsets" },
		{ "{" T("a", "F32", "[2]", "[0,4,8]") "}", 8, "data_offsets" },
		{ "{" T("a", "F4", "[2]", "[0,8]") "}", 8, "unknown dtype" },
		{ "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
		  "no dtype" },
		{ "{\"a\":5}", 0, "is a number" },
		{ "{\"__metadata__\":{\"a\":\"b\"}}", 0, "" },
		{ "{\"__metadata__\":{\"a\":1}}", 0, "__metadata__" },
		{ "{\"__metadata__\":[]}", 0, "__metadata__" },
	};
	char dir[] = "/tmp/pico-convert-XXXXXX";
	const char *got;
	size_t i;

	if (mkdtemp(dir) == NULL) {
		check(false, "a directory", "none");
		return;
	}
	for (i = 0; i < COUNT(cases); i++) {
		got = header_fault(dir, cases[i].header, cases[i].data);
		check(*cases[i].fault == '\0' ? *got == '\0' :
		    strstr(got, cases[i].fault) != NULL, cases[i].header, got);
	}
	(void)rmdir(dir);
}

/* ---- rows ---- */

/* Each row of the source is taken once. */
static void
check_rows(void)
{
	struct sizes s = {0};
	enum row_map map;
	uint64_t seen, r;
	bool ok;

	SIZE(&s, 'H') = 4;
	SIZE(&s, 'N') = 6;
	SIZE(&s, 'M') = 2;
	SIZE(&s, 'Q') = 24;
	SIZE(&s, 'K') = 8;
	SIZE(&s, 'X') = 5;
	for (map = ROWS_SAME; map <= ROWS_GROUPS; map++) {
		uint64_t n = map == ROWS_GROUPS ? 40 : map == ROWS_HEADS ? 60 :
		    24;

		if (map == ROWS_HEADS)
			n = 3 * 24;
		for (seen = 0, ok = n <= 64, r = 0; r < n && ok; r++) {
			uint64_t from = plan_row(&s, map, r);

			ok = from < n && !(seen >> from & 1);
			seen |= (uint64_t)1 << from;
		}
		if (n > 64) {
			/* too many for a word: the ends and one between */
			ok = plan_row(&s, map, 0) == 0 &&
			    plan_row(&s, map, 24) == 4 &&
			    plan_row(&s, map, 71) == 71;
		}
		check(ok, "rows in another order", "some twice");
	}
	check(plan_row(&s, ROWS_PAIRS, 1) == 2 &&
	    plan_row(&s, ROWS_PAIRS, 2) == 1, "pairs", "others");
	check(plan_row(&s, ROWS_GROUPS_V, 4) == 36 &&
	    plan_row(&s, ROWS_GROUPS_K, 5) == 34 &&
	    plan_row(&s, ROWS_GROUPS_Q, 12) == 20, "groups", "others");
	check(plan_row(&s, ROWS_GATE, 6) == 11 &&
	    plan_row(&s, ROWS_UP, 6) == 16, "halves", "others");
}

/* ---- what is known ---- */

static void
check_table(void)
{
	char names[64];
	const struct class *c;
	const struct name_row *row;
	const char *p = class_names(), *end;
	bool ok = true;

	/* each has what plan.c takes for granted */
	for (; *p != '\0'; p = *end == '\0' ? end : end + 2) {
		end = p + strcspn(p, ",");
		(void)snprintf(names, sizeof names, "%.*s", (int)(end - p), p);
		c = class_find(str_of(names));
		if (c == NULL) {
			(void)snprintf(names, sizeof names, "%.*sForCausalLM",
			    (int)(end - p), p);
			c = class_find(str_of(names));
		}
		ok = c != NULL && c->global != NULL && c->layer != NULL &&
		    c->settings != NULL && c->act != NULL && c->eps != NULL &&
		    (c->context != NULL || c->context_fixed > 0) &&
		    strcmp(c->global[0].to, "token_embd") == 0;
		for (row = ok ? c->layer : NULL; ok && row->to != NULL; row++)
			ok = row->from != NULL && strspn(row->shape,
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
			    strlen(row->shape);
		if (!ok)
			break;
	}
	check(ok, "all classes are complete", names);
}

int
main(void)
{
	check_json();
	check_headers();
	check_rows();
	check_table();
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
