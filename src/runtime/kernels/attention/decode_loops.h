// The inner loops of attention with few queries: their products with rows of keys and of values, which are read where they lie, once.
#pragma once

#include <array>

#include "runtime/kernels/attention/row_pieces.h"

namespace toroid {

constexpr int64_t kManyKeys = 16;  // scores are written in multiples of so many

// Rows of elements that follow each other, so far apart.
template <class Element>
struct KeyRows {
  const Element* data;
  int64_t row;
  const Element* at(int64_t i) const { return data + i * row; }
};

template <class Element>
struct KeyBlock {
  KeyRows<Element> rows;
  int64_t count;
};

// Queries' and results' rows are in the order of `pieces`, `floats()` apart. With 1, 2 or 4 queries, by the logarithm: null beyond
// most_queries.
template <class Element>
struct FewQueryLoops {
  // scores[r * scores_row + j] = query r times key j, up to the next multiple of kManyKeys.
  using Scores = void (*)(const RowPieces& pieces, const float* queries, const KeyBlock<Element>& keys, float* scores, int64_t scores_row);
  // sums[r, e] += over all j: weights[r * weights_row + j] * values[j, e].
  using Add = void (*)(const RowPieces& pieces, const float* weights, int64_t weights_row, const KeyBlock<Element>& values, float* sums);

  int64_t lanes;
  int64_t most_queries;
  std::array<Scores, 3> scores;
  std::array<Add, 3> add;

  RowPieces pieces(int64_t width) const { return {width, lanes, kVectorsOfPiece<Element>}; }
};

// Of float, BFloat16 or Float16, for rows of at least so many elements; null where there are none.
template <class Element>
const FewQueryLoops<Element>* few_query_loops(int64_t width);

}  // namespace toroid
