// A block of rows is split into parts when it is needed, and stays in the second-level cache while the panels of columns pass by; few
// panels stay instead, and rows pass by (b_stationary_macrokernel.h).
#include "runtime/kernels/gemm/bf16x3/gemm.h"

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/kernels/gemm/bf16x3/b_stationary_macrokernel.h"
#include "runtime/kernels/gemm/bf16x3/gemm_grid.h"
#include "runtime/kernels/gemm/bf16x3/microkernel.h"
#include "runtime/kernels/registry/families.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

// Of the depth at a time: a block's rows and two tiles of columns then fit the second-level cache.
constexpr int64_t kPartSteps = 32;
constexpr int64_t kTilesAtOnce = 4;     // of rows, with a panel of columns: 16 KiB of sums
constexpr int64_t kMostSums = 1 << 20;  // 4 MiB, where sums wait for the next part of the depth
constexpr int64_t kStripTiles = 2, kStripRows = kStripTiles * kTileSide;

Scratch scratch_for_rows;
Scratch scratch_for_sums;
Scratch scratch_for_panel;
Scratch scratch_for_narrow_panels;

int64_t depths_of(int64_t steps) { return std::max<int64_t>(1, divide_up(steps, kPartSteps)); }

// How rows are multiplied: so many tiles of them at a time, in so many parts of the depth.
struct BlockShape {
  int64_t row_tiles, depths;
};

// Tiles of rows of which so many steps stay in some of the second-level cache.
int64_t row_tiles_of(int64_t steps, int64_t bytes) {
  constexpr int64_t kLeastTiles = 2, kMostTiles = 16;
  return std::clamp(bytes / (steps * kPartsBytes) / 2 * 2, kLeastTiles, kMostTiles);
}

// The shape for which the fewest bytes come and go beyond the second-level cache: each block reads the columns, and for each further part
// of the depth sums are fetched, read and written back, which takes longer than reading ahead. Rows take a quarter of the cache: columns
// pass through it, and results.
BlockShape block_shape(int64_t rows, int64_t depth, int64_t columns) {
  constexpr int64_t kLeastPartSteps = 16, kBytesOfSum = 2 * 3 * int64_t{sizeof(float)};
  const int64_t steps = std::max<int64_t>(1, steps_of(depth));
  BlockShape best = {};
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t depths = depths_of(steps); depths == depths_of(steps) || steps >= depths * kLeastPartSteps; ++depths) {
    const int64_t tiles = row_tiles_of(divide_up(steps, depths), l2_cache_bytes() / 4), blocks = divide_up(tiles_of(rows), tiles);
    const int64_t bytes = blocks * depth * columns * kPartsOfFloat * 2 + (depths - 1) * rows * columns * kBytesOfSum;
    if (bytes >= least) continue;
    least = bytes;
    best = {tiles, depths};
  }
  return best;
}

// A panel as it was before it was split. Until the thread's next one.
PackedB plain_panel(const PackedBf16x3& b, int64_t panel) {
  const int64_t width = b.tiles_of(panel) * kTileSide;
  const float* rows = b.panel(panel) + PackedBf16x3::kHeader;
  if (b.is_in_parts(panel)) {
    float* joined = scratch_for_panel.get(b.depth * width);
    for (int64_t tile = 0; tile < b.tiles_of(panel); ++tile) join_columns(b.tile(panel, tile), width, b.depth, joined + tile * kTileSide);
    rows = joined;
    if (gemm_microkernels().panel_width() != PackedBf16x3::kPanelColumns) {  // tiles are emulated, and panels narrower
      float* const panels = scratch_for_narrow_panels.get(PackedB::size(b.depth, b.columns_of(panel)));
      pack_panels({joined, width, 1}, b.depth, b.columns_of(panel), 0, PackedB::panels(b.columns_of(panel)), panels);
      rows = panels;
    }
  }
  return {b.depth, b.columns_of(panel), rows};
}

// Rows that several threads have, each in some of the panels.
struct SharedRows {
  Range rows = {0, 0};  // of the result; the last ones of a block, from a whole tile on
  Range panels = {0, 0};
};

// Some rows of the left side, of which some steps are in parts at a time.
class Block {
 public:
  // `rows`: whole tiles from `first_row` on, or up to the last row of all, and behind them the shared ones. `after`: the panel that is
  // multiplied next.
  Block(const PackedBf16x3& b, Range panels, int64_t after, int64_t depths, const RowElements& elements, Span<const float* const> rows,
        int64_t first_row, const ProductOutput& out, const Fetching& fetching, const SharedRows& shared)
      : b_(b),
        panels_(panels),
        after_(after),
        depths_(depths),
        row_elements_(elements),
        elements_(elements.runs()),
        rows_(rows),
        first_row_(first_row),
        out_(out),
        fetching_(fetching),
        shared_(shared),
        tiles_(tiles_of(static_cast<int64_t>(rows.size()))),
        own_tiles_(tiles_of(static_cast<int64_t>(rows.size()) - shared.rows.size())) {}

