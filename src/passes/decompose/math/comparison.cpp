// Comparisons, choices between operands, classes of numbers and bit operations, element by element.
//
// All are exact: they work in the dtype that the operands promote to, where a number is rounded as PyTorch rounds it.
#include <algorithm>
#include <limits>

#include "formula/basics/limits.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

// ---- one operation -------------------------------------------------------------------------------------------------

template <ScalarOp op>
std::vector<Tensor> exact(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "other"});
  return {apply(op, operand(d, a, "self", dtype), operand(d, a, "other", dtype))};
}

template <ScalarOp op>
std::vector<Tensor> logical(Decomposer& d, const Args& a) {
  return {apply(op, operand(d, a, "self", DType::Bool), operand(d, a, "other", DType::Bool))};
}

std::vector<Tensor> bitwise_not(Decomposer&, const Args& a) { return {apply(ScalarOp::BitNot, require_real(a.tensor("self")))}; }

std::vector<Tensor> logical_not(Decomposer& d, const Args& a) { return {!operand(d, a, "self", DType::Bool)}; }

// ---- choosing ------------------------------------------------------------------------------------------------------

std::vector<Tensor> where_op(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "other"});
  return {where(operand(d, a, "condition", DType::Bool), operand(d, a, "self", dtype), operand(d, a, "other", dtype))};
}

// An upper bound below the lower one wins; NaN in any operand gives NaN.
// A number beyond an integer dtype's own bounds is no bound.
Tensor bound(Decomposer& d, const Args& a, std::string_view name, DType dtype) {
  if (!is_number_argument(a, name) || !is_integral(dtype)) return operand(d, a, name, dtype);
  const Scalar number = a.scalar(name);
  const auto* expr = std::get_if<sym::Expr>(&number);
  if (expr == nullptr || !expr->is_const()) return operand(d, a, name, dtype);
  const auto limit = [](const Scalar& value) { return std::get<sym::Expr>(value).value(); };
  return d.b.scalar(dtype, sym::Expr(std::clamp(expr->value(), limit(lowest_value(dtype)), limit(highest_value(dtype)))));
}

std::vector<Tensor> clamp(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "min", "max"});
  Tensor x = operand(d, a, "self", dtype);
  if (a.has("min")) x = maximum(x, bound(d, a, "min", dtype));
  if (a.has("max")) x = minimum(x, bound(d, a, "max", dtype));
  return {x};
}
std::vector<Tensor> clamp_min(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "min"});
  return {maximum(operand(d, a, "self", dtype), bound(d, a, "min", dtype))};
}
std::vector<Tensor> clamp_max(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "max"});
  return {minimum(operand(d, a, "self", dtype), bound(d, a, "max", dtype))};
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

// ---- classes of numbers --------------------------------------------------------------------------------------------

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

constexpr DecompositionRow kComparisonRows[] = {
    {"aten::bitwise_not", bitwise_not},
    {"aten::logical_not", logical_not},
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

std::span<const DecompositionRow> comparison_rows() { return kComparisonRows; }

}  // namespace toroid
