// Arithmetic, comparisons, rounding and bit operations, element by element.
//
// Operands are promoted as PyTorch does and F16 and BF16 are computed in F32, except where only bits are compared or chosen.
// Functions of a real variable (exp, erf, …) are in special.cpp.
#include <cmath>
#include <limits>

#include "passes/decompose/formula.h"
#include "passes/decompose/operands.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- one operation ------------------------------------------------------------------------------------------------------

template <ScalarOp op>
std::vector<Tensor> unary(Decomposer&, const Args& a) {
  return {apply(op, require_real(a.tensor(parameter(a, 0))))};
}

// Integers are rounded already.
template <ScalarOp op>
std::vector<Tensor> rounding(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {is_floating(x.dtype()) ? apply(op, x) : x};
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
  return combine(
      d, a, as_floating(promoted_dtype(a, {x, y})), [](Tensor l, Tensor r) { return apply(op, l, r); }, x, y);
}

// Compares, chooses or combines bits: in the promoted dtype itself, so that a number is rounded as PyTorch rounds it.
template <ScalarOp op>
std::vector<Tensor> exact(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "other"});
  return {apply(op, operand(d, a, "self", dtype), operand(d, a, "other", dtype))};
}

template <ScalarOp op>
std::vector<Tensor> logical(Decomposer& d, const Args& a) {
  return {apply(op, operand(d, a, "self", DType::Bool), operand(d, a, "other", DType::Bool))};
}

std::vector<Tensor> logical_not(Decomposer& d, const Args& a) { return {!operand(d, a, "self", DType::Bool)}; }

std::vector<Tensor> identity(Decomposer&, const Args& a) { return {a.tensor("self")}; }
std::vector<Tensor> real_identity(Decomposer&, const Args& a) { return {require_real(a.tensor("self"))}; }

// ---- sums and products ----------------------------------------------------------------------------------------------------

Tensor times(Tensor x, const Scalar& factor) { return apply(ScalarOp::Mul, x, number_like(x, factor)); }

bool is_one(const Args& a, std::string_view name) {
  if (!a.has(name)) return true;
  const Scalar factor = a.scalar(name);
  if (const auto* flag = std::get_if<bool>(&factor)) return *flag;
  if (const auto* real = std::get_if<double>(&factor)) return *real == 1;
  return std::get<sym::Expr>(factor).is_const(1);
}

std::vector<Tensor> add(Decomposer& d, const Args& a) {
  return combine(
      d, a, promoted_dtype(a, {"self", "other"}),
      [&](Tensor x, Tensor y) { return x + (is_one(a, "alpha") ? y : times(y, a.scalar("alpha"))); }, "self", "other");
}

std::vector<Tensor> sub(Decomposer& d, const Args& a) {
  return combine(
      d, a, promoted_dtype(a, {"self", "other"}),
      [&](Tensor x, Tensor y) { return x - (is_one(a, "alpha") ? y : times(y, a.scalar("alpha"))); }, "self", "other");
}

std::vector<Tensor> rsub(Decomposer& d, const Args& a) {
  return combine(
      d, a, promoted_dtype(a, {"self", "other"}),
      [&](Tensor x, Tensor y) { return y - (is_one(a, "alpha") ? x : times(x, a.scalar("alpha"))); }, "self", "other");
}

std::vector<Tensor> add_relu(Decomposer& d, const Args& a) { return {maximum(add(d, a)[0], 0)}; }

std::vector<Tensor> addcmul(Decomposer& d, const Args& a) {
  return combine(
      d, a, promoted_dtype(a, {"self", "tensor1", "tensor2"}),
      [&](Tensor x, Tensor s, Tensor t) { return x + (is_one(a, "value") ? s * t : times(s, a.scalar("value")) * t); },
      "self", "tensor1", "tensor2");
}

