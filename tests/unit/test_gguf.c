/* SPDX-License-Identifier: MIT */
/* The GGUF reader, on files written here. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/base/base.h"

static int n_tests, n_failed;

static void
ok(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++n_tests, what);
	n_failed += !good;
}

/* ---- writing ----------------------------------------------------------- */

static char path[] = "/tmp/pico-test-gguf-XXXXXX";
static FILE *out;
static bool v1;		/* counts have 4 bytes */

static void
bytes(const void *p, size_t n)
{
	(void)fwrite(p, 1, n, out);
}

static void
u32(uint32_t v)
{
	bytes(&v, sizeof v);
}

static void
u64(uint64_t v)
{
	bytes(&v, sizeof v);
}

static void
count(uint64_t v)
{
	bytes(&v, v1 ? 4 : 8);
}

static void
str(const char *s)
{
	count(strlen(s));
	bytes(s, strlen(s));
}

static void
start(uint32_t version, uint64_t n_kv, uint64_t n_tensors)
{
	out = fopen(path, "wb");
	if (out == NULL) {
		printf("Bail out! cannot write %s\n", path);
		exit(1);
	}
	v1 = version == 1;
	bytes("GGUF", 4);
	u32(version);
	count(n_tensors);
	count(n_kv);
}

static void
kv(const char *key, uint32_t type)
{
	str(key);
	u32(type);
}

/* Up to two dimensions; b = 0: one. */
static void
tensor(const char *name, uint32_t type, uint64_t a, uint64_t b, uint64_t offset)
{
	str(name);
	u32(b > 0 ? 2 : 1);
	count(a);
	if (b > 0)
		count(b);
	u32(type);
	u64(offset);
}

static void
zeros(size_t n)
{
	for (; n > 0; n--)
		(void)putc(0, out);
}

static struct pico_err err;

static struct pico_gguf *
finish(unsigned flags)
{
	struct pico_gguf *g;

	(void)fclose(out);
	err = (struct pico_err){0};
	(void)pico_gguf_open(&g, path, flags, &err);
	return g;
}

/* The file just written must be refused with these words. */
static void
refused(const char *words)
{
	struct pico_gguf *g = finish(0);

	ok(g == NULL && err.status == PICO_ERROR &&
	    strstr(err.msg, words) != NULL, words);
	if (strstr(err.msg, words) == NULL)
		printf("# %s\n", err.msg);
	pico_gguf_close(g);
}

/* ---- reading ----------------------------------------------------------- */

static void
check_values(uint32_t version)
{
	const struct pico_kv *a;
	struct pico_gguf *g;
	struct pico_str s = {0};
	uint64_t pos = 0;
	int64_t i = -1;
	double r = -1;
	bool b = false;
	char what[40];

	start(version, 9, 0);
	kv("u8", PICO_KV_U8);
	bytes("\310", 1);
	kv("i32", PICO_KV_I32);
	u32((uint32_t)-5);
	kv("f32", PICO_KV_F32);
	u32(0x3fc00000);
	kv("yes", PICO_KV_BOOL);
	bytes("\1", 1);
	kv("one", PICO_KV_U32);
	u32(1);
	kv("s", PICO_KV_STR);
	str("text");
	kv("empty", PICO_KV_STR);
	str("");
	kv("strs", PICO_KV_ARR);
	u32(PICO_KV_STR);
	count(3);
	str("a");
	str("");
	str("ccc");
	kv("nums", PICO_KV_ARR);
	u32(PICO_KV_I16);
	count(2);
	bytes("\1\0\377\377", 4);
	g = finish(0);
	(void)snprintf(what, sizeof what, "version %d", (int)version);
	ok(g != NULL && pico_gguf_n_kv(g) == 9, what);
	if (g == NULL)
		return;
	ok(pico_gguf_int(g, "u8", 0, 255, &i, &err) == 1 && i == 200, "u8");
	ok(pico_gguf_int(g, "i32", -9, 0, &i, &err) == 1 && i == -5, "i32");
	ok(pico_gguf_real(g, "f32", &r, &err) == 1 && r == 1.5, "f32");
	ok(pico_gguf_bool(g, "yes", &b, &err) == 1 && b, "bool");
	b = false;
	ok(pico_gguf_bool(g, "one", &b, &err) == 1 && b, "1 is a bool");
	ok(pico_gguf_str(g, "s", &s, &err) == 1 && pico_str_is(s, "text"),
	    "str");
	ok(pico_gguf_str(g, "empty", &s, &err) == 1 && s.n == 0, "empty str");
	a = pico_gguf_find(g, "strs");
	ok(a != NULL && a->n == 3 &&
	    pico_str_is(pico_kv_str_next(a, &pos), "a") &&
	    pico_str_is(pico_kv_str_next(a, &pos), "") &&
	    pico_str_is(pico_kv_str_next(a, &pos), "ccc") && pos == a->bytes,
	    "array of strings");
	a = pico_gguf_find(g, "nums");
	ok(a != NULL && pico_kv_int_at(a, 0) == 1 &&
	    pico_kv_int_at(a, 1) == -1 && pico_kv_real_at(a, 1) == -1.0,
	    "array of numbers");

	i = 77;
	ok(pico_gguf_int(g, "none", 0, 9, &i, &err) == 0 && i == 77 &&
	    err.status == PICO_OK, "a missing key leaves the value alone");
	ok(pico_gguf_int(g, "u8", 0, 199, &i, &err) == -1 &&
	    strstr(err.msg, "key 'u8' is u8 200, not a whole number between 0 "
	    "and 199") != NULL, "out of range");
	err = (struct pico_err){0};
	ok(pico_gguf_int(g, "s", 0, 9, &i, &err) == -1 &&
	    strstr(err.msg, "key 's' is str 'text'") != NULL, "a string");
	err = (struct pico_err){0};
	ok(pico_gguf_bool(g, "i32", &b, &err) == -1, "-5 is no bool");
	ok(pico_gguf_real(g, "u8", &r, &err) == -1, "u8 is no real");
	ok(pico_gguf_str(g, "nums", &s, &err) == -1, "an array is no string");
	pico_gguf_close(g);
}

