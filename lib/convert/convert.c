/* SPDX-License-Identifier: MIT */
/* From a folder to a file: the whole, in order. */
#define _XOPEN_SOURCE 700	/* realpath */
#include <inttypes.h>
#include <strings.h>
#include <sys/stat.h>

#include "convert.h"

/* ---- types ---- */

uint32_t
convert_type(const struct pico_convert *c, const struct out_tensor *t,
    uint32_t stored)
{
	uint32_t type = c->type;

	if (type == TYPE_KEEP)
		type = stored == TYPE_F64 ? TYPE_F32 : stored;
	/* rows of no whole blocks; in mixes others decide later */
	if (t->width % pico_type(type)->block != 0)
		type = TYPE_F16;
	return type;
}

/* The type of the first matrix of the folder, in the order of its names. */
static uint32_t
type_in_folder(const struct pico_convert *c)
{
	size_t i;

	for (i = 0; i < c->weights.n; i++)
		if (c->weights.tensor[i].n_dims >= 2 &&
		    c->weights.tensor[i].type != UINT32_MAX)
			return c->weights.tensor[i].type;
	return TYPE_F32;
}

static int
choose_type(struct pico_convert *c, struct pico_err *err)
{
	const char *name = c->params.type;
	uint32_t stored = type_in_folder(c);

	if (strcasecmp(name, "auto") == 0)
		name = stored == TYPE_BF16 ? "BF16" : "F16";
	if (strcasecmp(name, "keep") == 0) {
		c->type = TYPE_KEEP;
		c->file_type = stored == TYPE_BF16 ? 32 : stored == TYPE_F16;
		return 0;
	}
	c->mix = pico_mix_named(name);
	if (c->mix == NULL)
		return fail_usage(err, "type '%s' is not known: keep, auto, "
		    "f32, f16, bf16, q8_0, or a mix such as Q4_K_M (see "
		    "pico-convert(1))", show(name, strlen(name)));
	c->type = c->mix->type;
	c->file_type = (uint32_t)c->mix->file_type;
	return 0;
}

/* The types of the tensors of a mix, which depend on each other; those of 32 bits
   stay. */
static int
mix_types(struct pico_convert *c, struct pico_err *err)
{
	const struct sizes *s = &c->sizes;
	struct pico_mix_model model = { str_of(c->class->arch),
	    SIZE(s, 'L'), SIZE(s, 'N'), SIZE(s, 'M'), SIZE(s, 'E'), false };
	struct pico_tensor *t;
	uint32_t *types;
	size_t i;
	int r = -1;

	if (c->mix == NULL || c->type == TYPE_F32 || c->type == TYPE_F16 ||
	    c->type == TYPE_BF16 || c->type == TYPE_Q8_0)
		return 0;
	t = mem_new(c->plan.n, sizeof *t, "tensor table", err);
	types = mem_new(c->plan.n, sizeof *types, "tensor table", err);
	for (i = 0; t != NULL && i < c->plan.n; i++) {
		t[i] = (struct pico_tensor){
			.name = str_of(c->plan.tensor[i].name),
			.type = c->plan.tensor[i].type == TYPE_F32 ?
			    TYPE_F32 : TYPE_F16,
			.n_dims = c->plan.tensor[i].n_dims,
		};
		memcpy(t[i].dims, c->plan.tensor[i].dims, sizeof t[i].dims);
	}
	if (t != NULL && types != NULL)
		r = pico_mix_types(c->mix, &model, t, c->plan.n, types, err);
	for (i = 0; r == 0 && i < c->plan.n; i++)
		if (c->plan.tensor[i].type != TYPE_F32)
			c->plan.tensor[i].type = types[i];
	free(t);
	free(types);
	return r;
}

/* ---- general keys ---- */

static void
write_count(char *out, size_t size, double n)
{
	static const char unit[] = "KMBT";
	size_t i = n > 1e12 ? 3 : n > 1e9 ? 2 : n > 1e6 ? 1 : 0, k;

	for (k = 0; k <= i; k++)
		n /= 1000;
	/* two digits at least */
	(void)snprintf(out, size, n < 10 ? "%.1f%c" : "%.0f%c", n, unit[i]);
}

