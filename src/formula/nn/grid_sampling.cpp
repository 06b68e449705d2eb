#include "formula/nn/grid_sampling.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

Tensor size_number(Tensor like, sym::Expr size) { return number_like(like, Scalar(size)); }

// From [-1, 1] to element positions. Corners are the centres of the outermost elements, or their outer edges.
Tensor to_elements(Tensor c, sym::Expr size, bool align_corners) {
  return align_corners ? (c + 1.0) / 2.0 * size_number(c, size - 1) : ((c + 1.0) * size_number(c, size) - 1.0) / 2.0;
}

// A position in elements, and how fast it changes with the coordinate.
struct Position {
  Tensor at, rate;
};

// Folds the line at low and low + span until the position is between them.
Position reflect(Position position, double low, Tensor span) {
  Tensor from_low = position.at - low, distance = abs(from_low);
  Tensor rest = apply(ScalarOp::Fmod, distance, span);
  Tensor folds = floor(distance / span);
  Tensor is_even = eq(apply(ScalarOp::Fmod, folds, 2.0), 0);
  Tensor rate = where(from_low < 0, -position.rate, position.rate);
  return {where(is_even, rest + low, span - rest + low), where(is_even, rate, -rate)};
}

Position bring_inside(Position position, sym::Expr size, const Sampling& sampling) {
  if (sampling.outside == Outside::Zeros) return position;
  if (sampling.outside == Outside::Reflection) {
    const double low = sampling.align_corners ? 0 : -0.5;
    const sym::Expr span = sampling.align_corners ? size - 1 : size;
    position = span.is_const(0) ? Position{position.at * 0.0, position.rate * 0.0} : reflect(position, low, size_number(position.at, span));
  }
  const Tensor last = size_number(position.at, size - 1);
  Tensor is_free = (position.at > 0) & (position.at < last);
  return {where(position.at > 0, minimum(position.at, last), 0), where(is_free, position.rate, 0)};  // NaN is the first, as in PyTorch
}

GridTap tap_at(Tensor position, sym::Expr size, Tensor weight, Tensor slope) {
  Builder& b = position.builder();
  Tensor is_inside = (position >= 0) & (position < size_number(position, size));  // false for NaN
  return {b.cast(where(is_inside, position, 0), DType::I64), is_inside, weight, slope};
}

