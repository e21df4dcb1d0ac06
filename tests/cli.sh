#!/bin/sh
# What the command line promises: exit codes, what goes to stdout and stderr, every option once.   tests/cli.sh EINKORN
einkorn=${1:-build/einkorn}
here=$(cd "$(dirname "$0")" && pwd)
digits=$here/../examples/digits/digits.onnx all=$here/../examples/digits/all.npz models=$here/models
work=$(mktemp -d)
: "${EINKORN_CACHE_DIR:=$work/cache}"; export EINKORN_CACHE_DIR # never the user's own
trap 'rm -rf "$work"' EXIT
tests=0 bad=0
# expect CODE PATTERN COMMAND...: the exit code, and a text (extended pattern) that stdout or stderr must have ('' for
# none)
expect() {
  code=$1 pattern=$2; shift 2
  tests=$((tests + 1))
  "$@" >"$work/out" 2>"$work/err" </dev/null; got=$?
  if [ "$got" -ne "$code" ]; then bad=$((bad + 1)); echo "exit $got, expected $code: $*"; head -3 "$work/err"; return
    fi
  if [ -n "$pattern" ] && ! cat "$work/out" "$work/err" | grep -Eq -- "$pattern"; then bad=$((bad + 1))
    echo "no '$pattern': $*"; head -3 "$work/out" "$work/err"; fi
}
has() { # FILE PATTERN: of the last command
  tests=$((tests + 1))
  grep -Eq -- "$2" "$work/$1" || { bad=$((bad + 1)); echo "no '$2' on std$1"; }
}
empty() { tests=$((tests + 1)); [ ! -s "$work/$1" ] || { bad=$((bad + 1)); echo "std$1 is not empty:"
  head -3 "$work/$1"; }; }
e() { expect "$1" "$2" "$einkorn" $3; } # no blanks in the words of $3

# Where there is a C compiler: NAME_main.c with the saved NAME_c.c exits with 0, and NAME_c.h serves C++, too.
c_program() { # NAME
  command -v gcc >/dev/null || return
  local plain="-Wall -Wextra -pedantic -Werror"
  expect 0 '' gcc -std=c17 -O1 -w -c "$work/$1_c.c" -o "$work/$1_c.o"
  expect 0 '' gcc -std=c99 $plain -I"$work" "$work/$1_main.c" "$work/$1_c.o" -o "$work/$1_main"
  expect 0 '' "$work/$1_main"
  if command -v g++ >/dev/null; then expect 0 '' g++ -std=c++11 $plain -fsyntax-only -x c++ "$work/$1_c.h"; fi
}

# ---- usage ----
expect 2 'einkorn run' "$einkorn"
e 0 '^einkorn [0-9]' '--version'
e 0 'compiles' '--help'
for c in run compile show check info bench explain ops train evaluate; do e 0 -- "$c --help"; has out -- '--json'; done
e 2 'no command frob' frob
e 2 'no command rum; did you mean run' rum
e 0 'commit: .*' '--version -v'; has out '^LLVM: .*19'; has out '^processor: '
e 0 'einkorn run +MODEL' help; has out 'einkorn help'
e 0 'Rarely needed:' 'help run'; has out '^  --expect FILE.npz  +compares'
e 2 'no command rnu; did you mean run' 'help rnu'
tests=$((tests + 1)); for c in run compile show check info bench explain ops targets help train evaluate; do
  COLUMNS=70 "$einkorn" $c --help | grep -v '^einkorn\|^  einkorn' |
    awk -v c=$c 'length > 70 {print c ": " $0; bad = 1} END {exit bad}' ||
  { bad=$((bad + 1)); echo "--help is wider than 70 columns"; }; done
e 2 'unknown option --expet; did you mean --expect' 'run --expet x'
e 2 'unknown option --stage .it belongs to show' 'run --stage x'
e 2 'bad number for --memory-limit: bytes are expected' "run $digits --memory-limit 12Q"
e 2 'bad value for --accuracy: default.strict.fast is expected, not stric' "run $digits --accuracy stric"
e 2 'unknown option --frob' 'run --frob x'
e 2 'missing' run
e 2 'value is missing' "run $digits --seed"
e 2 'bad number' "run $digits --threads many"
e 2 'bad number' "run $digits -O9"
e 2 'too much' "check $digits $digits"
e 2 'no pass nonsense' "check $digits --stop-after nonsense"
e 2 'no stage' "show $digits --stage nonsense"
e 2 'Q' "check $digits --dim Q=3"
e 2 'open are N; did you mean N' "check $digits --dim n=3"
e 2 'did you mean hoist' "check $digits --stop-after hoits"
e 2 'did you mean conv1' "show $digits --node conv11"
e 2 'NAME=NUMBER' "check $digits --dim N"
two=$models/two_open_sizes.onnx # lowered twice, once with a variant for large batches
e 0 'ok$' "check $two --dim length=9"; e 0 'ok$' "check $two --dim batch=3"
e 0 'ok$' "check $two --dim length=4:9:20 --dim batch=2"
e 2 'open are batch, length' "check $two --dim width=3"
e 1 'pdp11' "check $digits --target pdp11"

# ---- quantize (tests/quantize.sh has what it makes) ----
e 2 'no data: the ranges of tensors are measured' "quantize $digits -o $work/q.onnx"
e 2 '-o OUT.onnx is missing' "quantize $digits --data $all"
e 1 "cannot open '$work/none.npz'" "quantize $digits --data $work/none.npz -o $work/q.onnx"
e 2 '--percentile is for --method percentile' "quantize $digits --data $all --percentile 99 -o $work/q.onnx"
e 2 'bad value for --method: minmax.percentile.entropy.mse.gptq is expected' "quantize $digits --method kl"
e 2 'exclude cnov1: the model has no node of that name; did you mean conv1' \
  "quantize $digits --data $all --exclude cnov1 -o $work/q.onnx"
e 0 '^3 of 4 layers .*are int8' "quantize $digits --data $all --exclude conv1 -o $work/q.onnx"
has out 'conv1 .Conv.*: excluded'
e 0 'stays as it is: the accuracy budget' \
  "quantize $digits --data $all --per-channel --accuracy-budget 35dB -o $work/q.onnx"
