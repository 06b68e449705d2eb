#!/usr/bin/env bash
# Gathers the sources of the run side, and what a source package adds to them (package/source/), in a folder: what `compile --emit-source`
# copies (src/toolchain/run_side.h).
#
# usage: run_source.sh FOLDER
set -euo pipefail
folder=$(realpath -m "$1")
root=$(realpath "$(dirname "$0")/..")
rm -rf "$folder.new"
mkdir -p "$folder.new/run_side"
cd "$root"
find src/base src/tensor src/library src/runtime src/api include/toroid -type f \
  \( -name '*.cpp' -o -name '*.h' -o -name '*.inc' -o -name '*.def' \) ! -name '*_test.cpp' ! -name '*_for_test.*' ! -name pch.h -print0 |
  xargs -0 cp --parents -t "$folder.new/run_side"
rm "$folder.new/run_side/src/runtime/program/no_own_program.cpp"
# These take the place of the loader of other programs and oneDNN, and, in programs for processors, of drivers of GPUs (CMakeLists.txt).
rm "$folder.new/run_side/src/base/file/loaded_library.cpp"
find "$folder.new/run_side/src/runtime/kernels/onednn" -name '*.cpp' -delete
cp --parents package/without_{loader,gpu,onednn}.cpp package/exports.map -t "$folder.new/run_side"
cp package/source/* "$folder.new/"
rm -rf "$folder"
mv "$folder.new" "$folder"
