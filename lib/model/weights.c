/* SPDX-License-Identifier: MIT */
/*
 * Weights: tensors by name, every shape checked against the hyperparameters.
 * Matrices stay where they are in the file; vectors (norms, biases) are small
 * and become float32 once. A tensor that nobody asked for is refused: it would
 * mean something.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* State of the search: which tensors were used. */
struct finder {
	struct pico_model *m;
	bool *used;
	struct pico_err *err;
	char name[80];
};

static const char *
layer_name(struct finder *f, uint32_t layer, const char *what)
{
	(void)snprintf(f->name, sizeof f->name, "blk.%" PRIu32 ".%s", layer,
	    what);
	return f->name;
}

/* NULL if there is none. Marks it as used. */
static const struct pico_tensor *
take(struct finder *f, const char *name)
{
	const struct pico_tensor *t = pico_gguf_find_tensor(f->m->gguf, name);

	if (t != NULL)
		f->used[t - pico_gguf_tensor(f->m->gguf, 0)] = true;
	return t;
}

static int
missing(struct finder *f, const char *name)
{
	return fail(f->err, "tensor '%s' is missing", name);
}

/* "32x64"; trailing ones are left out. */
static const char *
shape(char *buf, size_t size, const uint64_t d[4])
{
	size_t n, len = 0, i;

	for (n = 4; n > 1 && d[n - 1] == 1; n--)
		;
	for (i = 0; i < n; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%" PRIu64,
		    i > 0 ? "x" : "", d[i]);
	return buf;
}

static int
check_shape(struct finder *f, const struct pico_tensor *t, uint64_t d0,
    uint64_t d1, uint64_t d2)
{
	const uint64_t want[4] = { d0, d1, d2, 1 };
	char has[100], needs[100];

	if (memcmp(t->dims, want, sizeof want) == 0)
		return 0;
	return fail(f->err, "tensor '%s' has shape %s, needs %s",
	    show_str(t->name), shape(has, sizeof has, t->dims),
	    shape(needs, sizeof needs, want));
}

/* n floats of a tensor {n}; 1 found, 0 missing (only if optional), -1. */
static int
vector(struct finder *f, const char *name, uint32_t n, bool optional,
    float **out)
{
	struct pico_model *m = f->m;
	const struct pico_tensor *t = take(f, name);
	float *v;

	*out = NULL;
	if (t == NULL)
		return optional ? 0 : missing(f, name);
	if (check_shape(f, t, n, 1, 1) < 0)
		return -1;
	v = mem_new(n, sizeof *v, name, f->err);
	if (v == NULL)
		return -1;
	if (mem_grow(&m->vectors, &m->cap_vectors, m->n_vectors + 1,
	    sizeof *m->vectors, "vectors", f->err) < 0) {
		free(v);
		return -1;
	}
	m->vectors[m->n_vectors++] = v;
	m->vector_bytes += t->bytes;
	if (t->data == NULL)
		m->no_data = true;
	else if (pico_dequantize(t->type, t->data, v, n) < 0)
		return fail(f->err, "tensor '%s' has type %s, which holds no "
		    "numbers for a model", name, pico_type(t->type)->name);
	m->weight_bytes += t->bytes;
	m->step_bytes += t->bytes;
	*out = v;
	return 1;
}

/* Rows lo.. of a stored matrix (all its rows if it is not a fused one). */
static int
view(struct finder *f, const struct pico_tensor *t, uint64_t row, uint32_t n_in,
    uint32_t n_out, struct weight *w)
{
	const struct pico_type *type = pico_type(t->type);
	struct pico_model *m = f->m;

	if (type->name[0] == 'I' && type->block == 1)	/* I8 to I64 */
		return fail(f->err, "tensor '%s' has type %s, which is not "
		    "one for weights", show_str(t->name), type->name);
	w->type = t->type;
	w->n_in = n_in;
	w->n_out = n_out;
	w->row_bytes = (size_t)(n_in / type->block) * type->bytes;
	if (t->data != NULL)
		w->data = t->data + row * w->row_bytes;
	w->shard = t->shard;
	w->offset = pico_gguf_info(m->gguf, t->shard).data_offset +
	    t->offset + row * w->row_bytes;
	if (mem_grow(&m->weights, &m->cap_weights, m->n_weights + 1,
	    sizeof *m->weights, "weights", f->err) < 0)
		return -1;
	w->step = weight_bytes(w);
	w->number = (uint32_t)m->n_weights;
	m->weights[m->n_weights++] = w;
	return 0;
}

