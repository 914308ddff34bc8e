# SPDX-License-Identifier: MIT
# pico-sample: logits in, tokens out.
load helper

# Five tokens, 4 ends generation; the best are 2, then 1, then 0.
row() {
	printf '# 5 4\n%s\t1 2 3 -inf -2\n\n' "${1:-0}"
}

# The ids that --show lists for the row, in one line.
shown() {
	row | pico-sample --show --temp 1 "$@" | cut -f3 | paste -sd' '
}

fails() {	# status, message, options...
	local status_want=$1 message=$2
	shift 2
	run --separate-stderr pico-sample "$@" <<<$'# 5 4\n0\t1 2 3 4 5\n'
	[ "$status" -eq "$status_want" ]
	[ -z "$output" ]
	[ "$stderr" = "pico-sample: $message" ]
}

bats_require_minimum_version 1.5.0

@test "sample: one token a row, one line a sequence" {
	run pico-sample --temp 0 <<<$'# 3\n0\n1\t1 2 3\n\n2\t3 2 1\n0\t0 1 0\n\n\n'
	[ "$status" -eq 0 ]
	[ "$output" = $'2\n0 1' ]
	n=$(printf '# 3\n0\n1\t1 2 3\n\n\n2\t3 2 1\n0\t0 1 0\n' |
	    pico-sample --temp 0 | wc -l)
	[ "$n" -eq 3 ]
}

@test "sample: binary in, binary out, with the reasons of the stream" {
	{
		printf '\211PLG\1\0\0\0\2\0\0\0\1\0\0\0\1\0\0\0'
		printf '\0\0\0\0\1\0\0\0\0\0\200\77\0\0\0\300'
		printf '\375\377\377\377\0\0\0\0'
		printf '\0\0\0\0\1\0\0\0\0\0\0\300\0\0\200\77'
		printf '\376\377\377\377\0\0\0\0'
	} >"$BATS_TEST_TMPDIR/in"
	[ "$(pico-sample --temp 0 "$BATS_TEST_TMPDIR/in" | od -An -c)" = \
	    "$(printf '0\n\n' | od -An -c)" ]
	pico-sample --temp 0 -b "$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out"
	# an id, the context's end; an end of generation, not written
	printf '\211PTK\1\0\0\0\0\0\0\0\375\377\377\377\377\377\377\377' |
	    cmp - "$BATS_TEST_TMPDIR/out"
}

@test "sample: files in order, - is stdin" {
	row >"$BATS_TEST_TMPDIR/a"
	printf '# 3\n0\t5 1 1\n\n' >"$BATS_TEST_TMPDIR/b"
	run pico-sample --temp 0 "$BATS_TEST_TMPDIR/a" - "$BATS_TEST_TMPDIR/b" \
	    <<<$'# 3\n0\t1 5 1\n'
	[ "$status" -eq 0 ]
	[ "$output" = $'2\n1\n0' ]
	run pico-sample "$BATS_TEST_TMPDIR/missing"
	[ "$status" -eq 1 ]
	[[ $output == *"cannot open '$BATS_TEST_TMPDIR/missing'"* ]]
}

@test "sample: an end of generation ends the sequence and is not written" {
	in=$'# 3 1\n0\t9 0 0\n0\t0 9 0\n0\t0 0 9\n\n0\t0 0 9\n'
	[ "$(pico-sample --temp 0 <<<"$in")" = $'0\n2' ]
	[ "$(pico-sample --temp 0 --emit-eog <<<"$in")" = $'0 1\n2' ]
	[ "$(pico-sample --temp 0 --ignore-eog <<<"$in")" = $'0 1 2\n2' ]
}

@test "sample: -n limits all tokens" {
	in=$'# 3\n0\t9 0 0\n0\t0 9 0\n\n0\t0 0 9\n0\tnan 0 0\n'
	[ "$(pico-sample --temp 0 -n 1 <<<"$in")" = 0 ]
	[ "$(pico-sample --temp 0 -n 2 <<<"$in")" = "0 1" ]
	[ "$(pico-sample --temp 0 -n 3 <<<"$in" | wc -l)" -eq 2 ]
	[ "$(pico-sample --temp 0 -n 0 <<<"$in" | wc -c)" -eq 0 ]
	[ "$(pico-sample --show -n 1 <<<"$in" | cut -f1 | uniq)" = 1 ]
}

