// Sorting and what follows from an order: largest elements, medians, modes.
//
// NaN counts as the largest element, as in PyTorch. Where several elements are equal, which index is given is free.
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"

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

// `count` elements of each row are asked for, `least` or more. Throws Error{InvalidModel} where a row is known to have fewer.
void require_elements(const Args& a, const AlongDim& along, sym::Expr count, int64_t least) {
  const sym::Expr size = along.x.size(along.dim);
  if (!sym::known_lt(count, least) && !sym::known_lt(size, count)) return;
  const std::string asked = has_parameter(a, "k") ? fmt::format("'k' is {}", sym::to_string(count)) : "one at least is needed";
  throw Error(ErrorKind::InvalidModel, fmt::format("{} over a dim of {} elements: {}", a.schema().name, sym::to_string(size), asked));
}

// {values, indices} by a kernel of runtime/kernels/select/selection.h, which takes rows along the last dim.
std::vector<Tensor> selected(std::string kernel, const AlongDim& along, sym::Expr count, std::vector<Scalar> attributes) {
  Builder& b = along.x.builder();
  const Tensor rows = b.transpose(along.x, along.dim, -1);
  Sizes sizes = rows.sizes();
  sizes.back() = count;
  std::vector<Tensor> found = b.library(
      std::move(kernel), {rows}, {{.dtype = rows.dtype(), .sizes = sizes}, {.dtype = DType::I64, .sizes = sizes}}, std::move(attributes));
  for (Tensor& x : found) x = b.transpose(x, along.dim, -1);
  return found;
}

std::vector<Tensor> topk(Decomposer& d, const Args& a) {
  constexpr int64_t kFew = 8;  // of so many: worth sorting only them
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  const sym::Expr k = a.integer("k");
  require_elements(a, along, k, 0);
  if (sym::evaluate_hint(k) <= sym::evaluate_hint(along.x.size(along.dim)) / kFew) {
    return along.results(selected("order.topk", along, k, {Scalar(k), Scalar(a.flag("largest"))}));
  }
  const auto [values, indices] = d.b.sort(along.x, along.dim, a.flag("largest"), false);
  return along.results({d.b.slice(values, along.dim, 0, k), d.b.slice(indices, along.dim, 0, k)});
}

// ---- one element of each row ---------------------------------------------------------------------------------------

// {values, indices}, of size 1 along the dim, as the operator's results.
std::vector<Tensor> one_a_row(const Args& a, const AlongDim& along, std::vector<Tensor> found) {
  if (!a.flag("keepdim") && !along.was_scalar) {
    for (Tensor& x : found) x = x.builder().squeeze(x, along.dim);
  }
  return along.results(found);
}

std::vector<Tensor> kthvalue(Decomposer&, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  const sym::Expr k = a.integer("k");
  require_elements(a, along, k, 1);
  return one_a_row(a, along, selected("order.kth", along, 1, {Scalar(k - 1)}));
}

// The lower middle element. A NaN in the row wins, at its first place, unless NaNs are ignored.
template <bool ignore_nan>
std::vector<Tensor> median_along(Decomposer&, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  require_elements(a, along, 1, 1);
  return one_a_row(a, along, selected("order.median", along, 1, {Scalar(ignore_nan)}));
}

template <bool ignore_nan>
std::vector<Tensor> median(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const sym::Expr count = x.numel();
  const Tensor of_nothing = d.b.full({}, x.dtype(), std::nan(""));
  if (count.is_const(0)) return {of_nothing};
  x = d.b.reshape(x, {count});
  const bool may_be_empty = !sym::known_lt(0, count);
  if (may_be_empty) x = d.b.pad(x, {0}, {sym::max(1 - count, 0)}, 0.0);
  const Tensor found = d.b.squeeze(selected("order.median", along_dim(x, 0), 1, {Scalar(ignore_nan)})[0], 0);
  return {may_be_empty ? where(eq(d.b.scalar(DType::I64, count), 0), of_nothing, found) : found};
}

// The most frequent element, the smallest of them, at its last place.
std::vector<Tensor> mode(Decomposer&, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  require_elements(a, along, 1, 1);
  return one_a_row(a, along, selected("order.mode", along, 1, {}));
}

constexpr DecompositionRow kSortingRows[] = {
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

std::span<const DecompositionRow> sorting_rows() { return kSortingRows; }

}  // namespace toroid
