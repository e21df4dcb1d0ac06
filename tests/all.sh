#!/bin/bash
# All tests, tier by tier, quick ones first; each tier's time and count, and at the end a line `N passed, N failed, N skipped`. Exit 1 if anything failed.
#   tests/all.sh [-b BUILD] [-j JOBS] [-q]        -q: the quick ones only (what a build with sanitizers runs)
# A tier is a command whose last line says `N passed, N failed, N skipped`.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 quick=
while getopts b:j:q o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; q) quick=1;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
passed=0 failed=0 skipped=0
tier() { # NAME COMMAND...
  name=$1; shift
  from=$(date +%s%N)
  out=$("$@" 2>&1)
  ms=$((($(date +%s%N) - from) / 1000000))
  last=$(tail -1 <<<"$out")
  if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}; out=$(sed '$d' <<<"$out")
  else p=0 f=1 s=0; out="$out"$'\n'"FAIL the tier $name ended early"; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  [ -n "$out" ] && echo "$out"
  printf '== %-8s %5d passed %4d failed %4d skipped %7d.%d s\n' "$name" "$p" "$f" "$s" $((ms / 1000)) $((ms % 1000 / 100))
}
units() {
  log=$(mktemp)
  (cd "$build" && ctest --output-on-failure -j "$jobs" >"$log" 2>&1)
  n=$(sed -n 's/.* tests failed out of \([0-9]*\)$/\1/p' "$log") f=$(sed -n 's/.*passed, \([0-9]*\) tests failed out of.*/\1/p' "$log")
  [ "${f:-1}" -eq 0 ] || cat "$log"
  [ -n "$n" ] || { echo "no unit tests ran (libcmocka-dev)"; n=1 f=1; }
  rm -f "$log"
  echo "$((n - f)) passed, $f failed, 0 skipped"
}
cmake --build "$build" -j "$jobs" --target models sequence hostile nodetest >"$build/tools.log" 2>&1 || { tail -20 "$build/tools.log"; exit 1; }
tier units units
tier golden "$here/golden.sh" -e "$build/einkorn"
tier names "$here/names.sh"
if [ "$quick" ]; then
  tier models "$build/models" -j "$jobs" -t 300 -m "eval passes O0 jit" "$here"/models/{mlp_opset12,cnn_opset11,lstm_forward,attention_causal,detector_nms,if_nested,loop_fixed,scan_axes,quantize_pair,einsum,external_data}.onnx
  tier hostile "$here/hostile.sh" -b "$build" -n 1500
else
  tier models "$build/models" -j "$jobs" "$here"/models/*.onnx
  tier hostile "$here/hostile.sh" -b "$build"
  tier nodes "$here/node_tests.sh" -b "$build" -j "$jobs"
  tier foreign "$here/foreign.sh" -b "$build" -j "$jobs"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
