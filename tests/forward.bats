# pico-forward: what its options do. Numbers: conformance.bats, exact.bats.
load helper

Q=$DATA/arch/llama-q8_0.gguf	# 288 tokens
TAB=$(printf '\t')

setup() {
	cd "$BATS_TEST_TMPDIR"
	echo '1 557 581 261 436' >p	# Once upon a time
}

@test "forward: logits after the last token of each sequence" {
	printf '1 2 3\n4\n' | pico-forward -m $Q -T >out
	[ "$(cut -f1 out | tr '\n' ';')" = '# 288 2;1;2;3;;4;;' ] || {
		cut -f1 out
		false
	}
	[ $(grep -c "$TAB" out) -eq 2 ]
	[ $(sed -n 4p out | cut -f2 | wc -w) -eq 288 ]
	printf '1 2 3\n4\n' | pico-forward -m $Q -T -a >out
	[ $(grep -c "$TAB" out) -eq 4 ]
}

@test "forward: the binary stream" {
	printf '1 2 3\n\n4\n' | pico-forward -m $Q >out
	# header, counts, an end id, history twice, a row, its end, an empty
	# sequence, a row and its end
	[ $(wc -c <out) -eq $((8 + 8 + 4 + 8 + 8 + 8 + 4 * 288 + 8 + 8 +
	    8 + 4 * 288 + 8)) ]
	[ "$(head -c 20 out | od -An -v -tx1 | tr -d ' \n')" = \
	    89504c4701000000200100000100000002000000 ]
	printf '1 2 3\n\n4\n' | pico-forward -m $Q -b | cmp out -
}

@test "forward: rows agree in all forms" {
	pico-forward -a -T p >text
	pico-forward -a p >binary
	pico-sample --temp 0 text >a
	pico-sample --temp 0 binary >b
	cmp a b
	# the best of --top is the greedy choice
	pico-forward -a --top 1 p | cut -f4 | tr '\n' ' ' | sed 's/ $//' >c
	echo >>c
	cmp a c
}

@test "forward: --top is a table" {
	pico-forward --top 3 p >out
	[ $(wc -l <out) -eq 3 ]
	awk -F'\t' 'NF != 7 || $1 != 4 || $2 != 436 || $3 != NR { exit 1 }
	    NR > 1 && ($5 > l || $6 > lp) { exit 1 }
	    { l = $5; lp = $6 }' out
	# logits and log-probabilities differ by a constant
	awk -F'\t' 'NR == 1 { d = $5 - $6 }
	    { e = $5 - $6 - d; if (e > 1e-5 || e < -1e-5) exit 1 }' out
	[ "$(head -n 1 out | cut -f4,7)" = "965$TAB," ]
	# all of them, and their probabilities are one
	pico-forward --top 99999 p >out
	[ $(wc -l <out) -eq 1024 ]
	awk -F'\t' '{ s += exp($6) } END { exit !(s > 0.99999 && s < 1.00001) }' \
	    out
	# no piece breaks a line: token 13 is a newline
	[ "$(cut -f4,7 out | grep "^13$TAB")" = '13	<0x0A>' ]
	[ $(pico-forward -a --top 2 p | wc -l) -eq 10 ]
}

@test "forward: --nll is each token's log-probability" {
	pico-forward --nll p >out
	[ "$(cut -f1,2 out | tr '\t\n' ' ;')" = '1 557;2 581;3 261;4 436;' ]
	for i in 1 2 3 4; do
		id=$(sed -n ${i}p out | cut -f2)
		want=$(cut -d' ' -f-$i p | pico-forward --top 99999 |
		    awk -F'\t' -v id=$id '$4 == id { print $6 }')
		sed -n ${i}p out | awk -v w="$want" '{
			exit !($3 - w < 1e-4 && w - $3 < 1e-4 && $3 < 0) }'
	done
	# the first token of a later line of a session has a past
	tr ' ' '\n' <p | pico-forward --nll --session | cmp out -
	echo 7 | pico-forward --nll >out
	[ ! -s out ]
	# the perplexity of sense is lower than that of nonsense
	a=$(pico-forward --nll p | awk '{ s -= $3 } END { print s / NR }')
	b=$(echo 1 436 261 557 581 | pico-forward --nll |
	    awk '{ s -= $3 } END { print s / NR }')
	awk -v a=$a -v b=$b 'BEGIN { exit !(a + 2 < b) }'
}

@test "forward: a session keeps the sequence" {
	printf '1 557\n581\n261 436\n' | pico-forward -T --session >out
	[ "$(cut -f1 out | tr '\n' ';')" = \
	    "# 1024 2;1;557;+;581;+;261;436;+;;" ]
	[ $(grep -c "$TAB" out) -eq 3 ]
	pico-forward -T p | grep "^436$TAB" >want
	grep "^436$TAB" out | cmp want -
	# without a line there is no sequence
	pico-forward -T --session </dev/null >out
	[ "$(cat out)" = '# 1024 2' ]
}

