# What must happen when something is wrong: exit status, one line on stderr,
# nothing false on stdout. What only one program can get wrong is in its file.
load helper

PROGRAMS='pico-inspect pico-tokenize pico-detokenize pico-forward pico-sample pico-generate pico-score'
# of files
MAKERS='pico-quantize pico-edit pico-split'
MODEL_PROGRAMS='pico-tokenize pico-detokenize pico-forward pico-generate pico-score'

setup() {
	cd "$BATS_TEST_TMPDIR"
	echo '1 557 581 261 436' >p
}

# input PROGRAM: what it reads from stdin, small.
input() {
	case $1 in
	pico-tokenize) echo 'Once upon a time' ;;
	pico-sample) pico-forward p ;;
	*) cat p ;;
	esac
}

# args PROGRAM: what makes it read stdin and write a little, whatever stdout is.
args() {
	case $1 in
	pico-inspect) echo "$MODEL" ;;
	pico-forward) echo -T ;;
	pico-generate) echo --tokens 3 ;;
	esac
}

@test "faults: -h is on stdout, and each option it names is taken" {
	local program o arg
	for program in $PROGRAMS $MAKERS; do
		run_split $program -h
		[ $status -eq 0 ]
		[ -z "$stderr" ]
		[[ $output == "usage: $program "* ]]
		printf '%s' "$output" >help
		run_split $program --help
		printf '%s' "$output" | cmp help -
		# names, and the value's name, stand in the first 30 columns
		grep -E '^ {2,6}-' help | cut -c-30 | awk '{
			arg = $NF ~ /^-/ ? "-" : $NF
			for (i = 1; i <= NF; i++)
				if ($i ~ /^-/)
					print gensub_comma($i), arg
		}
		function gensub_comma(s) { sub(/,$/, "", s); return s }' >opts
		[ "$(wc -l <opts)" -ge 12 ]
		while read -r o arg; do
			run_split $program "$o" -h </dev/null
			case $arg:$status in
			# a flag: then -h is seen
			-:0) [[ $output == "usage: $program "* ]] ;;
			# a value: -h is one, good or bad
			[!-]*:[012]) [[ $stderr != *'unknown option'* ]] ;;
			*) false ;;
			esac || { echo "$program $o: $status $stderr"; return 1; }
		done <opts
	done
}

@test "faults: -V is on stdout" {
	local program
	for program in $PROGRAMS; do
		run_split $program -V
		[ $status -eq 0 ]
		[[ $output =~ ^$program\ \(pico\)\ [0-9]+\.[0-9]+\.[0-9]+$'\n'$ ]]
		run_split $program --version
		[ $status -eq 0 ]
	done
}

@test "faults: unknown options are usage errors" {
	local program
	for program in $PROGRAMS; do
		run_split $program --no-such-option
		expect_error 2 "^$program: unknown option '--no-such-option'"
		run_split $program -@
		expect_error 2 "^$program: unknown option '-@'"
		run_split $program --help=yes
		expect_error 2 '--help takes no value'
	done
	for program in $MODEL_PROGRAMS; do
		run_split $program -m
		expect_error 2 'option -m needs a value'
	done
}

@test "faults: values that are none, or out of range, are usage errors" {
	local o
	while read -r o; do
		[ -n "$o" ] || continue
		run_split pico-generate $o p
		expect_error 2 "^pico-generate: option ${o%% *}: '" || {
			echo "$o"
			return 1
		}
	done <<-'EOF'
		-n 12x
		-n abc
		-n -1
		-n 2147483648
		-n 99999999999999999999
		-n 1e3
		-n 0x10
		-t 0
		-t -2
		-t 1.5
		-t 99999
		-c 0
		-c -1
		-c 2147483648
		-j 0
		-j 1025
		-j x
		--chunk 0
		--chunk -5
		--temp nan
		--temp inf
		--temp -1
		--temp 0,5
		--temp 1e999
		--temp 0x1
		--top-p 1.5
		--top-p -0.1
		--top-p nan
		--min-p 2
		--typical -1
		--top-k -1
		--top-k 1.0
		--repeat-penalty 0
		--repeat-penalty -1
		--repeat-last -2
		--presence-penalty nan
		--frequency-penalty 1e
		--logit-bias 5
		--logit-bias x=1
		--logit-bias 5=
		--logit-bias =1
		--logit-bias 5=nan
		--min-keep -1
		-s -1
		-s 1.5
		-s Random
		--kv-type F16
		--stop-id x
	EOF
	for o in -n -t -c -j -s --temp --top-k --top-p --chunk --kv-type \
	    --logit-bias --repeat-last --stop-id; do
		run_split pico-generate $o '' p
		expect_error 2 "^pico-generate: option $o: '" || {
			echo "$o"
			return 1
		}
	done
	run_split pico-generate --stop '' p
	expect_error 2 'option --stop: the text is empty'
	for o in '--stop-id 1024' '--logit-bias 1024=1'; do
		run_split pico-generate $o p
		expect_error 2 "^pico-generate: option ${o% *}: "
	done
	for o in '--top 0' '--top x' '-t 0' '-c 0' '--chunk 0'; do
		run_split pico-forward $o p
		expect_error 2 "^pico-forward: option ${o% *}: '"
	done
}

