#!/usr/bin/env bash
# Models as source packages, built by CMake alone, against `toroid run` of the model: the results are the same bytes. Takes minutes: the first
# builds the run side, which the others find in a compiler cache. With CROSS=aarch64-linux-gnu (Debian's g++-aarch64-linux-gnu and
# qemu-user-static) they are built for that and run by an emulator; results are then within tolerance.
#
# usage: [CROSS=TRIPLE] conform_sources.sh BUILD_FOLDER MODEL.pt2... [-- FLAGS OF COMPILE...]      prints what differs, and "N right, M wrong"
set -euo pipefail
build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
shift
models=()
while (($#)) && [[ $1 != -- ]]; do models+=("$(realpath "$1")") && shift; done
shift || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
configure=() emulator=() run_package=$build/tests/run_package
! command -v ccache >/dev/null || configure=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
if [[ -n ${CROSS:-} ]]; then
  emulator=("qemu-${CROSS%%-*}-static" -L "/usr/$CROSS") run_package=$work/run_package
  configure+=(-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=${CROSS%%-*}" "-DCMAKE_C_COMPILER=$CROSS-gcc" "-DCMAKE_CXX_COMPILER=$CROSS-g++"
    "-DCMAKE_CROSSCOMPILING_EMULATOR=$(IFS=';' && echo "${emulator[*]}")")
  mkdir "$work/headers" # of libraries that are headers alone
  ln -s /usr/include/fmt /usr/include/nlohmann "$work/headers/"
fi
right=0 wrong=0
for model in "${models[@]}"; do
  name=$(basename "$model" .pt2)
  rm -rf "$work/tree"
  TOROID_ONEDNN=0 "$build/toroid" compile "$model" --emit-source "$work/tree" "$@" 2>"$work/log" || { cat "$work/log" && exit 1; }
  { cmake -S "$work/tree" -B "$work/tree/build" -G Ninja "${configure[@]}" && cmake --build "$work/tree/build"; } >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" && exit 1; }
  "${emulator[@]}" "$work/tree/build/example" "$work/tree/build/$name.so" >/dev/null
  if [[ -n ${CROSS:-} && ! -e $run_package ]]; then
    (cd "$root" && "$CROSS-g++" -std=c++20 -O1 -w -DFMT_HEADER_ONLY -Isrc -Iinclude -idirafter "$work/headers" tests/package/run_package.cpp \
      src/frontend/{safetensors,json_reader}.cpp src/support/json_writer.cpp "$work/tree/build/librun_side.a" -o "$run_package" -lpthread -ldl)
  fi
  for inputs in "${model%.pt2}".in*.safetensors; do
    "${emulator[@]}" "$run_package" "$work/tree/build/$name.so" "$inputs" "$work/package.safetensors"
    TOROID_ONEDNN=0 "$build/toroid" run "$model" --inputs "$inputs" --outputs "$work/model.safetensors" 2>"$work/log" || cat "$work/log"
    if cmp -s "$work/package.safetensors" "$work/model.safetensors" ||
      { [[ -n ${CROSS:-} ]] && "$build/toroid" compare "$work/package.safetensors" "$work/model.safetensors" >"$work/log" 2>&1; }; then
      right=$((right + 1))
    else
      echo "$inputs: the source package gives other results" && wrong=$((wrong + 1))
    fi
    rm -f "$work"/*.safetensors
  done
done
echo "$right right, $wrong wrong"
((wrong == 0))
