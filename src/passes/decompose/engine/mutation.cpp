// Functional forms of operators that are mostly met in place: copy_, fill_, zero_.
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> copy(Decomposer& d, const Args& a) {
  const Tensor self = a.tensor("self");
  return {d.b.expand(d.b.cast(a.tensor("src"), self.dtype()), self.sizes())};
}

std::vector<Tensor> fill_scalar(Decomposer& d, const Args& a) {
  const Tensor self = a.tensor("self");
  return {d.b.full(self.sizes(), self.dtype(), a.scalar("value"))};
}

std::vector<Tensor> fill_tensor(Decomposer& d, const Args& a) {
  const Tensor self = a.tensor("self");
  return {d.b.expand(d.b.cast(a.tensor("value"), self.dtype()), self.sizes())};
}

std::vector<Tensor> zero(Decomposer& d, const Args& a) {
  const Tensor self = a.tensor("self");
  return {d.b.full(self.sizes(), self.dtype(), 0.0)};
}

constexpr DecompositionRow kMutationRows[] = {
    {"aten::copy", copy},
    {"aten::fill.Scalar", fill_scalar},
    {"aten::fill.Tensor", fill_tensor},
    {"aten::zero", zero},
};

}  // namespace

std::span<const DecompositionRow> mutation_rows() { return kMutationRows; }

}  // namespace toroid
