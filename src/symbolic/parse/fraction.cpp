#include "symbolic/parse/fraction.h"

#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

using F = RealFunction;

// `exact` with its value in doubles, unless it is an integer.
Fraction with_doubles(Fraction exact, const Fraction& doubles) {
  if (!exact.is_integer()) exact.real = doubles.real;
  return exact;
}

Fraction make_fraction(Expr numerator, Expr denominator) {
  if (denominator.is_const() && denominator.value() < 0) return {-numerator, -denominator};
  if (known_divisible(numerator, denominator)) return {floor_div(numerator, denominator), 1};
  return {numerator, denominator};
}

Expr compare_doubles(Comparison comparison, Expr a, Expr b) {
  switch (comparison) {
    case Comparison::Eq: return real(F::Eq, {a, b});
    case Comparison::Ne: return real(F::Ne, {a, b});
    case Comparison::Lt: return real(F::Lt, {a, b});
    case Comparison::Le: return real(F::Le, {a, b});
    case Comparison::Gt: return real(F::Lt, {b, a});
    default: return real(F::Le, {b, a});
  }
}

}  // namespace

std::string shown(std::string_view text) {
  std::string result;
  for (char c : text.substr(0, 120)) result += c >= ' ' && c < 127 ? c : '?';
  return text.size() > 120 ? result + "..." : result;
}

void Place::fail(std::string_view problem) const {
  throw Error(ErrorKind::InvalidModel, fmt::format("bad size expression '{}': {} at offset {}", shown(text), problem, offset));
}

Fraction only_real(Expr real) { return {.real = real, .is_only_real = true}; }

Expr in_doubles(const Fraction& value) {
  if (value.real) return *value.real;
  if (value.factor != 0) return real_literal(value.factor);  // other products know their doubles
  const auto whole = [](Expr integer) {
    return integer.is_const() ? real_literal(static_cast<double>(integer.value())) : real(F::Float, {integer});
  };
  if (value.denominator.is_const(1)) return whole(value.numerator);
  return real(F::Div, {whole(value.numerator), whole(value.denominator)});
}

Fraction in_doubles(RealFunction function, const Fraction& a, const Fraction& b) {
  return only_real(real(function, {in_doubles(a), in_doubles(b)}));
}
Fraction in_doubles(RealFunction function, const Fraction& a) { return only_real(real(function, {in_doubles(a)})); }

Expr integer(const Fraction& value, const Place& place) {
  if (!value.is_integer() || !value.is_exact()) place.fail("a fraction where an integer is needed");
  return value.numerator;
}

Fraction negate(const Fraction& value) {
  if (!value.is_exact()) return in_doubles(F::Neg, value);
  return with_doubles({-value.numerator, value.denominator}, value.real ? in_doubles(F::Neg, value) : Fraction{});
}

Fraction add(const Fraction& a, const Fraction& b) {
  if (!a.is_exact() || !b.is_exact()) return in_doubles(F::Add, a, b);
  const Fraction sum = a.denominator == b.denominator
                           ? make_fraction(a.numerator + b.numerator, a.denominator)
                           : make_fraction(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator);
  return with_doubles(sum, in_doubles(F::Add, a, b));
}

Fraction multiply(const Fraction& a, const Fraction& b) {
  if (a.is_only_real || b.is_only_real) return in_doubles(F::Mul, a, b);
  if (a.is_exact() && b.is_exact()) {
    return with_doubles(make_fraction(a.numerator * b.numerator, a.denominator * b.denominator), in_doubles(F::Mul, a, b));
  }
  // Of one double and a size.
  const Fraction& scale = a.is_exact() ? b : a;
  const Fraction& other = a.is_exact() ? a : b;
  const Fraction product = in_doubles(F::Mul, a, b);
  if (!other.is_exact() || !other.is_integer() || other.numerator.range().min < 0) return product;
  if (scale.factor == 0)
    return {.numerator = a.numerator * b.numerator, .denominator = scale.denominator, .is_above = true, .real = product.real};
  if (!scale.numerator.is_const(1)) return product;
  return {.numerator = other.numerator, .denominator = 1, .factor = scale.factor, .real = product.real};
}

Fraction divide(const Fraction& a, const Fraction& b, const Place& place) {
  if (b.is_exact() && b.numerator.is_const(0)) place.fail("division by zero");
  if (!a.is_exact() || !b.is_exact()) return in_doubles(F::Div, a, b);
  return with_doubles(make_fraction(a.numerator * b.denominator, a.denominator * b.numerator), in_doubles(F::Div, a, b));
}

