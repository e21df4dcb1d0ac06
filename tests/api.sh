#!/bin/bash
# The library as strangers meet it: what it exports, its header under strict compilers and in C++, how many threads it
# takes under affinity, quota and EINKORN_NUM_THREADS.
#   tests/api.sh -b BUILD
# Last line: `N passed, N failed, N skipped`.
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=$root/build
while getopts b: o; do case $o in b) build=$OPTARG;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAIL $*"; }
skip() { skipped=$((skipped + 1)); echo "skipped: $*"; }
check() { name=$1; shift; if out=$("$@" 2>&1); then ok; else bad "$name"; echo "$out" | head -20; fi; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
header=$root/include/einkorn/einkorn.h
lib=$(ls "$build"/libeinkorn.so.*.*.* 2>/dev/null | head -1)
[ -n "$lib" ] || { echo "FAIL no libeinkorn.so in $build"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }

# ---- exports: what the header declares, and nothing else ----
nm -D --defined-only "$lib" | awk '{print $NF}' | sed 's/@.*//' | sort -u >"$tmp/exported"
tr '\n' ' ' <"$header" | grep -o 'EK_API [^;]*;' | sed 's/(.*//; s/.*[ *]//' |
  grep -v '^__' | sort -u >"$tmp/declared"
grep -v '^ek_' "$tmp/exported" >"$tmp/foreign"
if [ -s "$tmp/foreign" ]; then bad "exported, but not ek_: $(tr '\n' ' ' <"$tmp/foreign")"; else ok; fi
if diff "$tmp/declared" "$tmp/exported" >"$tmp/diff"; then ok; else bad "declared (<) and exported (>) differ:"
  cat "$tmp/diff"; fi
# every function is told about: a comment on its line, or right above
awk '/EK_API [^;]*;/ && !/#define/ { if ($0 !~ /\/\*/ && before !~ /\*\/$/ && !listed) print; } {
  listed = ($0 ~ /^EK_API/ && ($0 ~ /\/\*/ || before ~ /\*\/$/ || listed)); before = $0 }' "$header" >"$tmp/untold"
if [ -s "$tmp/untold" ]; then bad "without a comment:"; cat "$tmp/untold"; else ok; fi

