#!/bin/bash
# What the documents say, done: code blocks are run as they stand there. A comment in the line before a block (or before
# the blank line in front of it) says what it is; blocks are indented by four blanks or fenced by ```.
#   <!-- test: file NAME -->   the block is written to NAME
#   <!-- test: run -->         a shell script; every command must succeed
#   <!-- test: python -->      a Python script, with the package as it was just built; skipped where that cannot be
#   <!-- test: python goes on -->   the same, behind the Python blocks before it
#   <!-- test: output -->      what the block before prints, compared as that of a session
#   <!-- test: session -->     lines `$ COMMAND`, and below each what it prints (stdout and stderr): these lines in this
#   order, other lines may stand between. `..` stands for anything within a line. The exit code counts
#                              only where nothing is expected below. `python` is as above. Skipped where a program that
#                              a command begins with is not there.
#   <!-- test: session, numbers vary -->   each number stands for any number, and blanks for any number of blanks; so
#                              does `output, numbers vary`
#   <!-- test: deep ... -->    any of these, but only with -a, since it takes long: in a copy of the project instead
# Each document has a folder of its own, in which its blocks run one after another; there, examples, include, tests and
# targets are those of the project, and build holds what was built.
#   tests/docs.sh [-b BUILD] [-a] [DOCUMENT.md...]
#   tests/docs.sh [-b BUILD] -g          only: are the generated pages and the picture as they are generated now?
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here") build=$here/../build all= table= generated=
while getopts b:ag o; do case $o in b) build=$OPTARG;; a) all=1;; g) generated=1;; *) exit 2;; esac; done
shift $((OPTIND - 1))
build=$(cd "$build" && pwd)
[ $# -gt 0 ] || table=1
[ $# -gt 0 ] || [ "$generated" ] || set -- "$root"/*.md "$root"/docs/*.md "$root"/docs/{ideas,tutorial,how-to}/*.md \
  "$root"/examples/{,*/}README.md
work=$(mktemp -d)
: "${EINKORN_CACHE_DIR:=$work/cache}"; export EINKORN_CACHE_DIR # never the user's own
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
export PATH=$work/bin:$build:$PATH EINKORN_SOURCE=$root EINKORN_BUILD=$build

# Blocks of a document as files NUMBER.block, with NUMBER.kind and NUMBER.line beside them
blocks() { # DOCUMENT FOLDER
  awk -v to="$2" '
    function open_block() { n++; printf "%s\n", kind > (to "/" sprintf("%03d", n) ".kind");
      printf "%d\n", NR > (to "/" sprintf("%03d", n) ".line"); out = to "/" sprintf("%03d", n) ".block";
      printf "" > out; kind = "" }
    /^<!-- test: .* -->$/ { kind = $0; sub(/^<!-- test: /, "", kind); sub(/ -->$/, "", kind); indented = 0; out = "";
      next }
    fenced { if (/^```/) { fenced = 0; out = "" } else print > out; next }
    indented { if (/^    / || /^$/) { line = $0; sub(/^    /, "", line); print line > out; next } indented = 0;
      out = "" }
    kind != "" && /^```/ { open_block(); fenced = 1; next }
    kind != "" && /^    / { open_block(); indented = 1; line = $0; sub(/^    /, "", line); print line > out; next }
    kind != "" && !/^$/ { print "a marked block does not follow in line " NR > (to "/error") }
  ' "$1"
}
# The session's expectations against what came out: prints the first line that is missing
missing() { # EXPECTED OUTPUT
  awk -v expected="$1" -v vary="$vary" '
    function pattern(s,   r, i, c) { r = ""; for (i = 1; i <= length(s); i++) { c = substr(s, i, 1);
      if (substr(s, i, 2) == "..") { r = r ".*"; while (substr(s, i + 1, 1) == ".") i++ }
      else if (vary && match(substr(s, i), /^[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?/)) { i += RLENGTH - 1;
        r = r "[0-9]+(\\.[0-9]+)?(e[-+][0-9]+)?" }
      else if (vary && c == " ") { while (substr(s, i + 1, 1) == " ") i++; r = r " +" }
      else r = r (index("\\^$.[]|()*+?{}", c) ? "\\" c : c) } return "^" r "$" }
    BEGIN { while ((getline l < expected) > 0) { sub(/[ \t]+$/, "", l); if (l != "") want[++n] = l } at = 1 }
    { sub(/[ \t]+$/, ""); if (at <= n && $0 ~ pattern(want[at])) at++ }
    END { if (at <= n) { print want[at]; exit 1 } }' "$2"
}
session() { # BLOCK FOLDER: runs each command
  awk -v to="$2/step" '/^\$ / { n++; f = to sprintf("%02d", n) ".cmd"; e = to sprintf("%02d", n) ".want";
    print substr($0, 3) > f; printf "" > e; next } n { print > e }' "$1"
  local code=0 cmd got want line
  for cmd in "$2"/step*.cmd; do
    (cd "$place" && bash "$cmd") >"$2/out" 2>&1 </dev/null; got=$?
    want=${cmd%.cmd}.want
    if grep -q '[^ ]' "$want"; then line=$(missing "$want" "$2/out") || { code=1; echo "  \$ $(cat "$cmd")"
      echo "  does not print: $line"; echo "  but:"; head -12 "$2/out" | sed 's/^/    /'; }
    elif [ $got -ne 0 ]; then code=1; echo "  \$ $(cat "$cmd")"; echo "  exit $got:"; head -12 "$2/out" |
      sed 's/^/    /'; fi
  done
  rm -f "$2"/step*
  return $code
}
# What a document points to must be there: links to files, and paths of the project in backquotes. Not looked for are
# files that the document itself writes (<!-- test: file .. -->), and paths with a name in capitals in them
# (pass_NAME.c).
# The change log speaks of files as they were.
dead() { # DOCUMENT: one line for each that is missing
  local folder path
  folder=$(dirname "$1")
  grep -oE '\]\([^)# ]+' "$1" | sed 's/^](//' | grep -v : | sort -u | while read -r path; do
    [ -e "$folder/$path" ] || echo "link to $path"
  done
  case $1 in */CHANGELOG.md) return;; esac
  grep -oE '`(src|docs|tests|ops|targets|cmake|bench|include|examples|python)/[A-Za-z0-9_./*-]*' "$1" | tr -d '`' |
    sort -u | while read -r path; do
    [[ $path =~ [A-Z]{4} ]] && [[ $path != *README* ]] || compgen -G "$root/$path" >/dev/null ||
      grep -q "^<!-- test: .*file $path -->" "$1" || echo "path $path"
  done
}
python=
python_ready() { # Is there a Python with numpy, and the package? Builds it when it is first asked for.
  [ -z "$python" ] || { [ "$python" != none ]; return; }
  python=$("$here/python.sh" "$build" 2>/dev/null) && grep -q '^build python_package:' "$build/build.ninja" &&
    cmake --build "$build" --target python_package >"$work/python.log" 2>&1 || python=none
  [ "$python" != none ] || return
  mkdir -p "$work/bin"
  printf '#!/bin/sh\nPYTHONPATH=%q exec %q -W error "$@"\n' "$build/python" "$python" >"$work/bin/python"
  chmod +x "$work/bin/python"
}
session_ready() { # BLOCK: are the programs there that its commands begin with?
  local program
  for program in $(sed -n 's/^\$ \([a-z+]*\) .*/\1/p' "$1" | sort -u); do
    if [ "$program" = python ]; then python_ready; else command -v "$program" >/dev/null; fi || return
  done
}
run_python() { # BLOCK...: the last one, behind the others, whose output is left out
  (cd "$place" && "$work/bin/python" -c '
import contextlib, io, runpy, sys
known = {}
for path in sys.argv[1:-1]:
    with contextlib.redirect_stdout(io.StringIO()):
        known = runpy.run_path(path, known)
runpy.run_path(sys.argv[-1], known, "__main__")' "$@")
}
for document; do
  name=${document#"$root"/} at=$work/$(tr '/' '_' <<<"${document#"$root"/}")
  place=$at/place
  mkdir -p "$at/blocks" "$at/log" "$place/build"
  blocks "$document" "$at/blocks"
  dead "$document" >"$at/dead"
  if [ -s "$at/dead" ]; then failed=$((failed + 1)); sed "s|^|FAIL $name: nothing is there: |" "$at/dead"
  else passed=$((passed + 1)); fi
  [ -e "$at/blocks/error" ] && { failed=$((failed + 1)); echo "FAIL $name: $(head -1 "$at/blocks/error")"; }
  for f in examples include tests targets; do ln -s "$root/$f" "$place/$f"; done
  for f in einkorn example_classify; do ln -s "$build/$f" "$place/build/$f"; done
  for f in "$build"/libeinkorn.so*; do ln -s "$f" "$place/build/"; done
  for block in "$at"/blocks/*.block; do
    [ -e "$block" ] || continue
    kind=$(cat "${block%.block}.kind") line=$(cat "${block%.block}.line")
    place=$at/place
    case $kind in deep\ *)
      [ "$all" ] || { skipped=$((skipped + 1)); continue; }
      kind=${kind#deep } place=$at/copy
      [ -d "$place" ] || { mkdir "$place" && (cd "$root" &&
        tar cf - --exclude=./build --exclude='./build-*' --exclude=./.git .) | tar xf - -C "$place"; };;
    esac
    vary=
    case $kind in *", numbers vary") kind=${kind%, numbers vary} vary=1;; esac
    case $kind in
    output) [ -e "$at/last" ] || { skipped=$((skipped + 1)); continue; };;
    python*) rm -f "$at/last"; [ "$kind" = "python goes on" ] || before=()
      python_ready || { skipped=$((skipped + 1)); continue; };;
    session) session_ready "$block" || { skipped=$((skipped + 1)); continue; };;
    esac
    case $kind in
    python | "python goes on") run_python "${before[@]}" "$block" >"$at/out" 2>&1 </dev/null;;
    output) absent=$(missing "$block" "$at/last") ||
      { { echo "  does not print: $absent"; echo "  but:"; sed 's/^/    /' "$at/last"; } >"$at/out"; false; };;
    file\ *) mkdir -p "$(dirname "$place/${kind#file }")" && cp "$block" "$place/${kind#file }" >"$at/out" 2>&1;;
    run) (cd "$place" && bash -e "$block") >"$at/out" 2>&1 </dev/null;;
    session) session "$block" "$at/log" >"$at/out" 2>&1;;
    *) echo "no kind of block: $kind" >"$at/out"; false;;
    esac
    if [ $? -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name:$line ($kind)"
      tail -20 "$at/out"; fi
    case $kind in python*) before+=("$block");; esac
    [ "$kind" = output ] || cp "$at/out" "$at/last"
  done
done
if [ "$table" ]; then # the tables of operators and of a target's fields are what the program prints
  for of in operators:ops targets:targets; do
    page=${of%:*}.md command="${of#*:} --table"
    if "$build/einkorn" $command 2>&1 | diff "$root/docs/$page" - >"$work/out"; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "FAIL docs/$page is not what \`einkorn $command\` prints (make docs)"
    head -6 "$work/out" | cut -c1-200; fi
  done
  if ! command -v python3 >/dev/null; then skipped=$((skipped + 1))
  elif python3 "$root/bench/picture.py" --check; then passed=$((passed + 1))
  else failed=$((failed + 1)); echo "FAIL docs/speed.svg is not what bench/picture.py draws (make docs)"; fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
