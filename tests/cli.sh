#!/bin/sh
# What the command line promises: exit codes, what goes to stdout and stderr, every option once.   tests/cli.sh EINKORN
einkorn=${1:-build/einkorn}
here=$(cd "$(dirname "$0")" && pwd)
digits=$here/../examples/digits/digits.onnx all=$here/../examples/digits/all.npz models=$here/models
work=$(mktemp -d)
: "${EINKORN_CACHE_DIR:=$work/cache}"; export EINKORN_CACHE_DIR # never the user's own
trap 'rm -rf "$work"' EXIT
tests=0 bad=0
# expect CODE PATTERN COMMAND...: the exit code, and a text (extended pattern) that stdout or stderr must have ('' for none)
expect() {
  code=$1 pattern=$2; shift 2
  tests=$((tests + 1))
  "$@" >"$work/out" 2>"$work/err" </dev/null; got=$?
  if [ "$got" -ne "$code" ]; then bad=$((bad + 1)); echo "exit $got, expected $code: $*"; head -3 "$work/err"; return; fi
  if [ -n "$pattern" ] && ! cat "$work/out" "$work/err" | grep -Eq -- "$pattern"; then bad=$((bad + 1)); echo "no '$pattern': $*"; head -3 "$work/out" "$work/err"; fi
}
has() { # FILE PATTERN: of the last command
  tests=$((tests + 1))
  grep -Eq -- "$2" "$work/$1" || { bad=$((bad + 1)); echo "no '$2' on std$1"; }
}
empty() { tests=$((tests + 1)); [ ! -s "$work/$1" ] || { bad=$((bad + 1)); echo "std$1 is not empty:"; head -3 "$work/$1"; }; }
e() { expect "$1" "$2" "$einkorn" $3; } # no blanks in the words of $3

# ---- usage ----
expect 2 'einkorn run' "$einkorn"
e 0 '^einkorn [0-9]' '--version'
e 0 'compiles' '--help'
for c in run compile show check info bench ops; do e 0 -- "$c --help"; has out -- '--json'; done
e 2 'no command frob' frob
e 2 'unknown option --frob' 'run --frob x'
e 2 'missing' run
e 2 'value is missing' "run $digits --seed"
e 2 'bad number' "run $digits --threads many"
e 2 'bad number' "run $digits -O9"
e 2 'too much' "check $digits $digits"
e 2 'no pass nonsense' "check $digits --stop-after nonsense"
e 2 'no stage' "show $digits --stage nonsense"
e 2 'Q' "check $digits --dim Q=3"
e 2 'NAME=NUMBER' "check $digits --dim N"
e 1 'pdp11' "check $digits --target pdp11"

# ---- run ----
e 0 'ok$' "run $digits --inputs $all --expect $all"; empty err
e 0 'ok$' "run $digits --inputs=$all --expect=$all -O0 --eval --threads 1"
e 0 'ok$' "run $digits --inputs $all --expect $all --eval-passes --verify"
e 0 '"equal": true' "run $digits --inputs $all --expect $all --json"; empty err
e 0 'random data' "run $digits --dim N=3"; has out 'scores f32\[3, 10\]'
e 0 '' "run $digits --input image=zeros -q"; empty err
e 2 'name of an input: image' "run $digits --input picture=zeros"
e 1 'input image: f32\[N, 1, 8, 8\] is expected' "run $digits --inputs $models/unet.npz"
e 0 '' "run $models/if_shape.onnx --output $work/y.npz -q"
e 1 'no array for any output' "run $digits --inputs $all --expect $work/y.npz"
e 0 '' "run $digits --inputs $all --output $work/o.npz -q"
e 0 'error 0, relative 0  ok' "run $digits --inputs $all --expect $work/o.npz"
e 0 '' "run $digits --seed 1 --output $work/s1.npz -q"
e 0 'ok$' "run $digits --seed 1 --expect $work/s1.npz -O0"
e 1 'MISMATCH' "run $digits --seed 2 --expect $work/s1.npz"
e 0 'ok$' "run $digits --seed 2 --expect $work/s1.npz --atol 10"
e 1 'No such file' 'run nowhere.onnx'
e 1 'nowhere.npz' "run $digits --inputs nowhere.npz"
e 1 '' "run $all"; has err 'error:'
head -c 2000 "$digits" >"$work/half.onnx"
e 1 'half.onnx' "run $work/half.onnx"
: >"$work/empty.onnx"
e 1 'empty' "run $work/empty.onnx"
mkdir "$work/folder"
e 1 'directory' "run $work/folder"

