/* SPDX-License-Identifier: MIT */
/*
 * Products of weights and columns, for the NEON sets. Included once by each set
 * (neon.c, neon_dot.c), which before has defined
 *	int32x4_t dot(int8x16_t w, int8x16_t a)
 *	int32x4_t dot_add(int32x4_t s, int8x16_t w, int8x16_t a)
 * the products of sixteen codes, added up in four lanes (it does not matter
 * which to which: integer sums are exact), and the same added to s. w may be
 * -128, a never is.
 *
 * Two ways. Few columns: a row at a time from front to back, each block
 * unpacked into registers. Many: four rows at a time, each block unpacked to
 * memory once for COLS columns and multiplied with four of them at a time.
 */

/* Columns that an unpacked block of weights is multiplied with. */
#define COLS 64
/* Elements of a float row widened at once; every type's block divides it. */
#define PIECE 256

/* ---- unpacking weights: layouts as in scalar.c ---- */

/*
 * A block of weights: value = d * scale * q + m * min, where scale and min
 * belong to sub-blocks: no scales in a block of 32, one for every sixteen or
 * every thirty-two elements of a super-block. Minima are always of sixteen.
 */
struct block {
	float d, m;
	int8x16_t q[16];
	int32_t scale[16];
	int16_t min[16];
};

INLINE float
half(const uint8_t *p)
{
	__fp16 h;

	memcpy(&h, p, sizeof h);
	return h;
}

INLINE uint8x16_t
low_nibbles(uint8x16_t x)
{
	return vandq_u8(x, vdupq_n_u8(15));
}

INLINE uint8x16_t
high_nibbles(uint8x16_t x)
{
	return vshrq_n_u8(x, 4);
}

INLINE int8x16_t
minus(uint8x16_t x, int offset)
{
	return vsubq_s8(vreinterpretq_s8_u8(x), vdupq_n_s8((int8_t)offset));
}

/* bit n of x as `value` or 0 */
INLINE uint8x16_t
bit_as(uint8x16_t x, int n, int value)
{
	return vandq_u8(vtstq_u8(x, vdupq_n_u8((uint8_t)(1 << n))),
	    vdupq_n_u8((uint8_t)value));
}

/* Two bits of x, the lower one bit n. */
INLINE uint8x16_t
two_bits(uint8x16_t x, int n)
{
	return vandq_u8(vshlq_u8(x, vdupq_n_s8((int8_t)-n)), vdupq_n_u8(3));
}

/* Bits 0..15 at p, each as 16 or 0 in a lane of its own. */
INLINE uint8x16_t
sixteens(const uint8_t *p)
{
	const uint8x8_t bits = vcreate_u8(0x8040201008040201);
	uint8x16_t x = vcombine_u8(vdup_n_u8(p[0]), vdup_n_u8(p[1]));

	return vandq_u8(vtstq_u8(x, vcombine_u8(bits, bits)), vdupq_n_u8(16));
}

INLINE void
unpack_q4_0(const uint8_t *p, struct block *b)
{
	uint8x16_t x = vld1q_u8(p + 2);

	b->d = half(p);
	b->q[0] = minus(low_nibbles(x), 8);
	b->q[1] = minus(high_nibbles(x), 8);
}

INLINE void
unpack_q4_1(const uint8_t *p, struct block *b)
{
	uint8x16_t x = vld1q_u8(p + 4);

	b->d = half(p);
	b->m = half(p + 2);
	b->q[0] = minus(low_nibbles(x), 0);
	b->q[1] = minus(high_nibbles(x), 0);
}

INLINE void
unpack_q5_0(const uint8_t *p, struct block *b)
{
	uint8x16_t x = vld1q_u8(p + 6);

	b->d = half(p);
	b->q[0] = minus(vorrq_u8(low_nibbles(x), sixteens(p + 2)), 16);
	b->q[1] = minus(vorrq_u8(high_nibbles(x), sixteens(p + 4)), 16);
}

