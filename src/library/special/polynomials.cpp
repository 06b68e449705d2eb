#include "library/special/polynomials.h"

#include <cmath>
#include <limits>

namespace toroid::special {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargestHermiteDegree = 512;
// Beyond this degree the Chebyshev polynomials inside [-1, 1] come from their trigonometric form, whose error does
// not grow.
constexpr double kTrigonometricDegree = 8;

// p0 at degree 0, p1 at degree 1, then next(k, p_k, p_{k-1}) at degree k + 1. Stops at NaN, which stays.
template <class Next>
double recur(double n, double p0, double p1, Next next) {
  if (std::isnan(n)) return kNan;
  const double degree = std::trunc(n);
  if (degree < 0) return 0;
  if (degree == 0) return p0;
  double previous = p0, current = p1;
  for (double k = 1; k < degree && !std::isnan(current); ++k) {
    const double following = next(k, current, previous);
    previous = current;
    current = following;
  }
  return current;
}

double chebyshev(double x, double n, double p1) {
  return recur(n, 1, p1, [&](double, double current, double previous) { return 2 * x * current - previous; });
}

bool is_trigonometric(double x, double n) { return std::trunc(n) > kTrigonometricDegree && std::fabs(x) < 1; }

}  // namespace

double chebyshev_t(double x, double n) { return is_trigonometric(x, n) ? std::cos(std::trunc(n) * std::acos(x)) : chebyshev(x, n, x); }

double chebyshev_u(double x, double n) {
  if (!is_trigonometric(x, n)) return chebyshev(x, n, 2 * x);
  const double t = std::acos(x);
  return std::sin((std::trunc(n) + 1) * t) / std::sin(t);
}

double chebyshev_v(double x, double n) {
  if (!is_trigonometric(x, n)) return chebyshev(x, n, 2 * x - 1);
  const double t = std::acos(x);
  return std::cos((std::trunc(n) + 0.5) * t) / std::cos(t / 2);
}

double chebyshev_w(double x, double n) {
  if (!is_trigonometric(x, n)) return chebyshev(x, n, 2 * x + 1);
  const double t = std::acos(x);
  return std::sin((std::trunc(n) + 0.5) * t) / std::sin(t / 2);
}

double hermite_h(double x, double n) {
  if (std::trunc(n) > kLargestHermiteDegree) return kNan;
  return recur(n, 1, 2 * x, [&](double k, double current, double previous) { return 2 * (x * current - k * previous); });
}

double hermite_he(double x, double n) {
  if (std::trunc(n) > kLargestHermiteDegree) return kNan;
  return recur(n, 1, x, [&](double k, double current, double previous) { return x * current - k * previous; });
}

double laguerre_l(double x, double n) {
  return recur(n, 1, 1 - x,
               [&](double k, double current, double previous) { return ((2 * k + 1 - x) * current - k * previous) / (k + 1); });
}

double legendre_p(double x, double n) {
  return recur(n, 1, x, [&](double k, double current, double previous) { return ((2 * k + 1) * x * current - k * previous) / (k + 1); });
}

}  // namespace toroid::special
