#compdef pico-inspect pico-tokenize pico-detokenize pico-forward pico-sample pico-generate pico-score pico-chat pico-quantize pico-edit pico-split pico-convert
# SPDX-License-Identifier: MIT
# zsh completion for the pico programs: options as their help tells them, else
# file names.

local -a specs
local line left text name value
for line in ${(f)"$($words[1] -h 2>/dev/null)"}; do
	[[ $line == ' '##-* ]] || continue
	left=${${line##' '#}%%'  '*}		# "-n, --tokens N"
	text=${${line#*$left}##' '#}
	text=${${text//\[/\\[}//\]/\\]}
	value=${${(M)left%' '[A-Z]*}#' '}
	for name in ${${(s:, :)left}%% *}; do
		[[ -n $value && $name == --* ]] && name+='='
		[[ -n $value && $name == -? ]] && name+='+'
		case $value in
		'') specs+=("${name}[$text]") ;;
		FILE) specs+=("${name}[$text]:file:_files") ;;
		TYPE) specs+=("${name}[$text]:type:(f16 f32 q8_0${${(M)words[1]:#*convert}:+ \
		    bf16 keep auto Q6_K Q5_K_M Q4_K_M Q4_0})") ;;
		LIST) specs+=("${name}[$text]:samplers:_values -s , sampler \
		    logit-bias penalties dry top-n-sigma top-k typical top-p \
		    min-p xtc temp mirostat") ;;
		SIZE) specs+=("${name}[$text]:size:(max)") ;;
		*) specs+=("${name}[$text]:$value: ") ;;
		esac
	done
done
_arguments -s $specs '*:file:_files'
