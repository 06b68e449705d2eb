// Memory that a thread keeps from call to call: fresh pages would cost more than what is done in them.
#pragma once

#include <cstdint>
#include <optional>

#include "base/machine/aligned_bytes.h"
#include "base/machine/per_thread.h"

namespace toroid {

// So many floats in whole cache lines, an odd number of them: rows of this length that follow each other do not share sets of the caches.
inline int64_t padded_stride(int64_t floats) {
  constexpr int64_t kLine = 16;
  return ((floats + kLine - 1) / kLine | 1) * kLine;
}

// Of static storage, as all that threads have their own of (per_thread.h).
class Scratch {
 public:
  // So many elements of this thread's, 64-byte aligned, valid until its next call. Throws std::bad_alloc.
  template <class Element = float>
  Element* get(int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(Element);
    std::optional<AlignedBytes>& memory = memory_.get();
    if (!memory || bytes > memory->size()) {
      memory.reset();
      memory.emplace(bytes < kMuch ? bytes : (bytes + kLargePage - 1) / kLargePage * kLargePage);
    }
    return reinterpret_cast<Element*>(memory->data());
  }

 private:
  // From here on in whole large pages, which AlignedBytes asks for.
  static constexpr size_t kMuch = size_t{512} << 10, kLargePage = size_t{2} << 20;

  PerThread<std::optional<AlignedBytes>> memory_;
};

}  // namespace toroid
