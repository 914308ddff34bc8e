/* SPDX-License-Identifier: MIT */
/*
 * The tensors of the file to be and where each comes from: goes through the
 * names an architecture must have, checks that they are there in the shape that
 * config.json asks for, and that the folder has no others.
 */
#include <inttypes.h>

#include "convert.h"

/* ---- names in the folder ---- */

/* What is in the folder and is no weight of this model. */
static bool
is_dropped(const struct pico_convert *c, struct pico_str name)
{
	static const char *const ends[] = {
		".rotary_emb.inv_freq", ".attention.bias",
		".attention.masked_bias", ".attn.bias", ".attn.masked_bias",
	};
	size_t i;

	/* GPT-2 alone has names that end in these two */
	for (i = 0; i < (strcmp(c->class->arch, "gpt2") == 0 ? 5u : 3u); i++)
		if (str_ends(name, ends[i]))
			return true;
	return (c->class->traits & DROP_OUTPUT) &&
	    pico_str_is(name, "lm_head.weight");
}

static struct pico_str
without(struct pico_str name, const char *start)
{
	return str_begins(name, start) ? (struct pico_str){
	    name.p + strlen(start), name.n - strlen(start) } : name;
}

/* Models wrapped in others have longer names. */
static int
unwrap(struct pico_convert *c, struct pico_err *err)
{
	bool parts = strcmp(c->class->name,
	    "Gemma3ForConditionalGeneration") == 0;
	static const char inner[] = "model.language_model.";
	struct st_tensor *t;
	struct pico_str s;
	size_t i;

	for (i = 0; i < c->weights.n; i++) {
		t = &c->weights.tensor[i];
		if (strcmp(c->class->arch, "gpt2") == 0)
			t->name = without(t->name, "transformer.");
		t->used = is_dropped(c, t->name);
		if (!parts)
			continue;
		s = without(t->name, "model.");
		t->used |= str_begins(s, "vision_tower.") ||
		    str_begins(s, "multi_modal_projector.");
		t->name = without(t->name, "language_model.");
		if (!str_begins(t->name, inner))
			continue;
		s = without(t->name, inner);
		t->name = arena_join(&c->words.arena, str_of("model."), s, err);
		if (t->name.p == NULL)
			return -1;
	}
	return st_sort(&c->weights, err);
}

struct place {
	struct pico_convert *c;
	const struct name_row *row;
	bool layered;
	uint32_t layer;
	const char *suffix;	/* ".weight", ".bias" or "" */
};

/* A name in the folder: alternative `from` of n bytes, with `number` for '#'. */
static int
write_name(const struct place *p, const char *from, size_t n, uint32_t number,
    char *out, size_t size)
{
	char layer[64] = "";
	size_t hash = strcspn(from, "#");

	if (p->layered)
		(void)snprintf(layer, sizeof layer, "%s%" PRIu32 ".",
		    p->c->class->prefix, p->layer);
	if (hash >= n)
		return snprintf(out, size, "%s%.*s%s", layer, (int)n, from,
		    p->suffix);
	return snprintf(out, size, "%s%.*s%" PRIu32 "%.*s%s", layer, (int)hash,
	    from, number, (int)(n - hash - 1), from + hash + 1, p->suffix);
}

/* Finds the source; `name` gets the name it has or should have. */
static struct st_tensor *
find_source(const struct place *p, uint32_t number, char *name, size_t size)
{
	const char *from = p->row->from;
	struct st_tensor *t;
	size_t n;
	int len;

	for (;; from += n + 1) {
		n = strcspn(from, "|");
		len = write_name(p, from, n, number, name, size);
		t = st_find(&p->c->weights,
		    (struct pico_str){ name, (size_t)len });
		if (t != NULL || from[n] == '\0')
			return t;
	}
}

/* ---- shapes ---- */

static const char *
show_shape(const uint64_t *dims, uint32_t n)
{
	static char text[2][100];
	static int turn;
	char *s = text[turn ^= 1];
	size_t at = 0;
	uint32_t i;

	s[0] = '\0';
	for (i = 0; i < n && at < sizeof text[0]; i++)
		at += (size_t)snprintf(s + at, sizeof text[0] - at, "%s%" PRIu64,
		    i > 0 ? "x" : "", dims[i]);
	return s;
}

