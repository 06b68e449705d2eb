#include "formula/backward/indexing_backward.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "formula/basics/windows.h"
#include "formula/movement/scattering.h"

namespace toroid::formula {

// ---- views ----------------------------------------------------------------------------------------------------------

namespace {

int64_t rank_of(const Sizes& sizes) { return static_cast<int64_t>(sizes.size()); }

// `grad` at positions start, start + step, … of dim `dim`, zero elsewhere.
Tensor spread_along(Tensor grad, const Sizes& sizes, int64_t dim, sym::Expr start, sym::Expr step) {
  Builder& b = grad.builder();
  const size_t at = static_cast<size_t>(dim);
  if (grad.sizes().size() != sizes.size()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("a gradient of rank {} of a tensor of rank {}", grad.rank(), sizes.size()));
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d != at) b.require_equal(grad.sizes()[d], sizes[d], "gradient");
  }
  if (step.is_const(1)) {
    Sizes low(sizes.size(), 0), high = low;
    low[at] = start;
    high[at] = sizes[at] - start - grad.sizes()[at];
    if (sym::known_lt(high[at], 0)) {
      throw Error(ErrorKind::InvalidModel, fmt::format("a gradient of {} elements from {} on for {}", sym::to_string(grad.sizes()[at]),
                                                       sym::to_string(start), sym::to_string(sizes[at])));
    }
    return b.pad(grad, low, high, 0.0);
  }
  std::vector<Tensor> index;
  for (int64_t i = 0; i < grad.rank(); ++i) index.push_back(positions(b, grad.size(i), i, grad.rank()));
  index[at] = b.binary(ScalarOp::Add, b.binary(ScalarOp::Mul, index[at], Scalar(step)), Scalar(start));
  return b.scatter(b.full(sizes, grad.dtype(), 0.0), grad, index, ScatterMode::Set);
}

sym::Expr wrap_position(sym::Expr position, sym::Expr size) {
  return position.is_const() && position.value() < 0 ? position + size : position;
}

}  // namespace

Tensor select_backward(Tensor grad, const Sizes& sizes, int64_t dim, sym::Expr index) {
  Builder& b = grad.builder();
  dim = b.wrap_dim(dim, rank_of(sizes));
  return spread_along(b.unsqueeze(grad, dim), sizes, dim, wrap_position(index, sizes[static_cast<size_t>(dim)]), 1);
}

Tensor slice_backward(Tensor grad, const Sizes& sizes, int64_t dim, sym::Expr start, sym::Expr step) {
  dim = grad.builder().wrap_dim(dim, rank_of(sizes));
  const sym::Expr size = sizes[static_cast<size_t>(dim)];
  return spread_along(grad, sizes, dim, sym::min(wrap_position(start, size), size), step);
}

// out[.., i, .., j, ..] is the diagonal's element where j - i is the offset.
Tensor diagonal_backward(Tensor grad, const Sizes& sizes, int64_t offset, int64_t dim1, int64_t dim2) {
  Builder& b = grad.builder();
  const int64_t rank = rank_of(sizes);
  dim1 = b.wrap_dim(dim1, rank);
  dim2 = b.wrap_dim(dim2, rank);
  if (grad.numel().is_const(0)) return b.full(sizes, grad.dtype(), 0.0);
  Sizes axes, index;
  for (int64_t dim = 0; dim < rank; ++dim) {
    axes.push_back(b.axis(sizes[static_cast<size_t>(dim)]));
    if (dim != dim1 && dim != dim2) index.push_back(axes.back());
  }
  index.push_back(sym::min(axes[static_cast<size_t>(offset >= 0 ? dim1 : dim2)], grad.size(-1) - 1));
  Tensor shown = b.remap(grad, axes, index);
  Tensor column = positions(b, sizes[static_cast<size_t>(dim2)], dim2, rank);
  Tensor row = positions(b, sizes[static_cast<size_t>(dim1)], dim1, rank);
  return where(eq(column - row, number_like(row, Scalar(sym::Expr(offset)))), shown, 0);
}

Tensor trace_backward(Tensor grad, const Sizes& sizes) {
  Builder& b = grad.builder();
  return b.expand(where(eq(positions(b, sizes[0], 0, 2), positions(b, sizes[1], 1, 2)), grad, 0), sizes);
}

