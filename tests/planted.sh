#!/bin/bash
# Do the tests see a compiler that goes wrong? A build plants faults (EK_PLANTED in the source: in every pass, family of
# schedules, emitter, in the memory plan, gradients, shapes, sizes and the cache); with each of them in
# turn some test must fail, and without the fault the same test must not. tests/planted.txt says which test sees which
# fault; it is tried first, then all others from quick to slow.
#   tests/planted.sh [-b BUILD] [-j JOBS] [-n] [-r SECONDS] [-u] [-v] [FAULT...]        BUILD-planted is made beside
#   BUILD; -n only looks whether all that decides has a fault, and each fault its line in planted.txt; -v shows what
#   each test says, and how long it took; -u writes planted.txt anew, each time the smallest part of a test that sees
#   the fault: one test of a unit test program, one golden text, one model in one mode. -r: which faults do random
#   models (build/random_models) find alone, in so many seconds for each? Of all faults it must be 30
# The build asks the environment for the fault, so it is one build, and a fault takes as long as the test that sees it.
here=$(cd "$(dirname "$0")" && pwd)
src=$here/../src
build=$here/../build jobs=2 update= verbose= look= random= few=30
while getopts b:j:nr:uv o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; n) look=1;; r) random=$OPTARG;; u) \
  update=1;; v) verbose=1;; *) exit 2;; esac; done
shift $((OPTIND - 1))
build=$(cd "$build" && pwd) || exit 2
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAIL $*"; }

# ---- every pass, and every file that decides something, has a fault of its own ----
names=$(grep -rhoE 'EK_PLANTED\("[^"]+"\)' "$src" | sed 's/.*("\(.*\)")/\1/' | sort -u)
for pass in $("$build/einkorn" show --help | sed -n 's/^  expr  *\([a-z]*\) .*/\1/p' | grep -v '^lower$' | sort -u); do
  if grep -qE "^$pass(-|$)" <<<"$names"; then ok; else bad "no fault is planted in the pass $pass"; fi
done
for f in "$src"/rewrite/{simplify,simplify_reduce,scalar}.c "$src"/passes/pass_*.c "$src"/fusion/{fuse,pairs}*.c \
  "$src"/cost/{bilinear,block,code,fusion,lane,threads,tile,window}.c \
  "$src"/schedule/*.c "$src"/grad/{adjoint,chain,control,hoist,invert,recurrence,stated,value}.c \
  "$src"/program/{build,main,memory,size,weights}.c "$src"/codegen/llvm/{emit,mem,op}.c "$src"/codegen/emit/batch.c \
  "$src"/codegen/x86/{allocate,build,cast,encode,memory,op,select,value}.c "$src"/codegen/c/*.c \
  "$src"/loop/{expand,fold,hoist,math,small}.c "$src"/notation/{cost,point,shapes}.c \
    "$src"/sym/{bound,div,facts,pick,prove,range,subst}.c \
    "$src"/driver/{cache_*,lower_flow,lower_gradient,lower_list,lower_loop,lower_variant}.c \
    "$src"/codegen/image/{library,link}.c \
    "$src"/onnx/{expand,tensor,trees,upgrade,write}.c "$src"/quantize/*.c; do
  if grep -q 'EK_PLANTED("' "$f"; then ok; else bad "no fault is planted in ${f#"$src"/}"; fi
done
# ---- the following of each schedule primitive has a fault, too ----
for primitive in $(sed -n 's/^ *\[P_[A-Z]*\] = {"\([a-z]*\)", OF_.*/\1/p' "$src/schedule/record.c"); do
  if grep -qx "follow-$primitive" <<<"$names"; then ok
  else bad "no fault is planted where the primitive $primitive is followed"; fi
done
for fault in $names; do
  if grep -q "^$fault " "$here/planted.txt"; then ok
  elif [ -z "$update" ]; then bad "$fault has no line in tests/planted.txt (tests/planted.sh -u $fault)"; fi
