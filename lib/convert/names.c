/* SPDX-License-Identifier: MIT */
/*
 * The table of classes: what config.json calls the sizes of a model, what its
 * tensors are called in the folder and in the file, and how they get there. The
 * architectures themselves are in lib/model/arch.c.
 */
#include "convert.h"

/* ---- names of tensors ---- */

/* Global names most have. */
#define GLOBAL(embd, norm, flags) \
	{ "token_embd", embd, "VD", 0, 0 }, \
	{ "output_norm", norm, "D", 0, flags }
#define HEAD(name) { "output", name, "VD", 0, OUTPUT }
#define END { NULL, NULL, NULL, 0, 0 }

static const struct name_row global[] = {
	GLOBAL("model.embed_tokens", "model.norm", 0),
	HEAD("lm_head"), END
};
static const struct name_row global_layer_norm[] = {
	GLOBAL("model.embed_tokens", "model.norm", BIAS_MUST),
	HEAD("lm_head"), END
};
static const struct name_row global_phi[] = {
	GLOBAL("model.embed_tokens", "model.final_layernorm", BIAS_MUST),
	{ "output", "lm_head", "VD", 0, BIAS_MUST }, END
};
static const struct name_row global_neox[] = {
	GLOBAL("gpt_neox.embed_in", "gpt_neox.final_layer_norm", BIAS_MUST),
	HEAD("embed_out"), END
};
static const struct name_row global_gpt2[] = {
	GLOBAL("wte", "ln_f", BIAS_MUST),
	{ "position_embd", "wpe", "CD", 0, 0 },
	HEAD("lm_head"), END
};
static const struct name_row global_falcon[] = {
	GLOBAL("transformer.word_embeddings", "transformer.ln_f", BIAS_MUST),
	HEAD("lm_head"), END
};
static const struct name_row global_internlm2[] = {
	GLOBAL("model.tok_embeddings", "model.norm", 0),
	HEAD("output"), END
};
static const struct name_row global_mamba[] = {
	GLOBAL("backbone.embeddings|backbone.embedding", "backbone.norm_f", 0),
	HEAD("lm_head"), END
};

/* Parts of layers. */
#define ATTN_NORM(flags) { "attn_norm", "input_layernorm", "D", 0, flags }
#define FFN_NORM(flags) \
	{ "ffn_norm", "post_attention_layernorm", "D", 0, flags }
#define QKV(map, flags) \
	{ "attn_q", "self_attn.q_proj", "QD", map, flags }, \
	{ "attn_k", "self_attn.k_proj", "KD", map, flags }, \
	{ "attn_v", "self_attn.v_proj", "KD", 0, flags }
#define OUT(name, flags) { "attn_output", name, "DQ", 0, flags }
#define ATTN(map, qkv, out) QKV(map, qkv), OUT("self_attn.o_proj", out)
#define QK_NORM(q, k) \
	{ "attn_q_norm", "self_attn.q_norm", q, 0, 0 }, \
	{ "attn_k_norm", "self_attn.k_norm", k, 0, 0 }
#define GATED(flags) \
	{ "ffn_gate", "mlp.gate_proj", "FD", 0, flags }, \
	{ "ffn_up", "mlp.up_proj", "FD", 0, flags }, \
	{ "ffn_down", "mlp.down_proj", "DF", 0, flags }
#define PLAIN(up, down, flags) \
	{ "ffn_up", up, "FD", 0, flags }, \
	{ "ffn_down", down, "DF", 0, flags }
/* experts of Qwen: each matrix by itself, or all in two */
#define EXPERTS \
	{ "ffn_gate_inp", "mlp.gate", "ED", 0, 0 }, \
	{ "ffn_gate_exps", "mlp.experts.gate_up_proj", "EYD", ROWS_GATE, \
	  BARE_FROM | MAY }, \
	{ "ffn_gate_exps", "mlp.experts.#.gate_proj", "EXD", 0, ELSE }, \
	{ "ffn_up_exps", "mlp.experts.gate_up_proj", "EYD", ROWS_UP, \
	  BARE_FROM | MAY }, \
	{ "ffn_up_exps", "mlp.experts.#.up_proj", "EXD", 0, ELSE }, \
	{ "ffn_down_exps", "mlp.experts.down_proj", "EDX", 0, \
	  BARE_FROM | MAY }, \
	{ "ffn_down_exps", "mlp.experts.#.down_proj", "EDX", 0, ELSE }

