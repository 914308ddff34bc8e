/* SPDX-License-Identifier: MIT */
/*
 * Saved scores. A file is a header, a record for each scored token, and an end:
 *
 *	89 50 53 43 01 00 00 00		the letters PSC, version 1
 *	uint32 n_vocab, uint32 0
 *	uint64 hash of the vocabulary
 *
 *	uint32 position in its sequence, from 1
 *	int32  token before, int32 token, int32 most probable token
 *	float64 log-probability of the token
 *	uint16 -log-probabilities[n_vocab], in 1024ths; 65535: impossible
 *
 *	uint32 0, uint32 0, uint64 number of records, uint64 hash of them
 *
 * Steps of s = 1/1024 add s^2/12, or 1e-7, to a divergence, and go down to
 * e^-64; half precision would add 1e-6, as most probabilities are below e^-4.
 * Both sides are rounded alike and then made to sum to 1, so that a model
 * differs from itself by 0 exactly.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/base.h"

#define HEAD 24			/* bytes of a header, a record's, an end */
#define STEP (1.0 / 1024)
#define NEVER 65535
static const uint8_t magic[8] = { 0x89, 'P', 'S', 'C', 1, 0, 0, 0 };

static void
put_u32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof v);
}

static void
put_u64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof v);
}

static void
make_header(uint8_t *p, const struct pico_vocab *v)
{
	int32_t id, n = pico_vocab_n(v);
	uint64_t h = HASH_START, len;
	struct pico_str s;

	for (id = 0; id < n; id++) {
		s = pico_vocab_text(v, id);
		len = s.n;
		h = hash_bytes(h, &len, sizeof len);
		h = hash_bytes(h, s.p, s.n);
	}
	memcpy(p, magic, sizeof magic);
	put_u32(p + 8, (uint32_t)n);
	put_u32(p + 12, 0);
	put_u64(p + 16, h);
}

static size_t
record_bytes(uint32_t n_vocab)
{
	return HEAD + 2 * (size_t)n_vocab;
}

static void
make_record(uint8_t *p, const struct pico_scored *t, uint32_t n_vocab)
{
	const float *l = t->logits;
	uint32_t i, best = 0;
	double first, steps;
	uint16_t code;

	for (i = 1; i < n_vocab; i++)
		if (l[i] > l[best])
			best = i;
	first = isinf(t->logprob) ? pico_logprob(l, n_vocab, (int32_t)best) :
	    t->logprob + ((double)l[best] - l[t->id]);
	put_u32(p, (uint32_t)t->pos);
	put_u32(p + 4, (uint32_t)t->before);
	put_u32(p + 8, (uint32_t)t->id);
	put_u32(p + 12, best);
	memcpy(p + 16, &t->logprob, sizeof t->logprob);
	for (i = 0; i < n_vocab; i++) {
		/* of several that are infinite, the first has it all */
		if (isinf(l[best]))
			steps = i == best ? 0 : INFINITY;
		else
			steps = ((l[best] - (double)l[i]) - first) / STEP;
		code = isinf(steps) ? NEVER :
		    (uint16_t)MIN(steps + 0.5, NEVER - 1);
		memcpy(p + HEAD + 2 * (size_t)i, &code, sizeof code);
	}
}

/* ---- writing ---- */

struct pico_saved_out {
	int fd;
	const char *path;
	uint32_t n_vocab;
	uint64_t n, hash;
	uint8_t *record;
};

/* A name typed in the wrong place costs no model. */
static int
create(const char *path, struct pico_err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666), old;
	uint8_t head[sizeof magic];
	struct stat st = {0};

	if (fd < 0)
		return fail_errno(err, "cannot write '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return fd;
	if (st.st_size > 0) {
		old = open(path, O_RDONLY | O_CLOEXEC);
		if (old < 0 || read(old, head, sizeof head) != sizeof head ||
		    memcmp(head, magic, sizeof head) != 0) {
			if (old >= 0)
				(void)close(old);
			(void)close(fd);
			return fail(err, "'%s' is there and holds no saved "
			    "scores: not overwritten", path);
		}
		(void)close(old);
	}
	if (ftruncate(fd, 0) < 0) {
		(void)fail_errno(err, "cannot write '%s'", path);
		(void)close(fd);
		return -1;
	}
	return fd;
}

struct pico_saved_out *
pico_saved_create(const char *path, const struct pico_vocab *vocab,
    struct pico_err *err)
{
	struct pico_saved_out *o = mem_new(1, sizeof *o, "saved scores", err);
	uint8_t head[HEAD];

	if (o == NULL)
		return NULL;
	o->fd = -1;
	o->path = path;
	o->n_vocab = (uint32_t)pico_vocab_n(vocab);
	o->hash = HASH_START;
	o->record = mem_new(1, record_bytes(o->n_vocab), "a saved row", err);
	if (o->record != NULL)
		o->fd = create(path, err);
	if (o->fd >= 0) {
		make_header(head, vocab);
		if (write_all(o->fd, path, head, HEAD, err) == 0)
			return o;
	}
	pico_saved_close(o);
	return NULL;
}