/* The shape by the sizes, which is also that of the row or else told. */
static int
check_shape(const struct pico_convert *c, const struct st_tensor *t,
    const char *name, const char *shape, struct pico_err *err)
{
	uint64_t want[ST_DIMS];
	uint32_t n = (uint32_t)strlen(shape), i;
	bool same = t->n_dims == n;

	for (i = 0; i < n; i++) {
		want[i] = SIZE(&c->sizes, shape[i]);
		same = same && t->dims[i] == want[i];
	}
	if (!same)
		return fail(err, "tensor '%s' has the shape %s, by config.json "
		    "it should be %s%s", show(name, strlen(name)),
		    show_shape(t->dims, t->n_dims), show_shape(want, n),
		    shape[0] == 'V' ? " (vocab_size is the first)" : "");
	if (t->type == UINT32_MAX)
		return fail(err, "tensor '%s' has dtype %s, which is none for "
		    "weights", show(name, strlen(name)), show_str(t->dtype));
	return 0;
}

/* The first that is missing is noted: what there is instead is found later. */
static void
missing(struct place *p, const char *name)
{
	struct pico_err *lost = &p->c->plan.lost;

	if (*lost->msg == '\0')
		(void)fail(lost, "tensor '%s' is missing (%s of a %s with %"
		    PRIu32 " layers)", show(name, strlen(name)), p->row->to,
		    p->c->class->name, SIZE(&p->c->sizes, 'L'));
}

/* ---- the tensors ---- */

/* The type of a tensor of the file, by its name and what was asked for. */
static uint32_t
type_of(const struct pico_convert *c, const struct out_tensor *t,
    uint32_t stored)
{
	static const char *const f32[] = {
		"_norm.weight", "ffn_gate_inp.weight",
		"ffn_gate_inp_shexp.weight", "position_embd.weight",
		"ssm_conv1d.weight",
	};
	struct pico_str name = str_of(t->name);
	size_t i;

	if (t->n_dims < 2 || !str_ends(name, ".weight"))
		return TYPE_F32;
	for (i = 0; i < COUNT(f32); i++)
		if (str_ends(name, f32[i]))
			return TYPE_F32;
	return convert_type(c, t, stored);
}

/* Dimensions of GGUF: the innermost first, without those of 1 behind and
   without what is always 1 ('U' in the shape). */
static void
set_dims(struct out_tensor *t, const uint64_t *dims, uint32_t n,
    const char *shape)
{
	uint32_t i;

	for (i = n; i-- > 0;)
		if (shape[i] != 'U')
			t->dims[t->n_dims++] = dims[i];
	while (t->n_dims > 1 && t->dims[t->n_dims - 1] == 1)
		t->n_dims--;
	for (i = t->n_dims; i < 4; i++)
		t->dims[i] = 1;
	t->width = t->dims[0];
	t->rows = t->dims[1] * t->dims[2] * t->dims[3];
}

static struct out_tensor *
add(struct pico_convert *c, struct pico_err *err)
{
	struct plan *p = &c->plan;

	if (mem_grow(&p->tensor, &p->cap, p->n + 1, sizeof *p->tensor,
	    "tensor table", err) < 0)
		return NULL;
	memset(&p->tensor[p->n], 0, sizeof *p->tensor);
	return &p->tensor[p->n];
}

/* The rows of a tensor whose map takes not all of its source. */
static uint64_t
mapped_rows(const struct sizes *s, enum row_map map, uint64_t all)
{
	switch (map) {
	case ROWS_GROUPS_Q:
		return SIZE(s, 'Q');
	case ROWS_GROUPS_K:
	case ROWS_GROUPS_V:
		return SIZE(s, 'K');
	case ROWS_GATE:
	case ROWS_UP:
		return SIZE(s, 'X');
	default:
		return all;
	}
}

uint64_t
plan_row(const struct sizes *s, enum row_map map, uint64_t r)
{
	uint64_t head = SIZE(s, 'H'), half = head / 2;
	uint64_t group = MAX(SIZE(s, 'N') / MAX(SIZE(s, 'M'), 1), 1);
	uint64_t q = SIZE(s, 'Q'), k = SIZE(s, 'K'), h, i, x;

	if (map == ROWS_SAME)
		return r;
	if (map == ROWS_GATE || map == ROWS_UP) {
		x = SIZE(s, 'X');
		return r / x * 2 * x + r % x + (map == ROWS_UP ? x : 0);
	}
	h = r / head;
	i = r % head;
	if (map == ROWS_HEADS)
		return (h % SIZE(s, 'N') * 3 + h / SIZE(s, 'N')) * head + i;
	if (map == ROWS_PAIRS || map == ROWS_GROUPS_Q || map == ROWS_GROUPS_K)
		i = i % 2 * half + i / 2;
	if (map == ROWS_PAIRS)
		return h * head + i;
	/* groups: so many q heads, one k, one v */
	if (map == ROWS_GROUPS_K || (map == ROWS_GROUPS && r >= q && r < q + k))
		return ((r - (map == ROWS_GROUPS ? q : 0)) / head *
		    (group + 2) + group) * head + i;
	if (map == ROWS_GROUPS_V || (map == ROWS_GROUPS && r >= q + k))
		return ((r - (map == ROWS_GROUPS ? q + k : 0)) / head *
		    (group + 2) + group + 1) * head + i;
	return (h / group * (group + 2) + h % group) * head + i;
}

