# The tools of `make bench`: random models are valid and run, and the limits are
# numbers. How fast anything is, is not tested.

load helper

MKMODEL=$BUILD_DIR/bench/mkmodel
LIMITS=$BUILD_DIR/bench/limits

# tiny TYPE [OPTION ...]: a small model in $out
tiny() {
	out=$BATS_TEST_TMPDIR/$1.gguf
	"$MKMODEL" --shape tiny --type "$@" -o "$out"
}

# Its last row of logits as numbers.
logits() {
	echo '300 301 302' | pico-forward -m "$out" -T | awk -F'\t' '
		NF == 2 { row = $2 } END { print row }'
}

@test 'mkmodel: every type of weights gives a model that runs' {
	for type in F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K \
	    Q6_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS IQ1_M \
	    TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0 Q2_0; do
		tiny "$type"
		# values around 0 of rms 1/sqrt(256), none of them NaN
		pico-inspect --stats blk.1.ffn_up.weight "$out" | awk -F'\t' -v \
		    type="$type" '{ seen = $2 == type && $6 * $6 < 1e-4 &&
			$7 > 0.055 && $7 < 0.075 } END { exit !seen }' || {
			pico-inspect --stats blk.1.ffn_up.weight "$out"
			return 1
		}
		# logits of a size as in real models
		logits | tr ' ' '\n' | awk '{ s += $1 * $1 } END {
			exit !(NR == 512 && s / NR > 0.1 && s / NR < 10) }' || {
			echo "$type: logits $(logits | cut -c 1-200)"
			return 1
		}
	done
}

@test 'mkmodel: mixes and experts' {
	tiny Q4_K_M --layers 8
	types=$(pico-inspect --json "$out" | jq -r '.tensors[] |
	    select(.name | test("ffn_down|^output.w")) | .type' | tr '\n' ' ')
	[ "$types" = 'Q6_K Q4_K Q4_K Q6_K Q4_K Q4_K Q6_K Q6_K Q6_K ' ]
	[ "$(pico-inspect -k general.file_type "$out")" = 15 ]
	tiny Q4_K_M --experts 4 --used 2
	[ "$(echo 300 | pico-generate -m "$out" -n 4 --ignore-eog | wc -w)" = 4 ]
	run pico-inspect --json "$out"
	[ "$(jq -c '.tensors[] | select(.name == "blk.1.ffn_down_exps.weight")
	    .dims' <<<"$output")" = '[512,256,4]' ]
}

@test 'mkmodel: the same seed, the same bytes' {
	tiny Q4_0
	"$MKMODEL" --shape tiny --type Q4_0 -s 0 -o "$BATS_TEST_TMPDIR/b"
	"$MKMODEL" --shape tiny --type Q4_0 -s 1 -o "$BATS_TEST_TMPDIR/c"
	cmp "$out" "$BATS_TEST_TMPDIR/b"
	! cmp -s "$out" "$BATS_TEST_TMPDIR/c"
}

@test 'mkmodel: the vocabulary takes any text and gives it back' {
	tiny Q8_0 --vocab 4000
	text='babado Kalo 12, naïve 🙂'
	[ "$(echo "$text" | pico-tokenize -m "$out" |
	    pico-detokenize -m "$out")" = "$text" ]
	# and it merges
	[ "$(echo babado | pico-tokenize -m "$out" | wc -w)" -le 3 ]
}

@test 'mkmodel: what cannot be made is refused' {
	run_split "$MKMODEL" --shape tiny
	expect_error 2 'no output'
	run_split "$MKMODEL" --type I8 -o "$BATS_TEST_TMPDIR/x"
	expect_error 2 'I8 is no type for weights'
	run_split "$MKMODEL" --shape tiny --ff 500 -o "$BATS_TEST_TMPDIR/x"
	expect_error 2 'rows of 500 are no whole blocks'
	[ ! -e "$BATS_TEST_TMPDIR/x" ]
	run_split "$MKMODEL" --folder --type Q4_0 -o "$BATS_TEST_TMPDIR/x"
	expect_error 2 'a folder has F32, F16 or BF16'
	[ ! -e "$BATS_TEST_TMPDIR/x" ]
	run_split "$MKMODEL" --shape tiny -o /dev/full
	expect_error 1 "'/dev/full'"
}

@test 'limits: a line for each, with a positive number' {
	"$LIMITS" -t 1 --size 4M --time 0.01 >"$BATS_TEST_TMPDIR/out"
	for key in read.1-stream read.2-streams read int8 fma; do
		awk -F'\t' -v key="$key" '$1 == key { ok = NF == 3 && $2 > 0 }
			END { exit !ok }' "$BATS_TEST_TMPDIR/out"
	done
	# "read" is the best of the ways to read
	awk -F'\t' '$1 ~ /^read\./ && $2 > best { best = $2 }
		$1 == "read" { read = $2 }
		END { exit !(read == best) }' "$BATS_TEST_TMPDIR/out"
	grep -q "^threads$(printf '\t')1$(printf '\t')-$" "$BATS_TEST_TMPDIR/out"
}

@test 'limits: no time at all is a run of each' {
	"$LIMITS" -t 1 --size 4M --time 0 | awk -F'\t' '$3 != "-" {
		n++; bad += !($2 > 0) } END { exit n < 7 || bad > 0 }'
}

@test 'limits: PICO_CPU chooses the instructions' {
	PICO_CPU=scalar "$LIMITS" -t 1 --size 4M --time 0.01 |
	    grep -q "^set$(printf '\t')scalar"
	PICO_CPU=z80 run_split "$LIMITS" -t 1
	expect_error 2 "PICO_CPU: 'z80'"
}

@test 'bench: a table of everything, and the same for plotting' {
	command -v python3 >/dev/null || skip 'needs Python'
	DIR=$BATS_TEST_TMPDIR "$ROOT/tests/bench/run" SHAPE=tiny RUNS=1 \
	    MODELS=Q8_0 THREADS=1 PHASES='decode long batch8 prompt start' \
	    >"$BATS_TEST_TMPDIR/out"
	for phase in decode long batch8 prompt; do
		grep -qE "^Q8_0 +$phase +1 .* [0-9.]+ \[[0-9.]+\.\.[0-9.]+\]\$" \
		    "$BATS_TEST_TMPDIR/out"
		awk -F'\t' -v phase=$phase '$2 == phase { ok = $5 > 0 &&
			$6 <= $5 && $5 <= $7 && $8 > 0 &&
			$10 <= $9 && $9 <= $11 } END { exit !ok }' \
		    "$BATS_TEST_TMPDIR/results.tsv"
	done
	grep -q '^generate -n 0 Q8_0' "$BATS_TEST_TMPDIR/out"
}