  void run() {
    const int64_t steps = elements_.steps(), depths = depths_;
    const int64_t sums_size = tiles_ * kTileSide * PackedBf16x3::kPanelColumns;
    float* sums = scratch_for_sums.get((depths == 1 ? 1 : panels_.size()) * sums_size + kReadBeyond);
    // What passes through leaves while it is in the first-level cache, unless it waits for the next part of the depth.
    const int64_t at_once = depths == 1 ? kTilesAtOnce : tiles_;
    const TileRegisters registers;
    for (int64_t depth = 0; depth < depths; ++depth) {
      steps_ = part_of(steps, depth, depths);
      const Range next = part_of(steps, std::min(depth + 1, depths - 1), depths);
      if (!split()) {
        for (int64_t panel = panels_.first; panel < panels_.last; ++panel) multiply_plain(panel);
        return;
      }
      for (int64_t panel = panels_.first; panel < panels_.last; ++panel) {
        const bool is_last = panel + 1 == panels_.last;
        const int64_t after = !is_last             ? panel + 1
                              : depth + 1 < depths ? panels_.first
                                                   : after_,
                      after_step = is_last ? next.first : steps_.first;
        const PanelTask task = {panel, steps_, depth > 0, fetching_.is_on, after, after_step};
        if (!b_.is_in_parts(panel)) {
          if (depth + 1 == depths) multiply_plain(panel);
          continue;
        }
        float* to = depths == 1 ? sums : sums + (panel - panels_.first) * sums_size;
        const int64_t count = tiles_in(panel);
        for (int64_t tile = 0; tile < count; tile += at_once) {
          const Range tiles = {tile, std::min(tile + at_once, count)};
          if (goes_directly(panel, tiles)) {
            multiply_panel(b_, task, left_, tiles,
                           out_.data + (first_row_ + tile * kTileSide) * out_.row + panel * PackedBf16x3::kPanelColumns, out_.row);
            continue;
          }
          multiply_panel(b_, task, left_, tiles, to);
          if (depth + 1 == depths) give(panel, tiles, to);
        }
      }
    }
  }

 private:
  int64_t row_count() const { return static_cast<int64_t>(rows_.size()); }
  int64_t own_rows() const { return row_count() - shared_.rows.size(); }
  int64_t tiles_in(int64_t panel) const { return shared_.panels.first <= panel && panel < shared_.panels.last ? tiles_ : own_tiles_; }

  bool split() {
    const int64_t tile_bytes = steps_.size() * kPartsBytes;
    auto* data = reinterpret_cast<std::byte*>(scratch_for_rows.get(tiles_ * tile_bytes / int64_t{sizeof(float)}));
    offsets_.clear();
    for (int64_t step = 0; step < steps_.size(); ++step) offsets_.push_back(step * kPartsBytes);
    left_ = {data, tiles_, tile_bytes, offsets_.data()};
    bool fits = true;
    for (int64_t tile = 0; tile < tiles_ && fits; ++tile) {
      const int64_t first = tile * kTileSide;
      const Span rows = rows_.subspan(static_cast<size_t>(first), static_cast<size_t>(std::min(kTileSide, row_count() - first)));
      fits = split_rows(elements_, steps_.first, steps_.last, rows, kPartsBytes, data + tile * tile_bytes);
    }
    return fits;
  }

  // Whole tiles of a result that nothing else is done with.
  bool goes_directly(int64_t panel, Range tiles) const {
    return out_.epilogue == nullptr && b_.columns_of(panel) == PackedBf16x3::kPanelColumns && tiles.last * kTileSide <= own_rows();
  }

  void give(int64_t panel, Range tiles, const float* sums) const {
    constexpr int64_t kRow = PackedBf16x3::kPanelColumns;
    const Range columns = {panel * kRow, panel * kRow + b_.columns_of(panel)};
    const Range rows = {tiles.first * kTileSide, std::min(tiles.last * kTileSide, row_count())};
    const int64_t own = std::clamp(own_rows(), rows.first, rows.last), to_shared = shared_.rows.first - own_rows();
    if (own > rows.first) out_.take(sums, kRow, {first_row_ + rows.first, first_row_ + own}, columns);
    if (rows.last > own) out_.take(sums + (own - rows.first) * kRow, kRow, {to_shared + own, to_shared + rows.last}, columns);
  }

