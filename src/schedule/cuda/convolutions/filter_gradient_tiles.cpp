#include "schedule/cuda/convolutions/filter_gradient_tiles.h"

#include <algorithm>

#include "lower/convolutions/filter_gradient.h"
#include "lower/convolutions/packed_convolution.h"
#include "lower/layouts.h"

namespace toroid::schedule {
FilterGradientAttempt as_filter_gradient_of_tiles(const loop::LoopProgram& program, const loop::Call& call,
                                                  const std::vector<BufferId>& outputs) {
  const auto* op = std::get_if<Library>(&call.op);
  if (op == nullptr || op->name != kFilterGradient || outputs.size() != 1 || call.operands.size() != 2)
    return {{}, "it is no gradient of filters"};
  const loop::Operand &image = call.operands[0], &results = call.operands[1];
  const loop::Buffer& sums = program.buffer(outputs[0]);
  const size_t rank = image.sizes.size(), dims = rank - 2;
  if (rank < 3 || rank > 4 || results.sizes.size() != rank || sums.sizes.size() != rank + 1 || op->attributes.size() != 3 * dims)
    return {{}, "a gradient of filters has operands of three or four dims, and three numbers for each dim of the image"};
  const DType dtype = program.buffer(image.buffer).dtype;
  if (!is_reduced_float(dtype) || program.buffer(results.buffer).dtype != dtype || sums.dtype != DType::F32)
    return {{}, "gradients of filters are made of 16-bit floats, in float32"};
  const auto is_pack = [&](sym::Expr place) { return sym::known_divisible(place, channels_of_pack(dtype)); };
  if (!image.strides[1].is_const(1) || !is_pack(image.offset) || !is_pack(image.sizes[1]) || !is_pack(image.strides[0]) ||
      !std::all_of(image.strides.begin() + 2, image.strides.end(), is_pack))
    return {{}, "the image's channels are not in packs of 16 bytes"};
  if (!results.offset.is_const(0) || !is_pack(results.sizes[1]) || !are_equal(results.strides, channels_last_strides(results.sizes)))
    return {{}, "the gradient's channels are not in packs of 16 bytes, without gaps"};
  const sym::Expr of_slab = sums.sizes.back();
  if (!is_pack(of_slab) || !of_slab.is_const() || of_slab.value() <= 0 || !sym::known_eq(sym::mod(image.sizes[1], of_slab), 0))
    return {{}, "the image's channels are not those of the sums, nor of several slabs"};
  if (!are_equal(sums.strides, contiguous_strides(sums.sizes))) return {{}, "the sums are not contiguous"};
  FilterGradientShape shape{.convolution = {.dtype = dtype, .image = image.buffer, .filters = results.buffer, .image_offset = image.offset},
                            .parts = sums.sizes[0]};
  ConvolutionShape& it = shape.convolution;
  const auto number = [&](size_t list, size_t d) { return std::get<sym::Expr>(op->attributes[list * dims + d]); };
  it.n = image.sizes[0], it.w = image.sizes[rank - 1], it.k = results.sizes[1], it.q = results.sizes[rank - 1];
  it.s = sums.sizes[rank - 1];
  it.c = of_slab, it.groups = sym::floor_div(image.sizes[1], of_slab);
  it.stride_w = number(0, dims - 1), it.padding_w = number(1, dims - 1), it.dilation_w = number(2, dims - 1);
  it.image_stride = image.strides[0], it.pixel_stride = image.strides[rank - 1];
  if (!it.groups.is_const(1) && !sym::known_divisible(it.k, it.groups.is_const() ? it.groups.value() : 0))
    return {{}, "the filters are not those of slabs"};
  if (dims == 2) {
    it.h = image.sizes[2], it.p = results.sizes[2], it.r = sums.sizes[2], it.row_stride = image.strides[2];
    it.stride_h = number(0, 0), it.padding_h = number(1, 0), it.dilation_h = number(2, 0);
  }
  return {std::move(shape)};
}

GpuTiles choose_tiles(const FilterGradientShape& shape) {
  const FilterGradientTiles tiles =
      filter_gradient_tiles(shape.convolution.k, shape.convolution.groups, shape.columns(), shape.convolution.rows());
  return {.rows = tiles.rows, .columns = tiles.columns, .stages = 3, .cluster = 1, .ping_pong = false};
}

int shared_bytes_of_filter_gradient(const GpuTiles& tiles) {
  constexpr int kAlignment = 1024, kRowBytes = 128;
  return kAlignment + tiles.stages * (tiles.rows + tiles.columns) * kRowBytes;
}

sym::Expr blocks_of(const FilterGradientShape& shape, const GpuTiles& tiles) {
  return sym::ceil_div(shape.convolution.k, tiles.rows) * sym::ceil_div(shape.columns(), tiles.columns) * shape.parts;
}

}  // namespace toroid::schedule
