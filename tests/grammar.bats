# SPDX-License-Identifier: MIT
# Output bound to a grammar: pico-generate and pico-sample.
load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	printf '%s\n' 'Once upon a time' 'The cat' 'A dog said' 'In the' |
	    pico-tokenize -l >prompts
	head -n 1 prompts >prompt
	cat >g <<-'END'
	# a frame, and what is free in it
	root ::= ("{\"name\": \"" [A-Z] [a-z]{2,8} "\", \"likes\": ["
	  item (", " item){0,3} "], \"age\": " [1-9] [0-9]? "}")
	item ::= "\"" [a-zé ]{1,20} "\""
	END
}

# The output for the prompt, as text.
text() {
	pico-generate "$@" prompt | pico-detokenize
}

@test "grammar: the output fits, and ends where nothing can follow" {
	for s in 1 2 3; do
		[[ $(text -s $s --grammar-text 'root ::= "yes" | "no"') =~ \
		    ^(yes|no)$ ]]
		text -s $s --temp 1.5 --grammar g | grep -qE '^\{"name": "[A-Z][a-z]{2,8}", "likes": \["[a-zé ]+"(, "[a-zé ]+")*\], "age": [1-9][0-9]?\}$'
	done
	pico-generate -b --grammar-text 'root ::= "a"' prompt |
	    tail -c 4 | cmp - <(printf '\374\377\377\377')
	# where it may end and go on, the model decides; here it may not draw
	# its end
	run_split pico-generate -n 5 --grammar-text 'root ::= [a-z]*' \
	    --logit-bias "$(pico-inspect -k tokenizer.ggml.eos_token_id \
	    "$MODEL" | grep -oE '[0-9]+$')=-inf" prompt
	[ "$status" -eq 0 ]
	[ "$(wc -w <<<"$output")" -eq 5 ]
}

@test "grammar: from a file, a pipe, the command line" {
	a=$(pico-generate --grammar g prompt)
	[ "$a" = "$(pico-generate --grammar-text "$(cat g)" prompt)" ]
	[ "$a" = "$(pico-generate --grammar <(cat g) prompt)" ]
	[ "$a" = "$(pico-generate --grammar - prompt <g)" ]
}

@test "grammar: characters in parts of tokens" {
	[[ $(text --temp 1 -s 3 --grammar-text 'root ::= [一-龥]{2} "😀" [à-ö]') =~ \
	    ^....*😀..$ ]]
	text --grammar-text 'root ::= [^a-z]{8} "!"' -s 5 --temp 2 --top-k 0 \
	    --top-p 1 --min-p 0 | iconv -f UTF-8 -t UTF-16 >/dev/null
}

@test "grammar: --json is a JSON value, strictly" {
	command -v jq >/dev/null || skip 'needs jq'
	for s in 1 2 3 4 5 6 7 8 9; do
		text --json --finish -n 40 -s $s --temp 1.5 --top-k 0 \
		    --top-p 1 --min-p 0 >out
		jq . out >/dev/null
		[ "$(jq -s length out)" -eq 1 ]
	done
}

@test "grammar: --json-schema" {
	command -v jq >/dev/null || skip 'needs jq'
	cat >schema <<-'END'
	{"type":"object","required":["name","n"],"properties":{
	  "name":{"type":"string","pattern":"^[A-Z][a-z]{2,5}$"},
	  "n":{"type":"integer","minimum":10,"maximum":25},
	  "on":{"format":"date"}}}
	END
	for s in 1 2 3 4 5; do
		text --json-schema schema -s $s --temp 1.5 >out
		jq -e '(.name | test("^[A-Z][a-z]{2,5}$")) and .n >= 10 and
		    .n <= 25' out
	done
	echo '{"type":"string","contains":1}' >schema
	run_split pico-generate --json-schema schema prompt
	expect_error 1 "pico-generate: 'schema': schema #: keyword 'contains' is not supported"
	echo '{"type":' >schema
	run_split pico-generate --json-schema schema prompt
	expect_error 1 "'schema': line 2, column 1: not JSON: a value expected"
	echo '{"anyOf":[{"$ref":"#"},{"type":"null"}]}' >schema
	run_split pico-generate --json-schema schema prompt
	expect_error 1 "'schema': as a grammar: line"
}

