#include "library/special/special_functions.h"

#include <math.h>  // lgamma_r, j0, j1, y0, y1: POSIX, not in <cmath>

#include <cmath>
#include <limits>

namespace toroid::special {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr double kPi = 3.141592653589793238463;
constexpr double kSqrt2 = 1.414213562373095048802;
constexpr double kEulerGamma = 0.577215664901532860607;

// B(2k) / (2k)! for k = 1 … 12, the coefficients of Euler-Maclaurin summation (DLMF 2.10.1).
constexpr double kBernoulliOverFactorial[] = {
    1.0 / 12,
    -1.0 / 720,
    1.0 / 30240,
    -1.0 / 1209600,
    1.0 / 47900160,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
    -174611.0 / 802857662698291200000.0,
    77683.0 / 14101100039391805440000.0,
    -236364091.0 / 1693824136731743669452800000.0,
};

double normal_distribution(double x) { return 0.5 * std::erfc(-x / kSqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * kPi); }

}  // namespace

// ---- the error function and the normal distribution
// ----------------------------------------------------------------------

namespace {

// p <= 1/2: a starting value good to 5e-4 (Abramowitz and Stegun 26.2.23), then Halley steps, each of which triples
// the digits.
double lower_normal_quantile(double p) {
  const double t = std::sqrt(-2 * std::log(p));
  double x = -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
  for (int step = 0; step < 3; ++step) {
    const double error = (normal_distribution(x) - p) / normal_density(x);
    x -= error / (1 + 0.5 * x * error);
  }
  return x;
}

}  // namespace

double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNan;
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  if (p < 0.25) return lower_normal_quantile(p);
  if (p > 0.75) return -lower_normal_quantile(1 - p);  // 1 - p is exact here
  return kSqrt2 * erfinv(2 * p - 1);
}

double erfinv(double x) {
  if (!(x >= -1 && x <= 1)) return kNan;
  if (x == -1) return -kInf;
  if (x == 1) return kInf;
  if (std::fabs(x) > 0.5) {
    const double quantile = lower_normal_quantile(0.5 * (1 - std::fabs(x))) / kSqrt2;
    return std::copysign(quantile, x);
  }
  // The first terms of the Maclaurin series (DLMF 7.17.2), then Halley steps on erf(y) = x.
  const double t = x * std::sqrt(kPi) / 2;
  double y = t * (1 + t * t * (1.0 / 3 + t * t * (7.0 / 30 + t * t * (127.0 / 630))));
  for (int step = 0; step < 3; ++step) {
    const double error = (std::erf(y) - x) * std::sqrt(kPi) / 2 * std::exp(y * y);
    y -= error / (1 + y * error);
  }
  return y;
}

double erfcx(double x) {
  if (std::isnan(x)) return x;
  if (x < 25) return std::exp(x * x) * std::erfc(x);  // beyond, erfc is subnormal
  // DLMF 7.12.1, whose terms fall by (2k-1) / (2 x^2) <= 1/50 at first.
  double term = 1;
  double sum = 1;
  for (int k = 1; k < 20; ++k) {
    term *= -(2 * k - 1) / (2 * x * x);
    sum += term;
  }
  return sum / (x * std::sqrt(kPi));
}

double log_ndtr(double x) {
  if (x < -1) return std::log(erfcx(-x / kSqrt2) / 2) - x * x / 2;
  return std::log1p(-std::erfc(x / kSqrt2) / 2);
}

// ---- gamma and zeta
// ------------------------------------------------------------------------------------------------------

double lgamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);  // std::lgamma writes a global
}

double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  if (x == -kInf) return kNan;
  if (x < 0) {
    double whole = 0;
    const double fraction = std::modf(x, &whole);
    if (fraction == 0) return kNan;                          // a pole whose sides differ in sign
    return digamma(1 - x) - kPi / std::tan(kPi * fraction);  // DLMF 5.5.4
  }
  double result = 0;
  for (; x < 10; x += 1) result -= 1 / x;  // DLMF 5.5.2
  // DLMF 5.11.2: log x - 1/(2x) - sum of B(2k) / (2k x^2k)
  result += std::log(x) - 0.5 / x;
  double factor = 1 / (x * x);
  double power = factor;
  double factorial = 1;  // (2k-1)!
  for (int k = 1; k <= 8; ++k) {
    result -= kBernoulliOverFactorial[k - 1] * factorial * power;
    power *= factor;
    factorial *= (2 * k) * (2 * k + 1);
  }
  return result;
}

