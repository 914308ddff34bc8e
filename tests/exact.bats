# The exactness contract: same model, same tokens, same options give the same
# bytes, for any threads, chunks, batches, caches, instruction sets and pipes.
load helper

# The small model that ships has Q4_K weights; the others are Q8_0, a mixture of
# experts, one with sliding windows, one with latent attention, and two that are
# recurrent, in F16.
# EXACT_KINDS names fewer of them.
MODELS=$MODEL
for kind in ${EXACT_KINDS:-llama-q8_0 mixtral gemma3 deepseek2 mamba rwkv6}; do
	MODELS="$MODELS $DATA/arch/$kind.gguf"
done

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# ids SEED N: N token ids that every model here has, on a line.
ids() {
	awk -v s="$1" -v n="$2" 'BEGIN {
		for (; n > 0; n--) {
			s = (s * 16807 + 7) % 2147483647
			printf "%d%s", 3 + s % 280, (n > 1 ? " " : "\n")
		}
	}'
}

# 30 prompts: short and long, equal ones, ones that share a beginning, one that
# is empty.
prompts() {
	awk 'BEGIN {
		for (i = 0; i < 30; i++) {
			n = i % 5 == 4 ? 1 : i % 7 == 3 ? 90 : 5 + i % 11
			if (i == 12)
				n = 0
			for (k = 0; k < n; k++) {
				same = i % 3 == 0 ? 0 : i % 3 == 1 && k < 6 ? 0 : i
				v = (k * 7919 + same * 104729) % 280 + 3
				printf "%s%d", (k > 0 ? " " : ""), v
			}
			print ""
		}
	}'
}

@test "exact: logits for any number of threads and any chunk" {
	ids 1 110 >p
	for m in $MODELS; do
		for kv in f16 f32 q8_0; do
			pico-forward -m $m -a --kv-type $kv -t 1 p >want
			for o in '-t 2' '-t 3' '-t 8' '-t 1 --chunk 1' \
			    '-t 2 --chunk 7' '-t 3 --chunk 64' '--chunk 109' \
			    '-c 128' '-c 4096'; do
				pico-forward -m $m -a --kv-type $kv $o p >got
				cmp want got || { echo "$m $kv $o"; false; }
			done
		done
	done
}

@test "exact: logits for any set of instructions" {
	ids 2 70 >p
	sets=$(PICO_CPU=? pico-forward p 2>&1 >/dev/null |
	    sed 's/.*available: //; s/,//g')
	[[ " $sets " == *' scalar '* ]]
	for m in $MODELS $DATA/arch/llama3-ropefreqs.gguf; do
		PICO_CPU=scalar pico-forward -m $m -a p >want
		for set in '' $sets; do
			PICO_CPU=$set pico-forward -m $m -a p >got
			cmp want got || { echo "$m $set"; false; }
		done
	done
}

@test "exact: logits of a prompt fed line by line in a session" {
	ids 3 60 >p
	for m in $MODELS; do
		pico-forward -m $m -a -T p >want
		tr ' ' '\n' <p | pico-forward -m $m -a -T --session |
		    grep -v '^+$' >got
		cmp want got
		# lines of 1, 2, 3, ... ids
		tr ' ' '\n' <p | awk '{
			printf "%s%s", $0, (++n > k ? "\n" : " ")
			if (n > k) { k++; n = 0 }
		    }' |
		    pico-forward -m $m -a -T --session -t 2 | grep -v '^+$' >got
		cmp want got
		# the last rows of the lines are the rows of the whole
		sed 's/\(\([0-9]* \)\{19\}[0-9]*\) /\1\n/g' p >lines
		[ $(wc -l <lines) -eq 3 ]
		pico-forward -m $m -T --session lines | grep "$(printf '\t')" \
		    >got
		sed -n '21p;41p;61p' want | cmp - got
	done
}

