#!/bin/sh
# Golden texts. Every file tests/golden/LEVEL/NAME.txt begins with
#   # RUN: ARGUMENTS            for `einkorn`, run in tests/golden; more than one RUN line: one after the other
#   # one sentence of intent
# and goes on with what must come out, to the byte. Files are found by their names; nothing is registered.
#   tests/golden.sh [-e EINKORN] [-u] [FILE...]      -u writes what comes out into the files
# Files that end in .graph are graph texts, and inputs of the others: what `show` prints of one must be the file itself.
here=$(cd "$(dirname "$0")" && pwd)
einkorn=$here/../build/einkorn update=
while getopts e:u o; do case $o in e) einkorn=$OPTARG;; u) update=1;; *) exit 2;; esac; done
shift $((OPTIND - 1))
einkorn=$(cd "$(dirname "$einkorn")" && pwd)/$(basename "$einkorn")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
[ $# -gt 0 ] || set -- $(find "$here/golden" -name '*.txt' -o -path '*/graph/*.graph' | sort)
for f; do
  f=$(cd "$(dirname "$f")" && pwd)/$(basename "$f")
  case $f in
  *.graph)
    awk '!/^#/{exit} {print}' "$f" >"$work/want" # comments at the head are kept
    "$einkorn" show "$f" >>"$work/want" 2>&1;;
  *)
    awk '{print} !/^# RUN: /{exit}' "$f" >"$work/head" # RUN lines and the sentence
    cp "$work/head" "$work/want"
    grep '^# RUN: ' "$work/head" | sed 's/^# RUN: //' | while read -r args; do
      (cd "$here/golden" && eval "set -- $args" && timeout 60 "$einkorn" "$@" 2>&1)
    done >>"$work/want";;
  esac
  if cmp -s "$work/want" "$f"; then passed=$((passed + 1))
  elif [ "$update" ]; then cp "$work/want" "$f"; echo "updated ${f#"$here"/}"; passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL ${f#"$here"/}"
    diff -u "$f" "$work/want" | head -20
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
