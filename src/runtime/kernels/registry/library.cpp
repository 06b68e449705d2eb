#include "runtime/kernels/registry/library.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/float16.h"
#include "runtime/kernels/attention/attention_f64.h"
#include "runtime/kernels/conv/chain.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/fourier/fourier.h"
#include "runtime/kernels/gemm/gemm_integers.h"
#include "runtime/kernels/gemm/grouped_gemm.h"
#include "runtime/kernels/gemm/int4/gemm.h"
#include "runtime/kernels/registry/library_calls.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/kernels/registry/plan.h"
#include "runtime/kernels/registry/problem.h"
#include "runtime/kernels/registry/registry.h"
#include "runtime/memory/scratch.h"
#include "tensor/dtype.h"
#include "tensor/host_tensor.h"

namespace toroid {
namespace {

std::vector<int64_t> sizes_of(const ToroidOperand& operand) { return {operand.sizes, operand.sizes + operand.rank}; }

// Elements at strided positions, in row-major order, as floats.
template <class T>
void widen_elements(const ToroidOperand& operand, float* to) {
  const auto* from = static_cast<const T*>(operand.data);
  const int32_t last = operand.rank - 1;
  if (operand.rank == 0 || operand.strides[last] != 1) {
    return for_each_position(operand, [&](int64_t i, int64_t position) { to[i] = static_cast<float>(from[position]); });
  }
  const int64_t count = operand.sizes[last];
  if (count == 0) return;
  ToroidOperand rows = operand;
  --rows.rank;
  for_each_position(rows, [&](int64_t i, int64_t position) {
    for (int64_t j = 0; j < count; ++j) to[i * count + j] = static_cast<float>(from[position + j]);
  });
}

// F16 and BF16 operands as F32, for kernels that know nothing else. Constants are widened once.
class Widened {
 public:
  explicit Widened(const KernelCall& call) : call_(call) {
    storage_.reserve(call.inputs.size() + call.outputs.size());
    for (const ToroidOperand& input : call.inputs) inputs_.push_back(widen(input, true));
    for (const ToroidOperand& output : call.outputs) outputs_.push_back(widen(output, false));
  }

  KernelCall call() const { return {call_.pool, inputs_, outputs_, call_.integers, call_.numbers, nullptr, call_.prepared}; }

  void round_outputs() const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto* from = static_cast<const float*>(outputs_[i].data);
      const int64_t count = numel(sizes_of(outputs_[i]));
      if (dtype_of(call_.outputs[i]) == DType::BF16) {
        auto* to = static_cast<BFloat16*>(call_.outputs[i].data);
        for (int64_t j = 0; j < count; ++j) to[j] = BFloat16(from[j]);
      } else if (dtype_of(call_.outputs[i]) == DType::F16) {
        auto* to = static_cast<Float16*>(call_.outputs[i].data);
        for (int64_t j = 0; j < count; ++j) to[j] = Float16(from[j]);
      }
    }
  }

 private:
  ToroidOperand widen(const ToroidOperand& operand, bool copy) {
    if (!is_reduced_float(dtype_of(operand))) return operand;
    const std::vector<int64_t> sizes = sizes_of(operand);
    const int64_t count = std::max<int64_t>(numel(sizes), 1);
    const bool is_kept = copy && call_.keeps(operand);
    storage_.push_back({nullptr, strides_of(sizes)});
    auto widen_all = [&](float* to) {
      dtype_of(operand) == DType::BF16 ? widen_elements<BFloat16>(operand, to) : widen_elements<Float16>(operand, to);
    };
    float* to = nullptr;
    if (is_kept) {
      std::vector<int64_t> form = {'w', operand.dtype};
      form.insert(form.end(), operand.sizes, operand.sizes + operand.rank);
      form.insert(form.end(), operand.strides, operand.strides + operand.rank);
      to = const_cast<float*>(call_.packed_or_scratch(operand, operand.data, form, count, widen_all));
    } else {
      storage_.back().data.reset(new float[static_cast<size_t>(count)]);
      to = storage_.back().data.get();
      if (copy) widen_all(to);
    }
    return {to, operand.sizes, storage_.back().strides.data(), operand.rank, static_cast<int32_t>(DType::F32), is_kept};
  }

