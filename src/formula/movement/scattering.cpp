// Each is one Scatter into the old value, or a Where when a mask says what changes.
#include "formula/movement/scattering.h"

#include <algorithm>
#include <optional>

#include "formula/basics/index_tensors.h"
#include "formula/basics/limits.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
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

ScatterMode mode_of(ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::Product: return ScatterMode::Mul;
    case ScatterReduction::Max: return ScatterMode::Max;
    case ScatterReduction::Min: return ScatterMode::Min;
    default: return ScatterMode::Add;
  }
}

// What nothing reduces to.
Scalar identity_of(ScatterReduction reduction, DType dtype) {
  switch (reduction) {
    case ScatterReduction::Product: return 1.0;
    case ScatterReduction::Max: return lowest_value(dtype);
    case ScatterReduction::Min: return highest_value(dtype);
    default: return 0.0;
  }
}

Tensor reduce_into(Tensor self, Tensor source, const std::vector<Tensor>& index, ScatterReduction reduction, bool include_self) {
  Builder& b = self.builder();
  const DType dtype = combining_dtype(self.dtype());
  Tensor base = b.cast(self, dtype);
  if (!include_self) base = b.scatter(base, b.scalar(dtype, identity_of(reduction, dtype)), index, ScatterMode::Set);
  Tensor result = b.scatter(base, b.cast(source, dtype), index, mode_of(reduction));
  if (reduction == ScatterReduction::Mean) {
    Tensor none = b.full(self.sizes(), dtype, include_self ? 1.0 : 0.0);
    Tensor count = b.scatter(none, b.scalar(dtype, 1.0), index, ScatterMode::Add);
    count = b.binary(ScalarOp::Max, count, b.scalar(dtype, 1.0));
    result = b.pointwise(is_floating(dtype) ? ScalarOp::Div : ScalarOp::FloorDiv, {result, count});
  }
  return b.cast(result, self.dtype());
}

// ---- along one dim --------------------------------------------------------------------------------------------------

// What is written where; x and the index have rank 1 or more.
struct Write {
  Tensor x, source;
  std::vector<Tensor> index;
};

Write write_of_elements(Tensor x, int64_t dim, Tensor index, Tensor source) {
  Builder& b = x.builder();
  if (x.rank() == 0) x = b.unsqueeze(x, 0);
  if (index.rank() == 0) index = b.unsqueeze(index, 0);
  source = source.rank() == 0 ? b.expand(source, index.sizes()) : source;
  source = b.slice(source, Sizes(index.sizes().size(), 0), Sizes(index.sizes().size(), 1), index.sizes());
  return {x, source, index_along(index, b.wrap_dim(dim, x.rank()))};
}

Write write_of_slices(Tensor x, int64_t dim, Tensor index, Tensor source) {
  Builder& b = x.builder();
  if (x.rank() == 0) x = b.unsqueeze(x, 0);
  if (index.rank() == 0) index = b.unsqueeze(index, 0);
  const AdvancedIndex slices = index_one_dim(x, dim, index, true);
  source = source.rank() == 0 ? b.expand(source, slices.sizes) : b.reshape(source, slices.sizes);
  return {x, source, slices.per_dim};
}

Tensor combined(Tensor x, const Write& w, ScatterMode mode) {
  return x.builder().reshape(combine_into(w.x, w.source, w.index, mode), x.sizes());
}
Tensor reduced(Tensor x, const Write& w, ScatterReduction reduction, bool include_self) {
  return x.builder().reshape(reduce_into(w.x, w.source, w.index, reduction, include_self), x.sizes());
}

}  // namespace

Tensor scatter(Tensor x, int64_t dim, Tensor index, Tensor source, ScatterMode mode) {
  return combined(x, write_of_elements(x, dim, index, source), mode);
}

Tensor scatter_reduce(Tensor x, int64_t dim, Tensor index, Tensor source, ScatterReduction reduction, bool include_self) {
  return reduced(x, write_of_elements(x, dim, index, source), reduction, include_self);
}

Tensor scatter_slices(Tensor x, int64_t dim, Tensor index, Tensor source, ScatterMode mode) {
  return combined(x, write_of_slices(x, dim, index, source), mode);
}

Tensor reduce_slices(Tensor x, int64_t dim, Tensor index, Tensor source, ScatterReduction reduction, bool include_self) {
  return reduced(x, write_of_slices(x, dim, index, source), reduction, include_self);
}

// ---- at several dims ------------------------------------------------------------------------------------------------

