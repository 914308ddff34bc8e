# SPDX-License-Identifier: MIT
# pico-convert: folders to GGUF files, and those that are refused.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	CASES=$DATA/convert
}

# folder NAME: a copy to change, called `f`
folder() {
	rm -rf f
	cp -r "$CASES/$1" f
	chmod -R u+w f
}

# refused PATTERN [OPTION ...]: in one line; what was there before stays
refused() {
	echo old >out.gguf
	run_split pico-convert "${@:2}" f out.gguf
	expect_error 1 "$1"
	[ "$(cat out.gguf)" = old ]
	[ "$(ls | grep -c out.gguf)" -eq 1 ]
}

# agree DIR: all good cases of a folder, in all types
agree() {
	command -v python3 >/dev/null || skip 'needs python3'
	local name expect options types rest type n=0
	while IFS="$(printf '\t')" read -r name expect options types rest; do
		[ "$expect" = ok ] || continue
		[ "$options" = - ] && options=
		for type in $types; do
			pico-convert "$1/$name" out.gguf --type $type $options
			python3 "$ROOT/tests/checkgguf.py" out.gguf \
			    "$1/$name.expected.json" $type
			n=$((n + 1))
		done
	done <"$1/MANIFEST.tsv"
	[ "$n" -ge 16 ]
}

@test 'convert: keys and tensors are those that they should be' {
	agree "$CASES"
}

@test 'convert: those of all cases are' {
	need_shared
	agree "$SHARED/conformance/convert"
}

@test 'convert: all broken folders are refused, by name' {
	need_shared
	local name expect options type rest has n=0 dir
	dir=$SHARED/conformance/convert
	while IFS="$(printf '\t')" read -r name expect options type _ _ _ _ _ _ \
	    has rest; do
		[ "$expect" = refuse ] || continue
		ln -sfn "$dir/$name" f
		echo "$name"
		refused "$has" --type $type
		n=$((n + 1))
	done <"$dir/MANIFEST.tsv"
	[ "$n" -ge 46 ]
}

@test 'convert: what is converted runs' {
	local dir=$CASES name rest
	[ -z "$SHARED" ] || dir=$SHARED/conformance/convert
	while IFS="$(printf '\t')" read -r name expect options rest; do
		[ "$expect" = ok ] || continue
		[ "$options" = - ] && options=
		pico-convert "$dir/$name" m.gguf --type f32 $options
		echo "$name"
		echo 'the text' | pico-tokenize -m m.gguf >ids
		pico-generate -m m.gguf -n 3 --temp 0 ids >out
		pico-detokenize -m m.gguf out >text
		echo 5 6 7 8 9 10 11 >ids
		pico-forward -m m.gguf -a -b --kv-type f32 ids >logits
		! command -v python3 >/dev/null || python3 \
		    "$ROOT/tests/reference.py" check m.gguf -t 0.001 <logits
	done <"$dir/MANIFEST.tsv"
}

@test 'convert: the same bytes for any number of threads' {
	for type in f16 q8_0 Q4_K_M keep; do
		pico-convert -t 1 "$CASES/llama-sharded" a.gguf --type $type
		pico-convert -t 3 "$CASES/llama-sharded" b.gguf --type $type
		cmp a.gguf b.gguf
	done
}

@test 'convert: types' {
	local t=$CASES/qwen2
	types() {
		pico-convert --dry-run --type $1 $t | awk -F'\t' 'NF == 4 { print $2 }' |
		    sort -u | xargs
	}
	[ "$(types f32)" = F32 ]
	[ "$(types keep)" = 'BF16 F32' ]
	[ "$(types auto)" = 'BF16 F32' ]
	# rows of 48 are no whole blocks
	[ "$(types q8_0)" = 'F16 F32 Q8_0' ]
	[ "$(types Q4_0)" = 'F16 F32 Q4_0 Q8_0' ]
	run_split pico-convert --type q7 $t out.gguf
	expect_error 2 "type 'q7' is not known"
}

