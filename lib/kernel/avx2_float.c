/* SPDX-License-Identifier: MIT */
/*
 * AVX2: products of weights that are floats, or are turned into floats first.
 * A dot product has 32 partial sums, four vectors of eight.
 */
#if defined(__x86_64__)
#include "avx2.h"

/* Elements of a row widened at once; a multiple of every type's block. */
#define PIECE 512
/* A tile of widened weights has so many rows, and meets so many columns; it
   pays to dequantize for more of them than fit in a near cache. */
#define ROWS 4
#define COLS 64
#define MAX_COLS 256
/* Columns that are not worth a tile. */
#define FEW 6

AVX2_BEGIN

/* Eight weights of a type that needs no more than widening, from element i. */
TEMPLATE __m256
weights(uint32_t type, const uint8_t *w, size_t i)
{
	switch (type) {
	case TYPE_F16:
		return load_f16(w + 2 * i);
	case TYPE_BF16:
		return _mm256_castsi256_ps(_mm256_slli_epi32(
		    _mm256_cvtepu16_epi32(_mm_loadu_si128(
		    (const __m128i *)(const void *)(w + 2 * i))), 16));
	default:
		return _mm256_loadu_ps((const float *)(const void *)
		    (w + 4 * i));
	}
}

/* n weights from element `at` of a row on, as float32 */
static void
widen(uint32_t type, const uint8_t *w, size_t at, size_t n, float *dst)
{
	const struct pico_type *t = pico_type(type);
	size_t i = 0;

	w += at / t->block * t->bytes;
	if (type == TYPE_F16)
		for (; n - i >= 8; i += 8)
			_mm256_storeu_ps(dst + i, weights(TYPE_F16, w, i));
	else if (type == TYPE_BF16)
		for (; n - i >= 8; i += 8)
			_mm256_storeu_ps(dst + i, weights(TYPE_BF16, w, i));
	else if (type == TYPE_F32)
		for (; n - i >= 8; i += 8)
			_mm256_storeu_ps(dst + i, weights(TYPE_F32, w, i));
	(void)pico_dequantize(type, w + i / t->block * t->bytes, dst + i,
	    n - i);
}

/* TREE(32) */
static float
tree32(const float *s)
{
	return tree8(_mm256_add_ps(
	    _mm256_add_ps(_mm256_loadu_ps(s), _mm256_loadu_ps(s + 16)),
	    _mm256_add_ps(_mm256_loadu_ps(s + 8), _mm256_loadu_ps(s + 24))));
}

/* ---- a row and a column ---- */

/* Adds whole 32s of n elements to the partial sums; returns how many. */
TEMPLATE size_t
add32s(uint32_t type, const uint8_t *w, const float *x, size_t n, float *s)
{
	__m256 a[4];
	size_t i, size = type == TYPE_F32 ? 4 : 2;

	UNROLL
	for (size_t j = 0; j < 4; j++)
		a[j] = _mm256_loadu_ps(s + 8 * j);
	for (i = 0; n - i >= 32; i += 32) {
		prefetch(w + i * size, 32 * size);
		UNROLL
		for (size_t j = 0; j < 4; j++)
			a[j] = _mm256_fmadd_ps(weights(type, w, i + 8 * j),
			    _mm256_loadu_ps(x + i + 8 * j), a[j]);
	}
	UNROLL
	for (size_t j = 0; j < 4; j++)
		_mm256_storeu_ps(s + 8 * j, a[j]);
	return i;
}

static float
dot(uint32_t type, const uint8_t *w, const float *x, size_t n)
{
	float s[32] = { 0 }, buf[PIECE];
	size_t i = 0, m;

	if (type == TYPE_F32)
		i = add32s(TYPE_F32, w, x, n, s);
	else if (type == TYPE_F16)
		i = add32s(TYPE_F16, w, x, n, s);
	else if (type == TYPE_BF16)
		i = add32s(TYPE_BF16, w, x, n, s);
	for (; i < n; i += m) {
		m = MIN(PIECE, n - i);
		widen(type, w, i, m, buf);
		for (size_t k = add32s(TYPE_F32, (const uint8_t *)buf, x + i, m,
		    s); k < m; k++)
			s[k % 32] = fmaf(buf[k], x[i + k], s[k % 32]);
	}
	return tree32(s);
}

/* ---- tiles ---- */

/*
 * ROWS rows of n widened weights with `cols` columns, n a multiple of 32. Of
 * the four vectors of partial sums one is worked on at a time, so that those of
 * a dozen products are in registers.
 */
