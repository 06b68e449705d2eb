// Products of rows, wherever they lie, with a packed matrix: what matrix products and convolutions share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

// Runs no longer than what the loops take at a time, in the same order: put before multiply_rows.
void add_runs(std::vector<Run>& runs, int64_t offset, int64_t length);

// The rows [first_row, first_row + rows.size()) of a product, in its columns of the panels [first, last): row i is what `runs` say of rows[i],
// times b. Takes one thread.
void multiply_rows(const PackedMatrix& b, int64_t first, int64_t last, std::span<const Run> runs, std::span<const float* const> rows,
                   int64_t first_row, const ProductOutput& out);

// The columns of the panels [first_panel, last_panel) of the product of `a`, m rows of b.depth elements, with b.
void multiply(RuntimePool& pool, int64_t m, const Matrix& a, const PackedMatrix& b, int64_t first_panel, int64_t last_panel,
              const ProductOutput& out);

// How a product of `blocks` blocks of rows is cut further, so that all threads have work: into so many groups of panels.
int64_t panel_groups(const RuntimePool& pool, int64_t blocks, int64_t panels);

}  // namespace toroid
