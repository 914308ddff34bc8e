# SPDX-License-Identifier: MIT
# pico-edit: what changes, what stays, what is refused.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	cp "$MODEL" m.gguf
}

# only FILE...: there is nothing else in the directory
only() {
	printf '%s\n' "$@" stdout stderr | sort -u >../want
	{ ls; echo stdout; echo stderr; } | sort -u | diff ../want -
}

@test 'edit: a value of the same length is changed in place' {
	inode=$(stat -c %i m.gguf)
	run_split pico-edit -v --set general.name=str:pico-fable m.gguf
	[ "$status" -eq 0 ]
	[ "$stderr" = 'done:	in place' ]
	[ "$(stat -c %i m.gguf)" = "$inode" ]
	[ "$(pico-inspect -k general.name m.gguf)" = pico-fable ]
	# nothing else is
	[ "$(cmp -l m.gguf "$MODEL" | wc -l)" -eq 4 ]
	pico-edit --set general.name=str:pico-tales m.gguf
	cmp m.gguf "$MODEL"
	# the same, as a copy
	pico-edit --set general.name=str:pico-fable m.gguf copy.gguf
	cmp m.gguf "$MODEL"
	pico-edit --set general.name=str:pico-fable m.gguf
	cmp m.gguf copy.gguf
}

@test 'edit: others make a copy, which takes the name' {
	run_split pico-edit -v --set general.name=str:x m.gguf
	[ "$stderr" = 'done:	as a copy' ]
	[ "$(pico-inspect -k general.name m.gguf)" = x ]
	pico-inspect --check m.gguf
	pico-edit --set general.name=str:pico-tales m.gguf
	cmp m.gguf "$MODEL"
	only m.gguf
}

@test 'edit: a copy has the rights of what it takes the place of' {
	chmod 600 m.gguf
	pico-edit --set general.name=str:longer-than-it-was m.gguf
	[ "$(stat -c %a m.gguf)" = 600 ]
	ln -s m.gguf link
	chmod 640 m.gguf
	pico-edit --set general.name=str:longer-still-than-it-was link
	[ "$(stat -c %a m.gguf)" = 640 ] && [ -L link ]
	umask 027
	pico-edit --set general.name=str:x m.gguf new.gguf
	[ "$(stat -c %a new.gguf)" = 640 ]
}

@test 'edit: values of all types' {
	printf 'line 1\nline 2\n' >text
	echo '[1, -2, 3]' >list
	pico-edit --add a=u8:255 --add b=i8:-128 --add c=u16:65535 \
	    --add d=i16:-1 --add e=u32:4294967295 --add f=i32:-5 \
	    --add g=u64:18446744073709551615 --add h=i64:-9223372036854775808 \
	    --add i=f32:0.5 --add j=f64:-1e300 --add k=bool:true \
	    --add l=str:a=b:c@d --add m=str@text --add n=i16[]@list \
	    --add 'o=str[]:["x", "\u00e9", ""]' --add 'p=bool[]:[true,false]' \
	    --add 't=u64[]:[0, 18446744073709551615]' --add 'q=f32[]:[]' \
	    --add 'r=f64[]:[1e2]' --add s=str: m.gguf
	pico-inspect m.gguf | grep -E '^[a-t]	' >got
	printf '%s\t%s\t%s\n' a u8 255 b i8 -128 c u16 65535 d i16 -1 \
	    e u32 4294967295 f i32 -5 g u64 18446744073709551615 \
	    h i64 -9223372036854775808 i f32 0.5 \
	    j f64 -1.0000000000000001e+300 k bool true l str a=b:c@d \
	    m str 'line 1\nline 2' n 'i16[3]' '[1, -2, 3]' \
	    o 'str[3]' '["x", "é", ""]' p 'bool[2]' '[true, false]' \
	    t 'u64[2]' '[0, 18446744073709551615]' \
	    q 'f32[0]' '[]' r 'f64[1]' '[100]' s str '' |
	    sed 's/\\n/\\n/' >want
	diff want got
}

@test 'edit: names and order' {
	pico-edit --rename general.name=general.title m.gguf
	pico-inspect m.gguf | sed -n '/^general/p' | cut -f1 | sed -n 3p >got
	echo general.title | diff - got
	run_split pico-edit --delete general.title --add general.name=str:x \
	    --rename general.name=z m.gguf
	[ "$status" -eq 0 ]
	[ "$(pico-inspect m.gguf | grep -c $'^z\tstr\tx')" -eq 1 ]
}

@test 'edit: a file that is read is not written over' {
	echo text >text
	ln -s text link
	for o in text ./text link; do
		run_split pico-edit --add x=str@text m.gguf $o
		expect_error 2 "'$o' is the value of 'x' and the output"
	done
	[ "$(cat text)" = text ]
	run_split pico-edit --add y=u8:1 --set general.name=str@m.gguf m.gguf
	expect_error 2 "'m.gguf' is the value of 'general.name' and the output"
	cmp m.gguf "$MODEL"
	# no file, but a text
	pico-edit --set general.name=str:@text m.gguf text
	[ "$(pico-inspect -k general.name text)" = @text ]
}