has out '^output scores: SQNR [0-9.]* dB, of others at least 3[5-9][.0-9]* dB'
e 0 'another greatest element in 0 % of rows' "quantize $digits --data $all --accuracy-budget 0% -o $work/q.onnx"
e 1 'the accuracy budget cannot be kept' "quantize $digits --data $all --accuracy-budget 300dB -o $work/q.onnx"
e 2 'accuracy-budget 40: a number with % or dB behind it' \
  "quantize $digits --data $all --accuracy-budget 40 -o $work/q.onnx"
e 0 '^kernels of one run: [0-9.]* -> [0-9.]* ms' "quantize $digits --data $all --only-faster -o $work/q.onnx"
e 0 '^output scores: SQNR' "quantize $digits --data $all --smooth auto --per-channel -o $work/q.onnx"
has out '^smoothed: [1-9] tensors, alpha 0.[2-8] to 0.[2-8], [0-9] by a Mul$'
e 0 '^  flat: smoothed, alpha 0.5, by a Mul$' "quantize $digits --data $all --smooth 0.5 -v -o $work/q.onnx"
e 0 '^bias: the mean error of 4 layers was subtracted$' "quantize $digits --data $all -o $work/q.onnx"
e 0 'conv1 .*, bias corrected by [0-9.]*' "quantize $digits --data $all -v -o $work/q.onnx"
e 0 '"corrected": 0' "quantize $digits --data $all --no-bias-correction --json -o $work/q.onnx"
e 0 '"tensor": "flat"' "quantize $digits --data $all --smooth 0.5 --json -o $work/q.onnx"
e 2 '--smooth 1.5: auto, or a number above 0 and at most 1' "quantize $digits --data $all --smooth 1.5 -o $work/q.onnx"
e 2 'the quantised model is written as NAME.onnx' "quantize $digits --data $all -o $work/q.txt"
e 0 'are bf16; ' "quantize $digits --scheme bf16 -o $work/w.onnx"
e 2 'bf16 has no ranges' "quantize $digits --scheme bf16 --method mse -o $work/w.onnx"
e 0 'are weights of 3 bits; ' "quantize $models/mlp_opset12.onnx --scheme int4 --bits 3 --zero-points -o $work/w.onnx"
e 2 'no data: the ranges' "quantize $models/mlp_opset12.onnx --scheme int4 --method gptq -o $work/w.onnx"
e 2 'or 256 weights, not 7' "quantize $models/mlp_opset12.onnx --scheme int4 --block-size 7 -o $work/w.onnx"
e 0 '2 states are int8, by 1 samples; ' "quantize $models/cache_tensor_scatter.onnx --scheme caches --dim L=12 \
  --state keys=past_keys --state values=past_values --data $models/cache_tensor_scatter.npz -o $work/w.onnx"
e 2 'which outputs are caches.' "quantize $digits --data $all --scheme caches -o $work/w.onnx"
e 2 'bad value for --scheme: int8.int4.bf16.caches is expected' "quantize $digits --scheme int5"
e 0 '"kept": null' "quantize $digits --data $all -o $work/q.onnx --json"; empty err
e 2 'quantised already' "quantize $work/q.onnx --data $all -o $work/q2.onnx"

# ---- run ----
e 0 'ok$' "run $digits --inputs $all --expect $all"; empty err
e 0 'ok$' "run $digits --inputs=$all --expect=$all -O0 --eval --threads 1"
e 0 'ok$' "run $digits --inputs $all --expect $all --eval-passes --verify"
# a reference without rounding: the references by onnx.reference, which are f32, hold closely
for m in mlp_opset12 lstm_forward attention_causal if_nested loop_grow conv_geometry normalisations recurrent_clip; do
  near="--inputs $models/$m.npz --expect $models/$m.npz --rtol 2e-5 --atol 5e-6"
  e 0 ' ok$' "run $models/$m.onnx --eval --promote f64 $near"; has out ' f64\['