@test "faults: numbers do not depend on the locale" {
	locale -a 2>/dev/null | grep -q '^de_DE' || skip 'no locale with a comma'
	LC_ALL=de_DE.UTF-8 pico-generate -n 5 --temp 0.5 p >a
	pico-generate -n 5 --temp 0.5 p | cmp a -
	LC_ALL=de_DE.UTF-8 pico-forward -T p >a
	pico-forward -T p | cmp a -
}

@test "faults: without a model, exit 2 and advice" {
	local program
	[ ! -e /usr/local/share/pico/default.gguf ] || skip 'pico is installed'
	for program in $MODEL_PROGRAMS; do
		for env in -uPICO_MODEL PICO_MODEL=; do
			run_split env $env $program p
			expect_error 2 "^$program: no model: give one with -m FILE or in .PICO_MODEL"
		done
	done
}

@test "faults: what is no model is called what it is" {
	local program
	printf '<!doctype html>\n<html></html>\n' >html.gguf
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' \
	    >lfs.gguf
	: >empty.gguf
	head -c 100000 "$MODEL" >cut.gguf
	for program in $MODEL_PROGRAMS; do
		run_split $program -m html.gguf p
		expect_error 1 "^$program: 'html.gguf' is not a GGUF file: it begins with '<!doctype'"
		run_split $program -m lfs.gguf p
		expect_error 1 "^$program: 'lfs.gguf' is not a GGUF file: it is a Git LFS pointer"
		run_split $program -m empty.gguf p
		expect_error 1 "^$program: 'empty.gguf' "
		run_split $program -m missing.gguf p
		expect_error 1 "^$program: cannot open 'missing.gguf': No such file or directory"
		run_split $program -m . p
		expect_error 1 "^$program: '.' is a directory"
		run_split $program -m p p
		expect_error 1 "^$program: 'p' is not a GGUF file: it begins with '1 55"
	done
	for program in pico-forward pico-generate pico-score; do
		run_split $program -m cut.gguf p
		expect_error 1 "^$program: '?.*cut.gguf'?: tensor '.*' needs bytes up to [0-9]*, .*100000"
	done
}

@test "faults: a full disk is told with the system's reason" {
	local program
	for program in $PROGRAMS; do
		input $program >in
		run_split bash -c "$program $(args $program) <in >/dev/full"
		[ $status -eq 1 ] || { echo "$program $status"; return 1; }
		one_line "^$program: write error on standard output: No space left on device$"
		run_split bash -c "$program -h >/dev/full"
		[ $status -eq 1 ]
		one_line "^$program: write error on standard output: No space left"
	done
	for o in '--top 3' --nll '' -a; do
		run_split bash -c "pico-forward $o p >/dev/full"
		[ $status -eq 1 ]
		one_line 'No space left on device$'
	done
	for o in '-b' '-j 4' '-n 0' '-n 500 --ignore-eog'; do
		run_split bash -c "pico-generate $o p p p >/dev/full"
		[ $status -eq 1 ]
		one_line 'No space left on device$'
	done
}

@test "faults: a closed stdout is told" {
	local program
	for program in $PROGRAMS; do
		input $program >in
		run_split bash -c "$program $(args $program) <in >&-"
		[ $status -eq 1 ] || { echo "$program $status"; return 1; }
		one_line "^$program: write error on standard output: Bad file descriptor$"
	done
}

@test "faults: a small stack is enough, and changes nothing" {
	printf '1 391 427 263 648 5 6 7\n1 391 427 9\n' >prompts
	local t
	for t in 1 3; do
		pico-generate -t $t -j 2 -n 8 prompts >want
		pico-forward -t $t -a prompts >logits
		bash -c "ulimit -s 128; pico-generate -t $t -j 2 -n 8 prompts" |
		    cmp - want
		bash -c "ulimit -s 128; pico-forward -t $t -a prompts" |
		    cmp - logits
	done
}

