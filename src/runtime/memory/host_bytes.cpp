#include "runtime/memory/host_bytes.h"

#include <algorithm>
#include <cstdint>
#include <new>

namespace toroid {
namespace {

constexpr size_t kLine = 64;

}  // namespace

HostBytes::HostBytes(size_t bytes, const HostMemory* memory) : size_(std::max<size_t>(bytes, 1)), memory_(copy_of(memory)) {
  if (!memory_) {
    data_ = own_.emplace(size_).data();
    return;
  }
  data_ = static_cast<char*>(memory_->allocate(memory_->user, size_, kLine));
  if (data_ == nullptr) throw std::bad_alloc();
  if (reinterpret_cast<uintptr_t>(data_) % kLine == 0) return;
  memory_->release(memory_->user, data_, size_, kLine);
  throw std::bad_alloc();  // kernels would fault
}

HostBytes::~HostBytes() {
  if (memory_) memory_->release(memory_->user, data_, size_, kLine);
}

bool take_smallest(std::list<HostBytes>& from, size_t size, size_t most, std::list<HostBytes>& to) {
  auto best = from.end();
  for (auto each = from.begin(); each != from.end(); ++each) {
    if (each->size() >= size && each->size() <= most && (best == from.end() || each->size() < best->size())) best = each;
  }
  if (best == from.end()) return false;
  to.splice(to.begin(), from, best);
  return true;
}

}  // namespace toroid
