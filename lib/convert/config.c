/* SPDX-License-Identifier: MIT */
/* config.json: the sizes of the model and the keys that tell them. */
#include <inttypes.h>
#include <math.h>

#include "convert.h"

#define FILE_NAME "'config.json'"

/* ---- values ---- */

uint32_t
config_get(const struct pico_convert *c, const char *names)
{
	uint32_t node = doc_get(&c->config, c->text_config, names);

	return node != JSON_NONE ? node : doc_get(&c->config, 0, names);
}

/* "a|b" as "a or b". */
static const char *
or_names(const char *names)
{
	static char text[200];
	size_t n = 0;

	for (; *names != '\0' && n + 5 < sizeof text; names++)
		if (*names == '|')
			n += (size_t)snprintf(text + n, 5, " or ");
		else
			text[n++] = *names;
	text[n] = '\0';
	return text;
}

static int
missing(const char *names, struct pico_err *err)
{
	return fail(err, FILE_NAME " has no %s", or_names(names));
}

static int
wrong(const struct pico_convert *c, uint32_t node, const char *wanted,
    struct pico_err *err)
{
	const struct json_node *n = &c->config.json.node[node];

	if (n->kind >= JSON_ARRAY)
		return fail(err, FILE_NAME ": '%s' is %s, should be %s",
		    show_str(n->key), doc_kind(&c->config, node), wanted);
	return fail(err, FILE_NAME ": '%s' is %s%s%s, should be %s",
	    show_str(n->key), n->kind == JSON_STRING ? "the string '" : "",
	    show_str(n->text), n->kind == JSON_STRING ? "'" : "", wanted);
}

int
config_whole(const struct pico_convert *c, const char *names, uint32_t *out,
    struct pico_err *err)
{
	uint32_t node = config_get(c, names);
	uint64_t v;
	int r = doc_whole(&c->config, node, &v);

	if (r < 0 || (r > 0 && v > UINT32_MAX))
		return wrong(c, node, "a whole number", err);
	if (r > 0)
		*out = (uint32_t)v;
	return r;
}

int
config_real(const struct pico_convert *c, const char *names, double *out,
    struct pico_err *err)
{
	uint32_t node = config_get(c, names);
	int r = doc_real(&c->config, node, out);

	return r < 0 ? wrong(c, node, "a number", err) : r;
}

int
config_bool(const struct pico_convert *c, const char *names, bool *out,
    struct pico_err *err)
{
	uint32_t node = config_get(c, names);
	int r = doc_bool(&c->config, node, out);

	return r < 0 ? wrong(c, node, "true or false", err) : r;
}

/* ---- sizes ---- */

static int
set_size(struct pico_convert *c, char letter, uint64_t v, struct pico_err *err)
{
	if (v > INT32_MAX)
		return fail(err, FILE_NAME ": sizes are too large: %" PRIu64,
		    v);
	SIZE(&c->sizes, letter) = (uint32_t)v;
	return 0;
}

/* A size that is at least 1. fallback 0: must be given. */
static int
read_size(struct pico_convert *c, char letter, const char *names,
    uint32_t fallback, struct pico_err *err)
{
	uint32_t v = fallback;
	int r = config_whole(c, names, &v, err);

	if (r < 0)
		return -1;
	if (r == 0 && fallback == 0)
		return missing(names, err);
	if (v == 0)
		return wrong(c, config_get(c, names), "at least 1", err);
	return set_size(c, letter, v, err);
}

