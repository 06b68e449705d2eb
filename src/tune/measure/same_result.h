// Is a candidate's result that of the reference?
//
// Both are computed in floating point, in different orders. With terms of random signs the errors of a sum of n terms grow with
// the square root of n and are relative to the size that such sums have, not to a sum that happens to be near zero. So an element
// may differ by
//
//   (2 eps(dtype) + (16 + 8 sqrt(n)) eps(dtype in which sums are computed)) max(|reference|, root mean square of the reference)
//
// where eps is the distance from 1 to the next number: 3e-5 of it for float32 and 1024 terms. The root mean square of an element's row
// takes the place of that of all where it is more: causal attention sums few terms in its first rows, which are larger. Integers and bools
// are exact; NaN equals NaN, infinities themselves.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "tensor/dtype.h"

namespace toroid::tune {

// Relative, for sums of `depth` terms. `sums`: the dtype in which they are computed, where that is narrower than what `dtype` says, as in
// parts of float32 that are kept in float64.
double allowed_difference(DType dtype, int64_t depth, std::optional<DType> sums = std::nullopt);

// Rows have `row` elements each, one after the other; 0: there are none. nullopt when it is; else "element 17 is 3.5, expected 3.4 (off by
// 0.1, allowed 1e-05); 5 of 24 elements differ".
std::optional<std::string> difference_of_results(DType dtype, int64_t depth, std::span<const std::byte> actual,
                                                 std::span<const std::byte> expected, std::optional<DType> sums = std::nullopt,
                                                 size_t row = 0);

}  // namespace toroid::tune
