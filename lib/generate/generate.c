/* SPDX-License-Identifier: MIT */
/*
 * Generation: prompts become sequences in slots of the context, all slots are
 * computed in one batch, and a finished sequence makes room for the next
 * prompt at once. Output goes out in the order of the prompts: the oldest
 * unfinished sequence flows, later ones wait in their queue entries.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/base.h"

/* A growing list of ids. */
struct list {
	int32_t *v;
	size_t n, cap;
};

static int
push(struct list *l, int32_t id, struct pico_err *err)
{
	if (mem_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v, "token ids",
	    err) < 0)
		return -1;
	l->v[l->n++] = id;
	return 0;
}

/* Output of one sequence, in the queue from its start to its end. */
struct entry {
	struct entry *next;
	struct list waiting;	/* tokens that may not go out yet */
	bool ended;
	enum pico_reason reason;
};

/*
 * Tokens that may turn out to be part of a stop text, and their bytes. They are
 * held back until that is decided.
 */
struct held {
	struct list ids;
	size_t *end;		/* end[i]: bytes up to and including id i */
	size_t cap_end;
	char *text;
	size_t n, cap;
};

struct slot {
	struct entry *entry;	/* NULL: the slot is free */
	uint64_t number;	/* of the sequence, for the random draws */
	double drift;		/* of mirostat: begins with the sequence */
	struct list ids;	/* prompt, then what was generated */
	size_t dropped;		/* so many of them, after the first `keep`, are
				   forgotten: the others are the context */
	int64_t made;		/* tokens generated */
	struct held held;
	struct pico_matcher *matcher;	/* if there is a grammar */
	uint32_t queued;	/* columns in this pass */
	/* Another slot is computing the first `share` tokens of this prompt,
	   too: wait for it. 0: nothing to wait for. */
	uint32_t leader;
	uint64_t leader_number;
	size_t share;
	size_t reused;		/* tokens taken over, not counted yet */
};

/* Fewer tokens in common are not worth waiting for. */
#define SHARE_MIN 32

struct pico_gen {
	struct pico_ctx *ctx;
	const struct pico_vocab *vocab;
	const struct pico_gen_params *p;
	struct pico_gen_sink sink;
	struct pico_sampler *sampler;
	struct slot *slots;
	uint32_t n_slots;
	struct pico_col *cols;
	struct entry *first, *last;	/* the queue */
	uint64_t next_number;
	char *piece;
	struct pico_ids forced;
	struct pico_gen_stats stats;
};

/* ---- output in order ---- */

static int
flush_queue(struct pico_gen *g, struct pico_err *err)
{
	struct entry *e;
	size_t i;

	while ((e = g->first) != NULL) {
		for (i = 0; i < e->waiting.n; i++)
			if (g->sink.token(g->sink.data, e->waiting.v[i],
			    err) < 0)
				return -1;
		e->waiting.n = 0;
		if (!e->ended)
			return 0;
		if (g->sink.end(g->sink.data, e->reason, err) < 0)
			return -1;
		g->first = e->next;
		if (g->first == NULL)
			g->last = NULL;
		free(e->waiting.v);
		free(e);
	}
	return 0;
}

static struct entry *
enqueue(struct pico_gen *g, struct pico_err *err)
{
	struct entry *e = mem_new(1, sizeof *e, "output", err);

	if (e == NULL)
		return NULL;
	if (g->last != NULL)
		g->last->next = e;
	else
		g->first = e;
	g->last = e;
	return e;
}

static int
output(struct pico_gen *g, struct slot *s, int32_t id, struct pico_err *err)
{
	if (s->entry == g->first)	/* nothing waits before it */
		return g->sink.token(g->sink.data, id, err);
	return push(&s->entry->waiting, id, err);
}

/* ---- stop texts ---- */

/*
 * Where the first stop text begins in the held bytes, or the length. If none is
 * there, *keep is how many bytes at the end may yet become one.
 */
