/* SPDX-License-Identifier: MIT */
/*
 * The scalar kernels against what they approximate (float64 sums, libm), and
 * against the definition in kernel.h, computed here once more by other means.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/gguf/gguf.h"
#include "../../lib/kernel/kernel.h"

#define SHARED "../shared/conformance/quants/"

static int n_tests, n_failed;
static const struct kernels *k;

static void
ok(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++n_tests, what);
	n_failed += !good;
}

static void
skip(const char *what, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++n_tests, what, why);
}

static void *
new(size_t n, size_t size)
{
	void *p = mem_new(n, size, "test data", NULL);

	if (p == NULL)
		abort();
	return p;
}

/* A fixed sequence of well mixed numbers (splitmix64). */
static uint64_t state;

static uint64_t
mixed(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* In [-1, 1), exact in float32. */
static float
uniform(void)
{
	return (float)((int32_t)(mixed() >> 40) - (1 << 23)) * 0x1p-23f;
}

static void
fill(float *x, size_t n, float size)
{
	for (size_t i = 0; i < n; i++)
		x[i] = uniform() * size;
}

static bool
same(const float *a, const float *b, size_t n)
{
	return memcmp(a, b, n * sizeof *a) == 0;
}

/* The largest error, as a fraction of the largest value expected. */
static double
error(const float *got, const double *want, size_t n)
{
	double worst = 0, top = 0;

	for (size_t i = 0; i < n; i++) {
		double e = fabs(got[i] - want[i]);

		worst = e <= worst ? worst : e;
		top = fmax(top, fabs(want[i]));
	}
	return worst / top;
}

static float
tree(float *s, int n)
{
	while ((n /= 2) > 0)
		for (int i = 0; i < n; i++)
			s[i] += s[i + n];
	return s[0];
}

/* ---- half precision ---- */

static double
half_value(int h)
{
	int e = h >> 10 & 31, man = h & 0x3ff;
	double v = e == 31 ? (man != 0 ? NAN : INFINITY) :
	    e > 0 ? ldexp(man + 1024, e - 25) : ldexp(man, -24);

	return h & 0x8000 ? -v : v;
}

static void
test_half(void)
{
	static uint16_t h[65536];
	static float y[65536], one[1] = { 1 };
	struct matmul m = { .type = TYPE_F16, .w = h, .row_bytes = 2,
	    .n_in = 1, .x = one, .n_cols = 1, .y = y };
	bool widen = true, kernel = true, back = true, round = true;

	for (int i = 0; i < 65536; i++)
		h[i] = (uint16_t)i;
	k->matmul(&m, 0, 65536);
	for (int i = 0; i < 65536; i++) {
		double want = half_value(i);
		float f = f16_to_f32(h[i]);

		if (isnan(want)) {
			widen &= isnan(f);
			kernel &= isnan(y[i]);
			back &= (f32_to_f16(f) & 0x7c00) == 0x7c00 &&
			    (f32_to_f16(f) & 0x3ff) != 0;
		} else {
			widen &= f == want && !signbit(f) == !signbit(want);
			kernel &= y[i] == want;
			back &= f32_to_f16(f) == i;
		}
	}
	/* between each two neighbours: the middle, and one float to each side */
	for (int i = 0; i < 0x7c00; i++) {
		double next = i == 0x7bff ? 65536 : half_value(i + 1);
		float mid = (float)((half_value(i) + next) / 2);

		round &= f32_to_f16(mid) == i + (i & 1);
		round &= f32_to_f16(nextafterf(mid, 0)) == i;
		round &= f32_to_f16(nextafterf(mid, INFINITY)) == i + 1;
		round &= f32_to_f16(-mid) == (0x8000 | (i + (i & 1)));
	}
	ok(widen, "every half widens exactly");
	ok(kernel, "every half widens exactly in the F16 product");
	ok(back, "every half survives the way back");
	ok(round, "float32 to half rounds to nearest even");
}

/* ---- elementary functions ---- */

static double
ulps(float got, double want)
{
	int e;

	if (isnan(got))
		return INFINITY;
	if (got == (float)want && fabs(want) < FLT_MAX * 2.0)
		return isinf(got) ? 0 : fmin(0.5, fabs(got - want) * 1e300);
	frexp(want, &e);
	return fabs(got - want) / ldexp(1, MAX(e, -125) - 24);
}

/* Every `step`-th float of both signs with magnitude lo..hi. */
static double
sweep(float (*f)(float), double (*ref)(double), float lo, float hi,
    uint32_t step)
{
	double worst = 0;

	for (uint32_t u = get_u32(&lo); u <= get_u32(&hi); u += step) {
		float x = get_f32(&u);

		worst = fmax(worst, ulps(f(x), ref(x)));
		worst = fmax(worst, ulps(f(-x), ref(-x)));
	}
	return worst;
}

static void
test_functions(void)
{
	double e = sweep(k_exp, exp, 0, 87.33f, 97), s = 0;
	double t = sweep(k_tanh, tanh, 0, 20, 97);
	double r = sweep(k_erf, erf, 0, 5, 97);
	float x;

	for (x = -87.3f; x > -105; x -= 0x1p-16f)
		s = fmax(s, ulps(k_exp(x), exp(x)));
	for (x = 87; k_exp(x) < INFINITY; x = nextafterf(x, 100))
		e = fmax(e, ulps(k_exp(x), exp(x)));
	printf("# exp: at most %.3f ulp, subnormal %.3f\n", e, s);
	printf("# tanh: at most %.3f ulp\n# erf: at most %.3f ulp\n", t, r);
	ok(e < 1.5 && s < 1.5, "exp is within 1.5 ulp");
	ok(exp(x) > FLT_MAX && exp(nextafterf(x, 0)) <= FLT_MAX,
	    "exp overflows where it must");
	ok(k_exp(0) == 1 && k_exp(-0.0f) == 1 && k_exp(-INFINITY) == 0 &&
	    k_exp(INFINITY) == INFINITY && isnan(k_exp(NAN)) &&
	    k_exp(-FLT_MAX) == 0 && k_exp(FLT_MAX) == INFINITY,
	    "exp at its ends");
	ok(t < 2, "tanh is within 2 ulp");
	ok(k_tanh(INFINITY) == 1 && k_tanh(-INFINITY) == -1 &&
	    isnan(k_tanh(NAN)) && signbit(k_tanh(-0.0f)), "tanh at its ends");
	ok(r < 2, "erf is within 2 ulp");
	ok(k_erf(INFINITY) == 1 && k_erf(-INFINITY) == -1 &&
	    isnan(k_erf(NAN)) && signbit(k_erf(-0.0f)), "erf at its ends");
}

static double
fn_value(enum k_fn fn, double x)
{
	switch (fn) {
	case K_SILU:
		return x / (1 + exp(-x));
	case K_GELU:
		return 0.5 * x * (1 + tanh(0.79788456 *
		    (x + 0.044715 * x * x * x)));
	case K_GELU_ERF:
		return 0.5 * x * (1 + erf(x / sqrt(2)));
	case K_RELU:
		return fmax(x, 0);
	case K_RELU2:
		return fmax(x, 0) * fmax(x, 0);
	case K_EXP:
		return exp(x);
	case K_TANH:
		return tanh(x);
	default:
		return 1 / (1 + exp(-x));
	}
}

static void
test_activations(void)
{
	enum { N = 4001 };
	static float x[N], y[N], g[N], u[N];
	bool good = true, gated = true;

	fill(u, N, 2);
	for (int fn = K_SILU; fn <= K_SIGMOID; fn++) {
		for (int i = 0; i < N; i++)
			x[i] = g[i] = y[i] = (float)(i - 2000) * 0.01f;
		k->apply((enum k_fn)fn, y, N);
		k->gate((enum k_fn)fn, g, u, N);
		for (int i = 0; i < N; i++) {
			double want = fn_value((enum k_fn)fn, x[i]);

			good &= fabs(y[i] - want) < 1e-6 * fmax(1, fabs(want));
			gated &= g[i] == y[i] * u[i];
		}
	}
	ok(good, "activation functions are what they are called");
	ok(gated, "a gate is the function times the other part");
	y[0] = y[1] = -1e30f;
	k->apply(K_SILU, y, 1);
	y[2] = -1e30f;
	k->apply(K_GELU, y + 1, 1);
	k->apply(K_SIGMOID, y + 2, 1);
	ok(y[0] == 0 && y[1] == 0 && y[2] == 0, "far negative arguments give 0");
}

/* ---- quantized activations ---- */

static void
test_quantize(void)
{
	enum { N = 256 * 64 };
	static float x[N];
	static struct act_q8 a[N / 32];
	static struct act_q8k b[N / 256];
	bool near = true, sums = true, range = true;

	for (int i = 0; i < N; i++)
		x[i] = uniform() * ldexpf(1, i / 256 * 3 - 96);
	memset(x, 0, 256 * sizeof *x);
	k->quantize(ACT_Q8, x, N, a);
	k->quantize(ACT_Q8K, x, N, b);
	for (int i = 0; i < N / 32; i++) {
		int s = 0;

		for (int j = 0; j < 32; j++) {
			near &= fabs(x[32 * i + j] - (double)a[i].d *
			    a[i].q[j]) <= a[i].d * 0.50001;
			range &= a[i].q[j] != -128;
			s += a[i].q[j];
		}
		sums &= s == a[i].sum;
	}
	for (int i = 0; i < N / 256; i++) {
		int s[16] = { 0 };

		for (int j = 0; j < 256; j++) {
			near &= fabs(x[256 * i + j] - (double)b[i].d *
			    b[i].q[j]) <= b[i].d * 0.50001;
			range &= b[i].q[j] != -128;
			s[j / 16] += b[i].q[j];
		}
		for (int j = 0; j < 16; j++)
			sums &= s[j] == b[i].sum[j];
	}
	ok(near, "codes are the nearest");
	ok(range, "no code is -128");
	ok(sums, "sums of codes are right");

	fill(x, 256, 1);
	x[200] = NAN;
	x[3] = INFINITY;
	k->quantize(ACT_Q8, x, 256, a);
	k->quantize(ACT_Q8K, x, 256, b);
	ok(isnan(a[0].d) && a[0].q[0] == 0 && a[0].sum == 0 && isnan(a[6].d) &&
	    !isnan(a[1].d) && isnan(b[0].d) && b[0].q[255] == 0,
	    "a block with a NaN or infinity has a NaN for its scale");
	for (int i = 0; i < 256; i++)
		x[i] = i & 1 ? FLT_MAX : -FLT_MAX;
	k->quantize(ACT_Q8K, x, 256, b);
	near = b[0].q[0] == -127 && b[0].q[1] == 127;
	for (int i = 0; i < 256; i++)
		x[i] = 0x1p-149f;
	k->quantize(ACT_Q8K, x, 256, b);
	ok(near && b[0].d == 0 && b[0].q[0] == 0,
	    "the largest and smallest floats are quantized");
}

/* Our codes times our scale are those of activations.*.bin. */
static void
test_quantize_shared(void)
{
	struct map x, q8, qk;
	struct act_q8 a[32];
	struct act_q8k b[4];
	bool good8 = true, goodk = true;

	if (map_open(&x, SHARED "activations.f32", NULL) != 0) {
		skip("codes of blocks of 32", "no " SHARED);
		skip("codes of blocks of 256", "no " SHARED);
		return;
	}
	if (map_open(&q8, SHARED "activations.Q8_0.bin", NULL) != 0 ||
	    map_open(&qk, SHARED "activations.Q8_K.bin", NULL) != 0 ||
	    x.n != 4096 || q8.n != 32 * 34 || qk.n != 4 * 292)
		abort();
	k->quantize(ACT_Q8, (const float *)(const void *)x.p, 1024, a);
	k->quantize(ACT_Q8K, (const float *)(const void *)x.p, 1024, b);
	for (int i = 0; i < 32; i++)
		good8 &= f32_to_f16(a[i].d) == get_u16(q8.p + 34 * i) &&
		    memcmp(a[i].q, q8.p + 34 * i + 2, 32) == 0;
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 256; j++)
			goodk &= b[i].d * b[i].q[j] ==
			    get_f32(qk.p + 292 * i) *
			    (int8_t)qk.p[292 * i + 4 + j];
	ok(good8, "codes of blocks of 32 are those of activations.Q8_0.bin");
	ok(goodk, "values of blocks of 256 are those of activations.Q8_K.bin");
	map_close(&x);
	map_close(&q8);
	map_close(&qk);
}

