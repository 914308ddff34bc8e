/* SPDX-License-Identifier: MIT */
/*
 * "rwkv": from left to right, the longest token that the text goes on with.
 * Control tokens are no exception: their texts are in the same tree.
 */
#include <stdlib.h>
#include <string.h>

#include "text.h"

struct rwkv {
	struct trie trie;
};

static int
rwkv_run(void *state, struct job *j, size_t end, bool open)
{
	const struct rwkv *s = state;

	while (j->used < end) {
		size_t i = j->used, to = 0;
		uint32_t node = 0;
		int32_t id = -1;

		while (i < end && (node = trie_step(&s->trie, node,
		    (unsigned char)j->text[i])) != 0) {
			i++;
			if (s->trie.node[node].id >= 0 &&
			    job_may_emit(j, s->trie.node[node].id, j->used,
			    i)) {
				id = s->trie.node[node].id;
				to = i;
			}
		}
		if (open && i == end)	/* a longer one may be coming */
			break;
		if (id >= 0) {
			j->used = to;
			if (job_emit(j, id) < 0)
				return -1;
			continue;
		}
		j->used++;
		if (job_emit_unknown(j, j->used - 1,
		    (unsigned char)j->text[j->used - 1]) < 0)
			return -1;
	}
	return 0;
}

/* ---- escapes ---- */

/* The byte that \ and what follows it stand for; *len of their bytes. */
static char
escaped(const char *p, size_t n, size_t *len)
{
	int byte;

	*len = 2;
	switch (p[1]) {
	case 't': return '\t';
	case 'n': return '\n';
	case 'r': return '\r';
	case 'x':
		byte = n < 4 ? -1 : hex_byte(p + 2);
		if (byte < 0)
			break;
		*len = 4;
		return (char)byte;
	}
	return p[1];
}

size_t
rwkv_unescape(struct pico_str text, char *out)
{
	size_t i, len, n = 0;

	for (i = 0; i < text.n; i += len) {
		len = 1;
		out[n++] = text.p[i] == '\\' && text.n - i >= 2 ?
		    escaped(text.p + i, text.n - i, &len) : text.p[i];
	}
	return n;
}

/* ---- making one ---- */

static void
rwkv_free(void *state)
{
	struct rwkv *s = state;

	trie_free(&s->trie);
	free(s);
}

static void *
rwkv_make(const struct pico_vocab *v, struct pico_err *err)
{
	struct rwkv *s = mem_new(1, sizeof *s, "tokenizer", err);
	struct trie_text *list = mem_new((uint64_t)v->n, sizeof *list,
	    "tokens", err);
	char *bytes = mem_new(v->tokens->bytes, 1, "tokens", err);
	size_t used = 0;
	int32_t id;

	if (s == NULL || list == NULL || bytes == NULL)
		goto failed;
	for (id = 0; id < v->n; id++) {
		char *p = bytes + used;
		size_t n = rwkv_unescape(pico_vocab_text(v, id), p);

		list[id] = (struct trie_text){ { p, n }, id };
		used += n;
	}
	if (trie_init(&s->trie, list, (size_t)v->n, err) < 0)
		goto failed;
	free(list);
	free(bytes);
	return s;
failed:
	free(list);
	free(bytes);
	if (s != NULL)
		rwkv_free(s);
	return NULL;
}

const struct kind kind_rwkv = { rwkv_make, rwkv_free, rwkv_run };
