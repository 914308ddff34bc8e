/* SPDX-License-Identifier: MIT */
/*
 * KV files, pico-kv(5): little-endian, a header of 64 bytes, the token ids,
 * then for each layer its state, or for each kv head the keys and the values of
 * the positions in use, then a checksum of all before it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model.h"

/* Version 2: attention adds up in another order than it did before, so what came
   out of it then is not what would come out now. */
static const uint8_t magic[8] = { 0x89, 'P', 'K', 'V', 2, 0, 0, 0 };

struct header {
	uint8_t magic[8];
	uint64_t model;		/* hash of all that decides about the cache */
	uint64_t identity;	/* of the model's files when it was written */
	uint64_t n_tokens;
	uint64_t body;		/* bytes between header and checksum */
	uint32_t kv_type, n_layer;
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct header) == 64, "the header has no padding");

/* How positions are turned, which may depend on the size of the context. */
static uint64_t
hash_positions(const struct pico_ctx *c, uint64_t hash)
{
	int rope;

	for (rope = 0; rope < 2 && c->freq[rope] != NULL; rope++)
		hash = hash_bytes(hash, c->freq[rope],
		    c->m->h.n_rot / 2 * sizeof *c->freq[rope]);
	return hash;
}

/* Hyperparameters and all tensors, names and data: the whole model is read. The
   vocabulary and texts do not enter the cache. */
static int
hash_model(const struct pico_ctx *c, uint64_t *hash, struct pico_err *err)
{
	const struct pico_gguf *g = c->m->gguf;
	const char *arch = c->m->h.arch->name;
	size_t i, n = strlen(arch);
	const struct pico_tensor *t;
	const struct pico_kv *kv;
	uint64_t v = hash_positions(c, HASH_START);

	for (i = 0; i < pico_gguf_n_kv(g); i++) {
		kv = pico_gguf_kv(g, i);
		if (kv->key.n <= n || memcmp(kv->key.p, arch, n) != 0)
			continue;
		v = hash_bytes(v, kv->key.p, kv->key.n);
		v = hash_bytes(v, kv->data, (size_t)kv->bytes);
	}
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		t = pico_gguf_tensor(g, i);
		v = hash_bytes(v, t->name.p, t->name.n);
		v = hash_bytes(v, &t->type, sizeof t->type);
		v = hash_bytes(v, t->dims, sizeof t->dims);
		if (resident_hash(c->res, t, &v, err) < 0)
			return -1;
	}
	*hash = v;
	return 0;
}

/* Changes whenever a file of the model is written, moved or copied. */
static uint64_t
identity(const struct pico_ctx *c)
{
	const struct pico_gguf *g = c->m->gguf;
	uint64_t v = hash_positions(c, HASH_START), id;
	int i;

	for (i = 0; i < pico_gguf_n_shards(g); i++) {
		id = pico_gguf_info(g, i).identity;
		v = hash_bytes(v, &id, sizeof id);
	}
	return v;
}

/* Bytes between header and checksum for n positions; false if it overflows. */
static bool
body_bytes(const struct kv *kv, uint64_t n, uint64_t *bytes)
{
	return n <= INT32_MAX &&
	    kv_bytes(kv->h, kv->type, (uint32_t)n, 1, bytes) &&
	    add_u64(*bytes, n * sizeof(int32_t), bytes);
}

/* A file that is read or written, piece by piece. */
struct io {
	int fd;
	bool reads;
	const char *name;
	uint64_t hash;
};

static int
write_piece(struct io *io, const void *p, size_t n, struct pico_err *err)
{
	io->hash = hash_bytes(io->hash, p, n);
	return write_all(io->fd, io->name, p, n, err);
}

static int
read_piece(struct io *io, void *p, size_t n, struct pico_err *err)
{
	uint8_t *b = p;
	size_t left = n;
	int64_t k;

	while (left > 0) {
		k = read_some(io->fd, io->name, b, left, err);
		if (k < 0)
			return -1;
		if (k == 0)
			return fail(err, "%s is cut short", io->name);
		b += k;
		left -= (size_t)k;
	}
	io->hash = hash_bytes(io->hash, p, n);
	return 0;
}

