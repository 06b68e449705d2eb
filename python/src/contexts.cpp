#include <pthread.h>

#include <new>

#include "models.h"

namespace toroid::python {
namespace {

// Steps of 2^64 divided by the golden ratio lie far apart: neighbouring seeds of a user do not meet another context's.
constexpr uint64_t kSeedStep = 0x9e3779b97f4a7c15u;

}  // namespace

// All pools, and the one lock of them. It is held for some nanoseconds at a time, and by fork(), so that no child finds it taken.
class PoolsOfProcess {
 public:
  static void add(ContextPool* pool) {
    [[maybe_unused]] static const int is_registered = ::pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { begin_child(); });
    const std::lock_guard lock(mutex);
    pool->next_ = first;
    if (first != nullptr) first->previous_ = pool;
    first = pool;
  }
  static void remove(ContextPool* pool) {
    const std::lock_guard lock(mutex);
    (pool->previous_ != nullptr ? pool->previous_->next_ : first) = pool->next_;
    if (pool->next_ != nullptr) pool->next_->previous_ = pool->previous_;
  }
  static inline std::mutex mutex;

 private:
  // What calls of the parent's other threads have taken is never given back here, and nobody waits for it any more.
  static void begin_child() {
    for (ContextPool* pool = first; pool != nullptr; pool = pool->next_) {
      pool->made_ = pool->free_.size();
      new (&pool->is_back_) std::condition_variable;
    }
    mutex.unlock();
  }
  static inline ContextPool* first = nullptr;
};

ContextPool::ContextPool(std::shared_ptr<ToroidModel> model, const ContextOptions& options) : model_(std::move(model)), options_(options) {
  PoolsOfProcess::add(this);
}

ContextPool::~ContextPool() { PoolsOfProcess::remove(this); }

OwnedContext ContextPool::make(uint64_t seed) {
  auto options = sized<ToroidContextOptions>();
  options.threads = options_.threads;
  options.seed = seed;
  if (!options_.processors.empty()) {
    options.processors = options_.processors.data();
    options.num_processors = static_cast<int32_t>(options_.processors.size());
  }
  ToroidContext* context = nullptr;
  Message message;
  const ToroidStatus status = run_side().context_create(model_.get(), &options, &context, message.data(), message.size());
  if (status != TOROID_OK) throw StatusError{status, message.data()};
  return OwnedContext(context);
}

OwnedContext ContextPool::take() {
  std::unique_lock lock(PoolsOfProcess::mutex);
  if (options_.is_single) is_back_.wait(lock, [&] { return !free_.empty() || made_ == 0; });
  if (!free_.empty()) {
    OwnedContext taken = std::move(free_.back());
    free_.pop_back();
    return taken;
  }
  const uint64_t seed = seed_ + made_++ * kSeedStep;
  lock.unlock();
  try {
    return make(seed);
  } catch (...) {
    lock.lock();
    --made_;
    is_back_.notify_one();
    throw;
  }
}

OwnedContext ContextPool::take_failed() {
  const std::lock_guard lock(PoolsOfProcess::mutex);
  for (auto each = free_.begin(); each != free_.end(); ++each) {
    if (run_side().context_has_failed(each->get()) == 0) continue;
    OwnedContext taken = std::move(*each);
    free_.erase(each);
    return taken;
  }
  return nullptr;
}

void ContextPool::give_back(OwnedContext context) {
  const std::lock_guard lock(PoolsOfProcess::mutex);
  free_.push_back(std::move(context));
  if (options_.is_single) is_back_.notify_one();
}

void ContextPool::seed(uint64_t seed) {
  const std::lock_guard lock(PoolsOfProcess::mutex);
  seed_ = seed;
  // The next call takes the last one, which has the seed itself.
  for (size_t i = 0; i < free_.size(); ++i) run_side().context_seed(free_[free_.size() - 1 - i].get(), seed + i * kSeedStep);
}

int ContextPool::size() const {
  const std::lock_guard lock(PoolsOfProcess::mutex);
  return static_cast<int>(made_);
}

}  // namespace toroid::python
