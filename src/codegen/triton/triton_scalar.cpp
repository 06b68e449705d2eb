#include "codegen/triton/triton_scalar.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "codegen/cpp/scalar_text.h"
#include "support/match.h"

namespace toroid::codegen {

const std::string_view kTritonPrelude = R"py(import triton
import triton.language as tl
from triton.language.extra import libdevice


# Of equal elements the first; NaN where there is one.
@triton.jit
def least(a, b):
    return tl.where((b < a) | (b != b), b, a)


@triton.jit
def most(a, b):
    return tl.where((b > a) | (b != b), b, a)


@triton.jit
def product(a, b):
    return a * b


# The rational function that CUDA's kernels have, without a branch.
@triton.jit
def erf(x):
    c = tl.where(x < -3.925, -3.925, x)
    c = tl.where(c > 3.925, 3.925, c)
    t = c * c
    p = t * 2.04625439e-06 + 2.84827664e-04
    p = p * t + 3.77162173e-03
    p = p * t + 5.27664125e-02
    p = p * t + 1.90571398e-01
    p = p * t + 1.12837911
    q = t * 3.80493220e-05 + 1.16364297e-03
    q = q * t + 1.49813211e-02
    q = q * t + 1.14173546e-01
    q = q * t + 5.02222240e-01
    q = q * t + 1.0
    y = c * (p / q)
    y = tl.where(y < -1.0, -1.0, y)
    return tl.where(y > 1.0, 1.0, y)


# As `least` and `most`, with the place of each.
@triton.jit
def least_at(a, i, b, j):
    is_same = (a == b) | ((a != a) & (b != b))
    is_other = (b < a) | ((b != b) & (a == a)) | (is_same & (j < i))
    return tl.where(is_other, b, a), tl.where(is_other, j, i)


@triton.jit
def most_at(a, i, b, j):
    is_same = (a == b) | ((a != a) & (b != b))
    is_other = (b > a) | ((b != b) & (a == a)) | (is_same & (j < i))
    return tl.where(is_other, b, a), tl.where(is_other, j, i)


# Of integers, toward minus infinity; what is left has the divisor's sign.
@triton.jit
def floor_div(a, b):
    quotient = a // b
    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def floor_mod(a, b):
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


)py";

