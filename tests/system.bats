# What the system refuses: memory, threads, files, reads and writes, each at its
# N-th call for every N there is; what it does by halves; and what it lacks.
load helper

setup() {
	# helper.bash puts stdout and stderr beside it
	mkdir "$BATS_TEST_TMPDIR/here"
	cd "$BATS_TEST_TMPDIR/here"
	echo '1 557 581 261 436' >p
	echo 'Once upon a time' >text
	echo 'root ::= " a" | [ a-z]+ root?' >grammar
	echo '{"anyOf":[{"type":"integer"},{"type":"object"}]}' >schema
	PRELOAD=$BUILD_DIR/tests/preload.so
}

# each KIND ERRNO COMMAND...: with the 1st, 2nd, ... call failing, the command
# (which reads ./in) exits 1 with one line; or the call was none that matters,
# and the output is what it always is. No file is left but those that were there
# before, and ./cache, if that is one, is whole. Counts the calls in $calls.
each() {
	local kind=$1 e=$2 want=$BATS_TEST_TMPDIR/want told=$BATS_TEST_TMPDIR/told
	local out=$BATS_TEST_TMPDIR/out err=$BATS_TEST_TMPDIR/err files n=0
	shift 2
	"$@" <in >"$want" || return 1
	files=$(ls)
	while :; do
		rm -f "$told"
		status=0
		env LD_PRELOAD="$PRELOAD" PRELOAD_CALL="$kind" \
		    PRELOAD_NTH=$((n + 1)) PRELOAD_ERRNO="$e" \
		    PRELOAD_TOLD="$told" "$@" <in >"$out" 2>"$err" || status=$?
		[ -s "$told" ] || break
		n=$((n + 1))
		calls=$((calls + 1))
		stderr=$(cat "$err")
		case $status in
		0) cmp "$out" "$want" ;;
		1) one_line "^$1: " ;;
		*) false ;;
		esac && [ "$files" = "$(ls)" ] || {
			echo "$* ($kind $n): status $status, $(ls | wc -l)" \
			    "files, $stderr"
			return 1
		}
		[ ! -e cache ] || "$@" <in | cmp - "$want"
	done
	[ "$status" -eq 0 ]
	cmp "$out" "$want"
}

@test "system: memory that is refused at any call" {
	need_preload
	local o calls=0
	cp text in
	each alloc 12 pico-tokenize --offsets
	for o in bpe lines rwkv unigram wordpiece; do
		each alloc 12 pico-tokenize -m "$DATA/tokenizer/$o.gguf" -S
	done
	cp p in
	each alloc 12 pico-detokenize --json
	each alloc 12 pico-forward -t 2
	each alloc 12 pico-forward -t 1 -T --top 2 --session
	each alloc 12 pico-generate -n 3 -t 1 -j 2 --stop and \
	    --logit-bias 5=1 --stop-id 6
	for o in deepseek2 mamba rwkv6 mixtral; do
		echo 1 2 3 >in
		each alloc 12 pico-generate -n 1 -t 1 -m "$DATA/arch/$o.gguf"
	done
	each alloc 12 pico-inspect "$DATA/tokenizer/bpe.gguf"
	each alloc 12 pico-inspect --plan "$MODEL"
	each alloc 12 pico-inspect --stats "$MODEL"
	pico-forward p >in
	each alloc 12 pico-sample
	each alloc 12 pico-sample --json -n 3
	each alloc 12 pico-sample --json-schema schema -n 3
	each alloc 12 pico-sample --grammar grammar -n 3
	cp p in
	each alloc 12 pico-generate --json-schema schema -n 2 -t 1
	each alloc 12 pico-score -t 1
	each alloc 12 pico-score -t 2 -j 2 --each
	echo '{"role":"user","content":"What is it?"}' >in
	each alloc 12 pico-chat --template chatml --text
	[ "$calls" -gt 500 ]
}

@test "system: a cache file is whole or not there, whatever fails" {
	need_preload
	local kind e n calls=0 g='pico-generate -t 1 -n 3 --kv cache'
	cp p in
	$g p >want
	each alloc 12 $g
	for kind in temp sync close rename write read stat open; do
		for e in 5 4; do	# EIO, EINTR
			each $kind $e $g
		done
	done
	# a new one
	for kind in temp sync rename write; do
		for n in $(seq 30); do
			rm -f told cache
			run_split env LD_PRELOAD="$PRELOAD" PRELOAD_TOLD=told \
			    PRELOAD_CALL=$kind PRELOAD_NTH=$n PRELOAD_ERRNO=28 \
			    $g p
			[ -s told ] || break
			[ ! -e cache ] || [ "$status" -eq 0 ] || {
				echo "$kind $n: $stderr"
				return 1
			}
		done
		[ "$n" -gt 1 ]
		[ ! -s told ]
	done
}

