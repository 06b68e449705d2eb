#include "passes/decompose/engine/data_dependent.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"

namespace toroid {

sym::Expr bind_size(Builder& b, sym::Expr size, Tensor value) {
  if (!size.is_const()) b.graph().bindings.push_back({size, b.reshape(b.cast(value, DType::I64), {}).id()});
  return size;
}

bool is_unbound(const Graph& graph, sym::Expr size) {
  if (!size.is_symbol() || size.node()->symbol_kind != sym::SymbolKind::DataDependent) return false;
  return std::none_of(graph.bindings.begin(), graph.bindings.end(),
                      [&](const SymbolBinding& binding) { return sym::depends_on(binding.expr, size); });
}

namespace {

sym::Expr new_symbol(Builder& b, const std::string& prefix, int64_t most) {
  std::string name;
  for (int n = 0; name.empty() || b.symbols().find_symbol(name); ++n) name = fmt::format("{}{}", prefix, n);
  return b.symbols().symbol(name, sym::SymbolKind::DataDependent, {0, most});
}

}  // namespace

sym::Expr bound_symbol(Builder& b, Tensor value, sym::Expr most) { return bind_size(b, new_symbol(b, "d", most.range().max), value); }

void require_true(Builder& b, Tensor holds, const std::string& what) {
  std::string prefix;
  for (char c : what.substr(0, 60)) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    prefix += is_plain ? c : '_';
  }
  const Tensor failed = b.sum(b.cast(apply(ScalarOp::BitNot, holds), DType::I64), {});
  const sym::Expr count = bind_size(b, new_symbol(b, prefix + "_", sym::kPosInf), failed);
  b.require_equal(count, 0, what);
}

sym::Expr bind_recorded(Decomposer& d, size_t result, int64_t dim, Tensor value, sym::Expr most) {
  if (result >= d.recorded.size()) return bound_symbol(d.b, value, most);
  const sym::Expr size = d.recorded[result].sizes[static_cast<size_t>(dim)];
  if (size.is_const() && !d.in_subgraph) {
    d.b.require_equal(bound_symbol(d.b, value, most), size, "a size that depends on data");
    return size;
  }
  return bind_size(d.b, size, value);
}

