#!/bin/bash
# Does compiling take time in proportion to the model? Chains of n and of 4n layers are compiled, of several kinds; the
# processor time of the long one, less what an empty model takes, is at most 6 times that of the short one.
#   tests/linear.sh [-b BUILD] [-v] [KIND...]
# Ratios of the least of three times, measured one after the other: other work on the machine slows both. A ratio beyond
# the limit is measured once more.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build
verbose=
while getopts b:v o; do case $o in b) build=$OPTARG;; v) verbose=1;; *) exit 2;; esac; done
shift $((OPTIND - 1))
build=$(cd "$build" && pwd) || exit 2
work=$(mktemp -d "$build/linear.XXXXXX")
trap 'rm -rf "$work"' EXIT
limit=6

# ---- models as text: KIND LAYERS ----
header='function numbers(n,  i, s) { for (i = 0; i < n; i++) s = s (i ? ", " : "") (int(rand() * 2000) - 1000) / 8000;
  return s }
  function weight(name, dims, n) { printf "  const %s: f32[%s] = [%s]\n", name, dims, numbers(n) }
  function begin(input) { srand(7); print "graph \"g\" ir 8 opset 18 producer \"\" {\n  input x: " input }
  function end(y) { print "  output " y "\n}" }'
model() {
  local body
  case $1 in
  layers) body='begin("f32[1, 64]"); print "  const a: i64[1] = [0]"; t = "x"   # small: nobody asks for them
    for (i = 0; i < n; i++) weight("w" i, "64, 64", 4096)
    for (i = 0; i < n; i++) { printf "  m%d = MatMul(%s, w%d)\n  u%d = Unsqueeze(m%d, a)\n", i, t, i, i, i
      printf "  s%d = Squeeze(u%d, a)\n  t%d = Tanh(s%d)\n", i, i, i, i; t = "t" i } end(t)';;
  sizes) body='begin("f32[N, 8]"); print "  const k: i64[1] = [3]\n  const z: i64[1] = [0]\n  const e: i64[1] = [1]"
    print "  s = Shape(x)\n  c0 = Slice(s, z, e, z)"   # a size that an exporter works out step by step
    for (i = 0; i < n; i++) printf "  a%d = Add(c%d, k)\n  c%d = Sub(a%d, k)\n", i, i, i + 1, i
    printf "  const m: i64[1] = [-1]\n  r = Concat(c%d, m) {axis = 0}\n  y = Reshape(x, r)\n", n; end("y")';;
  steps) body='begin("f32[" n ", 1, 16]"); weight("w", "48, 16", 768); weight("v", "48, 16", 768);
    weight("h", "1, 16", 16); t = "h"   # a recurrence, step by step
    for (i = 0; i < n; i++) { printf "  const i%d: i64[] = [%d]\n", i, i }
    for (i = 0; i < n; i++) { printf "  x%d = Gather(x, i%d) {axis = 0}\n", i, i
      printf "  a%d = Gemm(x%d, w) {transB = 1}\n  b%d = Gemm(%s, v) {transB = 1}\n", i, i, i, t
      printf "  p%d, q%d, r%d = Split(a%d) {axis = 1, num_outputs = 3}\n", i, i, i, i
      printf "  d%d, e%d, f%d = Split(b%d) {axis = 1, num_outputs = 3}\n", i, i, i, i
      printf "  g%d = Add(p%d, d%d)\n  z%d = Sigmoid(g%d)\n  j%d = Mul(z%d, f%d)\n", i, i, i, i, i, i, i, i
      printf "  k%d = Add(r%d, j%d)\n  l%d = Tanh(k%d)\n", i, i, i, i, i
      printf "  o%d = Add(l%d, e%d)\n", i, i, i; t = "o" i } end(t)';;
  # one expression: one kernel with many values
  long) body='begin("f32[64]"); t = "x"; for (i = 0; i < 8 * n; i++) {
    printf "  a%d = Mul(%s, x)\n  b%d = Add(a%d, x)\n", i, t, i, i; t = "b" i } end(t)';;
  convs) body='begin("f32[1, 8, 12, 12]"); for (i = 0; i < n; i++) { o = 8 + i % 13; c = i ? 8 + (i - 1) % 13 : 8;
    weight("w" i, o ", " c ", 3, 3", o * c * 9) } t = "x"
    for (i = 0; i < n; i++) { printf "  c%d = Conv(%s, w%d) {pads = [1, 1, 1, 1]}\n  r%d = Relu(c%d)\n", i, t, i, i, i;
      t = "r" i } end(t)';;
  *) echo "linear.sh: no kind $1" >&2; exit 2;;
  esac
  awk -v n="$2" "$header BEGIN { $body }" >"$work/$1.$2.txt"
}
ms() { # of processor time, the least of three
  local best=999999 t k
  for k in 1 2 3; do
    t=$( { TIMEFORMAT=%U; time "$build/einkorn" compile "$work/$1.txt" -o "$work/out.o" -q --compile-threads \
      1 >"$work/said" 2>&1; } 2>&1) || return 1
    t=$((10#${t/./}))
    [ "$t" -lt "$best" ] && best=$t
  done
  echo "$best"
}
passed=0 failed=0
judge() { # KIND LAYERS
  local kind=$1 n=$2 a b try
  model "$kind" "$n"
  model "$kind" $((4 * n))
  for try in 1 2; do
    a=$(ms "$kind.$n") && b=$(ms "$kind.$((4 * n))") ||
      { echo "FAIL linear: $kind does not compile: $(head -1 "$work/said")"; failed=$((failed + 1)); return; }
    [ -z "$verbose" ] || echo "$kind: $n layers $a ms, $((4 * n)) layers $b ms"
    [ "$b" -le $((limit * a + 30)) ] && { passed=$((passed + 1)); return; }
  done
  echo "FAIL linear: $kind: $n layers take $a ms, $((4 * n)) layers $b ms"
  failed=$((failed + 1))
}
kinds=(layers:25 sizes:150 steps:12 long:40 convs:8)
for k in "${kinds[@]}"; do
  [ $# -eq 0 ] || [[ " $* " == *" ${k%:*} "* ]] || continue
  judge "${k%:*}" "${k#*:}"
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