static void
check_big_numbers(void)
{
	struct pico_gguf *g;
	const struct pico_kv *k;
	int64_t i = 0;

	start(3, 3, 0);
	kv("big", PICO_KV_U64);
	u64(UINT64_MAX);
	kv("inf", PICO_KV_F64);
	u64(0x7ff0000000000000);
	kv("nan", PICO_KV_F64);
	u64(0x7ff8000000000000);
	g = finish(0);
	k = pico_gguf_find(g, "big");
	ok(pico_gguf_int(g, "big", 0, INT64_MAX, &i, &err) == -1 &&
	    strstr(err.msg, "18446744073709551615") != NULL,
	    "u64 that no int64 can hold");
	ok(pico_kv_int_at(k, 0) == INT64_MAX &&
	    pico_kv_real_at(k, 0) == 0x1p64, "it saturates");
	ok(pico_kv_int_at(pico_gguf_find(g, "inf"), 0) == INT64_MAX &&
	    pico_kv_int_at(pico_gguf_find(g, "nan"), 0) == 0,
	    "infinity and NaN as integers");
	pico_gguf_close(g);
}

/* depth arrays in each other, the innermost empty */
static void
nested(unsigned depth)
{
	start(3, 2, 0);
	kv("n", PICO_KV_ARR);
	for (; depth > 1; depth--) {
		u32(PICO_KV_ARR);
		u64(1);
	}
	u32(PICO_KV_U8);
	u64(0);
	kv("after", PICO_KV_U8);
	zeros(1);
}

static void
check_nested(void)
{
	struct pico_gguf *g;
	struct pico_kv k;
	uint64_t pos;
	unsigned depth;

	nested(PICO_KV_DEPTH);
	g = finish(0);
	ok(g != NULL && pico_gguf_find(g, "after") != NULL, "16 deep");
	k = *pico_gguf_kv(g, 0);
	for (depth = 1; k.elem == PICO_KV_ARR; depth++) {
		pos = 0;
		k = pico_kv_arr_next(&k, &pos);
	}
	ok(depth == PICO_KV_DEPTH && k.n == 0 && k.elem == PICO_KV_U8,
	    "walked to the innermost");
	pico_gguf_close(g);
	nested(PICO_KV_DEPTH + 1);
	refused("array nesting at offset");
}

