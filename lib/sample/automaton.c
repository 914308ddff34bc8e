/* SPDX-License-Identifier: MIT */
/*
 * Texts by a grammar, with all ways to read them at once. A stack is a node and
 * the frame of the rule that the node is in, which knows the frame to return to;
 * equal frames are one, so that stacks form a tree (Tomita 1985), and a state is
 * a set of pairs. States and steps between them are kept: what was read once is
 * read again at the price of a look into a table.
 */
#include "grammar.h"

#define WAYS_MAX (1u << 18)		/* of one state, with the silent ones */
#define BYTES_MAX ((size_t)128 << 20)

struct frame {
	uint32_t node;		/* the N_CALL or N_REPEAT to go on behind */
	uint32_t count;		/* N_REPEAT: how often before this time */
	uint32_t parent;	/* 0: the bottom */
	uint32_t cost;		/* from the return on, to the end of all */
};

struct state {
	size_t first;		/* n pairs of a node and a frame */
	uint32_t n;
	uint32_t cost;		/* 0: the text may end here */
	void *mark;
};

/* A hash table of numbers from 1 on; 0: free. */
struct table {
	uint32_t *slot;
	size_t mask, n;
};

struct automaton {
	const struct pico_grammar *g;
	struct frame *frame;	/* 0: the bottom */
	size_t n_frames, cap_frames;
	struct table frames;
	uint64_t *pair;		/* node << 32 | frame, ascending in a state */
	size_t n_pairs, cap_pairs;
	struct state *state;	/* 0 is none, 1 is dead */
	size_t n_states, cap_states;
	struct table states;
	uint32_t *step;		/* n_classes for each state; 0: not known */
	size_t cap_steps;
	/* the closure at work */
	uint64_t *work;
	size_t n_work, cap_work;
	uint32_t *seen;		/* hash table of the places in work, + 1 */
	size_t seen_mask;
	bool can_end;
};

/* ---- tables ---- */

static uint64_t
mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

/* Doubles a table that is half full; hash() of its numbers fills it again. */
static int
table_room(struct automaton *a, struct table *t,
    uint64_t (*hash)(const struct automaton *, uint32_t), struct pico_err *err)
{
	size_t size = t->slot == NULL ? 1024 : 2 * (t->mask + 1), i, k;
	uint32_t *old = t->slot, *slot;

	if (old != NULL && 2 * t->n <= t->mask)
		return 0;
	slot = mem_new(size, sizeof *slot, "states of a grammar", err);
	if (slot == NULL)
		return -1;
	for (i = 0; old != NULL && i <= t->mask; i++) {
		if (old[i] == 0)
			continue;
		for (k = hash(a, old[i]) & (size - 1); slot[k] != 0; )
			k = (k + 1) & (size - 1);
		slot[k] = old[i];
	}
	free(old);
	t->slot = slot;
	t->mask = size - 1;
	return 0;
}

static uint64_t
hash_frame(const struct automaton *a, uint32_t i)
{
	const struct frame *f = &a->frame[i];

	return mix(mix(f->node, f->count), f->parent);
}

static uint64_t
hash_pairs(const uint64_t *v, size_t n, bool can_end)
{
	uint64_t h = can_end;
	size_t i;

	for (i = 0; i < n; i++)
		h = mix(h, v[i]);
	return h;
}

static uint64_t
hash_state(const struct automaton *a, uint32_t i)
{
	const struct state *s = &a->state[i];

	return hash_pairs(a->pair + s->first, s->n, s->cost == 0);
}

/* ---- frames ---- */

/* What is left to read behind a frame's return, if `done` times are over. */
static uint32_t
cost_behind(const struct automaton *a, const struct node *n, uint32_t done,
    uint32_t parent)
{
	const struct pico_grammar *g = a->g;
	uint32_t left = n->kind == N_REPEAT && done < n->min ?
	    n->min - done : 0;
	uint64_t body = n->kind == N_REPEAT ? g->cost[n->to] : 0;

	left = body == 0 ? 0 : (uint32_t)MIN(left * body, NEVER - 1);
	return cost_add(cost_add(left, g->cost[n->next]),
	    a->frame[parent].cost);
}

/* The frame with these values, perhaps new; 0 without memory. */
static uint32_t
frame_of(struct automaton *a, uint32_t node, uint32_t count, uint32_t parent,
    struct pico_err *err)
{
	struct frame f = { node, count, parent, 0 };
	uint32_t i;
	size_t k;

