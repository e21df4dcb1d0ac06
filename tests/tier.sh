# Sourced by all.sh and deep.sh: tiers of tests. A tier is a command whose last line says `N passed, N failed, N
# skipped`; what it prints before is shown, then one line with its counts and time.
passed=0 failed=0 skipped=0
tier() { # NAME COMMAND...
  local name=$1 from out ms last p f s
  shift
  if [ ! -e "$1" ] && ! type -t "$1" >/dev/null; then echo "${1##*/} is not there"
    set -- echo "0 passed, 0 failed, 1 skipped"; fi
  from=$(date +%s%N)
  out=$("$@" 2>&1 </dev/null)
  ms=$((($(date +%s%N) - from) / 1000000))
  last=$(tail -1 <<<"$out")
  if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]
  then p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}; out=$(sed '$d' <<<"$out")
  else p=0 f=1 s=0; out="$out"$'\n'"FAIL the tier $name ended early"; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  [ -n "$out" ] && echo "$out"
  printf '== %-9s %6d passed %4d failed %4d skipped %7d.%d s\n' "$name" "$p" "$f" "$s" $((ms / 1000)) \
    $((ms % 1000 / 100))
}
closing() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
}
