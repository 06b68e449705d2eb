#!/usr/bin/env bash
# The files that source packages carry are C++17, and nothing but that beside vectors, attributes and the like of g++ and clang++: each by
# itself, as `compile --emit-source` copies it, for the run side of toroid's own build is C++20. Takes two minutes of processor time.
#
# usage: [CXX=clang++] cpp17_test.sh BUILD
set -euo pipefail
source=$(realpath "${1:?"usage: [CXX=clang++] cpp17_test.sh BUILD"}/run_source")
cd "$source"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mapfile -t files < <(find run_side seal.cpp -name '*.cpp' | sort)
((${#files[@]} > 150)) || { echo "only ${#files[@]} files in $source" && exit 1; }
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 4 "${CXX:-g++}" -std=c++17 -pedantic-errors -fsyntax-only -Irun_side/src -Irun_side/include \
  -isystem /usr/include/eigen3 '-DTOROID_VERSION=""' >"$log" 2>&1 || { grep -A 4 'error:' "$log" | head -n 40 && exit 1; }
