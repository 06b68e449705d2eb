#include "runtime/kernels/gemm/partition.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "runtime/kernels/gemm/microkernel.h"

namespace toroid {
namespace {

constexpr int64_t kTasksPerThread = 4;

// In cycles of one thread.
double estimated_time(int64_t threads, const ProductSize& size, const Cut& cut) {
  constexpr double kStripPerDepth = 12;  // multiplications of a strip with a panel, in vectors or tiles
  constexpr double kPanelPerDepth = 16;  // reading the panel, so far as that is not hidden
  constexpr double kPerTask = 2000;
  constexpr double kStart = 3000;        // of other threads
  constexpr double kUneven = 0.1;        // of a task: threads are not equally fast
  constexpr double kPerMovedByte = 0.2;  // from the cache of one core to that of another
  const auto depth = static_cast<double>(size.depth);
  const double strips = std::ceil(static_cast<double>(divide_up(size.rows, cut.blocks)) * size.strips_per_row);
  const double task =
      static_cast<double>(divide_up(size.panels, cut.groups)) * depth * (strips * kStripPerDepth + kPanelPerDepth + size.per_panel_depth) +
      kPerTask + strips * static_cast<double>(size.strip_rows) * depth * size.per_row_depth;
  double between_threads = cut.tasks() > 1 ? kStart : 0;
  if (!cut.by_rows) {
    const double rows = static_cast<double>(size.rows) * size.strips_per_row * static_cast<double>(size.strip_rows);
    const double columns = static_cast<double>(size.panels * gemm_microkernels().panel_width());
    const double others = static_cast<double>(threads - 1) / static_cast<double>(threads);
    between_threads += kPerMovedByte * sizeof(float) * rows * others * (depth + columns / static_cast<double>(threads));
  }
  return (static_cast<double>(divide_up(cut.tasks(), threads)) + kUneven) * task + between_threads;
}

}  // namespace

Range indices_inside(int64_t first, int64_t step, int64_t count, int64_t size) {
  const int64_t from = first >= 0 ? 0 : std::min(count, divide_up(-first, step));
  const int64_t to = first >= size ? 0 : divide_up(size - first, step);
  return {from, std::clamp(to, from, count)};
}

int64_t l2_cache_bytes() {
  static const int64_t bytes = [] {
    constexpr int64_t kLeast = 512 << 10;
    return std::max<int64_t>(kLeast, sysconf(_SC_LEVEL2_CACHE_SIZE));
  }();
  return bytes;
}

Cut partition_of(int64_t threads, const ProductSize& size) {
  const int64_t least_blocks = std::max<int64_t>(1, divide_up(size.rows, std::max<int64_t>(1, size.most_rows)));
  if (threads == 1 || size.rows == 0 || size.panels == 0) return {least_blocks, 1, true};
  Cut best;
  double least = INFINITY;
  auto consider = [&](const Cut& cut) {
    const double time = estimated_time(threads, size, cut);
    if (time >= least) return;
    least = time;
    best = cut;
  };
  for (int64_t groups = 1; groups <= std::min(size.panels, kTasksPerThread * threads); ++groups) {
    // As few blocks as there must be, or more that give each thread as many tasks.
    for (int64_t rounds = 0; rounds <= kTasksPerThread; ++rounds) {
      const int64_t blocks = std::min(std::max(least_blocks, divide_up(rounds * threads, groups)), size.rows);
      consider({blocks, groups, false});
      // Each thread with whole blocks of its own.
      if (rounds > 0 && groups <= kTasksPerThread && size.rows >= threads) {
        consider({std::min(divide_up(std::max(least_blocks, rounds * threads), threads) * threads, size.rows), groups, true});
      }
    }
  }
  return best;
}

int64_t panel_groups(const RuntimePool& pool, int64_t blocks, int64_t panels) {
  if (pool.threads() == 1) return 1;
  return std::clamp<int64_t>(divide_up(kTasksPerThread * pool.threads(), blocks), 1, panels);
}

ProductSize size_of_matrix(int64_t rows, int64_t panels, int64_t depth, int64_t element_bytes) {
  constexpr int64_t kLeastRows = 48, kMostRows = 256;
  const int64_t most_rows = std::clamp(l2_cache_bytes() / 2 / std::max<int64_t>(1, depth * element_bytes), kLeastRows, kMostRows);
  return {rows, panels, depth, most_rows, 1.0 / GemmMicrokernels::kMostRows, GemmMicrokernels::kMostRows};
}

bool packs_parts(int64_t rows, int64_t depth) {
  constexpr int64_t kMostElements = int64_t{1} << 20, kAnyDepth = 48, kMostRows = 256;
  return rows <= std::clamp(kMostElements / std::max<int64_t>(1, depth), kAnyDepth, kMostRows);
}

ProductSize with_packed_parts(ProductSize size) {
  constexpr double kPackPerDepth = 30;
  size.most_rows = size.rows;
  size.per_panel_depth = kPackPerDepth;
  return size;
}

}  // namespace toroid
