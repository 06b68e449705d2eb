#include "runtime/kernels/registry/prepared_constants.h"

#include "base/machine/out_of_memory.h"

namespace toroid {

const float* PreparedConstants::get(const void* data, std::span<const int64_t> form, int64_t count,
                                    const std::function<void(float*)>& make) {
  Entry* entry = nullptr;
  {
    std::shared_lock lock(mutex_);
    if (const auto found = entries_.find(KeyView{data, form}); found != entries_.end()) entry = found->second.get();
  }
  if (entry == nullptr) {
    std::unique_lock lock(mutex_);
    std::unique_ptr<Entry>& slot = entries_[Key{data, {form.begin(), form.end()}}];
    if (!slot) slot = std::make_unique<Entry>();
    entry = slot.get();
  }
  std::call_once(entry->made, [&] {
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    float* const made = asking_for(bytes, "packed weights", [&] {
      std::unique_lock lock(mutex_);
      return reinterpret_cast<float*>(memory_.get(bytes));
    });
    make(made);
    entry->data = made;
    std::unique_lock lock(mutex_);
    bytes_ += static_cast<int64_t>(bytes);
  });
  return entry->data;
}

int64_t PreparedConstants::bytes() const {
  std::shared_lock lock(mutex_);
  return bytes_;
}

}  // namespace toroid
