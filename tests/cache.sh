#!/bin/bash
# The cache of compiled code as the program uses it: the second start finds what the first one made, generates no code,
# and is quick; a cache that is damaged, foreign, full or not to be written costs no run.
#   tests/cache.sh [-b BUILD]
# cache/matrix.onnx: one MatMul by a matrix of 64 MiB, kept in matrix.bin, which is made here.
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build
while getopts b: o; do case $o in b) build=$OPTARG;; *) exit 2;; esac; done
einkorn=$(cd "$build" && pwd)/einkorn
work=$(mktemp -d)
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
ok() { # WHAT COMMAND...: it must succeed
  local what=$1; shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $what"; tail -5 "$work/log" 2>/dev/null
    fi
}
said() { grep -Eq -- "$1" "$work/log"; }
silent() { ! said "$1"; }
run() { "$einkorn" run "$@" >"$work/log" 2>&1; } # its messages are kept
entries() { find "$EINKORN_CACHE_DIR" -name '*.ek' 2>/dev/null | wc -l; }
is() { [ "$1" "$2" "$3" ]; }
unset XDG_CACHE_HOME EINKORN_CACHE_SIZE EINKORN_LOG
export EINKORN_CACHE_DIR=$work/cache HOME=$work/home TMPDIR=$work
mkdir "$HOME"
digits=$here/../examples/digits/digits.onnx all=$here/../examples/digits/all.npz

# ---- the second start ----
ok "a first run" run "$digits" --inputs "$all" --expect "$all" --output "$work/a.npz" -v
if said 'not kept: there is no linker for this kind of processor'; then echo "0 passed, 0 failed, 1 skipped"; exit; fi
ok "is compiled and kept" said 'cache: kept as .*\.ek, [0-9]+ bytes'
ok "one entry" is "$(entries)" -eq 1
ok "a second run" run "$digits" --inputs "$all" --expect "$all" --output "$work/b.npz" -v
ok "comes from the cache" said 'loaded from the cache in'
ok "and says so" said 'nothing is compiled now'
ok "with the same bits" cmp -s "$work/a.npz" "$work/b.npz"
run "$digits" --timing
ok "no pass ran" [ "$(grep -c ' ms .*%' "$work/log")" -eq 1 -a "$(grep -c 'code *cache' "$work/log")" -eq 1 ]
run "$digits" --json
ok "the report says cached" said '"cached": *true'
# LLVM is not even loaded. The system's loader tells what it loads; the first line shows that it would have told.
LD_DEBUG=files LD_DEBUG_OUTPUT=$work/ld run "$digits" --no-cache --codegen llvm
ok "LLVM makes code where it is asked for" grep -q 'libLLVM.*generating link map' "$work"/ld.*
rm -f "$work"/ld.*
LD_DEBUG=files LD_DEBUG_OUTPUT=$work/ld run "$digits" -v
ok "a cached start ran" said 'loaded from the cache'
ok "a cached start does not load LLVM" bash -c "ls '$work'/ld.* >/dev/null && ! grep -q libLLVM '$work'/ld.*"
rm -f "$work"/ld.*

# ---- what is asked for ----
ok "--no-cache" run "$digits" --no-cache -v
ok "neither reads" said '^compiled in'
rm -rf "$EINKORN_CACHE_DIR"
run "$digits" --no-cache
ok "nor writes" [ ! -e "$EINKORN_CACHE_DIR" ]
EINKORN_CACHE_DIR= run "$digits"
ok "without EINKORN_CACHE_DIR it is in ~/.cache" [ -d "$HOME/.cache/einkorn" ]
ok "for the user only" is "$(stat -c %a "$HOME/.cache/einkorn")" = 700
EINKORN_CACHE_DIR= XDG_CACHE_HOME=$work/xdg run "$digits"
ok "or in XDG_CACHE_HOME" [ -d "$work/xdg/einkorn" ]
run "$digits" -O0; run "$digits" --dim N=4; run "$digits" --target x86-64
ok "a reason for compiling" bash -c "'$einkorn' run '$digits' -O2 -v 2>&1 | grep -q 'cache: .* has this model for '"
rm -f "$(ls -t "$EINKORN_CACHE_DIR"/*.ek | head -1)"
ok "an entry for each level, size and target" is "$(entries)" -eq 3
run "$digits" -O0 -v
ok "found again" said 'loaded from the cache'
"$einkorn" bench "$digits" --seconds 0.05 -O0 >"$work/log" 2>&1
ok "bench uses it, and says so" said 'loaded from the cache in'
EINKORN_CACHE_SIZE=1 run "$digits" -O1 -v
ok "a limit" said 'more than the limit'
EINKORN_CACHE_SIZE=lots run "$digits" -O1 -v
ok "a limit that is no number" said 'cache: not used: EINKORN_CACHE_SIZE'

