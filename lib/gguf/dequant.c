/* SPDX-License-Identifier: MIT */
/*
 * Tensor blocks to float32. Each function turns one block b into its values y;
 * e is the index of an element in the block.
 *
 * The products of scales and codes fit in the 24 bits of a float32, so they are
 * exact in any order, and what is left is at most one addition: each result is
 * the real value of the formula, rounded once.
 */
#include <math.h>

#include "gguf.h"
#include "iq_grids.h"

static float
f16_at(const uint8_t *p)
{
	return f16_to_f32(get_u16(p));
}

/* ---- plain numbers ----------------------------------------------------- */

static void
block_f32(const uint8_t *b, float *y)
{
	*y = get_f32(b);
}

static void
block_f16(const uint8_t *b, float *y)
{
	*y = f16_at(b);
}

static void
block_bf16(const uint8_t *b, float *y)
{
	*y = bf16_to_f32(get_u16(b));
}

static void
block_f64(const uint8_t *b, float *y)
{
	*y = (float)get_f64(b);
}

static void
block_i8(const uint8_t *b, float *y)
{
	*y = (float)(int8_t)*b;
}

static void
block_i16(const uint8_t *b, float *y)
{
	*y = (float)(int16_t)get_u16(b);
}

static void
block_i32(const uint8_t *b, float *y)
{
	*y = (float)(int32_t)get_u32(b);
}

static void
block_i64(const uint8_t *b, float *y)
{
	*y = (float)(int64_t)get_u64(b);
}

/* ---- blocks of 32 ------------------------------------------------------ */

/* Byte j of 16 holds elements j (low) and j + 16 (high). */
static int
nibble(const uint8_t *qs, int e)
{
	return e < 16 ? qs[e] & 15 : qs[e - 16] >> 4;
}

static int
fifth_bit(uint32_t qh, int e)
{
	return (int)(qh >> e & 1) << 4;
}

static void
block_q4_0(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	int e;

	for (e = 0; e < 32; e++)
		y[e] = d * (float)(nibble(b + 2, e) - 8);
}

static void
block_q4_1(const uint8_t *b, float *y)
{
	float d = f16_at(b), m = f16_at(b + 2);
	int e;

	for (e = 0; e < 32; e++)
		y[e] = d * (float)nibble(b + 4, e) + m;
}

static void
block_q5_0(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	uint32_t qh = get_u32(b + 2);
	int e;

	for (e = 0; e < 32; e++)
		y[e] = d * (float)((nibble(b + 6, e) | fifth_bit(qh, e)) - 16);
}

static void
block_q5_1(const uint8_t *b, float *y)
{
	float d = f16_at(b), m = f16_at(b + 2);
	uint32_t qh = get_u32(b + 4);
	int e;

	for (e = 0; e < 32; e++)
		y[e] = d * (float)(nibble(b + 8, e) | fifth_bit(qh, e)) + m;
}

static void
bytes(float d, const uint8_t *qs, int n, float *y)
{
	int e;

	for (e = 0; e < n; e++)
		y[e] = d * (float)(int8_t)qs[e];
}

static void
block_q8_0(const uint8_t *b, float *y)
{
	bytes(f16_at(b), b + 2, 32, y);
}

static void
block_q8_1(const uint8_t *b, float *y)
{
	bytes(f16_at(b), b + 4, 32, y);
}

/* ---- K: 256 elements, scales of sub-blocks quantized themselves --------- */

/* Two bits of element e: 32 bytes hold 128 elements, 32 of them in each pair
   of bits. */
static int
two_bits(const uint8_t *qs, int e)
{
	return qs[e / 128 * 32 + e % 32] >> e % 128 / 32 * 2 & 3;
}

static void
block_q2_k(const uint8_t *b, float *y)
{
	float d = f16_at(b + 80), dmin = f16_at(b + 82);
	int e;

	for (e = 0; e < 256; e++) {
		uint8_t s = b[e / 16];

		y[e] = d * (float)((s & 15) * two_bits(b + 16, e)) -
		    dmin * (float)(s >> 4);
	}
}

