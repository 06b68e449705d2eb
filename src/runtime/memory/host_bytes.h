// Memory that may be the host's: temporaries, outputs, and what is made of weights.
#pragma once

#include <cstddef>
#include <list>
#include <optional>

#include "base/machine/aligned_bytes.h"

namespace toroid {

// The host's allocator, which may be called from any thread. `allocate` gives null where there is no memory.
struct HostMemory {
  void* user = nullptr;
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*release)(void* user, void* data, size_t bytes, size_t alignment) = nullptr;
};

inline std::optional<HostMemory> copy_of(const HostMemory* memory) { return memory == nullptr ? std::nullopt : std::optional(*memory); }

// Not initialised, 64-byte aligned.
class HostBytes {
 public:
  // memory null: as AlignedBytes. Throws std::bad_alloc.
  HostBytes(size_t bytes, const HostMemory* memory);
  ~HostBytes();
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  std::optional<HostMemory> memory_;
  std::optional<AlignedBytes> own_;
  char* data_;
};

// Moves the smallest block that has at least `size` bytes and at most `most` from the one list to the front of the other. False where there
// is none.
bool take_smallest(std::list<HostBytes>& from, size_t size, size_t most, std::list<HostBytes>& to);

}  // namespace toroid
