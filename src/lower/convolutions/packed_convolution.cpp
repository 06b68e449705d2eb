#include "lower/convolutions/packed_convolution.h"

#include <algorithm>

#include "lower/layouts.h"

namespace toroid {
namespace {

constexpr int kPackBytes = 16, kOfPixel = 4;  // channels of one pixel of a pair
constexpr int64_t kFilters = 8;               // whose results are written at once
constexpr int64_t kLeastOfGroup = 16;         // filters and channels: of fewer, most of a tile is in vain

// Where an element of a pair is, in the last dim of what there was: `before` its first place.
sym::Expr place_in_pairs(const std::vector<sym::Expr>& index, sym::Expr before) {
  return index.back() * 2 + sym::floor_div(index[1], kOfPixel) - before;
}

loop::ExprId packed(loop::ExprTable& exprs, const PackedConvolution& it, sym::Expr before, const std::vector<sym::Expr>& sizes,
                    const std::vector<sym::Expr>& index, const LoadAt& element) {
  std::vector<sym::Expr> from = index;
  sym::Expr inside = 1;
  if (it.has_pairs) {
    from[1] = sym::mod(index[1], kOfPixel);
    from.back() = place_in_pairs(index, before);
    inside = sym::logical_and(sym::le(0, from.back()), sym::lt(from.back(), sizes.back()));
  }
  return zero_unless(exprs, sym::logical_and(inside, sym::lt(from[1], sizes[1])), element(from));
}

}  // namespace

loop::ExprId zero_unless(loop::ExprTable& exprs, sym::Expr holds, loop::ExprId value) {
  if (holds.is_const(1)) return value;
  return exprs.masked(exprs.convert(exprs.index(holds), DType::Bool), value, exprs.literal(Scalar(0.0), exprs.dtype(value)));
}

bool is_packed_convolution(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<Convolution>(&node.op);
  if (op == nullptr || !is_channels_last_convolution(graph, node) || !op->groups.is_const()) return false;
  const std::vector<sym::Expr>& filters = graph.type(node.inputs[1]).sizes;
  const bool is_known = std::all_of(filters.begin(), filters.end(), [](sym::Expr size) { return size.is_const() && size.value() > 0; });
  const std::vector<sym::Expr>& sizes = graph.type(node.outputs[0]).sizes;
  sym::Expr pixels = sizes[0];
  for (size_t d = 2; d < sizes.size(); ++d) pixels = pixels * sizes[d];
  const bool has_too_many = pixels.is_const() && pixels.value() > kMostPixels;
  if (!is_known || has_too_many) return false;
  const int64_t groups = op->groups.value(), of_group = filters[0].value() / groups;
  if (groups == 1) return of_group % kFilters == 0;
  const DType dtype = graph.type(node.outputs[0]).dtype;
  const bool are_packs = of_group % kFilters == 0 && filters[1].value() % channels_of_pack(dtype) == 0;
  return is_reduced_float(dtype) && are_packs && std::min(of_group, filters[1].value()) >= kLeastOfGroup;
}

int channels_of_pack(DType dtype) { return kPackBytes / static_cast<int>(size_bytes(dtype)); }

PackedConvolution packed_convolution(const Convolution& op, DType dtype, const std::vector<sym::Expr>& image_sizes,
                                     const std::vector<sym::Expr>& filter_sizes, const std::vector<sym::Expr>& output_sizes) {
  PackedConvolution it{op, image_sizes, filter_sizes};
  const int pack = channels_of_pack(dtype);
  if (sym::known_divisible(filter_sizes[1], pack)) return it;
  const bool has_two_strides = op.stride.back().is_const(2) && op.dilation.back().is_const(1);
  it.has_pairs = pack == 2 * kOfPixel && filter_sizes[1].value() <= kOfPixel && has_two_strides;
  it.image_sizes[1] = it.filter_sizes[1] = sym::align_up(filter_sizes[1], pack);
  if (!it.has_pairs) return it;
  it.op.stride.back() = 1;
  it.op.padding.back() = 0;
  it.filter_sizes.back() = sym::ceil_div(filter_sizes.back(), 2);
  it.image_sizes.back() = output_sizes.back() + it.filter_sizes.back() - 1;
  return it;
}

loop::ExprId packed_image(loop::ExprTable& exprs, const PackedConvolution& it, const Convolution& op, const std::vector<sym::Expr>& sizes,
                          const std::vector<sym::Expr>& index, const LoadAt& element) {
  return packed(exprs, it, op.padding.back(), sizes, index, element);
}

loop::ExprId packed_filter(loop::ExprTable& exprs, const PackedConvolution& it, const std::vector<sym::Expr>& sizes,
                           const std::vector<sym::Expr>& index, const LoadAt& element) {
  return packed(exprs, it, 0, sizes, index, element);
}

}  // namespace toroid
