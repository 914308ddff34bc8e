/* SPDX-License-Identifier: MIT */
/* pico-inspect: what is in a GGUF file. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define SHORT_ARRAY 8	/* elements shown without -a */
#define SHORT_TEXT 100	/* bytes shown without -a */

static bool all, alone, json, diffable, vocab, stats, check, offsets;
static const char *model, *key, *dump, *raw;

static const struct cmd about = {
	"pico-inspect",
	"[-a] [--json | --diffable | -k key | --vocab | --offsets |\n"
	"       --check | --stats | --dump tensor | --raw tensor] "
	"[file ...] [tensor ...]",
	"Shows the metadata and the tensors of GGUF files."
};

static const struct pico_opt table[] = {
	{ 'a', "all", PICO_OPT_FLAG, &all, NULL,
	    "whole strings and arrays", 0, 0, NULL },
	{ 'k', "key", PICO_OPT_TEXT, &key, "KEY",
	    "the value of one key, nothing else", 0, 0, NULL },
	{ 0, "json", PICO_OPT_FLAG, &json, NULL,
	    "everything as JSON", 0, 0, NULL },
	{ 0, "diffable", PICO_OPT_FLAG, &diffable, NULL,
	    "sorted, without paths, offsets and sizes", 0, 0, NULL },
	{ 0, "vocab", PICO_OPT_FLAG, &vocab, NULL,
	    "tokens: id, type, score, text", 0, 0, NULL },
	{ 0, "offsets", PICO_OPT_FLAG, &offsets, NULL,
	    "keys: name, offset of the value in the file, bytes, type",
	    0, 0, NULL },
	{ 0, "stats", PICO_OPT_FLAG, &stats, NULL,
	    "tensors (all, or those named): name, type, values, min, max,\n"
	    "                               mean, rms, NaN and infinite values",
	    0, 0, NULL },
	{ 0, "check", PICO_OPT_FLAG, &check, NULL,
	    "read all tensors and name the faults", 0, 0, NULL },
	{ 0, "dump", PICO_OPT_TEXT, &dump, "TENSOR",
	    "values as raw float32", 0, 0, NULL },
	{ 0, "raw", PICO_OPT_TEXT, &raw, "TENSOR",
	    "bytes as stored", 0, 0, NULL },
	{ 0, "alone", PICO_OPT_FLAG, &alone, NULL,
	    "one file of a split model by itself", 0, 0, NULL },
	{ 'm', "model", PICO_OPT_TEXT, &model, "FILE",
	    "the file, if there is no operand", 0, 0, NULL },
	CMD_OPTIONS
};

