#include "codegen/halide/halide_scalar.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "codegen/cpp/scalar_text.h"
#include "support/match.h"

namespace toroid::codegen {

const std::string_view kHalidePrelude = R"py(import halide as hl

f32, f64, inf, nan = hl.f32, hl.f64, float("inf"), float("nan")


def bits(x):
    return hl.reinterpret(hl.Int(32 if x.type().bits() == 32 else 64), x)


# Integers wrap around; overflow of Halide's own signed ones is undefined.
def wrap(function, a, *others):
    wide = hl.UInt(a.type().bits())
    return hl.cast(a.type(), function(*[hl.cast(wide, x) for x in (a, *others)]))


# Halide makes a <= b the opposite of b < a, which for NaN it is not.
def at_most(a, b):
    return (a < b) | (a == b)


# Of equal numbers the first; NaN where there is one.
def least(a, b):
    return hl.select(at_most(a, b) | hl.is_nan(a), a, b)


def most(a, b):
    return hl.select(at_most(b, a) | hl.is_nan(a), a, b)


# Halide's own functions of Float(32) are exact to the last bits for results that are normal, of arguments that are finite.
def exp(x):
    if x.type().bits() == 64:
        return hl.exp(x)
    half = hl.exp(hl.clamp(x, f32(-210.0), f32(180.0)) * f32(0.5))
    return hl.select(hl.is_nan(x), x, half * half)


# Results that would not be normal are 0.
def exp_normal(x):
    if x.type().bits() == 64:
        return hl.select(x < f64(-708.0), f64(0.0), hl.exp(x))
    return hl.select(hl.is_nan(x), x, hl.select(x < f32(-87.3), f32(0.0), hl.exp(hl.clamp(x, f32(-87.3), f32(89.0)))))


def log(x):
    if x.type().bits() == 64:
        return hl.log(x)
    is_small = x < f32(1.1754943508222875e-38)
    normal = hl.log(hl.select(is_small, x * f32(33554432.0), x)) - hl.select(is_small, f32(17.328679513998632), f32(0.0))
    special = hl.select(hl.is_nan(x) | (x == f32(inf)), x, hl.select(x == f32(0.0), f32(-inf), f32(nan)))
    return hl.select((x > f32(0.0)) & (x < f32(inf)), normal, special)


def sigmoid(x):
    one = hl.cast(x.type(), 1)
    return one / (one + exp(x * hl.cast(x.type(), -1)))


def tanh(x):
    if x.type().bits() == 64:
        return hl.tanh(x)
    z = x * x
    near = (((f32(-5.70498872745e-3) * z + f32(2.06390887954e-2)) * z + f32(-5.37397155531e-2)) * z + f32(1.33314422036e-1)) * z
    near = (near + f32(-3.33332819422e-1)) * z * x + x
    size = hl.min(hl.abs(x), f32(10.0))
    far = f32(1.0) - f32(2.0) / (hl.exp(size + size) + f32(1.0))
    far = hl.select(x < f32(0.0), far * f32(-1.0), far)
    return hl.select(hl.is_nan(x), x, hl.select(hl.abs(x) < f32(0.625), near, far))


def erf(x):
    return hl.select(hl.is_nan(x), x, hl.erf(hl.clamp(x, f32(-4.0), f32(4.0))))


def expm1(x):
    return hl.select(hl.abs(x) < f32(1e-5), x + x * x * f32(0.5), f32(hl.exp(f64(x)) - f64(1.0)))


def log1p(x):
    return hl.select(hl.abs(x) < f32(1e-8), x, f32(hl.log(f64(x) + f64(1.0))))


def copysign(x, y):
    sign = hl.cast(bits(x).type(), 1) << hl.cast(bits(x).type(), x.type().bits() - 1)
    return hl.reinterpret(x.type(), (bits(x) & (sign ^ hl.cast(sign.type(), -1))) | (bits(y) & sign))


# Towards zero; what does not fit is the least integer.
def whole(x, kind):
    fits = at_most(hl.cast(x.type(), f64(-(2.0**63))), x) & (x < hl.cast(x.type(), f64(2.0**63)))
    return hl.cast(kind, hl.select(fits, hl.cast(hl.Int(64), hl.select(fits, x, hl.cast(x.type(), 0))), hl.i64(-(2**63))))


# Shifts by as many bits as there are, or more, or by a negative count.
def shift_left(a, b):
    fits = (b >= hl.cast(b.type(), 0)) & (b < hl.cast(b.type(), b.type().bits()))
    count = hl.select(fits, b, hl.cast(b.type(), 0))
    return hl.select(fits, wrap(lambda x, y: x << y, a, count), hl.cast(a.type(), 0))


def shift_right(a, b):
    most_bits = hl.cast(b.type(), b.type().bits() - 1)
    fits = (b >= hl.cast(b.type(), 0)) & (b <= most_bits)
    return a >> hl.cast(hl.UInt(b.type().bits()), hl.select(fits, b, most_bits))


def bf16_value(x):
    return hl.reinterpret(hl.Float(32), hl.cast(hl.UInt(32), x) << hl.u32(16))


# To the nearest, of two that are as near the even one.
def bf16_bits(x):
    whole_bits = hl.reinterpret(hl.UInt(32), x)
    rounded = (whole_bits + hl.u32(0x7FFF) + ((whole_bits >> hl.u32(16)) & hl.u32(1))) >> hl.u32(16)
    return hl.cast(hl.UInt(16), hl.select(hl.is_nan(x), (whole_bits >> hl.u32(16)) | hl.u32(0x40), rounded))


def f16_value(x):
    return hl.cast(hl.Float(32), hl.reinterpret(hl.Float(16), x))


def f16_bits(x):
    return hl.reinterpret(hl.UInt(16), hl.cast(hl.Float(16), x))


)py";

