#!/bin/bash
# Does `einkorn diff` find what is wrong, and nothing where nothing is?
#   tests/diff.sh [-b BUILD] [-p]        -p: in BUILD-planted (made by tests/planted.sh), with each fault of
#   tests/diff.txt planted: is the tensor found, the pass named, and does the part that is saved show it by itself?
# Without -p: models that are right; values of a reference that are wrong; memory.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build planted=
while getopts b:p o; do case $o in b) build=$OPTARG;; p) planted=1;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
einkorn=$build/einkorn passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
ok() { passed=$((passed + 1)); }
bad() { echo "FAIL $*"; cat "$work/out" "$work/err"; failed=$((failed + 1)); }
diff_of() { # EXIT MODEL ARGUMENT...: exit code EXIT is expected
  local want=$1 model=$2 inputs=()
  shift 2
  [ -f "${model%.onnx}.npz" ] && inputs=(--inputs "${model%.onnx}.npz")
  "$einkorn" diff "$model" "${inputs[@]}" "$@" >"$work/out" 2>"$work/err"
  [ $? = "$want" ] || { bad "diff $model $*: exit code $want is expected"; return 1; }
}
says() { grep -qE -- "$1" "$work/out" && ok || bad "no '$1'"; }
closing() { echo "$passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }

if [ "$planted" ]; then
  einkorn=$build-planted/einkorn
  [ -x "$einkorn" ] || { echo "$einkorn is not there: tests/planted.sh makes it"; skipped=1; closing; }
  while read -r fault model tensor pass; do
    case $fault in ''|'#'*) continue;; esac
    export EK_PLANT=$fault
    diff_of 1 "$here/models/$model.onnx" --passes -o "$work/part.onnx" || continue
    says "^first wrong tensor: $tensor, "
    says "^the values change .*pass $pass(\$|:)"
    # the part shows it where the fault is, and is right where it is not
    part=(run "$work/part.onnx" --inputs "$work/part.npz" --expect "$work/part.npz")
    ! "$einkorn" "${part[@]}" >"$work/out" 2>&1 && grep -q MISMATCH "$work/out" && ok || bad "$fault: the part is right"
    EK_PLANT='' "$einkorn" "${part[@]}" >"$work/out" 2>&1 && ok || bad "$fault: the part is wrong without the fault"
  done <"$here/diff.txt"
  closing
fi

# ---- what is right: models of all kinds, open sizes, integers, sequences, strings, branches and loops ----
for m in digits:-v residual_cnn attention_causal lstm_forward norms_both_ways integers open_windows words_counted \
  loop_fixed if_nested float16_net quantize_pair sequence_ops contrib_quantized movement; do
  model=$here/models/${m%:*}.onnx
  [ "${m%:*}" = digits ] && model=$here/../examples/digits/digits.onnx
  [ -f "$model" ] || continue
  diff_of 0 "$model" && says 'tensors compared: none differs'
done

# ---- derivatives: not judged by the values of what they are of, but as outputs ----
cat >"$work/gradient.graph" <<'END'
graph "g" ir 8 opset 17 {
  input x: f32[4, 3]
  input w: f32[3, 2]
  y: f32[4, 2] = MatMul(x, w) "product"
  z: f32[4, 2] = Tanh(y) "tanh"
  gx, gw = "ai.onnx.preview.training"::Gradient(x, w, z) {xs = strings ["x", "w"], y = "z"} "grad"
  output gx
  output gw
}
END
diff_of 0 "$work/gradient.graph" && says 'gw, which node grad .* was not compared: a derivative follows' &&
  says '2 tensors compared: none differs'

# ---- a reference: the tensor that is wrong in it is found, whatever else it has ----
digits=$here/../examples/digits/digits.onnx data=$here/../examples/digits/all.npz
"$einkorn" run "$digits" --inputs "$data" --dump all "$work/all.npz" -q >/dev/null
diff_of 0 "$digits" --inputs "$data" --against "$work/all.npz" && says 'nor do those of the reference'
"$einkorn" run "$digits" --inputs "$data" --dump relu2 "$work/relu.npz" -q >/dev/null
"$einkorn" run "$digits" --input image=ones --dim N=32 --dump relu2 "$work/other.npz" -q >/dev/null
diff_of 0 "$digits" --inputs "$data" --against "$work/relu.npz"
diff_of 1 "$digits" --inputs "$data" --against "$work/other.npz" -o "$work/part.onnx" &&
  says '^first wrong tensor: b_relu, which node relu2 \(Relu\)' && says '^the compiled code is right'
"$einkorn" run "$work/part.onnx" --inputs "$work/part.npz" --expect "$work/part.npz" >"$work/out" 2>&1 && ok ||
  bad "the part with right results"
diff_of 0 "$digits" --json && { python3 -c 'import json, sys; d = json.load(sys.stdin)
assert d["verdict"] == "same" and len(d["tensors"]) == d["checked"] == 11' <"$work/out" 2>/dev/null && ok || bad JSON; }

# ---- errors ----
diff_of 2 "$digits" --against nonsense; diff_of 1 "$digits" --against "$work/missing.npz"
diff_of 2 "$digits" --inputs "$data" --against "$work/other.npz" -o "$work/part.txt"
"$einkorn" compile "$digits" -o "$work/d.so" -q && diff_of 2 "$work/d.so"

# ---- memory: more than the model's own does not depend on how many tensors there are ----
peak() { /usr/bin/env python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)' "$@"; }
if command -v python3 >/dev/null; then
  graph() { # LAYERS: each an activation of 4 MB
    echo 'graph "many" ir 8 opset 17 {'; echo '  input x: f32[16, 65536]'
    for ((i = 0; i < $1; i++)); do
      echo "  t$i: f32[16, 65536] = Tanh($([ $i = 0 ] && echo x || echo "t$((i - 1))")) \"n$i\""
    done
    echo "  output t$(($1 - 1))"; echo '}'
  }
  graph 60 >"$work/many.graph"
  mb=$(peak "$einkorn" diff "$work/many.graph")
  [ "$mb" -lt 200 ] && ok || { failed=$((failed + 1)); echo "FAIL 240 MB of tensors are compared in $mb MB"; }
fi
closing
