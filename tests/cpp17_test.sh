#!/usr/bin/env bash
# The files that source packages carry are C++17, and nothing but that beside vectors, attributes and the like of g++ and clang++: as
# `compile --emit-source` copies them, for the run side of toroid's own build is C++20. Each file by itself takes two minutes of processor
# time; `headers`, all headers in one file, takes three seconds.
#
# usage: [CXX=clang++] cpp17_test.sh BUILD [headers]
set -euo pipefail
usage='usage: [CXX=clang++] cpp17_test.sh BUILD [headers]'
source=$(realpath "${1:?"$usage"}/run_source")
cd "$source"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Compiles files, or what is included on stdin; says what is wrong.
flags=(-std=c++17 -pedantic-errors -fsyntax-only -Irun_side/src -Irun_side/include -isystem /usr/include/eigen3 '-DTOROID_VERSION=""')
report() { grep -A 4 'error:' "$log" | head -n 40 && exit 1; }

if [[ ${2:-} == headers ]]; then
  mapfile -t files < <(find run_side/src -name '*.h' | sort)
  ((${#files[@]} > 150)) || { echo "only ${#files[@]} headers in $source" && exit 1; }
  printf '#include "%s"\n' "${files[@]/#/$source/}" | "${CXX:-g++}" "${flags[@]}" -x c++ - >"$log" 2>&1 || report
else
  mapfile -t files < <(find run_side seal.cpp -name '*.cpp' | sort)
  ((${#files[@]} > 150)) || { echo "only ${#files[@]} files in $source" && exit 1; }
  printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 4 "${CXX:-g++}" "${flags[@]}" >"$log" 2>&1 || report
fi
