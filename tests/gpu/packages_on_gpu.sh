#!/usr/bin/env bash
# Packages for GPUs on a GPU: by their own run side, without CUDA's libraries, from PTX, as archives and as sources; weights that contexts
# share and that are replaced under load (contexts_on_gpu.c).
#
# usage: packages_on_gpu.sh BUILD_FOLDER [MODELS_FOLDER]      prints a line for each check, and "N passed, M failed"; exit status 1 where any did
#
# BUILD_FOLDER has toroid, tests/run_package and tests/contexts_on_gpu. MODELS_FOLDER: recorded models; by default those of the build. Where
# the driver sees no GPU it prints "SKIPPED: …" and ends with exit status 77. With PyTorch for python3 there is a model of 256 MB, too.
set -uo pipefail
build=$(realpath "$1") models=$(realpath "${2:-$1/conformance/models}") source=$(realpath "$(dirname "$0")/../..")
toroid=$build/toroid passed=0 failed=0
if ! gpus=$("$toroid" doctor 2>/dev/null | grep '^ok  *GPU '); then
  echo "SKIPPED: no GPU: $("$toroid" doctor 2>/dev/null | grep -i -m 1 'gpu\|NVIDIA')"
  exit 77
fi
echo "$gpus"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TOROID_CACHE_DIR=$work/cache

# check NAME COMMAND...: passes where the command does; else its last lines are printed.
check() {
  local name=$1 begin=$SECONDS
  shift
  if "$@" >"$work/log" 2>&1; then
    passed=$((passed + 1))
    echo "pass  $name ($((SECONDS - begin)) s)"
  else
    failed=$((failed + 1))
    echo "FAIL  $name"
    tail -n 12 "$work/log" | sed 's/^/      /'
  fi
}

# The package by its own run side gives what PyTorch recorded.
runs_alone() {
  local package=$1 model=$2
  "$build/tests/run_package" "$package" "$models/$model.in.safetensors" "$work/out.safetensors" &&
    "$toroid" compare "$work/out.safetensors" "$models/$model.out.safetensors"
}
compiles() { "$toroid" compile "$models/$1.pt2" -o "$2" --device cuda "${@:3}"; }
needs_libc_alone() { [[ -z $(readelf -dW "$1" | grep NEEDED | grep -v '\[lib\(c\|m\|dl\)\.so\|\[ld-linux') ]]; }

for model in mlp convnet hf_bert hf_llama timm_test_resnet timm_test_vit index_mix train_mlp; do
  [[ -e $models/$model.pt2 ]] || continue
  compile_and_run() { compiles "$model" "$work/$model.so" && needs_libc_alone "$work/$model.so" && runs_alone "$work/$model.so" "$model"; }
  check "$model, by its own run side" compile_and_run
done
ls -l "$work"/*.so | awk '{ sub(".*/", "", $9); printf "      %s %.2f MB\n", $9, $5 / 1e6 }'

from_ptx() { compiles mlp "$work/ptx.so" --arch compute_80 && runs_alone "$work/ptx.so" mlp; }
check 'from PTX of an earlier architecture' from_ptx
without_nvrtc() { TOROID_NVRTC=/no/nvrtc.so runs_alone "$work/hf_bert.so" hf_bert; }
check 'without NVRTC' without_nvrtc
without_cublaslt() {
  ! TOROID_CUBLASLT=/no/cublaslt.so "$build/tests/run_package" "$work/ptx.so" "$models/mlp.in.safetensors" "$work/out.safetensors" ||
    "$toroid" compare "$work/out.safetensors" "$models/mlp.out.safetensors"
}
check 'without cuBLASLt: an error or the right result' without_cublaslt
without_driver() {
  ! TOROID_CUDA_DRIVER=/no/driver.so "$build/tests/run_package" "$work/mlp.so" "$models/mlp.in.safetensors" "$work/out.safetensors" 2>"$work/words" &&
    grep -q 'no NVIDIA driver: /no/driver.so cannot be opened' "$work/words"
}
check 'without a driver: refused' without_driver
for_other_gpus() {
  compiles mlp "$work/other.so" --arch sm_80 &&
    ! "$build/tests/run_package" "$work/other.so" "$models/mlp.in.safetensors" "$work/out.safetensors" 2>"$work/words" &&
    grep -q "the program's kernels are for sm_80, and the GPU is" "$work/words"
}
check 'for another architecture: refused' for_other_gpus