static int
read_heads(struct pico_convert *c, struct pico_err *err)
{
	const struct class *k = c->class;
	struct sizes *s = &c->sizes;
	uint32_t n, m, v = k->head;

	if (read_size(c, 'N', "num_attention_heads|n_head", k->heads, err) < 0)
		return -1;
	n = SIZE(s, 'N');
	m = k->kv_heads > 0 ? k->kv_heads : k->traits & ONE_KV ? 1 : n;
	if (read_size(c, 'M', "num_key_value_heads|num_kv_heads|n_head_kv", m,
	    err) < 0)
		return -1;
	m = SIZE(s, 'M');
	if (n % m != 0)
		return fail(err, FILE_NAME ": num_attention_heads is %" PRIu32
		    ", no multiple of num_key_value_heads, %" PRIu32, n, m);
	if (v == 0 && SIZE(s, 'D') % n == 0)
		v = SIZE(s, 'D') / n;
	if (v == 0 && config_get(c, "head_dim") == JSON_NONE)
		return fail(err, FILE_NAME ": hidden_size is %" PRIu32
		    ", no multiple of num_attention_heads, %" PRIu32
		    ", and head_dim is not given", SIZE(s, 'D'), n);
	if (read_size(c, 'H', "head_dim", v, err) < 0)
		return -1;
	v = SIZE(s, 'H');
	if (v % 2 != 0 && !(k->traits & NO_ROPE))
		return fail(err, FILE_NAME ": a head has %" PRIu32 " values, "
		    "no even number", v);
	return set_size(c, 'Q', (uint64_t)n * v, err) < 0 ||
	    set_size(c, 'K', (uint64_t)m * v, err) < 0 ||
	    set_size(c, 'A', (uint64_t)n * v + 2 * (uint64_t)m * v, err) < 0 ?
	    -1 : 0;
}

static int
read_sizes(struct pico_convert *c, struct pico_err *err)
{
	const struct class *k = c->class;
	struct sizes *s = &c->sizes;
	uint32_t multiple = 8;
	int r;

	SIZE(s, 'U') = 1;
	if (read_size(c, 'L', "num_hidden_layers|n_layer", 0, err) < 0 ||
	    read_size(c, 'D', "hidden_size|n_embd|d_model", 0, err) < 0 ||
	    read_size(c, 'V', "vocab_size", 0, err) < 0)
		return -1;
	if (k->context == NULL)
		r = set_size(c, 'C', k->context_fixed, err);
	else
		r = read_size(c, 'C', k->context, k->context_fixed, err);
	if (r < 0)
		return -1;
	if (k->traits & VOCAB_MULTIPLE) {
		if (config_whole(c, "pad_vocab_size_multiple", &multiple,
		    err) < 0)
			return -1;
		multiple = MAX(multiple, 1);
		if (set_size(c, 'V', ((uint64_t)SIZE(s, 'V') + multiple - 1) /
		    multiple * multiple, err) < 0)
			return -1;
	}
	if (k->traits & NO_HEADS)
		return 0;
	if (k->ff != NULL)
		r = read_size(c, 'F', k->ff, 0, err);
	else
		r = set_size(c, 'F', 4 * (uint64_t)SIZE(s, 'D'), err);
	return r < 0 || set_size(c, 'G', 2 * (uint64_t)SIZE(s, 'F'), err) < 0 ?
	    -1 : read_heads(c, err);
}

/* ---- keys ---- */

/* Sizes first, then what tells how they are used. */
static int
write_sizes(struct pico_convert *c, struct pico_err *err)
{
	const struct {
		char size;
		const char *key;
	} keys[] = {
		{ 'L', "@.block_count" }, { 'C', "@.context_length" },
		{ 'D', "@.embedding_length" },
		{ 'F', "@.feed_forward_length" },
		{ 'N', "@.attention.head_count" },
		{ 'H', "@.attention.key_length" },
		{ 'H', "@.attention.value_length" },
		{ 'V', "@.vocab_size" },
	};
	size_t i;

	for (i = 0; i < COUNT(keys); i++)
		if (!((c->class->traits & NO_HEADS) && keys[i].size == 'H') &&
		    meta_whole(&c->meta, keys[i].key,
		    SIZE(&c->sizes, keys[i].size), err) < 0)
			return -1;
	if (!(c->class->traits & NO_HEADS) && (config_get(c,
	    "num_key_value_heads") != JSON_NONE || c->class->kv_heads > 0 ||
	    c->class->traits & (HEADS_FROM_KV | ONE_KV)))
		return meta_whole(&c->meta, "@.attention.head_count_kv",
		    SIZE(&c->sizes, 'M'), err);
	return 0;
}

static int
read_norms(struct pico_convert *c, struct pico_err *err)
{
	double eps = c->class->eps_default;
	int r = config_real(c, c->class->eps, &eps, err);

	if (r < 0)
		return -1;
	if (r == 0 && eps < 0)
		return missing(c->class->eps, err);
	return meta_real(&c->meta, c->class->traits & LAYER_NORM ?
	    "@.attention.layer_norm_epsilon" :
	    "@.attention.layer_norm_rms_epsilon", eps, err);
}

