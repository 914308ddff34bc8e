/* SPDX-License-Identifier: MIT */
/*
 * Scores: the log-probability of each token of a text after those before it. A
 * text is one window of the context, or several that overlap. Columns of
 * windows follow each other through passes as full as they can be, and come
 * out in that order, so that sums over tokens have one order, too.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "../base/base.h"

/* ---- statistics ---- */

void
pico_tally_add(struct pico_tally *t, double x)
{
	double d = x - t->mean;

	/* Welford 1962 */
	t->n++;
	t->sum += x;
	t->mean += d / (double)t->n;
	t->square += d * (x - t->mean);
}

double
pico_tally_error(const struct pico_tally *t)
{
	if (t->n < 2)
		return (double)NAN;
	return sqrt(t->square / (double)(t->n - 1) / (double)t->n);
}

double
pico_perplexity(const struct pico_tally *t, double *error)
{
	/* of the sum: its few roundings are those of adding by hand */
	double p = t->n > 0 ? m_exp(-t->sum / (double)t->n) : (double)NAN;

	if (error != NULL)
		*error = p * pico_tally_error(t);
	return p;
}

/* ---- the engine ---- */

/* What a column is computed for. */
struct place {
	struct pico_scored scored;	/* if the column has logits */
	bool last;			/* and ends its sequence */
	uint64_t tag;
};

struct pico_score {
	struct pico_ctx *ctx;
	uint32_t stride;
	int32_t n_vocab, bos;
	struct pico_score_sink sink;
	uint32_t n_slots;	/* sequences of the context for windows */
	bool share;		/* and one more, for a common beginning */
	uint32_t slot;		/* of the newest window */
	uint32_t open;		/* windows with columns in the pass: those in
				   the slots up to `slot` */
	bool counted;		/* the newest is one of them */
	struct pico_col *cols;	/* the pass: n columns, and what they are for */
	struct place *place;
	size_t n;
	uint64_t number;	/* sequences added */
	struct pico_score_stats stats;
};

/* Why no logit is the highest. */
static int
senseless(const struct pico_scored *t, int32_t n_vocab, struct pico_err *err)
{
	int32_t id;

	for (id = 0; id < n_vocab && !isnan(t->logits[id]); id++)
		;
	if (id == n_vocab)
		return fail(err, "sequence %" PRIu64 ", position %" PRIu64
		    ": no token is possible", t->sequence, t->pos);
	return fail(err, "sequence %" PRIu64 ", position %" PRIu64 ": logit of "
	    "token %" PRId32 " is NaN", t->sequence, t->pos, id);
}

static int
put(struct pico_score *s, struct place *p, struct pico_err *err)
{
	struct pico_scored *t = &p->scored;

	t->logprob = pico_logprob(t->logits, (uint32_t)s->n_vocab, t->id);
	if (isnan(t->logprob))
		return senseless(t, s->n_vocab, err);
	s->stats.scored++;
	if (s->sink.token(s->sink.data, t, err) < 0)
		return -1;
	return p->last ? s->sink.end(s->sink.data, t->sequence, p->tag, err) :
	    0;
}

int
pico_score_flush(struct pico_score *s, struct pico_err *err)
{
	double start = pico_seconds();
	size_t i, n = s->n;

	s->n = s->open = 0;
	s->counted = false;
	if (n == 0)
		return 0;
	if (pico_ctx_eval(s->ctx, s->cols, n, err) < 0)
		return -1;
	s->stats.passes++;
	s->stats.computed += n;
	for (i = 0; i < n; i++) {
		if (!s->cols[i].logits)
			continue;
		s->place[i].scored.logits = pico_ctx_logits(s->ctx, i);
		if (s->place[i].scored.logits == NULL)
			return pico_ctx_fault(s->ctx, err);
		if (put(s, &s->place[i], err) < 0)
			return -1;
	}
	s->stats.seconds += pico_seconds() - start;
	return 0;
}

/* Appends a column; `place` tells what it is for, NULL: nothing but the cache. */
static int
push(struct pico_score *s, uint32_t slot, int32_t id,
    const struct place *place, struct pico_err *err)
{
	s->cols[s->n] = (struct pico_col){
		.token = id, .seq = slot, .logits = place != NULL,
	};
	if (place != NULL)
		s->place[s->n] = *place;
	s->n++;
	return s->n < pico_ctx_chunk(s->ctx) ? 0 : pico_score_flush(s, err);
}

/* Finds a slot without columns in the pass. Returns how many of the n tokens
   it has from the common beginning. */
static int
open_window(struct pico_score *s, const int32_t *ids, size_t n, size_t *have,
    struct pico_err *err)
{
	if (s->open == s->n_slots && pico_score_flush(s, err) < 0)
		return -1;
	s->slot = (s->slot + 1) % s->n_slots;
	s->counted = false;
	pico_ctx_cut(s->ctx, s->slot, 0);
	if (s->share)
		pico_ctx_copy(s->ctx, s->slot, s->n_slots, pico_ctx_match(
		    s->ctx, s->n_slots, ids, n));
	(void)pico_ctx_tokens(s->ctx, s->slot, have);
	return 0;
}

