#include "base/sort_indices.h"

#include <cstdlib>

namespace toroid {

void sort_indices(Span<size_t> indices, bool (*is_before)(const void* order, size_t a, size_t b), const void* order) {
  if (indices.size() < 2) return;  // qsort_r takes no null
  struct Order {
    bool (*is_before)(const void*, size_t, size_t);
    const void* order;
  } context = {is_before, order};
  const auto compare = [](const void* first, const void* second, void* argument) {
    const auto& [is_before, order] = *static_cast<const Order*>(argument);
    const size_t a = *static_cast<const size_t*>(first), b = *static_cast<const size_t*>(second);
    if (is_before(order, a, b)) return -1;
    if (is_before(order, b, a)) return 1;
    return a < b ? -1 : a > b ? 1 : 0;
  };
  ::qsort_r(indices.data(), indices.size(), sizeof(size_t), compare, &context);
}

}  // namespace toroid
