#include "formula/convolution/convolution.h"

#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/channels.h"
#include "formula/basics/operators.h"
#include "formula/convolution/filter_elements.h"
#include "formula/quantization/dequantised_convolution.h"

namespace toroid::formula {

ConvolutionGeometry per_dim(ConvolutionGeometry g, size_t spatial) {
  if (g.output_padding.empty()) g.output_padding.assign(spatial, 0);
  for (Sizes* list : {&g.stride, &g.padding, &g.dilation, &g.output_padding}) {
    if (list->size() == 1) list->resize(spatial, list->front());
    if (list->size() == spatial) continue;
    throw Error(ErrorKind::InvalidModel, fmt::format("a list of {} entries for {} spatial dims", list->size(), spatial));
  }
  return g;
}

void require_geometry(const Sizes& stride, const Sizes& dilation, const Sizes& padding) {
  const auto require_least = [](const Sizes& sizes, int64_t least, std::string_view name) {
    for (sym::Expr size : sizes) {
      if (!sym::known_lt(size, least)) continue;
      throw Error(ErrorKind::InvalidModel,
                  fmt::format("a convolution's {} is {}, but must be {} or more", name, sym::to_string(size), least));
    }
  };
  require_least(stride, 1, "stride");
  require_least(dilation, 1, "dilation");
  require_least(padding, 0, "padding");
}

namespace {

// The number of spatial dims: weights are [out, in, spatial…].
size_t spatial_rank(Tensor weight) {
  if (weight.rank() < 3) {
    throw Error(ErrorKind::InvalidModel, fmt::format("convolution weight of rank {}", weight.rank()));
  }
  return static_cast<size_t>(weight.rank() - 2);
}

// Runs `f` on x with a batch dim, and takes the batch dim away again where the caller had none.
template <class F>
Tensor with_batch(Tensor x, size_t spatial, F f) {
  Builder& b = x.builder();
  if (x.rank() != static_cast<int64_t>(spatial) + 1) return f(x);
  return b.squeeze(f(b.unsqueeze(x, 0)), 0);
}

// Every group of channels writes the same number of them. That the weights fit the input the builder checks.
void require_groups(Tensor weight, const ConvolutionGeometry& g) {
  if (!g.groups.is_const() || !weight.size(0).is_const()) return;
  if (g.groups.value() > 0 && weight.size(0).value() % g.groups.value() == 0) return;
  throw Error(ErrorKind::InvalidModel,
              fmt::format("a convolution of {} groups with weights {}", sym::to_string(g.groups), to_string(weight.type())));
}

void require_bias(Tensor x, Tensor bias, sym::Expr filters) {
  const bool fits =
      bias.rank() == 1 && bias.dtype() == x.dtype() && !sym::known_lt(bias.size(0), filters) && !sym::known_lt(filters, bias.size(0));
  if (fits) return;
  throw Error(ErrorKind::InvalidModel, fmt::format("a convolution of {} to {} channels with a bias {}", to_string(x.type()),
                                                   sym::to_string(filters), to_string(bias.type())));
}

}  // namespace

Tensor convolution(Tensor x, Tensor weight, Tensor bias, ConvolutionGeometry g, ConvolutionForms forms) {
  const size_t spatial = spatial_rank(weight);
  require_groups(weight, g);
  require_geometry(g.stride, g.dilation, g.padding);
  g = per_dim(std::move(g), spatial);
  if (bias.defined()) require_bias(x, bias, g.transposed ? weight.size(1) * g.groups : weight.size(0));
  return with_batch(x, spatial, [&](Tensor batched) {
    const auto with_bias = [&](Tensor y) { return bias.defined() ? y + per_channel(bias, y.rank()) : y; };
    Tensor y = dequantised_convolution(batched, weight, g, forms.of_bytes);
    if (y.defined()) return with_bias(y);
    const Tensor inside = without_elements_outside(batched, weight, g);
    if (forms.sums_elements) y = convolution_by_elements(batched, inside, g);
    if (y.defined()) return with_bias(y);
    y = batched.builder().convolution(batched, inside, bias, g.stride, g.padding, g.dilation, g.transposed, g.output_padding, g.groups);
    // Without channels to read PyTorch has none to write either.
    return batched.size(1).is_const(0) ? y.builder().slice(y, 1, 0, 0) : y;
  });
}

Tensor convolution_same(Tensor x, Tensor weight, Tensor bias, ConvolutionGeometry g) {
  const size_t spatial = spatial_rank(weight);
  g.padding = Sizes(spatial, 0);
  g = per_dim(std::move(g), spatial);
  return with_batch(x, spatial, [&](Tensor batched) {
    Sizes low(spatial + 2, 0), high(spatial + 2, 0);
    for (size_t i = 0; i < spatial; ++i) {
      const sym::Expr total = g.dilation[i] * (weight.sizes()[i + 2] - 1);
      g.padding[i] = sym::floor_div(total, 2);
      high[i + 2] = total - g.padding[i] * 2;
    }
    return convolution(batched.builder().pad(batched, low, high, 0.0), weight, bias, g);
  });
}

}  // namespace toroid::formula
