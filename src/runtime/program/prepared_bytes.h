// What a variant computes of constants once for all calls.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "runtime/memory/host_bytes.h"

namespace toroid {

class PreparedBytes {
 public:
  // make() gives the bytes, never null. Whoever comes first calls it, and others wait; after it has thrown, the next one does. Not
  // std::call_once: it brings the C++ library's thread-local objects into each package, and where make throws while no memory is left, it
  // ends the process.
  template <class Make>
  char* get(Make make) {
    if (char* const known = data_.load(std::memory_order_acquire)) return known;
    const std::lock_guard lock(mutex_);
    if (!bytes_) {
      bytes_ = make();
      data_.store(bytes_->data(), std::memory_order_release);
    }
    return bytes_->data();
  }

 private:
  std::mutex mutex_;  // of what makes it
  std::unique_ptr<HostBytes> bytes_;
  std::atomic<char*> data_ = nullptr;  // of bytes_, when they are there
};

}  // namespace toroid
