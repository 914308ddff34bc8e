/* SPDX-License-Identifier: MIT */
/*
 * The table of architectures: what each does otherwise than LLaMA (arXiv
 * 2302.13971). HACKING.md explains how a row is found for a new one.
 */
#include <math.h>
#include <string.h>

#include "model.h"

/* ---- what no key tells ---- */

/* The sizes of the published models decide: 7B turns, 13B has ALiBi. */
static void
adapt_baichuan(struct hparams *h)
{
	if (h->n_layer != 32)
		h->rope = ROPE_NONE;
	if (h->n_layer == 40)
		h->alibi = 8;
}

/* Scores of the 27B are scaled by the width of the model. */
static void
scale_by_width(struct hparams *h, uint32_t n_layer)
{
	if (h->n_layer == n_layer)
		h->attn_scale = 1 / sqrtf((float)h->n_embd /
		    (float)h->n_head[0]);
}

static void
adapt_gemma2(struct hparams *h)
{
	scale_by_width(h, 46);
	h->attn_cap = 50;
	h->final_cap = 30;
}

static void
adapt_gemma3(struct hparams *h)
{
	scale_by_width(h, 62);
}

/* What files without the keys were converted from. */
static void
adapt_minicpm(struct hparams *h)
{
	h->embd_scale = 12;
	h->residual_scale = 1.4f / sqrtf((float)h->n_layer);
	h->logit_scale = 256 / (float)h->n_embd;
}

/* Only the 32B has local layers. */
static void
adapt_exaone4(struct hparams *h)
{
	if (h->n_layer != 64)
		h->every = 0;
}

/* ---- the table ---- */

#define LAYER_NORMS .norm = NORM_LAYER, .norm_bias = MUST
#define GELU .ffn = FFN_PLAIN, .act = K_GELU
#define BIASES(n) .qkv_bias = n, .out_bias = n, .ffn_bias = n

