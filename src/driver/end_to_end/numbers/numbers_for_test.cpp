#include "driver/end_to_end/numbers/numbers_for_test.h"

#include <numeric>

namespace toroid {

HostTensor uniform(std::vector<int64_t> sizes, double offset) {
  HostTensor x(DType::F32, std::move(sizes));
  float* elements = x.mutable_data<float>();
  uint64_t state = 9;
  for (int64_t i = 0; i < x.numel(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    elements[i] = static_cast<float>(offset + static_cast<double>(state >> 40) * 0x1p-24);
  }
  return x;
}

HostTensor numbered(DType dtype, std::vector<int64_t> sizes, int64_t step) {
  std::vector<int64_t> values(static_cast<size_t>(numel(sizes)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) * step % 61 - 30;
  if (!is_floating(dtype)) return HostTensor::from_ints(dtype, std::move(sizes), values);
  return HostTensor::from_doubles(dtype, std::move(sizes), std::vector<double>(values.begin(), values.end()));
}

std::vector<std::vector<double>> elements_of_results(const HostTensor& x, const std::vector<bool>& is_reduced) {
  const std::vector<int64_t>& sizes = x.sizes();
  int64_t results = 1;
  for (size_t d = 0; d < sizes.size(); ++d) results *= is_reduced[d] ? 1 : sizes[d];
  std::vector<std::vector<double>> elements(static_cast<size_t>(results));
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      const int64_t index = rest % sizes[d];
      rest /= sizes[d];
      if (!is_reduced[d]) at += index * stride, stride *= sizes[d];
    }
    elements[static_cast<size_t>(at)].push_back(x.double_at(i));
  }
  return elements;
}

double sum_of(const std::vector<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

double variance_of(const std::vector<double>& numbers) {
  const auto n = static_cast<double>(numbers.size());
  const double mean = sum_of(numbers) / n;
  double squares = 0;
  for (const double each : numbers) squares += (each - mean) * (each - mean);
  return squares / (n - 1);
}

}  // namespace toroid
