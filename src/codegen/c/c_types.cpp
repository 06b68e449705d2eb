#include "codegen/c/c_types.h"

#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "support/match.h"

namespace toroid::codegen::c {

std::string_view storage_type(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8: return "uint8_t";
    case DType::I8: return "int8_t";
    case DType::I16: return "int16_t";
    case DType::I32: return "int32_t";
    case DType::I64: return "int64_t";
    case DType::F16:
    case DType::BF16: return "uint16_t";
    case DType::F32: return "float";
    case DType::F64: return "double";
    default: break;
  }
  throw Error(ErrorKind::Unsupported, fmt::format("plain C has no type for {}", to_string(dtype)));
}

std::string_view value_type(DType dtype) { return is_reduced_float(dtype) ? "float" : storage_type(dtype); }

std::string load(DType dtype, std::string_view p, std::string_view index) {
  const std::string element = fmt::format("{}[{}]", p, index);
  return is_reduced_float(dtype) ? fmt::format("{}_value({})", to_string(dtype), element) : element;
}

std::string store(DType dtype, std::string_view p, std::string_view index, std::string_view value) {
  return is_reduced_float(dtype) ? fmt::format("{}[{}] = {}_bits({});", p, index, to_string(dtype), value)
                                 : fmt::format("{}[{}] = {};", p, index, value);
}

std::string literal(DType dtype, const Scalar& value, std::string_view symbolic) {
  const std::string text = match(
      value, [](bool v) { return std::string(v ? "1" : "0"); },
      [&](const sym::Expr& e) {
        if (!e.is_const()) return std::string(symbolic);
        return e.value() == INT64_MIN ? "INT64_MIN" : fmt::format("INT64_C({})", e.value());
      },
      [](double v) {
        if (std::isnan(v)) return std::string("NAN");
        if (std::isinf(v)) return std::string(v < 0 ? "-INFINITY" : "INFINITY");
        return fmt::format("{:a}", v);
      });
  return fmt::format("({})({})", value_type(dtype), text);
}

