/* SPDX-License-Identifier: MIT */
/*
 * The GGUF container. The layout of versions 2 and 3: magic, version, two
 * counts, the keys with their values, the tensor records, padding, tensor data.
 * Version 1 has the same layout with 4-byte counts and lengths.
 *
 * Every number in a file is doubted before use, in the form need <= left, which
 * cannot wrap. Arrays grow with what was really read, so a claimed count costs
 * nothing.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"

#define STDIN_NAME "standard input"

static const struct {
	const char *name;
	unsigned size;		/* of a value; of the least one, if it varies */
} kv_types[PICO_KV_N] = {
	[PICO_KV_U8] = { "u8", 1 },
	[PICO_KV_I8] = { "i8", 1 },
	[PICO_KV_U16] = { "u16", 2 },
	[PICO_KV_I16] = { "i16", 2 },
	[PICO_KV_U32] = { "u32", 4 },
	[PICO_KV_I32] = { "i32", 4 },
	[PICO_KV_F32] = { "f32", 4 },
	[PICO_KV_BOOL] = { "bool", 1 },
	[PICO_KV_STR] = { "str", 0 },
	[PICO_KV_ARR] = { "arr", 0 },
	[PICO_KV_U64] = { "u64", 8 },
	[PICO_KV_I64] = { "i64", 8 },
	[PICO_KV_F64] = { "f64", 8 },
};

/* One file of the set. */
struct shard {
	char *path;
	struct map map;
	void *input;		/* bytes read from standard input, or NULL */
	struct pico_gguf_info info;
	size_t first_kv, first_tensor;	/* in the arrays of the set */
	uint64_t keys_end;
};

struct pico_gguf {
	struct shard *shard;
	size_t n_shards, cap_shards;
	struct pico_kv *kv;
	size_t n_kv, cap_kv;
	struct pico_tensor *tensor;
	size_t n_tensors, cap_tensors;
	/* Sorted by key and name; equal ones in the order of the files. */
	const struct pico_kv **by_key;
	const struct pico_tensor **by_name;
};

/* ---- reading bytes ----------------------------------------------------- */

struct reader {
	const char *path;
	const uint8_t *p;
	uint64_t n, pos;	/* pos <= n always */
	uint32_t wide;		/* bytes of a count or length */
	bool cut;		/* it failed because the bytes ran out */
	char where[320];	/* "key 'a.b' at offset 24: ", or nothing */
	struct pico_err *err;
};