  // Without parts, for what cannot be in them.
  void multiply_plain(int64_t panel) const {
    const int64_t column = panel * PackedBf16x3::kPanelColumns;
    const PackedB packed = plain_panel(b_, panel);
    const ProductOutput out = out_.part(0, column);
    const auto own = static_cast<size_t>(own_rows());
    multiply_rows(packed, 0, packed.panels(), row_elements_, rows_.first(own), first_row_, out);
    if (tiles_in(panel) > own_tiles_) multiply_rows(packed, 0, packed.panels(), row_elements_, rows_.subspan(own), shared_.rows.first, out);
  }

  const PackedBf16x3& b_;
  const Range panels_;
  const int64_t after_;
  const int64_t depths_;
  const RowElements& row_elements_;
  const StepElements elements_;
  const Span<const float* const> rows_;
  const int64_t first_row_;
  const ProductOutput& out_;
  const Fetching& fetching_;
  const SharedRows shared_;
  const int64_t tiles_, own_tiles_;  // of rows
  Range steps_ = {0, 0};             // that are in parts now
  PartsRows left_ = {};
  std::vector<int64_t> offsets_;
};

}  // namespace

void multiply_panel(const PackedBf16x3& b, const PanelTask& task, const PartsRows& rows, Range tiles, float* sums, int64_t row) {
  constexpr int64_t kProducts = 6, kLinesOfStep = kPartsBytes / kTileRowBytes;
  const int64_t strips = (rows.tiles + 1) / 2, columns = b.tiles_of(task.panel), from = task.steps.first * kPartsBytes;
  const int64_t lines = task.fetches ? (kLinesOfStep + strips * kProducts - 1) / (strips * kProducts) : 0;
  for (int64_t j = 0; j < columns; j += 2) {
    // Not in an array: it would be read at once from memory, behind all sums that are still being stored.
    const std::byte* const next = b.tile(task.next_panel, 0) + task.next_step * kPartsBytes;
    const std::byte* const first = j + 2 < columns ? b.tile(task.panel, j + 2) + from : next;
    const std::byte* const second = j + 3 < columns ? b.tile(task.panel, j + 3) + from : next + b.tile_bytes();
    for (int64_t i = tiles.first; i < tiles.last; i += 2) {
      const int64_t share = i / 2 * lines * kProducts * task.steps.size() * kTileRowBytes;
      float* const part = sums + (i - tiles.first) * kTileSide * row + j * kTileSide;
      multiply_tiles_of_parts({{rows.tile(i), i + 1 < tiles.last ? rows.tile(i + 1) : nullptr},
                               rows.offsets,
                               {b.tile(task.panel, j) + from, j + 1 < columns ? b.tile(task.panel, j + 1) + from : nullptr},
                               task.steps.size(),
                               part,
                               row,
                               task.add ? part : nullptr,
                               row,
                               {first + share, second + share},
                               lines});
    }
  }
}

