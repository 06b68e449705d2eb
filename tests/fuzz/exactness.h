// Which operators round, and so get noise in the reference (eager.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/host_tensor.h"

namespace toroid::fuzz {

// "add" of "aten::add_.Tensor(v0, v1)".
std::string base_of(std::string_view call);
// Operators that pick, move or compare elements: their results are no less exact than their operands.
bool is_exact(const std::string& base);
// Operators that are exact while all numbers are multiples of 1/16 and small.
bool is_exact_on_grid(const std::string& base);
// Are operands and result such numbers, so that sums and products over the operands' elements are exact in the dtype?
bool is_on_grid(const HostTensor& result, const std::vector<HostTensor>& operands);
// Operators that may round a sum or product before they are done with it, or not: in another order, or fused into one
// operation, what overflowed on the way may not.
bool may_overflow_on_the_way(const std::string& base);
bool is_element_wise(const std::string& base);  // among these
// Operators that say which of two elements is the larger one, or comes first: of two zeros nobody says.
bool orders_elements(std::string_view call);
// Distances of many rows, which PyTorch takes from products: sqrt(x x + y y - 2 x y). Of rows that are near each other cancellation leaves
// the rounding of their squares, so a row may have a distance from itself.
bool is_root_of_products(std::string_view call, const std::vector<HostTensor>& operands);
// Such distances with their squares a unit in the last place of the operands' squares larger, or smaller.
HostTensor with_rounded_squares(const HostTensor& distances, const std::vector<HostTensor>& operands, bool larger);
// Operators that draw random numbers, and those whose results are equal only by an accident that never happens.
bool is_random(const std::string& base);
bool draws_many_values(const std::string& base);
int significant_bits(DType dtype);
uint64_t seed_of(std::string_view text);

}  // namespace toroid::fuzz