static const struct name_row layer_llama[] = {
	ATTN_NORM(0), ATTN(ROWS_PAIRS, BIAS_MAY, BIAS_MAY), FFN_NORM(0),
	GATED(BIAS_MAY), END
};
static const struct name_row layer_mixtral[] = {
	ATTN_NORM(0), ATTN(ROWS_PAIRS, 0, 0), FFN_NORM(0),
	{ "ffn_gate_inp", "block_sparse_moe.gate", "ED", 0, 0 },
	{ "ffn_gate_exps", "block_sparse_moe.experts.#.w1", "EFD", 0, 0 },
	{ "ffn_up_exps", "block_sparse_moe.experts.#.w3", "EFD", 0, 0 },
	{ "ffn_down_exps", "block_sparse_moe.experts.#.w2", "EDF", 0, 0 },
	END
};
static const struct name_row layer_qwen2[] = {
	ATTN_NORM(0), ATTN(0, BIAS_MUST, 0), FFN_NORM(0), GATED(0), END
};
static const struct name_row layer_qwen3[] = {
	ATTN_NORM(0), ATTN(0, 0, 0), QK_NORM("H", "H"), FFN_NORM(0), GATED(0),
	END
};
static const struct name_row layer_qwen2moe[] = {
	ATTN_NORM(0), ATTN(0, BIAS_MUST, 0), FFN_NORM(0), EXPERTS,
	{ "ffn_gate_inp_shexp", "mlp.shared_expert_gate", "UD", 0, 0 },
	{ "ffn_gate_shexp", "mlp.shared_expert.gate_proj", "SD", 0, 0 },
	{ "ffn_up_shexp", "mlp.shared_expert.up_proj", "SD", 0, 0 },
	{ "ffn_down_shexp", "mlp.shared_expert.down_proj", "DS", 0, 0 },
	END
};
static const struct name_row layer_qwen3moe[] = {
	ATTN_NORM(0), ATTN(0, 0, 0), QK_NORM("H", "H"), FFN_NORM(0), EXPERTS,
	END
};
static const struct name_row layer_gemma[] = {
	ATTN_NORM(0), ATTN(0, 0, 0), FFN_NORM(0), GATED(0), END
};
#define SANDWICH \
	{ "post_attention_norm", "post_attention_layernorm", "D", 0, 0 }, \
	{ "ffn_norm", "pre_feedforward_layernorm", "D", 0, 0 }, \
	{ "post_ffw_norm", "post_feedforward_layernorm", "D", 0, 0 }
