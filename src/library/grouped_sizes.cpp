#include "library/grouped_sizes.h"

#include "base/error.h"
#include "base/format.h"

namespace toroid {

GroupedSizes grouped_sizes(Span<const int64_t> x, Span<const int64_t> y, int64_t groups) {
  const GroupedBy by = y.size() == 3 ? GroupedBy::Rows : x.size() == 3 ? GroupedBy::Columns : GroupedBy::Depth;
  return {by, groups, x[x.size() - 2], y.back(), x.back()};
}

std::vector<int64_t> group_bounds(Span<const int64_t> ends, int64_t size) {
  std::vector<int64_t> bounds = {0};
  for (int64_t end : ends) {
    if (end < bounds.back() || end > size) {
      throw Error(ErrorKind::InvalidInput,
                  formatted("a group of a product by groups ends at {}; groups follow each other within [0, {}]", end, size))
          .help("the offsets are the running sum of the groups' sizes");
    }
    bounds.push_back(end);
  }
  return bounds;
}

}  // namespace toroid
