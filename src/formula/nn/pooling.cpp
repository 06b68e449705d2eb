// A pool is a view of windows, then a reduction over them, so that it fuses with its neighbours.
#include "formula/nn/pooling.h"

#include "base/error.h"
#include "formula/basics/limits.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid::formula {

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

// ---- windows --------------------------------------------------------------------------------------------------------

std::vector<Window> pool_windows(Tensor x, const PoolGeometry& geometry) {
  const Sizes& kernel = geometry.kernel;
  const size_t spatial = kernel.size();
  const Sizes stride = geometry.stride.empty() ? kernel : geometry.stride;
  if (x.rank() < static_cast<int64_t>(spatial)) {
    throw Error(ErrorKind::InvalidModel, "pooling: the input has too few dims");
  }
  std::vector<Window> windows;
  for (size_t i = 0; i < spatial; ++i) {
    const sym::Expr input = x.sizes()[x.sizes().size() - spatial + i];
    windows.push_back(make_window(input, kernel[i], stride[i], geometry.padding[i], geometry.dilation[i], geometry.ceil_mode));
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

Tensor average_divisor(Builder& b, const std::vector<Window>& windows, const AverageCount& average) {
  if (average.divisor) return b.scalar(DType::I64, *average.divisor);
  Tensor count;
  for (size_t i = 0; i < windows.size(); ++i) {
    Tensor one = along(elements_in(b, windows[i], average.include_padding), windows.size() - 1 - i);
    count = count.defined() ? count * one : one;
  }
  return count;
}

// ---- positions ------------------------------------------------------------------------------------------------------

std::vector<Tensor> max_and_position(Tensor windows, const std::vector<WindowPositions>& dims) {
  Builder& b = windows.builder();
  const size_t spatial = dims.size();
  Sizes flat_sizes = windows.sizes().without_last(spatial);
  flat_sizes.push_back(sym::product(windows.sizes().last(spatial)));
  Tensor flat = b.reshape(windows, flat_sizes), rest = b.reduce(ReduceOp::ArgMax, flat, {-1})[0];
  if (is_floating(flat.dtype())) {
    // Of several NaN the last one: PyTorch has each replace what came before it.
    Sizes places(flat.sizes().size(), 1);
    places.back() = flat.size(-1);
    const Tensor last_nan = b.amax(where(isnan(flat), b.iota(places, flat.rank() - 1), -1), {-1});
    rest = where(last_nan >= 0, last_nan, rest);
  }
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

// ---- pools ----------------------------------------------------------------------------------------------------------

Tensor avg_pool(Tensor x, const PoolGeometry& geometry, const AverageCount& count) {
  Builder& b = x.builder();
  const std::vector<Window> windows = pool_windows(x, geometry);
  Tensor total = b.sum(windows_of(wide(x), windows, 0.0), last_dims(windows.size()));
  return b.cast(divided(total, average_divisor(b, windows, count)), x.dtype());
}

Tensor max_pool(Tensor x, const PoolGeometry& geometry) {
  const std::vector<Window> windows = pool_windows(x, geometry);
  return x.builder().amax(windows_of(x, windows, lowest_value(x.dtype())), last_dims(windows.size()));
}

std::vector<Tensor> max_pool_with_indices(Tensor x, const PoolGeometry& geometry) {
  const std::vector<Window> windows = pool_windows(x, geometry);
  std::vector<WindowPositions> positions;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    Tensor first = along(x.builder().arange(window.count, -window.padding, window.stride), windows.size() - 1 - i);
    positions.push_back({first, window.dilation, window.kernel, window.input, !window.padding.is_const(0)});
  }
  return max_and_position(windows_of(x, windows, lowest_value(x.dtype())), positions);
}

Tensor max_unpool(Tensor x, Tensor indices, const Sizes& out) {
  Builder& b = x.builder();
  const size_t leading = dims_before(x, out.size());
  Sizes batch = x.sizes().first(leading);
  const sym::Expr planes = sym::product(batch);
  const Sizes flat = {planes, sym::product(x.sizes().without_first(leading))};
  Tensor base = b.full({planes, sym::product(out)}, x.dtype(), 0.0);
  Tensor filled = b.scatter(base, b.reshape(x, flat), {b.iota({planes, 1}, 0), b.reshape(indices, flat)}, ScatterMode::Set);
  batch.insert(batch.end(), out.begin(), out.end());
  return b.reshape(filled, batch);
}

}  // namespace toroid::formula
