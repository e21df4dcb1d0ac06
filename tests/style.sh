#!/bin/sh
# Does what people write have the house's form? C is as clang-format 19 writes it (.clang-format; the version of
# Debian's package clang-format-19, since others break lines elsewhere), and no line has more than 120 columns. What a
# program writes (golden texts, models, seeds of fuzzing, the table of planted faults) is not looked at, nor are rows of
# Markdown tables.
#   tests/style.sh            `clang-format-19 -i FILE` mends a file
here=$(cd "$(dirname "$0")" && pwd)
root=$here/..
formatter=${CLANG_FORMAT:-clang-format-19}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root" || exit 2
failed=0 passed=0 skipped=0
find src include tests examples bench python '(' -name '*.[ch]' -o -name '*.[ch]pp' ')' ! -path '*/build*' |
  sort >"$work/c"
find src include tests cmake python docs/site -type f ! -path 'tests/golden/*' ! -path 'tests/fuzz/seeds/*' \
  ! -name planted.txt |
  grep -E '\.([ch]|[ch]pp|def|pyi?|sh|cmake|awk|md|txt|in|map)$' | sort >"$work/people"
printf '%s\n' CMakeLists.txt Makefile .ci/run pyproject.toml >>"$work/people"
long() { # FILES from stdin: lines of over 120 columns
  while read -r f; do awk -v f="$f" 'length($0) > 120 && !(f ~ /\.md$/ && /^ *\|/) {
    print f ":" NR ": " length($0) " columns" }' "$f"; done
}
export LC_ALL=C.UTF-8
long <"$work/people" >"$work/long"
if [ -s "$work/long" ]; then sed 's/^/FAIL /' "$work/long"; failed=$((failed + $(wc -l <"$work/long")))
else passed=$((passed + $(wc -l <"$work/people"))); fi
if command -v "$formatter" >/dev/null && "$formatter" --version | grep -q 'version 19\.'; then
  xargs "$formatter" -n --ferror-limit=1 <"$work/c" 2>&1 |
    sed -n 's/^\([^:]*:[0-9]*\):.*-Wclang-format-violations.*/\1/p' |
    sort -u >"$work/odd"
  if [ -s "$work/odd" ]; then sed 's/^/FAIL clang-format: /' "$work/odd"; failed=$((failed + $(wc -l <"$work/odd")))
  else passed=$((passed + $(wc -l <"$work/c"))); fi
  # the test can fail
  printf 'int  f( void ){return 1 ;}\n' >"$work/odd.c"
  cp .clang-format "$work/"
  if "$formatter" -n -Werror "$work/odd.c" 2>/dev/null; then echo "FAIL clang-format accepts anything"
    failed=$((failed + 1)); else passed=$((passed + 1)); fi
else
  echo "skipped: the form of C files: clang-format-19 is missing (make deps-test)"
  skipped=1
fi
printf '%0121d\n%0120d\n' 0 0 >"$work/wide.c"
if [ "$(echo "$work/wide.c" | long | wc -l)" = 1 ]; then passed=$((passed + 1))
else echo "FAIL long lines are not seen"; failed=$((failed + 1)); fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
