/* SPDX-License-Identifier: MIT */
/*
 * Quantizing: the same bytes for any number of threads and on every machine,
 * errors at most those of the reference (where ../shared/conformance/quants is
 * there), values that are refused, and the types that mixes give.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/gguf/gguf.h"

#define VECTORS "../shared/conformance/quants/"

static int n_tests, n_failed;
static struct pico_err err;
static struct pico_quantizer *quantizer;

static void
ok(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++n_tests, what);
	n_failed += !good;
}

static size_t
row_bytes(const struct pico_type *t, size_t n)
{
	return n / t->block * t->bytes;
}

static bool
quantize(struct pico_quantizer *q, const struct pico_type *t, const float *x,
    size_t n, size_t n_rows, const float *importance, void *out)
{
	struct pico_rows r = { TYPE_F32, t->id, x, n, n_rows, importance };

	err = (struct pico_err){0};
	return pico_quantize(q, &r, out, NULL, &err) == 0;
}

/* ---- the same everywhere ----------------------------------------------- */

/* Of the blocks that become of the numbers below, without importance and with. */
static const struct {
	const char *type;
	uint64_t plain, weighted;
} known[] = {
#include "quantized.h"
};

#define ROWS 7
#define LENGTH 512
static float numbers[ROWS * LENGTH], importance[LENGTH];

/* Sums of random bytes, whose scale differs from block to block. */
static void
make_numbers(void)
{
	uint64_t state = 1;
	size_t i;
	int k, v;

	for (i = 0; i < COUNT(numbers); i++) {
		for (v = -510, k = 0; k < 4; k++) {
			state = state * 6364136223846793005u +
			    1442695040888963407u;
			v += (int)(state >> 56);
		}
		numbers[i] = (float)v / (float)(64 << i / 48 % 5) +
		    (i / LENGTH == 3 ? 5.0f : 0.0f);
		if (i / LENGTH == 4 && i % 16 != 3)
			numbers[i] = 0;
	}
	for (i = 0; i < LENGTH; i++)
		importance[i] = (float)(i % 37 + 1) / 8;
}

static uint64_t
hash_of(struct pico_quantizer *q, const struct pico_type *t, const float *v)
{
	static uint8_t out[sizeof numbers];

	if (!quantize(q, t, numbers, LENGTH, ROWS, v, out))
		return 0;
	return hash_bytes(HASH_START, out, ROWS * row_bytes(t, LENGTH));
}

static void
check_same(void)
{
	static const char *const sets[] = { "", "scalar" };
	struct pico_quantizer *q;
	const struct pico_type *t;
	size_t i, k;
	uint32_t threads;
	bool same, show_them = getenv("QUANTIZED") != NULL;

	make_numbers();
	for (i = 0; i < COUNT(known); i++) {
		t = pico_type_named(known[i].type);
		same = true;
		for (k = 0; k < 2; k++)
			for (threads = 1; threads <= 3; threads += 2) {
				(void)setenv("PICO_CPU", sets[k], 1);
				q = pico_quantizer_new(threads, &err);
				same = same && q != NULL &&
				    hash_of(q, t, NULL) == known[i].plain &&
				    hash_of(q, t, importance) ==
				    known[i].weighted;
				if (show_them && k == 0 && threads == 1)
					fprintf(stderr, "{ \"%s\", 0x%016llx, "
					    "0x%016llx },\n", t->name,
					    (unsigned long long)hash_of(q, t,
					    NULL), (unsigned long long)
					    hash_of(q, t, importance));
				pico_quantizer_free(q);
			}
		ok(same, t->name);
	}
	(void)setenv("PICO_CPU", "none such", 1);
	err = (struct pico_err){0};
	ok(pico_quantizer_new(1, &err) == NULL && err.status == PICO_USAGE,
	    "an unknown set");
	(void)unsetenv("PICO_CPU");
}

/* ---- what is refused --------------------------------------------------- */

static bool
refused(const char *type, float v, const char *why)
{
	static float x[256];
	static uint8_t out[1024];
	bool good;

	x[77] = v;
	good = !quantize(quantizer, pico_type_named(type), x, 256, 1, NULL,
	    out) && strstr(err.msg, why) != NULL;
	if (!good)
		fprintf(stderr, "%s: %s\n", type, err.msg);
	return good;
}

