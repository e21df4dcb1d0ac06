#!/bin/bash
# Installed into an empty prefix, does everything work for a stranger? Program, library, header, a C program of
# examples/embed built with pkg-config and with CMake, manual pages, completions.
#   tests/install.sh [-b BUILD]
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build
while getopts b: o; do case $o in b) build=$OPTARG;; *) exit 2;; esac; done
work=$(mktemp -d) passed=0 failed=0 skipped=0
: "${EINKORN_CACHE_DIR:=$work/cache}"; export EINKORN_CACHE_DIR # never the user's own
trap 'rm -rf "$work"' EXIT
check() { # WHAT COMMAND...
  what=$1; shift
  if "$@" >"$work/out" 2>&1 </dev/null; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $what: $*"
    head -20 "$work/out"; fi
}
without() { skipped=$((skipped + $2)); echo "no $1: $2 tests skipped"; }
same() { [ "$1" = "$2" ] || { echo "'$1' and '$2' differ"; return 1; }; }
model=$here/../examples/digits/digits.onnx

# ---- DESTDIR, and the tree at another place than the one it was installed for: nothing in it may say where it was ----
check "install" env DESTDIR="$work/stage" cmake --install "$build" --prefix /opt/grain
prefix=$work/moved
mv "$work/stage/opt/grain" "$prefix" 2>/dev/null
[ -z "$(find "$work/stage" -type f)" ]; check "nothing outside the prefix" [ $? = 0 ]
check "the build folder is nowhere mentioned" sh -c '! grep -rIl -e "$1" -e "$2" "$3"' _ "$(cd "$build" && pwd)" \
  "$work/stage" "$prefix"
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
version=$("$prefix/bin/einkorn" --version | cut -d' ' -f2)
check "the program runs" "$prefix/bin/einkorn" run "$model" --dim N=1
check "the other engines' side of bench is found" sh -c \
  '"$1" bench "$2" --seconds 0.1 --against onnxruntime --peers /nonexistent | grep -q "onnxruntime: skipped: no '\
'python"' _ "$prefix/bin/einkorn" "$model"
check "soname" sh -c 'objdump -p "$1" | grep -q "SONAME *libeinkorn.so.${2%.*}$"' _ "$prefix/lib/libeinkorn.so" \
  "$version"
check "only ek_ is exported" sh -c '! nm -D --defined-only "$1" | cut -d" " -f3 | grep -qv "^ek_"' _ \
  "$prefix/lib/libeinkorn.so"

# ---- programs of others ----
if command -v pkg-config >/dev/null; then
  cp -r "$here/../examples/embed" "$work/with_make"
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  check "pkg-config: version" same "$(pkg-config --modversion einkorn)" "$version"
  check "pkg-config: build" make -C "$work/with_make" first
  check "pkg-config: run" "$work/with_make/first" "$model"
  check "pkg-config: ten numbers" [ "$(grep -c '^-*[0-9]*\.[0-9]*$' "$work/out")" = 10 ]
else without pkg-config 4; fi
cp -r "$here/../examples/embed" "$work/with_cmake"
check "CMake: configure" cmake -S "$work/with_cmake" -B "$work/with_cmake/build" -DCMAKE_PREFIX_PATH="$prefix"
check "CMake: build" cmake --build "$work/with_cmake/build"
check "CMake: run" "$work/with_cmake/build/first" "$model"
check "CMake: ten numbers" [ "$(grep -c '^-*[0-9]*\.[0-9]*$' "$work/out")" = 10 ]
sed 's/Einkorn 0\.1/Einkorn 9.9/' -i "$work/with_cmake/CMakeLists.txt"
check "CMake: another version is refused" sh -c '! cmake -S "$1" -B "$1/other" -DCMAKE_PREFIX_PATH="$2"' _ \
  "$work/with_cmake" "$prefix"
if command -v g++ >/dev/null; then
  printf '#include <einkorn/einkorn.h>\nint main() { return ek_version()[0] == 0; }\n' >"$work/plus.cpp"
  check "the header in C++" g++ -std=c++11 -Wall -Wextra -pedantic -Werror -I"$prefix/include" "$work/plus.cpp" \
    -L"$prefix/lib" -leinkorn -o "$work/plus"
  check "a C++ program" "$work/plus"
else without g++ 2; fi
printf '#include <einkorn/einkorn.h>\nint main(void) { return ek_version()[0] == 0; }\n' >"$work/old.c"
check "the header in C99" gcc -std=c99 -Wall -Wextra -pedantic -Werror -I"$prefix/include" -c "$work/old.c" -o \
  "$work/old.o"

# ---- the documents: every link of README leads to what was installed ----
doc=$(dirname "$(find "$prefix/share/doc" -name README.md | awk '{print length($0), $0}' | sort -n | head -1 | cut \
-d' ' -f2)")
for link in $(grep -o '](\([^):#]*\)' "$doc/README.md" | cut -c3- | sort -u)
do check "README's $link is installed" [ -e "$doc/$link" ]; done