namespace {

[[noreturn]] void refuse_in_halide(ScalarOp op, DType dtype) {
  throw NotInHalide(fmt::format("{} of {}", to_string(op), to_string(dtype)));
}

// Of Float(32) alone in the place of the second: through Float(64), whose functions are libm's.
std::string through_double(std::string_view text, const std::string& x) { return fmt::format(fmt::runtime(text), "f64(" + x + ")"); }

std::string bools_in_halide(ScalarOp op, const std::vector<std::string>& x) {
  if (const std::string_view sign = truth_sign(op); !sign.empty()) return fmt::format("{} {} {}", x[0], sign, x[1]);
  switch (op) {
    case ScalarOp::BitNot: return fmt::format("hl.logical_not({})", x[0]);
    case ScalarOp::BitXor:
    case ScalarOp::Sub:
    case ScalarOp::Ne: return fmt::format("{} != {}", x[0], x[1]);
    case ScalarOp::Eq: return fmt::format("{} == {}", x[0], x[1]);
    case ScalarOp::Where: return fmt::format("hl.select({}, {}, {})", x[0], x[1], x[2]);
    default: refuse_in_halide(op, DType::Bool);
  }
}

// Functions of one float that need no care, and those that have it in the prelude.
std::string_view function_in_halide(ScalarOp op) {
  switch (op) {
    case ScalarOp::Abs: return "hl.abs";
    case ScalarOp::Floor: return "hl.floor";
    case ScalarOp::Ceil: return "hl.ceil";
    case ScalarOp::Trunc: return "hl.trunc";
    case ScalarOp::Round: return "hl.round";
    case ScalarOp::Sqrt: return "hl.sqrt";
    case ScalarOp::Exp: return "exp";
    case ScalarOp::ExpNormal: return "exp_normal";
    case ScalarOp::Log: return "log";
    case ScalarOp::Sigmoid: return "sigmoid";
    case ScalarOp::Tanh: return "tanh";
    case ScalarOp::Sin: return "hl.sin";
    case ScalarOp::Cos: return "hl.cos";
    case ScalarOp::Tan: return "hl.tan";
    case ScalarOp::Asin: return "hl.asin";
    case ScalarOp::Acos: return "hl.acos";
    case ScalarOp::Atan: return "hl.atan";
    case ScalarOp::Sinh: return "hl.sinh";
    case ScalarOp::Cosh: return "hl.cosh";
    case ScalarOp::Asinh: return "hl.asinh";
    case ScalarOp::Acosh: return "hl.acosh";
    case ScalarOp::Atanh: return "hl.atanh";
    case ScalarOp::IsNan: return "hl.is_nan";
    default: return "";
  }
}

// Of Float(32) alone.
std::string singles_in_halide(ScalarOp op, const std::vector<std::string>& x) {
  switch (op) {
    case ScalarOp::Erf: return fmt::format("erf({})", x[0]);
    case ScalarOp::Expm1: return fmt::format("expm1({})", x[0]);
    case ScalarOp::Log1p: return fmt::format("log1p({})", x[0]);
    case ScalarOp::Exp2: return through_double("f32(hl.exp({0} * f64(0.6931471805599453)))", x[0]);
    case ScalarOp::Log2: return through_double("f32(hl.log({0}) * f64(1.4426950408889634))", x[0]);
    case ScalarOp::Log10: return through_double("f32(hl.log({0}) * f64(0.4342944819032518))", x[0]);
    case ScalarOp::Pow: return fmt::format("f32(hl.pow(f64({}), f64({})))", x[0], x[1]);
    case ScalarOp::Atan2: return fmt::format("hl.atan2({}, {})", x[0], x[1]);
    default: refuse_in_halide(op, DType::F32);
  }
}

std::string floats_in_halide(ScalarOp op, DType dtype, const std::vector<std::string>& x) {
  const std::string type = halide_type(dtype);
  const auto number = [&](std::string_view value) { return fmt::format("{}({})", dtype == DType::F32 ? "f32" : "f64", value); };
  switch (op) {
    case ScalarOp::Neg: return fmt::format("{} * {}", x[0], number("-1.0"));
    case ScalarOp::Sign: return fmt::format("hl.cast({0}, {1} > {2}) - hl.cast({0}, {1} < {2})", type, x[0], number("0.0"));
    case ScalarOp::Rsqrt: return fmt::format("{} / hl.sqrt({})", number("1.0"), x[0]);
    case ScalarOp::Reciprocal: return fmt::format("{} / {}", number("1.0"), x[0]);
    case ScalarOp::IsInf: return fmt::format("hl.abs({}) == {}", x[0], number("inf"));
    case ScalarOp::SignBit: return fmt::format("bits({0}) < hl.cast(bits({0}).type(), 0)", x[0]);
    case ScalarOp::Copysign: return fmt::format("copysign({}, {})", x[0], x[1]);
    case ScalarOp::TruncDiv: return fmt::format("hl.trunc({} / {})", x[0], x[1]);
    case ScalarOp::Le: return fmt::format("at_most({}, {})", x[0], x[1]);
    case ScalarOp::Ge: return fmt::format("at_most({}, {})", x[1], x[0]);
    case ScalarOp::Min: return fmt::format("least({}, {})", x[0], x[1]);
    case ScalarOp::Max: return fmt::format("most({}, {})", x[0], x[1]);
    case ScalarOp::Where: return fmt::format("hl.select({}, {}, {})", x[0], x[1], x[2]);
    case ScalarOp::BitAnd:
    case ScalarOp::BitOr:
    case ScalarOp::BitXor: refuse_in_halide(op, dtype);
    default: break;
  }
  if (const std::string_view sign = infix_sign(op); !sign.empty()) return fmt::format("{} {} {}", x[0], sign, x[1]);
  if (const std::string_view name = function_in_halide(op); !name.empty()) return fmt::format("{}({})", name, x[0]);
  if (dtype == DType::F32) return singles_in_halide(op, x);
  if (op == ScalarOp::Pow || op == ScalarOp::Atan2) return fmt::format("hl.{}({}, {})", op == ScalarOp::Pow ? "pow" : "atan2", x[0], x[1]);
  refuse_in_halide(op, dtype);
}

std::string integers_in_halide(ScalarOp op, DType dtype, const std::vector<std::string>& x) {
  const auto wrapped = [&](std::string_view sign) { return fmt::format("wrap(lambda a, b: a {} b, {}, {})", sign, x[0], x[1]); };
  switch (op) {
    case ScalarOp::Neg: return fmt::format("wrap(lambda a: hl.cast(a.type(), 0) - a, {})", x[0]);
    case ScalarOp::BitNot: return fmt::format("{0} ^ hl.cast({0}.type(), -1)", x[0]);
    case ScalarOp::Abs: {
      if (!is_signed(dtype)) return x[0];
      return fmt::format("hl.select({0} < hl.cast({0}.type(), 0), wrap(lambda a: hl.cast(a.type(), 0) - a, {0}), {0})", x[0]);
    }
    case ScalarOp::Sign:
      return fmt::format("hl.cast({1}, {0} > hl.cast({1}, 0)) - hl.cast({1}, {0} < hl.cast({1}, 0))", x[0], halide_type(dtype));
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round: return x[0];
    case ScalarOp::Add: return wrapped("+");
    case ScalarOp::Sub: return wrapped("-");
    case ScalarOp::Mul: return wrapped("*");
    case ScalarOp::Min: return fmt::format("hl.min({}, {})", x[0], x[1]);
    case ScalarOp::Max: return fmt::format("hl.max({}, {})", x[0], x[1]);
    case ScalarOp::ShiftLeft: return fmt::format("shift_left({}, {})", x[0], x[1]);
    case ScalarOp::ShiftRight: return fmt::format("shift_right({}, {})", x[0], x[1]);
    case ScalarOp::Where: return fmt::format("hl.select({}, {}, {})", x[0], x[1], x[2]);
    case ScalarOp::Div: refuse_in_halide(op, dtype);
    default: break;
  }
  if (const std::string_view sign = infix_sign(op); !sign.empty()) return fmt::format("{} {} {}", x[0], sign, x[1]);
  refuse_in_halide(op, dtype);
}

std::string integer_in_halide(int64_t value, DType dtype) {
  return dtype == DType::I64 ? fmt::format("hl.i64({})", value) : fmt::format("hl.cast({}, {})", halide_type(dtype), value);
}

}  // namespace

