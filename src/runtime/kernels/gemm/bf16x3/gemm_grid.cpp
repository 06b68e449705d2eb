#include "runtime/kernels/gemm/bf16x3/gemm_grid.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kColumns = PackedBf16x3::kPanelColumns;
constexpr int64_t kMostSplitBytes = int64_t{16} << 20;  // of rows that are split at a time
constexpr int64_t kTilesAtOnce = 4;                     // of rows, with a panel of columns: 16 KiB of sums
constexpr int64_t kLeastStepsOfTask = 8;
constexpr int64_t kTasksPerThread = 4;

Scratch scratch_for_rows;     // of all tasks, the calling thread's
Scratch scratch_for_parts;    // sums of each part of the depth, the same
Scratch scratch_for_waiting;  // sums of a task

// ---- the estimate, in cycles of a thread

struct Product {
  int64_t threads, m, n, k;

  int64_t strips() const { return divide_up(tiles_of(m), 2); }
  int64_t panels() const { return PackedBf16x3::panels(n); }
  int64_t steps() const { return steps_of(k); }
};

// What all threads read of the weights comes from memory once, and from the last cache when another task has read it.
double cycles_of(const Product& p, const Cut& cut) {
  constexpr double kStripOfPair = 480, kEnd = 130;                            // of four tiles: a step, and the end of a block
  constexpr double kStripBytes = 2 * kPartsBytes;                             // a step of two tiles, in parts
  constexpr double kNearBytes = 4, kMemoryBytes = 6, kMemoryBytesOfAll = 27;  // a cycle
  constexpr double kBarrier = 4000;
  constexpr double kUneven = 0.35;  // of a task: threads are not equally fast
  const auto threads = static_cast<double>(p.threads), m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  const int64_t depths = std::max<int64_t>(1, cut.depths);
  const auto rounds = static_cast<double>(divide_up(cut.tasks() * depths, p.threads)) + (cut.tasks() * depths > 1 ? kUneven : 0);
  const auto strips = static_cast<double>(divide_up(p.strips(), cut.blocks));
  const double pairs = std::min(2.0 * static_cast<double>(divide_up(p.panels(), cut.groups)), std::ceil(n / (2 * kTileSide)));
  const auto steps = static_cast<double>(divide_up(p.steps(), depths));
  const double computing = rounds * strips * pairs * (steps * kStripOfPair + kEnd);
  const double weights = rounds * pairs * steps * kStripBytes, own_weights = n * k * kPartsOfFloat * 2 / threads;
  const double rows = rounds * strips * steps * (cut.depths > 0 ? kStripBytes : kStripBytes / kPartsOfFloat * 2);
  const double reading = own_weights / std::min(kMemoryBytes, kMemoryBytesOfAll / threads) +
                         (std::max(0.0, weights - own_weights) + (p.threads == 1 ? 0 : rows)) / kNearBytes;
  const double splitting = kCyclesToSplit * (cut.depths > 0 ? m * k / threads : rounds * strips * 2 * kTileSide * k);
  const double adding = depths > 1 ? static_cast<double>(depths) * m * n * 2 * sizeof(float) / threads / kNearBytes + kBarrier : 0;
  return std::max(computing, reading) + 0.2 * std::min(computing, reading) + splitting + adding + (cut.depths > 0 ? 2 : 1) * kBarrier;
}

// ---- a product

class Grid {
 public:
  Grid(const Cut& cut, int64_t m, const Matrix& a, const PackedBf16x3& b, Range panels, const ProductOutput& out)
      : cut_(cut), m_(m), a_(a), b_(b), panels_(panels), out_(out), elements_(0, b.depth), step_elements_(elements_.runs()) {
    rows_ = scratch_for_rows.get<std::byte>(tiles_of(m) * tile_bytes());
    if (cut.depths > 1) parts_ = scratch_for_parts.get(cut.depths * part_size() + kReadBeyond);
    for (int64_t step = 0; step < steps(); ++step) offsets_.push_back(step * kPartsBytes);
  }

