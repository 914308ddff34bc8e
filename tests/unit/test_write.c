/* SPDX-License-Identifier: MIT */
/*
 * The GGUF writer: what it wrote is read back; files of the usual form are copied
 * to the same bytes; what cannot be is refused; and a file that was not ended is
 * nowhere.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/gguf/gguf.h"

static int n_tests, n_failed;

static void
ok(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++n_tests, what);
	n_failed += !good;
}

static char dir[] = "/tmp/pico-test-write-XXXXXX";
static char path[100];
static struct pico_err err;

static int
files_there(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static struct pico_writer *
start(void)
{
	err = (struct pico_err){0};
	return pico_writer_new(&err);
}

static bool
said(const char *text)
{
	bool good = err.status == PICO_ERROR && strstr(err.msg, text) != NULL;

	if (!good)
		fprintf(stderr, "said: %s\n", err.msg);
	err = (struct pico_err){0};
	return good;
}

static struct pico_str
str(const char *s)
{
	return (struct pico_str){ s, strlen(s) };
}

/* Keys of every type, and what the reader says of them. */
static void
check_values(void)
{
	static const uint8_t data[64] = { 1, 2, 3 };
	static const float reals[3] = { 1.5f, -2, 3e30f };
	static const struct pico_str strs[3] = { { "a", 1 }, { "", 0 },
	    { "b\0c", 3 } };
	static const uint64_t dims[2] = { 32, 1 };
	struct pico_writer *w = start();
	uint64_t size = 0, pos = 0;
	struct pico_gguf *g;
	const struct pico_kv *kv;
	struct pico_str s;
	struct stat st;
	double real = 0;
	int64_t v = 0;
	bool b = false;

	ok(pico_writer_str(w, "general.architecture", str("x"), &err) == 0 &&
	    pico_writer_int(w, "u8", PICO_KV_U8, 255, &err) == 0 &&
	    pico_writer_int(w, "i16", PICO_KV_I16, -32768, &err) == 0 &&
	    pico_writer_int(w, "u64", PICO_KV_U64, INT64_MAX, &err) == 0 &&
	    pico_writer_int(w, "i64", PICO_KV_I64, INT64_MIN, &err) == 0 &&
	    pico_writer_int(w, "bool", PICO_KV_BOOL, 1, &err) == 0 &&
	    pico_writer_real(w, "f32", PICO_KV_F32, 0.5, &err) == 0 &&
	    pico_writer_real(w, "f64", PICO_KV_F64, 0.1, &err) == 0 &&
	    pico_writer_array(w, "reals", PICO_KV_F32, 3, reals, &err) == 0 &&
	    pico_writer_strs(w, "strs", 3, strs, &err) == 0 &&
	    pico_writer_strs(w, "none", 0, NULL, &err) == 0 &&
	    pico_writer_int(w, "general.alignment", PICO_KV_U32, 64,
	    &err) == 0, "keys of all kinds");
	ok(pico_writer_int(w, "x", PICO_KV_U8, 256, &err) < 0 &&
	    said("key 'x': 256 is not between 0 and 255 (u8)") &&
	    pico_writer_int(w, "x", PICO_KV_I8, -129, &err) < 0 &&
	    said("-129 is not between -128 and 127") &&
	    pico_writer_int(w, "x", PICO_KV_BOOL, 2, &err) < 0 && said("2") &&
	    pico_writer_int(w, "x", PICO_KV_STR, 2, &err) < 0 && said("type") &&
	    pico_writer_int(w, "", PICO_KV_U8, 2, &err) < 0 && said("0 bytes"),
	    "what does not fit is refused");
	ok(pico_writer_int(w, "u8", PICO_KV_U8, 7, &err) == 0 &&
	    pico_writer_delete(w, "none") && !pico_writer_delete(w, "none"),
	    "keys change and go");
	ok(pico_writer_tensor(w, str("a"), TYPE_I8, 1, dims, &err) == 0 &&
	    pico_writer_tensor(w, str("b"), TYPE_Q4_0, 2, dims, &err) == 0,
	    "two tensors");
	ok(pico_writer_size(w, &size, &err) == 0 &&
	    pico_writer_begin(w, path, &err) == 0 &&
	    pico_writer_data(w, data, 30, &err) == 0 &&
	    pico_writer_data(w, data, 20, &err) == 0 && files_there() == 1 &&
	    access(path, F_OK) < 0 && pico_writer_end(w, &err) == 0 &&
	    files_there() == 1 && stat(path, &st) == 0 &&
	    (uint64_t)st.st_size == size, "written");
	pico_writer_free(w);
	ok(pico_gguf_open(&g, path, 0, &err) == 0 &&
	    pico_gguf_n_kv(g) == 11 && pico_gguf_n_tensors(g) == 2 &&
	    pico_gguf_info(g, 0).version == 3 &&
	    pico_gguf_info(g, 0).alignment == 64, "read back");
	if (g == NULL)
		return;
	ok(pico_str_is(pico_gguf_kv(g, 1)->key, "u8") &&
	    pico_gguf_int(g, "u8", 0, 9, &v, &err) == 1 && v == 7 &&
	    pico_gguf_int(g, "i64", INT64_MIN, 9, &v, &err) == 1 &&
	    v == INT64_MIN && pico_gguf_real(g, "f64", &real, &err) == 1 &&
	    real == 0.1 && pico_gguf_bool(g, "bool", &b, &err) == 1 && b,
	    "the same values, in the same order");
	kv = pico_gguf_find(g, "strs");
	(void)pico_kv_str_next(kv, &pos);
	(void)pico_kv_str_next(kv, &pos);
	s = pico_kv_str_next(kv, &pos);
	ok(kv->n == 3 && s.n == 3 && memcmp(s.p, "b\0c", 3) == 0 &&
	    pico_kv_real_at(pico_gguf_find(g, "reals"), 2) == (double)3e30f,
	    "arrays");
	ok(pico_gguf_tensor(g, 1)->n_dims == 2 &&
	    pico_gguf_tensor(g, 1)->offset == 64 &&
	    memcmp(pico_gguf_tensor(g, 0)->data, data, 30) == 0 &&
	    memcmp(pico_gguf_tensor(g, 1)->data, data + 2, 18) == 0,
	    "data, aligned");
	pico_gguf_close(g);
	(void)unlink(path);
}

