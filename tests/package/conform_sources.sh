#!/usr/bin/env bash
# Models as source packages, built by CMake alone, against `toroid run` of the model: the results are the same bytes. Takes minutes: the first
# builds the run side, which the others find in a compiler cache.
#
# usage: conform_sources.sh BUILD_FOLDER MODEL.pt2... [-- FLAGS OF COMPILE...]      prints what differs, and "N same, M differ"
set -euo pipefail
build=$(realpath "$1")
shift
models=()
while (($#)) && [[ $1 != -- ]]; do models+=("$(realpath "$1")") && shift; done
shift || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
same=0 differ=0
for model in "${models[@]}"; do
  name=$(basename "$model" .pt2)
  rm -rf "$work/tree"
  TOROID_ONEDNN=0 "$build/toroid" compile "$model" --emit-source "$work/tree" "$@" 2>"$work/log" || { cat "$work/log" && exit 1; }
  { cmake -S "$work/tree" -B "$work/tree/build" -G Ninja "${launcher[@]}" && cmake --build "$work/tree/build"; } >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" && exit 1; }
  "$work/tree/build/example" "$work/tree/build/$name.so" >/dev/null
  for inputs in "${model%.pt2}".in*.safetensors; do
    "$build/tests/run_package" "$work/tree/build/$name.so" "$inputs" "$work/package.safetensors"
    TOROID_ONEDNN=0 "$build/toroid" run "$model" --inputs "$inputs" --outputs "$work/model.safetensors" 2>"$work/log" || cat "$work/log"
    if cmp -s "$work/package.safetensors" "$work/model.safetensors"; then
      same=$((same + 1))
    else
      echo "$inputs: the source package gives other results" && differ=$((differ + 1))
    fi
    rm -f "$work"/*.safetensors
  done
done
echo "$same same, $differ differ"
((differ == 0))
