/* SPDX-License-Identifier: MIT */
#include "sampling.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
sampling_bias(const struct pico_opt *row, const char *arg,
    struct pico_err *err)
{
	struct sampling_opts *o = row->to;
	const char *eq = strchr(arg, '=');
	struct pico_bias *v;
	char id_text[16];
	double bias = -INFINITY;
	int64_t id;

	if (eq == NULL || eq - arg >= (int)sizeof id_text)
		return pico_fail(err, PICO_USAGE, "'%.60s' is not ID=VALUE",
		    arg);
	memcpy(id_text, arg, (size_t)(eq - arg));
	id_text[eq - arg] = '\0';
	if (pico_parse_int(id_text, 0, INT32_MAX, &id, err) < 0 ||
	    (strcmp(eq + 1, "-inf") != 0 && pico_parse_real(eq + 1, -HUGE_VAL,
	    HUGE_VAL, &bias, err) < 0))
		return -1;
	v = realloc(o->bias, (o->n_bias + 1) * sizeof *v);
	if (v == NULL)
		return pico_fail(err, PICO_ERROR, "no memory for %zu bytes",
		    (o->n_bias + 1) * sizeof *v);
	v[o->n_bias++] = (struct pico_bias){ (int32_t)id, bias };
	o->bias = v;
	return 0;
}

/* Their usual order is that of the kinds. */
static const char *const names[PICO_S_COUNT] = {
	[PICO_S_LOGIT_BIAS] = "logit-bias", [PICO_S_PENALTIES] = "penalties",
	[PICO_S_DRY] = "dry", [PICO_S_TOP_N_SIGMA] = "top-n-sigma",
	[PICO_S_TOP_K] = "top-k", [PICO_S_TYPICAL] = "typical",
	[PICO_S_TOP_P] = "top-p", [PICO_S_MIN_P] = "min-p",
	[PICO_S_XTC] = "xtc", [PICO_S_TEMP] = "temp",
	[PICO_S_MIROSTAT] = "mirostat"
};

/* Adds the sampler whose name has n bytes. */
static int
add_name(struct sampling_opts *o, const char *name, size_t n,
    struct pico_err *err)
{
	char list[200] = "";
	size_t kind, i;

	for (kind = 0; kind < PICO_S_COUNT; kind++)
		if (strlen(names[kind]) == n &&
		    memcmp(names[kind], name, n) == 0)
			break;
	if (kind == PICO_S_COUNT) {
		for (i = 0; i < PICO_S_COUNT; i++) {
			kind = strlen(list);
			(void)snprintf(list + kind, sizeof list - kind, "%s%s",
			    i > 0 ? ", " : "", names[i]);
		}
		return pico_fail(err, PICO_USAGE, "'%.*s' is no sampler; there "
		    "are %s", (int)(n < 60 ? n : 60), name, list);
	}
	for (i = 0; i < o->n_order; i++)
		if ((size_t)o->order[i] == kind)
			return pico_fail(err, PICO_USAGE, "%s stands there "
			    "twice", names[kind]);
	o->order[o->n_order++] = (enum pico_sampler_kind)kind;
	return 0;
}

int
sampling_order(const struct pico_opt *row, const char *arg,
    struct pico_err *err)
{
	struct sampling_opts *o = row->to;
	size_t n;

	for (o->n_order = 0; ; arg += n + 1) {
		n = strcspn(arg, ",");
		if (add_name(o, arg, n, err) < 0)
			return -1;
		if (arg[n] == '\0')
			return 0;
	}
}

static struct pico_step
make_step(const struct sampling_opts *o, enum pico_sampler_kind kind)
{
	struct pico_step s = { .kind = kind };

	switch (kind) {
	case PICO_S_LOGIT_BIAS:
		break;
	case PICO_S_PENALTIES:
		s.n = o->repeat_last;
		s.a = o->repeat;
		s.b = o->frequency;
		s.c = o->presence;
		break;
	case PICO_S_DRY:
		s.n = o->dry_last;
		s.a = o->dry;
		s.b = o->dry_base;
		s.c = (double)o->dry_length;
		break;
	case PICO_S_TOP_N_SIGMA:
		s.a = o->n_sigma;
		break;
	case PICO_S_TOP_K:
		s.n = o->top_k;
		break;
	case PICO_S_TYPICAL:
		s.a = o->typical;
		break;
	case PICO_S_TOP_P:
		s.a = o->top_p;
		break;
	case PICO_S_MIN_P:
		s.a = o->min_p;
		break;
	case PICO_S_XTC:
		s.a = o->xtc;
		s.b = o->xtc_threshold;
		break;
	case PICO_S_TEMP:
		s.a = o->temp;
		s.b = o->temp_range;
		s.c = o->temp_exponent;
		break;
	case PICO_S_MIROSTAT:
		s.n = o->mirostat;
		s.a = o->tau;
		s.b = o->eta;
		break;
	}
	s.min_keep = (uint32_t)o->min_keep;
	return s;
}

