/* SPDX-License-Identifier: MIT */
/* What the files of lib/text share. */
#ifndef PICO_TEXT_H
#define PICO_TEXT_H

#include "unicode.h"

/* U+2581, which stands for a space in SentencePiece vocabularies. */
#define SPACE_MARK "\xe2\x96\x81"
#define SPACE_MARK_LEN 3

/* Bytes of a token's text. Tables and buffers are several times as large. */
#define TOKEN_MAX 65535

/* ---- pre-tokenizers (pre.c; their names: pre_names.c) ---- */

/* How text is cut. */
enum split {
	SPLIT_GPT2, SPLIT_DIGIT1, SPLIT_LLAMA3, SPLIT_QWEN2, SPLIT_QWEN35,
	SPLIT_SEED, SPLIT_EXAONEMOE, SPLIT_JAIS2, SPLIT_O200K, SPLIT_TEKKEN,
	SPLIT_YOUTU, SPLIT_KIMI, SPLIT_AYA, SPLIT_SUPERBPE, SPLIT_DS3,
	SPLIT_AFMOE, SPLIT_DSCODER, SPLIT_DSLLM, SPLIT_FALCON, SPLIT_PLAIN,
	SPLIT_BLOOM, SPLIT_VIKING, SPLIT_CHAMELEON
};

enum {
	PRE_IGNORE_MERGES = 1,	/* a piece that is a token is not merged */
	PRE_ADD_BOS = 2,	/* add_bos, if the file does not say */
	PRE_CLEAN = 4,		/* clean_spaces */
	PRE_ADD_SEP = 8,	/* add_sep, if the file does not say */
	PRE_LSTRIP = 16,	/* <mask> takes the white space before it */
	PRE_BY_ID = 32		/* without a list of merges, ids are ranks */
};

struct pre {
	const char *name;	/* value of tokenizer.ggml.pre */
	enum split split;
	unsigned flags;
};

/* NULL if there is none of that name. */
const struct pre *pre_find(struct pico_str name);
/* The name of row i; NULL behind the last. */
const char *pre_name(size_t i);

/* Marks of a position: a piece begins here; some expression matched across it,
   so that the text cannot be read anew from here on. */
enum { PRE_START = 1, PRE_INNER = 2 };

/*
 * Cuts n characters into pieces: mark[i] gets PRE_START where one begins.
 * Returns n; if `open` (more characters follow, which are not known), the last
 * position up to which the pieces are the same whatever follows and from which
 * the rest can be cut by itself; 0 if there is none.
 */
size_t pre_split(const struct pre *pre, const uint32_t *cp,
    const uint16_t *set, size_t n, bool open, uint8_t *mark);

/* ---- the vocabulary (vocab.c) ---- */

enum vocab_kind {
	VOCAB_NONE,
	VOCAB_SPM,		/* "llama": byte pairs by score */
	VOCAB_BPE,		/* "gpt2": byte pairs by a list of merges */
	VOCAB_LINES,		/* "gemma4": the same on characters, by lines */
	VOCAB_WORDPIECE,	/* "bert" */
	VOCAB_UNIGRAM,		/* "t5" */
	VOCAB_RWKV
};

struct pico_vocab {
	enum vocab_kind kind;
	struct pico_str kind_name;	/* value of tokenizer.ggml.model */
	int32_t n;
	const struct pico_kv *tokens, *scores, *merges;	/* NULL: none */
	uint32_t *at;		/* n + 1 positions for pico_kv_str_next() */
	uint8_t *type;		/* n times enum pico_token_type */
	size_t text_max;	/* bytes of the longest text */
	const struct pre *pre;	/* VOCAB_BPE only */
	/* VOCAB_UNIGRAM only */
	const struct pico_kv *charsmap;	/* NULL: none */
	bool merge_spaces;	/* remove_extra_whitespaces */
	/* VOCAB_WORDPIECE only */
	bool lowercase, strip_accents;
	struct pico_special special;
	int32_t eog[64];	/* ascending */
	size_t n_eog;
	int32_t frame[5];	/* control tokens that are printed always */
	size_t n_frame;
	bool space_first;	/* a text gets a space in front */
	bool rstrip;		/* Phi-3: special tokens take the white space
				   after them */
	const char *lstrip;	/* the special token that takes the white space
				   before it; NULL: none does */
	const char *note;
};