/* ---- dot products ---- */

/* Where the scales of a block are, to set them. */
static const struct {
	uint32_t type;
	int d, m;	/* offset of the f16 d, and of m or dmin; -1: none */
} scales[] = {
	{ TYPE_Q4_0, 0, -1 }, { TYPE_Q4_1, 0, 2 }, { TYPE_Q5_0, 0, -1 },
	{ TYPE_Q5_1, 0, 2 }, { TYPE_Q8_0, 0, -1 }, { TYPE_IQ4_NL, 0, -1 },
	{ TYPE_MXFP4, -1, -1 }, { TYPE_Q2_K, 80, 82 }, { TYPE_Q3_K, 108, -1 },
	{ TYPE_Q4_K, 0, 2 }, { TYPE_Q5_K, 0, 2 }, { TYPE_Q6_K, 208, -1 },
	{ TYPE_IQ4_XS, 0, -1 },
	/* other types are only filled with random bits */
	{ TYPE_IQ1_S, 0, -1 }, { TYPE_IQ2_XXS, 0, -1 }, { TYPE_IQ2_XS, 0, -1 },
	{ TYPE_IQ2_S, 0, -1 }, { TYPE_IQ3_XXS, 0, -1 }, { TYPE_IQ3_S, 0, -1 },
	{ TYPE_TQ1_0, 52, -1 }, { TYPE_TQ2_0, 64, -1 }, { TYPE_Q1_0, 0, -1 },
	{ TYPE_Q2_0, 0, -1 }, { TYPE_I8, -1, -1 },
};