@test 'convert: a mix is what pico-quantize makes' {
	local type
	pico-convert --type f32 "$CASES/llama-sharded" all.gguf
	for type in Q8_0 Q4_0 Q4_K_M Q2_K IQ4_XS; do
		pico-convert --type $type "$CASES/llama-sharded" out.gguf
		pico-quantize -q all.gguf want.gguf $type
		cmp out.gguf want.gguf
	done
}

@test 'convert: --dry-run lists what is written' {
	pico-convert --dry-run "$CASES/llama-sharded" >list
	pico-convert "$CASES/llama-sharded" out.gguf
	pico-inspect out.gguf >/dev/null
	grep -q "^general.architecture	str	llama$" list
	grep -q "^token_embd.weight	BF16	32x288	18432$" list
	[ "$(awk -F'\t' 'NF == 4' list | wc -l)" -eq "$(pico-inspect --json out.gguf |
	    grep -o '"dims"' | wc -l)" ]
	rm out.gguf
	pico-convert --dry-run "$CASES/llama-sharded" >/dev/null
	[ ! -e out.gguf ]
	run_split pico-convert --dry-run "$CASES/llama-sharded" out.gguf
	expect_error 2 'a folder is wanted'
	run_split pico-convert "$CASES/llama-sharded"
	expect_error 2 'a folder and a file'
}

@test 'convert: the name is that of the folder, or what one wants' {
	cp -r "$CASES/json-escapes" 'My-Model'
	name() {
		pico-convert --dry-run "$@" | sed -n 's/^general.name	str	//p'
	}
	[ "$(name My-Model)" = 'My Model' ]
	[ "$(cd My-Model && name .)" = 'My Model' ]
	[ "$(name --name a-b My-Model)" = a-b ]
}

@test 'convert: folders that are none' {
	mkdir f
	refused "'f': no config.json is there"
	rmdir f
	echo >f
	refused 'not a folder'
	rm f
	refused 'No such file'
	folder json-escapes
	rm f/model.safetensors
	refused 'no model.safetensors.*\*.bin'
	folder json-escapes
	rm f/tokenizer.json
	refused 'no tokenizer'
	mkfifo f/tokenizer.json
	refused 'tokenizer.json. is not a regular file'
}

@test 'convert: a folder of links, as a cache of downloads is' {
	mkdir -p models--a--b-c/blobs models--a--b-c/snapshots/1
	ln -s models--a--b-c cache
	local f
	for f in "$CASES"/llama-sharded/*; do
		cp "$f" "cache/blobs/b-${f##*/}"
		ln -s "../../blobs/b-${f##*/}" "cache/snapshots/1/${f##*/}"
	done
	pico-convert --name x "$CASES/llama-sharded" want.gguf
	pico-convert --name x cache/snapshots/1 out.gguf
	cmp out.gguf want.gguf
	pico-convert --dry-run cache/snapshots/1 | grep '^general.name	str	b c$'
	# one that was not downloaded is not as if there were none
	ln -s cache/snapshots/1 f
	for f in tokenizer_config.json model.safetensors.index.json; do
		mv cache/blobs/b-$f kept
		refused "$f.: No such file"
		mv kept cache/blobs/b-$f
	done
}

