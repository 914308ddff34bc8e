# pico-score: sums of log-probabilities, windows, comparisons, choices.
load helper

Q=$DATA/arch/llama-q8_0.gguf	# 288 tokens
TAB=$(printf '\t')

setup() {
	cd "$BATS_TEST_TMPDIR"
	echo '1 557 581 261 436' >p	# Once upon a time
	printf '%s\n' '1 391 427' '' '263' '1 391 427 263 648' '5 6 7 8 9 10' \
	    '1 391' >lines
}

# ids N: so many tokens of stories, BOS first, in a line
ids() {
	local i
	for i in 1 2 3 4 5 6 7 8; do
		pico-generate -s $i --ignore-eog -n 200 p | tr '\n' ' '
	done | tr -s ' ' '\n' | sed '/^$/d; /^[12]$/d' | head -n $(($1 - 1)) |
	    { echo 1; cat; } | tr '\n' ' ' | sed 's/ $//'
	echo
}

# close_to X Y TOLERANCE
close_to() {
	awk -v x="$1" -v y="$2" -v t="$3" 'BEGIN {
		exit !(x - y <= t && y - x <= t) }' || {
		echo "$1 is not $2 within $3"
		return 1
	}
}

@test "score: a line for each sequence, with the sums of pico-forward --nll" {
	pico-score lines >out
	[ "$(cut -f1 out | tr '\n' ' ')" = '2 0 0 4 5 1 ' ]
	[ "$(sed -n 2p out)" = "0${TAB}0${TAB}nan${TAB}nan" ]
	# of one token there is no error
	[ "$(sed -n 6p out | cut -f4)" = nan ]
	while read -r line; do
		echo "$line" | pico-forward --nll
		echo
	done <lines | awk -F'\t' '
		NF == 3 { n++; s += $3; q += $3 * $3 }
		NF != 3 {
			e = n > 1 ? sqrt((q - s * s / n) / (n - 1) / n) : 0
			p = n > 0 ? exp(-s / n) : 0
			printf "%d %.6g %.5g %.4g\n", n, s, p, p * e
			n = s = q = 0
		}' >want
	sed 's/nan/0/g' out | awk '{ printf "%d %.6g %.5g %.4g\n",
	    $1, $2, $3, $4 }' | diff want -
	# together
	pico-score --total lines >out
	pico-forward --nll lines | awk '{ s += $3 } END {
		printf "12\t%.7g\t%.6g\n", s, exp(-s / NR) }' >want
	awk '{ printf "%d\t%.7g\t%.6g\n", $1, $2, $3 }' out | diff want -
	[ "$(pico-score --total </dev/null)" = "0${TAB}0${TAB}nan${TAB}nan" ]
	[ -z "$(pico-score </dev/null)" ]
}

@test "score: --each is pico-forward --nll with the number of the sequence" {
	pico-score --each lines >out
	pico-forward --nll lines | cmp - <(cut -f2- out)
	[ "$(cut -f1 out | uniq -c | tr -s ' \n' ' ')" = ' 2 1 4 4 5 5 1 6 ' ]
	# binary input, operands in order, - is stdin
	pico-tokenize -b <<<'Once upon a time' >b
	cat lines | pico-score --each b - p >out
	pico-forward --nll p lines p | cmp - <(cut -f2- out)
}

@test "score: the same bytes for all -t, -j, --chunk and kernels" {
	local o cpu set form
	ids 90 >>lines
	ids 41 >>lines
	for form in '' --each --total '--stride 10 -c 24 --each' \
	    '--stride 23 -c 24'; do
		[ "${form#*stride}" != "$form" ] || form="$form -c 128"
		# shellcheck disable=SC2086
		pico-score -t 1 $form lines >want
		for o in '-t 2' '-j 2' '-j 3 --chunk 7' '-j 40' '--chunk 1' \
		    '-t 3 -j 5 --chunk 64' '--memory 8M'; do
			# shellcheck disable=SC2086
			pico-score $form $o lines | cmp want -
		done
		for cpu in scalar avx2 avx512 neon neon-dot; do
			# shellcheck disable=SC2086
			PICO_CPU=$cpu pico-score $form -j 3 lines >got 2>err ||
			    { grep -q 'cannot run here' err && continue; }
			cmp want got
		done
	done
}

