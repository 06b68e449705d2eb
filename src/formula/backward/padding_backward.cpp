#include "formula/backward/padding_backward.h"

#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// Along one dim: the size before padding, how much is padded, and how much is cropped; none of these is negative.
struct PaddedDim {
  int64_t dim;
  sym::Expr size, low, high, cropped_low, cropped_high;
};

sym::Expr positive_part(sym::Expr amount) {
  if (sym::known_lt(amount, 0)) return 0;
  return sym::known_le(0, amount) ? amount : sym::max(amount, 0);
}

// `part` with zeros around it along its dim, so that it begins at `start` of the unpadded tensor.
Tensor placed(Tensor part, const PaddedDim& padded, sym::Expr start) {
  Sizes low(part.sizes().size(), 0), high = low;
  const size_t at = static_cast<size_t>(padded.dim);
  low[at] = start;
  high[at] = padded.size - start - part.sizes()[at];
  return part.builder().pad(part, low, high, 0.0);
}

// What the unpadded elements themselves show.
Tensor middle_of(Tensor grad, const PaddedDim& padded) {
  Builder& b = grad.builder();
  const sym::Expr before = padded.cropped_low, after = padded.cropped_high;
  Tensor shown = b.slice(grad, padded.dim, padded.low, padded.size - before - after);
  return before.is_const(0) && after.is_const(0) ? shown : placed(shown, padded, before);
}

// The padded elements before and after the middle.
Tensor before_middle(Tensor grad, const PaddedDim& padded) { return grad.builder().slice(grad, padded.dim, 0, padded.low); }
Tensor after_middle(Tensor grad, const PaddedDim& padded) {
  return grad.builder().slice(grad, padded.dim, grad.size(padded.dim) - padded.high, padded.high);
}

Tensor unreflect(Tensor grad, const PaddedDim& padded) {
  Builder& b = grad.builder();
  Tensor sum = middle_of(grad, padded);
  if (!padded.low.is_const(0)) sum = sum + placed(b.flip(before_middle(grad, padded), {padded.dim}), padded, 1);
  if (!padded.high.is_const(0)) {
    sum = sum + placed(b.flip(after_middle(grad, padded), {padded.dim}), padded, padded.size - 1 - padded.high);
  }
  return sum;
}

// The edges sum their border, and what a crop on the other side left of it.
Tensor unreplicate(Tensor grad, const PaddedDim& padded) {
  Builder& b = grad.builder();
  auto total = [&](Tensor part) { return b.keep(b.sum(part, {padded.dim}), {padded.dim}); };
  Tensor sum = middle_of(grad, padded);
  if (!padded.low.is_const(0)) sum = sum + placed(total(before_middle(grad, padded)), padded, 0);
  if (!padded.high.is_const(0)) sum = sum + placed(total(after_middle(grad, padded)), padded, padded.size - 1);
  return sum;
}

template <class F>
Tensor pad_backward(Tensor grad_out, Tensor x, const Sizes& pad, F unpad) {
  Tensor grad = wide(grad_out);
  dims_before(x, pad.size() / 2);
  for (size_t i = 0; i < pad.size() / 2; ++i) {  // pairs from the last dim on
    const int64_t dim = x.rank() - 1 - static_cast<int64_t>(i);
    const sym::Expr low = pad[2 * i], high = pad[2 * i + 1];  // negative amounts crop
    if (low.is_const(0) && high.is_const(0)) continue;
    const PaddedDim padded{dim, x.size(dim), positive_part(low), positive_part(high), positive_part(-low), positive_part(-high)};
    grad = unpad(grad, padded);
  }
  return x.builder().cast(grad, x.dtype());
}

}  // namespace

Tensor pad_reflect_backward(Tensor grad, Tensor x, const Sizes& pad) { return pad_backward(grad, x, pad, unreflect); }
Tensor pad_replicate_backward(Tensor grad, Tensor x, const Sizes& pad) { return pad_backward(grad, x, pad, unreplicate); }

}  // namespace toroid::formula
