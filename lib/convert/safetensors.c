/* SPDX-License-Identifier: MIT */
/*
 * Weights in the safetensors format: the length of a header in 8 bytes, the
 * header in JSON, then the data of all tensors without gaps. A set of files has
 * an index that tells which tensor is where.
 */
#include <inttypes.h>

#include "convert.h"

static const struct dtype {
	const char *name;
	unsigned bytes;
	uint32_t type;
} dtypes[] = {
	{ "F32", 4, TYPE_F32 }, { "F16", 2, TYPE_F16 },
	{ "BF16", 2, TYPE_BF16 }, { "F64", 8, TYPE_F64 },
	/* no weights, but known */
	{ "BOOL", 1, UINT32_MAX }, { "U8", 1, UINT32_MAX },
	{ "I8", 1, UINT32_MAX }, { "F8_E5M2", 1, UINT32_MAX },
	{ "F8_E4M3", 1, UINT32_MAX }, { "F8_E8M0", 1, UINT32_MAX },
	{ "I16", 2, UINT32_MAX }, { "U16", 2, UINT32_MAX },
	{ "I32", 4, UINT32_MAX }, { "U32", 4, UINT32_MAX },
	{ "I64", 8, UINT32_MAX }, { "U64", 8, UINT32_MAX },
	{ "C64", 8, UINT32_MAX },
};

static const struct dtype *
find_dtype(struct pico_str name)
{
	size_t i;

	for (i = 0; i < COUNT(dtypes); i++)
		if (pico_str_is(name, dtypes[i].name))
			return &dtypes[i];
	return NULL;
}

/* ---- one header ---- */

/* The numbers of a list, at most `max`; -1 if it is something else. */
static int
read_list(const struct doc *d, uint32_t node, uint64_t *out, int max)
{
	uint32_t i;
	int n = 0;

	if (node == JSON_NONE || d->json.node[node].kind != JSON_ARRAY)
		return -1;
	for (i = d->json.node[node].first; i != JSON_NONE;
	    i = d->json.node[i].next)
		if (n == max || doc_whole(d, i, &out[n++]) < 0)
			return -1;
	return n;
}

static int
read_entry(const struct doc *d, uint32_t node, struct st_tensor *t,
    uint64_t room, const char *file, struct pico_err *err)
{
	const char *name = show_str(t->name);
	const struct dtype *type;
	uint64_t bytes, at[2];
	int i, n;

	if (d->json.node[node].kind != JSON_OBJECT)
		return fail(err, "'%s': tensor '%s' is %s", file, name,
		    doc_kind(d, node));
	if (doc_str(d, doc_get(d, node, "dtype"), &t->dtype) <= 0)
		return fail(err, "'%s': tensor '%s' has no dtype", file, name);
	type = find_dtype(t->dtype);
	if (type == NULL)
		return fail(err, "'%s': tensor '%s' has the unknown dtype '%s'",
		    file, name, show_str(t->dtype));
	t->type = type->type;
	n = read_list(d, doc_get(d, node, "shape"), t->dims, ST_DIMS);
	if (n < 0)
		return fail(err, "'%s': tensor '%s' has no shape of at most %d "
		    "whole numbers", file, name, ST_DIMS);
	t->n_dims = (uint32_t)n;
	if (read_list(d, doc_get(d, node, "data_offsets"), at, 2) != 2)
		return fail(err, "'%s': tensor '%s' has no data_offsets of two "
		    "whole numbers", file, name);
	t->begin = at[0];
	t->end = at[1];
	if (t->begin > t->end || t->end > room)
		return fail(err, "'%s': tensor '%s' has bytes %" PRIu64 " to %"
		    PRIu64 ", the file has data of %" PRIu64, file, name,
		    t->begin, t->end, room);
	for (bytes = type->bytes, i = 0; i < n; i++)
		if (!mul_u64(bytes, t->dims[i], &bytes))
			return fail(err, "'%s': the shape of tensor '%s' is "
			    "larger than any file", file, name);
	if (bytes != t->end - t->begin)
		return fail(err, "'%s': tensor '%s' has a shape of %" PRIu64
		    " bytes and %" PRIu64 " bytes of data", file, name, bytes,
		    t->end - t->begin);
	return 0;
}

/* Tensors by place in the data; of those without bytes the order is free. */
static int
by_place(const void *a, const void *b)
{
	const struct st_tensor *x = a, *y = b;

	return x->begin != y->begin ? (x->begin > y->begin) - (x->begin <
	    y->begin) : (x->end > y->end) - (x->end < y->end);
}

/* One behind the other, from the first byte to the last. */
static int
check_places(struct st_set *s, size_t first, uint64_t room, const char *file,
    struct pico_err *err)
{
	const struct st_tensor *t;
	uint64_t at = 0;
	size_t i;