/* A matrix {n_in, n_out}; 1 found, 0 missing (only if optional), -1. */
static int
matrix(struct finder *f, const char *name, uint32_t n_in, uint32_t n_out,
    bool optional, struct weight *w)
{
	const struct pico_tensor *t = take(f, name);

	if (t == NULL)
		return optional ? 0 : missing(f, name);
	if (check_shape(f, t, n_in, n_out, 1) < 0 ||
	    view(f, t, 0, n_in, n_out, w) < 0)
		return -1;
	f->m->weight_bytes += t->bytes;
	f->m->step_bytes += t->bytes;
	return 1;
}

/* "attn_q" of a layer: weight, and bias if there is one. */
static int
layer_matrix(struct finder *f, uint32_t layer, const char *what,
    uint32_t n_in, uint32_t n_out, bool optional, struct weight *w)
{
	char name[40];
	float *bias;
	int got;

	(void)snprintf(name, sizeof name, "%s.weight", what);
	got = matrix(f, layer_name(f, layer, name), n_in, n_out, optional, w);
	if (got <= 0)
		return got;
	(void)snprintf(name, sizeof name, "%s.bias", what);
	if (vector(f, layer_name(f, layer, name), n_out, true, &bias) < 0)
		return -1;
	w->bias = bias;
	return 1;
}

/*
 * Query, key and value: three matrices, or one with the rows of all three
 * (some converters fuse them); biases likewise, or three beside a fused weight.
 */
static int
find_qkv(struct finder *f, uint32_t il, struct layer *l)
{
	const struct hparams *h = &f->m->h;
	static const char *const part[3] = { "attn_q", "attn_k", "attn_v" };
	struct weight *w[3] = { &l->wq, &l->wk, &l->wv };
	uint32_t n_out[3] = {
		h->n_head[il] * h->head_k, h->n_head_kv[il] * h->head_k,
		h->n_head_kv[il] * h->head_v
	};
	uint32_t total = n_out[0] + n_out[1] + n_out[2], row = 0;
	const struct pico_tensor *t;
	float *bias = NULL;
	char name[40];
	int i;

	t = take(f, layer_name(f, il, "attn_qkv.weight"));
	if (t == NULL) {
		for (i = 0; i < 3; i++)
			if (layer_matrix(f, il, part[i], h->n_embd, n_out[i],
			    false, w[i]) < 0)
				return -1;
		return 0;
	}
	if (check_shape(f, t, h->n_embd, total, 1) < 0 ||
	    vector(f, layer_name(f, il, "attn_qkv.bias"), total, true,
	    &bias) < 0)
		return -1;
	f->m->weight_bytes += t->bytes;
	f->m->step_bytes += t->bytes;
	for (i = 0; i < 3; i++) {
		float *own;

		if (view(f, t, row, h->n_embd, n_out[i], w[i]) < 0)
			return -1;
		w[i]->bias = bias != NULL ? bias + row : NULL;
		(void)snprintf(name, sizeof name, "%s.bias", part[i]);
		if (vector(f, layer_name(f, il, name), n_out[i], true,
		    &own) < 0)
			return -1;
		if (own != NULL)
			w[i]->bias = own;
		row += n_out[i];
	}
	return 0;
}

/*
 * One matrix of all experts: stacked {n_in, n_out, n_expert}, as rows row.. of
 * a taller stack, or (old Mixtral files) one tensor an expert.
 */