	if (table_room(a, &a->frames, hash_frame, err) < 0)
		return 0;
	k = mix(mix(node, count), parent) & a->frames.mask;
	for (; (i = a->frames.slot[k]) != 0; k = (k + 1) & a->frames.mask)
		if (a->frame[i].node == node && a->frame[i].count == count &&
		    a->frame[i].parent == parent)
			return i;
	f.cost = cost_behind(a, &a->g->node[node], count + 1, parent);
	if (mem_grow(&a->frame, &a->cap_frames, a->n_frames + 1,
	    sizeof *a->frame, "stacks of a grammar", err) < 0)
		return 0;
	i = (uint32_t)a->n_frames++;
	a->frame[i] = f;
	a->frames.slot[k] = i;
	a->frames.n++;
	return i;
}

/* ---- the closure: all that is reached without a byte ---- */

static int
see_room(struct automaton *a, struct pico_err *err)
{
	size_t size, i, k;
	uint32_t *seen;

	if (a->seen != NULL && 2 * a->n_work <= a->seen_mask)
		return 0;
	size = a->seen == NULL ? 1024 : 2 * (a->seen_mask + 1);
	seen = mem_new(size, sizeof *seen, "ways of a grammar", err);
	if (seen == NULL)
		return -1;
	free(a->seen);
	a->seen = seen;
	a->seen_mask = size - 1;
	for (i = 0; i < a->n_work; i++) {
		for (k = mix(0, a->work[i]) & a->seen_mask; seen[k] != 0; )
			k = (k + 1) & a->seen_mask;
		seen[k] = (uint32_t)i + 1;
	}
	return 0;
}

/* Adds a way, if it is new and leads to an end. */
static int
add(struct automaton *a, int32_t node, uint32_t frame, struct pico_err *err)
{
	uint64_t way = (uint64_t)node << 32 | frame;
	uint32_t i;
	size_t k;

	if (a->g->cost[node] == NEVER || a->frame[frame].cost == NEVER)
		return 0;
	if (see_room(a, err) < 0)
		return -1;
	k = mix(0, way) & a->seen_mask;
	for (; (i = a->seen[k]) != 0; k = (k + 1) & a->seen_mask)
		if (a->work[i - 1] == way)
			return 0;
	if (a->n_work >= WAYS_MAX)
		return fail(err, "grammar is too ambiguous: more than %u ways "
		    "to read a text", WAYS_MAX);
	if (mem_grow(&a->work, &a->cap_work, a->n_work + 1, sizeof *a->work,
	    "ways of a grammar", err) < 0)
		return -1;
	a->work[a->n_work++] = way;
	a->seen[k] = (uint32_t)a->n_work;
	return 0;
}

static int
enter(struct automaton *a, uint32_t node, uint32_t count, uint32_t parent,
    struct pico_err *err)
{
	uint32_t f = frame_of(a, node, count, parent, err);

	return f == 0 ? -1 : add(a, a->g->node[node].to, f, err);
}

/* A repetition of which `count` times are over. What can be empty need not be
   counted up to its minimum, and beyond that there is nothing to count if there
   is no maximum. */
static int
again(struct automaton *a, uint32_t node, uint32_t count, uint32_t parent,
    struct pico_err *err)
{
	const struct node *n = &a->g->node[node];
	uint32_t min = a->g->cost[n->to] == 0 ? 0 : n->min;

	if (n->max == NO_MAX)
		count = MIN(count, min);
	if (count >= min && add(a, n->next, parent, err) < 0)
		return -1;
	return count < n->max ? enter(a, node, count, parent, err) : 0;
}

static int
follow(struct automaton *a, uint32_t node, uint32_t frame,
    struct pico_err *err)
{
	const struct node *n = &a->g->node[node];
	struct frame f;

	switch (n->kind) {
	case N_SPLIT:
		if (add(a, n->to, frame, err) < 0)
			return -1;
		return add(a, n->next, frame, err);
	case N_CALL:
		/* the last one of a rule need not come back to it */
		if (a->g->node[n->next].kind == N_RETURN)
			return add(a, n->to, frame, err);
		return enter(a, node, 0, frame, err);
	case N_REPEAT:
		return again(a, node, 0, frame, err);
	case N_RETURN:
		f = a->frame[frame];
		if (frame == 0) {
			a->can_end = true;
			return 0;
		}
		if (a->g->node[f.node].kind == N_REPEAT)
			return again(a, f.node, f.count + 1, f.parent, err);
		return add(a, a->g->node[f.node].next, f.parent, err);
	default:
		return 0;
	}
}

static int
compare(const void *x, const void *y)
{
	const uint64_t *a = x, *b = y;

	return *a < *b ? -1 : *a > *b;
}

/* Empties the table of ways. One that once had to be large is not wiped for a
   few. */
