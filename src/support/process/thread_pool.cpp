#include "support/process/thread_pool.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <new>
#include <utility>

#include "base/error.h"

namespace toroid {

ThreadPool::ThreadPool(size_t thread_count) {
  TOROID_CHECK(thread_count > 0);
  threads_.reserve(thread_count);
  try {
    while (threads_.size() < thread_count) threads_.emplace_back([this] { work(); });
  } catch (const std::exception&) {  // no thread, or no memory for one: those that there are do the work
    if (threads_.empty()) throw;
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::enqueue(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void ThreadPool::work() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

namespace {

// What the threads of one parallel_for share. A helper that starts late finds no index left and touches `body` no more,
// so the caller waits only for indices, not for helpers.
struct LoopState {
  LoopState(size_t count, const std::function<void(size_t)>* body) : count(count), body(body) {}

  const size_t count;
  const std::function<void(size_t)>* body;
  std::mutex mutex;
  std::condition_variable idle;
  size_t next = 0;
  size_t running = 0;
  size_t failed_index = SIZE_MAX;
  std::exception_ptr failure;

  void take_indices() {
    std::unique_lock lock(mutex);
    while (next < count) {
      const size_t index = next++;
      ++running;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        (*body)(index);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      --running;
      if (thrown) {
        next = count;
        if (index < failed_index) {
          failed_index = index;
          failure = thrown;
        }
      }
    }
    if (running == 0) idle.notify_all();
  }
};

}  // namespace

void ThreadPool::parallel_for(size_t count, const std::function<void(size_t)>& body) {
  auto state = std::make_shared<LoopState>(count, &body);
  const size_t helpers = count == 0 ? 0 : std::min(threads_.size(), count - 1);
  try {
    for (size_t i = 0; i < helpers; ++i) enqueue([state] { state->take_indices(); });
  } catch (const std::bad_alloc&) {  // those that started already use `body`: they and this thread do the work
  }
  state->take_indices();
  std::unique_lock lock(state->mutex);
  state->idle.wait(lock, [&] { return state->running == 0; });
  if (state->failure) std::rethrow_exception(std::exchange(state->failure, nullptr));
}

}  // namespace toroid
