#!/usr/bin/env bash
# The programs beside this under valgrind and under sanitizers: libtoroid.so is built for each; packages are those of a release build, which
# the library loads. Their own run side: SANITIZE=… tests/package/conform_sources.sh.
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
for program in "$root"/tests/c_api/programs/*.txt; do
  TOROID_MACHINE=avx2 "$build/toroid" compile "$program" -o "$work/$(basename "$program" .txt).so" 2>"$work/log" || { cat "$work/log" && exit 1; } # valgrind knows AVX2
done
python3 - >"$work/product.txt" <<'PYTHON'
print('program "product"\nsym s0 in [1, 64] hint 4\nconstant 0 "w": f32[64, 32] = [%s]' % ", ".join(str((i * 37 % 101 - 50) / 64) for i in range(64 * 32)))
print("graph(x: f32[s0, 32]) {\n  w: f32[64, 32] = constant(0)\n  y: f32[s0, 64] = aten::linear(x, w)\n  return y\n}")
PYTHON
TOROID_MACHINE=avx2 "$build/toroid" compile "$work/product.txt" -o "$work/product.so" 2>"$work/log" || { cat "$work/log" && exit 1; }

# For GPUs, with a fake driver and compiler; the model with weights of 325 words is that of c_api_test.cpp.
fake=$build/tests/libfake_gpu.so
gpu=(env TOROID_CUDA_DRIVER="$fake" TOROID_NVRTC="$fake" TOROID_CUBLASLT="$fake" FAKE_GPU=two)
python3 - >"$work/weights_on_gpu.txt" <<'PYTHON'
zeros = ", 0" * 324
print(f'program "weights"\nconstant 0 "a": i32[325] = [1{zeros}]\nbuffer 1 "b": i32[325] = [999{zeros}]')
print("graph(x: i32[1]) {\n  a: i32[325] = constant(0)\n  b: i32[325] = constant(1)\n  y: i32[325] = aten::add.Tensor(x, a)")
print("  z: i32[325] = aten::add.Tensor(y, b)\n  s: i32[] = aten::sum(z, dtype=dtype.i32)\n  return s\n}")
PYTHON
for program in "$work/weights_on_gpu.txt" "$root"/tests/c_api/on_gpu/*.txt; do
  "${gpu[@]}" "$build/toroid" compile "$program" -o "$work/$(basename "$program" .txt).so" --device cuda 2>"$work/log" || { cat "$work/log" && exit 1; }
done

names=()
for source in "$root"/tests/c_api/*.c; do names+=("$(basename "$source" .c)"); done
passed=0 failed=0
for tool in "${tools[@]}"; do
  case $tool in
    valgrind) folder=$build run=(valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite) ;;
    asan | tsan)
      folder=$root/build-$tool run=()
      (cd "$root" && cmake --preset "$tool" >/dev/null && cmake --build "$folder" --target "${names[@]/#/c_api_}" >"$work/log") || { tail "$work/log" && exit 1; }
      ;;
  esac
  for name in "${names[@]}"; do
    [[ $tool/$name != valgrind/memory ]] || continue # which it needs itself for each library
    mkdir -p "$work/copy" && cp "$work"/*.so "$work/copy/" # programs write beside them
    with=()
    [[ $name != gpu* ]] || with=("${gpu[@]}")
    if UBSAN_OPTIONS=print_stacktrace=1 timeout 600 "${with[@]}" "${run[@]}" "$folder/tests/c_api_$name" "$work/copy" >"$work/log" 2>&1; then
      passed=$((passed + 1))
    else
      printf '%s, %s:\n' "$tool" "$name" && head -n 60 "$work/log"
      failed=$((failed + 1))
    fi
    rm -rf "$work/copy"
  done
done
echo "$passed passed, $failed failed"
((failed == 0))
