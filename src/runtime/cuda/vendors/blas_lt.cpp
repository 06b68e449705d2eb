#include "runtime/cuda/vendors/blas_lt.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace toroid::cuda {
namespace {

#define TOROID_BLASLT_LOOK_UP(name, symbol, ...) lt.name = library.function<BlasLt::name##_t>(symbol);

BlasLt open_cublas_lt() {
  static const SystemLibrary library("cuBLASLt", "TOROID_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12"});
  library.require("matrix products on a GPU need it: install CUDA's libcublas, or name the file in TOROID_CUBLASLT");
  BlasLt lt{};
  TOROID_CUBLASLT_FUNCTIONS(TOROID_BLASLT_LOOK_UP)
  lt.name = "cuBLASLt";
  lt.version = formatted("{}", library.function<size_t()>("cublasLtGetVersion")());
  lt.transpose_a = 3, lt.transpose_b = 4, lt.batch_count = 5, lt.batch_stride = 6, lt.workspace = 1;
  lt.as_it_is = 0, lt.transposed = 1;
  lt.in_float = 68, lt.in_double = 70, lt.in_integers = 72;
  return lt;
}

// ---- hipBLASLt: its header of 1.1 (ROCm 7); that of 0.6 (ROCm 6.0) has the same numbers

struct HipHeuristic {
  uint64_t algorithm[3];
  size_t workspace_bytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};
using HipHeuristicFunction = BlasStatus(void*, void*, void*, void*, void*, void*, void*, int, HipHeuristic*, int*);
HipHeuristicFunction* hip_heuristic = nullptr;

BlasStatus heuristic(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference, int most, BlasHeuristic* results,
                     int* found) {
  std::vector<HipHeuristic> its(static_cast<size_t>(most));
  const BlasStatus status = hip_heuristic(handle, product, a, b, c, d, preference, most, its.data(), found);
  for (int i = 0; status == 0 && i < std::min(*found, most); ++i) {
    const HipHeuristic& each = its[static_cast<size_t>(i)];
    results[i] = {{}, each.workspace_bytes, each.state, each.waves, {}};
    std::memcpy(results[i].algorithm.data, each.algorithm, sizeof each.algorithm);
  }
  return status;
}

BlasLt open_hipblas_lt() {
  static const SystemLibrary library("hipBLASLt", "TOROID_HIPBLASLT", {"libhipblaslt.so.1", "libhipblaslt.so.0"});
  library.require("install ROCm's hipblaslt, or name the file in TOROID_HIPBLASLT; without it products run by the program's plain kernels");
  BlasLt lt{};
  TOROID_HIPBLASLT_FUNCTIONS(TOROID_BLASLT_LOOK_UP)
  hip_heuristic = library.function<HipHeuristicFunction>("hipblasLtMatmulAlgoGetHeuristic");
  lt.heuristic = heuristic;
  lt.name = "hipBLASLt";
  lt.version = library.name();
  lt.transpose_a = 0, lt.transpose_b = 1, lt.batch_count = 0, lt.batch_stride = 1, lt.workspace = 1;
  lt.as_it_is = 111, lt.transposed = 112;
  lt.in_float = 2, lt.in_double = 7, lt.in_integers = 9;
  return lt;
}

}  // namespace

const BlasLt& blas_lt() {
  if (vendor() == Vendor::Amd) {
    static const BlasLt amd = open_hipblas_lt();
    return amd;
  }
  static const BlasLt nvidia = open_cublas_lt();
  return nvidia;
}

bool has_blas_lt() {
  try {
    blas_lt();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace toroid::cuda
