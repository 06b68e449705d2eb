#!/usr/bin/env bash
# Prints a model in text form: N products of sizes that differ, with softmaxes between, so that there is something to measure in each, and
# kernels enough for several files.
#
# usage: chain_of_products.sh N
set -euo pipefail
n=${1:?"usage: chain_of_products.sh N"}
echo 'graph(x0: f32[8, 40]) {'
for ((i = 0; i < n; ++i)); do
  echo "  w$i: f32[$((40 + i)), $((41 + i))] = aten::full([$((40 + i)), $((41 + i))], 0.${i}1)"
  echo "  y$i: f32[8, $((41 + i))] = aten::mm(x$i, w$i)"
  echo "  x$((i + 1)): f32[8, $((41 + i))] = aten::softmax.int(y$i, $((i % 2)))"
done
printf '  return x%s\n}\n' "$n"