static size_t
find_stop(const struct pico_gen *g, const struct held *h, size_t *keep)
{
	size_t i, k, len, best = h->n;

	*keep = 0;
	for (i = 0; i < g->p->n_stop; i++) {
		const struct pico_str *stop = &g->p->stop[i];

		for (k = 0; k + stop->n <= h->n && k < best; k++)
			if (memcmp(h->text + k, stop->p, stop->n) == 0)
				best = k;
		for (len = MIN(stop->n - 1, h->n); len > *keep; len--)
			if (memcmp(h->text + h->n - len, stop->p, len) == 0)
				*keep = len;
	}
	return best;
}

/* Outputs held tokens that end at or before byte `limit`. */
static int
release(struct pico_gen *g, struct slot *s, size_t limit, struct pico_err *err)
{
	struct held *h = &s->held;
	size_t i, n = 0, gone;

	for (; n < h->ids.n && h->end[n] <= limit; n++)
		if (output(g, s, h->ids.v[n], err) < 0)
			return -1;
	if (n == 0)
		return 0;
	gone = h->end[n - 1];
	h->n -= gone;
	if (h->n > 0)
		memmove(h->text, h->text + gone, h->n);
	h->ids.n -= n;
	for (i = 0; i < h->ids.n; i++) {
		h->ids.v[i] = h->ids.v[i + n];
		h->end[i] = h->end[i + n] - gone;
	}
	return 0;
}

/* Adds a token to the held ones; 1 if that completed a stop text. Then only
   the tokens before it are output. */
static int
hold(struct pico_gen *g, struct slot *s, int32_t id, struct pico_err *err)
{
	size_t n = pico_vocab_piece(g->vocab, id, false, g->piece), at, keep;
	struct held *h = &s->held;

	if (push(&h->ids, id, err) < 0 ||
	    mem_grow(&h->end, &h->cap_end, h->ids.n, sizeof *h->end,
	    "token ends", err) < 0 ||
	    mem_grow(&h->text, &h->cap, h->n + n + 1, 1, "text", err) < 0)
		return -1;	/* + 1: never NULL, though a piece be empty */
	memcpy(h->text + h->n, g->piece, n);
	h->n += n;
	h->end[h->ids.n - 1] = h->n;
	at = find_stop(g, h, &keep);
	if (at < h->n) {
		if (release(g, s, at, err) < 0)
			return -1;
		return 1;
	}
	return release(g, s, h->n - keep, err);
}

/* ---- sequences ---- */

/* Tokens of the context, computed or not. */
static size_t
context_n(const struct slot *s)
{
	return s->ids.n - s->dropped;
}

/* How many tokens make room for others: the older half of what is not to be
   kept. */
static size_t
half(const struct pico_gen *g)
{
	return (pico_ctx_n_ctx(g->ctx) - g->p->keep) / 2;
}

/* Whether so many are in the cache. */
static bool
can_shift(const struct pico_gen *g, const struct slot *s)
{
	size_t n;

	(void)pico_ctx_tokens(g->ctx, (uint32_t)(s - g->slots), &n);
	return n >= g->p->keep + half(g);
}

static int
shift(struct pico_gen *g, struct slot *s, struct pico_err *err)
{
	size_t drop = half(g);

	if (pico_ctx_shift(g->ctx, (uint32_t)(s - g->slots), g->p->keep, drop,
	    err) < 0)
		return -1;
	s->dropped += drop;
	return 0;
}

static int
end_sequence(struct pico_gen *g, struct slot *s, enum pico_reason reason,
    struct pico_err *err)
{
	uint32_t seq = (uint32_t)(s - g->slots);

	if (reason != PICO_END_STOP) {
		if (release(g, s, SIZE_MAX, err) < 0)
			return -1;
	} else {
		/* what was not written is not part of the context either */
		s->ids.n -= s->held.ids.n;
		pico_ctx_cut(g->ctx, seq, context_n(s));
	}
	s->held.ids.n = s->held.n = 0;
	s->entry->ended = true;
	s->entry->reason = reason;
	g->stats.reason = reason;
	s->entry = NULL;
	return flush_queue(g, err);
}

static bool
is_stop_id(const struct pico_gen *g, int32_t id)
{
	size_t i;

	for (i = 0; i < g->p->n_stop_id; i++)
		if (g->p->stop_id[i] == id)
			return true;
	return false;
}

