#include "runtime/unpacked_product.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "runtime/parts_matrix.h"
#include "runtime/parts_strip.h"
#include "runtime/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kStripTiles = 2, kStripRows = kStripTiles * kTileSide;
constexpr int64_t kPanelColumns = PartsMatrix::kPanelColumns;
constexpr int64_t kMostSteps = 16;      // of the depth at a time
constexpr int64_t kMostRows = 4096;     // at a time, where sums wait for the next part of the depth

thread_local Scratch scratch;
thread_local Scratch scratch_for_turned;
thread_local Scratch scratch_for_plain;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Panels that stay in a part of the second-level cache with so many steps; rows and results pass through the rest.
int64_t most_panels(int64_t steps) {
  return std::max<int64_t>(1, second_level_bytes() / 8 * 3 / (steps * PartsMatrix::kPanelTiles * kPartsBytes));
}

struct Sides {
  const Matrix a;   // whose rows lie together
  const Matrix b;
  int64_t n, k;
};

// Strips of the left side's rows, split one after the other.
class LeftStrips {
 public:
  // `data`: size(most_steps) floats.
  LeftStrips(const Matrix& a, int64_t most_steps, float* data) : a_(a), strip_bytes_(kStripTiles * most_steps * kPartsBytes), data_(reinterpret_cast<std::byte*>(data)) {}
  static int64_t size(int64_t most_steps) { return 2 * kStripTiles * most_steps * kPartsBytes / int64_t{sizeof(float)}; }

  // The next one: so many rows in so many elements of the depth. The one before stays, the one before that goes.
  void begin(Range rows, Range depth) {
    is_second_ = !is_second_;
    rows_ = RowsToSplit(a_.at(rows.first, depth.first), a_.row, rows.size(), depth.size(), strip());
  }
  // What is to be split of the last one begun, until it is finished.
  RowsToSplit& rows() { return rows_; }
  std::byte* strip() const { return data_ + (is_second_ ? strip_bytes_ : 0); }

 private:
  const Matrix& a_;
  const int64_t strip_bytes_;
  std::byte* const data_;
  bool is_second_ = false;
  RowsToSplit rows_;
};

// Some rows and columns, the latter few enough to stay in the cache.
class Block {
 public:
  Block(const Sides& sides, Range rows, Range panels, const ProductOutput& out)
      : sides_(sides), out_(out), rows_(rows), panels_(panels), column_(panels.first * kPanelColumns),
        columns_(std::min(panels.size() * kPanelColumns, sides.n - column_)),
        depths_(divide_up(steps_of(sides.k), kMostSteps)),
        strips_(divide_up(rows.size(), kStripRows)),
        finished_row_(odd_lines(panels.size() * kPanelColumns)),
        most_steps_(divide_up(steps_of(sides.k), depths_)),
        packed_(scratch.get(packed_size() + LeftStrips::size(most_steps_) + waiting_size() + kStripRows * finished_row_ + kReadBeyond)),
        waiting_(packed_ + packed_size() + LeftStrips::size(most_steps_)),
        finished_(waiting_ + waiting_size()),
        left_(sides.a, most_steps_, packed_ + packed_size()),
        is_plain_strip_(static_cast<size_t>(strips_)), is_plain_panel_(static_cast<size_t>(panels.size())) {
    for (int64_t step = 0; step < kMostSteps; ++step) offsets_[step] = step * kPartsBytes;
  }

  void run() {
    const TileRegisters registers;
    left_.begin(rows_of(0), depth_of(0));
    for (int64_t depth = 0; depth < depths_; ++depth) {
      const Range elements = depth_of(depth);
      pack_parts({sides_.b.at(elements.first, column_), sides_.b.row, sides_.b.column}, elements.size(), columns_, 0, panels_.size(), packed_);
      const PartsMatrix right = {elements.size(), columns_, packed_};
      for (int64_t panel = 0; panel < panels_.size(); ++panel) is_plain_panel_[at(panel)] = is_plain_panel_[at(panel)] || !right.is_in_parts(panel);
      for (int64_t strip = 0; strip < strips_; ++strip) {
        is_plain_strip_[at(strip)] = !left_.rows().finish() || is_plain_strip_[at(strip)];
        const std::byte* const rows = left_.strip();
        if (strip + 1 < strips_) {
          left_.begin(rows_of(strip + 1), elements);
        } else if (depth + 1 < depths_) {
          left_.begin(rows_of(0), depth_of(depth + 1));
        }
        if (is_plain_strip_[at(strip)]) continue;
        multiply_strip(right, depth, strip, rows);
        if (depth + 1 == depths_) give(strip);
      }
    }
    multiply_plain();
  }

