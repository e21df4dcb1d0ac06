#!/bin/bash
# Builds the Python package: a wheel, or the sources as people without one install them (sdist). Prints its path.
#   python/build.sh [-b BUILD] wheel|sdist        into BUILD/dist; tools from PyPI in a virtual environment, BUILD/tools
# The wheel says manylinux_2_34 only where auditwheel finds that it needs nothing newer.
set -e
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
while getopts b: o; do case $o in b) build=$OPTARG;; *) exit 2;; esac; done
shift $((OPTIND - 1))
what=${1:-wheel}
build=$(cd "$build" && pwd)
tools=$build/tools
log=$build/$what.log
failed() { tail -20 "$log" >&2; echo "the $what cannot be built; all of it: $log" >&2; exit 1; }
if ! "$tools/bin/python" -c 'import scikit_build_core, auditwheel, wheel, build' 2>/dev/null; then
  { "${PYTHON:-python3}" -m venv "$tools" &&
    "$tools/bin/pip" install -q --retries 1 --timeout 30 "scikit-build-core>=0.10" auditwheel build wheel; } \
    >"$log" 2>&1 || failed
fi
mkdir -p "$build/dist"
rm -f "$build"/dist/*."$([ "$what" = wheel ] && echo whl || echo tar.gz)"
export CMAKE_GENERATOR=Ninja
# with the tools that are there, and objects of the last time
"$tools/bin/python" -m build "--$what" --no-isolation -Cbuild-dir="$build/wheel" -o "$build/dist" "$root" \
  >"$log" 2>&1 </dev/null || failed
if [ "$what" = wheel ]; then
  "$tools/bin/auditwheel" show "$build"/dist/*.whl >>"$log" 2>&1 || failed
  tag=$(grep -o 'manylinux_[0-9_]*_x86_64' "$log" | head -1)
  [ -z "$tag" ] || "$tools/bin/wheel" tags --remove --platform-tag "$tag" "$build"/dist/*.whl >>"$log" 2>&1 || failed
  ls "$build"/dist/*.whl
else
  ls "$build"/dist/*.tar.gz
fi
