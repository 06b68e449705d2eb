#include "formula/backward/convolution_backward.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// The number of spatial dims.
size_t require_ranks(Tensor grad, Tensor x, Tensor weight) {
  const size_t spatial = dims_before(x, 2);
  if (spatial == 0 || weight.rank() != x.rank() || grad.rank() != x.rank()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("the gradient of a convolution takes tensors of one rank, 3 or more: {}, {} and {}",
                                                     x.builder().describe(grad), x.builder().describe(x), x.builder().describe(weight)));
  }
  return spatial;
}

// The formulas below read as many elements of the gradient as the convolution gave. Throws Error{InvalidModel} where their numbers differ.
void require_result_sizes(Tensor grad, Tensor x, Tensor weight, const ConvolutionGeometry& g) {
  require_geometry(g.stride, g.dilation, g.padding);
  Sizes sizes = {x.size(0), g.transposed ? weight.size(1) * g.groups : weight.size(0)};
  for (size_t i = 0; i < g.stride.size(); ++i) {
    const sym::Expr size = x.sizes()[i + 2], reach = g.dilation[i] * (weight.sizes()[i + 2] - 1) + 1;
    sizes.push_back(g.transposed ? (size - 1) * g.stride[i] - g.padding[i] * 2 + reach + g.output_padding[i]
                                 : sym::floor_div(size + g.padding[i] * 2 - reach, g.stride[i]) + 1);
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    x.builder().require_equal(grad.sizes()[d], sizes[d], fmt::format("size {} of the convolution's gradient", d));
  }
}

// The first `sizes` elements of the dims from 2 on.
Tensor crop_spatial(Tensor x, std::span<const sym::Expr> sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) x = x.builder().slice(x, static_cast<int64_t>(i) + 2, 0, sizes[i]);
  return x;
}

// [N, g*C, …] -> [C, g*N, …]: what a group's sums run over becomes its channels.
Tensor batch_as_channels(Tensor x, sym::Expr groups) {
  Builder& b = x.builder();
  if (groups.is_const(1)) return b.transpose(x, 0, 1);
  const sym::Expr channels = sym::floor_div(x.size(1), groups);
  Sizes split = {x.size(0), groups, channels}, merged = {channels, groups * x.size(0)};
  split.append(x.sizes().without_first(2));
  merged.append(x.sizes().without_first(2));
  Dims order = {2, 1, 0};
  for (int64_t d = 3; d <= x.rank(); ++d) order.push_back(d);
  return b.reshape(b.permute(b.reshape(x, split), order), merged);
}

// Does the kernel take it? Groups of few channels or filters, but for one of each, would leave most of it idle.
bool suits_backward_weights(Tensor read, Tensor given, const ConvolutionGeometry& g) {
  constexpr int64_t kMostDims = 2, kLeastOfGroup = 8;
  if (read.dtype() != DType::F32 || given.dtype() != DType::F32 || g.stride.size() > kMostDims) return false;
  if (g.groups.is_const(1)) return true;
  if (sym::known_eq(read.size(1), g.groups) && sym::known_eq(given.size(1), g.groups)) return true;  // depthwise
  const auto has_many = [&](Tensor x) { return sym::known_le(kLeastOfGroup, sym::floor_div(x.size(1), g.groups)); };
  return has_many(read) && has_many(given);
}

// The weight's gradient of a convolution that reads `read` and gives `given`, [given's channels, read's / groups, …].
Tensor weight_gradient(Tensor read, Tensor given, const ConvolutionGeometry& g, std::span<const sym::Expr> kernel,
                       bool has_backward_weights) {
  Builder& b = read.builder();
  if (has_backward_weights && suits_backward_weights(read, given, g)) {
    Sizes sizes = {given.size(1), sym::floor_div(read.size(1), g.groups)};
    sizes.insert(sizes.end(), kernel.begin(), kernel.end());
    std::vector<Scalar> attributes = {g.groups};
    for (const Sizes* list : {&g.stride, &g.padding, &g.dilation}) attributes.insert(attributes.end(), list->begin(), list->end());
    return b.library("convolution.backward_weights", {read, given}, {{.dtype = read.dtype(), .sizes = sizes}}, std::move(attributes))[0];
  }
  for (size_t i = 0; i < kernel.size(); ++i) {
    // What no window reaches would only give further sums.
    const sym::Expr reached = (given.sizes()[i + 2] - 1) * g.stride[i] + g.dilation[i] * (kernel[i] - 1) + 1 - g.padding[i];
    if (sym::known_lt(0, reached) && sym::known_lt(reached, read.sizes()[i + 2]))
      read = b.slice(read, static_cast<int64_t>(i) + 2, 0, reached);
  }
  Tensor sums = b.convolution(batch_as_channels(read, g.groups), b.transpose(given, 0, 1), {}, g.dilation, g.padding, g.stride, false,
                              Sizes(kernel.size(), 0), g.groups);
  return b.transpose(crop_spatial(sums, kernel), 0, 1);  // rows that the stride left unread would give further elements
}

