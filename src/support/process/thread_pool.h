// Threads for the compiler's own work: compiling kernels side by side, hashing, tuning. Compiled programs do not use
// it; they run on the runtime's pool.
//
//   ThreadPool pool(4);
//   std::future<Library> library = pool.submit([&] { return toolchain.compile(source); });
//   pool.parallel_for(kernels.size(), [&](size_t i) { objects[i] = compile(kernels[i]); });
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace toroid {

class ThreadPool {
 public:
  explicit ThreadPool(size_t thread_count);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  // Runs what was submitted, then joins.
  ~ThreadPool();

  size_t thread_count() const { return threads_.size(); }

  // Runs `task` on a thread of the pool; the future carries its value or exception. A task must not wait for a future
  // of the same pool (it may call parallel_for).
  template <class Task>
  auto submit(Task task) -> std::future<std::invoke_result_t<Task&>> {
    using Value = std::invoke_result_t<Task&>;
    auto packaged = std::make_shared<std::packaged_task<Value()>>(std::move(task));
    std::future<Value> future = packaged->get_future();
    enqueue([packaged] { (*packaged)(); });
    return future;
  }

  // Calls body(0) … body(count - 1) in any order and returns when all are done. The caller's thread takes part, so a
  // call from inside a task cannot deadlock. After an exception no further index is begun, and the one thrown for the
  // lowest index is rethrown.
  void parallel_for(size_t count, const std::function<void(size_t)>& body);

 private:
  void enqueue(std::function<void()> job);
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace toroid
