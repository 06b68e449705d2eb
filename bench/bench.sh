#!/usr/bin/env bash
# Times programs with `toroid bench`: bench/models/*.pt2, or the files given. Called by ./run bench; needs no PyTorch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
(($#)) || set -- bench/models/*.pt2
status=0
for model in "$@"; do
  printf '%s\n' "$model"
  inputs=()
  [[ ! -e ${model%.pt2}.in.safetensors ]] || inputs=(--inputs "${model%.pt2}.in.safetensors")
  build/toroid bench "$model" "${inputs[@]}" || status=1
done
exit $status
