// Output position o along a dim reads a few input positions (taps), each with a weight; several dims multiply.
// Positions are computed inside the kernel from o.
#include "formula/nn/resampling.h"

#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// The sum over all combinations of taps, one a dim, of the element times the weights. `index` holds the dims chosen so
// far.
Tensor weighted_sum(Tensor x, const std::vector<std::vector<Tap>>& taps, std::vector<Tensor> index) {
  Builder& b = x.builder();
  const size_t done = index.size() - 2;
  if (done == taps.size()) return wide(b.gather(x, index));
  Sizes along(x.sizes().size(), 1);
  Tensor sum;
  for (const Tap& tap : taps[done]) {
    along[index.size()] = tap.index.size(0);
    std::vector<Tensor> chosen = index;
    chosen.push_back(b.reshape(tap.index, along));
    Tensor term = weighted_sum(x, taps, std::move(chosen)) * b.reshape(tap.weight, along);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

// The same of one dim: the sum of x's slices times the taps' weights.
Tensor weighted_sum_along(Tensor x, int64_t dim, const std::vector<Tap>& taps) {
  Builder& b = x.builder();
  Tensor sum;
  for (const Tap& tap : taps) {
    Sizes along(x.sizes().size(), 1);
    along[static_cast<size_t>(dim)] = tap.index.size(0);
    Tensor term = wide(b.gather(x, index_one_dim(x, dim, tap.index).per_dim)) * b.reshape(tap.weight, along);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

// Are there at most as many slices along each dim as one would compute for its results, were each computed by itself?
bool shares_slices(const std::vector<Extent>& extents, const std::vector<std::vector<Tap>>& taps) {
  for (size_t i = 0; i + 1 < extents.size(); ++i) {
    if (!sym::known_le(extents[i].in, extents[i].out * static_cast<int64_t>(taps[i].size()))) return false;
  }
  return extents.size() > 1;
}

using Taps = std::vector<Tap> (*)(Builder& b, const Extent& e, bool align_corners, DType dtype);

Tensor interpolate(Tensor x, const std::vector<Extent>& extents, bool align_corners, bool by_dims, Taps taps_of) {
  Builder& b = x.builder();
  std::vector<std::vector<Tap>> taps;
  for (const Extent& e : extents) taps.push_back(taps_of(b, e, align_corners, position_dtype(x)));
  // From the last dim to the first: the same sums as below, in the same order.
  if (by_dims && shares_slices(extents, taps)) {
    Tensor y = x;
    for (size_t i = taps.size(); i-- > 0;) y = weighted_sum_along(y, static_cast<int64_t>(i) + 2, taps[i]);
    return b.cast(y, x.dtype());
  }
  const int64_t rank = x.rank();
  const std::vector<Tensor> leading = {positions(b, x.size(0), 0, rank), positions(b, x.size(1), 1, rank)};
  return b.cast(weighted_sum(x, taps, leading), x.dtype());
}

// Resamples dim `dim` alone: [.., in, ..] -> [.., out, ..].
Tensor filter_dim(Tensor x, int64_t dim, const Extent& e, bool align_corners, const Filter& filter) {
  Builder& b = x.builder();
  const FilterWindow window = filter_window(b, e, align_corners, filter, x.dtype());
  Tensor index = window.first + b.arange(window.taps);  // [out, taps]
  Tensor weight = filter_weight(window, filter, index);
  weight = weight / b.keep(b.sum(weight, {1}), {1});
  const Tensor inside = index < Term(window.end);  // of what is not, an infinity or NaN must not meet a weight of zero
  index = b.binary(ScalarOp::Min, index, Scalar(e.in - 1));

  const AdvancedIndex selected = index_one_dim(x, dim, index);
  Sizes weight_sizes = {e.out, window.taps};
  weight_sizes.resize(weight_sizes.size() + static_cast<size_t>(x.rank() - 1 - dim), 1);
  const Tensor read = where(b.reshape(inside, weight_sizes), b.gather(x, selected.per_dim), 0);
  return b.sum(read * b.reshape(weight, weight_sizes), {dim + 1});
}

}  // namespace

Tensor upsample_nearest(Tensor x, const std::vector<Extent>& extents, double shift) {
  Builder& b = x.builder();
  Sizes axes = {b.axis(x.size(0)), b.axis(x.size(1))}, index = axes;
  for (const Extent& e : extents) {
    const std::optional<sym::Expr> exact = exact_nearest(e, shift, axes.emplace_back(b.axis(e.out)));
    if (exact) index.push_back(*exact);
  }
  if (index.size() == axes.size()) return b.remap(x, axes, index);
  const int64_t rank = x.rank();
  std::vector<Tensor> tensors = {positions(b, x.size(0), 0, rank), positions(b, x.size(1), 1, rank)};
  for (const Extent& e : extents) {
    Sizes along(x.sizes().size(), 1);
    along[tensors.size()] = e.out;
    tensors.push_back(b.reshape(nearest_tap(b, e, shift, position_dtype(x)).index, along));
  }
  return b.gather(x, tensors);
}

Tensor upsample_linear(Tensor x, const std::vector<Extent>& extents, bool align_corners, bool by_dims) {
  return interpolate(x, extents, align_corners, by_dims, linear_taps);
}

Tensor upsample_cubic(Tensor x, const std::vector<Extent>& extents, bool align_corners, bool by_dims) {
  return interpolate(x, extents, align_corners, by_dims, cubic_taps);
}

Tensor resample_antialiased(Tensor x, const std::vector<Extent>& extents, bool align_corners, const Filter& filter) {
  Tensor y = wide(x);
  for (size_t i = extents.size(); i-- > 0;) {
    y = filter_dim(y, static_cast<int64_t>(i) + 2, extents[i], align_corners, filter);
  }
  return x.builder().cast(y, x.dtype());
}

}  // namespace toroid::formula