namespace {

[[noreturn]] void refuse(ScalarOp op, DType dtype) { throw NotInTriton(fmt::format("{} of {}", to_string(op), to_string(dtype))); }

std::string_view libdevice_name(ScalarOp op) {
  switch (op) {
    case ScalarOp::Floor: return "floor";
    case ScalarOp::Ceil: return "ceil";
    case ScalarOp::Trunc: return "trunc";
    case ScalarOp::Round: return "rint";
    case ScalarOp::Rsqrt: return "rsqrt";
    case ScalarOp::Exp: return "exp";
    case ScalarOp::Exp2: return "exp2";
    case ScalarOp::Expm1: return "expm1";
    case ScalarOp::Log: return "log";
    case ScalarOp::Log2: return "log2";
    case ScalarOp::Log10: return "log10";
    case ScalarOp::Log1p: return "log1p";
    case ScalarOp::Sin: return "sin";
    case ScalarOp::Cos: return "cos";
    case ScalarOp::Tan: return "tan";
    case ScalarOp::Asin: return "asin";
    case ScalarOp::Acos: return "acos";
    case ScalarOp::Atan: return "atan";
    case ScalarOp::Sinh: return "sinh";
    case ScalarOp::Cosh: return "cosh";
    case ScalarOp::Tanh: return "tanh";
    case ScalarOp::Asinh: return "asinh";
    case ScalarOp::Acosh: return "acosh";
    case ScalarOp::Atanh: return "atanh";
    case ScalarOp::Erf: return "erf";
    case ScalarOp::Erfc: return "erfc";
    case ScalarOp::Erfinv: return "erfinv";
    case ScalarOp::Pow: return "pow";
    case ScalarOp::Fmod: return "fmod";
    case ScalarOp::Atan2: return "atan2";
    case ScalarOp::Hypot: return "hypot";
    case ScalarOp::Copysign: return "copysign";
    case ScalarOp::Nextafter: return "nextafter";
    default: return "";
  }
}

std::string of_bools(ScalarOp op, const std::vector<std::string>& x) {
  if (const std::string_view sign = truth_sign(op); !sign.empty()) return fmt::format("{} {} {}", x[0], sign, x[1]);
  switch (op) {
    case ScalarOp::BitNot: return fmt::format("{} == 0", x[0]);
    case ScalarOp::BitXor:
    case ScalarOp::Sub:
    case ScalarOp::Ne: return fmt::format("{} ^ {}", x[0], x[1]);
    case ScalarOp::Eq: return fmt::format("({} ^ {}) == 0", x[0], x[1]);
    case ScalarOp::Where: return fmt::format("tl.where({}, {}, {})", x[0], x[1], x[2]);
    default: refuse(op, DType::Bool);
  }
}

std::string of_floats(ScalarOp op, DType dtype, const std::vector<std::string>& x) {
  const bool is_single = dtype == DType::F32;
  switch (op) {
    case ScalarOp::Div: return is_single ? fmt::format("tl.div_rn({}, {})", x[0], x[1]) : fmt::format("{} / {}", x[0], x[1]);
    case ScalarOp::Neg: return fmt::format("{} * -1.0", x[0]);  // Triton's own sign is a subtraction from 0
    case ScalarOp::Abs: return fmt::format("tl.abs({})", x[0]);
    case ScalarOp::Sign: return fmt::format("({0} > 0).to({1}) - ({0} < 0).to({1})", x[0], triton_type(dtype));
    case ScalarOp::Sqrt: return fmt::format("{}({})", is_single ? "tl.sqrt_rn" : "tl.sqrt", x[0]);
    case ScalarOp::Reciprocal:
      return is_single ? fmt::format("tl.div_rn(tl.full([1, 1], 1.0, tl.float32), {})", x[0]) : fmt::format("1.0 / {}", x[0]);
    case ScalarOp::ExpNormal: return fmt::format("tl.where({0} < {1}, 0.0, libdevice.exp({0}))", x[0], is_single ? "-87.3" : "-708.0");
    case ScalarOp::Erf:
      if (is_single) return fmt::format("erf({})", x[0]);
      break;
    // Triton's division is within two units in the last place.
    case ScalarOp::Sigmoid: return fmt::format("1.0 / (1.0 + libdevice.exp({} * -1.0))", x[0]);
    case ScalarOp::IsNan: return fmt::format("{0} != {0}", x[0]);
    case ScalarOp::IsInf: return fmt::format("tl.abs({}) == float(\"inf\")", x[0]);
    case ScalarOp::Min: return fmt::format("least({}, {})", x[0], x[1]);
    case ScalarOp::Max: return fmt::format("most({}, {})", x[0], x[1]);
    case ScalarOp::Where: return fmt::format("tl.where({}, {}, {})", x[0], x[1], x[2]);
    case ScalarOp::BitAnd:
    case ScalarOp::BitOr:
    case ScalarOp::BitXor: refuse(op, dtype);
    default: break;
  }
  if (const std::string_view sign = infix_sign(op); !sign.empty()) return fmt::format("{} {} {}", x[0], sign, x[1]);
  if (const std::string_view name = libdevice_name(op); !name.empty())
    return fmt::format("libdevice.{}({}{})", name, x[0], x.size() == 2 ? ", " + x[1] : "");
  refuse(op, dtype);
}

std::string of_integers(ScalarOp op, DType dtype, const std::vector<std::string>& x) {
  switch (op) {
    case ScalarOp::Neg: return fmt::format("0 - {}", x[0]);
    case ScalarOp::BitNot: return fmt::format("~{}", x[0]);
    case ScalarOp::Abs: return is_signed(dtype) ? fmt::format("tl.where({0} < 0, 0 - {0}, {0})", x[0]) : x[0];
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round: return x[0];
    case ScalarOp::Min: return fmt::format("tl.where({1} < {0}, {1}, {0})", x[0], x[1]);
    case ScalarOp::Max: return fmt::format("tl.where({1} > {0}, {1}, {0})", x[0], x[1]);
    case ScalarOp::Where: return fmt::format("tl.where({}, {}, {})", x[0], x[1], x[2]);
    case ScalarOp::Div: refuse(op, dtype);
    case ScalarOp::FloorDiv: return is_signed(dtype) ? fmt::format("floor_div({}, {})", x[0], x[1]) : fmt::format("{} // {}", x[0], x[1]);
    case ScalarOp::TruncDiv: return fmt::format("{} // {}", x[0], x[1]);
    case ScalarOp::Mod: return is_signed(dtype) ? fmt::format("floor_mod({}, {})", x[0], x[1]) : fmt::format("{} % {}", x[0], x[1]);
    case ScalarOp::Fmod: return fmt::format("{} % {}", x[0], x[1]);
    default: break;
  }
  if (const std::string_view sign = infix_sign(op); !sign.empty()) return fmt::format("{} {} {}", x[0], sign, x[1]);
  refuse(op, dtype);
}

}  // namespace

std::string triton_type(DType dtype) {
  switch (dtype) {
    case DType::F32: return "tl.float32";
    case DType::F64: return "tl.float64";
    case DType::F16: return "tl.float16";
    case DType::BF16: return "tl.bfloat16";
    case DType::I64: return "tl.int64";
    case DType::I32: return "tl.int32";
    case DType::I16: return "tl.int16";
    case DType::I8: return "tl.int8";
    case DType::U8: return "tl.uint8";
    case DType::Bool: return "tl.int1";
    default: throw NotInTriton(fmt::format("numbers of {}", to_string(dtype)));
  }
}