/*
 * A limit was reached. Output that its grammar does not let end here is cut off,
 * or closed by the shortest way to an end; that is not limited.
 */
static int
end_early(struct pico_gen *g, struct slot *s, enum pico_reason reason,
    struct pico_err *err)
{
	struct pico_ids *ids = &g->forced;
	size_t i;

	if (s->matcher == NULL || pico_matcher_can_end(s->matcher))
		return end_sequence(g, s, reason, err);
	if (!g->p->finish) {
		g->stats.cut++;
		return end_sequence(g, s, reason, err);
	}
	ids->n = 0;
	if (release(g, s, SIZE_MAX, err) < 0 ||
	    pico_matcher_closing(s->matcher, ids, err) < 0)
		return -1;
	for (i = 0; i < ids->n; i++)
		if (push(&s->ids, ids->v[i], err) < 0 ||
		    output(g, s, ids->v[i], err) < 0)
			return -1;
	g->stats.new_tokens += ids->n;
	return end_sequence(g, s, PICO_END_STOP, err);
}

/* A stop text or id: cuts off, too, where the grammar has no end. The matcher has
   read what is held back, which is not output: it reads the others again. */
static int
end_stopped(struct pico_gen *g, struct slot *s, struct pico_err *err)
{
	size_t n = s->ids.n - s->held.ids.n, i;

	if (s->matcher != NULL && s->held.ids.n > 0) {
		pico_matcher_restart(s->matcher);
		for (i = s->ids.n - (size_t)s->made; i < n; i++)
			if (pico_matcher_token(s->matcher, s->ids.v[i],
			    err) < 0)
				return -1;
	}
	if (s->matcher != NULL && !pico_matcher_can_end(s->matcher))
		g->stats.cut++;
	return end_sequence(g, s, PICO_END_STOP, err);
}

/* Goes on by a token that is no end of generation: 1, or 0 if the sequence
   ended there. */
static int
go_on(struct pico_gen *g, struct slot *s, int32_t id, struct pico_err *err)
{
	int r;

	if (push(&s->ids, id, err) < 0 || (s->matcher != NULL &&
	    pico_matcher_token(s->matcher, id, err) < 0))
		return -1;
	s->made++;
	g->stats.new_tokens++;
	r = g->p->n_stop > 0 ? hold(g, s, id, err) : output(g, s, id, err);
	if (r < 0)
		return -1;
	if (r > 0)
		return end_stopped(g, s, err);
	if (s->matcher != NULL && pico_matcher_over(s->matcher)) {
		if (release(g, s, SIZE_MAX, err) < 0)
			return -1;
		return end_sequence(g, s, PICO_END_STOP, err);
	}
	if (g->p->n_max >= 0 && s->made >= g->p->n_max)
		return end_early(g, s, PICO_END_LIMIT, err);
	if (context_n(s) < pico_ctx_n_ctx(g->ctx))
		return 1;
	if (!g->p->shift)
		return end_early(g, s, PICO_END_CONTEXT, err);
	return shift(g, s, err) < 0 ? -1 : 1;
}

/* Goes on by what the grammar forces: 1 if there was something. To slide a
   context, all before must have been computed: then tokens come one by one. */
static int
jump(struct pico_gen *g, struct slot *s, struct pico_err *err)
{
	struct pico_ids *ids = &g->forced;
	size_t i;
	int r = 1;

	ids->n = 0;
	if (s->matcher == NULL || g->p->no_jump)
		return 0;
	if (pico_matcher_forced(s->matcher, ids, err) < 0)
		return -1;
	if (g->p->shift && ids->n >= pico_ctx_n_ctx(g->ctx) - context_n(s))
		return 0;
	g->stats.forced_tokens += ids->n;
	for (i = 0; i < ids->n && r == 1; i++)
		r = go_on(g, s, ids->v[i], err);
	return r < 0 ? -1 : ids->n > 0;
}

