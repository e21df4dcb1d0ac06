#!/bin/bash
# Is what `einkorn quantize` writes near the f32 model, the same in every engine, and are bad data refused?
#   tests/quantize.sh [-b BUILD]
# Models of tests/models are quantised with their references as data; each result is compared, tensor by tensor, with
# the operators' definitions (`einkorn diff`), and with onnxruntime where python3 ($PYTHON chooses another) has it. With
# it and the digit classifier of EK_TEST_MODELS also the accuracy on real digits is compared with onnxruntime's
# quantiser.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build python=${PYTHON:-python3}
while getopts b: o; do case $o in b) build=$OPTARG;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
einkorn=$build/einkorn passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ok() { passed=$((passed + 1)); }
bad() { echo "FAIL $*"; tail -5 "$work/out"; failed=$((failed + 1)); }
digits=$here/../examples/digits/digits.onnx all=$here/../examples/digits/all.npz
sqnr() { sed -n 's/^ *"sqnr": \([-0-9.e+]*\).*/\1/p' "$work/out" | head -1; } # of the first output

at_least() { awk -v x="$(sqnr)" -v y="$1" 'BEGIN {exit !(x >= y)}'; }
quantised() { # NAME ARGUMENT...: writes NAME.onnx
  local name=$1
  shift
  "$einkorn" quantize "$@" -o "$work/$name.onnx" >"$work/out" 2>&1
}

# ---- every method, with one scale and with many ----
for method in minmax percentile entropy mse; do
  for channels in '' --per-channel; do
    quantised digits "$digits" --data "$all" --method $method $channels --json
    at_least 39 && ok || bad "digits, $method $channels: $(sqnr) dB, at least 39 are expected"
    grep -q '"quantized": 4' "$work/out" && ok || bad "digits, $method $channels: four layers are expected to be int8"
  done
done

# ---- models of all kinds: near the f32 model, and what the definitions say ----
models="cnn_opset7 cnn_opset21 depthwise_separable grouped_conv residual_cnn conv1d_tcn conv3d_net unet open_windows"
models="$models transformer_encoder vision_transformer matmul_ranks einsum mlp_opset12 conv_dynamic_weights lstm_stack"
for m in $models; do
  model=$here/models/$m.onnx
  if quantised "$m" "$model" --data "${model%.onnx}.npz" --per-channel --json && at_least 30; then ok
  else bad "$m: $(sqnr) dB, at least 30 are expected"; continue; fi
  "$einkorn" diff "$work/$m.onnx" --inputs "${model%.onnx}.npz" >"$work/out" 2>&1 && ok || bad "$m: einkorn diff"
done

# ---- weights of a few bits: near the f32 model, the nearer the more bits, and by data nearer than without ----
weights="transformer_encoder vision_transformer mlp_opset12"
for m in $weights; do
  model=$here/models/$m.onnx
  for how in '--bits 8 --block-size 16' '--zero-points' '--accuracy-level 4 --method mse' '--bits 2 --zero-points'; do
    least=11; case $how in *8*) least=36;; *2*) least=-4;; esac
    name=$m.$(tr -dc a-z0-9 <<<"$how")
    if quantised "$name" "$model" --data "${model%.onnx}.npz" --scheme int4 $how --json && at_least $least; then ok
    else bad "$m $how: $(sqnr) dB, at least $least are expected"; continue; fi
    "$einkorn" diff "$work/$name.onnx" --inputs "${model%.onnx}.npz" >"$work/out" 2>&1 && ok || bad "$name: diff"
    few="$few $name"
  done
done
for m in $weights cnn_opset21 unet; do
  model=$here/models/$m.onnx
  if quantised "$m.bf16" "$model" --data "${model%.onnx}.npz" --scheme bf16 --json && at_least 38; then ok
  else bad "$m in bf16: $(sqnr) dB, at least 38 are expected"; continue; fi
  "$einkorn" diff "$work/$m.bf16.onnx" --inputs "${model%.onnx}.npz" >"$work/out" 2>&1 && ok || bad "$m.bf16: diff"
  few="$few $m.bf16"
done
for cache in 'cache_scatter_turned keys=past_keys values=past_values' \
  'cache_scatter_rows keys=past_keys values=past_values' \
  'contrib_cache groupqueryattention_1=past_keys groupqueryattention_2=past_values'; do
  read -r m key value <<<"$cache"
  model=$here/models/$m.onnx
  for channels in '' --per-channel; do
    quantised "$m" "$model" --data "${model%.onnx}.npz" --scheme caches --state $key --state $value --dim L=12 \
      $channels --json && at_least 36 && ok || bad "$m, caches $channels: $(sqnr) dB, at least 36 are expected"
  done
