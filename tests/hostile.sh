#!/bin/bash
# Bad input gives one clear error and exit 1, 2 or 3: damaged files by the thousand (tests/tools/hostile.c), and wrong
# arrays for the program's inputs.
#   tests/hostile.sh [-b BUILD] [-n CASES]
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build cases=6000
while getopts b:n: o; do case $o in b) build=$OPTARG;; n) cases=$OPTARG;; *) exit 2;; esac; done
m=$here/models work=$(mktemp -d) passed=0 failed=0 skipped=0
: "${EINKORN_CACHE_DIR:=$work/cache}"; export EINKORN_CACHE_DIR # never the user's own
trap 'rm -rf "$work"' EXIT
out=$("$build/hostile" -n "$cases" "$m"/{mlp_opset12,if_nested,lstm_forward,detector_nms,loop_fixed,functions}.onnx \
  "$m"/{external_data,attention_causal,cnn_opset11,scan_axes,quantize_pair,einsum}.onnx \
  "$here"/golden/graph/*.graph "$here"/golden/expr/*.expr "$here"/../ops/*.ek "$m/mlp_opset12.npz" 2>&1)
if [[ $(tail -1 <<<"$out") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]
then passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}; else failed=1; fi
echo "$out" | sed '$d' | cut -c1-300
refuses() { # WHAT PATTERN ARGUMENTS...: exit 1..3 and a message that fits
  what=$1 pattern=$2; shift 2
  message=$(timeout 60 "$build/einkorn" "$@" 2>&1 >/dev/null)
  code=$?
  if [ $code -ge 1 ] && [ $code -le 3 ] && grep -qE -- "$pattern" <<<"$message"; then passed=$((passed + 1))
  else failed=$((failed + 1)); echo "FAIL $what: exit $code, $message"; fi
}
model=$here/golden/graph/dense.graph
npy() { # FILE TYPE SHAPE BYTES: an array of zeros
  header="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header" >"$1"
  head -c "$4" /dev/zero >>"$1"
}
npy "$work/good.npy" '<f4' '(2, 3)' 24
npy "$work/type.npy" '<i8' '(2, 3)' 48
npy "$work/shape.npy" '<f4' '(2, 5)' 40
npy "$work/rank.npy" '<f4' '(6,)' 24
npy "$work/short.npy" '<f4' '(2, 3)' 20
npy "$work/huge.npy" '<f4' '(4611686018427387904, 3)' 24
"$build/einkorn" run "$model" --input x="$work/good.npy" >/dev/null 2>"$work/err" && passed=$((passed + 1)) ||
  { failed=$((failed + 1)); echo "FAIL a good array: $(cat "$work/err")"; }
refuses "an array of another type" 'x.*f32.*i64' run "$model" --input x="$work/type.npy"
refuses "an array of another shape" 'x.*3.*5' run "$model" --input x="$work/shape.npy"
refuses "an array of another rank" 'x.*f32\[N, 3\].*f32\[6\]' run "$model" --input x="$work/rank.npy"
refuses "a file that is cut off" 'short.npy' run "$model" --input x="$work/short.npy"
refuses "a shape that overflows" 'huge.npy' run "$model" --input x="$work/huge.npy"
refuses "a missing file" 'nowhere' run "$model" --input x="$work/nowhere.npy"
echo 'graph "w" ir 8 opset 17 { input x: f32[n, 1, h, 5]
 y: f32[n, 1, k, 3] = MaxPool(x) {kernel_shape = [3, 3]} "pool"
 z: f32[n, 1, k, 3] = Relu(y) "relu"
 output z }' >"$work/window.graph"
npy "$work/small.npy" '<f4' '(2, 1, 1, 5)' 40
refuses "an input smaller than its window" 'pool.*axis 2.*negative' run "$work/window.graph" --input x="$work/small.npy"
refuses "an unknown input" 'y' run "$model" --input y=zeros
refuses "a missing model" 'nowhere' run "$work/nowhere.onnx"
: >"$work/empty.onnx"
refuses "an empty model" 'empty' run "$work/empty.onnx"
head -c 4000 "$build/einkorn" >"$work/cut.so"
refuses "a library that is cut off" 'cut.so' run "$work/cut.so"
refuses "a folder as the model" '.' run "$work"
refuses "an unwritable result" 'no/such' compile "$model" -o "$work/no/such/m.so"
refuses "a value for a dimension that no array fits" 'x' run "$model" --dim N=3 --input x="$work/good.npy"
refuses "definitions that are no text" '.' run "$model" --ops "$build/einkorn"
# What was found before: each is refused in words, or does what its definition says.
for f in "$here"/hostile/*; do
  message=$(timeout 60 "$build/einkorn" check "$f" --verify 2>&1)
  code=$?
  if [ $code -eq 0 ]; then
    message=$(timeout 60 "$build/einkorn" run "$f" --eval -o "$work/want.npz" -q 2>&1 &&
      timeout 60 "$build/einkorn" run "$f" --no-cache --expect "$work/want.npz" -q 2>&1) && code=0 || code=9
  fi
  if [ $code -le 3 ] && ! grep -q 'internal error' <<<"$message"; then passed=$((passed + 1))
  else failed=$((failed + 1)); echo "FAIL ${f##*/}: exit $code, $message"; fi
done
# Nothing divides by the size of an empty axis that only a run knows.
echo 'graph "g" ir 13 opset 24 { input x: f16[1, 0, 1, 1]
 input s: i64[1]
 const w: f16[1, 0, 1, 1] = []
 const k: i64[4] = [0, 1, 0, 2]
 g = ConstantOfShape(s) "gate"
 h = Cast(g) {to = 10} "cast"
 y = "com.microsoft"::GatedRMSNorm(x, h, w) "norm"
 z = Tile(y, k) "tile"
 output z }' >"$work/empty.graph"
message=$("$build/einkorn" run "$work/empty.graph" --input x=zeros --input s=ones -o "$work/got.npz" 2>&1 &&
  "$build/einkorn" run "$work/empty.graph" --input x=zeros --input s=ones --eval --expect "$work/got.npz" 2>&1) &&
  passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAIL an empty tensor of late sizes: $message"; }
[ -e "$work/m.so" ] && { failed=$((failed + 1)); echo "FAIL something was written"; }
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
