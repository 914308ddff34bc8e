/* SPDX-License-Identifier: MIT */
/* The listing for people, and the other views of the header. */
#include "inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Per type: what there is of it. */
struct sum {
	uint64_t tensors, values, bytes;
};

enum { N_TYPES = 64 };

/* All tensors in sums[N_TYPES]. */
static void
add_up(const struct pico_gguf *g, struct sum *sums)
{
	const struct pico_tensor *t;
	uint32_t at[2];
	size_t i, j;

	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		t = pico_gguf_tensor(g, i);
		at[0] = MIN(t->type, N_TYPES - 1);
		at[1] = N_TYPES;
		for (j = 0; j < 2; j++) {
			sums[at[j]].tensors++;
			sums[at[j]].values += elements(t);
			sums[at[j]].bytes += t->bytes;
		}
	}
}

static double
bits_each(const struct sum *s)
{
	return s->values > 0 ? 8.0 * (double)s->bytes / (double)s->values : 0;
}

/* A line of the summary: the value of the key PREFIX SUFFIX, if it is there. */
static void
put_line(const struct pico_gguf *g, const char *label, struct pico_str prefix,
    const char *suffix)
{
	char name[200];
	const struct pico_kv *kv;

	(void)snprintf(name, sizeof name, "%.*s%s", (int)MIN(prefix.n, 100),
	    prefix.p, suffix);
	kv = pico_gguf_find(g, name);
	if (kv == NULL)
		return;
	printf("%s:\t", label);
	put_value(kv, false);
	(void)putchar('\n');
}

/* From general.file_type, else the most frequent type. */
static void
put_file_type(const struct pico_gguf *g, const struct sum *sums)
{
	struct pico_err err = {0};
	uint32_t i, most = 0;
	int64_t id = 0;

	if (pico_gguf_int(g, "general.file_type", 0, INT32_MAX, &id,
	    &err) == 1) {
		if (pico_file_type_name(id) != NULL)
			printf("file type:\t%s\n", pico_file_type_name(id));
		else
			printf("file type:\tunknown (%" PRId64 ")\n", id);
		return;
	}
	for (i = 1; i < N_TYPES; i++)
		if (sums[i].tensors > sums[most].tensors)
			most = i;
	if (sums[most].tensors > 0)
		printf("file type:\t%s (most of the tensors)\n",
		    pico_type(most)->name);
}

static void
put_summary(const struct pico_gguf *g, const struct sum *sums)
{
	static const struct pico_str none = { "", 0 };
	struct pico_gguf_info info = pico_gguf_info(g, 0);
	struct pico_str arch = none;
	struct pico_err err = {0};
	const struct pico_kv *tokens;

	put_line(g, "name", none, "general.name");
	put_line(g, "kind", none, "general.type");
	put_line(g, "architecture", none, "general.architecture");
	put_file_type(g, sums);
	printf("format:\tGGUF version %" PRIu32 ", %" PRIu64 " keys, %zu "
	    "tensors, alignment %" PRIu32, info.version, info.n_kv,
	    pico_gguf_n_tensors(g), info.alignment);
	if (pico_gguf_n_shards(g) > 1)
		printf(", %d files", pico_gguf_n_shards(g));
	printf("\nparameters:\t%" PRIu64 "\nsize:\t%" PRIu64 " bytes, %.3g "
	    "bits per weight\n", sums[N_TYPES].values, cmd_model_size(g),
	    bits_each(&sums[N_TYPES]));
	if (pico_gguf_str(g, "general.architecture", &arch, &err) == 1) {
		put_line(g, "context", arch, ".context_length");
		put_line(g, "layers", arch, ".block_count");
		put_line(g, "width", arch, ".embedding_length");
		put_line(g, "feed forward", arch, ".feed_forward_length");
		put_line(g, "heads", arch, ".attention.head_count");
		put_line(g, "kv heads", arch, ".attention.head_count_kv");
		put_line(g, "experts", arch, ".expert_count");
	}
	put_line(g, "tokenizer", none, "tokenizer.ggml.model");
	put_line(g, "pre-tokenizer", none, "tokenizer.ggml.pre");
	tokens = pico_gguf_find(g, "tokenizer.ggml.tokens");
	if (tokens != NULL && tokens->type == PICO_KV_ARR)
		printf("vocabulary:\t%" PRIu64 "\n", tokens->n);
	if (pico_gguf_n_tensors(g) > 0)
		put_needs(g);
}

