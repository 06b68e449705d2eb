// Rows of keys and values in the pieces that inner loops read them in: a vector's worth of memory, which becomes one vector of floats or,
// of bfloat16, two (its even and its odd elements: to halve words costs one instruction a vector, to widen them in order two).
#pragma once

#include <cstdint>

#include "base/float16.h"

namespace toroid {

template <class Element>
constexpr int kVectorsOfPiece = 1;
template <>
inline constexpr int kVectorsOfPiece<BFloat16> = 2;

// Whole pieces, and what is left as a last piece that ends with the row: of its elements those that were had before count as 0.
struct RowPieces {
  int64_t width;    // elements
  int64_t lanes;    // of a vector
  int64_t vectors;  // of a piece

  int64_t piece() const { return lanes * vectors; }
  int64_t whole() const { return width / piece(); }
  int64_t rest() const { return width % piece(); }  // elements
  int64_t count() const { return whole() + (rest() > 0 ? 1 : 0); }
  // Floats of a row in the order of its vectors.
  int64_t floats() const { return count() * piece(); }
  // Calls f(element, place, count) for runs of `count` elements, `vectors` apart, that lie one after the other among these.
  template <class F>
  void for_each_run(const F& f) const {
    const int64_t in_order = vectors == 1 ? whole() : 0;
    if (in_order > 0) f(int64_t{0}, int64_t{0}, in_order * lanes);
    for (int64_t p = in_order; p < count(); ++p) {
      // What the last piece has again is left out.
      const int64_t first = p < whole() ? p * piece() : width - piece(), again = p < whole() ? 0 : piece() - rest();
      for (int64_t v = 0; v < vectors; ++v) {
        const int64_t skipped = (again - v + vectors - 1) / vectors;
        f(first + skipped * vectors + v, p * piece() + v * lanes + skipped, lanes - skipped);
      }
    }
  }
};

}  // namespace toroid