done
e 2 'promote f64., and goes with --eval' "run $digits --promote f64"
e 2 'promote f64., and goes with --eval' "run $digits --eval --promote f32"
e 0 '"equal": true' "run $digits --inputs $all --expect $all --json"; empty err
e 0 'random data' "run $digits --dim N=3"; has out 'scores f32\[3, 10\]'
e 0 '' "run $digits --input image=zeros -q"; empty err
e 2 'name of an input: image: f32' "run $digits --input picture=zeros"
e 1 'input image: f32\[N, 1, 8, 8\] is expected' "run $digits --inputs $models/unet.npz"
e 0 '' "run $models/if_shape.onnx --output $work/y.npz -q"
e 1 'no array for any output' "run $digits --inputs $all --expect $work/y.npz"
e 0 '' "run $digits --inputs $all --output $work/o.npz -q"
e 0 'error 0, relative 0  ok' "run $digits --inputs $all --expect $work/o.npz"
e 0 '' "run $digits --seed 1 --output $work/s1.npz -q"
e 0 'ok$' "run $digits --seed 1 --expect $work/s1.npz -O0"
e 1 'MISMATCH' "run $digits --seed 2 --expect $work/s1.npz"
e 0 'ok$' "run $digits --seed 2 --expect $work/s1.npz --atol 10"
# data: what is named must be there and fit; nothing is made up unasked
printf 'graph "two" ir 8 opset 17 {\n  input a: f32[N, 3]\n  input bb: f32[N, 3]\n  c: f32[N, 3] = Add(a, bb) '\
'"add"\n  d: f32[N, 3] = Relu(c) "relu"\n  output d\n}\n' >"$work/two.graph"
give() { # FILE.npz NAME SIZE ..: arrays of ones, N of the first axis
  to=$1; shift; set -- "$@"; body= outs=
  while [ $# -gt 0 ]; do body="$body  input x$1: f32[$2, 3]\n  $1: f32[$2, 3] = Identity(x$1) \"n$1\"\n" \
    outs="$outs  output $1\n"; shift 2; done
  printf "graph \"give\" ir 8 opset 17 {\n$body$outs}\n" >"$work/give.graph"
  "$einkorn" run "$work/give.graph" --input ones --output "$work/$to" -q >/dev/null
}
give ab.npz a 2 bb 2; give a.npz a 2; give typo.npz a 2 bbb 2; give foo.npz foo 2; give twice.npz a 2 in_0 2 bb 2
give unequal.npz a 2 bb 3; give case.npz in_0 2 in_bb 2 out_0 2; give sum.npz d 2; give both.npz a 2 bb 2 d 2
  give deep.npz d 2 what 2
e 0 'd f32\[2, 3\]  min 2' "run $work/two.graph --inputs $work/ab.npz"; empty err
e 1 "array 'foo' f32\[2, 3\] is none of the model's inputs, which are a: f32\[N, 3\], bb" \
  "run $work/two.graph --inputs $work/foo.npz -q"
e 1 'did you mean bb' "run $work/two.graph --inputs $work/typo.npz"
e 2 'input bb: f32\[N, 3\] has no data.*--input bb=random' "run $work/two.graph --inputs $work/a.npz"; empty out
e 0 'random data .* bb f32\[2, 3\]$' "run $work/two.graph --inputs $work/a.npz --input bb=random"
e 2 'input bb: f32\[N, 3\] has no data' "run $work/two.graph --input a=ones"
e 0 'd f32\[4, 3\]  min 1 max 1' "run $work/two.graph --input a=ones --input zeros --dim N=4"
# values on the way
e 0 'd.npz: 1 tensors' "run $work/two.graph --inputs $work/ab.npz --dump add $work/d.npz"
e 0 'c f32\[2, 3\] .* ok$' "run $work/two.graph --inputs $work/ab.npz --expect $work/d.npz --eval"
has out '^d: no expected'
e 0 'all.npz: 2 tensors' "run $work/two.graph --inputs $work/ab.npz --dump all $work/all.npz --no-cache"
e 0 '' "run $work/two.graph --inputs $work/ab.npz --expect $work/all.npz -q -O0"; empty out; empty err
e 1 'first that departs, in the model.s order: c, which node add .Add. computes' \
  "run $work/two.graph --input a=ones --input bb=zeros --dim N=2 --expect $work/all.npz"
e 1 '"node": "add"' "run $work/two.graph --input a=ones --input bb=zeros --dim N=2 --expect $work/all.npz --json"
e 0 'part.npz: 1 tensors' "run $work/two.graph --input ones --dump c $work/part.npz --dump add $work/part.npz --dump \
relu $work/own.npz"
e 0 '' "run $work/two.graph --input ones --dump all $work/q.npz --output $work/own.npz -q"
e 2 'a: .* has no data' "run $work/two.graph --inputs $work/own.npz"
e 2 'dump addd: the model has no node.*did you mean add' "run $work/two.graph --dump addd $work/d.npz"
e 2 'a file is missing' "run $work/two.graph --dump add"
e 2 'was given before' "run $work/two.graph --input a=ones --input a=zeros"
e 1 "'a' and 'in_0' are both" "run $work/two.graph --inputs $work/twice.npz"
e 1 'must be' "run $work/two.graph --inputs $work/unequal.npz"
e 1 'MISMATCH' "run $work/two.graph --inputs $work/case.npz --expect $work/case.npz"
e 1 'd f32.* MISMATCH' "run $work/two.graph --inputs $work/both.npz --expect $work/both.npz"
e 1 "deep.npz: its array 'what'" "run $work/two.graph --inputs $work/ab.npz --expect $work/deep.npz"
e 1 "foo.npz: its array 'foo'" "run $work/two.graph --inputs $work/ab.npz --expect $work/foo.npz"
e 2 'has no data' "bench $work/two.graph --inputs $work/a.npz --seconds 0.1"
e 0 'least that run, H=4,W=4' "run $models/unet.onnx"
e 0 'least that run, N=1 ' "run $digits"
printf 'graph "apart" ir 8 opset 17 {\n  input a: f32[M, 3]\n  input b: f32[N, 3]\n  const s: i64[1] = [1]\n  const '\
'e: i64[1] = [1000]\n  c = Slice(a, s, e) "tail"\n  d = Add(b, c) "add"\n  f = MatMul(d, d) "square"\n  output '\
'f\n}\n' >"$work/apart.graph"
echo 'graph "g" ir 9 opset 20 { const x: i64[2] = [-5, 3]
 y = Cast(x) {to = 13} "c"
 output y }' >"$work/u64.graph"
e 0 'max 1.84467e\+19 .*: 18446744073709551611 3$' "run $work/u64.graph"
e 0 '18446744073709551611' "run $work/u64.graph --json"
e 0 'least that run, M=4,N=3' "run $work/apart.graph"
e 0 '\[3, 3\]' "run $work/apart.graph --dim M=4,N=3"
e 1 'No such file' 'run nowhere.onnx'
e 1 'nowhere.npz' "run $digits --inputs nowhere.npz"
e 1 '' "run $all"; has err 'error:'
head -c 2000 "$digits" >"$work/half.onnx"
e 1 'half.onnx' "run $work/half.onnx"
: >"$work/empty.onnx"
e 1 'empty' "run $work/empty.onnx"
cp "$models/external_data.onnx" "$work/alone.onnx"
e 1 "^error: initialiser '.+' has its data in the file '.+', which is not there: put it" "run $work/alone.onnx"
mkdir "$work/folder"
e 1 'directory' "run $work/folder"