void
list(const struct pico_gguf *g)
{
	struct sum sums[N_TYPES + 1] = {{0}};
	const struct pico_tensor *t;
	const struct pico_kv *kv;
	uint32_t id;
	size_t i;

	add_up(g, sums);
	put_summary(g, sums);
	if (pico_gguf_n_kv(g) > 0)
		(void)putchar('\n');
	for (i = 0; i < pico_gguf_n_kv(g); i++) {
		kv = pico_gguf_kv(g, i);
		if (!is_shown(kv))
			continue;
		put_text(kv->key, SIZE_MAX);
		(void)putchar('\t');
		put_type(kv);
		(void)putchar('\t');
		put_value(kv, view.all);
		(void)putchar('\n');
	}
	if (pico_gguf_n_tensors(g) > 0)
		(void)putchar('\n');
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		t = pico_gguf_tensor(g, i);
		put_text(t->name, SIZE_MAX);
		printf("\t%s\t", pico_type(t->type)->name);
		put_shape(t);
		printf("\t%" PRIu64 "\t%" PRIu64 "\n", t->offset, t->bytes);
	}
	if (pico_gguf_n_tensors(g) > 0)
		(void)putchar('\n');
	for (id = 0; id <= N_TYPES; id++)
		if (sums[id].tensors > 0)
			printf("%s:\t%" PRIu64 " tensors\t%" PRIu64 " values\t%"
			    PRIu64 " bytes\t%.6g bits each\n",
			    id == N_TYPES ? "total" : pico_type(id)->name,
			    sums[id].tensors, sums[id].values, sums[id].bytes,
			    bits_each(&sums[id]));
}

/* One element of an array a line; a string has its bytes escaped then. */
static void
put_elements(const struct pico_kv *kv, const char *prefix)
{
	struct pico_kv sub;
	uint64_t i, pos = 0;

	for (i = 0; i < kv->n; i++) {
		if (prefix != NULL) {
			put_text(kv->key, SIZE_MAX);
			printf("[%" PRIu64 "]%s", i, prefix);
		}
		if (kv->elem == PICO_KV_ARR) {
			sub = pico_kv_arr_next(kv, &pos);
			put_array(&sub, UINT64_MAX);
		} else if (kv->elem == PICO_KV_STR) {
			put_text(pico_kv_str_next(kv, &pos), SIZE_MAX);
		} else {
			put_number(kv, i);
		}
		(void)putchar('\n');
	}
}

int
put_key(const struct pico_gguf *g, const char *path, const char *key)
{
	const struct pico_kv *kv = pico_gguf_find(g, key);

	if (kv == NULL)
		return fault(path, "there is no key '%.100s'", key);
	if (kv->type == PICO_KV_ARR) {
		view.all = true;
		put_elements(kv, NULL);
	} else if (kv->type == PICO_KV_STR) {
		(void)fwrite(kv->data, 1, (size_t)kv->n, stdout);
		if (isatty(STDOUT_FILENO))
			(void)putchar('\n');
	} else {
		put_number(kv, 0);
		(void)putchar('\n');
	}
	return 0;
}

static int
compare_kv(const void *a, const void *b)
{
	return pico_str_compare((*(const struct pico_kv *const *)a)->key,
	    (*(const struct pico_kv *const *)b)->key);
}

static int
compare_tensor(const void *a, const void *b)
{
	return pico_str_compare((*(const struct pico_tensor *const *)a)->name,
	    (*(const struct pico_tensor *const *)b)->name);
}

