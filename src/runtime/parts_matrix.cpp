#include "runtime/parts_matrix.h"

#include <vector>

#include "runtime/scratch.h"

namespace toroid {
namespace {

thread_local Scratch scratch_for_panel;

// Step after step, so that rows are read along their columns, and in whole steps through all panels.
void split_panels(const PartsMatrix& to, const float* from, int64_t row, Range panels) {
  const int64_t first_column = panels.first * PartsMatrix::kPanelColumns;
  const int64_t columns = std::min(panels.last * PartsMatrix::kPanelColumns, to.columns) - first_column;
  std::vector<ColumnsInParts> tiles(static_cast<size_t>(tiles_of(columns)));
  for (int64_t step = 0; step < steps_of(to.depth); ++step) {
    const int64_t first_row = step * kStepElements, rows = std::min(kStepElements, to.depth - first_row);
    for (int64_t tile = 0; tile < tiles_of(columns); ++tile) {
      const int64_t column = tile * kTileSide, panel = panels.first + tile / PartsMatrix::kPanelTiles;
      std::byte* const parts = const_cast<std::byte*>(to.tile(panel, tile % PartsMatrix::kPanelTiles)) + step * kPartsBytes;
      tiles[static_cast<size_t>(tile)].split(from + first_row * row + column, row, rows, std::min(kTileSide, columns - column), parts);
    }
  }
  for (int64_t panel = panels.first; panel < panels.last; ++panel) {
    const auto first = tiles.begin() + (panel - panels.first) * PartsMatrix::kPanelTiles;
    const bool fit = std::all_of(first, first + to.tiles_of(panel), [](const ColumnsInParts& tile) { return tile.fit(); });
    std::fill_n(const_cast<float*>(to.panel(panel)), PartsMatrix::kHeader, fit ? 1.0f : 0.0f);
  }
}

}  // namespace

void pack_parts(const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out) {
  const PartsMatrix matrix = {depth, columns, out - first * PartsMatrix::panel_size(depth, PartsMatrix::kPanelTiles)};
  auto rows_of = [&](int64_t panel) { return const_cast<float*>(matrix.panel(panel)) + PartsMatrix::kHeader; };
  if (b.column == 1) {
    split_panels(matrix, b.at(0, first * PartsMatrix::kPanelColumns), b.row, {first, last});
    for (int64_t panel = first; panel < last; ++panel) {
      if (!matrix.is_in_parts(panel)) pack_panels(b, depth, columns, panel, panel + 1, rows_of(panel));
    }
    return;
  }
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t width = matrix.tiles_of(panel) * kTileSide;
    float* const turned = scratch_for_panel.get(depth * width);
    pack_panels(b, depth, columns, panel, panel + 1, turned);
    split_panels({depth, width, matrix.panel(panel)}, turned, width, {0, 1});
    if (!matrix.is_in_parts(panel)) std::copy_n(turned, depth * width, rows_of(panel));
  }
}

void pack_parts(RuntimePool& pool, const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out) {
  // Some panels at a time: a page of the rows is then read in longer pieces.
  constexpr int64_t kAtOnce = 8;
  pool.parallel_for(last - first, std::min(kAtOnce, (last - first + pool.threads() - 1) / pool.threads()), [&](int64_t begin, int64_t end) {
    pack_parts(b, depth, columns, first + begin, first + end,
               out + begin * PartsMatrix::panel_size(depth, PartsMatrix::kPanelTiles));
  });
}

}  // namespace toroid
