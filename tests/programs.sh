#!/bin/bash
# Programs from PyPI that ship their ONNX models (tests/python/programs.py), unchanged: once with onnxruntime, once by
# einkorn.as_onnxruntime. Their answers must be the same: texts exactly, numbers to 1e-3. One line each, with both
# times.
#   tests/programs.sh [-b BUILD] [PROGRAM...]
# Downloads 500 MB of packages into BUILD/programs when it is first run; skipped where it cannot.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build
while getopts b: o; do case $o in b) build=$OPTARG;; *) exit 2;; esac; done
shift $((OPTIND - 1))
build=$(cd "$build" && pwd) || exit 2
programs=$here/python/programs.py venv=$build/programs
python=$venv/bin/python
passed=0 failed=0 skipped=0
cmake --build "$build" --target python_package >"$build/programs.log" 2>&1 && "${PYTHON:-python3}" -m venv "$venv" &&
  "$venv/bin/pip" install -q --retries 1 --timeout 60 numpy onnxruntime pillow >"$build/programs.log" 2>&1 || {
  echo "no Python package, or no onnxruntime: programs were not run"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
[ $# -gt 0 ] || set -- $("$python" "$programs" --packages | cut -d' ' -f1)
compare='
import sys
import numpy as np
theirs, ours = np.load(sys.argv[1]), np.load(sys.argv[2])
assert theirs.files == ours.files and theirs.files, (theirs.files, ours.files)
for name in theirs.files:
    a, b = theirs[name], ours[name]
    assert a.shape == b.shape, (name, a.shape, b.shape)
    assert (a == b).all() if a.dtype.kind in "U" else np.allclose(a, b, rtol=1e-3, atol=1e-3), (name, a, b)
    assert a.size, name
'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name; do
  packages=$("$python" "$programs" --packages | sed -n "s/^$name //p")
  [ -n "$packages" ] || { echo "FAIL there is no program $name"; failed=$((failed + 1)); continue; }
  "$venv/bin/pip" install -q --retries 1 --timeout 60 $packages >"$work/pip" 2>&1 ||
    { echo "$name: $packages cannot be had: skipped"; skipped=$((skipped + 1)); continue; }
  if a=$("$python" -W ignore "$programs" "$name" "$work/theirs.npz" 2>"$work/log") &&
    b=$(PYTHONPATH=$build/python "$python" -W ignore -m einkorn.as_onnxruntime "$programs" "$name" "$work/ours.npz" \
      2>"$work/log") && "$python" -c "$compare" "$work/theirs.npz" "$work/ours.npz" >"$work/log" 2>&1
  then passed=$((passed + 1))
    echo "$name: the same answers; onnxruntime $(tail -1 <<<"$a") s, Einkorn $(tail -1 <<<"$b") s"
  else failed=$((failed + 1)); echo "FAIL $name"; tail -5 "$work/log"; fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
