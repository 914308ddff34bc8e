/* SPDX-License-Identifier: MIT */
/*
 * Writing GGUF, version 3: all keys and the whole tensor table are known before
 * the first byte goes out, so offsets are, too, and the data can be written from
 * front to back in pieces of any size.
 */
#include <inttypes.h>

#include "gguf.h"

#define PIECE (4 << 20)		/* bytes copied at once */

struct entry {
	struct pico_str key;
	uint32_t type, elem;
	uint64_t n;
	uint8_t *data;		/* key and data are in one piece of memory */
	uint64_t bytes;
};

struct record {
	char text[GGUF_NAME_MAX];
	size_t n_text;
	uint32_t type, n_dims;
	uint64_t dims[4], offset, bytes;
};

struct pico_writer {
	struct entry *entry;
	size_t n_entries, cap_entries;
	struct record *record;
	size_t n_records, cap_records;
	uint64_t alignment;
	struct new_file file;
	size_t next;		/* the tensor that is being written... */
	uint64_t done;		/* ...and bytes of it */
	bool begun;
	uint8_t *image;		/* if not NULL: what is written goes here... */
	uint64_t n_image;	/* ...and this is where its end is now */
	size_t waiting;		/* bytes in buf */
	uint8_t *buf;		/* between begin and sync */
};
#define BUF_SIZE 65536

struct pico_writer *
pico_writer_new(struct pico_err *err)
{
	struct pico_writer *w = mem_new(1, sizeof *w, "model file", err);

	if (w != NULL)
		w->alignment = GGUF_ALIGNMENT;
	return w;
}

void
pico_writer_free(struct pico_writer *w)
{
	size_t i;

	if (w == NULL)
		return;
	new_file_close(&w->file);
	for (i = 0; i < w->n_entries; i++)
		free(w->entry[i].data);
	free(w->entry);
	free(w->record);
	free(w->buf);
	free(w);
}

/* ---- keys -------------------------------------------------------------- */

static struct entry *
find(struct pico_writer *w, struct pico_str key)
{
	size_t i;

	for (i = 0; i < w->n_entries; i++)
		if (pico_str_compare(w->entry[i].key, key) == 0)
			return &w->entry[i];
	return NULL;
}

/* An entry with room for its data, in the place of one with the same key. */
static struct entry *
add(struct pico_writer *w, struct pico_str key, uint32_t type, uint64_t bytes,
    struct pico_err *err)
{
	struct entry *e, new = { .type = type, .n = 1, .bytes = bytes };
	uint8_t *old = NULL;
	uint64_t room;

	if (key.n == 0 || key.n > GGUF_KEY_MAX) {
		(void)fail(err, "a key of %zu bytes cannot be written, only "
		    "1 to %d", key.n, GGUF_KEY_MAX);
		return NULL;
	}
	if (!add_u64(bytes, key.n, &room))
		room = UINT64_MAX;	/* which is refused */
	new.data = mem_new(room, 1, "value of a key", err);
	if (new.data == NULL)
		return NULL;
	new.key = (struct pico_str){ (char *)new.data + bytes, key.n };
	memcpy(new.data + bytes, key.p, key.n);
	e = find(w, key);
	if (e != NULL) {
		old = e->data;
	} else if (mem_grow(&w->entry, &w->cap_entries, w->n_entries + 1,
	    sizeof *w->entry, "keys", err) < 0) {
		free(new.data);
		return NULL;
	} else {
		e = &w->entry[w->n_entries++];
	}
	*e = new;
	free(old);
	return e;
}

static struct pico_str
str_of(const char *s)
{
	return (struct pico_str){ s, strlen(s) };
}

