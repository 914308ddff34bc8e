/* SPDX-License-Identifier: MIT */
/*
 * AVX2: products of quantized weights with many columns, as for prompts and
 * batches. 256 codes of each of 16 rows are unpacked into a tile, which meets
 * all columns before the next one is unpacked. A tile is laid out so that one
 * vector has four codes of eight rows, to be multiplied with four codes of a
 * column that are broadcast; sums then never leave their row's lane.
 */
#if defined(__x86_64__) && !defined(PICO_SMALL)
#include "avx2.h"

/* Rows of a tile, and columns that it meets. */
#define ROWS 16
#define COLS 64

AVX2_BEGIN

/* Index [h] is the half of the rows: 0 to 7, 8 to 15. Eight blocks of 32, or a
   super-block, whose scales are d[0], m[0]. */
struct tile {
	__m256i w[64][2];	/* codes 4i..4i+3 */
	__m256i scale[16][2];	/* of sixteenth i, twice in a row's lane */
	__m256i min[8][2];	/* see sub_scales(); two in a row's lane */
	__m256 d[8][2], m[8][2];
};

/* Accumulators by block index mod 8. */
struct sums {
	__m256 s[8][2];
};

/* ---- unpacking ---- */

/* Transposes 8 x 8 dwords. */
TEMPLATE void
transpose(const __m256i in[8], __m256i out[8])
{
	__m256i a[8], b[8];

	/* pairs of rows, then fours: b[2i], b[2i + 1] have columns j and j + 4
	   of rows 4(i / 2).. in their halves */
	UNROLL
	for (int i = 0; i < 4; i++) {
		a[2 * i] = _mm256_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
		a[2 * i + 1] = _mm256_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
	}
	UNROLL
	for (int i = 0; i < 2; i++) {
		const __m256i *p = a + 4 * i;

		b[i] = _mm256_unpacklo_epi64(p[0], p[2]);
		b[i + 2] = _mm256_unpackhi_epi64(p[0], p[2]);
		b[i + 4] = _mm256_unpacklo_epi64(p[1], p[3]);
		b[i + 6] = _mm256_unpackhi_epi64(p[1], p[3]);
	}
	UNROLL
	for (int i = 0; i < 4; i++) {
		out[i] = _mm256_permute2x128_si256(b[2 * i], b[2 * i + 1],
		    0x20);
		out[i + 4] = _mm256_permute2x128_si256(b[2 * i], b[2 * i + 1],
		    0x31);
	}
}

/* Half h of a tile, from n <= 8 rows of n_blocks blocks; the rest is zeros. */
TEMPLATE void
unpack_half(const struct format *f, const uint8_t *w, size_t row_bytes,
    size_t n, size_t n_blocks, struct tile *t, int h)
{
	__m256i q[8][8], sc[8], mn[8], out[8], zero = _mm256_setzero_si256();
	size_t bytes = (f->size == 32 ? 8u : 1u) * f->bytes;

	for (size_t r = 0; r < 8; r++) {
		const uint8_t *p = w + r * row_bytes;

		/* The same place in the next tile. The hardware sees no
		   pattern in short reads from 16 rows by turns. */
		for (size_t i = 0; i < bytes; i += 64)
			_mm_prefetch((const char *)p + ROWS * row_bytes + i,
			    _MM_HINT_T1);
		sc[r] = mn[r] = zero;
		if (r < n && f->size == 256) {
			UNROLL
			for (int j = 0; j < 8; j++)
				q[r][j] = codes256(f, p, j);
			sub_scales(f, p, &sc[r], &mn[r]);
			continue;
		}
		for (size_t b = 0; b < 8; b++)
			q[r][b] = r < n && b < n_blocks ?
			    codes32(f, p + b * f->bytes) : zero;
	}
	for (int j = 0; j < 8; j++) {
		__m256i in[8];

		UNROLL
		for (int r = 0; r < 8; r++)
			in[r] = q[r][j];
		transpose(in, out);
		UNROLL
		for (int i = 0; i < 8; i++)
			t->w[8 * j + i][h] = out[i];
	}
	for (size_t b = 0; b < n_blocks; b++) {
		t->d[b][h] = scales(f, w + b * f->bytes, row_bytes, n);
		if (f->minima)
			t->m[b][h] = minima(f, w + b * f->bytes, row_bytes, n);
	}
	if (f->size == 32)
		return;
	transpose(mn, out);
	for (int i = 0; i < 8; i++)
		t->min[i][h] = out[i];
	transpose(sc, out);
	UNROLL
	for (int i = 0; i < 8; i++) {
		/* a dword has sixteenths 4i and 4i + 2, or those after them */
		int s = i % 4 * 4 + i / 4;

		t->scale[s][h] = _mm256_blend_epi16(out[i],
		    _mm256_slli_epi32(out[i], 16), 0xaa);
		t->scale[s + 2][h] = _mm256_blend_epi16(out[i],
		    _mm256_srli_epi32(out[i], 16), 0x55);
	}
}

/* ---- products ---- */