@test 'convert: configurations that cannot be' {
	local c
	for c in 's/"hidden_size": *16/"hidden_size": 16.0/|hidden_size.*16.0' \
	    's/"hidden_size": *16/"hidden_size": -16/|hidden_size.*whole' \
	    's/"hidden_size": *16/"hidden_size": null/|no hidden_size' \
	    's/"hidden_size": *16/"hidden_size": 17/|no multiple' \
	    's/"hidden_size": *16/"hidden_size": 99999999999/|hidden_size' \
	    's/"vocab_size": *[0-9]*/"vocab_size": 4000000000/|too large' \
	    's/"num_attention_heads": *2/"num_attention_heads": 0/|num_attention_heads' \
	    's/"num_hidden_layers": *1/"num_hidden_layers": 2000000000/|layers.1' \
	    's/LlamaForCausalLM/LamaForCausalLM/|LamaForCausalLM.* not known' \
	    's/silu/gelu/|hidden_act.*silu' \
	    's/"vocab_size"/"vocab_size": 1, "vocab_size"/|vocab_size.*twice' \
	    's/"model_type"/"quantization_config": {}, "model_type"/|quantization_config' \
	    's/"model_type"/"rope_scaling": {"type": "linear"}, "model_type"/|no factor' \
	    's/"model_type"/"rope_scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 9, "beta_fast": 8}, "model_type"/|beta_fast.*only 32' \
	    's/"model_type"/"rope_scaling": 5, "model_type"/|rope_scaling' \
	    's/"rms_norm_eps"/"no_eps"/|no rms_norm_eps' \
	    's/"rms_norm_eps": *[^,]*/"rms_norm_eps": -1/|norm_rms_epsilon.* would be -1' \
	    's/"rms_norm_eps": *[^,]*/"rms_norm_eps": 1e300/|norm_rms_epsilon.* would be 1e' \
	    's/"rope_theta": *10000.0/"rope_theta": 1/|rope_theta is 1' \
	    's/"model_type"/"rope_scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 9.5}, "model_type"/|9.5.*whole' \
	    's/"model_type"/"rope_scaling": {"type": "llama3", "factor": 1e-300, "low_freq_factor": 1, "high_freq_factor": 4}, "model_type"/|factor of 0' \
	    's/"vocab_size": *[0-9]*/"vocab_size": 270/|vocab_size'; do
		folder pre-override
		sed -i "${c%|*}" f/config.json
		echo "$c"
		refused "${c##*|}" --pre qwen2
	done
}

@test 'convert: Granite without scales has those that are 1' {
	need_shared
	CASES=$SHARED/conformance/convert
	folder granite
	sed -i '/_multiplier"\|logits_scaling/d' f/config.json
	[ "$(pico-convert --dry-run f | grep -c 'scale	f32	1$')" -eq 4 ]
}

@test 'convert: no more experts of a token than there are' {
	need_shared
	CASES=$SHARED/conformance/convert
	folder mixtral
	sed -i 's/"num_experts_per_tok": *[0-9]*/"num_experts_per_tok": 99/' \
	    f/config.json
	refused 'num_experts_per_tok is 99, there are'
}

@test 'convert: a tokenizer that is not known, unless it has a name' {
	folder pre-override
	refused 'pre_tokenizer.*--pre'
	run_split pico-convert --pre nonsense f out.gguf
	expect_error 2 "'nonsense' is not known"
	pico-convert --pre qwen2 f out.gguf
	folder json-escapes
	sed -i 's/"type": *"BPE"/"type": "WordPiece"/' f/tokenizer.json
	refused "WordPiece"
	folder json-escapes
	sed -i 's/"normalizer": *null/"normalizer": {"type": "Lowercase"}/' \
	    f/tokenizer.json
	refused "Lowercase"
	folder json-escapes
	sed -i 's/"id": *275/"id": 274/' f/tokenizer.json
	refused 'two added tokens have the id 274'
}

@test 'convert: files cut at any place are refused, never a crash' {
	local file size n
	for file in model.safetensors tokenizer.json config.json; do
		size=$(wc -c <"$CASES/json-escapes/$file")
		for n in 0 1 7 8 9 $((size / 3)) $((size / 2)) \
		    $((size - 2)); do
			folder json-escapes
			head -c $n "$CASES/json-escapes/$file" >f/$file
			refused "$file"
		done
	done
	size=$(wc -c <"$CASES/llama-sharded/tokenizer.model")
	# some of these places are between two pieces
	folder llama-sharded
	for n in 0 1 2 3 10 $(seq 1000 1020) $((size - 1)); do
		head -c $n "$CASES/llama-sharded/tokenizer.model" \
		    >f/tokenizer.model
		refused 'tokenizer.model'
	done
}

