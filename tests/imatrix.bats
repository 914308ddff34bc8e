# SPDX-License-Identifier: MIT
# Importance matrices: pico-forward --imatrix makes them, pico-quantize --imatrix
# reads them in both forms.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	printf '%s\n' 'Once upon a time' 'The cat sat on the mat.' \
	    'A cow says moo.' >text
	pico-tokenize -l text >ids
}

# values FILE TENSOR: as lines
values() {
	pico-inspect --dump "$2" "$1" | od -An -v -tfF -w4 | tr -d ' '
}

@test 'imatrix: what matrices meet, and how often' {
	run_split pico-forward --imatrix im.gguf ids
	[ "$status" -eq 0 ] && [ -z "$output$stderr" ]
	[ "$(pico-inspect -k general.type im.gguf)" = imatrix ]
	[ "$(pico-inspect -k imatrix.chunk_count im.gguf)" = 3 ]
	[ "$(pico-inspect -k imatrix.datasets im.gguf)" = ids ]
	n=$(wc -w <ids)
	for t in blk.0.attn_q blk.3.ffn_down token_embd; do
		[ "$(values im.gguf $t.weight.counts)" = "$n" ]
	done
	# the three meet the same rows
	values im.gguf blk.1.attn_q.weight.in_sum2 >q
	[ "$(wc -l <q)" -eq 256 ]
	values im.gguf blk.1.attn_k.weight.in_sum2 | cmp q -
	values im.gguf blk.1.attn_v.weight.in_sum2 | cmp q -
	pico-inspect --check im.gguf
}

@test 'imatrix: the same bytes, however it is computed' {
	pico-forward --imatrix want.gguf ids
	i=0
	for o in '-t 1' '-t 3' '--chunk 2' '-j 3' '--memory 8M' \
	    '-j 2 --chunk 3 -t 2'; do
		# shellcheck disable=SC2086
		pico-forward -q $o --imatrix got.gguf ids
		cmp want.gguf got.gguf
		rm got.gguf
	done
	PICO_CPU=scalar pico-forward --imatrix got.gguf ids
	cmp want.gguf got.gguf
}

@test 'imatrix: runs add up' {
	pico-forward --imatrix all.gguf ids
	head -n 1 ids | pico-forward --imatrix sum.gguf
	tail -n 2 ids | pico-forward --imatrix sum.gguf
	[ "$(pico-inspect -k imatrix.chunk_count sum.gguf)" = 3 ]
	t=blk.2.ffn_down.weight
	[ "$(values sum.gguf $t.counts)" = "$(values all.gguf $t.counts)" ]
	paste <(values sum.gguf $t.in_sum2) <(values all.gguf $t.in_sum2) |
	    awk '{ d = $1 - $2; if (d * d > 1e-10 * $2 * $2) exit 1 }'
}