/* *p += v in 16 bits. A compiler that may reorder the additions makes all
   products of a run first, for which there are not enough registers; what the
   empty instruction does it cannot know. */
TEMPLATE void
add_to(__m256i *p, __m256i v)
{
	*p = _mm256_add_epi16(*p, v);
	__asm__("" : "+x"(*p));
}

/* Adds to s[c][h] the products of vectors i.. of the tile, f->run of them, with
   codes of `cols` columns, times a scale. */
TEMPLATE void
add_run(const struct format *f, const struct tile *t, int i, int cols,
    const int8_t *const q[4], const __m256i scale[2], __m256i s[4][2])
{
	__m256i p[4][2];

	UNROLL
	for (int k = 0; k < f->run; k++) {
		__m256i w0 = t->w[i + k][0], w1 = t->w[i + k][1];

		UNROLL
		for (int c = 0; c < cols; c++) {
			__m256i a = _mm256_set1_epi32((int)
			    get_u32(q[c] + 4 * (i + k)));

			if (k == 0) {
				p[c][0] = products(f, w0, a);
				p[c][1] = products(f, w1, a);
			} else {
				add_to(&p[c][0], products(f, w0, a));
				add_to(&p[c][1], products(f, w1, a));
			}
		}
	}
	UNROLL
	for (int c = 0; c < cols; c++) {
		s[c][0] = _mm256_add_epi32(s[c][0],
		    _mm256_madd_epi16(p[c][0], scale[0]));
		s[c][1] = _mm256_add_epi32(s[c][1],
		    _mm256_madd_epi16(p[c][1], scale[1]));
	}
}

/* acc += (dw * da) * sum */
TEMPLATE void
add_block(__m256 *acc, __m256 dw, float da, __m256i sum)
{
	*acc = _mm256_fmadd_ps(_mm256_mul_ps(dw, _mm256_set1_ps(da)),
	    _mm256_cvtepi32_ps(sum), *acc);
}

/* A tile of n_blocks blocks of 32 with `cols` columns. */
TEMPLATE void
tile32(const struct format *f, const struct tile *t, size_t n_blocks,
    const uint8_t *x, size_t x_stride, int cols, struct sums *acc)
{
	const __m256i ones[2] = { _mm256_set1_epi16(1), _mm256_set1_epi16(1) };

	for (size_t b = 0; b < n_blocks; b++) {
		const struct act_q8 *a[4];
		const int8_t *q[4];
		__m256i s[4][2], asum;

		UNROLL
		for (int c = 0; c < cols; c++) {
			a[c] = (const struct act_q8 *)(const void *)
			    (x + (size_t)c * x_stride) + b;
			q[c] = a[c]->q - 32 * b;
			s[c][0] = s[c][1] = _mm256_setzero_si256();
		}
		for (int g = 0; g < 8; g += f->run)
			add_run(f, t, 8 * (int)b + g, cols, q, ones, s);
		UNROLL
		for (int c = 0; c < cols; c++) {
			for (int h = 0; h < 2; h++) {
				asum = _mm256_set1_epi32(a[c]->sum);
				if (f->offset != 0)
					s[c][h] = _mm256_sub_epi32(s[c][h],
					    _mm256_set1_epi32(f->offset *
					    a[c]->sum));
				add_block(&acc[c].s[b][h], t->d[b][h],
				    a[c]->d, s[c][h]);
				if (f->minima)
					add_block(&acc[c].s[b][h], t->m[b][h],
					    a[c]->d, asum);
			}
		}
	}
}

/* A tile of a super-block, the b-th mod 8, with `cols` columns. */
TEMPLATE void
tile256(const struct format *f, const struct tile *t, size_t b,
    const uint8_t *x, size_t x_stride, int cols, struct sums *acc)
{
	const struct act_q8k *a[4];
	const int8_t *q[4];
	__m256i s[4][2], m[2];
	uint32_t pairs_of_sums[8];

	UNROLL
	for (int c = 0; c < cols; c++) {
		a[c] = (const struct act_q8k *)(const void *)
		    (x + (size_t)c * x_stride);
		q[c] = a[c]->q;
		s[c][0] = s[c][1] = _mm256_setzero_si256();
	}
	for (int g = 0; g < 64; g += f->run)
		add_run(f, t, g, cols, q, t->scale[g / 4], s);
	UNROLL
	for (int c = 0; c < cols; c++) {
		m[0] = m[1] = _mm256_setzero_si256();
		_mm256_storeu_si256((__m256i *)(void *)pairs_of_sums,
		    even_odd(load_bytes(a[c]->sum)));
		for (int i = 0; (f->minima || f->offset != 0) && i < 8; i++) {
			__m256i v = _mm256_set1_epi32((int)pairs_of_sums[i]);

			m[0] = _mm256_add_epi32(m[0],
			    _mm256_madd_epi16(t->min[i][0], v));
			m[1] = _mm256_add_epi32(m[1],
			    _mm256_madd_epi16(t->min[i][1], v));
		}
		for (int h = 0; h < 2; h++) {
			if (f->offset != 0)
				s[c][h] = _mm256_sub_epi32(s[c][h], m[h]);
			add_block(&acc[c].s[b][h], t->d[0][h], a[c]->d,
			    s[c][h]);
			if (f->minima)
				add_block(&acc[c].s[b][h], t->m[0][h],
				    a[c]->d, m[h]);
		}
	}
}

