// For tests of large tensors: their elements, and sums in double beside which results are compared. Optimised, although tests are not: they
// are most of such a test's time.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/host_tensor.h"

namespace toroid {

// Of float32 in [offset, offset + 1), all of 24 bits.
HostTensor uniform(std::vector<int64_t> sizes, double offset);
// Integers from -30 to 30; the i-th depends on i * step.
HostTensor numbered(DType dtype, std::vector<int64_t> sizes, int64_t step);

// For each result of a reduction of x over some dims the elements that it is made of.
std::vector<std::vector<double>> elements_of_results(const HostTensor& x, const std::vector<bool>& is_reduced);
double sum_of(const std::vector<double>& numbers);
double variance_of(const std::vector<double>& numbers);  // over one less than their number

}  // namespace toroid