INLINE void
unpack_q5_1(const uint8_t *p, struct block *b)
{
	uint8x16_t x = vld1q_u8(p + 8);

	b->d = half(p);
	b->m = half(p + 2);
	b->q[0] = minus(vorrq_u8(low_nibbles(x), sixteens(p + 4)), 0);
	b->q[1] = minus(vorrq_u8(high_nibbles(x), sixteens(p + 6)), 0);
}

INLINE void
unpack_q8_0(const uint8_t *p, struct block *b)
{
	b->d = half(p);
	b->q[0] = minus(vld1q_u8(p + 2), 0);
	b->q[1] = minus(vld1q_u8(p + 18), 0);
}

INLINE void
book_nibbles(const uint8_t *qs, const int8_t *book, int8x16_t q[2])
{
	int8x16_t t = vld1q_s8(book);
	uint8x16_t x = vld1q_u8(qs);

	q[0] = vqtbl1q_s8(t, low_nibbles(x));
	q[1] = vqtbl1q_s8(t, high_nibbles(x));
}

static const int8_t iq4_book[16] = {
	-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};
/* E2M1, doubled */
static const int8_t fp4_book[16] = {
	0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
};

INLINE void
unpack_iq4_nl(const uint8_t *p, struct block *b)
{
	b->d = half(p);
	book_nibbles(p + 2, iq4_book, b->q);
}

INLINE void
unpack_mxfp4(const uint8_t *p, struct block *b)
{
	/* 2^(e - 128): the exponent field is e - 1, or the factor subnormal */
	uint32_t u = p[0] >= 2 ? (uint32_t)(p[0] - 1) << 23 :
	    (uint32_t)0x200000 << p[0];

	b->d = get_f32(&u);
	book_nibbles(p + 1, fp4_book, b->q);
}

/* Sixteen signed bytes to the scales of as many sub-blocks. */
INLINE void
put_scales(int8x16_t s, struct block *b)
{
	int16x8_t low = vmovl_s8(vget_low_s8(s)), high = vmovl_high_s8(s);

	vst1q_s32(b->scale, vmovl_s16(vget_low_s16(low)));
	vst1q_s32(b->scale + 4, vmovl_high_s16(low));
	vst1q_s32(b->scale + 8, vmovl_s16(vget_low_s16(high)));
	vst1q_s32(b->scale + 12, vmovl_high_s16(high));
}

INLINE void
unpack_q2_k(const uint8_t *p, struct block *b)
{
	uint8x16_t s = vld1q_u8(p), mn = high_nibbles(s);

	b->d = half(p + 80);
	b->m = -half(p + 82);
	put_scales(minus(low_nibbles(s), 0), b);
	vst1q_s16(b->min, vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(mn))));
	vst1q_s16(b->min + 8, vreinterpretq_s16_u16(vmovl_high_u8(mn)));
	UNROLL
	for (int h = 0; h < 2; h++) {
		uint8x16_t x = vld1q_u8(p + 16 + 32 * h);
		uint8x16_t y = vld1q_u8(p + 32 + 32 * h);

		UNROLL
		for (int k = 0; k < 4; k++) {
			b->q[8 * h + 2 * k] = minus(two_bits(x, 2 * k), 0);
			b->q[8 * h + 2 * k + 1] = minus(two_bits(y, 2 * k), 0);
		}
	}
}

