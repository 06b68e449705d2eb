#!/usr/bin/env bash
# Compiles a PyTorch model, classifies 450 real images with it, and shows what was built. Called by ./run demo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
toroid=build/toroid
model=examples/digits/digits.pt2
heldout=examples/digits/heldout.safetensors
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TOROID_CACHE_DIR=$work/cache # empty, so that the first compilation is a cold one

title() { printf '\n== %s\n' "$*"; }
# compile_ms: compiles the model; prints the milliseconds that it took. The report of the compilation goes to stderr.
compile_ms() {
  "$toroid" compile "$model" -o "$work/digits.so" 2>"$work/report" || {
    cat "$work/report" >&2
    exit 1
  }
  cat "$work/report" >&2
  sed -nE 's/^ *in all +([0-9.]+) ms.*/\1/p' "$work/report"
}
# median_ms INPUTS: the latency of one call, from toroid bench's report.
median_ms() {
  "$toroid" bench "$model" --inputs "$1" --json "$work/bench.json" >/dev/null
  sed -nE 's/.*"median_ms": *([0-9.eE+-]+).*/\1/p' "$work/bench.json"
}

title "$model, compiled with an empty cache, then again"
cold=$(compile_ms)
warm=$(compile_ms)
"$toroid" compile "$model" -o "$work/digits.so" --save-source "$work/source" 2>/dev/null # writing them takes its time
kernels=$(grep -lE '^// toroid: ' "$work"/source/*.cpp | wc -l)
echo "$kernels kernels; compile time cold $cold ms, again warm $warm ms"

title "450 real images that the network has not seen"
"$toroid" run "$work/digits.so" --inputs "$heldout" --outputs "$work/answers.safetensors"
build/examples/digits_score "$heldout" "$work/answers.safetensors"

title "latency"
one=$(median_ms examples/digits/one.safetensors)
all=$(median_ms "$heldout")
awk -v one="$one" -v all="$all" 'BEGIN {
  printf "one image: %.3f ms; in a batch of 450: %.4f ms per image\n", one, all / 450
}'

title "one of the $kernels kernels"
kernel=$(find "$work/source" -name '*.cpp' ! -name '*wrapper*' | sort | tail -n 1)
cat "$kernel"
