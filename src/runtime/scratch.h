// Memory that a thread keeps from call to call: fresh pages would cost more than what is done in them.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

namespace toroid {

// So many floats in whole cache lines, an odd number of them: rows of this length that follow each other do not share sets of the caches.
inline int64_t odd_lines(int64_t floats) {
  constexpr int64_t kLine = 16;
  return ((floats + kLine - 1) / kLine | 1) * kLine;
}

class Scratch {
 public:
  // So many floats, 64-byte aligned, valid until the next call. Throws std::bad_alloc.
  float* get(int64_t count) {
    if (count > count_) {
      count_ = 0;
      memory_.reset();
      memory_.reset(static_cast<float*>(::operator new[](static_cast<size_t>(count) * sizeof(float), kAlignment)));
      count_ = count;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* memory) const { ::operator delete[](memory, kAlignment); }
  };
  std::unique_ptr<float[], Free> memory_;
  int64_t count_ = 0;
};

}  // namespace toroid
