#!/bin/bash
# Do the tests see a compiler that goes wrong? A build plants faults (EK_PLANTED in the source: in every pass, family of
# schedules, emitter, in the memory plan, gradients, shapes, sizes and the cache); with each of them in
# turn some test must fail, and without a fault none. tests/planted.txt says which test sees which fault; it is tried
# first, then all others from quick to slow.
#   tests/planted.sh [-b BUILD] [-j JOBS] [-u] [-v] [FAULT...]        BUILD-planted is made beside BUILD; -u writes
#   planted.txt anew; -v shows what each test says
# The build asks the environment for the fault, so it is one build, and a fault takes as long as the test that sees it.
here=$(cd "$(dirname "$0")" && pwd)
src=$here/../src
build=$here/../build jobs=2 update= verbose=
while getopts b:j:uv o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; u) update=1;; v) verbose=1;; *) \
  exit 2;; esac; done
shift $((OPTIND - 1))
build=$(cd "$build" && pwd) || exit 2
build=$build-planted
cmake -S "$here/.." -B "$build" -G Ninja -DEK_PLANTS=ON >"$build.log" 2>&1 &&
  cmake --build "$build" -j "$jobs" --target all models grad_models >>"$build.log" 2>&1 ||
  { tail -30 "$build.log"; echo "FAIL the build with planted faults"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
work=$(mktemp -d "$build/XXXXXX")
trap 'rm -rf "$work"' EXIT
export here build work verbose
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAIL $*"; }

# ---- the tests: a word, and what it is to look at ----
run() {
  local what=$1 m
  shift
  case $what in
  unit) set -o pipefail # one failure is enough: sed ends, and with it the test
    for m; do "$build/$m" 2>&1 | sed -u '/^\[  FAILED  \]/q1' || return; done;;
  golden) "$here/golden.sh" -e "$build/einkorn" $(printf "$here/golden/%s\n" "$@");;
  starts) "$here/cache.sh" -b "$build";;
  table) "$build/einkorn" ops --table | diff -q - "$here/../docs/operators.md";;
  gradients) "$build/grad_models" $(printf "$here/models/%s.onnx\n" "$@");;
  # modes of tests/tools/models.c: jit, passes+jit, c, ..
  *) [ "$1" != all ] || set -- $(cd "$here/models" && basename -s .onnx *.onnx)
    "$build/models" -j 1 -t 100 -m "${what//+/ }" $(printf "$here/models/%s.onnx\n" "$@");;
  esac
}
# FAULT, or none, and a test: does it pass? One that never ends, or takes all memory or disk, is no pass.
passes() {
  local fault=$1 tmp=$work/tmp.$BASHPID code
  shift
  mkdir -p "$tmp" || return 0 # nothing was tried
  (
    cd "$build" && ulimit -v 16000000 -f 500000 &&
      export EK_PLANT=$fault EINKORN_CACHE_DIR=$tmp/cache here build work &&
      timeout -k 5 600 bash -c "$(declare -f run); run $*" >"$tmp/out" 2>&1 </dev/null
  )
  code=$?
  [ "$code" -eq 0 ] || [ -z "$verbose" ] || grep -m1 -E '^FAIL|\[  FAILED|^\[  ERROR' "$tmp/out" | cut -c1-150
  rm -rf "$tmp"
  return $code
}
one() { # FAULT: which test sees it? A line `fault test` goes to the results
  local fault=$1 known t said
  known=$(sed -n "s/^$fault  *//p" "$here/planted.txt")
  while read -r t; do
    [ "$t" ] || continue
    grep -qxF "$t" "$work/sound" || continue # one that fails anyway sees nothing
    said=$(passes "$fault" "$t") && continue
    printf '%-24s %s\n' "$fault" "$t" >>"$work/seen"
    [ -z "$verbose" ] || echo "$fault: $t: $said"
    return
  done < <(echo "$known"; grep -vxF "$known" "$work/tests")
  echo "$fault" >>"$work/unseen"
}
without() { if passes none "$1"; then echo "$1" >>"$work/sound"; else echo "$1" >>"$work/unsound"; fi; }
export -f run passes one without

