#!/bin/bash
# Einkorn touches no network, writes nothing but its results, the cache and temporary files that it takes away again,
# and reads nothing that is not named, part of the system, or in the cache. Each command runs without a network
# (unshare) while strace tells every file and network call of it and its children.
#   tests/sandbox.sh [-b BUILD]
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build
while getopts b: o; do case $o in b) build=$OPTARG;; *) exit 2;; esac; done
build=$(cd "$build" && pwd)
passed=0 failed=0 skipped=0
alone="unshare -n"
$alone true 2>/dev/null || alone="unshare -rn"
if ! command -v strace >/dev/null || ! $alone strace -o /dev/null true 2>/dev/null; then
  echo "no strace, or no right to unshare and trace: what Einkorn touches was not looked at"
  echo "0 passed, 0 failed, 13 skipped"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{home,cache,tmp,cwd,data,out}
cp "$here"/../examples/digits/{digits.onnx,all.npz} "$here"/models/external_data.{onnx,data} \
  "$here"/../examples/ops/power_norm{.ek,_alone.onnx} "$work/data/"
# Of strace's lines: network calls; opens for writing, and changes of names, outside results, cache and temporary
# folder; reads outside system, cache and what was named.
judge() {
  grep -v ' = -1 \| +++ \| --- ' "$work/trace" | awk -v work="$work" -v build="$build" '
    function allowed(p, write,   i) {
      if (index(p, work "/cache") == 1 || index(p, work "/tmp") == 1 || index(p, work "/out/") == 1 ||
        p == "/dev/null") return 1
      if (write) return 0
      if (index(p, work "/data") == 1 || p == work "/out" || p == work "/cwd" || p == work ||
        p == build "/einkorn") return 1
      if (p ~ /^\/(usr|lib|lib64|bin|proc|sys|dev)(\/|$)/ || p ~ /^\/etc\/(ld\.so|localtime|alternatives|terminfo)/ ||
        p == "/" || p == "/tmp") return 1
      return 0
    }
    {
      sub(/^[0-9]+ +/, "")
      call = $0; sub(/\(.*/, "", call)
      if (call ~ /^(socket|connect|bind|listen|accept|accept4|sendto|recvfrom|sendmsg|recvmsg|socketpair)$/) {
        print "network: " $0; next }
      if (call == "execve" && !seen++) next # the program itself, by unshare
      write = $0 ~ /O_WRONLY|O_RDWR|O_CREAT|O_TRUNC/ || call ~ /^(mkdir|rmdir|unlink|rename|link|symlink|chmod)/ ||
        call ~ /^(fchmodat|chown|truncate|mknod|utime|creat|setxattr|mount|chdir)/
      rest = $0
      while (match(rest, /"[^"]*"/)) {
        p = substr(rest, RSTART + 1, RLENGTH - 2); before = substr(rest, 1, RSTART - 1);
          rest = substr(rest, RSTART + RLENGTH)
        if (p == "") continue # of a file that is open
        if (p !~ /^\// && match(before, /<[^<>]*>, $/)) { base = substr(before, RSTART + 1, RLENGTH - 4);
          p = p == "." ? base : base "/" p } # strace -y names the folder
        if (call == "execve") { if (p !~ /^\/usr\// && p != build "/einkorn") print "runs: " $0; next }
        if (call == "readlink" || call == "readlinkat") { if (allowed(p, 0)) next }
        if (!allowed(p, write)) print (write ? "writes: " : "reads: ") $0
        if (call !~ /^(rename|link|symlink)/) next
      }
    }' | sort -u >"$work/found"
}
touches() { # WHAT ARGUMENTS... of einkorn
  what=$1; shift
  (cd "$work/cwd" && env -i PATH="$PATH" HOME="$work/home" XDG_CACHE_HOME="$work/cache" TMPDIR="$work/tmp" $alone \
    strace -f -qq -y -s 4096 -e trace=%file,%network -o "$work/trace" "$build/einkorn" "$@" \
    -q >"$work/log" 2>&1 </dev/null)
  code=$?
  judge
  left=$(find "$work/home" "$work/tmp" "$work/cwd" -mindepth 1)
  if [ $code -eq 0 ] && [ ! -s "$work/found" ] && [ -z "$left" ]; then passed=$((passed + 1)); return; fi
  failed=$((failed + 1))
  echo "FAIL $what: exit $code${left:+, left behind: $left}"
  head -5 "$work/found"
  [ $code -eq 0 ] || head -5 "$work/log"
}
d=$work/data
touches "run" run "$d/digits.onnx" --inputs "$d/all.npz" --expect "$d/all.npz"
touches "run again" run "$d/digits.onnx" --inputs "$d/all.npz" --expect "$d/all.npz"
touches "run with outputs" run "$d/digits.onnx" --output "$work/out/y.npz"
touches "run, external data" run "$d/external_data.onnx"
touches "run, own operators" run "$d/power_norm_alone.onnx" --ops "$d/power_norm.ek" --dim L=4
touches "compile to a library" compile "$d/digits.onnx" -o "$work/out/m.so"
touches "run a library" run "$work/out/m.so" --inputs "$d/all.npz" --expect "$d/all.npz"
touches "compile to an object" compile "$d/digits.onnx" -o "$work/out/m.o"
touches "compile to C" compile "$d/digits.onnx" -o "$work/out/m.c"
touches "show" show "$d/digits.onnx" --stage asm
touches "info" info "$d/digits.onnx" --layers
touches "bench" bench "$d/digits.onnx" --seconds 0.1
# the judge can find something: a result where none may be
sed 's|"'"$work"'/out/|"'"$work"'/home/|g' "$work/trace" >"$work/trace2"
echo '1 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3
1 openat(AT_FDCWD, "'"$work"'/home/x", O_WRONLY|O_CREAT, 0600) = 3
1 socket(AF_INET, SOCK_STREAM, 0) = 3' >>"$work/trace2"
mv "$work/trace2" "$work/trace"
judge
if [ "$(wc -l <"$work/found")" = 3 ]; then passed=$((passed + 1)); else failed=$((failed + 1))
  echo "FAIL the judge finds $(wc -l <"$work/found") of 3 planted calls"; cat "$work/found"; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