static void
check_refusals(void)
{
	static const char *const types[] = { "F16", "BF16", "Q4_0", "Q4_1",
	    "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
	    "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4", "TQ1_0", "TQ2_0", "Q1_0",
	    "Q2_0" };
	const struct pico_type *t = pico_type_named("Q4_K");
	float x[512] = {0};
	uint8_t out[512];
	size_t i;
	bool good = true, large = true;

	for (i = 0; i < COUNT(types); i++) {
		good = good && refused(types[i], NAN, "row 0, value 77 is "
		    "NaN") && refused(types[i], INFINITY, "value 77 is infinite") &&
		    refused(types[i], -INFINITY, "value 77 is infinite");
		/* BF16 has the range of float, and only rounding leaves it */
		large = large && refused(types[i], 3.4e38f, "row 0, value 77 "
		    "is 3.3999");
	}
	ok(good, "NaN and infinite values");
	ok(large, "values that are too large");
	ok(refused("F16", -65520, "value 77 is -65520, too large for type "
	    "F16") && refused("NVFP4", 2689, "2689"), "just too large");
	x[511] = NAN;
	ok(!quantize(quantizer, t, x, 256, 2, NULL, out) &&
	    strstr(err.msg, "row 1, value 255") != NULL, "the row");
	ok(!quantize(quantizer, t, x, 128, 2, NULL, out) &&
	    strstr(err.msg, "rows of 128 values of type 0 cannot") != NULL,
	    "rows that are no blocks");
	ok(!quantize(quantizer, pico_type_named("IQ3_S"), x, 256, 1, NULL,
	    out), "a type that is only read");
	ok(!pico_can_quantize(TYPE_I8) && !pico_can_quantize(99) &&
	    pico_can_quantize(TYPE_BF16), "which types can be made");
}

/* ---- errors ------------------------------------------------------------ */

static double
root(double a)
{
	return sqrt(a);
}

/* Root mean square errors, plain and weighted by column. */
static void
measure(const float *x, const float *y, const float *v, size_t n,
    size_t n_rows, double *plain, double *weighted)
{
	double s = 0, sw = 0, w = 0, e;
	size_t i;

	for (i = 0; i < n * n_rows; i++) {
		e = (double)y[i] - (double)x[i];
		s += e * e;
		if (v != NULL) {
			sw += (double)v[i % n] * e * e;
			w += (double)v[i % n];
		}
	}
	*plain = root(s / (double)(n * n_rows));
	*weighted = v != NULL ? root(sw / w) : 0;
}

/* Each row of errors.tsv. */
static void
check_errors(void)
{
	struct map x = {0}, v = {0};
	FILE *f = fopen(VECTORS "errors.tsv", "r");
	char line[400], name[20], matrix[20], what[100];
	const struct pico_type *t;
	double rmse, wrmse, ours, weighted;
	static uint8_t out[256 * 1024 * 4];
	static float y[256 * 1024];
	bool with;

	if (f == NULL || map_open(&x, VECTORS "weights.f32", NULL) < 0 ||
	    map_open(&v, VECTORS "imatrix.f32", NULL) < 0) {
		ok(true, "errors # SKIP no such vectors");
		return;
	}
	while (fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "%19s %*s %*s %*s %19s %lf %*s %*s %lf", name,
		    matrix, &rmse, &wrmse) != 4)
			continue;
		t = pico_type_named(name);
		with = strcmp(matrix, "imatrix.f32") == 0;
		if (t == NULL || !pico_can_quantize(t->id) ||
		    strcmp(matrix, "ones") == 0)
			continue;
		if (!quantize(quantizer, t, (const float *)x.p, 1024, 256,
		    with ? (const float *)v.p : NULL, out)) {
			ok(false, err.msg);
			continue;
		}
		(void)pico_dequantize(t->id, out, y, COUNT(y));
		measure((const float *)x.p, y, (const float *)v.p, 1024, 256,
		    &ours, &weighted);
		(void)snprintf(what, sizeof what, "%s%s: error %+.2f %% of "
		    "the reference's", name, with ? " with importance" : "",
		    100 * ((with ? weighted / wrmse : ours / rmse) - 1));
		/* those written by the same rules differ in the last digit */
		ok(with ? weighted <= wrmse * (1 + 1e-6) :
		    ours <= rmse * (1 + 1e-6), what);
	}
	(void)fclose(f);
	map_close(&x);
	map_close(&v);
}

/* Rows of all kinds: zero, constant, tiny, large. No worse than the reference,
   but for what the last bits of scales come to where it has no error. */
