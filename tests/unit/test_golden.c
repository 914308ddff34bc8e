/* SPDX-License-Identifier: MIT */
/*
 * Logits that no machine, compiler or set of kernels may change: for every type
 * of weights a small model made from a seed, and for every kind of architecture
 * one of tests/data, and the checksum of what it computes. When the definition
 * of the kernels is changed on purpose, take the new checksums from the output.
 * Its last lines are a checksum of them all for each set, to compare machines.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/gguf/gguf.h"
#include "../../lib/kernel/kernel.h"

static int n_run, n_failed;

/* Of all that the sets have computed, in the order of kernels_all(). */
static uint64_t sum[8];

static const struct golden {
	const char *type;	/* or the name of a model */
	uint64_t logits;
} golden[] = {
	{ "F32", 0xb280088cc33052a1 },
	{ "F16", 0x93b160336b3a6989 },
	{ "Q4_0", 0x0a0079d52606c6b0 },
	{ "Q4_1", 0x73802fd7e566b7f2 },
	{ "Q5_0", 0x186fed8d924b4296 },
	{ "Q5_1", 0x427d6a263775016d },
	{ "Q8_0", 0x867aa570f8945e90 },
	{ "Q8_1", 0xc3c32059fbbc44a4 },
	{ "Q2_K", 0x2bc83c7a8e390d95 },
	{ "Q3_K", 0xab00da678071441c },
	{ "Q4_K", 0xa642fe8baae42d61 },
	{ "Q5_K", 0xcfcbfa45c600475c },
	{ "Q6_K", 0x134417d534e22e39 },
	{ "Q8_K", 0xdcd6de18bcd23828 },
	{ "IQ2_XXS", 0x2ec773dabc95a50e },
	{ "IQ2_XS", 0x142255cc6007cc67 },
	{ "IQ3_XXS", 0xa4262908fbb9b703 },
	{ "IQ1_S", 0x113f6d58a3a15b67 },
	{ "IQ4_NL", 0x96844937f36a6176 },
	{ "IQ3_S", 0xd4877fcb54388172 },
	{ "IQ2_S", 0x491fc93088fcf681 },
	{ "IQ4_XS", 0xa57ecc1787348762 },
	{ "F64", 0xc7c1e1d7abfb13ff },
	{ "IQ1_M", 0x03d21fbffe0ccefe },
	{ "BF16", 0x61b7783b526a8112 },
	{ "TQ1_0", 0xa739615a4c59f7b6 },
	{ "TQ2_0", 0xe73bd51403400cd5 },
	{ "MXFP4", 0x4f3a952fc5b0cad9 },
	{ "NVFP4", 0xae0270b13c58e553 },
	{ "Q1_0", 0x078169f77a024969 },
	{ "Q2_0", 0x5247f44c5835f0ae }
};

/* Models of each kind, in tests/data/arch: of the first VOCAB logits. */
static const struct golden kinds[] = {
	{ "llama3-ropefreqs", 0x8f78e16f0d13973d },
	{ "mixtral", 0x463379d1a38ab69c },
	{ "gemma3", 0x4383872277b302f0 },
	{ "deepseek2", 0x2432383b7cb00048 },
	{ "mamba", 0xd85d6d5e90a2626c },
	{ "rwkv6", 0xcdaba5b5155abf20 },
};

/* The model: a row of ff.down has nine super-blocks, one more than there are
   partial sums. */
enum { EMBD = 256, FF = 2304, HEADS = 4, KV = 128, VOCAB = 40, IDS = 7 };

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

/* ---- weights ---- */

/* Whether the values of a block are of a size that weights may have. */
static bool
sane(const struct pico_type *t, const uint8_t *block)
{
	float v[256], top = 0;
	uint64_t first;

	if (pico_bad_blocks(t->id, block, t->block, &first) > 0 ||
	    pico_dequantize(t->id, block, v, t->block) < 0)
		return false;
	for (uint32_t i = 0; i < t->block; i++) {
		if (!isfinite(v[i]))
			return false;
		top = MAX(top, fabsf(v[i]));
	}
	return top > 0x1p-10f && top < 1;
}

