#include "formula/nn/adaptive_pooling.h"

#include <numeric>

#include "base/error.h"
#include "formula/basics/limits.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "formula/nn/pooling.h"

namespace toroid::formula {

AdaptiveWindow adaptive_window(sym::Expr input, sym::Expr count) {
  if (count.is_const() && count.value() < 0) throw Error(ErrorKind::InvalidModel, "adaptive pooling to less than nothing");
  if (count.is_const(0)) return {input, 0, 1, true};
  if (sym::known_divisible(input, count)) return {input, count, sym::floor_div(input, count), true};
  if (!input.is_const() || !count.is_const()) return {input, count, sym::ceil_div(input, count) + 1, false};
  // In lowest terms p/q, window o begins r = o*p mod q after a multiple of q and covers ceil((r + p)/q) elements; r takes every value below
  // q.
  const int64_t common = std::gcd(input.value(), count.value()), p = input.value() / common, q = count.value() / common;
  return {input, count, sym::ceil_div(sym::Expr(p) + q - 1, q), false};
}

std::vector<AdaptiveWindow> adaptive_windows(Tensor x, const Sizes& out) {
  std::vector<AdaptiveWindow> windows;
  for (size_t i = 0; i < out.size(); ++i) {
    windows.push_back(adaptive_window(x.sizes()[dims_before(x, out.size()) + i], out[i]));
  }
  return windows;
}

namespace {

Tensor first_of(Builder& b, const AdaptiveWindow& window) {
  if (window.even) return b.arange(window.count, 0, window.longest);
  Tensor scaled = b.binary(ScalarOp::Mul, b.arange(window.count), Scalar(window.input));
  return b.binary(ScalarOp::FloorDiv, scaled, Scalar(window.count));
}

Tensor length_of(Builder& b, const AdaptiveWindow& window) {
  if (window.even) return b.full({1}, DType::I64, window.longest);
  Tensor next = b.binary(ScalarOp::Mul, b.arange(window.count, 1), Scalar(window.input));
  Tensor end = b.binary(ScalarOp::FloorDiv, b.binary(ScalarOp::Add, next, Scalar(window.count - 1)), Scalar(window.count));
  return end - first_of(b, window);
}

// Where element k of window o is; beyond the window's length maybe at x's last element.
sym::Expr adaptive_position(const AdaptiveWindow& window, sym::Expr o, sym::Expr k) {
  if (window.even) return o * window.longest + k;
  return sym::min(sym::floor_div(o * window.input, window.count) + k, window.input - 1);
}

}  // namespace

Tensor adaptive_view(Tensor x, const std::vector<AdaptiveWindow>& windows, Scalar fill) {
  Builder& b = x.builder();
  const size_t spatial = windows.size(), leading = dims_before(x, spatial);
  Sizes axes, index;
  for (size_t d = 0; d < leading; ++d) index.push_back(axes.emplace_back(b.axis(x.sizes()[d])));
  for (const AdaptiveWindow& window : windows) axes.push_back(b.axis(window.count));
  for (size_t i = 0; i < spatial; ++i) {
    const AdaptiveWindow& window = windows[i];
    const sym::Expr o = axes[leading + i], k = axes.emplace_back(b.axis(window.longest));
    index.push_back(adaptive_position(window, o, k));
  }
  Tensor view = b.remap(x, axes, index);
  for (size_t i = 0; i < spatial; ++i) {
    if (windows[i].even) continue;
    Tensor k = along(b.arange(windows[i].longest), spatial - 1 - i);
    Tensor length = along(length_of(b, windows[i]), 2 * spatial - 1 - i);
    view = b.where(b.binary(ScalarOp::Lt, k, length), view, b.scalar(x.dtype(), fill));
  }
  return view;
}

Tensor adaptive_view_along(Tensor x, size_t dim, const AdaptiveWindow& window, Scalar fill) {
  Builder& b = x.builder();
  Sizes axes, index;
  for (size_t d = 0; d < x.sizes().size(); ++d) {
    index.push_back(axes.emplace_back(b.axis(d == dim ? window.count : x.sizes()[d])));
  }
  const sym::Expr o = axes[dim], k = axes.emplace_back(b.axis(window.longest));
  index[dim] = adaptive_position(window, o, k);
  Tensor view = b.remap(x, axes, index);
  if (window.even) return view;
  Tensor length = along(length_of(b, window), axes.size() - 1 - dim);
  return b.where(b.binary(ScalarOp::Lt, b.arange(window.longest), length), view, b.scalar(x.dtype(), fill));
}

Tensor adaptive_count(Builder& b, const std::vector<AdaptiveWindow>& windows) {
  Tensor count;
  for (size_t i = 0; i < windows.size(); ++i) {
    Tensor one = along(length_of(b, windows[i]), windows.size() - 1 - i);
    count = count.defined() ? count * one : one;
  }
  return count;
}

// ---- pools ----------------------------------------------------------------------------------------------------------

Tensor adaptive_avg_pool(Tensor x, const Sizes& out) {
  Builder& b = x.builder();
  const std::vector<AdaptiveWindow> windows = adaptive_windows(x, out);
  bool global = true;
  for (sym::Expr size : out) global = global && size.is_const(1);
  if (global) return b.cast(b.keep(b.mean(wide(x), last_dims(out.size())), last_dims(out.size())), x.dtype());
  Tensor total = b.sum(adaptive_view(wide(x), windows, 0.0), last_dims(out.size()));
  return b.cast(divided(total, adaptive_count(b, windows)), x.dtype());
}

std::vector<Tensor> adaptive_max_pool(Tensor x, const Sizes& out) {
  Builder& b = x.builder();
  const std::vector<AdaptiveWindow> windows = adaptive_windows(x, out);
  std::vector<WindowPositions> positions;
  for (size_t i = 0; i < windows.size(); ++i) {
    const AdaptiveWindow& window = windows[i];
    positions.push_back({along(first_of(b, window), windows.size() - 1 - i), 1, window.longest, window.input, false});
  }
  return max_and_position(adaptive_view(x, windows, lowest_value(x.dtype())), positions);
}

}  // namespace toroid::formula