INLINE void
unpack_q3_k(const uint8_t *p, struct block *b)
{
	/* shifting words by 0, 2, 4, 6 brings the two bits of scale 4i + j to
	   the bottom of byte j of word i */
	static const int32_t down[4] = { 0, -2, -4, -6 };
	uint8x8_t low = vld1_u8(p + 96);
	uint32x4_t high = vshlq_u32(vdupq_n_u32(get_u32(p + 104)),
	    vld1q_s32(down));
	uint8x16_t s = vcombine_u8(vand_u8(low, vdup_n_u8(15)),
	    vshr_n_u8(low, 4));
	uint8x16_t mask[2] = { vld1q_u8(p), vld1q_u8(p + 16) };

	s = vorrq_u8(s, vshlq_n_u8(vandq_u8(vreinterpretq_u8_u32(high),
	    vdupq_n_u8(3)), 4));
	b->d = half(p + 108);
	put_scales(minus(s, 32), b);
	UNROLL
	for (int h = 0; h < 2; h++) {
		uint8x16_t x = vld1q_u8(p + 32 + 32 * h);
		uint8x16_t y = vld1q_u8(p + 48 + 32 * h);

		UNROLL
		for (int k = 0; k < 4; k++) {
			b->q[8 * h + 2 * k] = minus(vorrq_u8(two_bits(x, 2 * k),
			    bit_as(mask[0], 4 * h + k, 4)), 4);
			b->q[8 * h + 2 * k + 1] = minus(vorrq_u8(
			    two_bits(y, 2 * k),
			    bit_as(mask[1], 4 * h + k, 4)), 4);
		}
	}
}

/* Q4_K and Q5_K: 8 scales and 8 minima of six bits in 12 bytes; four at a time,
   a byte each in a word. */
INLINE void
six_bits(const uint8_t *p, struct block *b)
{
	uint32_t x = get_u32(p), y = get_u32(p + 4), z = get_u32(p + 8);
	uint32_t sc[2] = { x & 0x3f3f3f3f,
	    (z & 0x0f0f0f0f) | (x >> 2 & 0x30303030) };
	uint32_t mn[2] = { y & 0x3f3f3f3f,
	    (z >> 4 & 0x0f0f0f0f) | (y >> 2 & 0x30303030) };
	uint16x8_t s = vmovl_u8(vcreate_u8(sc[0] | (uint64_t)sc[1] << 32));
	int16x8_t m = vreinterpretq_s16_u16(vmovl_u8(
	    vcreate_u8(mn[0] | (uint64_t)mn[1] << 32)));

	vst1q_s32(b->scale, vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(s))));
	vst1q_s32(b->scale + 4, vreinterpretq_s32_u32(vmovl_high_u16(s)));
	vst1q_s16(b->min, vzip1q_s16(m, m));
	vst1q_s16(b->min + 8, vzip2q_s16(m, m));
}

INLINE void
unpack_q4_k(const uint8_t *p, struct block *b)
{
	b->d = half(p);
	b->m = -half(p + 2);
	six_bits(p + 4, b);
	UNROLL
	for (int c = 0; c < 4; c++) {
		uint8x16_t x = vld1q_u8(p + 16 + 32 * c);
		uint8x16_t y = vld1q_u8(p + 32 + 32 * c);

		b->q[4 * c] = minus(low_nibbles(x), 0);
		b->q[4 * c + 1] = minus(low_nibbles(y), 0);
		b->q[4 * c + 2] = minus(high_nibbles(x), 0);
		b->q[4 * c + 3] = minus(high_nibbles(y), 0);
	}
}

INLINE void
unpack_q5_k(const uint8_t *p, struct block *b)
{
	uint8x16_t high[2] = { vld1q_u8(p + 16), vld1q_u8(p + 32) };

	b->d = half(p);
	b->m = -half(p + 2);
	six_bits(p + 4, b);
	UNROLL
	for (int c = 0; c < 4; c++) {
		UNROLL
		for (int i = 0; i < 2; i++) {
			uint8x16_t x = vld1q_u8(p + 48 + 32 * c + 16 * i);

			b->q[4 * c + i] = minus(vorrq_u8(low_nibbles(x),
			    bit_as(high[i], 2 * c, 16)), 0);
			b->q[4 * c + 2 + i] = minus(vorrq_u8(high_nibbles(x),
			    bit_as(high[i], 2 * c + 1, 16)), 0);
		}
	}
}

