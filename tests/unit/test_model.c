/* SPDX-License-Identifier: MIT */
/*
 * Models made on the spot, right but for one thing: what must be refused, by
 * the name of the key or tensor; what must be taken; and what must then come
 * out alike. The plain model has one layer, embeddings of 8, two heads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/base/base.h"

enum { EMBD = 8, FF = 12, VOCAB = 5 };

static int n_run, n_failed;
static char path[300];

static void
check(bool ok, const char *what, const char *got)
{
	n_run++;
	n_failed += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", n_run, what);
	if (!ok)
		printf("# got: %s\n", got);
}

/* ---- writing a file ---- */

struct bytes {
	uint8_t b[1 << 20];
	size_t n;
};
static struct bytes keys, tensors, data;
static uint32_t n_keys, n_tensors;

static void
put(struct bytes *to, const void *p, size_t n)
{
	if (n > sizeof to->b - to->n)
		exit(2);
	memcpy(to->b + to->n, p, n);
	to->n += n;
}

static void
put_u32(struct bytes *to, uint32_t v)
{
	put(to, &v, sizeof v);
}

static void
put_u64(struct bytes *to, uint64_t v)
{
	put(to, &v, sizeof v);
}

static void
put_str(struct bytes *to, const char *s)
{
	put_u64(to, strlen(s));
	put(to, s, strlen(s));
}

static void
key(const char *name, uint32_t type)
{
	put_str(&keys, name);
	put_u32(&keys, type);
	n_keys++;
}

static void
key_u32(const char *name, uint32_t v)
{
	key(name, PICO_KV_U32);
	put_u32(&keys, v);
}

static void
key_f32(const char *name, float v)
{
	key(name, PICO_KV_F32);
	put(&keys, &v, sizeof v);
}

static void
key_str(const char *name, const char *v)
{
	key(name, PICO_KV_STR);
	put_str(&keys, v);
}

static uint32_t tensor_type;	/* of 4 bytes; 0: F32 */

/* n values that depend on the tensor's name only. */
static void
tensor3(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t dims[3] = { a, b, c }, i, n = a * MAX(b, 1) * MAX(c, 1);
	uint64_t r = hash_bytes(HASH_START, name, strlen(name));
	uint32_t n_dims = c > 0 ? 3 : b > 0 ? 2 : 1;
	float x;

	put_str(&tensors, name);
	put_u32(&tensors, n_dims);
	put(&tensors, dims, n_dims * sizeof *dims);
	put_u32(&tensors, tensor_type);
	put_u64(&tensors, data.n);
	for (i = 0; i < n; i++) {
		r = r * 6364136223846793005u + 1442695040888963407u;
		x = (float)(int32_t)(r >> 33) / (1 << 30) - 1;
		put(&data, &x, sizeof x);
	}
	while (data.n % 32 != 0)
		put(&data, "", 1);
	n_tensors++;
}

static void
tensor(const char *name, uint64_t a, uint64_t b)
{
	tensor3(name, a, b, 0);
}

/* ---- the model, and what may be different ---- */

struct variant {
	const char *without;	/* this key or tensor is left out */
	void (*add)(void);	/* writes more keys or tensors */
	uint32_t head, n_head, n_head_kv;	/* 0: 4, 2, 2 */
	uint32_t layers;	/* 0: 1 */
	uint32_t experts;
};

static void
write_model(const struct variant *v)
{
	static const char *const token[VOCAB] = { "<unk>", "<s>", "</s>", "a",
	    "b" };
	uint32_t head = v->head > 0 ? v->head : 4;
	uint32_t q = head * (v->n_head > 0 ? v->n_head : 2);
	uint32_t k = head * (v->n_head_kv > 0 ? v->n_head_kv : 2);
	uint32_t layers = MAX(v->layers, 1), e = v->experts, i;
	const char *skip = v->without != NULL ? v->without : "";
	struct bytes *file = calloc(1, sizeof *file);
	char name[80];
	FILE *f;

	if (file == NULL)
		exit(2);
	keys.n = tensors.n = data.n = 0;
	n_keys = n_tensors = 0;
#define UNLESS(name_, call) if (strcmp(skip, name_) != 0) call
#define U32(name_, val) UNLESS(name_, key_u32(name_, val))
	UNLESS("general.architecture", key_str("general.architecture",
	    "llama"));
	U32("llama.context_length", 64);
	U32("llama.embedding_length", EMBD);
	U32("llama.block_count", layers);
	U32("llama.feed_forward_length", FF);
	U32("llama.attention.head_count", v->n_head > 0 ? v->n_head : 2);
	if (v->n_head_kv > 0)
		U32("llama.attention.head_count_kv", v->n_head_kv);
	UNLESS("llama.attention.layer_norm_rms_epsilon",
	    key_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f));
	if (v->head > 0) {
		U32("llama.attention.key_length", head);
		U32("llama.attention.value_length", head);
	}
	if (e > 0)
		U32("llama.expert_count", e);
	key_str("tokenizer.ggml.model", "llama");
	key("tokenizer.ggml.tokens", PICO_KV_ARR);
	put_u32(&keys, PICO_KV_STR);
	put_u64(&keys, VOCAB);
	for (i = 0; i < VOCAB; i++)
		put_str(&keys, token[i]);
