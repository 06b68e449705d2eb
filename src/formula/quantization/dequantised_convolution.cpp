#include "formula/quantization/dequantised_convolution.h"

#include <algorithm>
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
  const std::optional<double> value = stated_number(zero);
  const double least = dtype == DType::I8 ? -128 : 0;
  if (!value || !(*value >= least && *value <= least + 255) || *value != std::floor(*value)) return std::nullopt;
  return static_cast<int64_t>(*value);
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

// The convolution's factors and where its windows are.
struct BytesConvolution {
  Dequantised data, filter;
  int64_t zero;  // of the data
  std::vector<Window> windows;
};

// The codes with channels last, [N, i…, C], and codes of zero in the margin.
Tensor padded_codes(const BytesConvolution& c) {
  Builder& b = c.data.quantised.builder();
  Sizes low(c.windows.size() + 2, 0);
  Dims channels_last = {0};
  for (size_t i = 0; i < c.windows.size(); ++i) {
    low[i + 1] = c.windows[i].padding;
    channels_last.push_back(static_cast<int64_t>(i + 2));
  }
  channels_last.push_back(1);
  return b.pad(b.permute(c.data.quantised, channels_last), low, low, Scalar(sym::Expr(c.zero)));
}

// A result with channels last, with channels behind the batch.
Tensor channels_second(Tensor y) {
  Dims back = {0, y.rank() - 1};
  for (int64_t i = 1; i < y.rank() - 1; ++i) back.push_back(i);
  return y.builder().permute(y, back);
}

// Is it a product of the codes of pixels?
bool is_of_pixels(const BytesConvolution& c) {
  return std::all_of(c.windows.begin(), c.windows.end(),
                     [](const Window& window) { return window.kernel.is_const(1) && window.padding.is_const(0); });
}
// Of all pixels, as they lie.
bool is_of_all_pixels(const BytesConvolution& c) {
  return is_of_pixels(c) && std::all_of(c.windows.begin(), c.windows.end(), [](const Window& window) { return window.stride.is_const(1); });
}

// All channels in and out: windows of the codes as rows, filters as columns.
Tensor as_product(const BytesConvolution& c) {
  Builder& b = c.data.quantised.builder();
  const sym::Expr n = b.axis(c.data.quantised.size(0)), filters = c.filter.quantised.size(0);
  Sizes result_sizes = {c.data.quantised.size(0)}, axes = {n}, index = {n}, kernel_axes;
  Dims filter_order;
  sym::Expr positions = c.data.quantised.size(0), depth = c.data.quantised.size(1);
  for (const Window& window : c.windows) {
    filter_order.push_back(static_cast<int64_t>(filter_order.size() + 2));
    result_sizes.push_back(window.count);
    positions = positions * window.count;
    depth = depth * window.kernel;
    const sym::Expr o = axes.emplace_back(b.axis(window.count)), k = kernel_axes.emplace_back(b.axis(window.kernel));
    index.push_back(o * window.stride + k * window.dilation);
  }
  axes.insert(axes.end(), kernel_axes.begin(), kernel_axes.end());
  index.push_back(axes.emplace_back(b.axis(c.data.quantised.size(1))));
  filter_order.insert(filter_order.end(), {1, 0});
  result_sizes.push_back(filters);

  Tensor rows = b.reshape(b.remap(padded_codes(c), axes, index), {positions, depth});
  Tensor columns = b.reshape(b.permute(c.filter.quantised, filter_order), {depth, filters});
  const auto of_channel = [&](Tensor t) { return t.defined() ? b.reshape(first_from(t, 1), {1, filters}) : t; };
  Tensor row_zero = c.zero == 0 ? Tensor() : b.full({1, 1}, DType::I32, sym::Expr(c.zero));
  Tensor scale = b.reshape(first_from(c.data.scale, 0), {1, 1});
  Tensor product =
      dequantised_product(value_of(rows, row_zero, scale), value_of(columns, of_channel(c.filter.zero), of_channel(c.filter.scale)));
  return product.defined() ? channels_second(b.reshape(product, result_sizes)) : Tensor();
}

// Signed codes as unsigned ones, the zero point moved with them: a target multiplies these quickest (lower/convolutions).
void make_unsigned(BytesConvolution& c) {
  if (c.data.quantised.dtype() == DType::U8) return;
  Builder& b = c.data.quantised.builder();
  constexpr int64_t kMiddle = 128;
  Tensor moved = b.binary(ScalarOp::Add, b.cast(c.data.quantised, DType::I32), Scalar(sym::Expr(kMiddle)));
  c.data.quantised = b.cast(moved, DType::U8);
  c.zero += kMiddle;
}

// Do the windows have so few codes of an image, as of three colours by 3x3 filters, that in vectors products of bytes save no time?
bool has_small_windows(const BytesConvolution& c) {
  constexpr int64_t kMostChannels = 4, kMostCodes = 64;
  const sym::Expr channels = c.data.quantised.size(1);
  sym::Expr codes = channels;
  for (const Window& window : c.windows) codes = codes * window.kernel;
  return sym::known_le(channels, kMostChannels) && sym::known_le(codes, kMostCodes) && !sym::known_eq(codes, channels);
}

