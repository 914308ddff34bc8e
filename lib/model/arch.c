/* SPDX-License-Identifier: MIT */
/*
 * The table of architectures. Formulas: arXiv 2302.13971 (LLaMA), 2401.04088
 * (Mixtral, which is "llama" with experts).
 */
#include <string.h>

#include "model.h"

static const struct arch archs[] = {
	{
		.name = "llama",
		.rope = ROPE_ADJACENT,
		.moe_norm = true,
		.ignore_window = true,
	},
};

const struct arch *
arch_find(struct pico_str name)
{
	size_t i;

	for (i = 0; i < COUNT(archs); i++)
		if (pico_str_is(name, archs[i].name))
			return &archs[i];
	return NULL;
}

const char *
arch_names(void)
{
	static char list[COUNT(archs) * 20];
	size_t i, n = 0;

	for (i = 0; i < COUNT(archs); i++)
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%s",
		    i > 0 ? ", " : "", archs[i].name);
	return list;
}