static void
set_u16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, 2);
}

/* Random bits, but for scales of a size that weights have. */
static void
random_row(size_t which, uint8_t *w, size_t n_blocks)
{
	const struct pico_type *t = pico_type(scales[which].type);

	for (size_t i = 0; i < n_blocks; i++, w += t->bytes) {
		for (size_t j = 0; j < t->bytes; j++)
			w[j] = (uint8_t)mixed();
		if (scales[which].d >= 0)
			set_u16(w + scales[which].d,
			    f32_to_f16(uniform() * 0.1f));
		if (scales[which].m >= 0)
			set_u16(w + scales[which].m,
			    f32_to_f16(uniform() * 0.1f));
		if (t->id == TYPE_MXFP4)
			w[0] = (uint8_t)(120 + mixed() % 8);
	}
}

/* The activation as it takes part in the product. */
static void
act_values(enum act_kind kind, const void *act, size_t n, double *v)
{
	const struct act_q8 *a = act;
	const struct act_q8k *b = act;
	const float *x = act;

	for (size_t i = 0; i < n; i++)
		v[i] = kind == ACT_Q8 ? (double)a[i / 32].d * a[i / 32].q[i % 32] :
		    kind == ACT_Q8K ?
		    (double)b[i / 256].d * b[i / 256].q[i % 256] : x[i];
}

/* The exact product with the prepared activations, and the sum of magnitudes. */
static double
exact_dot(uint32_t type, const uint8_t *w, const void *act, size_t n,
    double *abs_sum)
{
	float *wf = new(n, sizeof *wf);
	double *v = new(n, sizeof *v), s = 0;

	*abs_sum = 0;
	pico_dequantize(type, w, wf, n);
	act_values(kernel_act_kind(type), act, n, v);
	for (size_t i = 0; i < n; i++) {
		s += wf[i] * v[i];
		*abs_sum += fabs(wf[i] * v[i]);
	}
	free(wf);
	free(v);
	return s;
}

/* A prepared row; the caller frees. */
static void *
prepare(uint32_t type, const float *x, size_t n)
{
	enum act_kind kind = kernel_act_kind(type);
	void *act = new(kernel_act_bytes(kind, n), 1);

	if (kind == ACT_F32)
		memcpy(act, x, n * sizeof *x);
	else
		k->quantize(kind, x, n, act);
	return act;
}

static float
dot(uint32_t type, const uint8_t *w, const void *act, size_t n)
{
	float y;
	struct matmul m = { .type = type, .w = w, .n_in = n, .x = act,
	    .n_cols = 1, .y = &y };

	k->matmul(&m, 0, 1);
	return y;
}

/*
 * isum and msum of a block by brute force: with d = 1 and no minima the values
 * of the weights are the integers that isum is made of, and with d = 0 and
 * m = 1 (dmin = 1) those of msum (of -msum).
 */