static int
read_window(struct pico_convert *c, struct pico_err *err)
{
	uint32_t v = 0;

	return config_whole(c, "sliding_window", &v, err) < 0 ? -1 :
	    meta_whole(&c->meta, "@.attention.sliding_window", v, err);
}

static int
take_setting(struct pico_convert *c, const struct setting *s,
    struct pico_err *err)
{
	uint32_t node = config_get(c, s->names), whole = (uint32_t)s->value;
	double real = s->value;
	bool truth = s->value != 0;
	char key[64];

	if (node == JSON_NONE && s->must)
		return missing(s->names, err);
	(void)snprintf(key, sizeof key, "@.%s", s->key != NULL ? s->key : "");
	switch (s->kind) {
	case SET_WHOLE:
	case CHECK_WHOLE:
		if (config_whole(c, s->names, &whole, err) < 0)
			return -1;
		if (s->kind == CHECK_WHOLE)
			return whole == s->value ? 0 : fail(err, FILE_NAME
			    ": %s is %" PRIu32 ", only %.0f can be converted",
			    or_names(s->names), whole, s->value);
		if (whole == 0)
			return wrong(c, node, "at least 1", err);
		if (s->size != 0 && set_size(c, s->size, whole, err) < 0)
			return -1;
		return meta_whole(&c->meta, key, whole, err);
	case SET_REAL:
	case SET_SCALE:
		if (config_real(c, s->names, &real, err) < 0)
			return -1;
		return s->kind == SET_SCALE && real == 0 ? 0 :
		    meta_real(&c->meta, key, real, err);
	case SET_BOOL:
	case CHECK_BOOL:
		if (config_bool(c, s->names, &truth, err) < 0)
			return -1;
		if (s->kind == SET_BOOL)
			return meta_bool(&c->meta, key, truth, err);
		return truth == (s->value != 0) ? 0 : fail(err, FILE_NAME
		    ": %s is %s, which cannot be converted",
		    or_names(s->names), truth ? "true" : "false");
	case CHECK_EMPTY:
		return node == JSON_NONE ||
		    (c->config.json.node[node].kind == JSON_ARRAY &&
		    c->config.json.node[node].first == JSON_NONE) ? 0 :
		    wrong(c, node, "an empty list", err);
	case SET_END:
		break;
	}
	return 0;
}

static int
check_activation(struct pico_convert *c, struct pico_err *err)
{
	/* Gemma's configurations have two, of which one is not read */
	uint32_t node = config_get(c, c->class->traits & NORM_PLUS_1 ?
	    "hidden_activation" : "hidden_act|activation_function|activation");
	const char *act = c->class->act;
	struct pico_str name;

	if (node == JSON_NONE)
		return 0;
	if (doc_str(&c->config, node, &name) < 0 || (!str_begins(name, act) &&
	    !(strcmp(act, "silu") == 0 && pico_str_is(name, "swish"))))
		return wrong(c, node, act, err);
	return 0;
}

/* ---- rope ---- */

/* A number of the scaling, or of the top level. */
static int
rope_real(struct pico_convert *c, const char *name, double *out,
    struct pico_err *err)
{
	uint32_t node = doc_get(&c->config, c->rope, name);
	int r = doc_real(&c->config, node, out);

	if (r < 0)
		return wrong(c, node, "a number", err);
	return r > 0 ? r : config_real(c, name, out, err);
}

static int
rope_must(struct pico_convert *c, const char *name, double *out,
    struct pico_err *err)
{
	int r = rope_real(c, name, out, err);

	if (r > 0 && *out <= 0)
		return fail(err, FILE_NAME ": %s of the rope scaling is %g, "
		    "should be more than 0", name, *out);
	return r < 0 ? -1 : r > 0 ? 0 : fail(err, FILE_NAME
	    ": the rope scaling has no %s", name);
}

/* The context before it was extended, as a key; a number may be written 4096.0. */
static int
write_original(struct pico_convert *c, double v, struct pico_err *err)
{
	if (!(v >= 1 && v <= INT32_MAX && v == floor(v)))
		return fail(err, FILE_NAME ": original_max_position_embeddings "
		    "is %g, should be a whole number of 1 to %d", v, INT32_MAX);
	return meta_whole(&c->meta, "@.rope.scaling.original_context_length",
	    (uint64_t)v, err);
}

