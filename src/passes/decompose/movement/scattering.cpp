// ATen's ways to write by index: scatter and its reductions, index_put, index_add and its relatives, masked fills.
#include "formula/movement/scattering.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// PyTorch's names differ between operators.
formula::ScatterReduction reduction_of(const Args& a) {
  const std::string name = a.text("reduce");
  if (name == "sum" || name == "add") return formula::ScatterReduction::Sum;
  if (name == "prod" || name == "multiply") return formula::ScatterReduction::Product;
  if (name == "mean") return formula::ScatterReduction::Mean;
  if (name == "amax") return formula::ScatterReduction::Max;
  if (name == "amin") return formula::ScatterReduction::Min;
  throw Error(ErrorKind::InvalidModel, fmt::format("unknown reduction '{}'", name));
}

// The number `value` in the dtype of `self`.
Tensor value_of(const Args& a) { return a.tensor("self").builder().scalar(a.tensor("self").dtype(), a.scalar("value")); }

// ---- scatter: `index` along one dim ---------------------------------------------------------------------------------

Tensor scattered(const Args& a, Tensor source, ScatterMode mode = ScatterMode::Set) {
  return formula::scatter(a.tensor("self"), a.constant("dim"), a.tensor("index"), source, mode);
}
Tensor scatter_reduced(const Args& a, Tensor source, bool include_self) {
  return formula::scatter_reduce(a.tensor("self"), a.constant("dim"), a.tensor("index"), source, reduction_of(a), include_self);
}

std::vector<Tensor> scatter_src(Decomposer&, const Args& a) { return {scattered(a, a.tensor("src"))}; }
std::vector<Tensor> scatter_of_value(Decomposer&, const Args& a) { return {scattered(a, value_of(a))}; }
std::vector<Tensor> scatter_add(Decomposer&, const Args& a) { return {scattered(a, a.tensor("src"), ScatterMode::Add)}; }
std::vector<Tensor> scatter_with_reduce(Decomposer&, const Args& a) { return {scatter_reduced(a, a.tensor("src"), true)}; }
std::vector<Tensor> scatter_value_with_reduce(Decomposer&, const Args& a) { return {scatter_reduced(a, value_of(a), true)}; }
std::vector<Tensor> scatter_reduce(Decomposer&, const Args& a) { return {scatter_reduced(a, a.tensor("src"), a.flag("include_self"))}; }

// ---- index_add, index_copy, …: slices along one dim -----------------------------------------------------------------

Tensor with_slices(const Args& a, Tensor source, ScatterMode mode = ScatterMode::Set) {
  return formula::scatter_slices(a.tensor("self"), a.constant("dim"), a.tensor("index"), source, mode);
}

std::vector<Tensor> index_add(Decomposer&, const Args& a) {
  return {with_slices(a, scaled(a.tensor("source"), a.scalar("alpha")), ScatterMode::Add)};
}
std::vector<Tensor> index_copy(Decomposer&, const Args& a) { return {with_slices(a, a.tensor("source"))}; }
std::vector<Tensor> index_fill_scalar(Decomposer&, const Args& a) { return {with_slices(a, value_of(a))}; }
std::vector<Tensor> index_fill_tensor(Decomposer&, const Args& a) { return {with_slices(a, a.tensor("value"))}; }
std::vector<Tensor> index_reduce(Decomposer&, const Args& a) {
  return {formula::reduce_slices(a.tensor("self"), a.constant("dim"), a.tensor("index"), a.tensor("source"), reduction_of(a),
                                 a.flag("include_self"))};
}

// ---- index_put ------------------------------------------------------------------------------------------------------

std::vector<Tensor> index_put(Decomposer& d, const Args& a) {
  Tensor self = a.tensor("self"), values = a.tensor("values");
  std::vector<Tensor> indices = a.optional_tensors("indices");
  if (!formula::is_single_mask(indices)) indices = positions_of_masks(d, indices);
  return {formula::index_put(self, indices, values, a.flag("accumulate"))};
}

std::vector<Tensor> masked_index_put_accumulate(Decomposer&, const Args& a) {
  return {formula::masked_index_add(a.tensor("self"), a.tensor("mask"), a.optional_tensors("indices"), a.tensor("values"))};
}

std::vector<Tensor> put(Decomposer&, const Args& a) {
  return {formula::put(a.tensor("self"), a.tensor("index"), a.tensor("source"), a.flag("accumulate"))};
}

// ---- masks ----------------------------------------------------------------------------------------------------------

std::vector<Tensor> masked_fill_scalar(Decomposer&, const Args& a) {
  return {formula::masked_fill(a.tensor("self"), a.tensor("mask"), value_of(a))};
}
std::vector<Tensor> masked_fill_tensor(Decomposer&, const Args& a) {
  return {formula::masked_fill(a.tensor("self"), a.tensor("mask"), a.tensor("value"))};
}

std::vector<Tensor> masked_scatter(Decomposer&, const Args& a) {
  return {formula::masked_scatter(a.tensor("self"), a.tensor("mask"), a.tensor("source"))};
}

std::vector<Tensor> nonzero_static(Decomposer&, const Args& a) {
  return {formula::nonzero_static(a.tensor("self"), a.integer("size"), a.integer("fill_value"))};
}

constexpr DecompositionRow kScatteringRows[] = {
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

std::span<const DecompositionRow> scattering_rows() { return kScatteringRows; }

}  // namespace toroid
