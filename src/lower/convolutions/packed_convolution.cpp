#include "lower/convolutions/packed_convolution.h"

#include <algorithm>

#include "lower/layouts.h"

namespace toroid {
namespace {

constexpr int kPackBytes = 16, kOfPixel = 4;  // channels of one pixel of a pair
constexpr int64_t kFilters = 8;               // whose results are written at once
constexpr int64_t kLeastOfGroup = 16;         // filters and channels: of fewer, most of a tile is in vain
constexpr int64_t kMostOfGroup = 64, kFour = 4;

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
  return is_known && !has_too_many && has_packed_filters(*op, graph.type(node.outputs[0]).dtype, filters);
}

bool has_packed_filters(const Convolution& op, DType dtype, const std::vector<sym::Expr>& filters) {
  const int64_t groups = op.groups.value(), of_group = filters[0].value() / groups;
  if (groups == 1) return of_group % kFilters == 0;
  const bool are_packs = of_group % kFilters == 0 && filters[1].value() % channels_of_pack(dtype) == 0;
  if (is_reduced_float(dtype) && are_packs && std::min(of_group, filters[1].value()) >= kLeastOfGroup) return true;
  return has_narrow_groups(op, dtype, filters);
}

bool has_narrow_groups(const Convolution& op, DType dtype, const std::vector<sym::Expr>& filters) {
  if (!is_reduced_float(dtype) || op.transposed || op.stride.size() > 2 || !op.groups.is_const()) return false;
  const auto are_numbers = [](const auto& list) { return std::ranges::all_of(list, [](sym::Expr each) { return each.is_const(); }); };
  if (!are_numbers(filters) || !are_numbers(op.stride) || !are_numbers(op.dilation) || !are_numbers(op.padding)) return false;
  const int64_t groups = op.groups.value(), channels = filters[1].value(), pack = channels_of_pack(dtype);
  const int64_t of_group = filters[0].value() / groups;
  const bool is_few = std::max(channels, of_group) <= kMostOfGroup && std::min(channels, of_group) > 0 && of_group % kFour == 0;
  const bool are_packs = channels % pack == 0 || (channels == kFour && groups % 2 == 0);
  if (groups == 1 || !is_few || !are_packs || filters[0].value() % kFilters != 0) return false;
  constexpr int64_t kPixels = 16, kMostPacks = 256;  // of a filter: the kernel's text has each four
  int64_t taps = 1;
  for (size_t d = 2; d < filters.size(); ++d) taps *= std::min(filters[d].value(), kMostPacks + 1);
  if (taps * std::max<int64_t>(channels / pack, 1) > kMostPacks) return false;
  const int64_t at_once = channels % pack == 0 && of_group % kFilters == 0 ? 1 : 2, packs = at_once * channels / pack | 1;
  const auto reads = [&](size_t from_end, int64_t results) {  // along the last dim but so many
    const auto number = [&](const auto& list) { return list[list.size() - 1 - from_end].value(); };
    return (results - 1) * number(op.stride) + (number(filters) - 1) * number(op.dilation) + 1;
  };
  const int64_t across = reads(0, kPixels), down = op.stride.size() > 1 ? reads(1, 1) : 1;
  const int64_t sums = kPixels * (at_once * of_group + 8) * 4;
  return std::max(across, down) <= kMostGroupBytes && across * down * packs * kPackBytes + sums <= kMostGroupBytes;
}

int channels_of_pack(DType dtype) { return kPackBytes / static_cast<int>(size_bytes(dtype)); }

PackedConvolution packed_convolution(const Convolution& op, DType dtype, const std::vector<sym::Expr>& image_sizes,
                                     const std::vector<sym::Expr>& filter_sizes, const std::vector<sym::Expr>& output_sizes) {
  PackedConvolution it{op, image_sizes, filter_sizes};
  const int pack = channels_of_pack(dtype);
  if (sym::known_divisible(filter_sizes[1], pack) || !op.groups.is_const(1)) return it;
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
