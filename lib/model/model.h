/* SPDX-License-Identifier: MIT */
/*
 * Inside of a model. Private to lib/model/.
 *
 *	arch.c		the table of architectures
 *	hparams.c	numbers from the metadata
 *	tensors.c	tensors by name, their shapes checked
 *	weights.c	the tensors of each part of a model
 *	rope.c		rotary angles
 *	kv.c		what is remembered of a sequence: KV cache, states
 *	resident.c	which weights stay in memory; reading the others
 *	context.c	sizes, work space
 *	product.c	matrices times rows
 *	forward.c	the pass itself
 *	attention.c	what columns see of each other: attention,
 *	mla.c		...of latent keys and values,
 *	mamba.c		...a state-space model,
 *	rwkv.c		...a linear recurrence
 *	feed.c		feed-forward networks and experts
 *	kvfile.c	what is remembered in a file
 *
 * HACKING.md tells how an architecture is added.
 */
#ifndef PICO_MODEL_H
#define PICO_MODEL_H

#include "../base/base.h"
#include "../kernel/kernel.h"

/* ---- arch.c ---- */

/* Whether a tensor or a key must be there. */
enum need { NEVER, MAY, MUST };

enum norm_kind {
	NORM_RMS,	/* Zhang and Sennrich 2019 */
	NORM_LAYER,	/* Ba et al. 2016 */
	NORM_BARE	/* a layer norm without weights */
};

/* How the two branches of a layer, A (columns see each other) and F
   (feed-forward), are added to the stream x; n are norms. */
enum shape {
	SHAPE_PRE,	/* x += A(n x);      x += F(n x) */
	SHAPE_SANDWICH,	/* x += n A(n x);    x += n F(n x) */
	SHAPE_POST,	/* x += n A(x);      x += n F(x) */
	SHAPE_ONE_NORM,	/* x += A(h) + F(h)  h = n x */
	SHAPE_PARALLEL	/* x += A(n x) + F(n x), two norms */
};

/* What a branch A is. */
enum mixer { ATTENTION, MLA, MAMBA, RWKV6, RWKV7 };

enum rope_kind {
	ROPE_NONE,
	ROPE_ADJACENT,	/* pairs (x[2p], x[2p+1]) */
	ROPE_HALVES	/* pairs (x[p], x[p + r/2]) */
};

/* Norms of queries and keys, before they are turned. */
enum qk_norm {
	QK_PLAIN,
	QK_HEAD,	/* of each head, with the same weights */
	QK_OWN,		/* of each head, with its own weights, if present */
	QK_ROW,		/* of all heads together */
	QK_ROW_MAY	/* the same, if present */
};

enum ffn_kind {
	FFN_GATED,	/* down(f(gate x) * up x) */
	FFN_FUSED,	/* the same; the rows of gate and up in one matrix */
	FFN_PLAIN	/* down(f(up x)) */
};

/* A FFN that sees all columns, beside the experts. */
enum shared { SHARED_NONE, SHARED_COUNT, SHARED_WIDTH, SHARED_GATED };

/* Keys with a meaning for some architectures only; elsewhere they are refused,
   unless their value changes nothing. */
enum {
	KEY_EMBD_SCALE = 1 << 0,	/* embedding_scale */
	KEY_RESIDUAL_SCALE = 1 << 1,	/* residual_scale */
	KEY_LOGIT_DIVIDE = 1 << 2,	/* logit_scale divides */
	KEY_LOGIT_MULTIPLY = 1 << 3,	/* logit_scale multiplies */
	KEY_ATTN_SCALE = 1 << 4,	/* attention.scale */
	KEY_ATTN_CAP = 1 << 5,		/* attn_logit_softcapping */
	KEY_FINAL_CAP = 1 << 6,		/* final_logit_softcapping */
	KEY_CLAMP = 1 << 7,		/* attention.clamp_kqv */
	KEY_ALIBI = 1 << 8,		/* attention.max_alibi_bias */
	KEY_PARALLEL = 1 << 9,		/* use_parallel_residual, required */
	KEY_DENSE = 1 << 10,		/* leading_dense_block_count */
	KEY_YARN_LOG = 1 << 11,		/* rope.scaling.yarn_log_multiplier */
	KEY_YARN_BETA = 1 << 12,	/* rope.scaling.yarn_beta_{fast,slow} */
	KEY_TEMPERATURE = 1 << 13,	/* attention.temperature_scale */
	KEY_FINETUNED = 1 << 14		/* rope.scaling.finetuned */
};

