// Library kernels in plain C: matmul, convolution and attention, over operands of any strides.
#pragma once

#include <string_view>

namespace toroid::codegen::c {

// After kPrelude.
extern const std::string_view kLibrary;

}  // namespace toroid::codegen::c