namespace {

// In terms of a and b, doubles or int64_t; none: there is no such operator on them.
struct Row {
  ScalarOp op;
  std::string_view of_floats, of_integers;
};
constexpr Row kRows[] = {
    {ScalarOp::Neg, "-{0}", "wrap(0 - (uint64_t)({0}))"},
    {ScalarOp::Abs, "fabs({0})", "({0} < 0 ? wrap(0 - (uint64_t)({0})) : {0})"},
    {ScalarOp::Sign, "(double)((0 < {0}) - ({0} < 0))", "(({0} > 0) - ({0} < 0))"},
    {ScalarOp::Floor, "floor({0})", "{0}"},
    {ScalarOp::Ceil, "ceil({0})", "{0}"},
    {ScalarOp::Trunc, "trunc({0})", "{0}"},
    {ScalarOp::Round, "nearbyint({0})", "{0}"},
    {ScalarOp::Sqrt, "sqrt({0})", ""},
    {ScalarOp::Rsqrt, "1 / sqrt({0})", ""},
    {ScalarOp::Reciprocal, "1 / {0}", ""},
    {ScalarOp::Exp, "exp({0})", ""},
    {ScalarOp::Exp2, "exp2({0})", ""},
    {ScalarOp::Expm1, "expm1({0})", ""},
    {ScalarOp::Log, "log({0})", ""},
    {ScalarOp::Log2, "log2({0})", ""},
    {ScalarOp::Log10, "log10({0})", ""},
    {ScalarOp::Log1p, "log1p({0})", ""},
    {ScalarOp::Sin, "sin({0})", ""},
    {ScalarOp::Cos, "cos({0})", ""},
    {ScalarOp::Tan, "tan({0})", ""},
    {ScalarOp::Asin, "asin({0})", ""},
    {ScalarOp::Acos, "acos({0})", ""},
    {ScalarOp::Atan, "atan({0})", ""},
    {ScalarOp::Sinh, "sinh({0})", ""},
    {ScalarOp::Cosh, "cosh({0})", ""},
    {ScalarOp::Tanh, "tanh({0})", ""},
    {ScalarOp::Asinh, "asinh({0})", ""},
    {ScalarOp::Acosh, "acosh({0})", ""},
    {ScalarOp::Atanh, "atanh({0})", ""},
    {ScalarOp::Sigmoid, "1 / (1 + exp(-{0}))", ""},
    {ScalarOp::Erf, "erf({0})", ""},
    {ScalarOp::Erfc, "erfc({0})", ""},
    {ScalarOp::BitNot, "", "~{0}"},
    {ScalarOp::IsNan, "isnan({0}) != 0", "0"},
    {ScalarOp::IsInf, "isinf({0}) != 0", "0"},
    {ScalarOp::SignBit, "signbit({0}) != 0", "{0} < 0"},
    {ScalarOp::Add, "{0} + {1}", "wrap((uint64_t)({0}) + (uint64_t)({1}))"},
    {ScalarOp::Sub, "{0} - {1}", "wrap((uint64_t)({0}) - (uint64_t)({1}))"},
    {ScalarOp::Mul, "{0} * {1}", "wrap((uint64_t)({0}) * (uint64_t)({1}))"},
    {ScalarOp::Div, "{0} / {1}", ""},
    {ScalarOp::FloorDiv, "floor_divide({0}, {1})", "flooring_quotient({0}, {1}, &failed)"},
    {ScalarOp::TruncDiv, "trunc({0} / {1})", "quotient({0}, {1}, &failed)"},
    {ScalarOp::Mod, "flooring_fmod({0}, {1})", "flooring_remainder({0}, {1}, &failed)"},
    {ScalarOp::Fmod, "fmod({0}, {1})", "remainder_of({0}, {1}, &failed)"},
    {ScalarOp::Pow, "pow({0}, {1})", "power({0}, {1})"},
    {ScalarOp::Min, "minimum({0}, {1})", "({1} < {0} ? {1} : {0})"},
    {ScalarOp::Max, "maximum({0}, {1})", "({1} > {0} ? {1} : {0})"},
    {ScalarOp::Atan2, "atan2({0}, {1})", ""},
    {ScalarOp::Hypot, "hypot({0}, {1})", ""},
    {ScalarOp::Copysign, "copysign({0}, {1})", ""},
    {ScalarOp::Gcd, "", "gcd({0}, {1})"},
    {ScalarOp::BitAnd, "", "{0} & {1}"},
    {ScalarOp::BitOr, "", "{0} | {1}"},
    {ScalarOp::BitXor, "", "{0} ^ {1}"},
    {ScalarOp::ShiftLeft, "", "shift_left({0}, {1}, {2})"},
    {ScalarOp::ShiftRight, "", "shift_right({0}, {1}, {2})"},
    {ScalarOp::Eq, "{0} == {1}", "{0} == {1}"},
    {ScalarOp::Ne, "{0} != {1}", "{0} != {1}"},
    {ScalarOp::Lt, "{0} < {1}", "{0} < {1}"},
    {ScalarOp::Le, "{0} <= {1}", "{0} <= {1}"},
    {ScalarOp::Gt, "{0} > {1}", "{0} > {1}"},
    {ScalarOp::Ge, "{0} >= {1}", "{0} >= {1}"},
};

bool gives_bool(ScalarOp op) {
  switch (op) {
    case ScalarOp::IsNan:
    case ScalarOp::IsInf:
    case ScalarOp::SignBit:
    case ScalarOp::Eq:
    case ScalarOp::Ne:
    case ScalarOp::Lt:
    case ScalarOp::Le:
    case ScalarOp::Gt:
    case ScalarOp::Ge: return true;
    default: return false;
  }
}

}  // namespace

std::string apply(ScalarOp op, DType dtype, std::span<const std::string> operands) {
  const bool is_float = is_floating(dtype), is_bool = dtype == DType::Bool;
  const std::string_view type = value_type(dtype);
  if (op == ScalarOp::Where) return fmt::format("{} ? {} : {}", operands[0], operands[1], operands[2]);
  if (op == ScalarOp::ExpNormal)
    return fmt::format("({0})({1} < ({0}){2} ? 0 : exp({1}))", type, operands[0], dtype == DType::F64 ? "-708" : "-87.3f");
  if (op == ScalarOp::Nextafter && (dtype == DType::F32 || dtype == DType::F64))
    return fmt::format("nextafter{}({}, {})", dtype == DType::F32 ? "f" : "", operands[0], operands[1]);
  if (is_bool && op == ScalarOp::BitNot) return fmt::format("!{}", operands[0]);
  for (const Row& row : kRows) {
    if (row.op != op) continue;
    const std::string_view text = is_float ? row.of_floats : row.of_integers;
    if (text.empty()) break;
    std::string wide[2];
    for (size_t i = 0; i < std::min<size_t>(operands.size(), 2); ++i) {
      wide[i] = fmt::format("({}){}", is_float ? "double" : "int64_t", operands[i]);
    }
    const std::string result = fmt::format(fmt::runtime(text), wide[0], wide[1], 8 * size_bytes(dtype));
    if (gives_bool(op)) return result;
    // An addition or a multiplication of Bool is a number, not 0, that is true.
    return is_bool ? fmt::format("({}) != 0", result) : fmt::format("({})({})", type, result);
  }
  throw Error(ErrorKind::Unsupported, fmt::format("plain C does not compute {} of {}", to_string(op), to_string(dtype)));
}

