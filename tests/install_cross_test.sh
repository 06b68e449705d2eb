#!/usr/bin/env bash
# Installs a build, and with it builds a project of a user's for aarch64, with a model as a package that this project's compiler makes of
# sources. Takes minutes where no compiler cache has the run side. Needs Debian's g++-aarch64-linux-gnu and qemu-user-static.
#
# usage: install_cross_test.sh BUILD
set -euo pipefail
build=$(realpath "${1:?"usage: install_cross_test.sh BUILD"}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TOROID_CACHE_DIR=$folder/cache
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

cmake --install "$build" --prefix "$folder/installed" >"$folder/log" || { cat "$folder/log" && exit 1; }
cmake -S "$here/install_cross" -B "$folder/user" -G Ninja "-DCMAKE_TOOLCHAIN_FILE=$here/install_cross/aarch64.cmake" "${launcher[@]}" \
  -Dtoroid_DIR="$(dirname "$(find "$folder/installed" -name toroidConfig.cmake)")" >"$folder/log" 2>&1 &&
  cmake --build "$folder/user" >>"$folder/log" 2>&1 || { tail -n 40 "$folder/log" && exit 1; }
readelf -h "$folder/user/twice.so" | grep -q AArch64
result=$(qemu-aarch64-static -L /usr/aarch64-linux-gnu "$folder/user/first_steps" "$folder/user/twice.so")
[[ $result == "baseline 32.000000" ]] || { echo "$result" && exit 1; }

# Without a way to run what is built the project's configuration says what is missing.
! cmake -S "$here/install_cross" -B "$folder/none" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
  -Dtoroid_DIR="$(dirname "$(find "$folder/installed" -name toroidConfig.cmake)")" >"$folder/log" 2>&1 ||
  { echo "configured without an emulator" && exit 1; }
tr -s ' \n' ' ' <"$folder/log" | grep -q 'set CMAKE_CROSSCOMPILING_EMULATOR, as to qemu-aarch64-static' || { cat "$folder/log" && exit 1; }
