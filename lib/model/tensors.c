/* SPDX-License-Identifier: MIT */
/*
 * Tensors by name, every shape checked. Matrices stay where they are in the
 * file; vectors (norms, biases) are small and become float32 once.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* "blk.0.attn_q.weight" */
static const char *
full_name(struct finder *f, const char *what, const char *suffix)
{
	const char *dot = suffix != NULL ? "." : "";

	if (suffix == NULL)
		suffix = "";
	if (f->global)
		(void)snprintf(f->name, sizeof f->name, "%s%s%s", what, dot,
		    suffix);
	else
		(void)snprintf(f->name, sizeof f->name, "blk.%" PRIu32
		    ".%s%s%s", f->layer, what, dot, suffix);
	return f->name;
}

/* NULL if there is none. Marks it as used. */
static const struct pico_tensor *
take(struct finder *f, const char *what, const char *suffix)
{
	const struct pico_tensor *t = pico_gguf_find_tensor(f->m->gguf,
	    full_name(f, what, suffix));

	if (t != NULL)
		f->used[t - pico_gguf_tensor(f->m->gguf, 0)] = true;
	return t;
}

void
find_ignored(struct finder *f, const char *what, const char *suffix)
{
	(void)take(f, what, suffix);
}

int
find_missing(struct finder *f, const char *what, const char *suffix)
{
	return fail(f->err, "tensor '%s' is missing",
	    full_name(f, what, suffix));
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
check_shape(struct finder *f, const struct pico_tensor *t, struct dims dims)
{
	char has[100], needs[100];
	uint64_t d[4];
	int i;

	for (i = 0; i < 4; i++)
		d[i] = MAX(dims.d[i], 1);
	if (memcmp(t->dims, d, sizeof d) == 0)
		return 0;
	return fail(f->err, "tensor '%s' has shape %s, needs %s",
	    show_str(t->name), shape(has, sizeof has, t->dims),
	    shape(needs, sizeof needs, d));
}

/* The tensor's bytes are weights of the model; a token needs `step` of them. */
static void
count(struct finder *f, uint64_t bytes, uint64_t step)
{
	f->m->weight_bytes += bytes;
	f->m->step_bytes += step;
}

/* Integers are not weights, though they are numbers. */
static int
check_type(struct finder *f, const struct pico_tensor *t)
{
	const struct pico_type *type = pico_type(t->type);

	if (type->name[0] != 'I' || type->block != 1)	/* I8 to I64 */
		return 0;
	return fail(f->err, "tensor '%s' has type %s, which is not one for "
	    "weights", show_str(t->name), type->name);
}

int
find_vector(struct finder *f, const char *what, const char *suffix,
    struct dims dims, enum need need, const float **out)
{
	struct pico_model *m = f->m;
	const struct pico_tensor *t;
	uint64_t n = 1;
	float *v;
	int i;

	*out = NULL;
	t = need == NEVER ? NULL : take(f, what, suffix);
	if (t == NULL)
		return need == MUST ? find_missing(f, what, suffix) : 0;
	if (check_shape(f, t, dims) < 0 || check_type(f, t) < 0)
		return -1;
	for (i = 0; i < 4; i++)
		n *= t->dims[i];
	v = mem_new(n, sizeof *v, f->name, f->err);
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
		    "numbers for a model", show_str(t->name),
		    pico_type(t->type)->name);
	count(f, t->bytes, t->bytes);
	*out = v;
	return 1;
}

/* n_out rows of a stored matrix from `row` on. */
static int
view(struct finder *f, const struct pico_tensor *t, uint64_t row, uint32_t n_in,
    uint32_t n_out, struct weight *w)
{
	const struct pico_type *type = pico_type(t->type);
	struct pico_model *m = f->m;

	if (check_type(f, t) < 0)
		return -1;
	w->type = t->type;
	w->n_in = n_in;
	w->n_out = n_out;
	w->n_group = 1;
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

int
find_matrix(struct finder *f, const char *what, uint32_t n_in, uint32_t n_out,
    enum need need, struct weight *w)
{
	return find_grouped(f, what, n_in, n_out, 1, need, w);
}

int
find_grouped(struct finder *f, const char *what, uint32_t n_in,
    uint32_t n_out, uint32_t n, enum need need, struct weight *w)
{
	const struct pico_tensor *t;

	t = need == NEVER ? NULL : take(f, what, "weight");
	if (t == NULL)
		return need == MUST ? find_missing(f, what, "weight") : 0;
	if (check_shape(f, t, DIMS(n_in, n_out, n)) < 0 ||
	    view(f, t, 0, n_in, n_out * n, w) < 0)
		return -1;
	w->n_group = n;
	count(f, t->bytes, t->bytes);
	return 1;
}

int
find_linear(struct finder *f, const char *what, uint32_t n_in, uint32_t n_out,
    enum need bias, struct weight *w)
{
	return find_matrix(f, what, n_in, n_out, MUST, w) < 0 ||
	    find_vector(f, what, "bias", DIMS(n_out), bias, &w->bias) < 0 ?
	    -1 : 1;
}

int
find_fused(struct finder *f, const char *what, uint32_t n_in,
    const uint32_t *n_out, struct weight *const *w, size_t n)
{
	const struct pico_tensor *t = take(f, what, "weight");
	uint32_t row = 0, total = 0;
	size_t i;

	if (t == NULL)
		return 0;
	for (i = 0; i < n; i++)
		total += n_out[i];
	if (check_shape(f, t, DIMS(n_in, total)) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		if (view(f, t, row, n_in, n_out[i], w[i]) < 0)
			return -1;
		row += n_out[i];
	}
	count(f, t->bytes, t->bytes);
	return 1;
}

int
find_stack(struct finder *f, const char *what, uint32_t n_in, uint32_t n_out,
    uint32_t rows, uint32_t row, struct ffn *experts, size_t member)
{
	const struct hparams *h = &f->m->h;
	const struct pico_tensor *t;
	struct weight *w;
	char name[60];
	uint32_t e;

	(void)snprintf(name, sizeof name, "%s_exps", what);
	t = take(f, name, "weight");
	if (t != NULL && check_shape(f, t, DIMS(n_in, rows, h->n_expert)) < 0)
		return -1;
	for (e = 0; e < h->n_expert; e++) {
		w = expert_weight(experts, e, member);
		if (t != NULL) {
			if (view(f, t, (uint64_t)e * rows + row, n_in, n_out,
			    w) < 0)
				return -1;
		} else {
			const struct pico_tensor *one;

			(void)snprintf(name, sizeof name, "%s.%" PRIu32, what,
			    e);
			one = take(f, name, "weight");
			if (one == NULL && e == 0)
				return 0;
			if (one == NULL)
				return find_missing(f, name, "weight");
			if (check_shape(f, one, DIMS(n_in, n_out)) < 0 ||
			    view(f, one, 0, n_in, n_out, w) < 0)
				return -1;
		}
		w->step = weight_bytes(w) * h->n_expert_used / h->n_expert;
	}
	w = expert_weight(experts, 0, member);
	count(f, h->n_expert * weight_bytes(w),
	    h->n_expert_used * weight_bytes(w));
	return 1;
}
