// Positions of the band lie next to each other, so 16 that follow each other are a tile's rows for any filter element, at that
// element's distance. Those beyond a row's last output are computed too, and thrown away.
#include "runtime/kernels/conv/implicit_gemm_bf16x3.h"

#include <vector>

#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kMostSteps = 48;  // of two tiles of columns at a time, so that all strips find them in the second-level cache

Scratch scratch_for_band;
Scratch scratch_for_sums;

// The band as [step of channels][position][part][element]; null where it cannot be.
const std::byte* split_band(const PartsBand& band) {
  const int64_t positions = band.height * band.width, steps = band.channels / kStepElements;
  // A tile reads beyond the last position.
  auto* data =
      reinterpret_cast<std::byte*>(scratch_for_band.get((steps * positions + kTileSide) * kPartsRowBytes / int64_t{sizeof(float)}));
  const Run channels = {0, band.channels};
  const StepElements elements({&channels, 1});
  std::vector<const float*> rows;
  rows.reserve(static_cast<size_t>(positions));
  for (int64_t i = 0; i < positions; ++i) rows.push_back(band.data + i * band.channels);
  return split_rows(elements, 0, steps, rows, positions * kPartsRowBytes, data) ? data : nullptr;
}

// Where a tile's rows are for each step of the weights, from its first position's.
std::vector<int64_t> step_offsets(const PartsBand& band) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < band.kernel[0]; ++i) {
    for (int64_t j = 0; j < band.kernel[1]; ++j) {
      for (int64_t step = 0; step < band.channels / kStepElements; ++step) {
        const int64_t position = i * band.dilation[0] * band.width + j * band.dilation[1];
        offsets.push_back((step * band.height * band.width + position) * kPartsRowBytes);
      }
    }
  }
  return offsets;
}

}  // namespace

bool convolve_band(const PackedBf16x3& weights, int64_t first, int64_t last, const PartsBand& band, int64_t first_row,
                   const ProductOutput& out, const Fetching& fetching) {
  for (int64_t panel = first; panel < last; ++panel) {
    if (!weights.is_in_parts(panel)) return false;
  }
  const std::byte* data = split_band(band);
  if (data == nullptr) return false;
  const std::vector<int64_t> offsets = step_offsets(band);
  const auto steps = static_cast<int64_t>(offsets.size());
  const int64_t depths = (steps + kMostSteps - 1) / kMostSteps;
  const int64_t tiles = tiles_of((band.out_rows() - 1) * band.width + band.out_columns);
  constexpr int64_t kColumns = PackedBf16x3::kPanelColumns;
  float* sums = scratch_for_sums.get(tiles * kTileSide * kColumns + kReadBeyond);
  const TileRegisters registers;
  for (int64_t panel = first; panel < last; ++panel) {
    for (int64_t depth = 0; depth < depths; ++depth) {
      const Range some = part_of(steps, depth, depths);
      const bool is_last = depth + 1 == depths;
      const int64_t after = !is_last ? panel : panel + 1 < last ? panel + 1 : first, after_step = is_last ? 0 : some.last;
      const PanelTask task = {panel, some, depth > 0, fetching.is_on, after, after_step};
      multiply_panel(weights, task, {data, tiles, kTileSide * kPartsRowBytes, offsets.data() + some.first}, {0, tiles}, sums);
    }
    const int64_t column = panel * kColumns, columns = weights.columns_of(panel);
    for (int64_t i = 0; i < band.out_rows(); ++i) {
      const int64_t row = first_row + i * band.out_columns;
      out.take(sums + i * band.width * kColumns, kColumns, {row, row + band.out_columns}, {column, column + columns});
    }
  }
  return true;
}

}  // namespace toroid
