#include "runtime/memory/scratch.h"

namespace toroid {

char* Scratch::bytes(size_t count) {
  // From here on in whole large pages, which AlignedBytes asks for.
  constexpr size_t kMuch = size_t{512} << 10, kLargePage = size_t{2} << 20;
  std::optional<AlignedBytes>& memory = memory_.get();
  if (!memory || count > memory->size()) {
    memory.reset();
    memory.emplace(count < kMuch ? count : (count + kLargePage - 1) / kLargePage * kLargePage);
  }
  return memory->data();
}

}  // namespace toroid
