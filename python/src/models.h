// A loaded program, and the contexts of its calls.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api.h"
#include "arrays.h"

namespace toroid::python {

struct ModelCloser {
  void operator()(ToroidModel* model) const { run_side().model_close(model); }
};
struct ContextCloser {
  void operator()(ToroidContext* context) const { run_side().context_destroy(context); }
};
using OwnedModel = std::unique_ptr<ToroidModel, ModelCloser>;
using OwnedContext = std::unique_ptr<ToroidContext, ContextCloser>;

struct ContextOptions {
  bool is_single = false;  // one context, for which calls wait: all see one state, as with a module of PyTorch
  int threads = 0;         // as of ToroidContextOptions
  std::vector<int32_t> processors = {};
};

// The contexts of a model that no call uses now. A call takes the one that was used last, or makes one. In a child of fork() those that
// calls of the parent were using are lost, and new ones are made.
class ContextPool {
 public:
  ContextPool(std::shared_ptr<ToroidModel> model, const ContextOptions& options);
  ~ContextPool();
  ContextPool(const ContextPool&) = delete;
  ContextPool& operator=(const ContextPool&) = delete;

  // While a call runs. Without the GIL.
  class Lease {
   public:
    explicit Lease(ContextPool& pool) : pool_(pool), context_(pool.take()) {}
    ~Lease() { pool_.give_back(std::move(context_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ToroidContext* get() const { return context_.get(); }

   private:
    ContextPool& pool_;
    OwnedContext context_;
  };

  // From the next call on; calls of several threads at once draw different numbers, each context having a seed that follows from this one.
  void seed(uint64_t seed);
  // How many contexts there are.
  int size() const;
  // Takes a context that no call uses and in which kernels have failed; null where there is none. `give_back` must follow.
  OwnedContext take_failed();
  void give_back(OwnedContext context);

 private:
  friend class PoolsOfProcess;
  OwnedContext take();
  OwnedContext make(uint64_t seed);

  std::shared_ptr<ToroidModel> model_;
  ContextOptions options_;
  std::condition_variable is_back_;
  std::vector<OwnedContext> free_;
  uint64_t seed_ = 0, made_ = 0;
  ContextPool *next_ = nullptr, *previous_ = nullptr;  // of all pools of the process
};

// f() without the GIL; what it throws as StatusError becomes Python's.
template <class F>
auto without_gil(F f) {
  std::optional<StatusError> failed;
  try {
    const nb::gil_scoped_release released;
    return f();
  } catch (StatusError& error) {
    failed = std::move(error);
  }
  raise(failed->status, failed->message.c_str());
}

// A function of run_side() that may fail, in a context; without the GIL.
template <class F>
void in_context(ContextPool& pool, F f) {
  without_gil([&] {
    const ContextPool::Lease context(pool);
    const ToroidStatus status = f(context.get());
    if (status != TOROID_OK) throw StatusError{status, run_side().context_message(context.get())};
    return true;
  });
}

}  // namespace toroid::python