/* One block: a number, or any bits as long as they are sane. */
static void
make_block(const struct pico_type *t, uint8_t *block)
{
	float f = uniform();
	double d = f;
	uint16_t h = f32_to_f16(f);

	switch (t->id) {
	case TYPE_F32:
		memcpy(block, &f, sizeof f);
		return;
	case TYPE_F64:
		memcpy(block, &d, sizeof d);
		return;
	case TYPE_F16:
		memcpy(block, &h, sizeof h);
		return;
	case TYPE_BF16:
		memcpy(block, (const uint8_t *)&f + 2, 2);
		return;
	default:
		do
			for (size_t i = 0; i < t->bytes; i++)
				block[i] = (uint8_t)mixed();
		while (!sane(t, block));
	}
}

/* ---- the file (GGUF version 3) ---- */

static const struct tensor {
	const char *name;
	uint64_t n_in, n_out;	/* n_out 0: a vector of F32 */
} tensors[] = {
	{ "token_embd.weight", EMBD, VOCAB },
	{ "output_norm.weight", EMBD, 0 },
	{ "output.weight", EMBD, VOCAB },
	{ "blk.0.attn_norm.weight", EMBD, 0 },
	{ "blk.0.attn_q.weight", EMBD, EMBD },
	{ "blk.0.attn_k.weight", EMBD, KV },
	{ "blk.0.attn_v.weight", EMBD, KV },
	{ "blk.0.attn_output.weight", EMBD, EMBD },
	{ "blk.0.ffn_norm.weight", EMBD, 0 },
	{ "blk.0.ffn_gate.weight", EMBD, FF },
	{ "blk.0.ffn_up.weight", EMBD, FF },
	{ "blk.0.ffn_down.weight", FF, EMBD }
};

static void
put(FILE *f, const void *p, size_t n)
{
	if (fwrite(p, 1, n, f) != n)
		abort();
}

static void
put_u32(FILE *f, uint32_t v)
{
	put(f, &v, sizeof v);
}

static void
put_u64(FILE *f, uint64_t v)
{
	put(f, &v, sizeof v);
}

static void
put_str(FILE *f, const char *s)
{
	put_u64(f, strlen(s));
	put(f, s, strlen(s));
}

static void
put_keys(FILE *f)
{
	static const struct {
		const char *key;
		uint32_t value;
	} numbers[] = {
		{ "llama.vocab_size", VOCAB },
		{ "llama.context_length", 32 },
		{ "llama.embedding_length", EMBD },
		{ "llama.block_count", 1 },
		{ "llama.feed_forward_length", FF },
		{ "llama.attention.head_count", HEADS },
		{ "llama.attention.head_count_kv", HEADS * KV / EMBD }
	};
	float eps = 1e-5f;

	put_str(f, "general.architecture");
	put_u32(f, PICO_KV_STR);
	put_str(f, "llama");
	for (size_t i = 0; i < COUNT(numbers); i++) {
		put_str(f, numbers[i].key);
		put_u32(f, PICO_KV_U32);
		put_u32(f, numbers[i].value);
	}
	put_str(f, "llama.attention.layer_norm_rms_epsilon");
	put_u32(f, PICO_KV_F32);
	put(f, &eps, sizeof eps);
}

static uint64_t
tensor_bytes(const struct pico_type *t, const struct tensor *w)
{
	return w->n_out == 0 ? w->n_in * 4 :
	    w->n_in / t->block * t->bytes * w->n_out;
}

static void
pad(FILE *f)
{
	while (ftell(f) % 32 != 0)
		put(f, "", 1);
}

static void
put_model(FILE *f, const struct pico_type *t)
{
	uint64_t at = 0;
	uint8_t block[512];
	float one;

	put(f, "GGUF", 4);
	put_u32(f, 3);
	put_u64(f, COUNT(tensors));
	put_u64(f, 9);
	put_keys(f);
	for (size_t i = 0; i < COUNT(tensors); i++) {
		const struct tensor *w = &tensors[i];

		put_str(f, w->name);
		put_u32(f, w->n_out == 0 ? 1 : 2);
		put_u64(f, w->n_in);
		if (w->n_out > 0)
			put_u64(f, w->n_out);
		put_u32(f, w->n_out == 0 ? (uint32_t)TYPE_F32 : t->id);
		put_u64(f, at);
		at += (tensor_bytes(t, w) + 31) / 32 * 32;
	}
	for (size_t i = 0; i < COUNT(tensors); i++) {
		const struct tensor *w = &tensors[i];

		pad(f);
		for (uint64_t j = 0; w->n_out == 0 && j < w->n_in; j++) {
			one = 1 + 0.5f * uniform();
			put(f, &one, sizeof one);
		}
		for (uint64_t j = 0; j < w->n_in / t->block * w->n_out; j++) {
			make_block(t, block);
			put(f, block, t->bytes);
		}
	}
}