@test "exact: logits with a saved cache, of any length" {
	ids 4 80 >p
	for m in $MODELS; do
		for kv in f16 f32 q8_0; do
			o="-m $m --kv-type $kv"
			pico-forward $o p >want
			pico-forward $o -a p >want-all
			for n in 1 40 79 80; do
				rm -f c
				cut -d' ' -f-$n p | pico-forward $o --kv c >/dev/null
				cp c half
				pico-forward $o --kv c -t 2 p >got
				cmp want got
				cp half c
				pico-forward $o --kv c -a --chunk 9 p >got
				cmp want-all got
			done
			# the cache of another continuation helps as far as it goes
			{ cut -d' ' -f-30 p | tr '\n' ' '; ids 9 30; } >q
			rm -f c
			pico-forward $o --kv c q >/dev/null
			pico-forward $o --kv c p >got
			cmp want got
			pico-forward $o --kv c --session p >s1
			pico-forward $o --session p >s2
			cmp s1 s2
		done
	done
}

@test "exact: generation in batches of any size" {
	prompts >p
	[ $(wc -l <p) -eq 30 ]
	for m in $MODELS; do
		for o in '--temp 0' '-s 7' '-s 8 --repeat-penalty 1.3 \
		    --presence-penalty 0.5 --frequency-penalty 0.1'; do
			o=$(echo "-m $m -c 128 -n 12 $o" | tr -d '\\')
			pico-generate $o -q -t 1 p >want
			[ $(wc -l <want) -eq 30 ]
			for j in '-j 8' '-j 3 -t 3' '-j 32 --chunk 32' \
			    '-j 8 --chunk 8 -t 2'; do
				pico-generate $o $j -q p >got
				cmp want got || { echo "$o $j"; false; }
			done
		done
		pico-generate -m $m -c 128 -n 5 -q -b p >want
		pico-generate -m $m -c 128 -n 5 -q -b -j 8 p >got
		cmp want got
		cat p | pico-generate -m $m -c 128 -n 5 -q -b -j 8 >got
		cmp want got
	done
}

# A cache of 4 MB is an eighth of these weights at most and lies in huge pages
# where the system has them; one of 33 MB is more and does not.
@test "exact: a cache beside which the weights are large, or small" {
	"$BUILD_DIR/bench/mkmodel" -q --shape tinyllama --layers 2 --vocab 4000 \
	    --type Q8_0 -o m.gguf
	for seed in 1 2 3 4 5 6 7 8; do
		ids $seed $((seed * 9))
	done >p
	for kv in f16 f32 q8_0; do
		pico-generate -m m.gguf --kv-type $kv -c 2048 -n 12 -j 1 p >one
		pico-generate -m m.gguf --kv-type $kv -c 2048 -n 12 -j 8 p >many
		cmp one many
		[ "$(wc -l <one)" -eq 8 ]
	done
}

@test "exact: a batch whose sequences end early, by any reason" {
	prompts >p
	o='-n 40 -s 3 -q -b --stop th --stop e. --stop-id 275'
	pico-generate $o -t 1 p >want
	for j in '-j 2' '-j 8 -t 2' '-j 64'; do
		pico-generate $o $j p >got
		cmp want got || { echo "$j"; false; }
	done
	# the echo goes out in order, too
	pico-generate $o -e p >want
	pico-generate $o -e -j 8 p >got
	cmp want got
	# so does what a bad line gives
	{ cat p; echo 5 x 7; ids 5 200; cat p; } >q
	s1=0 s2=0
	pico-generate $o -k -c 128 q >want 2>want.err || s1=$?
	pico-generate $o -k -c 128 -j 7 q >got 2>got.err || s2=$?
	[ "$s1 $s2" = '1 1' ]
	cmp want got
	cmp want.err got.err
	[ $(wc -l <want.err) -eq 2 ]
}

@test "exact: samplers with a history or a state, for any number of jobs" {
	prompts | sed -n '1,20p' >p
	for o in '--mirostat 1 --mirostat-eta 0.5' '--mirostat 2 -s 7' \
	    '--dry 2 --dry-length 1' '--xtc 0.5 --temp-range 0.7' \
	    '--samplers top-n-sigma,temp,mirostat --mirostat 2 --top-n-sigma 2'
	do
		pico-generate -q -n 30 $o -t 1 p >want
		for j in '-j 3' '-j 8 -t 2' '-j 32 --chunk 7'; do
			pico-generate -q -n 30 $o $j p >got
			cmp want got || { echo "$o $j"; false; }
		done
	done
}

