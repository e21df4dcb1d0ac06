#!/bin/sh
# Prints the path of a Python that has the packages of an example, those of its requirements.txt. It is a virtual
# environment, BUILD/examples/NAME, which is made when it is first asked for, with packages from PyPI; and made anew
# when requirements.txt has changed. Exit 1, and a word on stderr, where that cannot be had.
#   examples/venv.sh BUILD NAME
here=$(cd "$(dirname "$0")" && pwd)
venv=$1/examples/$2 wanted=$here/$2/requirements.txt
[ -r "$wanted" ] || { echo "$wanted is expected, and not there" >&2; exit 1; }
if ! cmp -s "$wanted" "$venv/requirements.txt"; then
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  { rm -rf "$venv" && "${PYTHON:-python3}" -m venv "$venv"; } >"$log" 2>&1 || {
    echo "no virtual environment can be made ($(tail -1 "$log")): Debian's package python3-venv is needed" >&2; exit 1; }
  "$venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 60 --no-deps -r "$wanted" >"$log" 2>&1 || {
    echo "the packages of $wanted cannot be had: $(tail -1 "$log")" >&2; exit 1; }
  cp "$wanted" "$venv/"
fi
echo "$venv/bin/python"
