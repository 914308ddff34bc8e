# SPDX-License-Identifier: MIT
# The scripts and the program of examples/ against what the programs give.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	X=$ROOT/examples
}

@test 'scripts are clean shell' {
	command -v shellcheck >/dev/null || skip 'needs shellcheck'
	shellcheck "$X"/pipe "$X"/loop "$X"/batch "$X"/perplexity "$X"/chat \
	    "$X"/variants
}

@test 'pipe: from anywhere, with options' {
	[ "$(echo 'Once upon a time' | "$X/pipe" -e -n 12 -s 3)" = \
	    "$(echo 'Once upon a time' | pico-tokenize |
	    pico-generate -e -n 12 -s 3 | pico-detokenize)" ]
}

@test 'pipe: without settings it takes the programs and the model beside it' {
	[ "$BUILD_DIR" = "$ROOT/build" ] || skip 'only for the usual build'
	echo 'The cat' | pico-tokenize | pico-generate -n 5 |
	    pico-detokenize >want
	echo 'The cat' |
	    env -u PICO_MODEL PATH=/usr/bin:/bin "$X/pipe" -n 5 >got
	diff want got
}

@test 'loop: gives what pico-generate gives' {
	for s in 0 1 2; do
		echo 'The mouse found a' | "$X/loop" -n 30 -s $s \
		    --repeat-penalty 1.1 >got
		echo 'The mouse found a' | pico-tokenize |
		    pico-generate -n 30 -s $s --repeat-penalty 1.1 |
		    pico-detokenize >want
		diff want got
		[ -s got ]
	done
}

@test 'loop: ends at an end-of-generation token, and leaves no fifo' {
	mkdir tmp
	echo 'Once upon a time' | TMPDIR=$PWD/tmp "$X/loop" --temp 0 >got
	echo 'Once upon a time' | pico-tokenize | pico-generate --temp 0 |
	    pico-detokenize >want
	diff want got
	[ -z "$(ls tmp)" ]
}

@test 'loop: ends when the context is full' {
	echo 'Once upon a time' | "$X/loop" --ignore-eog >got
	echo 'Once upon a time' | pico-tokenize | pico-generate --ignore-eog |
	    pico-detokenize >want
	diff want got
}

@test 'loop: ends when a stage fails' {
	mkdir tmp
	run env PICO_MODEL=/nowhere TMPDIR="$PWD/tmp" "$X/loop" -n 3 <<<'The cat'
	[[ $output == *"cannot open '/nowhere'"* ]]
	[ -z "$(ls tmp)" ]
}

@test 'batch: a line of JSON for each prompt, in order' {
	command -v jq >/dev/null || skip 'needs jq'
	printf 'The cat\nSay "hi"\\\t.\nOne day\n' >prompts
	mkdir tmp
	TMPDIR=$PWD/tmp "$X/batch" prompts -n 9 -s 5 >got
	[ -z "$(ls tmp)" ]
	jq -r .prompt got >p
	diff prompts p
	jq -r .answer got >a
	pico-tokenize -l prompts | pico-generate -n 9 -s 5 |
	    pico-detokenize >want
	diff want a
	run "$X/batch"
	[ "$status" -eq 2 ]
}

@test 'perplexity: of a short text as by hand' {
	echo 'Once upon a time, there was a small fox named Rusty.' >text
	want=$(pico-tokenize text | pico-forward --nll |
	    awk '{ s += $3; n++ } END { printf "%.4f\t%d", exp(-s / n), n }')
	[ "$("$X/perplexity" text)" = "$want" ]
	[ "$("$X/perplexity" <text)" = "$want" ]
	run "$X/perplexity" </dev/null
	[ "$status" -ne 0 ]
}

@test 'perplexity: windows count each token of a long text once' {
	for i in 1 2 3 4 5 6; do
		echo 'Once upon a time, there was a small fox named Rusty. '
	done >text
	n=$(pico-tokenize --no-bos --count text)
	for w in 12 16 17 "$n" $((n + 1)) $((n + 2)); do
		"$X/perplexity" text "$w" >got
		[ "$(cut -f2 got)" = "$n" ] || {
			echo "window $w: $(cat got), $n tokens"
			return 1
		}
	done
	# windows of BOS and 8 tokens, by another way
	pico-tokenize --no-bos text | tr ' ' '\n' >ids
	for ((at = 0; at == 0 || at + 4 < n; at += 4)); do
		# shellcheck disable=SC2046
		echo 1 $(sed -n "$((at + 1)),$((at + 8))p" ids) |
		    pico-forward --nll |
		    awk -v at=$at 'at == 0 || $1 > 4 { print $3 }'
	done | awk '{ s += $1 }
	    END { printf "%.4f\t%d\n", exp(-s / NR), NR }' >want
	"$X/perplexity" text 9 >got
	diff want got
}

@test 'perplexity: of the validation text as measured elsewhere' {
	need_shared
	[ -f "$SHARED/model/validation.txt" ] || skip 'needs the text'
	# 1.3699 +- 0.009
	"$X/perplexity" "$SHARED/model/validation.txt" |
	    awk '$1 < 1.361 || $1 > 1.379 { exit 1 }'
}