std::vector<Tensor> addcdiv(Decomposer& d, const Args& a) {
  return combine(
      d, a, promoted_dtype(a, {"self", "tensor1", "tensor2"}),
      [&](Tensor x, Tensor s, Tensor t) { return x + (is_one(a, "value") ? s : times(s, a.scalar("value"))) / t; },
      "self", "tensor1", "tensor2");
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

// ---- quotients --------------------------------------------------------------------------------------------------------------

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

std::vector<Tensor> lcm(Decomposer& d, const Args& a) {
  return combine(
      d, a, promoted_dtype(a, {"self", "other"}),
      [](Tensor x, Tensor y) {
        Tensor divisor = apply(ScalarOp::Gcd, x, y);
        Tensor is_zero = eq(divisor, 0);
        return where(is_zero, 0, abs(apply(ScalarOp::TruncDiv, x, where(is_zero, 1, divisor)) * y));
      },
      "self", "other");
}

// ---- powers ---------------------------------------------------------------------------------------------------------------

// The exponents that PyTorch computes without pow; its results at zeros and infinities are those of the shorter formula.
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
  return combine(
      d, a, dtype, [](Tensor x, Tensor y) { return pow(x, y); }, "self", "exponent");
}

std::vector<Tensor> power(Decomposer& d, const Args& a) {
  return power_in(d, a, promoted_dtype(a, {"self", "exponent"}));
}
std::vector<Tensor> float_power(Decomposer& d, const Args& a) {
  promoted_dtype(a, {"self", "exponent"});  // refuses complex operands
  return power_in(d, a, DType::F64);
}

std::vector<Tensor> square(Decomposer& d, const Args& a) {
  return {d.call1("aten::pow.Tensor_Scalar", {a.tensor("self"), 2})};
}

// x * 2^y, the power in floating point also for integers.
std::vector<Tensor> ldexp(Decomposer& d, const Args& a) {
  return {d.call1("aten::mul.Tensor", {a.tensor("self"), d.call1("aten::pow.Scalar", {2.0, a.tensor("other")})})};
}

// ---- choosing ---------------------------------------------------------------------------------------------------------------

std::vector<Tensor> where_op(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "other"});
  return {where(operand(d, a, "condition", DType::Bool), operand(d, a, "self", dtype), operand(d, a, "other", dtype))};
}

// An upper bound below the lower one wins; NaN in any operand gives NaN.
std::vector<Tensor> clamp(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "min", "max"});
  Tensor x = operand(d, a, "self", dtype);
  if (a.has("min")) x = maximum(x, operand(d, a, "min", dtype));
  if (a.has("max")) x = minimum(x, operand(d, a, "max", dtype));
  return {x};
}
std::vector<Tensor> clamp_min(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "min"});
  return {maximum(operand(d, a, "self", dtype), operand(d, a, "min", dtype))};
}
std::vector<Tensor> clamp_max(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "max"});
  return {minimum(operand(d, a, "self", dtype), operand(d, a, "max", dtype))};
}

// The operand that is a number wins over NaN.
template <ScalarOp wins>
std::vector<Tensor> number_first(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "other"});
  Tensor x = operand(d, a, "self", dtype), y = operand(d, a, "other", dtype);
  Tensor takes_x = apply(wins, x, y);
  return {where(is_floating(dtype) ? takes_x | isnan(y) : takes_x, x, y)};
}

std::vector<Tensor> heaviside(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "values"});
  Tensor x = operand(d, a, "self", dtype);
  return {where(eq(x, 0), operand(d, a, "values", dtype), d.b.cast(x > 0, dtype))};
}

std::vector<Tensor> sign(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {x.dtype() == DType::Bool ? x : apply(ScalarOp::Sign, x)};
}

std::vector<Tensor> signbit(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {is_floating(x.dtype()) ? apply(ScalarOp::SignBit, x) : x < 0};
}

// ---- classes of numbers ------------------------------------------------------------------------------------------------------