static int
find_experts(struct finder *f, uint32_t il, const char *what, uint32_t n_in,
    uint32_t n_out, struct weight **out)
{
	const struct hparams *h = &f->m->h;
	const struct pico_tensor *t;
	struct weight *w;
	char name[60];
	uint64_t row = 0, rows = n_out;
	uint32_t e;

	w = mem_new(h->n_expert, sizeof *w, "experts", f->err);
	if (w == NULL)
		return -1;
	*out = w;
	(void)snprintf(name, sizeof name, "ffn_%s_exps.weight", what);
	t = take(f, layer_name(f, il, name));
	if (t == NULL && strcmp(what, "down") != 0) {
		t = take(f, layer_name(f, il, "ffn_gate_up_exps.weight"));
		rows = 2 * (uint64_t)n_out;
		row = strcmp(what, "up") == 0 ? n_out : 0;
	}
	if (t == NULL) {
		for (e = 0; e < h->n_expert; e++) {
			(void)snprintf(name, sizeof name, "ffn_%s.%" PRIu32
			    ".weight", what, e);
			t = take(f, layer_name(f, il, name));
			if (t == NULL) {
				(void)snprintf(name, sizeof name,
				    "ffn_%s_exps.weight", what);
				return missing(f, layer_name(f, il, name));
			}
			if (check_shape(f, t, n_in, n_out, 1) < 0 ||
			    view(f, t, 0, n_in, n_out, &w[e]) < 0)
				return -1;
			f->m->weight_bytes += t->bytes;
		}
	} else {
		if (check_shape(f, t, n_in, rows, h->n_expert) < 0)
			return -1;
		for (e = 0; e < h->n_expert; e++)
			if (view(f, t, e * rows + row, n_in, n_out, &w[e]) < 0)
				return -1;
		f->m->weight_bytes += (uint64_t)h->n_expert * n_out *
		    w->row_bytes;
	}
	for (e = 0; e < h->n_expert; e++)
		w[e].step = weight_bytes(&w[e]) * h->n_expert_used /
		    h->n_expert;
	f->m->step_bytes += (uint64_t)h->n_expert_used * n_out * w->row_bytes;
	return 0;
}

static int
find_ffn(struct finder *f, uint32_t il, struct layer *l)
{
	const struct hparams *h = &f->m->h;
	uint32_t d = h->n_embd, ff = h->n_ff[il];

	if (vector(f, layer_name(f, il, "ffn_norm.weight"), d, false,
	    &l->ffn_norm) < 0)
		return -1;
	if (h->n_expert == 0)
		return layer_matrix(f, il, "ffn_gate", d, ff, false,
		    &l->gate) < 0 || layer_matrix(f, il, "ffn_up", d, ff,
		    false, &l->up) < 0 || layer_matrix(f, il, "ffn_down", ff,
		    d, false, &l->down) < 0 ? -1 : 0;
	return matrix(f, layer_name(f, il, "ffn_gate_inp.weight"), d,
	    h->n_expert, false, &l->router) < 0 ||
	    find_experts(f, il, "gate", d, ff, &l->gate_e) < 0 ||
	    find_experts(f, il, "up", d, ff, &l->up_e) < 0 ||
	    find_experts(f, il, "down", ff, d, &l->down_e) < 0 ? -1 : 0;
}

static int
find_layer(struct finder *f, uint32_t il, struct layer *l)
{
	const struct hparams *h = &f->m->h;

	if (vector(f, layer_name(f, il, "attn_norm.weight"), h->n_embd, false,
	    &l->attn_norm) < 0 || find_qkv(f, il, l) < 0)
		return -1;
	if (layer_matrix(f, il, "attn_output", h->n_head[il] * h->head_v,
	    h->n_embd, false, &l->wo) < 0)
		return -1;
	return find_ffn(f, il, l);
}

static int
find_globals(struct finder *f)
{
	struct pico_model *m = f->m;
	const struct hparams *h = &m->h;
	const struct pico_tensor *t = take(f, "token_embd.weight");
	uint32_t i;
	int got;

	if (t == NULL)
		return missing(f, "token_embd.weight");
	if (t->dims[0] == h->n_embd && t->dims[1] != h->n_vocab)
		return fail(f->err, "tensor 'token_embd.weight' has %" PRIu64
		    " rows for %" PRIu32 " tokens", t->dims[1], h->n_vocab);
	if (check_shape(f, t, h->n_embd, h->n_vocab, 1) < 0 ||
	    view(f, t, 0, h->n_embd, h->n_vocab, &m->embd) < 0)
		return -1;
	m->weight_bytes += t->bytes;
	got = matrix(f, "output.weight", h->n_embd, h->n_vocab, true,
	    &m->output);
	if (got < 0 || vector(f, "output_norm.weight", h->n_embd, false,
	    &m->output_norm) < 0)
		return -1;
	if (got == 0) {
		m->output = m->embd;
		m->step_bytes += t->bytes;
	} else {
		m->embd.step = m->embd.row_bytes;
		m->step_bytes += m->embd.step;
	}
	if (vector(f, "rope_freqs.weight", h->n_rot / 2, true,
	    &m->rope_factors) < 0)
		return -1;
	for (i = 0; m->rope_factors != NULL && !m->no_data &&
	    i < h->n_rot / 2; i++)
		if (!(m->rope_factors[i] > 0) || !isfinite(m->rope_factors[i]))
			return fail(f->err, "tensor 'rope_freqs.weight' holds "
			    "%g at %" PRIu32, (double)m->rope_factors[i], i);
	return 0;
}