// [g*O, C, …] -> [g*C, O, …], each filter from its last element to its first.
Tensor flipped_filters(Tensor weight, sym::Expr groups) {
  Builder& b = weight.builder();
  Dims spatial;
  for (int64_t d = 2; d < weight.rank(); ++d) spatial.push_back(d);
  Tensor flipped = b.flip(weight, spatial);
  if (groups.is_const(1)) return b.transpose(flipped, 0, 1);
  Sizes split = {groups, sym::floor_div(weight.size(0), groups), weight.size(1)}, merged = {groups * split[2], split[1]};
  split.append(weight.sizes().without_first(2));
  merged.append(weight.sizes().without_first(2));
  Dims order = {0, 2, 1};
  for (int64_t d = 3; d <= weight.rank(); ++d) order.push_back(d);
  return b.reshape(b.permute(b.reshape(flipped, split), order), merged);
}

// The padding with which a convolution of the gradient with flipped filters gives the input's; none where that is no such convolution.
std::optional<Sizes> padding_of_flipped(Tensor weight, const ConvolutionGeometry& g) {
  Sizes padding;
  for (size_t i = 0; i < g.stride.size(); ++i) {
    padding.push_back(g.dilation[i] * (weight.sizes()[i + 2] - 1) - g.padding[i]);
    if (!g.stride[i].is_const(1) || !sym::known_le(0, padding.back())) return std::nullopt;
  }
  return padding;
}

// Of the input's elements stride * j + a the j-th meets the taps first, first + stride, …, and the m-th of these reads the gradient's
// element j + place - m.
struct Phase {
  int64_t first, taps, place;
};
Phase phase_of(int64_t a, int64_t stride, int64_t padding, int64_t kernel) {
  const int64_t first = (a + padding) % stride;
  return {first, first < kernel ? (kernel - first - 1) / stride + 1 : 0, (a + padding - first) / stride};
}

constexpr int64_t kMostPhases = 4;

// Are the elements of each phase, which see taps of their own, a convolution with these taps?
bool has_phases(Tensor grad, Tensor weight, const ConvolutionGeometry& g, std::span<const sym::Expr> input) {
  int64_t phases = 1;
  for (size_t i = 0; i < input.size(); ++i) {
    for (const sym::Expr number : {g.stride[i], g.padding[i], input[i], grad.sizes()[i + 2], weight.sizes()[i + 2]}) {
      if (!number.is_const()) return false;
    }
    if (!g.dilation[i].is_const(1) || input[i].value() < g.stride[i].value()) return false;
    phases *= std::min(g.stride[i].value(), kMostPhases + 1);
  }
  return input.size() <= 2 && phases > 1 && phases <= kMostPhases;
}

// The input's elements of these phases, one for each dim: `counts` of them.
Tensor input_gradient_of(Tensor grad, Tensor weight, const ConvolutionGeometry& g, std::span<const Phase> phases,
                         std::span<const int64_t> counts, sym::Expr channels) {
  Builder& b = grad.builder();
  Sizes sizes = {grad.size(0), channels}, padding;
  for (const int64_t count : counts) sizes.emplace_back(count);
  std::vector<int64_t> unwanted;  // results before the first
  for (size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    const auto d = static_cast<int64_t>(i) + 2;
    if (phase.taps == 0) return b.full(sizes, grad.dtype(), 0.0);
    weight = b.slice(weight, d, phase.first, phase.taps, g.stride[i]);
    const int64_t before = phase.taps - 1 - phase.place, behind = counts[i] + phase.place - grad.size(d).value();
    padding.emplace_back(std::max<int64_t>({before, behind, 0}));
    unwanted.push_back(padding.back().value() - before);
  }
  const Sizes ones(phases.size(), 1);
  Tensor made = b.convolution(grad, flipped_filters(weight, g.groups), {}, ones, padding, ones, false, Sizes(phases.size(), 0), g.groups);
  for (size_t i = 0; i < phases.size(); ++i) made = b.slice(made, static_cast<int64_t>(i) + 2, unwanted[i], counts[i]);
  return made;
}

