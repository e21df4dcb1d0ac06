#!/bin/bash
# Weights in the memory of the compiler: a model of 3 GiB is checked without reading them; compiling and saving takes
# little more than what the weights themselves take; a saved library may have more of them than an
# instruction reaches.
#   tests/weights.sh [-b BUILD] [-l]       -l: also saves the 3 GiB, as a library and as a model, which takes a minute
#   and as much of the disk twice
# weights/big.onnx: three MatMul by matrices of 1 GiB, kept in big.data; cache/matrix.onnx: one by a matrix of 64 MiB,
# kept in matrix.bin;
# weights/bytes.onnx: four by matrices of 16 MiB of i8 with a scale, kept in bytes.bin. The files are made here.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build large=
while getopts b:l o; do case $o in b) build=$OPTARG;; l) large=1;; *) exit 2;; esac; done
build=$(cd "$build" && pwd)
einkorn=$build/einkorn
work=$(mktemp -d "${TMPDIR:-/tmp}/einkorn-weights.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
ok() { # WHAT COMMAND...: it must succeed
  local what=$1; shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $what"; tail -5 "$work/log"; fi
}
closing() { echo "$passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
cmake --build "$build" --target usage >"$work/log" 2>&1 || { ok "the tool builds" false; closing; }
mb= ms= code=
take() { # WHAT MEGABYTES COMMAND...: it must succeed with at most so much memory
  local what=$1 most=$2; shift 2
  read -r mb ms code < <("$build/usage" "$einkorn" "$@" 2>"$work/log")
  ok "$what" [ "${code:-1}" -eq 0 ]
  ok "$what: $mb MB, $most are allowed" [ "${mb:-1000000}" -le "$most" ]
}

# ---- 3 GiB that nobody wants ----
cp "$here/weights/big.onnx" "$work/"
truncate -s 3G "$work/big.data"
take "check" 100 check "$work/big.onnx"
ok "check takes $ms ms of the processor, 1000 are allowed" [ "${ms:-1000000}" -le 1000 ]
take "info" 100 info "$work/big.onnx"
ok "info takes $ms ms, 1000 are allowed" [ "${ms:-1000000}" -le 1000 ]
take "show --stage loop" 100 show "$work/big.onnx" --stage loop

# ---- 64 MiB: 1.5 times that and 100 MB to compile; once and 100 MB to save ----
cp "$here/cache/matrix.onnx" "$work/"
head -c 67108864 /dev/urandom >"$work/matrix.bin"
take "check" 40 check "$work/matrix.onnx"
ok "check takes $ms ms, 100 are allowed" [ "${ms:-1000000}" -le 100 ]
take "run" 196 run "$work/matrix.onnx" --no-cache
for x in so o c; do take "compile -o m.$x" 164 compile "$work/matrix.onnx" -o "$work/m.$x"; done
"$einkorn" run "$work/matrix.onnx" --no-cache --output "$work/a.npz" >"$work/log" 2>&1
ok "the library computes the same" bash -c \
  "'$einkorn' run '$work/m.so' --dim N=1 --output '$work/b.npz' >'$work/log' 2>&1 && cmp '$work/a.npz' '$work/b.npz'"
ok "the library has its weights once" [ "$(stat -c %s "$work/m.so")" -lt 68500000 ]
if command -v strip >/dev/null; then
  ok "strip" strip -o "$work/s.so" "$work/m.so"
  ok "leaves the weights" bash -c \
    "'$einkorn' run '$work/s.so' --dim N=1 --output '$work/b.npz' >'$work/log' 2>&1 && cmp '$work/a.npz' '$work/b.npz'"
else
  skipped=$((skipped + 2))
fi
if command -v ld >/dev/null; then # another linker
  mkdir "$work/bin" && ln -s "$(command -v ld)" "$work/bin/ld"
  for x in so o; do ok "ld makes .$x" env PATH="$work/bin" "$einkorn" compile "$work/matrix.onnx" -o \
    "$work/g.$x" >"$work/log" 2>&1; done
  ok "its library computes the same" bash -c \
    "'$einkorn' run '$work/g.so' --dim N=1 --output '$work/b.npz' >'$work/log' 2>&1 && cmp '$work/a.npz' '$work/b.npz'"
else
  skipped=$((skipped + 3))
fi
if command -v gcc >/dev/null; then # an object that is linked on
  printf '#include "m.h"\nint main(void) {\n  const ek_rt_model *m = m_info();\n  unsigned long s = 0;\n  for '\
'(int64_t i = 0; i < m->weight_bytes; i++) s += m->weights[i];\n  return s < 1000000000 || m->weight_bytes < '\
'67108864 || m->weight_bytes > 68000000;\n}\n' >"$work/u.c"
  ok "gcc links the object" gcc -I"$work" "$work/u.c" "$work/m.o" -lm -lpthread -o "$work/u" 2>"$work/log"
  ok "and finds the weights" "$work/u"
else
  skipped=$((skipped + 2))
fi
rm -f "$work"/m.* "$work"/g.* "$work"/s.so

# ---- 64 MiB of bytes, which are multiplied as floats ----
cp "$here/weights/bytes.onnx" "$work/"
mv "$work/matrix.bin" "$work/bytes.bin"
for x in so o c; do take "compile -o b.$x" 196 compile "$work/bytes.onnx" -o "$work/b.$x"; done
rm -f "$work"/b.*

# ---- 3 GiB that are saved ----
if [ -n "$large" ]; then
  # else one would do for all
  for i in 0 1 2; do printf "\\x0$((i + 1))" |
    dd of="$work/big.data" bs=1 seek=$((i * 1073741824 + 2000000)) conv=notrunc 2>/dev/null; done
  take "3 GiB" 3172 compile "$work/big.onnx" -o "$work/m.so" --dim N=1
  ok "are there" [ "$(stat -c %s "$work/m.so")" -gt 3221225472 ]
  take "and run" 3172 run "$work/m.so"
  rm -f "$work"/m.*
  take "3 GiB as a model" 3172 compile "$work/big.onnx" -o "$work/m.onnx"
  ok "whose constants lie beside it" cmp -s "$work/big.data" "$work/m.onnx.data"
  take "which is good" 100 check "$work/m.onnx"
fi
closing
