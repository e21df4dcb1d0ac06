#!/bin/bash
# Gradients of all definitions and of the models of tests/models against central differences, and docs/operators.md against what the definitions say.
#   tests/gradients.sh [-b BUILD] [-n INSTANCES] [-s SEED]
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build n=20 seed=1
while getopts b:n:s: o; do case $o in b) build=$OPTARG;; n) n=$OPTARG;; s) seed=$OPTARG;; *) exit 2;; esac; done
cmake --build "$build" --target grad_all grad_models einkorn >/dev/null || { echo "FAIL grad_all and grad_models do not build"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
out=$("$build/grad_all" -p -n "$n" -s "$seed")
grep -v ' passed, ' <<<"$out"
read -r passed _ failed _ skipped _ <<<"$(tail -1 <<<"$out")"
ties=" sort_places unique_values " # a difference breaks the ties among their inputs: there is no derivative to compare with
models=()
for m in "$here"/models/*.onnx; do [[ $ties == *" $(basename "$m" .onnx) "* ]] || models+=("$m"); done
out=$("$build/grad_models" "${models[@]}")
grep -v ' passed, ' <<<"$out"
read -r p _ f _ s _ <<<"$(tail -1 <<<"$out")"
passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
if "$build/einkorn" ops --table | diff -q - "$here/../docs/operators.md" >/dev/null; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL docs/operators.md is not what \`einkorn ops --table\` prints"; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