# An archive, in a program that prints the first output's sum, against the same program over the package.
cat >"$work/sum.c" <<'C'
#include "archived.h"
#include "some_inputs.h"
int main(void) {
  const ToroidApi* const toroid = archived_toroid_api(TOROID_API_VERSION);
  ToroidModel* model = NULL;
  ToroidContext* context = NULL;
  ToroidModelInfo info = {sizeof info};
  DLTensor tensors[16];
  const DLTensor* inputs[16];
  DLManagedTensor* outputs[16];
  char message[1024] = "";
  size_t k, count;
  double sum = 0;
  int i;
  if (toroid->model_open(NULL, NULL, &model, message, sizeof message) != TOROID_OK ||
      toroid->context_create(model, NULL, &context, message, sizeof message) != TOROID_OK) {
    printf("%s\n", message);
    return 1;
  }
  toroid->model_info(model, &info);
  for (i = 0; i < info.num_inputs; ++i) make_input(toroid, model, i, &tensors[i]), inputs[i] = &tensors[i];
  if (toroid->context_run(context, inputs, info.num_inputs, outputs, info.num_outputs, NULL) != TOROID_OK) {
    printf("%s\n", toroid->context_message(context));
    return 2;
  }
  count = bytes_of(&outputs[0]->dl_tensor) / sizeof(float);
  for (k = 0; k < count; ++k) sum += ((const float*)outputs[0]->dl_tensor.data)[k];
  printf("%.4f\n", sum);
  return !(sum == sum);
}
C
archived() {
  compiles mlp "$work/archived.a" && cc -w -o "$work/sum" "$work/sum.c" -I"$work" -I"$source/tests/package" -I"$source/include" "$work/archived.a" -lm -ldl -lpthread &&
    "$work/sum"
}
check 'an archive in a program in C' archived
sources() {
  "$toroid" compile "$models/mlp.pt2" --device cuda --emit-source "$work/tree" &&
    cmake -S "$work/tree" -B "$work/tree/build" && cmake --build "$work/tree/build" -j "$(nproc)" &&
    runs_alone "$(find "$work/tree/build" -maxdepth 1 -name '*.so')" mlp
}
check 'sources, built by CMake' sources

contexts() { "$build/tests/contexts_on_gpu" "$@" >"$work/contexts" 2>&1; }
for model in mlp hf_bert timm_test_resnet; do
  [[ ! -e $work/$model.so ]] || { check "contexts of $model" contexts "$work/$model.so" 3; sed 's/^/      /' "$work/contexts"; }
done
if python3 -c 'import torch' 2>/dev/null; then
  cat >"$work/large.py" <<'PY'
import sys, torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4096, 4096) for _ in range(4))
    def forward(self, x):
        for layer in self.layers: x = torch.nn.functional.gelu(layer(x)) * 4
        return x
torch.manual_seed(1)
torch.export.save(torch.export.export(Model().eval(), (torch.randn(16, 4096),)), sys.argv[1])
PY
  large() {
    python3 "$work/large.py" "$work/large.pt2" && "$toroid" compile "$work/large.pt2" -o "$work/large.so" --device cuda &&
      contexts "$work/large.so" 5
  }
  : >"$work/contexts"
  check 'contexts of 256 MB of weights' large
  sed 's/^/      /' "$work/contexts"
else
  echo 'SKIPPED: 256 MB of weights, for python3 has no torch'
fi
echo "$passed passed, $failed failed"
((failed == 0))
