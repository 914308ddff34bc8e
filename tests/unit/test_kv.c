/* SPDX-License-Identifier: MIT */
/*
 * The KV cache: copied, cut, saved and loaded, what comes after must be the
 * bits that come without. KV files with any byte changed, cut or too long are
 * refused and leave the sequence empty.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/base/base.h"

#define N_IDS 20

static int n_run, n_failed;


static void
check(bool ok, const char *what, const char *got)
{
	n_run++;
	n_failed += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", n_run, what);
	if (!ok)
		printf("# got: %s\n", got);
}

static struct pico_gguf *gguf;
static struct pico_model *model;
static size_t n_vocab;
static int32_t ids[N_IDS];

static void
open_model(const char *path)
{
	struct pico_err err = {0};
	size_t i;

	if (pico_gguf_open(&gguf, path, 0, &err) < 0 ||
	    (model = pico_model_open(gguf, &err)) == NULL) {
		printf("# %s\n", err.msg);
		exit(2);
	}
	n_vocab = pico_model_info(model).n_vocab;
	for (i = 0; i < N_IDS; i++)
		ids[i] = (int32_t)((3 + 41 * i) % n_vocab);
}

static void
close_model(void)
{
	pico_model_close(model);
	pico_gguf_close(gguf);
}

static struct pico_ctx *
context(uint32_t n_seq, enum pico_kv_kind kv, uint32_t n_ctx)
{
	struct pico_ctx_params p = {
		.n_ctx = n_ctx, .n_seq = n_seq, .n_threads = 2, .kv = kv,
	};
	struct pico_err err = {0};
	struct pico_ctx *c = pico_ctx_new(model, &p, &err);

	if (c == NULL)
		exit(2);
	return c;
}

/* Takes ids lo..hi into a sequence; logits after the last. */
static const float *
feed(struct pico_ctx *c, uint32_t seq, size_t lo, size_t hi)
{
	struct pico_col cols[N_IDS];
	struct pico_err err = {0};
	size_t i;

	for (i = lo; i < hi; i++)
		cols[i - lo] = (struct pico_col){ ids[i], seq, i + 1 == hi };
	if (pico_ctx_eval(c, cols, hi - lo, &err) < 0) {
		printf("# %s\n", err.msg);
		exit(2);
	}
	return pico_ctx_logits(c, hi - lo - 1);
}

static bool
same(const float *a, const float *b)
{
	return a != NULL && memcmp(a, b, n_vocab * sizeof *a) == 0;
}

static void
in_memory(enum pico_kv_kind kv, const float *want)
{
	static const int32_t none[1];
	struct pico_ctx *c = context(3, kv, 32);
	const int32_t *t;
	size_t n;

	(void)feed(c, 0, 0, 12);
	(void)feed(c, 1, 5, 9);
	pico_ctx_copy(c, 2, 0, 10);
	t = pico_ctx_tokens(c, 2, &n);
	check(n == 10 && memcmp(t, ids, 10 * sizeof *ids) == 0,
	    "a copy has the ids", "");
	check(same(feed(c, 2, 10, N_IDS), want), "a copy goes on alike", "");
	(void)feed(c, 0, 3, 8);		/* other ids, then forgotten */
	pico_ctx_cut(c, 0, 12);
	check(same(feed(c, 0, 12, N_IDS), want), "a cut sequence goes on alike",
	    "");
	pico_ctx_copy(c, 1, 0, 100);
	(void)pico_ctx_tokens(c, 1, &n);
	check(n == N_IDS, "a copy of more than there is", "");
	check(pico_ctx_match(c, 1, ids, N_IDS) == N_IDS &&
	    pico_ctx_match(c, 1, ids, 7) == 7 &&
	    pico_ctx_match(c, 1, ids + 1, 7) == 0 &&
	    pico_ctx_match(c, 1, none, 0) == 0, "the common beginning", "");
	pico_ctx_cut(c, 1, 100);
	(void)pico_ctx_tokens(c, 1, &n);
	check(n == N_IDS, "a cut past the end does nothing", "");
	pico_ctx_copy(c, 1, 1, 4);
	(void)pico_ctx_tokens(c, 1, &n);
	check(n == 4 && same(feed(c, 1, 4, N_IDS), want),
	    "a copy onto itself cuts", "");
	pico_ctx_free(c);
}

/* ---- files ---- */

static char path[300], other[310];

static uint8_t *
slurp(const char *name, size_t *n)
{
	FILE *f = fopen(name, "rb");
	uint8_t *b = malloc(1 << 20);

	if (f == NULL || b == NULL)
		exit(2);
	*n = fread(b, 1, 1 << 20, f);
	(void)fclose(f);
	return b;
}

