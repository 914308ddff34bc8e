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
	# only where it is used
	PICO_MEMORY=x run_split pico-inspect --plan
	expect_error 2 "^pico-inspect: PICO_MEMORY: 'x' is not a size"
	PICO_MEMORY=x pico-inspect | cmp - <(pico-inspect)
	PICO_MEMORY=x pico-inspect --json | cmp - <(pico-inspect --json)
	pico-inspect --plan --memory 9m | cmp - <(pico-inspect --plan \
	    --memory 9M)
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

# talk COMMAND ...: runs it on a pipe. `say LINE` gives it a line and waits for
# one of output; `hush` ends its input, and sets $status and $stderr.
talk() {
	mkfifo in out
	"$@" <in >out 2>err &
	pid=$!
	exec 7>in 8<out
}
say() {
	echo "$1" >&7
	read -r -t 60 answer <&8
}
hush() {
	exec 7>&-
	cat <&8 >/dev/null
	exec 8<&-
	status=0
	wait $pid || status=$?
	stderr=$(cat err) output=
	rm in out
}

@test "memory: a model that is cut short, overwritten or replaced meanwhile" {
	for size in max $(least); do
		cp $MODEL m.gguf
		talk pico-generate -m m.gguf -n 3 --temp 0 --memory $size
		say '1 2 3'
		truncate -s 60000 m.gguf
		! say '1 2 4'
		hush
		expect_error 1 "^pico-generate: 'm.gguf' was c(ut short|hanged) while in use"

		cp $MODEL m.gguf
		talk pico-generate -m m.gguf -n 3 --temp 0 --memory $size
		say '1 2 3'
		cat $DATA/arch/mixtral.gguf >m.gguf
		! say '1 2 4'
		hush
		expect_error 1 "^pico-generate: 'm.gguf' was c(ut short|hanged) while in use"

		# another file under the name: the old one is still there
		cp $MODEL m.gguf
		talk pico-generate -m m.gguf -n 3 --temp 0 --memory $size
		say '1 2 3'
		first=$answer
		mv m.gguf old.gguf
		cp $DATA/arch/mixtral.gguf m.gguf
		say '1 2 3'
		[ "$answer" = "$first" ]
		rm old.gguf
		say '1 2 3'
		[ "$answer" = "$first" ]
		hush
		[ $status -eq 0 ] && [ -z "$stderr" ]
	done
}

@test "memory: a model that is touched meanwhile, or cut to nothing" {
	for size in max $(least); do
		cp $MODEL m.gguf
		talk pico-generate -m m.gguf -n 3 --temp 0 --memory $size
		say '1 2 3'
		touch m.gguf
		! say '1 2 4'
		hush
		expect_error 1 "^pico-generate: 'm.gguf' was changed while in use: it has the same size and another time of modification$"
	done
	talk pico-generate -m m.gguf -n 3 --temp 0 --memory $size
	say '1 2 3'
	: >m.gguf
	! say '1 2 4'
	hush
	expect_error 1 "^pico-generate: 'm.gguf' was (changed while in use: it had $(stat -c %s $MODEL) bytes, has 0|cut short while in use, .*)$"
	cp $MODEL m.gguf
	talk pico-generate -m m.gguf -n 3 --temp 0 --memory $size
	say '1 2 3'
	echo >>m.gguf
	! say '1 2 4'
	hush
	expect_error 1 "^pico-generate: 'm.gguf' was changed while in use: it had $(stat -c %s $MODEL) bytes, has $(stat -c %s m.gguf)$"
}

@test "memory: what was made before the model was lost is in the file" {
	o='--temp 0 --ignore-eog -c 64 --shift 4'
	for form in '' -b; do
		pico-generate $o -n 3000 $form p >want
		for size in max $(least -c 64); do
			# until a pause is long enough for some to be made
			for pause in 0.2 0.5 1 2 4; do
				cp $MODEL m.gguf
				pico-generate -m m.gguf $o $form \
				    --memory $size p >got 2>err &
				pid=$!
				sleep $pause
				truncate -s 60000 m.gguf
				status=0
				wait $pid || status=$?
				[ $(stat -c %s got) -le 100 ] || break
			done
			[ $status -eq 1 ] && [ $(wc -l <err) -eq 1 ]
			grep -q "^pico-generate: 'm.gguf' was c" err
			[ $(stat -c %s got) -gt 100 ]
			if [ "$form" ]; then
				[ $(($(stat -c %s got) % 4)) -eq 0 ]
			else	# the last one is whole, too
				printf ' ' >>got
			fi
			n=$(stat -c %s got) most=$(stat -c %s want)
			cmp -n $((n < most ? n : most - 4)) got want
		done
	done
}