@test "sample: sessions end the line where the input line ended" {
	in=$'# 3 1\n0\t9 0 0\n+\n0\t0 0 9\n+\n0\t0 9 0\n+\n0\t0 0 9\n+\n'
	[ "$(pico-sample --temp 0 <<<"$in" | od -c)" = \
	    "$(printf '0\n2\n\n' | od -c)" ]
	# the end of a session's input is no line
	[ "$(printf '# 3\n0\t9 0 0\n+\n\n' | pico-sample | wc -l)" -eq 1 ]
	printf '\211PTK\1\0\0\0\0\0\0\0\376\377\377\377' >"$BATS_TEST_TMPDIR/w"
	printf '# 3\n0\t9 0 0\n+\n\n' | pico-sample -b |
	    cmp - "$BATS_TEST_TMPDIR/w"
}

@test "sample: a loop is alive in text: row in, line out" {
	mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	pico-sample --temp 0 <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" \
	    3>&- &
	exec 4>"$BATS_TEST_TMPDIR/in" 5<"$BATS_TEST_TMPDIR/out"
	printf '# 3\n0\t9 0 0\n+\n' >&4
	read -r line <&5
	[ "$line" = 0 ]
	printf '%s\t0 0 9\n+\n' "$line" >&4
	read -r line <&5
	[ "$line" = 2 ]
	exec 4>&-
	wait $!
}

@test "sample: --show prints row, rank, id, logit, probability" {
	run pico-sample --show --temp 1 --top-p 1 --min-p 0 \
	    <<<$'# 3\n0\t0 1 -inf\n0\n1\t2 2 2\n'
	[ "$status" -eq 0 ]
	[ "$output" = "$(printf '%s\t%s\t%s\t%s\t%s\n' 1 1 1 1 0.731058579 \
	    1 2 0 0 0.268941421 1 3 2 -inf 0 2 1 0 2 0.333333333 \
	    2 2 1 2 0.333333333 2 3 2 2 0.333333333)" ]
}

