#include "lower/convolutions/phased_convolution.h"

#include <algorithm>

#include "lower/convolutions/packed_convolution.h"

namespace toroid {
namespace {

constexpr int64_t kEight = 8;  // channels of the results that are written at once, at most those of a pack

bool are_numbers(const std::vector<sym::Expr>& list) {
  return std::all_of(list.begin(), list.end(), [](sym::Expr each) { return each.is_const(); });
}

// The place p of the image reaches the result s * p + tap - padding. So of the results s * i + a those with a + padding = phase (mod s)
// meet the taps phase, phase + s, ..., and the tap t reads the place i + (a + padding - t) / s.
PhasedConvolution::Dim dim_of(int64_t stride, int64_t padding, int64_t taps) {
  PhasedConvolution::Dim dim{
      .stride = stride, .padding = padding, .taps = taps, .phases = std::min(stride, taps), .first_place = 0, .skipped = 0};
  dim.first_place = taps;  // more than any
  for (int64_t a = 0; a < stride; ++a) {
    for (int64_t tap = (a + padding) % stride; tap < taps; tap += stride)
      dim.first_place = std::min(dim.first_place, (a + padding - tap) / stride);
  }
  return dim;
}
int64_t last_place(const PhasedConvolution::Dim& dim) {
  int64_t last = dim.first_place;
  for (int64_t a = 0; a < dim.stride; ++a) {
    const int64_t tap = (a + dim.padding) % dim.stride;
    if (tap < dim.taps) last = std::max(last, (a + dim.padding - tap) / dim.stride);
  }
  return last;
}

}  // namespace

std::optional<PhasedConvolution> phased_convolution(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<Convolution>(&node.op);
  if (op == nullptr || !op->transposed || !op->groups.is_const() || op->stride.size() > 2) return std::nullopt;
  const DType dtype = graph.type(node.outputs[0]).dtype;
  if (dtype != DType::F32 && !is_reduced_float(dtype)) return std::nullopt;
  const std::vector<sym::Expr>&image = graph.type(node.inputs[0]).sizes, &filters = graph.type(node.inputs[1]).sizes,
        &results = graph.type(node.outputs[0]).sizes;
  const bool is_dilated = std::any_of(op->dilation.begin(), op->dilation.end(), [](sym::Expr each) { return !each.is_const(1); });
  if (is_dilated || !are_numbers(op->stride) || !are_numbers(op->padding) || !are_numbers(filters)) return std::nullopt;
  if (std::any_of(filters.begin(), filters.end(), [](sym::Expr size) { return size.value() <= 0; })) return std::nullopt;
  const int64_t groups = op->groups.value();
  if (!sym::known_divisible(filters[0], kEight) || !sym::known_divisible(filters[1] * groups, kEight)) return std::nullopt;
  PhasedConvolution it;
  it.op = {.stride = {}, .padding = {}, .dilation = op->dilation, .output_padding = {}, .transposed = false, .groups = groups};
  it.filter_sizes = {filters[1] * groups, sym::floor_div(filters[0], groups)};
  it.output_sizes = {results[0], filters[1] * groups};
  it.is_plain = true;
  sym::Expr pixels = results[0];
  for (size_t d = 0; d < op->stride.size(); ++d) {
    PhasedConvolution::Dim dim = dim_of(op->stride[d].value(), op->padding[d].value(), filters[d + 2].value());
    const int64_t last = last_place(dim);
    const sym::Expr of_phase = sym::ceil_div(results[d + 2], dim.stride), after = of_phase + last - image[d + 2];
    // The padding before and after are one number. What is beyond the image is zero, so more of it only gives further results.
    if (!after.is_const()) return std::nullopt;
    const int64_t padding = std::max<int64_t>({-dim.first_place, after.value(), 0});
    dim.skipped = padding + dim.first_place;
    const int64_t taps = last - dim.first_place + 1;
    it.op.stride.emplace_back(1);
    it.op.padding.emplace_back(padding);
    it.op.output_padding.emplace_back(0);
    it.filter_sizes[0] = it.filter_sizes[0] * dim.phases;
    it.filter_sizes.emplace_back(taps);
    it.output_sizes[1] = it.output_sizes[1] * dim.phases;
    it.output_sizes.push_back(image[d + 2] + 2 * padding - taps + 1);
    it.is_plain = it.is_plain && dim.stride == 1 && dim.skipped == 0 && sym::known_eq(it.output_sizes.back(), results[d + 2]);
    pixels = pixels * it.output_sizes.back();
    it.dims.push_back(dim);
  }
  if (pixels.is_const() && pixels.value() > kMostPixels) return std::nullopt;
  if (groups > 1 && !has_packed_filters(it.op, dtype, it.filter_sizes)) return std::nullopt;
  return it;
}

// Filters and results by group, phase and channel of the group: so each group has what is its own together.

loop::ExprId phased_filter(loop::ExprTable& exprs, const PhasedConvolution& it, sym::Expr channels, const std::vector<sym::Expr>& index,
                           const LoadAt& element) {
  const sym::Expr groups = it.op.groups, of_group = sym::floor_div(channels, groups);
  std::vector<sym::Expr> from = {index[1], sym::mod(index[0], of_group)};
  sym::Expr phase = sym::floor_div(index[0], of_group), inside = 1;
  if (!groups.is_const(1)) {
    const sym::Expr of_channel = sym::floor_div(it.filter_sizes[0], channels);
    from[0] = index[1] + it.filter_sizes[1] * sym::floor_div(phase, of_channel);
    phase = sym::mod(phase, of_channel);
  }
  for (size_t d = it.dims.size(); d-- > 0;) {
    const PhasedConvolution::Dim& dim = it.dims[d];
    const sym::Expr own = sym::mod(phase, dim.phases), a = sym::mod(own + (dim.stride - dim.padding % dim.stride), dim.stride);
    const sym::Expr tap = a + dim.padding - dim.stride * (index[d + 2] + dim.first_place);
    phase = sym::floor_div(phase, dim.phases);
    from.insert(from.begin() + 2, tap);
    inside = sym::logical_and(inside, sym::logical_and(sym::le(0, tap), sym::lt(tap, dim.taps)));
  }
  return zero_unless(exprs, inside, element(from));
}

loop::ExprId phased_result(loop::ExprTable& exprs, const PhasedConvolution& it, sym::Expr channels, const std::vector<sym::Expr>& index,
                           const LoadAt& element) {
  std::vector<sym::Expr> from = {index[0], 0};
  sym::Expr phase = 0, inside = 1;
  for (size_t d = 0; d < it.dims.size(); ++d) {
    const PhasedConvolution::Dim& dim = it.dims[d];
    const sym::Expr own = sym::mod(index[d + 2] + dim.padding, dim.stride);
    phase = phase * dim.phases + own;
    from.push_back(sym::floor_div(index[d + 2], dim.stride) + dim.skipped);
    if (dim.phases < dim.stride) inside = sym::logical_and(inside, sym::lt(own, dim.phases));
  }
  const sym::Expr groups = it.op.groups, of_group = sym::floor_div(channels, groups);
  from[1] = phase * channels + index[1];
  if (!groups.is_const(1)) {
    const sym::Expr of_channel = sym::floor_div(it.filter_sizes[0], channels), group = sym::floor_div(index[1], of_group);
    from[1] = (group * of_channel + phase) * of_group + sym::mod(index[1], of_group);
  }
  return zero_unless(exprs, inside, element(from));
}

}  // namespace toroid
