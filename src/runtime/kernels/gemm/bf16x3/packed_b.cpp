#include "runtime/kernels/gemm/bf16x3/packed_b.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/kernels/gemm/bf16x3/split_vectors.h"
#include "runtime/kernels/gemm/transpose_square.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

Scratch scratch_for_transposed;  // filters of a tile

// Some panels, whose tiles of columns are split a step after the other.
class Panels {
 public:
  Panels(const PackedBf16x3& matrix, Range panels)
      : matrix_(matrix),
        panels_(panels),
        tiles_(static_cast<size_t>((panels.size() - 1) * PackedBf16x3::kPanelTiles + matrix.tiles_of(panels.last - 1))) {}

  int64_t tiles() const { return static_cast<int64_t>(tiles_.size()); }
  int64_t column_of(int64_t tile) const { return panels_.first * PackedBf16x3::kPanelColumns + tile * kTileSide; }
  int64_t columns_of(int64_t tile) const { return std::min(kTileSide, matrix_.columns - column_of(tile)); }

  // `from`: of the tile's first column in the first row of the step.
  void split(int64_t tile, int64_t step, const float* from, int64_t row, int64_t columns) {
    const int64_t panel = panels_.first + tile / PackedBf16x3::kPanelTiles,
                  rows = std::min(kStepElements, matrix_.depth - step * kStepElements);
    std::byte* const parts = const_cast<std::byte*>(matrix_.tile(panel, tile % PackedBf16x3::kPanelTiles)) + step * kPartsBytes;
    tiles_[static_cast<size_t>(tile)].split(from, row, rows, columns, parts);
  }

  // Says of each panel whether it is in parts, once all is split.
  void finish() const {
    for (int64_t panel = panels_.first; panel < panels_.last; ++panel) {
      const auto first = tiles_.begin() + (panel - panels_.first) * PackedBf16x3::kPanelTiles;
      const bool fit = std::all_of(first, first + matrix_.tiles_of(panel), [](const ColumnsInParts& tile) { return tile.fit(); });
      std::fill_n(const_cast<float*>(matrix_.panel(panel)), PackedBf16x3::kHeader, fit ? 1.0f : 0.0f);
    }
  }

 private:
  const PackedBf16x3& matrix_;
  const Range panels_;
  std::vector<ColumnsInParts> tiles_;
};

// In whole steps through all panels, as rows are read along their columns.
void split_along_rows(const Matrix& b, int64_t depth, Panels& panels) {
  for (int64_t step = 0; step < steps_of(depth); ++step) {
    for (int64_t tile = 0; tile < panels.tiles(); ++tile)
      panels.split(tile, step, b.at(step * kStepElements, panels.column_of(tile)), b.row, panels.columns_of(tile));
  }
}

// A tile after the other, as columns are read along their rows: what is transposed leaves the first-level cache in parts.
void split_along_columns(const Matrix& b, int64_t depth, Panels& panels) {
  constexpr int64_t kStepsAtOnce = 2, kRowsAtOnce = kStepsAtOnce * kStepElements;
  alignas(64) float transposed[kRowsAtOnce * kTileSide];
  for (int64_t tile = 0; tile < panels.tiles(); ++tile) {
    for (int64_t row = 0; row < depth; row += kRowsAtOnce) {
      const int64_t rows = std::min(kRowsAtOnce, depth - row);
      pack_sixteen({b.at(row, panels.column_of(tile)), b.row, b.column}, rows, panels.columns_of(tile), transposed);
      for (int64_t i = 0; i < steps_of(rows); ++i)
        panels.split(tile, row / kStepElements + i, transposed + i * kStepElements * kTileSide, kTileSide, kTileSide);
    }
  }
}

// Where a channel's elements lie, from its first in memory on.
struct ChannelSpan {
  explicit ChannelSpan(Span<const int64_t> elements)
      : first(*std::min_element(elements.begin(), elements.end())),
        length(*std::max_element(elements.begin(), elements.end()) - first + 1) {
    is_in_order = length == static_cast<int64_t>(elements.size());
    for (size_t e = 0; e < elements.size(); ++e) is_in_order = is_in_order && elements[e] == static_cast<int64_t>(e);
  }
  int64_t first, length;
  bool is_in_order;
};

// Rows of 16 columns, one for each element of a channel of as many filters, which are `column` apart. So few fill no square of a vector's
// lanes.
#ifdef __x86_64__
TOROID_AVX512 void transpose_channel_avx512(const float* from, int64_t column, const ChannelSpan& span, Span<const int64_t> elements,
                                            float* out) {
  alignas(64) float square[kTileSide * kTileSide];
  Vector16 rows[kTileSide];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kTileSide; ++i) rows[i] = float_parts::load_some(from + span.first + i * column, span.length);
  exchange_squares<kTileSide / 2, Integers16>(rows);
  std::memcpy(square, rows, sizeof square);
  for (size_t e = 0; e < elements.size(); ++e)
    std::memcpy(out + static_cast<int64_t>(e) * kTileSide, square + (elements[e] - span.first) * kTileSide, sizeof rows[0]);
}
#endif
void transpose_channel(const float* from, int64_t column, const ChannelSpan& span, Span<const int64_t> elements, int64_t columns,
                       float* out) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512 && columns == kTileSide && span.length <= kTileSide)
    return transpose_channel_avx512(from, column, span, elements, out);