@test "sample: --show and --min-keep agree with the cases of min-p" {
	need_shared
	f=$SHARED/conformance/sampling/min-p.json
	n=$(jq length "$f")
	for ((i = 0; i < n; i++)); do
		jq -r ".[$i].logits | \"# \\(length)\\n0\\t\\(map(. // \"-inf\") |
		    join(\" \"))\\n\"" "$f" >"$BATS_TEST_TMPDIR/in"
		p=$(jq -r ".[$i].chain[0].p" "$f")
		k=$(jq -r ".[$i].chain[0].min_keep" "$f")
		want=$(jq -r ".[$i].stages[0].candidates[][0]" "$f")
		got=$(pico-sample --show --temp 1 --top-k 0 --top-p 1 \
		    --min-p "$p" --min-keep "$k" "$BATS_TEST_TMPDIR/in" |
		    cut -f3)
		[ "$got" = "$want" ]
	done
}

@test "sample: each option does what it says" {
	[ "$(shown --top-p 1 --min-p 0)" = "2 1 0 4 3" ]
	[ "$(shown --top-p 1 --min-p 0 --top-k 2)" = "2 1" ]
	[ "$(shown --top-p 0.7 --min-p 0)" = "2 1" ]
	[ "$(shown --top-p 0.3)" = "2" ]
	[ "$(shown --top-p 0)" = "2" ]
	[ "$(shown --top-p 0 --min-keep 3)" = "2 1 0" ]
	[ "$(shown --top-p 1 --min-p 0.2)" = "2 1" ]
	[ "$(shown --top-p 1 --min-p 1)" = "2" ]
	[ "$(shown --top-p 1 --min-p 0 --typical 0.6)" = "2" ]
	[ "$(shown --top-p 1 --min-p 0 --typical 0.7)" = "2 1" ]
	[ "$(shown --logit-bias 2=-inf --logit-bias 0=9)" = "0" ]
	[ "$(shown --logit-bias 0=1 --logit-bias 0=0.5 --top-k 2)" = "2 0" ]
}

@test "sample: top-n-sigma, XTC, dynamic temperature, mirostat" {
	all='--top-p 1 --min-p 0'
	# the finite logits have mean 1 and standard deviation 1.87
	[ "$(shown $all --top-n-sigma 1 | cut -d' ' -f1-2)" = "2 1" ]
	n=$(row | pico-sample --show $all --top-n-sigma 1 | grep -cv inf)
	[ "$n" -eq 2 ]
	n=$(row | pico-sample --show $all --top-n-sigma 0 | grep -cv inf)
	[ "$n" -eq 1 ]
	[ "$(shown $all --top-n-sigma -1)" = "2 1 0 4 3" ]
	# probabilities 0.66, 0.24, 0.09
	[ "$(shown $all --xtc 1)" = "1 0 4 3" ]
	[ "$(shown $all --xtc 1 --xtc-threshold 0.05)" = "0 4 3" ]
	[ "$(shown $all --xtc 1 --xtc-threshold 0.3)" = "2 1 0 4 3" ]
	[ "$(shown $all --xtc 1 --xtc-threshold 0)" = "4 3" ]
	[ "$(shown $all --xtc 1 --xtc-threshold 0.51)" = "2 1 0 4 3" ]
	[ "$(shown $all --xtc 1 --min-keep 5)" = "2 1 0 4 3" ]
	# of two like tokens: all the entropy there can be, then none
	warm() { printf '# 2\n0\t3 %s\n' "$1" | pico-sample --show $all \
	    --temp 1 --temp-range 0.5 | cut -f4 | head -n1; }
	[ "$(warm 3)" = 2 ]
	[ "$(warm -900)" = 6 ]
	m='--temp 1 --mirostat 2 --mirostat-tau'
	[ "$(shown $m 1)" = "2" ]		# p >= 1/4
	[ "$(shown $m 1.1)" = "2 1" ]		# p >= 0.22
	[ "$(shown $m 0)" = "2" ]
	[ "$(shown $m 5)" = "2 1 0 4" ]
	[ "$(shown --temp 1 --mirostat 1 --mirostat-tau 0)" = 2 ]
	# mu begins anew with each sequence, and moves within it
	# mu is 6, then far below 0 after anything but the best
	in=$'# 4\n0\t1 1 1 2\n1\t1 1 1 2\n2\t1 1 1 2\n'
	for s in 1 2 3 4 5 6 7 8 9; do
		{ echo '# 4'; for i in 1 2; do sed 1d <<<"$in"; echo; done; } |
		    pico-sample -s $s --mirostat 2 --mirostat-tau 1.3 --temp 1 \
		    --mirostat-eta 1000 | grep .
	done >"$BATS_TEST_TMPDIR/o"
	[ "$(sed -n 'n;p' "$BATS_TEST_TMPDIR/o" | grep -c '^[012] 3')" -gt 2 ]
	! grep '^[012] [012]' "$BATS_TEST_TMPDIR/o"
}

# dry HISTORY OPTIONS...: the tokens that get weaker, of 9 like ones
dry() {
	local h=$1
	shift
	{
		echo '# 9'
		printf '%s\n' ${h% *}
		printf '%s\t1 1 1 1 1 1 1 1 1\n' "${h##* }"
	} | pico-sample --show --samplers dry --dry 1 --dry-breaker '' "$@" |
	    awk '$4 < 1 { print $3 ":" 1 - $4 }' | sort | paste -sd' '
}

@test "sample: DRY weakens what goes on with a repetition" {
	[ "$(dry '1 2 3 1 2')" = 3:1 ]
	[ "$(dry '1 2 3 1 2' --dry 0.5)" = 3:0.5 ]
	[ "$(dry '5 1 2 3 5 1 2' --dry-base 3)" = 3:3 ]
	[ "$(dry '5 1 2 3 5 1 2' --dry-base 3 --dry-length 1)" = 3:9 ]
	[ "$(dry '1 2 3 1 2' --dry-length 3)" = '' ]
	[ "$(dry '1 2 3 1 2' --dry-last 4)" = '' ]
	[ "$(dry '1 2 3 1 2' --dry-last 0)" = '' ]
	# the longest counts, of each token
	[ "$(dry '7 1 2 3 1 2 3 7 1 2' --dry-base 3)" = 3:3 ]
	[ "$(dry '1 2 3 1 2 4 1 2')" = '3:1 4:1' ]
	# as far as a float goes
	h=$(printf '1 %.0s' {1..300})
	[ "$(dry "${h% }" --dry-base 10)" = 1:1e+38 ]
	# not listed, no effect, and that is told
	run --separate-stderr pico-sample --samplers top-k,temp --dry 1 \
	    --logit-bias 0=-inf --typical 0.5 <<<$'# 2\n0\t9 0\n'
	[ "$status" -eq 0 ]
	[ "${#stderr_lines[@]}" -eq 3 ]
	[ "${stderr_lines[1]}" = "pico-sample: the options of dry have no \
effect: it is not among the samplers" ]
	run --separate-stderr pico-sample -q --samplers temp --dry 1 \
	    <<<$'# 2\n0\t9 0\n'
	[ -z "$stderr" ]
	run --separate-stderr pico-sample --mirostat 2 --top-k 3 \
	    <<<$'# 2\n0\t9 0\n'
	[ "$stderr" = "pico-sample: the options of top-k have no effect: it \
is not among the samplers" ]
}

@test "sample: breakers of DRY are texts, in the vocabulary of the model" {
	# the tokens of a text; in twice, with a line end in the midst
	once=$(printf 'one two\nred cat' | pico-tokenize --no-bos -x)
	ids="$once $once"
	last=${ids##* }
	n=$(pico-forward <<<5 | head -c 12 | tail -c 4 | od -An -tu4)
	history() {
		echo "# $((n))"
		printf '%s\n' ${ids% *}
		printf '%s\t' "$last"
		printf '0 %.0s' $(seq $((n - 1)))
		echo 0
	}
	history >"$BATS_TEST_TMPDIR/h"
	weakest() {
		pico-sample --show --samplers dry --dry 1 --dry-base 2 "$@" \
		    "$BATS_TEST_TMPDIR/h" | awk '$4 < 0' | cut -f4
	}
	k=$(wc -w <<<"$once")
	whole=$(weakest --dry-breaker '')
	[ "$whole" -eq $((-(1 << (k - 2)))) ]
	[ "$(weakest)" -gt "$whole" ]
	[ "$(weakest --dry-breaker $'\n')" = "$(weakest)" ]
	# spread over tokens
	[ "$(weakest --dry-breaker $'o\nr')" -gt "$whole" ]
	[ "$(weakest --dry-breaker $'o\nrx')" = "$whole" ]
	[ "$(weakest --dry-breaker xyzzy --dry-breaker $'\n')" = "$(weakest)" ]
	# only with a vocabulary, and the right one
	run --separate-stderr pico-sample --dry 1 <<<$'# 2\n0\t9 0\n'
	[ "$status" -eq 1 ]
	[ "$stderr" = "pico-sample: standard input: logits for 2 tokens, the \
model's vocabulary has $((n))" ]
	run --separate-stderr pico-sample --dry 1 -m /nowhere \
	    <<<$'# 2\n0\t9 0\n'
	[ "$status" -eq 1 ]
	pico-sample -m /nowhere <<<$'# 2\n0\t9 0\n' >/dev/null
}

@test "sample: --samplers is the order" {
	a='--temp 4 --top-p 0.7 --top-k 0'
	[ "$(shown --samplers top-p,temp $a)" = "2 1" ]
	row | pico-sample --show --temp 4 --top-p 0.7 --samplers temp,top-p |
	    cut -f3 | paste -sd' ' >"$BATS_TEST_TMPDIR/o"
	[ "$(cat "$BATS_TEST_TMPDIR/o")" = "2 1 0" ]
	[ "$(shown --samplers temp)" = "2 1 0 4 3" ]
	# the last one given counts, and this is the usual order
	usual=logit-bias,penalties,dry,top-n-sigma,top-k,typical,top-p,min-p
	o='--repeat-penalty 2 --xtc 1 --typical 0.9 --min-p 0.01'
	row | pico-sample --show $o >"$BATS_TEST_TMPDIR/a"
	row | pico-sample --show $o --samplers temp --samplers $usual,xtc,temp |
	    cmp "$BATS_TEST_TMPDIR/a" -
	fails 2 "option --samplers: 'nope' is no sampler; there are \
logit-bias, penalties, dry, top-n-sigma, top-k, typical, top-p, min-p, xtc, \
temp, mirostat" --samplers top-k,nope
	fails 2 "option --samplers: '' is no sampler; there are logit-bias, \
penalties, dry, top-n-sigma, top-k, typical, top-p, min-p, xtc, temp, \
mirostat" --samplers ''
	fails 2 "option --samplers: temp stands there twice" \
	    --samplers temp,top-k,temp
}

@test "sample: penalties see the history, as far back as they are told" {
	in=$'# 4\n3\n2\n2\n3\t1 2 5 4\n'
	[ "$(pico-sample --temp 0 <<<"$in")" = 2 ]
	[ "$(pico-sample --temp 0 --repeat-penalty 2 <<<"$in")" = 2 ]
	[ "$(pico-sample --temp 0 --frequency-penalty 1 <<<"$in")" = 2 ]
	[ "$(pico-sample --temp 0 --frequency-penalty 1.6 <<<"$in")" = 1 ]
	[ "$(pico-sample --temp 0 --presence-penalty 3.5 <<<"$in")" = 1 ]
	[ "$(pico-sample --temp 0 --repeat-penalty 9 --repeat-last 1 \
	    <<<"$in")" = 2 ]
	[ "$(pico-sample --temp 0 --repeat-penalty 9 --repeat-last 0 \
	    <<<"$in")" = 2 ]
	[ "$(pico-sample --temp 0 --repeat-penalty 9 --repeat-last 2 \
	    <<<"$in")" = 1 ]
	[ "$(pico-sample --temp 0 --repeat-penalty 9 --repeat-last -1 \
	    <<<"$in")" = 1 ]
	# another sequence has no history of this one
	[ "$(pico-sample --temp 0 --presence-penalty 9 \
	    <<<$'# 2\n0\t1 1\n\n1\t1 1\n')" = $'1\n0' ]
}

@test "sample: not a number, nothing possible, infinity" {
	run --separate-stderr pico-sample <<<$'# 3\n0\n0\n0\t1 2 3\n1\t1 2 nan\n'
	[ "$status" -eq 1 ]
	[ "$stderr" = "pico-sample: position 4: logit of token 2 is NaN" ]
	[[ $output =~ ^[012]$ ]]
	run pico-sample <<<$'# 3\n0\t-inf -inf -inf\n'
	[ "$status" -eq 1 ]
	[ "$output" = "pico-sample: position 1: no token is possible" ]
	run pico-sample --logit-bias 0=-inf --logit-bias 1=-inf \
	    <<<$'# 2\n0\t1 2\n'
	[ "$status" -eq 1 ]
	[ "$output" = "pico-sample: position 1: no token is possible" ]
	for seed in 1 2 3 4 5; do
		[ "$(pico-sample -s $seed <<<$'# 3\n0\t1 inf 3\n')" = 1 ]
	done
}

@test "sample: --top-p 0 equals --temp 0; ties go to the lowest id" {
	for seed in 0 1 2 3 4 5 6 7; do
		[ "$(pico-sample -s $seed --top-p 0 <<<$'# 4\n0\t1 3 3 2\n')" \
		    = 1 ]
		[ "$(pico-sample -s $seed --temp 0 <<<$'# 4\n0\t1 3 3 2\n')" \
		    = 1 ]
	done
}

@test "sample: values that are none, or out of range, are usage errors" {
	for bad in '--top-p 1.1' '--top-p -0.1' '--top-p nan' '--temp -1' \
	    '--temp nan' '--temp inf' '--temp 0,5' '--temp 0.5x' '--top-k -1' \
	    '--top-k 1.5' '--min-p 2' '--typical -1' '--repeat-penalty 0' \
	    '--repeat-penalty -1' '--repeat-last -2' '--presence-penalty inf' \
	    '--frequency-penalty x' '-n abc' '-n 12x' '-n -1' '-s 0x1' \
	    '-s -1' '-s randomly' '--min-keep -1' '--logit-bias 3' \
	    '--logit-bias =1' '--logit-bias 3=' '--logit-bias 3=inf' \
	    '--logit-bias 3=nan' '--logit-bias -1=3' '--logit-bias 3=1,5' \
	    '--temp-range -1' '--temp-range inf' '--temp-exponent -1' \
	    '--top-n-sigma -2' '--top-n-sigma nan' '--xtc 1.1' '--xtc -0.1' \
	    '--xtc nan' '--xtc-threshold -1' '--dry -1' '--dry nan' \
	    '--dry inf' '--dry-base 0.5' '--dry-base inf' '--dry-length -1' \
	    '--dry-length 1.5' '--dry-last -2' '--mirostat 3' \
	    '--mirostat -1' '--mirostat-tau -1' '--mirostat-tau nan' \
	    '--mirostat-eta -1' '--mirostat-eta inf' '--samplers x' \
	    '--samplers temp,' '--samplers ,temp' '--samplers temp,temp' \
	    '--samplers Temp' '--no-such' '-Z' '-b --show'; do
		run --separate-stderr env LC_ALL=de_DE.UTF-8 pico-sample $bad \
		    <<<$'# 5 4\n0\t1 2 3 4 5\n'
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
	for option in --temp --top-k --top-p --min-p -n -s --logit-bias \
	    --samplers --xtc --dry --mirostat --top-n-sigma; do
		run --separate-stderr pico-sample $option ''
		[ "$status" -eq 2 ]
		run --separate-stderr pico-sample $option
		[ "$status" -eq 2 ]
	done
	fails 2 "option --logit-bias: token 5 is not in the vocabulary of 5" \
	    --logit-bias 5=1
	fails 2 "option --top-p: '1.1' is not a number between 0 and 1" \
	    --top-p 1.1
	fails 2 "option --temp: '-1' is not a number of 0 or more" --temp -1
}

@test "sample: every option in the help is taken" {
	pico-sample -h | grep -oE -- '--[a-z-]+( [A-Z=]+)?' >"$BATS_TEST_TMPDIR/o"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/o")" -ge 18 ]
	while read -r option arg; do
		case $option in
		# tests/grammar.bats has these
		--grammar* | --json* | --finish | --no-jump) continue ;;
		esac
		case $arg in
		'') set -- ;;
		ID=X) set -- 1=0.5 ;;
		LIST) set -- temp ;;
		*) set -- 1 ;;
		esac
		row | pico-sample --dry-breaker '' "$option" "$@" >/dev/null
	done <"$BATS_TEST_TMPDIR/o"
}

