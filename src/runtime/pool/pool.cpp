#include "runtime/pool/pool.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fail.h"
#include "base/format.h"
#include "base/machine/per_thread.h"
#include "base/machine/processors.h"

#if defined(__x86_64__)
#define TOROID_PAUSE() __builtin_ia32_pause()
#else
#define TOROID_PAUSE() ((void)0)
#endif

namespace toroid {
namespace {

constexpr int kSpins = 4000;  // about 50 microseconds

PerThread<bool> inside_call;

}  // namespace

// All pools with threads, as a list. While the process forks nobody makes or ends one; in the child each forgets its threads. Nothing here
// is destroyed, since a pool may end when the process does.
class PoolsOfProcess {
 public:
  static void add(RuntimePool* pool) {
    [[maybe_unused]] static const int is_registered = ::pthread_atfork(lock, unlock, forget_threads);
    const std::lock_guard held(mutex);
    pool->next_of_process_ = first;
    first = pool;
  }
  static void remove(RuntimePool* pool) {
    const std::lock_guard held(mutex);
    for (RuntimePool** each = &first; *each != nullptr; each = &(*each)->next_of_process_) {
      if (*each != pool) continue;
      *each = pool->next_of_process_;
      return;
    }
  }
  static inline std::mutex mutex_of_shared;  // taken before the other one

 private:
  static void lock() {
    mutex_of_shared.lock();
    mutex.lock();
  }
  static void unlock() {
    mutex.unlock();
    mutex_of_shared.unlock();
  }
  static void forget_threads() {
    for (RuntimePool* pool = first; pool != nullptr; pool = pool->next_of_process_) pool->forget_workers();
    unlock();
  }

