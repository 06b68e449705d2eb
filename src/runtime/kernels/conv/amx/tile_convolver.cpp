#include "runtime/kernels/conv/amx/tile_convolver.h"

#include <algorithm>
#include <vector>

#include "base/fields.h"
#include "runtime/kernels/conv/filter_layout.h"
#include "runtime/kernels/gemm/half/amx_blocks.h"

namespace toroid {
namespace {

constexpr double kCyclesToCopy = 0.15;  // an element of the image

// How filters are packed, besides where they lie (prepared_constants.h).
struct FilterTiles {
  int64_t of_element, of_row;  // of ImageTiles
  FilterLayout filters;
  TOROID_COMPARED_FIELDS(FilterTiles, of_element, of_row, filters)
};

// The filters that are a tile's columns, each with all its depth.
struct FilterColumns {
  int64_t first, count, depth, of_element, of_row;
};
template <class Element>
std::vector<Element> rows_of_filters(const ToroidOperand& w, const FilterLayout& layout, const FilterColumns& columns) {
  const auto* const from = static_cast<const Element*>(w.data);
  std::vector<Element> rows(static_cast<size_t>(columns.count * columns.depth));
  for (int64_t o = 0; o < columns.count; ++o) {
    Element* const filter = rows.data() + o * columns.depth;
    for (int64_t k = 0; k < layout.kernel[0] * layout.kernel[1]; ++k) {
      Element* const row = filter + k / layout.kernel[1] * columns.of_row + k % layout.kernel[1] * columns.of_element;
      for (int64_t c = 0; c < layout.in_channels; ++c) row[c] = from[layout.offset(columns.first + o, c, k)];
    }
  }
  return rows;
}

}  // namespace

TileConvolver::TileConvolver(AmxType numbers, const KernelCall& call, const ConvolutionShape& shape)
    : numbers_(numbers),
      s_(shape),
      strides_(image_strides(call.inputs[0])),
      image_(numbers, s_, strides_),
      panels_(divide_up(s_.out_channels, kPanelColumns)),
      cut_(cut_of(call.pool)),
      filters_(call, 1, FilterTiles{image_.depth_of_element(), image_.depth_of_row(), filter_layout(call.inputs[1], s_)},
               packed_tiles_bytes(numbers, image_.depth(), s_.out_channels) / kWordBytes,
               [this](const KernelCall& each, int64_t, float* to) { pack_filters(each, reinterpret_cast<std::byte*>(to)); }) {}

void TileConvolver::run(const KernelCall& call, const ProductOutput& out) const {
  const auto* const filters = reinterpret_cast<const std::byte*>(filters_.of(call));
  const auto* const data = static_cast<const std::byte*>(call.inputs[0].data);
  if (const auto row = matrix_row_stride(s_, strides_)) {
    return multiply_in_tiles(numbers_, call.pool, s_.batch * s_.out_elements(), s_.out_channels, s_.in_channels,
                             {data, *row, strides_.channel}, filters, out);
  }
  call.pool.parallel_for(s_.batch * cut_.tasks(), 1, [&](int64_t begin, int64_t end) {
    const TileRegisters registers;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t task = i % cut_.tasks(), image = i / cut_.tasks();
      const Range rows = part_of(s_.out[1], cut_.block(task), cut_.blocks), panels = part_of(panels_, cut_.group(task), cut_.groups);
      const int64_t bands = divide_up(rows.size(), image_.most_rows());
      for (int64_t band = 0; band < bands; ++band) {
        const Range some = part_of(rows.size(), band, bands);
        run_band(
            {data + image * strides_.batch * bytes_of_element(numbers_), image, {rows.first + some.first, rows.first + some.last}, panels},
            filters, out);
      }
    }
  });
}

