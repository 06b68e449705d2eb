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

// How a product of `blocks` blocks of rows is cut further, so that all threads have work: into so many groups of panels.
int64_t panel_groups(const RuntimePool& pool, int64_t blocks, int64_t panels);

struct Cut {
  int64_t blocks;   // of rows
  int64_t groups;   // of panels
};
// So that a block's rows, row_bytes each, stay in the second-level cache and all threads have work.
Cut cut_of(const RuntimePool& pool, int64_t rows, int64_t panels, int64_t row_bytes);

// Calls body(rows, panels), on all threads, for parts that cover a product of so many rows and panels. Parts that follow each other share panels.
template <class Body>
void for_each_part(RuntimePool& pool, int64_t rows, int64_t panels, const Cut& cut, const Body& body) {
  pool.parallel_for(cut.blocks * cut.groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task % cut.blocks, group = task / cut.blocks;
      body(Range{rows * block / cut.blocks, rows * (block + 1) / cut.blocks},
           Range{panels * group / cut.groups, panels * (group + 1) / cut.groups});
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
