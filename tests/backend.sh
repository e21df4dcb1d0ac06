#!/bin/bash
# The backend tests of ONNX (PyPI package onnx: node, simple, PyTorch, and networks) through einkorn.backend, on
# compiled code; and whether docs/backend.md is what they come to.
#   tests/backend.sh [-b BUILD] [-j JOBS] [-u]       -u writes docs/backend.md
# Skipped where Python's headers or the packages cannot be had; without the package pillow, ImageDecoder and the page.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 update=
while getopts b:j:u o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; u) update=-u;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
skip() { echo "$1: ONNX's backend tests were skipped"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
python=$("$here/python.sh" "$build" 2>&1) || skip "$python"
grep -q '^build python_package:' "$build/build.ninja" || skip "no headers of Python 3.11 (python3-dev)"
cmake --build "$build" --target python_package >"$build/backend.log" 2>&1 || {
  tail -20 "$build/backend.log"; echo "FAIL the Python package does not build"; echo "0 passed, 1 failed, 0 skipped"
  exit 1; }
if [ "$python" = "$build/venv/bin/python" ] && ! "$python" -c 'import PIL' 2>/dev/null; then
  "$python" -m pip install -q --retries 1 --timeout 30 pillow >"$build/backend.log" 2>&1
fi
PYTHONPATH=$build/python "$python" "$here/python/backend_suite.py" -j "$jobs" $update "$here/../docs/backend.md"
