// toroid explain MODEL: the steps that the model becomes, and for each pair of operators why they are one step or two. With --mode max or
// --lock also which implementation computes each library call, and what became of the others.
#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "build_flags.h"
#include "codegen/wrapper/generate.h"
#include "command.h"
#include "driver/choices/choose_kernels.h"
#include "driver/choices/halide_kernels.h"
#include "driver/compile.h"
#include "driver/pipeline/pass_costs.h"
#include "explain/gpu_kernels.h"
#include "flags.h"
#include "graph/custom/custom_operators.h"
#include "json_text.h"
#include "lower/lower.h"
#include "passes/constant_values.h"
#include "passes/pipeline.h"
#include "runtime/kernels/gemm/int8/gemm.h"
#include "runtime/kernels/registry/registry.h"
#include "schedule/call_arguments.h"
#include "support/text/byte_size.h"

namespace toroid::cli {
namespace {

std::string operator_text(const Provenance& from) {
  if (from.op.empty()) return from.name.empty() ? "(made by toroid)" : from.name;
  return to_string(from);
}

std::string short_text(const Provenance& from) {
  return from.op.empty() ? operator_text(from) : fmt::format("{} ({})", from.name, from.op);
}

// Is it meant by `name`: "gelu_1" (the node), "gelu" or "aten::gelu" (every node of the operator, whichever overload)?
bool is_called(const Provenance& from, std::string_view name) {
  std::string_view op = from.op;
  op = op.substr(0, op.find('.'));
  const size_t colon = op.rfind(':');
  return !from.op.empty() && (from.name == name || from.op == name || op == name || (colon != op.npos && op.substr(colon + 1) == name));
}

void check_is_known(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const Provenance& from : graph.provenances()) {
    if (is_called(from, name)) return;
    if (!from.op.empty() && std::find(names.begin(), names.end(), from.op) == names.end()) names.push_back(from.op);
  }
  throw Error(ErrorKind::InvalidOption, fmt::format("the model has no operator or node called '{}'", name))
      .help(fmt::format("its operators: {}", fmt::join(names, ", ")));
}

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

// The operators that are computed anew in several steps, since each needs them and none stores them: those of which the core-level graph
// has element-wise work alone, so that they are never spread over steps.
std::map<size_t, std::vector<size_t>> recomputed(const Graph& graph, const std::vector<schedule::Step>& steps) {
  enum class Work { None, Elementwise, Other };
  std::vector<Work> work(graph.provenances().size(), Work::None);
  for (const Node& node : graph.nodes()) {
    Work& known = work[static_cast<size_t>(node.provenance)];
    const bool is_elementwise = std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<Cast>(node.op);
    const bool moves = std::holds_alternative<Expand>(node.op) || std::holds_alternative<Permute>(node.op) ||
                       std::holds_alternative<Reshape>(node.op) || std::holds_alternative<Slice>(node.op) ||
                       std::holds_alternative<Full>(node.op) || std::holds_alternative<Constant>(node.op);
    if (is_elementwise && known == Work::None) known = Work::Elementwise;
    if (!is_elementwise && !moves) known = Work::Other;
  }
  std::map<size_t, std::vector<size_t>> places;
  for (size_t s = 0; s < steps.size(); ++s) {
    for (ProvenanceId id : schedule::provenance_of(steps[s])) {
      if (work[static_cast<size_t>(id)] == Work::Elementwise) places[static_cast<size_t>(id)].push_back(s);
    }
  }
  std::erase_if(places, [](const auto& place) { return place.second.size() < 2; });
  return places;
}

// Where a computation is, by what it writes: "step 3", or "before the first call".
class StepFinder {
 public:
  explicit StepFinder(const schedule::Schedule& schedule) {
    for (size_t s = 0; s < schedule.steps.size(); ++s) {
      for (schedule::BufferId id : schedule::writes_of(schedule.steps[s])) steps_.emplace(id, s);
    }
  }
  std::optional<size_t> find(const std::vector<schedule::BufferId>& results) const {
    for (schedule::BufferId id : results) {
      if (const auto found = steps_.find(id); found != steps_.end()) return found->second;
    }
    return std::nullopt;
  }

 private:
  std::map<schedule::BufferId, size_t> steps_;
};

// Decisions about the same operators in the same steps: an operator such as softmax is several loops.
struct Pair {
  const schedule::FusionDecision* decision;
  std::optional<size_t> from, to;    // steps
  std::vector<std::string> reasons;  // all that differ
};

void add_pair(std::vector<Pair>& pairs, const schedule::FusionDecision& decision, std::optional<size_t> from, std::optional<size_t> to) {
  const auto known = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
    return pair.decision->producer == decision.producer && pair.decision->consumer == decision.consumer && pair.from == from &&
           pair.to == to;
  });
  if (known == pairs.end()) {
    pairs.push_back({&decision, from, to, {decision.reason}});
  } else if (std::find(known->reasons.begin(), known->reasons.end(), decision.reason) == known->reasons.end()) {
    known->reasons.push_back(decision.reason);
  }
}