# ---- indices out of range ----
cat >"$work/look.txt" <<'EOF'
graph "g" {
  input x: f32[3, 2]
  input i: i64[N]
  y: f32[N, 2] = Gather(x, i) "look up"
  output y
}
EOF
for f in so o c; do e 0 '' "compile $work/look.txt -o $work/look.$f -q"; done
e 0 '' "compile $work/look.txt -o $work/any.so -q --unchecked"
gcc -shared "$work/look.o" -o "$work/looko.so"
gcc -std=c17 -ffreestanding -shared -fPIC -Wall -Wextra -Werror -pedantic -O1 "$work/look.c" -o "$work/lookc.so"
header="{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }"
zeros='\000\000\000\000\000\000\000'
printf "\\223NUMPY\\001\\000\\166\\000%-117s\\n\\002$zeros\\003$zeros" "$header" >"$work/2_3.npy"
far='look up: Gather: index 3 at .1. is out of range -3..2'
data="--input x=random --input i=$work/2_3.npy"
for f in look.so looko.so lookc.so; do e 1 "$far" "run $work/$f $data"; done
for o in '' --eval -O0 '--codegen llvm' '--threads 2'; do e 1 "$far" "run $work/look.txt $data $o"; done
for f in 'look.txt --unchecked' any.so; do e 0 '^y f32.2, 2. ' "run $work/$f $data"; done
# a product with no rows, in a kernel with what it reads
cat >"$work/none.graph" <<'EOF'
graph "none" ir 10 opset 22 {
  input x: f32[1, 2, 1, 1]
  input rois: f32[1, 5]
  input b: i64[5]
  const r: f32[5, 4] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
  p: f32[1, 2, 1, 1] = MaxRoiPool(x, rois) {pooled_shape = [1, 1]} "pool"
  y: f32[5, 2, 0, 1] = RoiAlign(p, r, b) {output_height = 0, sampling_ratio = 3} "align"
  output y
}
EOF
e 0 '^kernels' "compile $work/none.graph -o $work/none.so"
# the only element of a tensor, in a register, read beyond its end
cat >"$work/edge.graph" <<'EOF'
graph "edge" ir 10 opset 22 {
  input x: f16[1, 1, 2, 1]
  p: f16[1, 1, 1, 1] = GlobalMaxPool(x) "pool"
  y: f16[1, 1, 1, 1] = LRN(p) {size = 2, alpha = float 3.5} "norm"
  output y
}
EOF
e 0 '' "run $work/edge.graph --eval --output $work/edge.npz -q"
e 0 'ok$' "run $work/edge.graph --expect $work/edge.npz"
# the best of no elements, whose number only the run knows
cat >"$work/best.graph" <<'EOF'
graph "best" ir 10 opset 22 {
  input x: f32[0]
  input sizes: i64[1, 1]
  const open: i64[1] = [-1]
  const k: i64[1] = [3]
  rows: f32[1, n] = ListStack(x, sizes, open) {axis = 0} "stack"
  best: f32[1, n], at: i64[1, n] = TopK(rows, k) "best"
  output best
}
EOF
e 0 'best f32\[1, 0\]' "run $work/best.graph --input zeros"
e 0 'best f32\[1, 0\]' "run $work/best.graph --input zeros --eval"
# What a size that data decide must be holds for the evaluator as for compiled code. The guard's text goes before the
# range that follows from it; --dim gives a range alone.
cat >"$work/parts.graph" <<'EOF'
graph "s" ir 8 opset 17 {
  input x: f32[4]
  input w: i64[2]
  s = SplitToSequence(x, w) {axis = 0} "split"
  y: f32[n] = ConcatFromSequence(s) {axis = 0} "join"
  output y
}
EOF
ones='\377\377\377\377\377\377\377\377'
printf "\\223NUMPY\\001\\000\\166\\000%-117s\\n\\002$zeros\\002$zeros" "$header" >"$work/2_2.npy"
printf "\\223NUMPY\\001\\000\\166\\000%-117s\\n\\005$zeros$ones" "$header" >"$work/5_less_1.npy"
sum='split: SplitToSequence: the sizes of the parts do not add up to the size of the axis'
most='join: the size join.All.2, found at run time, is 4, not in 0..2: give other data, or compile for more by --dim'
data="--input x=zeros --input w"
e 0 '' "compile $work/parts.graph -o $work/parts.so -q"
e 0 '' "compile $work/parts.graph -o $work/few.so -q --dim join.All.2=2"
for f in parts.graph 'parts.graph --eval' 'parts.graph -O0' parts.so; do
  e 1 "$sum .split.all - 4 = -2, must be >= 0" "run $work/$f $data=ones"
  e 1 "$sum .split.low.2 = -1, must be >= 0" "run $work/$f $data=$work/5_less_1.npy"
  e 0 '^y f32.4. ' "run $work/$f $data=$work/2_2.npy"
done
for f in few.so 'parts.graph --dim join.All.2=2' 'parts.graph --dim join.All.2=2 --eval'; do
  e 1 "$most join.All.2=N" "run $work/$f $data=$work/2_2.npy"
done

# ---- compile ----
e 2 'o OUT is missing' "compile $digits"
e 0 '' "compile $digits --stop-after hoist"
e 0 'digits.so: [0-9]+ bytes' "compile $digits -o $work/digits.so"
e 0 'ok$' "run $work/digits.so --inputs $all --expect $all --threads 2"
e 0 'digits_all.npz: 11 tensors' "run $digits --dim N=2 --dump all $work/digits_all.npz"
e 0 'scores f32\[5, 10\]' "run $work/digits.so --dim N=5"
e 2 'dump: a compiled library' "run $work/digits.so --dump all $work/x.npz"
e 1 "its array 'a'" "run $work/digits.so --dim N=2 --expect $work/digits_all.npz"
e 2 'dim M: no input of this library' "run $work/digits.so --dim M=5"
e 2 'NAME=NUMBER' "run $work/digits.so --dim N"
e 2 'is compiled code' "check $work/digits.so"
tests=$((tests + 1)); [ "$(nm -D --defined-only "$work/digits.so" | awk '{print $3}' | sort | tr '\n' ' ')" = \
  'digits_info digits_run ' ] || { bad=$((bad + 1)); echo 'a saved library exports more than NAME_info and NAME_run'; }
LC_ALL=C sed 's/ avx2/ avx9/g' "$work/digits.so" >"$work/avx9.so" # needs what no processor has
if ! cmp -s "$work/digits.so" "$work/avx9.so"; then e 1 'compiled for processors with avx9' "run $work/avx9.so"; fi
# a library needs the instructions that are in it, not all that its target has
processor() { # WHAT GRAPH TARGET, and what the header says: ERE, '' for nothing
  e 0 '' "compile $2 -o $work/needs.so --target $3"
  tests=$((tests + 1)); sed -n 's/^ \* Processor: one with //p' "$work/needs.h" >"$work/needs"
  if [ -n "$4" ]; then grep -qEx "$4" "$work/needs"; else [ ! -s "$work/needs" ]; fi ||
    { bad=$((bad + 1)); echo "$1 for $3 needs: $(cat "$work/needs")"; }
}
for t in i64 i32 u8; do
  printf 'graph "sum" ir 8 opset 17 {\n  input a: %s[]\n  input b: %s[]\n  c = Add(a, b) "add"\n  output c\n}\n' $t $t \
    >"$work/sum.graph"
  processor "a sum of two $t" "$work/sum.graph" x86-64-v4 ''
done
printf 'graph "mul" ir 8 opset 17 {\n  input a: f32[]\n  input b: f32[]\n  c = Mul(a, b) "mul"\n  output c\n}\n' \
  >"$work/mul.graph"