double zeta(double s, double q) {
  if (s == 1) return kInf;
  if (s < 1) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInf;
    if (s != std::floor(s)) return kNan;  // a power of a negative number
  }
  if (std::isnan(s) || std::isnan(q)) return kNan;
  // Ten terms and more until q + k >= 10, then Euler-Maclaurin for the rest (DLMF 25.11.28 and 2.10.1).
  double sum = 0;
  int k = 0;
  for (; k < 10 || q + k < 10; ++k) {
    const double term = std::pow(q + k, -s);
    sum += term;
    if (q + k > 0 && std::fabs(term) < kEpsilon * std::fabs(sum) * 1e-3) return sum;
  }
  const double w = q + k;
  const double power = std::pow(w, -s);
  sum += power * w / (s - 1) + 0.5 * power;
  double rising = s;  // s (s+1) … (s+2j-2)
  double scale = power / w;
  for (int j = 1; j <= 12; ++j) {
    const double term = kBernoulliOverFactorial[j - 1] * rising * scale;
    sum += term;
    if (std::fabs(term) < kEpsilon * std::fabs(sum)) break;
    rising *= (s + 2 * j - 1) * (s + 2 * j);
    scale /= w * w;
  }
  return sum;
}

namespace {

// x^a e^-x / gamma(a + 1)
double gamma_density(double a, double x) { return std::exp(a * std::log(x) - x - lgamma(a + 1)); }

// DLMF 8.11.4: all terms are positive, and they fall for x < a + 1.
double lower_gamma_series(double a, double x) {
  double term = 1;
  double sum = 1;
  for (int n = 1; n < 1'000'000 && term > sum * kEpsilon; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * gamma_density(a, x);
}

// DLMF 8.9.2, evaluated from the front by Lentz's method; converges quickly for x > a + 1.
double upper_gamma_fraction(double a, double x) {
  const double tiny = 1e-300;
  double b = x + 1 - a;
  double c = 1 / tiny;
  double d = 1 / b;
  double h = d;
  for (int n = 1; n < 1'000'000; ++n) {
    const double numerator = n * (a - n);
    b += 2;
    d = numerator * d + b;
    c = b + numerator / c;
    if (std::fabs(d) < tiny) d = tiny;
    if (std::fabs(c) < tiny) c = tiny;
    d = 1 / d;
    h *= d * c;
    if (std::fabs(d * c - 1) < kEpsilon) break;
  }
  return h * gamma_density(a, x) * a;
}

// log gamma(1 + a), without the rounding of 1 + a for small a (DLMF 5.7.3).
double lgamma_1p(double a) {
  if (a > 0.2) return lgamma(1 + a);
  double sum = -kEulerGamma * a;
  double power = -a;  // -(-a)^(k-1)
  for (int k = 2; k <= 20; ++k) {
    power *= -a;
    sum += zeta(k, 1) * power / k;
  }
  return sum;
}

// For x near 0: 1 - lower, with the leading 1 cancelled by hand (DLMF 8.7.3, its k = 0 term taken with expm1).
double upper_gamma_series(double a, double x) {
  double power = 1;  // (-x)^k / k!
  double sum = 0;
  for (int k = 1; k < 200; ++k) {
    power *= -x / k;
    sum += power / (a + k);
    if (std::fabs(power) < kEpsilon * std::fabs(sum)) break;
  }
  const double log_x = std::log(x);
  return -std::expm1(a * log_x - lgamma_1p(a)) - std::exp(a * log_x - lgamma(a)) * sum;
}

}  // namespace

double igamma(double a, double x) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return kNan;
  if (a == 0) return x > 0 ? 1 : kNan;
  if (x == 0) return 0;
  if (std::isinf(a)) return std::isinf(x) ? kNan : 0;
  if (std::isinf(x)) return 1;
  return x < a + 1 ? lower_gamma_series(a, x) : 1 - upper_gamma_fraction(a, x);
}

