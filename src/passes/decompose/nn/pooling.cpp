// Average, max and adaptive pooling: a view of windows, then a reduction over them, so that a pool fuses with its
// neighbours.
//
//   avg_pool2d(x, 2)  =>  sum(windows(x) [N, C, oh, ow, 2, 2], dims [-2, -1]) / 4
//
// Everything works on the last one, two or three dims; whatever comes before them is batch.
#include "passes/decompose/nn/pooling.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/limits.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid {

Dims last_dims(size_t count) {
  Dims dims;
  for (size_t i = 0; i < count; ++i) dims.push_back(static_cast<int64_t>(i) - static_cast<int64_t>(count));
  return dims;
}

Tensor along(Tensor vector, size_t from_end) {
  Sizes sizes = {vector.size(0)};
  sizes.resize(from_end + 1, 1);
  return vector.builder().reshape(vector, sizes);
}

Tensor divided(Tensor total, Tensor count) {
  Builder& b = total.builder();
  const ScalarOp divide = is_floating(total.dtype()) ? ScalarOp::Div : ScalarOp::TruncDiv;
  return b.pointwise(divide, {total, b.cast(count, total.dtype())});
}

// ---- regular windows ------------------------------------------------------------------------------------------------

std::vector<Window> pool_windows(Tensor x, const Args& a) {
  const Sizes kernel = a.integers("kernel_size"), padding = a.integers("padding");
  Sizes stride = a.has("stride") ? a.integers("stride") : Sizes{};
  if (stride.empty()) stride = kernel;
  const Sizes dilation = a.has("dilation") ? a.integers("dilation") : Sizes(kernel.size(), 1);
  const size_t spatial = kernel.size();
  if (x.rank() < static_cast<int64_t>(spatial)) {
    throw Error(ErrorKind::InvalidModel, "pooling: the input has too few dims");
  }
  std::vector<Window> windows;
  for (size_t i = 0; i < spatial; ++i) {
    const sym::Expr input = x.sizes()[x.sizes().size() - spatial + i];
    windows.push_back(make_window(input, kernel[i], stride[i], padding[i], dilation[i], a.flag("ceil_mode")));
  }
  return windows;
}

namespace {

// How many elements window o averages over: those inside the input, or inside the padded input with `include_padding`;
// always without what hangs over because of ceil_mode.
Tensor elements_in(Builder& b, const Window& window, bool include_padding) {
  if (window.overhang.is_const(0) && (include_padding || window.padding.is_const(0))) {
    return b.full({1}, DType::I64, window.kernel);
  }
  Tensor start = b.arange(window.count, -window.padding, window.stride);
  Tensor end = b.binary(ScalarOp::Min, b.binary(ScalarOp::Add, start, Scalar(window.kernel)),
                        Scalar(window.input + (include_padding ? window.padding : sym::Expr(0))));
  if (!include_padding) start = b.binary(ScalarOp::Max, start, Scalar(sym::Expr(0)));
  return end - start;
}

}  // namespace

Tensor average_divisor(const Args& a, Builder& b, const std::vector<Window>& windows) {
  if (a.has("divisor_override")) return b.scalar(DType::I64, a.integer("divisor_override"));
  Tensor count;
  for (size_t i = 0; i < windows.size(); ++i) {
    Tensor one = along(elements_in(b, windows[i], a.flag("count_include_pad")), windows.size() - 1 - i);
    count = count.defined() ? count * one : one;
  }
  return count;
}

// ---- max with positions ---------------------------------------------------------------------------------------------

std::vector<Tensor> max_and_position(Tensor windows, const std::vector<WindowPositions>& dims) {
  Builder& b = windows.builder();
  const size_t spatial = dims.size();
  Sizes flat_sizes = windows.sizes().without_last(spatial);
  flat_sizes.push_back(sym::product(windows.sizes().last(spatial)));
  Tensor flat = b.reshape(windows, flat_sizes), rest = b.reduce(ReduceOp::ArgMax, flat, {-1})[0];
  Tensor position;
  sym::Expr plane_stride = 1;
  for (size_t i = spatial; i-- > 0;) {
    const WindowPositions& dim = dims[i];
    Tensor k = i == 0 ? rest : b.binary(ScalarOp::Mod, rest, Scalar(dim.kernel));
    Tensor at = dim.first + b.binary(ScalarOp::Mul, k, Scalar(dim.step));
    // A window of nothing but -inf has its first maximum in the padding; PyTorch names the first element inside.
    if (dim.may_start_outside) at = b.binary(ScalarOp::Max, at, Scalar(sym::Expr(0)));
    Tensor part = b.binary(ScalarOp::Mul, at, Scalar(plane_stride));
    position = position.defined() ? position + part : part;
    plane_stride = plane_stride * dim.input;
    if (i > 0) rest = b.binary(ScalarOp::FloorDiv, rest, Scalar(dim.kernel));
  }
  return {b.amax(flat, {-1}), position};
}