@test "score: windows score each token once, as pico-forward does" {
	ids 100 >text
	for s in 1 7 12 23; do
		pico-score --each -c 24 --stride $s text >out
		[ "$(cut -f2 out | tr '\n' ' ')" = \
		    "$(seq -s ' ' 1 99) " ]
		[ "$(cut -f3 out)" = "$(tr ' ' '\n' <text | tail -n +2)" ]
		# each window by itself: BOS, and 23 tokens that end at `end`
		tr ' ' '\n' <text | awk -v s=$s 'NR > 1 { id[NR - 1] = $1 }
			END {
				for (end = 23; ; end += s) {
					if (end > 99)
						end = 99
					line = "1"
					for (i = end - 22; i <= end; i++)
						line = line " " id[i]
					print line, from + 1, end
					if (end == 99)
						break
					from = end
				}
			}' |
		while read -r line; do
			# shellcheck disable=SC2086
			set -- $line
			echo "${*:1:24}" | pico-forward -c 24 --nll |
			    tail -n $((${26} - ${25} + 1)) | cut -f2-
		done >want
		cut -f3- out | cmp want -
	done
	# without BOS, windows are parts of the text as they are
	cut -d' ' -f2-31 text >plain
	pico-score --each -c 16 --stride 8 plain >out
	{ cut -d' ' -f1-16 plain | pico-forward --nll
	  cut -d' ' -f9-24 plain | pico-forward --nll | tail -n 8
	  cut -d' ' -f15-30 plain | pico-forward --nll | tail -n 6; } |
	    cut -f2- | cmp - <(cut -f3- out)
	# what fits is one window
	pico-score -c 100 --stride 3 text | cmp - <(pico-score text)
}

@test "score: too long without --stride" {
	run_split pico-score -c 4 p
	expect_error 1 '^pico-score: line 1: sequence has 5 tokens, context is 4 \(--stride N scores it in windows\)$'
	# lines before a bad one are scored
	{ echo 1 557; cat p; } >two
	run_split pico-score -c 4 -j 3 two
	[ $status -eq 1 ]
	one_line '^pico-score: line 2: sequence has 5 tokens'
	[ "$output" = "$(echo 1 557 | pico-score)"$'\n' ]
	run_split bash -c 'printf "1 557\n1 9999\n" | pico-score -j 2'
	[ $status -eq 1 ]
	one_line '^pico-score: line 2: token 9999 is not in the vocabulary of 1024$'
	[ "${output%%"$TAB"*}" = 1 ]
	run_split bash -c 'printf "1 557\n1 x\n" | pico-score --total'
	expect_error 1 'line 2, column 3'
}

@test "score: options that make no sense" {
	run_split pico-score -c 8 --stride 8 p
	expect_error 2 '^pico-score: option --stride: a stride of 8 in a context of 8 leaves nothing before the first token$'
	for o in '--stride 0' '--stride x' '-j 0' '-t 0' '-c 0' '--chunk 0'; do
		# shellcheck disable=SC2086
		run_split pico-score $o p
		expect_error 2 "^pico-score: option ${o% *}: '"
	done
	for o in '--each --total' '--total --choices' '--stride 3 --choices' \
	    '--save f --choices' '--against f --choices' \
	    '--save f --against f' '--total --against f'; do
		# shellcheck disable=SC2086
		run_split pico-score $o p
		expect_error 2 '^pico-score: options --.* and --.* exclude each other$'
	done
	for o in --save --against; do
		run_split pico-score $o '' p
		expect_error 2 "^pico-score: option $o: the file name is empty$"
	done
	[ ! -e f ]
}

@test "score: a line is answered before the next one comes" {
	coproc SCORE { pico-score -j 4; }
	cat p >&"${SCORE[1]}"
	read -r a <&"${SCORE[0]}"
	echo '1 427' >&"${SCORE[1]}"
	read -r b <&"${SCORE[0]}"
	[ "$a" = "$(pico-score p)" ]
	[ "${b%%"$TAB"*}" = 1 ]
}

@test "score: full disks" {
	for o in '' --each --total; do
		# shellcheck disable=SC2086
		run_split bash -c "pico-score $o lines >/dev/full"
		[ $status -eq 1 ]
		one_line '^pico-score: write error on standard output: No space left on device$'
	done
	run_split pico-score --save /dev/full p
	[ $status -eq 1 ]
	one_line '^pico-score: write error on /dev/full: No space left on device$'
	run_split pico-score --save nowhere/f p
	expect_error 1 "^pico-score: cannot write 'nowhere/f': No such file or directory$"
}

