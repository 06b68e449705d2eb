// Sorts indices, in code that runs seldom: one function for all orders, where std::sort would be some hundreds of bytes more for each.
#pragma once

#include <cstddef>

#include "base/span.h"

namespace toroid {

// Of two that are equal the smaller index comes first.
void sort_indices(Span<size_t> indices, bool (*is_before)(const void* order, size_t a, size_t b), const void* order);

// is_before(a, b): as std::sort's, of two indices.
template <class Before>
void sort_indices(Span<size_t> indices, const Before& is_before) {
  sort_indices(
      indices, [](const void* order, size_t a, size_t b) { return (*static_cast<const Before*>(order))(a, b); }, &is_before);
}

}  // namespace toroid