static void
unsee(struct automaton *a)
{
	size_t i, k;

	if (a->seen == NULL)
		return;
	if (a->n_work > a->seen_mask / 16) {
		(void)memset(a->seen, 0, (a->seen_mask + 1) *
		    sizeof *a->seen);
		return;
	}
	for (i = 0; i < a->n_work; i++) {
		k = mix(0, a->work[i]) & a->seen_mask;
		for (; a->seen[k] != 0; k = (k + 1) & a->seen_mask)
			a->seen[k] = 0;
	}
}

/* The state of the first n pairs in work, which are sorted; 0 without
   memory. */
static uint32_t
state_of(struct automaton *a, size_t n, struct pico_err *err)
{
	const struct pico_grammar *g = a->g;
	uint32_t i, cost = a->can_end ? 0 : NEVER;
	size_t k, steps;

	if (n == 0 && !a->can_end)
		return STATE_DEAD;
	if (table_room(a, &a->states, hash_state, err) < 0)
		return 0;
	k = hash_pairs(a->work, n, a->can_end) & a->states.mask;
	for (; (i = a->states.slot[k]) != 0; k = (k + 1) & a->states.mask)
		if (a->state[i].n == n && (a->state[i].cost == 0) ==
		    a->can_end && memcmp(a->pair + a->state[i].first, a->work,
		    n * sizeof *a->work) == 0)
			return i;
	steps = (a->n_states + 1) * g->n_classes;
	if (automaton_bytes(a) > BYTES_MAX)
		return (void)fail(err, "grammar needs more than %zu bytes to "
		    "read a text", BYTES_MAX), 0;
	if (mem_grow(&a->state, &a->cap_states, a->n_states + 1,
	    sizeof *a->state, "states of a grammar", err) < 0 ||
	    mem_grow(&a->pair, &a->cap_pairs, a->n_pairs + n + 1,
	    sizeof *a->pair, "states of a grammar", err) < 0 ||
	    mem_grow(&a->step, &a->cap_steps, steps, sizeof *a->step,
	    "steps of a grammar", err) < 0)
		return 0;
	i = (uint32_t)a->n_states++;
	(void)memset(a->step + i * (size_t)g->n_classes, 0,
	    g->n_classes * sizeof *a->step);
	for (steps = 0; steps < n; steps++) {
		uint64_t pair = a->work[steps];

		a->pair[a->n_pairs + steps] = pair;
		cost = MIN(cost, cost_add(g->cost[pair >> 32],
		    a->frame[(uint32_t)pair].cost));
	}
	a->state[i] = (struct state){ a->n_pairs, (uint32_t)n, cost, NULL };
	a->n_pairs += n;
	a->states.slot[k] = i;
	a->states.n++;
	return i;
}

/* Follows the ways in work to bytes: their state; 0 if that fails. */
static uint32_t
close_over(struct automaton *a, bool ok, struct pico_err *err)
{
	size_t i, n = 0;
	uint32_t s = 0;

	for (i = 0; ok && i < a->n_work; i++)
		ok = follow(a, (uint32_t)(a->work[i] >> 32),
		    (uint32_t)a->work[i], err) == 0;
	unsee(a);
	for (i = 0; i < a->n_work; i++)
		if (a->g->node[a->work[i] >> 32].kind == N_BYTE)
			a->work[n++] = a->work[i];
	if (ok) {
		qsort(a->work, n, sizeof *a->work, compare);
		s = state_of(a, n, err);
	}
	a->n_work = 0;
	a->can_end = false;
	return s;
}

/* ---- from outside ---- */

uint32_t
automaton_start(struct automaton *a, struct pico_err *err)
{
	return close_over(a, add(a, a->g->root, 0, err) == 0, err);
}

uint32_t
automaton_step(struct automaton *a, uint32_t state, unsigned char byte,
    struct pico_err *err)
{
	const struct pico_grammar *g = a->g;
	size_t at = state * (size_t)g->n_classes + g->class_of[byte], i;
	uint32_t next = a->step[at];
	bool ok = true;

	if (next != 0)
		return next;
	for (i = 0; ok && i < a->state[state].n; i++) {
		uint64_t pair = a->pair[a->state[state].first + i];
		const struct node *n = &g->node[pair >> 32];

		if (set_has(&g->set[n->to], byte))
			ok = add(a, n->next, (uint32_t)pair, err) == 0;
	}
	next = close_over(a, ok, err);
	a->step[at] = next;
	return next;
}

bool
automaton_can_end(const struct automaton *a, uint32_t state)
{
	return a->state[state].cost == 0;
}

uint32_t
automaton_cost(const struct automaton *a, uint32_t state)
{
	return a->state[state].cost;
}