/* Tables that old converters wrote and that everybody computes anew. */
static bool
is_leftover(struct pico_str name)
{
	static const char *const end[] = {
		"rotary_emb.inv_freq", "attn_rot_embd", "attn_rot_embd.weight"
	};
	size_t i, n;

	for (i = 0; i < COUNT(end); i++) {
		n = strlen(end[i]);
		if (name.n >= n && memcmp(name.p + name.n - n, end[i], n) == 0)
			return true;
	}
	return false;
}

int
weights_find(struct pico_model *m, struct pico_err *err)
{
	size_t i, n = pico_gguf_n_tensors(m->gguf);
	struct finder f = { .m = m, .err = err };
	const struct pico_tensor *t;
	uint32_t il;
	int r = -1;

	f.used = mem_new(n, sizeof *f.used, "tensor marks", err);
	m->layers = mem_new(m->h.n_layer, sizeof *m->layers, "layers", err);
	m->first = mem_new((uint64_t)m->h.n_layer + 1, sizeof *m->first,
	    "layers", err);
	if (f.used == NULL || m->layers == NULL || m->first == NULL)
		goto out;
	/* the vectors lie among much that may never be read */
	resident_advise(m, READ_SINGLY);
	if (find_globals(&f) < 0)
		goto out;
	for (il = 0; il < m->h.n_layer; il++) {
		m->first[il] = m->n_weights;
		if (find_layer(&f, il, &m->layers[il]) < 0)
			goto out;
	}
	m->first[il] = m->n_weights;
	for (i = 0; i < n; i++) {
		t = pico_gguf_tensor(m->gguf, i);
		if (!f.used[i] && !is_leftover(t->name)) {
			(void)fail(err, "tensor '%s' has no place in "
			    "architecture '%s' as it is implemented here",
			    show_str(t->name), m->h.arch->name);
			goto out;
		}
	}
	r = 0;
out:
	free(f.used);
	return r;
}

struct pico_model *
pico_model_open(const struct pico_gguf *g, struct pico_err *err)
{
	struct pico_model *m = mem_new(1, sizeof *m, "model", err);

	if (m == NULL)
		return NULL;
	m->gguf = g;
	if (hparams_read(&m->h, g, err) < 0 || weights_find(m, err) < 0) {
		pico_model_close(m);
		return NULL;
	}
	return m;
}

void
pico_model_close(struct pico_model *m)
{
	size_t i;

	if (m == NULL)
		return;
	for (i = 0; m->layers != NULL && i < m->h.n_layer; i++) {
		free(m->layers[i].gate_e);
		free(m->layers[i].up_e);
		free(m->layers[i].down_e);
	}
	for (i = 0; i < m->n_vectors; i++)
		free(m->vectors[i]);
	free(m->vectors);
	free(m->weights);
	free(m->first);
	free(m->layers);
	hparams_free(&m->h);
	free(m);
}

struct pico_model_info
pico_model_info(const struct pico_model *m)
{
	const struct hparams *h = &m->h;

	return (struct pico_model_info){
		.arch = h->arch->name, .n_vocab = h->n_vocab,
		.n_embd = h->n_embd, .n_layer = h->n_layer,
		.n_head = h->n_head[0], .n_ctx_train = h->n_ctx_train,
		.n_expert = h->n_expert, .weight_bytes = m->weight_bytes,
		.step_bytes = m->step_bytes,
		.note = h->window_ignored ? "attention.sliding_window is "
		    "ignored, as by all engines for this architecture" : NULL,
	};
}
