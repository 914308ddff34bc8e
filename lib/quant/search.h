/* SPDX-License-Identifier: MIT */
/*
 * The searches of quant.h, for an instruction set that the including file has
 * chosen. Vectors are GCC's and clang's own, so there is one source: each
 * operation is one of IEEE 754 on each lane, whatever the machine. Lanes are the
 * values of a block, whose sums are added up at the end in a fixed order; or,
 * where many steps are tried on the same values, the steps.
 */
#include <math.h>

#include "quant.h"

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef uint16_t h8 __attribute__((vector_size(16)));
typedef int8_t b8 __attribute__((vector_size(8)));
/* in memory */
typedef float v8m __attribute__((vector_size(32), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE v8
all(float f)
{
	return (v8){ f, f, f, f, f, f, f, f };
}

INLINE v8
load(const float *p)
{
	return *(const v8m *)p;
}

INLINE v8
pick(i8 mask, v8 yes, v8 no)
{
	return (v8)((mask & (i8)yes) | (~mask & (i8)no));
}

/* The including file may have an instruction for these. */
#ifndef LARGER
#define LARGER(a, b) pick((a) > (b), a, b)
#define SMALLER(a, b) pick((a) < (b), a, b)
#endif

INLINE v8
root(v8 x)
{
#ifdef ROOT
	return ROOT(x);
#else
	int k;

	for (k = 0; k < 8; k++)
		x[k] = sqrtf(x[k]);
	return x;
#endif
}

INLINE v8
clamp(v8 x, float lo, float hi)
{
	x = LARGER(x, all(lo));
	return SMALLER(x, all(hi));
}

/* The largest of eight. */
INLINE float
highest(v8 a)
{
#ifdef HIGHEST
	return HIGHEST(a);
#else
	float most = a[0];
	int k;

	for (k = 1; k < 8; k++)
		most = a[k] > most ? a[k] : most;
	return most;
#endif
}

/* Which of them that is, or the first of several. */
INLINE int
which_highest(v8 a)
{
#ifdef WHICH_HIGHEST
	return WHICH_HIGHEST(a);
#else
	float most = highest(a);
	int k = 0;

	while (a[k] != most)
		k++;
	return k;
#endif
}

/* What brings a number to the nearest whole one, ties to even, if it is added
   and taken away again; |x| < 2^22. Then the low bits are that number. */
#define BIG 0x1.8p23f

INLINE v8
nearest(v8 x)
{
	return x + all(BIG) - all(BIG);
}

/* As 32-bit integers; |x| < 2^22. */
#ifndef WHOLE
#define WHOLE(x) ((i8)((x) + all(BIG)) - 0x4b400000)
#endif

INLINE float
sum(v8 a)
{
#ifdef SUM
	return SUM(a);
#else
	return ((a[0] + a[4]) + (a[2] + a[6])) +
	    ((a[1] + a[5]) + (a[3] + a[7]));
#endif
}

INLINE int32_t
whole_sum(i8 a)
{
	int32_t s = 0;
	int k;

	for (k = 0; k < 8; k++)
		s += a[k];
	return s;
}

/* The codes of x for 1 / step = t. */
INLINE v8
code(v8 x, float t, float min, float lo, float hi)
{
	return nearest(clamp((x + all(min)) * all(t), lo, hi));
}

INLINE float
inverse(float step)
{
	float t = 1 / step;

	return step == 0 || t > 3e38f || t < -3e38f ? 0 : t;
}

/* Their inverses; 0 for one that would be infinite or about to be. */
INLINE v8
inverses(v8 x)
{
	return pick((x < all(1e-30f)) & (x > all(-1e-30f)), all(0), all(1) / x);
}

INLINE void
range(const float *x, size_t n, float *least, float *most)
{
	v8 hi = load(x), lo = hi;
	size_t i;

	for (i = 8; i < n; i += 8) {
		hi = LARGER(load(x + i), hi);
		lo = SMALLER(load(x + i), lo);
	}
	*most = highest(hi);
	*least = -highest(-lo);
}

/* The value of the largest magnitude. */
INLINE float
extreme(const float *x, size_t n)
{
	float hi, lo;

	range(x, n, &lo, &hi);
	return hi >= -lo ? hi : lo;
}

/* Better by more than rounding. */
INLINE bool
exceeds(float gain, float most)
{
	return gain > most * (1 + 0x1p-20f);
}

/* ---- one step --------------------------------------------------------- */

/*
 * Which of eight steps suits best is found in whole numbers, which are small
 * enough for 16 bits and whose sums are exact: that takes few instructions, in
 * any order. What rounding hides there makes no difference; the step itself is
 * then the best one for its codes, by least squares.
 *
 * Blocks go through the stages together: so the next one need not wait for what
 * takes long in this one.
 */
#define BLOCKS 16	/* at most */
#define VALUES 32	/* of a block, at most */
#define UNIT 2048	/* the largest value */
/*
 * Where the largest value is put, in sixteenths of a code: first beyond the end of
 * the range, where it is cut off, last well before it; the more codes, the larger
 * the part of them that may be left unused. Found by trying; and none of the
 * eight is half a code from the end, where rounding would decide.
 */
#define FIRST(top) (16 * (top) + 32)
#define LESS(top) ((top) > 8 ? 15 : 9)

/* Sums of wx q and of w q^2, with the codes q = x t / 2^15 within lo..hi, for t
   and seven more, each smaller by `less`. */
#ifndef TRY
INLINE void
try(const i8 *x, const i8 *w, const i8 *wx, size_t n, int t, int less,
    int lo, int hi, i8 *a, i8 *b)
{
	i8 q, sa, sb;
	size_t i;
	int k;

	for (k = 0; k < 8; k++, t -= less) {
		sa = sb = (i8){ 0 };
		for (i = 0; i < n / 8; i++) {
			q = (x[i] * t + (1 << 14)) >> 15;
			q = (q & (q > lo)) | (lo & (q <= lo));
			q = (q & (q < hi)) | (hi & (q >= hi));
			sa += wx[i] * q;
			sb += w[i] * q * q;
		}
		(*a)[k] = whole_sum(sa);
		(*b)[k] = whole_sum(sb);
	}
}
#define TRY try
#endif

/* What each of the eight takes off the error that all zeros would have. `by` and
   w_by: 1 / the largest value and weight; the sign of `by` is also that of its
   code. */
INLINE v8
gains(const float *x, const float *w, size_t n, float by, float w_by, int lo,
    int hi)
{
	i8 xs[VALUES / 8], ws[VALUES / 8], wxs[VALUES / 8], a, b;
	int top = lo == 0 ? hi : -lo;
	size_t i;
	v8 y, u;

	for (i = 0; i < n / 8; i++) {
		y = load(x + 8 * i) * all(by);
		u = SMALLER(load(w + 8 * i) * all(w_by), all(1));
		xs[i] = WHOLE(y * all(UNIT));
		ws[i] = WHOLE(u * all((float)(INT16_MAX / top)));
		wxs[i] = WHOLE(y * u * all(INT16_MAX));
	}
	TRY(xs, ws, wxs, n, FIRST(top), LESS(top), lo, hi, &a, &b);
	b = (b & (b > 0)) | (1 & (b <= 0));
	y = __builtin_convertvector(a, v8);
	return y * y / __builtin_convertvector(b, v8);
}

/* Sums of w x q and w q^2 for the codes that go with t. */
INLINE void
products(const float *x, const float *w, size_t n, float t, float lo, float hi,
    float *wxq, float *wqq)
{
	v8 a = all(0), b = all(0), q, wq;
	size_t i;

	for (i = 0; i < n; i += 8) {
		q = code(load(x + i), t, 0, lo, hi);
		wq = load(w + i) * q;
		a += wq * load(x + i);
		b += wq * q;
	}
	*wxq = sum(a);
	*wqq = sum(b);
}

INLINE void
steps(const float *x, const float *w, size_t n, size_t blocks, int lo, int hi,
    float *step)
{
	float a[BLOCKS] = { 0 }, b[BLOCKS] = { 0 }, by[BLOCKS] = { 0 };
	float w_by[BLOCKS] = { 0 }, none;
	int top = lo == 0 ? hi : -lo;
	v8 gain[BLOCKS], least, most;
	size_t j;

	for (j = 0; j < blocks; j++) {
		range(x + n * j, n, &a[j], &b[j]);
		range(w + n * j, n, &none, &w_by[j]);
	}
	for (j = 0; j < blocks; j += 8) {
		least = load(a + j);
		most = load(b + j);
		*(v8m *)(by + j) = inverses(pick(most >= -least, most, least));
		*(v8m *)(w_by + j) = inverses(load(w_by + j));
	}
	for (j = 0; j < blocks; j++)
		gain[j] = gains(x + n * j, w + n * j, n,
		    lo == 0 ? by[j] : -by[j], w_by[j], lo, hi);
	for (j = 0; j < blocks; j++)
		by[j] *= (float)(FIRST(top) - LESS(top) *
		    which_highest(gain[j])) / (lo == 0 ? 16.0f : -16.0f);
	for (j = 0; j < blocks; j++)
		products(x + n * j, w + n * j, n, by[j], (float)lo, (float)hi,
		    &a[j], &b[j]);
	for (j = 0; j < blocks; j += 8) {
		most = load(b + j);
		*(v8m *)(a + j) = pick(most > all(0), load(a + j) / most, all(0));
	}
	memcpy(step, a, blocks * sizeof *step);
}

static void
symmetric(const float *x, const float *w, size_t n, size_t blocks, int lo,
    int hi, float *step)
{
#ifndef PICO_SMALL
	if (n == 32)
		steps(x, w, 32, blocks, lo, hi, step);
	else if (n == 16)
		steps(x, w, 16, blocks, lo, hi, step);
	else
#endif
		steps(x, w, n, blocks, lo, hi, step);
}

/*
 * The same by importance, with which weights differ more: what is large may be cut
 * off, have more room, or be better off at the other end. So more steps are tried,
 * of both signs, in floats; then those that suit the codes of the best one, twice.
 */
#define FINE 33		/* of each sign */

INLINE float
fine_step(const float *x, const float *w, size_t n, int lo, int hi)
{
	float m = extreme(x, n), top = (float)(lo == 0 ? hi : -lo), best = 0;
	float most = 0, t, a, b;
	int k;

	if (fabsf(m) < 1e-30f)
		return 0;
	for (k = 0; k < 2 * FINE + 2; k++) {
		/* the largest from two codes beyond the end to well before it */
		t = (top + 2 - (2 + 0.4f * top) / (FINE - 1) *
		    (float)(k / 2)) / m;
		if (k >= 2 * FINE)
			t = inverse(best);
		else if ((k % 2 == 0) == (lo < 0))
			t = -t;
		products(x, w, n, t, (float)lo, (float)hi, &a, &b);
		if (b > 0 && exceeds(a * (a / b), most)) {
			most = a * (a / b);
			best = a / b;
		}
	}
	return best;
}

static void
fine(const float *x, const float *w, size_t n, size_t blocks, int lo, int hi,
    float *step)
{
	size_t j;

	for (j = 0; j < blocks; j++)
		step[j] = fine_step(x + n * j, w + n * j, n, lo, hi);
}

/* By how many tenths of a code the largest value is put elsewhere than at the end
   of the range: more make little difference. The end itself comes first, for
   blocks in which all do equally well. */
static const float shift[8] = { 0, 4, -4, 8, -8, 12, -12, -16 };

struct moments {
	float w, x, xx;		/* sums of w, w x, w x^2 */
};

/* Step and minimum of the least error for the codes with these sums of w q, w q^2
   and w q x; returns that error. */
INLINE float
solve(float c, float cc, float cx, const struct moments *m, float *step,
    float *min)
{
	float det = m->w * cc - c * c, b;

	if (!(cc > 0))
		return INFINITY;
	*step = (m->w * cx - m->x * c) / det;
	b = (cc * m->x - c * cx) / det;
	/* all codes are one, or a sign that cannot be stored */
	if (!(det > m->w * cc * 0x1p-20f) || b > 0) {
		b = 0;
		*step = cx / cc;
	}
	*min = -b;
	return m->xx - *step * cx - b * m->x;
}

/* The same for the codes of t and min. */
INLINE float
refine2(const float *x, const float *w, size_t n, float t, float hi,
    const struct moments *m, float *step, float *min)
{
	v8 c = all(0), cc = all(0), cx = all(0), q, wq;
	size_t i;

	for (i = 0; i < n; i += 8) {
		q = code(load(x + i), t, *min, 0, hi);
		wq = load(w + i) * q;
		c += wq;
		cc += wq * q;
		cx += wq * load(x + i);
	}
	return solve(sum(c), sum(cc), sum(cx), m, step, min);
}

static float
affine(const float *x, const float *w, size_t n, int hi, float *min)
{
	float from, to, best = 0, step = 0, b = 0, e, least, close;
	v8 c = all(0), cc = all(0), cx = all(0), xx = all(0), t, q, wq;
	float top = (float)hi;
	struct moments m;
	size_t i;
	int k;

	range(x, n, &from, &to);
	from = from < 0 ? from : 0;
	for (i = 0; i < n; i += 8) {
		c += load(w + i);
		cx += load(w + i) * load(x + i);
		xx += load(w + i) * load(x + i) * load(x + i);
	}
	m = (struct moments){ sum(c), sum(cx), sum(xx) };
	*min = -from;
	if (to - from < 1e-30f)
		return 0;
	least = m.xx * 2;
	close = m.xx * 0x1p-22f;	/* no more than rounding */
	t = (all(top) + all(0.1f) * load(shift)) * all(1 / (to - from));
	c = cx = all(0);
	for (i = 0; i < n; i++) {
		q = nearest(clamp(all(x[i] - from) * t, 0, top));
		wq = all(w[i]) * q;
		c += wq;
		cc += wq * q;
		cx += wq * all(x[i]);
	}
	for (k = 0; k < 8; k++) {
		e = solve(c[k], cc[k], cx[k], &m, &step, &b);
		if (e < least - close && step > 0) {
			least = e;
			best = step;
			*min = b;
		}
	}
	for (k = 0; k < 2 && best > 0; k++) {
		b = *min;
		e = refine2(x, w, n, inverse(best), top, &m, &step, &b);
		if (e < least && step > 0) {
			least = e;
			best = step;
			*min = b;
		}
	}
	return best;
}

static float
error(const float *x, const float *w, size_t n, float step, float min, int lo,
    int hi)
{
	float t = inverse(step);
	v8 s = all(0), d;
	size_t i;

	for (i = 0; i < n; i += 8) {
		d = all(step) * code(load(x + i), t, min, (float)lo,
		    (float)hi) - all(min) - load(x + i);
		s += load(w + i) * d * d;
	}
	return sum(s);
}

static void
codes(const float *x, size_t n, float step, float min, int lo, int hi,
    int8_t *q)
{
	float t = inverse(step), l = (float)lo, h = (float)hi;
	size_t i = 0;
	b8 b;

#ifdef BYTES
	for (; i + 32 <= n; i += 32)
		BYTES(code(load(x + i), t, min, l, h), code(load(x + i + 8), t,
		    min, l, h), code(load(x + i + 16), t, min, l, h),
		    code(load(x + i + 24), t, min, l, h), q + i);
#endif
	for (; i < n; i += 8) {
		b = __builtin_convertvector(WHOLE(code(load(x + i), t, min, l,
		    h)), b8);
		memcpy(q + i, &b, sizeof b);
	}
}

/* ---- what every value goes through ------------------------------------- */

/* As pico_dequantize(); what is not finite only stays so. */
static void
widen(uint32_t type, const uint8_t *src, float *x, size_t n)
{
	size_t i = 0;
	h8 h;
	i8 u;
	v8 f;

	for (; type == TYPE_F16 && i + 8 <= n; i += 8) {
		memcpy(&h, src + 2 * i, sizeof h);
		u = __builtin_convertvector(h, i8);
		/* the exponent has another bias; subnormals come right, too */
		f = (v8)((u & 0x7fff) << 13) * all(0x1p112f);
		u = (i8)f | (((u & 0x7c00) == 0x7c00) & 0x7f800000) |
		    (u & 0x8000) * -0x10000;
		*(v8m *)(x + i) = (v8)u;
	}
	for (; type == TYPE_BF16 && i + 8 <= n; i += 8) {
		memcpy(&h, src + 2 * i, sizeof h);
		*(v8m *)(x + i) = (v8)(__builtin_convertvector(h, i8) << 16);
	}
	if (i < n)
		(void)pico_dequantize(type, src + i / pico_type(type)->block *
		    pico_type(type)->bytes, x + i, n - i);
}

/* The largest magnitude; NaN or infinity if there is one. */
static float
largest(const float *x, size_t n)
{
	v8 m = all(0), bad = all(0), a;
	float max = 0;
	size_t i;
	int k;

	for (i = 0; i + 8 <= n; i += 8) {
		a = (v8)((i8)load(x + i) & 0x7fffffff);
		m = LARGER(a, m);
		bad += a * all(0);	/* NaN of those */
	}
	for (; i < n; i++) {
		max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
		bad[0] += x[i] * 0;
	}
	for (k = 0; k < 8; k++)
		max = m[k] > max ? m[k] : max;
	return max + sum(bad);
}

static void
weigh(const float *x, const float *importance, size_t n, float *w)
{
	v8 s = all(0);
	float mean;
	size_t i;

	for (i = 0; i < n; i += 8)
		s += load(x + i) * load(x + i);
	mean = 4 * sum(s) / (float)n;
	for (i = 0; i < n; i += 8)
		*(v8m *)(w + i) = root(all(mean) + load(x + i) * load(x + i)) *
		    (importance != NULL ? load(importance + i) : all(1));
}

/* ---- the code book of IQ4 ---------------------------------------------- */

static const int8_t book_iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
    1, 13, 25, 38, 53, 69, 89, 113 };

/* The entry nearest to y; of two the larger. */
INLINE v8
entry(v8 y)
{
	v8 v = all(book_iq4[0]);
	int k;

	for (k = 1; k < 16; k++)
		v = pick(y < all((float)(book_iq4[k - 1] + book_iq4[k]) / 2), v,
		    all(book_iq4[k]));
	return v;
}

INLINE float
book_refine(const float *x, const float *w, size_t n, float t, float *gain)
{
	v8 a = all(0), b = all(0), v, wv;
	float sa, sb;
	size_t i;

	for (i = 0; i < n; i += 8) {
		v = entry(load(x + i) * all(t));
		wv = load(w + i) * v;
		a += wv * load(x + i);
		b += wv * v;
	}
	sa = sum(a);
	sb = sum(b);
	*gain = sb > 0 ? sa * sa / sb : 0;
	return sb > 0 ? sa / sb : 0;
}

static float
book(const float *x, const float *w, size_t n)
{
	float m = extreme(x, n), step, best = 0, gain, most = 0;
	int k;

	if (fabsf(m) < 1e-30f)
		return 0;
	for (k = -11; k <= 10; k++) {
		/* either end of the book may be the one for the largest */
		step = book_refine(x, w, n, k == 10 ? 113 / m :
		    (2 * (float)(k < -10 ? 0 : k) - 127) / m, &gain);
		if (exceeds(gain, most)) {
			most = gain;
			best = step;
		}
	}
	for (k = 0; k < 2 && best != 0; k++) {
		step = book_refine(x, w, n, inverse(best), &gain);
		if (gain > most) {
			most = gain;
			best = step;
		}
	}
	return best;
}

static float
book_error(const float *x, const float *w, size_t n, float step)
{
	float t = inverse(step);
	v8 s = all(0), d;
	size_t i;

	for (i = 0; i < n; i += 8) {
		d = all(step) * entry(load(x + i) * all(t)) - load(x + i);
		s += load(w + i) * d * d;
	}
	return sum(s);
}

static void
book_codes(const float *x, size_t n, float step, int8_t *q)
{
	float t = inverse(step);
	size_t i;
	int k;

	for (i = 0; i < n; i++) {
		float y = x[i] * t;

		for (k = 1; k < 16 && !(y <
		    (float)(book_iq4[k - 1] + book_iq4[k]) / 2); k++)
			;
		q[i] = (int8_t)(k - 1);
	}
}

#define SEARCH(set, symmetric) { set, widen, largest, weigh, symmetric, affine, \
	error, codes, book, book_error, book_codes }
#define SEARCHES(set) { SEARCH(set, symmetric), SEARCH(set, fine) }
