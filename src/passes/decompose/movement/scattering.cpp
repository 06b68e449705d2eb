// Writing by index: scatter and its reductions, index_put, index_add and its relatives, masked fills.
//
// Each is one Scatter into the old value, or a Where when a mask says what changes. Sums of reduced floats accumulate
// in F32.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/limits.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// Numbers that other numbers are combined with: Bool counts as integers, reduced floats as F32.
DType combining_dtype(DType dtype) { return dtype == DType::Bool ? DType::I32 : compute_dtype(dtype); }

// base with base[index] op= source, combined in a wider dtype where it has one.
Tensor combine_into(Tensor base, Tensor source, const std::vector<Tensor>& index, ScatterMode mode) {
  Builder& b = base.builder();
  if (mode == ScatterMode::Set) return b.scatter(base, b.cast(source, base.dtype()), index, mode);
  const DType dtype = combining_dtype(base.dtype());
  return b.cast(b.scatter(b.cast(base, dtype), b.cast(source, dtype), index, mode), base.dtype());
}

struct Reduction {
  ScatterMode mode;
  Scalar identity;  // what nothing reduces to
  bool is_mean;
};

// PyTorch's names differ between operators.
Reduction find_reduction(const std::string& name, DType dtype) {
  if (name == "sum" || name == "add" || name == "mean") return {ScatterMode::Add, 0.0, name == "mean"};
  if (name == "prod" || name == "multiply") return {ScatterMode::Mul, 1.0, false};
  if (name == "amax") return {ScatterMode::Max, lowest_value(dtype), false};
  if (name == "amin") return {ScatterMode::Min, highest_value(dtype), false};
  throw Error(ErrorKind::InvalidModel, fmt::format("unknown reduction '{}'", name));
}

// scatter_reduce and index_reduce. Without include_self the old value does not count where something is scattered to. A
// mean of integers rounds down.
Tensor reduce_into(Tensor self, Tensor source, const std::vector<Tensor>& index, const std::string& name, bool include_self) {
  Builder& b = self.builder();
  const DType dtype = combining_dtype(self.dtype());
  const Reduction reduction = find_reduction(name, dtype);
  Tensor base = b.cast(self, dtype);
  if (!include_self) base = b.scatter(base, b.scalar(dtype, reduction.identity), index, ScatterMode::Set);
  Tensor result = b.scatter(base, b.cast(source, dtype), index, reduction.mode);
  if (reduction.is_mean) {
    Tensor none = b.full(self.sizes(), dtype, include_self ? 1.0 : 0.0);
    Tensor count = b.scatter(none, b.scalar(dtype, 1.0), index, ScatterMode::Add);
    count = b.binary(ScalarOp::Max, count, b.scalar(dtype, 1.0));
    result = b.pointwise(is_floating(dtype) ? ScalarOp::Div : ScalarOp::FloorDiv, {result, count});
  }
  return b.cast(result, self.dtype());
}

// ---- scatter: `index` along one dim ---------------------------------------------------------------------------------

// The operands of scatter(self, dim, index, src), with scalars as vectors of one element.
struct ScatterArgs {
  Tensor self, source;
  std::vector<Tensor> index;
  Sizes sizes;  // of the result
};

ScatterArgs scatter_args(const Args& a, Tensor source) {
  ScatterArgs s;
  s.self = a.tensor("self");
  s.sizes = s.self.sizes();
  Builder& b = s.self.builder();
  Tensor index = a.tensor("index");
  if (s.self.rank() == 0) s.self = b.unsqueeze(s.self, 0);
  if (index.rank() == 0) index = b.unsqueeze(index, 0);
  s.source = source.rank() == 0 ? b.expand(source, index.sizes()) : source;
  // The source may be larger than the index; what lies beyond is not used.
  s.source = b.slice(s.source, Sizes(index.sizes().size(), 0), Sizes(index.sizes().size(), 1), index.sizes());
  s.index = index_along(index, b.wrap_dim(a.constant("dim"), s.self.rank()));
  return s;
}

Tensor scatter_value(const Args& a) { return a.tensor("self").builder().scalar(a.tensor("self").dtype(), a.scalar("value")); }

std::vector<Tensor> finish(const ScatterArgs& s, Tensor result) { return {result.builder().reshape(result, s.sizes)}; }