@test 'chat: answers, and remembers, as one long text would' {
	mkdir tmp
	printf 'What does a cow say?\nWhat color is the sky?\n' |
	    TMPDIR=$PWD/tmp "$X/chat" >got
	[ -z "$(ls tmp)" ]
	[ "$(sed -n 1p got)" = 'A cow says moo.' ]
	printf '<|user|>\nWhat does a cow say?</s>\n<|assistant|>\n%s</s>\n' \
	    "$(sed -n 1p got)" >text
	printf '<|user|>\nWhat color is the sky?</s>\n<|assistant|>\n' >>text
	pico-tokenize -xS text | pico-generate --temp 0 |
	    pico-detokenize >want
	[ "$(sed -n 2p got)" = "$(cat want)" ]
	[ "$(wc -l <got)" -eq 2 ]
}

# a pico-generate that keeps what it is given in the file ids
spy() {
	mkdir fake
	printf '#!/bin/sh\ntrap : INT\n(trap "" INT; exec tee ids) | %s "$@"\n' \
	    "$(command -v pico-generate)" >fake/pico-generate
	chmod +x fake/pico-generate
}

@test 'chat: what the user types makes no special token' {
	spy
	printf 'Hi</s>\\n<s>%%s\nAnd </s> this\n' |
	    PATH=$PWD/fake:$PATH SYSTEM='Be </s> good' "$X/chat" >/dev/null
	[ "$(wc -l <ids)" -eq 2 ]
	# BOS once, and in each message of a turn the one </s> of the frame
	tr ' ' '\n' <ids | grep -cx 1 | grep -qx 1
	awk '{ n = 0; for (i = 1; i <= NF; i++) n += $i == 2
	    if (n != 3 - NR) exit 1 }' ids
	pico-detokenize -xS ids | grep -qF 'Hi</s>\n<s>%s</s>'
}

@test 'chat: an interrupt ends the answer, a question follows it' {
	spy
	mkfifo in out
	# bash starts what is in the background with SIGINT ignored
	PATH=$PWD/fake:$PATH perl -e '$SIG{INT} = "DEFAULT"; setpgrp;
	    exec @ARGV' "$X/chat" --ignore-eog -c 100000 <in >out &
	pid=$!
	exec 5>in 6<out
	echo 'What does a cow say?' >&5
	read -r -N 30 some <&6
	kill -INT -- -$pid
	# an answer that never ends has ended, so the next one can begin
	echo 'And a dog?' >&5
	while [ "$(wc -l <ids)" -lt 2 ]; do
		sleep 0.1
	done
	# the second one too, which may not have begun yet
	exec 5>&-
	cat <&6 >rest &
	while kill -INT -- -$pid; do
		sleep 0.2
	done 2>/dev/null
	wait $pid
	# the answer was cut off: its end of turn is written first
	[ "$(sed -n 2p ids)" = \
	    "$(pico-chat --continue --cut 'user: And a dog?')" ]
}

@test 'chat: in a terminal' {
	command -v tmux >/dev/null || skip 'needs tmux'
	tm() { tmux -L "pico$$" -f /dev/null "$@"; }
	# shown PATTERN: waits for a line of the screen
	shown() {
		local n
		for ((n = 0; n < 200; n++)); do
			tm capture-pane -p >screen
			grep -q -- "$1" screen && return
			sleep 0.1
		done
		cat screen
		return 1
	}
	# not to keep what Bats waits for
	tm new-session -d -x 60 -y 20 "PATH='$PATH' '$X/chat'; sleep 60" \
	    3>&- 4>&-
	shown '^> *$'
	tm send-keys 'What does a cow say?' Enter
	shown '^A cow says moo\.$'
	tm send-keys 'What'
	shown '^> What$'
	tm send-keys C-c
	shown '^> What^C$'
	tm send-keys 'What color is the sky?' Enter
	shown '^The sky is blue\.$'
	tm send-keys C-d
	sleep 0.5
	tm capture-pane -p | sed '/^$/d; s/ *$//' >got
	tm kill-server
	diff - got <<-'END'
	> What does a cow say?
	A cow says moo.
	> What^C
	> What color is the sky?
	The sky is blue.
	>
	END
}

@test 'embed.c: compiles against the library and writes a text' {
	# shellcheck disable=SC2086
	${CC:-cc} -std=c11 -Wall -Wextra -Werror ${CFLAGS:-} \
	    ${EXTRA_CFLAGS:-} -I"$ROOT/lib" "$X/embed.c" -o embed \
	    ${LDFLAGS:-} ${EXTRA_LDFLAGS:-} "$BUILD_DIR/libpico.a" -lm -pthread
	./embed "$MODEL" 'Once upon a time' >got
	echo 'Once upon a time' | pico-tokenize |
	    pico-generate -e -n 20 --top-p 1 --min-p 0 | pico-detokenize >want
	diff want got
	run ./embed /dev/null x
	[ "$status" -eq 1 ]
	[[ $output == "embed: "* ]]
}

@test 'variants: a table and the files, on a text of a few lines' {
	printf '%s\n' 'Once upon a time there was a cat.' 'The cat sat.' \
	    'A dog ran.' 'The end.' >text
	"$X/variants" "$MODEL" text dir Q8_0 Q4_0+ >got
	[ "$(wc -l <got)" -eq 5 ]
	grep -qE '^\| Q4_K_M \| 1579360 \| [0-9.]+ \| [0-9.]+ \|$' got
	grep -qE '^\| Q8_0 \| 2680928 \| [0-9.]+ \| [0-9.]+ \|$' got
	grep -qE '^\| Q4_0\+ \| [0-9]+ \| [0-9.]+ \| [0-9.]+ \|$' got
	diff got dir/table.md
	pico-inspect --check dir/pico-tales-Q8_0.gguf
	[ -f dir/imatrix.gguf ]
	run "$X/variants" "$MODEL"
	[ "$status" -eq 2 ]
}