# ---- the manual ----
commands=$("$prefix/bin/einkorn" --help | sed -n 's/^  einkorn \([a-z]*\) .*/\1/p')
if command -v man >/dev/null; then
  page() { MANWIDTH=120 MANPAGER=cat man -M "$prefix/share/man" "$@" 2>&1 | sed 's/.\x08//g'; }
  check "man einkorn" grep -q "compiles deep-learning models" <(page einkorn)
  for c in $commands; do
    page "einkorn-$c" >"$work/page"
    check "man einkorn-$c" grep -q "SYNOPSIS" "$work/page"
    for o in $("$prefix/bin/einkorn" "$c" --help | grep -oE '^  (-., |-. [^ ]+, )?--[a-z-]+' |
      grep -oE -- '--[a-z-]+$'); do check "man einkorn-$c has $o" grep -qF -- "$o" "$work/page"; done
    check "man einkorn-$c: no warnings" [ -z \
      "$(man -l --warnings -E UTF-8 "$prefix/share/man/man1/einkorn-$c.1" 2>&1 >/dev/null)" ]
  done
  page 3 einkorn >"$work/page"
  check "man 3 einkorn" grep -q "Conventions, which hold" "$work/page"
  for f in ek_load ek_compile ek_run_set_input ek_options ek_arrays_load; do page 3 $f >"$work/page"
    check "man 3 $f" grep -q "^SYNOPSIS" "$work/page"; done
  declared=$(grep -o 'EK_API [^;(]*(' "$prefix/include/einkorn/einkorn.h" | sed 's/($//; s/.*[ *]//' | grep '^ek_' |
    sort -u)
  for f in $declared; do [ -s "$prefix/share/man/man3/$f.3" ] || echo "$f"; done >"$work/lacking"
  check "each function has a page in section 3: $(tr '\n' ' ' <"$work/lacking")" [ ! -s "$work/lacking" ]
  man -l --warnings -E UTF-8 "$prefix"/share/man/man3/*.3 >/dev/null 2>"$work/warnings"
  check "section 3 has no warnings" [ ! -s "$work/warnings" ]
else without man $((8 + $(wc -w <<<"$commands"))); fi

# ---- completions ----
complete_bash() { # WORD...: what the last one can become
  bash --norc -c 'source "$0"; COMP_WORDS=(einkorn "$@"); COMP_CWORD=$#; _einkorn; printf "%s\n" "${COMPREPLY[@]}"' \
    "$prefix/share/bash-completion/completions/einkorn" "$@"
}
check "bash: commands" same "$(complete_bash '' | grep -v -- -- | sort | tr '\n' ' ')" \
  "$(tr ' ' '\n' <<<"$commands" | sort | tr '\n' ' ')"
check "bash: an option" same "$(complete_bash run m.onnx --expe)" "--expect"
check "bash: a value" same "$(complete_bash show m.onnx --stage pr)" "program"
check "bash: a value after =" same "$(complete_bash show m.onnx --stage = pr)" "program"
check "bash: a target" same "$(cd "$work" && complete_bash run --target x86-64-v3)" "x86-64-v3"
check "bash: an operator" same "$(complete_bash ops LogSoft)" "LogSoftmax"
check "bash: a file" same "$(cd "$(dirname "$model")" && complete_bash run digits.o)" "digits.onnx"
if command -v zsh >/dev/null; then
  # what a line becomes in a terminal: PATTERN must show after LINE and a tab
  complete_zsh() { # LINE PATTERN
    timeout 60 zsh -fc 'zmodload zsh/zpty && zpty -b z zsh -f -i && zpty -w z "PS1=@\@; fpath=($1 \$fpath); autoload '\
'-Uz compinit; compinit -u -D" && zpty -r -m z line "*@@*" && zpty -n -w z "$2"$'"'\\t'"' && zpty -r -m z line "*$3*"' \
      _ "$prefix/share/zsh/site-functions" "$1" "$2" >/dev/null
  }
  check "zsh: loads" zsh -fc 'fpath=($1 $fpath); autoload -Uz compinit && compinit -u -D && autoload +X -Uz _einkorn '\
'&& [ "$_comps[einkorn]" = _einkorn ]' _ "$prefix/share/zsh/site-functions"
  check "zsh: an option" complete_zsh 'einkorn run --expe' 'run --expect'
  check "zsh: a value" complete_zsh 'einkorn show --stage pr' '--stage program'
else without zsh 3; fi
if command -v fish >/dev/null; then
  complete_fish() { fish --no-config -c 'source $argv[1]; complete -C "$argv[2]"' \
    "$prefix/share/fish/vendor_completions.d/einkorn.fish" "$1" | cut -f1; }
  check "fish: an option" same "$(complete_fish 'einkorn run --expe')" "--expect"
  check "fish: a value" same "$(complete_fish 'einkorn show --stage pr')" "program"
else without fish 2; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
