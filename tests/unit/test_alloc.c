/* SPDX-License-Identifier: MIT */
/*
 * Memory that is refused at the N-th call, for every N: each function of the
 * library that takes memory fails with a message, and gives back all that it
 * took. The linker leads the calls here (Makefile, ld's --wrap).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/pico.h"

void *__real_malloc(size_t), *__real_calloc(size_t, size_t),
    *__real_realloc(void *, size_t);
int __real_posix_memalign(void **, size_t, size_t);
char *__real_strdup(const char *);
char *__real_realpath(const char *, char *);
void __real_free(void *);
void *__wrap_malloc(size_t), *__wrap_calloc(size_t, size_t),
    *__wrap_realloc(void *, size_t);
int __wrap_posix_memalign(void **, size_t, size_t);
char *__wrap_strdup(const char *);
char *__wrap_realpath(const char *, char *);
void __wrap_free(void *);

/* Calls up to the one that fails; below 0: none does. What is taken and not
   given back. */
static long until, taken;

static bool
fails(void)
{
	if (until < 0 || until-- > 0)
		return false;
	errno = ENOMEM;
	return true;
}

void *
__wrap_malloc(size_t n)
{
	void *p = fails() ? NULL : __real_malloc(n);

	taken += p != NULL;
	return p;
}

void *
__wrap_calloc(size_t n, size_t size)
{
	void *p = fails() ? NULL : __real_calloc(n, size);

	taken += p != NULL;
	return p;
}

void *
__wrap_realloc(void *p, size_t n)
{
	void *q = fails() ? NULL : __real_realloc(p, n);

	taken += p == NULL && q != NULL;
	return q;
}

int
__wrap_posix_memalign(void **p, size_t align, size_t n)
{
	int e = fails() ? ENOMEM : __real_posix_memalign(p, align, n);

	taken += e == 0;
	return e;
}

char *
__wrap_strdup(const char *s)
{
	char *p = fails() ? NULL : __real_strdup(s);

	taken += p != NULL;
	return p;
}

char *
__wrap_realpath(const char *path, char *out)
{
	char *p = fails() ? NULL : __real_realpath(path, out);

	taken += p != NULL && out == NULL;
	return p;
}

void
__wrap_free(void *p)
{
	taken -= p != NULL;
	__real_free(p);
}

/* ---- what is done with a model ---- */

static struct pico_str
str(const char *text)
{
	return (struct pico_str){ text, strlen(text) };
}

static int
tokenize(const struct pico_vocab *v, struct pico_err *err)
{
	static const char text[] = "Once upon a time, \xe2\x82\xac 12345 "
	    "abcdefghijklmnopqrstuvwxyz<s></s> and they lived";
	struct pico_tokenizer *t = pico_tokenizer_new(v, err);
	struct pico_ids ids = {0};
	int r = -1;

	ids.end = malloc(sizeof *ids.end);
	if (t != NULL && ids.end != NULL)
		r = pico_tokenize(t, text, sizeof text - 1, PICO_PARSE_SPECIAL,
		    &ids, err);
	else if (ids.end == NULL)
		(void)pico_fail(err, PICO_ERROR, "test: no memory");
	free(ids.v);
	free(ids.end);
	pico_tokenizer_free(t);
	return r;
}

static int
chat(struct pico_err *err)
{
	static const char *const names[] = { "chatml", "llama3", "gemma" };
	struct pico_chat_text text;
	struct pico_str form;
	size_t i;

	for (i = 0; i < sizeof names / sizeof *names; i++) {
		struct pico_chat *c = NULL;
		int r = pico_chat_find(NULL, names[i], &form, err);

		if (r > 0)
			c = pico_chat_new(form, err);
		r = c == NULL || pico_chat_set(c, str("tools"),
		    str("[{\"a\":[1,2,{\"b\":null}]}]"), PICO_CHAT_JSON, err)
		    < 0 || pico_chat_message(c, str("user"), str("hello"), err)
		    < 0 || pico_chat_message_json(c, str("{\"role\":"
		    "\"assistant\",\"content\":\"x\\u00e9\"}"), err) < 0 ||
		    pico_chat_render(c, PICO_CHAT_PROMPT, &text, err) < 0;
		pico_chat_free(c);
		if (r)
			return -1;
	}
	return 0;
}

