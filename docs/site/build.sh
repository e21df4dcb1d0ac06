#!/bin/bash
# The documentation site: BUILD/site, from the sources and the built program. What it needs from PyPI (requirements.txt)
# goes into a virtual environment in the build folder when it is first asked for; after that nothing is loaded from the
# network, neither here nor by the pages. Exit 3, and a word on stderr, where a package cannot be had; 1 where the site
# is not right, such as a dead link.
#   docs/site/build.sh [-b BUILD] [-n]      -n: only what is needed is looked for
here=$(cd "$(dirname "$0")" && pwd)
project=$here/../.. build=$here/../../build need=
while getopts b:n o; do case $o in b) build=$OPTARG;; n) need=1;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
venv=$build/site-venv
command -v doxygen >/dev/null || { echo "there is no doxygen: install the Debian package of that name" >&2; exit 3; }
if ! cmp -s "$here/requirements.txt" "$venv/installed.txt"; then
  rm -rf "$venv"
  { "${PYTHON:-python3}" -m venv "$venv" && "$venv/bin/pip" install -q --retries 1 --timeout 30 \
    -r "$here/requirements.txt" && cp "$here/requirements.txt" "$venv/installed.txt"; } >"$build/site.log" 2>&1 ||
    { echo "mkdocs and its theme cannot be had: $(tail -1 "$build/site.log")" >&2; exit 3; }
fi
[ "$need" ] && exit 0
set -e
work=$build/site-work
rm -rf "$work" && mkdir -p "$work/headers"
for header in einkorn.h einkorn.hpp; do
  "$venv/bin/python" -B "$here/c_api.py" "$project/include/einkorn/$header" >"$work/headers/$header"
done
doxygen - <<END >"$build/site.log" 2>&1 || { tail -5 "$build/site.log" >&2; exit 1; }
INPUT = "$work/headers"
OUTPUT_DIRECTORY = "$work/doxygen"
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
SORT_MEMBER_DOCS = NO
MARKDOWN_SUPPORT = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = EK_API= __cplusplus=202002L
QUIET = YES
END
"$venv/bin/python" -B "$here/pages.py" "$project" "$work/site" "$build/einkorn" "$work/doxygen/xml"
(cd "$work/site" && NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" --quiet build) >&2
rm -rf "$build/site"
mv "$work/site/html" "$build/site"
