// Who gives memory to the outputs of a call: the caller, a pool, a callback of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/span.h"
#include "tensor/host_tensor.h"

namespace toroid {

class OutputAllocator {
 public:
  virtual ~OutputAllocator() = default;
  // Memory for so many elements in row-major order, aligned to an element. Late outputs are asked for while the program runs, all others
  // before. Throws where there is none.
  virtual void* place(size_t output, DType dtype, Span<const int64_t> sizes) = 0;
};

// Each output becomes a tensor of its own.
class OutputTensors final : public OutputAllocator {
 public:
  explicit OutputTensors(std::vector<HostTensor>& tensors) : tensors_(tensors) {}
  void* place(size_t output, DType dtype, Span<const int64_t> sizes) override {
    tensors_[output] = HostTensor(dtype, {sizes.begin(), sizes.end()});
    return tensors_[output].mutable_data<std::byte>();
  }

 private:
  std::vector<HostTensor>& tensors_;
};

}  // namespace toroid
