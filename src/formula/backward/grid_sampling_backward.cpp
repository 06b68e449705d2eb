#include "formula/backward/grid_sampling_backward.h"

#include <optional>

#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
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

Tensor sampled_gradient(Tensor input, Tensor grad, const GridSampling& grid) {
  Builder& b = grad.builder();
  Tensor sum = b.full(input.sizes(), grad.dtype(), 0.0);
  for (const Choice& choice : choices_of(grid, std::nullopt)) {
    Tensor share = choice.weight.defined() ? grad * choice.weight : grad;
    sum = b.scatter(sum, where(choice.is_inside, share, 0), choice.index, ScatterMode::Add);
  }
  return sum;
}

// [N, out…, dims], x first.
Tensor grid_gradient(Tensor input, Tensor grad, Tensor coordinates, const GridSampling& grid) {
  Builder& b = grad.builder();
  Tensor x = wide(input);
  std::vector<Tensor> of_dims;
  for (size_t i = grid.lines.size(); i-- > 0;) {
    Tensor slope;
    for (const Choice& choice : choices_of(grid, i)) {
      Tensor term = where(choice.is_inside, b.gather(x, choice.index), 0) * choice.weight;
      slope = slope.defined() ? slope + term : term;
    }
    if (!slope.defined()) return b.full(coordinates.sizes(), grad.dtype(), 0.0);
    of_dims.push_back(b.sum(grad * slope * grid.lines[i].rate, {1}));
  }
  return b.stack(of_dims, -1);
}

}  // namespace

GridGradients grid_sample_backward(Tensor grad_out, Tensor x, Tensor grid, const Sampling& sampling, const std::array<bool, 2>& wanted) {
  Builder& b = x.builder();
  Tensor grad = wide(grad_out);
  const GridSampling taps = grid_taps(x, grid, sampling);
  GridGradients gradients;
  if (wanted[0]) gradients.x = b.cast(sampled_gradient(x, grad, taps), x.dtype());
  if (wanted[1]) gradients.grid = b.cast(grid_gradient(x, grad, grid, taps), grid.dtype());
  return gradients;
}

Tensor affine_grid_backward(Tensor grad, const Sizes& out, bool align_corners) {
  Builder& b = grad.builder();
  Tensor g = wide(grad);
  const int64_t spatial = static_cast<int64_t>(out.size()) - 2;
  Dims places;
  for (int64_t i = 1; i <= spatial; ++i) places.push_back(i);
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < spatial; ++j) {
    const int64_t dim = spatial - 1 - j;  // x runs along the last dim
    Tensor line = grid_line(b, out[static_cast<size_t>(dim) + 2], align_corners, g.dtype());
    Sizes sizes(static_cast<size_t>(spatial) + 2, 1);
    sizes[static_cast<size_t>(dim) + 1] = line.size(0);
    columns.push_back(b.sum(g * b.reshape(line, sizes), places));
  }
  columns.push_back(b.sum(g, places));
  return b.cast(b.stack(columns, -1), grad.dtype());
}

}  // namespace toroid::formula
