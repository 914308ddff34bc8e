# --kv: what is refused, what is made, and what is left alone. The cache in
# memory and each byte of a file: tests/unit/test_kv.c. Sameness: exact.bats.
load helper

Q=$DATA/arch/llama-q8_0.gguf

setup() {
	cd "$BATS_TEST_TMPDIR"
	echo '1 557 581 261 436 965 370 289 261 607' >p
}

# refused FILE PATTERN OPTION...: both programs refuse it with the reason, and
# leave it and its directory as they were.
refused() {
	local file=$1 pattern=$2 program
	shift 2
	cp "$file" before
	for program in pico-generate pico-forward; do
		run_split $program --kv "$file" "$@" p
		expect_error 1 "^$program: KV file '$file' .*$pattern" || return 1
		cmp before "$file" || return 1
	done
	[ "$(ls "$file"*)" = "$file" ]
}

@test "kv: a missing file is made, with a mode by the umask" {
	(umask 022; pico-generate -n 3 --kv c p >/dev/null)
	[ "$(ls -l c | cut -c1-10)" = -rw-r--r-- ]
	[ "$(ls c*)" = c ]
	(umask 077; pico-forward --kv d p >/dev/null)
	[ "$(ls -l d | cut -c1-10)" = -rw------- ]
	[ "$(head -c 4 c | tail -c 3)" = PKV ]
}

@test "kv: the second time almost nothing is computed" {
	pico-generate -n 3 --kv c -v p 2>v >/dev/null
	grep -q '^prompt:	10 tokens' v
	! grep -q '^reused' v
	pico-generate -n 3 --kv c -v p 2>v >/dev/null
	grep -q '^prompt:	1 tokens' v
	grep -qx 'reused:	9 tokens' v
	pico-forward --kv c -v p 2>v >/dev/null
	grep -q '^prompt:	1 tokens' v
}

@test "kv: another model, another cache type, another context" {
	pico-generate -n 3 --kv c p >/dev/null
	echo 1 2 3 >p
	refused c 'was made with another model' -m "$Q"
	refused c 'holds a cache of type f16, this run uses f32' --kv-type f32
	refused c 'holds a cache of type f16, this run uses q8_0' --kv-type q8_0
	refused c 'holds 12 tokens, context is 4' -c 4
	# a larger context is none
	pico-generate -n 3 -c 1000 --kv c p >/dev/null
}

@test "kv: a model of the same shape is another model" {
	need_shared
	# the same layers and heads, other numbers
	printf '1 2 3 4 5\n' >p
	pico-generate -n 3 --kv c -m \
	    "$SHARED/conformance/arch/llama-gqa2-tied.gguf" p >/dev/null
	refused c 'was made with another model' \
	    -m "$SHARED/conformance/arch/llama-rope-linear.gguf"
	refused c 'was made with another model' \
	    -m "$SHARED/conformance/arch/mistral-swakey.gguf"
}

@test "kv: cut, longer, damaged, something else" {
	pico-generate -n 3 --kv good p >/dev/null
	size=$(wc -c <good)
	for n in 0 7 63 64 100 $((size / 2)) $((size - 1)); do
		head -c $n good >c
		refused c 'cut short|damaged|not the'
	done
	{ cat good; echo; } >c
	refused c 'not the'
	for at in 0 8 16 24 32 36 40 63 64 90 $((size / 2)) $((size - 1)); do
		cp good c
		old=$(od -An -tu1 -j $at -N 1 c)
		printf "\\$(printf %o $((old ^ 16)))" |
		    dd of=c bs=1 seek=$at conv=notrunc status=none
		refused c ''
	done
	{ printf '\211PKV\001'; tail -c +6 good; } >old
	refused old 'is of version 1, and only version 2 can be used'
	echo 'this is not a KV file, but it is long enough to be one, I hope so' \
	    >c
	cat c c >d && mv d c
	refused c 'is not a KV file'
	cp $MODEL c
	refused c 'is not a KV file'
}

