// Descriptions of tensors as the driver encodes them for TMA.
#pragma once

#include <cstdint>

#include "toroid/gpu_abi.h"

namespace toroid::cuda {

struct alignas(64) EncodedTensorMap {  // CUtensorMap
  uint64_t words[16];
};

// Throws Error{InvalidInput} for a tensor that kernels cannot address.
EncodedTensorMap encode(const ToroidTensorMap& map);

}  // namespace toroid::cuda
