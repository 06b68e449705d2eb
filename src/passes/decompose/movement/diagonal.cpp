// Diagonals and triangles of matrices, and the functional forms of writing into a view (select_scatter and its kin).
//
// Both are masks over positions: what lies on a diagonal or in a slice is decided by comparing indices.
#include <algorithm>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/movement/view_shape.h"

namespace toroid {
namespace {

// The row and the column in which the diagonal `offset` places right of the main one starts. Beyond 2^62 none is different from the others.
struct Start {
  int64_t row, column;
};
Start start_of(int64_t offset) {
  constexpr int64_t kFar = int64_t{1} << 62;
  return {std::max<int64_t>(-std::max(offset, -kFar), 0), std::max<int64_t>(std::min(offset, kFar), 0)};
}

// The diagonal `offset` places right of the main one starts at (row, column) and has `length` elements.
struct Diagonal {
  sym::Expr row, column, length;
};
Diagonal diagonal_of(sym::Expr rows, sym::Expr columns, int64_t offset) {
  const auto [row, column] = start_of(offset);
  const sym::Expr below = rows - row, right = columns - column;
  const sym::Expr length = sym::known_le(below, right) ? below : sym::known_le(right, below) ? right : sym::min(below, right);
  return {row, column, sym::known_le(0, length) ? length : sym::max(length, 0)};
}

// Row and column numbers of the last two dims of something with these sizes.
Tensor row_numbers(Builder& b, const Sizes& sizes) { return b.iota({sizes[sizes.size() - 2], 1}, 0); }
Tensor column_numbers(Builder& b, const Sizes& sizes) { return b.iota({1, sizes.back()}, 1); }

// ---- reading -------------------------------------------------------------------------------------------------------

// The diagonal of two dims becomes the last dim.
Tensor diagonal(Tensor x, int64_t offset, int64_t dim1, int64_t dim2) {
  Builder& b = x.builder();
  dim1 = b.wrap_dim(dim1, x.rank());
  dim2 = b.wrap_dim(dim2, x.rank());
  if (dim1 == dim2) throw Error(ErrorKind::InvalidModel, "a diagonal needs two different dims");
  const Diagonal place = diagonal_of(x.size(dim1), x.size(dim2), offset);
  Sizes axes, index(x.sizes().size());
  Sizes sizes;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    if (dim == dim1 || dim == dim2) continue;
    sizes.push_back(x.size(dim));
    index[static_cast<size_t>(dim)] = axes.emplace_back(b.axis(x.size(dim)));
  }
  sizes.push_back(place.length);
  if (sym::product(sizes).is_const(0)) return b.full(sizes, x.dtype(), 0.0);
  axes.push_back(b.axis(place.length));
  index[static_cast<size_t>(dim1)] = place.row + axes.back();
  index[static_cast<size_t>(dim2)] = place.column + axes.back();
  return b.remap(x, axes, index);
}

std::vector<Tensor> diagonal_op(Decomposer&, const Args& a) {
  return {diagonal(a.tensor(parameter(a, 0)), a.constant("offset"), a.constant("dim1"), a.constant("dim2"))};
}

std::vector<Tensor> trace(Decomposer& d, const Args& a) { return {d.call1("aten::sum", {diagonal(a.tensor("self"), 0, 0, 1)})}; }

// ---- making --------------------------------------------------------------------------------------------------------

// The last dim becomes the diagonal of a square matrix in dims dim1 and dim2.
Tensor embed(Tensor x, int64_t offset, int64_t dim1, int64_t dim2) {
  Builder& b = x.builder();
  const int64_t rank = x.rank() + 1;
  dim1 = b.wrap_dim(dim1, rank);
  dim2 = b.wrap_dim(dim2, rank);
  if (dim1 == dim2) throw Error(ErrorKind::InvalidModel, "a diagonal needs two different dims");
  // Element r of `by_row` is the one on the diagonal in row r.
  Sizes low(x.sizes().size(), 0), high(x.sizes().size(), 0);
  low.back() = start_of(offset).row;
  high.back() = start_of(offset).column;
  Tensor by_row = b.unsqueeze(b.pad(x, low, high, 0.0), -1);
  Sizes sizes = by_row.sizes();
  sizes.back() = sizes[sizes.size() - 2];
  Tensor is_on = eq(column_numbers(b, sizes), row_numbers(b, sizes) + b.scalar(DType::I64, sym::Expr(offset)));
  Tensor matrix = where(is_on, by_row, 0);
  Dims order;
  int64_t next = 0;
  for (int64_t dim = 0; dim < rank; ++dim) order.push_back(dim == dim1 ? rank - 2 : dim == dim2 ? rank - 1 : next++);
  return b.permute(matrix, order);
}

std::vector<Tensor> diag_embed(Decomposer&, const Args& a) {
  return {embed(a.tensor("self"), a.constant("offset"), a.constant("dim1"), a.constant("dim2"))};
}
std::vector<Tensor> diagflat(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return {embed(d.b.reshape(x, {x.numel()}), a.constant("offset"), 0, 1)};
}
std::vector<Tensor> diag(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self");
  return {x.rank() == 1 ? embed(x, a.constant("diagonal"), 0, 1) : diagonal(x, a.constant("diagonal"), 0, 1)};
}

// Keeps what is on and below (Le) or on and above (Ge) the diagonal.
template <ScalarOp keep>
std::vector<Tensor> triangle(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  Tensor diagonal_column = row_numbers(d.b, x.sizes()) + d.b.scalar(DType::I64, a.integer("diagonal"));
  return {where(apply(keep, column_numbers(d.b, x.sizes()), diagonal_column), x, 0)};
}

// ---- writing into views --------------------------------------------------------------------------------------------

// The numbers 0, 1, … along one dim, shaped to broadcast against x.
Tensor positions(Tensor x, int64_t dim) {
  Sizes sizes(x.sizes().size(), 1);
  sizes[static_cast<size_t>(dim)] = x.size(dim);
  return x.builder().iota(sizes, dim);
}

// Of what the program holds, perhaps a buffer that it updates, the other elements should stay where they are: that is a scatter. Other
// tensors are made by a loop, of which the written elements become a part.
bool is_held(Tensor x) { return std::holds_alternative<Constant>(x.builder().graph().producer(x.id()).op); }

Tensor scatter_slice(Tensor x, Tensor source, int64_t dim, sym::Expr start, sym::Expr step) {
  Builder& b = x.builder();
  std::vector<Tensor> indices;
  for (int64_t d = 0; d < x.rank(); ++d) {
    Sizes along(x.sizes().size(), 1);
    along[static_cast<size_t>(d)] = source.size(d);
    indices.push_back(b.reshape(b.arange(source.size(d), d == dim ? start : 0, d == dim ? step : 1), along));
  }
  return b.scatter(x, source, indices, ScatterMode::Set);
}

std::vector<Tensor> select_scatter(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  const sym::Expr index = wrap_index(a.integer("index"), x.size(dim));
  guard(d, sym::logical_and(sym::le(0, index), sym::lt(index, x.size(dim))));  // elsewhere a slice asks
  Tensor source = d.b.unsqueeze(d.b.cast(a.tensor("src"), x.dtype()), dim);
  if (is_held(x)) {
    Sizes sizes = x.sizes();
    sizes[static_cast<size_t>(dim)] = 1;
    return {scatter_slice(x, d.b.expand(source, sizes), dim, index, 1)};
  }
  return {where(eq(positions(x, dim), d.b.scalar(DType::I64, index)), source, x)};
}

// A dim that may have no elements gets one behind the others, so that a position which is not used has something to read.
Tensor with_an_element(Tensor x, int64_t dim) {
  const Sizes none(x.sizes().size(), 0);
  Sizes high = none;
  if (!sym::known_lt(0, x.size(dim))) high[static_cast<size_t>(dim)] = 1;
  return x.builder().pad(x, none, high, 0.0);
}

std::vector<Tensor> slice_scatter(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), source = b.cast(a.tensor("src"), x.dtype());
  const int64_t dim = b.wrap_dim(a.constant("dim"), x.rank());
  const Bounds bounds = slice_bounds(a, x.size(dim));
  Sizes sizes = x.sizes();
  sizes[static_cast<size_t>(dim)] = bounds.length;
  source = b.expand(source, sizes);
  if (bounds.length.is_const(0)) return {x};
  if (is_held(x)) return {scatter_slice(x, source, dim, bounds.start, bounds.step)};
  // Where in the source each element of x would come from, were it inside; clamped outside, where it is not used.
  Sizes axes, index;
  for (sym::Expr size : x.sizes()) index.push_back(axes.emplace_back(b.axis(size)));
  sym::Expr& along = index[static_cast<size_t>(dim)];
  source = with_an_element(source, dim);
  along = sym::min(sym::max(sym::floor_div(along - bounds.start, bounds.step), 0), source.size(dim) - 1);
  Tensor spread = b.remap(source, axes, index);
  auto number = [&](sym::Expr value) { return b.scalar(DType::I64, value); };
  Tensor from_start = positions(x, dim) - number(bounds.start);
  Tensor is_inside = (from_start >= 0) & (from_start < number(bounds.length * bounds.step));
  if (!bounds.step.is_const(1)) is_inside = is_inside & eq(apply(ScalarOp::Mod, from_start, number(bounds.step)), 0);
  return {where(is_inside, spread, x)};
}

