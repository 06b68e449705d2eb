#!/usr/bin/env bash
# Models as packages by their own run side against `toroid run` of the model: the results are the same bytes.
#
# usage: conform_packages.sh BUILD_FOLDER MODELS_FOLDER [FLAGS OF COMPILE...]      prints what differs, and "N same, M differ"
set -euo pipefail
build=$(realpath "$1") models=$(realpath "$2")
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
same=0 differ=0
for model in "$models"/*.pt2; do
  name=$(basename "$model" .pt2)
  "$build/toroid" compile "$model" -o "$work/m.so" "$@" >"$work/log" 2>&1 || { cat "$work/log" && exit 1; }
  for inputs in "$models/$name".in*.safetensors; do
    "$build/tests/run_package" "$work/m.so" "$inputs" "$work/package.safetensors" &&
      "$build/toroid" run "$model" --inputs "$inputs" --outputs "$work/model.safetensors" 2>"$work/log" || cat "$work/log"
    if cmp -s "$work/package.safetensors" "$work/model.safetensors"; then
      same=$((same + 1))
    else
      echo "$inputs: the package gives other results" && differ=$((differ + 1))
    fi
    rm -f "$work"/*.safetensors
  done
done
echo "$same same, $differ differ"
((differ == 0))