int
pico_writer_int(struct pico_writer *w, const char *key, uint32_t type,
    int64_t v, struct pico_err *err)
{
	unsigned bits = type < PICO_KV_N ? kv_type_size(type) * 8 : 0;
	bool is_signed = type == PICO_KV_I8 || type == PICO_KV_I16 ||
	    type == PICO_KV_I32 || type == PICO_KV_I64;
	int64_t max = type == PICO_KV_BOOL ? 1 : bits >= 64 ? INT64_MAX :
	    ((int64_t)1 << (bits - is_signed)) - 1;
	int64_t min = is_signed ? -max - 1 : 0;
	struct entry *e;

	if (bits == 0 || type == PICO_KV_F32 || type == PICO_KV_F64)
		return fail(err, "key '%s': no integer type", key);
	if (v < min || v > max)
		return fail(err, "key '%s': %" PRId64 " is not between %"
		    PRId64 " and %" PRId64 " (%s)", key, v, min, max,
		    pico_kv_type_name(type));
	e = add(w, str_of(key), type, bits / 8, err);
	if (e == NULL)
		return -1;
	memcpy(e->data, &v, bits / 8);	/* little-endian: its low bytes */
	return 0;
}

int
pico_writer_real(struct pico_writer *w, const char *key, uint32_t type,
    double v, struct pico_err *err)
{
	float f = (float)v;
	struct entry *e;

	if (type != PICO_KV_F32 && type != PICO_KV_F64)
		return fail(err, "key '%s': no real type", key);
	e = add(w, str_of(key), type, kv_type_size(type), err);
	if (e == NULL)
		return -1;
	memcpy(e->data, type == PICO_KV_F32 ? (void *)&f : &v,
	    kv_type_size(type));
	return 0;
}

int
pico_writer_str(struct pico_writer *w, const char *key, struct pico_str v,
    struct pico_err *err)
{
	struct entry *e = add(w, str_of(key), PICO_KV_STR, v.n, err);

	if (e == NULL)
		return -1;
	e->n = v.n;
	if (v.n > 0)
		memcpy(e->data, v.p, v.n);
	return 0;
}

int
pico_writer_array(struct pico_writer *w, const char *key, uint32_t elem,
    uint64_t n, const void *v, struct pico_err *err)
{
	unsigned size = elem < PICO_KV_N ? kv_type_size(elem) : 0;
	struct entry *e;
	uint64_t bytes;

	if (size == 0 || !mul_u64(n, size, &bytes))
		return fail(err, "key '%s': no array of numbers", key);
	e = add(w, str_of(key), PICO_KV_ARR, bytes, err);
	if (e == NULL)
		return -1;
	e->elem = elem;
	e->n = n;
	if (bytes > 0)
		memcpy(e->data, v, (size_t)bytes);
	return 0;
}

/* One string of an array; returns where the next one goes. */
static uint8_t *
put_str(uint8_t *to, struct pico_str s)
{
	uint64_t n = s.n;

	memcpy(to, &n, sizeof n);
	if (n > 0)
		memcpy(to + sizeof n, s.p, s.n);
	return to + sizeof n + s.n;
}

int
pico_writer_strs(struct pico_writer *w, const char *key, uint64_t n,
    const struct pico_str *v, struct pico_err *err)
{
	struct entry *e;
	uint64_t i, bytes = 0;
	uint8_t *to;

	for (i = 0; i < n; i++)
		bytes += 8 + v[i].n;	/* they are all in memory */
	e = add(w, str_of(key), PICO_KV_ARR, bytes, err);
	if (e == NULL)
		return -1;
	e->elem = PICO_KV_STR;
	e->n = n;
	for (to = e->data, i = 0; i < n; i++)
		to = put_str(to, v[i]);
	return 0;
}

/*
 * The elements of an array of version 1, where counts and lengths have 4 bytes,
 * with those of 8 bytes, into `to` if that is not NULL; returns the bytes. The
 * array was checked when it was read.
 */
