// Sizes of the loops that axes stand for.
#pragma once

#include <algorithm>
#include <vector>

#include "symbolic/expr.h"

namespace toroid::schedule {

// 1 of what is no axis but a number.
inline sym::Expr extent(sym::Expr axis) { return axis.is_const() ? sym::Expr(1) : *axis.node()->extent; }

inline sym::Expr product_of_extents(const std::vector<sym::Expr>& axes) {
  sym::Expr product = 1;
  for (sym::Expr axis : axes) product = product * extent(axis);
  return product;
}

// At the sizes that the example had.
inline int64_t extent_hint(sym::Expr axis) { return sym::evaluate_hint(extent(axis)); }

inline void move_to_back(std::vector<sym::Expr>& axes, sym::Expr axis) {
  axes.erase(std::find(axes.begin(), axes.end(), axis));
  axes.push_back(axis);
}

}  // namespace toroid::schedule