std::string place_text(std::optional<size_t> step) { return step ? fmt::format("step {}", *step) : "once, before the first call"; }

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

// Those in which both operators are computed.
std::vector<size_t> steps_with(const Graph& graph, const std::vector<schedule::Step>& steps, std::string_view a, std::string_view b) {
  std::vector<size_t> found;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::vector<ProvenanceId>& from = schedule::provenance_of(steps[i]);
    const auto has = [&](std::string_view name) {
      return std::any_of(from.begin(), from.end(), [&](ProvenanceId id) { return is_called(graph.provenance(id), name); });
    };
    if (has(a) && has(b)) found.push_back(i);
  }
  return found;
}

// Which pairs and steps are asked for.
struct Filter {
  std::string op;                    // those in which this operator takes part; empty: all
  std::vector<std::string> between;  // those of these two operators, in either order; empty: all

  bool is_set() const { return !op.empty() || !between.empty(); }
  bool takes(const Provenance& producer, const Provenance& consumer) const {
    const auto joins = [&](size_t a, size_t b) { return is_called(producer, between[a]) && is_called(consumer, between[b]); };
    if (!between.empty() && !joins(0, 1) && !joins(1, 0)) return false;
    return op.empty() || is_called(producer, op) || is_called(consumer, op);
  }
  bool takes(const Provenance& from) const {
    if (!op.empty()) return is_called(from, op);
    return between.empty() || is_called(from, between[0]) || is_called(from, between[1]);
  }
};

}  // namespace

