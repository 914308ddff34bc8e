# SPDX-License-Identifier: MIT
# make install and uninstall, and what is installed: two builds of their own,
# under a DESTDIR for /usr and for real under a prefix.

load helper

PROGS='convert detokenize forward generate inspect sample score tokenize'

# make, whatever the make that runs the tests was told
fresh_make() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u CFLAGS -u LDFLAGS \
	    -u EXTRA_CFLAGS -u EXTRA_LDFLAGS -u BUILD -u DESTDIR -u PREFIX \
	    make -C "$ROOT" -s -j2 CFLAGS=-O0 "$@"
}

usr() {
	fresh_make BUILD="$BATS_FILE_TMPDIR/b1" \
	    DESTDIR="$BATS_FILE_TMPDIR/root" PREFIX=/usr "$@"
}

setup_file() {
	usr install
	fresh_make BUILD="$BATS_FILE_TMPDIR/b2" \
	    PREFIX="$BATS_FILE_TMPDIR/prefix" install
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	R=$BATS_FILE_TMPDIR/root/usr
	P=$BATS_FILE_TMPDIR/prefix
}

@test 'the installed programs run' {
	for p in $PROGS; do
		[ "$("$R/bin/pico-$p" -V)" = \
		    "pico-$p (pico) $(sed -n \
		    's/.*PICO_VERSION "\(.*\)"/\1/p' "$ROOT/lib/pico.h")" ]
	done
	echo 'The cat' | pico-tokenize >ids
	echo 'The cat' | "$R/bin/pico-tokenize" | diff ids -
}

@test 'what was built with other flags, or for other places, is built again' {
	usr -q all
	run usr -q CFLAGS=-O1 all
	[ "$status" -eq 1 ]
	run usr -q PREFIX=/nowhere all
	[ "$status" -eq 1 ]
	usr -q all
}

@test 'the manual pages are found' {
	for page in "$ROOT"/man/*.[1-7]; do
		cmp "$page" "$R/share/man/man${page##*.}/${page##*/}"
	done
	command -v man >/dev/null || return 0
	[ "$(man -M "$R/share/man" -w pico-stream 2>/dev/null)" = \
	    "$R/share/man/man5/pico-stream.5" ] || skip 'man is another one'
}

@test 'the default model is the one that ships, and is found' {
	cmp "$MODEL" "$P/share/pico/default.gguf"
	echo 'The cat' | pico-tokenize | pico-generate -n 5 >want
	unset PICO_MODEL
	echo 'The cat' | "$P/bin/pico-tokenize" |
	    "$P/bin/pico-generate" -n 5 >got
	diff want got
}

@test 'without a default model the message says where it would be' {
	unset PICO_MODEL
	# the build for /usr again for another place, where nothing is
	fresh_make BUILD="$BATS_FILE_TMPDIR/b1" PREFIX=/nowhere \
	    "$BATS_FILE_TMPDIR/b1/bin/pico-tokenize"
	run_split "$BATS_FILE_TMPDIR/b1/bin/pico-tokenize" </dev/null
	expect_error 2 "/nowhere/share/pico/default.gguf"
}

@test 'pico.pc has prefix and version' {
	grep -qx 'prefix=/usr' "$R/lib/pkgconfig/pico.pc"
	grep -qx "prefix=$P" "$P/lib/pkgconfig/pico.pc"
	v=$(sed -n 's/.*PICO_VERSION "\(.*\)"/\1/p' "$ROOT/lib/pico.h")
	grep -qx "Version: $v" "$R/lib/pkgconfig/pico.pc"
	command -v pkg-config >/dev/null || return 0
	[ "$(PKG_CONFIG_PATH=$R/lib/pkgconfig pkg-config --modversion pico)" \
	    = "$v" ]
}

# flags FIELD: of pico.pc, with pkg-config or without
flags() {
	sed -n "s/^$1: //p" "$P/lib/pkgconfig/pico.pc" |
	    sed "s,\${includedir},$P/include,; s,\${libdir},$P/lib,"
}

@test 'embed.c compiles against what is installed' {
	if command -v pkg-config >/dev/null; then
		f=$(PKG_CONFIG_PATH=$P/lib/pkgconfig \
		    pkg-config --cflags --libs pico)
	else
		f="$(flags Cflags) $(flags Libs)"
	fi
	# shellcheck disable=SC2086
	${CC:-cc} -std=c11 "$ROOT/examples/embed.c" -o embed $f
	[ "$(./embed "$P/share/pico/default.gguf" 'The cat' | wc -l)" -eq 1 ]
}

@test 'pico.h compiles as C++' {
	command -v c++ >/dev/null || skip 'needs a C++ compiler'
	printf '#include <pico.h>\nint main() { return pico_type(0) == 0; }\n' \
	    >t.cc
	c++ -Wall -Werror -I"$P/include" t.cc -o t -L"$P/lib" -lpico -lm \
	    -pthread
	./t
}

@test 'bash completes options and values' {
	# shellcheck disable=SC1091
	. "$R/share/bash-completion/completions/pico-sample"
	PATH=$R/bin:$PATH
	_pico pico-sample --top pico-sample
	[ "${COMPREPLY[*]}" = '--top-k --top-p --top-n-sigma' ]
	_pico pico-tokenize - pico-tokenize
	[[ " ${COMPREPLY[*]} " == *' -l --lines '* ]]
	_pico pico-forward f3 --kv-type
	[ "${COMPREPLY[*]}" = f32 ]
	_pico pico-forward x -m
	[ "${#COMPREPLY[@]}" -eq 0 ]
	for p in $PROGS; do
		cmp "$ROOT/cmd/completion.bash" \
		    "$R/share/bash-completion/completions/pico-$p"
	done
}

@test 'zsh has the options of the help' {
	command -v zsh >/dev/null || skip 'needs zsh'
	cat >list <<-'E'
	setopt extended_glob
	words=(pico-generate)
	_arguments() { print -rl -- "$@" }
	. "$1"
	E
	PATH=$R/bin:$PATH zsh -f list \
	    "$R/share/zsh/site-functions/_pico" >specs
	grep -qxF -- '--top-k=[only the K best tokens; 0: all (40)]:K: ' specs
	grep -q -- '^-m+.*:_files$' specs
	grep -q -- '^-e\[' specs
}

@test 'uninstall leaves no file behind' {
	[ "$(find "$R" -type f | wc -l)" -gt 20 ]
	usr uninstall
	[ -z "$(find "$R" ! -type d)" ]
	[ ! -e "$R/share/pico" ]
	usr uninstall		# of nothing
}

@test 'dist has what is committed, and the same bytes twice' {
	git -C "$ROOT" rev-parse 2>/dev/null || skip 'needs a git clone'
	for d in d1 d2; do
		fresh_make BUILD="$PWD/$d" dist
		sleep 1
	done
	cmp d1/pico-*.tar.gz d2/pico-*.tar.gz
	tar xzf d1/pico-*.tar.gz
	diff <(git -C "$ROOT" ls-tree -r --name-only HEAD | sort) \
	    <(cd pico-*/ && find . -type f -o -type l | sed 's,^./,,' | sort)
	# it builds without git, and without anything beside it
	env -i PATH="$PATH" make -C pico-*/ -s CFLAGS=-O0 build/bin/pico-sample
	pico-*/build/bin/pico-sample -V
}