static void
check_tensors(void)
{
	struct pico_gguf *g;
	const struct pico_tensor *t;

	start(3, 1, 3);
	kv("general.alignment", PICO_KV_U32);
	u32(8);
	tensor("c", 0, 3, 0, 8);
	tensor("a", 8, 32, 2, 24);
	tensor("b", 24, 1, 0, 0);
	zeros((size_t)-ftell(out) & 7);
	zeros(24 + 68);
	g = finish(0);
	t = g != NULL ? pico_gguf_find_tensor(g, "a") : NULL;
	ok(t != NULL && t->n_dims == 2 && t->dims[0] == 32 && t->dims[1] == 2 &&
	    t->dims[3] == 1 && t->bytes == 68 && t->offset == 24, "a tensor");
	ok(t != NULL && pico_gguf_tensor(g, 0)->data != NULL &&
	    t->data == pico_gguf_tensor(g, 0)->data + 16 &&
	    pico_gguf_info(g, 0).alignment == 8, "its place in the map");
	ok(g != NULL && pico_gguf_find_tensor(g, "d") == NULL &&
	    pico_gguf_find_tensor(g, "") == NULL, "a missing one");
	pico_gguf_close(g);

	start(3, 0, 1);
	tensor("a", 0, 1000, 0, 0);
	g = finish(PICO_GGUF_HEADER);
	ok(g != NULL && pico_gguf_tensor(g, 0)->data == NULL &&
	    pico_gguf_tensor(g, 0)->bytes == 4000,
	    "a header does not need the data");
	pico_gguf_close(g);
	start(3, 0, 1);
	tensor("a", 0, 1000, 0, 0);
	g = finish(PICO_GGUF_PARTIAL);
	ok(g != NULL && err.status == PICO_ERROR &&
	    pico_gguf_n_tensors(g) == 1 &&
	    pico_gguf_tensor(g, 0)->data == NULL,
	    "with PICO_GGUF_PARTIAL the table is kept");
	pico_gguf_close(g);

	start(3, 0, 1);
	tensor("a", 0, UINT64_MAX / 8, 1, 32);
	g = finish(PICO_GGUF_HEADER);
	ok(g == NULL, "a size of 2^63 is refused in a header too");
	pico_gguf_close(g);
	start(3, 0, 2);
	tensor("a", 0, 9, 0, 0);
	tensor("b", 0, 9, 0, 32);
	(void)finish(PICO_GGUF_HEADER);
	ok(strstr(err.msg, "inside tensor 'a' (offset 0, 36 bytes)") != NULL,
	    "so is an overlap");
}

static void
check_refusals(void)
{
	start(3, UINT64_MAX, 0);
	zeros(100);
	refused("kv_count 18446744073709551615 is more than");
	start(3, 0, UINT64_MAX / 33);
	zeros(100);
	refused("tensor_count");
	start(1, 1, 0);
	kv("k", PICO_KV_U64 + 3);
	zeros(20);
	refused("version 1: key 'k' at offset 16: value type 13");
	start(3, 1, 0);
	kv("b", PICO_KV_ARR);
	u32(PICO_KV_BOOL);
	u64(2);
	bytes("\1\2", 2);
	refused("bool value at offset 50 is 2");
	start(3, 1, 1);
	kv("general.alignment", PICO_KV_U32);
	u32(0x80000000);
	tensor("a", 0, 1, 0, 0);
	zeros(100);
	refused("general.alignment is 2147483648");
	start(3, 0, 1);
	tensor("a", 33, 1, 0, 0);
	zeros(100);
	refused("tensor type 33 (Q4_0_8_8) was removed");
	start(3, 0, 1);
	tensor("a", 0, 1, 0, UINT64_MAX - 31);
	zeros(100);
	refused("tensor offset 18446744073709551584");
}

/* Finding must not be quadratic, nor the search for duplicates. */
static void
check_many(void)
{
	enum { N = 200000 };
	struct pico_gguf *g;
	char key[32];
	int64_t v;
	int i, good = 0;

	start(3, N, 0);
	for (i = 0; i < N; i++) {
		(void)snprintf(key, sizeof key, "key.%d", i * 7919 % N);
		kv(key, PICO_KV_U32);
		u32((uint32_t)(i * 7919 % N));
	}
	g = finish(0);
	for (i = 0; g != NULL && i < N; i++) {
		(void)snprintf(key, sizeof key, "key.%d", i);
		good += pico_gguf_int(g, key, i, i, &v, &err) == 1;
	}
	ok(good == N, "200000 keys are all found");
	pico_gguf_close(g);

	start(3, N + 1, 0);
	for (i = 0; i < N; i++) {
		(void)snprintf(key, sizeof key, "key.%d", i);
		kv(key, PICO_KV_U8);
		zeros(1);
	}
	kv("key.77", PICO_KV_U8);
	zeros(1);
	refused("key 'key.77' occurs twice");
}

/* A hole of 5 GB: more than 32 bits can map. */
static void
check_large(void)
{
	struct pico_gguf *g = NULL;

	err = (struct pico_err){0};
	if (truncate(path, (off_t)5 << 30) < 0) {
		printf("ok %d - # skip no file of 5 GB\n", ++n_tests);
		return;
	}
	ok(pico_gguf_open(&g, path, 0, &err) < 0 && (strstr(err.msg,
	    "larger than this build can map") != NULL) ==
	    (sizeof(void *) == 4), "a file of 5 GB");
}

int
main(void)
{
	int fd = mkstemp(path);

	if (fd < 0) {
		printf("Bail out! cannot make %s\n", path);
		return 1;
	}
	(void)close(fd);
	check_values(3);
	check_values(2);
	check_values(1);
	check_big_numbers();
	check_nested();
	check_tensors();
	check_refusals();
	check_many();
	check_large();
	(void)unlink(path);
	printf("1..%d\n", n_tests);
	return n_failed > 0;
}
