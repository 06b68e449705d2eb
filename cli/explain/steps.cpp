#include "explain/steps.h"

#include <fmt/format.h>

#include "driver/choices/choose_kernels.h"
#include "explain/operators.h"
#include "graph/custom/custom_operators.h"
#include "passes/constant_values.h"
#include "runtime/kernels/gemm/int8/gemm.h"
#include "runtime/kernels/registry/registry.h"
#include "schedule/call_arguments.h"

namespace toroid::cli {
namespace {

std::string kind_of(const Program& program, const schedule::Step& step) {
  if (std::holds_alternative<schedule::BindStep>(step)) return "a number is read";
  if (std::holds_alternative<schedule::ChainStep>(step)) return "library calls, computed together in bands of image rows";
  if (std::holds_alternative<schedule::ParallelKernels>(step)) return "kernels, started together";
  const auto* call = std::get_if<schedule::CallStep>(&step);
  if (call == nullptr) return "kernel";
  const auto* library = std::get_if<Library>(&call->call.op);
  const CustomOperator* custom =
      library == nullptr || program.operators == nullptr ? nullptr : program.operators->of_library(library->name);
  if (custom != nullptr) {
    const CustomKernel* kernel = program.operators->kernel_of(*custom);
    return fmt::format("the kernel of {} ({}, {})", custom->schema.name, kernel == nullptr ? "" : to_string(kernel->kind), custom->file);
  }
  return call->epilogue ? "library call with an epilogue" : "library call";
}

// What several stages need: kept or computed again, and why.
std::string form_text(const schedule::Kernel& kernel) {
  const std::string_view form = schedule::to_string(*kernel.form);
  const auto& [persistent, looped] = kernel.form_estimate;
  const std::string costs =
      fmt::format("by estimate {:.1f} cycles a vector where values are kept, {:.1f} where they are computed again", persistent, looped);
  if (kernel.other_forms.empty()) return fmt::format("{}: {}", form, costs);
  return fmt::format("persistent or looped, the first call finds out: {}", costs);
}

// Which implementation was chosen, or why that is left to the runtime; "" where nothing calls the runtime.
std::string choice_of(const Program& program, const loop::LoopProgram& loops, const schedule::Step& step) {
  if (const auto* chain = std::get_if<schedule::ChainStep>(&step)) return chain->choice;
  const auto* call = std::get_if<schedule::CallStep>(&step);
  if (call == nullptr || std::holds_alternative<HigherOrder>(call->call.op)) return "";
  return call->choice.empty() ? why_no_choice(program, loops, *call) : call->choice;
}

// How a product reads its weights of int8; "" for other steps.
std::string int8_text(const Program& program, const loop::LoopProgram& loops, const schedule::Step& step) {
  const auto* call = std::get_if<schedule::CallStep>(&step);
  if (call == nullptr || std::holds_alternative<HigherOrder>(call->call.op) || call->call.operands.size() != 2) return "";
  const loop::Buffer& out = loops.buffer(call->outputs[0]);
  const DType inputs[] = {loops.buffer(call->call.operands[0].buffer).dtype, loops.buffer(call->call.operands[1].buffer).dtype};
  if (family_of(schedule::call_arguments(call->call).name, inputs, out.dtype) != "matmul.int8") return "";
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < out.sizes.size(); ++d) rows = !out.sizes[d].is_const() || rows < 0 ? -1 : rows * out.sizes[d].value();
  const loop::Operand& weights = call->call.operands[1];
  const int64_t columns = sym::evaluate_hint(weights.sizes.back()), depth = sym::evaluate_hint(weights.sizes[weights.sizes.size() - 2]);
  const loop::Buffer& buffer = loops.buffer(weights.buffer);
  const bool is_constant = buffer.kind == loop::BufferKind::Prepared ||
                           (buffer.kind == loop::BufferKind::Constant && !is_written(program, ConstantId{buffer.position}));
  // As a product of two matrices.
  auto reading = [&](int64_t count) {
    Problem problem = {.family = "matmul.int8",
                       .inputs = {contiguous_operand(inputs[0], {count, depth}), contiguous_operand(inputs[1], {depth, columns})},
                       .outputs = {contiguous_operand(out.dtype, {count, columns})},
                       .integers = {},
                       .numbers = {}};
    problem.inputs[1].is_constant = is_constant;
    return reading_of_int8(runtime_choices().cheapest_choice(problem, model_of_this_machine(RuntimePool::threads_for(0))).value_or(""));
  };
  if (rows >= 0) return fmt::format("int8 weights: {}", reading(rows));
  const int64_t firsts[] = {1, kMostRowsInRegisters + 1, kRowsThatHideReading};  // of the ranges that may differ
  std::string text;
  for (size_t i = 0; i < std::size(firsts); ++i) {
    const std::string_view way = reading(firsts[i]);
    if (i + 1 == std::size(firsts)) {
      text += text.empty() ? std::string(way) : fmt::format("{} for more", way);
    } else if (reading(firsts[i + 1]) != way) {
      text += fmt::format("{} for up to {} rows, ", way, firsts[i + 1] - 1);
    }
  }
  return fmt::format("int8 weights: {}", text);
}

}  // namespace

void print_step(const Program& program, const loop::LoopProgram& loops, const schedule::Step& step, size_t number, bool with_choice) {
  fmt::print("{}: {}, {}\n", number, schedule::name_of(step), kind_of(program, step));
  if (const std::string choice = with_choice ? choice_of(program, loops, step) : ""; !choice.empty())
    fmt::print("    computed by {}\n", choice);
  if (const std::string text = with_choice ? "" : int8_text(program, loops, step); !text.empty()) fmt::print("    {}\n", text);
  if (const auto* kernel = std::get_if<schedule::Kernel>(&step); kernel != nullptr) {
    if (!kernel->halide.empty()) {
      fmt::print("    in Halide, by {}\n", kernel->halide);
    } else if (kernel->form) {
      fmt::print("    {}\n", form_text(*kernel));
    }
  }
  for (ProvenanceId id : schedule::provenance_of(step)) {
    const Provenance& from = program.graph.provenance(id);
    if (!from.op.empty()) fmt::print("    {}\n", operator_text(from));
  }
}

}  // namespace toroid::cli