static void
check_kinds(void)
{
	static const char *const types[] = { "F16", "BF16", "Q4_0", "Q4_1",
	    "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
	    "IQ4_NL", "IQ4_XS", "MXFP4", "TQ1_0", "TQ2_0", "Q2_0" };
	static const char *const exact[] = { "F16", "BF16", "Q8_0", "TQ1_0",
	    "TQ2_0", "Q2_0" };
	struct map x, ref, bin;
	char path[100], what[100];
	uint8_t out[512 * 4];
	static const float zero[512];
	float y[512];
	double ours, theirs, rms, none;
	size_t i, row, k;
	const struct pico_type *t;
	bool good, equal;

	if (map_open(&x, VECTORS "source.f32", NULL) < 0) {
		ok(true, "kinds of rows # SKIP no such vectors");
		return;
	}
	for (i = 0; i < COUNT(types); i++) {
		t = pico_type_named(types[i]);
		(void)snprintf(path, sizeof path, VECTORS "%s.f32", types[i]);
		good = map_open(&ref, path, NULL) == 0;
		(void)snprintf(path, sizeof path, VECTORS "%s.bin", types[i]);
		good = good && map_open(&bin, path, NULL) == 0;
		equal = good;
		for (row = 0; good && row < 16; row++) {
			const float *from = (const float *)x.p + 512 * row;

			good = quantize(quantizer, t, from, 512, 1, NULL, out);
			(void)pico_dequantize(t->id, out, y, 512);
			measure(from, y, NULL, 512, 1, &ours, &none);
			measure(from, (const float *)ref.p + 512 * row, NULL,
			    512, 1, &theirs, &none);
			measure(from, zero, NULL, 512, 1, &rms, &none);
			good = good && ours <= theirs * 1.01 + rms * 1e-3;
			equal = equal && memcmp(out, bin.p + row *
			    row_bytes(t, 512), row_bytes(t, 512)) == 0;
			if (!good)
				fprintf(stderr, "%s row %zu: %g, not %g\n",
				    t->name, row, ours, theirs);
		}
		(void)snprintf(what, sizeof what, "%s: rows of all kinds",
		    types[i]);
		ok(good, what);
		for (k = 0; k < COUNT(exact); k++)
			if (strcmp(exact[k], types[i]) == 0) {
				(void)snprintf(what, sizeof what,
				    "%s: the bytes of the reference", types[i]);
				ok(equal, what);
			}
		map_close(&ref);
		map_close(&bin);
	}
	map_close(&x);
}

/* Smaller than scales can be: no type does worse than zeros. */
static void
check_tiny(void)
{
	static const double sizes[] = { 1e-9, 1e-20, 1e-30, 1e-37, 3e-38, 1e-38,
	    1e-39, 1e-41, 1e-45 };
	const struct pico_type *t;
	static const float zero[512];
	float x[512], y[512];
	uint8_t out[512 * 4];
	double ours, rms, none;
	uint32_t id;
	size_t i, k;
	bool good = true;

	for (id = 0; id <= TYPE_Q2_0; id++)
		for (k = 0; pico_can_quantize(id) && k < COUNT(sizes); k++) {
			for (i = 0; i < 512; i++)
				x[i] = (float)(sizes[k] *
				    (double)numbers[i % 32] /
				    (double)numbers[0]);
			t = pico_type(id);
			good = quantize(quantizer, t, x, 512, 1, NULL, out) &&
			    good;
			(void)pico_dequantize(id, out, y, 512);
			measure(x, y, NULL, 512, 1, &ours, &none);
			measure(x, zero, NULL, 512, 1, &rms, &none);
			/* these have the bytes of the reference */
			if (ours <= rms * 1.0001 || (k == 0 &&
			    (id == TYPE_TQ1_0 || id == TYPE_TQ2_0 ||
			    id == TYPE_Q2_0)))
				continue;
			good = false;
			fprintf(stderr, "%s, %g: %g, not %g\n", t->name,
			    sizes[k], ours, rms);
		}
	ok(good, "tiny numbers");
}

/* ---- mixes ------------------------------------------------------------- */

/* The cases of mixes.tsv. */
static const struct shape {
	const char *name, *arch;
	uint64_t embd, ff;
	int64_t layers, heads, kv_heads, experts;
	bool untied, fused;
} shapes[] = {
	{ "gqa4 untied", "llama", 256, 512, 20, 8, 2, 0, true, false },
	{ "mha tied", "llama", 256, 256, 9, 4, 4, 0, false, false },
	{ "odd rows", "llama", 288, 320, 17, 4, 1, 0, true, false },
	{ "8 experts", "llama", 256, 256, 9, 4, 2, 8, true, false },
	{ "fused qkv", "phi3", 256, 512, 10, 4, 4, 0, true, true },
	{ "falcon", "falcon", 256, 512, 33, 4, 4, 0, true, true },
};