 private:
  int64_t packed_size() const { return PartsMatrix::size(most_steps_ * kStepElements, columns_); }
  int64_t pairs() const { return divide_up(tiles_of(columns_), 2); }
  int64_t waiting_size() const { return depths_ == 1 ? 0 : strips_ * pairs() * kStripRows * kStripRows; }
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  Range rows_of(int64_t strip) const { return {rows_.first + strip * kStripRows, std::min(rows_.first + (strip + 1) * kStripRows, rows_.last)}; }
  // Elements of the depth.
  Range depth_of(int64_t depth) const {
    const Range steps = part_of(steps_of(sides_.k), depth, depths_);
    return {steps.first * kStepElements, std::min(steps.last * kStepElements, sides_.k)};
  }
  Range columns_of(Range panels) const { return {column_ + panels.first * kPanelColumns, column_ + std::min(panels.last * kPanelColumns, columns_)}; }
  // Whole tiles of a result that nothing else is done with.
  bool goes_directly(int64_t strip, int64_t panel) const {
    return out_.epilogue == nullptr && rows_of(strip).size() == kStripRows && columns_of({panel, panel + 1}).size() == kPanelColumns;
  }

  struct Sums {
    float* data;
    int64_t row;
  };

  void multiply_strip(const PartsMatrix& right, int64_t depth, int64_t strip, const std::byte* rows) {
    const int64_t steps = steps_of(right.depth), tiles = tiles_of(columns_);
    const std::byte* const lower = rows_of(strip).size() > kTileSide ? rows + steps * kPartsBytes : nullptr;
    const int64_t pieces = divide_up(left_.rows().left(), pairs() * steps);
    for (int64_t pair = 0; pair < pairs(); ++pair) {
      const int64_t tile = 2 * pair, panel = tile / PartsMatrix::kPanelTiles, tile_of_panel = tile % PartsMatrix::kPanelTiles;
      if (is_plain_panel_[at(panel)]) continue;
      float* const waiting = waiting_ + (strip * pairs() + pair) * kStripRows * kStripRows;
      const Sums sums = depth + 1 < depths_           ? Sums{waiting, kStripRows}
                        : goes_directly(strip, panel) ? Sums{out_.data + rows_of(strip).first * out_.row + column_ + tile * kTileSide, out_.row}
                                                      : Sums{finished_ + tile * kTileSide, finished_row_};
      multiply_tiles_of_parts({{rows, lower},
                               offsets_,
                               {right.tile(panel, tile_of_panel), tile + 1 < tiles ? right.tile(panel, tile_of_panel + 1) : nullptr},
                               steps,
                               sums.data,
                               sums.row,
                               depth > 0 ? waiting : nullptr,
                               kStripRows,
                               {},
                               0,
                               &left_.rows(),
                               pieces});
    }
  }

  // What is finished of a strip and not where it belongs, in as few pieces as can be.
  void give(int64_t strip) const {
    auto is_given = [&](int64_t panel) { return !is_plain_panel_[at(panel)] && !goes_directly(strip, panel); };
    for (int64_t panel = 0; panel < panels_.size(); ++panel) {
      if (!is_given(panel)) continue;
      const int64_t first = panel;
      while (panel + 1 < panels_.size() && is_given(panel + 1)) ++panel;
      out_.take(finished_ + first * kPanelColumns, finished_row_, rows_of(strip), columns_of({first, panel + 1}));
    }
  }

  // What cannot be in parts.
  void multiply_plain() const {
    const RowElements elements(0, sides_.k);
    for (int64_t panel = 0; panel < panels_.size(); ++panel) {
      const bool is_plain = is_plain_panel_[at(panel)];
      if (!is_plain && std::find(is_plain_strip_.begin(), is_plain_strip_.end(), true) == is_plain_strip_.end()) continue;
      const Range columns = columns_of({panel, panel + 1});
      float* const rows_of_panel = scratch_for_plain.get(PackedMatrix::size(sides_.k, columns.size()));
      pack_panels({sides_.b.at(0, columns.first), sides_.b.row, sides_.b.column}, sides_.k, columns.size(), 0, PackedMatrix::panels(columns.size()), rows_of_panel);
      const PackedMatrix packed = {sides_.k, columns.size(), rows_of_panel};
      const EpiloguePart epilogue(out_.epilogue, 0, columns.first);
      const ProductOutput out = {out_.epilogue != nullptr ? nullptr : out_.data + columns.first, out_.row, epilogue.get()};
      for (int64_t strip = 0; strip < strips_; ++strip) {
        if (!is_plain && !is_plain_strip_[at(strip)]) continue;
        const Range rows = rows_of(strip);
        const RowBlock block(sides_.a, rows.first, rows.size(), sides_.k, false);
        multiply_rows(packed, 0, packed.panels(), elements, block.pointers(), rows.first, out);
      }
    }
  }

