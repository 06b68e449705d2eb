// Channels that lie apart, next to each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace toroid {

// Pixels of a row of an image, each with so many elements. Strides in bytes.
struct PixelRow {
  const std::byte* from;
  int64_t count, column, elements, element;
};
// Copies the pixels, of elements of one or two bytes, without gaps.
void interleave(const PixelRow& row, int64_t element_bytes, std::byte* to);

}  // namespace toroid