TEMPLATE void
tile(const float (*w)[PIECE], const float *const *x, size_t n, int cols,
    float (*s)[ROWS][32])
{
	for (size_t j = 0; j < 32; j += 8) {
		__m256 a[3][ROWS];

		UNROLL
		for (int c = 0; c < cols; c++) {
			UNROLL
			for (int r = 0; r < ROWS; r++)
				a[c][r] = _mm256_loadu_ps(s[c][r] + j);
		}
		for (size_t i = j; i < n; i += 32) {
			UNROLL
			for (int r = 0; r < ROWS; r++) {
				__m256 v = _mm256_loadu_ps(w[r] + i);

				UNROLL
				for (int c = 0; c < cols; c++)
					a[c][r] = _mm256_fmadd_ps(v,
					    _mm256_loadu_ps(x[c] + i),
					    a[c][r]);
			}
		}
		UNROLL
		for (int c = 0; c < cols; c++) {
			UNROLL
			for (int r = 0; r < ROWS; r++)
				_mm256_storeu_ps(s[c][r] + j, a[c][r]);
		}
	}
}

/* Adds a piece of n elements of ROWS rows to the partial sums of n_cols. */
static void
tile_cols(const float (*w)[PIECE], const uint8_t *x, size_t x_stride, size_t n,
    size_t n_cols, float (*s)[ROWS][32])
{
	size_t whole = n - n % 32, step;

	for (size_t c = 0; c < n_cols; c += step) {
		const float *p[3];

		step = n_cols - c == 4 ? 2 : MIN(3, n_cols - c);
		for (size_t i = 0; i < step; i++)
			p[i] = (const float *)(const void *)
			    (x + (c + i) * x_stride);
		if (step == 3)
			tile(w, p, whole, 3, s + c);
		else if (step == 2)
			tile(w, p, whole, 2, s + c);
		else
			tile(w, p, whole, 1, s + c);
		for (size_t i = 0; i < step; i++)
			for (size_t r = 0; r < ROWS; r++)
				for (size_t k = whole; k < n; k++)
					s[c + i][r][k % 32] = fmaf(w[r][k],
					    p[i][k], s[c + i][r][k % 32]);
	}
}

/* n_rows <= ROWS rows from w on with n_cols <= MAX_COLS columns. */
static void
rows_cols(const struct matmul *m, const uint8_t *w, size_t n_rows,
    const uint8_t *x, size_t n_cols, float *y)
{
	float s[MAX_COLS][ROWS][32], buf[ROWS][PIECE] = { { 0 } };

	memset(s, 0, n_cols * sizeof *s);
	for (size_t i = 0; i < m->n_in; i += PIECE) {
		size_t n = MIN(PIECE, m->n_in - i);

		for (size_t r = 0; r < n_rows; r++)
			widen(m->type, w + r * m->row_bytes, i, n, buf[r]);
		tile_cols((const float (*)[PIECE])buf, x + i * sizeof(float),
		    m->x_stride, n, n_cols, s);
	}
	for (size_t c = 0; c < n_cols; c++)
		for (size_t r = 0; r < n_rows; r++)
			y[c * m->y_stride + r] = tree32(s[c][r]);
}

AVX2_END

void
avx2_floats(const struct matmul *m, size_t r0, size_t r1)
{
	const uint8_t *w = m->w, *x = m->x;
	bool plain = m->type == TYPE_F32 || m->type == TYPE_F16 ||
	    m->type == TYPE_BF16;
	size_t cols = plain ? COLS : MAX_COLS;

	/* few columns: each meets the row by itself, unless that means to
	   dequantize the row again */
	if (m->n_cols <= (plain ? FEW : 1)) {
		for (size_t r = r0; r < r1; r++)
			for (size_t c = 0; c < m->n_cols; c++)
				m->y[c * m->y_stride + r] = dot(m->type,
				    w + r * m->row_bytes, (const float *)
				    (const void *)(x + c * m->x_stride),
				    m->n_in);
		return;
	}
	for (size_t c = 0; c < m->n_cols; c += cols)
		for (size_t r = r0; r < r1; r += ROWS)
			rows_cols(m, w + r * m->row_bytes, MIN(ROWS, r1 - r),
			    x + c * m->x_stride, MIN(cols, m->n_cols - c),
			    m->y + c * m->y_stride + r);
}

#else
typedef int nothing_here;
#endif
