#!/bin/bash
# Errors of compiled code, compared with what docs/accuracy.md says: functions, sums, random networks, the models of
# tests/models, and models that others made, from the folders in $EK_TEST_MODELS (separated by colons).
#   tests/accuracy.sh [-b BUILD] [-u] [-f]       -u: writes the page instead, with some models that take longer; it
#   needs all of them. -f: functions at every f32, too (otherwise every 509th, or as the page has them)
# A model that is not there is skipped; without EK_TEST_MODELS all of others are.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build update= options=(-a)
while getopts b:uf o; do
  case $o in b) build=$OPTARG;; u) update=1 options+=(-u);; f) options+=(-f);; *) exit 2;; esac
done
models="mnist go1_policy micro_kws_fp32 mixed_ops_dynamic_batch fastestdet ultraface_rfb320 magika_v3_3 dtln_1 dtln_2 \
silero_vad silero_vad_16k_op15 micro_kws_qdq micro_kws_qoperator linear_classifier lgbm_classifier_tensor treecl \
xgb_regressor cancer_gbt diabetes_rf wine_knn wine_scaler_logreg"
[ "$update" ] && models="$models super_resolution minilm_int8_dynamic ultraface_fp16"
IFS=: read -ra folders <<<"$EK_TEST_MODELS"
found=() missing=0
for m in $models; do
  p=
  [ ${#folders[@]} -gt 0 ] && p=$(find -L "${folders[@]}" -name "$m.onnx" -print -quit 2>/dev/null)
  if [ -n "$p" ]; then found+=("$p"); else missing=$((missing + 1)); fi
done
[ -z "$update" ] || cmake --build "$build" --target accuracy >/dev/null || exit 1
[ "$update" ] && [ $missing -gt 0 ] && { echo "$missing models are not in EK_TEST_MODELS"; exit 1; }
"$build/accuracy" "${options[@]}" "$here/../docs/accuracy.md" "$here"/models/*.onnx "${found[@]}" |
  sed "\$s/, 0 skipped\$/, $missing skipped/"
exit "${PIPESTATUS[0]}"