static uint64_t
widen(const struct pico_kv *kv, uint8_t *to)
{
	struct {
		uint32_t elem;
		uint64_t left;
	} level[PICO_KV_DEPTH] = { { kv->elem, kv->n } };
	const uint8_t *p = kv->data;
	uint64_t bytes = 0, count;
	uint32_t elem, size;
	int d = 0;

	while (d >= 0) {
		if (level[d].left == 0) {
			d--;
			continue;
		}
		level[d].left--;
		elem = level[d].elem;
		size = kv_type_size(elem);
		if (elem == PICO_KV_ARR) {
			size = 4;
			d++;
			level[d].elem = get_u32(p);
			level[d].left = get_u32(p + 4);
		} else if (elem == PICO_KV_STR) {
			size = 0;
		}
		if (to != NULL && size > 0)
			memcpy(to + bytes, p, size);
		p += size;
		bytes += size;
		if (elem != PICO_KV_ARR && elem != PICO_KV_STR)
			continue;
		count = get_u32(p);
		if (to != NULL)
			memcpy(to + bytes, &count, 8);
		p += 4;
		bytes += 8;
		if (elem == PICO_KV_ARR)
			continue;
		if (to != NULL)
			memcpy(to + bytes, p, (size_t)count);
		p += count;
		bytes += count;
	}
	return bytes;
}

int
pico_writer_copy(struct pico_writer *w, const struct pico_kv *kv,
    struct pico_err *err)
{
	bool narrow = kv->wide == 4 && kv->type == PICO_KV_ARR;
	struct entry *e = add(w, kv->key, kv->type,
	    narrow ? widen(kv, NULL) : kv->bytes, err);

	if (e == NULL)
		return -1;
	e->elem = kv->elem;
	e->n = kv->n;
	/* NOLINTBEGIN(*.Malloc): what add() freed is not what it returns */
	if (narrow)
		(void)widen(kv, e->data);
	else if (kv->bytes > 0)
		memcpy(e->data, kv->data, (size_t)kv->bytes);
	/* NOLINTEND(*.Malloc) */
	return 0;
}

int
pico_writer_copy_all(struct pico_writer *w, const struct pico_gguf *g,
    struct pico_err *err)
{
	static const char split[] = "split.";
	const struct pico_kv *kv;
	size_t i;

	for (i = 0; i < pico_gguf_n_kv(g); i++) {
		kv = pico_gguf_kv(g, i);
		if (kv->shard != 0 || (kv->key.n >= sizeof split - 1 &&
		    memcmp(kv->key.p, split, sizeof split - 1) == 0))
			continue;
		if (pico_writer_copy(w, kv, err) < 0)
			return -1;
	}
	return 0;
}

bool
pico_writer_delete(struct pico_writer *w, const char *key)
{
	struct entry *e = find(w, str_of(key));

	if (e == NULL)
		return false;
	free(e->data);
	w->n_entries--;
	memmove(e, e + 1, (size_t)(w->entry + w->n_entries - e) * sizeof *e);
	return true;
}

bool
pico_writer_has(struct pico_writer *w, const char *key)
{
	return find(w, str_of(key)) != NULL;
}

int
pico_writer_rename(struct pico_writer *w, const char *from, const char *to,
    struct pico_err *err)
{
	struct entry *e = find(w, str_of(from)), old, *new;

	if (e == NULL)
		return fail(err, "there is no key '%s'", show(from,
		    strlen(from)));
	if (find(w, str_of(to)) != NULL)
		return fail(err, "there is a key '%s' already", show(to,
		    strlen(to)));
	old = *e;
	new = add(w, str_of(to), old.type, old.bytes, err);
	if (new == NULL)
		return -1;
	/* NOLINTNEXTLINE(*.Malloc): likewise */
	memcpy(new->data, old.data, (size_t)old.bytes);
	new->elem = old.elem;
	new->n = old.n;
	/* from the end to the place of the old one; the array may have moved */
	e = find(w, str_of(from));
	*e = *new;
	w->n_entries--;
	free(old.data);
	return 0;
}

size_t
writer_n_keys(const struct pico_writer *w)
{
	return w->n_entries;
}

uint64_t
writer_alignment(const struct pico_writer *w)
{
	return w->alignment;
}

