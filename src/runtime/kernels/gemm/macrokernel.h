// Products of rows, wherever they lie, with a packed matrix: what matrix products and convolutions share. The templates are defined for the
// elements of GemmMicrokernelsOf, and from those that pack_panels converts. Of float32 there are functions besides, which take their
// arguments in braces.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/span.h"
#include "runtime/kernels/gemm/packed_b.h"
#include "runtime/kernels/gemm/partition.h"
#include "runtime/pool/pool.h"
#include "toroid/program_abi.h"

namespace toroid {

// Takes blocks of a product of such elements as an epilogue's function takes those of float32.
template <class Element>
struct BlockConsumer {
  void (*run)(void* argument, const Element* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
              int64_t last_column);
  void* argument;
};
template <class Element>
using EpilogueOf = std::conditional_t<std::is_same_v<Element, float>, ToroidEpilogue, BlockConsumer<Element>>;

// Where a product goes: to memory, or block by block to its epilogue.
template <class Element>
struct ProductOutputOf {
  Element* data;                            // row-major and contiguous along columns; null with an epilogue
  int64_t row;                              // stride, in elements
  const EpilogueOf<Element>* epilogue;      // null: none
  int64_t first_row = 0, first_column = 0;  // of the epilogue's product, where this one begins

  // Of the part of the product that begins in this row and column.
  ProductOutputOf part(int64_t part_row, int64_t part_column) const {
    return {data == nullptr ? nullptr : data + part_row * row + part_column, row, epilogue, first_row + part_row,
            first_column + part_column};
  }
  // A finished block, whose rows are block_row elements apart.
  void take(const Element* block, int64_t block_row, Range rows, Range columns) const;
};
using ProductOutput = ProductOutputOf<float>;

// Elements behind a block that an epilogue may read (ToroidEpilogue).
inline constexpr int64_t kReadBeyond = 16;

// Where the elements of a row of the left matrix lie, in their order: the same offsets from each row's pointer.
class RowElements {
 public:
  RowElements() = default;
  RowElements(int64_t offset, int64_t count) { add(offset, count); }
  // `count` elements that follow each other. Offsets in elements.
  void add(int64_t offset, int64_t count);

  // No longer than what the loops take at a time.
  Span<const Run> runs() const { return runs_; }
  // Each element's own offset, where they lie too scattered for runs; else empty.
  Span<const int64_t> scattered() const;

 private:
  std::vector<Run> runs_;
  std::vector<int64_t> offsets_;  // of all elements, while they are scattered
  bool is_scattered_ = true;
};

// Pointers to rows of a matrix, which are copied first, to one after the other, if `copy` or if elements are to be converted. One at a time
// in a thread.
template <class Element>
class RowBlockOf {
 public:
  template <class Stored>
  RowBlockOf(const MatrixOf<Stored>& a, int64_t first, int64_t count, int64_t depth, bool copy);
  Span<const Element* const> pointers() const { return pointers_; }

 private:
  std::vector<const Element*> pointers_;
};
using RowBlock = RowBlockOf<float>;

// Are panels fetched into the second-level cache while those before them are multiplied?
template <class Element>
struct FetchingOf {
  bool is_on = false;
  const Element* after_last = nullptr;  // what is read after the last panel; null: it is not known
};
using Fetching = FetchingOf<float>;
// Whether that pays for so many bytes of panels, which a thread goes through so many times: not if they stay in the cache.
bool pays_to_fetch(int64_t bytes, int64_t times);

// The rows [first_row, first_row + rows.size()) of a product, in its columns of the panels [first, last): row i has `elements` at
// rows[i]. Takes one thread.
void multiply_rows(const PackedB& b, int64_t first, int64_t last, const RowElements& elements, Span<const float* const> rows,
                   int64_t first_row, const ProductOutput& out, const Fetching& fetching = {});
template <class Element>
void multiply_rows(const PackedBOf<Element>& b, int64_t first, int64_t last, const RowElements& elements, Span<const Element* const> rows,
                   int64_t first_row, const ProductOutputOf<Element>& out, const FetchingOf<Element>& fetching);

// How the product of m rows with so many panels of this depth is cut.
template <class Element>
Cut partition_of_panels(int64_t threads, int64_t m, int64_t panels, int64_t depth) {
  return partition_of(threads, size_of_matrix(m, panels, depth, sizeof(Element)));
}
template <class Element>
Cut partition_of(int64_t threads, int64_t m, const PackedBOf<Element>& b) {
  return partition_of_panels<Element>(threads, m, b.panels(), b.depth);
}
// The columns of these panels of the product of `a`, m rows of b.depth elements, with b. `cut`: as above, for so many panels.
void multiply(RuntimePool& pool, const Cut& cut, int64_t m, const Matrix& a, const PackedB& b, Range panels, const ProductOutput& out);
template <class Element, class Stored>
void multiply(RuntimePool& pool, const Cut& cut, int64_t m, const MatrixOf<Stored>& a, const PackedBOf<Element>& b, Range panels,
              const ProductOutputOf<Element>& out);

}  // namespace toroid
