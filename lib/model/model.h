/* SPDX-License-Identifier: MIT */
/*
 * Inside of a model. Private to lib/model/.
 *
 *	arch.c		the table of architectures
 *	hparams.c	numbers from the metadata
 *	weights.c	tensors by name, their shapes checked
 *	rope.c		rotary angles
 *	kv.c		the KV cache
 *	resident.c	which weights stay in memory; reading the others
 *	context.c	sizes, work space
 *	forward.c	the pass itself
 *	kvfile.c	the cache in a file
 */
#ifndef PICO_MODEL_H
#define PICO_MODEL_H

#include "../base/base.h"
#include "../kernel/kernel.h"

/* ---- arch.c ---- */

enum rope_kind {
	ROPE_ADJACENT,	/* pairs (x[2p], x[2p+1]) */
	ROPE_HALVES	/* pairs (x[p], x[p + r/2]) */
};

/*
 * What one architecture does differently from the others; a file of a known
 * kind needs a row here and no code.
 */
struct arch {
	const char *name;	/* general.architecture, prefix of its keys */
	enum rope_kind rope;
	bool partial_rope;	/* fewer dimensions than a head has may turn */
	bool moe_norm;		/* weights of chosen experts sum to one */
	bool ignore_window;	/* attention.sliding_window means nothing:
				   every engine computes full attention */
};

/* NULL if it is not in the table. */
const struct arch *arch_find(struct pico_str name);
/* Names of all, for messages: "llama, ...". */
const char *arch_names(void);

/* ---- hparams.c ---- */

struct hparams {
	const struct arch *arch;
	uint32_t n_vocab, n_embd, n_layer, n_ctx_train;
	uint32_t n_expert, n_expert_used;
	uint32_t head_k, head_v;	/* size of a key and a value head */
	uint32_t n_rot;			/* rotated dimensions of a head */
	uint32_t *n_head, *n_head_kv, *n_ff;	/* n_layer each */
	float eps;			/* of the norms */
	bool window_ignored;
	/* RoPE (architectures: 4.3) */
	double rope_base, rope_scale;	/* scale = 1 / factor */
	double rope_attn_factor;
	bool yarn;
	uint32_t rope_ctx_orig;
};

int hparams_read(struct hparams *h, const struct pico_gguf *g,
    struct pico_err *err);
void hparams_free(struct hparams *h);

/* ---- weights.c ---- */

/* A matrix in place in the file: n_out rows of n_in values. */
struct weight {
	const uint8_t *data;
	uint32_t type;
	uint32_t n_in, n_out;
	size_t row_bytes;
	const float *bias;	/* n_out, or NULL */
	/* for weights that are not kept in memory */
	uint32_t number;	/* place in the model's list */
	int shard;
	uint64_t offset;	/* of data in that file */
	uint64_t step;		/* bytes read for one token; of an expert,
				   on the average */
};

static inline uint64_t
weight_bytes(const struct weight *w)
{
	return (uint64_t)w->n_out * w->row_bytes;
}

struct layer {
	float *attn_norm, *ffn_norm;	/* n_embd */
	struct weight wq, wk, wv, wo;
	struct weight gate, up, down;		/* dense */
	struct weight router;			/* n_out 0: no experts */
	struct weight *gate_e, *up_e, *down_e;	/* n_expert each */
};

struct pico_model {
	const struct pico_gguf *gguf;
	struct hparams h;
	struct weight embd, output;	/* the same matrix, if tied */
	float *output_norm;		/* n_embd */
	float *rope_factors;		/* n_rot / 2 divisors, or NULL */
	struct layer *layers;
	/* All matrices: the embedding, the output if it is another one, then
	   those of the layers, in the order of use. */
	struct weight **weights;
	size_t n_weights, cap_weights;
	size_t *first;		/* n_layer + 1: number of a layer's first */
	float **vectors;		/* all float vectors made at load */
	size_t n_vectors, cap_vectors;
	uint64_t weight_bytes, step_bytes, vector_bytes;
	bool no_data;	/* only the header was read: good for a plan */
};

int weights_find(struct pico_model *m, struct pico_err *err);

/* ---- rope.c ---- */

/*
 * Angular frequency of each pair: n_rot / 2 doubles; *magnitude multiplies cos
 * and sin. Sources: Su et al. 2021; Peng et al. 2023 (YaRN).
 */
void rope_frequencies(const struct hparams *h, const float *factors,
    double *freq, double *magnitude);
/* cos and sin of one position, n_rot / 2 each. */
void rope_angles(const double *freq, double magnitude, uint32_t n_rot,
    uint32_t pos, float *cos, float *sin);

/* ---- kv.c ---- */

/*
 * The cache: for each layer and sequence, keys [kv head][position] and values
 * [kv head][position], so that attention reads one forward stream a head. The memory is asked for whole and touched as it fills.
 */