static void
write_label(struct pico_convert *c)
{
	uint32_t experts = SIZE(&c->sizes, 'E');
	uint64_t each = c->plan.expert_elements;
	char count[20];

	if (experts > 0)
		write_count(count, sizeof count, (double)(c->plan.elements -
		    each + each / experts));
	else
		write_count(count, sizeof count, (double)c->plan.elements);
	if (experts > 0)
		(void)snprintf(c->label, sizeof c->label, "%" PRIu32 "x%s",
		    experts, count);
	else
		(void)snprintf(c->label, sizeof c->label, "%s", count);
}

/* The last part of a path; of models--ORG--NAME/snapshots/COMMIT, as a cache of
   downloads has it, NAME. */
static struct pico_str
folder_name(const char *path)
{
	static const char between[] = "/snapshots/", begin[] = "/models--";
	const char *last = strrchr(path, '/'), *cut, *s;
	size_t n = sizeof between - 1;

	if (last == NULL)
		return str_of("");
	cut = last - path >= (ptrdiff_t)n ? last + 1 - n : path;
	if (cut == path || strncmp(cut, between, n) != 0)
		return str_of(last + 1);
	for (s = cut - 1; s > path && *s != '/'; s--)
		;
	if (strncmp(s, begin, sizeof begin - 1) != 0)
		return str_of(last + 1);
	for (s = cut - 1; s[0] != '-' || s[-1] != '-'; s--)
		;
	return (struct pico_str){ s + 1, (size_t)(cut - s - 1) };
}

/* ORG/NAME as config.json may have it, or else the folder's. */
static void
write_name(struct pico_convert *c)
{
	struct pico_str s = { "", 0 };
	char *real = NULL;
	const char *slash;
	size_t i, n = 0, len;

	(void)doc_str(&c->config, doc_get(&c->config, 0, "_name_or_path"), &s);
	slash = s.n > 0 ? memchr(s.p, '/', s.n) : NULL;
	if (c->params.name != NULL) {
		s = str_of(c->params.name);
	} else if (slash != NULL && slash > s.p && *s.p != '.' &&
	    memchr(slash + 1, '/', s.n - (size_t)(slash + 1 - s.p)) == NULL) {
		s = (struct pico_str){ slash + 1,
		    s.n - (size_t)(slash + 1 - s.p) };
	} else {
		real = realpath(c->dir, NULL);
		s = folder_name(real != NULL ? real : "");
	}
	for (i = 0; i < s.n && n + 4 < sizeof c->name; i += len) {
		len = pico_utf8_len(s.p + i, s.n - i);
		if (len == 0) {
			n = 0;	/* no text: no name */
			break;
		}
		memcpy(c->name + n, s.p + i, len);
		if (len == 1 && s.p[i] == '-' && c->params.name == NULL)
			c->name[n] = ' ';
		n += len;
	}
	c->name[n] = '\0';
	free(real);
}

static int
write_general(struct pico_convert *c, struct pico_err *err)
{
	write_label(c);
	write_name(c);
	if (*c->name != '\0' && meta_str(&c->meta, "general.name",
	    str_of(c->name), err) < 0)
		return -1;
	return meta_str(&c->meta, "general.size_label", str_of(c->label),
	    err) < 0 || meta_whole(&c->meta, "general.file_type", c->file_type,
	    err) < 0 || meta_whole(&c->meta, "general.quantization_version", 2,
	    err) < 0 ? -1 : 0;
}

/* ---- the whole ---- */