/* One window: `head` tokens of the beginning, then those that end at `end`, so
   many that there are `len`. Those from position `from` on are scored. */
static int
add_window(struct pico_score *s, const int32_t *ids, size_t n, size_t head,
    size_t end, size_t len, size_t from, uint64_t tag, struct pico_err *err)
{
	size_t i, at, skip = end - len;		/* positions left out */
	struct place place;

	/* what comes after the last token is not wanted, so neither is it */
	if (open_window(s, ids, MIN(from - 1, len - 1), &i, err) < 0)
		return -1;
	for (; i + 1 < len; i++) {
		at = skip + i;
		place = (struct place){ .scored = {
			.sequence = s->number, .pos = at + 1, .id = ids[at + 1],
			.before = ids[at],
		}, .last = at + 2 == n, .tag = tag };
		if (!s->counted)
			s->open++;
		s->counted = true;
		if (push(s, s->slot, i < head ? ids[i] : ids[at],
		    at + 1 >= from ? &place : NULL, err) < 0)
			return -1;
	}
	return 0;
}

int
pico_score_check(const struct pico_score *s, const int32_t *ids, size_t n,
    struct pico_err *err)
{
	uint32_t n_ctx = pico_ctx_n_ctx(s->ctx);
	size_t i;

	for (i = 0; i < n; i++)
		if (ids[i] < 0 || ids[i] >= s->n_vocab)
			return fail(err, "token %" PRId32 " is not in the "
			    "vocabulary of %" PRId32, ids[i], s->n_vocab);
	if (n > n_ctx && s->stride == 0)
		return fail(err, "sequence has %zu tokens, context is %" PRIu32,
		    n, n_ctx);
	return 0;
}

int
pico_score_add(struct pico_score *s, const int32_t *ids, size_t n, size_t from,
    uint64_t tag, struct pico_err *err)
{
	size_t n_ctx = pico_ctx_n_ctx(s->ctx), end;
	size_t head = n > 0 && ids[0] == s->bos;

	if (pico_score_check(s, ids, n, err) < 0)
		return -1;
	s->number++;
	from = MAX(from, 1);
	if (from >= n) {
		/* nothing to wait for but those before it */
		if (pico_score_flush(s, err) < 0)
			return -1;
		return s->sink.end(s->sink.data, s->number, tag, err);
	}
	for (end = MIN(n, n_ctx); ; end += MIN(s->stride, n - end)) {
		/* a last window may have less than a stride to add, and then
		   has more before it */
		if (add_window(s, ids, n, head, end, MIN(n, n_ctx), from, tag,
		    err) < 0)
			return -1;
		if (end == n)
			return 0;
		from = end;
	}
}

int
pico_score_share(struct pico_score *s, const int32_t *ids, size_t n,
    struct pico_err *err)
{
	size_t i;

	if (pico_score_check(s, ids, n, err) < 0)
		return -1;
	i = pico_ctx_match(s->ctx, s->n_slots, ids, n);
	pico_ctx_cut(s->ctx, s->n_slots, i);
	/* a state cannot go back, and then has nothing */
	(void)pico_ctx_tokens(s->ctx, s->n_slots, &i);
	for (; i < n; i++)
		if (push(s, s->n_slots, ids[i], NULL, err) < 0)
			return -1;
	return pico_score_flush(s, err);
}

const struct pico_score_stats *
pico_score_stats(const struct pico_score *s)
{
	return &s->stats;
}

struct pico_score *
pico_score_new(struct pico_ctx *ctx, const struct pico_vocab *vocab,
    uint32_t stride, bool share, const struct pico_score_sink *sink,
    struct pico_err *err)
{
	uint32_t n_ctx = pico_ctx_n_ctx(ctx), chunk = pico_ctx_chunk(ctx);
	struct pico_score *s;

	if (stride >= n_ctx) {
		(void)fail_usage(err, "a stride of %" PRIu32 " in a context of %"
		    PRIu32 " leaves nothing before the first token", stride,
		    n_ctx);
		return NULL;
	}
	s = mem_new(1, sizeof *s, "scores", err);
	if (s == NULL)
		return NULL;
	s->ctx = ctx;
	s->stride = stride;
	s->n_vocab = pico_vocab_n(vocab);
	s->bos = pico_vocab_special(vocab)->bos;
	s->sink = *sink;
	s->share = share;
	s->n_slots = pico_ctx_n_seq(ctx) - share;
	s->cols = mem_new(chunk, sizeof *s->cols, "columns", err);
	s->place = mem_new(chunk, sizeof *s->place, "columns", err);
	if (s->cols == NULL || s->place == NULL) {
		pico_score_free(s);
		return NULL;
	}
	return s;
}

void
pico_score_free(struct pico_score *s)
{
	if (s == NULL)
		return;
	free(s->cols);
	free(s->place);
	free(s);
}
