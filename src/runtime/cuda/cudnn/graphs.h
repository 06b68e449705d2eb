// Graphs of cuDNN that programs call (library/cudnn_calls.h), each kept by its problem: sizes, strides, dtypes and numbers.
//
// The library suggests some kernels for a graph, the best first by its own estimate. Left out are those whose results may differ from call
// to call, and those that round more than sums in float32 do: of float32, tensor cores, which would round to tf32. The first of the others
// that the library can make serves until sizes come again. Then those that are made within a quarter of a second are timed, once, and the
// quickest stays: in this process, and where there is a memory for it (runtime/cuda/product_memory.h), in those that follow. What is kept is
// its position among the suggestions, and behind a line's end the plan as the library writes it, which has the kernel's code: so another
// process neither asks for suggestions nor compiles.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/cudnn/api.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/product_memory.h"
#include "toroid/program_abi.h"

namespace toroid::cuda::cudnn {

class Graphs {
 public:
  explicit Graphs(const Stream& stream);
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  // Starts the call on the stream; false where the library is absent or has no kernel for it, and then nothing is started. Throws
  // Error{Environment} where that is so and the call takes no refusal, and where the library fails.
  bool run(const ToroidLibraryCall& call);

  // As of Products (runtime/cuda/matmul.h).
  void set_memory(std::shared_ptr<ProductMemory> memory, std::string gpu) { memory_ = std::move(memory), gpu_ = std::move(gpu); }
  bool is_undecided() const { return undecided_ > 0; }
  void set_deciding(bool on) { is_deciding_ = on; }

 private:
  class Graph;
  // Throws Refused where there is none.
  Graph& graph_of(const ToroidLibraryCall& call);
  bool recall(Graph& graph) const;
  void decide(Graph& graph, const ToroidLibraryCall& call);
  void clear_other_parts(const ToroidLibraryCall& call) const;
  void* workspace(size_t bytes);
  std::string remembered_as(const Graph& graph) const;

  const Stream& stream_;
  Handle handle_ = nullptr;
  std::map<std::vector<int64_t>, std::unique_ptr<Graph>> graphs_;
  std::map<std::vector<int64_t>, std::string> refused_;  // why
  std::list<Memory> workspaces_;                         // the largest last; graphs of calls hold the others' places
  std::shared_ptr<ProductMemory> memory_;                // may be null
  std::string gpu_;
  int undecided_ = 0;
  bool is_deciding_ = false;
};

}  // namespace toroid::cuda::cudnn
