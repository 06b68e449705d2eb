// A context of a compiled program: what its calls need and change, for one thread at a time. Any number of them run one LoadedProgram at
// the same time, each on a thread of its own; they share its weights, packed weights and threads, and wait for nobody.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "runtime/contract/contract.h"
#include "runtime/cuda/device_tensor.h"
#include "runtime/program/loaded_program.h"
#include "runtime/program/output_allocator.h"
#include "runtime/program/runtime_callbacks.h"
#include "tensor/host_tensor.h"
#include "toroid/gpu_abi.h"
#include "toroid/program_abi.h"

namespace toroid {

namespace cuda {
class ProductMemory;
}

// An input in memory of the caller's.
struct InputView {
  DType dtype = DType::F32;
  Span<const int64_t> sizes;
  const int64_t* strides = nullptr;  // in elements; null: contiguous
  const std::byte* data = nullptr;   // of the first element
};
std::vector<int64_t> strides_given(const InputView& input);

// Where memory runs out its functions throw Error{Environment}, and it stays usable.
class Executable {
 public:
  // `gpu`: the number of the one that a program for GPUs runs on. `pool`: the threads of its calls; null: the program's. `memory`: of
  // temporaries and outputs, outlives these; null: the process's.
  explicit Executable(std::shared_ptr<LoadedProgram> program, int gpu = 0, std::shared_ptr<RuntimePool> pool = nullptr,
                      const HostMemory* memory = nullptr);
  // Of a program of its own. `constants`: the bytes of each of the program's constants, kept alive by `owner`. `threads` 0: the default.
  Executable(std::string_view library, std::vector<Span<const std::byte>> constants, std::shared_ptr<const void> owner, std::string name,
             int threads = 0, int gpu = 0);
  // As LoadedProgram::load.
  static Executable load(const std::string& path, int threads = 0, int gpu = 0);
  static Executable load(const std::string& library, const std::string& weights, int threads, int gpu);
  Executable(Executable&&) noexcept;
  ~Executable();

  // All outputs in the program's order, buffers' new values included; these are also kept for the next call, which may write over them
  // (ToroidOutputInfo::in_place) if nobody holds them any more. A call that fails has updated no buffers, but for those in place, which may
  // have new elements, as in PyTorch: on a processor only of 64 KiB or more. Throws
  // Error{InvalidInput} that names the violated fact when the inputs do not fit, Error{Environment} when the file of its weights was cut
  // short (base/file/mapped_file.h).
  std::vector<HostTensor> run(Span<const HostTensor> inputs);
  // The same for a processor, with outputs in memory of the caller's, which must not overlap inputs. New values of buffers are kept and not
  // given out. Nothing is worked out, and no memory asked for, where the inputs have the sizes of the call before.
  void run(Span<const InputView> inputs, OutputAllocator& outputs, StepObserver* observer = nullptr);

  // Is it for a GPU? Then its kernels run there, and run() copies inputs to it and outputs from it. New values of buffers stay there: their
  // places among the outputs of run() are tensors without elements.
  bool is_on_device() const;
  // Of such a program. A call with tensors in the GPU's memory, on a stream of the caller's (a CUstream; null: the default one), which must
  // not be capturing: the work is started and not waited for. One call after the other, on whatever streams. outputs: as outputs_of gives
  // them, with memory; outputs whose sizes are known late, and new values of buffers, get memory of the program's, which holds until the
  // next call. Throws Error{InvalidInput} as run, and for pointers that are not to so many bytes of this GPU's memory.
  void start(Span<const DeviceTensor> inputs, Span<DeviceTensor> outputs, void* stream);
  // Waits for what was started. Throws what run would for it; buffers have their new values nevertheless.
  void wait();
  // Whether kernels that were started have found something wrong so far, which wait() then throws. Does not wait.
  bool has_failed() const;
  // The outputs of a call with these inputs, whose data are not looked at: dtypes, and sizes as far as these tell them.
  std::vector<DeviceTensor> outputs_of(Span<const DeviceTensor> inputs);
  // Copies the value of a constant as the last call left it.
  void read_buffer(size_t constant, Span<std::byte> to);
  // From the next call on it has the value that it has among the weights.
  void reset_buffer(size_t constant);
  // The value of the buffer that this output of the last call is the new value of.
  HostTensor updated_buffer(size_t output);
  // Times calls on the GPU alone, with inputs and outputs that stay there. Nothing that they write is kept.
  DeviceTimes time_on_device(Span<const HostTensor> inputs, const DeviceTimesOptions& options);
  // Where measured algorithms of cuBLASLt are kept beyond the process; before the first call.
  void remember_products(std::shared_ptr<cuda::ProductMemory> memory);
  // Library kernels that the calls so far ran on the host, with copies, for they have none on the device.
  std::vector<std::string> calls_on_host() const;
  // Of the last call, how its kernels were started: the number of nodes of its CUDA graph, or none. Then why no later call will be a graph.
  std::optional<size_t> graph_nodes() const;
  std::vector<std::string> graph_obstacles() const;

  // From the next call on random operators draw as in a program just loaded, with this seed instead of 0. Each call draws
  // other numbers than the calls before.
  void set_seed(uint64_t seed);

  // Seconds of each run of each step, by its position among those of the variant that ran; empty unless compiled to be
  // profiled. A step in a loop's body counts each time.
  const std::vector<std::vector<double>>& step_times() const;

  // Of each of last_variant()'s choices the form that calls run; none before the first call.
  std::vector<std::optional<size_t>> forms() const;

  // Lives as long as this.
  const ToroidProgram& tables() const;
  // The variant that the last call ran; the general one before the first call.
  const ToroidVariant& last_variant() const;
  size_t last_variant_position() const;
  int64_t arena_bytes() const;  // of the last call
  int64_t arena_lower_bound() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace toroid