struct hparams;

/*
 * What one architecture does; zeros are what LLaMA does. A file of a known kind
 * needs a row here and no code. Numbers have a byte: there are many rows.
 */
struct arch {
	const char *name;	/* general.architecture, prefix of its keys */
	enum norm_kind norm : 8;
	enum need norm_bias : 8;
	enum need embd_norm : 8;	/* of the embedding */
	enum need positions : 8;	/* learned, added to the embedding */
	enum shape shape : 8;
	enum need ffn_norm : 8;	/* NEVER: what the shape has; MAY:
				   without one a layer has SHAPE_ONE_NORM */
	const char *ffn_norm_name;	/* if not "ffn_norm" */
	bool embd_sqrt;		/* the embedding times sqrt(n_embd) */
	enum need output_bias : 8;

	enum mixer mixer : 8;
	enum need qkv_bias : 8, out_bias : 8;
	enum qk_norm qk_norm : 8;
	enum rope_kind rope : 8;
	bool whole_rope;	/* heads are turned whole */
	bool sinks;		/* attn_sinks */
	bool second_norm;	/* attn_norm_2, if present, is that of A, and
				   attn_norm that of F */
	float alibi;		/* largest bias */
	/* Every n-th layer sees everything, the others are "local". */
	uint8_t every;
	uint32_t window;	/* of local layers, if no key tells */
	enum need window_key : 8;	/* attention.sliding_window tells */
	bool ignore_window;	/* it means nothing, as for every engine */
	bool local_rope;	/* only local layers turn */
	bool local_plain;	/* local layers turn unscaled... */
	float local_base;	/* ...by rope.freq_base_swa; this by default */

	enum ffn_kind ffn : 8;
	enum k_fn act : 8;
	enum need ffn_bias : 8;
	bool act_scales;	/* ffn_act.scales, if present, divide */
	enum need experts : 8;
	enum shared shared : 8;
	bool expert_share;	/* an expert is feed_forward_length / used wide
				   where no key tells */
	bool expert_bias;	/* of router and experts */
	bool clamp_gate;	/* the clamped SwiGLU */
	bool expert_free;	/* weights of those chosen need not sum to 1 */
	uint8_t gating;		/* as expert_gating_func; 0: softmax */

	uint16_t keys;		/* KEY_... */
	/* What depends on the number of layers or on nothing in the file. */
	void (*adapt)(struct hparams *h);
};

/* NULL if it is not in the table. */
const struct arch *arch_find(struct pico_str name);
/* Names of all, for messages: "llama, ...". */
const char *arch_names(void);
/* Whether a sequence is remembered as a state, which cannot go back. */
static inline bool
arch_recurrent(const struct arch *a)
{
	return a->mixer >= MAMBA;
}

/* ---- hparams.c ---- */

enum gating { GATE_SOFTMAX = 1, GATE_SIGMOID = 2, GATE_LATE = 3 };

/* RoPE of some layers (architectures: 4.3). */
struct rope {
	double base, scale;	/* scale = 1 / factor */
	double attn_factor;
	bool yarn;
	bool plain;		/* the model's factors do not count */
};

struct hparams {
	const struct arch *arch;
	uint32_t n_vocab, n_embd, n_layer, n_ctx_train;
	uint32_t *n_head, *n_head_kv, *n_ff;	/* n_layer each */
	enum norm_kind norm;
	float eps;			/* of the norms */
	bool parallel;			/* SHAPE_ONE_NORM or SHAPE_PARALLEL */
	float embd_scale, residual_scale;	/* factors; 1: none */
	float logit_scale;		/* a factor */
	float attn_cap, final_cap;	/* 0: none */

