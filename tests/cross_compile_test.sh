#!/usr/bin/env bash
# A package for aarch64 by `toroid compile --target`, which runs under emulation: needs Debian's g++-aarch64-linux-gnu and qemu-user-static.
# The first one takes minutes, for the run side is compiled.
#
# usage: cross_compile_test.sh BUILD
set -euo pipefail
build=$(realpath "${1:?"usage: cross_compile_test.sh BUILD"}")
here=$(realpath "$(dirname "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf '%s\n' "$@" && exit 1; }
cd "$folder"
{
  printf 'program "first"\nconstant 0 "w": f32[4, 8] = [%s]\n' "$(seq -s ', ' 1 32)"
  printf 'graph(x: f32[4, 8]) {\n  w: f32[4, 8] = constant(0)\n  y: f32[4, 8] = aten::add.Tensor(x, w)\n  return y\n}\n'
} >first.txt
aarch64-linux-gnu-gcc -std=c99 -I"$here/../include" "$here/package/first_steps.c" -o first_steps -ldl
run() { qemu-aarch64-static -L /usr/aarch64-linux-gnu "$folder/first_steps" "$folder/$1"; }

"$build/toroid" compile first.txt -o whole.so --target aarch64 2>log || fail "$(cat log)"
readelf -h whole.so | grep -q AArch64
needed=$(readelf -d whole.so | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' | grep -vE '^(libc|libm|ld-linux-aarch64)\.so' || true)
[[ -z $needed ]] || fail "it needs $needed"
"$build/toroid" verify whole.so >/dev/null
"$build/toroid" compile first.txt -o host.so --cpu baseline 2>log || fail "$(cat log)"
cc -std=c99 -I"$here/../include" "$here/package/first_steps.c" -o host_steps -ldl
expected=$(./host_steps ./host.so)
[[ $(run whole.so) == "$expected" ]] || fail "$(run whole.so) instead of $expected"
"$build/toroid" compile first.txt -o parted.so --weights parted.weights --target aarch64 2>log || fail "$(cat log)"
[[ $(run parted.so) == "$expected" ]] || fail "$(run parted.so) instead of $expected"
"$build/toroid" compile first.txt -o named.so --weights named.safetensors --target aarch64 2>log || fail "$(cat log)"
[[ $(run named.so) == "$expected" ]] || fail "$(run named.so) instead of $expected"
"$build/toroid" compile first.txt -o host_named.so --weights host_named.safetensors --cpu baseline 2>log || fail "$(cat log)"
cmp named.safetensors host_named.safetensors
place=$(grep -abo 'no program of its own' whole.so | head -n 1 | cut -d: -f1) # words that nothing reads unless they are printed
printf 'N' | dd of=whole.so bs=1 seek="$place" conv=notrunc status=none
if result=$(run whole.so 2>&1); then fail "a damaged package ran: $result"; fi
grep -q 'is damaged' <<<"$result" || fail "$result"

# The same bytes in whatever folder, compiled anew; a model whose name CMake has for itself; flags of this machine's programs.
cp first.txt install.txt
CXXFLAGS=-march=native "$build/toroid" compile install.txt -o again.so --target aarch64 2>log || fail "$(cat log)"
[[ $(run again.so) == "$expected" ]] || fail "$(run again.so) instead of $expected"
CCACHE_DISABLE=1 "$build/toroid" compile first.txt -o second.so --weights second.weights --target aarch64 2>log || fail "$(cat log)"
cmp parted.so second.so

# What is missing is named.
if TOROID_CROSS_CXX=no-such-g++ "$build/toroid" compile first.txt -o none.so --target aarch64 2>log; then
  fail "compiled without a compiler"
fi
grep -q 'needs no-such-g++, which is not in PATH' log || fail "$(cat log)"
if "$build/toroid" compile first.txt -o none.so --target aarch64 --mode max 2>log; then fail "measured for other processors"; fi
grep -q -- '--target cannot be combined with --mode max, which measures here' log || fail "$(cat log)"
if "$build/toroid" compile first.txt -o none.so --target riscv64 2>log; then fail "compiled for riscv64"; fi
grep -q "no packages for the target 'riscv64'" log || fail "$(cat log)"
