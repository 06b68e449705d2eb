#include "formula/backward/padding_backward.h"

#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// Along one dim: the size before padding, and how much was padded; negative amounts crop.
struct PaddedDim {
  int64_t dim;
  sym::Expr size, low, high;
};

bool is_negative(sym::Expr amount) { return sym::known_lt(amount, 0); }

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
  const sym::Expr before = is_negative(padded.low) ? -padded.low : sym::Expr(0);
  const sym::Expr after = is_negative(padded.high) ? -padded.high : sym::Expr(0);
  const sym::Expr start = is_negative(padded.low) ? sym::Expr(0) : padded.low;
  Tensor shown = b.slice(grad, padded.dim, start, padded.size - before - after);
  return before.is_const(0) && after.is_const(0) ? shown : placed(shown, padded, before);
}

bool pads(sym::Expr amount) { return !amount.is_const(0) && !is_negative(amount); }

// The padded elements before and after the middle.
Tensor before_middle(Tensor grad, const PaddedDim& padded) { return grad.builder().slice(grad, padded.dim, 0, padded.low); }
Tensor after_middle(Tensor grad, const PaddedDim& padded) {
  return grad.builder().slice(grad, padded.dim, grad.size(padded.dim) - padded.high, padded.high);
}

Tensor unreflect(Tensor grad, const PaddedDim& padded) {
  Builder& b = grad.builder();
  Tensor sum = middle_of(grad, padded);
  if (pads(padded.low)) sum = sum + placed(b.flip(before_middle(grad, padded), {padded.dim}), padded, 1);
  if (pads(padded.high)) {
    sum = sum + placed(b.flip(after_middle(grad, padded), {padded.dim}), padded, padded.size - 1 - padded.high);
  }
  return sum;
}

// The edges sum their border, and what a crop on the other side left of it.
Tensor unreplicate(Tensor grad, const PaddedDim& padded) {
  Builder& b = grad.builder();
  auto total = [&](Tensor part) { return b.keep(b.sum(part, {padded.dim}), {padded.dim}); };
  Tensor sum = middle_of(grad, padded);
  if (pads(padded.low)) sum = sum + placed(total(before_middle(grad, padded)), padded, 0);
  if (pads(padded.high)) sum = sum + placed(total(after_middle(grad, padded)), padded, padded.size - 1);
  return sum;
}

template <class F>
Tensor pad_backward(Tensor grad_out, Tensor x, const Sizes& pad, F unpad) {
  Tensor grad = wide(grad_out);
  dims_before(x, pad.size() / 2);
  for (size_t i = 0; i < pad.size() / 2; ++i) {  // pairs from the last dim on
    const int64_t dim = x.rank() - 1 - static_cast<int64_t>(i);
    const PaddedDim padded{dim, x.size(dim), pad[2 * i], pad[2 * i + 1]};
    if (padded.low.is_const(0) && padded.high.is_const(0)) continue;
    grad = unpad(grad, padded);
  }
  return x.builder().cast(grad, x.dtype());
}

}  // namespace

Tensor pad_reflect_backward(Tensor grad, Tensor x, const Sizes& pad) { return pad_backward(grad, x, pad, unreflect); }
Tensor pad_replicate_backward(Tensor grad, Tensor x, const Sizes& pad) { return pad_backward(grad, x, pad, unreplicate); }

}  // namespace toroid::formula