Tensor unfold_backward(Tensor grad, const Sizes& sizes, int64_t dim, sym::Expr size, sym::Expr step) {
  Builder& b = grad.builder();
  if (sizes.empty()) return b.reshape(grad, {});
  const size_t at = static_cast<size_t>(b.wrap_dim(dim, rank_of(sizes)));
  const Window window = make_window(sizes[at], size, step, 0, 1, /*ceil_mode=*/false);
  if (grad.rank() != static_cast<int64_t>(sizes.size()) + 1) {
    throw Error(ErrorKind::InvalidModel,
                fmt::format("the gradient of an unfolded tensor of rank {} has rank {}", sizes.size(), grad.rank()));
  }
  b.require_equal(grad.sizes()[at], window.count, "the number of unfolded windows");
  b.require_equal(grad.sizes().back(), window.kernel, "the size of unfolded windows");
  // Windows that are the same beside `dim`, as those of istft's own window.
  Sizes whole(sizes);
  whole[at] = grad.sizes()[at];
  whole.push_back(grad.sizes().back());
  grad = b.expand(grad, whole);
  const sym::Expr most = sym::ceil_div(window.kernel, window.stride);
  Sizes low(grad.sizes().size(), 0), high = low;
  low[at] = most - 1;
  high[at] = sym::max(sym::floor_div(window.input - 1, window.stride) - (window.count - 1), 0);
  Sizes axes, index;
  for (sym::Expr extent : sizes) index.push_back(axes.emplace_back(b.axis(extent)));
  const sym::Expr i = axes[at], j = axes.emplace_back(b.axis(most));
  index[at] = sym::floor_div(i, window.stride) - j + low[at];
  index.push_back(sym::min(sym::mod(i, window.stride) + j * window.stride, window.kernel - 1));
  Tensor readers = b.remap(b.pad(wide(grad), low, high, 0.0), axes, index);
  if (Tensor inside = covers(b, {&window, 1}); inside.defined()) {
    Sizes beside(sizes.size() + 1, 1);
    beside[at] = inside.size(0);
    beside.back() = inside.size(1);
    readers = where(b.reshape(inside, beside), readers, 0);
  }
  return b.cast(b.sum(readers, {-1}), grad.dtype());
}

// ---- selections -----------------------------------------------------------------------------------------------------

Tensor chosen_backward(Tensor grad, const Sizes& sizes, int64_t dim, Tensor indices) {
  Builder& b = grad.builder();
  dim = b.wrap_dim(dim, rank_of(sizes));
  if (indices.size(dim).is_const(1)) {
    return where(eq(positions(b, sizes[static_cast<size_t>(dim)], dim, rank_of(sizes)), indices), grad, 0);
  }
  return scatter(b.full(sizes, grad.dtype(), 0.0), dim, indices, grad);
}

Tensor masked_scatter_backward(Tensor grad, Tensor mask, const Sizes& sizes) {
  Builder& b = grad.builder();
  const sym::Expr count = sym::product(sizes);
  const Sizes shape = b.broadcast(grad.sizes(), mask.sizes());
  Tensor taken = b.reshape(b.expand(b.cast(mask, DType::Bool), shape), {sym::product(shape)});
  Tensor rank = b.scan(ScanOp::Sum, b.cast(taken, DType::I64), 0)[0] - b.scalar(DType::I64, sym::Expr(1));
  // One slot too many takes what is not wanted.
  Tensor slot = where(taken, b.binary(ScalarOp::Min, rank, Scalar(count)), b.scalar(DType::I64, count));
  Tensor source = b.reshape(b.expand(grad, shape), {sym::product(shape)});
  Tensor slots = b.scatter(b.full({count + 1}, grad.dtype(), 0.0), source, {slot}, ScatterMode::Set);
  return b.reshape(b.slice(slots, 0, 0, count), sizes);
}

// ---- scans ----------------------------------------------------------------------------------------------------------

// Without zeros, dx[k] = sum over i >= k of g[i] * y[i] / x[k]. The first zero gets the products without it, and what
// comes after it gets nothing, because it is a factor of all of their products.
Tensor cumprod_backward(Tensor grad_out, Tensor input, int64_t wanted_dim, Tensor output) {
  Builder& b = input.builder();
  const AlongDim along = along_dim(input, wanted_dim);
  const int64_t dim = along.dim;
  Tensor x = wide(along.x), grad = b.reshape(wide(grad_out), x.sizes());
  Tensor y = b.reshape(wide(output), x.sizes());
  auto sum_from = [&](Tensor t) { return b.flip(b.scan(ScanOp::Sum, b.flip(t, {dim}), dim)[0], {dim}); };
  Tensor is_zero = eq(x, 0);
  Tensor zeros_so_far = b.scan(ScanOp::Sum, b.cast(is_zero, DType::I64), dim)[0];
  Tensor is_first = is_zero & eq(zeros_so_far, 1);
  Tensor without_first = b.scan(ScanOp::Prod, where(is_first, 1, x), dim)[0];
  Tensor at_zero = where(is_first, sum_from(grad * without_first), 0);
  Tensor result = where(is_zero, at_zero, sum_from(grad * y) / where(is_zero, 1, x));
  return along.results({b.cast(result, input.dtype())})[0];
}

}  // namespace toroid::formula