@test "exact: a session in pieces draws as one answer does" {
	prompts | sed -n 3p >p
	for o in '-s 1' '--mirostat 1 --mirostat-eta 0.5' '--mirostat 2' \
	    '--dry 2 --dry-length 1' '--xtc 0.5 --temp-range 0.7'; do
		pico-generate $o --ignore-eog -n 30 p >want
		for n in 1 5; do
			{ cat p; yes '' | head -n $((30 / n - 1)); } |
			    pico-generate $o --ignore-eog -n $n --session |
			    paste -sd' ' >got
			cmp want got || { echo "$o -n $n"; false; }
		done
	done
}

@test "exact: each sequence as if it were alone" {
	prompts | sed -n '1,8p' >p
	pico-generate -n 10 --temp 0 -j 8 p >want
	while read -r line; do
		echo "$line" | pico-generate -n 10 --temp 0
	done <p >got
	cmp want got
}

@test "exact: text and binary streams" {
	prompts >p
	pico-generate -n 0 -e -b -q p >p.bin	# the prompts themselves
	[ "$(head -c 4 p.bin | tail -c 3)" = PTK ]
	pico-generate -n 8 -q p >want
	pico-generate -n 8 -q p.bin >got
	cmp want got
	pico-generate -n 8 -q -b p >want.bin
	pico-generate -n 8 -q -b p.bin | cmp want.bin -
	pico-detokenize want >a
	pico-detokenize want.bin >b
	cmp a b
	# the logits in text give the tokens that the logits in binary give
	pico-forward p | pico-sample -s 5 >a
	pico-forward -T p.bin | pico-sample -s 5 >b
	cmp a b
	pico-forward -b p.bin >a
	pico-forward p >b
	cmp a b
}

@test "exact: pico-forward | pico-sample is one step of pico-generate" {
	prompts | grep . >p
	for m in $MODELS; do
		for o in '--temp 0' '-s 1' \
		    '-s 2 --repeat-penalty 1.3 --presence-penalty 0.5' \
		    '-s 3 --typical 0.9 --top-k 0 --temp 1.7 --min-keep 3' \
		    '--logit-bias 5=4 --logit-bias 6=-inf --repeat-last 3' \
		    '--repeat-penalty 2 --repeat-last -1 --temp 0' \
		    '--top-n-sigma 1 --temp-range 0.5 --xtc 0.5 --temp 1.5' \
		    '--samplers temp,xtc,top-p,dry --xtc 1 --dry 3 --dry-length 0' \
		    '--mirostat 1' '--mirostat 2 --mirostat-tau 3'; do
			pico-generate -m $m -c 128 $o -n 1 -t 1 \
			    --ignore-eog p >want
			pico-forward -m $m -c 128 p |
			    pico-sample -m $m $o --ignore-eog >got
			cmp want got || { echo "$m $o"; false; }
			# each row is drawn from, and each draw moves its mu
			case $o in *mirostat*) continue ;; esac
			pico-forward -m $m -c 128 -a p |
			    pico-sample -m $m $o --ignore-eog |
			    awk '{print $NF}' >got
			cmp want got || { echo "$m $o -a"; false; }
		done
	done
}

# loop FORWARD-OPTIONS SAMPLE-OPTIONS <prompts: the ids that come around
loop() {
	rm -f loop
	mkfifo loop
	{ cat; cat loop; } | pico-forward --session $1 |
	    pico-sample $2 | tee loop
}

@test "exact: three programs in a loop are pico-generate" {
	ids 6 12 >p
	for m in $MODELS; do
		for o in '--temp 0' '-s 1' '-s 2 --top-k 0 --temp 1.2' \
		    '-s 3 --repeat-penalty 1.3 --presence-penalty 0.5' \
		    '--temp 0 --repeat-penalty 1.3 --frequency-penalty 0.2' \
		    '--top-n-sigma 1 --temp-range 0.5 --xtc 0.5 --temp 1.5' \
		    '--dry 2 --dry-length 1 --temp 0 --dry-breaker he' \
		    '-s 4 --mirostat 1 --mirostat-eta 0.5' \
		    '-s 5 --mirostat 2 --mirostat-tau 3'; do
			pico-generate -m $m $o -n 40 p >want
			loop "-m $m" "-m $m $o -n 40" <p | tr '\n' ' ' |
			    sed 's/ *$//' >got
			echo >>got
			cmp want got || { echo "$m $o"; false; }
		done
	done
}

