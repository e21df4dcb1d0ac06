#!/bin/bash
# Threads under a checker: the pool's own tests, then models saved as C, in 8 threads at once with their own pools and a
# shared one, all built with -fsanitize=thread. And one model under valgrind's memcheck, where it is
# installed (code made in the process does not come from a compiler that could add checks).
#   tests/tsan.sh [-b BUILD] [-t SECONDS] [-l] [MODEL...]          SECONDS of running, divided among the models (10);
#   -l: one of them, with kernels in parallel, also for a whole minute
# Last line: `N passed, N failed, N skipped`.
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=$root/build seconds=10 long=
while getopts b:t:l o; do case $o in b) build=$OPTARG;; t) seconds=$OPTARG;; l) \
  long=$here/models/transformer_encoder.onnx;; *) exit 2;; esac; done
shift $((OPTIND - 1))
build=$(cd "$build" && pwd) || exit 2
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAIL $*"; }
skip() { skipped=$((skipped + 1)); echo "skipped: $*"; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
closing() { echo "$passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
export TSAN_OPTIONS="halt_on_error=0 exitcode=66 second_deadlock_stack=1 $TSAN_OPTIONS"
cc=${CC:-cc}
flags="-std=c17 -D_GNU_SOURCE -O1 -g -fsanitize=thread -I$root/src"
printf 'int main(void) { return 0; }\n' >"$tmp/t.c"
if ! $cc $flags "$tmp/t.c" -o "$tmp/t" 2>/dev/null || ! "$tmp/t"; then skip "no ThreadSanitizer"; closing; fi

# ---- the pool ----
if ! $cc $flags "$here/unit/test_pool.c" "$root/src/runtime/embedded.c" "$root"/src/base/*.c -o "$tmp/pool" -lcmocka \
  -lpthread -lm -lz -lmd >"$tmp/log" 2>&1; then bad "test_pool does not build"; head -20 "$tmp/log"
elif timeout 600 "$tmp/pool" >"$tmp/log" 2>&1; then ok
else bad "test_pool"; grep -v '^\[ \(RUN\|     OK\)' "$tmp/log" | head -60; fi

# ---- kernels ----
models=("$@")
[ ${#models[@]} -gt 0 ] || for m in mlp_opset12 cnn_opset17 conv_geometry conv_transpose attention_causal lstm_forward \
  gru_wide normalisations pooling transformer_encoder resize_modes scatter topk detector_nms scan_axes loop_fixed \
  quantize_pair einsum reductions; do
  [ -f "$here/models/$m.onnx" ] && models+=("$here/models/$m.onnx")
done
[ $# -gt 0 ] || models+=("$root/examples/digits/digits.onnx")
each=$(awk "BEGIN { print $seconds / ${#models[@]} }")
for m in "${models[@]}" ${long:+"$long"}; do
  name=$(basename "${m%.*}")
  [ -e "$tmp/$name.c" ] && each=60 # the second time
  if ! "$build/einkorn" compile "$m" -o "$tmp/$name.c" >"$tmp/log" 2>&1; then bad "$name: no C"; head -5 "$tmp/log"
    continue; fi
  id=$(sed -n 's/^const ek_rt_model \*\([A-Za-z0-9_]*\)_info(void);.*/\1/p' "$tmp/$name.c" | head -1)
  if ! $cc $flags -include runtime/runtime.h -c "$tmp/$name.c" -o "$tmp/model.o" >"$tmp/log" 2>&1 ||
    ! $cc $flags -DINFO="${id}_info" "$here/tsan/threads.c" "$tmp/model.o" \
      "$root/src/runtime/embedded.c" -o "$tmp/run" -lpthread >>"$tmp/log" 2>&1
  then bad "$name does not build"; head -20 "$tmp/log"; continue; fi
  timeout $(awk "BEGIN { print int($each) + 600 }") "$tmp/run" "$each" 8 >"$tmp/log" 2>&1
  rc=$?
  case $rc in
    0) ok; [ "$each" != 60 ] || echo "$name: $(head -1 "$tmp/log") in a minute" ;;
    77) skip "$name: $(head -1 "$tmp/log")" ;;
    *) bad "$name (exit $rc)"; head -60 "$tmp/log" ;;
  esac
done

# ---- memcheck: import, compilation by the evaluator's way, and native code of the plainest target ----
if [ -z "$(command -v valgrind)" ]; then skip "valgrind is not installed"
else
  v() { valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$@" >"$tmp/log" 2>&1; }
  if v "$build/einkorn" run "$root/examples/digits/digits.onnx" --eval --dim N=1; then ok
    else bad "memcheck: run --eval"; tail -30 "$tmp/log"; fi
  "$build/einkorn" compile "$root/examples/digits/digits.onnx" -o "$tmp/d.c" >/dev/null 2>&1
  if $cc -std=c17 -D_GNU_SOURCE -O1 -g -I"$root/src" -DINFO=d_info -include runtime/runtime.h "$here/tsan/threads.c" \
    "$tmp/d.c" "$root/src/runtime/embedded.c" -o "$tmp/mem" -lpthread && v "$tmp/mem" 1 4; then ok
  else bad "memcheck: kernels and pool"; tail -30 "$tmp/log"; fi
fi
closing
