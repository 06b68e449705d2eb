// ATen's gradients of grid_sampler and affine_grid.
#include "formula/backward/grid_sampling_backward.h"

#include "passes/decompose/arguments/output_mask.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/nn/grid_sampling.h"

namespace toroid {
namespace {

std::vector<Tensor> grid_sampler_backward(Decomposer&, const Args& a) {
  const std::array<bool, 2> both = {true, true};
  const formula::GridGradients gradients =
      formula::grid_sample_backward(a.tensor("grad_output"), a.tensor("input"), a.tensor("grid"), sampling_arguments(a),
                                    has_parameter(a, "output_mask") ? wanted<2>(a) : both);
  return {gradients.x, gradients.grid};
}

std::vector<Tensor> affine_grid_generator_backward(Decomposer&, const Args& a) {
  return {formula::affine_grid_backward(a.tensor("grad"), a.integers("size"), a.flag("align_corners"))};
}

constexpr DecompositionRow kGridSamplingBackwardRows[] = {
    {"aten::grid_sampler_2d_backward", grid_sampler_backward},
    {"aten::grid_sampler_3d_backward", grid_sampler_backward},
    {"aten::_grid_sampler_2d_cpu_fallback_backward", grid_sampler_backward},
    {"aten::affine_grid_generator_backward", affine_grid_generator_backward},
};

}  // namespace

std::span<const DecompositionRow> grid_sampling_backward_rows() { return kGridSamplingBackwardRows; }

}  // namespace toroid
