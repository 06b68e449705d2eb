#include "runtime/kernels/registry/library.h"

#include <algorithm>
#include <vector>

#include "base/affixes.h"
#include "base/error.h"
#include "base/fail.h"
#include "base/format.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/kernels/registry/plan.h"
#include "runtime/kernels/registry/problem.h"
#include "runtime/kernels/registry/registry.h"

namespace toroid {
namespace {

// Kernels need not ask whether they have a first matrix, or a first task.
bool has_nothing_to_write(const KernelCall& call) {
  auto is_empty = [](const ToroidOperand& output) { return product(output.sizes, output.rank) == 0; };
  return !call.outputs.empty() && std::all_of(call.outputs.begin(), call.outputs.end(), is_empty);
}

// Of calls that no implementation takes.
std::unique_ptr<const KernelPlan> plan_alone(std::string_view kernel, Span<const DType> inputs, DType output, const KernelCall& call) {
  if (kernel == "matmul" && is_floating(output) && is_floating(inputs[0]) && is_floating(inputs[1]))
    TOROID_CHECK(inputs[0] == output, "a product of {} that gives {}", to_string(inputs[0]), to_string(output));
  const std::string name = linked_name(kernel, inputs, output);
  if (const LinkedKernel* const linked = find_linked_kernel(name); linked != nullptr && linked->plan != nullptr) return linked->plan(call);
  if (starts_with(kernel, "library.")) fail(ErrorKind::Unsupported, "library kernel '{}' is not available", kernel);
  internal_error(__FILE__, __LINE__, "the kernel is linked", "no library kernel is called '{}'", name);
}

}  // namespace

std::unique_ptr<const KernelPlan> plan_library_kernel(std::string_view name, const KernelCall& call) {
  const size_t mark = name.find('#');
  const std::string_view kernel = name.substr(0, mark);
  if (has_nothing_to_write(call)) return plan_that_runs([](const KernelCall&) {});
  const ToroidOperand* result = !call.outputs.empty() ? &call.outputs[0] : call.num_stages > 0 ? &call.stages[0].outputs[0] : nullptr;
  std::vector<DType> inputs;
  for (const ToroidOperand& input : call.inputs) inputs.push_back(dtype_of(input));
  const DType output = result == nullptr ? DType::F32 : dtype_of(*result);
  const std::string family = family_of(kernel, inputs, output);
  if (mark != name.npos) return runtime_choices().plan(family, name.substr(mark + 1), call);
  if (auto plan = runtime_choices().cheapest_plan(family, call)) return plan;
  return plan_alone(kernel, inputs, output, call);
}

void run_library_kernel(std::string_view name, const KernelCall& call) { plan_library_kernel(name, call)->run(call); }

KernelCall call_of_chain(RuntimePool& pool, Span<const KernelCall> stages) {
  return {/*pool=*/pool,
          /*inputs=*/{},
          /*outputs=*/{},
          /*integers=*/{},
          /*numbers=*/{},
          /*epilogue=*/nullptr,
          /*prepared=*/nullptr,
          /*stages=*/stages.data(),
          /*num_stages=*/stages.size()};
}

}  // namespace toroid
