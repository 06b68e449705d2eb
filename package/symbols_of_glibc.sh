#!/usr/bin/env bash
# Makes libc.so.6, libm.so.6, libdl.so.2 and the loader as glibc 2.28 had them, to link against: names and versions without code. A function
# has the newest version up to 2.28; what another library had then, and what came later, is not there.
#
# With --programs also libpthread.so.0, with what libc.so.6 has taken over from it since, and the older __libc_start_main: programs may need
# that library, packages may not.
#
# usage: symbols_of_glibc.sh FOLDER [COMPILER [--programs]]
set -euo pipefail
folder=${1:?"usage: symbols_of_glibc.sh FOLDER [COMPILER [--programs]]"} compiler=${2:-cc} programs=${3:-}
newest=2.28
for name in libc.so.6 ${programs:+libpthread.so.0} libdl.so.2 libm.so.6 "$("$compiler" -dumpmachine | sed -nE 's/^x86_64.*/ld-linux-x86-64.so.2/p; s/^aarch64.*/ld-linux-aarch64.so.1/p')"; do
  source=$name taken=none
  case $name in
    libpthread.so.0) source=libc.so.6 taken='^(__)?(pthread|sem)_' ;;
    libdl.so.2) source=libc.so.6 taken='^dl(open|sym|vsym|close|error|addr|addr1|info|mopen)$' ;;
    libc.so.6) [[ -z $programs ]] || taken='^__libc_start_main$' ;;
  esac
  library=$("$compiler" -print-file-name="$source")
  work=$(mktemp -d)
  # TYPE NAME@VERSION, defined and global
  LC_ALL=C readelf -W --dyn-syms "$library" |
    awk '$5 != "LOCAL" && $7 != "UND" && $8 ~ /@+GLIBC_[0-9.]+$/ { sub(/@+GLIBC_/, " ", $8); print $4, $8 }' | sort -u |
    awk -v newest="$newest" -v library="$name" -v taken="$taken" '
      function number(version,  parts) { split(version, parts, "."); return parts[1] * 1e6 + parts[2] * 1e3 + parts[3] }
      number($3) > number(newest) { is_newer[$2] = 1; next }
      number($3) >= best[$2] { best[$2] = number($3); version[$2] = $3; type[$2] = $1 }
      END {
        for (name in version) {
          # Of libc.so.6: what came to it from libpthread and others, and has a new version since.
          if (library ~ /^libc\./ && name in is_newer && name !~ taken) continue
          if (library ~ /^lib(pthread|dl)\./ && !(name in is_newer && name ~ taken)) continue
          print version[name], name, type[name]
        }
      }' | LC_ALL=C sort -k1,1V -k2,2 >"$work/symbols"
  {
    echo '.text'
    awk '{ kind = $3 == "OBJECT" ? "object" : "function"; printf ".globl %s\n.type %s, @%s\n%s:\n", $2, $2, kind, $2 } END { print "ret" }' "$work/symbols"
    echo '.section .note.GNU-stack, "", %progbits'
  } >"$work/stub.s"
  awk '$1 != version { if (version) print "};"; version = $1; print "GLIBC_" version " { global:" } { print $2 ";" } END { print "local: *; };" }' \
    "$work/symbols" >"$work/versions.map"
  "$compiler" -shared -nostdlib -s -fuse-ld=bfd -Wl,-soname,"$name" -Wl,--build-id=none -Wl,--version-script="$work/versions.map" -o "$folder/$name" "$work/stub.s"
  rm -r "$work"
done
