/* SPDX-License-Identifier: MIT */
/*
 * From a folder as Hugging Face publishes models to a GGUF file. Private to
 * lib/convert. The order of work: config.json (config.c) gives the sizes; these
 * and the table of names (names.c) tell which tensors must be there and in which
 * shape (plan.c); the vocabulary (vocab.c and the readers of the two kinds of
 * files) must fit them; then the data goes through, a few rows at a time
 * (rows.c).
 */
#ifndef PICO_CONVERT_H
#define PICO_CONVERT_H

#include "../base/json.h"
#include "../gguf/gguf.h"
#include "../text/text.h"

/* ---- files of the folder (folder.c) ---- */

#define FOLDER_TEXT_MAX 100000000u	/* bytes of JSON, of a header */
#define FOLDER_DEPTH 64
#define FOLDER_NODES (1u << 22)

/* DIR/NAME; fails if that is too long. */
int folder_path(char *out, size_t size, const char *dir, struct pico_str name,
    struct pico_err *err);
/* Whether there is something of that name, if only a link to nothing. */
bool folder_has(const char *dir, const char *name);

/* A file of JSON. The root is an object, without equal keys. */
struct doc {
	const char *name;	/* "config.json" */
	struct map map;
	struct json json;
	bool there;
};
/* A file that is missing leaves d->there false, which is no fault. */
int doc_open(struct doc *d, const char *dir, const char *name,
    struct pico_err *err);
void doc_close(struct doc *d);
/* The same for text in memory. */
int doc_parse(struct json *j, const char *name, const char *text, size_t n,
    struct pico_err *err);

/*
 * Members of an object, of which null is as good as missing: 1, 0 if there is
 * none, -1 with a message if it is something else. `names` are alternatives with
 * '|' between them.
 */
uint32_t doc_get(const struct doc *d, uint32_t object, const char *names);
int doc_whole(const struct doc *d, uint32_t node, uint64_t *out);
int doc_real(const struct doc *d, uint32_t node, double *out);
int doc_bool(const struct doc *d, uint32_t node, bool *out);
int doc_str(const struct doc *d, uint32_t node, struct pico_str *out);
/* What a node is, for messages: "a string". */
const char *doc_kind(const struct doc *d, uint32_t node);

/* Strings that belong to nothing else. */
struct arena {
	struct arena_block *last;
};
/* A copy of both parts, one behind the other; p NULL without memory. */
struct pico_str arena_join(struct arena *a, struct pico_str x,
    struct pico_str y, struct pico_err *err);
void arena_free(struct arena *a);

static inline struct pico_str
str_of(const char *s)
{
	return (struct pico_str){ s, strlen(s) };
}
bool str_begins(struct pico_str s, const char *with);
bool str_ends(struct pico_str s, const char *with);

/* ---- weights (safetensors.c) ---- */

#define ST_DIMS 8

struct st_tensor {
	struct pico_str name;
	uint32_t type;		/* of GGUF; UINT32_MAX: none for weights */
	struct pico_str dtype;	/* as written */
	uint32_t n_dims;
	uint64_t dims[ST_DIMS];	/* outermost first */
	uint64_t begin, end;	/* in the data of its file */
	const uint8_t *data;
	uint32_t shard;
	bool used;
};

struct st_set {
	struct st_shard {
		struct pico_str name;
		char path[4096];
		struct map map;
		struct json json;
	} *shard;
	size_t n_shards, cap_shards;
	struct doc index;	/* model.safetensors.index.json */
	struct st_tensor *tensor;	/* by name */
	size_t n, cap;
};

/* Opens model.safetensors or the files of an index, and checks all of them. */
int st_open(struct st_set *s, const char *dir, struct pico_err *err);
void st_close(struct st_set *s);
/* One file's header: adds its tensors. For st_open() and tests. */
int st_read_header(struct st_set *s, size_t shard, struct pico_err *err);
/* Brings the tensors in order again, after names were changed. */
int st_sort(struct st_set *s, struct pico_err *err);
/* NULL if there is none. */
struct st_tensor *st_find(const struct st_set *s, struct pico_str name);

/* ---- config.json (config.c) ---- */

/* Sizes by letter, for the shapes in the table of names:
   A rows of fused q, k, v   B best experts    C positions
   D embedding               E experts
   F feed-forward            G 2 F             H head         I inner (ssm)
   J 2 I                     K rows of k or v  L layers       M kv heads
   N heads                   P state (ssm)     Q rows of q    R kernel (ssm)
   S shared expert           T time step rank  V vocabulary   W T + 2 P
   X expert                  Y 2 X             U 1 */
struct sizes {
	uint32_t at[26];
};
#define SIZE(s, letter) ((s)->at[(letter) - 'A'])

struct pico_convert;
int config_read(struct pico_convert *c, struct pico_err *err);

/* ---- what is known of a class (names.c) ---- */

