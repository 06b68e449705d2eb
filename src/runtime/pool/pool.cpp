#include "runtime/pool/pool.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#if defined(__x86_64__)
#define TOROID_PAUSE() __builtin_ia32_pause()
#else
#define TOROID_PAUSE() ((void)0)
#endif

namespace toroid {
namespace {

constexpr int kSpins = 4000;  // about 50 microseconds

thread_local bool inside_call = false;

}  // namespace

int RuntimePool::threads_for(int threads) {
  if (threads > 0) return threads;
  if (const char* text = std::getenv("TOROID_NUM_THREADS")) {
    const int wanted = std::atoi(text);
    if (wanted > 0) return wanted;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

RuntimePool::RuntimePool(int threads) {
  threads = threads_for(threads);
  try {
    workers_.reserve(static_cast<size_t>(threads) - 1);
    shares_ = std::vector<Share>(static_cast<size_t>(threads));
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::exception&) {  // no thread, or no memory for one: those that there are do the work
  }
}

RuntimePool::~RuntimePool() {
  stop_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// Few iterations are a piece each. Of many, a few pieces a thread, so that a slow one does not hold up the rest; as many for each thread, if there
// are enough of them.
int64_t RuntimePool::pieces_of(int64_t n, int64_t grain) const {
  constexpr int64_t kFewPerThread = 16, kPiecesPerThread = 4;
  const int64_t threads = this->threads();
  const int64_t most = std::max<int64_t>(1, n / grain);
  const int64_t pieces = most <= kFewPerThread * threads ? most : kPiecesPerThread * threads;
  return pieces < threads ? pieces : pieces / threads * threads;
}

// Pieces are equal but for the last iteration; long ones begin at whole cache lines of whatever has an element an iteration.
int64_t RuntimePool::begin_of(int64_t piece) const {
  constexpr int64_t kLine = 64, kLong = 1024;
  const int64_t begin = n_ / pieces_ * piece + n_ % pieces_ * piece / pieces_;
  return piece < pieces_ && n_ / pieces_ >= kLong ? begin / kLine * kLine : begin;
}

void RuntimePool::run_pieces(int thread) {
  const int threads = this->threads();
  for (int i = 0; i < threads; ++i) {
    Share& share = shares_[static_cast<size_t>((thread + i) % threads)];
    for (;;) {
      const int64_t piece = share.next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= share.end) break;
      try {
        if (!has_failed_.load(std::memory_order_relaxed)) body_(argument_, begin_of(piece), begin_of(piece + 1));
      } catch (...) {
        if (!has_failed_.exchange(true)) error_ = std::current_exception();
      }
    }
  }
}

void RuntimePool::work(int thread) {
  inside_call = true;
  uint32_t seen = 0;
  for (;;) {
    uint32_t now = epoch_.load(std::memory_order_acquire);
    for (int spin = 0; now == seen && spin < kSpins; ++spin) {
      TOROID_PAUSE();
      now = epoch_.load(std::memory_order_acquire);
    }
    if (now == seen) {
      epoch_.wait(seen, std::memory_order_acquire);
      continue;
    }
    seen = now;
    if (stop_) return;
    if (!enter()) continue;
    run_pieces(thread);
    inside_.fetch_sub(1, std::memory_order_release);
  }
}

int RuntimePool::threads_from_here() const { return inside_call ? 1 : threads(); }

bool RuntimePool::enter() {
  uint32_t inside = inside_.load(std::memory_order_relaxed);
  do {
    if (inside & kClosed) return false;
  } while (!inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire, std::memory_order_relaxed));
  return true;
}

void RuntimePool::parallel_for(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* argument) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (n <= grain || workers_.empty() || inside_call || !busy_.try_lock()) {
    body(argument, 0, n);
    return;
  }
  const std::lock_guard<std::mutex> lock(busy_, std::adopt_lock);
  body_ = body;
  argument_ = argument;
  n_ = n;
  pieces_ = pieces_of(n, grain);
  const int64_t threads = this->threads();
  for (int64_t t = 0; t < threads; ++t) {
    Share& share = shares_[static_cast<size_t>(t)];
    share.next.store(pieces_ * t / threads, std::memory_order_relaxed);
    share.end = pieces_ * (t + 1) / threads;
  }
  inside_.store(0, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  inside_call = true;
  run_pieces(0);
  inside_call = false;
  inside_.fetch_or(kClosed, std::memory_order_acq_rel);
  for (int spin = 0; (inside_.load(std::memory_order_acquire) & ~kClosed) != 0; ++spin) {
    if (spin < kSpins) {
      TOROID_PAUSE();
    } else {
      std::this_thread::yield();
    }
  }
  if (has_failed_.exchange(false)) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace toroid
