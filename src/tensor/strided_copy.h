// Copies elements between two layouts of the same tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/span.h"

namespace toroid {

// Strides in elements of `width` bytes, one per size; neither side needs alignment, and they must not overlap.
void copy_strided(std::byte* to, Span<const int64_t> to_strides, const std::byte* from, Span<const int64_t> from_strides,
                  Span<const int64_t> sizes, size_t width);

// Do two layouts put the elements of a tensor of these sizes in the same places?
bool is_same_layout(Span<const int64_t> sizes, Span<const int64_t> strides, Span<const int64_t> other_strides);

// Whether no two elements can lie at one place. False where that is not plain to see.
bool are_apart(Span<const int64_t> sizes, Span<const int64_t> strides);

// From the first element to the end of the last one, in bytes; 0 when there is none. None for negative strides, and where the number
// does not fit 63 bits.
std::optional<int64_t> extent_bytes(Span<const int64_t> sizes, Span<const int64_t> strides, int64_t width);
// The same of memory that is to be allocated for `what`. Throws Error{InvalidInput} where there is none.
size_t needed_bytes(Span<const int64_t> sizes, Span<const int64_t> strides, int64_t width, std::string_view what);

}  // namespace toroid