Tensor flat_positions(Builder& b, std::span<const sym::Expr> sizes) {
  Tensor position;
  sym::Expr stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    Tensor part = b.binary(ScalarOp::Mul, along(b.arange(sizes[i]), sizes.size() - 1 - i), Scalar(stride));
    position = position.defined() ? position + part : part;
    stride = stride * sizes[i];
  }
  return position;
}

// ---- adaptive windows -----------------------------------------------------------------------------------------------

AdaptiveWindow adaptive_window(sym::Expr input, sym::Expr count) {
  if (count.is_const() && count.value() < 0) throw Error(ErrorKind::InvalidModel, "adaptive pooling to less than nothing");
  if (count.is_const(0)) return {input, 0, 1, true};
  if (sym::known_divisible(input, count)) return {input, count, sym::floor_div(input, count), true};
  if (!input.is_const() || !count.is_const()) return {input, count, sym::ceil_div(input, count) + 1, false};
  // In lowest terms p/q, window o begins r = o*p mod q after a multiple of q and covers ceil((r + p)/q) elements; r takes every value below q.
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

// ---- operators ------------------------------------------------------------------------------------------------------

namespace {

std::vector<Tensor> avg_pool(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const std::vector<Window> windows = pool_windows(x, a);
  Tensor total = d.b.sum(windows_of(wide(x), windows, 0.0), last_dims(windows.size()));
  return {d.b.cast(divided(total, average_divisor(a, d.b, windows)), x.dtype())};
}

std::vector<Tensor> max_pool_with_indices(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const std::vector<Window> windows = pool_windows(x, a);
  std::vector<WindowPositions> positions;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    Tensor first = along(d.b.arange(window.count, -window.padding, window.stride), windows.size() - 1 - i);
    positions.push_back({first, window.dilation, window.kernel, window.input, !window.padding.is_const(0)});
  }
  return max_and_position(windows_of(x, windows, lowest_value(x.dtype())), positions);
}

std::vector<Tensor> max_pool(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const std::vector<Window> windows = pool_windows(x, a);
  return {d.b.amax(windows_of(x, windows, lowest_value(x.dtype())), last_dims(windows.size()))};
}

// out[.., indices[.., o]] = x[.., o] in a plane of `output_size`.
std::vector<Tensor> max_unpool(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), indices = a.tensor("indices");
  const Sizes out = a.integers("output_size");
  const size_t leading = dims_before(x, out.size());
  Sizes batch = x.sizes().first(leading);
  const sym::Expr planes = sym::product(batch);
  const Sizes flat = {planes, sym::product(x.sizes().without_first(leading))};
  Tensor base = b.full({planes, sym::product(out)}, x.dtype(), 0.0);
  Tensor filled = b.scatter(base, b.reshape(x, flat), {b.iota({planes, 1}, 0), b.reshape(indices, flat)}, ScatterMode::Set);
  batch.insert(batch.end(), out.begin(), out.end());
  return {b.reshape(filled, batch)};
}

std::vector<Tensor> adaptive_avg_pool(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const Sizes out = a.integers("output_size");
  const std::vector<AdaptiveWindow> windows = adaptive_windows(x, out);
  bool global = true;
  for (sym::Expr size : out) global = global && size.is_const(1);
  if (global) return {d.b.cast(d.b.keep(d.b.mean(wide(x), last_dims(out.size())), last_dims(out.size())), x.dtype())};
  Tensor total = d.b.sum(adaptive_view(wide(x), windows, 0.0), last_dims(out.size()));
  return {d.b.cast(divided(total, adaptive_count(d.b, windows)), x.dtype())};
}

std::vector<Tensor> adaptive_max_pool(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const std::vector<AdaptiveWindow> windows = adaptive_windows(x, a.integers("output_size"));
  std::vector<WindowPositions> positions;
  for (size_t i = 0; i < windows.size(); ++i) {
    const AdaptiveWindow& window = windows[i];
    positions.push_back({along(first_of(d.b, window), windows.size() - 1 - i), 1, window.longest, window.input, false});
  }
  return max_and_position(adaptive_view(x, windows, lowest_value(x.dtype())), positions);
}

