// What threads sleep on until something has happened: C++20's std::atomic::wait for a count, by a futex, for source packages are C++17.
//
//   const uint32_t then = events.count();
//   if (there_is_nothing_to_do()) events.wait(then);      // returns at once where something has happened since
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace toroid {

class EventCount {
 public:
  uint32_t count() const { return count_.load(std::memory_order_acquire); }

  // Wakes all. Asks the system only where somebody waits.
  void add() {
    count_.fetch_add(1);
    if (waiting_.load() != 0) ask_system(FUTEX_WAKE_PRIVATE, INT_MAX);
  }

  void wait(uint32_t then) {
    // In one order with the count: either this thread sees the new count, or whoever has counted sees that it waits. The system compares
    // the count again before the thread sleeps.
    waiting_.fetch_add(1);
    while (count_.load() == then) ask_system(FUTEX_WAIT_PRIVATE, then);
    waiting_.fetch_sub(1);
  }

  // In the child of a fork, where the threads that waited are not.
  void forget_waiting() { waiting_ = 0; }

 private:
  void ask_system(int operation, uint32_t value) { ::syscall(SYS_futex, &count_, operation, value, nullptr, nullptr, 0); }

  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> waiting_{0};
};
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the system knows the number alone");

}  // namespace toroid