@test "kv: places where no file can be" {
	for f in none/c /proc/c /dev/null/c p/c; do
		run_split pico-generate --kv $f p
		expect_error 1 "^pico-generate: cannot write KV file '$f': "
		run_split pico-forward --kv $f p
		expect_error 1 "^pico-forward: cannot write KV file '$f': "
	done
	mkdir dir
	run_split pico-generate --kv dir p
	expect_error 1 "'dir'"
	run_split pico-generate --kv /dev/null p
	expect_error 1 "'/dev/null' is not a regular file"
	[ -z "$(ls dir* | grep -v '^dir$')" ]
	long=$(printf 'x%.0s' $(seq 300))
	run_split pico-generate --kv $long p
	expect_error 1 'File name too long'
	[ -w /dev/full ]
}

@test "kv: a read-only directory" {
	[ "$(id -u)" -ne 0 ] || skip 'root may write everywhere'
	mkdir dir
	chmod 500 dir
	run_split pico-generate --kv dir/c p
	expect_error 1 "cannot write KV file 'dir/c': Permission denied"
}

@test "kv: a disk that is full while it is saved" {
	pico-generate -n 30 --kv c p >/dev/null
	cp c before
	echo 1 2 3 >q
	# room for one block only, and no signal about it
	run_split bash -c 'trap "" XFSZ; ulimit -f 1
	    pico-generate -n 3 --kv c --ignore-eog q p'
	[ $status -eq 1 ]
	one_line "^pico-generate: write error on KV file 'c': File too large"
	cmp c before
	[ "$(ls c*)" = c ]
	# the output was complete all the same
	[ "$(wc -l <<<"${output%?}")" -eq 2 ]
}

@test "kv: a run that fails saves nothing" {
	pico-generate -n 3 --kv c p >/dev/null
	cp c before
	run_split bash -c '{ echo 1 2 3; echo x; } | pico-generate -n 3 --kv c'
	[ $status -eq 1 ]
	cmp c before
	run_split bash -c 'pico-generate -n 3 --kv c p >/dev/full'
	[ $status -eq 1 ]
	cmp c before
	[ "$(ls c*)" = c ]
}

@test "kv: one sequence only" {
	run_split pico-generate --kv c -j 2 p
	expect_error 2 '^pico-generate: option -j: one sequence only with --kv$'
	[ ! -e c ]
}

@test "kv: a symbolic link is followed or replaced, never broken" {
	pico-generate -n 3 p >want
	ln -s target c
	pico-generate -n 3 --kv c p | cmp want -
	pico-generate -n 3 --kv c p | cmp want -
}

@test "kv: a model that differs in one bit is another model, a copy is not" {
	cd "$BATS_TEST_TMPDIR"
	echo 1 557 581 261 436 >p
	pico-generate --kv c -n 3 p >right
	cp c before
	cp "$MODEL" copy.gguf
	pico-generate -m copy.gguf --kv c -n 3 p | cmp - right
	# the last weight byte but some: inside the last tensor
	size=$(wc -c <copy.gguf)
	at=$((size - 100))
	byte=$(od -An -tu1 -j "$at" -N 1 copy.gguf)
	printf "$(printf '\\%03o' $((byte ^ 4)))" |
	    dd of=copy.gguf bs=1 seek="$at" conv=notrunc 2>/dev/null
	cp before c
	run_split pico-generate -m copy.gguf --kv c -n 3 p
	expect_error 1 "KV file 'c' was made with another model"
	cmp c before
}

@test "kv: a link stays a link, a fifo and an empty name are refused" {
	cd "$BATS_TEST_TMPDIR"
	echo 1 557 >p
	pico-generate --kv real -n 2 p >/dev/null
	ln -s real link
	pico-generate --kv link -n 2 p >/dev/null
	[ -L link ]
	mkfifo fifo
	run_split pico-generate --kv fifo -n 2 p
	expect_error 1 'not a regular file'
	run_split pico-generate --kv '' -n 2 p
	expect_error 2 'option --kv'
	[ "$(ls real* link* fifo* | xargs)" = 'fifo link real' ]
}
