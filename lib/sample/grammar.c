/* SPDX-License-Identifier: MIT */
/* The checked form of a grammar: nodes, sets of characters, what costs what. */
#include "grammar.h"

#define NODES_MAX (1u << 20)
#define SETS_MAX (1u << 16)

void
pico_grammar_free(struct pico_grammar *g)
{
	if (g == NULL)
		return;
	free(g->node);
	free(g->set);
	free(g->cost);
	free(g);
}

int32_t
grammar_node(struct pico_grammar *g, enum node_kind kind, struct pico_err *err)
{
	if (g->n_nodes >= NODES_MAX)
		return fail(err, "grammar is too large: more than %u parts",
		    NODES_MAX);
	if (mem_grow(&g->node, &g->cap_nodes, g->n_nodes + 1, sizeof *g->node,
	    "grammar", err) < 0)
		return -1;
	g->node[g->n_nodes] = (struct node){ .kind = (uint8_t)kind,
	    .next = -1, .to = -1 };
	return (int32_t)g->n_nodes++;
}

int32_t
grammar_byte(struct pico_grammar *g, const struct byte_set *set, int32_t next,
    struct pico_err *err)
{
	int32_t n = grammar_node(g, N_BYTE, err);
	size_t i, from = g->n_sets > 512 ? g->n_sets - 512 : 0;

	if (n < 0)
		return -1;
	/* one that was made of late may be the same */
	for (i = from; i < g->n_sets; i++)
		if (memcmp(&g->set[i], set, sizeof *set) == 0)
			break;
	if (i == g->n_sets) {
		if (i >= SETS_MAX)
			return fail(err, "grammar is too large: more than %u "
			    "sets", SETS_MAX);
		if (mem_grow(&g->set, &g->cap_sets, i + 1, sizeof *g->set,
		    "sets of bytes", err) < 0)
			return -1;
		g->set[g->n_sets++] = *set;
	}
	g->node[n].to = (int32_t)i;
	g->node[n].next = next;
	return n;
}

/* ---- sets of characters ---- */

static void
set_add(struct byte_set *s, unsigned lo, unsigned hi)
{
	for (; lo <= hi; lo++)
		s->bits[lo >> 6] |= (uint64_t)1 << (lo & 63);
}

static int
encode(uint32_t cp, unsigned char *out)
{
	int len = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4, i;
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (i = len - 1; i > 0; i--, cp >>= 6)
		out[i] = (unsigned char)(0x80 | (cp & 0x3f));
	out[0] = (unsigned char)(lead[len] | cp);
	return len;
}

/* The ways into a set: each first byte, with what has to follow it. */
struct ways {
	struct way {
		struct byte_set set;
		int32_t next;
	} *v;
	size_t n, cap;
};

/* Adds characters whose encodings are all combinations of the bytes between
   those of lo and those of hi. */
static int
add_product(struct pico_grammar *g, struct ways *w, uint32_t lo, uint32_t hi,
    size_t first_node, int32_t exit, struct pico_err *err)
{
	unsigned char a[4], b[4];
	int len = encode(lo, a), i;
	int32_t next = exit;
	struct byte_set set;
	size_t k;

	(void)encode(hi, b);
	for (i = len - 1; i > 0; i--) {
		set = (struct byte_set){{0}};
		set_add(&set, a[i], b[i]);
		/* tails are shared: 80..bf occurs in every one of them */
		k = g->n_nodes - MIN(g->n_nodes - first_node, (size_t)256);
		for (; k < g->n_nodes; k++)
			if (g->node[k].next == next && memcmp(&g->set[
			    g->node[k].to], &set, sizeof set) == 0)
				break;
		next = k < g->n_nodes ? (int32_t)k :
		    grammar_byte(g, &set, next, err);
		if (next < 0)
			return -1;
	}
	k = w->n - MIN(w->n, (size_t)256);
	while (k < w->n && w->v[k].next != next)
		k++;
	if (k == w->n) {
		if (mem_grow(&w->v, &w->cap, k + 1, sizeof *w->v,
		    "set of characters", err) < 0)
			return -1;
		w->v[w->n++] = (struct way){ .next = next };
	}
	set_add(&w->v[k].set, a[0], b[0]);
	return 0;
}

/* The last character of the first part of lo..hi, or hi if that is a product. */
static uint32_t
cut_once(uint32_t lo, uint32_t hi)
{
	static const uint32_t edge[] = { 0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff };
	uint32_t m;
	size_t i;

	for (i = 0; i < COUNT(edge); i++)
		if (lo <= edge[i] && edge[i] < hi)
			return edge[i];
	if (lo < 0x80)
		return hi;
	for (m = 0x3f; m < 0x1fffff && (lo | m) != (hi | m); m = m << 6 | 63) {
		if ((lo & m) != 0)
			return lo | m;
		if ((hi & m) != m)
			return (hi & ~m) - 1;
	}
	return hi;
}

