/* SPDX-License-Identifier: MIT */
/*
 * Which tokens a grammar allows: a tree of the texts of all tokens is walked
 * together with the automaton, so that what many tokens begin with is read once.
 */
#include "allow.h"

/* The nodes in the order of a walk; each is a byte at some depth. */
struct tree_node {
	uint32_t skip;		/* the next node that is not below this one */
	uint32_t token;		/* the first in id[] that ends here; they end
				   where those of the next node begin */
	uint32_t depth;
	unsigned char byte;
};

struct tree {
	struct tree_node *node;	/* n, and one behind the last */
	size_t n, cap;
	int32_t *id;		/* the tokens in the order of their texts */
	uint32_t *state;	/* of the walk, by depth */
};

static int
compare(const void *a, const void *b)
{
	const struct token_text *x = a, *y = b;
	int c = pico_str_compare(x->text, y->text);

	return c != 0 ? c : x->id < y->id ? -1 : x->id > y->id;
}

/* Bytes that two texts have in common at their beginning. */
static size_t
common(struct pico_str a, struct pico_str b)
{
	size_t i = 0;

	while (i < MIN(a.n, b.n) && a.p[i] == b.p[i])
		i++;
	return i;
}

static int
build(struct tree *t, const struct token_text *v, size_t n,
    struct pico_err *err)
{
	struct pico_str last = { "", 0 };
	size_t i, k, depth = 0, max = 0;
	uint32_t *open;		/* by depth: the node above which is not
				   finished */

	for (i = 0; i < n; i++)
		max = MAX(max, v[i].text.n);
	t->id = mem_new(n + 1, sizeof *t->id, "tree of tokens", err);
	t->state = mem_new(max + 2, sizeof *t->state, "tree of tokens", err);
	open = mem_new(max + 2, sizeof *open, "tree of tokens", err);
	if (t->id == NULL || t->state == NULL || open == NULL) {
		free(open);
		return -1;
	}
	for (i = 0; i <= n; i++) {
		struct pico_str s = i < n ? v[i].text :
		    (struct pico_str){ "", 0 };

		k = common(last, s);
		for (; depth > k; depth--)
			t->node[open[depth]].skip = (uint32_t)t->n;
		if (mem_grow(&t->node, &t->cap, t->n + s.n - k + 1,
		    sizeof *t->node, "tree of tokens", err) < 0) {
			free(open);
			return -1;
		}
		while (depth < s.n) {
			open[depth + 1] = (uint32_t)t->n;
			t->node[t->n++] = (struct tree_node){ .depth =
			    (uint32_t)depth, .byte = (unsigned char)s.p[depth],
			    .token = (uint32_t)i };
			depth++;
		}
		if (i < n)
			t->id[i] = v[i].id;
		last = s;
	}
	t->node[t->n] = (struct tree_node){ .token = (uint32_t)n };
	free(open);
	return 0;
}

struct tree *
tree_new(struct token_text *v, size_t n, struct pico_err *err)
{
	struct tree *t = mem_new(1, sizeof *t, "tree of tokens", err);
	size_t i, kept = 0;

	if (t == NULL)
		return NULL;
	for (i = 0; i < n; i++)
		if (v[i].text.n > 0)
			v[kept++] = v[i];
	qsort(v, kept, sizeof *v, compare);
	if (build(t, v, kept, err) < 0) {
		tree_free(t);
		return NULL;
	}
	return t;
}

void
tree_free(struct tree *t)
{
	if (t == NULL)
		return;
	free(t->node);
	free(t->id);
	free(t->state);
	free(t);
}

int
tree_allow(struct tree *t, struct automaton *a, uint32_t state, uint64_t *out,
    struct pico_err *err)
{
	const struct tree_node *n;
	uint32_t s, k;
	size_t i = 0;

	t->state[0] = state;
	while (i < t->n) {
		n = &t->node[i];
		s = automaton_step(a, t->state[n->depth], n->byte, err);
		if (s == 0)
			return -1;
		if (s == STATE_DEAD) {
			i = n->skip;
			continue;
		}
		t->state[n->depth + 1] = s;
		for (k = n->token; k < n[1].token; k++)
			out[t->id[k] >> 6] |= (uint64_t)1 << (t->id[k] & 63);
		i++;
	}
	return 0;
}
