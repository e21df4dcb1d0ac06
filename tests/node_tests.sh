#!/bin/bash
# The standard's own single-node tests, through the evaluator and compiled. They come with the PyPI package onnx (too
# large to keep here); they are generated once into a cache folder.
#   tests/node_tests.sh [-b BUILD] [-j JOBS] [-c CACHE] [-v]        -v: all failures, not only the first 20
# Skipped when there is no python3 with onnx ($PYTHON chooses another) and none can be had (python.sh). All must
# pass but those of node_failures.txt;
# one of these that passes is an error too.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 cache=${XDG_CACHE_HOME:-$HOME/.cache}/einkorn/node_tests verbose=
while getopts b:j:c:v o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; c) cache=$OPTARG;; v) verbose=10000;; *) \
  exit 2;; esac; done
python=$("$here/python.sh" "$build" 2>&1) ||
  { echo "$python: the standard's node tests were skipped"; echo "0 passed, 0 failed, 4 skipped"; exit 0; }
version=$("$python" -c 'import onnx; print(onnx.__version__)')
folder=$cache/$version
if [ ! -e "$folder/done" ]; then
  mkdir -p "$folder"
  "$python" "$here/tools/make_node_tests.py" "$folder" >"$folder/log" 2>&1 && touch "$folder/done" ||
    { tail -5 "$folder/log"; echo "FAIL the node tests of onnx $version were not written"
    echo "0 passed, 1 failed, 3 skipped"; exit 1; }
fi
passed=0 failed=0
all_but_listed() { # WHAT OPTIONS...
  what=$1; shift
  if out=$("$build/nodetest" -l "$here/node_failures.txt" -j "$jobs" "$@" "$folder"/node/* 2>&1)
  then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  grep '^FAIL' <<<"$out" | head -${verbose:-20}
  echo "node tests of onnx $version, $what: $(tail -1 <<<"$out")"
  tail -3 <<<"$out" | grep '^compiled code'
}
all_but_listed "in the evaluator"
all_but_listed "compiled, every second one without folding of constants" -c -a
# what `compile -o NAME.onnx` writes is valid
saved=$(mktemp -d)
for m in "$here"/models/*.onnx; do "$build/einkorn" compile "$m" -o "$saved/${m##*/}" -q >/dev/null ||
  echo "FAIL ${m##*/} as .onnx"; done >"$saved/log" 2>&1
if [ ! -s "$saved/log" ] && "$python" -c 'import onnx, sys
for m in sys.argv[1:]: onnx.checker.check_model(m, full_check=True)' "$saved"/*.onnx >"$saved/log" 2>&1
then passed=$((passed + 1)); else failed=$((failed + 1))
  echo "FAIL saved models are not valid: $(tail -3 "$saved/log")"; fi
rm -rf "$saved"
# The reference of docs/accuracy.md, the evaluator with every float in f64, agrees with onnx.reference in f64 on these
# models. (On others onnx.reference takes seconds, lacks an operator, or differs for a reason: bits of f16, a
# difference of nearly equal numbers, constants that are f32 in one of the two.)
compared=()
for m in activations attention_causal attention_cross attention_operator audio_frontend channel_shuffle \
  cnn_opset{7,13,21} conv1d_tcn conv3d_net conv_geometry conv_transpose crnn decoder_cache deep_chain \
  depthwise_separable detector_head detector_nms einsum experts fourier fully_conv functions \
  group_norm_decomposed grouped_conv gru_bidirectional_lens gru_wide handmade_norms if_nested index_makers \
  large_windows_line layernorm_gelu loop_grow loop_nested lstm_bidirectional_lens lstm_reverse_peephole \
  lstm_stateful many_rows masks_tables matmul_ranks max_unpool mlp_opset{8,12,24} open_windows pad_modes \
  pixel_shuffle pooling prelu_net reductions residual_cnn resize_modes rnn_wide roi_align running_sums scan_rnn \
  scatter short_tiles sliding_rows small_windows softmax_axes softmax_opset11 sort_places split_concat_tree \
  squeeze_excite strided_windows topk transformer_encoder unet vision_transformer wide_windows \
  wide_windows_groups wide_windows_strided
do compared+=("$here/models/$m.onnx"); done
if out=$("$python" -W ignore "$here/tools/reference.py" "$build/einkorn" "${compared[@]}" 2>&1)
then passed=$((passed + 1)); else failed=$((failed + 1)); fi
grep '^FAIL' <<<"$out"
echo "evaluator in f64 against onnx.reference in f64: $(tail -1 <<<"$out")"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
