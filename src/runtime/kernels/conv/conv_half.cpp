// Convolutions of images and filters of 16-bit floats, their channels' results next to each other: of bfloat16 products in tiles with sums
// in float32, for machines with AMX; of groups vectors of channels.
#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/kernels/conv/filter_layout.h"
#include "runtime/kernels/conv/pack_amx.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/half/amx_blocks.h"
#include "runtime/kernels/registry/packed_operand.h"

namespace toroid {
namespace {

constexpr double kCyclesToCopy = 0.15;  // an element of the image

const uint16_t* bits_of(const ToroidOperand& operand) { return static_cast<const uint16_t*>(operand.data); }

class TileConvolver final : public KernelPlan {
 public:
  TileConvolver(const KernelCall& call, const ConvolutionShape& s)
      : s_(s),
        strides_(image_strides(call.inputs[0])),
        image_(s_, strides_),
        steps_(image_.steps()),
        panels_((s_.out_channels + kPanelColumns - 1) / kPanelColumns),
        cut_(cut_of(call.pool)),
        weights_(call, 1, FilterTiles{image_.depth_of_element(), filter_layout(call.inputs[1], s_)},
                 packed_tiles_bytes(AmxType::BFloat16, image_.depth(), s_.out_channels) / kWordBytes,
                 [this](const KernelCall& each, int64_t, float* to) { pack_weights(each, reinterpret_cast<std::byte*>(to)); }) {}

  void run(const KernelCall& call) const override {
    const auto* const weights = reinterpret_cast<const std::byte*>(weights_.of(call));
    const ProductOutput out = output_of(call, s_.out_channels);
    if (const auto row = matrix_row_stride(s_, strides_)) {
      return multiply_in_tiles(AmxType::BFloat16, call.pool, s_.batch * s_.out_elements(), s_.out_channels, s_.in_channels,
                               {call.inputs[0].data, *row, 1}, weights, out);
    }
    call.pool.parallel_for(s_.batch * cut_.tasks(), 1, [&](int64_t begin, int64_t end) {
      const TileRegisters registers;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t task = i % cut_.tasks(), image = i / cut_.tasks();
        run_band(bits_of(call.inputs[0]) + image * strides_.batch, weights, image, part_of(s_.out[1], cut_.block(task), cut_.blocks),
                 part_of(panels_, cut_.group(task), cut_.groups), out);
      }
    });
  }

 private:
  Cut cut_of(const RuntimePool& pool) const {
    // Tiles are so much faster than the vectors that cuts are estimated for.
    constexpr int64_t kFaster = 6;
    const int64_t strip = kFaster * kTileSide;
    const double strips_per_row = static_cast<double>(s_.out[2]) / static_cast<double>(strip);
    const int64_t threads = std::max<int64_t>(1, pool.threads() / s_.batch);
    const double to_copy = kCyclesToCopy / static_cast<double>(s_.kernel_elements());
    return partition_of(threads, {s_.out[1], panels_, image_.depth(), image_.most_rows(), strips_per_row, strip, to_copy});
  }

  struct FilterTiles {
    int64_t of_element;  // ImageTiles::depth_of_element
    FilterLayout filters;
    auto operator<=>(const FilterTiles&) const = default;
  };
  void pack_weights(const KernelCall& call, std::byte* to) const {
    const ToroidOperand& w = call.inputs[1];
    const FilterLayout layout = filter_layout(w, s_);
    const int64_t depth = image_.depth(), of_element = image_.depth_of_element();
    call.pool.parallel_for(tiles_of(s_.out_channels), 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t first = tile * kTileSide, columns = std::min(kTileSide, s_.out_channels - first);
        std::vector<uint16_t> rows(static_cast<size_t>(columns * depth));
        for (int64_t o = 0; o < columns; ++o) {
          uint16_t* row = rows.data() + o * depth;
          for (int64_t k = 0; k < s_.kernel_elements(); ++k, row += of_element) {
            for (int64_t c = 0; c < s_.in_channels; ++c) row[c] = bits_of(w)[layout.offset(first + o, c, k)];
          }
        }
        pack_right_tiles(AmxType::BFloat16, {rows.data(), 1, depth}, depth, columns, to + tile * steps_ * kTileBytes);
      }
    });
  }

  // `data`: of this image.
  void run_band(const uint16_t* data, const std::byte* weights, int64_t image, Range rows, Range panels, const ProductOutput& out) const {
    const int64_t bands = (rows.size() + image_.most_rows() - 1) / image_.most_rows();
    for (int64_t i = 0; i < bands; ++i) {
      const Range some = part_of(rows.size(), i, bands);
      const Range here = {rows.first + some.first, rows.first + some.last};
      const BandPositions band = image_.band(data, here);
      float* sums = scratch_for_tile_sums.get(band.tiles.count * kTileSide * kPanelColumns + kReadBeyond);
      const int64_t first = (image * s_.out[1] + here.first) * s_.out[2];
      for (int64_t panel = panels.first; panel < panels.last; ++panel) {
        const int64_t column = panel * kPanelColumns, last_column = std::min(column + kPanelColumns, s_.out_channels);
        multiply_tile_rows(AmxType::BFloat16, band.tiles, steps_, weights, panel * kPanelTiles, tiles_of(last_column), sums, kPanelColumns);
        const bool is_whole = band.row == band.columns;
        const int64_t at_once = is_whole ? here.size() * band.columns : band.columns;
        for (int64_t r = 0; r < (is_whole ? 1 : here.size()); ++r) {
          const int64_t row = first + r * band.columns;
          out.take(sums + r * band.row * kPanelColumns, kPanelColumns, {row, row + at_once}, {column, last_column});
        }
      }
    }
  }

  ConvolutionShape s_;
  ImageStrides strides_;
  ImageTiles image_;
  int64_t steps_, panels_;
  Cut cut_;
  PackedOperand weights_;
};

// Where there is no epilogue, the sums are stored, rounded to the result's dtype.
class StoringSums final : public KernelPlan {
 public:
  StoringSums(std::unique_ptr<const KernelPlan> sums, const ConvolutionShape& s)
      : sums_(std::move(sums)), columns_(s.groups * s.out_channels) {}

  void run(const KernelCall& call) const override {
    if (call.epilogue != nullptr) return sums_->run(call);
    const ToroidOperand& y = call.outputs[0];
    const ToroidEpilogue stored = store_as(dtype_of(y), y.data, columns_);
    KernelCall with_epilogue = call;
    with_epilogue.epilogue = &stored;
    sums_->run(with_epilogue);
  }

 private:
  std::unique_ptr<const KernelPlan> sums_;
  int64_t columns_;
};

// `make`: the plan of the sums, which gives them to the call's epilogue.
template <class Make>
std::unique_ptr<const KernelPlan> plan_storing(const KernelCall& call, const Make& make) {
  const ConvolutionShape s = convolution_shape(call);
  std::unique_ptr<const KernelPlan> sums = plan_without_sums(s);
  if (sums == nullptr) sums = make(s);
  return std::make_unique<const StoringSums>(std::move(sums), s);
}

}  // namespace

std::unique_ptr<const KernelPlan> plan_half_tiles(const KernelCall& call) {
  return plan_storing(call, [&](const ConvolutionShape& s) { return std::make_unique<const TileConvolver>(call, s); });
}

std::unique_ptr<const KernelPlan> plan_half_channel_vectors(const KernelCall& call) {
  return plan_storing(call, [&](const ConvolutionShape& s) { return channel_vectors(call, s); });
}

}  // namespace toroid
