#include "lower/convolutions/deep_convolution.h"

#include <algorithm>

#include "lower/convolutions/packed_convolution.h"

namespace toroid {
namespace {

constexpr int64_t kFiltersAtOnce = 8;  // whose results are written in one access

std::vector<sym::Expr> without_first(const std::vector<sym::Expr>& list) { return {list.begin() + 1, list.end()}; }

}  // namespace

std::optional<DeepConvolution> deep_convolution(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<Convolution>(&node.op);
  if (op == nullptr || op->transposed || op->stride.size() != 3 || !op->groups.is_const(1)) return std::nullopt;
  const DType dtype = graph.type(node.outputs[0]).dtype;
  if (dtype != DType::F32 && !is_reduced_float(dtype)) return std::nullopt;
  const std::vector<sym::Expr>&image = graph.type(node.inputs[0]).sizes, &filters = graph.type(node.inputs[1]).sizes,
        &results = graph.type(node.outputs[0]).sizes;
  const bool is_known = std::all_of(filters.begin(), filters.end(), [](sym::Expr size) { return size.is_const() && size.value() > 0; });
  if (!is_known || !sym::known_divisible(filters[0], kFiltersAtOnce)) return std::nullopt;
  const sym::Expr images = results[0] * results[2], pixels = images * results[3] * results[4];
  if (pixels.is_const() && pixels.value() > kMostPixels) return std::nullopt;
  const sym::Expr channels = sym::align_up(filters[1] * filters[2], channels_of_pack(dtype));
  return DeepConvolution{.depth = results[2],
                         .stride = op->stride[0],
                         .padding = op->padding[0],
                         .dilation = op->dilation[0],
                         .channels = filters[1],
                         .taps = filters[2],
                         .op = {.stride = without_first(op->stride),
                                .padding = without_first(op->padding),
                                .dilation = without_first(op->dilation),
                                .output_padding = {},
                                .transposed = false,
                                .groups = 1},
                         .image_sizes = {images, channels, image[3], image[4]},
                         .filter_sizes = {filters[0], channels, filters[3], filters[4]},
                         .output_sizes = {images, results[1], results[3], results[4]}};
}

loop::ExprId deep_image(loop::ExprTable& exprs, const DeepConvolution& it, const std::vector<sym::Expr>& sizes, const DeepPlace& at,
                        const LoadAt& element) {
  const sym::Expr place = it.stride * at.depth + it.dilation * at.tap - it.padding;
  const sym::Expr is_there = sym::logical_and(sym::lt(at.tap, it.taps), sym::logical_and(sym::le(0, place), sym::lt(place, sizes[2])));
  if (is_there.is_const(1)) return element({at.image, at.channel, place, at.row, at.column});
  // Something of the image is read in any case: only packs that are read unconditionally are read as such.
  const loop::ExprId read = element({at.image, at.channel, sym::min(sym::max(place, 0), sizes[2] - 1), at.row, at.column});
  const loop::ExprId zero = exprs.literal(Scalar(0.0), exprs.dtype(read));
  return exprs.compute(ScalarOp::Where, {exprs.convert(exprs.index(is_there), DType::Bool), read, zero});
}

DeepPlace deep_place(const DeepConvolution& it, const std::vector<sym::Expr>& index) {
  return {.image = sym::floor_div(index[0], it.depth),
          .depth = sym::mod(index[0], it.depth),
          .row = index[2],
          .column = index[3],
          .tap = sym::floor_div(index[1], it.channels),
          .channel = sym::mod(index[1], it.channels)};
}

loop::ExprId deep_filter(loop::ExprTable& exprs, const DeepConvolution& it, const std::vector<sym::Expr>& index, const LoadAt& element) {
  const sym::Expr tap = sym::floor_div(index[1], it.channels), channel = sym::mod(index[1], it.channels);
  return zero_unless(exprs, sym::lt(tap, it.taps), element({index[0], channel, tap, index[2], index[3]}));
}

}  // namespace toroid
