/* SPDX-License-Identifier: MIT */
/*
 * Names of pre-tokenizers. They are apart from pre.c so that programs that open
 * a vocabulary, but do not tokenize, go without the expressions.
 */
#include "text.h"

#define LLAMA (PRE_IGNORE_MERGES | PRE_ADD_BOS | PRE_CLEAN)
#define JINA2 (PRE_CLEAN | PRE_LSTRIP)

static const struct pre table[] = {
	{ "llama3", SPLIT_LLAMA3, LLAMA },
	{ "llama-v3", SPLIT_LLAMA3, LLAMA },
	{ "llama-bpe", SPLIT_LLAMA3, LLAMA },
	{ "falcon3", SPLIT_LLAMA3, LLAMA },
	{ "falcon-h1", SPLIT_LLAMA3, LLAMA },
	{ "pixtral", SPLIT_LLAMA3, LLAMA },
	{ "midm-2.0", SPLIT_LLAMA3, LLAMA },
	{ "lfm2", SPLIT_LLAMA3, LLAMA },
	{ "laguna", SPLIT_LLAMA3, LLAMA },
	{ "jina-v5-nano", SPLIT_LLAMA3, LLAMA },
	{ "dbrx", SPLIT_LLAMA3, PRE_CLEAN },
	{ "smaug-bpe", SPLIT_LLAMA3, PRE_CLEAN },
	{ "chatglm-bpe", SPLIT_LLAMA3, PRE_CLEAN },
	{ "glm4", SPLIT_LLAMA3, PRE_CLEAN },
	{ "qwen2", SPLIT_QWEN2, 0 },
	{ "deepseek-r1-qwen", SPLIT_QWEN2, 0 },
	{ "kormo", SPLIT_QWEN2, 0 },
	{ "openpangu", SPLIT_QWEN2, 0 },
	{ "f2llmv2", SPLIT_QWEN2, 0 },
	{ "hunyuan", SPLIT_QWEN2, 0 },
	{ "grok-2", SPLIT_QWEN2, 0 },
	{ "solar-open", SPLIT_QWEN2, 0 },
	{ "stablelm2", SPLIT_QWEN2, PRE_CLEAN },
	{ "megrez", SPLIT_QWEN2, PRE_CLEAN },
	{ "qwen35", SPLIT_QWEN35, 0 },
	{ "gpt-2", SPLIT_GPT2, PRE_CLEAN },
	{ "phi-2", SPLIT_GPT2, PRE_CLEAN },
	{ "jina-es", SPLIT_GPT2, PRE_CLEAN },
	{ "jina-de", SPLIT_GPT2, PRE_CLEAN },
	{ "jina-v2-es", SPLIT_GPT2, JINA2 },
	{ "jina-v2-de", SPLIT_GPT2, JINA2 },
	{ "gigachat", SPLIT_GPT2, PRE_CLEAN },
	{ "mpt", SPLIT_GPT2, PRE_CLEAN },
	{ "olmo", SPLIT_GPT2, PRE_CLEAN },
	{ "jais", SPLIT_GPT2, PRE_CLEAN },
	{ "exaone4", SPLIT_GPT2, PRE_CLEAN },
	{ "a.x-4.0", SPLIT_GPT2, PRE_CLEAN },
	{ "mellum", SPLIT_GPT2, PRE_CLEAN },
	{ "modern-bert", SPLIT_GPT2, PRE_CLEAN },
	{ "jina-v1-en", SPLIT_GPT2, PRE_CLEAN | PRE_ADD_SEP },
	{ "jina-v2-code", SPLIT_GPT2, JINA2 | PRE_ADD_SEP },
	{ "roberta-bpe", SPLIT_GPT2, PRE_CLEAN | PRE_ADD_SEP },
	{ "trillion", SPLIT_GPT2, 0 },
	{ "granite-docling", SPLIT_GPT2, 0 },
	{ "starcoder", SPLIT_DIGIT1, PRE_CLEAN },
	{ "refact", SPLIT_DIGIT1, PRE_CLEAN },
	{ "codeshell", SPLIT_DIGIT1, PRE_CLEAN },
	{ "exaone", SPLIT_DIGIT1, PRE_CLEAN },
	{ "minerva-7b", SPLIT_DIGIT1, PRE_CLEAN },
	{ "mellum2", SPLIT_DIGIT1, PRE_CLEAN },
	{ "command-r", SPLIT_DIGIT1, 0 },
	{ "smollm", SPLIT_DIGIT1, 0 },
	{ "cohere2_moe", SPLIT_DIGIT1, 0 },
	{ "deepseek-v3", SPLIT_DS3, 0 },
	{ "hunyuan-dense", SPLIT_DS3, 0 },
	{ "joyai-llm", SPLIT_DS3, 0 },
	{ "deepseek-coder", SPLIT_DSCODER, 0 },
	{ "deepseek-llm", SPLIT_DSLLM, 0 },
	{ "falcon", SPLIT_FALCON, PRE_CLEAN },
	{ "tekken", SPLIT_TEKKEN, PRE_IGNORE_MERGES | PRE_ADD_BOS },
	{ "gpt-4o", SPLIT_O200K, 0 },
	{ "llama4", SPLIT_O200K, 0 },
	{ "kanana2", SPLIT_O200K, 0 },
	{ "minimax-m2", SPLIT_O200K, 0 },
	{ "bloom", SPLIT_BLOOM, PRE_CLEAN },
	{ "gpt3-finnish", SPLIT_BLOOM, PRE_CLEAN },
	{ "poro-chat", SPLIT_BLOOM, 0 },
	{ "viking", SPLIT_VIKING, 0 },
	{ "chameleon", SPLIT_CHAMELEON, PRE_ADD_BOS },
	/* bailing's expression differs from qwen2's in letters only. */
	{ "bailingmoe", SPLIT_QWEN2, 0 },
	{ "bailingmoe2", SPLIT_QWEN2, 0 },
	{ "llada-moe", SPLIT_QWEN2, 0 },
	{ "seed-coder", SPLIT_SEED, 0 },
	{ "exaone-moe", SPLIT_EXAONEMOE, PRE_CLEAN },
	{ "jais-2", SPLIT_JAIS2, PRE_CLEAN },
	{ "superbpe", SPLIT_SUPERBPE, 0 },
	{ "youtu", SPLIT_YOUTU, PRE_IGNORE_MERGES },
	{ "kimi-k2", SPLIT_KIMI, PRE_BY_ID },
	{ "afmoe", SPLIT_AFMOE, 0 },
	{ "tiny_aya", SPLIT_AYA, 0 },
	{ "default", SPLIT_PLAIN, PRE_CLEAN }
};

const struct pre *
pre_find(struct pico_str name)
{
	size_t i;

	for (i = 0; i < COUNT(table); i++)
		if (pico_str_is(name, table[i].name))
			return &table[i];
	return NULL;
}

const char *
pre_name(size_t i)
{
	return i < COUNT(table) ? table[i].name : NULL;
}