  // Pieces of tiles: whole ones, where rows have to be copied, else some of the depth.
  bool split_rows(RuntimePool& pool) {
    const int64_t tiles = tiles_of(m_), most = a_.column == 1 ? std::max<int64_t>(1, steps() / kLeastStepsOfTask) : 1;
    const int64_t pieces = std::clamp(divide_up(2 * pool.threads(), tiles), int64_t{1}, most);
    std::atomic<bool> fit{true};
    pool.parallel_for(tiles * pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t tile = i / pieces, first = tile * kTileSide;
        const Range some = part_of(steps(), i % pieces, pieces);
        const RowBlock block(a_, first, std::min(kTileSide, m_ - first), b_.depth, a_.column != 1);
        if (!toroid::split_rows(step_elements_, some.first, some.last, block.pointers(), kPartsBytes,
                                rows_ + tile * tile_bytes() + some.first * kPartsBytes)) {
          fit.store(false, std::memory_order_relaxed);
        }
      }
    });
    return fit;
  }

  void multiply(RuntimePool& pool) const {
    pool.parallel_for(cut_.tasks() * cut_.depths, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) run_task(task);
    });
    if (cut_.depths > 1) add_parts(pool);
  }

 private:
  int64_t steps() const { return steps_of(b_.depth); }
  int64_t tile_bytes() const { return steps() * kPartsBytes; }
  // Of the result, in floats: [panel][row][column].
  int64_t panel_size() const { return tiles_of(m_) * kTileSide * kColumns; }
  int64_t part_size() const { return panels_.size() * panel_size(); }
  float* part_of_panel(int64_t depth, int64_t panel) const { return parts_ + depth * part_size() + (panel - panels_.first) * panel_size(); }

  // Tasks that follow each other have the same columns.
  void run_task(int64_t task) const {
    const int64_t group = task / (cut_.blocks * cut_.depths), depth = task / cut_.blocks % cut_.depths;
    const Range tiles = part_of(tiles_of(m_), task % cut_.blocks, cut_.blocks), some = part_of(panels_.size(), group, cut_.groups),
                panels = {panels_.first + some.first, panels_.first + some.last}, steps = part_of(this->steps(), depth, cut_.depths);
    if (panels.size() == 0 || tiles.size() == 0) return;
    for (int64_t panel = panels.first; panel < panels.last && depth == 0; ++panel) {
      if (!b_.is_in_parts(panel)) multiply_plainly(panel, tiles);
    }
    const int64_t chunks = chunks_of(steps.size(), tiles.size());
    const int64_t sums_size = tiles.size() * kTileSide * kColumns;
    const bool waits = cut_.depths == 1 && chunks > 1;
    float* const sums = cut_.depths == 1 ? scratch_for_waiting.get((waits ? panels.size() : 1) * sums_size + kReadBeyond) : nullptr;
    const TileRegisters registers;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const bool is_last = chunk + 1 == chunks;
      const Range here = chunk_of(steps, chunk, chunks), next = chunk_of(steps, is_last ? 0 : chunk + 1, chunks);
      const PartsRows left = {rows_ + tiles.first * tile_bytes() + here.first * kPartsBytes, tiles.size(), tile_bytes(), offsets_.data()};
      for (int64_t panel = panels.first; panel < panels.last; ++panel) {
        const bool ends = panel + 1 == panels.last;
        const PanelTask with = {panel, here, chunk > 0, true, ends ? panels.first : panel + 1, ends ? next.first : here.first};
        if (!b_.is_in_parts(panel)) continue;
        float* const to = cut_.depths > 1 ? part_of_panel(depth, panel) + tiles.first * kTileSide * kColumns
                          : waits         ? sums + (panel - panels.first) * sums_size
                                          : sums;
        for (int64_t tile = 0; tile < tiles.size(); tile += kTilesAtOnce) {
          const Range at_once = {tile, std::min(tile + kTilesAtOnce, tiles.size())};
          float* const first = to + tile * kTileSide * kColumns;
          multiply_panel(b_, with, left, at_once, first);
          if (cut_.depths == 1 && is_last) give(panel, {tiles.first + at_once.first, tiles.first + at_once.last}, first);
        }
      }
    }
  }

  // So much of the depth at a time that a task's rows stay in a part of the second-level cache while panels pass by.
  static int64_t chunks_of(int64_t steps, int64_t tiles) {
    constexpr int64_t kLeastSteps = 8, kMostSteps = 32;
    const int64_t most = std::clamp(l2_cache_bytes() / 4 / (tiles * kPartsBytes), kLeastSteps, kMostSteps);
    return std::max<int64_t>(1, divide_up(steps, most));
  }
  static Range chunk_of(Range steps, int64_t chunk, int64_t chunks) {
    const Range some = part_of(steps.size(), chunk, chunks);
    return {steps.first + some.first, steps.first + some.last};
  }

  // These tiles of rows of a panel, as they are at `sums`.
  void give(int64_t panel, Range tiles, const float* sums) const {
    const Range columns = {panel * kColumns, panel * kColumns + b_.columns_of(panel)};
    out_.take(sums, kColumns, {tiles.first * kTileSide, std::min(tiles.last * kTileSide, m_)}, columns);
  }

  void multiply_plainly(int64_t panel, Range tiles) const {
    const int64_t first = tiles.first * kTileSide, last = std::min(tiles.last * kTileSide, m_);
    const RowBlock block(a_, first, last - first, b_.depth, a_.column != 1);
    multiply_rows(b_, panel, panel + 1, elements_, block.pointers(), first, out_);
  }

  // The parts of the depth, in their order.
  void add_parts(RuntimePool& pool) const {
    const int64_t strips = divide_up(tiles_of(m_), kTilesAtOnce);
    pool.parallel_for(panels_.size() * strips, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t panel = panels_.first + i / strips;
        if (!b_.is_in_parts(panel)) continue;
        const Range tiles = part_of(tiles_of(m_), i % strips, strips);
        const int64_t at = tiles.first * kTileSide * kColumns, size = tiles.size() * kTileSide * kColumns;
        float* const sums = part_of_panel(0, panel) + at;
        for (int64_t depth = 1; depth < cut_.depths; ++depth) {
          const float* const others = part_of_panel(depth, panel) + at;
          for (int64_t j = 0; j < size; ++j) sums[j] += others[j];
        }
        give(panel, tiles, sums);
      }
    });
  }

  const Cut& cut_;
  const int64_t m_;
  const Matrix& a_;
  const PackedBf16x3& b_;
  const Range panels_;
  const ProductOutput& out_;
  const RowElements elements_;
  const StepElements step_elements_;
  std::byte* rows_;  // [tile][step][row][part][element]
  float* parts_ = nullptr;
  std::vector<int64_t> offsets_;  // of a tile's steps
};

}  // namespace

