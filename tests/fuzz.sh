#!/bin/bash
# Fuzzing: each target of tests/fuzz for some seconds, from a corpus made of the project's models, goldens, operators
# and targets. A finding is kept as a file, and named with the command that shows it again.
#   tests/fuzz.sh [-t SECONDS per target | -f] [-b BUILD] [-k KEEP] [-c] [-j JOBS] [TARGET...]
# -f: a fixed pass instead: a certain number of inputs per target, made of a fresh corpus alone (tests/fuzz/entry.c):
# the same at every turn, whatever the time, the machine, and what the compiler does with them. For CI; the other
# way finds more.
# BUILD (default: build-fuzz beside the sources) is a build with clang and -DEK_FUZZ=ON; it is made when it is missing.
# KEEP: folder where the corpora grow from one time to the next (default: BUILD/corpus).
# -c: which lines of each reader and verifier the fixed pass reaches, by llvm-cov (BUILD is then one with
# -DEK_FUZZ_COVERAGE=ON as well): a table, in which less than 85% of one is a failure. Last line: `N passed, N failed, N
# skipped`, a
# target each, or with -c a reader each.
here=$(cd "$(dirname "$0")" && pwd)
seconds=60 build= keep= coverage= fixed= jobs=2
while getopts t:fb:k:cj: o; do case $o in t) seconds=$OPTARG;; f) fixed=1;; b) build=$OPTARG;; k) keep=$OPTARG;; c) \
  coverage=1;; j) jobs=$OPTARG;; *) exit 2;; esac; done
shift $((OPTIND - 1))
[ -n "$build" ] || build=$here/../build-fuzz${coverage:+-coverage}
all='arrays data saved target schedules program loop expr notation graph import onnx'
targets=${*:-$all}
set -- $targets
skip() { echo "skipped: $1"; echo "0 passed, 0 failed, $(wc -w <<<"$targets") skipped"; exit 0; }
cc=$(command -v clang-19 || command -v clang) || skip "clang is missing (clang-19)"
echo 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { (void)p; (void)n; return 0; }' >/tmp/fuzz_probe_$$.c
"$cc" -fsanitize=fuzzer,address /tmp/fuzz_probe_$$.c -o /tmp/fuzz_probe_$$ 2>/dev/null
have=$?
rm -f /tmp/fuzz_probe_$$ /tmp/fuzz_probe_$$.c
[ $have -eq 0 ] || skip "clang has no libFuzzer here (libclang-rt-19-dev)"
mkdir -p "$build" && build=$(cd "$build" && pwd) || exit 2
[ -f "$build/build.ninja" ] || CC=$cc cmake -S "$here/.." -B "$build" -G Ninja -DEK_FUZZ=ON \
  ${coverage:+-DEK_FUZZ_COVERAGE=ON} >"$build/cmake.log" 2>&1 || { tail "$build/cmake.log"
  echo "0 passed, 1 failed, 0 skipped"; exit 1; }