namespace {

Tensor masked_put(Tensor x, Tensor mask, Tensor values, bool accumulate) {
  Builder& b = x.builder();
  values = b.cast(values, x.dtype());
  return b.where(mask, accumulate ? x + values : values, x);
}

// x[:, …, mask] = values: no matter how many the mask selects when they all get the same value; nothing where each has its own.
std::optional<Tensor> put_where(Tensor x, size_t first, Tensor mask, Tensor values, bool accumulate) {
  Builder& b = x.builder();
  const size_t covered = mask.sizes().size(), after = dims_before(x, first + covered);
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
  return masked_put(x, mask, values, accumulate);
}

// The same with a value for each selected element: as many as the program finds when it runs, which must be as many as there are.
Tensor put_selected(Tensor x, std::vector<Tensor> indices, size_t first, Tensor values, bool accumulate) {
  Builder& b = x.builder();
  const size_t after = dims_before(x, first + indices[first].sizes().size());
  const sym::Expr selected = values.size(values.rank() - static_cast<int64_t>(after) - 1);
  Tensor is_set = b.reshape(b.cast(indices[first], DType::Bool), {indices[first].numel()});
  b.graph().bindings.push_back({selected, b.reshape(b.sum(b.cast(is_set, DType::I64), {}), {}).id()});
  const std::vector<Tensor> columns = positions_of_mask(indices[first], selected);
  indices.erase(indices.begin() + static_cast<ptrdiff_t>(first));
  indices.insert(indices.begin() + static_cast<ptrdiff_t>(first), columns.begin(), columns.end());
  const AdvancedIndex index = advanced_index(x, indices);
  return combine_into(x, b.expand(values, index.sizes), index.per_dim, accumulate ? ScatterMode::Add : ScatterMode::Set);
}

}  // namespace

bool is_single_mask(const std::vector<Tensor>& indices) {
  const auto given = std::count_if(indices.begin(), indices.end(), [](const Tensor& index) { return index.defined(); });
  return given == 1 && std::any_of(indices.begin(), indices.end(), is_mask);
}

Tensor index_put(Tensor x, const std::vector<Tensor>& indices, Tensor values, bool accumulate) {
  if (is_single_mask(indices)) {
    const auto mask = std::find_if(indices.begin(), indices.end(), is_mask);
    const auto first = static_cast<size_t>(mask - indices.begin());
    if (const auto result = put_where(x, first, *mask, values, accumulate)) return *result;
    return put_selected(x, indices, first, values, accumulate);
  }
  const AdvancedIndex index = advanced_index(x, indices);
  Tensor source = x.builder().expand(values, index.sizes);
  return combine_into(x, source, index.per_dim, accumulate ? ScatterMode::Add : ScatterMode::Set);
}

Tensor masked_index_add(Tensor x, Tensor mask, const std::vector<Tensor>& indices, Tensor values) {
  Builder& b = x.builder();
  Tensor source = b.where(mask, values, b.scalar(values.dtype(), 0.0));
  return combine_into(x, source, advanced_index(x, indices_in_bounds(x, indices)).per_dim, ScatterMode::Add);
}

Tensor put(Tensor x, Tensor index, Tensor source, bool accumulate) {
  Builder& b = x.builder();
  Tensor flat = b.reshape(x, {x.numel()});
  source = b.reshape(source, {index.numel()});
  Tensor position = wrap_index(b.reshape(index, {index.numel()}), x.numel());
  return b.reshape(combine_into(flat, source, {position}, accumulate ? ScatterMode::Add : ScatterMode::Set), x.sizes());
}

// ---- masks ----------------------------------------------------------------------------------------------------------

Tensor masked_fill(Tensor x, Tensor mask, Tensor value) { return masked_put(x, mask, value, false); }

Tensor masked_scatter(Tensor x, Tensor mask, Tensor source) {
  Builder& b = x.builder();
  const Sizes sizes = b.broadcast(x.sizes(), mask.sizes());
  x = b.expand(x, sizes);
  mask = b.expand(mask, sizes);
  if (source.numel().is_const(0)) return x;
  Tensor flat = b.cast(b.reshape(mask, {mask.numel()}), DType::I64);
  Tensor rank = b.scan(ScanOp::Sum, flat, 0)[0] - b.scalar(DType::I64, sym::Expr(1));
  rank = b.where(b.cast(flat, DType::Bool), rank, b.scalar(DType::I64, sym::Expr(0)));
  Tensor picked = b.gather(b.reshape(source, {source.numel()}), {rank});
  return masked_put(x, mask, b.reshape(picked, sizes), false);
}

Tensor nonzero_static(Tensor x, sym::Expr size, sym::Expr fill) {
  Builder& b = x.builder();
  if (x.rank() == 0) return b.full({size, 0}, DType::I64, sym::Expr(0));
  if (x.numel().is_const(0)) return b.full({size, x.rank()}, DType::I64, fill);
  const Tensor unused = b.scalar(DType::I64, sym::Expr(-1));
  Tensor is_set = b.reshape(b.cast(x, DType::Bool), {x.numel()});
  Tensor rank = b.scan(ScanOp::Sum, b.cast(is_set, DType::I64), 0)[0] + unused;
  // One slot too many takes what is not wanted.
  rank = b.where(is_set, b.binary(ScalarOp::Min, rank, Scalar(size)), b.scalar(DType::I64, size));
  Tensor slots = b.scatter(b.expand(unused, {size + 1}), b.arange(x.numel()), {rank}, ScatterMode::Set);
  Tensor flat = b.slice(slots, 0, 0, size);
  Tensor is_left = b.binary(ScalarOp::Lt, flat, Scalar(sym::Expr(0)));
  std::vector<Tensor> columns(x.sizes().size());
  Tensor rest = flat;
  for (size_t i = columns.size(); i-- > 0;) {
    Tensor at = i == 0 ? rest : b.binary(ScalarOp::Mod, rest, Scalar(x.sizes()[i]));
    columns[i] = b.where(is_left, b.scalar(DType::I64, fill), at);
    rest = b.binary(ScalarOp::FloorDiv, rest, Scalar(x.sizes()[i]));
  }
  return b.stack(columns, 1);
}

}  // namespace toroid::formula