INLINE void
unpack_q6_k(const uint8_t *p, struct block *b)
{
	b->d = half(p + 208);
	put_scales(minus(vld1q_u8(p + 192), 0), b);
	UNROLL
	for (int h = 0; h < 2; h++) {
		UNROLL
		for (int i = 0; i < 2; i++) {
			const uint8_t *low = p + 64 * h + 16 * i;
			uint8x16_t x = vld1q_u8(low), y = vld1q_u8(low + 32);
			uint8x16_t high = vld1q_u8(p + 128 + 32 * h + 16 * i);
			uint8x16_t q[4] = { low_nibbles(x), low_nibbles(y),
			    high_nibbles(x), high_nibbles(y) };

			UNROLL
			for (int k = 0; k < 4; k++)
				b->q[8 * h + 2 * k + i] = minus(vorrq_u8(q[k],
				    vshlq_n_u8(two_bits(high, 2 * k), 4)), 32);
		}
	}
}

INLINE void
unpack_iq4_xs(const uint8_t *p, struct block *b)
{
	uint32_t high = get_u16(p + 2), low = get_u32(p + 4);

	b->d = half(p);
	UNROLL
	for (int i = 0; i < 8; i++) {
		b->scale[i] = (int32_t)((low >> 4 * i & 15) |
		    (high >> 2 * i & 3) << 4) - 32;
		book_nibbles(p + 8 + 16 * i, iq4_book, b->q + 2 * i);
	}
}

/* ---- integer sums ---- */

/* What the code below must know of a type; constants, once it is inlined. */
struct shape {
	size_t bytes;		/* of a block */
	int span;		/* elements that share a scale; 0: a block of
				   32, which has no scales */
	bool offset;		/* has minima */
	void (*unpack)(const uint8_t *p, struct block *b);
};

/* Sums of the lanes of four vectors. */
INLINE int32x4_t
sum4(const int32x4_t *v)
{
	return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
}

/* isum, in four parts */
INLINE int32x4_t
isum(const struct block *b, const int8_t *a, int span)
{
	int32x4_t s[2] = { vdupq_n_s32(0), vdupq_n_s32(0) }, t;

	if (span == 0)
		return dot_add(dot(b->q[0], vld1q_s8(a)), b->q[1],
		    vld1q_s8(a + 16));
	UNROLL
	for (int j = 0; j < 256 / span; j++) {
		if (span == 16)
			t = dot(b->q[j], vld1q_s8(a + 16 * j));
		else
			t = dot_add(dot(b->q[2 * j], vld1q_s8(a + 32 * j)),
			    b->q[2 * j + 1], vld1q_s8(a + 32 * j + 16));
		/* two sums, so that one need not wait for the other */
		s[j % 2] = vmlaq_n_s32(s[j % 2], t, b->scale[j]);
	}
	return vaddq_s32(s[0], s[1]);
}

/* msum of a super-block, in four parts */
INLINE int32x4_t
msum(const struct block *b, const int16_t *sum)
{
	int16x8_t m[2] = { vld1q_s16(b->min), vld1q_s16(b->min + 8) };
	int16x8_t a[2] = { vld1q_s16(sum), vld1q_s16(sum + 8) };
	int32x4_t s = vmull_s16(vget_low_s16(m[0]), vget_low_s16(a[0]));

	s = vmlal_high_s16(s, m[0], a[0]);
	s = vmlal_s16(s, vget_low_s16(m[1]), vget_low_s16(a[1]));
	return vmlal_high_s16(s, m[1], a[1]);
}

/* ---- a row ---- */

/*
 * Row by column. Eight blocks at a time, each the owner of one of the eight
 * accumulators. The places of blocks that a row does not have hold zeros: they
 * add +0, which changes no accumulator, as none is ever -0.
 */
