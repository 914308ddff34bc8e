/* SPDX-License-Identifier: MIT */
/*
 * Makes a model of any shape and type out of random numbers: nothing to read in
 * what it says, but blocks, sizes and activations like those of a real one, for
 * measuring and for tests that want a model of a certain size.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "../cmd/cmd.h"
#include "../lib/gguf/gguf.h"

#define ALIGNMENT 32
#define N_SPECIAL 3		/* <unk> <s> </s> */
#define N_BYTES 256

struct shape {
	const char *name;
	int64_t layers, embd, ff, heads, kv_heads, vocab, ctx;
	const char *arch;
	int64_t head;		/* size of a head; 0: embd / heads */
	bool tied, qkv_bias;
};

static const struct shape shapes[] = {
	{ "tinyllama", 22, 2048, 5632, 32, 4, 32000, 2048, "llama", 0, 0, 0 },
	{ "tiny", 2, 256, 512, 4, 2, 512, 256, "llama", 0, 0, 0 },
	{ "8b", 32, 4096, 14336, 32, 8, 128256, 8192, "llama", 0, 0, 0 },
	{ "qwen", 28, 1536, 8960, 12, 2, 151936, 32768, "qwen2", 0, 1, 1 },
	{ "gemma", 18, 2048, 16384, 8, 1, 256000, 8192, "gemma", 256, 1, 0 },
};

static struct shape want;	/* 0: as the named shape has it */
static const char *shape_name = "tinyllama", *type_name = "Q4_K_M", *path;
static int64_t experts, used;
static uint64_t seed;
static bool folder;

static const struct cmd about = {
	"mkmodel", "[option ...] -o FILE",
	"Writes a random model in the GGUF format.",
};

static const struct pico_opt options[] = {
	{ 'o', "output", PICO_OPT_TEXT, &path, "FILE",
	    "the file to write", 0, 0, NULL },
	{ 0, "shape", PICO_OPT_TEXT, &shape_name, "NAME",
	    "tinyllama, tiny, 8b, qwen (1.5B) or gemma (2B); the rest "
	    "changes it",
	    0, 0, NULL },
	{ 0, "type", PICO_OPT_TEXT, &type_name, "TYPE",
	    "Q3_K_M, Q4_K_M, Q5_K_M or a tensor type (Q4_K_M)", 0, 0, NULL },
	{ 0, "layers", PICO_OPT_INT, &want.layers, "N",
	    "blocks", 1, 10000, NULL },
	{ 0, "embd", PICO_OPT_INT, &want.embd, "N",
	    "length of the embedding", 1, 1 << 20, NULL },
	{ 0, "ff", PICO_OPT_INT, &want.ff, "N",
	    "length of the feed-forward layer", 1, 1 << 20, NULL },
	{ 0, "heads", PICO_OPT_INT, &want.heads, "N",
	    "attention heads", 1, 1 << 16, NULL },
	{ 0, "kv-heads", PICO_OPT_INT, &want.kv_heads, "N",
	    "heads of keys and values", 1, 1 << 16, NULL },
	{ 0, "vocab", PICO_OPT_INT, &want.vocab, "N",
	    "tokens", N_SPECIAL + N_BYTES, 1 << 22, NULL },
	{ 0, "ctx", PICO_OPT_INT, &want.ctx, "N",
	    "context", 1, INT32_MAX, NULL },
	{ 0, "experts", PICO_OPT_INT, &experts, "N",
	    "experts a block (none)", 1, 1024, NULL },
	{ 0, "used", PICO_OPT_INT, &used, "N",
	    "experts a token (2)", 1, 1024, NULL },
	{ 0, "folder", PICO_OPT_FLAG, &folder, NULL,
	    "a folder as Hugging Face has them, of F32, F16 or BF16", 0, 0,
	    NULL },
	{ 's', "seed", PICO_OPT_CALL, &seed, "SEED",
	    "another model of the same shape (0)", 0, 0, cmd_seed },
	CMD_OPTIONS
};

/* ---- random numbers: splitmix64 (Steele, Lea, Flood 2014) ---- */

static uint64_t state;

