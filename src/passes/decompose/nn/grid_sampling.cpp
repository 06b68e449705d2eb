// ATen's grid_sampler, and affine_grid, which makes its positions.
#include "passes/decompose/nn/grid_sampling.h"

namespace toroid {

formula::Sampling sampling_arguments(const Args& a) {
  return {.interpolation = static_cast<formula::Interpolation>(a.constant_in("interpolation_mode", 0, 2)),
          .outside = static_cast<formula::Outside>(a.constant_in("padding_mode", 0, 2)),
          .align_corners = a.flag("align_corners")};
}

namespace {

std::vector<Tensor> grid_sampler(Decomposer&, const Args& a) {
  return {formula::grid_sample(a.tensor("input"), a.tensor("grid"), sampling_arguments(a))};
}

std::vector<Tensor> affine_grid_generator(Decomposer&, const Args& a) {
  return {formula::affine_grid(a.tensor("theta"), a.integers("size"), a.flag("align_corners"))};
}

constexpr DecompositionRow kGridSamplingRows[] = {
    {"aten::grid_sampler", grid_sampler},
    {"aten::grid_sampler_2d", grid_sampler},
    {"aten::grid_sampler_3d", grid_sampler},
    {"aten::_grid_sampler_2d_cpu_fallback", grid_sampler},
    {"aten::affine_grid_generator", affine_grid_generator},
};

}  // namespace

std::span<const DecompositionRow> grid_sampling_rows() { return kGridSamplingRows; }

}  // namespace toroid
