// For tests: takes a program in text form, at either level, down to its schedule. Nodes come from themselves, so that kernels are
// named after them as in a model.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/text/text.h"
#include "lower/lower.h"
#include "passes/pipeline.h"
#include "schedule/schedule.h"
#include "schedule/text/text.h"

namespace toroid::schedule {

struct Scheduled {
  Program program;  // at core level
  std::vector<OutputBinding> outputs;
  Schedule schedule;
};

inline Scheduled scheduled(std::string_view text, const Planner& planner = cpu_planner(), const LowerOptions& lowering = {}) {
  Scheduled result{parse_text(text), {}, {}};
  Graph& graph = result.program.graph;
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    Node& node = graph.node(NodeId{static_cast<uint32_t>(i)});
    const auto* aten = std::get_if<Aten>(&node.op);
    if (aten == nullptr) continue;
    node.provenance =
        graph.add_provenance({.op = aten->schema->name, .name = graph.value(node.outputs[0]).name, .module = {}, .source = {}});
  }
  run_passes(result.program);
  std::vector<LoweredGraph> lowered = lower(result.program, lowering);
  result.outputs = std::move(lowered[0].outputs);
  result.schedule = make_schedule(std::move(lowered[0].loops), true, nullptr, Forms::Measured, planner);
  return result;
}

inline std::string text_of_schedule(Scheduled made) {
  std::vector<ScheduledGraph> graphs;
  graphs.push_back({std::move(made.schedule), made.outputs});
  return schedule_text(made.program, graphs);
}
// The text once more, of what is read from it.
inline std::string read_back(std::string_view text) {
  const ScheduledProgram read = parse_schedule(text);
  return schedule_text(read.program, read.graphs);
}

// "kernel kernel call+kernel": the kinds of the steps, in order; calls with their epilogues.
inline std::string kinds_of_steps(const Schedule& schedule) {
  constexpr std::string_view kKinds[] = {"kernel", "scan", "scatter", "call", "bind", "chain", "group"};
  std::string text;
  for (const Step& step : schedule.steps) {
    if (!text.empty()) text += ' ';
    text += kKinds[step.index()];
    if (const auto* call = std::get_if<CallStep>(&step); call && call->epilogue) text += "+kernel";
    if (const auto* group = std::get_if<ParallelKernels>(&step)) text += fmt::format("({})", group->kernels.size());
    if (const auto* chain = std::get_if<ChainStep>(&step)) text += fmt::format("({})", chain->calls.size());
  }
  return text;
}

}  // namespace toroid::schedule
