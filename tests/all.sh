#!/bin/bash
# All tests, tier by tier, quick ones first; each tier's time and count, and at the end a line `N passed, N failed, N
# skipped`. Exit 1 if anything failed.
#   tests/all.sh [-b BUILD] [-j JOBS] [-q]        -q: the quick ones only (what a build with sanitizers runs)
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 quick=
while getopts b:j:q o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; q) quick=1;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
. "$here/tier.sh"
export EINKORN_CACHE_DIR=$build/test-cache # never the user's own
rm -rf "$EINKORN_CACHE_DIR"
units() {
  log=$(mktemp)
  (cd "$build" && ctest --output-on-failure -j "$jobs" >"$log" 2>&1)
  n=$(sed -n 's/.* tests failed out of \([0-9]*\)$/\1/p' "$log") \
    f=$(sed -n 's/.*passed, \([0-9]*\) tests failed out of.*/\1/p' "$log")
  [ "${f:-1}" -eq 0 ] || cat "$log"
  [ -n "$n" ] || { echo "no unit tests ran (libcmocka-dev)"; n=1 f=1; }
  rm -f "$log"
  echo "$((n - f)) passed, $f failed, 0 skipped"
}
cmake --build "$build" -j "$jobs" --target models sequence hostile nodetest accuracy random_models random_schedules \
  random_integers >"$build/tools.log" 2>&1 ||
  { tail -20 "$build/tools.log"; echo "FAIL the tests' tools do not build"; echo "0 passed, 1 failed, 0 skipped"
  exit 1; }
tier units units
tier golden "$here/golden.sh" -e "$build/einkorn"
tier names "$here/names.sh"
tier includes "$here/includes.sh"
tier style "$here/style.sh"
tier words "$here/words.sh"
tier numbers "$here/numbers.sh"
tier planted "$here/planted.sh" -n -b "$build"
if [ "$quick" ]; then
  tier pages "$here/docs.sh" -b "$build" -g
  tier models "$build/models" -j "$jobs" -t 300 -m "eval passes O0 jit" \
    "$here"/models/{mlp_opset12,cnn_opset11,lstm_forward,attention_causal,detector_nms,if_nested}.onnx \
    "$here"/models/{loop_fixed,scan_axes,quantize_pair,einsum,external_data}.onnx
  tier hostile "$here/hostile.sh" -b "$build" -n 1500
else
  tier api "$here/api.sh" -b "$build"
  tier docs "$here/docs.sh" -b "$build"
  tier site "$here/site.sh" -b "$build"
  tier install "$here/install.sh" -b "$build"
  tier sandbox "$here/sandbox.sh" -b "$build"
  tier examples "$here/examples.sh" -b "$build"
  tier package "$here/package.sh" -b "$build"
  tier cache "$here/cache.sh" -b "$build"
  tier diff "$here/diff.sh" -b "$build"
  tier quantize "$here/quantize.sh" -b "$build"
  tier step "$here/step.sh" -b "$build"
  tier train "$here/train.sh" -b "$build"
  tier weights "$here/weights.sh" -b "$build"
  tier linear "$here/linear.sh" -b "$build"
  tier accuracy "$build/accuracy" "$here/../docs/accuracy.md" \
    "$here"/models/{mlp_opset12,cnn_opset11,large_windows,wide_windows,lstm_forward,attention_causal,unet}.onnx
  tier models "$build/models" -j "$jobs" -t 300 "$here"/models/*.onnx
  tier schedules "$build/random_schedules" -n 1 -j "$jobs" "$here"/models/*.onnx
  tier integers "$build/random_integers" -n 600 -j "$jobs"
  tier graphs "$build/random_models" -n 300 -j "$jobs" -o "$build"
  tier hostile "$here/hostile.sh" -b "$build"
  tier nodes "$here/node_tests.sh" -b "$build" -j "$jobs"
  tier foreign "$here/foreign.sh" -b "$build" -j "$jobs"
fi
closing
