/* SPDX-License-Identifier: MIT */
/*
 * The scalar kernels. They are the definition that kernel.h describes: clear
 * first, fast where that costs nothing. Block layouts: the GGUF type table.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "../gguf/gguf.h"
#include "kernel.h"

/* Columns that one unpacked block of weights is multiplied with. */
#define COLS 16
/* Elements of a float row widened at once; every type's block divides it. */
#define PIECE 256
/* Keys in a block of attention. */
#define KEYS 64

/* ---- sums ---- */

/* TREE(n) of kernel.h; spoils s */
static float
tree(float *s, size_t n)
{
	for (size_t h = n / 2; h > 0; h /= 2)
		for (size_t i = 0; i < h; i++)
			s[i] += s[i + h];
	return s[0];
}

/* The partial sums of SUM32; n elements, the first at a multiple of 32. */
static void
dot_add(float *s, const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s[i % 32] = fmaf(a[i], b[i], s[i % 32]);
}

static float
sum_squares(const float *x, size_t n)
{
	float s[32] = { 0 };

	dot_add(s, x, x, n);
	return tree(s, 32);
}

static float
sum(const float *x, size_t n)
{
	float s[32] = { 0 };

	for (size_t i = 0; i < n; i++)
		s[i % 32] += x[i];
	return tree(s, 32);
}

/*
 * f16_to_f32() without branches: as a float32 with the same fields a half is
 * 2^112 times too small, subnormals included; only infinities and NaN need
 * their exponent filled up.
 */
