/* SPDX-License-Identifier: MIT */
/* What the files of lib/text share. */
#ifndef PICO_TEXT_H
#define PICO_TEXT_H

#include "unicode.h"

/* U+2581, which stands for a space in SentencePiece vocabularies. */
#define SPACE_MARK "\xe2\x96\x81"
#define SPACE_MARK_LEN 3

/* ---- pre-tokenizers (pre.c) ---- */

enum {
	PRE_IGNORE_MERGES = 1,	/* a piece that is a token is not merged */
	PRE_ADD_BOS = 2,	/* add_bos, if the file does not say */
	PRE_CLEAN = 4,		/* clean_spaces */
	PRE_ADD_SEP = 8,	/* add_sep, if the file does not say */
	PRE_MASK_LSTRIP = 16	/* <mask> takes the white space before it */
};

struct pre {
	const char *name;	/* value of tokenizer.ggml.pre */
	const struct splitter *splitter;
	unsigned flags;
};

/* NULL if there is none of that name. */
const struct pre *pre_find(struct pico_str name);
/* Cuts n characters into pieces: start[i] becomes true where one begins. */
void pre_split(const struct pre *pre, const uint32_t *cp, const uint16_t *set,
    size_t n, bool *start);

/* ---- the vocabulary (vocab.c) ---- */

enum vocab_kind { VOCAB_NONE, VOCAB_SPM, VOCAB_BPE };

struct pico_vocab {
	enum vocab_kind kind;
	struct pico_str kind_name;	/* value of tokenizer.ggml.model */
	int32_t n;
	const struct pico_kv *tokens, *scores, *merges;	/* NULL: none */
	uint32_t *at;		/* n positions for pico_kv_str_next() */
	uint8_t *type;		/* n times enum pico_token_type */
	size_t text_max;	/* bytes of the longest text */
	const struct pre *pre;	/* VOCAB_BPE only */
	struct pico_special special;
	int32_t eog[64];	/* ascending */
	size_t n_eog;
	int32_t frame[5];	/* control tokens that are printed always */
	size_t n_frame;
	bool rstrip;		/* Phi-3: special tokens take the white space
				   after them */
	const char *note;
};

/* The byte-to-character alphabet of byte-level BPE: printable bytes stand for
   themselves, the other 68 are U+0100 and following in order. */
uint32_t byte_to_char(uint8_t byte);
/* The inverse, or -1. */
int char_to_byte(uint32_t cp);
/* The byte of a text "<0xHH>", or -1. */
int byte_token_value(struct pico_str text);

/* ---- text to id (index.c) ---- */

/* The lowest id of each text; ids from n on are texts that are no tokens but
   occur in merges. */
struct index {
	const struct pico_vocab *v;
	struct index_slot {
		uint32_t hash;
		int32_t id;	/* -1: free */
	} *slot;
	size_t mask, used;
	struct pico_str *extra;	/* texts of the ids from v->n on */
	size_t n_extra, cap_extra;
};

int index_init(struct index *x, const struct pico_vocab *v,
    struct pico_err *err);
void index_free(struct index *x);
/* -1 if there is none. */
int32_t index_find(const struct index *x, const char *p, size_t n);
/* Finds or adds; the text is copied if it is new. -1 without memory. */
int32_t index_intern(struct index *x, const char *p, size_t n,
    struct pico_err *err);

/* ---- special tokens in text (special.c) ---- */

struct special {
	struct pico_str text;
	int32_t id;
	int32_t shorter;	/* the longest one that this one begins with */
	bool lstrip, rstrip;	/* takes the white space before, after */
	bool frame;		/* never made of content */
};

/* Sorted by text; those that begin with byte b are first[b]..first[b + 1]. */
struct special_set {
	struct special *v;
	size_t n;
	uint32_t first[257];
};

/* An occurrence that counts. */
struct special_hit {
	size_t start, end;	/* with the white space it takes */
	const struct special *what;
};

struct special_scan {
	const struct special_set *set;
	const char *text;
	const uint8_t *content;	/* not 0: no frame; NULL: all is frame. To be
				   set behind special_begin() */
	size_t n;
	size_t pos;		/* where to look next */
	struct special_hit *hit;	/* those of the last cluster */
	size_t n_hit, cap_hit, next_hit;
	struct special_entry *entry;
	size_t cap_entry;
	uint32_t *live;
	size_t cap_live;
	bool *taken;
	size_t cap_taken;
};

/* control: control and unknown tokens too, not only user-defined ones. */
int special_set_init(struct special_set *s, const struct pico_vocab *v,
    bool control, struct pico_err *err);
void special_set_free(struct special_set *s);
/* Begins a text; the buffers of a scan are used again. */
void special_begin(struct special_scan *c, const struct special_set *s,
    const char *text, size_t n);
/* Next occurrence, left to right: 1, or 0, or -1. */
int special_next(struct special_scan *c, struct special_hit *hit,
    struct pico_err *err);
void special_scan_free(struct special_scan *c);

/* ---- merging (bpe.c) ---- */

/* One symbol of the text being merged. */
struct symbol {
	uint32_t at, len;	/* its bytes in the piece; len 0: gone */
	int32_t prev, next;	/* -1: none */
	int32_t id;		/* -1: not known */
};

/* A merge that may be done: the one with the lowest key first, then the
   leftmost. */
struct candidate {
	uint32_t key, left;
	uint32_t len;		/* of both together */
	int32_t id;		/* of the result */
};

struct pair {
	uint32_t left, right, rank;	/* rank NO_RANK: free slot */
	int32_t joined;
};
#define NO_RANK UINT32_MAX

struct bpe {
	const struct index *index;
	size_t text_max;	/* bytes of the longest token */
	uint32_t *key;		/* VOCAB_SPM: of each token, from its score */
	struct pair *pair;	/* VOCAB_BPE: hash table of the merges */
	size_t pair_mask;
	/* the piece */
	char *text;
	size_t n_text, cap_text;
	struct symbol *sym;
	size_t n_sym, cap_sym;
	struct candidate *heap;
	size_t n_heap, cap_heap;
};

/* VOCAB_BPE adds the texts of the merges to the index. */
int bpe_init(struct bpe *b, struct index *x, struct pico_err *err);
void bpe_free(struct bpe *b);
/* Makes room for a piece of n bytes and as many symbols, and empties it. */
int bpe_begin(struct bpe *b, size_t n, struct pico_err *err);
/* Appends a symbol whose bytes have been written to text. */
void bpe_push(struct bpe *b, size_t len, int32_t id);
/* Merges what can be merged. */
int bpe_merge(struct bpe *b, struct pico_err *err);

#endif
