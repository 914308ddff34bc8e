/* SPDX-License-Identifier: MIT */
/*
 * KV files, pico-kv(5): little-endian, a header of 64 bytes, the token ids,
 * then for each layer its state, or for each kv head the keys and the values of
 * the positions in use, then a checksum of all before it.
 */
#define _XOPEN_SOURCE 700	/* realpath */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model.h"

static const uint8_t magic[8] = { 0x89, 'P', 'K', 'V', 1, 0, 0, 0 };

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

/* Everything between header and checksum, piece by piece. */
typedef int piece_fn(void *data, void *p, size_t n, struct pico_err *err);

static int
each_piece(const struct kv *kv, uint32_t seq, size_t n, piece_fn *fn,
    void *data, struct pico_err *err)
{
	uint32_t il, head;

	if (fn(data, kv->tokens + (size_t)seq * kv->n_ctx,
	    n * sizeof *kv->tokens, err) < 0)
		return -1;
	for (il = 0; il < kv->h->n_layer; il++) {
		if (kv->state[il] != NULL && fn(data, kv_state_of(kv, il, seq),
		    (size_t)kv_state(kv->h) * sizeof(float), err) < 0)
			return -1;
		for (head = 0; head < kv->h->n_head_kv[il]; head++)
			if (fn(data, kv_k(kv, il, seq, head),
			    n * kv->row_k, err) < 0 ||
			    fn(data, kv_v(kv, il, seq, head),
			    n * kv->row_v, err) < 0)
				return -1;
	}
	return 0;
}

struct io {
	int fd;
	const char *name;
	uint64_t hash;
};

static int
write_piece(void *data, void *p, size_t n, struct pico_err *err)
{
	struct io *io = data;

	io->hash = hash_bytes(io->hash, p, n);
	return write_all(io->fd, io->name, p, n, err);
}

static int
read_piece(void *data, void *p, size_t n, struct pico_err *err)
{
	struct io *io = data;
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

/* The header against this model and context; 0 if all is as it must be. */
static int
check_header(const struct pico_ctx *c, const struct header *h,
    const char *name, uint64_t size, struct pico_err *err)
{
	uint64_t body, hash;

	if (memcmp(h->magic, magic, 7) != 0 || h->magic[7] != 0)
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
	io = (struct io){ .name = name, .hash = HASH_START };
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
	    each_piece(kv, seq, (size_t)h.n_tokens, read_piece, &io, err) < 0)
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

/* The directory of a path; false if its name is too long. */
static bool
dir_of(const char *path, char *dir, size_t size)
{
	const char *slash = strrchr(path, '/');
	int n;

	if (slash == NULL)
		n = snprintf(dir, size, ".");
	else if (slash == path)
		n = snprintf(dir, size, "/");
	else
		n = snprintf(dir, size, "%.*s", (int)(slash - path), path);
	return n >= 0 && (size_t)n < size;
}

/* Opens a temporary file beside `path`; its name goes into temp. */
static int
open_temp(const char *path, char *temp, size_t size, struct pico_err *err)
{
	int fd, len = snprintf(temp, size, "%s.XXXXXX", path);

	if (len < 0 || (size_t)len >= size)
		return fail(err, "KV file '%s': name too long", path);
	fd = mkstemp(temp);
	if (fd < 0)
		return fail_errno(err, "cannot write KV file '%s'", path);
	return fd;
}

/* Holds back signals, which might leave the temporary file behind. */
static void
hold_signals(sigset_t *old)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, old);
}

int
pico_kv_can_save(const char *path, struct pico_err *err)
{
	char temp[4096];
	sigset_t old;
	int fd;

	hold_signals(&old);
	fd = open_temp(path, temp, sizeof temp, err);
	if (fd >= 0) {
		(void)close(fd);
		(void)unlink(temp);
	}
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return fd < 0 ? -1 : 0;
}

/* Makes the new name last through a crash of the machine, where possible. */
static void
sync_dir(const char *path)
{
	char dir[4096];
	int fd;

	if (!dir_of(path, dir, sizeof dir))
		return;
	fd = open(dir, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)fsync(fd);
		(void)close(fd);
	}
}

/* `path` is what the user calls it, `target` what is to be replaced. */
static int
save(struct pico_ctx *c, uint32_t seq, const char *path, const char *target,
    struct pico_err *err)
{
	const struct kv *kv = &c->kv;
	size_t n = kv->n[seq];
	struct header h = {
		.model = c->model_hash, .identity = identity(c), .n_tokens = n,
		.kv_type = (uint32_t)kv->type, .n_layer = kv->h->n_layer,
	};
	char temp[4096], name[300];
	struct io io = { .name = name, .hash = HASH_START };
	mode_t mask;
	int r;

	/* it fit for n_ctx positions already */
	(void)body_bytes(kv, n, &h.body);
	memcpy(h.magic, magic, sizeof magic);
	(void)snprintf(name, sizeof name, "KV file '%s'", path);
	io.fd = open_temp(target, temp, sizeof temp, err);
	if (io.fd < 0)
		return -1;
	mask = umask(0);
	(void)umask(mask);
	(void)fchmod(io.fd, 0666 & ~mask);	/* mkstemp gives 0600 */
	if (write_piece(&io, &h, sizeof h, err) < 0 ||
	    each_piece(kv, seq, n, write_piece, &io, err) < 0 ||
	    write_all(io.fd, name, &io.hash, sizeof io.hash, err) < 0)
		goto bad;
	while ((r = fsync(io.fd)) < 0 && errno == EINTR)
		;
	if (r < 0) {
		(void)fail_errno(err, "write error on %s", name);
		goto bad;
	}
	/* interrupted, it is closed nevertheless, and all is on the disk */
	if (close(io.fd) < 0 && errno != EINTR) {
		io.fd = -1;
		(void)fail_errno(err, "write error on %s", name);
		goto bad;
	}
	io.fd = -1;
	if (rename(temp, target) < 0) {
		(void)fail_errno(err, "cannot write %s", name);
		goto bad;
	}
	sync_dir(target);
	return 0;
bad:
	if (io.fd >= 0)
		(void)close(io.fd);
	(void)unlink(temp);
	return -1;
}

int
pico_kv_save(struct pico_ctx *c, uint32_t seq, const char *path,
    struct pico_err *err)
{
	/* a link stays, and what it points to is replaced */
	char *real = realpath(path, NULL);
	sigset_t old;
	int r;

	if (real == NULL && errno != ENOENT)
		return fail_errno(err, "cannot write KV file '%s'", path);
	if (c->kv.pure[seq] < c->kv.n[seq]) {
		free(real);
		return fail(err, "cannot save KV file '%s': something before "
		    "token %" PRIu32 " was forgotten", path, c->kv.pure[seq]);
	}
	if (c->model_hash == 0 && hash_model(c, &c->model_hash, err) < 0) {
		free(real);
		return -1;
	}
	hold_signals(&old);
	r = save(c, seq, path, real != NULL ? real : path, err);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	free(real);
	return r;
}
