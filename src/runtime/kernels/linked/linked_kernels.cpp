#include "runtime/kernels/linked/linked_kernels.h"

#include "base/format.h"
#include "runtime/kernels/registry/operands.h"

namespace toroid {

std::string linked_name(std::string_view kernel, Span<const DType> inputs, DType output) {
  if (kernel == "matmul") {
    if (inputs.size() == 4) return "matmul.int4";
    const bool is_of_bytes = inputs[0] == DType::I8 || inputs[0] == DType::U8;
    if (inputs[1] == DType::I8 && output != DType::I8) return is_of_bytes ? "matmul.bytes" : "matmul.int8";
    return is_floating(output) ? formatted("matmul.{}", to_string(output)) : "matmul.integers";
  }
  if (kernel == "convolution") {
    const DType dtype = inputs[0];
    if (dtype == DType::U8 && inputs[1] == DType::I8 && output == DType::I32) return "convolution.bytes";
    return dtype == DType::F32 || is_reduced_float(dtype) ? formatted("convolution.{}", to_string(dtype)) : "convolution.columns";
  }
  if (kernel == "chain" && output == DType::BF16) return "chain.bf16";
  if (kernel == "attention") return formatted("attention.{}", to_string(output));
  return std::string(kernel);
}

const LinkedKernel* find_linked_kernel(std::string_view name) {
  for (const LinkedKernel* const* each = toroid_linked_kernels; *each != nullptr; ++each) {
    if ((*each)->name == name) return *each;
  }
  return nullptr;
}

}  // namespace toroid
