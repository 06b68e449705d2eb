#include "schedule/cuda/convolutions/convolution_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "lower/convolutions/packed_convolution.h"
#include "lower/layouts.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/convolutions/group_tiles.h"
#include "schedule/cuda/cuda_grid.h"

namespace toroid::schedule {
namespace {

constexpr int kEight = 8;  // columns that an epilogue gets at once

}  // namespace

ConvolutionAttempt as_convolution_of_tiles(const loop::LoopProgram& program, const loop::Call& call, const std::vector<BufferId>& outputs,
                                           bool inputs_are_aligned) {
  const auto* op = std::get_if<Convolution>(&call.op);
  if (op == nullptr || outputs.size() != 1 || call.operands.size() != 2) return {{}, "it is no convolution"};
  if (op->transposed || op->stride.size() > 2) return {{}, "a kernel in tiles makes convolutions along one or two dims only"};
  const loop::Buffer& result = program.buffer(outputs[0]);
  const loop::Operand &image = call.operands[0], &filters = call.operands[1];
  if (!is_reduced_float(result.dtype) && result.dtype != DType::F32) return {{}, "a kernel in tiles makes convolutions of floats only"};
  const auto may_begin = [&](sym::Expr place) { return sym::known_divisible(place, channels_of_pack(result.dtype)); };
  const auto fits = [&](const loop::Operand& operand) {
    const loop::Buffer& buffer = program.buffer(operand.buffer);
    const bool is_aligned = inputs_are_aligned || buffer.kind != loop::BufferKind::Input;
    return buffer.dtype == result.dtype && is_aligned && may_begin(operand.offset);
  };
  const sym::Expr filters_of_group = sym::floor_div(filters.sizes[0], op->groups);
  const bool is_in_eights = may_begin(filters.sizes[1]) && sym::known_divisible(filters_of_group, kEight);
  const bool is_narrow = has_narrow_groups(*op, result.dtype, filters.sizes);
  if (!fits(image) || !may_begin(image.sizes[1]) || !fits(filters) || !(is_in_eights || is_narrow))
    return {{}, "the convolution's channels are not in packs of 16 bytes"};
  const bool is_contiguous = filters.offset.is_const(0) && are_equal(filters.strides, channels_last_strides(filters.sizes)) &&
                             are_equal(result.strides, channels_last_strides(result.sizes));
  if (!is_contiguous || !image.strides[1].is_const(1) || !std::all_of(image.strides.begin() + 2, image.strides.end(), may_begin) ||
      !may_begin(image.strides[0]))
    return {{}, "the convolution's channels are not next to each other"};
  const size_t last = image.sizes.size() - 1, dims = op->stride.size();
  ConvolutionShape shape{.dtype = result.dtype, .image = image.buffer, .filters = filters.buffer, .image_offset = image.offset};
  shape.is_in_eights = is_in_eights, shape.has_narrow_groups = is_narrow;
  shape.n = image.sizes[0], shape.c = filters.sizes[1], shape.groups = op->groups, shape.w = image.sizes[last],
  shape.q = result.sizes[last];
  shape.k = filters_of_group, shape.s = filters.sizes[last];
  shape.stride_w = op->stride[dims - 1], shape.padding_w = op->padding[dims - 1], shape.dilation_w = op->dilation[dims - 1];
  shape.image_stride = image.strides[0], shape.pixel_stride = image.strides[last];
  if (dims == 2) {
    shape.h = image.sizes[2], shape.p = result.sizes[2], shape.r = filters.sizes[2], shape.row_stride = image.strides[2];
    shape.stride_h = op->stride[0], shape.padding_h = op->padding[0], shape.dilation_h = op->dilation[0];
  }
  return {std::move(shape)};
}

bool has_pixels_across(const loop::LoopProgram& program, const CallStep& step) {
  if (!step.epilogue) return false;
  const sym::Expr position = std::get<loop::Load>(program.exprs.node(*step.epilogue->product).op).index[0];
  return !is_contiguous(position, step.epilogue->outer.back());
}

bool suits_tma(const ConvolutionShape& shape) {
  // What a tensor map can say.
  constexpr int64_t kMostCorner = 127, kMostTap = 255, kMostStep = 8;
  const auto fits = [](sym::Expr padding, sym::Expr dilation, sym::Expr taps, sym::Expr step) {
    if (!padding.is_const() || !dilation.is_const() || !taps.is_const() || !step.is_const()) return false;
    const int64_t last_tap = dilation.value() * (taps.value() - 1);
    return padding.value() <= kMostCorner && last_tap <= kMostTap && last_tap - padding.value() <= kMostCorner && step.value() <= kMostStep;
  };
  const bool is_window = std::ranges::all_of(std::array{shape.image_stride, shape.row_stride, shape.pixel_stride},
                                             [](sym::Expr stride) { return sym::known_lt(0, stride); });
  return is_reduced_float(shape.dtype) && shape.groups.is_const(1) && sym::known_divisible(shape.c, kTileDepth) && is_window &&
         fits(shape.padding_h, shape.dilation_h, shape.r, shape.stride_h) &&
         fits(shape.padding_w, shape.dilation_w, shape.s, shape.stride_w);
}

namespace {

// Of tiles that TMA brings: the clock at which tensor cores would always be busy, on an H100 (docs/gpu.md).
struct RingTiles {
  int pixels, filters, stages;
  double clock;
};
constexpr RingTiles kRingTiles[] = {
    {192, 128, 4, 1.5e9}, {128, 128, 5, 1.43e9}, {256, 64, 4, 1.3e9}, {64, 128, 7, 1.1e9}, {128, 64, 7, 1.1e9}};
constexpr RingTiles kRingTilesAcross[] = {{192, 128, 4, 1.5e9}, {128, 128, 5, 1.43e9}, {192, 64, 5, 1.2e9}};

GpuTiles choose_ring_tiles(const ConvolutionShape& shape, bool pixels_across) {
  GpuTiles best;
  double least = std::numeric_limits<double>::infinity();
  for (const RingTiles& each : pixels_across ? std::span<const RingTiles>(kRingTilesAcross) : std::span<const RingTiles>(kRingTiles)) {
    const GpuTiles tiles{.rows = pixels_across ? each.filters : each.pixels,
                         .columns = pixels_across ? each.pixels : each.filters,
                         .stages = each.stages,
                         .ping_pong = true};
    const auto count = static_cast<double>(sym::evaluate_hint(blocks_of(shape, tiles, pixels_across)));
    const double time = std::ceil(count / kMultiprocessors) * each.pixels * each.filters / each.clock;
    if (time < least) least = time, best = tiles;
  }
  return best;
}

}  // namespace

GpuTiles choose_tiles(const ConvolutionShape& shape, bool pixels_across, bool epilogue_waits) {
  if (suits_tma(shape) && (pixels_across || !epilogue_waits)) return choose_ring_tiles(shape, pixels_across);
  return choose_gathered_tiles(shape);
}

GpuTiles choose_gathered_tiles(const ConvolutionShape& shape) {
  if (prefers_group_tiles(shape)) return choose_group_tiles(shape);
  const bool has_few_filters = sym::evaluate_hint(shape.k) <= 64, is_plain = shape.dtype == DType::F32;
  GpuTiles tiles{.rows = 128, .columns = has_few_filters ? 64 : 128, .stages = 3, .cluster = 1, .ping_pong = false};
  if (has_few_filters) return tiles;
  if (is_plain) tiles.rows = 64;  // a thread's sums and what they are made of fit its registers
  const auto is_short = [&] {
    return sym::evaluate_hint(blocks_of(shape, tiles, false)) < kMultiprocessors * blocks_at_once(shape.dtype, tiles);
  };
  if (is_short()) (is_plain ? tiles.columns : tiles.rows) = 64;
  return tiles;
}

std::vector<TilesEstimate> estimated_tiles(const ConvolutionShape& shape, bool pixels_across) {
  // Of gathered tiles, at about this clock tensor cores are busy; plain ones have a sixteenth of their speed.
  constexpr double kFlopsOfCycle = 4096, kGatheredClock = 0.9e9, kPlain = 1.0 / 16, kStart = 4e-6;
  std::vector<TilesEstimate> result;
  if (shape.has_narrow_groups) result = estimated_group_tiles(shape);
  if (!shape.is_in_eights) return result;
  const auto depth = static_cast<double>(sym::evaluate_hint(shape.depth()));
  const auto add = [&](const GpuTiles& tiles, int at_once, double clock) {
    const auto count = static_cast<double>(sym::evaluate_hint(blocks_of(shape, tiles, pixels_across)));
    const double of_tile = 2.0 * tiles.rows * tiles.columns * depth / kFlopsOfCycle / clock;
    result.push_back({tiles, kStart + std::ceil(count / (kMultiprocessors * at_once)) * at_once * of_tile});
  };
  if (suits_tma(shape)) {
    for (const RingTiles& each : pixels_across ? std::span<const RingTiles>(kRingTilesAcross) : std::span<const RingTiles>(kRingTiles)) {
      add({.rows = pixels_across ? each.filters : each.pixels,
           .columns = pixels_across ? each.pixels : each.filters,
           .stages = each.stages,
           .ping_pong = true},
          1, each.clock);
    }
  }
  if (pixels_across) return result;
  for (const int rows : {128, 64}) {
    for (const int columns : {128, 64}) {
      for (const int stages : {3, 4}) {
        const GpuTiles tiles{.rows = rows, .columns = columns, .stages = stages, .ping_pong = false};
        add(tiles, blocks_at_once(shape.dtype, tiles), kGatheredClock * (shape.dtype == DType::F32 ? kPlain : 1));
      }
    }
  }
  return result;
}

int blocks_at_once(DType dtype, const GpuTiles& tiles) {
  const bool is_small = tiles.rows * tiles.columns <= 128 * 64;
  return is_small && (dtype != DType::F32 || tiles.rows == 64) ? 3 : 2;
}

int threads_of_convolution(const GpuTiles& tiles) {
  if (tiles.groups > 0) return kGroupThreads;
  return tiles.ping_pong ? kProductThreads : 2 * tiles.rows;
}

// Of gathered tiles the ring, where the sums are put afterwards.
int shared_bytes_of_convolution(const ConvolutionShape& shape, const GpuTiles& tiles) {
  if (tiles.groups > 0) return static_cast<int>(shared_bytes_of_groups(shape, tiles));
  if (tiles.ping_pong) return shared_bytes_of(tiles);
  constexpr int kAlignment = 1024, kRowBytes = 128, kPadding = 8;
  return kAlignment + std::max(tiles.stages * (tiles.rows + tiles.columns) * kRowBytes, tiles.rows * (tiles.columns + kPadding) * 4);
}

sym::Expr blocks_of(const ConvolutionShape& shape, const GpuTiles& tiles, bool pixels_across) {
  if (tiles.groups > 0) {
    return shape.n * sym::ceil_div(shape.p, tiles.rows) * sym::ceil_div(shape.q, tiles.columns) * sym::ceil_div(shape.groups, tiles.groups);
  }
  const int pixels = pixels_across ? tiles.columns : tiles.rows, filters = pixels_across ? tiles.rows : tiles.columns;
  return sym::ceil_div(shape.rows(), pixels) * sym::ceil_div(shape.k, filters) * shape.groups;
}

std::array<TensorMap, 2> tensor_maps(const ConvolutionShape& shape, const GpuTiles& tiles, bool pixels_across) {
  const int pixels = pixels_across ? tiles.columns : tiles.rows, filters = pixels_across ? tiles.rows : tiles.columns;
  const auto upper = [](sym::Expr padding, sym::Expr dilation, sym::Expr taps) { return padding - dilation * (taps - 1); };
  constexpr int64_t kAny = 8;  // a stride along one element
  return {TensorMap{.buffer = shape.image,
                    .offset = shape.image_offset,
                    .sizes = {shape.c, shape.w, shape.h, shape.n},
                    .strides = {1, shape.pixel_stride, shape.row_stride, shape.image_stride},
                    .box = {kTileDepth, pixels, 1, 1},
                    .lower = {0 - shape.padding_w, 0 - shape.padding_h},
                    .upper = {upper(shape.padding_w, shape.dilation_w, shape.s), upper(shape.padding_h, shape.dilation_h, shape.r)},
                    .steps = {shape.stride_w, shape.stride_h}},
          TensorMap{.buffer = shape.filters,
                    .offset = 0,
                    .sizes = {shape.depth(), shape.k, 1, 1},
                    .strides = {1, shape.depth(), kAny, kAny},
                    .box = {kTileDepth, filters, 1, 1}}};
}

}  // namespace toroid::schedule
