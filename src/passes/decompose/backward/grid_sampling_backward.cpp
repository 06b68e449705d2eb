// Gradients of grid_sampler with respect to its input, scattered to where the grid read it, and to the grid, gathered
// from the input as the result was; and of affine_grid.
//
// With y the sum over taps of x[tap] * w[tap], a coordinate's gradient is the sum over channels of
// g * sum over taps of x[tap] * dw[tap], where the weight along the coordinate's own dim is replaced by its slope.
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/output_mask.h"
#include "passes/decompose/nn/grid_sampling.h"

namespace toroid {
namespace {

// One tap of each dim.
struct Choice {
  std::vector<Tensor> index;
  Tensor is_inside, weight;  // the weight may be undefined: 1
};

// All combinations; the weights of dim `along` are slopes, of which undefined ones leave no choice.
std::vector<Choice> choices_of(const GridSampling& grid, std::optional<size_t> along) {
  std::vector<Choice> choices = {{grid.leading, {}, {}}};
  for (size_t i = 0; i < grid.lines.size(); ++i) {
    std::vector<Choice> longer;
    for (const Choice& choice : choices) {
      for (const GridTap& tap : grid.lines[i].taps) {
        const Tensor factor = along == i ? tap.slope : tap.weight;
        if (along == i && !factor.defined()) continue;
        Choice next = choice;
        next.index.push_back(tap.index);
        next.is_inside = choice.is_inside.defined() ? choice.is_inside & tap.is_inside : tap.is_inside;
        if (factor.defined()) next.weight = choice.weight.defined() ? choice.weight * factor : factor;
        longer.push_back(next);
      }
    }
    choices = longer;
  }
  return choices;
}

Tensor input_gradient(Tensor input, Tensor grad, const GridSampling& grid) {
  Builder& b = grad.builder();
  Tensor sum = b.full(input.sizes(), grad.dtype(), 0.0);
  for (const Choice& choice : choices_of(grid, std::nullopt)) {
    Tensor share = choice.weight.defined() ? grad * choice.weight : grad;
    sum = b.scatter(sum, where(choice.is_inside, share, 0), choice.index, ScatterMode::Add);
  }
  return sum;
}

// [N, out…, dims], x first.
Tensor grid_gradient(Tensor input, Tensor grad, Tensor grid_argument, const GridSampling& grid) {
  Builder& b = grad.builder();
  Tensor x = wide(input);
  std::vector<Tensor> of_dims;
  for (size_t i = grid.lines.size(); i-- > 0;) {
    Tensor slope;
    for (const Choice& choice : choices_of(grid, i)) {
      Tensor term = where(choice.is_inside, b.gather(x, choice.index), 0) * choice.weight;
      slope = slope.defined() ? slope + term : term;
    }
    if (!slope.defined()) return b.full(grid_argument.sizes(), grad.dtype(), 0.0);
    of_dims.push_back(b.sum(grad * slope * grid.lines[i].rate, {1}));
  }
  return b.stack(of_dims, -1);
}

std::vector<Tensor> grid_sampler_backward(Decomposer& d, const Args& a) {
  Tensor input = a.tensor("input"), grad = wide(a.tensor("grad_output")), coordinates = a.tensor("grid");
  const GridSampling grid = grid_sampling(a);
  const bool has_mask = a.schema().parameters.back().name == "output_mask";
  std::vector<Tensor> gradients(2);
  if (!has_mask || is_wanted(a, 0)) gradients[0] = d.b.cast(input_gradient(input, grad, grid), input.dtype());
  if (!has_mask || is_wanted(a, 1)) {
    gradients[1] = d.b.cast(grid_gradient(input, grad, coordinates, grid), coordinates.dtype());
  }
  return gradients;
}

// dtheta[n, i, j] = sum over positions of grad[n, …, i] * coordinate j, the last coordinate being 1.
std::vector<Tensor> affine_grid_generator_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor grad = a.tensor("grad"), g = wide(grad);
  const Sizes size = a.integers("size");
  const int64_t spatial = static_cast<int64_t>(size.size()) - 2;
  Dims places;
  for (int64_t i = 1; i <= spatial; ++i) places.push_back(i);
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < spatial; ++j) {
    const int64_t dim = spatial - 1 - j;  // x runs along the last dim
    Tensor line = grid_line(b, size[static_cast<size_t>(dim) + 2], a.flag("align_corners"), g.dtype());
    Sizes sizes(static_cast<size_t>(spatial) + 2, 1);
    sizes[static_cast<size_t>(dim) + 1] = line.size(0);
    columns.push_back(b.sum(g * b.reshape(line, sizes), places));
  }
  columns.push_back(b.sum(g, places));
  return {b.cast(b.stack(columns, -1), grad.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::grid_sampler_2d_backward", grid_sampler_backward},
    {"aten::grid_sampler_3d_backward", grid_sampler_backward},
    {"aten::_grid_sampler_2d_cpu_fallback_backward", grid_sampler_backward},
    {"aten::affine_grid_generator_backward", affine_grid_generator_backward},
};

}  // namespace

std::span<const DecompositionRow> grid_sampling_backward_rows() { return kRows; }

}  // namespace toroid
