#!/bin/bash
# Do README, the documents, the manual pages, the completions and --help tell of the same commands, options and
# variables?
#   tests/agree.sh EINKORN
einkorn=${1:-build/einkorn}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) tests=0 bad=0
trap 'rm -rf "$work"' EXIT
same() { # WHAT A B: two files with a word a line
  tests=$((tests + 1))
  sort -u "$2" >"$work/a" && sort -u "$3" >"$work/b"
  diff "$work/a" "$work/b" >"$work/diff" || { bad=$((bad + 1)); echo "$1 differ:"; grep '^[<>]' "$work/diff" | head; }
}
within() { # WHAT A B: each line of A is one of B, and A has lines
  tests=$((tests + 1))
  sort -u "$3" >"$work/b" && sort -u "$2" | comm -23 - "$work/b" >"$work/diff"
  [ -s "$2" ] && [ ! -s "$work/diff" ] || { bad=$((bad + 1)); echo "$1:"; head "$work/diff"; }
}
plain() { sed 's/\\-/-/g; s/\\f[BIR]//g'; } # roff as text
options() { grep -oE -- '--[a-z][a-z-]*'; }

# ---- commands: README's table, --help, einkorn(1) ----
"$einkorn" --help | sed -n 's/^  einkorn \([a-z]*\) .*/\1/p' >"$work/commands"
sed -n '/^## Commands/,/^## /p' "$root/README.md" | sed -n 's/^| `\([a-z]*\).*/\1/p' | grep -v '^einkorn$' \
  >"$work/readme"
"$einkorn" describe man | plain | sed -n 's/^einkorn-\([a-z]*\)(1)$/\1/p' >"$work/manual"
same "commands of README (<) and --help (>)" "$work/readme" "$work/commands"
same "commands of einkorn(1) (<) and --help (>)" "$work/manual" "$work/commands"

# ---- options: of each command --help, its page and the completions ----
"$einkorn" describe bash >"$work/bash"
for c in $(cat "$work/commands"); do
  "$einkorn" help "$c" | grep -oE '^  (-., |-. [^ ]+( [^ ]+)?, )?--[a-z-]+' | options >"$work/help.$c"
  "$einkorn" describe man "$c" | plain | sed -n '/^\.SH OPTIONS/,/^\.SH [PEA]/p' | grep -A1 '^\.TP' | grep -v '^\.TP' |
    sed 's/^\(.*--[a-z-]*\).*/\1/' | options >"$work/man.$c"
  same "options of einkorn-$c(1) (<) and einkorn help $c (>)" "$work/man.$c" "$work/help.$c"
  sed -n "s/^    $c) words=\"\\(.*\\)\" ;;/\\1/p" "$work/bash" | options >"$work/bash.$c"
  same "options that bash completes (<) and einkorn help $c (>)" "$work/bash.$c" "$work/help.$c"
done
cat "$work"/help.* >"$work/all"

# ---- documents: each option is one, and each command line uses options of its command ----
documents=("$root"/README.md "$root"/CONTRIBUTING.md "$root"/docs/*.md "$root"/examples/*/README.md)
sed -n '/^## Commands/,/^## /p' "$root/README.md" | options >"$work/readme"
within "README's commands have options that --help does not know" "$work/readme" "$work/all"
for c in $(cat "$work/commands"); do
  grep -hoE "einkorn $c( [^;|&\`]*)?" "${documents[@]}" | options >"$work/used.$c"
  [ ! -s "$work/used.$c" ] ||
    within "documents use options that \`einkorn help $c\` does not tell" "$work/used.$c" "$work/help.$c"
done
grep -hoE '(^|[ /`])einkorn [a-z]+( |`|$)' "${documents[@]}" | grep -oE 'einkorn [a-z]+' | cut -d' ' -f2 |
  grep -vxE 'is|and|in|has|that|on|with|of|by|for|does|as|to|was|finds|can|itself' >"$work/called"
echo describe >>"$work/commands"
within "documents call commands that there are not" "$work/called" "$work/commands"

# ---- targets: the compiler reads each field; `host` alone reads `processors`, and `requires` is a word of C++ ----
"$einkorn" targets c | sed -n 's/^\([a-z0-9_]*\) =.*/\1/p' | grep -vx 'processors\|requires' >"$work/fields"
find "$root/src" -name '*.[ch]' ! -path '*/target/fields.*' -exec grep -ohE '(->|\.)[a-z0-9_]+' {} + |
  grep -oE '[a-z0-9_]+' >"$work/read"
within "nothing in the compiler reads these fields of a target" "$work/fields" "$work/read"

# ---- variables of the environment ----
"$einkorn" describe man | plain | sed -n 's/^\(EINKORN_[A-Z_]*\)=.*/\1/p' >"$work/variables"
grep -ohE 'EINKORN_[A-Z_]+' "$root/README.md" >"$work/readme"
same "variables of README (<) and einkorn(1) (>)" "$work/readme" "$work/variables"

echo "README, manual, --help and completions: $tests checks, $bad bad"
[ "$bad" -eq 0 ]
