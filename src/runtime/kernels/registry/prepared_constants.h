// Constants in the layouts that kernels want, made once in the life of a loaded program: packed weights.
//
// A layout is a struct of all that decides what is made of a constant, with `auto operator<=>(const Layout&) const = default`. Layouts of
// two types are never the same, whatever their numbers.
//
//   struct TransformedFilters {
//     int64_t tile, channels;
//     auto operator<=>(const TransformedFilters&) const = default;
//   };
//   prepared.get(weights, TransformedFilters{4, 64}, count, make);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <typeindex>
#include <utility>

#include "runtime/memory/bump_allocator.h"

namespace toroid {

class PreparedConstants {
 public:
  // memory: of the host's, which gives what is made; null: as AlignedBytes.
  explicit PreparedConstants(const HostMemory* memory = nullptr) : memory_(memory) {}
  // `count` floats, 64-byte aligned, that `make` wrote the first time: what this layout makes of the constant at `data`. The memory lasts
  // as long as this object. Several threads may call; of those that ask for the same one makes it. Throws Error{Environment} when there is
  // no memory.
  template <class Layout>
  const float* get(const void* data, const Layout& layout, int64_t count, const std::function<void(float*)>& make) {
    return made(entry(data, layout), count, make);
  }

  int64_t bytes() const;  // of all layouts

 private:
  struct Entry {
    std::once_flag made;
    const float* data = nullptr;
  };
  template <class Layout>
  using Entries = std::map<std::pair<const void*, Layout>, Entry>;

  template <class Layout>
  Entry& entry(const void* data, const Layout& layout) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<void>& entries = entries_[typeid(Layout)];
    if (!entries) entries = std::make_shared<Entries<Layout>>();
    return (*std::static_pointer_cast<Entries<Layout>>(entries))[{data, layout}];
  }
  const float* made(Entry& entry, int64_t count, const std::function<void(float*)>& make);

  mutable std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> entries_;  // of each type of layout its Entries
  BumpAllocator memory_;
  int64_t bytes_ = 0;
};

}  // namespace toroid
