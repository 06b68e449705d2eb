// Memory that lasts as long as a loaded program, in large pages where the system has them: weights are read from end to end in each call,
// and with pages of 4 KiB a look into the page table would come with every 64 lines. Of a host's memory each piece is asked for by itself.
#pragma once

#include <cstddef>
#include <list>

#include "runtime/memory/host_bytes.h"

namespace toroid {

class BumpAllocator {
 public:
  explicit BumpAllocator(const HostMemory* memory = nullptr) : memory_(copy_of(memory)) {}
  // 64-byte aligned. Throws std::bad_alloc. One thread at a time.
  std::byte* get(size_t bytes);

 private:
  std::byte* add(size_t bytes);

  std::optional<HostMemory> memory_;
  std::list<HostBytes> chunks_;
  std::byte* free_ = nullptr;  // of the last chunk that is shared
  size_t left_ = 0;
};

}  // namespace toroid
