/* SPDX-License-Identifier: MIT */
/* A folder of a tiny model, of which one file is what the fuzzer makes. */
#ifndef PICO_FUZZ_FOLDER_H
#define PICO_FUZZ_FOLDER_H

#include <sys/stat.h>

#include "fuzz.h"

/* The folder of this process. */
static inline const char *
folder(void)
{
	static char path[120];

	if (path[0] == '\0') {
		(void)snprintf(path, sizeof path, "%s.d", fuzz_path());
		MUST(mkdir(path, 0700) == 0);
	}
	return path;
}

static inline void
folder_put(const char *name, const void *data, size_t n)
{
	char path[200];
	FILE *f;

	(void)snprintf(path, sizeof path, "%s/%s", folder(), name);
	f = fopen(path, "wb");
	MUST(f != NULL && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

/* One layer of width 4, 300 tokens, all weights 0. */
static inline void
folder_model(void)
{
	static const char config[] = "{\"architectures\":[\"LlamaForCausalLM\"],"
	    "\"hidden_size\":4,\"num_attention_heads\":1,"
	    "\"num_hidden_layers\":1,\"intermediate_size\":4,"
	    "\"vocab_size\":300,\"max_position_embeddings\":8,"
	    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true}";
	static const char *const names[] = {
		"embed_tokens", "norm", "layers.0.input_layernorm",
		"layers.0.post_attention_layernorm", "layers.0.self_attn.q_proj",
		"layers.0.self_attn.k_proj", "layers.0.self_attn.v_proj",
		"layers.0.self_attn.o_proj", "layers.0.mlp.gate_proj",
		"layers.0.mlp.up_proj", "layers.0.mlp.down_proj",
	};
	static char buf[8192];
	unsigned long long n = 0, at = 0, bytes;
	size_t i, used = 8;

	for (i = 0; i < sizeof names / sizeof *names; i++) {
		bytes = i == 0 ? 2400 : i < 4 ? 8 : 32;
		used += (size_t)snprintf(buf + used, sizeof buf - used,
		    "%c\"model.%s.weight\":{\"dtype\":\"BF16\",\"shape\":[%s],"
		    "\"data_offsets\":[%llu,%llu]}", i == 0 ? '{' : ',',
		    names[i], i == 0 ? "300,4" : i < 4 ? "4" : "4,4", at,
		    at + bytes);
		at += bytes;
	}
	buf[used++] = '}';
	n = used - 8;
	memcpy(buf, &n, 8);
	memset(buf + used, 0, at);
	folder_put("config.json", config, sizeof config - 1);
	folder_put("model.safetensors", buf, used + at);
}

static inline void
folder_convert(void)
{
	struct pico_convert_params p = { .type = "f16", .n_threads = 1 };
	struct pico_err err = {0};
	struct pico_convert *c = pico_convert_open(folder(), &p, &err);

	fuzz_check(c == NULL, &err);
	pico_convert_close(c);
}

#endif
