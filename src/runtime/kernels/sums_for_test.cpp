#include "runtime/kernels/sums_for_test.h"

#include <cmath>
#include <cstring>

namespace toroid {
namespace {

typedef double Doubles __attribute__((vector_size(32)));
typedef int64_t Words __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(16)));
constexpr int64_t kLanes = 4;

Doubles load(const float* values) {
  Floats floats;
  std::memcpy(&floats, values, sizeof floats);
  return __builtin_convertvector(floats, Doubles);
}
Doubles magnitudes_of(Doubles values) { return (Doubles)((Words)values & INT64_MAX); }

// Adds the terms of as many whole vectors as there are, and says how many terms these have. Several sums, since one would wait for each
// addition before the next.
int64_t add_whole_vectors(SumInDouble& sum, const float* a, const float* b, int64_t count) {
  constexpr int64_t kSums = 2;
  Doubles values[kSums] = {}, magnitudes[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * kLanes <= count; i += kSums * kLanes) {
    for (int64_t k = 0; k < kSums; ++k) {
      const Doubles product = load(a + i + k * kLanes) * load(b + i + k * kLanes);
      values[k] += product;
      magnitudes[k] += magnitudes_of(product);
    }
  }
  for (int64_t k = 0; k < kSums; ++k) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sum.value += values[k][lane];
      sum.magnitude += magnitudes[k][lane];
    }
  }
  return i;
}

}  // namespace

void add_products(SumInDouble& sum, const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count) {
  constexpr int64_t kSums = 4;
  SumInDouble sums[kSums] = {sum};
  const auto add = [&](SumInDouble& to, int64_t i) {
    const double product = static_cast<double>(a[i * a_step]) * static_cast<double>(b[i * b_step]);
    to.value += product;
    to.magnitude += std::abs(product);
  };
  int64_t i = a_step == 1 && b_step == 1 ? add_whole_vectors(sums[0], a, b, count) : 0;
  for (; i + kSums <= count; i += kSums) {
    for (int64_t k = 0; k < kSums; ++k) add(sums[k], i + k);
  }
  for (; i < count; ++i) add(sums[0], i);
  sum = {};
  for (const SumInDouble& part : sums) {
    sum.value += part.value;
    sum.magnitude += part.magnitude;
  }
}

}  // namespace toroid