/* Six-bit scale s of 16 in 12 bytes, less 32. */
static int
scale_q3_k(const uint8_t *p, int s)
{
	int low = s < 8 ? p[s] & 15 : p[s - 8] >> 4;
	int high = p[8 + s % 4] >> s / 4 * 2 & 3;

	return (low | high << 4) - 32;
}

static void
block_q3_k(const uint8_t *b, float *y)
{
	float d = f16_at(b + 108);
	int e, q;

	for (e = 0; e < 256; e++) {
		q = two_bits(b + 32, e) | (b[e % 32] >> e / 32 & 1) << 2;
		y[e] = d * (float)(scale_q3_k(b + 96, e / 16) * (q - 4));
	}
}

/* Scale and minimum j of 8, six bits each, in 12 bytes. */
static void
scale_q4_k(const uint8_t *p, int j, int *scale, int *min)
{
	if (j < 4) {
		*scale = p[j] & 63;
		*min = p[j + 4] & 63;
	} else {
		*scale = (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
		*min = p[j + 4] >> 4 | p[j] >> 6 << 4;
	}
}

static void
block_q4_k(const uint8_t *b, float *y)
{
	float d = f16_at(b), dmin = f16_at(b + 2);
	int e, q, scale, min;

	for (e = 0; e < 256; e++) {
		scale_q4_k(b + 4, e / 32, &scale, &min);
		q = b[16 + e / 64 * 32 + e % 32] >> e % 64 / 32 * 4 & 15;
		y[e] = d * (float)(scale * q) - dmin * (float)min;
	}
}

static void
block_q5_k(const uint8_t *b, float *y)
{
	float d = f16_at(b), dmin = f16_at(b + 2);
	int e, q, scale, min;

	for (e = 0; e < 256; e++) {
		scale_q4_k(b + 4, e / 32, &scale, &min);
		q = b[48 + e / 64 * 32 + e % 32] >> e % 64 / 32 * 4 & 15;
		q |= (b[16 + e % 32] >> e / 32 & 1) << 4;
		y[e] = d * (float)(scale * q) - dmin * (float)min;
	}
}

static void
block_q6_k(const uint8_t *b, float *y)
{
	float d = f16_at(b + 208);
	int e, q, k;

	for (e = 0; e < 256; e++) {
		k = e % 128 / 32;
		q = b[e / 128 * 64 + k % 2 * 32 + e % 32] >> k / 2 * 4 & 15;
		q |= two_bits(b + 128, e) << 4;
		y[e] = d * (float)((int8_t)b[192 + e / 16] * (q - 32));
	}
}

static void
block_q8_k(const uint8_t *b, float *y)
{
	bytes(get_f32(b), b + 4, 256, y);
}

/* ---- IQ4: four bits through a code book --------------------------------- */

static const int8_t book_iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
    1, 13, 25, 38, 53, 69, 89, 113 };

static void
block_iq4_nl(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	int e;

	for (e = 0; e < 32; e++)
		y[e] = d * (float)book_iq4[nibble(b + 2, e)];
}

static void
block_iq4_xs(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	int high = get_u16(b + 2), i, e, scale;

	for (i = 0; i < 8; i++) {
		scale = (b[4 + i / 2] >> i % 2 * 4 & 15) |
		    (high >> 2 * i & 3) << 4;
		for (e = 0; e < 32; e++)
			y[32 * i + e] = d * (float)((scale - 32) *
			    book_iq4[nibble(b + 8 + 16 * i, e)]);
	}
}

/* ---- IQ1, IQ2, IQ3: groups of elements through grids -------------------- */

/* Seven signs; the eighth makes the number of minus signs even. */
static unsigned
eight_signs(unsigned t)
{
	unsigned p = t ^ t >> 4;

	p ^= p >> 2;
	p ^= p >> 1;
	return t | (p & 1) << 7;
}

static void
group_iq2(float d, unsigned entry, unsigned signs, float *y)
{
	static const int8_t book[4] = { 8, 25, 43, 0 };
	int j, v;

	for (j = 0; j < 8; j++) {
		v = book[entry >> 2 * j & 3];
		y[j] = d * (float)(signs >> j & 1 ? -v : v);
	}
}

static float
scale_iq2(float d, unsigned code)
{
	return d * (0.5f + (float)code) * 0.25f;
}

