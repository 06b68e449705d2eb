#include "tune/measure/same_result.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "tensor/host_tensor.h"

namespace toroid::tune {
namespace {

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::F64: return 0x1p-52;
    case DType::F32: return 0x1p-23;
    case DType::F16: return 0x1p-10;
    case DType::BF16: return 0x1p-7;
    default: return 0;
  }
}

template <class T>
double element(std::span<const std::byte> bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<double>(static_cast<float>(value));
}

template <class T>
double root_mean_square(std::span<const std::byte> bytes) {
  double squares = 0;
  size_t count = 0;
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    const double value = element<T>(bytes, i);
    if (!std::isfinite(value)) continue;
    squares += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
}

bool are_same(double actual, double expected, double allowed) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  return actual == expected || std::fabs(actual - expected) <= allowed;
}

// One NaN is like another.
std::string number_text(double number, int digits) { return std::isnan(number) ? "nan" : fmt::format("{:.{}g}", number, digits); }

}  // namespace

double allowed_difference(DType dtype, int64_t depth, std::optional<DType> sums) {
  const double of_sums = std::max(epsilon(compute_dtype(dtype)), sums ? epsilon(compute_dtype(*sums)) : 0);
  return 2 * epsilon(dtype) + (16 + 8 * std::sqrt(static_cast<double>(depth))) * of_sums;
}

std::optional<std::string> difference_of_results(DType dtype, int64_t depth, std::span<const std::byte> actual,
                                                 std::span<const std::byte> expected, std::optional<DType> sums, size_t row) {
  TOROID_CHECK(actual.size() == expected.size());
  return visit_dtype(dtype, [&]<class T>(T) -> std::optional<std::string> {
    const double relative = allowed_difference(dtype, depth, sums), of_all = root_mean_square<T>(expected);
    const size_t count = expected.size() / sizeof(T);
    size_t wrong = 0;
    std::string first;
    double usual = of_all;
    for (size_t i = 0; i < count; ++i) {
      if (row != 0 && i % row == 0) {
        const size_t elements = std::min(row, count - i);
        usual = std::max(of_all, root_mean_square<T>(expected.subspan(i * sizeof(T), elements * sizeof(T))));
      }
      const double a = element<T>(actual, i), e = element<T>(expected, i);
      const double allowed = std::isfinite(e) ? relative * std::max(std::fabs(e), usual) : 0;
      const bool same =
          is_floating(dtype) ? are_same(a, e, allowed) : std::memcmp(&actual[i * sizeof(T)], &expected[i * sizeof(T)], sizeof(T)) == 0;
      if (same || wrong++ != 0) continue;
      first = fmt::format("element {} is {}, expected {} (off by {}, allowed {})", i, number_text(a, 6), number_text(e, 6),
                          number_text(std::fabs(a - e), 2), number_text(allowed, 2));
    }
    if (wrong == 0) return std::nullopt;
    return fmt::format("{}; {} of {} elements differ", first, wrong, count);
  });
}

}  // namespace toroid::tune
