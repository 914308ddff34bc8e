/* SPDX-License-Identifier: MIT */
/*
 * The searches of quant.h, for an instruction set that the including file has
 * chosen. Vectors are GCC's and clang's own, so there is one source: each
 * operation is one of IEEE 754 on each lane, whatever the machine, and sums are
 * kept in eight lanes that are added up at the end in a fixed order.
 */
#include <math.h>

#include "quant.h"

/* they are passed within one file only */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t i8 __attribute__((vector_size(32)));
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

INLINE v8
clamp(v8 x, float lo, float hi)
{
	x = pick(x > all(lo), x, all(lo));
	return pick(x < all(hi), x, all(hi));
}

/* To the nearest whole number, ties to even; |x| < 2^22. */
INLINE v8
nearest(v8 x)
{
	const v8 big = all(0x1.8p23f);

	return x + big - big;
}

INLINE float
sum(v8 a)
{
	return ((a[0] + a[4]) + (a[2] + a[6])) +
	    ((a[1] + a[5]) + (a[3] + a[7]));
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

/* The first value of the largest magnitude. */
INLINE float
extreme(const float *x, size_t n)
{
	float max = 0;
	size_t i;

	for (i = 0; i < n; i++)
		if (fabsf(x[i]) > fabsf(max))
			max = x[i];
	return max;
}

/* ---- one step --------------------------------------------------------- */

/* The step that is best for the codes that go with t, by least squares, and in
   *gain what it takes off the error that all zeros would have. */
INLINE float
refine(const float *x, const float *w, size_t n, float t, float lo, float hi,
    float *gain)
{
	v8 a = all(0), b = all(0), q, wq;
	float sa, sb;
	size_t i;

	for (i = 0; i < n; i += 8) {
		q = code(load(x + i), t, 0, lo, hi);
		wq = load(w + i) * q;
		a += wq * load(x + i);
		b += wq * q;
	}
	sa = sum(a);
	sb = sum(b);
	*gain = sb > 0 ? sa * sa / sb : 0;
	return sb > 0 ? sa / sb : 0;
}

/* Tenths of a code by which the largest value is put elsewhere than at the end
   of the range: more do not make a difference. The end itself comes first, for
   blocks in which all do equally well. */
#define FROM (-18)
#define TO 9

/* Better by more than rounding. */
INLINE bool
exceeds(float gain, float most)
{
	return gain > most * (1 + 0x1p-20f);
}

static float
symmetric(const float *x, const float *w, size_t n, int lo, int hi)
{
	float m = extreme(x, n), end = lo == 0 ? -(float)hi : (float)-lo;
	float step, best = 0, gain, most = 0, t;
	int k;

	if (fabsf(m) < 1e-30f)
		return 0;
	/* the largest value comes to the long end of the range, or somewhat
	   within or beyond it */
	for (k = FROM - 1; k <= TO; k++) {
		t = -(end + 0.1f * (float)(k < FROM ? 0 : k)) / m;
		step = refine(x, w, n, t, (float)lo, (float)hi, &gain);
		if (exceeds(gain, most)) {
			most = gain;
			best = step;
		}
	}
	for (k = 0; k < 2 && best != 0; k++) {
		step = refine(x, w, n, inverse(best), (float)lo, (float)hi, &gain);
		if (gain > most) {
			most = gain;
			best = step;
		}
	}
	return best;
}

/* ---- step and minimum -------------------------------------------------- */

struct moments {
	float w, x, xx;		/* sums of w, w x, w x^2 */
};

/* The same for two numbers: *step and *min for the codes of t and min; returns
   the error that is left. */
INLINE float
refine2(const float *x, const float *w, size_t n, float t, float hi,
    const struct moments *m, float *step, float *min)
{
	v8 c = all(0), cc = all(0), cx = all(0), q, wq;
	float sc, scc, scx, det, b;
	size_t i;

	for (i = 0; i < n; i += 8) {
		q = code(load(x + i), t, *min, 0, hi);
		wq = load(w + i) * q;
		c += wq;
		cc += wq * q;
		cx += wq * load(x + i);
	}
	sc = sum(c);
	scc = sum(cc);
	scx = sum(cx);
	if (!(scc > 0))
		return INFINITY;
	det = m->w * scc - sc * sc;
	*step = (m->w * scx - m->x * sc) / det;
	b = (scc * m->x - sc * scx) / det;
	if (!(det > 0) || b > 0) {	/* which cannot be stored */
		b = 0;
		*step = scx / scc;
	}
	*min = -b;
	return m->xx - *step * scx - b * m->x;
}

static float
affine(const float *x, const float *w, size_t n, int hi, float *min)
{
	float from = 0, to = x[0], best = 0, step = 0, b, t, e, least = INFINITY;
	struct moments m = {0};
	v8 sw = all(0), sx = all(0), sxx = all(0);
	float top = (float)hi;
	size_t i;
	int k;

	for (i = 0; i < n; i++) {
		from = x[i] < from ? x[i] : from;
		to = x[i] > to ? x[i] : to;
	}
	*min = -from;
	if (to - from < 1e-30f)
		return 0;
	for (i = 0; i < n; i += 8) {
		v8 wx = load(w + i) * load(x + i);

		sw += load(w + i);
		sx += wx;
		sxx += wx * load(x + i);
	}
	m.w = sum(sw);
	m.x = sum(sx);
	m.xx = sum(sxx);
	for (k = -12; k < 12; k++) {
		t = (top + 0.1f * (float)k) / (to - from);
		b = -from;
		e = refine2(x, w, n, t, top, &m, &step, &b);
		if (e < least && step > 0) {
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
	float t = inverse(step);
	size_t i, k;
	v8 c;

	for (i = 0; i < n; i += 8) {
		c = code(load(x + i), t, min, (float)lo, (float)hi);
		for (k = 0; k < 8; k++)
			q[i + k] = (int8_t)c[k];
	}
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

#define SEARCH(set) { set, symmetric, affine, error, codes, book, book_error, \
	book_codes }
