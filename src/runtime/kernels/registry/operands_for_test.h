// Tensors as library kernels get them.
#pragma once

#include <memory>
#include <vector>

#include "tensor/host_tensor.h"
#include "toroid/program_abi.h"

namespace toroid {

// Numbers from -2 to 2.
inline HostTensor random_tensor(DType dtype, std::vector<int64_t> sizes, uint32_t seed) {
  std::vector<double> values(static_cast<size_t>(numel(sizes)));
  for (double& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<double>(seed >> 16) / 16384 - 2;
  }
  return HostTensor::from_doubles(dtype, std::move(sizes), values);
}

// Operands that keep their sizes and strides alive.
class Operands {
 public:
  ToroidOperand of(const HostTensor& tensor, std::vector<int64_t> strides = {}) {
    lists_.push_back(std::make_unique<std::vector<int64_t>>(tensor.sizes()));
    const int64_t* sizes = lists_.back()->data();
    lists_.push_back(std::make_unique<std::vector<int64_t>>(strides.empty() ? strides_of(tensor.sizes()) : std::move(strides)));
    return {const_cast<std::byte*>(tensor.bytes().data()), sizes, lists_.back()->data(), static_cast<int32_t>(tensor.rank()),
            static_cast<int32_t>(tensor.dtype()),          0};
  }

 private:
  std::vector<std::unique_ptr<std::vector<int64_t>>> lists_;
};

}  // namespace toroid
