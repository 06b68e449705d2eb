#!/usr/bin/env bash
# What programs need while they run is a library of its own, which links the C and C++ runtime alone, shows nothing but its interface, and
# leaves no thread's memory to the C library. Stripped, as a release is, it is smaller than MOST bytes, if they are given.
#
# usage: run_side_test.sh LIBRARY [MOST]
set -euo pipefail
library=${1:?"usage: run_side_test.sh LIBRARY [MOST]"} most=${2:-}

needed=$(readelf -d "$library" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | sort | tr '\n' ' ')
for name in $needed; do
  case $name in
    libc.so.6 | libm.so.6 | libstdc++.so.6 | libgcc_s.so.1 | ld-linux-x86-64.so.2 | libasan.so.* | libubsan.so.* | libtsan.so.*) ;;
    *) echo "$library needs $name" && exit 1 ;;
  esac
done

shown=$(nm -D --defined-only --format=posix "$library" | cut -d' ' -f1 | grep -v '^toroid_' || true)
[[ -z $shown ]] || {
  echo "$library shows more than its interface: $(head -5 <<<"$shown" | tr '\n' ' ')"
  exit 1
}

# Thread-local memory of a library that is opened late, and destructors in it, end the process where there is no memory
# (src/base/machine/per_thread.h).
if nm -D -u "$library" | grep -q __cxa_thread_atexit || readelf -lW "$library" | grep -q '^ *TLS '; then
  echo "$library has thread_local objects" && exit 1
fi

if [[ -n $most ]]; then
  stripped=$(mktemp)
  trap 'rm -f "$stripped"' EXIT
  strip -o "$stripped" "$library"
  bytes=$(stat -c %s "$stripped")
  ((bytes < most)) || { echo "$library has $bytes bytes without symbols, where $most are too many" && exit 1; }
fi
