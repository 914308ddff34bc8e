/* SPDX-License-Identifier: MIT */
/*
 * The kernels: everything that touches many numbers. Private to lib/.
 *
 * THE DEFINITION. The scalar set in scalar.c defines the result of every
 * function here, bit for bit; a set for another instruction set must give the
 * same bits. This comment says all that such a set has to know.
 *
 * Arithmetic is IEEE 754 binary32, nearest-even, with subnormals. Written
 * a * b + c means two roundings; fma(a, b, c) means one. Integers never
 * overflow. int to float conversion rounds to nearest-even.
 *
 * TREE(n), for n a power of two: s[0..n) is summed by halves,
 *	for (h = n / 2; h > 0; h /= 2)  for (i < h)  s[i] += s[i + h];
 * and the result is s[0].
 *
 * SUM32 of terms: 32 partial sums, all starting as +0; element i goes to
 * partial i mod 32 in order of increasing i, by
 *	dot product		s = fma(w[i], x[i], s)
 *	sum of squares		s = fma(x[i], x[i], s)
 *	plain sum		s = s + x[i]
 * and then TREE(32). Where the length is no multiple of 32 the partials without
 * a last element stay as they are.
 *
 * Float dot product (activations F32): SUM32. F16 and BF16 weights are widened,
 * exactly; every type not named below is turned into float32 by
 * pico_dequantize() first.
 *
 * Quantized dot product. The activation row is quantized in blocks (of 32 for
 * ACT_Q8, of 256 for ACT_Q8K), and the row's dot product is
 *	acc[0..8) = +0;
 *	for each block b of the row, in order:
 *		a = &acc[b mod 8];
 *		*a = fma(dw * da, (float)isum, *a);
 *		*a = fma(dm * da, (float)msum, *a);	if the type has an offset
 *	TREE(8)
 * with da the scale of the activation block, qa its codes, and
 *	type              dw         isum                  dm     msum
 *	Q4_0 Q5_0 Q8_0    d          sum cw*qa             -
 *	IQ4_NL            d          sum cw*qa             -
 *	MXFP4             2^(e-128)  sum cw*qa             -
 *	Q4_1 Q5_1         d          sum cw*qa             m      sum qa
 *	Q2_K Q4_K Q5_K    d          sum_j sc_j sum cw*qa  -dmin  sum_j mn_j sum qa
 *	Q3_K Q6_K IQ4_XS  d          sum_j sc_j sum cw*qa  -
 * where cw is the signed code or code book value (offset subtracted: nib - 8
 * for Q4_0), j runs over the sub-blocks, and d, m, dmin are widened f16. Each
 * product dw * da (dm * da) is rounded to float32. All sums are integers below
 * 2^31 and exact in any order.
 *
 * Quantizing a block x. Let a = max |x|.
 * - If any x is NaN or infinite: d = NaN, all codes 0. The NaN then reaches
 *   every output of that column.
 * - If a < 2^-100: d = 0, all codes 0.
 * - Else t = 127 / a, code = t * x rounded to an integer, ties to even (t * x
 *   is rounded to float32 first); ACT_Q8: d = a / 127, ACT_Q8K: d = 1 / t. No code
 *   leaves -127..127.
 * (The usual Q8_K has t = -127 / M with M the largest element and its sign. The
 * products d * code are the same, so all that comes after is, too.)
 *
 * Norms, over n elements; w and b may be NULL, then their step is left out:
 *	rms_norm	r = 1 / sqrt(SUM32(x * x) / n + eps)
 *			y = (x * r) * w
 *	layer_norm	mean = SUM32(x) / n;  c = x - mean
 *			r = 1 / sqrt(SUM32(c * c) / n + eps)
 *			y = ((c * r) * w) + b
 *
 * Activation functions: as written at enum k_fn, from left to right, every
 * operation rounded. k_exp, k_tanh, k_erf: the operations of func.c.
 *
 * softmax: m = max x;  p = k_exp(x - m);  y = p / SUM32(p).
 *
 * max: the largest of the elements that are not NaN, -inf if there is none.
 *
 * rope, with c and s the entries of pair p in the tables (magnitude included):
 *	x' = x * c - y * s;  y' = x * s + y * c		(no fma)
 *
 * attend, of a query at position i, the last one that it sees. With a window it
 * sees keys j > i - window only; what the others hold does not matter. Keys are
 * walked in blocks at absolute positions 0, 64, 128, ...; the last one may be
 * short, and those in which no key is seen are left out:
 *	m = -inf; l[0..16) = 0; acc[] = 0;	with a sink: m = sink; l[0] = 1
 *	for each block, for the keys in it that are seen:
 *		s_j = +0, then s_j = fma(q[d], k_j[d], s_j) for d in order
 *		s_j = scale * s_j
 *		s_j = cap * k_tanh(s_j / cap)	with a cap
 *		s_j = s_j - slope * (float)(i - j)	with slopes
 *		n = max(m, max s_j);  c = k_exp(m - n);  m = n;
 *		p_j = k_exp(s_j - m)		p_j = 0 for all other keys
 *		l[e] = l[e] * c + ((p_e + p_(e+32)) + (p_(e+16) + p_(e+48))),
 *						p counted from the block's start
 *		acc[d] = acc[d] * c, then acc[d] = fma(p_j, v_j[d], acc[d])
 *						for the keys in order
 *	out[d] = acc[d] / TREE(16) of l
 * Where the maximum stays c is 1, and the products with it need not be made. (A
 * c that is NaN comes with a p that is.)
 *
 * The KV cache holds the keys, or the values, of one head. A value is a row. F32
 * and F16 are plain. Q8_0 has blocks of 32 elements, the last one filled up with
 * zeros: a scale as f16, then 32 codes. They are those of ACT_Q8, the scale
 * rounded to f16; the element is scale * code, which is exact in float32.
 * Keys have the same elements, but 16 of them lie side by side, a group at
 * positions 0, 16, 32, ...: element 0 of each, then element 1 of each, and so
 * on; of Q8_0 the 16 scales of a block, then its codes in this order. So lanes of
 * a vector are keys, and their sums need no adding up.
 *
 * Every output depends on its own row and column, its own query and keys, and
 * on nothing else: not on how the work was cut.
 */
