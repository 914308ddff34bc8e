# SPDX-License-Identifier: MIT
# The manual pages: form, options, examples.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

PROGS='chat convert detokenize edit forward generate inspect quantize sample
    score split tokenize'

@test 'mandoc has nothing to say' {
	command -v mandoc >/dev/null || skip 'needs mandoc'
	run mandoc -T lint -W warning "$ROOT"/man/*.[1-7]
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test 'each program has a page with all sections' {
	for p in $PROGS; do
		for s in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' EXAMPLES \
		    'SEE ALSO'; do
			grep -qx ".Sh $s" "$ROOT/man/pico-$p.1" || {
				echo "pico-$p.1 lacks $s"
				return 1
			}
		done
	done
}

# "-n --n-tokens" a line, as -h tells
told() {
	"pico-$1" -h | sed -n 's/^ \{2,6\}\(-[^ ,]*\)\(, \(--[^ ]*\)\)\{0,1\}.*/\1 \3/p' |
	    sed 's/ $//' | sort
}

# the same from the lists in the page
documented() {
	sed -n '/^\.Sh DESCRIPTION/,/^\.Sh ENV/s/^\.It \(Fl .*\)/\1/p' \
	    "$ROOT/man/pico-$1.1" |
	    sed 's/Fl //g; s/ Ar [a-z]*//g; s/ Ns = Ns Ar x//; s/ Ns.*//; s/ ,//
		s/^/-/; s/ / -/' | sort
}

@test 'options of -h and of the pages are the same' {
	for p in $PROGS; do
		[ -n "$(told $p)" ]
		diff <(told $p) <(documented $p)
	done
}

# The commands of a page, ready for the shell: a line that begins with "$ ",
# and those that begin with "> " behind it.
examples() {
	sed -n '/^\.Sh EXAMPLES/,/^\.Sh SEE/s/^[$>] //p' "$1" |
	    sed 's/\\(aq/'\''/g; s/\\-/-/g; s/\\e/\\/g'
}

@test 'each example runs, and says something' {
	cp -r "$DATA/convert/llama-sharded" model
	for page in "$ROOT"/man/*.[1-7]; do
		examples "$page" >script
		[ "${page##*/}" = libpico.3 ] || [ -s script ]
		grep -q jq script && ! command -v jq >/dev/null && continue
		[ -s script ] || continue
		run bash -eu script
		echo "${page##*/}: $output"
		[ "$status" -eq 0 ]
		if grep '^pico-[a-z]*: ' <<<"$output"; then
			return 1
		fi
		[ "${#lines[@]}" -ge "$(grep -c '^\.Ed' "$page")" ]
	done
}

@test 'what pages refer to is there' {
	sed -n 's/^\.Xr \([^ ]*\) \([1-7]\).*/\1.\2/p' "$ROOT"/man/*.[1-7] |
	    grep pico | sort -u | while read -r page; do
		[ -f "$ROOT/man/$page" ] || { echo "$page"; return 1; }
	done
}

@test 'libpico(3): the program compiles and finds the best token' {
	sed -n '/^\.Bd -literal$/,/^\.Ed/{/^\./d;p;}' "$ROOT/man/libpico.3" |
	    sed 's/\\-/-/g; s/\\(aq/'\''/g; s/\\e/\\/g' >prog.c
	grep -q main prog.c
	# shellcheck disable=SC2086
	${CC:-cc} -std=c11 -Wall ${CFLAGS:-} ${EXTRA_CFLAGS:-} -I"$ROOT/lib" \
	    -o prog prog.c ${LDFLAGS:-} ${EXTRA_LDFLAGS:-} \
	    "$BUILD_DIR/libpico.a" -lm -pthread
	ASAN_OPTIONS=detect_leaks=0 ./prog "$MODEL" 'The cat' >got
	echo 'The cat' | pico-tokenize | pico-forward --top 1 >top
	[ "$(cut -d' ' -f1 got)" = "$(cut -f4 top)" ]
}
