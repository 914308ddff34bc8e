/* SPDX-License-Identifier: MIT */
/* The storage types of tensors: ids and block sizes (GGUF type table). */
#include <strings.h>

#include "gguf.h"

/* Index = id; rows without a block size are ids that were removed. */
static const struct pico_type types[] = {
	{ TYPE_F32, "F32", 1, 4 },
	{ TYPE_F16, "F16", 1, 2 },
	{ TYPE_Q4_0, "Q4_0", 32, 18 },
	{ TYPE_Q4_1, "Q4_1", 32, 20 },
	{ 4, "Q4_2", 0, 0 },
	{ 5, "Q4_3", 0, 0 },
	{ TYPE_Q5_0, "Q5_0", 32, 22 },
	{ TYPE_Q5_1, "Q5_1", 32, 24 },
	{ TYPE_Q8_0, "Q8_0", 32, 34 },
	{ TYPE_Q8_1, "Q8_1", 32, 36 },
	{ TYPE_Q2_K, "Q2_K", 256, 84 },
	{ TYPE_Q3_K, "Q3_K", 256, 110 },
	{ TYPE_Q4_K, "Q4_K", 256, 144 },
	{ TYPE_Q5_K, "Q5_K", 256, 176 },
	{ TYPE_Q6_K, "Q6_K", 256, 210 },
	{ TYPE_Q8_K, "Q8_K", 256, 292 },
	{ TYPE_IQ2_XXS, "IQ2_XXS", 256, 66 },
	{ TYPE_IQ2_XS, "IQ2_XS", 256, 74 },
	{ TYPE_IQ3_XXS, "IQ3_XXS", 256, 98 },
	{ TYPE_IQ1_S, "IQ1_S", 256, 50 },
	{ TYPE_IQ4_NL, "IQ4_NL", 32, 18 },
	{ TYPE_IQ3_S, "IQ3_S", 256, 110 },
	{ TYPE_IQ2_S, "IQ2_S", 256, 82 },
	{ TYPE_IQ4_XS, "IQ4_XS", 256, 136 },
	{ TYPE_I8, "I8", 1, 1 },
	{ TYPE_I16, "I16", 1, 2 },
	{ TYPE_I32, "I32", 1, 4 },
	{ TYPE_I64, "I64", 1, 8 },
	{ TYPE_F64, "F64", 1, 8 },
	{ TYPE_IQ1_M, "IQ1_M", 256, 56 },
	{ TYPE_BF16, "BF16", 1, 2 },
	{ 31, "Q4_0_4_4", 0, 0 },
	{ 32, "Q4_0_4_8", 0, 0 },
	{ 33, "Q4_0_8_8", 0, 0 },
	{ TYPE_TQ1_0, "TQ1_0", 256, 54 },
	{ TYPE_TQ2_0, "TQ2_0", 256, 66 },
	{ 36, "IQ4_NL_4_4", 0, 0 },
	{ 37, "IQ4_NL_4_8", 0, 0 },
	{ 38, "IQ4_NL_8_8", 0, 0 },
	{ TYPE_MXFP4, "MXFP4", 32, 17 },
	{ TYPE_NVFP4, "NVFP4", 64, 36 },
	{ TYPE_Q1_0, "Q1_0", 128, 18 },
	{ TYPE_Q2_0, "Q2_0", 64, 18 },
};

const struct pico_type *
pico_type(uint32_t id)
{
	if (id >= COUNT(types) || types[id].block == 0)
		return NULL;
	return &types[id];
}

const struct pico_type *
pico_type_named(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT(types); i++)
		if (types[i].block > 0 && strcasecmp(types[i].name, name) == 0)
			return &types[i];
	return NULL;
}

const char *
type_removed(uint32_t id)
{
	if (id >= COUNT(types) || types[id].block > 0)
		return NULL;
	return types[id].name;
}

const char *
pico_file_type_name(int64_t id)
{
	static const char *const names[] = {
		"F32", "F16", "Q4_0", "Q4_1", "Q4_1 with F16", "Q4_2", "Q4_3",
		"Q8_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L",
		"Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ2_XXS",
		"IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL",
		"IQ3_S", "IQ3_M", "IQ2_S", "IQ2_M", "IQ4_XS", "IQ1_M", "BF16",
		"Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0",
		"MXFP4_MOE", "NVFP4", "Q1_0", "Q2_0",
	};

	return id >= 0 && id < (int64_t)COUNT(names) ? names[id] : NULL;
}