std::string triton_literal(const Scalar& value, DType dtype) {
  const std::string type = triton_type(dtype);
  const auto full = [&](const std::string& text) { return fmt::format("tl.full([1, 1], {}, {})", text, type); };
  return match(
      value, [&](bool v) { return full(v ? "1" : "0"); },
      [&](const sym::Expr& e) {
        if (!e.is_const()) throw NotInTriton("a literal that is no number");
        return full(is_floating(dtype) ? fmt::format("{}.0", e.value()) : fmt::format("{}", e.value()));
      },
      [&](double v) {
        if (std::isnan(v)) return full("float(\"nan\")");
        if (std::isinf(v)) return full(v < 0 ? "float(\"-inf\")" : "float(\"inf\")");
        if (!is_floating(dtype)) return full(fmt::format("{}", static_cast<int64_t>(v)));
        if (v == 0 && std::signbit(v)) return fmt::format("({} * -1.0)", full("0.0"));
        // Exactly, in so many digits that they read back.
        const std::string digits =
            dtype == DType::F64 ? fmt::format("{}", v) : fmt::format("{}", static_cast<double>(static_cast<float>(v)));
        return full(digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits);
      });
}

std::string triton_scalar(ScalarOp op, DType dtype, const std::vector<std::string>& operands) {
  if (dtype == DType::Bool) return of_bools(op, operands);
  return is_floating(dtype) ? of_floats(op, dtype, operands) : of_integers(op, dtype, operands);
}

std::string triton_convert(DType from, DType to, const std::string& operand) {
  if (from == to) return operand;
  if (to == DType::Bool) return fmt::format("{} != 0", operand);
  if (is_floating(from) && !is_floating(to)) throw NotInTriton(fmt::format("{} from {}", to_string(to), to_string(from)));
  return fmt::format("{}.to({})", operand, triton_type(to));
}

std::string triton_identity(ReduceOp op, DType dtype) {
  const auto least_integer = [&] {
    const int64_t bits = 8 * size_bytes(dtype);
    return is_signed(dtype) ? bits == 64 ? std::string("-9223372036854775808") : fmt::format("{}", -(int64_t{1} << (bits - 1))) : "0";
  };
  const auto most_integer = [&] {
    const int64_t bits = 8 * size_bytes(dtype) - (is_signed(dtype) ? 1 : 0);
    return fmt::format("{}", (uint64_t{1} << bits) - 1);
  };
  const bool is_real = is_floating(dtype);
  switch (op) {
    case ReduceOp::Sum: return is_real ? "0.0" : "0";
    case ReduceOp::Any: return "0";
    case ReduceOp::All: return "1";
    case ReduceOp::Prod: return is_real ? "1.0" : "1";
    case ReduceOp::ArgMin:
    case ReduceOp::Min: return is_real ? "float(\"inf\")" : dtype == DType::Bool ? "1" : most_integer();
    case ReduceOp::ArgMax:
    case ReduceOp::Max: return is_real ? "float(\"-inf\")" : dtype == DType::Bool ? "0" : least_integer();
    default: throw NotInTriton(fmt::format("the reduction {}", to_string(op)));
  }
}

std::string triton_better(ReduceOp op) { return op == ReduceOp::ArgMin ? "least_at" : "most_at"; }

std::string triton_combine(ReduceOp op, DType dtype, const std::string& a, const std::string& b) {
  const bool is_bool = dtype == DType::Bool;
  switch (op) {
    case ReduceOp::Sum: return fmt::format("{} + {}", a, b);
    case ReduceOp::Prod: return fmt::format("{} * {}", a, b);
    case ReduceOp::Any: return fmt::format("{} | {}", a, b);
    case ReduceOp::All: return fmt::format("{} & {}", a, b);
    case ReduceOp::Min: return is_bool ? fmt::format("{} & {}", a, b) : fmt::format("least({}, {})", a, b);
    case ReduceOp::Max: return is_bool ? fmt::format("{} | {}", a, b) : fmt::format("most({}, {})", a, b);
    default: throw NotInTriton(fmt::format("the reduction {}", to_string(op)));
  }
}

std::string triton_reduce(ReduceOp op, DType dtype, const std::string& tile) {
  // As 32-bit integers: tl.sum and its like take no truth values.
  const bool is_bool = dtype == DType::Bool;
  if (is_bool) {
    const bool takes_any = op == ReduceOp::Any || op == ReduceOp::Max;
    if (!takes_any && op != ReduceOp::All && op != ReduceOp::Min) throw NotInTriton(fmt::format("the reduction {} of bool", to_string(op)));
    return fmt::format("tl.{}({}.to(tl.int32), axis=1, keep_dims=True) != 0", takes_any ? "max" : "min", tile);
  }
  if (size_bytes(dtype) < 4) throw NotInTriton(fmt::format("the reduction {} of {}", to_string(op), to_string(dtype)));
  switch (op) {
    case ReduceOp::Sum: return fmt::format("tl.sum({}, axis=1, keep_dims=True)", tile);
    case ReduceOp::Prod: return fmt::format("tl.reduce({}, 1, product, keep_dims=True)", tile);
    case ReduceOp::Min: return fmt::format("tl.reduce({}, 1, least, keep_dims=True)", tile);
    case ReduceOp::Max: return fmt::format("tl.reduce({}, 1, most, keep_dims=True)", tile);
    default: throw NotInTriton(fmt::format("the reduction {}", to_string(op)));
  }
}

}  // namespace toroid::codegen