static void
block_iq2_xxs(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	int g;

	for (g = 0; g < 32; g++) {
		const uint8_t *rec = b + 2 + g / 4 * 8;
		uint32_t w = get_u32(rec + 4);

		group_iq2(scale_iq2(d, w >> 28), grid_iq2xxs[rec[g % 4]],
		    eight_signs(w >> g % 4 * 7 & 127), y + 8 * g);
	}
}

/* Scales of half 32-blocks, one in each nibble. */
static unsigned
scale_half(const uint8_t *scales, int g)
{
	return scales[g / 4] >> g % 4 / 2 * 4 & 15;
}

static void
block_iq2_xs(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	unsigned q;
	int g;

	for (g = 0; g < 32; g++) {
		q = get_u16(b + 2 + 2 * g);
		group_iq2(scale_iq2(d, scale_half(b + 66, g)),
		    grid_iq2xs[q & 511], eight_signs(q >> 9), y + 8 * g);
	}
}

static void
block_iq2_s(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	unsigned k;
	int g;

	for (g = 0; g < 32; g++) {
		k = b[2 + g] | (b[66 + g / 4] >> g % 4 * 2 & 3u) << 8;
		group_iq2(scale_iq2(d, scale_half(b + 74, g)), grid_iq2s[k],
		    b[34 + g], y + 8 * g);
	}
}