Fraction quotient(const Fraction& a, const Fraction& b, const Place& place) {
  if (!a.is_exact() || !b.is_exact()) return in_doubles(F::FloorDiv, a, b);
  if (b.numerator.is_const(0)) place.fail("division by zero");
  const Fraction exact = make_fraction(a.numerator * b.denominator, a.denominator * b.numerator);
  return {floor_div(exact.numerator, exact.denominator)};
}

Fraction modulo(const Fraction& a, const Fraction& b, const Place& place) {
  if (!a.is_integer() || !b.is_integer()) return in_doubles(F::Mod, a, b);
  if (b.numerator.is_const(0)) place.fail("division by zero");
  return {mod(a.numerator, b.numerator)};
}

Expr ceiling(const Fraction& value) {
  return value.is_exact() ? ceil_div(value.numerator, value.denominator) : real(F::Ceil, {in_doubles(value)});
}

Expr rounded_down(const Fraction& value) {
  if (value.is_only_real) return real(F::Floor, {in_doubles(value)});
  return value.factor != 0 ? scaled(value.numerator, value.factor) : floor_div(value.numerator, value.denominator);
}

Expr truncate(const Fraction& value) {
  if (!value.is_exact() && (value.is_only_real || value.numerator.range().min < 0)) return real(F::Trunc, {in_doubles(value)});
  const Expr down = rounded_down(value);
  if (down.range().min >= 0) return down;
  return down + (ceiling(value) - down) * lt(down, 0);
}

Fraction round_decimal(const Fraction& value, Expr digits, const Place& place) {
  if (value.is_integer()) return value;
  if (!digits.is_const() || std::abs(digits.value()) > 300) place.fail("a number of digits that is no small constant");
  const Expr unit = real_literal(std::pow(10.0, static_cast<double>(digits.value())));
  const Expr shifted = real(F::Rounded, {real(F::Mul, {in_doubles(value), unit})});
  return only_real(real(F::Div, {shifted, unit}));
}

Fraction power(const Fraction& base, const Fraction& exponent, const Place& place) {
  const bool is_short = exponent.is_integer() && exponent.numerator.is_const() && std::abs(exponent.numerator.value()) <= 64;
  if (!base.is_exact() || !is_short) {
    if (base.is_integer() && exponent.is_integer()) place.fail("an exponent that is no constant between -64 and 64");
    return in_doubles(F::Pow, base, exponent);
  }
  const int64_t count = exponent.numerator.value();
  Fraction result{1};
  for (int64_t i = 0; i < std::abs(count); ++i) result = multiply(result, base);
  if (count < 0) result = divide({1}, result, place);
  return with_doubles(result, in_doubles(F::Pow, base, exponent));
}

Expr compare(Comparison comparison, const Fraction& a, const Fraction& b) {
  if (!a.is_exact() || !b.is_exact() || a.denominator.range().min < 0 || b.denominator.range().min < 0) {
    return compare_doubles(comparison, in_doubles(a), in_doubles(b));
  }
  const Expr left = a.numerator * b.denominator;
  const Expr right = b.numerator * a.denominator;
  switch (comparison) {
    case Comparison::Eq: return eq(left, right);
    case Comparison::Ne: return ne(left, right);
    case Comparison::Lt: return lt(left, right);
    case Comparison::Le: return le(left, right);
    case Comparison::Gt: return gt(left, right);
    default: return ge(left, right);
  }
}

Expr truth(const Fraction& value, const Place& place) {
  const Expr number = integer(value, place);
  const Range range = number.range();
  return range.min >= 0 && range.max <= 1 ? number : ne(number, 0);
}

Fraction nearest_fraction(double value) {
  constexpr int64_t kMaxDenominator = 10'000;
  for (int64_t denominator = 1; denominator <= kMaxDenominator; ++denominator) {
    const double numerator = std::round(value * static_cast<double>(denominator));
    if (numerator > 1e9) break;
    if (numerator / static_cast<double>(denominator) != value) continue;
    // Rounded once, so the sign is right.
    const double above = std::fma(value, static_cast<double>(denominator), -numerator);
    if (above >= 0) return {static_cast<int64_t>(numerator), denominator, above > 0};
    break;
  }
  return {.numerator = 1, .denominator = 1, .factor = value};
}

Fraction reduced(int64_t numerator, int64_t denominator) {
  while (denominator % 5 == 0 && numerator % 5 == 0) numerator /= 5, denominator /= 5;
  while (denominator % 2 == 0 && numerator % 2 == 0) numerator /= 2, denominator /= 2;
  return {numerator, denominator};
}

}  // namespace toroid::sym