Cut better_of_grid_and(const Cut& own, int64_t threads, int64_t m, const PackedBf16x3& b) {
  const Product product = {threads, m, b.columns, b.depth};
  if (threads == 1 || m == 0 || b.columns == 0 || b.depth == 0 || tiles_of(m) * product.steps() * kPartsBytes > kMostSplitBytes) return own;
  Cut best = own;
  double least = cycles_of(product, own);
  auto consider = [&](const Cut& grid) {
    const double cycles = cycles_of(product, grid);
    if (cycles >= least) return;
    least = cycles;
    best = grid;
  };
  const int64_t most_tasks = kTasksPerThread * threads, most_depths = std::max<int64_t>(1, product.steps() / kLeastStepsOfTask);
  for (int64_t blocks = 1; blocks <= std::min(most_tasks, product.strips()); ++blocks) {
    for (int64_t groups = 1; groups <= std::min(most_tasks / blocks, product.panels()); ++groups) {
      int64_t depths = 0;
      for (int64_t rounds = 1; rounds <= kTasksPerThread; ++rounds) {
        const int64_t more = std::clamp(rounds * threads / (blocks * groups), int64_t{1}, most_depths);
        if (more == depths) continue;
        depths = more;
        consider({/*blocks=*/blocks, /*groups=*/groups, /*by_rows=*/false, /*depths=*/depths});
      }
    }
  }
  return best;
}

bool multiply_grid(RuntimePool& pool, const Cut& grid, int64_t m, const Matrix& a, const PackedBf16x3& b, Range panels,
                   const ProductOutput& out) {
  Grid product(grid, m, a, b, panels, out);
  if (!product.split_rows(pool)) return false;
  product.multiply(pool);
  return true;
}

}  // namespace toroid
