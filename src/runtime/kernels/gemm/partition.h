// How a product is cut into tasks: blocks of rows times groups of panels.
#pragma once

#include <cstdint>

#include "runtime/pool/pool.h"

namespace toroid {

// [first, last) of a dim.
struct Range {
  int64_t first, last;
  int64_t size() const { return last - first; }
};
// How many pieces of b it takes to cover a; neither is negative, and b is not 0.
inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
// The i-th of `parts` nearly equal parts of [0, whole).
inline Range part_of(int64_t whole, int64_t i, int64_t parts) { return {whole * i / parts, whole * (i + 1) / parts}; }

// The indices i of [0, count) for which first + i * step is in [0, size).
Range indices_inside(int64_t first, int64_t step, int64_t count, int64_t size);

// Bytes of a core's second-level cache.
int64_t l2_cache_bytes();

struct ProductSize {
  int64_t rows;  // that can be cut between: of a matrix, or of an image
  int64_t panels;
  int64_t depth;               // of a row, in elements
  int64_t most_rows;           // of a block
  double strips_per_row;       // of rows that the innermost loops take together
  int64_t strip_rows;          // so many, of the matrix
  double per_row_depth = 0;    // cycles to prepare an element of a row, in each task
  double per_panel_depth = 0;  // the same of a row of a panel
};
struct Cut {
  int64_t blocks = 1;    // of rows
  int64_t groups = 1;    // of panels
  bool by_rows = false;  // tasks that follow each other have the same rows, else the same panels; so has a thread (RuntimePool)
  int64_t depths = 0;    // parts of the depth, each with tasks of its own, once all rows are prepared; 0: a task prepares its own rows

  int64_t tasks() const { return blocks * groups; }
  int64_t block(int64_t task) const { return by_rows ? task / groups : task % blocks; }
  int64_t group(int64_t task) const { return by_rows ? task % groups : task / blocks; }
};
// The cut that is done first, by an estimate: tasks of equal size, each of which reads its panels anew, in rounds of one a thread. A thread
// with some of the rows finds them in its cache, and what is done with the result later finds that there; one with some of the panels reads
// only these. Looking at all cuts takes about as long as a small product: it is part of a plan.
Cut partition_of(int64_t threads, const ProductSize& size);

// Blocks of rows that stay in half of the second-level cache.
ProductSize size_of_matrix(int64_t rows, int64_t panels, int64_t depth, int64_t element_bytes);

// Is the right side packed part by part in each task (PackedBOf::pack), rather than all of it before? Few rows are one block, which meets a
// part of a panel in the second-level cache; more of them would have it packed for each block.
bool packs_parts(int64_t rows, int64_t depth);
// Such a product's size.
ProductSize with_packed_parts(ProductSize size);

// For what has its own blocks of rows: into so many groups of panels, so that all threads have work.
int64_t panel_groups(const RuntimePool& pool, int64_t blocks, int64_t panels);

// Calls body(rows, panels), on all threads, for parts that cover a product of so many rows and panels.
template <class Body>
void for_each_part(RuntimePool& pool, int64_t rows, int64_t panels, const Cut& cut, const Body& body) {
  pool.parallel_for(cut.tasks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      body(part_of(rows, cut.block(task), cut.blocks), part_of(panels, cut.group(task), cut.groups));
    }
  });
}

// Calls body(i) for each of `count` products of so many multiplications each, which use the pool: small ones side by side, or, when they
// are few or large, one after the other on all threads.
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
