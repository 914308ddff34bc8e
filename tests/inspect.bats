# pico-inspect: listings against the descriptions of valid files, refusals of
# broken ones, and each of its views.

load helper

TINY=$DATA/gguf/valid/tiny_llama.gguf

# Little-endian numbers for files made by hand.
u32() {
	printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 & 255)) \
	    $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)))"
}
u64() {
	u32 "$1"
	u32 0
}
str() {
	u64 ${#1}
	printf %s "$1"
}
# header KEYS TENSORS
header() {
	printf GGUF
	u32 3
	u64 "$2"
	u64 "$1"
}
# f32_file HEX...: one tensor 'w' of that many values, little-endian hex each.
f32_file() {
	local v
	header 0 1
	str w
	u32 1
	u64 $#
	u32 0
	u64 0
	printf '\0\0\0\0\0\0\0'	# to a multiple of 32
	for v; do
		printf "\\x${v:0:2}\\x${v:2:2}\\x${v:4:2}\\x${v:6:2}"
	done
}

crc32() {
	gzip -c | tail -c 8 | od -An -N4 -tx4 | tr -d ' '
}

# Compares what --json and --raw say with NAME.json and NAME.lst.
check_valid() {
	local f=$1 base=${1%.gguf} name crc kind
	pico-inspect --json -a --alone "$f" | jq -S '{version, alignment,
	    kv_count: .files[0].kv_count, tensor_count: .files[0].tensor_count,
	    file_size: .files[0].size, data_offset: .files[0].data_offset,
	    kv: [.kv[] | del(.offset, .bytes)],
	    tensors: [.tensors[] | {name, type, type_id, dims, offset,
	        nbytes: .bytes}]}' >"$BATS_TEST_TMPDIR/got"
	jq -S '{version, alignment, kv_count, tensor_count, file_size,
	    data_offset, kv, tensors: [.tensors[] | del(.crc32)]}' \
	    "$base.json" >"$BATS_TEST_TMPDIR/want"
	diff "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got"

	# the text listing: names, types and numbers of the .lst file
	pico-inspect --alone "$f" >"$BATS_TEST_TMPDIR/list"
	awk -F'\t' '
	    $1 == "tensor" { print $2 "\t" $3 "\t" $4 "\t" $5 "\t" $6 }
	    $1 == "kv" && $3 == "arr" { print $2 "\t" $4 "[" $5 "]" }
	    $1 == "kv" && $3 != "arr" { print $2 "\t" $3 }' \
	    "$base.lst" >"$BATS_TEST_TMPDIR/want"
	awk -F'\t' '
	    $0 == "" { part++; next }
	    NF == 3 && part == 1 { print $1 "\t" $2 }
	    NF == 5 && $3 !~ /values$/ { print }' \
	    "$BATS_TEST_TMPDIR/list" >"$BATS_TEST_TMPDIR/got"
	diff "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got"

	while IFS="$(printf '\t')" read -r kind name _ _ _ _ crc; do
		[ "$kind" = tensor ] || continue
		[ "$(pico-inspect --alone --raw "$name" "$f" | crc32)" = "$crc" ]
	done <"$base.lst"
}

