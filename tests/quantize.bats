# SPDX-License-Identifier: MIT
# pico-quantize: types, sizes, what is refused, and that nothing is left behind
# when it fails. test_quantize is about the numbers.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	# a model in floats; --embd 288 would have odd rows
	"$BUILD_DIR/bench/mkmodel" --shape tiny --type F16 -o f16.gguf
}

# table FILE: name and type of each tensor
table() {
	pico-inspect --json "$1" | jq -r '.tensors[] | .name + "\t" + .type'
}

# only FILE...: there is nothing else in the directory
only() {
	printf '%s\n' "$@" stdout stderr | sort -u >../want
	{ ls; echo stdout; echo stderr; } | sort -u | diff ../want -
}

@test 'quantize: all types and mixes, and they run' {
	printf '5 6 7 8\n' >ids
	for t in F32 F16 BF16 Q8_0 Q6_K Q5_K_M Q5_K_S Q5_K Q5_1 Q5_0 Q4_K_M \
	    Q4_K_S q4_k Q4_1 Q4_0 IQ4_NL IQ4_XS MXFP4 Q3_K_L Q3_K_M \
	    Q3_K_S Q3_K Q2_K TQ2_0 TQ1_0; do
		run_split pico-quantize f16.gguf out.gguf $t
		[ "$status" -eq 0 ] && [ -z "$output$stderr" ]
		pico-inspect --check out.gguf
		[ "$(pico-quantize --dry-run f16.gguf $t | tail -n 1 |
		    cut -f5)" -eq "$(wc -c <out.gguf)" ]
		pico-forward -m out.gguf --top 1 ids >/dev/null
	done
	rm ids
	only f16.gguf out.gguf
}

@test 'quantize: a mix that has no use for its type says so' {
	run_split pico-quantize f16.gguf out.gguf MXFP4_MOE
	[ "$status" -eq 0 ]
	one_line "^pico-quantize: no tensor of 'f16.gguf' becomes MXFP4 by the rules of MXFP4_MOE$"
	run_split pico-quantize -q f16.gguf out.gguf MXFP4_MOE
	[ "$status" -eq 0 ] && [ -z "$stderr" ]
	"$BUILD_DIR/bench/mkmodel" --shape tiny --experts 4 --type F16 -o e.gguf
	run_split pico-quantize e.gguf out.gguf MXFP4_MOE
	[ "$status" -eq 0 ] && [ -z "$stderr" ]
	pico-inspect out.gguf | grep -q $'^blk.0.ffn_up_exps.weight\tMXFP4'
}

