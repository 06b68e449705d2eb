// ATen's gradients of cdist and pdist with respect to the rows, from the distances that the forward operators kept.
#include "formula/backward/distance_backward.h"

#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> cdist_backward(Decomposer&, const Args& a) {
  return {formula::cdist_backward(a.tensor("grad_output"), a.tensor("x1"), a.tensor("x2"), a.number("p"), a.tensor("cdist"))};
}

std::vector<Tensor> pdist_backward(Decomposer&, const Args& a) {
  return {formula::pdist_backward(a.tensor("grad_output"), a.tensor("self"), a.number("p"), a.tensor("pdist"))};
}

constexpr DecompositionRow kDistanceBackwardRows[] = {
    {"aten::_cdist_backward", cdist_backward},
    {"aten::_pdist_backward", pdist_backward},
};

}  // namespace

std::span<const DecompositionRow> distance_backward_rows() { return kDistanceBackwardRows; }

}  // namespace toroid
