#include "runtime/kernels/gemm/bf16x3/gemm_dynamic_b.h"

#include <algorithm>
#include <limits>

#include "runtime/kernels/gemm/bf16x3/b_stationary_macrokernel.h"
#include "runtime/kernels/gemm/bf16x3/packed_b.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kMostSteps = 16;   // of the depth at a time
constexpr int64_t kMostRows = 4096;  // at a time, where sums wait for the next part of the depth

Scratch scratch_for_panels;
Scratch scratch_for_turned;
Scratch scratch_for_plain;

struct Sides {
  Matrix a;  // whose rows lie together
  Matrix b;
  int64_t n, k;
};

int64_t most_panels(int64_t steps) { return std::max<int64_t>(1, PassingStrips::most_panels(steps)); }

// Some rows and columns, the latter few enough to stay in the cache.
void multiply_block(const Sides& sides, Range rows, Range columns, const ProductOutput& out) {
  const int64_t depths = divide_up(steps_of(sides.k), kMostSteps);
  const RowElements elements(0, sides.k);
  const RowBlock block(sides.a, rows.first, rows.size(), sides.k, false);
  PassingStrips strips(elements, block.pointers(), columns, depths, rows.first, out);
  auto columns_from = [&](int64_t row, int64_t column) { return Matrix{sides.b.at(row, column), sides.b.row, sides.b.column}; };
  float* const packed = scratch_for_panels.get(PackedBf16x3::size(divide_up(steps_of(sides.k), depths) * kStepElements, columns.size()));
  for (int64_t depth = 0; depth < depths; ++depth) {
    const Range steps = strips.steps_of_part(depth);
    const int64_t first = steps.first * kStepElements;
    const PackedBf16x3 right = {std::min(steps.last * kStepElements, sides.k) - first, columns.size(), packed};
    pack_bf16x3(columns_from(first, columns.first), right.depth, right.columns, 0, right.panels(), packed);
    strips.multiply(depth, right, 0);
  }
  strips.finish([&](int64_t panel) {
    const int64_t first = columns.first + panel * PackedBf16x3::kPanelColumns,
                  count = std::min(PackedBf16x3::kPanelColumns, columns.last - first);
    float* const plain = scratch_for_plain.get(PackedB::size(sides.k, count));
    pack_panels(columns_from(0, first), sides.k, count, 0, PackedB::panels(count), plain);
    return PackedB{sides.k, count, plain};
  });
}

// Into how many parts rows and columns are cut, so that each thread has one.
struct Grid {
  int64_t rows, columns;
};
Grid grid_of(int64_t threads, int64_t strips, int64_t columns, int64_t steps) {
  // By an estimate, of a strip's multiplications with two tiles of columns: what it takes to pack these, and to split a strip beside.
  constexpr double kPack = 3, kSplit = 0.8;
  const int64_t panels = PackedBf16x3::panels(columns), pairs = divide_up(columns, 2 * kTileSide);
  Grid best = {1, 1};
  double least = std::numeric_limits<double>::max();
  for (int64_t rows = 1; rows <= std::min(threads, strips); ++rows) {
    const int64_t groups = std::min(panels, threads / rows), some_panels = divide_up(panels, groups);
    const auto some_strips = static_cast<double>(divide_up(strips, rows));
    const auto some_pairs = static_cast<double>(std::min(PackedBf16x3::kPanelTiles / 2 * some_panels, pairs));
    const auto blocks = static_cast<double>(divide_up(some_panels, most_panels(std::min(steps, kMostSteps))));
    const double time = some_strips * some_pairs + some_pairs * kPack + some_strips * blocks * kSplit;
    if (time >= least) continue;
    least = time;
    best = {rows, groups};
  }
  return best;
}

// The rows [first, last) of the product.
void multiply_rows_in_parts(RuntimePool& pool, const Sides& sides, Range all_rows, const ProductOutput& out) {
  const int64_t strips = divide_up(all_rows.size(), PassingStrips::kRows), panels = PackedBf16x3::panels(sides.n),
                steps = steps_of(sides.k);
  const Grid grid = grid_of(pool.threads_from_here(), strips, sides.n, steps);
  pool.parallel_for(grid.rows * grid.columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const Range some_strips = part_of(strips, task % grid.rows, grid.rows), some_panels = part_of(panels, task / grid.rows, grid.columns);
      const int64_t depths = divide_up(steps, kMostSteps), blocks = divide_up(some_panels.size(), most_panels(divide_up(steps, depths)));
      const int64_t row_blocks = depths == 1 ? 1 : divide_up(some_strips.size(), kMostRows / PassingStrips::kRows);
      for (int64_t i = 0; i < blocks * row_blocks; ++i) {
        const Range rows = part_of(some_strips.size(), i % row_blocks, row_blocks),
                    columns = part_of(some_panels.size(), i / row_blocks, blocks);
        const int64_t first = all_rows.first + some_strips.first * PassingStrips::kRows;
        multiply_block(sides,
                       {first + rows.first * PassingStrips::kRows, std::min(first + rows.last * PassingStrips::kRows, all_rows.last)},
                       {(some_panels.first + columns.first) * PackedBf16x3::kPanelColumns,
                        std::min((some_panels.first + columns.last) * PackedBf16x3::kPanelColumns, sides.n)},
                       out);
      }
    }
  });
}

}  // namespace

void multiply_as_bf16x3(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const ProductOutput& out) {
  if (a.column == 1) return multiply_rows_in_parts(pool, {a, b, n, k}, {0, m}, out);
  // Rows are turned before, some at a time.
  constexpr int64_t kMostTurned = int64_t{8} << 20, kAtOnce = 64;
  const int64_t row = padded_stride(k), times = std::min(m, divide_up(m * row, kMostTurned));
  for (int64_t i = 0; i < times; ++i) {
    const Range rows = part_of(m, i, times);
    float* const turned = scratch_for_turned.get(divide_up(m, times) * row);
    pool.parallel_for(divide_up(rows.size(), kAtOnce), 1, [&](int64_t begin, int64_t end) {
      copy_rows(a, {rows.first + begin * kAtOnce, std::min(rows.first + end * kAtOnce, rows.last)}, {0, k}, turned + begin * kAtOnce * row,
                row);
    });
    multiply_rows_in_parts(pool, {{turned - rows.first * row, row, 1}, b, n, k}, rows, out);
  }
}

}  // namespace toroid
