// Products of rows, wherever they lie, with a packed matrix: what matrix products and convolutions share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cut.h"
#include "runtime/packed_matrix.h"
#include "runtime/pool.h"
#include "toroid/program_abi.h"

namespace toroid {

// Where a product goes: to memory, or block by block to what else is to be done with it (ToroidEpilogue), or both ways for what has no epilogue.
struct ProductOutput {
  float* data;                        // row-major and contiguous along columns; null with an epilogue
  int64_t row;                        // stride, in elements
  const ToroidEpilogue* epilogue;     // null: none
};

// The epilogue of a product that is a part of a larger one, which begins in this row and column of it.
class EpiloguePart {
 public:
  EpiloguePart(const ToroidEpilogue* whole, int64_t first_row, int64_t first_column);
  EpiloguePart(const EpiloguePart&) = delete;
  EpiloguePart& operator=(const EpiloguePart&) = delete;

  const ToroidEpilogue* get() const { return whole_ != nullptr ? &part_ : nullptr; }

 private:
  static void run(void* argument, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
                  int64_t last_column);

  const ToroidEpilogue* whole_;
  int64_t first_row_, first_column_;
  ToroidEpilogue part_;
};

// Runs no longer than what the loops take at a time, in the same order: put before multiply_rows.
void add_runs(std::vector<Run>& runs, int64_t offset, int64_t length);

// Are panels fetched into the second-level cache while those before them are multiplied?
struct Fetching {
  bool is_on = false;
  const float* after_last = nullptr;   // what is read after the last panel; null: it is not known
};
// Whether that pays for so many bytes of panels, which a thread goes through so many times: not if they stay in the cache.
bool pays_to_fetch(int64_t bytes, int64_t times);

// The rows [first_row, first_row + rows.size()) of a product, in its columns of the panels [first, last): row i is what `runs` say of rows[i],
// times b. Takes one thread.
void multiply_rows(const PackedMatrix& b, int64_t first, int64_t last, std::span<const Run> runs, std::span<const float* const> rows,
                   int64_t first_row, const ProductOutput& out, const Fetching& fetching = {});

// The columns of the panels [first_panel, last_panel) of the product of `a`, m rows of b.depth elements, with b.
void multiply(RuntimePool& pool, int64_t m, const Matrix& a, const PackedMatrix& b, int64_t first_panel, int64_t last_panel,
              const ProductOutput& out);

}  // namespace toroid
