// Gradients of padding that mirrors or repeats the tensor, one dim after the other: each element sums the padded
// elements that show it. A mirrored border is a flipped slice of the gradient, moved to where it came from.
//
//   0 1 2 3 padded by 2 and 1:   2 1 | 0 1 2 3 | 2      =>   dx = g[2:6] + pad(flip(g[0:2]), 1, 1) + pad(g[6:7], 2, 1)
#include "base/error.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
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

template <Tensor (*unpad)(Tensor, const Border&)>
std::vector<Tensor> pad_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), grad = wide(a.tensor("grad_output"));
  const Sizes padding = a.integers("padding");
  dims_before(x, padding.size() / 2);
  for (size_t i = 0; i < padding.size() / 2; ++i) {  // pairs from the last dim on
    const int64_t dim = x.rank() - 1 - static_cast<int64_t>(i);
    const Border border{dim, x.size(dim), padding[2 * i], padding[2 * i + 1]};
    if (border.low.is_const(0) && border.high.is_const(0)) continue;
    grad = unpad(grad, border);
  }
  return {d.b.cast(grad, x.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::reflection_pad1d_backward", pad_backward<unreflect>},    {"aten::reflection_pad2d_backward", pad_backward<unreflect>},
    {"aten::reflection_pad3d_backward", pad_backward<unreflect>},    {"aten::replication_pad1d_backward", pad_backward<unreplicate>},
    {"aten::replication_pad2d_backward", pad_backward<unreplicate>}, {"aten::replication_pad3d_backward", pad_backward<unreplicate>},
};

}  // namespace

std::span<const DecompositionRow> padding_backward_rows() { return kRows; }

}  // namespace toroid