#define T(name_, a, b) UNLESS(name_, tensor(name_, a, b))
	T("token_embd.weight", EMBD, VOCAB);
	T("output_norm.weight", EMBD, 0);
	for (i = 0; i < layers; i++) {
#define L(what, a, b) \
		(void)snprintf(name, sizeof name, "blk.%u." what ".weight", i); \
		T(name, a, b)
		L("attn_norm", EMBD, 0);
		L("attn_q", EMBD, q);
		L("attn_k", EMBD, k);
		L("attn_v", EMBD, k);
		L("attn_output", q, EMBD);
		L("ffn_norm", EMBD, 0);
		if (e > 0) {
			L("ffn_gate_inp", EMBD, e);
			tensor3("blk.0.ffn_gate_exps.weight", EMBD, FF, e);
			tensor3("blk.0.ffn_up_exps.weight", EMBD, FF, e);
			tensor3("blk.0.ffn_down_exps.weight", FF, EMBD, e);
			continue;
		}
		L("ffn_gate", EMBD, FF);
		L("ffn_up", EMBD, FF);
		L("ffn_down", FF, EMBD);
	}
	if (v->add != NULL)
		v->add();
	put(file, "GGUF\3\0\0\0", 8);
	put_u64(file, n_tensors);
	put_u64(file, n_keys);
	put(file, keys.b, keys.n);
	put(file, tensors.b, tensors.n);
	while (file->n % 32 != 0)
		put(file, "", 1);
	put(file, data.b, data.n);
	f = fopen(path, "wb");
	if (f == NULL || fwrite(file->b, 1, file->n, f) != file->n ||
	    fclose(f) != 0)
		exit(2);
	free(file);
}

/* ---- opening it ---- */

/* Logits after a few tokens; false and *err if it is refused. */
static bool
run(const struct variant *v, float *logits, struct pico_err *err)
{
	static const struct pico_col cols[] = {
		{ 1, 0, false }, { 3, 0, false }, { 4, 0, false }, { 3, 0, true }
	};
	struct pico_ctx_params p = { .n_ctx = 8, .n_threads = 1 };
	struct pico_gguf *g = NULL;
	struct pico_model *m = NULL;
	struct pico_ctx *c = NULL;
	const float *row;
	bool ok = false;

	*err = (struct pico_err){0};
	write_model(v);
	if (pico_gguf_open(&g, path, 0, err) == 0 &&
	    (m = pico_model_open(g, err)) != NULL &&
	    (c = pico_ctx_new(m, &p, err)) != NULL &&
	    pico_ctx_eval(c, cols, COUNT(cols), err) == 0 &&
	    (row = pico_ctx_logits(c, COUNT(cols) - 1)) != NULL) {
		memcpy(logits, row, VOCAB * sizeof *logits);
		ok = true;
	}
	pico_ctx_free(c);
	pico_model_close(m);
	pico_gguf_close(g);
	return ok;
}

static float plain[VOCAB];

/* The model is refused with a message that holds both parts. */
static void
refuses(const char *what, const struct variant *v, const char *part,
    const char *part2)
{
	struct pico_err err;
	float x[VOCAB];
	bool ok = run(v, x, &err);

	check(!ok && err.status == PICO_ERROR &&
	    strstr(err.msg, part) != NULL && strstr(err.msg, part2) != NULL,
	    what, ok ? "it runs" : err.msg);
}

/* The model is taken, and computes what the plain one does, or not. */
static void
takes(const char *what, const struct variant *v, bool alike)
{
	struct pico_err err;
	float x[VOCAB];
	bool ok = run(v, x, &err);

	check(ok && (memcmp(x, plain, sizeof x) == 0) == alike, what,
	    ok ? "logits" : err.msg);
}

