/* SPDX-License-Identifier: MIT */
/*
 * Every set of kernels that runs on this machine against the scalar one, which
 * is the definition: the same bits, whatever the shapes and the values. Any NaN
 * equals any other, since its bits depend on the order of operands even in
 * scalar code.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/gguf/gguf.h"
#include "../../lib/kernel/kernel.h"

static const struct kernels *const def = &kernels_scalar;
static const struct kernels *k;
static int n_tests, n_failed;

static void
ok(bool good, const char *what)
{
	printf("%sok %d - %s: %s\n", good ? "" : "not ", ++n_tests, k->name,
	    what);
	n_failed += !good;
}

/* ---- memory that ends at a page which cannot be touched ---- */

struct fenced {
	void *p;	/* the bytes asked for */
	uint8_t *base;
	size_t size, page;
};

static struct fenced
fenced(size_t n)
{
	struct fenced f = { .page = (size_t)sysconf(_SC_PAGESIZE) };
	void *base;

	f.size = (n + f.page - 1) / f.page * f.page;
	if (posix_memalign(&base, f.page, f.size + f.page) != 0)
		abort();
	f.base = base;
	memset(f.base, 0xaa, f.size);
	if (mprotect(f.base + f.size, f.page, PROT_NONE) != 0)
		abort();
	f.p = f.base + f.size - n;
	return f;
}

static void
unfence(struct fenced *f)
{
	if (mprotect(f->base + f->size, f->page, PROT_READ | PROT_WRITE) != 0)
		abort();
	free(f->base);
}

/* ---- numbers ---- */

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

enum values {
	TAME,		/* -3..3 */
	ENDS,		/* -1 and 1 */
	SPREAD,		/* all magnitudes, zeros and subnormals too */
	WILD,		/* SPREAD with now and then an infinity or NaN */
	VALUES
};

static float
value(enum values v)
{
	static const float odd[] = {
		0, -0.0f, 1, -1, FLT_MAX, -FLT_MAX, FLT_MIN, 0x1p-149f,
		-0x1p-149f, 0x1.8p-130f, 0x1p-100f, 88.5f, -87.5f, -104
	};
	static const float wild[] = { INFINITY, -INFINITY, NAN };
	uint64_t r = mixed();

	if (v == TAME)
		return 3 * uniform();
	if (v == ENDS)
		return r & 1 ? 1 : -1;
	if (v == WILD && r % 64 == 0)
		return wild[(r >> 8) % COUNT(wild)];
	if (r % 8 == 0)
		return odd[(r >> 8) % COUNT(odd)];
	return r % 2 == 0 ? 8 * uniform() :
	    ldexpf(uniform(), (int)(r >> 8 & 127) - 64);
}

static void
fill(float *x, size_t n, enum values v)
{
	for (size_t i = 0; i < n; i++)
		x[i] = value(v);
}

static bool
same(float a, float b)
{
	return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static bool
same_all(const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!same(a[i], b[i]))
			return false;
	return true;
}

/* ---- products ---- */

/* Where the f16 scales of a block are; types that are not here get any bits. */
static const struct {
	uint32_t type;
	int d, m;
} scales[] = {
	{ TYPE_Q4_0, 0, -1 }, { TYPE_Q4_1, 0, 2 }, { TYPE_Q5_0, 0, -1 },
	{ TYPE_Q5_1, 0, 2 }, { TYPE_Q8_0, 0, -1 }, { TYPE_IQ4_NL, 0, -1 },
	{ TYPE_Q2_K, 80, 82 }, { TYPE_Q3_K, 108, -1 }, { TYPE_Q4_K, 0, 2 },
	{ TYPE_Q5_K, 0, 2 }, { TYPE_Q6_K, 208, -1 }, { TYPE_IQ4_XS, 0, -1 },
	{ TYPE_IQ1_S, 0, -1 }, { TYPE_IQ2_XXS, 0, -1 }, { TYPE_IQ2_XS, 0, -1 },
	{ TYPE_IQ2_S, 0, -1 }, { TYPE_IQ3_XXS, 0, -1 }, { TYPE_IQ3_S, 0, -1 },
	{ TYPE_TQ1_0, 52, -1 }, { TYPE_TQ2_0, 64, -1 }, { TYPE_Q1_0, 0, -1 },
	{ TYPE_Q2_0, 0, -1 }
};