static int
piece(struct io *io, void *p, size_t n, struct pico_err *err)
{
	return io->reads ? read_piece(io, p, n, err) :
	    write_piece(io, p, n, err);
}

/* Keys that become rows, or rows that become keys, at once; so many that their
   bytes are a multiple of 8, and the checksum that of all together. */
#define KEYS 256

/* The keys of a head. They are rows in the file. */
static int
key_pieces(struct io *io, const struct kv *kv, uint8_t *keys, size_t n,
    uint8_t *rows, struct pico_err *err)
{
	size_t dim = kv->h->head_k, j, i, m;

	for (j = 0; j < n; j += m) {
		m = MIN(KEYS, n - j);
		for (i = 0; !io->reads && i < m; i++)
			kv_get_key(kv->type, keys, j + i, dim,
			    rows + i * kv->row_k);
		if (piece(io, rows, m * kv->row_k, err) < 0)
			return -1;
		for (i = 0; io->reads && i < m; i++)
			kv_put_key(kv->type, rows + i * kv->row_k, dim, keys,
			    j + i);
	}
	return 0;
}

/* Everything between header and checksum. */
static int
body(struct io *io, const struct kv *kv, uint32_t seq, size_t n,
    struct pico_err *err)
{
	uint8_t *rows = mem_new(KEYS, kv->row_k, "rows of keys", err);
	uint32_t il, head;
	int r = -1;

	if (rows == NULL || piece(io, kv->tokens + (size_t)seq * kv->n_ctx,
	    n * sizeof *kv->tokens, err) < 0)
		goto out;
	for (il = 0; il < kv->h->n_layer; il++) {
		if (kv->state[il] != NULL && piece(io, kv_state_of(kv, il,
		    seq), (size_t)kv_state(kv->h) * sizeof(float), err) < 0)
			goto out;
		for (head = 0; head < kv->h->n_head_kv[il]; head++)
			if (key_pieces(io, kv, kv_k(kv, il, seq, head), n,
			    rows, err) < 0 || piece(io, kv_v(kv, il, seq,
			    head), n * kv->row_v, err) < 0)
				goto out;
	}
	r = 0;
out:
	free(rows);
	return r;
}

/* The header against this model and context; 0 if all is as it must be. */
static int
check_header(const struct pico_ctx *c, const struct header *h,
    const char *name, uint64_t size, struct pico_err *err)
{
	uint64_t body, hash;

	if (memcmp(h->magic, magic, 4) == 0 && h->magic[4] == 1)
		return fail(err, "%s is of version 1, and only version %d can "
		    "be used", name, magic[4]);
	if (memcmp(h->magic, magic, sizeof magic) != 0)
		return fail(err, "%s is not a KV file", name);
	/* The same files as when it was written need not be read; others may
	   hold the same model. */
	if (h->identity != identity(c)) {
		if (hash_model(c, &hash, err) < 0)
			return -1;
		if (h->model != hash)
			return fail(err, "%s was made with another model",
			    name);
	}
	if (h->kv_type != (uint32_t)c->kv.type)
		return fail(err, "%s holds a cache of type %s, this run uses "
		    "%s", name, h->kv_type <= PICO_CACHE_Q8_0 ?
		    pico_kv_kind_name((enum pico_kv_kind)h->kv_type) : "?",
		    pico_kv_kind_name((enum pico_kv_kind)c->kv.type));
	if (!body_bytes(&c->kv, h->n_tokens, &body) || body != h->body ||
	    h->n_layer != c->m->h.n_layer)
		return fail(err, "%s has a damaged header", name);
	if (size < sizeof *h + 8 || size - sizeof *h - 8 != body)
		return fail(err, "%s has %" PRIu64 " bytes, not the %" PRIu64
		    " its header tells: cut short or damaged", name, size,
		    body + (uint64_t)sizeof *h + 8);
	if (h->n_tokens > c->kv.n_ctx)
		return fail(err, "%s holds %" PRIu64 " tokens, context is %"
		    PRIu32, name, h->n_tokens, c->kv.n_ctx);
	return 0;
}

