#!/bin/sh
# The differential runner: every model, with every reference beside it, must give the reference's numbers in every mode.
#   eval   the evaluator           O0  compiled, unoptimised     full  compiled, 1 and 2 threads     so  saved, loaded,
#   1 and 2 threads
# Models: tests/models/NAME.onnx with NAME.npz, NAME.v*.npz; those of the folders in $EK_TEST_MODELS (separated by
# colons) with NAME.ref*.npz; or those named on the command line.
#   tests/run_models.sh [-e EINKORN] [-j JOBS] [-m "eval O0 full so"] [-t SECONDS] [MODEL.onnx ...]
# One line per failure, one line at the end; exit 1 if anything failed.
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" != --one ]; then einkorn=${EINKORN:-$here/../build/einkorn} jobs=2 modes="eval O0 full so" limit=300; fi
EVAL_MACS=200000000 # larger models are too slow for the evaluator

# ---- one model (this script calls itself) ----
if [ "$1" = --one ]; then
  model=$2 base=${2%.onnx} work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  check() { # MODE REFERENCE COMMAND...
    mode=$1 ref=$2; shift 2
    if timeout "$limit" "$@" --inputs "$ref" --expect "$ref" -q >"$work/out" 2>&1; then echo "RAN"
    else code=$?; echo "FAIL $mode $(basename "$ref"): exit $code: $(grep -v ' ok$' "$work/out" | tr '\n' ' ' | cut \
-c1-300)"; fi
  }
  set -- "$base.npz" "$base".v[0-9]*.npz "$base".ref*.npz
  case " $modes " in *" so "*) timeout "$limit" "$einkorn" compile "$model" -o "$work/m.so" -q >"$work/compile" 2>&1 ||
    echo "FAIL so $(basename "$model"): $(tr '\n' ' ' <"$work/compile" | cut -c1-300)";; esac
  eval_modes=$modes
  case " $modes " in *" eval "*)
    macs=$(timeout 60 "$einkorn" info "$model" --json 2>/dev/null | sed -n 's/^  "macs": \([0-9]*\),$/\1/p')
    if [ "${macs:-0}" -gt $EVAL_MACS ]; then eval_modes=$(echo "$modes" | sed 's/eval//'); echo "SKIP eval"; fi;;
  esac
  for ref; do
    [ -e "$ref" ] || continue
    for mode in $eval_modes; do
      case $mode in
      eval) check eval "$ref" "$einkorn" run "$model" --eval;;
      O0) check O0 "$ref" "$einkorn" run "$model" -O0 --threads 1;;
      full) for t in 1 2; do check "full-$t" "$ref" "$einkorn" run "$model" --threads $t; done;;
      so) [ -e "$work/m.so" ] && for t in 1 2; do check "so-$t" "$ref" "$einkorn" run "$work/m.so" --threads $t; done;;
      esac
    done
  done
  exit 0
fi

# ---- all of them ----
while getopts e:j:m:t: o; do
  case $o in e) einkorn=$OPTARG;; j) jobs=$OPTARG;; m) modes=$OPTARG;; t) limit=$OPTARG;; *) exit 2;; esac
done
shift $((OPTIND - 1))
export einkorn modes limit
[ -x "$einkorn" ] || { echo "no program at $einkorn (build first, or -e EINKORN)" >&2; exit 2; }
list=$(mktemp) out=$(mktemp)
export EINKORN_CACHE_SIZE=0 # what is tested is compiling
trap 'rm -f "$list" "$out"' EXIT
foreign=0
if [ $# -gt 0 ]; then for m; do echo "$m"; done >"$list"
else
  ls "$here"/models/*.onnx >"$list"
  if [ -n "$EK_TEST_MODELS" ]; then
    before=$(wc -l <"$list")
    echo "$EK_TEST_MODELS" | tr ':' '\n' | while read -r d; do find "$d" -name '*.onnx'; done | sort | while read -r m
    do ls "${m%.onnx}".ref*.npz >/dev/null 2>&1 && echo "$m"; done >>"$list"
    foreign=$(($(wc -l <"$list") - before))
  fi
fi
tr '\n' '\0' <"$list" | xargs -0 -n1 -P"$jobs" sh -c 'sh "$0" --one "$1" | sed "s|^FAIL|FAIL $(basename "$1" .onnx)|"' \
  "$0" >"$out"
grep '^FAIL' "$out" | sort
ran=$(grep -c '^RAN' "$out") failed=$(grep -c '^FAIL' "$out") models=$(wc -l <"$list") \
  bad=$(grep '^FAIL' "$out" | cut -d' ' -f2 | sort -u | wc -l)
note=""
[ $# -eq 0 ] && [ -z "$EK_TEST_MODELS" ] && note="; foreign models skipped (EK_TEST_MODELS is not set)"
[ "$foreign" -gt 0 ] && note="; $foreign foreign models"
echo "models: $models, of which $((models - bad)) pass everything; runs: $ran good, $failed bad$note"
[ "$failed" -eq 0 ]