@test "system: short and interrupted reads and writes change nothing" {
	need_preload
	pico-tokenize text >tokens
	pico-tokenize -b text >binary
	pico-forward -a p >logits
	pico-forward -aT p >logits.txt
	pico-sample -s 5 logits >sampled
	pico-generate -n 9 p >generated
	pico-generate -n 9 --memory 9M -c 64 --chunk 8 p | cmp - generated
	pico-detokenize p >said
	echo '{"role":"user","content":"What is it?"}' >messages
	pico-chat --template chatml --text <messages >framed
	pico-inspect "$MODEL" >shown
	head -c 30000 "$MODEL" >head
	pico-inspect - <head >shown.head
	for k in 1 3 1000; do
		export PRELOAD_SHORT=$k LD_PRELOAD=$PRELOAD
		pico-tokenize text >a
		pico-tokenize -b text >b
		pico-forward -a p >c
		pico-forward -aT p >d
		pico-sample -s 5 logits >e
		pico-sample -s 5 logits.txt >e2
		rm -f cache
		pico-generate -n 9 --kv cache binary >/dev/null
		pico-generate -n 9 --kv cache p >f
		pico-generate -n 9 --memory 9M -c 64 --chunk 8 p >f2
		pico-detokenize p >g
		pico-chat --template chatml --text <messages >h
		pico-inspect "$MODEL" >i
		pico-inspect - <head >j
		unset PRELOAD_SHORT LD_PRELOAD
		cmp a tokens
		cmp b binary
		cmp c logits
		cmp d logits.txt
		cmp e sampled
		cmp e2 sampled
		cmp f generated
		cmp f2 generated
		cmp g said
		cmp h framed
		cmp i shown
		cmp j shown.head
	done
}

@test "system: a read or write that fails at any call" {
	need_preload
	cp p in
	for e in 5 28; do
		for kind in read write; do
			each $kind $e pico-generate -t 1 -n 3 -b
			each $kind $e pico-forward -t 1 -a
			each $kind $e pico-score -t 1
			cp text in
			each $kind $e pico-tokenize
			cp p in
		done
		each read $e pico-detokenize
		pico-forward -a p >in
		each read $e pico-sample -n 3
		each write $e pico-sample -n 3
		pico-forward p >in
		each read $e pico-sample -n 3 --grammar grammar
		head -c 30000 "$MODEL" >in
		each read $e pico-inspect -
		cp p in
	done
}

@test "system: threads and files that are refused at any call" {
	need_preload
	cp p in
	local calls=0 lo e
	each thread 11 pico-generate -n 2 -t 5
	[ "$calls" -ge 4 ]
	for e in 2 13 24; do
		each open $e pico-generate -n 2 -v -q -t 1
		each stat $e pico-forward -t 1
		each mmap $e pico-detokenize
	done
	pico-forward p >in
	each open 24 pico-sample -n 2 --json-schema schema
	each open 24 pico-sample -n 2 --grammar grammar
	cp p in
	lo=$(pico-inspect --plan --memory 1G "$MODEL" |
	    sed -n 's/^total	\([0-9]*\).*/\1/p')
	each thread 11 pico-generate -n 2 -t 1 --memory $((lo - 1000000)) -c 64
	each open 24 pico-generate -n 2 -t 1 --memory $((lo - 1000000)) -c 64
}

@test "system: no /proc, no /sys, no /dev, no /tmp" {
	need_preload
	# by a name of its own: it may lie in /tmp
	cp "$MODEL" m.gguf
	export PICO_MODEL=m.gguf
	pico-generate -n 3 p >want
	pico-forward p >logits
	for no in /proc /sys /dev /tmp; do
		export PRELOAD_NO=$no LD_PRELOAD=$PRELOAD
		pico-generate -n 3 -v p >a 2>err
		pico-forward p >b
		unset PRELOAD_NO LD_PRELOAD
		cmp a want
		cmp b logits
	done
	run_split env PRELOAD_NO=/dev LD_PRELOAD="$PRELOAD" \
	    pico-generate -s random p
	expect_error 1 'option -s: cannot read /dev/urandom: No such file'
}

@test "system: nothing but the program and its model" {
	unshare -r true 2>/dev/null || skip 'needs unshare'
	mkdir -p root
	for f in pico-generate pico-tokenize; do
		cp "$BUILD_DIR/bin/$f" root
		ldd "root/$f" 2>/dev/null | grep -o '/[^ ]*' |
		while read -r lib; do
			mkdir -p "root/${lib%/*}"
			cp -L "$lib" "root/$lib"
		done
	done
	cp "$MODEL" root/m
	bare() { unshare -r chroot root "$@"; }
	bare /pico-generate -V || skip 'the program needs more than its libraries'
	pico-generate -n 3 p >want
	bare /pico-generate -m m -n 3 <p | cmp - want
	pico-tokenize text >want2
	bare /pico-tokenize -m m <text | cmp - want2
	# the guard of closed descriptors has no /dev/null here
	bare /pico-generate -m m -n 3 --kv c -v <p 2>&- | cmp - want
	bare /pico-generate -m m -n 3 --kv c <p | cmp - want
	run_split bare /pico-generate -m m -n 3 <p >&-
	[ "$status" -eq 1 ] || [ "$status" -eq 0 ]
}