struct pico_kv
writer_key(const struct pico_writer *w, size_t i)
{
	const struct entry *e = &w->entry[i];

	return (struct pico_kv){ .key = e->key, .type = e->type,
	    .elem = e->elem, .n = e->n, .data = e->data, .bytes = e->bytes,
	    .wide = 8 };
}

/* ---- the tensor table -------------------------------------------------- */

int
pico_writer_tensor(struct pico_writer *w, struct pico_str name, uint32_t type,
    uint32_t n_dims, const uint64_t *dims, struct pico_err *err)
{
	const struct pico_type *t = pico_type(type);
	const char *shown = show_str(name);
	struct record r = { .type = type, .n_dims = n_dims };
	uint64_t n = 1;
	uint32_t d;

	if (name.n == 0 || name.n > GGUF_NAME_MAX)
		return fail(err, "tensor name '%s' has %zu bytes, not 1 to %d",
		    shown, name.n, GGUF_NAME_MAX);
	if (t == NULL)
		return fail(err, "tensor '%s': type %" PRIu32 " cannot be "
		    "written", shown, type);
	if (n_dims < 1 || n_dims > 4)
		return fail(err, "tensor '%s' has %" PRIu32 " dimensions, not "
		    "1 to 4", shown, n_dims);
	for (d = 0; d < n_dims; d++) {
		if (dims[d] == 0 || !mul_u64(n, dims[d], &n) || n > INT64_MAX)
			return fail(err, "tensor '%s': dimension %" PRIu32
			    " is %" PRIu64 ", which is none or too many",
			    shown, d, dims[d]);
		r.dims[d] = dims[d];
	}
	if (dims[0] % t->block != 0)
		return fail(err, "tensor '%s' has rows of %" PRIu64
		    ", not a multiple of the %" PRIu32 " of a %s block", shown,
		    dims[0], t->block, t->name);
	if (!mul_u64(n / t->block, t->bytes, &r.bytes) || r.bytes > INT64_MAX)
		return fail(err, "tensor '%s' has more than 2^63 - 1 bytes",
		    shown);
	if (mem_grow(&w->record, &w->cap_records, w->n_records + 1,
	    sizeof *w->record, "tensor table", err) < 0)
		return -1;
	memcpy(r.text, name.p, name.n);
	r.n_text = name.n;
	w->record[w->n_records++] = r;
	return 0;
}

static struct pico_str
name_of(const struct record *r)
{
	return (struct pico_str){ r->text, r->n_text };
}

static int
compare_names(const void *a, const void *b)
{
	const struct record *x = *(const struct record *const *)a;
	const struct record *y = *(const struct record *const *)b;

	return pico_str_compare(name_of(x), name_of(y));
}

static int
check_names(const struct pico_writer *w, struct pico_err *err)
{
	struct record **r = mem_new(w->n_records, sizeof *r, "tensor table",
	    err);
	size_t i;
	int rc = 0;

	if (r == NULL)
		return -1;
	for (i = 0; i < w->n_records; i++)
		r[i] = &w->record[i];
	qsort(r, w->n_records, sizeof *r, compare_names);
	for (i = 1; i < w->n_records && rc == 0; i++)
		if (compare_names(&r[i - 1], &r[i]) == 0)
			rc = fail(err, "tensor name '%s' occurs twice",
			    show_str(name_of(r[i])));
	free(r);
	return rc;
}

static uint64_t
padding(const struct pico_writer *w, uint64_t at)
{
	return -at & (w->alignment - 1);
}

static int
read_alignment(struct pico_writer *w, struct pico_err *err)
{
	const struct entry *e = find(w, str_of("general.alignment"));
	uint32_t a = GGUF_ALIGNMENT;

	if (e != NULL) {
		a = e->type == PICO_KV_U32 ? get_u32(e->data) : 0;
		if (a == 0 || (a & (a - 1)) != 0)
			return fail(err, "key 'general.alignment' is no u32 "
			    "that is a power of two");
	}
	w->alignment = a;
	return 0;
}