@test "sample: the seed decides, and random tells which it was" {
	in=$(printf '# 8\n'; for i in 1 2 3 4 5 6 7 8 9; do
		printf '%d\t0 0 0 0 0 0 0 0\n' $((i % 8)); done)
	a=$(pico-sample --min-p 0 <<<"$in")
	[ "$a" = "$(pico-sample --min-p 0 <<<"$in")" ]
	[ "$a" = "$(pico-sample --min-p 0 -s 0 <<<"$in")" ]
	[ "$a" != "$(pico-sample --min-p 0 -s 1 <<<"$in")" ]
	run --separate-stderr pico-sample --min-p 0 -v -s random <<<"$in"
	[ "$status" -eq 0 ]
	seed=$(sed -n 's/^seed:\t//p' <<<"$stderr")
	[ "$output" = "$(pico-sample --min-p 0 -s "$seed" <<<"$in")" ]
}

@test "sample: what is drawn depends on sequence and position only" {
	in=$(printf '# 64\n'; for i in 1 2 3; do
		for k in 1 2 3 4; do
			printf '%d\t' $k
			printf '0 %.0s' {1..63}
			printf '0\n'
		done
		echo
	done)
	all=$(pico-sample --top-k 0 --top-p 1 <<<"$in")
	# the same rows, the first ones of each sequence without logits
	last=$(sed -E 's/^([123])\t.*/\1/' <<<"$in" |
	    pico-sample --top-k 0 --top-p 1)
	[ "$(sed 's/.* //' <<<"$all")" = "$last" ]
	[ "$(tr ' ' '\n' <<<"$all" | sort -u | wc -l)" -gt 8 ]
}