@test "forward: a session with a full context closes its output" {
	printf '1 557\n581\n\n\n' | pico-forward -T --session -c 3 >out
	[ "$(cut -f1 out | tr '\n' ';')" = "# 1024 2;1;557;+;581;;" ] ||
	[ "$(cut -f1 out | tr '\n' ';')" = "# 1024 2;1;557;+;581;+;;" ]
	[ $(grep -c "$TAB" out) -eq 1 ]
	run_split bash -c 'printf "1 557\n581\n9\n" |
	    pico-forward -T --session -c 3'
	[ $status -eq 1 ]
	one_line '^pico-forward: line 3: prompt has 4 tokens with those before it, context is 3$'
}

@test "forward: many lines in a pass give what one at a time gives" {
	local j chunk form
	printf '%s\n' '1 391 427' '' '263' '1 391 427 263 648' '5 6 7 8 9 10' \
	    '1 391' >lines
	for form in '' -a --nll '--top 2' -T; do
		# shellcheck disable=SC2086
		pico-forward -m "$MODEL" $form lines >want
		for j in 2 3 32; do
			for chunk in 1 7 64; do
				# shellcheck disable=SC2086
				pico-forward -m "$MODEL" $form -j $j \
				    --chunk $chunk lines | cmp - want
			done
		done
	done
}

@test "forward: -j writes the lines before a bad one, and waits for none" {
	printf '1 391\n1 x\n' >lines
	run pico-forward -m "$MODEL" -j 8 --top 1 lines
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == 1$'\t'391$'\t'1$'\t'* ]]
	[[ $output == *"line 2, column 3"* ]]
	# a line is answered before the next one comes
	coproc FORWARD { pico-forward -m "$MODEL" -j 8 --top 1; }
	echo '1 391' >&"${FORWARD[1]}"
	read -r answer <&"${FORWARD[0]}"
	echo '1 427' >&"${FORWARD[1]}"
	read -r second <&"${FORWARD[0]}"
	[[ $answer == 1$'\t'391* ]]
	[[ $second == 1$'\t'427* ]]
	run pico-forward -m "$MODEL" -j 2 --session lines
	[ "$status" -eq 2 ]
}

@test "forward: operands are read in order, - is stdin" {
	echo 5 >q
	{ cat p q p; echo 6; } | pico-forward >want
	echo 6 | pico-forward p q p - >got
	cmp want got
	pico-forward p q p - </dev/null | cmp - <(cat p q p | pico-forward)
	run_split pico-forward p missing
	[ $status -eq 1 ]
	one_line "^pico-forward: cannot open 'missing': No such file"
}

@test "forward: empty lines are empty sequences" {
	printf '\n\n' | pico-forward -T >out
	[ "$(tr '\n' ';' <out)" = '# 1024 2;;;' ]
	: | pico-forward -T >out
	[ "$(tr '\n' ';' <out)" = '# 1024 2;' ]
	printf '\n\n' | pico-forward | pico-sample >out
	[ $(wc -l <out) -eq 2 ]
}

@test "forward: what does not fit is refused before any work" {
	seq 1 600 | tr '\n' ' ' >long
	run_split pico-forward long
	expect_error 1 '^pico-forward: line 1: prompt has 600 tokens, context is 512$'
	run_split pico-forward -T -a -c 4 p
	expect_error 1 '^pico-forward: line 1: prompt has 5 tokens, context is 4$'
	run_split pico-forward -c 5 p
	[ $status -eq 0 ]
	run_split pico-forward p long
	[ $status -eq 1 ]
	one_line '^pico-forward: long: line 1: prompt has 600 tokens'
	pico-forward -c 1000 long | pico-sample >/dev/null
	run_split pico-forward -m $Q p
	expect_error 1 '^pico-forward: line 1: token 557 is not in the vocabulary of 288$'
}

@test "forward: the session's context is counted over its lines" {
	run_split bash -c 'printf "1 2\n3 4\n" | pico-forward --session -c 3'
	[ $status -eq 1 ]
	one_line '^pico-forward: line 2: prompt has 4 tokens with those before it, context is 3$'
}

@test "forward: -v reports, with numbers" {
	pico-forward -v -t 1 p 2>v >/dev/null
	grep -qE '^weights:	[0-9]+ bytes' v
	grep -qE '^kv:	[0-9]+ bytes when full' v
	grep -qE '^prompt:	5 tokens, [0-9.]+ s, [0-9.]+ tok/s$' v
	grep -qE '^memory:	[0-9.]+ MB' v
	grep -qE '^kernels:	[a-z0-9-]+, 1 threads' v
	! grep -vE '^[a-z]+:	' v
}

@test "forward: exclusive options and a terminal" {
	run_split pico-forward --top 2 --nll p
	expect_error 2 '--top and --nll'
	run_split pico-forward -T -b p
	expect_error 2 '-T and -b'
	command -v script >/dev/null || skip 'needs script(1)'
	script -qec 'pico-forward p' /dev/null </dev/null >out && false
	grep -q 'use -T for text, or --top' out
	script -qec 'pico-forward --top 1 p' /dev/null </dev/null >out
	grep -q '965' out
}
