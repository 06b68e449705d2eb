#include "runtime/kernels/sums_for_test.h"

#include <cmath>

namespace toroid {

void add_products(SumInDouble& sum, const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count) {
  // One sum would wait for each addition before the next.
  constexpr int64_t kSums = 4;
  SumInDouble sums[kSums] = {sum};
  const auto add = [&](SumInDouble& to, int64_t i) {
    const double product = static_cast<double>(a[i * a_step]) * static_cast<double>(b[i * b_step]);
    to.value += product;
    to.magnitude += std::abs(product);
  };
  int64_t i = 0;
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
