#include "runtime/kernels/registry/library_calls.h"

#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "runtime/kernels/fourier/any_length.h"
#include "runtime/kernels/registry/contiguous_inputs.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/kernels/select/selection.h"

namespace toroid {
namespace {

constexpr LibraryOp kOwn[] = {
    {"order.topk", selection::topk},
    {"order.kth", selection::kth},
    {"order.median", selection::median},
    {"order.mode", selection::mode},
    {"order.search", selection::search},
    {"order.positions", selection::positions},
    {"fourier.transform", any_length_fourier::transform},
    {"fourier.half", any_length_fourier::half},
    {"fourier.real", any_length_fourier::real},
};

std::span<const int64_t> sizes_of(const ToroidOperand& operand) { return {operand.sizes, static_cast<size_t>(operand.rank)}; }

void run(LibraryKernel kernel, const KernelCall& call) {
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

}  // namespace

LibraryKernel find_library_kernel(std::string_view name) {
  for (const LibraryOp& op : kOwn) {
    if (op.name == name) return op.kernel;
  }
  const LibraryOp* shared = find_library_op(name);
  return shared == nullptr ? nullptr : shared->kernel;
}

std::unique_ptr<const KernelPlan> plan_library_call(std::string_view name) {
  const LibraryKernel kernel = find_library_kernel(name);
  if (kernel == nullptr) throw Error(ErrorKind::Unsupported, formatted("library kernel 'library.{}' is not available", name));
  return plan_that_runs([kernel](const KernelCall& each) { run(kernel, each); });
}

}  // namespace toroid