/* How far each frequency is slowed down; the wave lengths between the two that
   the factors of the original context give are in between. */
static int
scale_llama3(struct pico_convert *c, uint32_t n, struct pico_err *err)
{
	double factor, low, high, wave, t, context = 8192;
	const double pi = 3.14159265358979323846;
	uint32_t p;

	if (rope_must(c, "factor", &factor, err) < 0 ||
	    rope_must(c, "low_freq_factor", &low, err) < 0 ||
	    rope_must(c, "high_freq_factor", &high, err) < 0 ||
	    rope_real(c, "original_max_position_embeddings", &context, err) < 0)
		return -1;
	if (high <= low)
		return fail(err, FILE_NAME ": high_freq_factor of the rope "
		    "scaling is not above low_freq_factor");
	c->rope_freqs = mem_new(n / 2, sizeof(float), "rope_freqs", err);
	if (c->rope_freqs == NULL)
		return -1;
	for (p = 0; p < n / 2; p++) {
		wave = 2 * pi * m_pow(c->rope_base, 2.0 * p / n);
		t = (context / wave - low) / (high - low);
		if (wave < context / high)
			t = 1;
		else if (wave > context / low)
			t = 0;
		c->rope_freqs[p] = (float)(1 / ((1 - t) / factor + t));
	}
	return 0;
}

/* What YaRN (arXiv 2309.00071) has besides: only the usual values, for which
   there are no keys that all programs read. */
static int
check_yarn(struct pico_convert *c, double factor, struct pico_err *err)
{
	const struct {
		const char *name;
		double usual;
	} more[] = {
		{ "beta_fast", 32 }, { "beta_slow", 1 },
		{ "attention_factor", factor > 1 ? 0.1 * m_log(factor) + 1 :
		    1 },
	};
	double v;
	size_t i;

	for (i = 0; i < COUNT(more); i++) {
		v = more[i].usual;
		if (rope_real(c, more[i].name, &v, err) < 0)
			return -1;
		if (fabs(v - more[i].usual) > 1e-4)
			return fail(err, FILE_NAME ": %s of the rope scaling is "
			    "%g, only %g can be converted", more[i].name, v,
			    more[i].usual);
	}
	return 0;
}

static int
scale_linear(struct pico_convert *c, const char *type, struct pico_err *err)
{
	double v;

	if (rope_must(c, "factor", &v, err) < 0 || meta_str(&c->meta,
	    "@.rope.scaling.type", str_of(type), err) < 0 ||
	    meta_real(&c->meta, "@.rope.scaling.factor", v, err) < 0)
		return -1;
	if (strcmp(type, "yarn") != 0)
		return 0;
	return check_yarn(c, v, err) < 0 || rope_must(c,
	    "original_max_position_embeddings", &v, err) < 0 ? -1 :
	    write_original(c, v, err);
}

static int
read_factors(struct pico_convert *c, const char *name, uint32_t n,
    float **out, struct pico_err *err)
{
	uint32_t node = doc_get(&c->config, c->rope, name), i, k = 0;
	double v;

	if (node == JSON_NONE)
		return fail(err, FILE_NAME ": the rope scaling has no %s",
		    name);
	if (c->config.json.node[node].kind != JSON_ARRAY)
		return wrong(c, node, "a list", err);
	*out = mem_new(n, sizeof **out, name, err);
	if (*out == NULL)
		return -1;
	for (i = c->config.json.node[node].first; i != JSON_NONE;
	    i = c->config.json.node[i].next, k++) {
		if (doc_real(&c->config, i, &v) < 0)
			return fail(err, FILE_NAME ": %s has something that "
			    "is no number", name);
		if (k < n)
			(*out)[k] = (float)v;
	}
	return k == n ? 0 : fail(err, FILE_NAME ": %s has %" PRIu32
	    " factors, a head has %" PRIu32 " pairs", name, k, n);
}