/* Where a row of the result comes from. */
enum row_map {
	ROWS_SAME,
	ROWS_PAIRS,	/* the halves of each head in turn */
	ROWS_HEADS,	/* q, k, v of a head together, to q, k, v of all */
	ROWS_GROUPS,	/* the same for groups of q heads with one k, one v */
	ROWS_GROUPS_Q,	/* of such groups q alone, in pairs, */
	ROWS_GROUPS_K,	/* k alone, in pairs, */
	ROWS_GROUPS_V,	/* and v alone */
	ROWS_GATE,	/* of each expert's rows the first half */
	ROWS_UP		/* and the second one */
};

enum {
	BIAS_MAY = 1, BIAS_MUST = 2,
	MAY = 4,	/* need not be there */
	ELSE = 8,	/* only if the row before made nothing */
	BARE = 16,	/* the names have no ".weight" */
	BARE_FROM = 32,	/* the one in the folder has none */
	TRANSPOSED = 64,
	MINUS_EXP = 128,	/* -exp(x) */
	OUTPUT = 256	/* must be there unless it is tied */
};

struct name_row {
	const char *to;		/* without "blk.N." and ".weight" */
	const char *from;	/* without the prefix; '#': one for each of the
				   first dimension; '|': or */
	const char *shape;	/* sizes, outermost first */
	enum row_map map;
	unsigned flags;
};

/* A value that becomes a key, or must be what the programs take for granted. */
struct setting {
	const char *names;	/* in config.json */
	const char *key;	/* behind "ARCH."; NULL: only checked */
	enum setting_kind {
		SET_END, SET_WHOLE, SET_REAL, SET_BOOL,
		SET_SCALE,	/* a real that is not written if 0 */
		CHECK_BOOL,	/* must be `value` where it is given */
		CHECK_WHOLE,
		CHECK_EMPTY	/* a list without elements */
	} kind;
	bool must;		/* be given; else `value` is taken, unless < 0 */
	double value;
	char size;		/* letter, if it is one of the sizes */
};

enum spm { SPM_NEVER, SPM_FIRST, SPM_LAST };

struct class {
	const char *name, *arch;
	const char *prefix;	/* of layers */
	const struct name_row *global, *layer;	/* up to .to NULL */
	const struct setting *settings;
	const char *context;	/* names; NULL: `context_fixed` */
	uint32_t context_fixed;
	const char *ff;		/* NULL: four times the embedding */
	uint32_t heads, kv_heads, head;	/* if not given; 0: must be */
	const char *eps;
	double eps_default;	/* < 0: must be given */
	double base_default;	/* of rope; 0: not written */
	const char *rotary;	/* part of a head that turns: names, */
	double rotary_default;
	enum spm spm;
	const char *act;	/* how the activation's name begins */
	unsigned traits;
	/* what no table tells; NULL: nothing */
	int (*more)(struct pico_convert *c, struct pico_err *err);
};
enum {
	LAYER_NORM = 1,		/* not RMS */
	NORM_PLUS_1 = 2,
	TIED = 4,		/* unless the folder says otherwise */
	NO_HEADS = 8,		/* no attention at all */
	NO_ROPE = 16,
	NO_SPACE = 32,		/* add_space_prefix is false */
	WINDOW = 64,		/* sliding_window is written */
	DROP_OUTPUT = 128,	/* lm_head is left out */
	VOCAB_MULTIPLE = 256,	/* of pad_vocab_size_multiple */
	HEADS_FROM_KV = 512,	/* no kv heads given: as many as heads */
	ONE_KV = 1024,		/* no kv heads given: one */
	ROTARY_OF_EMBD = 2048,	/* `rotary` is a part of the embedding */
	NO_BOS = 4096,
	SPACE_GIVEN = 8192	/* add_prefix_space of the tokenizer counts */
};

int config_gemma2(struct pico_convert *c, struct pico_err *err);
int config_gemma3(struct pico_convert *c, struct pico_err *err);
int config_phi3(struct pico_convert *c, struct pico_err *err);
int config_minicpm(struct pico_convert *c, struct pico_err *err);
int config_smollm3(struct pico_convert *c, struct pico_err *err);
int config_mamba(struct pico_convert *c, struct pico_err *err);

const struct class *class_find(struct pico_str name);
/* All, for messages; static. */
const char *class_names(void);

/* ---- keys (meta.c) ---- */

struct meta {
	struct meta_key {
		char key[200];
		uint32_t type, elem;
		int64_t whole;
		double real;
		struct pico_str str;
		const void *array;	/* borrowed */
		uint64_t n;
	} *key;
	size_t n, cap;
	const char *arch;	/* for '@' at the start of a key */
};
int meta_whole(struct meta *m, const char *key, uint64_t v,
    struct pico_err *err);
int meta_bool(struct meta *m, const char *key, bool v, struct pico_err *err);
int meta_real(struct meta *m, const char *key, double v,
    struct pico_err *err);
int meta_str(struct meta *m, const char *key, struct pico_str v,
    struct pico_err *err);
int meta_array(struct meta *m, const char *key, uint32_t elem, const void *v,
    uint64_t n, struct pico_err *err);
int meta_write(const struct meta *m, struct pico_writer *w,
    struct pico_err *err);
void meta_list(const struct meta *m, FILE *out);

