#!/bin/sh
# Has every number a name and a reason? Costs stand in src/cost, machines in targets/. Elsewhere in schedules, fusion
# and the bilinear forms each integer literal above 8 and each float literal must stand in tests/numbers.txt, of which
# there may be 25 lines at most; comments, strings, characters and #include are not looked at. A line is
#   FILE NAME LITERALS reason
# NAME: the constant, table or variable that the literals are in (`-`: in none). LITERALS: those that are found there,
# each once, in order, with commas between: a table is one line. A line whose literals are not found so is an error.
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# FILE: a line `name literal` for each literal
literals() {
  awk '
  { text = text $0 "\n" }
  END {
    n = length(text); name = "-"; fresh = 1
    for (i = 1; i <= n;) {
      ch = substr(text, i, 1); two = substr(text, i, 2)
      if (two == "/*") { k = index(substr(text, i + 2), "*/"); i = k ? i + k + 3 : n + 1; continue }
      if (two == "//") { while (i <= n && substr(text, i, 1) != "\n") i++; continue }
      if (ch == "\"" || ch == "\047") {
        for (i++; i <= n && substr(text, i, 1) != ch; i++) if (substr(text, i, 1) == "\\") i++
        i++; continue
      }
      if (ch == "\n") { # a directive ends; one is an include, or defines a name
        if (directive && substr(text, i - 1, 1) != "\\") { directive = 0; name = "-"; depth_of = 0 }
        i++; fresh = 1; continue
      }
      if (ch ~ /[ \t\r]/) { i++; continue }
      if (ch == "#" && fresh) {
        rest = substr(text, i, 200); sub(/\n.*/, "", rest)
        if (rest ~ /^# *include/) { i += length(rest); continue }
        directive = 1; fresh = 0; name = "-"
        if (match(rest, /^# *define +[A-Za-z_0-9]+/)) {
          split(substr(rest, 1, RLENGTH), w, / +/); name = w[length(w)]
          depth_of = -1; i += RLENGTH; continue
        }
        i++; continue
      }
      fresh = 0
      if (ch ~ /[A-Za-z_]/) {
        match(substr(text, i, 200), /^[A-Za-z_0-9]+/); word = substr(text, i, RLENGTH); i += RLENGTH; continue
      }
      if (ch ~ /[0-9]/ || (ch == "." && substr(text, i + 1, 1) ~ /[0-9]/)) {
        rest = substr(text, i, 60)
        match(rest, /^(0[xX][0-9a-fA-F]+|[0-9]*\.?[0-9]*([eE][-+]?[0-9]+)?)/)
        lit = substr(rest, 1, RLENGTH); i += RLENGTH
        while (substr(text, i, 1) ~ /[uUlLfF]/) i++
        float = lit !~ /^0[xX]/ && lit ~ /[.eE]/
        if (float || value(lit) > 8) print name, lit
        continue
      }
      if (ch == "(" || ch == "{" || ch == "[") { if (ch == "[" && !brackets++) before = word; depth++ }
      if (ch == ")" || ch == "}" || ch == "]") { if (ch == "]" && !--brackets) word = before; depth-- }
      if (two == "==" || two == "<=" || two == ">=" || two == "!=") { i += 2; continue }
      if (ch == "=" && (name == "-" || depth <= depth_of) && !directive) { name = word; depth_of = depth }
      else if (!directive && (depth < depth_of || (depth == depth_of && (ch == "," || ch == ";")))) name = "-"
      i++
    }
  }
  function value(s,   v, k, digits) {
    if (s !~ /^0[xX]/) return s + 0
    digits = "0123456789abcdef"; s = tolower(substr(s, 3)); v = 0
    for (k = 1; k <= length(s); k++) v = v * 16 + index(digits, substr(s, k, 1)) - 1
    return v
  }' "$1"
}
# ROOT LIST: a line for each error
look() {
  (cd "$1" && find src/schedule src/fusion src/passes/pass_winograd.c src/passes/bilinear.* -name '*.[ch]' | sort |
    while read -r f; do literals "$f" | sed "s|^|$f |"; done) |
    awk '{ k = $1 " " $2; if (!(k in all)) order[++n] = k
           if ($2 == "-" || index("," all[k] ",", "," $3 ",") == 0) all[k] = all[k] (all[k] == "" ? "" : ",") $3 }
         END { for (i = 1; i <= n; i++) print order[i], all[order[i]] }' >"$work/is"
  grep -v '^#' "$2" | grep . >"$work/listed" || :
  awk '{ print $1, $2, $3 }' "$work/listed" | sort >"$work/may"
  sort "$work/is" | comm -23 - "$work/may" | sed 's/$/: not in tests\/numbers.txt/'
  sort "$work/is" | comm -13 - "$work/may" | sed 's/$/: in tests\/numbers.txt, but not found so/'
  awk 'NF < 5 { print $1, $2 ": no reason" }' "$work/listed"
  n=$(wc -l <"$work/listed")
  [ "$n" -le 25 ] || echo "tests/numbers.txt has $n lines, 25 at most"
}
failed=0 passed=0
look "$here/.." "$here/numbers.txt" >"$work/found"
if [ -s "$work/found" ]; then sed 's/^/FAIL /' "$work/found"; failed=$(wc -l <"$work/found")
  else passed=$(wc -l <"$work/listed"); fi
# the test can fail: numbers in each place where one may stand, and a line whose number is gone
mkdir -p "$work/src/schedule" "$work/src/fusion" "$work/src/passes"
cat >"$work/src/schedule/a.c" <<'END'
#include "schedule/100.h"
#define CAP 0x20 /* 11 */
enum { SMALL = 8, SHIFT = 1 << 20, OTHER = SMALL }; // 12
static const double table[3] = {0.5, 1, -0.5, 99};
int f(int x) { return x >= 10 ? '\x41' + x : strlen("13 \" 14"); }
END
printf 'int g(int x) { return x * 1e3f; }\n' >"$work/src/fusion/b.h"
touch "$work/src/passes/pass_winograd.c" "$work/src/passes/bilinear.c"
printf 'src/schedule/a.c gone 15 a reason\nsrc/schedule/a.c table 0.5,99 a table\n' >"$work/list"
look "$work" "$work/list" | sed 's/:.*//' | sort >"$work/found"
cat >"$work/wanted" <<'END'
src/fusion/b.h - 1e3
src/schedule/a.c - 10
src/schedule/a.c CAP 0x20
src/schedule/a.c SHIFT 20
src/schedule/a.c gone 15
END
if cmp -s "$work/found" "$work/wanted"; then passed=$((passed + 1))
  else echo "FAIL the test does not find what it should:"; diff "$work/wanted" "$work/found"; failed=$((failed + 1)); fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
