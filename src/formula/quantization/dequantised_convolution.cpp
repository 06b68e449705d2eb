#include "formula/quantization/dequantised_convolution.h"

#include <cmath>
#include <optional>
#include <vector>

#include "formula/basics/operators.h"
#include "formula/basics/windows.h"
#include "formula/math/dequantised.h"
#include "formula/math/dequantised_product.h"

namespace toroid::formula {
namespace {

// Of all elements, where it is an integer that the program states and a byte of the dtype holds.
std::optional<int64_t> stated_zero(Tensor zero, DType dtype) {
  if (!zero.defined()) return 0;
  const Node* node = &node_of(zero);
  while (std::holds_alternative<Cast>(node->op) || std::holds_alternative<Expand>(node->op) || std::holds_alternative<Reshape>(node->op))
    node = &zero.builder().graph().producer(node->inputs[0]);
  const auto* full = std::get_if<Full>(&node->op);
  if (full == nullptr) return std::nullopt;
  double value = 0.5;  // no integer
  if (const auto* real = std::get_if<double>(&full->value)) value = *real;
  if (const auto* expr = std::get_if<sym::Expr>(&full->value); expr != nullptr && expr->is_const())
    value = static_cast<double>(expr->value());
  const double least = dtype == DType::I8 ? -128 : 0;
  if (!(value >= least && value <= least + 255) || value != std::floor(value)) return std::nullopt;
  return static_cast<int64_t>(value);
}

bool is_constant_from(Tensor t, size_t first_dim) {
  if (!t.defined()) return true;
  for (size_t dim = first_dim; dim < t.sizes().size(); ++dim) {
    if (!is_constant_along(t, dim)) return false;
  }
  return true;
}

// Its first element along every dim from this one on.
Tensor first_from(Tensor t, int64_t first_dim) {
  for (int64_t dim = first_dim; dim < t.rank(); ++dim) t = t.builder().slice(t, dim, 0, 1);
  return t;
}

// As dequantised() finds it again.
Tensor value_of(Tensor codes, Tensor zero, Tensor scale) {
  Builder& b = codes.builder();
  Tensor value = codes;
  if (zero.defined()) value = b.cast(value, DType::I32) - b.expand(b.cast(zero, DType::I32), codes.sizes());
  value = b.cast(value, DType::F32);
  return scale.defined() ? value * b.expand(b.cast(scale, DType::F32), codes.sizes()) : value;
}

}  // namespace

Tensor dequantised_convolution(Tensor x, Tensor weight, const ConvolutionGeometry& g) {
  if (g.transposed || !g.groups.is_const(1) || x.dtype() != DType::F32 || weight.dtype() != DType::F32) return {};
  if (x.numel().is_const(0) || weight.numel().is_const(0)) return {};
  const std::optional<Dequantised> data = dequantised(x), filter = dequantised(weight);
  if (!data || !filter || !data->scale.defined()) return {};
  const std::optional<int64_t> zero = stated_zero(data->zero, data->quantised.dtype());
  if (!zero || !is_constant_from(data->scale, 0) || !is_constant_from(filter->scale, 1) || !is_constant_from(filter->zero, 1)) return {};

  Builder& b = x.builder();
  const size_t spatial = g.stride.size();
  Sizes low(spatial + 2, 0), result_sizes = {x.size(0)}, axes = {b.axis(x.size(0))}, index = axes, kernel_axes;
  Dims channels_last = {0}, filter_order;
  sym::Expr positions = x.size(0), depth = x.size(1);
  for (size_t i = 0; i < spatial; ++i) {
    const Window window = make_window(x.sizes()[i + 2], weight.sizes()[i + 2], g.stride[i], g.padding[i], g.dilation[i], false);
    channels_last.push_back(static_cast<int64_t>(i + 2));
    filter_order.push_back(static_cast<int64_t>(i + 2));
    low[i + 1] = window.padding;
    result_sizes.push_back(window.count);
    positions = positions * window.count;
    depth = depth * window.kernel;
    const sym::Expr o = axes.emplace_back(b.axis(window.count)), k = kernel_axes.emplace_back(b.axis(window.kernel));
    index.push_back(o * window.stride + k * window.dilation);
  }
  axes.insert(axes.end(), kernel_axes.begin(), kernel_axes.end());
  index.push_back(axes.emplace_back(b.axis(x.size(1))));
  channels_last.push_back(1);
  filter_order.insert(filter_order.end(), {1, 0});
  result_sizes.push_back(weight.size(0));

  Tensor padded = b.pad(b.permute(data->quantised, channels_last), low, low, Scalar(sym::Expr(*zero)));
  Tensor rows = b.reshape(b.remap(padded, axes, index), {positions, depth});
  Tensor columns = b.reshape(b.permute(filter->quantised, filter_order), {depth, weight.size(0)});
  const auto of_channel = [&](Tensor t) { return t.defined() ? b.reshape(first_from(t, 1), {1, weight.size(0)}) : t; };
  Tensor row_zero = *zero == 0 ? Tensor() : b.full({1, 1}, DType::I32, sym::Expr(*zero));
  Tensor scale = b.reshape(first_from(data->scale, 0), {1, 1});
  Tensor product =
      dequantised_product(value_of(rows, row_zero, scale), value_of(columns, of_channel(filter->zero), of_channel(filter->scale)));
  if (!product.defined()) return {};
  Dims back = {0, static_cast<int64_t>(spatial + 1)};
  for (size_t i = 0; i < spatial; ++i) back.push_back(static_cast<int64_t>(i + 1));
  return b.permute(b.reshape(product, result_sizes), back);
}

}  // namespace toroid::formula