static int64_t
integer_sum(size_t which, const uint8_t *block, const int8_t *q, bool minima)
{
	const struct pico_type *t = pico_type(scales[which].type);
	uint8_t b[256];
	float v[256];
	int64_t s = 0;

	memcpy(b, block, t->bytes);
	if (t->id == TYPE_MXFP4)
		b[0] = 128;
	else
		set_u16(b + scales[which].d, minima ? 0 : 0x3c00);
	if (scales[which].m >= 0)
		set_u16(b + scales[which].m, minima ? 0x3c00 : 0);
	pico_dequantize(t->id, b, v, t->block);
	for (uint32_t i = 0; i < t->block; i++)
		s += (int64_t)v[i] * q[i];
	return s;
}

/* The definition of a quantized dot product, literally. */
static float
defined_dot(size_t which, const uint8_t *w, const void *act, size_t n)
{
	const struct pico_type *t = pico_type(scales[which].type);
	float acc[8] = { 0 };

	for (size_t i = 0; i < n / t->block; i++, w += t->bytes) {
		const struct act_q8 *a = (const struct act_q8 *)act + i;
		const struct act_q8k *b = (const struct act_q8k *)act + i;
		float da = t->block == 32 ? a->d : b->d, dw;
		const int8_t *q = t->block == 32 ? a->q : b->q;

		dw = t->id == TYPE_MXFP4 ? ldexpf(1, w[0] - 128) :
		    f16_to_f32(get_u16(w + scales[which].d));
		acc[i % 8] = fmaf(dw * da,
		    (float)integer_sum(which, w, q, false), acc[i % 8]);
		if (scales[which].m >= 0)
			acc[i % 8] = fmaf(f16_to_f32(get_u16(w +
			    scales[which].m)) * da,
			    (float)integer_sum(which, w, q, true), acc[i % 8]);
	}
	return tree(acc, 8);
}

static void
test_dots(void)
{
	enum { BLOCKS = 19, TIMES = 40 };
	bool defined = true, close = true, extreme = true;

	for (size_t i = 0; i < COUNT(scales); i++) {
		const struct pico_type *t = pico_type(scales[i].type);
		size_t n = BLOCKS * t->block;
		uint8_t *w = new(BLOCKS, t->bytes);
		float *x = new(n, sizeof *x), y;
		bool quantized = kernel_act_kind(t->id) != ACT_F32;
		double want, size;

		for (int j = 0; j < TIMES; j++) {
			void *act;

			fill(x, n, j % 2 ? 3 : 0.01f);
			act = prepare(t->id, x, n);
			random_row(i, w, BLOCKS);
			y = dot(t->id, w, act, n);
			want = exact_dot(t->id, w, act, n, &size);
			close &= fabs(y - want) <= 1e-6 * size;
			if (quantized)
				defined &= y == defined_dot(i, w, act, n);
			free(act);
		}
		/* all bits of codes and scales set or not, activations at the
		   ends of their range */
		for (int j = 0; quantized && j < 8; j++) {
			void *act;

			random_row(i, w, BLOCKS);
			for (size_t b = 0; b < BLOCKS; b++) {
				uint8_t *p = w + b * t->bytes, keep[4];
				size_t at = (size_t)MAX(scales[i].d, 0);
				size_t len = scales[i].d < 0 ? 1 :
				    scales[i].m < 0 ? 2 : 4;

				memcpy(keep, p + at, len);
				memset(p, j & 1 ? 0xff : j & 2 ? 0x80 : 0,
				    t->bytes);
				memcpy(p + at, keep, len);
			}
			for (size_t e = 0; e < n; e++)
				x[e] = j & 4 && e % 2 ? -1 : 1;
			act = prepare(t->id, x, n);
			extreme &= dot(t->id, w, act, n) ==
			    defined_dot(i, w, act, n);
			free(act);
		}
		free(w);
		free(x);
	}
	ok(close, "dot products are near the exact ones");
	ok(defined, "quantized dot products are the defined ones, bit for bit");
	ok(extreme, "quantized dot products at the ends of the codes' ranges");
}

/* Float types, at lengths that are no multiple of anything. */
static void
test_float_dots(void)
{
	bool good = true;

	for (size_t n = 1; n < 700; n += n < 70 ? 1 : 57) {
		float w[700], x[700];
		uint8_t w16[1 + 2 * 700];	/* from 1: not aligned */

		fill(w, n, 1);
		fill(x, n, 1);
		for (int type = 0; type < 3; type++) {
			float s[32] = { 0 }, y;

			for (size_t i = 0; i < n; i++) {
				uint16_t h = type == 1 ? f32_to_f16(w[i]) :
				    (uint16_t)(get_u32(&w[i]) >> 16);

				set_u16(w16 + 1 + 2 * i, h);
				s[i % 32] = fmaf(type == 0 ? w[i] : type == 1 ?
				    f16_to_f32(h) : bf16_to_f32(h), x[i],
				    s[i % 32]);
			}
			y = type == 0 ?
			    dot(TYPE_F32, (const uint8_t *)w, x, n) :
			    dot(type == 1 ? TYPE_F16 : TYPE_BF16, w16 + 1, x, n);
			good &= y == tree(s, 32);
		}
	}
	ok(good, "F32, F16 and BF16 dot products are the defined ones");
}

