#!/bin/sh
# Does a saved step of training follow the trainer? tests/step/make.c trains 200 steps in f64 and saves the step as C
# source, object and library; tests/step/run.c trains with each of them, and libm alone.   tests/step.sh [-b BUILD]
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build
while getopts b: o; do case $o in b) build=$OPTARG;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
command -v cc >/dev/null || { echo "no cc: saved steps are not built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
ok() { # WHAT COMMAND..
  what=$1; shift
  if "$@" >"$work/log" 2>&1; then passed=$((passed + 1)); return; fi
  failed=$((failed + 1)); echo "FAIL $what"; cat "$work/log"
}
lib=$(ls "$build"/libeinkorn.so.*.*.* | head -1)
sanitize=$(objdump -p "$lib" | grep -q 'NEEDED .*libasan' && echo -fsanitize=address,undefined)
close() { # FILE: its losses are those of the trainer to 1e-12
  awk 'NR == FNR {want[FNR] = $NF; n = FNR; next} {d = $NF - want[FNR]; if (d < 0) d = -d
    if (d > 1e-12 * (1 + want[FNR])) {print FNR ": " $NF " instead of " want[FNR]; bad = 1}}
    END {exit bad || FNR < 200 || n < 200}' "$work/want" "$1"
}
follows() { # FILE LIBRARIES..: the step in that file
  cc -std=c17 -Wall -Werror $sanitize $check -I"$work" -I"$here/step" "$here/step/run.c" "$@" -o "$work/run" || return 1
  "$work/run" >"$work/got" && close "$work/got"
}
cc -std=c17 -Wall -Wextra -Werror $sanitize -I"$here/../include" -I"$here/step" "$here/step/make.c" "$lib" \
  -Wl,-rpath,"$build" -o "$work/make" && "$work/make" "$work" >"$work/want" ||
  { cat "$work/want"; echo "FAIL the step is not saved"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
check=-DCHECK
ok "C source, with its evaluation" follows "$work/step.c" "$work/check.c" -lm
check=
ok "object" follows "$work/step.o" -lm -lpthread
ok "library" follows "$work/step.so" -Wl,-rpath,"$work" -lm
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