@test "faults: a closed stdin is told" {
	local program
	for program in pico-tokenize pico-detokenize pico-forward pico-sample \
	    pico-generate pico-score; do
		run_split bash -c "$program $(args $program) <&-"
		[ $status -eq 1 ] || { echo "$program $status"; return 1; }
		one_line "^$program: read error on standard input: Bad file descriptor$"
	done
	run_split bash -c 'pico-inspect - <&-'
	[ $status -eq 1 ]
	one_line 'Bad file descriptor'
}

@test "faults: a closed stderr is no reason to write into somebody's file" {
	pico-generate -n 3 p >want
	bash -c 'pico-generate -n 3 -v p 2>&-' | cmp want -
	bash -c 'pico-generate -n 3 --kv c -v p 2>&-' | cmp want -
	pico-generate -n 3 --kv c p | cmp want -
	! bash -c 'pico-generate -m nothing p >out 2>&-'
	[ ! -s out ]
}

@test "faults: an operand that cannot be read" {
	local program
	for program in pico-tokenize pico-detokenize pico-forward pico-sample \
	    pico-generate pico-score; do
		run_split $program $(args $program) missing
		expect_error 1 "^$program: cannot open 'missing': No such file or directory$"
		run_split $program $(args $program) .
		[ $status -eq 1 ]
		one_line "^$program: cannot open '.': Is a directory$"
	done
}

@test "faults: a reader that goes away is a quiet death by SIGPIPE" {
	local program
	for program in pico-generate pico-forward pico-inspect pico-tokenize \
	    pico-detokenize pico-score; do
		yes "$(input $program)" | head -n 20000 >in
		case $program in
		pico-generate) o='-n 50 --ignore-eog' ;;
		pico-forward) o='-a' ;;
		pico-score) o='--each' ;;
		pico-inspect) o="$MODEL $MODEL $MODEL --json -a" ;;
		*) o= ;;
		esac
		# more than a pipe holds
		run_split bash -c "$program $o <in | head -c 1
			exit \${PIPESTATUS[0]}"
		[ $status -eq 141 ] || { echo "$program $status"; return 1; }
		[ -z "$stderr" ]
	done
}

@test "faults: an interrupt is death by that signal" {
	# background jobs of a shell ignore it, unless env tells otherwise
	env --default-signal=INT true 2>/dev/null || skip 'needs a newer env'
	mkfifo in out
	env --default-signal=INT pico-generate -n 3 <in >out 2>err &
	exec 5>in 6<out
	cat p >&5
	read -r line <&6	# it waits for the next prompt now
	kill -INT $!
	exec 5>&- 6<&-
	status=0
	wait $! || status=$?
	[ $status -eq 130 ]
	[ ! -s err ]
}

@test "faults: memory that is refused is told in bytes" {
	! grep -q '__[am]san_init' "$BUILD_DIR/bin/pico-generate" ||
	    skip 'a sanitizer wants all addresses'
	run_split bash -c 'ulimit -v 100000; pico-generate -t 1 -j 64 -c 4096 p'
	expect_error 1 '^pico-generate: .*: no memory for [0-9]+ bytes$'
	run_split bash -c 'ulimit -v 100000; pico-forward -t 1 --chunk 100000 \
	    -c 100000 p'
	expect_error 1 '^pico-forward: .*: no memory for [0-9]+ bytes$'
	# at any limit: a message or the right answer, never a crash
	pico-generate -n 2 -t 2 p >want
	for kb in $(seq 2000 500 20000); do
		run_split bash -c "ulimit -v $kb
		    exec pico-generate -n 2 -t 2 --chunk 8 -c 64 p"
		case $status in
		0) cmp want "$BATS_TEST_TMPDIR/stdout" ;;
		1) one_line '^pico-generate: .*[0-9]' ;;
		127) ;;		# the program itself could not be loaded
		*) echo "$kb kB: $status $stderr"; return 1 ;;
		esac
	done
}

@test "faults: sizes that cannot be are told, not tried" {
	! grep -q '__[am]san_init' "$BUILD_DIR/bin/pico-generate" ||
	    skip 'a sanitizer has its own limits'
	run_split pico-generate -c 2147483647 -j 1024 p
	expect_error 1 '^pico-generate: .*[0-9]+ bytes'
	# a context is reserved, not filled
	run_split bash -c 'ulimit -v 8000000; pico-generate -c 1000000 -n 2 -v p'
	[ $status -eq 0 ]
	[ "$(printf '%s\n' "$stderr" |
	    sed -n 's/^memory:	\([0-9]*\).*/\1/p')" -lt 100 ]
}