/* MXFP4 factors that are subnormal, and a NaN in an activation. */
static void
test_odd_dots(void)
{
	float x[32], y;
	uint8_t w[17], zero[34] = { 0 };
	bool good = true;
	void *act;

	for (int i = 0; i < 32; i++)
		x[i] = 0x1p20f;
	act = prepare(TYPE_MXFP4, x, 32);
	for (int e = 0; e < 255; e++) {
		memset(w, 0x22, sizeof w);	/* every code is 2 */
		w[0] = (uint8_t)e;
		y = dot(TYPE_MXFP4, w, act, 32);
		good &= y == (e + 26 - 128 < 128 ? ldexpf(1, e + 26 - 128) :
		    INFINITY);
	}
	ok(good, "every exponent of MXFP4, subnormal factors too");
	free(act);
	x[5] = NAN;
	act = prepare(TYPE_Q8_0, x, 32);
	ok(isnan(dot(TYPE_Q8_0, zero, act, 32)), "a NaN reaches the output");
	free(act);
}

/* The same column alone and among others, rows cut anywhere: the same bits. */
static void
test_matmul_parts(void)
{
	enum { ROWS = 7, COLS = 37 };
	static const uint32_t types[] = { TYPE_F16, TYPE_Q8_0, TYPE_Q4_1,
	    TYPE_Q4_K, TYPE_Q6_K, TYPE_IQ2_S, TYPE_MXFP4 };
	bool good = true;

	for (size_t i = 0; i < COUNT(types); i++) {
		const struct pico_type *t = pico_type(types[i]);
		size_t n = 512, row = n / t->block * t->bytes, which = 0;
		enum act_kind kind = kernel_act_kind(t->id);
		size_t stride = kernel_act_bytes(kind, n) + 8;
		uint8_t *w = new(ROWS, row), *x = new(COLS, stride);
		float xf[512], y[COLS][ROWS + 2], z[ROWS + 2];
		struct matmul m = { .type = t->id, .w = w, .row_bytes = row,
		    .n_in = n, .x = x, .x_stride = stride, .n_cols = COLS,
		    .y = y[0], .y_stride = ROWS + 2 };

		while (which < COUNT(scales) && scales[which].type != t->id)
			which++;
		if (which < COUNT(scales))
			random_row(which, w, ROWS * n / t->block);
		else
			for (size_t j = 0; j < ROWS * n; j++)
				set_u16(w + 2 * j, f32_to_f16(uniform()));
		for (size_t c = 0; c < COLS; c++) {
			void *act;

			fill(xf, n, 1);
			act = prepare(t->id, xf, n);
			memcpy(x + c * stride, act, stride - 8);
			free(act);
		}
		for (int c = 0; c < COLS; c++)
			y[c][ROWS] = y[c][ROWS + 1] = 42;
		k->matmul(&m, 0, 3);
		k->matmul(&m, 3, 4);
		k->matmul(&m, 4, ROWS);
		for (size_t c = 0; c < COLS; c++) {
			m.x = x + c * stride;
			m.n_cols = 1;
			m.y = z;
			k->matmul(&m, 0, ROWS);
			good &= same(y[c], z, ROWS);
			good &= y[c][ROWS] == 42 && y[c][ROWS + 1] == 42;
		}
		free(w);
		free(x);
	}
	ok(good, "a product does not depend on how it is cut");
}

/* ---- dots.tsv ---- */

struct tally {
	uint32_t type;
	int n, close;
	double ours, peer;	/* squared errors against exact_dot */
};

static int
one_line(const char *line, const struct map *acts, struct tally *tally)
{
	char type[16], path[80];
	int act_row, row;
	double peer, exact, qact, abs_sum, size, want;
	const struct pico_type *t;
	struct map w;
	size_t bytes;
	float y;
	void *act;

	if (sscanf(line, "%15s %*s %d %d %lf %lf %lf %lf", type, &act_row, &row,
	    &peer, &exact, &qact, &abs_sum) != 7 ||
	    (t = pico_type_named(type)) == NULL)
		return -1;
	snprintf(path, sizeof path, SHARED "%s",
	    t->id == TYPE_F32 ? "source.f32" : "");
	if (t->id != TYPE_F32)
		snprintf(path, sizeof path, SHARED "%s.bin", type);
	if (map_open(&w, path, NULL) != 0)
		return -1;
	bytes = 512 / t->block * t->bytes;
	act = prepare(t->id, (const float *)(const void *)acts->p +
	    512 * act_row, 512);
	y = dot(t->id, w.p + bytes * (size_t)row, act, 512);
	want = exact_dot(t->id, w.p + bytes * (size_t)row, act, 512, &size);
	tally->type = t->id;
	tally->n++;
	tally->close += fabs(y - want) <= 1e-6 * size;
	tally->ours += (y - exact) * (y - exact);
	tally->peer += (peer - exact) * (peer - exact);
	free(act);
	map_close(&w);
	return 0;
}

static void
test_dots_shared(void)
{
	struct map acts;
	FILE *f = fopen(SHARED "dots.tsv", "r");
	struct tally tally[64] = { { 0 } };
	char line[300];
	int n = 0, close = 0;
	bool read = true, rms = true;

	if (f == NULL) {
		skip("dot products of dots.tsv", "no " SHARED);
		skip("their rms error is at most twice the peer's", "no " SHARED);
		return;
	}
	if (map_open(&acts, SHARED "activations.f32", NULL) != 0)
		abort();
	while (fgets(line, sizeof line, f) != NULL) {
		const struct pico_type *t;
		char type[16] = "";

		if (line[0] == '#')
			continue;
		sscanf(line, "%15[^\t]", type);
		t = pico_type_named(type);
		if (t == NULL || one_line(line, &acts, &tally[t->id]) != 0)
			read = false;
	}
	fclose(f);
	map_close(&acts);
	for (size_t i = 0; i < COUNT(tally); i++) {
		if (tally[i].n == 0)
			continue;
		n += tally[i].n;
		close += tally[i].close;
		rms &= sqrt(tally[i].ours) <= 2 * sqrt(tally[i].peer);
		printf("# %-8s %d rows, rms error %.3g, peer %.3g\n",
		    pico_type(tally[i].type)->name, tally[i].n,
		    sqrt(tally[i].ours / tally[i].n),
		    sqrt(tally[i].peer / tally[i].n));
	}
	printf("# %d of %d within 1e-6\n", close, n);
	ok(read && n > 0 && close == n, "dot products of dots.tsv");
	ok(rms, "their rms error is at most twice the peer's");
}