// Weights of four neighbours; each is brought inside on its own, so that they change with the coordinate alone.
TapLine cubic_taps(Position position, sym::Expr size, const Sampling& sampling) {
  constexpr double a = -0.75;
  auto near = [](Tensor x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  auto far = [](Tensor x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  auto near_slope = [](Tensor x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
  auto far_slope = [](Tensor x) { return (3 * a * x - 10 * a) * x + 8 * a; };
  Tensor low = floor(position.at), t = position.at - low;
  const Tensor weights[] = {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
  const Tensor slopes[] = {far_slope(t + 1.0), near_slope(t), -near_slope(1.0 - t), -far_slope(2.0 - t)};
  TapLine line{{}, position.rate};
  for (int k = 0; k < 4; ++k) {
    const Position neighbour = bring_inside({low + (k - 1.0), position.rate}, size, sampling);
    line.taps.push_back(tap_at(neighbour.at, size, weights[k], slopes[k]));
  }
  return line;
}

TapLine taps_at(Tensor coordinate, sym::Expr size, const Sampling& sampling) {
  const sym::Expr spread = sampling.align_corners ? size - 1 : size;
  Position position{to_elements(coordinate, size, sampling.align_corners), size_number(coordinate, spread) * number_like(coordinate, 0.5)};
  if (sampling.interpolation == Interpolation::Cubic) return cubic_taps(position, size, sampling);
  position = bring_inside(position, size, sampling);
  if (sampling.interpolation == Interpolation::Nearest) {
    return {{tap_at(round(position.at), size, {}, {})}, position.rate};
  }
  Tensor low = floor(position.at), t = position.at - low, one = number_like(t, 1.0);
  return {{tap_at(low, size, 1.0 - t, -one), tap_at(low + 1.0, size, t, one)}, position.rate};
}

}  // namespace

GridSampling grid_taps(Tensor x, Tensor positions_of_result, const Sampling& sampling) {
  Builder& b = x.builder();
  Tensor grid = wide(positions_of_result);
  const size_t spatial = dims_before(x, 2);
  if (spatial == 0 || x.rank() != grid.rank()) {
    throw Error(ErrorKind::InvalidModel,
                fmt::format("a grid {} for {}: both have one rank, 3 or more", to_string(grid.type()), b.describe(x)));
  }
  if (spatial > 2 && sampling.interpolation == Interpolation::Cubic) {
    throw Error(ErrorKind::InvalidModel, fmt::format("cubic sampling is for images, not for {}", b.describe(x)));
  }
  GridSampling result;
  for (size_t i = 0; i < spatial; ++i) {
    Tensor coordinate = b.unsqueeze(b.select(grid, -1, static_cast<int64_t>(spatial - 1 - i)), 1);
    result.lines.push_back(taps_at(coordinate, x.sizes()[i + 2], sampling));
  }
  result.leading = {positions(b, x.size(0), 0, x.rank()), positions(b, x.size(1), 1, x.rank())};
  return result;
}

Tensor grid_line(Builder& b, sym::Expr count, bool align_corners, DType dtype) {
  if (count.is_const(1)) return b.full({1}, dtype, 0.0);
  Tensor i = b.arange(count, 0, 1, dtype);
  Tensor line = i * 2.0 / size_number(i, count - 1) - 1.0;
  return align_corners ? line : line * (size_number(i, count - 1) / size_number(i, count));
}

namespace {

Tensor sum_of_corners(Tensor x, const std::vector<TapLine>& lines, std::vector<Tensor> index, Tensor is_inside) {
  Builder& b = x.builder();
  const size_t done = index.size() - 2;
  if (done == lines.size()) return where(is_inside, b.gather(x, index), 0);
  Tensor sum;
  for (const GridTap& tap : lines[done].taps) {
    std::vector<Tensor> chosen = index;
    chosen.push_back(tap.index);
    Tensor term = sum_of_corners(x, lines, chosen, is_inside.defined() ? is_inside & tap.is_inside : tap.is_inside);
    if (tap.weight.defined()) term = term * tap.weight;
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

}  // namespace

Tensor grid_sample(Tensor x, Tensor grid, const Sampling& sampling) {
  const GridSampling taps = grid_taps(x, grid, sampling);
  return x.builder().cast(sum_of_corners(wide(x), taps.lines, taps.leading, {}), x.dtype());
}

Tensor affine_grid(Tensor coefficients, const Sizes& out, bool align_corners) {
  Builder& b = coefficients.builder();
  Tensor theta = wide(coefficients);
  const int64_t spatial = static_cast<int64_t>(out.size()) - 2;
  if (spatial != 2 && spatial != 3) {
    throw Error(ErrorKind::InvalidModel, fmt::format("an affine grid of {} sizes, not 4 or 5", out.size()));
  }
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < spatial; ++i) {
    auto coefficient = [&](int64_t j) { return b.reshape(b.select(b.select(theta, 1, i), 1, j), Sizes{theta.size(0)}); };
    auto spread = [&](Tensor per_sample) {
      Sizes sizes(static_cast<size_t>(spatial) + 1, 1);
      sizes[0] = theta.size(0);
      return b.reshape(per_sample, sizes);
    };
    Tensor sum = spread(coefficient(spatial));
    for (int64_t j = 0; j < spatial; ++j) {
      const int64_t dim = spatial - 1 - j;  // x runs along the last dim
      Tensor line = grid_line(b, out[static_cast<size_t>(dim) + 2], align_corners, theta.dtype());
      Sizes sizes(static_cast<size_t>(spatial) + 1, 1);
      sizes[static_cast<size_t>(dim) + 1] = line.size(0);
      sum = sum + spread(coefficient(j)) * b.reshape(line, sizes);
    }
    Sizes full = {theta.size(0)};
    full.insert(full.end(), out.begin() + 2, out.end());
    rows.push_back(b.expand(sum, full));
  }
  return b.cast(b.stack(rows, -1), coefficients.dtype());
}

}  // namespace toroid::formula
