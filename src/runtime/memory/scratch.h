// Memory that a thread keeps from call to call: fresh pages would cost more than what is done in them.
#pragma once

#include <cstdint>
#include <optional>

#include "base/machine/aligned_bytes.h"

namespace toroid {

// So many floats in whole cache lines, an odd number of them: rows of this length that follow each other do not share sets of the caches.
inline int64_t padded_stride(int64_t floats) {
  constexpr int64_t kLine = 16;
  return ((floats + kLine - 1) / kLine | 1) * kLine;
}

class Scratch {
 public:
  // So many elements, 64-byte aligned, valid until the next call. Throws std::bad_alloc.
  template <class Element = float>
  Element* get(int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(Element);
    if (!memory_ || bytes > memory_->size()) {
      memory_.reset();
      memory_.emplace(bytes < kMuch ? bytes : (bytes + kLargePage - 1) / kLargePage * kLargePage);
    }
    return reinterpret_cast<Element*>(memory_->data());
  }

 private:
  // From here on in whole large pages, which AlignedBytes asks for.
  static constexpr size_t kMuch = size_t{512} << 10, kLargePage = size_t{2} << 20;

  std::optional<AlignedBytes> memory_;
};

}  // namespace toroid
