#include "runtime/kernels/linked/library_calls.h"

#include <vector>

#include "runtime/kernels/registry/contiguous_inputs.h"
#include "runtime/kernels/registry/operands.h"

namespace toroid {
namespace {

Span<const int64_t> sizes_of(const ToroidOperand& operand) { return {operand.sizes, static_cast<size_t>(operand.rank)}; }

}  // namespace

void run_on_contiguous(LibraryKernel kernel, const KernelCall& call) {
  const ContiguousInputs contiguous(call);
  std::vector<LibraryInput> inputs;
  std::vector<LibraryOutput> outputs;
  for (const ToroidOperand& input : contiguous.call().inputs) {
    inputs.push_back({dtype_of(input), sizes_of(input), static_cast<const std::byte*>(input.data)});
  }
  for (const ToroidOperand& output : call.outputs) {
    outputs.push_back({dtype_of(output), sizes_of(output), static_cast<std::byte*>(output.data)});
  }
  constexpr int64_t kGrain = 1024;
  const ParallelFor parallel_for = [&](int64_t n, const std::function<void(int64_t, int64_t)>& body) {
    call.pool.parallel_for(n, kGrain, body);
  };
  kernel(LibraryCall{inputs, outputs, call.numbers, parallel_for});
}

}  // namespace toroid