/* ---- attention ---- */

/* n rows of dim values into the cache; x becomes what it then holds. Rows that
   are keys go on to `keys`. */
static void
cache(enum kv_type type, float *x, size_t n, size_t dim, uint8_t *rows,
    uint8_t *keys)
{
	for (size_t j = 0; j < n; j++, x += dim,
	    rows += kv_row_bytes(type, dim)) {
		k->kv_store(type, x, dim, rows);
		if (keys != NULL)
			kv_put_key(type, rows, dim, keys, j);
		for (size_t i = 0; i < dim && type != KV_F32; i++) {
			const uint8_t *b = rows + i / 32 * KV_BLOCK_BYTES;

			x[i] = f16_to_f32(get_u16(type == KV_F16 ?
			    rows + 2 * i : b));
			if (type == KV_Q8_0)
				x[i] *= (int8_t)b[2 + i % 32];
		}
	}
}

static double
test_attend_case(enum kv_type type, size_t dim_k, size_t dim_v, size_t n_keys)
{
	float *q = new(dim_k, 4), *kf = new(n_keys * dim_k, 4);
	float *vf = new(n_keys * dim_v, 4), *out = new(dim_v, 4);
	void *kr = new(n_keys, kv_row_bytes(type, dim_k));
	void *kk = new(n_keys + KV_SIDE, kv_row_bytes(type, dim_k));
	void *vv = new(n_keys, kv_row_bytes(type, dim_v));
	double *want = new(dim_v, sizeof *want), *p = new(n_keys, sizeof *p);
	double top = -INFINITY, sum = 0, e;
	struct attend a = { .type = type, .q = q, .k = kk, .v = vv,
	    .dim_k = dim_k, .dim_v = dim_v, .n_keys = n_keys, .n_cols = 1,
	    .n_q = 1,
	    .scale = 1 / sqrtf((float)dim_k), .out = out };

	fill(q, dim_k, 4);
	fill(kf, n_keys * dim_k, 3);
	fill(vf, n_keys * dim_v, 1);
	cache(type, kf, n_keys, dim_k, kr, kk);
	cache(type, vf, n_keys, dim_v, vv, NULL);
	for (size_t j = 0; j < n_keys; j++) {
		for (size_t d = 0; d < dim_k; d++)
			p[j] += (double)q[d] * kf[j * dim_k + d];
		p[j] /= sqrt((double)dim_k);
		top = fmax(top, p[j]);
	}
	for (size_t j = 0; j < n_keys; j++)
		sum += p[j] = exp(p[j] - top);
	for (size_t j = 0; j < n_keys; j++)
		for (size_t d = 0; d < dim_v; d++)
			want[d] += p[j] / sum * vf[j * dim_v + d];
	k->attend(&a);
	e = error(out, want, dim_v);
	free(q), free(kf), free(vf), free(out);
	free(kr), free(kk), free(vv), free(want), free(p);
	return e;
}

/* Keys go to their places and come back, each alone. */
static void
test_keys(void)
{
	enum { KEYS = 37, DIM = 70 };
	static uint8_t rows[KEYS][4 * DIM], keys[48 * 4 * DIM], row[4 * DIM];
	bool good = true;

	for (int t = KV_F16; t <= KV_Q8_0; t++) {
		enum kv_type type = (enum kv_type)t;
		size_t n = kv_row_bytes(type, DIM);

		for (size_t j = 0; j < KEYS; j++) {
			for (size_t i = 0; i < n; i++)
				rows[j][i] = (uint8_t)mixed();
			kv_put_key(type, rows[j], DIM, keys, j);
		}
		for (size_t j = 0; j < KEYS; j++) {
			kv_get_key(type, keys, j, DIM, row);
			good &= memcmp(row, rows[j], n) == 0;
		}
	}
	ok(good, "keys side by side");
}

/* Attention with all that kinds of models add to it, by its formula: two
   columns of two queries, each with a window, cap, slopes and sinks or not. */
static double
test_attend_kind(int with, size_t n_keys, size_t window)
{
	enum { DIM_K = 24, DIM_V = 16, N_Q = 2, COLS = 2 };
	size_t n = n_keys + COLS - 1;
	float *kf = new(n * DIM_K, 4), *vf = new(n * DIM_V, 4);
	float q[COLS * N_Q * DIM_K], out[COLS * N_Q * DIM_V];
	float slope[N_Q] = { 0.5f, 0.0625f }, sink[N_Q] = { 1.5f, -0.5f };
	double want[COLS * N_Q * DIM_V], *w = want;
	float *kk = new((n + KV_SIDE) * DIM_K, 4);
	double *p = new(n, sizeof *p);
	struct attend a = { .type = KV_F32, .q = q, .q_stride = N_Q * DIM_K,
	    .k = kk, .v = vf, .dim_k = DIM_K, .dim_v = DIM_V,
	    .n_keys = n_keys, .n_cols = COLS, .n_q = N_Q, .scale = 0.25f,
	    .out = out, .out_stride = N_Q * DIM_V,
	    .window = with & 1 ? window : 0, .cap = with & 2 ? 3 : 0,
	    .slope = with & 4 ? slope : NULL, .sink = with & 8 ? sink : NULL };

	fill(q, COUNT(q), 4);
	fill(kf, n * DIM_K, 3);
	fill(vf, n * DIM_V, 1);
	for (size_t j = 0; j < n; j++)
		kv_store_key(k, KV_F32, kf + j * DIM_K, DIM_K, kk, j);
	for (size_t i = n_keys - 1; i < n; i++) {
		for (size_t h = 0; h < N_Q; h++, w += DIM_V) {
			const float *x = q + ((i + 1 - n_keys) * N_Q + h) *
			    DIM_K;
			double sum = with & 8 ? exp(sink[h]) : 0;

			for (size_t j = 0; j <= i; j++) {
				p[j] = 0;
				if (with & 1 && j + window <= i)
					continue;
				for (size_t d = 0; d < DIM_K; d++)
					p[j] += (double)x[d] *
					    kf[j * DIM_K + d];
				p[j] *= 0.25;
				if (with & 2)
					p[j] = 3 * tanh(p[j] / 3);
				if (with & 4)
					p[j] -= slope[h] * (double)(i - j);
				p[j] = exp(p[j]);
				sum += p[j];
			}
			for (size_t d = 0; d < DIM_V; d++) {
				w[d] = 0;
				for (size_t j = 0; j <= i; j++)
					w[d] += p[j] / sum * vf[j * DIM_V + d];
			}
		}
	}
	k->attend(&a);
	free(kf), free(vf), free(kk), free(p);
	return error(out, want, COUNT(want));
}