static int
take(void *data, int32_t id, struct pico_err *err)
{
	(void)data;
	(void)id;
	(void)err;
	return 0;
}

static int
take_end(void *data, enum pico_reason reason, struct pico_err *err)
{
	return take(data, (int32_t)reason, err);
}

static int
generate(struct pico_ctx *ctx, const struct pico_vocab *v,
    struct pico_err *err)
{
	static const struct pico_str stop = { "the", 3 };
	static const int32_t prompt[] = { 1, 7, 9 };
	const struct pico_step steps[] = {
		{ .kind = PICO_S_PENALTIES, .n = -1, .a = 1.1 },
		{ .kind = PICO_S_TYPICAL, .a = 0.9, .min_keep = 1 },
		{ .kind = PICO_S_TEMP, .a = 1 }
	};
	const struct pico_gen_params p = {
	    .chain = { .steps = steps, .n_steps = 3 }, .n_max = 3, .stop = &stop, .n_stop = 1, .ignore_eog = true };
	const struct pico_gen_sink sink = { take, take_end, NULL };
	struct pico_gen *g = pico_gen_new(ctx, v, &p, &sink, err);
	int r = g == NULL ? -1 : 0;
	size_t i;

	for (i = 0; r == 0 && i < 2; i++)
		r = pico_gen_add(g, prompt, 3, true, err);
	while (r == 0 && pico_gen_busy(g) > 0)
		r = pico_gen_step(g, err);
	pico_gen_free(g);
	return r;
}

static int
run(const struct pico_gguf *g, const struct pico_vocab *v,
    struct pico_err *err)
{
	static char file[] = "/tmp/test_alloc.kv.XXXXXX";
	struct pico_ctx_params p = { .n_ctx = 16, .n_seq = 2, .n_threads = 2,
	    .chunk = 4, .memory = UINT64_MAX };
	struct pico_model *m = pico_model_open(g, err);
	struct pico_ctx *c = m == NULL ? NULL : pico_ctx_new(m, &p, err);
	int r = c == NULL ? -1 : generate(c, v, err), fd;

	if (r == 0 && strchr(file, 'X') != NULL) {
		fd = mkstemp(file);
		(void)close(fd);
	}
	if (r == 0)
		r = pico_kv_save(c, 0, file, err);
	if (r == 0)
		r = pico_kv_load(c, 1, file, err) < 0 ? -1 : 0;
	(void)unlink(file);
	pico_ctx_free(c);
	pico_model_close(m);
	return r;
}

static int
streams(struct pico_err *err)
{
	struct pico_tokens_in *t = pico_tokens_open(-1, "none", err);
	struct pico_sampler *s = t == NULL ? NULL : pico_sampler_new(100, err);
	int r = s == NULL ? -1 : 0;

	pico_sampler_free(s);
	pico_tokens_close(t);
	return r;
}