static bool
runs(const struct sampling_opts *o, enum pico_sampler_kind kind)
{
	size_t i;

	for (i = 0; i < o->n_order; i++)
		if (o->order[i] == kind)
			return true;
	return false;
}

/* Mirostat takes the place of what shortens the list. */
static void
usual_order(struct sampling_opts *o)
{
	static const enum pico_sampler_kind with_mirostat[] = {
	    PICO_S_LOGIT_BIAS, PICO_S_PENALTIES, PICO_S_DRY, PICO_S_TEMP,
	    PICO_S_MIROSTAT };
	size_t i;

	if (o->n_order > 0)
		return;
	o->n_order = o->mirostat > 0 ?
	    sizeof with_mirostat / sizeof *with_mirostat : PICO_S_COUNT - 1;
	for (i = 0; i < o->n_order; i++)
		o->order[i] = o->mirostat > 0 ? with_mirostat[i] :
		    (enum pico_sampler_kind)i;
}

/* Warns, once, of what was asked for and does not run. */
static void
warn_unused(struct sampling_opts *o)
{
	static const struct sampling_opts defaults = SAMPLING_DEFAULTS;
	struct pico_step want, usual;
	size_t i;

	for (i = 0; !o->warned && i < PICO_S_COUNT; i++) {
		want = make_step(o, (enum pico_sampler_kind)i);
		usual = make_step(&defaults, (enum pico_sampler_kind)i);
		if (!runs(o, want.kind) && (want.n != usual.n ||
		    want.a != usual.a || want.b != usual.b ||
		    want.c != usual.c || (want.kind == PICO_S_LOGIT_BIAS &&
		    o->n_bias > 0)))
			cmd_warn("the options of %s have no effect: it is not "
			    "among the samplers", names[i]);
	}
	o->warned = true;
}

bool
sampling_wants_vocab(const struct sampling_opts *o)
{
	size_t i;
	bool texts = o->dry_breakers.n == 0;

	for (i = 0; i < o->dry_breakers.n; i++)
		texts = texts || o->dry_breakers.v[i][0] != '\0';
	return texts && o->dry > 0 && (o->n_order == 0 ||
	    runs(o, PICO_S_DRY));
}

static int
make_breakers(struct sampling_opts *o, const struct pico_vocab *v,
    struct pico_err *err)
{
	static const char *const usual[] = { "\n", ":", "\"", "*" };
	size_t n = o->dry_breakers.n, i;
	struct pico_str text;

	o->breakers = pico_breakers_new((uint32_t)pico_vocab_n(v), err);
	if (o->breakers == NULL)
		return -1;
	for (i = 0; i < (n > 0 ? n : sizeof usual / sizeof *usual); i++) {
		text.p = n > 0 ? o->dry_breakers.v[i] : usual[i];
		text.n = strlen(text.p);
		if (text.n > 0 && pico_breakers_texts(o->breakers, v, &text, 1,
		    err) < 0)
			return -1;
	}
	return 0;
}

int
sampling_chain(struct sampling_opts *o, uint32_t n_vocab,
    const struct pico_vocab *v, struct pico_chain *chain, struct pico_err *err)
{
	size_t i;

	for (i = 0; i < o->n_bias; i++) {
		if ((uint32_t)o->bias[i].id < n_vocab)
			continue;
		return pico_fail(err, PICO_USAGE, "option --logit-bias: token "
		    "%" PRId32 " is not in the vocabulary of %" PRIu32,
		    o->bias[i].id, n_vocab);
	}
	if (v != NULL && o->breakers == NULL && sampling_wants_vocab(o) &&
	    make_breakers(o, v, err) < 0)
		return -1;
	usual_order(o);
	warn_unused(o);
	for (i = 0; i < o->n_order; i++)
		o->steps[i] = make_step(o, o->order[i]);
	*chain = (struct pico_chain){ .steps = o->steps, .n_steps = o->n_order,
	    .bias = o->bias, .n_bias = o->n_bias, .breakers = o->breakers };
	return 0;
}

void
sampling_free(struct sampling_opts *o)
{
	free(o->bias);
	free(o->dry_breakers.v);
	pico_breakers_free(o->breakers);
}