INLINE float
row(const uint8_t *w, const void *x, size_t n_in, struct shape f)
{
	size_t n_blocks = n_in / (f.span == 0 ? 32 : 256);
	float32x4_t acc[2] = { vdupq_n_f32(0), vdupq_n_f32(0) };
	int32x4_t s[8];
	int32_t ms[8];
	float d[8], m[8];

	for (size_t i = 0; i < n_blocks; i += 8) {
		size_t n = MIN(8, n_blocks - i);

		if (n < 8) {
			memset(s, 0, sizeof s);
			memset(ms, 0, sizeof ms);
			memset(d, 0, sizeof d);
			memset(m, 0, sizeof m);
		}
		for (size_t k = 0; k < n; k++, w += f.bytes) {
			const struct act_q8 *a = (const struct act_q8 *)x + i +
			    k;
			const struct act_q8k *ak = (const struct act_q8k *)x +
			    i + k;
			float da = f.span == 0 ? a->d : ak->d;
			struct block b;

			f.unpack(w, &b);
			s[k] = isum(&b, f.span == 0 ? a->q : ak->q, f.span);
			d[k] = b.d * da;
			if (!f.offset)
				continue;
			ms[k] = f.span == 0 ? a->sum :
			    vaddvq_s32(msum(&b, ak->sum));
			m[k] = b.m * da;
		}
		for (int h = 0; h < 2; h++) {
			acc[h] = vfmaq_f32(acc[h], vld1q_f32(d + 4 * h),
			    vcvtq_f32_s32(sum4(s + 4 * h)));
			if (f.offset)
				acc[h] = vfmaq_f32(acc[h],
				    vld1q_f32(m + 4 * h),
				    vcvtq_f32_s32(vld1q_s32(ms + 4 * h)));
		}
	}
	return tree4(vaddq_f32(acc[0], acc[1]));
}

/* ---- a tile of four rows ---- */

/* isum of four rows with each of four columns: s[column], a row in a lane */
INLINE void
tile_isum(const struct block *b, const int8_t *const a[4], int span,
    int32x4_t s[4])
{
	int32x4_t t[4][4], p;
	int8x16_t x[4], y[4];

	UNROLL
	for (int i = 0; i < 16; i++)
		t[i / 4][i % 4] = vdupq_n_s32(0);
	for (int j = 0; j < (span == 0 ? 1 : 256 / span); j++) {
		/* 16 elements, or 32 */
		int at = span == 16 ? j : 2 * j;

		UNROLL
		for (int c = 0; c < 4; c++) {
			x[c] = vld1q_s8(a[c] + 16 * at);
			if (span != 16)
				y[c] = vld1q_s8(a[c] + 16 * at + 16);
		}
		UNROLL
		for (int i = 0; i < 16; i++) {
			int r = i / 4, c = i % 4;

			p = dot(b[r].q[at], x[c]);
			if (span != 16)
				p = dot_add(p, b[r].q[at + 1], y[c]);
			t[c][r] = span == 0 ? p :
			    vmlaq_n_s32(t[c][r], p, b[r].scale[j]);
		}
	}
	UNROLL
	for (int c = 0; c < 4; c++)
		s[c] = sum4(t[c]);
}

/* msum of four rows with a column */
INLINE int32x4_t
tile_msum(const struct block *b, const int16_t *sum)
{
	int32x4_t t[4];

	UNROLL
	for (int r = 0; r < 4; r++)
		t[r] = msum(&b[r], sum);
	return sum4(t);
}

/* A value of each of four blocks. */
#define OF_ROWS(b, field) ((float32x4_t){ \
	(b)[0].field, (b)[1].field, (b)[2].field, (b)[3].field })

/*
 * n <= 4 rows at w by cols <= COLS columns at x. A missing row is the last one
 * once more, and so is a missing column; their results go nowhere.
 */