uint64_t
plan_bytes(const struct out_tensor *t)
{
	const struct pico_type *type = pico_type(t->type);

	return t->width * t->rows / type->block * type->bytes;
}

/* The sources of a tensor, `count` of them, each with that shape. *stored gets
   the type that holds them all. Returns 1; 0 if there are none, or not all. */
static int
find_sources(struct place *p, struct out_tensor *o, const char *shape,
    uint32_t count, bool must, uint32_t *stored, struct pico_err *err)
{
	struct pico_convert *c = p->c;
	struct st_tensor *t;
	char name[200];
	uint32_t i;

	o->src = c->plan.n_src;
	for (i = 0; i < count; i++) {
		t = find_source(p, i, name, sizeof name);
		if (t == NULL && (i > 0 || must))
			missing(p, name);
		if (t == NULL)
			return 0;
		if (check_shape(c, t, name, shape, err) < 0 ||
		    mem_grow(&c->plan.src, &c->plan.cap_src,
		    c->plan.n_src + 1, sizeof *c->plan.src, "tensor table",
		    err) < 0)
			return -1;
		*stored = i == 0 || t->type == *stored ? t->type : TYPE_F32;
		t->used = true;
		c->plan.src[c->plan.n_src++] = t;
		o->plus_one = (c->class->traits & NORM_PLUS_1) &&
		    str_ends(t->name, "norm.weight");
	}
	return 1;
}

/* The shape of a tensor as the folder would have it in one piece, its rows in
   the order of the file. */
static void
shape_of(const struct place *p, const char *shape, bool bias, uint64_t *dims)
{
	const struct name_row *row = p->row;
	size_t n = strlen(shape), i;
	uint64_t x;

	for (i = 0; i < n; i++)
		dims[i] = SIZE(&p->c->sizes, shape[i]);
	/* the dimension that is mapped: of experts each one's rows */
	i = row->map == ROWS_GATE || row->map == ROWS_UP;
	dims[i] = mapped_rows(&p->c->sizes, row->map, dims[i]);
	if ((row->flags & TRANSPOSED) && !bias) {
		x = dims[0];
		dims[0] = dims[1];
		dims[1] = x;
	}
}

/* One tensor of a row of the table: its weight, or its bias if `suffix` says
   so. Returns 1; 0 if it is not there. */
static int
place_tensor(struct place *p, bool must, struct pico_err *err)
{
	const struct name_row *row = p->row;
	struct pico_convert *c = p->c;
	bool bias = strcmp(p->suffix, ".bias") == 0;
	bool stacked = strchr(row->from, '#') != NULL;
	const char *shape = row->shape;
	/* of a bias: the dimension that comes out */
	char one[2] = { shape[row->flags & TRANSPOSED ? 1 : 0], '\0' };
	uint32_t count = stacked ? SIZE(&c->sizes, *shape) : 1, stored = 0;
	struct out_tensor *o = add(c, err);
	uint64_t dims[ST_DIMS], elements;
	int r;

	if (o == NULL)
		return -1;
	if (bias)
		shape = one;
	r = find_sources(p, o, shape + stacked, count, must, &stored, err);
	if (r <= 0)
		return r;
	if (p->layered)
		(void)snprintf(o->name, sizeof o->name, "blk.%" PRIu32 ".",
		    p->layer);
	r = (int)strlen(o->name);
	(void)snprintf(o->name + r, sizeof o->name - (size_t)r, "%s%s", row->to,
	    bias ? ".bias" : row->flags & BARE ? "" : ".weight");
	shape_of(p, shape, bias, dims);
	set_dims(o, dims, (uint32_t)strlen(shape), shape);
	elements = o->rows * o->width;
	o->map = row->map;
	o->flags = bias ? 0 : row->flags;
	o->rows_each = stacked ? o->rows / count : UINT64_MAX;
	if (o->n_dims == 1 && !stacked && row->map != ROWS_SAME) {
		/* rows of a bias have one value */
		o->rows = o->width;
		o->width = 1;
	}
	o->type = type_of(c, o, stored);
	c->plan.elements += elements;
	if (strstr(o->name, "_exps.") != NULL)
		c->plan.expert_elements += elements;
	c->plan.n++;
	return 1;
}