done
closing() { echo "$passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
[ -z "$look" ] || closing

build=$build-planted
cmake -S "$here/.." -B "$build" -G Ninja -DEK_PLANTS=ON >"$build.log" 2>&1 &&
  cmake --build "$build" -j "$jobs" --target all models grad_models random_models >>"$build.log" 2>&1 ||
  { tail -30 "$build.log"; echo "FAIL the build with planted faults"; failed=$((failed + 1)); closing; }
work=$(mktemp -d "$build/XXXXXX")
trap 'rm -rf "$work"' EXIT
export here build work verbose update random

# ---- the tests: a word, and what it is to look at; all of them, or of a unit test program what `: PATTERN` names ----
run() { # TEST, as one word
  local what=${1%% *} rest= only= m
  [ "$what" = "$1" ] || rest=${1#* }
  if [ "$what" = unit ]; then
    case $rest in *': '*) only=${rest#*: } rest=${rest%%: *};; esac
    [ -z "$only" ] || export EK_TEST=$only
    set -o pipefail # one failure is enough: sed ends, and with it the test
    for m in $rest; do "$build/$m" 2>&1 | sed -u '/^\[  FAILED  \]/q1; s/\] 0 test(s) run.*/& FAIL no such test/
      /FAIL no such test/q1' || return; done
    return
  fi
  set -- $rest
  case $what in
  golden) "$here/golden.sh" -e "$build/einkorn" ${1:+$(printf "$here/golden/%s\n" "$@")};;
  starts) "$here/cache.sh" -b "$build";;
  table) "$build/einkorn" ops --table | diff -q - "$here/../docs/operators.md";;
  random) "$build/random_models" -f -j 1 -n 100000 -t $((random - random / 2)) &&
    "$build/random_models" -f -j 1 -n 100000 -t $((random / 2)) -z 24;; # larger sizes
  gradients) "$build/grad_models" $(printf "$here/models/%s.onnx\n" "$@");;
  # modes of tests/tools/models.c: jit, passes+jit, c, ..
  *) [ "$1" != all ] || set -- $(cd "$here/models" && basename -s .onnx *.onnx)
    "$build/models" -j 1 -t 20 -m "${what//+/ }" $(printf "$here/models/%s.onnx\n" "$@");;
  esac
}
# FAULT, or none, and a test: does it pass? If not, the first line that says so is printed. One that never ends, or
# takes all memory or disk, is no pass.
passes() {
  local tmp=$work/tmp.$BASHPID code
  mkdir -p "$tmp" || return 0 # nothing was tried
  (
    cd "$build" && ulimit -v 16000000 -f 500000 &&
      EK_PLANT=$1 EINKORN_CACHE_DIR=$tmp/cache timeout -k 5 600 bash -c 'run "$1"' run "$2" >"$tmp/out" 2>&1 </dev/null
  )
  code=$?
  [ "$code" -eq 0 ] || grep -am1 -E '^FAIL|\[  FAILED| FAIL ' "$tmp/out"
  rm -rf "$tmp"
  return $code
}
sound() { # TEST: does it pass without a fault? One that fails anyway sees nothing. It is asked once.
  local f
  f=$work/sound.$(md5sum <<<"$1") f=${f%% *}
  (
    flock 9
    [ -s "$f" ] || if passes none "$1" >"$f.said"; then echo "good $1" >"$f"; else
      echo "bad '$1' without a fault: $(cat "$f.said")" >"$f"; fi
  ) 9>"$f.lock"
  grep -q ^good "$f"
}
parts() { # TEST SAID: smaller tests, one a line, of what it said when it failed
  local what=${1%% *} a b name m
  read -r _ a b _ <<<"$2" # FAIL NAME MODE ..
  a=${a%:} a=${a%.onnx}
  case $what in
  unit) name=$(sed -n 's/^\[  FAILED  \] //p' <<<"$2")
    [ ${#name} -le 60 ] || name=${name:0:60}*
    [ -z "$name" ] || for m in $(sed 's/^unit //; s/: .*//' <<<"$1"); do echo "unit $m: $name"; done;;
  golden | gradients) echo "$what ${a#golden/}";;
  *) [ -z "$b" ] || echo "$b $a";;
  esac
}
one() { # FAULT: which test sees it? A line `fault test` goes to the results
  local fault=$1 known t whole part said from=$EPOCHREALTIME
  [ "$random" ] || known=$(sed -n "s/^$fault  *//p" "$here/planted.txt")
  while read -r t; do
    [ "$t" ] || continue
    said=$(passes "$fault" "$t") && continue
    [ "$update" ] && [[ $said == *'no such test' ]] && continue
    whole=$t
    [ -z "$update" ] || while read -r part; do
      said=$(passes "$fault" "$part") || { [[ $said != *'no such test' ]] && sound "$part" && t=$part && break; }
    done < <(parts "$t" "$said")
    [ "$t" != "$whole" ] || sound "$t" || continue
    printf '%-24s %s\n' "$fault" "$t" >>"$work/seen"
    [ "$random$update" ] || [ "$t" = "$known" ] ||
      echo "$fault: seen by '$t', not by '$known' (tests/planted.sh -u $fault)"
    [ -z "$verbose" ] || awk -v from="$from" -v to="$EPOCHREALTIME" -v said="$fault: $t: $said" \
      'BEGIN { printf "%6.1f s  %.180s\n", to - from, said }'
    return
  done < <(awk '!had[$0]++' <(echo "$known"; sed 's/: .*//' <<<"$known") "$work/tests")
  echo "$fault" >>"$work/unseen"
}
export -f run passes sound parts one

cat >"$work/tests" <<'END'
unit test_passes
unit test_notation test_onnx test_expr test_instance
unit test_lists test_sizes test_domain test_bilinear
unit test_loop
unit test_program
unit test_schedule
unit test_record test_candidates test_refusals
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
[ -z "$random" ] || echo random >"$work/tests"
touch "$work"/{seen,unseen}

# ---- with each fault ----
[ $# -eq 0 ] || few=0
[ $# -gt 0 ] || set -- $names
printf '%s\n' "$@" | xargs -P "$jobs" -d '\n' -I{} bash -c 'one "$1"' one {}
while read -r good t; do if [ "$good" = good ]; then ok; else bad "$t"; fi
done < <(find "$work" -name 'sound.*' ! -name '*.*.*' -exec cat {} +)
while read -r t; do ok; done <"$work/seen"
if [ "$random" ]; then
  echo "random models find $(wc -l <"$work/seen") of $# faults:" $(sort "$work/seen" | cut -d' ' -f1)
  [ "$(wc -l <"$work/seen")" -ge "$few" ] || bad "$few faults should be found by random models alone"
  closing
fi
while read -r fault; do bad "no test sees the fault $fault"; done <"$work/unseen"
if [ "$update" ]; then
  { echo '# Which test sees which planted fault (tests/planted.sh -u).'
    { grep -v '^#' "$here/planted.txt" 2>/dev/null | grep -vE "^($(printf '%s|' "$@")-) "; cat "$work/seen"; } |
    sort -u; } >"$work/table"
  cp "$work/table" "$here/planted.txt"
fi
closing
