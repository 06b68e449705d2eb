#include "formula/quantization/affine.h"

#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/channels.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "formula/math/dequantised.h"

namespace toroid::formula {
namespace {

Tensor bound_like(Tensor x, const Bound& bound) {
  if (const auto* number = std::get_if<Scalar>(&bound)) return number_like(x, *number);
  Builder& b = x.builder();
  return b.reshape(b.cast(std::get<Tensor>(bound), x.dtype()), {});
}

Tensor clamped(Tensor x, const QuantizedRange& range) { return minimum(maximum(x, bound_like(x, range.low)), bound_like(x, range.high)); }

// Is no element below zero, as behind a relu? NaN may be among them.
bool is_not_negative(Tensor x) {
  const auto* op = std::get_if<Pointwise>(&node_of(x).op);
  if (op == nullptr || (op->op != ScalarOp::Max && op->op != ScalarOp::Min)) return false;
  const auto is_one = [](Tensor t) {
    const std::optional<double> number = stated_number(t);
    return number ? *number >= 0 : is_not_negative(t);
  };
  const bool first = is_one(operand(x, 0)), second = is_one(operand(x, 1));
  return op->op == ScalarOp::Max ? first || second : first && second;
}

// Rounded to whole numbers, moved by the zero point, clamped: in the order that takes the fewest operations. With a whole zero point and
// whole bounds each order gives the same; a sum with 0 and a bound that nothing reaches are left out.
Tensor rounded_and_clamped(Tensor scaled, bool is_at_least_0, Tensor zero_point, const QuantizedRange& range) {
  constexpr double kMost = 1 << 20;  // so that differences are exact
  const auto whole = [](std::optional<double> number) {
    return number && std::floor(*number) == *number && std::fabs(*number) <= kMost ? number : std::nullopt;
  };
  const auto of_bound = [&](const Bound& bound) {
    const auto* scalar = std::get_if<Scalar>(&bound);
    return scalar != nullptr ? whole(stated_number(*scalar)) : std::nullopt;
  };
  const std::optional<double> zero = whole(stated_number(zero_point)), low = of_bound(range.low), high = of_bound(range.high);
  if (!zero || !low || !high) return clamped(round(scaled) + zero_point, range);
  if (!is_at_least_0 || *low > *zero) scaled = maximum(scaled, number_like(scaled, Scalar(*low - *zero)));
  Tensor rounded = round(minimum(scaled, number_like(scaled, Scalar(*high - *zero))));
  return *zero == 0 ? rounded : rounded + zero_point;
}

// Integers are subtracted as integers.
Tensor dequantized(Tensor q, Tensor scales, Tensor zero_points) { return (zero_points.defined() ? q - zero_points : q) * scales; }

// The zero point is added before rounding.
Tensor rounded_late(Tensor x, Tensor scales, Tensor zero_points, const QuantizedRange& range, DType dtype) {
  return x.builder().cast(clamped(round(x * (1.0 / scales) + zero_points), range), dtype);
}

// The rows of a matrix cut into groups, [groups, group size].
Tensor in_groups(Tensor x, Tensor scales, sym::Expr size) {
  if (x.rank() != 2)
    throw Error(ErrorKind::InvalidModel, fmt::format("groups of a tensor of rank {}: matrices are quantised so", x.rank()));
  if (scales.size(-1).is_const(1)) size = sym::min(size, x.size(1));
  return x.builder().reshape(x, {-1, size});
}
Tensor column(Tensor x) { return x.builder().reshape(x, {x.numel(), 1}); }

}  // namespace

// ---- one scale for all ----------------------------------------------------------------------------------------------

Tensor quantize_per_tensor(Tensor x, Tensor scale, Tensor zero_point, const QuantizedRange& range, DType dtype) {
  Builder& b = x.builder();
  Tensor inverse = b.cast(reciprocal(scale), DType::F32);
  const std::optional<double> factor = stated_number(scale);
  const bool is_at_least_0 = factor && *factor > 0 && is_not_negative(x);
  return b.cast(rounded_and_clamped(b.cast(x, DType::F32) * inverse, is_at_least_0, zero_point, range), dtype);
}

Tensor dequantize_per_tensor(Tensor q, Tensor scale, Tensor zero_point, DType dtype) {
  Builder& b = q.builder();
  Tensor x = wide(b.cast(q, dtype));
  Tensor shifted = wide(b.cast(x - zero_point, dtype));
  return b.cast(shifted * scale, dtype);
}

// ---- a scale for each channel, token or group -----------------------------------------------------------------------

Tensor quantize_per_channel(Tensor x, Tensor scales, Tensor zero_points, int64_t axis, const QuantizedRange& range, DType dtype) {
  Builder& b = x.builder();
  x = b.cast(x, DType::F32);
  Tensor q = round(x * (1.0 / along_dim_of(x, axis, scales))) + along_dim_of(x, axis, zero_points);
  return b.cast(clamped(q, range), dtype);
}

Tensor dequantize_per_channel(Tensor q, Tensor scales, Tensor zero_points, int64_t axis, DType dtype) {
  if (zero_points.defined()) zero_points = along_dim_of(q, axis, zero_points);
  return q.builder().cast(dequantized(q, along_dim_of(q, axis, scales), zero_points), dtype);
}

Tensor quantize_per_token(Tensor x, Tensor scales, Tensor zero_points, const QuantizedRange& range, DType dtype) {
  return rounded_late(x, scales, zero_points, range, dtype);
}

Tensor dequantize_per_token(Tensor q, Tensor scales, Tensor zero_points, DType dtype) {
  return q.builder().cast(dequantized(q, scales, zero_points), dtype);
}

Tensor quantize_per_group(Tensor x, Tensor scales, Tensor zero_points, sym::Expr size, const QuantizedRange& range, DType dtype) {
  Tensor q = rounded_late(in_groups(x, scales, size), column(scales), column(zero_points), range, dtype);
  return x.builder().reshape(q, x.sizes());
}

Tensor dequantize_per_group(Tensor q, Tensor scales, Tensor zero_points, sym::Expr size, DType dtype) {
  Builder& b = q.builder();
  if (zero_points.defined()) zero_points = column(zero_points);
  Tensor x = dequantized(in_groups(q, scales, size), column(scales), zero_points);
  return b.cast(b.reshape(x, q.sizes()), dtype);
}

// ---- choosing scales and zero points --------------------------------------------------------------------------------

namespace {

struct RealRange {
  Tensor low, high;  // with 0 between them
};

RealRange range_of(Tensor x, const Dims& dims) {
  Tensor low = reduce_keeping(ReduceOp::Min, x, dims), high = reduce_keeping(ReduceOp::Max, x, dims);
  return {minimum(low, 0), maximum(high, 0)};
}

// Of a whole tensor, in F32.
RealRange range_of_all(Tensor x) {
  Builder& b = x.builder();
  const RealRange range = range_of(b.reshape(x, {x.numel()}), {0});
  Tensor low = b.cast(range.low, DType::F32), high = b.cast(range.high, DType::F32);
  return {low, high};
}

// Rounded to x's dtype, in F32.
Tensor narrowed(Tensor t, Tensor x) { return t.builder().cast(t.builder().cast(t, x.dtype()), DType::F32); }

}  // namespace

QuantizationParameters choose_parameters(Tensor x, double quant_min, double quant_max, double eps) {
  Builder& b = x.builder();
  const auto [low, high] = range_of_all(x);
  const Tensor least = b.scalar(DType::F32, eps);
  Tensor scale = maximum(narrowed(narrowed(high - low, x) / (quant_max - quant_min), x), least);
  Tensor zero_point = minimum(maximum(quant_min - round(low / scale), quant_min), quant_max);
  return {b.cast(scale, DType::F64), b.cast(zero_point, DType::I64)};
}

QuantizationParameters choose_symmetric_parameters(Tensor x, double quant_min, double quant_max, double eps, int64_t zero_point) {
  Builder& b = x.builder();
  const auto [low, high] = range_of_all(x);
  const Tensor least = b.scalar(DType::F32, eps);
  Tensor scale = maximum(narrowed(maximum(-low, high) / ((quant_max - quant_min) / 2), x), least);
  return {b.cast(scale, DType::F64), b.full({1}, DType::I64, sym::Expr(zero_point))};
}

QuantizationParameters choose_parameters_per_token(Tensor x) {
  Builder& b = x.builder();
  if (x.dtype() == DType::F16) x = b.cast(x, DType::F32);
  Tensor largest = maximum(wide(reduce_keeping(ReduceOp::Max, abs(x), {-1})), 1e-5);
  Tensor scales = b.cast(wide(b.cast(largest, x.dtype())) / 127.0, x.dtype());
  return {scales, b.full(scales.sizes(), scales.dtype(), 0.0)};
}

QuantizationParameters choose_asymmetric_parameters_per_token(Tensor x) {
  constexpr double kMin = -128, kMax = 127;
  Builder& b = x.builder();
  auto rounded = [&](Tensor t) { return wide(b.cast(t, x.dtype())); };
  const RealRange range = range_of(wide(x), {-1});
  Tensor scale = rounded(rounded(range.high - range.low) / (kMax - kMin));
  scale = rounded(maximum(scale, std::numeric_limits<float>::epsilon()));
  Tensor low = rounded(range.low / scale), high = rounded(range.high / scale);
  Tensor sum = rounded(rounded(kMin + low) + rounded(kMax + high));
  Tensor zero_point = where(sum > 0, rounded(kMin - low), rounded(kMax - high));
  zero_point = round(minimum(maximum(zero_point, kMin), kMax));
  return {b.cast(scale, DType::F64), b.cast(zero_point, DType::I64)};
}

}  // namespace toroid::formula
