#!/bin/bash
# Prints the path of a python that has the package onnx, which the standard's node tests come with: $PYTHON, or python3;
# where it has none, a virtual environment in the build folder, which is made with a package from PyPI when it is first
# asked for. Exit 1, and a word on stderr, where that cannot be had (no python3-venv, no network).
#   tests/python.sh BUILD
package=onnx==1.23.2
python=${PYTHON:-python3} venv=$1/venv
"$python" -c 'import onnx' 2>/dev/null && { command -v "$python"; exit; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "$venv/bin/python" -c 'import onnx' 2>/dev/null; then
  { "$python" -m venv "$venv" && "$venv/bin/pip" install -q --retries 1 --timeout 30 $package; } >"$log" 2>&1 ||
    { echo "no $python with the package onnx, and $package cannot be had: $(tail -1 "$log")" >&2; exit 1; }
fi
echo "$venv/bin/python"