static struct pico_tensor tensors[1000];
static char names[1000][40];
static size_t n_tensors;

static void
add(const char *name, int64_t layer, uint64_t a, uint64_t b, uint64_t c)
{
	char *s = names[n_tensors];

	(void)(layer >= 0 ? snprintf(s, sizeof names[0], "blk.%d.%s.weight",
	    (int)layer, name) : snprintf(s, sizeof names[0], "%s.weight", name));
	tensors[n_tensors++] = (struct pico_tensor){ .name = { s, strlen(s) },
	    .type = b > 1 && strcmp(name, "ffn_gate_inp") != 0 ? TYPE_F16 :
	    TYPE_F32, .n_dims = 3, .dims = { a, b, c, 1 } };
}

static void
make_shape(const struct shape *s)
{
	uint64_t kv = s->embd / (uint64_t)s->heads * (uint64_t)s->kv_heads;
	uint64_t e = (uint64_t)MAX(s->experts, 1);
	bool up2 = strcmp(s->arch, "phi3") == 0;
	int64_t i;

	n_tensors = 0;
	add("token_embd", -1, s->embd, 291, 1);
	/* not in the order of the layers */
	for (i = s->layers - 1; i >= 0; i--) {
		add("attn_norm", i, s->embd, 1, 1);
		add("ffn_norm", i, s->embd, 1, 1);
		if (s->fused) {
			add("attn_qkv", i, s->embd, s->embd + 2 * kv, 1);
		} else {
			add("attn_q", i, s->embd, s->embd, 1);
			add("attn_k", i, s->embd, kv, 1);
			add("attn_v", i, s->embd, kv, 1);
		}
		add("attn_output", i, s->embd, s->embd, 1);
		if (s->experts > 0) {
			add("ffn_gate_inp", i, s->embd, e, 1);
			add("ffn_gate_exps", i, s->embd, s->ff, e);
			add("ffn_up_exps", i, s->embd, s->ff, e);
			add("ffn_down_exps", i, s->ff, s->embd, e);
			continue;
		}
		if (!s->fused)
			add("ffn_gate", i, s->embd, s->ff, 1);
		add("ffn_up", i, s->embd, up2 ? 2 * s->ff : s->ff, 1);
		add("ffn_down", i, s->ff, s->embd, 1);
	}
	add("output_norm", -1, s->embd, 1, 1);
	if (s->untied)
		add("output", -1, s->embd, 291, 1);
}

/* The type that mixes.tsv tells, or the default; -1: the mix is not there. */
static bool
compare_mix(const struct shape *s, const char *mix_name)
{
	FILE *f = fopen(VECTORS "mixes.tsv", "r");
	const struct pico_mix *m = pico_mix_named(mix_name);
	struct pico_mix_model model = { .arch = { s->arch, strlen(s->arch) },
	    .n_layer = s->layers, .n_head = s->heads,
	    .n_head_kv = s->kv_heads, .n_expert = s->experts };
	char line[200], name[30], mix[20], tensor[50], type[20];
	uint32_t types[COUNT(tensors)], want[COUNT(tensors)];
	size_t i;
	bool good = true;

	make_shape(s);
	if (f == NULL || pico_mix_types(m, &model, tensors, n_tensors, types,
	    &err) < 0)
		return false;
	for (i = 0; i < n_tensors; i++)
		want[i] = pico_mix_takes(&tensors[i]) ? m->type :
		    tensors[i].type;
	while (fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "%29[^\t]\t%19[^\t]\t%*[^\t]\t%49[^\t]\t"
		    "%19s", name, mix, tensor, type) == 4 &&
		    strcmp(name, s->name) == 0 && strcmp(mix, mix_name) == 0)
			for (i = 0; i < n_tensors; i++)
				if (strcmp(names[i], tensor) == 0)
					want[i] = pico_type_named(type)->id;
	(void)fclose(f);
	for (i = 0; i < n_tensors; i++)
		if (types[i] != want[i]) {
			fprintf(stderr, "%s %s %s: %s, not %s\n", s->name,
			    mix_name, names[i], pico_type(types[i])->name,
			    pico_type(want[i])->name);
			good = false;
		}
	return good;
}