static const struct name_row layer_gemma2[] = {
	ATTN_NORM(0), ATTN(0, 0, 0), SANDWICH, GATED(0), END
};
static const struct name_row layer_gemma3[] = {
	ATTN_NORM(0), ATTN(0, 0, 0), QK_NORM("H", "H"), SANDWICH, GATED(0), END
};
static const struct name_row layer_phi2[] = {
	ATTN_NORM(BIAS_MUST), QKV(0, BIAS_MUST),
	OUT("self_attn.dense", BIAS_MUST), PLAIN("mlp.fc1", "mlp.fc2",
	BIAS_MUST), END
};
static const struct name_row layer_phi3[] = {
	ATTN_NORM(0), { "attn_qkv", "self_attn.qkv_proj", "AD", 0, 0 },
	OUT("self_attn.o_proj", 0), FFN_NORM(0),
	{ "ffn_up", "mlp.gate_up_proj", "GD", 0, 0 },
	{ "ffn_down", "mlp.down_proj", "DF", 0, 0 }, END
};
static const struct name_row layer_stablelm[] = {
	ATTN_NORM(BIAS_MUST), ATTN(0, BIAS_MAY, 0),
	{ "attn_q_norm", "self_attn.q_layernorm.norms.#", "NH", 0, MAY },
	{ "attn_k_norm", "self_attn.k_layernorm.norms.#", "MH", 0, MAY },
	{ "ffn_norm", "post_attention_layernorm", "D", 0, BIAS_MUST | MAY },
	GATED(0), END
};
static const struct name_row layer_starcoder2[] = {
	ATTN_NORM(BIAS_MUST), ATTN(0, BIAS_MUST, BIAS_MUST),
	FFN_NORM(BIAS_MUST), PLAIN("mlp.c_fc", "mlp.c_proj", BIAS_MUST), END
};
static const struct name_row layer_neox[] = {
	ATTN_NORM(BIAS_MUST),
	{ "attn_qkv", "attention.query_key_value", "AD", ROWS_HEADS,
	  BIAS_MUST },
	OUT("attention.dense", BIAS_MUST), FFN_NORM(BIAS_MUST),
	PLAIN("mlp.dense_h_to_4h", "mlp.dense_4h_to_h", BIAS_MUST), END
};
static const struct name_row layer_gpt2[] = {
	{ "attn_norm", "ln_1", "D", 0, BIAS_MUST },
	{ "attn_qkv", "attn.c_attn", "DA", 0, BIAS_MUST | TRANSPOSED },
	{ "attn_output", "attn.c_proj", "QD", 0, BIAS_MUST | TRANSPOSED },
	{ "ffn_norm", "ln_2", "D", 0, BIAS_MUST },
	{ "ffn_up", "mlp.c_fc", "DF", 0, BIAS_MUST | TRANSPOSED },
	{ "ffn_down", "mlp.c_proj", "FD", 0, BIAS_MUST | TRANSPOSED },
	END
};
static const struct name_row layer_falcon[] = {
	{ "attn_norm", "ln_mlp", "D", 0, BIAS_MUST | MAY },
	{ "attn_norm", "input_layernorm", "D", 0, BIAS_MUST | ELSE },
	{ "attn_norm_2", "ln_attn", "D", 0, BIAS_MUST | MAY },
	{ "attn_qkv", "self_attention.query_key_value", "AD", ROWS_GROUPS, 0 },
	OUT("self_attention.dense", 0),
	PLAIN("mlp.dense_h_to_4h", "mlp.dense_4h_to_h", 0), END
};
static const struct name_row layer_olmo2[] = {
	ATTN(0, 0, 0), QK_NORM("Q", "K"),
	{ "post_attention_norm", "post_attention_layernorm", "D", 0, 0 },
	{ "post_ffw_norm", "post_feedforward_layernorm", "D", 0, 0 },
	GATED(0), END
};
static const struct name_row layer_internlm2[] = {
	{ "attn_norm", "attention_norm", "D", 0, 0 },
	{ "attn_q", "attention.wqkv", "AD", ROWS_GROUPS_Q, BIAS_MAY },
	{ "attn_k", "attention.wqkv", "AD", ROWS_GROUPS_K, BIAS_MAY },
	{ "attn_v", "attention.wqkv", "AD", ROWS_GROUPS_V, BIAS_MAY },
	OUT("attention.wo", BIAS_MAY),
	{ "ffn_norm", "ffn_norm", "D", 0, 0 },
	{ "ffn_gate", "feed_forward.w1", "FD", 0, 0 },
	{ "ffn_up", "feed_forward.w3", "FD", 0, 0 },
	{ "ffn_down", "feed_forward.w2", "DF", 0, 0 }, END
};
static const struct name_row layer_mamba[] = {
	{ "attn_norm", "norm", "D", 0, 0 },
	{ "ssm_in", "mixer.in_proj", "JD", 0, 0 },
	{ "ssm_conv1d", "mixer.conv1d", "IUR", 0, BIAS_MUST },
	{ "ssm_x", "mixer.x_proj", "WI", 0, 0 },
	{ "ssm_dt", "mixer.dt_proj", "IT", 0, BIAS_MUST },
	{ "ssm_a", "mixer.A_log", "IP", 0, BARE | BARE_FROM | MINUS_EXP },
	{ "ssm_d", "mixer.D", "I", 0, BARE | BARE_FROM },
	{ "ssm_out", "mixer.out_proj", "DI", 0, 0 }, END
};