  static inline std::mutex mutex;
  static inline RuntimePool* first = nullptr;
};

int RuntimePool::threads_for(int threads) {
  if (threads > 0) return threads;
  if (const char* text = std::getenv("TOROID_NUM_THREADS")) {
    const int wanted = std::atoi(text);
    if (wanted > 0) return wanted;
  }
  return usable_processors();
}

[[gnu::cold]] std::shared_ptr<RuntimePool> RuntimePool::shared(int threads) {
  struct Known {
    int threads;
    std::weak_ptr<RuntimePool> pool;
  };
  static std::vector<Known> all;
  threads = threads_for(threads);
  const std::lock_guard lock(PoolsOfProcess::mutex_of_shared);
  auto known = std::find_if(all.begin(), all.end(), [&](const Known& each) { return each.threads == threads; });
  if (known == all.end()) known = all.insert(known, {threads, {}});
  std::shared_ptr<RuntimePool> pool = known->pool.lock();
  if (!pool) known->pool = pool = std::make_shared<RuntimePool>(threads);
  return pool;
}

[[gnu::cold]] RuntimePool::RuntimePool(int threads, std::vector<int> processors) : processors_(std::move(processors)) {
  threads = threads_for(threads);
  start_workers(threads - 1);
  PoolsOfProcess::add(this);
}

[[gnu::cold]] void RuntimePool::start_workers(int count) {
  try {
    workers_.reserve(static_cast<size_t>(count));
    shares_ = std::vector<Share>(static_cast<size_t>(count) + 1);
    progress_ = std::vector<Progress>(static_cast<size_t>(count) + 1);
    for (int i = 1; i <= count; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::exception&) {  // no thread, or no memory for one: those that there are do the work
  }
  threads_ = static_cast<int>(workers_.size()) + 1;
}

// In the child of a fork, which one thread runs. What the threads were at is lost with the call of the parent that they did it for.
[[gnu::cold]] void RuntimePool::forget_workers() {
  lost_workers_ = threads_ - 1;
  new std::vector<std::thread>(std::move(workers_));  // there is nothing to join: they are left behind
  workers_.clear();
  calls_.forget_waiting();
  issued_ = 0;
  busy_ = false;
  has_failed_ = false;
  error_ = nullptr;
}

[[gnu::cold]] RuntimePool::~RuntimePool() {
  if (host_.parallel_for == nullptr) PoolsOfProcess::remove(this);
  stop_ = true;
  calls_.add();
  for (std::thread& worker : workers_) worker.join();
}

// Few iterations are a piece each. Of many, a few pieces a thread, so that a slow one does not hold up the rest; as many for each thread,
// if there are enough of them.
int64_t RuntimePool::pieces_of(int64_t n, int64_t grain) const {
  constexpr int64_t kFewPerThread = 16, kPiecesPerThread = 4;
  const int64_t threads = this->threads();
  const int64_t most = std::max<int64_t>(1, n / grain);
  const int64_t pieces = most <= kFewPerThread * threads ? most : kPiecesPerThread * threads;
  return pieces < threads ? pieces : pieces / threads * threads;
}

namespace {

// Pieces are equal but for the last iteration; long ones begin at whole cache lines of whatever has an element an iteration.
int64_t begin_of(int64_t piece, int64_t pieces, int64_t n) {
  constexpr int64_t kLine = 64, kLong = 1024;
  const int64_t begin = n / pieces * piece + n % pieces * piece / pieces;
  return piece < pieces && n / pieces >= kLong ? begin / kLine * kLine : begin;
}

}  // namespace

// Takes pieces until there are none. Says whether the thread may find more elsewhere.
//
// Nobody has to say that he is in the call: a piece that was taken keeps the call from ending, and `left` is all that is touched before. So
// a worker that the system wakes late, or puts aside before it took a piece, holds nobody up; and if it takes one of the next call, it does
// that.
bool RuntimePool::run_share(Share& share, int thread) {
  int64_t done = 0;
  bool has_more = false;
  while (share.left.load(std::memory_order_relaxed) > 0) {
    const int64_t left = share.left.fetch_sub(1, std::memory_order_acquire);
    if (left <= 0) break;
    const int64_t piece = share.end - left;
    has_more = share.pieces > threads();
    try {
      if (!has_failed_.load(std::memory_order_relaxed))
        share.body(share.argument, begin_of(piece, share.pieces, share.n), begin_of(piece + 1, share.pieces, share.n));
    } catch (...) {
      if (!has_failed_.exchange(true)) error_ = std::current_exception();
    }
    ++done;
  }
  std::atomic<int64_t>& total = progress_[static_cast<size_t>(thread)].done;
  if (done > 0) total.store(total.load(std::memory_order_relaxed) + done, std::memory_order_release);
  return has_more;
}

void RuntimePool::run_others(int thread) {
  const int threads = this->threads();
  for (int i = 1; i < threads; ++i) run_share(shares_[static_cast<size_t>((thread + i) % threads)], thread);
}

void RuntimePool::work(int thread) {
  try {
    inside_call.get() = true;
  } catch (const std::bad_alloc&) {  // the others do its share
    return;
  }
  if (!processors_.empty()) stay_on_processor(processors_[static_cast<size_t>(thread) % processors_.size()]);
  Share& own = shares_[static_cast<size_t>(thread)];
  for (;;) {
    const uint32_t then = calls_.count();
    for (int spin = 0; own.left.load(std::memory_order_relaxed) <= 0 && spin < kSpins; ++spin) TOROID_PAUSE();
    if (own.left.load(std::memory_order_relaxed) <= 0) {
      if (stop_) return;
      calls_.wait(then);
    }
    // With a piece a thread there is nothing to take from the others but what they are about to do.
    if (run_share(own, thread)) run_others(thread);
  }
}

int RuntimePool::threads_from_here() const { return inside_call.get() ? 1 : threads(); }

bool RuntimePool::all_are_done() const {
  int64_t done = 0;
  for (int t = 0; t < threads(); ++t) done += progress_[static_cast<size_t>(t)].done.load(std::memory_order_acquire);
  return done == issued_;
}

void RuntimePool::run_on_host(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* argument) {
  struct Call {
    int64_t n, pieces;
    void (*body)(void*, int64_t, int64_t);
    void* argument;
    std::atomic<int64_t> done{0};
    std::atomic<bool> has_failed{false};
    std::exception_ptr error = nullptr;
  } call{n, pieces_of(n, grain), body, argument};
  const auto task = [](void* of, int64_t piece) {
    Call& its = *static_cast<Call*>(of);
    struct Inside {
      bool& is_inside = inside_call.get();
      const bool was = std::exchange(is_inside, true);
      ~Inside() { is_inside = was; }
    };
    try {
      const Inside inside;
      if (!its.has_failed.load(std::memory_order_relaxed))
        its.body(its.argument, begin_of(piece, its.pieces, its.n), begin_of(piece + 1, its.pieces, its.n));
    } catch (...) {
      if (!its.has_failed.exchange(true)) its.error = std::current_exception();
    }
    its.done.fetch_add(1, std::memory_order_release);
  };
  host_.parallel_for(host_.user, call.pieces, task, &call);
  const int64_t done = call.done.load(std::memory_order_acquire);
  if (call.error) std::rethrow_exception(call.error);
  if (done == call.pieces) return;
  fail(ErrorKind::InvalidOption, Help{"run each task once before it returns"}, "the host's parallel_for ran {} of {} tasks", done,
       call.pieces);
}

void RuntimePool::parallel_for(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* argument) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  bool& is_inside = inside_call.get();
  if (host_.parallel_for != nullptr && n > grain && !is_inside) return run_on_host(n, grain, body, argument);
  if (n <= grain || threads() == 1 || is_inside || busy_.exchange(true, std::memory_order_acquire)) {
    body(argument, 0, n);
    return;
  }
  if (lost_workers_ > 0) start_workers(std::exchange(lost_workers_, 0));
  const int64_t pieces = pieces_of(n, grain);
  const int64_t threads = this->threads();
  issued_ += pieces;
  for (int64_t t = threads - 1; t >= 0; --t) {
    Share& share = shares_[static_cast<size_t>(t)];
    share.end = pieces * (t + 1) / threads;
    share.pieces = pieces;
    share.n = n;
    share.body = body;
    share.argument = argument;
    share.left.store(share.end - pieces * t / threads, std::memory_order_release);
  }
  calls_.add();
  is_inside = true;
  run_share(shares_[0], 0);
  run_others(0);
  is_inside = false;
  for (int spin = 0; !all_are_done(); ++spin) {
    if (spin < kSpins) {
      TOROID_PAUSE();
    } else {
      std::this_thread::yield();
    }
  }
  const bool has_failed = has_failed_.load(std::memory_order_relaxed);
  std::exception_ptr error;
  if (has_failed) {
    error = std::exchange(error_, nullptr);
    has_failed_.store(false, std::memory_order_relaxed);
  }
  busy_.store(false, std::memory_order_release);
  if (has_failed) std::rethrow_exception(error);
}

}  // namespace toroid