static bool
same_bytes(const struct st_tensor *a, const struct st_tensor *b)
{
	return a->type == b->type && a->end - a->begin == b->end - b->begin &&
	    memcmp(a->data, b->data, (size_t)(a->end - a->begin)) == 0;
}

/* lm_head that is there although it is tied: left out if it is no other. */
static bool
is_copy(struct place *p)
{
	struct place embd = *p;
	struct st_tensor *a, *b;
	char name[200];

	a = find_source(p, 0, name, sizeof name);
	embd.row = &p->c->class->global[0];
	b = find_source(&embd, 0, name, sizeof name);
	if (a == NULL || b == NULL || !same_bytes(a, b))
		return false;
	a->used = true;
	return true;
}

static int
place_rows(struct pico_convert *c, const struct name_row *rows, bool layered,
    uint32_t layer, struct pico_err *err)
{
	struct place p = { .c = c, .layered = layered, .layer = layer };
	const char *made = "";
	bool must;
	int r;

	for (; rows->to != NULL; rows++) {
		p.row = rows;
		p.suffix = rows->flags & BARE_FROM ? "" : ".weight";
		must = !(rows->flags & MAY);
		if (rows->flags & OUTPUT) {
			if (c->class->traits & DROP_OUTPUT)
				continue;
			must = !c->tied;
			if (c->tied && (c->class->traits & NO_HEADS) &&
			    is_copy(&p))
				continue;
		}
		if ((rows->flags & ELSE) && strcmp(made, rows->to) == 0)
			continue;
		r = place_tensor(&p, must, err);
		if (r < 0)
			return -1;
		if (r == 0)
			continue;
		made = rows->to;
		p.suffix = ".bias";
		if ((rows->flags & (BIAS_MAY | BIAS_MUST)) &&
		    place_tensor(&p, rows->flags & BIAS_MUST, err) < 0)
			return -1;
	}
	return 0;
}

/* A tensor whose values config.json gives. */
static int
place_made(struct pico_convert *c, const char *name, const float *v,
    struct pico_err *err)
{
	uint64_t n = c->n_rot / 2, i;
	struct out_tensor *o;

	if (v == NULL)
		return 0;
	for (i = 0; i < n; i++)
		if (!(v[i] > 0 && v[i] - v[i] == 0))
			return fail(err, "'config.json': the rope scaling "
			    "gives a factor of %g to pair %" PRIu64 " of a "
			    "head", v[i], i);
	o = add(c, err);
	if (o == NULL)
		return -1;
	(void)snprintf(o->name, sizeof o->name, "%s", name);
	set_dims(o, &n, 1, "H");
	o->type = TYPE_F32;
	o->made = v;
	c->plan.elements += n;
	c->plan.n++;
	return 0;
}

int
plan_make(struct pico_convert *c, struct pico_err *err)
{
	const struct st_tensor *t;
	struct plan *p = &c->plan;
	uint32_t layer;
	size_t i, before = 0;

	if (unwrap(c, err) < 0 ||
	    place_rows(c, c->class->global, false, 0, err) < 0 ||
	    place_made(c, "rope_freqs.weight", c->rope_freqs, err) < 0 ||
	    place_made(c, "rope_factors_long.weight", c->rope_long, err) < 0 ||
	    place_made(c, "rope_factors_short.weight", c->rope_short, err) < 0)
		return -1;
	/* layers of which nothing is there end a search for what is missing */
	for (layer = 0; layer < SIZE(&c->sizes, 'L') &&
	    (*p->lost.msg == '\0' || p->n > before); layer++) {
		before = p->n;
		if (place_rows(c, c->class->layer, true, layer, err) < 0)
			return -1;
	}
	t = c->weights.tensor;
	for (i = 0; i < c->weights.n && t[i].used; i++)
		;
	if (*p->lost.msg != '\0')
		return i == c->weights.n ? fail(err, "%s", p->lost.msg) :
		    fail(err, "%s, '%s' is none of its tensors", p->lost.msg,
		    show_str(t[i].name));
	return i == c->weights.n ? 0 : fail(err, "tensor '%s' is none that a "
	    "%s has, with %" PRIu32 " layers", show_str(t[i].name),
	    c->class->name, SIZE(&c->sizes, 'L'));
}
