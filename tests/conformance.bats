# Whole programs against answers from elsewhere: broken models, split sets,
# greedy continuations. The logits of tiny models: tests/unit/test_arch.c.
load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# check_malformed DIR: pico-forward and pico-generate refuse each model in one
# line that names the field where the fault is, with nothing on stdout, in
# little memory.
check_malformed() {
	local file level expect field program n=0 limit=200000
	! grep -q '__[am]san_init' "$BUILD_DIR/bin/pico-forward" || limit=unlimited
	echo 1 2 3 >p
	while IFS="$(printf '\t')" read -r file level expect field _; do
		case $file in '#'*) continue ;; esac
		case $field in
		magic) field='is not a GGUF file: ' ;;
		value) field="key '.*' at offset" ;;
		'tensor data') field="tensor '.*' needs bytes up to" ;;
		split.count) field='cannot open .*00002-of-00002|split.count' ;;
		esac
		for program in pico-forward pico-generate; do
			run_split bash -c 'ulimit -v "$1"; "$2" -t 1 -m "$3" p' \
			    - "$limit" $program "$1/$file"
			case $expect:$status in
			reject:1)
				[ -z "$output" ] &&
				one_line "^$program: .*($field)" || return 1
				;;
			either:0 | either:1) ;;
			part:1) ;;
			*)
				echo "$program $file: $status; $stderr"
				return 1
				;;
			esac
		done
		n=$((n + 1))
	done <"$1/MANIFEST.tsv"
	[ "$n" -ge 50 ]
}

@test "conformance: broken models are refused by the field at fault" {
	check_malformed "$DATA/gguf/malformed"
}

@test "conformance: so are all of the conformance set" {
	need_shared
	check_malformed "$SHARED/conformance/gguf/malformed"
}

@test "conformance: a split set is the model it was cut from" {
	need_shared
	v=$SHARED/conformance/gguf/valid
	echo 1 72 101 108 108 111 3 4 5 290 0 >p
	pico-forward -m $v/tiny_llama.gguf -a p >want
	[ $(wc -c <want) -gt 10000 ]
	pico-forward -m $v/split2-00001-of-00002.gguf -a p | cmp want -
	pico-forward -m $v/split3-00001-of-00003.gguf -a p | cmp want -
	pico-generate -m $v/tiny_llama.gguf -n 20 p >want
	pico-generate -m $v/split2-00001-of-00002.gguf -n 20 p | cmp want -
	pico-generate -m $v/split3-00001-of-00003.gguf -n 20 p | cmp want -
}

# check_greedy DIR: pico-generate continues the first 8 ids as NAME.greedy has
# it, unless the weights are quantized and other engines differ there, too.
check_greedy() {
	local name arch ctx weights same n=0
	while IFS="$(printf '\t')" read -r name arch _ ctx _ weights _ _ _ _ \
	    _ _ _ _ _ same _; do
		[ "$arch" = llama ] || continue
		case $weights:$same in F32:* | F16:* | *:same) ;; *) continue ;; esac
		cut -d' ' -f-8 "$1/$name.tokens" |
		    pico-generate -m "$1/$name.gguf" --temp 0 --ignore-eog \
		    -n 32 -c "$ctx" --kv-type f32 >got
		sed 1q "$1/$name.greedy" | cmp - got || {
			echo "$name"
			return 1
		}
		n=$((n + 1))
	done <"$1/MANIFEST.tsv"
	[ "$n" -ge 3 ]
}

@test "conformance: greedy continuations of tiny models" {
	check_greedy "$DATA/arch"
}

@test "conformance: greedy continuations of all tiny llama models" {
	need_shared
	check_greedy "$SHARED/conformance/arch"
}

# tales PROMPT-IDS OUTPUT-IDS MODEL: the continuation is the expected one, or,
# with quantized weights, leaves it where the two best logits are nearer to
# each other than 0.05.
tales() {
	local got want="$2" k=0 prefix gap
	case " $2 " in *' 2 ') want=${2% 2} ;; esac	# </s> is not written
	got=$(echo "$1" | pico-generate -m "$3" --temp 0 -n 64 -c 512)
	[ "$got" != "$want" ] || return 0
	case $3 in *f32*) echo "want $want"; echo "got  $got"; return 1 ;; esac
	prefix=$(awk -v a="$2" -v b="$got" -v p="$1" 'BEGIN {
		n = split(a, x, " "); split(b, y, " ")
		for (i = 1; i <= n && x[i] == y[i]; i++)
			p = p " " x[i]
		print p
	}')
	gap=$(echo "$prefix" | pico-forward -m "$3" --top 2 |
	    awk 'NR == 1 { l = $5 } NR == 2 { print l - $5 }')
	echo "# ${3##*/}: prompt $1: leaves the path at a gap of $gap" >&3
	awk -v g="$gap" 'BEGIN { exit !(g < 0.05) }'
}

@test "conformance: greedy stories of the model that ships" {
	local prompt want n=0
	while IFS="$(printf '\t')" read -r prompt want; do
		tales "$prompt" "$want" "$MODEL"
		n=$((n + 1))
	done <"$DATA/tales.tsv"
	[ "$n" -eq 6 ]
}

@test "conformance: greedy stories in other weight types" {
	need_shared
	command -v jq >/dev/null || skip 'needs jq'
	local file prompt want n=0
	jq -r '.results | to_entries[] | .key as $k | .value[] |
	    [$k, (.prompt_ids | join(" ")), (.output_ids | join(" "))] | @tsv' \
	    "$SHARED/model/expected.json" >cases
	while IFS="$(printf '\t')" read -r file prompt want; do
		[ -f "$SHARED/model/$file" ] || continue
		tales "$prompt" "$want" "$SHARED/model/$file"
		n=$((n + 1))
	done <cases
	[ "$n" -ge 18 ]
}
