#include "runtime/prepared_constants.h"

#include <new>

#include "support/out_of_memory.h"

namespace toroid {

const float* PreparedConstants::get(const void* data, std::span<const int64_t> form, int64_t count, const std::function<void(float*)>& make) {
  static constexpr std::align_val_t kAlignment{64};
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
    auto* memory = asking_for(bytes, "packed weights", [&] { return static_cast<float*>(::operator new[](bytes, kAlignment)); });
    std::unique_ptr<float[], void (*)(float*)> made(memory, [](float* p) { ::operator delete[](p, kAlignment); });
    make(memory);
    entry->data = std::move(made);
    std::unique_lock lock(mutex_);
    bytes_ += static_cast<int64_t>(bytes);
  });
  return entry->data.get();
}

int64_t PreparedConstants::bytes() const {
  std::shared_lock lock(mutex_);
  return bytes_;
}

}  // namespace toroid
