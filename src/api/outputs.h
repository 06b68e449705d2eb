// Where the results of a run go: to tensors that the caller gets, to memory of the caller's, or to what a callback gives.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "api/model.h"
#include "base/span.h"
#include "runtime/program/executable.h"
#include "runtime/program/output_memory.h"
#include "toroid/toroid.h"

namespace toroid::api {

class RunOutputs final : public OutputAllocator {
 public:
  explicit RunOutputs(std::shared_ptr<const SharedModel> model);
  ~RunOutputs() { drop(); }

  // Throws Refusal for tensors in options.into that are none. `gpu`: where outputs are, if not in the process's memory.
  void begin(const ToroidRunOptions& options, DLManagedTensor** made, Span<const InputView> inputs, std::optional<int> gpu);
  void* place(size_t output, DType dtype, Span<const int64_t> sizes) override;
  // Of a run on a GPU: the output is in memory that somebody else keeps.
  void lend(size_t output, const DeviceTensor& tensor);
  // The run has succeeded: writes what could not be written in its place.
  void end();
  // It has not.
  void drop();

 private:
  struct Later {
    size_t output;
    HostTensor value;
    const DLTensor* into;
  };
  void* place_into(size_t output, const DLTensor& into, DType dtype, Span<const int64_t> sizes);

  std::shared_ptr<const SharedModel> model_;
  std::vector<int32_t> positions_;  // of the interface, by output of the program
  size_t count_;
  const ToroidRunOptions* options_ = nullptr;
  DLManagedTensor** made_ = nullptr;
  std::optional<int> gpu_;
  // Where the output of the program is: on this GPU, or in the process's memory.
  std::optional<int> gpu_of(size_t output) const;
  DLDevice device_of(size_t output) const;
  std::vector<Later> later_;
  OutputMemory memory_;
};

}  // namespace toroid::api