static void
block_iq3_xxs(const uint8_t *b, float *y)
{
	static const int8_t book[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
	float d = f16_at(b), scale;
	unsigned signs, entry;
	int g, j, v;

	for (g = 0; g < 64; g++) {	/* of four */
		uint32_t w = get_u32(b + 66 + g / 8 * 4);

		signs = eight_signs(w >> g % 8 / 2 * 7 & 127) >> g % 2 * 4;
		entry = grid_iq3xxs[b[2 + g]];
		scale = d * (0.5f + (float)(w >> 28)) * 0.5f;
		for (j = 0; j < 4; j++) {
			v = book[entry >> 3 * j & 7];
			y[4 * g + j] = scale *
			    (float)(v * (1 - 2 * (int)(signs >> j & 1)));
		}
	}
}

static void
block_iq3_s(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	unsigned signs, entry;
	int g, j, v, scale;

	for (g = 0; g < 64; g++) {	/* of four */
		signs = b[74 + g / 2] >> g % 2 * 4;
		entry = grid_iq3s[b[2 + g] | (b[66 + g / 8] >> g % 8 & 1) << 8];
		scale = 2 * (b[106 + g / 16] >> g % 16 / 8 * 4 & 15) + 1;
		for (j = 0; j < 4; j++) {
			v = scale * (2 * (int)(entry >> 3 * j & 7) + 1);
			y[4 * g + j] = d *
			    (float)(v * (1 - 2 * (int)(signs >> j & 1)));
		}
	}
}

static void
group_iq1(float d, unsigned entry, bool minus, float *y)
{
	int j;

	for (j = 0; j < 8; j++)
		y[j] = d * ((float)(int)(entry >> 2 * j & 3) - 1.0f +
		    (minus ? -0.125f : 0.125f));
}

static void
block_iq1_s(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	unsigned qh, k;
	int g;

	for (g = 0; g < 32; g++) {
		qh = get_u16(b + 34 + g / 4 * 2);
		k = b[2 + g] | (qh >> g % 4 * 3 & 7) << 8;
		group_iq1(d * (float)(2 * (qh >> 12 & 7) + 1), grid_iq1s[k],
		    (qh & 0x8000) != 0, y + 8 * g);
	}
}

/* The f16 scale of a block is spread over the top nibbles of four numbers. */
static float
scale_iq1_m(const uint8_t *b)
{
	unsigned i, d = 0;

	for (i = 0; i < 4; i++)
		d |= (unsigned)(get_u16(b + 48 + 2 * i) >> 12) << 4 * i;
	return f16_to_f32((uint16_t)d);
}

static void
block_iq1_m(const uint8_t *b, float *y)
{
	float d = scale_iq1_m(b);
	unsigned n, k, s, code;
	int g;

	for (g = 0; g < 32; g++) {
		s = (unsigned)g / 2;
		code = get_u16(b + 48 + s / 4 * 2) >> s % 4 * 3 & 7;
		n = b[32 + g / 2] >> g % 2 * 4 & 15;
		k = b[g] | (n & 7) << 8;
		group_iq1(d * (float)(2 * code + 1), grid_iq1s[k], n >> 3,
		    y + 8 * g);
	}
}

/* ---- ternary, binary, small floats -------------------------------------- */

/* Digit n of a number in base 3 that was scaled to fill a byte. */
static int
base3(uint8_t x, int n)
{
	static const uint8_t power[5] = { 1, 3, 9, 27, 81 };

	return (uint8_t)(x * power[n]) * 3 >> 8;
}

static void
block_tq1_0(const uint8_t *b, float *y)
{
	float d = f16_at(b + 52);
	int e, q;

	for (e = 0; e < 256; e++) {
		if (e < 160)
			q = base3(b[e % 32], e / 32);
		else if (e < 240)
			q = base3(b[32 + e % 16], (e - 160) / 16);
		else
			q = base3(b[48 + e % 4], (e - 240) / 4);
		y[e] = d * (float)(q - 1);
	}
}

static void
block_tq2_0(const uint8_t *b, float *y)
{
	float d = f16_at(b + 64);
	int e;

	for (e = 0; e < 256; e++)
		y[e] = d * (float)(two_bits(b, e) - 1);
}

static void
block_q1_0(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	int e;

	for (e = 0; e < 128; e++)
		y[e] = b[2 + e / 8] >> e % 8 & 1 ? d : -d;
}

static void
block_q2_0(const uint8_t *b, float *y)
{
	float d = f16_at(b);
	int e;

	for (e = 0; e < 64; e++)
		y[e] = d * (float)((b[2 + e / 4] >> e % 4 * 2 & 3) - 1);
}

/* E2M1 numbers, doubled. */
static const int8_t book_e2m1[16] = { 0, 1, 2, 3, 4, 6, 8, 12,
    0, -1, -2, -3, -4, -6, -8, -12 };

static void
block_mxfp4(const uint8_t *b, float *y)
{
	/* 255 is no exponent (OCP MX specification, E8M0) */
	float d = b[0] == 255 ? NAN : ldexpf(1.0f, b[0] - 128);
	int e;

	for (e = 0; e < 32; e++)
		y[e] = d * (float)book_e2m1[nibble(b + 1, e)];
}

/* An unsigned E4M3 number. */
static float
e4m3(unsigned x)
{
	int e = (int)(x >> 3 & 15), m = (int)(x & 7);

	if ((x & 127) == 127)
		return 0.0f;
	return e == 0 ? ldexpf((float)m, -9) : ldexpf((float)(8 + m), e - 10);
}

static void
block_nvfp4(const uint8_t *b, float *y)
{
	int e, i, q;

	for (e = 0; e < 64; e++) {
		i = e % 16;
		q = b[4 + e / 16 * 8 + i % 8] >> i / 8 * 4 & 15;
		y[e] = e4m3(b[e / 16]) * 0.5f * (float)book_e2m1[q];
	}
}

/* ---- by type ------------------------------------------------------------ */

static void (*const block_fn[])(const uint8_t *b, float *y) = {
	[TYPE_F32] = block_f32,
	[TYPE_F16] = block_f16,
	[TYPE_Q4_0] = block_q4_0,
	[TYPE_Q4_1] = block_q4_1,
	[TYPE_Q5_0] = block_q5_0,
	[TYPE_Q5_1] = block_q5_1,
	[TYPE_Q8_0] = block_q8_0,
	[TYPE_Q8_1] = block_q8_1,
	[TYPE_Q2_K] = block_q2_k,
	[TYPE_Q3_K] = block_q3_k,
	[TYPE_Q4_K] = block_q4_k,
	[TYPE_Q5_K] = block_q5_k,
	[TYPE_Q6_K] = block_q6_k,
	[TYPE_Q8_K] = block_q8_k,
	[TYPE_IQ2_XXS] = block_iq2_xxs,
	[TYPE_IQ2_XS] = block_iq2_xs,
	[TYPE_IQ3_XXS] = block_iq3_xxs,
	[TYPE_IQ1_S] = block_iq1_s,
	[TYPE_IQ4_NL] = block_iq4_nl,
	[TYPE_IQ3_S] = block_iq3_s,
	[TYPE_IQ2_S] = block_iq2_s,
	[TYPE_IQ4_XS] = block_iq4_xs,
	[TYPE_I8] = block_i8,
	[TYPE_I16] = block_i16,
	[TYPE_I32] = block_i32,
	[TYPE_I64] = block_i64,
	[TYPE_F64] = block_f64,
	[TYPE_IQ1_M] = block_iq1_m,
	[TYPE_BF16] = block_bf16,
	[TYPE_TQ1_0] = block_tq1_0,
	[TYPE_TQ2_0] = block_tq2_0,
	[TYPE_MXFP4] = block_mxfp4,
	[TYPE_NVFP4] = block_nvfp4,
	[TYPE_Q1_0] = block_q1_0,
	[TYPE_Q2_0] = block_q2_0,
};

int
pico_dequantize(uint32_t type, const void *src, float *dst, size_t n)
{
	const struct pico_type *t = pico_type(type);
	const uint8_t *b = src;
	size_t i;

	if (t == NULL || n % t->block != 0)
		return -1;
	for (i = 0; i < n; i += t->block, b += t->bytes)
		block_fn[type](b, dst + i);
	return 0;
}

/* Where the f16 scales of a block are. */
static const struct {
	uint8_t n, at[2];
} scales[TYPE_Q2_0 + 1] = {
	[TYPE_Q4_0] = { 1, { 0 } },
	[TYPE_Q4_1] = { 2, { 0, 2 } },
	[TYPE_Q5_0] = { 1, { 0 } },
	[TYPE_Q5_1] = { 2, { 0, 2 } },
	[TYPE_Q8_0] = { 1, { 0 } },
	[TYPE_Q8_1] = { 2, { 0, 2 } },
	[TYPE_Q2_K] = { 2, { 80, 82 } },
	[TYPE_Q3_K] = { 1, { 108 } },
	[TYPE_Q4_K] = { 2, { 0, 2 } },
	[TYPE_Q5_K] = { 2, { 0, 2 } },
	[TYPE_Q6_K] = { 1, { 208 } },
	[TYPE_IQ2_XXS] = { 1, { 0 } },
	[TYPE_IQ2_XS] = { 1, { 0 } },
	[TYPE_IQ3_XXS] = { 1, { 0 } },
	[TYPE_IQ1_S] = { 1, { 0 } },
	[TYPE_IQ4_NL] = { 1, { 0 } },
	[TYPE_IQ3_S] = { 1, { 0 } },
	[TYPE_IQ2_S] = { 1, { 0 } },
	[TYPE_IQ4_XS] = { 1, { 0 } },
	[TYPE_TQ1_0] = { 1, { 52 } },
	[TYPE_TQ2_0] = { 1, { 64 } },
	[TYPE_Q1_0] = { 1, { 0 } },
	[TYPE_Q2_0] = { 1, { 0 } },
};

static bool
block_valid(uint32_t type, const uint8_t *b)
{
	unsigned i;

	switch (type) {
	case TYPE_F32:
	case TYPE_Q8_K:
		return isfinite(get_f32(b));
	case TYPE_F16:
		return isfinite(f16_at(b));
	case TYPE_BF16:
		return isfinite(bf16_to_f32(get_u16(b)));
	case TYPE_F64:
		return isfinite(get_f64(b));
	case TYPE_IQ1_M:
		return isfinite(scale_iq1_m(b));
	case TYPE_MXFP4:
		return b[0] != 255;
	}
	for (i = 0; i < scales[type].n; i++)
		if (!isfinite(f16_at(b + scales[type].at[i])))
			return false;
	return true;
}

uint64_t
pico_bad_blocks(uint32_t type, const void *src, uint64_t n, uint64_t *first)
{
	const struct pico_type *t = pico_type(type);
	const uint8_t *b = src;
	uint64_t bad = 0, i;

	if (t == NULL)
		return 0;
	for (i = 0; i < n / t->block; i++, b += t->bytes)
		if (!block_valid(type, b) && bad++ == 0)
			*first = i;
	return bad;
}