/* Draws the next token of a sequence whose context is computed. */
static int
draw(struct pico_gen *g, struct slot *s, const float *logits,
    struct pico_err *err)
{
	struct pico_err why = {0};
	struct pico_seq seq = { .ids = s->ids.v, .n = s->ids.n,
	    .seed = g->p->seed, .number = s->number, .drift = s->drift };
	int32_t id;
	int r = s->made == 0 ? jump(g, s, err) : 0;

	if (r != 0)
		return MIN(r, 0);
	if (s->matcher != NULL)
		logits = pico_matcher_mask(s->matcher, logits, &why);
	if (logits == NULL)
		return fail(err, "sequence %" PRIu64 ", position %zu: %s",
		    s->number + 1, s->ids.n, why.msg);
	if (pico_sampler_draw(g->sampler, &g->p->chain, logits, &seq, &id,
	    &why) < 0)
		return fail(err, "sequence %" PRIu64 ", %s", s->number + 1,
		    why.msg);
	s->drift = seq.drift;
	if (is_stop_id(g, id))
		return release(g, s, SIZE_MAX, err) < 0 ? -1 :
		    end_stopped(g, s, err);
	if (!g->p->ignore_eog && pico_vocab_is_eog(g->vocab, id)) {
		if (push(&s->ids, id, err) < 0)
			return -1;
		if (g->p->emit_eog && (release(g, s, SIZE_MAX, err) < 0 ||
		    output(g, s, id, err) < 0))
			return -1;
		return end_sequence(g, s, PICO_END_EOG, err);
	}
	r = go_on(g, s, id, err);
	return r > 0 ? MIN(jump(g, s, err), 0) : r;
}

/* Takes over as much of the context as some slot has computed already. The
   last token is computed anyhow: its logits are wanted. */
static void
reuse(struct pico_gen *g, struct slot *s)
{
	uint32_t i, seq = (uint32_t)(s - g->slots), best = seq;
	size_t n, most;

	/* a session goes on with its own cache although that is not what its
	   tokens alone would give */
	if (s->dropped > 0) {
		(void)pico_ctx_tokens(g->ctx, seq, &n);
		s->reused = MIN(n, context_n(s) - 1);
		pico_ctx_cut(g->ctx, seq, s->reused);
		return;
	}
	most = pico_ctx_match(g->ctx, seq, s->ids.v, s->ids.n - 1);
	for (i = 0; i < g->n_slots; i++) {
		n = pico_ctx_match(g->ctx, i, s->ids.v, s->ids.n - 1);
		if (n > most) {
			most = n;
			best = i;
		}
	}
	pico_ctx_copy(g->ctx, seq, best, most);
	s->reused = most;
}

/* Looks for an older sequence that is still computing what this one shares
   with it. */
static void
follow(struct pico_gen *g, struct slot *s)
{
	size_t n, done, most = s->reused + SHARE_MIN - 1;
	struct slot *other;
	uint32_t i;

	s->share = 0;
	/* a state that has gone past what is shared is of no use */
	if (pico_ctx_recurrent(g->ctx))
		return;
	for (i = 0; i < g->n_slots; i++) {
		other = &g->slots[i];
		if (other == s || other->entry == NULL || other->made > 0)
			continue;
		for (n = 0; n < MIN(s->ids.n - 1, other->ids.n) &&
		    s->ids.v[n] == other->ids.v[n]; n++)
			;
		(void)pico_ctx_tokens(g->ctx, i, &done);
		if (n > most && done < n) {
			most = n;
			s->share = n;
			s->leader = i;
			s->leader_number = other->number;
		}
	}
}

/* Whether a slot still waits for its leader; if no more, it takes over what is
   there now. Leaders are older, so nobody waits in a circle. */
static bool
waits(struct pico_gen *g, struct slot *s)
{
	const struct slot *leader = &g->slots[s->leader];
	size_t done;

	if (s->share == 0)
		return false;
	(void)pico_ctx_tokens(g->ctx, s->leader, &done);
	if (leader->entry != NULL && leader->number == s->leader_number &&
	    done < s->share)
		return true;
	s->share = 0;
	reuse(g, s);
	return false;
}