@test "grammar: random schemas as another validator judges" {
	command -v node >/dev/null || skip 'needs node'
	run "$ROOT/tests/schema-random" "$BUILD_DIR/tests/schemas" 40
	[ "$status" -ne 77 ] || skip 'needs ajv, see schema-random'
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "grammar: a limit cuts off, or --finish completes" {
	run_split pico-generate -n 5 --grammar g prompt
	[ "$status" -eq 3 ]
	[ -z "$stderr" ]
	[ "$(wc -w <<<"$output")" -eq 5 ]
	pico-generate -b -n 5 --grammar g prompt | tail -c 4 |
	    cmp - <(printf '\376\377\377\377')
	run_split pico-generate -n 5 --finish --grammar g prompt
	[ "$status" -eq 0 ]
	pico-detokenize <<<"$output" | grep -qE '^\{"name": "[A-Z][a-z]{2,8}", "likes": \["[a-z ]"\], "age": [1-9]\}$'
	pico-generate -b -n 5 --finish --grammar g prompt | tail -c 4 |
	    cmp - <(printf '\374\377\377\377')
	# a full context; and a limit where the output may end
	run_split pico-generate -c 12 --grammar g prompt
	[ "$status" -eq 3 ]
	run_split pico-generate -c 12 --finish --grammar g prompt
	[ "$status" -eq 0 ]
	run_split pico-generate -n 3 --grammar-text 'root ::= [a-z ]*' prompt
	[ "$status" -eq 0 ]
	# the others are done all the same
	run_split pico-generate -n 2 -j 2 --grammar-text 'root ::= "a" "b"{9}' \
	    prompts
	[ "$status" -eq 3 ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/stdout")" -eq 4 ]
}

@test "grammar: a stop inside cuts off, too" {
	t='root ::= "{" [a-z ]{3,} "END" [a-z]* "}"?'
	# what is cut away is not asked whether it fits
	for stop in END D; do
		run_split pico-generate --grammar-text "$t" --stop $stop prompt
		[ "$status" -eq 3 ]
	done
	run_split pico-generate --grammar-text 'root ::= "x"* "y"' --stop y prompt
	[ "$status" -eq 3 ]
	run_split pico-generate --grammar-text 'root ::= "x" "y"?' --stop y -s 1 \
	    --temp 5 --top-k 0 --top-p 1 --min-p 0 prompt
	[ "$status" -eq 0 ]
	id=$(pico-tokenize --no-bos <<<'}')
	run_split pico-generate --grammar-text 'root ::= "a}"' --no-jump \
	    --stop-id "${id##* }" prompt
	[ "$status" -eq 3 ]
}

@test "grammar: the same bytes for threads, batches, chunks and machines" {
	for opt in '--json --temp 1.5' '--grammar g --temp 1.2' \
	    '--grammar g --no-jump' '--grammar g --finish -n 9'; do
		pico-generate $opt -s 7 -b prompts >want || [ $? -eq 3 ]
		for x in '-t 1' '-t 2' '-j 3' '-j 4 --chunk 7'; do
			pico-generate $opt -s 7 -b $x prompts >got ||
			    [ $? -eq 3 ]
			cmp want got
		done
		PICO_CPU=scalar pico-generate $opt -s 7 -b prompts >got ||
		    [ $? -eq 3 ]
		cmp want got
	done
}

@test "grammar: the loop of three programs gives the same" {
	mkfifo loop
	for opt in '--grammar g' '--grammar g --no-jump' '--json --temp 1.5' \
	    '--grammar g -n 9' '--grammar g -n 9 --finish'; do
		want=0
		pico-generate $opt -s 4 prompt >one || want=$?
		{ cat prompt; cat loop; } | pico-forward --session |
		    { r=0; pico-sample $opt -s 4 || r=$?; echo $r >got; } | tee loop >two
		[ "$(cat got)" = $want ]
		[ "$(tr -s ' \n' ' ' <one)" = "$(tr -s ' \n' ' ' <two)" ]
	done
	rm loop
}

@test "grammar: jumps draw nothing, and sessions begin anew" {
	run_split pico-generate -v --grammar g prompt
	[ "$(sed -n 's/^forced:\t\([0-9]*\) tokens/\1/p' <<<"$stderr")" -ge 5 ]
	run_split pico-generate -v --no-jump --grammar g prompt
	! grep -q ^forced <<<"$stderr"
	# all that the grammar has is forced: the same either way
	t='root ::= "Once upon a time there was a cat."'
	[ "$(text --grammar-text "$t")" = "Once upon a time there was a cat." ]
	[ "$(text --no-jump --grammar-text "$t")" = \
	    "Once upon a time there was a cat." ]
	pico-generate --session --grammar-text 'root ::= " yes" | " no"' \
	    prompts | pico-detokenize --session >out
	grep -qE '^( yes| no){4}$' <(tr -d '\n' <out) ||
	    grep -qE '^(yes|no)( yes| no){3}$' <(tr -d '\n' <out)
}

@test "grammar: pico-sample shows and matches by the vocabulary of -m" {
	t='root ::= "ab" [c-e]'
	pico-tokenize --no-bos <<<'ab' >ab
	n=$(pico-inspect --json "$MODEL" | jq '.metadata |
	    ."tokenizer.ggml.tokens" | length' 2>/dev/null) || n=
	pico-forward prompt >logits
	pico-sample --show --grammar-text "$t" --top-k 0 --top-p 1 --min-p 0 \
	    logits | awk '$4 != "-inf"' | cut -f3 >ids
	[ "$(pico-detokenize <(tr '\n' ' ' <ids; echo) | tr -d 'ab ')" = "" ]
	run_split pico-sample --grammar-text "$t" <<<$'# 3 1\n0\t1 2 3\n'
	expect_error 1 "logits for 3 tokens, the model's vocabulary has [0-9]+"
	# what follows the first row has to fit
	pico-forward -a prompt >logits
	run_split pico-sample --grammar-text "$t" --no-jump logits
	[ "$status" -eq 1 ]
	one_line 'position [0-9]+: token [0-9]+ does not fit the grammar'
}

@test "grammar: what is wrong with it is told before anything is done" {
	bad() {
		run_split pico-generate --grammar-text "$1" prompt
		expect_error 1 "pico-generate: 'option --grammar-text': $2"
		run_split pico-sample --grammar-text "$1" </dev/null
		expect_error 1 "pico-sample: 'option --grammar-text': $2"
	}
	bad 'root ::= x' "line 1, column 10: there is no rule 'x'"
	bad 'a ::= "x"' "line 1, column 10: there is no rule 'root'"
	bad 'root ::= root "x" | "y"' 'line 1, column 10: .*left recursion'
	bad $'root ::= "a"\n  | (' "line 1, column 13|line 2"
	run_split pico-generate --grammar missing prompt
	expect_error 1 "cannot open 'missing'"
	for opt in '--json --grammar g' '--finish' '--no-jump' \
	    '--json --ignore-eog'; do
		run_split pico-generate $opt prompt
		[ "$status" -eq 2 ]
		run_split pico-sample $opt </dev/null
		[ "$status" -eq 2 ]
	done
}

@test "grammar: one that is read in ever more ways ends in a message" {
	run_split pico-generate -n 5 --finish --grammar-text \
	    'root ::= ("a}{14}{1"{1,4}){924} ("b}{14}{1"{1,4}){924}' prompt
	[ "$status" -eq 1 ]
	[ "$stderr" = "pico-generate: grammar needs more than 134217728 bytes to read a text" ]
}

@test "grammar: allowed tokens are those of the cases" {
	need_shared
	mkdir vocabs
	for v in gpt-2 llama-spm; do
		zcat "$SHARED/conformance/tokenizer/vocab/$v.gguf.gz" \
		    >vocabs/$v.gguf
	done
	run "$BUILD_DIR/unit/test_grammar" \
	    "$SHARED/conformance/sampling/grammar-tokens.json" vocabs
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -gt 26 ]
}