/* ---- its logits ---- */

/* A pass of four tokens, and then three of one: tiles and rows. */
static uint64_t
checksum(const struct pico_model *m)
{
	struct pico_ctx_params p = { .n_threads = 2 };
	struct pico_ctx *c = pico_ctx_new(m, &p, NULL);
	uint64_t h = HASH_START;

	for (size_t i = 0, n; i < IDS; i += n) {
		struct pico_col cols[IDS];

		n = i == 0 ? 4 : 1;
		for (size_t k = 0; k < n; k++)
			cols[k] = (struct pico_col){
			    (int32_t)((i + k) * 17 % VOCAB), 0, true };
		if (c == NULL || pico_ctx_eval(c, cols, n, NULL) < 0)
			abort();
		for (size_t k = 0; k < n; k++) {
			const float *y = pico_ctx_logits(c, k);

			h = hash_bytes(h, y, VOCAB * sizeof *y);
			/* the bits of a NaN would be nobody's promise */
			for (int j = 0; j < VOCAB; j++)
				if (!isfinite(y[j]))
					return 0;
		}
	}
	pico_ctx_free(c);
	return h;
}

static const struct golden *
golden_of(const struct pico_type *t)
{
	for (size_t i = 0; i < COUNT(golden); i++)
		if (strcmp(golden[i].type, t->name) == 0)
			return &golden[i];
	return NULL;
}

/* The model in a file, by every set of kernels. */
static void
test_file(const char *path, const char *name, uint64_t want)
{
	const struct kernels *const *k = kernels_all();
	uint64_t *all = sum;
	struct pico_gguf *g;
	struct pico_model *m;

	if (pico_gguf_open(&g, path, 0, NULL) < 0 ||
	    (m = pico_model_open(g, NULL)) == NULL)
		abort();
	for (; *k != NULL; k++) {
		uint64_t h;
		bool good;

		(void)setenv("PICO_CPU", (*k)->name, 1);
		h = checksum(m);
		*all = hash_bytes(*all, &h, sizeof h);
		all++;
		good = h != 0 && h == want;
		printf("%sok %d - logits of a model of %s by %s\n",
		    good ? "" : "not ", ++n_run, name, (*k)->name);
		if (!good)
			printf("# got { \"%s\", 0x%016" PRIx64 " },\n",
			    name, h);
		n_failed += !good;
	}
	pico_model_close(m);
	pico_gguf_close(g);
}

static void
test_type(const struct pico_type *t, const char *path)
{
	const struct golden *want = golden_of(t);
	FILE *f = fopen(path, "wb");

	if (f == NULL)
		abort();
	state = t->id;
	put_model(f, t);
	if (fclose(f) != 0)
		abort();
	test_file(path, t->name, want != NULL ? want->logits : 0);
}

static void
test_kind(const struct golden *kind)
{
	char path[100];

	(void)snprintf(path, sizeof path, "tests/data/arch/%s.gguf",
	    kind->type);
	test_file(path, kind->type, kind->logits);
}

int
main(void)
{
	char path[] = "/tmp/pico-golden.XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0)
		abort();
	(void)close(fd);
	for (uint32_t id = 0; id <= TYPE_Q2_0; id++) {
		const struct pico_type *t = pico_type(id);

		/* integers are no weights */
		if (t != NULL && (t->block > 1 || t->name[0] != 'I'))
			test_type(t, path);
	}
	(void)unlink(path);
	for (size_t i = 0; i < COUNT(kinds); i++)
		test_kind(&kinds[i]);
	for (size_t i = 0; kernels_all()[i] != NULL; i++)
		printf("# all by %s: %016" PRIx64 "\n",
		    kernels_all()[i]->name, sum[i]);
	printf("1..%d\n", n_run);
	return n_failed != 0;
}