static void
set_scale(uint8_t *block, int at)
{
	uint16_t h = f32_to_f16(0.1f * uniform());

	if (at >= 0)
		memcpy(block + at, &h, sizeof h);
}

enum weights {
	SANE,		/* any codes, scales of a usual size */
	EQUAL,		/* all codes and factors at an end of their range */
	ANY,		/* any bits at all */
	WEIGHTS
};

static void
fill_weights(const struct pico_type *t, uint8_t *w, size_t n_blocks,
    enum weights kind)
{
	static const uint8_t ends[] = { 0xff, 0x00, 0x80, 0x7f };
	size_t which = 0;
	float f;

	while (which < COUNT(scales) && scales[which].type != t->id)
		which++;
	for (size_t b = 0; b < n_blocks; b++, w += t->bytes) {
		uint8_t end = ends[mixed() % COUNT(ends)];

		for (size_t i = 0; i < t->bytes; i++)
			w[i] = kind == EQUAL ? end : (uint8_t)mixed();
		if (kind == ANY)
			continue;
		if (which < COUNT(scales)) {
			set_scale(w, scales[which].d);
			set_scale(w, scales[which].m);
		} else if (t->id == TYPE_MXFP4) {
			w[0] = (uint8_t)(120 + mixed() % 8);
		} else if (t->id == TYPE_F16) {
			set_scale(w, 0);
		} else if (t->id == TYPE_F32) {
			f = uniform();
			memcpy(w, &f, sizeof f);
		} else if (t->id == TYPE_BF16) {
			f = uniform();
			memcpy(w, (uint8_t *)&f + 2, 2);
		}
	}
}

enum { ROWS = 69, COLS = 33, MANY = 135, Y_STRIDE = ROWS + 3 };

/* Rows 0..ROWS cut at random places, or in one piece. */
static void
multiply(const struct kernels *set, const struct matmul *m, bool cut)
{
	size_t r0 = 0, r1;

	for (; r0 < ROWS; r0 = r1) {
		r1 = cut ? r0 + 1 + mixed() % 40 : ROWS;
		r1 = MIN(r1, ROWS);
		set->matmul(m, r0, r1);
	}
}

/* One matrix against the last 1..cols columns. */
static bool
same_product(const struct pico_type *t, size_t n_in, enum weights kind,
    size_t cols)
{
	/* each second one with rows that are cut */
	static const size_t n_cols[] = { 1, 2, 3, 4, 5, 7, 8, 10, 13, 16, COLS,
	    MANY };
	enum act_kind ak = kernel_act_kind(t->id);
	size_t row = n_in / t->block * t->bytes;
	size_t stride = kernel_act_bytes(ak, n_in) + 4;
	struct fenced w = fenced(ROWS * row), x = fenced(cols * stride - 4);
	struct fenced xf = fenced(n_in * sizeof(float));
	static float want[MANY * Y_STRIDE], got[MANY * Y_STRIDE];
	struct matmul m = { .type = t->id, .w = w.p, .row_bytes = row,
	    .n_in = n_in, .x = x.p, .x_stride = stride, .n_cols = cols,
	    .y = want, .y_stride = Y_STRIDE };
	bool good = true;

	fill_weights(t, w.p, ROWS * n_in / t->block, kind);
	for (size_t c = 0; c < cols; c++) {
		uint8_t *dst = (uint8_t *)x.p + c * stride;

		fill(xf.p, n_in, c % 8 < 4 ? (enum values)(c % 8) : TAME);
		if (ak == ACT_F32)
			memcpy(dst, xf.p, n_in * sizeof(float));
		else
			def->quantize(ak, xf.p, n_in, dst);
	}
	for (size_t i = 0; i < cols * Y_STRIDE; i++)
		want[i] = 42;
	def->matmul(&m, 0, ROWS);
	m.y = got;
	for (size_t i = 0; i < COUNT(n_cols) && n_cols[i] <= cols; i++) {
		size_t n = n_cols[i];

		m.n_cols = n;
		/* the last n columns: they end at the fence */
		m.x = (uint8_t *)x.p + (cols - n) * stride;
		for (size_t j = 0; j < n * Y_STRIDE; j++)
			got[j] = 42;
		multiply(k, &m, i % 2);
		good &= same_all(got, want + (cols - n) * Y_STRIDE,
		    n * Y_STRIDE);
	}
	unfence(&w);
	unfence(&x);
	unfence(&xf);
	return good;
}