int
pico_saved_put(struct pico_saved_out *o, const struct pico_scored *t,
    struct pico_err *err)
{
	size_t n = record_bytes(o->n_vocab);

	make_record(o->record, t, o->n_vocab);
	o->n++;
	o->hash = hash_bytes(o->hash, o->record, n);
	return write_all(o->fd, o->path, o->record, n, err);
}

int
pico_saved_end(struct pico_saved_out *o, struct pico_err *err)
{
	uint8_t end[HEAD] = {0};
	int fd = o->fd;

	put_u64(end + 8, o->n);
	put_u64(end + 16, o->hash);
	if (write_all(fd, o->path, end, HEAD, err) < 0)
		return -1;
	o->fd = -1;
	if (close(fd) < 0)
		return fail_errno(err, "write error on %s", o->path);
	return 0;
}

void
pico_saved_close(struct pico_saved_out *o)
{
	if (o == NULL)
		return;
	if (o->fd >= 0)
		(void)close(o->fd);
	free(o->record);
	free(o);
}

/* ---- reading ---- */

struct pico_saved_in {
	int fd;
	const char *path;
	uint32_t n_vocab;
	uint64_t n, hash;
	uint8_t *theirs, *ours;		/* records */
	double *exp;			/* probability of each code */
	struct pico_tally kl, our_lp, their_lp, less;	/* less: ours less
							   theirs */
	double kl_max;
	uint64_t n_same;
	uint64_t *bins;			/* how many divergences are where */
};

/* Places for divergences: by the upper bits of a float, 1024 in an octave. */
#define BIN_BITS 13
#define N_BINS ((size_t)1 << (31 - BIN_BITS))

static size_t
bin_of(double x)
{
	float f = (float)x;
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u >> BIN_BITS;
}

/* The least of its numbers. */
static double
bin_start(size_t bin)
{
	uint32_t u = (uint32_t)(bin << BIN_BITS);

	return get_f32(&u);
}

/* All n bytes, or a fault. */
static int
read_all(struct pico_saved_in *in, void *buf, size_t n, struct pico_err *err)
{
	uint8_t *p = buf;
	int64_t k;

	for (; n > 0; n -= (size_t)k, p += k) {
		k = read_some(in->fd, in->path, p, n, err);
		if (k < 0)
			return -1;
		if (k == 0)
			return fail(err, "'%s' is cut off after %" PRIu64
			    " saved tokens", in->path, in->n);
	}
	return 0;
}

static int
check_header(struct pico_saved_in *in, const struct pico_vocab *vocab,
    struct pico_err *err)
{
	uint8_t head[HEAD], want[HEAD];

	if (read_all(in, head, sizeof magic, err) < 0)
		return -1;
	if (memcmp(head, magic, sizeof magic) != 0)
		return fail(err, "'%s' holds no saved scores: it begins with "
		    "'%s'", in->path, show((char *)head, sizeof magic));
	if (read_all(in, head + sizeof magic, HEAD - sizeof magic, err) < 0)
		return -1;
	make_header(want, vocab);
	if (get_u32(head + 8) != in->n_vocab)
		return fail(err, "'%s' is of another vocabulary: of %" PRIu32
		    " tokens, the model's has %" PRIu32, in->path,
		    get_u32(head + 8), in->n_vocab);
	if (memcmp(head, want, HEAD) != 0)
		return fail(err, "'%s' is of another vocabulary, though it has "
		    "%" PRIu32 " tokens, too", in->path, in->n_vocab);
	return 0;
}

struct pico_saved_in *
pico_saved_open(const char *path, const struct pico_vocab *vocab,
    struct pico_err *err)
{
	struct pico_saved_in *in = mem_new(1, sizeof *in, "saved scores", err);
	uint32_t i;

	if (in == NULL)
		return NULL;
	in->path = path;
	in->hash = HASH_START;
	in->n_vocab = (uint32_t)pico_vocab_n(vocab);
	in->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (in->fd < 0) {
		(void)fail_errno(err, "cannot open '%s'", path);
		goto bad;
	}
	in->theirs = mem_new(1, record_bytes(in->n_vocab), "a saved row", err);
	in->ours = mem_new(1, record_bytes(in->n_vocab), "a saved row", err);
	in->exp = mem_new(NEVER + 1, sizeof *in->exp, "a table", err);
	in->bins = mem_new(N_BINS, sizeof *in->bins, "a table", err);
	if (in->theirs == NULL || in->ours == NULL || in->exp == NULL ||
	    in->bins == NULL ||
	    check_header(in, vocab, err) < 0)
		goto bad;
	for (i = 0; i < NEVER; i++)
		in->exp[i] = m_exp(-STEP * i);
	return in;
bad:
	pico_saved_free(in);
	return NULL;
}

/*
 * Kullback-Leibler divergence: sum of p ln(p/q), where ln p = a - ln(sum of
 * exp(a)), and q likewise of b, the rounded log-probabilities.
 */
