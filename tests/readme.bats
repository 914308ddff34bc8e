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