  struct Storage {
    std::unique_ptr<float[]> data;
    std::vector<int64_t> strides;
  };
  const KernelCall& call_;
  std::vector<Storage> storage_;
  std::vector<ToroidOperand> inputs_;
  std::vector<ToroidOperand> outputs_;
};

using FastKernel = void (*)(const KernelCall&);
FastKernel find_fast_kernel(std::string_view name) {
  if (name == "matmul") return run_matmul_f32;
  if (name == "convolution") return run_convolution_f32;
  return nullptr;
}

bool is_reduced_to_channels_last(const KernelCall& call) {
  const ToroidOperand& y = call.outputs[0];
  return call.inputs.size() == 2 && is_reduced_float(dtype_of(call.inputs[0])) && call.integers[0] == 0 && y.rank <= 4 && y.strides[1] == 1;
}

thread_local Scratch scratch_for_forms;

// Of calls that no family of implementations takes.
std::unique_ptr<const KernelPlan> plan_alone(std::string_view name, const KernelCall& call) {
  const DType dtype = call.outputs.empty() ? DType::F32 : dtype_of(call.outputs[0]);
  if (name == "sort") return plan_that_runs(run_sort);
  if (name == "chain") return plan_in_turn(call);
  if (name == "matmul" && call.inputs.size() == 4)
    return plan_that_runs([](const KernelCall& each) { run_matmul_int4(each, Int4Algorithm::Panels); });
  if (name == "matmul" && dtype_of(call.inputs[1]) == DType::I8 && dtype != DType::I8)
    return plan_that_runs([](const KernelCall& each) { run_matmul_int8(each, Int8Algorithm::Widened); });
  if (name == "convolution" && is_reduced_to_channels_last(call)) {  // to F32, or without filter elements
    using Form = HalfConvAlgorithm;
    const Form form = can_convolve(Form::ChannelVectors, call) ? Form::ChannelVectors
                      : can_convolve(Form::Tiles, call)        ? Form::Tiles
                                                               : Form::Widened;
    return plan_that_runs([form](const KernelCall& each) { run_convolution_half(each, form); });
  }
  if (name == "convolution" && (dtype == DType::F64 || !is_floating(dtype))) return plan_convolution_columns(call);
  if (name == "attention" && dtype == DType::F64) return plan_attention_f64(call);
  const FastKernel fast = find_fast_kernel(name);
  if (fast != nullptr && dtype == DType::F32) return plan_that_runs(fast);
  if (name == "matmul" && can_multiply_integers(call)) return plan_matmul_integers(call);
  if (name == "matmul" && is_reduced_float(dtype))
    return plan_that_runs([](const KernelCall& each) { run_matmul_half(each, HalfGemmAlgorithm::Widened); });
  if (name == "attention" && (dtype == DType::F32 || is_reduced_float(dtype)))
    return plan_that_runs([](const KernelCall& each) { run_attention(each, AttentionAlgorithm::Widened); });
  if (fast != nullptr && is_reduced_float(dtype)) {
    return plan_that_runs([name = std::string(name)](const KernelCall& each) {
      const Widened widened(each);
      run_library_kernel(name, widened.call());
      widened.round_outputs();
    });
  }
  if (name == "library.products.grouped") return plan_that_runs(run_grouped_product);
  if (name.starts_with("library.fourier.") && can_run_fourier(name.substr(8), call)) {
    return plan_that_runs([name = std::string(name.substr(8))](const KernelCall& each) { run_fourier(name, each); });
  }
  TOROID_CHECK(name.starts_with("library."), "no library kernel is called '{}'", name);
  return plan_library_call(name.substr(8));
}

}  // namespace

const float* KernelCall::packed_or_scratch(const ToroidOperand& operand, const void* data, std::span<const int64_t> form, int64_t count,
                                           const std::function<void(float*)>& make) const {
  if (keeps(operand)) return prepared->get(data, form, count, make);
  float* made = scratch_for_forms.get(count);
  make(made);
  return made;
}

std::unique_ptr<const KernelPlan> plan_library_kernel(std::string_view name, const KernelCall& call) {
  const size_t mark = name.find('#');
  const std::string_view kernel = name.substr(0, mark);
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
