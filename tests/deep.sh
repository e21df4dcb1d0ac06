#!/bin/bash
# What takes longer than `make test` may: the quick tests under AddressSanitizer and UndefinedBehaviorSanitizer, threads
# under ThreadSanitizer, fuzzing, failing allocations, random instances of every operator. Tier by tier, with
# each one's time; the last line is `N passed, N failed, N skipped`; exit 1 if anything failed.
#   tests/deep.sh [-b BUILD] [-j JOBS] [-t SECONDS | -f] [-n INSTANCES]       seconds per fuzz target (60), or fuzzing's
#   fixed pass (tests/fuzz.sh -f, and no random models); random operator instances (20000)
# BUILD-asan, BUILD-fuzz and the like are made beside BUILD.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build jobs=2 fuzz="-t 60" instances=20000
while getopts b:j:t:fn: o; do case $o in b) build=$OPTARG;; j) jobs=$OPTARG;; t) fuzz="-t $OPTARG";; f) \
  fuzz=-f;; n) instances=$OPTARG;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
. "$here/tier.sh"
sanitized() { # a build of its own, then the quick tests
  cmake -S "$here/.." -B "$build-asan" -G Ninja -DEK_SANITIZE=ON >"$build/asan.log" 2>&1 &&
    cmake --build "$build-asan" -j "$jobs" --target all out_of_memory >>"$build/asan.log" 2>&1 ||
    { tail -30 "$build/asan.log"; echo "FAIL the build with sanitizers"; echo "0 passed, 1 failed, 0 skipped"; return; }
  EK_TEST_MODELS="" "$here/all.sh" -q -b "$build-asan" -j "$jobs"
}
schedules() { # TARGET: random schedules of the test models and of random models
  local work
  work=$(mktemp -d "$build/XXXXXX")
  "$build/random_models" -w -n 150 -s 700000 -z 24 -j "$jobs" -o "$work" >"$work/made" || { cat "$work/made"; return; }
  "$build/random_schedules" -l 60 -n 20 -t "$1" -j "$jobs" "$here"/models/*.onnx "$work"/*.onnx
  rm -rf "$work"
}
formulas() { # random schedules of the formulas of a unit test
  local out p f
  out=$(EK_TEST='*schedules: *' EK_SCHEDULES=20 "$build/test_schedule" 2>&1)
  grep -vE '^\[' <<<"$out"
  p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' <<<"$out") \
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' <<<"$out")
  [ "$p" ] && echo "$p passed, ${f:-0} failed, 0 skipped"
}
tier asan sanitized
tier asan-mem "$build-asan/out_of_memory" "$here/models/lstm_forward.onnx"
tier docs "$here/docs.sh" -a -b "$build" "$(dirname "$here")/docs/adding-a-pass.md"
cmake --build "$build" -j "$jobs" --target out_of_memory random_ops random_models random_schedules models accuracy \
  random_integers >"$build/tools.log" 2>&1 ||
  { tail -20 "$build/tools.log"; echo "FAIL the tests' tools do not build"; failed=$((failed + 1)); }
tier package "$here/package.sh" -w -b "$build"
tier examples "$here/examples.sh" -d -b "$build" # downloads
tier backend "$here/backend.sh" -b "$build" -j "$jobs"
minute=-l
[ "$fuzz" = -f ] && minute= # a minute of threads on one module is for the long pass
[ "$fuzz" = -f ] || tier programs "$here/programs.sh" -b "$build" # downloads
tier tsan "$here/tsan.sh" -b "$build" $minute
tier memory "$build/out_of_memory" "$here"/models/{mlp_opset12,if_nested,lstm_forward}.onnx
tier weights "$here/weights.sh" -l -b "$build"
tier random "$build/random_ops" -n "$instances" -j "$jobs" -t 300
if [ "$fuzz" != -f ]; then # 20000 schedules
  for t in host x86-64 x86-64-v3; do tier "$t" schedules "$t"; done
  tier formulas formulas
fi
[ "$fuzz" = -f ] || tier integers "$build/random_integers" -n 20000 -s 1000 -j "$jobs"
[ "$fuzz" = -f ] || tier graphs "$build/random_models" -n 20000 -s 1000 -j "$jobs" -o "$build" -c
[ "$fuzz" = -f ] || tier larger "$build/random_models" -n 500 -z 24 -j "$jobs" -o "$build"
tier accuracy "$here/accuracy.sh" -b "$build"
[ "$fuzz" = -f ] || tier joined "$here/random_peer.sh" -b "$build" -n 2000 # downloads
tier peers "$here/peers.sh" -b "$build" -j "$jobs" -n 4
many= # instances of each definition
[ "$fuzz" = -f ] || many="-n 100 -s 1000"
tier gradients "$here/gradients.sh" -b "$build" -j "$jobs" $many
tier planted "$here/planted.sh" -b "$build" -j "$jobs"
[ "$fuzz" = -f ] || tier found "$here/planted.sh" -b "$build" -j "$jobs" -r 6
tier train "$here/train.sh" -k 20 -b "$build"
tier diff "$here/diff.sh" -p -b "$build"
tier fuzz "$here/fuzz.sh" -b "$build-fuzz" $fuzz -j "$jobs"
closing
