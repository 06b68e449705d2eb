#include "symbolic/real.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "symbolic/node_table.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

using F = RealFunction;

double python_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double python_floor_div(double a, double b) {
  if (b == 0) return a / b;
  const double quotient = (a - python_mod(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

// In the order of RealFunction.
constexpr RealRow kRows[] = {
    {F::Float, "float", "i", true, "double({0})", [](double a, double, double) { return a; }},
    {F::Value, "value", "r", true, "{0}", [](double a, double, double) { return a; }},
    {F::Add, "add", "rr", true, "({0} + {1})", [](double a, double b, double) { return a + b; }},
    {F::Mul, "mul", "rr", true, "({0} * {1})", [](double a, double b, double) { return a * b; }},
    {F::Div, "div", "rr", true, "({0} / {1})", [](double a, double b, double) { return a / b; }},
    {F::FloorDiv, "floor_div", "rr", true, "op_floor_div({0}, {1})", [](double a, double b, double) { return python_floor_div(a, b); }},
    {F::Mod, "mod", "rr", true, "op_mod({0}, {1})", [](double a, double b, double) { return python_mod(a, b); }},
    {F::Pow, "pow", "rr", true, "op_pow({0}, {1})", [](double a, double b, double) { return std::pow(a, b); }},
    {F::Neg, "neg", "r", true, "(-{0})", [](double a, double, double) { return -a; }},
    {F::Abs, "abs", "r", true, "op_abs({0})", [](double a, double, double) { return std::fabs(a); }},
    {F::Min, "min", "rr", true, "op_min({0}, {1})", [](double a, double b, double) { return a <= b || a != a ? a : b; }},
    {F::Max, "max", "rr", true, "op_max({0}, {1})", [](double a, double b, double) { return a >= b || a != a ? a : b; }},
    {F::Where, "where", "irr", true, "({0} ? {1} : {2})", [](double a, double b, double c) { return a != 0 ? b : c; }},
    {F::Sqrt, "sqrt", "r", true, "op_sqrt({0})", [](double a, double, double) { return std::sqrt(a); }},
    {F::Exp, "exp", "r", true, "op_exp({0})", [](double a, double, double) { return std::exp(a); }},
    {F::Log, "log", "r", true, "op_log({0})", [](double a, double, double) { return std::log(a); }},
    {F::Log2, "log2", "r", true, "op_log2({0})", [](double a, double, double) { return std::log2(a); }},
    {F::Log10, "log10", "r", true, "op_log10({0})", [](double a, double, double) { return std::log10(a); }},
    {F::Sin, "sin", "r", true, "op_sin({0})", [](double a, double, double) { return std::sin(a); }},
    {F::Cos, "cos", "r", true, "op_cos({0})", [](double a, double, double) { return std::cos(a); }},
    {F::Tan, "tan", "r", true, "op_tan({0})", [](double a, double, double) { return std::tan(a); }},
    {F::Asin, "asin", "r", true, "op_asin({0})", [](double a, double, double) { return std::asin(a); }},
    {F::Acos, "acos", "r", true, "op_acos({0})", [](double a, double, double) { return std::acos(a); }},
    {F::Atan, "atan", "r", true, "op_atan({0})", [](double a, double, double) { return std::atan(a); }},
    {F::Sinh, "sinh", "r", true, "op_sinh({0})", [](double a, double, double) { return std::sinh(a); }},
    {F::Cosh, "cosh", "r", true, "op_cosh({0})", [](double a, double, double) { return std::cosh(a); }},
    {F::Tanh, "tanh", "r", true, "op_tanh({0})", [](double a, double, double) { return std::tanh(a); }},
    {F::Asinh, "asinh", "r", true, "op_asinh({0})", [](double a, double, double) { return std::asinh(a); }},
    {F::RoundedDown, "rounded_down", "r", true, "op_floor({0})", [](double a, double, double) { return std::floor(a); }},
    {F::RoundedUp, "rounded_up", "r", true, "op_ceil({0})", [](double a, double, double) { return std::ceil(a); }},
    {F::Truncated, "truncated", "r", true, "op_trunc({0})", [](double a, double, double) { return std::trunc(a); }},
    {F::Rounded, "rounded", "r", true, "op_round({0})", [](double a, double, double) { return std::nearbyint(a); }},
    {F::Floor, "floor", "r", false, "int64_t(op_floor({0}))", [](double a, double, double) { return std::floor(a); }},
    {F::Ceil, "ceil", "r", false, "int64_t(op_ceil({0}))", [](double a, double, double) { return std::ceil(a); }},
    {F::Trunc, "trunc", "r", false, "int64_t({0})", [](double a, double, double) { return std::trunc(a); }},
    {F::Round, "round", "r", false, "int64_t(op_round({0}))", [](double a, double, double) { return std::nearbyint(a); }},
    {F::Eq, "eq", "rr", false, "int64_t({0} == {1})", [](double a, double b, double) { return double(a == b); }},
    {F::Ne, "ne", "rr", false, "int64_t({0} != {1})", [](double a, double b, double) { return double(a != b); }},
    {F::Lt, "lt", "rr", false, "int64_t({0} < {1})", [](double a, double b, double) { return double(a < b); }},
    {F::Le, "le", "rr", false, "int64_t({0} <= {1})", [](double a, double b, double) { return double(a <= b); }},
};
static_assert([] {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].function != static_cast<F>(i)) return false;
  }
  return std::size(kRows) == static_cast<size_t>(F::Le) + 1;
}());

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The doubles that an argument may be.
struct Interval {
  double min = -kInfinity, max = kInfinity;
};

