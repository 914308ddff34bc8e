# pico-generate: what its options do. Sameness: exact.bats; faults: faults.bats.
load helper

Q=$DATA/arch/llama-q8_0.gguf	# 288 tokens

setup() {
	cd "$BATS_TEST_TMPDIR"
	echo '1 557 581 261 436' >p	# Once upon a time
}

# reasons FILE: why the sequences of a binary stream ended.
reasons() {
	tail -c +9 "$1" | od -An -v -td4 -w4 | grep -- - | tr -d ' ' |
	    tr '\n' ' '
}

@test "generate: a story" {
	run_split pico-generate --temp 0 -n 12 p
	[ $status -eq 0 ]
	[ -z "$stderr" ]
	[ "$(pico-detokenize <<<"$output")" = \
	    ', there was a young girl named Ella. One day' ] || {
		pico-detokenize <<<"$output"
		false
	}
}

@test "generate: -n counts new tokens of each sequence" {
	for n in 1 2 17; do
		cat p p | pico-generate -n $n >out
		[ $(wc -l <out) -eq 2 ]
		[ $(wc -w <out) -eq $((2 * n)) ]
	done
	pico-generate -n 0 p p >out
	[ "$(cat out; echo x)" = "

x" ]
	pico-generate -n 0 -e p | cmp p -
}

@test "generate: every reason to end, and its mark" {
	q=$(printf '<|user|>\nWhat does a cow say?</s>\n<|assistant|>\n' |
	    pico-tokenize -Sx)
	echo "$q" | pico-generate --temp 0 -b >eog
	[ "$(reasons eog)" = '-1 ' ]
	pico-generate --temp 0 -n 3 -b p >limit
	[ "$(reasons limit)" = '-2 ' ]
	pico-generate --temp 0 -c 9 -b p >context
	[ "$(reasons context)" = '-3 ' ]
	[ $(wc -c <context) -eq $((8 + 4 * 4 + 4)) ]
	pico-generate --temp 0 --stop girl -b p >stop
	[ "$(reasons stop)" = '-4 ' ]
	pico-generate --temp 0 --stop-id 289 -b p >stop
	[ "$(reasons stop)" = '-4 ' ]
	for c in "eog:$q:" "length:$(cat p):-n 3" "context:$(cat p):-c 9" \
	    "stop:$(cat p):--stop girl"; do
		IFS=: read -r want prompt o <<<"$c"
		echo "$prompt" | pico-generate --temp 0 $o -v 2>v >/dev/null
		grep -qx "stop:	$want" v
	done
}

@test "generate: the end of generation is not written, unless asked for" {
	printf '<|user|>\nWhat does a cow say?</s>\n<|assistant|>\n' |
	    pico-tokenize -Sx >q
	pico-generate --temp 0 q >out
	[ "$(pico-detokenize out)" = 'A cow says moo.' ] || {
		pico-detokenize out
		false
	}
	! grep -qw 2 out
	pico-generate --temp 0 --emit-eog q >with
	[ "$(cat with)" = "$(cat out) 2" ]
	pico-generate --temp 0 --ignore-eog -n 30 q >on
	[ $(wc -w <on) -eq 30 ]
	[[ $(cat on) == "$(cat out) 2 "* ]]
	pico-generate --temp 0 --stop-id 2 q | cmp out -
	pico-generate --temp 0 --logit-bias 2=-inf -n 30 q >on
	! grep -qw 2 on
}

@test "generate: --stop ends before its text, across tokens" {
	pico-generate --temp 0 -n 30 p >all
	text=$(pico-detokenize all)
	# " girl" starts with the space that belongs to its token
	[ "$(pico-generate --temp 0 -n 30 --stop ' girl' p | pico-detokenize)" \
	    = "${text%% girl*}" ]
	# across the border of two tokens, of three; in the middle of one
	for s in 'was a' 'there was a' 'girl named E' 'ou' ', there' 'd E'; do
		[[ $text == *"$s"* ]]
		pico-generate --temp 0 -n 30 --stop "$s" p >out
		out=$(pico-detokenize out)
		[[ $text == "$out"* ]]
		[[ $out != *"$s"* ]]
		before=${text%%"$s"*}
		# whole tokens go out: all that end before the text
		[ ${#out} -le ${#before} ]
		[[ $(cat all) == "$(cat out)"* ]]
		next=$(($(wc -w <out) + 1))
		[ "$(cut -d' ' -f-$next all | pico-detokenize | wc -m)" -gt \
		    $((${#before} + 1)) ]
	done
	# the earliest of several; one that never comes changes nothing
	pico-generate --temp 0 -n 30 --stop Ella --stop girl --stop day p >a
	pico-generate --temp 0 -n 30 --stop girl p | cmp a -
	pico-generate --temp 0 -n 30 --stop zebra --stop Ellx p | cmp all -
	# what was held back comes out at the end
	for n in 1 2 3 4 5 6 7 8 9; do
		pico-generate --temp 0 -n $n p >a
		pico-generate --temp 0 -n $n --stop "$text and more" p |
		    cmp a -
	done
}

@test "generate: a backslash in --stop is a backslash" {
	pico-generate --temp 0 -n 60 --ignore-eog p >all
	pico-generate --temp 0 -n 60 --ignore-eog --stop '\n' p | cmp all -
	pico-generate --temp 0 -n 60 --ignore-eog --stop 'E\x6cla' p |
	    cmp all -
}

@test "generate: the defaults, written out" {
	pico-generate -n 30 p >a
	pico-generate -n 30 -s 0 --temp 0.8 --top-k 40 --top-p 0.95 \
	    --min-p 0.05 --typical 1 --repeat-penalty 1 --frequency-penalty 0 \
	    --presence-penalty 0 --repeat-last 64 --min-keep 0 -j 1 \
	    --top-n-sigma -1 --xtc 0 --xtc-threshold 0.1 --temp-range 0 \
	    --temp-exponent 1 --mirostat 0 --dry 0 --dry-base 1.75 \
	    --dry-length 2 --dry-last -1 \
	    --samplers logit-bias,penalties,dry,top-n-sigma,top-k,typical,top-p,min-p,xtc,temp \
	    --chunk 512 --kv-type f16 -c 512 p | cmp a -
	pico-generate -n 30 --dry 1 --dry-length 1 p >b
	pico-generate -n 30 --dry 1 --dry-length 1 --dry-breaker '*' \
	    --dry-breaker '"' --dry-breaker : --dry-breaker $'\n' p | cmp b -
	pico-generate -n 30 -s 1 p >b
	! cmp -s a b
	pico-generate -n 30 --top-k 1 p >a
	pico-generate -n 30 --temp 0 p | cmp a -
	pico-generate -n 30 --top-p 0 p | cmp a -
	pico-generate -n 30 --min-p 1 p | cmp a -
}

@test "generate: each sampling option reaches the sampler" {
	pico-generate -n 40 -s 2 p >base
	for o in '--temp 2' '--top-k 2' '--top-p 0.2' '--min-p 0.5' \
	    '--typical 0.1' '--repeat-penalty 2' '--frequency-penalty 2' \
	    '--presence-penalty 2' '--logit-bias 965=-inf' \
	    '--temp-range 0.7' '--temp-range 0.7 --temp-exponent 0' \
	    '--top-n-sigma 0.1' '--xtc 1' '--xtc 1 --xtc-threshold 0.01' \
	    '--dry 9 --dry-length 1' '--mirostat 1' '--mirostat 2' \
	    '--mirostat 2 --mirostat-tau 1' '--samplers temp' \
	    '--top-k 1 --min-keep 40'; do
		pico-generate -n 40 -s 2 $o p >out
		! cmp -s base out || { echo "$o changes nothing"; false; }
	done
}

@test "generate: the random seed is told, and gives the same again" {
	pico-generate -n 20 -s random -v p >a 2>v
	seed=$(sed -n 's/^seed:	//p' v)
	[ -n "$seed" ]
	pico-generate -n 20 -s "$seed" p | cmp a -
	pico-generate -n 20 -s random -v p 2>w >/dev/null
	[ "$seed" != "$(sed -n 's/^seed:	//p' w)" ]
}

@test "generate: lines draw apart from each other" {
	cat p p p p | pico-generate -n 20 >out
	[ $(sort -u out | wc -l) -ge 3 ]
	cat p p p p | pico-generate -n 20 --temp 0 >out
	[ $(sort -u out | wc -l) -eq 1 ]
}

@test "generate: -e writes the prompt, too" {
	pico-generate -n 5 p >new
	pico-generate -n 5 -e p >whole
	[ "$(cat whole)" = "$(cat p) $(cat new)" ]
}

@test "generate: tokens come at once, and lines before the input ends" {
	mkfifo in out
	pico-generate -n 3 --temp 0 <in >out &
	exec 5>in 6<out
	for i in 1 2 3; do
		cat p >&5
		read -r line <&6
		[ "$(wc -w <<<"$line")" -eq 3 ]
	done
	exec 5>&-
	! read -r line <&6
	exec 6<&-
	wait $!
	# with several at once, too: nobody waits for a batch to fill
	pico-generate -n 3 --temp 0 -j 4 <in >out &
	exec 5>in 6<out
	cat p >&5
	read -r line <&6
	[ "$(wc -w <<<"$line")" -eq 3 ]
	exec 5>&- 6<&-
	wait $!
}

@test "generate: a session answers line by line" {
	mkfifo in out
	pico-generate --session -n 4 --temp 0 <in >out &
	exec 5>in 6<out
	cat p >&5
	read -r one <&6
	echo 261 >&5
	read -r two <&6
	exec 5>&- 6<&-
	wait $!
	[ "$(echo "$(cat p) $one 261" | pico-generate -n 4 --temp 0)" = "$two" ]
	run_split pico-generate --session -j 2 p
	expect_error 2 '^pico-generate: option -j: one sequence only with --session$'
	# the answer's end token is part of what follows
	printf '<|user|>\nWhat does a cow say?</s>\n<|assistant|>\n' |
	    pico-tokenize -Sx >q
	a=$(pico-generate --temp 0 q)
	want=$(echo "$(cat q) $a 2 $(cat p)" | pico-generate --temp 0 -n 9)
	[ "$(cat q p | pico-generate --session --temp 0 -n 9 | sed -n 2p)" = \
	    "$want" ]
}

@test "generate: what a stop text held back goes out before a stop id" {
	ids=$(pico-generate --temp 0 -n 3 p)
	set -- $ids
	text=$(pico-detokenize -x <<<"$2" | tr -d '\n')
	[ "$(pico-generate --temp 0 -n 3 --stop-id "$3" --stop "${text}zzz" p)" = "$1 $2" ]
}

@test "generate: an empty line of a session goes on" {
	printf '1 5 9\n\n' >in
	pico-generate --session --ignore-eog -n 3 in | tr '\n' ' ' >got
	sed 1q in | pico-generate --ignore-eog -n 6 | tr '\n' ' ' | cmp got -
	# not where nothing was; and pico-forward has no row for it
	printf '\n1 5 9\n' >in
	run_split pico-generate --session -n 1 in
	[ "$(wc -l <"$BATS_TEST_TMPDIR/stdout")" -eq 2 ]
	one_line '^pico-generate: line 1: empty prompt'
	printf '\n1 5\n\n9\n\n' | pico-forward --session >got
	printf '1 5\n9\n' | pico-forward --session | cmp got -
}

@test "generate: an interrupt ends an answer, and the session goes on" {
	mkfifo in out
	pico-generate --session --interrupt --ignore-eog -c 100000 --temp 0 \
	    <in >out &
	pid=$!
	exec 5>in 6<out
	cat p >&5
	read -r -d ' ' first <&6
	kill -INT $pid
	read -r one <&6
	one="$first $one"
	kill -INT $pid		# nothing to end
	kill -INT $pid
	echo 261 >&5
	read -r -d ' ' two <&6
	kill -INT $pid
	read -r rest <&6
	exec 5>&-
	wait $pid
	[ "$(wc -w <<<"$one")" -lt 90000 ]
	# what came of the first answer is the context of the second
	want=$(echo "$(cat p) $one 261" | pico-generate --temp 0 -n 1 \
	    --ignore-eog -c 100000)
	[ "$two" = "$want" ]
	run_split pico-generate --interrupt p
	expect_error 2 '^pico-generate: option --interrupt needs --session$'
}

@test "generate: without --interrupt SIGINT is the end" {
	mkfifo in out
	# bash starts what is in the background with SIGINT ignored
	perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' pico-generate --session \
	    -n 2 <in >out &
	pid=$!
	exec 5>in 6<out
	cat p >&5
	read -r one <&6
	kill -INT $pid
	status=0
	wait $pid || status=$?
	exec 5>&- 6<&-
	[ "$status" -eq 130 ]
}

@test "generate: a session whose context is full" {
	run_split bash -c 'cat p p | pico-generate --session -c 8 --ignore-eog'
	[ $status -eq 1 ]
	[ "$(wc -w <<<"$output")" -eq 3 ]
	one_line '^pico-generate: line 2: prompt has 13 tokens with those before it, context is 8$'
}

@test "generate: a full context ends the sequence, and that is no fault" {
	run_split pico-generate --ignore-eog p
	[ $status -eq 0 ]
	[ -z "$stderr" ]
	[ "$(wc -w <<<"$output")" -eq $((512 - 5)) ]
	# more than the model was trained for works, said under -v only
	pico-generate -c 600 -n 3 p | cmp - <(pico-generate -n 3 p)
	pico-generate -c 600 -n 3 -v p 2>&1 >/dev/null | grep -q 'trained for 512'
}

@test "generate: empty input, empty lines" {
	run_split pico-generate </dev/null
	[ $status -eq 0 ]
	[ -z "$output$stderr" ]
	printf '\n' >empty
	run_split pico-generate -n 3 empty p
	[ $status -eq 0 ]
	[ "$(head -n 1 <<<"$output")" = '' ]
	[ "$(sed -n 2p <<<"$output" | wc -w)" -eq 3 ]
	one_line '^pico-generate: line 1: empty prompt'
	run_split pico-generate -q empty
	[ -z "$stderr" ]
	# binary: a header, and an empty sequence
	[ $(pico-generate -b </dev/null | wc -c) -eq 8 ]
	[ $(pico-generate -q -b empty | wc -c) -eq 12 ]
}

@test "generate: --keep-going replaces bad lines by empty ones" {
	for bad in '5 x' '-1' '1 99999' "$(seq 1 600 | tr '\n' ' ')" \
	    '99999999999999999999'; do
		{ cat p; printf '%s\n' "$bad"; cat p; } >in
		run_split pico-generate --keep-going -n 2 --temp 0 in
		[ $status -eq 1 ]
		[ "$(wc -l <<<"$output")" -eq 4 ]	# and a final newline
		[ "$(sed -n 2p <<<"$output")" = '' ]
		[ "$(sed -n 3p <<<"$output")" = "$(sed -n 1p <<<"$output")" ]
		one_line 'line 2'
		# without it: the good line, then the end
		run_split pico-generate -n 2 --temp 0 in
		[ $status -eq 1 ]
		[ "$(wc -w <<<"$output")" -le 2 ]
		one_line 'line 2'
	done
	# bad all through, and a bad line without a newline
	printf 'x\ny\nz' >in
	run_split pico-generate -k in
	[ $status -eq 1 ]
	[ "$output" = $'\n\n\n' ]
	[ "$(wc -l <<<"$stderr")" -eq 3 ]
}

@test "generate: what comes before a bad line is written, for every -j" {
	{ cat p; echo 5 6 7; cat p; echo 1 x; cat p; } >in
	run_split pico-generate -n 9 in
	[ $status -eq 1 ]
	one_line '^pico-generate: in: line 4, column 3: .x. is not a token id'
	[ "$(wc -l <<<"${output%?}")" -eq 3 ]
	[ "$(wc -w <<<"$output")" -eq 27 ]
	cp "$BATS_TEST_TMPDIR/stdout" want
	for o in '-j 2' '-j 8' '-j 3 --chunk 4'; do
		run_split pico-generate $o -n 9 in
		[ $status -eq 1 ]
		one_line 'line 4, column 3'
		cmp want "$BATS_TEST_TMPDIR/stdout"
	done
}

@test "generate: a prompt that fills the context" {
	run_split pico-generate -c 5 p
	[ $status -eq 0 ]
	[ "$output" = $'\n' ]
	run_split pico-generate -c 4 p
	expect_error 1 '^pico-generate: line 1: prompt has 5 tokens, context is 4$'
}

@test "generate: a cache type changes rounding, not sense" {
	echo 'One day, Mia went to the lake.' | pico-tokenize >q
	pico-generate --temp 0 -n 20 --kv-type f32 q >a
	pico-generate --temp 0 -n 20 --kv-type f16 q | cmp a -
	pico-generate --temp 0 -n 20 --kv-type q8_0 q | cmp a -
	pico-forward --kv-type f32 q >a
	pico-forward --kv-type f16 q >b
	! cmp -s a b
	pico-forward --kv-type q8_0 q >b
	! cmp -s a b
	run_split pico-generate --kv-type q3 p
	expect_error 2 "^pico-generate: option --kv-type: 'q3' is not a cache type: f16, f32 or q8_0$"
}

@test "generate: -v reports, with numbers" {
	pico-generate -v -n 7 -s 42 -t 1 p 2>v >/dev/null
	grep -qE '^prompt:	5 tokens, [0-9.]+ s, [0-9.]+ tok/s$' v
	grep -qE '^decode:	7 tokens, [0-9.]+ s, [0-9.]+ tok/s$' v
	grep -qx 'stop:	length' v
	grep -qx 'seed:	42' v
	grep -qE '^kernels:	[a-z0-9-]+, 1 threads' v
	! grep -vE '^[a-z]+:	' v
	# a shared beginning is not computed twice
	cat p p | pico-generate -v -n 1 2>v >/dev/null
	grep -qx 'reused:	4 tokens' v
}

@test "generate: what prompts have in common is computed once, for every -j" {
	cd "$BATS_TEST_TMPDIR"
	common=$(seq 300 399 | tr '\n' ' ')
	for i in 1 2 3 4 5 6; do
		echo "1 $common $((400 + i)) 5"
	done >p
	for j in 1 2 6; do
		pico-generate -v -j "$j" -n 3 p 2>report >"out$j"
		grep '^prompt:' report | cut -d' ' -f1
		grep '^reused:' report
		cmp out1 "out$j"
	done | sort -u >kinds
	cat kinds
	[ "$(wc -l <kinds)" -eq 2 ]
	grep -qx 'prompt:	113' kinds
}

@test "generate: progress never mixes with output on a terminal" {
	command -v script >/dev/null || skip 'needs script(1)'
	run script -qec "(echo 1 557; sleep 2; echo 1 581) |
	    pico-generate -n 3" /dev/null
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 2 ]
	[[ $output != *$'\e'* ]]
}

@test "generate: binary output is refused to a terminal" {
	command -v script >/dev/null || skip 'needs script(1)'
	run script -qec "echo 1 557 | pico-generate -b -n 3" /dev/null
	[ "$status" -eq 2 ]
	[[ $output == *'does not go to a terminal'* ]]
}

@test "generate: --shift goes on after a full context" {
	"$BUILD_DIR/bench/mkmodel" --shape tiny --layers 1 --type F32 -o one.gguf
	o='-m one.gguf --kv-type f32 --temp 0 --ignore-eog'
	echo 1 300 301 302 303 304 >p
	run_split pico-generate $o -c 40 p
	[ $(wc -w <<<"$output") -eq 34 ]
	pico-generate $o -c 40 -n 100 -e --shift 4 p >all
	[ $(wc -w <all) -eq 106 ]
	# In a model of one layer, keys and values are those of their token and
	# position alone: what follows is what follows the tokens that are left.
	# 18 are forgotten each time that there are 40.
	dropped=0
	for n in 40 41 50 57 58 59 70 76 80 94 100; do
		while [ $((n - dropped)) -ge 40 ]; do
			dropped=$((dropped + 18))
		done
		cut -d' ' -f1-4,$((5 + dropped))-$n all >left
		cut -d' ' -f$((n + 1)) all >want
		pico-generate $o -c 64 -n 1 left | cmp want - ||
		    { echo "$n"; false; }
	done
}

@test "generate: --shift is exact" {
	printf '1 5 9\n1 7 8 20 21 22 23 24\n1 5 9 200 300\n4\n' >q
	for kv in f16 q8_0; do
		o="-c 32 -n 90 --ignore-eog --kv-type $kv"
		pico-generate $o --shift 1 -t 1 q >want
		pico-generate $o --shift 1 -j 3 --chunk 5 q | cmp want -
		pico-generate $o --shift 1 -t 3 --chunk 1 q | cmp want -
		pico-generate $o --shift 30 -t 2 q >other
		! cmp -s want other
		pico-generate $o --shift 30 -j 4 q | cmp other -
	done
	# the part before it is full is as without
	pico-generate -c 32 -n 23 --ignore-eog --shift 1 q >a
	pico-generate -c 32 -n 23 --ignore-eog q | cmp a -
	# no sequence takes over what another has forgotten something of
	printf '4 5\n4 5\n' >q
	[ $(pico-generate -c 16 -n 40 --ignore-eog --temp 0 --shift 1 q |
	    uniq | wc -l) -eq 1 ]
}

@test "generate: --shift in a session makes room for lines" {
	for i in 1 2 3 4 5 6 7 8 9; do echo 7 8 9 10 11; done >q
	run_split pico-generate -c 24 -n 4 --session q
	[ $status -eq 1 ]
	pico-generate -c 24 -n 4 --session --ignore-eog --shift 2 q >a
	[ $(wc -w <a) -eq 36 ]
	pico-generate -c 24 -n 4 --session --ignore-eog --shift 2 -t 1 \
	    --chunk 1 q | cmp a -
	seq -s ' ' 3 30 >q
	run_split pico-generate -c 24 --session --shift 2 q
	expect_error 1 'prompt has 28 tokens, context is 24'
}

@test "generate: --shift where it cannot be" {
	run_split pico-generate -c 24 --shift 23 p
	expect_error 2 '23 tokens to keep of a context of 24'
	pico-generate -c 24 --shift 22 -n 40 p >/dev/null
	run_split pico-generate --shift 1 --kv c p
	expect_error 2 'option --shift: not with --kv'
}