// f on floats; every integer gives `of_integers`.
template <class F>
std::vector<Tensor> classify(const Args& a, bool of_integers, F f) {
  Tensor x = require_real(a.tensor("self"));
  if (is_floating(x.dtype())) return {f(x)};
  return {x.builder().full(x.sizes(), DType::Bool, of_integers)};
}
std::vector<Tensor> isnan_op(Decomposer&, const Args& a) {
  return classify(a, false, [](Tensor x) { return isnan(x); });
}
std::vector<Tensor> isinf_op(Decomposer&, const Args& a) {
  return classify(a, false, [](Tensor x) { return isinf(x); });
}
std::vector<Tensor> isposinf(Decomposer&, const Args& a) {
  return classify(a, false, [](Tensor x) { return eq(x, kInfinity); });
}
std::vector<Tensor> isneginf(Decomposer&, const Args& a) {
  return classify(a, false, [](Tensor x) { return eq(x, -kInfinity); });
}
std::vector<Tensor> isfinite(Decomposer&, const Args& a) {
  return classify(a, true, [](Tensor x) { return abs(x) < kInfinity; });  // false for NaN
}
std::vector<Tensor> isreal(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {x.builder().full(x.sizes(), DType::Bool, true)};
}

// |x - y| <= atol + |rtol * y|, where infinities are close only to themselves.
std::vector<Tensor> isclose(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self")), y = require_real(a.tensor("other"));
  const DType dtype = result_dtype(std::vector<Tensor>{x, y});
  const DType wide = compute_dtype(as_floating(dtype));
  Tensor close = eq(d.b.cast(x, dtype), d.b.cast(y, dtype));
  if (is_floating(dtype) && a.flag("equal_nan")) close = close | (isnan(d.b.cast(x, wide)) & isnan(d.b.cast(y, wide)));
  if (a.number("rtol") == 0 && a.number("atol") == 0) return {close};
  Tensor reference = d.b.cast(y, wide);
  Tensor allowed = a.number("atol") + abs(reference * a.number("rtol"));
  Tensor error = abs(d.b.cast(x, wide) - reference);
  return {close | ((error < kInfinity) & (error <= allowed))};
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::F16: return 65504.0;
    case DType::BF16: return 0x1.fep127;
    case DType::F32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

std::vector<Tensor> nan_to_num(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  if (!is_floating(x.dtype())) return {x};
  const double nan = a.has("nan") ? a.number("nan") : 0;
  const double posinf = a.has("posinf") ? a.number("posinf") : largest(x.dtype());
  const double neginf = a.has("neginf") ? a.number("neginf") : -largest(x.dtype());
  return {where(isnan(x), nan, where(eq(x, kInfinity), posinf, where(eq(x, -kInfinity), neginf, x)))};
}

// ---- parts of a number -------------------------------------------------------------------------------------------------------

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
  Tensor exponent = apply(
      ScalarOp::Sub, field,
      where(is_tiny, number_like(field, sym::Expr(bias + mantissa_bits + 1)), number_like(field, sym::Expr(bias))));
  // The mantissa keeps sign and fraction and takes the exponent of 0.5.
  const int64_t field_bits = static_cast<int64_t>(exponent_mask) << mantissa_bits;
  const int64_t half_bits = static_cast<int64_t>(bias) << mantissa_bits;
  Tensor kept = apply(ScalarOp::BitAnd, raw, number_like(raw, sym::Expr(~field_bits)));
  Tensor mantissa = d.b.bitcast(apply(ScalarOp::BitOr, kept, number_like(raw, sym::Expr(half_bits))), wide);
  Tensor is_special = eq(x, 0) | !(abs(x) < kInfinity);
  return {d.b.cast(where(is_special, x, mantissa), self.dtype()), d.b.cast(where(is_special, 0, exponent), DType::I32)};
}

std::vector<Tensor> nextafter(Decomposer& d, const Args& a) { return exact<ScalarOp::Nextafter>(d, a); }