static void
test_attend_kinds(void)
{
	static const size_t keys[] = { 1, 2, 64, 65, 130, 300 };
	static const size_t window[] = { 1, 63, 64, 65, 128, 1000 };
	double worst = 0;

	for (int with = 0; with < 16; with++)
		for (size_t i = 0; i < COUNT(keys); i++)
			for (size_t j = 0; j < COUNT(window); j++)
				worst = fmax(worst, test_attend_kind(with,
				    keys[i], window[j]));
	printf("# windows, caps, slopes, sinks: error at most %.3g\n", worst);
	ok(worst < 5e-6, "attention with windows, caps, slopes and sinks is "
	    "near its float64 value");
}

static void
test_attend(void)
{
	static const size_t keys[] = { 1, 2, 63, 64, 65, 128, 200, 1000 };
	double worst = 0;

	for (size_t i = 0; i < COUNT(keys); i++) {
		worst = fmax(worst, test_attend_case(KV_F32, 64, 64, keys[i]));
		worst = fmax(worst, test_attend_case(KV_F16, 80, 48, keys[i]));
		worst = fmax(worst, test_attend_case(KV_F16, 7, 5, keys[i]));
		worst = fmax(worst, test_attend_case(KV_Q8_0, 64, 80,
		    keys[i]));
	}
	printf("# attention: error at most %.3g of the largest\n", worst);
	ok(worst < 5e-6, "attention is near its float64 value");
}

/* ---- row operations ---- */

static void
test_rows(void)
{
	enum { N = 1003 };
	static float x[N], w[N], b[N], y[N], z[N];
	static double want[N];
	double ss = 0, mean = 0, var = 0, sum = 0;

	fill(x, N, 5);
	fill(w, N, 1);
	fill(b, N, 1);
	for (int i = 0; i < N; i++) {
		ss += (double)x[i] * x[i] / N;
		mean += (double)x[i] / N;
	}
	for (int i = 0; i < N; i++) {
		var += (x[i] - mean) * (x[i] - mean) / N;
		want[i] = x[i] / sqrt(ss + 1e-5) * w[i];
	}
	k->rms_norm(x, w, N, 1e-5f, y);
	ok(error(y, want, N) < 1e-6, "rms_norm");
	memcpy(z, x, sizeof x);
	k->rms_norm(z, NULL, N, 1e-5f, z);
	k->mul(z, w, N);
	ok(same(y, z, N), "rms_norm in place and without weights");

	for (int i = 0; i < N; i++)
		want[i] = (x[i] - mean) / sqrt(var + 1e-5) * w[i] + b[i];
	k->layer_norm(x, w, b, N, 1e-5f, y);
	ok(error(y, want, N) < 1e-6, "layer_norm");
	memcpy(z, x, sizeof x);
	k->layer_norm(z, NULL, NULL, N, 1e-5f, z);
	k->mul(z, w, N);
	k->add(z, b, N);
	ok(same(y, z, N), "layer_norm in place, without weights and bias");

	for (int i = 0; i < N; i++)
		sum += exp(x[i]);
	for (int i = 0; i < N; i++)
		want[i] = exp(x[i]) / sum;
	memcpy(y, x, sizeof x);
	k->softmax(y, N);
	ok(error(y, want, N) < 1e-6, "softmax");

	memcpy(y, x, sizeof x);
	k->scale(y, 3, N);
	k->axpy(y, 0.25f, w, N);
	for (int i = 0; i < N; i++)
		z[i] = fmaf(0.25f, w[i], x[i] * 3);
	ok(same(y, z, N), "scale and axpy");
	memcpy(y, x, sizeof x);
	y[500] = 17;
	y[7] = NAN;
	ok(k->max(y, N) == 17 && k->max(y + 7, 1) == -INFINITY, "max");
}