static int
read_folder(struct pico_convert *c, struct pico_err *err)
{
	struct stat st;

	if (c->params.pre != NULL && pre_find(str_of(c->params.pre)) == NULL)
		return fail_usage(err, "pre-tokenizer '%s' is not known",
		    show(c->params.pre, strlen(c->params.pre)));
	if (stat(c->dir, &st) < 0)
		return fail_errno(err, "cannot open it");
	if (!S_ISDIR(st.st_mode))
		return fail(err, "not a folder");
	if (doc_open(&c->config, c->dir, "config.json", err) < 0)
		return -1;
	if (!c->config.there)
		return fail(err, "no config.json is there");
	if (config_read(c, err) < 0 ||
	    st_open(&c->weights, c->dir, err) < 0 || choose_type(c, err) < 0)
		return -1;
	return plan_make(c, err) < 0 || mix_types(c, err) < 0 ||
	    vocab_read(c, err) < 0 ? -1 : write_general(c, err);
}

struct pico_convert *
pico_convert_open(const char *dir, const struct pico_convert_params *p,
    struct pico_err *err)
{
	struct pico_convert *c = mem_new(1, sizeof *c, "folder", err);

	if (c == NULL)
		return NULL;
	c->params = *p;
	c->dir = dir;
	if (read_folder(c, err) < 0) {
		pico_convert_close(c);
		return NULL;
	}
	return c;
}

void
pico_convert_close(struct pico_convert *c)
{
	if (c == NULL)
		return;
	doc_close(&c->config);
	doc_close(&c->tokenizer);
	doc_close(&c->tokenizer_config);
	doc_close(&c->template_json);
	doc_close(&c->added);
	map_close(&c->spm);
	map_close(&c->template);
	st_close(&c->weights);
	words_free(&c->words);
	free(c->rope_freqs);
	free(c->rope_long);
	free(c->rope_short);
	free(c->plan.tensor);
	free(c->plan.src);
	free(c->meta.key);
	free(c);
}

void
pico_convert_list(const struct pico_convert *c, FILE *out)
{
	const struct out_tensor *t;
	const struct pico_type *type;
	size_t i;
	uint32_t d;

	meta_list(&c->meta, out);
	for (i = 0; i < c->plan.n; i++) {
		t = &c->plan.tensor[i];
		type = pico_type(t->type);
		(void)fprintf(out, "%s\t%s\t", t->name, type->name);
		for (d = 0; d < t->n_dims; d++)
			(void)fprintf(out, "%s%" PRIu64, d > 0 ? "x" : "",
			    t->dims[d]);
		(void)fprintf(out, "\t%" PRIu64 "\n",
		    plan_bytes(t));
	}
}

/* A file that is read must not be replaced by what is made of it. */
static int
check_target(const struct pico_convert *c, const char *path,
    struct pico_err *err)
{
	const struct map *const maps[] = {
		&c->config.map, &c->tokenizer.map, &c->tokenizer_config.map,
		&c->spm, &c->template, &c->template_json.map, &c->added.map,
		&c->weights.index.map,
	};
	bool same = false;
	size_t i;

	for (i = 0; i < COUNT(maps); i++)
		same = same || map_is(maps[i], path);
	for (i = 0; i < c->weights.n_shards; i++)
		same = same || map_is(&c->weights.shard[i].map, path);
	return same ? fail(err, "'%s' is a file of the folder, which would be "
	    "lost", show(path, strlen(path))) : 0;
}

int
pico_convert_write(struct pico_convert *c, const char *path,
    pico_convert_progress *progress, void *data, struct pico_err *err)
{
	struct pico_writer *w = pico_writer_new(err);
	const struct out_tensor *t;
	size_t i;
	int r = -1;

	if (w == NULL || check_target(c, path, err) < 0 ||
	    meta_write(&c->meta, w, err) < 0)
		goto end;
	for (i = 0; i < c->plan.n; i++) {
		t = &c->plan.tensor[i];
		if (pico_writer_tensor(w, str_of(t->name), t->type, t->n_dims,
		    t->dims, err) < 0)
			goto end;
	}
	if (pico_writer_begin(w, path, err) < 0 ||
	    rows_write(c, w, progress, data, err) < 0)
		goto end;
	/* what was read must be what is there now */
	for (i = 0; i < c->weights.n_shards; i++)
		if (map_check(&c->weights.shard[i].map,
		    c->weights.shard[i].path, err) < 0)
			goto end;
	r = pico_writer_end(w, err);
end:
	pico_writer_free(w);
	return r;
}
