// The right-hand matrix of a product in the order in which the inner loops read it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "runtime/kernels/gemm/microkernel.h"
#include "runtime/kernels/gemm/partition.h"
#include "runtime/memory/scratch.h"

namespace toroid {

// Writes these rows of a panel, one after the other.
template <class Element>
using PackPanelOf = std::function<void(int64_t panel, Range rows, Element* out)>;
using PackPanel = PackPanelOf<float>;

// Panels of columns one after the other, each with its rows one after the other: panel(j)[p * width(j) + i] = b[p, first_column(j) + i].
// All panels are as wide as the machine's registers allow but the last, which has as many whole vectors as it needs; columns beyond the
// matrix are 0. If `in_pairs`, of float32 alone, the last panel has half vectors instead, and in pairs of rows each column's two numbers
// side by side (GemmMicrokernels::multiply_pairs).
//
// Or the panels are not there yet: `pack` makes a part of one just before it is multiplied, where the caches keep it.
template <class Element>
struct PackedBOf {
  int64_t depth, columns;
  const Element* data;
  bool in_pairs = false;
  const PackPanelOf<Element>* pack = nullptr;  // then there is no data
  const GemmMicrokernelsOf<Element>* kernels = &gemm_microkernels_of<Element>();

  int64_t panels() const { return (columns + kernels->panel_width() - 1) / kernels->panel_width(); }
  int64_t width(int64_t panel) const {
    return std::min(kernels->panel_width(), (columns - first_column(panel) + kernels->lanes - 1) / kernels->lanes * kernels->lanes);
  }
  int64_t first_column(int64_t panel) const { return panel * kernels->panel_width(); }
  bool is_in_pairs(int64_t panel) const { return in_pairs && panel + 1 == panels(); }
  // Half vectors of the last panel.
  int64_t halves() const { return halves(columns - first_column(panels() - 1), *kernels); }
  // Elements of a panel's row.
  int64_t row(int64_t panel) const;
  const Element* panel(int64_t panel) const { return data + first_column(panel) * depth; }
  // These rows of a panel. If they are packed now, they are this thread's until it asks for others.
  const Element* part(int64_t panel, Range rows) const;

  static int64_t panels(int64_t columns);
  // Elements of the whole.
  static int64_t size(int64_t depth, int64_t columns) {
    const int64_t lanes = gemm_microkernels_of<Element>().lanes;
    return (columns + lanes - 1) / lanes * lanes * depth;
  }
  // Is the last panel of so many columns multiplied more quickly in pairs? Only of an even depth.
  static bool pays_in_pairs(int64_t columns);

 private:
  static int64_t halves(int64_t columns, const GemmMicrokernelsOf<Element>& kernels) {
    const int64_t half = kernels.lanes / 2;
    return (columns + half - 1) / half;
  }
};
using PackedB = PackedBOf<float>;

// A matrix in memory, strides in elements.
template <class Element>
struct MatrixOf {
  const Element* data;
  int64_t row, column;
  const Element* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
};
using Matrix = MatrixOf<float>;

// Writes the panels [first, last) of a packed matrix of this depth and so many columns; `out` is where the first of them goes.
void pack_panels(const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out, bool in_pairs = false);
// The same of elements that are converted: to float from int8_t, to double from double, to uint32_t from it and narrower integers, to
// uint64_t from uint64_t.
template <class Element, class Stored>
void pack_panels(const MatrixOf<Stored>& b, int64_t depth, int64_t columns, int64_t first, int64_t last, Element* out);
// Writes rows of 16 columns, of which b has so many and the others are 0, whatever the width of the machine's panels.
void pack_sixteen(const Matrix& b, int64_t depth, int64_t columns, float* out);
// Writes some rows of a matrix, in some of its columns, so that elements of a row follow each other; rows are `to_row` apart.
void copy_rows(const Matrix& from, Range rows, Range columns, float* to, int64_t to_row);
template <class Element, class Stored>
void copy_rows(const MatrixOf<Stored>& from, Range rows, Range columns, Element* to, int64_t to_row);

}  // namespace toroid
