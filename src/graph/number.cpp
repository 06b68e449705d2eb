#include "graph/number.h"

#include <limits>

#include "base/error.h"
#include "base/float16.h"
#include "support/match.h"

namespace toroid {

double rounded_to(DType dtype, double value) {
  switch (dtype) {
    case DType::F64: return value;
    case DType::F32: return static_cast<float>(value);
    case DType::F16: return static_cast<float>(Float16(static_cast<float>(value)));
    case DType::BF16: return static_cast<float>(BFloat16(static_cast<float>(value)));
    default: TOROID_CHECK(false, "a float rounded to {}", to_string(dtype));
  }
}

int64_t wrapped_to(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::Bool: return value != 0;
    case DType::U8: return static_cast<uint8_t>(value);
    case DType::I8: return static_cast<int8_t>(value);
    case DType::I16: return static_cast<int16_t>(value);
    case DType::I32: return static_cast<int32_t>(value);
    case DType::I64:
    case DType::U64: return value;
    case DType::U16: return static_cast<uint16_t>(value);
    case DType::U32: return static_cast<uint32_t>(value);
    default: TOROID_CHECK(false, "an integer wrapped to {}", to_string(dtype));
  }
}

int64_t truncated_to(DType dtype, double value) {
  if (dtype == DType::Bool) return value != 0;
  // PyTorch converts by way of 32 bits for dtypes up to I32, and of 64 bits for wider ones and U8.
  const bool narrow = dtype == DType::I8 || dtype == DType::I16 || dtype == DType::U16 || dtype == DType::I32;
  const double limit = narrow ? 0x1p31 : 0x1p63;
  if (dtype == DType::U64 && value >= limit && value < 0x1p64) return static_cast<int64_t>(static_cast<uint64_t>(value));
  const bool fits = value > -limit - 1 && value < limit;
  if (!fits) return wrapped_to(dtype, narrow ? int64_t{std::numeric_limits<int32_t>::min()} : std::numeric_limits<int64_t>::min());
  return wrapped_to(dtype, static_cast<int64_t>(value));
}

Scalar element_of(DType dtype, const Scalar& value) {
  const auto* expr = std::get_if<sym::Expr>(&value);
  if (expr != nullptr && !expr->is_const()) return value;
  if (dtype != DType::Bool && !is_integral(dtype)) {
    const double number = match(
        value, [](bool b) { return b ? 1.0 : 0.0; }, [](const sym::Expr& e) { return static_cast<double>(e.value()); },
        [](double d) { return d; });
    return is_reduced_float(dtype) ? rounded_to(dtype, number) : number;
  }
  const int64_t number = match(
      value, [](bool b) { return int64_t{b}; }, [&](const sym::Expr& e) { return wrapped_to(dtype, e.value()); },
      [&](double d) { return truncated_to(dtype, d); });
  return dtype == DType::Bool ? Scalar(number != 0) : Scalar(sym::Expr(number));
}

}  // namespace toroid