/* The bytes of everything before the padding and the data, and those of all. */
static int
layout(struct pico_writer *w, uint64_t *header, uint64_t *total,
    struct pico_err *err)
{
	uint64_t at = 24, end = 0;
	size_t i;

	if (read_alignment(w, err) < 0)
		return -1;
	for (i = 0; i < w->n_entries; i++) {	/* are all in memory */
		const struct entry *e = &w->entry[i];

		at += 8 + e->key.n + 4 + e->bytes +
		    (e->type == PICO_KV_ARR ? 12 :
		    e->type == PICO_KV_STR ? 8 : 0);
	}
	for (i = 0; i < w->n_records; i++) {
		struct record *r = &w->record[i];

		at += 8 + r->n_text + 4 + 8 * r->n_dims + 4 + 8;
		r->offset = end;
		if (!add_u64(end, r->bytes, &end) ||
		    !add_u64(end, padding(w, end), &end) || end > INT64_MAX)
			return fail(err, "tensor '%s' ends beyond 2^63 - 1 "
			    "bytes", show_str(name_of(r)));
	}
	*header = at;
	if (w->n_records > 0)
		at += padding(w, at);
	if (!add_u64(at, end, total) || *total > INT64_MAX)
		return fail(err, "the file would have more than 2^63 - 1 "
		    "bytes");
	return 0;
}

int
pico_writer_size(struct pico_writer *w, uint64_t *bytes, struct pico_err *err)
{
	uint64_t header;

	return layout(w, &header, bytes, err);
}

/* ---- output ------------------------------------------------------------ */

static int
flush(struct pico_writer *w, struct pico_err *err)
{
	size_t n = w->waiting;

	w->waiting = 0;
	return write_all(w->file.fd, w->file.name, w->buf, n, err);
}

/* p NULL: zeros. n = 0: nothing. */
static int
put(struct pico_writer *w, const void *p, uint64_t n, struct pico_err *err)
{
	const uint8_t *from = p;
	size_t k;

	if (n > 0 && w->image != NULL) {
		if (p != NULL)
			memcpy(w->image + w->n_image, p, (size_t)n);
		else
			memset(w->image + w->n_image, 0, (size_t)n);
		w->n_image += n;
		return 0;
	}
	while (n > 0) {
		if (w->waiting == BUF_SIZE && flush(w, err) < 0)
			return -1;
		if (w->waiting == 0 && from != NULL && n >= BUF_SIZE)
			return write_all(w->file.fd, w->file.name, from,
			    (size_t)n, err);
		k = (size_t)MIN(n, BUF_SIZE - w->waiting);
		if (from != NULL) {
			memcpy(w->buf + w->waiting, from, k);
			from += k;
		} else {
			memset(w->buf + w->waiting, 0, k);
		}
		w->waiting += k;
		n -= k;
	}
	return 0;
}

static int
put_u32(struct pico_writer *w, uint32_t v, struct pico_err *err)
{
	return put(w, &v, sizeof v, err);
}

static int
put_u64(struct pico_writer *w, uint64_t v, struct pico_err *err)
{
	return put(w, &v, sizeof v, err);
}

static int
put_entry(struct pico_writer *w, const struct entry *e, struct pico_err *err)
{
	if (put_u64(w, e->key.n, err) < 0 ||
	    put(w, e->key.p, e->key.n, err) < 0 ||
	    put_u32(w, e->type, err) < 0)
		return -1;
	if (e->type == PICO_KV_ARR && put_u32(w, e->elem, err) < 0)
		return -1;
	if ((e->type == PICO_KV_ARR || e->type == PICO_KV_STR) &&
	    put_u64(w, e->n, err) < 0)
		return -1;
	return put(w, e->data, e->bytes, err);
}

static int
put_record(struct pico_writer *w, const struct record *r, struct pico_err *err)
{
	uint32_t d;

	if (put_u64(w, r->n_text, err) < 0 ||
	    put(w, r->text, r->n_text, err) < 0 ||
	    put_u32(w, r->n_dims, err) < 0)
		return -1;
	for (d = 0; d < r->n_dims; d++)
		if (put_u64(w, r->dims[d], err) < 0)
			return -1;
	return put_u32(w, r->type, err) < 0 ? -1 : put_u64(w, r->offset, err);
}

