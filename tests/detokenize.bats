# pico-detokenize: texts from token streams.

load helper

BPE=$DATA/tokenizer/bpe.gguf

# is WANT SHELL-COMMAND: the exact bytes of standard output, as for printf.
is() {
	printf "$1" >"$BATS_TEST_TMPDIR/want"
	sh -c "$2" >"$BATS_TEST_TMPDIR/got" || return 1
	cmp "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got" || {
		cat "$BATS_TEST_TMPDIR/got"
		return 1
	}
}

@test 'there and back' {
	is 'Once upon a time\n' 'echo "Once upon a time" | pico-tokenize | pico-detokenize'
	is 'hello' 'printf hello | pico-tokenize | pico-detokenize -x'
	is '  x ' 'printf "  x " | pico-tokenize | pico-detokenize -x'
	is 'hello' "printf hello | pico-tokenize -m '$BPE' | pico-detokenize -m '$BPE' -x"
	is ' hello' "printf ' hello' | pico-tokenize -m '$BPE' | pico-detokenize -m '$BPE' -x"
}

@test 'one text per sequence; -x, -0, --json' {
	ids='1 557\n\n1 581\n'
	is 'Once\n\nupon\n' "printf '$ids' | pico-detokenize"
	is 'Onceupon' "printf '$ids' | pico-detokenize -x"
	is 'Once\0\0upon\0' "printf '$ids' | pico-detokenize -0"
	is '"Once"\n""\n"upon"\n' "printf '$ids' | pico-detokenize --json"
	is '' 'pico-detokenize </dev/null'
	is '' 'pico-detokenize --json </dev/null'
	run_split pico-detokenize -x -0
	expect_error 2 'exclude'
}

@test 'the space in front goes only where tokenizing put it' {
	is ' upon\n' 'echo 581 | pico-detokenize'
	is 'upon\n' 'echo 1 581 | pico-detokenize'
	is ' upon\n' 'echo 1 581 | pico-detokenize -k'
	is '<s> upon\n' 'echo 1 581 | pico-detokenize -S'
	is 'upon upon\n' 'echo 1 581 581 | pico-detokenize'
	is ' x\n' 'printf " x" | pico-tokenize | pico-detokenize'
}

@test 'control tokens are printed only with -S' {
	is 'Once\n' 'echo 1 557 2 | pico-detokenize'
	is '<s> Once</s>\n' 'echo 1 557 2 | pico-detokenize -S'
}

@test '--session: lines are parts of one text' {
	is 'Once upon a time\n' 'printf "1 557\n581\n261 436\n" | pico-detokenize --session'
	is '"Once upon"\n' 'printf "1 557\n581\n" | pico-detokenize --session --json'
	is 'Once upon' 'printf "1 557\n581\n" | pico-detokenize --session -x'
}

@test 'text and binary streams, operands' {
	cd "$BATS_TEST_TMPDIR"
	printf Once | pico-tokenize -b >bin
	printf time | pico-tokenize >text
	is 'Once\ntime\n' 'pico-detokenize bin text'
	is 'Once\n' 'pico-detokenize <bin'
	is 'Once\nOnce\n' 'cat bin bin | pico-detokenize'
	is 'time\nOnce\n' 'pico-detokenize - bin <text'
}

@test 'a character over several tokens: bytes at once, JSON whole' {
	# U+1F642 as four byte tokens
	ids='243 162 156 133'
	is '\360\237\231\202\n' "echo $ids | pico-detokenize"
	is '\360\237' "echo 243 162 | pico-detokenize -x"
	is '"\360\237\231\202"\n' "echo $ids | pico-detokenize --json"
	# cut off, and not UTF-8 at all
	is '"\357\277\275\357\277\275"\n' 'echo 243 162 | pico-detokenize --json'
	is '"\357\277\275a"\n' 'echo 243 100 | pico-detokenize --json'
}

@test '--json: always valid' {
	command -v jq >/dev/null || skip 'no jq'
	i=3
	ids=
	while [ $i -lt 259 ]; do
		ids="$ids $i"
		i=$((i + 1))
	done
	echo "$ids" | pico-detokenize --json | jq -e . >/dev/null
	printf 'a"b\\\\c\td\ne\001' >"$BATS_TEST_TMPDIR/in"
	pico-tokenize -x <"$BATS_TEST_TMPDIR/in" | pico-detokenize --json |
	    jq -j . | cmp - "$BATS_TEST_TMPDIR/in"
}