std::string halide_type(DType dtype) {
  switch (dtype) {
    case DType::Bool: return "hl.UInt(1)";
    case DType::U8: return "hl.UInt(8)";
    case DType::I8: return "hl.Int(8)";
    case DType::I16: return "hl.Int(16)";
    case DType::I32: return "hl.Int(32)";
    case DType::I64: return "hl.Int(64)";
    case DType::F32: return "hl.Float(32)";
    case DType::F64: return "hl.Float(64)";
    default: throw NotInHalide(fmt::format("numbers of {}", to_string(dtype)));
  }
}

std::string halide_storage(DType dtype) {
  if (dtype == DType::Bool) return "hl.UInt(8)";
  return is_reduced_float(dtype) ? "hl.UInt(16)" : halide_type(dtype);
}

std::string halide_loaded(DType storage, const std::string& element) {
  if (storage == DType::Bool) return fmt::format("{} != hl.u8(0)", element);
  return is_reduced_float(storage) ? fmt::format("{}_value({})", to_string(storage), element) : element;
}

std::string halide_stored(DType storage, const std::string& value) {
  if (storage == DType::Bool) return fmt::format("hl.cast(hl.UInt(8), {})", value);
  return is_reduced_float(storage) ? fmt::format("{}_bits({})", to_string(storage), value) : value;
}