static void
missing(void)
{
	static const char *const names[] = {
		"general.architecture", "llama.context_length",
		"llama.embedding_length", "llama.block_count",
		"llama.feed_forward_length", "llama.attention.head_count",
		"llama.attention.layer_norm_rms_epsilon", "token_embd.weight",
		"output_norm.weight", "blk.0.attn_norm.weight",
		"blk.0.attn_q.weight", "blk.0.attn_k.weight",
		"blk.0.attn_v.weight", "blk.0.attn_output.weight",
		"blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight",
		"blk.0.ffn_up.weight", "blk.0.ffn_down.weight",
	};
	size_t i;

	for (i = 0; i < COUNT(names); i++) {
		struct variant v = { .without = names[i] };

		refuses(names[i], &v, names[i], "missing");
	}
}

/* ---- keys of other types and values ---- */

static const char *a_name;
static uint32_t a_type, an_elem, a_count;
static uint64_t a_value;

/* One key of any integer or float type, or an array of equal values. */
static void
add_key(void)
{
	static const uint8_t width[PICO_KV_N] = {
		[PICO_KV_U8] = 1, [PICO_KV_I8] = 1, [PICO_KV_U16] = 2,
		[PICO_KV_I16] = 2, [PICO_KV_U32] = 4, [PICO_KV_I32] = 4,
		[PICO_KV_F32] = 4, [PICO_KV_BOOL] = 1, [PICO_KV_U64] = 8,
		[PICO_KV_I64] = 8, [PICO_KV_F64] = 8
	};
	uint32_t i;

	key(a_name, a_type);
	if (a_type != PICO_KV_ARR) {
		put(&keys, &a_value, width[a_type]);
		return;
	}
	put_u32(&keys, an_elem);
	put_u64(&keys, a_count);
	for (i = 0; i < a_count; i++)
		put(&keys, &a_value, width[an_elem]);
}

static struct variant
with(const char *name, uint32_t type, uint64_t value)
{
	a_name = name;
	a_type = type;
	a_value = value;
	return (struct variant){ .without = name, .add = add_key };
}

static struct variant
with_array(const char *name, uint32_t elem, uint32_t n, uint64_t value)
{
	struct variant v = with(name, PICO_KV_ARR, value);

	an_elem = elem;
	a_count = n;
	return v;
}

static struct variant
with_real(const char *name, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return with(name, PICO_KV_F64, bits);
}

static const char *a_text;

static void
add_text(void)
{
	key_str(a_name, a_text);
}

static struct variant
with_text(const char *name, const char *text)
{
	a_name = name;
	a_text = text;
	return (struct variant){ .without = name, .add = add_text };
}

static void
types(void)
{
	static const uint32_t ints[] = { PICO_KV_U8, PICO_KV_I8, PICO_KV_U16,
	    PICO_KV_I16, PICO_KV_I32, PICO_KV_U64, PICO_KV_I64 };
	const char *const heads = "llama.attention.head_count";
	const char *const kv = "llama.attention.head_count_kv";
	const char *const ff = "llama.feed_forward_length";
	const char *const embd = "llama.embedding_length";
	struct variant v;
	char what[100];
	size_t i;

	for (i = 0; i < COUNT(ints); i++) {
		(void)snprintf(what, sizeof what, "a count stored as %s",
		    pico_kv_type_name(ints[i]));
		v = with(heads, ints[i], 2);
		takes(what, &v, true);
	}
	v = with(heads, PICO_KV_F32, 2);
	refuses("a count stored as f32", &v, heads, "f32");
	v = with(embd, PICO_KV_I64, UINT64_MAX);
	refuses("a size of -1", &v, embd, "-1");
	v = with(embd, PICO_KV_U64, UINT64_MAX);
	refuses("a size of 2^64-1", &v, embd, "18446744073709551615");
	v = with(embd, PICO_KV_U32, 0);
	refuses("a size of 0", &v, embd, "0");
	v = with(heads, PICO_KV_U32, 0);
	refuses("no heads", &v, heads, "0");
	v = with(kv, PICO_KV_U32, 0);
	refuses("no key heads", &v, kv, "0");
	v = with(heads, PICO_KV_U32, 3);
	refuses("heads that do not divide the embedding", &v, heads, "3");
	v = with(kv, PICO_KV_U32, 3);
	refuses("key heads that do not divide the heads", &v, kv, "3");
	v = with(kv, PICO_KV_U32, 2);
	takes("as many key heads as heads, said or not", &v, true);

	v = with_array(kv, PICO_KV_U32, 1, 2);
	takes("key heads, one value a layer", &v, true);
	v = with_array(kv, PICO_KV_I64, 1, 2);
	takes("key heads a layer, as i64", &v, true);
	v = with_array(ff, PICO_KV_I32, 1, FF);
	takes("feed-forward, one value a layer", &v, true);
	v = with_array(ff, PICO_KV_I32, 2, FF);
	refuses("two values for one layer", &v, ff, "2 values for 1 layers");
	v = with_array(kv, PICO_KV_U32, 0, 2);
	refuses("no value for one layer", &v, kv, "0 values for 1 layers");
	v = with_array(kv, PICO_KV_U32, 1, 0);
	refuses("no key heads in a layer", &v, kv, "0");
	v = with_array(kv, PICO_KV_I32, 1, (uint32_t)-1);
	refuses("-1 key heads in a layer", &v, kv, "-1");
	v = with_array(kv, PICO_KV_F32, 1, 2);
	refuses("an array of f32", &v, kv, "f32");
	v = with_text(heads, "2");
	refuses("a count stored as text", &v, heads, "str");
}