static void
test_products(void)
{
	static const size_t blocks[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 17 };
	static const size_t lengths[] = { 1, 2, 15, 16, 17, 31, 32, 33, 63, 64,
	    65, 100, 255, 256, 257, 511, 512, 513, 1100 };
	char what[80];

	for (uint32_t id = 0; id <= TYPE_Q2_0; id++) {
		const struct pico_type *t = pico_type(id);
		bool good = true;

		if (t == NULL)
			continue;
		for (int kind = 0; kind < WEIGHTS; kind++) {
			enum weights wk = (enum weights)kind;

			if (t->block == 1)
				for (size_t i = 0; i < COUNT(lengths); i++)
					good &= same_product(t, lengths[i], wk,
					    COLS);
			else
				for (size_t i = 0; i < COUNT(blocks); i++)
					good &= same_product(t,
					    blocks[i] * t->block, wk, COLS);
			/* rows of more than one piece, however cut */
			if (t->block <= 64)
				good &= same_product(t, 2560 - t->block, wk,
				    COLS);
		}
		/* long rows and many columns, which go in pieces */
		good &= same_product(t, 6400 - (t->block == 32 ? 32 : 0), SANE,
		    MANY);
		snprintf(what, sizeof what, "products with %s", t->name);
		ok(good, what);
	}
}

/* ---- activations and the cache ---- */

static bool
same_quantized(enum act_kind kind, size_t n, enum values v)
{
	struct fenced x = fenced(n * sizeof(float));
	struct fenced a = fenced(kernel_act_bytes(kind, n));
	struct fenced b = fenced(kernel_act_bytes(kind, n));
	bool good;

	fill(x.p, n, v);
	def->quantize(kind, x.p, n, a.p);
	k->quantize(kind, x.p, n, b.p);
	good = memcmp(a.p, b.p, kernel_act_bytes(kind, n)) == 0;
	unfence(&x);
	unfence(&a);
	unfence(&b);
	return good;
}

static void
test_quantize(void)
{
	enum { N = 512 };
	static float x[N];
	static struct act_q8 a[2][N / 32];
	static struct act_q8k b[2][N / 256];
	bool good = true, scaled = true;

	for (int v = 0; v < VALUES; v++) {
		for (size_t n = 1; n <= 20; n++) {
			good &= same_quantized(ACT_Q8, 32 * n, (enum values)v);
			good &= same_quantized(ACT_Q8K, 256 * n,
			    (enum values)v);
		}
	}
	ok(good, "quantized activations");
	/* every magnitude of a block, and halves that are ties */
	for (int e = -140; e <= 120; e++) {
		for (int i = 0; i < N; i++)
			x[i] = ldexpf((float)((int)(mixed() % 255) - 127) / 2,
			    e);
		def->quantize(ACT_Q8, x, N, a[0]);
		k->quantize(ACT_Q8, x, N, a[1]);
		scaled &= memcmp(a[0], a[1], sizeof a[0]) == 0;
		def->quantize(ACT_Q8K, x, N, b[0]);
		k->quantize(ACT_Q8K, x, N, b[1]);
		scaled &= memcmp(b[0], b[1], sizeof b[0]) == 0;
	}
	ok(scaled, "quantized activations of every magnitude");
}

static void
test_kv_store(void)
{
	enum { N = 1 << 16 };
	static float x[N];
	static uint16_t a[N], b[N];
	bool good = true;

	/* all exponents and the upper bits, with three kinds of lower bits */
	for (int low = 0; low < 3; low++) {
		static const uint32_t bits[] = { 0, 0x1000, 0x1001 };

		for (uint32_t i = 0; i < N; i++) {
			uint32_t u = i << 16 | (mixed() & 0xe000) | bits[low];

			memcpy(&x[i], &u, sizeof u);
		}
		def->kv_store(KV_F16, x, N, a);
		k->kv_store(KV_F16, x, N, b);
		good &= memcmp(a, b, sizeof a) == 0;
	}
	for (size_t n = 1; n < 100; n++) {
		struct fenced src = fenced(n * sizeof *x);
		struct fenced h = fenced(n * sizeof *a);
		struct fenced f = fenced(n * sizeof *x);

		fill(src.p, n, WILD);
		def->kv_store(KV_F16, src.p, n, a);
		k->kv_store(KV_F16, src.p, n, h.p);
		k->kv_store(KV_F32, src.p, n, f.p);
		good &= memcmp(a, h.p, n * sizeof *a) == 0;
		good &= memcmp(src.p, f.p, n * sizeof *x) == 0;
		unfence(&src);
		unfence(&h);
		unfence(&f);
	}
	ok(good, "the cache's halves");
}

