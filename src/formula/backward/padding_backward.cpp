#include "formula/backward/padding_backward.h"

#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// Along one dim: the size before padding, and how much was padded; negative amounts crop.
struct Border {
  int64_t dim;
  sym::Expr size, low, high;
};

bool is_negative(sym::Expr amount) { return sym::known_lt(amount, 0); }

// `part` with zeros around it along the border's dim, so that it begins at `start` of the unpadded tensor.
Tensor placed(Tensor part, const Border& border, sym::Expr start) {
  Sizes low(part.sizes().size(), 0), high = low;
  const size_t at = static_cast<size_t>(border.dim);
  low[at] = start;
  high[at] = border.size - start - part.sizes()[at];
  return part.builder().pad(part, low, high, 0.0);
}

// What the unpadded elements themselves show.
Tensor middle_of(Tensor grad, const Border& border) {
  Builder& b = grad.builder();
  const sym::Expr before = is_negative(border.low) ? -border.low : sym::Expr(0);
  const sym::Expr after = is_negative(border.high) ? -border.high : sym::Expr(0);
  const sym::Expr start = is_negative(border.low) ? sym::Expr(0) : border.low;
  Tensor shown = b.slice(grad, border.dim, start, border.size - before - after);
  return before.is_const(0) && after.is_const(0) ? shown : placed(shown, border, before);
}

bool pads(sym::Expr amount) { return !amount.is_const(0) && !is_negative(amount); }

// The padded elements before and after the middle.
Tensor before_middle(Tensor grad, const Border& border) { return grad.builder().slice(grad, border.dim, 0, border.low); }
Tensor after_middle(Tensor grad, const Border& border) {
  return grad.builder().slice(grad, border.dim, grad.size(border.dim) - border.high, border.high);
}

Tensor unreflect(Tensor grad, const Border& border) {
  Builder& b = grad.builder();
  Tensor sum = middle_of(grad, border);
  if (pads(border.low)) sum = sum + placed(b.flip(before_middle(grad, border), {border.dim}), border, 1);
  if (pads(border.high)) {
    sum = sum + placed(b.flip(after_middle(grad, border), {border.dim}), border, border.size - 1 - border.high);
  }
  return sum;
}

// The edges sum their border, and what a crop on the other side left of it.
Tensor unreplicate(Tensor grad, const Border& border) {
  Builder& b = grad.builder();
  auto total = [&](Tensor part) { return b.keep(b.sum(part, {border.dim}), {border.dim}); };
  Tensor sum = middle_of(grad, border);
  if (pads(border.low)) sum = sum + placed(total(before_middle(grad, border)), border, 0);
  if (pads(border.high)) sum = sum + placed(total(after_middle(grad, border)), border, border.size - 1);
  return sum;
}

template <class F>
Tensor pad_backward(Tensor grad_out, Tensor x, const Sizes& pad, F unpad) {
  Tensor grad = wide(grad_out);
  dims_before(x, pad.size() / 2);
  for (size_t i = 0; i < pad.size() / 2; ++i) {  // pairs from the last dim on
    const int64_t dim = x.rank() - 1 - static_cast<int64_t>(i);
    const Border border{dim, x.size(dim), pad[2 * i], pad[2 * i + 1]};
    if (border.low.is_const(0) && border.high.is_const(0)) continue;
    grad = unpad(grad, border);
  }
  return x.builder().cast(grad, x.dtype());
}

}  // namespace

Tensor pad_reflect_backward(Tensor grad, Tensor x, const Sizes& pad) { return pad_backward(grad, x, pad, unreflect); }
Tensor pad_replicate_backward(Tensor grad, Tensor x, const Sizes& pad) { return pad_backward(grad, x, pad, unreplicate); }

}  // namespace toroid::formula
