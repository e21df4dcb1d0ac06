#!/bin/bash
# Do the tests see a compiler that goes wrong? A build plants faults (EK_PLANTED in the source: at least one in every pass and in every family of schedules); with each of them in turn, some test must fail. Tests are tried
# from quick to slow until one does; without a fault they all must pass.
#   tests/planted.sh [-b BUILD] [-j JOBS] [-v] [FAULT...]        BUILD-planted is made beside BUILD; -v says which test saw each fault
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 verbose=
while getopts b:j:v o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; v) verbose=1;; *) exit 2;; esac; done
shift $((OPTIND - 1))
build=$(cd "$build" && pwd)-planted
passed=0 failed=0 skipped=0
cmake -S "$here/.." -B "$build" -G Ninja -DEK_PLANTS=ON >"$build.log" 2>&1 && cmake --build "$build" -j "$jobs" --target einkorn models test_passes test_kernels >>"$build.log" 2>&1 ||
  { tail -30 "$build.log"; echo "FAIL the build with planted faults"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
m=$here/models
names=$(grep -rhoE 'EK_PLANTED\("[a-z-]+"\)' "$here/../src" | sed 's/.*("\(.*\)")/\1/' | sort -u)
# every pass has a fault of its own, and each file of schedules that makes loops
for pass in $("$build/einkorn" show --help | sed -n 's/^  expr  *\([a-z]*\) .*/\1/p' | grep -v '^lower$' | sort -u); do
  if grep -qE "^$pass(-|$)" <<<"$names"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL no fault is planted in the pass $pass"; fi
done
models() { "$build/models" -j "$jobs" -t 120 "$@"; }
few() { models -m "passes jit" "$m"/{mlp_opset12,cnn_opset11,lstm_forward,attention_causal,if_nested,scan_axes,einsum,pad_modes,conv_transpose,split_concat_tree,scatter,views,larger_than_blocks}.onnx; }
units() { (cd "$build" && ./test_passes && ./test_kernels); }
golden() { "$here/golden.sh" -e "$build/einkorn"; }
all() { models -m "passes jit" "$m"/*.onnx; }
as_c() { models -m c "$m"/{mlp_opset12,views,integers,index_makers}.onnx; }
tests=
for t in units few golden as_c all; do # one that fails anyway sees nothing
  if $t >"$build.out" 2>&1; then passed=$((passed + 1)); tests="$tests $t"; else failed=$((failed + 1)); echo "FAIL $t without a fault"; tail -5 "$build.out"; fi
done
[ $# -gt 0 ] || set -- $names
for fault; do
  seen=
  for t in $tests; do
    if ! EK_PLANT=$fault timeout 300 bash -c "$(declare -f models few units golden all as_c); here=$here build=$build jobs=$jobs m=$m; $t" >"$build.out" 2>&1; then seen=$t; break; fi
  done
  if [ "$seen" ]; then
    passed=$((passed + 1))
    [ "$verbose" ] && echo "$fault: $seen: $(grep -m1 -E '^FAIL|\[  FAILED|^\[  ERROR' "$build.out" | cut -c1-150)"
  else
    failed=$((failed + 1))
    echo "FAIL no test sees the fault $fault"
  fi
done
rm -f "$build.out"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