/* All sets share the code around quantize(), so this looks at what it does. */
static void
test_kv_store_q8(void)
{
	bool exact = true, rows = true;

	for (size_t n = 1; n <= 130; n++) {
		struct fenced x = fenced(n * sizeof(float));
		struct fenced row = fenced(kv_row_bytes(KV_Q8_0, n));
		static uint8_t want[1000];
		float *v = x.p;

		fill(x.p, n, (enum values)(n % VALUES));
		def->kv_store(KV_Q8_0, x.p, n, want);
		k->kv_store(KV_Q8_0, x.p, n, row.p);
		rows &= memcmp(want, row.p, kv_row_bytes(KV_Q8_0, n)) == 0;
		/* 127 is the largest of its block: stored as it is */
		for (size_t i = 0; i < n; i++)
			v[i] = i % 32 == 0 ? 127 : (float)(i % 255) - 127;
		k->kv_store(KV_Q8_0, x.p, n, row.p);
		for (size_t i = 0; i < (n + 31) / 32 * 32; i++) {
			const uint8_t *b = (uint8_t *)row.p + i / 32 * 34;

			exact &= get_u16(b) == 0x3c00 &&
			    (int8_t)b[2 + i % 32] == (i < n ? v[i] : 0);
		}
		unfence(&x);
		unfence(&row);
	}
	ok(rows, "the cache's rows of Q8_0");
	ok(exact, "they are scales and codes, filled up with zeros");
}

/* ---- attention ---- */

/* Queries that share keys, at most: more than kernels take at once. */
enum { QUERIES = 45 };

/* What attention may come with. */
enum { WINDOW = 1, CAP = 2, SLOPE = 4, SINK = 8, ALL_OF_IT = 15 };

static bool
same_attention(enum kv_type type, size_t dim_k, size_t dim_v, size_t n_keys,
    enum values v, int with, size_t window)
{
	size_t nk = n_keys * dim_k, nv = n_keys * dim_v;
	size_t row_k = kv_row_bytes(type, dim_k);
	size_t row_v = kv_row_bytes(type, dim_v);
	/* some queries of some columns, or many of one */
	size_t some = 1 + (size_t)mixed() % 5;
	size_t n_cols = MIN(n_keys, some);
	size_t n_q = 1 + (size_t)mixed() % (n_cols > 1 ? 9 : QUERIES);
	size_t all = n_cols * n_q;
	struct fenced q = fenced(all * dim_k * sizeof(float));
	size_t room = (n_keys + KV_SIDE - 1) / KV_SIDE * KV_SIDE;
	struct fenced kk = fenced(room * row_k);
	struct fenced vv = fenced(n_keys * row_v);
	struct fenced tmp = fenced(MAX(nk, nv) * sizeof(float));
	struct fenced out = fenced(all * dim_v * sizeof(float));
	static float want[QUERIES * 1024], slope[QUERIES], sink[QUERIES];
	struct attend a = { .type = type, .q = q.p, .k = kk.p, .v = vv.p,
	    .dim_k = dim_k, .dim_v = dim_v, .n_keys = n_keys + 1 - n_cols,
	    .n_cols = n_cols, .n_q = n_q, .q_stride = n_q * dim_k,
	    .scale = 1 / sqrtf((float)dim_k), .out = want,
	    .out_stride = n_q * dim_v,
	    .window = with & WINDOW ? window : 0,
	    .cap = with & CAP ? 5 : 0, .slope = with & SLOPE ? slope : NULL,
	    .sink = with & SINK ? sink : NULL };
	static uint8_t nan[4096];
	size_t hidden;
	bool good;

	fill(slope, n_q, v);
	fill(sink, n_q, v);
	fill(q.p, all * dim_k, v);
	fill(tmp.p, nk, v);
	memset(kk.p, 0xff, room * row_k);
	for (size_t j = 0; j < n_keys; j++)
		kv_store_key(def, type, (float *)tmp.p + j * dim_k, dim_k,
		    kk.p, j);
	fill(tmp.p, nv, v == WILD && mixed() % 2 ? WILD : TAME);
	for (size_t j = 0; j < n_keys; j++)
		def->kv_store(type, (float *)tmp.p + j * dim_v, dim_v,
		    (uint8_t *)vv.p + j * row_v);
	def->attend(&a);
	/* what no column sees may be anything: NaN, here */
	hidden = attend_hidden(&a, a.n_keys);
	memset(nan, 0xff, row_k);
	for (size_t j = 0; j < hidden; j++)
		kv_put_key(type, nan, dim_k, kk.p, j);
	memset(vv.p, 0xff, hidden * row_v);
	a.out = out.p;
	k->attend(&a);
	good = same_all(want, out.p, all * dim_v);
	unfence(&q);
	unfence(&kk);
	unfence(&vv);
	unfence(&tmp);
	unfence(&out);
	return good;
}

