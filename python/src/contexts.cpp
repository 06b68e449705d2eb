#include "models.h"

namespace toroid::python {
namespace {

// Failed while no Python may be touched; models.cpp raises it when it has the GIL again.
[[noreturn]] void fail(ToroidStatus status, const char* message) { throw StatusError{status, message}; }

}  // namespace

OwnedContext ContextPool::make(uint64_t number) {
  auto options = sized<ToroidContextOptions>();
  options.threads = threads_;
  // Steps of 2^64 divided by the golden ratio lie far apart: neighbouring seeds of a user do not meet another context's.
  options.seed = seed_ + number * 0x9e3779b97f4a7c15u;
  ToroidContext* context = nullptr;
  Message message;
  const ToroidStatus status = run_side().context_create(model_, &options, &context, message.data(), message.size());
  if (status != TOROID_OK) fail(status, message.data());
  return OwnedContext(context);
}

OwnedContext ContextPool::take() {
  std::unique_lock lock(mutex_);
  if (has_state_) is_back_.wait(lock, [&] { return !free_.empty() || made_ == 0; });
  if (!free_.empty()) {
    OwnedContext taken = std::move(free_.back());
    free_.pop_back();
    return taken;
  }
  const uint64_t number = made_++;
  lock.unlock();
  try {
    return make(number);
  } catch (...) {
    lock.lock();
    --made_;
    is_back_.notify_one();
    throw;
  }
}

void ContextPool::give_back(OwnedContext context) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(context));
  if (has_state_) is_back_.notify_one();
}

void ContextPool::seed(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  seed_ = seed;
  // The next call takes the last one, which has the seed itself.
  for (size_t i = 0; i < free_.size(); ++i)
    run_side().context_seed(free_[free_.size() - 1 - i].get(), seed + i * 0x9e3779b97f4a7c15u);
}

int ContextPool::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(made_);
}

}  // namespace toroid::python
