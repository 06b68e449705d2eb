// The innermost loops of products: a strip of a few rows and one panel of columns, whose sums live in registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/span.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "toroid/program_abi.h"

namespace toroid {

// Elements of a row of the left matrix that follow each other: from `offset` behind the row's pointer.
struct Run {
  int64_t offset, length;
};
// A long depth is gone through in parts, which are whole runs. No run is longer.
constexpr int64_t kLongestRun = 256;
// A long sum is a sum of sums of so many products, which errs less than one after the other (Blanchard, Higham and Mary, "A Class of
// Fast and Accurate Summation Algorithms", 2020).
constexpr int64_t kLongestBlock = 128;
// In panels of one vector, where totals cost little and products with a vector end.
constexpr int64_t kNarrowBlock = 32;

// What will be read soon: fetched into the second-level cache meanwhile, a few cache lines for every kStepsPerFetch elements of depth.
// Memory that is not there does no harm.
template <class Element>
struct AheadOf {
  const Element* data;
  int64_t lines;
};
constexpr int64_t kStepsPerFetch = 16;
template <class Element>
inline constexpr int64_t kCacheLineOf = 64 / int64_t{sizeof(Element)};  // elements
constexpr int64_t kCacheLine = kCacheLineOf<float>;

// Where the sums of a strip go.
template <class Element>
struct StripOutputOf {
  Element* data;     // of the first row and column
  int64_t row;       // elements from row to row
  int64_t columns;   // that there are, some of the last vector
  bool add = false;  // to what is there
  // Of float32 alone. Done with them before they are stored, without `add`: of these columns, with what is added for the first row and
  // column if there are residuals.
  const ToroidPostOps* finish = nullptr;
  const float* residual = nullptr;
  int64_t missing_rows = 0;  // the last ones of a strip whose rows are in pairs: 1 where it has an odd number
};

// out[i, j] = (add ? out[i, j] : 0) + sum over the elements p of the runs, of which there is one at least, of rows[i][p] * b[p * width +
// j], for the columns of a panel that is `width` wide with those that pad it. b goes on from run to run.
template <class Element>
using MultiplyStripOf = void (*)(Span<const Run> runs, const Element* const* rows, const Element* b, const StripOutputOf<Element>& out,
                                 AheadOf<Element> ahead);

// The same of elements that lie at these offsets, one by one, without `add`: images of few channels.
template <class Element>
using MultiplyScatteredOf = void (*)(Span<const int64_t> offsets, const Element* const* rows, const Element* b,
                                     const StripOutputOf<Element>& out);

// The same, a pair of elements at a time, for a panel of half vectors of columns: b has both elements' numbers of a column side by side,
// and a sum is that of the first elements of all pairs plus that of the second ones. The length of a run is even. No scattered elements.
template <class Element>
using MultiplyPairedStripOf = MultiplyStripOf<Element>;

// The loops for one instruction set. Element: float, double, or uint32_t and uint64_t, whose products and sums wrap.
template <class Element>
struct GemmMicrokernelsOf {
  static constexpr int kMostRows = 6;         // with a whole panel
  static constexpr int kMostNarrowRows = 14;  // with a narrower one
  static constexpr int kMostVectors = 4;
  static constexpr int kMostHalves = 5;

  int lanes;                                                         // of a vector
  int vectors;                                                       // of a whole panel
  int most_rows[kMostVectors];                                       // of a strip, by vectors - 1
  int row_step[kMostVectors];                                        // by vectors - 1: there are functions for its multiples
  MultiplyStripOf<Element> multiply[kMostNarrowRows][kMostVectors];  // by rows - 1 and vectors - 1; null beyond most_rows
  // By rows - 1 and vectors - 1 too: of float32, in strips and panels as large images have; else null, and runs serve.
  MultiplyScatteredOf<Element> multiply_scattered[kMostNarrowRows][kMostVectors];
  // Of float32 alone, else null: of panels of so many half vectors, by halves - 1: 0 where pairs do not pay.
  int most_rows_in_pairs[kMostHalves];
  MultiplyPairedStripOf<Element> multiply_pairs[kMostNarrowRows][kMostHalves];

  int64_t panel_width() const { return int64_t{lanes} * vectors; }
  // With a panel of so many vectors; the rows are any number up to most_rows.
  void multiply_strip(int64_t vectors, Span<const Run> runs, Span<const Element* const> rows, const Element* b,
                      const StripOutputOf<Element>& out, AheadOf<Element> ahead) const {
    if (rows.size() % static_cast<size_t>(row_step[vectors - 1]) == 0)
      return multiply[rows.size() - 1][vectors - 1](runs, rows.data(), b, out, ahead);
    const Element* in_pairs[kMostNarrowRows];
    *std::copy(rows.begin(), rows.end(), in_pairs) = rows.back();
    StripOutputOf<Element> without_last = out;
    without_last.missing_rows = 1;
    multiply[rows.size()][vectors - 1](runs, in_pairs, b, without_last, ahead);
  }
};
// By VectorSet.
template <class Element>
struct MicrokernelSets {
  static const GemmMicrokernelsOf<Element>* const all[3];
};
template <>
const GemmMicrokernelsOf<float>* const MicrokernelSets<float>::all[3];
template <>
const GemmMicrokernelsOf<double>* const MicrokernelSets<double>::all[3];
template <>
const GemmMicrokernelsOf<uint32_t>* const MicrokernelSets<uint32_t>::all[3];
template <>
const GemmMicrokernelsOf<uint64_t>* const MicrokernelSets<uint64_t>::all[3];
// For this machine.
template <class Element>
inline const GemmMicrokernelsOf<Element>& gemm_microkernels_of() {
  return *MicrokernelSets<Element>::all[static_cast<size_t>(vector_set())];
}

using Ahead = AheadOf<float>;
using StripOutput = StripOutputOf<float>;
using MultiplyStrip = MultiplyStripOf<float>;
using GemmMicrokernels = GemmMicrokernelsOf<float>;
inline const GemmMicrokernels& gemm_microkernels() { return gemm_microkernels_of<float>(); }

}  // namespace toroid
