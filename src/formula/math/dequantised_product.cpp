#include "formula/math/dequantised_product.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "formula/basics/operators.h"
#include "formula/math/dequantised.h"

namespace toroid {
namespace {

// The same along the contracted dim of a factor?
bool fits(const Dequantised& factor, size_t contracted) {
  return (!factor.zero.defined() || is_constant_along(factor.zero, contracted)) &&
         (!factor.scale.defined() || is_constant_along(factor.scale, contracted));
}

// The row or column of what is the same along the dim; one element where it is the same along both.
Tensor one_along(Tensor t, int64_t dim) {
  Builder& b = t.builder();
  Tensor one = b.slice(t, dim, 0, 1);
  const auto other = static_cast<size_t>(1 - dim);
  return is_constant_along(t, other) ? b.slice(one, 1 - dim, 0, 1) : one;
}
Tensor scale_along(const Dequantised& factor, int64_t dim) { return factor.scale.builder().cast(one_along(factor.scale, dim), DType::F32); }

// Is it known to be a number of about a byte?
bool is_small(Tensor t) {
  constexpr double kMost = 1 << 8;
  if (!t.defined()) return true;
  const std::optional<double> number = stated_number(t);
  return number && std::fabs(*number) <= kMost;
}

// As int8, the zero point moved with it.
void make_signed(Dequantised& factor, DType zero_dtype) {
  if (factor.quantised.dtype() == DType::I8) return;
  Builder& b = factor.quantised.builder();
  constexpr int64_t kMiddle = 128;
  auto moved = [&](Tensor t) { return b.binary(ScalarOp::Sub, t, Scalar(sym::Expr(kMiddle))); };
  factor.zero = factor.zero.defined() ? moved(factor.zero) : b.full(factor.quantised.sizes(), zero_dtype, sym::Expr(-kMiddle));
  factor.quantised = b.cast(moved(b.cast(factor.quantised, DType::I32)), DType::I8);
}

Tensor integer_product(Dequantised x, Dequantised y) {
  Builder& b = x.quantised.builder();
  // A tensor's zero points may be of any size.
  // Codes are at most 2^8, those of the right side 2^7, zero points 2^8, moved ones 3 * 2^7: together the
  // terms are at most 2^18 times the depth.
  constexpr int64_t kDepthFor32Bits = (1 << 13) - 1;
  const bool fits_32_bits = is_small(x.zero) && is_small(y.zero) && x.quantised.size(1).value() <= kDepthFor32Bits;
  const DType type = fits_32_bits ? DType::I32 : DType::I64;
  // It is a whole number, also where it is kept as a float.
  for (Dequantised* factor : {&x, &y}) {
    if (factor->zero.defined()) factor->zero = b.cast(factor->zero, type);
  }
  make_signed(y, type);  // on the left the kernels take both
  Tensor p = b.cast(x.quantised, DType::I32), q = b.cast(y.quantised, DType::I32);
  Tensor sums = b.matmul(p, q);
  auto sum_along = [&](Tensor t, int64_t dim) { return b.keep(b.cast(b.sum(t, {dim}), type), {dim}); };
  Tensor zero_q = y.zero.defined() ? one_along(y.zero, 0) : Tensor();
  if (x.zero.defined() || zero_q.defined()) sums = b.cast(sums, type);
  if (x.zero.defined()) {
    Tensor of_columns = sum_along(q, 0);  // of constants as a rule, so it is made once
    if (zero_q.defined()) of_columns = of_columns - b.binary(ScalarOp::Mul, zero_q, Scalar(x.quantised.size(1)));
    sums = sums - one_along(x.zero, 1) * of_columns;
  }
  if (zero_q.defined()) sums = sums - zero_q * sum_along(p, 1);
  Tensor scale = x.scale.defined() ? scale_along(x, 1) : Tensor();
  if (y.scale.defined()) scale = scale.defined() ? scale * scale_along(y, 0) : scale_along(y, 0);
  Tensor result = b.cast(sums, DType::F32);
  return scale.defined() ? result * scale : result;
}

}  // namespace

Tensor dequantised_product(Tensor x, Tensor y) {
  constexpr int64_t kMostDepth = 1 << 15;  // whose products of bytes have sums of 32 bits
  const sym::Expr depth = x.size(1);
  if (!depth.is_const() || depth.value() < 1 || !is_floating(y.dtype()) || y.dtype() == DType::F64) return {};
  const std::optional<Dequantised> right = dequantised(y);
  if (!right || !fits(*right, 0)) return {};
  if (const std::optional<Dequantised> left = dequantised(x);
      left && fits(*left, 1) && left->scale.defined() && y.dtype() == DType::F32 && depth.value() <= kMostDepth) {
    return integer_product(*left, *right);
  }
  if (right->zero.defined() || !right->scale.defined() || right->quantised.dtype() != DType::I8) return {};
  Builder& b = x.builder();
  Tensor sums = b.matmul(b.cast(x, DType::F32), b.cast(right->quantised, DType::F32));
  return b.cast(sums * scale_along(*right, 0), y.dtype());
}

}  // namespace toroid
