#!/usr/bin/env bash
# Models as source packages, built by CMake alone, against `toroid run` of the model: the results are the same bytes. Takes minutes: the first
# model builds the run side, which the others find in a compiler cache.
#
# usage: [CROSS=TRIPLE] [SANITIZE=LIST] [CLANG=1] conform_sources.sh BUILD_FOLDER [--jobs N] MODEL.pt2... [-- FLAGS OF COMPILE...]
#        prints what differs, and "N right, M wrong"
#   CROSS=aarch64-linux-gnu      (Debian's g++-aarch64-linux-gnu and qemu-user-static) builds them for that and runs them by an emulator; results
#                                are then within tolerance
#   SANITIZE=address,undefined   builds the program and its run side with these sanitizers, and the first finding ends a run; results are then
#                                within tolerance, as there is less optimisation
#   CLANG=1                      builds them with clang++; results are then within tolerance
set -euo pipefail

# The example's inputs are zeros, of which the model unbacked makes a size that has to be larger.
refuses_zeros() { grep -q '= 0 is outside of .*, which the program relies on' "$1"; }

# compare MODEL: prints a line for each of its inputs: right or wrong.
compare() {
  local model=$1 name inputs verdict
  name=$(basename "$model" .pt2)
  tree=$(mktemp -d "$work/tree.XXXXXX")
  export CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1 # trees differ in their folder alone
  TOROID_ONEDNN=0 "$build/toroid" compile "$model" --emit-source "$tree/source" "${flags[@]}" 2>"$tree/log" &&
    { cmake -S "$tree/source" -B "$tree/build" -G Ninja "${configure[@]}" && cmake --build "$tree/build" -j "$build_jobs"; } >"$tree/log" 2>&1 &&
    { "${emulator[@]}" "$tree/build/example" "$tree/build/$name.so" >"$tree/log" 2>&1 || refuses_zeros "$tree/log"; } ||
    { echo "wrong $name: $(grep -A 12 "ERROR: \|error: " "$tree/log" || tail -n 20 "$tree/log")" && return; }
  if [[ -n ${CROSS:-} && ! -e $work/run_package ]]; then
    (cd "$root" && "$CROSS-g++" -std=c++20 -O1 -w -DFMT_HEADER_ONLY -Isrc -Iinclude -idirafter "$work/headers" tests/package/run_package.cpp \
      src/frontend/{safetensors,json_reader}.cpp src/support/text/json_writer.cpp "$tree/build/librun_side.a" -o "$work/run_package" -lpthread -ldl)
  fi
  for inputs in "${model%.pt2}".in*.safetensors; do
    verdict=wrong
    if "${emulator[@]}" "${preload[@]}" "$run_package" "$tree/build/$name.so" "$inputs" "$tree/package.safetensors" >"$tree/log" 2>&1 &&
      TOROID_ONEDNN=0 "$build/toroid" run "$model" --inputs "$inputs" --outputs "$tree/model.safetensors" 2>"$tree/log"; then
      if cmp "$tree/package.safetensors" "$tree/model.safetensors" >"$tree/log" 2>&1 ||
        { [[ -n ${CROSS:-}${SANITIZE:-}${CLANG:-} ]] && "$build/toroid" compare "$tree/package.safetensors" "$tree/model.safetensors" >"$tree/log" 2>&1; }; then
        verdict=right
      fi
    fi
    echo "$verdict $(basename "$inputs")$([[ $verdict == right ]] || printf ': %s' "$(head -n 30 "$tree/log")")"
  done
  rm -rf "$tree"
}

if [[ ${1:-} == --one ]]; then
  build=$2 root=$3 work=$4 build_jobs=$5 models=("$6") flags=("${@:7}")
else
  build=$(realpath "$1") root=$(realpath "$(dirname "$0")/../..") jobs=1 models=() work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  shift
  while (($#)) && [[ $1 != -- ]]; do
    if [[ $1 == --jobs ]]; then
      jobs=$2 && shift 2
    else
      models+=("$(realpath "$1")") && shift
    fi
  done
  shift || true
  flags=("$@") build_jobs=$jobs
fi

configure=() emulator=() preload=() run_package=$build/tests/run_package
! command -v ccache >/dev/null || configure=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
[[ -z ${CLANG:-} ]] || configure+=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
if [[ -n ${CROSS:-} ]]; then
  emulator=("qemu-${CROSS%%-*}-static" -L "/usr/$CROSS") run_package=$work/run_package
  configure+=(-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=${CROSS%%-*}" "-DCMAKE_C_COMPILER=$CROSS-gcc" "-DCMAKE_CXX_COMPILER=$CROSS-g++"
    "-DCMAKE_CROSSCOMPILING_EMULATOR=$(IFS=';' && echo "${emulator[*]}")")
  mkdir -p "$work/headers" # of libraries that are headers alone
  ln -sf /usr/include/fmt /usr/include/nlohmann /usr/include/eigen3 "$work/headers/"
fi
if [[ -n ${SANITIZE:-} ]]; then
  sanitizers="-fsanitize=$SANITIZE -fno-sanitize=vptr -fno-sanitize-recover=all -g1" # which names classes that packages leave out
  configure+=(-DCMAKE_BUILD_TYPE=Sanitized "-DCMAKE_C_FLAGS_SANITIZED=-O1 $sanitizers" "-DCMAKE_CXX_FLAGS_SANITIZED=-O1 $sanitizers")
  libraries=()
  for name in asan:address ubsan:undefined tsan:thread; do
    [[ ,$SANITIZE, != *,"${name#*:}",* ]] || libraries+=("$(g++ -print-file-name="lib${name%:*}.so")")
  done
  # A package compares its code in memory with its file, what lies between variables too.
  export ASAN_OPTIONS=intercept_memcmp=0 UBSAN_OPTIONS=print_stacktrace=1
  preload=(env "LD_PRELOAD=${libraries[*]}" ASAN_OPTIONS=intercept_memcmp=0:detect_leaks=0)
fi

if [[ ${1:-} == --one ]]; then
  compare "${models[0]}"
  exit
fi
"$0" --one "$build" "$root" "$work" "$jobs" "${models[0]}" "${flags[@]}" | tee "$work/results" | { grep -v '^right' || true; }
if ((${#models[@]} > 1)); then
  printf '%s\0' "${models[@]:1}" | xargs -0 -P "$jobs" -I{} "$0" --one "$build" "$root" "$work" 1 {} "${flags[@]}" | tee -a "$work/results" | { grep -v '^right' || true; }
fi
expected=0
for model in "${models[@]}"; do
  inputs=("${model%.pt2}".in*.safetensors)
  expected=$((expected + ${#inputs[@]}))
done
right=$(grep -c '^right' "$work/results" || true)
echo "$right right, $((expected - right)) wrong"
((right == expected))
