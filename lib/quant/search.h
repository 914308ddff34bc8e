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

/* What brings a number to the nearest whole one, ties to even, if it is added
   and taken away again; |x| < 2^22. Then the low bits are that number. */
#define BIG 0x1.8p23f

INLINE v8
nearest(v8 x)
{
	return x + all(BIG) - all(BIG);
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

/* By how many tenths of a code the largest value is put elsewhere than at the end
   of the range: more make no difference. The end itself comes first, for blocks
   in which all do equally well. */
#define TRIES 4		/* vectors of them */
static const float shift[8 * TRIES] = { 0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5,
    -6, 6, -7, 7, -8, 8, -9, 9, -10, 10, -11, 11, -12, -13, -14, -15, -16, -17,
    -18, -19, -20 };

/* Better by more than rounding. */
INLINE bool
exceeds(float gain, float most)
{
	return gain > most * (1 + 0x1p-20f);
}

/* The best of the steps that belong to a and b, the sums of refine(). */
INLINE float
best_of(const v8 *a, const v8 *b, float *most)
{
	v8 gain[TRIES];
	float best = 0;
	int g, k;

	*most = 0;
	for (g = 0; g < TRIES; g++) {
		gain[g] = a[g] * a[g] / b[g];
		for (k = 0; k < 8; k++)
			if (b[g][k] > 0 && exceeds(gain[g][k], *most)) {
				*most = gain[g][k];
				best = a[g][k] / b[g][k];
			}
	}
	return best;
}

static float
symmetric(const float *x, const float *w, size_t n, int lo, int hi)
{
	float m = extreme(x, n), end = lo == 0 ? -(float)hi : (float)-lo;
	float step, best, gain, most;
	v8 t[TRIES], a[TRIES], b[TRIES], q;
	size_t i;
	int g, k;

	if (fabsf(m) < 1e-30f)
		return 0;
	for (g = 0; g < TRIES; g++) {
		t[g] = (all(end) + all(0.1f) * load(shift + 8 * g)) *
		    all(-1 / m);
		a[g] = b[g] = all(0);
	}
	for (i = 0; i < n; i++)
		for (g = 0; g < TRIES; g++) {
			q = nearest(clamp(all(x[i]) * t[g], (float)lo,
			    (float)hi));
			a[g] += all(w[i] * x[i]) * q;
			b[g] += all(w[i]) * q * q;
		}
	best = best_of(a, b, &most);
	for (k = 0; k < 2 && best != 0; k++) {
		step = refine(x, w, n, inverse(best), (float)lo, (float)hi,
		    &gain);
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

#define TRIES2 3

static float
affine(const float *x, const float *w, size_t n, int hi, float *min)
{
	float from = 0, to = x[0], best = 0, step = 0, b = 0, e, least, close;
	struct moments m = {0};
	v8 t[TRIES2], c[TRIES2], cc[TRIES2], cx[TRIES2], q, wq;
	float top = (float)hi;
	size_t i;
	int g, k;

	for (i = 0; i < n; i++) {
		from = x[i] < from ? x[i] : from;
		to = x[i] > to ? x[i] : to;
		m.w += w[i];
		m.x += w[i] * x[i];
		m.xx += w[i] * x[i] * x[i];
	}
	*min = -from;
	if (to - from < 1e-30f)
		return 0;
	least = m.xx * 2;
	close = m.xx * 0x1p-22f;	/* no more than rounding */
	for (g = 0; g < TRIES2; g++) {
		t[g] = (all(top) + all(0.1f) * load(shift + 8 * g)) *
		    all(1 / (to - from));
		c[g] = cc[g] = cx[g] = all(0);
	}
	for (i = 0; i < n; i++)
		for (g = 0; g < TRIES2; g++) {
			q = nearest(clamp(all(x[i] - from) * t[g], 0, top));
			wq = all(w[i]) * q;
			c[g] += wq;
			cc[g] += wq * q;
			cx[g] += wq * all(x[i]);
		}
	for (g = 0; g < TRIES2; g++)
		for (k = 0; k < 8; k++) {
			e = solve(c[g][k], cc[g][k], cx[g][k], &m, &step, &b);
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
	float t = inverse(step);
	size_t i;
	v8 c;
	b8 b;

	for (i = 0; i < n; i += 8) {
		c = clamp((load(x + i) + all(min)) * all(t), (float)lo,
		    (float)hi) + all(BIG);
		b = __builtin_convertvector((i8)c, b8);
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
	mean = (importance != NULL ? 1.25f : 4) * sum(s) / (float)n;
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

#define SEARCH(set) { set, widen, largest, weigh, symmetric, affine, error, \
	codes, book, book_error, book_codes }
