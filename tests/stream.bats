# Token streams, pico-stream(5), as pico-detokenize reads and pico-tokenize
# writes them.

load helper

# reads WANT BYTES: the texts of a stream given as for printf.
reads() {
	got=$(printf -- "$2" | pico-detokenize --json | tr '\n' ' ')
	[ "$got" = "$1 " ] || { echo "got $got"; return 1; }
}

# fault PATTERN BYTES
fault() {
	printf -- "$2" >"$BATS_TEST_TMPDIR/in"
	run_split pico-detokenize -x <"$BATS_TEST_TMPDIR/in"
	[ "$status" -eq 1 ] && one_line "$1"
}

HEADER='\211PTK\1\0\0\0'

@test 'text: blanks, newlines, an unterminated line' {
	reads '"Once upon"' '1 557 581\n'
	reads '"Once upon"' '  1\t557   581  \n'
	reads '"Once upon"' '1 557 581'
	reads '"Once upon"' '1 557 581\r\n'
	reads '"Once" "" "upon"' '1 557\n\n1 581\n'
	reads '"Once"' '0001 557\n'
}

@test 'text: faults with line and column' {
	fault "line 3, column 7: 'x' is not a token id" '1 557\n\n1 557 x\n'
	fault "line 1, column 1: '-1' is not a token id" '-1\n'
	fault "line 1, column 3: '2147483648' is not a token id" '1 2147483648\n'
	fault "line 1, column 1: '1,2' is not a token id" '1,2\n'
	fault "line 1, column 1: '\\[1' is not a token id" '[1 2]\n'
	fault "line 2, column 1: '1.5' is not" '1\n1.5\n'
}

@test 'text: what comes before a fault is written' {
	printf '1 557\n1 581 x' >"$BATS_TEST_TMPDIR/in"
	run_split pico-detokenize <"$BATS_TEST_TMPDIR/in"
	[ "$output" = $'Once\nupon' ]
}

@test 'text: a line has no limit but memory' {
	cd "$BATS_TEST_TMPDIR"
	yes 405 | head -n 2000000 | tr '\n' ' ' >long
	[ "$(pico-detokenize -kx long | wc -c)" -eq \
	    $((2000000 * $(echo 405 | pico-detokenize -kx | wc -c))) ]
}

@test 'binary: sequences and their ends' {
	reads '"Once"' "$HEADER"'\1\0\0\0\55\2\0\0\377\377\377\377'
	reads '"Once"' "$HEADER"'\1\0\0\0\55\2\0\0'
	reads '"Once" ""' "$HEADER"'\1\0\0\0\55\2\0\0\376\377\377\377\375\377\377\377'
	[ -z "$(printf "$HEADER" | pico-detokenize --json)" ]
}

@test 'binary: headers in between are skipped' {
	one="$HEADER"'\1\0\0\0\55\2\0\0\377\377\377\377'
	reads '"Once" "Once"' "$one$one"
}

@test 'binary: faults with the byte' {
	fault 'byte 12: .*cut off' "$HEADER"'\1\0\0\0\1\0'
	fault 'byte 8: -5 is not' "$HEADER"'\373\377\377\377'
	fault 'byte 4: .*version 2' '\211PTK\2\0\0\0'
	fault 'byte 0: not a token stream' '\211PNG\r\n\032\n'
}

@test 'wc counts sequences and tokens' {
	printf 'Once upon\n\na time\n' | pico-tokenize -l >"$BATS_TEST_TMPDIR/out"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/out")" -eq 3 ]
	[ "$(wc -w <"$BATS_TEST_TMPDIR/out")" -eq 7 ]
	# blanks only between ids
	! grep -qE '^ | $|  ' "$BATS_TEST_TMPDIR/out"
}

@test 'binary and text say the same' {
	printf 'Once upon\n\na time\n' >"$BATS_TEST_TMPDIR/in"
	[ "$(pico-tokenize -lb <"$BATS_TEST_TMPDIR/in" | pico-detokenize)" = \
	    "$(pico-tokenize -l <"$BATS_TEST_TMPDIR/in" | pico-detokenize)" ]
}