/* The last character of the first product in lo..hi. */
static uint32_t
cut_range(uint32_t lo, uint32_t hi)
{
	uint32_t last;

	do {
		last = hi;
		hi = cut_once(lo, hi);
	} while (hi != last);
	return hi;
}

int32_t
grammar_set(struct pico_grammar *g, const uint32_t *range, size_t n,
    int32_t exit, struct pico_err *err)
{
	size_t i, first_node = g->n_nodes;
	struct ways w = {0};
	int32_t start = -1, way, split;
	uint32_t lo, hi;

	for (i = 0; i < n; i++)
		for (lo = range[2 * i]; lo <= range[2 * i + 1]; lo = hi + 1) {
			hi = cut_range(lo, range[2 * i + 1]);
			if (lo >= 0xd800 && lo < 0xe000)
				continue;	/* no characters */
			if (add_product(g, &w, lo, hi, first_node, exit,
			    err) < 0)
				goto out;
		}
	for (i = 0; i < w.n; i++) {
		way = grammar_byte(g, &w.v[i].set, w.v[i].next, err);
		split = i > 0 && way >= 0 ? grammar_node(g, N_SPLIT, err) : way;
		if (split < 0) {
			start = -1;
			break;
		}
		if (i > 0) {
			g->node[split].next = start;
			g->node[split].to = way;
		}
		start = split;
	}
out:
	if (start < 0 && w.n == 0)
		(void)fail(err, "set without characters");
	free(w.v);
	return start;
}

/* ---- costs ---- */

/* A heap of nodes, the one of the lowest cost on top. */
struct heap {
	struct heap_item {
		uint32_t cost;
		int32_t node;
	} *v;
	size_t n;
};

static void
heap_push(struct heap *h, uint32_t cost, int32_t node)
{
	size_t i = h->n++, up;

	for (; i > 0 && h->v[up = (i - 1) / 2].cost > cost; i = up)
		h->v[i] = h->v[up];
	h->v[i] = (struct heap_item){ cost, node };
}

static struct heap_item
heap_pop(struct heap *h)
{
	struct heap_item top = h->v[0], last = h->v[--h->n];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < h->n) {
		if (k + 1 < h->n && h->v[k + 1].cost < h->v[k].cost)
			k++;
		if (h->v[k].cost >= last.cost)
			break;
		h->v[i] = h->v[k];
		i = k;
	}
	h->v[i] = last;
	return top;
}

/* What a node costs, as far as the costs of others are known. */
static uint32_t
cost_of(const struct pico_grammar *g, const struct node *n)
{
	uint32_t next, to, i = 0, all = 0;

	if (n->kind == N_RETURN)
		return 0;
	next = n->next < 0 ? NEVER : g->cost[n->next];
	to = n->kind == N_BYTE ? 1 : g->cost[n->to];
	switch (n->kind) {
	case N_SPLIT:
		return MIN(next, to);
	case N_REPEAT:
		if (n->min == 0 || to == 0)
			return next;
		if (to == NEVER || next == NEVER)
			return NEVER;
		for (; i < 32; i++)	/* min * to, and no more than fits */
			if (n->min >> i & 1)
				all = cost_add(all, (uint32_t)MIN((uint64_t)to
				    << i, NEVER - 1));
		return cost_add(all, next);
	default:
		return cost_add(next, to);
	}
}

/*
 * The least number of bytes from each node to the end of its rule, nearest
 * first (Knuth 1977: Dijkstra's algorithm for grammars).
 */
static int
work_out_costs(struct pico_grammar *g, struct pico_err *err)
{
	size_t n = g->n_nodes, i, k;
	uint32_t *first = mem_new(n + 2, sizeof *first, "grammar", err);
	int32_t *user = mem_new(2 * n, sizeof *user, "grammar", err);
	struct heap h = { mem_new(3 * n + 1, sizeof *h.v, "grammar", err), 0 };
	int pass;

	g->cost = mem_new(n, sizeof *g->cost, "grammar", err);
	if (first == NULL || user == NULL || h.v == NULL || g->cost == NULL) {
		free(first);
		free(user);
		free(h.v);
		return -1;
	}
	/* user[first[i]..first[i + 1]]: the nodes whose cost depends on i */
	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < n; i++) {
			const struct node *d = &g->node[i];

			if (d->kind == N_RETURN || d->kind == N_EMPTY)
				continue;
			if (d->next >= 0 && pass == 0)
				first[d->next + 2]++;
			else if (d->next >= 0)
				user[first[d->next + 1]++] = (int32_t)i;
			if (d->kind != N_BYTE && pass == 0)
				first[d->to + 2]++;
			else if (d->kind != N_BYTE)
				user[first[d->to + 1]++] = (int32_t)i;
		}
		for (i = 2; pass == 0 && i < n + 2; i++)
			first[i] += first[i - 1];
	}
	for (i = 0; i < n; i++) {
		g->cost[i] = NEVER;
		if (g->node[i].kind == N_RETURN)
			heap_push(&h, 0, (int32_t)i);
	}
	while (h.n > 0) {
		struct heap_item top = heap_pop(&h);

		if (g->cost[top.node] <= top.cost)
			continue;
		g->cost[top.node] = top.cost;
		for (k = first[top.node]; k < first[top.node + 1]; k++) {
			uint32_t c = cost_of(g, &g->node[user[k]]);

			if (c < g->cost[user[k]])
				heap_push(&h, c, user[k]);
		}
	}
	free(first);
	free(user);
	free(h.v);
	return 0;
}

