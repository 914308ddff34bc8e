/* SPDX-License-Identifier: MIT */
/*
 * Inside of a model. Private to lib/model/.
 *
 *	arch.c		the table of architectures
 *	hparams.c	numbers from the metadata
 *	weights.c	tensors by name, their shapes checked
 *	rope.c		rotary angles
 *	kv.c		the KV cache
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
};

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
	float **vectors;		/* all float vectors made at load */
	size_t n_vectors, cap_vectors;
	uint64_t weight_bytes, step_bytes;
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
};

/* Bytes of everything when full; false if that overflows. */
bool kv_bytes(const struct hparams *h, enum kv_type type, uint32_t n_ctx,
    uint32_t n_seq, uint64_t *bytes);
int kv_init(struct kv *kv, const struct hparams *h, enum kv_type type,
    uint32_t n_ctx, uint32_t n_seq, struct pico_err *err);
void kv_free(struct kv *kv);
/* First key (value) of a head in a layer. */
uint8_t *kv_k(const struct kv *kv, uint32_t layer, uint32_t seq,
    uint32_t head);
uint8_t *kv_v(const struct kv *kv, uint32_t layer, uint32_t seq,
    uint32_t head);

/* ---- forward.c ---- */

/* An expert chosen for a column, and its weight. */
struct choice {
	uint32_t expert;
	float weight;
};

struct pico_ctx {
	const struct pico_model *m;
	const struct kernels *k;
	struct pool *pool;
	struct kv kv;
	uint32_t chunk;
	double *freq;			/* n_rot / 2 */
	double magnitude;
	uint64_t model_hash;		/* for KV files; 0: not known yet */

	/* The pass under way; its arrays hold `chunk` columns. */
	uint32_t n_cols;
	uint32_t *seq, *pos;
	float *x, *y;			/* n_embd: residual stream; normed */
	float *q, *key, *value, *att;	/* heads x head size */
	float *gate, *up;		/* n_ff */
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
	float *logits;			/* LOGITS_BLOCK x n_vocab */
};

#define LOGITS_BLOCK 32

#endif