/* Reports a fault of a file and returns the exit status. */
static int fault(const char *path, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static int
fault(const char *path, const char *fmt, ...)
{
	struct pico_err err = { .status = PICO_ERROR };
	char msg[300], line[480];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	(void)snprintf(line, sizeof line, "'%.150s': %s", path, msg);
	(void)pico_escape(err.msg, sizeof err.msg, line, strlen(line));
	cmd_report(&err);
	return err.status;
}

/* ---- text and JSON ----------------------------------------------------- */

/* Escaped; at most `most` bytes of it, and then how many there are. */
static void
put_text(struct pico_str s, size_t most)
{
	size_t n = MIN(s.n, most), size;
	char *buf;

	while (n < s.n && n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
		n--;	/* no half characters */
	size = pico_escape(NULL, 0, s.p, n) + 1;
	buf = malloc(size);
	if (buf == NULL)
		cmd_die(&(struct pico_err){ PICO_ERROR, "no memory for text" });
	(void)pico_escape(buf, size, s.p, n);
	(void)fputs(buf, stdout);
	free(buf);
	if (n < s.n)
		printf("... (%zu bytes)", s.n);
}

/* Bytes of the well-formed UTF-8 character at p (RFC 3629), 0 if it is none. */
static size_t
utf8_len(const unsigned char *p, size_t n)
{
	unsigned lo = 0x80, hi = 0xbf;
	size_t len, i;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		lo = 0xa0;
	else if (p[0] == 0xed)
		hi = 0x9f;	/* no surrogates */
	else if (p[0] == 0xf0)
		lo = 0x90;
	else if (p[0] == 0xf4)
		hi = 0x8f;
	if (n < len || p[1] < lo || p[1] > hi)
		return 0;
	for (i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* A JSON string, or {"hex":"..."} for what is no text. */
static void
json_str(struct pico_str s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t i, len;

	for (i = 0; i < s.n; i += len) {
		len = utf8_len(p + i, s.n - i);
		if (len == 0 || p[i] == 0)
			break;
	}
	if (i < s.n) {
		(void)fputs("{\"hex\":\"", stdout);
		for (i = 0; i < s.n; i++)
			printf("%02x", p[i]);
		(void)fputs("\"}", stdout);
		return;
	}
	(void)putchar('"');
	for (i = 0; i < s.n; i++) {
		if (p[i] == '"' || p[i] == '\\')
			printf("\\%c", p[i]);
		else if (p[i] < 0x20 || p[i] == 0x7f)
			printf("\\u%04x", p[i]);
		else
			(void)putchar(p[i]);
	}
	(void)putchar('"');
}

static struct pico_str
str_of(const char *text)
{
	return (struct pico_str){ text, strlen(text) };
}

static void
put_real(double v, int digits)
{
	if (v - v != 0)		/* NaN and infinities are no JSON numbers */
		printf(json ? "\"%s\"" : "%s", v != v ? "nan" :
		    v > 0 ? "inf" : "-inf");
	else
		printf("%.*g", digits, v);
}

/* A scalar that is no string, or element i of an array of such. */
static void
put_number(const struct pico_kv *kv, uint64_t i)
{
	uint64_t u;

	switch (kv->type == PICO_KV_ARR ? kv->elem : kv->type) {
	case PICO_KV_F32:
		put_real(pico_kv_real_at(kv, i), 9);
		break;
	case PICO_KV_F64:
		put_real(pico_kv_real_at(kv, i), 17);
		break;
	case PICO_KV_BOOL:
		(void)fputs(pico_kv_int_at(kv, i) ? "true" : "false", stdout);
		break;
	case PICO_KV_U64:
		memcpy(&u, kv->data + 8 * i, sizeof u);
		printf("%" PRIu64, u);
		break;
	default:
		printf("%" PRId64, pico_kv_int_at(kv, i));
	}
}

/* A string inside an array. */
static void
put_element_text(struct pico_str s)
{
	if (json) {
		json_str(s);
		return;
	}
	(void)putchar('"');
	put_text(s, all ? SIZE_MAX : SHORT_TEXT);
	(void)putchar('"');
}

/* [a, b, [c]]: arrays in arrays without recursion. At most `most` elements;
   JSON states how many there are of the outermost one only, so it gets all of
   the inner ones. */
static void
put_array(const struct pico_kv *top, uint64_t most)
{
	struct level {
		struct pico_kv kv;
		uint64_t i, n, pos;	/* done, to do, where in the data */
	} level[PICO_KV_DEPTH], *l = level;

	*l = (struct level){ .kv = *top, .n = MIN(top->n, most) };
	(void)putchar('[');
	for (;;) {
		if (l->i == l->n) {
			if (l->n < l->kv.n && !json)
				(void)fputs(", ...", stdout);
			(void)putchar(']');
			if (l == level)
				return;
			l--;
			continue;
		}
		if (l->i++ > 0)
			(void)fputs(", ", stdout);
		if (l->kv.elem == PICO_KV_ARR) {
			struct pico_kv sub = pico_kv_arr_next(&l->kv, &l->pos);

			*++l = (struct level){ .kv = sub,
			    .n = json ? sub.n : MIN(sub.n, most) };
			(void)putchar('[');
		} else if (l->kv.elem == PICO_KV_STR) {
			put_element_text(pico_kv_str_next(&l->kv, &l->pos));
		} else {
			put_number(&l->kv, l->i - 1);
		}
	}
}

static struct pico_str
kv_str(const struct pico_kv *kv)
{
	return (struct pico_str){ (const char *)kv->data, (size_t)kv->n };
}

/* "u32", "str[291]" */
static void
put_type(const struct pico_kv *kv)
{
	if (kv->type == PICO_KV_ARR)
		printf("%s[%" PRIu64 "]", pico_kv_type_name(kv->elem), kv->n);
	else
		(void)fputs(pico_kv_type_name(kv->type), stdout);
}

static void
put_value(const struct pico_kv *kv, bool whole)
{
	if (kv->type == PICO_KV_ARR)
		put_array(kv, whole ? UINT64_MAX : SHORT_ARRAY);
	else if (kv->type != PICO_KV_STR)
		put_number(kv, 0);
	else if (json)
		json_str(kv_str(kv));
	else
		put_text(kv_str(kv), whole ? SIZE_MAX : SHORT_TEXT);
}

static uint64_t
elements(const struct pico_tensor *t)
{
	return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

/* "32x291" */
static void
put_shape(const struct pico_tensor *t)
{
	uint32_t d;

	for (d = 0; d < t->n_dims; d++)
		printf("%s%" PRIu64, d > 0 ? "x" : "", t->dims[d]);
}

/* The other files of a set repeat the split keys only. */
static bool
is_shown(const struct pico_kv *kv)
{
	return kv->shard == 0;
}

/* ---- the listing ------------------------------------------------------- */

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

/* Bytes of all files; of a header alone, what the whole file must have. */
static uint64_t
total_size(const struct pico_gguf *g)
{
	struct pico_gguf_info info;
	const struct pico_tensor *t;
	uint64_t size = 0, end = 0;
	size_t i;
	int s;

	for (s = 0; s < pico_gguf_n_shards(g); s++) {
		info = pico_gguf_info(g, s);
		size += info.file_size;
	}
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		t = pico_gguf_tensor(g, i);
		if (t->data != NULL)
			return size;
		end = t->offset + t->bytes > end ? t->offset + t->bytes : end;
	}
	info = pico_gguf_info(g, 0);
	return info.data_offset > 0 ? info.data_offset + end : size;
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
	    "bits per weight\n", sums[N_TYPES].values, total_size(g),
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
}

static void
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
		put_value(kv, all);
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

/* ---- JSON -------------------------------------------------------------- */

static void
json_kv(const struct pico_kv *kv)
{
	(void)fputs("{\"key\":", stdout);
	json_str(kv->key);
	printf(",\"type\":\"%s\"", pico_kv_type_name(kv->type));
	if (kv->type == PICO_KV_ARR) {
		printf(",\"elem\":\"%s\",\"n\":%" PRIu64,
		    pico_kv_type_name(kv->elem), kv->n);
		if (!all && kv->n > SHORT_ARRAY)
			printf(",\"shown\":%d", SHORT_ARRAY);
	}
	(void)fputs(",\"value\":", stdout);
	put_value(kv, all);
	printf(",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", kv->offset,
	    kv->bytes);
}

static void
json_tensor(const struct pico_tensor *t)
{
	uint32_t d;

	(void)fputs("{\"name\":", stdout);
	json_str(t->name);
	printf(",\"type\":\"%s\",\"type_id\":%" PRIu32 ",\"dims\":[",
	    pico_type(t->type)->name, t->type);
	for (d = 0; d < t->n_dims; d++)
		printf("%s%" PRIu64, d > 0 ? "," : "", t->dims[d]);
	printf("],\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"shard\":%d}",
	    t->offset, t->bytes, t->shard);
}

static void
json_file(struct pico_gguf_info info)
{
	(void)fputs("{\"path\":", stdout);
	json_str(str_of(info.path));
	printf(",\"size\":%" PRIu64 ",\"version\":%" PRIu32 ",\"alignment\":%"
	    PRIu32 ",\"kv_count\":%" PRIu64 ",\"tensor_count\":%" PRIu64
	    ",\"data_offset\":", info.file_size, info.version, info.alignment,
	    info.n_kv, info.n_tensors);
	if (info.data_offset > 0)
		printf("%" PRIu64 "}", info.data_offset);
	else
		(void)fputs("null}", stdout);
}

/* One object; `error` is why it is not all, or NULL. */
static void
list_json(const struct pico_gguf *g, const char *error)
{
	struct pico_gguf_info info = pico_gguf_info(g, 0);
	const char *sep = "";
	size_t i;
	int s;

	printf("{\"version\":%" PRIu32 ",\"alignment\":%" PRIu32
	    ",\n\"files\":[", info.version, info.alignment);
	for (s = 0; s < pico_gguf_n_shards(g); s++) {
		(void)fputs(s > 0 ? ",\n" : "\n", stdout);
		json_file(pico_gguf_info(g, s));
	}
	(void)fputs("],\n\"kv\":[", stdout);
	for (i = 0; i < pico_gguf_n_kv(g); i++) {
		if (!is_shown(pico_gguf_kv(g, i)))
			continue;
		printf("%s\n", sep);
		json_kv(pico_gguf_kv(g, i));
		sep = ",";
	}
	(void)fputs("],\n\"tensors\":[", stdout);
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		(void)fputs(i > 0 ? ",\n" : "\n", stdout);
		json_tensor(pico_gguf_tensor(g, i));
	}
	(void)putchar(']');
	if (error != NULL) {
		(void)fputs(",\n\"error\":", stdout);
		json_str(str_of(error));
	}
	(void)fputs("}\n", stdout);
}

/* ---- other views of the header ----------------------------------------- */

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

static int
put_key(const struct pico_gguf *g, const char *path)
{
	const struct pico_kv *kv = pico_gguf_find(g, key);

	if (kv == NULL)
		return fault(path, "there is no key '%.100s'", key);
	if (kv->type == PICO_KV_ARR) {
		all = true;
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
compare_str(struct pico_str a, struct pico_str b)
{
	int c = memcmp(a.p, b.p, MIN(a.n, b.n));

	return c != 0 ? c : a.n < b.n ? -1 : a.n > b.n;
}

static int
compare_kv(const void *a, const void *b)
{
	return compare_str((*(const struct pico_kv *const *)a)->key,
	    (*(const struct pico_kv *const *)b)->key);
}

static int
compare_tensor(const void *a, const void *b)
{
	return compare_str((*(const struct pico_tensor *const *)a)->name,
	    (*(const struct pico_tensor *const *)b)->name);
}

/* Order has no meaning in a file, so this is sorted; arrays have an element a
   line, so that diff shows the ones that differ. */
static void
list_diffable(const struct pico_gguf *g)
{
	size_t n_kv = pico_gguf_n_kv(g), n = pico_gguf_n_tensors(g), i;
	const struct pico_kv **kv = calloc(n_kv + 1, sizeof *kv);
	const struct pico_tensor **t = calloc(n + 1, sizeof *t);

	if (kv == NULL || t == NULL)
		cmd_die(&(struct pico_err){ PICO_ERROR, "no memory to sort" });
	for (i = 0; i < n_kv; i++)
		kv[i] = pico_gguf_kv(g, i);
	for (i = 0; i < n; i++)
		t[i] = pico_gguf_tensor(g, i);
	qsort(kv, n_kv, sizeof *kv, compare_kv);
	qsort(t, n, sizeof *t, compare_tensor);
	all = true;
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

static void
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

static int
list_vocab(const struct pico_gguf *g, const char *path)
{
	static const char *const types[] = { "undefined", "normal", "unknown",
	    "control", "user", "unused", "byte" };
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
		printf("%" PRIu64 "\t%s\t", i, types[type >= 0 && type < 7 ?
		    type : 0]);
		put_real(kv[0] != NULL ? pico_kv_real_at(kv[0], i) : 0.0, 9);
		(void)putchar('\t');
		put_text(pico_kv_str_next(tokens, &pos), SIZE_MAX);
		(void)putchar('\n');
	}
	return 0;
}

/* ---- tensor data ------------------------------------------------------- */

static const struct pico_tensor *
find_tensor(const struct pico_gguf *g, const char *path, const char *name)
{
	const struct pico_tensor *t = pico_gguf_find_tensor(g, name);

	if (t == NULL)
		(void)fault(path, "there is no tensor '%.100s'", name);
	return t;
}

static int
put_data(const struct pico_gguf *g, const char *path)
{
	const struct pico_tensor *t = find_tensor(g, path,
	    dump != NULL ? dump : raw);
	const struct pico_type *type;
	uint64_t i, n, k;
	float y[4096];	/* whole blocks of any type */

	if (t == NULL)
		return PICO_ERROR;
	if (raw != NULL) {
		(void)fwrite(t->data, 1, (size_t)t->bytes, stdout);
		return 0;
	}
	type = pico_type(t->type);
	n = elements(t);
	for (i = 0; i < n; i += k) {
		k = MIN(n - i, sizeof y / sizeof *y);
		(void)pico_dequantize(t->type, t->data + i / type->block *
		    type->bytes, y, (size_t)k);
		if (fwrite(y, sizeof *y, (size_t)k, stdout) != k)
			break;	/* cmd_finish says why */
	}
	return 0;
}

/* Returns whether all values are finite. */
static bool
put_stats(const struct pico_tensor *t)
{
	struct pico_stats s;

	(void)pico_stats(t->type, t->data, elements(t), &s);
	put_text(t->name, SIZE_MAX);
	printf("\t%s\t%" PRIu64 "\t%.9g\t%.9g\t%.9g\t%.9g\t%" PRIu64 "\t%"
	    PRIu64 "\n", pico_type(t->type)->name, s.n, s.min, s.max, s.mean,
	    s.rms, s.n_nan, s.n_inf);
	return s.n_nan + s.n_inf == 0;
}

/* Names what is wrong with a tensor's data; returns whether it is sound. */
static bool
put_faults(const struct pico_tensor *t)
{
	const struct pico_type *type = pico_type(t->type);
	struct pico_stats s;
	uint64_t first = 0, n = elements(t), bad;

	bad = pico_bad_blocks(t->type, t->data, n, &first);
	(void)pico_stats(t->type, t->data, n, &s);
	if (bad + s.n_nan + s.n_inf == 0)
		return true;
	put_text(t->name, SIZE_MAX);
	printf("\t%s\t", type->name);
	if (bad > 0 && type->block > 1)
		printf("%" PRIu64 " of %" PRIu64 " blocks have a scale that is "
		    "NaN or infinite, the first is block %" PRIu64 "\n", bad,
		    n / type->block, first);
	else
		printf("%" PRIu64 " of %" PRIu64 " values are NaN, %" PRIu64
		    " infinite\n", s.n_nan, n, s.n_inf);
	return false;
}

/* --stats and --check: of the tensors named, or of all. */
static int
examine(const struct pico_gguf *g, const char *path, char **names, int n_names)
{
	size_t n = n_names > 0 ? (size_t)n_names : pico_gguf_n_tensors(g), i;
	const struct pico_tensor *t;
	size_t bad = 0;
	int status = 0;

	for (i = 0; i < n; i++) {
		t = n_names > 0 ? find_tensor(g, path, names[i]) :
		    pico_gguf_tensor(g, i);
		if (t == NULL) {
			status = PICO_ERROR;
			continue;
		}
		cmd_progress("tensor", i + 1, n);
		bad += !(check ? put_faults(t) : put_stats(t));
	}
	if (bad > 0)
		status = fault(path, "%zu of %zu tensors have NaN or infinite "
		    "values", bad, n);
	return status;
}

/* ---- one file ---------------------------------------------------------- */

/* Shows what the options want of an open file that may be broken: then *err
   says how. */
static int
show_header(const struct pico_gguf *g, const char *path,
    const struct pico_err *err)
{
	bool broken = err->status != PICO_OK;

	if (broken && pico_gguf_n_kv(g) + pico_gguf_n_tensors(g) == 0)
		return 0;
	if (json)
		list_json(g, broken ? err->msg : NULL);
	else if (diffable)
		list_diffable(g);
	else if (offsets)
		list_offsets(g);
	else if (key == NULL)
		list(g);
	else if (!broken || pico_gguf_find(g, key) != NULL)
		return put_key(g, path);
	return 0;
}

static int
inspect(const char *path, char **names, int n_names)
{
	bool data = stats || check || dump != NULL || raw != NULL;
	struct pico_err err = {0};
	struct pico_gguf *g;
	int status = 0;

	if (data && strcmp(path, "-") == 0)
		return fault("-", "standard input gives the header only, "
		    "this needs the tensor data");
	/* broken files are shown as far as they can be read */
	(void)pico_gguf_open(&g, path, PICO_GGUF_PARTIAL |
	    (alone || offsets ? PICO_GGUF_ALONE : 0), &err);
	if (g != NULL && !data && !vocab)
		status = show_header(g, path, &err);
	else if (err.status == PICO_OK && vocab)
		status = list_vocab(g, path);
	else if (err.status == PICO_OK && (dump != NULL || raw != NULL))
		status = put_data(g, path);
	else if (err.status == PICO_OK)
		status = examine(g, path, names, n_names);
	if (err.status != PICO_OK) {
		cmd_report(&err);
		status = PICO_ERROR;
	}
	pico_gguf_close(g);
	return status;
}

static void
put_heading(bool apart, const char *path)
{
	(void)fputs(apart ? "\nfile: " : "file: ", stdout);
	put_text(str_of(path), SIZE_MAX);
	(void)putchar('\n');
}

/* Operands of --stats that are files, among names of tensors. */
static bool
is_file(const char *operand)
{
	size_t n = strlen(operand);

	return strcmp(operand, "-") == 0 || access(operand, F_OK) == 0 ||
	    (n >= 5 && strcmp(operand + n - 5, ".gguf") == 0);
}

int
main(int argc, char **argv)
{
	int first = cmd_start(&about, table, argc, argv), n_files, n_names = 0;
	int i, status = 0;
	const char **files = calloc((size_t)argc + 1, sizeof *files);
	char **names = calloc((size_t)argc + 1, sizeof *names);

	if (files == NULL || names == NULL)
		cmd_die(&(struct pico_err){ PICO_ERROR, "no memory" });
	if (json + diffable + vocab + stats + check + offsets + (key != NULL) +
	    (dump != NULL) + (raw != NULL) > 1)
		cmd_usage("only one of --json, --diffable, --key, --vocab, "
		    "--offsets, --check, --stats, --dump and --raw");
	if ((dump != NULL || raw != NULL) && isatty(STDOUT_FILENO))
		cmd_usage("option --%s: binary data does not go to a terminal",
		    dump != NULL ? "dump" : "raw");
	for (n_files = 0, i = first; i < argc; i++) {
		if (stats && !is_file(argv[i]))
			names[n_names++] = argv[i];
		else
			files[n_files++] = argv[i];
	}
	if (n_files == 0)
		files[n_files++] = cmd_model(model);
	for (i = 0; i < n_files; i++) {
		if (n_files > 1 && !json)
			put_heading(i > 0, files[i]);
		status = inspect(files[i], names, n_names) != 0 ? PICO_ERROR :
		    status;
	}
	free(files);
	free(names);
	return cmd_finish(status);
}
