#include "library/special/scalar.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/float16.h"
#include "library/special/polynomials.h"
#include "library/special/special_functions.h"

namespace toroid {
namespace {

// ---- floats
// ------------------------------------------------------------------------------------------------------------

double sign(double x) { return static_cast<double>(0 < x) - static_cast<double>(x < 0); }

double minimum(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return b < a ? b : a;
}
double maximum(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return b > a ? b : a;
}

// torch.floor_divide: exact where floor(a / b) would suffer from the rounding of a / b.
double floor_divide(double a, double b) {
  if (b == 0) return a / b;
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double down = std::floor(quotient);
  return quotient - down > 0.5 ? down + 1 : down;
}

double remainder_of_divisor_sign(double a, double b) {
  const double remainder = std::fmod(a, b);
  return remainder != 0 && (b < 0) != (remainder < 0) ? remainder + b : remainder;
}

// Steps through the bit patterns of a 16-bit float, which are ordered like its values.
template <class T>
double next_after_16(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return b;
  if (a == 0) return std::copysign(static_cast<double>(static_cast<float>(T::from_bits(1))), b);
  const uint16_t bits = T(static_cast<float>(a)).bits;
  const bool away_from_zero = (b > a) == (a > 0);
  return static_cast<float>(T::from_bits(static_cast<uint16_t>(away_from_zero ? bits + 1 : bits - 1)));
}

double next_after(DType dtype, double a, double b) {
  switch (dtype) {
    case DType::F32: return std::nextafterf(static_cast<float>(a), static_cast<float>(b));
    case DType::F16: return next_after_16<Float16>(a, b);
    case DType::BF16: return next_after_16<BFloat16>(a, b);
    default: return std::nextafter(a, b);
  }
}

// ---- integers: through uint64_t, whose overflow wraps
// ------------------------------------------------------------------

uint64_t u(int64_t x) { return static_cast<uint64_t>(x); }
int64_t i(uint64_t x) { return static_cast<int64_t>(x); }

int bits_of(DType dtype) { return static_cast<int>(size_bytes(dtype)) * 8; }

int64_t truncating_quotient(int64_t a, int64_t b) {
  if (b == 0) throw Error(ErrorKind::InvalidInput, "integer division by zero");
  return b == -1 ? i(0 - u(a)) : a / b;
}
int64_t remainder_of_dividend_sign(int64_t a, int64_t b) {
  if (b == 0) throw Error(ErrorKind::InvalidInput, "integer remainder of a division by zero");
  return b == -1 ? 0 : a % b;
}
int64_t flooring_quotient(int64_t a, int64_t b) {
  const int64_t quotient = truncating_quotient(a, b);
  const int64_t remainder = remainder_of_dividend_sign(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? quotient - 1 : quotient;
}
int64_t remainder_of_divisor_sign(int64_t a, int64_t b) {
  const int64_t remainder = remainder_of_dividend_sign(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1;
  for (uint64_t square = u(base); exponent > 0; exponent /= 2, square *= square) {
    if (exponent % 2 == 1) result *= square;
  }
  return i(result);
}

// A shift by as many bits as there are, or more, or by a negative count, shifts everything out.
int64_t shift_left(DType dtype, int64_t a, int64_t b) { return b < 0 || b >= bits_of(dtype) ? 0 : i(u(a) << b); }
int64_t shift_right(DType dtype, int64_t a, int64_t b) {
  if (b < 0 || b >= bits_of(dtype)) return a < 0 ? -1 : 0;
  return a >> b;
}

uint64_t magnitude(int64_t x) { return x < 0 ? 0 - u(x) : u(x); }

}  // namespace

double apply(ScalarOp op, DType dtype, double a, double b) {
  switch (op) {
    case ScalarOp::Neg: return -a;
    case ScalarOp::Abs: return std::fabs(a);
    case ScalarOp::Sign: return sign(a);
    case ScalarOp::Floor: return std::floor(a);
    case ScalarOp::Ceil: return std::ceil(a);
    case ScalarOp::Trunc: return std::trunc(a);
    case ScalarOp::Round: return std::nearbyint(a);
    case ScalarOp::Sqrt: return std::sqrt(a);
    case ScalarOp::Rsqrt: return 1 / std::sqrt(a);
    case ScalarOp::Reciprocal: return 1 / a;
    case ScalarOp::Exp: return std::exp(a);
    case ScalarOp::ExpNormal: return a < (dtype == DType::F64 ? -708 : -87.3f) ? 0 : std::exp(a);
    case ScalarOp::Exp2: return std::exp2(a);
    case ScalarOp::Expm1: return std::expm1(a);
    case ScalarOp::Log: return std::log(a);
    case ScalarOp::Log2: return std::log2(a);
    case ScalarOp::Log10: return std::log10(a);
    case ScalarOp::Log1p: return std::log1p(a);
    case ScalarOp::Sin: return std::sin(a);
    case ScalarOp::Cos: return std::cos(a);
    case ScalarOp::Tan: return std::tan(a);
    case ScalarOp::Asin: return std::asin(a);
    case ScalarOp::Acos: return std::acos(a);
    case ScalarOp::Atan: return std::atan(a);
    case ScalarOp::Sinh: return std::sinh(a);
    case ScalarOp::Cosh: return std::cosh(a);
    case ScalarOp::Tanh: return std::tanh(a);
    case ScalarOp::Asinh: return std::asinh(a);
    case ScalarOp::Acosh: return std::acosh(a);
    case ScalarOp::Atanh: return std::atanh(a);
    case ScalarOp::Sigmoid: return 1 / (1 + std::exp(-a));
    case ScalarOp::Erf: return std::erf(a);
    case ScalarOp::Erfc: return std::erfc(a);
    case ScalarOp::Erfinv: return special::erfinv(a);
    case ScalarOp::Lgamma: return special::lgamma(a);
    case ScalarOp::Digamma: return special::digamma(a);
    case ScalarOp::I0: return special::i0(a);
    case ScalarOp::I0e: return special::i0e(a);
    case ScalarOp::I1: return special::i1(a);
    case ScalarOp::I1e: return special::i1e(a);
    case ScalarOp::Ndtri: return special::ndtri(a);
    case ScalarOp::LogNdtr: return special::log_ndtr(a);
    case ScalarOp::Erfcx: return special::erfcx(a);
    case ScalarOp::BesselJ0: return special::bessel_j0(a);
    case ScalarOp::BesselJ1: return special::bessel_j1(a);
    case ScalarOp::BesselY0: return special::bessel_y0(a);
    case ScalarOp::BesselY1: return special::bessel_y1(a);
    case ScalarOp::ModifiedBesselI0: return special::i0(a);
    case ScalarOp::ModifiedBesselI1: return special::i1(a);
    case ScalarOp::ModifiedBesselK0: return special::k0(a);
    case ScalarOp::ModifiedBesselK1: return special::k1(a);
    case ScalarOp::ScaledModifiedBesselK0: return special::k0e(a);
    case ScalarOp::ScaledModifiedBesselK1: return special::k1e(a);
    case ScalarOp::SphericalBesselJ0: return special::spherical_bessel_j0(a);
    case ScalarOp::AiryAi: return special::airy_ai(a);
    case ScalarOp::IsNan: return std::isnan(a);
    case ScalarOp::IsInf: return std::isinf(a);
    case ScalarOp::SignBit: return std::signbit(a);
    case ScalarOp::Add: return a + b;
    case ScalarOp::Sub: return a - b;
    case ScalarOp::Mul: return a * b;
    case ScalarOp::Div: return a / b;
    case ScalarOp::FloorDiv: return floor_divide(a, b);
    case ScalarOp::TruncDiv: return std::trunc(a / b);
    case ScalarOp::Mod: return remainder_of_divisor_sign(a, b);
    case ScalarOp::Fmod: return std::fmod(a, b);
    case ScalarOp::Pow: return std::pow(a, b);
    case ScalarOp::Min: return minimum(a, b);
    case ScalarOp::Max: return maximum(a, b);
    case ScalarOp::Atan2: return std::atan2(a, b);
    case ScalarOp::Hypot: return std::hypot(a, b);
    case ScalarOp::Copysign: return std::copysign(a, b);
    case ScalarOp::Nextafter: return next_after(dtype, a, b);
    case ScalarOp::Igamma: return special::igamma(a, b);
    case ScalarOp::Igammac: return special::igammac(a, b);
    case ScalarOp::Zeta: return special::zeta(a, b);
    case ScalarOp::ChebyshevT: return special::chebyshev_t(a, b);
    case ScalarOp::ChebyshevU: return special::chebyshev_u(a, b);
    case ScalarOp::ChebyshevV: return special::chebyshev_v(a, b);
    case ScalarOp::ChebyshevW: return special::chebyshev_w(a, b);
    case ScalarOp::HermiteH: return special::hermite_h(a, b);
    case ScalarOp::HermiteHe: return special::hermite_he(a, b);
    case ScalarOp::LaguerreL: return special::laguerre_l(a, b);
    case ScalarOp::LegendreP: return special::legendre_p(a, b);
    case ScalarOp::Eq: return a == b;
    case ScalarOp::Ne: return a != b;
    case ScalarOp::Lt: return a < b;
    case ScalarOp::Le: return a <= b;
    case ScalarOp::Gt: return a > b;
    case ScalarOp::Ge: return a >= b;
    case ScalarOp::BitNot:
    case ScalarOp::Gcd:
    case ScalarOp::BitAnd:
    case ScalarOp::BitOr:
    case ScalarOp::BitXor:
    case ScalarOp::ShiftLeft:
    case ScalarOp::ShiftRight:
    case ScalarOp::PhiloxLow:
    case ScalarOp::PhiloxHigh:
    case ScalarOp::Where: break;
  }
  TOROID_CHECK(false, "{} is not defined on floats", to_string(op));
}

// Of all but U64; where the sign makes no difference of its bits too.
static int64_t apply_signed(ScalarOp op, DType dtype, int64_t a, int64_t b) {
  const bool is_bool = dtype == DType::Bool;
  switch (op) {
    case ScalarOp::Neg: return i(0 - u(a));
    case ScalarOp::Abs: return i(magnitude(a));
    case ScalarOp::Sign: return (a > 0) - (a < 0);
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round: return a;
    case ScalarOp::BitNot: return is_bool ? !a : ~a;
    case ScalarOp::IsNan:
    case ScalarOp::IsInf: return 0;
    case ScalarOp::SignBit: return a < 0;
    case ScalarOp::Add: return i(u(a) + u(b));
    case ScalarOp::Sub: return i(u(a) - u(b));
    case ScalarOp::Mul: return i(u(a) * u(b));
    case ScalarOp::FloorDiv: return flooring_quotient(a, b);
    case ScalarOp::TruncDiv: return truncating_quotient(a, b);
    case ScalarOp::Mod: return remainder_of_divisor_sign(a, b);
    case ScalarOp::Fmod: return remainder_of_dividend_sign(a, b);
    case ScalarOp::Pow: return power(a, b);
    case ScalarOp::Min: return std::min(a, b);
    case ScalarOp::Max: return std::max(a, b);
    case ScalarOp::Gcd: return i(std::gcd(magnitude(a), magnitude(b)));
    case ScalarOp::BitAnd: return a & b;
    case ScalarOp::BitOr: return a | b;
    case ScalarOp::BitXor: return a ^ b;
    case ScalarOp::ShiftLeft: return shift_left(dtype, a, b);
    case ScalarOp::ShiftRight: return shift_right(dtype, a, b);
    case ScalarOp::Eq: return a == b;
    case ScalarOp::Ne: return a != b;
    case ScalarOp::Lt: return a < b;
    case ScalarOp::Le: return a <= b;
    case ScalarOp::Gt: return a > b;
    case ScalarOp::Ge: return a >= b;
    default: break;
  }
  TOROID_CHECK(false, "{} is not defined on {}", to_string(op), to_string(dtype));
}

uint64_t apply(ScalarOp op, DType dtype, uint64_t a, uint64_t b) {
  const auto divides = [&] {
    if (b == 0) throw Error(ErrorKind::InvalidInput, "integer division by zero");
  };
  switch (op) {
    case ScalarOp::Abs: return a;
    case ScalarOp::Sign: return a != 0;
    case ScalarOp::SignBit: return 0;
    case ScalarOp::FloorDiv:
    case ScalarOp::TruncDiv: return divides(), a / b;
    case ScalarOp::Mod:
    case ScalarOp::Fmod: return divides(), a % b;
    case ScalarOp::Min: return std::min(a, b);
    case ScalarOp::Max: return std::max(a, b);
    case ScalarOp::Gcd: return std::gcd(a, b);
    case ScalarOp::ShiftLeft: return b >= 64 ? 0 : a << b;
    case ScalarOp::ShiftRight: return b >= 64 ? 0 : a >> b;
    case ScalarOp::Lt: return a < b;
    case ScalarOp::Le: return a <= b;
    case ScalarOp::Gt: return a > b;
    case ScalarOp::Ge: return a >= b;
    case ScalarOp::Pow: {
      uint64_t result = 1;
      for (; b > 0; b /= 2, a *= a) result *= b % 2 == 1 ? a : 1;
      return result;
    }
    default: return u(apply_signed(op, dtype, i(a), i(b)));  // the same bits, whatever the sign
  }
}

int64_t apply(ScalarOp op, DType dtype, int64_t a, int64_t b) {
  return dtype == DType::U64 ? i(apply(op, dtype, u(a), u(b))) : apply_signed(op, dtype, a, b);
}

}  // namespace toroid
