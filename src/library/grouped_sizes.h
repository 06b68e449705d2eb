// Matrix products by groups: mixtures of experts, where each group of rows has a matrix of its own.
//
//   products.grouped   x, y, ends I64 [G]   () -> one of
//     x [M,K],   y [G,K,N] -> [M,N]     rows [end of the group before, its end) of x times the group's y; rows of no group are 0
//     x [G,M,K], y [K,N]   -> [M,N]     the group's x times its columns of y; columns of no group are 0
//     x [M,K],   y [K,N]   -> [G,M,N]   the group's columns of x times its rows of y; a group of none gives 0
//
// Any dtype that Matmul has, equal among x, y and the result. Ends that fall or lie past what they divide throw Error{InvalidInput}.
// Source: aten::_grouped_mm.
#pragma once

#include <cstdint>
#include <vector>

#include "base/span.h"

namespace toroid {

enum class GroupedBy { Rows, Columns, Depth };
struct GroupedSizes {
  GroupedBy by;
  int64_t groups, m, n, k;
  int64_t divided() const { return by == GroupedBy::Rows ? m : by == GroupedBy::Columns ? n : k; }
};
GroupedSizes grouped_sizes(Span<const int64_t> x, Span<const int64_t> y, int64_t groups);

// Where groups begin, and the end of the last: from their ends, which divide [0, size).
std::vector<int64_t> group_bounds(Span<const int64_t> ends, int64_t size);

}  // namespace toroid
