// Gradients of average, max, adaptive and fractional pooling.
//
// Each input element sums the windows that cover it, of which there are few: a view and a reduction, as the pools are
// themselves, so that gradients fuse with their neighbours and are summed in a fixed order. A maximum's gradient counts
// where the window's recorded position is the element's own.
//
//   avg_pool2d_backward(g, x, 3, 2)  =>  sum(where(covers, readers(g / 9) [N, C, h, w, 2, 2], 0), dims [-2, -1])
//
// The averages of an adaptive pool are spread along one dim after the other.
// Windows that random numbers place are scattered instead.
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "formula/nn/adaptive_pooling.h"
#include "passes/decompose/nn/pooling.h"

namespace toroid {
namespace {

// [.., i…, j…] -> [.., i…]
Tensor sum_readers(Tensor readers, size_t spatial) {
  Builder& b = readers.builder();
  const Sizes kept = readers.sizes().without_last(spatial);
  bool one_each = true;
  for (size_t i = kept.size(); i < readers.sizes().size(); ++i) one_each = one_each && readers.sizes()[i].is_const(1);
  return one_each ? b.reshape(readers, kept) : b.sum(readers, last_dims(spatial));
}

// ---- averages -------------------------------------------------------------------------------------------------------

std::vector<Tensor> avg_pool_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), grad = a.tensor("grad_output");
  const std::vector<Window> windows = formula::pool_windows(x, pool_geometry(a));
  Tensor shares = formula::divided(wide(grad), formula::average_divisor(d.b, windows, average_count(a)));
  Tensor readers = readers_of(shares, windows, 0.0), inside = covers(d.b, windows);
  if (inside.defined()) readers = where(inside, readers, 0);
  return {d.b.cast(sum_readers(readers, windows.size()), x.dtype())};
}

std::vector<formula::AdaptiveWindow> swapped(std::vector<formula::AdaptiveWindow> windows) {
  for (formula::AdaptiveWindow& window : windows) window = formula::adaptive_window(window.count, window.input);
  return windows;
}

// The last dims of a pool's result; what comes before is as in x.
Sizes spatial_sizes(Tensor grad, size_t spatial) { return grad.sizes().last(spatial); }

// [.., o, ..] -> [.., i, ..] along one dim: each element's sum of the windows that cover it.
Tensor sum_along(Tensor shares, size_t dim, const formula::AdaptiveWindow& window) {
  Builder& b = shares.builder();
  if (sym::known_divisible(window.input, window.count)) {  // one window each
    Sizes axes, index;
    for (size_t d = 0; d < shares.sizes().size(); ++d) {
      index.push_back(axes.emplace_back(b.axis(d == dim ? window.input : shares.sizes()[d])));
    }
    index[dim] = sym::floor_div(index[dim], window.longest);
    return b.remap(shares, axes, index);
  }
  return b.sum(formula::adaptive_view_along(shares, dim, formula::adaptive_window(window.count, window.input), 0.0), {-1});
}

// One dim after the other, the last first: what is between is small, and rows of the result are sums of whole rows.
template <size_t spatial>
std::vector<Tensor> adaptive_avg_pool_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), grad = a.tensor("grad_output");
  const std::vector<formula::AdaptiveWindow> windows = formula::adaptive_windows(x, spatial_sizes(grad, spatial));
  Tensor sum = formula::divided(wide(grad), formula::adaptive_count(d.b, windows));
  for (size_t i = spatial; i-- > 0;) sum = sum_along(sum, dims_before(sum, spatial) + i, windows[i]);
  return {d.b.cast(sum, x.dtype())};
}

// ---- maxima ---------------------------------------------------------------------------------------------------------

// From [.., i…, j…]: gradients of the windows around each element, and the positions that they chose in x's plane.
Tensor sum_chosen(Tensor x, Tensor grads, Tensor chosen, size_t spatial) {
  Builder& b = x.builder();
  const Sizes plane = x.sizes().last(spatial);
  Sizes sizes = plane;
  sizes.resize(2 * spatial, 1);
  Tensor own = b.reshape(formula::flat_positions(b, plane), sizes);
  return b.cast(sum_readers(where(eq(chosen, own), grads, 0), spatial), x.dtype());
}

Scalar nowhere() { return sym::Expr(-1); }  // a position that no element has

Tensor max_gradient(Tensor x, Tensor grad, Tensor indices, const std::vector<Window>& windows) {
  return sum_chosen(x, readers_of(wide(grad), windows, 0.0), readers_of(indices, windows, nowhere()), windows.size());
}

std::vector<Tensor> max_pool_with_indices_backward(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self");
  return {max_gradient(x, a.tensor("grad_output"), a.tensor("indices"), formula::pool_windows(x, pool_geometry(a)))};
}

std::vector<Tensor> max_pool2d_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const std::vector<Tensor> pooled =
      d.call("aten::max_pool2d_with_indices",
             {x, a.integers("kernel_size"), a.integers("stride"), a.integers("padding"), a.integers("dilation"), a.flag("ceil_mode")});
  return {max_gradient(x, a.tensor("grad_output"), pooled[1], formula::pool_windows(x, pool_geometry(a)))};
}

template <size_t spatial>
std::vector<Tensor> adaptive_max_pool_backward(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self"), grad = a.tensor("grad_output");
  const std::vector<formula::AdaptiveWindow> readers = swapped(formula::adaptive_windows(x, spatial_sizes(grad, spatial)));
  return {sum_chosen(x, formula::adaptive_view(wide(grad), readers, 0.0), formula::adaptive_view(a.tensor("indices"), readers, nowhere()),
                     spatial)};
}

// Each maximum passes its gradient to the element that it came from.
std::vector<Tensor> fractional_max_pool_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), grad = a.tensor("grad_output");
  const size_t spatial = a.integers("output_size").size(), leading = dims_before(x, spatial);
  const sym::Expr planes = sym::product(x.sizes().first(leading));
  const Sizes flat = {planes, sym::product(grad.sizes().without_first(leading))};
  Tensor zeros = b.full({planes, sym::product(x.sizes().without_first(leading))}, compute_dtype(x.dtype()), 0.0);
  Tensor sum =
      b.scatter(zeros, wide(b.reshape(grad, flat)), {positions(b, planes, 0, 2), b.reshape(a.tensor("indices"), flat)}, ScatterMode::Add);
  return {b.cast(b.reshape(sum, x.sizes()), x.dtype())};
}

constexpr DecompositionRow kRows[] = {
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

std::span<const DecompositionRow> pooling_backward_rows() { return kRows; }

}  // namespace toroid