@test "faults: more threads than cores work, and the default is sane" {
	pico-generate -n 5 p >want
	pico-generate -n 5 -t 64 p | cmp want -
	n=$(pico-generate -n 1 -v p 2>&1 >/dev/null |
	    sed -n 's/^kernels:.*, \([0-9]*\) threads.*/\1/p')
	[ "$n" -ge 1 ]
	[ "$n" -le "$(nproc)" ]
	command -v taskset >/dev/null || skip 'no taskset'
	cpu=$(taskset -cp $$ | sed 's/.*[: ]\([0-9]*\).*/\1/')
	taskset -c "$cpu" pico-generate -n 1 -v p 2>&1 >/dev/null |
	    grep -q ', 1 threads'
}

@test "faults: a set of instructions that is not there" {
	local program
	for program in pico-forward pico-generate pico-score; do
		run_split env PICO_CPU=foo $program -n 1 p
		[ $program = pico-generate ] || run_split env PICO_CPU=foo \
		    $program p
		expect_error 2 "^$program: PICO_CPU: kernel set 'foo' is unknown or cannot run here; available: .*scalar"
		PICO_CPU=scalar $program -v p 2>&1 >/dev/null |
		    grep -q '^kernels:	scalar'
	done
}

@test "faults: input that is no token stream" {
	local program
	for program in pico-forward pico-generate pico-score pico-detokenize; do
		printf '1 2\n3 x\n' >in
		run_split $program in
		[ $status -eq 1 ]
		one_line "^$program: in: line 2, column 3: 'x' is not a token id"
		printf '\211PTK\2\0\0\0' >in
		run_split $program in
		[ $status -eq 1 ]
		one_line "^$program: in: byte 4: token stream of version 2"
		printf '\211PTK\1\0\0\0\1\0' >in
		run_split $program in
		[ $status -eq 1 ]
		one_line "^$program: in: byte 8: .*cut off"
		# a logits stream in the wrong place; text, too
		pico-forward p >in
		run_split $program in
		[ $status -eq 1 ]
		one_line "^$program: in: byte 0: not a token stream"
		echo 'Once upon a time' >in
		run_split $program in
		[ $status -eq 1 ]
		one_line "^$program: in: line 1, column 1: 'Once' is not a token id"
	done
	run_split pico-sample p
	expect_error 1 "^pico-sample: p: .*not a logits stream"
}

@test "faults: names with control bytes do not reach the terminal raw" {
	name=$(printf 'a\033[31m\nb')
	for program in $MODEL_PROGRAMS; do
		run_split $program -m "$name" p
		expect_error 1 "^$program: cannot open 'a.*b': No such file"
		! printf '%s' "$stderr" | grep -q "$(printf '\033')"
		run_split $program "$name"
		expect_error 1 "^$program: cannot open 'a.*b': No such file"
		! printf '%s' "$stderr" | grep -q "$(printf '\033')"
	done
}

@test "faults: weights that are not numbers" {
	# the last norm's weights become NaN: every logit is
	m=$DATA/arch/mixtral.gguf
	at=$(pico-inspect --json "$m" | tr ',{' '\n\n' |
	    awk '/"name": *"output_norm.weight"/ { f = 1 }
	        f && /"offset":/ { gsub(/[^0-9]/, ""); print; exit }')
	data=$(pico-inspect --json "$m" | tr ',{' '\n\n' |
	    awk '/"data_offset":/ { gsub(/[^0-9]/, ""); print; exit }')
	[ -n "$at" ] && [ -n "$data" ]
	cp "$m" nan.gguf
	printf '\0\0\300\177' | dd of=nan.gguf bs=1 seek=$((data + at)) \
	    conv=notrunc status=none
	echo 1 2 3 >q
	nan='position 3: logit of token 0 is NaN'
	run_split pico-generate -m nan.gguf q
	expect_error 1 '^pico-generate: sequence 1, position 3: logit of token 0 is NaN$'
	run_split pico-forward -m nan.gguf --top 3 q
	expect_error 1 '^pico-forward: position 3: logit of token 0 is NaN$'
	run_split pico-score -m nan.gguf q
	expect_error 1 '^pico-score: sequence 1, position 1: logit of token 0 is NaN$'
	run_split bash -c 'pico-forward -m nan.gguf q | pico-sample'
	[ $status -eq 1 ]
	one_line '^pico-sample: position 3: logit of token 0 is NaN$'
}