@test "memory: a disk that fails" {
	need_preload
	lo=$(least)
	# in the first pass, in a later one, in the last matrix
	for after in 4096 100000 5000000 20000000; do
		run_split env LD_PRELOAD=$BUILD_DIR/tests/preload.so \
		    PRELOAD_FAIL=$after pico-generate --memory $lo -n 100 \
		    --ignore-eog p
		[ $status -eq 1 ]
		one_line "^pico-generate: read error on '.*gguf' at byte [0-9]+: Input/output error$"
		run_split env LD_PRELOAD=$BUILD_DIR/tests/preload.so \
		    PRELOAD_FAIL=$((after / 10)) pico-forward -a --memory $lo \
		    --chunk 1 p
		[ $status -eq 1 ]
		one_line "^pico-forward: read error on '.*gguf' at byte [0-9]+: Input/output error$"
	done
}

@test "memory: rows made before the disk failed are in the file, whole" {
	need_preload
	lo=$(least)
	pico-forward -a --memory max p >want
	pico-forward -a -T --memory max p >want.text
	pico-forward --nll --memory max p >want.nll
	for after in 3000000 6000000 9000000; do
		export PRELOAD_FAIL=$after
		status=0
		o="--memory $lo --chunk 1 p"
		LD_PRELOAD=$BUILD_DIR/tests/preload.so pico-forward -a $o \
		    >got || status=$?
		[ $status -eq 1 ]
		cmp -n $(stat -c %s got) got want
		head=$(pico-forward -a /dev/null | wc -c)
		row=$((($(stat -c %s want) - head - 8) / $(wc -w <p)))
		[ $((($(stat -c %s got) - head) % row)) -eq 0 ]
		rows=$((($(stat -c %s got) - head) / row))
		[ $rows -gt 0 ]
		! LD_PRELOAD=$BUILD_DIR/tests/preload.so pico-forward -aT $o \
		    >got
		head -n $((rows + 1)) want.text | cmp - got
		! LD_PRELOAD=$BUILD_DIR/tests/preload.so pico-forward --nll \
		    $o >got
		head -n $rows want.nll | cmp - got
		unset PRELOAD_FAIL
	done
}

@test "memory: a file system that cannot read past the page cache" {
	need_preload
	pico-forward -a --memory max p >want
	LD_PRELOAD=$BUILD_DIR/tests/preload.so PRELOAD_PLAIN=1 \
	    pico-forward -a --memory $(least) p >got
	cmp want got
}

@test "memory: a warning where each step will be slow" {
	need_preload
	lo=$(least)
	export LD_PRELOAD=$BUILD_DIR/tests/preload.so
	PRELOAD_DELAY=100000 pico-forward --memory $lo p 2>err >/dev/null
	grep -qE "^pico-forward: a step will take [0-9.]+ s: reads [0-9]+ bytes of weights at [0-9.]+ MB/s; memory of [0-9]+ bytes would hold all, this one holds weights of [0-9]+$" err
	[ $(wc -l <err) -eq 1 ]
	PRELOAD_DELAY=100000 pico-forward -q --memory $lo p 2>err >/dev/null
	[ ! -s err ]
	pico-forward --memory $lo p 2>err >/dev/null
	[ ! -s err ]
}

# ---- a real limit ----

# Makes a memory cgroup of $1 bytes, v1 or v2; $group is its directory. Needs
# the right to.
new_group() {
	! grep -qE '__[amt]san_init' "$BUILD_DIR/bin/pico-generate" ||
	    skip 'sanitizers need memory of their own'
	if grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
		group=/sys/fs/cgroup/pico-test.$$ limit=memory.max
	else
		group=/sys/fs/cgroup/memory$(sed -n \
		    's/^[0-9]*:memory:\/*\(.*\)/\/\1/p' /proc/self/cgroup)
		group=${group%/}/pico-test.$$ limit=memory.limit_in_bytes
	fi
	mkdir "$group" 2>/dev/null && [ -w "$group/$limit" ] || {
		rmdir "$group" 2>/dev/null || true
		skip 'needs the right to make memory cgroups'
	}
	echo "$1" >"$group/$limit"
	if [ -w "$group/memory.swap.max" ]; then
		echo 0 >"$group/memory.swap.max"
	fi
}

teardown() {
	local i
	for i in 1 2 3 4 5; do
		[ -d "${group:-}" ] || return 0
		rmdir "$group" 2>/dev/null || sleep 0.2
	done
}