@test "sample: faults of the stream are told with their place" {
	fails_on() {
		run --separate-stderr pico-sample
		[ "$status" -eq 1 ]
		[ "${#stderr_lines[@]}" -eq 1 ]
		[[ $stderr == "pico-sample: standard input: $1"* ]]
	}
	fails_on "empty" </dev/null
	fails_on "not a logits stream" <<<"1 2 3"
	fails_on "line 2: 2 logits, vocabulary has 3" <<<$'# 3\n0\t1 2\n'
	fails_on "byte 28: logits of token 0 are cut off (4 of 12 bytes)" < <(
	    printf '\211PLG\1\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0')
	fails_on "logits stream for a vocabulary of 4294967295" < <(
	    printf '\211PLG\1\0\0\0\377\377\377\377\0\0\0\0')
}

@test "sample: a reader that goes away is no fault" {
	run bash -c "awk 'BEGIN { print \"# 1\"; for (;;) print \"0\\t1\" }' |
	    pico-sample | head -c 1; echo \${PIPESTATUS[1]}"
	[ "$output" = 0141 ]
}

@test "sample: a full disk is told" {
	[ -w /dev/full ] || skip "no /dev/full"
	run bash -c "printf '# 2\n0\t1 2\n\n' | pico-sample 2>&1 >/dev/full"
	[ "$status" -eq 1 ]
	[[ $output == *"No space left on device" ]]
	run bash -c "printf '# 2\n0\t1 2\n\n' | pico-sample --show 2>&1 >/dev/full"
	[ "$status" -eq 1 ]
	[[ $output == *"No space left on device" ]]
	run bash -c "printf '# 2\n0\t1 2\n\n' | pico-sample 2>&1 >&-"
	[ "$status" -eq 1 ]
}