static uint64_t
next_random(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* ---- output ---- */

static FILE *out;
static uint64_t written;
/* Of a huge page: what is written so stays in such pages in memory where file
   systems can (ext4 of Linux 6.18), as what is read from a disk does. */
static char out_buf[2 << 20];

static void
open_out(const char *name)
{
	out = fopen(name, "wb");
	if (out == NULL)
		cmd_fail("cannot write '%s'", name);
	(void)setvbuf(out, out_buf, _IOFBF, sizeof out_buf);
	written = 0;
}

static void
put(const void *p, size_t n)
{
	if (fwrite(p, 1, n, out) != n)
		cmd_fail("write error on '%s'", path);
	written += n;
}

static void
put_u32(uint32_t v)
{
	put(&v, sizeof v);
}

static void
put_u64(uint64_t v)
{
	put(&v, sizeof v);
}

static void
put_str(const char *s)
{
	put_u64(strlen(s));
	put(s, strlen(s));
}

static void
pad(void)
{
	static const char zero[ALIGNMENT];

	put(zero, (ALIGNMENT - written % ALIGNMENT) % ALIGNMENT);
}

static uint64_t n_kv;		/* keys so far */

static void
key(const char *name, uint32_t type)
{
	put_str(name);
	put_u32(type);
	n_kv++;
}

static void
key_u32(const char *name, int64_t v)
{
	key(name, PICO_KV_U32);
	put_u32((uint32_t)v);
}

static void
key_f32(const char *name, float v)
{
	key(name, PICO_KV_F32);
	put(&v, sizeof v);
}

static void
key_str(const char *name, const char *v)
{
	key(name, PICO_KV_STR);
	put_str(v);
}

static void
key_array(const char *name, uint32_t elem, int64_t n)
{
	key(name, PICO_KV_ARR);
	put_u32(elem);
	put_u64((uint64_t)n);
}

/* ---- the vocabulary ---- */

/*
 * Piece k after the special and byte tokens: the sign for a space, the printable
 * characters, then made-up words of ever more syllables, each with and without
 * the sign in front. What a word begins and ends with is in the vocabulary, too,
 * so that merging reaches all of them.
 */
static void
piece(int64_t k, char *buf, size_t size)
{
	static const char consonant[] = "bcdfghjklmnprstvwxyz";
	static const char vowel[] = "aeiou";
	static const char space[] = "\342\226\201";
	char word[40] = "";
	size_t at = sizeof word - 1;
	int64_t n;

	if (k == 0) {
		(void)snprintf(buf, size, "%s", space);
	} else if (k < 95) {
		(void)snprintf(buf, size, "%c", (int)(' ' + k));
	} else {
		/* words are the numbers from 1 in base 100 with digits 1..100 */
		for (n = (k - 95) / 2 + 1; n > 0; n = (n - 1) / 100) {
			word[--at] = vowel[(n - 1) % 5];
			word[--at] = consonant[(n - 1) % 100 / 5];
		}
		(void)snprintf(buf, size, "%s%s", k % 2 == 0 ? space : "",
		    word + at);
	}
}

static void
token(int64_t i, char *text, size_t size)
{
	static const char *const special[N_SPECIAL] = { "<unk>", "<s>",
	    "</s>" };

	if (i < N_SPECIAL)
		(void)snprintf(text, size, "%s", special[i]);
	else if (i < N_SPECIAL + N_BYTES)
		(void)snprintf(text, size, "<0x%02X>",
		    (unsigned)(i - N_SPECIAL));
	else
		piece(i - N_SPECIAL - N_BYTES, text, size);
}

static float
score_of(int64_t i)
{
	return i < N_SPECIAL + N_BYTES ? 0 : -(float)i;
}

static uint32_t
token_type(int64_t i)
{
	return i == 0 ? PICO_TOK_UNKNOWN : i < N_SPECIAL ? PICO_TOK_CONTROL :
	    i < N_SPECIAL + N_BYTES ? PICO_TOK_BYTE : PICO_TOK_NORMAL;
}

static void
put_vocab(int64_t n)
{
	char text[64];
	int64_t i;

	key_str("tokenizer.ggml.model", "llama");
	key_array("tokenizer.ggml.tokens", PICO_KV_STR, n);
	for (i = 0; i < n; i++) {
		token(i, text, sizeof text);
		put_str(text);
	}
	key_array("tokenizer.ggml.scores", PICO_KV_F32, n);
	for (i = 0; i < n; i++) {
		float score = score_of(i);

		put(&score, sizeof score);
	}
	key_array("tokenizer.ggml.token_type", PICO_KV_I32, n);
	for (i = 0; i < n; i++)
		put_u32(token_type(i));
	key_u32("tokenizer.ggml.unknown_token_id", 0);
	key_u32("tokenizer.ggml.bos_token_id", 1);
	key_u32("tokenizer.ggml.eos_token_id", 2);
}

/* ---- which type a matrix gets ---- */

static uint32_t base;	/* type of the matrices but for: */
static bool mixed;	/* a mix of types, as quantizers make it */

static void
read_type(void)
{
	const struct pico_type *t;
	size_t n = strlen(type_name);
	char name[32];

	mixed = n > 2 && strcasecmp(type_name + n - 2, "_M") == 0 &&
	    strcasecmp(type_name, "IQ1_M") != 0;
	(void)snprintf(name, sizeof name, "%.*s", (int)(mixed ? n - 2 : n),
	    type_name);
	t = pico_type_named(name);
	if (t == NULL || (mixed && t->id != TYPE_Q3_K && t->id != TYPE_Q4_K &&
	    t->id != TYPE_Q5_K))
		cmd_usage("option --type: '%s' is not known", type_name);
	if (t->id == TYPE_Q8_1 || t->id == TYPE_Q8_K || (t->block == 1 &&
	    t->id != TYPE_F32 && t->id != TYPE_F16 && t->id != TYPE_BF16))
		cmd_usage("option --type: %s is no type for weights", t->name);
	base = t->id;
}

/* The layers in which some matrices get more bits: the first and last eighth
   and every third between. */
static bool
gets_more(int64_t i, int64_t n)
{
	return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static uint32_t
matrix_type(const char *what, int64_t layer)
{
	bool v = strcmp(what, "attn_v") == 0;
	bool down = strncmp(what, "ffn_down", 8) == 0;
	bool attn_output = strcmp(what, "attn_output") == 0;

	if (!mixed)
		return base;
	if (strcmp(what, "output") == 0)
		return TYPE_Q6_K;
	if (experts == 8 && (v || strcmp(what, "attn_k") == 0))
		return TYPE_Q8_0;
	if (experts == 8 && attn_output)
		return TYPE_Q5_K;
	if (base == TYPE_Q3_K) {
		if (v || down)
			return layer < (v ? 2 : want.layers / 16) ?
			    TYPE_Q5_K : TYPE_Q4_K;
		return attn_output ? TYPE_Q4_K : base;
	}
	return (v || down) && gets_more(layer, want.layers) ? TYPE_Q6_K : base;
}

/* ---- values ---- */

/* n values of F32, F16 or BF16 around the mean. The sum of two random bytes is
   much like a normal distribution; its 511 outcomes are converted once. */
static void
fill_floats(const struct pico_type *t, uint8_t *to, size_t n, float mean,
    float sigma)
{
	const float unit = sigma / 104.51f;	/* sqrt(2 * (256^2 - 1) / 12) */
	uint32_t code[511];
	uint64_t bits = 0;
	size_t i;
	float v;

	for (i = 0; i < COUNT(code); i++) {
		v = mean + unit * ((float)i - 255);
		memcpy(&code[i], &v, sizeof v);
		if (t->id == TYPE_F16)
			code[i] = f32_to_f16(v);
		else if (t->id == TYPE_BF16)
			code[i] >>= 16;
	}
	for (i = 0; i < n; i++, bits >>= 16) {
		if (i % 4 == 0)
			bits = next_random();
		memcpy(to + i * t->bytes,
		    &code[(bits & 255) + (bits >> 8 & 255)], t->bytes);
	}
}

/* To a byte of 4 bits exponent and 3 bits mantissa, no sign; x >= 0. */
static uint8_t
to_e4m3(float x)
{
	int e;
	float m = frexpf(x, &e);	/* x = m * 2^e, 0.5 <= m < 1 */

	if (e + 6 < 1)
		return (uint8_t)lrintf(x * 512);
	return (uint8_t)MIN((e + 6) * 8 + lrintf((2 * m - 1) * 8), 0x7e);
}

/* Gives a block of random bits the scale d. The mean of the values is made 0: by
   the minimum, where the type has one, else by scales of either sign. */
static void
set_scale(uint32_t type, uint8_t *b, float d)
{
	static const struct place {
		uint32_t type;
		uint8_t at, at_min;
		float min;		/* in units of d */
	} places[] = {
		{ TYPE_Q4_1, 0, 2, -7.5f }, { TYPE_Q5_1, 0, 2, -15.5f },
		{ TYPE_Q2_K, 80, 82, 1.5f }, { TYPE_Q4_K, 0, 2, 7.5f },
		{ TYPE_Q5_K, 0, 2, 15.5f }, { TYPE_Q3_K, 108, 0, 0 },
		{ TYPE_Q6_K, 208, 0, 0 }, { TYPE_TQ1_0, 52, 0, 0 },
		{ TYPE_TQ2_0, 64, 0, 0 },
	};
	struct place place = {0};	/* of the types not named */
	uint16_t h = f32_to_f16(d), m;
	size_t i;

	switch (type) {
	case TYPE_MXFP4:	/* a power of two */
		b[0] = (uint8_t)(128 + lrintf(log2f(d)));
		return;
	case TYPE_NVFP4:
		memset(b, to_e4m3(2 * d), 4);
		return;
	case TYPE_IQ1_M:	/* in the top four bits of four words */
		for (i = 0; i < 4; i++)
			b[49 + 2 * i] = (uint8_t)((b[49 + 2 * i] & 15) |
			    (h >> 4 * i & 15) << 4);
		return;
	}
	for (i = 0; i < COUNT(places); i++)
		if (places[i].type == type)
			place = places[i];
	m = f32_to_f16(d * place.min);
	if (place.at_min > 0)
		memcpy(b + place.at_min, &m, sizeof m);
	else if (b[0] > 127)
		h ^= 0x8000;
	memcpy(b + place.at, &h, sizeof h);
}

/* n blocks of random codes with scales around d; writes up to 7 bytes more. */
static void
fill_blocks(const struct pico_type *t, uint8_t *to, size_t n, float d)
{
	size_t i;
	uint8_t *b;

	for (i = 0; i < n * t->bytes; i += 8) {
		uint64_t r = next_random();

		memcpy(to + i, &r, sizeof r);
	}
	for (i = 0; i < n; i++) {
		b = to + i * t->bytes;
		set_scale(t->id, b, d * (0.75f + 0.5f / 128 * (b[0] & 127)));
	}
}

static uint8_t buf[(1 << 20) + 8];

/* The scale that gives values of root mean square 1. */
static float
unit_scale(const struct pico_type *t)
{
	static float known[64];		/* by type */
	struct pico_stats stats;
	size_t n = 1000;

	if (known[t->id] == 0) {
		fill_blocks(t, buf, n, 1);
		(void)pico_stats(t->id, buf, n * t->block, &stats);
		known[t->id] = (float)(1 / stats.rms);
	}
	return known[t->id];
}

/* ---- tensors ---- */

struct tensor {
	char name[64];
	uint32_t type;
	int64_t dims[3];
};

static struct tensor *tensors;
static size_t n_tensors;

static bool
is_bias(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".bias") == 0;
}

/* A name that does not end in ".bias" gets ".weight". */
static void
add(const char *name, uint32_t type, int64_t d0, int64_t d1, int64_t d2)
{
	struct tensor *t = &tensors[n_tensors++];

	(void)snprintf(t->name, sizeof t->name, "%s%s", name,
	    is_bias(name) ? "" : ".weight");
	t->type = type;
	t->dims[0] = d0;
	t->dims[1] = d1;
	t->dims[2] = d2;
	if (d0 % pico_type(type)->block != 0)
		cmd_usage("tensor '%s': rows of %" PRId64 " are no whole "
		    "blocks of %s", t->name, d0, pico_type(type)->name);
}

static void
add_block(int64_t layer)
{
	const struct shape *s = &want;
	int64_t q = s->head * s->heads, kv = s->head * s->kv_heads;
	const struct {
		const char *name;
		int64_t d0, d1, d2;
	} parts[] = {
		{ "attn_norm", s->embd, 1, 1 },
		{ "attn_q", s->embd, q, 1 },
		{ "attn_k", s->embd, kv, 1 },
		{ "attn_v", s->embd, kv, 1 },
		{ "attn_q.bias", q, 1, 1 },
		{ "attn_k.bias", kv, 1, 1 },
		{ "attn_v.bias", kv, 1, 1 },
		{ "attn_output", q, s->embd, 1 },
		{ "ffn_norm", s->embd, 1, 1 },
		{ "ffn_gate_inp", s->embd, experts, 1 },
		{ "ffn_gate", s->embd, s->ff, 1 },
		{ "ffn_up", s->embd, s->ff, 1 },
		{ "ffn_down", s->ff, s->embd, 1 },
	};
	char name[50];
	size_t i;

	for (i = 0; i < COUNT(parts); i++) {
		bool router = strcmp(parts[i].name, "ffn_gate_inp") == 0;
		bool each = experts > 0 && i > 9;

		if ((router && experts == 0) ||
		    (is_bias(parts[i].name) && !s->qkv_bias))
			continue;
		(void)snprintf(name, sizeof name, "blk.%" PRId64 ".%s%s",
		    layer, parts[i].name, each ? "_exps" : "");
		add(name, router || parts[i].d1 == 1 ? TYPE_F32 :
		    matrix_type(parts[i].name, layer), parts[i].d0,
		    parts[i].d1, each ? experts : 1);
	}
}

static uint64_t
tensor_bytes(const struct tensor *t)
{
	const struct pico_type *type = pico_type(t->type);

	return (uint64_t)(t->dims[0] / type->block * t->dims[1] * t->dims[2]) *
	    type->bytes;
}

static void
put_record(const struct tensor *t, uint64_t offset)
{
	uint32_t i, n = t->dims[2] > 1 ? 3 : t->dims[1] > 1 ? 2 : 1;

	put_str(t->name);
	put_u32(n);
	for (i = 0; i < n; i++)
		put_u64((uint64_t)t->dims[i]);
	put_u32(t->type);
	put_u64(offset);
}

/* Rows of n values are of such a size that products keep the size of what they
   are multiplied with; norms are near 1. */
static void
put_data(const struct tensor *t, bool padded)
{
	const struct pico_type *type = pico_type(t->type);
	uint64_t left = tensor_bytes(t) / type->bytes;
	float sigma = 1 / sqrtf((float)t->dims[0]), d = 0;
	bool norm = t->dims[1] == 1, bias = is_bias(t->name);
	size_t n, most = (sizeof buf - 8) / type->bytes;

	if (type->block > 1)
		d = sigma * unit_scale(type);
	for (; left > 0; left -= n) {
		n = MIN(left, most);
		if (type->block > 1)
			fill_blocks(type, buf, n, d);
		else
			fill_floats(type, buf, n, norm && !bias,
			    norm ? 0.1f : sigma);
		put(buf, n * type->bytes);
	}
	if (padded)
		pad();
}

/* ---- the file ---- */

static void
read_shape(void)
{
	const struct shape *s = NULL;
	size_t i;

	for (i = 0; i < COUNT(shapes); i++)
		if (strcmp(shapes[i].name, shape_name) == 0)
			s = &shapes[i];
	if (s == NULL)
		cmd_usage("option --shape: '%s' is not known", shape_name);
#define DEFAULT(field) \
	if (want.field == 0) \
		want.field = s->field
	DEFAULT(layers);
	DEFAULT(embd);
	DEFAULT(ff);
	DEFAULT(heads);
	DEFAULT(kv_heads);
	DEFAULT(vocab);
	DEFAULT(ctx);
#undef DEFAULT
	want.arch = s->arch;
	want.tied = s->tied;
	want.qkv_bias = s->qkv_bias;
	want.head = s->head > 0 ? s->head : want.embd / want.heads;
	if ((s->head == 0 && want.embd % (2 * want.heads) != 0) ||
	    want.heads % want.kv_heads != 0)
		cmd_usage("%" PRId64 " heads of keys do not divide %" PRId64
		    " heads, or those an embedding of %" PRId64
		    " into even parts", want.kv_heads, want.heads, want.embd);
	if (used == 0)
		used = MIN(experts, 2);
	if (used > experts)
		cmd_usage("%" PRId64 " of %" PRId64 " experts", used, experts);
}

/* Under the name of the architecture. */
static const char *
own(const char *suffix)
{
	static char name[100];

	(void)snprintf(name, sizeof name, "%s.%s", want.arch, suffix);
	return name;
}

static void
put_keys(void)
{
	size_t n = strlen(type_name);
	const char *name;
	uint32_t i;

	key_str("general.architecture", want.arch);
	key_str("general.name", "random");
	key_u32("general.quantization_version", 2);
	/* "Q4_K" is what files call Q4_K_S */
	for (i = 0; (name = pico_file_type_name(i)) != NULL; i++)
		if (strncasecmp(name, type_name, n) == 0)
			break;
	if (name != NULL)
		key_u32("general.file_type", i);
	key_u32(own("context_length"), want.ctx);
	key_u32(own("embedding_length"), want.embd);
	key_u32(own("block_count"), want.layers);
	key_u32(own("feed_forward_length"), want.ff);
	key_u32(own("attention.head_count"), want.heads);
	key_u32(own("attention.head_count_kv"), want.kv_heads);
	key_u32(own("attention.key_length"), want.head);
	key_u32(own("attention.value_length"), want.head);
	key_u32(own("rope.dimension_count"), want.head);
	key_f32(own("attention.layer_norm_rms_epsilon"), 1e-5f);
	if (experts > 0) {
		key_u32(own("expert_count"), experts);
		key_u32(own("expert_used_count"), used);
	}
	put_vocab(want.vocab);
}

/* ---- a folder of Hugging Face ---- */

static void
open_in_folder(const char *name)
{
	char full[4096];

	(void)snprintf(full, sizeof full, "%s/%s", path, name);
	open_out(full);
}

static void
close_out(void)
{
	if (fclose(out) != 0)
		cmd_fail("write error on '%s'", path);
}

/* The name that a tensor has there. */
static const char *
name_there(const char *name)
{
	static const char *const names[][2] = {
		{ "token_embd.", "model.embed_tokens." },
		{ "output_norm.", "model.norm." },
		{ "output.", "lm_head." },
		{ "attn_norm.", "input_layernorm." },
		{ "attn_q.", "self_attn.q_proj." },
		{ "attn_k.", "self_attn.k_proj." },
		{ "attn_v.", "self_attn.v_proj." },
		{ "attn_output.", "self_attn.o_proj." },
		{ "ffn_norm.", "post_attention_layernorm." },
		{ "ffn_gate.", "mlp.gate_proj." },
		{ "ffn_up.", "mlp.up_proj." },
		{ "ffn_down.", "mlp.down_proj." },
	};
	static char there[100];
	const char *part = name;
	int layer, n = 0;
	size_t i;

	there[0] = '\0';
	if (sscanf(name, "blk.%d.%n", &layer, &n) == 1 && n > 0) {
		part = name + n;
		n = snprintf(there, sizeof there, "model.layers.%d.", layer);
	}
	for (i = 0; i < COUNT(names); i++)
		if (strncmp(part, names[i][0], strlen(names[i][0])) == 0)
			(void)snprintf(there + n, sizeof there - (size_t)n,
			    "%s%s", names[i][1], part + strlen(names[i][0]));
	return there;
}

static void
put_config(void)
{
	open_in_folder("config.json");
	(void)fprintf(out, "{\n\"architectures\": [\"%s\"],\n",
	    strcmp(want.arch, "qwen2") == 0 ? "Qwen2ForCausalLM" :
	    strcmp(want.arch, "gemma") == 0 ? "GemmaForCausalLM" :
	    "LlamaForCausalLM");
#define NUMBER(name, value) \
	(void)fprintf(out, "\"%s\": %" PRId64 ",\n", name, value)
	NUMBER("max_position_embeddings", want.ctx);
	NUMBER("hidden_size", want.embd);
	NUMBER("num_hidden_layers", want.layers);
	NUMBER("intermediate_size", want.ff);
	NUMBER("num_attention_heads", want.heads);
	NUMBER("num_key_value_heads", want.kv_heads);
	NUMBER("head_dim", want.head);
	NUMBER("vocab_size", want.vocab);
#undef NUMBER
	(void)fprintf(out, "\"tie_word_embeddings\": %s,\n"
	    "\"rms_norm_eps\": 1e-05,\n\"bos_token_id\": 1,\n"
	    "\"eos_token_id\": 2\n}\n", want.tied ? "true" : "false");
	close_out();
}

static void
put_weights(void)
{
	uint64_t at = 0, length = 0;
	const struct tensor *t;
	size_t i;
	int pass;

	open_in_folder("model.safetensors");
	/* the length of the header first: measured, then written */
	for (pass = 0; pass < 2; pass++) {
		char line[300];

		if (pass == 1)
			put_u64(length);
		for (at = 0, i = 0; i < n_tensors; i++) {
			t = &tensors[i];
			(void)snprintf(line, sizeof line, "%c\"%s\":{\"dtype\":"
			    "\"%s\",\"shape\":[%.0" PRId64 "%s%" PRId64 "],"
			    "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}%s",
			    i == 0 ? '{' : ',', name_there(t->name),
			    pico_type(t->type)->name, t->dims[1] > 1 ?
			    t->dims[1] : 0, t->dims[1] > 1 ? "," : "",
			    t->dims[0], at, at + tensor_bytes(t),
			    i + 1 == n_tensors ? "}" : "");
			at += tensor_bytes(t);
			if (pass == 0)
				length += strlen(line);
			else
				put(line, strlen(line));
		}
	}
	for (i = 0; i < n_tensors; i++)
		put_data(&tensors[i], false);
	close_out();
}

/* A SentencePiece model: pieces, then what the trainer and the normalizer are. */
static void
put_pieces(void)
{
	static const char end[] = "\x12\2\x18\2" "\x1a\2\x18\1";
	char text[64], head[4] = "\n", type[2] = "\x18";
	float score;
	int64_t i;

	open_in_folder("tokenizer.model");
	for (i = 0; i < want.vocab; i++) {
		token(i, text, sizeof text);
		score = score_of(i);
		type[1] = (char)token_type(i);
		head[1] = (char)(2 + strlen(text) + 5 + 2);
		head[2] = '\n';
		head[3] = (char)strlen(text);
		put(head, 4);
		put(text, strlen(text));
		put("\x15", 1);
		put(&score, 4);
		put(type, 2);
	}
	put(end, sizeof end - 1);
	close_out();
}

static void
write_folder(void)
{
	size_t i;

	if (pico_type(base)->block > 1 || mixed || experts > 0)
		cmd_usage("a folder has F32, F16 or BF16, and no experts");
	if (mkdir(path, 0777) < 0)
		cmd_fail("cannot make the folder '%s'", path);
	for (i = 0; i < n_tensors; i++)
		tensors[i].type = base;
	put_config();
	put_weights();
	put_pieces();
}

static void
write_file(void)
{
	uint64_t offset = 0, bytes;
	size_t i;

	open_out(path);
	put("GGUF", 4);
	put_u32(3);
	put_u64(n_tensors);
	put_u64(0);		/* keys; told below */
	put_keys();
	for (i = 0; i < n_tensors; i++) {
		put_record(&tensors[i], offset);
		bytes = tensor_bytes(&tensors[i]);
		offset += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	}
	pad();
	for (i = 0; i < n_tensors; i++)
		put_data(&tensors[i], true);
	if (fseek(out, 16, SEEK_SET) != 0)
		cmd_fail("cannot seek in '%s'", path);
	put_u64(n_kv);
	close_out();
}

int
main(int argc, char **argv)
{
	int64_t layer;

	if (cmd_start(&about, options, argc, argv) < argc)
		cmd_usage("the output file is told with -o");
	if (path == NULL)
		cmd_usage("no output: give a file with -o");
	read_shape();
	read_type();
	state = seed;

	tensors = cmd_alloc((size_t)want.layers * 13 + 3, sizeof *tensors);
	add("token_embd", matrix_type(want.tied ? "output" : "token_embd", 0),
	    want.embd, want.vocab, 1);
	for (layer = 0; layer < want.layers; layer++)
		add_block(layer);
	add("output_norm", TYPE_F32, want.embd, 1, 1);
	if (!want.tied)
		add("output", matrix_type("output", 0), want.embd, want.vocab,
		    1);

	if (folder)
		write_folder();
	else
		write_file();
	free(tensors);
	return cmd_finish(0);
}
