// Convolutions of images and filters of bfloat16, their channels' results next to each other: products in tiles with sums in float32, for machines
// with AMX. Elsewhere, and with groups, image and filters are widened.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/conv/pack_amx.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/half/amx_blocks.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr double kCyclesToCopy = 0.15;  // an element of the image

thread_local Scratch scratch_for_image, scratch_for_weights;

const uint16_t* bits_of(const ToroidOperand& operand) { return static_cast<const uint16_t*>(operand.data); }

// ---- in tiles

class TileConvolver {
 public:
  TileConvolver(const KernelCall& call, const ConvolutionShape& s)
      : call_(call), s_(s), strides_(image_strides(call.inputs[0])), image_(s, strides_), steps_(image_.steps()) {
    pack_weights();
  }

  void run() const {
    const ProductOutput out = output_of(call_, s_.out_channels);
    if (is_matrix_product(s_, strides_)) {
      return multiply_in_tiles(AmxType::BFloat16, call_.pool, s_.batch * s_.out_elements(), s_.out_channels, s_.in_channels,
                               {call_.inputs[0].data, strides_.column, 1}, weights_, out);
    }
    // Tiles are so much faster than the vectors that cuts are estimated for.
    constexpr int64_t kFaster = 6;
    const int64_t panels = (s_.out_channels + kPanelColumns - 1) / kPanelColumns, strip = kFaster * kTileSide;
    const double strips_per_row = static_cast<double>(s_.out[2]) / static_cast<double>(strip);
    const int64_t threads = std::max<int64_t>(1, call_.pool.threads() / s_.batch);
    const double to_copy = kCyclesToCopy / static_cast<double>(s_.kernel_elements());
    const Cut cut = partition_of(threads, {s_.out[1], panels, image_.depth(), image_.most_rows(), strips_per_row, strip, to_copy});
    call_.pool.parallel_for(s_.batch * cut.tasks(), 1, [&](int64_t begin, int64_t end) {
      const TileRegisters registers;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t task = i % cut.tasks();
        run_band(i / cut.tasks(), part_of(s_.out[1], cut.block(task), cut.blocks), part_of(panels, cut.group(task), cut.groups), out);
      }
    });
  }

 private:
  void pack_weights() {
    const ToroidOperand& w = call_.inputs[1];
    const bool is_flat = w.rank == 3;
    const int64_t row_stride = is_flat ? 0 : w.strides[2], column_stride = w.strides[w.rank - 1];
    const int64_t depth = image_.depth(), of_element = image_.depth_of_element();
    auto pack_tile = [&](int64_t tile, std::byte* to) {
      const int64_t first = tile * kTileSide, columns = std::min(kTileSide, s_.out_channels - first);
      std::vector<uint16_t> rows(static_cast<size_t>(columns * depth));
      for (int64_t o = 0; o < columns; ++o) {
        const uint16_t* from = bits_of(w) + (first + o) * w.strides[0];
        uint16_t* row = rows.data() + o * depth;
        for (int64_t k = 0; k < s_.kernel_elements(); ++k, row += of_element) {
          const uint16_t* element = from + k / s_.kernel[2] * row_stride + k % s_.kernel[2] * column_stride;
          for (int64_t c = 0; c < s_.in_channels; ++c) row[c] = element[c * w.strides[1]];
        }
      }
      pack_right_tiles(AmxType::BFloat16, {rows.data(), 1, depth}, depth, columns, to);
    };
    const int64_t form[] = {'b',          of_element,   s_.out_channels, s_.in_channels, s_.kernel[1],
                            s_.kernel[2], w.strides[0], w.strides[1],    row_stride,     column_stride};
    const int64_t bytes = packed_tiles_bytes(AmxType::BFloat16, depth, s_.out_channels);
    weights_ = reinterpret_cast<const std::byte*>(call_.packed_or_scratch(w, w.data, form, bytes / kWordBytes, [&](float* to) {
      call_.pool.parallel_for(tiles_of(s_.out_channels), 1, [&](int64_t begin, int64_t end) {
        for (int64_t tile = begin; tile < end; ++tile) pack_tile(tile, reinterpret_cast<std::byte*>(to) + tile * steps_ * kTileBytes);
      });
    }));
  }

  void run_band(int64_t image, Range rows, Range panels, const ProductOutput& out) const {
    const int64_t bands = (rows.size() + image_.most_rows() - 1) / image_.most_rows();
    for (int64_t i = 0; i < bands; ++i) {
      const Range some = part_of(rows.size(), i, bands);
      const Range here = {rows.first + some.first, rows.first + some.last};
      const BandPositions band = image_.band(bits_of(call_.inputs[0]) + image * strides_.batch, here);
      float* sums = scratch_for_tile_sums.get(band.tiles.count * kTileSide * kPanelColumns + kReadBeyond);
      const int64_t first = (image * s_.out[1] + here.first) * s_.out[2];
      for (int64_t panel = panels.first; panel < panels.last; ++panel) {
        const int64_t column = panel * kPanelColumns, last_column = std::min(column + kPanelColumns, s_.out_channels);
        multiply_tile_rows(AmxType::BFloat16, band.tiles, steps_, weights_, panel * kPanelTiles, tiles_of(last_column), sums,
                           kPanelColumns);
        const bool is_whole = band.row == band.columns;
        const int64_t at_once = is_whole ? here.size() * band.columns : band.columns;
        for (int64_t r = 0; r < (is_whole ? 1 : here.size()); ++r) {
          const int64_t row = first + r * band.columns;
          out.take(sums + r * band.row * kPanelColumns, kPanelColumns, {row, row + at_once}, {column, last_column});
        }
      }
    }
  }

  const KernelCall& call_;
  const ConvolutionShape& s_;
  ImageStrides strides_;
  ImageTiles image_;
  int64_t steps_;
  const std::byte* weights_ = nullptr;
};