@test 'quantize: metadata stay, two keys change, types are those of the mix' {
	command -v jq >/dev/null || skip 'needs jq'
	pico-quantize f16.gguf out.gguf Q4_K_M
	[ "$(pico-inspect -k general.file_type out.gguf)" = 15 ]
	[ "$(pico-inspect -k general.quantization_version out.gguf)" = 2 ]
	diff <(pico-inspect --json -a f16.gguf | jq -S '.kv[] |
	    select(.key | test("file_type|quantization_version") | not)') \
	    <(pico-inspect --json -a out.gguf | jq -S '.kv[] |
	    select(.key | test("file_type|quantization_version") | not)')
	table out.gguf >got
	grep -qx $'output.weight\tQ6_K' got
	grep -qx $'token_embd.weight\tQ4_K' got
	grep -qx $'blk.0.attn_norm.weight\tF32' got
	grep -qx $'blk.1.ffn_down.weight\tQ6_K' got
}

@test 'quantize: the same bytes for any number of threads and on any CPU' {
	for t in Q4_K_M Q3_K_M IQ4_XS Q4_0 Q8_0; do
		pico-quantize f16.gguf 1.gguf $t -t 1
		pico-quantize f16.gguf 3.gguf $t -t 3
		PICO_CPU=scalar pico-quantize f16.gguf s.gguf $t
		cmp 1.gguf 3.gguf
		cmp 1.gguf s.gguf
	done
}

@test 'quantize: to the type that it has, it is a copy' {
	pico-quantize f16.gguf a.gguf F16
	pico-quantize a.gguf b.gguf F16
	cmp a.gguf b.gguf
	pico-quantize f16.gguf q.gguf Q8_0
	pico-quantize q.gguf r.gguf Q8_0
	cmp q.gguf r.gguf
}

@test 'quantize: what has lost something goes on only if asked' {
	pico-quantize f16.gguf q8.gguf Q8_0
	run_split pico-quantize q8.gguf q4.gguf Q4_0
	expect_error 1 "^pico-quantize: tensor 'token_embd.weight' is Q8_0 already"
	only f16.gguf q8.gguf
	pico-quantize --requantize q8.gguf q4.gguf Q4_0
	pico-inspect --check q4.gguf
}

@test 'quantize: rules by name, of which the last counts' {
	command -v jq >/dev/null || skip 'needs jq'
	pico-quantize --tensor 'blk.*.attn_*.weight=q5_0' --keep 'blk.1.*' \
	    --tensor '*attn_q*=q8_0' f16.gguf out.gguf Q4_K_M
	table out.gguf >got
	grep -qx $'blk.0.attn_k.weight\tQ5_0' got
	grep -qx $'blk.0.attn_q.weight\tQ8_0' got
	grep -qx $'blk.1.attn_k.weight\tF16' got
	grep -qx $'blk.1.attn_q.weight\tQ8_0' got
	grep -qx $'blk.0.ffn_up.weight\tQ4_K' got
	pico-quantize --pure f16.gguf out.gguf Q3_K_M
	table out.gguf | cut -f2 | sort -u >got
	printf '%s\n' F32 Q3_K | diff - got
}

@test 'quantize: rules that are none' {
	for o in --keep=nothing* --tensor=nothing=q4_0; do
		run_split pico-quantize "$o" f16.gguf out.gguf Q4_0
		expect_error 1 "no tensor is called 'nothing"
	done
	for o in q4_0 =q4_0 output=q9 output=q8_1 output=; do
		run_split pico-quantize --tensor "$o" f16.gguf out.gguf Q4_0
		expect_error 2 'is not GLOB=TYPE|is no type'
	done
	run_split pico-quantize "--keep=[$(printf %0200d 0)]*" f16.gguf \
	    out.gguf Q4_0
	expect_error 2 'a pattern of 203 bytes is too long'
	pico-edit --force --set general.architecture=u32:3 f16.gguf bad.gguf
	run_split pico-quantize bad.gguf out.gguf Q4_0
	expect_error 1 "^pico-quantize: 'bad.gguf': key 'general.architecture' is u32"
	rm bad.gguf
	run_split pico-quantize f16.gguf out.gguf Q9_K
	expect_error 2 "'Q9_K' is no type to quantize to; these are: F32 F16"
	run_split pico-quantize f16.gguf Q4_0
	expect_error 2 'wanted: the model, the file to make and the type'
	only f16.gguf
}

@test 'quantize: rows that are no blocks' {
	"$BUILD_DIR/bench/mkmodel" --shape tiny --embd 288 --heads 4 \
	    --kv-heads 2 --type F16 -o odd.gguf
	pico-quantize odd.gguf out.gguf Q4_K_M
	pico-inspect out.gguf | grep -q $'^blk.0.attn_q.weight\tQ5_0'
	run_split pico-quantize --pure odd.gguf pure.gguf Q4_K_M
	expect_error 1 "^pico-quantize: tensor 'token_embd.weight' has rows of 288, not a multiple of the 256 of type Q4_K"
	run_split pico-quantize --tensor '*attn_q*=q6_k' odd.gguf pure.gguf Q8_0
	expect_error 1 'rows of 288, not a multiple of the 256 of type Q6_K'
	only f16.gguf odd.gguf out.gguf
}

@test 'quantize: errors of each tensor are told' {
	pico-quantize -v f16.gguf out.gguf Q4_0 2>said
	grep -qE '^blk.0.ffn_up.weight:	F16 to Q4_0, [0-9]+ bytes, error [0-9.]+, [0-9.]+ %$' said
	grep -qE '^output_norm.weight:	F32 to F32, 1024 bytes$' said
	grep -qE '^size:	[0-9]+ bytes$' said
}

# at FILE TENSOR: where its data are
at() {
	pico-inspect --json "$1" | jq -r --arg t "$2" \
	    '(.data_offset // .files[0].data_offset) + (.tensors[] |
	    select(.name == $t) | .offset)'
}

@test 'quantize: NaN and infinity are told, and no file is made' {
	command -v jq >/dev/null || skip 'needs jq'
	at=$(at f16.gguf blk.1.ffn_up.weight)
	# row 3, value 5, of 256 values of F16
	printf '\000\176' | dd of=f16.gguf bs=1 conv=notrunc \
	    seek=$((at + 2 * (3 * 256 + 5))) 2>/dev/null
	run_split pico-quantize f16.gguf out.gguf Q4_K_M
	expect_error 1 "^pico-quantize: tensor 'blk.1.ffn_up.weight': row 3, value 5 is NaN$"
	printf '\000\374' | dd of=f16.gguf bs=1 conv=notrunc \
	    seek=$((at + 2 * (3 * 256 + 5))) 2>/dev/null
	run_split pico-quantize f16.gguf out.gguf Q8_0
	expect_error 1 "row 3, value 5 is infinite$"
	only f16.gguf
}