/* Keys that change the mathematics. */
static void
mathematics(void)
{
	static const char *const window = "llama.attention.sliding_window";
	static const struct {
		const char *name;
		double value;
	} refused[] = {
		{ "llama.attn_logit_softcapping", 50 },
		{ "llama.final_logit_softcapping", 30 },
		{ "llama.logit_scale", 0.5 },
		{ "llama.attention.clamp_kqv", 8 },
		{ "llama.attention.max_alibi_bias", 8 },
		{ "llama.attention.scale", 0.9 },
		{ "llama.rope.freq_base", 0 },
		{ "llama.rope.freq_base", -10 },
		{ "llama.rope.freq_base", 1e300 },
		{ "llama.rope.scaling.factor", -1 },
		{ "llama.rope.scaling.factor", 1e-10 },
		{ "llama.attention.layer_norm_rms_epsilon", -1 },
		{ "llama.expert_weights_scale", -2.5 },
		{ "llama.rope.scaling.yarn_ext_factor", 0.5 },
	};
	struct variant v;
	size_t i;

	for (i = 0; i < COUNT(refused); i++) {
		v = with_real(refused[i].name, refused[i].value);
		refuses(refused[i].name, &v, refused[i].name, "");
	}
	v = with_real("llama.rope.freq_base", (double)NAN);
	refuses("a base that is not a number", &v, "llama.rope.freq_base",
	    "nan");
	v = with_real("llama.rope.freq_base", (double)INFINITY);
	refuses("an infinite base", &v, "llama.rope.freq_base", "inf");
	v = with_text("llama.rope.scaling.type", "dynamic");
	refuses("a scaling that is not known", &v, "llama.rope.scaling.type",
	    "dynamic");
	v = with_text("llama.rope.scaling.type", "longrope");
	refuses("a scaling without its factors", &v,
	    "rope_factors_short.weight", "missing");
	v = with_text("llama.rope.scaling.type", "none");
	takes("no scaling, said", &v, true);
	v = with_real("llama.attention.layer_norm_epsilon", 0.5);
	takes("what another norm would need", &v, true);
	v = with_real("llama.attention.scale", 0.5);
	takes("the usual scale, said", &v, true);
	v = with_real("llama.rope.freq_base", 10000);
	takes("the usual base, said", &v, true);
	v = with_real("llama.rope.freq_base", 500);
	takes("another base changes the result", &v, false);
	v = with_real("llama.rope.scale_linear", 4);
	takes("linear scaling changes the result", &v, false);
	v = with_real("llama.attn_logit_softcapping", 0);
	takes("a cap of 0 is none", &v, true);
	v = with(window, PICO_KV_U32, 4);
	takes("a window means nothing to this architecture", &v, true);
	v = with_text("llama.some_new_key", "about nothing");
	takes("a key without meaning", &v, true);
	v = with("llama.rope.dimension_count", PICO_KV_U32, 3);
	refuses("an odd rotation", &v, "llama.rope.dimension_count", "3");
	v = with("llama.rope.dimension_count", PICO_KV_U32, 6);
	refuses("a rotation of more than a head", &v,
	    "llama.rope.dimension_count", "6");
	v = with("llama.expert_used_count", PICO_KV_U32, 1);
	refuses("experts used but none there", &v, "llama.expert_used_count",
	    "1 of 0");
}

/* ---- shapes ---- */

static void
add_integers(void)
{
	tensor_type = 26;	/* I32 */
	tensor("output_norm.weight", EMBD, 0);
	tensor_type = 0;
}

static uint32_t used_experts;

static void
add_used(void)
{
	key_u32("llama.expert_used_count", used_experts);
}