// ---- widened

// Image and filters as float32: the image with its channels next to each other if they were so before, else in planes.
class WidenedConvolution {
 public:
  WidenedConvolution(const KernelCall& call, const ConvolutionShape& s) : call_(call) {
    const ToroidOperand &x = call.inputs[0], &w = call.inputs[1];
    const int64_t channels = s.groups * s.in_channels, height = s.in[1], width = s.in[2];
    const ImageStrides from = image_strides(x);
    const ImageStrides to = from.channel == 1 ? ImageStrides{height * width * channels, 1, width * channels, channels}
                                              : ImageStrides{height * width * channels, height * width, width, 1};
    float* image = scratch_for_image.get(s.batch * to.batch);
    call.pool.parallel_for(s.batch * height, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / height, row = i % height;
        const uint16_t* row_from = static_cast<const uint16_t*>(x.data) + n * from.batch + row * from.row;
        float* row_to = image + n * to.batch + row * to.row;
        const bool by_column = from.channel == 1;
        const int64_t outer = by_column ? width : channels, inner = by_column ? channels : width;
        const int64_t from_outer = by_column ? from.column : from.channel, to_outer = by_column ? to.column : to.channel;
        for (int64_t j = 0; j < outer; ++j)
          widen_elements(dtype_of(x), row_from + j * from_outer, by_column ? 1 : from.column, inner, row_to + j * to_outer);
      }
    });
    image_strides_ = x.rank == 4 ? std::vector{to.batch, to.channel, to.row, to.column} : std::vector{to.batch, to.channel, to.column};
    const int64_t of_filter = s.in_channels * s.kernel_elements(), filters = s.groups * s.out_channels;
    filter_strides_ = {of_filter, s.kernel_elements(), s.kernel[2], 1};
    if (w.rank == 3) filter_strides_.erase(filter_strides_.begin() + 2);
    auto widen_filters = [&](float* out) {
      const int64_t row_stride = w.rank == 3 ? 0 : w.strides[2];
      for (int64_t i = 0; i < filters * s.in_channels * s.kernel[1]; ++i) {
        const int64_t row = i % s.kernel[1], channel = i / s.kernel[1] % s.in_channels, filter = i / s.kernel[1] / s.in_channels;
        const uint16_t* at = static_cast<const uint16_t*>(w.data) + filter * w.strides[0] + channel * w.strides[1] + row * row_stride;
        widen_elements(dtype_of(w), at, w.strides[w.rank - 1], s.kernel[2], out + i * s.kernel[2]);
      }
    };
    const float* wide = nullptr;
    if (call.keeps(w)) {
      std::vector<int64_t> form = {'w', w.dtype};
      form.insert(form.end(), w.sizes, w.sizes + w.rank);
      form.insert(form.end(), w.strides, w.strides + w.rank);
      wide = call.packed_or_scratch(w, w.data, form, filters * of_filter, widen_filters);
    } else {
      widen_filters(scratch_for_weights.get(filters * of_filter));
      wide = scratch_for_weights.get(filters * of_filter);
    }
    constexpr auto kF32 = static_cast<int32_t>(DType::F32);
    inputs_.push_back({image, x.sizes, image_strides_.data(), x.rank, kF32, 0});
    inputs_.push_back({const_cast<float*>(wide), w.sizes, filter_strides_.data(), w.rank, kF32, w.is_constant});
  }

  void run() const {
    ToroidOperand y = call_.outputs[0];
    y.dtype = static_cast<int32_t>(DType::F32);  // what the epilogue takes
    run_library_kernel("convolution", {call_.pool, inputs_, {&y, 1}, call_.integers, call_.numbers, call_.epilogue, call_.prepared});
  }

 private:
  const KernelCall& call_;
  std::vector<int64_t> image_strides_, filter_strides_;
  std::vector<ToroidOperand> inputs_;
};

}  // namespace

bool can_convolve(HalfConvAlgorithm form, const KernelCall& call) {
  const ConvolutionShape s = convolution_shape(call);
  const auto dtype = static_cast<DType>(call.inputs[0].dtype);
  switch (form) {
    case HalfConvAlgorithm::Tiles: return dtype == DType::BF16 && has_amx() && s.groups == 1;
    case HalfConvAlgorithm::ChannelVectors: return takes_channel_vectors(s) && image_strides(call.inputs[0]).channel == 1;
    case HalfConvAlgorithm::Widened: return true;
  }
  return false;
}

void run_convolution_half(const KernelCall& call, HalfConvAlgorithm form) {
  TOROID_CHECK(can_convolve(form, call));
  const ConvolutionShape s = convolution_shape(call);
  if (s.batch * s.out_elements() * s.groups * s.out_channels == 0) return;
  const ToroidOperand& y = call.outputs[0];
  const ToroidEpilogue stored = store_as(static_cast<DType>(y.dtype), y.data, s.groups * s.out_channels);
  KernelCall with_epilogue = call;
  if (call.epilogue == nullptr) with_epilogue.epilogue = &stored;
  if (!s.has_filter()) return give_zeros(with_epilogue, s);
  if (form == HalfConvAlgorithm::Tiles) return TileConvolver(with_epilogue, s).run();
  if (form == HalfConvAlgorithm::ChannelVectors) return convolve_channel_vectors(with_epilogue, s);
  WidenedConvolution(with_epilogue, s).run();
}

}  // namespace toroid