double igammac(double a, double x) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return kNan;
  if (a == 0) return x > 0 ? 0 : kNan;
  if (x == 0) return 1;
  if (std::isinf(a)) return std::isinf(x) ? kNan : 1;
  if (std::isinf(x)) return 0;
  if (x >= a + 1) return upper_gamma_fraction(a, x);
  return x < 1 ? upper_gamma_series(a, x) : 1 - lower_gamma_series(a, x);
}

// ---- Bessel functions
// ----------------------------------------------------------------------------------------------------

namespace {

// DLMF 10.25.2 for a whole order: the sum of (x/2)^(2k+order) / (k! (k+order)!), all of one sign.
double i_series(int order, double x) {
  const double quarter = x * x / 4;
  double term = order == 0 ? 1 : x / 2;
  double sum = term;
  for (int k = 1; k < 500 && std::fabs(term) > kEpsilon * std::fabs(sum); ++k) {
    term *= quarter / (static_cast<double>(k) * (k + order));
    sum += term;
  }
  return sum;
}

// DLMF 10.40.1: I(x) e^-x for x >= 30, where the terms fall below double precision before they grow again.
double i_scaled_expansion(int order, double x) {
  const double mu = 4.0 * order * order;
  double term = 1;
  double sum = 1;
  for (int k = 1; k < 40 && std::fabs(term) > kEpsilon; ++k) {
    const double odd = 2 * k - 1;
    term *= -(mu - odd * odd) / (8 * k * x);
    sum += term;
  }
  return sum / (4 * std::sqrt(2 * kPi * (x / 16)));  // 2 pi x may be beyond all numbers
}

// DLMF 10.32.9: K(x) e^x = integral of exp(-x (cosh t - 1)) cosh(order t) over t >= 0. The integrand falls doubly
// exponentially, so the trapezoidal rule is exact to double precision at a step below its width, 1 / sqrt(x).
double k_scaled_integral(double order, double x) {
  if (std::isinf(x)) return 0;
  const double step = std::min(0.125, 0.5 / std::sqrt(x));
  double sum = 0.5;
  for (int n = 1;; ++n) {
    const double t = n * step;
    const double half = std::sinh(t / 2);
    const double term = std::exp(-2 * x * half * half) * std::cosh(order * t);  // cosh t - 1 = 2 sinh^2 (t/2)
    sum += term;
    if (term < kEpsilon * sum * 1e-2) return sum * step;
  }
}

// DLMF 10.31.2: K0 near 0.
double k0_series(double x) {
  const double quarter = x * x / 4;
  double harmonic = 0;
  double term = 1;
  double sum = 0;
  for (int k = 1; k < 40; ++k) {
    harmonic += 1.0 / k;
    term *= quarter / (static_cast<double>(k) * k);
    sum += harmonic * term;
  }
  return -(std::log(x / 2) + kEulerGamma) * i_series(0, x) + sum;
}

// DLMF 10.31.1 for order 1: psi(k+1) + psi(k+2) = 2 (H(k) - gamma) + 1 / (k+1).
double k1_series(double x) {
  const double quarter = x * x / 4;
  double harmonic = 0;
  double term = 1;  // (x^2/4)^k / (k! (k+1)!)
  double sum = 0;
  for (int k = 0; k < 40; ++k) {
    sum += (2 * (harmonic - kEulerGamma) + 1.0 / (k + 1)) * term;
    harmonic += 1.0 / (k + 1);
    term *= quarter / (static_cast<double>(k + 1) * (k + 2));
  }
  return 1 / x + std::log(x / 2) * i_series(1, x) - x / 4 * sum;
}

}  // namespace