Interval interval_of(Expr argument, char kind) {
  const Range range = argument.range();
  if (kind == 'i') {
    return {range.min == kNegInf ? -kInfinity : static_cast<double>(range.min),
            range.max == kPosInf ? kInfinity : static_cast<double>(range.max)};
  }
  if (argument.is_const()) return {real_value(argument), real_value(argument)};
  if (argument.kind() != Kind::Real) return {};
  const std::span<const Expr> operands = argument.operands();
  const RealRow& row = row_of(function_of(argument));
  const Interval a = interval_of(operands[1], row.arguments[0]);
  const Interval b = operands.size() > 2 ? interval_of(operands[2], row.arguments[1]) : Interval{0, 0};
  const Interval corners = {row.compute(a.min, b.min, 0), row.compute(a.max, b.max, 0)};
  switch (row.function) {
    case F::Float:
    case F::Value:
    case F::RoundedDown:
    case F::RoundedUp:
    case F::Truncated:
    case F::Rounded:
    case F::Add:
    case F::Min:
    case F::Max: return corners;
    case F::Sqrt: return a.min >= 0 ? corners : Interval{};
    case F::Mul:
      return a.min >= 0 && b.min >= 0 ? Interval{corners.min, a.max < kInfinity && b.max < kInfinity ? corners.max : kInfinity}
                                      : Interval{};
    case F::Div: return a.min >= 0 && b.min > 0 ? Interval{0, a.max / b.min} : Interval{};
    case F::Pow: return a.min >= 0 ? Interval{0, kInfinity} : Interval{};
    case F::Abs: return {0, kInfinity};
    default: return {};
  }
}

}  // namespace

const RealRow& row_of(RealFunction function) { return kRows[static_cast<size_t>(function)]; }

const RealRow* find_real_function(std::string_view name) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const RealRow& each) { return each.name == name; });
  return row == std::end(kRows) ? nullptr : row;
}

RealFunction function_of(Expr real) { return static_cast<RealFunction>(real.operands()[0].value()); }

Expr real_literal(double value) { return std::bit_cast<int64_t>(value); }
double real_value(Expr literal) { return std::bit_cast<double>(literal.value()); }

bool is_real(Expr expr) { return expr.kind() == Kind::Real && row_of(function_of(expr)).gives_real; }

std::optional<int64_t> compute_real(RealFunction function, std::span<const int64_t> arguments) {
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63
  const RealRow& row = row_of(function);
  double values[3] = {};
  for (size_t i = 0; i < arguments.size(); ++i) {
    values[i] = row.arguments[i] == 'i' ? static_cast<double>(arguments[i]) : std::bit_cast<double>(arguments[i]);
  }
  const double result = row.compute(values[0], values[1], values[2]);
  if (row.gives_real) return std::bit_cast<int64_t>(result);
  return std::fabs(result) < kBeyond ? std::optional(static_cast<int64_t>(result)) : std::nullopt;
}

Expr real(RealFunction function, std::span<const Expr> arguments) {
  TOROID_CHECK(arguments.size() == row_of(function).arguments.size(), "{} of {} arguments", row_of(function).name, arguments.size());
  std::vector<Expr> operands = {static_cast<int64_t>(function)};
  std::vector<int64_t> constants;
  Context* context = nullptr;
  for (Expr argument : arguments) {
    operands.push_back(argument);
    if (argument.is_const()) constants.push_back(argument.value());
    if (argument.context()) context = argument.context();
  }
  if (context) return context->impl().intern(Kind::Real, operands);
  if (const std::optional<int64_t> value = compute_real(function, constants)) return *value;
  throw SizeOverflow(std::string(row_of(function).name));
}

Range real_range(std::span<const Expr> operands) {
  const RealRow& row = row_of(static_cast<RealFunction>(operands[0].value()));
  if (row.gives_real) return {};
  if (row.function >= F::Eq) return {0, 1};
  const Interval interval = interval_of(operands[1], 'r');
  const auto bound = [&](double value) {
    const double whole = row.compute(value, 0, 0);
    return whole >= 0x1p62 ? kPosInf : whole > -0x1p62 ? static_cast<int64_t>(whole) : kNegInf;  // NaN: the lowest
  };
  return {bound(interval.min), interval.max == interval.max ? bound(interval.max) : kPosInf};
}

}  // namespace toroid::sym
