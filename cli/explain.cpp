// toroid explain MODEL: the steps that the model becomes, and for each pair of operators why they are one step or two. With --mode max or --lock also
// which implementation computes each library call, and what became of the others.
#include <map>

#include <nlohmann/json.hpp>

#include "codegen/wrapper/generate.h"
#include "command.h"
#include "driver/choose_kernels.h"
#include "driver/compile.h"
#include "flags.h"
#include "graph/text.h"
#include "json_text.h"
#include "lower/lower.h"
#include "passes/dead_code.h"
#include "passes/decompose/decompose.h"
#include "passes/fold_constants.h"
#include "support/byte_size.h"
#include "support/file.h"

namespace toroid::cli {
namespace {

std::string operator_text(const Graph& graph, ProvenanceId id) {
  const Provenance& from = graph.provenance(id);
  if (from.op.empty()) return from.name.empty() ? "(made by toroid)" : from.name;
  return fmt::format("{} ({})", from.name, from.op);
}

// What several stages need: kept or computed again, and why.
std::string form_text(const schedule::Kernel& kernel) {
  const std::string_view form = schedule::to_string(*kernel.form);
  const auto& [persistent, looped] = kernel.form_estimate;
  const std::string costs = fmt::format("by estimate {:.1f} cycles a vector where values are kept, {:.1f} where they are computed again",
                                        persistent, looped);
  if (kernel.other_forms.empty()) return fmt::format("{}: {}", form, costs);
  return fmt::format("persistent or looped, the first call finds out: {}", costs);
}

// Which implementation was chosen; "" where none was.
std::string choice_of(const schedule::Step& step) {
  if (const auto* call = std::get_if<schedule::CallStep>(&step)) return call->choice;
  if (const auto* chain = std::get_if<schedule::ChainStep>(&step)) return chain->choice;
  return "";
}

}  // namespace

int cmd_explain(int argc, const char* const* argv) {
  std::string path, json_path, mode = "default";
  ChooseOptions choose;
  std::string lock_path;
  bool all = false;
  Flags flags("explain", "Says what each step of a model is made of, and why operators are one step or two.");
  flags.add_option("MODEL", path, "a .pt2 file, or a program in text form (.txt)").required();
  flags.add_flag("--all", all, "name also the pairs that are one step, and those of which one is computed once");
  flags.add_option("--json", json_path, "write all pairs as JSON");
  flags.add_option("--mode", mode, "max: measure the implementations of library kernels, and say which are used").one_of({"default", "max"}).shows_default();
  flags.add_option("--tune-threads", choose.threads, "of a call, where implementations are measured (default: all)").between(1, 1024);
  flags.add_option("--lock", lock_path, "take the choices of implementations from this file, and say them");
  if (const auto status = flags.read(argc, argv)) return *status;

  if (!json_path.empty()) check_writable(json_path);
  Program program = std::filesystem::path(path).extension() == ".txt" ? parse_text(read_file(path)) : CompileSession::import(path);
  decompose(program);
  fold_constants(program);
  remove_dead_code(program);
  std::vector<schedule::FusionDecision> decisions;
  auto graphs = codegen::schedule_graphs(lower(program), true, &decisions);
  choose.measure = mode == "max";
  if (!lock_path.empty()) choose.lock = tune::ChoiceLock::read(lock_path);
  std::vector<tune::Decision> choices;
  if (choose.is_asked()) {
    Cache cache;
    tune::Tuner tuner(runtime_choices(), cache, tuner_options(choose));
    choose_kernels(graphs, program, tuner);
    choices = tuner.decisions();
  }
  const Graph& graph = program.graph;
  const schedule::Schedule& schedule = graphs[0].schedule;

  fmt::print("{} steps{}\n", schedule.steps.size(),
             schedule.prepare.empty() ? "" : fmt::format(", and {} that run once, before the first call", schedule.prepare.size()));
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const schedule::Step& step = schedule.steps[i];
    const auto* call = std::get_if<schedule::CallStep>(&step);
    const std::string_view kind = std::holds_alternative<schedule::ChainStep>(step) ? "library calls, band by band of rows"
                                  : std::holds_alternative<schedule::GroupStep>(step) ? "kernels, started together"
                                  : call == nullptr                                  ? "kernel"
                                  : call->epilogue                                   ? "library call with an epilogue"
                                                                                     : "library call";
    fmt::print("{}: {}, {}\n", i, schedule::name_of(step), std::holds_alternative<schedule::BindStep>(step) ? "a number is read" : kind);
    if (const std::string choice = choice_of(step); !choice.empty()) fmt::print("    computed by {}\n", choice);
    if (const auto* kernel = std::get_if<schedule::Kernel>(&step); kernel != nullptr && kernel->form) fmt::print("    {}\n", form_text(*kernel));
    for (ProvenanceId id : schedule::provenance_of(step)) {
      if (!graph.provenance(id).op.empty()) fmt::print("    {}\n", operator_text(graph, id));
    }
  }

  if (!choices.empty()) fmt::print("\n{} problems of library kernels\n", choices.size());
  for (const tune::Decision& each : choices) fmt::print("{}", table_text(each));

  int64_t fused = 0, apart = 0;
  std::map<std::string, int> reasons;
  for (const schedule::FusionDecision& each : decisions) {
    (each.is_fused ? fused : apart) += 1;
    if (!each.is_fused) ++reasons[each.reason];
  }
  fmt::print("\n{} pairs of producer and consumer are one step, {} are not{}\n", fused, apart, apart > 0 ? ":" : "");
  for (const auto& [reason, count] : reasons) fmt::print("  {:4}  {}\n", count, reason);
  fmt::print("\n");
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const schedule::FusionDecision& each : decisions) {
    const std::string producer = operator_text(graph, each.producer), consumer = operator_text(graph, each.consumer);
    const bool is_free = each.reason == schedule::kComputedOnce;
    if (all || (!each.is_fused && !is_free)) {
      fmt::print("{} -> {}, {}: {}\n", producer, consumer, byte_size_text(static_cast<uint64_t>(each.bytes)), each.reason);
    }
    json.push_back({{"producer", producer}, {"consumer", consumer}, {"bytes", each.bytes}, {"fused", each.is_fused}, {"reason", each.reason}});
  }
  if (!json_path.empty()) write_file_atomically(json_path, json_text(json) + "\n");
  return 0;
}

}  // namespace toroid::cli