# the number (and its error) of a name in the table of --against
value() {
	grep "^$1$TAB" table | cut -f"${2:-2}"
}

@test "score: a model does not differ from itself" {
	ids 60 >>lines
	pico-score --save f lines >a
	cmp a <(pico-score lines)
	pico-score --against f -j 3 --chunk 5 lines >table
	[ "$(value tokens)" = "$(pico-score --total lines | cut -f1)" ]
	for k in perplexity saved; do
		[ "$(value $k)" = "$(pico-score --total lines | cut -f3)" ]
		[ "$(value $k 3)" = "$(pico-score --total lines | cut -f4)" ]
	done
	for k in difference kl-mean 'kl-99%' kl-max; do
		[ "$(value $k)" = 0 ]
	done
	[ "$(value difference 3)" = 0 ]
	[ "$(value same-top)" = 1 ]
	# the file is the same bytes, and goes through a pipe
	pico-score --save g -j 3 -t 1 --chunk 5 lines >b
	cmp f g
	cmp a b
	mkfifo h
	pico-score --save h lines >b &
	pico-score --against h lines | cmp table -
	wait
	# nothing is compared with nothing
	pico-score --save f </dev/null
	pico-score --against f </dev/null >table
	[ "$(value tokens)" = 0 ]
	[ "$(value kl-mean)" = nan ]
}

@test "score: divergences are those of the whole distributions" {
	ids 60 >text
	pico-score --save f text
	pico-score --against f --kv-type q8_0 text >table
	pico-score --against f --kv-type q8_0 --each text >each
	cut -f2-4 each | cmp - <(pico-forward --nll --kv-type q8_0 text)
	# the definition, from the logits of all places but the last
	for o in f16 q8_0; do
		pico-forward -a -T --kv-type $o text | grep "$TAB" |
		    head -n 59 | cut -f2 >$o
	done
	paste f16 q8_0 | awk -F'\t' '
		function lse(x, n,   i, m, s) {
			m = x[1]
			for (i = 2; i <= n; i++)
				if (x[i] > m)
					m = x[i]
			for (i = 1; i <= n; i++)
				s += exp(x[i] - m)
			return m + log(s)
		}
		{
			n = split($1, a, " ")
			split($2, b, " ")
			la = lse(a, n)
			lb = lse(b, n)
			kl = 0
			top_a = top_b = 1
			for (i = 1; i <= n; i++) {
				kl += exp(a[i] - la) * (a[i] - la - b[i] + lb)
				if (a[i] > a[top_a])
					top_a = i
				if (b[i] > b[top_b])
					top_b = i
			}
			print kl, top_a == top_b
		}' >want
	paste -d' ' want each | awk '{ d = $1 - $7
		most = 4e-7 + sqrt($1) / 500
		if (d > most || -d > most) {
			print NR, $1, $7; exit 1 } }'
	close_to "$(value kl-mean)" \
	    "$(awk '{ s += $1 } END { print s / NR }' want)" 2e-6
	close_to "$(value kl-mean)" \
	    "$(awk '{ s += $5 } END { printf "%.9g", s / NR }' each)" 1e-11
	close_to "$(value kl-mean 3)" "$(awk '{ s += $5; q += $5 * $5 } END {
		printf "%.9g", sqrt((q - s * s / NR) / (NR - 1) / NR) }' each)" 1e-9
	[ "$(value kl-max)" = "$(cut -f5 each | sort -g | tail -n 1)" ]
	# 59 numbers: 99 % of them are all
	close_to "$(value 'kl-99%')" "$(value kl-max)" \
	    "$(awk -v m="$(value kl-max)" 'BEGIN { print m / 1000 }')"
	close_to "$(value same-top)" \
	    "$(awk '{ s += $2 } END { printf "%.9g", s / NR }' want)" 1e-8
	# perplexities, and the error of their difference by the definition
	[ "$(value saved)" = "$(pico-score text | cut -f3)" ]
	[ "$(value perplexity)" = \
	    "$(pico-score --kv-type q8_0 text | cut -f3)" ]
	close_to "$(value difference)" "$(awk -v a="$(value perplexity)" \
	    -v b="$(value saved)" 'BEGIN { printf "%.9g", a - b }')" 1e-7
	pico-forward --nll text | paste - each | awk -F'\t' -v \
	    a="$(value perplexity)" -v b="$(value saved)" '
		{ z = a * $7 - b * $3; s += z; q += z * z }
		END { print sqrt((q - s * s / NR) / (NR - 1) / NR) }' >error
	close_to "$(value difference 3)" "$(cat error)" 1e-7
}

