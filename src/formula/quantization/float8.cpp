#include "formula/quantization/float8.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"

namespace toroid::formula {
namespace {

Tensor bit_and(Tensor x, int64_t mask) { return x.builder().binary(ScalarOp::BitAnd, x, Scalar(sym::Expr(mask))); }
Tensor shift_left(Tensor x, int64_t by) { return x.builder().binary(ScalarOp::ShiftLeft, x, Scalar(sym::Expr(by))); }
Tensor shift_right(Tensor x, int64_t by) { return x.builder().binary(ScalarOp::ShiftRight, x, Scalar(sym::Expr(by))); }

struct Float8Layout {
  int mantissa_bits;
  int bias;
  int64_t overflow;  // the bits of what is too large
  int64_t nan;
};
Float8Layout layout_of(DType dtype) { return dtype == DType::F8E4M3FN ? Float8Layout{3, 7, 0x7f, 0x7f} : Float8Layout{2, 15, 0x7c, 0x7f}; }

}  // namespace

double float8_half_scale(DType dtype) { return dtype == DType::F8E5M2 ? 1 : 256; }

Tensor float8_halves(Tensor bits, DType dtype) {
  Builder& b = bits.builder();
  Tensor x = b.cast(bits, DType::I16);
  if (dtype == DType::F8E5M2) return b.bitcast(shift_left(x, 8), DType::F16);
  constexpr int kNan = 0x7e00;
  Tensor magnitude = bit_and(x, 0x7f);
  Tensor half = b.binary(ScalarOp::BitOr, shift_left(magnitude, 7), shift_left(bit_and(x, 0x80), 8));
  return b.bitcast(where(eq(magnitude, 0x7f), kNan, half), DType::F16);
}

// A half with these exponent and mantissa bits has the value times a power of two, subnormal or not.
Tensor float8_values(Tensor bits, DType dtype) {
  Builder& b = bits.builder();
  Tensor x = b.cast(bits, DType::I16);
  if (dtype == DType::F8E5M2) return b.cast(b.bitcast(shift_left(x, 8), DType::F16), DType::F32);
  Tensor magnitude = bit_and(x, 0x7f);
  Tensor half = b.binary(ScalarOp::BitOr, shift_left(magnitude, 7), shift_left(bit_and(x, 0x80), 8));
  Tensor value = b.cast(b.bitcast(half, DType::F16), DType::F32) * 256.0;
  return where(eq(magnitude, 0x7f), std::numeric_limits<double>::quiet_NaN(), value);
}

Tensor float8_bits(Tensor values, DType dtype) {
  Builder& b = values.builder();
  const Float8Layout layout = layout_of(dtype);
  Tensor x = b.cast(values, DType::F32), magnitude = abs(x);
  // Normal numbers: the bits of F32 with the mantissa cut, and a carry that rounds.
  const int cut = 23 - layout.mantissa_bits;
  Tensor wide = b.bitcast(where(isnan(x), 0, magnitude), DType::I32);
  Tensor odd = bit_and(shift_right(wide, cut), 1);
  Tensor rounded = shift_right(wide + odd + b.scalar(DType::I32, sym::Expr((int64_t{1} << (cut - 1)) - 1)), cut);
  Tensor normal = rounded - b.scalar(DType::I32, sym::Expr(int64_t{127 - layout.bias} << layout.mantissa_bits));
  // Others are multiples of the least one.
  const int least_exponent = 1 - layout.bias - layout.mantissa_bits;
  Tensor small = b.cast(round(minimum(where(isnan(x), 0, magnitude), 1.0) * std::ldexp(1.0, -least_exponent)), DType::I32);
  Tensor field = where(magnitude < std::ldexp(1.0, 1 - layout.bias), small, normal);
  field = minimum(field, static_cast<int>(layout.overflow));
  field = where(isnan(x), static_cast<int>(layout.nan), field);
  Tensor sign = bit_and(shift_right(b.bitcast(x, DType::I32), 24), 0x80);
  return b.cast(b.binary(ScalarOp::BitOr, field, sign), DType::U8);
}

Tensor scale_of_factor(Tensor x, Tensor scale, size_t own) {
  Builder& b = x.builder();
  scale = b.cast(scale, DType::F32);
  if (scale.numel().is_const(1)) return b.reshape(scale, {});
  if (scale.rank() != 2 || !sym::known_eq(scale.sizes()[own], x.sizes()[own]) || !scale.sizes()[1 - own].is_const(1)) {
    throw Error(ErrorKind::Unsupported,
                fmt::format("a scale of {} elements for a factor {}", sym::to_string(scale.numel()), to_string(x.type())))
        .help("scale the whole matrix, or each row of the first and each column of the second");
  }
  return scale;
}

}  // namespace toroid::formula
