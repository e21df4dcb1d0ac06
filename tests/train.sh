#!/bin/bash
# Does `einkorn train` learn, is a training that was stopped or killed the same as one that was not, and are bad data,
# bad checkpoints and full disks told clearly?
#   tests/train.sh [-b BUILD] [-k KILLS]        -k: a training is killed about so often (default 3)
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build kills=3
while getopts b:k: o; do case $o in b) build=$OPTARG;; k) kills=$OPTARG;; *) exit 2;; esac; done
build=$(cd "$build" && pwd) || exit 2
einkorn=$build/einkorn passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
digits=$(cd "$here/../examples/digits" && pwd)
cd "$work" || exit 2
ok() { passed=$((passed + 1)); }
bad() { echo "FAIL $*"; tail -5 out; failed=$((failed + 1)); }
# says CODE PATTERN ARGUMENT..: the exit code, and a text (extended pattern) on stdout or stderr
says() {
  local code=$1 pattern=$2 got
  shift 2
  "$einkorn" "$@" >out 2>&1; got=$?
  if [ $got -eq "$code" ] && grep -Eq -- "$pattern" out; then ok; else bad "exit $got, or no '$pattern': $*"; fi
}
same() { if cmp "$1" "$2" >out 2>&1; then ok; else bad "$1 and $2 differ"; fi; }

# ---- what is trained: digits with dropout, points of two classes in a CSV file ----
cat >points.graph <<'END'
graph "points" ir 8 opset 17 {
  input x: f32[N, 2]
  const w1: f32[2, 6] = [0.9, -0.8, 0.3, 0.7, -0.5, 0.2, -0.1, 0.4, 0.9, -0.9, -0.6, 0.8]
  const b1: f32[6] = [0, 0, 0, 0, 0, 0]
  const w2: f32[6, 2] = [0.5, -0.4, 0.3, -0.6, 0.7, 0.1, -0.2, 0.6, -0.5, 0.4, 0.2, -0.3]
  const b2: f32[2] = [0, 0]
  a: f32[N, 6] = Gemm(x, w1, b1) "hidden"
  h: f32[N, 6] = Tanh(a) "tanh"
  d: f32[N, 6] = Dropout(h) "dropout"
  scores: f32[N, 2] = Gemm(d, w2, b2) "scores"
  output scores
}
END
awk 'BEGIN { print "a,b,side"; for (i = 0; i < 400; i++) { a = (i * 37 % 101) / 50 - 1; b = (i * 53 % 97) / 48 - 1
  print a "," b "," (a + 2 * b > 0.2 ? "above" : "below") } }' >points.csv
learn=(train points.graph --data points.csv --loss cross_entropy --metric accuracy --batch 16 --lr 0.02)
says 0 'target: column side, i64.., 2 classes' "${learn[@]}" --validate 0.25 --epochs 12 -o points.onnx --log \
  points.csv.log

# ---- a step for use without the program (tests/step.sh trains by one) ----
says 0 '^kernels: ' compile points.graph --train cross_entropy --data points.csv --batch 16 --evaluation check.c \
  -o step.c
says 2 'give some data with --data' compile points.graph --train cross_entropy -o step.c
says 1 'does not fit the model' compile points.graph --train mse --data points.csv -o step.c
says 2 'a step is written as .so, .o or .c' compile points.graph --train cross_entropy --data points.csv -o step.onnx
# ---- looking into a step ----
step=(points.graph --train cross_entropy --data points.csv --batch 16)
says 0 'output "train.kept.w1" state w1 first' show "${step[@]}"
says 0 '^  stage train.update.w1|^stage train.update.w1' show "${step[@]}" --stage expr
for s in schedule candidates loop cost program llvm asm; do says 0 'k[0-9]+' show "${step[@]}" --stage $s; done
says 0 'contraction: train.gradient, train.update.w2' explain "${step[@]}" --seconds 0.05 --threads 1
says 0 'trace.json: [0-9]+ events' explain "${step[@]}" --seconds 0.05 --peak 100:10 --trace trace.json
says 2 'give some data with --data' explain points.graph --train cross_entropy
says 2 'has its gradients already' show "${step[@]}" --grad

# labels as floats, and bytes of 0 and 1 for each class instead of labels
sed 's/above/0.0/; s/below/1.0/' points.csv >floats.csv
says 0 'accuracy 0.9[0-9]|accuracy 1' evaluate points.onnx --data floats.csv --loss cross_entropy --metric accuracy
printf '\0\0\x08\x02\0\0\0\x04\0\0\0\x02\x01\0\0\x01\x01\0\0\x01' >hot.idx
printf '\0\0\x08\x02\0\0\0\x04\0\0\0\x02\x01\0\x02\x01\x03\x01\0\0' >four.idx
says 0 'target: column y, u8.2.' train points.graph --data x=four.idx,y=hot.idx --loss cross_entropy --batch 4 \
  --epochs 1 -o hot.onnx
