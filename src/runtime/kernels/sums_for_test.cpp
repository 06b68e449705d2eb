#include "runtime/kernels/sums_for_test.h"

#include <cmath>

namespace toroid {

void add_products(SumInDouble& sum, const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count) {
  SumInDouble result = sum;
  for (int64_t i = 0; i < count; ++i) {
    const double product = static_cast<double>(a[i * a_step]) * static_cast<double>(b[i * b_step]);
    result.value += product;
    result.magnitude += std::abs(product);
  }
  sum = result;
}

}  // namespace toroid