	uint32_t head_k, head_v;	/* size of a key and a value head */
	float attn_scale;		/* of scores */
	float clamp;			/* 0: none */
	float alibi;			/* 0: none */
	float temperature;		/* 0: none */
	uint32_t every;			/* 0: all layers are alike */
	bool *local;			/* n_layer, from `every` or a key */
	uint32_t window;		/* of local layers; 0: none */
	bool window_ignored;

	enum rope_kind rope;
	uint32_t n_rot;			/* rotated dimensions of a head, */
	uint32_t rot_first;		/* from this one on */
	struct rope rope_of[2];		/* of other and of local layers */
	uint32_t rope_ctx_orig;
	double yarn_fast, yarn_slow, yarn_log;
	bool longrope;

	uint32_t n_expert, n_expert_used, n_ff_expert, n_ff_shared;
	uint32_t n_dense;		/* leading layers without experts */
	uint32_t n_group, n_group_used;	/* of experts */
	enum gating gating;
	bool expert_norm;
	float expert_scale;

	/* MLA: ranks of queries (0: full) and of keys and values; true sizes
	   of a key without its turned part, and of a value */
	uint32_t q_rank, kv_rank, mla_k, mla_v;
	bool mla_latent;		/* the cache holds what is latent */

	/* Mamba */
	uint32_t ssm_conv, ssm_inner, ssm_state, ssm_rank;
	bool ssm_norm;			/* dt, B and C are normed */

	/* RWKV */
	uint32_t wkv_head;		/* size of a head */
	uint32_t mix_rank, decay_rank, iclr_rank, value_rank, gate_rank;
	uint32_t rescale;		/* x is halved every so many layers */
};

int hparams_read(struct hparams *h, const struct pico_gguf *g,
    struct pico_err *err);
void hparams_free(struct hparams *h);
/* The window of a layer; 0: it sees everything. */
uint32_t hparams_window(const struct hparams *h, uint32_t il);
/* Whether a layer turns its queries and keys. */
bool hparams_turns(const struct hparams *h, uint32_t il);
/* Which of the two ropes it has. */
static inline int
hparams_rope(const struct hparams *h, uint32_t il)
{
	return h->local[il] && h->arch->local_plain ? 1 : 0;
}

/* ---- tensors.c, weights.c ---- */