static const struct arch archs[] = {
	/* "llama" with experts is Mixtral, arXiv 2401.04088 */
	{ .name = "llama",
	  .rope = ROPE_ADJACENT, .whole_rope = true, BIASES(MAY),
	  .ignore_window = true, .experts = MAY },
	{ .name = "mistral3",
	  .rope = ROPE_ADJACENT, BIASES(MAY), .experts = MAY,
	  .keys = KEY_TEMPERATURE | KEY_YARN_BETA | KEY_YARN_LOG },
	{ .name = "baichuan",
	  .rope = ROPE_ADJACENT, .adapt = adapt_baichuan },
	{ .name = "internlm2",
	  .rope = ROPE_ADJACENT, .qkv_bias = MAY, .out_bias = MAY },
	{ .name = "exaone",
	  .rope = ROPE_HALVES },
	{ .name = "exaone4", .shape = SHAPE_POST,
	  .rope = ROPE_HALVES, .qk_norm = QK_HEAD,
	  .every = 4, .window = 4096, .window_key = MAY, .local_rope = true,
	  .adapt = adapt_exaone4 },
	{ .name = "smollm3",
	  .rope = ROPE_ADJACENT, .every = 4, .local_rope = true },

	/* scales on the way: arXiv 2404.06395 (MiniCPM) */
	{ .name = "minicpm",
	  .rope = ROPE_ADJACENT, BIASES(MAY),
	  .keys = KEY_EMBD_SCALE | KEY_RESIDUAL_SCALE | KEY_LOGIT_DIVIDE,
	  .adapt = adapt_minicpm },
	{ .name = "granite",
	  .rope = ROPE_ADJACENT, BIASES(MAY),
	  .keys = KEY_EMBD_SCALE | KEY_RESIDUAL_SCALE | KEY_LOGIT_DIVIDE |
	      KEY_ATTN_SCALE | KEY_FINETUNED },
	{ .name = "granitemoe",
	  .rope = ROPE_ADJACENT, BIASES(MAY),
	  .experts = MUST, .shared = SHARED_WIDTH,
	  .keys = KEY_EMBD_SCALE | KEY_RESIDUAL_SCALE | KEY_LOGIT_DIVIDE |
	      KEY_ATTN_SCALE | KEY_FINETUNED },

	/* arXiv 2407.10671, 2505.09388 */
	{ .name = "qwen2", .output_bias = MAY,
	  .rope = ROPE_HALVES, .qkv_bias = MUST },
	{ .name = "qwen3",
	  .rope = ROPE_HALVES, .qk_norm = QK_HEAD },
	{ .name = "qwen2moe",
	  .rope = ROPE_HALVES, .qkv_bias = MUST,
	  .experts = MUST, .shared = SHARED_GATED, .expert_share = true,
	  .expert_free = true },
	{ .name = "qwen3moe",
	  .rope = ROPE_HALVES, .qk_norm = QK_HEAD,
	  .experts = MUST, .expert_share = true },

	/* arXiv 2403.08295, 2408.00118, 2503.19786 */
	{ .name = "gemma", .embd_sqrt = true,
	  .rope = ROPE_HALVES, .act = K_GELU },
	{ .name = "gemma2", .embd_sqrt = true, .shape = SHAPE_SANDWICH,
	  .rope = ROPE_HALVES, .every = 2, .window = 4096, .window_key = MAY,
	  .act = K_GELU, .keys = KEY_ATTN_CAP | KEY_FINAL_CAP,
	  .adapt = adapt_gemma2 },
	{ .name = "gemma3", .embd_sqrt = true, .shape = SHAPE_SANDWICH,
	  .rope = ROPE_HALVES, .qk_norm = QK_HEAD,
	  .every = 6, .window_key = MAY, .local_plain = true,
	  .local_base = 10000, .act = K_GELU, .keys = KEY_FINAL_CAP,
	  .adapt = adapt_gemma3 },

	{ .name = "phi2", LAYER_NORMS, .shape = SHAPE_ONE_NORM,
	  .output_bias = MUST,
	  .rope = ROPE_HALVES, BIASES(MUST), GELU },
	{ .name = "phi3",	/* arXiv 2404.14219 */
	  .rope = ROPE_HALVES, .ignore_window = true, .ffn = FFN_FUSED },

	/* arXiv 2402.00838, 2501.00656, 2409.02060 */
	{ .name = "olmo", .norm = NORM_BARE,
	  .rope = ROPE_ADJACENT, .keys = KEY_CLAMP },
	{ .name = "olmo2", .shape = SHAPE_POST,
	  .rope = ROPE_HALVES, .qk_norm = QK_ROW,
	  .every = 4, .window_key = MAY, .local_plain = true },
	{ .name = "olmoe",
	  .rope = ROPE_HALVES, .qk_norm = QK_ROW,
	  .experts = MUST, .expert_free = true },

	{ .name = "chatglm",
	  .rope = ROPE_ADJACENT, .qkv_bias = MUST, .ffn = FFN_FUSED },
	{ .name = "glm4", .shape = SHAPE_SANDWICH,
	  .rope = ROPE_ADJACENT, .qkv_bias = MAY, .ffn = FFN_FUSED },

	{ .name = "command-r", .norm = NORM_LAYER, .shape = SHAPE_ONE_NORM,
	  .rope = ROPE_ADJACENT, .qk_norm = QK_OWN,
	  .keys = KEY_LOGIT_MULTIPLY },
	{ .name = "cohere2", .norm = NORM_LAYER, .shape = SHAPE_ONE_NORM,
	  .rope = ROPE_ADJACENT, .every = 4, .window_key = MUST,
	  .local_rope = true, .keys = KEY_LOGIT_MULTIPLY },

	{ .name = "stablelm", LAYER_NORMS, .ffn_norm = MAY,
	  .rope = ROPE_HALVES, .qk_norm = QK_OWN, .qkv_bias = MAY },
	{ .name = "starcoder", LAYER_NORMS, .positions = MUST,
	  BIASES(MUST), GELU },
	{ .name = "starcoder2", LAYER_NORMS,
	  .rope = ROPE_HALVES, BIASES(MUST), GELU },
	{ .name = "gpt2", LAYER_NORMS, .positions = MUST,
	  BIASES(MUST), GELU },
	{ .name = "gptneox", LAYER_NORMS, .shape = SHAPE_PARALLEL,
	  .rope = ROPE_HALVES, BIASES(MUST), GELU, .keys = KEY_PARALLEL },
	{ .name = "falcon", LAYER_NORMS, .shape = SHAPE_ONE_NORM,
	  .rope = ROPE_HALVES, .whole_rope = true, .second_norm = true,
	  GELU },
	{ .name = "bloom", LAYER_NORMS, .embd_norm = MUST,
	  .alibi = 8, BIASES(MUST), GELU },
	{ .name = "mpt", .norm = NORM_LAYER, .norm_bias = MAY,
	  .positions = MAY, .qk_norm = QK_ROW_MAY, BIASES(MAY),
	  GELU, .act_scales = true, .keys = KEY_CLAMP | KEY_ALIBI },
	{ .name = "nemotron", LAYER_NORMS,
	  .rope = ROPE_HALVES, BIASES(MAY), .ffn = FFN_PLAIN,
	  .act = K_RELU2 },

	/* arXiv 2401.06066, 2405.04434 (MLA), 2412.19437 */
	{ .name = "deepseek",
	  .rope = ROPE_ADJACENT, .experts = MUST, .shared = SHARED_COUNT,
	  .expert_free = true, .keys = KEY_DENSE },
	{ .name = "deepseek2", .mixer = MLA,
	  .rope = ROPE_ADJACENT, .experts = MAY, .shared = SHARED_COUNT,
	  .expert_free = true, .keys = KEY_DENSE | KEY_YARN_LOG },
	{ .name = "gpt-oss", .ffn_norm_name = "post_attention_norm",
	  .rope = ROPE_HALVES, .qkv_bias = MUST, .out_bias = MUST,
	  .sinks = true, .every = 2, .window_key = MUST,
	  .experts = MUST, .expert_bias = true, .clamp_gate = true,
	  .expert_free = true, .gating = GATE_LATE },

	/* arXiv 2312.00752; 2404.05892; 2503.14456 */
	{ .name = "mamba", .mixer = MAMBA },
	{ .name = "rwkv6", LAYER_NORMS, .embd_norm = MUST, .mixer = RWKV6 },
	{ .name = "rwkv7", LAYER_NORMS, .embd_norm = MUST, .mixer = RWKV7 },
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
