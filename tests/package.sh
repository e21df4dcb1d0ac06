#!/bin/bash
# The Python package. As it was just built (build/python): its unit tests, with numpy, onnx and ml_dtypes, and those of
# einkorn.backend. With -w also
# what a user gets: the wheel, its size and tag, installed into an empty environment without onnx, LLVM, compiler and
# linker, where all test models run and are saved, and the sources, from which it is built again.
#   tests/package.sh [-b BUILD] [-w]
# Skipped where Python's headers or packages cannot be had.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build wheel=
while getopts b:w o; do case $o in b) build=$OPTARG;; w) wheel=1;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
passed=0 failed=0
export EINKORN_SOURCE=$here/..
skip() { echo "$1: the Python package was not tested"; echo "0 passed, 0 failed, $((wheel ? 5 : 1)) skipped"; exit 0; }
ok() { passed=$((passed + 1)); }
bad() { echo "FAIL $1"; failed=$((failed + 1)); }
unit() { # PYTHON FOLDER FILE...: unit tests, with the package in FOLDER ("": installed)
  local test n python=$1 folder=$2
  shift 2
  for test; do
    if PYTHONPATH=$folder "$python" -W error "$here/python/$test" >"$build/package.log" 2>&1 &&
      n=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$build/package.log") && [ "${n:-0}" -gt 5 ]
    then passed=$((passed + n)); else tail -40 "$build/package.log"; bad "unit tests of $test"; fi
  done
}
python=$("$here/python.sh" "$build" 2>&1) || skip "$python"
if [ -z "$wheel" ]; then
  grep -q '^build python_package:' "$build/build.ninja" || skip "no headers of Python 3.11 (python3-dev)"
  if cmake --build "$build" --target python_package >"$build/package.log" 2>&1
  then unit "$python" "$build/python" test_package.py test_train.py test_grad.py test_onnxruntime.py test_backend.py \
    test_bench.py
  else tail -20 "$build/package.log"; bad "the Python package does not build"; fi
  echo "$passed passed, $failed failed, 0 skipped"
  exit
fi
# the wheel is built from what people get as sources
file=$("$here/../python/build.sh" -b "$build" sdist 2>&1) || skip "$(tail -1 <<<"$file")"
rm -rf "$build/wheel" "$build/sdist" && mkdir "$build/sdist" && tar xzf "$file" -C "$build/sdist"
if file=$("$build"/sdist/*/python/build.sh -b "$build" wheel 2>&1); then ok
else tail -20 <<<"$file"; bad "the sources do not build"; echo "$passed passed, $failed failed, 0 skipped"; exit; fi
rm -rf "$build/wheel" "$build/sdist"
bytes=$(stat -c %s "$file")
[ "$bytes" -le 2100000 ] && ok || bad "the wheel has $bytes bytes: at most 2,100,000 are expected"
case $file in *-cp311-abi3-manylinux_2_34_x86_64.whl) ok;; *) bad "the wheel's tags: ${file##*/}";; esac
venv=$build/package-venv
rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv" && "$venv/bin/pip" install -q "$file" >"$build/package.log" 2>&1 || {
  tail -5 "$build/package.log"; bad "the wheel cannot be installed"; }
here_is=$(cd / && "$venv/bin/python" -c 'import einkorn, os; print(os.path.dirname(einkorn.__file__))')
installed=$(find "$here_is" -type f ! -path '*__pycache__*' -printf '%s\n' | awk '{ n += $1 } END { print n }')
[ "${installed:-9999999}" -le 4300000 ] && ok || bad "installed it has $installed bytes"
unit "$venv/bin/python" "" test_package.py test_train.py test_grad.py test_onnxruntime.py
# without compiler and linker: the process finds no programs. It fails where LLVM was loaded
if (cd / && env -i PATH=/nowhere HOME=/nowhere "$venv/bin/python" "$here/python/all_models.py" \
  "$here/models") >"$build/package.log" 2>&1; then ok; else tail -5 "$build/package.log"; bad "test models"; fi
rm -rf "$venv"
echo "wheel $bytes bytes, installed $installed"
echo "$passed passed, $failed failed, 0 skipped"