// Window o of a dim begins at floor((o + u)*alpha) - floor(u*alpha), alpha = (input - kernel)/(count - 1), and the last
// one at the end: u in [0, 1) is a random number for each plane and dim, an argument. Computed in x's own dtype.
Tensor fractional_starts(Tensor u, sym::Expr input, sym::Expr kernel, sym::Expr count, DType dtype) {
  Builder& b = u.builder();
  auto rounded = [&](Tensor x) { return wide(b.cast(x, dtype)); };
  auto number = [&](sym::Expr value) { return rounded(b.scalar(compute_dtype(dtype), Scalar(value))); };
  auto whole = [&](Tensor x) { return b.cast(x, DType::I64); };
  Tensor o = b.arange(count), last = b.scalar(DType::I64, Scalar(input - kernel));
  if (count.is_const(1)) return last;
  Tensor alpha = rounded(number(input - kernel) / number(count - 1));
  Tensor start = whole(rounded(rounded(b.cast(o, compute_dtype(dtype)) + u) * alpha)) - whole(rounded(u * alpha));
  return where(b.binary(ScalarOp::Eq, o, Scalar(count - 1)), last, start);
}

// `random_samples` [N, C, dims] are u along the last dims, in 2-D listed from the last one on.
std::vector<Tensor> fractional_max_pool(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), samples = a.tensor("random_samples");
  const Sizes kernel = a.integers("kernel_size"), out = a.integers("output_size");
  const size_t spatial = out.size();
  const bool batched = x.rank() == static_cast<int64_t>(spatial) + 2;
  if (!batched) x = b.unsqueeze(x, 0);
  const int64_t rank = x.rank() + static_cast<int64_t>(spatial);  // of [N, C, o…, k…]
  std::vector<Tensor> index = {positions(b, x.size(0), 0, rank), positions(b, x.size(1), 1, rank)};
  std::vector<WindowPositions> dims;
  for (size_t i = 0; i < spatial; ++i) {
    const sym::Expr input = x.sizes()[i + 2];
    Tensor u = b.unsqueeze(b.select(samples, -1, static_cast<int64_t>(spatial == 2 ? 1 - i : i)), -1);
    Tensor start = fractional_starts(wide(u), input, kernel[i], out[i], x.dtype());  // [N, C, o] or rank 0
    Sizes sizes(spatial + 2, 1);
    if (start.rank() > 0) {
      sizes = {x.size(0), x.size(1)};
      sizes.resize(spatial + 2, 1);
      sizes[i + 2] = out[i];
      start = b.expand(start, {x.size(0), x.size(1), out[i]});
    }
    start = b.reshape(start, sizes);
    dims.push_back({start, 1, kernel[i], input, false});
    sizes.resize(2 * spatial + 2, 1);
    index.push_back(b.reshape(start, sizes) + along(b.arange(kernel[i]), spatial - 1 - i));
  }
  std::vector<Tensor> results = max_and_position(b.gather(x, index), dims);
  if (!batched) {
    for (Tensor& result : results) result = b.squeeze(result, 0);
  }
  return results;
}

constexpr DecompositionRow kRows[] = {
    {"aten::avg_pool1d", avg_pool},
    {"aten::avg_pool2d", avg_pool},
    {"aten::avg_pool3d", avg_pool},
    {"aten::max_pool1d", max_pool},
    {"aten::max_pool2d", max_pool},
    {"aten::max_pool3d", max_pool},
    {"aten::max_pool1d_with_indices", max_pool_with_indices},
    {"aten::max_pool2d_with_indices", max_pool_with_indices},
    {"aten::max_pool3d_with_indices", max_pool_with_indices},
    {"aten::fractional_max_pool2d", fractional_max_pool},
    {"aten::fractional_max_pool3d", fractional_max_pool},
    {"aten::max_unpool2d", max_unpool},
    {"aten::max_unpool3d", max_unpool},
    {"aten::adaptive_avg_pool1d", adaptive_avg_pool},
    {"aten::adaptive_avg_pool2d", adaptive_avg_pool},
    {"aten::adaptive_avg_pool3d", adaptive_avg_pool},
    {"aten::_adaptive_avg_pool2d", adaptive_avg_pool},
    {"aten::_adaptive_avg_pool3d", adaptive_avg_pool},
    {"aten::adaptive_max_pool1d", adaptive_max_pool},
    {"aten::adaptive_max_pool2d", adaptive_max_pool},
    {"aten::adaptive_max_pool3d", adaptive_max_pool},
};

}  // namespace

std::span<const DecompositionRow> pooling_rows() { return kRows; }

}  // namespace toroid
