# pico-tokenize: which texts there are in the input, and the forms of output.

load helper

BPE=$DATA/tokenizer/bpe.gguf

# Prose of 70 kB, with characters of all lengths.
prose() {
	for i in $(seq 1000); do
		echo "The $i cats said: \"don't!\" — é 漢字 🙂  x=$((i * i));"
	done
}

# gives WANT COMMAND...: standard output, newlines and all.
gives() {
	local want=$1
	shift
	run_split "$@"
	[ "$status" -eq 0 ] || { echo "status $status: $stderr"; return 1; }
	[ -z "$stderr" ] || { echo "stderr: $stderr"; return 1; }
	[ "$output" = "$(printf "$want")"$'\n' ] || [ "$output" = "$want" ] || {
		printf 'got: %s\nnot: %s\n' "$output" "$want"
		return 1
	}
}

# Runs a shell command with pico-tokenize in it.
sh_gives() {
	local want=$1
	shift
	gives "$want" sh -c "$1"
}

@test 'one text, ids on one line' {
	sh_gives '1 557 581 261 436' 'echo "Once upon a time" | pico-tokenize'
	sh_gives '1 557 581 261 436' 'printf "Once upon a time" | pico-tokenize'
}

@test 'the model comes from -m, else from PICO_MODEL' {
	sh_gives '97' "echo a | pico-tokenize -m '$BPE'"
	sh_gives '97' "echo a | PICO_MODEL='$BPE' pico-tokenize"
}

@test 'no model is a usage error' {
	unset PICO_MODEL
	run_split pico-tokenize </dev/null
	[ "$status" -ne 2 ] && skip 'a default model is installed'
	expect_error 2 'no model'
}

@test 'only one final newline is removed, and with -x none' {
	a=$(printf 'a' | pico-tokenize)
	[ "$(printf 'a\n' | pico-tokenize)" = "$a" ]
	[ "$(printf 'a\n\n' | pico-tokenize)" = "$(printf 'a\n' | pico-tokenize -x)" ]
	[ "$(printf 'a\n' | pico-tokenize -x)" != "$a" ]
	[ "$(printf 'a' | pico-tokenize -x)" = "$a" ]
}

@test 'empty input is one empty text' {
	sh_gives '1' 'pico-tokenize </dev/null'
	sh_gives '1' 'echo | pico-tokenize'
	sh_gives '' "pico-tokenize -m '$BPE' </dev/null"
	[ "$(pico-tokenize -m "$BPE" </dev/null | wc -l)" -eq 1 ]
	[ "$(pico-tokenize --count </dev/null)" = 1 ]
}

@test '-l: each line is a text' {
	[ "$(printf 'a\nb\n' | pico-tokenize -l)" = \
	    "$(printf a | pico-tokenize; printf b | pico-tokenize)" ]
	[ "$(printf 'a\n\nb' | pico-tokenize -l | wc -l)" -eq 3 ]
	[ "$(printf '\n' | pico-tokenize -l | wc -l)" -eq 1 ]
	[ "$(pico-tokenize -l </dev/null | wc -l)" -eq 0 ]
}

@test '-0: each record is a text' {
	[ "$(printf 'a\0b\n\0' | pico-tokenize -0)" = \
	    "$(printf a | pico-tokenize; printf 'b\n' | pico-tokenize -x)" ]
	[ "$(printf 'a\0' | pico-tokenize -0 | wc -l)" -eq 1 ]
	[ "$(printf 'a\0b' | pico-tokenize -0 | wc -l)" -eq 2 ]
	[ "$(pico-tokenize -0 </dev/null | wc -l)" -eq 0 ]
}

@test '-l writes the ids of a line before the next one comes' {
	mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	pico-tokenize -l <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" &
	exec 7>"$BATS_TEST_TMPDIR/in" 8<"$BATS_TEST_TMPDIR/out"
	printf 'Once upon a time\n' >&7
	read -r line <&8
	[ "$line" = '1 557 581 261 436' ]
	exec 7>&- 8<&-
	wait
}

