# SPDX-License-Identifier: MIT
# pico-chat: messages to tokens.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	T=$DATA/chat/templates
}

@test 'chat: the frame of the model around the words' {
	printf '<|user|>\nWhat does a cow say?</s>\n<|assistant|>\n' >text
	pico-chat 'user: What does a cow say?' >got
	pico-tokenize -xS text | diff - got
	pico-chat --text 'user: What does a cow say?' | cmp - text
	[ "$(pico-generate --temp 0 got | pico-detokenize)" = \
	    'A cow says moo.' ]
	pico-chat -b 'user: What does a cow say?' | pico-detokenize -xS |
	    grep -q '^<s> *<|user|>$'
}

@test 'chat: JSON lines are operands in another form' {
	pico-chat 'system: S' 'user: a "b" é' 'assistant:  c:d ' 'user:e' >want
	cat >lines <<-'END'
	{"role": "system", "content": "S"}

	[{"role":"user","content":"a \"b\" \u00e9"},
	END
	tr -d '\n' <<-'END' >>lines
	{"content": " c:d ", "role": "assistant"},
	 {"role":"user","content":"e"}]
	END
	# an array must be one line
	run_split pico-chat <lines
	expect_error 1 '^pico-chat: line 3: the message is not JSON: it ends'
	sed -i 'N;N;N; s/},\n/},/' lines
	pico-chat <lines | diff want -
}

@test 'chat: words never become control tokens' {
	pico-chat 'system: </s><s>' 'user: <unk></s>x' 'user: <s>' >ids
	[ "$(tr ' ' '\n' <ids | grep -cx 1)" -eq 1 ]
	[ "$(tr ' ' '\n' <ids | grep -cx 2)" -eq 3 ]
	! tr ' ' '\n' <ids | grep -qx 0
	pico-detokenize -xS ids | grep -q '<unk></s>x</s>'
	# whatever the template does with them
	echo '{{ messages[0].content[::-1] }}{{ messages|tojson }}' >t
	pico-chat --template-file t 'user: >s/<</s>' >ids
	! tr ' ' '\n' <ids | grep -qx 2
	echo '{{ messages[0].content }}</s>{{ x }}' >t
	pico-chat --template-file t --set 'x=</s>' 'user: </s>' >ids
	[ "$(tr ' ' '\n' <ids | grep -cx 2)" -eq 1 ]
}

@test 'chat: a session gets what follows the answer' {
	pico-chat --continue 'user: b' >new
	pico-chat --continue 'user: a' 'assistant: A' 'user: b' | diff new -
	pico-chat --continue 'system: s' 'user: b' | diff new -
	[ "$(pico-chat --continue --cut 'user: b')" = "2 $(cat new)" ]
	# prompt, answer, its end, what follows: the whole chat
	pico-chat 'user: What does a cow say?' >first
	pico-generate --temp 0 first >answer
	echo "$(cat first) $(cat answer) 2 $(cat new)" >whole
	pico-chat 'user: What does a cow say?' 'assistant: A cow says moo.' \
	    'user: b' | pico-detokenize -S >want
	pico-detokenize -S whole >got
	# one space less: the answer was not tokenized as a text of its own
	diff <(sed 's/ *A cow/A cow/' want) <(sed 's/ *A cow/A cow/' got)
	want=$(pico-generate --temp 0 -n 9 whole)
	[ "$(cat first new | pico-generate --session --temp 0 -n 9 |
	    sed -n 2p)" = "$want" ]
	run_split pico-chat --cut 'user: b'
	expect_error 2 'option --cut needs --continue$'
	echo '{{ messages[0].content }}' >t
	run_split pico-chat --continue --template-file t 'user: b'
	expect_error 1 'does not show the last answer'
}

@test 'chat: templates need no model for their text' {
	unset PICO_MODEL
	[ "$(pico-chat --template chatml --text 'user: hi')" = \
	    "$(printf '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant')" ]
	[ "$(pico-chat --template-file "$T/mistral-v3.jinja" --text \
	    --bos-text '<s>' --eos-text '</s>' 'user: a' 'assistant: b' \
	    'user: c')" = '<s>[INST] a[/INST] b</s>[INST] c[/INST]' ]
	[ "$(pico-chat --template phi4 --text --no-generation-prompt \
	    'user: hi')" = '<|im_start|>user<|im_sep|>hi<|im_end|>' ]
	# no newline is added, none is lost
	printf 'a\n\n' >t
	[ "$(pico-chat --template-file t --text user: | wc -c)" -eq 2 ]
	pico-chat --template-file - --text 'user: x' <t | cmp - <(echo a)
	run_split pico-chat --template chatml 'user: hi'
	expect_error 2 'no model'
}

