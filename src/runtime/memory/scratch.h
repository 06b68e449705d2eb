// Memory that a thread keeps from call to call: fresh pages would cost more than what is done in them.
#pragma once

#include <cstddef>
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
    return reinterpret_cast<Element*>(bytes(static_cast<size_t>(count) * sizeof(Element)));
  }

 private:
  char* bytes(size_t count);

  PerThread<std::optional<AlignedBytes>> memory_;
};

}  // namespace toroid