/* ---- the whole ---- */

/* TREE(8) of a column's accumulators, for n <= ROWS rows. */
static void
finish(struct sums *acc, float *y, size_t n)
{
	for (int h = 4; h > 0; h /= 2) {
		for (int i = 0; i < h; i++) {
			acc->s[i][0] = _mm256_add_ps(acc->s[i][0],
			    acc->s[i + h][0]);
			acc->s[i][1] = _mm256_add_ps(acc->s[i][1],
			    acc->s[i + h][1]);
		}
	}
	store(y, acc->s[0][0], n);
	if (n > 8)
		store(y + 8, acc->s[0][1], n - 8);
}

/* n_rows <= ROWS rows from w on with n_cols <= COLS columns. */
TEMPLATE void
rows_cols(const struct format *f, const struct matmul *m, const uint8_t *w,
    size_t n_rows, const uint8_t *x, size_t n_cols, float *y)
{
	size_t n_blocks = m->n_in / f->size, n, step;
	size_t act = f->size == 32 ? sizeof(struct act_q8) :
	    sizeof(struct act_q8k);
	struct sums acc[COLS];
	struct tile t;

	memset(acc, 0, n_cols * sizeof *acc);
	for (size_t b = 0; b < n_blocks; b += n) {
		const uint8_t *p = w + b * f->bytes, *xb = x + b * act;

		n = f->size == 32 ? MIN(8, n_blocks - b) : 1;
		unpack_half(f, p, m->row_bytes, MIN(8, n_rows), n, &t, 0);
		unpack_half(f, p + 8 * m->row_bytes, m->row_bytes,
		    n_rows - MIN(8, n_rows), n, &t, 1);
		for (size_t c = 0; c < n_cols; c += step) {
			const uint8_t *xc = xb + c * m->x_stride;

			step = n_cols - c >= 4 ? 4 : 1;
			if (step == 4 && f->size == 32)
				tile32(f, &t, n, xc, m->x_stride, 4, acc + c);
			else if (step == 4)
				tile256(f, &t, b % 8, xc, m->x_stride, 4,
				    acc + c);
			else if (f->size == 32)
				tile32(f, &t, n, xc, m->x_stride, 1, acc + c);
			else
				tile256(f, &t, b % 8, xc, m->x_stride, 1,
				    acc + c);
		}
	}
	for (size_t c = 0; c < n_cols; c++)
		finish(&acc[c], y + c * m->y_stride, n_rows);
}

/* Columns go outside: those of a tile stay in cache for all rows. */
TEMPLATE void
tiles(const struct format *f, const struct matmul *m, size_t r0, size_t r1)
{
	for (size_t c = 0; c < m->n_cols; c += COLS)
		for (size_t r = r0; r < r1; r += ROWS)
			rows_cols(f, m, (const uint8_t *)m->w +
			    r * m->row_bytes, MIN(ROWS, r1 - r),
			    (const uint8_t *)m->x + c * m->x_stride,
			    MIN(COLS, m->n_cols - c),
			    m->y + c * m->y_stride + r);
}

#define TILES(format) \
	static void tiles_##format(const struct matmul *m, size_t r0, \
	    size_t r1) { tiles(&format, m, r0, r1); }
TILES(q4_0)
TILES(q4_1)
TILES(q5_0)
TILES(q5_1)
TILES(q8_0)
TILES(iq4_nl)
TILES(mxfp4)
TILES(q2_k)
TILES(q3_k)
TILES(q4_k)
TILES(q5_k)
TILES(q6_k)
TILES(iq4_xs)

AVX2_END

void
avx2_tiles(const struct matmul *m, size_t r0, size_t r1)
{
	static const struct {
		uint32_t type;
		void (*tiles)(const struct matmul *m, size_t r0, size_t r1);
	} table[] = {
		{ TYPE_Q4_0, tiles_q4_0 }, { TYPE_Q4_1, tiles_q4_1 },
		{ TYPE_Q5_0, tiles_q5_0 }, { TYPE_Q5_1, tiles_q5_1 },
		{ TYPE_Q8_0, tiles_q8_0 }, { TYPE_IQ4_NL, tiles_iq4_nl },
		{ TYPE_MXFP4, tiles_mxfp4 }, { TYPE_Q2_K, tiles_q2_k },
		{ TYPE_Q3_K, tiles_q3_k }, { TYPE_Q4_K, tiles_q4_k },
		{ TYPE_Q5_K, tiles_q5_k }, { TYPE_Q6_K, tiles_q6_k },
		{ TYPE_IQ4_XS, tiles_iq4_xs }
	};

	for (size_t i = 0; i < COUNT(table); i++)
		if (table[i].type == m->type)
			table[i].tiles(m, r0, r1);
}

#else
typedef int nothing_here;
#endif
