// Compiles one operator for given tensors and calls it; each is compiled once, for this process and for all that use the same store.
// For frameworks that dispatch operators one at a time:
//
//   CompileSession session;
//   EagerCache eager(session);
//   const std::vector<HostTensor> sum = eager.call("aten::add.Tensor", {x, y, 2.0});       // x and y: TensorViews or HostTensors
//   eager.call("aten::relu_", {x});                                                        // writes to x, gives nothing
//
// A call is found, in order:
//
//   in memory   by operator, metadata of tensors (dtype, sizes, strides, device, alignment) and other arguments: one hash lookup
//   a form      compiled for sizes in general, which these sizes fit: only the layout is worked out
//   the store   another process, or this one before, compiled it
//   compiled    the first few times for just these sizes; when an operator comes with ever other sizes, for sizes in general: those that
//               differed become symbols, but for 0 and 1. The forms of an operator are kept in the store too, so another process begins
//               with them.
//
// What an operator gives is as in PyTorch, but results are always contiguous and never share memory with an argument: a view operator
// gives a copy. Arguments that the operator writes (aten::relu_, `out`) are written when all is computed, whatever overlaps, and are not
// among the results. An `out` must have the result's sizes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "driver/compile.h"
#include "driver/eager/arguments.h"

namespace toroid {

struct EagerOptions {
  int threads = 0;           // that kernels run on; 0: the default
  size_t most_calls = 2048;  // distinct calls in memory; the least recently used go. Some 15 kB each with a library of its own
  size_t exact_forms = 2;    // of an operator, before it is compiled for sizes in general; 0: then all sizes but 0 and 1 vary
};

// How calls were served; each is counted once.
struct EagerCounters {
  uint64_t hits = 0;   // in memory
  uint64_t forms = 0;  // by a form that was in memory
  uint64_t loads = 0;  // from the store, or the remote cache
  uint64_t compilations = 0;
  uint64_t failures = 0;    // that threw
  uint64_t evicted = 0;     // distinct calls that went for the bound
  uint64_t exact_only = 0;  // operators that could not be compiled for sizes in general, and are for each
};

class EagerCache {
 public:
  // `session` must outlive it.
  explicit EagerCache(CompileSession& session, EagerOptions options = {});
  EagerCache(const EagerCache&) = delete;
  ~EagerCache();

  // Arguments by position in the operator's schema, keyword-only ones too; missing ones take their defaults. Gives the results in order,
  // lists flattened, without those that are arguments; one that the operator leaves undefined has no bytes. From any thread; calls at the
  // same time with tensors of the same kind compile once.
  //
  // Throws what check_call throws; Error{Unsupported} or Error{InvalidModel} in the decomposition's words when the arguments do not go
  // together; Error{InvalidInput} for an index out of bounds; Error{Environment} when memory runs out; what compiling throws. After an
  // error the arguments that are written may hold anything.
  std::vector<HostTensor> call(std::string_view op, std::span<const EagerArgument> arguments);
  std::vector<HostTensor> call(std::string_view op, std::initializer_list<EagerArgument> arguments) {
    return call(op, std::span<const EagerArgument>(arguments.begin(), arguments.size()));
  }

  // From the next call on random operators draw from this seed instead of 0. Each call draws other numbers than those before.
  void set_seed(uint64_t seed);
  EagerCounters counters() const;
  size_t size() const;  // distinct calls in memory

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace toroid
