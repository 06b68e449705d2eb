#include "library/roots_of_unity.h"

#include <cmath>
#include <utility>

#include "base/numbers.h"

namespace toroid {

std::complex<double> root_of_unity(int64_t k, int64_t n) {
  // In eighths of n, reduced to the first eighth of the circle.
  int64_t eighths = 8 * k;
  const bool is_below = eighths > 4 * n;
  if (is_below) eighths = 8 * n - eighths;
  const bool is_left = eighths > 2 * n;
  if (is_left) eighths = 4 * n - eighths;
  const bool is_steep = eighths > n;
  if (is_steep) eighths = 2 * n - eighths;
  const double angle = numbers::kPi / 4 * static_cast<double>(eighths) / static_cast<double>(n);
  double re = std::cos(angle), im = std::sin(angle);
  if (is_steep) std::swap(re, im);
  return {is_left ? -re : re, is_below ? im : -im};
}

}  // namespace toroid