@test 'quantize: the output is not the input, nor anything but a file' {
	cp f16.gguf a.gguf
	ln -s a.gguf link
	for o in a.gguf ./a.gguf link; do
		run_split pico-quantize a.gguf $o Q8_0
		expect_error 2 'is the input and the output'
	done
	cmp a.gguf f16.gguf
	echo 5 6 | pico-forward -m a.gguf --imatrix m.gguf
	for o in m.gguf ./m.gguf; do
		run_split pico-quantize --imatrix m.gguf a.gguf $o Q8_0
		expect_error 2 "'$o' is the importance matrix and the output"
	done
	pico-inspect m.gguf | grep -q '^general.type.*imatrix'
	run_split pico-quantize a.gguf /dev/null Q8_0
	expect_error 1 "'/dev/null' is not a regular file"
	run_split pico-quantize a.gguf - Q8_0
	expect_error 1 "cannot write '-': it is no stream; './-' is a file"
	run_split pico-quantize a.gguf no/such/place Q8_0
	expect_error 1 "cannot write 'no/such/place': No such file or directory"
	run_split pico-quantize /dev/null out.gguf Q8_0
	expect_error 1 "'/dev/null' is not a regular file"
	for t in Q8_0 F16; do
		run_split pico-quantize - out.gguf $t <a.gguf
		expect_error 2 'standard input gives only the header'
		[ ! -e out.gguf ]
	done
	[ "$(pico-quantize --dry-run - Q8_0 <a.gguf)" = \
	    "$(pico-quantize --dry-run a.gguf Q8_0)" ]
	run_split pico-quantize "$BATS_TEST_FILENAME" out.gguf Q8_0
	expect_error 1 'is not a GGUF file'
	echo old >old.gguf
	pico-quantize a.gguf old.gguf Q8_0
	pico-inspect --check old.gguf
}

@test 'quantize: a full disk at any byte leaves what was there' {
	echo old >out.gguf
	size=$(pico-quantize --dry-run f16.gguf Q4_0 | tail -n 1 | cut -f5)
	# in blocks of 1 KiB; the limit is an error of write(2)
	for k in 1 7 64 65 $((size / 2048)) $((size / 1024)); do
		run_split bash -c "ulimit -f $k;
		    exec pico-quantize f16.gguf out.gguf Q4_0"
		[ "$status" -eq 1 ]
		one_line "^pico-quantize: write error on 'out.gguf': File too large$"
		[ "$(cat out.gguf)" = old ]
		only f16.gguf out.gguf
	done
}

@test 'quantize: each call that can fail' {
	need_preload
	for call in write temp sync close rename thread mmap open stat; do
		for n in $(seq 200); do
			rm -f ../told out.gguf
			run_split env LD_PRELOAD="$BUILD_DIR/tests/preload.so" \
			    PRELOAD_CALL=$call PRELOAD_NTH=$n PRELOAD_ERRNO=28 \
			    PRELOAD_TOLD="$BATS_TEST_TMPDIR/../told" \
			    pico-quantize f16.gguf out.gguf Q8_0 -t 2
			[ -s ../told ] || break
			if [ "$status" -ne 0 ]; then
				expect_error 1 '^pico-quantize: '
				[ ! -e out.gguf ]
			fi
			[ "$status" -eq 0 ] || only f16.gguf
		done
		[ "$n" -gt 1 ]
	done
}

@test 'quantize: pieces of any size, and interruptions' {
	need_preload
	pico-quantize f16.gguf want.gguf Q4_K_M
	LD_PRELOAD=$BUILD_DIR/tests/preload.so PRELOAD_SHORT=1009 \
	    pico-quantize f16.gguf out.gguf Q4_K_M
	cmp want.gguf out.gguf
}

@test 'quantize: signals leave nothing behind, and are what it dies of' {
	"$BUILD_DIR/bench/mkmodel" --shape tinyllama --layers 2 --vocab 4000 \
	    --type F16 -o big.gguf
	for s in INT TERM HUP; do
		for delay in 0.02 0.05 0.1 0.2; do
			pico-quantize big.gguf out.gguf Q2_K -t 1 3>&- &
			pid=$!
			sleep $delay
			kill -$s $pid 2>/dev/null || true
			r=0
			wait $pid || r=$?
			# background jobs of a shell may ignore SIGINT
			[ $r -eq $((128 + $(kill -l $s))) ] || [ $r -eq 0 ]
			[ $r -eq 0 ] || [ ! -e out.gguf ]
			rm -f out.gguf
			only f16.gguf big.gguf
		done
	done
	# killed outright, only the temporary name can stay
	pico-quantize big.gguf out.gguf Q2_K -t 1 3>&- &
	pid=$!
	sleep 0.1
	kill -KILL $pid
	wait $pid || true
	[ ! -e out.gguf ]
}

@test 'quantize: memory stays small' {
	"$BUILD_DIR/bench/mkmodel" --shape tinyllama --layers 3 --type F16 \
	    -o big.gguf
	[ "$(wc -c <big.gguf)" -gt 400000000 ]
	pico-quantize -v -t 2 big.gguf out.gguf Q8_0 2>said
	mb=$(sed -n 's/^memory:	\([0-9]*\).*/\1/p' said)
	echo "$mb MB"
	[ "$mb" -lt 100 ]
}
