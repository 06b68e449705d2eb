// A program for a GPU as its host holds it: its kernels, loaded, and the device's memory that its calls use.
//
// Weights go to the device when the first call needs them, once for all that run the program there (device_weights.h). What calls update
// (TOROID_OUTPUT_BUFFER_MUTATION) is each one's own and stays there: the new value is written over the old one where the program allows it
// (ToroidOutputInfo::in_place), else beside it, and the two places take turns.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/span.h"
#include "runtime/cuda/cuda_callbacks.h"
#include "runtime/cuda/device_tensor.h"
#include "runtime/cuda/device_weights.h"
#include "runtime/program/loaded_variant.h"
#include "tensor/host_tensor.h"

namespace toroid::cuda {

class ProgramOnDevice {
 public:
  struct Delete {
    void operator()(ProgramOnDevice* program) const;
  };
  using Owner = std::unique_ptr<ProgramOnDevice, Delete>;
  // Throws Error{Environment} where it cannot load the kernels. `program` and `kernels` must outlive it. `weights`: of all that run the
  // program.
  static Owner load(const Device& device, RuntimePool& pool, const ToroidProgram& program, const ToroidGpuProgram& kernels,
                    DeviceWeights& weights);
  ProgramOnDevice(const ProgramOnDevice&) = delete;
  ProgramOnDevice& operator=(const ProgramOnDevice&) = delete;

  // What a call has besides its tensors.
  struct Call {
    const LoadedVariant& variant;
    std::string_view name;
    const CallLayout& layout;
    const CallSizes& sizes;
    const int64_t* random;
    const std::shared_ptr<const Weights>& weights;
    Span<const void* const> constants;  // in the process's memory, by ToroidProgram::constants: what is updated begins with this
    Span<const int32_t> updates;        // by output the constant that it is the new value of, or -1
  };
  // With tensors in the process's memory: inputs as the contract says, outputs but for updates, late ones not made yet. Throws as
  // LoadedVariant::run does.
  void run(const Call& call, Span<const Span<const std::byte>> inputs, std::vector<HostTensor>& outputs);
  // With tensors in the device's memory, on a stream of the caller's, which is not waited for. Late outputs and updates get their data,
  // which stay until the next call.
  void start(const Call& call, Span<const Span<const std::byte>> inputs, Span<DeviceTensor> outputs, StreamHandle stream);
  // Waits for what was started. Throws what was wrong with it.
  void wait();
  // Of calls whose inputs and outputs stay on the device, from an L2 cache without them; behind some that are not counted. Nothing that
  // they write is kept.
  DeviceTimes time(const Call& call, Span<const Span<const std::byte>> inputs, const DeviceTimesOptions& options);
  // What calls update comes to the device with the first call that needs it.
  bool has_buffer(size_t constant) const { return buffers_[constant].has_value() || host_buffers_[constant].value != nullptr; }
  // The next call that needs it copies it to the device again.
  void forget_buffer(size_t constant);
  // Its value, as the last call left it; one has used it.
  void read_buffer(size_t constant, Span<std::byte> to);
  // Calls from now on have these weights. Lets go of the old ones, which others may still use.
  void use_weights(const Weights& newest);

  // Where measured algorithms of products are kept; before the first call.
  void remember_products(const std::shared_ptr<ProductMemory>& memory) { callbacks_.set_memory(memory, device_.name()); }

  const Device& device() const { return device_; }
  const CudaCallbacks& callbacks() const { return callbacks_; }

 private:
  ProgramOnDevice(const Device& device, RuntimePool& pool, const ToroidProgram& program, const ToroidGpuProgram& kernels,
                  DeviceWeights& weights);

  // Where the tensors of a call are, in memory of this object or of the caller.
  struct Places {
    std::vector<const void*> inputs, constants;
    std::vector<void*> outputs;  // null: late
    char *arena = nullptr, *prepared = nullptr;
  };
  // Constants and temporaries.
  void lay_out(const Call& call);
  void take_constants(const Call& call);
  void copy_inputs(const Call& call, Span<const Span<const std::byte>> inputs);
  bool is_on_host(const Call& call, const int32_t* ToroidGpuPlacement::*list, size_t position) const {
    return call.variant.is_on_host(list, position);
  }
  // Own memory for an output; for an update the old value's, if the program allows it.
  void* own_output(const Call& call, size_t output);
  // And beside the old value.
  void* output_beside(const Call& call, size_t output);
  // In the process's memory: an output that has its sizes, of an update beside the old value.
  void* host_place(const Call& call, size_t output, HostTensor* given);
  // Constants of its own for those that calls update in place, with their values.
  void copy_updated(const Call& call);
  void start(const Call& call);
  void keep_updates(const Call& call);
  void require_memory(size_t position, const void* data, size_t bytes, const char* what, const char* name);

  const Device& device_;
  const ToroidProgram& program_;
  Stream stream_;
  std::optional<PreparedConstants> packed_{std::in_place};  // of library kernels that run on the host
  CudaCallbacks callbacks_;
  Places places_;  // of the last call
  std::optional<Memory> arena_;
  std::optional<HostBytes> host_arena_;
  std::vector<std::unique_ptr<HostBytes>> host_outputs_;  // of calls that are timed
  // What calls update in the process's memory, by constant: the value, and where the next one goes.
  struct HostBuffer {
    std::unique_ptr<HostBytes> value, next;
  };
  std::vector<HostBuffer> host_buffers_;
  std::vector<std::optional<Memory>> inputs_, outputs_, buffers_;  // buffers: by constant, from the first call on that needs it
  const std::vector<bool> is_updated_;                             // by constant, by any variant
  const std::shared_ptr<DeviceWeights::Copies> shared_;
  std::vector<SharedCopy> constants_;  // all others
  std::unordered_map<const LoadedVariant*, SharedCopy> prepared_;
  std::vector<std::pair<const void*, size_t>> required_;  // what the last call's tensors were found to be, inputs first
  const LoadedVariant* started_ = nullptr;                // and not waited for
  std::string started_name_;
};

}  // namespace toroid::cuda