@test 'edit: what is not as told' {
	try() { run_split pico-edit "$@" m.gguf; }
	try --set no.such=u8:1
	expect_error 1 "^pico-edit: 'm.gguf' has no key 'no.such': --add makes one$"
	try --add general.name=str:x
	expect_error 1 "'m.gguf' has a key 'general.name' already: --set changes it"
	try --delete no.such
	expect_error 1 "has no key 'no.such'$"
	try --rename no.such=x
	expect_error 1 "has no key 'no.such'$"
	try --rename general.name=general.type
	expect_error 1 "there is a key 'general.type' already"
	for v in u8:256 i8:-129 u32:-1 u64:-1 u64:18446744073709551616 u32:1x u32: f32:1e39 f32:nan bool:1 \
	    'u8[]:[256]' 'u8[]:["1"]' 'u8[]:1' 'u8[]:[1' 'str[]:[1]' \
	    'bool[]:[1]' 'i32[]:[1.5]' 'u8[]:{}'; do
		try --add "x=$v"
		[[ $status -eq 1 || $status -eq 2 ]]
		expect_error $status "^pico-edit: key 'x': "
	done
	for v in '' 1 u9:1 arr:1 '[]:1' str u8[; do
		try --add "x=$v"
		expect_error 2 "^pico-edit: (option --add: )?.*(is not KEY=VALUE|is not TYPE:VALUE)"
	done
	try --add x=str@missing
	expect_error 1 "cannot open 'missing'"
	run_split pico-edit m.gguf
	expect_error 2 'nothing to do'
	run_split pico-edit --delete x
	expect_error 2 'wanted: the file'
	for o in '' out.gguf; do
		# shellcheck disable=SC2086
		run_split pico-edit --set general.name=str:x - $o <m.gguf
		expect_error 2 'standard input gives only the header'
	done
	cmp m.gguf "$MODEL"
	only m.gguf
}

@test 'edit: a model that could not be run any more is not made' {
	for o in --delete=general.architecture --delete=llama.block_count \
	    --set=general.architecture=str:nothing --set=llama.block_count=u32:9 \
	    --set=tokenizer.ggml.bos_token_id=u32:1024 \
	    --rename=tokenizer.ggml.tokens=x --set=llama.block_count=str:4; do
		run_split pico-edit "$o" m.gguf out.gguf
		expect_error 1 '^pico-edit: the model could not be run any more \(--force does it\): '
		only m.gguf
	done
	for o in --add=split.count=u16:2 --rename=general.name=split.no; do
		run_split pico-edit "$o" m.gguf out.gguf
		expect_error 1 "keys 'split\.\*' tell what files are one model"
		only m.gguf
	done
	pico-edit --force --delete general.architecture m.gguf out.gguf
	run_split pico-forward -m out.gguf </dev/null
	[ "$status" -eq 1 ]
	# what cannot be run anyway may be changed
	pico-edit --add general.architecture=str:llama out.gguf
	pico-inspect out.gguf | grep -q $'^runs here:\tyes'
}

@test 'edit: another alignment moves the data' {
	pico-edit --add general.alignment=u32:64 m.gguf
	pico-inspect --check m.gguf
	pico-inspect m.gguf | grep -q 'alignment 64'
	run_split pico-edit -v --set general.alignment=u32:32 m.gguf
	[ "$stderr" = 'done:	as a copy' ]
	echo 5 | pico-forward -m m.gguf >got
	echo 5 | pico-forward -m "$MODEL" | cmp - got
	run_split pico-edit --set general.alignment=u32:48 m.gguf
	expect_error 1 "general.alignment"
}

@test 'edit: each valid file keeps what it has' {
	dir=$DATA/gguf/valid
	[ -z "$SHARED" ] || dir=$SHARED/conformance/gguf/valid
	n=0
	for f in "$dir"/*.gguf; do
		case $f in *big_endian*) continue ;; esac
		pico-edit --add x.y=u32:7 "$f" a.gguf
		[ "$(pico-inspect --alone -k x.y a.gguf)" = 7 ]
		pico-edit --delete x.y a.gguf
		pico-inspect --alone --diffable "$f" | sed '/^version/d' >want
		pico-inspect --alone --diffable a.gguf | sed '/^version/d' >got
		diff want got
		n=$((n + 1))
	done
	[ "$n" -gt 5 ]
}

@test 'edit: faults leave the file as it was' {
	# a full disk
	for k in 1 64 1000; do
		run_split bash -c "ulimit -f $k;
		    exec pico-edit --set general.name=str:longer-than-that m.gguf"
		expect_error 1 "write error on 'm.gguf': File too large"
		cmp m.gguf "$MODEL"
		only m.gguf
	done
}

@test 'edit: each call that can fail' {
	need_preload
	for call in write temp sync rename mmap open alloc; do
		for n in $(seq 300); do
			rm -f ../told
			run_split env LD_PRELOAD="$BUILD_DIR/tests/preload.so" \
			    PRELOAD_CALL=$call PRELOAD_NTH=$n \
			    PRELOAD_TOLD="$BATS_TEST_TMPDIR/../told" \
			    pico-edit --add x=u8:1 m.gguf out.gguf
			[ -s ../told ] || break
			[ "$status" -eq 0 ] || [ ! -e out.gguf ]
			[ "$status" -eq 0 ] || expect_error 1 '^pico-edit: '
			rm -f out.gguf
			only m.gguf
			[ $call != alloc ] || [ $n -lt 40 ] || break
		done
		rm -f out.gguf
	done
	cmp m.gguf "$MODEL"
}