struct kv {
	const struct hparams *h;
	enum kv_type type;
	uint32_t n_ctx, n_seq;
	size_t row_k, row_v;		/* bytes of a key and a value */
	uint8_t **k, **v;		/* n_layer each: [seq][head][pos] rows */
	int32_t *tokens;		/* [seq][pos] */
	uint32_t *n;			/* positions filled, by sequence */
	/* Of these the first so many are what their tokens alone give: all of
	   them, until something before was forgotten. */
	uint32_t *pure;
};

/* Bytes of everything when full; false if that overflows. */
bool kv_bytes(const struct hparams *h, enum kv_type type, uint32_t n_ctx,
    uint32_t n_seq, uint64_t *bytes);
int kv_init(struct kv *kv, const struct hparams *h, enum kv_type type,
    uint32_t n_ctx, uint32_t n_seq, struct pico_err *err);
void kv_free(struct kv *kv);
/* No more than the first n positions of a sequence. */
void kv_cut(struct kv *kv, uint32_t seq, size_t n);
/* First key (value) of a head in a layer. */
uint8_t *kv_k(const struct kv *kv, uint32_t layer, uint32_t seq,
    uint32_t head);
uint8_t *kv_v(const struct kv *kv, uint32_t layer, uint32_t seq,
    uint32_t head);

/* ---- resident.c ---- */

struct resident;

/* Tells the system how the tensors of a model will be read. */
void resident_advise(const struct pico_model *m, enum map_advice advice);
/*
 * The weights to keep in `budget` bytes: kept[number of a weight]. Returns the
 * bytes that are kept; *step: what is then read for one token.
 */
uint64_t resident_choose(const struct pico_model *m, uint64_t budget,
    bool *kept, uint64_t *step);
/* Bytes of memory that reading the others takes. */
uint64_t resident_buffers(const struct pico_model *m);
/* Reads the weights to be kept and starts the reader of the others. */
struct resident *resident_new(const struct pico_model *m, uint64_t budget,
    struct pico_err *err);
void resident_free(struct resident *r);
/* Whether a weight can be used in place; all can without a resident. */
bool resident_has(const struct resident *r, const struct weight *w);
/* This weight will be wanted after those told before. A hint: what is wanted
   in another order is read anew. */
void resident_want(struct resident *r, const struct weight *w);
/* Whether nothing is on the way. */
bool resident_idle(struct resident *r);
/*
 * Waits for rows of a weight from number `row` on: *data points to the first,
 * and how many there are is returned; 0 on a failure. They are there until
 * resident_done().
 */
uint32_t resident_rows(struct resident *r, const struct weight *w,
    uint32_t row, const uint8_t **data, struct pico_err *err);
void resident_done(struct resident *r);
/* One row by itself, until the next call; NULL on a failure. */
const uint8_t *resident_row(struct resident *r, const struct weight *w,
    uint32_t row, struct pico_err *err);
/* Goes on a hash with the bytes of a tensor. */
int resident_hash(struct resident *r, const struct pico_tensor *t,
    uint64_t *hash, struct pico_err *err);
/* How long a read took. */
struct timed_read {
	uint64_t bytes;
	double seconds;
};
/* Bytes a second: half of all bytes were read as fast or faster, so neither a
   few reads that were held up nor small ones count for much. Sorts them; 0 if
   nothing was read. */
double median_speed(struct timed_read *reads, size_t n);
/* The same of some reads made for it, while the reader has nothing to do; 0 if
   there is nothing to read. */
double resident_speed(struct resident *r);

/* ---- context.c ---- */

/* Begins to read what the next pass wants first. */
void forward_ahead(struct pico_ctx *c);

/* An expert chosen for a column, and its weight. */
struct choice {
	uint32_t expert;
	float weight;
};

struct pico_ctx {
	const struct pico_model *m;
	const struct kernels *k;
	void *buffers;		/* all that follow */
	struct pool *pool;
	struct kv kv;
	struct resident *res;		/* NULL: all weights are mapped */
	struct pico_err fault;		/* of reading weights, in a pass */
	uint32_t chunk;
	double *freq;			/* n_rot / 2 */
	double magnitude;
	uint64_t model_hash;		/* for KV files; 0: not known yet */

	/* The pass under way; its arrays hold `chunk` columns. */
	uint32_t n_cols;
	uint32_t *seq, *pos;
	float *x, *y;			/* n_embd: residual stream; normed */
	float *gate, *up;		/* n_ff */
	float *q, *key, *value, *att;	/* heads x head size; they share the
					   room of gate and up */
	float *cos, *sin;		/* n_rot / 2 */
	uint8_t *act[ACT_KINDS];	/* prepared rows, as a matrix wants */
	/* with experts only */
	float *router;			/* n_expert */
	struct choice *choice;		/* n_expert_used */
	uint32_t *picked;		/* the columns of one expert... */
	float *picked_weight;
	float *xe, *ye, *mix;		/* ...gathered; its output; the sum */

	/* Logits are made a block at a time, when somebody asks for one. */
	uint32_t *want;			/* columns that want logits */
	uint32_t n_want;
	uint32_t *want_at;		/* place of a column among them, + 1 */
	uint32_t block_first, block_n;	/* what `logits` holds */
	uint32_t block;			/* rows for which it has room */
	float *logits;			/* block x n_vocab */
};

#endif
