// ATen's gradients of average, max, adaptive and fractional pooling.
#include "formula/backward/pooling_backward.h"

#include "passes/decompose/nn/pooling.h"

namespace toroid {
namespace {

std::vector<Tensor> avg_pool_backward(Decomposer&, const Args& a) {
  return {formula::avg_pool_backward(a.tensor("grad_output"), a.tensor("self"), pool_geometry(a), average_count(a))};
}

std::vector<Tensor> max_pool_with_indices_backward(Decomposer&, const Args& a) {
  return {formula::max_pool_backward(a.tensor("grad_output"), a.tensor("self"), a.tensor("indices"), pool_geometry(a))};
}

// This one's forward operator keeps no indices.
std::vector<Tensor> max_pool2d_backward(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self");
  const std::vector<Tensor> pooled = formula::max_pool_with_indices(x, pool_geometry(a));
  return {formula::max_pool_backward(a.tensor("grad_output"), x, pooled[1], pool_geometry(a))};
}

template <size_t spatial>
std::vector<Tensor> adaptive_avg_pool_backward(Decomposer&, const Args& a) {
  return {formula::adaptive_avg_pool_backward(a.tensor("grad_output"), a.tensor("self"), spatial)};
}

template <size_t spatial>
std::vector<Tensor> adaptive_max_pool_backward(Decomposer&, const Args& a) {
  return {formula::adaptive_max_pool_backward(a.tensor("grad_output"), a.tensor("self"), a.tensor("indices"), spatial)};
}

std::vector<Tensor> fractional_max_pool_backward(Decomposer&, const Args& a) {
  return {formula::fractional_max_pool_backward(a.tensor("grad_output"), a.tensor("self"), a.tensor("indices"),
                                                a.integers("output_size").size())};
}

constexpr DecompositionRow kPoolingBackwardRows[] = {
    {"aten::avg_pool2d_backward", avg_pool_backward},
    {"aten::avg_pool3d_backward", avg_pool_backward},
    {"aten::_adaptive_avg_pool2d_backward", adaptive_avg_pool_backward<2>},
    {"aten::_adaptive_avg_pool3d_backward", adaptive_avg_pool_backward<3>},
    {"aten::max_pool2d_backward", max_pool2d_backward},
    {"aten::max_pool2d_with_indices_backward", max_pool_with_indices_backward},
    {"aten::max_pool3d_with_indices_backward", max_pool_with_indices_backward},
    {"aten::adaptive_max_pool2d_backward", adaptive_max_pool_backward<2>},
    {"aten::adaptive_max_pool3d_backward", adaptive_max_pool_backward<3>},
    {"aten::fractional_max_pool2d_backward", fractional_max_pool_backward},
    {"aten::fractional_max_pool3d_backward", fractional_max_pool_backward},
};

}  // namespace

std::span<const DecompositionRow> pooling_backward_rows() { return kPoolingBackwardRows; }

}  // namespace toroid
