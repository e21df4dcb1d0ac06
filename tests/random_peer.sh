#!/bin/bash
# Random models of the operators that onnxruntime has, compared with what it computes for the parts that it takes
# (tests/tools/random_peer.py).
#   tests/random_peer.sh [-b BUILD] [-n MODELS] [-s FIRST]
# Skipped when there is neither a python3 with onnx and onnxruntime ($PYTHON chooses another), nor a way to PyPI: then a
# virtual environment in BUILD is made with these packages.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build models=300 first=0
while getopts b:n:s: o; do
  case $o in b) build=$OPTARG;; n) models=$OPTARG;; s) first=$OPTARG;; *) exit 2;; esac
done
python=${PYTHON:-python3}
if ! "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
  venv=$build/peer-venv
  if ! "$venv/bin/python" -c 'import onnx, onnxruntime' 2>/dev/null &&
    ! { "$python" -m venv "$venv" && "$venv/bin/pip" install -q --retries 1 --timeout 60 onnx onnxruntime; } \
      >"$build/peer.log" 2>&1; then
    echo "no $python with the packages onnx and onnxruntime, and they cannot be had: $(tail -1 "$build/peer.log")"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
  fi
  python=$venv/bin/python
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" "$here/tools/random_peer.py" --operators >"$work/operators" &&
  "$build/random_models" -w -l "$work/operators" -n "$models" -s "$first" -j 1 -o "$work" >"$work/log" ||
  { tail -1 "$work/log"; echo "FAIL models were not made"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
"$python" "$here/tools/random_peer.py" "$work" 2>"$work/crashes"
