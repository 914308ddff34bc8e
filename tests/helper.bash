# Loaded by every Bats file.
ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
BUILD_DIR=${BUILD_DIR:-$ROOT/build}
PATH=$BUILD_DIR/bin:$PATH
SHARED=
[ -d "$ROOT/../shared/conformance" ] && SHARED=$(cd "$ROOT/../shared" && pwd)
DATA=$ROOT/tests/data
MODEL=$ROOT/examples/model/pico-tales.gguf
export PICO_MODEL=$MODEL
unset PICO_CPU PICO_MEMORY
export LC_ALL=C

# Skips the test where the large cases are not at hand (a plain clone).
need_shared() {
	[ -n "$SHARED" ] || skip 'needs the conformance cases'
}

# Fails unless $status, $output (stdout) and stderr are as told; used after
# `run_split COMMAND...`, which keeps stdout and stderr apart.
run_split() {
	status=0
	"$@" >"$BATS_TEST_TMPDIR/stdout" 2>"$BATS_TEST_TMPDIR/stderr" ||
		status=$?
	output=$(cat "$BATS_TEST_TMPDIR/stdout"; echo x)
	output=${output%x}
	stderr=$(cat "$BATS_TEST_TMPDIR/stderr")
}

# Skips where no faulty system can be put under a program.
need_preload() {
	[ -f "$BUILD_DIR/tests/preload.so" ] &&
	    LD_PRELOAD=$BUILD_DIR/tests/preload.so pico-inspect -V >/dev/null ||
		skip 'needs a libc with LD_PRELOAD and no sanitizer'
}

# expect_error STATUS PATTERN: exit status, nothing on stdout, one line on
# stderr that holds the pattern (an extended regular expression).
expect_error() {
	[ "$status" -eq "$1" ] || {
		echo "status $status instead of $1; stderr: $stderr"
		return 1
	}
	[ -z "$output" ] || { echo "stdout: $output"; return 1; }
	one_line "$2"
}

# one_line PATTERN: stderr is one line that holds the pattern.
one_line() {
	[ "$(printf '%s\n' "$stderr" | wc -l)" -eq 1 ] &&
	printf '%s' "$stderr" | grep -qE -- "$1" || {
		echo "stderr: $stderr"
		return 1
	}
}
