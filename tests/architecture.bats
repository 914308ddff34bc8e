# Each architecture and option against a pass written apart, in 64 bits, from
# the same formulas: tests/reference.py. The models are made on the spot
# (tests/refcases.py). What has a case in conformance/arch is in
# tests/unit/test_arch.c; here is the rest.
load helper

setup() {
	command -v python3 >/dev/null || skip 'needs python3'
	cd "$BATS_TEST_TMPDIR"
	echo 3 32 61 10 39 68 17 46 75 24 24 53 2 31 60 9 38 67 16 45 >ids
}

TAB=$(printf '\t')

reference() {
	python3 "$ROOT/tests/reference.py" "$@"
}

# agree CASE...: the logits are those of the reference, and the same bits from
# other kernels, threads and pieces. Tells of each case that fails.
agree() {
	local case failed=0
	for case; do
		echo 'no logits' >remark
		reference make $case m.gguf &&
		pico-forward -a -b --kv-type f32 -m m.gguf ids >out &&
		reference check m.gguf -t ${TOLERANCE:-0.001} <out >remark || {
			echo "$case: $(cat remark)"
			failed=1
			continue
		}
		echo "$case: $(cat remark)"
		PICO_CPU=scalar pico-forward -a -b --kv-type f32 -t 3 \
		    --chunk 7 -m m.gguf ids | cmp out - || failed=1
	done
	return $failed
}

# refused CASE NAME CHANGE ...: in one line that has the name.
refused() {
	reference make $1 m.gguf "${@:3}"
	run_split pico-forward -q -m m.gguf ids
	expect_error 1 "$2"
}

# unchanged CASE CHANGE ...: these change nothing.
unchanged() {
	reference make $1 m.gguf
	pico-forward -a -b -m m.gguf ids >out
	reference make $1 m.gguf "${@:2}"
	pico-forward -a -b -m m.gguf ids | cmp out -
}

@test "architecture: the reference has the right answers" {
	reference trust "$DATA/arch"
	[ -z "$SHARED" ] || reference trust "$SHARED/conformance/arch"
}

@test "architecture: every case is in this file" {
	local case
	for case in $(reference cases); do
		grep -q "[ $TAB]$case\( \|\$\)" "$BATS_TEST_FILENAME" || {
			echo "no test for $case"
			return 1
		}
	done
}

@test "architecture: llama" {
	agree llama-qkv llama-qkv-biases-apart llama-bf16 llama-arrays \
	    llama-scale-linear llama-scaling-none llama-attn-factor \
	    llama-experts-apart llama-experts-gate-up llama-longrope
}

@test "architecture: minicpm" {
	agree minicpm-longrope minicpm-tied
}

@test "architecture: mistral3" {
	agree mistral3 mistral3-plain
}

@test "architecture: internlm2" {
	agree internlm2 internlm2-qkv
}

@test "architecture: smollm3" {
	agree smollm3-tied
}

@test "architecture: exaone" {
	agree exaone-freqs
}

@test "architecture: baichuan" {
	agree baichuan-13b baichuan-other
}

@test "architecture: granite" {
	agree granite-residual granite-embedding granite-attention \
	    granite-no-rope
}

@test "architecture: granitemoe" {
	agree granitemoe granitemoe-shared
}

@test "architecture: olmo" {
	agree olmo-clamp
}

@test "architecture: deepseek" {
	agree deepseek-scale
}

@test "architecture: qwen2" {
	agree qwen2-tied qwen2-qkv-biases-apart qwen2-output-bias
}

@test "architecture: qwen2moe" {
	agree qwen2moe qwen2moe-widths
}

@test "architecture: qwen3" {
	agree qwen3-qkv qwen3-tied
}

@test "architecture: qwen3moe" {
	agree qwen3moe-gate-up qwen3moe-sigmoid
}

@test "architecture: olmoe" {
	agree olmoe olmoe-late
}

@test "architecture: olmo2" {
	agree olmo2-window olmo2-two-bases olmo2-kv
}

@test "architecture: phi2" {
	agree phi2-qkv
}

@test "architecture: phi3" {
	agree phi3-split phi3-partial phi3-untyped phi3-window
}

@test "architecture: gemma" {
	agree gemma-wide
}

@test "architecture: gemma2" {
	agree gemma2-46l gemma2-pattern-number
}

@test "architecture: gemma3" {
	agree gemma3-62l gemma3-pattern-bools gemma3-no-window
}

@test "architecture: stablelm" {
	agree stablelm-12b stablelm-qk-norm
}

@test "architecture: starcoder2" {
	agree starcoder2-tied
}

@test "architecture: gptneox" {
	agree gptneox-serial gptneox-parallel
}

@test "architecture: falcon" {
	agree falcon-40b falcon-tied
}

@test "architecture: command-r" {
	agree command-r-plus
}

@test "architecture: cohere2" {
	agree cohere2
}

@test "architecture: nemotron" {
	agree nemotron-biases
}

@test "architecture: starcoder" {
	agree starcoder
}

@test "architecture: gpt2" {
	agree gpt2-tied
}

@test "architecture: bloom" {
	agree bloom-3-heads bloom-6-heads
}

@test "architecture: mpt" {
	agree mpt mpt-all mpt-positions
}

@test "architecture: exaone4" {
	agree exaone4 exaone4-64l
}

@test "architecture: chatglm" {
	agree chatglm-split
}

@test "architecture: glm4" {
	agree glm4-biases
}

@test "architecture: gpt-oss" {
	agree gpt-oss-pattern
	# 8 bits meet these weights
	TOLERANCE=0.5 agree gpt-oss-mxfp4
}