double i0(double x) {
  x = std::fabs(x);
  if (x < 30) return i_series(0, x);
  if (std::isinf(x)) return kNan;  // as PyTorch
  // Halved twice: e^x overflows before I0 does.
  return std::exp(x / 2) * i_scaled_expansion(0, x) * std::exp(x / 2);
}
double i0e(double x) {
  x = std::fabs(x);
  return x < 30 ? i_series(0, x) * std::exp(-x) : i_scaled_expansion(0, x);
}
double i1(double x) {
  const double a = std::fabs(x);
  if (!(a >= 30)) return i_series(1, x);
  if (std::isinf(x)) return kNan;  // as PyTorch
  return std::copysign(std::exp(a / 2) * i_scaled_expansion(1, a) * std::exp(a / 2), x);
}
double i1e(double x) {
  const double a = std::fabs(x);
  return !(a >= 30) ? i_series(1, x) * std::exp(-a) : std::copysign(i_scaled_expansion(1, a), x);
}

double k0(double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInf;
  return x <= 2 ? k0_series(x) : std::exp(-x) * k_scaled_integral(0, x);
}
double k0e(double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInf;
  return x <= 2 ? k0_series(x) * std::exp(x) : k_scaled_integral(0, x);
}
double k1(double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInf;
  return x <= 2 ? k1_series(x) : std::exp(-x) * k_scaled_integral(1, x);
}
double k1e(double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInf;
  return x <= 2 ? k1_series(x) * std::exp(x) : k_scaled_integral(1, x);
}

// PyTorch gives NaN at infinity, where the C library gives the limit, 0.
double bessel_j0(double x) { return std::isinf(x) ? kNan : ::j0(x); }
double bessel_j1(double x) { return std::isinf(x) ? kNan : ::j1(x); }
double bessel_y0(double x) { return x < 0 || std::isinf(x) ? kNan : ::y0(x); }
double bessel_y1(double x) { return x < 0 || std::isinf(x) ? kNan : ::y1(x); }

double spherical_bessel_j0(double x) {
  if (std::isinf(x)) return 0;
  if (std::fabs(x) < 1e-3) return 1 - x * x / 6 * (1 - x * x / 20);
  return std::sin(x) / x;
}

namespace {

// DLMF 9.4.1, in extended precision: for negative x the terms cancel.
double airy_series(double x) {
  const long double cube = static_cast<long double>(x) * x * x;
  long double f = 1;
  long double g = x;
  long double f_sum = f;
  long double g_sum = g;
  for (int k = 1; k < 200; ++k) {
    f *= cube / ((3.0L * k - 1) * (3.0L * k));
    g *= cube / ((3.0L * k) * (3.0L * k + 1));
    f_sum += f;
    g_sum += g;
  }
  // Ai(0) and -Ai'(0), DLMF 9.2.3 and 9.2.4
  const long double at_zero = 0.355028053887817239260063186004183177L;
  const long double minus_slope = 0.258819403792806798405183560189203963L;
  return static_cast<double>(at_zero * f_sum - minus_slope * g_sum);
}

// DLMF 9.7.9: the oscillating expansion for large negative arguments; x > 0 stands for Ai(-x).
double airy_oscillating(double x) {
  const double zeta = 2.0 / 3 * x * std::sqrt(x);
  double even = 0;
  double odd = 0;
  double term = 1;  // u(k) / zeta^k
  for (int k = 0; k < 16; ++k) {
    (k % 2 == 0 ? even : odd) += (k % 4 < 2 ? 1 : -1) * term;
    term *= (6.0 * k + 5) * (6.0 * k + 3) * (6.0 * k + 1) / (216.0 * (k + 1) * (2.0 * k + 1)) / zeta;
  }
  const double phase = zeta - kPi / 4;
  return (std::cos(phase) * even + std::sin(phase) * odd) / (std::sqrt(kPi) * std::sqrt(std::sqrt(x)));
}

}  // namespace

double airy_ai(double x) {
  if (std::isnan(x) || std::isinf(x)) return kNan;
  if (x < -9) return airy_oscillating(-x);
  if (x < 1) return airy_series(x);
  const double zeta = 2.0 / 3 * x * std::sqrt(x);
  return std::sqrt(x / 3) / kPi * std::exp(-zeta) * k_scaled_integral(1.0 / 3, zeta);  // DLMF 9.6.2
}

}  // namespace toroid::special