/* ---- what else config.json tells ---- */

#define SETTINGS_END { NULL, NULL, SET_END, false, 0, 0 }
#define MUST_BE(names, v) { names, NULL, CHECK_BOOL, false, v, 0 }

static const struct setting settings_none[] = { SETTINGS_END };
static const struct setting settings_mixtral[] = {
	{ "num_local_experts|num_experts", "expert_count", SET_WHOLE, true, 0,
	  'E' },
	{ "num_experts_per_tok", "expert_used_count", SET_WHOLE, true, 0, 'B' },
	SETTINGS_END
};
#define QWEN_EXPERTS(norm) \
	{ "num_experts|num_local_experts", "expert_count", SET_WHOLE, true, 0, \
	  'E' }, \
	{ "num_experts_per_tok", "expert_used_count", SET_WHOLE, true, 0, \
	  'B' }, \
	{ "moe_intermediate_size", "expert_feed_forward_length", SET_WHOLE, \
	  true, 0, 'X' }, \
	MUST_BE("norm_topk_prob", norm), \
	{ "decoder_sparse_step", NULL, CHECK_WHOLE, false, 1, 0 }, \
	{ "mlp_only_layers", NULL, CHECK_EMPTY, false, 0, 0 }
static const struct setting settings_qwen2moe[] = {
	QWEN_EXPERTS(0),
	{ "shared_expert_intermediate_size",
	  "expert_shared_feed_forward_length", SET_WHOLE, true, 0, 'S' },
	SETTINGS_END
};
static const struct setting settings_qwen3moe[] = {
	QWEN_EXPERTS(1), SETTINGS_END
};
static const struct setting settings_gemma2[] = {
	{ "attn_logit_softcapping", "attn_logit_softcapping", SET_REAL, true,
	  0, 0 },
	{ "final_logit_softcapping", "final_logit_softcapping", SET_REAL, true,
	  0, 0 },
	SETTINGS_END
};
static const struct setting settings_gemma3[] = {
	{ "final_logit_softcapping", "final_logit_softcapping", SET_SCALE,
	  false, 0, 0 },
	SETTINGS_END
};
static const struct setting settings_phi2[] = {
	MUST_BE("qk_layernorm", 0), SETTINGS_END
};
static const struct setting settings_parallel[] = {
	{ "use_parallel_residual", "use_parallel_residual", SET_BOOL, false, 1,
	  0 },
	SETTINGS_END
};
static const struct setting settings_gpt2[] = {
	MUST_BE("scale_attn_by_inverse_layer_idx", 0),
	MUST_BE("scale_attn_weights", 1), SETTINGS_END
};
static const struct setting settings_falcon[] = {
	MUST_BE("alibi", 0), MUST_BE("bias", 0), MUST_BE("parallel_attn", 1),
	SETTINGS_END
};
/* 1 is what a configuration without them means */
static const struct setting settings_granite[] = {
	{ "attention_multiplier", "attention.scale", SET_SCALE, false, 1, 0 },
	{ "embedding_multiplier", "embedding_scale", SET_SCALE, false, 1, 0 },
	{ "residual_multiplier", "residual_scale", SET_SCALE, false, 1, 0 },
	{ "logits_scaling", "logit_scale", SET_SCALE, false, 1, 0 },
	SETTINGS_END
};
static const struct setting settings_mamba[] = {
	{ "conv_kernel|d_conv", "ssm.conv_kernel", SET_WHOLE, false, 4, 'R' },
	{ "state_size|d_state", "ssm.state_size", SET_WHOLE, false, 16, 'P' },
	MUST_BE("use_conv_bias", 1), MUST_BE("use_bias", 0),
	SETTINGS_END
};

/* ---- classes ---- */

#define LAYERS "model.layers."
#define CONTEXT .context = "max_position_embeddings"
#define FF .ff = "intermediate_size|n_inner"
#define RMS .eps = "rms_norm_eps", .eps_default = -1
#define LN .eps = "layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps", \
	.eps_default = -1
