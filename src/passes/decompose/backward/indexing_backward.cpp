// Gradients of views, of selections by index or mask, and of running extrema and products.
//
// A view's gradient is read back: the element that the view shows, else zero. Indices that may name an element twice
// are scattered.
#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "formula/basics/windows.h"

namespace toroid {
namespace {

// ---- views ----------------------------------------------------------------------------------------------------------

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

std::vector<Tensor> select_backward(Decomposer& d, const Args& a) {
  const Sizes sizes = a.integers("input_sizes");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), static_cast<int64_t>(sizes.size()));
  const sym::Expr index = wrap_position(a.integer("index"), sizes[static_cast<size_t>(dim)]);
  return {spread_along(d.b.unsqueeze(a.tensor("grad_output"), dim), sizes, dim, index, 1)};
}

std::vector<Tensor> slice_backward(Decomposer& d, const Args& a) {
  const Sizes sizes = a.integers("input_sizes");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), static_cast<int64_t>(sizes.size()));
  const sym::Expr start = sym::min(wrap_position(a.integer("start"), sizes[static_cast<size_t>(dim)]), sizes[static_cast<size_t>(dim)]);
  return {spread_along(a.tensor("grad_output"), sizes, dim, start, a.integer("step"))};
}

// out[.., i, .., j, ..] is the diagonal's element where j - i is the offset.
std::vector<Tensor> diagonal_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor grad = a.tensor("grad_output");
  const Sizes sizes = a.integers("input_sizes");
  const int64_t rank = static_cast<int64_t>(sizes.size()), offset = a.constant("offset");
  const int64_t dim1 = b.wrap_dim(a.constant("dim1"), rank), dim2 = b.wrap_dim(a.constant("dim2"), rank);
  if (grad.numel().is_const(0)) return {b.full(sizes, grad.dtype(), 0.0)};
  Sizes axes, index;
  for (int64_t dim = 0; dim < rank; ++dim) {
    axes.push_back(b.axis(sizes[static_cast<size_t>(dim)]));
    if (dim != dim1 && dim != dim2) index.push_back(axes.back());
  }
  index.push_back(sym::min(axes[static_cast<size_t>(offset >= 0 ? dim1 : dim2)], grad.size(-1) - 1));
  Tensor shown = b.remap(grad, axes, index);
  Tensor column = positions(b, sizes[static_cast<size_t>(dim2)], dim2, rank);
  Tensor row = positions(b, sizes[static_cast<size_t>(dim1)], dim1, rank);
  return {where(eq(column - row, number_like(row, Scalar(sym::Expr(offset)))), shown, 0)};
}

std::vector<Tensor> trace_backward(Decomposer& d, const Args& a) {
  Tensor grad = a.tensor("grad");
  const Sizes sizes = a.integers("sizes");
  return {d.b.expand(where(eq(positions(d.b, sizes[0], 0, 2), positions(d.b, sizes[1], 1, 2)), grad, 0), sizes)};
}

// Each element sums the windows that it is in.
std::vector<Tensor> unfold_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor grad = a.tensor("grad_in");
  const Sizes sizes = a.integers("input_sizes");
  if (sizes.empty()) return {b.reshape(grad, {})};
  const int64_t dim = b.wrap_dim(a.constant("dim"), static_cast<int64_t>(sizes.size()));
  const size_t at = static_cast<size_t>(dim);
  const Window window = make_window(sizes[at], a.integer("size"), a.integer("step"), 0, 1, /*ceil_mode=*/false);
  if (grad.rank() != static_cast<int64_t>(sizes.size()) + 1) {
    throw Error(ErrorKind::InvalidModel,
                fmt::format("the gradient of an unfolded tensor of rank {} has rank {}", sizes.size(), grad.rank()));
  }
  b.require_equal(grad.sizes()[at], window.count, "the number of unfolded windows");
  b.require_equal(grad.sizes().back(), window.kernel, "the size of unfolded windows");
  const sym::Expr most = sym::ceil_div(window.kernel, window.stride);
  Sizes low(grad.sizes().size(), 0), high = low;
  low[at] = most - 1;
  high[at] = sym::max(sym::floor_div(window.input - 1, window.stride) - (window.count - 1), 0);
  Sizes axes, index;
  for (sym::Expr size : sizes) index.push_back(axes.emplace_back(b.axis(size)));
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
  return {b.cast(b.sum(readers, {-1}), grad.dtype())};
}

// ---- indices and masks ----------------------------------------------------------------------------------------------

std::vector<Tensor> index_select_backward(Decomposer& d, const Args& a) {
  Tensor grad = a.tensor("grad");
  Tensor zeros = d.b.full(a.integers("self_sizes"), grad.dtype(), 0.0);
  return d.call("aten::index_add", {zeros, a.constant("dim"), a.tensor("index"), grad});
}

