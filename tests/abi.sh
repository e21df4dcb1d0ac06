#!/bin/sh
# Do programs that were built against older headers of this soname go on working? tests/abi holds three of them, and a
# program, which is also built against today's.   tests/abi.sh BUILD
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-build}" && pwd) || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v cc >/dev/null || { echo "no cc: nothing is built against older headers"; exit 77; }
lib=$(ls "$build"/libeinkorn.so.*.*.* | head -1) failed=0
soname=$(objdump -p "$lib" | sed -n 's/ *SONAME *//p')
[ "$soname" = libeinkorn.so.0.1 ] || { echo "the soname is $soname: tests/abi is about libeinkorn.so.0.1"; failed=1; }
# a library with AddressSanitizer asks it of the program, too
sanitize=$(objdump -p "$lib" | grep -q 'NEEDED .*libasan' && echo -fsanitize=address,undefined)
for headers in "$here"/abi/[0-9] "$here/../include"; do
  cc -std=gnu99 -Wall -Wextra -Werror $sanitize -I"$headers" "$here/abi/old.c" "$lib" -Wl,-rpath,"$build" \
    -o "$work/old" && "$work/old" "$here/../examples/digits/digits.onnx" ||
    { echo "FAIL built against $headers"; failed=1; }
done
# bench/einkorn_runner.py reads the structs from the header: does it see what the compiler sees?
structs="ek_options ek_tensor_info ek_run_options ek_session_options ek_show_options ek_report ek_kernel"
if command -v python3 >/dev/null; then
  { printf '#include <einkorn/einkorn.h>\n#include <stdio.h>\nint main(void) {\n'
    for s in $structs; do printf '  printf("%s %%zu\\n", sizeof(%s));\n' "$s" "$s"; done; echo '}'; } >"$work/sizes.c"
  cc -I"$here/../include" "$work/sizes.c" -o "$work/sizes" && "$work/sizes" >"$work/c"
  python3 - "$here/.." $structs >"$work/python" <<'EOF'
import ctypes, sys
g = {"Runner": object}
exec(open(sys.argv[1] + "/bench/einkorn_runner.py").read(), g)
header = open(sys.argv[1] + "/include/einkorn/einkorn.h").read()
for name in sys.argv[2:]:
    print(name, ctypes.sizeof(g["structure"](header, name)))
EOF
  diff "$work/c" "$work/python" || { echo \
    "FAIL the sizes of structs (<) differ from those in bench/einkorn_runner.py (>)"; failed=1; }
fi
exit $failed
