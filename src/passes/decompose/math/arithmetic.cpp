// Arithmetic, powers and rounding, element by element.
//
// Operands are promoted as PyTorch does, and F16 and BF16 are computed in F32. Comparisons, choices and bits are in
// comparison.cpp, functions of a real variable (exp, erf, …) in special.cpp.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "graph/number.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

// ---- one operation -------------------------------------------------------------------------------------------------

template <ScalarOp op>
std::vector<Tensor> operation(Decomposer&, const Args& a) {
  return {apply(op, require_real(a.tensor(parameter(a, 0))))};
}

std::vector<Tensor> neg_view(Decomposer&, const Args& a) { return {-require_real(a.tensor("self"))}; }

// Integers are rounded already.
template <ScalarOp op>
std::vector<Tensor> rounding(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {is_floating(x.dtype()) ? apply(op, x) : x};
}

// As combine, but what is a number or has another dtype is rounded to `dtype` first. PyTorch's kernels of float16 and bfloat16 do that, but
// for products, quotients and what is made of them, which take numbers as F32.
template <class F, class... Names>
std::vector<Tensor> combine_rounded(Decomposer& d, const Args& a, DType dtype, F f, Names... names) {
  const DType wide = compute_dtype(dtype);
  auto rounded = [&](std::string_view name) {
    if (is_number_argument(a, name)) return d.b.scalar(wide, element_of(dtype, a.scalar(name)));
    return d.b.cast(converted(require_real(a.tensor(name)), dtype), wide);
  };
  return {d.b.cast(f(rounded(names)...), dtype)};
}

template <ScalarOp op>
std::vector<Tensor> remainder(Decomposer& d, const Args& a) {
  const std::string_view x = parameter(a, 0), y = parameter(a, 1);
  return combine_rounded(
      d, a, promoted_dtype(a, {x, y}), [](Tensor l, Tensor r) { return apply(op, l, r); }, x, y);
}

template <ScalarOp op>
std::vector<Tensor> arithmetic(Decomposer& d, const Args& a) {
  const std::string_view x = parameter(a, 0), y = parameter(a, 1);
  return combine(
      d, a, promoted_dtype(a, {x, y}), [](Tensor l, Tensor r) { return apply(op, l, r); }, x, y);
}

template <ScalarOp op>
std::vector<Tensor> real_arithmetic(Decomposer& d, const Args& a) {
  const std::string_view x = parameter(a, 0), y = parameter(a, 1);
  return combine_rounded(
      d, a, as_floating(promoted_dtype(a, {x, y})), [](Tensor l, Tensor r) { return apply(op, l, r); }, x, y);
}

// To the neighbour in its own dtype: nothing is widened.
std::vector<Tensor> nextafter(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "other"});
  return {apply(ScalarOp::Nextafter, operand(d, a, "self", dtype), operand(d, a, "other", dtype))};
}

std::vector<Tensor> identity(Decomposer&, const Args& a) { return {a.tensor("self")}; }
std::vector<Tensor> real_identity(Decomposer&, const Args& a) { return {require_real(a.tensor("self"))}; }

// ---- sums and products ---------------------------------------------------------------------------------------------

Tensor times(Tensor x, const Scalar& factor) { return apply(ScalarOp::Mul, x, number_like(x, factor)); }

bool is_one(const Args& a, std::string_view name) {
  if (!a.has(name)) return true;
  const Scalar factor = a.scalar(name);
  if (const auto* flag = std::get_if<bool>(&factor)) return *flag;
  if (const auto* real = std::get_if<double>(&factor)) return *real == 1;
  return std::get<sym::Expr>(factor).is_const(1);
}

// x + alpha * y, with alpha in the result's dtype.
template <class F>
std::vector<Tensor> sum_with(Decomposer& d, const Args& a, F f) {
  const DType dtype = promoted_dtype(a, {"self", "other"});
  auto scaled = [&](Tensor x) { return is_one(a, "alpha") ? x : times(x, element_of(dtype, a.scalar("alpha"))); };
  return combine_rounded(
      d, a, dtype, [&](Tensor x, Tensor y) { return f(x, y, scaled); }, "self", "other");
}