void TileConvolver::run_rows(int64_t image, Range rows, const ImageRing& in, const ProductOutput& out) const {
  const auto* const filters = reinterpret_cast<const std::byte*>(filters_.kept());
  const auto* const data = reinterpret_cast<const std::byte*>(in.data);
  if (matrix_row_stride(s_, strides_)) {
    for (Range some = rows; some.first < rows.last; some.first = some.last) {
      some.last = std::min(rows.last, (some.first / in.kept + 1) * in.kept);
      const TileMatrix matrix = {data + in.offset(some.first) * bytes_of_element(numbers_), strides_.column, strides_.channel};
      multiply_in_tiles(numbers_, some.size() * s_.out[2], s_.out_channels, s_.in_channels, matrix, filters,
                        out.part((image * s_.out[1] + some.first) * s_.out[2], 0));
    }
    return;
  }
  const TileRegisters registers;
  const int64_t bands = divide_up(rows.size(), image_.most_rows());
  for (int64_t band = 0; band < bands; ++band) {
    const Range some = part_of(rows.size(), band, bands);
    run_band({data, image, {rows.first + some.first, rows.first + some.last}, {0, panels_}}, filters, out);
  }
}

Cut TileConvolver::cut_of(const RuntimePool& pool) const {
  // Tiles are so much faster than the vectors that cuts are estimated for.
  const int64_t faster = numbers_ == AmxType::BFloat16 ? 6 : 12, strip = faster * kTileSide;
  const double strips_per_row = static_cast<double>(s_.out[2]) / static_cast<double>(strip);
  const int64_t threads = std::max<int64_t>(1, pool.threads() / s_.batch);
  const double to_copy = kCyclesToCopy / static_cast<double>(s_.kernel_elements());
  return partition_of(threads, {s_.out[1], panels_, image_.depth(), image_.most_rows(), strips_per_row, strip, to_copy});
}

void TileConvolver::pack_filters(const KernelCall& call, std::byte* to) const {
  const ToroidOperand& w = call.inputs[1];
  const FilterLayout layout = filter_layout(w, s_);
  const int64_t depth = image_.depth();
  call.pool.parallel_for(tiles_of(s_.out_channels), 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTileSide;
      const FilterColumns columns = {first, std::min(kTileSide, s_.out_channels - first), depth, image_.depth_of_element(),
                                     image_.depth_of_row()};
      std::byte* const out = to + tile * image_.steps() * kTileBytes;
      const auto pack = [&](AmxType numbers, const auto& rows) {
        pack_right_tiles(numbers, {rows.data(), 1, depth}, depth, columns.count, out);
      };
      numbers_ == AmxType::BFloat16 ? pack(AmxType::BFloat16, rows_of_filters<uint16_t>(w, layout, columns))
                                    : pack(AmxType::Int8, rows_of_filters<int8_t>(w, layout, columns));
    }
  });
}

void TileConvolver::run_band(const Band& band, const std::byte* filters, const ProductOutput& out) const {
  const BandPositions positions = image_.band(band.data, band.rows);
  float* const sums = scratch_for_tile_sums.get(positions.tiles.count * kTileSide * kPanelColumns + kReadBeyond);
  const int64_t first = (band.image * s_.out[1] + band.rows.first) * s_.out[2];
  for (int64_t panel = band.panels.first; panel < band.panels.last; ++panel) {
    const int64_t column = panel * kPanelColumns, last_column = std::min(column + kPanelColumns, s_.out_channels);
    multiply_tile_rows(numbers_, positions.tiles, image_.steps(), filters, panel * kPanelTiles, tiles_of(last_column), sums, kPanelColumns);
    const bool is_whole = positions.row == positions.columns;
    const int64_t at_once = is_whole ? band.rows.size() * positions.columns : positions.columns;
    for (int64_t r = 0; r < (is_whole ? 1 : band.rows.size()); ++r) {
      const int64_t row = first + r * positions.columns;
      out.take(sums + r * positions.row * kPanelColumns, kPanelColumns, {row, row + at_once}, {column, last_column});
    }
  }
}

}  // namespace toroid