std::vector<Tensor> scatter_src(Decomposer&, const Args& a) {
  const ScatterArgs s = scatter_args(a, a.tensor("src"));
  return finish(s, combine_into(s.self, s.source, s.index, ScatterMode::Set));
}

std::vector<Tensor> scatter_of_value(Decomposer&, const Args& a) {
  const ScatterArgs s = scatter_args(a, scatter_value(a));
  return finish(s, combine_into(s.self, s.source, s.index, ScatterMode::Set));
}

std::vector<Tensor> scatter_add(Decomposer&, const Args& a) {
  const ScatterArgs s = scatter_args(a, a.tensor("src"));
  return finish(s, combine_into(s.self, s.source, s.index, ScatterMode::Add));
}

std::vector<Tensor> scatter_with_reduce(Decomposer&, const Args& a) {
  const ScatterArgs s = scatter_args(a, a.tensor("src"));
  return finish(s, reduce_into(s.self, s.source, s.index, a.text("reduce"), true));
}

std::vector<Tensor> scatter_value_with_reduce(Decomposer&, const Args& a) {
  const ScatterArgs s = scatter_args(a, scatter_value(a));
  return finish(s, reduce_into(s.self, s.source, s.index, a.text("reduce"), true));
}

std::vector<Tensor> scatter_reduce(Decomposer&, const Args& a) {
  const ScatterArgs s = scatter_args(a, a.tensor("src"));
  return finish(s, reduce_into(s.self, s.source, s.index, a.text("reduce"), a.flag("include_self")));
}

// ---- index_add, index_copy, …: slices along one dim -----------------------------------------------------------------

struct SliceArgs {
  Tensor self, source;
  AdvancedIndex index;
  Sizes sizes;
};

SliceArgs slice_args(const Args& a, Tensor source) {
  SliceArgs s;
  s.self = a.tensor("self");
  s.sizes = s.self.sizes();
  Builder& b = s.self.builder();
  Tensor index = a.tensor("index");
  if (s.self.rank() == 0) s.self = b.unsqueeze(s.self, 0);
  if (index.rank() == 0) index = b.unsqueeze(index, 0);
  s.index = index_one_dim(s.self, a.constant("dim"), index, true);
  s.source = source.rank() == 0 ? b.expand(source, s.index.sizes) : b.reshape(source, s.index.sizes);
  return s;
}

std::vector<Tensor> finish(const SliceArgs& s, Tensor result) { return {result.builder().reshape(result, s.sizes)}; }

std::vector<Tensor> index_add(Decomposer&, const Args& a) {
  const SliceArgs s = slice_args(a, scaled(a.tensor("source"), a.scalar("alpha")));
  return finish(s, combine_into(s.self, s.source, s.index.per_dim, ScatterMode::Add));
}

std::vector<Tensor> index_copy(Decomposer&, const Args& a) {
  const SliceArgs s = slice_args(a, a.tensor("source"));
  return finish(s, combine_into(s.self, s.source, s.index.per_dim, ScatterMode::Set));
}

std::vector<Tensor> index_fill_scalar(Decomposer&, const Args& a) {
  const SliceArgs s = slice_args(a, scatter_value(a));
  return finish(s, combine_into(s.self, s.source, s.index.per_dim, ScatterMode::Set));
}

std::vector<Tensor> index_fill_tensor(Decomposer&, const Args& a) {
  const SliceArgs s = slice_args(a, a.tensor("value"));
  return finish(s, combine_into(s.self, s.source, s.index.per_dim, ScatterMode::Set));
}

std::vector<Tensor> index_reduce(Decomposer&, const Args& a) {
  const SliceArgs s = slice_args(a, a.tensor("source"));
  return finish(s, reduce_into(s.self, s.source, s.index.per_dim, a.text("reduce"), a.flag("include_self")));
}

// ---- index_put ------------------------------------------------------------------------------------------------------

bool is_mask(Tensor index) { return index.defined() && (index.dtype() == DType::Bool || index.dtype() == DType::U8); }

Tensor masked_put(Tensor self, Tensor mask, Tensor values, bool accumulate) {
  Builder& b = self.builder();
  values = b.cast(values, self.dtype());
  return b.where(mask, accumulate ? self + values : values, self);
}

