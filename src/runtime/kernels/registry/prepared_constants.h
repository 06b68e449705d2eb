// Constants in the forms that kernels want them, made once in the life of a loaded program: packed weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "runtime/memory/bump_allocator.h"

namespace toroid {

class PreparedConstants {
 public:
  // `count` floats, 64-byte aligned, that `make` wrote the first time. `form`: all that decides them besides the constant at `data`. The
  // memory lasts as long as this object. Several threads may call; of those that ask for the same one makes it.
  // Throws Error{Environment} when there is no memory.
  const float* get(const void* data, std::span<const int64_t> form, int64_t count, const std::function<void(float*)>& make);

  int64_t bytes() const;  // of all forms

 private:
  struct Entry {
    std::once_flag made;
    const float* data = nullptr;
  };
  struct Key {
    const void* data;
    std::vector<int64_t> form;
  };
  struct KeyView {
    const void* data;
    std::span<const int64_t> form;
  };
  struct Less {
    using is_transparent = void;
    static KeyView view(const Key& key) { return {key.data, key.form}; }
    static KeyView view(const KeyView& key) { return key; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      const KeyView x = view(a), y = view(b);
      if (x.data != y.data) return std::less<>()(x.data, y.data);
      return std::lexicographical_compare(x.form.begin(), x.form.end(), y.form.begin(), y.form.end());
    }
  };

  mutable std::shared_mutex mutex_;
  std::map<Key, std::unique_ptr<Entry>, Less> entries_;
  BumpAllocator memory_;
  int64_t bytes_ = 0;
};

}  // namespace toroid