says 0 'accuracy 0.9[0-9]|accuracy 1' evaluate points.onnx --data points.csv --loss cross_entropy --metric accuracy
says 0 '400 samples, accuracy' evaluate points.onnx --data points.csv --metric accuracy --batch 150
says 0 '"best_epoch"' "${learn[@]}" --epochs 1 -o json.onnx --json
says 0 'written' "${learn[@]}" --epochs 2 --checkpoints events -o events.onnx --tensorboard events.tb
# the first record: 24 bytes, their masked sum as other writers of CRC-32C have it, then the version
if [ "$(head -c 12 events.tb/events* | od -An -tx1 | tr -d ' ')" = 1800000000000000a37f4b22 ] &&
  [ "$(grep -ac 'loss/training' events.tb/events*)" -ge 1 ]; then ok
else od -tx1 events.tb/events* >out; bad events; fi
# a language model over bytes: an embedding, and a product that gives the next one
awk 'BEGIN { for (i = 0; i < 300; i++) printf "abcabcab" }' >letters.txt
awk 'BEGIN { print "graph \"next\" ir 8 opset 17 {\n  input x: i64[N, 8]\n  const e: f32[256, 4] = ["
  for (i = 0; i < 1024; i++) printf "%s%.3f", i ? ", " : "", sin(i * i)
  print "]\n  const w: f32[4, 256] = ["
  for (i = 0; i < 1024; i++) printf "%s%.3f", i ? ", " : "", sin(i * 7 + i * i)
  print "]\n  h: f32[N, 8, 4] = Gather(e, x) \"embed\"\n  y: f32[N, 8, 256] = MatMul(h, w) \"next\"\n  output y\n}" }' \
  >next.graph
says 0 'epoch 30/30: .*perplexity [1-9][.]' train next.graph --data letters.txt --sequence 8 --loss \
  cross_entropy:axis=-1 --metric perplexity:axis=-1 --epochs 30 --lr 0.05 --batch 16 -o next.onnx
if [ "$(wc -l <points.csv.log)" -eq 13 ] && head -1 points.csv.log | grep -q '^epoch,step,lr,loss,accuracy,validation'
then ok; else cp points.csv.log out; bad 'the log has a header and 12 epochs'; fi
if [ "$(ls points.checkpoints | wc -l)" -eq 4 ]; then ok
else ls points.checkpoints >out; bad 'three checkpoints and the best stay'; fi
says 0 'no better loss in 2 epochs' "${learn[@]}" --epochs 100 --lr 0 --patience 2 -o early.onnx
images="images=$digits/train-images.idx,y=$digits/train-labels.idx"
plain=(train "$digits/digits.onnx" --data "$images" --standardize --loss cross_entropy --metric accuracy --epochs 2)
says 0 'note: the model ends in Softmax, which cross_entropy computes itself: .* its input, logits.*--of scores ' \
  "${plain[@]}" --epochs 1 -o digits.onnx
says 0 'epoch 2/2: loss 0.[0-3].*, accuracy 0.9' "${plain[@]}" --lr 0.003 --checkpoints z -o standard.onnx
says 0 'epoch 2/2: loss 1[.]' "${plain[@]}" --of scores --lr 0.003 --checkpoints softmax -o digits.onnx
says 0 'epoch 4/4: loss 0.[0-3].*, accuracy 0.9' "${plain[@]}" --epochs 4 --init he --lr 0.003 --checkpoints he -o \
  digits.onnx
says 0 'epoch 2/2' "${plain[@]}" --of logits --augment flip,crop:1,noise:0.1 --checkpoints augmented -o digits.onnx
says 2 'augment' "${plain[@]}" --of logits --augment twist --checkpoints augmented2 -o digits.onnx

# ---- a training that is killed at any moment and continued is the same, bit for bit ----
long=("${learn[@]}" --validate 0.25 --epochs 30 --accumulate 2 --checkpoint-every 5 -q)
begin=$(date +%s%N)
"$einkorn" "${long[@]}" -o whole.onnx --log whole.log >out 2>&1 || bad 'a whole training'
whole=$((($(date +%s%N) - begin) / 1000000 + 10)) # milliseconds
killed=0
for i in $(seq 400); do
  "$einkorn" "${long[@]}" -o pieces.onnx --log pieces.log --resume pieces.checkpoints >out 2>&1 &
  pid=$!
  [ "$killed" -ge "$kills" ] || { sleep "$((RANDOM % (whole * 3 / 4)))e-3"; kill -9 $pid 2>/dev/null; }
  wait $pid 2>/dev/null && break
  killed=$((killed + 1))