// The gradient of max, median, topk, …, which choose elements along a dim.
std::vector<Tensor> value_selecting_reduction_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor grad = a.tensor("grad"), indices = a.tensor("indices");
  const Sizes sizes = a.integers("sizes");
  const int64_t rank = static_cast<int64_t>(sizes.size());
  if (rank == 0) return {grad};
  const int64_t dim = b.wrap_dim(a.constant("dim"), rank);
  if (!a.flag("keepdim")) {
    grad = b.unsqueeze(grad, dim);
    indices = b.unsqueeze(indices, dim);
  }
  if (indices.size(dim).is_const(1)) {
    return {where(eq(positions(b, sizes[static_cast<size_t>(dim)], dim, rank), indices), grad, 0)};
  }
  return d.call("aten::scatter.src", {b.full(sizes, grad.dtype(), 0.0), dim, indices, grad});
}

std::vector<Tensor> masked_select_backward(Decomposer& d, const Args& a) {
  Tensor grad = a.tensor("grad"), input = a.tensor("input"), mask = a.tensor("mask");
  Tensor zeros = d.b.full(d.b.broadcast(input.sizes(), mask.sizes()), input.dtype(), 0.0);
  return d.call("aten::masked_scatter", {zeros, mask, grad});
}

// The gradient of `source`, whose k-th element went to the k-th true one.
std::vector<Tensor> masked_scatter_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor grad = a.tensor("grad_output"), mask = a.tensor("mask");
  const Sizes sizes = a.integers("sizes");
  const sym::Expr count = sym::product(sizes);
  const Sizes shape = b.broadcast(grad.sizes(), mask.sizes());
  Tensor taken = b.reshape(b.expand(b.cast(mask, DType::Bool), shape), {sym::product(shape)});
  Tensor rank = b.scan(ScanOp::Sum, b.cast(taken, DType::I64), 0)[0] - b.scalar(DType::I64, sym::Expr(1));
  // One slot too many takes what is not wanted.
  Tensor slot = where(taken, b.binary(ScalarOp::Min, rank, Scalar(count)), b.scalar(DType::I64, count));
  Tensor source = b.reshape(b.expand(grad, shape), {sym::product(shape)});
  Tensor slots = b.scatter(b.full({count + 1}, grad.dtype(), 0.0), source, {slot}, ScatterMode::Set);
  return {b.reshape(b.slice(slots, 0, 0, count), sizes)};
}

// ---- scans ----------------------------------------------------------------------------------------------------------

std::vector<Tensor> cummaxmin_backward(Decomposer& d, const Args& a) {
  Tensor input = a.tensor("input"), grad = a.tensor("grad");
  Tensor zeros = d.b.full(input.sizes(), input.dtype(), 0.0);
  return d.call("aten::scatter_add", {zeros, a.constant("dim"), a.tensor("indices"), grad});
}

// Without zeros, dx[k] = sum over i >= k of g[i] * y[i] / x[k]. The first zero gets the products without it, and what
// comes after it gets nothing, because it is a factor of all of their products.
std::vector<Tensor> cumprod_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const AlongDim along = along_dim(a.tensor("input"), a.constant("dim"));
  const int64_t dim = along.dim;
  Tensor x = wide(along.x), grad = b.reshape(wide(a.tensor("grad")), x.sizes());
  Tensor y = b.reshape(wide(a.tensor("output")), x.sizes());
  auto sum_from = [&](Tensor t) { return b.flip(b.scan(ScanOp::Sum, b.flip(t, {dim}), dim)[0], {dim}); };
  Tensor is_zero = eq(x, 0);
  Tensor zeros_so_far = b.scan(ScanOp::Sum, b.cast(is_zero, DType::I64), dim)[0];
  Tensor is_first = is_zero & eq(zeros_so_far, 1);
  Tensor without_first = b.scan(ScanOp::Prod, where(is_first, 1, x), dim)[0];
  Tensor at_zero = where(is_first, sum_from(grad * without_first), 0);
  Tensor result = where(is_zero, at_zero, sum_from(grad * y) / where(is_zero, 1, x));
  return along.results({b.cast(result, a.tensor("input").dtype())});
}

constexpr DecompositionRow kRows[] = {
    {"aten::select_backward", select_backward},
    {"aten::slice_backward", slice_backward},
    {"aten::diagonal_backward", diagonal_backward},
    {"aten::trace_backward", trace_backward},
    {"aten::unfold_backward", unfold_backward},
    {"aten::index_select_backward", index_select_backward},
    {"aten::value_selecting_reduction_backward", value_selecting_reduction_backward},
    {"aten::masked_select_backward", masked_select_backward},
    {"aten::masked_scatter_backward", masked_scatter_backward},
    {"aten::cummaxmin_backward", cummaxmin_backward},
    {"aten::cumprod_backward", cumprod_backward},
};

}  // namespace

std::span<const DecompositionRow> indexing_backward_rows() { return kRows; }

}  // namespace toroid
