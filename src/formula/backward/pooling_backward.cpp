#include "formula/backward/pooling_backward.h"

#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "formula/nn/adaptive_pooling.h"

namespace toroid::formula {
namespace {

// [.., i…, j…] -> [.., i…]
Tensor sum_readers(Tensor readers, size_t spatial) {
  Builder& b = readers.builder();
  const Sizes kept = readers.sizes().without_last(spatial);
  bool one_each = true;
  for (size_t i = kept.size(); i < readers.sizes().size(); ++i) one_each = one_each && readers.sizes()[i].is_const(1);
  return one_each ? b.reshape(readers, kept) : b.sum(readers, last_dims(spatial));
}

}  // namespace

// ---- averages -------------------------------------------------------------------------------------------------------

Tensor avg_pool_backward(Tensor grad, Tensor x, const PoolGeometry& geometry, const AverageCount& count) {
  Builder& b = x.builder();
  const std::vector<Window> windows = pool_windows(x, geometry);
  Tensor shares = divided(wide(grad), average_divisor(b, windows, count));
  Tensor readers = readers_of(shares, windows, 0.0), inside = covers(b, windows);
  if (inside.defined()) readers = where(inside, readers, 0);
  return b.cast(sum_readers(readers, windows.size()), x.dtype());
}

namespace {

std::vector<AdaptiveWindow> swapped(std::vector<AdaptiveWindow> windows) {
  for (AdaptiveWindow& window : windows) window = adaptive_window(window.count, window.input);
  return windows;
}

// The last dims of a pool's result; what comes before is as in x.
Sizes spatial_sizes(Tensor grad, size_t spatial) { return grad.sizes().last(spatial); }

// [.., o, ..] -> [.., i, ..] along one dim: each element's sum of the windows that cover it.
Tensor sum_of_shares(Tensor shares, size_t dim, const AdaptiveWindow& window) {
  Builder& b = shares.builder();
  if (sym::known_divisible(window.input, window.count)) {  // one window each
    Sizes axes, index;
    for (size_t d = 0; d < shares.sizes().size(); ++d) {
      index.push_back(axes.emplace_back(b.axis(d == dim ? window.input : shares.sizes()[d])));
    }
    index[dim] = sym::floor_div(index[dim], window.longest);
    return b.remap(shares, axes, index);
  }
  return b.sum(adaptive_view_along(shares, dim, adaptive_window(window.count, window.input), 0.0), {-1});
}

}  // namespace

// The last dim first: what is between is small, and rows of the result are sums of whole rows.
Tensor adaptive_avg_pool_backward(Tensor grad, Tensor x, size_t spatial) {
  const std::vector<AdaptiveWindow> windows = adaptive_windows(x, spatial_sizes(grad, spatial));
  Tensor sum = divided(wide(grad), adaptive_count(x.builder(), windows));
  for (size_t i = spatial; i-- > 0;) sum = sum_of_shares(sum, dims_before(sum, spatial) + i, windows[i]);
  return x.builder().cast(sum, x.dtype());
}

// ---- maxima ---------------------------------------------------------------------------------------------------------

namespace {

// From [.., i…, j…]: gradients of the windows around each element, and the positions that they chose in x's plane.
Tensor sum_chosen(Tensor x, Tensor grads, Tensor chosen, size_t spatial) {
  Builder& b = x.builder();
  const Sizes plane = x.sizes().last(spatial);
  Sizes sizes = plane;
  sizes.resize(2 * spatial, 1);
  Tensor own = b.reshape(flat_positions(b, plane), sizes);
  return b.cast(sum_readers(where(eq(chosen, own), grads, 0), spatial), x.dtype());
}

Scalar nowhere() { return sym::Expr(-1); }  // a position that no element has

}  // namespace

Tensor max_pool_backward(Tensor grad, Tensor x, Tensor indices, const PoolGeometry& geometry) {
  const std::vector<Window> windows = pool_windows(x, geometry);
  return sum_chosen(x, readers_of(wide(grad), windows, 0.0), readers_of(indices, windows, nowhere()), windows.size());
}

Tensor adaptive_max_pool_backward(Tensor grad, Tensor x, Tensor indices, size_t spatial) {
  const std::vector<AdaptiveWindow> readers = swapped(adaptive_windows(x, spatial_sizes(grad, spatial)));
  return sum_chosen(x, adaptive_view(wide(grad), readers, 0.0), adaptive_view(indices, readers, nowhere()), spatial);
}

Tensor fractional_max_pool_backward(Tensor grad, Tensor x, Tensor indices, size_t spatial) {
  Builder& b = x.builder();
  const size_t leading = dims_before(x, spatial);
  const sym::Expr planes = sym::product(x.sizes().first(leading));
  const Sizes flat = {planes, sym::product(grad.sizes().without_first(leading))};
  Tensor zeros = b.full({planes, sym::product(x.sizes().without_first(leading))}, compute_dtype(x.dtype()), 0.0);
  Tensor sum = b.scatter(zeros, wide(b.reshape(grad, flat)), {positions(b, planes, 0, 2), b.reshape(indices, flat)}, ScatterMode::Add);
  return b.cast(b.reshape(sum, x.sizes()), x.dtype());
}

}  // namespace toroid::formula
