#!/bin/bash
# Models that others made, from the folders in $EK_TEST_MODELS (separated by colons): with all their references as JIT,
# from the cache and as .so, with 1 and 2 threads, as C source, and saved as a model and read again; sequences frame by
# frame with carried state; sizes.
#   tests/foreign.sh [-b BUILD] [-j JOBS]
# A model that is not there is skipped; without EK_TEST_MODELS all are.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2
while getopts b:j: o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; *) exit 2;; esac; done
models="mnist go1_policy keypoint micro_kws_fp32 mixed_ops_dynamic_batch super_resolution fastestdet ultraface_rfb320 \
ultraface_rfb320_simplified ultraface_nms magika_v3_3 dtln_1 dtln_2 silero_vad silero_vad_16k_op15
  sig_bak_ovr resnet50 mobilenet_v2 bert12x384_s128 lstm100x256
  micro_kws_qdq micro_kws_qoperator super_resolution_qdq_a16w8 super_resolution_qoperator_u8s8 \
ultraface_qdq_s8s8_perchannel minilm_int8_dynamic mobilenet_v2_int8 resnet50_int8
  dnsmos_fp16 ultraface_fp16
  bikesharing_preproc lgbm_classifier_tensor linear_classifier sklearn_randomforest_iris treecl xgb_regressor \
cancer_gbt diabetes_rf wine_knn wine_scaler_logreg"
not_as_onnx="sklearn_randomforest_iris" # its output is a map
# model, file of the sequence, its arrays for input 0 and output 0, for the last state, file for further inputs
sequences="silero_vad:silero_vad.seq.npz:frames:prob:final_state:silero_vad.ref.npz \
silero_vad_16k_op15:silero_vad_16k_op15.seq.npz:frames:prob:final_state:silero_vad_16k_op15.ref.npz
  dtln_1:dtln.seq.npz:mag:mask dtln_2:dtln.seq.npz:est:out"
passed=0 failed=0 skipped=0
IFS=: read -ra folders <<<"$EK_TEST_MODELS"
path_of() { [ ${#folders[@]} -gt 0 ] && find -L "${folders[@]}" -name "$1" -print -quit 2>/dev/null; }
add() { # the last line of a tool
  if [[ $(tail -1 <<<"$1") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]
  then p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
  else p=0 f=1 s=0; echo "FAIL a tool ended early: $(tail -1 <<<"$1")"; fi
  grep '^FAIL' <<<"$1"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}
found=()
for m in $models; do
  p=$(path_of "$m.onnx")
  if [ -n "$p" ]; then found+=("$p"); else skipped=$((skipped + 1)); fi
done
if [ ${#found[@]} -gt 0 ]; then
  add "$("$build/models" -j "$jobs" -t 600 -m "jit cache so c" -k "$here/tolerances.txt" "${found[@]}" 2>&1)"
  saved=()
  for p in "${found[@]}"; do [[ " $not_as_onnx " == *" $(basename "$p" .onnx) "* ]] || saved+=("$p"); done
  add "$("$build/models" -j "$jobs" -t 300 -m onnx -k "$here/tolerances.txt" "${saved[@]}" 2>&1)"
fi
for s in $sequences; do
  IFS=: read -r m file in out final ref <<<"$s"
  p=$(path_of "$m.onnx") f=$(path_of "$file")
  if [ -z "$p" ] || [ -z "$f" ]; then skipped=$((skipped + 1)); continue; fi
  [ -n "$ref" ] && ref=$(path_of "$ref")
  add "$("$build/sequence" "$p" "$f" "$in" "$out" ${final:+"$final"} ${ref:+"$ref"} 2>&1 | sed "s|^FAIL|FAIL $m \
    sequence|")"
done
# ---- states: in the program text nothing copies the old value of a state, or to the new one ----
no_copies() { # MODEL OUTPUT=INPUT [DIM]
  local p text copies
  p=$(path_of "$1.onnx")
  if [ -z "$p" ]; then skipped=$((skipped + 1)); return; fi
  text=$("$build/einkorn" show "$p" --state "$2" ${3:+--dim "$3"} --stage program) &&
    grep -q "^state .* \(in place\|exchanged\)$" <<<"$text" || { failed=$((failed + 1)); echo "FAIL $1: no state"
    return; }
  # launches whose only buffers are one that is read and one that is written, one of them the state's
  copies=$(awk '/^buffer .*: input .* number / { in_buffer = $2 } /^buffer .*: output .* number / { named[$NF] = $2 }
      /^output / { outputs++ } /launch / { launches[++n] = $0 } END {
      sub(":", "", in_buffer); state = named[outputs - 1]; sub(":", "", state)
      for (i = 1; i <= n; i++) { l = launches[i]; sub(/.*\(/, "", l); sub(/\).*/, "", l)
        if (split(l, a, ", ") == 2 && (a[1] == in_buffer || a[2] == "out " state)) print launches[i] } }' <<<"$text")
  if [ -z "$copies" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $1: $copies"; fi
}
no_copies silero_vad stateN=state state.1=1
no_copies silero_vad_16k_op15 stateN=state
no_copies dtln_1 tf_op_layer_stack_2=input_3
no_copies dtln_2 tf_op_layer_stack_5=input_5
# ---- sizes: what the program may come to ----
at_most() { # WHAT VALUE LIMIT
  if [ "$2" -le "$3" ] 2>/dev/null; then passed=$((passed + 1)); else echo "FAIL $1 is $2, at most $3 is expected"
    failed=$((failed + 1)); fi
}
number() { sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" | head -1; }
# borders filled with zeros are no kernels of the model
kernels() { "$build/einkorn" show "$1" --stage program 2>/dev/null | grep 'launch ' | grep -vc '# halo of'; }
p=$(path_of fastestdet.onnx)
if [ -n "$p" ]; then
  work=$(mktemp -d)
  json=$("$build/einkorn" compile "$p" -o "$work/m.so" --json 2>/dev/null)
  rm -rf "$work"
  at_most "fastestdet.so less its weights in bytes" \
    $(($(number file_bytes <<<"$json") - $(number weight_bytes <<<"$json"))) 300000
  convs=$("$build/einkorn" show "$p" | grep -c '= Conv(')
  at_most "fastestdet: number of kernels ($convs convolutions)" "$(kernels "$p")" $((convs + 18))
else skipped=$((skipped + 2)); fi
p=$(path_of bert12x384_s128.onnx)
if [ -n "$p" ]; then at_most "bert12x384_s128: number of kernels" "$(kernels "$p")" 112; else skipped=$((skipped + 1))
  fi
[ -z "$EK_TEST_MODELS" ] && echo "EK_TEST_MODELS is not set: $skipped tests on foreign models were skipped"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
