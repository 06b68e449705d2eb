// Library kernels that compiled programs call by name (ToroidRuntime::call).
#pragma once

#include <string_view>

#include "base/span.h"
#include "runtime/kernels/registry/prepared_constants.h"
#include "runtime/pool/pool.h"
#include "tensor/dtype.h"
#include "toroid/program_abi.h"

namespace toroid {

struct KernelCall {
  RuntimePool& pool;
  Span<const ToroidOperand> inputs;
  Span<const ToroidOperand> outputs;  // contiguous, but for those of convolutions, whose strides may be of any order
  Span<const int64_t> integers;
  Span<const double> numbers;
  const ToroidEpilogue* epilogue = nullptr;  // takes the result of products and convolutions; null: none
  PreparedConstants* prepared = nullptr;     // null: what is made of constants is not kept
  // Of a chain, which has no operands besides: its calls, "convolution" in float32 or bfloat16 (chain.h). Each but the first reads what the
  // one before makes, its output or the one result of its epilogue.
  const KernelCall* stages = nullptr;
  size_t num_stages = 0;

  bool keeps(const ToroidOperand& operand) const { return prepared != nullptr && operand.is_constant; }
};

// Throws Error. Names: "matmul", "convolution", "attention", "sort", "library.NAME" (library/library_ops.h); "matmul#packed" names one of
// several implementations (runtime/kernels/registry/registry.h), which must be able to compute the call.
void run_library_kernel(std::string_view name, const KernelCall& call);

// A chain as the call of its implementations, which has no operands besides. The stages are only looked at.
KernelCall call_of_chain(RuntimePool& pool, Span<const KernelCall> stages);

}  // namespace toroid
