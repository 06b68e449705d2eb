// A program for a GPU as its host holds it: its kernels, loaded, and the device's memory that its calls use.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/cuda_callbacks.h"
#include "runtime/program/loaded_variant.h"
#include "tensor/host_tensor.h"

namespace toroid::cuda {

class ProgramOnDevice {
 public:
  // Throws Error{Environment} where there is no GPU, and where it cannot load the kernels. `program` and `kernels` must outlive it.
  ProgramOnDevice(RuntimePool& pool, const ToroidProgram& program, const ToroidGpuProgram& kernels);
  ~ProgramOnDevice();

  // A call's arguments, in the process's memory. Constants stay on the device from the first call on, by their addresses here.
  struct Call {
    const LoadedVariant& variant;
    std::string_view name;
    const CallLayout& layout;
    const CallSizes& sizes;
    std::span<const std::span<const std::byte>> inputs;     // as the contract says
    std::span<const std::span<const std::byte>> constants;  // of the variant
    const int64_t* random;
    std::vector<HostTensor>& outputs;  // with memory, but for late ones
  };
  // Throws as LoadedVariant::run does.
  void run(const Call& call);
  // Seconds of each of `times` calls on the device, with inputs and outputs that stay there; behind a few that are not counted.
  std::vector<double> time(const Call& call, int times);

  // What is at this address of the process's memory will be other bytes.
  void forget_constant(const void* data) { constants_.erase(data); }

  const std::set<std::string>& on_host() const { return callbacks_.on_host(); }
  RuntimeCallbacks& callbacks() { return callbacks_; }

 private:
  struct Pointers {
    std::vector<const void*> inputs, constants;
    std::vector<void*> outputs;
    char *arena = nullptr, *prepared = nullptr;
  };
  Pointers lay_out(const Call& call);
  const void* constant(std::span<const std::byte> bytes);

  Stream stream_;
  CudaCallbacks callbacks_;
  std::vector<Memory> inputs_, outputs_;  // of the last call
  std::unique_ptr<Memory> arena_;
  std::unordered_map<const LoadedVariant*, Memory> prepared_;
  std::unordered_map<const void*, Memory> constants_;
};

}  // namespace toroid::cuda
