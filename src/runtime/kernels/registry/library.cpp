#include "runtime/kernels/registry/library.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "runtime/kernels/attention/attention.h"
#include "runtime/kernels/attention/attention_f64.h"
#include "runtime/kernels/conv/chain.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/fourier/fourier.h"
#include "runtime/kernels/gemm/gemm_f32.h"
#include "runtime/kernels/gemm/gemm_integers.h"
#include "runtime/kernels/gemm/grouped_gemm.h"
#include "runtime/kernels/gemm/half/gemm.h"
#include "runtime/kernels/gemm/int4/gemm.h"
#include "runtime/kernels/gemm/int8/gemm.h"
#include "runtime/kernels/registry/library_calls.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/kernels/registry/plan.h"
#include "runtime/kernels/registry/problem.h"
#include "runtime/kernels/registry/registry.h"
#include "runtime/kernels/sort/sort.h"

namespace toroid {
namespace {

bool is_reduced_to_channels_last(const KernelCall& call) {
  const ToroidOperand& y = call.outputs[0];
  return call.inputs.size() == 2 && is_reduced_float(dtype_of(call.inputs[0])) && call.integers[0] == 0 && y.rank <= 4 && y.strides[1] == 1;
}

// Kernels need not ask whether they have a first matrix, or a first task.
bool has_nothing_to_write(const KernelCall& call) {
  auto is_empty = [](const ToroidOperand& output) { return product(output.sizes, output.rank) == 0; };
  return !call.outputs.empty() && std::ranges::all_of(call.outputs, is_empty);
}

// Of calls that no family of implementations takes.
std::unique_ptr<const KernelPlan> plan_alone(std::string_view name, const KernelCall& call) {
  const DType dtype = call.outputs.empty() ? DType::F32 : dtype_of(call.outputs[0]);
  if (name == "sort") return plan_that_runs(run_sort);
  if (name == "chain") return plan_in_turn(call);
  if (name == "matmul") {
    if (call.inputs.size() == 4) return plan_int4_panels(call);
    const DType left = dtype_of(call.inputs[0]);
    if (dtype_of(call.inputs[1]) == DType::I8 && dtype != DType::I8)
      return left == DType::I8 || left == DType::U8 ? plan_bytes_widened(call) : plan_int8_widened(call);
    if (dtype == DType::F32) return plan_matmul_f32(call);
    if (can_multiply_integers(call)) return plan_matmul_integers(call);
    if (is_reduced_float(dtype)) return plan_half_widened(call);
  }
  if (name == "convolution") {
    if (is_reduced_to_channels_last(call)) return plan_half_convolution(call);  // to F32, or without filter elements
    if (is_reduced_float(dtype)) return plan_widened(call);
    return dtype == DType::F32 ? plan_convolution_f32(call) : plan_columns(call);
  }
  if (name == "attention" && dtype == DType::F64) return plan_attention_f64(call);
  if (name == "attention" && (dtype == DType::F32 || is_reduced_float(dtype))) return plan_that_runs(run_attention_blocks);
  if (name == "library.products.grouped") return plan_that_runs(run_grouped_product);
  if (name.starts_with("library.fourier.") && can_run_fourier(name.substr(8), call)) {
    return plan_that_runs([name = std::string(name.substr(8))](const KernelCall& each) { run_fourier(name, each); });
  }
  TOROID_CHECK(name.starts_with("library."), "no library kernel is called '{}'", name);
  return plan_library_call(name.substr(8));
}

}  // namespace

std::unique_ptr<const KernelPlan> plan_library_kernel(std::string_view name, const KernelCall& call) {
  const size_t mark = name.find('#');
  const std::string_view kernel = name.substr(0, mark);
  if (has_nothing_to_write(call)) return plan_that_runs([](const KernelCall&) {});
  const ToroidOperand* result = !call.outputs.empty() ? &call.outputs[0] : call.num_stages > 0 ? &call.stages[0].outputs[0] : nullptr;
  std::vector<DType> inputs;
  for (const ToroidOperand& input : call.inputs) inputs.push_back(dtype_of(input));
  const std::string family = family_of(kernel, inputs, result == nullptr ? DType::F32 : dtype_of(*result));
  if (mark != name.npos) return runtime_choices().plan(family, name.substr(mark + 1), call);
  if (auto plan = runtime_choices().cheapest_plan(family, call)) return plan;
  return plan_alone(kernel, call);
}

void run_library_kernel(std::string_view name, const KernelCall& call) { plan_library_kernel(name, call)->run(call); }

KernelCall call_of_chain(RuntimePool& pool, std::span<const KernelCall> stages) {
  return {.pool = pool, .inputs = {}, .outputs = {}, .integers = {}, .numbers = {}, .stages = stages.data(), .num_stages = stages.size()};
}

}  // namespace toroid