int cmd_explain(int argc, const char* const* argv) {
  std::string path, json_path, mode = "default";
  CompileModelOptions options;
  ChooseOptions& choose = options.choose;
  std::string lock_path;
  bool all = false;
  Filter filter;
  std::string device = "cpu";
  Flags flags("explain", "Says what each step of a model is made of, and why operators are one step or two.");
  flags.add_option("MODEL", path, "a .pt2 file, or a program in text form (.txt)").required();
  flags.add_flag("--all", all, "name also the pairs that are one step, and those of which one is computed once");
  flags.add_option("--op", filter.op,
                   "only the steps and pairs in which this operator takes part: aten::gelu, gelu, or a node's name as gelu_1");
  flags.add_option("--between", filter.between, "only the pairs of these two operators, as in --between linear layer_norm");
  flags.add_option("--json", json_path, "write all pairs as JSON");
  flags.add_option("--mode", mode, "max: measure the implementations of library kernels, and say which are used")
      .one_of({"default", "max"})
      .shows_default();
  flags.add_option("--tune-threads", choose.threads, "threads that a kernel has while implementations are measured (default: all)")
      .between(1, 1024);
  add_tune_limit(flags, choose);
  flags.add_option("--lock", lock_path, "take the choices of implementations from this file, and say them");
  flags
      .add_option("--device", device,
                  "cuda, as-exported, rocm: say what each kernel takes of the GPU, and what is copied; halide: which kernels are in Halide")
      .shows_default();
  add_operators_flag(flags, options);
  flags.add_option("--without-pass", options.without_passes, "leave out a graph pass; may be repeated: " + optional_pass_names());
  if (const auto status = flags.read(argc, argv)) return *status;
  if (!filter.between.empty() && filter.between.size() != 2) {
    throw Error(ErrorKind::InvalidOption, fmt::format("--between takes two operators, and {} are given", filter.between.size()))
        .help("write the model first: toroid explain MODEL --between linear layer_norm");
  }

  set_device(options, device);
  if (!json_path.empty()) check_writable(json_path);
  choose.measure = mode == "max";
  if (!lock_path.empty()) choose.lock = tune::ChoiceLock::read(lock_path);
  Program program = CompileSession::import(path, options);
  if (is_device(options.target) && choose.measure && !choose.lock) {
    choose.lock = explain_gpu_ways(CompileSession::import(path, options), options);
  }
  if (is_device(options.target)) {
    explain_gpu_kernels(std::move(program), options);
    return 0;
  }
  run_passes(program, {.without = options.without_passes, .costs = pass_costs()});
  const Graph& graph = program.graph;
  for (const std::string& name : filter.between) check_is_known(graph, name);
  if (!filter.op.empty()) check_is_known(graph, filter.op);
  std::vector<schedule::FusionDecision> decisions;
  auto graphs = schedule::schedule_graphs(lower(program), true, &decisions, forms_of(options));
  std::vector<tune::Decision> choices;
  if (choose.is_asked()) {
    Cache cache;
    tune::Tuner tuner(runtime_choices(), cache, tuner_options(choose));
    choose_kernels(graphs, program, tuner);
    choices = tuner.decisions();
  }
  std::vector<std::string> not_in_halide;
  if (!options.halide.empty()) not_in_halide = take_halide(graphs, options.halide);
  const schedule::Schedule& schedule = graphs[0].schedule;
  const StepFinder finder(schedule);

  fmt::print("{} steps{}\n", schedule.steps.size(),
             schedule.prepare.empty() ? "" : fmt::format(", and {} that run once, before the first call", schedule.prepare.size()));
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const std::vector<ProvenanceId>& from = schedule::provenance_of(schedule.steps[i]);
    const bool wanted =
        !filter.is_set() || std::any_of(from.begin(), from.end(), [&](ProvenanceId id) { return filter.takes(graph.provenance(id)); });
    if (wanted) print_step(program, *schedule.loops, schedule.steps[i], i, choose.is_asked());
  }

  for (const std::string& each : not_in_halide) fmt::print("  not in Halide: {}\n", each);

  bool is_first = true;
  for (const auto& [id, steps] : recomputed(graph, schedule.steps)) {
    const Provenance& from = graph.provenances()[id];
    if (from.op.empty() || !filter.takes(from)) continue;
    if (is_first) fmt::print("\ncomputed more than once, in each step that reads the result, instead of being stored:\n");
    is_first = false;
    fmt::print("  {} ({}) is computed {}: in steps {}\n", from.name, from.op,
               steps.size() == 2 ? "twice" : fmt::format("{} times", steps.size()), fmt::join(steps, steps.size() == 2 ? " and " : ", "));
  }

  if (!choices.empty()) fmt::print("\n{} problems of library kernels\n", choices.size());
  for (const tune::Decision& each : choices) fmt::print("{}", table_text(each));
  if (choose.measure) fmt::print("{}", tune::changes_text(choices));

  int64_t fused = 0, apart = 0;
  std::map<std::string, int> reasons;
  for (const schedule::FusionDecision& each : decisions) {
    if (!filter.takes(graph.provenance(each.producer), graph.provenance(each.consumer))) continue;
    (each.is_fused ? fused : apart) += 1;
    if (!each.is_fused) ++reasons[each.reason];
  }
  fmt::print("\n{} of {} pairs of producer and consumer {} one step, {} {} not{}\n", fused, fused + apart, fused == 1 ? "is" : "are", apart,
             apart == 1 ? "is" : "are", apart > 0 ? ":" : "");
  for (const auto& [reason, count] : reasons) fmt::print("  {:4}  {}\n", count, reason);
  if (filter.is_set() && fused + apart == 0) {
    const std::vector<size_t> joint =
        filter.between.empty() ? std::vector<size_t>() : steps_with(graph, schedule.steps, filter.between[0], filter.between[1]);
    if (filter.between.empty()) {
      fmt::print("the operator's result is not read by another step, or it is part of a larger expression: see its step above\n");
    } else if (!joint.empty()) {
      fmt::print(
          "both are computed within step{} {}, where one is part of the other's expression or loop: nothing between them is stored\n",
          joint.size() == 1 ? "" : "s", fmt::join(joint, ", "));
    } else {
      fmt::print("neither reads the other's result directly: try --op with each of them\n");
    }
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::vector<Pair> pairs;
  for (const schedule::FusionDecision& each : decisions) {
    const Provenance& producer = graph.provenance(each.producer);
    const Provenance& consumer = graph.provenance(each.consumer);
    const std::optional<size_t> from = finder.find(each.producer_results), to = finder.find(each.consumer_results);
    const bool is_free = each.reason == schedule::kComputedOnce;
    const bool wanted = filter.is_set() ? filter.takes(producer, consumer) : all || (!each.is_fused && !is_free);
    if (wanted) add_pair(pairs, each, from, to);
    json.push_back({{"producer", short_text(producer)},
                    {"consumer", short_text(consumer)},
                    {"bytes", each.bytes},
                    {"fused", each.is_fused},
                    {"reason", each.reason}});
    const auto add = [&](const char* role, const Provenance& of, std::optional<size_t> step) {
      nlohmann::ordered_json& place = json.back()[fmt::format("{}_place", role)];
      place = {{"op", of.op}, {"module", of.module}, {"source", of.source}};
      if (step) place["step"] = *step;
    };
    add("producer", producer, from);
    add("consumer", consumer, to);
  }
  for (const Pair& pair : pairs) {
    const schedule::FusionDecision& each = *pair.decision;
    fmt::print("\nproducer  {}: {}\nconsumer  {}: {}\n  {}, {}: {}\n", place_text(pair.from),
               operator_text(graph.provenance(each.producer)), place_text(pair.to), operator_text(graph.provenance(each.consumer)),
               each.is_fused ? "one step" : "two steps", byte_size_text(static_cast<uint64_t>(each.bytes)),
               fmt::join(pair.reasons, pair.reasons.size() == 1 ? "" : ";\n    and for another of the consumer's loops: "));
  }
  if (!json_path.empty()) write_file_atomically(json_path, json_text(json) + "\n");
  return 0;
}

}  // namespace toroid::cli