#define USUAL .prefix = LAYERS, .global = global, CONTEXT, FF, RMS, \
	.settings = settings_none, .spm = SPM_FIRST, .act = "silu"

static const struct class classes[] = {
	{ "LlamaForCausalLM", "llama", USUAL, .layer = layer_llama,
	  .traits = SPACE_GIVEN },
	{ "MistralForCausalLM", "llama", USUAL, .layer = layer_llama,
	  .traits = SPACE_GIVEN },
	{ "MixtralForCausalLM", "llama", .prefix = LAYERS, .global = global,
	  CONTEXT, FF, RMS, .settings = settings_mixtral, .spm = SPM_FIRST,
	  .act = "silu", .layer = layer_mixtral, .traits = SPACE_GIVEN },
	{ "Qwen2ForCausalLM", "qwen2", USUAL, .layer = layer_qwen2 },
	{ "Qwen3ForCausalLM", "qwen3", USUAL, .layer = layer_qwen3 },
	{ "Qwen2MoeForCausalLM", "qwen2moe", .prefix = LAYERS,
	  .global = global, CONTEXT, FF, RMS, .settings = settings_qwen2moe,
	  .act = "silu", .layer = layer_qwen2moe },
	{ "Qwen3MoeForCausalLM", "qwen3moe", .prefix = LAYERS,
	  .global = global, CONTEXT, FF, RMS, .settings = settings_qwen3moe,
	  .act = "silu", .layer = layer_qwen3moe },
	{ "GemmaForCausalLM", "gemma", .prefix = LAYERS, .global = global,
	  CONTEXT, FF, RMS, .settings = settings_none, .spm = SPM_FIRST,
	  .act = "gelu", .layer = layer_gemma,
	  .traits = NORM_PLUS_1 | TIED | NO_SPACE | DROP_OUTPUT },
	{ "Gemma2ForCausalLM", "gemma2", .prefix = LAYERS, .global = global,
	  CONTEXT, FF, RMS, .settings = settings_gemma2, .spm = SPM_FIRST,
	  .act = "gelu", .layer = layer_gemma2, .more = config_gemma2,
	  .traits = NORM_PLUS_1 | TIED | NO_SPACE | DROP_OUTPUT | WINDOW },
#define GEMMA3 .prefix = LAYERS, .global = global, CONTEXT, \
	  .context_fixed = 131072, FF, .eps = "rms_norm_eps", \
	  .eps_default = 1e-6, .base_default = 1e6, \
	  .settings = settings_gemma3, .spm = SPM_FIRST, .act = "gelu", \
	  .heads = 8, .kv_heads = 4, .head = 256, \
	  .layer = layer_gemma3, .more = config_gemma3, \
	  .traits = NORM_PLUS_1 | TIED | NO_SPACE | DROP_OUTPUT
	{ "Gemma3ForCausalLM", "gemma3", GEMMA3 },
	{ "Gemma3ForConditionalGeneration", "gemma3", GEMMA3 },
	{ "PhiForCausalLM", "phi2", .prefix = LAYERS, .global = global_phi,
	  .context = "n_positions|max_position_embeddings", LN,
	  .settings = settings_phi2, .act = "gelu", .layer = layer_phi2,
	  .rotary = "partial_rotary_factor",
	  .traits = LAYER_NORM | HEADS_FROM_KV | ROTARY_OF_EMBD | NO_BOS },
	{ "Phi3ForCausalLM", "phi3", .prefix = LAYERS, .global = global,
	  .context = "n_positions|max_position_embeddings", FF, RMS,
	  .settings = settings_none, .act = "silu", .spm = SPM_FIRST,
	  .layer = layer_phi3, .more = config_phi3,
	  .rotary = "partial_rotary_factor", .rotary_default = 1,
	  .traits = WINDOW | ROTARY_OF_EMBD },
	{ "StableLmForCausalLM", "stablelm", .prefix = LAYERS,
	  .global = global_layer_norm, CONTEXT, FF, LN,
	  .settings = settings_parallel, .act = "silu",
	  .rotary = "partial_rotary_factor|rope_pct",
	  .layer = layer_stablelm, .traits = LAYER_NORM },
	{ "Starcoder2ForCausalLM", "starcoder2", .prefix = LAYERS,
	  .global = global_layer_norm, CONTEXT, FF, LN,
	  .settings = settings_none, .act = "gelu",
	  .layer = layer_starcoder2, .traits = LAYER_NORM | TIED },
	{ "GPTNeoXForCausalLM", "gptneox", .prefix = "gpt_neox.layers.",
	  .global = global_neox, CONTEXT, FF, LN,
	  .settings = settings_parallel, .act = "gelu",
	  .rotary = "rotary_pct", .layer = layer_neox,
	  .traits = LAYER_NORM },
	{ "GPT2LMHeadModel", "gpt2", .prefix = "h.", .global = global_gpt2,
	  .context = "n_ctx|n_positions", LN, .settings = settings_gpt2,
	  .act = "gelu", .layer = layer_gpt2,
	  .traits = LAYER_NORM | TIED | NO_ROPE },
#define FALCON .prefix = "transformer.h.", .global = global_falcon, \
	  .context_fixed = 2048, LN, .settings = settings_falcon, \
	  .act = "gelu", .layer = layer_falcon, \
	  .traits = LAYER_NORM | TIED | ONE_KV
	{ "FalconForCausalLM", "falcon", FALCON },
	{ "RWForCausalLM", "falcon", FALCON },
	{ "Olmo2ForCausalLM", "olmo2", .prefix = LAYERS, .global = global,
	  CONTEXT, FF, RMS, .settings = settings_none, .act = "silu",
	  .layer = layer_olmo2 },
	{ "GraniteForCausalLM", "granite", .prefix = LAYERS, .global = global,
	  CONTEXT, FF, RMS, .settings = settings_granite, .spm = SPM_FIRST,
	  .act = "silu", .layer = layer_llama, .traits = SPACE_GIVEN },
	{ "MiniCPMForCausalLM", "minicpm", USUAL, .layer = layer_llama,
	  .more = config_minicpm, .traits = TIED },
	{ "InternLM2ForCausalLM", "internlm2", .prefix = LAYERS,
	  .global = global_internlm2, CONTEXT, FF, RMS,
	  .settings = settings_none, .spm = SPM_FIRST, .act = "silu",
	  .layer = layer_internlm2 },
	{ "SmolLM3ForCausalLM", "smollm3", USUAL, .layer = layer_llama,
	  .more = config_smollm3, .traits = TIED | SPACE_GIVEN },
#define MAMBA .prefix = "backbone.layers.", .global = global_mamba, \
	  .context_fixed = 1048576, \
	  .eps = "rms_norm_eps|layer_norm_epsilon", .eps_default = 1e-5, \
	  .settings = settings_mamba, .act = "silu", .spm = SPM_LAST, \
	  .layer = layer_mamba, .more = config_mamba, \
	  .traits = TIED | NO_HEADS | NO_ROPE | VOCAB_MULTIPLE
	{ "MambaForCausalLM", "mamba", MAMBA },
	{ "MambaLMHeadModel", "mamba", MAMBA },
	{ "FalconMambaForCausalLM", "mamba", MAMBA },
};

const struct class *
class_find(struct pico_str name)
{
	size_t i;

	for (i = 0; i < COUNT(classes); i++)
		if (pico_str_is(name, classes[i].name))
			return &classes[i];
	return NULL;
}

/* "ForCausalLM" goes without saying. */
static int
stem(const char *name)
{
	const char *end = strstr(name, "ForCausalLM");

	return (int)(end != NULL ? (size_t)(end - name) : strlen(name));
}

const char *
class_names(void)
{
	static char list[COUNT(classes) * 32];
	size_t i, n = 0;

	for (i = 0; i < COUNT(classes); i++)
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%.*s",
		    i > 0 ? ", " : "", stem(classes[i].name),
		    classes[i].name);
	return list;
}
