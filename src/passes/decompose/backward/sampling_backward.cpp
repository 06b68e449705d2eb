// ATen's gradients of samples of gamma and Dirichlet distributions.
#include "formula/backward/sampling_backward.h"

#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> standard_gamma_gradient(Decomposer& d, const Args& a) {
  const DType dtype = a.tensor("self").dtype();
  auto wide64 = [&](std::string_view name) { return d.b.cast(a.tensor(name), DType::F64); };
  return {d.b.cast(formula::gamma_sample_slope(wide64("self"), wide64("output")), dtype)};
}

std::vector<Tensor> dirichlet_gradient(Decomposer& d, const Args& a) {
  const DType dtype = a.tensor("x").dtype();
  auto wide64 = [&](std::string_view name) { return d.b.cast(a.tensor(name), DType::F64); };
  return {d.b.cast(formula::beta_sample_slope(wide64("x"), wide64("alpha"), wide64("total")), dtype)};
}

constexpr DecompositionRow kSamplingBackwardRows[] = {
    {"aten::_standard_gamma_grad", standard_gamma_gradient},
    {"aten::_dirichlet_grad", dirichlet_gradient},
};

}  // namespace

std::span<const DecompositionRow> sampling_backward_rows() { return kSamplingBackwardRows; }

}  // namespace toroid
