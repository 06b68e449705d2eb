#include "schedule/cuda/convolution_tiles.h"

#include <algorithm>

#include "lower/layouts.h"
#include "lower/packed_convolution.h"
#include "schedule/cuda/cuda_grid.h"

namespace toroid::schedule {
namespace {

constexpr int kEight = 8;  // columns that an epilogue gets at once

bool all_equal(const std::vector<sym::Expr>& a, const std::vector<sym::Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](sym::Expr x, sym::Expr y) { return sym::known_eq(x, y); });
}

}  // namespace

ConvolutionAttempt as_convolution_of_tiles(const loop::LoopProgram& program, const loop::Call& call, const std::vector<BufferId>& outputs,
                                           bool inputs_are_aligned) {
  const auto* op = std::get_if<Convolution>(&call.op);
  if (op == nullptr || outputs.size() != 1 || call.operands.size() != 2) return {{}, "it is no convolution"};
  if (op->transposed || !op->groups.is_const(1) || op->stride.size() > 2)
    return {{}, "a kernel in tiles makes convolutions along one or two dims only, without groups"};
  const loop::Buffer& result = program.buffer(outputs[0]);
  const loop::Operand &image = call.operands[0], &filters = call.operands[1];
  if (!is_reduced_float(result.dtype) && result.dtype != DType::F32) return {{}, "a kernel in tiles makes convolutions of floats only"};
  const auto may_begin = [&](sym::Expr place) { return sym::known_divisible(place, channels_of_pack(result.dtype)); };
  const auto fits = [&](const loop::Operand& operand) {
    const loop::Buffer& buffer = program.buffer(operand.buffer);
    const bool is_aligned = inputs_are_aligned || buffer.kind != loop::BufferKind::Input;
    return buffer.dtype == result.dtype && is_aligned && may_begin(operand.offset) && may_begin(operand.sizes[1]);
  };
  if (!fits(image) || !fits(filters) || !sym::known_divisible(filters.sizes[0], kEight))
    return {{}, "the convolution's channels are not in packs of 16 bytes"};
  const bool is_contiguous = filters.offset.is_const(0) && all_equal(filters.strides, channels_last_strides(filters.sizes)) &&
                             all_equal(result.strides, channels_last_strides(result.sizes));
  if (!is_contiguous || !image.strides[1].is_const(1) || !std::all_of(image.strides.begin() + 2, image.strides.end(), may_begin) ||
      !may_begin(image.strides[0]))
    return {{}, "the convolution's channels are not next to each other"};
  const size_t last = image.sizes.size() - 1, dims = op->stride.size();
  ConvolutionShape shape{.dtype = result.dtype, .image = image.buffer, .filters = filters.buffer, .image_offset = image.offset};
  shape.n = image.sizes[0], shape.c = image.sizes[1], shape.w = image.sizes[last], shape.q = result.sizes[last];
  shape.k = filters.sizes[0], shape.s = filters.sizes[last];
  shape.stride_w = op->stride[dims - 1], shape.padding_w = op->padding[dims - 1], shape.dilation_w = op->dilation[dims - 1];
  shape.image_stride = image.strides[0], shape.pixel_stride = image.strides[last];
  if (dims == 2) {
    shape.h = image.sizes[2], shape.p = result.sizes[2], shape.r = filters.sizes[2], shape.row_stride = image.strides[2];
    shape.stride_h = op->stride[0], shape.padding_h = op->padding[0], shape.dilation_h = op->dilation[0];
  }
  return {std::move(shape)};
}

// Large tiles read less; as many blocks as run at once must have some.
GpuTiles choose_tiles(const ConvolutionShape& shape) {
  const bool has_few_filters = sym::evaluate_hint(shape.k) <= 64, is_plain = shape.dtype == DType::F32;
  GpuTiles tiles{.rows = 128, .columns = has_few_filters ? 64 : 128, .stages = 3, .cluster = 1, .ping_pong = false};
  if (has_few_filters) return tiles;
  if (is_plain) tiles.rows = 64;  // a thread's sums and what they are made of fit its registers
  const auto is_short = [&] { return sym::evaluate_hint(blocks_of(shape, tiles)) < kMultiprocessors * blocks_at_once(shape.dtype, tiles); };
  if (is_short()) (is_plain ? tiles.columns : tiles.rows) = 64;
  return tiles;
}

int blocks_at_once(DType dtype, const GpuTiles& tiles) {
  const bool is_small = tiles.rows * tiles.columns <= 128 * 64;
  return is_small && (dtype != DType::F32 || tiles.rows == 64) ? 3 : 2;
}

int threads_of_convolution(const GpuTiles& tiles) { return 2 * tiles.rows; }

// The ring, where the sums are put afterwards.
int shared_bytes_of_convolution(const GpuTiles& tiles) {
  constexpr int kAlignment = 1024, kRowBytes = 128, kPadding = 8;
  return kAlignment + std::max(tiles.stages * (tiles.rows + tiles.columns) * kRowBytes, tiles.rows * (tiles.columns + kPadding) * 4);
}

sym::Expr blocks_of(const ConvolutionShape& shape, const GpuTiles& tiles) {
  return sym::ceil_div(shape.rows(), tiles.rows) * sym::ceil_div(shape.k, tiles.columns);
}

}  // namespace toroid::schedule