int
pico_kv_load(struct pico_ctx *c, uint32_t seq, const char *path,
    struct pico_err *err)
{
	struct kv *kv = &c->kv;
	struct header h;
	struct stat st = {0};
	uint64_t want, sum;
	char name[300];
	struct io io;
	uint32_t i;
	int r = -1;

	(void)snprintf(name, sizeof name, "KV file '%s'", path);
	io = (struct io){ .reads = true, .name = name, .hash = HASH_START };
	kv_cut(kv, seq, 0);
	io.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (io.fd < 0 && errno == ENOENT)
		return 0;
	if (io.fd < 0)
		return fail_errno(err, "cannot open %s", name);
	if (fstat(io.fd, &st) < 0) {
		(void)fail_errno(err, "cannot examine %s", name);
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		(void)fail(err, "%s is not a regular file", name);
		goto out;
	}
	if (read_piece(&io, &h, sizeof h, err) < 0 ||
	    check_header(c, &h, name, (uint64_t)st.st_size, err) < 0 ||
	    body(&io, kv, seq, (size_t)h.n_tokens, err) < 0)
		goto out;
	want = io.hash;
	if (read_piece(&io, &sum, sizeof sum, err) < 0)
		goto out;
	if (sum != want) {
		(void)fail(err, "%s is damaged: its checksum is wrong", name);
		goto out;
	}
	for (i = 0; i < h.n_tokens; i++) {
		int32_t id = kv->tokens[(size_t)seq * kv->n_ctx + i];

		if (id < 0 || (uint32_t)id >= kv->h->n_vocab) {
			(void)fail(err, "%s holds token %" PRId32
			    ", vocabulary has %" PRIu32, name, id,
			    kv->h->n_vocab);
			goto out;
		}
	}
	kv->n[seq] = (uint32_t)h.n_tokens;
	c->model_hash = h.model;
	r = 1;
out:
	if (r < 0)
		kv_cut(kv, seq, 0);
	(void)close(io.fd);
	return r;
}

int
pico_kv_can_save(const char *path, struct pico_err *err)
{
	struct new_file f;

	if (new_file_open(&f, path, "KV file ", err) < 0)
		return -1;
	new_file_close(&f);
	return 0;
}

static int
save(struct pico_ctx *c, uint32_t seq, const char *path, struct pico_err *err)
{
	const struct kv *kv = &c->kv;
	size_t n = kv->n[seq];
	struct header h = {
		.model = c->model_hash, .identity = identity(c), .n_tokens = n,
		.kv_type = (uint32_t)kv->type, .n_layer = kv->h->n_layer,
	};
	struct new_file f;
	struct io io = { .name = f.name, .hash = HASH_START };
	int r = -1;

	/* it fit for n_ctx positions already */
	(void)body_bytes(kv, n, &h.body);
	memcpy(h.magic, magic, sizeof magic);
	if (new_file_open(&f, path, "KV file ", err) < 0)
		return -1;
	io.fd = f.fd;
	if (write_piece(&io, &h, sizeof h, err) == 0 &&
	    body(&io, kv, seq, n, err) == 0 &&
	    write_all(io.fd, f.name, &io.hash, sizeof io.hash, err) == 0)
		r = new_file_end(&f, err);
	new_file_close(&f);
	return r;
}

int
pico_kv_save(struct pico_ctx *c, uint32_t seq, const char *path,
    struct pico_err *err)
{
	sigset_t old;
	int r;

	if (c->kv.pure[seq] < c->kv.n[seq])
		return fail(err, "cannot save KV file '%s': something before "
		    "token %" PRIu32 " was forgotten", path, c->kv.pure[seq]);
	if (c->model_hash == 0 && hash_model(c, &c->model_hash, err) < 0)
		return -1;
	/* they might leave the temporary file behind */
	signals_hold(&old);
	r = save(c, seq, path, err);
	signals_release(&old);
	return r;
}
