// The threads that compiled programs run on.
//
// Kernels last from microseconds to milliseconds, so workers spin for a short while before they sleep: waking a sleeping thread
// costs about as much as a small kernel.
//
// A child of fork() has none of its parent's threads: a pool starts its own anew, when a call there needs them first.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/pool/event_count.h"

namespace toroid {

// Threads of somebody else's: runs task(argument, i) once for each i from 0 to count - 1 and returns when all are done.
struct HostThreads {
  void* user = nullptr;
  int threads = 1;
  void (*parallel_for)(void* user, int64_t count, void (*task)(void* argument, int64_t i), void* argument) = nullptr;
};

class RuntimePool {
 public:
  // Threads in all, the caller's included. 0: TOROID_NUM_THREADS, else one for each processor that the process may use
  // (base/machine/processors.h). Fewer where the system has no more to give. processors: the pool's own threads stay on these, thread i on
  // the i-th, from the first again where there are fewer; the caller's thread, 0, stays where it is. Empty: the system chooses.
  explicit RuntimePool(int threads = 0, std::vector<int> processors = {});
  // Runs on the threads of the host, which sees to calls from several threads.
  explicit RuntimePool(const HostThreads& host) : host_(host) {}
  ~RuntimePool();
  RuntimePool(const RuntimePool&) = delete;
  RuntimePool& operator=(const RuntimePool&) = delete;

  // The pool of so many threads that all programs of the process share: a call that finds it busy runs on its own thread alone. It ends
  // with the last of its users.
  static std::shared_ptr<RuntimePool> shared(int threads = 0);

  // Those that a pool of `threads` asks the system for, the caller's included.
  static int threads_for(int threads);
  int threads() const { return host_.parallel_for != nullptr ? host_.threads : threads_.load(std::memory_order_relaxed); }
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
  // What a thread has of the call at hand, in one cache line: it waits for that line, and then has all that it needs. Thread i has the
  // same part of all iterations in every call: what one call wrote lies in the cache of the thread that reads it in the next. Who has done
  // his own takes from the others.
  struct alignas(64) Share {
    std::atomic<int64_t> left{0};  // of its pieces, those that nobody has taken: the last ones before `end`
    // Of the call, as whoever has taken a piece and not done it yet may read them.
    int64_t end = 0, pieces = 0, n = 0;
    void (*body)(void*, int64_t, int64_t) = nullptr;
    void* argument = nullptr;
  };
  // Pieces that a worker has done in all calls so far. Only it writes that; the caller waits for the sum.
  struct alignas(64) Progress {
    std::atomic<int64_t> done{0};
  };

  void run_on_host(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* argument);
  void start_workers(int count);
  friend class PoolsOfProcess;
  void forget_workers();
  void work(int thread);
  bool run_share(Share& share, int thread);
  void run_others(int thread);
  int64_t pieces_of(int64_t n, int64_t grain) const;
  bool all_are_done() const;

  HostThreads host_;
  std::vector<std::thread> workers_;
  RuntimePool* next_of_process_ = nullptr;
  std::vector<int> processors_;
  int lost_workers_ = 0;            // of the process that this one is a fork of: whoever makes the pool busy starts as many
  std::atomic<int> threads_{1};     // the caller's, the workers', and those that are to be started
  std::vector<Share> shares_;       // by thread; the caller's is the first
  std::vector<Progress> progress_;  // the same
  int64_t issued_ = 0;              // pieces of all calls so far
  std::atomic<bool> busy_{false};
  alignas(64) EventCount calls_;  // workers that sleep wait for the next
  std::atomic<bool> stop_{false};
  std::atomic<bool> has_failed_{false};
  std::exception_ptr error_;  // written by whoever sets has_failed_
};

}  // namespace toroid
