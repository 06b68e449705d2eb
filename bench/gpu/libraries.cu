// Rows of check.py done by NVIDIA's libraries alone, called directly: products by the quickest of cuBLASLt's algorithms, with its epilogues
// where it has them; sorts, sums and scans by CUB.
//
// usage: libraries ROW...      prints {"row": ..., "ms": ..., "how": ...}, a line for each row that a library does; others are left out.
// build: nvcc -O3 -std=c++17 --extended-lambda -arch=native libraries.cu -lcublasLt -o libraries
//
// Inputs are uniform in [-1, 1). A time is the median of calls between which the L2 cache is emptied. An algorithm is first timed by a few
// calls; the five quickest are timed so.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <thrust/iterator/transform_iterator.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/cub.cuh>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

void check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
  std::exit(1);
}

void check(cublasStatus_t code) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "cuBLASLt: %s\n", cublasLtGetStatusString(code));
  std::exit(1);
}

// A random number in [-1, 1) of an element's place: two rounds of a multiplicative hash.
__device__ float uniform(uint64_t i, uint64_t seed) {
  uint64_t x = (i + seed * 0x9E3779B97F4A7C15ull + 1) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 31)) * 0x94D049BB133111EBull;
  return static_cast<float>(x >> 40) * (2.0f / (1 << 24)) - 1.0f;
}

template <class T>
__global__ void fill(T* to, size_t count, uint64_t seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x)
    to[i] = static_cast<T>(uniform(i, seed));
}

void* memory(size_t bytes) {
  void* pointer = nullptr;
  check(cudaMalloc(&pointer, bytes));
  return pointer;
}

template <class T>
T* random_numbers(size_t count) {
  static uint64_t seed = 0;
  T* pointer = static_cast<T*>(memory(count * sizeof(T)));
  fill<<<1024, 256>>>(pointer, count, ++seed);
  check(cudaGetLastError());
  return pointer;
}

// Median milliseconds of a call; `cold`: from an empty L2 cache.
double time_of(const std::function<void()>& call, int calls, bool cold) {
  constexpr size_t flushed = 256 << 20;
  static void* other = memory(flushed);
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times(calls);
  call();
  for (float& each : times) {
    if (cold) check(cudaMemsetAsync(other, 0, flushed));
    check(cudaEventRecord(begin));
    call();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&each, begin, end));
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  return times[calls / 2];
}

struct Product {
  int64_t rows, depth, columns;
  bool transposed = false;  // is the right side stored [columns, depth], as a linear layer's weight is?
  int64_t batch = 1;
  bool bias = false, gelu = false, residual = false;  // cuBLASLt's GELU is the tanh form
};

struct Measured {
  double ms;
  std::string how;
};

// Results, row by row, are the transpose of what cuBLASLt stores column by column: its left side is our right one.
Measured time_of(const Product& p) {
  using Element = __nv_bfloat16;
  constexpr size_t workspace_bytes = 64 << 20;
  Element* left = random_numbers<Element>(p.batch * p.rows * p.depth);
  Element* right = random_numbers<Element>(p.batch * p.depth * p.columns);
  Element* added = random_numbers<Element>(p.residual ? p.rows * p.columns : 1);
  Element* bias = random_numbers<Element>(p.columns);
  Element* result = static_cast<Element*>(memory(p.batch * p.rows * p.columns * sizeof(Element)));
  void* workspace = memory(workspace_bytes);
  cublasLtHandle_t handle;
  check(cublasLtCreate(&handle));
  cublasLtMatmulDesc_t operation;
  check(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t turned = p.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned));
  if (p.bias) {
    const cublasLtEpilogue_t epilogue = p.gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  }
  const auto layout = [&](int64_t rows, int64_t columns) {
    cublasLtMatrixLayout_t made;
    check(cublasLtMatrixLayoutCreate(&made, CUDA_R_16BF, rows, columns, rows));
    const int32_t batch = static_cast<int32_t>(p.batch);
    const int64_t stride = rows * columns;
    check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return made;
  };
  const auto a = p.transposed ? layout(p.depth, p.columns) : layout(p.columns, p.depth);
  const auto b = layout(p.depth, p.rows), d = layout(p.columns, p.rows);
  cublasLtMatmulPreference_t preference;
  check(cublasLtMatmulPreferenceCreate(&preference));
  check(
      cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, sizeof workspace_bytes));
  std::vector<cublasLtMatmulHeuristicResult_t> found(128);
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, d, d, preference, static_cast<int>(found.size()), found.data(), &count));
  const float one = 1, beta = p.residual ? 1 : 0;
  const void* c = p.residual ? added : result;
  const auto call = [&](const cublasLtMatmulHeuristicResult_t& by) {
    check(
        cublasLtMatmul(handle, operation, &one, right, a, left, b, &beta, c, d, result, d, &by.algo, workspace, workspace_bytes, nullptr));
  };
  std::vector<std::pair<double, int>> order;
  for (int i = 0; i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS) order.emplace_back(time_of([&] { call(found[i]); }, 5, false), i);
  std::sort(order.begin(), order.end());
  Measured best{1e9, ""};
  for (size_t i = 0; i < std::min<size_t>(order.size(), 5); ++i) {
    const double ms = time_of([&] { call(found[order[i].second]); }, 40, true);
    if (ms < best.ms)
      best = {ms, "cuBLASLt, algorithm " + std::to_string(order[i].second + 1) + " of " + std::to_string(count) +
                      (p.gelu ? ", tanh GELU" : "")};
  }
  for (void* each : {static_cast<void*>(left), static_cast<void*>(right), static_cast<void*>(added), static_cast<void*>(bias),
                     static_cast<void*>(result), workspace})
    check(cudaFree(each));
  return best;
}