static void
add_stranger(void)
{
	tensor("blk.0.attn_sinks.weight", 2, 0);
}

static void
add_second_layer(void)
{
	tensor("blk.1.attn_norm.weight", EMBD, 0);
}

static void
add_output(void)
{
	tensor("output.weight", EMBD, VOCAB);
}

static void
add_bad_output(void)
{
	tensor("output.weight", EMBD, VOCAB + 1);
}

static void
shapes(void)
{
	struct variant v = { .head = 600, .n_head = 2, .n_head_kv = 1 };

	takes("heads of 600", &v, false);
	v = (struct variant){ .head = 2, .n_head = 6, .n_head_kv = 3 };
	takes("six small heads, wider than the embedding", &v, false);
	v = (struct variant){ .head = 4 };
	takes("the head's size, said", &v, true);
	v = (struct variant){ .layers = 2 };
	takes("two layers", &v, false);
	v = (struct variant){ .layers = 40, .without = "blk.39.ffn_up.weight" };
	refuses("the last layer's tensor", &v, "blk.39.ffn_up.weight",
	    "missing");
	v = (struct variant){ .experts = 3, .add = add_used };
	used_experts = 2;
	takes("two of three experts", &v, false);
	used_experts = 3;
	takes("three of three experts", &v, false);
	used_experts = 4;
	refuses("four of three experts", &v, "llama.expert_used_count",
	    "4 of 3");
	used_experts = 0;
	refuses("none of three experts", &v, "llama.expert_used_count",
	    "0 of 3");
	v = (struct variant){
		.without = "output_norm.weight", .add = add_integers
	};
	refuses("a norm of integers", &v, "output_norm.weight", "I32");
	v = (struct variant){ .add = add_stranger };
	refuses("a tensor of unknown meaning", &v, "blk.0.attn_sinks.weight",
	    "");
	v = (struct variant){ .add = add_second_layer };
	refuses("a tensor of a layer that is not there", &v,
	    "blk.1.attn_norm.weight", "");
	v = (struct variant){ .add = add_output };
	takes("an output matrix of its own", &v, false);
	v = (struct variant){ .add = add_bad_output };
	refuses("an output matrix with a row too many", &v, "output.weight",
	    "6");
	v = with("llama.feed_forward_length", PICO_KV_U32, FF + 1);
	refuses("a length that its tensors do not have", &v, "ffn_", "13");
	v = with("llama.block_count", PICO_KV_U32, 2);
	refuses("a layer too many", &v, "blk.1.", "missing");
	v = with("llama.block_count", PICO_KV_U32, 1u << 31);
	refuses("2^31 layers", &v, "llama.block_count", "2147483648");
}

/* What a context would need is told, and a huge training length is no reason
   to ask for it. */
static void
plans(void)
{
	struct variant v = with("llama.context_length", PICO_KV_U32, INT32_MAX);
	struct pico_ctx_params p = { .n_threads = 1 };
	struct pico_gguf *g = NULL;
	struct pico_model *m = NULL;
	struct pico_err err = {0};
	struct pico_plan plan;

	write_model(&v);
	check(pico_gguf_open(&g, path, 0, &err) == 0 &&
	    (m = pico_model_open(g, &err)) != NULL &&
	    pico_plan(m, &p, &plan, &err) == 0 && plan.n_ctx == PICO_CTX_CAP &&
	    plan.kv == (uint64_t)PICO_CTX_CAP * 2 * EMBD * 2,
	    "a context length of 2^31-1 is capped", err.msg);
	p.kv = PICO_CACHE_F32;
	p.n_ctx = 10;
	p.n_seq = 3;
	check(m != NULL && pico_plan(m, &p, &plan, &err) == 0 &&
	    plan.kv == 16 * 3 * 2 * EMBD * 4, "the cache's bytes, positions by "
	    "16", err.msg);
	p.n_ctx = UINT32_MAX;
	check(m != NULL && pico_plan(m, &p, &plan, &err) < 0 &&
	    err.status == PICO_USAGE, "a context that cannot be", err.msg);
	pico_model_close(m);
	pico_gguf_close(g);
}

int
main(void)
{
	const char *dir = getenv("TMPDIR");
	struct variant v = {0};
	struct pico_err err;

	(void)snprintf(path, sizeof path, "%s/pico-test-model-%ld",
	    dir != NULL ? dir : "/tmp", (long)getpid());
	check(run(&v, plain, &err), "the plain model runs", err.msg);
	missing();
	types();
	mathematics();
	shapes();
	plans();
	(void)unlink(path);
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