/* Order has no meaning in a file, so this is sorted; arrays have an element a
   line, so that diff shows the ones that differ. */
void
list_diffable(const struct pico_gguf *g)
{
	size_t n_kv = pico_gguf_n_kv(g), n = pico_gguf_n_tensors(g), i;
	const struct pico_kv **kv = cmd_alloc(n_kv, sizeof *kv);
	const struct pico_tensor **t = cmd_alloc(n, sizeof *t);

	for (i = 0; i < n_kv; i++)
		kv[i] = pico_gguf_kv(g, i);
	for (i = 0; i < n; i++)
		t[i] = pico_gguf_tensor(g, i);
	qsort(kv, n_kv, sizeof *kv, compare_kv);
	qsort(t, n, sizeof *t, compare_tensor);
	view.all = true;
	for (i = 0; i < n_kv; i++) {
		if (!is_shown(kv[i]))
			continue;
		put_text(kv[i]->key, SIZE_MAX);
		(void)putchar('\t');
		put_type(kv[i]);
		if (kv[i]->type != PICO_KV_ARR) {
			(void)putchar('\t');
			put_value(kv[i], true);
		}
		(void)putchar('\n');
		if (kv[i]->type == PICO_KV_ARR)
			put_elements(kv[i], "\t");
	}
	for (i = 0; i < n; i++) {
		(void)fputs("tensor\t", stdout);
		put_text(t[i]->name, SIZE_MAX);
		printf("\t%s\t", pico_type(t[i]->type)->name);
		put_shape(t[i]);
		(void)putchar('\n');
	}
	free(kv);
	free(t);
}

void
list_offsets(const struct pico_gguf *g)
{
	const struct pico_kv *kv;
	size_t i;

	for (i = 0; i < pico_gguf_n_kv(g); i++) {
		kv = pico_gguf_kv(g, i);
		put_text(kv->key, SIZE_MAX);
		printf("\t%" PRIu64 "\t%" PRIu64 "\t", kv->offset, kv->bytes);
		put_type(kv);
		(void)putchar('\n');
	}
}

int
list_vocab(const struct pico_gguf *g, const char *path)
{
	static const char name[] = "tokenizer.ggml.tokens";
	static const char *const more[2] = { "tokenizer.ggml.scores",
	    "tokenizer.ggml.token_type" };
	const struct pico_kv *tokens = pico_gguf_find(g, name), *kv[2];
	uint64_t i, pos = 0;
	int64_t type;
	int k;

	if (tokens == NULL)
		return fault(path, "no vocabulary: there is no key '%s'", name);
	if (tokens->type != PICO_KV_ARR || tokens->elem != PICO_KV_STR)
		return fault(path, "key '%s' is no array of strings", name);
	for (k = 0; k < 2; k++) {
		kv[k] = pico_gguf_find(g, more[k]);
		if (kv[k] == NULL)
			continue;
		if (kv[k]->type != PICO_KV_ARR ||
		    kv[k]->elem == PICO_KV_STR || kv[k]->elem == PICO_KV_ARR)
			return fault(path, "key '%s' is no array of numbers",
			    more[k]);
		if (kv[k]->n != tokens->n)
			return fault(path, "key '%s' has %" PRIu64
			    " elements, '%s' has %" PRIu64, more[k], kv[k]->n,
			    name, tokens->n);
	}
	for (i = 0; i < tokens->n; i++) {
		type = kv[1] != NULL ? pico_kv_int_at(kv[1], i) : 1;
		printf("%" PRIu64 "\t%s\t", i, pico_token_type_name(
		    type >= 0 && type <= PICO_TOK_BYTE ?
		    (enum pico_token_type)type : PICO_TOK_UNDEFINED));
		put_real(kv[0] != NULL ? pico_kv_real_at(kv[0], i) : 0.0, 9);
		(void)putchar('\t');
		put_text(pico_kv_str_next(tokens, &pos), SIZE_MAX);
		(void)putchar('\n');
	}
	return 0;
}
