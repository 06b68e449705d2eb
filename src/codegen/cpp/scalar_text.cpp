#include "codegen/cpp/scalar_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"

namespace toroid::codegen {

std::string wrapped(const OperandText& operand) { return operand.atom ? operand.text : "(" + operand.text + ")"; }

std::string_view infix_sign(ScalarOp op) {
  switch (op) {
    case ScalarOp::Add: return "+";
    case ScalarOp::Sub: return "-";
    case ScalarOp::Mul: return "*";
    case ScalarOp::Div: return "/";
    case ScalarOp::BitAnd: return "&";
    case ScalarOp::BitOr: return "|";
    case ScalarOp::BitXor: return "^";
    case ScalarOp::Eq: return "==";
    case ScalarOp::Ne: return "!=";
    case ScalarOp::Lt: return "<";
    case ScalarOp::Le: return "<=";
    case ScalarOp::Gt: return ">";
    case ScalarOp::Ge: return ">=";
    default: return "";
  }
}

std::string_view truth_sign(ScalarOp op) {
  switch (op) {
    case ScalarOp::Add:
    case ScalarOp::BitOr:
    case ScalarOp::Max: return "|";
    case ScalarOp::Mul:
    case ScalarOp::BitAnd:
    case ScalarOp::Min: return "&";
    default: return "";
  }
}

namespace {

// The operand as a vector, for functions that take nothing else.
std::string as_lanes(const OperandText& operand, DType dtype) {
  if (operand.lanes) return operand.text;
  if (dtype == DType::Bool) return fmt::format("splat_mask<W>({})", operand.text);
  return fmt::format("splat<{}, W>({})", register_type(dtype), operand.text);
}

bool is_comparison(ScalarOp op) {
  return op == ScalarOp::Eq || op == ScalarOp::Ne || op == ScalarOp::Lt || op == ScalarOp::Le || op == ScalarOp::Gt || op == ScalarOp::Ge;
}

// Operators of the prelude that have a form for whole vectors.
bool has_vector_form(ScalarOp op) {
  switch (op) {
    case ScalarOp::Abs:
    case ScalarOp::Sign:
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round:
    case ScalarOp::Sqrt:
    case ScalarOp::Rsqrt:
    case ScalarOp::Reciprocal:
    case ScalarOp::Exp:
    case ScalarOp::ExpNormal:
    case ScalarOp::Exp2:
    case ScalarOp::Expm1:
    case ScalarOp::Log:
    case ScalarOp::Log2:
    case ScalarOp::Log10:
    case ScalarOp::Log1p:
    case ScalarOp::Sin:
    case ScalarOp::Cos:
    case ScalarOp::Tan:
    case ScalarOp::Asin:
    case ScalarOp::Acos:
    case ScalarOp::Atan:
    case ScalarOp::Sinh:
    case ScalarOp::Cosh:
    case ScalarOp::Tanh:
    case ScalarOp::Asinh:
    case ScalarOp::Acosh:
    case ScalarOp::Atanh:
    case ScalarOp::Sigmoid:
    case ScalarOp::Erf:
    case ScalarOp::FloorDiv:
    case ScalarOp::TruncDiv:
    case ScalarOp::Mod:
    case ScalarOp::Fmod:
    case ScalarOp::Nextafter:
    case ScalarOp::Copysign:
    case ScalarOp::Pow:
    case ScalarOp::Atan2:
    case ScalarOp::Hypot:
    case ScalarOp::Erfc:
    case ScalarOp::Min:
    case ScalarOp::Max:
    case ScalarOp::PhiloxLow:
    case ScalarOp::PhiloxHigh: return true;
    default: return false;
  }
}

// Those that kSpecialPrelude computes for lanes of F32, as op_NAME_v.
constexpr ScalarOp kSpecialVectorForms[] = {ScalarOp::Lgamma,
                                            ScalarOp::Digamma,
                                            ScalarOp::I0,
                                            ScalarOp::I0e,
                                            ScalarOp::I1,
                                            ScalarOp::I1e,
                                            ScalarOp::Ndtri,
                                            ScalarOp::BesselJ0,
                                            ScalarOp::BesselJ1,
                                            ScalarOp::BesselY0,
                                            ScalarOp::BesselY1,
                                            ScalarOp::ModifiedBesselI0,
                                            ScalarOp::ModifiedBesselI1,
                                            ScalarOp::ModifiedBesselK0,
                                            ScalarOp::ModifiedBesselK1,
                                            ScalarOp::ScaledModifiedBesselK0,
                                            ScalarOp::ScaledModifiedBesselK1};

bool is_special_vector_form(ScalarOp op) {
  return std::find(std::begin(kSpecialVectorForms), std::end(kSpecialVectorForms), op) != std::end(kSpecialVectorForms);
}

// Operators that have a form for vectors of F32, but not of F64.
bool has_f32_vector_form(ScalarOp op) { return op == ScalarOp::Erfinv || is_special_vector_form(op); }

// Bool operands: logic on masks (lanes) or on bools.
std::string bool_text(ScalarOp op, const std::vector<OperandText>& o, bool lanes) {
  std::vector<std::string> x;
  for (const OperandText& operand : o) {
    x.push_back(lanes ? (operand.lanes ? wrapped(operand) : as_lanes(operand, DType::Bool)) : wrapped(operand));
  }
  const std::string inverse = lanes ? "~" : "!";
  if (const std::string_view sign = truth_sign(op); !sign.empty()) return fmt::format("{} {} {}", x[0], sign, x[1]);
  switch (op) {
    case ScalarOp::BitNot: return inverse + x[0];
    case ScalarOp::Abs:
    case ScalarOp::Sign:
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round: return x[0];
    case ScalarOp::IsNan:
    case ScalarOp::IsInf:
    case ScalarOp::SignBit: return lanes ? "mask<W>{}" : "false";
    case ScalarOp::Sub:
    case ScalarOp::BitXor:
    case ScalarOp::Ne: return fmt::format("{} ^ {}", x[0], x[1]);
    case ScalarOp::Eq: return fmt::format("{}({} ^ {})", inverse, x[0], x[1]);
    case ScalarOp::Lt: return fmt::format("{}{} & {}", inverse, x[0], x[1]);
    case ScalarOp::Le: return fmt::format("{}{} | {}", inverse, x[0], x[1]);
    case ScalarOp::Gt: return fmt::format("{} & {}{}", x[0], inverse, x[1]);
    case ScalarOp::Ge: return fmt::format("{} | {}{}", x[0], inverse, x[1]);
    case ScalarOp::Where:
      if (lanes) return fmt::format("({} & {}) | (~{} & {})", x[0], x[1], x[0], x[2]);
      return fmt::format("{} ? {} : {}", x[0], x[1], x[2]);
    default: throw Error(ErrorKind::Unsupported, fmt::format("{} of bool tensors is not supported", to_string(op)));
  }
}

}  // namespace

bool is_special_function(ScalarOp op) {
  if (!infix_sign(op).empty() || has_vector_form(op)) return false;
  switch (op) {
    case ScalarOp::Neg:
    case ScalarOp::Lgamma:
    case ScalarOp::BitNot:
    case ScalarOp::IsNan:
    case ScalarOp::IsInf:
    case ScalarOp::SignBit:
    case ScalarOp::FloorDiv:
    case ScalarOp::TruncDiv:
    case ScalarOp::Mod:
    case ScalarOp::Fmod:
    case ScalarOp::Pow:
    case ScalarOp::Atan2:
    case ScalarOp::Hypot:
    case ScalarOp::Copysign:
    case ScalarOp::Nextafter:
    case ScalarOp::Gcd:
    case ScalarOp::ShiftLeft:
    case ScalarOp::ShiftRight:
    case ScalarOp::Where: return false;
    default: return true;  // everything else is the runtime's
  }
}

std::string scalar_text(ScalarOp op, DType dtype, const std::vector<OperandText>& o) {
  bool lanes = false;
  for (const OperandText& operand : o) lanes = lanes || operand.lanes;
  if (dtype == DType::Bool) {
    const std::string text = bool_text(op, o, lanes);
    return lanes ? text : fmt::format("bool({})", text);
  }
  if (op == ScalarOp::Where) {
    if (!lanes) return fmt::format("{} ? {} : {}", wrapped(o[0]), wrapped(o[1]), wrapped(o[2]));
    return fmt::format("select({}, {}, {})", as_lanes(o[0], DType::Bool), as_lanes(o[1], dtype), as_lanes(o[2], dtype));
  }
  if (lanes && dtype == DType::F32 && has_f32_vector_form(op)) return fmt::format("op_{}_v({})", to_string(op), o[0].text);
  if (is_special_function(op)) {
    const int code = static_cast<int>(op);
    const bool two = o.size() == 2;
    if (!lanes) {
      return fmt::format("{}(runtime->special_function(runtime, {}, {}, {}))", register_type(dtype), code, o[0].text,
                         two ? o[1].text : "0");
    }
    if (!two) {
      return fmt::format("lanewise({}, [&](auto x) {{ return runtime->special_function(runtime, {}, x, 0); }})", as_lanes(o[0], dtype),
                         code);
    }
    return fmt::format("lanewise({}, {}, [&](auto x, auto y) {{ return runtime->special_function(runtime, {}, x, y); }})",
                       as_lanes(o[0], dtype), as_lanes(o[1], dtype), code);
  }
  const bool integer = !is_floating(dtype);
  if (op == ScalarOp::Neg)
    return integer && !lanes ? fmt::format("{}(0 - uint64_t({}))", register_type(dtype), o[0].text) : "-" + wrapped(o[0]);
  if (op == ScalarOp::BitNot) return lanes ? "~" + wrapped(o[0]) : fmt::format("{}(~{})", register_type(dtype), wrapped(o[0]));
  if (op == ScalarOp::IsNan && lanes) return integer ? "mask<W>{}" : fmt::format("to_mask({} != {})", o[0].text, o[0].text);
  if ((op == ScalarOp::IsInf || op == ScalarOp::SignBit) && lanes) {
    if (op == ScalarOp::IsInf && !integer) {
      const std::string inf = dtype == DType::F32 ? "__builtin_inff()" : "__builtin_inf()";
      return fmt::format("to_mask(op_abs_v({}) == {})", o[0].text, inf);
    }
    if (op == ScalarOp::IsInf) return "mask<W>{}";
    if (integer) return fmt::format("to_mask({} < 0)", wrapped(o[0]));
    return fmt::format("to_mask((vec<{}, W>){} < 0)", dtype == DType::F32 ? "int32_t" : "int64_t", wrapped(o[0]));
  }
  if (op == ScalarOp::Div && integer) throw Error(ErrorKind::Internal, "true division of integers reached code generation");
  // Literals are left to the compiler, which knows the powers of two.
  const bool by_a_name = op == ScalarOp::Div && o[0].lanes && !o[1].lanes && std::isalpha(static_cast<unsigned char>(o[1].text[0])) != 0;
  if (by_a_name && dtype == DType::F32) return fmt::format("op_div_by_v({}, {})", o[0].text, o[1].text);
  const std::string_view sign = infix_sign(op);
  if (!sign.empty()) {
    const std::string text = fmt::format("{} {} {}", wrapped(o[0]), sign, wrapped(o[1]));
    if (!lanes) {
      // Small integers are promoted to int; wrap back. Signed overflow must wrap, so compute unsigned.
      if (integer && !is_comparison(op)) {
        return fmt::format("{0}(uint64_t({1}) {2} uint64_t({3}))", register_type(dtype), o[0].text, sign, o[1].text);
      }
      return text;
    }
    return is_comparison(op) ? fmt::format("to_mask({})", text) : text;
  }
  const std::string name(to_string(op));
  if (!lanes) {
    std::string text = fmt::format("op_{}<{}>(", name, register_type(dtype));
    // Float functions are plain overloads.
    if (!integer) text = fmt::format("op_{}(", name);
    for (size_t i = 0; i < o.size(); ++i) text += (i > 0 ? ", " : "") + o[i].text;
    return text + ")";
  }
  if (has_vector_form(op)) {
    std::string text = fmt::format("op_{}_v(", name);
    for (size_t i = 0; i < o.size(); ++i) text += (i > 0 ? ", " : "") + as_lanes(o[i], dtype);
    return text + ")";
  }
  if (o.size() == 1) return fmt::format("lanewise({}, [](auto x) {{ return op_{}(x); }})", o[0].text, name);
  return fmt::format("lanewise({}, {}, [](auto x, auto y) {{ return op_{}(x, y); }})", as_lanes(o[0], dtype), as_lanes(o[1], dtype), name);
}

std::string convert_text(DType from, DType to, const OperandText& o) {
  const std::string_view type = register_type(to);
  if (o.lanes) {
    if (to == DType::Bool) return fmt::format("to_mask({} != 0)", wrapped(o));
    if (from == DType::Bool) return fmt::format("convert<{}>({} & 1)", type, wrapped(o));
    // By way of 64 bits; the low byte of a large float32 is 0 either way.
    if (from == DType::F64 && to == DType::U8) return fmt::format("convert<{}>(convert<int64_t>({}))", type, o.text);
    if (is_floating(from) && to == DType::U32) return fmt::format("convert<{}>(convert<int64_t>({}))", type, o.text);
    if (is_floating(from) && to == DType::U64) return fmt::format("op_uint64_v({})", o.text);
    if (is_floating(from) && is_integral(to) && size_bytes(to) < 4) {
      return fmt::format("convert<{}>(convert<int32_t>({}))", type, o.text);
    }
    return fmt::format("convert<{}>({})", type, o.text);
  }
  if (to == DType::Bool) return fmt::format("{} != 0", wrapped(o));
  if (is_floating(from) && is_integral(to)) return fmt::format("to_integer<{}>({})", type, o.text);
  return fmt::format("{}({})", type, o.text);
}

std::string bitcast_text(DType from, DType to, const OperandText& o) {
  // F16 and BF16 are F32 in registers: round to their bits, widen from them.
  std::string text = o.text;
  if (is_reduced_float(from)) {
    text = o.lanes ? fmt::format("narrow16<W>({}, ({}*)nullptr)", text, storage_type(from))
                   : fmt::format("bits16<{}>({})", storage_type(from), text);
  }
  const std::string_view type = is_reduced_float(to) ? "uint16_t" : register_type(to);
  text = o.lanes ? fmt::format("(vec<{}, W>){}", type, text) : fmt::format("bit_cast<{}>({})", type, text);
  if (!is_reduced_float(to)) return text;
  return o.lanes ? fmt::format("widen16<W>({}, (const {}*)nullptr)", text, storage_type(to))
                 : fmt::format("widen16(({}){})", storage_type(to), text);
}

std::string literal_text(DType dtype, double value) {
  const bool f32 = dtype == DType::F32;
  if (std::isnan(value)) return f32 ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  if (std::isinf(value)) return fmt::format("({}{})", value < 0 ? "-" : "", f32 ? "__builtin_inff()" : "__builtin_inf()");
  if (f32 && std::isinf(static_cast<float>(value))) return value < 0 ? "(-__builtin_inff())" : "__builtin_inff()";
  std::string text = f32 ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (f32) text += "f";
  return std::signbit(value) ? "(" + text + ")" : text;
}

std::string literal_text(DType dtype, int64_t value) {
  if (dtype == DType::Bool) return value != 0 ? "true" : "false";
  if (is_floating(dtype)) return literal_text(dtype, static_cast<double>(value));
  if (dtype == DType::U64) return fmt::format("uint64_t({}u)", static_cast<uint64_t>(value));
  if (value == INT64_MIN) return "int64_t(-9223372036854775807 - 1)";
  return fmt::format("{}({})", register_type(dtype), value);
}

std::string combine_text(ReduceOp op, DType dtype, const OperandText& acc, const OperandText& value) {
  switch (op) {
    case ReduceOp::Sum: return scalar_text(ScalarOp::Add, dtype, {acc, value});
    case ReduceOp::Prod: return scalar_text(ScalarOp::Mul, dtype, {acc, value});
    case ReduceOp::Min: return scalar_text(ScalarOp::Min, dtype, {acc, value});
    case ReduceOp::Max: return scalar_text(ScalarOp::Max, dtype, {acc, value});
    case ReduceOp::Any: return scalar_text(ScalarOp::BitOr, dtype, {acc, value});
    case ReduceOp::All: return scalar_text(ScalarOp::BitAnd, dtype, {acc, value});
    case ReduceOp::ArgMin:
    case ReduceOp::ArgMax:
    case ReduceOp::MeanM2: break;
  }
  TOROID_CHECK(false, "{} has no combine of two values", to_string(op));
}

std::string identity_text(ReduceOp op, DType dtype) {
  const bool floating = is_floating(dtype);
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Any: return literal_text(dtype, int64_t{0});
    case ReduceOp::Prod:
    case ReduceOp::All: return literal_text(dtype, int64_t{1});
    case ReduceOp::Min:
    case ReduceOp::Max: {
      const bool min = op == ReduceOp::Min;
      if (dtype == DType::Bool) return min ? "true" : "false";
      if (floating) return literal_text(dtype, min ? HUGE_VAL : -HUGE_VAL);
      if (dtype == DType::U64) return literal_text(dtype, min ? int64_t{-1} : 0);
      const int64_t bits = size_bytes(dtype) * 8 - (is_signed(dtype) ? 1 : 0);
      const int64_t max = bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
      return literal_text(dtype, min ? max : (is_signed(dtype) ? -max - 1 : 0));
    }
    default: break;
  }
  TOROID_CHECK(false, "{} has no identity", to_string(op));
}

}  // namespace toroid::codegen
