#!/bin/sh
# Runs the examples of this folder against their references: interpreted, compiled without and with optimisation, and
# saved as a library.
#   examples/ops/check.sh [EINKORN]
cd "$(dirname "$0")" || exit 1
case ${1:-} in "") einkorn=../../build/einkorn ;; /*) einkorn=$1 ;; *) einkorn=$OLDPWD/$1 ;; esac
work=$(mktemp -d)
: "${EINKORN_CACHE_DIR:=$work/cache}"; export EINKORN_CACHE_DIR # never the user's own
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # NAME COMMAND...
  label=$1; shift
  if "$@" >"$work/out" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $label:"
    cat "$work/out"; fi
}
for data in *.npz; do
  data=${data%.npz} name=${data%.large}
  for mode in --eval -O0 "-O3 --threads 1" "-O3 --threads 2"; do
    check "$data $mode" "$einkorn" run "$name.onnx" --ops "$name.ek" --inputs "$data.npz" --expect "$data.npz" $mode
  done
  check "$name.so" "$einkorn" compile "$name.onnx" --ops "$name.ek" -o "$work/$name.so"
  check "$data .so" "$einkorn" run "$work/$name.so" --inputs "$data.npz" --expect "$data.npz"
done
check "local_attention_builtin" "$einkorn" run local_attention_builtin.onnx --inputs local_attention.npz --expect \
  local_attention.npz
for name in alone builtin; do # the same numbers from both
  check "power_norm_$name" "$einkorn" run power_norm_$name.onnx --ops power_norm.ek --dim L=16 --output \
    "$work/$name.npz"
done
check "power_norm alone and builtin" "$einkorn" run power_norm_alone.onnx --ops power_norm.ek --dim L=16 --expect \
  "$work/builtin.npz"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