@test "sample: what -h and the page say of the samplers is so" {
	row() { printf '# 9 8\n1\t1 3.5 2 0 1.25 -1 3 2.5 0\n'; }
	cd "$BATS_TEST_TMPDIR"
	# the defaults
	row | pico-sample --show >want
	pico-sample -h | sed -n '/--seed/,/--min-keep/s/^ *\(-., \)\{0,1\}\(--[^ ]*\) [A-Z].*(\([-0-9.]*\)\(: [a-z]*\)\{0,1\})$/\2 \3/p' \
	    >defaults
	[ "$(wc -l <defaults)" -ge 20 ]
	while read -r option value; do
		row | pico-sample --show "$option" "$value" | cmp want -
	done <defaults
	# the names and their order
	names=$(pico-sample --samplers nope </dev/null 2>&1 || true)
	names=${names#*there are }
	[ "$(sed -n '/^\.It Fl -samplers/,/^What/s/^\.Cm //p' \
	    "$ROOT/man/pico-sample.1" | paste -sd' ' |
	    sed 's/ ,/,/g; s/ \.$//')" = "$names" ]
	[ "$(sed -n '/^\.Ss The chain/,/^\.Sh/s/^\.Cm \([a-z-]*\).*/\1/p' \
	    "$ROOT/man/pico-sample.1" | paste -sd, |
	    sed 's/,/, /g')" = "$names" ]
}
