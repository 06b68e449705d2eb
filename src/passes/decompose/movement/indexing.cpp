// ATen's ways to read by index: index, gather, take, index_select, isin.
#include "formula/movement/indexing.h"

#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> index(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return {formula::index(x, positions_of_masks(d, a.optional_tensors("indices")))};
}

std::vector<Tensor> masked_index(Decomposer&, const Args& a) {
  return {formula::masked_index(a.tensor("self"), a.tensor("mask"), a.optional_tensors("indices"), a.scalar("fill"))};
}

std::vector<Tensor> index_select(Decomposer&, const Args& a) {
  return {formula::index_select(a.tensor("self"), a.constant("dim"), a.tensor("index"))};
}

std::vector<Tensor> gather(Decomposer&, const Args& a) { return {formula::gather(a.tensor("self"), a.constant("dim"), a.tensor("index"))}; }

std::vector<Tensor> take(Decomposer&, const Args& a) { return {formula::take(a.tensor("self"), a.tensor("index"))}; }

// Without a dim, both are flat.
std::vector<Tensor> take_along_dim(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), index = a.tensor("indices");
  if (a.has("dim")) return {formula::take_along_dim(x, a.constant("dim"), index)};
  return {formula::take(x, d.b.reshape(index, {index.numel()}))};
}

// ---- membership -----------------------------------------------------------------------------------------------------

std::vector<Tensor> found(const Args& a, Tensor is_in) {
  return {a.flag("invert") ? is_in.builder().unary(ScalarOp::BitNot, is_in) : is_in};
}

std::vector<Tensor> isin(Decomposer&, const Args& a) { return found(a, formula::is_in(a.tensor("elements"), a.tensor("test_elements"))); }

std::vector<Tensor> isin_tensor_scalar(Decomposer& d, const Args& a) {
  const ScalarOp compare = a.flag("invert") ? ScalarOp::Ne : ScalarOp::Eq;
  return {d.b.binary(compare, a.tensor("elements"), a.scalar("test_element"))};
}

std::vector<Tensor> isin_scalar_tensor(Decomposer& d, const Args& a) {
  Tensor candidates = a.tensor("test_elements");
  candidates = d.b.reshape(candidates, {candidates.numel()});
  return found(a, d.b.reduce(ReduceOp::Any, d.b.binary(ScalarOp::Eq, candidates, a.scalar("element")), {0})[0]);
}

constexpr DecompositionRow kIndexingRows[] = {
    {"aten::index.Tensor", index},
    {"aten::index.Tensor_hacked_twin", index},
    {"aten::_unsafe_index.Tensor", index},
    {"aten::_unsafe_index.Tensor_hacked_twin", index},
    {"aten::_unsafe_masked_index", masked_index},
    {"aten::index_select", index_select},
    {"aten::gather", gather},
    {"aten::take", take},
    {"aten::take_along_dim", take_along_dim},
    {"aten::isin.Tensor_Tensor", isin},
    {"aten::isin.Tensor_Scalar", isin_tensor_scalar},
    {"aten::isin.Scalar_Tensor", isin_scalar_tensor},
};

}  // namespace

std::span<const DecompositionRow> indexing_rows() { return kIndexingRows; }

}  // namespace toroid