cat >"$work/tests" <<'END'
unit test_passes
unit test_notation test_onnx
unit test_lists
unit test_loop
unit test_program
unit test_schedule
unit test_codegen
unit test_sym
unit test_loop_math
unit test_kernels
unit test_grad
golden
passes+jit mlp_opset12 cnn_opset11 lstm_forward attention_causal if_nested scan_axes einsum pad_modes
passes+jit conv_transpose split_concat_tree scatter views larger_than_blocks
passes+jit late_sizes loop_until loop_grow loop_nested cnn_opset9 index_makers detector_nms topk quantize_pair
passes+jit float16_net unet cnn_opset17 loop_shrink activations
c mlp_opset12 views integers index_makers
likely dynamic_batch_cnn late_sizes
gradients mlp_opset12 cnn_opset17 loop_fixed if_nested scatter lstm_forward
starts
table
cache float64_net activations mlp_opset12
so mlp_opset12
passes+jit if_sizes if_found
passes+jit all
unit test_codegen_ops
onnx cnn_opset9 if_nested loop_fixed external_data quantize_pair
unit test_cache
unit test_weights
unit test_limits test_lists test_api
END
touch "$work"/{sound,unsound,seen,unseen}
grep -v '^#' "$here/planted.txt" 2>/dev/null | sed 's/^[^ ]*  *//' | grep . | cat - "$work/tests" |
  awk '!had[$0]++' >"$work/all"
if [ ! -s "$here/planted.txt" ]; then cp "$work/all" "$work/check"; else grep -v '^#' "$here/planted.txt" |
  sed 's/^[^ ]*  *//' | sort -u >"$work/check"; fi

# ---- every pass, and every file that decides something, has a fault of its own ----
names=$(grep -rhoE 'EK_PLANTED\("[^"]+"\)' "$src" | sed 's/.*("\(.*\)")/\1/' | sort -u)
for pass in $("$build/einkorn" show --help | sed -n 's/^  expr  *\([a-z]*\) .*/\1/p' | grep -v '^lower$' | sort -u); do
  if grep -qE "^$pass(-|$)" <<<"$names"; then ok; else bad "no fault is planted in the pass $pass"; fi
done
for f in "$src"/rewrite/{simplify,simplify_reduce,scalar}.c "$src"/passes/pass_*.c "$src"/fusion/{fuse,pairs}*.c \
  "$src"/schedule/*.c "$src"/grad/{adjoint,chain,control,hoist,invert,recurrence,stated,value}.c \
  "$src"/program/{build,main,memory,size,weights}.c "$src"/codegen/llvm/{emit,mem,op}.c "$src"/codegen/emit/batch.c \
  "$src"/codegen/x86/{allocate,build,cast,encode,memory,op,select,value}.c "$src"/codegen/c/*.c \
  "$src"/loop/{expand,fold,math,small}.c "$src"/notation/{cost,point,shapes}.c \
    "$src"/sym/{bound,div,facts,pick,prove,range,subst}.c \
    "$src"/driver/{cache_*,lower_flow,lower_list,lower_loop,lower_variant}.c "$src"/codegen/image/{library,link}.c \
    "$src"/onnx/{expand,tensor,trees,upgrade,write}.c; do
  if grep -q 'EK_PLANTED("' "$f"; then ok; else bad "no fault is planted in ${f#"$src"/}"; fi
done

# ---- without a fault, then with each ----
xargs -P "$jobs" -d '\n' -I{} bash -c 'without "$1"' without {} <"$work/check"
while read -r t; do ok; done <"$work/sound"
while read -r t; do bad "'$t' without a fault"; done <"$work/unsound"
[ $# -gt 0 ] || set -- $names
printf '%s\n' "$@" | xargs -P "$jobs" -d '\n' -I{} bash -c 'one "$1"' one {}
if [ -s "$work/unseen" ] && ! cmp -s "$work/check" "$work/all"; then # the tests that the table does not name
  grep -vxF -f "$work/check" "$work/all" | xargs -P "$jobs" -d '\n' -I{} bash -c 'without "$1"' without {}
  mv "$work/unseen" "$work/again" && touch "$work/unseen"
  xargs -P "$jobs" -d '\n' -I{} bash -c 'one "$1"' one {} <"$work/again"
fi
while read -r t; do ok; done <"$work/seen"
while read -r fault; do bad "no test sees the fault $fault"; done <"$work/unseen"
if [ "$update" ]; then
  { echo '# Which test sees which planted fault (tests/planted.sh -u).'
    { grep -v '^#' "$here/planted.txt" 2>/dev/null | grep -vE "^($(printf '%s|' "$@")-) "; cat "$work/seen"; } |
    sort -u; } >"$work/table"
  cp "$work/table" "$here/planted.txt"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