cmake --build "$build" -j "$jobs" --target fuzz einkorn >"$build/fuzz.log" 2>&1 ||
  { grep -m5 -E 'error|FAILED' "$build/fuzz.log"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
if [ "$fixed$coverage" ]; then keep=$build/fixed; rm -rf "$keep"; fi
keep=${keep:-$build/corpus}
found=$build/findings
mkdir -p "$found"
export ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=16${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export EINKORN_CACHE_DIR=$build/cache

# ---- corpora ----
m=$here/models e=$build/einkorn
show() { ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 timeout 120 "$e" show "$1" --stage "$2" --target x86-64-v3 \
  -q 2>/dev/null; }
# a target may be newer than the folder
made() { for t in $all; do [ -d "$keep/$t" ] || return 1; done; [ -f "$keep/made" ]; }
if ! made; then
  for t in $all; do mkdir -p "$keep/$t"; done
  cp "$here"/../targets/*.target "$keep/target"
  cp "$here"/../ops/*.ek "$here"/notation/*.ek "$keep/notation"
  cp "$here"/golden/graph/*.graph "$here"/golden/bad/*.graph "$keep/graph"
  cp "$here"/golden/{expr,passes}/*.expr "$keep/expr"
  cp "$here"/fuzz/seeds/*.ek "$keep/notation"
  for t in graph expr loop program; do cp "$here"/fuzz/seeds/*."$t" "$keep/$t" 2>/dev/null; done
  cp "$here"/fuzz/seeds/*.{npz,pb} "$keep/arrays"
  cp "$here"/data/*.{png,jpg} "$keep/data"
  printf 'width,"a ""b""",kind\r\n1.5,-2e3,versicolor\r\n\r\n"2", .25 ,"se,sa"\n3,4,\n' >"$keep/data/quoted.csv"
  printf 'a;b;y\n1;2;3\n-4;5e1;6\n0;0;0.5\n' >"$keep/data/numbers.csv"
  printf '\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03abcdefghijkl' >"$keep/data/images.idx"
  printf '\0\0\x0d\x01\0\0\0\x02\x3f\x80\0\0\x40\0\0\0' >"$keep/data/floats.idx"
  gzip -nc "$keep/data/images.idx" >"$keep/data/images.gz"
  printf 'Va\nab\n\\n\n\\x62\nV\n\\\\\nx\n6\n2\nn' >"$keep/data/words"
  for f in 0 1 2 3 4 5 6 7 8; do printf "\\x0$f\\x20" >"$keep/saved/$f"; done
  for f in host c x86-64-v4; do printf %s $f >"$keep/target/$f"; done
  for f in mlp_opset12 attention_causal cnn_opset11 lstm_forward
    do show "$m/$f.onnx" schedule >"$keep/schedules/$f"; done
  cp "$here"/fuzz/seeds/*.schedules "$keep/schedules"
  [ -d "$here/hostile" ] && for t in graph expr loop program onnx; do cp "$here"/hostile/*."$t" "$keep/$t" 2>/dev/null
    done
  find "$m" -name '*.onnx' -size -40k -exec cp {} "$keep/onnx" \;
  for f in $(find "$m" -name '*.onnx' -size -5k | sort); do
    for n in 5 9 12; do b=${f##*/}; "$build/seeds" opset $n "$keep/onnx/${b%.onnx}.$n" <"$f"; done
  done
  find "$keep/onnx" "$here/fuzz/seeds" -name '*.onnx*' -size -6k -exec cp {} "$keep/import" \;
  cp "$here"/fuzz/seeds/{trees*,training_good,flex*,gradient,zip_map,scan_batched,functions}.onnx "$keep/onnx"
  find "$m" -name '*.npz' -size -6k -exec cp {} "$keep/arrays" \;
  for f in mlp_opset12 einsum quantize_pair scan_axes; do "$build/seeds" tensors "$keep/arrays/$f.pb" <"$m/$f.onnx"
    done
  for f in "$here"/fuzz/seeds/tensors_*.onnx; do "$build/seeds" tensors "$keep/arrays/$(basename "$f").pb" <"$f"; done
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n%024d' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" \
    0 >"$keep/arrays/c.npy"
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n%024d' "{'descr': '>i2', 'fortran_order': True, 'shape': (3, 4), }" \
    0 >"$keep/arrays/f.npy"
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n%024d' "{'descr': '|S4', 'fortran_order': False, 'shape': (2, 3), }" \
    0 >"$keep/arrays/s.npy"
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n%024d' "{'descr': '<U2', 'fortran_order': False, 'shape': (3,), }" \
    0 >"$keep/arrays/u.npy"
  for f in c f u; do "$build/seeds" deflate "$keep/arrays/$f.npz" <"$keep/arrays/$f.npy"; done
  for f in mlp_opset12 if_nested lstm_forward loop_fixed attention_causal cnn_opset11 scan_axes quantize_pair einsum \
    detector_nms scalar_inputs loop_while cumsum late_sizes pad_modes special_values; do
    show "$m/$f.onnx" graph >"$keep/graph/$f.graph"
    show "$m/$f.onnx" expr >"$keep/expr/$f.expr"
    show "$m/$f.onnx" program >"$keep/program/$f.program"
    show "$m/$f.onnx" loop | "$build/seeds" loop "$keep/loop/$f.loop"
  done
  find "$keep" -type f -size 0 -delete
  find "$keep"/{graph,expr,program,loop} -type f -size +32k -delete
  touch "$keep/made"
fi

# of a fixed pass: each 5 to 60 s
declare -A inputs=([arrays]=12000 [data]=6000 [saved]=6000 [target]=6000 [schedules]=6000 [program]=5000 [loop]=7000 \
  [expr]=9000 [notation]=2400 [graph]=3000 [import]=16000 [onnx]=4000)
changed() { # TARGET: the inputs of its fixed pass, as files
  mkdir -p "$keep/changed/$1"
  EK_FUZZ_CHANGED=$keep/changed/$1 EK_FUZZ_TIMES=$((inputs[$1] / $(ls "$keep/$1" | wc -l) + 1)) \
    LLVM_PROFILE_FILE=/dev/null "$build/fuzz_$1" $(find "$keep/$1" -type f) >"$build/$1.log" 2>&1
}

# ---- lines reached: what reads a file or a text, and what verifies what was read ----
least=85
readers=$(echo src/onnx/{proto,import,tensor,attrs,names,order,upgrade,expand,trees}.c \
  src/notation/{lex,parse,check,regex}.c src/graph/{parse,verify}.c src/expr/{parse,parse_value,verify,whole}.c \
  src/loop/{parse,verify}.c src/schedule/record_parse.c \
  src/program/{parse,verify}.c src/sym/text.c src/target/{target,fields}.c src/base/npy.c src/driver/cache_entry.c \
    src/codegen/image/{load,link}.c)
if [ "$coverage" ]; then
  rm -f "$build"/*.profraw "$build"/*.early
  reach() {
    changed "$1" && cd "$found" && LLVM_PROFILE_FILE=$build/$1.profraw timeout 900 "$build/fuzz_$1" -runs=0 \
      -timeout=120 -rss_limit_mb=4000 -max_len=65536 "$keep/changed/$1" >"$build/$1.log" 2>&1 || touch "$build/$1.early"
    rm -rf "$keep/changed/$1"
  }
  for t; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    reach "$t" &
  done
  wait
  profdata=$(command -v llvm-profdata-19 || command -v llvm-profdata) &&
    cov=$(command -v llvm-cov-19 || command -v llvm-cov) || skip "llvm-cov is missing (llvm-19)"
  "$profdata" merge -sparse "$build"/*.profraw -o "$build/all.profdata" || exit 1
  objects=$(for t; do printf ' -object %s' "$build/fuzz_$t"; done)
  "$cov" report $objects -instr-profile="$build/all.profdata" 2>/dev/null |
    awk '/\.c /{print $1, $8, $9, $10}' >"$build/coverage.txt"
  passed=0 failed=0
  for t; do
    [ ! -f "$build/$t.early" ] || { failed=$((failed + 1))
      echo "FAIL $t ended early: $(grep -m1 -hE 'FINDING|runtime error|ERROR: ' "$build/$t.log" || tail -1 \
"$build/$t.log")"; }
  done
  for f in $readers; do
    line=$(grep -E "(^|/)${f#src/} |$f " "$build/coverage.txt" | head -1)
    percent=$(awk '{print $4}' <<<"$line")
    good=FAIL
    if [ -n "$percent" ] && awk -v p="${percent%\%}" -v l="$least" 'BEGIN{exit !(p >= l)}'; then good=
      passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '%-28s %8s of lines %s\n' "$f" "${percent:-none}" "${good:+$good: less than $least%}"
  done
  echo "$passed passed, $failed failed, 0 skipped"
  [ $failed -eq 0 ]
  exit
fi

# ---- fuzzing: JOBS targets at a time ----
one() {
  mkdir -p "$found/$1"
  rm -f "$found/$1"/*
  cd "$found/$1" || return
  if [ "$fixed" ]; then
    changed "$1" || return
    set -- "$1" 900 "$keep/changed/$1" -runs=0 -shuffle=0
  else set -- "$1" $((seconds + 120)) "$keep/$1" -max_total_time="$seconds"; fi
  timeout -s INT "$2" "$build/fuzz_$1" "${@:4}" -timeout=60 -report_slow_units=60 -rss_limit_mb=4000 \
    -malloc_limit_mb=2500 -max_len=65536 -print_final_stats=1 "$3" >"$build/$1.log" 2>&1
  rm -rf "$keep/changed/$1"
}
for t; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  (one "$t") &
done
wait
passed=0 failed=0
for t; do
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$t.log")
  if ls "$found/$t" | grep -q .; then
    failed=$((failed + 1))
    for f in "$found/$t"/*; do echo \
      "FAIL $t: $(grep -m1 -hE 'FINDING|runtime error|ERROR: AddressSanitizer|ERROR: LeakSanitizer|ERROR: libFuzzer' \
"$build/$t.log" | sed 's/^==[0-9]*==//' | cut -c1-200) ($build/fuzz_$t $f)"; done
  elif [ -z "$runs" ]; then failed=$((failed + 1)); echo "FAIL $t ended early: $(tail -1 "$build/$t.log")"
  else passed=$((passed + 1)); echo \
    "$t: $runs inputs, $(sed -n 's/.*cov: \([0-9]*\) .*/\1/p' "$build/$t.log" | tail -1) edges"; fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
