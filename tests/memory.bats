# SPDX-License-Identifier: MIT
# Models in less memory than they need: the same bytes, and no more read than
# the plan says.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	echo 'Once upon a time there was a small fox' | pico-tokenize >p
}

# plan KEY OPTION ...: a number of the plan
plan() {
	local key=$1
	shift
	pico-inspect --plan "$@" | awk -v key="$key" '$1 == key {print $2}'
}

# least OPTION ...: the least memory with which a run is possible
least() {
	pico-inspect --plan --memory 1 "$@" 2>&1 |
	    sed -n 's/.*at least \([0-9]*\) are needed.*/\1/p'
}

# whole OPTION ...: the memory that holds everything
whole() {
	pico-inspect --plan --memory max "$@" |
	    sed -n 's/.*, \([0-9]*\) would hold all$/\1/p'
}

@test "memory: the plan adds up, whatever the limit" {
	lo=$(least) hi=$(whole)
	[ "$lo" -lt "$hi" ]
	for m in $lo $((lo + 1)) $((lo + 300000)) $((hi - 1)) $hi; do
		pico-inspect --plan --memory $m >plan
		awk -v m=$m -v hi=$hi -F '\t' '
			{ v[$1] = $2; t[$1] = $3 }
			END {
				split(t["streamed"], w, " ")
				for (i in w)
					if (w[i] ~ /^[0-9]+$/)
						ring = w[i]
				sum = v["kept"] + v["kv"] + v["buffers"] \
				    + v["other"] + ring
				some = v["kept"] < v["weights"]
				if (sum != v["total"] || sum > m)
					exit 1
				if (some != (v["streamed"] > 0))
					exit 1
			}' plan || { cat plan; false; }
	done
	[ "$(plan streamed --memory $lo)" -gt 0 ]
	# fewer columns at once come before fewer weights
	[ "$(plan streamed --memory $((hi - 1)))" -eq 0 ]
	[ "$(plan buffers --memory $((hi - 1)))" -lt "$(plan buffers)" ]
	# the tied embedding of this model is used whole in every step
	[ "$(plan streamed --memory $lo)" -eq "$(($(plan weights) -
	    $(plan kept --memory $lo)))" ]
}

@test "memory: less than the least is refused, with the size that would do" {
	lo=$(least)
	run_split pico-generate --memory $((lo - 1)) p
	expect_error 1 "memory of $((lo - 1)) bytes is too little, at least $lo are needed: KV cache"
	pico-generate --memory $lo -n 3 p >/dev/null
	run_split pico-inspect --plan --memory $((lo - 1))
	expect_error 1 "at least $lo are needed"
	run_split pico-inspect --plan --memory 1 -j 100 -c 100000
	expect_error 1 'at least [0-9]{10,} are needed'
	for bad in 0 1.5 -1 12X '' maximal; do
		run_split pico-generate --memory "$bad" p
		expect_error 2 '^pico-generate: option --memory: '
	done
}

@test "memory: the environment tells, the option tells better" {
	lo=$(least)
	PICO_MEMORY=$((lo - 1)) run_split pico-forward p
	expect_error 1 "at least $lo are needed"
	PICO_MEMORY=$((lo - 1)) run_split pico-inspect --plan
	expect_error 1 "at least $lo are needed"
	PICO_MEMORY=$((lo - 1)) pico-forward --memory $lo p >a
	PICO_MEMORY= pico-forward --memory max p | cmp a -
	PICO_MEMORY=x run_split pico-forward p
	expect_error 2 "^pico-forward: PICO_MEMORY: 'x' is not a size"
}

@test "memory: the same logits with any part of the weights kept" {
	for m in $MODEL $DATA/arch/*.gguf; do
		n=$(pico-inspect --json $m | jq '.tensors[] |
		    select(.name == "token_embd.weight") | .shape[1]')
		awk -v n=$n 'BEGIN { for (i = 0; i < 40; i++)
			printf "%d ", (i * 7919) % n; print "" }' >q
		o="-m $m -c 64 -a"
		pico-forward $o --memory max q >want || continue
		lo=$(least -m $m -c 64 --chunk 16)
		hi=$(whole -m $m -c 64 --chunk 16)
		for i in 0 1 3 7 9 10; do
			size=$((lo + (hi - lo) * i / 10))
			pico-forward $o --chunk 16 --memory $size q >got
			cmp want got || { echo "$m $size"; false; }
		done
		pico-forward $o --chunk 3 -t 3 --memory $lo q >got
		cmp want got
	done
}

@test "memory: the same tokens in a batch, in a session, with a cache file" {
	lo=$(least -j 3)
	printf '1 5 9\n7 8\n1 5 9 200 300\n' >q
	pico-generate -n 20 -j 3 --memory max q >want
	pico-generate -n 20 -j 3 --memory $lo q | cmp want -
	pico-generate -n 20 --memory max --session q >want
	pico-generate -n 20 --memory $lo --session q | cmp want -
	pico-generate -n 20 --memory max p >want
	pico-generate -n 20 --memory $lo --kv c p | cmp want -
	# written without a limit, read with one, and the other way round
	pico-generate -n 20 --memory max --kv c p | cmp want -
	rm c
	pico-generate -n 20 --memory max --kv c p | cmp want -
	cp $MODEL other.gguf	# the same model, hashed again
	pico-generate -m other.gguf -n 20 --memory $lo --kv c -v p 2>v |
	    cmp want -
	grep -q '^reused:' v
}

@test "memory: -v tells the plan and what was read" {
	lo=$(least)
	pico-generate -n 9 --memory $lo -v p 2>v >/dev/null
	grep -qE "^limit:	$lo bytes, $(whole) would hold all$" v
	grep -qx "kept:	$(plan kept --memory $lo) bytes of weights" v
	grep -qE "^streamed:	$(plan streamed --memory $lo) bytes a pass, " v
	pico-generate -n 9 --memory max -v p 2>v >/dev/null
	! grep -qE '^(limit|kept|streamed):' v
}