namespace {

// Do these panels stay near while rows pass by, all of their depth?
bool stay_near(int64_t panels, int64_t depth) { return depth > 0 && panels < PassingStrips::most_panels(steps_of(depth)); }

void pass_rows(const PackedBf16x3& b, Range panels, const RowElements& elements, Span<const float* const> rows, int64_t first_row,
               const ProductOutput& out, bool fetches) {
  const Range columns = {panels.first * PackedBf16x3::kPanelColumns, std::min(panels.last * PackedBf16x3::kPanelColumns, b.columns)};
  PassingStrips strips(elements, rows, columns, 1, first_row, out);
  strips.multiply(0, b, panels.first, fetches);
  strips.finish([&](int64_t panel) { return plain_panel(b, panels.first + panel); });
}

// These rows in some of the panels: all of them, or, where sums wait for the rest of the depth, those whose sums there is room for at a
// time.
void run_block(const PackedBf16x3& b, Range panels, int64_t depths, const RowElements& elements, Span<const float* const> rows,
               int64_t first_row, const ProductOutput& out, const Fetching& fetching, const SharedRows& shared = {}) {
  constexpr size_t kLeastRows = 2 * PassingStrips::kRows;
  if (rows.size() >= kLeastRows && shared.rows.size() == 0 && stay_near(panels.size(), b.depth))
    return pass_rows(b, panels, elements, rows, first_row, out, fetching.is_on);
  const int64_t panel_sums = tiles_of(static_cast<int64_t>(rows.size())) * kTileSide * PackedBf16x3::kPanelColumns;
  const int64_t at_once = depths > 1 ? std::max<int64_t>(1, kMostSums / panel_sums) : panels.size();
  for (int64_t first = panels.first; first < panels.last; first += at_once) {
    const int64_t last = std::min(first + at_once, panels.last);
    Block(b, {first, last}, last < panels.last ? last : panels.first, depths, elements, rows, first_row, out, fetching, shared).run();
  }
}

// Each thread has as many tiles of rows, in blocks, and those that are left over in some of the panels.
void multiply_evenly(RuntimePool& pool, int64_t m, const Matrix& a, const PackedBf16x3& b, Range panels, const ProductOutput& out,
                     const Fetching& fetching) {
  const int64_t threads = pool.threads(), tiles = tiles_of(m) / threads, rows = tiles * kTileSide;
  const BlockShape shape = block_shape(rows, b.depth, panels.size() * PackedBf16x3::kPanelColumns);
  const int64_t strips = (tiles + 1) / 2, blocks = (tiles + shape.row_tiles - 1) / shape.row_tiles;
  const RowElements elements(0, b.depth);
  const Range left_over = {rows * threads, std::max(m, rows * threads)};
  const RowBlock left_over_rows(a, left_over.first, left_over.size(), b.depth, false);
  pool.parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      const Range share = part_of(panels.size(), thread, threads);
      for (int64_t block = 0; block < blocks; ++block) {
        const Range some = part_of(strips, block, blocks);
        const int64_t first = thread * rows + some.first * 2 * kTileSide,
                      last = std::min(thread * rows + std::min(some.last * 2 * kTileSide, rows), m);
        const RowBlock own(a, first, last - first, b.depth, false);
        std::vector<const float*> pointers(own.pointers().begin(), own.pointers().end());
        SharedRows shared;
        if (block + 1 == blocks) {
          pointers.insert(pointers.end(), left_over_rows.pointers().begin(), left_over_rows.pointers().end());
          shared = {left_over, {panels.first + share.first, panels.first + share.last}};
        }
        run_block(b, panels, shape.depths, elements, pointers, first, out, fetching, shared);
      }
    }
  });
}

// Each thread has as many tiles of rows, at least one.
void pass_evenly(RuntimePool& pool, int64_t m, const Matrix& a, const PackedBf16x3& b, Range panels, const ProductOutput& out) {
  const RowElements elements(0, b.depth);
  constexpr int64_t kMostTiles = 256;  // in a task: what says where rows are stays in the second-level cache
  const int64_t tiles = tiles_of(m), threads = pool.threads(), tasks = divide_up(tiles, threads * kMostTiles) * threads;
  pool.parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const Range some = part_of(tiles, task, tasks);
      const int64_t first = some.first * kTileSide, last = std::min(some.last * kTileSide, m);
      const RowBlock rows(a, first, last - first, b.depth, false);
      pass_rows(b, panels, elements, rows.pointers(), first, out, true);
    }
  });
}

// Where threads have so many rows that each reads all panels, or a block each of which some would have a tile more; not with so many tiles
// left over that splitting them for all threads costs as much.
bool pays_evenly(int64_t threads, int64_t m, int64_t panels, const Cut& cut) {
  constexpr int64_t kManyTiles = 8;
  const int64_t own = tiles_of(m) / threads, left_over = tiles_of(m) % threads;
  const bool by_rows = own >= kManyTiles || (cut.groups == 1 && cut.blocks == threads && left_over > 0);
  return by_rows && 4 * left_over <= own && panels >= threads;
}

}  // namespace

void multiply_rows(const PackedBf16x3& b, int64_t first, int64_t last, const RowElements& elements, Span<const float* const> rows,
                   int64_t first_row, const ProductOutput& out, const Fetching& fetching) {
  run_block(b, {first, last}, depths_of(steps_of(b.depth)), elements, rows, first_row, out, fetching);
}

namespace {

Cut partition_with_own_rows(int64_t threads, int64_t m, const PackedBf16x3& b) {
  return partition_of(threads, {divide_up(m, kStripRows), b.panels(), b.depth, most_row_tiles(b.depth) / kStripTiles, kStripTiles,
                                kTileSide, kCyclesToSplit});
}

// Have the threads so many rows each that they share no columns?
bool passes_evenly(int64_t threads, int64_t m, int64_t panels, int64_t depth) {
  constexpr int64_t kManyTiles = 8;  // of each thread
  return stay_near(panels, depth) && tiles_of(m) >= kManyTiles * threads;
}

}  // namespace