# limited COMMAND ...: runs it there; $anon is the most anonymous memory it was
# seen with, in bytes. Fails if memory was swapped, or its limit was felt.
limited() {
	local kb pid events=$group/memory.events
	(echo $BASHPID >"$group/cgroup.procs" && exec "$@") &
	pid=$!
	anon=0
	while kb=$(awk '/^RssAnon:/ {a = $2} /^VmSwap:/ && $2 > 0 {exit 1}
	    END {print a + 0}' /proc/$pid/status 2>/dev/null); do
		anon=$((kb * 1024 > anon ? kb * 1024 : anon))
		[ $kb -gt 0 ] || kill -0 $pid 2>/dev/null || break
		sleep 0.02
	done
	wait $pid || return
	if [ -e "$events" ]; then
		! grep -E '^(max|oom|oom_kill) [1-9]' "$events"
	else
		[ "$(cat "$group/memory.failcnt")" -eq 0 ]
	fi
}

# number NAME FILE: the first number on the line of a report
number() {
	sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" "$2"
}

# large FILE: a model shaped like TinyLlama, 668 MB, on a disk
large() {
	[ "$(stat -f -c %T .)" != tmpfs ] || skip 'needs a disk'
	[ "$(df -Pk . | awk 'NR == 2 {print $4}')" -gt 1000000 ] ||
	    skip 'needs 1 GB of disk'
	"$BUILD_DIR/bench/mkmodel" -o "$1"
}

# what another group has in the cache does not count for this one
forget() {
	sync "$1"
	dd if="$1" iflag=nocache count=0 status=none
}

@test "memory: 668 MB of weights in groups of 128, 256 and 512 MB" {
	new_group $((256 << 20))
	large m.gguf
	echo 1 300 307 314 321 >p
	o='-m m.gguf -c 2048 --temp 0 -n 6 -v'
	pico-generate $o --memory max p 2>/dev/null >want
	for size in 128 256 512; do
		echo $((size << 20)) >"$group/$limit"
		for kv in f16 q8_0; do
			forget m.gguf
			limited pico-generate $o --kv-type $kv p 2>v >got
			[ $kv != f16 ] || cmp want got
			step=$(sed -n 's/^weights:.* \([0-9]*\) read.*/\1/p' v)
			kept=$(number kept v)
			pass=$(sed -n 's/^memory:.* \([0-9]*\) a pass$/\1/p' v)
			echo "$size $kv: kept $kept, read $pass, anonymous $anon"
			[ $((pass * 100)) -le $(((step - kept) * 105)) ]
			[ $pass -gt $(((step - kept) / 2)) ]
			[ $size -lt 256 ] || [ $kept -ge $((150 << 20)) ]
			# of the KV cache little was used
			[ $anon -le $((16 << 20)) ]
		done
	done
}

@test "memory: in a group, a full context takes what it must" {
	new_group $((512 << 20))
	large m.gguf
	awk 'BEGIN { for (i = 0; i < 2044; i++)
		printf "%d ", (i * 7919) % 32000; print "" }' >p
	forget m.gguf
	limited pico-generate -m m.gguf -c 2048 -t 2 --ignore-eog \
	    --kv-type q8_0 p >got
	[ $(wc -w <got) -eq 4 ]
	# 24.5 MB of KV cache; one of f16 has 46.1 MB
	echo "anonymous $anon"
	[ $anon -le 35000000 ]
}

@test "memory: in a group, a batch shares what is read" {
	new_group $((256 << 20))
	large m.gguf
	for i in 1 2 3 4 5 6 7 8; do echo $i 300 307; done >p
	o='-m m.gguf -c 256 --temp 0 -n 4 --ignore-eog -v'
	pico-generate $o --memory max p 2>/dev/null >want
	forget m.gguf
	limited pico-generate $o p 2>one >got
	cmp want got
	limited pico-generate $o -j 8 p 2>eight >got
	cmp want got
	read_one=$(sed -n 's/^memory:.* \([0-9]*\) bytes read.*/\1/p' one)
	read_eight=$(sed -n 's/^memory:.* \([0-9]*\) bytes read.*/\1/p' eight)
	echo "$read_one $read_eight"
	[ "$read_eight" -gt 0 ] && [ $((read_eight * 7)) -le "$read_one" ]
}

@test "memory: a group that is too small is told at once, and what would do" {
	new_group $((40 << 20))
	large m.gguf
	for o in '' '--kv-type q8_0 -j 2' '--memory 400M -t 4'; do
		o="-m m.gguf -c 2048 -n 2 $o"
		echo $((30 << 20)) >"$group/$limit"
		status=0
		limited pico-generate $o p 2>err >got || status=$?
		[ $status -eq 1 ] && [ ! -s got ]
		grep -qE '^pico-generate: memory of [0-9]+ bytes is too little, at least [0-9]+ are needed \(as the limit of the memory cgroup: [0-9]+\): KV cache ' err
		sed 's/.*cgroup: \([0-9]*\).*/\1/' err >"$group/$limit"
		forget m.gguf
		limited pico-generate $o p >got
	done
	echo $((40 << 20)) >"$group/$limit"
	limited pico-generate -m m.gguf -c 64 -n 1 p >got
}
