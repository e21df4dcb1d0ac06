#!/bin/bash
# onnxruntime's own operators (com.microsoft, ai.onnx.ml): random one-node models, whose results must be onnxruntime's,
# in the evaluator and compiled; and whether docs/operators.md names every operator that onnxruntime has a kernel for.
#   tests/peers.sh [-b BUILD] [-j JOBS] [-n COUNT] [-s SEED] [OPERATOR...]      COUNT (8) models of each, from SEED (1)
# Skipped when there is no python3 with onnx and onnxruntime ($PYTHON chooses another).
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 count=8 seed=1
while getopts b:j:n:s: o; do
  case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; n) count=$OPTARG;; s) seed=$OPTARG;; *) exit 2;; esac
done
shift $((OPTIND - 1))
python=${PYTHON:-python3}
if ! "$python" -c 'import onnx, onnxruntime, ml_dtypes' 2>/dev/null; then
  echo "no $python with the packages onnx and onnxruntime: operators were not compared with onnxruntime's"
  echo "0 passed, 0 failed, 2 skipped"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
"$python" "$here/tools/make_peer_ops.py" --kernels >"$work/kernels"
grep -oE '^\| (com\.microsoft|ai\.onnx\.ml)::[A-Za-z0-9]+ ' "$here/../docs/operators.md" | tr -d '| ' |
  sort -u >"$work/named"
if [ -s "$work/kernels" ] && ! LC_ALL=C sort "$work/kernels" | LC_ALL=C comm -23 - <(LC_ALL=C sort "$work/named") |
  grep . >"$work/missing"; then
  passed=1
else
  failed=1; echo "FAIL docs/operators.md says nothing about" $(cat "$work/missing")
fi
if "$python" "$here/tools/make_peer_ops.py" "$work/models" -n "$count" -s "$seed" "$@" 2>"$work/log"; then
  cat "$work/log"
  set -- "$work"/models/*.onnx
  if [ -e "$1" ]; then
    "$build/models" -j "$jobs" -m "eval jit" -k "$work/models/tolerances" "$@" >"$work/out"
    sed '$d' "$work/out"
    read -r p _ f _ < <(tail -1 "$work/out")
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1}))
  fi
  for model in "$work"/models/texts/*.onnx; do # strings
    [ -e "$model" ] || continue
    for way in --eval --quiet; do
      arrays=${model%onnx}npz
      if "$build/einkorn" run "$model" --inputs "$arrays" --expect "$arrays" $way >"$work/out" 2>&1; then
        passed=$((passed + 1))
      else
        failed=$((failed + 1)); echo "FAIL ${model##*/} $way: $(tail -1 "$work/out")"
      fi
    done
  done
else
  failed=$((failed + 1)); echo "FAIL models were not made: $(tail -1 "$work/log")"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