static int
scale_long(struct pico_convert *c, uint32_t n, struct pico_err *err)
{
	if (c->class->more != config_phi3 && c->class->more != config_minicpm)
		return fail(err, FILE_NAME ": rope scaling longrope of %s "
		    "cannot be expressed", c->class->arch);
	return read_factors(c, "long_factor", n / 2, &c->rope_long, err) < 0 ||
	    read_factors(c, "short_factor", n / 2, &c->rope_short, err) < 0 ||
	    meta_str(&c->meta, "@.rope.scaling.type", str_of("longrope"),
	    err) < 0 ? -1 : 0;
}

static int
read_scaling(struct pico_convert *c, uint32_t n, struct pico_err *err)
{
	struct pico_str type;
	uint32_t node;

	if (c->rope == JSON_NONE)
		return 0;
	if (c->config.json.node[c->rope].kind != JSON_OBJECT)
		return wrong(c, c->rope, "an object", err);
	node = doc_get(&c->config, c->rope, "rope_type|type");
	if (node == JSON_NONE)
		return 0;
	if (doc_str(&c->config, node, &type) < 0)
		return wrong(c, node, "a string", err);
	if (pico_str_is(type, "default"))
		return 0;
	if (pico_str_is(type, "linear"))
		return scale_linear(c, "linear", err);
	if (pico_str_is(type, "yarn"))
		return scale_linear(c, "yarn", err);
	if (pico_str_is(type, "llama3"))
		return scale_llama3(c, n, err);
	if (pico_str_is(type, "longrope") || pico_str_is(type, "su"))
		return scale_long(c, n, err);
	return fail(err, FILE_NAME ": rope scaling '%s' is not known: default, "
	    "linear, yarn, llama3 and longrope are", show_str(type));
}

/* How much of each head turns. */
static int
read_rotary(struct pico_convert *c, uint32_t *out, struct pico_err *err)
{
	const struct sizes *s = &c->sizes;
	double part = c->class->rotary_default;
	bool whole = c->class->traits & ROTARY_OF_EMBD;
	int r;

	*out = SIZE(s, 'H');
	if (c->class->rotary == NULL)
		return 0;
	r = rope_real(c, c->class->rotary, &part, err);
	if (r < 0)
		return -1;
	if (r == 0 && part == 0)
		return missing(c->class->rotary, err);
	if (!(part > 0 && part <= 1))
		return fail(err, FILE_NAME ": %s is %g, should be more than 0 "
		    "and at most 1", or_names(c->class->rotary), part);
	*out = (uint32_t)(part * SIZE(s, whole ? 'D' : 'H'));
	if (whole)
		*out /= SIZE(s, 'N');
	return *out > 0 && *out <= SIZE(s, 'H') ? 0 : fail(err, FILE_NAME
	    ": %s of %g turns %" PRIu32 " of %" PRIu32 " values of a head",
	    or_names(c->class->rotary), part, *out, SIZE(s, 'H'));
}

/* Frequencies must become lower from pair to pair. */
static int
check_base(double base, struct pico_err *err)
{
	return base > 1 ? 0 : fail(err, FILE_NAME ": rope_theta is %g, should "
	    "be more than 1", base);
}

static int
read_rope(struct pico_convert *c, struct pico_err *err)
{
	uint32_t node;
	int r;

	if (c->class->traits & NO_ROPE)
		return 0;
	c->rope = config_get(c, "rope_parameters|rope_scaling");
	node = doc_get(&c->config, c->rope, "full_attention");
	if (node != JSON_NONE)
		c->rope = node;
	c->rope_base = c->class->base_default;
	r = rope_real(c, "rope_theta|rotary_emb_base", &c->rope_base, err);
	if (r < 0 || read_rotary(c, &c->n_rot, err) < 0 ||
	    meta_whole(&c->meta, "@.rope.dimension_count", c->n_rot,
	    err) < 0)
		return -1;
	if (r > 0 && check_base(c->rope_base, err) < 0)
		return -1;
	if (c->rope_base > 0 && meta_real(&c->meta, "@.rope.freq_base",
	    c->rope_base, err) < 0)
		return -1;
	if (c->rope_base == 0)
		c->rope_base = 10000;
	return read_scaling(c, c->n_rot, err);
}

/* ---- what no table tells ---- */

/* The scale of scores must be that of the head, in models of `wide` layers that
   of the width: no key would tell. */
