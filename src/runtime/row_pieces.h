// Rows of keys and values in the pieces that inner loops read them in: a vector's worth of memory, which becomes one vector of floats or, of
// bfloat16, two (its even and its odd elements: to halve words costs one instruction a vector, to widen them in order two).
#pragma once

#include <cstdint>

#include "support/float16.h"

namespace toroid {

template <class Element>
constexpr int kVectorsOfPiece = 1;
template <>
inline constexpr int kVectorsOfPiece<BFloat16> = 2;

// Whole pieces, and what is left as a last piece that ends with the row: of its elements those that were had before count as 0.
struct RowPieces {
  int64_t width;     // elements
  int64_t lanes;     // of a vector
  int64_t vectors;   // of a piece

  int64_t piece() const { return lanes * vectors; }
  int64_t whole() const { return width / piece(); }
  int64_t rest() const { return width % piece(); }   // elements
  int64_t count() const { return whole() + (rest() > 0 ? 1 : 0); }
  // Floats of a row in the order of its vectors.
  int64_t floats() const { return count() * piece(); }
  // Calls f(element, place) for all elements and where they lie among these.
  template <class F>
  void for_each_place(const F& f) const {
    const int64_t whole = this->whole(), all = piece();
    for (int64_t p = 0; p <= whole; ++p) {
      // What the last piece has again is left out.
      const int64_t first = p < whole ? p * all : width - all;
      for (int64_t i = p < whole ? 0 : all - rest(); i < all; ++i) f(first + i, p * all + (vectors == 2 ? i % 2 * lanes + i / 2 : i));
    }
  }
};

}  // namespace toroid
