#!/bin/bash
# The standard's own single-node tests, through the evaluator and compiled. They come with the PyPI package onnx (too large to keep here); they are generated once into a cache folder.
#   tests/node_tests.sh [-b BUILD] [-j JOBS] [-c CACHE] [-v]        -v lists what does not pass
# Skipped when there is no python3 with onnx ($PYTHON chooses another). The minima below may only grow.
min_eval=1312 min_compiled=1312
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 cache=${XDG_CACHE_HOME:-$HOME/.cache}/einkorn/node_tests verbose=
while getopts b:j:c:v o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; c) cache=$OPTARG;; v) verbose=1;; *) exit 2;; esac; done
python=${PYTHON:-python3}
version=$("$python" -c 'import onnx; print(onnx.__version__)' 2>/dev/null)
if [ -z "$version" ]; then
  echo "no $python with the package onnx: the standard's node tests were skipped"
  echo "0 passed, 0 failed, 2 skipped"
  exit 0
fi
folder=$cache/$version
if [ ! -e "$folder/done" ]; then
  mkdir -p "$folder"
  "$python" - "$folder" <<'P' >/dev/null 2>&1 && touch "$folder/done"
import argparse, sys
import onnx.backend.test.cmd_tools as tools
from onnx.backend.test.loader import load_node_model_tests
for case in load_node_model_tests():
    tools.model_test.collect_testcases = lambda case=case: [case]
    try: tools.generate_data(argparse.Namespace(output=sys.argv[1]))
    except Exception: pass # not a model that can be written
P
fi
passed=0 failed=0
at_least() { # WHAT MINIMUM OPTIONS...
  what=$1 min=$2; shift 2
  out=$("$build/nodetest" -e -j "$jobs" "$@" "$folder"/node/* 2>&1)
  n=$(tail -1 <<<"$out" | cut -d' ' -f1)
  [ "$verbose" ] && grep '^FAIL' <<<"$out"
  echo "node tests of onnx $version, $what: $(tail -1 <<<"$out"); at least $min are expected"
  if [ "${n:-0}" -ge "$min" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $what"; fi
}
at_least "in the evaluator" $min_eval
at_least "compiled" $min_compiled -c
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