std::vector<Tensor> add(Decomposer& d, const Args& a) {
  return sum_with(d, a, [](Tensor x, Tensor y, auto scaled) { return x + scaled(y); });
}

std::vector<Tensor> sub(Decomposer& d, const Args& a) {
  return sum_with(d, a, [](Tensor x, Tensor y, auto scaled) { return x - scaled(y); });
}

std::vector<Tensor> rsub(Decomposer& d, const Args& a) {
  return sum_with(d, a, [](Tensor x, Tensor y, auto scaled) { return y - scaled(x); });
}

std::vector<Tensor> add_relu(Decomposer& d, const Args& a) { return {maximum(add(d, a)[0], 0)}; }

std::vector<Tensor> addcmul(Decomposer& d, const Args& a) {
  return combine(
      d, a, promoted_dtype(a, {"self", "tensor1", "tensor2"}),
      [&](Tensor x, Tensor s, Tensor t) { return x + (is_one(a, "value") ? s * t : times(s, a.scalar("value")) * t); }, "self", "tensor1",
      "tensor2");
}

std::vector<Tensor> addcdiv(Decomposer& d, const Args& a) {
  return combine(
      d, a, promoted_dtype(a, {"self", "tensor1", "tensor2"}),
      [&](Tensor x, Tensor s, Tensor t) { return x + (is_one(a, "value") ? s : times(s, a.scalar("value"))) / t; }, "self", "tensor1",
      "tensor2");
}

// Written from the nearer end, so that weights 0 and 1 give the ends exactly.
std::vector<Tensor> lerp(Decomposer& d, const Args& a) {
  return combine(
      d, a, promoted_dtype(a, {"self", "end"}),
      [](Tensor x, Tensor end, Tensor weight) {
        return where(abs(weight) < 0.5, x + weight * (end - x), end - (end - x) * (1.0 - weight));
      },
      "self", "end", "weight");
}

// ---- quotients -----------------------------------------------------------------------------------------------------

std::vector<Tensor> div(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "other"});
  const std::string mode = a.has("rounding_mode") ? a.text("rounding_mode") : "";
  auto quotient = [](Tensor x, Tensor y) { return x / y; };
  if (mode.empty()) return combine(d, a, as_floating(dtype), quotient, "self", "other");
  if (mode == "floor") return arithmetic<ScalarOp::FloorDiv>(d, a);
  if (mode != "trunc") throw Error(ErrorKind::InvalidModel, fmt::format("division rounding mode '{}'", mode));
  // The quotient is rounded to its dtype first, as in PyTorch.
  if (is_floating(dtype)) return {trunc(combine(d, a, dtype, quotient, "self", "other")[0])};
  return arithmetic<ScalarOp::TruncDiv>(d, a);
}

// PyTorch takes the product of small integers, and its magnitude, as an int: it wraps around at the end.
std::vector<Tensor> lcm(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "other"});
  const DType counted = size_bytes(dtype) < size_bytes(DType::I32) ? DType::I32 : dtype;
  const Tensor x = operand(d, a, "self", counted), y = operand(d, a, "other", counted);
  const Tensor divisor = apply(ScalarOp::Gcd, x, y);
  const Tensor is_zero = eq(divisor, 0);
  return {d.b.cast(where(is_zero, 0, abs(apply(ScalarOp::TruncDiv, x, where(is_zero, 1, divisor)) * y)), dtype)};
}

// ---- powers --------------------------------------------------------------------------------------------------------

// The exponents that PyTorch computes without pow; its results at zeros and infinities are those of the shorter
// formula.
std::optional<Tensor> short_power(Tensor x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return square(x);
  if (exponent == 3) return square(x) * x;
  if (!is_floating(x.dtype())) return std::nullopt;
  if (exponent == 0.5) return sqrt(x);
  if (exponent == -0.5) return rsqrt(x);
  if (exponent == -1) return reciprocal(x);
  if (exponent == -2) return reciprocal(square(x));
  return std::nullopt;
}