static void
test_attention(void)
{
	static const char *const name[] = { "attention over F16",
	    "attention over F32", "attention over Q8_0" };

	for (int type = KV_F16; type <= KV_Q8_0; type++) {
		enum kv_type kt = (enum kv_type)type;
		bool good = true;

		for (size_t dim = 1; dim <= 300; dim++) {
			enum values v = (enum values)(dim % VALUES);

			good &= same_attention(kt, dim, 301 - dim,
			    1 + mixed() % 200, v, 0, 0);
			good &= same_attention(kt, dim, dim, 70, TAME, 0, 0);
		}
		for (size_t n = 1; n <= 200; n++) {
			good &= same_attention(kt, 64, 64, n, TAME, 0, 0);
			good &= same_attention(kt, 80, 48, n,
			    (enum values)(n % VALUES), 0, 0);
		}
		ok(good, name[type]);
	}
}

/* Windows, caps, slopes and sinks in all combinations; heads of all widths. */
static void
test_attention_kinds(void)
{
	static const size_t window[] = { 1, 2, 15, 16, 17, 63, 64, 65, 100, 128,
	    1000 };
	static const size_t dim[][2] = { { 24, 16 }, { 40, 33 }, { 64, 64 },
	    { 257, 80 }, { 96, 300 }, { 576, 512 }, { 1024, 1023 } };
	bool good[KV_Q8_0 + 1] = { true, true, true }, wide = true;

	for (int with = 0; with <= ALL_OF_IT; with++) {
		for (size_t i = 0; i < 130; i++) {
			enum kv_type type = (enum kv_type)(i % 3);

			good[type] &= same_attention(type, dim[i % 4][0],
			    dim[i % 4][1], 1 + (size_t)mixed() % 330,
			    (enum values)(i / 3 % VALUES), with,
			    window[i % COUNT(window)]);
		}
		for (size_t i = 0; i < 2 * COUNT(dim); i++)
			wide &= same_attention((enum kv_type)(mixed() % 3),
			    dim[i / 2][0], dim[i / 2][1],
			    1 + (size_t)mixed() % 150, TAME, with,
			    window[mixed() % COUNT(window)]);
	}
	ok(good[KV_F16], "windows, caps, slopes and sinks over F16");
	ok(good[KV_F32], "windows, caps, slopes and sinks over F32");
	ok(good[KV_Q8_0], "windows, caps, slopes and sinks over Q8_0");
	ok(wide, "heads of up to 1024 elements");
}

/* ---- rows ---- */

/* Calls of one row operation on a fenced copy of x (and u), by both sets. */
typedef void row_fn(const struct kernels *set, float *x, const float *u,
    size_t n);

static void
test_row(row_fn *fn, const char *what)
{
	bool good = true;
	static float want[1300];

	for (size_t n = 1; n <= 1300; n += n < 130 ? 1 : 97) {
		for (int v = 0; v < VALUES; v++) {
			struct fenced x = fenced(n * sizeof(float));
			struct fenced u = fenced(n * sizeof(float));

			fill(x.p, n, (enum values)v);
			fill(u.p, n, v == WILD ? SPREAD : (enum values)v);
			memcpy(want, x.p, n * sizeof *want);
			fn(def, want, u.p, n);
			fn(k, x.p, u.p, n);
			good &= same_all(want, x.p, n);
			unfence(&x);
			unfence(&u);
		}
	}
	ok(good, what);
}

static void
row_rms(const struct kernels *set, float *x, const float *u, size_t n)
{
	set->rms_norm(x, u, n, 1e-5f, x);
}

static void
row_rms_plain(const struct kernels *set, float *x, const float *u, size_t n)
{
	set->rms_norm(u, NULL, n, 1e-6f, x);
}

static void
row_layer(const struct kernels *set, float *x, const float *u, size_t n)
{
	set->layer_norm(x, u, u, n, 1e-5f, x);
}

