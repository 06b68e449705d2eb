// A compiled program, loaded and ready to run in this process.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/file/loaded_library.h"
#include "runtime/contract/contract.h"
#include "runtime/cuda/device_tensor.h"
#include "tensor/host_tensor.h"
#include "toroid/gpu_abi.h"
#include "toroid/program_abi.h"

namespace toroid {

class RuntimePool;
namespace cuda {
class ProductMemory;
}

// Where memory runs out its functions throw Error{Environment}, and it stays usable.
class Executable {
 public:
  // `constants`: the bytes of each of the program's constants, kept alive by `owner`. `threads` 0: the default. `gpu`: the number of the
  // one that a program for GPUs runs on.
  Executable(std::string_view library, std::vector<std::span<const std::byte>> constants, std::shared_ptr<const void> owner,
             std::string name, int threads = 0, int gpu = 0);
  // A file written by write_package. Throws as open_package does, before any of its code runs, and Error{Environment} when it cannot be
  // loaded.
  static Executable load(const std::filesystem::path& path, int threads = 0, int gpu = 0);
  // A library alone, of which nothing is known, and a file written by write_package whose library is not looked at.
  static Executable load(const std::filesystem::path& library, const std::filesystem::path& weights, int threads, int gpu);
  Executable(Executable&&) noexcept;
  ~Executable();

  // All outputs in the program's order, buffers' new values included; these are also kept for the next call, which may write over them
  // (ToroidOutputInfo::in_place) if nobody holds them any more. A call that fails has updated no buffers, but for those in place, which may
  // have new elements, as in PyTorch: on a processor only of 64 KiB or more. Throws
  // Error{InvalidInput} that names the violated fact when the inputs do not fit, Error{Environment} when the file of its weights was cut
  // short (base/file/mapped_file.h).
  std::vector<HostTensor> run(std::span<const HostTensor> inputs);

  // Is it for a GPU? Then its kernels run there, and run() copies inputs to it and outputs from it. New values of buffers stay there: their
  // places among the outputs of run() are tensors without elements.
  bool is_on_device() const;
  // Of such a program. A call with tensors in the GPU's memory, on a stream of the caller's (a CUstream; null: the default one), which must
  // not be capturing: the work is started and not waited for. One call after the other, on whatever streams. outputs: as outputs_of gives
  // them, with memory; outputs whose sizes are known late, and new values of buffers, get memory of the program's, which holds until the
  // next call. Throws Error{InvalidInput} as run, and for pointers that are not to so many bytes of this GPU's memory.
  void start(std::span<const DeviceTensor> inputs, std::span<DeviceTensor> outputs, void* stream);
  // Waits for what was started. Throws what run would for it; buffers have their new values nevertheless.
  void wait();
  // The outputs of a call with these inputs, whose data are not looked at: dtypes, and sizes as far as these tell them.
  std::vector<DeviceTensor> outputs_of(std::span<const DeviceTensor> inputs);
  // The value of the buffer that this output of the last call is the new value of.
  HostTensor updated_buffer(size_t output);
  // Times calls on the GPU alone, with inputs and outputs that stay there. Nothing that they write is kept.
  DeviceTimes time_on_device(std::span<const HostTensor> inputs, const DeviceTimesOptions& options);
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
  int64_t arena_bytes() const;  // of the last call
  int64_t arena_lower_bound() const;

 private:
  struct State;
  explicit Executable(std::unique_ptr<State> state);
  static std::unique_ptr<State> load_state(const std::filesystem::path& library, const std::filesystem::path& weights, int threads,
                                           int gpu);
  std::unique_ptr<State> state_;
};

// The library of a program, opened for what it says about itself. Throws as loading does.
class ProgramLibrary {
 public:
  ProgramLibrary(std::string_view bytes, std::string name);
  const ToroidProgram& tables() const { return *tables_; }
  // Of a program for a GPU; else null.
  const ToroidGpuProgram* gpu_tables() const { return static_cast<const ToroidGpuProgram*>(library_.find("toroid_gpu_program")); }

 private:
  LoadedLibrary library_;
  const ToroidProgram* tables_;
};

// The variant that serves every call.
inline const ToroidVariant& general_variant(const ToroidProgram& program) { return program.variants[program.num_variants - 1]; }

}  // namespace toroid
