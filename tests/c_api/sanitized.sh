#!/usr/bin/env bash
# The programs beside this under valgrind and under sanitizers, by c_api_test: libtoroid.so is built for each; packages are those of a
# release build, which the library loads. Their own run side: SANITIZE=… tests/package/conform_sources.sh.
#
# usage: sanitized.sh BUILD_FOLDER [valgrind] [asan] [tsan]      all three by default. Prints what each program says where it fails, and
#                                                                "N passed, M failed". Builds the sanitizers' libraries, some minutes a core
set -euo pipefail
build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
shift
tools=("$@")
(($#)) || tools=(valgrind asan tsan)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names=()
for source in "$root"/tests/c_api/*.c; do names+=("$(basename "$source" .c)"); done
passed=0 failed=0
for tool in "${tools[@]}"; do
  # Left out: the compiler's library, which is tested elsewhere; what packages do by their own run sides, which have no sanitizers; of
  # valgrind the program that looks at its own memory, which valgrind needs itself for each library.
  case $tool in
    valgrind)
      left_out=CApi.CompilesModels:CApi.NeedsNoMoreMemory* # TOROID_MACHINE: valgrind knows AVX2
      run=(env TOROID_MACHINE=avx2 C_API_RUNNER="valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite")
      ;;
    asan | tsan)
      folder=$root/build-$tool left_out=CApi.CompilesModels:CApi.*OwnRunSides
      run=(env C_API_PROGRAMS="$folder/tests" UBSAN_OPTIONS=print_stacktrace=1)
      (cd "$root" && cmake --preset "$tool" >/dev/null && cmake --build "$folder" --target "${names[@]/#/c_api_}" >"$work/log") || { tail "$work/log" && exit 1; }
      ;;
  esac
  "${run[@]}" "$build/tests/c_api_test" --gtest_filter="-$left_out" >"$work/log" 2>&1 || true
  now=$(grep -c '^\[       OK \]' "$work/log" || true)
  began=$(grep -c '^\[ RUN      \]' "$work/log" || true)
  echo "$tool: $now of $began"
  ((began >= ${#names[@]} - 1)) || failed=$((failed + 1))
  ((now == began)) || sed "s/^/$tool: /" "$work/log"
  passed=$((passed + now)) failed=$((failed + began - now))
done
echo "$passed passed, $failed failed"
((failed == 0))