/* A matrix in place in the file: n_out rows of n_in values. */
struct weight {
	const uint8_t *data;
	uint32_t type;
	uint32_t n_in, n_out;
	uint32_t n_group;	/* as many matrices, one below the other, each
				   for its own part of a row; else 1 */
	size_t row_bytes;
	const float *bias;	/* n_out, or NULL */
	const struct weight *next;	/* what is multiplied after it, or NULL
					   where that is not known */
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

static inline bool
weight_is(const struct weight *w)
{
	return w->n_out > 0;
}

/* A norm of n_embd values, if not said otherwise. */
struct norm {
	bool on;
	const float *w, *b;	/* NULL: none */
};

/* Matrices of a feed-forward network; of an expert, too. */
struct ffn {
	struct weight gate, up, down;
};

/* A matrix of an expert; `member` is its offset in struct ffn. */
static inline struct weight *
expert_weight(struct ffn *experts, uint32_t e, size_t member)
{
	return (struct weight *)((uint8_t *)&experts[e] + member);
}

struct attention_weights {
	struct weight q, k, v, out;
	struct norm q_norm, k_norm;	/* of a head, all heads, or the row */
	const float *sinks;		/* n_head, or NULL */
};

struct mla_weights {
	struct weight q, q_a, q_b;	/* q, or the other two */
	struct norm q_norm, kv_norm;	/* q_rank; kv_rank */
	struct weight kv_a, kv_b;	/* kv_b, or the next two */
	struct weight k_b, v_b;
	struct weight out;
};

struct mamba_weights {
	struct weight in, x, dt, out;
	const float *conv, *conv_bias;	/* ssm_inner x ssm_conv; ssm_inner */
	const float *a, *d;		/* ssm_inner x ssm_state; ssm_inner */
};

struct rwkv_weights {
	/* time mix */
	const float *lerp_x;		/* RWKV-6 */
	const float *lerp[6];		/* w k v r g; RWKV-7: r w k v a g */
	struct weight w1, w2;		/* mix; RWKV-7: of the decay */
	const float *decay;		/* w0 of RWKV-7 */
	struct weight decay_w1, decay_w2;	/* RWKV-6 */
	const float *first;		/* RWKV-6 */
	struct weight r, k, v, gate, out;
	struct norm ln;			/* of heads */
	/* RWKV-7 */
	const float *a0, *v0, *k_k, *k_a, *r_k;
	struct weight a1, a2, v1, v2, g1, g2;
	/* channel mix */
	const float *lerp_k, *lerp_r;
	struct weight cm_k, cm_r, cm_v;
};

struct layer {
	struct norm attn_norm, attn_post, ffn_norm, ffn_post;
	union {
		struct attention_weights attn;
		struct mla_weights mla;
		struct mamba_weights mamba;
		struct rwkv_weights rwkv;
	};
	struct ffn ffn;			/* dense, or the shared expert */
	const float *act_scales;	/* n_ff, or NULL */
	struct weight router;			/* n_out 0: no experts */
	const float *router_choice;	/* added where experts are chosen */
	struct weight shared_gate;	/* of the shared expert */
	struct ffn *experts;		/* n_expert */
	/* Numbers of its weights: those that every pass needs, in the order of
	   use, then the experts', up to `end`. */
	size_t first, first_expert, end;
};

struct pico_model {
	const struct pico_gguf *gguf;
	struct hparams h;
	struct weight embd, output;	/* the same matrix, if tied */
	struct weight positions;	/* n_out 0: none */
	struct norm embd_norm, output_norm;
	const float *rope_factors[2];	/* n_rot / 2 divisors, or NULL; [1]: for
					   a context longer than the original */
	struct layer *layers;
	/* All matrices: the embedding, the output if it is another one,
	   positions, then those of the layers. */
	struct weight **weights;
	size_t n_weights, cap_weights;
	float **vectors;		/* all float vectors made at load */
	size_t n_vectors, cap_vectors;
	uint64_t weight_bytes, step_bytes, vector_bytes;
	bool no_data;	/* only the header was read: good for a plan */
};

/* State of the search: which tensors were used. */
struct finder {
	struct pico_model *m;
	bool *used;
	struct pico_err *err;
	uint32_t layer;		/* names are of this one... */
	bool global;		/* ...or of none */
	char name[80];
};

/*
 * Names are "attn_q" or "ssm_a": without "blk.0." and, if `suffix` is not NULL,
 * without ".weight" or ".bias". All return 1 found, 0 missing (never if it
 * MUST be there), -1.
 */

/* The shape of a tensor. */
struct dims {
	uint32_t d[4];		/* 0 counts as 1 */
};
#define DIMS(...) ((struct dims){ { __VA_ARGS__ } })

/* The floats of a tensor. */
int find_vector(struct finder *f, const char *what, const char *suffix,
    struct dims dims, enum need need, const float **out);
/* "WHAT.weight" of {n_in, n_out}. */
int find_matrix(struct finder *f, const char *what, uint32_t n_in,
    uint32_t n_out, enum need need, struct weight *w);
/* The same, and "WHAT.bias". */
int find_linear(struct finder *f, const char *what, uint32_t n_in,
    uint32_t n_out, enum need bias, struct weight *w);
/* {n_in, n_out, n}: n matrices, each for its part of a row. */
int find_grouped(struct finder *f, const char *what, uint32_t n_in,
    uint32_t n_out, uint32_t n, enum need need, struct weight *w);
/* A matrix with the rows of several below each other: n_out[i] of them. */
int find_fused(struct finder *f, const char *what, uint32_t n_in,
    const uint32_t *n_out, struct weight *const *w, size_t n);
/*
 * A matrix for each expert: stacked {n_in, n_out, n}, as rows row.. of a
 * taller stack of `rows`, or (old Mixtral files) one tensor an expert.
 */
int find_stack(struct finder *f, const char *what, uint32_t n_in,
    uint32_t n_out, uint32_t rows, uint32_t row, struct ffn *experts,
    size_t member);
/* A tensor is used, whatever is in it. */
void find_ignored(struct finder *f, const char *what, const char *suffix);
int find_missing(struct finder *f, const char *what, const char *suffix);

int weights_find(struct pico_model *m, struct pico_err *err);

/* ---- rope.c ---- */

/*
 * Angular frequency of each pair: n_rot / 2 doubles; *magnitude multiplies cos
 * and sin. `which`: that of hparams_rope(). Sources: Su et al. 2021; Peng et
 * al. 2023 (YaRN).
 */
void rope_frequencies(const struct hparams *h, int which,
    const float *factors, double *freq, double *magnitude);
/* cos and sin of one position, n_rot / 2 each. */
void rope_angles(const double *freq, double magnitude, uint32_t n_rot,
    uint32_t pos, float *cos, float *sin);

/* ---- kv.c ---- */

/*
 * The cache: for each layer and sequence, keys [kv head][position] and values
 * [kv head][position], so that attention reads one forward stream a head. Keys
 * lie side by side, kernel.h, so there is room for whole groups of them. The
 * memory is asked for whole and touched as it fills. A recurrent model has
 * states of a fixed size instead, which cannot go back to an earlier position.
 */
struct kv {
	const struct hparams *h;
	enum kv_type type;
	uint32_t n_ctx, n_seq;
	size_t row_k, row_v;		/* bytes of a key and a value */
	uint8_t **k, **v;		/* n_layer each: [seq][head][pos] */
	void *huge;			/* all of them, if they lie together */
	uint64_t huge_bytes;
	float **state;			/* n_layer: [seq], of kv_state() floats */
	int32_t *tokens;		/* [seq][pos] */
	uint32_t *n;			/* positions filled, by sequence */
	/* Of these the first so many are what their tokens alone give: all of
	   them, until something before was forgotten. */
	uint32_t *pure;
};

/* Positions for which there is room, if n are wanted. */
static inline uint64_t
kv_room(uint64_t n)
{
	return (n + KV_SIDE - 1) / KV_SIDE * KV_SIDE;
}
/* Bytes of everything that n_ctx positions hold; false if that overflows. */
bool kv_bytes(const struct hparams *h, enum kv_type type, uint32_t n_ctx,
    uint32_t n_seq, uint64_t *bytes);
/* Floats of the state of a sequence in a layer; 0 if there is a cache. */
uint64_t kv_state(const struct hparams *h);
float *kv_state_of(const struct kv *kv, uint32_t layer, uint32_t seq);
/* at_once: all of the cache may be in memory from the first token on, if that
   is faster. */
int kv_init(struct kv *kv, const struct hparams *h, enum kv_type type,
    uint32_t n_ctx, uint32_t n_seq, bool at_once, struct pico_err *err);
void kv_free(struct kv *kv);
/* No more than the first n positions of a sequence; of a state, nothing if it
   has more than n. */
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
	struct collect *collect;	/* what weights meet, or NULL */
	uint32_t chunk;
	double *freq[2];		/* n_rot / 2, for each struct rope */
	double magnitude[2];
	float *slopes;			/* of ALiBi: n_head */
	uint64_t model_hash;		/* for KV files; 0: not known yet */

