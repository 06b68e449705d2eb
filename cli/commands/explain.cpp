// toroid explain MODEL: the steps that the model becomes, and for each pair of operators why they are one step or two. With --mode max or
// --lock also which implementation computes each library call, and what became of the others.
#include <algorithm>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "build_flags.h"
#include "command.h"
#include "driver/choices/choose_kernels.h"
#include "driver/choices/halide_kernels.h"
#include "driver/compile.h"
#include "driver/pipeline/pass_costs.h"
#include "explain/gpu_kernels.h"
#include "explain/operators.h"
#include "explain/pairs.h"
#include "explain/steps.h"
#include "flags/flags.h"
#include "json_text.h"
#include "lower/lower.h"
#include "passes/pipeline.h"
#include "runtime/kernels/registry/registry.h"

namespace toroid::cli {
namespace {

struct ExplainFlags {
  std::string model, json, lock, mode = "default", device = "cpu";
  bool all = false;
  Filter filter = {};
  CompileModelOptions options = {};
};

std::optional<int> read_explain_flags(ExplainFlags& given, int argc, const char* const* argv) {
  CompileModelOptions& options = given.options;
  ChooseOptions& choose = options.choose;
  Flags flags("toroid explain", "Says what each step of a model is made of, and why operators are one step or two.");
  flags.add_option("MODEL", given.model, "a .pt2 file, or a program in text form (.txt)").required();
  flags.add_flag("--all", given.all, "name also the pairs that are one step, and those of which one is computed once");
  flags.add_option("--op", given.filter.op,
                   "only the steps and pairs in which this operator takes part: aten::gelu, gelu, or a node's name as gelu_1");
  flags.add_option("--between", given.filter.between, "only the pairs of these two operators, as in --between linear layer_norm");
  flags.add_option("--json", given.json, "write all pairs as JSON");
  flags.add_option("--mode", given.mode, "max: measure the implementations of library kernels, and say which are used")
      .one_of({"default", "max"})
      .shows_default();
  flags.add_option("--tune-threads", choose.threads, "threads that a kernel has while implementations are measured (default: all)")
      .between(1, 1024);
  add_tune_limit(flags, choose);
  flags.add_option("--lock", given.lock, "take the choices of implementations from this file, and say them");
  flags
      .add_option("--device", given.device,
                  "cuda, as-exported, rocm: say what each kernel takes of the GPU, and what is copied; halide: which kernels are in Halide")
      .shows_default();
  add_operators_flag(flags, options);
  flags.add_option("--without-pass", options.without_passes, "leave out a graph pass; may be repeated: " + optional_pass_names());
  return flags.read(argc, argv);
}

void print_steps(const Program& program, const schedule::Schedule& schedule, const Filter& filter, bool with_choice) {
  fmt::print("{} steps{}\n", schedule.steps.size(),
             schedule.prepare.empty() ? "" : fmt::format(", and {} that run once, before the first call", schedule.prepare.size()));
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const std::vector<ProvenanceId>& from = schedule::provenance_of(schedule.steps[i]);
    const auto takes = [&](ProvenanceId id) { return filter.takes(program.graph.provenance(id)); };
    if (!filter.is_set() || std::any_of(from.begin(), from.end(), takes))
      print_step(program, *schedule.loops, schedule.steps[i], i, with_choice);
  }
}

void explain_processor(Program program, const ExplainFlags& given) {
  const CompileModelOptions& options = given.options;
  const Filter& filter = given.filter;
  run_passes(program, {.without = options.without_passes, .costs = pass_costs()});
  const Graph& graph = program.graph;
  for (const std::string& name : filter.between) check_is_known(graph, name);
  if (!filter.op.empty()) check_is_known(graph, filter.op);
  std::vector<schedule::FusionDecision> decisions;
  auto graphs = schedule::schedule_graphs(lower(program), true, &decisions, forms_of(options));
  std::vector<tune::Decision> choices;
  if (options.choose.is_asked()) {
    Cache cache;
    tune::Tuner tuner(runtime_choices(), cache, tuner_options(options.choose));
    choose_kernels(graphs, program, tuner);
    choices = tuner.decisions();
  }
  std::vector<std::string> not_in_halide;
  if (!options.halide.empty()) not_in_halide = take_halide(graphs, options.halide);
  const schedule::Schedule& schedule = graphs[0].schedule;
  print_steps(program, schedule, filter, options.choose.is_asked());
  for (const std::string& each : not_in_halide) fmt::print("  not in Halide: {}\n", each);
  print_recomputed(graph, schedule.steps, filter);
  if (!choices.empty()) fmt::print("\n{} problems of library kernels\n", choices.size());
  for (const tune::Decision& each : choices) fmt::print("{}", table_text(each));
  if (options.choose.measure) fmt::print("{}", tune::changes_text(choices));
  print_counts(graph, schedule, decisions, filter);
  print_pairs(graph, schedule, decisions, filter, given.all);
  if (!given.json.empty()) write_file_atomically(given.json, json_text(pairs_json(graph, schedule, decisions)) + "\n");
}

}  // namespace

int cmd_explain(int argc, const char* const* argv) {
  ExplainFlags given;
  if (const auto status = read_explain_flags(given, argc, argv)) return *status;
  if (const size_t count = given.filter.between.size(); count != 0 && count != 2) {
    throw Error(ErrorKind::InvalidOption, fmt::format("--between takes two operators, and {} are given", count))
        .help("write the model first: toroid explain MODEL --between linear layer_norm");
  }
  CompileModelOptions& options = given.options;
  set_device(options, given.device);
  if (!given.json.empty()) check_writable(given.json);
  options.choose.measure = given.mode == "max";
  if (!given.lock.empty()) options.choose.lock = tune::ChoiceLock::read(given.lock);
  Program program = CompileSession::import(given.model, options);
  if (!is_device(options.target)) {
    explain_processor(std::move(program), given);
    return 0;
  }
  if (options.choose.measure && !options.choose.lock)
    options.choose.lock = explain_gpu_ways(CompileSession::import(given.model, options), options);
  explain_gpu_kernels(std::move(program), options);
  return 0;
}

}  // namespace toroid::cli
