#include "runtime/lasting_memory.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <new>

namespace toroid {
namespace {

constexpr size_t kPage = size_t{2} << 20;         // a large one
constexpr size_t kChunk = 8 * kPage;
constexpr size_t kShared = kChunk / 2;            // less than this has no chunk of its own; what is never written takes no memory
constexpr size_t kLine = 64;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void LastingMemory::Free::operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kPage}); }

std::byte* LastingMemory::add(size_t bytes) {
  const size_t whole = rounded(bytes, kPage);
  chunks_.emplace_back(static_cast<std::byte*>(::operator new[](whole, std::align_val_t{kPage})));
#ifdef __linux__
  // Where it is refused, pages are small.
  (void)::madvise(chunks_.back().get(), whole, MADV_HUGEPAGE);
#endif
  return chunks_.back().get();
}

std::byte* LastingMemory::get(size_t bytes) {
  bytes = rounded(bytes, kLine);
  if (bytes >= kShared) return add(bytes);
  if (bytes > left_) {
    free_ = add(kChunk);
    left_ = kChunk;
  }
  std::byte* const result = free_;
  free_ += bytes;
  left_ -= bytes;
  return result;
}

}  // namespace toroid