	/* The pass under way; its arrays hold `chunk` columns. */
	uint32_t n_cols;
	uint32_t *seq, *pos;
	float *x, *y;			/* n_embd: residual stream; normed rows,
					   outputs of branches */
	float *z;			/* the same, if branches are parallel */
	float *work;			/* of a branch: see struct space */
	float *first_v;			/* values of layer 0, RWKV-7 */
	float *cos[2], *sin[2];		/* n_rot / 2 */
	uint8_t *act[ACT_KINDS];	/* prepared rows, as a matrix wants */
	/* with experts only */
	float *router, *pick;		/* n_expert: outputs; what is chosen by */
	float *groups, *shared;		/* n_group; 1 */
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

/*
 * Work space, handed out piece by piece; without a base it only counts. Each
 * branch says in a function of its own what it takes for n columns of a layer,
 * which the context calls to count and the branch to place its rows.
 */
struct space {
	float *base;
	uint64_t used;
};
float *space_take(struct space *r, uint64_t n, uint64_t width);

void attention_space(struct space *r, const struct hparams *h, uint32_t il,
    uint64_t n);
void mla_space(struct space *r, const struct hparams *h, uint32_t il,
    uint64_t n);
void mamba_space(struct space *r, const struct hparams *h, uint64_t n);
void rwkv_space(struct space *r, const struct hparams *h, uint32_t il,
    uint64_t n);
void feed_space(struct space *r, const struct hparams *h, uint32_t il,
    uint64_t n);

/* ---- product.c ---- */

/* A matrix, and where its products with the rows go: n_cols x n_out. */
struct product {
	const struct weight *w;
	float *y;
	size_t part;	/* of a row that it meets; 0 if there is only one */
};
#define PRODUCTS 16

/* y = W x (+ bias) for up to PRODUCTS matrices, and n_cols rows x of n_parts *
   n_in values. y is not x. make(data, lo, hi), if not NULL, makes elements lo..hi
   of x before, counted through all rows; each thread does some. */
void multiply_parts(struct pico_ctx *c, const float *x, size_t n_cols,
    size_t n_parts, const struct product *p, size_t n, pool_fn *make,
    void *data);
/* The same where each matrix meets whole rows: its n_group * n_in values. */
void multiply(struct pico_ctx *c, const float *x, size_t n_cols,
    const struct product *p, size_t n);
void multiply_one(struct pico_ctx *c, const struct weight *w, const float *x,
    size_t n_cols, float *y);
/* Keeps what p is multiplied with, where that is wanted (collect.c). */
void collect_add(struct pico_ctx *c, const float *x, size_t n_cols,
    size_t n_parts, const struct product *p);
void collect_free(struct collect *k);

/* ---- branches of a layer: n_cols rows `in` to as many `out`, which may be
   the same ---- */

void attention(struct pico_ctx *c, uint32_t il, const float *in, float *out);
void mla(struct pico_ctx *c, uint32_t il, const float *in, float *out);
void mamba(struct pico_ctx *c, uint32_t il, const float *in, float *out);
void rwkv6(struct pico_ctx *c, uint32_t il, const float *in, float *out);
void rwkv7(struct pico_ctx *c, uint32_t il, const float *in, float *out);
void rwkv_channel_mix(struct pico_ctx *c, uint32_t il, const float *in,
    float *out);
/* Returns where the result is: out or a place of its own. */
float *feed(struct pico_ctx *c, uint32_t il, const float *in, float *out);

/* ---- what they share, in forward.c and attention.c ---- */

/* One row of n values; y may be x. */
void norm_row(const struct pico_ctx *c, const struct norm *norm,
    const float *x, size_t n, float *y);
/* Tells which weights come after those of layer il. */
void want_after(struct pico_ctx *c, uint32_t il);

/* Queries of a layer, and its keys and values in the cache: n_q queries of
   head_k for each column, and where the sums of head_v go. */
void attend_all(struct pico_ctx *c, uint32_t il, float *q, float *out,
    const float *sinks);
/* Puts the keys and values of a column's heads into the cache. */
void keep_row(struct pico_ctx *c, uint32_t il, size_t col, const float *k,
    const float *v);

#endif
