#!/bin/bash
# The standard's own single-node tests, through the evaluator and compiled. They come with the PyPI package onnx (too
# large to keep here); they are generated once into a cache folder.
#   tests/node_tests.sh [-b BUILD] [-j JOBS] [-c CACHE] [-v]        -v: all failures, not only the first 20
# Skipped when there is no python3 with onnx ($PYTHON chooses another) and none can be had (python.sh). All must
# pass but those of node_failures.txt;
# one of these that passes is an error too.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 cache=${XDG_CACHE_HOME:-$HOME/.cache}/einkorn/node_tests verbose=
while getopts b:j:c:v o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; c) cache=$OPTARG;; v) verbose=10000;; *) \
  exit 2;; esac; done
python=$("$here/python.sh" "$build" 2>&1) ||
  { echo "$python: the standard's node tests were skipped"; echo "0 passed, 0 failed, 4 skipped"; exit 0; }
version=$("$python" -c 'import onnx; print(onnx.__version__)')
folder=$cache/$version
if [ ! -e "$folder/done" ]; then
  mkdir -p "$folder"
  "$python" "$here/tools/make_node_tests.py" "$folder" >"$folder/log" 2>&1 && touch "$folder/done" ||
    { tail -5 "$folder/log"; echo "FAIL the node tests of onnx $version were not written"
    echo "0 passed, 1 failed, 3 skipped"; exit 1; }
fi
passed=0 failed=0
all_but_listed() { # WHAT OPTIONS...
  what=$1; shift
  if out=$("$build/nodetest" -l "$here/node_failures.txt" -j "$jobs" "$@" "$folder"/node/* 2>&1)
  then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  grep '^FAIL' <<<"$out" | head -${verbose:-20}
  echo "node tests of onnx $version, $what: $(tail -1 <<<"$out")"
  tail -3 <<<"$out" | grep '^compiled code'
}
all_but_listed "in the evaluator"
all_but_listed "compiled, every second one without folding of constants" -c -a
# what `compile -o NAME.onnx` writes is valid
saved=$(mktemp -d)
for m in "$here"/models/*.onnx; do "$build/einkorn" compile "$m" -o "$saved/${m##*/}" -q >/dev/null ||
  echo "FAIL ${m##*/} as .onnx"; done >"$saved/log" 2>&1
if [ ! -s "$saved/log" ] && "$python" -c 'import onnx, sys
for m in sys.argv[1:]: onnx.checker.check_model(m, full_check=True)' "$saved"/*.onnx >"$saved/log" 2>&1
then passed=$((passed + 1)); else failed=$((failed + 1))
  echo "FAIL saved models are not valid: $(tail -3 "$saved/log")"; fi
rm -rf "$saved"
# The reference of docs/accuracy.md, the evaluator with every float in f64, agrees with onnx.reference in f64. Not
# compared: operators of other domains; large sums, for which onnx.reference takes seconds; models that round to 16
# bits, that keep f32 constants in another form, or whose outputs are differences of nearly equal numbers; and
# input_forget, where the test follows onnxruntime.
compared=()
for m in "$here"/models/*.onnx; do
  case ${m##*/} in
    contrib_*|maps.*|quantised_ones.*|first_layers.*|large_windows.*|handed_over.*) ;;
    cast_types.*|float16_net.*|halves_compared.*|constant_forms.*|normalisations.*) ;;
    norms_both_ways.*|scan_lstm.*|recurrent_clip.*) ;;
    *) compared+=("$m");;
  esac
done
if out=$("$python" -W ignore "$here/tools/reference.py" "$build/einkorn" "${compared[@]}" 2>&1)
then passed=$((passed + 1)); else failed=$((failed + 1)); fi
grep '^FAIL' <<<"$out"
echo "evaluator in f64 against onnx.reference in f64: $(tail -1 <<<"$out")"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