std::vector<Tensor> neg_view(Decomposer&, const Args& a) { return {-require_real(a.tensor("self"))}; }

constexpr DecompositionRow kRows[] = {
    {"aten::neg", unary<ScalarOp::Neg>},
    {"aten::negative", unary<ScalarOp::Neg>},
    {"aten::_neg_view", neg_view},
    {"aten::abs", unary<ScalarOp::Abs>},
    {"aten::absolute", unary<ScalarOp::Abs>},
    {"aten::bitwise_not", unary<ScalarOp::BitNot>},
    {"aten::logical_not", logical_not},
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
    {"aten::remainder.*", arithmetic<ScalarOp::Mod>},
    {"aten::fmod.*", arithmetic<ScalarOp::Fmod>},
    {"aten::gcd", exact<ScalarOp::Gcd>},
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
    {"aten::heaviside", heaviside},

    {"aten::maximum", exact<ScalarOp::Max>},
    {"aten::minimum", exact<ScalarOp::Min>},
    {"aten::max.other", exact<ScalarOp::Max>},
    {"aten::min.other", exact<ScalarOp::Min>},
    {"aten::fmax", number_first<ScalarOp::Ge>},
    {"aten::fmin", number_first<ScalarOp::Le>},
    {"aten::clamp.*", clamp},
    {"aten::clip.*", clamp},
    {"aten::clamp_min.*", clamp_min},
    {"aten::clamp_max.*", clamp_max},
    {"aten::where.self", where_op},
    {"aten::where.ScalarSelf", where_op},
    {"aten::where.ScalarOther", where_op},
    {"aten::where.Scalar", where_op},

    {"aten::eq.*", exact<ScalarOp::Eq>},
    {"aten::ne.*", exact<ScalarOp::Ne>},
    {"aten::not_equal.*", exact<ScalarOp::Ne>},
    {"aten::lt.*", exact<ScalarOp::Lt>},
    {"aten::less.*", exact<ScalarOp::Lt>},
    {"aten::le.*", exact<ScalarOp::Le>},
    {"aten::less_equal.*", exact<ScalarOp::Le>},
    {"aten::gt.*", exact<ScalarOp::Gt>},
    {"aten::greater.*", exact<ScalarOp::Gt>},
    {"aten::ge.*", exact<ScalarOp::Ge>},
    {"aten::greater_equal.*", exact<ScalarOp::Ge>},
    {"aten::isclose", isclose},
    {"aten::isnan", isnan_op},
    {"aten::isinf", isinf_op},
    {"aten::isposinf", isposinf},
    {"aten::isneginf", isneginf},
    {"aten::isfinite", isfinite},
    {"aten::isreal", isreal},
    {"aten::nan_to_num", nan_to_num},

    {"aten::logical_and", logical<ScalarOp::BitAnd>},
    {"aten::logical_or", logical<ScalarOp::BitOr>},
    {"aten::logical_xor", logical<ScalarOp::BitXor>},
    {"aten::bitwise_and.*", exact<ScalarOp::BitAnd>},
    {"aten::bitwise_or.*", exact<ScalarOp::BitOr>},
    {"aten::bitwise_xor.*", exact<ScalarOp::BitXor>},
    {"aten::bitwise_left_shift.*", exact<ScalarOp::ShiftLeft>},
    {"aten::bitwise_right_shift.*", exact<ScalarOp::ShiftRight>},
    {"aten::__and__.*", exact<ScalarOp::BitAnd>},
    {"aten::__or__.*", exact<ScalarOp::BitOr>},
    {"aten::__xor__.*", exact<ScalarOp::BitXor>},
    {"aten::__lshift__.*", exact<ScalarOp::ShiftLeft>},
    {"aten::__rshift__.*", exact<ScalarOp::ShiftRight>},
};

}  // namespace

std::span<const DecompositionRow> pointwise_rows() { return kRows; }

}  // namespace toroid
