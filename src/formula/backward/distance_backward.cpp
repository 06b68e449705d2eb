#include "formula/backward/distance_backward.h"

#include <cmath>

#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// grad * d |v|_p / dv, `distance` being |v|_p. Rows that coincide have no direction, and those with NaN none that is a number.
Tensor slope_of(Tensor v, Tensor grad, Tensor distance, double p) {
  Tensor sign = where(isnan(v), v, apply(ScalarOp::Sign, v));
  if (p == 0) return v.builder().full(v.builder().broadcast(v.sizes(), grad.sizes()), v.dtype(), 0.0);
  if (p == 1) return grad * sign;
  if (p == 2) return where(eq(distance, 0), 0, grad * v / distance);
  if (std::isinf(p)) {
    Tensor below = abs(v) - distance;  // NaN between infinities, too
    return where(isnan(below), below, where(eq(below, 0), grad * sign, 0));
  }
  Tensor none = eq(distance, 0);
  if (p < 1) none = none | eq(v, 0);
  return where(none, 0, sign * pow(abs(v), p - 1) * grad / pow(distance, p - 1));
}

}  // namespace

Tensor cdist_backward(Tensor grad, Tensor x1, Tensor x2, double p, Tensor distances) {
  Builder& b = x1.builder();
  auto beside = [&](Tensor of_pairs) { return b.unsqueeze(wide(of_pairs), -1); };
  Tensor v = b.unsqueeze(wide(x1), -2) - b.unsqueeze(wide(x2), -3);
  Tensor gradient = b.sum(slope_of(v, beside(grad), beside(distances), p), {-2});
  return b.cast(gradient, x1.dtype());
}

// Pair (i, j) with i < j is number i*(2n - i - 1)/2 + j - i - 1. Row r is the first of some pairs and the second of others.
Tensor pdist_backward(Tensor grad, Tensor self, double p, Tensor distances) {
  Builder& b = self.builder();
  Tensor x = wide(self);
  const sym::Expr n = x.size(0);
  if (n.is_const(0) || n.is_const(1) || x.size(1).is_const(0)) return b.full(self.sizes(), self.dtype(), 0.0);
  auto whole = [&](sym::Expr value) { return b.scalar(DType::I64, value); };
  Tensor r = positions(b, n, 0, 2), s = positions(b, n, 1, 2);
  Tensor i = minimum(r, s), j = maximum(r, s);
  Tensor before = b.binary(ScalarOp::FloorDiv, i * (whole(n * 2 - 1) - i), Scalar(sym::Expr(2)));
  Tensor same = eq(r, s);
  Tensor pair = where(same, 0, before + j - i - whole(1));  // [n, n]
  auto at_pairs = [&](Tensor of_pairs) { return b.unsqueeze(b.gather(wide(of_pairs), {pair}), -1); };
  Tensor v = b.unsqueeze(x, 1) - b.unsqueeze(x, 0);
  Tensor slope = slope_of(v, at_pairs(grad), at_pairs(distances), p);
  return b.cast(b.sum(where(b.unsqueeze(same, -1), 0, slope), {1}), self.dtype());
}

}  // namespace toroid::formula
