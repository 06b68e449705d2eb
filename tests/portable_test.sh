#!/usr/bin/env bash
# A portable toroid as somebody has it who unpacks the archive: it needs the C library alone, of any age from glibc 2.28 on, works alone
# from any folder, and without a compiler does all but compile.
#
# usage: portable_test.sh BUILD
set -euo pipefail
build=$(realpath "${1:?"usage: portable_test.sh BUILD"}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf '%s\n' "$@" && exit 1; }
archive=$(ls "$build"/toroid-*-linux-x86_64.tar.gz)
tar -C "$folder" -xf "$archive"
unpacked=$folder/$(basename "$archive" .tar.gz)

# check_needs FILE LIBRARY...: FILE needs no other libraries, and of the C library nothing newer than glibc 2.28.
check_needs() {
  local file=$1 name
  shift
  for name in $(readelf -dW "$file" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'); do
    [[ " $* " == *" $name "* ]] || fail "$file needs $name"
  done
  name=$(readelf -VW "$file" | grep -oE 'Name: [A-Z]+_[0-9.]+' | cut -d' ' -f2 | grep '^GLIBC_' | sort -V | tail -n 1)
  [[ $(printf '%s\n' "$name" GLIBC_2.28 | sort -V | tail -n 1) == GLIBC_2.28 ]] || fail "$file needs $name"
  readelf -VW "$file" | grep -oE 'Name: [A-Z]+_[0-9.]+' | grep -v GLIBC_ && fail "$file needs that of another library" || true
}
c_library="libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 ld-linux-x86-64.so.2"
check_needs "$unpacked/bin/toroid" $c_library
# The run side alone: the compiler would make it four times as large.
size=$(stat -Lc %s "$unpacked/lib/libtoroid.so")
((size < 4 << 20)) || fail "libtoroid.so has $size bytes"
for library in "$unpacked"/lib/*.so; do
  check_needs "$library" $c_library
  exported=$(nm -D --defined-only --format=posix "$library" | cut -d' ' -f1 | grep -v '^toroid_' || true)
  [[ -z $exported ]] || fail "$library shows more than its interface: $(head -5 <<<"$exported")"
done
readelf -lW "$unpacked/bin/toroid" | grep -q 'INTERP' || fail "no program"
readelf -lW "$unpacked/bin/toroid" | grep 'GNU_STACK' | grep -q 'RWE' && fail "the stack can be executed"

# Packing again gives the same bytes.
mkdir "$folder/again"
"$here/../package/portable/package.sh" "$build" "$folder/again" >/dev/null
cmp "$archive" "$folder/again/$(basename "$archive")"

# Alone in a folder, without a compiler, and without anything else in PATH.
mkdir "$folder/alone" "$folder/none"
cp "$unpacked/bin/toroid" "$folder/alone/"
cp "$here/c_api/programs/scaled.txt" "$folder/alone/"
cd "$folder/alone"
header='{"x":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]}}'
{ printf "\\x$(printf %02x ${#header})\0\0\0\0\0\0\0%s" "$header" && head -c 12 /dev/zero; } >in.safetensors
export TOROID_CACHE_DIR=$folder/cache
without_compiler() { env -i PATH="$folder/none" TOROID_CACHE_DIR="$TOROID_CACHE_DIR" "$@"; }
expected='error: no C++ compiler found: tried g++ and clang++ in PATH
  while compiling scaled.txt
  help: install g++ or set TOROID_CXX to the path of a g++ or clang++'
if output=$(without_compiler ./toroid compile scaled.txt -o scaled.so 2>&1); then fail "compiled without a compiler"; fi
[[ $output == "$expected" ]] || fail "without a compiler:" "$output"
if output=$(without_compiler ./toroid run scaled.txt --inputs none 2>&1); then fail "ran a model without a compiler"; fi
if output=$(without_compiler ./toroid doctor); then fail "doctor misses no compiler"; fi
grep -q '^problem  compiler          no C++ compiler found' <<<"$output" || fail "$output"
[[ $(without_compiler ./toroid version) == "toroid "*"portable"* ]]
licences=$(without_compiler ./toroid version --licences)
for name in OpenSSL SQLite fmt zlib hiredis Eigen libstdc++ libmvec CLI11 nlohmann; do grep -q "^  .*$name" <<<"$licences" || fail "no licence of $name"; done
cmp <(echo "$licences") "$unpacked/share/doc/toroid/licences.txt"

# Several at once, the first to need what is inside the command.
for i in 1 2 3 4; do ./toroid compile scaled.txt -o "$i.so" --no-cache --threads 1 2>"$i.log" & done
for i in 1 2 3 4; do wait -n || fail "compiling side by side:" "$(cat ./*.log)"; done
[[ $(find "$folder/cache" -maxdepth 1 -name 'embedded*' | wc -l) == 1 ]] || fail "$(ls "$folder/cache")"
cmp 1.so 2.so
# What the command beside its folders makes is the same.
"$build/toroid" compile scaled.txt -o beside.so --no-cache --threads 1 2>/dev/null
cmp 1.so beside.so
without_compiler ./toroid verify 1.so >/dev/null
without_compiler ./toroid run 1.so --inputs in.safetensors --outputs out.safetensors >/dev/null

# Damaged files are written anew.
run_side=$(echo "$folder"/cache/embedded-*/run_side/libtoroid_run.a)
printf 'damage' | dd of="$run_side" bs=1 seek=5000000 conv=notrunc status=none
./toroid compile scaled.txt -o mended.so --no-cache --threads 1 2>log
grep -q 'are damaged, and are written anew' log || fail "$(cat log)"
cmp 1.so mended.so
# Where the cache cannot be used, they are for the process alone.
TMPDIR=$folder/none TOROID_CACHE_DIR=/proc/none ./toroid compile scaled.txt -o uncached.so --threads 1 2>log || fail "$(cat log)"
cmp 1.so uncached.so
[[ -z $(ls "$folder/none") ]] || fail "left behind: $(ls "$folder/none")"
./toroid compile scaled.txt --emit-source source 2>/dev/null
[[ -e source/CMakeLists.txt ]]
./toroid cache clear >/dev/null
[[ -z $(find "$folder/cache" -name 'embedded*') ]] || fail "cache clear leaves what was unpacked"

# On a processor without AVX.
if command -v qemu-x86_64-static >/dev/null; then
  qemu-x86_64-static -cpu Nehalem ./toroid compile scaled.txt -o old.so --cpu baseline --threads 1 2>log || fail "$(cat log)"
  qemu-x86_64-static -cpu Nehalem ./toroid run old.so --inputs in.safetensors --expect out.safetensors >/dev/null
fi

# A user's project over it.
mkdir "$folder/user"
cmake -G Ninja -S "$here/install" -B "$folder/user" -DCMAKE_PREFIX_PATH="$unpacked" -DCMAKE_BUILD_TYPE=Debug >"$folder/log" 2>&1 &&
  cmake --build "$folder/user" >>"$folder/log" 2>&1 || { cat "$folder/log" && exit 1; }
"$folder/user/in_cpp" "$folder/user"
"$folder/user/compiles" "$here/c_api/programs" "$folder/user"