INLINE void
tile(const struct matmul *m, const uint8_t *w, size_t n, const uint8_t *x,
    size_t cols, float *y, struct shape f)
{
	size_t n_blocks = m->n_in / (f.span == 0 ? 32 : 256);
	float32x4_t acc[COLS][8];	/* a row in a lane */
	struct block b[4];

	memset(acc, 0, sizeof acc);
	for (size_t i = 0; i < n_blocks; i++) {
		float32x4_t d, mn;

		for (size_t r = 0; r < 4; r++)
			f.unpack(w + MIN(r, n - 1) * m->row_bytes + i * f.bytes,
			    &b[r]);
		d = OF_ROWS(b, d);
		mn = f.offset ? OF_ROWS(b, m) : d;
		for (size_t c = 0; c < cols; c += 4) {
			const struct act_q8 *a[4];
			const struct act_q8k *ak[4];
			const int8_t *q[4];
			int32x4_t s[4];

			UNROLL
			for (size_t k = 0; k < 4; k++) {
				const void *p = x + MIN(c + k, cols - 1) *
				    m->x_stride;

				a[k] = (const struct act_q8 *)p + i;
				ak[k] = (const struct act_q8k *)p + i;
				q[k] = f.span == 0 ? a[k]->q : ak[k]->q;
			}
			tile_isum(b, q, f.span, s);
			UNROLL
			for (size_t k = 0; k < 4; k++) {
				float da = f.span == 0 ? a[k]->d : ak[k]->d;
				float32x4_t *z = &acc[c + k][i % 8];
				int32x4_t ms;

				*z = vfmaq_f32(*z, vmulq_n_f32(d, da),
				    vcvtq_f32_s32(s[k]));
				if (!f.offset)
					continue;
				ms = f.span == 0 ? vdupq_n_s32(a[k]->sum) :
				    tile_msum(b, ak[k]->sum);
				*z = vfmaq_f32(*z, vmulq_n_f32(mn, da),
				    vcvtq_f32_s32(ms));
			}
		}
	}
	for (size_t c = 0; c < cols; c++) {
		float out[4];

		vst1q_f32(out, tree8(acc[c]));
		memcpy(y + c * m->y_stride, out, n * sizeof *out);
	}
}

/* ---- the types ---- */

#define SHAPES(T) \
	T(Q4_0, q4_0, 18, 0, false) \
	T(Q4_1, q4_1, 20, 0, true) \
	T(Q5_0, q5_0, 22, 0, false) \
	T(Q5_1, q5_1, 24, 0, true) \
	T(Q8_0, q8_0, 34, 0, false) \
	T(IQ4_NL, iq4_nl, 18, 0, false) \
	T(MXFP4, mxfp4, 17, 0, false) \
	T(Q2_K, q2_k, 84, 16, true) \
	T(Q3_K, q3_k, 110, 16, false) \
	T(Q4_K, q4_k, 144, 32, true) \
	T(Q5_K, q5_k, 176, 32, true) \
	T(Q6_K, q6_k, 210, 16, false) \
	T(IQ4_XS, iq4_xs, 136, 32, false)

