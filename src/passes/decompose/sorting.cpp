// Sorting and what follows from an order: largest elements, medians, modes.
//
// NaN counts as the largest element, as in PyTorch. Where several elements are equal, which index is given is free.
#include <cmath>

#include "passes/decompose/formula.h"
#include "passes/decompose/index_tensors.h"
#include "passes/decompose/operands.h"
#include "passes/decompose/over_dims.h"
#include "support/error.h"

namespace toroid {
namespace {

// ---- orders --------------------------------------------------------------------------------------------------------

std::vector<Tensor> sort(Decomposer& d, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  const bool stable = has_parameter(a, "stable") && a.has("stable") && a.flag("stable");
  const auto [values, indices] = d.b.sort(along.x, along.dim, a.flag("descending"), stable);
  return along.results({values, indices});
}
std::vector<Tensor> argsort(Decomposer& d, const Args& a) { return {sort(d, a)[1]}; }

std::vector<Tensor> msort(Decomposer& d, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), 0);
  return along.results({d.b.sort(along.x, 0, false, true).first});
}

std::vector<Tensor> topk(Decomposer& d, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  const auto [values, indices] = d.b.sort(along.x, along.dim, a.flag("largest"), false);
  const sym::Expr k = a.integer("k");
  return along.results({d.b.slice(values, along.dim, 0, k), d.b.slice(indices, along.dim, 0, k)});
}

// ---- one element of each row ---------------------------------------------------------------------------------------

// The element of each row at `index`, which has size 1 along the dim.
Tensor pick(Tensor x, int64_t dim, Tensor index) { return x.builder().gather(x, index_along(index, dim)); }

// {values, indices}, of size 1 along the dim, as the operator's results.
std::vector<Tensor> one_a_row(const Args& a, const AlongDim& along, std::vector<Tensor> found) {
  if (!a.flag("keepdim") && !along.was_scalar) {
    for (Tensor& x : found) x = x.builder().squeeze(x, along.dim);
  }
  return along.results(found);
}

std::vector<Tensor> kthvalue(Decomposer& d, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  const auto [values, indices] = d.b.sort(along.x, along.dim, false, true);
  const sym::Expr place = a.integer("k") - 1;
  return one_a_row(a, along, {d.b.slice(values, along.dim, place, 1), d.b.slice(indices, along.dim, place, 1)});
}

// The lower middle element. A NaN in the row wins, at its first place, unless NaNs are ignored.
std::vector<Tensor> middle(Tensor x, int64_t dim, bool ignore_nan) {
  Builder& b = x.builder();
  const auto [values, indices] = b.sort(x, dim, false, true);
  if (!is_floating(x.dtype())) {
    const sym::Expr place = sym::floor_div(x.size(dim) - 1, 2);
    return {b.slice(values, dim, place, 1), b.slice(indices, dim, place, 1)};
  }
  Tensor nans = reduce_keeping(ReduceOp::Sum, b.cast(isnan(x), DType::I64), {dim});
  Tensor numbers = b.scalar(DType::I64, x.size(dim)) - nans;
  Tensor place = apply(ScalarOp::FloorDiv, maximum(numbers - b.scalar(DType::I64, sym::Expr(1)), 0), 2);
  // NaNs sort last, so the first of them follows the numbers.
  if (!ignore_nan) place = where(nans > 0, numbers, place);
  return {pick(values, dim, place), pick(indices, dim, place)};
}

template <bool ignore_nan>
std::vector<Tensor> median_along(Decomposer&, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  return one_a_row(a, along, middle(along.x, along.dim, ignore_nan));
}

template <bool ignore_nan>
std::vector<Tensor> median(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  if (x.numel().is_const(0)) return {d.b.full({}, x.dtype(), std::nan(""))};
  return {d.b.squeeze(middle(d.b.reshape(x, {x.numel()}), 0, ignore_nan)[0], 0)};
}

// The most frequent element, the smallest of them, at its last place.
std::vector<Tensor> mode(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  const auto [values, indices] = b.sort(along.x, along.dim, false, true);
  const int64_t other = along.x.rank();  // a copy of the dim, at the end, to compare each element with all
  Tensor mine = b.unsqueeze(values, other);
  Tensor theirs = b.transpose(mine, along.dim, other);
  Tensor counts = b.sum(b.cast(eq(mine, theirs), DType::I64), {other});
  Tensor first = over_dims(counts, {along.dim}, true).shaped(b.reduce(ReduceOp::ArgMax, counts, {along.dim})[0]);
  Tensor last = first + pick(counts, along.dim, first) - b.scalar(DType::I64, sym::Expr(1));
  return one_a_row(a, along, {pick(values, along.dim, first), pick(indices, along.dim, last)});
}

constexpr DecompositionRow kRows[] = {
    {"aten::sort", sort},
    {"aten::sort.stable", sort},
    {"aten::argsort", argsort},
    {"aten::argsort.stable", argsort},
    {"aten::msort", msort},
    {"aten::topk", topk},
    {"aten::kthvalue", kthvalue},
    {"aten::median", median<false>},
    {"aten::nanmedian", median<true>},
    {"aten::median.dim", median_along<false>},
    {"aten::nanmedian.dim", median_along<true>},
    {"aten::mode", mode},
};

}  // namespace

std::span<const DecompositionRow> sorting_rows() { return kRows; }

}  // namespace toroid