/* ---- left recursion ---- */

/* Where a node leads without a byte: up to three nodes. */
static int
silent(const struct pico_grammar *g, int32_t i, int32_t to[2])
{
	const struct node *n = &g->node[i];
	int k = 0;

	if (n->kind != N_SPLIT && n->kind != N_CALL && n->kind != N_REPEAT)
		return 0;
	to[k++] = n->to;
	if (n->kind == N_SPLIT || g->cost[n->to] == 0 ||
	    (n->kind == N_REPEAT && n->min == 0))
		to[k++] = n->next;
	return k;
}

/*
 * Strongly connected components of the silent steps (Tarjan 1972); a call inside
 * one of them returns to itself without having read anything.
 */
int32_t
grammar_left_recursion(const struct pico_grammar *g, struct pico_err *err)
{
	size_t n = g->n_nodes, depth = 0, n_open = 0, i;
	struct visit {
		uint32_t order, low;	/* order 0: not seen */
		uint32_t part;		/* 0: not known yet */
		int32_t up;		/* where it was reached from */
		int way;
	} *v = mem_new(n, sizeof *v, "grammar", err);
	int32_t *open = mem_new(n, sizeof *open, "grammar", err);
	uint32_t order = 0, parts = 0;
	int32_t at, to[2], found = -1;

	if (v == NULL || open == NULL) {
		free(v);
		free(open);
		return -2;
	}
	for (i = 0; i < n; i++) {
		if (v[i].order != 0 || g->node[i].kind == N_EMPTY)
			continue;
		at = (int32_t)i;
		v[at].up = -1;
		for (depth = 1; depth > 0; ) {
			if (v[at].order == 0) {
				v[at].order = v[at].low = ++order;
				open[n_open++] = at;
			}
			if (v[at].way < silent(g, at, to)) {
				int32_t t = to[v[at].way++];

				if (v[t].order == 0) {
					v[t].up = at;
					at = t;
					depth++;
				} else if (v[t].part == 0) {
					v[at].low = MIN(v[at].low, v[t].order);
				}
				continue;
			}
			if (v[at].low == v[at].order) {
				parts++;
				do
					v[open[--n_open]].part = parts;
				while (open[n_open] != at);
			}
			if (--depth > 0) {
				int32_t up = v[at].up;

				v[up].low = MIN(v[up].low, v[at].low);
				at = up;
			}
		}
	}
	for (i = 0; i < n && found < 0; i++)
		if (g->node[i].kind == N_CALL &&
		    v[i].part == v[g->node[i].to].part)
			found = (int32_t)i;
	free(v);
	free(open);
	return found;
}

/* ---- the end of parsing ---- */

/* The node behind the empty ones, which then are skipped for good. */
static int32_t
behind(struct pico_grammar *g, int32_t i)
{
	int32_t end = i, next;

	while (end >= 0 && g->node[end].kind == N_EMPTY)
		end = g->node[end].next;
	for (; i != end; i = next) {
		next = g->node[i].next;
		g->node[i].next = end;
	}
	return end;
}

/* Numbers the bytes such that those which all sets treat alike have the same
   number. */
static void
classify(struct pico_grammar *g)
{
	uint16_t again[256][2];		/* new number, by the old one and
					   by whether the set has it */
	uint32_t n = 1;
	size_t i;
	int b;

	(void)memset(g->class_of, 0, sizeof g->class_of);
	for (i = 0; i < g->n_sets && n < 256; i++) {
		(void)memset(again, 0xff, sizeof again);
		n = 0;
		for (b = 0; b < 256; b++) {
			uint16_t *c = &again[g->class_of[b]][set_has(
			    &g->set[i], (unsigned char)b)];

			if (*c == 0xffff)
				*c = (uint16_t)n++;
			g->class_of[b] = (uint8_t)*c;
		}
	}
	g->n_classes = n;
}

int
grammar_finish(struct pico_grammar *g, struct pico_err *err)
{
	size_t i;

	for (i = 0; i < g->n_nodes; i++) {
		struct node *n = &g->node[i];

		if (n->kind == N_EMPTY || n->kind == N_RETURN)
			continue;
		n->next = behind(g, n->next);
		if (n->kind != N_BYTE)
			n->to = behind(g, n->to);
	}
	g->root = behind(g, g->root);
	classify(g);
	return work_out_costs(g, err);
}