processor 'a product of two floats' "$work/mul.graph" x86-64-v4 avx
processor 'a network' "$digits" x86-64-v4 '.*avx512f avx512vl .*'
processor 'a network' "$digits" x86-64-v3 'avx avx2 fma'
processor 'code of LLVM' "$digits --codegen llvm" x86-64-v3 'avx2 fma f16c bmi2' # all that the target has
e 0 'digits_llvm.so: [0-9]+ bytes' "compile $digits -o $work/digits_llvm.so --codegen llvm"
e 0 '' "run $work/digits_llvm.so --inputs $all --expect $all"
e 0 '' "compile $digits -o $work/digits.o"
e 0 '' "compile $digits -o $work/digits.c"
for f in digits.o digits.c digits.h; do tests=$((tests + 1)); [ -s "$work/$f" ] || { bad=$((bad + 1)); echo "no $f"; }
  done
e 2 'suffix' "compile $digits -o $work/digits.zip"
e 1 'No such file' "compile $digits -o $work/nowhere/digits.so"
expect 0 "" env PATH=/nonexistent "$einkorn" compile "$digits" -o "$work/alone.so" -q
e 0 "" "run $work/alone.so --inputs $all --expect $all"
expect 1 "lld-19" env PATH=/nonexistent "$einkorn" compile "$digits" -o "$work/x.o"
e 0 '"memory": ' "compile $digits -o $work/digits.so --json"
e 0 'working memory: ' "compile $digits -o $work/digits.so"
e 0 '' "compile $digits -o $work/digits.so -q"; empty out; empty err
if command -v gcc >/dev/null; then
  expect 0 '' gcc -std=c17 -ffreestanding -Wall -Wextra -Werror -pedantic -O1 -c "$work/digits.c" -o "$work/c.o"
  expect 0 '' gcc -I"$work" "$here/../examples/standalone.c" "$work/digits.o" -lm -lpthread -o "$work/standalone"
  expect 0 'picture 0: a 0' "$work/standalone"
  expect 0 '' gcc -I"$work" "$here/../examples/standalone.c" "$work/c.o" -o "$work/standalone"
  expect 0 'picture 1: a 1' "$work/standalone"
fi

# the header: constants, typed functions, no internals; a missing arena is an error code, by all emitters
e 0 '' "compile $digits --dim N=2 -o $work/two.c -q"
e 0 '' "compile $digits --dim N=2 -o $work/llvm.o --codegen llvm -q"
tests=$((tests + 1))
if grep -qiE 'ticket|futex|ek_rt_parallel' "$work/digits.h"; then bad=$((bad + 1)); echo "internals in the header"; fi
cat >"$work/typed.c" <<'EOF'
#include "digits.h"
#include "two.h"
#include "llvm.h"
#define TRY(x) if (!(x)) return __LINE__
static float image[two_IN0_BYTES / 4], y[3][two_OUT0_DIM0 * two_OUT0_DIM1];
static _Alignas(two_ARENA_ALIGN) unsigned char arena[two_ARENA_BYTES(1) + llvm_ARENA_BYTES(1) + (1 << 20)];
int main(void) {
  for (int i = 0; i < two_IN0_BYTES / 4; i++) image[i] = (float)(i * 7 % 17);
  int64_t n = digits_arena(2, NULL), dims[] = {2, 1, 8, 8}, od[2];
  TRY(n > 0 && n < (int64_t)sizeof arena && digits_arena(-1, NULL) == -5);
  TRY(!digits_call(2, image, y[0], arena, sizeof arena));
  TRY(!two_call(image, y[1], arena, two_ARENA_BYTES(1)));
  TRY(!llvm_call(image, y[2], arena, llvm_ARENA_BYTES(1)));
  for (int i = 0; i < 20; i++)
    for (int k = 1; k < 3; k++) TRY(y[0][i] - y[k][i] < 1e-5f && y[k][i] - y[0][i] < 1e-5f);
  TRY(digits_call(2, image, y[0], NULL, sizeof arena) == 2 && two_call(image, y[1], arena, 1) == 2);
  const void *in[] = {image};
  void *out[] = {y[0]};
  int64_t (*run[])(ek_rt_call *) = {digits_run, two_run, llvm_run};
  for (int i = 0; i < 3; i++) {
    ek_rt_call call = {.in = in, .out = out, .in_dims = dims, .out_dims = od, .threads = 1};
    TRY(run[i](&call) == 2 && call.message);
  }
  return 0;
}
EOF
if command -v gcc >/dev/null; then
  strict="-Wall -Wextra -Werror -pedantic"
  expect 0 '' gcc -std=c11 $strict "$work/typed.c" "$work/digits.o" "$work/two.c" "$work/llvm.o" -lm -lpthread \
    -o "$work/typed"
  expect 0 '' "$work/typed"
  expect 0 '' gcc -std=c99 $strict -fsyntax-only -x c "$work/digits.h"
  e 0 '' "compile $models/strange_names.onnx -o $work/strange.c -q"
  expect 0 '' gcc -std=c99 $strict -fsyntax-only -x c "$work/strange.h"
  if command -v g++ >/dev/null; then expect 0 '' g++ -std=c++11 $strict -fsyntax-only -x c++ "$work/digits.h"; fi
fi

# ---- show, check, info, ops ----
for s in graph expr schedule candidates loop program llvm asm; do e 0 '' "show $digits --stage $s"; has out '...'; done
for s in graph expr schedule candidates loop cost program llvm asm; do
  e 0 '' "show $digits --grad --stage $s"; has out '...'
done
e 0 'output .* "gradient[.]' "show $digits --grad --of a_relu --stage expr"
e 2 'computes no tensor of the name nonsense' "show $digits --grad --of nonsense"
"$einkorn" show "$digits" --stage schedule -q >"$work/own.schedule"
e 0 '' "run $digits --inputs $all --expect $all --schedule $work/own.schedule --no-cache"; has out ' ok$'
sed 's/buffer none/buffer never/' "$work/own.schedule" >"$work/wrong.schedule"
e 2 'wrong.schedule:[0-9]+:[0-9]+: error: kernel k[0-9]+: buffer: expected panel, rows, panel rows, or none' \
  "check $digits --schedule $work/wrong.schedule"