namespace {

Tensor flattened(Tensor x) { return x.builder().reshape(x, {x.numel()}); }
Tensor count_true(Tensor is_true) { return is_true.builder().sum(is_true.builder().cast(is_true, DType::I64), {}); }

Tensor integer(Builder& b, sym::Expr value) { return b.scalar(DType::I64, value); }

// ---- nonzero elements ----------------------------------------------------------------------------------------------------

// One tensor a dim: where the nonzero elements are.
std::vector<Tensor> nonzero_columns(Decomposer& d, Tensor x) {
  Tensor is_set = flattened(d.b.cast(x, DType::Bool));
  return positions_of_mask(x, bind_recorded(d, 0, 0, count_true(is_set), x.numel()));
}

// The size of x[mask]: the symbol that the exporter made for it, if it did.
sym::Expr bind_mask_count(Decomposer& d, Tensor count, sym::Expr most) {
  for (const TensorType& type : d.recorded) {
    for (sym::Expr size : type.sizes) {
      if (is_unbound(d.b.graph(), size)) return bind_size(d.b, size, count);
    }
  }
  return bound_symbol(d.b, count, most);
}

std::vector<Tensor> nonzero(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  if (x.rank() == 0) {
    const sym::Expr count = bind_recorded(d, 0, 0, d.b.cast(x, DType::Bool), 1);
    return {d.b.full({count, 0}, DType::I64, sym::Expr(0))};
  }
  return {d.b.stack(nonzero_columns(d, x), 1)};
}

std::vector<Tensor> nonzero_numpy(Decomposer& d, const Args& a) {
  Tensor x = a.tensor(a.schema().parameters[0].name);
  return nonzero_columns(d, x.rank() == 0 ? d.b.unsqueeze(x, 0) : x);
}

std::vector<Tensor> masked_select(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const Sizes sizes = b.broadcast(a.tensor("self").sizes(), a.tensor("mask").sizes());
  Tensor x = flattened(b.expand(a.tensor("self"), sizes));
  Tensor mask = flattened(b.expand(b.cast(a.tensor("mask"), DType::Bool), sizes));
  // What PyTorch records is bounded by the tensor's size, which a larger mask may exceed.
  const bool fits = sym::known_le(x.numel(), a.tensor("self").numel());
  const sym::Expr count = fits ? bind_recorded(d, 0, 0, count_true(mask), x.numel()) : bound_symbol(b, count_true(mask), x.numel());
  return {b.gather(x, {true_positions(mask, count)})};
}

// ---- equal elements --------------------------------------------------------------------------------------------------------

// Neighbours in a sequence that are equal form a group.
struct Groups {
  Tensor group;  // [n]: the group that each element belongs to
  sym::Expr count;
  Tensor first;  // [count]: the position of each group's first element
  Tensor sizes;  // [count]
};

// Each row as the one before it, the first as itself.
Tensor row_before(Tensor rows) {
  Builder& b = rows.builder();
  Sizes axes, index;
  for (sym::Expr size : rows.sizes()) index.push_back(axes.emplace_back(b.axis(size)));
  index[0] = sym::max(axes[0] - 1, 0);
  return b.remap(rows, axes, index);
}

// Which elements of [n], or rows of [n, width], differ from the one before them or have none. Rows that may be none at all have no
// n - 1 neighbours.
Tensor starts_of_groups(Tensor rows) {
  Builder& b = rows.builder();
  const sym::Expr n = rows.size(0);
  const bool has_rows = sym::known_lt(0, n);
  Tensor differs = has_rows ? ne(b.slice(rows, 0, 1, n - 1), b.slice(rows, 0, 0, n - 1)) : ne(rows, row_before(rows));
  if (rows.rank() == 2) differs = b.reduce(ReduceOp::Any, differs, {1})[0];
  if (has_rows) return b.pad(differs, {1}, {0}, true);
  return b.pointwise(ScalarOp::BitOr, {differs, b.binary(ScalarOp::Eq, b.iota({n}, 0, DType::I64), Scalar(sym::Expr(0)))});
}

Groups group_neighbours(Decomposer& d, Tensor starts, int64_t dim) {
  Builder& b = d.b;
  const sym::Expr n = starts.size(0);
  Groups groups;
  Tensor number = b.cast(starts, DType::I64);
  groups.count = bind_recorded(d, 0, dim, b.sum(number, {}), n);
  groups.group = b.scan(ScanOp::Sum, number, 0)[0] - integer(b, 1);
  groups.first = true_positions(starts, groups.count);
  Tensor zeros = b.full({groups.count}, DType::I64, sym::Expr(0));
  groups.sizes = b.scatter(zeros, b.full({n}, DType::I64, sym::Expr(1)), {groups.group}, ScatterMode::Add);
  return groups;
}

// What was not asked for is an empty tensor.
Tensor if_wanted(Decomposer& d, bool wanted, Tensor x) { return wanted ? x : d.b.full({0}, DType::I64, sym::Expr(0)); }

bool wants(const Args& a, std::string_view name) {
  for (const Parameter& parameter : a.schema().parameters) {
    if (parameter.name == name) return a.flag(name);
  }
  return false;
}

// The results (values, inverse, counts) for elements in the order `order`, of a sequence grouped in that order.
std::vector<Tensor> unique_results(Decomposer& d, const Args& a, Tensor values, const Groups& groups, Tensor order,
                                   const Sizes& inverse_sizes) {
  Builder& b = d.b;
  Tensor inverse = groups.group;
  if (order.defined()) inverse = b.scatter(groups.group, groups.group, {order}, ScatterMode::Set);
  std::vector<Tensor> results = {values, if_wanted(d, wants(a, "return_inverse"), b.reshape(inverse, inverse_sizes))};
  if (a.schema().results.size() > 2) results.push_back(if_wanted(d, wants(a, "return_counts"), groups.sizes));
  return results;
}

std::vector<Tensor> unique_of_empty(Decomposer& d, const Args& a, const Sizes& sizes, const Sizes& inverse_sizes) {
  Tensor none = d.b.full({0}, DType::I64, sym::Expr(0));
  Tensor inverse = d.b.full(inverse_sizes, DType::I64, sym::Expr(0));
  std::vector<Tensor> results = {d.b.full(sizes, a.tensor("self").dtype(), 0.0), wants(a, "return_inverse") ? inverse : none};
  if (a.schema().results.size() > 2) results.push_back(none);
  return results;
}

// Of all elements; sorted first unless only neighbours count.
std::vector<Tensor> unique_elements(Decomposer& d, const Args& a, bool sort) {
  Builder& b = d.b;
  Tensor x = a.tensor("self");
  Tensor values = flattened(x);
  const sym::Expr n = values.numel();
  if (n.is_const(0)) return unique_of_empty(d, a, {0}, x.sizes());
  Tensor order;
  if (sort) std::tie(values, order) = b.sort(values, 0, false, true);
  const Groups groups = group_neighbours(d, starts_of_groups(values), 0);
  return unique_results(d, a, b.gather(values, {groups.first}), groups, order, x.sizes());
}

// Rows of [n, width] in lexicographic order: sorted by the last column first, each later sort keeping the order before it.
Tensor lexicographic_order(Tensor rows) {
  Builder& b = rows.builder();
  if (!rows.size(1).is_const() || rows.size(1).value() > 1024) {
    throw Error(ErrorKind::Unsupported, fmt::format("unique along a dim with slices of {} elements", sym::to_string(rows.size(1))));
  }
  Tensor order = b.arange(rows.size(0));
  for (int64_t column = rows.size(1).value() - 1; column >= 0; --column) {
    Tensor keys = b.gather(b.select(rows, 1, column), {order});
    order = b.gather(order, {b.sort(keys, 0, false, true).second});
  }
  return order;
}

Tensor take_along(Tensor x, int64_t dim, Tensor index) { return x.builder().gather(x, index_one_dim(x, dim, index).per_dim); }

// Of the slices along one dim.
std::vector<Tensor> unique_slices(Decomposer& d, const Args& a, int64_t dim, bool sort) {
  Builder& b = d.b;
  Tensor x = a.tensor("self");
  dim = b.wrap_dim(dim, x.rank());
  const sym::Expr n = x.size(dim);
  if (n.is_const(0)) return unique_of_empty(d, a, x.sizes(), {0});
  Dims last = {dim};
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != dim) last.push_back(i);
  }
  sym::Expr width = 1;
  for (int64_t i = 0; i < x.rank(); ++i) width = i == dim ? width : width * x.size(i);
  Tensor rows = b.reshape(b.permute(x, last), {n, width});
  Tensor order;
  if (sort) {
    order = lexicographic_order(rows);
    rows = take_along(rows, 0, order);
    x = take_along(x, dim, order);
  }
  const Groups groups = group_neighbours(d, starts_of_groups(rows), dim);
  return unique_results(d, a, take_along(x, dim, groups.first), groups, order, {n});
}

