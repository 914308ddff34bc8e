# SPDX-License-Identifier: MIT
# bash completion for the pico programs: options as their help tells them, else
# file names.

_pico() {
	local words=

	if [[ $2 == -* ]]; then
		words=$("$1" -h 2>/dev/null |
		    sed -n 's/^ \{2,6\}\(-[^ ,]*\),\{0,1\}\( --[^ ]*\)\{0,1\}.*/\1\2/p')
	elif [[ $3 == --kv-type ]]; then
		words='f16 f32 q8_0'
	elif [[ $3 == --samplers ]]; then
		words='logit-bias penalties dry top-n-sigma top-k typical top-p
		    min-p xtc temp mirostat'
	elif [[ $3 == --memory ]]; then
		words=max
	elif [[ $3 == --template ]]; then
		words=$(pico-chat --template help 2>/dev/null)
	elif [[ $1 == *pico-convert && $3 == --type ]]; then
		words='auto keep f32 f16 bf16 q8_0 Q6_K Q5_K_M Q4_K_M Q4_0'
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}

complete -o default -F _pico pico-inspect pico-tokenize pico-detokenize \
    pico-forward pico-sample pico-generate pico-score pico-chat pico-quantize \
    pico-edit pico-split pico-convert
