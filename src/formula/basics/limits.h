// The smallest and the largest value of a dtype: what padding and empty maxima and minima start from.
#pragma once

#include <limits>

#include "graph/graph.h"

namespace toroid {

inline Scalar lowest_value(DType dtype) {
  if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
  if (dtype == DType::Bool) return false;
  if (!is_signed(dtype)) return sym::Expr(0);
  const int64_t bits = size_bytes(dtype) * 8;
  return sym::Expr(bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1)));
}

inline Scalar highest_value(DType dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::infinity();
  if (dtype == DType::Bool) return true;
  if (dtype == DType::U64) return sym::Expr(-1);  // its bits
  const int64_t bits = size_bytes(dtype) * 8 - (is_signed(dtype) ? 1 : 0);
  return sym::Expr(bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1);
}

}  // namespace toroid
