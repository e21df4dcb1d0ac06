#!/bin/bash
# Do the examples compute what they say? The operators of examples/ops, streaming, text generation and training in C
# (training under valgrind, too, where it is there), and what needs no package but numpy in Python. (tests/api.sh,
# tests/cli.sh and tests/install.sh build the others in C and C++.)
# With -d those whose models or libraries are packages of PyPI, each in a virtual environment of its own
# (examples/venv.sh).
#   tests/examples.sh [-b BUILD] [-d]       -d downloads 250 MB into BUILD/examples when it is first run
# Skipped where Python's headers, the packages or a network cannot be had.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build downloads=
while getopts b:d o; do case $o in b) build=$OPTARG;; d) downloads=1;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
examples=$here/../examples
passed=0 failed=0 skipped=0
add() { # the last line of a test of the project
  local line=${1##*$'\n'}
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]
  then passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + BASH_REMATCH[3]))
  else echo "FAIL a test ended early"; failed=$((failed + 1)); fi
  [ "$1" = "$line" ] || echo "${1%$'\n'*}"
}
unit() { # PYTHON CLASS...: their tests of tests/python/test_examples.py
  local python=$1 log n s
  shift
  log=$(PYTHONPATH=$build/python "$python" "$here/python/test_examples.py" "$@" 2>&1 </dev/null)
  n=$(sed -n 's/^Ran \([0-9]*\) tests\? in .*/\1/p' <<<"$log") s=$(sed -n 's/^OK.*skipped=\([0-9]*\).*/\1/p' <<<"$log")
  if grep -q '^OK' <<<"$log" && [ "${n:-0}" -gt 0 ]
  then passed=$((passed + n - ${s:-0})) skipped=$((skipped + ${s:-0}))
  else tail -40 <<<"$log"; echo "FAIL examples: $*"; failed=$((failed + 1)); fi
}
streaming_in_c() { # the last guess must be the digit that the picture's name says
  local work
  work=$(mktemp -d)
  if ${CC:-cc} -std=c99 -Wall -Wextra -pedantic -Werror -I"$here/../include" "$examples/streaming/stream.c" \
    -L"$build" -leinkorn -Wl,-rpath,"$build" -o "$work/stream" >"$work/out" 2>&1 &&
    "$work/stream" "$examples/streaming/rows.onnx" "$examples"/digits/digit_?.pgm >"$work/out" 2>&1 &&
    [ "$(grep -cE '^digit_([0-9])\.pgm:.* \1 +[0-9]+ %$' "$work/out")" = 10 ]
  then passed=$((passed + 1)); else cat "$work/out"; echo "FAIL streaming/stream.c"; failed=$((failed + 1)); fi
  rm -rf "$work"
}
generate_in_c() { # the tokens that test_examples.py expects in Python, too, greedy and by chance
  local work
  work=$(mktemp -d)
  if ${CC:-cc} -std=c99 -Wall -Wextra -pedantic -Werror -I"$here/../include" "$examples/generate/generate.c" \
    -L"$build" -leinkorn -lm -Wl,-rpath,"$build" -o "$work/generate" >"$work/out" 2>&1 &&
    "$work/generate" "$examples/generate/decoder.onnx" --tokens 16 >"$work/out" 2>&1 &&
    grep -qxF 'F8r\x0d>] ;Wprl*rl*' "$work/out" && grep -q '^prompt: 7 tokens, .*second$' "$work/out" &&
    "$work/generate" "$examples/generate/decoder.onnx" --random 40 --tokens 16 --temperature 0.8 --top-k 40 \
      --top-p 0.9 --seed 7 >"$work/out" 2>&1 && grep -qxF 'pr\x0d>] \x0e\x0e\x0eB;Wpr\x10J' "$work/out" &&
    ! "$work/generate" "$examples/generate/decoder.onnx" --room 20 >"$work/out" 2>&1 &&
    grep -qxF 'the text has 21 tokens, there is room for 20' "$work/out"
  then passed=$((passed + 1)); else cat "$work/out"; echo "FAIL generate/generate.c"; failed=$((failed + 1)); fi
  rm -rf "$work"
}
train_in_c() { # most of the pictures held out are recognised, also by the model that was written; nothing leaks
  local work digits=$examples/digits
  work=$(mktemp -d)
  if ${CC:-cc} -std=c99 -Wall -Wextra -pedantic -Werror -I"$here/../include" "$examples/train.c" \
    -L"$build" -leinkorn -Wl,-rpath,"$build" -o "$work/train" >"$work/out" 2>&1 &&
    "$work/train" "$digits/digits.onnx" "$digits" "$work/out.onnx" >"$work/out" 2>&1 &&
    grep -qE '^held out: loss .*, 4[34][0-9] of 450 are right$' "$work/out" &&
    [ "$("$build/example_classify" "$work/out.onnx" "$digits"/digit_?.pgm |
      grep -cE '_([0-9])\.pgm: a \1,')" -ge 9 ] &&
    ! "$work/train" "$digits/digits.onnx" "$work" "$work/out.onnx" >"$work/out" 2>&1
  then passed=$((passed + 1)); else cat "$work/out"; echo "FAIL train.c"; failed=$((failed + 1)); fi
  if ! command -v valgrind >/dev/null; then echo "no valgrind: train.c was not run under it"; skipped=$((skipped + 1))
  elif valgrind -q --smc-check=all --error-exitcode=9 --leak-check=full "$work/train" "$digits/digits.onnx" "$digits" \
    "$work/out.onnx" 3 >"$work/out" 2>&1
  then passed=$((passed + 1)); else cat "$work/out"; echo "FAIL train.c under valgrind"; failed=$((failed + 1)); fi
  rm -rf "$work"
}
package() { # builds the Python package
  grep -q '^build python_package:' "$build/build.ninja" || {
    echo "no headers of Python 3.11 (python3-dev): examples in Python were skipped"
    skipped=$((skipped + 1)); return 1; }
  cmake --build "$build" --target python_package >"$build/examples.log" 2>&1 || { tail -20 "$build/examples.log"
    echo "FAIL the Python package does not build"; failed=$((failed + 1)); return 1; }
}
with_packages() { # EXAMPLE CLASS...
  local python name=$1
  shift
  if python=$("$examples/venv.sh" "$build" "$name" 2>&1); then unit "$python" "$@"
  else echo "examples/$name was skipped: $python"; skipped=$((skipped + 1)); fi
}
if [ "$downloads" ]; then
  if package; then
    with_packages text_search TextSearch
    with_packages speech Speech
    with_packages tabular Tabular Training # both need scikit-learn
  fi
else
  add "$("$examples/ops/check.sh" "$build/einkorn" 2>&1)"
  streaming_in_c
  generate_in_c
  train_in_c
  if ! package; then :
  elif python=$("$here/python.sh" "$build" 2>&1); then unit "$python" Classify Train Streaming Generate Distance
  else echo "examples in Python were skipped: $python"; skipped=$((skipped + 1)); fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