static void
check_tensors(void)
{
	static const uint64_t bad[4] = { 32, 0, 1, 1 },
	    big[4] = { (uint64_t)1 << 40, (uint64_t)1 << 40, 1, 1 },
	    large[1] = { (uint64_t)1 << 60 }, odd[1] = { 33 }, one[1] = { 1 };
	char name[70];
	struct pico_writer *w = start();

	memset(name, 'n', sizeof name);
	ok(pico_writer_tensor(w, str("a"), TYPE_F32, 2, bad, &err) < 0 &&
	    said("'a': dimension 1 is 0") &&
	    pico_writer_tensor(w, str("a"), TYPE_F32, 2, big, &err) < 0 &&
	    said("dimension 1") &&
	    pico_writer_tensor(w, str("a"), TYPE_F64, 1, large, &err) < 0 &&
	    said("2^63 - 1 bytes") &&
	    pico_writer_tensor(w, str("a"), TYPE_Q4_0, 1, odd, &err) < 0 &&
	    said("rows of 33, not a multiple of the 32 of a Q4_0 block") &&
	    pico_writer_tensor(w, str("a"), 4, 1, one, &err) < 0 &&
	    said("type 4") &&
	    pico_writer_tensor(w, str("a"), TYPE_F32, 5, one, &err) < 0 &&
	    said("5 dimensions") &&
	    pico_writer_tensor(w, (struct pico_str){ name, 65 }, TYPE_F32, 1,
	    one, &err) < 0 && said("65 bytes"), "tensors that cannot be");
	ok(pico_writer_tensor(w, str("a"), TYPE_F32, 1, large, &err) == 0 &&
	    pico_writer_tensor(w, str("b"), TYPE_F32, 1, large, &err) == 0 &&
	    pico_writer_begin(w, path, &err) < 0 && said("2^63") &&
	    files_there() == 0, "too many bytes in all");
	pico_writer_free(w);
	w = start();
	(void)pico_writer_tensor(w, str("a"), TYPE_F32, 1, one, &err);
	(void)pico_writer_tensor(w, str("b"), TYPE_F32, 1, one, &err);
	(void)pico_writer_tensor(w, str("a"), TYPE_F32, 1, one, &err);
	ok(pico_writer_begin(w, path, &err) < 0 &&
	    said("tensor name 'a' occurs twice"), "a name twice");
	pico_writer_free(w);
	w = start();
	(void)pico_writer_int(w, "general.alignment", PICO_KV_U32, 48, &err);
	ok(pico_writer_begin(w, path, &err) < 0 && said("general.alignment"),
	    "an alignment that is none");
	pico_writer_free(w);
}

/* Whether a file is there and holds just this. */
static bool
holds(const char *text)
{
	char buf[100] = "";
	FILE *f = fopen(path, "r");
	size_t n = f != NULL ? fread(buf, 1, sizeof buf - 1, f) : 0;

	if (f != NULL)
		(void)fclose(f);
	return f != NULL && n == strlen(text) && memcmp(buf, text, n) == 0;
}