	if (s->n > first)
		qsort(s->tensor + first, s->n - first, sizeof *t, by_place);
	for (i = first; i < s->n; i++) {
		t = &s->tensor[i];
		if (t->begin != at)
			return fail(err, "'%s': tensor '%s' begins at byte %"
			    PRIu64 " of the data, the one before ends at %"
			    PRIu64, file, show_str(t->name), t->begin, at);
		at = t->end;
	}
	if (at != room)
		return fail(err, "'%s' has %" PRIu64 " bytes of data, its "
		    "tensors end at %" PRIu64, file, room, at);
	return 0;
}

static int
check_metadata(const struct doc *d, uint32_t node, const char *file,
    struct pico_err *err)
{
	uint32_t i;

	if (d->json.node[node].kind != JSON_OBJECT)
		return fail(err, "'%s': __metadata__ is %s", file,
		    doc_kind(d, node));
	for (i = d->json.node[node].first; i != JSON_NONE;
	    i = d->json.node[i].next)
		if (d->json.node[i].kind != JSON_STRING)
			return fail(err, "'%s': __metadata__ '%s' is %s, "
			    "should be a string", file,
			    show_str(d->json.node[i].key), doc_kind(d, i));
	return 0;
}

int
st_read_header(struct st_set *s, size_t shard, struct pico_err *err)
{
	static const char lfs[] = "version https://git-lfs";
	struct st_shard *h = &s->shard[shard];
	char file[100];
	struct doc d = { .there = true };
	const uint8_t *p = h->map.p;
	size_t first = s->n;
	uint64_t n, room;
	uint32_t i;
	int r = 0;

	(void)snprintf(file, sizeof file, "%s", show_str(h->name));
	if (h->map.n >= sizeof lfs - 1 && memcmp(p, lfs, sizeof lfs - 1) == 0)
		return fail(err, "'%s' is a pointer of Git LFS, not the file "
		    "itself ('git lfs pull' gets it)", file);
	if (h->map.n < 8)
		return fail(err, "'%s' has %" PRIu64 " bytes, no header", file,
		    h->map.n);
	n = get_u64(p);
	if (n > FOLDER_TEXT_MAX || n > h->map.n - 8)
		return fail(err, "'%s': a header of %" PRIu64 " bytes, %s %"
		    PRIu64, file, n, n > FOLDER_TEXT_MAX ? "allowed are" :
		    "the file has", n > FOLDER_TEXT_MAX ? FOLDER_TEXT_MAX :
		    h->map.n - 8);
	if (n == 0 || p[8] != '{')
		return fail(err, "'%s': the header does not begin with '{'",
		    file);
	if (doc_parse(&h->json, file, (const char *)p + 8, (size_t)n, err) < 0)
		return -1;
	d.json = h->json;
	room = h->map.n - 8 - n;
	for (i = d.json.node[0].first; i != JSON_NONE && r == 0;
	    i = d.json.node[i].next) {
		struct st_tensor t = { .name = d.json.node[i].key,
		    .shard = (uint32_t)shard };

		if (pico_str_is(t.name, "__metadata__")) {
			r = check_metadata(&d, i, file, err);
			continue;
		}
		r = read_entry(&d, i, &t, room, file, err);
		t.data = p + 8 + n + t.begin;
		if (r == 0)
			r = mem_grow(&s->tensor, &s->cap, s->n + 1,
			    sizeof *s->tensor, "tensor table", err);
		if (r == 0)
			s->tensor[s->n++] = t;
	}
	return r < 0 ? -1 : check_places(s, first, room, file, err);
}

/* ---- the set ---- */

static int
by_name(const void *a, const void *b)
{
	const struct st_tensor *x = a, *y = b;

	return pico_str_compare(x->name, y->name);
}

int
st_sort(struct st_set *s, struct pico_err *err)
{
	size_t i;

	if (s->n > 0)
		qsort(s->tensor, s->n, sizeof *s->tensor, by_name);
	for (i = 1; i < s->n; i++)
		if (by_name(&s->tensor[i - 1], &s->tensor[i]) == 0)
			return fail(err, "tensor '%s' is there twice, in '%s' "
			    "and '%s'", show_str(s->tensor[i].name),
			    show_str(s->shard[s->tensor[i - 1].shard].name),
			    show_str(s->shard[s->tensor[i].shard].name));
	return 0;
}

struct st_tensor *
st_find(const struct st_set *s, struct pico_str name)
{
	struct st_tensor key = { .name = name };

	return s->n == 0 ? NULL : bsearch(&key, s->tensor, s->n,
	    sizeof *s->tensor, by_name);
}

static int
add_shard(struct st_set *s, const char *dir, struct pico_str name,
    struct pico_err *err)
{
	struct st_shard *h;

