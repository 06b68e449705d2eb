#include "runtime/memory/bump_allocator.h"

namespace toroid {
namespace {

constexpr size_t kPage = size_t{2} << 20;  // a large one
constexpr size_t kChunk = 8 * kPage;
constexpr size_t kShared = kChunk / 2;  // less than this has no chunk of its own; what is never written takes no memory
constexpr size_t kLine = 64;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

std::byte* BumpAllocator::add(size_t bytes) {
  return reinterpret_cast<std::byte*>(chunks_.emplace_back(bytes, memory_ ? &*memory_ : nullptr).data());
}

std::byte* BumpAllocator::get(size_t bytes) {
  bytes = rounded(bytes, kLine);
  if (memory_) return add(bytes);
  if (bytes >= kShared) return add(rounded(bytes, kPage));
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
