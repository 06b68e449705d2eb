#include "runtime/kernels/gemm/gemm.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/bf16x3/gemm_dynamic_b.h"
#include "runtime/kernels/gemm/gemm_cost.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kMostPackedBytes = int64_t{36} << 20;  // of b at a time

thread_local Scratch scratch_for_panels;
thread_local Scratch scratch_for_product;

}  // namespace

void gemm_f32(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const ProductOutput& out) {
  gemm_f32(cheapest_algorithm({.m = m, .n = n, .k = k, .a_column = a.column, .b_row = b.row, .b_column = b.column}, pool.threads()), pool,
           m, n, k, a, b, out);
}

void gemm_f32(GemmAlgorithm form, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
              const ProductOutput& out) {
  if (m == 0 || n == 0) return;
  if (out.epilogue == nullptr && k == 0) {
    for (int64_t i = 0; i < m; ++i) std::memset(out.data + i * out.row, 0, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  if (form == GemmAlgorithm::SmallMByRows || form == GemmAlgorithm::SmallMByColumns) {
    if (out.epilogue == nullptr) return multiply_small_m(form, pool, m, n, k, a, b, out.data, out.row);
    float* product = scratch_for_product.get(m * n + kReadBeyond);
    multiply_small_m(form, pool, m, n, k, a, b, product, n);
    return out.take(product, n, {0, m}, {0, n});
  }
  if (form == GemmAlgorithm::Parts && k > 0) return multiply_as_bf16x3(pool, m, n, k, a, b, out);
  gemm_packed(pool, m, n, k, a, b, out);
}

template <class Element, class Stored>
void gemm_packed(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const MatrixOf<Stored>& a, const MatrixOf<Stored>& b,
                 const ProductOutputOf<Element>& out) {
  if (m == 0 || n == 0) return;
  const int64_t width = gemm_microkernels_of<Element>().panel_width();
  const int64_t most = kMostPackedBytes / int64_t{sizeof(Element)};
  const int64_t most_panels = std::max<int64_t>(1, most / (width * std::max<int64_t>(k, 1)));
  const PackedBOf<Element> whole{k, n, nullptr};
  for (int64_t first = 0; first < whole.panels(); first += most_panels) {
    const int64_t last = std::min(whole.panels(), first + most_panels);
    auto* packed = scratch_for_panels.get<Element>((last - first) * width * k);
    pool.parallel_for(last - first, 1,
                      [&](int64_t begin, int64_t end) { pack_panels(b, k, n, first + begin, first + end, packed + begin * width * k); });
    multiply(pool, m, a, PackedBOf<Element>{k, n, packed - first * width * k}, first, last, out);
  }
}

#define TOROID_GEMM(ELEMENT, STORED)                                                                                                  \
  template void gemm_packed(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const MatrixOf<STORED>& a, const MatrixOf<STORED>& b, \
                            const ProductOutputOf<ELEMENT>& out);
TOROID_GEMM(double, double)
TOROID_GEMM(uint64_t, uint64_t)
TOROID_GEMM(uint32_t, uint32_t)
TOROID_GEMM(uint32_t, int16_t)
TOROID_GEMM(uint32_t, uint16_t)
TOROID_GEMM(uint32_t, int8_t)
TOROID_GEMM(uint32_t, uint8_t)

}  // namespace toroid