@test 'chat: variables, tools and the date' {
	t() { pico-chat --text --template-file t "$@" 'user: x'; }
	echo '{{ v|tojson }} {{ tools|tojson }}' >t
	[ "$(t --set v=false)" = 'false null' ]
	[ "$(t --set v='{"a": [1, 2.50]}')" = '{"a": [1, 2.5]} null' ]
	[ "$(t --set v='a=b, "c')" = '"a=b, \"c" null' ]
	[ "$(t --set v= --set v=5)" = '5 null' ]
	echo '[{"name": "f"}]' >tools
	[ "$(t --set v=1 --tools tools)" = '1 [{"name": "f"}]' ]
	echo '{{ strftime_now("%d %B %Y %H:%M:%S %A") }}' >t
	[ "$(t --date 2026-01-02T03:04:05)" = \
	    '02 January 2026 03:04:05 Friday' ]
	[ "$(t --date 2024-02-29)" = '29 February 2024 00:00:00 Thursday' ]
	[ "$(t | wc -w)" -eq 5 ]
	run_split t --date 2026-02-29
	expect_error 2 "^pico-chat: option --date: '2026-02-29' is not a date"
	run_split t --set v
	expect_error 2 "option --set: 'v' is not NAME=VALUE"
	echo '[1' >tools
	run_split t --tools tools
	expect_error 1 "^pico-chat: 'tools': .*not JSON"
}

@test 'chat: the layouts have names' {
	pico-chat --template help >names
	[ "$(wc -l <names)" -ge 54 ]
	sort -c names
	while read -r name; do
		[ -n "$(pico-chat --text --template "$name" 'user: hi')" ]
	done <names
	run_split pico-chat --template nope 'user: hi'
	expect_error 2 "option --template: 'nope' is not known; --template help"
	run_split pico-chat --template chatml --template-file x 'user: hi'
	expect_error 2 'exclude each other'
}

@test 'chat: a model without a template' {
	run_split pico-chat -m "$DATA/arch/llama-q8_0.gguf" 'user: hi'
	expect_error 1 'has no chat template: choose one with --template NAME'
	pico-chat -m "$DATA/arch/llama-q8_0.gguf" --template vicuna 'user: hi'
}

@test 'chat: the end-of-turn token of a model that has chatml' {
	need_shared
	gunzip -c "$SHARED/conformance/tokenizer/vocab/qwen3-bpe.gguf.gz" \
	    >q.gguf
	pico-chat -m q.gguf --template chatml 'user: <|im_end|><think>' >ids
	[ "$(tr ' ' '\n' <ids | grep -cx 151645)" -eq 1 ]
	[ "$(tr ' ' '\n' <ids | grep -cx 151644)" -eq 2 ]
	[ "$(pico-chat -m q.gguf --template chatml --continue 'user: hi')" = \
	    "$(printf '\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n' |
	    pico-tokenize -m q.gguf -xS --no-bos)" ]
	pico-chat -m q.gguf --template-file "$T/qwen3.jinja" 'user: hi' \
	    'assistant: x' 'user: y' >ids
	pico-chat -m q.gguf --template-file "$T/qwen3.jinja" --text 'user: hi' \
	    'assistant: x' 'user: y' | pico-tokenize -m q.gguf -xS | diff - ids
	run_split pico-chat -m q.gguf 'user: hi'
	[ "$status" -eq 0 ]
	[ -z "$stderr" ] || one_line "no chat template: using 'chatml'"
}

@test 'chat: what is wrong is told, and where' {
	run_split pico-chat 'hello'
	expect_error 2 "^pico-chat: 'hello' is not a message such as"
	run_split pico-chat 'the user: hello'
	expect_error 2 "'the user' is not a role"
	run_split pico-chat </dev/null
	expect_error 1 'no messages$'
	run_split pico-chat <<<'{"role":"user"'
	expect_error 1 '^pico-chat: line 1: the message is not JSON'
	printf 'a\n  {{ messages[0].foo() }}' >t
	run_split pico-chat --text --template-file t 'user: x'
	expect_error 1 "^pico-chat: template: line 2, column 21: 'foo' is undefined"
	printf '{%% include "x" %%}' >t
	run_split pico-chat --text --template-file t 'user: x'
	expect_error 1 "^pico-chat: template: line 1, column 4: 'include' where a known tag should be"
	run_split pico-chat --text --template-file "$T/gemma-3.jinja" \
	    'user: a' 'user: b'
	expect_error 1 'the template refuses: Conversation roles must alternate'
	run_split pico-chat --text --template llama2 'usr: a'
	expect_error 1 "the template refuses: the layout has no place for the role 'usr'"
	run_split pico-chat --text --template chatml 'tool: a'
	[ "$output" = $'<|im_start|>tool\na<|im_end|>\n<|im_start|>assistant\n' ]
	run_split pico-chat --text --template-file nowhere 'user: a'
	expect_error 1 "cannot open 'nowhere'"
	run_split bash -c "pico-chat --text --template chatml 'user: a' >/dev/full"
	expect_error 1 'write error on standard output'
	run_split bash -c "pico-chat 'user: a' >/dev/full"
	expect_error 1 'write error'
}

@test 'chat: a template that never ends, ends' {
	echo '{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}' >t
	run_split bash -c 'ulimit -s 128; pico-chat --text --template-file t user:x'
	expect_error 1 'template: line 1, column .*: more than'
	# nor does it take all memory: doubled 64 times
	echo '{% set n = namespace(x="a") %}{% for i in range(64) %}{% set n.x = n.x ~ n.x %}{% endfor %}' >t
	run_split pico-chat --text --template-file t user:x
	expect_error 1 'template: line 1, column .*: more than 134217728 bytes of memory'
	for n in 10 100000; do
		{
			printf '{{ '
			head -c $n /dev/zero | tr '\0' '('
			printf 1
			head -c $n /dev/zero | tr '\0' ')'
			printf ' }}'
		} >t$n
	done
	[ "$(pico-chat --text --template-file t10 user:x)" = 1 ]
	run_split bash -c 'ulimit -s 128; pico-chat --text --template-file t100000 user:x'
	expect_error 1 'template: line 1, column .*: nested too deeply'
	head -c 100000 /dev/zero | tr '\0' '[' >json
	run_split bash -c 'ulimit -s 128; pico-chat <json'
	expect_error 1 'line 1: nested too deeply'
}

@test 'chat: long texts, many turns, odd bytes' {
	head -c 3000000 /dev/zero | tr '\0' a >long
	printf '{"role":"user","content":"%s"}\n' "$(cat long)" |
	    bash -c 'ulimit -s 128; pico-chat' | wc -w >n
	[ "$(cat n)" -gt 100000 ]
	for ((i = 0; i < 1000; i++)); do
		echo '{"role":"user","content":"q"}'
		echo '{"role":"assistant","content":"a"}'
	done >turns
	pico-chat -v <turns 2>stats | wc -w >n
	[ "$(cat n)" -gt 15000 ]
	grep -qx 'messages:	2000' stats
	pico-chat --text --template chatml "$(printf 'user: \377\r\302')" |
	    grep -qaF "$(printf '\377\r\302<|im_end|>')"
}

@test 'chat: user-defined marks of a template are not made of words' {
	need_shared
	zcat "$SHARED/conformance/tokenizer/vocab/deepseek-coder.gguf.gz" >v.gguf
	ids() { pico-chat -m v.gguf --template deepseek "$@" | tr ' ' '\n'; }
	# of a turn of the assistant that is not there yet, too
	[ "$(ids 'user: a <|EOT|> b' | grep -cx 32021)" -eq 0 ]
	[ "$(ids 'user: a <|EOT|> b' 'assistant: <|EOT|>' | grep -cx 32021)" -eq 1 ]
	# one that this template has not
	pico-tokenize -m v.gguf --no-bos <<<'<|User|>' >id
	[ "$(wc -w <id)" -eq 1 ]
	[ "$(ids 'user: <|User|>' | grep -cx "$(cat id)")" -eq 1 ]
}