@test "score: what was saved of something else is refused" {
	pico-score --save f p
	run_split pico-score -m "$Q" --against f p
	expect_error 1 "^pico-score: 'f' is of another vocabulary: of 1024 tokens, the model's has 288$"
	echo '1 557 581 261 437' >q
	run_split pico-score --against f q
	expect_error 1 "^pico-score: sequence 1, position 4: token 437 after 261, but 'f' has position 4, token 436 after 261$"
	# only what is before the first scored token differs
	echo '2 557 581 261 436' >q
	run_split pico-score --against f q
	expect_error 1 'position 1: token 557 after 2, but .f. has position 1, token 557 after 1$'
	echo '1 557 581 261' >q
	run_split pico-score --against f q
	expect_error 1 "^pico-score: 'f' has more than the 3 tokens of the input$"
	run_split pico-score --against f p p
	expect_error 1 "^pico-score: sequence 2, position 1: 'f' has no more than 4 tokens$"
	# another vocabulary of the same size
	LC_ALL=C sed 's/Once/Twos/' "$MODEL" >other.gguf
	run_split pico-score -m other.gguf --against f p
	expect_error 1 "^pico-score: 'f' is of another vocabulary, though it has 1024 tokens, too$"
	run_split pico-score --against p p
	expect_error 1 "^pico-score: 'p' holds no saved scores: it begins with '1 557 58'$"
	run_split pico-score --against missing p
	expect_error 1 "^pico-score: cannot open 'missing': No such file or directory$"
}

@test "score: a saved file that is cut or damaged" {
	pico-score --save f p
	n=$(wc -c <f)
	[ "$n" -eq $((24 + 4 * (24 + 2 * 1024) + 24)) ]
	for k in 0 5 8 23 24 30 100 $((n - 24)) $((n - 1)); do
		head -c $k f >cut
		run_split pico-score --against cut p
		expect_error 1 "^pico-score: 'cut' is cut off after [0-3]* saved tokens$" ||
		    [ $k -ge $((n - 24)) ]
		[ $status -eq 1 ]
	done
	for k in 50 70 $((n - 30)) $((n - 12)) $((n - 2)); do
		cp f bad
		printf '\252' | dd of=bad bs=1 seek=$k conv=notrunc status=none
		run_split pico-score --against bad p
		expect_error 1 "^pico-score: 'bad' is damaged: "
	done
	# one that a run which failed left behind is no use
	run_split pico-score --save f lines <<<'' -c 4
	[ $status -eq 1 ]
	run_split pico-score --against f lines
	expect_error 1 "'f' is cut off"
}

@test "score: --save overwrites nothing but its own" {
	cp "$MODEL" m.gguf
	run_split pico-score --save m.gguf p
	expect_error 1 "^pico-score: 'm.gguf' is there and holds no saved scores: not overwritten$"
	cmp m.gguf "$MODEL"
	: >empty
	pico-score --save empty lines >out
	pico-score --save empty p >out
	pico-score --save new p >out
	cmp empty new
}

@test "score: choices, from plain text" {
	printf '%s\n' 'The cow says' 'The cow says meow.' 'The cow says moo.' \
	    '' '' 'The sky is' 'The sky is green.' 'The sky is blue.' \
	    'The sky is blue and the' >quiz
	pico-tokenize -l quiz >q
	[ "$(pico-score --choices q)" = "2${TAB}2"$'\n'"2${TAB}2" ]
	# by hand: what comes after the tokens of the question
	i=0
	for text in 'The cow says' 'The sky is'; do
		i=$((i + 1))
		n=$(echo "$text" | pico-tokenize | wc -w)
		grep "^$text." quiz | pico-tokenize -l | {
			k=0
			while read -r line; do
				k=$((k + 1))
				echo "$line" | pico-forward --nll |
				    tail -n +$n | awk -v i=$i -v k=$k '
					{ s += $3 } END { printf \
					    "%d\t%d\t%d\t%.6f\t%.6f\n",
					    i, k, NR, s, s / NR }'
			done
		}
	done >want
	pico-score --choices --each q | awk '{ printf \
	    "%d\t%d\t%d\t%.6f\t%.6f\n", $1, $2, $3, $4, $5 }' | diff want -
	# exact, whatever is computed together
	pico-score --choices --each q >want
	for o in '-j 2' '-j 9' '-j 3 --chunk 2' '-t 1 --chunk 1' '-t 3'; do
		# shellcheck disable=SC2086
		pico-score --choices --each $o q | cmp want -
	done
	# the first of equals is the best
	printf '1 302\n1 302 866\n1 302 866\n' | pico-score --choices >first
	[ "$(cat first)" = "1${TAB}1" ]
}

