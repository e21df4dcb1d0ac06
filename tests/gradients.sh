#!/bin/bash
# Gradients and second derivatives of all definitions, and gradients of the models of tests/models, against central
# differences; docs/operators.md against what the definitions say; and every row of it that has a gradient against what
# was compared: a definition by itself, what is no definition (sequences, optionals, If, Loop, Scan) in a model.
#   tests/gradients.sh [-b BUILD] [-j JOBS] [-n INSTANCES] [-s SEED]
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 n=20 seed=1
while getopts b:j:n:s: o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; n) n=$OPTARG;; s) seed=$OPTARG;; *) \
  exit 2;; esac; done
cmake --build "$build" --target grad_all grad_models einkorn >/dev/null ||
  { echo "FAIL grad_all and grad_models do not build"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
passed=0 failed=0 skipped=0
shared() { # COMMAND...: its output for the lines of standard input, some for each of JOBS processes at a time
  local rc p f s
  out=$(xargs -P "$jobs" -n 5 "$@")
  rc=$?
  read -r p f s < <(awk '/^[0-9]+ passed, / { p += $1; f += $3; s += $5 } END { print p + 0, f + 0, s + 0 }' <<<"$out")
  [ $rc = 0 ] || [ "$f" -gt 0 ] || { echo "FAIL $1 ended early"; f=1; }
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}
compared=" "
shared "$build/grad_all" -2 -p -v -n "$n" -s "$seed" < <("$build/grad_all" -l | sort -u)
grep -E ' (FAIL|no instance|no finite instance|nowhere smooth) ' <<<"$out"
for d in $(awk '$2 == "ok" || $2 == "zero" { print $1 }' <<<"$out"); do compared+="$d "; done
# a difference breaks the ties among their inputs: there is no derivative to compare with
ties=" sort_places unique_values "
models=()
for m in "$here"/models/*.onnx; do [[ $ties == *" $(basename "$m" .onnx) "* ]] || models+=("$m"); done
shared "$build/grad_models" -v < <(printf '%s\n' "${models[@]}")
grep '^FAIL' <<<"$out"
for m in $(sed -n 's/^ok *\([^:]*\):.*/\1/p' <<<"$out"); do
  for d in $("$build/einkorn" show "$here/models/$m" 2>/dev/null | grep -oE '= [A-Za-z]+\(' | tr -d '=( ' | sort -u)
  do compared+="$d "; done
done
if "$build/einkorn" ops --table | diff -q - "$here/../docs/operators.md" >/dev/null; then passed=$((passed + 1))
  else failed=$((failed + 1)); echo "FAIL docs/operators.md is not what \`einkorn ops --table\` prints"; fi
narrow=" ToPowerOfTwo " # what comes out is no number that differences could be taken of
while IFS='|' read -r _ name _ _ _ gradient _; do
  name=${name// /} name=${name##*::}
  case $gradient in *derived*|*stated*|*zero*) ;; *) continue;; esac
  [[ $compared$narrow == *" $name "* ]] && passed=$((passed + 1)) || { failed=$((failed + 1))
    echo "FAIL $name has a gradient, which nothing was compared with"; }
done < <(sed 's/\\|/,/g' "$here/../docs/operators.md")
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
