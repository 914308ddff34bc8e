/* SPDX-License-Identifier: MIT */
/*
 * A tree of texts. The children of a node stand side by side in the order of
 * their bytes, because the tree is built level by level from the sorted texts.
 */
#include <stdlib.h>
#include <string.h>

#include "text.h"

static int
compare(const void *a, const void *b)
{
	const struct trie_text *x = a, *y = b;
	int c = pico_str_compare(x->text, y->text);

	return c != 0 ? c : x->id < y->id ? -1 : x->id > y->id;
}

/* The texts under a node: lo..hi, which agree in as many bytes as it is deep. */
struct range {
	uint32_t lo, hi;
};

/* Appends the children of a node `depth` bytes deep. */
static int
add_children(struct trie *t, struct range **range, size_t *cap_range,
    const struct trie_text *v, size_t node, size_t depth, struct pico_err *err)
{
	uint32_t i = (*range)[node].lo, hi = (*range)[node].hi;

	while (i < hi && v[i].text.n == depth) {	/* ends here */
		if (depth > 0 && t->node[node].id < 0)
			t->node[node].id = v[i].id;
		i++;
	}
	t->node[node].first = (uint32_t)t->n;
	while (i < hi) {
		uint8_t byte = (uint8_t)v[i].text.p[depth];
		uint32_t lo = i;

		while (i < hi && (uint8_t)v[i].text.p[depth] == byte)
			i++;
		if (mem_grow(&t->node, &t->cap, t->n + 1, sizeof *t->node,
		    "tree of tokens", err) < 0 || mem_grow(range, cap_range,
		    t->n + 1, sizeof **range, "tree of tokens", err) < 0)
			return -1;
		t->node[t->n] = (struct trie_node){ .byte = byte, .id = -1 };
		(*range)[t->n++] = (struct range){ lo, i };
		t->node[node].n++;
	}
	return 0;
}

int
trie_init(struct trie *t, struct trie_text *v, size_t n, struct pico_err *err)
{
	struct range *range = NULL;
	size_t cap_range = 0, node, level_end, depth = 0;

	*t = (struct trie){0};
	qsort(v, n, sizeof *v, compare);
	if (mem_grow(&t->node, &t->cap, 1, sizeof *t->node, "tree of tokens",
	    err) < 0 || mem_grow(&range, &cap_range, 1, sizeof *range,
	    "tree of tokens", err) < 0)
		return -1;
	t->node[0] = (struct trie_node){ .id = -1 };
	range[0] = (struct range){ 0, (uint32_t)n };
	t->n = level_end = 1;
	for (node = 0; node < t->n; node++) {
		if (node == level_end) {
			level_end = t->n;
			depth++;
		}
		if (add_children(t, &range, &cap_range, v, node, depth,
		    err) < 0)
			break;
	}
	free(range);
	return node < t->n ? -1 : 0;
}

void
trie_free(struct trie *t)
{
	free(t->node);
}

uint32_t
trie_step(const struct trie *t, uint32_t node, unsigned char byte)
{
	uint32_t lo = t->node[node].first, hi = lo + t->node[node].n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (t->node[mid].byte < byte)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->node[node].first + t->node[node].n &&
	    t->node[lo].byte == byte ? lo : 0;
}
