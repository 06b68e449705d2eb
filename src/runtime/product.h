// Products of rows, wherever they lie, with a packed matrix, and how they are cut into tasks: what matrix products and convolutions share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/packed_matrix.h"
#include "runtime/pool.h"
#include "toroid/program_abi.h"

namespace toroid {

// [first, last) of a dim.
struct Range {
  int64_t first, last;
  int64_t size() const { return last - first; }
};

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

// The rows [first_row, first_row + rows.size()) of a product, in its columns of the panels [first, last): row i is what `runs` say of rows[i],
// times b. Takes one thread.
void multiply_rows(const PackedMatrix& b, int64_t first, int64_t last, std::span<const Run> runs, std::span<const float* const> rows,
                   int64_t first_row, const ProductOutput& out);

// The columns of the panels [first_panel, last_panel) of the product of `a`, m rows of b.depth elements, with b.
void multiply(RuntimePool& pool, int64_t m, const Matrix& a, const PackedMatrix& b, int64_t first_panel, int64_t last_panel,
              const ProductOutput& out);

// How a product of `blocks` blocks of rows is cut further, so that all threads have work: into so many groups of panels.
int64_t panel_groups(const RuntimePool& pool, int64_t blocks, int64_t panels);

// Calls body(rows, panels), on all threads, for parts that cover a product of so many rows and panels. Parts that follow each other share panels.
template <class Body>
void for_each_part(RuntimePool& pool, int64_t rows, int64_t panels, const Body& body) {
  constexpr int64_t kRowBlock = 96;
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
  const int64_t groups = panel_groups(pool, blocks, panels);
  pool.parallel_for(blocks * groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task % blocks, group = task / blocks;
      body(Range{rows * block / blocks, rows * (block + 1) / blocks}, Range{panels * group / groups, panels * (group + 1) / groups});
    }
  });
}

// Calls body(i) for each of `count` products of so many multiplications each, which use the pool: small ones side by side, or, when they are
// few or large, one after the other on all threads.
template <class Body>
void for_each_product(RuntimePool& pool, int64_t count, int64_t multiplications, const Body& body) {
  constexpr int64_t kLarge = int64_t{1} << 24;
  auto some = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  };
  if (count >= pool.threads() && multiplications < kLarge) {
    pool.parallel_for(count, 1, some);
  } else {
    some(0, count);
  }
}

}  // namespace toroid