static int
check_query_scale(struct pico_convert *c, uint32_t wide, struct pico_err *err)
{
	const struct sizes *s = &c->sizes;
	double want = SIZE(s, 'L') == wide ?
	    (double)SIZE(s, 'D') / SIZE(s, 'N') : SIZE(s, 'H'), v = want;

	if (config_real(c, "query_pre_attn_scalar", &v, err) < 0)
		return -1;
	return v == want ? 0 : fail(err, FILE_NAME ": query_pre_attn_scalar is "
	    "%g, only %g can be converted", v, want);
}

int
config_gemma2(struct pico_convert *c, struct pico_err *err)
{
	return check_query_scale(c, 46, err);
}

int
config_gemma3(struct pico_convert *c, struct pico_err *err)
{
	uint32_t pattern = 6, node;
	double base;
	int r;

	if (config_whole(c, "sliding_window_pattern", &pattern, err) < 0 ||
	    check_query_scale(c, 62, err) < 0)
		return -1;
	if (pattern != 6 && pattern != 1)
		return fail(err, FILE_NAME ": sliding_window_pattern is %"
		    PRIu32 ", only 6 and 1 can be converted", pattern);
	if (pattern == 6 && read_window(c, err) < 0)
		return -1;
	node = doc_get(&c->config, doc_get(&c->config, config_get(c,
	    "rope_parameters"), "sliding_attention"), "rope_theta");
	r = node != JSON_NONE ? doc_real(&c->config, node, &base) :
	    config_real(c, "rope_local_base_freq", &base, err);
	if (r < 0)
		return fail(err, FILE_NAME ": rope_theta of sliding_attention "
		    "is no number");
	return r == 0 ? 0 : check_base(base, err) < 0 ? -1 : meta_real(&c->meta,
	    "@.rope.freq_base_swa", base, err);
}

int
config_phi3(struct pico_convert *c, struct pico_err *err)
{
	double context = SIZE(&c->sizes, 'C'), old = context, factor = 1;

	if (rope_real(c, "original_max_position_embeddings", &old, err) < 0 ||
	    write_original(c, old, err) < 0)
		return -1;
	if (c->rope_long == NULL)
		return 0;
	if (context > old && old > 1)
		factor = sqrt(1 + m_log(context / old) / m_log(old));
	return meta_real(&c->meta, "@.rope.scaling.attn_factor", factor, err);
}

int
config_minicpm(struct pico_convert *c, struct pico_err *err)
{
	double embd, depth, base;

	if (config_real(c, "scale_emb", &embd, err) <= 0)
		return missing("scale_emb", err);
	if (config_real(c, "scale_depth", &depth, err) <= 0)
		return missing("scale_depth", err);
	if (config_real(c, "dim_model_base", &base, err) <= 0)
		return missing("dim_model_base", err);
	if (base <= 0)
		return fail(err, FILE_NAME ": dim_model_base is %g", base);
	return meta_real(&c->meta, "@.embedding_scale", embd, err) < 0 ||
	    meta_real(&c->meta, "@.residual_scale", depth /
	    sqrt(SIZE(&c->sizes, 'L')), err) < 0 ||
	    meta_real(&c->meta, "@.logit_scale", SIZE(&c->sizes, 'D') / base,
	    err) < 0 ? -1 : 0;
}

/* Every fourth layer is without rope, which no key tells. */
int
config_smollm3(struct pico_convert *c, struct pico_err *err)
{
	uint32_t node = config_get(c, "no_rope_layers"), i, k = 0;
	uint32_t interval = 4;
	uint64_t v;

	if (config_whole(c, "no_rope_layer_interval", &interval, err) < 0)
		return -1;
	if (node == JSON_NONE)
		return interval == 4 ? 0 : fail(err, FILE_NAME
		    ": no_rope_layer_interval is %" PRIu32 ", only 4 can be "
		    "converted", interval);
	if (c->config.json.node[node].kind != JSON_ARRAY)
		return wrong(c, node, "a list", err);
	for (i = c->config.json.node[node].first; i != JSON_NONE;
	    i = c->config.json.node[i].next, k++)
		if (doc_whole(&c->config, i, &v) < 0 || v != (k % 4 != 3))
			return fail(err, FILE_NAME ": no_rope_layers must be 0 "
			    "for every fourth layer and 1 for the others");
	return 0;
}

