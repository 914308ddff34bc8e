# SPDX-License-Identifier: MIT
# pico-split: sets, what they run like, and back to the same bytes.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# only FILE...: there is nothing else in the directory
only() {
	printf '%s\n' "$@" stdout stderr | sort -u >../want
	{ ls; echo stdout; echo stderr; } | sort -u | diff ../want -
}

@test 'split: by size, tensors, or the metadata apart; and back' {
	for o in --size=600K --size=1M --size=1G --tensors=1 --tensors=7 \
	    '--tensors=20 --no-tensors-first' '--size=1M --no-tensors-first'; do
		rm -f ./*
		# shellcheck disable=SC2086
		pico-split $o "$MODEL" part
		n=$(ls part-* | wc -l)
		first=$(printf 'part-00001-of-%05d.gguf' "$n")
		[ "$(pico-inspect --alone -k split.count "$first")" -eq "$n" ]
		[ "$(pico-inspect --alone -k split.tensors.count "$first")" -eq 38 ]
		pico-split --merge "$first" whole.gguf
		cmp whole.gguf "$MODEL"
		pico-inspect --check "$first"
	done
}

@test 'split: no file is larger than it may be, and the table says so' {
	pico-split --size 512K --dry-run "$MODEL" part >table
	[ "$(ls)" = table ]
	pico-split --size 512K "$MODEL" part
	stat -c '%n %s' part-* >got
	awk '{ print $1, $3 }' table | diff - got
	awk '$2 > 524288 { exit 1 }' got
	# one byte less than the largest is too little for it
	most=$(cut -d' ' -f2 got | sort -n | tail -n 1)
	pico-split --size "$most" --dry-run "$MODEL" part >/dev/null
	run_split pico-split --size 100K "$MODEL" other
	expect_error 1 "^pico-split: tensor 'token_embd.weight' alone makes a file of [0-9]+ bytes, option --size allows 102400$"
	run ls other*
	[ "$status" -ne 0 ]
}

@test 'split: a set runs as the one file does' {
	pico-split --tensors 5 "$MODEL" part
	first=part-00001-of-00008.gguf
	echo 'Once upon a time' | pico-tokenize >ids
	echo 'Once upon a time' | pico-tokenize -m $first | cmp ids -
	pico-forward -a ids >want
	pico-forward -a -m $first ids | cmp want -
	pico-generate -n 20 ids >want
	pico-generate -n 20 -m $first ids | cmp want -
	pico-detokenize want >text
	pico-detokenize -m $first want | cmp text -
	pico-score ids >want
	pico-score -m $first ids | cmp want -
	pico-chat 'user: hello' >want
	pico-chat -m $first 'user: hello' | cmp want -
	pico-inspect --diffable "$MODEL" | grep -v '^files' >want
	pico-inspect --diffable $first | grep -vE '^files|split\.' | diff want -
	pico-quantize --requantize "$MODEL" want.gguf Q4_0
	pico-quantize --requantize $first got.gguf Q4_0
	cmp want.gguf got.gguf
	# a set can be split in another way
	pico-split --tensors 30 $first two
	pico-split --merge two-00001-of-00002.gguf whole.gguf
	cmp whole.gguf "$MODEL"
	# its metadata are changed in its first file
	pico-edit --set general.name=str:x $first
	pico-generate -n 20 -m $first ids | pico-detokenize -m $first |
	    cmp text -
}

@test 'split: each valid file, and back' {
	dir=$DATA/gguf/valid
	[ -z "$SHARED" ] || dir=$SHARED/conformance/gguf/valid
	n=0
	for f in "$dir"/*.gguf; do
		case $f in
		*big_endian* | *-0000[2-9]-of-*) continue ;;
		esac
		rm -f part-* whole.gguf
		pico-split --tensors 2 --no-tensors-first "$f" part
		first=$(ls part-00001-*)
		[ "$first" != part-00001-of-00001.gguf ] || continue
		pico-split --merge "$first" whole.gguf
		pico-inspect --diffable "$f" | grep -vE '^(version|files)|split\.' >want || true
		pico-inspect --diffable whole.gguf |
		    grep -vE '^(version|files)|split\.' >got || true
		diff want got
		case $f in
		*v3_all_types* | *alignment* | *tiny_llama*) cmp "$f" whole.gguf ;;
		esac
		n=$((n + 1))
	done
	[ "$n" -gt 5 ]
}

@test 'split: what makes no sense' {
	run_split pico-split "$MODEL" x
	expect_error 2 'one of --size, --tensors and --merge is wanted'
	run_split pico-split --size 1M --tensors 2 "$MODEL" x
	expect_error 2 'one of --size, --tensors and --merge is wanted'
	run_split pico-split --merge --tensors 2 "$MODEL" x
	expect_error 2 'option --merge is for itself'
	run_split pico-split --tensors 2 "$MODEL"
	expect_error 2 'wanted: the file and what'
	run_split pico-split --merge "$MODEL"
	expect_error 2 'wanted: the file and the one to make'
	run_split pico-split --merge "$MODEL" x
	expect_error 1 'is not split'
	run_split pico-split --tensors 2 - x <"$MODEL"
	expect_error 2 'standard input gives only the header'
	pico-split --tensors 30 "$MODEL" two
	run_split pico-split --merge two-00002-of-00002.gguf x
	expect_error 1 'is file 2 of 2 of a split model: open the first'
	# a set is not written over while it is read
	mkdir keep
	cp two-* keep
	run_split pico-split --merge two-00001-of-00002.gguf \
	    two-00002-of-00002.gguf
	expect_error 2 "'two-00002-of-00002.gguf' is the input and the output"
	run_split pico-split --tensors 25 two-00001-of-00002.gguf two
	expect_error 2 "'two-00001-of-00002.gguf' is the input and the output"
	cmp keep/two-00001-of-00002.gguf two-00001-of-00002.gguf
	cmp keep/two-00002-of-00002.gguf two-00002-of-00002.gguf
	rm -r keep
	rm two-00002-of-00002.gguf
	run_split pico-split --merge two-00001-of-00002.gguf x
	expect_error 1 "cannot open 'two-00002-of-00002.gguf'"
	only two-00001-of-00002.gguf
}

@test 'split: a full disk leaves no file' {
	for k in 1 100 600; do
		run_split bash -c "ulimit -f $k;
		    exec pico-split --tensors 25 '$MODEL' part"
		expect_error 1 "write error on 'part-0000[12]-of-00002.gguf': File too large"
		only
	done
}

@test 'split: a file that cannot get its name' {
	need_preload
	for n in 1 2; do
		# before the first one has its name, the set is not there
		run_split env LD_PRELOAD="$BUILD_DIR/tests/preload.so" \
		    PRELOAD_CALL=rename PRELOAD_NTH=$n \
		    pico-split --tensors 25 "$MODEL" part
		expect_error 1 "cannot write 'part-0000[12]-of-00002.gguf'"
		[ ! -e part-00001-of-00002.gguf ]
	done
}
