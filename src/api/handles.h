// Memory for the objects that callers hold by pointer. It is never given back to the system: what is closed is used again, the one that was
// closed first is first, and not before 256 are. So a pointer to something that was closed not long ago is known to be one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <mutex>
#include <type_traits>

#include "api/structs.h"

namespace toroid::api {

// Of a handle that one thread at a time uses. Who closes it meanwhile, a callback for one, leaves that to the thread that uses it.
class Use {
 public:
  bool try_begin() {
    int idle = kIdle;
    return state_.compare_exchange_strong(idle, kUsed, std::memory_order_acquire, std::memory_order_relaxed);
  }
  // False where it was closed meanwhile.
  bool end() {
    int used = kUsed;
    return state_.compare_exchange_strong(used, kIdle, std::memory_order_release, std::memory_order_acquire);
  }
  // False where somebody uses it.
  bool close() { return state_.exchange(kClosed, std::memory_order_acq_rel) != kUsed; }
  void open() { state_.store(kIdle, std::memory_order_relaxed); }

 private:
  static constexpr int kIdle = 0, kUsed = 1, kClosed = 2;
  std::atomic<int> state_{kIdle};
};

template <class Handle, class = void>
struct HasUse : std::false_type {};
template <class Handle>
struct HasUse<Handle, std::void_t<decltype(Handle::use)>> : std::true_type {};

// Handle: {uint64_t mark = 0; std::unique_ptr<Value> value; Handle* next_closed = nullptr;}, a constant kMark, and for some `Use use`.
template <class Handle>
class Handles {
 public:
  template <class Value>
  static Handle* make(std::unique_ptr<Value> value) {
    Handles& all = instance();
    const std::lock_guard lock(all.mutex_);
    Handle* handle = nullptr;
    if (all.num_closed_ > kLeastClosed) {
      handle = all.first_closed_;
      all.first_closed_ = handle->next_closed;
      --all.num_closed_;
    } else {
      if (all.unused_ == 0) {
        all.blocks_.emplace_front();
        all.unused_ = all.blocks_.front().size();
      }
      handle = &all.blocks_.front()[--all.unused_];
    }
    handle->value = std::move(value);
    if constexpr (HasUse<Handle>::value) handle->use.open();
    __atomic_store_n(&handle->mark, Handle::kMark, __ATOMIC_RELEASE);
    return handle;
  }

  // Nothing happens for null and for what is no open one. One that is used lives until end_use.
  static void close(Handle* handle) noexcept {
    if (!is_open(handle)) return;
    uint64_t mark = Handle::kMark;
    if (!__atomic_compare_exchange_n(&handle->mark, &mark, uint64_t{0}, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
    if constexpr (HasUse<Handle>::value) {
      if (!handle->use.close()) return;
    }
    destroy(handle);
  }

  static void end_use(Handle* handle) noexcept {
    if (!handle->use.end()) destroy(handle);
  }

  static bool is_open(const Handle* handle) noexcept {
    return handle != nullptr && reinterpret_cast<uintptr_t>(handle) % alignof(Handle) == 0 &&
           __atomic_load_n(&handle->mark, __ATOMIC_ACQUIRE) == Handle::kMark;
  }
  // Throws Refusal unless it is an open one.
  static void require_open(const Handle* handle, const char* what) {
    require_pointer(handle, what);
    if (!is_open(handle)) fail(TOROID_ERROR_ARGUMENT, "'{}' was closed, or is none", what);
  }

 private:
  static constexpr size_t kLeastClosed = 256;

  // Never destroyed: a host may close its objects when static ones are gone.
  static Handles& instance() {
    static Handles& handles = *new Handles;
    return handles;
  }

  static void destroy(Handle* handle) noexcept {
    handle->value.reset();
    Handles& all = instance();
    const std::lock_guard lock(all.mutex_);
    handle->next_closed = nullptr;
    (all.num_closed_ == 0 ? all.first_closed_ : all.last_closed_->next_closed) = handle;
    all.last_closed_ = handle;
    ++all.num_closed_;
  }

  std::mutex mutex_;
  // In blocks: one by one they would lie between what is given back, and keep its pages.
  std::forward_list<std::array<Handle, 16>> blocks_;
  size_t unused_ = 0;  // of the first block
  Handle *first_closed_ = nullptr, *last_closed_ = nullptr;
  size_t num_closed_ = 0;
};

}  // namespace toroid::api
