// Dual tensors: where forward-mode derivatives begin and where they are read.
#include "formula/basics/operators.h"
#include "passes/decompose/engine/forward_mode.h"

namespace toroid {
namespace {

std::vector<Tensor> dual_tensor(Decomposer&, const Args& a) {
  return {make_dual(a.tensor("primal"), a.tensor("tangent"), a.constant("level"))};
}

// Behind their level both are numbers like others.
std::vector<Tensor> parts_of_dual(Decomposer&, const Args& a) {
  const Tensor dual = a.tensor("dual");
  const int64_t level = a.constant("level");
  return {without_tangent(dual, level), without_tangent(tangent_of(dual, level), level)};
}

std::vector<Tensor> primal_of_dual(Decomposer&, const Args& a) { return {without_tangent(a.tensor("self"), a.constant("level"))}; }

// Zeros for a tangent, of `other`'s sizes behind so many of self's.
std::vector<Tensor> zeros_of_tangent(Decomposer& d, const Args& a) {
  const Tensor self = a.tensor("self"), other = a.tensor("other");
  Sizes sizes = self.sizes().first(static_cast<size_t>(a.constant_in("self_num_batch_dims", 0, self.rank())));
  sizes.append(other.sizes());
  return {d.b.full(sizes, other.dtype(), 0.0)};
}

constexpr DecompositionRow kDualTensorRows[] = {
    {"aten::_make_dual", dual_tensor},
    {"aten::_unpack_dual", parts_of_dual},
    {"aten::_fw_primal", primal_of_dual},
    {"aten::_new_zeros_with_same_feature_meta", zeros_of_tangent},
};

}  // namespace

std::span<const DecompositionRow> dual_tensor_rows() { return kDualTensorRows; }

}  // namespace toroid
