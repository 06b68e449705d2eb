// Sizes that a float factor scaled, as an image's do: computed in doubles, because PyTorch does.
#include <bit>
#include <cmath>

#include "symbolic/node_table.h"
#include "symbolic/simplify.h"

namespace toroid::sym {

std::optional<int64_t> scale(int64_t value, double factor) {
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63
  const double product = factor * static_cast<double>(value);
  return std::fabs(product) < kBeyond ? std::optional(static_cast<int64_t>(product)) : std::nullopt;
}

double factor_of(Expr bits) { return std::bit_cast<double>(bits.value()); }

Expr scaled(Expr size, double factor) {
  TOROID_CHECK(std::isfinite(factor) && factor > 0 && size.range().min >= 0, "a scaled size must not be negative");
  if (size.is_const()) {
    if (const std::optional<int64_t> value = scale(size.value(), factor)) return *value;
    throw SizeOverflow("scaling");
  }
  const Expr operands[] = {size, std::bit_cast<int64_t>(factor)};
  return size.context()->impl().intern(Kind::Scaled, operands);
}

}  // namespace toroid::sym
