// The threads that compiled programs run on.
//
// Kernels last from microseconds to milliseconds, so workers spin for a short while before they sleep: waking a sleeping thread
// costs about as much as a small kernel.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace toroid {

class RuntimePool {
 public:
  // Threads in all, the caller's included. 0: TOROID_NUM_THREADS, else the machine's. Fewer where the system has no more to give.
  explicit RuntimePool(int threads = 0);
  ~RuntimePool();
  RuntimePool(const RuntimePool&) = delete;
  RuntimePool& operator=(const RuntimePool&) = delete;

  // Those that a pool of `threads` asks the system for, the caller's included.
  static int threads_for(int threads);
  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Those that a call from here would run on: 1 inside a body.
  int threads_from_here() const;
  // Runs body over pieces that cover [0, n), each at least `grain` long. Returns when all are done. A call from inside
  // a body, or while another thread's call is running, runs serially. Throws the first exception of a body, once no body runs any
  // more; pieces that were not begun are then left out.
  void parallel_for(int64_t n, int64_t grain, void (*body)(void* argument, int64_t begin, int64_t end), void* argument);
  // The same with anything that is called as body(begin, end).
  template <class Body>
  void parallel_for(int64_t n, int64_t grain, const Body& body) {
    parallel_for(
        n, grain, [](void* f, int64_t begin, int64_t end) { (*static_cast<const Body*>(f))(begin, end); }, const_cast<Body*>(&body));
  }

 private:
  // A thread's pieces of the call at hand. Thread i has the same part of all iterations in every call: what one call wrote lies in the cache of
  // the thread that reads it in the next. Who has done his own takes from the others.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  void work(int thread);
  bool enter();
  void run_pieces(int thread);
  int64_t pieces_of(int64_t n, int64_t grain) const;
  int64_t begin_of(int64_t piece) const;

  std::vector<std::thread> workers_;
  std::mutex busy_;
  std::atomic<uint32_t> epoch_{0};  // grows with each call; workers wait on it
  std::atomic<bool> stop_{false};
  // Workers inside the call at hand, and kClosed once the caller has seen all pieces taken: a worker that the system wakes late, or
  // puts aside before it began, then holds nobody up.
  static constexpr uint32_t kClosed = 1u << 31;
  std::atomic<uint32_t> inside_{kClosed};
  // The call at hand.
  void (*body_)(void*, int64_t, int64_t) = nullptr;
  void* argument_ = nullptr;
  int64_t n_ = 0;
  int64_t pieces_ = 0;
  std::vector<Share> shares_;  // by thread; the caller's is the first
  std::atomic<bool> has_failed_{false};
  std::exception_ptr error_;  // written by whoever sets has_failed_
};

}  // namespace toroid