static int bad(struct reader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static int bad_file(const char *path, struct pico_err *err, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

/* "'m.gguf': message"; of a very long path the end, which tells more. */
static int
vbad_file(const char *path, struct pico_err *err, const char *where,
    const char *fmt, va_list ap)
{
	const char *quote = strcmp(path, STDIN_NAME) == 0 ? "" : "'";
	size_t n = strlen(path);
	char msg[300];

	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	return fail(err, "%s%s%s%s%s%s%s", quote, n > 120 ? "..." : "",
	    n > 120 ? path + n - 120 : path, quote,
	    strncmp(msg, "is ", 3) == 0 ? " " : ": ", where, msg);
}

static int
bad_file(const char *path, struct pico_err *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vbad_file(path, err, "", fmt, ap);
	va_end(ap);
	return -1;
}

static int
bad(struct reader *r, const char *fmt, ...)
{
	char where[sizeof r->where + 16];
	va_list ap;

	/* nothing looks right if that field is what is wrong */
	(void)snprintf(where, sizeof where, "%s%s",
	    r->wide == 4 ? "version 1: " : "", r->where);
	va_start(ap, fmt);
	(void)vbad_file(r->path, r->err, where, fmt, ap);
	va_end(ap);
	return -1;
}

static uint64_t
left(const struct reader *r)
{
	return r->n - r->pos;
}

static int
need(struct reader *r, const char *what, uint64_t n)
{
	if (n <= left(r))
		return 0;
	r->cut = true;
	return bad(r, "%s at offset %" PRIu64 " needs %" PRIu64
	    " bytes, file has %" PRIu64 " left", what, r->pos, n, left(r));
}

static int
take_u32(struct reader *r, const char *what, uint32_t *v)
{
	if (need(r, what, 4) < 0)
		return -1;
	*v = get_u32(r->p + r->pos);
	r->pos += 4;
	return 0;
}

static int
take_u64(struct reader *r, const char *what, uint64_t *v)
{
	if (need(r, what, 8) < 0)
		return -1;
	*v = get_u64(r->p + r->pos);
	r->pos += 8;
	return 0;
}

/* A count, a length or a dimension: 4 bytes in version 1, else 8. */
static int
take_count(struct reader *r, const char *what, uint64_t *v)
{
	uint32_t v32 = 0;

	if (r->wide == 8)
		return take_u64(r, what, v);
	if (take_u32(r, what, &v32) < 0)
		return -1;
	*v = v32;
	return 0;
}

/* `what` is "key", "tensor name" or "string". */
static int
take_str(struct reader *r, const char *what, uint64_t min, uint64_t max,
    struct pico_str *s)
{
	uint64_t n = 0;

	if (left(r) < r->wide) {
		char field[32];

		(void)snprintf(field, sizeof field, "%s length", what);
		return need(r, field, r->wide);
	}
	(void)take_count(r, what, &n);
	if (n < min || n > max)
		return bad(r, "%s length %" PRIu64 " is not between %" PRIu64
		    " and %" PRIu64, what, n, min, max);
	if (n > left(r)) {
		r->cut = true;
		return bad(r, "%s length %" PRIu64 " at offset %" PRIu64
		    " is more than the %" PRIu64 " bytes left in the file",
		    what, n, r->pos - r->wide, left(r));
	}
	*s = (struct pico_str){ (const char *)r->p + r->pos, (size_t)n };
	r->pos += n;
	return 0;
}

/* ---- values ------------------------------------------------------------ */

const char *
pico_kv_type_name(uint32_t type)
{
	return type < PICO_KV_N ? kv_types[type].name : NULL;
}

unsigned
kv_type_size(uint32_t type)
{
	return kv_types[type].size;
}

static int
check_bools(struct reader *r, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		if (r->p[r->pos + i] > 1)
			return bad(r, "bool value at offset %" PRIu64
			    " is %u, not 0 or 1", r->pos + i,
			    (unsigned)r->p[r->pos + i]);
	return 0;
}

/* Moves past n elements that are no arrays. */
static int
skip_elements(struct reader *r, uint32_t type, uint64_t n)
{
	struct pico_str s;
	uint64_t i;

	if (type == PICO_KV_STR) {
		for (i = 0; i < n; i++)
			if (take_str(r, "string", 0, UINT64_MAX, &s) < 0)
				return -1;
		return 0;
	}
	if (type == PICO_KV_BOOL && check_bools(r, n) < 0)
		return -1;
	r->pos += n * kv_types[type].size;
	return 0;
}

/*
 * An array, and those inside it without recursion: todo[d] counts the arrays
 * still to come at depth d. Each of them takes bytes, so this ends.
 */
static int
take_array(struct reader *r, struct pico_kv *kv)
{
	uint64_t todo[PICO_KV_DEPTH - 1], n = 0, least;
	uint32_t elem = 0;
	unsigned depth = 0;
	bool outermost = true;

	for (;;) {
		if (take_u32(r, "array element type", &elem) < 0 ||
		    take_count(r, "array count", &n) < 0)
			return -1;
		if (elem >= PICO_KV_N)
			return bad(r, "array element type %" PRIu32 " at offset"
			    " %" PRIu64 " is unknown, the last is %d", elem,
			    r->pos - r->wide - 4, PICO_KV_N - 1);
		least = elem == PICO_KV_STR ? r->wide :
		    elem == PICO_KV_ARR ? 4 + r->wide : kv_types[elem].size;
		if (n > left(r) / least) {
			r->cut = true;
			return bad(r, "array count %" PRIu64 " of %s at offset "
			    "%" PRIu64 ": array data is cut off, %" PRIu64
			    " bytes are left in the file", n, kv_types[elem].name,
			    r->pos - r->wide, left(r));
		}
		if (outermost) {
			kv->elem = elem;
			kv->n = n;
			kv->data = r->p + r->pos;
			kv->offset = r->pos;
			outermost = false;
		}
		if (elem != PICO_KV_ARR) {
			if (skip_elements(r, elem, n) < 0)
				return -1;
		} else {
			if (depth == COUNT(todo))
				return bad(r, "array nesting at offset %" PRIu64
				    " is deeper than %d", r->pos,
				    PICO_KV_DEPTH);
			todo[depth++] = n;
		}
		while (depth > 0 && todo[depth - 1] == 0)
			depth--;
		if (depth == 0)
			break;
		todo[depth - 1]--;
	}
	kv->bytes = r->pos - kv->offset;
	return 0;
}

static int
take_value(struct reader *r, struct pico_kv *kv)
{
	struct pico_str s = {0};

	switch (kv->type) {
	case PICO_KV_ARR:
		return take_array(r, kv);
	case PICO_KV_STR:
		if (take_str(r, "string", 0, UINT64_MAX, &s) < 0)
			return -1;
		kv->data = (const uint8_t *)s.p;
		kv->n = kv->bytes = s.n;
		kv->offset = r->pos - s.n;
		return 0;
	default:
		if (need(r, "value", kv_types[kv->type].size) < 0)
			return -1;
		kv->n = 1;
		kv->data = r->p + r->pos;
		kv->offset = r->pos;
		kv->bytes = kv_types[kv->type].size;
		return skip_elements(r, kv->type, 1);
	}
}

/* ---- the sections of one file ------------------------------------------ */

/* Says what a file is that is no GGUF file. */
static int
check_magic(struct reader *r)
{
	static const struct {
		const char *start, *is;
	} known[] = {
		{ "version https://git-lfs", "it is a Git LFS pointer, "
		    "the real file was not fetched" },
		{ "lmgg", "it has the old format ggml" },
		{ "fmgg", "it has the old format ggmf" },
		{ "tjgg", "it has the old format ggjt" },
		{ "algg", "it is an adapter of the old format ggla" },
		{ "PK\3\4", "it is a zip archive" },
	};
	const char *text = (const char *)r->p;
	size_t n, i;

	if (r->n == 0)
		return bad(r, "is not a GGUF file: it is empty");
	if (r->n >= 4 && memcmp(r->p, "GGUF", 4) == 0) {
		r->pos = 4;
		return 0;
	}
	for (i = 0; i < COUNT(known); i++) {
		n = strlen(known[i].start);
		if (r->n >= n && memcmp(r->p, known[i].start, n) == 0)
			return bad(r, "is not a GGUF file: %s", known[i].is);
	}
	if (r->n >= 10 && memcmp(r->p + 8, "{\"", 2) == 0)
		return bad(r, "is not a GGUF file: it is a safetensors file");
	/* The first word, if it starts with one (a web page, a message). */
	for (i = 0; i < r->n && isspace(r->p[i]); i++)
		continue;
	for (n = 0; n < 16 && i + n < r->n && isgraph(r->p[i + n]); n++)
		continue;
	if (n < 4) {
		i = 0;
		n = MIN(r->n, 4);
	}
	return bad(r, "is not a GGUF file: it begins with '%s'",
	    show(text + i, n));
}

static int
read_header(struct reader *r, struct pico_gguf_info *info)
{
	if (check_magic(r) < 0 || take_u32(r, "version", &info->version) < 0)
		return -1;
	if ((info->version & 0xffff) == 0 && info->version != 0)
		return bad(r, "is a big-endian file (version field 0x%08" PRIx32
		    "): only little-endian ones are supported", info->version);
	if (info->version < 1 || info->version > 3)
		return bad(r, "version %" PRIu32 " is not supported, only 1 to "
		    "3 are", info->version);
	r->wide = info->version == 1 ? 4 : 8;
	return take_count(r, "tensor_count", &info->n_tensors) < 0 ||
	    take_count(r, "kv_count", &info->n_kv) < 0 ? -1 : 0;
}

/* A claimed count of records against the bytes that could hold them. One that
   is only somewhat too large is left to the reading of the records, which tells
   where the file ends: that costs no more than the file has. */
static int
check_count(struct reader *r, const char *what, uint64_t n)
{
	if (n <= left(r))
		return 0;
	r->cut = true;
	return bad(r, "%s %" PRIu64 " is more than the %" PRIu64
	    " bytes left in the file can hold", what, n, left(r));
}

static int
read_kv(struct reader *r, struct pico_gguf *g, uint64_t i, uint64_t n)
{
	struct pico_kv kv = { .shard = (int)g->n_shards - 1, .wide = r->wide };
	uint64_t start = r->pos;

	(void)snprintf(r->where, sizeof r->where, "key %" PRIu64 " of %" PRIu64
	    " (kv_count): ", i + 1, n);
	if (take_str(r, "key", 1, GGUF_KEY_MAX, &kv.key) < 0)
		return -1;
	(void)snprintf(r->where, sizeof r->where, "key '%s' at offset %" PRIu64
	    ": ", show_str(kv.key), start);
	if (take_u32(r, "value type", &kv.type) < 0)
		return -1;
	if (kv.type >= PICO_KV_N)
		return bad(r, "value type %" PRIu32 " is unknown, the last is "
		    "%d", kv.type, PICO_KV_N - 1);
	if (take_value(r, &kv) < 0 || mem_grow(&g->kv, &g->cap_kv, g->n_kv + 1,
	    sizeof *g->kv, "keys", r->err) < 0)
		return -1;
	g->kv[g->n_kv++] = kv;
	return 0;
}

static int
check_type(struct reader *r, struct pico_tensor *t, uint64_t elements)
{
	const struct pico_type *type = pico_type(t->type);

	if (type == NULL && type_removed(t->type) != NULL)
		return bad(r, "tensor type %" PRIu32 " (%s) was removed from "
		    "the format%s", t->type, type_removed(t->type),
		    t->type >= 31 ? ": quantize the model again" : "");
	if (type == NULL)
		return bad(r, "unknown tensor type %" PRIu32, t->type);
	if (t->dims[0] % type->block != 0)
		return bad(r, "dimensions: the first is %" PRIu64 ", not a multiple of "
		    "the %" PRIu32 " elements of a %s block", t->dims[0],
		    type->block, type->name);
	if (!mul_u64(elements / type->block, type->bytes, &t->bytes) ||
	    t->bytes > INT64_MAX)
		return bad(r, "dimensions: %" PRIu64 " elements of type %s "
		    "have more than 2^63 - 1 bytes", elements, type->name);
	return 0;
}

static int
read_tensor(struct reader *r, struct pico_gguf *g, uint64_t i, uint64_t n)
{
	struct pico_tensor t = { .shard = (int)g->n_shards - 1,
	    .dims = { 1, 1, 1, 1 } };
	uint64_t elements = 1;
	uint32_t d;

	(void)snprintf(r->where, sizeof r->where, "tensor %" PRIu64 " of %"
	    PRIu64 " (tensor_count)%s: ", i + 1, n,
	    i == 0 ? ", after the keys (kv_count)" : "");
	if (take_str(r, "tensor name", 1, GGUF_NAME_MAX, &t.name) < 0)
		return -1;
	(void)snprintf(r->where, sizeof r->where, "tensor '%s': ",
	    show_str(t.name));
	if (take_u32(r, "n_dims", &t.n_dims) < 0)
		return -1;
	if (t.n_dims < 1 || t.n_dims > 4)
		return bad(r, "n_dims is %" PRIu32 ", not between 1 and 4",
		    t.n_dims);
	for (d = 0; d < t.n_dims; d++) {
		if (take_count(r, "dimensions", &t.dims[d]) < 0)
			return -1;
		if (t.dims[d] == 0)
			return bad(r, "dimensions: number %" PRIu32 " is 0", d);
		if (!mul_u64(elements, t.dims[d], &elements) ||
		    elements > INT64_MAX)
			return bad(r, "dimensions: with %" PRIu64 " in "
			    "dimension %" PRIu32 " it has more than 2^63 - 1 elements",
			    t.dims[d], d);
	}
	if (take_u32(r, "tensor type", &t.type) < 0 ||
	    take_u64(r, "tensor offset", &t.offset) < 0 ||
	    check_type(r, &t, elements) < 0 ||
	    mem_grow(&g->tensor, &g->cap_tensors, g->n_tensors + 1,
	    sizeof *g->tensor, "tensor table", r->err) < 0)
		return -1;
	g->tensor[g->n_tensors++] = t;
	return 0;
}

/* A key of one file; only few keys are asked for like this. */
static const struct pico_kv *
find_in_shard(const struct pico_gguf *g, size_t shard, const char *key)
{
	size_t i;

	for (i = g->shard[shard].first_kv; i < g->n_kv &&
	    g->kv[i].shard == (int)shard; i++)
		if (pico_str_is(g->kv[i].key, key))
			return &g->kv[i];
	return NULL;
}

static int
read_alignment(struct reader *r, const struct pico_gguf *g,
    struct pico_gguf_info *info)
{
	const struct pico_kv *kv = find_in_shard(g, g->n_shards - 1,
	    "general.alignment");

	info->alignment = GGUF_ALIGNMENT;
	if (kv == NULL)
		return 0;
	if (kv->type != PICO_KV_U32)
		return bad(r, "key 'general.alignment' has type %s, not u32",
		    kv_types[kv->type].name);
	info->alignment = get_u32(kv->data);
	if (info->alignment == 0 ||
	    (info->alignment & (info->alignment - 1)) != 0)
		return bad(r, "key 'general.alignment' is %" PRIu32
		    ", not a power of two", info->alignment);
	return 0;
}

static int
compare_offsets(const void *a, const void *b)
{
	const struct pico_tensor *x = *(const struct pico_tensor *const *)a;
	const struct pico_tensor *y = *(const struct pico_tensor *const *)b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* No two tensors of the file may share bytes; ends do not overflow, see
   place_tensors. */
static int
check_overlap(struct reader *r, const struct pico_gguf *g, size_t first)
{
	size_t n = g->n_tensors - first, i;
	const struct pico_tensor **t, *a, *b;
	int rc = 0;

	t = mem_new(n, sizeof *t, "tensor table", r->err);
	if (t == NULL)
		return -1;
	for (i = 0; i < n; i++)
		t[i] = &g->tensor[first + i];
	qsort(t, n, sizeof *t, compare_offsets);
	for (i = 1; i < n && rc == 0; i++) {
		a = t[i - 1];
		b = t[i];
		if (b->offset - a->offset < a->bytes)
			rc = bad(r, "tensor '%s': tensor offset %" PRIu64
			    " is inside tensor '%s' (offset %" PRIu64 ", %" PRIu64
			    " bytes)", show_str(b->name), b->offset,
			    show_str(a->name), a->offset, a->bytes);
	}
	free(t);
	return rc;
}

/* Finds the data of the tensors, all of it if `header` does not say that only
   the table counts. */
static int
place_tensors(struct reader *r, struct pico_gguf *g,
    struct pico_gguf_info *info, bool header)
{
	size_t first = g->shard[g->n_shards - 1].first_tensor, i;
	uint64_t start = r->pos, mask = info->alignment - 1, room;

	if (g->n_tensors == first)
		return 0;
	start = (start + mask) & ~mask;	/* pos < 2^63, mask < 2^32 */
	if (start > r->n && !header)
		return bad(r, "padding: the data section starts at %" PRIu64
		    " (general.alignment is %" PRIu32 "), file has %" PRIu64, start,
		    info->alignment, r->n);
	info->data_offset = start;
	room = (header ? INT64_MAX : r->n) - start;
	for (i = first; i < g->n_tensors; i++) {
		struct pico_tensor *t = &g->tensor[i];

		if ((t->offset & mask) != 0)
			return bad(r, "tensor '%s': tensor offset %" PRIu64
			    " is not a multiple of the alignment %" PRIu32,
			    show_str(t->name), t->offset, info->alignment);
		if (t->offset > room)
			return bad(r, "tensor '%s': tensor offset %" PRIu64
			    " in the data section at %" PRIu64 " is past the "
			    "end, file has %" PRIu64, show_str(t->name), t->offset, start, r->n);
		if (t->bytes > room - t->offset)
			return bad(r, "tensor '%s' needs bytes up to %" PRIu64
			    ", file has %" PRIu64, show_str(t->name),
			    start + t->offset + t->bytes, r->n);
		if (!header)
			t->data = r->p + start + t->offset;
	}
	return check_overlap(r, g, first);
}

/* Reads the last file of the set; *cut: it failed for want of bytes. */
static int
parse(struct pico_gguf *g, bool header, bool *cut, struct pico_err *err)
{
	struct shard *s = &g->shard[g->n_shards - 1];
	struct pico_gguf_info *info = &s->info;
	struct reader r = { .path = s->path, .p = s->map.p, .n = s->map.n,
	    .err = err };
	uint64_t i;
	int rc = -1;

	*info = (struct pico_gguf_info){ .path = s->path,
	    .file_size = s->map.n, .alignment = GGUF_ALIGNMENT,
	    .identity = s->map.identity };
	if (read_header(&r, info) < 0 ||
	    check_count(&r, "kv_count", info->n_kv) < 0)
		goto out;
	for (i = 0; i < info->n_kv; i++)
		if (read_kv(&r, g, i, info->n_kv) < 0)
			goto out;
	r.where[0] = '\0';
	s->keys_end = r.pos;
	if (read_alignment(&r, g, info) < 0 ||
	    check_count(&r, "tensor_count", info->n_tensors) < 0)
		goto out;
	for (i = 0; i < info->n_tensors; i++)
		if (read_tensor(&r, g, i, info->n_tensors) < 0)
			goto out;
	r.where[0] = '\0';
	rc = place_tensors(&r, g, info, header);
out:
	*cut = r.cut;
	return rc;
}

/* ---- opening ----------------------------------------------------------- */

static int
add_shard(struct pico_gguf *g, const char *path, struct pico_err *err)
{
	struct shard *s;

	if (mem_grow(&g->shard, &g->cap_shards, g->n_shards + 1,
	    sizeof *g->shard, "files", err) < 0)
		return -1;
	s = &g->shard[g->n_shards++];
	*s = (struct shard){ .first_kv = g->n_kv,
	    .first_tensor = g->n_tensors };
	s->path = strdup(path);
	if (s->path == NULL)
		return fail_errno(err, "cannot open '%s'", path);
	s->info.path = s->path;
	return 0;
}

static int
open_file(struct pico_gguf *g, const char *path, bool header,
    struct pico_err *err)
{
	bool cut;

	if (add_shard(g, path, err) < 0 ||
	    map_open(&g->shard[g->n_shards - 1].map, path, err) < 0)
		return -1;
	return parse(g, header, &cut, err);
}

/* Reads only as much as the header needs: as long as it is cut short, twice as
   much is tried. */
static int
open_stdin(struct pico_gguf *g, struct pico_err *err)
{
	struct pico_err trial;
	struct shard *s;
	size_t cap = 0, want = 1 << 20;
	int64_t k = 1;
	bool cut;
	int rc;

	if (add_shard(g, STDIN_NAME, err) < 0)
		return -1;
	s = &g->shard[0];
	do {
		if (mem_grow(&s->input, &cap, want, 1, STDIN_NAME, err) < 0)
			return -1;
		while (s->map.n < cap && k > 0) {
			k = read_some(0, STDIN_NAME, (char *)s->input +
			    s->map.n, cap - (size_t)s->map.n, err);
			if (k < 0)
				return -1;
			s->map.n += (uint64_t)k;
		}
		s->map.p = s->input;
		g->n_kv = g->n_tensors = 0;
		trial = (struct pico_err){0};
		rc = parse(g, true, &cut, &trial);
		want = cap + 1;
	} while (rc < 0 && cut && k > 0);
	return rc < 0 ? fail(err, "%s", trial.msg) : 0;
}

static int int_of(const struct pico_kv *kv, int64_t min, int64_t max,
    int64_t *out, struct pico_err *err);

static int
shard_int(const struct pico_gguf *g, size_t shard, const char *key,
    int64_t max, int64_t *out, struct pico_err *err)
{
	const struct pico_kv *kv = find_in_shard(g, shard, key);
	struct pico_err why = {0};

	if (kv == NULL)
		return 0;
	if (int_of(kv, 0, max, out, &why) < 0)
		return bad_file(g->shard[shard].path, err, "%s", why.msg);
	return 1;
}

/* The keys of file i of a set of `count`. */
static int
check_shard(const struct pico_gguf *g, size_t i, int64_t count,
    struct pico_err *err)
{
	int64_t its_no = -1, its_count = count;

	if (shard_int(g, i, "split.no", UINT16_MAX, &its_no, err) < 0 ||
	    shard_int(g, i, "split.count", UINT16_MAX, &its_count, err) < 0)
		return -1;
	if (its_no == (int64_t)i && its_count == count)
		return 0;
	if (its_no == -1)
		return bad_file(g->shard[i].path, err, "key 'split.no' is "
		    "missing, should be %zu", i);
	return bad_file(g->shard[i].path, err, "key 'split.no' is %" PRId64
	    " of 'split.count' %" PRId64 ", should be %zu of %" PRId64, its_no,
	    its_count, i, count);
}

/* Opens files 2 to n of the set whose first one is open: PREFIX-00001-of-0000N
   .gguf, each with its own keys split.no and split.count, and together as many
   tensors as split.tensors.count says. */
static int
open_rest(struct pico_gguf *g, const char *path, bool header,
    struct pico_err *err)
{
	static const char form[] = "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf";
	int64_t no = 0, count = 0, total = -1, i;
	size_t len = strlen(path), end, size = len + 64;
	char suffix[64], *name;
	int rc = 0;

	if (shard_int(g, 0, "split.no", UINT16_MAX, &no, err) < 0 ||
	    shard_int(g, 0, "split.count", UINT16_MAX, &count, err) < 0 ||
	    shard_int(g, 0, "split.tensors.count", INT32_MAX, &total, err) < 0)
		return -1;
	if (count <= 1)
		return 0;
	if (no >= count)
		return bad_file(path, err, "key 'split.no' is %" PRId64
		    ", 'split.count' is %" PRId64, no, count);
	(void)snprintf(suffix, sizeof suffix, form, 0, "", no + 1, count);
	end = strlen(suffix);
	if (len < end || strcmp(path + len - end, suffix) != 0)
		return bad_file(path, err, "keys 'split.no' and 'split.count' "
		    "say that it is file %" PRId64 " of %" PRId64 ", so its "
		    "name should end in '%s'", no + 1, count, suffix);
	name = mem_new(size, 1, "file name", err);
	if (name == NULL)
		return -1;
	if (no != 0) {
		(void)snprintf(name, size, form, (int)(len - end), path,
		    (int64_t)1, count);
		rc = bad_file(path, err, "is file %" PRId64 " of %" PRId64
		    " of a split model: open the first, '%s'", no + 1, count,
		    name);
	}
	for (i = 1; i < count && rc == 0; i++) {
		(void)snprintf(name, size, form, (int)(len - end), path, i + 1,
		    count);
		rc = open_file(g, name, header, err);
		if (rc == 0)
			rc = check_shard(g, (size_t)i, count, err);
	}
	free(name);
	if (rc == 0 && total >= 0 && (uint64_t)total != g->n_tensors)
		rc = bad_file(path, err, "key 'split.tensors.count' is %" PRId64
		    ", the %" PRId64 " files have %zu", total, count,
		    g->n_tensors);
	return rc;
}

static int
compare_keys(const void *a, const void *b)
{
	const struct pico_kv *x = *(const struct pico_kv *const *)a;
	const struct pico_kv *y = *(const struct pico_kv *const *)b;
	int c = pico_str_compare(x->key, y->key);

	return c != 0 ? c : x < y ? -1 : x > y;
}

static int
compare_names(const void *a, const void *b)
{
	const struct pico_tensor *x = *(const struct pico_tensor *const *)a;
	const struct pico_tensor *y = *(const struct pico_tensor *const *)b;
	int c = pico_str_compare(x->name, y->name);

	return c != 0 ? c : x < y ? -1 : x > y;
}

/* Sorts keys and names, for finding, and because equal ones then meet. */
static int
make_index(struct pico_gguf *g, struct pico_err *err)
{
	size_t i;

	g->by_key = mem_new(g->n_kv, sizeof *g->by_key, "index of keys", err);
	g->by_name = mem_new(g->n_tensors, sizeof *g->by_name,
	    "index of tensors", err);
	if (g->by_key == NULL || g->by_name == NULL) {
		g->n_kv = g->n_tensors = 0;
		return -1;
	}
	for (i = 0; i < g->n_kv; i++)
		g->by_key[i] = &g->kv[i];
	for (i = 0; i < g->n_tensors; i++)
		g->by_name[i] = &g->tensor[i];
	qsort(g->by_key, g->n_kv, sizeof *g->by_key, compare_keys);
	qsort(g->by_name, g->n_tensors, sizeof *g->by_name, compare_names);
	for (i = 1; i < g->n_kv; i++) {
		const struct pico_kv *a = g->by_key[i - 1], *b = g->by_key[i];

		if (a->shard == b->shard && pico_str_compare(a->key, b->key) == 0)
			return bad_file(g->shard[b->shard].path, err,
			    "key '%s' occurs twice", show_str(b->key));
	}
	for (i = 1; i < g->n_tensors; i++) {
		const struct pico_tensor *a = g->by_name[i - 1];
		const struct pico_tensor *b = g->by_name[i];

		if (pico_str_compare(a->name, b->name) == 0)
			return bad_file(g->shard[b->shard].path, err,
			    "tensor name '%s' occurs twice%s",
			    show_str(b->name),
			    a->shard != b->shard ? " in the split model" : "");
	}
	return 0;
}

const uint8_t *
gguf_bytes(const struct pico_gguf *g)
{
	return g->shard[0].map.p;
}

uint64_t
gguf_keys_end(const struct pico_gguf *g)
{
	return g->shard[0].keys_end;
}

int
pico_gguf_set_keys(struct pico_gguf *g, const struct pico_writer *w,
    struct pico_err *err)
{
	size_t n = writer_n_keys(w), i;

	if (mem_grow(&g->kv, &g->cap_kv, n, sizeof *g->kv, "keys", err) < 0)
		return -1;
	for (i = 0; i < n; i++)
		g->kv[i] = writer_key(w, i);
	g->n_kv = n;
	free(g->by_key);
	free(g->by_name);
	g->by_key = NULL;
	g->by_name = NULL;
	return make_index(g, err);
}

int
pico_gguf_open(struct pico_gguf **out, const char *path, unsigned flags,
    struct pico_err *err)
{
	bool header = (flags & PICO_GGUF_HEADER) != 0;
	struct pico_gguf *g;
	int rc;

	*out = NULL;
	g = mem_new(1, sizeof *g, "model file", err);
	if (g == NULL)
		return -1;
	if (strcmp(path, "-") == 0) {
		rc = open_stdin(g, err);
	} else {
		rc = open_file(g, path, header, err);
		if (rc == 0 && (flags & PICO_GGUF_ALONE) == 0)
			rc = open_rest(g, path, header, err);
	}
	if ((rc == 0 || (flags & PICO_GGUF_PARTIAL) != 0) &&
	    make_index(g, err) < 0)
		rc = -1;
	if (rc < 0 && (flags & PICO_GGUF_PARTIAL) == 0) {
		pico_gguf_close(g);
		return -1;
	}
	*out = g;
	return rc;
}

void
pico_gguf_close(struct pico_gguf *g)
{
	size_t i;

	if (g == NULL)
		return;
	for (i = 0; i < g->n_shards; i++) {
		free(g->shard[i].path);
		free(g->shard[i].input);
		map_close(&g->shard[i].map);
	}
	free(g->shard);
	free(g->kv);
	free(g->tensor);
	free(g->by_key);
	free(g->by_name);
	free(g);
}

/* ---- looking ----------------------------------------------------------- */

int
pico_gguf_n_shards(const struct pico_gguf *g)
{
	return (int)g->n_shards;
}

int
pico_gguf_check(const struct pico_gguf *g, struct pico_err *err)
{
	size_t i;

	for (i = 0; i < g->n_shards; i++)
		if (map_check(&g->shard[i].map, g->shard[i].path, err) < 0)
			return -1;
	return 0;
}

struct pico_gguf_info
pico_gguf_info(const struct pico_gguf *g, int shard)
{
	return g->shard[shard].info;
}

size_t
pico_gguf_n_kv(const struct pico_gguf *g)
{
	return g->n_kv;
}

const struct pico_kv *
pico_gguf_kv(const struct pico_gguf *g, size_t i)
{
	return &g->kv[i];
}

size_t
pico_gguf_n_tensors(const struct pico_gguf *g)
{
	return g->n_tensors;
}

const struct pico_tensor *
pico_gguf_tensor(const struct pico_gguf *g, size_t i)
{
	return &g->tensor[i];
}

/* The first of several equal keys, so that the first file of a set wins. */
const struct pico_kv *
pico_gguf_find(const struct pico_gguf *g, const char *key)
{
	struct pico_str want = { key, strlen(key) };
	size_t lo = 0, hi = g->n_kv, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (pico_str_compare(g->by_key[mid]->key, want) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < g->n_kv && pico_str_compare(g->by_key[lo]->key, want) == 0)
		return g->by_key[lo];
	return NULL;
}

const struct pico_tensor *
pico_gguf_find_tensor(const struct pico_gguf *g, const char *name)
{
	struct pico_str want = { name, strlen(name) };
	size_t lo = 0, hi = g->n_tensors, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (pico_str_compare(g->by_name[mid]->name, want) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < g->n_tensors &&
	    pico_str_compare(g->by_name[lo]->name, want) == 0)
		return g->by_name[lo];
	return NULL;
}

/* ---- typed values ------------------------------------------------------ */

static uint32_t
number_type(const struct pico_kv *kv)
{
	return kv->type == PICO_KV_ARR ? kv->elem : kv->type;
}

static bool
is_int(uint32_t type)
{
	return type <= PICO_KV_I32 || type == PICO_KV_U64 ||
	    type == PICO_KV_I64;
}

static bool
is_real(uint32_t type)
{
	return type == PICO_KV_F32 || type == PICO_KV_F64;
}

int64_t
pico_kv_int_at(const struct pico_kv *kv, uint64_t i)
{
	uint32_t type = number_type(kv);
	const uint8_t *p = kv->data + i * kv_types[type].size;
	double d;

	switch (type) {
	case PICO_KV_U8:
	case PICO_KV_BOOL:
		return *p;
	case PICO_KV_I8:
		return (int8_t)*p;
	case PICO_KV_U16:
		return get_u16(p);
	case PICO_KV_I16:
		return (int16_t)get_u16(p);
	case PICO_KV_U32:
		return get_u32(p);
	case PICO_KV_I32:
		return (int32_t)get_u32(p);
	case PICO_KV_U64:
		return (int64_t)MIN(get_u64(p), INT64_MAX);
	case PICO_KV_I64:
		return (int64_t)get_u64(p);
	case PICO_KV_F32:
	case PICO_KV_F64:
		d = pico_kv_real_at(kv, i);
		/* the conversion is undefined outside int64_t */
		if (d >= 0x1p63)
			return INT64_MAX;
		return d >= -0x1p63 ? (int64_t)d : d < 0 ? INT64_MIN : 0;
	default:
		return 0;
	}
}

double
pico_kv_real_at(const struct pico_kv *kv, uint64_t i)
{
	uint32_t type = number_type(kv);
	const uint8_t *p = kv->data + i * kv_types[type].size;

	switch (type) {
	case PICO_KV_F32:
		return (double)get_f32(p);
	case PICO_KV_F64:
		return get_f64(p);
	case PICO_KV_U64:
		return (double)get_u64(p);
	default:
		return (double)pico_kv_int_at(kv, i);
	}
}

struct pico_str
pico_kv_str_next(const struct pico_kv *kv, uint64_t *pos)
{
	const uint8_t *p = kv->data + *pos;
	uint64_t n = kv->wide == 4 ? get_u32(p) : get_u64(p);

	*pos += kv->wide + n;
	return (struct pico_str){ (const char *)p + kv->wide, (size_t)n };
}

struct pico_kv
pico_kv_arr_next(const struct pico_kv *kv, uint64_t *pos)
{
	struct pico_kv sub = { .type = PICO_KV_ARR, .shard = kv->shard,
	    .wide = kv->wide };
	struct reader r = { .path = "", .p = kv->data + *pos,
	    .n = kv->bytes - *pos, .wide = kv->wide };

	(void)take_array(&r, &sub);	/* was checked when it was opened */
	sub.offset += kv->offset + *pos;
	*pos += r.pos;
	return sub;
}

/* "'m.gguf': key 'a.b' is str 'x', not WANTED". */
static int
wrong_value(const struct pico_kv *kv, struct pico_err *err,
    const char *wanted)
{
	const char *key = show_str(kv->key), *type = kv_types[kv->type].name;

	if (kv->type == PICO_KV_ARR)
		return fail(err, "key '%s' is an array of %" PRIu64
		    " %s, not %s", key, kv->n, kv_types[kv->elem].name, wanted);
	if (kv->type == PICO_KV_STR)
		return fail(err, "key '%s' is %s '%s', not %s", key,
		    type, show((const char *)kv->data, (size_t)kv->n), wanted);
	if (is_real(kv->type))
		return fail(err, "key '%s' is %s %.9g, not %s", key,
		    type, pico_kv_real_at(kv, 0), wanted);
	if (kv->type == PICO_KV_U64)
		return fail(err, "key '%s' is %s %" PRIu64 ", not %s",
		    key, type, get_u64(kv->data), wanted);
	return fail(err, "key '%s' is %s %" PRId64 ", not %s", key,
	    type, pico_kv_int_at(kv, 0), wanted);
}

static int
int_of(const struct pico_kv *kv, int64_t min, int64_t max, int64_t *out,
    struct pico_err *err)
{
	char wanted[80];
	int64_t v;

	(void)snprintf(wanted, sizeof wanted, "a whole number between %" PRId64
	    " and %" PRId64, min, max);
	if (!is_int(kv->type) || (kv->type == PICO_KV_U64 &&
	    get_u64(kv->data) > INT64_MAX))
		return wrong_value(kv, err, wanted);
	v = pico_kv_int_at(kv, 0);
	if (v < min || v > max)
		return wrong_value(kv, err, wanted);
	*out = v;
	return 1;
}

int
pico_gguf_int(const struct pico_gguf *g, const char *key, int64_t min,
    int64_t max, int64_t *out, struct pico_err *err)
{
	const struct pico_kv *kv = pico_gguf_find(g, key);

	return kv == NULL ? 0 : int_of(kv, min, max, out, err);
}

int
pico_gguf_real(const struct pico_gguf *g, const char *key, double *out,
    struct pico_err *err)
{
	const struct pico_kv *kv = pico_gguf_find(g, key);

	if (kv == NULL)
		return 0;
	if (!is_real(kv->type))
		return wrong_value(kv, err, "a real number (f32 or f64)");
	*out = pico_kv_real_at(kv, 0);
	return 1;
}

int
pico_gguf_bool(const struct pico_gguf *g, const char *key, bool *out,
    struct pico_err *err)
{
	const struct pico_kv *kv = pico_gguf_find(g, key);
	int64_t v;

	if (kv == NULL)
		return 0;
	if (!is_int(kv->type) && kv->type != PICO_KV_BOOL)
		return wrong_value(kv, err, "a bool");
	v = pico_kv_int_at(kv, 0);
	if (v != 0 && v != 1)
		return wrong_value(kv, err, "a bool, 0 or 1");
	*out = v == 1;
	return 1;
}

int
pico_gguf_str(const struct pico_gguf *g, const char *key, struct pico_str *out,
    struct pico_err *err)
{
	const struct pico_kv *kv = pico_gguf_find(g, key);

	if (kv == NULL)
		return 0;
	if (kv->type != PICO_KV_STR)
		return wrong_value(kv, err, "a string");
	*out = (struct pico_str){ (const char *)kv->data, (size_t)kv->n };
	return 1;
}