static void
spill(const char *name, const uint8_t *b, size_t n)
{
	FILE *f = fopen(name, "wb");

	if (f == NULL || fwrite(b, 1, n, f) != n || fclose(f) != 0)
		exit(2);
}

/* Loads `other` into a fresh context, which must refuse it. */
static bool
refused(enum pico_kv_kind kv, uint32_t n_ctx, const char *part,
    struct pico_err *err)
{
	struct pico_ctx *c = context(1, kv, n_ctx);
	size_t n;
	int r;

	*err = (struct pico_err){0};
	r = pico_kv_load(c, 0, other, err);
	(void)pico_ctx_tokens(c, 0, &n);
	pico_ctx_free(c);
	return r == -1 && n == 0 && err->status == PICO_ERROR &&
	    strstr(err->msg, part) != NULL;
}

static void
damaged(enum pico_kv_kind kv)
{
	size_t n, i, step;
	uint8_t *b = slurp(path, &n);
	struct pico_err err = {0};
	bool ok = true;

	/* every bit of the header and of some bytes behind it */
	step = n / 500 + 1;
	for (i = 0; ok && i < n; i += i < 64 ? 1 : step) {
		b[i] ^= (uint8_t)(1 << i % 8);
		spill(other, b, n);
		ok = refused(kv, 32, "KV file '", &err);
		b[i] ^= (uint8_t)(1 << i % 8);
	}
	check(ok, "a changed byte is seen", err.msg);
	for (i = 0; ok && i < n; i += i < 80 ? 1 : n / 50) {
		spill(other, b, i);
		ok = refused(kv, 32, "KV file '", &err);
	}
	check(ok, "a cut file is refused", err.msg);
	b[n] = 0;
	spill(other, b, n + 1);
	check(refused(kv, 32, "bytes", &err), "a byte too many", err.msg);
	/* announced counts must not be allocated or looped over */
	memset(b + 16, 0xff, 16);
	spill(other, b, n);
	check(refused(kv, 32, "header", &err), "a count of 2^64-1", err.msg);
	free(b);
}

static void
in_files(enum pico_kv_kind kv, const float *want)
{
	enum pico_kv_kind not = kv == PICO_CACHE_F16 ? PICO_CACHE_F32 :
	    PICO_CACHE_F16;
	struct pico_ctx *c = context(2, kv, 32);
	struct pico_err err = {0};
	uint8_t *b, *b2;
	struct stat st = {0};
	size_t n, n2;

	(void)unlink(path);
	check(pico_kv_load(c, 1, path, &err) == 0 && err.status == PICO_OK,
	    "a missing file is no fault", err.msg);
	(void)feed(c, 0, 0, 11);
	(void)feed(c, 1, 4, 9);
	check(pico_kv_save(c, 0, path, &err) == 0, "saves", err.msg);
	check(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640,
	    "the file's mode is by the umask", "");
	pico_ctx_free(c);

	c = context(3, kv, 32);
	(void)feed(c, 2, 2, 8);
	check(pico_kv_load(c, 2, path, &err) == 1, "loads", err.msg);
	check(same(feed(c, 2, 11, N_IDS), want), "what was loaded goes on "
	    "alike", "");
	pico_ctx_cut(c, 2, 11);
	(void)snprintf(other, sizeof other, "%s.other", path);
	check(pico_kv_save(c, 2, other, &err) == 0, "saves again", err.msg);
	b = slurp(path, &n);
	b2 = slurp(other, &n2);
	check(n == n2 && memcmp(b, b2, n) == 0, "the same cache is the same "
	    "file", "");
	free(b2);
	pico_ctx_free(c);

	/* an empty cache is one, too */
	c = context(1, kv, 32);
	check(pico_kv_save(c, 0, other, &err) == 0 &&
	    pico_kv_load(c, 0, other, &err) == 1, "an empty cache", err.msg);
	pico_ctx_free(c);

	spill(other, b, n);
	check(refused(not, 32, "type", &err), "a cache of the other type",
	    err.msg);
	check(refused(kv, 8, "holds 11 tokens, context is 8", &err),
	    "more than the context holds", err.msg);
	free(b);
	damaged(kv);
}

