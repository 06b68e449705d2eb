// Windows as Pad (where there is padding) and Remap: out[.., o, k] = padded[.., o*stride + k*dilation].
#include "formula/basics/windows.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/over_dims.h"

namespace toroid {

Window make_window(sym::Expr input, sym::Expr kernel, sym::Expr stride, sym::Expr padding, sym::Expr dilation, bool ceil_mode) {
  if (stride.is_const() && stride.value() <= 0) {
    throw Error(ErrorKind::InvalidModel, "a window needs a positive stride");
  }
  if (dilation.is_const() && dilation.value() <= 0) {
    throw Error(ErrorKind::InvalidModel, "a window needs a positive dilation");
  }
  const sym::Expr reach = dilation * (kernel - 1) + 1;
  const sym::Expr room = input + padding * 2 - reach;
  Window window{input, kernel, stride, padding, dilation, 0, 0};
  if (!ceil_mode) {
    window.count = sym::floor_div(room, stride) + 1;
  } else {
    const sym::Expr count = sym::ceil_div(room, stride) + 1;
    window.count = count - sym::ge((count - 1) * stride, input + padding);  // a comparison is 0 or 1
    window.overhang = sym::max((window.count - 1) * stride - room, 0);
  }
  if (window.count.is_const() && window.count.value() <= 0) {
    throw Error(ErrorKind::InvalidModel,
                fmt::format("a window of {} does not fit an input of size {}", sym::to_string(reach), sym::to_string(input)));
  }
  return window;
}

Tensor windows_of(Tensor x, std::span<const Window> windows, Scalar fill) {
  Builder& b = x.builder();
  const size_t leading = dims_before(x, windows.size());
  Sizes low(x.sizes().size(), 0), high = low;
  Sizes axes, index;
  for (size_t d = 0; d < leading; ++d) index.push_back(axes.emplace_back(b.axis(x.sizes()[d])));
  for (const Window& window : windows) axes.push_back(b.axis(window.count));
  for (size_t i = 0; i < windows.size(); ++i) {
    const sym::Expr k = axes.emplace_back(b.axis(windows[i].kernel));
    index.push_back(axes[leading + i] * windows[i].stride + k * windows[i].dilation);
    low[leading + i] = windows[i].padding;
    high[leading + i] = windows[i].padding + windows[i].overhang;
  }
  return b.remap(b.pad(x, low, high, fill), axes, index);
}

namespace {

// How many windows may cover one position.
sym::Expr candidates(const Window& window) { return sym::ceil_div(window.dilation * (window.kernel - 1) + 1, window.stride); }

}  // namespace

Tensor readers_of(Tensor x, std::span<const Window> windows, Scalar fill) {
  Builder& b = x.builder();
  const size_t leading = dims_before(x, windows.size());
  Sizes low(x.sizes().size(), 0), high = low;
  Sizes axes, index;
  for (size_t d = 0; d < leading; ++d) index.push_back(axes.emplace_back(b.axis(x.sizes()[d])));
  for (const Window& window : windows) axes.push_back(b.axis(window.input));
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    const sym::Expr most = candidates(window), j = axes.emplace_back(b.axis(most));
    const sym::Expr first = sym::floor_div(window.padding, window.stride);
    const sym::Expr last = sym::floor_div(window.input - 1 + window.padding, window.stride);
    low[leading + i] = sym::max(most - 1 - first, 0);
    high[leading + i] = sym::max(last - (window.count - 1), 0);
    index.push_back(sym::floor_div(axes[leading + i] + window.padding, window.stride) - j + low[leading + i]);
  }
  return b.remap(b.pad(x, low, high, fill), axes, index);
}

Tensor covers(Builder& b, std::span<const Window> windows) {
  Tensor result;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    if (sym::known_divisible(window.kernel, window.stride)) continue;
    Sizes per_input(2 * windows.size(), 1), per_candidate = per_input;
    per_input[i] = window.input;
    per_candidate[windows.size() + i] = candidates(window);
    Tensor start = b.binary(ScalarOp::Mod, b.arange(window.input, window.padding), Scalar(window.stride));
    Tensor back = b.arange(candidates(window), 0, window.stride);
    Tensor offset = b.reshape(start, per_input) + b.reshape(back, per_candidate);
    Tensor inside = b.binary(ScalarOp::Lt, offset, Scalar(window.kernel));
    result = result.defined() ? b.binary(ScalarOp::BitAnd, result, inside) : inside;
  }
  return result;
}

}  // namespace toroid
