# SPDX-License-Identifier: MIT
# Each program gives up rights before it reads a model; test_confine shows which.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	mkfifo pipe
	grep -q Seccomp_filters /proc/self/status 2>/dev/null ||
		skip 'needs a kernel that counts filters'
	"$BUILD_DIR/unit/test_confine" | grep -q '# skip' &&
		skip 'no sandbox in this build'
	echo 5 | pico-generate -n 0 >/dev/null	# nothing is in its way
}

filters() {
	sed -n 's/^Seccomp_filters:[^0-9]*//p' "/proc/$1/status"
}

# waiting_filters COMMAND...: of a program that waits for its input, which is a
# pipe; after two seconds, if there is nothing to see
waiting_filters() {
	"$@" <pipe >/dev/null 3>&- &
	local pid=$! i
	exec 9>pipe
	for i in $(seq 40); do
		[ "$(filters $pid)" = "$(filters self)" ] || break
		sleep 0.05
	done
	filters $pid
	exec 9>&-
	wait $pid || true
}

@test 'confine: each program, but with --no-sandbox' {
	for p in tokenize detokenize forward generate sample chat inspect; do
		case $p in
		inspect) set -- pico-inspect - ;;
		forward) set -- pico-forward --top 1 ;;
		*) set -- pico-$p ;;
		esac
		echo "$p"
		[ "$(waiting_filters "$@" 2>/dev/null)" -gt "$(filters self)" ]
		[ "$(waiting_filters "$@" --no-sandbox 2>/dev/null)" -eq \
		    "$(filters self)" ]
	done
}

@test 'confine: a cache is saved all the same, and the same' {
	echo '5 6 7' >ids
	for t in 1 2 3; do
		pico-generate -t $t -n 5 --kv "kv$t" ids >"got$t"
		pico-generate -t $t -n 5 --kv "free$t" --no-sandbox ids >want
		cmp want "got$t"
		cmp "free$t" "kv$t"
		cmp kv1 "kv$t"
	done
}

@test 'confine: faults are told, and with their status' {
	run_split pico-forward --top 1 nowhere
	expect_error 1 "cannot open 'nowhere'"
	run_split pico-generate -m nowhere
	expect_error 1 'nowhere'
}