@test "architecture: deepseek2" {
	agree deepseek2-lite deepseek2-mla deepseek2-yarn \
	    deepseek2-lite-mla deepseek2-v3 deepseek2-v3-no-groups
}

@test "architecture: mamba" {
	agree falconmamba mamba-tied
}

@test "architecture: rwkv6" {
	agree rwkv6-lerps-apart rwkv6-rescale
}

@test "architecture: rwkv7" {
	agree rwkv7 rwkv7-no-first-v
}

# ---- keys ----

@test "architecture: ALiBi has as many heads in every layer" {
	refused mpt "'mpt.attention.head_count' differs between layers" \
	    mpt.attention.head_count='[4, 2]' \
	    mpt.attention.head_count_kv='[4, 2]' \
	    mpt.attention.key_length=8 mpt.attention.value_length=8
}

@test "architecture: keys of what is done anyway" {
	# StableLM's converter writes true for every model
	for v in true false; do
		unchanged stablelm-12b stablelm.use_parallel_residual=$v
		unchanged stablelm-qk-norm stablelm.use_parallel_residual=$v
	done
	# 0: what it would be without the key
	unchanged qwen2moe-widths \
	    qwen2moe.expert_shared_feed_forward_length=0 \
	    qwen2moe.expert_feed_forward_length=0
	unchanged llama-qkv llama.expert_feed_forward_length=0 \
	    llama.expert_count=0
	# of a norm that it does not have
	unchanged internlm2 internlm2.attention.layer_norm_epsilon=0.5
	unchanged bloom-3-heads bloom.attention.max_alibi_bias=8.0
	unchanged baichuan-13b baichuan.attention.max_alibi_bias=8.0
	# 27B: by the width of the model
	unchanged gemma3-62l gemma3.attention.scale=0.25
	unchanged gemma3-no-window gemma3.attention.scale=0.0
	unchanged cohere2 cohere2.rope.freq_base_swa=700.0 \
	    cohere2.attention.key_length_swa=8 \
	    cohere2.rope.dimension_count_swa=8
}

@test "architecture: keys of what is not done" {
	refused falcon-40b "'falcon.attention.max_alibi_bias' is 8: not implemented" \
	    falcon.attention.max_alibi_bias=8.0
	refused bloom-3-heads 'max_alibi_bias' \
	    bloom.attention.max_alibi_bias=6.0
	refused qwen3-tied "'qwen3.attention.scale' is 0.5" \
	    qwen3.attention.scale=0.5
	refused gpt-oss-pattern "'gpt-oss.rope.freq_base_swa' is 900" \
	    gpt-oss.rope.freq_base_swa=900.0
	refused cohere2 'cohere2.attention.key_length_swa' \
	    cohere2.attention.key_length_swa=4
	refused gemma3-62l 'gemma3.rope.dimension_count_swa' \
	    gemma3.rope.dimension_count_swa=2
	refused phi2-qkv 'phi2.rope.dimension_sections' \
	    phi2.rope.dimension_sections='[2, 2, 0, 0]'
	refused cohere2 'cohere2.attention.sliding_window_pattern' \
	    cohere2.attention.sliding_window_pattern=0
	refused olmoe 'olmoe.expert_shared_count' olmoe.expert_shared_count=1
	refused granite-residual 'granite.final_logit_softcapping' \
	    granite.final_logit_softcapping=30.0
	refused granite-residual 'granite.logit_scale' granite.logit_scale=1e-42
	refused mamba-tied 'mamba.wkv.head_size' mamba.wkv.head_size=8
	refused starcoder 'starcoder.attention.causal' \
	    starcoder.attention.causal=false
}

@test "architecture: a width that nothing has costs no memory" {
	reference make qwen3moe-gate-up m.gguf
	pico-inspect --plan m.gguf >want
	reference make qwen3moe-gate-up m.gguf \
	    qwen3moe.feed_forward_length=16000000
	pico-inspect --plan m.gguf | diff want -
}

@test "architecture: tensors that are missing, or too many" {
	refused phi2-qkv "'output.bias' is missing" output.bias=
	refused qwen3-tied "'blk.1.attn_k_norm.weight' is missing" \
	    blk.1.attn_k_norm.weight=
	refused rwkv7 "'blk.1.time_mix_v0.weight' is missing" \
	    blk.1.time_mix_v0.weight=
	refused deepseek2-lite "'blk.0.attn_kv_a_norm.weight' is missing" \
	    blk.0.attn_kv_a_norm.weight=
	refused bloom-3-heads "'token_embd_norm.bias' is missing" \
	    token_embd_norm.bias=
	# of a pair, one
	refused stablelm-qk-norm "'blk.0.attn_k_norm.weight' has no place" \
	    blk.0.attn_q_norm.weight=
	refused stablelm-qk-norm "'blk.0.attn_k_norm.weight' is missing" \
	    blk.0.attn_k_norm.weight=
	# a bias for the second time
	refused llama-qkv "'blk.0.attn_q.bias' has no place" \
	    blk.0.attn_q.bias='[48]'
	refused gemma2-pattern-number "'blk.0.attn_q.bias' has no place" \
	    blk.0.attn_q.bias='[32]'
	refused mamba-tied "'blk.0.ffn_norm.weight' has no place" \
	    blk.0.ffn_norm.weight='[32]'
	refused olmo-clamp "'output_norm.weight' has no place" \
	    output_norm.weight='[32]'
	refused exaone-freqs "'rope_freqs.weight' has shape 5, needs 4" \
	    rope_freqs.weight='[5]'
}