check_valid_dir() {
	local f n=0
	for f in "$1"/*.gguf; do
		case $f in *big_endian*) continue ;; esac
		check_valid "$f" || { echo "$f differs"; return 1; }
		n=$((n + 1))
	done
	[ "$n" -ge "$2" ]
}

@test "valid files are listed exactly" {
	check_valid_dir "$DATA/gguf/valid" 13
}

@test "all valid files of the conformance set are listed exactly" {
	need_shared
	check_valid_dir "$SHARED/conformance/gguf/valid" 19
}

@test "a big-endian file is refused by name" {
	{ printf 'GGUF\0\0\0\3'; head -c 16 /dev/zero; } \
	    >"$BATS_TEST_TMPDIR/big.gguf"
	run_split pico-inspect "$BATS_TEST_TMPDIR/big.gguf"
	expect_error 1 'big.gguf. is a big-endian file'
}

# check_malformed_dir DIR: each broken container is refused in one line that
# names the field in which the list of cases says the fault is.
check_malformed_dir() {
	local file level expect field n=0 limit=50000
	# a sanitizer wants terabytes of addresses
	! grep -q '__[am]san_init' "$BUILD_DIR/bin/pico-inspect" || limit=unlimited
	while IFS="$(printf '\t')" read -r file level expect field _; do
		[ "$level" = container ] && [ "$expect" = reject ] || continue
		case $field in
		magic) field='is not a GGUF file: ' ;;
		value) field="key '.*' at offset" ;;
		'tensor data') field="tensor '.*' needs bytes up to" ;;
		esac
		run_split bash -c 'ulimit -v "$1" && pico-inspect "$2"' - \
		    "$limit" "$1/$file"
		[ "$status" -eq 1 ] || { echo "$file: $status"; return 1; }
		one_line "^pico-inspect: '.*$file'.*$field" || return 1
		n=$((n + 1))
	done <"$1/MANIFEST.tsv"
	[ "$n" -ge 50 ]
}

@test "broken containers are refused in one line that names the field" {
	check_malformed_dir "$DATA/gguf/malformed"
}

@test "so are all of the conformance set" {
	need_shared
	check_malformed_dir "$SHARED/conformance/gguf/malformed"
}

@test "files whose fault is not in the container can be listed" {
	local file level
	need_shared
	while IFS="$(printf '\t')" read -r file level _; do
		case $level in model | tokenizer) ;; *) continue ;; esac
		pico-inspect "$SHARED/conformance/gguf/malformed/$file" \
		    >"$BATS_TEST_TMPDIR/out"
		[ -s "$BATS_TEST_TMPDIR/out" ]
	done <"$SHARED/conformance/gguf/malformed/MANIFEST.tsv"
}

@test "files cut at every byte are refused, never a crash" {
	local n size
	size=$(wc -c <"$DATA/gguf/valid/v3_tensor_order.gguf")
	for n in $(seq 0 $((size - 40))); do
		head -c "$n" "$DATA/gguf/valid/v3_tensor_order.gguf" \
		    >"$BATS_TEST_TMPDIR/cut.gguf"
		run_split pico-inspect "$BATS_TEST_TMPDIR/cut.gguf"
		[ "$status" -eq 1 ] || { echo "$n: $status"; return 1; }
		one_line "cut.gguf'"
	done
}

@test "what is no GGUF file is called what it is" {
	cd "$BATS_TEST_TMPDIR"
	printf '<!doctype html>\n<html></html>\n' >html.gguf
	run_split pico-inspect html.gguf
	expect_error 1 "^pico-inspect: 'html.gguf' is not a GGUF file: it begins with '<!doctype'\$"
	printf '\n <html lang="en">' >html.gguf
	run_split pico-inspect html.gguf
	expect_error 1 "is not a GGUF file: it begins with '<html'"
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' >l
	run_split pico-inspect l
	expect_error 1 "'l' is not a GGUF file: it is a Git LFS pointer"
	printf 'tjgg\1\0\0\0' >old
	run_split pico-inspect old
	expect_error 1 'it has the old format ggjt'
	printf 'PK\3\4' >zip
	run_split pico-inspect zip
	expect_error 1 'it is a zip archive'
	printf '\10\0\0\0\0\0\0\0{"a":1}' >safe
	run_split pico-inspect safe
	expect_error 1 'it is a safetensors file'
	printf '\1\2\377' >bin
	run_split pico-inspect bin
	expect_error 1 "it begins with '.x01.x02.xff'"
	run_split pico-inspect .
	expect_error 1 "'\\.' is a directory"
	run_split pico-inspect missing.gguf
	expect_error 1 "cannot open 'missing.gguf': No such file"
}

@test "the summary says what the model is" {
	run_split pico-inspect "$TINY"
	[ "$status" -eq 0 ] && [ -z "$stderr" ]
	for want in 'architecture: llama' 'file type: Q8_0' \
	    'parameters: 18624' 'context: 64' 'layers: 1' 'heads: 2' \
	    'kv heads: 1' 'tokenizer: llama' 'vocabulary: 291' \
	    'size: 28032 bytes, 8.62 bits per weight'; do
		printf %s "$output" | tr '\t' ' ' | grep -qx "$want"
	done
	printf %s "$output" | grep -qx \
	    "total:	11 tensors	18624 values	20070 bytes	8.62113 bits each"
	[ "$(printf %s "$output" | sed '/^$/q' | wc -l)" -lt 24 ]
}

@test "-k prints one value and nothing else" {
	[ "$(pico-inspect -k llama.context_length "$TINY")" = 64 ]
	[ "$(pico-inspect --key general.name "$TINY" | od -An -c | tr -d ' ')" \
	    = tinyfixture ]
	[ "$(pico-inspect -k tokenizer.ggml.add_bos_token "$TINY")" = true ]
	pico-inspect -k tokenizer.ggml.tokens "$TINY" >"$BATS_TEST_TMPDIR/t"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/t")" -eq 291 ]
	[ "$(sed -n 2p "$BATS_TEST_TMPDIR/t")" = '<s>' ]
	run_split pico-inspect -k no.such "$TINY"
	expect_error 1 "tiny_llama.gguf': there is no key 'no.such'"
}

@test "arrays and strings are shortened, with -a they are whole" {
	pico-inspect "$TINY" | grep -q '^tokenizer.ggml.scores.*, \.\.\.\]$'
	pico-inspect -a "$TINY" | grep '^tokenizer.ggml.scores' |
	    awk -F, '{ exit NF != 291 }'
	[ "$(pico-inspect --json "$TINY" | jq -c '.kv[] |
	    select(.key == "tokenizer.ggml.tokens") |
	    [.n, .shown, (.value | length)]')" = '[291,8,8]' ]
	{ header 1 0; str k; u32 8; str "$(printf 'ä%.0s' {1..99})"; } \
	    >"$BATS_TEST_TMPDIR/long"
	pico-inspect "$BATS_TEST_TMPDIR/long" | grep -q 'ää\.\.\. (198 bytes)$'
	[ "$(pico-inspect -a "$BATS_TEST_TMPDIR/long" | grep -c 'bytes)$')" = 0 ]
}

@test "--json is valid JSON, whatever the bytes" {
	{
		header 4 0
		str nan; u32 6; printf '\0\0\300\177'
		str ninf; u32 12; printf '\0\0\0\0\0\0\360\377'
		str ctl; u32 8; u64 6; printf '\1\033"\\\177\n'
		u64 2; printf 'k\377'; u32 8; u64 3; printf '\355\240\200'
	} >"$BATS_TEST_TMPDIR/odd.gguf"
	[ "$(pico-inspect --json "$BATS_TEST_TMPDIR/odd.gguf" |
	    jq -c '[.kv[] | [.key, .value]]')" = \
	    '[["nan","nan"],["ninf","-inf"],["ctl","\u0001\u001b\"\\\u007f\n"],[{"hex":"6bff"},{"hex":"eda080"}]]' ]
	pico-inspect --json "$TINY" |
	    jq -e -r '.tensors[] | [.name, .type, .bytes] | @tsv' |
	    grep -qx 'blk.0.attn_k.weight	Q8_0	544'
}

@test "a broken file is shown up to the fault, then exit 1" {
	local f=$DATA/gguf/malformed/dup_key.gguf
	run_split pico-inspect "$f"
	[ "$status" -eq 1 ]
	[ "$(printf %s "$output" | grep -c '^x.u32	u32')" -eq 2 ]
	one_line "key 'x.u32' occurs twice"

	{ header 3 0; str a; u32 4; u32 7; str b; u32 99; head -c 20 /dev/zero; } \
	    >"$BATS_TEST_TMPDIR/mid.gguf"
	run_split pico-inspect "$BATS_TEST_TMPDIR/mid.gguf"
	[ "$status" -eq 1 ]
	printf %s "$output" | grep -qx 'a	u32	7'
	one_line "key 'b' at offset 41: value type 99 is unknown"
	run_split pico-inspect --json "$BATS_TEST_TMPDIR/mid.gguf"
	[ "$status" -eq 1 ]
	[ "$(printf %s "$output" | jq -r '.kv[0].key, .error' | grep -c 'a\|99')" \
	    -eq 2 ]
	run_split pico-inspect -k a "$BATS_TEST_TMPDIR/mid.gguf"
	[ "$status" -eq 1 ] && [ "$output" = '7
' ]

	# a download that stopped: the tensor, its end, the size
	head -c 20000 "$TINY" >"$BATS_TEST_TMPDIR/cut.gguf"
	run_split pico-inspect "$BATS_TEST_TMPDIR/cut.gguf"
	[ "$status" -eq 1 ]
	printf %s "$output" | grep -q '^blk.0.ffn_down.weight'
	one_line "cut.gguf': tensor 'blk.0.attn_v.weight' needs bytes up to 20288, file has 20000"
}

@test "- reads a header, and no more than it needs" {
	pico-inspect - <"$TINY" >"$BATS_TEST_TMPDIR/whole"
	head -c 8000 "$TINY" | pico-inspect - >"$BATS_TEST_TMPDIR/cut"
	cmp "$BATS_TEST_TMPDIR/whole" "$BATS_TEST_TMPDIR/cut"
	pico-inspect "$TINY" | cmp - "$BATS_TEST_TMPDIR/cut"
	{ cat "$TINY"; yes; } | pico-inspect - | cmp - "$BATS_TEST_TMPDIR/cut"
	[ "$(pico-inspect --vocab - <"$TINY" | wc -l)" -eq 291 ]
	run_split bash -c "head -c 2000 '$TINY' | pico-inspect -"
	[ "$status" -eq 1 ]
	one_line '^pico-inspect: standard input: key .tokenizer.ggml.tokens. at offset .*: array'
	for view in --stats --check '--dump w' '--raw w'; do
		run_split bash -c "pico-inspect $view - <'$TINY' | cat
		    exit \${PIPESTATUS[0]}"
		expect_error 1 'needs the tensor data'
	done
}

@test "a header of many megabytes comes through a pipe" {
	{
		header 1 0
		str pad; u32 9; u32 0; u64 3000000
		head -c 3000000 /dev/zero
	} >"$BATS_TEST_TMPDIR/big"
	pico-inspect - <"$BATS_TEST_TMPDIR/big" | grep -q '^pad	u8\[3000000\]'
}

@test "--diffable shows only what differs in meaning" {
	local d=$BATS_TEST_TMPDIR
	{ header 2 0; str a; u32 4; u32 1; str b; u32 4; u32 2; } >"$d/1"
	{ header 2 0; str b; u32 4; u32 2; str a; u32 4; u32 1; } >"$d/2"
	{ header 2 0; str b; u32 4; u32 3; str a; u32 4; u32 1; } >"$d/3"
	cmp <(pico-inspect --diffable "$d/1") <(pico-inspect --diffable "$d/2")
	[ "$(diff <(pico-inspect --diffable "$d/1") \
	    <(pico-inspect --diffable "$d/3") | grep -c '^[<>]')" -eq 2 ]
	pico-inspect --diffable "$TINY" |
	    grep -qx 'tokenizer.ggml.tokens\[1\]	<s>'
	pico-inspect --diffable "$TINY" |
	    grep -qx 'tensor	token_embd.weight	Q8_0	32x291'
}

@test "--offsets are right for dd" {
	local f=$BATS_TEST_TMPDIR/m.gguf at n
	cp "$TINY" "$f"
	chmod u+w "$f"
	read -r at n < <(pico-inspect --offsets "$f" |
	    awk -F'\t' '$1 == "general.name" { print $2, $3 }')
	[ "$n" -eq 12 ]
	printf 'TINY FIXTURE' | dd of="$f" bs=1 seek="$at" conv=notrunc \
	    2>/dev/null
	[ "$(pico-inspect -k general.name "$f")" = 'TINY FIXTURE' ]
	read -r at n < <(pico-inspect --offsets "$f" |
	    awk -F'\t' '$1 == "llama.context_length" { print $2, $3 }')
	[ "$n" -eq 4 ]
	[ "$(tail -c +$((at + 1)) "$f" | od -An -N4 -tu4)" -eq 64 ]
}

@test "--vocab is a table: id, type, score, text" {
	pico-inspect --vocab "$TINY" >"$BATS_TEST_TMPDIR/v"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/v")" -eq 291 ]
	[ "$(awk -F'\t' 'NF != 4' "$BATS_TEST_TMPDIR/v" | wc -l)" -eq 0 ]
	[ "$(head -n 4 "$BATS_TEST_TMPDIR/v")" = "0	unknown	0	<unk>
1	control	0	<s>
2	control	0	</s>
3	byte	0	<0x00>" ]
	run_split pico-inspect --vocab "$DATA/gguf/valid/v3_no_kv.gguf"
	expect_error 1 "there is no key 'tokenizer.ggml.tokens'"
}

@test "--stats counts NaN and infinite values, and then fails" {
	local d=$BATS_TEST_TMPDIR
	# 1, -2, 2, 3
	f32_file 0000803f 000000c0 00000040 00004040 >"$d/good.gguf"
	[ "$(pico-inspect --stats "$d/good.gguf")" = \
	    'w	F32	4	-2	3	1	2.12132034	0	0' ]
	# 1, NaN, -inf, 2
	f32_file 0000803f 0000c07f 000080ff 00000040 >"$d/bad.gguf"
	run_split pico-inspect --stats "$d/bad.gguf"
	[ "$status" -eq 1 ]
	[ "$output" = 'w	F32	4	1	2	1.5	1.58113883	1	1
' ]
	one_line "bad.gguf': 1 of 1 tensors have NaN or infinite values"
	run_split pico-inspect --check "$d/bad.gguf"
	[ "$status" -eq 1 ]
	[ "$output" = 'w	F32	1 of 4 values are NaN, 1 infinite
' ]
	[ -z "$(pico-inspect --check "$d/good.gguf")" ]
}

@test "--stats takes names of tensors beside files" {
	[ "$(pico-inspect --stats "$TINY" | wc -l)" -eq 11 ]
	[ "$(pico-inspect --stats blk.0.attn_q.weight "$TINY" |
	    cut -f 1-3)" = 'blk.0.attn_q.weight	Q8_0	1024' ]
	run_split pico-inspect --stats no.such "$TINY"
	expect_error 1 "there is no tensor 'no.such'"
}

@test "--check finds a block with a broken scale" {
	local f=$BATS_TEST_TMPDIR/m.gguf at
	cp "$TINY" "$f"
	chmod u+w "$f"
	pico-inspect --check "$f"
	at=$(pico-inspect --json "$f" | jq '.files[0].data_offset +
	    (.tensors[] | select(.name == "blk.0.attn_k.weight") | .offset)')
	printf '\0\374' | dd of="$f" bs=1 seek=$((at + 34 * 3)) conv=notrunc \
	    2>/dev/null
	run_split pico-inspect --check "$f"
	[ "$status" -eq 1 ]
	[ "$output" = 'blk.0.attn_k.weight	Q8_0	1 of 16 blocks have a scale that is NaN or infinite, the first is block 3
' ]
}

@test "--dump writes float32" {
	f32_file 0000803f 000000c0 00000040 00004040 >"$BATS_TEST_TMPDIR/m"
	[ "$(pico-inspect --dump w "$BATS_TEST_TMPDIR/m" | od -An -tx1 |
	    tr -d ' \n')" = 0000803f000000c00000004000004040 ]
	[ "$(pico-inspect --dump blk.0.ffn_up.weight "$TINY" | wc -c)" -eq 8192 ]
	run_split pico-inspect --dump nothing "$TINY"
	expect_error 1 "there is no tensor 'nothing'"
}

@test "--dump gives the values of every type" {
	local type n=0 c
	need_shared
	c=$SHARED/conformance/gguf/valid/v3_all_types
	for type in $(jq -r '.tensors[].name' "$c.json"); do
		[ "$(pico-inspect --dump "$type" "$c.gguf" | wc -c)" -eq \
		    "$(jq --arg t "$type" '.tensors[] | select(.name == $t) |
		    .dims | reduce .[] as $d (4; . * $d)' "$c.json")" ]
		n=$((n + 1))
	done
	[ "$n" -eq 13 ]
}

@test "a split model is read as one" {
	local first=$DATA/gguf/valid/split3-00001-of-00003.gguf
	diff <(pico-inspect --json "$TINY" | jq -S '[.tensors[] | .name,
	    .dims, .type]') <(pico-inspect --json "$first" |
	    jq -S '[.tensors[] | .name, .dims, .type]')
	[ "$(pico-inspect --json "$first" | jq -c '[.tensors[].shard] | unique,
	    length')" = '[1,2]
11' ]
	# each tensor comes from its own file
	cmp <(pico-inspect --raw blk.0.ffn_up.weight "$first") \
	    <(pico-inspect --raw blk.0.ffn_up.weight "$TINY")
	pico-inspect "$first" | grep -q 'alignment 32, 3 files$'
	run_split pico-inspect -k split.no \
	    "$DATA/gguf/valid/split3-00002-of-00003.gguf"
	[ "$status" -eq 1 ]
	one_line "is file 2 of 3 of a split model: open the first, '.*split3-00001-of-00003.gguf'"
	[ "$(pico-inspect --alone -k split.no \
	    "$DATA/gguf/valid/split3-00002-of-00003.gguf")" = 1 ]
}

@test "a split model with a wrong, a renamed or a missing part is refused" {
	local d=$BATS_TEST_TMPDIR v=$DATA/gguf/valid
	cp "$v/split3-00001-of-00003.gguf" "$v/split3-00002-of-00003.gguf" "$d"
	run_split pico-inspect --json "$d/split3-00001-of-00003.gguf"
	[ "$status" -eq 1 ]
	one_line "cannot open '.*split3-00003-of-00003.gguf': No such file"
	cp "$v/split3-00002-of-00003.gguf" "$d/split3-00003-of-00003.gguf"
	run_split pico-inspect "$d/split3-00001-of-00003.gguf"
	[ "$status" -eq 1 ]
	one_line "00003-of-00003.gguf': key 'split.no' is 1 of .*, should be 2"
	cp "$v/split3-00001-of-00003.gguf" "$d/other.gguf"
	run_split pico-inspect "$d/other.gguf"
	[ "$status" -eq 1 ]
	one_line "name should end in '-00001-of-00003.gguf'"
}

@test "several files have headings, and one that fails does not stop the rest" {
	run_split pico-inspect "$DATA/gguf/malformed/empty.gguf" "$TINY"
	[ "$status" -eq 1 ]
	[ "$(printf %s "$output" | grep -c '^file: ')" -eq 2 ]
	printf %s "$output" | grep -q '^vocabulary:	291'
	one_line 'it is empty'
	[ "$(pico-inspect "$TINY" | grep -c '^file: ')" -eq 0 ]
}

@test "without an operand it is the model of -m or PICO_MODEL" {
	[ "$(pico-inspect -m "$TINY" -k general.architecture)" = llama ]
	[ "$(PICO_MODEL=$TINY pico-inspect -k general.architecture)" = llama ]
}

@test "usage errors are exit 2, failed writes exit 1" {
	run_split pico-inspect --json --vocab "$TINY"
	expect_error 2 'only one of --json'
	run_split pico-inspect --no-such "$TINY"
	expect_error 2 "unknown option '--no-such'"
	[ ! -e /dev/full ] || {
		run_split bash -c "pico-inspect '$TINY' >/dev/full"
		expect_error 1 'write error on standard output'
	}
}

@test "names with control bytes do not reach the terminal raw" {
	{ header 1 0; u64 3; printf '\033[m'; u32 0; printf '\7'; } \
	    >"$BATS_TEST_TMPDIR/esc"
	run_split pico-inspect "$BATS_TEST_TMPDIR/esc"
	[ "$status" -eq 0 ]
	printf %s "$output" | grep -qxF '\x1b[m	u8	7'
}

@test "inspect: --plan counts a cache of q8_0 in whole blocks" {
	# 34 bytes for 32 numbers; f16 has 64
	f16=$(pico-inspect --plan | awk '$1 == "kv" {print $2}')
	q8=$(pico-inspect --plan --kv-type q8_0 | awk '$1 == "kv" {print $2}')
	[ $((q8 * 64)) -eq $((f16 * 34)) ]
}