static inline float
half(uint16_t h)
{
	uint32_t u = (uint32_t)(h & 0x7fff) << 13;
	float f = get_f32(&u) * 0x1p112f;

	u = get_u32(&f) | (uint32_t)(h & 0x8000) << 16 |
	    ((h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0);
	return get_f32(&u);
}

/* ---- quantizing activations ---- */

/* Codes of a block; returns t, and in *a the largest magnitude. */
static float
quantize_block(const float *x, size_t n, int8_t *q, float *a)
{
	const float round = 0x1.8p23f;
	uint32_t top = 0, u;
	float t;

	/* magnitudes of floats are ordered like their bits; NaN is on top */
	for (size_t i = 0; i < n; i++) {
		u = get_u32(&x[i]) & 0x7fffffff;
		top = u > top ? u : top;
	}
	*a = get_f32(&top);
	if (!(*a >= 0x1p-100f) || *a > FLT_MAX) {
		memset(q, 0, n);
		return 0;
	}
	t = 127 / *a;
	for (size_t i = 0; i < n; i++) {
		float r = t * x[i] + round;

		q[i] = (int8_t)(get_u32(&r) - get_u32(&round));
	}
	return t;
}

/* The scale of a block without codes. */
static float
no_scale(float a)
{
	return a < 0x1p-100f ? 0 : NAN;
}

static void
quantize(enum act_kind kind, const float *x, size_t n, void *dst)
{
	struct act_q8 *b8 = dst;
	struct act_q8k *bk = dst;
	float t, a;

	if (kind == ACT_Q8) {
		for (size_t b = 0; b < n / 32; b++) {
			t = quantize_block(x + 32 * b, 32, b8[b].q, &a);
			b8[b].d = t != 0 ? a / 127 : no_scale(a);
			b8[b].sum = 0;
			for (int i = 0; i < 32; i++)
				b8[b].sum += b8[b].q[i];
		}
		return;
	}
	for (size_t b = 0; b < n / 256; b++) {
		t = quantize_block(x + 256 * b, 256, bk[b].q, &a);
		bk[b].d = t != 0 ? 1 / t : no_scale(a);
		for (int s = 0; s < 16; s++) {
			int v = 0;

			for (int i = 0; i < 16; i++)
				v += bk[b].q[16 * s + i];
			bk[b].sum[s] = (int16_t)v;
		}
	}
}

/* ---- unpacking weights ---- */

/*
 * A block of weights: value = d * scale * q + m * min, where scale and min
 * belong to the element's sixteenth of a super-block; in a block of 32 they are
 * 1 and not filled in.
 */
struct block {
	float d, m;
	int8_t q[256];
	int16_t scale[16], min[16];
};

static const int8_t iq4_book[16] = {
	-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};
/* E2M1, doubled */
static const int8_t fp4_book[16] = {
	0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
};

/* Nibble order of the 32-blocks: byte j has elements j and j + 16. */
static void
nibbles(const uint8_t *qs, int8_t *q, int offset)
{
	for (int j = 0; j < 16; j++) {
		q[j] = (int8_t)((qs[j] & 15) - offset);
		q[j + 16] = (int8_t)((qs[j] >> 4) - offset);
	}
}

static void
book_nibbles(const uint8_t *qs, int8_t *q, const int8_t *book)
{
	for (int j = 0; j < 16; j++) {
		q[j] = book[qs[j] & 15];
		q[j + 16] = book[qs[j] >> 4];
	}
}

static void
unpack_q4_0(const uint8_t *p, struct block *b)
{
	b->d = half(get_u16(p));
	nibbles(p + 2, b->q, 8);
}

static void
unpack_q4_1(const uint8_t *p, struct block *b)
{
	b->d = half(get_u16(p));
	b->m = half(get_u16(p + 2));
	nibbles(p + 4, b->q, 0);
}

static void
unpack_q5_0(const uint8_t *p, struct block *b)
{
	uint32_t high = get_u32(p + 2);

	b->d = half(get_u16(p));
	nibbles(p + 6, b->q, 16);
	for (int e = 0; e < 32; e++)
		b->q[e] = (int8_t)(b->q[e] + (int)(high >> e & 1) * 16);
}

static void
unpack_q5_1(const uint8_t *p, struct block *b)
{
	uint32_t high = get_u32(p + 4);

	b->d = half(get_u16(p));
	b->m = half(get_u16(p + 2));
	nibbles(p + 8, b->q, 0);
	for (int e = 0; e < 32; e++)
		b->q[e] = (int8_t)(b->q[e] + (int)(high >> e & 1) * 16);
}

static void
unpack_q8_0(const uint8_t *p, struct block *b)
{
	b->d = half(get_u16(p));
	memcpy(b->q, p + 2, 32);
}

static void
unpack_iq4_nl(const uint8_t *p, struct block *b)
{
	b->d = half(get_u16(p));
	book_nibbles(p + 2, b->q, iq4_book);
}

static void
unpack_mxfp4(const uint8_t *p, struct block *b)
{
	/* 2^(e - 128): the exponent field is e - 1, or the factor subnormal */
	uint32_t u = p[0] >= 2 ? (uint32_t)(p[0] - 1) << 23 :
	    (uint32_t)0x200000 << p[0];

	b->d = get_f32(&u);
	book_nibbles(p + 1, b->q, fp4_book);
}

/* The two bits of element 128h + 32k + l are in byte 32h + l, from bit 2k. */
static void
pairs(const uint8_t *qs, int8_t *q)
{
	for (int h = 0; h < 2; h++)
		for (int k = 0; k < 4; k++)
			for (int l = 0; l < 32; l++)
				q[128 * h + 32 * k + l] =
				    (int8_t)(qs[32 * h + l] >> 2 * k & 3);
}

static void
unpack_q2_k(const uint8_t *p, struct block *b)
{
	b->d = half(get_u16(p + 80));
	b->m = -half(get_u16(p + 82));
	for (int s = 0; s < 16; s++) {
		b->scale[s] = p[s] & 15;
		b->min[s] = p[s] >> 4;
	}
	pairs(p + 16, b->q);
}

static void
unpack_q3_k(const uint8_t *p, struct block *b)
{
	const uint8_t *sc = p + 96;

	b->d = half(get_u16(p + 108));
	for (int s = 0; s < 16; s++) {
		int low = s < 8 ? sc[s] & 15 : sc[s - 8] >> 4;
		int high = sc[8 + s % 4] >> 2 * (s / 4) & 3;

		b->scale[s] = (int16_t)((low | high << 4) - 32);
	}
	pairs(p + 32, b->q);
	for (int e = 0; e < 256; e++)
		b->q[e] = (int8_t)(b->q[e] +
		    (p[e % 32] >> e / 32 & 1) * 4 - 4);
}

/* Q4_K and Q5_K: 8 scales and 8 minima of six bits in 12 bytes */
static void
six_bits(const uint8_t *p, struct block *b)
{
	for (int j = 0; j < 8; j++) {
		int sc = j < 4 ? p[j] & 63 :
		    (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
		int mn = j < 4 ? p[j + 4] & 63 :
		    p[j + 4] >> 4 | p[j] >> 6 << 4;

		b->scale[2 * j] = b->scale[2 * j + 1] = (int16_t)sc;
		b->min[2 * j] = b->min[2 * j + 1] = (int16_t)mn;
	}
}

/* 32 bytes hold 64 elements: 32 in the low nibbles, then 32 in the high. */
static void
long_nibbles(const uint8_t *qs, int8_t *q)
{
	for (int c = 0; c < 4; c++) {
		for (int l = 0; l < 32; l++) {
			q[64 * c + l] = qs[32 * c + l] & 15;
			q[64 * c + 32 + l] = (int8_t)(qs[32 * c + l] >> 4);
		}
	}
}

static void
unpack_q4_k(const uint8_t *p, struct block *b)
{
	b->d = half(get_u16(p));
	b->m = -half(get_u16(p + 2));
	six_bits(p + 4, b);
	long_nibbles(p + 16, b->q);
}

static void
unpack_q5_k(const uint8_t *p, struct block *b)
{
	b->d = half(get_u16(p));
	b->m = -half(get_u16(p + 2));
	six_bits(p + 4, b);
	long_nibbles(p + 48, b->q);
	for (int e = 0; e < 256; e++)
		b->q[e] = (int8_t)(b->q[e] +
		    (p[16 + e % 32] >> e / 32 & 1) * 16);
}

static void
unpack_q6_k(const uint8_t *p, struct block *b)
{
	b->d = half(get_u16(p + 208));
	for (int s = 0; s < 16; s++)
		b->scale[s] = (int8_t)p[192 + s];
	for (int h = 0; h < 2; h++) {
		for (int k = 0; k < 4; k++) {
			for (int l = 0; l < 32; l++) {
				int low = p[64 * h + 32 * (k % 2) + l] >>
				    4 * (k / 2) & 15;
				int high = p[128 + 32 * h + l] >> 2 * k & 3;

				b->q[128 * h + 32 * k + l] =
				    (int8_t)((low | high << 4) - 32);
			}
		}
	}
}

static void
unpack_iq4_xs(const uint8_t *p, struct block *b)
{
	uint16_t high = get_u16(p + 2);

	b->d = half(get_u16(p));
	for (int i = 0; i < 8; i++) {
		int sc = (p[4 + i / 2] >> 4 * (i % 2) & 15) |
		    (high >> 2 * i & 3) << 4;

		b->scale[2 * i] = b->scale[2 * i + 1] = (int16_t)(sc - 32);
		book_nibbles(p + 8 + 16 * i, b->q + 32 * i, iq4_book);
	}
}

static const struct format {
	uint32_t type;
	size_t bytes;		/* of a block */
	bool offset;		/* has minima */
	void (*unpack)(const uint8_t *p, struct block *b);
} formats[] = {
	{ TYPE_Q4_0, 18, false, unpack_q4_0 },
	{ TYPE_Q4_1, 20, true, unpack_q4_1 },
	{ TYPE_Q5_0, 22, false, unpack_q5_0 },
	{ TYPE_Q5_1, 24, true, unpack_q5_1 },
	{ TYPE_Q8_0, 34, false, unpack_q8_0 },
	{ TYPE_IQ4_NL, 18, false, unpack_iq4_nl },
	{ TYPE_MXFP4, 17, false, unpack_mxfp4 },
	{ TYPE_Q2_K, 84, true, unpack_q2_k },
	{ TYPE_Q3_K, 110, false, unpack_q3_k },
	{ TYPE_Q4_K, 144, true, unpack_q4_k },
	{ TYPE_Q5_K, 176, true, unpack_q5_k },
	{ TYPE_Q6_K, 210, false, unpack_q6_k },
	{ TYPE_IQ4_XS, 136, false, unpack_iq4_xs }
};

/* ---- products ---- */

static int32_t
dot_int(const int8_t *a, const int8_t *b, size_t n)
{
	int32_t s = 0;

	for (size_t i = 0; i < n; i++)
		s += a[i] * b[i];
	return s;
}

/* Adds what a block contributes to one of the eight accumulators. */
static float
term_q8(const struct block *w, const struct act_q8 *a, bool offset, float acc)
{
	acc = fmaf(w->d * a->d, (float)dot_int(w->q, a->q, 32), acc);
	return offset ? fmaf(w->m * a->d, (float)a->sum, acc) : acc;
}

static float
term_q8k(const struct block *w, const struct act_q8k *a, bool offset, float acc)
{
	int32_t isum = 0, msum = 0;

	for (int s = 0; s < 16; s++)
		isum += w->scale[s] * dot_int(w->q + 16 * s, a->q + 16 * s, 16);
	acc = fmaf(w->d * a->d, (float)isum, acc);
	if (!offset)
		return acc;
	for (int s = 0; s < 16; s++)
		msum += w->min[s] * a->sum[s];
	return fmaf(w->m * a->d, (float)msum, acc);
}

/* A row of quantized weights with at most COLS columns. */
static void
row_quantized(const struct matmul *m, const struct format *f, const uint8_t *w,
    const uint8_t *x, size_t cols, float *y)
{
	bool super = kernel_act_kind(m->type) == ACT_Q8K;
	size_t n_blocks = m->n_in / (super ? 256 : 32);
	float acc[COLS][8] = { { 0 } };
	struct block b;

	for (size_t i = 0; i < n_blocks; i++) {
		f->unpack(w + i * f->bytes, &b);
		for (size_t c = 0; c < cols; c++) {
			const void *a = x + c * m->x_stride;
			float *s = &acc[c][i % 8];

			*s = super ?
			    term_q8k(&b, (const struct act_q8k *)a + i,
			    f->offset, *s) :
			    term_q8(&b, (const struct act_q8 *)a + i,
			    f->offset, *s);
		}
	}
	for (size_t c = 0; c < cols; c++)
		y[c * m->y_stride] = tree(acc[c], 8);
}

/* n weights from element `at` of a row on, as float32 */
static void
widen(uint32_t type, const uint8_t *w, size_t at, size_t n, float *dst)
{
	const struct pico_type *t;

	switch (type) {
	case TYPE_F32:
		memcpy(dst, w + 4 * at, 4 * n);
		break;
	case TYPE_F16:
		for (size_t i = 0; i < n; i++)
			dst[i] = half(get_u16(w + 2 * (at + i)));
		break;
	case TYPE_BF16:
		for (size_t i = 0; i < n; i++)
			dst[i] = bf16_to_f32(get_u16(w + 2 * (at + i)));
		break;
	default:
		t = pico_type(type);
		pico_dequantize(type, w + at / t->block * t->bytes, dst, n);
	}
}

static void
row_float(const struct matmul *m, const uint8_t *w, const uint8_t *x,
    size_t cols, float *y)
{
	float s[COLS][32] = { { 0 } }, buf[PIECE];

	for (size_t i = 0; i < m->n_in; i += PIECE) {
		size_t n = MIN(PIECE, m->n_in - i);

		widen(m->type, w, i, n, buf);
		for (size_t c = 0; c < cols; c++)
			dot_add(s[c], buf,
			    (const float *)(const void *)(x + c * m->x_stride) +
			    i, n);
	}
	for (size_t c = 0; c < cols; c++)
		y[c * m->y_stride] = tree(s[c], 32);
}

static void
matmul(const struct matmul *m, size_t r0, size_t r1)
{
	const struct format *f = NULL;

	for (size_t i = 0; i < COUNT(formats); i++)
		if (formats[i].type == m->type)
			f = &formats[i];
	for (size_t r = r0; r < r1; r++) {
		const uint8_t *w = (const uint8_t *)m->w + r * m->row_bytes;

		for (size_t c = 0; c < m->n_cols; c += COLS) {
			size_t cols = MIN(COLS, m->n_cols - c);
			const uint8_t *x = (const uint8_t *)m->x +
			    c * m->x_stride;
			float *y = m->y + c * m->y_stride + r;

			if (f != NULL)
				row_quantized(m, f, w, x, cols, y);
			else
				row_float(m, w, x, cols, y);
		}
	}
}

/* ---- attention ---- */

static float
max(const float *x, size_t n)
{
	float m = -INFINITY;

	for (size_t i = 0; i < n; i++)
		m = x[i] > m ? x[i] : m;
	return m;
}

/* Elements d.. of a cached value of dim, at most 32; d is a multiple of 32.
   Returns how many. */
static size_t
cached(enum kv_type type, const uint8_t *row, size_t d, size_t dim, float *dst)
{
	const uint8_t *block = row + d / 32 * KV_BLOCK_BYTES;
	size_t n = MIN(32, dim - d);
	float scale;

	switch (type) {
	case KV_F32:
		memcpy(dst, row + 4 * d, 4 * n);
		break;
	case KV_F16:
		for (size_t i = 0; i < n; i++)
			dst[i] = half(get_u16(row + 2 * (d + i)));
		break;
	case KV_Q8_0:
		scale = half(get_u16(block));
		for (size_t i = 0; i < n; i++)
			dst[i] = scale * (int8_t)block[2 + i];
		break;
	}
	return n;
}

/* Element d of key j. */
static float
key_element(const struct attend *a, size_t j, size_t d)
{
	const uint8_t *k = a->k, *at = k + kv_key_at(a->type, a->dim_k, j, d);

	switch (a->type) {
	case KV_F32:
		return get_f32(at);
	case KV_F16:
		return half(get_u16(at));
	default:
		return half(get_u16(k + kv_key_scale_at(a->dim_k, j, d))) *
		    (int8_t)*at;
	}
}

/* How well key j fits the query. */
static float
score(const struct attend *a, size_t j)
{
	float s = 0;

	for (size_t d = 0; d < a->dim_k; d++)
		s = fmaf(a->q[d], key_element(a, j, d), s);
	s *= a->scale;
	if (a->cap != 0)
		s = a->cap * k_tanh(s / a->cap);
	if (a->slope != NULL)
		s -= *a->slope * (float)(a->n_keys - 1 - j);
	return s;
}

/* out += p * value j */
static void
add_value(const struct attend *a, size_t j, float p)
{
	const uint8_t *value = (const uint8_t *)a->v +
	    j * kv_row_bytes(a->type, a->dim_v);
	float v[32];

	for (size_t d = 0, n; d < a->dim_v; d += n) {
		n = cached(a->type, value, d, a->dim_v, v);
		for (size_t i = 0; i < n; i++)
			a->out[d + i] = fmaf(p, v[i], a->out[d + i]);
	}
}

/* One query: softmax over keys as they come (Milakov and Gimelshein 2018). */
static void
attend_one(const struct attend *a)
{
	float m = a->sink != NULL ? *a->sink : -INFINITY, top, shrink;
	float l[16] = { a->sink != NULL }, p[KEYS], sum;
	size_t hidden = attend_hidden(a, a->n_keys);

	memset(a->out, 0, a->dim_v * sizeof *a->out);
	for (size_t j0 = hidden / KEYS * KEYS; j0 < a->n_keys; j0 += KEYS) {
		size_t n = MIN(KEYS, a->n_keys - j0);
		size_t from = hidden > j0 ? hidden - j0 : 0;

		for (size_t j = from; j < n; j++)
			p[j] = score(a, j0 + j);
		top = max(p + from, n - from);
		top = top > m ? top : m;
		shrink = k_exp(m - top);
		m = top;
		for (size_t j = 0; j < KEYS; j++)
			p[j] = j >= from && j < n ? k_exp(p[j] - m) : 0;
		for (size_t d = 0; d < a->dim_v; d++)
			a->out[d] *= shrink;
		for (size_t j = from; j < n; j++)
			add_value(a, j0 + j, p[j]);
		for (size_t e = 0; e < 16; e++)
			l[e] = l[e] * shrink + ((p[e] + p[e + 32]) +
			    (p[e + 16] + p[e + 48]));
	}
	sum = tree(l, 16);
	for (size_t d = 0; d < a->dim_v; d++)
		a->out[d] /= sum;
}

/* One query after the other. */
static void
attend(const struct attend *a)
{
	struct attend one = *a;

	one.n_cols = one.n_q = 1;
	for (size_t c = 0; c < a->n_cols; c++, one.n_keys++)
		for (size_t i = 0; i < a->n_q; i++) {
			one.q = a->q + c * a->q_stride + i * a->dim_k;
			one.out = a->out + c * a->out_stride + i * a->dim_v;
			one.slope = a->slope != NULL ? a->slope + i : NULL;
			one.sink = a->sink != NULL ? a->sink + i : NULL;
			attend_one(&one);
		}
}

static void
kv_store(enum kv_type type, const float *x, size_t n, void *dst)
{
	switch (type) {
	case KV_F32:
		memcpy(dst, x, n * sizeof *x);
		break;
	case KV_F16:
		for (size_t i = 0; i < n; i++)
			((uint16_t *)dst)[i] = f32_to_f16(x[i]);
		break;
	case KV_Q8_0:
		kv_store_q8_0(quantize, x, n, dst);
		break;
	}
}

/* ---- row operations ---- */

static void
rms_norm(const float *x, const float *w, size_t n, float eps, float *y)
{
	float r = 1 / sqrtf(sum_squares(x, n) / (float)n + eps);

	for (size_t i = 0; i < n; i++)
		y[i] = w != NULL ? x[i] * r * w[i] : x[i] * r;
}

static void
layer_norm(const float *x, const float *w, const float *b, size_t n, float eps,
    float *y)
{
	float mean = sum(x, n) / (float)n, r;

	for (size_t i = 0; i < n; i++)
		y[i] = x[i] - mean;
	r = 1 / sqrtf(sum_squares(y, n) / (float)n + eps);
	for (size_t i = 0; i < n; i++) {
		y[i] *= r;
		if (w != NULL)
			y[i] *= w[i];
		if (b != NULL)
			y[i] += b[i];
	}
}

static void
softmax(float *x, size_t n)
{
	float m = max(x, n), l;

	for (size_t i = 0; i < n; i++)
		x[i] = k_exp(x[i] - m);
	l = sum(x, n);
	for (size_t i = 0; i < n; i++)
		x[i] /= l;
}

static void
rope(float *x, size_t n_heads, size_t head_dim, size_t n_rot, const float *cs,
    const float *sn, bool half_split)
{
	size_t step = half_split ? 1 : 2, apart = half_split ? n_rot / 2 : 1;

	for (size_t h = 0; h < n_heads; h++, x += head_dim) {
		for (size_t p = 0; p < n_rot / 2; p++) {
			float *a = x + p * step, *b = a + apart;
			float u = *a, v = *b;

			*a = u * cs[p] - v * sn[p];
			*b = u * sn[p] + v * cs[p];
		}
	}
}

static void
add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

static void
mul(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] *= x[i];
}

static void
scale(float *y, float a, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] *= a;
}

static void
axpy(float *y, float a, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = fmaf(a, x[i], y[i]);
}

static void
apply(enum k_fn fn, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = k_apply(fn, x[i]);
}

static void
gate(enum k_fn fn, float *g, const float *u, size_t n)
{
	for (size_t i = 0; i < n; i++)
		g[i] = k_apply(fn, g[i]) * u[i];
}

const struct kernels kernels_scalar = {
	.name = "scalar",
	.quantize = quantize,
	.matmul = matmul,
	.attend = attend,
	.kv_store = kv_store,
	.rms_norm = rms_norm,
	.layer_norm = layer_norm,
	.softmax = softmax,
	.rope = rope,
	.add = add,
	.mul = mul,
	.scale = scale,
	.axpy = axpy,
	.apply = apply,
	.gate = gate,
	.max = max
};