@test 'convert: vocabularies of real models tokenize as the original does' {
	need_shared
	command -v python3 >/dev/null || skip 'needs python3'
	local vocab base n=0 dir=$SHARED/conformance
	while read -r vocab base; do
		gzip -dc "$dir/tokenizer/vocab/$vocab.gguf.gz" >vocab.gguf
		rm -rf f
		python3 "$ROOT/tests/hfround.py" make vocab.gguf \
		    "$dir/convert/$base" f
		# its name makes special tokens take white space
		pico-convert --name $vocab f m.gguf
		echo "$vocab"
		python3 "$ROOT/tests/hfround.py" check m.gguf \
		    "$dir/tokenizer/$vocab.cases.jsonl"
		n=$((n + 1))
	done <<-'END'
		llama3-bpe tok-llama3
		qwen3-bpe tok-qwen3
		deepseek-v3-30k tok-deepseek3
		o200k-30k tok-o200k
		gpt-2 gpt2
		falcon falcon
		starcoder starcoder2
		llama-spm tok-mistral
		llama-spm llama-bias
		gemma3-spm tok-gemma3
		phi-3 llama-bias
	END
	[ "$n" -eq 11 ]
}

@test 'convert: chat templates with the same name' {
	local a='{"name": "a b", "template": "x"}' f=f/tokenizer_config.json
	folder json-escapes
	rm $f
	echo "{\"chat_template\": [$a, {\"name\": \"c\", \"template\": \"\"}]}" >$f
	pico-convert --dry-run f | grep 'tokenizer.chat_template.a_b	str	x'
	echo "{\"chat_template\": [$a, {\"name\": \"a_b\", \"template\": \"y\"}]}" >$f
	refused 'chat_template.a_b. would be there twice'
	echo "{\"chat_template\": [$a$(yes ", $a" | head -n 100 | tr -d '\n')]}" >$f
	refused 'has 101 chat templates'
}

@test 'convert: a pointer of Git LFS is called what it is' {
	folder json-escapes
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' \
	    >f/model.safetensors
	refused "'model.safetensors' is a pointer of Git LFS"
}

@test 'convert: memory does not grow with the model' {
	# 300 MB of weights
	"$BUILD_DIR/bench/mkmodel" --folder --layers 3 --vocab 4000 \
	    --type BF16 -o f
	local type mb
	for type in keep f16 Q4_0; do
		pico-convert -v --type $type f out.gguf 2>err
		mb=$(sed -n 's/^memory:	\([0-9]*\).*/\1/p' err)
		echo "# $type: $mb MB; $(sed -n 2p err)" >&3
		grep -q __asan_init "$BUILD_DIR/bin/pico-convert" ||
		    [ "$mb" -lt 60 ]
	done
}

@test 'convert: nothing is left when it is interrupted' {
	"$BUILD_DIR/bench/mkmodel" --folder --layers 2 --vocab 4000 \
	    --type BF16 -o f
	mkdir d
	local i
	for i in 1 2 3; do
		pico-convert --type Q4_K_M f d/out.gguf 3>&- &
		sleep 0.$i
		kill -TERM $! 2>/dev/null || true
		wait $! || true
		[ -e d/out.gguf ] || [ -z "$(ls d)" ]
		rm -f d/out.gguf
	done
}

@test 'convert: a file of the folder is not written over' {
	local file
	folder llama-sharded
	ln -s f/config.json link
	for file in f/model-00002-of-00002.safetensors f/tokenizer.model \
	    f/model.safetensors.index.json link; do
		run_split pico-convert f $file
		expect_error 1 "$file. is a file of the folder"
	done
	pico-convert f f/out.gguf
	pico-convert f f/out.gguf
	rm f/out.gguf
	diff -r "$CASES/llama-sharded" f
}

@test 'convert: a file that cannot be written' {
	[ -w /dev/full ] || skip 'no /dev/full'
	run_split pico-convert "$CASES/json-escapes" /dev/full
	expect_error 1 '/dev/full'
	run_split pico-convert "$CASES/json-escapes" no/such/out.gguf
	expect_error 1 'no/such/out.gguf'
	run_split bash -c 'pico-convert --dry-run "$1" >/dev/full' - \
	    "$CASES/json-escapes"
	expect_error 1 'write error'
	run_split bash -c 'ulimit -f 8; pico-convert "$1" out.gguf' - \
	    "$CASES/qwen2"
	expect_error 1 'out.gguf'
	[ "$(ls | grep -cv '^std')" -eq 0 ]
}