done 2>/dev/null
[ "$killed" -gt 0 ] && ok || bad 'the training was never killed'
same whole.onnx pieces.onnx
same whole.log pieces.log
# Ctrl-C: a checkpoint, and exit code 130
"$einkorn" "${learn[@]}" --epochs 1000000 --checkpoints stopped -o stopped.onnx -q >out 2>&1 &
pid=$!
for i in $(seq 100); do [ -e stopped/best.safetensors ] && break; sleep 0.1; done
kill -TERM $pid; wait $pid
if [ $? -eq 130 ] && ls stopped/step-*.safetensors >/dev/null; then ok; else bad 'SIGTERM ends with a checkpoint'; fi
says 0 'continues stopped/step-' "${learn[@]}" --epochs 1 --resume stopped -o stopped.onnx

# ---- standardization and the texts of classes are part of the model ----
awk -F, 'NR == 1 { print; next } { print 1000 + 50*$1 "," $2/100 "," $3 }' points.csv >raw.csv
raw=(train points.graph --loss cross_entropy --metric accuracy --batch 16 --lr 0.02 --epochs 20 --standardize)
says 0 'epoch 20/20: .*validation: loss 0.[01]' "${raw[@]}" --data raw.csv --validate 0.25 --augment noise:0.1 -o \
  raw.onnx
says 0 '400 samples, loss 0.[01].*, accuracy 0.9[5-9]' evaluate raw.onnx --data raw.csv --loss cross_entropy --metric \
  accuracy
says 0 'einkorn.classes.target: ."above","below".' info raw.onnx
says 0 '"einkorn.standardized": "x"' info raw.onnx --json
grep -E 'side|below' raw.csv >below.csv # 0 in a file of its own
says 0 'accuracy 0.9[0-9]|accuracy 1' evaluate raw.onnx --data below.csv --loss cross_entropy --metric accuracy
says 0 'are numbered as sorted: 0 below' evaluate points.graph --data below.csv --loss cross_entropy
sed 's/below/beneath/' raw.csv >beneath.csv
says 1 "not trained on the class 'beneath'; its classes are 0 above, 1 below" evaluate raw.onnx --data beneath.csv \
  --loss cross_entropy
says 0 'other classes .0 above, 1 below.: they are numbered anew: 0 above, 1 beneath' train raw.onnx --data \
  beneath.csv --loss cross_entropy --epochs 1 -o beneath.onnx
says 2 'standardizes its input x already' train raw.onnx --data raw.csv --loss cross_entropy --standardize -o twice.onnx
says 0 'epoch 1/1: loss 0.[01]' train raw.onnx --data raw.csv --loss cross_entropy --epochs 1 -o further.onnx
says 0 'Sub.x, .x.mean' show further.onnx
says 2 'of another training: its standardize is' "${raw[@]}" --data points.csv --validate 0.25 --resume \
  raw.checkpoints -o raw.onnx
says 2 'of another training: its classes is' "${raw[@]}" --data beneath.csv --validate 0.25 --resume raw.checkpoints \
  -o raw.onnx
says 0 '^kernels: ' compile points.graph --train cross_entropy --data raw.csv --batch 16 --standardize -o step.c
says 0 'accuracy 0.9' evaluate standard.onnx --data "$images" --loss cross_entropy --metric accuracy

# ---- the same bits with any number of threads ----
for n in 1 2 3; do says 0 'written' "${plain[@]}" --of logits --reproducible --threads $n -o threads$n.onnx; done
same threads1.onnx threads2.onnx
same threads1.onnx threads3.onnx

# ---- f16: a loss scale, which is in the checkpoints ----
half=("${plain[@]}" --of logits --precision f16)
says 0 'epoch 4/4: loss 0.[0-3].*, accuracy 0.9' "${half[@]}" --epochs 4 --lr 0.003 -o half.onnx
says 0 'epoch 2/2' "${half[@]}" --epochs 2 --lr 0.003 -o other_half.onnx
says 0 'continues' "${half[@]}" --epochs 4 --lr 0.003 --resume other_half.checkpoints -o other_half.onnx
same half.onnx other_half.onnx
says 0 '"train.loss_scale" first f32.. \(1024\)|train.loss_scale.*1024' show "$digits/digits.onnx" --data "$images" \
  --train cross_entropy --precision f16 --loss-scale 1024
if grep -aq train.loss_scale half.checkpoints/best.safetensors; then ok; else bad 'no loss scale in a checkpoint'; fi
says 0 'epoch 2/2: loss 0.[0-3].*, accuracy 0.9' "${plain[@]}" --of logits --precision bf16 --lr 0.003 -o b.onnx

# ---- checkpoints ----
says 2 'has checkpoints of a training: --resume points.checkpoints' "${learn[@]}" -o points.onnx
says 2 'of another training: its batch is 16, now it is 8' "${learn[@]}" --batch 8 --validate 0.25 --resume \
  points.checkpoints -o other.onnx