// self[:, …, mask] = values: no matter how many the mask selects when they all get the same value; nothing where each has its own.
std::optional<Tensor> put_where(Tensor self, size_t first, Tensor mask, Tensor values, bool accumulate) {
  Builder& b = self.builder();
  const size_t covered = mask.sizes().size(), after = dims_before(self, first + covered);
  Sizes mask_sizes = mask.sizes();
  mask_sizes.resize(covered + after, 1);
  mask = b.cast(b.reshape(mask, mask_sizes), DType::Bool);
  if (values.rank() > static_cast<int64_t>(after)) {
    // values is [before…, selected, after…]: the one `selected` becomes as many dims as the mask has.
    Sizes sizes = values.sizes();
    const auto selected = sizes.end() - static_cast<int64_t>(after) - 1;
    if (!selected->is_const(1)) return std::nullopt;
    *selected = 1;
    sizes.insert(selected, covered - 1, sym::Expr(1));
    values = b.reshape(values, sizes);
  }
  return masked_put(self, mask, values, accumulate);
}

// The same with a value for each selected element: as many as the program finds when it runs, which must be as many as there are.
Tensor put_selected(Decomposer& d, Tensor self, std::vector<Tensor> indices, size_t first, Tensor values, bool accumulate) {
  Builder& b = d.b;
  const size_t after = dims_before(self, first + indices[first].sizes().size());
  const sym::Expr selected = values.size(values.rank() - static_cast<int64_t>(after) - 1);
  Tensor is_set = b.reshape(b.cast(indices[first], DType::Bool), {indices[first].numel()});
  b.graph().bindings.push_back({selected, b.reshape(b.sum(b.cast(is_set, DType::I64), {}), {}).id()});
  const std::vector<Tensor> columns = positions_of_mask(indices[first], selected);
  indices.erase(indices.begin() + static_cast<ptrdiff_t>(first));
  indices.insert(indices.begin() + static_cast<ptrdiff_t>(first), columns.begin(), columns.end());
  const AdvancedIndex index = advanced_index(self, indices);
  return combine_into(self, b.expand(values, index.sizes), index.per_dim, accumulate ? ScatterMode::Add : ScatterMode::Set);
}

std::vector<Tensor> index_put(Decomposer& d, const Args& a) {
  Tensor self = a.tensor("self"), values = a.tensor("values");
  const Tensors indices = a.optional_tensors("indices");
  const bool accumulate = a.flag("accumulate");
  const auto mask = std::find_if(indices.begin(), indices.end(), is_mask);
  const auto given = std::count_if(indices.begin(), indices.end(), [](const Tensor& index) { return index.defined(); });
  if (mask != indices.end() && given == 1) {
    const auto first = static_cast<size_t>(mask - indices.begin());
    if (const auto result = put_where(self, first, *mask, values, accumulate)) return {*result};
    return {put_selected(d, self, indices, first, values, accumulate)};
  }
  const AdvancedIndex index = advanced_index(self, positions_of_masks(d, indices));
  Tensor source = self.builder().expand(values, index.sizes);
  return {combine_into(self, source, index.per_dim, accumulate ? ScatterMode::Add : ScatterMode::Set)};
}

// self[indices] += values where the mask is true; elsewhere the indices may be anything.
std::vector<Tensor> masked_index_put_accumulate(Decomposer& d, const Args& a) {
  Tensor self = a.tensor("self"), mask = a.tensor("mask"), values = a.tensor("values");
  Tensors indices = a.optional_tensors("indices");
  for (Tensor& index : indices) {
    if (index.defined()) index = d.b.where(mask, index, d.b.scalar(index.dtype(), sym::Expr(0)));
  }
  Tensor source = d.b.where(mask, values, d.b.scalar(values.dtype(), 0.0));
  return {combine_into(self, source, advanced_index(self, indices).per_dim, ScatterMode::Add)};
}

// Like index_put on the flat tensor.
std::vector<Tensor> put(Decomposer& d, const Args& a) {
  Tensor self = a.tensor("self"), index = a.tensor("index");
  Tensor flat = d.b.reshape(self, {self.numel()});
  Tensor source = d.b.reshape(a.tensor("source"), {index.numel()});
  Tensor position = wrap_index(d.b.reshape(index, {index.numel()}), self.numel());
  const ScatterMode mode = a.flag("accumulate") ? ScatterMode::Add : ScatterMode::Set;
  return {d.b.reshape(combine_into(flat, source, {position}, mode), self.sizes())};
}

// ---- masks ----------------------------------------------------------------------------------------------------------

std::vector<Tensor> masked_fill_scalar(Decomposer&, const Args& a) {
  return {masked_put(a.tensor("self"), a.tensor("mask"), scatter_value(a), false)};
}

