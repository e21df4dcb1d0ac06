#!/bin/sh
# Do includes point one way? The table has lines for each room (a folder with sources under src/): the rooms it may
# include. A room's door is the header with its own name; further doors stand in `doors`. Everything else is
# private: only the room itself may include it.
here=$(cd "$(dirname "$0")" && pwd)
src=${1:-$here/../src}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/arrows" <<'END'
base:
sym: base
graph: base sym
onnx: base graph
quantize: base sym graph expr
train: base sym graph expr notation
runtime:
target: base runtime expr notation
expr: base sym
eval: expr
rewrite: expr target
cost: base loop target
fusion: cost expr rewrite
passes: cost expr eval rewrite fusion target
notation: expr
grad: expr
loop: base expr
schedule: cost expr fusion loop target
program: expr schedule
codegen: loop target runtime
codegen/image: base
codegen/x86: base loop target runtime codegen
codegen/llvm: base loop target runtime codegen codegen/image
codegen/c: loop target runtime codegen
codegen/emit: base loop target runtime codegen codegen/image codegen/x86 codegen/llvm codegen/c
driver: base einkorn graph onnx quantize train notation expr eval passes grad program
driver: codegen/image codegen/c codegen/llvm codegen/emit
data: base
cli: base target driver data einkorn
END
# rooms with more than one door
doors="target/instruction.h cost/loop_cost.h"
doors="$doors base/ctx.h base/json.h expr/ops.h notation/instance.h runtime/cpu.h driver/array_file.h"
# made by the build, or the public header
outside="llvm_names.h targets.inc commit.h einkorn/einkorn.h"
check() { # FOLDER: a line for each include that the table does not allow
  find "$1" -name '*.[ch]' | sort | while read -r f; do
    room=${f#"$1"/} room=${room%/*}
    allowed=$(sed -n "s|^$room:||p" "$work/arrows" | tr '\n' ' ')
    grep -q "^$room:" "$work/arrows" || echo "${f#"$1"/}: the room $room is not in the table"
    sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$f" | while read -r h; do
      case " $outside " in *" $h "*) [ "${h%%/*}" != einkorn ] ||
        case " $allowed " in *" einkorn "*) ;; *) echo "${f#"$1"/}: $room may not include $h";; esac; continue;; esac
      of=${h%/*}
      [ "$of" != "$room" ] || continue
      case " $allowed " in *" $of "*) ;; *) echo "${f#"$1"/}: $room may not include $of ($h)"; continue;; esac
      case " $doors $of/${of##*/}.h " in *" $h "*) ;; *) echo "${f#"$1"/}: $h is private to $of";; esac
    done
  done
}
failed=0 passed=0
check "$src" >"$work/found"
if [ -s "$work/found" ]; then sed 's/^/FAIL /' "$work/found"; failed=$(wc -l <"$work/found")
  else passed=$(wc -l <"$work/arrows"); fi
# the table itself has no circle
sed 's/:/ /' "$work/arrows" | awk '{for (i = 2; i <= NF; i++) print $i, $1; print $1, $1}' |
  tsort >/dev/null 2>"$work/circle" || :
if [ -s "$work/circle" ]; then echo "FAIL the table has a circle:"; cat "$work/circle"; failed=$((failed + 1))
  else passed=$((passed + 1)); fi
# the test can fail: one arrow that points back, one private header, one unknown room
mkdir -p "$work/src/sym" "$work/src/grad" "$work/src/attic"
echo '#include "expr/expr.h"' >"$work/src/sym/back.c"
echo '#include "expr/parse.h"' >"$work/src/grad/private.c"
echo '#include "base/base.h"' >"$work/src/attic/new.c"
check "$work/src" >"$work/found"
for said in 'sym may not include expr' 'expr/parse.h is private to expr' 'the room attic is not in the table'; do
  if grep -q "$said" "$work/found"; then passed=$((passed + 1)); else echo "FAIL the test does not see: $said"
    failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