std::vector<Tensor> unique(Decomposer& d, const Args& a) { return unique_elements(d, a, true); }
std::vector<Tensor> unique_dim(Decomposer& d, const Args& a) { return unique_slices(d, a, a.constant("dim"), true); }
std::vector<Tensor> unique_dim_consecutive(Decomposer& d, const Args& a) { return unique_slices(d, a, a.constant("dim"), false); }
std::vector<Tensor> unique_consecutive(Decomposer& d, const Args& a) {
  return a.has("dim") ? unique_slices(d, a, a.constant("dim"), false) : unique_elements(d, a, false);
}

// ---- counting --------------------------------------------------------------------------------------------------------------

std::vector<Tensor> bincount(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = b.cast(a.tensor("self"), DType::I64);
  Tensor weights = a.optional_tensor("weights");
  Tensor least = integer(b, a.integer("minlength"));
  if (weights.defined() && weights.dtype() != DType::F32) weights = b.cast(weights, DType::F64);
  if (!weights.defined()) weights = b.full(x.sizes(), DType::I64, sym::Expr(1));
  if (x.numel().is_const(0)) return {b.full({a.integer("minlength")}, DType::I64, sym::Expr(0))};
  Tensor length = maximum(b.amax(x, {}) + integer(b, 1), least);
  const sym::Expr count = bind_recorded(d, 0, 0, length, sym::kPosInf);
  Tensor zeros = b.expand(number_like(weights, 0.0), {count});
  return {b.scatter(zeros, weights, {x}, ScatterMode::Add)};
}

constexpr DecompositionRow kDataDependentRows[] = {
    {"aten::nonzero", nonzero},
    {"aten::argwhere", nonzero},
    {"aten::nonzero_numpy", nonzero_numpy},
    {"aten::where", nonzero_numpy},
    {"aten::masked_select", masked_select},
    {"aten::_unique", unique},
    {"aten::_unique2", unique},
    {"aten::unique_dim", unique_dim},
    {"aten::unique_consecutive", unique_consecutive},
    {"aten::unique_dim_consecutive", unique_dim_consecutive},
    {"aten::bincount", bincount},
};

}  // namespace

std::vector<Tensor> positions_of_masks(Decomposer& d, const std::vector<Tensor>& indices) {
  std::vector<Tensor> result;
  for (const Tensor& index : indices) {
    if (!is_mask(index)) {
      result.push_back(index);
      continue;
    }
    Tensor is_set = flattened(d.b.cast(index, DType::Bool));
    const sym::Expr count = bind_mask_count(d, count_true(is_set), index.numel());
    for (Tensor column : positions_of_mask(index, count)) result.push_back(column);
  }
  return result;
}

std::span<const DecompositionRow> data_dependent_rows() { return kDataDependentRows; }

}  // namespace toroid