// The transposed convolution of a stride as convolutions, one for each phase, whose results take turns.
Tensor input_gradient_in_phases(Tensor grad, Tensor weight, const ConvolutionGeometry& g, std::span<const sym::Expr> input) {
  Builder& b = grad.builder();
  const size_t dims = input.size();
  const sym::Expr channels = weight.size(1) * g.groups;
  std::vector<int64_t> counts, strides;
  for (size_t i = 0; i < dims; ++i) {
    strides.push_back(g.stride[i].value());
    counts.push_back((input[i].value() + strides[i] - 1) / strides[i]);
  }
  std::vector<Phase> phases(dims);
  const auto along = [&](const auto& self, size_t i) -> Tensor {
    if (i == dims) {
      Sizes apart = {grad.size(0), channels};
      for (const int64_t count : counts) apart.insert(apart.end(), {count, 1});
      return b.reshape(input_gradient_of(grad, weight, g, phases, counts, channels), apart);
    }
    std::vector<Tensor> parts;
    for (int64_t a = 0; a < strides[i]; ++a) {
      phases[i] = phase_of(a, strides[i], g.padding[i].value(), weight.sizes()[i + 2].value());
      parts.push_back(self(self, i + 1));
    }
    return parts.size() == 1 ? parts[0] : b.cat(parts, static_cast<int64_t>(2 * i) + 3);
  };
  const Tensor in_turns = along(along, 0);
  Sizes merged = {grad.size(0), channels};
  for (size_t i = 0; i < dims; ++i) merged.emplace_back(counts[i] * strides[i]);
  return crop_spatial(b.reshape(in_turns, merged), input);
}

Tensor input_gradient(Tensor grad, Tensor weight, const ConvolutionGeometry& g, std::span<const sym::Expr> input, bool flips_filters) {
  Builder& b = grad.builder();
  if (g.transposed) {
    Tensor gradient = b.convolution(grad, weight, {}, g.stride, g.padding, g.dilation, false, Sizes(input.size(), 0), g.groups);
    return crop_spatial(gradient, input);
  }
  if (const auto padding = flips_filters ? padding_of_flipped(weight, g) : std::nullopt)
    return b.convolution(grad, flipped_filters(weight, g.groups), {}, g.stride, *padding, g.dilation, false, Sizes(input.size(), 0),
                         g.groups);
  if (flips_filters && has_phases(grad, weight, g, input)) return input_gradient_in_phases(grad, weight, g, input);
  Sizes unread;  // elements at the end that no window reaches
  for (size_t i = 0; i < input.size(); ++i) {
    const sym::Expr reach = g.dilation[i] * (weight.sizes()[i + 2] - 1) + 1;
    unread.push_back(input[i] + g.padding[i] * 2 - reach - (grad.sizes()[i + 2] - 1) * g.stride[i]);
  }
  return b.convolution(grad, weight, {}, g.stride, g.padding, g.dilation, true, unread, g.groups);
}

}  // namespace

ConvolutionGradients convolution_backward(Tensor grad, Tensor x, Tensor weight, ConvolutionGeometry g, const std::array<bool, 3>& wanted,
                                          const BackwardForms& forms) {
  Builder& b = x.builder();
  const Sizes spatial = x.sizes().without_first(2), kernel = weight.sizes().without_first(2);
  const bool nothing = x.numel().is_const(0) || grad.numel().is_const(0) || weight.numel().is_const(0);
  if (!nothing) {
    g = per_dim(std::move(g), require_ranks(grad, x, weight));
    require_result_sizes(grad, x, weight, g);
  }
  ConvolutionGradients gradients;
  if (wanted[0]) gradients.x = nothing ? b.full(x.sizes(), x.dtype(), 0.0) : input_gradient(grad, weight, g, spatial, forms.flips_filters);
  if (wanted[1]) {
    gradients.weight = nothing        ? b.full(weight.sizes(), weight.dtype(), 0.0)
                       : g.transposed ? weight_gradient(grad, x, g, kernel, forms.has_backward_weights)
                                      : weight_gradient(x, grad, g, kernel, forms.has_backward_weights);
  }
  if (wanted[2]) gradients.bias = wide_sum(grad, all_but(grad.rank(), 1));
  return gradients;
}

}  // namespace toroid::formula