static struct slot *
free_slot(const struct pico_gen *g)
{
	uint32_t i;

	for (i = 0; i < g->n_slots; i++)
		if (g->slots[i].entry == NULL)
			return &g->slots[i];
	return NULL;
}

bool
pico_gen_has_room(const struct pico_gen *g)
{
	return free_slot(g) != NULL;
}

size_t
pico_gen_busy(const struct pico_gen *g)
{
	size_t n = 0;
	uint32_t i;

	for (i = 0; i < g->n_slots; i++)
		n += g->slots[i].entry != NULL;
	return n;
}

int
pico_gen_skip(struct pico_gen *g, struct pico_err *err)
{
	struct entry *e = enqueue(g, err);

	if (e == NULL)
		return -1;
	g->next_number++;
	e->ended = true;
	e->reason = PICO_END_LIMIT;
	return flush_queue(g, err);
}

int
pico_gen_add(struct pico_gen *g, const int32_t *ids, size_t n, bool echo,
    struct pico_err *err)
{
	struct slot *s = free_slot(g);
	uint32_t n_ctx = pico_ctx_n_ctx(g->ctx);
	size_t i, before = g->p->session ? context_n(s) : 0;

	for (i = 0; i < n; i++)
		if (ids[i] < 0 || ids[i] >= pico_vocab_n(g->vocab))
			return fail(err, "token %" PRId32 " is not in the "
			    "vocabulary of %" PRId32, ids[i],
			    pico_vocab_n(g->vocab));
	while (g->p->shift && before > n_ctx - MIN(n, n_ctx) &&
	    can_shift(g, s)) {
		if (shift(g, s, err) < 0)
			return -1;
		before = context_n(s);
	}
	if (before + n > n_ctx)
		return fail(err, "prompt has %zu tokens%s, context is %" PRIu32,
		    before + n, before > 0 ? " with those before it" : "",
		    n_ctx);
	if (before + n == 0)
		return pico_gen_skip(g, err);
	if (!g->p->session) {
		s->ids.n = s->dropped = 0;
		s->drift = 0;
	}
	for (i = 0; i < n; i++)
		if (push(&s->ids, ids[i], err) < 0)
			return -1;
	s->entry = enqueue(g, err);
	if (s->entry == NULL)
		return -1;
	s->number = g->p->session ? 0 : g->next_number;
	g->next_number++;
	s->made = 0;
	if (s->matcher != NULL)
		pico_matcher_restart(s->matcher);
	for (i = 0; echo && i < n; i++)
		if (output(g, s, ids[i], err) < 0)
			return -1;
	if (g->p->n_max == 0)
		return end_early(g, s, PICO_END_LIMIT, err);
	if (context_n(s) == n_ctx && !g->p->shift)
		return end_early(g, s, PICO_END_CONTEXT, err);
	reuse(g, s);
	follow(g, s);
	return 0;
}

int
pico_gen_stop(struct pico_gen *g, struct pico_err *err)
{
	uint32_t i;

	for (i = 0; i < g->n_slots; i++)
		if (g->slots[i].entry != NULL && end_sequence(g, &g->slots[i],
		    PICO_END_LIMIT, err) < 0)
			return -1;
	return 0;
}

/* Gives a slot up to `most` columns of the pass. */
static uint32_t
queue_columns(struct pico_gen *g, uint32_t i, uint32_t at, size_t most)
{
	struct slot *s = &g->slots[i];
	size_t done, left, k;

	(void)pico_ctx_tokens(g->ctx, i, &done);
	left = context_n(s) - done;
	s->queued = (uint32_t)MIN(left, most);
	for (k = 0; k < s->queued; k++)
		g->cols[at + k] = (struct pico_col){
			.token = s->ids.v[s->dropped + done + k], .seq = i,
			.logits = k + 1 == left,
		};
	return s->queued;
}

