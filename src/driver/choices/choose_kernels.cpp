#include "driver/choices/choose_kernels.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "passes/constant_values.h"
#include "runtime/kernels/conv/chain.h"
#include "runtime/kernels/registry/registry.h"
#include "schedule/call_arguments.h"

namespace toroid {
namespace {

bool are_fixed(const std::vector<sym::Expr>& values) {
  return std::all_of(values.begin(), values.end(), [](sym::Expr e) { return e.is_const(); });
}

std::vector<int64_t> numbers_of(const std::vector<sym::Expr>& values) {
  std::vector<int64_t> numbers;
  for (sym::Expr e : values) numbers.push_back(e.value());
  return numbers;
}

// What is known of an operand before the program runs. None where its sizes are not.
std::optional<OperandMeta> meta_of(const Program& program, const loop::LoopProgram& loops, const loop::Operand& operand) {
  if (!are_fixed(operand.sizes) || !are_fixed(operand.strides) || !operand.offset.is_const()) return std::nullopt;
  const loop::Buffer& buffer = loops.buffer(operand.buffer);
  OperandMeta meta = {.dtype = buffer.dtype, .sizes = numbers_of(operand.sizes), .strides = numbers_of(operand.strides)};
  if (std::any_of(meta.strides.begin(), meta.strides.end(), [](int64_t stride) { return stride < 0; })) return std::nullopt;
  // A caller's tensor is aligned to its elements, no more.
  const int64_t width = size_bytes(buffer.dtype);
  meta.alignment_bytes = buffer.kind == loop::BufferKind::Input ? width : std::gcd(OperandMeta::kAlignment, operand.offset.value() * width);
  meta.is_constant = buffer.kind == loop::BufferKind::Prepared ||
                     (buffer.kind == loop::BufferKind::Constant && !is_written(program, ConstantId{buffer.position}));
  return meta;
}

std::optional<Problem> problem_of(const Program& program, const loop::LoopProgram& loops, const schedule::CallStep& step) {
  if (std::holds_alternative<HigherOrder>(step.call.op) || step.outputs.size() != 1) return std::nullopt;
  const schedule::CallArguments arguments = schedule::call_arguments(step.call);
  const loop::Buffer& out = loops.buffer(step.outputs[0]);
  Problem problem;
  problem.has_epilogue = step.epilogue.has_value();
  for (const loop::Operand& operand : step.call.operands) {
    std::optional<OperandMeta> meta = meta_of(program, loops, operand);
    if (!meta) return std::nullopt;
    problem.inputs.push_back(std::move(*meta));
  }
  std::vector<DType> dtypes;
  for (const OperandMeta& input : problem.inputs) dtypes.push_back(input.dtype);
  problem.family = family_of(arguments.name, dtypes, out.dtype);
  if (!are_fixed(out.sizes) || !are_fixed(out.strides) || !are_fixed(arguments.integers)) return std::nullopt;
  problem.outputs.push_back({.dtype = out.dtype, .sizes = numbers_of(out.sizes), .strides = numbers_of(out.strides)});
  problem.integers = numbers_of(arguments.integers);
  for (const auto& number : arguments.numbers) {
    const auto* value = std::get_if<double>(&number);
    if (value == nullptr) return std::nullopt;
    problem.numbers.push_back(*value);
  }
  return problem;
}

bool has_choices(const Problem& problem) {
  const auto families = runtime_choices().families();
  return std::any_of(families.begin(), families.end(),
                     [&](const KernelFamily& family) { return family.name == problem.family && !family.malformed(problem); });
}

std::optional<Problem> problem_of(const Program& program, const loop::LoopProgram& loops, const schedule::ChainStep& chain) {
  Problem problem;
  for (const schedule::CallStep& call : chain.calls) {
    std::optional<Problem> stage = problem_of(program, loops, call);
    if (!stage) return std::nullopt;
    problem.stages.push_back(std::move(*stage));
  }
  problem.family = family_of("chain", {}, problem.stages.back().outputs[0].dtype);
  return problem;
}

// Problems that are asked about together, and where their answers go.
class Questions {
 public:
  void add(const std::optional<Problem>& problem, std::string& choice) {
    if (!problem || !has_choices(*problem)) return;
    problems_.push_back(*problem);
    choices_.push_back(&choice);
  }
  void ask(tune::Tuner& tuner) {
    const std::vector<const tune::Decision*> decisions = tuner.choose_all(problems_);
    for (size_t i = 0; i < decisions.size(); ++i) *choices_[i] = decisions[i]->choice;
  }

 private:
  std::vector<Problem> problems_;
  std::vector<std::string*> choices_;
};

// Asks about all steps of this kind.
template <class Kind>
void ask_about(std::vector<schedule::ScheduledGraph>& graphs, const Program& program, tune::Tuner& tuner) {
  Questions questions;
  for (schedule::ScheduledGraph& graph : graphs) {
    for (schedule::Step& step : graph.schedule.steps) {
      if (auto* const own = std::get_if<Kind>(&step)) questions.add(problem_of(program, *graph.schedule.loops, *own), own->choice);
    }
  }
  questions.ask(tuner);
}

void choose_chains(std::vector<schedule::ScheduledGraph>& graphs, const Program& program, tune::Tuner& tuner) {
  ask_about<schedule::ChainStep>(graphs, program, tuner);
  for (schedule::ScheduledGraph& graph : graphs) {
    std::vector<size_t> apart;
    for (size_t s = 0; s < graph.schedule.steps.size(); ++s) {
      const auto* chain = std::get_if<schedule::ChainStep>(&graph.schedule.steps[s]);
      if (chain != nullptr && chain->choice == kApart) apart.push_back(s);
    }
    schedule::take_chains_apart(graph.schedule, apart);
  }
}

}  // namespace

std::string why_no_choice(const Program& program, const loop::LoopProgram& loops, const schedule::CallStep& step) {
  const std::string name = schedule::call_arguments(step.call).name;
  const std::optional<Problem> problem = problem_of(program, loops, step);
  if (!problem) return fmt::format("{}, which chooses when it is called, since its sizes are not fixed", name);
  for (const KernelFamily& family : runtime_choices().families()) {
    if (family.name != problem->family) continue;
    const std::optional<std::string> fault = family.malformed(*problem);
    return fault ? fmt::format("{}, which chooses when it is called, since {}", name, *fault) : name;
  }
  return name + ", which has one implementation";
}

void choose_kernels(std::vector<schedule::ScheduledGraph>& graphs, const Program& program, tune::Tuner& tuner) {
  choose_chains(graphs, program, tuner);
  ask_about<schedule::CallStep>(graphs, program, tuner);
}

}  // namespace toroid