done
for method in minmax gptq; do
  quantised "digits.$method" "$digits" --data "$all" --scheme int4 --method $method --bits 3 --json
  eval "$method=$(sqnr)"
done
awk -v x="$minmax" -v y="$gptq" 'BEGIN {exit !(y >= x + 1)}' && ok ||
  bad "digits of 3 bits: GPTQ $gptq dB, at least 1 above rounding's $minmax is expected"

# ---- data in every form ----
printf 'graph "two" ir 8 opset 17 {\n input a: f32[N, 4]\n input b: f32[4, 2]\n y = MatMul(a, b) "m"\n output y\n}\n' \
  >"$work/two.graph"
header="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 8, 8), }"
npy() { # BYTES, an element
  printf '\223NUMPY\001\000\166\000%-117s\n' "$header"
  for _ in $(seq 128); do printf "$1"; done
}
mkdir "$work/folder" "$work/empty"
npy '\000\000\200\077' >"$work/folder/ones.npy"
npy '\000\000\300\177' >"$work/nan.npy"
says() { grep -qE -- "$1" "$work/out" && ok || bad "no '$1'"; }
quantised any "$digits" --data "$work/folder" --data "$all" --report "$work/r.json" &&
  says 'are int8, by 28 samples'
grep -q '"observed": 28' "$work/r.json" && ok || bad "--report"
quantised any "$digits" --data "$work/nan.npy" && bad "NaN is taken"
says 'tensor [a-z]* has values that are infinite or no numbers'
quantised any "$digits" --data "$work/empty" && bad "an empty folder"
says 'has no data: .npz, .npy or .pb files'
"$einkorn" run "$digits" --inputs "$all" -q -o "$work/scores.npz"
quantised any "$work/two.graph" --data "$work/scores.npz" && bad "other names"
says "no array for input a; .* inputs are a: f32.N, 4., b"
quantised any "$work/two.graph" --data "$work/nan.npy" && bad "one array"
says 'holds one array, the model has 2 inputs'
quantised any "$here/models/mlp_opset12.onnx" --data "$all" && bad "other sizes"
says 'samples of f32.* are expected'

# ---- mistakes are told before the work begins ----
quantised any "$digits" --data "$all" --bits 4 && bad "--bits without the scheme of weights"
says 'bits, --block-size, .* belong to --scheme int4'
quantised any "$digits" --data "$here/quantize.sh" && bad "a script as data"
says 'quantize.sh: samples are read from .npz, .npy and .pb files'
quantised none/any "$digits" --data "$all" && bad "a folder that is not there"
says 'o .*none/any.onnx: cannot write to the folder .*none: No such file'
quantised any "$digits" --data "$all" --report "$work/none/r.json" && bad "no folder for the report"
says 'report .*none/r.json: cannot write to the folder'
cp "$digits" "$work/itself.onnx"
quantised itself "$work/itself.onnx" --data "$all" && bad "onto the model itself"
says 'itself.onnx is the model itself'
cmp "$digits" "$work/itself.onnx" && ok || bad "the model stays as it is"

# ---- onnxruntime ----
if "$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
  for m in digits $models; do
    data=$here/models/$m.npz; [ $m = digits ] && data=$all
    "$python" "$here/tools/quantized_peer.py" same "$einkorn" "$work/$m.onnx" "$data" >"$work/out" 2>&1 && ok ||
      bad "$m: onnxruntime"
  done
  for m in $few; do
    "$python" "$here/tools/quantized_peer.py" same "$einkorn" "$work/$m.onnx" "$here/models/${m%%.*}.npz" \
      >"$work/out" 2>&1 && ok || bad "$m: onnxruntime"
  done
  "$python" "$here/tools/quantized_peer.py" outliers "$einkorn" >"$work/out" 2>&1 && ok || bad "outliers"
  IFS=: read -ra folders <<<"$EK_TEST_MODELS"
  for f in "${folders[@]}"; do
    [ -f "$f/mnist_cnn/mnist.onnx" ] && [ -d "$f/data_mnist" ] || continue
    "$python" "$here/tools/quantized_peer.py" digits "$einkorn" "$f" >"$work/out" 2>&1 && ok || bad "real digits"
  done
else
  echo "no $python with the packages onnx and onnxruntime: quantised models were not compared with onnxruntime"
  skipped=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