Cut partition_of(int64_t threads, int64_t m, const PackedBf16x3& b) {
  const Cut own = partition_with_own_rows(threads, m, b);
  const bool by_rows = passes_evenly(threads, m, b.panels(), b.depth) || pays_evenly(threads, m, b.panels(), own);
  return by_rows ? own : better_of_grid_and(own, threads, m, b);
}

void multiply(RuntimePool& pool, const Cut& cut, int64_t m, const Matrix& a, const PackedBf16x3& b, Range all_panels,
              const ProductOutput& out) {
  if (cut.depths > 0) {
    if (multiply_grid(pool, cut, m, a, b, all_panels, out)) return;
    return multiply(pool, partition_with_own_rows(pool.threads(), m, b), m, a, b, all_panels, out);
  }
  const RowElements elements(0, b.depth);
  if (a.column == 1 && passes_evenly(pool.threads(), m, all_panels.size(), b.depth)) return pass_evenly(pool, m, a, b, all_panels, out);
  const int64_t strips = divide_up(m, kStripRows), threads = pool.threads();
  const int64_t group_bytes =
      all_panels.size() / cut.groups * PackedBf16x3::panel_size(b.depth, PackedBf16x3::kPanelTiles) * int64_t{sizeof(float)};
  const Fetching fetching = {pays_to_fetch(group_bytes, cut.blocks)};
  if (a.column == 1 && pays_evenly(threads, m, all_panels.size(), cut)) return multiply_evenly(pool, m, a, b, all_panels, out, fetching);
  for_each_part(pool, strips, all_panels.size(), cut, [&](Range some, Range panels) {
    const int64_t first_row = some.first * kStripRows, rows = std::min(m, some.last * kStripRows) - first_row;
    const RowBlock block(a, first_row, rows, b.depth, a.column != 1);
    run_block(b, {all_panels.first + panels.first, all_panels.first + panels.last}, depths_of(steps_of(b.depth)), elements,
              block.pointers(), first_row, out, fetching);
  });
}

int64_t most_row_tiles(int64_t depth) { return row_tiles_of(std::clamp<int64_t>(steps_of(depth), 1, kPartSteps), l2_cache_bytes() / 2); }

double slowdown_of_parts(int64_t threads) {
  constexpr double kPerDoubling = 2.0 / 3;
  return 1 + kPerDoubling * std::max(0.0, std::log2(static_cast<double>(threads) / 2));
}

double time_as_bf16x3(const GemmShape& p, double cycles_to_split) {
  // Cycles of a thread.
  constexpr double kTileProduct = 20, kTileEnd = 55, kPack = 1.0,
                   kVectorProduct = 1.0 / 30;       // a tile's end: more than that of its sums in vectors
  constexpr double kNearBytes = 16, kFarBytes = 5;  // a cycle, from the second-level cache and from beyond it
  // Of the shorter of multiplying and reading from far. Vectors wait for it, tiles are loaded ahead.
  constexpr double kHiddenByTiles = 0.6, kHiddenByVectors = 0;
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const auto tiles = static_cast<double>(tiles_of(p.m) * tiles_of(p.n) * steps_of(p.k));
  const auto results = static_cast<double>(tiles_of(p.m) * tiles_of(p.n));
  const bool is_far = n * k * sizeof(float) > static_cast<double>(l2_cache_bytes());
  const double bytes_per_cycle = is_far ? kFarBytes : kNearBytes;
  const auto both = [&](double computing, double reading, double hidden) {
    return overlapped_s(computing, reading, p.has_packed_right && is_far ? hidden : 1);  // cycles, which add up as seconds do
  };
  const double packing = p.has_packed_right ? 0 : n * k * kPack;
  const double in_parts =
      both(6 * kTileProduct * tiles + kTileEnd * results + cycles_to_split * m * k, n * k * 6 / bytes_per_cycle, kHiddenByTiles) + packing;
  const double strips = std::ceil(m / GemmMicrokernels::kMostRows) * GemmMicrokernels::kMostRows;
  const double in_vectors =
      both(strips * static_cast<double>(tiles_of(p.n) * kTileSide) * k * kVectorProduct, n * k * 4 / bytes_per_cycle, kHiddenByVectors) +
      packing / 2;
  return slowdown_of_parts(p.threads) * in_parts / in_vectors;
}

bool pays_as_bf16x3(const GemmShape& product, double cycles_to_split) {
  return has_amx_bf16x3() && time_as_bf16x3(product, cycles_to_split) < 1;
}

}  // namespace toroid