std::string convert(DType from, DType to, std::string_view value) {
  if (to == DType::Bool) return fmt::format("{} != 0", value);
  if (is_floating(from) && !is_floating(to)) return fmt::format("({})whole({})", value_type(to), value);
  return fmt::format("({}){}", value_type(to), value);
}

const std::string_view kPrelude = R"c(#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kIndexOutOfBounds = 1, kDividedByZero = 2, kNoMemory = 3 };

typedef struct Memory {
  void** blocks;
  int64_t count, room;
} Memory;

static void* take(Memory* memory, int64_t bytes) {
  void* block = calloc(bytes > 0 ? (size_t)bytes : 1, 1);
  if (block == NULL) return NULL;
  if (memory->count == memory->room) {
    void** blocks = realloc(memory->blocks, (size_t)(memory->room + 64) * sizeof(void*));
    if (blocks == NULL) return free(block), NULL;
    memory->blocks = blocks;
    memory->room += 64;
  }
  return memory->blocks[memory->count++] = block;
}

static void give_back(Memory* memory) {
  for (int64_t i = 0; i < memory->count; ++i) free(memory->blocks[i]);
  free(memory->blocks);
}

static inline int64_t wrap(uint64_t x) { int64_t y; memcpy(&y, &x, sizeof y); return y; }
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t quotient(int64_t a, int64_t b, int32_t* failed) {
  if (b == 0) return *failed = kDividedByZero, 0;
  return b == -1 ? wrap(0 - (uint64_t)a) : a / b;
}
static inline int64_t remainder_of(int64_t a, int64_t b, int32_t* failed) {
  if (b == 0) return *failed = kDividedByZero, 0;
  return b == -1 ? 0 : a % b;
}
static inline int64_t flooring_quotient(int64_t a, int64_t b, int32_t* failed) {
  const int64_t q = quotient(a, b, failed), r = remainder_of(a, b, failed);
  return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}
static inline int64_t flooring_remainder(int64_t a, int64_t b, int32_t* failed) {
  const int64_t r = remainder_of(a, b, failed);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t floordiv64(int64_t a, int64_t b) { int32_t failed; return flooring_quotient(a, b, &failed); }
static inline int64_t floormod64(int64_t a, int64_t b) { int32_t failed; return flooring_remainder(a, b, &failed); }
static inline int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1;
  for (uint64_t square = (uint64_t)base; exponent > 0; exponent /= 2, square *= square) {
    if (exponent % 2 == 1) result *= square;
  }
  return wrap(result);
}
static inline int64_t gcd(int64_t a, int64_t b) {
  uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  while (y != 0) { const uint64_t r = x % y; x = y; y = r; }
  return wrap(x);
}
/* A shift by as many bits as there are, or more, or by a negative count, shifts everything out. */
static inline int64_t shift_left(int64_t a, int64_t b, int bits) { return b < 0 || b >= bits ? 0 : wrap((uint64_t)a << b); }
static inline int64_t shift_right(int64_t a, int64_t b, int bits) { return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b; }
static inline double minimum(double a, double b) { return isnan(a) ? a : isnan(b) ? b : b < a ? b : a; }
static inline double maximum(double a, double b) { return isnan(a) ? a : isnan(b) ? b : b > a ? b : a; }
/* Exact where floor(a / b) would suffer from the rounding of a / b. */
static inline double floor_divide(double a, double b) {
  if (b == 0) return a / b;
  const double r = fmod(a, b);
  double q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return copysign(0.0, a / b);
  const double down = floor(q);
  return q - down > 0.5 ? down + 1 : down;
}
static inline double flooring_fmod(double a, double b) {
  const double r = fmod(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
/* Towards zero; what does not fit is the least integer, as on x86. */
static inline int64_t whole(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }

static inline float bits_value(uint32_t bits) { float x; memcpy(&x, &bits, sizeof x); return x; }
static inline uint32_t value_bits(float x) { uint32_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
static inline float bf16_value(uint16_t bits) { return bits_value((uint32_t)bits << 16); }
static inline uint16_t bf16_bits(float x) {
  const uint32_t bits = value_bits(x);
  if (x != x) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float f16_value(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return bits_value(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
  return bits_value(sign | (exponent + 112) << 23 | fraction << 13);
}
static inline uint16_t f16_bits(float x) {
  const uint16_t sign = (uint16_t)(value_bits(x) >> 16 & 0x8000);
  const float size = fabsf(x);
  if (x != x) return (uint16_t)(sign | 0x7e00);
  if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00);
  if (size < 0x1p-14f) return (uint16_t)(sign | (uint16_t)nearbyintf(size * 0x1p24f)); /* denormal */
  const uint32_t bits = value_bits(size);
  return (uint16_t)(sign | (uint16_t)((bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13));
}

)c";

}  // namespace toroid::codegen::c