/* ---- vocabulary (vocab.c, tokenizer_json.c, sentencepiece.c) ---- */

enum { ID_BOS, ID_EOS, ID_UNK, ID_SEP, ID_PAD, ID_CLS, ID_MASK, N_IDS };

struct words {
	const char *model;	/* value of tokenizer.ggml.model; NULL while
				   tokenizer.json is read */
	const char *pre;
	uint32_t n;
	struct pico_str *text;	/* p NULL: none yet */
	int32_t *type;
	float *score;
	struct pico_str *merge;
	size_t n_merges;
	int add_space;		/* -1: not known, as the next two */
	int add_bos, add_eos;
	int64_t id[N_IDS];	/* -1: none */
	struct pico_str *template_name;	/* of templates with names */
	size_t n_templates;
	struct arena arena;
};
/* Everything of the vocabulary and its keys. */
int vocab_read(struct pico_convert *c, struct pico_err *err);
void words_free(struct words *w);
/* A text for an id, in place of another; fails if the id is beyond the
   vocabulary. */
int words_put(struct pico_convert *c, const char *file, uint64_t id,
    struct pico_str text, int type, float score, struct pico_err *err);
/* The same for an added token, which is one of control if it is `special` or, with
   `by_look`, if its text looks so. */
int words_add(struct pico_convert *c, const char *file, uint64_t id,
    struct pico_str text, bool special, bool by_look, struct pico_err *err);
/* Spaces in place of their mark. */
int unmark(struct words *w, struct pico_str *text, struct pico_err *err);
/* The added tokens of tokenizer.json. */
int added_tokens(struct pico_convert *c, bool by_look, struct pico_err *err);

/* tokenizer.json: merges of bytes, or, with byte fallback, by score. */
int tokenizer_json_read(struct pico_convert *c, struct pico_err *err);
/* tokenizer.model; dummy: whether it puts a space in front. */
int sentencepiece_read(struct pico_convert *c, const uint8_t *p, size_t n,
    bool *dummy, struct pico_err *err);
/* The name of the pre-tokenizer by what tokenizer.json says it does; NULL: it is
   not known. */
const char *pre_recognize(struct pico_convert *c, struct pico_err *err);

/* ---- the plan (plan.c) ---- */

struct out_tensor {
	char name[64];
	uint32_t type, n_dims;
	uint64_t dims[4];	/* of GGUF */
	uint64_t rows, width;	/* rows of the whole, elements of one */
	size_t src;		/* first of its sources */
	uint64_t rows_each;	/* rows of one source */
	enum row_map map;
	unsigned flags;		/* TRANSPOSED, MINUS_EXP */
	bool plus_one;
	const float *made;	/* values that come from config.json, or NULL */
};

struct plan {
	struct out_tensor *tensor;
	size_t n, cap;
	const struct st_tensor **src;
	size_t n_src, cap_src;
	uint64_t elements, expert_elements;
	struct pico_err lost;	/* what is missing, or empty */
};
int plan_make(struct pico_convert *c, struct pico_err *err);
/* The row of the sources that row r of a tensor is. */
uint64_t plan_row(const struct sizes *s, enum row_map map, uint64_t r);

uint64_t plan_bytes(const struct out_tensor *t);

/* The type that was asked for, for a matrix that is `stored` as that. */
uint32_t convert_type(const struct pico_convert *c, const struct out_tensor *t,
    uint32_t stored);

/* ---- data (rows.c) ---- */

/* All tensors, one after the other. */
int rows_write(const struct pico_convert *c, struct pico_writer *w,
    pico_convert_progress *progress, void *data, struct pico_err *err);

/* ---- the whole (convert.c) ---- */

struct pico_convert {
	struct pico_convert_params params;
	const char *dir;
	const struct class *class;
	struct doc config, tokenizer, tokenizer_config;
	struct map spm;		/* tokenizer.model */
	struct map template;	/* chat_template.jinja */
	struct doc template_json, added;
	uint32_t text_config;	/* node; JSON_NONE: there is none */
	uint32_t rope;		/* node of the scaling of rope */
	double rope_base;
	uint32_t n_rot;		/* values of a head that turn */
	struct st_set weights;
	struct sizes sizes;
	bool tied;
	float *rope_freqs, *rope_long, *rope_short;	/* NULL: none */
	struct plan plan;
	struct words words;
	struct meta meta;
	char name[256], label[32];
	uint32_t type;		/* of matrices, or TYPE_KEEP */
	const struct pico_mix *mix;	/* NULL: TYPE_KEEP */
	uint32_t file_type;
};
#define TYPE_KEEP UINT32_MAX


/* A value of config.json; text_config goes before the top level. */
uint32_t config_get(const struct pico_convert *c, const char *names);
/* The same as a number: 1, 0 if there is none, -1. */
int config_whole(const struct pico_convert *c, const char *names,
    uint32_t *out, struct pico_err *err);
int config_real(const struct pico_convert *c, const char *names, double *out,
    struct pico_err *err);
int config_bool(const struct pico_convert *c, const char *names, bool *out,
    struct pico_err *err);

#endif