# ---- the C++ interface: the example, and what it refuses ----
cat >"$tmp/refused.cc" <<'EOF'
#include <cstdio>
#include <einkorn/einkorn.hpp>
template <class F> static int refused(ek_code want, const char *word, F call) {
  try {
    call();
  } catch (const einkorn::error &e) {
    if (e.code() == want && std::string(e.what()).find(word) != std::string::npos) return 0;
    std::printf("%d: %s\n", e.code(), e.what());
    return 1;
  }
  return std::printf("nothing refused: %s\n", word), 1;
}
int main(int, char **argv) {
  einkorn::session s;
  einkorn::model m = s.load(argv[1]);
  einkorn::compiled_module code = m.compile(einkorn::options().dim("N=1:2:4").threads(1));
  einkorn::run first = code.create_run(), run = std::move(first);
  std::vector<float> x(8 * 64);
  std::vector<double> wide(64);
  int bad = refused(EK_IO, "nowhere", [&] { s.load("/nowhere.onnx"); });
  bad += refused(EK_USAGE, "M", [&] { m.compile(einkorn::options().dim("M=1")); });
  bad += refused(EK_USAGE, "image", [&] { run.set_input("picture", x.data(), 64, {1, 1, 8, 8}); });
  bad += refused(EK_SHAPE, "f64", [&] { run.set_input("image", wide.data(), 64, {1, 1, 8, 8}); });
  bad += refused(EK_SHAPE, "image", [&] { run.set_input("image", x.data(), 63, {1, 1, 8, 8}); });
  bad += refused(EK_SHAPE, "1..4", [&] {
    run.set_input("image", x.data(), x.size(), {8, 1, 8, 8});
    run.execute();
  });
  run.set_input("image", x.data(), 128, {2, 1, 8, 8});
  run.execute();
  bad += refused(EK_SHAPE, "f64", [&] { run.output<double>("scores"); });
  bad += run.output<float>("scores").size() != 20 || run.output_dims("scores") != std::vector<std::int64_t>{2, 10};
  bad += std::string(code.input(0).name) != "image" || code.inputs() != 1 || code.report().kernels == 0;
  static const char adds[] =
      "graph \"g\" { input x: f32[2] input s: f32[2] y = Add(x, s) z = Neg(y) output y output z }";
  einkorn::compiled_module tied = s.load(adds, sizeof adds - 1).compile(einkorn::options().state("y=s"));
  einkorn::run total = tied.create_run();
  const float two[] = {1, 2}, high[] = {10, 20};
  total.set_input("x", two, 2, {2});
  total.execute(), total.execute();
  bad += tied.states() != 1 || total.snapshot<float>("s")[1] != 4;
  total.restore("s", high, 2, {2});
  total.execute();
  bad += total.output<float>("z")[0] != -11;
  total.reset();
  bad += total.snapshot<float>("s")[0] != 0;
  bad += refused(EK_USAGE, "it has s", [&] { total.reset("t"); });
  return bad;
}
EOF
for cxx in g++ clang++-19; do
  command -v $cxx >/dev/null || { skip "no $cxx: the C++ interface"; continue; }
  for std in 17 20; do
    flags="-std=c++$std -Wall -Wextra -pedantic -Werror -I$root/include -L$build -Wl,-rpath,$build"
    for program in "$root/examples/classify.cpp" "$tmp/refused.cc"; do
      check "${program##*/} in C++$std by $cxx" $cxx $flags "$program" -o "$tmp/$cxx$std" -leinkorn
      set -- "$root"/examples/digits/digit_*.pgm
      [ "${program##*/}" = classify.cpp ] || set --
      check "${program##*/} of $cxx runs" "$tmp/$cxx$std" "$root/examples/digits/digits.onnx" "$@"
      [ $# = 0 ] || [ "$(grep -c 'digit_\([0-9]\).pgm: \1 ' <<<"$out")" = 10 ] || bad "$cxx: $out"
    done
  done
done

# ---- the header under strict compilers ----
printf '#include "einkorn/einkorn.h"\nint main(void) { return 0; }\n' >"$tmp/c.c"
cat >"$tmp/run.cc" <<'EOF'
#include "einkorn/einkorn.h"
#include <cstdio>
#include <cstring>
#include <vector>
static int64_t kernels;
static void mine(void *, int64_t n, void (*task)(void *, int64_t), void *arg) {
  kernels++;
  for (int64_t i = 0; i < n; i++) task(arg, i);
}
int main(int argc, char **argv) {
  if (argc < 2) return std::printf("%d\n", ek_threads()), 0;
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_module *code;
  ek_run *r;
  ek_run_options o;
  ek_run_options_init(&o);
  o.threads = 4;
  o.parallel_for = mine;
  if (ek_load(s, argv[1], &m) || ek_compile(m, nullptr, &code) || ek_run_create_with(code, &o, &r))
    return std::puts(ek_message(s)), 1;
  std::vector<float> x(64 * 16, 0.5f);
  int64_t dims[] = {16, 1, 8, 8};
  if (ek_run_shape(r, 0, dims, 4) || ek_run_bind_input(r, 0, x.data()) || ek_run_execute(r))
    return std::puts(ek_run_message(r)), 1;
  const float *y = static_cast<const float *>(ek_run_output_data(r, 0));
  float sum = 0;
  for (int i = 0; i < 10; i++) sum += y[i];
  ek_session_destroy(s);
  return sum > 0.99f && sum < 1.01f && kernels > 0 && !std::strcmp(ek_version(), EK_VERSION) ? 0 : 1;
}
EOF
strict="-Wall -Wextra -pedantic -Werror -I$root/include"
for std in c99 c11 c17; do check "header in $std" cc -std=$std $strict -c "$tmp/c.c" -o "$tmp/c.o"; done
if ! command -v g++ >/dev/null; then
  skip "no g++: the header in C++, and all that the program in C++ tests"
  echo "$passed passed, $failed failed, $((skipped + 13)) skipped"
  [ "$failed" -eq 0 ]
  exit
fi
for std in c++11 c++14 c++17 c++20; do check "header in $std (g++)" g++ -std=$std $strict -c "$tmp/run.cc" -o \
  "$tmp/run.o"; done
if command -v clang-19 >/dev/null; then check "header (clang)" clang-19 -std=c99 $strict -c "$tmp/c.c" -o "$tmp/c.o"
  else skip "clang-19"; fi

# ---- a program in C++ against the shared library ----
check "C++ program links" g++ -std=c++11 $strict "$tmp/run.cc" "$lib" -Wl,-rpath,"$build" -o "$tmp/run"
check "C++ program runs" "$tmp/run" "$root/examples/digits/digits.onnx"

# ---- threads ----
expect() { # WHAT NUMBER COMMAND...
  what=$1 want=$2; shift 2
  got=$("$@" 2>&1)
  if [ "$got" = "$want" ]; then ok; else bad "$what: ek_threads() is $got, not $want"; fi
}
unset EINKORN_NUM_THREADS
cpus=$(nproc)
first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
expect "all processors" "$cpus" "$tmp/run"
expect "affinity to one" 1 taskset -c "$first" "$tmp/run"
expect "EINKORN_NUM_THREADS=3" 3 env EINKORN_NUM_THREADS=3 "$tmp/run"
expect "EINKORN_NUM_THREADS=3 under affinity" 3 env EINKORN_NUM_THREADS=3 taskset -c "$first" "$tmp/run"
expect "EINKORN_NUM_THREADS=none" "$cpus" env EINKORN_NUM_THREADS=none "$tmp/run"
check "a model under affinity to one" taskset -c "$first" "$tmp/run" "$root/examples/digits/digits.onnx"
# a real control group, where this user may make one
quota() { # FOLDER FILE TEXT [FILE TEXT]: half a processor
  group=$1/einkorn-test-$$
  mkdir "$group" 2>/dev/null || return 1
  shift
  while [ $# -gt 0 ]; do echo "$2" 2>/dev/null >"$group/$1" || { rmdir "$group"; return 1; }; shift 2; done
  got=$( (echo "$BASHPID" >"$group/cgroup.procs" && exec "$tmp/run") 2>&1)
  whole=$( (echo "$BASHPID" >"$group/cgroup.procs" &&
    EINKORN_NUM_THREADS=4 exec "$tmp/run" "$root/examples/digits/digits.onnx") 2>&1) ||
    bad "a model under a quota: $whole"
  rmdir "$group"
  if [ "$got" = 1 ]; then ok; else bad "quota of one processor: ek_threads() is $got"; fi
}
if [ "$cpus" -lt 2 ]; then skip "quota: one processor only"
elif quota /sys/fs/cgroup/cpu cpu.cfs_period_us 100000 cpu.cfs_quota_us 100000; then :
elif quota /sys/fs/cgroup cpu.max "100000 100000"; then :
else skip "no control group can be made"; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
