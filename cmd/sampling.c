/* SPDX-License-Identifier: MIT */
#include "sampling.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int
sampling_bias(const char *arg, void *data, struct pico_err *err)
{
	struct sampling_opts *o = data;
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

int
sampling_chain(struct sampling_opts *o, uint32_t n_vocab,
    struct pico_chain *chain, struct pico_err *err)
{
	uint32_t keep = (uint32_t)o->min_keep;
	const struct pico_step steps[] = {
		{ .kind = PICO_S_LOGIT_BIAS },
		{ .kind = PICO_S_PENALTIES, .n = o->repeat_last,
		    .a = o->repeat, .b = o->frequency, .c = o->presence },
		{ .kind = PICO_S_TOP_K, .n = o->top_k, .min_keep = keep },
		{ .kind = PICO_S_TYPICAL, .a = o->typical, .min_keep = keep },
		{ .kind = PICO_S_TOP_P, .a = o->top_p, .min_keep = keep },
		{ .kind = PICO_S_MIN_P, .a = o->min_p, .min_keep = keep },
		{ .kind = PICO_S_TEMP, .a = o->temp },
	};
	size_t i;

	_Static_assert(sizeof steps == sizeof o->steps, "all steps");
	for (i = 0; i < o->n_bias; i++) {
		if ((uint32_t)o->bias[i].id < n_vocab)
			continue;
		return pico_fail(err, PICO_USAGE, "option --logit-bias: token "
		    "%" PRId32 " is not in the vocabulary of %" PRIu32,
		    o->bias[i].id, n_vocab);
	}
	memcpy(o->steps, steps, sizeof steps);
	*chain = (struct pico_chain){ o->steps, sizeof steps / sizeof *steps,
	    o->bias, o->n_bias };
	return 0;
}