#ifndef PICO_KERNEL_H
#define PICO_KERNEL_H

#include "../base/base.h"

/* ---- elementary functions (func.c) ----
   Same operations scalar and vector: no table, no branch that is not a select.
   The measured accuracy is in func.c. All keep NaN. */

float k_exp(float x);	/* the whole range; exp(-inf) = 0 */
float k_tanh(float x);
float k_erf(float x);

/* Activation functions of networks. */
enum k_fn {
	K_SILU,		/* x / (1 + exp(-x)) */
	K_GELU,		/* tanh form, as x / (1 + exp(-2u)),
			   u = 0.79788456 * x * (1 + 0.044715 * x * x) */
	K_GELU_ERF,	/* 0.5 * x * (1 + erf(x / sqrt 2)) */
	K_RELU,		/* max(x, 0) */
	K_RELU2,	/* max(x, 0) squared */
	K_EXP,		/* exp(x) */
	K_TANH,		/* tanh(x) */
	K_SIGMOID	/* 1 / (1 + exp(-x)) */
};
float k_apply(enum k_fn fn, float x);

/* ---- activations, as a weight type wants them ---- */

enum act_kind {
	ACT_F32,	/* the float row itself */
	ACT_Q8,		/* struct act_q8 for every 32 elements */
	ACT_Q8K,	/* struct act_q8k for every 256 elements */
	ACT_KINDS
};

struct act_q8 {
	float d;
	int8_t q[32];
	int32_t sum;	/* of q */
};

struct act_q8k {
	float d;
	int8_t q[256];
	int16_t sum[16];	/* of 16 codes each */
};

/* What the dot products of a weight type take. The id must be known. */
enum act_kind kernel_act_kind(uint32_t type);
/* Bytes of one row of n elements; a multiple of 4. */
size_t kernel_act_bytes(enum act_kind kind, size_t n);

/*
 * A product of a weight matrix and n_cols columns:
 *	y[c * y_stride + r] = row r of w . column c of x
 * The columns are prepared as kernel_act_kind(type) says: float rows as they
 * are, others by quantize(). n_in is a whole number of blocks of the type.
 * `next`, if it is not NULL, is where weights lie that the same thread will read
 * after these: a kernel that fetches ahead goes on there, not behind its rows.
 */
struct matmul {
	uint32_t type;		/* of the weights */
	const void *w, *next;
	size_t row_bytes, n_in;	/* rows follow each other without gaps */
	const void *x;
	size_t x_stride;	/* bytes from column to column */
	size_t n_cols;
	float *y;
	size_t y_stride;	/* floats from column to column */
};

/* ---- attention ---- */

enum kv_type { KV_F16, KV_F32, KV_Q8_0 };
#define KV_BLOCK_BYTES 34	/* of 32 elements of Q8_0 */

/* Bytes of a cached row of n elements. */
static inline size_t
kv_row_bytes(enum kv_type type, size_t n)
{
	return type == KV_F32 ? 4 * n : type == KV_F16 ? 2 * n :
	    (n + 31) / 32 * KV_BLOCK_BYTES;
}

/* Keys that lie side by side. Room for keys is asked for in whole groups, all of
   which may be read; what the keys hold that nobody sees does not matter. */
#define KV_SIDE 16

/* Where element d of key number j lies, of `dim` elements; of Q8_0 its code. */
static inline size_t
kv_key_at(enum kv_type type, size_t dim, size_t j, size_t d)
{
	size_t group = j / KV_SIDE * KV_SIDE * kv_row_bytes(type, dim);
	size_t lane = j % KV_SIDE;

	if (type != KV_Q8_0)
		return group + (d * KV_SIDE + lane) * kv_row_bytes(type, 1);
	return group + d / 32 * KV_SIDE * KV_BLOCK_BYTES +
	    (2 + d % 32) * KV_SIDE + lane;
}

/* The same of the scale. */
static inline size_t
kv_key_scale_at(size_t dim, size_t j, size_t d)
{
	return (j / KV_SIDE * ((dim + 31) / 32) + d / 32) * KV_SIDE *
	    KV_BLOCK_BYTES + j % KV_SIDE * 2;
}