static void
bad_places(void)
{
	struct pico_ctx *c = context(1, PICO_CACHE_F16, 32);
	struct pico_err err = {0};
	size_t n = strlen(path);

	(void)feed(c, 0, 0, 3);
	(void)snprintf(path + n, sizeof path - n, ".d");
	if (mkdir(path, 0700) < 0)
		exit(2);
	check(pico_kv_load(c, 0, path, &err) < 0, "a directory", err.msg);
	err = (struct pico_err){0};
	check(pico_kv_save(c, 0, path, &err) < 0 && err.status == PICO_ERROR,
	    "saving onto a directory", err.msg);
	check(rmdir(path) == 0, "which is left empty", "");
	(void)snprintf(path + n, sizeof path - n, ".d/x/y");
	err = (struct pico_err){0};
	check(pico_kv_can_save(path, &err) < 0, "a directory that is not there",
	    err.msg);
	err = (struct pico_err){0};
	check(pico_kv_save(c, 0, path, &err) < 0, "saving there", err.msg);
	path[n] = '\0';
	pico_ctx_free(c);
}

static void
other_model(const char *name)
{
	struct pico_err err = {0};
	size_t n;
	uint8_t *b = slurp(path, &n);

	spill(other, b, n);
	free(b);
	close_model();
	open_model(name);
	check(refused(PICO_CACHE_F32, 32, "another model", &err),
	    "a cache of another model", err.msg);
}

/* A sequence that has forgotten something is good for going on, and for its
   beginning, but not for what its ids alone would give. */
static void
shifted(enum pico_kv_kind kv, const float *want)
{
	struct pico_ctx *c = context(3, kv, 32);
	struct pico_err err = {0};
	float *after = malloc(n_vocab * sizeof *after);
	const int32_t *t;
	size_t n;

	if (after == NULL)
		exit(2);
	(void)feed(c, 0, 0, 12);
	check(pico_ctx_shift(c, 0, 4, 9, &err) < 0 &&
	    pico_ctx_shift(c, 0, 13, 0, &err) < 0, "no more than there is", "");
	err.status = PICO_OK;
	(void)unlink(path);
	check(pico_ctx_shift(c, 0, 4, 0, &err) == 0 &&
	    pico_kv_save(c, 0, path, &err) == 0, "nothing forgotten", err.msg);
	check(pico_ctx_shift(c, 0, 4, 3, &err) == 0, "three forgotten",
	    err.msg);
	t = pico_ctx_tokens(c, 0, &n);
	check(n == 9 && memcmp(t, ids, 4 * sizeof *t) == 0 &&
	    memcmp(t + 4, ids + 7, 5 * sizeof *t) == 0, "the ids left", "");
	check(pico_ctx_match(c, 0, t, 9) == 4, "only the beginning is reused",
	    "");
	pico_ctx_copy(c, 1, 0, 9);
	pico_ctx_copy(c, 2, 0, 4);
	check(pico_ctx_match(c, 1, t, 9) == 4 &&
	    pico_ctx_match(c, 2, t, 9) == 4, "of a copy, too", "");
	memcpy(after, feed(c, 0, 12, N_IDS), n_vocab * sizeof *after);
	check(!same(after, want), "what follows is something else", "");
	check(same(feed(c, 1, 12, N_IDS), after), "after a copy the same", "");
	check(same(feed(c, 2, 4, N_IDS), want), "after the beginning alone, "
	    "as ever", "");
	check(pico_ctx_match(c, 2, ids, N_IDS) == N_IDS, "all reused again",
	    "");
	check(pico_kv_save(c, 0, path, &err) < 0, "not saved", err.msg);
	err.status = PICO_OK;
	pico_ctx_cut(c, 0, 4);
	check(pico_kv_save(c, 0, path, &err) == 0 &&
	    same(feed(c, 0, 4, N_IDS), want), "the beginning is", err.msg);
	pico_ctx_free(c);
	free(after);
}

int
main(void)
{
	static const enum pico_kv_kind kinds[] = { PICO_CACHE_F16,
	    PICO_CACHE_F32, PICO_CACHE_Q8_0 };
	const char *dir = getenv("TMPDIR");
	struct pico_ctx *c;
	float *want;
	size_t i;

	(void)umask(027);
	(void)snprintf(path, sizeof path, "%s/pico-test-kv-%ld",
	    dir != NULL ? dir : "/tmp", (long)getpid());
	open_model("tests/data/arch/mixtral.gguf");
	want = malloc(n_vocab * sizeof *want);
	if (want == NULL)
		exit(2);
	for (i = 0; i < COUNT(kinds); i++) {
		c = context(1, kinds[i], 32);
		memcpy(want, feed(c, 0, 0, N_IDS), n_vocab * sizeof *want);
		pico_ctx_free(c);
		in_memory(kinds[i], want);
		in_files(kinds[i], want);
		shifted(kinds[i], want);
	}
	bad_places();
	other_model("tests/data/arch/llama-q8_0.gguf");
	free(want);
	close_model();
	(void)unlink(path);
	(void)unlink(other);
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