@test 'each token at once to a pipe' {
	mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	pico-detokenize <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" &
	exec 7>"$BATS_TEST_TMPDIR/in" 8<"$BATS_TEST_TMPDIR/out"
	printf '1 557 ' >&7
	IFS= read -r -N 4 got <&8
	[ "$got" = Once ]
	printf '581 ' >&7
	IFS= read -r -N 5 got <&8
	[ "$got" = ' upon' ]
	exec 7>&- 8<&-
	wait
}

@test 'an id out of range: what came before, and where it is' {
	run_split sh -c 'printf "1 557\n581 99999 436\n" | pico-detokenize'
	[ "$status" -eq 1 ]
	[ "$output" = $'Once\n upon' ]
	one_line 'line 2, column 5: token 99999 is out of range.* 1024'
	run_split sh -c 'printf "\211PTK\1\0\0\0\55\2\0\0\0\20\0\0" |
	    pico-detokenize'
	[ "$status" -eq 1 ]
	one_line 'byte 12: token 4096'
}

@test 'what is no token stream' {
	run_split sh -c 'echo hello | pico-detokenize'
	expect_error 1 "line 1, column 1: 'hello' is not a token id"
}

@test '--clean-spaces' {
	is 'a, b. it'"'"'s\n' \
	    'echo "a , b . it '"'"'s" | pico-tokenize | pico-detokenize --clean-spaces'
}

@test 'a failed write is an error' {
	[ -w /dev/full ] || skip 'no /dev/full'
	run_split sh -c 'echo 1 557 | pico-detokenize >/dev/full'
	expect_error 1 'write error on standard output: No space left'
}

@test 'every option of the help is taken' {
	for opt in $(pico-detokenize -h | grep -oE -- '--[a-z0-9-]+' | sort -u); do
		case $opt in --help|--version|--model) continue ;; esac
		echo 1 557 | pico-detokenize "$opt" >/dev/null
	done
}

@test 'words: spaces between them, none in front' {
	export PICO_MODEL=$DATA/tokenizer/wordpiece.gguf
	is 'the cat , on the mat\n' 'echo "The  CÁT, on the mat" |
	    pico-tokenize | pico-detokenize'
	is 'the cat, on\n' 'echo "the cat, on" | pico-tokenize |
	    pico-detokenize --clean-spaces'
	is ' the\n' 'echo the | pico-tokenize --no-bos | pico-detokenize'
	is '[CLS] the[SEP]\n' 'echo the | pico-tokenize | pico-detokenize -S'
}

@test 'Unigram: the space in front goes, the unknown too' {
	export PICO_MODEL=$DATA/tokenizer/unigram.gguf
	is 'the fi a...\n' "printf 'the  ﬁ　a…' | pico-tokenize | pico-detokenize"
	is ' the\n' 'echo the | pico-tokenize | pico-detokenize -k'
	is 'ab\n' 'echo a漢b | pico-tokenize | pico-detokenize'
	is ' a<unk>b</s>\n' 'echo a漢b | pico-tokenize | pico-detokenize -S'
}

@test 'RWKV and gemma4: all bytes' {
	for m in rwkv lines; do
		export PICO_MODEL=$DATA/tokenizer/$m.gguf
		is '\\n\0\377 the\t\303 \n\n\n' \
		    'printf "\\\\n\0\377 the\t\303 \n\n" |
		    pico-tokenize -x | pico-detokenize'
	done
}

# The hexadecimal digits of the large cases against the program, a sample.
@test 'conformance: pieces joined' {
	need_shared
	command -v jq >/dev/null || skip 'no jq'
	for name in llama-spm gpt-2 bert-bge; do
		gzip -dc "$SHARED/conformance/tokenizer/vocab/$name.gguf.gz" \
		    >"$BATS_TEST_TMPDIR/vocab.gguf"
		cases=$SHARED/conformance/tokenizer/$name.detok.jsonl
		for special in true false; do
			opt=-k
			[ "$special" = true ] && opt=-S
			jq -r "select(.special == $special) | .ids | map(tostring) | join(\" \")" \
			    "$cases" | pico-detokenize -0 $opt \
			    -m "$BATS_TEST_TMPDIR/vocab.gguf" | od -An -v -tx1 |
			    tr -d ' \n' >"$BATS_TEST_TMPDIR/got"
			jq -j "select(.special == $special) | .joined_hex + \"00\"" \
			    "$cases" >"$BATS_TEST_TMPDIR/want"
			cmp "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got"
		done
	done
}
