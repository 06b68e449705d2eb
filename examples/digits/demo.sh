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
# median_ms INPUTS: the latency of one call, from toroid bench's report.
median_ms() {
  "$toroid" bench "$model" --inputs "$1" --json "$work/bench.json" >/dev/null
  sed -nE 's/.*"median_ms": *([0-9.eE+-]+).*/\1/p' "$work/bench.json"
}

title "$model, compiled with an empty cache"
"$toroid" compile "$model" -o "$work/digits.so" --save-source "$work/source"
title "compiled again: everything is in the cache"
"$toroid" compile "$model" -o "$work/digits.so"

title "450 real images that the network has not seen"
"$toroid" run "$work/digits.so" --inputs "$heldout" --outputs "$work/answers.safetensors"
build/examples/digits_score "$heldout" "$work/answers.safetensors"

title "latency"
one=$(median_ms examples/digits/one.safetensors)
all=$(median_ms "$heldout")
awk -v one="$one" -v all="$all" 'BEGIN {
  printf "one image: %.3f ms; in a batch of 450: %.4f ms per image\n", one, all / 450
}'

kernels=$(grep -lE '^// toroid: ' "$work"/source/*.cpp | wc -l)
title "$kernels kernels; the last of them:"
kernel=$(find "$work/source" -name '*.cpp' ! -name '*wrapper*' | sort | tail -n 1)
cat "$kernel"