/* `unpadded`: its bytes without the zeros before the data. */
static int
put_header(struct pico_writer *w, uint64_t unpadded, struct pico_err *err)
{
	size_t i;

	if (put(w, "GGUF", 4, err) < 0 || put_u32(w, 3, err) < 0 ||
	    put_u64(w, w->n_records, err) < 0 ||
	    put_u64(w, w->n_entries, err) < 0)
		return -1;
	for (i = 0; i < w->n_entries; i++)
		if (put_entry(w, &w->entry[i], err) < 0)
			return -1;
	for (i = 0; i < w->n_records; i++)
		if (put_record(w, &w->record[i], err) < 0)
			return -1;
	return w->n_records == 0 ? 0 : put(w, NULL, padding(w, unpadded), err);
}

int
writer_image(struct pico_writer *w, uint8_t **image, uint64_t *n,
    struct pico_err *err)
{
	uint64_t header, total;
	size_t i;

	if (layout(w, &header, &total, err) < 0)
		return -1;
	w->image = mem_new(header, 1, "keys", err);
	if (w->image == NULL)
		return -1;
	w->n_image = 24;
	for (i = 0; i < w->n_entries; i++)
		(void)put_entry(w, &w->entry[i], err);
	*image = w->image;
	*n = w->n_image;
	w->image = NULL;
	return 0;
}

int
pico_writer_begin(struct pico_writer *w, const char *path,
    struct pico_err *err)
{
	uint64_t header, total;

	if (check_names(w, err) < 0 || layout(w, &header, &total, err) < 0 ||
	    new_file_open(&w->file, path, "", err) < 0)
		return -1;
	w->begun = true;
	w->buf = mem_new(BUF_SIZE, 1, "buffer of a file", err);
	return w->buf == NULL ? -1 : put_header(w, header, err);
}

int
pico_writer_data(struct pico_writer *w, const void *data, uint64_t n,
    struct pico_err *err)
{
	const uint8_t *p = data;

	while (n > 0) {
		const struct record *r = &w->record[w->next];
		uint64_t k;

		if (!w->begun || w->next == w->n_records)
			return fail(err, "%s: data beyond the last tensor",
			    w->file.name);
		k = MIN(n, r->bytes - w->done);
		if (put(w, p, k, err) < 0)
			return -1;
		p += k;
		n -= k;
		w->done += k;
		if (w->done < r->bytes)
			continue;
		if (put(w, NULL, padding(w, r->bytes), err) < 0)
			return -1;
		w->next++;
		w->done = 0;
	}
	return 0;
}

int
pico_writer_copy_data(struct pico_writer *w, const struct pico_tensor *t,
    struct pico_err *err)
{
	uint64_t at, n;

	if (t->data == NULL)
		return fail(err, "tensor '%s': its data were not read",
		    show_str(t->name));
	for (at = 0; at < t->bytes; at += n) {
		n = MIN(t->bytes - at, PIECE);
		if (pico_writer_data(w, t->data + at, n, err) < 0)
			return -1;
		map_advise(t->data + at, n, READ_DONE);
	}
	return 0;
}

int
pico_writer_sync(struct pico_writer *w, struct pico_err *err)
{
	if (!w->begun || w->next < w->n_records)
		return fail(err, "%s: the data of tensor %zu of %zu is not "
		    "complete", w->file.name, w->next + 1, w->n_records);
	if (flush(w, err) < 0)
		return -1;
	free(w->buf);
	w->buf = NULL;
	return new_file_sync(&w->file, err);
}

int
pico_writer_end(struct pico_writer *w, struct pico_err *err)
{
	if (w->file.fd >= 0 && pico_writer_sync(w, err) < 0)
		return -1;
	return new_file_end(&w->file, err);
}
