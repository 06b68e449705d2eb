// The right-hand matrix of a product in the order in which the inner loops read it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/strips.h"

namespace toroid {

// Panels of columns one after the other, each with its rows one after the other: panel(j)[p * width(j) + i] = b[p, first_column(j) + i]. All
// panels are as wide as the machine's registers allow but the last, which has as many whole vectors as it needs; columns beyond the
// matrix are 0.
struct PackedMatrix {
  int64_t depth, columns;
  const float* data;

  int64_t panels() const { return panels(columns); }
  int64_t width(int64_t panel) const {
    const int64_t lanes = strip_kernels().lanes;
    return std::min(strip_kernels().panel_width(), (columns - first_column(panel) + lanes - 1) / lanes * lanes);
  }
  int64_t first_column(int64_t panel) const { return panel * strip_kernels().panel_width(); }
  const float* panel(int64_t panel) const { return data + first_column(panel) * depth; }

  static int64_t panels(int64_t columns) { return (columns + strip_kernels().panel_width() - 1) / strip_kernels().panel_width(); }
  // Floats of the whole.
  static int64_t size(int64_t depth, int64_t columns) {
    const int64_t lanes = strip_kernels().lanes;
    return (columns + lanes - 1) / lanes * lanes * depth;
  }
};

// A matrix in memory, strides in elements.
template <class Element>
struct MatrixOf {
  const Element* data;
  int64_t row, column;
  const Element* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
};
using Matrix = MatrixOf<float>;

// Writes the panels [first, last) of a packed matrix of this depth and so many columns; `out` is where the first of them goes.
void pack_panels(const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out);

}  // namespace toroid