static double
divergence(const struct pico_saved_in *in)
{
	double sum_p = 0, sum_q = 0, sum = 0, p;
	uint16_t a, b;
	uint32_t i;

	for (i = 0; i < in->n_vocab; i++) {
		a = get_u16(in->theirs + HEAD + 2 * (size_t)i);
		b = get_u16(in->ours + HEAD + 2 * (size_t)i);
		p = in->exp[a];
		sum_p += p;
		sum_q += in->exp[b];
		if (p > 0)
			sum += b == NEVER ? INFINITY : p * (b - a);
	}
	return MAX(sum * STEP / sum_p + (m_log(sum_q) - m_log(sum_p)), 0);
}

int
pico_saved_compare(struct pico_saved_in *in, const struct pico_scored *t,
    double *kl, struct pico_err *err)
{
	size_t n = record_bytes(in->n_vocab);
	uint8_t *p = in->theirs;

	if (read_all(in, p, HEAD, err) < 0)
		return -1;
	if (get_u32(p) == 0)
		return fail(err, "sequence %" PRIu64 ", position %" PRIu64
		    ": '%s' has no more than %" PRIu64 " tokens", t->sequence,
		    t->pos, in->path, in->n);
	make_record(in->ours, t, in->n_vocab);
	if (memcmp(p, in->ours, 12) != 0)
		return fail(err, "sequence %" PRIu64 ", position %" PRIu64
		    ": token %" PRId32 " after %" PRId32 ", but '%s' has "
		    "position %" PRIu32 ", token %" PRId32 " after %" PRId32,
		    t->sequence, t->pos, t->id, t->before, in->path,
		    get_u32(p), (int32_t)get_u32(p + 8),
		    (int32_t)get_u32(p + 4));
	if (read_all(in, p + HEAD, n - HEAD, err) < 0)
		return -1;
	in->n++;
	in->hash = hash_bytes(in->hash, p, n);
	*kl = divergence(in);
	pico_tally_add(&in->kl, *kl);
	in->kl_max = MAX(in->kl_max, *kl);
	in->bins[bin_of(*kl)]++;
	pico_tally_add(&in->our_lp, t->logprob);
	pico_tally_add(&in->their_lp, get_f64(p + 16));
	pico_tally_add(&in->less, t->logprob - get_f64(p + 16));
	in->n_same += get_u32(p + 12) == get_u32(in->ours + 12);
	return 0;
}

static double
percentile_99(const struct pico_saved_in *in)
{
	uint64_t seen = 0, want = in->n - in->n / 100;
	size_t i;

	for (i = 0; (seen += in->bins[i]) < want; i++)
		;
	return bin_start(i);
}

static void
summarize(const struct pico_saved_in *in, struct pico_comparison *c)
{
	double a, b, va, vb, vd, n = (double)in->n;

	*c = (struct pico_comparison){ .n = in->n };
	c->perplexity.value = pico_perplexity(&in->our_lp,
	    &c->perplexity.error);
	c->saved.value = pico_perplexity(&in->their_lp, &c->saved.error);
	/* both are of the same tokens: the variance of a x - b y, where that of
	   x - y is known, and small */
	a = c->perplexity.value;
	b = c->saved.value;
	va = pico_tally_error(&in->our_lp);
	vb = pico_tally_error(&in->their_lp);
	vd = pico_tally_error(&in->less);
	c->difference.value = a - b;
	c->difference.error = sqrt(MAX(a * b * (vd * vd) +
	    (a - b) * (a * (va * va) - b * (vb * vb)), 0));
	c->kl.value = in->n > 0 ? in->kl.mean : (double)NAN;
	c->kl.error = pico_tally_error(&in->kl);
	c->kl_99 = in->n > 0 ? percentile_99(in) : (double)NAN;
	c->kl_max = in->n > 0 ? in->kl_max : (double)NAN;
	c->same.value = (double)in->n_same / n;
	c->same.error = in->n > 1 ? sqrt(c->same.value *
	    (1 - c->same.value) / (n - 1)) : (double)NAN;
}

int
pico_saved_finish(struct pico_saved_in *in, struct pico_comparison *out,
    struct pico_err *err)
{
	uint8_t *p = in->theirs;

	if (read_all(in, p, HEAD, err) < 0)
		return -1;
	if (get_u32(p) != 0)
		return fail(err, "'%s' has more than the %" PRIu64 " tokens of "
		    "the input", in->path, in->n);
	if (get_u32(p + 4) != 0 || get_u64(p + 8) != in->n ||
	    get_u64(p + 16) != in->hash)
		return fail(err, "'%s' is damaged: its checksum is another",
		    in->path);
	summarize(in, out);
	return 0;
}

void
pico_saved_free(struct pico_saved_in *in)
{
	if (in == NULL)
		return;
	if (in->fd >= 0)
		(void)close(in->fd);
	free(in->theirs);
	free(in->ours);
	free(in->exp);
	free(in->bins);
	free(in);
}
