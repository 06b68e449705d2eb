// Operands of library kernels: where their matrices begin.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"
#include "toroid/program_abi.h"

namespace toroid {

inline DType dtype_of(const ToroidOperand& operand) { return static_cast<DType>(operand.dtype); }
inline float* data_of(const ToroidOperand& operand) { return static_cast<float*>(operand.data); }

// Start of the `batch`-th matrix (or vector) below the leading `dims` dims, in elements.
inline int64_t batch_offset(const ToroidOperand& operand, int32_t dims, int64_t batch) {
  int64_t offset = 0;
  for (int32_t d = dims; d-- > 0;) {
    offset += batch % operand.sizes[d] * operand.strides[d];
    batch /= operand.sizes[d];
  }
  return offset;
}

inline int64_t product(const int64_t* sizes, int32_t count) {
  int64_t result = 1;
  for (int32_t d = 0; d < count; ++d) result *= sizes[d];
  return result;
}

inline bool is_contiguous(const ToroidOperand& operand) {
  int64_t expected = 1;
  for (int32_t d = operand.rank; d-- > 0;) {
    if (operand.sizes[d] != 1 && operand.strides[d] != expected) return false;
    expected *= std::max<int64_t>(operand.sizes[d], 1);
  }
  return true;
}

// Visits elements in row-major order with their strided position.
template <class F>
void for_each_position(const ToroidOperand& operand, F f) {
  std::vector<int64_t> index(static_cast<size_t>(operand.rank));
  int64_t count = 1;
  for (int32_t d = 0; d < operand.rank; ++d) count *= operand.sizes[d];
  int64_t position = 0;
  for (int64_t i = 0; i < count; ++i) {
    f(i, position);
    for (int32_t d = operand.rank; d-- > 0;) {
      position += operand.strides[d];
      if (++index[static_cast<size_t>(d)] < operand.sizes[d]) break;
      position -= operand.strides[d] * operand.sizes[d];
      index[static_cast<size_t>(d)] = 0;
    }
  }
}

// Is the same matrix meant by all batches?
inline bool is_one_matrix(const ToroidOperand& operand) {
  for (int32_t d = 0; d < operand.rank - 2; ++d) {
    if (operand.sizes[d] != 1 && operand.strides[d] != 0) return false;
  }
  return true;
}

// Do the operand's matrices lie one below the other, as one of more rows?
inline bool is_one_column_of_rows(const ToroidOperand& operand) {
  const int32_t rows = operand.rank - 2;
  int64_t expected = operand.strides[rows] * operand.sizes[rows];
  for (int32_t d = rows; d-- > 0;) {
    if (operand.sizes[d] != 1 && operand.strides[d] != expected) return false;
    expected *= operand.sizes[d];
  }
  return true;
}

// The sizes of a matrix product's operands: so many products of m rows, n columns and a depth of k. A batch with one matrix on the right,
// and whose rows on the left lie one below the other, is one product.
struct ProductSizes {
  int64_t batches, m, n, k;
  double flops() const {
    return 2.0 * static_cast<double>(batches) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  double elements_of_a() const { return static_cast<double>(batches) * static_cast<double>(m) * static_cast<double>(k); }
  double elements_of_b() const { return static_cast<double>(batches) * static_cast<double>(k) * static_cast<double>(n); }
};
inline ProductSizes product_sizes(const ToroidOperand& a, const ToroidOperand& b, const ToroidOperand& c) {
  const int32_t dims = a.rank - 2;
  const ProductSizes sizes = {product(c.sizes, dims), c.sizes[dims], c.sizes[dims + 1], a.sizes[dims + 1]};
  if (is_one_matrix(b) && is_one_column_of_rows(a)) return {1, sizes.batches * sizes.m, sizes.n, sizes.k};
  return sizes;
}

}  // namespace toroid