  const Sides& sides_;
  const ProductOutput& out_;
  const Range rows_, panels_;
  const int64_t column_, columns_;   // the first, and how many
  const int64_t depths_, strips_;
  const int64_t finished_row_;
  const int64_t most_steps_;
  float* const packed_;
  float* const waiting_;    // sums of the parts of the depth so far: [strip][two tiles of columns][row][column]
  float* const finished_;   // those of a strip: [row][column]
  LeftStrips left_;
  int64_t offsets_[kMostSteps];
  std::vector<bool> is_plain_strip_, is_plain_panel_;   // which cannot be in parts, so far as is known
};

// Into how many parts rows and columns are cut, so that each thread has one.
struct Grid {
  int64_t rows, columns;
};
Grid grid_of(int64_t threads, int64_t strips, int64_t columns, int64_t steps) {
  // By an estimate, of a strip's multiplications with two tiles of columns: what it takes to pack these, and to split a strip beside.
  constexpr double kPack = 3, kSplit = 0.8;
  const int64_t panels = PartsMatrix::panels(columns), pairs = divide_up(columns, 2 * kTileSide);
  Grid best = {1, 1};
  double least = std::numeric_limits<double>::max();
  for (int64_t rows = 1; rows <= std::min(threads, strips); ++rows) {
    const int64_t groups = std::min(panels, threads / rows), some_panels = divide_up(panels, groups);
    const auto some_strips = static_cast<double>(divide_up(strips, rows));
    const auto some_pairs = static_cast<double>(std::min(PartsMatrix::kPanelTiles / 2 * some_panels, pairs));
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
  const int64_t strips = divide_up(all_rows.size(), kStripRows), panels = PartsMatrix::panels(sides.n), steps = steps_of(sides.k);
  const Grid grid = grid_of(pool.threads(), strips, sides.n, steps);
  pool.parallel_for(grid.rows * grid.columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const Range some_strips = part_of(strips, task % grid.rows, grid.rows), some_panels = part_of(panels, task / grid.rows, grid.columns);
      const int64_t depths = divide_up(steps, kMostSteps), blocks = divide_up(some_panels.size(), most_panels(divide_up(steps, depths)));
      const int64_t row_blocks = depths == 1 ? 1 : divide_up(some_strips.size(), kMostRows / kStripRows);
      for (int64_t i = 0; i < blocks * row_blocks; ++i) {
        const Range rows = part_of(some_strips.size(), i % row_blocks, row_blocks), columns = part_of(some_panels.size(), i / row_blocks, blocks);
        const int64_t first = all_rows.first + some_strips.first * kStripRows;
        Block(sides, {first + rows.first * kStripRows, std::min(first + rows.last * kStripRows, all_rows.last)},
              {some_panels.first + columns.first, some_panels.first + columns.last}, out)
            .run();
      }
    }
  });
}

}  // namespace

void multiply_in_parts(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const ProductOutput& out) {
  if (a.column == 1) return multiply_rows_in_parts(pool, {a, b, n, k}, {0, m}, out);
  // Rows are turned before, some at a time.
  constexpr int64_t kMostTurned = int64_t{8} << 20, kAtOnce = 64;
  const int64_t row = odd_lines(k), times = divide_up(m * row, kMostTurned);
  for (int64_t i = 0; i < times; ++i) {
    const Range rows = part_of(m, i, times);
    float* const turned = scratch_for_turned.get(divide_up(m, times) * row);
    pool.parallel_for(divide_up(rows.size(), kAtOnce), 1, [&](int64_t begin, int64_t end) {
      copy_rows(a, {rows.first + begin * kAtOnce, std::min(rows.first + end * kAtOnce, rows.last)}, {0, k}, turned + begin * kAtOnce * row, row);
    });
    multiply_rows_in_parts(pool, {{turned - rows.first * row, row, 1}, b, n, k}, rows, out);
  }
}

}  // namespace toroid