// Do groups have so few channels that vectors of floats are as quick?
bool has_narrow_groups(const BytesConvolution& c, sym::Expr groups) {
  constexpr int64_t kLeast = 4;
  const bool is_depthwise = sym::known_eq(groups, c.data.quantised.size(1)) && sym::known_eq(groups, c.filter.quantised.size(0));
  return !groups.is_const(1) && !is_depthwise && !sym::known_le(kLeast, c.filter.quantised.size(1));
}

// Codes of zero around the image. Few channels stay planes, which a kernel pads along their rows; the library puts their codes next to each
// other.
Tensor with_margin(const BytesConvolution& c) {
  constexpr int64_t kMostPlanes = 4;
  if (!sym::known_le(c.data.quantised.size(1), kMostPlanes)) return channels_second(padded_codes(c));
  Sizes low = {0, 0};
  for (const Window& window : c.windows) low.push_back(window.padding);
  return c.data.quantised.builder().pad(c.data.quantised, low, low, Scalar(sym::Expr(c.zero)));
}

// Codes of zero in the margin are 0 as a convolution has them, or are copied with the image.
Tensor as_convolution(BytesConvolution c, sym::Expr groups) {
  Builder& b = c.data.quantised.builder();
  if (c.windows.size() > 2 || c.filter.quantised.dtype() != DType::I8 || stated_zero(c.filter.zero, DType::I8) != 0) return {};
  if (has_narrow_groups(c, groups)) return {};
  sym::Expr depth = c.filter.quantised.size(1);
  Sizes stride, padding, dilation;
  for (const Window& window : c.windows) {
    if (!window.kernel.is_const()) return {};
    depth = depth * window.kernel;
    stride.push_back(window.stride);
    padding.push_back(window.padding);
    dilation.push_back(window.dilation);
  }
  constexpr int64_t kMostDepth = 1 << 16;  // whose products of bytes, of at most 255 by 128, have sums of 32 bits
  if (!sym::known_le(depth, kMostDepth)) return {};
  make_unsigned(c);

  const Sizes none(stride.size(), 0);
  const sym::Expr filters = c.filter.quantised.size(0);
  Tensor filter = b.cast(c.filter.quantised, DType::I32);
  const bool is_padded = std::any_of(padding.begin(), padding.end(), [](sym::Expr each) { return !each.is_const(0); });
  Tensor codes = c.zero != 0 && is_padded ? with_margin(c) : c.data.quantised;
  Tensor sums = b.convolution(b.cast(codes, DType::I32), filter, {}, stride, c.zero == 0 ? padding : none, dilation, false, none, groups);
  Sizes of_filters(static_cast<size_t>(sums.rank()), 1);
  of_filters[1] = filters;
  if (c.zero != 0) {
    Tensor of_filter = b.cast(b.sum(b.reshape(filter, {filters, depth}), {1}), DType::I32);
    sums = sums - b.reshape(b.binary(ScalarOp::Mul, of_filter, Scalar(sym::Expr(c.zero))), of_filters);
  }
  Tensor scale = b.cast(b.reshape(first_from(c.data.scale, 0), {1}), DType::F32);
  if (c.filter.scale.defined()) scale = scale * b.cast(b.reshape(first_from(c.filter.scale, 1), {filters}), DType::F32);
  return b.cast(sums, DType::F32) * (c.filter.scale.defined() ? b.reshape(scale, of_filters) : scale);
}

}  // namespace

Tensor dequantised_convolution(Tensor x, Tensor weight, const ConvolutionGeometry& g, ByteConvolutions which) {
  if (which == ByteConvolutions::None || g.transposed || x.dtype() != DType::F32 || weight.dtype() != DType::F32) return {};
  if (x.numel().is_const(0) || weight.numel().is_const(0)) return {};
  const std::optional<Dequantised> data = dequantised(x), filter = dequantised(weight);
  if (!data || !filter || !data->scale.defined()) return {};
  const std::optional<int64_t> zero = stated_zero(data->zero, data->quantised.dtype());
  if (!zero || !is_constant_from(data->scale, 0) || !is_constant_from(filter->scale, 1) || !is_constant_from(filter->zero, 1)) return {};

  BytesConvolution bytes = {*data, *filter, *zero, {}};
  for (size_t i = 0; i < g.stride.size(); ++i)
    bytes.windows.push_back(make_window(x.sizes()[i + 2], weight.sizes()[i + 2], g.stride[i], g.padding[i], g.dilation[i], false));
  if (g.groups.is_const(1) && has_small_windows(bytes)) return {};
  if (which == ByteConvolutions::OfPixels) return g.groups.is_const(1) && is_of_pixels(bytes) ? as_product(bytes) : Tensor();
  const bool is_product = g.groups.is_const(1) && is_of_all_pixels(bytes);
  Tensor result = is_product ? Tensor() : as_convolution(bytes, g.groups);
  return result.defined() || !g.groups.is_const(1) ? result : as_product(bytes);
}

}  // namespace toroid::formula