cp -r points.checkpoints broken
newest=$(ls broken/step-* | tail -1)
printf 'X' | dd of="$newest" bs=1 seek=$(($(stat -c %s "$newest") - 9)) conv=notrunc 2>/dev/null
says 1 'is damaged: its contents and its digest do not fit' "${learn[@]}" --validate 0.25 --resume broken -o other.onnx
head -c 300 points.checkpoints/best.safetensors >"$newest"
says 1 'is no intact safetensors file: it ends within its header' "${learn[@]}" --validate 0.25 --resume broken \
  -o other.onnx
rm "$newest"
says 0 'continues broken' "${learn[@]}" --validate 0.25 --epochs 12 --resume broken -o other.onnx
same points.onnx other.onnx
# a disk that is full: what was there stays
cp -r points.checkpoints full
ls full >before
(ulimit -f 1; trap '' XFSZ; "$einkorn" "${learn[@]}" --validate 0.25 --epochs 14 --resume full -o full.onnx 2>&1) |
  cat >out
if grep -q "cannot write 'full/" out; then ok; else bad 'a full disk is told'; fi
ls full >after
same before after

# ---- bad data ----
sed 's/above/third/;3s/below/fourth/' points.csv >four.csv
says 1 'column side: sample .* has the label 2 .third., but the model.s result has 2 classes: 0 to 1' train \
  points.graph --data four.csv --loss cross_entropy -o bad.onnx
says 1 'column x: its samples are f64.2., which does not fit the model.s input' train "$digits/digits.onnx" --data \
  points.csv --loss cross_entropy -o bad.onnx
says 1 'column side: its samples are i64.., which does not fit the model.s result' train points.graph --data \
  points.csv \
  --loss mse -o bad.onnx
says 2 'no loss: give one with --loss; there are .*cross_entropy' train points.graph --data points.csv -o bad.onnx
says 2 'there is no loss of the name .corss_entropy.' train points.graph --data points.csv --loss corss_entropy -o \
  bad.onnx
says 2 '400 samples' "${learn[@]}" --batch 500 -o bad.onnx
says 1 'step [0-9]*: the loss is' "${learn[@]}" --optimizer sgd --lr 1e38 --checkpoints nan -o bad.onnx
sed 's/= Tanh(a)/= Exp(a)/; s/const w1.*/const w1: f32[2, 6] = [900, 1, 1, 1, 1, 1, 900, 1, 1, 1, 1, 1]/' points.graph \
  >exp.graph
says 1 'step 1: the loss is .*: the first tensor that is not finite is h;' train exp.graph --data points.csv --loss \
  cross_entropy -o bad.onnx
says 1 'step [0-9]*: the loss is no number .NaN.: (w|b)[12] was not finite before it' "${learn[@]}" --optimizer sgd \
  --lr 1e39 --checkpoints nan -o bad.onnx
sed 1d points.csv >headless.csv # its last field is a text
says 1 'header of the CSV file has numbers; the first line must have' train points.graph --data headless.csv --loss \
  cross_entropy -o bad.onnx
sed 's/above/1.5/; s/below/0.0/' points.csv >half.csv
says 1 "column 'side', sample .*: 1.5 is no value of i64" train points.graph --data half.csv --loss cross_entropy -o \
  bad.onnx
says 2 'error: there is no metric of the name .acuracy.' "${learn[@]}" --metric acuracy -o bad.onnx
if grep -q 'error: error' out; then bad 'the word error twice'; else ok; fi
says 2 "adam has no attribute 'lr'; it has beta" "${learn[@]}" --optimizer adam:lr=0.1 -o bad.onnx
says 2 'freeze conv.: the model has no initialiser of that name; there are w1, b1, w2, b2' "${learn[@]}" --freeze \
  'conv*' -o bad.onnx
says 1 'o none/bad.onnx: cannot write to the folder none: No such file' "${learn[@]}" -o none/bad.onnx
says 1 'log none/log.csv: cannot write to the folder none' "${learn[@]}" --log none/log.csv -o bad.onnx
mkdir flat && touch flat/a.png
says 2 'folder flat has neither folders of images nor a pair of IDX files: a folder of images' train points.graph \
  --data flat --loss cross_entropy -o bad.onnx
says 2 'of another training: its metric is accuracy, now it is accuracy auc' "${learn[@]}" --metric auc --validate \
  0.25 --resume points.checkpoints -o bad.onnx
says 2 'its tensors .12, with w1. are not those of this one .9.; with --resume the model, --freeze' "${learn[@]}" \
  --freeze w1 --validate 0.25 --resume points.checkpoints -o bad.onnx
says 2 'o OUT.onnx is missing' "${learn[@]}"
says 2 'has no column' "${learn[@]}" --target c -o bad.onnx
[ ! -e bad.onnx ] && ok || bad 'nothing is written where training fails'
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