/* pico_vocab_text() if there is a vocabulary: a text goes on to where the next
   one begins, so that its bytes are not asked how many they are. */
static inline struct pico_str
vocab_text(const struct pico_vocab *v, int32_t id)
{
	uint32_t at = v->at[id] + v->tokens->wide;

	return (struct pico_str){ (const char *)v->tokens->data + at,
	    v->at[id + 1] - at };
}

/* The byte-to-character alphabet of byte-level BPE: printable bytes stand for
   themselves, the other 68 are U+0100 and following in order. */
uint32_t byte_to_char(uint8_t byte);
/* The inverse, or -1. */
int char_to_byte(uint32_t cp);
/* The value of two hexadecimal digits, or -1. */
int hex_byte(const char *p);
/* The byte of a text "<0xHH>", or -1. */
int byte_token_value(struct pico_str text);
/* Whether a token controls something or ends a generation, so that no words
   may become it. */
bool vocab_is_control(const struct pico_vocab *v, int32_t id);
/* The bytes of an escaped text of VOCAB_RWKV, no more than it has itself. */
size_t rwkv_unescape(struct pico_str text, char *out);

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
/* The same of n texts, faster; at most INDEX_BATCH. */
#define INDEX_BATCH 64
void index_find_all(const struct index *x, const struct pico_str *s, size_t n,
    int32_t *id);
/* Finds or adds; the text is copied if it is new. -1 without memory. */
int32_t index_intern(struct index *x, const char *p, size_t n,
    struct pico_err *err);

/* ---- texts by their first bytes (trie.c) ---- */

struct trie_node {
	uint32_t first;		/* its children: n of them from here on */
	uint16_t n;
	uint8_t byte;		/* that leads to it */
	int32_t id;		/* of the text that ends here; -1: none does */
};

struct trie {
	struct trie_node *node;	/* 0: the root */
	size_t n, cap;
};

struct trie_text {
	struct pico_str text;
	int32_t id;
};

/* Sorts the texts. Empty ones do not count; of equal ones the lowest id does. */
int trie_init(struct trie *t, struct trie_text *v, size_t n,
    struct pico_err *err);
void trie_free(struct trie *t);
/* The child that a byte leads to; 0: none. */
uint32_t trie_step(const struct trie *t, uint32_t node, unsigned char byte);

/* ---- replacement of characters (charsmap.c) ---- */

/* A map as SentencePiece compiles it: a double array over the bytes of what is
   replaced, then the replacements. */
struct charsmap {
	const uint8_t *unit;	/* n of them, 32 bits each; NULL: no map */
	size_t n;
	const char *text;	/* n_text bytes of terminated strings */
	size_t n_text;
};

/* The map of a vocabulary, in place. */
int charsmap_init(struct charsmap *m, const struct pico_vocab *v,
    struct pico_err *err);
/* The longest beginning of p that is replaced, and by what: its length; 0: none
   is. *open: whether n more bytes could have made it longer. */
size_t charsmap_find(const struct charsmap *m, const char *p, size_t n,
    struct pico_str *to, bool *open);

/* ---- special tokens in text (special.c) ---- */

struct special {
	struct pico_str text;
	int32_t id;
	int32_t shorter;	/* the longest one that this one begins with */
	bool lstrip, rstrip;	/* takes the white space before, after */
	bool control;		/* never made of content */
};