e 2 'followed from optimisation level 1 on' "check $digits -O 0 --schedule $work/own.schedule"
e 1 'no.schedule' "check $digits --schedule $work/no.schedule"
e 0 '^k2:' "show $digits --stage asm --target x86-64-v3"; has out 'vfmadd231ps.*%ymm'; has out '^.L[0-9a-f]+:$'
has out '# k2$'
e 0 '' "show $digits --stage asm --target x86-64-v3 --codegen llvm"; has out '\.file'
e 0 '# expr after inline' "show $digits --stage expr --after inline#1"
e 0 '# graph after load' "show $digits --after load"
e 0 'conv2' "show $digits --stage expr --node conv2"
e 0 'kernel' "show $digits --stage loop --node conv2"
"$einkorn" show "$digits" --weights inline >"$work/digits.graph"
e 0 'ok$' "run $work/digits.graph --inputs $all --expect $all"
e 0 'ok$' "check $digits --timing --verify"; has err 'simplify'
e 0 '' "check $digits --stop-after lower --timing"
e 0 '"ok": true' "check $digits --json"
e 0 'MACs: 137472\*N' "info $digits --layers"
e 0 'MACs: 549888' "info $digits --dim N=4"
e 0 '"macs": "137472\*N"' "info $digits --json --layers"
e 0 'Softmax' 'ops'
e 0 'op Softmax' 'ops Softmax'
e 2 'no operator' 'ops Nonsense'
e 2 'did you mean Softmax' 'ops Softmx'
e 0 '^host  *[0-9]* registers of' targets; has out '^c  *no vectors  *caches 32K, 256K, 4M'
e 0 '^vector_registers = 32$' 'targets x86-64-v4'
e 0 '^cpu = znver4$' 'targets zen4'; has out '^fma_per_cycle = 1$'; has out '^vector_bits = 512$'
e 0 '^.*`vector_registers`' 'targets --table'
e 1 'unknown target `pdp11`; known are host' 'targets pdp11'
printf 'triple = x\nl1 = big\n' >"$work/bad.target"
e 1 "^$work/bad.target:2:1: error: target .*no value for l1; expected 0 to" "targets $work/bad.target"
printf 'graph "own" ir 8 opset 17 {\n  input x: f32[2]\n  y: f32[2] = "com.microsoft"::FastGeluu(x) "g"\n  z: f32[2] '\
'= Geluu(y) "h"\n  output z\n}\n' >"$work/meant.graph"
e 3 'FastGeluu is not defined.*did you mean com.microsoft::FastGelu' "check $work/meant.graph"
has err 'Geluu is not defined.*did you mean Gelu'
e 0 '"name": "Softmax"' 'ops Softmax --json'
printf 'graph "own" ir 8 opset 17 {\n  input x: f32[N]\n  y: f32[N] = mine::Twice(x) "twice"\n  output '\
'y\n}\n' >"$work/own.graph"
printf 'op "mine::Twice"<T: num>(X: T[a...]) -> Y: T[a...] {\n  Y[i...] = X[i...] + X[i...]\n}\n' >"$work/own.ek"
printf 'op Broken(X: T[a...] -> Y\n' >"$work/broken.ek"
e 1 'broken.ek:1:' "ops --ops $work/broken.ek"
e 1 'nowhere.ek' "ops --ops nowhere.ek"
e 3 'mine::Twice is not defined' "check $work/own.graph"
e 0 'y f32\[1\]' "run $work/own.graph --ops $work/own.ek --input x=ones"
e 0 '%' "bench $digits --seconds 0.1 --threads 1"
e 0 '"median_ms"' "bench $digits --seconds 0.1 --json"; has out '"p99_ms"'; has out '"items_per_second"'
e 0 'p99 .* .7 runs' "bench $digits --iterations 7 --warmup 2 --dim N=4"
has out 'items .a run has 4: the first dimension of image'

e 2 'the engines are onnxruntime' "bench $digits --against fastest"
e 2 'read ONNX files' "bench $work/own.graph --ops $work/own.ek --against onnxruntime"
mkdir "$work/peers"
e 0 'onnxruntime: skipped: no python in .*/peers has it; python3 -m venv' \
  "bench $digits --against onnxruntime,jax --peers $work/peers --seconds 0.2"; has out '^einkorn .* 1.000x'
e 0 '"remedy"' "bench $digits --against onnxruntime --peers $work/peers --seconds 0.2 --json -q"
peers=${EK_TEST_PEERS:-} # a folder of virtual environments
if [ -n "$peers" ]; then e 0 '^onnxruntime .*x ' \
  "bench $digits --against onnxruntime --peers $peers --seconds 0.2 --slices 2"
  else echo "other engines: EK_TEST_PEERS names no folder: not compared with"; fi
# an engine of our own that answers as peer.py expects: it ends, or is killed, in every turn that it may take
mkdir "$work/peers/bin"
for way in 'echo "ready 1.0 5"; while read -r a; do echo "times 1 2 3"; done' 'echo "error it cannot"' 'exit 3' \
  'echo "ready 1.0 5"; read -r a; exit 0'; do
  { echo '#!/bin/sh'; echo '[ "$3" = has ] && exit 0'
    echo "$einkorn run $digits -q --inputs "\$5" --output "\$6" >/dev/null 2>&1"; echo "$way"
    } >"$work/peers/bin/python"; chmod +x "$work/peers/bin/python"
  e 0 'onnxruntime.*(x |it cannot|without a word)' \
    "bench $digits --against onnxruntime --peers $work/peers --seconds 0.1 --slices 2 --no-cache"
done
e 0 'k[0-9]+\*? contraction: conv1, relu1' "explain $digits --seconds 0.1 --threads 1"
has out 'a contraction begins a kernel'
e 0 'working memory: [0-9]+ bytes' "explain $digits --seconds 0.05 --threads 1 --dim N=3"
has out 'of which [0-9]* must be live'
e 0 'apart from k[0-9]+: ' "explain $digits --seconds 0.05 -v -q"
e 0 '^if many ' "show $models/many_rows.onnx --stage expr --target x86-64-v3" # a variant for many rows
e 0 "" "show $here/fuzz/seeds/table_of_one_lane.onnx --stage loop --target x86-64-v3 --verify" # of one lane
e 0 'stages stay apart' "explain $digits --seconds 0.05 -O0"
e 0 'stated' "explain $digits --seconds 0.05 --peak 100:10 --sort time"
e 0 'trace.json: [0-9]+ events' \
  "explain $digits --seconds 0.05 --peak 100:10 --dim N=32 --threads 2 --trace $work/trace.json"
  has out '\[flatten\], classify'
