#!/bin/sh
# Below graph level no operator exists: looks for every ONNX operator name (tests/onnx_operators.txt) as an identifier,
# a part of one between underscores, or a word in a string, in whatever case, in the rooms
# of the levels below. Comments are not looked at. Names that are also scalar functions, reductions, index or schedule
# primitives, or plain C and compiler words stand in this list:
scalar="abs acos acosh and asin asinh atan atanh bitcast cast ceil cos cosh div equal erf exp floor isinf isnan log \
max min mod mul neg not or pow round sign sin sinh sqrt sub tan tanh add where"
reductions="argmax argmin sum max min"
primitives="constant expand flatten gather identity if loop pad range scan scatter shape size slice split tile unique"
rooms="cost expr eval rewrite passes fusion loop schedule program codegen grad"
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 passed=0
printf '%s\n' $scalar $reductions $primitives | sort -u >"$work/allowed"
tr 'A-Z' 'a-z' <"$here/onnx_operators.txt" | sort -u | comm -23 - "$work/allowed" >"$work/names"
for room in $rooms; do
  find "$here/../src/$room" -name '*.[ch]' | sort >"$work/files"
  [ -s "$work/files" ] || { echo "FAIL no room src/$room"; failed=$((failed + 1)); continue; }
  while read -r f; do
    # gcc takes the comments out; then words, their parts, and words without underscores
    ${CC:-gcc} -fpreprocessed -dD -E -P "$f" 2>/dev/null | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | grep -vx did_you_mean |
      sort -u | tr 'A-Z' 'a-z' >"$work/words"
    { cat "$work/words"; tr '_' '\n' <"$work/words"; tr -d '_' <"$work/words"; } | sort -u | comm -12 - "$work/names" |
      sed "s|^|FAIL ${f#"$here"/../}: operator name |"
  done <"$work/files" >"$work/found"
  if [ -s "$work/found" ]; then cat "$work/found"; failed=$((failed + 1)); else passed=$((passed + 1)); fi
done
# the test can fail
if printf 'conv\n' | comm -12 - "$work/names" | grep -q conv; then passed=$((passed + 1))
  else echo "FAIL the list of operators is not read"; failed=$((failed + 1)); fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