int
pico_gen_step(struct pico_gen *g, struct pico_err *err)
{
	uint32_t i, n = 0, chunk = pico_ctx_chunk(g->ctx), decoding = 0, at;
	double start = pico_seconds(), seconds;
	const float *logits;
	struct slot *s;
	int pass;

	/* running sequences first, one column each; prompts share the rest */
	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < g->n_slots; i++) {
			s = &g->slots[i];
			if (s->entry == NULL || (s->made > 0) != (pass == 0) ||
			    waits(g, s))
				continue;
			n += queue_columns(g, i, n, chunk - n);
		}
		if (pass == 0)
			decoding = n;
	}
	if (n == 0)
		return 0;
	if (pico_ctx_eval(g->ctx, g->cols, n, err) < 0)
		return -1;
	for (at = 0; at < n; at += s->queued) {
		s = &g->slots[g->cols[at].seq];
		g->stats.reused_tokens += s->reused;
		s->reused = 0;
	}
	g->stats.passes++;
	g->stats.prompt_tokens += n - decoding;
	g->stats.decoded_tokens += decoding;
	for (at = 0; at < n; ) {
		s = &g->slots[g->cols[at].seq];
		at += s->queued;
		if (!g->cols[at - 1].logits)
			continue;
		logits = pico_ctx_logits(g->ctx, at - 1);
		if (logits == NULL)
			return pico_ctx_fault(g->ctx, err);
		if (draw(g, s, logits, err) < 0)
			return -1;
	}
	seconds = pico_seconds() - start;
	g->stats.decode_seconds += seconds * decoding / n;
	g->stats.prompt_seconds += seconds * (n - decoding) / n;
	return 0;
}

const struct pico_gen_stats *
pico_gen_stats(const struct pico_gen *g)
{
	return &g->stats;
}

struct pico_gen *
pico_gen_new(struct pico_ctx *ctx, const struct pico_vocab *vocab,
    const struct pico_gen_params *params, const struct pico_gen_sink *sink,
    struct pico_err *err)
{
	struct pico_gen *g = mem_new(1, sizeof *g, "generator", err);
	uint32_t i;

	if (g == NULL)
		return NULL;
	g->ctx = ctx;
	g->vocab = vocab;
	g->p = params;
	g->sink = *sink;
	g->n_slots = params->session ? 1 : pico_ctx_n_seq(ctx);
	g->slots = mem_new(g->n_slots, sizeof *g->slots, "sequences", err);
	g->cols = mem_new(pico_ctx_chunk(ctx), sizeof *g->cols, "columns",
	    err);
	g->piece = mem_new(pico_vocab_piece_max(vocab), 1, "text of a token",
	    err);
	g->sampler = pico_sampler_new((uint32_t)pico_vocab_n(vocab), err);
	if (params->shift && (pico_ctx_n_ctx(ctx) < 2 ||
	    params->keep > pico_ctx_n_ctx(ctx) - 2)) {
		(void)fail_usage(err, "%" PRIu32 " tokens to keep of a context "
		    "of %" PRIu32 " leave no room to shift the others",
		    params->keep, pico_ctx_n_ctx(ctx));
		pico_gen_free(g);
		return NULL;
	}
	if (g->slots == NULL || g->cols == NULL || g->piece == NULL ||
	    g->sampler == NULL || (params->shift &&
	    pico_ctx_shift(ctx, 0, 0, 0, err) < 0)) {
		pico_gen_free(g);
		return NULL;
	}
	for (i = 0; params->constraint != NULL && i < g->n_slots; i++) {
		g->slots[i].matcher = pico_matcher_new(params->constraint,
		    err);
		if (g->slots[i].matcher == NULL) {
			pico_gen_free(g);
			return NULL;
		}
	}
	return g;
}

void
pico_gen_free(struct pico_gen *g)
{
	struct entry *e;
	uint32_t i;

	if (g == NULL)
		return;
	for (i = 0; g->slots != NULL && i < g->n_slots; i++) {
		free(g->slots[i].ids.v);
		free(g->slots[i].held.ids.v);
		free(g->slots[i].held.end);
		free(g->slots[i].held.text);
		pico_matcher_free(g->slots[i].matcher);
	}
	while ((e = g->first) != NULL) {
		g->first = e->next;
		free(e->waiting.v);
		free(e);
	}
	pico_sampler_free(g->sampler);
	free(g->forced.v);
	free(g->slots);
	free(g->cols);
	free(g->piece);
	free(g);
}
