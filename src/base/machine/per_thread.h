// An object of each thread's own, made where the thread first uses it and destroyed when the thread ends.
//
//   PerThread<std::vector<float>> copies;                 // at namespace scope, or static in a function
//   std::vector<float>& copy = copies.get();
//
// In the place of `thread_local`: for a destructor of such an object, and for the thread-local memory of a library that was opened late,
// the C library allocates at a thread's first use, and ends the process where there is no memory. Here that is std::bad_alloc, as
// elsewhere (out_of_memory.h). A use costs some nanoseconds: a thread's objects are in one table, which a key of the system's finds.
//
// When the library that holds this code is unloaded, or the process ends, the thread that does so loses its objects; those of threads that
// still run are left alone, as they may be in use.
#pragma once

#include <atomic>
#include <cstdint>

namespace toroid {

namespace per_thread {

// Where this thread has its object of that number, null before its first use; valid until the next call. A number of 0 is set to a new one.
// Throws std::bad_alloc.
void*& place(std::atomic<uint32_t>& number, void (*destroy)(void*));

}  // namespace per_thread

template <class T>
class PerThread {
 public:
  constexpr PerThread() = default;
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  // This thread's, at first T{}. Throws std::bad_alloc.
  T& get() {
    void*& object = per_thread::place(number_, [](void* of_thread) { delete static_cast<T*>(of_thread); });
    if (object == nullptr) object = new T();
    return *static_cast<T*>(object);
  }

 private:
  std::atomic<uint32_t> number_{0};
};

}  // namespace toroid
