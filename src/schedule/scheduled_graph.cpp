#include "schedule/scheduled_graph.h"

#include <fmt/format.h>

namespace toroid::schedule {

std::vector<ScheduledGraph> schedule_graphs(std::vector<LoweredGraph> graphs, bool fuse, std::vector<FusionDecision>* decisions,
                                            Forms forms, const Planner& planner) {
  std::vector<ScheduledGraph> result;
  for (LoweredGraph& graph : graphs) {
    result.push_back(
        {make_schedule(std::move(graph.loops), fuse, result.empty() ? decisions : nullptr, forms, planner), std::move(graph.outputs)});
  }
  return result;
}

std::string to_string(const std::vector<ScheduledGraph>& graphs) {
  std::string text;
  for (size_t i = 0; i < graphs.size(); ++i) {
    if (i > 0) text += fmt::format("\nsubgraph {}\n", i - 1);
    text += to_string(graphs[i].schedule);
  }
  return text;
}

}  // namespace toroid::schedule