struct byte_set
automaton_next(const struct automaton *a, uint32_t state)
{
	struct byte_set all = {{0}};
	uint32_t i;
	int k;

	for (i = 0; i < a->state[state].n; i++) {
		uint64_t pair = a->pair[a->state[state].first + i];
		const struct byte_set *s =
		    &a->g->set[a->g->node[pair >> 32].to];

		for (k = 0; k < 4; k++)
			all.bits[k] |= s->bits[k];
	}
	return all;
}

void **
automaton_mark(struct automaton *a, uint32_t state)
{
	return &a->state[state].mark;
}

uint32_t
automaton_n_states(const struct automaton *a)
{
	return (uint32_t)a->n_states;
}

size_t
automaton_bytes(const struct automaton *a)
{
	return a->n_frames * sizeof *a->frame + a->n_pairs * sizeof *a->pair +
	    a->n_states * (sizeof *a->state + a->g->n_classes *
	    sizeof *a->step) + (a->frames.mask + a->states.mask) *
	    sizeof *a->frames.slot;
}

/* The state and the frame that every automaton has. */
static int
make_first(struct automaton *a, struct pico_err *err)
{
	if (mem_grow(&a->frame, &a->cap_frames, 1, sizeof *a->frame,
	    "stacks of a grammar", err) < 0 ||
	    mem_grow(&a->state, &a->cap_states, 2, sizeof *a->state,
	    "states of a grammar", err) < 0 ||
	    mem_grow(&a->step, &a->cap_steps, 2 * (size_t)a->g->n_classes,
	    sizeof *a->step, "steps of a grammar", err) < 0)
		return -1;
	a->frame[0] = (struct frame){0};
	a->n_frames = 1;
	a->state[0] = (struct state){ .cost = NEVER };
	a->state[STATE_DEAD] = (struct state){ .cost = NEVER };
	a->n_states = 2;
	return 0;
}

struct automaton *
automaton_new(const struct pico_grammar *g, struct pico_err *err)
{
	struct automaton *a = mem_new(1, sizeof *a, "grammar", err);
	uint32_t i;

	if (a == NULL)
		return NULL;
	a->g = g;
	if (make_first(a, err) < 0) {
		automaton_free(a);
		return NULL;
	}
	for (i = 0; i < 2 * g->n_classes; i++)
		a->step[i] = STATE_DEAD;
	return a;
}

static void
empty(struct automaton *a)
{
	free(a->frame);
	free(a->frames.slot);
	free(a->pair);
	free(a->state);
	free(a->states.slot);
	free(a->step);
	free(a->work);
	free(a->seen);
}

void
automaton_free(struct automaton *a)
{
	if (a == NULL)
		return;
	empty(a);
	free(a);
}

/* The frames of `old` that are marked in new_of[] (by anything but 0), in `a`;
   their numbers there are put in. Parents are older, so have lower ones. */
static int
copy_frames(struct automaton *a, const struct automaton *old,
    uint32_t *new_of, struct pico_err *err)
{
	size_t i;

	for (i = old->n_frames; i-- > 1; )
		if (new_of[i] != 0)
			new_of[old->frame[i].parent] = 1;
	new_of[0] = 0;
	for (i = 1; i < old->n_frames; i++) {
		const struct frame *f = &old->frame[i];

		if (new_of[i] != 0 && (new_of[i] = frame_of(a, f->node,
		    f->count, new_of[f->parent], err)) == 0)
			return -1;
	}
	return 0;
}

int
automaton_forget(struct automaton *a, uint32_t **keep, size_t n,
    struct pico_err *err)
{
	struct automaton *b = automaton_new(a->g, err);
	uint32_t *new_of = mem_new(a->n_frames, sizeof *new_of,
	    "stacks of a grammar", err);
	const uint64_t *pair;
	size_t i, k;
	int r = -1;

	if (b == NULL || new_of == NULL)
		goto out;
	for (i = 0; i < n; i++)
		for (k = 0; k < a->state[*keep[i]].n; k++)
			new_of[(uint32_t)a->pair[a->state[*keep[i]].first +
			    k]] = 1;
	if (copy_frames(b, a, new_of, err) < 0)
		goto out;
	for (i = 0; i < n; i++) {
		const struct state *s = &a->state[*keep[i]];

		if (*keep[i] == STATE_DEAD)
			continue;
		pair = a->pair + s->first;
		for (k = 0; k < s->n; k++)
			if (add(b, (int32_t)(pair[k] >> 32),
			    new_of[(uint32_t)pair[k]], err) < 0)
				goto out;
		b->can_end = s->cost == 0;
		*keep[i] = close_over(b, true, err);
		if (*keep[i] == 0)
			goto out;
	}
	empty(a);
	*a = *b;
	free(b);
	b = NULL;
	r = 0;
out:
	automaton_free(b);
	free(new_of);
	return r;
}
