#include "runtime/kernels/gemm/bf16x3/b_stationary_macrokernel.h"

#include <array>

#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

Scratch scratch;

// Of a strip's tiles, a step after the other.
constexpr int64_t kMostSteps = 256;
constexpr auto kOffsets = [] {
  std::array<int64_t, kMostSteps> offsets = {};
  for (int64_t step = 0; step < kMostSteps; ++step) offsets[static_cast<size_t>(step)] = step * kPartsBytes;
  return offsets;
}();

}  // namespace

int64_t PassingStrips::most_panels(int64_t steps) {
  return steps > kMostSteps ? 0 : l2_cache_bytes() / 8 * 3 / (std::max<int64_t>(1, steps) * PackedBf16x3::kPanelTiles * kPartsBytes);
}

PassingStrips::PassingStrips(const RowElements& elements, Span<const float* const> rows, Range columns, int64_t depths, int64_t first_row,
                             const ProductOutput& out)
    : row_elements_(elements),
      elements_(elements.runs()),
      rows_(rows),
      columns_(columns),
      depths_(depths),
      first_row_(first_row),
      out_(out),
      strips_(divide_up(static_cast<int64_t>(rows.size()), kRows)),
      panels_(PackedBf16x3::panels(columns.size())),
      strip_bytes_(kTiles * divide_up(elements_.steps(), depths) * kPartsBytes),
      is_plain_strip_(at(strips_)),
      is_plain_panel_(at(panels_)) {
  const int64_t split_size = 2 * strip_bytes_ / int64_t{sizeof(float)}, waiting_size = depths_ == 1 ? 0 : strips_ * pairs() * kRows * kRows;
  float* const memory = scratch.get(split_size + waiting_size + kRows * PackedBf16x3::kPanelColumns + kReadBeyond);
  split_ = reinterpret_cast<std::byte*>(memory);
  waiting_ = memory + split_size;
  finished_ = waiting_ + waiting_size;
  begin(0, 0);
}

Range PassingStrips::columns_of(Range panels) const {
  constexpr int64_t kColumns = PackedBf16x3::kPanelColumns;
  return {columns_.first + panels.first * kColumns, std::min(columns_.first + panels.last * kColumns, columns_.last)};
}

// Whole tiles of a result that nothing else is done with.
bool PassingStrips::goes_directly(int64_t strip, int64_t panel) const {
  return out_.epilogue == nullptr && rows_of(strip).size() == kRows && columns_of({panel, panel + 1}).size() == PackedBf16x3::kPanelColumns;
}

void PassingStrips::begin(int64_t strip, int64_t depth) {
  is_second_ = !is_second_;
  next_ = RowsToSplit(elements_, steps_of_part(depth), pointers_of(strip), split_ + (is_second_ ? strip_bytes_ : 0));
}

void PassingStrips::multiply(int64_t depth, const PackedBf16x3& right, int64_t first_panel, bool fetches) {
  const bool is_last = depth + 1 == depths_;
  const TileRegisters registers;
  for (int64_t panel = 0; panel < panels_; ++panel)
    is_plain_panel_[at(panel)] = is_plain_panel_[at(panel)] || !right.is_in_parts(first_panel + panel);
  for (int64_t strip = 0; strip < strips_; ++strip) {
    is_plain_strip_[at(strip)] = !next_.finish() || is_plain_strip_[at(strip)];
    const std::byte* const rows = split_ + (is_second_ ? strip_bytes_ : 0);
    if (strip + 1 < strips_) {
      begin(strip + 1, depth);
    } else if (!is_last) {
      begin(0, depth + 1);
    }
    if (is_plain_strip_[at(strip)]) continue;
    multiply_strip(strip, depth, right, first_panel, rows, fetches && strip == 0);
  }
}

void PassingStrips::multiply_strip(int64_t strip, int64_t depth, const PackedBf16x3& right, int64_t first_panel, const std::byte* rows,
                                   bool fetches) {
  const int64_t steps = steps_of_part(depth).size(), tiles = tiles_of(columns_.size());
  const std::byte* const lower = rows_of(strip).size() > kTileSide ? rows + steps * kPartsBytes : nullptr;
  auto right_tile = [&](int64_t tile) {
    return tile < tiles ? right.tile(first_panel + tile / PackedBf16x3::kPanelTiles, tile % PackedBf16x3::kPanelTiles) : nullptr;
  };
  constexpr int64_t kProducts = 6, kLinesOfStep = kPartsBytes / kTileRowBytes;
  const int64_t pieces = divide_up(next_.left(), pairs() * steps);
  for (int64_t pair = 0; pair < pairs(); ++pair) {
    const int64_t tile = 2 * pair, panel = tile / PackedBf16x3::kPanelTiles;
    if (is_plain_panel_[at(panel)]) continue;
    float* const waiting = waiting_ + (strip * pairs() + pair) * kRows * kRows;
    const Sums sums = depth + 1 < depths_ ? Sums{waiting, kRows}
                      : goes_directly(strip, panel)
                          ? Sums{out_.data + (first_row_ + strip * kRows) * out_.row + columns_.first + tile * kTileSide, out_.row}
                          : Sums{finished_ + tile % PackedBf16x3::kPanelTiles * kTileSide, PackedBf16x3::kPanelColumns};
    multiply_tiles_of_parts({{rows, lower},
                             kOffsets.data(),
                             {right_tile(tile), right_tile(tile + 1)},
                             steps,
                             sums.data,
                             sums.row,
                             depth > 0 ? waiting : nullptr,
                             kRows,
                             {right_tile(std::min(tile + 2, tiles - 1)), right_tile(std::min(tile + 3, tiles - 1))},
                             fetches ? kLinesOfStep / kProducts : 0,
                             &next_,
                             pieces});
    const bool ends_panel = tile % PackedBf16x3::kPanelTiles == PackedBf16x3::kPanelTiles - 2 || pair + 1 == pairs();
    if (depth + 1 < depths_ || !ends_panel || goes_directly(strip, panel)) continue;
    out_.take(finished_, PackedBf16x3::kPanelColumns, {first_row_ + rows_of(strip).first, first_row_ + rows_of(strip).last},
              columns_of({panel, panel + 1}));
  }
}

void PassingStrips::multiply_plain(int64_t panel, const PackedB& columns) const {
  const ProductOutput out = out_.part(0, columns_of({panel, panel + 1}).first);
  for (int64_t strip = 0; strip < strips_; ++strip) {
    if (!is_plain_panel_[at(panel)] && !is_plain_strip_[at(strip)]) continue;
    multiply_rows(columns, 0, columns.panels(), row_elements_, pointers_of(strip), first_row_ + strip * kRows, out);
  }
}

}  // namespace toroid
