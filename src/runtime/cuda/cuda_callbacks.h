// What a running program may call back when its buffers are on a GPU: launches, memory, matrix products there, and all other library
// kernels on the host, with copies.
#pragma once

#include <map>
#include <set>
#include <string>

#include "runtime/cuda/device.h"
#include "runtime/cuda/matmul.h"
#include "runtime/program/runtime_callbacks.h"
#include "toroid/gpu_abi.h"

namespace toroid::cuda {

class CudaCallbacks final : public RuntimeCallbacks {
 public:
  CudaCallbacks(RuntimePool& pool, const ToroidProgram& program, const ToroidGpuProgram& kernels, const Stream& stream);

  // Also waits for what the entry started, unless told not to. Throws what went wrong on the device.
  int32_t run(Entry* entry, const ToroidCall& call, Call& state) override;
  // Then calls only start their work: late outputs are not copied, and what kernels find wrong is not told.
  void set_waits(bool waits) { waits_ = waits; }

  // Library kernels that ran on the host so far.
  const std::set<std::string>& on_host() const { return on_host_; }

 protected:
  void* allocate(int64_t bytes) override;
  void release(void* data) override;
  void release_all() override { used_.clear(); }
  void* output(int32_t position, const int64_t* sizes) override;
  void call(const ToroidLibraryCall& call) override;
  void synchronize() override { stream_.synchronize(); }
  const ToroidRuntime* table() override { return &table_.host; }

 private:
  struct Entries;
  void launch(const ToroidLaunch& launch);
  void read(void* to, const void* from, int64_t bytes);
  bool multiply(const ToroidLibraryCall& call);  // false: cuBLASLt does not
  void call_on_host(const ToroidLibraryCall& call);

  const ToroidProgram& program_;
  const Stream& stream_;
  Binaries binaries_;
  Products products_;
  Memory failure_;
  ToroidGpuRuntime table_{};
  std::map<const void*, Memory> used_;      // by address
  std::map<int32_t, Memory> late_outputs_;  // by position
  std::set<std::string> on_host_;
  bool waits_ = true;
};

}  // namespace toroid::cuda