std::vector<Tensor> diagonal_scatter(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), source = b.cast(a.tensor("src"), x.dtype());
  const int64_t dim1 = b.wrap_dim(a.constant("dim1"), x.rank()), dim2 = b.wrap_dim(a.constant("dim2"), x.rank());
  const int64_t offset = a.constant("offset");
  const Diagonal diagonal = diagonal_of(x.size(dim1), x.size(dim2), offset);
  if (x.numel().is_const(0) || diagonal.length.is_const(0)) return {x};
  Sizes axes, index;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    axes.push_back(b.axis(x.size(dim)));
    if (dim != dim1 && dim != dim2) index.push_back(axes.back());
  }
  const sym::Expr row = axes[static_cast<size_t>(dim1)];
  source = with_an_element(source, source.rank() - 1);
  index.push_back(sym::min(sym::max(row - diagonal.row, 0), source.size(-1) - 1));
  Tensor spread = b.remap(source, axes, index);
  Tensor is_on = eq(positions(x, dim2), positions(x, dim1) + b.scalar(DType::I64, sym::Expr(offset)));
  return {where(is_on, spread, x)};
}

// Overlapping elements take the last one written.
// Where each element of such a tensor is in its storage.
Tensor storage_positions(Builder& b, const Sizes& sizes, const Sizes& strides, sym::Expr offset) {
  Tensor place = b.full(sizes, DType::I64, offset);
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    place = place + b.iota(sizes, static_cast<int64_t>(dim)) * b.scalar(DType::I64, strides[dim]);
  }
  return place;
}