/* A file made from another one: keys, a quantized tensor, a changed key. */
static int
files(struct pico_err *err)
{
	static const char from[] = "tests/data/arch/llama-q8_0.gguf",
	    to[] = "/tmp/test_alloc.gguf";
	struct pico_quantizer *q = NULL;
	struct pico_writer *w = NULL;
	struct pico_gguf *g = NULL;
	struct pico_quant_error sums = {0};
	const struct pico_tensor *t;
	int r = pico_gguf_open(&g, from, 0, err);

	if (r == 0 && ((w = pico_writer_new(err)) == NULL ||
	    (q = pico_quantizer_new(2, err)) == NULL))
		r = -1;
	t = r == 0 ? pico_gguf_find_tensor(g, "blk.0.attn_q.weight") : NULL;
	if (r == 0 && (pico_writer_copy_all(w, g, err) < 0 ||
	    pico_writer_set(w, "x", "str[]:[\"a\",\"b\"]", err) < 0 ||
	    pico_writer_set(w, "y", "u8:1", err) < 0 ||
	    pico_writer_rename(w, "x", "z", err) < 0 ||
	    pico_writer_tensor(w, t->name, 2, t->n_dims, t->dims, err) < 0 ||
	    pico_writer_begin(w, to, err) < 0 || pico_quantize_tensor(q, t, 2,
	    NULL, w, &sums, err) < 0 || pico_writer_end(w, err) < 0 ||
	    pico_gguf_set_keys(g, w, err) < 0))
		r = -1;
	pico_writer_free(w);
	pico_quantizer_free(q);
	pico_gguf_close(g);
	(void)unlink(to);
	return r;
}

/* All of it; -1 and a message if something fails. */
static int
everything(const char *path, bool weights, struct pico_err *err)
{
	struct pico_gguf *g = NULL;
	struct pico_vocab *v = NULL;
	int r = pico_gguf_open(&g, path, 0, err);

	if (r == 0 && (v = pico_vocab_open(g, NULL, err)) == NULL)
		r = -1;
	if (r == 0)
		r = weights ? run(g, v, err) : tokenize(v, err);
	pico_vocab_close(v);
	pico_gguf_close(g);
	return r;
}

int
main(void)
{
	static const struct { const char *path; bool weights; } models[] = {
		{ "examples/model/pico-tales.gguf", false },
		{ "tests/data/tokenizer/bpe.gguf", false },
		{ "tests/data/tokenizer/lines.gguf", false },
		{ "tests/data/tokenizer/rwkv.gguf", false },
		{ "tests/data/tokenizer/unigram.gguf", false },
		{ "tests/data/tokenizer/wordpiece.gguf", false },
		{ "examples/model/pico-tales.gguf", true },
		{ "tests/data/arch/deepseek2.gguf", true },
		{ "tests/data/arch/gemma3.gguf", true },
		{ "tests/data/arch/llama-q8_0.gguf", true },
		{ "tests/data/arch/mamba.gguf", true },
		{ "tests/data/arch/mixtral.gguf", true },
		{ "tests/data/arch/rwkv6.gguf", true },
		{ "chats", false },
		{ "streams", false },
		{ "files", false }
	};
	const size_t n_models = sizeof models / sizeof *models;
	size_t i;

	printf("1..%zu\n", n_models);
	for (i = 0; i < n_models; i++) {
		long n = -1, leaks = 0, silent = 0, before;
		struct pico_err err;
		int r;

		do {
			err = (struct pico_err){0};
			before = taken;
			until = ++n;
			r = strcmp(models[i].path, "chats") == 0 ?
			    chat(&err) : strcmp(models[i].path, "streams") == 0
			    ? streams(&err) : strcmp(models[i].path, "files")
			    == 0 ? files(&err) : everything(models[i].path,
			    models[i].weights, &err);
			if (taken != before && leaks++ == 0)
				printf("# call %ld: %ld are not freed: %s\n",
				    n, taken - before, err.msg);
			if ((r < 0) != (err.status != PICO_OK) ||
			    (until < 0 && r == 0))
				if (silent++ == 0)
					printf("# call %ld: %d, '%s'\n", n, r,
					    err.msg);
		} while (until < 0);
		printf("%s %zu - %s%s: %ld calls refused\n", r < 0 ||
		    leaks > 0 || silent > 0 ? "not ok" : "ok", i + 1,
		    models[i].path, models[i].weights ? ", weights" : "", n);
		if (r < 0)
			printf("# %s\n", err.msg);
	}
	return 0;
}
