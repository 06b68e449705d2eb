#include "runtime/kernels/registry/prepared_constants.h"

#include "base/machine/out_of_memory.h"

namespace toroid {

PreparedConstants::Entry& PreparedConstants::entry(const void* data, const Kind& kind, const void* layout) {
  const std::lock_guard lock(mutex_);
  for (Entry& known : entries_) {
    if (known.constant == data && &known.kind == &kind && kind.are_equal(known.layout, layout)) return known;
  }
  return entries_.emplace_front(data, kind, layout);
}

const float* PreparedConstants::made(Entry& entry, int64_t count, const std::function<void(float*)>& make) {
  const std::lock_guard making(entry.mutex);
  if (entry.data != nullptr) return entry.data;
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  float* const made = asking_for(bytes, "packed weights", [&] {
    const std::lock_guard lock(mutex_);
    return reinterpret_cast<float*>(memory_.get(bytes));
  });
  make(made);
  entry.data = made;
  const std::lock_guard lock(mutex_);
  bytes_ += static_cast<int64_t>(bytes);
  return made;
}

int64_t PreparedConstants::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace toroid