@test 'imatrix: models of all kinds; experts count by themselves' {
	for m in "$DATA"/arch/*.gguf; do
		name=$(basename "$m" .gguf)
		tr ' ' '\n' <"$DATA/arch/$name.tokens" | head -n 8 |
		    tr '\n' ' ' >few
		rm -f im.gguf
		pico-forward -m "$m" --imatrix im.gguf few
		pico-inspect --check im.gguf
		pico-quantize -q --requantize --imatrix im.gguf "$m" out.gguf \
		    Q4_0
		pico-forward -m out.gguf few >/dev/null
	done
	m=$DATA/arch/mixtral.gguf
	rm im.gguf
	tr ' ' '\n' <"$DATA/arch/mixtral.tokens" | head -n 8 | tr '\n' ' ' >few
	pico-forward -m "$m" --imatrix im.gguf few
	used=$(pico-inspect -k llama.expert_used_count "$m")
	[ "$(values im.gguf blk.0.ffn_down_exps.weight.counts |
	    awk '{ s += $1 } END { print s }')" -eq \
	    $((used * $(wc -w <few))) ]
}

@test 'imatrix: it changes what it should' {
	pico-forward --imatrix im.gguf ids
	pico-quantize --requantize "$MODEL" plain.gguf Q3_K_S
	pico-quantize --requantize --imatrix im.gguf "$MODEL" with.gguf Q3_K_S
	run cmp -s plain.gguf with.gguf
	[ "$status" -eq 1 ]
	[ "$(pico-inspect -k quantize.imatrix.file with.gguf)" = im.gguf ]
	[ "$(pico-inspect -k quantize.imatrix.dataset with.gguf)" = ids ]
	[ "$(pico-inspect -k quantize.imatrix.chunks_count with.gguf)" = 3 ]
	[ "$(pico-inspect -k quantize.imatrix.entries_count with.gguf)" = 29 ]
	pico-quantize -t 1 --requantize --imatrix im.gguf "$MODEL" one.gguf Q3_K_S
	cmp with.gguf one.gguf
	# not the rows of tokens, which are looked up
	for o in '' '--imatrix im.gguf'; do
		pico-quantize --requantize --keep 'blk.*' --tensor \
		    token_embd.weight=Q4_0 $o "$MODEL" out.gguf Q4_0
		n=$(pico-inspect out.gguf | awk -F '\t' '$2 ~ /^[FQ]/ { s += $5 }
		    END { print s }')
		[ "$n" -gt 1000000 ]
		tail -c "$n" out.gguf >"data${o:+.with}"
	done
	cmp data data.with
}

# le N: a number of 32 bits
le() {
	printf '%b' "$(printf '\\0%03o\\0%03o\\0%03o\\0%03o' $(($1 & 255)) \
	    $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)))"
}

@test 'imatrix: the older form' {
	name=blk.0.attn_q.weight
	{
		le 1
		le ${#name}
		printf %s $name
		le 2
		le 256
		for i in $(seq 256); do le 1065353216; done	# 1.0
		le 7
		le 4
		printf wiki
	} >old.dat
	run_split pico-quantize --requantize --imatrix old.dat "$MODEL" out.gguf \
	    Q4_0
	[ "$status" -eq 0 ]
	one_line "^pico-quantize: 'old.dat' says nothing about 27 of the tensors$"
	[ "$(pico-inspect -k quantize.imatrix.dataset out.gguf)" = wiki ]
	[ "$(pico-inspect -k quantize.imatrix.chunks_count out.gguf)" = 7 ]
	# cut anywhere, and never a crash
	for n in 0 3 4 7 8 20 30 36 40 1000; do
		head -c $n old.dat >cut.dat
		run_split pico-quantize --requantize --imatrix cut.dat "$MODEL" \
		    no.gguf Q4_0
		expect_error 1 "'cut.dat'"
	done
	# -1.0
	{ head -c 59 old.dat; le 3212836864; tail -c +64 old.dat; } >bad.dat
	run_split pico-quantize --requantize --imatrix bad.dat "$MODEL" no.gguf \
	    Q4_0
	expect_error 1 "importance of tensor 'blk.0.attn_q.weight': value [0-9]+ is -1$"
	{ head -c 27 old.dat; le 4294967294; tail -c +32 old.dat; } >bad.dat
	run_split pico-quantize --requantize --imatrix bad.dat "$MODEL" no.gguf \
	    Q4_0
	expect_error 1 "importance of tensor 'blk.0.attn_q.weight': its count is -2$"
}

@test 'imatrix: what cannot be' {
	pico-forward --imatrix im.gguf ids
	cp im.gguf keep.gguf
	for o in -a -b -T --nll '--top 3' '--kv x'; do
		# shellcheck disable=SC2086
		run_split pico-forward --imatrix im.gguf $o ids
		expect_error 2 'option --imatrix: not with|exclude each other'
	done
	cp "$MODEL" model.gguf
	run_split pico-forward --imatrix model.gguf ids
	expect_error 1 "'model.gguf' is there and is no importance matrix"
	cmp model.gguf "$MODEL"
	run_split pico-quantize --requantize --imatrix "$MODEL" "$MODEL" x.gguf Q4_0
	expect_error 1 "is not an importance matrix: general.type is 'model'"
	"$BUILD_DIR/bench/mkmodel" --shape tiny --embd 512 --layers 2 \
	    --type F16 -o other.gguf
	run_split pico-quantize --imatrix im.gguf other.gguf x.gguf Q4_0
	expect_error 1 "importance of tensor 'blk.0.attn_q.weight' is for 256 columns, it has 512"
	run_split pico-forward -m other.gguf --imatrix im.gguf ids
	expect_error 1 "'im.gguf' is for another model|not in the vocabulary"
	run_split pico-forward --imatrix no/where ids
	expect_error 1 "cannot write 'no/where'"
	echo '1 99999' | run_split pico-forward --imatrix im.gguf
	cmp im.gguf keep.gguf
	[ ! -e x.gguf ]
}