/*
 * n_q query heads, which share a KV head, of n_cols columns: positions of one
 * sequence, one after the other. Column c sees the first n_keys + c keys, at
 * least one. Its queries begin at q + c * q_stride, its results at out + c *
 * out_stride.
 */
struct attend {
	enum kv_type type;
	size_t n_cols, n_q, n_keys;
	size_t dim_k, dim_v;
	const float *q;			/* n_q x dim_k, for each column */
	size_t q_stride;
	const void *k, *v;		/* keys of dim_k elements from number 0
					   on, side by side; rows of dim_v */
	float scale;
	float *out;			/* n_q x dim_v, for each column */
	size_t out_stride;
	/* What many models do without: zero and NULL then. */
	size_t window;			/* keys that are seen, at most */
	float cap;			/* of scores: cap * tanh(score / cap) */
	const float *slope;		/* n_q: ALiBi, what a score loses with
					   each position of distance */
	const float *sink;		/* n_q: the logit of a key that has no
					   value */
};

/* How many of the first n keys the query at the last of them does not see. */
static inline size_t
attend_hidden(const struct attend *a, size_t n)
{
	return a->window != 0 && n > a->window ? n - a->window : 0;
}

/* ---- instruction sets (cpu.c) ---- */

/* Those there are kernels for, the best first. */
enum cpu {
#if defined(__x86_64__)
#ifndef PICO_SMALL
	CPU_AVX512,
#endif
	CPU_AVX2,
#elif defined(__aarch64__)
	CPU_NEON_DOT, CPU_NEON,
#endif
	CPU_SCALAR, CPU_SETS
};

/* Whether this machine and its system have it. */
bool cpu_has(enum cpu set);
/* The best one here, or that which $PICO_CPU names. Fails with PICO_USAGE if
   that is unknown or cannot run here. */
int cpu_choose(enum cpu *set, struct pico_err *err);

/* ---- the kernels of one instruction set ---- */

struct kernels {
	const char *name;	/* as in $PICO_CPU */

	/* n floats to one prepared row of a kind other than ACT_F32; n is a
	   multiple of 32 or 256. */
	void (*quantize)(enum act_kind kind, const float *x, size_t n,
	    void *dst);
	/* Rows r0..r1 of a product. */
	void (*matmul)(const struct matmul *m, size_t r0, size_t r1);
	void (*attend)(const struct attend *a);
	/* A row of n floats to the cache's type; F16: nearest, ties to even.
	   Keys then go to their places, by kv_store_key(). */
	void (*kv_store)(enum kv_type type, const float *x, size_t n,
	    void *dst);

	/* y may be x. */
	void (*rms_norm)(const float *x, const float *w, size_t n, float eps,
	    float *y);
	void (*layer_norm)(const float *x, const float *w, const float *b,
	    size_t n, float eps, float *y);
	void (*softmax)(float *x, size_t n);	/* n >= 1 */
	/* Rotates the first n_rot elements of each of n_heads heads; cs and sn
	   have n_rot / 2 entries. half_split: pairs (p, p + n_rot / 2), else
	   (2p, 2p + 1). */
	void (*rope)(float *x, size_t n_heads, size_t head_dim, size_t n_rot,
	    const float *cs, const float *sn, bool half_split);

	void (*add)(float *y, const float *x, size_t n);	/* y += x */
	void (*mul)(float *y, const float *x, size_t n);	/* y *= x */
	void (*scale)(float *y, float a, size_t n);		/* y *= a */
	/* y = fma(a, x, y) */
	void (*axpy)(float *y, float a, const float *x, size_t n);
	void (*apply)(enum k_fn fn, float *x, size_t n);	/* x = fn(x) */
	/* g = fn(g) * u */
	void (*gate)(enum k_fn fn, float *g, const float *u, size_t n);
	float (*max)(const float *x, size_t n);
};

/* Key j of a head, with the kv_store of a set; and rows, as kv_store makes them,
   to and from their place among the keys. */
void kv_store_key(const struct kernels *k, enum kv_type type, const float *x,
    size_t dim, void *keys, size_t j);
void kv_put_key(enum kv_type type, const void *row, size_t dim, void *keys,
    size_t j);
void kv_get_key(enum kv_type type, const void *keys, size_t j, size_t dim,
    void *row);

/* kv_store of Q8_0, with the quantize of a set. */
void kv_store_q8_0(void (*quantize)(enum act_kind kind, const float *x,
    size_t n, void *dst), const float *x, size_t n, void *dst);

/* Those of cpu_choose(); static. NULL where that fails. */
const struct kernels *kernels_get(struct pico_err *err);

/* The sets, a file each. */
extern const struct kernels kernels_scalar;
#if defined(__x86_64__)
extern const struct kernels kernels_avx512, kernels_avx2;
#elif defined(__aarch64__)
extern const struct kernels kernels_neon_dot, kernels_neon;
#endif
/* All sets that can run on this machine, the best first, ended by NULL. */
const struct kernels *const *kernels_all(void);

#endif
