#!/usr/bin/env bash
# Recorded models as packages under load, with build/tests/hammer_contexts (tests/package/hammer_contexts.c says what is checked):
#   each model alone in 1 to 64 threads; all in one process, an older version among them; 100,000 swaps of weights;
#   where strace is there, how often threads called the kernel to wait for others, which must not depend on how long they run.
#
# usage: soak.sh BUILD_FOLDER [SECONDS [SWAPS]]      SECONDS for each number of threads, 1 by default. Prints tables, and "N passed, M failed";
#                                                    some six minutes on 16 cores
set -euo pipefail
build=$(realpath "$1") seconds=${2:-1} swaps=${3:-100000}
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # TITLE, then hammer_contexts' arguments
  printf '\n== %s\n' "$1"
  if "$build/tests/hammer_contexts" "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# A Fourier transform, whose tables contexts share; results that come back to their context; random numbers and state.
cat >"$work/fourier.txt" <<'TEXT'
program "fourier"
graph(x: f32[16, 240]) {
  y: c64[16, 121] = aten::_fft_r2c(x, [1], 0, true)
  z: f32[16, 121] = aten::abs(y)
  return z
}
TEXT
cat >"$work/large.txt" <<'TEXT'
program "large"
graph(x: f32[512, 1024]) {
  y: f32[512, 1024] = aten::relu(x)
  return y
}
TEXT
cp "$root"/tests/c_api/programs/{counter,random}.txt "$work"
models=("$build"/conformance/models/*.pt2 "$work"/*.txt)
printf '%s\n' "${models[@]}" |
  xargs -P "$(nproc)" -I{} sh -c '"$0" compile "$2" -o "$1/$(basename "${2%.*}").so" >/dev/null 2>"$1/$(basename "$2").log" || cat "$1/$(basename "$2").log"' \
    "$build/toroid" "$work" {}

for package in "$work"/*.so; do
  [[ $package != */unbacked.so ]] || continue # which takes no zeros
  check "$(basename "$package" .so)" --seconds "$seconds" "$package"
done
check "all in one process, and 0.1.0" --threads 1,2,4,8,16,32,64,128 --seconds "$seconds" "$work"/{mlp,hf_bert,hf_gpt2,convnet,timm_test_resnet,llama_dynamic,fourier,large,counter,index_mix}.so \
  --older "$root/tests/package/kept/mlp_0.1.0.so"
check "swaps of mlp" --threads 8 --seconds "$seconds" --swaps "$swaps" "$work/mlp.so"
check "swaps of hf_bert" --threads 8 --seconds "$seconds" --swaps "$((swaps / 20))" "$work/hf_bert.so"
if command -v strace >/dev/null; then
  printf '\n== futex calls of 16 threads of mlp, from start to end\n'
  for longer in "$seconds" "$((seconds * 4))"; do
    strace -f -c -e futex -o "$work/calls" "$build/tests/hammer_contexts" --threads 16 --opens 0 --seconds "$longer" "$work/mlp.so" >/dev/null || failed=$((failed + 1))
    awk -v seconds="$longer" '$NF == "futex" { print $4 " in " seconds " s" }' "$work/calls"
  done
fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