std::string halide_literal(const Scalar& value, DType dtype) {
  const auto real = [&](double v) {
    const std::string_view type = dtype == DType::F32 ? "f32" : "f64";
    if (std::isnan(v)) return fmt::format("{}(nan)", type);
    if (std::isinf(v)) return fmt::format("{}({}inf)", type, v < 0 ? "-" : "");
    std::string text = fmt::format("{}", dtype == DType::F32 ? static_cast<double>(static_cast<float>(v)) : v);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return fmt::format("{}({})", type, text);
  };
  return match(
      value, [&](bool v) { return dtype == DType::Bool ? fmt::format("hl.cast(hl.UInt(1), {})", v ? 1 : 0) : integer_in_halide(v, dtype); },
      [&](const sym::Expr& e) {
        if (!e.is_const()) throw NotInHalide("a number that is a size");
        if (is_floating(dtype)) return real(static_cast<double>(e.value()));
        if (dtype == DType::Bool) return fmt::format("hl.cast(hl.UInt(1), {})", e.value() != 0 ? 1 : 0);
        return integer_in_halide(e.value(), dtype);
      },
      [&](double v) { return real(v); });
}

std::string halide_scalar(ScalarOp op, DType dtype, const std::vector<std::string>& operands) {
  if (dtype == DType::Bool) return bools_in_halide(op, operands);
  return is_floating(dtype) ? floats_in_halide(op, dtype, operands) : integers_in_halide(op, dtype, operands);
}