int
config_mamba(struct pico_convert *c, struct pico_err *err)
{
	struct sizes *s = &c->sizes;
	struct pico_str type = { "", 0 };
	uint32_t d = SIZE(s, 'D');

	if (read_size(c, 'I', "intermediate_size|d_inner", 2 * d, err) < 0)
		return -1;
	if (SIZE(s, 'I') != 2 * (uint64_t)d)
		return fail(err, FILE_NAME ": intermediate_size is %" PRIu32
		    ", should be twice the hidden_size, %" PRIu32,
		    SIZE(s, 'I'), d);
	if (doc_str(&c->config, config_get(c, "time_step_rank|dt_rank"),
	    &type) > 0 && pico_str_is(type, "auto"))
		SIZE(s, 'T') = (d + 15) / 16;
	else if (read_size(c, 'T', "time_step_rank|dt_rank", (d + 15) / 16,
	    err) < 0)
		return -1;
	(void)doc_str(&c->config, config_get(c, "model_type"), &type);
	return set_size(c, 'J', 2 * (uint64_t)SIZE(s, 'I'), err) < 0 ||
	    set_size(c, 'W', SIZE(s, 'T') + 2 * (uint64_t)SIZE(s, 'P'),
	    err) < 0 ||
	    meta_whole(&c->meta, "@.ssm.inner_size", SIZE(s, 'I'), err) < 0 ||
	    meta_whole(&c->meta, "@.ssm.time_step_rank", SIZE(s, 'T'),
	    err) < 0 ||
	    meta_bool(&c->meta, "@.ssm.dt_b_c_rms",
	    pico_str_is(type, "falcon_mamba"), err) < 0 ? -1 : 0;
}

/* ---- the whole ---- */

static int
find_class(struct pico_convert *c, struct pico_err *err)
{
	uint32_t node = doc_get(&c->config, 0, "architectures");
	struct pico_str name;

	if (node == JSON_NONE || c->config.json.node[node].kind !=
	    JSON_ARRAY || c->config.json.node[node].first == JSON_NONE ||
	    doc_str(&c->config, c->config.json.node[node].first, &name) <= 0)
		return fail(err, FILE_NAME " has no list of architectures");
	c->class = class_find(name);
	if (c->class == NULL)
		return fail(err, FILE_NAME ": architecture '%s' is not known; "
		    "those known are %s", show_str(name), class_names());
	c->text_config = doc_get(&c->config, 0, "text_config");
	return 0;
}

int
config_read(struct pico_convert *c, struct pico_err *err)
{
	const struct setting *s;

	c->text_config = c->rope = JSON_NONE;
	if (find_class(c, err) < 0)
		return -1;
	if (config_get(c, "quantization_config") != JSON_NONE)
		return fail(err, FILE_NAME " has a quantization_config: weights "
		    "that are quantized already cannot be converted");
	c->meta.arch = c->class->arch;
	c->tied = c->class->traits & TIED;
	if (meta_str(&c->meta, "general.architecture", str_of(c->class->arch),
	    err) < 0 || meta_str(&c->meta, "general.type", str_of("model"),
	    err) < 0 || read_sizes(c, err) < 0 || write_sizes(c, err) < 0 ||
	    read_norms(c, err) < 0 || check_activation(c, err) < 0 ||
	    config_bool(c, "tie_word_embeddings", &c->tied, err) < 0 ||
	    read_rope(c, err) < 0)
		return -1;
	if ((c->class->traits & WINDOW) && read_window(c, err) < 0)
		return -1;
	for (s = c->class->settings; s->kind != SET_END; s++)
		if (take_setting(c, s, err) < 0)
			return -1;
	if (SIZE(&c->sizes, 'B') > SIZE(&c->sizes, 'E'))
		return fail(err, FILE_NAME ": num_experts_per_tok is %" PRIu32
		    ", there are %" PRIu32 " experts", SIZE(&c->sizes, 'B'),
		    SIZE(&c->sizes, 'E'));
	if (set_size(c, 'Y', 2 * (uint64_t)SIZE(&c->sizes, 'X'), err) < 0)
		return -1;
	return c->class->more == NULL ? 0 : c->class->more(c, err);
}