# ---- what may be wrong with it: the run goes well all the same ----
good() { ok "$1" run "$digits" --inputs "$all" --expect "$all" -v; }
fresh() { rm -rf "$EINKORN_CACHE_DIR"; run "$digits"; entry=$(find "$EINKORN_CACHE_DIR" -name '*.ek'); }
fresh; printf 'x' | dd of="$entry" bs=1 seek=5000 conv=notrunc 2>/dev/null
good "a damaged entry"; ok "is told" said 'not used: it is damaged'; ok "and replaced" said 'cache: kept as'
fresh; truncate -s 5000 "$entry"
good "a truncated entry"; ok "is told" said 'not used: it is truncated'
fresh; cp "$digits" "$entry"
good "a foreign file"; ok "is told" said 'not used'
run "$digits" -v; ok "and replaced" said 'loaded from the cache'
fresh; chmod 777 "$EINKORN_CACHE_DIR"
good "a folder that others may write in"; ok "is not used" said 'cache: not used: others may write in'
fresh; mv "$entry" "$work/away"; ln -s "$work/away" "$entry"
good "a link"; ok "is not followed" said 'not used: it cannot be opened'
rm -rf "$EINKORN_CACHE_DIR"; : >"$EINKORN_CACHE_DIR"
good "a file instead of the folder"; ok "is told" said 'cache: not used'
rm -f "$EINKORN_CACHE_DIR"
ok "no home" env -u HOME -u EINKORN_CACHE_DIR "$einkorn" run "$digits" -q
EINKORN_CACHE_DIR=/proc/einkorn good "a folder that cannot be made"
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
  mkdir -p "$work/small"
  ok "a full disk" unshare -m sh -c \
    "mount -t tmpfs -o size=16k,mode=700 none '$work/small' && EINKORN_CACHE_DIR='$work/small' '$einkorn' run \
'$digits' -v >'$work/log' 2>&1; code=\$?; [ -z \"\$(ls -A '$work/small')\" ] && exit \$code"
  ok "is told" said 'not kept: it cannot be written'
  fresh
  ok "a folder that is only to be read" unshare -m sh -c \
    "mount --bind '$EINKORN_CACHE_DIR' '$EINKORN_CACHE_DIR' && mount -o remount,bind,ro '$EINKORN_CACHE_DIR' && \
'$einkorn' run '$digits' -v >'$work/log' 2>&1"
  ok "is used" said 'loaded from the cache'
  ok "and nothing is kept in it" unshare -m sh -c \
    "mount --bind '$EINKORN_CACHE_DIR' '$EINKORN_CACHE_DIR' && mount -o remount,bind,ro '$EINKORN_CACHE_DIR' && \
'$einkorn' run '$digits' -O1 -v >'$work/log' 2>&1"
  ok "which is told" said 'not kept'
else
  skipped=$((skipped + 6))
fi

# ---- several at once ----
rm -rf "$EINKORN_CACHE_DIR"
for i in 1 2 3 4; do "$einkorn" run "$digits" --inputs "$all" --expect "$all" -q >"$work/out.$i" 2>&1 & pids[i]=$!; done
for i in 1 2 3 4; do ok "process $i of four" wait "${pids[i]}"; done
ok "leave one entry" is "$(ls -A "$EINKORN_CACHE_DIR" | wc -l)" -eq 1

# ---- 64 MiB of weights: mapped, and soon there ----
cp "$here/cache/matrix.onnx" "$work/"
head -c 67108864 /dev/zero >"$work/matrix.bin"
ok "large weights" run "$work/matrix.onnx" --dim N=1
least=
for i in 1 2 3 4 5; do # time of the processor, so that other programs matter less
  ms=$(TIMEFORMAT='%U %S'; { time "$einkorn" run "$work/matrix.onnx" --dim N=1 --threads 1 -v >"$work/log" 2>&1
    } 2>&1 | awk '{print int(($1 + $2) * 1000)}')
  [ -z "$least" ] || [ "$ms" -lt "$least" ] && least=$ms
done
ok "from the cache" said 'loaded from the cache'
echo "a cached start with 64 MiB of weights takes $least ms"
ok "takes $least ms, 124 are allowed" is "$least" -le 124
memory=$(env -u LD_PRELOAD /usr/bin/env bash -c \
  "ulimit -d 40000; '$einkorn' run '$work/matrix.onnx' --dim N=1 --threads 1 -v" 2>&1)
ok "its weights are no data of the process" grep -q 'loaded from the cache' <<<"$memory"
printf '\001' | dd of="$work/matrix.bin" bs=1 seek=40000000 conv=notrunc 2>/dev/null
run "$work/matrix.onnx" --dim N=1 -v
ok "a changed weight is noticed" said '^compiled in'
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
