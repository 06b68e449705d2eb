// A call whose inputs are contiguous: for kernels that take no others.
#pragma once

#include <memory>
#include <vector>

#include "runtime/kernels/registry/library.h"

namespace toroid {

class ContiguousInputs {
 public:
  // Copies the inputs that are not contiguous. `call` outlives this object.
  explicit ContiguousInputs(const KernelCall& call);

  // The call with these inputs, of which those that were copied are no constants.
  const KernelCall& call() const { return call_; }

 private:
  struct Copy {
    std::unique_ptr<std::byte[]> data;
    std::vector<int64_t> strides;
  };
  std::vector<Copy> copies_;
  std::vector<ToroidOperand> inputs_;
  KernelCall call_;
};

}  // namespace toroid