@test 'operands: each file is a text, - is standard input' {
	cd "$BATS_TEST_TMPDIR"
	printf 'Once\n' >a
	printf 'upon a\n' >b
	[ "$(echo time | pico-tokenize a - b)" = "$(for t in Once time 'upon a'
	do echo "$t" | pico-tokenize; done)" ]
	[ "$(pico-tokenize -l a b | wc -l)" -eq 2 ]
}

@test 'a missing file is an error' {
	run_split pico-tokenize /nowhere/text
	expect_error 1 "cannot open '/nowhere/text': No such file"
}

@test 'bytes of all kinds come back' {
	for text in 'a\0b' '\r\n' '\377\376' '\357\273\277x' '\032' 'a\\nb' \
	    '\303' 'x  y' '\342\226' '\355\240\200' '\364\220\200\200'; do
		printf "$text" >"$BATS_TEST_TMPDIR/in"
		pico-tokenize -x <"$BATS_TEST_TMPDIR/in" |
		    pico-detokenize -x >"$BATS_TEST_TMPDIR/out"
		cmp "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	done
	[ "$(printf 'a\0b' | pico-tokenize | pico-detokenize -x | wc -c)" -eq 3 ]
}

@test 'all bytes through a byte-level vocabulary, as far as they are UTF-8' {
	for i in $(seq 0 127); do printf "\\$(printf %03o "$i")"; done \
	    >"$BATS_TEST_TMPDIR/in"
	printf 'é 日本 🙂' >>"$BATS_TEST_TMPDIR/in"
	pico-tokenize -m "$BPE" -x <"$BATS_TEST_TMPDIR/in" |
	    pico-detokenize -m "$BPE" -x >"$BATS_TEST_TMPDIR/out"
	cmp "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
}

@test 'special tokens are plain text without -S' {
	[ "$(echo '</s>' | pico-tokenize --count)" -gt 2 ]
	sh_gives '1 2' "echo '</s>' | pico-tokenize -S"
	sh_gives '2' "echo '</s>' | pico-tokenize -S --no-bos"
}

@test 'BOS and EOS: as told, and never two BOS' {
	sh_gives '1 2' "printf '' | pico-tokenize --eos"
	sh_gives '' "printf '' | pico-tokenize --no-bos"
	sh_gives '1 557' 'printf Once | pico-tokenize --bos'
	sh_gives '1 557' "printf '<s>Once' | pico-tokenize -S"
	sh_gives '1 557' "printf '<s>Once' | pico-tokenize -S --bos"
	sh_gives '284' "printf '' | pico-tokenize -m '$BPE' --bos"
	run_split pico-tokenize --bos --no-bos
	expect_error 2 '--bos and --no-bos'
	run_split pico-tokenize --eos --no-eos
	expect_error 2 '--eos and --no-eos'
}

@test '--continued: no BOS and no space in front' {
	[ "$(printf ' x' | pico-tokenize --continued)" = \
	    "$(printf x | pico-tokenize --no-bos)" ]
	[ "$(printf x | pico-tokenize --continued)" != \
	    "$(printf x | pico-tokenize --no-bos)" ]
}

@test '--show: id, type and escaped piece' {
	sh_gives '1\tcontrol\t<s>\n557\tnormal\t▁Once\n13\tbyte\t<0x0A>' \
	    "printf 'Once\n' | pico-tokenize -x --show"
	# an empty line between texts
	sh_gives '1\tcontrol\t<s>\n\n1\tcontrol\t<s>' \
	    "printf '\n\n' | pico-tokenize -l --show"
}

@test '--count: the number of tokens of each text' {
	sh_gives '5\n1\n2' "printf 'Once upon a time\n\nOnce\n' | pico-tokenize -l --count"
}

@test '--offsets: the bytes of each token' {
	sh_gives '1\t0\t0\n557\t0\t4\n581\t4\t9' \
	    "printf 'Once upon' | pico-tokenize --offsets"
	# cover the text without gaps, whatever it is
	for opt in '' "-m $BPE" '-S'; do
		printf 'a  b\377\303\251 \342\202</s>  <tab>x\n\0 1' |
		    pico-tokenize -x --no-bos $opt --offsets |
		    awk -F '\t' 'NF != 3 || $2 != at { exit 1 } { at = $3 }
			END { exit at != 26 }'
	done
}