/* Sorted by text; those that begin with byte b are first[b]..first[b + 1]. */
struct special_set {
	struct special *v;
	size_t n;
	size_t text_max;	/* bytes of the longest */
	bool lstrip;		/* some take the white space before */
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
	const uint8_t *content;	/* as in struct job; to be set behind
				   special_begin(), and so */
	const uint8_t *framed;
	size_t n;
	bool open;		/* more text follows, which is not known */
	size_t pos;		/* where to look next; after the last hit: up to
				   where there are none, whatever follows */
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
/* Begins a text; the buffers of a scan are used again. open: only occurrences
   that no longer text could change are found. */
void special_begin(struct special_scan *c, const struct special_set *s,
    const char *text, size_t n, bool open);
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
	uint32_t *key;		/* by score: of each token */
	struct pair *pair;	/* by list: hash table of the merges */
	size_t pair_mask;
	/* the piece */
	char *text;
	size_t n_text, cap_text;
	struct symbol *sym;
	size_t n_sym, cap_sym;
	struct candidate *heap;
	size_t n_heap, cap_heap;
};

/* Adds the texts of the merges to the index. */
int bpe_init(struct bpe *b, struct index *x, struct pico_err *err);
void bpe_free(struct bpe *b);
/* Makes room for a piece of n bytes and n_sym symbols, and empties it. */
int bpe_begin(struct bpe *b, size_t n, size_t n_sym, struct pico_err *err);
/* Appends a symbol whose bytes have been written to text. */
void bpe_push(struct bpe *b, size_t len, int32_t id);
/* Merges what can be merged. */
int bpe_merge(struct bpe *b, struct pico_err *err);

/* ---- kinds of tokenizers ---- */

/* Positions are 32 bits wide, and a space may become three bytes. */
#define TEXT_MAX (INT32_MAX / 3)

/* Bytes of text that are worked on at once, if the text can be cut there. */
#define TEXT_WINDOW 16384

/* A text, or a part of one, on its way. */
struct job {
	const struct pico_vocab *v;
	const char *text;
	size_t used;		/* bytes of it up to the last token */
	bool fresh;		/* what comes next is the beginning of a text,
				   or follows a special token */
	bool prefix;		/* and has a space in front, if the vocabulary
				   wants one */
	const uint8_t *content;	/* not 0: the byte is somebody's words; NULL:
				   none is */
	const uint8_t *framed;	/* by id, not 0: user-defined, but part of the
				   frame, so that no words may give it; NULL:
				   none is */
	struct pico_ids *out;
	struct pico_err *err;
};

/* Whether some of from..to is somebody's words. */
static inline bool
has_content(const uint8_t *content, size_t from, size_t to)
{
	while (content != NULL && from < to)
		if (content[from++] != 0)
			return true;
	return false;
}

/* Appends a token that ends at `used`. */
int job_emit(struct job *j, int32_t id);
/* Whether from..to of the text may give a token. What stands for no text, such
   as the space in front, may give any. */
bool job_may_emit(const struct job *j, int32_t id, size_t from, size_t to);
/* Appends the unknown token, in place of a byte, for the text from..used. */
int job_emit_unknown(struct job *j, size_t from, unsigned char byte);

struct kind {
	/* NULL without memory. */
	void *(*make)(const struct pico_vocab *v, struct pico_err *err);
	void (*free)(void *state);
	/*
	 * Tokenizes the text from `used` to `end`, which holds no special
	 * token, and moves `used` on. open: more may follow, which is not
	 * known; it stops at a place from which the rest gives, by itself, the
	 * tokens it would give in one go, and before which nothing that may
	 * follow makes a difference.
	 */
	int (*run)(void *state, struct job *j, size_t end, bool open);
};

extern const struct kind kind_spm, kind_bytelevel, kind_wordpiece,
    kind_unigram, kind_rwkv;

/* Bytes of the character that a byte begins; what follows is not looked at. */
static inline size_t
lead_len(unsigned char c)
{
	return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

#endif