@test "system: descriptors 0, 1 and 2 closed in every combination" {
	pico-generate -n 3 p >want
	cp "$MODEL" model
	pico-forward p >logits
	for program in inspect tokenize detokenize forward sample generate; do
		case $program in
		inspect) o=model ;;
		sample) o=logits ;;
		tokenize) o='-m model text' ;;
		generate) o='-m model -n 3 --kv cache p' ;;
		*) o='-m model p' ;;
		esac
		for how in '' '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' \
		    '>&- 2>&-' '<&- >&- 2>&-'; do
			rm -f cache
			for arg in "$o" --no-such-option "$o missing"; do
				status=0
				bash -c "exec 7>&- 8>&-; pico-$program $arg $how" \
				    >out 2>err </dev/null || status=$?
				case $how:$arg in
				*--no-such-option) want_status=2 ;;
				*missing | *'>&-'*) want_status=1 ;;
				*) want_status=0 ;;
				esac
				# 2>&- alone has >&- in it, too
				[ "${how#2}:$arg" != ">&-:$o" ] ||
				    [ "$how" = '>&-' ] || want_status=0
				[ "$how:$arg" != "<&- 2>&-:$o" ] ||
				    want_status=0
				[ "$status" -eq "$want_status" ] || {
					echo "$program $arg $how: $status"
					cat err
					return 1
				}
			done
			cmp model "$MODEL"
			[ ! -e cache ] ||
			    pico-generate -n 3 --kv cache p | cmp - want
		done
	done
}

@test "system: limits on open files and on the size of files" {
	! grep -q '__[amt]san_init' "$BUILD_DIR/bin/pico-generate" ||
	    skip 'the sanitizers open files'
	pico-generate -n 3 p >want
	for n in $(seq 0 12); do
		run_split bash -c "ulimit -n $n; exec pico-generate -n 3 p"
		case $status in
		0) cmp "$BATS_TEST_TMPDIR/stdout" want ;;
		1) one_line '^pico-generate: ' ;;
		126 | 127) ;;	# its libraries cannot be opened
		*) echo "$n: $status $stderr"; return 1 ;;
		esac
	done
	[ "$status" -eq 0 ]
	# blocks of 1 KB
	for o in 'forward -a' 'forward -aT' 'tokenize --show'; do
		yes "$(cat p)" | head -n 100 >long
		run_split bash -c "ulimit -f 1; pico-$o long"
		[ "$status" -eq 1 ] || { echo "$o: $status $stderr"; return 1; }
	done
	run_split bash -c 'ulimit -f 1; pico-generate -n 3 --kv cache p'
	[ "$status" -eq 1 ]
	one_line "write error on KV file 'cache': File too large"
	printf %s "$output" | cmp - want
	[ ! -e cache ]
	! ls | grep -q '^cache\.'
}

@test "system: a directory that cannot be written to" {
	need_preload
	run_split env LD_PRELOAD="$PRELOAD" PRELOAD_CALL=temp PRELOAD_NTH=1 \
	    PRELOAD_ERRNO=30 pico-generate --kv cache p
	expect_error 1 "^pico-generate: cannot write KV file 'cache': Read-only file system"
	# nothing else is written anywhere
	pico-generate -n 3 p >want
	mkdir empty
	chmod 555 empty
	HOME=$PWD/empty TMPDIR=/nowhere pico-generate -n 3 p | cmp - want
	[ -z "$(ls -A empty)" ]
}

@test "system: a stdin that somebody set to non-blocking" {
	command -v perl >/dev/null || skip 'needs perl'
	late() {
		{ sleep 0.2; head -c 7 in; sleep 0.1; tail -c +8 in; } |
		    perl -MFcntl -e 'fcntl(STDIN, F_SETFL, O_NONBLOCK) or die;
			exec @ARGV' "$@"
	}
	cp text in
	late pico-tokenize | cmp - <(pico-tokenize <in)
	echo '{"role":"user","content":"What is it?"}' >in
	late pico-chat --template chatml | cmp - <(pico-chat --template chatml <in)
	cp p in
	late pico-generate -n 3 | cmp - <(pico-generate -n 3 <in)
	late pico-detokenize | cmp - <(pico-detokenize <in)
	pico-forward p >in
	late pico-sample | cmp - <(pico-sample <in)
}

@test "system: a stdout that somebody set to non-blocking" {
	command -v perl >/dev/null || skip 'needs perl'
	# more than a pipe holds, and a reader that comes late
	late() {
		perl -MFcntl -e 'fcntl(STDOUT, F_SETFL, O_NONBLOCK) or die;
		    exec @ARGV' "$@" | { sleep 0.3; cat; }
	}
	set -o pipefail
	seq -f 'Once upon a time %g' 20000 >big
	late pico-tokenize big >ids
	[ "$(wc -c <ids)" -gt 200000 ]
	pico-tokenize big | cmp - ids
	late pico-detokenize ids | cmp - big
	late pico-inspect -a "$MODEL" | cmp - <(pico-inspect -a "$MODEL")
	late pico-forward -aT p | cmp - <(pico-forward -aT p)
}