#define FUNCTIONS(id, name, bytes, span, offset) \
	static float \
	row_##name(const uint8_t *w, const void *x, size_t n_in) \
	{ \
		return row(w, x, n_in, (struct shape){ bytes, span, offset, \
		    unpack_##name }); \
	} \
	static void \
	tile_##name(const struct matmul *m, const uint8_t *w, size_t n, \
	    const uint8_t *x, size_t cols, float *y) \
	{ \
		tile(m, w, n, x, cols, y, (struct shape){ bytes, span, offset, \
		    unpack_##name }); \
	}
SHAPES(FUNCTIONS)

#define ENTRY(id, name, bytes, span, offset) \
	{ TYPE_##id, row_##name, tile_##name },
static const struct format {
	uint32_t type;
	float (*row)(const uint8_t *w, const void *x, size_t n_in);
	void (*tile)(const struct matmul *m, const uint8_t *w, size_t n,
	    const uint8_t *x, size_t cols, float *y);
} formats[] = { SHAPES(ENTRY) };

/* ---- float rows ---- */

/* A row by one column, without unpacking to memory. */
static float
float_row(uint32_t type, const uint8_t *w, const float *x, size_t n_in)
{
	float32x4_t s[8];

	sum32_clear(s);
	if (type == TYPE_F32)
		sum32_dot(s, TYPE_F32, w, x, n_in);
	else if (type == TYPE_F16)
		sum32_dot(s, TYPE_F16, w, x, n_in);
	else
		sum32_dot(s, TYPE_BF16, w, x, n_in);
	return tree32(s);
}

/* n weights from element `at` of a row on, as float32 */
static void
widen(uint32_t type, const uint8_t *w, size_t at, size_t n, float *dst)
{
	const struct pico_type *t = pico_type(type);
	float32x4_t v[2];
	size_t i = 0;

	w += at / t->block * t->bytes;
	if (type != TYPE_F32 && type != TYPE_F16 && type != TYPE_BF16) {
		pico_dequantize(type, w, dst, n);
		return;
	}
	for (; i + 8 <= n; i += 8) {
		if (type == TYPE_F32)
			load8(TYPE_F32, w + 4 * i, v);
		else if (type == TYPE_F16)
			load8(TYPE_F16, w + 2 * i, v);
		else
			load8(TYPE_BF16, w + 2 * i, v);
		vst1q_f32(dst + i, v[0]);
		vst1q_f32(dst + i + 4, v[1]);
	}
	for (; i < n; i++)
		dst[i] = load1(type, w + t->bytes * i);
}

static void
float_cols(const struct matmul *m, const uint8_t *w, const uint8_t *x,
    size_t cols, float *y)
{
	float32x4_t s[COLS][8];
	float buf[PIECE];

	memset(s, 0, sizeof s);
	for (size_t i = 0; i < m->n_in; i += PIECE) {
		size_t n = MIN(PIECE, m->n_in - i);

		widen(m->type, w, i, n, buf);
		for (size_t c = 0; c < cols; c++)
			sum32_dot(s[c], TYPE_F32, (const uint8_t *)buf,
			    (const float *)(const void *)
			    (x + c * m->x_stride) + i, n);
	}
	for (size_t c = 0; c < cols; c++)
		y[c * m->y_stride] = tree32(s[c]);
}

/* ---- all of it ---- */

/* Rows r0..r1 by at most COLS columns. */
static void
columns(const struct matmul *m, const struct format *f, size_t r0, size_t r1,
    const uint8_t *x, size_t cols, float *y)
{
	const uint8_t *w = (const uint8_t *)m->w + r0 * m->row_bytes;
	bool plain = m->type == TYPE_F32 || m->type == TYPE_F16 ||
	    m->type == TYPE_BF16;

	if (f != NULL && cols > 2) {
		for (size_t r = r0; r < r1; r += 4, w += 4 * m->row_bytes)
			f->tile(m, w, MIN(4, r1 - r), x, cols, y + r);
		return;
	}
	for (size_t r = r0; r < r1; r++, w += m->row_bytes) {
		if (f == NULL && (!plain || cols > 2)) {
			float_cols(m, w, x, cols, y + r);
			continue;
		}
		for (size_t c = 0; c < cols; c++) {
			const void *a = x + c * m->x_stride;

			y[c * m->y_stride + r] = f != NULL ?
			    f->row(w, a, m->n_in) :
			    float_row(m->type, w, a, m->n_in);
		}
	}
}

static void
matmul(const struct matmul *m, size_t r0, size_t r1)
{
	const struct format *f = NULL;

	for (size_t i = 0; i < COUNT(formats); i++)
		if (formats[i].type == m->type)
			f = &formats[i];
	for (size_t c = 0; c < m->n_cols; c += COLS)
		columns(m, f, r0, r1, (const uint8_t *)m->x + c * m->x_stride,
		    MIN(COLS, m->n_cols - c), m->y + c * m->y_stride);
}
