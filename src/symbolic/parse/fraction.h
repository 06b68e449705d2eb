// The values that the parser computes with: fractions of size expressions, and beside them what PyTorch computes in doubles.
//
// A factor like 1.5 is an exact fraction; 1.1 is a double a little above 11/10, and what is rounded down from a product with it is
// rounded down from that with 11/10. Below its fraction, like 0.7, a product may round to either side of an integer: it stays a
// product of doubles, Scaled(0.7, s0). What is no such fraction at all, sqrt(s0) or 0.7*s0 + 0.1, is computed in doubles:
// Real(sqrt, Real(float, s0)).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "symbolic/expr.h"
#include "symbolic/real.h"

namespace toroid::sym {

// Printable and short, for messages.
std::string shown(std::string_view text);

// Where in a text a value stands, for errors.
struct Place {
  std::string_view text;
  size_t offset;

  // Throws ErrorKind::InvalidModel: "bad size expression 'TEXT': PROBLEM at offset OFFSET".
  [[noreturn]] void fail(std::string_view problem) const;
};

// numerator / denominator; the denominator is positive where it is a constant.
struct Fraction {
  Expr numerator = 0;
  Expr denominator = 1;
  bool is_above = false;                    // stands for doubles a little above it: good for rounding down
  double factor = 0;                        // not 0: this double times the numerator, computed in doubles
  std::optional<Expr> real = std::nullopt;  // as PyTorch computes it in doubles, where that is known to differ
  bool is_only_real = false;                // no fraction stands for it

  bool is_integer() const { return denominator.is_const(1) && factor == 0 && !is_only_real; }
  bool is_exact() const { return !is_above && factor == 0 && !is_only_real; }
};

Fraction only_real(Expr real);
// The fraction of two constants with no factor 2 or 5 in common.
Fraction reduced(int64_t numerator, int64_t denominator);
// The fraction of the smallest denominator whose double is `value`, if that is not below it; else a factor.
Fraction nearest_fraction(double value);

// The value in doubles, and a function of such values.
Expr in_doubles(const Fraction& value);
Fraction in_doubles(RealFunction function, const Fraction& a);
Fraction in_doubles(RealFunction function, const Fraction& a, const Fraction& b);

// Fails at `place` unless the value is an exact integer.
Expr integer(const Fraction& value, const Place& place);
// 0 or 1; fails as integer() does.
Expr truth(const Fraction& value, const Place& place);

Fraction negate(const Fraction& value);
Fraction add(const Fraction& a, const Fraction& b);
Fraction multiply(const Fraction& a, const Fraction& b);
// These fail where a constant divisor is 0.
Fraction divide(const Fraction& a, const Fraction& b, const Place& place);
Fraction quotient(const Fraction& a, const Fraction& b, const Place& place);
Fraction modulo(const Fraction& a, const Fraction& b, const Place& place);
// Fails for integers with an exponent that is no constant between -64 and 64.
Fraction power(const Fraction& base, const Fraction& exponent, const Place& place);

Expr ceiling(const Fraction& value);
Expr rounded_down(const Fraction& value);
Expr truncate(const Fraction& value);
// To so many digits behind the point; an integer counts as rounded. Fails unless `digits` is a constant of at most 300.
Fraction round_decimal(const Fraction& value, Expr digits, const Place& place);

enum class Comparison : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };
Expr compare(Comparison comparison, const Fraction& a, const Fraction& b);

}  // namespace toroid::sym
