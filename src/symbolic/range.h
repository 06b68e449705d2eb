// Interval arithmetic for symbolic expressions.
//
// Every function returns an interval that contains all results for operands in the given intervals, for example [2, 8]
// // [4, 4] = [0, 2]. Bounds beyond 64 bits become unbounded, so nothing here overflows. Where a divisor's interval
// contains 0, the result ignores that value: dividing by 0 is an error when the expression is evaluated.
#pragma once

#include <algorithm>

#include "symbolic/expr.h"

namespace toroid::sym {

Range add_ranges(Range a, Range b);
Range multiply_ranges(Range a, Range b);
Range floor_div_ranges(Range a, Range b);
Range mod_ranges(Range a, Range b);
inline Range min_ranges(Range a, Range b) { return {std::min(a.min, b.min), std::min(a.max, b.max)}; }
inline Range max_ranges(Range a, Range b) { return {std::max(a.min, b.min), std::max(a.max, b.max)}; }

int64_t floor_divide(int64_t a, int64_t b);  // rounds toward minus infinity; b > 0
int64_t floor_modulo(int64_t a, int64_t b);  // in [0, b); b > 0

}  // namespace toroid::sym
