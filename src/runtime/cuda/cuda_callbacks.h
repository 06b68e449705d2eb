// What a running program may call back when its buffers are on a GPU: launches, memory, matrix products and graphs of cuDNN there, and all
// other library kernels on the host, with copies.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/branches.h"
#include "runtime/cuda/communication/beside.h"
#include "runtime/cuda/communication/peer_copies.h"
#include "runtime/cuda/cudnn/graphs.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/matmul.h"
#include "runtime/cuda/repeated_calls.h"
#include "runtime/program/runtime_callbacks.h"
#include "tensor/host_tensor.h"
#include "toroid/gpu_abi.h"

namespace toroid::cuda {

// Which calls with the same sizes are started as graphs. TOROID_CUDA_GRAPHS in the environment may be "never", or "first": then the first
// one is done twice, for tests.
enum class GraphsFrom : uint8_t { Never, FirstCall, SecondCall };

class CudaCallbacks final : public RuntimeCallbacks {
 public:
  CudaCallbacks(const Device& device, RuntimePool& pool, PreparedConstants& packed, const ToroidProgram& program,
                const ToroidGpuProgram& kernels, const Stream& stream);

  // Starts the work, and does not wait for it. Throws what the host finds wrong.
  int32_t run(Entry* entry, const ToroidCall& call, Call& state) override;
  // Waits for the work. What kernels found wrong, as an entry's result; then ToroidProgram::bad_index has the index.
  int32_t wait();
  // Whether kernels have found something wrong so far. Does not wait.
  bool has_failed() const;

  // Where calls are to be in order: on a stream of the caller's, or on the own one.
  void set_stream(StreamHandle stream) { caller_ = stream; }
  // Of a program with tensors on the host too: where its temporaries there are, in the calls from now on.
  void set_host_arena(char* arena) { table_.host_arena = arena; }
  StreamOrder& order() { return order_; }
  // Where algorithms that were measured on this kind of GPU are kept; before the first call.
  void set_memory(const std::shared_ptr<ProductMemory>& memory, const std::string& gpu);
  // Are calls started as graphs, where that can be?
  void set_uses_graphs(bool uses) { uses_graphs_ = uses; }
  // Of the last call: the nodes of its graph; none where it was started kernel by kernel. Then why, if that stays so.
  std::optional<size_t> graph_nodes() const { return graph_nodes_; }
  const std::set<std::string>& graph_obstacles() const { return variant_->obstacles; }

  // An output whose sizes became known in the last call.
  struct LateOutput {
    std::vector<int64_t> sizes;
    Memory memory;
  };
  std::map<int32_t, LateOutput>& late_outputs() { return late_outputs_; }  // by position
  // The same of those in the process's memory.
  std::map<int32_t, HostTensor>& late_host_outputs() { return late_host_outputs_; }
  // Library kernels that ran on the host in calls so far.
  const std::set<std::string>& on_host() const { return on_host_; }

 protected:
  void* allocate(int64_t bytes) override;
  void release(void* data) override;
  void release_all() override {
    free_.splice(free_.begin(), used_);
    RuntimeCallbacks::release_all();
  }
  void* output(int32_t position, const int64_t* sizes) override;
  void call(const ToroidLibraryCall& call) override;
  void begin_step(int32_t step) override;
  void end_steps() override;
  const ToroidRuntime* table() override { return &table_.host; }

 private:
  struct Entries;
  int32_t start(Entry* entry, const ToroidCall& call, Call& state);
  int32_t start_steps(Entry* entry, const ToroidCall& call, Call& state);
  int32_t start_one_by_one(Entry* entry, const ToroidCall& call, Call& state);
  bool start_graph(CallsOfSizes& same, Entry* entry, const ToroidCall& call, Call& state);
  std::vector<Memory> copies_of_updated(const ToroidVariant& variant, const ToroidCall& call);
  void put_back(const std::vector<Memory>& copies, const ToroidVariant& variant, const ToroidCall& call);
  void launch(const ToroidLaunch& launch);
  void start_kernel(const ToroidLaunch& launch, int64_t blocks);
  void launch_as_told(const ToroidLaunch& launch);
  void read(void* to, const void* from, int64_t bytes);
  enum WhoseRandom : uint8_t { kOfCall, kOfRun };  // of a loop's body, which is started right after
  void set_random(StreamHandle stream, WhoseRandom whose, const int64_t* state);
  const int64_t* random_words(WhoseRandom whose) const { return static_cast<const int64_t*>(random_->data()) + 2 * whose; }
  const int64_t* random(const int64_t* state);  // as ToroidGpuRuntime::random
  void read_step_times();
  int32_t call_or_refuse(const ToroidLibraryCall& call);  // as ToroidRuntime::call
  void set_deciding(bool on);
  bool is_undecided() const { return products_.is_undecided() || cudnn_.is_undecided(); }
  bool multiply(const ToroidLibraryCall& call);      // false: cuBLASLt does not
  bool copy_between(const ToroidLibraryCall& call);  // between the host and the device; false: it is something else
  void wait_for_host();
  void* output_here(int32_t position, const int64_t* sizes);
  void call_on_host(const ToroidLibraryCall& call);

  const ToroidProgram& program_;
  const bool draws_;
  const Device& device_;
  const Stream& stream_;
  int multiprocessors_;
  StreamOrder order_;
  Branches branches_;
  Beside beside_;
  StreamHandle caller_;
  const GraphsFrom when_;
  const bool overlaps_;           // do kernels wait for others that may not have ended?
  const bool branches_of_calls_;  // are branches of their own in graphs?
  const bool uses_beside_;        // do collective operations run beside kernels?
  PeerCopies peer_copies_;
  bool stays_ = false;             // may what is swapped next stay where it comes?
  const void* swapped_ = nullptr;  // where what was swapped last is
  Binaries binaries_;
  const std::map<std::string_view, const ToroidGpuKernel*> launches_;  // of kernels whose binaries say how they are started
  Products products_;
  cudnn::Graphs cudnn_;
  SharedBytes failure_;
  std::optional<Memory> random_;  // the states that kernels read, of programs that draw
  const int64_t* random_of_call_ = nullptr;
  ToroidGpuRuntime table_{};
  ToroidRuntime here_{};  // of steps on the host

  RepeatedCalls repeated_;
  RepeatedCalls::OfVariant preparation_;               // what runs once over the constants
  RepeatedCalls::OfVariant* variant_ = &preparation_;  // that runs, or ran last
  CallPlaces places_;                                  // of the call
  bool uses_graphs_ = true;
  std::optional<size_t> graph_nodes_;

  std::unordered_map<const ToroidVariant*, std::vector<Products::Plan*>> sites_;  // products of fixed sizes
  std::list<Memory> used_, free_;                                                 // a few at a time; free: for the next request
  std::map<int32_t, LateOutput> late_outputs_;
  std::map<int32_t, HostTensor> late_host_outputs_;
  struct TimedStep {
    int32_t step;
    Event from, to;
  };
  std::list<TimedStep> timed_steps_;  // of the last call of a profiled program
  bool is_in_step_ = false;
  std::set<std::string> on_host_;
  bool is_behind_launch_ = false;  // was a kernel of the program the last that was started, in this call?
};

}  // namespace toroid::cuda