@test '-b: a binary stream' {
	[ "$(printf Once | pico-tokenize -b | od -An -tx1 | tr -d ' \n')" = \
	    8950544b01000000010000002d020000feffffff ]
	[ "$(pico-tokenize -lb </dev/null | od -An -tx1 | tr -d ' \n')" = \
	    8950544b01000000 ]
}

@test 'forms of output exclude each other' {
	run_split pico-tokenize --show --count
	expect_error 2 'exclude'
	run_split pico-tokenize -b --offsets
	expect_error 2 'exclude'
	run_split pico-tokenize -l -0
	expect_error 2 '-l and -0'
}

@test '--pre: another pre-tokenizer; an unknown one is refused' {
	[ "$(echo "'S" | pico-tokenize -m "$BPE" --pre gpt-2)" = '39 83' ]
	run_split pico-tokenize -m "$BPE" --pre nonsense
	expect_error 2 "'nonsense' is not known"
	run_split pico-tokenize --pre gpt-2
	expect_error 2 "'llama' has none"
}

@test '-v: statistics on standard error' {
	run_split sh -c 'echo Once | pico-tokenize -v'
	[ "$output" = '1 557'$'\n' ]
	printf '%s\n' "$stderr" | grep -qx 'bytes:	4'
	printf '%s\n' "$stderr" | grep -qx 'tokens:	2'
	printf '%s\n' "$stderr" | grep -q '^seconds:	[0-9.]*$'
}

@test 'a failed write is an error' {
	[ -w /dev/full ] || skip 'no /dev/full'
	run_split sh -c 'echo Once | pico-tokenize >/dev/full'
	expect_error 1 'write error on standard output: No space left'
	run_split sh -c 'echo Once | pico-tokenize --show >/dev/full'
	expect_error 1 'write error on standard output: No space left'
	run_split sh -c 'echo Once | pico-tokenize >&-'
	expect_error 1 'write error on standard output'
}

@test 'a reader that goes away ends it by SIGPIPE' {
	run bash -c 'yes word | pico-tokenize -l | head -c 1 >/dev/null
	    echo ${PIPESTATUS[1]}'
	[ "$output" = 141 ]
}

# changed SED-SCRIPT FILE: a copy with texts replaced by equally long ones.
changed() {
	LC_ALL=C sed "$1" "$2" >"$BATS_TEST_TMPDIR/changed.gguf"
	[ "$(wc -c <"$2")" -eq "$(wc -c <"$BATS_TEST_TMPDIR/changed.gguf")" ]
	! cmp -s "$2" "$BATS_TEST_TMPDIR/changed.gguf"
}

@test 'an unknown pre-tokenizer is refused, a missing one warned of' {
	changed 's/qwen2/qwenX/' "$BPE"
	run_split pico-tokenize -m "$BATS_TEST_TMPDIR/changed.gguf" </dev/null
	expect_error 1 "tokenizer.ggml.pre.*'qwenX' is not known"
	[ "$(echo a | pico-tokenize --pre qwen2 -m \
	    "$BATS_TEST_TMPDIR/changed.gguf")" = 97 ]
	changed 's/tokenizer.ggml.pre/tokenizer.ggml.xyz/' "$BPE"
	run_split sh -c "echo a | pico-tokenize -m '$BATS_TEST_TMPDIR/changed.gguf'"
	[ "$status" -eq 0 ] && [ "$output" = 97$'\n' ]
	one_line 'does not name its pre-tokenizer'
	run_split sh -c "echo a | pico-tokenize -q -m '$BATS_TEST_TMPDIR/changed.gguf'"
	[ -z "$stderr" ]
}

@test 'a vocabulary without merges: an error, or for kimi-k2 the order of ids' {
	changed 's/tokenizer.ggml.merges/tokenizer.ggml.xerges/' "$BPE"
	f=$BATS_TEST_TMPDIR/changed.gguf
	run_split pico-tokenize -m "$f" </dev/null
	expect_error 1 "key 'tokenizer.ggml.merges' is missing"
	prose | head -n 100 >"$BATS_TEST_TMPDIR/text"
	pico-tokenize -m "$BPE" --pre kimi-k2 "$BATS_TEST_TMPDIR/text" \
	    >"$BATS_TEST_TMPDIR/want"
	pico-tokenize -m "$f" --pre kimi-k2 "$BATS_TEST_TMPDIR/text" |
	    cmp "$BATS_TEST_TMPDIR/want" -
}

@test 'no BOS is made up for a byte-level vocabulary' {
	changed 's/tokenizer.ggml.bos/tokenizer.ggml.xyz/' "$BPE"
	f=$BATS_TEST_TMPDIR/changed.gguf
	# llama3 wants a BOS where the file does not say
	LC_ALL=C sed 's/add_bos_token/xyz_bos_token/' "$f" >"$f.2"
	[ "$(echo a | pico-tokenize -m "$f.2" --pre llama3)" = 97 ]
	LC_ALL=C sed 's/add_bos_token/xyz_bos_token/' "$BPE" >"$f.3"
	[ "$(echo a | pico-tokenize -m "$f.3" --pre llama3)" = '284 97' ]
	run_split pico-tokenize -m "$f" --bos </dev/null
	expect_error 1 'has no BOS token'
}

@test 'a byte token with a malformed name is an ordinary piece' {
	changed 's/<0x41>/<0xZZ>/' "$MODEL"
	id=$((3 + 0x41))
	[ "$(echo $id | pico-detokenize -m "$BATS_TEST_TMPDIR/changed.gguf")" = \
	    '<0xZZ>' ]
	printf '~A~' | pico-tokenize -m "$BATS_TEST_TMPDIR/changed.gguf" >/dev/null
}

@test 'a model without a tokenizer' {
	run_split pico-tokenize -m "$DATA/tokenizer/none.gguf" </dev/null
	expect_error 1 "has no tokenizer.*'no_vocab'"
	run_split pico-detokenize -m "$DATA/tokenizer/none.gguf" </dev/null
	expect_error 1 'has no tokenizer'
}

@test 'kinds of tokenizer that are not supported are named' {
	changed 's/gpt2/gpt9/' "$BPE"
	run_split pico-tokenize -m "$BATS_TEST_TMPDIR/changed.gguf" </dev/null
	expect_error 1 "tokenizer.ggml.model 'gpt9' is not supported"
}

@test 'the manual lists the pre-tokenizers that are known' {
	for name in $(sed -n 's/^\t{ "\([^"]*\)", &[a-z0-9]*, .*/\1/p' \
	    "$ROOT/lib/text/pre.c"); do
		printf '\n' | pico-tokenize -m "$BPE" --pre "$name" >/dev/null
		grep -qE "^\.Cm( .*)? $name( |\$)" "$ROOT/man/pico-tokenize.1" || {
			echo "$name"
			return 1
		}
	done
	run_split pico-tokenize -m "$BPE" --pre nonsense
	expect_error 2 "pre-tokenizer 'nonsense' is not known; pico-tokenize"
	run_split pico-tokenize --pre qwen2
	expect_error 2 "kind 'llama' has none"
}

# le NUMBER BYTES and text STRING write parts of a GGUF file.
le() {
	local i
	for ((i = 0; i < $2; i++)); do
		printf "\\x$(printf %02x $(($1 >> 8 * i & 255)))"
	done
}

text() {
	le ${#1} 8
	printf %s "$1"
}

# unigram TOKEN N: a vocabulary of five tokens, the last one TOKEN; N bytes
# replace a character.
unigram() {
	local name
	printf GGUF; le 3 4; le 0 8; le 4 8
	text tokenizer.ggml.model; le 8 4; text t5
	text tokenizer.ggml.tokens; le 9 4; le 8 4; le 5 8
	for name in '<pad>' '</s>' '<unk>' a "$1"; do
		text "$name"
	done
	text tokenizer.ggml.scores; le 9 4; le 6 4; le 5 8
	head -c 20 /dev/zero
	text tokenizer.ggml.precompiled_charsmap; le 9 4; le 0 4
	le $((4 + 4 + $2 + 1)) 8; le 4 4; le 0 4
	head -c "$2" /dev/zero | tr '\0' a; le 0 1
}

@test 'texts that would take memory out of proportion are refused' {
	cd "$BATS_TEST_TMPDIR"
	long=$(head -c 65535 /dev/zero | tr '\0' b)
	unigram "$long" 128 >m
	sh_gives '3 2 4 1' "printf 'a b%s' $long | pico-tokenize -m m"
	unigram "b$long" 128 >m
	run_split pico-tokenize -m m </dev/null
	expect_error 1 "key 'tokenizer.ggml.tokens': token 4 has 65536 bytes, at most 65535"
	run_split pico-detokenize -m m </dev/null
	expect_error 1 "token 4 has 65536 bytes"
	unigram b 129 >m
	run_split pico-tokenize -m m </dev/null
	expect_error 1 "key 'tokenizer.ggml.precompiled_charsmap': a text has more than 128 bytes"
}

# 2^11 texts of 11 parts with the same hash: what the first word of a part
# changes, bit 63, the second one undoes (lib/base/hash.c).
colliding() {
	printf GGUF; le 3 4; le 0 8; le 3 8
	text tokenizer.ggml.model; le 8 4; text llama
	text tokenizer.ggml.tokens; le 9 4; le 8 4; le 2051 8
	text '<unk>'; text '<s>'; text '</s>'
	awk -v zeros='%c%c%c%c%c%c%c' 'BEGIN {
		plain = "aaaaaaaaaaaaaaaa"
		other = "aaaaaaa%caaa%caaa%c"
		for (k = 0; k < 2048; k++) {
			printf "%c", 176
			printf zeros, 0, 0, 0, 0, 0, 0, 0
			for (i = 1; i < 2048; i *= 2)
				if (int(k / i) % 2)
					printf other, 225, 225, 225
				else
					printf plain
		}
	}'
	text tokenizer.ggml.scores; le 9 4; le 6 4; le 2051 8
	head -c $((4 * 2051)) /dev/zero
}

@test 'texts made to have the same hash are refused' {
	cd "$BATS_TEST_TMPDIR"
	colliding >m
	run_split pico-tokenize -m m </dev/null
	expect_error 1 'more than 256 of them'
	# who does not tokenize has no use for a hash
	[ "$(echo 0 | pico-detokenize -S -m m)" = '<unk>' ]
}

@test 'a vocabulary without a newline' {
	cd "$BATS_TEST_TMPDIR"
	unigram b 1 >m
	[ "$(printf 'a\nb' | pico-tokenize -m m)" = '3 2 4 1' ]
	[ "$(printf 'a\nb\n' | pico-tokenize -l -m m)" = '3 1'$'\n''4 1' ]
	[ "$(echo 3 4 | pico-detokenize -m m)" = ab ]
}

@test 'malformed vocabularies are refused with the name of the key' {
	need_shared
	dir=$SHARED/conformance/gguf/malformed
	awk -F '\t' '$2 == "tokenizer" { print $1, $3, $4 }' "$dir/MANIFEST.tsv" |
	while read -r file expect key; do
		run_split pico-tokenize -m "$dir/$file" </dev/null
		if [ "$expect" = reject ] || [ "$status" -ne 0 ]; then
			expect_error 1 "$key" || { echo "$file"; exit 1; }
		fi
	done
}

@test 'reading from a pipe in odd-sized writes makes no difference' {
	cd "$BATS_TEST_TMPDIR"
	{ prose; prose | tr '\n' ' '; head -c 70000 /dev/zero | tr '\0' a
	} >text
	for m in "$MODEL" "$BPE" "$DATA"/tokenizer/[lruw]*.gguf; do
		for opt in '' -S --offsets --show --count -x -l -0; do
			pico-tokenize -m "$m" $opt text >whole
			for k in 1 997 65521; do
				[ $k -gt 1 ] || [ "$opt" = --offsets ] || continue
				{ head -c 5000 text | dd bs=$k status=none
				tail -c +5001 text | dd bs=$((k + 512)) status=none
				} | pico-tokenize -m "$m" $opt >parts
				cmp whole parts
			done
		done
	done
}

@test 'ten million bytes of one letter, on a small stack' {
	ulimit -s 128
	for m in "$MODEL" "$BPE" "$DATA/tokenizer/rwkv.gguf" \
	    "$DATA/tokenizer/lines.gguf"; do
		n=$(head -c 10000000 /dev/zero | tr '\0' a |
		    pico-tokenize -m "$m" | pico-detokenize -m "$m" -x | wc -c)
		[ "$n" -eq 10000000 ]
	done
	head -c 10000000 /dev/zero | tr '\0' a |
	    pico-tokenize -m "$DATA/tokenizer/unigram.gguf" |
	    pico-detokenize -m "$DATA/tokenizer/unigram.gguf" -x |
	    tr -d a | cmp - /dev/null
	# a word that is too long is one unknown token
	[ "$(head -c 10000000 /dev/zero | tr '\0' a |
	    pico-tokenize -m "$DATA/tokenizer/wordpiece.gguf")" = '2 1 3' ]
}

# seconds COMMAND...: of processor time that it takes, at least 0.1.
seconds() {
	local TIMEFORMAT=%U
	{ time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print $1 < 0.1 ? 0.1 : $1 }'
}

@test 'eight times the text, about eight times the time' {
	cd "$BATS_TEST_TMPDIR"
	prose >text
	for i in $(seq 15); do cat text; done | head -c 1000000 >short
	for i in $(seq 8); do cat short; done >long
	for m in "$MODEL" "$BPE" "$DATA"/tokenizer/[lruw]*.gguf; do
		s=$(seconds pico-tokenize -S -m "$m" short)
		l=$(seconds pico-tokenize -S -m "$m" long)
		# the square would be 64 times; other programs run, too
		awk "BEGIN { exit !($l < 24 * $s) }" || {
			echo "$m: $s s, $l s"
			return 1
		}
	done
}

@test 'a long text takes little memory' {
	! grep -q '__[amt]san_init' "$BUILD_DIR/bin/pico-tokenize" ||
		skip 'the sanitizers take memory'
	cd "$BATS_TEST_TMPDIR"
	prose >text
	for i in $(seq 300); do cat text; done >long
	for m in "$MODEL" "$BPE" "$DATA"/tokenizer/[lruw]*.gguf; do
		(ulimit -v 30000; pico-tokenize -m "$m" long | wc -w >n)
		[ "$(cat n)" -gt 3000000 ]
	done
}

@test 'thousands of special tokens in the text' {
	for i in $(seq 2000); do printf '<|im_start|>user\nhi<|im_end|>\n'; done |
	    pico-tokenize -m "$BPE" -S | tr ' ' '\n' | sort | uniq -c |
	    awk '$2 == 285 || $2 == 286 { n += $1 } END { exit n != 4000 }'
}

@test 'every option of the help is taken' {
	for opt in $(pico-tokenize -h | grep -oE -- '--[a-z0-9-]+' | sort -u); do
		case $opt in
		--help|--version|--model|--pre|--lines|--null) continue ;;
		esac
		echo x | pico-tokenize "$opt" >/dev/null
	done
	pico-tokenize --lines --model="$MODEL" </dev/null
	pico-tokenize --null --model "$BPE" --pre qwen2 </dev/null
}

@test "tokenize: a fault takes nothing with it that came before" {
	printf hi >"$BATS_TEST_TMPDIR/first"
	pico-tokenize "$BATS_TEST_TMPDIR/first" >"$BATS_TEST_TMPDIR/right"
	run_split sh -c 'pico-tokenize "$1" "$1.none" >"$2"' - \
	    "$BATS_TEST_TMPDIR/first" "$BATS_TEST_TMPDIR/got"
	expect_error 1 'cannot open'
	cmp "$BATS_TEST_TMPDIR/right" "$BATS_TEST_TMPDIR/got"
}