tests=$((tests + 1)); grep -q '"ph":"X"' "$work/trace.json" || { bad=$((bad + 1)); echo "no events in trace.json"; }
if command -v python3 >/dev/null; then tests=$((tests + 1))
python3 - "$work/trace.json" <<'EOF' || { bad=$((bad + 1)); echo "the trace is none"; }
import json, sys
e = [x for x in json.load(open(sys.argv[1]))["traceEvents"] if x["ph"] == "X"]
launches = [x for x in e if x["cat"] != "piece"]
assert launches and any("softmax" in x["name"] for x in launches), "launches by their nodes"
assert all(a["ts"] + a["dur"] <= b["ts"] + 1 for a, b in zip(launches, launches[1:])), "one after the other"
assert all(any(l["ts"] - 1 <= x["ts"] and x["ts"] + x["dur"] <= l["ts"] + l["dur"] + 1 for l in launches)
           for x in e), "pieces lie within launches"
EOF
fi
printf 'graph "kept" ir 8 opset 17 {\n  input x: f32[4]\n  const one: f32[4] = [1, 1, 1, 1]\n  two: f32[4] = '\
'Add(one, one) "fold"\n  y: f32[4] = Mul(x, two) "mul"\n  output y\n}\n' >"$work/kept.graph"
e 0 'in no kernel: 1 nodes .*: fold' "explain $work/kept.graph --seconds 0.05 --peak 100:10"
e 2 'GFLOPS:GBS' "explain $digits --peak fast"
e 2 'the model that it was made of' "explain $work/digits.so"
"$einkorn" show "$digits" --stage program --dim N=3 | grep -c '^ *launch' >"$work/launches"
expect 0 '"bound"' "$einkorn" explain "$digits" --seconds 0.05 --dim N=3 --json -q
tests=$((tests + 1)); [ "$(grep -c '"starts": 1' "$work/out")" = "$(cat "$work/launches")" ] || { bad=$((bad + 1))
  echo "explain tells of $(grep -c '"starts": 1' "$work/out") kernels, show of $(cat "$work/launches")"; }
if command -v python3 >/dev/null; then tests=$((tests + 1))
  python3 -c 'import json, sys; json.load(sys.stdin)' <"$work/out" || { bad=$((bad + 1))
  echo "explain --json is no JSON"; }; fi

e 1 'memory' "run $digits --dim N=100 --memory-limit 1000"
e 1 'need [0-9]* bytes of working memory .*threads.*the limit is 2048 bytes' "run $digits --memory-limit 2KiB"
e 0 '' "run $digits --memory-limit 1G -q"
# a saved model: what any run of it can take
e 1 'a run may take [0-9]* bytes .*limit is 5000 bytes$' "compile $digits --dim N=1 --memory-limit 5000 -o $work/x.so"
e 1 'a run may take .*--dim NAME=LEAST::MOST' "compile $digits --memory-limit 1G -o $work/x.so"
e 1 'the limit is 1024 bytes' "compile $digits --dim N=1::64 --memory-limit 1K -o $work/x.c"
e 0 '' "compile $digits --dim N=1::64 --memory-limit 10M -o $work/x.so -q"
e 1 'out of memory: these sizes need [0-9]* bytes of working memory .[0-9]*000000' "run $digits --dim N=1000000000"

# ---- files of others: what they are, and what to do ----
other() { # NAME BYTES(printf) PATTERN
  printf "$2" >"$work/$1"; e 1 "$3" "run $work/$1"
}
other a.tflite '\034\000\000\000TFL3\000\000' 'is a TensorFlow Lite model: .*--tflite .*/a.tflite'
other b.h5 '\211HDF\r\n\032\n\000' 'is an HDF5 file'
other c.pkl '\200\004\225\000' 'is a Python pickle'
other d.pt 'PK\003\004......................d/data.pkl' 'is a zip of PyTorch .*torch.onnx.export'
other e.zip 'PK\003\004......................x.txt' 'is a zip archive'
other f.onnx 'version https://git-lfs.github.com/spec/v1\noid sha256:a\nsize 1\n' 'a pointer of Git LFS, .*git lfs pull'
other g.onnx '\n<!DOCTYPE html><html>404</html>' 'is a web page'
other h.json '{\"ir_version\": 8}' 'is JSON'
other i.xml '<?xml version=\"1.0\"?><net name=\"x\">' 'OpenVINO'
other j.safetensors '\002\000\000\000\000\000\000\000{}......' 'safetensors'
other k.gz '\037\213\010\000' 'gzip -d'
other l.txt 'hello\n' "expected 'graph'"
mkdir "$work/saved" "$work/hub"; : >"$work/saved/saved_model.pb"; : >"$work/hub/model.onnx"
e 1 'is a SavedModel of TensorFlow: .*--saved-model' "run $work/saved"
e 1 'did you mean .*/hub/model.onnx' "run $work/hub"
e 0 '' "run $digits --dim N=1 --memory-limit 100000000 --no-cache"

# ---- environment ----
expect 0 '' env EINKORN_LOG=error "$einkorn" run "$digits" -q; empty err
expect 2 'EINKORN_LOG is loud' env EINKORN_LOG=loud "$einkorn" run "$digits"
expect 0 'with 1 threads' env EINKORN_NUM_THREADS=1 "$einkorn" run "$digits" -v

# ---- manual and completions ----
e 0 'einkorn.-run' 'describe man'
for c in run compile show check info bench explain ops targets help; do e 0 '^.SH OPTIONS' "describe man $c"; done
for s in bash zsh fish; do e 0 'stage' "describe $s"; done
e 2 'no command frob' 'describe man frob'
e 2 'described as frob' 'describe frob'

# ---- states ----
printf 'graph "f" {\n input a: f32[5, 4]\n x = Neg(a)\n output x\n}\n' >"$work/makes.graph"
printf 'graph "acc" {\n input s: f32[4]\n input x: f32[4]\n const k: f32[] = [0.5]\n y = Add(x, s)\n s2 = Mul(y, k)\n' \
  >"$work/acc.graph"
