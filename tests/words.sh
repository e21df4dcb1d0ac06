#!/bin/sh
# Do identifiers and comments use the field's words? tests/words.txt lists those that have another name here.
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.." || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# FILE... -> a line for each violation: what stands in comments and in code is told apart, strings belong to neither
look() {
  awk -v list="$here/words.txt" '
  function hit(word, kind,    w) {
    w = word in to ? word : tolower(word)
    if (!(w in to)) return
    if (what[w] != "both" && what[w] != kind) return
    if (rooms[w] != "all" && index("," rooms[w] ",", "," room ",") == 0) return
    print FILENAME ":" FNR ": " word (kind == "name" ? " in an identifier: " : " in a comment: ") to[w]
  }
  function words(s, kind,    n, i, k, m, part) {
    gsub(/prefix_scan/, "prefix", s); gsub(/PREFIX_SCAN/, "PREFIX", s) # itself a standard name
    n = split(s, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++) {
      if (word[i] == "" ) continue
      if (kind == "text") { hit(word[i], kind); continue }
      m = split(word[i], part, /_+/)
      for (k = 1; k <= m; k++) {
        if ((word[i], part[k], FNR) in had) continue
        had[word[i], part[k], FNR] = 1; hit(part[k], kind)
      }
    }
  }
  BEGIN {
    while ((getline line < list) > 0) {
      if (line ~ /^#/ || line !~ /[^ ]/) continue
      split(line, f, / +/)
      what[f[1]] = f[2]; rooms[f[1]] = f[3]
      sub(/^[^ ]+ +[^ ]+ +[^ ]+ +/, "", line); to[f[1]] = line
    }
  }
  FNR == 1 { inside = 0; room = FILENAME; sub(/.*src\//, "", room); sub(/\/[^\/]*$/, "", room); delete had }
  {
    s = $0; code = ""; text = ""
    while (s != "") {
      if (inside) {
        i = index(s, "*/")
        if (!i) { text = text " " s; s = "" }
        else { text = text " " substr(s, 1, i - 1); s = substr(s, i + 2); inside = 0 }
      } else if (match(s, /\/\*|\/\/|"(\\.|[^"\\])*"/)) {
        code = code " " substr(s, 1, RSTART - 1)
        mark = substr(s, RSTART, 2); s = substr(s, RSTART + (mark ~ /^"/ ? RLENGTH : 2))
        if (mark == "/*") inside = 1
        if (mark == "//") { text = text " " s; s = "" }
      } else { code = code " " s; s = "" }
    }
    words(code, "name"); words(text, "text")
  }' "$@"
}
failed=0 passed=0
find src include -name '*.[ch]' | sort >"$work/files"
look $(cat "$work/files") >"$work/found"
if [ -s "$work/found" ]; then sed 's/^/FAIL /' "$work/found"; failed=$(wc -l <"$work/found")
else passed=$(wc -l <"$work/files"); fi
# the test can fail
mkdir -p "$work/src/schedule"
printf '/* a leaf */\nint tile_leaf;\nconst char *s = "leaf";\n' >"$work/src/schedule/x.c"
if [ "$(look "$work/src/schedule/x.c" | wc -l)" = 2 ]; then passed=$((passed + 1))
else echo "FAIL a word in a comment and one in an identifier are not seen"; failed=$((failed + 1)); fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
