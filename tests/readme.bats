# SPDX-License-Identifier: MIT
# README.md: its commands give the outputs that it shows, its links lead
# somewhere.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# what a run needs for buffers may change with the machine's kernels
stable() {
	grep -vE '^(needs:|buffers|total)	'
}

@test 'outputs are as shown' {
	command -v jq >/dev/null || skip 'needs jq'
	ln -s "$ROOT/examples" examples
	sed -n '/^```console/,/^```$/{/^```/d;p;}' "$ROOT/README.md" >blocks
	sed -n 's/^[$>] //p' blocks >script
	[ "$(wc -l <script)" -gt 20 ]
	sed '/^[$>] /d' blocks | stable >want
	bash script 2>&1 | stable >got
	diff want got
}

@test 'links to files lead somewhere' {
	for f in "$ROOT/README.md" "$ROOT/examples/model/README.md"; do
		grep -oE '\]\([^):]*\)' "$f" | sed 's/](\(.*\))/\1/' >links
		[ -s links ]
		while read -r link; do
			[ -e "${f%/*}/$link" ] || { echo "$link"; return 1; }
		done <links
	done
}

@test 'make targets that it names are there' {
	grep -oE '^(sudo )?make [a-z0-9-]+' "$ROOT/README.md" |
	    sed 's/.*make //' | sort -u >targets
	[ "$(wc -l <targets)" -gt 5 ]
	while read -r t; do
		grep -qE "^([a-z0-9 -]+ )?$t[: ]" "$ROOT/Makefile" || {
			echo "$t"
			return 1
		}
	done <targets
}

@test 'tests that tests/README names for each fault are there' {
	grep -E $'^\t[a-z_]+(\\.bats)?: ' "$ROOT/tests/README" >tests
	[ "$(wc -l <tests)" -gt 120 ]
	while IFS= read -r line; do
		file=${line%%: *}
		file=${file#?}
		name=${line#*: }
		case $file in
		*.bats) grep '^@test' "$ROOT/tests/$file" ;;
		*) cat "$ROOT/tests/unit/$file.c" ;;
		esac | grep -qF -- "$name" || {
			echo "$line"
			return 1
		}
	done <tests
	# every fault has one; those of grammars are named by their file
	awk '/^[A-Z ]+$/ { next }
	    /^[^\t]/ { if (fault != "") { print fault; bad = 1 } fault = $0 }
	    /^\t/ { fault = "" }
	    END { exit bad }' <(sed '1,/^MODEL FILES$/d' "$ROOT/tests/README")
}