printf ' output s2\n output y\n}\n' >>"$work/acc.graph"
e 0 '' "run $work/makes.graph -o $work/frames.npz -q"
tied="$work/acc.graph --state s2=s"
e 0 '' "run $tied --frames --inputs $work/frames.npz --eval --no-cache -o $work/acc.npz -q"
e 0 'y f32\[5, 4\].* ok$' "run $tied --frames --inputs $work/frames.npz --expect $work/acc.npz"
e 0 'y f32\[5, 4\].* ok$' "run $tied --frames --inputs $work/frames.npz --expect $work/acc.npz -v"
has err 'loaded from the cache'
e 0 '1 tensors' "run $tied --frames --inputs $work/frames.npz --dump s2 $work/s.npz"
e 0 'y f32.* ok$' "run $tied --frames --inputs $work/frames.npz --expect $work/s.npz --expect $work/acc.npz"
e 1 'input x: f32\[4\] is expected, f32\[5, 4\]' "run $tied --inputs $work/frames.npz"
e 2 'no input has frames' "run $tied --frames"
e 0 'state  s2=s' "info $tied"; has out 'output y: f32'
e 0 'output s2 state s' "show $tied"
e 0 'state "s" = "s2" exchanged' "show $tied --stage program"
sed 's/output s2$/output s2 state s/' "$work/acc.graph" >"$work/tied.graph"
e 0 'y f32\[5, 4\].* ok$' "run $work/tied.graph --frames --inputs $work/frames.npz --expect $work/acc.npz"
e 0 '^input  x: f32' "info $work/tied.graph"
if grep -q ' s: ' "$work/out"; then bad=$((bad + 1)); echo "info tells of an input that is a state"; fi
e 2 'tied to an output already' "check $work/tied.graph --state y=s"
e 2 'OUTPUT=INPUT is expected' "check $work/acc.graph --state s2"
e 2 'no output of the name s3' "check $work/acc.graph --state s3=s"
e 0 '' "compile $tied -o $work/acc.so -q"
cat >"$work/acc_main.c" <<'EOF'
#include "acc_c.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned char memory[2][acc_c_STATES_BYTES + 64];
int main(void) { /* two instances; one is brought back to where it was, and one begins again */
  acc_c_states a, b;
  float x[4] = {1, 2, 3, 4}, y[4], kept[4];
  unsigned char *room[2];
  for (int i = 0; i < 2; i++) room[i] = memory[i] + (64 - (size_t)memory[i] % 64) % 64;
  if (acc_c_begin(NULL, NULL, 0) != acc_c_STATES_BYTES || acc_c_begin(&a, room[0], 1) != -2) return 1;
  if (acc_c_begin(&a, room[0], acc_c_STATES_BYTES) < 0 || acc_c_begin(&b, room[1], acc_c_STATES_BYTES) < 0) return 2;
  for (int i = 0; i < 2; i++)
    if (acc_c_call(x, y, &a, NULL, 0)) return 3;
  if (y[3] != 6 || a.bytes[0] != sizeof kept || acc_c_STATE0_BYTES != sizeof kept) return 4;
  memcpy(kept, a.now[0], sizeof kept);
  if (acc_c_call(x, y, &a, NULL, 0) || y[3] != 7 || acc_c_call(x, y, &b, NULL, 0) || y[3] != 4) return 5;
  memcpy(a.now[0], kept, sizeof kept);
  if (acc_c_call(x, y, &a, NULL, 0) || y[3] != 7) return 6;
  acc_c_reset(&a);
  return acc_c_call(x, y, &a, NULL, 0) || y[3] != 4;
}
EOF
e 0 '' "compile $tied -o $work/acc_c.c -q"
c_program acc
e 0 'y f32\[5, 4\].* ok$' "run $work/acc.so --frames --inputs $work/frames.npz --expect $work/acc.npz"
# a state whose axes lie in another order: its elements are given and shown row-major
printf 'graph "mat" {\n input s: f32[2, 3]\n input x: f32[2, 3]\n s2 = Sub(x, s)\n y = Neg(s)\n output y\n' \
  >"$work/mat.graph"
printf ' output s2 state s first f32[2, 3] = [1, 2, 3, 4, 5, 6]\n}\n' >>"$work/mat.graph"
printf 'schedules 1\ntensor Sub_0.C {\n  layout i1 i0\n}\n' >"$work/mat.schedule"
printf 'graph "f" {\n input a: f32[5, 2, 3]\n x = Neg(a)\n output x\n}\n' >"$work/makes.graph"
e 0 '' "run $work/makes.graph -o $work/frames.npz -q"
e 0 '' "run $work/mat.graph --frames --inputs $work/frames.npz --eval --no-cache -o $work/mat.npz -q"
mat="$work/mat.graph --schedule $work/mat.schedule"
e 0 'first %[0-9]*.s.first.packed order 1 0' "show $mat --stage program"
e 0 'y f32\[5, 2, 3\].* ok$' "run $mat --frames --inputs $work/frames.npz --expect $work/mat.npz"
e 0 'y f32\[5, 2, 3\].* ok$' "run $mat --frames --inputs $work/frames.npz --expect $work/mat.npz -v"
has err 'loaded from the cache'
e 0 '' "compile $mat -o $work/mat.so -q"
e 0 'y f32\[5, 2, 3\].* ok$' "run $work/mat.so --frames --inputs $work/frames.npz --expect $work/mat.npz"
cat >"$work/mat_main.c" <<'END'
#include "mat_c.h"
static unsigned char memory[mat_c_STATES_BYTES + 64];
int main(void) {
  mat_c_states a;
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6], s[6], other[6] = {10, 20, 30, 40, 50, 60};
  if (mat_c_begin(&a, memory + (64 - (size_t)memory % 64) % 64, mat_c_STATES_BYTES) < 0) return 1;
  mat_c_snapshot(&a, 0, s);
  for (int i = 0; i < 6; i++)
    if (s[i] != i + 1) return 2;
  if (((float *)a.now[0])[1] != 4 || a.dims[0][1] != 3) return 3;
  if (mat_c_call(x, y, &a, NULL, 0) || y[1] != -2) return 4;
  mat_c_restore(&a, 0, other);
  if (mat_c_call(x, y, &a, NULL, 0) || y[1] != -20) return 5;
  mat_c_snapshot(&a, 0, s);
  if (s[1] != -18 || s[3] != -36) return 6;
  mat_c_reset(&a);
  mat_c_snapshot(&a, 0, s);
  return s[1] != 2;
}
END
e 0 '' "compile $mat -o $work/mat_c.c -q"
c_program mat
echo "command line: $tests checks, $bad bad"
[ "$bad" -eq 0 ]