# ---- compile ----
e 0 'working memory: ' "compile $digits"
e 0 'digits.so: [0-9]+ bytes' "compile $digits -o $work/digits.so"
e 0 'ok$' "run $work/digits.so --inputs $all --expect $all --threads 2"
e 0 'scores f32\[5, 10\]' "run $work/digits.so --dim N=5"
e 2 'is compiled code' "check $work/digits.so"
e 0 '' "compile $digits -o $work/digits.o"
e 0 '' "compile $digits -o $work/digits.c"
for f in digits.o digits.c digits.h; do tests=$((tests + 1)); [ -s "$work/$f" ] || { bad=$((bad + 1)); echo "no $f"; }; done
e 2 'suffix' "compile $digits -o $work/digits.zip"
e 1 'No such file' "compile $digits -o $work/nowhere/digits.so"
expect 1 'lld-19' env PATH=/nonexistent "$einkorn" compile "$digits" -o "$work/x.so"
e 0 '"memory": ' "compile $digits --json"
if command -v gcc >/dev/null; then
  expect 0 '' gcc -std=c17 -ffreestanding -Wall -Wextra -Werror -pedantic -O1 -c "$work/digits.c" -o "$work/c.o"
  expect 0 '' gcc -I"$work" "$here/../examples/standalone.c" "$work/digits.o" -lm -lpthread -o "$work/standalone"
  expect 0 'picture 0: a 0' "$work/standalone"
  expect 0 '' gcc -I"$work" "$here/../examples/standalone.c" "$work/c.o" -o "$work/standalone"
  expect 0 'picture 1: a 1' "$work/standalone"
fi

# ---- show, check, info, ops ----
for s in graph expr loop program llvm asm; do e 0 '' "show $digits --stage $s"; has out '...'; done
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
e 0 '"name": "Softmax"' 'ops Softmax --json'
printf 'graph "own" ir 8 opset 17 {\n  input x: f32[N]\n  y: f32[N] = mine::Twice(x) "twice"\n  output y\n}\n' >"$work/own.graph"
printf 'op "mine::Twice"<T: num>(X: T[a...]) -> Y: T[a...] {\n  Y[i...] = X[i...] + X[i...]\n}\n' >"$work/own.ek"
printf 'op Broken(X: T[a...] -> Y\n' >"$work/broken.ek"
e 1 'broken.ek:1:' "ops --ops $work/broken.ek"
e 1 'nowhere.ek' "ops --ops nowhere.ek"
e 3 'mine::Twice is not defined' "check $work/own.graph"
e 0 'y f32\[1\]' "run $work/own.graph --ops $work/own.ek --input x=ones"
e 0 '%' "bench $digits --seconds 0.1 --threads 1"
e 0 '"median_ms"' "bench $digits --seconds 0.1 --json"

e 1 'memory' "run $digits --dim N=100 --memory-limit 1000"
e 0 '' "run $digits --dim N=1 --memory-limit 100000000 --no-cache"

# ---- environment ----
expect 0 '' env EINKORN_LOG=error "$einkorn" run "$digits" -q; empty err
expect 2 'EINKORN_LOG is loud' env EINKORN_LOG=loud "$einkorn" run "$digits"
expect 0 'with 1 threads' env EINKORN_NUM_THREADS=1 "$einkorn" run "$digits" -v

# ---- manual and completions ----
e 0 'einkorn.-run' 'describe man'
for c in run compile show check info bench ops; do e 0 '^.SH OPTIONS' "describe man $c"; done
for s in bash zsh fish; do e 0 'stage' "describe $s"; done
e 2 'no command frob' 'describe man frob'
e 2 'described as frob' 'describe frob'

echo "command line: $tests checks, $bad bad"
[ "$bad" -eq 0 ]