std::vector<Tensor> power_in(Decomposer& d, const Args& a, DType dtype) {
  if (is_number_argument(a, "exponent")) {
    const Scalar exponent = a.scalar("exponent");
    const auto* symbolic = std::get_if<sym::Expr>(&exponent);
    if (symbolic == nullptr || symbolic->is_const()) {
      Tensor x = operand(d, a, "self", compute_dtype(dtype));
      if (auto result = short_power(x, a.number("exponent"))) return {d.b.cast(*result, dtype)};
    }
  }
  return combine_rounded(
      d, a, dtype, [](Tensor x, Tensor y) { return pow(x, y); }, "self", "exponent");
}

std::vector<Tensor> power(Decomposer& d, const Args& a) { return power_in(d, a, promoted_dtype(a, {"self", "exponent"})); }
std::vector<Tensor> float_power(Decomposer& d, const Args& a) {
  promoted_dtype(a, {"self", "exponent"});  // refuses complex operands
  return power_in(d, a, DType::F64);
}

std::vector<Tensor> square(Decomposer& d, const Args& a) { return {d.call1("aten::pow.Tensor_Scalar", {a.tensor("self"), 2})}; }

// x * 2^n in floating point, also for integers. In F64 and by two halves of n: a power beyond the result's range meets an x that brings it
// back. Where n is a float PyTorch multiplies by the power itself, so that 0 * 2^2000 is NaN.
std::vector<Tensor> ldexp(Decomposer& d, const Args& a) {
  const DType dtype = as_floating(promoted_dtype(a, {"self", "other"}));
  auto product = [](Tensor x, Tensor n) { return x * pow(x.builder().scalar(x.dtype(), 2.0), n); };
  if (is_floating(require_real(a.tensor("other")).dtype())) {  // the power has the exponent's dtype
    return {d.call1("aten::mul.Tensor", {a.tensor("self"), d.call1("aten::pow.Scalar", {2.0, a.tensor("other")})})};
  }
  Tensor x = operand(d, a, "self", DType::F64), n = operand(d, a, "other", DType::F64);
  Tensor half = trunc(n * 0.5);
  return {d.b.cast(where(eq(x, 0) | isinf(x), x, product(product(x, half), n - half)), dtype)};
}

// ---- parts of a number ---------------------------------------------------------------------------------------------

std::vector<Tensor> sign(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {x.dtype() == DType::Bool ? x : apply(ScalarOp::Sign, x)};
}

std::vector<Tensor> signbit(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {is_floating(x.dtype()) ? apply(ScalarOp::SignBit, x) : x < 0};
}

std::vector<Tensor> frac(Decomposer&, const Args& a) {
  return {compute_wide(require_real(a.tensor("self")), [](Tensor x) { return x - trunc(x); })};
}

// Rounds to a number of decimals; negative ones count digits before the point.
std::vector<Tensor> round_decimals(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const int64_t decimals = a.constant("decimals");
  if (!is_floating(x.dtype())) {
    if (decimals >= 0) return {x};
    throw Error(ErrorKind::Unsupported, "rounding integers to a negative number of decimals is not supported");
  }
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  return {compute_wide(x, [&](Tensor t) {
    if (decimals == 0) return round(t);
    return decimals > 0 ? round(t * scale) / scale : round(t / scale) * scale;
  })};
}

// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1, from the bits of x. Denormals are scaled up first.
std::vector<Tensor> frexp(Decomposer& d, const Args& a) {
  Tensor self = require_real(a.tensor("self"));
  const DType wide = compute_dtype(as_floating(self.dtype()));
  const bool is_double = wide == DType::F64;
  const DType bits = is_double ? DType::I64 : DType::I32;
  const int mantissa_bits = is_double ? 52 : 23;
  const int bias = is_double ? 1022 : 126;
  const double exponent_mask = is_double ? 0x7ff : 0xff;
  Tensor x = d.b.cast(self, wide);
  Tensor is_tiny = abs(x) < std::ldexp(1.0, -bias);
  Tensor scaled = where(is_tiny, x * std::ldexp(1.0, mantissa_bits + 1), x);
  Tensor raw = d.b.bitcast(scaled, bits);
  Tensor field = apply(ScalarOp::BitAnd, apply(ScalarOp::ShiftRight, raw, mantissa_bits), exponent_mask);
  Tensor exponent = apply(ScalarOp::Sub, field,
                          where(is_tiny, number_like(field, sym::Expr(bias + mantissa_bits + 1)), number_like(field, sym::Expr(bias))));
  // The mantissa keeps sign and fraction and takes the exponent of 0.5.
  const int64_t field_bits = static_cast<int64_t>(exponent_mask) << mantissa_bits;
  const int64_t half_bits = static_cast<int64_t>(bias) << mantissa_bits;
  Tensor kept = apply(ScalarOp::BitAnd, raw, number_like(raw, sym::Expr(~field_bits)));
  Tensor mantissa = d.b.bitcast(apply(ScalarOp::BitOr, kept, number_like(raw, sym::Expr(half_bits))), wide);
  Tensor is_special = eq(x, 0) | !(abs(x) < kInfinity);
  return {d.b.cast(where(is_special, x, mantissa), self.dtype()), d.b.cast(where(is_special, 0, exponent), DType::I32)};
}

constexpr DecompositionRow kArithmeticRows[] = {
    {"aten::neg", operation<ScalarOp::Neg>},
    {"aten::negative", operation<ScalarOp::Neg>},
    {"aten::_neg_view", neg_view},
    {"aten::abs", operation<ScalarOp::Abs>},
    {"aten::absolute", operation<ScalarOp::Abs>},
    {"aten::sign", sign},
    {"aten::sgn", sign},
    {"aten::signbit", signbit},
    {"aten::floor", rounding<ScalarOp::Floor>},
    {"aten::ceil", rounding<ScalarOp::Ceil>},
    {"aten::trunc", rounding<ScalarOp::Trunc>},
    {"aten::fix", rounding<ScalarOp::Trunc>},
    {"aten::round", rounding<ScalarOp::Round>},
    {"aten::round.decimals", round_decimals},
    {"aten::special_round", round_decimals},
    {"aten::frac", frac},
    {"aten::frexp.Tensor", frexp},

    {"aten::positive", identity},
    {"aten::resolve_conj", identity},
    {"aten::resolve_neg", identity},
    {"aten::conj", real_identity},
    {"aten::_conj", real_identity},
    {"aten::conj_physical", real_identity},
    {"aten::_conj_physical", real_identity},
    {"aten::real", real_identity},

    {"aten::add.*", add},
    {"aten::sub.*", sub},
    {"aten::subtract.*", sub},
    {"aten::rsub.*", rsub},
    {"aten::_add_relu.*", add_relu},
    {"aten::mul.*", arithmetic<ScalarOp::Mul>},
    {"aten::multiply.*", arithmetic<ScalarOp::Mul>},
    {"aten::addcmul", addcmul},
    {"aten::addcdiv", addcdiv},
    {"aten::lerp.*", lerp},

    {"aten::div.*", div},
    {"aten::divide.*", div},
    {"aten::true_divide.*", div},
    {"aten::floor_divide.*", arithmetic<ScalarOp::FloorDiv>},
    {"aten::remainder.*", remainder<ScalarOp::Mod>},
    {"aten::fmod.*", remainder<ScalarOp::Fmod>},
    {"aten::gcd", arithmetic<ScalarOp::Gcd>},
    {"aten::lcm", lcm},

    {"aten::pow.*", power},
    {"aten::float_power.*", float_power},
    {"aten::square", square},
    {"aten::ldexp.Tensor", ldexp},
    {"aten::hypot", real_arithmetic<ScalarOp::Hypot>},
    {"aten::atan2", real_arithmetic<ScalarOp::Atan2>},
    {"aten::arctan2", real_arithmetic<ScalarOp::Atan2>},
    {"aten::copysign.*", real_arithmetic<ScalarOp::Copysign>},
    {"aten::nextafter", nextafter},
};

}  // namespace

std::span<const DecompositionRow> arithmetic_rows() { return kArithmeticRows; }

}  // namespace toroid