std::string halide_convert(DType from, DType to, const std::string& operand) {
  if (from == to) return operand;
  const std::string type = halide_type(to);
  if (to == DType::Bool) return fmt::format("{0} != hl.cast({0}.type(), 0)", operand);
  if (is_floating(from) && !is_floating(to)) return fmt::format("whole({}, {})", operand, type);
  return fmt::format("hl.cast({}, {})", type, operand);
}

std::string halide_identity(ReduceOp op, DType dtype) {
  const bool is_real = is_floating(dtype);
  const auto number = [&](int64_t value) {
    return is_real ? fmt::format("{}({}.0)", dtype == DType::F32 ? "f32" : "f64", value) : halide_literal(Scalar(sym::Expr(value)), dtype);
  };
  const std::string infinity = dtype == DType::F32 ? "f32({}inf)" : "f64({}inf)";
  const int bits = 8 * static_cast<int>(size_bytes(dtype));
  const int64_t most = dtype == DType::Bool ? 1 : dtype == DType::U8 ? 255 : static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  const int64_t least = is_signed(dtype) && dtype != DType::Bool ? -most - 1 : 0;
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Any: return number(0);
    case ReduceOp::Prod:
    case ReduceOp::All: return number(1);
    case ReduceOp::Min:
    case ReduceOp::ArgMin: return is_real ? fmt::format(fmt::runtime(infinity), "") : number(most);
    case ReduceOp::Max:
    case ReduceOp::ArgMax: return is_real ? fmt::format(fmt::runtime(infinity), "-") : number(least);
    default: throw NotInHalide(fmt::format("the reduction {}", to_string(op)));
  }
}

std::string halide_combine(ReduceOp op, DType dtype, const std::string& a, const std::string& b) {
  const std::vector<std::string> both = {a, b};
  switch (op) {
    case ReduceOp::Sum: return halide_scalar(ScalarOp::Add, dtype, both);
    case ReduceOp::Prod: return halide_scalar(ScalarOp::Mul, dtype, both);
    case ReduceOp::Any: return fmt::format("{} | {}", a, b);
    case ReduceOp::All: return fmt::format("{} & {}", a, b);
    case ReduceOp::Min: return halide_scalar(ScalarOp::Min, dtype, both);
    case ReduceOp::Max: return halide_scalar(ScalarOp::Max, dtype, both);
    default: throw NotInHalide(fmt::format("the reduction {}", to_string(op)));
  }
}

}  // namespace toroid::codegen
