#include "passes/decompose/fourier.h"

#include <cmath>
#include <numbers>

#include "passes/decompose/formula.h"

namespace toroid {
namespace {

// Up to here a product with the matrix of all roots is as good as factors.
constexpr int64_t kDirect = 32;

// exp(±2 pi i j k / n) for j < rows, k < columns.
Complex roots(Builder& b, int64_t n, int64_t rows, int64_t columns, bool forward, DType dtype) {
  const Sizes sizes = {rows, columns};
  // The product is reduced as an integer, so that large ones lose nothing.
  Tensor power = apply(ScalarOp::Mod, b.iota(sizes, 0) * b.iota(sizes, 1), b.full(sizes, DType::I64, sym::Expr(n)));
  const double turn = (forward ? -2 : 2) * std::numbers::pi / static_cast<double>(n);
  Tensor angle = b.cast(power, DType::F64) * turn;
  return {b.cast(cos(angle), dtype), b.cast(sin(angle), dtype)};
}

// The largest divisor up to the root of n; 1 for primes.
int64_t middle_divisor(int64_t n) {
  for (auto candidate = static_cast<int64_t>(std::sqrt(static_cast<double>(n))); candidate > 1; --candidate) {
    if (n % candidate == 0) return candidate;
  }
  return 1;
}

Complex times(Complex x, Complex y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }

template <class F>
Complex each(Complex x, F f) {
  return {f(x.re), f(x.im)};
}

Complex transform(Complex x, int64_t n, bool forward) {
  Builder& b = x.re.builder();
  if (n <= 1) return x;
  const DType dtype = x.re.dtype();
  const int64_t rows = n <= kDirect ? 1 : middle_divisor(n);
  if (rows == 1) {
    const Complex w = roots(b, n, n, n, forward, dtype);
    const Sizes sizes = x.re.sizes();
    auto product = [&](Tensor t, Tensor matrix) { return b.reshape(b.matmul(b.reshape(t, {-1, n}), matrix), sizes); };
    return {product(x.re, w.re) - product(x.im, w.im), product(x.re, w.im) + product(x.im, w.re)};
  }
  // j = columns * j1 + j2 and k = k1 + rows * k2: transforms over j1, then over j2, and roots of n between them.
  const int64_t columns = n / rows;
  const Sizes sizes = x.re.sizes();
  Sizes split(sizes.begin(), sizes.end() - 1);
  split.insert(split.end(), {rows, columns});
  auto swapped = [&](Tensor t) { return b.transpose(t, -1, -2); };
  Complex y = each(x, [&](Tensor t) { return swapped(b.reshape(t, split)); });
  y = times(transform(y, rows, forward), roots(b, n, columns, rows, forward, dtype));
  y = transform(each(y, swapped), columns, forward);
  return each(y, [&](Tensor t) { return b.reshape(swapped(t), sizes); });
}

}  // namespace

Complex fourier_transform(Complex x, bool forward) {
  const sym::Expr n = x.re.size(-1);
  if (!n.is_const()) {
    const TensorType type = {.dtype = x.re.dtype(), .sizes = x.re.sizes()};
    const std::vector<Tensor> y =
        x.re.builder().library("fourier.transform", {x.re, x.im}, {type, type}, {Scalar(sym::Expr(forward ? 1 : 0))});
    return {y[0], y[1]};
  }
  return x.re.numel().is_const(0) ? x : transform(x, n.value(), forward);
}

}  // namespace toroid