	if (mem_grow(&s->shard, &s->cap_shards, s->n_shards + 1,
	    sizeof *s->shard, "files", err) < 0)
		return -1;
	h = &s->shard[s->n_shards++];
	memset(h, 0, sizeof *h);
	h->name = name;
	return folder_path(h->path, sizeof h->path, dir, name, err) < 0 ||
	    map_open(&h->map, h->path, err) < 0 ? -1 :
	    st_read_header(s, s->n_shards - 1, err);
}

static const char index_name[] = "model.safetensors.index.json";

/* The file of a tensor by the index; -1 if that is no name of a file. */
static int
listed_file(const struct st_set *s, uint32_t node, struct pico_str *file,
    struct pico_err *err)
{
	const struct json_node *n = &s->index.json.node[node];

	if (doc_str(&s->index, node, file) <= 0)
		return fail(err, "'%s': the file of tensor '%s' is %s",
		    index_name, show_str(n->key), doc_kind(&s->index, node));
	if (file->n == 0 || memchr(file->p, '/', file->n) != NULL ||
	    memchr(file->p, '\0', file->n) != NULL ||
	    pico_str_is(*file, ".") || pico_str_is(*file, ".."))
		return fail(err, "'%s': tensor '%s' is in '%s', which is no "
		    "name of a file in this folder", index_name,
		    show_str(n->key), show_str(*file));
	return 0;
}

static int
by_str(const void *a, const void *b)
{
	return pico_str_compare(*(const struct pico_str *)a,
	    *(const struct pico_str *)b);
}

/* The files that the index names, each once, in the order of their names. */
static int
open_listed(struct st_set *s, const char *dir, uint32_t map,
    struct pico_err *err)
{
	struct pico_str *file = NULL;
	size_t n = 0, cap = 0, k;
	uint32_t i;
	int r = 0;

	for (i = s->index.json.node[map].first; i != JSON_NONE && r == 0;
	    i = s->index.json.node[i].next) {
		r = mem_grow(&file, &cap, n + 1, sizeof *file, "files", err);
		if (r == 0)
			r = listed_file(s, i, &file[n++], err);
	}
	if (n > 0)
		qsort(file, n, sizeof *file, by_str);
	for (k = 0; k < n && r == 0; k++)
		if (k == 0 || pico_str_compare(file[k - 1], file[k]) != 0)
			r = add_shard(s, dir, file[k], err);
	free(file);
	return r;
}

/* What is listed is there, where it is listed, and nothing else is. */
static int
check_listed(const struct st_set *s, uint32_t map, struct pico_err *err)
{
	const struct json_node *node = s->index.json.node;
	const struct st_tensor *t;
	size_t k;
	uint32_t i;

	for (i = node[map].first; i != JSON_NONE; i = node[i].next) {
		t = st_find(s, node[i].key);
		if (t == NULL)
			return fail(err, "'%s' has tensor '%s' in '%s', which "
			    "has none of that name", index_name,
			    show_str(node[i].key), show_str(node[i].text));
		if (pico_str_compare(s->shard[t->shard].name,
		    node[i].text) != 0)
			return fail(err, "'%s' has tensor '%s' in '%s', it is "
			    "in '%s'", index_name, show_str(t->name),
			    show_str(node[i].text),
			    show_str(s->shard[t->shard].name));
	}
	for (k = 0; k < s->n; k++)
		if (json_find(&s->index.json, map, s->tensor[k].name) ==
		    JSON_NONE)
			return fail(err, "'%s' does not list tensor '%s' of "
			    "'%s'", index_name, show_str(s->tensor[k].name),
			    show_str(s->shard[s->tensor[k].shard].name));
	return 0;
}

int
st_open(struct st_set *s, const char *dir, struct pico_err *err)
{
	uint32_t map;

	if (doc_open(&s->index, dir, index_name, err) < 0)
		return -1;
	if (!s->index.there) {
		if (!folder_has(dir, "model.safetensors"))
			return fail(err, "'%s' has no model.safetensors and no "
			    "%s; other kinds of weights (*.bin, *.pth) are not "
			    "read", show(dir, strlen(dir)), index_name);
		return add_shard(s, dir, str_of("model.safetensors"), err) < 0
		    ? -1 : st_sort(s, err);
	}
	map = doc_get(&s->index, 0, "weight_map");
	if (map == JSON_NONE || s->index.json.node[map].kind != JSON_OBJECT)
		return fail(err, "'%s' has no weight_map", index_name);
	return open_listed(s, dir, map, err) < 0 || st_sort(s, err) < 0 ? -1 :
	    check_listed(s, map, err);
}

void
st_close(struct st_set *s)
{
	size_t i;

	for (i = 0; i < s->n_shards; i++) {
		json_free(&s->shard[i].json);
		map_close(&s->shard[i].map);
	}
	free(s->shard);
	free(s->tensor);
	doc_close(&s->index);
	*s = (struct st_set){0};
}
