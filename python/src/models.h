// A loaded program, and the contexts of its calls.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
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

// The contexts of a model that no call uses now. A call takes the one that was used last, or makes one. A model with mutable buffers has
// one context, for which calls wait: all see one state, as with a module of PyTorch.
class ContextPool {
 public:
  ContextPool(ToroidModel* model, bool has_state, int threads) : model_(model), has_state_(has_state), threads_(threads) {}

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

 private:
  OwnedContext take();
  void give_back(OwnedContext context);
  OwnedContext make(uint64_t number);

  ToroidModel* model_;
  bool has_state_;
  int threads_;
  mutable std::mutex mutex_;
  std::condition_variable is_back_;
  std::vector<OwnedContext> free_;
  uint64_t seed_ = 0, made_ = 0;
};

}  // namespace toroid::python
