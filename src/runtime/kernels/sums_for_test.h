// For tests: sums in float64 beside which results of kernels are compared. Optimised, although tests are not: they are most of such a
// test's time.
#pragma once

#include <cstdint>

namespace toroid {

struct SumInDouble {
  double value = 0, magnitude = 0;  // of the terms, and of their magnitudes
};
// Adds the terms a[i * a_step] * b[i * b_step] for i in [0, count).
void add_products(SumInDouble& sum, const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count);

}  // namespace toroid