static void
row_layer_plain(const struct kernels *set, float *x, const float *u, size_t n)
{
	set->layer_norm(u, NULL, NULL, n, 1e-5f, x);
}

static void
row_softmax(const struct kernels *set, float *x, const float *u, size_t n)
{
	(void)u;
	set->softmax(x, n);
}

static void
row_add(const struct kernels *set, float *x, const float *u, size_t n)
{
	set->add(x, u, n);
}

static void
row_mul(const struct kernels *set, float *x, const float *u, size_t n)
{
	set->mul(x, u, n);
}

static void
row_scale(const struct kernels *set, float *x, const float *u, size_t n)
{
	set->scale(x, u[0], n);
}

static void
row_axpy(const struct kernels *set, float *x, const float *u, size_t n)
{
	set->axpy(x, u[n - 1], u, n);
}

static void
row_max(const struct kernels *set, float *x, const float *u, size_t n)
{
	(void)u;
	x[0] = set->max(x, n);
}

/* All functions of enum k_fn, one after the other. */
static void
row_apply(const struct kernels *set, float *x, const float *u, size_t n)
{
	(void)u;
	for (int fn = K_SILU; fn <= K_SIGMOID; fn++)
		if (n % 5 == (size_t)fn % 5)
			set->apply((enum k_fn)fn, x, n);
}

static void
row_gate(const struct kernels *set, float *x, const float *u, size_t n)
{
	for (int fn = K_SILU; fn <= K_SIGMOID; fn++)
		if (n % 5 == (size_t)fn % 5)
			set->gate((enum k_fn)fn, x, u, n);
}

/* Every 997th float, of both signs. */
static void
test_functions(void)
{
	enum { N = 4096 };
	static float x[N], y[N];
	bool good = true;

	for (int fn = K_SILU; fn <= K_SIGMOID; fn++) {
		for (uint64_t u = 0; u < UINT32_MAX; ) {
			for (int i = 0; i < N; i++, u += 997) {
				uint32_t bits = (uint32_t)u;

				memcpy(&x[i], &bits, sizeof bits);
			}
			memcpy(y, x, sizeof x);
			def->apply((enum k_fn)fn, x, N);
			k->apply((enum k_fn)fn, y, N);
			good &= same_all(x, y, N);
		}
	}
	ok(good, "activation functions over all floats");
}

static void
test_rope(void)
{
	static float cs[160], sn[160], x[3 * 320], y[3 * 320];
	bool good = true;

	for (size_t n_rot = 2; n_rot <= 300; n_rot += 2) {
		size_t dim = n_rot + mixed() % 20;

		fill(cs, n_rot / 2, TAME);
		fill(sn, n_rot / 2, n_rot % 8 ? TAME : SPREAD);
		for (int split = 0; split < 2; split++) {
			struct fenced z = fenced(3 * dim * sizeof(float));

			fill(x, 3 * dim, n_rot % 6 ? TAME : WILD);
			memcpy(y, x, 3 * dim * sizeof *x);
			memcpy(z.p, x, 3 * dim * sizeof *x);
			def->rope(y, 3, dim, n_rot, cs, sn, split);
			k->rope(z.p, 3, dim, n_rot, cs, sn, split);
			good &= same_all(y, z.p, 3 * dim);
			unfence(&z);
		}
	}
	ok(good, "rope");
}

static void
test_set(void)
{
	test_products();
	test_quantize();
	test_kv_store();
	test_kv_store_q8();
	test_attention();
	test_attention_kinds();
	test_row(row_rms, "rms_norm");
	test_row(row_rms_plain, "rms_norm without weights");
	test_row(row_layer, "layer_norm");
	test_row(row_layer_plain, "layer_norm without weights and bias");
	test_row(row_softmax, "softmax");
	test_row(row_add, "add");
	test_row(row_mul, "mul");
	test_row(row_scale, "scale");
	test_row(row_axpy, "axpy");
	test_row(row_max, "max");
	test_row(row_apply, "apply");
	test_row(row_gate, "gate");
	test_functions();
	test_rope();
}

int
main(void)
{
	const struct kernels *const *all = kernels_all();

	for (; *all != NULL; all++) {
		k = *all;
		if (k != def)
			test_set();
	}
	if (n_tests == 0)
		printf("ok %d - sets against the scalar one # SKIP only the "
		    "scalar set runs here\n", ++n_tests);
	printf("1..%d\n", n_tests);
	return n_failed != 0;
}