static void
check_unfinished(void)
{
	static const uint64_t dims[1] = { 100000 };
	static const float data[200000];
	struct pico_writer *w = start();
	FILE *f = fopen(path, "w");
	char link_path[110];

	(void)fputs("old", f);
	(void)fclose(f);
	(void)pico_writer_tensor(w, str("a"), TYPE_F32, 1, dims, &err);
	ok(pico_writer_begin(w, path, &err) == 0 &&
	    pico_writer_data(w, data, 100000, &err) == 0 && holds("old") &&
	    files_there() == 2, "what was there stays meanwhile");
	ok(pico_writer_end(w, &err) < 0 && said("tensor 1 of 1 is not"),
	    "an incomplete file cannot be ended");
	pico_writer_free(w);
	ok(holds("old") && files_there() == 1, "nothing is left of it");
	w = start();
	(void)pico_writer_tensor(w, str("a"), TYPE_F32, 1, dims, &err);
	ok(pico_writer_begin(w, path, &err) == 0 &&
	    pico_writer_data(w, data, 400001, &err) < 0 && said("beyond"),
	    "too much data");
	pico_remove_unfinished();
	ok(files_there() == 1, "removed from outside");
	pico_writer_free(w);
	w = start();
	(void)snprintf(link_path, sizeof link_path, "%s/link", dir);
	ok(symlink("m.gguf", link_path) == 0 &&
	    pico_writer_begin(w, link_path, &err) == 0 &&
	    pico_writer_sync(w, &err) == 0 && holds("old") &&
	    pico_writer_end(w, &err) == 0 && !holds("old") &&
	    files_there() == 2, "through a link, in two steps");
	pico_writer_free(w);
	(void)unlink(link_path);
	(void)unlink(path);
	w = start();
	ok(pico_writer_begin(w, "/dev/null", &err) < 0 &&
	    said("'/dev/null' is not a regular file"),
	    "no regular file");
	pico_writer_free(w);
	w = start();
	ok(pico_writer_begin(w, "/nowhere/at/all", &err) < 0 &&
	    said("cannot write '/nowhere/at/all': No such file"),
	    "no such directory");
	pico_writer_free(w);
}

/* Copies a file; whether the copy has the same bytes. */
static bool
copy(const char *from, const char *to, unsigned flags)
{
	struct pico_writer *w = start();
	struct map a = {0}, b = {0};
	struct pico_gguf *g;
	bool same;
	size_t i;

	if (pico_gguf_open(&g, from, flags, &err) < 0 ||
	    pico_writer_copy_all(w, g, &err) < 0)
		return false;
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		const struct pico_tensor *t = pico_gguf_tensor(g, i);

		if (pico_writer_tensor(w, t->name, t->type, t->n_dims, t->dims,
		    &err) < 0)
			return false;
	}
	if (pico_writer_begin(w, to, &err) < 0)
		return false;
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		const struct pico_tensor *t = pico_gguf_tensor(g, i);

		if (pico_writer_data(w, t->data, t->bytes, &err) < 0)
			return false;
	}
	if (pico_writer_end(w, &err) < 0)
		return false;
	pico_writer_free(w);
	pico_gguf_close(g);
	same = map_open(&a, from, NULL) == 0 && map_open(&b, to, NULL) == 0 &&
	    a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
	map_close(&a);
	map_close(&b);
	return same;
}

/* Those of the usual form come out as they were; of others the copy does. */
static void
check_copies(void)
{
	static const struct {
		const char *name;
		bool usual;
	} file[] = {
		{ "v3_all_types", true }, { "v2_all_types", false },
		{ "v1_layout", false }, { "v3_nested_arrays", true },
		{ "v3_alignment_8", true }, { "v3_alignment_64", true },
		{ "v3_alignment_4096", true }, { "v3_header_only", true },
		{ "v3_no_kv", true }, { "v3_no_trailing_padding", false },
		{ "v3_tensor_gap", false }, { "v3_tensor_order", false },
		{ "tiny_llama", true },
	};
	char from[100], again[100];
	size_t i;
	bool same;

	(void)snprintf(again, sizeof again, "%s/again", dir);
	for (i = 0; i < COUNT(file); i++) {
		(void)snprintf(from, sizeof from, "tests/data/gguf/valid/"
		    "%s.gguf", file[i].name);
		if (access(from, R_OK) < 0)
			(void)snprintf(from, sizeof from, "../shared/"
			    "conformance/gguf/valid/%s.gguf", file[i].name);
		if (access(from, R_OK) < 0)
			continue;
		same = copy(from, path, 0);
		if (err.status != PICO_OK)
			fprintf(stderr, "%s\n", err.msg);
		ok(same == file[i].usual && copy(path, again, 0), from);
	}
	ok(copy("examples/model/pico-tales.gguf", path, 0), "the small model");
	(void)unlink(again);
	(void)unlink(path);
}

int
main(void)
{
	if (mkdtemp(dir) == NULL) {
		printf("Bail out! cannot make %s\n", dir);
		return 1;
	}
	(void)snprintf(path, sizeof path, "%s/m.gguf", dir);
	check_values();
	check_tensors();
	check_unfinished();
	check_copies();
	ok(files_there() == 0, "no file is left");
	(void)rmdir(dir);
	printf("1..%d\n", n_tests);
	return n_failed > 0;
}