#endif
  for (const int64_t element : elements) {
    for (int64_t j = 0; j < kTileSide; ++j) *out++ = j < columns ? from[element + j * column] : 0.0f;
  }
}

}  // namespace

void pack_bf16x3(const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out) {
  if (first == last) return;
  const PackedBf16x3 matrix = {depth, columns, out - first * PackedBf16x3::panel_size(depth, PackedBf16x3::kPanelTiles)};
  Panels panels(matrix, {first, last});
  b.column == 1 ? split_along_rows(b, depth, panels) : split_along_columns(b, depth, panels);
  panels.finish();
  for (int64_t panel = first; panel < last; ++panel) {
    if (matrix.is_in_parts(panel)) continue;
    const Matrix some = {b.at(0, panel * PackedBf16x3::kPanelColumns), b.row, b.column};
    const int64_t count = matrix.columns_of(panel);
    pack_panels(some, depth, count, 0, PackedB::panels(count), const_cast<float*>(matrix.panel(panel)) + PackedBf16x3::kHeader);
  }
}

bool pack_filters_bf16x3(const FiltersAsTheyLie& filters, int64_t channels, int64_t columns, float* out) {
  const auto elements = static_cast<int64_t>(filters.elements.size());
  const ChannelSpan span(filters.elements);
  const bool is_compact = filters.column > 0 && filters.column <= kTileSide;  // as filters that were another convolution's channels
  const int64_t depth = channels * elements;
  const PackedBf16x3 matrix = {depth, columns, out};
  Panels panels(matrix, {0, 1});
  // Of whole steps of channels no more than the first-level cache holds while all elements' rows are split.
  const bool are_whole_steps = channels % kStepElements == 0;
  const int64_t at_once = are_whole_steps ? kStepElements : channels;
  float* const transposed = scratch_for_transposed.get(at_once * elements * kTileSide);
  alignas(64) float step_rows[kStepElements * kTileSide];
  for (int64_t tile = 0; tile < panels.tiles(); ++tile) {
    for (int64_t first = 0; first < channels; first += at_once) {
      const float* const from = filters.data + panels.column_of(tile) * filters.column + first * filters.channel;
      const int64_t count = panels.columns_of(tile);
      if (filters.channel == elements && span.is_in_order) {
        pack_sixteen({from, 1, filters.column}, at_once * elements, count, transposed);
      } else {
        for (int64_t c = 0; c < at_once; ++c) {
          // A channel's filters lie in a page of their own, which nothing else fetches.
          constexpr int64_t kChannelsAhead = 6;
          const float* const ahead = from + (c + kChannelsAhead) * filters.channel + span.first;
          for (int64_t i = 0; is_compact && i < count * filters.column; i += kCacheLine) __builtin_prefetch(ahead + i, 0, 2);
          transpose_channel(from + c * filters.channel, filters.column, span, filters.elements, count,
                            transposed + c * elements * kTileSide);
        }
      }
      for (int64_t i = 0; i < steps_of(at_once * elements); ++i) {
        // The step's first row, of what is transposed and of the whole.
        const int64_t row = i * kStepElements, element = row / at_once, channel = row % at_once;
        const int64_t step = (element * channels + first + channel) / kStepElements, rows = std::min(kStepElements, depth - row);
        const auto line = [&](int64_t r) { return transposed + (r % at_once * elements + r / at_once) * kTileSide; };
        if (channel + rows <= at_once) {
          panels.split(tile, step, line(row), elements * kTileSide, kTileSide);
          continue;
        }
        for (int64_t r = 0; r < rows; ++r) std::copy_n(line(row + r), kTileSide, step_rows + r * kTileSide);
        panels.split(tile, step, step_rows, kTileSide, kTileSide);
      }
    }
  }
  panels.finish();
  return matrix.is_in_parts(0);
}

void pack_bf16x3(RuntimePool& pool, const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out) {
  // Some panels at a time: a page of the rows is then read in longer pieces.
  constexpr int64_t kAtOnce = 8;
  pool.parallel_for(last - first, std::min(kAtOnce, (last - first + pool.threads() - 1) / pool.threads()), [&](int64_t begin, int64_t end) {
    pack_bf16x3(b, depth, columns, first + begin, first + end, out + begin * PackedBf16x3::panel_size(depth, PackedBf16x3::kPanelTiles));
  });
}

}  // namespace toroid