@test "exact: the loop ends where pico-generate ends" {
	# at the end of generation
	printf '<|user|>\nWhat does a cow say?</s>\n<|assistant|>\n' |
	    pico-tokenize -Sx >p
	pico-generate --temp 0 p >want
	loop '' '--temp 0' <p | tr '\n' ' ' | sed 's/ *$//' >got
	echo >>got
	cmp want got
	[ $(wc -w <want) -lt 60 ]
	pico-generate --temp 0 --emit-eog p >want
	loop '' '--temp 0 --emit-eog' <p | tr '\n' ' ' | sed 's/ *$//' >got
	echo >>got
	cmp want got
	# at the end of the context
	ids 7 20 >p
	pico-generate -s 4 -c 50 --ignore-eog p >want
	[ $(wc -w <want) -eq 30 ]
	loop '-c 50' '-s 4 --ignore-eog' <p | tr '\n' ' ' | sed 's/ *$//' >got
	echo >>got
	cmp want got
}

@test "exact: the loop and its text, word for word as the manual has it" {
	echo 'Once upon a time' | pico-tokenize >p
	pico-generate -n 50 p | pico-detokenize >want
	loop '' '-n 50' <p | pico-detokenize --session >got
	cmp want got
}

@test "exact: a session goes on as one sequence" {
	for m in $MODELS; do
		for o in '--temp 0' '-s 5' '-s 6 --repeat-penalty 1.2'; do
			o="-m $m $o -n 7 --ignore-eog"
			{ ids 8 9; ids 9 4; ids 10 1; } >p
			pico-generate $o --session p >got
			all=
			while read -r line; do
				all="$all $line"
				new=$(echo $all | pico-generate $o)
				echo "$new"
				all="$all $new"
			done <p >want
			cmp want got || { echo "$o"; false; }
		done
	done
}

@test "exact: generation with a saved cache" {
	ids 11 50 >p
	for m in $MODELS; do
		for o in '--temp 0' '-s 5 --repeat-penalty 1.2'; do
			o="-m $m $o -n 20 --ignore-eog"
			pico-generate $o p >want
			rm -f c
			pico-generate $o --kv c p >got	# makes it
			cmp want got
			pico-generate $o --kv c p >got	# has all but the last
			cmp want got
			paste -d' ' p want >q
			pico-generate $o q >want
			pico-generate $o --kv c q >got	# goes on
			cmp want got
			cut -d' ' -f-33 p >q		# goes back
			pico-generate $o q >want
			pico-generate $o --kv c -t 3 --chunk 5 q >got
			cmp want got
			prompts | sed -n '1,6p' >q	# and several lines
			pico-generate $o q >want
			pico-generate $o --kv c q >got
			cmp want got
			pico-generate $o --session q >want
			pico-generate $o --kv c --session q >got
			cmp want got
		done
	done
}

@test "exact: a cache that pico-generate saved is one for pico-forward" {
	ids 12 30 >p
	pico-generate -n 10 --kv c p >new
	paste -d' ' p new >q
	pico-forward q >want
	pico-forward --kv c -v q >got 2>v
	cmp want got
	grep -q '^prompt:	1 tokens' v
	pico-generate -n 3 q >want
	pico-generate -n 3 --kv c q >got
	cmp want got
}

@test "exact: the same to a file, a pipe and a terminal" {
	command -v script >/dev/null || skip 'needs script(1)'
	ids 13 9 >p
	pico-generate -n 9 p >want
	pico-generate -n 9 p | cat >got
	cmp want got
	script -qec 'pico-generate -n 9 p' /dev/null </dev/null |
	    tr -d '\r' >got
	cmp want got
}