/* Well-known models in Q4_K_M: how many tensors have which type. */
static const struct {
	struct shape shape;
	size_t q4_k, q5_k, q6_k, q5_0, q8_0;
} models[] = {
	{ { "TinyLlama", "llama", 2048, 5632, 22, 32, 4, 0, true, false },
	    135, 0, 21, 0, 0 },
	{ { "Llama-3 8B", "llama", 4096, 14336, 32, 32, 8, 0, true, false },
	    193, 0, 33, 0, 0 },
	{ { "Gemma 2B", "gemma", 2048, 16384, 18, 8, 1, 0, false, false },
	    108, 0, 19, 0, 0 },
	/* rows of 896 are not whole blocks of 256 */
	{ { "Qwen 0.5B", "qwen2", 896, 4864, 24, 14, 2, 0, false, false },
	    12, 0, 12, 132, 13 },
	{ { "Mixtral", "llama", 4096, 14336, 32, 32, 8, 8, true, false },
	    113, 32, 17, 0, 64 },
};

static void
check_models(void)
{
	const struct pico_mix *m = pico_mix_named("Q4_K_M");
	uint32_t types[COUNT(tensors)];
	size_t i, k, n[TYPE_Q2_0 + 1];

	for (i = 0; i < COUNT(models); i++) {
		const struct shape *s = &models[i].shape;
		struct pico_mix_model model = {
		    .arch = { s->arch, strlen(s->arch) }, .n_layer = s->layers,
		    .n_head = s->heads, .n_head_kv = s->kv_heads,
		    .n_expert = s->experts };

		make_shape(s);
		memset(n, 0, sizeof n);
		(void)pico_mix_types(m, &model, tensors, n_tensors, types,
		    &err);
		for (k = 0; k < n_tensors; k++)
			n[types[k]]++;
		ok(n[TYPE_Q4_K] == models[i].q4_k &&
		    n[TYPE_Q5_K] == models[i].q5_k &&
		    n[TYPE_Q6_K] == models[i].q6_k &&
		    n[TYPE_Q5_0] == models[i].q5_0 &&
		    n[TYPE_Q8_0] == models[i].q8_0, s->name);
		if (n_failed > 0)
			printf("# Q4_K %zu Q5_K %zu Q6_K %zu Q5_0 %zu Q8_0 "
			    "%zu\n", n[TYPE_Q4_K], n[TYPE_Q5_K],
			    n[TYPE_Q6_K], n[TYPE_Q5_0], n[TYPE_Q8_0]);
	}
}

static void
check_mixes(void)
{
	char line[200], name[30], mix[20], last[60] = "", both[60];
	FILE *f = fopen(VECTORS "mixes.tsv", "r");
	size_t i, n = 0;

	ok(pico_fit_type(TYPE_Q4_K, 288) == TYPE_Q5_0 &&
	    pico_fit_type(TYPE_Q4_K, 512) == TYPE_Q4_K &&
	    pico_fit_type(TYPE_Q6_K, 36) == TYPE_F16 &&
	    pico_fit_type(TYPE_Q8_0, 4) == TYPE_F16, "rows that do not fit");
	ok(pico_mix_named("q4_k_m") != NULL && pico_mix_named("Q9") == NULL &&
	    pico_mix(1000) == NULL, "names of mixes");
	if (f == NULL) {
		ok(true, "mixes # SKIP no such cases");
		return;
	}
	while (fgets(line, sizeof line, f) != NULL) {
		if (line[0] == '#' || sscanf(line, "%29[^\t]\t%19[^\t]", name,
		    mix) != 2)
			continue;
		(void)snprintf(both, sizeof both, "%s, %s", name, mix);
		if (strcmp(both, last) == 0)
			continue;
		memcpy(last, both, sizeof last);
		if (pico_mix_named(mix) == NULL)
			continue;
		for (i = 0; i < COUNT(shapes); i++)
			if (strcmp(shapes[i].name, name) == 0) {
				ok(compare_mix(&shapes[i], mix), both);
				n++;
			}
	}
	ok(n > 50, "cases of mixes");
	(void)fclose(f);
}

int
main(void)
{
	quantizer = pico_quantizer_new(2, &err);
	if (quantizer == NULL) {
		printf("Bail out! %s\n", err.msg);
		return 1;
	}
	check_same();
	check_refusals();
	check_errors();
	check_kinds();
	check_tiny();
	check_models();
	check_mixes();
	pico_quantizer_free(quantizer);
	printf("1..%d\n", n_tests);
	return n_failed > 0;
}