std::vector<Tensor> masked_fill_tensor(Decomposer&, const Args& a) {
  return {masked_put(a.tensor("self"), a.tensor("mask"), a.tensor("value"), false)};
}

// The k-th true element takes the k-th element of `source`.
std::vector<Tensor> masked_scatter(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = a.tensor("self"), mask = a.tensor("mask"), source = a.tensor("source");
  const Sizes sizes = b.broadcast(self.sizes(), mask.sizes());
  self = b.expand(self, sizes);
  mask = b.expand(mask, sizes);
  if (source.numel().is_const(0)) return {self};
  Tensor flat = b.cast(b.reshape(mask, {mask.numel()}), DType::I64);
  Tensor rank = b.scan(ScanOp::Sum, flat, 0)[0] - b.scalar(DType::I64, sym::Expr(1));
  rank = b.where(b.cast(flat, DType::Bool), rank, b.scalar(DType::I64, sym::Expr(0)));
  Tensor picked = b.gather(b.reshape(source, {source.numel()}), {rank});
  return {masked_put(self, mask, b.reshape(picked, sizes), false)};
}

// The positions of the first `size` nonzero elements, one row each; rows that nothing is left for hold `fill_value`.
std::vector<Tensor> nonzero_static(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = a.tensor("self");
  const sym::Expr size = a.integer("size");
  if (self.rank() == 0) return {b.full({size, 0}, DType::I64, sym::Expr(0))};
  if (self.numel().is_const(0)) return {b.full({size, self.rank()}, DType::I64, a.integer("fill_value"))};
  const Tensor unused = b.scalar(DType::I64, sym::Expr(-1));
  Tensor is_set = b.reshape(b.cast(self, DType::Bool), {self.numel()});
  Tensor rank = b.scan(ScanOp::Sum, b.cast(is_set, DType::I64), 0)[0] + unused;
  // One slot too many takes what is not wanted.
  rank = b.where(is_set, b.binary(ScalarOp::Min, rank, Scalar(size)), b.scalar(DType::I64, size));
  Tensor slots = b.scatter(b.expand(unused, {size + 1}), b.arange(self.numel()), {rank}, ScatterMode::Set);
  Tensor flat = b.slice(slots, 0, 0, size);
  Tensor filled = b.binary(ScalarOp::Lt, flat, Scalar(sym::Expr(0)));
  std::vector<Tensor> columns(self.sizes().size());
  Tensor rest = flat;
  for (size_t i = columns.size(); i-- > 0;) {
    Tensor at = i == 0 ? rest : b.binary(ScalarOp::Mod, rest, Scalar(self.sizes()[i]));
    columns[i] = b.where(filled, b.scalar(DType::I64, a.integer("fill_value")), at);
    rest = b.binary(ScalarOp::FloorDiv, rest, Scalar(self.sizes()[i]));
  }
  return {b.stack(columns, 1)};
}

constexpr DecompositionRow kRows[] = {
    {"aten::scatter.src", scatter_src},
    {"aten::scatter.value", scatter_of_value},
    {"aten::scatter.reduce", scatter_with_reduce},
    {"aten::scatter.value_reduce", scatter_value_with_reduce},
    {"aten::scatter_add", scatter_add},
    {"aten::scatter_reduce.two", scatter_reduce},
    {"aten::index_add", index_add},
    {"aten::index_copy", index_copy},
    {"aten::index_fill.int_Scalar", index_fill_scalar},
    {"aten::index_fill.int_Tensor", index_fill_tensor},
    {"aten::index_reduce", index_reduce},
    {"aten::index_put", index_put},
    {"aten::index_put.hacked_twin", index_put},
    {"aten::_index_put_impl", index_put},
    {"aten::_index_put_impl_.hacked_twin", index_put},
    {"aten::_unsafe_index_put", index_put},
    {"aten::_unsafe_index_put.hacked_twin", index_put},
    {"aten::_unsafe_masked_index_put_accumulate", masked_index_put_accumulate},
    {"aten::put", put},
    {"aten::masked_fill.Scalar", masked_fill_scalar},
    {"aten::masked_fill.Tensor", masked_fill_tensor},
    {"aten::masked_scatter", masked_scatter},
    {"aten::nonzero_static", nonzero_static},
};

}  // namespace

std::span<const DecompositionRow> scattering_rows() { return kRows; }

}  // namespace toroid
