// The innermost loops of products: a strip of a few rows and one panel of columns, whose sums live in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/isa/vector_sets.h"
#include "toroid/program_abi.h"

namespace toroid {

// Elements of a row of the left matrix that follow each other: from `offset` behind the row's pointer.
struct Run {
  int64_t offset, length;
};
// A long sum is a sum of sums of so many products, which errs less than one after the other (Blanchard, Higham and Mary, "A Class of Fast and
// Accurate Summation Algorithms", 2020). No run is longer.
constexpr int64_t kLongestRun = 256;

// What will be read soon: fetched into the second-level cache meanwhile, a few cache lines for every kStepsPerFetch elements of depth. Memory
// that is not there does no harm.
struct Ahead {
  const float* data;
  int64_t lines;
};
constexpr int64_t kStepsPerFetch = 16;
constexpr int64_t kCacheLine = 16;  // floats

// Where the sums of a strip go.
struct StripOutput {
  float* data;       // of the first row and column
  int64_t row;       // elements from row to row
  int64_t columns;   // that there are, some of the last vector
  bool add = false;  // to what is there
  // Done with them before they are stored, without `add`: of these columns, with what is added for the first row and column if there are residuals.
  const ToroidPostOps* finish = nullptr;
  const float* residual = nullptr;
};

// out[i, j] = (add ? out[i, j] : 0) + sum over the runs' elements p, in order, of rows[i][p] * b[p * width + j], for the columns of a panel that
// is `width` wide with those that pad it. b goes on from run to run.
using MultiplyStrip = void (*)(const Run* runs, int64_t count, const float* const* rows, const float* b, const StripOutput& out,
                               Ahead ahead);

// The same, a pair of elements at a time, for a panel of half vectors of columns: b has both elements' numbers of a column side by side, and a sum is that
// of the first elements of all pairs plus that of the second ones. The length of a run is even.
using MultiplyPairedStrip = MultiplyStrip;

// The same with an offset for each element, without adding to what is there: for elements that lie scattered.
using MultiplyScattered = void (*)(const int64_t* offsets, int64_t count, const float* const* rows, const float* b, const StripOutput& out);

// The loops for one instruction set.
struct GemmMicrokernels {
  static constexpr int kMostRows = 6;         // with a whole panel
  static constexpr int kMostNarrowRows = 14;  // with a narrower one
  static constexpr int kMostVectors = 4;
  static constexpr int kMostHalves = 5;

  int lanes;                                              // of a vector
  int vectors;                                            // of a whole panel
  int most_rows[kMostVectors];                            // of a strip, by vectors - 1
  MultiplyStrip multiply[kMostNarrowRows][kMostVectors];  // by rows - 1 and vectors - 1; null beyond most_rows
  MultiplyScattered multiply_scattered[kMostNarrowRows][kMostVectors];
  // Of panels of so many half vectors, by halves - 1: 0 where pairs do not pay.
  int most_rows_in_pairs[kMostHalves];
  MultiplyPairedStrip multiply_pairs[kMostNarrowRows][kMostHalves];

  int64_t panel_width() const { return int64_t{lanes} * vectors; }
};
extern const GemmMicrokernels* const kStripKernels[3];  // by VectorSet
// For this machine.
inline const GemmMicrokernels& gemm_microkernels() { return *kStripKernels[static_cast<size_t>(vector_set())]; }

}  // namespace toroid