static void
test_rope(void)
{
	enum { HEADS = 3, DIM = 10, ROT = 8 };
	float x[HEADS * DIM], y[HEADS * DIM], cs[ROT / 2], sn[ROT / 2];
	bool good[2] = { true, true };

	for (int p = 0; p < ROT / 2; p++) {
		cs[p] = (float)cos(p + 1);
		sn[p] = (float)sin(p + 1);
	}
	for (int split = 0; split < 2; split++) {
		fill(x, HEADS * DIM, 1);
		memcpy(y, x, sizeof x);
		k->rope(y, HEADS, DIM, ROT, cs, sn, split);
		for (int h = 0; h < HEADS; h++) {
			const float *a = x + h * DIM, *b = y + h * DIM;

			for (int p = 0; p < ROT / 2; p++) {
				int i = split ? p : 2 * p;
				int j = split ? p + ROT / 2 : 2 * p + 1;

				good[split] &= b[i] ==
				    a[i] * cs[p] - a[j] * sn[p];
				good[split] &= b[j] ==
				    a[i] * sn[p] + a[j] * cs[p];
			}
			good[split] &= b[8] == a[8] && b[9] == a[9];
		}
	}
	ok(good[0], "rope turns neighbours");
	ok(good[1], "rope turns halves");
}

/* ---- the same bits everywhere ---- */

static uint64_t
hash_floats(uint64_t h, const float *x, size_t n)
{
	return hash_bytes(h, x, n * sizeof *x);
}

/*
 * Results that no compiler and no machine may change. The checksums were made
 * with gcc on x86-64; when a definition is changed on purpose, take the new
 * ones from the output.
 */
static void
test_same_bits(void)
{
	enum { N = 20000, DIM = 64, KEYS = 150 };
	static float x[N], y[N], dots[COUNT(scales)];
	static uint16_t kv[KEYS * DIM], keys[(KEYS + KV_SIDE) * DIM];
	static uint8_t w[7 * 256];
	static const float slope = 0.125f, sink = 0.5f;
	uint64_t h[4] = { HASH_START, HASH_START, HASH_START, HASH_START };
	struct attend a = { .type = KV_F16, .q = x, .k = keys, .v = kv,
	    .dim_k = DIM, .dim_v = DIM, .n_keys = KEYS, .n_cols = 1,
	    .n_q = 1,
	    .scale = 0.125f, .out = y };

	state = 1;
	for (int i = 0; i < N; i++) {
		x[i] = uniform();
		x[i] = ldexpf(x[i], (int)(mixed() % 30) - 22);
	}
	for (int i = 0; i < N; i++) {
		y[i] = k_exp(x[i]) + k_tanh(x[i]) + k_erf(x[i]);
		h[0] = hash_floats(h[0], &y[i], 1);
		for (int fn = K_SILU; fn <= K_RELU2; fn++) {
			y[i] = k_apply((enum k_fn)fn, x[i]);
			h[0] = hash_floats(h[0], &y[i], 1);
		}
	}
	for (size_t i = 0; i < COUNT(scales); i++) {
		const struct pico_type *t = pico_type(scales[i].type);
		void *act = prepare(t->id, x, 7 * t->block);

		random_row(i, w, 7);
		dots[i] = dot(t->id, w, act, 7 * t->block);
		free(act);
	}
	h[1] = hash_floats(h[1], dots, COUNT(dots));
	fill(x, KEYS * DIM, 2);
	k->kv_store(KV_F16, x, KEYS * DIM, kv);
	for (size_t j = 0; j < KEYS; j++)
		kv_put_key(KV_F16, kv + j * DIM, DIM, keys, j);
	k->attend(&a);
	h[2] = hash_floats(h[2], y, DIM);
	a.window = 77;
	a.cap = 1.5f;
	a.slope = &slope;
	a.sink = &sink;
	k->attend(&a);
	h[3] = hash_floats(h[3], y, DIM);
	for (int fn = K_EXP; fn <= K_SIGMOID; fn++) {
		memcpy(y, x, KEYS * DIM * sizeof *y);
		k->apply((enum k_fn)fn, y, KEYS * DIM);
		h[3] = hash_floats(h[3], y, KEYS * DIM);
	}
	k->rms_norm(x, x + DIM, N / 2, 1e-6f, y);
	h[2] = hash_floats(h[2], y, N / 2);
	k->layer_norm(x, x + DIM, x + 2 * DIM, N / 2, 1e-6f, y);
	h[2] = hash_floats(h[2], y, N / 2);
	k->softmax(x, N / 2);
	h[2] = hash_floats(h[2], x, N / 2);
	for (int i = 0; i < 4; i++)
		printf("# checksum %d: 0x%016" PRIx64 "\n", i, h[i]);
	ok(h[0] == 0x0be3e5cb9a70b6c4,
	    "functions have the bits they always had");
	ok(h[1] == 0xaf3b1f855669819a,
	    "dot products have the bits they always had");
	ok(h[2] == 0x05c24324c8097dd0,
	    "attention and norms have the bits they always had");
	ok(h[3] == 0x77919562fa911461,
	    "windows, caps, slopes, sinks, exp, tanh and sigmoid have the bits they always had");
}

/* ---- the choice ---- */

static void
test_choice(void)
{
	struct pico_err err = { 0 };

	setenv("PICO_CPU", "scalar", 1);
	ok(kernels_get(&err) == &kernels_scalar, "PICO_CPU=scalar");
	setenv("PICO_CPU", "abacus", 1);
	ok(kernels_get(&err) == NULL && err.status == PICO_USAGE &&
	    strstr(err.msg, "'abacus'") != NULL &&
	    strstr(err.msg, "scalar") != NULL,
	    "an unknown PICO_CPU is refused, naming it and what there is");
	unsetenv("PICO_CPU");
	ok(kernels_get(&err) != NULL, "a set is found without PICO_CPU");
}

int
main(void)
{
	printf("1..49\n");
	k = &kernels_scalar;
	test_half();
	test_functions();
	test_activations();
	test_quantize();
	test_quantize_shared();
	test_dots();
	test_float_dots();
	test_odd_dots();
	test_matmul_parts();
	test_dots_shared();
	test_keys();
	test_attend();
	test_attend_kinds();
	test_rows();
	test_rope();
	test_same_bits();
	test_choice();
	return n_failed != 0;
}