// The sources are written into a copy of the storage, of which the result shows what self shows of its own.
std::vector<Tensor> as_strided_scatter(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), source = b.cast(a.tensor("src"), x.dtype());
  const TensorType type = recorded_type(d, a, "self");
  const Sizes strides = a.integers("stride");
  if (strides.size() != source.sizes().size()) {
    throw Error(ErrorKind::InvalidModel, "as_strided_scatter needs as many strides as its source has dims");
  }
  const sym::Expr offset = optional_integer(a, "storage_offset").value_or(type.storage_offset);
  const Tensor targets = storage_positions(b, source.sizes(), strides, offset);
  if (type.strides.empty() || type.strides == contiguous_strides(type.sizes)) {
    const Tensor flat = b.reshape(x, {x.numel()});
    const Tensor within = type.storage_offset.is_const(0) ? targets : targets - b.scalar(DType::I64, type.storage_offset);
    return {b.reshape(b.scatter(flat, source, {within}, ScatterMode::Set), x.sizes())};
  }
  auto end_of = [](const Sizes& sizes, const Sizes& steps, sym::Expr first) {
    for (size_t dim = 0; dim < sizes.size(); ++dim) first = first + sym::max(sizes[dim] - 1, 0) * steps[dim];
    return first + 1;
  };
  const sym::Expr count = sym::max(end_of(type.sizes, type.strides, type.storage_offset), end_of(source.sizes(), strides, offset));
  const Tensor shown = storage_positions(b, x.sizes(), type.strides, type.storage_offset);
  const Tensor storage = b.scatter(b.full({count}, x.dtype(), 0.0), x, {shown}, ScatterMode::Set);
  return {b.gather(b.scatter(storage, source, {targets}, ScatterMode::Set), {shown})};
}

constexpr DecompositionRow kDiagonalRows[] = {
    {"aten::diagonal", diagonal_op},
    {"aten::linalg_diagonal", diagonal_op},
    {"aten::trace", trace},
    {"aten::diag_embed", diag_embed},
    {"aten::diagflat", diagflat},
    {"aten::diag", diag},
    {"aten::tril", triangle<ScalarOp::Le>},
    {"aten::triu", triangle<ScalarOp::Ge>},
    {"aten::select_scatter", select_scatter},
    {"aten::slice_scatter", slice_scatter},
    {"aten::diagonal_scatter", diagonal_scatter},
    {"aten::as_strided_scatter", as_strided_scatter},
};

}  // namespace

std::span<const DecompositionRow> diagonal_rows() { return kDiagonalRows; }

}  // namespace toroid
