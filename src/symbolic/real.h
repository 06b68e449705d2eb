// Numbers that are no integers, computed from sizes: 1/n, sqrt(n), n*0.7 + 0.5.
//
// A Real expression has a function of the table below in operands[0] and its arguments behind it. Where it gives a double, the
// expression's value is the double's 64 bits, so that it is stored, passed and bound like any integer:
//
//   real(RealFunction::Div, {1.0, float(s0)})         text: Real(div, 1, Real(float, s0))
//
// Arguments are integers or doubles, as the function says. A double that is known is a constant, its bits; a symbol among the
// doubles holds the bits of one (a number read out of a tensor). Everything is computed in doubles, in the order written, as
// Python does; nothing is simplified but what is constant.
#pragma once

#include "symbolic/expr.h"

namespace toroid::sym {

enum class RealFunction : uint8_t {
  Float,
  Value,
  Add,
  Mul,
  Div,
  FloorDiv,
  Mod,
  Pow,
  Neg,
  Abs,
  Min,
  Max,
  Where,
  Sqrt,
  Exp,
  Log,
  Log2,
  Log10,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  RoundedDown,
  RoundedUp,
  Truncated,
  Rounded,  // to a whole double
  Floor,
  Ceil,
  Trunc,
  Round,
  Eq,
  Ne,
  Lt,
  Le,  // to an integer
};

struct RealRow {
  RealFunction function;
  std::string_view name;
  std::string_view arguments;  // 'i': an integer, 'r': a double
  bool gives_real;
  std::string_view code;  // C++ over the prelude's functions; {0}, {1}, {2}: the arguments
  double (*compute)(double a, double b, double c);
};
const RealRow& row_of(RealFunction function);
const RealRow* find_real_function(std::string_view name);
RealFunction function_of(Expr real);  // of a Real expression

// The function of these arguments: a constant where all of them are.
Expr real(RealFunction function, std::span<const Expr> arguments);
inline Expr real(RealFunction function, std::initializer_list<Expr> arguments) {
  return real(function, std::span(arguments.begin(), arguments.size()));
}
Expr real_literal(double value);  // its bits
double real_value(Expr literal);  // of a constant

// The expression's value is the bits of a double. False for constants, which do not say.
bool is_real(Expr expr);

// The integers that a Real expression may give: all, where it gives a double.
Range real_range(std::span<const Expr> operands);
// Its value from those of its arguments, each an integer or a double's bits; nullopt where an integer has more than 63 bits.
std::optional<int64_t> compute_real(RealFunction function, std::span<const int64_t> arguments);

}  // namespace toroid::sym
