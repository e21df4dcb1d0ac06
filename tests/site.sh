#!/bin/bash
# The documentation site (docs/site/build.sh): it is built without a network, dead links fail, the generated reference
# has all that it is about, and no page loads anything from another host. Skipped where Doxygen, or what PyPI has for
# it, cannot be had.
#   tests/site.sh [-b BUILD]
here=$(cd "$(dirname "$0")" && pwd)
project=$here/.. build=$here/../build
while getopts b: o; do case $o in b) build=$OPTARG;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { echo "FAIL $1"; failed=$((failed + 1)); }
need=$("$project/docs/site/build.sh" -b "$build" -n 2>&1) || {
  echo "$need: the documentation site was not tested"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
alone="unshare -n" # without a network, where that may be had
$alone true 2>/dev/null || alone="unshare -rn"
$alone true 2>/dev/null || alone=
if $alone "$project/docs/site/build.sh" -b "$build" >"$work/log" 2>&1; then ok
else cat "$work/log"; bad "the site is not built"; echo "$passed passed, $failed failed, 0 skipped"; exit 1; fi
site=$build/site
# What a generated page must have: a name a line, told from the sources in another way than the generator's
names() { # PAGE < NAMES
  local name missing='' n=0
  while read -r name; do n=$((n + 1)); grep -qF "$name" "$site/docs/reference/$1.html" || missing="$missing $name"; done
  if [ $n -gt 5 ] && [ -z "$missing" ]; then ok; else bad "reference/$1: $n names, not there:$missing"; fi
}
names c < <(grep -oE '^EK_API [^(]*\bek_\w+\(|^typedef struct ek_\w+|^  EK_\w+' \
  "$project/include/einkorn/einkorn.h" | grep -oE '(ek|EK)_\w+' | grep -v EK_API | sort -u)
names cpp < <(grep -oE '^class \w+' "$project/include/einkorn/einkorn.hpp" | sed 's/^class /einkorn::/')
names python < <(sed -n '/^__all__/,/]/p' "$project/python/einkorn/__init__.py" | grep -oE '"\w+"' | tr -d '"')
names commands < <("$build/einkorn" help | sed -n 's/^  einkorn \(\w*\) .*/id="\1"/p')
names functions < <(sed -n 's/^\(X\|SPECIAL\)(\(\w*\),.*/<code>\2(/p' "$project/src/notation/builtins.def")
# a browser fetches nothing from elsewhere
foreign() { # FOLDER: what its pages would load from another host
  grep -rnoE '<(script|link|img|iframe|source)[^>]* (src|href)="?(https?:)?//[^> ]*' "$1" --include='*.html'
  grep -rnoE '(url\(|@import) *["'\'']?(https?:)?//[^)]*' "$1" --include='*.css'
}
foreign "$site" >"$work/foreign"
if [ -s "$work/foreign" ]; then head -3 "$work/foreign"; bad "pages load from other hosts"; else ok; fi
# these tests can fail
mkdir -p "$work/project/docs/site" "$work/foreign.d"
cp "$project/docs/site/site.css" "$work/project/docs/site/"
{ sed '/^nav:/,$d' "$project/docs/site/mkdocs.yml"; printf 'nav:\n  - README.md\n'; } \
  >"$work/project/docs/site/mkdocs.yml"
printf '# A page\n\n[a](gone.md) [b](gone.c) [c](#gone) [d](/gone.md) [e](docs)\n' >"$work/project/README.md"
"$build/site-venv/bin/python" -B "$project/docs/site/pages.py" "$work/project" "$work/site"
if (cd "$work/site" && "$build/site-venv/bin/mkdocs" build) >"$work/log" 2>&1; then bad "dead links are not seen"; fi
echo '# Lost' >"$work/project/docs/lost.md"
lost=$("$build/site-venv/bin/python" -B "$project/docs/site/pages.py" "$work/project" "$work/site" 2>&1)
if [[ $? = 1 && $lost = "docs/lost.md: not in"* ]]; then ok; else bad "a page without a place in nav is not seen"; fi
for link in "'gone.md'" "'gone.c'" "'#gone'" "'/gone.md'" "'docs'"; do
  if grep -q "WARNING.*$link" "$work/log"; then ok; else bad "the dead link $link is not seen"; fi
done
echo '<link rel="stylesheet" href="https://elsewhere/a.css">' >"$work/foreign.d/a.html"
echo '@import "//elsewhere/b.css"' >"$work/foreign.d/b.css"
[ "$(foreign "$work/foreign.d" | wc -l)" = 2 ] && ok || bad "pages that load from other hosts are not seen"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