@test "score: the beginning of a group is computed once" {
	ids 60 >text
	{ cut -d' ' -f-50 text
	  for i in 1 2 3 4; do
		echo "$(cut -d' ' -f-50 text) 5$i 6$i"
	  done; } >group
	n=$(pico-score --choices -v group 2>&1 >/dev/null |
	    sed -n 's/^prompt:	\([0-9]*\) .*/\1/p')
	# 49, and for each choice the last token and the choice's first
	[ "$n" -eq $((49 + 4 * 2)) ]
	# the next group begins alike
	{ cat group; echo; cat group; } >two
	n=$(pico-score --choices -v two 2>&1 >/dev/null |
	    sed -n 's/^prompt:	\([0-9]*\) .*/\1/p')
	[ "$n" -eq $((49 + 8 * 2)) ]
}

@test "score: recurrent models, too" {
	local m form
	for m in "$DATA"/arch/mamba*.gguf "$DATA"/arch/rwkv*.gguf; do
		[ -f "$m" ] || continue
		printf '1 5 6\n1 5 6 7 8\n1 5 6 9\n\n1 5\n1 5 9\n1 5 3\n' >q
		pico-score -m "$m" --each --choices q >out
		printf '1 5 6 7 8\n1 5 6 9\n1 5 9\n1 5 3\n' |
		    pico-forward -m "$m" --nll | awk -F'\t' '
			$1 == 1 { n++ }
			n <= 2 ? $1 >= 3 : $1 >= 2 { s[n] += $3 }
			END { for (i = 1; i <= 4; i++) printf "%.5f\n", s[i] }
		    ' >want
		awk '{ printf "%.5f\n", $4 }' out | diff want -
		for o in '-j 3' '--chunk 2'; do
			# shellcheck disable=SC2086
			pico-score -m "$m" --each --choices $o q | cmp out -
		done
	done
}

@test "score: groups that are none" {
	run_split bash -c 'printf "1 5 6\n\n1 5\n1 5 7\n" | pico-score --choices'
	expect_error 1 '^pico-score: line 1: question has no choices$'
	run_split bash -c 'printf "1 5 6\n1 5 6 7\n1 9 8 7\n" | pico-score --choices'
	expect_error 1 '^pico-score: line 3: choice does not begin as its question does$'
	run_split bash -c 'printf "1 5 6\n1 5 6 7\n1 5 6\n" | pico-score --choices'
	expect_error 1 '^pico-score: line 3: choice has nothing that its question has not$'
	run_split bash -c 'printf "1 5\n1 5 6 7 8\n" | pico-score --choices -c 4'
	expect_error 1 '^pico-score: line 2: sequence has 5 tokens, context is 4$'
	# groups before a bad one are answered
	run_split bash -c 'printf "1 5\n1 5 6\n\n1 5\n1 5\n" | pico-score --choices'
	[ $status -eq 1 ]
	[ "$output" = "1${TAB}1"$'\n' ]
	[ -z "$(printf '\n\n' | pico-score --choices)" ]
	[ -z "$(pico-score --choices </dev/null)" ]
}

@test "score: the validation text as measured elsewhere" {
	need_shared
	for f in f32:1.3669 q8_0:1.3669 q4_k_m:1.3699; do
		m=$SHARED/model/pico-tales-${f%:*}.gguf
		pico-tokenize -m "$m" "$SHARED/model/validation.txt" >text
		pico-score -m "$m" --stride 256 -j 2 text >out
		awk -v want="${f#*:}" '{
			exit !($3 / want < 1.005 && $3 / want > 0.995) }' out
		[ "$(cut -f1 out)" -eq $(($(wc -w <text) - 1)) ]
	done
}