// A function of CUB: first asked for the temporary bytes that it needs.
Measured time_of_cub(const std::function<cudaError_t(void*, size_t&)>& call) {
  size_t bytes = 0;
  check(call(nullptr, bytes));
  void* temporary = memory(bytes);
  const double ms = time_of([&] { check(call(temporary, bytes)); }, 20, true);
  check(cudaFree(temporary));
  return {ms, "CUB"};
}

struct Square {
  __device__ float operator()(__nv_bfloat16 x) const { return static_cast<float>(x) * static_cast<float>(x); }
};

__global__ void number(int64_t* positions, size_t count, size_t row) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) positions[i] = i % row;
}

// Ascending, with positions of 64 bits, as PyTorch's sort gives them.
Measured sort(size_t rows, size_t row) {
  const size_t count = rows * row;
  float* keys = random_numbers<float>(count);
  float* sorted = static_cast<float*>(memory(count * sizeof(float)));
  auto* positions = static_cast<int64_t*>(memory(count * sizeof(int64_t)));
  auto* moved = static_cast<int64_t*>(memory(count * sizeof(int64_t)));
  number<<<1024, 256>>>(positions, count, row);
  const auto begins = thrust::make_transform_iterator(thrust::make_counting_iterator<int64_t>(0),
                                                      [row] __host__ __device__(int64_t i) { return i * static_cast<int64_t>(row); });
  Measured best{1e9, ""};
  if (rows == 1) {
    best = time_of_cub(
        [&](void* at, size_t& bytes) { return cub::DeviceRadixSort::SortPairs(at, bytes, keys, sorted, positions, moved, count); });
  } else {
    for (bool radix : {false, true}) {
      const Measured measured = time_of_cub([&](void* at, size_t& bytes) {
        return radix
                   ? cub::DeviceSegmentedRadixSort::SortPairs(at, bytes, keys, sorted, positions, moved, count, rows, begins, begins + 1)
                   : cub::DeviceSegmentedSort::StableSortPairs(at, bytes, keys, sorted, positions, moved, count, rows, begins, begins + 1);
      });
      if (measured.ms < best.ms) best = measured;
    }
  }
  for (void* each : {static_cast<void*>(keys), static_cast<void*>(sorted), static_cast<void*>(positions), static_cast<void*>(moved)})
    check(cudaFree(each));
  return best;
}

Measured scan(size_t rows, size_t row) {
  float* from = random_numbers<float>(rows * row);
  float* to = static_cast<float*>(memory(rows * row * sizeof(float)));
  size_t bytes = 0;
  check(cub::DeviceScan::InclusiveSum(nullptr, bytes, from, to, row));
  void* temporary = memory(bytes);
  const double ms = time_of(
      [&] {
        for (size_t i = 0; i < rows; ++i) check(cub::DeviceScan::InclusiveSum(temporary, bytes, from + i * row, to + i * row, row));
      },
      20, true);
  for (void* each : {static_cast<void*>(from), static_cast<void*>(to), temporary}) check(cudaFree(each));
  return {ms, "CUB, a call a row"};
}

Measured sum_of_squares(size_t count) {
  auto* from = random_numbers<__nv_bfloat16>(count);
  auto* to = static_cast<float*>(memory(sizeof(float)));
  const Measured measured = time_of_cub([&](void* at, size_t& bytes) {
    return cub::DeviceReduce::Sum(at, bytes, thrust::make_transform_iterator(from, Square{}), to, count);
  });
  check(cudaFree(from));
  check(cudaFree(to));
  return measured;
}

}  // namespace

int main(int count, char** names) {
  Product linear_gelu{8192, 4096, 4096, true}, linear_residual{8192, 4096, 1024, true}, batch{1024, 128, 1024};
  linear_gelu.bias = linear_gelu.gelu = linear_residual.bias = linear_residual.residual = true;
  batch.batch = 64;
  const auto product = [](Product p) { return [p] { return time_of(p); }; };
  const std::map<std::string, std::function<Measured()>> rows = {{"mm_square", product({8192, 8192, 8192})},
                                                                 {"mm_4096", product({4096, 4096, 4096})},
                                                                 {"mm_skinny_decode", product({8, 4096, 14336})},
                                                                 {"mm_1_4096_14336", product({1, 4096, 14336})},
                                                                 {"mm_16_4096_14336", product({16, 4096, 14336})},
                                                                 {"mm_64_4096_14336", product({64, 4096, 14336})},
                                                                 {"linear_gelu", product(linear_gelu)},
                                                                 {"linear_residual", product(linear_residual)},
                                                                 {"bmm", product(batch)},
                                                                 {"full_sum_sq", [] { return sum_of_squares(64 << 20); }},
                                                                 {"cumsum_few_rows", [] { return scan(4, 16 << 20); }},
                                                                 {"sort_rows", [] { return sort(4096, 16384); }},
                                                                 {"sort_64m", [] { return sort(1, 64 << 20); }}};
  for (int i = 1; i < count; ++i) {
    const auto found = rows.find(names[i]);
    if (found == rows.end()) continue;
    const Measured measured = found->second();
    std::printf("{\"row\": \"%s\", \"ms\": %.5f, \"how\": \"%s\"}\n", names[i], measured.ms, measured.how.c_str());
    std::fflush(stdout);
  }
}
