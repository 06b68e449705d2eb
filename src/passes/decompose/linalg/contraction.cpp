// ATen's einsum, tensordot, inner and bilinear.
#include "formula/math/contraction.h"

#include "formula/math/einsum.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> einsum(Decomposer&, const Args& a) {
  const std::optional<Dims> path = a.has("path") ? std::optional(a.dims("path")) : std::nullopt;
  return {formula::einsum(a.text("equation"), a.tensors("tensors"), path)};
}

std::vector<Tensor> tensordot(Decomposer&, const Args& a) {
  return {formula::tensordot(a.tensor("self"), a.tensor("other"), a.dims("dims_self"), a.dims("dims_other"))};
}

std::vector<Tensor> inner(Decomposer&, const Args& a) { return {formula::inner(a.tensor("self"), a.tensor("other"))}; }

std::vector<Tensor> bilinear(Decomposer&, const Args& a) {
  return {formula::bilinear(a.tensor("input1"), a.tensor("input2"), a.tensor("weight"), a.optional_tensor("bias"))};
}

constexpr DecompositionRow kContractionRows[] = {
    {"aten::einsum", einsum},
    {"aten::tensordot", tensordot},
    {"aten::inner", inner},
    {"aten::bilinear", bilinear},
};

}  // namespace

std::span<const DecompositionRow> contraction_rows() { return kContractionRows; }

}  // namespace toroid
